"""The exception for user errors, and a check for optional packages."""

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
        raise UserError(f"this needs {', '.join(missing)}: pip install 'transformer-course[{extra}]'")
