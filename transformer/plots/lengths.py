"""How long a corpus's sentences are, and how long their translations."""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from transformer.data.batching import Indices
from transformer.plots import style

CELLS = 60
"""At most so many different lengths are shown; if there are more, neighbours are put together."""


def lengths(n_source: Indices, n_target: Indices, names: Sequence[str], max_ratio: float = 0) -> Figure:
    """Both sides' lengths as histograms; and source against target, the lighter a cell, the more pairs are in it.

    Args:
        n_source: tokens of each source, (pairs,), at least 1.
        n_target: tokens of each target.
        names: what source and target are called.
        max_ratio: two lines show where one side is so many times as long as the other; 0: none. The cleaning, which
            counted words, may have let a few pairs of tokens through beyond them.
    """
    longest = max(int(n_source.max()), int(n_target.max()))
    width = -(-longest // CELLS)
    cells = -(-longest // width)
    source, target = (n_source - 1) // width, (n_target - 1) // width
    edges = np.arange(cells + 1) * width + 0.5  # lengths are whole numbers: 1 lies between 0.5 and 1.5
    pairs = np.bincount(target * cells + source, minlength=cells**2).reshape(cells, cells)
    with style.in_style():
        figure = Figure(figsize=(5.0, 2.5), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
        for side, name, colour, dashes in (
            (source, names[0], style.KEY, "-"),
            (target, names[1], style.QUERY, "--"),
        ):
            share = np.bincount(side, minlength=cells) / len(side) / width
            left.stairs(share, edges, color=colour, linestyle=dashes, linewidth=1.6, label=name)
        left.set_xlim(0, edges[-1])
        left.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
        left.set_xlabel("tokens")
        left.set_title("Share of sentences", loc="left")
        left.legend(fontsize=10)
        left.grid(True)

        colours = mpl.colormaps[style.WEIGHTS]
        right.set_facecolor(colours(0.0))  # where there is no pair
        square = (edges[0], edges[-1], edges[0], edges[-1])
        shown = np.ma.masked_equal(pairs, 0)
        norm = LogNorm(0.5, int(pairs.max()))  # so that one pair is not as dark as none
        right.imshow(shown, colours, norm, origin="lower", extent=square, interpolation="none")
        right.autoscale(False)
        if max_ratio:
            for slope in (max_ratio, 1 / max_ratio):
                right.axline((0, 0), slope=slope, color="white", linestyle="--", linewidth=1)
            corner = {"transform": right.transAxes, "ha": "right", "va": "bottom", "fontsize": 9}
            right.text(0.97, 0.04, f"max_ratio={max_ratio:g}", color="white", **corner)
        right.set_xlabel(f"tokens, {names[0]}")
        right.set_ylabel(f"tokens, {names[1]}")
        right.set_title("Pairs (lighter: more)", loc="left")
        for axis in (left.xaxis, right.xaxis, right.yaxis):
            axis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
    return figure
