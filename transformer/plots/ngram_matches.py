"""How BLEU works: the n-grams of a hypothesis, which of them match the reference, and the score computed from them."""

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
"""The first lane of each order: overlapping n-grams are drawn in n lanes side by side."""
SIGNS = {"match": "", "no match": "×", "clipped": "!"}
COLOURS = {"match": style.ALLOWED, "no match": style.PLAIN, "clipped": style.WRONG}


class NGram(NamedTuple):
    """An n-gram of a hypothesis."""

    n: int
    start: int
    """The position of its first word."""
    words: str
    verdict: str
    """``match``, ``no match``, or ``clipped``: the reference contains it, but fewer times."""


def classify_ngrams(hypothesis: Sequence[str], reference: Sequence[str]) -> list[NGram]:
    """Return all 1- to 4-grams of a hypothesis, and whether each counts as a match after BLEU's clipping."""
    ngrams = []
    for n in ORDERS:
        in_reference = Counter(" ".join(reference[i : i + n]) for i in range(len(reference) - n + 1))
        unmatched = in_reference.copy()
        for start in range(len(hypothesis) - n + 1):
            words = " ".join(hypothesis[start : start + n])
            verdict = "match" if unmatched[words] > 0 else "clipped" if in_reference[words] else "no match"
            unmatched[words] -= 1
            ngrams.append(NGram(n, start, words, verdict))
    return ngrams


def ngram_matches(hypothesis: Sequence[str], reference: Sequence[str]) -> Figure:
    """Draw every n-gram as a bar below its words: filled if it matches, "×" if it doesn't, "!" if it was clipped."""
    bottom = 0.0
    ngrams = classify_ngrams(hypothesis, reference)
    with style.in_style():
        figure, axes = style.new_figure(5.0, 2.7)
        for i, word in enumerate(hypothesis):
            axes.text(i + 0.5, -0.6, word, ha="center", va="center", fontsize=10)
        for n in ORDERS:
            of_order = [gram for gram in ngrams if gram.n == n]
            for gram in of_order:
                y, colour = bottom + gram.start % n, COLOURS[gram.verdict]
                face = colour if gram.verdict == "match" else "none"
                corner = (gram.start + 0.08, y + 0.12)
                axes.add_patch(Rectangle(corner, n - 0.16, 0.76, facecolor=face, edgecolor=colour, linewidth=1.2))
                axes.text(gram.start + n / 2, y + 0.5, SIGNS[gram.verdict], ha="center", va="center", fontsize=9)
            count = sum(gram.verdict == "match" for gram in of_order)
            label = f"{count} of {len(of_order)}"
            axes.text(len(hypothesis) + 0.15, bottom + n / 2, label, ha="left", va="center", fontsize=10)
            axes.text(-0.15, bottom + n / 2, f"n = {n}", ha="right", va="center", fontsize=10)
            bottom += n + 0.4
        axes.set_xlim(-0.9, len(hypothesis) + 1.1)
        axes.set_ylim(bottom, -1.1)
        axes.axis("off")
    return figure


def bleu_explorer(slots: Sequence[Sequence[str]], start: Sequence[int], reference: str, description: str) -> Any:
    """Return an Altair chart of the n-grams and the BLEU score of a hypothesis that the reader builds from parts.

    Args:
        slots: for each part of the sentence the alternatives; an empty string omits the part.
        start: the index of the alternative selected at first, for each part.
        reference: the reference translation, words separated by spaces.
        description: the alt text.
    """
    words: list[dict[str, Any]] = []
    cells: list[dict[str, Any]] = []
    components: list[dict[str, Any]] = []
    for choice in product(*(range(len(slot)) for slot in slots)):
        variant = "".join(map(str, choice))
        text = " ".join(slot[i] for slot, i in zip(slots, choice, strict=True) if slot[i])
        hypothesis = text.split()
        words += [{"v": variant, "y": i + 0.5, "word": word} for i, word in enumerate(hypothesis)]
        for gram in classify_ngrams(hypothesis, reference.split()):
            lane = LANES[gram.n] + gram.start % gram.n
            cells.append(
                {"v": variant, "x": lane + 0.1, "x2": lane + 0.9,
                 "y": gram.start + 0.1, "y2": gram.start + gram.n - 0.1,
                 "verdict": gram.verdict, "n-gram": f"“{gram.words}”: {gram.verdict}"}
            )  # fmt: skip
        components += [{"v": variant, **row} for row in _components(_bleu(text, reference))]
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
    selected = "datum.v == '' + " + " + ".join(names)
    longest = int(max(word["y"] for word in words) + 0.5)

    x_scale = alt.Scale(domain=[-3.3, 11.6], nice=False, zero=False)
    y_scale = alt.Scale(domain=[-1, longest], reverse=True, nice=False, zero=False)
    x, y = alt.X("x:Q", scale=x_scale, axis=None), alt.Y("y:Q", scale=y_scale, axis=None)
    ngrams = alt.Chart(pd.DataFrame(cells)).transform_filter(selected)
    verdict = alt.Scale(domain=list(COLOURS), range=list(COLOURS.values()))
    bars = ngrams.mark_rect(strokeWidth=1.5, cornerRadius=2).encode(
        x, y, x2="x2", y2="y2",
        fill=alt.Fill("verdict:N", scale=verdict, legend=None),
        stroke=alt.Stroke("verdict:N", scale=verdict, legend=None),
        fillOpacity=alt.condition("datum.verdict == 'match'", alt.value(1), alt.value(0)),
        tooltip="n-gram:N",
    )  # fmt: skip
    signs = (
        ngrams.transform_calculate(
            sign=f"{SIGNS}[datum.verdict]", xm="(datum.x + datum.x2) / 2", ym="(datum.y + datum.y2) / 2"
        )
        .mark_text(fontSize=11)
        .encode(alt.X("xm:Q", scale=x_scale, axis=None), alt.Y("ym:Q", scale=y_scale, axis=None), text="sign:N")
    )
    text = alt.Chart(pd.DataFrame(words)).transform_filter(selected).transform_calculate(x="-0.3")
    labels = text.mark_text(align="right", fontSize=13).encode(x, y, text="word:N")
    headers = pd.DataFrame({"x": [LANES[n] + n / 2 for n in ORDERS], "y": -0.5, "n": [f"n={n}" for n in ORDERS]})
    titles = alt.Chart(headers).mark_text(fontSize=12, fontStyle="italic").encode(x, y, text="n:N")
    above = (bars + signs + labels + titles).properties(width=250, height=19 * (longest + 1))

    numbers = alt.Chart(pd.DataFrame(components)).transform_filter(selected)
    row = alt.Y("component:N", sort=[row["component"] for row in components[: len(ORDERS) + 2]], title=None)
    value = alt.X("value:Q", scale=alt.Scale(domain=[0, 1]), title=None, axis=alt.Axis(values=[0, 0.5, 1]))
    colour = alt.condition("datum.component == 'BLEU / 100'", alt.value(style.OUTPUT), alt.value(style.ALLOWED))
    value_bars = numbers.mark_bar().encode(value, row, color=colour)
    value_labels = numbers.mark_text(align="left", dx=4, fontSize=12).encode(value, row, text="label:N")
    chart = alt.vconcat(above, (value_bars + value_labels).properties(width=150, height=130), description=description)
    return style.chart_style(chart.add_params(*params), side_by_side=True)


def _bleu(hypothesis: str, reference: str) -> BLEUScore:
    """Compute BLEU with sacreBLEU, without tokenization and without smoothing."""
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    return metric.corpus_score([hypothesis], [[reference]])


def _components(score: BLEUScore) -> list[dict[str, Any]]:
    """Return a row for each bar: the n-gram precisions, the brevity penalty and the score."""
    rows: list[dict[str, Any]] = [
        {"component": f"n = {n}", "value": round(precision / 100, 3), "label": f"{int(count)} of {int(total)}"}
        for n, precision, count, total in zip(ORDERS, score.precisions, score.counts, score.totals, strict=True)
    ]
    rows.append({"component": "brevity penalty", "value": round(score.bp, 3), "label": f"{score.bp:.2f}"})
    return [
        *rows,
        {"component": "BLEU / 100", "value": round(score.score / 100, 3), "label": f"{score.score / 100:.2f}"},
    ]
