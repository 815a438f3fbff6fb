"""The roofline model: what limits the operations of a layer on a GPU, arithmetic or memory bandwidth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd
from matplotlib.figure import Figure

from transformer.plots import style

WIDTH = 190


@dataclass(frozen=True)
class Gpu:
    """Figures from the data sheet of a GPU, not measurements."""

    teraflops: float
    """Peak throughput in TFLOP/s of dense 16-bit matrix products with 32-bit accumulation."""
    bandwidth: float
    """Memory bandwidth in GB/s."""
    memory: float
    """Memory in GB."""


GPUS = {
    "T4": Gpu(65, 320, 16),
    "L4": Gpu(121, 300, 24),
    "V100": Gpu(125, 900, 32),
    "RTX 4090": Gpu(165, 1008, 24),
    "A100": Gpu(312, 2039, 80),
    "H100": Gpu(989, 3350, 80),
}
"""GPUs by name; the SXM module where there are several. T4 and V100 support float16 only, the others bfloat16 too."""


@dataclass(frozen=True)
class Operation:
    """The cost of an operation: its arithmetic and its memory traffic."""

    name: str
    flop: float
    """Floating-point operations per token."""
    traffic: float
    """Bytes read and written per token."""
    weights: float = 0.0
    """Bytes read once, regardless of the number of tokens."""
    unless: str = ""
    """The option that removes the operation."""
    only: str = ""
    """The option that adds the operation."""


def roofline(gpus: Mapping[str, Gpu], operations: Sequence[Operation], tokens: int) -> Figure:
    """Draw GPUs' attainable throughput against arithmetic intensity, and operations as dots on the first roofline.

    Args:
        gpus: name → data sheet; at most three.
        operations: the operations to show. A dot is orange if the first GPU's memory bandwidth limits the operation,
            and blue if its arithmetic does.
        tokens: the number of tokens in the batch.
    """
    with style.in_style():
        figure, axes = style.new_figure(4.8, 3.6)
        line_styles = ((style.INK, "-"), (style.PLAIN, "--"), (style.PLAIN, ":"))
        for name, gpu, colour, dashes in style.style_lines(gpus, line_styles):
            x = [0.02, ridge_point(gpu), 3000]
            y = [attainable_teraflops(gpu, intensity) for intensity in x]
            axes.plot(x, y, dashes, color=colour, label=name, linewidth=1.5)
        first = next(iter(gpus.values()))
        for operation in operations:
            intensity = arithmetic_intensity(operation, tokens)
            colour = style.KEY if intensity < ridge_point(first) else style.QUERY
            y_dot = attainable_teraflops(first, intensity)
            axes.plot(intensity, y_dot, "o", color=colour, markersize=7)
            offset: Any = {"xytext": (-7, 4), "textcoords": "offset points", "ha": "right", "fontsize": 10}
            axes.annotate(operation.name, (intensity, y_dot), **offset)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.margins(y=0.09)  # room for the labels at the top
        axes.set_xlabel("arithmetic intensity (FLOP per byte)")
        axes.set_title("Attainable throughput (TFLOP/s)", loc="left")
        axes.grid(True)
        axes.legend(loc="lower right", fontsize=10)
    return figure


def arithmetic_intensity(operation: Operation, tokens: int) -> float:
    """Return an operation's arithmetic intensity in FLOP per byte, with ``tokens`` tokens in the batch."""
    return operation.flop * tokens / (operation.traffic * tokens + operation.weights)


def ridge_point(gpu: Gpu) -> float:
    """Return the arithmetic intensity in FLOP per byte above which an operation is compute-bound on a GPU."""
    return 1e3 * gpu.teraflops / gpu.bandwidth


def attainable_teraflops(gpu: Gpu, intensity: float) -> float:
    """Return the highest throughput in TFLOP/s that a GPU can reach at an arithmetic intensity."""
    return min(gpu.teraflops, gpu.bandwidth * intensity / 1e3)


def operation_times(operations: Sequence[Operation], options: Mapping[str, str], description: str) -> Any:
    """Return an Altair bar chart of the estimated time of each operation, by GPU, batch size and fusion.

    Args:
        operations: the operations, from top to bottom.
        options: name, as in ``Operation.unless`` and ``only`` → label of its checkbox.
        description: the alt text.
    """
    gpu = alt.param("gpu", value="H100", bind=alt.binding_select(options=list(GPUS), name="GPU "))
    sizes = [2**i for i in range(6, 17, 2)]
    size_menu = alt.binding_select(options=sizes, labels=[f"{size:,}" for size in sizes], name="tokens ")
    size = alt.param("size", value=2**14, bind=size_menu)
    boxes = [
        alt.param(name, value=False, bind=alt.binding_checkbox(name=f"{label} ")) for name, label in options.items()
    ]
    flops = " : ".join(f"gpu == '{name}' ? {1e6 * sheet.teraflops}" for name, sheet in GPUS.items()) + " : 1"
    bandwidths = " : ".join(f"gpu == '{name}' ? {1e3 * sheet.bandwidth}" for name, sheet in GPUS.items()) + " : 1"
    rows = [vars(operation) for operation in operations]
    is_shown = " && ".join(
        [f"(datum.unless != '{name}' || !{name}) && (datum.only != '{name}' || {name})" for name in options]
    )
    table = (
        alt.Chart(pd.DataFrame(rows))
        .transform_filter(is_shown or "true")
        .transform_calculate(arithmetic=f"datum.flop * size / ({flops})")
        .transform_calculate(memory=f"(datum.traffic * size + datum.weights) / ({bandwidths})")
        .transform_calculate(
            microseconds="max(datum.arithmetic, datum.memory)",
            limit="datum.arithmetic >= datum.memory ? 'compute-bound' : 'memory-bound'",
        )
    )
    y = alt.Y("name:N", sort=[operation.name for operation in operations], title=None, axis=alt.Axis(labelLimit=170))
    bars = table.mark_bar(height=15).encode(
        alt.X("microseconds:Q", title="estimated time (microseconds)", axis=alt.Axis(tickCount=3, labelFlush=True)),
        y,
        alt.Color(
            "limit:N",
            scale=alt.Scale(domain=["compute-bound", "memory-bound"], range=[style.QUERY, style.KEY]),
            legend=alt.Legend(
                title=None, orient="top", direction="vertical", labelColor="currentColor", labelFontSize=12
            ),
        ),
        tooltip=[
            alt.Tooltip("name:N", title="operation"),
            alt.Tooltip("arithmetic:Q", title="arithmetic (µs)", format=".3~g"),
            alt.Tooltip("memory:Q", title="memory traffic (µs)", format=".3~g"),
        ],
    )
    line = (
        table.transform_aggregate(arithmetic_total="sum(arithmetic)", total="sum(microseconds)")
        .transform_calculate(
            text="format(size, ',') + ' tokens: ' + format(datum.total, ',.3~r')"
            " + ' µs, ' + format(datum.arithmetic_total / datum.total, '.0%') + ' of peak'"
        )
        .mark_text(align="left", fontSize=13)
        .encode(x=alt.value(-130), y=alt.value(8), text="text:N")
        .properties(width=WIDTH, height=16)
    )
    chart = bars.properties(width=WIDTH, height=25 * len(operations))
    return style.chart_style(alt.vconcat(line, chart, description=description).add_params(gpu, size, *boxes))
