"""A heat map of attention weights: which positions attend to which."""

from collections.abc import Sequence
from typing import Any

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from transformer.plots import style


def heat_map(
    weights: Tensor,
    queries: Sequence[object],
    keys: Sequence[object],
    mask: Tensor | None = None,
    title: str = "",
    annotate: bool = True,
    row_title: str = "",
    column_title: str = "",
) -> Figure:
    """Draw the attention weights of one head, with a row for each query and a column for each key.

    Args:
        weights: (n_query, n_key), between 0 and 1.
        queries: labels of the rows.
        keys: labels of the columns.
        mask: bool, (n_query, n_key), True = may attend. The other cells stay empty, with a small cross.
        title: shown above the heat map.
        annotate: write the weight into each cell. Without the numbers the cells are smaller.
        row_title: what the rows are; shown on the left.
        column_title: what the columns are; shown above their labels.
    """
    n_query, n_key = weights.shape
    cell = 0.42 if annotate else 0.28  # inches
    hidden = None if mask is None else ~mask.cpu().numpy()
    with style.in_style():
        figure, axes = style.new_figure(cell * n_key, cell * n_query)
        axes.set_position((0, 0, 1, 1))  # the labels are outside, so that all heat maps have cells of the same size
        sns.heatmap(
            weights.detach().cpu().numpy(), mask=hidden, vmin=0, vmax=1, cmap=style.WEIGHTS, cbar=False, square=True,
            annot=annotate, fmt=".2f", annot_kws={"fontsize": 9}, linewidths=0.3, linecolor=style.INK, ax=axes,
        )  # fmt: skip
        for text in axes.texts:
            text.set_color("black" if float(text.get_text()) > 0.6 else "white")
        if hidden is not None:
            for row, column in zip(*hidden.nonzero(), strict=True):
                axes.text(column + 0.5, row + 0.5, "×", ha="center", va="center", color=style.PLAIN)
        label_cells(axes, queries, keys)
        axes.set(title=title, xlabel=column_title, ylabel=row_title)
        axes.xaxis.set_label_position("top")
    return figure


def label_cells(axes: Axes, queries: Sequence[object], keys: Sequence[object]) -> None:
    """Label the rows of a grid of unit cells on the left and its columns above; the first row is at the top."""
    rotation: dict[str, Any] = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"}
    if all(len(str(key)) <= 2 for key in keys):  # numbers, for example
        rotation = {"rotation": 0}
    axes.set_xticks([i + 0.5 for i in range(len(keys))], [style.escape_label(key) for key in keys], **rotation)
    axes.set_yticks(
        [i + 0.5 for i in range(len(queries))], [style.escape_label(query) for query in queries], rotation=0
    )
    axes.tick_params(length=0)
    axes.xaxis.tick_top()
    axes.set_ylim(len(queries), 0)
    axes.set_aspect("equal")
    for spine in axes.spines.values():
        spine.set_visible(False)
