"""Attention for one query, step by step: scores, weights, and the weighted sum of the values."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from torch import Tensor

from transformer.plots import style


def format_vector(vector: Tensor) -> str:
    """Format a short vector: (2, 0) or (0.75, 0.10)."""
    components = ", ".join(f"{float(x):.0f}" if float(x).is_integer() else f"{float(x):.2f}" for x in vector)
    return f"({components})".replace("-", "−")


def soft_lookup(query_word: str, words: Sequence[str], query: Tensor, key: Tensor, value: Tensor) -> Figure:
    """Draw a query, the keys, their scores and weights, the values, and the output. The scores are not scaled.

    Args:
        query_word: the word that the query belongs to.
        words: the words that the keys and values belong to.
        query: (d_k,).
        key: (n_key, d_k).
        value: (n_key, d_v).
    """
    scores = key @ query
    weights = scores.softmax(dim=0)
    with style.in_style():
        figure, axes = style.new_figure(5, 0.5 * len(words) + 1.7)
        axes.axis("off")
        axes.set_xlim(0, 5.1)
        axes.set_ylim(len(words) + 1.6, -1.8)

        def card(x: float, y: float, text: str, colour: str, width: float = 0.92) -> None:
            axes.text(x, y, text, ha="center", va="center", fontsize=10)
            box = FancyBboxPatch((x - width / 2, y - 0.33), width, 0.66, "round,pad=0,rounding_size=0.08")
            box.set(facecolor=colour + "38", edgecolor=colour, linewidth=1.6)
            axes.add_patch(box)

        axes.text(0.58, -1.3, f"query of {query_word}", ha="right", va="center", fontsize=10)
        card(1.15, -1.3, format_vector(query), style.QUERY)
        for x, head in ((1.15, "key"), (1.98, "score"), (3.1, "weight"), (4.5, "value")):
            axes.text(x, -0.5, head, ha="center", va="center", fontsize=10, weight="bold")
        for row, word in enumerate(words):
            axes.text(0.58, row + 0.3, word, ha="right", va="center")
            card(1.15, row + 0.3, format_vector(key[row]), style.KEY)
            axes.text(1.98, row + 0.3, f"{float(scores[row]):g}".replace("-", "−"), ha="center", va="center")
            bar = 1.2 * float(weights[row])
            axes.barh(row + 0.3, bar, left=2.45, height=0.5, color=style.PLAIN)
            axes.text(2.5 + bar, row + 0.3, f"{float(weights[row]):.2f}", va="center", fontsize=10)
            card(4.5, row + 0.3, format_vector(value[row]), style.VALUE)
        end = len(words) + 0.9
        axes.annotate("", (4.5, end - 0.45), (4.5, end - 0.85), arrowprops={"arrowstyle": "-|>", "color": style.INK})
        axes.text(3.78, end, "sum of weight × value", ha="right", va="center", fontsize=10)
        card(4.42, end, format_vector(weights @ value), style.OUTPUT, width=1.15)
    return figure
