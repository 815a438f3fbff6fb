"""Tokens on disk, and batches of them by token budget (§5.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer.tokenizer import BOS, EOS, PAD

Ids = NDArray[np.int32]


class Sequences:
    """Many token sequences in one array: ``ids[ends[i - 1] : ends[i]]`` is the i-th. On disk two ``.npy`` files."""

    def __init__(self, ids: Ids, ends: NDArray[np.int64]) -> None:
        self.ids, self.ends = ids, ends

    @classmethod
    def pack(cls, sequences: Sequence[Sequence[int]]) -> "Sequences":
        """Lay sequences of ids end to end."""
        ends = np.cumsum([len(s) for s in sequences], dtype=np.int64)
        ids = np.fromiter((i for s in sequences for i in s), dtype=np.int32, count=int(ends[-1]) if len(ends) else 0)
        return cls(ids, ends)

    def save(self, folder: Path, name: str) -> None:
        """Write ``name.ids.npy`` and ``name.ends.npy``."""
        np.save(folder / f"{name}.ids.npy", self.ids)
        np.save(folder / f"{name}.ends.npy", self.ends)

    @classmethod
    def load(cls, folder: Path, name: str) -> "Sequences":
        """Map the two files into memory; nothing is read before it is asked for."""
        return cls(
            np.load(folder / f"{name}.ids.npy", mmap_mode="r", allow_pickle=False),
            np.load(folder / f"{name}.ends.npy", allow_pickle=False),
        )

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> Ids:
        return self.ids[self.ends[index - 1] if index else 0 : self.ends[index]]

    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each sequence, (count,), int64."""
        return np.diff(self.ends, prepend=0)


@dataclass(frozen=True)
class Batch:
    """What the model is given at once; every row is filled up with padding at its end."""

    source: Tensor
    """Source ids and eos, (batch, source), int64."""
    decoder_input: Tensor
    """bos and target ids, (batch, target), int64: what the decoder reads."""
    expected: Tensor
    """Target ids and eos, (batch, target), int64: what it should say, one position to the left."""

    @property
    def n_tokens(self) -> int:
        """Target tokens that count in the loss: all but padding."""
        return int((self.expected != PAD).sum())

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device."""
        return Batch(*(t.to(device, non_blocking=True) for t in (self.source, self.decoder_input, self.expected)))


def pad(sequences: Sequence[Sequence[int] | Ids]) -> Tensor:
    """Rows of ids, filled up with padding to the longest: (len(sequences), longest), int64."""
    out = np.full((len(sequences), max(len(s) for s in sequences)), PAD, dtype=np.int64)
    for row, sequence in zip(out, sequences, strict=True):
        row[: len(sequence)] = sequence
    return torch.from_numpy(out)


def collate(sources: Sequences, targets: Sequences, indices: Sequence[int] | NDArray[np.int64]) -> Batch:
    """Make a batch of these pairs: eos behind the source, and the target twice, shifted against itself (§3.1)."""
    return Batch(
        source=pad([np.append(sources[i], EOS) for i in indices]),
        decoder_input=pad([np.insert(targets[i], 0, BOS) for i in indices]),
        expected=pad([np.append(targets[i], EOS) for i in indices]),
    )


def token_batches(
    sources: Sequences, targets: Sequences, batch_tokens: int, seed: int | None = None
) -> list[NDArray[np.int64]]:
    """Group all pairs, each once, into batches of similar length and bounded size.

    Pairs are sorted by length, so that little is padding, and cut where rows × longest row would pass the budget on
    either side; a pair longer than the budget has a batch of its own.

    Args:
        batch_tokens: at most this many tokens a side in a batch, padding, bos and eos included.
        seed: shuffles the batches, and pairs of equal length among them; another for each epoch. None: sorted.

    Returns:
        Indices of pairs, one array a batch.
    """
    rng = None if seed is None else np.random.default_rng(seed)
    order = np.arange(len(targets)) if rng is None else rng.permutation(len(targets))
    n_source, n_target = sources.lengths()[order] + 1, targets.lengths()[order] + 1
    by_length = np.lexsort((n_source, n_target))
    order, n_source, n_target = order[by_length], n_source[by_length], n_target[by_length]
    cuts, widest, start = [], 0, 0
    for i, size in enumerate(np.maximum(n_source, n_target).tolist()):
        if i > start and max(widest, size) * (i - start + 1) > batch_tokens:
            cuts.append(i)
            start, widest = i, 0
        widest = max(widest, size)
    batches = np.split(order, cuts)
    if rng is not None:
        rng.shuffle(batches)
    return batches
