"""The arcs are as wide as the weights, and the words that change without the head are highlighted."""

import pytest
import torch

from transformer.plots import style
from transformer.plots.ablated_head import ablated_head

WORDS = ["The", "old", "dog"]


def test_arcs_lead_from_the_queries_and_changed_words_are_highlighted() -> None:
    weights = torch.tensor([[0.25, 0.25, 0.5], [1.0, 0, 0], [0, 1.0, 0]])
    (axes,) = ablated_head(WORDS, weights, [0], "Der alte Hund", "Die alte Hund").axes
    assert sorted(arc.get_linewidth() for arc in axes.patches) == [1.0, 2.0], "none from other words or to itself"
    colours = {text.get_text(): text.get_color() for text in axes.texts}
    assert colours["Die"] == style.WRONG
    assert colours["Der"] == colours["alte"] == style.INK


def test_translations_of_different_lengths_are_rejected() -> None:
    with pytest.raises(ValueError, match="3 and 2 words"):
        ablated_head(WORDS, torch.eye(3), [0], "Der alte Hund", "Der Hund")
