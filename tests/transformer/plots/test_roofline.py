"""The roofline figures compute attainable throughput and minimum times from the data sheets."""

import json
import re
from typing import Any

import pytest

from transformer.plots.roofline import GPUS, Gpu, Operation, operation_times, roofline

ADD = Operation("add", flop=1, traffic=12)
PRODUCT = Operation("product", flop=1000, traffic=8, weights=4000)


def test_throughput_grows_with_intensity_up_to_the_peak() -> None:
    (axes,) = roofline({"a": Gpu(10, 1000, 1)}, [ADD, PRODUCT], tokens=1000).axes
    line = next(line for line in axes.lines if line.get_label() == "a")
    throughput = dict(zip(*map(list, line.get_data()), strict=True))
    assert throughput[1.0] == 1 and throughput[4.0] == 4  # 1000 GB/s at 1 FLOP per byte are 1 TFLOP/s
    assert max(throughput.values()) == 10


def test_marks_are_at_the_intensity_of_the_whole_batch() -> None:
    (axes,) = roofline({"a": Gpu(10, 1000, 1)}, [ADD, PRODUCT], tokens=1000).axes
    marks = [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == ":"]
    assert marks == pytest.approx([1 / 12, 1000 * 1000 / (8 * 1000 + 4000)])
    assert [text.get_text() for text in axes.texts] == ["1", "2"]


def chart() -> dict[str, Any]:
    operations = [
        Operation("apart", 1, 2, unless="fused"),
        Operation("joined", 1, 2, only="fused"),
        PRODUCT,
    ]
    return json.loads(operation_times(operations, {"fused": "fuse it"}, description="bars").to_json())


def test_the_chart_knows_every_gpu_by_its_data_sheet() -> None:
    """In microseconds: 1 TFLOP/s is 10⁶ FLOP per microsecond, 1 GB/s is 10³ bytes per microsecond."""
    text = json.dumps(chart())
    for name, gpu in GPUS.items():
        assert f"gpu == '{name}' ? {1e6 * gpu.teraflops}" in text
        assert f"gpu == '{name}' ? {1e3 * gpu.bandwidth}" in text


def test_an_option_swaps_operations() -> None:
    match = re.search(r'"filter": "([^"]+)"', json.dumps(chart()))
    assert match
    assert match[1] == "(datum.unless != 'fused' || !fused) && (datum.only != 'fused' || fused)"
