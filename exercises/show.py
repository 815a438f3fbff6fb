"""Small tensors and other values as text that a learner can read."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

MOST_ROWS, MOST_COLUMNS = 8, 8
"""Of a larger table the top left corner is shown, moved so that a difference is in it."""


WIDEST_ROW = 60
"""Characters of an entry of a list or a dict that is shown beside another."""


def show(inputs: Mapping[str, Any]) -> list[str]:
    """Each input on its own line; a large tensor is described by its shape."""
    return [f"  {name} = {_compact(value)}" for name, value in inputs.items()]


def close(a: Tensor, b: Tensor) -> Tensor:
    """Entry by entry whether two tensors of one shape are equal, rounding aside."""
    tolerance = 2e-3 if torch.float16 in (a.dtype, b.dtype) else 1e-5
    return torch.isclose(a.double(), b.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def shapes(inputs: Mapping[str, Any]) -> list[str]:
    """Each input on its own line, tensors by their shape."""
    return [
        f"  {name}: {tuple(v.shape)}" if isinstance(v, Tensor) else f"  {name} = {text(v)}"
        for name, v in inputs.items()
    ]


def text(value: Any) -> str:
    """A value that is no table, in a line: floats with six digits, functions by what they do."""
    if inspect.isfunction(value):
        return f"a function: {inspect.getdoc(value) or value.__name__}"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Tensor):
        return f"tensor({_compact(value)})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{text(key)}: {text(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(text, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(text, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, Iterator):
        return "values that come one after the other, once"
    return repr(value)


def in_rows(yours: Any, expected: Any, differs: Sequence[Any]) -> list[str]:
    """Two lists or two dicts, one entry a row; a * stands behind each entry of yours that differs.

    Of two dicts only what differs is shown, and of long ones only the rows from the first difference on.
    """
    if isinstance(yours, Mapping):
        keys, mine, right = list(differs), yours, expected
    else:
        mine, right = (dict(enumerate(value)) for value in (yours, expected))
        keys = list({**right, **mine})
        keys = keys[differs[0] if differs[0] >= MOST_ROWS else 0 :]
    rows = [("  yours", "expected")]
    for key in keys[:MOST_ROWS]:
        label = f"{text(key)}: " if isinstance(yours, Mapping) else ""
        cells = [_cut(label + text(side[key])) if key in side else "–" for side in (mine, right)]
        rows.append((f"  {cells[0]}{'*' if key in differs else ' '}", cells[1]))
    width = max(len(left) for left, _ in rows) + 4
    more = [f"  … and {len(keys) - MOST_ROWS} more"] if len(keys) > MOST_ROWS else []
    return ["", *(left.ljust(width) + other for left, other in rows), *more]


def side_by_side(yours: Tensor, expected: Tensor) -> list[str]:
    """Two tables of the same shape, with a * behind each entry of yours that differs."""
    yours, expected = yours.detach().cpu(), expected.detach().cpu()
    differs = ~close(yours, expected)
    where = ""
    if yours.dim() > 2:  # the first table in which they differ
        index = tuple(differs.flatten(-2).any(-1).nonzero()[0].tolist()) if differs.any() else (0,) * (yours.dim() - 2)
        yours, expected, differs = yours[index], expected[index], differs[index]
        where = "[" + ", ".join(map(str, index)) + "]"
    rows, columns = (1, 1, *yours.shape)[-2:]
    yours, expected, differs = (t.reshape(rows, columns) for t in (yours, expected, differs))
    top, left = (differs.nonzero()[0].tolist()) if differs.any() else (0, 0)
    top = top if top >= MOST_ROWS else 0
    left = left if left >= MOST_COLUMNS else 0
    window = (slice(top, top + MOST_ROWS), slice(left, left + MOST_COLUMNS))
    decimals = _decimals(yours[window], expected[window], differs[window])
    mine = _table(yours[window], decimals, differs[window])
    right = _table(expected[window], decimals, torch.zeros_like(differs[window]))
    heads = f"yours{where}", f"expected{where}"
    width = max(len(heads[0]), *map(len, mine)) + 4
    return ["", "  " + heads[0].ljust(width) + heads[1]] + [
        "  " + a.ljust(width) + b for a, b in zip(mine, right, strict=True)
    ]


def _cut(line: str) -> str:
    return line if len(line) <= WIDEST_ROW else line[: WIDEST_ROW - 1] + "…"


def _compact(value: Any) -> str:
    if not isinstance(value, Tensor):
        return text(value)
    if value.numel() > 24:
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype} numbers of shape {tuple(value.shape)}"
    return _nested(value.tolist())


def _nested(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_nested, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _decimals(yours: Tensor, expected: Tensor, differs: Tensor) -> int:
    """None for whole numbers; else as few as show every difference, at least two."""
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
