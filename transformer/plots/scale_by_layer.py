"""The scale of activations or gradients in each layer, on a logarithmic axis."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from transformer.plots import style


def scale_by_layer(
    lines: Mapping[str, Sequence[float]],
    title: str,
    split: int = 0,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Draw one or more lines over the layers, numbered from 1.

    Args:
        lines: label → one positive value for each layer; at most four lines.
        title: the quantity on the y axis.
        split: the number of encoder layers, if the layers of the decoder follow them; 0 if there is only one stack.
        limits: limits of the y axis, so that two figures can share them.
    """
    with style.in_style():
        figure, axes = style.new_figure(3.6, 2.9)
        for name, values, colour, dashes in style.style_lines(lines):
            label: str | None = name
            for start, end in ((0, split), (split, len(values))):
                if start < end:
                    layers = range(start + 1, end + 1)
                    axes.plot(layers, values[start:end], dashes, color=colour, marker="o", markersize=3, label=label)
                    label = None  # one legend entry for both stacks
        count = max(len(values) for values in lines.values())
        axes.set_yscale("log")
        axes.grid(True)
        if split:
            axes.axvline(split + 0.5, color=style.PLAIN, linewidth=1)
            ticks = [*range(1, split + 1), *range(1, count - split + 1)]
            axes.set_xticks(range(1, count + 1), [str(tick) for tick in ticks])
            axes.set_xlabel("encoder layer" + " " * 12 + "decoder layer")
        else:
            step = 1 if count <= 8 else 2
            axes.set_xticks(range((count - 1) % step + 1, count + 1, step))
            axes.set_xlabel("layer")
        if limits:
            axes.set_ylim(*limits)
        axes.set_title(title, loc="left")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2, fontsize=10)
    return figure
