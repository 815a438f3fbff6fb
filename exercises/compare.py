"""Whether results are the same, and in plain words how they are not."""

import math
from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from exercises.show import close, in_rows, side_by_side, text


def plain(value: Any) -> Any:
    """What a value really holds, as Python's own types; of its own class a value may say what it likes.

    A tensor of a class of its own stays as it is, and is equal to none; a parameter is the tensor in it.
    """
    family = type(value)
    if family is torch.nn.Parameter:
        return value.data
    if issubclass(family, str):
        return str.__str__(value)
    if issubclass(family, Real) and not isinstance(value, bool):
        return int(value) if issubclass(family, Integral) else float(value)
    if issubclass(family, list):
        return [plain(entry) for entry in list.__iter__(value)]
    if issubclass(family, tuple):
        return tuple(plain(entry) for entry in tuple.__iter__(value))
    if issubclass(family, Mapping):
        entries = dict.items(value) if issubclass(family, dict) else value.items()
        return {plain(key): plain(entry) for key, entry in entries}
    return value


def same(a: Any, b: Any) -> bool:
    """Whether two results are equal, rounding aside: tensors in shape and dtype too, and lists and dicts in each entry.

    A whole number may stand for a float, a tuple for a list, and any mapping for a dict.
    """
    if (family := _family(a)) != _family(b):
        return False
    if family is Tensor:
        return a.shape == b.shape and a.dtype == b.dtype and bool(close(a, b).all())
    if family is Real:
        exact = isinstance(a, Integral) and isinstance(b, Integral)
        return bool(a == b) if exact else math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-9) or a != a and b != b
    if family is list:
        return len(a) == len(b) and all(map(same, a, b))
    if family is Mapping:
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(a == b)


def same_numbers(a: Any, b: Any) -> bool:
    """Whether two tensors hold the same numbers in the same order, whatever their axes and dtypes; a number is one."""
    a, b = (torch.tensor(x, dtype=torch.float64) if _family(x) is Real else x for x in (a, b))
    if not (type(a) is type(b) is Tensor) or a.numel() != b.numel():
        return False
    return bool(close(a.flatten(), b.flatten()).all())


def differences(names: tuple[str, ...], yours: tuple[Any, ...], expected: tuple[Any, ...]) -> list[str]:
    """What is wrong with the first result that is."""
    if len(yours) == 1 and yours[0] is None:
        return ["it returns None: has it a return at the end?"]
    if len(expected) == 1 and isinstance(yours[0], tuple) and _family(expected[0]) is not list:
        return [f"it returns {len(yours[0])} things, and should return one"]
    if len(yours) != len(expected):
        returned = "one thing" if len(yours) == 1 else f"{len(yours)} things"
        return [f"it returns {returned}, and should return {len(expected)}: {', '.join(names)}"]
    name, mine, right = next(row for row in zip(names, yours, expected, strict=True) if not same(*row[1:]))
    return list(_difference("the result" if len(names) == 1 else name, mine, right))


def kind(value: Any) -> str:
    """A value's type with its article."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _family(value: Any) -> type:
    """What two values must both be to be compared."""
    if type(value) is Tensor:
        return Tensor
    if isinstance(value, Real) and not isinstance(value, bool):
        return Real
    if isinstance(value, (list, tuple)):
        return list
    return Mapping if isinstance(value, Mapping) else type(value)


def _difference(name: str, yours: Any, expected: Any) -> Iterator[str]:
    if _family(yours) != _family(expected):
        yield f"{name} is {kind(yours)}, and should be {kind(expected)}" + (
            ": the value is right, only its type is not" if same_numbers(yours, expected) else ""
        )
    elif not isinstance(yours, Tensor):
        yield from _plain_difference(name, yours, expected)
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


def _plain_difference(name: str, yours: Any, expected: Any) -> Iterator[str]:
    """Of two values of one family, which is not that of tensors."""
    if _family(yours) not in (list, Mapping):
        mine, right = text(yours), text(expected)
        if mine == right:  # the difference is in a later digit
            mine, right = repr(yours), repr(expected)
        yield f"{name} is {mine}, and should be {right}"
        return
    a, b = (value if isinstance(value, Mapping) else dict(enumerate(value)) for value in (yours, expected))
    differs = [key for key in {**b, **a} if key not in a or key not in b or not same(a[key], b[key])]
    first = differs[0]
    if isinstance(a.get(first), Tensor) and isinstance(b.get(first), Tensor):
        yield from _difference(f"entry {first!r} of {name}", a[first], b[first])
        return
    if len(a) != len(b):
        count = f"{len(a)} {'entry' if len(a) == 1 else 'entries'}"
        yield f"{name} has {count}, and should have {len(b)}; differences are marked with *"
    else:
        yield f"{name} has wrong entries, marked with *"
    yield from in_rows(yours, expected, differs)
