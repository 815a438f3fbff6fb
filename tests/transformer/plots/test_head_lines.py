"""The lines of a head are as wide and as dark as its weights; the lines of a single head cross at equal weights."""

import pytest
import torch

from transformer.plots.head_lines import head_lines
from transformer.plots.single_head_limit import single_head_limit


def test_there_is_a_line_from_each_query_to_each_key_as_wide_and_dark_as_its_weight() -> None:
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.25, 0.5, 0.25]])
    (axes,) = head_lines(weights, ["a", "b"], ["x", "y", "z"], "a head").axes
    lines = {tuple(line.get_ydata()): line for line in axes.lines[2:]}
    assert set(lines) == {(query, key) for query in range(2) for key in range(3)}
    assert lines[0, 0].get_linewidth() == 2 * lines[1, 1].get_linewidth() == 4 * lines[1, 2].get_linewidth()
    assert [lines[1, key].get_alpha() for key in range(3)] == [0.25, 0.5, 0.25]
    assert {"a", "b", "x", "y", "z", "a head", "query", "key"} == {text.get_text() for text in axes.texts}


def test_the_output_goes_from_the_second_value_to_the_first() -> None:
    (axes,) = single_head_limit({"dog cat": (1, 0), "cat dog": (0, 1)}, ("left", "right")).axes
    first, second = (line.get_ydata() for line in axes.lines[:2])
    assert list(first) == [0, 1] and list(second) == [1, 0]
    assert sum(first) / 2 == pytest.approx(sum(second) / 2), "they cross in the middle"
    assert [line.get_label() for line in axes.lines[:2]] == ["dog cat", "cat dog"]
    assert [text.get_text() for text in axes.texts] == ["left", "right"]
