"""A beam search from above: every candidate that it weighed, what became of it, and the way of the winner."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import altair as alt
import pandas as pd

from transformer.decoding import Candidate
from transformer.plots import style

COLUMN, ROW = 48, 40
"""Room for a candidate in pixels."""
FATES = {"kept": style.QUERY, "finished": style.VALUE, "dropped": style.PLAIN}


def candidate_table(trace: Sequence[Candidate], vocabulary: Sequence[str], sentence: int = 0) -> pd.DataFrame:
    """Every candidate of a sentence's search, a row each, as the search weighed them: step by step, the best first.

    Args:
        trace: what `beam_search` has left in its ``trace``.
        vocabulary: the pieces by id.
        sentence: row of the source.

    Returns:
        Columns: ``step``, ``place`` (0 is the best of its step), ``piece``, ``text`` (all pieces so far),
        ``log_probability``, ``score``, ``fate``, ``winner`` (whether it is on the way to the best finished one), and
        ``parent``, the row that it goes on from (-1: the beginning).
    """
    rows: list[dict[str, Any]] = []
    beams = {0: -1}  # the rows that the beams of the last step stand in
    for step, found in groupby((c for c in trace if c.sentence == sentence), key=lambda c: c.length):
        becomes = {}
        for place, candidate in enumerate(found):
            parent = beams[candidate.parent]
            before = rows[parent]["text"] + " " if parent >= 0 else ""
            piece = vocabulary[candidate.token]
            if candidate.beam is not None:
                becomes[candidate.beam] = len(rows)
            rows.append(
                {
                    "step": step,
                    "place": place,
                    "piece": piece,
                    "text": before + piece,
                    "log_probability": candidate.log_probability,
                    "score": candidate.score,
                    "fate": candidate.fate,
                    "winner": False,
                    "parent": parent,
                }
            )
        beams = becomes
    ended = [number for number, row in enumerate(rows) if row["fate"] == "finished"]
    at = max(ended, key=lambda number: float(rows[number]["score"]), default=-1)
    while at >= 0:
        rows[at]["winner"] = True
        at = rows[at]["parent"]
    return pd.DataFrame(rows)


def beam_tree(table: pd.DataFrame, description: str) -> Any:
    """An Altair chart of the search, from top to bottom; pointing at a candidate reads out its score and its words.

    Args:
        table: of `candidate_table`.
        description: the alt text.
    """
    nodes = table.assign(x=table["place"], y=table["step"], word=table["piece"].str.replace("▁", ""))
    edges = nodes[nodes["parent"] >= 0].copy()
    edges["x0"], edges["y0"] = (nodes.loc[edges["parent"], axis].to_numpy() for axis in ("x", "y"))
    width, height = COLUMN * (int(nodes["x"].max()) + 1), ROW * int(nodes["y"].max())
    across = alt.Scale(domain=[-0.6, nodes["x"].max() + 0.6], nice=False)
    down = alt.Scale(domain=[nodes["y"].max() + 0.4, 0.3], nice=False)
    steps = alt.Axis(title="step", tickMinStep=1, grid=False, domain=False)
    colour = alt.Color(
        "fate:N",
        scale=alt.Scale(domain=list(FATES), range=list(FATES.values())),
        legend=alt.Legend(title=None, orient="top", labelColor="currentColor"),
    )
    lines = (
        alt.Chart(edges)
        .mark_rule()
        .encode(
            alt.X("x0:Q", scale=across, axis=None), alt.Y("y0:Q", scale=down, axis=steps), alt.X2("x:Q"), alt.Y2("y:Q"),
            colour, strokeWidth=alt.condition("datum.winner", alt.value(3), alt.value(1)),
            opacity=alt.condition("datum.fate == 'dropped'", alt.value(0.4), alt.value(1)),
        )
    )  # fmt: skip
    tooltip = [
        alt.Tooltip("text:N", title="so far"),
        alt.Tooltip("log_probability:Q", format=".2f", title="log-probability"),
        alt.Tooltip("score:Q", format=".3f"),
        alt.Tooltip("fate:N"),
    ]
    base = alt.Chart(nodes).encode(
        alt.X("x:Q", scale=across, axis=None), alt.Y("y:Q", scale=down, axis=steps), tooltip=tooltip
    )
    dots = base.mark_point(filled=True, opacity=1).encode(
        color=colour, size=alt.condition("datum.winner", alt.value(110), alt.value(45))
    )
    names = base.mark_text(dy=-11, fontSize=10, limit=COLUMN + 6).encode(text="word:N")
    return style.chart_style((lines + dots + names).properties(width=width, height=height, description=description))
