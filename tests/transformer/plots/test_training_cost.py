"""The chart of training hours and prices follows its sliders for the selected model."""

from typing import Any

from transformer.plots.training_cost import TABLE_WIDTH, training_cost


def spec() -> dict[str, Any]:
    flop, peaks = {"base": 3.6e18, "big": 3.6e19}, {"slow": 100.0, "fast": 1000.0}
    chart: dict[str, Any] = training_cost(
        flop, peaks, {"slow": 0.5, "fast": 2.0}, {"base": 12.0, "big": 84.0}, "8 P100", "move the sliders"
    ).to_dict()
    return chart


def test_hours_are_operations_divided_by_throughput() -> None:
    settings = {p["name"]: p["value"] for p in spec()["params"] if "bind" in p}
    assert settings == {"model": "base", "share": 15, "devices": 1, "factor": 1.0}
    (dots,) = (layer for layer in spec()["layer"] if layer["mark"]["type"] == "point")
    (hours,) = (step["calculate"] for step in dots["transform"] if step.get("as") == "hours")
    row = {"flop": 3.6e18, "peak": 100.0}
    formula = hours.replace("datum.flop", "flop").replace("datum.peak", "peak")
    assert abs(eval(formula, {}, settings | row) - 1000 / 15) < 1e-9
    assert eval(formula, {}, settings | row | {"share": 60, "devices": 4}) == 1000 / 60 / 4


def test_the_price_is_that_of_all_devices_for_these_hours() -> None:
    settings = {p["name"]: p["value"] for p in spec()["params"] if "bind" in p}
    (dots,) = (layer for layer in spec()["layer"] if layer["mark"]["type"] == "point")
    (cost,) = (step["calculate"] for step in dots["transform"] if step.get("as") == "cost")
    formula = cost.removeprefix("format(").split(",")[0].replace("datum.", "")
    assert eval(formula, {}, settings | {"hours": 10, "price": 0.5, "devices": 4, "factor": 2}) == 40


def test_each_model_has_a_row_for_each_device_and_one_report() -> None:
    data = list(spec()["datasets"].values())
    (rows,) = (table for table in data if "peak" in table[0])
    assert [(row["model"], row["device"]) for row in rows] == [
        ("base", "slow"), ("base", "fast"), ("big", "slow"), ("big", "fast"),
    ]  # fmt: skip
    (reports,) = (table for table in data if "label" in table[0])
    assert [row["label"] for row in reports] == ["┊ 8 P100: 12 h", "┊ 8 P100: 84 h"]


def test_the_numbers_stay_beside_the_dots_when_a_phone_makes_the_chart_narrower() -> None:
    chart = spec()
    (dots,) = (layer for layer in chart["layer"] if layer["mark"]["type"] == "point")
    assert dots["encoding"]["x"]["scale"]["range"] == [0, {"expr": f"width - {TABLE_WIDTH}"}]
    places = [layer["encoding"]["x"].get("value") for layer in chart["layer"] if layer["mark"].get("align") == "right"]
    spaces = [int(place["expr"].removeprefix("width - ")) for place in places]
    assert len(spaces) == 4 and max(spaces) < TABLE_WIDTH


def test_it_follows_the_page() -> None:
    chart = spec()
    assert chart["description"] == "move the sliders"
    assert chart["usermeta"]["embedOptions"]["renderer"] == "svg" and chart["config"]["background"] == "transparent"
