"""The figures of the first two chapters: lines and arcs of attention, embeddings, layers, dependence by distance."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch

from transformer.plots.attention_arcs import attention_arcs
from transformer.plots.attention_lines import WIDTH, attention_lines, centres
from transformer.plots.embedding_lookup import DIMENSIONS, embedding_lookup
from transformer.plots.gradient_decay import gradient_decay
from transformer.plots.layer_stacks import layer_stacks
from transformer.plots.style import KEY, QUERY, VALUE

ENGLISH, GERMAN = ["a", "red", "hat"], ["ein", "Hut"]


def test_lines_are_as_thick_as_the_weights_and_only_some_are_coloured() -> None:
    weights = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]])
    (axes,) = attention_lines(weights, GERMAN, ENGLISH, ("English", "German"), highlighted=[1]).axes
    widths = [patch.get_linewidth() for patch in axes.patches]
    assert widths == pytest.approx((5 * weights).flatten().tolist())
    blue = [patch.get_edgecolor()[:3] == pytest.approx((0, 114 / 255, 178 / 255)) for patch in axes.patches]
    assert QUERY == "#0072B2" and blue == [False] * 3 + [True] * 3
    assert {text.get_text() for text in axes.texts} == {*ENGLISH, *GERMAN, "English", "German"}


def test_words_are_spread_over_the_width_without_overlap() -> None:
    first, last = centres(["hippopotamus", "a"])
    assert 0 < first < last < WIDTH and first > WIDTH - last


def test_each_token_has_an_id_a_row_of_the_table_and_two_vectors() -> None:
    table, memory = torch.randn(1000, 32), torch.randn(3, 32)
    (axes,) = embedding_lookup(ENGLISH, [7, 900, 30], table, memory).axes
    assert len(axes.images) == 3 * 3
    drawn = torch.as_tensor(np.asarray(axes.images[1].get_array())).float()
    assert drawn.shape == (1, DIMENSIONS)
    torch.testing.assert_close(drawn[0] / drawn.abs().max(), table[7, :DIMENSIONS] / table[7, :DIMENSIONS].abs().max())
    texts = {text.get_text() for text in axes.texts}
    assert {"7", "900", "30", "embedding table\n(1,000 × 32)", "memory\n(3 × 32)"} <= texts


@pytest.mark.parametrize("n_layers", [2, 6])
def test_every_layer_of_the_decoder_reads_the_memory(n_layers: int) -> None:
    (axes,) = layer_stacks(n_layers, "a red hat", "<bos> ein", "roter").axes
    arrows = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    assert sum(to_hex(arrow.get_edgecolor()).upper() == VALUE for arrow in arrows) == n_layers
    texts = [text.get_text() for text in axes.texts]
    assert texts.count("cross-attention") == 1 and {"a red hat", "<bos> ein", "roter"} <= set(texts)
    assert [texts.count(f"layer {i}") for i in range(1, n_layers + 2)] == [2] * n_layers + [0]


def test_a_gradient_of_zero_ends_its_line() -> None:
    (axes,) = gradient_decay({"recurrent": [1.0, 0.1], "convolution": [1.0, 0.0]}).axes
    assert axes.get_yscale() == "log"
    drawn = [np.asarray(line.get_ydata()) for line in axes.lines]
    np.testing.assert_equal(drawn, [[1.0, 0.1], [1.0, np.nan]])


def test_arcs_lead_to_all_other_words_with_a_weight() -> None:
    weights = torch.tensor([[0.75, 0.05, 0.2], [0.0, 0.8, 0.2]])
    (axes,) = attention_arcs([["dog", "milk", "it"]] * 2, query=2, weights=weights).axes
    assert [patch.get_linewidth() for patch in axes.patches] == pytest.approx([6 * 0.75, 6 * 0.05, 6 * 0.8])
    edges = []
    for text in axes.texts:
        box = text.get_bbox_patch()
        assert box is not None
        edges.append((text.get_text(), to_hex(box.get_edgecolor(), keep_alpha=True).upper()))
    nothing, key, blue = "#00000000", f"{KEY}FF", f"{QUERY}FF"
    assert edges == [
        ("dog", key), ("milk", nothing), ("it", blue), ("dog", nothing), ("milk", key), ("it", blue),
    ]  # fmt: skip
