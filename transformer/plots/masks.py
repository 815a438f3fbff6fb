"""Attention masks as grids: a row per query and a column per key, filled where the query may attend to the key."""

from collections.abc import Sequence

import numpy as np
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
