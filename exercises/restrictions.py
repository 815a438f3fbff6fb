"""Restrictions on what an answer may call, such as PyTorch's own attention in an exercise about attention.

While an answer runs, every call is checked. So it doesn't matter under which name a function was imported, and it is
fine to mention it in a comment.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any

from exercises.calls import Guard, Inputs
from exercises.errors import RefusedError

ATTENTION = {"scaled_dot_product_attention", "_native_multi_head_attention", "_transformer_encoder_layer_fwd"}
"""PyTorch's built-in functions that compute attention or a whole layer, by their internal names."""

SOFTMAX = {"softmax", "_softmax", "special_softmax", "log_softmax", "_log_softmax", "special_log_softmax"}
LAYER_NORM = {"layer_norm", "native_layer_norm", "group_norm", "instance_norm", "batch_norm"}
AUTOGRAD = {"run_backward"}
CROSS_ENTROPY = {"cross_entropy_loss", "nll_loss", "nll_loss_nd"}

FindForbidden = Callable[[FrameType, str, Any], str | None]
"""Takes the arguments of a `sys.setprofile` callback; returns a description of the function if it is forbidden."""


def own_parts_only(inputs: Inputs) -> AbstractContextManager[None]:
    """Forbid the ready-made layers of PyTorch and of the package ``transformer``."""
    return watch_calls(
        lambda frame, event, argument: (
            _ready_made_layer(frame) if event == "call" else built_in(event, argument, ATTENTION)
        ),
        "In this exercise you write every layer between the token ids and the logits yourself. Linear layers, layer "
        "normalisation and tensor operations are all you need.",
    )


def forbid(
    names: set[str], advice: str = "In this exercise you write it yourself.", modules: tuple[str, ...] = ()
) -> Guard:
    """Forbid PyTorch's built-in functions with these internal names, and all functions of these modules.

    In the message, ``advice`` follows the name under which the answer calls the function.
    """

    def find_forbidden(frame: FrameType, event: str, argument: Any) -> str | None:
        if event == "call" and any(_is_of(frame, module) for module in modules):
            return f"a function of `{frame.f_globals['__name__']}`"
        if (name := built_in(event, argument, names)) is None or name == "autograd":
            return name
        return f"PyTorch's {_name_in_answer(frame) or argument.__name__}"

    return lambda inputs: watch_calls(find_forbidden, advice)


def _is_of(frame: FrameType, module: str) -> bool:
    name = frame.f_globals.get("__name__", "")
    return bool(name == module or name.startswith(f"{module}."))


def _name_in_answer(frame: FrameType | None) -> str | None:
    """Return what an answer has called in PyTorch, if that is what a built-in function is called by."""
    name = None
    while frame and _is_of(frame, "torch"):
        layer = frame.f_locals.get("self")
        is_layer = _is_of(frame, "torch.nn.modules") and layer is not None
        name = f"nn.{type(layer).__name__}" if is_layer else frame.f_code.co_name
        frame = frame.f_back
    return name


def no_library(*names: str, advice: str) -> Guard:
    """Forbid the functions of these libraries or modules; ``advice`` follows the function's name in the message."""

    def find_forbidden(frame: FrameType, event: str, argument: Any) -> str | None:
        is_forbidden = event == "call" and any(_is_of(frame, name) for name in names)
        return f"{frame.f_globals['__name__']}.{frame.f_code.co_name}" if is_forbidden else None

    return lambda inputs: watch_calls(find_forbidden, advice)


@contextmanager
def watch_calls(find_forbidden: FindForbidden, advice: str) -> Iterator[None]:
    """Check every call inside the context.

    Raises:
        RefusedError: at the first call of a forbidden function.
    """

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if name := find_forbidden(frame, event, argument):
            raise RefusedError(f"a ready-made function\nYour code calls {name}. {advice}")

    previous = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(previous)


def _ready_made_layer(frame: FrameType) -> str | None:
    """Return a description of the layer that a Python function belongs to, if it is a ready-made one."""
    module = frame.f_globals.get("__name__", "")
    if module.startswith("transformer."):
        return f"{module}.{frame.f_code.co_name}"
    if module == "torch.nn.modules.transformer":
        return "a layer of torch.nn's Transformer"
    return "nn.MultiheadAttention" if frame.f_code in _multi_head_attention() else None


@cache
def _multi_head_attention() -> set[CodeType]:
    """Return the code of PyTorch's multi-head attention, which is imported here because not all exercises need it."""
    from torch import nn
    from torch.nn import functional as F

    return {nn.MultiheadAttention.forward.__code__, F.multi_head_attention_forward.__code__}


def built_in(event: str, function: Any, names: set[str]) -> str | None:
    """Return a description of a built-in function, if its name is one of these."""
    name = getattr(function, "__name__", "")
    if event != "c_call" or name not in names:
        return None
    return "autograd" if name in AUTOGRAD else f"PyTorch's {name}"
