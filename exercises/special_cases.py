"""Find what is special about the inputs for which an answer is wrong: an empty list, a tie, fewer axes."""

from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

from exercises.calls import Inputs
from exercises.tensors import describe_tensor, is_tensor


def what_is_special(wrong: Sequence[Inputs], right: Sequence[Inputs], only_common: bool) -> list[str]:
    """Return at most two descriptions that fit all inputs of the first kind and none of the second.

    Args:
        wrong: the inputs for which an answer is wrong.
        right: those for which it is right.
        only_common: look only for what often needs care, such as an empty list.
    """
    if not wrong or len(right) < 2:
        return []
    find = _telling_features if only_common else _features
    of_right = {feature for inputs in right for feature in find(inputs)}
    first, *others = (list(dict.fromkeys(find(inputs))) for inputs in wrong)
    found = [f for f in first if f not in of_right and all(f in features for features in others)]
    return (found if found or only_common else _out_of_range(wrong, right))[:2]


def _out_of_range(wrong: Sequence[Inputs], right: Sequence[Inputs]) -> list[str]:
    """Return which numbers among the inputs are all larger or smaller than in the right ones."""
    found = []
    for name in [name for name, value in wrong[0].items() if _is_number(value)]:
        of_wrong, of_right = ([inputs[name] for inputs in side] for side in (wrong, right))
        if min(of_wrong) > max(of_right):
            found.append(f"`{name}` is larger than {max(of_right):g}")
        if max(of_wrong) < min(of_right):
            found.append(f"`{name}` is smaller than {min(of_right):g}")
    return found


def _telling_features(inputs: Inputs) -> Iterator[str]:
    for name, value in inputs.items():
        yield from (f"`{name}` {text}" for text in _describe(value)[0])


def _features(inputs: Inputs) -> Iterator[str]:
    """Yield descriptions of what may be special, the most telling first."""
    described = [(name, *_describe(value)) for name, value in inputs.items()]
    for rank in range(3):
        for name, *ranked in described:
            yield from (f"`{name}` {text}" for text in ranked[rank])
    lengths = {f"`{name}`": value for name, value in inputs.items() if isinstance(value, int) and _is_number(value)} | {
        f"the length of `{name}`": len(value) for name, value in inputs.items() if isinstance(value, list | tuple)
    }
    names = list(lengths)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            yield f"{a} and {b} are equal" if lengths[a] == lengths[b] else f"{a} and {b} differ"
            if lengths[a] != lengths[b]:
                yield f"{a} is {'smaller' if lengths[a] < lengths[b] else 'larger'} than {b}"


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _describe(value: Any) -> tuple[list[str], list[str], list[str]]:
    """Return three lists of descriptions, each less telling than the one before."""
    if value is None or isinstance(value, bool):
        return [f"is {value}"], [], []
    if is_tensor(value):
        return describe_tensor(value)
    if _is_number(value):
        return _describe_number(value)
    if isinstance(value, str):
        return _describe_text(value)
    if isinstance(value, list | tuple | Mapping):
        return _describe_container(value)
    return [], [], []


def _describe_number(value: float) -> tuple[list[str], list[str], list[str]]:
    special = ["is 0"] if value == 0 else ["is 1"] if value == 1 else ["is negative"] if value < 0 else []
    return special, ["isn't 0"] if value else [], ["isn't a whole number"] if value % 1 else []


def _describe_text(value: str) -> tuple[list[str], list[str], list[str]]:
    if not value:
        return ["is empty"], [], []
    whole = ["consists of spaces only"] if not value.strip() else []
    ends = ["begins or ends with a space"] if value != value.strip() else []
    ends += ["contains two spaces in a row"] if "  " in value else []
    capitals = ["contains capitals"] if value != value.lower() else []
    return whole + ends, capitals, ["has a single word"] if len(value.split()) == 1 else ["has several words"]


def _describe_container(value: Any) -> tuple[list[str], list[str], list[str]]:
    if not value:
        return ["is empty"], [], []
    entries = list(value.values()) if isinstance(value, Mapping) else list(value)
    telling = ["has a single entry"] if len(entries) == 1 else []
    telling += ["contains an empty entry"] if any(isinstance(e, list | tuple | str) and not e for e in entries) else []
    plain = [e for e in entries if _is_number(e) or isinstance(e, str)]
    pairs = [e for e in entries if isinstance(e, tuple) and all(_is_number(x) or isinstance(x, str) for x in e)]
    less: list[str] = []
    if len({*map(repr, plain)}) < len(plain) or len({*map(repr, pairs)}) < len(pairs):
        less += ["contains equal values" if isinstance(value, Mapping) else "contains equal entries"]
    numbers = [e for e in plain if _is_number(e)]
    less += ["contains 0"] if 0 in numbers else []
    less += ["contains negative numbers"] if any(n < 0 for n in numbers) else []
    less += ["isn't sorted"] if len(numbers) == len(entries) and numbers != sorted(numbers) else []
    words = [e for e in plain if isinstance(e, str)]
    last = ["contains capitals"] if any(word != word.lower() for word in words) else []
    last += ["contains spaces at the beginning or end of an entry"] if any(w != w.strip() for w in words) else []
    last += ["has several entries"] if len(entries) > 1 else []
    return telling, less, last
