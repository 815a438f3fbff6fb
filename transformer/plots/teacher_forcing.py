"""Teacher forcing: the decoder reads the target shifted by one, and predicts the next token at each position."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from transformer.plots import style


def teacher_forcing(inputs: Sequence[str], labels: Sequence[str]) -> Figure:
    """Draw the decoder's input above the labels: the label of each position is the next token of the input.

    Args:
        inputs: the decoder's input, starting with bos.
        labels: the tokens to predict, of the same length, ending with eos.
    """
    with style.in_style():
        figure, axes = style.new_figure(5.0, 1.7)
        box = {"boxstyle": "round,pad=0.35", "facecolor": "none"}
        for x, (above, below) in enumerate(zip(inputs, labels, strict=True)):
            axes.text(x, 1, above, ha="center", va="center", bbox={**box, "edgecolor": style.QUERY})
            axes.text(x, 0, below, ha="center", va="center", bbox={**box, "edgecolor": style.OUTPUT})
            axes.annotate("", (x, 0.25), (x, 0.75), arrowprops={"arrowstyle": "->", "color": style.INK})
            if x + 1 < len(inputs):  # the label is the next input
                axes.annotate(
                    "",
                    (x + 0.85, 0.72),
                    (x + 0.2, 0.25),
                    arrowprops={"arrowstyle": "->", "color": style.PLAIN, "ls": ":"},
                )
        axes.text(-0.75, 1, "input", ha="right", va="center")
        axes.text(-0.75, 0, "label", ha="right", va="center")
        axes.set_xlim(-1.5, len(inputs) - 0.4)
        axes.set_ylim(-0.4, 1.4)
        axes.axis("off")
    return figure
