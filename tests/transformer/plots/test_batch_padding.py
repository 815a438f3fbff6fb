"""The figures of batches draw the tokens and the padding of each batch."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.collections import PolyCollection

from tests.transformer.plots.panels import panels
from transformer.data.batching import Sequences, collate
from transformer.plots import batch_padding

LENGTHS = np.array([5, 1, 4, 2, 3, 9, 1, 2])


def spec() -> dict:
    return batch_padding.batch_explorer(LENGTHS, (6, 12), (1, 4, 8), "move the sliders", start=(12, 8)).to_dict()


def rows_with(column: str) -> list[dict]:
    (rows,) = (rows for rows in spec()["datasets"].values() if column in rows[0])
    return rows


def test_both_sides_are_drawn_with_their_padding() -> None:
    batch = collate(Sequences.pack([[5], [6, 7, 8]]), Sequences.pack([[5, 6], [7, 8]]), [0, 1])
    figure = batch_padding.batch_padding(batch, "two pairs")
    assert [axes.get_xlabel() for axes in figure.axes] == ["source:\n25% padding", "target:\n0% padding"]
    for axes, ids in zip(figure.axes, (batch.source, batch.labels), strict=True):
        (mesh,) = axes.collections
        assert np.ma.count(mesh.get_array()) == int((ids != 0).sum())


def test_the_comparison_draws_every_token_and_the_padding_of_each_batch() -> None:
    unsorted, by_length = np.split(np.arange(8), [3, 5]), np.split(np.argsort(LENGTHS), [4, 6])
    figure = batch_padding.padding_comparison(LENGTHS, {"unsorted": unsorted, "by length": by_length})
    # unsorted: 5 1 4 | 2 3 | 9 1 2, 15 + 6 + 27 positions; by length: 1 1 2 2 | 3 4 | 5 9, 8 + 8 + 18; 27 tokens
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["unsorted:\n44% padding", "by length:\n21% padding"]
    for axes, batches in zip(figure.axes, (unsorted, by_length), strict=True):
        drawn = axes.collections
        for batch, tokens, padding in zip(batches, drawn[::2], drawn[1::2], strict=True):
            assert area(tokens) == LENGTHS[batch].sum()
            assert area(padding) == len(batch) * LENGTHS[batch].max() - LENGTHS[batch].sum()


def area(collection: PolyCollection) -> float:
    """Return the area of the polygons, by the shoelace formula."""
    outlines = (path.vertices for path in collection.get_paths())
    return sum(abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2 for x, y in (v.T for v in outlines))


def test_paths_run_through_all_pairs_and_change_colour_with_each_batch() -> None:
    order = batch_padding.pooled_order(LENGTHS, 8)
    batches = [order[:3], order[3:6], order[6:]]
    figure = batch_padding.sorting_paths(LENGTHS + 1, LENGTHS, {"sorted": (order, batches)})
    (panel,) = figure.axes
    path, *of_batches, ring = panel.lines
    assert list(path.get_xdata()) == list(LENGTHS[order] + 1) and list(path.get_ydata()) == sorted(LENGTHS)
    assert [len(line.get_xdata()) for line in of_batches] == [3, 3, 2]
    colours = [line.get_color() for line in of_batches]
    assert colours[0] == colours[2] != colours[1]
    assert list(ring.get_ydata()) == [min(LENGTHS)] and panel.get_title(loc="left") == "sorted"


def test_a_pool_of_one_sorts_nothing_and_a_pool_of_all_sorts_all() -> None:
    assert batch_padding.pooled_order(LENGTHS, 1).tolist() == list(range(8))
    assert LENGTHS[batch_padding.pooled_order(LENGTHS, 8)].tolist() == sorted(LENGTHS)
    assert LENGTHS[batch_padding.pooled_order(LENGTHS, 4)].tolist() == [1, 2, 4, 5, 1, 2, 3, 9]


@pytest.mark.parametrize("budget", [1, 6, 12, 100])
def test_batches_keep_the_budget_and_contain_every_sentence(budget: int) -> None:
    order = batch_padding.pooled_order(LENGTHS, 4)
    batches = batch_padding.cut_batches(order, LENGTHS, budget)
    assert np.concatenate(batches).tolist() == order.tolist()
    assert all(LENGTHS[batch].sum() <= budget or len(batch) == 1 for batch in batches)
    for batch, following in pairwise(batches):
        assert LENGTHS[batch].sum() + LENGTHS[following[0]] > budget, "the next sentence would have exceeded the budget"


def test_the_text_summarises_the_batches() -> None:
    texts = {(row["b"], row["p"], row["line"]): row["text"] for row in rows_with("text")}
    assert len(texts) == 2 * 3 * 3
    assert texts[6, 1, 0] == "not sorted" and texts[12, 8, 0] == "sorted by length in pools of 8"
    # 1 1 2 2 3 | 4 5 | 9: 15 + 10 + 9 cells for 27 tokens
    assert texts[12, 8, 1] == "21% padding"
    assert texts[12, 8, 2] == "3 batches of 1 to 5 sentences"


def test_every_sentence_is_a_row_beside_its_padding() -> None:
    rows = [row for row in rows_with("y") if (row["b"], row["p"]) == (12, 8)]
    assert sorted((row["n"], row["w"]) for row in rows) == [
        (1, 3), (1, 3), (2, 3), (2, 3), (3, 3), (4, 5), (5, 5), (9, 9),
    ]  # fmt: skip


def test_large_batches_are_sampled() -> None:
    shown = batch_padding.batch_explorer(np.arange(1, 101), (6000, 7000), (1,), "of 100", start=(6000, 1)).to_dict()
    (rows,) = (rows for rows in shown["datasets"].values() if "y" in rows[0])
    lengths = [row["n"] for row in rows if row["b"] == 6000]
    assert len(lengths) == batch_padding.N_ROWS and (lengths[0], lengths[-1]) == (1, 100)


def test_tokens_and_padding_are_in_the_same_rows() -> None:
    (view,) = (part for part in panels(spec()) if "layer" in part and len(part["layer"]) == 2)
    padding, tokens = (layer["encoding"] for layer in view["layer"])
    assert padding["y"] == tokens["y"] and padding["y2"] == tokens["y2"]
    assert (tokens["x2"]["field"], padding["x"]["field"], padding["x2"]["field"]) == ("n", "n", "w")


def test_every_batch_is_a_dot() -> None:
    (dots,) = (rows for rows in spec()["datasets"].values() if "w" in rows[0] and "y" not in rows[0])
    assert [(dot["w"], dot["n"]) for dot in dots if (dot["b"], dot["p"]) == (12, 8)] == [(3, 5), (5, 2), (9, 1)]


def test_it_follows_the_page_and_fits_a_phone() -> None:
    shown = spec()
    assert shown["description"] == "move the sliders"
    assert shown["usermeta"]["embedOptions"]["renderer"] == "svg" and shown["config"]["background"] == "transparent"
    assert all(part["width"] <= 300 for part in panels(shown))
    assert [param["value"] for param in shown["params"] if "bind" in param] == [12, 8]
