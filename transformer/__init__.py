"""The Transformer of "Attention Is All You Need", one idea a module: what the course explains is what runs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformer.models import load_model as load

__version__ = "0.1.0"
__all__ = ["load"]


def __getattr__(name: str) -> object:
    """``load`` comes only when it is asked for: without it, this package is imported in no time."""
    if name != "load":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from transformer.models import load_model

    return load_model
