"""Find how wrong results are related to the right ones: the wrong sign, an extra factor, two swapped axes.

This is for mistakes that have no name. A relation is reported only if it holds for every wrong result and for all of
its numbers. What is found is the symptom, and the text says where to look for its cause.
"""

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from numbers import Real
from typing import Any

from exercises.axes import axis_relation
from exercises.compare import equal
from exercises.formatting import safe_repr
from exercises.tensors import AXES, is_tensor, to_floats

MAX_NUMBERS = 5000
"""Larger results aren't examined."""


@dataclass(frozen=True)
class Wrong:
    """One wrong result."""

    inputs: Mapping[str, Any]
    yours: Any
    expected: Any


@dataclass(frozen=True)
class Finding:
    """What is wrong, in a few words, and a sentence for the learner."""

    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.title}\n{self.text}"


def find_relation(wrong: Sequence[Wrong]) -> Finding | None:
    """Return the first relation that holds between all wrong results and the right ones, if there is one."""
    leaves = [leaf for case in _distinct(wrong) for leaf in _leaves(case)]
    if not leaves:
        return None
    return next((found for search in SEARCHES if (found := search(leaves))), None)


def _distinct(wrong: Sequence[Wrong]) -> list[Wrong]:
    """Return each wrong result once: fresh inputs may be equal to the fixed ones."""
    found: list[Wrong] = []
    for case in wrong:
        if not any(equal(case.yours, other.yours) and equal(case.expected, other.expected) for other in found):
            found.append(case)
    return found


def _leaves(case: Wrong) -> Iterator[Wrong]:
    """Yield the wrong tensors in a list or dict of tensors; any other result stays as it is."""
    yours, expected = (_as_mapping(side) for side in (case.yours, case.expected))
    pairs = [(yours[key], expected[key]) for key in expected] if expected and yours.keys() == expected.keys() else []
    if pairs and all(is_tensor(entry) for pair in pairs for entry in pair):
        yield from (Wrong(case.inputs, a, b) for a, b in pairs if not equal(a, b))
    else:
        yield case


def _as_mapping(value: Any) -> Mapping[Any, Any]:
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    return value if isinstance(value, Mapping) else {}


# Numbers --------------------------------------------------------------------------------------------------------------


def _numbers(value: Any) -> list[float] | None:
    """Return the numbers in a result in order; None if it contains anything else."""
    if is_tensor(value):
        return to_floats(value, MAX_NUMBERS)
    if isinstance(value, bool) or isinstance(value, int) and abs(value) > sys.float_info.max:
        return None
    if isinstance(value, Real):
        return [float(value)]
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list | tuple) or len(value) > MAX_NUMBERS:
        return None
    parts = [_numbers(entry) for entry in value]
    return None if None in parts else [number for part in parts for number in part or []]


def _pairs(wrong: Sequence[Wrong]) -> list[list[tuple[float, float]]] | None:
    """Return, for each wrong result, pairs of the number that is there and the one that should be."""
    rows = []
    for case in wrong:
        yours, expected = _numbers(case.yours), _numbers(case.expected)
        is_dict = isinstance(case.expected, Mapping)
        if is_dict and not (isinstance(case.yours, Mapping) and list(case.yours) == list(case.expected)):
            return None
        if not expected or yours is None or len(yours) != len(expected):
            return None
        if is_tensor(case.yours) and is_tensor(case.expected) and case.yours.shape != case.expected.shape:
            return None
        rows.append(list(zip(yours, expected, strict=True)))
        if all(_close(a, b) for a, b in rows[-1]):  # only their shape, type or grouping is wrong
            return None
    return rows


def _close(a: float, b: float) -> bool:
    return a == b or math.isclose(a, b, rel_tol=2e-4, abs_tol=1e-6)


def _quantities(inputs: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers among the inputs, and the lengths of the others, each with its description."""
    found: dict[str, float] = {}
    for name, value in inputs.items():
        if is_tensor(value):
            lengths = zip(AXES.values(), reversed(value.shape), strict=False)
            found |= {f"the length of the {place} of `{name}`": length for place, length in lengths}
        elif isinstance(value, Real) and not isinstance(value, bool):
            found[f"`{name}`"] = float(value)
        elif isinstance(value, list | tuple | str | Mapping):
            found[f"the length of `{name}`"] = len(value)
    return found


POWERS: dict[str, Callable[[float], float]] = {
    "{}": lambda x: x,
    "the square root of {}": math.sqrt,
    "the square of {}": lambda x: x * x,
    "{} minus 1": lambda x: x - 1,
    "1 minus {}": lambda x: 1 - x,
    "twice {}": lambda x: 2 * x,
}


def _as_quantity(wrong: Sequence[Wrong], values: Sequence[float]) -> str | None:
    """Describe numbers, one for each wrong result, by one and the same quantity of the inputs."""
    if len({round(value, 6) for value in values}) < 2:
        return None
    rows = [_quantities(case.inputs) for case in wrong]
    for name in rows[0]:
        if all(name in row for row in rows):
            for form, power in POWERS.items():
                try:
                    if all(_close(power(row[name]), value) for row, value in zip(rows, values, strict=True)):
                        return form.format(name)
                except ValueError:
                    continue
    return None


UNITS = {
    small if times == "small" else 1 / small: f"{many} times too {times}"
    for small, many in (
        (1e-3, "a thousand"),
        (1e-6, "a million"),
        (1e-9, "a billion"),
        (2.0**-10, "1024"),
        (2.0**-20, "1024 · 1024"),
        (2.0**-30, "1024 · 1024 · 1024"),
    )
    for times in ("small", "large")
}
"""Factors between units → what they are called."""


def _find_factor(wrong: Sequence[Wrong]) -> Finding | None:
    rows = _pairs(wrong)
    if rows is None:
        return None
    factors = []
    for row in rows:
        ratios = [a / b for a, b in row if b and math.isfinite(b)]
        if not ratios or not all(_close(a, b * ratios[0]) for a, b in row) or not math.isfinite(ratios[0]):
            return None
        factors.append(ratios[0])
    several = max(map(len, rows)) > 2
    if all(_close(factor, -1) for factor in factors):
        return Finding("the wrong sign", "Your numbers have the right size, but the opposite sign.")
    if all(factor == 0 for factor in factors):
        return (
            Finding("nothing but zeros", "All your numbers are 0. Does the last step use what you have computed?")
            if several
            else None
        )
    if 0 in factors:
        return None
    for values, much in ((factors, "large"), ([1 / factor for factor in factors], "small")):
        if quantity := _as_quantity(wrong, values):
            return Finding(
                f"too {much} by a factor",
                f"Wherever your result is wrong, it is too {much} by a factor of {quantity}. Is there an "
                "extra multiplication, division or average, or is one missing?",
            )
    if len(wrong) < 2 and not several:
        return None
    if all(_close(factor, factors[0]) for factor in factors):
        if _close(abs(factors[0]), 100) or _close(abs(factors[0]), 0.01):
            return Finding(
                "percent or fraction", "Your result is a hundred times too large or too small: is it in percent?"
            )
        factor = abs(factors[0])
        if unit := next((text for size, text in UNITS.items() if math.isclose(factor, size, rel_tol=2e-4)), None):
            return Finding("another unit", f"Your result is {unit}. Is it in another unit than asked for?")
        return Finding(
            "off by a constant factor",
            f"Wherever your result is wrong, it is {factors[0]:.4g} times what it should be. Look for a number that "
            "you multiply or divide by, for an average instead of a sum, or for a logarithm to another base.",
        )
    if several:
        return Finding(
            "the scale is wrong",
            "In each test that fails, all your numbers are off by the same factor: the step that scales them is wrong, "
            "and everything else is right. What do you multiply or divide by, and what should it depend on?",
        )
    return None


def _find_difference(wrong: Sequence[Wrong]) -> Finding | None:
    rows = _pairs(wrong)
    if rows is None:
        return None
    differences = []
    for row in rows:
        first = row[0][0] - row[0][1]
        if not math.isfinite(first) or not all(_close(a, b + first) for a, b in row):
            return None
        differences.append(first)
    several = len(wrong) > 1 or max(map(len, rows)) > 2
    for values, much in ((differences, "large"), ([-value for value in differences], "small")):
        if several and all(_close(value, 1) for value in values):
            text = f"Your numbers are too {much} by 1: where do you begin to count, and where do you stop?"
            return Finding(f"too {much} by one", text)
        if several and all(_close(value, values[0]) for value in values) and values[0] > 0:
            return Finding(
                f"too {much} by a constant", f"Wherever your numbers are wrong, they are too {much} by {values[0]:.4g}."
            )
        if min(values) <= 0:
            continue
        if (quantity := _as_quantity(wrong, values)) or (quantity := _as_product(wrong, values)):
            return Finding(
                f"too {much} by one term",
                f"Wherever your result is wrong, it is too {much} by exactly {quantity}. "
                + ("Which part do you count too often?" if much == "large" else "Which part is missing?"),
            )
    return None


def _find_tendency(wrong: Sequence[Wrong]) -> Finding | None:
    rows = _pairs(wrong)
    if rows is None or len(rows) < 3 or max(map(len, rows)) > 1:
        return None
    for much in ("large", "small"):
        if all((a > b) == (much == "large") and a != b for ((a, b),) in rows):
            return Finding(
                f"too {much} wherever it is wrong",
                f"Your result is too {much} in every test that fails. Compute the one that is shown below by hand: at "
                "which step do you get another number than your code?",
            )
    return None


def _find_wrong_length(wrong: Sequence[Wrong]) -> Finding | None:
    """Find which axis has the wrong length, and where both lengths come from."""
    if not all(is_tensor(side) for case in wrong for side in (case.yours, case.expected)):
        return None
    n_axes = {(case.yours.dim(), case.expected.dim()) for case in wrong}
    yours, expected = max(n_axes)
    if yours != expected and len(n_axes) == 1:
        few = "few" if yours < expected else "many"
        actual = f"has {_count(yours)}" if yours else "is a single number"
        right = f"have {_count(expected)}" if expected else "be a single number, without any axis"
        return Finding(f"too {few} axes", f"Your result {actual}, but should {right}.")
    for axis, place in AXES.items():
        cases = [case for case in wrong if case.yours.dim() == case.expected.dim() >= -axis]
        wrong_lengths = [case.yours.size(axis) != case.expected.size(axis) for case in cases]
        if len(cases) == len(wrong) and all(wrong_lengths):
            is_, should = (
                _as_length(wrong, [side.size(axis) for side in sides])
                for sides in ([case.yours for case in wrong], [case.expected for case in wrong])
            )
            text = f"The {place} of your result has the wrong length"
            text += f": it is {is_}" if is_ else ""
            text += f". It should be {should}." if should else "."
            return Finding("an axis of the wrong length", text)
    return None


def _count(n_axes: int) -> str:
    return "a single axis" if n_axes == 1 else f"{n_axes} axes"


def _as_length(wrong: Sequence[Wrong], lengths: Sequence[int]) -> str | None:
    if len(wrong) > 1 and len(set(lengths)) == 1:
        return f"{lengths[0]} in every test"
    return _as_quantity(wrong, lengths)


def _as_product(wrong: Sequence[Wrong], values: Sequence[float]) -> str | None:
    """Describe numbers, one for each wrong result, as a multiple of a product of numbers among the inputs."""
    rows = [_quantities(case.inputs) for case in wrong]
    names = [name for name in rows[0] if name.startswith("`") and all(row.get(name) for row in rows)]
    if len({round(value, 6) for value in values}) < 3:
        return None
    for factors in (f for n in (1, 2, 3) for f in combinations_with_replacement(names, n)):
        ratios = [value / math.prod(row[name] for name in factors) for row, value in zip(rows, values, strict=True)]
        if (
            all(_close(ratio, ratios[0]) for ratio in ratios)
            and abs(ratios[0]) >= 0.25
            and _close(4 * ratios[0], round(4 * ratios[0]))
        ):
            return " · ".join([*([] if _close(ratios[0], 1) else [f"{ratios[0]:g}"]), *factors])
    return None


def _safely(function: Callable[[float], float]) -> Callable[[float], float]:
    def apply(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError, ZeroDivisionError):
            return math.nan

    return apply


FUNCTIONS: dict[str, tuple[Callable[[float], float], str]] = {
    "one minus the right result": (lambda x: 1 - x, "Each of your numbers and the right one add up to 1."),
    "the reciprocal of the right result": (lambda x: 1 / x, "You divide the wrong way round."),
    "the logarithm of the right result": (math.log, "Your numbers are the logarithms of the right ones."),
    "the exponential of the right result": (
        math.exp,
        "Your numbers are the exponentials of the right ones: a logarithm is missing, or there is one step too many.",
    ),
    "the square of the right result": (
        lambda x: x * x,
        "Your numbers are the squares of the right ones: a square root is missing, or there is a square too many.",
    ),
    "the root of the right result": (
        math.sqrt,
        "Your numbers are the square roots of the right ones: there is a root too many, or a square is missing.",
    ),
    "rounded down": (math.floor, "Your result is the right one, rounded down: look for `//`, `int(…)` and `floor`."),
    "rounded": (round, "Your result is the right one, rounded."),
    **{
        f"rounded to {n} decimal place{'s' * (n > 1)}": (
            partial(round, ndigits=n),
            "Your result is the right one, rounded. Return all of its decimal places.",
        )
        for n in range(1, 5)
    },
    "the absolute value of the right result": (abs, "Your numbers have the right size, but none is negative."),
    "clipped at 0": (lambda x: max(x, 0.0), "Where the result should be negative, yours is 0."),
    "clipped at 1": (lambda x: min(x, 1.0), "Where the result should be larger than 1, yours is 1."),
    "clipped at 0 and 1": (
        lambda x: min(max(x, 0.0), 1.0),
        "Your numbers never leave the range from 0 to 1, but the right ones do.",
    ),
}


def _find_function(wrong: Sequence[Wrong]) -> Finding | None:
    rows = _pairs(wrong)
    if rows is None:
        return None
    pairs = [pair for row in rows for pair in row]
    if len(pairs) < 2 or len({round(a, 6) for a, _ in pairs}) < 2:
        return None
    for title, (function, text) in FUNCTIONS.items():
        if all(_close(a, _safely(function)(b)) for a, b in pairs):
            return Finding(title, text)
    return None


def find_nan(wrong: Sequence[Wrong]) -> Finding | None:
    """Return where NaN and infinities come from, if each of the wrong results contains some that shouldn't be there."""
    rows = _pairs(wrong)
    if rows is None:
        return None
    pairs = [pair for row in rows for pair in row]
    not_finite = [(a, b) for a, b in pairs if math.isfinite(b) and not math.isfinite(a)]
    if all(any(math.isfinite(b) and not math.isfinite(a) for a, b in row) for row in rows):
        if all(math.isnan(a) for a, _ in not_finite):
            return Finding(
                "NaN, where there should be numbers",
                "NaN comes from 0/0, ∞ − ∞, ∞/∞ and 0 · ∞, and from the root or logarithm of a negative number. Which "
                "step can meet one of them here? Exponentials of large numbers are infinite, those of very negative "
                "ones 0.",
            )
        return Finding(
            "infinite, where there should be numbers",
            "A number divided by 0 is infinite, and so are the logarithm of 0 and the exponential of a large number. "
            "Which step can meet one of them here?",
        )
    return None


# Tensors --------------------------------------------------------------------------------------------------------------


def _find_axis_relation(wrong: Sequence[Wrong]) -> Finding | None:
    if not all(is_tensor(side) for case in wrong for side in (case.yours, case.expected)):
        return None
    found = axis_relation([(case.yours, case.expected) for case in wrong])
    return Finding(*found) if found else None


# Lists, dicts and texts -----------------------------------------------------------------------------------------------

Holds = Callable[[Any, Any], bool]


def _contains(more: Sequence[Any], less: Sequence[Any]) -> bool:
    """Return whether all entries of one list are in another, in the same order."""
    rest = iter(more)
    return len(more) > len(less) and all(any(equal(a, b) for a in rest) for b in less)


def _sorted(value: Any) -> list[str]:
    return sorted(map(safe_repr, value))


def _flat(value: Any) -> list[Any]:
    return [leaf for entry in value for leaf in _flat(entry)] if isinstance(value, list | tuple) else [value]


def _is_nested(value: Sequence[Any]) -> bool:
    return any(isinstance(entry, list | tuple) for entry in value)


def _have_same_entries(a: Any, b: Any) -> bool:
    return len(a) == len(b) and _sorted(a) == _sorted(b)


def _are_grouped_otherwise(a: Any, b: Any) -> bool:
    return _is_nested(b) and equal(_flat(a), _flat(b))


def _are_sorted_otherwise_inside(a: Any, b: Any) -> bool:
    return (
        _is_nested(b)
        and len(a) == len(b)
        and all(_have_same_entries(_flat(x), _flat(y)) for x, y in zip(a, b, strict=True))
    )


def _repeats(a: Any, b: Any) -> bool:
    return len(a) > len(b) and {*map(safe_repr, a)} == {*map(safe_repr, b)}


def _is_part_of(a: Mapping[Any, Any], b: Mapping[Any, Any]) -> bool:
    return len(a) < len(b) and all(key in b and equal(entry, b[key]) for key, entry in a.items())


def _has_zeros_too_many(a: Mapping[Any, Any], b: Mapping[Any, Any]) -> bool:
    return _is_part_of(b, a) and all(equal(entry, 0) for key, entry in a.items() if key not in b)


def _is_never_smaller(a: Mapping[Any, Any], b: Mapping[Any, Any]) -> bool:
    numbers = all(isinstance(entry, Real) for entry in (*a.values(), *b.values()))
    return numbers and a.keys() == b.keys() and all(entry >= b[key] for key, entry in a.items())


def _have_same_values(a: Mapping[Any, Any], b: Mapping[Any, Any]) -> bool:
    return _have_same_entries(list(a.values()), list(b.values()))


SEQUENCES: dict[str, tuple[Holds, str]] = {
    "an empty result": (lambda a, b: not a, "There is nothing in your result."),
    "the last entry is missing": (
        lambda a, b: equal(a, b[:-1]),
        "Your result is right as far as it goes, but one entry at its end is missing.",
    ),
    "the first entry is missing": (
        lambda a, b: equal(a, b[1:]),
        "Your result is right from its second entry on, but the first one is missing.",
    ),
    "one entry too many at the end": (
        lambda a, b: equal(a[:-1], b),
        "Everything is right up to your last entry, which shouldn't be there.",
    ),
    "one entry too many at the beginning": (
        lambda a, b: equal(a[1:], b),
        "Your first entry shouldn't be there. The rest is right.",
    ),
    "it stops too early": (
        lambda a, b: equal(a, b[: len(a)]),
        "Your result is right as far as it goes, but it ends too early. What decides when to stop?",
    ),
    "it stops too late": (
        lambda a, b: equal(a[: len(b)], b),
        "Your result begins with the right one, but then it goes on. What decides when to stop?",
    ),
    "reversed": (lambda a, b: equal(a, b[::-1]), "The entries are right, but their order is reversed."),
    "the same entries in another order": (
        _have_same_entries,
        "All entries are right, but their order isn't. What determines the order, and what if there is a tie?",
    ),
    "grouped in another way": (
        _are_grouped_otherwise,
        "All entries are there, in the right order, but grouped differently. What decides where a group ends?",
    ),
    "another order within the entries": (
        _are_sorted_otherwise_inside,
        "Each entry contains what it should, but in another order. What determines the order?",
    ),
    "entries are missing": (
        lambda a, b: _contains(b, a),
        "What you return is right, but some entries are missing: compare the columns. Which condition leaves them out?",
    ),
    "too many entries": (
        _contains,
        "Nothing is missing, but you return too many entries: compare the columns. Which condition is missing?",
    ),
    "entries that are there too often": (
        _repeats,
        "You return only entries that should be there, but some of them too often.",
    ),
}

ENDS_WRONG = (
    "an empty result",
    "the last entry is missing",
    "the first entry is missing",
    "one entry too many at the end",
    "one entry too many at the beginning",
    "it stops too early",
    "it stops too late",
)
"""The titles that describe where a list begins and ends, which are reported first."""

TEXTS: dict[str, tuple[Holds, str]] = {
    "only the spaces are wrong": (
        lambda a, b: "".join(a.split()) == "".join(b.split()),
        "Your text is right apart from its spaces. Look at the beginning, the end, and where words meet.",
    ),
    "only the capitals are wrong": (
        lambda a, b: a.lower() == b.lower(),
        "Your text is right apart from upper and lower case.",
    ),
    "the end is missing": (
        lambda a, b: b.startswith(a),
        "Your text is right as far as it goes, but its end is missing.",
    ),
    "it goes on too long": (
        lambda a, b: a.startswith(b),
        "Your text begins with the right one, but then it goes on.",
    ),
}

DICTS: dict[str, tuple[Holds, str]] = {
    "keys and values are swapped": (
        lambda a, b: equal({entry: key for key, entry in a.items()}, b),
        "Your dict maps values to keys, not keys to values.",
    ),
    "entries are missing": (_is_part_of, "What is in your dict is right, but some entries are missing."),
    "entries of 0": (
        _has_zeros_too_many,
        "Everything in your dict is right, but it also has keys with the value 0. Leave them out.",
    ),
    "too many entries": (
        lambda a, b: _is_part_of(b, a),
        "Nothing is missing from your dict, but it has entries that shouldn't be there.",
    ),
    "some values are too large": (
        _is_never_smaller,
        "The keys are right and no value is too small, but some are too large. What is counted too often?",
    ),
    "some values are too small": (
        lambda a, b: _is_never_smaller(b, a),
        "The keys are right and no value is too large, but some are too small. What isn't counted?",
    ),
    "values at the wrong keys": (
        lambda a, b: a.keys() == b.keys() and _have_same_values(a, b),
        "Keys and values are right, but they don't belong together like this. What determines the order?",
    ),
    "other keys with the right values": (
        lambda a, b: a.keys() != b.keys() and _have_same_values(a, b),
        "The number of entries is right, and so are their values, but the keys are different: compare them below.",
    ),
}


def _find_in_containers(wrong: Sequence[Wrong]) -> Finding | None:
    tables: list[tuple[Any, dict[str, tuple[Holds, str]]]] = [
        (list | tuple, SEQUENCES),
        (str, TEXTS),
        (Mapping, DICTS),
    ]
    for kind, table in tables:
        sides = [side for case in wrong for side in (case.yours, case.expected)]
        if all(isinstance(side, kind) for side in sides) and not any(
            is_tensor(leaf) for s in sides for leaf in _flat(s)
        ):
            for title, (holds, text) in table.items():
                if all(_is_so(holds, case) for case in wrong):
                    return Finding(title, text)
    return None


def _is_so(holds: Holds, case: Wrong) -> bool:
    try:
        return holds(case.yours, case.expected)
    except TypeError:  # a value that can't be a key, for example
        return False


SEARCHES: list[Callable[[Sequence[Wrong]], Finding | None]] = [
    find_nan,
    _find_factor,
    _find_difference,
    _find_function,
    _find_in_containers,
    _find_axis_relation,
    _find_wrong_length,
    _find_tendency,
]
