"""Whatever is in a file of a run or a model: it is read as it should be, or a line names the file and the field."""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transformer.checkpoint import load_checkpoint, read_settings
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.prepare import DataConfig
from transformer.errors import UserError
from transformer.evaluation.evaluate import read_scores
from transformer.files import check_writable, convert, read_json, read_rows, write_atomically
from transformer.models import find_model
from transformer.training.run_folder import METRICS_KEYS, read_log, read_metrics, read_sessions
from transformer.translator import Translator

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=9,
)
one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    shutil.copytree(find_model("pocket-small"), folder)
    return folder


def change(path: Path, keys: str, value: object) -> None:
    """Set a value in a JSON file, such as that of ``model.d_ff``."""
    content = json.loads(path.read_text())
    *parents, last = keys.split(".")
    inner = content
    for key in parents:
        inner = inner[key]
    inner[last] = value
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        ("model", "large", "best.json: model must be a JSON object; got 'large'"),
        ("model.d_ff", "large", "best.json: model: d_ff must be a whole number; got 'large'"),
        ("model.d_ff", 2.5, "best.json: model: d_ff must be a whole number; got 2.5"),
        ("model.d_ff", True, "best.json: model: d_ff must be a whole number; got True"),
        ("model.norm", ["pre"], "best.json: model: norm must be one of post, pre; got"),
        ("model.dropout", 7, "best.json: model: model.dropout must be at least 0 and less than 1; got 7"),
        ("model.colour", "red", "best.json: model: 'colour' is unknown"),
        ("model.d_ff", 10**11, "belong to another model"),
        ("model.n_layers", 10**7, "belong to another model"),
        ("model.vocab_size", 10**12, "belong to another model"),
        ("model.max_length", 10**11, "model.max_length must be at most 100,000"),
        ("training.seed", 10**30, "training.seed must be at most 4,294,967,295"),
        ("metrics", {"step": "last"}, "best.json: metrics: step must be a number; got 'last'"),
        ("weights", 5, "best.json: weights must be a JSON object; got 5"),
        ("averaged", "all", "best.json: averaged must be a list; got 'all'"),
    ],
)
def test_a_wrong_value_in_a_checkpoint_is_named(keys: str, value: object, message: str, model: Path) -> None:
    change(model / "best.json", keys, value)
    with pytest.raises(UserError) as caught:
        Translator.load(model)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        ("corpus", 5, "data: corpus must be a text; got 5"),
        ("max_train_pairs", "all", "data: max_train_pairs must be a whole number or null; got 'all'"),
        ("cleaning.max_ratio", "two", "data: cleaning: max_ratio must be a number; got 'two'"),
        ("cleaning.max_words", -1, "data: cleaning: data.cleaning.max_words must not be negative; got -1"),
    ],
)
def test_a_wrong_value_in_the_data_settings_is_named(keys: str, value: object, message: str, model: Path) -> None:
    change(model / "recipe.json", f"data.{keys}", value)
    with pytest.raises(UserError) as caught:
        DataConfig.from_dict(read_settings(model / "recipe.json")["data"], "data")
    assert message in str(caught.value)


READERS = {
    "recipe.json": read_settings,
    "best.json": lambda path: load_checkpoint(path.parent, "best"),
    "scores.json": read_scores,
    "metrics.jsonl": lambda path: read_metrics(path.parent),
    "log.jsonl": lambda path: read_log(path.parent),
    "sessions.jsonl": lambda path: read_sessions(path.parent),
    "tokenizer.model": Translator.load,
}


def read(path: Path) -> object:
    return READERS[path.name](path if path.name != "tokenizer.model" else path.parent)


@pytest.mark.parametrize("name", READERS)
def test_what_is_not_a_readable_file_is_refused_and_never_waited_for(name: str, model: Path) -> None:
    path = model / name
    path.unlink(missing_ok=True)
    path.mkdir()
    with pytest.raises(UserError, match=name):
        read(path)
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(UserError, match="not a file"):
        read(path)


@pytest.mark.parametrize("name", [name for name in READERS if name != "tokenizer.model"])
@pytest.mark.parametrize("text", [b"\xff\xfe\n", b'{"a":' * 100_000 + b"\n", b"[]\n", b"5\n", b"{\n"])
def test_damaged_json_is_refused(name: str, text: bytes, model: Path) -> None:
    (model / name).write_bytes(text)
    with pytest.raises(UserError, match=name):
        read(model / name)


def test_a_file_that_is_too_large_is_refused(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformer.files.MAX_BYTES", 1000)
    with pytest.raises(UserError, match=r"recipe\.json: it is larger than"):
        read_json(model / "recipe.json")


@given(JSON)
@one_folder
def test_any_json_is_settings_or_a_user_error(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "recipe.json"
    for content in (value, {"model": value}, {"training": value, "data": value}, {"metrics": value}):
        path.write_text(json.dumps(content))
        with suppress(UserError):
            read_settings(path)


@given(st.sampled_from([ModelConfig, TrainingConfig, DataConfig]), st.data())
@one_folder
def test_any_value_of_a_setting_is_accepted_or_refused(cls: type, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(list(cls.__dataclass_fields__)))
    value = data.draw(JSON)
    with suppress(UserError):
        assert getattr(convert({name: value}, cls, "file"), name) == value or value is None


def test_conversion() -> None:
    assert convert([1, 2], tuple[int, ...], "x") == (1, 2)
    assert convert(None, int | None, "x") is None and convert(3, int | None, "x") == 3
    assert convert(3, float, "x") == 3 and convert("a", Literal["a", "b"], "x") == "a"
    with pytest.raises(UserError, match=r"x: a\[1\] must be a whole number; got 'b'"):
        convert({"a": [1, "b"]}, dict[str, list[int]], "x")


def test_an_incomplete_last_line_is_left_out_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    row = json.dumps(dict.fromkeys(METRICS_KEYS, 1.0))
    path.write_text(f"{row}\n{row[:-7]}")
    assert len(read_rows(path, METRICS_KEYS)) == 1
    path.write_text(f"{row}\n{row}")
    assert len(read_rows(path, METRICS_KEYS)) == 2
    path.write_text(f"{row[:-7]}\n{row}\n")
    with pytest.raises(UserError, match=r"metrics\.jsonl, line 1 is not JSON"):
        read_rows(path)


def test_a_written_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "private", b"")
        os.umask(0o002)
        write_atomically(tmp_path / "shared", b"")
    finally:
        os.umask(before)
    assert [oct((tmp_path / name).stat().st_mode & 0o777) for name in ("private", "shared")] == ["0o600", "0o664"]


def test_where_a_file_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_writable(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
    for path, message in (
        (tmp_path / "none" / "x", "there is no folder"),
        (tmp_path, "it is a folder"),
        (tmp_path / ("x" * 300), "File name too long"),
        (Path("/proc/x"), "cannot write /proc/x: "),
    ):
        with pytest.raises(UserError, match=message):
            check_writable(path)
