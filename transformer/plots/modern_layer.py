"""A layer of the paper and a layer of today's language models, side by side."""

from matplotlib.figure import Figure

from transformer.plots import style
from transformer.plots.norm_placement import STEP, draw_stream, draw_sublayer

LAYERS = {
    "2017": ("post", "layer norm", ("attention", "ReLU network")),
    "today": ("pre", "RMSNorm", ("GQA + RoPE", "SwiGLU")),
}
"""Placement and name of the norm, and the two sublayers, from below."""


def modern_layer() -> Figure:
    """Draw both layers; the residual stream is pink and runs upwards."""
    with style.in_style():
        figure, axes = style.new_drawing(5.0, 3.6, (-1.6, 9.6), (-1.0, 7.6))
        for x, (name, (placement, norm, parts)) in zip((0.0, 5.6), LAYERS.items(), strict=True):
            draw_stream(axes, x, -0.3, 7.5)
            axes.text(x + 1.5, -0.75, name, ha="center", va="center", fontsize=12)
            for number, part in enumerate(parts):
                draw_sublayer(axes, x, 0.2 + number * STEP, part, placement == "post", norm)
    return figure
