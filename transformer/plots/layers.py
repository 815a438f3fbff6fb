"""How large something is, layer by layer, where it grows or shrinks so much that only powers of ten can show it."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from transformer.plots import style
from transformer.plots.curves import LINES


def by_layer(
    lines: Mapping[str, Sequence[float]],
    title: str,
    split: int = 0,
    names: tuple[str, str] = ("encoder", "decoder"),
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Draw each line over the layers, counted from 1, on a logarithmic scale.

    Args:
        lines: name → one positive size for each layer; at most four.
        title: what is measured.
        split: so many layers belong to the first stack, the others to the second; 0: there is only one.
        names: what the two stacks are called.
        limits: of the scale, where two pictures are to have the same.
    """
    with style.in_style():
        figure, axes = style.new_figure(3.6, 2.9)
        for (name, sizes), (colour, dashes) in zip(lines.items(), LINES, strict=False):
            label: str | None = name
            for start, end in ((0, split), (split, len(sizes))):
                if start < end:
                    places = range(start + 1, end + 1)
                    axes.plot(places, sizes[start:end], dashes, color=colour, marker="o", markersize=3, label=label)
                    label = None
        count = max(len(sizes) for sizes in lines.values())
        axes.set_yscale("log")
        axes.grid(True)
        if split:
            axes.axvline(split + 0.5, color=style.PLAIN, linewidth=1)
            ticks = [*range(1, split + 1), *range(1, count - split + 1)]
            axes.set_xticks(range(1, count + 1), [str(tick) for tick in ticks])
            axes.set_xlabel(f"{names[0]} layer" + " " * 12 + f"{names[1]} layer")
        else:
            axes.set_xticks(range(1, count + 1))
            axes.set_xlabel("layer")
        if limits:
            axes.set_ylim(*limits)
        axes.set_title(title, loc="left")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2, fontsize=10)
    return figure
