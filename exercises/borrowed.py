"""Own parts only: while an answer runs, calls of what it must not use are seen and refused.

Every call is looked at, not the answer's text: so it does not matter under which name a part was imported, and a
comment that mentions one does no harm.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

from torch import nn
from torch.nn import functional as F

from exercises.check import Around, RefusedError

BUILT_IN = {"scaled_dot_product_attention", "_native_multi_head_attention", "_transformer_encoder_layer_fwd"}
"""PyTorch's functions that are attention or more, by the names that they have inside it."""


MULTI_HEAD = {nn.MultiheadAttention.forward.__code__, F.multi_head_attention_forward.__code__}
SOFTMAX = {"softmax", "_softmax", "special_softmax", "log_softmax", "_log_softmax", "special_log_softmax"}
LAYER_NORM = {"layer_norm", "native_layer_norm"}
AUTOGRAD = {"run_backward"}

Part = Callable[[FrameType, str, Any], str | None]
"""The finished part that is called, if it is one; the arguments are those that `sys.setprofile` hands over."""


def own_parts_only() -> AbstractContextManager[None]:
    """Refuse the finished parts of PyTorch and of the package ``transformer`` to what runs within."""
    return _refusing(
        lambda frame, event, argument: _part(frame) if event == "call" else _built_in(event, argument, BUILT_IN),
        "Here every part between the ids and the scores is to be yours: linear layers, norms and what a tensor can do "
        "are enough for it.",
    )


def without(names: set[str]) -> Around:
    """Refuse those of PyTorch's functions that have one of these names inside it."""
    return lambda: _refusing(lambda _, event, argument: _built_in(event, argument, names), "This one you write.")


@contextmanager
def _refusing(part: Part, advice: str) -> Iterator[None]:
    """Watch what runs within.

    Raises:
        RefusedError: at the first call of a finished part.
    """

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if found := part(frame, event, argument):
            raise RefusedError(f"a part that is not your own\nIt calls {found}. {advice}")

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)


def _part(frame: FrameType) -> str | None:
    """The finished part that a Python function belongs to."""
    module = frame.f_globals.get("__name__", "")
    if module.startswith("transformer."):
        return f"{module}.{frame.f_code.co_name}"
    if module == nn.Transformer.__module__:
        return "a layer of torch.nn's Transformer"
    return "nn.MultiheadAttention" if frame.f_code in MULTI_HEAD else None


def _built_in(event: str, function: Any, names: set[str]) -> str | None:
    name = getattr(function, "__name__", "")
    return f"PyTorch's {name}" if event == "c_call" and name in names else None
