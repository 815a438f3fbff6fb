"""Whether results are the same, and in plain words how they are not."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from exercises.show import close, side_by_side


def same(a: Any, b: Any) -> bool:
    """Whether two results are equal: tensors in shape, dtype and, rounding aside, numbers."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and bool(close(a, b).all())
    return type(a) is type(b) and bool(a == b)


def same_numbers(a: Any, b: Any) -> bool:
    """Whether two tensors hold the same numbers in the same order, whatever their axes and dtypes."""
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)) or a.numel() != b.numel():
        return False
    return bool(close(a.flatten(), b.flatten()).all())


def differences(names: tuple[str, ...], yours: tuple[Any, ...], expected: tuple[Any, ...]) -> list[str]:
    """What is wrong with the first result that is."""
    if len(yours) == 1 and yours[0] is None:
        return ["it returns None: has it a return at the end?"]
    if len(yours) != len(expected):
        returned = "one thing" if len(yours) == 1 else f"{len(yours)} things"
        wanted = "one" if len(expected) == 1 else f"{len(expected)}: {', '.join(names)}"
        return [f"it returns {returned}, and should return {wanted}"]
    name, mine, right = next(row for row in zip(names, yours, expected, strict=True) if not same(*row[1:]))
    return list(_difference("the result" if len(names) == 1 else name, mine, right))


def kind(value: Any) -> str:
    """A value's type with its article."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _difference(name: str, yours: Any, expected: Any) -> Iterator[str]:
    if not isinstance(yours, Tensor):
        yield f"{name} is {kind(yours)}, and should be {kind(expected)}"
    elif yours.shape != expected.shape:
        yield f"{name} has the shape {tuple(yours.shape)}, and should have {tuple(expected.shape)}" + (
            ": the values are right, only the axes are not" if same_numbers(yours, expected) else ""
        )
    elif yours.dtype != expected.dtype:
        mine, wanted = (str(t.dtype).removeprefix("torch.") for t in (yours, expected))
        yield f"{name} holds {mine}, and should hold {wanted}" + (
            ": the values are right, only their type is not" if same_numbers(yours, expected) else ""
        )
    elif yours.isnan().any() and not expected.isnan().any():
        yield f"{name} has NaN where there should be numbers"
        yield from side_by_side(yours, expected)
    else:
        yield f"{name} has wrong {'entries' if expected.dtype == torch.bool else 'numbers'}, marked with *"
        yield from side_by_side(yours, expected)
