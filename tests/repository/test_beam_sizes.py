"""The measurement of beam sizes: on a toy search, its result, and the copy of it that chapter 12 draws."""

import ast
from pathlib import Path

import jupytext
import pytest

import transformer
from book import beam_sizes
from book.beam_sizes import BEAM_SIZES, LENGTH_PENALTIES, RESULT, compare_with_empty, main, measure, p_values
from transformer.checkpoint import read_json
from transformer.data import pocket
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
    whole, texts = measure(Shortening(), references, references, 1, 0.6)  # type: ignore[arg-type]
    assert (whole["beam"], whole["alpha"], whole["log_probability"], whole["empty"]) == (1, 0.6, -2.0, 0)
    assert (whole["bleu"], whole["length_ratio"]) == (100, 1) and texts == references
    shorter, texts = measure(Shortening(), references, references, 2, 0.0)  # type: ignore[arg-type]
    assert shorter["bleu"] < 80 and shorter["length_ratio"] == 0.8 and texts == ["a b c d", "f g h i"]
    assert measure(Shortening(), references, references, 6, 0.0)[0]["empty"] == 2  # type: ignore[arg-type]


def test_a_beam_size_is_compared_with_greedy_search_and_with_four_beams() -> None:
    references = [f"the dog number {i} sees a cat in the garden" for i in range(50)]
    nearly = [*references[:-1], "the dog number 49 sees a cat in the house"]
    poor = [reference.replace("sees a cat", "a cat sees") for reference in references]
    found = p_values({1: poor, 4: references, 8: nearly}, 8, references)
    assert found["1"] < 0.01 and found["4"] > 0.1
    assert p_values({1: poor, 4: nearly}, 4, references)["4"] == 1


def test_all_settings_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [("one two three", "eins zwei drei vier")] * 2
    monkeypatch.setattr(beam_sizes, "RESULT", tmp_path / "result.json")
    monkeypatch.setattr(beam_sizes, "sentence_pairs", lambda *_, **__: pairs)
    monkeypatch.setattr(beam_sizes.transformer, "load", lambda *_, **__: Shortening())
    monkeypatch.setattr(beam_sizes, "compare_with_empty", lambda *_: {"beats_greedy": 1})
    assert main([]) == 0
    result = read_json(tmp_path / "result.json")
    assert (
        result["captions"] == 2
        and list(result["rows"][0]["p_values"]) == ["1", "4"]
        and result["signature"].startswith("nrefs:1|case:mixed")
    )
    assert len(result["rows"]) == len(BEAM_SIZES) * len(LENGTH_PENALTIES)
    assert result["empty_translation"] == {"beats_greedy": 1}


def test_the_empty_translation_is_compared_with_the_reference_and_with_greedy_search() -> None:
    translator = transformer.load("pocket-small", device="cpu", precision="fp32")
    (pair,) = pocket.pairs("valid", 1)
    right = compare_with_empty(translator, [pair.source], [pair.target])
    assert right["beats_reference"] == right["beats_greedy"] == 0
    assert right["reference_log_probability"] == pytest.approx(right["greedy_log_probability"], abs=1e-3)
    assert right["reference_length"] == len(translator.tokenizer.encode(pair.target)) + 1
    wrong = compare_with_empty(translator, [pair.source] * 2, [pair.target, "Hund " * 9])
    assert (wrong["beats_reference"], wrong["beats_greedy"]) == (1, 0)
    assert wrong["log_probability"] == pytest.approx(right["log_probability"], abs=1e-3)


def test_the_chapter_draws_the_measured_values() -> None:
    result = read_json(RESULT)
    assert result["captions"] == 1000, "the whole test set"
    assert [(row["alpha"], row["beam"]) for row in result["rows"]] == [
        (alpha, beam) for alpha in LENGTH_PENALTIES for beam in BEAM_SIZES
    ]
    drawn = {
        ast.unparse(node.targets[0]): ast.literal_eval(node.value)
        for cell in jupytext.read(CHAPTER).cells
        if cell.cell_type == "code"
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("measured", "empty_translation")
    }
    for row in result["rows"]:
        values = (row["bleu"], row["length_ratio"], row["log_probability"])
        assert drawn["measured"][row["alpha"]][row["beam"]] == values
    assert drawn["empty_translation"] == result["empty_translation"]
