"""The two stacks of layers, and where the decoder's layers read the encoder's output."""

from functools import partial

from matplotlib.figure import Figure

from transformer.plots import style
from transformer.plots.boxes import draw_arrow, draw_box, draw_frame

ENCODER, DECODER = 2.2, 7.7
"""The x coordinates of the two stacks."""
BUS = 4.9
"""The x coordinate of the line that leads the memory past all layers of the decoder."""
STEP = 0.95
"""The distance between the centres of neighbouring boxes."""


def layer_stacks(n_layers: int, source: str, prefix: str, next_token: str) -> Figure:
    """Draw the encoder's and the decoder's layers, the first of each with its sublayers, and the path of the memory.

    Args:
        n_layers: the number of layers in each stack.
        source: the tokens that the encoder reads.
        prefix: the tokens that the decoder reads.
        next_token: the token that the decoder predicts.
    """
    with style.in_style():
        figure, axes = style.new_figure(5.0, 0.43 * (n_layers + 7.2))
        axes.set_position((0, 0, 1, 1))
        axes.set_xlim(0, 10.2)
        axes.axis("off")

        box, arrow = partial(draw_box, axes, width=3.5), partial(draw_arrow, axes)

        def stack(x: float, name: str, tokens: str, sublayers: list[str], colour: str) -> list[float]:
            """Draw one stack, and return the heights of the first layer's sublayers and of the other layers."""
            axes.text(x, 0.2, tokens, ha="center", va="center", fontsize=9)
            box(x, 1.25, "embeddings + positions", style.PLAIN)
            arrow((x, 0.45), (x, 0.95))
            first = 1.25 + STEP + 0.3
            heights = [first + i * STEP for i in range(len(sublayers))]
            top = heights[-1] + 0.45
            draw_frame(axes, x - 2.1, first - 0.45, 4.2, top - first + 0.45, colour)
            axes.text(x + 2.0, first - 0.62, "layer 1", ha="right", va="top", fontsize=8, style="italic")
            heights += [top + 0.75 + i * STEP for i in range(n_layers - 1)]
            texts = [*sublayers, *(f"layer {i}" for i in range(2, n_layers + 1))]
            for below, y, text in zip([1.25, *heights], heights, texts, strict=False):
                box(x, y, text, colour)
                arrow((x, below + 0.3), (x, y - 0.3))
            axes.text(x - 2.1, heights[-1] + 0.6, name, ha="left", va="center", fontsize=11)
            return heights

        encoder = stack(ENCODER, "encoder", source, ["self-attention", "feed-forward"], style.KEY)
        sublayers = ["masked self-attention", "cross-attention", "feed-forward"]
        decoder = stack(DECODER, "decoder", prefix, sublayers, style.QUERY)

        # The memory leaves the last layer of the encoder, and enters all layers of the decoder.
        out = decoder[-1] + 1.15
        axes.plot(
            [ENCODER, ENCODER, BUS, BUS], [encoder[-1] + 0.3, out, out, decoder[1]], color=style.VALUE, linewidth=2
        )
        axes.text((ENCODER + BUS) / 2, out + 0.3, "memory", ha="center", va="center", fontsize=9)
        for y in (decoder[1], *decoder[3:]):
            arrow((BUS, y), (DECODER - 1.82, y), style.VALUE)

        output = decoder[-1] + 1.35
        box(DECODER, output, "output layer", style.PLAIN)
        arrow((DECODER, decoder[-1] + 0.3), (DECODER, output - 0.3))
        arrow((DECODER, output + 0.3), (DECODER, output + 0.85))
        axes.text(DECODER, output + 1.1, next_token, ha="center", va="center", fontsize=9)
        axes.set_ylim(-0.1, output + 1.4)
    return figure
