"""A reliability diagram: whether a model's confidence matches its accuracy."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from transformer.plots import style


def reliability_diagram(
    fraction: Sequence[float], confidence: Sequence[float], accuracy: Sequence[float], title: str
) -> Figure:
    """Draw accuracy against confidence, and below it the distribution of the confidence.

    Args:
        fraction: for each of equally wide bins of confidence between 0 and 1, the fraction of predictions in it.
        confidence: the mean confidence of the predictions in each bin.
        accuracy: the fraction of correct predictions in each bin.
        title: shown above the diagram.
    """
    n_bins = len(fraction)
    filled = [i for i in range(n_bins) if fraction[i]]
    x, y = [confidence[i] for i in filled], [accuracy[i] for i in filled]
    with style.in_style():
        figure = Figure(figsize=(3.3, 3.9), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2.4, 1])
        above.plot([0, 1], [0, 1], color=style.INK, linewidth=1, linestyle=":")
        above.vlines(x, x, y, color=style.WRONG, linewidth=2)
        above.plot(x, y, "o", color=style.QUERY, markersize=6, clip_on=False)
        above.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy")
        above.grid(True)
        above.set_title(title, loc="left")
        below.bar([(i + 0.5) / n_bins for i in range(n_bins)], fraction, width=0.9 / n_bins, color=style.PLAIN)
        below.set(xlabel="confidence", ylabel="fraction")
    return figure
