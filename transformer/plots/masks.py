"""Attention masks as grids: a row per query and a column per key, filled where the query may attend to the key."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from transformer.plots import style
from transformer.plots.heat_map import label_cells

CELL = 0.3
"""The side of a cell in inches."""


def draw_mask(
    axes: Axes, mask: Tensor, queries: Sequence[str], keys: Sequence[str], wrong: Tensor | None = None
) -> None:
    """Fill the cells of a mask that are True and cross out the others; mark the cells in ``wrong`` with "!"."""
    for row, column in np.ndindex(*mask.shape):
        is_wrong = wrong is not None and bool(wrong[row, column])
        colour = style.WRONG if is_wrong else style.ALLOWED
        allowed = bool(mask[row, column])
        face = colour if allowed else "none"
        axes.add_patch(Rectangle((column, row), 1, 1, facecolor=face, edgecolor=style.INK, linewidth=0.5))
        sign = "!" if is_wrong else "" if allowed else "×"
        ink = "black" if allowed else colour if is_wrong else style.PLAIN
        weight = "bold" if is_wrong else "normal"
        axes.text(column + 0.5, row + 0.5, sign, ha="center", va="center", color=ink, weight=weight)
    axes.set_xlim(0, len(keys))
    axes.set_ylim(0, len(queries))
    label_cells(axes, queries, keys)


def mask_grid(
    mask: Tensor, queries: Sequence[str], keys: Sequence[str], title: str = "", wrong: Tensor | None = None,
    labels: tuple[str, str] = ("", ""), cell: float = CELL,
) -> Figure:  # fmt: skip
    """Draw one mask.

    Args:
        mask: bool, (n_query, n_key); True = may attend.
        queries: labels of the rows.
        keys: labels of the columns.
        title: shown below the grid.
        wrong: bool, (n_query, n_key); cells to mark because their value is wrong.
        labels: axis labels of the rows and the columns.
        cell: the side of a cell in inches.
    """
    with style.in_style():
        figure, axes = style.new_figure(cell * len(keys), cell * len(queries))
        axes.set_position((0, 0, 1, 1))  # the labels are outside, so that all grids have cells of the same size
        draw_mask(axes, mask, queries, keys, wrong)
        axes.set_ylabel(labels[0])
        axes.set_xlabel(labels[1])
        axes.xaxis.set_label_position("top")
        axes.set_title(title, y=0, pad=-4, va="top")
    return figure


def combined_masks(first: Tensor, second: Tensor, words: Sequence[str], titles: tuple[str, str, str]) -> Figure:
    """Draw two masks of a sentence and their conjunction: first & second = combined.

    Args:
        first, second: bool, broadcastable to (length, length).
        words: the sentence.
        titles: shown below the three grids.
    """
    length = len(words)
    combined = first & second
    with style.in_style():
        figure = Figure(figsize=(5.2, 2.4))
        panels = figure.subplots(1, 3, gridspec_kw={"wspace": 0.35})
        for number, (axes, mask, title) in enumerate(zip(panels, (first, second, combined), titles, strict=True)):
            draw_mask(axes, mask.expand(length, length), words if number == 0 else [""] * length, words)
            axes.set_xticks(axes.get_xticks(), words, rotation=90, ha="center", va="bottom", rotation_mode="default")
            axes.set_xlabel(title)
            axes.xaxis.set_label_position("bottom")
            if number:
                axes.text(-0.19, 0.5, " &="[number], transform=axes.transAxes, fontsize=16, ha="center", va="center")
    return figure


def mask_explorer(words: Sequence[str], scores: Tensor, description: str) -> Any:
    """Return an Altair chart of the attention weights of a sentence, with controls for the padding and for both masks.

    Args:
        words: the sentence without padding.
        scores: (length, length), before the softmax.
        description: the alt text.
    """
    length = len(words)
    padding = alt.binding_range(min=0, max=length - 2, step=1, name="padding tokens ")
    pads = alt.param("pads", value=min(2, length - 2), bind=padding)
    padding_mask = alt.param("padding_mask", value=True, bind=alt.binding_checkbox(name="padding mask "))
    causal_mask = alt.param("causal_mask", value=True, bind=alt.binding_checkbox(name="causal mask "))
    first = [{"q": 1, "k": 2}]
    cell = alt.selection_point("cell", fields=["q", "k"], on="pointerover", clear=False, toggle=False, value=first)

    rows, columns = np.indices((length, length)).reshape(2, -1)
    table = pd.DataFrame({"q": rows, "k": columns, "score": scores.flatten()})

    def word(position: str) -> str:
        """Return the Vega expression for the word at a position, which may be padding."""
        return f"({position} >= {length} - pads ? '<pad>' : {list(words)}[{position}])"

    weights = (
        alt.Chart(table)
        .transform_calculate(future="causal_mask && datum.k > datum.q")
        .transform_calculate(padding=f"padding_mask && datum.k >= {length} - pads")
        .transform_calculate(exp="datum.future || datum.padding ? 0 : exp(datum.score)")
        .transform_joinaggregate(total="sum(exp)", groupby=["q"])
        .transform_calculate(
            weight="datum.exp / datum.total",
            query=f"'“' + {word('datum.q')} + '” '",
            key=f"' “' + {word('datum.k')} + '”'",
        )
        .transform_calculate(
            sentence="datum.exp"
            " ? datum.query + 'attends to' + datum.key + ' with weight ' + format(datum.weight, '.2f')"
            " : datum.query + 'may not attend to' + datum.key + (datum.padding ? ' (padding)' : ' (future)')"
        )
    )
    axis: dict[str, Any] = {"labelExpr": word("datum.value"), "title": None, "ticks": False, "domain": False}
    cells = weights.encode(
        alt.X("k:O", axis=alt.Axis(orient="top", labelAngle=-45, **axis), scale=alt.Scale(padding=0.04)),
        alt.Y("q:O", axis=alt.Axis(**axis), scale=alt.Scale(padding=0.04)),
    )
    allowed = cells.transform_filter("datum.exp > 0")
    squares = cells.mark_rect(stroke="currentColor", strokeWidth=0.5).encode(
        alt.Color("weight:Q", scale=alt.Scale(scheme=style.WEIGHTS, domain=[0, 1]), legend=None),
        fillOpacity=alt.condition("datum.exp > 0", alt.value(1), alt.value(0)),
        strokeWidth=alt.condition(cell, alt.value(3), alt.value(0.5)),
        tooltip="sentence:N",
    )
    numbers = allowed.mark_text(fontSize=11).encode(
        text=alt.Text("weight:Q", format=".2f"),
        color=alt.condition("datum.weight > 0.6", alt.value("black"), alt.value("white")),
    )
    crosses = cells.transform_filter("datum.exp == 0").mark_text(text="×", color=style.PLAIN)
    side = 42 * length
    grid = (squares.add_params(cell) + numbers + crosses).properties(width=side, height=side)
    reading = (
        weights.transform_filter(cell)
        .mark_text(align="left", fontSize=12, x=0)
        .encode(text="sentence:N")
        .properties(width=side, height=20)
    )
    chart = alt.vconcat(grid, reading, description=description)
    return style.chart_style(chart.add_params(pads, padding_mask, causal_mask))
