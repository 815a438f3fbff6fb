"""A query vector that the reader can rotate and scale, and the attention weights and output that result."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd
from torch import Tensor

from transformer.plots import style

WIDTH = 230


def rotate_query(
    words: Sequence[str],
    key: Tensor,
    value: Tensor,
    key_features: tuple[str, str],
    value_features: tuple[str, str],
    description: str,
) -> Any:
    """Return an Altair chart of two-dimensional keys and a query, the attention weights and the weighted sum of values.

    Args:
        words: the word of each key.
        key: (n_key, 2).
        value: (n_key, 2).
        key_features: what the two dimensions of the keys mean.
        value_features: what the two dimensions of the values mean.
        description: the alt text.
    """
    rotation = alt.binding_range(min=-180, max=180, step=5, name="angle of the query (degrees) ")
    scale = alt.binding_range(min=0, max=3, step=0.1, name="length of the query ")
    angle, length = alt.param("angle", value=0, bind=rotation), alt.param("length", value=1, bind=scale)
    query_x, query_y = "length * cos(angle * PI / 180)", "length * sin(angle * PI / 180)"

    values = dict(zip(value_features, value.T, strict=True))
    table = pd.DataFrame({"word": words, "x": key[:, 0], "y": key[:, 1], **values})
    attention = (
        alt.Chart(table)
        .transform_calculate(score=f"datum.x * {query_x} + datum.y * {query_y}")
        .transform_calculate(exp="exp(datum.score)", zero="0")
        .transform_joinaggregate(total="sum(exp)")
        .transform_calculate(weight="datum.exp / datum.total")
    )

    plane_scale = alt.Scale(domain=[-3, 3])
    x = alt.X("x:Q", scale=plane_scale, title=f"{key_features[0]} →", axis=alt.Axis(tickCount=6))
    y = alt.Y("y:Q", scale=plane_scale, title=f"{key_features[1]} →", axis=alt.Axis(tickCount=6))
    arrows = attention.mark_rule(color=style.KEY, strokeWidth=2).encode(x="zero:Q", y="zero:Q", x2="x", y2="y")
    tips = attention.mark_point(color=style.KEY, fill=style.KEY, opacity=1).encode(
        x, y, alt.Size("weight:Q", scale=alt.Scale(domain=[0, 1], range=[20, 400]), legend=None)
    )
    is_zero = "datum.x == 0 && datum.y == 0"  # then the label is on the left, so that no arrow crosses it
    labels = attention.mark_text(
        fontSize=12,
        dx=alt.expr(f"{is_zero} ? -17 : 0"),
        dy=alt.expr(f"{is_zero} ? 0 : datum.y < 0 ? 17 : -17"),
    ).encode(x, y, text="word")
    query = alt.Chart(pd.DataFrame({"zero": [0]})).transform_calculate(x=query_x, y=query_y)
    arrow = query.mark_rule(color=style.QUERY, strokeWidth=4).encode(x="zero:Q", y="zero:Q", x2="x:Q", y2="y:Q")
    tip = query.mark_point(color=style.QUERY, fill=style.QUERY, size=60, opacity=1).encode(x, y)
    plane = (arrows + tips + labels + arrow + tip).properties(
        width=WIDTH, height=WIDTH, title="Query (blue) among the keys (orange)"
    )

    x_value = alt.X("value:Q", scale=alt.Scale(domain=[0, 1]), title=None, axis=alt.Axis(tickCount=5))

    def bars(chart: alt.Chart, label: str, order: Sequence[str], colour: str, title: str) -> Any:
        rows = chart.encode(x_value, alt.Y(f"{label}:N", sort=list(order), title=None))
        numbers = rows.mark_text(align="left", dx=4, fontSize=12).encode(text=alt.Text("value:Q", format=".2f"))
        return (rows.mark_bar(color=colour) + numbers).properties(width=WIDTH, height=24 * len(order), title=title)

    weights = bars(attention.transform_calculate(value="datum.weight"), "word", words, style.PLAIN, "Attention weights")
    output = bars(
        attention.transform_fold(list(value_features), as_=["feature", "component"])
        .transform_calculate(term="datum.weight * datum.component")
        .transform_aggregate(value="sum(term)", groupby=["feature"]),
        "feature", value_features, style.OUTPUT, "Output: weighted sum of the values",
    )  # fmt: skip
    return style.chart_style(
        alt.vconcat(plane, alt.vconcat(weights, output), description=description).add_params(angle, length),
        side_by_side=True,
    )
