"""Positions as clocks: every pair of dimensions is a hand, and each turns more slowly than the one before."""

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
"""The hand that is looked at."""
SIGNED: Final = "brownbluegreen"
"""The colour map of an encoding's values: brown is -1, white 0, blue-green 1."""
WIDTH = 280
"""Of a chart, in pixels: it fits a phone."""
ACROSS = 4
"""Clocks side by side."""


def clocks(d_model: int, length: int, description: str) -> Any:
    """An Altair chart: a clock for each pair of dimensions, all set to one position, and the wave of a chosen pair.

    A hand starts at twelve and turns clockwise, so that its tip is (sin, cos): the pair's two numbers.

    Args:
        d_model: two for each clock.
        length: positions to choose from.
        description: the alt text.
    """
    pairs = d_model // 2
    place = alt.param("pos", value=3, bind=alt.binding_range(min=0, max=length - 1, step=1, name="position "))
    choice = alt.param("pair", value=1, bind=alt.binding_range(min=0, max=pairs - 1, step=1, name="pair "))
    frequency = angles(2, d_model)[1].numpy()
    wall = pd.DataFrame({"i": np.arange(pairs), "frequency": frequency, "wavelength": 2 * np.pi / frequency})
    wall["cx"], wall["cy"] = 2.4 * (wall.i % ACROSS), -3.1 * (wall.i // ACROSS)
    trail = wall.merge(pd.DataFrame({"p": np.arange(length)}), how="cross")

    rows = -(-pairs // ACROSS)
    unit = WIDTH / (2.4 * ACROSS)
    plane = [
        alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-1.2, 2.4 * ACROSS - 1.2], nice=False)),
        alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[1.2 - 3.1 * rows, 1.2], nice=False)),
    ]

    def at(table: pd.DataFrame, position: str) -> alt.Chart:
        """Hands of the table set to a position."""
        tips = {
            "x": f"datum.cx + sin({position} * datum.frequency)",
            "y": f"datum.cy + cos({position} * datum.frequency)",
        }
        return alt.Chart(table).transform_calculate(**tips, chosen="datum.i == pair")

    def either(yes: Any, no: Any) -> Any:
        return alt.condition("datum.chosen", alt.value(yes), alt.value(no))

    hands = at(wall, "pos")
    dial = (
        alt.Chart(wall)
        .transform_calculate(chosen="datum.i == pair", x="datum.cx", y="datum.cy")
        .mark_point(size=(2 * unit) ** 2, filled=False, opacity=1)
        .encode(*plane, color=either(HAND, style.PLAIN), strokeWidth=either(2.5, 1))
    )
    past = at(trail, "datum.p").transform_filter("datum.p <= pos").mark_circle(size=9, opacity=0.7, color=style.PLAIN)
    needle = hands.mark_rule(strokeCap="round").encode(
        alt.X("cx:Q", axis=None), alt.Y("cy:Q", axis=None), x2="x:Q", y2="y:Q",
        color=either(HAND, "currentColor"), strokeWidth=either(4, 2),
    )  # fmt: skip
    tip = hands.mark_circle(size=50, opacity=1).encode(*plane, color=either(HAND, "currentColor"))
    name = alt.Chart(wall).transform_calculate(
        x="datum.cx",
        y="datum.cy - 1.4",
        words="'λ ' + format(datum.wavelength, datum.wavelength < 100 ? '.1f' : ',.0f')",
    )
    names = name.mark_text(fontSize=12).encode(*plane, text="words:N")
    all_clocks = (dial + past.encode(*plane) + needle + tip + names).properties(
        width=WIDTH, height=3.1 * rows * unit, title="Every pair is a hand (λ: its wavelength)"
    )

    turning = f"pow(10000, -2 * pair / {d_model})"
    wave = alt.Chart(alt.sequence(0, length - 0.75, 0.25, as_="p")).transform_calculate(
        sine=f"sin(datum.p * {turning})", cosine=f"cos(datum.p * {turning})"
    )
    across = alt.X("p:Q", title="position", scale=alt.Scale(domain=[0, length - 1], nice=False))
    up: Any = {"title": None, "scale": alt.Scale(domain=[-1, 1]), "axis": alt.Axis(values=[-1, 0, 1], format="d")}
    sine = wave.mark_line(color="currentColor", strokeWidth=2).encode(across, alt.Y("sine:Q", **up))
    cosine = wave.mark_line(color="currentColor", strokeWidth=1.5, strokeDash=[3, 3]).encode(
        across, alt.Y("cosine:Q", **up)
    )
    here = alt.Chart(pd.DataFrame({"one": [1]})).transform_calculate(
        p="pos", sine=f"sin(pos * {turning})", cosine=f"cos(pos * {turning})"
    )
    line = here.mark_rule(color=HAND).encode(across)
    dots: Any = {"color": HAND, "size": 70, "opacity": 1}
    ends = here.mark_circle(**dots).encode(across, alt.Y("sine:Q", **up)) + here.mark_circle(**dots).encode(
        across, alt.Y("cosine:Q", **up)
    )
    waves = (sine + cosine + line + ends).properties(
        width=WIDTH, height=80, title="The chosen pair: sine (line), cosine (dashes)"
    )
    reading = here.transform_calculate(
        first=f"'position ' + pos + ', pair ' + pair + ': turned by ' + format(pos * {turning}, '.2f') + ' radians'",
        second="'sin ' + format(datum.sine, '.2f') + ', cos ' + format(datum.cosine, '.2f')",
    )
    words = reading.mark_text(align="left", fontSize=13).encode(x=alt.value(0), y=alt.value(8), text="first:N")
    words += reading.mark_text(align="left", fontSize=13).encode(x=alt.value(0), y=alt.value(26), text="second:N")
    chart = alt.vconcat(all_clocks, waves, words.properties(width=WIDTH, height=34), description=description)
    return style.chart_style(chart.add_params(place, choice))


def heat_map(encoding: Tensor, description: str) -> Any:
    """An Altair chart of an encoding, a row for each position: point at a cell to read it and to see its column.

    Args:
        encoding: (length, d_model), from -1 to 1.
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
    pointed = grid.transform_filter(cell).mark_rect(fillOpacity=0, stroke=style.WRONG, strokeWidth=3)
    cells = (colours + pointed).properties(width=WIDTH, height=6 * length)
    picked = base.transform_filter(column)
    along = alt.X("pos:Q", title="position", scale=alt.Scale(domain=[0, length - 1], nice=False))
    up = alt.Y("value:Q", title=None, scale=alt.Scale(domain=[-1, 1]), axis=alt.Axis(values=[-1, 0, 1], format="d"))
    drawn = picked.mark_line(color="currentColor", strokeWidth=1.5, point={"color": "currentColor", "size": 14})
    spot = base.transform_filter(cell).mark_circle(color=HAND, size=80, opacity=1).encode(along, up)
    wave = (drawn.encode(along, up) + spot).properties(width=WIDTH, height=70, title="The column: one wave")
    reading = base.transform_filter(cell)
    words = reading.mark_text(align="left", fontSize=13).encode(x=alt.value(0), y=alt.value(8), text="sentence:N")
    words += reading.mark_text(align="left", fontSize=13).encode(x=alt.value(0), y=alt.value(26), text="wave:N")
    chart = alt.vconcat(cells, words.properties(width=WIDTH, height=34), wave, description=description)
    return style.chart_style(chart)


def turning(query: Sequence[float], key: Sequence[float], frequency: float, description: str) -> Any:
    """An Altair chart of one pair of rotary positions: set where query and key stand, and read their dot product.

    Args:
        query: two numbers.
        key: two numbers.
        frequency: the angle from one position to the next, in radians.
        description: the alt text.
    """
    start = (("query", 4), ("key", 2))
    m, n = (
        alt.param(name, value=value, bind=alt.binding_range(min=0, max=12, step=1, name=f"position of the {name} "))
        for name, value in start
    )
    table = pd.DataFrame({"who": ["query", "key"], "a": [query[0], key[0]], "b": [query[1], key[1]], "zero": [0, 0]})
    turned = (
        alt.Chart(table)
        .transform_calculate(angle=f"{frequency} * (datum.who == 'query' ? query : key)")
        .transform_calculate(
            x="datum.a * cos(datum.angle) - datum.b * sin(datum.angle)",
            y="datum.a * sin(datum.angle) + datum.b * cos(datum.angle)",
        )
    )
    reach, across, up = alt.Scale(domain=[-2, 2], nice=False), "even dimension", "odd dimension"
    x, y = (alt.X("x:Q", scale=reach, title=across), alt.Y("y:Q", scale=reach, title=up))
    colour = alt.Color("who:N", scale=alt.Scale(domain=["query", "key"], range=[style.QUERY, style.KEY]), legend=None)
    arrow = turned.mark_rule(strokeWidth=4, strokeCap="round").encode(
        alt.X("zero:Q", scale=reach, title=across),
        alt.Y("zero:Q", scale=reach, title=up),
        x2="x:Q",
        y2="y:Q",
        color=colour,
    )
    tip = turned.mark_circle(size=90, opacity=1).encode(x, y, colour)
    before = (
        alt.Chart(table)
        .mark_point(size=70, opacity=1)
        .encode(alt.X("a:Q", scale=reach, title=across), alt.Y("b:Q", scale=reach, title=up), color=colour)
    )
    plane = (before + arrow + tip).properties(width=230, height=230, title="Query (blue) and key (orange), turned")
    dot, cross = query[0] * key[0] + query[1] * key[1], query[0] * key[1] - query[1] * key[0]
    gap = f"({frequency} * (query - key))"
    product = f"{dot} * cos{gap} + {cross} * sin{gap}"
    words = (
        alt.Chart(pd.DataFrame({"one": [1]}))
        .transform_calculate(sentence=f"'distance ' + (query - key) + ', dot product ' + format({product}, '.2f')")
        .mark_text(align="left", fontSize=13)
        .encode(x=alt.value(0), text="sentence:N")
        .properties(width=230, height=20)
    )
    return style.chart_style(alt.vconcat(plane, words, description=description).add_params(m, n))


def same_turn(frequency: float, starts: Sequence[int], offset: int) -> Figure:
    """One hand at some positions, and ``offset`` positions later: the arc between is always the same.

    Args:
        frequency: the angle from one position to the next, in radians; ``offset`` of them make less than a full turn.
        starts: positions, a clock for each.
        offset: how far the second hand is ahead.
    """
    with style.in_style():
        figure = Figure(figsize=(1.6 * len(starts), 1.9))
        for axes, start in zip(figure.subplots(1, len(starts), squeeze=False)[0], starts, strict=True):
            first, last = frequency * start, frequency * (start + offset)
            axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=style.PLAIN))
            for angle, colour, width in ((first, style.PLAIN, 2), (last, HAND, 4)):
                axes.plot([0, np.sin(angle)], [0, np.cos(angle)], color=colour, linewidth=width, solid_capstyle="round")
            # A hand's angle runs clockwise from twelve; matplotlib's the other way round from three.
            span = (90 - np.degrees(last), 90 - np.degrees(first))
            axes.add_patch(Arc((0, 0), 1.1, 1.1, theta1=span[0], theta2=span[1], edgecolor=HAND, linewidth=2))
            axes.set_title(f"{start} → {start + offset}")
            axes.set_xlim(-1.1, 1.1)
            axes.set_ylim(-1.1, 1.1)
            axes.set_aspect("equal")
            axes.axis("off")
    return figure
