"""The roofline figures compute attainable throughput and minimum times from the data sheets."""

import json
import re
from typing import Any

import pytest

from transformer.plots import style
from transformer.plots.roofline import (
    GPUS,
    Gpu,
    Operation,
    attainable_teraflops,
    operation_times,
    ridge_point,
    roofline,
)

ADD = Operation("add", flop=1, traffic=12)
PRODUCT = Operation("product", flop=1000, traffic=8, weights=4000)


def test_throughput_grows_with_intensity_up_to_the_peak() -> None:
    gpu = Gpu(10, 1000, 1)  # 1000 GB/s at 1 FLOP per byte are 1 TFLOP/s
    assert [attainable_teraflops(gpu, intensity) for intensity in (1, 4, 10, 100)] == [1, 4, 10, 10]
    (axes,) = roofline({"a": gpu}, [], tokens=1000).axes
    (line,) = axes.lines
    assert list(line.get_xdata())[1] == ridge_point(gpu) == 10
    assert list(line.get_ydata())[1:] == [10, 10]


def test_operations_are_on_the_first_roofline_at_the_intensity_of_the_whole_batch() -> None:
    gpus = {"a": Gpu(10, 1000, 1), "b": Gpu(1, 1000, 1)}
    (axes,) = roofline(gpus, [ADD, PRODUCT], tokens=1000).axes
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [dot.get_xdata()[0] for dot in dots] == pytest.approx([1 / 12, 1000 * 1000 / (8 * 1000 + 4000)])
    assert [dot.get_ydata()[0] for dot in dots] == pytest.approx([1 / 12, 10])
    assert [dot.get_color() for dot in dots] == [style.KEY, style.QUERY]  # memory-bound, compute-bound
    assert [text.get_text() for text in axes.texts] == ["add", "product"]


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
