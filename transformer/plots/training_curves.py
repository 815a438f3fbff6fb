"""The metrics of training runs over time: losses and BLEU."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd
from matplotlib.figure import Figure

from transformer.plots import style


def training_curves(metrics: Sequence[dict[str, float]], description: str) -> Any:
    """Return an Altair chart of one run: losses and BLEU over the steps, with the values of a step on hover.

    Args:
        metrics: the rows of ``metrics.jsonl``.
        description: the alt text.
    """
    frame = pd.DataFrame(metrics)
    point = alt.selection_point(on="pointerover", nearest=True, fields=["step"], empty=False)
    x = alt.X("step:Q", title="step", scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=5))
    tooltip = [
        alt.Tooltip("step:Q"),
        alt.Tooltip("train_loss:Q", format=".2f", title="training loss (label-smoothed)"),
        alt.Tooltip("valid_loss:Q", format=".2f", title="validation loss"),
        alt.Tooltip("valid_bleu:Q", format=".1f", title="BLEU"),
    ]
    ruler = (
        alt.Chart(frame)
        .mark_rule(color=style.PLAIN, strokeWidth=14)
        .encode(x, opacity=alt.condition(point, alt.value(0.35), alt.value(0)), tooltip=tooltip)
    )

    def lines(names: dict[str, str], colours: list[str], title: str) -> Any:
        table = frame.rename(columns=names).melt("step", list(names.values()), "metric", "value")
        base = alt.Chart(table).encode(
            x,
            alt.Y("value:Q", title=None, scale=alt.Scale(zero=True)),
            alt.Color(
                "metric:N",
                scale=alt.Scale(range=colours),
                legend=alt.Legend(title=None, orient="top", labelColor="currentColor") if len(names) > 1 else None,
            ),
        )
        panel = base.mark_line() + base.mark_point(size=45, filled=True, opacity=1) + ruler
        return panel.properties(width=250, height=130, title=title)

    loss = lines(
        {"train_loss": "training (label-smoothed)", "valid_loss": "validation"},
        [style.KEY, style.QUERY],
        "Loss per token",
    )
    score = lines({"valid_bleu": "BLEU"}, [style.VALUE], "Validation BLEU")
    both = alt.vconcat(loss.add_params(point), score, description=description)
    return style.chart_style(both.resolve_scale(color="independent"), side_by_side=True)


def compare_runs(runs: Mapping[str, Sequence[Mapping[str, float]]], x_axis: str) -> Figure:
    """Draw the validation loss, training loss and validation BLEU of several runs, one line for each run.

    Args:
        runs: name → rows of ``metrics.jsonl``; at most four runs.
        x_axis: the entry on the x axis, such as "step" or "minutes".
    """
    panels = {
        "valid_loss": "validation loss",
        "train_loss": "training loss (label-smoothed)",
        "valid_bleu": "validation BLEU",
    }
    with style.in_style():
        figure = Figure(figsize=(10, 3), layout="constrained")
        all_axes = figure.subplots(1, 3)
        for axes, (name, title) in zip(all_axes, panels.items(), strict=True):
            for run, rows, colour, dashes in style.style_lines(runs):
                axes.plot(
                    [row[x_axis] for row in rows],
                    [row[name] for row in rows],
                    dashes,
                    color=colour,
                    label=style.escape_label(run),
                )
            axes.set_ylim(bottom=0)
            axes.grid(True)
            axes.set_xlabel(x_axis.replace("_", " "))
            axes.set_title(title, loc="left")
        all_axes[0].legend(loc="best", fontsize=10)
    return figure
