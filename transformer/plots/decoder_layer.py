"""A decoder layer: causal self-attention, cross-attention to the encoder's output, feed-forward (§3.1)."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer.plots import style
from transformer.plots.boxes import draw_solid_box
from transformer.plots.norm_placement import STEP, draw_stream, draw_sublayer

NOTES = {
    "self-attention": "to the target\ntokens so far\n(causal mask)",
    "cross-attention": "",
    "feed-forward": "applied to each\nposition separately",
}
"""What each sublayer is applied to."""
BRANCH = 2.5
"""The x coordinate of the sublayers' boxes; the residual stream is at 0."""


def decoder_layer() -> Figure:
    """Draw a decoder layer with post-norm; the residual stream is pink, runs upwards, and passes three sublayers."""
    with style.in_style():
        figure, axes = style.new_drawing(4.2, 5.2, (-1.4, 8.0), (-1.2, 11.6))
        draw_stream(axes, 0, -0.3, 11.5)
        axes.text(-1.3, -0.8, "target representations", ha="left", va="center", fontsize=9.5)
        for number, (name, note) in enumerate(NOTES.items()):
            height = draw_sublayer(axes, 0, 0.2 + number * STEP, name, post=True)
            axes.text(BRANCH + 1.5, height, note, ha="left", va="center", fontsize=9.5)
            if name == "cross-attention":
                _draw_memory(axes, height)
    return figure


def _draw_memory(axes: Axes, height: float) -> None:
    """Draw the encoder's output beside cross-attention, and where queries, keys and values come from."""
    draw_solid_box(axes, 6.95, height, "memory", width=1.9)
    axes.text(6.95, height - 0.85, "the encoder's\noutput", ha="center", va="center", fontsize=9.5)
    for name, colour, shift in (("keys", style.KEY, 0.17), ("values", style.VALUE, -0.17)):
        ends = (BRANCH + 1.3, height + shift), (5.96, height + shift)
        axes.annotate("", *ends, arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2})
        axes.text(4.9, height + 2.4 * shift, name, ha="center", va="center", fontsize=9.5)
    axes.annotate(
        "",
        (BRANCH, height - 0.36),
        (BRANCH, height - 1),
        arrowprops={"arrowstyle": "-|>", "color": style.QUERY, "lw": 2},
    )
    axes.text(BRANCH + 0.2, height - 0.75, "queries", ha="left", va="center", fontsize=9.5)
