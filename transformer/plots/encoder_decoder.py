"""The encoder and the decoder: what each of them reads, attends to and outputs."""

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from transformer.plots import style

SOURCE = "the duck opens the door"
DECODER_INPUT = "<bos> die Ente macht die Tür"
DECODER_OUTPUT = "die Ente macht die Tür auf"


def encoder_decoder() -> Figure:
    """Draw encoder and decoder with their inputs and outputs, and the three uses of attention."""
    with style.in_style():
        figure, axes = style.new_figure(5.0, 3.3)
        axes.set_xlim(0, 10)
        axes.set_ylim(0, 6.6)
        axes.axis("off")

        def block(x: float, colour: str, name: str, lines: str) -> None:
            axes.add_patch(
                FancyBboxPatch((x, 2.0), 3.4, 2.2, boxstyle="round,pad=0.12", fc="none", ec=colour, linewidth=2)
            )
            axes.text(x + 1.7, 3.75, name, ha="center", va="center", fontsize=12)
            axes.text(x + 1.7, 2.75, lines, ha="center", va="center", fontsize=9, linespacing=1.5)

        def arrow(start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
            axes.add_patch(
                FancyArrowPatch(
                    start, end, color=colour, linewidth=1.6, arrowstyle="-|>", mutation_scale=13, shrinkA=0, shrinkB=0
                )
            )

        def words(x: float, y: float, text: str, label: str, dy: float = -0.5) -> None:
            axes.text(x, y, text, ha="center", va="center", fontsize=10)
            axes.text(x, y + dy, label, ha="center", va="center", fontsize=9, style="italic")

        block(0.3, style.KEY, "encoder", "attends to all\nsource positions")
        block(6.2, style.QUERY, "decoder", "attends to the prefix\nand the memory")
        words(2.0, 0.55, SOURCE, "source sentence")
        words(7.9, 0.55, DECODER_INPUT, "target so far")
        words(7.9, 5.75, DECODER_OUTPUT, "the next token at every position", dy=0.5)
        arrow((2.0, 0.95), (2.0, 1.8), style.INK)
        arrow((7.9, 0.95), (7.9, 1.8), style.INK)
        arrow((7.9, 4.4), (7.9, 5.35), style.INK)
        arrow((3.9, 3.1), (6.0, 3.1), style.VALUE)
        axes.text(4.95, 3.5, "memory", ha="center", va="center", fontsize=9)
    return figure
