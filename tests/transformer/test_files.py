"""Whatever is in a file of a run or a model: it is read as it should be, or a line names the file and the field."""

import json
import os
import shutil
from contextlib import suppress
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transformer.checkpoint import load_checkpoint, read_settings
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.cleaning import CleaningConfig
from transformer.data.prepare import DataConfig
from transformer.errors import UserError
from transformer.files import check_writable, convert, read_bytes, read_json, read_rows, write_atomically, write_output
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
        ("model.d_ff", 10**11, "do not fit the model"),
        ("model.n_layers", 10**7, "do not fit the model"),
        ("model.vocab_size", 10**12, "do not fit the model"),
        ("model.max_length", 10**11, "model.max_length must be at most 100,000"),
        ("training.seed", 10**10, "training.seed must be at most 4,294,967,295"),
        ("training.seed", 10**30, "seed must have at most 18 digits"),
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
        ("corpus", 5, "data: corpus must be a string; got 5"),
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
    "scores.json": read_json,
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
        converted = getattr(convert({name: value}, cls, "file"), name)
        if is_dataclass(converted):  # the settings of `cleaning`, of which the file may have only some
            converted = {name: getattr(converted, name) for name in value}
        assert converted == value or value is None


def test_conversion() -> None:
    assert convert([1, 2], tuple[int, ...], "x") == (1, 2)
    assert convert(None, int | None, "x") is None and convert(3, int | None, "x") == 3
    assert convert(["a", 2], tuple[str, int], "x") == ("a", 2)
    assert convert(3, float, "x") == 3 and convert("a", Literal["a", "b"], "x") == "a"
    with pytest.raises(UserError, match=r"x: a\[1\] must be a whole number; got 'b'"):
        convert({"a": [1, "b"]}, dict[str, list[int]], "x")
    with pytest.raises(UserError, match=r"x must be a list of 2 values; got \[1\]"):
        convert([1], tuple[int, int], "x")
    lowercase = Annotated[str, "[a-z]+", "lowercase letters"]
    assert convert({"a": "b"}, dict[lowercase, lowercase], "x") == {"a": "b"}
    for value, message in (
        ({"A": "b"}, "x: a key must be lowercase letters; got 'A'"),
        ({"a": 1}, "x: a must be .*; got 1"),
    ):
        with pytest.raises(UserError, match=message):
            convert(value, dict[lowercase, lowercase], "x")


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


def test_an_output_that_cannot_be_written_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_output(tmp_path / "x", b"old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(UserError, match=rf"^cannot write {tmp_path}/x: No space left on device$"):
        write_output(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"old"


def test_nothing_but_a_file_is_waited_for_or_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (
        ("pipe", "it is not a file"),
        (".", "it is not a file"),
        ("a\0b", "null"),
        ("none", "missing"),
    ):
        with pytest.raises(UserError, match=reason):
            read_bytes(tmp_path / name)
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(UserError, match=r"it is (not a file|a folder)"):
            check_writable(path)
        with pytest.raises(OSError, match="it is not a file"):
            write_atomically(path, b"x")
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="this system has no /dev/full")
def test_no_device_is_replaced_even_by_the_superuser(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/full")
    for path in (Path("/dev/full"), tmp_path / "link"):
        with pytest.raises(UserError, match="it is not a file"):
            check_writable(path)
    assert Path("/dev/full").is_char_device() and (tmp_path / "link").is_symlink()


@pytest.mark.skipif(not os.access("/proc/kmsg", os.R_OK), reason="only the superuser may open it, and only on Linux")
def test_a_file_of_the_system_that_never_ends_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "recipe.json").symlink_to("/proc/kmsg")
    with suppress(UserError):  # it has lines that have not been read, or none
        read_bytes(tmp_path / "recipe.json", max_bytes=1000)


@pytest.mark.parametrize(
    ("cls", "name", "value", "message"),
    [
        (ModelConfig, "d_model", "8", "model.d_model must be a whole number; got '8'"),
        (ModelConfig, "n_layers", float("inf"), "model.n_layers must be a whole number; got inf"),
        (ModelConfig, "norm", ["post"], r"model.norm must be one of post, pre; got \['post'\]"),
        (TrainingConfig, "steps", 2.5, "training.steps must be a whole number; got 2.5"),
        (TrainingConfig, "warmup_steps", 10**400, "training.warmup_steps must have at most 18 digits"),
        (TrainingConfig, "validation_sentences", 10**30, "must have at most 18 digits"),
        (TrainingConfig, "learning_rate_factor", None, "training.learning_rate_factor must be a number; got None"),
        (DataConfig, "max_train_pairs", 10**30, "data.max_train_pairs"),
        (CleaningConfig, "max_words", "many", "data.cleaning.max_words must be a whole number"),
    ],
)
def test_settings_check_the_types_of_their_values(cls: type, name: str, value: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        cls(**{name: value})


def test_a_measurement_that_no_float_can_hold_is_refused(tmp_path: Path) -> None:
    row = dict.fromkeys(METRICS_KEYS, 1) | {"valid_loss": 10**400}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(UserError, match="valid_loss must have at most 18 digits"):
        read_metrics(tmp_path)
