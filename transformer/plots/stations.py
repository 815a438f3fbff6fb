"""The vectors of a sentence on their way through layers: a slider goes from part to part."""

from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import pandas as pd
from torch import Tensor

from transformer.plots import style

WIDTH = 220


def step_through(vectors: Tensor, stations: Sequence[str], words: Sequence[str], description: str) -> Any:
    """An Altair chart: at each station every word's mean, spread and direction, with a slider over the stations.

    Args:
        vectors: (stations, words, d_model).
        stations: what has just happened, as many as stations.
        words: the sentence.
        description: the alt text.
    """
    likeness = (vectors * vectors[:1]).sum(-1) / vectors.norm(dim=-1) / vectors[:1].norm(dim=-1)
    spread, mean = vectors.std(dim=-1, unbiased=False), vectors.mean(dim=-1)
    table = pd.DataFrame(
        [
            {
                "station": at, "name": f"{at}: {name}", "place": place, "word": word,
                "mean": round(mean[at, place].item(), 3), "spread": round(spread[at, place].item(), 3),
                "direction": round(likeness[at, place].item(), 3),
            }
            for at, name in enumerate(stations)
            for place, word in enumerate(words)
        ]
    )  # fmt: skip
    slider = alt.binding_range(min=0, max=len(stations) - 1, step=1, name="station ")
    station = alt.param("station", value=0, bind=slider)
    shown = alt.Chart(table).transform_filter("datum.station == station")
    labels = alt.Axis(labelExpr=f"{list(words)}[datum.value]", title=None, ticks=False, domain=False)
    rows = alt.Y("place:O", axis=labels)

    def panel(
        what: str, title: str, domain: tuple[float, float], colour: str, scale: Literal["linear", "sqrt"] = "linear"
    ) -> Any:
        x = alt.X(
            f"{what}:Q",
            scale=alt.Scale(domain=domain, type=scale),
            title=None,
            axis=alt.Axis(tickCount=5, labelOverlap=True),
        )
        tooltip = [alt.Tooltip("word:N"), alt.Tooltip(f"{what}:Q", format=".2f")]
        bars = shown.mark_bar(color=colour, height={"band": 0.6}).encode(x, rows, tooltip=tooltip)
        return bars.properties(width=WIDTH, height=17 * len(words), title=title)

    name = (
        shown.transform_filter("datum.place == 0")
        .mark_text(align="left", fontSize=14)
        .encode(x=alt.value(0), text="name:N")
        .properties(width=WIDTH, height=18)
    )
    most = float(spread.max()) * 1.05
    low, high = min(-0.3, float(mean.min())), max(0.3, float(mean.max()))
    means = panel("mean", "Mean", (low, high), style.QUERY)
    spreads = panel("spread", "Spread (standard deviation)", (0, most), style.KEY, "sqrt")
    directions = panel("direction", "Direction: cosine with its start", (-0.5, 1), style.OUTPUT)
    return style.chart_style(alt.vconcat(name, means, spreads, directions, description=description).add_params(station))
