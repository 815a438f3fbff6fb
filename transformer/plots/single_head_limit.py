"""Why one head cannot attend to two words separately: its output for four sentences, by the first animal's weight."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from transformer.plots import style


def single_head_limit(sentences: Mapping[str, tuple[float, float]], labels: tuple[str, str]) -> Figure:
    """Draw w · first + (1 - w) · second for w from 0 to 1, a line for each sentence.

    Args:
        sentences: label of the line → the values of the first and the second animal; at most four.
        labels: texts above the left half of the plot, where w < 1/2, and above the right half.
    """
    with style.in_style():
        figure, axes = style.new_figure(3.4, 2.6)
        for label, (first, second), colour, dashes in style.style_lines(sentences):
            axes.plot([0, 1], [second, first], dashes, color=colour, label=label, clip_on=False)
        axes.axvline(0.5, color=style.INK, linewidth=1, linestyle=":")
        for x, text in zip((0.25, 0.75), labels, strict=True):
            axes.text(x, 1.1, text, ha="center", va="bottom", fontsize=10, style="italic")
        axes.set(xlim=(0, 1), ylim=(-0.06, 1.06), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
        axes.set_xlabel("weight of the first animal")
        axes.set_ylabel("output of the head")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
