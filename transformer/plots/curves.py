"""A line plot with one to four lines."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from transformer.plots import style


def curves(
    x: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    x_label: str,
    title: str,
    log2_x: bool = False,
    reference: tuple[str, float] | None = None,
) -> Figure:
    """Draw one or more lines over shared x values; the y axis starts at 0.

    Args:
        x: the x values of all lines.
        lines: label → y values, one for each x; at most four lines.
        x_label: label of the x axis.
        title: the quantity on the y axis.
        log2_x: use a logarithmic x axis, with powers of two as ticks.
        reference: label and y value of a horizontal reference line.
    """
    with style.in_style():
        figure = Figure(figsize=(4.6, 3.0), layout="constrained")
        axes = figure.add_subplot()
        for label, y, colour, dashes in style.style_lines(lines):
            axes.plot(x, y, dashes, color=colour, label=label, marker="o" if log2_x else None, markersize=4)
        if reference:
            label, y_reference = reference
            axes.axhline(y_reference, color=style.INK, linewidth=1, linestyle=":", label=label)
        if log2_x:
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(ScalarFormatter())
            axes.set_xticks(list(x)[::2], [f"{tick:g}" for tick in list(x)[::2]])
        # With 0 in the data, the upper margin is a fraction of the whole axis, even for flat lines.
        axes.update_datalim([(x[0], 0)])
        axes.autoscale_view()
        axes.set_ylim(bottom=0)
        axes.grid(True)
        axes.set_xlabel(x_label)
        axes.set_title(title, loc="left")
        if len(lines) > 1 or reference:
            labels = [*lines, *(reference or ())[:1]]
            fits = sum(len(label) + 6 for label in labels) <= 56
            ncols = len(labels) if fits else 1 if len(labels) == 3 else 2
            figure.legend(loc="outside lower center", ncols=ncols, fontsize=10)  # covers no line
    return figure
