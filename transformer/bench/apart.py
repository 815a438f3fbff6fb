"""A contender in a process of its own, where no other's threads, memory or settings can disturb it."""

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from types import TracebackType
from typing import TypeVar

import torch

from transformer.bench.contests import CONTESTS, Contender, Contest, Setting, Work
from transformer.bench.memory import forget_peak, peak, used, wake

PROCESSES = get_context("forkserver")  # imports PyTorch once, and what its optimisers import at their first step
PROCESSES.set_forkserver_preload(["transformer.bench.contests", "torch._dynamo"])

MEMORY_ROUNDS = 2
"""Adam has its state only from the second step on."""

T = TypeVar("T")


class Apart:
    """A contender that waits in its process, prepared, until it is told to work.

    Raises:
        ImportError: if it is not installed.
        RuntimeError: from here and from every call, if its process ends; it is killed, for example, where memory is
            short.
    """

    def __init__(self, contest: Contest, contender: Contender, setting: Setting) -> None:
        self._name = contender.name
        self._pool = ProcessPoolExecutor(1, mp_context=PROCESSES)
        try:
            self._ask(_prepare, contest.name, contender.name, setting)
        except BaseException:
            self.close()
            raise

    def work(self, number: int) -> float:
        """Do the work of the round with this number. Returns the speed, in the contest's unit."""
        return self._ask(_work, number)

    def peak_memory(self) -> int:
        """The bytes that the work needs at its peak, over the state before it; to be asked of a new process.

        On a GPU it is what PyTorch allocated. On the CPU it is how far the process's resident memory grew.
        """
        return self._ask(_peak_memory)

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown()

    def __enter__(self) -> "Apart":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _ask(self, function: Callable[..., T], *arguments: object) -> T:
        try:
            return self._pool.submit(function, *arguments).result()
        except BrokenProcessPool as error:
            raise RuntimeError(f"{self._name}: its process ended") from error


# What follows runs in the contender's process.

_prepared: tuple[Work, Setting]


def _prepare(contest: str, contender: str, setting: Setting) -> None:
    global _prepared
    torch.set_num_threads(setting.threads)
    _prepared = CONTESTS[contest](setting).contender(contender).prepare(), setting


def _work(number: int) -> float:
    work, _ = _prepared
    started = time.perf_counter()
    amount = work(number)
    return amount / (time.perf_counter() - started)


def _peak_memory() -> int:
    work, setting = _prepared
    wake(setting.device)
    forget_peak(setting.device)
    before = used(setting.device)
    for number in range(MEMORY_ROUNDS):
        work(number)
    return peak(setting.device) - before
