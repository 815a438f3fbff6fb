"""A training run from its start, or from its last checkpoint, to its end (§5)."""

import errno
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from transformer.checkpoint import BEST, START_AGAIN, save_checkpoint, training_checkpoints
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.prepare import PreparedData
from transformer.device import Device, explain_out_of_memory
from transformer.errors import UserError, require_extra
from transformer.files import read_bytes, write_atomically
from transformer.model import Transformer
from transformer.training.display import Display
from transformer.training.distributed import init_distributed
from transformer.training.memory import estimate_memory
from transformer.training.run_folder import (
    RECIPE,
    append_log,
    append_metrics,
    append_session,
    open_run_folder,
    truncate_metrics,
    write_recipe,
)
from transformer.training.state import delete_old_checkpoints, save_state, start_or_resume
from transformer.training.trainer import Trainer
from transformer.translator import Translator

STOPPING = b"\nstopping after this step, with a checkpoint; press Ctrl-C again to stop at once, without one\n"

Row = dict[str, float]
"""A row of the log or of the metrics."""


def train(
    run: Path,
    data: PreparedData,
    model_config: ModelConfig,
    config: TrainingConfig,
    device: Device,
    recipe: dict[str, Any] | None = None,
    on_validation: Callable[[Row], None] | None = None,
    compiled: bool = False,
    force: bool = False,
    tensorboard: bool = False,
    initial_model: Transformer | None = None,
) -> Translator:
    """Train a model in a run folder, or resume the run that is in it.

    The folder gets ``recipe.json`` (the settings), ``tokenizer.model``, ``sessions.jsonl`` (when, how and where it was
    trained), ``metrics.jsonl`` (a row per validation), ``log.jsonl`` (a row every ``config.log_every`` steps), the best
    checkpoint and the last ones. When started by ``torchrun``, several processes train one model; on several machines,
    the folder must be on a file system that they share. Ctrl-C, SIGTERM and SIGHUP save a checkpoint after the next
    step, and stop.

    Args:
        run: the run folder.
        data: the prepared corpus.
        model_config: the architecture.
        config: the hyperparameters.
        device: where to train, and in which precision.
        recipe: the settings to write to the folder, or to compare with those in it; None: those of model and training.
        on_validation: called with the metrics of each validation; if given, no progress is shown.
        compiled: use torch.compile: slow for a minute or two, and then faster.
        force: resume even if the settings have changed.
        tensorboard: also write the metrics for TensorBoard, into the folder ``tensorboard``.
        initial_model: start from its weights (fine-tuning); None: from random weights. A resumed run continues with
            its own weights.

    Returns:
        The run's model: see `checkpoint.default_checkpoint`.

    Raises:
        UserError: if the model is too large for the memory, a sentence is too long for the model, the folder is in use
            or is not a run folder, the gradient or the validation loss is never finite, or there is no memory or
            disk space left.
        KeyboardInterrupt: after one of these signals, once everything is saved, unless training has ended by then.
    """
    check_lengths(data, model_config.max_length)
    recipe = recipe or {"model": asdict(model_config), "training": asdict(config)}
    with init_distributed(device) as context:
        is_main = context.is_main
        lock = open_run_folder(run, recipe, force) if is_main else nullcontext()
        with stop_signals(is_main) as stop_requested, explain_write_errors(run), lock:
            trainer = start_or_resume(
                run, config, lambda: Trainer(model_config, config, data, device, context, compiled, initial_model)
            )
            step = trainer.progress.step
            if step > config.steps:
                raise UserError(
                    f"{run} has already taken {step} steps, more than --training.steps {config.steps}. Nothing in it "
                    "was changed. For a shorter training, choose another folder with --run"
                )
            if is_main:
                if not (run / RECIPE).exists():
                    write_recipe(run, recipe)  # the first file, because it makes this a run folder
                _write_tokenizer(run, data.tokenizer.model)
                truncate_metrics(run, step)
                if not trainer.is_done:
                    append_session(run, step, device)
                    write_recipe(run, recipe)
                    delete_old_checkpoints(run, config)
            writer = TensorBoard(run / "tensorboard", step) if tensorboard and is_main else None
            hidden = on_validation is not None or not is_main
            try:
                with Display(run.name, step, config.steps, hidden) as display:
                    if trainer.is_done:
                        option = "steps" if step >= config.steps else "patience"
                        display.message(
                            f"{run} is finished, after {step} of {config.steps} steps; to train for longer, raise "
                            f"--training.{option} and add --force; to train again, choose another folder with --run"
                        )
                    else:
                        display.message(f"resuming after step {step} on {device}" if step else f"training on {device}")
                        parts = trainer.progress.gradient_accumulation_steps
                        in_use = replace(config, gradient_accumulation_steps=parts)
                        estimate = estimate_memory(model_config, in_use, device, world_size=context.world_size)
                        display.message(f"memory per device: about {estimate}")
                    _loop(trainer, run, display, writer, on_validation, stop_requested)
            except KeyboardInterrupt:
                if is_main:  # below the progress bar, which is closed now
                    print(_how_to_resume(run, trainer.progress.step), file=sys.stderr)
                raise
    if not (run / f"{BEST}.json").exists():
        raise UserError(f"no validation loss was a finite number, so there is no model: {START_AGAIN}")
    return Translator.load(run, device)


def check_lengths(data: PreparedData, max_length: int) -> None:
    """Check that the prepared data is complete, and that a model of this ``max_length`` can read all pairs with eos.

    Raises:
        UserError: if not.
    """
    _ = data.valid  # now, not at the first validation
    longest = max(int(side.lengths().max(initial=0)) for split in ("train", "valid") for side in data.tokens(split))
    if longest >= max_length:
        raise UserError(
            f"a sentence of the corpus has {longest} tokens, but this model reads at most {max_length - 1}: use "
            f"--model.max-length {longest + 1}, or leave out such pairs with --data.max-length {max_length - 1}"
        )


def _loop(
    trainer: Trainer,
    run: Path,
    display: Display,
    writer: "TensorBoard | None",
    on_validation: Callable[[Row], None] | None,
    stop_requested: Callable[[], bool],
) -> None:
    """Take the remaining steps; log, validate and save checkpoints in between."""
    config, progress, context = trainer.config, trainer.progress, trainer.context
    started = time.monotonic() - progress.seconds
    log_seconds, log_tokens = 0.0, progress.target_tokens  # since the last row of the log
    hint = (
        f"try --training.gradient-accumulation-steps {2 * progress.gradient_accumulation_steps}, which halves the "
        "micro-batches; a step still has as many tokens"
    )
    while not trainer.is_done:
        step_started = time.monotonic()
        with explain_out_of_memory(hint):
            stop = trainer.step(stop_requested())
        display.advance()
        row = trainer.log_row() if progress.step % config.log_every == 0 else None
        now = time.monotonic()
        progress.seconds = now - started
        log_seconds += now - step_started
        if row is not None:
            row["tokens_per_second"] = round((progress.target_tokens - log_tokens) / log_seconds, 1)
            row["minutes"] = round(progress.seconds / 60, 3)
            log_seconds, log_tokens = 0.0, progress.target_tokens
            if context.is_main:
                append_log(run, row)
                display.log(row)
                if writer is not None:
                    writer.log(row)

        last = progress.step == config.steps
        if last or progress.step % config.validate_every == 0:
            with explain_out_of_memory(hint):
                metrics = trainer.validate()
            last = trainer.is_done
            if context.is_main:
                if progress.validations_since_best == 0:
                    save_checkpoint(run, BEST, trainer.model, {"metrics": metrics, "training": asdict(config)})
                append_metrics(run, metrics)
                display.validation(metrics)
                if not math.isfinite(metrics["valid_loss"]):
                    display.message(f"the validation loss is not a finite number; if this persists, {START_AGAIN}")
                if writer is not None:
                    writer.validation(metrics)
                if on_validation is not None:
                    on_validation(metrics)
        epoch_end = config.checkpoint_each_epoch and trainer.is_epoch_end
        due = last or epoch_end or progress.step % config.checkpoint_every == 0
        if due or stop:
            save_state(trainer, run, stopped=not due)
        if stop and not last:
            context.all_reduce([0])  # as below
            raise KeyboardInterrupt
    context.all_reduce([0])  # no process exits before the main one has written everything


def _how_to_resume(run: Path, step: int) -> str:
    """Return what to print when a run is stopped after ``step`` steps."""
    names = training_checkpoints(run)
    if not names:
        return f"stopped after step {step}, before the first checkpoint: the same command starts from the beginning"
    return f"stopped after step {step}: run the same command again to resume from {names[-1]}"


def _write_tokenizer(run: Path, model: bytes) -> None:
    """Write the tokenizer to the run folder; refuse to resume with another one."""
    path = run / "tokenizer.model"
    if path.exists() and read_bytes(path, f"the tokenizer {path}") != model:
        raise UserError(
            f"{run} was started with another vocabulary: the training text, its preparation or the version of "
            "SentencePiece has changed. Choose another folder with --run"
        )
    write_atomically(path, model)


class TensorBoard:
    """Writes the log and the metrics of a run for TensorBoard.

    Raises:
        UserError: if TensorBoard is not installed.
    """

    def __init__(self, folder: Path, last_step: int) -> None:
        require_extra("tensorboard", "tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(folder, purge_step=last_step + 1)

    def log(self, row: Row) -> None:
        """Write a row of the training log."""
        self._write(row, [name for name in row if name != "step"])

    def validation(self, metrics: Row) -> None:
        """Write the validation loss and BLEU; the other metrics are in the log."""
        self._write(metrics, ["valid_loss", "valid_bleu"])

    def _write(self, row: Row, names: list[str]) -> None:
        for name in names:
            self.writer.add_scalar(name, row[name], int(row["step"]))
        self.writer.flush()


@contextmanager
def explain_write_errors(run: Path) -> Iterator[None]:
    """Turn an error while writing to the run folder into one that explains what to do. Other errors pass through.

    The last checkpoint is always intact.

    Raises:
        UserError: if a file in the run folder can't be written, or the disk is full.
    """
    try:
        yield
    except OSError as error:
        disk_is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if not disk_is_full and not _is_about(error, run):
            raise
        checkpoints = training_checkpoints(run)
        hint = "free some space" if disk_is_full else "check its permissions, or choose another folder with --run"
        if disk_is_full and checkpoints:
            hint += ", or lower --training.keep-checkpoints"
        resume = f"then run the same command again to resume from {checkpoints[-1]}" if checkpoints else ""
        raise UserError(
            f"cannot write to {run}: {error.strerror}; {hint}; {resume or 'nothing was saved yet'}"
        ) from error


def _is_about(error: OSError, run: Path) -> bool:
    """Return whether an error is about a file in the run folder, or about the folder itself or one that contains it."""
    if not isinstance(error.filename, str):
        return False
    # Before Python 3.13, Path.resolve raises an error for links that form a circle; realpath does not.
    path, folder = Path(os.path.realpath(error.filename)), Path(os.path.realpath(run))
    return path.is_relative_to(folder) or folder.is_relative_to(path)


@contextmanager
def stop_signals(shown: bool = True) -> Iterator[Callable[[], bool]]:
    """Catch Ctrl-C, SIGTERM and SIGHUP (sent when a terminal is closed); a second Ctrl-C acts as usual.

    Args:
        shown: on the first Ctrl-C, print to stderr what happens next.

    Yields:
        A function that returns whether one of them was received.
    """
    received: list[int] = []
    handlers: dict[int, Any] = {}

    def receive(number: int, _: object) -> None:
        received.append(number)
        if number == signal.SIGINT:
            signal.signal(number, handlers[number])  # the second one interrupts what takes too long
            if shown:
                with suppress(OSError):
                    os.write(2, STOPPING)  # printing isn't safe here, because the signal may interrupt a print

    try:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores it
                handlers[number] = signal.signal(number, receive)
    except ValueError:  # signal handlers can be installed only in the main thread
        pass
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
