"""A measure under several settings, each repeated: how much a setting changes, beside how much chance does."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from transformer.plots import style


def dots(values: Mapping[str, Sequence[float]], title: str) -> Figure:
    """Draw a row for each setting: a dot for each repetition, and a bar at their mean.

    Args:
        values: setting → what was measured, once or more; rows go from the top in this order.
        title: what is measured.
    """
    with style.in_style():
        figure, axes = style.new_figure(4.6, 0.9 + 0.35 * len(values))
        for row, measured in enumerate(values.values()):
            axes.plot(measured, [row] * len(measured), "o", color=style.QUERY, markersize=5, alpha=0.6)
            axes.plot([sum(measured) / len(measured)], [row], "|", color=style.INK, markersize=14, markeredgewidth=2)
        axes.set_yticks(range(len(values)), list(values))
        axes.set_ylim(len(values) - 0.5, -0.5)
        axes.grid(True, axis="x")
        axes.set_xlabel(title)
    return figure
