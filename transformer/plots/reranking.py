"""How the length penalty (§6.1) reranks the finished hypotheses of a beam search."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from transformer.plots import style

WIDTH = 290


def reranking(
    texts: Sequence[str], log_probabilities: Sequence[float], lengths: Sequence[int], description: str
) -> Any:
    """Return an Altair bar chart of the scores of hypotheses, the best first, with a slider for the length penalty α.

    Args:
        texts: the hypotheses.
        log_probabilities: the log-probability of each hypothesis, including eos.
        lengths: the number of tokens of each hypothesis, including eos.
        description: the alt text.
    """
    table = pd.DataFrame({"text": texts, "log P": log_probabilities, "length": lengths})
    alpha = alt.param("alpha", value=0, bind=alt.binding_range(min=0, max=2, step=0.1, name="length penalty α "))
    scored = (
        alt.Chart(table)
        .transform_calculate(score="datum['log P'] / pow((5 + datum.length) / 6, alpha)", zero="0")
        .transform_window(rank="rank()", sort=[alt.SortField("score", order="descending")])
    )
    rank = alt.Y("rank:O", axis=None)
    tooltip = ["text", "length", alt.Tooltip("log P:Q", format=".2f"), alt.Tooltip("score:Q", format=".3f")]
    score = alt.X("score:Q", title="score", scale=alt.Scale(domainMax=0))
    colour = alt.condition("datum.rank == 1", alt.value(style.VALUE), alt.value(style.PLAIN))
    bars = scored.mark_bar(height=5, yOffset=9).encode(score, rank, color=colour, tooltip=tooltip)
    labels = scored.mark_text(align="right", fontSize=11, dy=-5, limit=WIDTH).encode(
        rank, x=alt.value(WIDTH), text="text:N", tooltip=tooltip
    )
    chart = (bars + labels).properties(width=WIDTH, height=32 * len(texts))
    return style.chart_style(chart.properties(description=description).add_params(alpha))
