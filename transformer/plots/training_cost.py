"""How long training takes and what it costs, by GPU, utilisation, number of GPUs and price."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from transformer.plots import style

WIDTH = 480
TABLE_WIDTH = 120
"""Room for the two columns of numbers at the right, in pixels."""


def training_cost(
    flop: Mapping[str, float],
    peaks: Mapping[str, float],
    prices: Mapping[str, float],
    reported_hours: Mapping[str, float],
    reported_hardware: str,
    description: str,
) -> Any:
    """Return an Altair chart of training hours and price for each GPU, with sliders for what they depend on.

    Args:
        flop: model → floating-point operations of the whole training run.
        peaks: GPU → peak throughput in its data sheet, in TFLOP/s.
        prices: GPU → price per hour in euros, for every GPU in ``peaks``.
        reported_hours: model → hours reported in a paper, for every model in ``flop``; drawn as a dotted line.
        reported_hardware: the hardware of that report.
        description: the alt text.
    """
    model = alt.param("model", value=next(iter(flop)), bind=alt.binding_select(options=list(flop), name="model "))
    sliders = [
        alt.param(name, value=value, bind=alt.binding_range(min=low, max=high, step=step, name=label))
        for name, (value, low, high, step, label) in {
            "share": (15, 5, 70, 1, "utilisation (% of peak) "),
            "devices": (1, 1, 8, 1, "GPUs "),
            "factor": (1.0, 0.0, 3.0, 0.1, "multiply all prices by "),
        }.items()
    ]
    selected = "datum.model == model"
    rows = [
        {"device": device, "peak": peak, "price": prices[device], "model": name, "flop": operations}
        for name, operations in flop.items()
        for device, peak in peaks.items()
    ]
    hours = "datum.flop / (datum.peak * 1e12 * share / 100 * devices) / 3600"

    def rounded(value: str) -> str:
        return f"format({value}, {value} < 10 ? '.1f' : ',.0f')"

    time = f"datum.hours < 1 ? format(60 * datum.hours, '.0f') + ' min' : {rounded('datum.hours')} + ' h'"
    table = (
        alt.Chart(pd.DataFrame(rows))
        .transform_filter(selected)
        .transform_calculate(hours=hours)
        .transform_calculate(time=time, cost=rounded("datum.hours * devices * datum.price * factor"))
    )
    y = alt.Y("device:N", sort=list(peaks), title=None, axis=alt.Axis(labelLimit=90))
    scale = alt.Scale(type="log", domain=[0.1, 3000], range=[0, alt.expr(f"width - {TABLE_WIDTH}")])
    axis = alt.Axis(values=[0.1, 1, 10, 100, 1000], format="~g")
    x = alt.X("hours:Q", title="hours (logarithmic scale)", scale=scale, axis=axis)
    tooltip = [
        alt.Tooltip("device:N", title="GPU"),
        alt.Tooltip("peak:Q", title="peak (TFLOP/s, data sheet)"),
        alt.Tooltip("price:Q", title="price per hour (€)", format=".2f"),
        alt.Tooltip("hours:Q", format=",.1f"),
        alt.Tooltip("cost:N", title="total price (€)"),
    ]
    points = table.mark_point(filled=True, size=90, opacity=1, color=style.OUTPUT).encode(x, y, tooltip=tooltip)
    time_end, price_end = (alt.value(alt.expr(f"width - {space}")) for space in (70, 2))
    columns = [
        table.mark_text(align="right", fontSize=12).encode(y, x=end, text=f"{name}:N")
        for name, end in (("time", time_end), ("cost", price_end))
    ]
    headers = [
        alt.Chart(pd.DataFrame({"header": [header]}))
        .mark_text(align="right", fontSize=12, fontStyle="italic")
        .encode(x=end, y=alt.value(-9), text="header:N")
        for header, end in (("time", time_end), ("price (€)", price_end))
    ]
    reports = [
        {"model": name, "hours": hours, "label": f"┊ {reported_hardware}: {hours:g} h"}
        for name, hours in reported_hours.items()
    ]
    report = alt.Chart(pd.DataFrame(reports)).transform_filter(selected)
    rule = report.mark_rule(strokeDash=[2, 3], color="currentColor").encode(x)
    label = report.mark_text(align="left", fontSize=12).encode(x=alt.value(0), y=alt.value(-9), text="label:N")
    chart = alt.layer(rule, points, *columns, *headers, label, description=description)
    return style.chart_style(chart.properties(width=WIDTH, height=27 * len(peaks)).add_params(model, *sliders))
