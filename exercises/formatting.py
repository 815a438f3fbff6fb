"""Format small tensors and other values for messages to learners."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

MAX_ROWS, MAX_COLUMNS = 8, 8
"""Larger tables are cut to this size, to a part that contains a difference."""

MAX_LINE = 200
"""If a list or dict with tensors needs more characters than this, only the shapes of its tensors are shown."""

MAX_WIDTH = 60
"""Longer entries of lists and dicts are truncated to this number of characters."""


def format_inputs(inputs: Mapping[str, Any]) -> list[str]:
    """Return one line for each input; large tensors are described by their shape."""
    return [f"  {name} = {_compact(value)}" for name, value in inputs.items()]


def is_close(a: Tensor, b: Tensor) -> Tensor:
    """Compare two tensors of the same shape entry by entry, up to rounding."""
    tolerance = 2e-3 if torch.float16 in (a.dtype, b.dtype) else 1e-5
    return torch.isclose(a.double(), b.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def format_shapes(inputs: Mapping[str, Any]) -> list[str]:
    """Return one line for each input; all tensors are described by their shape."""
    return [
        f"  {name}: {tuple(v.shape)}" if isinstance(v, Tensor) else f"  {name} = {format_value(v)}"
        for name, v in inputs.items()
    ]


def format_value(value: Any) -> str:
    """Return a value in one line: floats with six digits, functions by their docstring."""
    if inspect.isfunction(value):
        return f"a function: {inspect.getdoc(value) or value.__name__}"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Tensor):
        return f"tensor({_compact(value)})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{format_value(key)}: {format_value(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(format_value, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(format_value, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, Iterator):
        return "an iterator"
    return repr(value)


def rows_side_by_side(yours: Any, expected: Any, differs: Sequence[Any]) -> list[str]:
    """Return two lists or two dicts side by side, one entry per row, with a * after each entry of yours that differs.

    Of dicts, only the entries that differ are shown; of long lists, only the rows from the first difference on.
    """
    is_dict = isinstance(yours, Mapping)
    if is_dict:
        keys = list(differs)
    else:
        yours, expected = (dict(enumerate(value)) for value in (yours, expected))
        keys = list({**expected, **yours})
        keys = keys[differs[0] if differs[0] >= MAX_ROWS else 0 :]
    rows = [("  yours", "expected")]
    for key in keys[:MAX_ROWS]:
        label = f"{format_value(key)}: " if is_dict else ""
        cells = [_cut(label + format_value(side[key])) if key in side else "–" for side in (yours, expected)]
        rows.append((f"  {cells[0]}{'*' if key in differs else ' '}", cells[1]))
    width = max(len(left) for left, _ in rows) + 4
    more = [f"  … and {len(keys) - MAX_ROWS} more"] if len(keys) > MAX_ROWS else []
    return ["", *(left.ljust(width) + other for left, other in rows), *more]


def tables_side_by_side(yours: Tensor, expected: Tensor) -> list[str]:
    """Return two tables of the same shape side by side, with a * after each entry of yours that differs."""
    yours, expected = yours.detach().cpu(), expected.detach().cpu()
    differs = ~is_close(yours, expected)
    where = ""
    if yours.dim() > 2:  # the first table in which they differ
        index = tuple(differs.flatten(-2).any(-1).nonzero()[0].tolist()) if differs.any() else (0,) * (yours.dim() - 2)
        yours, expected, differs = yours[index], expected[index], differs[index]
        where = "[" + ", ".join(map(str, index)) + "]"
    rows, columns = (1, 1, *yours.shape)[-2:]
    yours, expected, differs = (t.reshape(rows, columns) for t in (yours, expected, differs))
    top, left = (differs.nonzero()[0].tolist()) if differs.any() else (0, 0)
    top = top if top >= MAX_ROWS else 0
    left = left if left >= MAX_COLUMNS else 0
    window = (slice(top, top + MAX_ROWS), slice(left, left + MAX_COLUMNS))
    decimals = _decimals(yours[window], expected[window], differs[window])
    your_rows = _table(yours[window], decimals, differs[window])
    expected_rows = _table(expected[window], decimals, torch.zeros_like(differs[window]))
    headings = f"yours{where}", f"expected{where}"
    width = max(len(headings[0]), *map(len, your_rows)) + 4
    return ["", "  " + headings[0].ljust(width) + headings[1]] + [
        "  " + a.ljust(width) + b for a, b in zip(your_rows, expected_rows, strict=True)
    ]


def _cut(line: str) -> str:
    return line if len(line) <= MAX_WIDTH else line[: MAX_WIDTH - 1] + "…"


def _compact(value: Any) -> str:
    if isinstance(value, Tensor):
        return _outline(value) if value.numel() > 24 else _nested(value.tolist())
    text = format_value(value)
    return _outline(value) if len(text) > MAX_LINE and "tensor(" in text else text


def _outline(value: Any) -> str:
    """Return a description with the shapes of all tensors, and with the first three entries of each list or dict."""
    match value:
        case Tensor():
            dtype = str(value.dtype).removeprefix("torch.")
            return f"{dtype} numbers of shape {tuple(value.shape)}"
        case list() | tuple():
            entries = list(map(_outline, value[:3]))
        case Mapping():
            entries = [f"{format_value(key)}: {_outline(value[key])}" for key in list(value)[:3]]
        case _:
            return format_value(value)
    more = [f"… ({len(value)} in all)"] if len(value) > 3 else []
    return f"{type(value).__name__}: " + "; ".join(entries + more)


def _nested(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_nested, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


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
