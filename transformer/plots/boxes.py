"""Boxes and arrows, the building blocks of the figures of models and layers."""

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from transformer.plots import style

Point = tuple[float, float]

NORM, SUBLAYER = "#F0E442", "#606060"
"""Colours of the solid boxes."""


def draw_box(
    axes: Axes, x: float, y: float, text: str, colour: str, width: float, fill: float = 0, edge: float = 2
) -> None:
    """Draw a box with a coloured edge around a text, whose centre is at (x, y).

    Args:
        axes: where to draw.
        x, y: the centre.
        text: what is written in the box.
        colour: the colour of the edge and of the fill.
        width: the width without the padding of 0.07 on each side; the height is 0.64.
        fill: the opacity of the fill.
        edge: the width of the edge, in points.
    """
    face = to_rgba(colour, fill) if fill else "none"
    shape = FancyBboxPatch((x - width / 2, y - 0.25), width, 0.5, boxstyle="round,pad=0.07", fc=face, ec=colour)
    shape.set_linewidth(edge)
    axes.add_patch(shape)
    axes.text(x, y, text, ha="center", va="center", fontsize=9)


def draw_frame(
    axes: Axes, left: float, bottom: float, width: float, height: float, colour: str = style.PLAIN, fill: float = 0
) -> None:
    """Draw a dashed frame around several boxes, and behind them a fill of some opacity."""
    face = to_rgba(colour, fill) if fill else "none"
    shape = FancyBboxPatch((left, bottom), width, height, boxstyle="round,pad=0.08", fc=face, ec=colour, linestyle="--")
    shape.set_zorder(0)
    axes.add_patch(shape)


def draw_solid_box(
    axes: Axes, x: float, y: float, text: str, width: float = 1.4, colour: str = SUBLAYER, dashed: bool = False
) -> None:
    """Draw a box in one solid colour, which covers what is behind it, with a text at its centre (x, y)."""
    dashes = "--" if dashed else "-"
    shape = FancyBboxPatch((x - width / 2, y - 0.33), width, 0.66, "round,pad=0.04", linestyle=dashes)
    shape.set(facecolor=colour, edgecolor=style.INK, zorder=2)
    axes.add_patch(shape)
    ink = "black" if colour == NORM else "white"
    axes.text(x, y, text, ha="center", va="center", fontsize=9.5, color=ink, zorder=3)


def draw_arrow(axes: Axes, start: Point, end: Point, colour: str = style.INK) -> None:
    """Draw a straight arrow."""
    axes.add_patch(
        FancyArrowPatch(
            start, end, color=colour, linewidth=1.4, arrowstyle="-|>", mutation_scale=9, shrinkA=0, shrinkB=0
        )
    )
