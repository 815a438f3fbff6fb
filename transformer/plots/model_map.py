"""A small map of the Transformer (Figure 1 of the paper), on which each chapter highlights what it is about."""

from functools import partial

from matplotlib.figure import Figure

from transformer.plots import style
from transformer.plots.boxes import draw_arrow, draw_box, draw_frame

PARTS = {
    "source tokens": "source tokens",
    "target tokens": "target tokens",
    "embedding": "embedding",
    "positional encoding": "+ positional encoding",
    "encoder": "N × encoder",
    "decoder": "N × decoder",
    "self-attention": "self-attention",
    "masked self-attention": "masked self-attention",
    "cross-attention": "cross-attention",
    "feed-forward": "feed-forward",
    "add & norm": "add & norm",
    "memory": "memory",
    "linear & softmax": "linear & softmax",
    "probabilities": "next-token probabilities",
}
"""The parts that can be highlighted, and what the map calls them."""

ENCODER, DECODER = 3.05, 9.15
"""The x coordinates of the two stacks."""
SIDE, TOP = 2.45, 0.32
"""The distances from the centre of a box to its sides and to its top."""
STEP, NORM = 0.94, 0.67
"""How far it is from a box up to the next one with an arrow between them, and from a sublayer up to its norm."""
FILL = 0.4
"""The opacity of highlighted parts."""


def model_map(*parts: str) -> Figure:
    """Draw the whole model, from the tokens at the bottom to the probabilities at the top, and highlight some parts.

    Args:
        parts: the parts to highlight, such as ``"positional encoding"``, each of them wherever it occurs.

    Raises:
        ValueError: if the map has no such part.
    """
    if unknown := sorted(set(parts) - set(PARTS)):
        raise ValueError(f"the map has no part {', '.join(map(repr, unknown))}; it has {', '.join(map(repr, PARTS))}")
    with style.in_style():
        figure, axes = style.new_drawing(3.7, 3.09, (0, 12.2), (0, 10.19))
        line = partial(axes.plot, solid_capstyle="butt", zorder=0.5)

        def box(x: float, y: float, part: str, colour: str, width: float = 2 * SIDE, edge: float = 1.2) -> None:
            """Draw a part in a grey box (without one if ``edge=0``), or in a filled one if it is highlighted."""
            on = part in parts
            width -= 0.14  # the padding
            draw_box(axes, x, y, PARTS[part], colour if on else style.PLAIN, width, FILL * on, 2 if on else edge)

        def arrow(x: float, below: float, above: float) -> None:
            """Draw an arrow up from one box to another."""
            draw_arrow(axes, (x, below + TOP), (x, above - TOP))

        def stack(x: float, name: str, sublayers: list[str], colour: str, outside: int) -> float:
            """Draw one stack, whose residual connections are on its left (-1) or right (1); return its height."""
            bottom = 0.35
            box(x, bottom, "source tokens" if name == "encoder" else "target tokens", colour, 3.2, edge=0)
            for y, part in ((bottom + STEP, "embedding"), (bottom + 2 * STEP, "positional encoding")):
                arrow(x, y - STEP, y)
                box(x, y, part, colour)
            below, y = bottom + 2 * STEP, bottom + 3 * STEP + 0.35
            frame = y - 0.61
            for part in sublayers:
                arrow(x, below, y)
                box(x, y, part, colour)
                box(x, y + NORM, "add & norm", colour)
                edge, around, branch = x + SIDE * outside, x + (SIDE + 0.22) * outside, y - 0.49
                line([x, around, around, edge], [branch, branch, y + NORM, y + NORM], color=style.INK, linewidth=1)
                below, y = y + NORM, y + NORM + STEP
            side, left = ("left", x - SIDE - 0.37) if outside == -1 else ("right", x - SIDE - 0.14)
            look = (colour, FILL) if name in parts else (style.PLAIN, 0)
            draw_frame(axes, left, frame, 2 * SIDE + 0.51, below + 0.46 - frame, *look)
            axes.text(x + (SIDE + 0.45) * outside, below + 0.86, PARTS[name], ha=side, va="center", fontsize=9)
            return below

        top = stack(ENCODER, "encoder", ["self-attention", "feed-forward"], style.KEY, -1)
        sublayers = ["masked self-attention", "cross-attention", "feed-forward"]
        last = stack(DECODER, "decoder", sublayers, style.QUERY, 1)

        out, into, middle = top + 1.3, top - NORM, (ENCODER + DECODER) / 2
        line([ENCODER, ENCODER, middle, middle], [top + TOP, out, out, into], color=style.VALUE, linewidth=2, zorder=2)
        draw_arrow(axes, (middle, into), (DECODER - SIDE, into), style.VALUE)
        box((ENCODER + middle) / 2, out + 0.42, "memory", style.VALUE, 2.1, edge=0)
        output = last + STEP + 0.55
        arrow(DECODER, last, output)
        box(DECODER, output, "linear & softmax", style.QUERY)
        arrow(DECODER, output, output + STEP)
        box(DECODER, output + STEP, "probabilities", style.QUERY, 5.4, edge=0)
    return figure
