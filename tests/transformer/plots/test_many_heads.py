"""The pictures of several heads show the numbers that attention gives, and the chart has a page for each head."""

import torch

from transformer.attention import attention
from transformer.plots import many_heads

WORDS = ["dogs", "left", "room"]


def test_flow_shows_what_attention_gives() -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 3, 2)
    w_output = torch.randn(4, 4)
    texts = [text.get_text() for text in many_heads.flow(WORDS, query, key, value, w_output).axes[0].texts]
    outputs, weights = attention(query, key, value)
    joined = outputs.transpose(0, 1).flatten(1)
    for table in (query, key, value, weights, joined, joined @ w_output):
        for number in table.flatten().tolist():
            assert many_heads.short(number) in texts
    assert texts.count("left") == 3 and {"head 1", "head 2", "joined", "projected"} <= set(texts)


def test_numbers_are_short() -> None:
    assert [many_heads.short(x) for x in (4.0, -1.0, 0.9412, -0.5, -0.001, 12.5)] == [
        "4",
        "−1",
        ".94",
        "−.50",
        "0",
        "12.50",
    ]


def test_a_weight_map_draws_every_weight_and_counts_places_from_0() -> None:
    weights = torch.rand(2, 3)
    (axes,) = many_heads.weight_map(weights, "head 1").axes
    (mesh,) = axes.collections
    assert torch.equal(torch.as_tensor(mesh.get_array()), weights)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "2"]
    assert axes.get_xlabel() == "head 1"


def test_the_chart_has_a_page_for_each_head_and_one_for_their_mean() -> None:
    weights = torch.stack([torch.eye(3), torch.eye(3).flip(1)])
    spec = many_heads.leaf_through(weights, WORDS, WORDS, "leaf through the heads").to_dict()
    assert spec["description"] == "leaf through the heads"
    assert spec["usermeta"]["embedOptions"]["renderer"] == "svg" and spec["config"]["background"] == "transparent"
    assert all(part["width"] <= 300 for part in spec["vconcat"])
    (rows,) = spec["datasets"].values()
    assert sorted({row["head"] for row in rows}) == [0, 1, 2]
    corner = {row["head"]: row["weight"] for row in rows if row["q"] == 0 and row["k"] == 0}
    assert corner == {0: 0.5, 1: 1.0, 2: 0.0}
