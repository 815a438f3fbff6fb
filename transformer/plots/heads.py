"""Attention weights as a heat map: who looks at whom."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from transformer.plots import style

CELL = 0.42
"""A cell's side in inches."""


def heat_map(
    weights: Tensor, queries: Sequence[str], keys: Sequence[str], mask: Tensor | None = None, title: str = ""
) -> Figure:
    """One head's weights: a row for each query, a column for each key, the number in the cell.

    Args:
        weights: (n_query, n_key), between 0 and 1.
        queries: the rows' words.
        keys: the columns' words.
        mask: bool, (n_query, n_key); a cell that may not be looked at is left empty with a small cross.
        title: stands above.
    """
    n_query, n_key = weights.shape
    seen = np.ones((n_query, n_key), bool) if mask is None else mask.cpu().numpy()
    with style.in_style():
        figure, axes = style.new_figure(CELL * n_key, CELL * n_query)
        axes.set_position((0, 0, 1, 1))  # labels stand around it
        shown = np.ma.array(weights.detach().cpu().numpy(), mask=~seen)
        axes.pcolormesh(shown, cmap=style.WEIGHTS, vmin=0, vmax=1, edgecolors=style.INK, linewidth=0.3)
        for row, column in np.ndindex(n_query, n_key):
            if seen[row, column]:
                weight = float(weights[row, column])
                axes.text(column + 0.5, row + 0.5, f"{weight:.2f}", ha="center", va="center", fontsize=9,
                          color="black" if weight > 0.6 else "white")  # fmt: skip
            else:
                axes.text(column + 0.5, row + 0.5, "×", ha="center", va="center", color=style.PLAIN)
        label_cells(axes, queries, keys)
        axes.set_title(title)
    return figure


def label_cells(axes: Axes, queries: Sequence[str], keys: Sequence[str]) -> None:
    """Words beside the rows and above the columns of a grid of cells, its first row on top."""
    axes.set_xticks(np.arange(len(keys)) + 0.5, keys, rotation=45, ha="left", rotation_mode="anchor")
    axes.set_yticks(np.arange(len(queries)) + 0.5, queries)
    axes.tick_params(length=0)
    axes.xaxis.tick_top()
    axes.invert_yaxis()
    axes.set_aspect("equal")
    for spine in axes.spines.values():
        spine.set_visible(False)
