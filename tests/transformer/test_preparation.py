import dataclasses
from pathlib import Path

import pytest

from transformer import corpora, preparation
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
    "change", [{"corpus": "pocket"}, {"direction": "de-en"}, {"train_pairs": 300}, {"max_length": 20}]
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
