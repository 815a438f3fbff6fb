"""The residual stream: the vectors of a sentence after each stage of a stack of layers."""

from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import pandas as pd
from torch import Tensor

from transformer.plots import style

WIDTH = 220


def residual_stream(
    vectors: Tensor, stages: Sequence[str], words: Sequence[str], description: str, initial: int = 0
) -> Any:
    """Return an Altair chart of the standard deviation and the direction of each vector, with a slider over the stages.

    Args:
        vectors: (stages, words, d_model).
        stages: the operation just applied, for each stage.
        words: the sentence.
        description: the alt text.
        initial: the stage that is shown at first.
    """
    cosine = (vectors * vectors[:1]).sum(-1) / vectors.norm(dim=-1) / vectors[:1].norm(dim=-1)
    deviation = vectors.std(dim=-1, unbiased=False)
    table = pd.DataFrame(
        [
            {
                "stage": stage, "position": position, "word": word,
                "deviation": round(deviation[stage, position].item(), 3),
                "cosine": round(cosine[stage, position].item(), 3),
            }
            for stage in range(len(stages))
            for position, word in enumerate(words)
        ]
    )  # fmt: skip
    slider = alt.binding_range(min=0, max=len(stages) - 1, step=1, name="stage ")
    stage_param = alt.param("stage", value=initial, bind=slider)
    current = alt.Chart(table).transform_filter("datum.stage == stage")
    labels = alt.Axis(labelExpr=f"{list(words)}[datum.value]", title=None, ticks=False, domain=False)
    rows = alt.Y("position:O", axis=labels)

    largest = float(deviation.max()) * 1.05
    ticks = [tick for tick in (0, 1, 2, 5, 10, 20, 50) if tick <= largest]

    def panel(
        column: str, title: str, domain: tuple[float, float], colour: str, scale: Literal["linear", "sqrt"] = "linear"
    ) -> Any:
        x = alt.X(
            f"{column}:Q",
            scale=alt.Scale(domain=domain, type=scale),
            title="square-root scale" if scale == "sqrt" else None,
            axis=alt.Axis(values=ticks) if scale == "sqrt" else alt.Axis(tickCount=5),
        )
        tooltip = [alt.Tooltip("word:N"), alt.Tooltip(f"{column}:Q", format=".2f")]
        bars = current.mark_bar(color=colour, height={"band": 0.6}).encode(x, rows, tooltip=tooltip)
        return bars.properties(width=WIDTH, height=17 * len(words), title=title)

    deviations = panel("deviation", "Standard deviation", (0, largest), style.KEY, "sqrt")
    cosines = panel("cosine", "Cosine with the embedding", (-0.5, 1), style.OUTPUT)
    name = alt.expr(f"stage + ': ' + {list(stages)}[stage]")
    chart = alt.vconcat(
        deviations, cosines, title=alt.Title(name, fontSize=14, fontWeight="normal", offset=10), description=description
    )
    return style.chart_style(chart.add_params(stage_param), side_by_side=True)
