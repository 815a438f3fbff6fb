"""The figures of positional encoding show the values of the package, follow the style of the page and fit a phone."""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.patches import Arc

from tests.transformer.plots.panels import panels
from transformer.plots import positional_encoding as plots
from transformer.plots import style
from transformer.positions import sinusoidal_encoding

ENCODING = sinusoidal_encoding(12, 8)
CHARTS = {
    "clocks": cache(lambda: plots.clocks(8, 20, "move it")),
    "heat_map": cache(lambda: plots.encoding_heat_map(ENCODING, "point at it")),
    "rotary_dot_product": cache(lambda: plots.rotary_dot_product((1.5, 0.5), (1, 1), 0.5, "turn them")),
}


def rows(chart: Any, *columns: str) -> list[dict[str, Any]]:
    """Return the table of the chart that has these columns."""
    (table,) = (data for data in chart.to_dict()["datasets"].values() if set(columns) <= set(data[0]))
    return table


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_follows_the_page_and_fits_a_phone(name: str) -> None:
    spec = CHARTS[name]().to_dict()
    assert spec["description"]
    assert spec["usermeta"]["embedOptions"]["renderer"] == "svg" and spec["config"]["background"] == "transparent"
    assert all(part["width"] <= 300 for part in panels(spec))
    assert len(spec["params"]) >= 2


def test_there_is_a_clock_for_each_pair_in_rows_of_four() -> None:
    clocks = [row for data in plots.clocks(12, 20, "x").to_dict()["datasets"].values() for row in data
            if "cx" in row and "p" not in row]  # fmt: skip
    assert [row["i"] for row in clocks] == list(range(6))
    assert [row["wavelength"] for row in clocks] == pytest.approx([2 * math.pi * 10000 ** (i / 6) for i in range(6)])
    assert clocks[4]["cx"] == clocks[0]["cx"] and clocks[4]["cy"] < clocks[0]["cy"] == clocks[3]["cy"]


def test_the_sliders_end_with_the_positions_and_the_pairs() -> None:
    ends = {one["name"]: one["bind"]["max"] for one in CHARTS["clocks"]().to_dict()["params"] if "bind" in one}
    assert ends == {"pos": 19, "pair": 3}


def test_a_heat_map_has_every_number_of_the_encoding() -> None:
    cells = rows(CHARTS["heat_map"](), "pos", "dim", "value", "wavelength")
    assert len(cells) == 12 * 8
    for cell in cells:
        assert cell["value"] == pytest.approx(float(ENCODING[cell["pos"], cell["dim"]]), abs=1e-3)
        assert cell["wavelength"] == pytest.approx(2 * math.pi * 10 ** (cell["dim"] // 2), abs=1e-2)


def test_the_same_offset_is_the_same_angle_everywhere() -> None:
    figure = plots.relative_offset(1.0, (1, 4, 9), 2)
    for axes, start in zip(figure.axes, (1, 4, 9), strict=True):
        before, after = ([x.get_xdata()[1], x.get_ydata()[1]] for x in axes.lines)  # type: ignore[index]
        assert before == pytest.approx([math.sin(start), math.cos(start)])
        assert after == pytest.approx([math.sin(start + 2), math.cos(start + 2)])
        (arc,) = (patch for patch in axes.patches if isinstance(patch, Arc))
        assert arc.theta2 - arc.theta1 == pytest.approx(math.degrees(2))
    assert figure.get_figwidth() <= 5
    assert style.INK not in style.Picture(figure, "turns")._repr_html_()


def test_each_digit_has_a_wave_that_is_high_where_the_digit_is_1() -> None:
    figure = plots.digits_and_waves(3)
    for n, axes in enumerate(figure.axes):
        steps, wave, _ = axes.lines
        assert list(steps.get_ydata()) == [int(f"{position:03b}"[-1 - n]) for position in range(8)]
        height = np.interp(range(8), wave.get_xdata(), wave.get_ydata())
        assert ((height > 0.5) == (np.asarray(steps.get_ydata()) == 1)).all()
    assert figure.get_figwidth() <= 5


def test_the_values_of_a_pair_are_the_tip_of_its_hand() -> None:
    """In the clocks, sin is the horizontal and cos the vertical coordinate."""
    assert torch.equal(sinusoidal_encoding(1, 8)[0], torch.tensor([0.0, 1.0]).repeat(4))
