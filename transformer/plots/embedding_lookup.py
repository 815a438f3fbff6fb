"""From tokens to vectors: ids select rows of the embedding table, which the encoder turns into the memory."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, PathPatch, Rectangle
from matplotlib.path import Path
from torch import Tensor

from transformer.plots import style

DIMENSIONS = 12
"""Number of dimensions of each vector that are drawn."""
WIDTH = 0.75
"""The width of a vector in inches."""


def embedding_lookup(tokens: Sequence[str], ids: Sequence[int], table: Tensor, memory: Tensor) -> Figure:
    """Draw how a sentence becomes vectors: token ids → rows of the embedding table → vectors → encoder → memory.

    Args:
        tokens: the sentence.
        ids: the index of each token's row in the table.
        table: the embedding table, (vocabulary, d_model).
        memory: the encoder's output, (length, d_model).
    """
    length = len(tokens)
    vocabulary, d_model = table.shape
    order = sorted(set(ids))
    y = np.linspace(2.2, 0.1, length)  # one row for each token, first at the top
    rows = dict(zip(order, np.linspace(2.3, 0.0, len(order) + 2)[1:-1], strict=True))
    with style.in_style():
        figure, axes = style.new_figure(5.0, 3.1)
        axes.set_position((0, 0, 1, 1))

        def strip(vector: Tensor, x: float, centre: float) -> None:
            drawn = vector[None, :DIMENSIONS].detach().cpu()
            box = (x, x + WIDTH, centre - 0.08, centre + 0.08)
            axes.imshow(
                (drawn / drawn.abs().max()).numpy(), extent=box, cmap="BrBG", vmin=-1, vmax=1, aspect="auto", zorder=2
            )

        def line(start: tuple[float, float], end: tuple[float, float]) -> None:
            middle = (start[0] + end[0]) / 2
            path = Path([start, (middle, start[1]), (middle, end[1]), end], [Path.MOVETO, *[Path.CURVE4] * 3])
            axes.add_patch(PathPatch(path, fc="none", ec=style.PLAIN, linewidth=1.2))

        axes.add_patch(Rectangle((1.5, -0.1), WIDTH, 2.5, fc=style.PLAIN + "22", ec=style.PLAIN))
        for row, index in enumerate(ids):
            axes.text(0.66, y[row], tokens[row], ha="right", va="center", fontsize=10)
            axes.text(0.92, y[row], str(index), ha="center", va="center", fontsize=9)
            strip(table[index], 1.5, rows[index])
            strip(table[index], 2.7, y[row])
            strip(memory[row], 4.25, y[row])
            line((1.12, y[row]), (1.5, rows[index]))
            line((1.5 + WIDTH, rows[index]), (2.7, y[row]))
        axes.add_patch(FancyArrowPatch((3.5, 1.15), (4.2, 1.15), color=style.INK, arrowstyle="-|>", mutation_scale=12))
        axes.text(3.85, 1.35, "positions,\nencoder", ha="center", va="bottom", fontsize=9)
        heads = (
            (0.45, f"tokens and ids\n({length})"),
            (1.87, f"embedding table\n({vocabulary:,} × {d_model})"),
            (3.08, f"embeddings\n({length} × {d_model})"),
            (4.62, f"memory\n({length} × {d_model})"),
        )
        for x, head in heads:
            axes.text(x, 2.72, head, ha="center", va="center", fontsize=9)
        axes.set_xlim(0, 5)
        axes.set_ylim(-0.15, 2.95)
        axes.axis("off")
    return figure
