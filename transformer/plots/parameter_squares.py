"""The weight matrices of a model, drawn to scale: each square has d_model × d_model parameters."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from transformer.config import ModelConfig
from transformer.plots import style

ATTENTION = (style.QUERY, style.KEY, style.VALUE, style.OUTPUT)
"""The colours of W^Q, W^K, W^V and W^O."""
FEED_FORWARD = "none"
"""Feed-forward matrices are empty squares: the colours are those of attention, and dark is the embedding."""
GAP = 1.5
"""The distance between two groups of squares, in squares."""


def parameter_squares(config: ModelConfig) -> Figure:
    """Draw the weight matrices of encoder and decoder, a row for each layer, and those of the embedding below.

    Biases and layer norms are left out; in the base model, all of them together would fill less than half a square.

    Args:
        config: the model, with tied embeddings; d_ff must be a multiple of d_model.
    """
    feed_forward = [FEED_FORWARD] * (2 * config.d_ff // config.d_model)
    encoder, decoder = [*ATTENTION, *feed_forward], [*ATTENTION, *ATTENTION, *feed_forward]
    right = len(encoder) + GAP
    below = config.n_layers + GAP + 0.5
    squares = config.vocab_size / config.d_model
    rows, rest = divmod(squares, len(encoder))
    with style.in_style():
        width = right + len(decoder)
        height = below + rows + 1
        figure, axes = style.new_drawing(5.0, 5.0 * (height + 2) / width, (0, width), (height, -2))
        layers = f"{config.n_layers} layers" if config.n_layers > 1 else "1 layer"
        for x, name, colours in ((0.0, "Encoder", encoder), (right, "Decoder", decoder)):
            axes.text(x, -1.05, f"{name}: {layers}", fontsize=10.5)
            for layer in range(config.n_layers):
                _row(axes, x, layer, colours)
        for x, name in ((0.0, "self-attn."), (right, "self-attn."), (right + 4, "cross-attn.")):
            axes.text(x + 0.05, -0.2, name, fontsize=10.2, style="italic")
        axes.text(0, below - 0.2, "Embedding, shared", fontsize=10.5)
        for row in range(int(rows)):
            _row(axes, 0, below + row, [style.INK] * len(encoder))
        _row(axes, 0, below + int(rows), [style.INK] * int(rest))
        axes.add_patch(_square(int(rest), below + int(rows), style.INK, width=rest % 1))
        names = ["$W^Q$", "$W^K$", "$W^V$", "$W^O$", "feed-forward", "embedding"]
        handles = [
            Patch(facecolor=colour, edgecolor=_edge(colour), label=name)
            for colour, name in zip((*ATTENTION, FEED_FORWARD, style.INK), names, strict=True)
        ]
        corner = (right / width, 1 - (below + 2) / (height + 2))
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=corner, ncols=2, fontsize=10.5, borderaxespad=0)
    return figure


def _row(axes: Axes, x: float, y: float, colours: Sequence[str]) -> None:
    for column, colour in enumerate(colours):
        axes.add_patch(_square(x + column, y, colour))


def _square(x: float, y: float, colour: str, width: float = 1) -> Rectangle:
    margin = 0.06
    square = Rectangle((x + margin, y + margin), max(width - 2 * margin, 0), 1 - 2 * margin)
    square.set(facecolor=colour, edgecolor=_edge(colour), linewidth=0.7)
    return square


def _edge(colour: str) -> str:
    """Return the colour of a square's edge, which is visible only if the square is empty."""
    return style.INK if colour == FEED_FORWARD else "none"
