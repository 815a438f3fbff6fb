"""What a decoder might say next, step by step, as a chart that the reader steps through."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd
import torch
from torch import Tensor

from transformer.plots import style

WIDTH = 230


def next_words(
    probabilities: Tensor, said: Sequence[str], vocabulary: Sequence[str], count: int, description: str
) -> Any:
    """An Altair chart: a slider over the steps, and the most probable next pieces at each as bars.

    Args:
        probabilities: (steps, vocabulary), each row the decoder's distribution at one step.
        said: the piece that was said at each step, as many as steps; its bar stands out.
        vocabulary: the pieces by id.
        count: how many pieces are shown at each step.
        description: the alt text.
    """
    best, ids = probabilities.topk(count, dim=-1)
    rows = [
        {
            "step": step + 1,
            "rank": rank,
            "piece": vocabulary[int(ids[step, rank])],
            "probability": float(best[step, rank]),
            "said": vocabulary[int(ids[step, rank])] == said[step],
            "so far": " ".join(said[:step]) or "nothing",
        }
        for step in range(len(said))
        for rank in range(count)
    ]
    slider = alt.binding_range(min=1, max=len(said), step=1, name="step ")
    step = alt.param("step", value=1, bind=slider)
    shown = alt.Chart(pd.DataFrame(rows)).transform_filter("datum.step == step")
    bars = shown.encode(
        alt.X("probability:Q", scale=alt.Scale(domain=[0, 1]), title="probability", axis=alt.Axis(tickCount=5)),
        alt.Y("piece:N", sort=alt.EncodingSortField("rank"), title=None),
        tooltip=[alt.Tooltip("piece:N"), alt.Tooltip("probability:Q", format=".3f"), alt.Tooltip("so far:N")],
    )
    colour = alt.condition("datum.said", alt.value(style.OUTPUT), alt.value(style.PLAIN))
    numbers = bars.mark_text(align="left", dx=4, fontSize=12).encode(text=alt.Text("probability:Q", format=".2f"))
    read = shown.transform_filter("datum.rank == 0").mark_text(align="left", fontSize=12, limit=WIDTH + 80)
    so_far = read.encode(x=alt.value(0), y=alt.value(8), text="so far:N").properties(
        width=WIDTH, height=16, title="Said so far"
    )
    chart = (bars.mark_bar().encode(color=colour) + numbers).properties(
        width=WIDTH, height=24 * count, title="What might come next"
    )
    return style.chart_style(alt.vconcat(so_far, chart, description=description).add_params(step))


def show_steps(probabilities: Tensor, vocabulary: Sequence[str], count: int = 3) -> str:
    """The most probable pieces of each step, a line a step, to print.

    Args:
        probabilities: (steps, vocabulary).
        vocabulary: the pieces by id.
        count: how many a step.
    """
    best, ids = torch.topk(probabilities, count, dim=-1)
    pairs = [
        [f"{vocabulary[i]:10} {p:.2f}" for p, i in zip(best[step].tolist(), ids[step].tolist(), strict=True)]
        for step in range(len(probabilities))
    ]
    return "\n".join(f"{step:2}  " + "   ".join(line) for step, line in enumerate(pairs, 1))
