"""How long a cell may run and how much it may print while a notebook is graded, held from inside the kernel.

Inside, because then one endless loop costs its own exercise only: the kernel lives on. What gets past this (a loop that
swallows every exception, a kernel that is killed) ends at the grader's own limits.
"""

import signal
import sys
from types import FrameType
from typing import Any, TextIO

MOST_PRINTED = 100_000
"""Characters that an answer may print in one call, and a graded cell in all."""


class LimitReached(BaseException):
    """Not an Exception, so that an answer's ``except Exception`` does not catch it."""

    def _render_traceback_(self) -> list[str]:
        return [f"✗ {self}"]


class _Bounded:
    """A stream that takes only so many characters of each cell."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.left = MOST_PRINTED

    def write(self, text: str) -> int:
        self.left -= len(text)
        if self.left < 0:
            raise LimitReached(f"it printed more than {MOST_PRINTED:,} characters: does a loop never end?")
        return self.stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def start(seconds: int) -> None:
    """Hold every cell that this kernel runs from now on to the limits."""
    from IPython.core.getipython import get_ipython

    def stop(signum: int, frame: FrameType | None) -> None:
        raise LimitReached(f"it did not finish within {seconds} s: does a loop never end?")

    streams = [_Bounded(sys.stdout), _Bounded(sys.stderr)]
    sys.stdout, sys.stderr = streams

    def before(*_: object) -> None:
        for stream in streams:
            stream.left = MOST_PRINTED
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def after(*_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    signal.signal(signal.SIGALRM, stop)
    shell = get_ipython()
    assert shell is not None, "limits are for a kernel"
    shell.events.register("pre_run_cell", before)
    shell.events.register("post_run_cell", after)
