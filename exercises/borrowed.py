"""Own parts only: while an answer runs, calls of finished parts are seen and refused.

Every call is looked at, not the answer's text: so it does not matter under which name a part was imported, and a
comment that mentions one does no harm.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from torch import nn

from exercises.check import RefusedError

BUILT_IN = {"scaled_dot_product_attention", "_native_multi_head_attention", "_transformer_encoder_layer_fwd"}
"""PyTorch's functions that are attention or more, by the names that they have inside it."""


@contextmanager
def own_parts_only() -> Iterator[None]:
    """Refuse the finished parts of PyTorch and of the package ``transformer`` to what runs within.

    Raises:
        RefusedError: at the first call of one.
    """
    before = sys.getprofile()
    sys.setprofile(_watch)
    try:
        yield
    finally:
        sys.setprofile(before)


def _watch(frame: FrameType, event: str, argument: Any) -> None:
    part = _part(frame) if event == "call" else _built_in(argument) if event == "c_call" else None
    if part:
        raise RefusedError(
            f"a part that is not your own\nIt calls {part}. Here every part between the ids and the scores is to be "
            "yours: linear layers, norms and what a tensor can do are enough for it."
        )


def _part(frame: FrameType) -> str | None:
    """The finished part that a Python function belongs to."""
    module = frame.f_globals.get("__name__", "")
    if module.startswith("transformer."):
        return f"{module}.{frame.f_code.co_name}"
    if module == nn.Transformer.__module__:
        return "a layer of torch.nn's Transformer"
    return "nn.MultiheadAttention" if frame.f_code is nn.MultiheadAttention.forward.__code__ else None


def _built_in(function: Any) -> str | None:
    name = getattr(function, "__name__", "")
    return f"PyTorch's {name}" if name in BUILT_IN else None
