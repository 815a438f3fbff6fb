"""Compare the results of an answer with the expected ones, and describe differences in plain words."""

import math
from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from exercises.formatting import format_value, is_close, rows_side_by_side, tables_side_by_side


def to_builtin(value: Any) -> Any:
    """Convert a value to Python's built-in types, so that a class of the learner's own can't redefine equality.

    A parameter becomes the tensor it contains. A tensor of any other subclass stays as it is, and is equal to nothing.
    """
    family = type(value)
    if family is torch.nn.Parameter:
        return value.data
    if issubclass(family, str):
        return str.__str__(value)
    if issubclass(family, Real) and not isinstance(value, bool):
        return int(value) if issubclass(family, Integral) else float(value)
    if issubclass(family, list):
        return [to_builtin(entry) for entry in list.__iter__(value)]
    if issubclass(family, tuple):
        return tuple(to_builtin(entry) for entry in tuple.__iter__(value))
    if issubclass(family, Mapping):
        entries = dict.items(value) if issubclass(family, dict) else value.items()
        return {to_builtin(key): to_builtin(entry) for key, entry in entries}
    return value


def equal(a: Any, b: Any) -> bool:
    """Return whether two results are equal up to rounding.

    Tensors must also have the same shape and dtype. Lists and dicts are compared entry by entry. An integer may replace
    a float, a tuple a list, and any mapping a dict.
    """
    if (family := _family(a)) != _family(b):
        return False
    if family is Tensor:
        return a.shape == b.shape and a.dtype == b.dtype and bool(is_close(a, b).all())
    if family is Real:
        exact = isinstance(a, Integral) and isinstance(b, Integral)
        return bool(a == b) if exact else math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-9) or a != a and b != b
    if family is list:
        return len(a) == len(b) and all(map(equal, a, b))
    if family is Mapping:
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    return bool(a == b)


def equal_numbers(a: Any, b: Any) -> bool:
    """Return whether two tensors or numbers contain the same numbers in the same order, in any shape and dtype."""
    a, b = (torch.tensor(x, dtype=torch.float64) if _family(x) is Real else x for x in (a, b))
    if not (type(a) is type(b) is Tensor) or a.numel() != b.numel():
        return False
    return bool(is_close(a.flatten(), b.flatten()).all())


def equal_gradients(a: Tensor, b: Tensor, scale: float) -> bool:
    """Return whether two gradients are equal up to rounding, which grows with the largest gradient, the scale."""
    tolerance = 1e-2 if b.dtype == torch.float16 else 1e-4
    return bool(torch.isclose(a.double(), b.double(), rtol=tolerance, atol=tolerance * scale, equal_nan=True).all())


def describe_difference(names: tuple[str, ...], yours: tuple[Any, ...], expected: tuple[Any, ...]) -> list[str]:
    """Return lines that describe what is wrong with the first wrong result.

    Args:
        names: names of the expected results.
        yours: the results of the learner's answer.
        expected: the results of the reference.
    """
    if len(yours) == 1 and yours[0] is None:
        return ["it returns None: is there a return statement at the end?"]
    if len(expected) == 1 and isinstance(yours[0], tuple) and _family(expected[0]) is not list:
        return [f"it returns {len(yours[0])} values, and should return one value"]
    if len(yours) != len(expected):
        returned = "one value" if len(yours) == 1 else f"{len(yours)} values"
        return [f"it returns {returned}, and should return {len(expected)}: {', '.join(names)}"]
    name, actual, right = next(row for row in zip(names, yours, expected, strict=True) if not equal(*row[1:]))
    return list(_difference("the result" if len(names) == 1 else name, actual, right))


def type_with_article(value: Any) -> str:
    """Return the name of a value's type with its article, such as "a Tensor"."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _family(value: Any) -> type:
    """Return the kind of a value; only values of the same kind can be equal."""
    if type(value) is Tensor:
        return Tensor
    if isinstance(value, Real) and not isinstance(value, bool):
        return Real
    if isinstance(value, (list, tuple)):
        return list
    return Mapping if isinstance(value, Mapping) else type(value)


def _difference(name: str, yours: Any, expected: Any) -> Iterator[str]:
    if _family(yours) != _family(expected):
        yield f"{name} is {type_with_article(yours)}, and should be {type_with_article(expected)}" + (
            ": the value is right, only its type is wrong" if equal_numbers(yours, expected) else ""
        )
    elif not isinstance(yours, Tensor):
        yield from _plain_difference(name, yours, expected)
    elif yours.shape != expected.shape:
        yield f"{name} has the shape {tuple(yours.shape)}, and should have {tuple(expected.shape)}" + (
            ": the values are right, only their axes are wrong" if equal_numbers(yours, expected) else ""
        )
    elif yours.dtype != expected.dtype:
        actual, right = (str(t.dtype).removeprefix("torch.") for t in (yours, expected))
        yield f"{name} has the dtype {actual}, and should have {right}" + (
            ": the values are right, only their dtype is wrong" if equal_numbers(yours, expected) else ""
        )
    elif yours.isnan().any() and not expected.isnan().any():
        yield f"{name} contains NaN"
        yield from tables_side_by_side(yours, expected)
    else:
        yield f"{name} has wrong {'entries' if expected.dtype == torch.bool else 'numbers'}, marked with *"
        yield from tables_side_by_side(yours, expected)


def _plain_difference(name: str, yours: Any, expected: Any) -> Iterator[str]:
    """Describe the difference between two values of the same kind that are not tensors."""
    if _family(yours) not in (list, Mapping):
        actual, right = format_value(yours), format_value(expected)
        if actual == right:  # they differ in a later digit
            actual, right = repr(yours), repr(expected)
        yield f"{name} is {actual}, and should be {right}"
        return
    a, b = (value if isinstance(value, Mapping) else dict(enumerate(value)) for value in (yours, expected))
    differs = [key for key in {**b, **a} if key not in a or key not in b or not equal(a[key], b[key])]
    first = differs[0]
    if isinstance(a.get(first), Tensor) and isinstance(b.get(first), Tensor):
        yield from _difference(f"entry {first!r} of {name}", a[first], b[first])
        return
    if len(a) != len(b):
        count = f"{len(a)} {'entry' if len(a) == 1 else 'entries'}"
        yield f"{name} has {count}, and should have {len(b)}; differences are marked with *"
    else:
        yield f"{name} has wrong entries, marked with *"
    yield from rows_side_by_side(yours, expected, differs)
