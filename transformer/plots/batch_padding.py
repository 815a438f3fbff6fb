"""How much of a batch is padding, and how the batching strategy changes it."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from transformer.data.batching import Batch, Indices
from transformer.data.tokenizer import PAD
from transformer.plots import style

PADDING, PADDING_ALPHA = style.WRONG, 0.45
N_BATCHES, N_ROWS = 6, 9
"""The number of batches in the chart, and the largest number of sentences drawn for each."""


def batch_padding(batch: Batch, title: str) -> Figure:
    """Draw the source and the target of a batch as grids, a row for each pair: tokens are filled, padding is empty."""
    with style.in_style():
        figure = Figure(figsize=(2.2, 2.6), layout="constrained")
        panels = figure.subplots(1, 2)
        sides = ((batch.source, style.VALUE, "source"), (batch.labels, style.QUERY, "target"))
        for axes, (ids, colour, name) in zip(panels, sides, strict=True):
            padding = (ids == PAD).numpy()
            sns.heatmap(padding, mask=padding, cmap=[colour], cbar=False, xticklabels=False, yticklabels=False, ax=axes)
            axes.set_xlabel(f"{name}:\n{padding.mean():.0%} padding", fontsize=9.5)
            for spine in axes.spines.values():
                spine.set_visible(True)
        panels[0].set_ylabel(f"{len(batch.source)} pairs")
        figure.suptitle(title, fontsize=11)
    return figure


def padding_comparison(lengths: Indices, batchings: Mapping[str, Sequence[Indices]]) -> Figure:
    """Draw several ways to divide the same sentences into batches, to the same scale, side by side.

    Each batch is a block, each sentence a row as long as its tokens, and the padding after it has another colour.

    Args:
        lengths: the number of tokens of each sentence.
        batchings: title → batches, each the indices of its sentences.
    """
    gap = 0.03 * max(sum(map(len, batches)) for batches in batchings.values())
    with style.in_style():
        figure = Figure(figsize=(5.0, 2.9), layout="constrained")
        panels = np.ravel(figure.subplots(1, len(batchings), sharex=True, sharey=True))
        for axes, (title, batches) in zip(panels, batchings.items(), strict=True):
            top, n_positions = 0.0, 0
            for batch in batches:
                rows = lengths[batch]
                longest, edges = int(rows.max()), top + np.arange(len(rows) + 1)
                ends = np.append(rows, rows[-1])
                axes.fill_betweenx(edges, 0, ends, step="post", color=style.QUERY, linewidth=0)
                axes.fill_betweenx(edges, ends, longest, step="post", color=PADDING, alpha=PADDING_ALPHA, linewidth=0)
                top = edges[-1] + gap
                n_positions += len(rows) * longest
            n_tokens = sum(int(lengths[batch].sum()) for batch in batches)
            axes.set_title(f"{title}:\n{1 - n_tokens / n_positions:.0%} padding", loc="left")
            axes.set(xlim=(0, None), yticks=[], xlabel="tokens")
            axes.spines["left"].set_visible(False)
        panels[0].set_ylabel("sentences, in batches")
        panels[0].invert_yaxis()
    return figure


def sorting_paths(
    source_lengths: Indices, target_lengths: Indices, orders: Mapping[str, tuple[Indices, Sequence[Indices]]]
) -> Figure:
    """Draw pairs of lengths as dots, and several orders of the pairs as lines through them, side by side.

    The colour of the dots and of the line changes with each batch. A ring marks the first pair.

    Args:
        source_lengths, target_lengths: number of tokens on each side of the pairs.
        orders: title → all pairs in order, and the same cut into batches.
    """
    with style.in_style():
        figure = Figure(figsize=(2.7 * len(orders), 3.0), layout="constrained")
        panels = np.ravel(figure.subplots(1, len(orders), sharex=True, sharey=True))
        for axes, (title, (order, batches)) in zip(panels, orders.items(), strict=True):
            axes.plot(source_lengths[order], target_lengths[order], color=style.PLAIN, linewidth=0.8, zorder=1)
            for number, batch in enumerate(batches):
                x, y, colour = source_lengths[batch], target_lengths[batch], (style.QUERY, style.WRONG)[number % 2]
                axes.plot(x, y, "o-", color=colour, linewidth=1.3, markersize=3.5, zorder=2)
            first = order[0]
            axes.plot(
                source_lengths[first], target_lengths[first], "o", color=style.INK, fillstyle="none", markersize=9
            )
            axes.set_title(title, loc="left")
            axes.set_xlabel("source length")
            axes.grid(True)
        panels[0].set_ylabel("target length")
    return figure


def pooled_order(lengths: Indices, pool_size: int) -> Indices:
    """Return the indices of all sentences, (sentences,): each pool of ``pool_size`` neighbours is sorted by length."""
    return np.lexsort((lengths, np.arange(len(lengths)) // pool_size))


def cut_batches(order: Indices, lengths: Indices, token_budget: int) -> list[Indices]:
    """Cut a sequence of sentences into batches of at most ``token_budget`` tokens.

    A sentence that is longer than the budget gets a batch of its own.
    """
    batches, start, tokens = [], 0, 0
    for position, sentence in enumerate(order):
        if position > start and tokens + lengths[sentence] > token_budget:
            batches.append(order[start:position])
            start, tokens = position, 0
        tokens += lengths[sentence]
    return [*batches, order[start:]]


def batch_explorer(
    lengths: Indices, budgets: Sequence[int], pools: Sequence[int], description: str, start: tuple[int, int]
) -> Any:
    """Return an Altair chart of batches, with a slider for the token budget and a menu for the pool size.

    Args:
        lengths: the number of tokens of each sentence, in the order of the corpus.
        budgets: token budgets of a batch, equally spaced.
        pools: pool sizes, the number of neighbouring sentences that are sorted together; 1 means no sorting.
        description: the alt text.
        start: the token budget and the pool size at first.
    """
    # Short column names, because the page contains them for every row: budget, pool, width, number.
    rows: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    summary: list[dict[str, Any]] = []
    for budget in budgets:
        for pool in pools:
            setting = {"b": budget, "p": pool}
            batches = cut_batches(pooled_order(lengths, pool), lengths, budget)
            np.random.default_rng(0).shuffle(batches)
            widths = [int(lengths[batch].max()) for batch in batches]
            sizes = [len(batch) for batch in batches]
            padding = 1 - lengths.sum() / np.dot(widths, sizes)
            lines = (
                "not sorted" if pool == 1 else f"sorted by length in pools of {pool:,}",
                f"{padding:.0%} padding",
                f"{len(batches)} batches of {min(sizes)} to {max(sizes)} sentences",
            )
            summary += [{**setting, "line": line, "text": text} for line, text in enumerate(lines)]
            points += [{**setting, "w": w, "n": n} for w, n in sorted(set(zip(widths, sizes, strict=True)))]
            for block, (batch, width) in enumerate(zip(batches[:N_BATCHES], widths, strict=False)):
                sample = batch[np.linspace(0, len(batch) - 1, min(len(batch), N_ROWS)).astype(int)]
                top = block * (N_ROWS + 1.5)
                rows += [{**setting, "y": top + i, "n": int(lengths[s]), "w": width} for i, s in enumerate(sample)]
    slider = alt.binding_range(min=min(budgets), max=max(budgets), step=budgets[1] - budgets[0], name="token budget ")
    menu = alt.binding_select(options=list(pools), name="pool size ")
    params = alt.param("budget", value=start[0], bind=slider), alt.param("pool", value=start[1], bind=menu)
    selected = "datum.b == budget && datum.p == pool"
    width = 300
    header = (
        alt.Chart(pd.DataFrame(summary))
        .transform_filter(selected)
        .mark_text(align="left", fontSize=13, x=0)
        .encode(alt.Y("line:O", axis=None), text="text:N")
        .properties(width=width, height=56)
    )
    x_scale = alt.Scale(domain=[0, int(lengths.max())], nice=False)
    y_scale = alt.Scale(domain=[0, N_BATCHES * (N_ROWS + 1.5)], reverse=True, nice=False)
    sentences = (
        alt.Chart(pd.DataFrame(rows)).transform_filter(selected).transform_calculate(y2="datum.y + 0.85", zero="0")
    )
    y, y2 = alt.Y("y:Q", scale=y_scale, axis=None), alt.Y2("y2:Q")
    tokens = sentences.mark_rect(color=style.QUERY).encode(
        alt.X(
            "zero:Q", scale=x_scale, title="tokens of a sentence (blue), padding (orange)", axis=alt.Axis(tickCount=6)
        ),
        y,
        x2="n:Q",
        y2=y2,
    )
    empty = (
        sentences.transform_filter("datum.w > datum.n")
        .mark_rect(color=PADDING, opacity=PADDING_ALPHA)
        .encode(alt.X("n:Q", scale=x_scale), y, x2="w:Q", y2=y2)
    )
    largest = max(point["n"] for point in points)
    batch_sizes = (
        alt.Chart(pd.DataFrame(points))
        .transform_filter(selected)
        .mark_circle(color=style.QUERY, opacity=0.9, size=45)
        .encode(
            alt.X("w:Q", scale=x_scale, title="longest sentence of a batch (tokens)", axis=alt.Axis(tickCount=6)),
            alt.Y("n:Q", scale=alt.Scale(type="log", domain=[1, largest]), title="sentences in the batch",
                  axis=alt.Axis(values=[1, 10, 100], format="d", labelOverlap=False)),
            tooltip=[alt.Tooltip("n:Q", title="sentences"), alt.Tooltip("w:Q", title="longest sentence (tokens)")],
        )
    )  # fmt: skip
    chart = alt.vconcat(
        alt.vconcat(header, (empty + tokens).properties(width=width, height=230)),
        batch_sizes.properties(width=width - 35, height=230),
        description=description,
    )
    return style.chart_style(chart.add_params(*params), side_by_side=True)
