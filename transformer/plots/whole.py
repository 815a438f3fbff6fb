"""The whole model on one picture: what each part is called, what shape goes through, and where dropout acts."""

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from transformer.config import ModelConfig
from transformer.plots import style

ENCODER, DECODER = 2.25, 7.6
"""Where the two stacks stand."""
STEP = 1.25
"""From one box to the next above it."""


def whole(config: ModelConfig) -> Figure:
    """Both stacks from the ids at the bottom to the scores on top; a dot stands where dropout acts (§5.4).

    Args:
        config: whose sizes are written into the picture.
    """
    with style.in_style():
        figure, axes = style.new_figure(5.0, 6.4)
        axes.set_xlim(0, 10)
        axes.set_ylim(0.2, 12.6)
        axes.axis("off")

        def box(x: float, y: float, text: str, colour: str) -> None:
            shape = FancyBboxPatch((x - 1.8, y - 0.26), 3.6, 0.52, boxstyle="round,pad=0.08", fc="none", ec=colour)
            shape.set_linewidth(2)
            axes.add_patch(shape)
            axes.text(x, y, text, ha="center", va="center", fontsize=9)

        def arrow(start: tuple[float, float], end: tuple[float, float], colour: str = style.INK) -> None:
            axes.add_patch(
                FancyArrowPatch(
                    start, end, color=colour, linewidth=1.4, arrowstyle="-|>", mutation_scale=10, shrinkA=0, shrinkB=0
                )
            )

        def up(x: float, y: float, beside: str = "", dropped: bool = False, open_end: bool = False) -> None:
            """The way from the box at y to the one above it; an open end is drawn on from there."""
            if open_end:
                axes.plot([x, x], [y + 0.36, y + 0.8], color=style.INK, linewidth=1.4)
            else:
                arrow((x, y + 0.36), (x, y + STEP - 0.36))
            if dropped:
                axes.plot(x, y + 0.5, "o", color=style.INK, markersize=4.5)
            axes.text(x + 0.2, y + 0.5, beside, ha="left", va="center", fontsize=8, style="italic")

        def stack(x: float, name: str, ids: str, length: str, sublayers: list[str], colour: str) -> float:
            """One stack; returns the height of its last box."""
            axes.text(x, 0.45, ids, ha="center", va="center", fontsize=9)
            arrow((x, 0.7), (x, 1.14))
            box(x, 1.5, f"look up in E, × √{config.d_model}", style.OUTPUT)
            up(x, 1.5)
            box(x, 1.5 + STEP, "+ positions", style.PLAIN)
            up(x, 1.5 + STEP, f"({length}, {config.d_model})", dropped=True)
            first = 1.5 + 2 * STEP
            for i, sublayer in enumerate(sublayers):
                box(x, first + i * STEP, sublayer, colour)
                up(x, first + i * STEP, "add, norm", dropped=True, open_end=i == len(sublayers) - 1)
            last = first + (len(sublayers) - 1) * STEP
            frame = FancyBboxPatch(
                (x - 2.05, first - 0.5), 4.1, last - first + 1.4, boxstyle="round,pad=0.08", fc="none", ec=style.PLAIN
            )
            frame.set_linestyle("--")
            axes.add_patch(frame)
            axes.text(x + 0.2, last + 1.22, f"{config.n_layers} × {name}", ha="left", va="center", fontsize=9)
            return last

        top = stack(ENCODER, "encoder", "source ids", "source", ["self-attention", "feed-forward"], style.KEY)
        sublayers = ["masked self-attention", "cross-attention", "feed-forward"]
        last = stack(DECODER, "decoder", "target ids", "target", sublayers, style.QUERY)

        # The memory leaves the encoder on top and goes to every decoder layer's second sublayer.
        cross, out = last - STEP, top + STEP + 0.45
        axes.plot([ENCODER, ENCODER], [top + 0.75, out], color=style.VALUE, linewidth=2)
        axes.plot([ENCODER, 4.95, 4.95], [out, out, cross], color=style.VALUE, linewidth=2)
        arrow((4.95, cross), (DECODER - 1.85, cross), style.VALUE)
        axes.text(ENCODER + 0.5, out + 0.3, f"memory (source, {config.d_model})", ha="center", va="center", fontsize=8,
                  style="italic")  # fmt: skip
        scores = last + 2 * STEP
        arrow((DECODER, last + 0.75), (DECODER, scores - 0.36))
        box(DECODER, scores, "dot products with E", style.OUTPUT)
        up(DECODER, scores)
        axes.text(DECODER, scores + STEP, f"scores (target, {config.vocab_size:,})", ha="center", va="bottom",
                  fontsize=9)  # fmt: skip
        axes.plot(0.4, 10.9, "o", color=style.INK, markersize=5)
        axes.text(0.7, 10.9, "dropout", ha="left", va="center", fontsize=9)
        axes.text(0.25, 12.0, "E is one matrix,\nused three times", ha="left", va="center", fontsize=9)
    return figure
