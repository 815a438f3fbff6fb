"""Format small tensors and other values for messages to learners."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from exercises.tensors import MAX_ROWS, is_tensor

MAX_LINE = 200
"""If a list or dict with tensors needs more characters than this, only the shapes of its tensors are shown."""

MAX_SHOWN = 24
"""Of tensors with more entries than this among the inputs, only the shape is shown."""

MAX_WIDTH = 60
"""Longer entries of lists and dicts are truncated to this number of characters."""


def format_inputs(inputs: Mapping[str, Any]) -> list[str]:
    """Return one line for each input; large tensors are described by their shape."""
    return [f"  {name} = {_compact(value)}" for name, value in inputs.items()]


def format_shapes(inputs: Mapping[str, Any]) -> list[str]:
    """Return one line for each input; all tensors are described by their shape."""
    return [
        f"  {name}: {tuple(v.shape)}{_unusual_dtype(v)}" if is_tensor(v) else f"  {name} = {format_value(v)}"
        for name, v in inputs.items()
    ]


def format_value(value: Any) -> str:
    """Return a value in one line: floats with six digits, functions by their docstring."""
    if inspect.isfunction(value):
        return f"a function: {inspect.getdoc(value) or value.__name__}"
    if isinstance(value, float):
        return f"{value:g}"
    if is_tensor(value):
        return f"tensor({_compact(value)})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{format_value(key)}: {format_value(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(format_value, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(format_value, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, Iterator):
        return "an iterator"
    return safe_repr(value)


def safe_repr(value: Any) -> str:
    """Return the ``repr`` of a value, or its type if a class of the learner's own has a ``__repr__`` that fails."""
    try:
        return repr(value)
    except Exception:
        return f"an object of the class {type(value).__name__}, whose `__repr__` fails"


def rows_side_by_side(yours: Any, expected: Any, differs: Sequence[Any]) -> list[str]:
    """Return two lists or two dicts side by side, one entry per row, with a * after each entry of yours that differs.

    Of dicts, only the entries that differ are shown; of long lists, only the rows from the first difference on.
    """
    is_dict = isinstance(yours, Mapping)
    where = ""
    if is_dict:
        keys = list(differs)
    else:
        yours, expected = (dict(enumerate(value)) for value in (yours, expected))
        keys = list({**expected, **yours})
        if (first := differs[0]) >= MAX_ROWS:
            keys, where = keys[first:], f", from entry {first} on"
    rows = [(f"  yours{where}", "expected")]
    for key in keys[:MAX_ROWS]:
        label = f"{format_value(key)}: " if is_dict else ""
        cells = [_cut(label + format_value(side[key])) if key in side else "–" for side in (yours, expected)]
        rows.append((f"  {cells[0]}{'*' if key in differs else ' '}", cells[1]))
    width = max(len(left) for left, _ in rows) + 4
    more = [f"  … and {len(keys) - MAX_ROWS} more"] if len(keys) > MAX_ROWS else []
    return ["", *(left.ljust(width) + other for left, other in rows), *more]


def _cut(line: str) -> str:
    return line if len(line) <= MAX_WIDTH else line[: MAX_WIDTH - 1] + "…"


def _compact(value: Any) -> str:
    if is_tensor(value):
        return _outline(value) if value.numel() > MAX_SHOWN else _nested(value.tolist()) + _unusual_dtype(value)
    text = format_value(value)
    return _outline(value) if len(text) > MAX_LINE and "tensor(" in text else text


def _unusual_dtype(tensor: Any) -> str:
    """Return the dtype in parentheses if it isn't the one that the numbers would have by default."""
    dtype = _dtype(tensor)
    return "" if dtype in ("float32", "int64", "bool") else f" ({dtype})"


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _outline(value: Any) -> str:
    """Return a description with the shapes of all tensors, and with the first three entries of each list or dict."""
    if is_tensor(value):
        return f"{_dtype(value)} tensor of shape {tuple(value.shape)}"
    match value:
        case list() | tuple():
            entries = list(map(_outline, value[:3]))
            first, last = "[]" if isinstance(value, list) else "()"
        case Mapping():
            entries = [f"{format_value(key)}: {_outline(value[key])}" for key in list(value)[:3]]
            first, last = "{}"
        case _:
            return format_value(value)
    more = [f"… ({len(value)} in all)"] if len(value) > 3 else []
    return first + ", ".join(entries + more) + last


def _nested(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_nested, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)
