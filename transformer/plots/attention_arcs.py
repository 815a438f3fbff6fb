"""What one word of a sentence attends to, as arcs above the sentence."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from torch import Tensor

from transformer.plots import style
from transformer.plots.attention_lines import FONT_SIZE, WIDTH, centres


def attention_arcs(sentences: Sequence[Sequence[str]], query: int, weights: Tensor) -> Figure:
    """Draw sentences one below the other, with arcs from one word of each to the words that it attends to.

    Args:
        sentences: the words of each sentence.
        query: the index of the word that attends, the same in all sentences.
        weights: (sentences, words). The thicker the arc, the larger the weight; the word's attention to itself is not
            drawn.
    """
    with style.in_style():
        figure, axes = style.new_drawing(WIDTH, 1.0 * len(sentences), (0, WIDTH), (-0.2, len(sentences) - 0.2))
        for number, (words, row) in enumerate(zip(sentences, weights.tolist(), strict=True)):
            y, xs = len(sentences) - 1 - number, centres(words)
            strongest = max(range(len(words)), key=lambda key: row[key])
            for index, (x, word) in enumerate(zip(xs, words, strict=True)):
                colour = style.QUERY if index == query else style.KEY if index == strongest else "none"
                box = {"boxstyle": "round,pad=0.25", "facecolor": "none", "edgecolor": colour, "linewidth": 1.6}
                axes.text(x, y, word, ha="center", va="center", fontsize=FONT_SIZE, bbox=box)
                if row[index] and index != query:
                    axes.add_patch(
                        FancyArrowPatch(
                            (xs[query], y + 0.16), (x, y + 0.16), color=style.QUERY, arrowstyle="-",
                            linewidth=6 * row[index], alpha=0.25 + 0.75 * row[index],
                            connectionstyle=f"arc3,rad={0.25 if index < query else -0.25}", shrinkA=0, shrinkB=0,
                        )
                    )  # fmt: skip
    return figure
