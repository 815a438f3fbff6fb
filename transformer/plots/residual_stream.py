"""The residual stream: the vectors of a sentence after each stage of a stack of layers."""

from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import pandas as pd
from torch import Tensor

from transformer.plots import style

WIDTH = 220


def residual_stream(vectors: Tensor, stages: Sequence[str], words: Sequence[str], description: str) -> Any:
    """Return an Altair chart of the mean, deviation and direction of each vector, with a slider over the stages.

    Args:
        vectors: (stages, words, d_model).
        stages: the operation just applied, for each stage.
        words: the sentence.
        description: the alt text.
    """
    cosine = (vectors * vectors[:1]).sum(-1) / vectors.norm(dim=-1) / vectors[:1].norm(dim=-1)
    deviation, mean = vectors.std(dim=-1, unbiased=False), vectors.mean(dim=-1)
    table = pd.DataFrame(
        [
            {
                "stage": stage, "name": f"{stage}: {name}", "position": position, "word": word,
                "mean": round(mean[stage, position].item(), 3),
                "deviation": round(deviation[stage, position].item(), 3),
                "cosine": round(cosine[stage, position].item(), 3),
            }
            for stage, name in enumerate(stages)
            for position, word in enumerate(words)
        ]
    )  # fmt: skip
    slider = alt.binding_range(min=0, max=len(stages) - 1, step=1, name="stage ")
    stage_param = alt.param("stage", value=0, bind=slider)
    current = alt.Chart(table).transform_filter("datum.stage == stage")
    labels = alt.Axis(labelExpr=f"{list(words)}[datum.value]", title=None, ticks=False, domain=False)
    rows = alt.Y("position:O", axis=labels)

    def panel(
        column: str, title: str, domain: tuple[float, float], colour: str, scale: Literal["linear", "sqrt"] = "linear"
    ) -> Any:
        x = alt.X(
            f"{column}:Q",
            scale=alt.Scale(domain=domain, type=scale),
            title=None,
            axis=alt.Axis(tickCount=5),
        )
        tooltip = [alt.Tooltip("word:N"), alt.Tooltip(f"{column}:Q", format=".2f")]
        bars = current.mark_bar(color=colour, height={"band": 0.6}).encode(x, rows, tooltip=tooltip)
        return bars.properties(width=WIDTH, height=17 * len(words), title=title)

    name = (
        current.transform_filter("datum.position == 0")
        .mark_text(align="left", fontSize=14)
        .encode(x=alt.value(0), text="name:N")
        .properties(width=WIDTH, height=18)
    )
    largest = float(deviation.max()) * 1.05
    low, high = min(-0.3, float(mean.min())), max(0.3, float(mean.max()))
    means = panel("mean", "Mean", (low, high), style.QUERY)
    deviations = panel("deviation", "Standard deviation", (0, largest), style.KEY, "sqrt")
    cosines = panel("cosine", "Cosine with the initial vector", (-0.5, 1), style.OUTPUT)
    return style.chart_style(
        alt.vconcat(alt.vconcat(name, means), alt.vconcat(deviations, cosines), description=description).add_params(
            stage_param
        ),
        side_by_side=True,
    )
