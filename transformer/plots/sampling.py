"""The distribution that the next token is sampled from, by temperature, top-k and top-p (nucleus sampling)."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import altair as alt
import pandas as pd
from torch import Tensor

from transformer.plots import style

WIDTH = 190
N_BARS = 12
"""The number of bars; the chart computes with the whole vocabulary."""
N_SINGLE = 200
"""The number of most probable tokens that have a row each."""
STEP = 0.1
"""The others are grouped by their logits, rounded to multiples of this, which keeps a page with the chart small."""


def sampling_explorer(logits: Tensor, prefixes: Sequence[str], vocabulary: Sequence[str], description: str) -> Any:
    """Return an Altair chart of the distribution that `decoding.sample` draws from, computed with the same rules.

    Args:
        logits: (prefixes, vocabulary), the scores of the next token.
        prefixes: the texts to choose from, all different.
        vocabulary: the tokens by id, all different.
        description: the alt text.
    """
    ordered, ids = logits.detach().cpu().sort(dim=-1, descending=True)
    relative = (ordered - ordered[:, :1]).tolist()  # to the largest logit, so that no exponential overflows
    rows: list[dict[str, Any]] = []
    for prefix, values, tokens in zip(prefixes, relative, ids.tolist(), strict=True):
        for rank, (logit, token) in enumerate(zip(values[:N_SINGLE], tokens, strict=False)):
            rows.append({"prefix": prefix, "rank": rank, "token": vocabulary[token], "logit": round(logit, 3), "n": 1})
        rank = N_SINGLE
        for steps, group in groupby(values[N_SINGLE:], key=lambda logit: round(logit / STEP)):
            n = len(list(group))
            rows.append({"prefix": prefix, "rank": rank, "token": "", "logit": round(steps * STEP, 3), "n": n})
            rank += n
    # The size of the chart is computed for the first prefix, so it needs room for the labels of all prefixes.
    label_width = 8 * max(len(row["token"]) for row in rows if row["rank"] < N_BARS)
    top_k_options = [k for k in (1, 2, 3, 5, 10, 20, 50) if k < len(vocabulary)]
    prefix_menu = alt.param(
        "prefix", value=prefixes[0], bind=alt.binding_select(options=list(prefixes), name="prefix ")
    )
    temperature = alt.param(
        "temperature", value=1, bind=alt.binding_range(min=0.1, max=2, step=0.1, name="temperature ")
    )
    top_k = alt.param("top_k", value=0, bind=alt.binding_select(
        options=[0, *top_k_options], labels=["all", *map(str, top_k_options)], name="top-k "))  # fmt: skip
    top_p = alt.param("top_p", value=1, bind=alt.binding_range(min=0.05, max=1, step=0.05, name="top-p "))

    distribution = (
        alt.Chart(pd.DataFrame(rows))
        .transform_filter("datum.prefix == prefix")
        .transform_calculate(mass="top_k == 0 || datum.rank < top_k ? datum.n * exp(datum.logit / temperature) : 0")
        .transform_joinaggregate(total="sum(mass)")
        .transform_window(cumulative="sum(mass)", sort=[alt.SortField("rank")], frame=[None, 0])
        .transform_calculate(before="(datum.cumulative - datum.mass) / datum.total")
        .transform_calculate(kept="datum.mass > 0 && (top_p == 1 || datum.before < top_p)")
        # New column names: a slider reruns only the transforms that depend on it, so none may overwrite its input.
        .transform_calculate(kept_mass="datum.kept ? datum.mass : 0", n_kept="datum.kept ? datum.n : 0")
        .transform_joinaggregate(kept_total="sum(kept_mass)", n_tokens="sum(n_kept)")
        .transform_calculate(probability="datum.kept_mass / datum.kept_total")
        .transform_calculate(number="datum.probability < 0.005 ? '< 0.01' : format(datum.probability, '.2f')")
        .transform_calculate(label="datum.kept ? datum.number : '×'")
        .transform_filter(f"datum.rank < {N_BARS}")
    )
    without_marker = "replace(datum.label, '▁', '')"  # of the start of a word; the tokens themselves must be different
    bars = distribution.encode(
        alt.X(
            "probability:Q",
            scale=alt.Scale(domain=[0, 1.2]),  # the number beside a long bar also needs room
            title="probability",
            axis=alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1]),
        ),
        alt.Y(
            "token:N",
            sort=alt.EncodingSortField("rank"),
            title=None,
            axis=alt.Axis(labelExpr=without_marker, minExtent=label_width),
        ),
        tooltip=[alt.Tooltip("token:N"), alt.Tooltip("probability:Q", format=".3f")],
    )
    # One layer for numbers and crosses: two layers with different rows could not be sorted in the same way.
    labels = bars.mark_text(align="left", dx=4, fontSize=12).encode(
        text="label:N", color=alt.condition("datum.kept", alt.value("currentColor"), alt.value(style.PLAIN))
    )
    panel = (bars.mark_bar(color=style.OUTPUT) + labels).properties(width=WIDTH, height=22 * N_BARS)
    reading = (
        distribution.transform_filter("datum.rank == 0")
        .transform_calculate(
            sentence="'sampled from ' + format(datum.n_tokens, ',') + (datum.n_tokens == 1 ? ' token' : ' tokens')"
            " + ' (top: ' + format(datum.probability, '.0%') + ')'"
        )
        .mark_text(align="left", fontSize=13)
        .encode(x=alt.value(-label_width), y=alt.value(8), text="sentence:N")
        .properties(width=WIDTH, height=18)
    )
    chart = alt.vconcat(reading, panel, description=description)
    return style.chart_style(chart.add_params(prefix_menu, temperature, top_k, top_p))
