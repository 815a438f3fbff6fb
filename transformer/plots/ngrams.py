"""What BLEU sees of a sentence: its n-grams, which of them the reference has, and the numbers that are made of them."""

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import altair as alt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from sacrebleu.metrics.bleu import BLEU, BLEUScore

from transformer.plots import style

ORDERS = (1, 2, 3, 4)
LANES = {1: 0.0, 2: 1.5, 3: 4.0, 4: 7.5}
"""Where the lanes of each order begin; n-grams that overlap lie in n lanes side by side."""
SIGNS = {"matched": "", "not there": "×", "used up": "!"}
COLOURS = {"matched": style.ALLOWED, "not there": style.PLAIN, "used up": style.WRONG}


class Gram(NamedTuple):
    """An n-gram of a hypothesis."""

    n: int
    place: int
    """The place of its first word."""
    words: str
    verdict: str
    """``matched``, ``not there``, or ``used up``: it is there, but less often."""


def grams(hypothesis: Sequence[str], reference: Sequence[str]) -> list[Gram]:
    """All 1- to 4-grams of a hypothesis, each with what BLEU's clipped count makes of it."""
    found = []
    for n in ORDERS:
        there = Counter(" ".join(reference[i : i + n]) for i in range(len(reference) - n + 1))
        left = there.copy()
        for place in range(len(hypothesis) - n + 1):
            words = " ".join(hypothesis[place : place + n])
            verdict = "matched" if left[words] > 0 else "used up" if there[words] else "not there"
            left[words] -= 1
            found.append(Gram(n, place, words, verdict))
    return found


def matches(hypothesis: Sequence[str], reference: Sequence[str]) -> Figure:
    """Every n-gram as a bar below its words: filled if it counts, marked with "!" if the reference's are used up."""
    bottom = 0.0
    found = grams(hypothesis, reference)
    with style.in_style():
        figure, axes = style.new_figure(5.0, 2.7)
        for place, word in enumerate(hypothesis):
            axes.text(place + 0.5, -0.6, word, ha="center", va="center", fontsize=10)
        for n in ORDERS:
            here = [gram for gram in found if gram.n == n]
            for gram in here:
                y, colour = bottom + gram.place % n, COLOURS[gram.verdict]
                face = colour if gram.verdict == "matched" else "none"
                corner = (gram.place + 0.08, y + 0.12)
                axes.add_patch(Rectangle(corner, n - 0.16, 0.76, facecolor=face, edgecolor=colour, linewidth=1.2))
                axes.text(gram.place + n / 2, y + 0.5, SIGNS[gram.verdict], ha="center", va="center", fontsize=9)
            count = sum(gram.verdict == "matched" for gram in here)
            label = f"{count} of {len(here)}"
            axes.text(len(hypothesis) + 0.15, bottom + n / 2, label, ha="left", va="center", fontsize=10)
            axes.text(-0.15, bottom + n / 2, f"n = {n}", ha="right", va="center", fontsize=10)
            bottom += n + 0.4
        axes.set_xlim(-0.9, len(hypothesis) + 1.1)
        axes.set_ylim(bottom, -1.1)
        axes.axis("off")
    return figure


def builder(slots: Sequence[Sequence[str]], start: Sequence[int], reference: str, description: str) -> Any:
    """An Altair chart: the reader builds a hypothesis from parts and sees its n-grams and what BLEU makes of them.

    Args:
        slots: for each part of the sentence the variants to choose from; an empty one leaves the part out.
        start: which of them are chosen at first.
        reference: words with spaces between them.
        description: the alt text.
    """
    words: list[dict[str, Any]] = []
    cells: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for choice in product(*(range(len(slot)) for slot in slots)):
        variant = "".join(map(str, choice))
        text = " ".join(slot[i] for slot, i in zip(slots, choice, strict=True) if slot[i])
        hypothesis = text.split()
        words += [{"v": variant, "y": i + 0.5, "word": word} for i, word in enumerate(hypothesis)]
        for gram in grams(hypothesis, reference.split()):
            lane = LANES[gram.n] + gram.place % gram.n
            cells.append(
                {"v": variant, "x": lane + 0.1, "x2": lane + 0.9,
                 "y": gram.place + 0.1, "y2": gram.place + gram.n - 0.1,
                 "verdict": gram.verdict, "n-gram": f"“{gram.words}”: {gram.verdict}"}
            )  # fmt: skip
        parts += [{"v": variant, **part} for part in _parts(_score(text, reference))]
    names = [f"part{i}" for i in range(len(slots))]
    params = [
        alt.param(
            name,
            value=first,
            bind=alt.binding_select(
                options=list(range(len(slot))), labels=[text or "(nothing)" for text in slot], name=f"part {i} "
            ),
        )
        for i, (name, first, slot) in enumerate(zip(names, start, slots, strict=True), 1)
    ]
    chosen = "datum.v == '' + " + " + ".join(names)
    longest = int(max(word["y"] for word in words) + 0.5)

    across = alt.Scale(domain=[-3.3, 11.6], nice=False, zero=False)
    down = alt.Scale(domain=[-1, longest], reverse=True, nice=False, zero=False)
    x, y = alt.X("x:Q", scale=across, axis=None), alt.Y("y:Q", scale=down, axis=None)
    shown = alt.Chart(pd.DataFrame(cells)).transform_filter(chosen)
    verdict = alt.Scale(domain=list(COLOURS), range=list(COLOURS.values()))
    bars = shown.mark_rect(strokeWidth=1.5, cornerRadius=2).encode(
        x, y, x2="x2", y2="y2",
        fill=alt.Fill("verdict:N", scale=verdict, legend=None),
        stroke=alt.Stroke("verdict:N", scale=verdict, legend=None),
        fillOpacity=alt.condition("datum.verdict == 'matched'", alt.value(1), alt.value(0)),
        tooltip="n-gram:N",
    )  # fmt: skip
    signs = (
        shown.transform_calculate(
            sign=f"{SIGNS}[datum.verdict]", xm="(datum.x + datum.x2) / 2", ym="(datum.y + datum.y2) / 2"
        )
        .mark_text(fontSize=11)
        .encode(alt.X("xm:Q", scale=across, axis=None), alt.Y("ym:Q", scale=down, axis=None), text="sign:N")
    )
    text = alt.Chart(pd.DataFrame(words)).transform_filter(chosen).transform_calculate(x="-0.3")
    hypotheses = text.mark_text(align="right", fontSize=13).encode(x, y, text="word:N")
    heads = pd.DataFrame({"x": [LANES[n] + n / 2 for n in ORDERS], "y": -0.5, "n": [f"n={n}" for n in ORDERS]})
    titles = alt.Chart(heads).mark_text(fontSize=12, fontStyle="italic").encode(x, y, text="n:N")
    above = (bars + signs + hypotheses + titles).properties(width=265, height=22 * (longest + 1))

    numbers = alt.Chart(pd.DataFrame(parts)).transform_filter(chosen)
    row = alt.Y("part:N", sort=[part["part"] for part in parts[: len(ORDERS) + 2]], title=None)
    value = alt.X("value:Q", scale=alt.Scale(domain=[0, 1]), title=None, axis=alt.Axis(values=[0, 0.5, 1]))
    colour = alt.condition("datum.part == 'BLEU / 100'", alt.value(style.OUTPUT), alt.value(style.ALLOWED))
    below = numbers.mark_bar().encode(value, row, color=colour)
    beside = numbers.mark_text(align="left", dx=4, fontSize=12).encode(value, row, text="label:N")
    both = alt.vconcat(above, (below + beside).properties(width=150, height=130), description=description)
    return style.chart_style(both.add_params(*params))


def _score(hypothesis: str, reference: str) -> BLEUScore:
    """sacreBLEU's own numbers, words as they stand, no smoothing."""
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    return metric.corpus_score([hypothesis], [[reference]])


def _parts(score: BLEUScore) -> list[dict[str, Any]]:
    """What a score is made of: a row for each bar."""
    rows: list[dict[str, Any]] = [
        {"part": f"n = {n}", "value": round(precision / 100, 3), "label": f"{int(count)} of {int(total)}"}
        for n, precision, count, total in zip(ORDERS, score.precisions, score.counts, score.totals, strict=True)
    ]
    rows.append({"part": "brevity", "value": round(score.bp, 3), "label": f"{score.bp:.2f}"})
    return [*rows, {"part": "BLEU / 100", "value": round(score.score / 100, 3), "label": f"{score.score / 100:.2f}"}]
