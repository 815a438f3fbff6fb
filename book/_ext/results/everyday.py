"""The everyday sentences: how many of them each model translates correctly, in the judgement of language models."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from book._ext.results.tables import ORIGIN, Part, folded, origin, read_results, table
from book.everyday import HUNDREDS, RIGHT, count_right, read_judgements, read_sentences


def everyday_sentences(root: Path) -> list[Part]:
    """Return how many of the everyday sentences each model got right, and the translations of the last one."""
    versions = read_results(root, "everyday-sentences")
    sentences_path = root / "book" / "everyday_sentences.tsv"
    topics = read_sentences(path=sentences_path)
    hundreds = {name: read_sentences(name, sentences_path) for name in HUNDREDS}
    judgements = read_judgements(root / "book" / "everyday_judgements.tsv")
    rows, origins = [], []
    for number, version in enumerate(versions, 1):
        name = f"`{version['model']}`, version {number}"
        counts = []
        for sentences in hundreds.values():
            tried = {one: version["translations"][one] for one in sentences if one in version["translations"]}
            counts.append(str(count_right(tried, judgements)) if tried else "\N{EN DASH}")
        rows.append([name, *counts])
        origins.append([name, f"`{version['weights'][:12]}`", *origin(version["provenance"])])
    last = [
        [topics[pair[0]], *pair, judgements.get(pair, "not judged yet")]
        for pair in versions[-1]["translations"].items()
    ]
    return [
        table(["right, of a hundred", *hundreds], rows),
        second_opinion(judgements, read_judgements(root / "book" / "everyday_second_judgements.tsv"), versions[-1]),
        folded(
            "The sentences and the last model's translations",
            table(["topic", "English", "German", "judgement"], last, kind="stacked judgements"),
        ),
        folded("Where these translations come from", table(["model", "weights", *ORIGIN], origins, kind="long-end")),
    ]


def second_opinion(
    first: Mapping[tuple[str, ...], str], second: Mapping[tuple[str, ...], str], version: Mapping[str, Any]
) -> str:
    """Return a sentence on how far two judges agree, and how many translations of a version each found right."""
    agreed = sum((first[pair] == RIGHT) == (verdict == RIGHT) for pair, verdict in second.items())
    twice = {pair[0]: pair[1] for pair in version["translations"].items() if pair in second}
    return (
        f"\nA second judge (see below) agreed with the first on {agreed} of {len(second)} different translations. "
        f"Of the {len(twice)} by the last version, the second found {count_right(twice, second)} right, and the first "
        f"{count_right(twice, first)}.\n"
    )
