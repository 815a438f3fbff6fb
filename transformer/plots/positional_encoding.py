"""Sinusoidal positional encoding (§3.5) and rotary positions: each pair of dimensions rotates at its own frequency."""

from collections.abc import Sequence
from typing import Any, Final

import altair as alt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Arc, Circle
from torch import Tensor

from transformer.plots import style
from transformer.positions import angles

HAND = "#35978F"
"""The colour of the selected clock hand."""
SIGNED: Final = "brownbluegreen"
"""The colour map of the encoding: brown is -1, white is 0, blue-green is 1."""
WIDTH = 280
"""The width of a chart in pixels."""
COLUMNS = 4
"""The number of clocks in a row."""


def clocks(d_model: int, length: int, description: str) -> Any:
    """Return an Altair chart with a clock for each pair of dimensions, and the waves of a selected pair.

    A hand starts at twelve o'clock and rotates clockwise, so its tip is (sin, cos), the two values of the pair.

    Args:
        d_model: the number of dimensions, two for each clock.
        length: the number of positions.
        description: the alt text.
    """
    pairs = d_model // 2
    position = alt.param("pos", value=3, bind=alt.binding_range(min=0, max=length - 1, step=1, name="position "))
    selected_pair = alt.param("pair", value=1, bind=alt.binding_range(min=0, max=pairs - 1, step=1, name="pair "))
    frequency = angles(2, d_model)[1].numpy()
    table = pd.DataFrame({"i": np.arange(pairs), "frequency": frequency, "wavelength": 2 * np.pi / frequency})
    table["cx"], table["cy"] = 2.4 * (table.i % COLUMNS), -3.1 * (table.i // COLUMNS)
    trail = table.merge(pd.DataFrame({"p": np.arange(length)}), how="cross")

    rows = -(-pairs // COLUMNS)
    unit = WIDTH / (2.4 * COLUMNS)
    plane = [
        alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-1.2, 2.4 * COLUMNS - 1.2], nice=False)),
        alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[1.2 - 3.1 * rows, 1.2], nice=False)),
    ]

    def hands_at(clocks: pd.DataFrame, position: str) -> alt.Chart:
        """Return the tips of the hands at a position."""
        tips = {
            "x": f"datum.cx + sin({position} * datum.frequency)",
            "y": f"datum.cy + cos({position} * datum.frequency)",
        }
        return alt.Chart(clocks).transform_calculate(**tips, selected="datum.i == pair")

    def if_selected(then: Any, otherwise: Any) -> Any:
        return alt.condition("datum.selected", alt.value(then), alt.value(otherwise))

    hands = hands_at(table, "pos")
    dial = (
        alt.Chart(table)
        .transform_calculate(selected="datum.i == pair", x="datum.cx", y="datum.cy")
        .mark_point(size=(2 * unit) ** 2, filled=False, opacity=1)
        .encode(*plane, color=if_selected(HAND, style.PLAIN), strokeWidth=if_selected(2.5, 1))
    )
    past = hands_at(trail, "datum.p").transform_filter("datum.p <= pos").mark_circle(size=28, opacity=0.6, color=HAND)
    needle = hands.mark_rule(strokeCap="round").encode(
        alt.X("cx:Q", axis=None), alt.Y("cy:Q", axis=None), x2="x:Q", y2="y:Q",
        color=if_selected(HAND, "currentColor"), strokeWidth=if_selected(4, 2),
    )  # fmt: skip
    tip = hands.mark_circle(size=50, opacity=1).encode(*plane, color=if_selected(HAND, "currentColor"))
    label = alt.Chart(table).transform_calculate(
        x="datum.cx",
        y="datum.cy - 1.4",
        text="'λ ' + format(datum.wavelength, datum.wavelength < 100 ? '.1f' : ',.0f')",
    )
    labels = label.mark_text(fontSize=12).encode(*plane, text="text:N")
    all_clocks = (dial + past.encode(*plane) + needle + tip + labels).properties(
        width=WIDTH, height=3.1 * rows * unit, title="A clock for each pair (λ: wavelength)"
    )

    frequency_of_pair = f"pow(10000, -2 * pair / {d_model})"
    wave = alt.Chart(alt.sequence(0, length - 0.75, 0.25, as_="p")).transform_calculate(
        sine=f"sin(datum.p * {frequency_of_pair})", cosine=f"cos(datum.p * {frequency_of_pair})"
    )
    x = alt.X("p:Q", title="position", scale=alt.Scale(domain=[0, length - 1], nice=False))
    y: Any = {"title": None, "scale": alt.Scale(domain=[-1, 1]), "axis": alt.Axis(values=[-1, 0, 1], format="d")}
    sine = wave.mark_line(color="currentColor", strokeWidth=2).encode(x, alt.Y("sine:Q", **y))
    cosine = wave.mark_line(color="currentColor", strokeWidth=1.5, strokeDash=[3, 3]).encode(x, alt.Y("cosine:Q", **y))
    current = alt.Chart(pd.DataFrame({"one": [1]})).transform_calculate(
        p="pos", sine=f"sin(pos * {frequency_of_pair})", cosine=f"cos(pos * {frequency_of_pair})"
    )
    line = current.mark_rule(color=HAND).encode(x)
    markers: Any = {"color": HAND, "size": 70, "opacity": 1}
    ends = current.mark_circle(**markers).encode(x, alt.Y("sine:Q", **y)) + current.mark_circle(**markers).encode(
        x, alt.Y("cosine:Q", **y)
    )
    waves = (sine + cosine + line + ends).properties(
        width=WIDTH, height=80, title="Pair: sine (solid), cosine (dashed)"
    )
    reading = current.transform_calculate(
        first="'position ' + pos + ', pair ' + pair + "
        f"': angle ' + format(pos * {frequency_of_pair}, '.2f') + ' radians'",
        second="'sin ' + format(datum.sine, '.2f') + ', cos ' + format(datum.cosine, '.2f')",
    )
    text = reading.mark_text(align="left", fontSize=13).encode(x=alt.value(0), y=alt.value(8), text="first:N")
    text += reading.mark_text(align="left", fontSize=13).encode(x=alt.value(0), y=alt.value(26), text="second:N")
    chart = alt.vconcat(
        all_clocks, alt.vconcat(waves, text.properties(width=WIDTH, height=34)), description=description
    )
    return style.chart_style(chart.add_params(position, selected_pair), side_by_side=True)


def digits_and_waves(n_digits: int) -> Figure:
    """Draw the binary digits of the positions as lines that jump, each with a sine wave of the same period.

    Args:
        n_digits: the number of digits, the last one at the top; there are 2 to the power of this many positions.
    """
    length = 2**n_digits
    positions = np.arange(length)
    smooth = np.linspace(-0.5, length - 0.5, 40 * length)
    with style.in_style():
        figure = Figure(figsize=(4.8, 0.8 * n_digits))
        figure.subplots_adjust(hspace=0.45)
        for n, axes in enumerate(figure.subplots(n_digits, sharex=True)):
            digits = positions >> n & 1
            axes.step(positions, digits, where="mid", color=style.PLAIN, linewidth=1.5)
            axes.plot(smooth, (1 - np.sin(np.pi * (smooth + 0.5) / 2**n)) / 2, color=HAND, linewidth=2.5)
            axes.plot(positions, digits, "o", color=style.PLAIN, markersize=4)
            axes.set_yticks([0, 1])
            axes.set_ylim(-0.12, 1.12)  # no dot is cut in half
            axes.set_ylabel(f"{2**n}s", rotation=0, ha="right", va="center", labelpad=8)
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
        axes.set_xticks(positions[::2])
        axes.set_xlabel("position")
    return figure


def encoding_heat_map(encoding: Tensor, description: str) -> Any:
    """Return an Altair heat map of an encoding with a row for each position, and below it the column under the pointer.

    Args:
        encoding: (length, d_model), values from -1 to 1. Position 10 and dimension 6 are selected at first, so it needs
            at least 11 positions and 7 dimensions.
        description: the alt text.
    """
    length, d_model = encoding.shape
    rows, columns = np.indices((length, d_model)).reshape(2, -1)
    wavelength = np.repeat(2 * np.pi / angles(2, d_model)[1].numpy(), 2)
    table = pd.DataFrame({"pos": rows, "dim": columns, "value": encoding.flatten().numpy().round(3)})
    table["wavelength"] = wavelength[columns].round(2)
    first = [{"pos": 10, "dim": 6}]
    over: Any = {"on": "pointerover", "clear": False, "toggle": False}
    cell = alt.selection_point("cell", fields=["pos", "dim"], value=first, **over)
    column = alt.selection_point("column", fields=["dim"], value=[{"dim": 6}], **over)

    base = alt.Chart(table).transform_calculate(
        sentence="'position ' + datum.pos + ', dimension ' + datum.dim + ': ' + format(datum.value, '.2f')",
        wave="(datum.dim % 2 ? 'cosine' : 'sine') + ' of wavelength ' + format(datum.wavelength, ',.1f')",
    )
    labels: Any = {"ticks": False, "domain": False, "labelAngle": 0}
    values = alt.Color(
        "value:Q",
        scale=alt.Scale(scheme=SIGNED, domain=[-1, 1]),
        legend=alt.Legend(
            title=None, orient="top", gradientLength=120, gradientThickness=10, values=[-1, 0, 1],
            labelColor="currentColor", format="d",
        ),
    )  # fmt: skip
    grid = base.encode(
        alt.X("dim:O", title="dimension", axis=alt.Axis(values=list(range(0, d_model, 4)), **labels)),
        alt.Y("pos:O", title="position", axis=alt.Axis(values=list(range(0, length, 8)), **labels)),
    )
    colours = grid.mark_rect().encode(values, tooltip=["sentence:N", "wave:N"]).add_params(cell, column)
    hovered = grid.transform_filter(cell).mark_rect(fillOpacity=0, stroke=style.WRONG, strokeWidth=3)
    cells = (colours + hovered).properties(width=WIDTH, height=6 * length)
    same_dimension = base.transform_filter(column)
    x = alt.X("pos:Q", title="position", scale=alt.Scale(domain=[0, length - 1], nice=False))
    y = alt.Y("value:Q", title=None, scale=alt.Scale(domain=[-1, 1]), axis=alt.Axis(values=[-1, 0, 1], format="d"))
    line = same_dimension.mark_line(color="currentColor", strokeWidth=1.5, point={"color": "currentColor", "size": 14})
    marker = base.transform_filter(cell).mark_circle(color=HAND, size=80, opacity=1).encode(x, y)
    wave = (line.encode(x, y) + marker).properties(width=WIDTH, height=70, title="One dimension over all positions")
    reading = base.transform_filter(cell)
    text = reading.mark_text(align="left", fontSize=13).encode(x=alt.value(0), y=alt.value(8), text="sentence:N")
    text += reading.mark_text(align="left", fontSize=13).encode(x=alt.value(0), y=alt.value(26), text="wave:N")
    chart = alt.vconcat(cells, alt.vconcat(text.properties(width=WIDTH, height=34), wave), description=description)
    return style.chart_style(chart, side_by_side=True)


def rotary_dot_product(query: Sequence[float], key: Sequence[float], frequency: float, description: str) -> Any:
    """Return an Altair chart of rotary positions in one pair of dimensions, with sliders for both positions.

    It shows that the dot product depends on the positions of query and key only through their offset.

    Args:
        query: two numbers.
        key: two numbers.
        frequency: the angle between neighbouring positions in radians.
        description: the alt text.
    """
    initial = (("query", 4), ("key", 2))
    m, n = (
        alt.param(name, value=value, bind=alt.binding_range(min=0, max=12, step=1, name=f"position of the {name} "))
        for name, value in initial
    )
    table = pd.DataFrame({"vector": ["query", "key"], "a": [query[0], key[0]], "b": [query[1], key[1]], "zero": [0, 0]})
    rotated = (
        alt.Chart(table)
        .transform_calculate(angle=f"{frequency} * (datum.vector == 'query' ? query : key)")
        .transform_calculate(
            x="datum.a * cos(datum.angle) - datum.b * sin(datum.angle)",
            y="datum.a * sin(datum.angle) + datum.b * cos(datum.angle)",
        )
    )
    scale, x_title, y_title = alt.Scale(domain=[-2, 2], nice=False), "even dimension", "odd dimension"
    x, y = (alt.X("x:Q", scale=scale, title=x_title), alt.Y("y:Q", scale=scale, title=y_title))
    colour = alt.Color(
        "vector:N", scale=alt.Scale(domain=["query", "key"], range=[style.QUERY, style.KEY]), legend=None
    )
    arrow = rotated.mark_rule(strokeWidth=4, strokeCap="round").encode(
        alt.X("zero:Q", scale=scale, title=x_title),
        alt.Y("zero:Q", scale=scale, title=y_title),
        x2="x:Q",
        y2="y:Q",
        color=colour,
    )
    tip = rotated.mark_circle(size=90, opacity=1).encode(x, y, colour)
    before = (
        alt.Chart(table)
        .mark_point(size=70, opacity=1)
        .encode(alt.X("a:Q", scale=scale, title=x_title), alt.Y("b:Q", scale=scale, title=y_title), color=colour)
    )
    plane = (before + arrow + tip).properties(width=230, height=230, title="Rotated query (blue) and key (orange)")
    dot, cross = query[0] * key[0] + query[1] * key[1], query[0] * key[1] - query[1] * key[0]
    angle = f"({frequency} * (query - key))"
    product = f"{dot} * cos{angle} + {cross} * sin{angle}"
    text = (
        alt.Chart(pd.DataFrame({"one": [1]}))
        .transform_calculate(
            sentence=f"'offset n − m: ' + format(key - query, 'd') + ', dot product ' + format({product}, '.2f')"
        )
        .mark_text(align="left", fontSize=13)
        .encode(x=alt.value(0), text="sentence:N")
        .properties(width=230, height=20)
    )
    return style.chart_style(alt.vconcat(plane, text, description=description).add_params(m, n))


def relative_offset(frequency: float, starts: Sequence[int], offset: int) -> Figure:
    """Draw a clock hand at several positions and ``offset`` positions later: the angle between them is always the same.

    Args:
        frequency: the angle between neighbouring positions in radians; ``offset`` of them are less than 2π.
        starts: the first position of each clock.
        offset: the distance between the two positions.
    """
    with style.in_style():
        figure = Figure(figsize=(1.6 * len(starts), 1.9))
        for axes, start in zip(figure.subplots(1, len(starts), squeeze=False)[0], starts, strict=True):
            first, last = frequency * start, frequency * (start + offset)
            axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=style.PLAIN))
            for angle, colour, width in ((first, style.PLAIN, 2), (last, HAND, 4)):
                axes.plot([0, np.sin(angle)], [0, np.cos(angle)], color=colour, linewidth=width, solid_capstyle="round")
            # The angle of a hand is clockwise from twelve; matplotlib's is counter-clockwise from three.
            span = (90 - np.degrees(last), 90 - np.degrees(first))
            axes.add_patch(Arc((0, 0), 1.1, 1.1, theta1=span[0], theta2=span[1], edgecolor=HAND, linewidth=2))
            axes.set_title(f"{start} → {start + offset}")
            axes.set_xlim(-1.1, 1.1)
            axes.set_ylim(-1.1, 1.1)
            axes.set_aspect("equal")
            axes.axis("off")
    return figure
