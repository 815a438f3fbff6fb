"""How strongly an output depends on each earlier input, by distance."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from transformer.plots import style

LOWEST = 1e-5
"""The lower end of the y axis; smaller gradients are not drawn."""


def gradient_decay(lines: Mapping[str, Sequence[float]]) -> Figure:
    """Draw the size of a gradient against the distance, one line for each kind of layer, on a logarithmic y axis.

    Args:
        lines: label → gradients at distances 1, 2, …; at most four lines. A line ends where its gradient is 0.
    """
    with style.in_style():
        figure, axes = style.new_figure(5.0, 2.9)
        for label, gradients, colour, dashes in style.style_lines(lines):
            visible = [gradient or math.nan for gradient in gradients]
            axes.plot(range(1, len(gradients) + 1), visible, dashes, color=colour, label=label)
        axes.set_yscale("log")
        axes.set_ylim(LOWEST, 3)
        axes.set_xlim(left=0)
        axes.grid(True)
        axes.set_xlabel("distance in tokens")
        axes.set_title("Gradient of the last output with respect to an earlier input", loc="left", fontsize=10)
        axes.legend(loc="lower right", fontsize=9)
    return figure
