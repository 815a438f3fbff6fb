"""The measurement of vocabulary sizes: on a small corpus, and the copy of its result in chapter 8."""

import json
from pathlib import Path

import jupytext
import pytest

from book import vocabulary_sizes
from book.vocabulary_sizes import RESULT, SIZES, WORDS, main, measure
from transformer.data import pocket
from transformer.errors import UserError

ROOT = Path(__file__).parents[2]
PAIRS = [(pair.source, pair.target) for pair in pocket.pairs("train", 300)]
TEST = [(pair.source, pair.target) for pair in pocket.pairs("test", 50)]


def test_a_larger_vocabulary_has_shorter_sequences_and_rarer_tokens() -> None:
    small, large = measure(PAIRS, TEST, 150), measure(PAIRS, TEST, 600)
    for side in (0, 1):
        assert small["fertility"][side] > large["fertility"][side] > 1
    assert small["frequent"] > large["frequent"] and small["rare"] < large["rare"]
    assert small["unknown_words"] > large["unknown_words"] > 0


def test_the_command_writes_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(vocabulary_sizes, "RESULT", tmp_path / "result.json")
    monkeypatch.setattr(vocabulary_sizes, "SIZES", (150, 300))
    monkeypatch.setattr(vocabulary_sizes, "sentence_pairs", lambda _, split, **__: PAIRS if split == "train" else TEST)
    assert main([]) == 0
    written = json.loads((tmp_path / "result.json").read_text("utf-8"))
    assert written == json.loads(capsys.readouterr().out)
    assert written["pairs"] == 300 and [row["size"] for row in written["rows"]] == [150, 300]

    def unavailable(*_: object, **__: object) -> None:
        raise UserError("no corpus")

    monkeypatch.setattr(vocabulary_sizes, "sentence_pairs", unavailable)
    assert main([]) == 2
    assert capsys.readouterr().err == "error: no corpus\n"


def test_chapter_8_shows_the_result() -> None:
    chapter = jupytext.read(ROOT / "chapters" / "08_subword_tokenization.py")
    text = "\n".join(cell.source for cell in chapter.cells if cell.cell_type == "markdown")
    result = json.loads(RESULT.read_text("utf-8"))
    assert [row["size"] for row in result["rows"]] == list(SIZES)
    assert list(result["words_of_first_figure"]) == list(WORDS)
    for row in result["rows"]:
        english, german = row["fertility"]
        frequent, unknown = row["frequent"], row["unknown_words"]
        cells = f"| {row['size']:,} | {english:.2f} / {german:.2f} | {frequent:.0%} | {unknown:.0%} |"
        assert cells in text
