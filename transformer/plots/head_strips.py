"""What all heads of several models do, a dot for each head; the one that is pointed at lights up in every row."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from transformer.plots import style

WIDTH = 190
FIELDS = ["kind", "what", "layer", "head", "share"]


def head_strips(models: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]], first: str, description: str) -> Any:
    """An Altair chart: a row for each measure, dots for the heads of a model, gray ticks for random heads.

    Args:
        models: name → measures of its heads, and of a random model's. Both are tables with the columns ``kind`` (of
            attention), ``what`` (is measured), ``layer``, ``head`` and ``share``, between 0 and 1.
        first: the head that is lit up at first, such as "encoder 2, head 4".
        description: the alt text.
    """
    parts = [
        table[FIELDS].assign(model=name, random=random)
        for name, both in models.items()
        for table, random in zip(both, (False, True), strict=True)
    ]
    rows = pd.concat(parts, ignore_index=True)
    rows["name"] = rows["layer"] + ", head " + rows["head"].astype(str)
    rows["row"] = rows["kind"] + ": " + rows["what"]
    order = list(dict.fromkeys(rows["row"]))
    menu = alt.param("model", value=next(iter(models)), bind=alt.binding_select(options=list(models), name="model "))
    pointed = alt.selection_point(
        "pointed", fields=["name"], on="pointerover", clear=False, toggle=False, value=[{"name": first}]
    )
    table = rows[["model", "random", "name", "row", "share"]].round({"share": 4})
    shown = alt.Chart(table).transform_filter("datum.model == model")
    base = shown.encode(
        alt.X("share:Q", scale=alt.Scale(domain=[0, 1]), title="share", axis=alt.Axis(tickCount=5)),
        alt.Y("row:N", sort=order, title=None, axis=alt.Axis(labelLimit=160, grid=True)),
    )
    chance = base.transform_filter("datum.random").mark_tick(color=style.PLAIN, thickness=2)
    trained = shown.transform_filter("!datum.random")
    dots = (
        base.transform_filter("!datum.random")
        .mark_circle(opacity=0.9)
        .encode(
            color=alt.condition(pointed, alt.value(style.WRONG), alt.value(style.QUERY)),
            size=alt.condition(pointed, alt.value(150), alt.value(45)),
            tooltip=[alt.Tooltip("name:N", title="head"), alt.Tooltip("share:Q", format=".2f")],
        )
    )
    chart = (chance + dots.add_params(pointed)).properties(width=WIDTH, height=24 * len(order))
    reading = (
        trained.transform_filter(pointed)
        .transform_aggregate(groupby=["name"])
        .mark_text(align="left", fontSize=13, x=0)
        .encode(text="name:N")
        .properties(width=WIDTH, height=18)
    )
    return style.chart_style(alt.vconcat(chart, reading, description=description).add_params(menu))
