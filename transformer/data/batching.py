"""Tokens on disk, and batches of them by token budget (§5.1)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.errors import UserError

Ids = NDArray[np.uint16] | NDArray[np.int32]
Indices = NDArray[np.int64]

PADDED_LIMIT = 1.5
"""Neither side of a batch, padding included, has more than so many times ``batch_tokens`` cells."""
TARGET_STEP = 4
"""Target lengths that differ by less than this may be batched together: see `by_length`."""


class Sequences:
    """Many token sequences in one array: ``ids[ends[i - 1] : ends[i]]`` is the i-th. On disk two ``.npy`` files.

    ``ids`` is uint16 where all ids fit, which halves the store, and int32 otherwise; ``ends`` is int64.
    """

    def __init__(self, ids: Ids, ends: Indices) -> None:
        self.ids, self.ends = ids, ends

    @classmethod
    def pack(cls, sequences: Sequence[Sequence[int]]) -> "Sequences":
        """Lay sequences of ids end to end."""
        ends = np.cumsum([len(s) for s in sequences], dtype=np.int64)
        ids = np.fromiter((i for s in sequences for i in s), dtype=np.int32, count=int(ends[-1]) if len(ends) else 0)
        narrow = ids.astype(np.uint16)
        return cls(narrow if (narrow == ids).all() else ids, ends)

    @classmethod
    def load(cls, folder: Path, name: str) -> "Sequences":
        """Map the two files into memory; nothing is read before it is asked for.

        Raises:
            UserError: if a file is missing or cut off, or the two do not belong together.
        """
        path = folder / f"{name}.ids.npy"
        ids, ends = _map_array(path), _map_array(folder / f"{name}.ends.npy")
        if ids.dtype not in (np.uint16, np.int32) or ends.dtype != np.int64 or ends[-1:].sum() != len(ids):
            raise UserError(f"{path} does not fit {name}.ends.npy beside it: delete the folder and prepare it again")
        return cls(ids, ends)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> Ids:
        return self.ids[self.ends[index - 1] if index else 0 : self.ends[index]]

    def lengths(self) -> Indices:
        """Tokens of each sequence, (count,), int64."""
        return np.diff(self.ends, prepend=0)


class SequencesWriter:
    """Writes `Sequences` to ``name.ids.npy`` and ``name.ends.npy``, some at a time: they need not be all in memory."""

    def __init__(self, folder: Path, name: str, vocab_size: int) -> None:
        self.ids = _GrowingArray(folder / f"{name}.ids.npy", np.uint16 if vocab_size <= 1 << 16 else np.int32)
        self.ends = _GrowingArray(folder / f"{name}.ends.npy", np.int64)

    def extend(self, sequences: Sequence[Sequence[int]]) -> None:
        """Add sequences of ids, all below ``vocab_size``."""
        added = Sequences.pack(sequences)
        self.ends.append(added.ends + self.ids.length)
        self.ids.append(added.ids)

    def __enter__(self) -> "SequencesWriter":
        return self

    def __exit__(self, *_: object) -> None:
        with self.ids.file, self.ends.file:  # closed even where the disk is full
            self.ids.finish()
            self.ends.finish()


class _GrowingArray:
    """A one-dimensional ``.npy`` file; numpy leaves room in its header for any length."""

    def __init__(self, path: Path, dtype: type[np.generic]) -> None:
        self.file, self.dtype, self.length = path.open("wb"), np.dtype(dtype), 0
        self._write_header()

    def append(self, array: NDArray[Any]) -> None:
        self.file.write(array.astype(self.dtype).tobytes())
        self.length += len(array)

    def finish(self) -> None:
        self.file.seek(0)
        self._write_header()

    def _write_header(self) -> None:
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(self.file, header)


def _map_array(path: Path) -> NDArray[Any]:
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is missing or damaged: delete its folder and prepare it again") from error
    return np.asarray(array)  # the same file, without memmap's extra work at each access


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


def collate(sources: Sequences, targets: Sequences, indices: Sequence[int] | Indices) -> Batch:
    """Make a batch of these pairs: eos behind the source, and the target twice, shifted against itself (§3.1)."""
    indices = np.asarray(indices, dtype=np.int64)
    rows = np.arange(len(indices))
    source, n_source = _gather(sources, indices)
    source[rows, n_source] = EOS
    expected, n_target = _gather(targets, indices)
    decoder_input = np.full_like(expected, BOS)
    decoder_input[:, 1:] = expected[:, :-1]  # eos is not there yet
    expected[rows, n_target] = EOS
    return Batch(torch.from_numpy(source), torch.from_numpy(decoder_input), torch.from_numpy(expected))


def _gather(sequences: Sequences, indices: Indices) -> tuple[Indices, Indices]:
    """Padded rows (len(indices), width) with room for one more token in each, and how long they are; both int64."""
    starts = np.where(indices == 0, 0, sequences.ends[indices - 1])
    lengths = sequences.ends[indices] - starts
    columns = np.arange(int(lengths.max()) + 1)
    real = columns < lengths[:, None]  # (rows, width)
    out = np.full(real.shape, PAD, dtype=np.int64)
    out[real] = sequences.ids[(starts[:, None] + columns)[real]]
    return out, lengths


def by_length(n_source: Indices, n_target: Indices, shift: int = 0) -> Indices:
    """Indices of all pairs, (pairs,), such that neighbours have similar lengths on both sides.

    Sorting by target and then source length would make the source jump from its longest to its shortest at every new
    target length. So the order is a snake's path: with each step of target length the source length runs up or down
    in turn, and within each source length so does what is left to choose of the target length. Pairs of equal lengths
    stay in the order they come in. Another ``shift``, from 0 to ``2 * TARGET_STEP - 1``, is another path.
    """
    step = (n_target + shift) // TARGET_STEP
    source_key = np.where(step % 2, -n_source, n_source)
    target_key = np.where((step + n_source) % 2, -n_target, n_target)
    return np.lexsort((target_key, source_key, step))  # the last key counts most


def token_batches(
    sources: Sequences, targets: Sequences, batch_tokens: int, seed: int | Sequence[int] | None = None, ranks: int = 1
) -> list[Indices]:
    """Group all pairs, each once, into batches of similar length and equal size.

    A batch takes the next pairs of `by_length` until one more would pass ``batch_tokens`` target tokens, or until a
    side with its padding would pass `PADDED_LIMIT`: the few whose sources are far longer than their targets. A pair
    that is too long by itself has a batch of its own. So all batches but those few and the last are nearly full.

    Args:
        batch_tokens: at most this many target tokens in a batch, eos included, padding not.
        seed: chooses the path, and shuffles pairs of equal lengths and then the batches. None: sorted.
        ranks: the number of batches is a multiple of this. To make it so, up to ``ranks - 1`` batches are halved.

    Returns:
        Indices of pairs, one array a batch.

    Raises:
        UserError: if the sides have not equally many sequences, or there is nothing left to halve.
    """
    if len(sources) != len(targets):
        raise UserError(f"{len(sources)} sources, but {len(targets)} targets: prepare the data again")
    rng = None if seed is None else np.random.default_rng(seed)
    order = np.arange(len(targets)) if rng is None else rng.permutation(len(targets))
    n_source, n_target = sources.lengths()[order] + 1, targets.lengths()[order] + 1
    path = by_length(n_source, n_target, 0 if rng is None else int(rng.integers(2 * TARGET_STEP)))
    order, n_source, n_target = order[path], n_source[path], n_target[path]

    total = np.cumsum(n_target)  # target tokens up to and with each pair
    widest = np.maximum(n_source, n_target)
    batches, start, used = [], 0, 0
    while start < len(order):
        end = int(np.searchsorted(total, used + batch_tokens, side="right"))
        sizes = np.maximum.accumulate(widest[start:end]) * np.arange(1, end - start + 1)  # padding included
        rows = max(1, int(np.searchsorted(sizes, PADDED_LIMIT * batch_tokens, side="right")))
        batches.append(order[start : start + rows])
        start += rows
        used = int(total[start - 1])

    while len(batches) % ranks:
        largest = max(range(len(batches)), key=lambda i: len(batches[i]))
        if len(batches[largest]) == 1:
            raise UserError(f"{len(batches)} batches of one pair are not to be shared by {ranks} ranks: start fewer")
        batches[largest : largest + 1] = np.array_split(batches[largest], 2)
    if rng is not None:
        rng.shuffle(batches)
    return batches


@dataclass
class Batches(Iterator[Batch]):
    """One rank's batches, epoch after epoch without end: in each, every pair is in one batch of one rank.

    Each epoch has an order of its own, made from the seed, and equally many steps on every rank. Where the batches
    stand is (``epoch``, ``step``), the next to come: made with these again, they go on from there. N ranks with one
    part take together the batches that one rank takes with N parts.
    """

    sources: Sequences
    targets: Sequences
    batch_tokens: int
    seed: int
    rank: int = 0
    ranks: int = 1
    parts: int = 1
    """An epoch has a multiple of so many batches for every rank: gradients of so many are added up."""
    epoch: int = 0
    step: int = 0
    plan: list[Indices] = field(init=False, repr=False)
    """This rank's pairs in this epoch, an array a step."""

    def __post_init__(self) -> None:
        if not len(self.sources):
            raise UserError("there are no sentence pairs to learn from")
        self._start_epoch()

    def _start_epoch(self) -> None:
        multiple = self.ranks * self.parts
        batches = token_batches(self.sources, self.targets, self.batch_tokens, (self.seed, self.epoch), multiple)
        self.plan = batches[self.rank :: self.ranks]

    def __next__(self) -> Batch:
        if self.step >= len(self.plan):
            self.epoch, self.step = self.epoch + 1, 0
            self._start_epoch()
        self.step += 1
        return collate(self.sources, self.targets, self.plan[self.step - 1])
