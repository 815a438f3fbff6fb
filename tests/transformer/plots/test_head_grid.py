"""The grid of heads has each weight once, a small heat map for each head, and menus to select one."""

from typing import Any

import torch

from tests.transformer.plots.panels import panels
from transformer.plots.head_grid import head_grid

SOURCE, TARGET = ["dogs", "left", "room"], ["Hunde", "verließen"]
WEIGHTS = {"encoder 1": torch.rand(2, 3, 3), "cross 1": torch.rand(2, 2, 3)}
WORDS = {"encoder 1": (SOURCE, SOURCE), "cross 1": (TARGET, SOURCE)}


def spec() -> dict[str, Any]:
    return head_grid(WEIGHTS, WORDS, "choose a head").to_dict()


def rows(chart: dict[str, Any], *fields: str) -> list[dict[str, Any]]:
    (table,) = (data for data in chart["datasets"].values() if set(data[0]) == set(fields))
    return table


def test_each_weight_occurs_once() -> None:
    queries = rows(spec(), "l", "h", "q", "w")
    assert len(queries) == 2 * 3 + 2 * 2
    for query in queries:
        weights = list(WEIGHTS.values())[query["l"]][query["h"], query["q"]]
        torch.testing.assert_close(torch.tensor(query["w"]), weights, atol=1e-3, rtol=0)


def test_each_head_has_a_small_map_and_each_layer_its_words() -> None:
    chart = spec()
    assert len(rows(chart, "l", "h")) == 4
    words = [(row["l"], row["is_query"], row["word"]) for row in rows(chart, "l", "is_query", "position", "word")]
    assert words[:3] == [(0, True, "dogs"), (0, True, "left"), (0, True, "room")]
    assert (1, True, "verließen") in words and (1, False, "room") in words and (1, False, "Hunde") not in words


def test_menus_select_layer_and_head_and_it_fits_a_phone() -> None:
    chart = spec()
    assert chart["description"] == "choose a head"
    (selected,) = (param for param in chart["params"] if param["name"] == "selected")
    assert selected["bind"]["l"]["labels"] == list(WEIGHTS) and selected["bind"]["h"]["labels"] == ["1", "2"]
    assert selected["value"] == [{"l": 1, "h": 0}], "at first the last layer"
    assert all(part["width"] <= 300 for part in panels(chart))
    assert chart["usermeta"]["embedOptions"]["renderer"] == "svg" and chart["config"]["background"] == "transparent"


def test_another_head_can_be_selected_at_first() -> None:
    chart = head_grid(WEIGHTS, WORDS, "choose a head", first=("encoder 1", 1)).to_dict()
    (selected,) = (param for param in chart["params"] if param["name"] == "selected")
    assert selected["value"] == [{"l": 0, "h": 1}]


def test_marked_cells_have_frames_in_the_large_map_of_their_head() -> None:
    chart = head_grid(WEIGHTS, WORDS, "choose a head", marked={("cross 1", 1): [(0, 2), (1, 0)]}).to_dict()
    assert rows(chart, "l", "h", "q", "k") == [{"l": 1, "h": 1, "q": 0, "k": 2}, {"l": 1, "h": 1, "q": 1, "k": 0}]
    frames = [
        layer for part in panels(chart) for layer in part.get("layer", []) if layer["mark"].get("filled") is False
    ]
    assert len(frames) == 1 and frames[0]["transform"][0] == {"filter": {"param": "selected"}}
