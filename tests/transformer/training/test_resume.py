"""A run resumes where it was interrupted, whatever interrupted it."""

import errno
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import filelock
import pytest
import torch

from transformer import checkpoint
from transformer.checkpoint import average_checkpoints, load_checkpoint, step_checkpoints, stopped_checkpoints
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.batching import Batch, Batches
from transformer.data.generated import GENERATED_SIZE
from transformer.data.prepare import DataConfig, PreparedData, prepare
from transformer.device import Device, choose_device
from transformer.errors import UserError
from transformer.files import read_json
from transformer.model import Transformer
from transformer.provenance import provenance
from transformer.training import run_folder as runs
from transformer.training.loop import stop_signals, train
from transformer.training.progress import Progress
from transformer.training.run_folder import read_log, read_metrics, read_sessions
from transformer.training.trainer import Trainer

pytestmark = pytest.mark.slow

SHAPE = ModelConfig(57, 32, 4, 64, 1, dropout=0.1, max_length=64)
SETTINGS = {
    "steps": 12,
    "batch_tokens": 200,
    "warmup_steps": 4,
    "average_steps": 4,
    "log_every": 3,
    "validate_every": 4,
    "validation_sentences": 2,
    "checkpoint_every": 2,
    "keep_checkpoints": 3,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_DATA", str(tmp_path_factory.mktemp("data")))
        patch.setitem(GENERATED_SIZE, "valid", 50)  # instead of 1000, whose losses would take most of the time
        return prepare(DataConfig("copy", max_train_pairs=60), 57)


def run_training(
    run: Path, data: PreparedData, device: Device | None = None, force: bool = False, **changes: object
) -> Transformer:
    config = TrainingConfig(**{**SETTINGS, **changes})  # type: ignore[arg-type]
    device = device or choose_device("cpu")
    return train(run, data, SHAPE, config, device, on_validation=lambda _: None, force=force).model


class Crash(BaseException):
    """Nothing in the package catches it."""


def train_until(
    step: int, run: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch, how: type = Crash, **changes: object
) -> None:
    """Train, and be interrupted in the middle of a step."""
    with monkeypatch.context() as patch:
        original = Trainer._backward

        def gradients(self: Trainer, batches: list[Batch], n_tokens: int) -> torch.Tensor:
            if self.progress.step == step:
                raise how
            return original(self, batches, n_tokens)

        patch.setattr(Trainer, "_backward", gradients)
        with pytest.raises(how):
            run_training(run, data, **changes)


def result(run: Path) -> dict[str, object]:
    last = read_json(run / f"{step_checkpoints(run)[-1]}.json")
    rows = [
        [{k: v for k, v in row.items() if k not in ("minutes", "tokens_per_second")} for row in read(run)]
        for read in (read_metrics, read_log)
    ]
    return {"last": (last["weights"], last["state"]), "best": read_json(run / "best.json")["weights"], "rows": rows}


@pytest.fixture(scope="module")
def uninterrupted(data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    run = tmp_path_factory.mktemp("runs") / "uninterrupted"
    run_training(run, data)
    return result(run)


@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.soak)])
def test_killed_at_random_moments(kills: int, tmp_path: Path) -> None:
    script = Path(__file__).with_name("kill_repeatedly.py")
    environment = {**os.environ, "TRANSFORMER_DATA": str(tmp_path / "data"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, script, tmp_path, str(kills)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["status"] == 0
    assert report["killed"] == report["uninterrupted"]
    assert len(set(report["steps"])) > min(3, kills // 5)  # it was killed at different steps
    assert [row["step"] for row in report["killed"]["metrics"]] == [20, 40, 60]
    assert [row["step"] for row in report["killed"]["log"]] == [7, 14, 21, 28, 35, 42, 49, 56]


@pytest.mark.parametrize("step", [1, 2, 7, 12])
def test_interrupted_in_a_step(
    step: int, tmp_path: Path, data: PreparedData, uninterrupted: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_until(step, tmp_path / "run", data, monkeypatch)
    run_training(tmp_path / "run", data)
    assert result(tmp_path / "run") == uninterrupted


def test_a_better_checkpoint_from_before_the_interruption_is_kept(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Progress.add_validation
    monkeypatch.setattr(
        Progress, "add_validation", lambda self, loss: original(self, loss + self.step)
    )  # it only rises
    run_training(tmp_path / "uninterrupted", data)
    train_until(7, tmp_path / "run", data, monkeypatch)
    best = read_json(tmp_path / "run" / "best.json")["weights"]
    run_training(tmp_path / "run", data)
    assert result(tmp_path / "run") == result(tmp_path / "uninterrupted")
    assert read_json(tmp_path / "run" / "best.json")["weights"] == best


def test_muon_interrupted_in_a_step(tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    run_training(tmp_path / "uninterrupted", data, optimizer="muon")
    train_until(7, tmp_path / "run", data, monkeypatch, optimizer="muon")
    run_training(tmp_path / "run", data, optimizer="muon")
    assert result(tmp_path / "run") == result(tmp_path / "uninterrupted")


def test_another_optimizer_is_refused(tmp_path: Path, data: PreparedData) -> None:
    for before, after in (("adam", "muon"), ("muon", "adam")):
        run = tmp_path / before
        run_training(run, data, steps=4, optimizer=before)
        with pytest.raises(
            UserError, match=rf"\(training.optimizer: {before}, now {after}; training.steps: 4, now 12\)"
        ):
            run_training(run, data, optimizer=after)
        with pytest.raises(UserError, match=f"step-0000004: it was trained with --training.optimizer {before}, not"):
            run_training(run, data, optimizer=after, force=True)
        assert step_checkpoints(run)[-1] == "step-0000004"


def test_each_session_of_a_run_is_recorded(tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    train_until(7, tmp_path, data, monkeypatch)
    run_training(tmp_path, data)
    run_training(tmp_path, data)  # nothing is left to do
    sessions = read_sessions(tmp_path)
    assert [session["step"] for session in sessions] == [0, 6]
    for session in sessions:
        assert {"step", *provenance("cpu")} == set(session) and session["device"].startswith("cpu in fp32")


def test_interrupted_after_the_end_of_an_epoch(
    tmp_path: Path, data: PreparedData, uninterrupted: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data has fewer batches than the run has steps, so that the position in the data is an epoch and a step."""
    train_until(11, tmp_path / "run", data, monkeypatch)
    progress = read_json(tmp_path / "run" / f"{step_checkpoints(tmp_path / 'run')[-1]}.json")["progress"]
    assert progress["epoch"] >= 1 and progress["batch_index"] >= 1
    run_training(tmp_path / "run", data)
    assert result(tmp_path / "run") == uninterrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_signal_saves_and_stops(
    number: int,
    tmp_path: Path,
    data: PreparedData,
    uninterrupted: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, original = tmp_path / "run", Trainer.step

    def step(self: Trainer, stop_requested: bool) -> bool:
        stop = original(self, stop_requested)
        if self.progress.step == 6:
            os.kill(os.getpid(), number)  # all processes learn of it in the next step, which is the last
        return stop

    before = signal.signal(number, signal.default_int_handler)  # it may be ignored here, as in the background
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "step", step)
            with pytest.raises(KeyboardInterrupt):
                run_training(run, data)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    assert stopped_checkpoints(run) == ["stopped-0000007"]
    assert step_checkpoints(run) == ["step-0000002", "step-0000004", "step-0000006"]
    message = "stopped after step 7: run the same command again to resume from stopped-0000007\n"
    assert capsys.readouterr().err == message
    run_training(run, data)
    assert result(run) == uninterrupted
    assert stopped_checkpoints(run) == []
    assert step_checkpoints(run) == ["step-0000008", "step-0000010", "step-0000012"]  # as without the interruption


def test_a_second_ctrl_c_interrupts_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored here, as in the background
    try:
        with stop_signals() as stop_requested:
            os.kill(os.getpid(), signal.SIGINT)
            assert stop_requested()
            message = "stopping after this step, with a checkpoint; press Ctrl-C again to stop at once, without one"
            assert capfd.readouterr().err.strip() == message
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    tmp_path: Path,
    data: PreparedData,
    uninterrupted: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = tmp_path / "run"
    train_until(10, run, data, monkeypatch)
    (path,) = run.glob("step-0000008-state-*.safetensors")
    path.write_bytes(path.read_bytes()[:-1])
    run_training(run, data)
    errors = capsys.readouterr().err
    assert "step-0000008-state" in errors and "is damaged" in errors and "trying the previous one" in errors
    assert result(run) == uninterrupted
    assert (run / "step-0000008.json.damaged").exists()  # renamed, not deleted


def test_resuming_in_another_precision(tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with another GPU: fp16 has a loss scale, which a checkpoint of fp32 does not contain."""
    run = tmp_path / "run"
    train_until(7, run, data, monkeypatch)
    run_training(run, data, choose_device("cpu", "fp16"))
    run_training(run, data, steps=14, force=True)
    assert [session["step"] for session in read_sessions(run)] == [0, 6, 12]


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), torch.OutOfMemoryError("CUDA is full")])
def test_a_temporary_error_while_resuming_costs_no_checkpoint(
    error: Exception, tmp_path: Path, data: PreparedData, uninterrupted: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    train_until(7, run, data, monkeypatch)

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        if isinstance(error, OSError):

            def cannot_open(path: object, *arguments: Any, original: Any = os.open) -> int:
                return fail() if str(path).endswith(".safetensors") else original(path, *arguments)

            patch.setattr(os, "open", cannot_open)
        patch.setattr(torch.optim.Adam, "load_state_dict", fail)
        with pytest.raises(UserError, match=r"Input/output error|the device is out of memory"):
            run_training(run, data)
    assert step_checkpoints(run) == ["step-0000002", "step-0000004", "step-0000006"]
    run_training(run, data)
    assert result(run) == uninterrupted


def contents(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.iterdir()}


def damage(run: Path, pattern: str, text: bytes | None) -> None:
    for path in run.glob(pattern):
        path.unlink() if text is None else path.write_bytes(text)


@pytest.mark.parametrize("steps", [10, 12])
@pytest.mark.parametrize(
    ("pattern", "text"), [("step-*-state-*", None), ("step-*.safetensors", b"no tensors"), ("step-*", None)]
)
def test_a_run_whose_checkpoints_are_gone_or_damaged_is_not_trained_again(
    steps: int, pattern: str, text: bytes | None, tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a finished one, from which someone deleted what was needed to resume, nor an interrupted one."""
    run = tmp_path / "run"
    if steps == 12:
        run_training(run, data)
    else:
        train_until(steps, run, data, monkeypatch)
    damage(run, pattern, text)
    before = contents(run)
    with pytest.raises(UserError, match=r"cannot be resumed: .*Nothing in it was changed"):
        run_training(run, data)
    assert contents(run) == before


def test_a_finished_run_is_not_resumed_from_the_checkpoint_before_the_last(tmp_path: Path, data: PreparedData) -> None:
    run = tmp_path / "run"
    run_training(run, data)
    damage(run, "step-0000012-state-*", None)
    before = contents(run)
    with pytest.raises(UserError, match=r"it is finished, but the checkpoint .* is missing"):
        run_training(run, data)
    assert contents(run) == before


def test_a_run_that_was_killed_before_its_first_checkpoint_starts_again(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_training(tmp_path / "whole", data, checkpoint_every=12)
    train_until(10, tmp_path / "killed", data, monkeypatch, checkpoint_every=12)
    run_training(tmp_path / "killed", data, checkpoint_every=12)
    assert result(tmp_path / "killed") == result(tmp_path / "whole")


def test_a_full_disk_ends_the_run_but_not_the_last_checkpoint(
    tmp_path: Path, data: PreparedData, uninterrupted: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, original = tmp_path / "run", checkpoint.write_atomically

    def write(path: Path, content: bytes) -> None:
        if path.name.startswith("step-0000008"):
            raise OSError(errno.ENOSPC, "No space left on device")
        original(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_atomically", write)
        with pytest.raises(UserError, match=r"cannot write to .*No space left .*again to resume from step-0000006"):
            run_training(run, data)
    assert step_checkpoints(run)[-1] == "step-0000006"
    run_training(run, data)
    assert result(run) == uninterrupted


def test_a_disk_that_is_full_from_the_start_does_no_harm(
    tmp_path: Path, data: PreparedData, uninterrupted: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(runs, "write_atomically", write)
        with pytest.raises(
            UserError, match=r"cannot write to .*No space left .*free some space; nothing was saved yet"
        ):
            run_training(tmp_path / "run", data)
    run_training(tmp_path / "run", data)
    assert result(tmp_path / "run") == uninterrupted


def test_a_folder_without_permission_is_no_full_disk(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path, content: bytes) -> None:
        raise OSError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(runs, "write_atomically", write)
    with pytest.raises(
        UserError, match=r"Permission denied; .*choose another folder with --run; nothing was saved yet"
    ):
        run_training(tmp_path / "run", data)


def test_a_run_folder_that_cannot_be_created_is_explained(tmp_path: Path, data: PreparedData) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot write to .*Not a directory; .*choose another folder with --run"):
        run_training(tmp_path / "file" / "runs" / "run", data)


@pytest.mark.parametrize("filename", [None, "elsewhere/train.ids"])
def test_an_error_that_does_not_concern_the_run_folder_is_not_called_a_write_error(
    filename: str | None, tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(trainer: object, stop_requested: bool) -> None:
        raise OSError(errno.EIO, "Input/output error", filename)

    monkeypatch.setattr("transformer.training.trainer.Trainer.step", step)
    with pytest.raises(OSError, match="Input/output error"):
        run_training(tmp_path / "run", data)


def test_an_incomplete_line_of_metrics_is_removed(
    tmp_path: Path, data: PreparedData, uninterrupted: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    train_until(6, run, data, monkeypatch)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 8, "val')
    run_training(run, data)
    assert result(run) == uninterrupted


def test_a_finished_run_is_left_alone(tmp_path: Path, data: PreparedData) -> None:
    run_training(tmp_path / "run", data)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").glob("*.safetensors")}
    run_training(tmp_path / "run", data)
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "run").glob("*.safetensors")}


def test_changed_settings_are_named_and_need_force(tmp_path: Path, data: PreparedData) -> None:
    run = tmp_path / "run"
    run_training(run, data)
    with pytest.raises(
        UserError, match=r"\(training.label_smoothing: 0.1, now 0.2; training.steps: 12, now 14\): .*--force"
    ):
        run_training(run, data, steps=14, label_smoothing=0.2)
    with pytest.raises(UserError, match=r"with --run, because this run has already taken 12 steps$"):
        run_training(run, data, steps=11)
    run_training(run, data, keep_checkpoints=5)  # no need for --force
    run_training(run, data, steps=14, label_smoothing=0.2, force=True)
    assert step_checkpoints(run)[-1] == "step-0000014"
    assert read_json(run / "recipe.json")["training"]["steps"] == 14


def test_another_text_is_called_a_changed_one_only_if_it_is_that_of_the_same_corpus(tmp_path: Path) -> None:
    saved = {"data": {"corpus": "/x.tsv"}, "text_sha256": "0"}
    runs.write_recipe(tmp_path, saved)
    with pytest.raises(UserError, match=r"another text: /x\.tsv has changed since"):
        runs.check_run_folder(tmp_path, saved | {"text_sha256": "1"})
    for other, sha256 in (("pocket", None), ("/y.tsv", "1")):
        with pytest.raises(UserError, match=rf"with other settings \(.*data\.corpus: /x\.tsv, now {other}\)"):
            runs.check_run_folder(tmp_path, {"data": {"corpus": other}, "text_sha256": sha256})
    runs.check_run_folder(tmp_path, {"data": {"corpus": "/moved/x.tsv"}, "text_sha256": "0"})  # the same text


def test_a_run_resumes_with_another_dropout(tmp_path: Path, data: PreparedData) -> None:
    run = tmp_path / "run"
    run_training(run, data)
    config = TrainingConfig(**{**SETTINGS, "steps": 14})  # type: ignore[arg-type]
    other = replace(SHAPE, dropout=0.3, attention_dropout=0.2, activation_dropout=0.1, attention="explicit")
    train(run, data, other, config, choose_device("cpu"), on_validation=lambda _: None, force=True)
    model, _ = load_checkpoint(run, step_checkpoints(run)[-1])
    assert step_checkpoints(run)[-1] == "step-0000014" and model.config == other
    average_checkpoints(run, step_checkpoints(run)[-2:])  # they have different dropout, but the same architecture


def test_a_run_that_resumes_with_fewer_accumulation_steps_says_that_it_keeps_them(
    tmp_path: Path, data: PreparedData, capsys: pytest.CaptureFixture[str]
) -> None:
    run_training(tmp_path / "run", data, steps=4, batch_tokens=50, gradient_accumulation_steps=2)
    capsys.readouterr()
    run_training(tmp_path / "run", data, steps=6, batch_tokens=50, force=True)
    assert (
        "2 accumulation steps per process, so that micro-batches are no larger than before" in capsys.readouterr().err
    )
    assert read_json(tmp_path / "run" / "step-0000006.json")["progress"]["gradient_accumulation_steps"] == 2


def test_a_run_resumes_with_more_accumulation_steps(tmp_path: Path, data: PreparedData) -> None:
    run = tmp_path / "run"
    run_training(run, data, steps=4, batch_tokens=50)
    before = read_json(run / "step-0000004.json")["progress"]
    with pytest.raises(UserError, match=r"\(training.steps: 4, now 6\)"):  # the only change that matters
        run_training(run, data, steps=6, batch_tokens=50, gradient_accumulation_steps=2)
    run_training(run, data, steps=6, batch_tokens=50, gradient_accumulation_steps=2, force=True)
    after = read_json(run / "step-0000006.json")["progress"]
    assert (before["gradient_accumulation_steps"], after["gradient_accumulation_steps"]) == (1, 2)
    assert (before["epoch"], before["batch_index"]) == (0, 4)
    assert (after["epoch"], after["batch_index"]) == (
        0,
        2 * 2,
    )  # two steps of two batches, made of the remaining pairs


def test_a_run_resumes_with_activation_checkpointing(
    tmp_path: Path, data: PreparedData, uninterrupted: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps are the same to the bit, so it doesn't need --force."""
    train_until(7, tmp_path / "run", data, monkeypatch)
    run_training(tmp_path / "run", data, activation_checkpointing=True)
    assert result(tmp_path / "run") == uninterrupted


def test_a_checkpoint_at_the_end_of_each_epoch(tmp_path: Path, data: PreparedData) -> None:
    changes = {"steps": 9, "checkpoint_every": 100, "average_steps": 0, "keep_checkpoints": 10}
    run_training(tmp_path / "without", data, **changes)
    assert step_checkpoints(tmp_path / "without") == ["step-0000009"]
    run_training(tmp_path / "with", data, checkpoint_each_epoch=True, **changes)
    *epochs, _ = step_checkpoints(tmp_path / "with")
    assert len(epochs) >= 2
    for number, name in enumerate(epochs):
        progress = read_json(tmp_path / "with" / f"{name}.json")["progress"]
        assert progress["epoch"] == number
        sources, targets = data.tokens("train")
        plan = Batches(sources, targets, SETTINGS["batch_tokens"], 1, epoch=number).plan
        assert progress["batch_index"] == len(plan)


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path, data: PreparedData) -> None:
    run = tmp_path / "run"
    run_training(run, data)
    config = TrainingConfig(**{**SETTINGS, "steps": 14})  # type: ignore[arg-type]
    other = ModelConfig(57, 16, 4, 64, 1, dropout=0.1, max_length=64)
    with pytest.raises(UserError, match=r"has another architecture: model.d_model: 32, now 16$"):
        train(run, data, other, config, choose_device("cpu"), on_validation=lambda _: None, force=True)
    assert step_checkpoints(run)[-1] == "step-0000012"
    run_training(run, data)  # as before: the refused settings are not written to the recipe


def test_another_vocabulary_is_refused(tmp_path: Path, data: PreparedData) -> None:
    run = tmp_path / "run"
    run_training(run, data)
    (run / "tokenizer.model").write_bytes(b"another")
    with pytest.raises(UserError, match="was started with another vocabulary"):
        run_training(run, data, steps=14, force=True)
    assert step_checkpoints(run)[-1] == "step-0000012"


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, data: PreparedData) -> None:
    (tmp_path / "thesis.txt").write_text("three years of work")
    with pytest.raises(UserError, match="is neither a run folder nor empty"):
        run_training(tmp_path, data)
    with pytest.raises(UserError, match=r"thesis\.txt is a file: choose a folder with --run$"):
        run_training(tmp_path / "thesis.txt", data)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_run_in_use_is_refused(tmp_path: Path, data: PreparedData) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.json").write_text("{}")
    with (
        filelock.FileLock(run / ".lock"),
        pytest.raises(UserError, match="is in use: another process is training in it"),
    ):
        run_training(run, data, force=True)


def test_only_the_last_checkpoints_are_kept_and_two_to_resume_from(tmp_path: Path, data: PreparedData) -> None:
    run = tmp_path / "run"
    run_training(run, data)
    assert step_checkpoints(run) == ["step-0000008", "step-0000010", "step-0000012"]
    assert len(list(run.glob("step-*-weights-*"))) == 3 and len(list(run.glob("step-*-state-*"))) == 2


def test_patience_ends_a_run_that_no_longer_improves(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    losses = iter([3.0, 2.0, 2.5, 2.1, 1.0])
    metrics = lambda *_: {"valid_loss": next(losses), "valid_bleu": 0.0}  # noqa: E731
    monkeypatch.setattr("transformer.training.trainer.validate", metrics)
    run = tmp_path / "run"
    run_training(run, data, steps=20, patience=2)
    assert [row["valid_loss"] for row in read_metrics(run)] == [3.0, 2.0, 2.5, 2.1]
    assert step_checkpoints(run)[-1] == "step-0000016"

    config = TrainingConfig(**{**SETTINGS, "steps": 20, "patience": 2})  # type: ignore[arg-type]
    train(run, data, SHAPE, config, choose_device("cpu"))
    message = "is finished, after 16 of 20 steps; to train for longer, raise --training.patience and add --force"
    assert message in capsys.readouterr().err
    run_training(run, data, steps=20, patience=5, force=True)
    assert step_checkpoints(run)[-1] == "step-0000020"
