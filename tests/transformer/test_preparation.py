import dataclasses
import json
from pathlib import Path

import pytest

from transformer import corpora, preparation
from transformer.cleaning import OFF, CleaningConfig
from transformer.errors import UserError
from transformer.preparation import DataConfig, prepare, store_folder

COPY = DataConfig("copy", train_pairs=200)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRANSFORMER_DATA", str(tmp_path))
    return tmp_path / "prepared"


def test_prepared_once_then_found(monkeypatch: pytest.MonkeyPatch) -> None:
    data = prepare(COPY, 57)
    sources, targets = data.tokens("train")
    assert len(sources) == len(targets) == 200
    assert data.tokenizer.decode(sources[0].tolist()) == data.tokenizer.decode(targets[0].tolist())
    assert len(data.texts("test")) == 1000
    monkeypatch.setattr(preparation, "load_pairs", lambda *_: pytest.fail("prepared again"))
    assert prepare(COPY, 57).folder == data.folder


@pytest.mark.parametrize(
    "change",
    [
        {"corpus": "pocket"},
        {"direction": "de-en"},
        {"train_pairs": 300},
        {"max_length": 20},
        {"cleaning": dataclasses.replace(OFF, max_ratio=2.0)},
        {"cleaning": dataclasses.replace(OFF, drop_duplicates=True)},
    ],
)
def test_every_setting_has_a_store_of_its_own(change: dict[str, object]) -> None:
    other = dataclasses.replace(COPY, **change)  # type: ignore[arg-type]
    assert store_folder(other, 57) != store_folder(COPY, 57) != store_folder(COPY, 58)


def test_another_text_under_the_same_name_has_another_store(monkeypatch: pytest.MonkeyPatch) -> None:
    before = store_folder(COPY, 57), store_folder(DataConfig("multi30k"), 57)
    monkeypatch.setitem(corpora.GENERATED_SIZE, "train", 7)
    monkeypatch.setitem(corpora.FETCHED["multi30k"]["sha256"], "train.en.gz", "0" * 64)
    after = store_folder(COPY, 57), store_folder(DataConfig("multi30k"), 57)
    assert before[0] != after[0] and before[1] != after[1]


def test_a_broken_preparation_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformer.batching.np.save", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        prepare(COPY, 57)
    assert list(cache.iterdir()) == []


def test_long_pairs_are_left_out_and_an_empty_rest_is_an_error() -> None:
    sources, _ = prepare(dataclasses.replace(COPY, max_length=6), 57).tokens("train")
    assert 0 < len(sources) < 200 and sources.lengths().max() <= 6
    with pytest.raises(UserError, match="no train pair of copy has 1 to 2 tokens a side"):
        prepare(dataclasses.replace(COPY, max_length=2), 57)


def test_training_pairs_are_cleaned_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = prepare(COPY, 57)
    assert (plain.cleaning.seen, plain.cleaning.kept, plain.cleaning.dropped) == (200, 200, {})
    cleaning = dataclasses.replace(OFF, min_tokens=5, drop_duplicates=True)
    pairs = corpora.load_pairs("copy", "train")[:100]
    monkeypatch.setattr(preparation, "load_pairs", lambda _c, split, *_: pairs * 2 if split == "train" else pairs)
    data = prepare(dataclasses.replace(COPY, cleaning=cleaning), 57)
    long = [source for source, _ in pairs if len(source.split()) >= 5]
    assert 0 < len(long) < 100
    assert [data.tokenizer.decode(ids.tolist()) for ids in data.tokens("train")[0]] == long
    assert len(data.tokens("valid")[0]) == len(data.texts("valid")) == len(data.texts("test")) == 100
    report = data.cleaning
    assert report.seen == 200 and report.kept == len(long)
    assert report.dropped == {"min_tokens": 2 * (100 - len(long)), "drop_duplicates": len(long)}
    assert report.examples["drop_duplicates"][0]["line"] == 101 + pairs.index((long[0], long[0]))


def test_everything_cleaned_away_is_an_error_and_leaves_nothing(cache: Path) -> None:
    with pytest.raises(UserError, match=r"nothing of copy train is left .*: 0 of 200 pairs .* drop_identical: 200$"):
        prepare(dataclasses.replace(COPY, cleaning=CleaningConfig()), 57)
    assert list(cache.iterdir()) == []


def test_settings_come_back_from_json() -> None:
    cleaned = dataclasses.replace(COPY, cleaning=CleaningConfig(max_ratio=2))
    for config in (COPY, cleaned):
        assert DataConfig.from_dict(json.loads(json.dumps(dataclasses.asdict(config)))) == config
    before_cleaning = {"corpus": "copy", "direction": "en-de", "train_pairs": 200, "max_length": 150}
    assert DataConfig.from_dict(before_cleaning) == COPY


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({}, "name no corpus"),
        ({"corpus": "copy", "colour": "red"}, "another version of the course: .*'colour'"),
        ({"corpus": "copy", "cleaning": {"min_colour": 1}}, "another version of the course: .*'min_colour'"),
        ({"corpus": "copy", "cleaning": {"min_tokens": "many"}}, "another version of the course"),
        ({"corpus": "copy", "cleaning": None}, "another version of the course"),
        ({"corpus": "copy", "cleaning": {"max_ratio": 0.5}}, "max_ratio must be 0"),
    ],
)
def test_settings_of_another_version_are_refused(described: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        DataConfig.from_dict(described)
