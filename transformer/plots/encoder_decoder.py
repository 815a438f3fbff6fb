"""The encoder and the decoder: what each of them reads and outputs."""

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from transformer.plots import style

SOURCE = "A dog runs across the field."
PREFIX = "<bos> Ein Hund rennt"
NEXT_WORD = "über"


def encoder_decoder() -> Figure:
    """Draw encoder and decoder in the middle of a translation: what they read, and the next word that comes out."""
    with style.in_style():
        figure, axes = style.new_figure(5.0, 3.3)
        axes.set_xlim(0, 10.6)
        axes.set_ylim(0, 6.6)
        axes.axis("off")

        def block(x: float, colour: str, name: str, lines: str) -> None:
            axes.add_patch(
                FancyBboxPatch((x, 2.0), 3.3, 2.2, boxstyle="round,pad=0.12", fc="none", ec=colour, linewidth=2)
            )
            axes.text(x + 1.65, 3.75, name, ha="center", va="center", fontsize=12)
            axes.text(x + 1.65, 2.75, lines, ha="center", va="center", fontsize=9, linespacing=1.5)

        def arrow(start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
            axes.add_patch(
                FancyArrowPatch(
                    start, end, color=colour, linewidth=1.6, arrowstyle="-|>", mutation_scale=13, shrinkA=0, shrinkB=0
                )
            )

        def words(x: float, y: float, text: str, label: str, dy: float = -0.5) -> None:
            axes.text(x, y, text, ha="center", va="center", fontsize=10)
            axes.text(x, y + dy, label, ha="center", va="center", fontsize=9, style="italic")

        block(0.3, style.KEY, "encoder", "reads the whole\nsource sentence")
        block(5.7, style.QUERY, "decoder", "reads the prefix\nand the memory")
        words(1.95, 0.55, SOURCE, "source sentence")
        words(7.35, 0.55, PREFIX, "prefix")
        words(7.35, 5.75, NEXT_WORD, "next word", dy=0.5)
        arrow((1.95, 0.95), (1.95, 1.8), style.INK)
        arrow((7.35, 0.95), (7.35, 1.8), style.INK)
        arrow((7.35, 4.4), (7.35, 5.35), style.INK)
        arrow((3.8, 3.1), (5.5, 3.1), style.VALUE)
        axes.text(4.65, 3.5, "memory", ha="center", va="center", fontsize=9)
        axes.plot([7.9, 10.05, 10.05, 9.8], [5.75, 5.75, 0.55, 0.55], "--", color=style.PLAIN, linewidth=1.6)
        arrow((9.9, 0.55), (9.55, 0.55), style.PLAIN)
        axes.text(10.35, 3.1, "appended", ha="center", va="center", fontsize=9, rotation=90)
    return figure
