"""The everyday sentences: unseen, translated by the models that are shipped, and judged one by one."""

import json

import pytest

from book import everyday
from book.everyday import (
    RESULT,
    SECOND_JUDGEMENTS,
    check_unseen,
    confidence_interval,
    main,
    read_judgements,
    read_sentences,
)
from transformer.data.corpora import matching_key
from transformer.data.prepare import DataConfig
from transformer.errors import UserError
from transformer.models import MODELS_FOLDER, load_model

VERSIONS = json.loads(RESULT.read_text("utf-8"))


def test_there_are_a_hundred_sentences_on_twelve_topics() -> None:
    topics = list(read_sentences("first").values())
    assert len(topics) == 100 and len(set(topics)) == 12
    assert all(5 <= topics.count(topic) <= 12 for topic in topics)


@pytest.mark.parametrize("hundred", ["second", "third", "fourth"])
def test_there_are_a_hundred_others_some_typed_in_a_hurry(hundred: str) -> None:
    sentences = read_sentences(hundred)
    assert len(sentences) == 100 and len(read_sentences()) == 400
    careless = [sentence for sentence, topic in sentences.items() if topic == "typed in a hurry"]
    assert len(careless) == 40 and all(sentence == sentence.lower() for sentence in careless)
    assert len({matching_key(sentence) for sentence in read_sentences()}) == 400


def test_every_translation_of_every_version_is_judged() -> None:
    judgements = read_judgements()
    for version in VERSIONS:
        tried = list(version["translations"])
        assert tried == list(read_sentences())[: len(tried)] and len(tried) in (100, 200, 300, 400)
        assert all(judgements[pair] for pair in version["translations"].items())


def test_the_last_three_versions_are_judged_twice_on_the_last_hundred() -> None:
    tried = {(one, version["translations"][one]) for version in VERSIONS[-3:] for one in read_sentences("fourth")}
    second = read_judgements(SECOND_JUDGEMENTS)
    assert set(second) == tried and all(second.values())


def test_the_last_version_is_the_model_that_is_shipped() -> None:
    last = VERSIONS[-1]
    assert list(last["translations"]) == list(read_sentences())
    assert last["weights"] == json.loads((MODELS_FOLDER / last["model"] / "best.json").read_text())["weights"]["sha256"]
    translator = load_model(last["model"], "cpu")
    some = list(last["translations"].items())[::10]
    same = [translator.translate(sentence) == translation for sentence, translation in some]
    assert sum(same) >= 9, "on another machine rounding may change one of ten"


def test_the_confidence_interval_is_wilsons() -> None:
    assert confidence_interval(78, 100) == pytest.approx((0.6893, 0.8499), abs=1e-4)
    assert confidence_interval(0, 10) == pytest.approx((0, 0.2775), abs=1e-4)


def test_a_sentence_from_the_training_data_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [("I love you.", "Ich liebe dich."), ("Where are you?", "Wo bist du?")]
    monkeypatch.setattr(everyday, "sentence_pairs", lambda *_: iter(pairs))
    check_unseen(["You love me."], DataConfig("everyday"))
    with pytest.raises(UserError, match="this sentence is in the training data: I love you!"):
        check_unseen(["You love me.", "I love you!"], DataConfig("everyday"))


def test_the_command_adds_a_version_and_lists_what_is_not_judged(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(everyday, "RESULT", tmp_path / "result.json")
    monkeypatch.setattr(everyday, "read_sentences", lambda *_: {"The dog sleeps.": "dogs", "The cat sleeps.": "cats"})
    monkeypatch.setattr(everyday, "read_judgements", lambda: {("The dog sleeps.", "Der Hund schläft."): "right"})
    monkeypatch.setattr(everyday, "sentence_pairs", lambda *_: iter([]))
    for _ in range(2):
        assert main(["pocket-small"]) == 0
    (version,) = json.loads((tmp_path / "result.json").read_text("utf-8"))
    assert version["model"] == "pocket-small" and version["translations"]["The cat sleeps."] == "Die Katze schläft."
    printed = capsys.readouterr().out
    assert printed.startswith(
        "1 of 2 translations are right, 1 are not judged yet\nThe cat sleeps.\tDie Katze schläft.\t\n"
    )
    assert main(["nothing"]) == 2 and "no pretrained model of this name" in capsys.readouterr().err
