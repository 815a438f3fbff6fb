"""Limits on time, memory and output, enforced inside the kernel: of each check, and of each cell that is graded.

Because the kernel survives, an endless loop fails only its own exercise. If an answer evades these limits (by a loop
that swallows every exception, or by killing the kernel), the limits of the grader itself end the notebook.
"""

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, TextIO

MAX_SECONDS = 30
"""Computing time that a check may take in a learner's notebook; the grader has a limit of its own."""

PATIENCE = 3
"""By the clock, a cell may take this many times its limit of computing time, because the computer may be busy."""

TRAINING_TOPICS = {"train_your_own": 180}
"""Topics whose checks train a model: the least time limit for each cell when their notebook is graded, in seconds."""

MAX_MEMORY = 4 * 1024**3
"""Bytes of memory that a check may use in addition to what is in use; Linux enforces this limit, macOS doesn't."""

MAX_PRINTED = 100_000
"""Maximum number of characters that an answer may print in one call, and that a graded cell may print in all."""

PRINTED_TOO_MUCH = f"it printed more than {MAX_PRINTED:,} characters: is there an endless loop?"
"""The message for an answer that printed more."""


class LimitReached(BaseException):
    """Raised when a limit is exceeded; not an Exception, so that ``except Exception`` in an answer can't catch it."""

    def _render_traceback_(self) -> list[str]:
        return [f"✗ {self}"]


@contextlib.contextmanager
def limited(seconds: float = MAX_SECONDS, memory: int = MAX_MEMORY) -> Iterator[None]:
    """Limit computing time and memory inside the context.

    A stricter memory limit that is already set remains. If a time limit is already running, it stays in force, and
    this one is ignored.

    Args:
        seconds: limit of the main thread's computing time, so that it is the same on a busy computer and with any
            number of cores; not enforced on Windows, in a browser or outside the main thread.
        memory: limit in bytes, in addition to what is in use; enforced on Linux only.

    Raises:
        LimitReached: if the time limit is exceeded. If memory runs out, PyTorch or Python raises its own exception.
    """
    with _limited_time(seconds), _limited_memory(memory):
        yield


@contextlib.contextmanager
def _limited_time(seconds: float) -> Iterator[None]:
    is_main = threading.current_thread() is threading.main_thread()
    has_timers = sys.platform not in ("win32", "emscripten")
    if not has_timers or not is_main or _has_limit():
        yield
        return
    end = time.thread_time() + seconds

    def stop(signum: int, frame: FrameType | None) -> None:
        left = end - time.thread_time()
        if left <= 0:
            raise LimitReached(did_not_finish(seconds))
        # This timer also counts the computing time of PyTorch's other threads: wait for the rest.
        signal.setitimer(signal.ITIMER_PROF, max(left, 0.01))

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def _has_limit() -> bool:
    """Return whether a time limit is running: an outer one, or that of `start`, which uses the other timer."""
    return any(signal.getitimer(timer)[0] for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL))


@contextlib.contextmanager
def _limited_memory(extra: int) -> Iterator[None]:
    if sys.platform != "linux":
        yield
        return
    import resource

    import psutil  # type: ignore[import-untyped]

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = psutil.Process().memory_info().data + extra
    limits = [limit for limit in (wanted, soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def did_not_finish(seconds: float) -> str:
    """Return the message for an answer that was stopped."""
    return f"it did not finish within {seconds:g} s: is there an endless loop?"


class _LimitedStream:
    """A stream that accepts a limited number of characters from each cell."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.left = MAX_PRINTED

    def write(self, text: str) -> int:
        self.left -= len(text)
        if self.left < 0:
            raise LimitReached(PRINTED_TOO_MUCH)
        return self.stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def start(seconds: int) -> None:
    """Apply the limits to every cell that this kernel runs from now on.

    Args:
        seconds: limit of each cell's computing time; by the clock, a cell may take `PATIENCE` times as long.
    """
    from IPython.core.getipython import get_ipython

    streams = [_LimitedStream(sys.stdout), _LimitedStream(sys.stderr)]
    sys.stdout, sys.stderr = streams

    ends = {"computing": 0.0, "clock": 0.0}

    def before_cell(*_: object) -> None:
        for stream in streams:
            stream.left = MAX_PRINTED
        ends.update(computing=time.thread_time() + seconds, clock=time.monotonic() + PATIENCE * seconds)
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def stop(signum: int, frame: FrameType | None) -> None:
        left = min(ends["computing"] - time.thread_time(), ends["clock"] - time.monotonic())
        if left <= 0:
            raise LimitReached(did_not_finish(seconds))
        signal.setitimer(signal.ITIMER_REAL, max(left, 0.01))

    def after_cell(*_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    signal.signal(signal.SIGALRM, stop)
    shell = get_ipython()
    assert shell is not None, "the limits need a kernel"
    shell.events.register("pre_run_cell", before_cell)
    shell.events.register("post_run_cell", after_cell)
