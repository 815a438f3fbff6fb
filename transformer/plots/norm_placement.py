"""Post-norm and pre-norm: layer normalisation after each residual sum (§3.1), or before each sublayer."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer.plots import style
from transformer.plots.boxes import NORM, draw_solid_box

PARTS = ("attention", "feed-forward")
STEP = 3.6
"""The height of a sublayer."""


def norm_placement() -> Figure:
    """Draw an encoder layer with post-norm and one with pre-norm; the residual stream is pink and runs upwards."""
    with style.in_style():
        figure, axes = style.new_drawing(4.3, 4.3, (-1.0, 8.6), (-1.0, 9.6))
        for x, name in ((0.0, "post-norm"), (4.75, "pre-norm")):
            post = name == "post-norm"
            draw_stream(axes, x, -0.3, 9.5)
            axes.text(x + 1.5, -0.75, name, ha="center", va="center", fontsize=12)
            for number, part in enumerate(PARTS):
                draw_sublayer(axes, x, 0.2 + number * STEP, part, post)
            if not post:
                draw_solid_box(axes, x, 8.15, "norm", colour=NORM, dashed=True)
                axes.text(x + 0.85, 8.15, "once, after the\nlast layer", ha="left", va="center", fontsize=9)
    return figure


def draw_stream(axes: Axes, x: float, bottom: float, top: float) -> None:
    """Draw the residual stream as a thick arrow upwards."""
    arrow = {"arrowstyle": "simple,tail_width=0.3,head_width=0.9,head_length=0.8", "mutation_scale": 18}
    axes.annotate("", (x, top), (x, bottom), arrowprops={**arrow, "color": style.OUTPUT, "lw": 0}, zorder=1)


def draw_sublayer(axes: Axes, x: float, y: float, part: str, post: bool, norm: str = "norm") -> float:
    """Draw a sublayer whose input branches off the residual stream at height y, its residual sum and its norm.

    Args:
        axes: where to draw.
        x, y: where the sublayer's input branches off.
        part: the name of the sublayer.
        post: whether the norm comes after the residual sum (post-norm) or before the sublayer (pre-norm).
        norm: the name of the norm.

    Returns:
        The height of the sublayer's box.
    """
    branch = x + 2.5
    top = y + (2.0 if post else 2.7)
    axes.plot([x, branch, branch, x + 0.8], [y, y, top, top], color=style.INK, linewidth=1.5, zorder=1)
    axes.annotate("", (x + 0.25, top), (x + 1, top), arrowprops={"arrowstyle": "-|>", "color": style.INK, "lw": 1.5})
    axes.text(
        x,
        top,
        "+",
        ha="center",
        va="center",
        fontsize=13,
        bbox={"boxstyle": "circle,pad=0.15", "facecolor": style.OUTPUT, "edgecolor": style.INK},
    )
    middle = y + (1.0 if post else 1.75)
    draw_solid_box(axes, branch, middle, part, width=2.5)
    draw_solid_box(axes, *((x, top + 0.85) if post else (branch, y + 0.75)), norm, max(1.4, 0.21 * len(norm)), NORM)
    return middle
