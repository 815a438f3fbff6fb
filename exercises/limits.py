"""Limits on the time and the output of a cell while a notebook is graded, enforced inside the kernel.

Because the kernel survives, an endless loop fails only its own exercise. If an answer evades these limits (by a loop
that swallows every exception, or by killing the kernel), the limits of the grader itself end the notebook.
"""

import signal
import sys
from types import FrameType
from typing import Any, TextIO

MAX_PRINTED = 100_000
"""Maximum number of characters that an answer may print in one call, and that a graded cell may print in all."""


class LimitReached(BaseException):
    """Raised when a limit is exceeded; not an Exception, so that ``except Exception`` in an answer can't catch it."""

    def _render_traceback_(self) -> list[str]:
        return [f"✗ {self}"]


class _LimitedStream:
    """A stream that accepts a limited number of characters from each cell."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.left = MAX_PRINTED

    def write(self, text: str) -> int:
        self.left -= len(text)
        if self.left < 0:
            raise LimitReached(f"it printed more than {MAX_PRINTED:,} characters: is there an endless loop?")
        return self.stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def start(seconds: int) -> None:
    """Apply the limits to every cell that this kernel runs from now on.

    Args:
        seconds: time limit for each cell.
    """
    from IPython.core.getipython import get_ipython

    def stop(signum: int, frame: FrameType | None) -> None:
        raise LimitReached(f"it did not finish within {seconds} s: is there an endless loop?")

    streams = [_LimitedStream(sys.stdout), _LimitedStream(sys.stderr)]
    sys.stdout, sys.stderr = streams

    def before_cell(*_: object) -> None:
        for stream in streams:
            stream.left = MAX_PRINTED
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def after_cell(*_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    signal.signal(signal.SIGALRM, stop)
    shell = get_ipython()
    assert shell is not None, "the limits need a kernel"
    shell.events.register("pre_run_cell", before_cell)
    shell.events.register("post_run_cell", after_cell)
