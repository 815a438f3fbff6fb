"""The measurement of the live translator's models: its threshold on made-up numbers, and the file that it has made."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from book import live_models
from book._ext.widgets import MODELS
from book.live_models import POOR, RESULT, Scored, best_threshold, main, measure, sentences_unlike
from transformer.errors import UserError
from transformer.models import MODELS_FOLDER, load_model

GOOD, BAD = Scored("", 0.0, POOR), Scored("", 0.0, POOR - 1)
PAIRS = [("Two dogs run.", "Zwei Hunde laufen."), ("A man sleeps.", "Ein Mann schläft."), ("Hello.", "Guten Tag.")]


def test_the_threshold_separates_poor_translations_from_the_others() -> None:
    poor = [replace(BAD, probability=p) for p in (0.1, 0.2, 0.305, 0.8)]
    others = [replace(GOOD, probability=p) for p in (0.15, 0.5, 0.6, 0.7)]
    assert best_threshold([*poor, *others]) == 0.31  # three poor ones are below it, and one other
    assert best_threshold([replace(BAD, probability=0.4), replace(GOOD, probability=0.41)]) == 0.41
    for some in (poor, others, []):
        with pytest.raises(UserError, match="both poor translations and others"):
            best_threshold(some)


def test_a_measurement() -> None:
    measured = measure(load_model("multi30k", "cpu"), PAIRS, [("Interest rates rise.", "Die Zinsen steigen.")])
    assert measured["sentences"] == 3 and 0 < measured["threshold"] < 1
    assert measured["bleu"] == pytest.approx(measured["bleu_8_bit"], abs=5) and measured["bleu"] > 20
    assert measured["guesses"]["unlike"] == 1 > measured["guesses"]["own"]
    assert measured["poor"]["below"] > measured["poor"]["above"]


def test_the_command_keeps_the_results_of_other_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_models, "RESULT", tmp_path / "live.json")
    monkeypatch.setattr(live_models, "sentence_pairs", lambda *_: PAIRS)
    monkeypatch.setattr(live_models, "measure", lambda _, own, unlike: {"threshold": len(own) / 10})
    assert main(["multi30k", "--sentences", "2"]) == main(["pocket-small"]) == 0
    written = json.loads((tmp_path / "live.json").read_text("utf-8"))["models"]
    assert {name: model["threshold"] for name, model in written.items()} == {"multi30k": 0.2, "pocket-small": 0.3}
    assert main(["nothing"]) == 2


def test_a_model_of_an_unknown_corpus_needs_sentences_unlike_it() -> None:
    assert sentences_unlike("pocket-200k") == ("everyday", "test")
    with pytest.raises(UserError, match="unlike those of 'mine': name two files with --unlike"):
        sentences_unlike("mine")


@pytest.mark.parametrize("name", MODELS)
def test_the_result_is_of_the_present_weights_and_8_bits_cost_little(name: str) -> None:
    model = json.loads(RESULT.read_text("utf-8"))["models"][name]
    assert model["weights"] == json.loads((MODELS_FOLDER / name / "best.json").read_text("utf-8"))["weights"]["sha256"]
    assert abs(model["bleu"] - model["bleu_8_bit"]) <= 0.2
    assert model["poor"]["below"] > model["poor"]["above"]
