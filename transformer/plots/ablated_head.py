"""What one attention head attends to, and what a translator gets wrong without it."""

from collections.abc import Collection, Sequence

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from torch import Tensor

from transformer.plots import style
from transformer.plots.attention_lines import FONT_SIZE, WIDTH, centres


def ablated_head(
    words: Sequence[str], weights: Tensor, queries: Collection[int], translation: str, without_head: str
) -> Figure:
    """Draw a sentence with arcs for a head's weights, above its translations with and without that head.

    Args:
        words: the words of the sentence.
        weights: (n_query, n_key) of the head, between 0 and 1.
        queries: the words whose arcs are drawn, each from the query to the keys.
        translation: the model's translation.
        without_head: its translation with the head ablated. The words that differ from the first translation are
            highlighted; both have the same number of words.

    Raises:
        ValueError: if the two translations don't have the same number of words.
    """
    intact, ablated = translation.split(), without_head.split()
    if len(intact) != len(ablated):
        raise ValueError(f"the translations have {len(intact)} and {len(ablated)} words; both need the same number")
    with style.in_style():
        figure, axes = style.new_drawing(WIDTH, 2.3, (0, WIDTH), (-1.55, 0.75))
        xs = centres(words)
        for index, (x, word) in enumerate(zip(xs, words, strict=True)):
            colour = style.QUERY if index in queries else "none"
            box = {"boxstyle": "round,pad=0.25", "facecolor": "none", "edgecolor": colour, "linewidth": 1.6}
            axes.text(x, 0, word, ha="center", va="center", fontsize=FONT_SIZE, bbox=box)
        for query in queries:
            for key, weight in enumerate(weights[query].tolist()):
                if key != query:
                    axes.add_patch(
                        FancyArrowPatch(
                            (xs[query], 0.16), (xs[key], 0.16), color=style.QUERY, linewidth=4 * weight, alpha=weight,
                            arrowstyle="-|>", mutation_scale=14 * weight, shrinkA=0, shrinkB=0,
                            connectionstyle=f"arc3,rad={-0.4 if key > query else 0.4}",
                        )
                    )  # fmt: skip
        for y, label, line in ((-0.45, "with this head", intact), (-1.1, "without it", ablated)):
            axes.text(0.1, y, label, ha="left", va="center", fontsize=9, style="italic")
            for x, word, right in zip(centres(line), line, intact, strict=True):
                wrong = word != right
                axes.text(
                    x, y - 0.27, word, ha="center", va="center", fontsize=FONT_SIZE,
                    color=style.WRONG if wrong else style.INK, weight="bold" if wrong else "normal",
                )  # fmt: skip
    return figure
