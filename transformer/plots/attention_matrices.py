"""Attention for all queries at once, with its numbers: projections, scores, weights and outputs as matrices."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from transformer.plots import style
from transformer.plots.multi_head_attention import draw_cells


def attention_matrices(
    words: Sequence[str], x: Tensor, query: Tensor, key: Tensor, value: Tensor, outlined: int
) -> Figure:
    """Draw self-attention from the vectors of a sentence to the outputs. The scores are not scaled.

    Args:
        words: the sentence.
        x: (length, d_model).
        query, key: (length, d_k).
        value: (length, d_v).
        outlined: the word whose row is outlined in all matrices of which it is a row.
    """
    length, d_model, d_v = *x.shape, value.size(1)
    scores = query @ key.T
    weights = scores.softmax(dim=-1)
    left, gap = 2.4, 2.5
    queries = left + d_model + gap
    keys = queries + query.size(1) + 0.6
    values = keys + key.size(1) + 0.6
    second = left + length + gap  # the weights
    right = values + d_v
    upper, lower = 1.1, length + 3.6
    bottom = lower + length + 0.3
    with style.in_style():
        figure, axes = style.new_drawing(5, 5 * bottom / (right + 0.2), (0, right + 0.2), (bottom, 0))

        def draw(matrix: Tensor, left: float, top: float, title: str, colour: str | None, outline: bool = True) -> None:
            draw_cells(axes, matrix, left, top, colour)
            axes.text(left + matrix.size(1) / 2, top - 0.5, title, ha="center", va="center", fontsize=10)
            if outline:
                row = Rectangle((left, top + outlined), matrix.size(1), 1, fill=False, edgecolor=style.INK, linewidth=2)
                row.set_zorder(3)
                axes.add_patch(row)

        def arrow(start: tuple[float, float], end: tuple[float, float], label: str = "") -> None:
            axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": style.INK, "shrinkA": 0})
            middle = (start[0] + end[0]) / 2
            axes.text(middle, start[1] - 0.2, label, ha="center", va="bottom", fontsize=9)

        for top in (upper, lower):
            for row, word in enumerate(words):
                axes.text(left - 0.2, top + row + 0.5, word, ha="right", va="center", fontsize=10)
        draw(x, left, upper, "$X$", style.PLAIN)
        draw(query, queries, upper, "$Q$", style.QUERY)
        draw(key, keys, upper, "$K$", style.KEY, outline=False)
        draw(value, values, upper, "$V$", style.VALUE, outline=False)
        draw(scores, left, lower, r"scores $QK^\top$", style.PLAIN)
        draw(weights, second, lower, "weights", None)
        draw(weights @ value, values, lower, "output", style.OUTPUT)

        y = upper + length / 2
        arrow((left + d_model + 0.2, y), (queries - 0.2, y), "$W^Q$\n$W^K$\n$W^V$")
        y = lower + length / 2
        arrow((left + length + 0.2, y), (second - 0.2, y), "softmax")
        arrow((second + length + 0.2, y), (values - 0.2, y))
        start, end = upper + length + 0.2, lower - 0.9
        arrow((queries + 1, start), (left + length - 0.6, end))
        arrow((keys + 1, start), (left + length, end))
        arrow((values + d_v / 2, start), (values + d_v / 2, end))
    return figure
