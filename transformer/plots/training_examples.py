"""A causal mask as training examples: what each position of the decoder's input can see, and the token it predicts."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from transformer.plots import style


def training_examples(inputs: Sequence[str], labels: Sequence[str]) -> Figure:
    """Draw a row for each position: the tokens up to it in filled cells, the hidden ones crossed out, and its label.

    Args:
        inputs: the decoder's input, starting with bos.
        labels: the tokens to predict, of the same length.
    """
    length = len(inputs)
    with style.in_style():
        figure, axes = style.new_drawing(4.2, 0.36 * (length + 1), (-1.1, 1.4 * length + 2.1), (length, -1))
        axes.text(0.7 * length, -0.5, "what it can see", ha="center", va="center", fontsize=10, style="italic")
        axes.text(1.4 * length + 1.35, -0.5, "what it predicts", ha="center", va="center", fontsize=10, style="italic")
        for row, label in enumerate(labels):
            axes.text(-0.15, row + 0.5, f"{row}", ha="right", va="center", color=style.PLAIN, fontsize=9)
            for column, word in enumerate(inputs):
                visible = column <= row
                face = style.ALLOWED if visible else "none"
                axes.add_patch(Rectangle((1.4 * column, row), 1.4, 1, facecolor=face, edgecolor=style.INK, lw=0.5))
                text, ink = (word, "black") if visible else ("×", style.PLAIN)
                axes.text(1.4 * column + 0.7, row + 0.5, text, ha="center", va="center", color=ink, fontsize=9.5)
            start, end = (1.4 * length + 0.1, row + 0.5), (1.4 * length + 0.6, row + 0.5)
            axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": style.INK, "shrinkA": 0})
            box = {"boxstyle": "round,pad=0.3", "facecolor": style.OUTPUT + "38", "edgecolor": style.OUTPUT}
            axes.text(1.4 * length + 1.35, row + 0.5, label, ha="center", va="center", fontsize=9.5, bbox=box)
    return figure
