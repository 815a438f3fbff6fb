"""The path length between two positions (§4): in a recurrent network, and in self-attention."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from transformer.plots import style


def path_length(words: Sequence[str], start: int, end: int) -> Figure:
    """Draw the path of information between two words in a recurrent network (above) and in self-attention (below).

    Args:
        words: the sentence.
        start: the position that the information comes from.
        end: the later position that needs it.
    """
    with style.in_style():
        figure, axes = style.new_figure(5.0, 2.6)
        for y, name in ((1.0, f"recurrent network: {end - start} steps"), (0.0, "self-attention: 1 step")):
            axes.text(-0.45, y + 0.52, name, ha="left", va="center", fontsize=10, style="italic")
            for x, word in enumerate(words):
                colour = style.KEY if x == start else style.QUERY if x == end else style.PLAIN
                box = {"boxstyle": "round,pad=0.3", "facecolor": "none", "edgecolor": colour, "linewidth": 1.6}
                axes.text(x, y, word, ha="center", va="center", fontsize=9, bbox=box)
        for x in range(start, end):
            _arrow(figure, (x, 1.16), (x + 1, 1.16), -0.55)
        _arrow(figure, (start, 0.16), (end, 0.16), -0.16)
        axes.set_xlim(-0.6, len(words) - 0.4)
        axes.set_ylim(-0.3, 1.75)
        axes.axis("off")
    return figure


def _arrow(figure: Figure, start: tuple[float, float], end: tuple[float, float], bend: float) -> None:
    figure.axes[0].add_patch(
        FancyArrowPatch(
            start, end, color=style.VALUE, linewidth=1.6, arrowstyle="-|>", mutation_scale=11,
            connectionstyle=f"arc3,rad={bend}", shrinkA=2, shrinkB=2,
        )
    )  # fmt: skip
