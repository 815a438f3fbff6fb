"""The architecture of the Transformer (Figure 1 of the paper), with shapes, and with dots where dropout is applied."""

from functools import partial

from matplotlib.figure import Figure

from transformer.config import ModelConfig
from transformer.plots import style
from transformer.plots.boxes import draw_arrow, draw_box, draw_frame

ENCODER, DECODER = 2.3, 7.55
"""The x coordinates of the two stacks."""
STEP, LAYER_STEP = 1.25, 1.85
"""The distance between the centres of neighbouring boxes, outside the layers and inside them."""
PLUS = 0.9
"""How far above the centre of a sublayer its output is added to the residual stream."""


def architecture(config: ModelConfig) -> Figure:
    """Draw both stacks, from the token ids at the bottom to the probabilities at the top.

    Each sublayer has a residual connection around it; dots mark dropout (§5.4).

    Args:
        config: the model, whose sizes are shown.

    Raises:
        ValueError: if its norm, its positions or its embeddings are not those of the paper, which the figure shows.
    """
    if (config.norm, config.positions, config.tie_embeddings) != ("post", "sinusoidal", "all"):
        raise ValueError("the figure shows the paper's model: post-norm, sinusoidal positions, one shared matrix")
    with style.in_style():
        figure, axes = style.new_drawing(4.4, 5.7, (0, 9.85), (0.2, 13.5))

        def box(
            x: float, y: float, text: str, colour: str = style.INK, width: float = 3.2, shaded: bool = False
        ) -> None:
            """Draw a box; those with the matrix E are shaded."""
            draw_box(axes, x, y, text, colour, width, fill=0.15 * shaded)

        arrow = partial(draw_arrow, axes)

        def dot(x: float, y: float) -> None:
            axes.plot(x, y, "o", color=style.INK, markersize=4.5)

        def label(x: float, y: float, text: str, side: int = 1) -> None:
            """Write a label to the right (side 1) or to the left (side -1) of x."""
            alignment = "left" if side == 1 else "right"
            axes.text(x + 0.25 * side, y, text, ha=alignment, va="center", fontsize=9.2, style="italic")

        def sublayer(x: float, y: float, name: str, colour: str, outside: int) -> None:
            """Draw a sublayer, the residual connection around it, and the sum of both, which is then normalised.

            Args:
                outside: on which side of the box the residual connection runs: -1 left, 1 right.
            """
            box(x, y, name, colour)
            axes.plot([x, x], [y + 0.34, y + PLUS - 0.24], color=style.INK, linewidth=1.4)
            dot(x, y + 0.48)
            circle = {"boxstyle": "circle,pad=0.08", "fc": "none", "ec": style.INK, "linewidth": 1.2}
            axes.text(x, y + PLUS, "+", ha="center", va="center", fontsize=9, bbox=circle)
            label(x, y + PLUS, "add & norm", -outside)
            around = x + 1.9 * outside
            axes.plot([x, around, around], [y - 0.6, y - 0.6, y + PLUS], color=style.INK, linewidth=1.4)
            arrow((around, y + PLUS), (x + 0.22 * outside, y + PLUS))

        def stack(x: float, name: str, ids: str, length: str, sublayers: list[str], colour: str, outside: int) -> float:
            """Draw one stack, and return the height of its last box."""
            axes.text(x, 0.45, ids, ha="center", va="center", fontsize=9)
            arrow((x, 0.7), (x, 1.16))
            box(x, 1.5, f"embedding E × √{config.d_model}", shaded=True)
            arrow((x, 1.84), (x, 1.5 + STEP - 0.34))
            box(x, 1.5 + STEP, "+ positional encoding")
            dot(x, 2 + STEP)
            label(x, 2 + STEP, f"({length}, {config.d_model})")
            first = 1.5 + STEP + 1.85
            arrow((x, 1.84 + STEP), (x, first - 0.34))
            for i, text in enumerate(sublayers):
                y = first + i * LAYER_STEP
                sublayer(x, y, text, colour, outside)
                if i + 1 < len(sublayers):
                    arrow((x, y + PLUS + 0.22), (x, y + LAYER_STEP - 0.34))
            last = first + (len(sublayers) - 1) * LAYER_STEP
            draw_frame(axes, x - 2.1, first - 0.8, 4.2, last - first + 2.1)
            axes.text(x + 2.1 * outside, last + 1.65, f"{config.n_layers} × {name}",
                      ha="left" if outside == -1 else "right", va="center", fontsize=9)  # fmt: skip
            return last

        top = stack(ENCODER, "encoder", "source ids", "source", ["self-attention", "feed-forward"], style.KEY, -1)
        sublayers = ["masked self-attention", "cross-attention", "feed-forward"]
        last = stack(DECODER, "decoder", "target ids", "target", sublayers, style.QUERY, 1)

        # The encoder output (memory) goes to the second sublayer of every decoder layer.
        cross, out = last - LAYER_STEP, top + 2.1
        middle = 4.93
        axes.plot([ENCODER, ENCODER], [top + PLUS + 0.24, out], color=style.VALUE, linewidth=2)
        axes.plot([ENCODER, middle, middle], [out, out, cross], color=style.VALUE, linewidth=2)
        arrow((middle, cross), (DECODER - 1.7, cross), style.VALUE)
        axes.text(3.5, out + 0.3, f"memory (source, {config.d_model})", ha="center", va="center", fontsize=9.2,
                  style="italic")  # fmt: skip
        linear = last + 2.25
        arrow((DECODER, last + PLUS + 0.22), (DECODER, linear - 0.34))
        box(DECODER, linear, "linear, weights E", shaded=True)
        arrow((DECODER, linear + 0.34), (DECODER, linear + STEP - 0.34))
        label(DECODER, linear + STEP / 2, f"logits (target, {config.vocab_size:,})", -1)
        box(DECODER, linear + STEP, "softmax")
        arrow((DECODER, linear + STEP + 0.34), (DECODER, linear + STEP + 0.8))
        axes.text(DECODER, linear + STEP + 0.88, "probabilities of the next token", ha="center", va="bottom",
                  fontsize=9)  # fmt: skip
        box(0.5, 13.0, "E", width=0.5, shaded=True)
        axes.text(1.1, 13.0, "the shared matrix", ha="left", va="center", fontsize=9)
        axes.plot(0.5, 12.15, "o", color=style.INK, markersize=5, gid="legend")
        axes.text(1.1, 12.15, "dropout", ha="left", va="center", fontsize=9)
    return figure
