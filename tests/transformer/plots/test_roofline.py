"""The two clocks: what the pictures compute is the arithmetic that they tell."""

import json
import re
from typing import Any

import pytest

from transformer.plots.roofline import GPUS, Gpu, Operation, roofs, time_explorer

ADD = Operation("add", flop=1, traffic=12)
PRODUCT = Operation("product", flop=1000, traffic=8, weights=4000)


def test_a_roof_rises_with_the_memory_and_ends_at_the_peak() -> None:
    (axes,) = roofs({"a": Gpu(10, 1000, 1)}, [ADD, PRODUCT], tokens=1000).axes
    line = next(line for line in axes.lines if line.get_label() == "a")
    reached = dict(zip(*map(list, line.get_data()), strict=True))
    assert reached[1.0] == 1 and reached[4.0] == 4  # 1000 GB/s at a FLOP a byte are 1 TFLOP/s
    assert max(reached.values()) == 10


def test_marks_stand_at_the_intensity_of_the_whole_batch() -> None:
    (axes,) = roofs({"a": Gpu(10, 1000, 1)}, [ADD, PRODUCT], tokens=1000).axes
    marks = [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == ":"]
    assert marks == pytest.approx([1 / 12, 1000 * 1000 / (8 * 1000 + 4000)])
    assert [text.get_text() for text in axes.texts] == ["1", "2"]


def chart() -> dict[str, Any]:
    operations = [
        Operation("apart", 1, 2, unless="fused"),
        Operation("joined", 1, 2, only="fused"),
        PRODUCT,
    ]
    return json.loads(time_explorer(operations, {"fused": "fuse it"}, description="bars").to_json())


def test_the_chart_knows_every_gpu_by_its_data_sheet() -> None:
    """In microseconds: 10¹² FLOP a second are 10⁶ in each, 10⁹ bytes are 10³."""
    text = json.dumps(chart())
    for name, gpu in GPUS.items():
        assert f"gpu == '{name}' ? {1e6 * gpu.teraflops}" in text
        assert f"gpu == '{name}' ? {1e3 * gpu.bandwidth}" in text


def test_a_choice_swaps_operations() -> None:
    found = re.search(r'"filter": "([^"]+)"', json.dumps(chart()))
    assert found
    assert found[1] == "(datum.unless != 'fused' || !fused) && (datum.only != 'fused' || fused)"
