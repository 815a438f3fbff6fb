"""A strip plot: repeated measurements under several settings, so that effects can be compared with random variation."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from transformer.plots import style


def strip_plot(
    values: Mapping[str, Sequence[float]],
    title: str,
    bar: Literal["mean", "median"] = "mean",
    setting: str = "",
    baseline: str = "",
) -> Figure:
    """Draw a row for each setting, with a dot for each measurement and, for several, a bar at their mean or median.

    Args:
        values: setting → its measurements; the first setting is at the top.
        title: the quantity that was measured.
        bar: where the vertical bar is; the median if there may be outliers, as in timings.
        setting: what the settings are, if their names don't show it.
        baseline: the setting to compare the others with: a dotted line is drawn at its mean or median.
    """
    table = pd.DataFrame([(setting, value) for setting, measured in values.items() for value in measured])
    table.columns = pd.Index(["setting", title])
    with style.in_style():
        figure, axes = style.new_figure(4.6, 0.9 + 0.35 * len(values))
        sns.stripplot(table, x=title, y="setting", jitter=False, color=style.QUERY, size=6, alpha=0.6, ax=axes)
        average: Callable[[Sequence[float]], float] = statistics.fmean if bar == "mean" else statistics.median
        repeated = {row: average(measured) for row, measured in enumerate(values.values()) if len(measured) > 1}
        axes.plot(list(repeated.values()), list(repeated), "|", color=style.INK, markersize=14, markeredgewidth=2)
        axes.set_ylim(len(values) - 0.5, -0.5)
        axes.grid(True, axis="x")
        axes.set_ylabel(setting)
        if baseline in values:
            axes.axvline(average(values[baseline]), color=style.INK, linewidth=1, linestyle=":")
    return figure
