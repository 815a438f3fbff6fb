"""Compare the results of an answer with the expected ones, and describe differences in plain words."""

import math
from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import Any

from exercises import tensors
from exercises.formatting import format_value, rows_side_by_side, safe_repr
from exercises.tensors import is_tensor

NO_RESULT = (
    "Or do you return what a method such as `append` or `sort` returns? Such a method changes the list and "
    "returns None: return the list itself, on a line of its own."
)
"""What else may be wrong if a list is expected and None is returned."""

WHOLE_NUMBERS = "A division by `/` always gives a float. `//` divides one int by another and gives an int."
"""What to look for if a float has the right value, but should be an int."""


def to_builtin(value: Any) -> Any:
    """Convert a value to Python's built-in types, so that a class of the learner's own can't redefine equality.

    A parameter becomes the tensor it contains. A tensor of any other subclass stays as it is, and is equal to nothing.

    Raises:
        RefusedError: if there is a tensor that can't be compared with others.
    """
    family = type(value)
    if is_tensor(value):
        return tensors.plain_tensor(value)
    if family.__module__ == "numpy" and family.__name__ in ("bool", "bool_"):
        return bool(value)
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
    a float, but not a float an integer; a tuple may replace a list, and any mapping a dict.

    Args:
        a: a result.
        b: what it should be.
    """
    if (family := _family(a)) != _family(b):
        return False
    if is_tensor(a):
        return tensors.equal_tensors(a, b)
    if family is Real:
        if isinstance(b, Integral):
            return isinstance(a, Integral) and bool(a == b)
        return _is_close(a, b)
    if family is list:
        return len(a) == len(b) and all(map(equal, a, b))
    if family is Mapping:
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    try:
        return bool(a == b)
    except Exception:  # arrays compare entry by entry, and a class of the learner's own may do anything
        return False


def same_kind(a: Any, b: Any) -> bool:
    """Return whether two results are of the same kind, such as two numbers, or a list and a tuple."""
    return _family(a) is _family(b)


def equal_numbers(a: Any, b: Any) -> bool:
    """Return whether two results contain the same numbers in the same order, in any shape and dtype.

    A list of numbers may replace a tensor, and the other way round. Lists and dicts of tensors are compared entry by
    entry.
    """
    containers = [x for x in (a, b) if _family(x) in (list, Mapping)]
    if len(containers) == 2:
        a, b = (x if isinstance(x, Mapping) else dict(enumerate(x)) for x in (a, b))
        are_tensors = all(is_tensor(entry) for x in (a, b) for entry in x.values())
        return are_tensors and a.keys() == b.keys() and all(equal_numbers(a[key], b[key]) for key in a)
    if containers:
        return any(map(is_tensor, (a, b))) and equal(*(x.tolist() if is_tensor(x) else x for x in (a, b)))
    if is_tensor(a) or is_tensor(b):
        return tensors.equal_numbers(a, b)
    return _family(a) is _family(b) is Real and _is_close(a, b)


def _is_close(a: Any, b: Any) -> bool:
    try:
        return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-9) or a != a and b != b
    except OverflowError:  # an integer that is larger than any float
        return bool(a == b)


def describe_difference(names: tuple[str, ...], yours: tuple[Any, ...], expected: tuple[Any, ...]) -> list[str]:
    """Return lines that describe what is wrong with the first wrong result.

    Args:
        names: names of the expected results.
        yours: the results of the learner's answer.
        expected: the results of the reference.
    """
    if len(yours) == 1 and yours[0] is None:
        said = "it returns None: is there a return statement at the end?"
        return [said, NO_RESULT] if _family(expected[0]) is list else [said]
    if len(expected) == 1 and isinstance(yours[0], tuple) and _family(expected[0]) is not list:
        return [f"it returns {len(yours[0])} values, but should return one value"]
    if len(yours) != len(expected):
        returned = "one value" if len(yours) == 1 else f"{len(yours)} values"
        return [f"it returns {returned}, but should return {len(expected)}: {', '.join(names)}"]
    name, actual, right = next(row for row in zip(names, yours, expected, strict=True) if not equal(*row[1:]))
    return list(_difference("the result" if len(names) == 1 else name, actual, right))


def type_with_article(value: Any) -> str:
    """Return the name of a value's type with its article, such as "a Tensor"."""
    name = type(value).__name__
    sounds_like_vowel = name[0] in "aeioAEIO" or name.startswith("nd")  # as in "ndarray"
    return f"{'an' if sounds_like_vowel else 'a'} {name}"


def _family(value: Any) -> type:
    """Return the kind of a value; only values of the same kind can be equal."""
    if isinstance(value, Real) and not isinstance(value, bool):
        return Real
    if isinstance(value, (list, tuple)):
        return list
    return Mapping if isinstance(value, Mapping) else type(value)


def _difference(name: str, yours: Any, expected: Any) -> Iterator[str]:
    if _family(yours) != _family(expected):
        actual, right = ("None" if value is None else type_with_article(value) for value in (yours, expected))
        told = ""
        if equal_numbers(yours, expected):
            several = {_family(yours), _family(expected)} & {list, Mapping}
            told = ": the values are right, only the" if several else ": the value is right, only its"
            told += " type is wrong"
        yield f"{name} is {actual}, but should be {right}{told}"
    elif is_tensor(yours):
        yield from tensors.describe_difference(name, yours, expected)
    else:
        yield from _plain_difference(name, yours, expected)


def _plain_difference(name: str, yours: Any, expected: Any) -> Iterator[str]:
    """Describe the difference between two values of the same kind that are not tensors."""
    if isinstance(expected, Integral) and isinstance(yours, Real) and not isinstance(yours, Integral | bool):
        told = ": the value is right, only its type is wrong" if yours == expected else ""
        yield f"{name} is the float {format_value(yours)}, but should be the int {expected}{told}"
        if told:
            yield WHOLE_NUMBERS
        return
    if _family(yours) not in (list, Mapping):
        actual, right = format_value(yours), format_value(expected)
        if actual == right:  # they differ in a later digit
            actual, right = safe_repr(yours), safe_repr(expected)
        yield f"{name} is {actual}, but should be {right}"
        return
    a, b = (value if isinstance(value, Mapping) else dict(enumerate(value)) for value in (yours, expected))
    differs = [key for key in {**b, **a} if key not in a or key not in b or not equal(a[key], b[key])]
    first = differs[0]
    if is_tensor(a.get(first)) and is_tensor(b.get(first)):
        yield from _difference(f"entry {first!r} of {name}", a[first], b[first])
        return
    if len(a) != len(b):
        count = f"{len(a)} {'entry' if len(a) == 1 else 'entries'}"
        yield f"{name} has {count}, but should have {len(b)}; differences are marked with *"
    else:
        yield f"{name} has wrong entries, marked with *"
    yield from rows_side_by_side(yours, expected, differs)
