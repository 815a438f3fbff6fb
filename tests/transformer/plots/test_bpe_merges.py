"""The figures of byte-pair encoding show the merges of `transformer.data.bpe`."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from transformer.data.bpe import learn, segment
from transformer.plots import bpe_merges as plots
from transformer.plots import style

TEA = learn(Counter({"▁tea": 5, "▁teapot": 2, "▁pot": 3, "▁seat": 2}).elements(), 6)


def boxes(figure: Figure, colour: str) -> list[tuple[float, float]]:
    """Return the centres of the boxes of a colour, left to right."""
    extents = [p.get_window_extent() for p in figure.axes[0].patches if to_hex(p.get_edgecolor()) == colour.lower()]
    inverse = figure.axes[0].transData.inverted()
    middles = [inverse.transform(((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)) for box in extents]
    return sorted((round(float(x), 2), round(float(y), 2)) for x, y in middles)


def test_steps_are_merges_with_their_positions() -> None:
    done = plots.merge_steps("▁teapots", TEA)
    assert [(s.merge.symbol, s.start, s.middle, s.end) for s in done] == [
        ("ea", 2, 3, 4), ("▁t", 0, 1, 2), ("▁tea", 0, 2, 4), ("ot", 5, 6, 7), ("pot", 4, 5, 7),
    ]  # fmt: skip


def test_a_pair_may_occur_twice_in_a_word() -> None:
    merges = learn(["abab"], 2)
    assert [(s.merge.symbol, s.start, s.end) for s in plots.merge_steps("abab", merges)] == [
        ("ab", 0, 2), ("ab", 2, 4), ("abab", 0, 4),
    ]  # fmt: skip
    assert [(s.start, s.end) for s in plots.merge_steps("aaa", learn(["aaa"], 1))] == [(0, 2)]


@settings(derandomize=True)
@given(st.lists(st.text("abc", min_size=1, max_size=9), max_size=20), st.text("abc"), st.integers(0, 12))
def test_the_first_merges_alone_do_the_steps_of_their_ranks(words: list[str], word: str, n: int) -> None:
    merges = learn(words, 12)
    done = plots.merge_steps(word, merges)
    assert [step for step in done if step.merge.rank < n] == plots.merge_steps(word, merges[:n])
    alive = [p["symbol"] for p in sorted(plots._symbols(word, 0, done), key=lambda p: p["start"])
             if p["created"] <= n < p["merged"]]  # fmt: skip
    assert alive == segment(word, {merge.pair: merge.rank for merge in merges[:n]})


def test_a_tree_ends_in_the_subwords() -> None:
    figure = plots.merge_tree("▁teapots", TEA)
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == [*"▁teapots", "ea", "▁t", "▁tea", "ot", "pot"]
    assert boxes(figure, style.OUTPUT) == [(2, 3), (5.5, 5), (7.5, 0)]  # ▁tea, pot, s
    levels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert levels == ["merge 1: 9×", "merge 2: 7×", "merge 3: 7×", "merge 4: 5×", "merge 5: 5×"]


def test_a_word_without_merges_is_its_characters() -> None:
    figure = plots.merge_tree("xyz", TEA)
    assert [text.get_text() for text in figure.axes[0].texts] == ["x", "y", "z"]
    assert len(boxes(figure, style.OUTPUT)) == 3


def test_boundaries_that_are_cut_differ_from_those_that_are_not() -> None:
    figure = plots.morpheme_boundaries(
        {"▁teapot": ["▁tea", "pot"], "▁seat": ["▁", "sea", "t"]}, [("▁tea", "pot"), ("▁se", "at")]
    )
    lines = [(to_hex(line.get_color()), line.get_xdata()[0]) for line in figure.axes[0].lines]  # type: ignore[index]
    assert lines == [(style.VALUE.lower(), 4), (style.WRONG.lower(), 3), (style.WRONG.lower(), 3)]
    assert [text.get_text() for text in figure.axes[0].texts] == ["▁tea", "pot", "▁", "sea", "t"]


def test_segmentations_have_a_box_for_each_token_and_mark_unknown_ones() -> None:
    figure = plots.segmentations({"words": ["▁the", "▁pots"], "subwords": ["▁the", "▁pot", "s"]}, unknown={"▁pots"})
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == ["words: 2 tokens", "▁the", "<unk>", "subwords: 3 tokens", "▁the", "▁pot", "s"]
    assert boxes(figure, style.WRONG) == [(6.5, 0)] and boxes(figure, style.KEY) == [
        (2, 0),
        (2, 1.6),
        (6, 1.6),
        (8.5, 1.6),
    ]


@pytest.mark.parametrize(
    "figure", [plots.merge_tree("▁teapots", TEA), plots.morpheme_boundaries({"ab" * 30: ["ab" * 30]}, [["ab"]])]
)
def test_they_fit_a_page(figure: Figure) -> None:
    assert figure.get_figwidth() <= 5
    shown = style.Picture(figure, "merges")._repr_html_()
    assert "currentColor" in shown and style.INK not in shown


def test_the_slider_stops_where_a_word_changes() -> None:
    chart: Any = plots.merge_explorer(["▁tea", "▁spot"], TEA, "move it")
    spec = chart.to_dict()
    assert spec["description"] == "move it" and all(part["width"] <= 300 for part in spec["vconcat"])
    assert spec["usermeta"]["embedOptions"]["renderer"] == "svg" and spec["config"]["background"] == "transparent"
    (slider,) = (param["bind"] for param in spec["params"] if "bind" in param)
    assert slider["max"] == 5  # ea, ▁t, ▁tea, ot, pot; ▁pot changes neither
    captions = next(rows for rows in spec["datasets"].values() if "caption" in rows[0])
    assert [row["caption"] for row in captions][:2] == ["no merges yet: characters", "merge 1: e + a, adjacent 9 times"]
