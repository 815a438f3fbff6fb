"""How long each operation of a layer takes at least on a GPU, as bars that follow the choices of the reader."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd
from matplotlib.figure import Figure

from transformer.plots import style

WIDTH = 150


@dataclass(frozen=True)
class Gpu:
    """A data sheet. Nothing here was measured by us."""

    teraflops: float
    """10¹² multiplications and additions a second in dense matrix products of 16-bit numbers, summed in 32 bits."""
    bandwidth: float
    """10⁹ bytes a second between the chip and its memory."""
    memory: float
    """10⁹ bytes."""


GPUS = {
    "T4": Gpu(65, 320, 16),
    "L4": Gpu(121, 300, 24),
    "V100": Gpu(125, 900, 32),
    "RTX 4090": Gpu(165, 1008, 24),
    "A100": Gpu(312, 2039, 80),
    "H100": Gpu(989, 3350, 80),
}
"""By name; where there are several, the SXM module. T4 and V100 have float16 only, the others bfloat16 as well."""


@dataclass(frozen=True)
class Operation:
    """What an operation on so many tokens costs."""

    name: str
    flop: float
    """A token."""
    traffic: float
    """Bytes read and written, a token."""
    weights: float = 0.0
    """Bytes read whatever the number of tokens."""
    unless: str = ""
    """The choice that makes it disappear."""
    only: str = ""
    """The choice that makes it appear."""


def roofs(gpus: Mapping[str, Gpu], operations: Sequence[Operation], tokens: int) -> Figure:
    """Draw what GPUs can reach over FLOP a byte, and mark where operations lie.

    Args:
        gpus: name → data sheet; at most three.
        operations: those to mark; their lines are dotted, and numbered from the left.
        tokens: in the batch.
    """
    with style.in_style():
        figure, axes = style.new_figure(4.4, 3.2)
        intensities = [2.0**i for i in range(-3, 14)]
        looks = ((style.QUERY, "-"), (style.KEY, "--"), (style.VALUE, "-."))
        for (name, gpu), (colour, dashes) in zip(gpus.items(), looks, strict=False):
            bend = 1e3 * gpu.teraflops / gpu.bandwidth
            places = sorted([*intensities, bend])
            axes.plot(
                places, [min(gpu.teraflops, gpu.bandwidth * i / 1e3) for i in places], dashes, color=colour, label=name
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        bottom, top = axes.get_ylim()
        for number, operation in enumerate(operations, start=1):
            intensity = operation.flop * tokens / (operation.traffic * tokens + operation.weights)
            axes.axvline(intensity, color=style.PLAIN, linewidth=1, linestyle=":")
            axes.text(intensity, top * 1.1, str(number), ha="center", va="bottom")
        axes.set_ylim(bottom, top)
        axes.set_xlabel("FLOP a byte")
        axes.set_ylabel("TFLOP a second, at most")
        axes.legend(loc="lower right", fontsize=10)
    return figure


def time_explorer(operations: Sequence[Operation], choices: Mapping[str, str], description: str) -> Any:
    """An Altair chart: choose a GPU, a batch and what is fused; a bar says what each operation takes at least.

    Args:
        operations: from top to bottom.
        choices: name, as in ``Operation.unless`` and ``only`` → label of its box.
        description: the alt text.
    """
    gpu = alt.param("gpu", value="A100", bind=alt.binding_select(options=list(GPUS), name="GPU "))
    size = alt.param("size", value=14, bind=alt.binding_range(min=6, max=16, step=1, name="tokens, as a power of 2 "))
    boxes = [
        alt.param(name, value=False, bind=alt.binding_checkbox(name=f"{label} ")) for name, label in choices.items()
    ]
    flops = " : ".join(f"gpu == '{name}' ? {1e6 * sheet.teraflops}" for name, sheet in GPUS.items()) + " : 1"
    rates = " : ".join(f"gpu == '{name}' ? {1e3 * sheet.bandwidth}" for name, sheet in GPUS.items()) + " : 1"
    rows = [vars(operation) for operation in operations]
    shown = " && ".join(
        [f"(datum.unless != '{name}' || !{name}) && (datum.only != '{name}' || {name})" for name in choices]
    )
    table = (
        alt.Chart(pd.DataFrame(rows))
        .transform_filter(shown or "true")
        .transform_calculate(computing=f"datum.flop * pow(2, size) / ({flops})")
        .transform_calculate(moving=f"(datum.traffic * pow(2, size) + datum.weights) / ({rates})")
        .transform_calculate(
            microseconds="max(datum.computing, datum.moving)",
            clock="datum.computing >= datum.moving ? 'computing' : 'moving bytes'",
        )
    )
    y = alt.Y("name:N", sort=[operation.name for operation in operations], title=None, axis=alt.Axis(labelLimit=170))
    bars = table.mark_bar(height=15).encode(
        alt.X("microseconds:Q", title="microseconds, at least", axis=alt.Axis(tickCount=3)),
        y,
        alt.Color(
            "clock:N",
            scale=alt.Scale(domain=["computing", "moving bytes"], range=[style.QUERY, style.KEY]),
            legend=alt.Legend(title=None, orient="top", labelColor="currentColor", labelFontSize=12),
        ),
        tooltip=[
            alt.Tooltip("name:N", title="operation"),
            alt.Tooltip("computing:Q", title="computing, µs", format=".3~g"),
            alt.Tooltip("moving:Q", title="moving bytes, µs", format=".3~g"),
        ],
    )
    line = (
        table.transform_aggregate(least="sum(computing)", all="sum(microseconds)")
        .transform_calculate(
            text="format(pow(2, size), ',') + ' tokens: ' + format(datum.all, ',.3~r')"
            " + ' µs, ' + format(datum.least / datum.all, '.0%') + ' of the peak'"
        )
        .mark_text(align="left", fontSize=13)
        .encode(x=alt.value(-130), y=alt.value(8), text="text:N")
        .properties(width=WIDTH, height=16)
    )
    chart = bars.properties(width=WIDTH, height=25 * len(operations))
    return style.chart_style(alt.vconcat(line, chart, description=description).add_params(gpu, size, *boxes))
