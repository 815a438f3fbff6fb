"""The architecture of the Transformer (Figure 1 of the paper), with shapes, and with dots where dropout is applied."""

from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from transformer.config import ModelConfig
from transformer.plots import style

ENCODER, DECODER = 2.25, 7.6
"""The x coordinates of the two stacks."""
STEP = 1.25
"""The distance between the centres of neighbouring boxes."""


def architecture(config: ModelConfig) -> Figure:
    """Draw both stacks, from the token ids at the bottom to the logits at the top; dots mark dropout (§5.4).

    Args:
        config: the model, whose sizes are shown.

    Raises:
        ValueError: if its norm, its positions or its embeddings are not those of the paper, which the figure shows.
    """
    if (config.norm, config.positions, config.tie_embeddings) != ("post", "sinusoidal", "all"):
        raise ValueError("the figure shows the paper's model: post-norm, sinusoidal positions, one shared matrix")
    with style.in_style():
        figure, axes = style.new_figure(4.4, 4.7)
        axes.set_position((0, 0, 1, 1))
        axes.set_xlim(0, 9.85)
        axes.set_ylim(0.2, 11.4)
        axes.axis("off")

        def box(x: float, y: float, text: str, colour: str, width: float = 3.6) -> None:
            fill = to_rgba(colour, 0.15) if colour == style.INK else "none"  # only those with the matrix E
            shape = FancyBboxPatch(
                (x - width / 2, y - 0.26), width, 0.52, boxstyle="round,pad=0.08", fc=fill, ec=colour
            )
            shape.set_linewidth(2)
            axes.add_patch(shape)
            axes.text(x, y, text, ha="center", va="center", fontsize=9)

        def arrow(start: tuple[float, float], end: tuple[float, float], colour: str = style.INK) -> None:
            axes.add_patch(
                FancyArrowPatch(
                    start, end, color=colour, linewidth=1.4, arrowstyle="-|>", mutation_scale=10, shrinkA=0, shrinkB=0
                )
            )

        def up(x: float, y: float, label: str = "", dropout: bool = False, step: float | None = STEP) -> None:
            """Draw the connection from the box at height y to the one a step above it; None: only its first half."""
            if step is None:
                axes.plot([x, x], [y + 0.36, y + 0.8], color=style.INK, linewidth=1.4)
            else:
                arrow((x, y + 0.36), (x, y + step - 0.36))
            if dropout:
                axes.plot(x, y + 0.5, "o", color=style.INK, markersize=4.5)
            axes.text(x + 0.2, y + 0.5, label, ha="left", va="center", fontsize=8, style="italic")

        def stack(x: float, name: str, ids: str, length: str, sublayers: list[str], colour: str) -> float:
            """Draw one stack, and return the height of its last box."""
            axes.text(x, 0.45, ids, ha="center", va="center", fontsize=9)
            arrow((x, 0.7), (x, 1.14))
            box(x, 1.5, f"embedding E × √{config.d_model}", style.INK)
            up(x, 1.5)
            box(x, 1.5 + STEP, "+ positional encoding", style.PLAIN)
            up(x, 1.5 + STEP, f"({length}, {config.d_model})", dropout=True, step=1.65)
            first = 1.5 + STEP + 1.65
            for i, sublayer in enumerate(sublayers):
                box(x, first + i * STEP, sublayer, colour)
                up(x, first + i * STEP, "add & norm", dropout=True, step=None if i == len(sublayers) - 1 else STEP)
            last = first + (len(sublayers) - 1) * STEP
            frame = FancyBboxPatch(
                (x - 2.05, first - 0.5), 4.1, last - first + 1.4, boxstyle="round,pad=0.08", fc="none", ec=style.PLAIN
            )
            frame.set_linestyle("--")
            axes.add_patch(frame)
            axes.text(x - 2.05, last + 1.22, f"{config.n_layers} × {name}", ha="left", va="center", fontsize=9)
            return last

        top = stack(ENCODER, "encoder", "source ids", "source", ["self-attention", "feed-forward"], style.KEY)
        sublayers = ["masked self-attention", "cross-attention", "feed-forward"]
        last = stack(DECODER, "decoder", "target ids", "target", sublayers, style.QUERY)

        # The encoder output (memory) goes to the second sublayer of every decoder layer.
        cross, out = last - STEP, top + STEP + 0.45
        axes.plot([ENCODER, ENCODER], [top + 0.75, out], color=style.VALUE, linewidth=2)
        axes.plot([ENCODER, 4.95, 4.95], [out, out, cross], color=style.VALUE, linewidth=2)
        arrow((4.95, cross), (DECODER - 1.85, cross), style.VALUE)
        axes.text(3.6, out + 0.3, f"memory (source, {config.d_model})", ha="center", va="center", fontsize=8,
                  style="italic")  # fmt: skip
        logits = last + 2 * STEP
        arrow((DECODER, last + 0.75), (DECODER, logits - 0.36))
        box(DECODER, logits, "linear, weights E", style.INK)
        up(DECODER, logits)
        axes.text(DECODER, logits + STEP, f"logits (target, {config.vocab_size:,})", ha="center", va="bottom",
                  fontsize=9)  # fmt: skip
        box(0.5, 10.95, "E", style.INK, width=0.5)
        axes.text(1.1, 10.95, "the shared matrix", ha="left", va="center", fontsize=9)
        axes.plot(0.5, 10.1, "o", color=style.INK, markersize=5, gid="legend")
        axes.text(1.1, 10.1, "dropout", ha="left", va="center", fontsize=9)
    return figure
