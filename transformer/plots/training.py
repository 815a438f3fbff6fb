"""What happens in training: the shifted target, a batch's padding, a run's curves, and who looks at whom at its end."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from torch import Tensor

from transformer.plots import style
from transformer.plots.heads import label_cells


def shift(reads: Sequence[str], says: Sequence[str]) -> Figure:
    """The decoder's input above, what it should say below: each position asks for the token that comes next.

    Args:
        reads: the decoder's input, starting with bos.
        says: the expected tokens, as many, ending with eos.
    """
    with style.in_style():
        figure, axes = style.new_figure(5.0, 1.7)
        box = {"boxstyle": "round,pad=0.35", "facecolor": "none"}
        for x, (above, below) in enumerate(zip(reads, says, strict=True)):
            axes.text(x, 1, above, ha="center", va="center", bbox={**box, "edgecolor": style.QUERY})
            axes.text(x, 0, below, ha="center", va="center", bbox={**box, "edgecolor": style.OUTPUT})
            axes.annotate("", (x, 0.25), (x, 0.75), arrowprops={"arrowstyle": "->", "color": style.INK})
            if x + 1 < len(reads):  # what is said here is read there
                axes.annotate(
                    "",
                    (x + 0.85, 0.72),
                    (x + 0.2, 0.25),
                    arrowprops={"arrowstyle": "->", "color": style.PLAIN, "ls": ":"},
                )
        axes.text(-0.75, 1, "reads", ha="right", va="center")
        axes.text(-0.75, 0, "says", ha="right", va="center")
        axes.set_xlim(-1.5, len(reads) - 0.4)
        axes.set_ylim(-0.4, 1.4)
        axes.axis("off")
    return figure


def padding(expected: Tensor, pad_id: int, title: str) -> Figure:
    """A batch from above: a filled cell is a token, an empty one padding.

    Args:
        expected: token ids, (batch, length).
        pad_id: the id of padding.
        title: stands above; the share of padding is added to it.
    """
    real = (expected != pad_id).numpy()
    with style.in_style():
        figure, axes = style.new_figure(2.3, 2.6)
        axes.pcolormesh(np.ma.array(real, mask=~real), cmap="winter", vmin=0, vmax=2, edgecolors="none")
        axes.set_xlim(0, real.shape[1])
        axes.invert_yaxis()
        axes.set_xlabel("position")
        axes.set_ylabel("sentence")
        axes.set_title(f"{title}\n{1 - real.mean():.0%} padding", loc="left")
        for side in ("right", "top"):
            axes.spines[side].set_visible(True)
    return figure


def run_curves(metrics: Sequence[dict[str, float]], description: str) -> Any:
    """An Altair chart of a run: losses and BLEU over the steps; pointing at a step reads out its numbers.

    Args:
        metrics: lines of ``metrics.jsonl``.
        description: the alt text.
    """
    frame = pd.DataFrame(metrics)
    point = alt.selection_point(on="pointerover", nearest=True, fields=["step"], empty=False)
    x = alt.X("step:Q", title="step")
    tooltip = [
        alt.Tooltip("step:Q"),
        alt.Tooltip("train_loss:Q", format=".2f", title="training loss (smoothed)"),
        alt.Tooltip("valid_loss:Q", format=".2f", title="validation loss"),
        alt.Tooltip("valid_bleu:Q", format=".1f", title="BLEU"),
    ]
    ruler = (
        alt.Chart(frame)
        .mark_rule(color=style.PLAIN, strokeWidth=14)
        .encode(x, opacity=alt.condition(point, alt.value(0.35), alt.value(0)), tooltip=tooltip)
    )

    def lines(names: dict[str, str], colours: list[str], title: str) -> Any:
        long = frame.rename(columns=names).melt("step", list(names.values()), "what", "height")
        base = alt.Chart(long).encode(
            x,
            alt.Y("height:Q", title=None, scale=alt.Scale(zero=True)),
            alt.Color(
                "what:N",
                scale=alt.Scale(range=colours),
                legend=alt.Legend(title=None, orient="top", labelColor="currentColor") if len(names) > 1 else None,
            ),
        )
        drawn = base.mark_line() + base.mark_point(size=45, filled=True, opacity=1) + ruler
        return drawn.properties(width=250, height=130, title=title)

    loss = lines(
        {"train_loss": "training (smoothed)", "valid_loss": "validation"}, [style.KEY, style.QUERY], "Loss a token"
    )
    score = lines({"valid_bleu": "BLEU"}, [style.VALUE], "BLEU on validation sentences")
    both = alt.vconcat(loss.add_params(point), score, description=description)
    return style.chart_style(both.resolve_scale(color="independent"))


def alignment(weights: Tensor, says: Sequence[str], source: Sequence[str], title: str = "") -> Figure:
    """Cross-attention while a sentence is written: a row for each token said, a column for each token of the source.

    Args:
        weights: (target, source), between 0 and 1.
        says: the tokens, in the order in which they are said.
        source: the source's tokens.
        title: stands above.
    """
    with style.in_style():
        figure, axes = style.new_figure(min(5.0, 1.2 + 0.3 * len(source)), 0.9 + 0.27 * len(says))
        axes.pcolormesh(
            weights.detach().cpu().numpy(), cmap=style.WEIGHTS, vmin=0, vmax=1, edgecolors=style.INK, linewidth=0.3
        )
        label_cells(axes, says, source)
        axes.set_title(title)
    return figure
