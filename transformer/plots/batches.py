"""Batches seen from above: which cells of the rectangle are tokens, and which are padding."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from transformer.data.batching import Batch, Indices
from transformer.data.tokenizer import PAD
from transformer.plots import style

BATCHES, ROWS = 6, 9
"""So many batches are drawn in the chart, and at most so many sentences of each."""


def sides(batch: Batch, title: str) -> Figure:
    """Both sides of a batch as grids: a filled cell is a token, an empty one padding. A row is a sentence pair."""
    with style.in_style():
        figure = Figure(figsize=(2.2, 2.6), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        parts = ((batch.source, style.KEY, "source"), (batch.labels, style.QUERY, "target"))
        for axes, (ids, colour, name) in zip(panels, parts, strict=True):
            real = (ids != PAD).numpy()
            axes.pcolormesh(np.ma.array(real, mask=~real), cmap=ListedColormap([colour]), edgecolors="none")
            axes.set_xlim(0, real.shape[1])
            axes.set_ylim(len(real), 0)
            axes.set_xlabel(f"{name}:\n{1 - real.mean():.0%} padding", fontsize=9.5)
            axes.set_xticks([])
            axes.set_yticks([])
            for spine in axes.spines.values():
                spine.set_visible(True)
        panels[0].set_ylabel(f"{len(batch.source)} pairs")
        figure.suptitle(title, fontsize=11)
    return figure


def pooled(lengths: Indices, pool: int) -> Indices:
    """Indices of all sentences: each ``pool`` of neighbours sorted by length, (sentences,)."""
    return np.lexsort((lengths, np.arange(len(lengths)) // pool))


def cut(order: Indices, lengths: Indices, budget: int) -> list[Indices]:
    """Batches of sentences that follow each other, each with at most ``budget`` tokens; one too long stands alone."""
    batches, start, tokens = [], 0, 0
    for place, sentence in enumerate(order):
        if place > start and tokens + lengths[sentence] > budget:
            batches.append(order[start:place])
            start, tokens = place, 0
        tokens += lengths[sentence]
    return [*batches, order[start:]]


def explorer(
    lengths: Indices, budgets: Sequence[int], pools: Sequence[int], description: str, start: tuple[int, int]
) -> Any:
    """An Altair chart: a slider for the token budget, a menu for how many sentences are sorted together.

    Args:
        lengths: tokens of each sentence, in the order in which they come.
        budgets: tokens of a batch; all steps between them are equal.
        pools: neighbours that are sorted before batches are cut; 1: none.
        description: the alt text.
        start: the budget and the pool that are shown first.
    """
    rows: list[dict[str, Any]] = []
    dots: list[dict[str, Any]] = []
    heads: list[dict[str, Any]] = []
    for budget in budgets:
        for pool in pools:
            setting = {"b": budget, "p": pool}
            batches = cut(pooled(lengths, pool), lengths, budget)
            np.random.default_rng(0).shuffle(batches)
            widest = [int(lengths[batch].max()) for batch in batches]
            sizes = [len(batch) for batch in batches]
            waste = 1 - lengths.sum() / np.dot(widest, sizes)
            texts = (
                "as they come" if pool == 1 else f"each {pool:,} sorted by length",
                f"{waste:.0%} padding",
                f"{len(batches)} batches of {min(sizes)} to {max(sizes)} sentences",
            )
            heads += [{**setting, "line": line, "text": text} for line, text in enumerate(texts)]
            dots += [{**setting, "w": w, "n": n} for w, n in sorted(set(zip(widest, sizes, strict=True)))]
            for block, (batch, width) in enumerate(zip(batches[:BATCHES], widest, strict=False)):
                drawn = batch[np.linspace(0, len(batch) - 1, min(len(batch), ROWS)).astype(int)]
                y = block * (ROWS + 1.5)
                rows += [{**setting, "y": y + i, "n": int(lengths[s]), "w": width} for i, s in enumerate(drawn)]
    slider = alt.binding_range(min=min(budgets), max=max(budgets), step=budgets[1] - budgets[0], name="token budget ")
    menu = alt.binding_select(options=list(pools), name="sorted together ")
    params = alt.param("budget", value=start[0], bind=slider), alt.param("pool", value=start[1], bind=menu)
    chosen = "datum.b == budget && datum.p == pool"
    width = 300
    head = (
        alt.Chart(pd.DataFrame(heads))
        .transform_filter(chosen)
        .mark_text(align="left", fontSize=13, x=0)
        .encode(alt.Y("line:O", axis=None), text="text:N")
        .properties(width=width, height=56)
    )
    longest = int(lengths.max())
    across = alt.Scale(domain=[0, longest], nice=False)
    down = alt.Scale(domain=[0, BATCHES * (ROWS + 1.5)], reverse=True, nice=False)
    shown = alt.Chart(pd.DataFrame(rows)).transform_filter(chosen).transform_calculate(y2="datum.y + 0.85", zero="0")
    top, y2 = alt.Y("y:Q", scale=down, axis=None), alt.Y2("y2:Q")
    tokens = shown.mark_rect(color=style.QUERY).encode(
        alt.X("zero:Q", scale=across, title="tokens of a sentence (blue), padding (grey)", axis=alt.Axis(tickCount=6)),
        top,
        x2="n:Q",
        y2=y2,
    )
    padding = (
        shown.transform_filter("datum.w > datum.n")
        .mark_rect(color=style.PLAIN, opacity=0.3)
        .encode(alt.X("n:Q", scale=across), top, x2="w:Q", y2=y2)
    )
    most = max(dot["n"] for dot in dots)
    sizes_of = (
        alt.Chart(pd.DataFrame(dots))
        .transform_filter(chosen)
        .mark_circle(color=style.QUERY, opacity=0.9, size=45)
        .encode(
            alt.X("w:Q", scale=across, title="longest sentence of a batch", axis=alt.Axis(tickCount=6)),
            alt.Y("n:Q", scale=alt.Scale(type="log", domain=[1, most]), title="its sentences",
                  axis=alt.Axis(values=[1, 10, 100], format="d", labelOverlap=False)),
            tooltip=[alt.Tooltip("n:Q", title="sentences"), alt.Tooltip("w:Q", title="the longest")],
        )
    )  # fmt: skip
    chart = alt.vconcat(
        head,
        (padding + tokens).properties(width=width, height=230),
        sizes_of.properties(width=width - 35, height=120),
        description=description,
    )
    return style.chart_style(chart.add_params(*params))
