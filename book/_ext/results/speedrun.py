"""The speedrun: its rules, and the entries that keep them."""

from pathlib import Path
from typing import Any

from book._ext.results.experiments import three_scores, without_seed
from book._ext.results.spread import Spread
from book._ext.results.tables import Part, read_results, table

SPEEDRUN_GOAL, SPEEDRUN_SEEDS = 33.0, 3
"""The BLEU that an entry to the speedrun must reach, as the mean of at least so many seeds."""


def speedrun_records(root: Path) -> list[Part]:
    """Return a table of the entries that keep the rules of the speedrun, in the order in which they were recorded.

    An entry is the finished runs ``NAME-1``, ``NAME-2``, ``NAME-3`` and so on, one for each seed.
    """
    entries: dict[str, list[dict[str, Any]]] = {}
    for row in read_results(root, "captions-speedrun")["rows"]:
        if row["label"].endswith(f"-{row['seed']}") and not row["failed"]:
            entries.setdefault(without_seed(row), []).append(row)
    cells = []
    for name, runs in entries.items():
        sessions = [session for row in runs for session in row["sessions"]]
        bleu, minutes = Spread.of([three_scores(row)[1] for row in runs]), Spread.of([row["minutes"] for row in runs])
        if (
            sorted(row["seed"] for row in runs) == [*range(1, bleu.n + 1)]
            and bleu.n >= SPEEDRUN_SEEDS
            and bleu.mean >= SPEEDRUN_GOAL
            and all(session["threads"] <= 2 and session["device"].startswith("cpu") for session in sessions)
        ):
            origins = (sessions[0]["machine"], sessions[0]["date"][:10], f"`{sessions[0]['commit']}`")
            cells.append([name, minutes.text(), bleu.text(), bleu.n, *origins])
    return [table(["entry", "minutes", "BLEU, beam 4", "seeds", "hardware", "date", "commit"], cells)]
