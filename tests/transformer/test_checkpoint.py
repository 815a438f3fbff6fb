import errno
import json
import os
import time
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from transformer.checkpoint import (
    PARTIAL_FILE_AGE,
    InvalidFileError,
    average_checkpoints,
    default_checkpoint,
    load_checkpoint,
    read_tensors,
    remove_partial_files,
    save_checkpoint,
    step_checkpoints,
    step_name,
    training_checkpoints,
    write_atomically,
)
from transformer.errors import UserError
from transformer.model import Transformer


def test_checkpoints_are_sorted_by_their_steps(tmp_path: Path) -> None:
    for step in (10_000_000, 9_999_999, 200):
        (tmp_path / f"{step_name(step)}.json").touch()
    assert step_checkpoints(tmp_path) == ["step-0000200", "step-9999999", "step-10000000"]


def test_the_results_on_a_test_set_are_no_checkpoint(tmp_path: Path) -> None:
    for name in ("step-0000200", "step-30000.scores", "step-one", "stopped-0000300", "stopped-7.scores"):
        (tmp_path / f"{name}.json").touch()
    assert training_checkpoints(tmp_path) == ["step-0000200", "stopped-0000300"]
    assert step_checkpoints(tmp_path) == ["step-0000200"]


def weights(folder: Path) -> Path:
    (path,) = folder.glob("best-*.safetensors")
    return path


@pytest.fixture
def folder(tmp_path: Path, tiny: Transformer) -> Path:
    save_checkpoint(tmp_path, "best", tiny, {"step": 3})
    return tmp_path


def test_round_trip(folder: Path, tiny: Transformer) -> None:
    model, metadata = load_checkpoint(folder, "best")
    assert metadata["step"] == 3 and model.config == tiny.config and not model.training
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), tiny.parameters(), strict=True))
    assert model.unembedding.weight is model.source_embedding.weight


def test_a_checkpoint_does_not_replace_one_whose_name_begins_as_its_own(folder: Path, tiny: Transformer) -> None:
    save_checkpoint(folder, "best-2", tiny, {})
    tiny.unembedding.weight.data += 1
    save_checkpoint(folder, "best", tiny, {})
    load_checkpoint(folder, "best-2")


def test_a_new_checkpoint_replaces_the_old(folder: Path, tiny: Transformer) -> None:
    old = weights(folder)
    tiny.unembedding.weight.data += 1
    save_checkpoint(folder, "best", tiny, {})
    assert weights(folder) != old
    load_checkpoint(folder, "best")


def test_a_crash_between_the_two_files_leaves_the_old_checkpoint_intact(
    folder: Path, tiny: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(path: Path, data: bytes) -> None:
        if path.suffix == ".json":
            raise KeyboardInterrupt
        write_atomically(path, data)

    monkeypatch.setattr("transformer.checkpoint.write_atomically", crash)
    tiny.unembedding.weight.data += 1
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(folder, "best", tiny, {})
    _, metadata = load_checkpoint(folder, "best")
    assert metadata["step"] == 3


def test_damage_is_detected(folder: Path) -> None:
    path = weights(folder)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(UserError, match="is damaged: its sha256"):
        load_checkpoint(folder, "best")
    path.unlink()
    with pytest.raises(InvalidFileError, match="is missing"):
        load_checkpoint(folder, "best")


def test_a_temporary_read_error_is_not_called_damage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: object, *arguments: Any, original: Any = os.open) -> int:
        if str(path).endswith(".safetensors"):
            raise OSError(errno.EIO, "Input/output error")
        return original(path, *arguments)

    monkeypatch.setattr(os, "open", fails)
    with pytest.raises(UserError, match=r"cannot read the checkpoint .*Input/output error") as caught:
        load_checkpoint(folder, "best")
    assert not isinstance(caught.value, InvalidFileError)


def make_old(path: Path) -> None:
    """Set the time of its last modification to an hour and a minute ago."""
    then = time.time() - PARTIAL_FILE_AGE - 60
    os.utime(path, (then, then))


def test_a_file_that_another_process_is_writing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`transformer evaluate` and `transformer average` don't hold the lock of the folder in which a training starts."""

    def training_starts(_: int) -> None:
        remove_partial_files(tmp_path)

    monkeypatch.setattr("os.fsync", training_starts)
    write_atomically(tmp_path / "test.scores.json", b"{}")
    assert [path.name for path in tmp_path.iterdir()] == ["test.scores.json"]


def test_only_incomplete_files_are_removed(folder: Path) -> None:
    before = set(folder.iterdir())
    for path in before:
        make_old(path)
    for name in ("best-weights-0123456789ab", "step-0000004-state-0123456789ab"):
        partial = folder / f".{name}.safetensors-x1y2z3w4"
        partial.write_bytes(b"half")
        make_old(partial)
    remove_partial_files(folder)
    assert set(folder.iterdir()) == before
    load_checkpoint(folder, "best")


def test_what_only_training_writes_is_removed_at_once(folder: Path) -> None:
    before = set(folder.iterdir())
    digest = "0123456789ab"
    for name in (f".step-0000004-state-{digest}.safetensors-x1y2z3w4", f"stopped-0000004-weights-{digest}.safetensors"):
        (folder / name).write_bytes(b"")
    damaged = {folder / f"step-0000006-state-{digest}.safetensors", folder / "step-0000006.json.damaged"}
    for path in damaged:
        path.write_bytes(b"")
    remove_partial_files(folder)
    assert set(folder.iterdir()) == before | damaged


@pytest.mark.parametrize(
    "name",
    ["best.json", "metrics.jsonl", "tokenizer.model", "recipe.json", "averaged-weights-01234567.safetensors"],
)
def test_all_temporary_files_of_a_killed_run_are_removed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kept in (".lock", ".gitignore", name):
        (tmp_path / kept).write_bytes(b"complete")
    before = set(tmp_path.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: None)  # a killed process does not clean up
        patch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            write_atomically(tmp_path / name, b"new")
    (partial,) = set(tmp_path.iterdir()) - before
    make_old(partial)
    remove_partial_files(tmp_path)
    assert set(tmp_path.iterdir()) == before


def test_the_average_is_the_default_until_training_is_resumed(folder: Path, tiny: Transformer) -> None:
    assert default_checkpoint(folder) == "best"
    for step in (2, 4):
        save_checkpoint(folder, step_name(step), tiny, {})
    average_checkpoints(folder, ["step-0000002", "step-0000004"])
    assert default_checkpoint(folder) == "averaged"
    save_checkpoint(folder, step_name(6), tiny, {})
    assert default_checkpoint(folder) == "best"
    average_checkpoints(folder, ["step-0000002"])  # a chosen one, not the last
    assert default_checkpoint(folder) == "averaged"
    (folder / "best.json").unlink()  # training has been resumed, but not validated yet
    save_checkpoint(folder, step_name(8), tiny, {})
    assert default_checkpoint(folder) == "averaged"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"weights": "best"}'])
def test_invalid_metadata(folder: Path, text: str) -> None:
    (folder / "best.json").write_text(text)
    with pytest.raises(UserError):
        load_checkpoint(folder, "best")


def test_weights_outside_the_folder_are_not_read(folder: Path, tiny: Transformer) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    save_checkpoint(elsewhere, "best", tiny, {})
    weights(folder).unlink()
    metadata = json.loads((folder / "best.json").read_text())
    for path in (f"elsewhere/{weights(elsewhere).name}", str(weights(elsewhere))):
        metadata["weights"]["file"] = path
        (folder / "best.json").write_text(json.dumps(metadata))
        with pytest.raises(InvalidFileError, match="is missing"):
            load_checkpoint(folder, "best")


def test_metadata_of_another_model(folder: Path) -> None:
    metadata = json.loads((folder / "best.json").read_text())
    metadata["model"]["d_ff"] = 48
    (folder / "best.json").write_text(json.dumps(metadata))
    with pytest.raises(UserError, match="do not fit the model"):
        load_checkpoint(folder, "best")


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing is not a run folder: it has no best\.json$"):
        load_checkpoint(tmp_path / "nothing", "best")


def test_a_run_without_the_checkpoint(folder: Path) -> None:
    (folder / "recipe.json").write_text("{}")
    with pytest.raises(UserError, match=rf"^{folder} has no step-0000099\.json$"):
        load_checkpoint(folder, "step-0000099")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("No space left on device")))
    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "x", b"new")
    assert [f.name for f in tmp_path.iterdir()] == ["x"] and (tmp_path / "x").read_bytes() == b"old"


def test_the_average_is_the_mean_of_the_weights(tmp_path: Path, tiny: Transformer) -> None:
    before = [p.detach().clone() for p in tiny.parameters()]
    for name, factor in (("a", 1.0), ("b", 2.0), ("c", 6.0)):
        with torch.no_grad():
            for p, was in zip(tiny.parameters(), before, strict=True):
                p.copy_(factor * was)
        save_checkpoint(tmp_path, name, tiny, {})
    average_checkpoints(tmp_path, ["a", "b", "c"])
    model, metadata = load_checkpoint(tmp_path, "averaged")
    for p, was in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(p.detach(), 3 * was)
    assert metadata["averaged"] == ["a", "b", "c"]


def test_only_one_checkpoint_is_in_memory_besides_the_sum(
    tmp_path: Path, tiny: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[weakref.ref[Transformer]] = []
    names = ["a", "b", "c", "d"]
    for name in names:
        save_checkpoint(tmp_path, name, tiny, {})

    def load(folder: Path, name: str) -> tuple[Transformer, dict[str, Any]]:
        assert sum(model() is not None for model in loaded) == min(1, len(loaded))
        model, metadata = load_checkpoint(folder, name)
        loaded.append(weakref.ref(model))
        return model, metadata

    monkeypatch.setattr("transformer.checkpoint.load_checkpoint", load)
    average_checkpoints(tmp_path, names)
    assert len(loaded) == 4


def test_checkpoints_that_cannot_be_averaged(tmp_path: Path, tiny: Transformer) -> None:
    save_checkpoint(tmp_path, "a", tiny, {})
    save_checkpoint(tmp_path, "b", Transformer(replace(tiny.config, d_ff=32)), {})
    with pytest.raises(UserError, match="b and a have different architectures"):
        average_checkpoints(tmp_path, ["a", "b"])
    with pytest.raises(UserError, match="there is no checkpoint to average"):
        average_checkpoints(tmp_path, [])
    with pytest.raises(UserError, match=r"is not a run folder: it has no c\.json"):
        average_checkpoints(tmp_path, ["a", "c"])
    assert not (tmp_path / "averaged.json").exists()


def test_a_checkpoint_that_training_replaces_while_it_is_read_is_read_again(
    folder: Path, tiny: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace_first(*args: object) -> dict[str, torch.Tensor]:
        monkeypatch.undo()
        tiny.unembedding.weight.data += 1
        old = weights(folder)
        save_checkpoint(folder, "best", tiny, {"step": 4})
        assert not old.exists(), "the weights that belong to the JSON file which was read"
        raise InvalidFileError("missing")

    monkeypatch.setattr("transformer.checkpoint.read_tensors", replace_first)
    model, metadata = load_checkpoint(folder, "best")
    assert metadata["step"] == 4
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), tiny.parameters(), strict=True))


def test_the_metadata_belongs_to_the_weights(folder: Path, tiny: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace_first(*args: str | Path) -> dict[str, torch.Tensor]:
        monkeypatch.undo()
        save_checkpoint(folder, "best", tiny, {"step": 4})
        return read_tensors(*args)

    monkeypatch.setattr("transformer.checkpoint.read_tensors", replace_first)
    assert load_checkpoint(folder, "best")[1]["step"] == 4
