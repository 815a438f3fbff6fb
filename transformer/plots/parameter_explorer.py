"""The number of parameters in each part of a model, depending on its sizes."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from transformer.plots import style

WIDTH = 159

ATTENTION, FEED_FORWARD = "n * 4 * (d * d + d)", "n * (2 * d * f + f + d)"
FORMULAS = {
    "embeddings": "t * v * d",
    "encoder self-attention": ATTENTION,
    "encoder feed-forward": FEED_FORWARD,
    "encoder layer norms": "n * 2 * 2 * d",
    "decoder self-attention": ATTENTION,
    "decoder cross-attention": ATTENTION,
    "decoder feed-forward": FEED_FORWARD,
    "decoder layer norms": "n * 3 * 2 * d",
}
"""Part → its number of parameters, as an expression for the chart: d is d_model, f is d_ff, n is n_layers, v is
vocab_size, and t is the number of vocabulary matrices."""


def parameter_explorer(models: Mapping[str, Mapping[str, int]], description: str) -> Any:
    """Return an Altair bar chart of the parameters by part, with sliders for the sizes of the model.

    Args:
        models: name → parameters by part of models to compare with; at most two.
        description: the alt text.
    """
    sizes = {
        "d": (512, 128, 1024, 64, "d_model "),
        "f": (2048, 256, 4096, 256, "d_ff "),
        "n": (6, 1, 12, 1, "n_layers "),
        "v": (37_000, 1000, 64_000, 1000, "vocabulary size "),
        "t": (1, 1, 3, 1, "vocabulary matrices "),
    }
    sliders = [
        alt.param(name, value=value, bind=alt.binding_range(min=low, max=high, step=step, name=label))
        for name, (value, low, high, step, label) in sizes.items()
    ]
    rows = [
        {"part": part, "model": model, "count": counts.get(part, 0) / 1e6}
        for model, counts in models.items()
        for part in FORMULAS
    ]
    count = " : ".join(f"datum.part == '{part}' ? ({formula})" for part, formula in FORMULAS.items()) + " : 0"
    table = alt.Chart(pd.DataFrame(rows))
    parts = alt.Chart(pd.DataFrame({"part": list(FORMULAS)})).transform_calculate(millions=f"({count}) / 1e6")

    y = alt.Y("part:N", sort=list(FORMULAS), title=None, axis=alt.Axis(labelLimit=170))
    x = alt.X("millions:Q", title="parameters (millions)", axis=alt.Axis(tickCount=4))
    side = alt.Color(
        "side:N",
        scale=alt.Scale(domain=["encoder", "decoder", "both"], range=[style.KEY, style.QUERY, style.PLAIN]),
        legend=None,
    )
    side_of_part = (
        "indexof(datum.part, 'encoder') == 0 ? 'encoder' : indexof(datum.part, 'decoder') == 0 ? 'decoder' : 'both'"
    )
    bars = parts.transform_calculate(side=side_of_part).mark_bar(height=16).encode(x, y, side)
    marks = table.mark_point(filled=True, size=55, opacity=1, color="currentColor").encode(
        alt.X("count:Q"),
        y,
        alt.Shape(
            "model:N",
            scale=alt.Scale(domain=list(models), range=["triangle-up", "diamond"]),
            legend=alt.Legend(
                title=None, orient="top", labelColor="currentColor", symbolFillColor="currentColor", labelFontSize=12
            ),
        ),
        tooltip=[
            alt.Tooltip("model:N"),
            alt.Tooltip("part:N"),
            alt.Tooltip("count:Q", title="million parameters", format=".2f"),
        ],
    )
    numbers = parts.mark_text(align="right", fontSize=12).encode(
        y, x=alt.value(WIDTH + 42), text=alt.Text("millions:Q", format=".2f")
    )
    total = " + ".join(f"({formula})" for formula in FORMULAS.values())
    totals = ", ".join(f"{name} {sum(counts.values()) / 1e6:.1f}" for name, counts in models.items())
    line = (
        alt.Chart(pd.DataFrame({"totals": [totals]}))
        .transform_calculate(text=f"format(({total}) / 1e6, '.1f') + ' million in total ({totals})'")
        .mark_text(align="left", fontSize=13)
        .encode(x=alt.value(-120), y=alt.value(8), text="text:N")
        .properties(width=WIDTH, height=16)
    )
    panel = (bars + marks + numbers).properties(width=WIDTH, height=26 * len(FORMULAS))
    chart = alt.vconcat(line, panel, description=description).resolve_scale(shape="independent")
    return style.chart_style(chart.add_params(*sliders))
