"""A reliability diagram: whether a model's confidence matches its accuracy."""

from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from transformer.plots import style

FEW = 0.01
"""A bin with a smaller fraction of the predictions is pale."""


class ConfidenceBins(NamedTuple):
    """Predictions, grouped by confidence into bins of equal width between 0 and 1. Empty bins have zeros."""

    fraction: Tensor
    """The fraction of all predictions that are in each bin, (n_bins,)."""
    confidence: Tensor
    """Their mean confidence, (n_bins,)."""
    accuracy: Tensor
    """The fraction of them that is correct, (n_bins,)."""


def confidence_bins(confidence: Tensor, correct: Tensor, n_bins: int = 10) -> ConfidenceBins:
    """Group predictions by confidence.

    Args:
        confidence: the probability of each predicted token, (predictions,), float, between 0 and 1.
        correct: whether each prediction is correct, (predictions,), bool.
        n_bins: the number of bins; each contains its lower edge, and the last one also contains 1.
    """
    index = (confidence * n_bins).long().clamp(max=n_bins - 1)
    count = torch.bincount(index, minlength=n_bins)
    sums = (torch.bincount(index, values.float(), minlength=n_bins) for values in (confidence, correct))
    return ConfidenceBins(count / len(index), *(total / count.clamp(min=1) for total in sums))


def reliability_diagram(bins: ConfidenceBins, title: str) -> Figure:
    """Draw the accuracy of each bin against its confidence, and below it the distribution of the confidence.

    Bins with few predictions, less than `FEW` of all, are pale, because their accuracy is mostly chance.

    Args:
        bins: from `confidence_bins`.
        title: shown above the diagram.
    """
    fraction, confidence, accuracy = (values.tolist() for values in bins)
    n_bins = len(fraction)
    filled = [i for i in range(n_bins) if fraction[i]]
    x, y = [confidence[i] for i in filled], [accuracy[i] for i in filled]
    opacity = [1 if fraction[i] >= FEW else 0.25 for i in filled]
    with style.in_style():
        figure = Figure(figsize=(2.9, 2.7), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        above.plot([0, 1], [0, 1], color=style.INK, linewidth=1, linestyle=":")
        above.vlines(x, x, y, color=style.WRONG, linewidth=2, alpha=opacity)
        above.scatter(x, y, s=25, color=style.QUERY, linewidth=0, alpha=opacity, clip_on=False, zorder=2)
        above.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy")
        above.grid(True)
        above.set_title(title, loc="left")
        below.bar([(i + 0.5) / n_bins for i in range(n_bins)], fraction, width=0.9 / n_bins, color=style.PLAIN)
        below.set(xlabel="confidence", ylabel="fraction")
    return figure
