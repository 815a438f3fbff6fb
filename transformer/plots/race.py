"""Training curves of many runs that differ in a few choices, some of them chosen by the reader."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from transformer.plots import style

WIDTH = 230
EVERY = 5
"""Steps between two points of a line, each the mean of as many."""


def race(
    runs: Mapping[tuple[str, str, float], Sequence[float]], level: tuple[str, float], start: float, description: str
) -> Any:
    """An Altair chart: two lines for each order of the norm; buttons choose the rate, and which order is shown.

    Args:
        runs: (norm, warm-up, rate) → the loss of every step.
        level: name and height of a level to compare with.
        start: the rate that is chosen at first.
        description: the alt text.
    """
    table = pd.DataFrame(
        [
            {"norm": norm, "warm-up": warm, "rate": rate, "step": at + EVERY, "loss": round(sum(some) / len(some), 3)}
            for (norm, warm, rate), losses in runs.items()
            for at in range(0, len(losses), EVERY)
            for some in [losses[at : at + EVERY]]
        ]
    )
    rates, norms = sorted(set(table["rate"])), sorted(set(table["norm"]))
    rate = alt.param("rate", value=start, bind=alt.binding_radio(options=rates, name="rate "))
    show = alt.param("show", value="both", bind=alt.binding_radio(options=["both", *norms], name="norm "))
    point = alt.selection_point(on="pointerover", nearest=True, fields=["step"], empty=False)
    chosen = alt.Chart(table).transform_filter("datum.rate == rate && (show == 'both' || datum.norm == show)")
    legend = alt.Legend(orient="bottom", title=None, labelFontSize=12, labelColor="currentColor", symbolSize=150)
    x = alt.X("step:Q", title="step")
    drawn = chosen.mark_line(strokeWidth=2.5).encode(
        x,
        alt.Y("loss:Q", title=None, scale=alt.Scale(domain=[0, 3.2], clamp=True)),
        alt.Color(
            "norm:N", scale=alt.Scale(domain=norms, range=[style.WRONG, style.QUERY][: len(norms)]), legend=legend
        ),
        alt.StrokeDash("warm-up:N", legend=legend, sort=sorted(set(table["warm-up"]), reverse=True)),
    )
    dots = (
        chosen.transform_filter(point)
        .mark_point(size=50, filled=True, opacity=1, aria=False)
        .encode(
            x,
            alt.Y("loss:Q"),
            alt.Color("norm:N"),
            tooltip=[alt.Tooltip(f"{what}:N") for what in ("norm", "warm-up")]
            + [alt.Tooltip("step:Q"), alt.Tooltip("loss:Q", format=".2f")],
        )
    )
    ruler = alt.Chart(table).mark_rule(strokeWidth=10, opacity=0).encode(x).add_params(point)
    floor = alt.Chart(pd.DataFrame([{"name": level[0], "height": level[1]}]))
    line = floor.mark_rule(color=style.PLAIN, strokeDash=[2, 3]).encode(y="height:Q")
    name = floor.mark_text(align="right", dy=12, fontSize=12).encode(x=alt.value(WIDTH), y="height:Q", text="name:N")
    chart = alt.layer(ruler, line, name, drawn, dots).properties(width=WIDTH, height=220, title="Loss")
    return style.chart_style(alt.vconcat(chart, description=description).add_params(rate, show))
