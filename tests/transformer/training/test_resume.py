"""A run goes on where it was broken off, whatever broke it off."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import filelock
import pytest
import torch

from transformer import checkpoint
from transformer.checkpoint import read_json, step_checkpoints
from transformer.config import TrainingConfig
from transformer.data.batching import Batch
from transformer.data.prepare import DataConfig, PreparedData, prepare
from transformer.device import Device, choose_device
from transformer.errors import UserError
from transformer.model import ModelConfig, Transformer
from transformer.provenance import provenance
from transformer.training import run_folder as runs
from transformer.training.loop import train
from transformer.training.run_folder import read_metrics, read_sessions
from transformer.training.trainer import Trainer

SHAPE = ModelConfig(57, 32, 4, 64, 1, dropout=0.1, max_length=64)
SETTINGS = {
    "steps": 12,
    "batch_tokens": 200,
    "warmup_steps": 4,
    "average_steps": 4,
    "validate_every": 4,
    "validation_sentences": 2,
    "checkpoint_every": 2,
    "keep_checkpoints": 3,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_DATA", str(tmp_path_factory.mktemp("data")))
        return prepare(DataConfig("copy", max_train_pairs=60), 57)


def go(
    run: Path, data: PreparedData, device: Device | None = None, force: bool = False, **changes: object
) -> Transformer:
    config = TrainingConfig(**{**SETTINGS, **changes})  # type: ignore[arg-type]
    device = device or choose_device("cpu")
    return train(run, data, SHAPE, config, device, report=lambda _: None, force=force).model


class Crash(BaseException):
    """Nothing in the package catches it."""


def go_until(step: int, run: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch, how: type = Crash) -> None:
    """Train, and break off in the middle of a step."""
    with monkeypatch.context() as patch:
        usual = Trainer._gradients

        def gradients(self: Trainer, batches: list[Batch], n_tokens: int) -> torch.Tensor:
            if self.progress.step == step:
                raise how
            return usual(self, batches, n_tokens)

        patch.setattr(Trainer, "_gradients", gradients)
        with pytest.raises(how):
            go(run, data)


def result(run: Path) -> dict[str, object]:
    last = read_json(run / f"{step_checkpoints(run)[-1]}.json")
    metrics = [{k: v for k, v in row.items() if k != "minutes"} for row in read_metrics(run)]
    return {"last": (last["weights"], last["state"]), "best": read_json(run / "best.json")["weights"], "rows": metrics}


@pytest.fixture(scope="module")
def undisturbed(data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    run = tmp_path_factory.mktemp("runs") / "undisturbed"
    go(run, data)
    return result(run)


def test_killed_at_twenty_random_moments(tmp_path: Path, undisturbed: object) -> None:
    script = Path(__file__).with_name("killing.py")
    environment = {**os.environ, "TRANSFORMER_DATA": str(tmp_path / "data"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, script, tmp_path, "20"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["status"] == 0
    assert found["killed"] == found["undisturbed"]
    assert len(set(found["steps"])) > 3  # it was killed in different places
    assert [row["step"] for row in found["killed"]["metrics"]] == [20, 40, 60]


@pytest.mark.parametrize("step", [1, 2, 7, 12])
def test_broken_off_in_a_step(
    step: int, tmp_path: Path, data: PreparedData, undisturbed: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_until(step, tmp_path / "run", data, monkeypatch)
    go(tmp_path / "run", data)
    assert result(tmp_path / "run") == undisturbed


def test_each_session_of_a_run_is_written_down(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_until(7, tmp_path, data, monkeypatch)
    go(tmp_path, data)
    go(tmp_path, data)  # nothing is left to do
    sessions = read_sessions(tmp_path)
    assert [session["step"] for session in sessions] == [0, 6]
    for session in sessions:
        assert {"step", *provenance("cpu")} == set(session) and session["device"].startswith("cpu in fp32")


def test_broken_off_across_an_epoch(
    tmp_path: Path, data: PreparedData, undisturbed: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data has fewer batches than the run has steps, so that the place in the data is an epoch and a step."""
    go_until(11, tmp_path / "run", data, monkeypatch)
    progress = read_json(tmp_path / "run" / f"{step_checkpoints(tmp_path / 'run')[-1]}.json")["progress"]
    assert progress["epoch"] >= 1 and progress["epoch_step"] >= 1
    go(tmp_path / "run", data)
    assert result(tmp_path / "run") == undisturbed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_saves_and_leaves(
    number: int,
    tmp_path: Path,
    data: PreparedData,
    undisturbed: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, usual, handler = tmp_path / "run", Trainer.step, signal.getsignal(signal.SIGINT)

    def step(self: Trainer) -> None:
        usual(self)
        if self.progress.step == 7:
            os.kill(os.getpid(), number)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", step)
        with pytest.raises(KeyboardInterrupt):
            go(run, data)
    assert step_checkpoints(run)[-1] == "step-0000007"
    assert capsys.readouterr().err == "stopped and saved after step 7: the same command goes on\n"
    assert signal.getsignal(signal.SIGINT) is handler
    go(run, data)
    assert result(run) == undisturbed


def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    tmp_path: Path,
    data: PreparedData,
    undisturbed: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = tmp_path / "run"
    go_until(10, run, data, monkeypatch)
    (path,) = run.glob("step-0000008-state-*.safetensors")
    path.write_bytes(path.read_bytes()[:-1])
    go(run, data)
    said = capsys.readouterr().err
    assert "step-0000008-state" in said and "is damaged" in said and "trying the one before" in said
    assert result(run) == undisturbed
    assert (run / "step-0000008.json.damaged").exists()  # set aside, not deleted


def test_it_goes_on_in_another_precision(tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine whose GPU is another one today: in fp16 there is a scale, of which fp32 has left nothing."""
    run = tmp_path / "run"
    go_until(7, run, data, monkeypatch)
    go(run, data, choose_device("cpu", "fp16"))
    go(run, data, steps=14, force=True)
    assert [session["step"] for session in read_sessions(run)] == [0, 6, 12]


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), torch.OutOfMemoryError("CUDA is full")])
def test_what_keeps_it_from_going_on_just_now_costs_no_checkpoint(
    error: Exception, tmp_path: Path, data: PreparedData, undisturbed: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    go_until(7, run, data, monkeypatch)

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", fail) if isinstance(error, OSError) else None
        patch.setattr(torch.optim.Adam, "load_state_dict", fail)
        with pytest.raises(UserError, match=r"Input/output error|memory is full"):
            go(run, data)
    assert step_checkpoints(run) == ["step-0000002", "step-0000004", "step-0000006"]
    go(run, data)
    assert result(run) == undisturbed


def test_with_all_checkpoints_damaged_it_begins_again(
    tmp_path: Path, data: PreparedData, undisturbed: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    go_until(10, run, data, monkeypatch)
    for path in run.glob("step-*.safetensors"):
        path.write_bytes(b"no tensors")
    go(run, data)
    assert result(run) == undisturbed


def test_a_full_disk_ends_the_run_but_not_the_last_checkpoint(
    tmp_path: Path, data: PreparedData, undisturbed: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, usual = tmp_path / "run", checkpoint.write_atomically

    def write(path: Path, content: bytes) -> None:
        if path.name.startswith("step-0000008"):
            raise OSError(errno.ENOSPC, "No space left on device")
        usual(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_atomically", write)
        with pytest.raises(UserError, match=r"cannot write .*No space left .*goes on from step-0000006"):
            go(run, data)
    assert step_checkpoints(run)[-1] == "step-0000006"
    go(run, data)
    assert result(run) == undisturbed


def test_a_disk_that_is_full_from_the_first_is_no_harm_either(
    tmp_path: Path, data: PreparedData, undisturbed: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(runs, "write_atomically", write)
        with pytest.raises(UserError, match=r"cannot write .*No space left .*make room; nothing was saved yet"):
            go(tmp_path / "run", data)
    go(tmp_path / "run", data)
    assert result(tmp_path / "run") == undisturbed


def test_a_place_that_cannot_be_written_is_no_full_disk(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path, content: bytes) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(runs, "write_atomically", write)
    with pytest.raises(UserError, match=r"Permission denied; .*name another folder with --run; nothing was saved yet"):
        go(tmp_path / "run", data)


def test_half_a_line_of_metrics_is_forgotten(
    tmp_path: Path, data: PreparedData, undisturbed: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    go_until(6, run, data, monkeypatch)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 8, "val')
    go(run, data)
    assert result(run) == undisturbed


def test_a_finished_run_is_left_alone(tmp_path: Path, data: PreparedData) -> None:
    go(tmp_path / "run", data)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").glob("*.safetensors")}
    go(tmp_path / "run", data)
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "run").glob("*.safetensors")}


def test_other_settings_are_named_and_need_force(tmp_path: Path, data: PreparedData) -> None:
    run = tmp_path / "run"
    go(run, data)
    with pytest.raises(
        UserError, match=r"\(training.label_smoothing: 0.1, now 0.2; training.steps: 12, now 14\): .*--force"
    ):
        go(run, data, steps=14, label_smoothing=0.2)
    go(run, data, steps=14, label_smoothing=0.2, force=True)
    assert step_checkpoints(run)[-1] == "step-0000014"
    assert read_json(run / "recipe.json")["training"]["steps"] == 14


def test_a_run_goes_on_in_smaller_batches_when_asked_to(tmp_path: Path, data: PreparedData) -> None:
    run = tmp_path / "run"
    go(run, data, steps=4, batch_tokens=50)
    before = read_json(run / "step-0000004.json")["progress"]
    with pytest.raises(UserError, match=r"\(training.steps: 4, now 6\)"):  # nothing else is in the way
        go(run, data, steps=6, batch_tokens=50, gradient_accumulation_steps=2)
    go(run, data, steps=6, batch_tokens=50, gradient_accumulation_steps=2, force=True)
    after = read_json(run / "step-0000006.json")["progress"]
    assert (before["accumulate"], after["accumulate"]) == (1, 2)
    assert (before["epoch"], before["epoch_step"]) == (0, 4)
    assert (after["epoch"], after["epoch_step"]) == (0, 2 * 4 + 2 * 2)  # the same place, and two steps of two batches


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path, data: PreparedData) -> None:
    run = tmp_path / "run"
    go(run, data)
    config = TrainingConfig(**{**SETTINGS, "steps": 14})  # type: ignore[arg-type]
    other = ModelConfig(57, 16, 4, 64, 1, dropout=0.1, max_length=64)
    with pytest.raises(UserError, match="another model than the settings describe"):
        train(run, data, other, config, choose_device("cpu"), report=lambda _: None, force=True)
    assert step_checkpoints(run)[-1] == "step-0000012"
    go(run, data)  # as before: the settings that were refused are not written down


def test_another_vocabulary_is_refused(tmp_path: Path, data: PreparedData) -> None:
    run = tmp_path / "run"
    go(run, data)
    (run / "tokenizer.model").write_bytes(b"another")
    with pytest.raises(UserError, match="was begun with another vocabulary"):
        go(run, data, steps=14, force=True)
    assert step_checkpoints(run)[-1] == "step-0000012"


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, data: PreparedData) -> None:
    (tmp_path / "thesis.txt").write_text("three years of work")
    with pytest.raises(UserError, match="is not a run folder, and not empty"):
        go(tmp_path, data)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_run_in_use_is_refused(tmp_path: Path, data: PreparedData) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.json").write_text("{}")
    with filelock.FileLock(run / ".lock"), pytest.raises(UserError, match="is in use: another process trains in it"):
        go(run, data, force=True)


def test_only_the_last_checkpoints_are_kept_and_two_to_go_on_from(tmp_path: Path, data: PreparedData) -> None:
    run = tmp_path / "run"
    go(run, data)
    assert step_checkpoints(run) == ["step-0000008", "step-0000010", "step-0000012"]
    assert len(list(run.glob("step-*-weights-*"))) == 3 and len(list(run.glob("step-*-state-*"))) == 2


def test_patience_ends_a_run_that_gets_no_better(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([3.0, 2.0, 2.5, 2.1, 1.0])
    metrics = lambda *_: {"valid_loss": next(losses), "valid_bleu": 0.0}  # noqa: E731
    monkeypatch.setattr("transformer.training.trainer.validate", metrics)
    run = tmp_path / "run"
    go(run, data, steps=20, patience=2)
    assert [row["valid_loss"] for row in read_metrics(run)] == [3.0, 2.0, 2.5, 2.1]
    assert step_checkpoints(run)[-1] == "step-0000016"
