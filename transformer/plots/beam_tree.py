"""The search tree of a beam search: every candidate it scored, its fate, and the path to the best hypothesis."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import altair as alt
import pandas as pd

from transformer.decoding import Candidate
from transformer.plots import style

COLUMN, ROW = 48, 44
"""Width and height of a candidate in pixels."""
FATES = {"kept": style.QUERY, "finished": style.VALUE, "dropped": style.PLAIN}


def candidate_table(
    trace: Sequence[Candidate], vocabulary: Sequence[str], sentence: int = 0, greedy: Sequence[int] = ()
) -> pd.DataFrame:
    """Return a table of the candidates that a beam search scored, step by step, best first within each step.

    Args:
        trace: the candidates that `beam_search` appended to its argument ``trace``.
        vocabulary: the tokens by id.
        sentence: the row of the source batch.
        greedy: the token ids that greedy search generates for the same sentence, to mark its path.

    Returns:
        Columns: ``step``, ``rank`` (0 is the best of its step), ``token``, ``text`` (all tokens so far),
        ``log_probability``, ``score``, ``fate``, ``winner`` (whether the candidate is on the path to the best finished
        hypothesis), ``greedy`` (whether its tokens are the first ones of ``greedy``), and ``parent``, the row of the
        prefix that it extends (-1: it extends the empty prefix).
    """
    greedy_tokens = [vocabulary[token] for token in greedy]
    greedy_prefixes = {" ".join(greedy_tokens[:length]) for length in range(1, len(greedy) + 1)}
    rows: list[dict[str, Any]] = []
    row_of_beam = {0: -1}  # of the previous step
    for step, candidates in groupby((c for c in trace if c.sentence == sentence), key=lambda c: c.length):
        next_row_of_beam = {}
        for rank, candidate in enumerate(candidates):
            parent = row_of_beam[candidate.parent]
            prefix = rows[parent]["text"] + " " if parent >= 0 else ""
            token = vocabulary[candidate.token]
            if candidate.beam is not None:
                next_row_of_beam[candidate.beam] = len(rows)
            rows.append(
                {
                    "step": step,
                    "rank": rank,
                    "token": token,
                    "text": prefix + token,
                    "log_probability": candidate.log_probability,
                    "score": candidate.score,
                    "fate": candidate.fate,
                    "winner": False,
                    "greedy": prefix + token in greedy_prefixes,
                    "parent": parent,
                }
            )
        row_of_beam = next_row_of_beam
    finished = [i for i, row in enumerate(rows) if row["fate"] == "finished"]
    i = max(finished, key=lambda i: float(rows[i]["score"]), default=-1)
    while i >= 0:
        rows[i]["winner"] = True
        i = rows[i]["parent"]
    return pd.DataFrame(rows)


def beam_tree(table: pd.DataFrame, description: str) -> Any:
    """Return an Altair chart of the search tree, growing downwards step by step: a slider sets the last step shown.

    Hover over a candidate for its score and its text. The path of greedy search has orange rings, and the path to the
    best hypothesis is thick once the tree is complete.

    Args:
        table: the result of `candidate_table`.
        description: the alt text.
    """
    n_steps = int(table["step"].max())
    last_step = alt.param(
        "last_step", value=n_steps, bind=alt.binding_range(min=1, max=n_steps, step=1, name="steps shown ")
    )
    is_shown, is_winner = "datum.step <= last_step", f"datum.winner && last_step == {n_steps}"
    nodes = table.assign(x=table["rank"], y=table["step"], label=table["token"].str.replace("▁", ""))
    edges = nodes[nodes["parent"] >= 0].copy()
    edges["x0"], edges["y0"] = (nodes.loc[edges["parent"], axis].to_numpy() for axis in ("x", "y"))
    edges["y_label"] = edges["y"] - 0.45  # an edge ends above the label of a candidate, so that it crosses no label
    width, height = COLUMN * (int(nodes["x"].max()) + 1), ROW * int(nodes["y"].max())
    x_scale = alt.Scale(domain=[-0.6, nodes["x"].max() + 0.6], nice=False)
    y_scale = alt.Scale(domain=[nodes["y"].max() + 0.4, 0.3], nice=False)
    steps = alt.Axis(title="step", tickMinStep=1, grid=False, domain=False)
    colour = alt.Color(
        "fate:N",
        scale=alt.Scale(domain=list(FATES), range=list(FATES.values())),
        legend=alt.Legend(title=None, orient="top", labelColor="currentColor"),
    )
    lines = (
        alt.Chart(edges)
        .transform_filter(is_shown)
        .mark_rule()
        .encode(
            alt.X("x0:Q", scale=x_scale, axis=None), alt.Y("y0:Q", scale=y_scale, axis=steps),
            alt.X2("x:Q"), alt.Y2("y_label:Q"),
            colour, strokeWidth=alt.condition(is_winner, alt.value(3), alt.value(1)),
            opacity=alt.condition("datum.fate == 'dropped'", alt.value(0.4), alt.value(1)),
        )
    )  # fmt: skip
    tooltip = [
        alt.Tooltip("text:N", title="prefix"),
        alt.Tooltip("log_probability:Q", format=".2f", title="log-probability"),
        alt.Tooltip("score:Q", format=".3f"),
        alt.Tooltip("fate:N"),
    ]
    base = (
        alt.Chart(nodes)
        .transform_filter(is_shown)
        .encode(alt.X("x:Q", scale=x_scale, axis=None), alt.Y("y:Q", scale=y_scale, axis=steps), tooltip=tooltip)
    )
    rings = base.transform_filter("datum.greedy").mark_point(filled=False, color=style.KEY, size=230, strokeWidth=2.5)
    points = base.mark_point(filled=True, opacity=1).encode(
        color=colour, size=alt.condition(is_winner, alt.value(110), alt.value(45))
    )
    labels = base.mark_text(dy=-14, fontSize=10, limit=COLUMN + 6).encode(text="label:N")
    tree = (lines + rings + points + labels).properties(width=width, height=height, description=description)
    return style.chart_style(tree.add_params(last_step))
