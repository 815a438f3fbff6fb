"""Progress bars that don't fill a log file with carriage returns."""

import sys
from typing import Any

from tqdm import tqdm


def progress_bar(title: str, total: int | None = None, *, shown: bool = True, **style: Any) -> "tqdm[Any]":
    """Return a progress bar on stderr; if stderr is not a terminal, print the title as a plain line instead.

    Args:
        title: text before the bar.
        total: number of things to do; None: unknown.
        shown: False: show and print nothing.
        style: more arguments of ``tqdm``, such as ``unit``.
    """
    is_terminal = sys.stderr.isatty()
    if shown and not is_terminal:
        print(title, file=sys.stderr, flush=True)
    return tqdm(desc=title, total=total, disable=not (shown and is_terminal), dynamic_ncols=True, **style)
