"""The training of an experiment's runs: their learning curves, and how soon they reach the same validation loss."""

import math
import statistics
from itertools import pairwise
from typing import Any

from book._ext.results.spread import Spread
from book._ext.results.tables import table
from transformer.plots.curves import curves
from transformer.plots.style import Picture, Row

GROUPS = {"post": "post-norm", "pre": "pre-norm"}
"""What the figures of learning curves call the labels before the comma."""


def learning_curves(rows: list[dict[str, Any]]) -> Row:
    """Plot the validation loss over the steps, as means over the seeds; one figure per label before the comma.

    If no label has a comma, all lines are in one figure. A line ends with the shortest of its runs. The figures have
    the same y axis.
    """
    has_groups = any(", " in row["label"] for row in rows)
    groups: dict[str, dict[str, list[list[dict[str, float]]]]] = {}
    for row in rows:
        finite = [point for point in row["curve"] if point["valid_loss"] is not None]
        if finite:
            group, _, line = row["label"].partition(", ") if has_groups else ("", "", row["label"])
            groups.setdefault(GROUPS.get(group, group), {}).setdefault(line or group, []).append(finite)
    figures = []
    for group, lines in groups.items():
        steps = [point["step"] for point in max((c for runs in lines.values() for c in runs), key=len)]
        means, ends = {}, []
        for line, runs in lines.items():
            values = [statistics.fmean(point["valid_loss"] for point in points) for points in zip(*runs, strict=False)]
            ends.append(f"{line} ends at {values[-1]:.2f}")
            means[line] = values + [math.nan] * (len(steps) - len(values))
        alt = "; ".join(ends)
        title = f"{group}: validation loss" if group else "validation loss"
        figures.append(Picture(curves(steps, means, "step", title), f"Learning curves, {title}. {alt}."))
    axes = [picture.figure.axes[0] for picture in figures]
    top = max(ax.get_ylim()[1] for ax in axes)
    for ax in axes:
        ax.set_ylim(top=top)
    return Row(*figures)


def same_loss(rows: list[dict[str, Any]]) -> str:
    """Return a table of the steps and minutes after which each setting reached the same validation loss.

    It is the lowest loss that all runs reach; between two validations the steps and minutes are interpolated.
    """
    finished = [row for row in rows if not row["failed"]]
    loss = max(min(point["valid_loss"] for point in row["curve"]) for row in finished)
    reached: dict[str, list[tuple[float, float]]] = {}
    for row in finished:
        reached.setdefault(row["label"], []).append(first_below(row["curve"], loss))
    cells = []
    for label, runs in reached.items():
        steps, minutes = (Spread.of(values) for values in zip(*runs, strict=True))
        cells.append([label, steps.text(0), minutes.text(2), len(runs)])
    return table(["setting", f"steps to a validation loss of {loss:.3f}", "minutes", "seeds"], cells)


def first_below(curve: list[dict[str, float]], loss: float) -> tuple[float, float]:
    """Return the step and the minutes at which a learning curve first reaches a loss.

    Raises:
        ValueError: if it doesn't.
    """
    for before, after in pairwise([curve[0], *curve]):
        if after["valid_loss"] <= loss:
            fall = before["valid_loss"] - after["valid_loss"]
            share = (before["valid_loss"] - loss) / fall if fall else 1.0
            step, minutes = (before[key] + share * (after[key] - before[key]) for key in ("step", "minutes"))
            return step, minutes
    raise ValueError(f"the validation loss doesn't reach {loss}")
