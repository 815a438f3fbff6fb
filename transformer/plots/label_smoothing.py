"""Label smoothing (§5.4): the smoothed target distribution and the loss that it gives."""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from transformer.plots import style

WIDTH = 230
FORMULAS = {
    "V": "pow(2, power)",
    "q_other": "epsilon / V",
    "q_correct": "1 - epsilon + q_other",
    "best_gap": "log(q_correct) - log(max(q_other, 1e-300))",
    "min_loss": "-q_correct * log(q_correct) - (1 - q_correct) * log(max(q_other, 1e-300))",
}
"""Quantities that follow from the two sliders: expressions in the syntax of both Vega and Python, in order."""
LOSS = "-q_correct * log(p) - (1 - q_correct) * log((1 - p) / (V - 1))"
"""The loss if the correct token has probability p, and the other tokens have equal shares of the rest."""


def label_smoothing_explorer(description: str) -> Any:
    """Return an Altair chart of the target distribution and of the loss, with sliders for ε and the vocabulary size.

    Args:
        description: the alt text.
    """
    smoothing = alt.binding_range(min=0, max=0.4, step=0.01, name="label smoothing ε ")
    vocabulary = alt.binding_range(min=1, max=16, step=1, name="vocabulary size: 2 to the power of ")
    sliders = alt.param("epsilon", value=0.1, bind=smoothing), alt.param("power", value=10, bind=vocabulary)
    derived = [alt.param(name, expr=formula) for name, formula in FORMULAS.items()]

    lines = {
        "vocabulary size": "format(V, ',')",
        "best logit gap": "epsilon > 0 ? format(best_gap, '.2f') : 'infinite'",
        "lowest loss": "format(min_loss, '.3f') + ' (perplexity ' + format(exp(min_loss), '.2f') + ')'",
    }
    text = alt.Chart(pd.DataFrame({"line": list(lines)}))
    for name, line in lines.items():
        text = text.transform_calculate(**{name: line})
    text = text.transform_calculate(value=" : ".join(f"datum.line == '{n}' ? datum['{n}']" for n in lines) + " : ''")
    row = alt.Y("line:N", sort=list(lines), title=None, axis=alt.Axis(ticks=False, domain=False))
    numbers = text.mark_text(align="left", fontSize=12).encode(row, x=alt.value(4), text="value:N")

    heights = {"correct token": "q_correct", "each other token": "q_other", "all other tokens": "1 - q_correct"}
    bar = alt.Chart(pd.DataFrame({"token": list(heights)})).transform_calculate(
        height=" : ".join(f"datum.token == '{token}' ? {height}" for token, height in heights.items()) + " : 0"
    )
    bars = bar.encode(
        alt.X("height:Q", scale=alt.Scale(domain=[0, 1.15]), title=None, axis=alt.Axis(values=[0, 0.5, 1])),
        alt.Y("token:N", sort=list(heights), title=None),
    )
    colour = alt.condition("datum.token == 'correct token'", alt.value(style.OUTPUT), alt.value(style.PLAIN))
    labels = bars.transform_calculate(label="format(datum.height, '.3~g')")
    labelled = labels.mark_text(align="left", dx=4, fontSize=12).encode(text="label:N")
    target = (bars.mark_bar().encode(color=colour) + labelled).properties(
        width=WIDTH, height=72, title="Target distribution"
    )

    points = pd.DataFrame({"p": np.linspace(0.004, 0.996, 249).round(3)})
    loss = LOSS.replace("(p)", "(datum.p)").replace("1 - p", "1 - datum.p")
    over_p = alt.Chart(points).transform_calculate(smoothed=loss, hard="-log(datum.p)")
    x = alt.X(
        "p:Q",
        scale=alt.Scale(domain=[0, 1]),
        title="predicted probability of the correct token",
        axis=alt.Axis(tickCount=5),
    )
    scale = alt.Scale(domain=[0, 6])
    hard = over_p.mark_line(color=style.PLAIN, strokeDash=[5, 4], clip=True).encode(
        x, alt.Y("hard:Q", scale=scale, title=None)
    )
    tooltip = [alt.Tooltip(field, format=".3f") for field in ("p:Q", "smoothed:Q", "hard:Q")]
    curve = over_p.mark_line(color=style.OUTPUT, strokeWidth=3, clip=True).encode(
        x, alt.Y("smoothed:Q", scale=scale, title=None)
    )
    hover = over_p.mark_rule(opacity=0, strokeWidth=6).encode(x, tooltip=tooltip)
    lowest = alt.Chart(pd.DataFrame({"at": [0]})).transform_calculate(p="q_correct", low="min_loss")
    mark = lowest.mark_point(filled=True, size=90, opacity=1, color=style.QUERY).encode(
        x, alt.Y("low:Q", scale=scale, title=None)
    )
    dashes = lowest.mark_rule(color=style.QUERY, strokeDash=[2, 3]).encode(alt.Y("low:Q", scale=scale, title=None))
    losses = (hard + curve + dashes + hover + mark).properties(
        width=WIDTH, height=170, title="Loss (dashed: hard target)"
    )
    readout = numbers.properties(width=WIDTH, height=60)
    chart = alt.vconcat(alt.vconcat(target, readout), losses, description=description)
    return style.chart_style(chart.add_params(*sliders, *derived), side_by_side=True)
