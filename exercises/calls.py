"""Call an answer with copies of its inputs, and record what the call does.

That is more than what it returns: a call may raise an exception, print something, change its inputs, and cut off the
gradients that a model would be trained with.
"""

import contextlib
import copy
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any

from exercises.compare import equal, equal_numbers, same_kind, to_builtin
from exercises.limits import MAX_PRINTED, PRINTED_TOO_MUCH, LimitReached
from exercises.tensors import float_tensors, gradients, identical, is_module, is_tensor, unchanged_settings

if TYPE_CHECKING:
    from torch import Tensor

Function = Callable[..., Any]
Inputs = Mapping[str, Any]
Guard = Callable[[Inputs], contextlib.AbstractContextManager[Any]]
"""Makes a context in which answers are called with these inputs; it may stop a call with an exception."""


@dataclass(frozen=True)
class CallResult:
    """What a call did."""

    results: tuple[Any, ...]
    """What it returned; meaningless if it raised an exception."""
    error: BaseException | None
    """The exception that it raised."""
    printed: str
    inputs: Inputs = field(default_factory=dict)
    """The inputs after the call."""
    gradients: "Mapping[str, Tensor]" = field(default_factory=dict)
    """Input, such as ``x`` or ``layer.norm.weight`` → its gradient; zeros if none flows back to it."""
    requires_grad: bool = False
    """Whether a result was computed from inputs that require gradients."""

    def equals(self, other: "CallResult") -> bool:
        """Return whether both calls ended in the same way, up to rounding; neither inputs nor gradients matter."""
        if self.error or other.error:
            return type(self.error) is type(other.error) and _what_it_says(self.error) == _what_it_says(other.error)
        return len(self.results) == len(other.results) and all(map(equal, self.results, other.results))

    def same_kind(self, other: "CallResult") -> bool:
        """Return whether both calls gave results of the same kinds, or at least one raised an exception."""
        if self.error or other.error:
            return True
        return len(self.results) == len(other.results) and all(map(same_kind, self.results, other.results))

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

    Raises:
        LimitReached: if the call exceeds a limit of `exercises.limits`.
    """
    copies = dict(zip(inputs, copy.deepcopy(list(inputs.values())), strict=True))
    tensors = dict(float_tensors(copies)) if with_gradients else {}
    for tensor in tensors.values():
        tensor.requires_grad_()
    value: Any = ()
    found: dict[str, Tensor] = {}
    requires_grad = False
    error: BaseException | None = None
    printed = _Printed()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            with unchanged_settings(), guard(copies):
                value = to_builtin(function(*copies.values()))
            found = gradients(value, tensors)
            requires_grad = any(tensor.requires_grad for _, tensor in float_tensors(value))
        except (Exception, SystemExit) as e:
            error = e
    results = tuple(value) if multiple_results and isinstance(value, tuple | list) else (value,)
    return CallResult(results, error, printed.getvalue(), copies, found, requires_grad)


def _what_it_says(error: BaseException | None) -> str:
    """Return the first line of an exception's message; of two sizes that should agree, the smaller one comes first.

    Further lines may show tensors, whose digits depend on ``torch.set_printoptions``.
    """
    return re.sub(
        r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)",
        lambda match: " and ".join(sorted(match.groups(), key=int)),
        str(error).partition("\n")[0],
    )


def changed_inputs(before: Inputs, after: Inputs) -> list[str]:
    """Return the names of the inputs that aren't as they were. Only data is compared, not functions."""
    return [name for name in before if not _same_data(before[name], after[name])]


def _same_data(a: Any, b: Any) -> bool:
    if is_module(a):
        return equal(dict(a.state_dict()), dict(b.state_dict()))
    if is_tensor(a):
        return identical(a, b)
    match a:
        case Mapping():
            return a.keys() == b.keys() and all(_same_data(a[key], b[key]) for key in a)
        case list() | tuple():
            return len(a) == len(b) and all(map(_same_data, a, b))
        case Real() | str():
            return equal(a, b)
        case _ if type(a).__module__.startswith("exercises.checks."):  # a function that keeps data
            return _same_data(vars(a), vars(b))
        case _:
            return True


class _Printed(io.StringIO):
    """Collects what an answer prints, up to a limit."""

    def write(self, text: str) -> int:
        if self.tell() + len(text) > MAX_PRINTED:
            raise LimitReached(PRINTED_TOO_MUCH)
        return super().write(text)
