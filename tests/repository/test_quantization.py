"""The measurement of int8: on a toy test set, and its result on the page."""

import json
from pathlib import Path

import pytest

from book import quantization
from book._ext.results import section
from book._ext.results.tables import MISSING
from book.quantization import RESULT, TEST_SETS, main
from transformer.checkpoint import read_json
from transformer.errors import UserError


def test_both_precisions_translate_a_test_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [("the old woman reads the book .", "die alte Frau liest das Buch ."), ("the dog sleeps .", "der Hund .")]
    monkeypatch.setattr(quantization, "RESULT", tmp_path / "int8.json")
    monkeypatch.setattr(quantization, "TEST_SETS", [("pocket-small", "test")])
    monkeypatch.setattr(quantization, "sentence_pairs", lambda *_: pairs)
    assert main([]) == 0
    result = read_json(tmp_path / "int8.json")
    (row,) = result["rows"]
    assert (row["model"], row["split"], row["sentences"]) == ("pocket-small", "test", 2)
    assert row["fp32"].keys() == row["int8"].keys() == {"bleu", "seconds"} and row["same"] in (0, 1, 2)
    assert result["provenance"]["device"].startswith("cpu in int8")


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise UserError("cannot read the corpus")

    monkeypatch.setattr(quantization, "sentence_pairs", missing)
    assert main([]) == 2
    assert capsys.readouterr().err == "error: cannot read the corpus\n"


def test_bleu_is_within_three_tenths() -> None:
    result = read_json(RESULT)
    assert [(row["model"], row["split"]) for row in result["rows"]] == TEST_SETS
    for row in result["rows"]:
        assert abs(row["int8"]["bleu"] - row["fp32"]["bleu"]) < 0.3 and row["same"] > 0.8 * row["sentences"]


def test_the_page_has_a_row_for_each_test_set(tmp_path: Path) -> None:
    table, origin = section("int8")
    result = json.loads(RESULT.read_text())
    lines = str(table).splitlines()[2:]
    assert len(lines) == len(TEST_SETS)
    for line, row in zip(lines, result["rows"], strict=True):
        assert f"`{row['model']}`" in line and f"{row['int8']['bleu']:.2f}" in line
    assert result["provenance"]["commit"] in str(origin)
    assert section("int8", tmp_path) == [MISSING]
