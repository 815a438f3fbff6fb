"""Several heads: how vectors are split, attend, and are joined again; and a chart that leafs through the heads."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from transformer.attention import attention
from transformer.plots import style
from transformer.plots.heads import label_cells

GAP = 0.35
"""Between queries, keys and values, in cells."""


def short(number: float) -> str:
    """A number as it fits into a cell: 4, −1, .94."""
    text = f"{number:.0f}" if round(number, 2).is_integer() else f"{number:.2f}".replace("0.", ".")
    return text.replace("-0", "0").replace("-", "−")


def draw_cells(axes: Axes, table: Tensor, x: float, y: float, colour: str | None) -> None:
    """A table of numbers with its upper left corner at (x, y); without a colour, cells are shaded as weights are."""
    shade = mpl.colormaps[style.WEIGHTS]
    for row, column in np.ndindex(*table.shape):
        number = float(table[row, column])
        face = colour + "38" if colour else shade(number)
        ink = style.INK if colour else "black" if number > 0.6 else "white"
        axes.add_patch(Rectangle((x + column, y + row), 1, 1, facecolor=face, edgecolor=colour or style.INK))
        axes.text(x + column + 0.5, y + row + 0.5, short(number), ha="center", va="center", fontsize=9.5, color=ink)


def flow(words: Sequence[str], query: Tensor, key: Tensor, value: Tensor, w_output: Tensor) -> Figure:
    """Split, attend, join, project, with every number on the way. For two heads or so, of two dimensions or so.

    Args:
        words: the sentence.
        query, key, value: (heads, length, d_head).
        w_output: (d_model, d_model); multiplied from the right.
    """
    n_heads, length, d_head = query.shape
    outputs, weights = attention(query, key, value)
    joined = outputs.transpose(0, 1).flatten(1)  # (length, d_model)
    d_model = joined.size(1)
    wide = max(3 * d_head + 2 * GAP, length + 1 + d_head)  # of one head
    lefts = [2.4 + (wide + 1.2) * head for head in range(n_heads)]
    rows = [2.0 + (length + 2.3) * i for i in range(3)]
    right, bottom = lefts[-1] + wide, rows[2] + length + 0.9
    with style.in_style():
        figure, axes = style.new_figure(5, 5 * bottom / (right + 0.2))
        axes.set_position((0, 0, 1, 1))
        axes.set_xlim(0, right + 0.2)
        axes.set_ylim(bottom, 0)
        axes.axis("off")

        def name(x: float, y: float, text: str, size: float = 9) -> None:
            axes.text(x, y, text, ha="center", va="center", fontsize=size)

        def label_rows(x: float, y: float) -> None:
            for row, word in enumerate(words):
                axes.text(x - 0.2, y + row + 0.5, word, ha="right", va="center", fontsize=10)

        def arrow(start: tuple[float, float], end: tuple[float, float]) -> None:
            axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": style.INK, "shrinkA": 0})

        label_rows(lefts[0], rows[0])
        label_rows(lefts[0], rows[1])
        start = lefts[0] + wide - d_head  # the joined table, right below the first head's output
        for head, left in enumerate(lefts):
            name(left + wide / 2, 0.4, f"head {head + 1}", 11)
            parts = ("queries", query, style.QUERY), ("keys", key, style.KEY), ("values", value, style.VALUE)
            for place, (what, table, colour) in enumerate(parts):
                x = left + place * (wide - d_head) / 2
                name(x + d_head / 2, rows[0] - 0.5, what)
                draw_cells(axes, table[head], x, rows[0], colour)
            name(left + length / 2, rows[1] - 0.5, "weights")
            draw_cells(axes, weights[head], left, rows[1], None)
            end = left + wide - d_head / 2
            name(end, rows[1] - 0.5, "output")
            draw_cells(axes, outputs[head], left + wide - d_head, rows[1], style.OUTPUT)
            for x in (left + length / 2, end):
                arrow((x, rows[0] + length + 0.2), (x, rows[1] - 0.9))
            middle = rows[1] + length / 2
            arrow((left + length + 0.2, middle), (left + wide - d_head - 0.2, middle))
            arrow((end, rows[1] + length + 0.2), (start + (head + 0.5) * d_head, rows[2] - 0.2))
        label_rows(start, rows[2])
        name(start + d_model / 2, bottom - 0.4, "joined")
        draw_cells(axes, joined, start, rows[2], style.OUTPUT)
        name(right - d_model / 2, bottom - 0.4, "projected")
        draw_cells(axes, joined @ w_output, right - d_model, rows[2], style.OUTPUT)
        level = rows[2] + length / 2
        arrow((start + d_model + 0.2, level), (right - d_model - 0.2, level))
        name((start + d_model + right - d_model) / 2, level - 0.7, "$W^O$", 11)
    return figure


def weight_map(weights: Tensor, title: str) -> Figure:
    """One head's weights without numbers, small enough to stand beside others; places count from 0.

    Args:
        weights: (n_query, n_key), between 0 and 1.
        title: stands below.
    """
    n_query, n_key = weights.shape
    with style.in_style():
        figure, axes = style.new_figure(0.24 * n_key, 0.24 * n_query)
        axes.set_position((0, 0, 1, 1))  # labels stand around it
        axes.pcolormesh(weights.detach().cpu().numpy(), cmap=style.WEIGHTS, vmin=0, vmax=1)
        label_cells(axes, [str(n) for n in range(n_query)], [str(n) for n in range(n_key)])
        axes.set_xticklabels(axes.get_xticklabels(), rotation=0, ha="center")
        axes.set_xlabel(title)
        axes.xaxis.set_label_position("bottom")
    return figure


def leaf_through(weights: Tensor, queries: Sequence[str], keys: Sequence[str], description: str) -> Any:
    """An Altair chart of a layer's weights: a slider chooses the head, 0 the mean of all; point at a cell to read it.

    Args:
        weights: (heads, n_query, n_key).
        queries: the rows' words.
        keys: the columns' words.
        description: the alt text.
    """
    weights = weights.detach().cpu()
    pages = np.concatenate([weights.mean(dim=0, keepdim=True).numpy(), weights.numpy()])
    slider = alt.binding_range(min=0, max=len(weights), step=1, name="head (0: the mean of all) ")
    head = alt.param("head", value=1, bind=slider)
    first = [{"q": 0, "k": len(keys) - 1}]
    cell = alt.selection_point("cell", fields=["q", "k"], on="pointerover", clear=False, toggle=False, value=first)
    page, row, column = np.indices(pages.shape).reshape(3, -1)
    table = pd.DataFrame({"head": page, "q": row, "k": column, "weight": pages.flatten().round(4)})
    who, whom = f"{list(queries)}[datum.q]", f"{list(keys)}[datum.k]"
    name = "(datum.head ? 'head ' + datum.head : 'mean of all')"
    chosen = (
        alt.Chart(table)
        .transform_filter("datum.head == head")
        .transform_calculate(
            sentence=f"{name} + ': ' + {who} + ' looks at ' + {whom} + ', weight ' + format(datum.weight, '.2f')"
        )
    )

    def axis(words: Sequence[str], **more: Any) -> Any:
        return alt.Axis(labelExpr=f"{list(words)}[datum.value]", title=None, ticks=False, domain=False, **more)

    cells = chosen.encode(
        alt.X("k:O", axis=axis(keys, orient="top", labelAngle=0), scale=alt.Scale(padding=0.04)),
        alt.Y("q:O", axis=axis(queries), scale=alt.Scale(padding=0.04)),
    )
    squares = cells.mark_rect(stroke="currentColor").encode(
        alt.Color("weight:Q", scale=alt.Scale(scheme=style.WEIGHTS, domain=[0, 1]), legend=None),
        strokeWidth=alt.condition(cell, alt.value(3), alt.value(0.5)),
        tooltip="sentence:N",
    )
    numbers = (
        cells.transform_filter("datum.weight >= 0.005")
        .mark_text(fontSize=11)
        .encode(
            text=alt.Text("weight:Q", format=".2f"),
            color=alt.condition("datum.weight > 0.6", alt.value("black"), alt.value("white")),
        )
    )
    side = min(42, 290 // max(len(queries), len(keys)))
    width = side * len(keys)
    shown = (squares.add_params(cell) + numbers).properties(width=width, height=side * len(queries))
    reading = (
        chosen.transform_filter(cell)
        .mark_text(align="left", fontSize=13, x=0)
        .encode(text="sentence:N")
        .properties(width=width, height=20)
    )
    return style.chart_style(alt.vconcat(shown, reading, description=description).add_params(head))
