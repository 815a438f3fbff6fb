"""A model's parameters by part, as bars that follow sliders for its sizes, in the page and with no server."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from transformer.plots import style

WIDTH = 165


def size_explorer(formulas: Mapping[str, str], models: Mapping[str, Mapping[str, int]], description: str) -> Any:
    """An Altair chart: sliders for a model's sizes, a bar for each part, and other models to compare with.

    Args:
        formulas: part → how many parameters it has, as arithmetic in ``d`` (d_model), ``f`` (d_ff), ``n`` (n_layers),
            ``v`` (vocab_size) and ``t`` (matrices of the vocabulary). A part's name begins with encoder, decoder or
            neither, which colours its bar.
        models: name → its counts by part; two at most.
        description: the alt text.
    """
    sizes = {
        "d": (512, 128, 1024, 64, "d_model "),
        "f": (2048, 256, 4096, 256, "d_ff "),
        "n": (6, 1, 12, 1, "layers on each side "),
        "v": (37_000, 1000, 64_000, 1000, "vocabulary "),
        "t": (1, 1, 3, 1, "vocabulary matrices "),
    }
    sliders = [
        alt.param(name, value=value, bind=alt.binding_range(min=low, max=high, step=step, name=label))
        for name, (value, low, high, step, label) in sizes.items()
    ]
    rows = [
        {"part": part, "model": model, "known": counts.get(part, 0) / 1e6}
        for model, counts in models.items()
        for part in formulas
    ]
    count = " : ".join(f"datum.part == '{part}' ? ({formula})" for part, formula in formulas.items()) + " : 0"
    table = alt.Chart(pd.DataFrame(rows))
    parts = alt.Chart(pd.DataFrame({"part": list(formulas)})).transform_calculate(millions=f"({count}) / 1e6")

    y = alt.Y("part:N", sort=list(formulas), title=None, axis=alt.Axis(labelLimit=170))
    x = alt.X("millions:Q", title="million parameters", axis=alt.Axis(tickCount=4))
    side = alt.Color(
        "side:N",
        scale=alt.Scale(domain=["encoder", "decoder", "both"], range=[style.KEY, style.QUERY, style.OUTPUT]),
        legend=None,
    )
    which = "indexof(datum.part, 'encoder') == 0 ? 'encoder' : indexof(datum.part, 'decoder') == 0 ? 'decoder' : 'both'"
    bars = parts.transform_calculate(side=which).mark_bar(height=16).encode(x, y, side)
    marks = table.mark_point(filled=True, size=55, opacity=1, color="currentColor").encode(
        alt.X("known:Q"),
        y,
        alt.Shape(
            "model:N",
            scale=alt.Scale(domain=list(models), range=["triangle-up", "diamond"]),
            legend=alt.Legend(
                title=None, orient="top", labelColor="currentColor", symbolFillColor="currentColor", labelFontSize=12
            ),
        ),
        tooltip=[alt.Tooltip("model:N"), alt.Tooltip("part:N"), alt.Tooltip("known:Q", title="million", format=".2f")],
    )
    numbers = parts.mark_text(align="right", fontSize=12).encode(
        y, x=alt.value(WIDTH + 42), text=alt.Text("millions:Q", format=".2f")
    )
    total = " + ".join(f"({formula})" for formula in formulas.values())
    known = ", ".join(f"{name} {sum(counts.values()) / 1e6:.1f}" for name, counts in models.items())
    line = (
        alt.Chart(pd.DataFrame({"known": [known]}))
        .transform_calculate(text=f"format(({total}) / 1e6, '.1f') + ' million in all ({known})'")
        .mark_text(align="left", fontSize=13)
        .encode(x=alt.value(-120), y=alt.value(8), text="text:N")
        .properties(width=WIDTH, height=16)
    )
    chart = (bars + marks + numbers).properties(width=WIDTH, height=26 * len(formulas))
    both = alt.vconcat(line, chart, description=description).resolve_scale(shape="independent")
    return style.chart_style(both.add_params(*sliders))
