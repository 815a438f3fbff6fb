"""Batches prepared ahead by a thread are the same ones, and the position is that of the batch in use."""

import gc
import threading
from itertools import islice

import numpy as np
import pytest
import torch

from transformer.data.batching import Batch, Batches, Indices, Sequences
from transformer.data.prefetch import PREFETCHED_BATCHES, Prefetcher

CPU = torch.device("cpu")


def batches(**position: int) -> Batches:
    """Three epochs fit into 40 batches."""
    rng = np.random.default_rng(0)
    pairs = [[list(range(4, 4 + n)) for n in rng.integers(2, 20, 60)] for _ in range(2)]
    return Batches(*map(Sequences.pack, pairs), 60, 1, **position)


def tensors(batch: Batch) -> list[list[list[int]]]:
    return [t.tolist() for t in (batch.source, batch.decoder_input, batch.labels)]


def prefetching_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


def test_the_batches_and_their_positions_are_those_without_prefetching() -> None:
    alone, ahead = batches(), Prefetcher(batches(), CPU)
    assert (ahead.position.epoch, ahead.position.batch_index) == (0, 0)
    for expected, batch in islice(zip(alone, ahead, strict=False), 40):
        assert tensors(batch) == tensors(expected)
        assert (ahead.position.epoch, ahead.position.batch_index) == (alone.epoch, alone.batch_index)
        assert [list(rows) for rows in ahead.position.plan] == [list(rows) for rows in alone.plan]
    assert alone.epoch >= 2


@pytest.mark.parametrize("used", [1, 5, 13, 25])
def test_it_resumes_after_the_last_batch_that_was_used(used: int) -> None:
    """Not after the last that was prepared."""
    ahead = Prefetcher(batches(), CPU)
    for _ in range(used):
        next(ahead)
    resumed = Prefetcher(batches(epoch=ahead.position.epoch, batch_index=ahead.position.batch_index), CPU)
    for expected, batch in islice(zip(ahead, resumed, strict=False), 20):
        assert tensors(batch) == tensors(expected)


class Counting(Batches):
    """Batches that count how many of them were built, from all copies of an iterator."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.numbers: list[int] = []
        self.far_enough = threading.Event()

    def collate(self, pairs: Indices) -> Batch:
        self.numbers.append(len(self.numbers) + 1)
        if self.numbers[-1] == 1 + PREFETCHED_BATCHES:
            self.far_enough.set()
        return super().collate(pairs)


def test_the_thread_works_while_a_batch_is_in_use_and_only_so_far_ahead() -> None:
    plain, before = batches(), prefetching_threads()
    counting = Counting(plain.sources, plain.targets, plain.max_tokens, plain.seed)
    numbers = counting.numbers
    ahead = Prefetcher(counting, CPU)
    assert not numbers and set(prefetching_threads()) <= set(before), "nothing before the first batch is needed"
    next(ahead)
    assert counting.far_enough.wait(60)
    ahead._thread.shutdown()
    assert numbers[-1] == 1 + PREFETCHED_BATCHES


def test_an_error_is_raised_with_the_batch_it_belongs_to() -> None:
    class Broken(Batches):
        def collate(self, pairs: Indices) -> Batch:
            if self.batch_index == 3:
                raise OSError("the disk is gone")
            return super().collate(pairs)

    plain = batches()
    ahead = Prefetcher(Broken(plain.sources, plain.targets, plain.max_tokens, plain.seed), CPU)
    next(ahead)
    next(ahead)
    with pytest.raises(OSError, match="the disk is gone"):
        next(ahead)


def test_the_thread_ends_with_the_iterator() -> None:
    before = prefetching_threads()
    ahead = Prefetcher(batches(), CPU)
    next(ahead)
    (thread,) = (thread for thread in prefetching_threads() if thread not in before)
    del ahead
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


def test_batches_for_a_gpu_are_pinned_by_a_thread_that_uses_the_same_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, object]] = []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: done.append((f"set_device {number}", thread())))
    monkeypatch.setattr(Batch, "pin_memory", lambda self: done.append(("pin", thread())) or self)
    thread = threading.get_ident
    ahead = Prefetcher(batches(), torch.device("cuda", 3))
    next(ahead)
    ahead._thread.shutdown()
    assert [what for what, _ in done] == ["set_device 3", *["pin"] * (1 + PREFETCHED_BATCHES)]
    assert len({where for _, where in done}) == 1 and done[0][1] != thread()
