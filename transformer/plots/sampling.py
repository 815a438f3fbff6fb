"""From which words the next one is drawn, as a chart: the reader sets temperature, top-k and top-p."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd
from torch import Tensor

from transformer.plots import style

WIDTH = 190
SHOWN = 12
"""Bars; the chart calculates with the whole vocabulary."""


def sampler(logits: Tensor, beginnings: Sequence[str], vocabulary: Sequence[str], description: str) -> Any:
    """An Altair chart of what `decoding.sample` draws the next word from, by the same rule and in the same order.

    Args:
        logits: (beginnings, vocabulary), the model's scores of the next word.
        beginnings: texts to choose from, none twice.
        vocabulary: the words by id, none twice.
        description: the alt text.
    """
    ordered, ids = logits.detach().cpu().sort(dim=-1, descending=True)
    below = (ordered - ordered[:, :1]).tolist()  # of the best, so that no exponential is too large
    rows = [
        {"beginning": text, "rank": rank, "word": vocabulary[token], "below": round(below[line][rank], 3)}
        for line, text in enumerate(beginnings)
        for rank, token in enumerate(ids[line].tolist())
    ]
    choices = [k for k in (1, 2, 3, 5, 10, 20, 50) if k < len(vocabulary)]
    after = alt.param(
        "beginning", value=beginnings[0], bind=alt.binding_select(options=list(beginnings), name="after ")
    )
    heat = alt.param("temperature", value=1, bind=alt.binding_range(min=0.1, max=2, step=0.1, name="temperature "))
    best = alt.param("top_k", value=0, bind=alt.binding_select(
        options=[0, *choices], labels=["all", *map(str, choices)], name="top k "))  # fmt: skip
    nucleus = alt.param("top_p", value=1, bind=alt.binding_range(min=0.05, max=1, step=0.05, name="top p "))

    drawn = (
        alt.Chart(pd.DataFrame(rows))
        .transform_filter("datum.beginning == beginning")
        .transform_calculate(mass="top_k == 0 || datum.rank < top_k ? exp(datum.below / temperature) : 0")
        .transform_joinaggregate(total="sum(mass)")
        .transform_window(so_far="sum(mass)", sort=[alt.SortField("rank")], frame=[None, 0])
        .transform_calculate(before="(datum.so_far - datum.mass) / datum.total")
        .transform_calculate(alive="datum.mass > 0 && (top_p == 1 || datum.before < top_p)")
        # New names, never "mass" again: a slider recalculates only what comes behind it, from what it finds.
        .transform_calculate(left="datum.alive ? datum.mass : 0", one="datum.alive ? 1 : 0")
        .transform_joinaggregate(all_left="sum(left)", words="sum(one)")
        .transform_calculate(probability="datum.left / datum.all_left")
        .transform_calculate(sign="datum.alive ? format(datum.probability, '.2f') : '×'")
        .transform_filter(f"datum.rank < {SHOWN}")
    )
    bars = drawn.encode(
        alt.X("probability:Q", scale=alt.Scale(domain=[0, 1]), title="probability", axis=alt.Axis(tickCount=5)),
        alt.Y("word:N", sort=alt.EncodingSortField("rank"), title=None),
        tooltip=[alt.Tooltip("word:N"), alt.Tooltip("probability:Q", format=".3f")],
    )
    # One layer for numbers and crosses: two, with other rows each, could not be sorted alike.
    signs = bars.mark_text(align="left", dx=4, fontSize=12).encode(
        text="sign:N", color=alt.condition("datum.alive", alt.value("currentColor"), alt.value(style.PLAIN))
    )
    chart = (bars.mark_bar(color=style.OUTPUT) + signs).properties(width=WIDTH, height=22 * SHOWN)
    reading = (
        drawn.transform_filter("datum.rank == 0")
        .transform_calculate(
            sentence="'drawn from ' + datum.words + (datum.words == 1 ? ' word' : ' words')"
            " + ', the first ' + format(datum.probability, '.0%')"
        )
        .mark_text(align="left", fontSize=13)
        .encode(x=alt.value(0), y=alt.value(8), text="sentence:N")
        .properties(width=WIDTH, height=18)
    )
    both = alt.vconcat(reading, chart, description=description)
    return style.chart_style(both.add_params(after, heat, best, nucleus))
