"""The strips have a dot for each head and measure, ticks for chance, and a menu of models."""

import pandas as pd

from transformer.plots.head_strips import head_strips

TABLE = pd.DataFrame(
    [("encoder", "one back", "encoder 1", 1, 0.5), ("encoder", "one back", "encoder 1", 2, 0.25),
     ("cross", "rest", "cross 1", 1, 0.125)],
    columns=["kind", "what", "layer", "head", "share"],
)  # fmt: skip


def test_each_head_has_a_dot_in_each_row_and_chance_its_ticks() -> None:
    models = {"small": (TABLE, TABLE.assign(share=0.1)), "large": (TABLE.assign(share=1.0), TABLE.assign(share=0.2))}
    spec = head_strips(models, "encoder 1, head 1", "point at a head").to_dict()
    (rows,) = spec["datasets"].values()
    assert len(rows) == 4 * len(TABLE)
    small = [(row["row"], row["name"], row["share"]) for row in rows if row["model"] == "small" and not row["random"]]
    assert small == [
        ("encoder: one back", "encoder 1, head 1", 0.5),
        ("encoder: one back", "encoder 1, head 2", 0.25),
        ("cross: rest", "cross 1, head 1", 0.125),
    ]
    assert {row["share"] for row in rows if row["random"]} == {0.1, 0.2}
    assert spec["description"] == "point at a head"
    (menu,) = (param for param in spec["params"] if param["name"] == "model")
    assert menu["bind"]["options"] == ["small", "large"] and menu["value"] == "small"
    assert all(part["width"] <= 300 for part in spec["vconcat"])
    assert spec["usermeta"]["embedOptions"]["renderer"] == "svg" and spec["config"]["background"] == "transparent"
