"""Masks as grids of cells: a row for each query, a column for each key, filled where the one may look at the other."""

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
from transformer.plots.heads import label_cells

CELL = 0.3
"""A cell's side in inches."""


def draw_grid(
    axes: Axes, mask: Tensor, queries: Sequence[str], keys: Sequence[str], wrong: Tensor | None = None
) -> None:
    """Fill the cells that are True and cross out the others; ``wrong`` ones stand out and are marked with "!"."""
    for row, column in np.ndindex(*mask.shape):
        bad = wrong is not None and bool(wrong[row, column])
        colour = style.WRONG if bad else style.ALLOWED
        filled = bool(mask[row, column])
        face = colour if filled else "none"
        axes.add_patch(Rectangle((column, row), 1, 1, facecolor=face, edgecolor=style.INK, linewidth=0.5))
        sign = "!" if bad else "" if filled else "×"
        ink = "black" if filled else colour if bad else style.PLAIN
        axes.text(column + 0.5, row + 0.5, sign, ha="center", va="center", color=ink, weight=700 if bad else 400)
    axes.set_xlim(0, len(keys))
    axes.set_ylim(0, len(queries))
    label_cells(axes, queries, keys)


def grid(
    mask: Tensor, queries: Sequence[str], keys: Sequence[str], title: str = "", wrong: Tensor | None = None,
    labels: tuple[str, str] = ("", ""),
) -> Figure:  # fmt: skip
    """One mask.

    Args:
        mask: bool, (n_query, n_key); True = may attend.
        queries: the rows' words.
        keys: the columns' words.
        title: stands below.
        wrong: bool, (n_query, n_key); cells to point at because they should be otherwise.
        labels: what the rows are and what the columns are.
    """
    with style.in_style():
        figure, axes = style.new_figure(CELL * len(keys), CELL * len(queries))
        axes.set_position((0, 0, 1, 1))  # labels stand around it, so that cells are of one size in all pictures
        draw_grid(axes, mask, queries, keys, wrong)
        axes.set_ylabel(labels[0])
        axes.set_xlabel(title or labels[1])
        axes.xaxis.set_label_position("bottom" if title else "top")
    return figure


def combination(first: Tensor, second: Tensor, words: Sequence[str], titles: tuple[str, str, str]) -> Figure:
    """Two masks of one sentence and, third, both of them: first & second = both.

    Args:
        first, second: bool, broadcastable to (length, length).
        words: the sentence.
        titles: stand below the three.
    """
    length = len(words)
    both = first & second
    with style.in_style():
        figure = Figure(figsize=(5.2, 2.4))
        panels = figure.subplots(1, 3, gridspec_kw={"wspace": 0.35})
        for number, (axes, mask, title) in enumerate(zip(panels, (first, second, both), titles, strict=True)):
            draw_grid(axes, mask.expand(length, length), words if number == 0 else [""] * length, words)
            axes.set_xticks(axes.get_xticks(), words, rotation=90, ha="center", va="bottom", rotation_mode="default")
            axes.set_xlabel(title)
            axes.xaxis.set_label_position("bottom")
            if number:
                axes.text(-0.19, 0.5, " &="[number], transform=axes.transAxes, fontsize=16, ha="center", va="center")
    return figure


def explorer(words: Sequence[str], scores: Tensor, description: str) -> Any:
    """An Altair chart of one sentence's weights: pad its end, switch the masks on and off, point at a cell to read it.

    Args:
        words: the sentence without padding.
        scores: (length, length), before the softmax.
        description: the alt text.
    """
    length = len(words)
    padding = alt.binding_range(min=0, max=length - 2, step=1, name="tokens of padding at the end ")
    pads = alt.param("pads", value=min(2, length - 2), bind=padding)
    hide_pads = alt.param("hide_pads", value=True, bind=alt.binding_checkbox(name="hide the padding "))
    hide_future = alt.param("hide_future", value=True, bind=alt.binding_checkbox(name="hide the future "))
    first = [{"q": 1, "k": 2}]
    cell = alt.selection_point("cell", fields=["q", "k"], on="pointerover", clear=False, toggle=False, value=first)

    rows, columns = np.indices((length, length)).reshape(2, -1)
    table = pd.DataFrame({"q": rows, "k": columns, "score": scores.flatten()})

    def word(place: str) -> str:
        """The Vega expression of the word at a place, padding included."""
        return f"({place} >= {length} - pads ? '<pad>' : {list(words)}[{place}])"

    weighed = (
        alt.Chart(table)
        .transform_calculate(future="hide_future && datum.k > datum.q")
        .transform_calculate(padding=f"hide_pads && datum.k >= {length} - pads")
        .transform_calculate(exp="datum.future || datum.padding ? 0 : exp(datum.score)")
        .transform_joinaggregate(total="sum(exp)", groupby=["q"])
        .transform_calculate(
            weight="datum.exp / datum.total",
            who=f"'“' + {word('datum.q')} + '” '",
            whom=f"' “' + {word('datum.k')} + '”'",
        )
        .transform_calculate(
            sentence="datum.exp ? datum.who + 'may look at' + datum.whom + ': weight ' + format(datum.weight, '.2f')"
            " : datum.who + 'may not look at' + datum.whom + (datum.padding ? ': padding' : ': the future')"
        )
    )
    axis: dict[str, Any] = {"labelExpr": word("datum.value"), "title": None, "ticks": False, "domain": False}
    cells = weighed.encode(
        alt.X("k:O", axis=alt.Axis(orient="top", labelAngle=-45, **axis), scale=alt.Scale(padding=0.04)),
        alt.Y("q:O", axis=alt.Axis(**axis), scale=alt.Scale(padding=0.04)),
    )
    seen = cells.transform_filter("datum.exp > 0")
    squares = cells.mark_rect(stroke="currentColor", strokeWidth=0.5).encode(
        alt.Color("weight:Q", scale=alt.Scale(scheme=style.WEIGHTS, domain=[0, 1]), legend=None),
        fillOpacity=alt.condition("datum.exp > 0", alt.value(1), alt.value(0)),
        strokeWidth=alt.condition(cell, alt.value(3), alt.value(0.5)),
        tooltip="sentence:N",
    )
    numbers = seen.mark_text(fontSize=11).encode(
        text=alt.Text("weight:Q", format=".2f"),
        color=alt.condition("datum.weight > 0.6", alt.value("black"), alt.value("white")),
    )
    crosses = cells.transform_filter("datum.exp == 0").mark_text(text="×", color=style.PLAIN)
    side = 42 * length
    shown = (squares.add_params(cell) + numbers + crosses).properties(width=side, height=side)
    reading = (
        weighed.transform_filter(cell)
        .mark_text(align="left", fontSize=13, x=0)
        .encode(text="sentence:N")
        .properties(width=side, height=20)
    )
    both = alt.vconcat(shown, reading, description=description)
    return style.chart_style(both.add_params(pads, hide_pads, hide_future))
