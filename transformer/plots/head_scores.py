"""Scores of all attention heads, such as how much a head attends to the previous token, with a dot for each head."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from transformer.plots import style

WIDTH = 190
COLUMNS = ["kind", "measure", "layer", "head", "score"]


def head_scores(models: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]], first: str, description: str) -> Any:
    """Return an Altair chart with a row for each measure: dots are the heads of the model, grey ticks untrained heads.

    The head under the pointer is highlighted in all rows.

    Args:
        models: name → scores of the heads of the trained model, and of an untrained model. Both are tables with the
            columns ``kind`` (of attention), ``measure``, ``layer``, ``head`` and ``score``, between 0 and 1. The menu
            shows one name at a time, with only the rows that its tables have.
        first: the head that is highlighted at first, such as "encoder 2, head 4".
        description: the alt text.
    """
    parts = [
        table[COLUMNS].assign(model=name, untrained=untrained)
        for name, tables in models.items()
        for table, untrained in zip(tables, (False, True), strict=True)
    ]
    rows = pd.concat(parts, ignore_index=True)
    rows["name"] = rows["layer"] + ", head " + rows["head"].astype(str)
    rows["row"] = rows["kind"] + ": " + rows["measure"]
    order = list(dict.fromkeys(rows["row"]))
    menu = alt.param("model", value=next(iter(models)), bind=alt.binding_select(options=list(models), name="model "))
    highlighted = alt.selection_point(
        "highlighted", fields=["name"], on="pointerover", clear=False, toggle=False, value=[{"name": first}]
    )
    table = rows[["model", "untrained", "name", "row", "score"]].round({"score": 4})
    model = alt.Chart(table).transform_filter("datum.model == model")
    base = model.encode(
        alt.X("score:Q", scale=alt.Scale(domain=[0, 1]), title="score", axis=alt.Axis(tickCount=5)),
        alt.Y("row:N", sort=order, title=None, axis=alt.Axis(labelLimit=160, grid=True)),
    )
    baseline = base.transform_filter("datum.untrained").mark_tick(color=style.PLAIN, thickness=2)
    trained = model.transform_filter("!datum.untrained")
    dots = (
        base.transform_filter("!datum.untrained")
        .mark_circle(opacity=0.9)
        .encode(
            color=alt.condition(highlighted, alt.value(style.WRONG), alt.value(style.QUERY)),
            size=alt.condition(highlighted, alt.value(150), alt.value(45)),
            tooltip=[alt.Tooltip("name:N", title="head"), alt.Tooltip("score:Q", format=".2f")],
        )
    )
    chart = (baseline + dots.add_params(highlighted)).properties(width=WIDTH, height=alt.Step(24))
    reading = (
        trained.transform_filter(highlighted)
        .transform_aggregate(groupby=["name"])
        .mark_text(align="left", fontSize=13, x=0)
        .encode(text="name:N")
        .properties(width=WIDTH, height=18)
    )
    both = alt.vconcat(chart, reading, description=description, autosize=alt.AutoSizeParams(type="pad", resize=True))
    return style.chart_style(both.add_params(menu))
