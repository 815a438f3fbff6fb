"""Every head of every layer at once, small, and beside them the one that the reader chooses, large enough to read."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from torch import Tensor

from transformer.plots import style

WIDTH = 290
ZERO = "#440154"
"""What the colour map gives to a weight of 0: the ground on which weights are drawn."""
EDGE = 0.05
"""Around a small map, as a share of its side."""
FAINT = 0.02
"""Weights below this one look like zero, and are not drawn in the small maps."""


def every_head(
    weights: Mapping[str, Tensor], words: Mapping[str, tuple[Sequence[str], Sequence[str]]], description: str
) -> Any:
    """An Altair chart: small maps, a row for each layer and a column for each head; the chosen one is drawn large.

    Choose by menu, or click a small map; point at a cell of the large one to read it.

    Args:
        weights: a layer's name, as it stands at its row → (heads, query, key).
        words: the same names → the words of the queries and of the keys.
        description: the alt text.
    """
    layers, heads = list(weights), max(len(w) for w in weights.values())
    cells, labels = _cells(weights), _labels(words)
    bind: Any = {
        "l": alt.binding_select(options=list(range(len(layers))), labels=layers, name="layer "),
        "h": alt.binding_select(options=list(range(heads)), labels=[str(h + 1) for h in range(heads)], name="head "),
    }
    first = [{"l": len(layers) - 1, "h": 0}]
    chosen = alt.selection_point("chosen", fields=["l", "h"], bind=bind, on="click", clear=False, value=first)
    cell = alt.selection_point(
        "cell", fields=["q", "k"], on="pointerover", clear=False, toggle=False, value=[{"q": 0, "k": 0}]
    )
    small = _small(weights, cells, chosen, layers, heads)
    large, reading = _large(cells, labels, words, chosen, cell)
    return style.chart_style(alt.vconcat(small, large, reading, description=description, spacing=12))


def _cells(weights: Mapping[str, Tensor]) -> pd.DataFrame:
    """A row for each weight: layer, head, query, key."""
    parts = []
    for layer, table in enumerate(weights.values()):
        head, query, key = np.indices(table.shape).reshape(3, -1)
        part = {"l": layer, "h": head, "q": query, "k": key, "w": table.detach().cpu().numpy().ravel().round(3)}
        parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def _labels(words: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> pd.DataFrame:
    """A row for each word of each layer: whether it asks, and its place."""
    return pd.DataFrame(
        [
            {"l": layer, "asks": asks, "place": place, "word": word}
            for layer, both in enumerate(words.values())
            for asks, line in zip((True, False), both, strict=True)
            for place, word in enumerate(line)
        ]
    )


def _small(weights: Mapping[str, Tensor], cells: pd.DataFrame, chosen: Any, layers: list[str], heads: int) -> Any:
    room = 7.0 * max(map(len, layers)) + 8  # pixels of a layer's name
    side = min(52.0, (WIDTH - room) / heads)
    x = alt.X("x:Q", scale=alt.Scale(domain=[-room / side, heads], nice=False), axis=None)
    y = alt.Y("y:Q", scale=alt.Scale(domain=[len(layers), -0.4], nice=False), axis=None)
    reach = 1 - 2 * EDGE
    tiles = (
        alt.Chart(pd.DataFrame([{"l": layer, "h": head} for layer in range(len(layers)) for head in range(heads)]))
        .transform_calculate(x=f"datum.h + {EDGE}", y=f"datum.l + {EDGE}")
        .transform_calculate(x2=f"datum.x + {reach}", y2=f"datum.y + {reach}")
        .mark_rect(cursor="pointer")
        .encode(x, y, x2="x2:Q", y2="y2:Q")
    )
    frames = tiles.encode(
        fill=alt.value("transparent"),
        stroke=alt.condition(chosen, alt.value(style.WRONG), alt.value("transparent")),
        strokeWidth=alt.value(4),
    )
    sizes = [(w.size(1), w.size(2)) for w in weights.values()]
    high, wide = (f"({reach} / {list(numbers)}[datum.l])" for numbers in zip(*sizes, strict=True))
    dots = (
        alt.Chart(cells[cells["w"] >= FAINT])
        .transform_calculate(x=f"datum.h + {EDGE} + datum.k * {wide}", y=f"datum.l + {EDGE} + datum.q * {high}")
        .transform_calculate(x2=f"datum.x + {wide}", y2=f"datum.y + {high}")
        .mark_rect()
        .encode(x, y, _colour(), x2="x2:Q", y2="y2:Q")
    )
    names = pd.DataFrame({"x": -0.1, "y": np.arange(len(layers)) + 0.5, "name": layers})
    numbers = pd.DataFrame({"x": np.arange(heads) + 0.5, "y": -0.2, "name": np.arange(1, heads + 1).astype(str)})
    beside = alt.Chart(names).mark_text(align="right", fontSize=12).encode(x, y, text="name:N")
    above = alt.Chart(numbers).mark_text(fontSize=12).encode(x, y, text="name:N")
    small = alt.layer(tiles.encode(fill=alt.value(ZERO)), dots, beside, above, frames.add_params(chosen))
    return small.properties(width=room + side * heads, height=side * (len(layers) + 0.4))


def _large(
    cells: pd.DataFrame,
    labels: pd.DataFrame,
    words: Mapping[str, tuple[Sequence[str], Sequence[str]]],
    chosen: Any,
    cell: Any,
) -> tuple[Any, Any]:
    most = max(len(line) for both in words.values() for line in both)
    room = 7.0 * max(len(word) for both in words.values() for line in both for word in line) + 8  # pixels of a word
    side = (WIDTH - room) / most
    domain = [-room / side, most]
    x = alt.X("x:Q", scale=alt.Scale(domain=domain, nice=False), axis=None)
    y = alt.Y("y:Q", scale=alt.Scale(domain=domain[::-1], nice=False), axis=None)
    queries = str({n: list(both[0]) for n, both in enumerate(words.values())})
    keys = str({n: list(both[1]) for n, both in enumerate(words.values())})
    shown = alt.Chart(cells).transform_filter(chosen)
    squares = (
        shown.transform_calculate(x="datum.k", y="datum.q", x2="datum.k + 1", y2="datum.q + 1")
        .transform_calculate(reading=_sentence(queries, keys))
        .mark_rect(stroke="currentColor")
        .encode(
            x, y, _colour(), x2="x2:Q", y2="y2:Q",
            strokeWidth=alt.condition(cell, alt.value(3), alt.value(0.3)),
            tooltip="reading:N",
        )
    )  # fmt: skip
    named = alt.Chart(labels).transform_filter("datum.l == chosen.l[0]")
    beside = (
        named.transform_filter("datum.asks")
        .transform_calculate(x="0", y="datum.place + 0.5")
        .mark_text(align="right", baseline="middle", dx=-5, fontSize=12)
        .encode(x, y, text="word:N")
    )
    above = (
        named.transform_filter("!datum.asks")
        .transform_calculate(x="datum.place + 0.5", y="0")
        .mark_text(align="left", baseline="middle", angle=270, dx=5, fontSize=12)
        .encode(x, y, text="word:N")
    )
    large = (squares + beside + above).add_params(cell).properties(width=WIDTH, height=WIDTH)
    reading = (
        shown.transform_filter(cell)
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
