"""The probabilities of the next token at each step of decoding."""

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import altair as alt
import pandas as pd
from torch import Tensor

from transformer.plots import style

WIDTH = 230
PREFIX_LENGTH = 44
"""Characters in a line of the prefix."""


def next_token_explorer(
    probabilities: Tensor, generated: Sequence[str], vocabulary: Sequence[str], count: int, description: str
) -> Any:
    """Return an Altair bar chart of the most probable next tokens, with a slider over the steps.

    Args:
        probabilities: (steps, vocabulary), the decoder's distribution at each step.
        generated: the token that was generated at each step; its bar is highlighted.
        vocabulary: the tokens by id.
        count: the number of bars.
        description: the alt text.
    """
    best, ids = probabilities.topk(count, dim=-1)
    rows: list[dict[str, Any]] = [
        {
            "step": step + 1,
            "rank": rank,
            "token": vocabulary[int(ids[step, rank])],
            "probability": float(best[step, rank]),
            "generated": vocabulary[int(ids[step, rank])] == generated[step],
            "prefix": wrap(" ".join(["<bos>", *generated[:step]]), PREFIX_LENGTH),
        }
        for step in range(len(generated))
        for rank in range(count)
    ]
    # The size of the chart is computed for the first step, so it needs room for the labels of all steps.
    label_width = 8 * max(len(row["token"]) for row in rows)
    n_lines = max(len(row["prefix"]) for row in rows)
    slider = alt.binding_range(min=1, max=len(generated), step=1, name="step ")
    step = alt.param("step", value=1, bind=slider)
    current = alt.Chart(pd.DataFrame(rows)).transform_filter("datum.step == step")
    bars = current.encode(
        alt.X(
            "probability:Q",
            scale=alt.Scale(domain=[0, 1.2]),  # the number beside a long bar also needs room
            title="probability",
            axis=alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format=".0%"),
        ),
        alt.Y("token:N", sort=alt.EncodingSortField("rank"), title=None, axis=alt.Axis(minExtent=label_width)),
        tooltip=[alt.Tooltip("token:N"), alt.Tooltip("probability:Q", format=".2%")],
    )
    colour = alt.condition("datum.generated", alt.value(style.OUTPUT), alt.value(style.PLAIN))
    numbers = bars.mark_text(align="left", dx=4, fontSize=12).encode(text=alt.Text("probability:Q", format=".2%"))
    first_row = current.transform_filter("datum.rank == 0").mark_text(align="left", fontSize=12, lineHeight=16)
    prefix = first_row.encode(x=alt.value(-label_width), y=alt.value(8), text="prefix:N").properties(
        width=WIDTH, height=16 * n_lines, title="Prefix"
    )
    chart = (bars.mark_bar().encode(color=colour) + numbers).properties(
        width=WIDTH, height=24 * count, title="Next token"
    )
    return style.chart_style(alt.vconcat(prefix, chart, description=description).add_params(step))
