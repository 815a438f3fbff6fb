"""Call an answer with copies of its inputs, and record what the call does.

That is more than what it returns: a call may raise an exception, print something, change its inputs, and cut off the
gradients that a model would be trained with.
"""

import contextlib
import copy
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from exercises.compare import equal, equal_numbers, to_builtin
from exercises.limits import MAX_PRINTED, LimitReached

Function = Callable[..., Any]
Inputs = Mapping[str, Any]
Guard = Callable[[], contextlib.AbstractContextManager[None]]
"""Makes a context in which answers are called; it may stop a call with an exception."""


@dataclass(frozen=True)
class CallResult:
    """What a call did."""

    results: tuple[Any, ...]
    error: BaseException | None
    """The exception that it raised."""
    printed: str
    inputs: Inputs = field(default_factory=dict)
    """The inputs after the call."""
    gradients: Mapping[str, Tensor] = field(default_factory=dict)
    """Input, such as ``x`` or ``layer.norm.weight`` → its gradient; zeros if none flows back to it."""

    def equals(self, other: "CallResult") -> bool:
        """Return whether both calls ended in the same way, up to rounding; neither inputs nor gradients matter."""
        if self.error or other.error:
            return type(self.error) is type(other.error) and str(self.error) == str(other.error)
        return len(self.results) == len(other.results) and all(map(equal, self.results, other.results))

    def equals_in_numbers(self, other: "CallResult") -> bool:
        """Return whether both calls gave the same numbers, regardless of shapes and dtypes."""
        if self.error or other.error or len(self.results) != len(other.results):
            return False
        return all(map(equal_numbers, self.results, other.results))


def call(
    function: Function,
    inputs: Inputs,
    guard: Guard = contextlib.nullcontext,
    multiple_results: bool = False,
    with_gradients: bool = False,
) -> CallResult:
    """Call a function with copies of the inputs. Exceptions and exits are caught, but not keyboard interrupts.

    Args:
        function: the function to call.
        inputs: its arguments.
        guard: the context to call it in.
        multiple_results: whether a returned tuple or list is several results rather than one.
        with_gradients: whether to compute gradients with respect to all float tensors in the inputs.
    """
    copies = dict(zip(inputs, copy.deepcopy(list(inputs.values())), strict=True))
    tensors = dict(_float_tensors(copies)) if with_gradients else {}
    for tensor in tensors.values():
        tensor.requires_grad_()
    value: Any = ()
    gradients: dict[str, Tensor] = {}
    error: BaseException | None = None
    printed = _Printed()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            with guard():
                value = to_builtin(function(*copies.values()))
            gradients = _gradients(value, tensors)
        except (Exception, SystemExit) as e:
            error = e
    results = tuple(value) if multiple_results and isinstance(value, tuple | list) else (value,)
    return CallResult(results, error, printed.getvalue(), copies, gradients)


def changed_inputs(before: Inputs, after: Inputs) -> list[str]:
    """Return the names of the inputs that aren't as they were. Only data is compared, not functions."""
    return [name for name in before if not _same_data(before[name], after[name])]


def _same_data(a: Any, b: Any) -> bool:
    match a:
        case nn.Module():
            return _same_data(dict(a.state_dict()), dict(b.state_dict()))
        case Mapping():
            return a.keys() == b.keys() and all(_same_data(a[key], b[key]) for key in a)
        case list() | tuple():
            return len(a) == len(b) and all(map(_same_data, a, b))
        case Tensor() | Real() | str():
            return equal(a, b)
        case _:
            return True


def _float_tensors(value: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield the float tensors inside a value, each with the Python expression that leads to it."""
    match value:
        case Tensor():
            if value.is_floating_point():
                yield name, value
        case nn.Module():
            yield from ((f"{name}.{key}", parameter) for key, parameter in value.named_parameters())
        case Mapping():
            for key, entry in value.items():
                yield from _float_tensors(entry, f"{name}[{key!r}]" if name else str(key))
        case list() | tuple():
            for i, entry in enumerate(value):
                yield from _float_tensors(entry, f"{name}[{i}]")


def _gradients(value: Any, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the gradients of a fixed weighted sum of all results."""
    inputs = set(map(id, tensors.values()))
    results = [r for _, r in _float_tensors(value, "result") if r.grad_fn is not None or id(r) in inputs]
    if not results or not tensors:
        return {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    weights = [torch.linspace(-1, 2, result.numel(), dtype=result.dtype).view_as(result).cos() for result in results]
    found = torch.autograd.grad(results, list(tensors.values()), weights, allow_unused=True, materialize_grads=True)
    return dict(zip(tensors, found, strict=True))


class _Printed(io.StringIO):
    """Collects what an answer prints, up to a limit."""

    def write(self, text: str) -> int:
        if self.tell() + len(text) > MAX_PRINTED:
            raise LimitReached(f"it printed more than {MAX_PRINTED:,} characters: is there an endless loop?")
        return super().write(text)
