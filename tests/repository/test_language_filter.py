"""The measurement of the language filter: on small corpora, and the files that it needs and has made."""

import json
import re

import pytest

from book import language_filter
from book.language_filter import LABELS, RESULT, THRESHOLDS, main, measure, pair_hash, read_labels
from transformer.errors import UserError
from transformer.recipes import WMT14_CLEANING

RIGHT = [
    ("The hotel is close to the beach.", "Das Hotel liegt nahe am Strand."),
    ("We should not forget that.", "Das sollten wir nicht vergessen."),
]
WRONG = [
    ("The hotel is close to the beach.", "Het hotel ligt dicht bij het strand."),
    ("L'hôtel est tout près de la plage.", "Das Hotel liegt ganz nahe am Strand."),
    ("L'hôtel est tout près de la plage.", "L'albergo è molto vicino alla spiaggia."),
]
LABELLED = {pair_hash(pair): pair in WRONG for pair in RIGHT + WRONG}


def test_what_is_dropped_and_what_is_wrong() -> None:
    result = measure([*RIGHT, ("", "leer"), *WRONG], LABELLED)
    assert (result["pairs"], result["checked"], result["labelled"], result["wrong"]) == (6, 5, 5, 3)
    assert result["sides"] == {"target": 1, "source": 1, "both": 1}
    assert [row["threshold"] for row in result["thresholds"]] == list(THRESHOLDS)
    assert all((row["dropped"], row["precision"], row["recall"]) == (3, 1, 1) for row in result["thresholds"])


def test_mistakes_lower_the_precision_and_what_is_missed_the_recall() -> None:
    labels = LABELLED | {pair_hash(WRONG[0]): False, pair_hash(RIGHT[0]): True, pair_hash(RIGHT[1]): True}
    for row in measure(RIGHT + WRONG, labels)["thresholds"]:
        assert (row["dropped"], row["precision"], row["recall"]) == (3, 0.667, 0.5)


def test_pairs_without_a_label_and_labels_without_a_pair() -> None:
    with pytest.raises(UserError, match=r"1 pairs that the threshold 0.001 drops have no label"):
        measure(RIGHT + WRONG, {digest: wrong for digest, wrong in LABELLED.items() if digest != pair_hash(WRONG[0])})
    with pytest.raises(UserError, match="2 of the 5 labelled pairs are not in this corpus"):
        measure(WRONG, LABELLED)


def test_the_command_writes_the_result(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(language_filter, "RESULT", tmp_path / "result.json")
    monkeypatch.setattr(language_filter, "sentence_pairs", lambda *_: RIGHT + WRONG)
    monkeypatch.setattr(language_filter, "read_labels", lambda: LABELLED)
    assert main(["web.tsv"]) == 0
    written = json.loads((tmp_path / "result.json").read_text("utf-8"))
    assert written == json.loads(capsys.readouterr().out) and written["wrong"] == 3
    monkeypatch.setattr(language_filter, "read_labels", lambda: {"0" * 16: True})
    assert main(["web.tsv"]) == 2
    assert capsys.readouterr().err == "error: 1 of the 1 labelled pairs are not in this corpus\n"


def test_labels_contain_no_text() -> None:
    lines = LABELS.read_text("utf-8").splitlines()
    assert all(re.fullmatch("[0-9a-f]{16}\t(right|wrong)", line) for line in lines)
    assert len(read_labels()) == len(lines) > 400


def test_the_result_is_of_these_labels_and_the_present_threshold() -> None:
    result, labels = json.loads(RESULT.read_text("utf-8")), read_labels()
    assert (result["labelled"], result["wrong"]) == (len(labels), sum(labels.values()))
    assert result["recipe"] == WMT14_CLEANING.min_language_probability
    assert result["recipe"] in [row["threshold"] for row in result["thresholds"]]
    assert sum(result["sides"].values()) in [
        row["dropped"] for row in result["thresholds"] if row["threshold"] == result["recipe"]
    ]
