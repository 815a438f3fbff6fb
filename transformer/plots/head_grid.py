"""A grid of the attention weights of all layers and heads, and a large heat map of the selected head."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from torch import Tensor

from transformer.plots import style

WIDTH = 290
ZERO = "#440154"
"""The colour of weight 0: the background of the heat maps."""
EDGE = 0.05
"""The margin around a small heat map, as a fraction of its side."""
FAINT = 0.02
"""Smaller weights look like 0, and are left out of the small heat maps."""


def head_grid(
    weights: Mapping[str, Tensor],
    words: Mapping[str, tuple[Sequence[str], Sequence[str]]],
    description: str,
    first: tuple[str, int] | None = None,
    marked: Mapping[tuple[str, int], Sequence[tuple[int, int]]] | None = None,
) -> Any:
    """Return an Altair chart of small heat maps, a row per layer and a column per head, and a large one below.

    The reader selects a head with the menus or by clicking on a small heat map, and hovers over a cell of the large one
    to read its weight.

    Args:
        weights: name of the layer → (heads, n_query, n_key).
        words: name of the layer → the words of the queries, the words of the keys.
        description: the alt text.
        first: the layer and the head, counted from 0, that are selected at first; None: the last layer's head 0.
        marked: (layer, head) → cells, (query, key), that have a frame when this head is enlarged.
    """
    layers, heads = list(weights), max(len(w) for w in weights.values())
    rows, labels = _rows(weights), _labels(words)
    bind: Any = {
        "l": alt.binding_select(options=list(range(len(layers))), labels=layers, name="layer "),
        "h": alt.binding_select(options=list(range(heads)), labels=[str(h + 1) for h in range(heads)], name="head "),
    }
    layer, head = first or (layers[-1], 0)
    selected = alt.selection_point(
        "selected",
        fields=["l", "h"],
        bind=bind,
        on="click",
        clear=False,
        value=[{"l": layers.index(layer), "h": head}],
    )
    cell = alt.selection_point(
        "cell", fields=["q", "k"], on="pointerover", clear=False, toggle=False, value=[{"q": 0, "k": 0}]
    )
    small = _small(weights, rows, selected, layers, heads)
    large, reading = _large(rows, labels, words, selected, cell, _marks(marked or {}, layers))
    return style.chart_style(
        alt.vconcat(small, alt.vconcat(large, reading), description=description), side_by_side=True
    )


def _rows(weights: Mapping[str, Tensor]) -> pd.DataFrame:
    """Return a table with a row for each query of each head: a list of its weights.

    The page contains all of it, so the column names are short, and `_with_cells` makes a row for each weight only in
    the browser.
    """
    return pd.DataFrame(
        [
            {"l": layer, "h": head, "q": query, "w": [round(weight, 3) for weight in row]}
            for layer, table in enumerate(weights.values())
            for head, rows in enumerate(table.tolist())
            for query, row in enumerate(rows)
        ]
    )


def _with_cells(chart: Any) -> Any:
    """Return the chart with a row for each weight, ``w``, and its key, ``k``."""
    numbered = chart.transform_flatten(["w"]).transform_window(key="row_number()", groupby=["l", "h", "q"])
    return numbered.transform_calculate(k="datum.key - 1")


def _labels(words: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> pd.DataFrame:
    """Return a table with a row for each query and key of each layer: its position and its word."""
    return pd.DataFrame(
        [
            {"l": layer, "is_query": is_query, "position": position, "word": word}
            for layer, sides in enumerate(words.values())
            for is_query, side in zip((True, False), sides, strict=True)
            for position, word in enumerate(side)
        ]
    )


def _marks(marked: Mapping[tuple[str, int], Sequence[tuple[int, int]]], layers: list[str]) -> pd.DataFrame:
    """Return a table with a row for each cell that has a frame."""
    rows = [
        {"l": layers.index(layer), "h": head, "q": query, "k": key}
        for (layer, head), cells in marked.items()
        for query, key in cells
    ]
    return pd.DataFrame(rows, columns=["l", "h", "q", "k"])


def _small(weights: Mapping[str, Tensor], rows: pd.DataFrame, selected: Any, layers: list[str], heads: int) -> Any:
    label_width = 7.0 * max(map(len, layers)) + 8  # pixels
    side = min(52.0, (WIDTH - label_width) / heads)
    x = alt.X("x:Q", scale=alt.Scale(domain=[-label_width / side, heads], nice=False), axis=None)
    y = alt.Y("y:Q", scale=alt.Scale(domain=[len(layers), -0.4], nice=False), axis=None)
    size = 1 - 2 * EDGE
    tiles = (
        alt.Chart(pd.DataFrame([{"l": layer, "h": head} for layer in range(len(layers)) for head in range(heads)]))
        .transform_calculate(x=f"datum.h + {EDGE}", y=f"datum.l + {EDGE}")
        .transform_calculate(x2=f"datum.x + {size}", y2=f"datum.y + {size}")
        .mark_rect(cursor="pointer")
        .encode(x, y, x2="x2:Q", y2="y2:Q")
    )
    frames = tiles.encode(
        fill=alt.value("transparent"),
        stroke=alt.condition(selected, alt.value(style.WRONG), alt.value("transparent")),
        strokeWidth=alt.value(4),
    )
    shapes = [(w.size(1), w.size(2)) for w in weights.values()]
    height, width = (f"({size} / {list(counts)}[datum.l])" for counts in zip(*shapes, strict=True))
    maps = (
        _with_cells(alt.Chart(rows))
        .transform_filter(f"datum.w >= {FAINT}")
        .transform_calculate(x=f"datum.h + {EDGE} + datum.k * {width}", y=f"datum.l + {EDGE} + datum.q * {height}")
        .transform_calculate(x2=f"datum.x + {width}", y2=f"datum.y + {height}")
        .mark_rect()
        .encode(x, y, _colour(), x2="x2:Q", y2="y2:Q")
    )
    names = pd.DataFrame({"x": -0.1, "y": [-0.2, *(np.arange(len(layers)) + 0.5)], "name": ["head", *layers]})
    numbers = pd.DataFrame({"x": np.arange(heads) + 0.5, "y": -0.2, "name": np.arange(1, heads + 1).astype(str)})
    row_labels = alt.Chart(names).mark_text(align="right", fontSize=12).encode(x, y, text="name:N")
    column_labels = alt.Chart(numbers).mark_text(fontSize=12).encode(x, y, text="name:N")
    grid = alt.layer(tiles.encode(fill=alt.value(ZERO)), maps, row_labels, column_labels, frames.add_params(selected))
    return grid.properties(width=label_width + side * heads, height=side * (len(layers) + 0.4))


def _large(
    rows: pd.DataFrame,
    labels: pd.DataFrame,
    words: Mapping[str, tuple[Sequence[str], Sequence[str]]],
    selected: Any,
    cell: Any,
    marks: pd.DataFrame,
) -> tuple[Any, Any]:
    longest = max(len(side) for sides in words.values() for side in sides)
    label_width = 7.0 * max(len(word) for sides in words.values() for side in sides for word in side) + 8  # pixels
    side = (WIDTH - label_width) / longest
    font_size = min(12.0, side)
    domain = [-label_width / side, longest]
    x = alt.X("x:Q", scale=alt.Scale(domain=domain, nice=False), axis=None)
    y = alt.Y("y:Q", scale=alt.Scale(domain=domain[::-1], nice=False), axis=None)
    queries = str({layer: list(sides[0]) for layer, sides in enumerate(words.values())})
    keys = str({layer: list(sides[1]) for layer, sides in enumerate(words.values())})
    head = _with_cells(alt.Chart(rows).transform_filter(selected))
    squares = (
        head.transform_calculate(x="datum.k", y="datum.q", x2="datum.k + 1", y2="datum.q + 1")
        .transform_calculate(reading=_sentence(queries, keys))
        .mark_rect(stroke="currentColor")
        .encode(
            x, y, _colour(), x2="x2:Q", y2="y2:Q",
            strokeWidth=alt.condition(cell, alt.value(3), alt.value(0.3)),
            tooltip="reading:N",
        )
    )  # fmt: skip
    labelled = alt.Chart(labels).transform_filter("datum.l == selected.l[0]")
    row_labels = (
        labelled.transform_filter("datum.is_query")
        .transform_calculate(x="0", y="datum.position + 0.5")
        .mark_text(align="right", baseline="middle", dx=-5, fontSize=font_size)
        .encode(x, y, text="word:N")
    )
    column_labels = (
        labelled.transform_filter("!datum.is_query")
        .transform_calculate(x="datum.position + 0.5", y="0")
        .mark_text(align="left", baseline="middle", angle=270, dx=5, fontSize=font_size)
        .encode(x, y, text="word:N")
    )
    parts = [squares, row_labels, column_labels]
    if len(marks):
        frames = (
            alt.Chart(marks)
            .transform_filter(selected)
            .transform_calculate(x="datum.k", y="datum.q", x2="datum.k + 1", y2="datum.q + 1")
            .mark_rect(stroke=style.WRONG, strokeWidth=2.5, filled=False)
            .encode(x, y, x2="x2:Q", y2="y2:Q")
        )
        parts.append(frames)
    large = alt.layer(*parts).add_params(cell).properties(width=WIDTH, height=WIDTH)
    reading = (
        head.transform_filter(cell)
        .transform_calculate(reading=_sentence(queries, keys))
        .mark_text(align="left", fontSize=14, x=0)
        .encode(text="reading:N")
        .properties(width=WIDTH, height=22)
    )
    return large, reading


def _sentence(queries: str, keys: str) -> str:
    return f"{queries}[datum.l][datum.q] + ' → ' + {keys}[datum.l][datum.k] + ': ' + format(datum.w, '.2f')"


def _colour() -> Any:
    return alt.Color("w:Q", scale=alt.Scale(scheme=style.WEIGHTS, domain=[0, 1]), legend=None)
