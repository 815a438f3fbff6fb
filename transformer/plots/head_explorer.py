"""The attention weights of one layer, head by head."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from torch import Tensor

from transformer.plots import style


def head_explorer(weights: Tensor, queries: Sequence[str], keys: Sequence[str], description: str) -> Any:
    """Return an Altair heat map of the attention weights of a layer, with a slider that selects the head.

    Position 0 of the slider shows the mean of all heads. The reader hovers over a cell to read its weight.

    Args:
        weights: (heads, n_query, n_key).
        queries: labels of the rows.
        keys: labels of the columns.
        description: the alt text.
    """
    weights = weights.detach().cpu()
    maps = np.concatenate([weights.mean(dim=0, keepdim=True).numpy(), weights.numpy()])
    slider = alt.binding_range(min=0, max=len(weights), step=1, name="head (0: mean of all heads) ")
    head = alt.param("head", value=1, bind=slider)
    first = [{"q": 0, "k": len(keys) - 1}]
    cell = alt.selection_point("cell", fields=["q", "k"], on="pointerover", clear=False, toggle=False, value=first)
    index, row, column = np.indices(maps.shape).reshape(3, -1)
    table = pd.DataFrame({"head": index, "q": row, "k": column, "weight": maps.flatten().round(4)})
    query, key = f"{list(queries)}[datum.q]", f"{list(keys)}[datum.k]"
    name = "(datum.head ? 'head ' + datum.head : 'mean')"
    selected = (
        alt.Chart(table)
        .transform_filter("datum.head == head")
        .transform_calculate(
            sentence=f"{name} + ': ' + {query} + ' attends to ' + {key} + ' with weight ' + format(datum.weight, '.2f')"
        )
    )

    def axis(words: Sequence[str], **more: Any) -> Any:
        return alt.Axis(labelExpr=f"{list(words)}[datum.value]", title=None, ticks=False, domain=False, **more)

    cells = selected.encode(
        alt.X("k:O", axis=axis(keys, orient="top", labelAngle=0), scale=alt.Scale(padding=0.04)),
        alt.Y("q:O", axis=axis(queries), scale=alt.Scale(padding=0.04)),
    )
    squares = cells.mark_rect(stroke="currentColor").encode(
        alt.Color("weight:Q", scale=alt.Scale(scheme=style.WEIGHTS, domain=[0, 1]), legend=None),
        strokeWidth=alt.condition(cell, alt.value(3), alt.value(0.5)),
        tooltip="sentence:N",
    )
    numbers = (
        cells.transform_filter("datum.weight >= 0.005")
        .mark_text(fontSize=11)
        .encode(
            text=alt.Text("weight:Q", format=".2f"),
            color=alt.condition("datum.weight > 0.6", alt.value("black"), alt.value("white")),
        )
    )
    side = min(42, 290 // max(len(queries), len(keys)))
    width = side * len(keys)
    grid = (squares.add_params(cell) + numbers).properties(width=width, height=side * len(queries))
    reading = (
        selected.transform_filter(cell)
        .mark_text(align="left", fontSize=13, x=0)
        .encode(text="sentence:N")
        .properties(width=width, height=20)
    )
    return style.chart_style(alt.vconcat(grid, reading, description=description).add_params(head))
