"""Store token ids on disk, and group sentence pairs of similar length into batches by number of tokens (§5.1)."""

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

MAX_PADDED_RATIO = 1.5
"""Each side of a batch, padded to its longest sentence, has at most this many times ``max_tokens`` positions.

A batch of a single pair may have more.
"""
TARGET_BUCKET_WIDTH = 4
"""How many consecutive target lengths share a bucket in `serpentine_order`."""


class Sequences:
    """Many token sequences, concatenated into one array. On disk they are two ``.npy`` files.

    The i-th sequence is ``ids[ends[i - 1] : ends[i]]``. ``ids`` is uint16 if every id fits, which halves its size, and
    int32 otherwise; ``ends`` is int64.
    """

    def __init__(self, ids: Ids, ends: Indices) -> None:
        self.ids, self.ends = ids, ends

    @classmethod
    def pack(cls, sequences: Sequence[Sequence[int]]) -> "Sequences":
        """Concatenate sequences of ids."""
        ends = np.cumsum([len(s) for s in sequences], dtype=np.int64)
        ids = np.fromiter((i for s in sequences for i in s), dtype=np.int32, count=int(ends[-1]) if len(ends) else 0)
        narrow = ids.astype(np.uint16)
        return cls(narrow if (narrow == ids).all() else ids, ends)

    @classmethod
    def load(cls, folder: Path, name: str) -> "Sequences":
        """Memory-map the two files, so that ids are read from disk only when they are needed.

        Raises:
            UserError: if a file is missing or truncated, or the two do not belong together.
        """
        path = folder / f"{name}.ids.npy"
        ids, ends = _map_array(path), _map_array(folder / f"{name}.ends.npy")
        if ids.dtype not in (np.uint16, np.int32) or ends.dtype != np.int64 or ends[-1:].sum() != len(ids):
            raise UserError(f"{path} does not match {name}.ends.npy: delete the folder and prepare the data again")
        return cls(ids, ends)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> Ids:
        return self.ids[self.ends[index - 1] if index else 0 : self.ends[index]]

    def lengths(self) -> Indices:
        """Number of tokens in each sequence, (n_sequences,), int64."""
        return np.diff(self.ends, prepend=0)


class SequencesWriter:
    """Write `Sequences` to ``name.ids.npy`` and ``name.ends.npy`` in pieces, without holding them all in memory."""

    def __init__(self, folder: Path, name: str, vocab_size: int) -> None:
        self.ids = _GrowingArray(folder / f"{name}.ids.npy", np.uint16 if vocab_size <= 1 << 16 else np.int32)
        self.ends = _GrowingArray(folder / f"{name}.ends.npy", np.int64)

    def extend(self, sequences: Sequence[Sequence[int]]) -> None:
        """Append sequences of ids, all below ``vocab_size``."""
        packed = Sequences.pack(sequences)
        self.ends.append(packed.ends + self.ids.length)
        self.ids.append(packed.ids)

    def __enter__(self) -> "SequencesWriter":
        return self

    def __exit__(self, *_: object) -> None:
        with self.ids.file, self.ends.file:  # closes both even if the disk is full
            self.ids.finish()
            self.ends.finish()


class _GrowingArray:
    """A one-dimensional ``.npy`` file that grows; numpy pads its header, so the final length always fits."""

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
        raise UserError(f"{path} is missing or damaged: delete its folder and prepare the data again") from error
    return np.asarray(array)  # still memory-mapped, but faster to index than np.memmap


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as tensors of ids, with padding at the end of each row."""

    source: Tensor
    """Source ids, then eos, (batch, source), int64."""
    decoder_input: Tensor
    """bos, then the target ids, (batch, target), int64: the decoder's input (teacher forcing)."""
    labels: Tensor
    """Target ids, then eos, (batch, target), int64: the tokens to predict, ``decoder_input`` shifted left by one."""

    @property
    def n_tokens(self) -> int:
        """Number of target tokens that enter the loss: all except padding."""
        return int((self.labels != PAD).sum())

    def pin_memory(self) -> "Batch":
        """Return a copy of this batch in page-locked memory, from which a GPU can copy while the host continues."""
        return Batch(self.source.pin_memory(), self.decoder_input.pin_memory(), self.labels.pin_memory())

    def to(self, device: torch.device) -> "Batch":
        """Return this batch on another device; from pinned memory to a GPU, the host doesn't wait for the copy."""
        return Batch(*(t.to(device, non_blocking=True) for t in (self.source, self.decoder_input, self.labels)))


def pad(sequences: Sequence[Sequence[int] | Ids]) -> Tensor:
    """Pad sequences of ids to the longest one: (len(sequences), longest), int64."""
    out = np.full((len(sequences), max(len(s) for s in sequences)), PAD, dtype=np.int64)
    for row, sequence in zip(out, sequences, strict=True):
        row[: len(sequence)] = sequence
    return torch.from_numpy(out)


def collate(sources: Sequences, targets: Sequences, indices: Sequence[int] | Indices) -> Batch:
    """Build a batch from the pairs at ``indices``; the decoder input is the labels shifted right by one (§3.1).

    Each side is padded to the length of its longest sentence.
    """
    indices = np.asarray(indices, dtype=np.int64)
    rows = np.arange(len(indices))
    source, source_lengths = _gather(sources, indices)
    source[rows, source_lengths] = EOS
    labels, target_lengths = _gather(targets, indices)
    decoder_input = np.full_like(labels, BOS)
    decoder_input[:, 1:] = labels[:, :-1]  # before eos is added
    labels[rows, target_lengths] = EOS
    return Batch(torch.from_numpy(source), torch.from_numpy(decoder_input), torch.from_numpy(labels))


def _gather(sequences: Sequences, indices: Indices) -> tuple[Indices, Indices]:
    """Return padded rows, with room for eos in each, (len(indices), longest + 1), and their lengths; both int64."""
    starts = np.where(indices == 0, 0, sequences.ends[indices - 1])
    lengths = sequences.ends[indices] - starts
    columns = np.arange(lengths.max() + 1)
    real = columns < lengths[:, None]  # (rows, width)
    out = np.full(real.shape, PAD, dtype=np.int64)
    out[real] = sequences.ids[(starts[:, None] + columns)[real]]
    return out, lengths


def serpentine_order(source_lengths: Indices, target_lengths: Indices, shift: int = 0) -> Indices:
    """Sort pairs so that neighbours have similar lengths on both sides, and return their indices, (pairs,).

    If pairs were sorted by target length and then by source length, the source length would jump from its maximum back
    to its minimum at every new target length. Serpentine order avoids this. Target lengths are grouped into buckets of
    ``TARGET_BUCKET_WIDTH``; source lengths ascend in one bucket and descend in the next. Within a bucket, pairs
    of equal source length are sorted by target length, ascending for one source length and descending for the next.
    The sort is stable.

    Args:
        source_lengths, target_lengths: number of tokens on each side of the pairs, (pairs,) each.
        shift: moves the bucket boundaries; each value from 0 to ``2 * TARGET_BUCKET_WIDTH - 1`` gives another order.
    """
    bucket = (target_lengths + shift) // TARGET_BUCKET_WIDTH
    source_key = np.where(bucket % 2, -source_lengths, source_lengths)
    target_key = np.where((bucket + source_lengths) % 2, -target_lengths, target_lengths)
    return np.lexsort((target_key, source_key, bucket))  # lexsort's last key is the primary one


def token_batches(
    sources: Sequences,
    targets: Sequences,
    max_tokens: int,
    seed: int | Sequence[int] | None = None,
    divisible_by: int = 1,
    pairs: Indices | None = None,
) -> list[Indices]:
    """Split all pairs into batches of similar length with about the same number of target tokens (§5.1).

    A batch takes pairs in `serpentine_order` until the next one would exceed ``max_tokens`` target tokens, or would
    make a side, padded to its longest sentence, larger than ``MAX_PADDED_RATIO * max_tokens``. The second limit
    matters only for the few pairs whose source is much longer than their target. A pair that exceeds a limit by itself
    gets its own batch. So almost all batches are nearly full.

    Args:
        sources: source ids, without eos.
        targets: target ids, without bos and eos.
        max_tokens: maximum number of target tokens in a batch, including eos but not padding.
        seed: shuffles pairs of equal lengths, shifts the length buckets and shuffles the batches. None: sorted order.
        divisible_by: make the number of batches a multiple of this, by halving up to ``divisible_by - 1`` of them.
        pairs: indices of the pairs to use; None: all of them.

    Returns:
        The indices of the pairs in each batch.

    Raises:
        UserError: if the number of sources and targets differs, or there are too few pairs for ``divisible_by``.
    """
    if len(sources) != len(targets):
        raise UserError(f"there are {len(sources)} sources but {len(targets)} targets: prepare the data again")
    rng = None if seed is None else np.random.default_rng(seed)
    order = np.arange(len(targets)) if pairs is None else pairs
    if rng is not None:
        order = rng.permutation(order)
    source_lengths, target_lengths = sources.lengths()[order] + 1, targets.lengths()[order] + 1
    shift = 0 if rng is None else int(rng.integers(2 * TARGET_BUCKET_WIDTH))
    by_length = serpentine_order(source_lengths, target_lengths, shift)
    order, source_lengths, target_lengths = order[by_length], source_lengths[by_length], target_lengths[by_length]

    cumulative_tokens = np.cumsum(target_lengths)
    longer_side = np.maximum(source_lengths, target_lengths)
    batches, start, used_tokens = [], 0, 0
    while start < len(order):
        end = int(np.searchsorted(cumulative_tokens, used_tokens + max_tokens, side="right"))
        padded_sizes = np.maximum.accumulate(longer_side[start:end]) * np.arange(1, end - start + 1)
        rows = max(1, int(np.searchsorted(padded_sizes, MAX_PADDED_RATIO * max_tokens, side="right")))
        batches.append(order[start : start + rows])
        start += rows
        used_tokens = int(cumulative_tokens[start - 1])

    while len(batches) % divisible_by:
        largest = max(range(len(batches)), key=lambda i: len(batches[i]))
        if len(batches[largest]) == 1:
            raise UserError(
                f"there are only {len(batches)} sentence pairs, which can't be split into a multiple of {divisible_by} "
                "batches: use fewer processes or gradient accumulation steps"
            )
        batches[largest : largest + 1] = np.array_split(batches[largest], 2)
    if rng is not None:
        rng.shuffle(batches)
    return batches


@dataclass
class Batches(Iterator[Batch]):
    """Iterate endlessly over the batches of one rank, epoch after epoch.

    In each epoch every pair is in exactly one batch of one rank, and all ranks have the same number of batches. The
    order of an epoch depends only on ``seed`` and ``epoch``. (``epoch``, ``batch_index``) is the position of the next
    batch: an iterator constructed with these values continues there. N ranks with one accumulation step together see
    the same batches as one rank with N accumulation steps.
    """

    sources: Sequences
    targets: Sequences
    max_tokens: int
    """Maximum number of target tokens in one of these batches. In training, they are a step's micro-batches."""
    seed: int
    rank: int = 0
    world_size: int = 1
    gradient_accumulation_steps: int = 1
    """The number of batches per rank in an epoch is a multiple of this."""
    epoch: int = 0
    batch_index: int = 0
    pairs: Indices | None = None
    """Indices of the pairs left in the current epoch, after resuming with a different number of batches per step; None:
    all pairs. Later epochs always use all pairs."""
    plan: list[Indices] = field(init=False, repr=False)
    """Indices of the pairs in each of this rank's batches in the current epoch."""

    def __post_init__(self) -> None:
        if not len(self.sources):
            raise UserError("there are no sentence pairs to train on")
        self._start_epoch()

    def _start_epoch(self) -> None:
        multiple = self.world_size * self.gradient_accumulation_steps
        seed = (self.seed, self.epoch)
        batches = token_batches(self.sources, self.targets, self.max_tokens, seed, multiple, self.pairs)
        self.plan = batches[self.rank :: self.world_size]

    def __next__(self) -> Batch:
        if self.batch_index >= len(self.plan):
            self.epoch, self.batch_index, self.pairs = self.epoch + 1, 0, None
            self._start_epoch()
        self.batch_index += 1
        return self.collate(self.plan[self.batch_index - 1])

    def collate(self, pairs: Indices) -> Batch:
        """Build the batch of the pairs with these indices."""
        return collate(self.sources, self.targets, pairs)

    def largest(self) -> Batch:
        """Return a batch of arbitrary tokens that is at least as large as the largest in any epoch, on both sides."""
        lengths = np.sort(np.maximum(self.sources.lengths(), self.targets.lengths()) + 1)
        n_not_longer = np.arange(1, len(lengths) + 1)  # for each length, how many pairs are not longer
        rows = np.minimum(n_not_longer, np.maximum(1, MAX_PADDED_RATIO * self.max_tokens // lengths)).astype(int)
        i = int(np.argmax(rows * lengths))
        ids = torch.full((int(rows[i]), int(lengths[i])), EOS)
        return Batch(ids, ids, ids)
