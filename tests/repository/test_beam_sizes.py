"""The measurement of beam sizes: on a toy search, its result, and the copy of it that chapter 12 draws."""

import ast
from pathlib import Path

import jupytext
import pytest

from book import beam_sizes
from book.beam_sizes import BEAM_SIZES, CAPTIONS, LENGTH_PENALTIES, RESULT, main, measure
from transformer.checkpoint import read_json
from transformer.decoding import Hypothesis
from transformer.translator import Translation

CHAPTER = Path(__file__).parents[2] / "chapters" / "12_decoding.py"


class Shortening:
    """Stands in for a translator whose translations get shorter as the beam gets wider."""

    def beam_search(self, sentences: list[str], beam_size: int, length_penalty: float) -> list[list[Translation]]:
        texts = [" ".join(sentence.split()[: 6 - beam_size]) for sentence in sentences]
        return [[Translation(text, Hypothesis([], -2.0 * beam_size, length_penalty))] for text in texts]


def test_a_row_has_the_scores_of_one_setting() -> None:
    references = ["a b c d e", "f g h i j"]
    whole = measure(Shortening(), references, references, 1, 0.6)  # type: ignore[arg-type]
    assert (whole["beam"], whole["alpha"], whole["log_probability"], whole["empty"]) == (1, 0.6, -2.0, 0)
    assert (whole["bleu"], whole["length_ratio"]) == (100, 1)
    shorter = measure(Shortening(), references, references, 2, 0.0)  # type: ignore[arg-type]
    assert shorter["bleu"] < 80 and shorter["length_ratio"] == 0.8
    assert measure(Shortening(), references, references, 6, 0.0)["empty"] == 2  # type: ignore[arg-type]


def test_all_settings_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [("one two three", "eins zwei drei vier")] * 2
    monkeypatch.setattr(beam_sizes, "RESULT", tmp_path / "result.json")
    monkeypatch.setattr(beam_sizes, "sentence_pairs", lambda *_, **__: pairs)
    monkeypatch.setattr(beam_sizes.transformer, "load", lambda *_, **__: Shortening())
    assert main([]) == 0
    result = read_json(tmp_path / "result.json")
    assert result["captions"] == 2 and result["signature"].startswith("nrefs:1|case:mixed")
    assert len(result["rows"]) == len(BEAM_SIZES) * len(LENGTH_PENALTIES)


def test_the_chapter_draws_the_measured_values() -> None:
    result = read_json(RESULT)
    assert result["captions"] == CAPTIONS
    assert [(row["alpha"], row["beam"]) for row in result["rows"]] == [
        (alpha, beam) for alpha in LENGTH_PENALTIES for beam in BEAM_SIZES
    ]
    (drawn,) = (
        ast.literal_eval(node.value)
        for cell in jupytext.read(CHAPTER).cells
        if cell.cell_type == "code"
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "measured"
    )
    for row in result["rows"]:
        assert drawn[row["alpha"]][row["beam"]] == (row["bleu"], row["length_ratio"])
