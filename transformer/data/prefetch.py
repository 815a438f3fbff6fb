"""Prepare the next batches in a background thread while the model trains on the current one."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from functools import partial

import torch

from transformer.data.batching import Batch, Batches

PREFETCHED_BATCHES = 4
"""How many batches are prepared ahead."""


class Prefetcher(Iterator[Batch]):
    """Iterate over `Batches`, with the next few collated ahead by a thread, and pinned if they will go to a GPU.

    Pinned memory is what `Batch.to` needs to copy a batch asynchronously, while the GPU still computes. Nothing is
    collated before the first batch is requested, and the thread ends when the iterator is deleted. An error in the
    thread is raised by the ``next`` that asks for its batch.

    Args:
        batches: where the batches come from; the thread works on a copy of it.
        device: where they will be used.
    """

    position: Batches
    """The `Batches` as they were after the most recently returned batch: the position to save and to resume from."""

    def __init__(self, batches: Batches, device: torch.device) -> None:
        self.position, self._source, self._pinned = batches, copy(batches), device.type == "cuda"
        # A new thread would use GPU 0. Pinning there would waste memory on the GPU of another process.
        initializer = partial(torch.cuda.set_device, torch.cuda.current_device()) if self._pinned else None
        self._thread = ThreadPoolExecutor(1, "prefetch", initializer)
        self._pending: deque[Future[tuple[Batch, Batches]]] = deque()

    def __next__(self) -> Batch:
        while len(self._pending) <= PREFETCHED_BATCHES:
            self._pending.append(self._thread.submit(self._load))
        batch, self.position = self._pending.popleft().result()
        return batch

    def _load(self) -> tuple[Batch, Batches]:
        batch = next(self._source)
        return batch.pin_memory() if self._pinned else batch, copy(self._source)
