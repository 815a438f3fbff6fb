"""The exception for user errors, a check for optional packages, and suggestions for unknown names."""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib.util import find_spec


class UserError(Exception):
    """An error that the user can fix: the message says in one line what is wrong and what to do.

    The command line prints it as ``error: …``, without a traceback, and exits with code 2.
    """


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
    """Return the end of a message about an unknown name: the most similar known name, or else all of them."""
    names = list(known)
    similar = get_close_matches(name, names, n=1)
    return f"did you mean {similar[0]}?" if similar else f"choose from {', '.join(names)}"
