"""Training curves of runs that differ in the placement of the norm, warm-up and learning rate."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import altair as alt
import pandas as pd

from transformer.plots import style

WIDTH = 230
EVERY = 5
"""The number of steps that are averaged for each point of a line."""


def run_comparison(
    runs: Mapping[tuple[str, str, float], Sequence[float]],
    reference: tuple[str, float],
    learning_rate: float,
    description: str,
) -> Any:
    """Return an Altair chart of training losses, with buttons for the learning rate and the placement of the norm.

    Args:
        runs: (norm, warm-up, learning rate) → the loss of every step.
        reference: label and value of a horizontal reference line.
        learning_rate: the learning rate that is selected at first.
        description: the alt text.
    """
    table = pd.DataFrame(
        [
            {
                "norm": norm,
                "warm-up": warm_up,
                "rate": rate,
                "step": i + EVERY,
                "loss": round(fmean(losses[i : i + EVERY]), 3),
            }
            for (norm, warm_up, rate), losses in runs.items()
            for i in range(0, len(losses), EVERY)
        ]
    )
    rates, norms = sorted(set(table["rate"])), sorted(set(table["norm"]))
    rate = alt.param("rate", value=learning_rate, bind=alt.binding_radio(options=rates, name="learning rate "))
    show = alt.param("show", value="both", bind=alt.binding_radio(options=["both", *norms], name="norm "))
    point = alt.selection_point(on="pointerover", nearest=True, fields=["step"], empty=False)
    selected = alt.Chart(table).transform_filter("datum.rate == rate && (show == 'both' || datum.norm == show)")
    legend = alt.Legend(orient="bottom", title=None, labelFontSize=12, labelColor="currentColor", symbolSize=150)
    x = alt.X("step:Q", title="step", scale=alt.Scale(domain=[0, int(table["step"].max())]))
    lines = selected.mark_line(strokeWidth=2.5).encode(
        x,
        alt.Y("loss:Q", title=None, scale=alt.Scale(domain=[0, 3.2], clamp=True)),
        alt.Color(
            "norm:N", scale=alt.Scale(domain=norms, range=[style.WRONG, style.QUERY][: len(norms)]), legend=legend
        ),
        alt.StrokeDash("warm-up:N", legend=legend, sort=sorted(set(table["warm-up"]), reverse=True)),
    )
    points = (
        selected.transform_filter(point)
        .mark_point(size=50, filled=True, opacity=1, aria=False)
        .encode(
            x,
            alt.Y("loss:Q"),
            alt.Color("norm:N"),
            tooltip=[alt.Tooltip(f"{field}:N") for field in ("norm", "warm-up")]
            + [alt.Tooltip("step:Q"), alt.Tooltip("loss:Q", format=".2f")],
        )
    )
    ruler = alt.Chart(table).mark_rule(strokeWidth=10, opacity=0).encode(x).add_params(point)
    name, loss = reference
    reference_chart = alt.Chart(pd.DataFrame([{"name": name, "loss": loss}]))
    line = reference_chart.mark_rule(color=style.PLAIN, strokeDash=[2, 3]).encode(y="loss:Q")
    label = reference_chart.mark_text(align="right", dy=12, fontSize=12).encode(
        x=alt.value(WIDTH), y="loss:Q", text="name:N"
    )
    chart = alt.layer(ruler, line, label, lines, points).properties(width=WIDTH, height=220, title="Training loss")
    return style.chart_style(alt.vconcat(chart, description=description).add_params(rate, show))
