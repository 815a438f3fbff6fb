"""Boxes and arrows, of which the figures of whole models consist."""

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from transformer.plots import style

Point = tuple[float, float]


def draw_box(axes: Axes, x: float, y: float, text: str, colour: str, width: float, filled: bool = False) -> None:
    """Draw a box with a coloured edge around a text, whose centre is at (x, y)."""
    fill = to_rgba(colour, 0.15) if filled else "none"
    shape = FancyBboxPatch((x - width / 2, y - 0.25), width, 0.5, boxstyle="round,pad=0.07", fc=fill, ec=colour)
    shape.set_linewidth(2)
    axes.add_patch(shape)
    axes.text(x, y, text, ha="center", va="center", fontsize=9)


def draw_arrow(axes: Axes, start: Point, end: Point, colour: str = style.INK) -> None:
    """Draw a straight arrow."""
    axes.add_patch(
        FancyArrowPatch(
            start, end, color=colour, linewidth=1.4, arrowstyle="-|>", mutation_scale=9, shrinkA=0, shrinkB=0
        )
    )
