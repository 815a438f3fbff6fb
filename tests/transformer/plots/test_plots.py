"""Figures have an alt text, fit the page, and draw the data that they are given."""

import re
from collections.abc import Callable
from typing import Any

import altair as alt
import matplotlib as mpl
import pytest
import torch

from tests.transformer.plots.panels import panels
from transformer.attention import MultiHeadAttention
from transformer.masks import causal_mask, padding_mask
from transformer.plots import curves, masks, next_token, style
from transformer.plots.heat_map import heat_map
from transformer.plots.path_length import path_length
from transformer.plots.rotate_query import rotate_query
from transformer.plots.soft_lookup import soft_lookup
from transformer.plots.strip_plot import strip_plot
from transformer.positions import angles

WORDS = ["dog", "left", "milk"]
KEY = torch.tensor([[2.0, 0], [-1, -1], [0, 2]])
VALUE = torch.tensor([[1.0, 0], [0, 0], [0, 1]])


def test_a_picture_is_an_svg_in_the_colours_of_the_page() -> None:
    ink = mpl.rcParams["text.color"]
    figure = heat_map(torch.eye(3), WORDS, WORDS)
    picture = style.Picture(figure, alt='each word "itself"\n & nothing else')
    svg = picture._repr_html_()
    assert mpl.rcParams["text.color"] == ink
    assert svg.startswith('<svg role="img" aria-label="each word &quot;itself&quot; &amp; nothing else" style=')
    assert "currentColor" in svg and style.INK.lower() not in svg.lower()
    assert not re.search(r"<g id=", svg)
    assert svg == picture._repr_html_()


@pytest.mark.parametrize("alt", ["", "  \n"])
def test_a_picture_needs_an_alt_text(alt: str) -> None:
    with pytest.raises(ValueError, match="alt text"):
        style.Picture(heat_map(torch.eye(3), WORDS, WORDS), alt)


def test_source_comes_from_the_file() -> None:
    markdown = style.SourceCode(causal_mask, padding_mask)._repr_markdown_()
    assert markdown.startswith("```python\n# transformer/masks.py, line ")
    assert "tril()" in markdown and "(ids != pad_id)" in markdown


def test_source_leaves_out_docstrings_and_checks() -> None:
    code = repr(style.SourceCode(MultiHeadAttention.forward, angles))
    assert '"""' not in code and "raise" not in code and "for name, tensor" not in code
    assert "return self.output(" in code and "if memory is not None:" in code and "def angles(" in code
    assert style.essential_lines("if x:\n    y = 1\nelse:\n    raise ValueError\n").count("\n") == 4
    assert style.essential_lines("if x:\n    raise A\nelif y:\n    raise B\nelse:\n    raise C\n") == ""
    assert style.essential_lines('class A:\n    """Doc."""\n\n    x = 1\n    """Of x."""\n') == "class A:\n    x = 1\n"


def test_a_heat_map_leaves_hidden_cells_empty() -> None:
    figure = heat_map(torch.eye(3), WORDS, WORDS, mask=causal_mask(3)[0, 0])
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts.count("×") == 3 and texts.count("1.00") == 3


def test_the_weights_are_written_dark_on_bright_cells_and_bright_on_dark_ones() -> None:
    texts = heat_map(torch.tensor([[0.7, 0.3]]), ["it"], ["dog", "milk"]).axes[0].texts
    assert [(text.get_text(), text.get_color()) for text in texts] == [("0.70", "black"), ("0.30", "white")]


def test_a_small_heat_map_has_every_weight_and_no_text() -> None:
    weights = torch.rand(2, 3)
    (axes,) = heat_map(weights, range(2), range(3), title="head 1", annotate=False, row_title="query").axes
    (mesh,) = axes.collections
    assert torch.equal(torch.as_tensor(mesh.get_array()), weights) and not axes.texts
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "2"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0", "1"] and axes.yaxis_inverted()
    assert (axes.get_title(), axes.get_ylabel(), axes.get_xlabel()) == ("head 1", "query", "")


def test_a_lookup_shows_the_weighted_sum() -> None:
    texts = [t.get_text() for t in soft_lookup("it", WORDS, torch.tensor([1.0, 0]), KEY, VALUE).axes[0].texts]
    assert "(0.84, 0.11)" in texts


def test_a_grid_marks_what_is_wrong() -> None:
    mask, wrong = causal_mask(3)[0, 0], torch.zeros(3, 3, dtype=torch.bool)
    wrong[0, 2] = True
    texts = [text.get_text() for text in masks.mask_grid(mask, WORDS, WORDS, wrong=wrong).axes[0].texts]
    assert texts.count("!") == 1 and texts.count("×") == 2


def test_combined_masks_have_three_panels() -> None:
    padding = padding_mask(torch.tensor([[1, 2, 0]]), 0)[0, 0]
    figure = masks.combined_masks(padding, causal_mask(3)[0, 0], WORDS, ("no padding", "no future", "both"))
    crosses = [sum(text.get_text() == "×" for text in panel.texts) for panel in figure.axes]
    assert crosses == [3, 3, 4]


def test_curves_have_names() -> None:
    figure = curves.curves([1, 2], {"a": [1.0, 2.0], "b": [2.0, 1.0]}, "x", "title", reference=("floor", 0.5))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b", "floor"]


def test_a_line_that_has_no_style_of_its_own_is_refused() -> None:
    with pytest.raises(ValueError, match="can have 4 lines; got 5"):
        curves.curves([1, 2], {name: [1.0, 2.0] for name in "abcde"}, "x", "title")


def test_nearly_constant_lines_have_an_axis_from_0_and_a_margin_above() -> None:
    (axes,) = curves.curves([1, 2, 4], {"a": [1.6, 1.5, 1.5]}, "x", "title", log2_x=True).axes
    bottom, top = axes.get_ylim()
    assert bottom == 0 and 1.6 * 1.03 < top < 1.6 * 1.2


def test_a_path_has_an_arrow_for_each_step_and_one_straight_across() -> None:
    figure = path_length(["the", "dogs", "that", "we", "saw", "were"], start=1, end=5)
    assert len(figure.axes[0].patches) == 4 + 1
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert "recurrent network: 4 steps" in texts and texts.count("dogs") == 2


PROBABILITIES = torch.tensor([[0.1, 0.7, 0.2], [0.05, 0.15, 0.8]])


def test_next_tokens_are_the_most_probable_and_the_generated_one_is_marked() -> None:
    chart = next_token.next_token_explorer(PROBABILITIES, ["left", "left"], WORDS, 2, "step through").to_dict()
    (rows,) = (data for data in chart["datasets"].values())
    assert [(row["step"], row["token"], row["generated"]) for row in rows] == [
        (1, "left", True), (1, "milk", False), (2, "milk", False), (2, "left", True),
    ]  # fmt: skip
    assert [row["prefix"] for row in rows] == [["<bos>"]] * 2 + [["<bos> left"]] * 2
    assert rows[0]["probability"] == pytest.approx(0.7)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: rotate_query(WORDS, KEY, VALUE, ("alive", "food"), ("er", "sie"), "turn it"),
        lambda: next_token.next_token_explorer(PROBABILITIES, ["left", "milk"], WORDS, 2, "step through"),
    ],
    ids=["rotate_query", "next_token_explorer"],
)
def test_a_chart_follows_the_page_and_fits_a_phone(draw: Callable[[], Any]) -> None:
    spec = draw().to_dict()
    assert spec["description"]
    assert spec["usermeta"]["embedOptions"]["renderer"] == "svg" and spec["config"]["background"] == "transparent"
    assert all(part["width"] <= 300 for part in panels(spec))
    assert any("bind" in param for param in spec["params"])


def test_a_chart_needs_a_description() -> None:
    with pytest.raises(ValueError, match="description"):
        style.chart_style(alt.vconcat())


def test_a_strip_plot_shows_every_measurement_and_the_mean_of_each_setting() -> None:
    (axes,) = strip_plot({"narrow": [1.0, 3.0], "wide": [5.0]}, "BLEU").axes  # a bar at a single dot would say nothing
    dots = [points.get_offsets().tolist() for points in axes.collections if len(points.get_offsets())]
    assert dots == [[[1, 0], [3, 0]], [[5, 1]]]
    (means,) = (line for line in axes.lines if line.get_marker() == "|")
    assert list(means.get_xdata()) == [2] and list(means.get_ydata()) == [0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["narrow", "wide"]
    assert axes.yaxis_inverted() and axes.get_xlabel() == "BLEU"


def test_a_strip_plot_can_mark_a_baseline_and_name_the_settings() -> None:
    values = {"8": [4.0], "16": [1.0, 3.0]}
    (axes,) = strip_plot(values, "BLEU", setting="width", baseline="16").axes
    (line,) = (line for line in axes.lines if line.get_linestyle() == ":")
    assert list(line.get_xdata()) == [2, 2] and axes.get_ylabel() == "width"
    (axes,) = strip_plot(values, "BLEU", baseline="baseline").axes
    assert not [line for line in axes.lines if line.get_linestyle() == ":"]


def test_the_bar_of_a_strip_plot_can_be_at_the_median() -> None:
    (axes,) = strip_plot({"with an outlier": [1.0, 2.0, 30.0]}, "seconds", bar="median").axes
    (medians,) = (line for line in axes.lines if line.get_marker() == "|")
    assert list(medians.get_xdata()) == [2]
