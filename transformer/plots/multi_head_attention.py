"""Multi-head attention (§3.2.2) with its numbers: split into heads, scores, weights, concatenation, projection."""

import re
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from transformer.attention import attention
from transformer.plots import style

GAP = 0.35
"""The gap between queries, keys and values, in cells."""


SHADES = (0.6, 0.1, 0.35, 0)
"""Strengths of a colour that tell heads apart, even in greyscale."""


def format_number(number: float) -> str:
    """Format a number so that it fits into a cell: 4, −1, .94."""
    text = f"{number:.0f}" if round(number, 2).is_integer() else f"{number:.2f}"
    return re.sub(r"^(-?)0(?=\.)", r"\1", text).replace("-0", "0").replace("-", "−")


def draw_cells(axes: Axes, matrix: Tensor, x: float, y: float, colour: str | None, strength: float = 0.22) -> None:
    """Draw a matrix, its upper left corner at (x, y), in a colour of this strength or, without one, as a heat map."""
    colours = mpl.colormaps[style.WEIGHTS]
    for row, column in np.ndindex(*matrix.shape):
        number = float(matrix[row, column])
        face = mpl.colors.to_rgba(colour, strength) if colour else colours(number)
        ink = style.INK if colour else "black" if number > 0.6 else "white"
        axes.add_patch(Rectangle((x + column, y + row), 1, 1, facecolor=face, edgecolor=colour or style.INK))
        axes.text(
            x + column + 0.5, y + row + 0.5, format_number(number), ha="center", va="center", fontsize=9.5, color=ink
        )


def multi_head_attention(words: Sequence[str], query: Tensor, key: Tensor, value: Tensor, w_output: Tensor) -> Figure:
    """Draw every number of a small example, of about two heads with two dimensions each.

    Args:
        words: the sentence.
        query, key, value: (heads, length, d_head).
        w_output: (d_model, d_model); the heads' concatenated outputs are multiplied by it from the right.
    """
    n_heads, length, d_head = query.shape
    outputs, weights = attention(query, key, value)
    concatenated = outputs.transpose(0, 1).flatten(1)  # (length, d_model)
    d_model = concatenated.size(1)
    width = max(3 * d_head + 2 * GAP, length + 1 + d_head)  # of one head
    lefts = [2.4 + (width + 1.2) * head for head in range(n_heads)]
    rows = [2.0 + (length + 2.3) * i for i in range(4)]  # projections, scores, weights and outputs, concatenation
    right, bottom = lefts[-1] + width, rows[3] + length + 0.9
    with style.in_style():
        figure, axes = style.new_drawing(5, 5 * bottom / (right + 0.2), (0, right + 0.2), (bottom, 0))

        def write(x: float, y: float, text: str, size: float = 9) -> None:
            axes.text(x, y, text, ha="center", va="center", fontsize=size)

        def label_rows(x: float, y: float) -> None:
            for row, word in enumerate(words):
                axes.text(x - 0.2, y + row + 0.5, word, ha="right", va="center", fontsize=10)

        def arrow(start: tuple[float, float], end: tuple[float, float]) -> None:
            axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": style.INK, "shrinkA": 0})

        for y in rows[:3]:
            label_rows(lefts[0], y)
        start = lefts[0] + width - d_head  # the concatenated outputs, right below the output of the first head
        for head, left in enumerate(lefts):
            write(left + width / 2, 0.4, f"head {head + 1}", 11)
            parts = ("queries", query, style.QUERY), ("keys", key, style.KEY), ("values", value, style.VALUE)
            for i, (label, vectors, colour) in enumerate(parts):
                x = left + i * (width - d_head) / 2
                write(x + d_head / 2, rows[0] - 0.5, label)
                draw_cells(axes, vectors[head], x, rows[0], colour)
            middle, end = left + length / 2, left + width - d_head / 2
            write(middle, rows[1] - 0.5, "scores")
            draw_cells(axes, query[head] @ key[head].T, left, rows[1], style.PLAIN)
            write(middle, rows[2] - 0.5, "weights")
            draw_cells(axes, weights[head], left, rows[2], None)
            softmax = rf"$/\,\sqrt{{{d_head}}}$, softmax"
            axes.text(middle + 0.2, rows[1] + length + 0.7, softmax, ha="left", va="center", fontsize=9)
            write(end, rows[2] - 0.5, "output")
            draw_cells(axes, outputs[head], left + width - d_head, rows[2], style.OUTPUT)
            for x, upper, lower in ((middle, 0, 1), (middle, 1, 2), (end, 0, 2)):
                arrow((x, rows[upper] + length + 0.2), (x, rows[lower] - 0.9))
            keys = left + width / 2  # the middle of the keys, which the scores need as well
            arrow((keys, rows[0] + length + 0.2), (middle + 0.3, rows[1] - 0.9))
            y = rows[2] + length / 2
            arrow((left + length + 0.2, y), (left + width - d_head - 0.2, y))
            arrow((end, rows[2] + length + 0.2), (start + (head + 0.5) * d_head, rows[3] - 0.2))
        label_rows(start, rows[3])
        write(start + d_model / 2, bottom - 0.4, "concatenated")
        draw_cells(axes, concatenated, start, rows[3], style.OUTPUT)
        write(right - d_model / 2, bottom - 0.4, "projected")
        draw_cells(axes, concatenated @ w_output, right - d_model, rows[3], style.OUTPUT)
        middle = rows[3] + length / 2
        arrow((start + d_model + 0.2, middle), (right - d_model - 0.2, middle))
        write((start + d_model + right - d_model) / 2, middle - 0.7, "$W^O$", 11)
    return figure


def projection_matrices(
    features: Sequence[str], w_query: Tensor, w_key: Tensor, w_value: Tensor, n_heads: int
) -> Figure:
    """Draw the matrices of queries, keys and values side by side, with a block of columns for each head.

    Args:
        features: labels of the rows, the features of the input.
        w_query, w_key, w_value: (d_model, d_model).
    """
    d_model, d_head = len(features), w_query.size(1) // n_heads
    width = d_model + (n_heads - 1) * GAP
    left, bottom = 1.7, d_model + 2.1
    right = left + 3 * width + 2 * 0.9
    with style.in_style():
        figure, axes = style.new_drawing(5, 5 * bottom / (right + 0.1), (0, right + 0.1), (bottom, 0))
        for row, feature in enumerate(features):
            axes.text(left - 0.2, row + 2.5, feature, ha="right", va="center", fontsize=10)
        parts = ("Q", w_query, style.QUERY), ("K", w_key, style.KEY), ("V", w_value, style.VALUE)
        for i, (name, matrix, colour) in enumerate(parts):
            x = left + i * (width + 0.9)
            axes.text(x + width / 2, 0.5, f"$W^{name}$", ha="center", va="center", fontsize=12)
            for head, columns in enumerate(matrix.split(d_head, dim=1)):
                start = x + head * (d_head + GAP)
                axes.text(start + d_head / 2, 1.5, f"head {head + 1}", ha="center", va="center", fontsize=9)
                draw_cells(axes, columns, start, 2, colour)
    return figure


def split_into_heads(words: Sequence[str], table: Tensor, heads: Tensor, titles: tuple[str, str]) -> Figure:
    """Draw a table of vectors and, to its right, what each head gets of it, in the shade that it has in the table.

    Args:
        words: labels of the table's rows.
        table: (length, d_model), queries with different numbers; the columns of each head have a shade of their own.
        heads: (n_heads, length, d_head), the same numbers in another order; at most four heads.
        titles: below the table and below the heads.
    """
    n_heads, length, d_head = heads.shape
    d_model = table.size(1)
    place = {int(table[row, column]): (row, column) for row, column in np.ndindex(*table.shape)}
    left, first = 2.2, 2.2 + d_model + 3.4
    right = first + n_heads * d_head + (n_heads - 1) * 0.7
    bottom = length + 1.9
    with style.in_style():
        figure, axes = style.new_drawing(4.4, 4.4 * bottom / right, (0, right + 0.1), (bottom, 0))

        def write(x: float, y: float, text: str, align: str = "center") -> None:
            axes.text(x, y, text, ha=align, va="center", fontsize=10)

        for row, word in enumerate(words):
            write(left - 0.2, row + 1.5, word, "right")
            for column in range(d_model):
                cell = table[row : row + 1, column : column + 1]
                draw_cells(axes, cell, left + column, row + 1, style.QUERY, SHADES[column // d_head])
        for head in range(n_heads):
            x = first + head * (d_head + 0.7)
            write(x + d_head / 2, 0.5, f"head {head + 1}")
            for row, column in np.ndindex(length, d_head):
                cell = heads[head, row : row + 1, column : column + 1]
                strength = SHADES[place[int(cell)][1] // d_head]
                draw_cells(axes, cell, x + column, row + 1, style.QUERY, strength)
        y = length / 2 + 1
        arrow = {"arrowstyle": "-|>", "color": style.INK}
        axes.annotate("", (first - 0.4, y), (left + d_model + 0.4, y), arrowprops=arrow)
        write(left + d_model / 2, bottom - 0.45, titles[0])
        write((first + right) / 2, bottom - 0.45, titles[1])
    return figure
