"""How long a training takes, and what it costs, as the reader sets what decides it: in the page, with no server."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from transformer.plots import style

WIDTH = 150


def budget(
    work: Mapping[str, float], peaks: Mapping[str, float], known: Mapping[str, float], where: str, description: str
) -> Any:
    """An Altair chart: hours on each device, by the share of its peak, the number of devices and an hour's price.

    Args:
        work: model → FLOP of its whole training.
        peaks: device → the peak of its data sheet, in TFLOP a second.
        known: model → hours that somebody reports, for all models in ``work``; a dotted line.
        where: on what they took so long.
        description: the alt text.
    """
    model = alt.param("model", value=next(iter(work)), bind=alt.binding_select(options=list(work), name="model "))
    sliders = [
        alt.param(name, value=value, bind=alt.binding_range(min=low, max=high, step=step, name=label))
        for name, (value, low, high, step, label) in {
            "share": (30, 5, 70, 1, "share of the peak, % "),
            "devices": (1, 1, 8, 1, "GPUs "),
            "price": (1.0, 0.0, 5.0, 0.1, "price of a GPU for an hour "),
        }.items()
    ]
    chosen = "datum.model == model"
    rows = [
        {"device": device, "peak": peak, "model": name, "flop": flop}
        for name, flop in work.items()
        for device, peak in peaks.items()
    ]
    hours = "datum.flop / (datum.peak * 1e12 * share / 100 * devices) / 3600"
    told = "datum.hours < 1 ? format(60 * datum.hours, '.0f') + ' min' : format(datum.hours, ',.0f') + ' h'"
    table = (
        alt.Chart(pd.DataFrame(rows))
        .transform_filter(chosen)
        .transform_calculate(hours=hours)
        .transform_calculate(time=told, cost="format(datum.hours * devices * price, ',.0f')")
    )
    y = alt.Y("device:N", sort=list(peaks), title=None, axis=alt.Axis(labelLimit=90))
    scale = alt.Scale(type="log", domain=[0.1, 3000])
    x = alt.X("hours:Q", title="hours", scale=scale, axis=alt.Axis(values=[0.1, 1, 10, 100, 1000], format="~g"))
    tooltip = [
        alt.Tooltip("device:N"),
        alt.Tooltip("peak:Q", title="peak, TFLOP/s (data sheet)"),
        alt.Tooltip("hours:Q", format=",.1f"),
        alt.Tooltip("cost:N", title="price in all"),
    ]
    dots = table.mark_point(filled=True, size=90, opacity=1, color=style.OUTPUT).encode(x, y, tooltip=tooltip)
    columns = [
        table.mark_text(align="right", fontSize=12).encode(y, x=alt.value(WIDTH + at), text=f"{name}:N")
        for name, at in (("time", 52), ("cost", 100))
    ]
    heads = [
        alt.Chart(pd.DataFrame({"head": [head]}))
        .mark_text(align="right", fontSize=12, fontStyle="italic")
        .encode(x=alt.value(WIDTH + at), y=alt.value(-9), text="head:N")
        for head, at in (("time", 52), ("price", 100))
    ]
    reports = [{"model": name, "hours": hours, "told": f"┊ {where}: {hours:g} h"} for name, hours in known.items()]
    report = alt.Chart(pd.DataFrame(reports)).transform_filter(chosen)
    rule = report.mark_rule(strokeDash=[2, 3], color="currentColor").encode(x)
    name = report.mark_text(align="left", fontSize=12).encode(x=alt.value(0), y=alt.value(-9), text="told:N")
    chart = alt.layer(rule, dots, *columns, *heads, name, description=description)
    return style.chart_style(chart.properties(width=WIDTH, height=27 * len(peaks)).add_params(model, *sliders))
