"""The exception for user errors, how messages quote values, a check for optional packages, and suggestions."""

import re
import reprlib
from collections.abc import Iterable
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any

MAX_QUOTED = 100
"""A value in a message is shortened to this many characters."""
MAX_WORD = 200
"""Longer words in a message, such as paths, are shortened; shorter ones stay whole, so that they can be copied."""


class UserError(Exception):
    """An error that the user can fix: the message says in one line what is wrong and what to do.

    The command line prints it as ``error: …``, without a traceback, and exits with code 2.
    """

    def __init__(self, message: object) -> None:
        super().__init__(shorten_words(str(message)))


class _Quotes(reprlib.Repr):
    """Writes only as much of a long or nested value as a message shows, even if the value's own repr fails."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = MAX_QUOTED
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = 4

    def repr_int(self, x: int, level: int) -> str:
        try:
            return super().repr_int(x, level)
        except ValueError:  # Python refuses to write thousands of digits
            return f"a whole number of {x.bit_length():,} bits"


def quote(value: Any) -> str:
    """Return a value's repr for a message, on one line and shortened."""
    return shorten(" ".join(_Quotes().repr(value).split()))


def shorten(text: str, length: int = MAX_QUOTED) -> str:
    """Shorten a text to this many characters; what is left out is near its end."""
    return text if len(text) <= length else f"{text[: length - 20]} … {text[-17:]}"


def shorten_words(text: str) -> str:
    """Shorten words that are too long for a message."""
    return re.sub(rf"\S{{{MAX_WORD + 1},}}", lambda word: f"{word[0][:80]}…{word[0][-40:]}", text)


def require_extra(extra: str, *modules: str) -> None:
    """Check that the modules of an optional extra are installed.

    Args:
        extra: the name of the extra in pyproject.toml.
        modules: names of top-level modules that it installs.

    Raises:
        UserError: if one of them is missing.
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise UserError(f"this needs {', '.join(missing)}: {install_command(extra)}")


def install_command(extra: str) -> str:
    """Return the command that installs an optional extra of the package."""
    return f"pip install 'transformer-course[{extra}]'"


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the names that begin with it, a similar one, or all."""
    names = list(known)
    longer = [known_name for known_name in names if name and known_name.startswith(name)]
    similar = longer or get_close_matches(name[:MAX_QUOTED], names, n=1)
    return f"did you mean {' or '.join(similar)}?" if similar else f"choose from {', '.join(names)}"
