"""A query that the reader turns by hand: weights and blend follow at once, in the page, with no server."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd
from torch import Tensor

from transformer.plots import style

WIDTH = 230


def turn_the_query(
    words: Sequence[str],
    key: Tensor,
    value: Tensor,
    axes: tuple[str, str],
    parts: tuple[str, str],
    description: str,
) -> Any:
    """An Altair chart: the keys as arrows, a query to turn and to stretch, the weights, and the blend of the values.

    Args:
        words: who the keys belong to.
        key: (n_key, 2).
        value: (n_key, 2).
        axes: what the keys' two dimensions mean.
        parts: what the values' two dimensions mean.
        description: the alt text.
    """
    turn = alt.binding_range(min=-180, max=180, step=5, name="turn the query (degrees) ")
    stretch = alt.binding_range(min=0, max=3, step=0.1, name="stretch the query (length) ")
    angle, length = alt.param("angle", value=0, bind=turn), alt.param("length", value=1, bind=stretch)
    east, north = "length * cos(angle * PI / 180)", "length * sin(angle * PI / 180)"

    table = pd.DataFrame({"word": words, "x": key[:, 0], "y": key[:, 1], parts[0]: value[:, 0], parts[1]: value[:, 1]})
    looked_up = (
        alt.Chart(table)
        .transform_calculate(score=f"datum.x * {east} + datum.y * {north}")
        .transform_calculate(exp="exp(datum.score)", zero="0")
        .transform_joinaggregate(total="sum(exp)")
        .transform_calculate(weight="datum.exp / datum.total")
    )

    reach = alt.Scale(domain=[-3, 3])
    x = alt.X("x:Q", scale=reach, title=f"{axes[0]} →", axis=alt.Axis(tickCount=6))
    y = alt.Y("y:Q", scale=reach, title=f"{axes[1]} →", axis=alt.Axis(tickCount=6))
    arrows = looked_up.mark_rule(color=style.KEY, strokeWidth=2).encode(x="zero:Q", y="zero:Q", x2="x", y2="y")
    ends = looked_up.mark_point(color=style.KEY, fill=style.KEY, opacity=1).encode(
        x, y, alt.Size("weight:Q", scale=alt.Scale(domain=[0, 1], range=[20, 400]), legend=None)
    )
    names = looked_up.mark_text(dy=-17, fontSize=12).encode(x, y, text="word")
    query = alt.Chart(pd.DataFrame({"zero": [0]})).transform_calculate(x=east, y=north)
    needle = query.mark_rule(color=style.QUERY, strokeWidth=4).encode(x="zero:Q", y="zero:Q", x2="x:Q", y2="y:Q")
    tip = query.mark_point(color=style.QUERY, fill=style.QUERY, size=60, opacity=1).encode(x, y)
    plane = (arrows + ends + names + needle + tip).properties(
        width=WIDTH, height=WIDTH, title="Query (blue) among the keys (orange)"
    )

    share = alt.X("share:Q", scale=alt.Scale(domain=[0, 1]), title=None, axis=alt.Axis(tickCount=5))

    def bars(chart: alt.Chart, label: str, order: Sequence[str], colour: str, title: str) -> Any:
        rows = chart.encode(share, alt.Y(f"{label}:N", sort=list(order), title=None))
        numbers = rows.mark_text(align="left", dx=4, fontSize=12).encode(text=alt.Text("share:Q", format=".2f"))
        return (rows.mark_bar(color=colour) + numbers).properties(width=WIDTH, height=24 * len(order), title=title)

    weights = bars(looked_up.transform_calculate(share="datum.weight"), "word", words, style.PLAIN, "Weights")
    blend = bars(
        looked_up.transform_fold(list(parts), as_=["part", "holds"])
        .transform_calculate(piece="datum.weight * datum.holds")
        .transform_aggregate(share="sum(piece)", groupby=["part"]),
        "part", parts, style.OUTPUT, "Blend of the values",
    )  # fmt: skip
    return style.chart_style(alt.vconcat(plane, weights, blend, description=description).add_params(angle, length))
