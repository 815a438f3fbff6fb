"""The chart of head scores has a dot for each head and measure, ticks for untrained heads, and a menu of models."""

import pandas as pd

from transformer.plots.head_scores import head_scores

TABLE = pd.DataFrame(
    [("encoder", "one back", "encoder 1", 1, 0.5), ("encoder", "one back", "encoder 1", 2, 0.25),
     ("cross", "rest", "cross 1", 1, 0.125)],
    columns=["kind", "measure", "layer", "head", "score"],
)  # fmt: skip


def test_each_head_has_a_dot_in_each_row_and_each_untrained_head_a_tick() -> None:
    models = {"small": (TABLE, TABLE.assign(score=0.1)), "large": (TABLE.assign(score=1.0), TABLE.assign(score=0.2))}
    spec = head_scores(models, "encoder 1, head 1", "point at a head").to_dict()
    (rows,) = spec["datasets"].values()
    assert len(rows) == 4 * len(TABLE)
    small = [
        (row["row"], row["name"], row["score"]) for row in rows if row["model"] == "small" and not row["untrained"]
    ]
    assert small == [
        ("encoder: one back", "encoder 1, head 1", 0.5),
        ("encoder: one back", "encoder 1, head 2", 0.25),
        ("cross: rest", "cross 1, head 1", 0.125),
    ]
    assert {row["score"] for row in rows if row["untrained"]} == {0.1, 0.2}
    assert spec["description"] == "point at a head"
    (menu,) = (param for param in spec["params"] if param["name"] == "model")
    assert menu["bind"]["options"] == ["small", "large"] and menu["value"] == "small"
    assert all(part["width"] <= 300 for part in spec["vconcat"])
    assert spec["usermeta"]["embedOptions"]["renderer"] == "svg" and spec["config"]["background"] == "transparent"


def test_a_chart_is_as_high_as_the_rows_that_the_menu_has_chosen() -> None:
    encoder = TABLE[TABLE["kind"] == "encoder"]
    spec = head_scores({"encoder": (encoder, encoder), "all": (TABLE, TABLE)}, "", "point at a head").to_dict()
    assert spec["vconcat"][0]["height"] == {"step": 24}
    assert spec["autosize"] == {"type": "pad", "resize": True}
