"""Several lines over one axis."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from transformer.plots import style

LINES = ((style.WRONG, "-"), (style.QUERY, "--"), (style.VALUE, "-."), (style.PLAIN, ":"))
"""Colour and dashes of the first line, the second, …: told apart by either."""


def curves(
    x: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    x_label: str,
    title: str,
    doubling: bool = False,
    level: tuple[str, float] | None = None,
) -> Figure:
    """Draw each line over x.

    Args:
        x: shared by all lines.
        lines: name → heights, as many as x; at most four.
        x_label: below the axis.
        title: what is measured.
        doubling: x in powers of two.
        level: name and height of a level to compare with.
    """
    with style.in_style():
        figure, axes = style.new_figure(3.6, 2.7)
        for (name, heights), (colour, dashes) in zip(lines.items(), LINES, strict=False):
            axes.plot(x, heights, dashes, color=colour, label=name, marker="o" if doubling else None, markersize=4)
        if level:
            axes.axhline(level[1], color=style.INK, linewidth=1, linestyle=":", label=level[0])
        if doubling:
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(ScalarFormatter())
            axes.set_xticks(list(x)[::2], [f"{tick:g}" for tick in list(x)[::2]])
        axes.set_ylim(bottom=0)
        axes.grid(True)
        axes.set_xlabel(x_label)
        axes.set_title(title, loc="left")
        axes.legend(loc="best", fontsize=10)
    return figure
