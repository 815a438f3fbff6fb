"""The attention weights of one head as lines between each query and the keys that it attends to."""

from collections.abc import Collection, Sequence
from itertools import accumulate

from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from torch import Tensor

from transformer.plots import style

WIDTH = 5.0
"""Inches."""
FONT_SIZE = 11


def attention_lines(
    weights: Tensor,
    queries: Sequence[str],
    keys: Sequence[str],
    labels: tuple[str, str] = ("", ""),
    highlighted: Collection[int] = (),
) -> Figure:
    """Draw the keys above the queries, joined by lines that are as thick and as opaque as the weights are large.

    Args:
        weights: (n_query, n_key), between 0 and 1.
        queries: the words below.
        keys: the words above.
        labels: what the words above and the words below are.
        highlighted: the queries whose lines are coloured; the others are grey.
    """
    with style.in_style():
        figure, axes = style.new_drawing(WIDTH, 1.8, (0, WIDTH), (-0.4, 1.4))
        above, below = centres(keys), centres(queries)
        for query, row in enumerate(weights.tolist()):
            for key, weight in enumerate(row):
                start, end = (above[key], 0.84), (below[query], 0.16)
                bends = [(above[key], 0.45), (below[query], 0.55)]
                path = Path([start, *bends, end], [Path.MOVETO, *[Path.CURVE4] * 3])
                colour = style.QUERY if query in highlighted else style.PLAIN
                axes.add_patch(PathPatch(path, fc="none", ec=colour, linewidth=5 * weight, alpha=weight))
        for y, words, xs in ((1.0, keys, above), (0.0, queries, below)):
            for x, word in zip(xs, words, strict=True):
                axes.text(x, y, word, ha="center", va="center", fontsize=FONT_SIZE)
        for y, label in zip((1.26, -0.26), labels, strict=True):
            axes.text(WIDTH / 2, y, label, ha="center", va="center", fontsize=FONT_SIZE, style="italic")
    return figure


def centres(words: Sequence[str]) -> list[float]:
    """Return the x positions, in inches, of words that are spread over the width of the figure with equal gaps."""
    widths = [TextPath((0, 0), word, size=FONT_SIZE).get_extents().width / 72 for word in words]
    gap = (WIDTH - sum(widths)) / len(words)
    ends = accumulate(width + gap for width in widths)
    return [end - (width + gap) / 2 for end, width in zip(ends, widths, strict=True)]
