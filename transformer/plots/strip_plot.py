"""A strip plot: repeated measurements under several settings, so that effects can be compared with random variation."""

from collections.abc import Mapping, Sequence
from typing import Literal

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from transformer.plots import style


def strip_plot(values: Mapping[str, Sequence[float]], title: str, bar: Literal["mean", "median"] = "mean") -> Figure:
    """Draw a row for each setting, with a dot for each measurement and a vertical bar at their mean or median.

    Args:
        values: setting → its measurements; the first setting is at the top.
        title: the quantity that was measured.
        bar: where the vertical bar is; the median if there may be outliers, as in timings.
    """
    table = pd.DataFrame([(setting, value) for setting, measured in values.items() for value in measured])
    table.columns = pd.Index(["setting", title])
    with style.in_style():
        figure, axes = style.new_figure(4.6, 0.9 + 0.35 * len(values))
        sns.stripplot(table, x=title, y="setting", jitter=False, color=style.QUERY, size=6, alpha=0.6, ax=axes)
        sns.pointplot(
            table, x=title, y="setting", estimator=bar, errorbar=None, linestyle="none", color=style.INK,
            marker="|", markersize=14, markeredgewidth=2, ax=axes,
        )  # fmt: skip
        axes.grid(True, axis="x")
        axes.set_ylabel("")
    return figure
