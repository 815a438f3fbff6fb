"""Label smoothing: the target and its loss in the reader's hand, and how far a model's confidence is to be trusted."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from transformer.plots import style

WIDTH = 230
FORMULAS = {
    "V": "pow(2, power)",
    "share": "epsilon / V",
    "right": "1 - epsilon + share",
    "gap": "log(right) - log(max(share, 1e-300))",
    "floor": "-right * log(right) - (1 - right) * log(max(share, 1e-300))",
}
"""What follows from the two sliders, each from those before it, for the chart's language and for Python's."""
LOSS = "-right * log(p) - (1 - right) * log((1 - p) / (V - 1))"
"""The loss where the right word has probability p and the others share the rest equally."""


def explorer(description: str) -> Any:
    """An Altair chart: sliders for the smoothing and the vocabulary; the target, and the loss over p of the right word.

    Args:
        description: the alt text.
    """
    smoothing = alt.binding_range(min=0, max=0.4, step=0.01, name="smoothing ε ")
    words = alt.binding_range(min=1, max=16, step=1, name="vocabulary 2^ ")
    sliders = alt.param("epsilon", value=0.1, bind=smoothing), alt.param("power", value=10, bind=words)
    derived = [alt.param(name, expr=formula) for name, formula in FORMULAS.items()]

    lines = {
        "vocabulary": "format(V, ',') + ' words'",
        "best gap": "epsilon > 0 ? format(gap, '.2f') + ' between the logits' : 'infinite'",
        "floor": "format(floor, '.3f') + ' nats: perplexity ' + format(exp(floor), '.2f')",
    }
    text = alt.Chart(pd.DataFrame({"line": list(lines)}))
    for name, line in lines.items():
        text = text.transform_calculate(**{name: line})
    text = text.transform_calculate(says=" : ".join(f"datum.line == '{n}' ? datum['{n}']" for n in lines) + " : ''")
    row = alt.Y("line:N", sort=list(lines), title=None, axis=alt.Axis(ticks=False, domain=False))
    numbers = text.mark_text(align="left", fontSize=12).encode(row, x=alt.value(4), text="says:N")

    heights = {"right word": "right", "each other": "share", "all others": "1 - right"}
    bar = alt.Chart(pd.DataFrame({"who": list(heights)})).transform_calculate(
        height=" : ".join(f"datum.who == '{who}' ? {height}" for who, height in heights.items()) + " : 0"
    )
    bars = bar.encode(
        alt.X("height:Q", scale=alt.Scale(domain=[0, 1]), title=None, axis=alt.Axis(tickCount=5)),
        alt.Y("who:N", sort=list(heights), title=None),
    )
    colour = alt.condition("datum.who == 'right word'", alt.value(style.OUTPUT), alt.value(style.PLAIN))
    labels = bars.transform_calculate(label="format(datum.height, '.3~g')")
    labelled = labels.mark_text(align="left", dx=4, fontSize=12).encode(text="label:N")
    target = (bars.mark_bar().encode(color=colour) + labelled).properties(width=WIDTH, height=72, title="The target")

    steps = pd.DataFrame({"p": np.linspace(0.004, 0.996, 249).round(3)})
    loss = LOSS.replace("(p)", "(datum.p)").replace("1 - p", "1 - datum.p")
    over_p = alt.Chart(steps).transform_calculate(smoothed=loss, hard="-log(datum.p)")
    x = alt.X("p:Q", scale=alt.Scale(domain=[0, 1]), title="probability of the right word", axis=alt.Axis(tickCount=5))
    scale = alt.Scale(domain=[0, 6])
    plain = over_p.mark_line(color=style.PLAIN, strokeDash=[5, 4], clip=True).encode(
        x, alt.Y("hard:Q", scale=scale, title=None)
    )
    tooltip = [alt.Tooltip(field, format=".3f") for field in ("p:Q", "smoothed:Q", "hard:Q")]
    curve = over_p.mark_line(color=style.OUTPUT, strokeWidth=3, clip=True).encode(
        x, alt.Y("smoothed:Q", scale=scale, title=None)
    )
    touch = over_p.mark_rule(opacity=0, strokeWidth=6).encode(x, tooltip=tooltip)
    lowest = alt.Chart(pd.DataFrame({"at": [0]})).transform_calculate(p="right", low="floor")
    mark = lowest.mark_point(filled=True, size=90, opacity=1, color=style.QUERY).encode(
        x, alt.Y("low:Q", scale=scale, title=None)
    )
    level = lowest.mark_rule(color=style.QUERY, strokeDash=[2, 3]).encode(alt.Y("low:Q", scale=scale, title=None))
    both = (plain + curve + level + touch + mark).properties(
        width=WIDTH, height=170, title="Loss, smoothed and (dashed) hard"
    )
    read = numbers.properties(width=WIDTH, height=60)
    chart = alt.vconcat(target, both, read, description=description)
    return style.chart_style(chart.add_params(*sliders, *derived))


def reliability(share: Sequence[float], confidence: Sequence[float], right: Sequence[float], title: str) -> Figure:
    """A reliability diagram, and below it how often the model is how confident.

    Args:
        share: for each bin of confidence, from 0 to 1 and equally wide, the share of the answers that are in it.
        confidence: their mean confidence.
        right: the share of them that is right.
        title: stands above.
    """
    n = len(share)
    with style.in_style():
        figure = Figure(figsize=(3.3, 3.9), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2.4, 1])
        above.plot([0, 1], [0, 1], color=style.INK, linewidth=1, linestyle=":")
        for part, sure, hit in zip(share, confidence, right, strict=True):
            if part:
                above.plot([sure, sure], [sure, hit], color=style.WRONG, linewidth=2)
        filled = [i for i in range(n) if share[i]]
        above.plot(
            [confidence[i] for i in filled],
            [right[i] for i in filled],
            "o",
            color=style.QUERY,
            markersize=6,
            clip_on=False,
        )
        above.set_xlim(0, 1)
        above.set_ylim(0, 1)
        above.grid(True)
        above.set_ylabel("right")
        above.set_title(title, loc="left")
        below.bar([(i + 0.5) / n for i in range(n)], share, width=0.9 / n, color=style.PLAIN)
        below.set_ylabel("share")
        below.set_xlabel("confidence")
    return figure
