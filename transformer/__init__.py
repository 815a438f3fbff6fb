"""The Transformer of "Attention Is All You Need", the package that accompanies the course.

`transformer.load` loads a trained model. The modules here are the model, its loss, decoding, settings and the commands;
data, training, evaluation, pretrained models, plots, interactive pages and benchmarks are in subpackages.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformer.models import load_model as load

__version__ = "0.1.0"
__all__ = ["load"]


def __getattr__(name: str) -> object:
    """Import ``transformer.load`` on first use, so that ``import transformer`` does not import PyTorch."""
    if name != "load":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from transformer.models import load_model

    return load_model
