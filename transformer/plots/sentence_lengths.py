"""The distribution of sentence lengths in a corpus, and of pairs of source and target lengths."""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import seaborn as sns
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from transformer.data.batching import Indices
from transformer.plots import style

MAX_BINS = 60
"""The largest number of bins along an axis. If there are more lengths, neighbouring ones share a bin."""


def sentence_lengths(
    source_lengths: Indices, target_lengths: Indices, names: Sequence[str], max_ratio: float = 0
) -> Figure:
    """Draw histograms of both lengths, and a two-dimensional histogram of source length against target length.

    Args:
        source_lengths: the number of tokens of each source, (pairs,), at least 1.
        target_lengths: the number of tokens of each target, (pairs,).
        names: names of source and target.
        max_ratio: draw two lines where one side is this many times as long as the other; 0 draws none. Data cleaning
            counts words, so a few pairs lie beyond the lines, which count tokens.
    """
    longest = max(int(source_lengths.max()), int(target_lengths.max()))
    width = -(-longest // MAX_BINS)
    edges = np.arange(0, longest + width, width) + 0.5  # lengths are integers: 1 lies between 0.5 and 1.5
    with style.in_style():
        figure = Figure(figsize=(5.0, 2.5), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
        for lengths, name, colour, dashes in (
            (source_lengths, names[0], style.KEY, "-"),
            (target_lengths, names[1], style.QUERY, "--"),
        ):
            sns.histplot(
                x=lengths, bins=edges, stat="probability", element="step", fill=False, color=colour, linestyle=dashes,
                linewidth=1.6, label=name, ax=left,
            )  # fmt: skip
        left.set_xlim(0, edges[-1])
        left.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
        left.set(xlabel="tokens", ylabel="")
        left.set_title("Fraction of sentences", loc="left")
        left.legend(fontsize=10)
        left.grid(True)

        colours = mpl.colormaps[style.WEIGHTS]
        right.set_facecolor(colours(0.0))  # bins without pairs
        norm = LogNorm(0.5, None)  # one pair is brighter than none
        sns.histplot(
            x=source_lengths, y=target_lengths, bins=(edges, edges), ax=right,
            cmap=colours, norm=norm, vmin=None, vmax=None,
        )  # fmt: skip
        right.set(xlim=(edges[0], edges[-1]), ylim=(edges[0], edges[-1]), aspect="equal")
        if max_ratio:
            for slope in (max_ratio, 1 / max_ratio):
                right.axline((0, 0), slope=slope, color="white", linestyle="--", linewidth=1)
            corner = {"transform": right.transAxes, "ha": "right", "va": "bottom", "fontsize": 9}
            right.text(0.97, 0.04, f"max_ratio={max_ratio:g}", color="white", **corner)
        right.set(xlabel=f"tokens, {names[0]}", ylabel=f"tokens, {names[1]}")
        right.set_title("Pairs (brighter: more)", loc="left")
        for axis in (left.xaxis, right.xaxis, right.yaxis):
            axis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
    return figure
