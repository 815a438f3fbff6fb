"""Byte-pair encoding as pictures: how merges grow a word, where they cut it, and what each further merge changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import altair as alt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from transformer.data.bpe import Merge, merge_pair
from transformer.plots import style

NEVER = 1 << 30
"""When a piece is merged away that stays."""


@dataclass(frozen=True)
class Step:
    """A merge that happens in a word: it joins the characters from start to middle with those from there to end."""

    merge: Merge
    start: int
    middle: int
    end: int


def steps(word: str, merges: Sequence[Merge]) -> list[Step]:
    """What `bpe.segment` does to a word, in order. With the first n merges only, just those of rank below n happen."""
    known, symbols, done = {merge.pair: merge for merge in merges}, list(word), list[Step]()
    while possible := [known[pair] for pair in pairwise(symbols) if pair in known]:
        merge = min(possible, key=lambda merge: merge.rank)
        old, start = iter(symbols), 0
        symbols = merge_pair(symbols, merge.pair)
        for symbol in symbols:
            first = next(old)
            if first != symbol:
                next(old)
                done.append(Step(merge, start, start + len(first), start + len(symbol)))
            start += len(symbol)
    return done


def tree(word: str, merges: Sequence[Merge]) -> Figure:
    """A word's merges, from its characters upwards; the pieces that remain stand out.

    Args:
        word: with "▁" in front.
        merges: those that were learned; what happens in the word is written on the left.
    """
    done = steps(word, merges)
    ranks = sorted({step.merge.rank for step in done})
    counts = {step.merge.rank: step.merge.count for step in done}
    boxes = [(place, place + 1, 0) for place in range(len(word))]
    boxes += [(step.start, step.end, 1 + ranks.index(step.merge.rank)) for step in done]
    with style.in_style():
        figure, axes = style.new_figure(3.6, 0.5 + 0.28 * len(ranks))
        axes.set_xlim(0, len(word))
        axes.set_ylim(-0.5, len(ranks) + 0.5)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.set_yticks(range(1, len(ranks) + 1), [f"merge {rank + 1:,}: {counts[rank]:,}×" for rank in ranks])
        axes.tick_params(length=0, labelsize=9)
        axes.set_xticks([])
        for start, end, height in boxes:
            above = [(s, h) for s, e, h in boxes if s <= start and end <= e and h > height]
            if above:
                _, over = min(above, key=lambda box: box[1])
                middle = (start + end) / 2
                axes.plot([middle, middle], [height + 0.38, over - 0.38], color=style.PLAIN, linewidth=1)
            _box(axes, start, end, height, word[start:end], style.PLAIN if above else style.OUTPUT)
    return figure


def seams(words: Mapping[str, Sequence[str]], parts: Sequence[Sequence[str]]) -> Figure:
    """Words in their pieces, and where their parts meet: a green line where the word is cut there, red ends where not.

    Args:
        words: word → its pieces.
        parts: what each word is made of; the same characters.
    """
    longest = max(map(len, words))
    with style.in_style():
        figure, axes = style.new_figure(min(5.0, 0.22 * longest), 0.4 * len(words))
        axes.set_position((0, 0, 1, 1))
        axes.axis("off")
        axes.set_xlim(0, longest)
        axes.set_ylim(len(words) - 0.4, -0.6)
        for row, (pieces, those) in enumerate(zip(words.values(), parts, strict=True)):
            cuts = _ends(pieces)
            for start, end in pairwise(cuts):
                _box(axes, start, end, row, "".join(pieces)[start:end], style.PLAIN)
            for seam in _ends(those)[1:-1]:
                if seam in cuts:
                    axes.plot([seam, seam], [row - 0.44, row + 0.44], color=style.VALUE, linewidth=3)
                else:  # above and below, not through the letters
                    for y in (row - 0.44, row + 0.24):
                        axes.plot([seam, seam], [y, y + 0.2], color=style.WRONG, linewidth=3)
    return figure


def explorer(words: Sequence[str], merges: Sequence[Merge], description: str) -> Any:
    """An Altair chart of words that grow together: a slider over the merges that change one of them; point at a piece.

    Args:
        words: each with "▁" in front.
        merges: those that were learned.
        description: the alt text.
    """
    done = {word: steps(word, merges) for word in words}
    happen = {step.merge.rank: step.merge for word in words for step in done[word]}
    stops = [0, *(rank + 1 for rank in sorted(happen))]
    news = ["no merges yet: characters", *(f"merge {rank + 1:,}: {_says(happen[rank])}" for rank in sorted(happen))]
    table = pd.DataFrame([piece for row, word in enumerate(words) for piece in _lives(word, row, done[word])])

    slider = alt.binding_range(min=0, max=len(stops) - 1, step=1, name="merges that change a word ")
    stop = alt.param("stop", value=len(stops) // 2, bind=slider)
    over = alt.selection_point("over", fields=["row", "start"], on="pointerover", clear=False, toggle=False,
                               value=[{"row": 0, "start": 0}])  # fmt: skip
    alive = (
        alt.Chart(table)
        .transform_calculate(now=f"{stops}[stop]")
        .transform_filter("datum.born <= datum.now && datum.now < datum.gone")
    )
    place = alt.X("start:Q", axis=None, scale=alt.Scale(domain=[0, max(map(len, words))], nice=False))
    lines = alt.Y("row:O", axis=None, scale=alt.Scale(paddingInner=0.25))
    boxes = alive.mark_rect(cornerRadius=4, color=style.KEY).encode(
        place,
        lines,
        x2="end:Q",
        fillOpacity=alt.condition("datum.born == datum.now && datum.now > 0", alt.value(0.45), alt.value(0.02)),
        stroke=alt.value("currentColor"),
        strokeWidth=alt.condition(over, alt.value(2.5), alt.value(0.8)),
    )
    texts = alive.mark_text(fontSize=12).encode(alt.X("middle:Q", axis=None), lines, text="piece:N")
    width = 300
    grown = (boxes.add_params(over) + texts).properties(width=width, height=32 * len(words))
    head = (
        alt.Chart(pd.DataFrame({"at": range(len(news)), "news": news}))
        .transform_filter("datum.at == stop")
        .mark_text(align="left", fontSize=13, x=0)
        .encode(text="news:N")
        .properties(width=width, height=20)
    )
    reading = (
        alive.transform_filter(over)
        .mark_text(align="left", fontSize=13, x=0)
        .encode(text="says:N")
        .properties(width=width, height=20)
    )
    return style.chart_style(alt.vconcat(head, grown, reading, description=description).add_params(stop))


def _lives(word: str, row: int, done: Sequence[Step]) -> list[dict[str, Any]]:
    """Every piece that a word has at some time: where it stands, after how many merges it comes and goes, its story."""
    pieces = [(place, place + 1, 0, f"{word[place]}: a character") for place in range(len(word))]
    pieces += [
        (step.start, step.end, step.merge.rank + 1, f"{step.merge.symbol} = {_says(step.merge)}") for step in done
    ]
    return [
        {
            "row": row,
            "start": start,
            "middle": (start + end) / 2,
            "end": end,
            "piece": word[start:end],
            "born": born,
            "gone": min(
                (later for s, e, later, _ in pieces if s <= start and end <= e and later > born), default=NEVER
            ),
            "says": says,
        }
        for start, end, born, says in pieces
    ]


def _says(merge: Merge) -> str:
    return f"{' + '.join(merge.pair)}, side by side {merge.count:,}×"


def _ends(pieces: Sequence[str]) -> list[int]:
    """0, and where each piece ends."""
    return [sum(map(len, pieces[:n])) for n in range(len(pieces) + 1)]


def _box(axes: Axes, start: int, end: int, y: float, text: str, colour: str) -> None:
    box = FancyBboxPatch((start + 0.08, y - 0.36), end - start - 0.16, 0.72, "round,pad=0,rounding_size=0.12")
    box.set(facecolor=colour + "22", edgecolor=colour, linewidth=2 if colour == style.OUTPUT else 1)
    axes.add_patch(box)
    axes.text((start + end) / 2, y, text, ha="center", va="center", fontsize=10)
