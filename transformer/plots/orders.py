"""The same parts in two orders: the norm on the residual stream (the paper), or before each sublayer (its code)."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from transformer.plots import style

NORM, SUBLAYER = "#F0E442", "#606060"
"""Colours that mean nothing elsewhere in the course."""
PARTS = ("attention", "feed-forward")
STEP = 3.6
"""Height of a sublayer."""


def orders() -> Figure:
    """An encoder layer with post-norm and one with pre-norm, side by side; the stream runs upwards, in pink."""
    with style.in_style():
        figure, axes = style.new_figure(5.0, 4.3)
        axes.set_position((0, 0, 1, 1))
        axes.set_xlim(-1.6, 9.6)
        axes.set_ylim(-1.0, 9.6)
        axes.axis("off")
        for x, name in ((0.0, "post-norm"), (5.6, "pre-norm")):
            post = name == "post-norm"
            axes.plot([x, x], [-0.3, 8.8], color=style.OUTPUT, linewidth=5, zorder=1, solid_capstyle="butt")
            axes.annotate("", (x, 9.3), (x, 8.6), arrowprops={"arrowstyle": "-|>", "color": style.OUTPUT, "lw": 3})
            axes.text(x + 1.3, -0.75, name, ha="center", va="center", fontsize=12)
            for number, part in enumerate(PARTS):
                _sublayer(axes, x, 0.2 + number * STEP, part, post)
            if not post:
                _box(axes, x, 8.15, "norm", dashed=True)
                axes.text(x + 0.85, 8.15, "once, at the\nstack's end", ha="left", va="center", fontsize=9)
    return figure


def _sublayer(axes: Axes, x: float, y: float, part: str, post: bool) -> None:
    """From where the branch leaves the stream, at height y, to where it comes back; the norm where it belongs."""
    branch = x + 2.5
    back = y + (2.0 if post else 2.7)
    axes.plot([x, branch, branch, x + 0.8], [y, y, back, back], color=style.INK, linewidth=1.5, zorder=1)
    axes.annotate("", (x + 0.25, back), (x + 1, back), arrowprops={"arrowstyle": "-|>", "color": style.INK})
    axes.text(x, back, "+", ha="center", va="center", fontsize=13, bbox={"boxstyle": "circle,pad=0.15", **_face()})
    _box(axes, branch, y + (1.0 if post else 1.75), part, width=2.5)
    _box(axes, *((x, back + 0.85) if post else (branch, y + 0.75)), "norm")


def _box(axes: Axes, x: float, y: float, text: str, width: float = 1.4, dashed: bool = False) -> None:
    shape = FancyBboxPatch(
        (x - width / 2, y - 0.33), width, 0.66, boxstyle="round,pad=0.04", linestyle="--" if dashed else "-", **_face()
    )
    axes.add_patch(shape)
    ink = "white" if text != "norm" else "black"
    shape.set(facecolor=NORM if text == "norm" else SUBLAYER, zorder=2)
    axes.text(x, y, text, ha="center", va="center", fontsize=9.5, color=ink, zorder=3)


def _face() -> dict[str, Any]:
    """What lies on the stream covers it."""
    return {"facecolor": style.OUTPUT, "edgecolor": style.INK}
