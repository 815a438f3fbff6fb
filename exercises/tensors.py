"""Make, compare and describe the tensors among the inputs and the results of an answer.

PyTorch may be missing, as in a browser. Then no value is a tensor, and nothing else in this module is used.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from numbers import Real
from typing import Any, TypeGuard

from exercises.errors import RefusedError

try:
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn
except ModuleNotFoundError:
    HAS_TORCH = False
else:
    HAS_TORCH = True

MAX_ROWS, MAX_COLUMNS = 8, 8
"""Larger tables are cut to this size, to a part that contains a difference."""

AXES = {-1: "last axis", -2: "second-to-last axis (-2)", -3: "third-to-last axis (-3)"}
"""The names of axes, which are counted from the end."""


@contextlib.contextmanager
def unchanged_settings() -> Iterator[None]:
    """Restore PyTorch's settings at the end: whether gradients are recorded, and the default dtype.

    Raises:
        RefusedError: if the code inside this context has left one of them changed.
    """
    if not HAS_TORCH:
        yield
        return
    records, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    try:
        yield
        if records and not torch.is_grad_enabled():
            raise RefusedError(
                "it leaves gradient recording switched off\nAfter your function has returned, PyTorch still doesn't "
                "record gradients, so nothing can be trained any more. Use `with torch.no_grad():`, which switches "
                "recording on again at its end."
            )
        if torch.get_default_dtype() != dtype:
            raise RefusedError(
                "it changes PyTorch's default dtype\nThe rest of the program would compute in another precision from "
                "then on. Leave `torch.set_default_dtype` alone, and convert individual tensors instead."
            )
    finally:
        torch.set_grad_enabled(records)
        torch.set_default_dtype(dtype)


def is_tensor(value: object) -> TypeGuard[Tensor]:
    """Return whether a value is a tensor."""
    return HAS_TORCH and isinstance(value, Tensor)


def identical(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors agree exactly, including in ``requires_grad``."""
    if (a.shape, a.dtype, a.requires_grad) != (b.shape, b.dtype, b.requires_grad):
        return False
    return bool(((a == b) | (a.isnan() & b.isnan())).all())


def is_module(value: object) -> TypeGuard[nn.Module]:
    """Return whether a value is a module, such as a layer."""
    return HAS_TORCH and isinstance(value, nn.Module)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    """Return normally distributed random numbers for an input; they depend on nothing but the arguments."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).float()


def plain_tensor(x: Tensor) -> Tensor:
    """Return the tensor that a parameter contains; any other tensor stays as it is.

    Raises:
        RefusedError: if it is nested, sparse, or on another device than the inputs.
    """
    x = x.data if type(x) is nn.Parameter else x
    if type(x) is Tensor and x.device.type != "cpu":
        raise RefusedError(
            f"the result is on another device\nYour result is on the device {x.device}. It should be on the CPU, like "
            "the inputs."
        )
    if type(x) is Tensor and x.is_nested:
        raise RefusedError("the result is a nested tensor\nReturn an ordinary tensor, padded to the longest sequence.")
    if type(x) is Tensor and x.layout != torch.strided:
        raise RefusedError("the result is sparse\nReturn an ordinary tensor: `to_dense()` makes one.")
    return x


def is_close(a: Tensor, b: Tensor) -> Tensor:
    """Compare two tensors of the same shape entry by entry, up to rounding."""
    tolerance = 2e-3 if torch.float16 in (a.dtype, b.dtype) else 1e-5
    return torch.isclose(a.double(), b.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def equal_tensors(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors have the same shape and dtype, and the same numbers up to rounding."""
    return a.shape == b.shape and a.dtype == b.dtype and bool(is_close(a, b).all())


def equal_numbers(a: Any, b: Any) -> bool:
    """Return whether two tensors or numbers contain the same numbers in the same order, in any shape and dtype."""
    a, b = (
        torch.tensor(x, dtype=torch.float64)
        if isinstance(x, Real) and not isinstance(x, bool) and not (isinstance(x, int) and abs(x) > sys.float_info.max)
        else x
        for x in (a, b)
    )
    if not (type(a) is type(b) is Tensor) or a.numel() != b.numel():
        return False
    return bool(is_close(a.flatten(), b.flatten()).all())


def to_floats(x: Tensor, limit: int) -> list[float] | None:
    """Return the numbers of a tensor as a list; None if they are booleans or complex, or more than the limit."""
    if x.dtype == torch.bool or x.is_complex() or x.numel() > limit:
        return None
    return list(map(float, x.detach().flatten().tolist()))


def equal_gradients(a: Tensor, b: Tensor, scale: float) -> bool:
    """Return whether two gradients are equal up to rounding, which grows with the largest gradient, the scale."""
    tolerance = 1e-2 if b.dtype == torch.float16 else 1e-4
    return bool(torch.isclose(a.double(), b.double(), rtol=tolerance, atol=tolerance * scale, equal_nan=True).all())


def float_tensors(value: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield the float tensors inside a value, each with the Python expression that leads to it."""
    if is_tensor(value):
        if value.is_floating_point():
            yield name, value
    elif is_module(value):
        yield from ((f"{name}.{key}", parameter) for key, parameter in value.named_parameters())
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from float_tensors(entry, f"{name}[{key!r}]" if name else str(key))
    elif isinstance(value, list | tuple):
        for i, entry in enumerate(value):
            yield from float_tensors(entry, f"{name}[{i}]")


def gradients(value: Any, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the gradients of a fixed weighted sum of all results."""
    inputs = set(map(id, tensors.values()))
    results = [r for _, r in float_tensors(value, "result") if r.grad_fn is not None or id(r) in inputs]
    if not results or not tensors:
        return {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    weights = [torch.linspace(-1, 2, result.numel(), dtype=result.dtype).view_as(result).cos() for result in results]
    found = torch.autograd.grad(results, list(tensors.values()), weights, allow_unused=True, materialize_grads=True)
    return dict(zip(tensors, found, strict=True))


def compute_first_gradient() -> None:
    """Compute a gradient, so that PyTorch imports what it needs for the first one, which may take seconds."""
    if HAS_TORCH:
        x = torch.zeros(1, requires_grad=True)
        gradients(x * 2, {"x": x})


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global random number generators of Python and PyTorch, and restore their states on exit."""
    state = random.getstate()
    with torch.random.fork_rng(devices=[]) if HAS_TORCH else contextlib.nullcontext():
        random.seed(seed)
        if HAS_TORCH:
            torch.default_generator.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(state)


class FreshTensors:
    """Draws tensors like given ones, with new contents. None is contiguous in memory if it has two axes or more."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    @cached_property
    def _generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self._seed)

    def draw(self, x: Tensor, keep: bool) -> Tensor:
        """Return new random numbers of the same magnitude; if they aren't floats, the entries of the first axis move.

        Args:
            x: a tensor.
            keep: whether its numbers mean something, such as probabilities; then only its rows move.
        """
        if x.is_floating_point() and not keep:
            return _slice_of_larger(self._redrawn(x))
        return _slice_of_larger(x.roll(1, -2 if keep and x.dim() > 1 else 0))

    def _redrawn(self, x: Tensor) -> Tensor:
        """Return normally distributed numbers of the same root mean square; infinities stay where they are."""
        finite = x[x.isfinite()].double()
        scale = finite.square().mean().sqrt() if len(finite) else torch.tensor(0.0)
        drawn = scale * torch.randn(x.shape, generator=self._generator, dtype=torch.float64)
        return torch.where(x.isfinite(), drawn.to(x.dtype), x)


def changed_tensors(x: Tensor) -> Iterator[Tensor]:
    """Yield two tensors of the same shape and dtype with different contents."""
    if x.is_floating_point():
        yield from (FreshTensors(seed).draw(x + (not x.any()), keep=False) for seed in (1, 2))
    else:
        yield x.flatten().roll(1).view(x.shape)
        yield ~x if x.dtype == torch.bool or not x.numel() else torch.full_like(x, int(x.min()))


def _slice_of_larger(x: Tensor) -> Tensor:
    return F.pad(x, (0, 2))[..., :-2] if x.dim() > 1 else x


def describe_difference(name: str, yours: Tensor, expected: Tensor) -> Iterator[str]:
    """Yield lines that describe the difference between two tensors."""
    if yours.shape != expected.shape:
        yield f"{name} has the shape {tuple(yours.shape)}, but should have {tuple(expected.shape)}" + (
            ": the values are right, only their axes are wrong" if equal_numbers(yours, expected) else ""
        )
    elif yours.dtype != expected.dtype:
        actual, right = (str(t.dtype).removeprefix("torch.") for t in (yours, expected))
        yield f"{name} has the dtype {actual}, but should have {right}" + (
            ": the values are right, only their dtype is wrong" if equal_numbers(yours, expected) else ""
        )
    elif yours.isnan().any() and not expected.isnan().any():
        yield f"{name} contains NaN"
        yield from tables_side_by_side(yours, expected)
    else:
        yield f"{name} has wrong {'entries' if expected.dtype == torch.bool else 'numbers'}, marked with *"
        yield from tables_side_by_side(yours, expected)


def tables_side_by_side(yours: Tensor, expected: Tensor) -> list[str]:
    """Return two tables of the same shape side by side, with a * after each entry of yours that differs."""
    yours, expected = yours.detach().cpu(), expected.detach().cpu()
    differs = ~is_close(yours, expected)
    n_axes = yours.dim()
    index: tuple[int, ...] = ()
    if n_axes > 2:  # the first table in which they differ
        index = tuple(differs.flatten(-2).any(-1).nonzero()[0].tolist()) if differs.any() else (0,) * (n_axes - 2)
        yours, expected, differs = yours[index], expected[index], differs[index]
    rows, columns = (1, 1, *yours.shape)[-2:]
    yours, expected, differs = (t.reshape(rows, columns) for t in (yours, expected, differs))
    top, left = (differs.nonzero()[0].tolist()) if differs.any() else (0, 0)
    top = top if top >= MAX_ROWS else 0
    left = left if left >= MAX_COLUMNS else 0
    window = (slice(top, top + MAX_ROWS), slice(left, left + MAX_COLUMNS))
    decimals = _decimals(yours[window], expected[window], differs[window])
    your_rows = _table(yours[window], decimals, differs[window])
    expected_rows = _table(expected[window], decimals, torch.zeros_like(differs[window]))
    is_cut = rows > MAX_ROWS or columns > MAX_COLUMNS
    ends = [f"{part.start}:{min(part.stop, n)}" for part, n in zip(window, (rows, columns), strict=True)]
    places = [*map(str, index), *(ends[-n_axes:] if is_cut else [])]
    where = f"[{', '.join(places)}]" if places else ""
    headings = f"yours{where}", f"expected{where}"
    width = max(len(headings[0]), *map(len, your_rows)) + 4
    return ["", "  " + headings[0].ljust(width) + headings[1]] + [
        "  " + a.ljust(width) + b for a, b in zip(your_rows, expected_rows, strict=True)
    ]


def _decimals(yours: Tensor, expected: Tensor, differs: Tensor) -> int:
    """Return the number of decimals: 0 for integers, else at least 2, and enough to show every difference."""
    both = torch.cat([yours.double(), expected.double()])
    both = both[both.isfinite()]
    if bool((both == both.round()).all()):
        return 0
    gaps = (yours.double() - expected.double()).abs()[differs]
    gaps = gaps[gaps.isfinite()]
    smallest = float(gaps.min()) if len(gaps) else 1.0
    return next((d for d in range(2, 6) if smallest > 2 * 10**-d), 6)


def _table(numbers: Tensor, decimals: int, marked: Tensor) -> list[str]:
    def cell(value: Any) -> str:
        if isinstance(value, bool):
            return "True" if value else "·"
        return f"{value + 0.0:.{decimals}f}"

    cells = [
        [cell(value) + ("*" if mark else " ") for value, mark in zip(row, marks, strict=True)]
        for row, marks in zip(numbers.tolist(), marked.tolist(), strict=True)
    ]
    width = max((len(cell) for row in cells for cell in row), default=0)
    return ["[" + " ".join(cell.rjust(width) for cell in row) + "]" for row in cells]
