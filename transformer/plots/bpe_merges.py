"""How texts are segmented: into words, characters or subwords, and merge by merge in byte-pair encoding."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import altair as alt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from transformer.data.bpe import Merge, merge_pair
from transformer.plots import style

NEVER = 1 << 30
"""Stands for infinity: the step at which a symbol disappears if it is never merged into another one."""


@dataclass(frozen=True)
class Step:
    """A merge applied in a word: it joins the characters ``start:middle`` with the characters ``middle:end``."""

    merge: Merge
    start: int
    middle: int
    end: int


def merge_steps(word: str, merges: Sequence[Merge]) -> list[Step]:
    """Return the merges that `bpe.segment` applies to a word, in order.

    With only the first n merges, the steps are those with a rank below n.
    """
    merge_of, symbols, steps = {merge.pair: merge for merge in merges}, list(word), list[Step]()
    while applicable := [merge_of[pair] for pair in pairwise(symbols) if pair in merge_of]:
        merge = min(applicable, key=lambda merge: merge.rank)
        old_symbols, start = iter(symbols), 0
        symbols = merge_pair(symbols, merge.pair)
        for symbol in symbols:
            left = next(old_symbols)
            if left != symbol:
                next(old_symbols)
                steps.append(Step(merge, start, start + len(left), start + len(symbol)))
            start += len(symbol)
    return steps


def merge_tree(word: str, merges: Sequence[Merge]) -> Figure:
    """Draw the merges of a word as a tree that grows upwards from its characters; the final subwords are highlighted.

    Args:
        word: the word, with "▁" in front.
        merges: the learned merges; those applied in this word label the y axis.
    """
    steps = merge_steps(word, merges)
    ranks = sorted({step.merge.rank for step in steps})
    counts = {step.merge.rank: step.merge.count for step in steps}
    boxes = [(i, i + 1, 0) for i in range(len(word))]
    boxes += [(step.start, step.end, 1 + ranks.index(step.merge.rank)) for step in steps]
    with style.in_style():
        figure, axes = style.new_figure(3.6, 0.5 + 0.28 * len(ranks))
        axes.set_xlim(0, len(word))
        axes.set_ylim(-0.5, len(ranks) + 0.5)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.set_yticks(range(1, len(ranks) + 1), [f"merge {rank + 1:,}: {counts[rank]:,}×" for rank in ranks])
        axes.tick_params(length=0, labelsize=9)
        axes.set_xticks([])
        for start, end, height in boxes:
            parents = [h for s, e, h in boxes if s <= start and end <= e and h > height]
            if parents:
                middle = (start + end) / 2
                axes.plot([middle, middle], [height + 0.38, min(parents) - 0.38], color=style.PLAIN, linewidth=1)
            _box(axes, start, end, height, word[start:end], style.PLAIN if parents else style.OUTPUT)
    return figure


def morpheme_boundaries(words: Mapping[str, Sequence[str]], morphemes: Sequence[Sequence[str]]) -> Figure:
    """Draw the subwords of words, and where their morphemes meet: green where subwords also meet, red where they don't.

    Args:
        words: word → its subwords.
        morphemes: the morphemes of each word, the same characters in total.
    """
    longest = max(map(len, words))
    with style.in_style():
        figure, axes = style.new_drawing(
            min(5.0, 0.22 * longest), 0.4 * len(words), (0, longest), (len(words) - 0.4, -0.6)
        )
        for row, (subwords, parts) in enumerate(zip(words.values(), morphemes, strict=True)):
            cuts = _ends(subwords)
            for start, end in pairwise(cuts):
                _box(axes, start, end, row, "".join(subwords)[start:end], style.PLAIN)
            for x in _ends(parts)[1:-1]:
                if x in cuts:
                    axes.plot([x, x], [row - 0.44, row + 0.44], color=style.VALUE, linewidth=3)
                else:  # above and below the letters, not through them
                    for y in (row - 0.44, row + 0.24):
                        axes.plot([x, x], [y, y + 0.2], color=style.WRONG, linewidth=3)
    return figure


def segmentations(rows: Mapping[str, Sequence[str]], unknown: Collection[str] = ()) -> Figure:
    """Draw the tokens of one text in several segmentations, one below the other.

    Args:
        rows: name of the segmentation → its tokens, the same characters in total.
        unknown: tokens that aren't in the vocabulary; each is drawn as a red box with the text <unk>.
    """
    length = max(len("".join(tokens)) for tokens in rows.values())
    with style.in_style():
        figure, axes = style.new_drawing(
            min(4.8, 0.24 * length), 0.55 * len(rows), (0, length), (1.6 * len(rows) - 1.1, -0.9)
        )
        for row, (name, tokens) in enumerate(rows.items()):
            y = 1.6 * row
            axes.text(0.1, y - 0.68, f"{name}: {len(tokens)} token{'s' * (len(tokens) > 1)}", fontsize=10, va="center")
            for token, (start, end) in zip(tokens, pairwise(_ends(tokens)), strict=True):
                if token in unknown:
                    _box(axes, start, end, y, "<unk>", style.WRONG)
                else:
                    _box(axes, start, end, y, token, style.KEY)
    return figure


def merge_explorer(words: Sequence[str], merges: Sequence[Merge], description: str) -> Any:
    """Return an Altair chart of words and their symbols, with a slider over the merges; hover over a symbol to read it.

    Args:
        words: each with "▁" in front.
        merges: the learned merges; the slider stops at those that change one of the words.
        description: the alt text.
    """
    steps = {word: merge_steps(word, merges) for word in words}
    applied = {step.merge.rank: step.merge for word in words for step in steps[word]}
    stops = [0, *(rank + 1 for rank in sorted(applied))]
    captions = ["no merges yet: characters"]
    captions += [f"merge {rank + 1:,}: {_describe(applied[rank])}" for rank in sorted(applied)]
    table = pd.DataFrame([symbol for row, word in enumerate(words) for symbol in _symbols(word, row, steps[word])])

    slider = alt.binding_range(min=0, max=len(stops) - 1, step=1, name="step ")
    stop = alt.param("stop", value=len(stops) // 2, bind=slider)
    over = alt.selection_point("over", fields=["row", "start"], on="pointerover", clear=False, toggle=False,
                               value=[{"row": 0, "start": 0}])  # fmt: skip
    symbols = (
        alt.Chart(table)
        .transform_calculate(now=f"{stops}[stop]")
        .transform_filter("datum.created <= datum.now && datum.now < datum.merged")
    )
    x = alt.X("start:Q", axis=None, scale=alt.Scale(domain=[0, max(map(len, words))], nice=False))
    y = alt.Y("row:O", axis=None, scale=alt.Scale(paddingInner=0.25))
    boxes = symbols.mark_rect(cornerRadius=4, color=style.KEY).encode(
        x,
        y,
        x2="end:Q",
        fillOpacity=alt.condition("datum.created == datum.now && datum.now > 0", alt.value(0.45), alt.value(0.02)),
        stroke=alt.value("currentColor"),
        strokeWidth=alt.condition(over, alt.value(2.5), alt.value(0.8)),
    )
    texts = symbols.mark_text(fontSize=12).encode(alt.X("middle:Q", axis=None), y, text="symbol:N")
    width = 300
    word_rows = (boxes.add_params(over) + texts).properties(width=width, height=32 * len(words))
    caption = (
        alt.Chart(pd.DataFrame({"stop_index": range(len(captions)), "caption": captions}))
        .transform_filter("datum.stop_index == stop")
        .mark_text(align="left", fontSize=13, x=0)
        .encode(text="caption:N")
        .properties(width=width, height=20)
    )
    reading = (
        symbols.transform_filter(over)
        .mark_text(align="left", fontSize=13, x=0)
        .encode(text="text:N")
        .properties(width=width, height=20)
    )
    return style.chart_style(alt.vconcat(caption, word_rows, reading, description=description).add_params(stop))


def _symbols(word: str, row: int, steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Return every symbol that a word ever has: its position, and after how many merges it is created and merged."""
    symbols = [(i, i + 1, 0, f"{word[i]}: a character") for i in range(len(word))]
    symbols += [
        (step.start, step.end, step.merge.rank + 1, f"{step.merge.symbol} = {_describe(step.merge)}") for step in steps
    ]
    return [
        {
            "row": row,
            "start": start,
            "middle": (start + end) / 2,
            "end": end,
            "symbol": word[start:end],
            "created": created,
            "merged": min(
                (later for s, e, later, _ in symbols if s <= start and end <= e and later > created), default=NEVER
            ),
            "text": text,
        }
        for start, end, created, text in symbols
    ]


def _describe(merge: Merge) -> str:
    return f"{' + '.join(merge.pair)}, adjacent {merge.count:,} times"


def _ends(parts: Sequence[str]) -> list[int]:
    """Return 0 and the index where each part ends."""
    return [0, *accumulate(map(len, parts))]


def _box(axes: Axes, start: int, end: int, y: float, text: str, colour: str) -> None:
    box = FancyBboxPatch((start + 0.08, y - 0.36), end - start - 0.16, 0.72, "round,pad=0,rounding_size=0.12")
    box.set(facecolor=colour + "22", edgecolor=colour, linewidth=2 if colour == style.OUTPUT else 1)
    axes.add_patch(box)
    axes.text((start + end) / 2, y, text, ha="center", va="center", fontsize=10)
