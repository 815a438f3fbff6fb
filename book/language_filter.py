"""Measure the language filter on pairs that were labelled by hand: ``python -m book.language_filter CORPUS``.

The labels are in ``language_labels.tsv``: a hash of each labelled pair, and whether both sides are in their language. A
side is in its language if more than half of its words are, apart from names and numbers.

The pairs are the first 20,000 of Europarl v7, the first 5,000 of News Commentary v9, and 10,000 pairs from the web that
stand in for CommonCrawl. Of those that the other filters of the WMT14 recipes keep, two kinds are labelled: those that
py3langid, fastText's lid.176 or CLD2 suspected, and 100 of the rest, drawn at random, none of which is wrong.

The result is written to ``book/results/language-filter.json``.
"""

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from book.scripts import RESULTS, guarded, write_result
from transformer.data.cleaning import Cleaner
from transformer.data.corpora import sentence_pairs
from transformer.data.language import language_probability
from transformer.data.readers import SentencePair
from transformer.errors import UserError
from transformer.provenance import provenance
from transformer.recipes import WMT14_CLEANING

LABELS = Path(__file__).parent / "language_labels.tsv"
RESULT = RESULTS / "language-filter.json"
THRESHOLDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
"""Values of ``min_language_probability``. Every pair that they drop is labelled."""


def pair_hash(pair: SentencePair) -> str:
    """Return the hash by which ``language_labels.tsv`` identifies a pair."""
    return hashlib.blake2b("\t".join(pair).encode(), digest_size=8).hexdigest()


def read_labels() -> dict[str, bool]:
    """Return the labels: hash → whether a side of the pair is in the wrong language."""
    rows = (line.split("\t") for line in LABELS.read_text("utf-8").splitlines())
    return {digest: label == "wrong" for digest, label in rows}


def measure(pairs: Iterable[SentencePair], labels: dict[str, bool]) -> dict[str, Any]:
    """Apply the filter with each threshold to English-German pairs.

    Args:
        pairs: source and target sentences.
        labels: hash → whether the pair is in the wrong language; every pair that is dropped needs one.

    Returns:
        The number of pairs that the other filters kept; for each threshold, how many of them it dropped, its precision
        and its recall; and in how many of the pairs that the recipes' threshold drops the filter found the wrong
        language in the source, the target or both.

    Raises:
        UserError: if a dropped pair has no label, or a label no pair.
    """
    cleaner = Cleaner(replace(WMT14_CLEANING, min_language_probability=0.0))
    probabilities: dict[str, tuple[float, float]] = {}
    for source, target in cleaner.clean(pairs):
        sides = language_probability(source, "en"), language_probability(target, "de")
        probabilities[pair_hash((source, target))] = sides
    if missing := labels.keys() - probabilities.keys():
        raise UserError(f"{len(missing)} of the {len(labels)} labelled pairs are not in this corpus")
    n_wrong = sum(labels.values())
    rows = []
    for threshold in THRESHOLDS:
        dropped = [digest for digest, sides in probabilities.items() if min(sides) < threshold]
        if unlabelled := [digest for digest in dropped if digest not in labels]:
            raise UserError(f"{len(unlabelled)} pairs that the threshold {threshold} drops have no label")
        n_found = sum(labels[digest] for digest in dropped)
        rows.append(
            {
                "threshold": threshold,
                "dropped": len(dropped),
                "precision": round(n_found / len(dropped), 3),
                "recall": round(n_found / n_wrong, 3),
            }
        )
    threshold = WMT14_CLEANING.min_language_probability
    wrong_sides = Counter(
        "both" if max(sides) < threshold else "source" if sides[0] < threshold else "target"
        for sides in probabilities.values()
        if min(sides) < threshold
    )
    return {
        "pairs": cleaner.report.seen,
        "checked": cleaner.report.kept,
        "labelled": len(labels),
        "wrong": n_wrong,
        "thresholds": rows,
        "recipe": threshold,
        "sides": dict(wrong_sides),
    }


@guarded
def main(arguments: list[str] | None = None) -> None:
    """Measure the filter and write the result."""
    parser = argparse.ArgumentParser(
        prog="python -m book.language_filter",
        description="Measure the language filter on pairs that were labelled by hand.",
    )
    parser.add_argument("corpus", help="a corpus with the labelled pairs: a manifest, X.tsv or X.en,X.de")
    options = parser.parse_args(arguments)
    result = {"provenance": provenance("cpu"), **measure(sentence_pairs(options.corpus, "train"), read_labels())}
    write_result(RESULT, result)
    print(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    sys.exit(main())
