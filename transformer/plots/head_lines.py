"""The attention weights of one head as lines between two columns of words, narrow enough for several side by side."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor

from transformer.plots import style


def head_lines(weights: Tensor, queries: Sequence[str], keys: Sequence[str], title: str = "") -> Figure:
    """Draw a line from each query, on the left, to each key, on the right, as wide and as dark as its weight.

    Args:
        weights: (n_query, n_key), between 0 and 1.
        queries: the words on the left.
        keys: the words on the right.
        title: shown above the words.
    """
    rows = max(len(queries), len(keys))
    with style.in_style():
        figure, axes = style.new_drawing(2.1, 0.24 * (rows + 1.4), (0, 2.1), (rows - 0.5, -1.9))
        axes.text(1.05, -1.75, title, ha="center", va="top", fontsize=11)
        for x, label, words, colour, align in (
            (0.7, "query", queries, style.QUERY, "right"),
            (1.4, "key", keys, style.KEY, "left"),
        ):
            axes.plot([x, x], [-0.4, len(words) - 0.6], color=colour)
            outside = x - 0.06 if align == "right" else x + 0.06
            axes.text(outside, -0.75, label, ha=align, va="center", fontsize=8.5, style="italic")
            for row, word in enumerate(words):
                axes.text(outside, row, word, ha=align, va="center", fontsize=10)
        for query, row in enumerate(weights.tolist()):
            for key, weight in enumerate(row):
                axes.plot(
                    [0.7, 1.4], [query, key], color=style.INK, alpha=weight, linewidth=5 * weight,
                    solid_capstyle="butt", zorder=0,
                )  # fmt: skip
    return figure
