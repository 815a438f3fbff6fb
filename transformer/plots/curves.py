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
        axes.update_datalim([(x[0], 0)])  # 0 belongs to the heights: there is room above the highest, however level
        axes.autoscale_view()
        axes.set_ylim(bottom=0)
        axes.grid(True)
        axes.set_xlabel(x_label)
        axes.set_title(title, loc="left")
        axes.legend(loc="best", fontsize=10)
    return figure


def compare_runs(runs: Mapping[str, Sequence[Mapping[str, float]]], over: str) -> Figure:
    """Draw validation loss, training loss and BLEU of runs, a line each.

    Args:
        runs: name → lines of ``metrics.jsonl``; at most four.
        over: which of their entries goes to the right.
    """
    panels = {
        "valid_loss": "validation loss",
        "train_loss": "training loss (smoothed)",
        "valid_bleu": "validation BLEU",
    }
    with style.in_style():
        figure = Figure(figsize=(10, 3), layout="constrained")
        all_axes = figure.subplots(1, 3)
        for axes, (name, title) in zip(all_axes, panels.items(), strict=True):
            for (run, rows), (colour, dashes) in zip(runs.items(), LINES, strict=False):
                axes.plot([row[over] for row in rows], [row[name] for row in rows], dashes, color=colour, label=run)
            axes.set_ylim(bottom=0)
            axes.grid(True)
            axes.set_xlabel(over.replace("_", " "))
            axes.set_title(title, loc="left")
        all_axes[0].legend(loc="best", fontsize=10)
    return figure
