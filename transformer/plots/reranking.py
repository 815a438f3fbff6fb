"""Finished translations under a length penalty that the reader sets: who is on top, and from which alpha on."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from transformer.plots import style

WIDTH = 290


def rerank(texts: Sequence[str], log_probabilities: Sequence[float], lengths: Sequence[int], description: str) -> Any:
    """An Altair chart: a slider for alpha, and the hypotheses as bars of their score, the best on top.

    Args:
        texts: the hypotheses.
        log_probabilities: of each, eos included.
        lengths: tokens of each, eos included.
        description: the alt text.
    """
    table = pd.DataFrame({"text": texts, "log P": log_probabilities, "length": lengths})
    alpha = alt.param("alpha", value=0, bind=alt.binding_range(min=0, max=2, step=0.1, name="α "))
    scored = (
        alt.Chart(table)
        .transform_calculate(score="datum['log P'] / pow((5 + datum.length) / 6, alpha)", zero="0")
        .transform_window(rank="rank()", sort=[alt.SortField("score", order="descending")])
    )
    place = alt.Y("rank:O", axis=None)
    tooltip = ["text", "length", alt.Tooltip("log P:Q", format=".2f"), alt.Tooltip("score:Q", format=".3f")]
    score = alt.X("score:Q", title="score", scale=alt.Scale(domainMax=0))
    winner = alt.condition("datum.rank == 1", alt.value(style.VALUE), alt.value(style.PLAIN))
    bars = scored.mark_bar(height=5, yOffset=9).encode(score, place, color=winner, tooltip=tooltip)
    names = scored.mark_text(align="right", fontSize=11, dy=-5, limit=WIDTH).encode(
        place, x=alt.value(WIDTH), text="text:N", tooltip=tooltip
    )
    chart = (bars + names).properties(width=WIDTH, height=32 * len(texts))
    return style.chart_style(chart.properties(description=description).add_params(alpha))
