"""The scores of test sets: their values, and how they were computed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from book._ext.results.tables import table

SCORES_BOX = "All scores, how they are computed, and where they come from"
DETAILS = "How the scores are computed, and where they come from"
SCORES = ("BLEU", "BLEU lc", "BLEU paper", "chrF2", "METEOR")
"""The scores that tables show, if they were computed; all signatures are listed below the tables."""


def score(test: Mapping[str, Any], name: str) -> float:
    """Return one of a test set's scores."""
    return float(next(result["value"] for result in test["scores"] if result["name"] == name))


def common_scores(tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of those `SCORES` that all test sets have."""
    return [name for name in SCORES if all(name in (result["name"] for result in test["scores"]) for test in tests)]


def arrow(test: Mapping[str, Any]) -> str:
    """Return the direction of a test set as "en → de"."""
    return str(test["direction"]).replace("-", " → ")


def signatures(whose: str, tests: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """Return a table of how the scores were computed: each signature once, and which models or runs it belongs to.

    Args:
        whose: the title of the column of models or runs.
        tests: the name of a model or run, and one of its test sets.
    """
    found: dict[str, dict[str, dict[str, None]]] = {}
    for name, test in tests:
        for result in test["scores"]:
            found.setdefault(result["name"], {}).setdefault(result["signature"], {})[name] = None
    rows = [
        [title, "all" if len(by_signature) == 1 else ", ".join(names), f"`{signature}`"]
        for title, by_signature in found.items()
        for signature, names in by_signature.items()
    ]
    return table(["score", whose, "signature"], rows, kind="long-end")
