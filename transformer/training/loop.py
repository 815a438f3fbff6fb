"""A run: training from its beginning, or from where it was broken off, to its end (§5)."""

import errno
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from transformer.checkpoint import BEST, DamagedError, mark_damaged, save_checkpoint, step_checkpoints, write_atomically
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.prepare import PreparedData
from transformer.device import Device
from transformer.errors import UserError
from transformer.training.distributed import init_distributed
from transformer.training.run_folder import (
    RECIPE,
    append_metrics,
    append_session,
    open_run_folder,
    truncate_metrics,
    write_recipe,
)
from transformer.training.trainer import Progress, Trainer
from transformer.translator import Translator


def train(
    run: Path,
    data: PreparedData,
    model_config: ModelConfig,
    config: TrainingConfig,
    device: Device,
    recipe: dict[str, Any] | None = None,
    report: Callable[[dict[str, float]], None] | None = None,
    compiled: bool = False,
    force: bool = False,
    tensorboard: bool = False,
) -> Translator:
    """Train a model in a run folder, or go on where a training in it was broken off.

    The folder gets ``recipe.json``, ``tokenizer.model``, ``sessions.jsonl`` (how and where it was trained),
    ``metrics.jsonl`` (a line a validation), the best checkpoint, and the last ones. Started by ``torchrun``, several
    processes train one model. Ctrl-C and SIGTERM save and leave.

    Args:
        run: the run folder.
        recipe: the settings to write down beside the model, and to hold against those written down.
        report: is given each validation's metrics, and replaces the progress bar.
        compiled: compile the model: a minute or two at first, then quicker steps.
        force: go on even if the settings were others.
        tensorboard: write the metrics for TensorBoard too, into the folder ``tensorboard``.

    Raises:
        UserError: if a sentence is longer than the model reads, the folder is in use or holds something else, a
            gradient or the validation loss is never finite, or memory runs out.
        KeyboardInterrupt: after Ctrl-C or SIGTERM, when all is saved.
    """
    check_lengths(data, model_config.max_length)
    recipe = recipe or {"model": asdict(model_config), "training": asdict(config)}
    with init_distributed(device) as process_group:
        folder = open_run_folder(run, recipe, force) if process_group.is_main else nullcontext()
        with room_to_write(run), folder, stopping() as stop:
            trainer = _begun(run, lambda: Trainer(model_config, config, data, device, process_group, compiled))
            if process_group.is_main:
                if not (run / RECIPE).exists():
                    write_recipe(run, recipe)  # the first file: with it, this is a run's folder
                _keep_tokenizer(run, data.tokenizer.model)
                truncate_metrics(run, trainer.progress.step)
                if not trainer.is_done:
                    append_session(run, trainer.progress.step, device)
                write_recipe(run, recipe)
            with tqdm(
                initial=trainer.progress.step,
                total=config.steps,
                desc=f"training {run.name}",
                unit="step",
                dynamic_ncols=True,
                disable=report is not None or not process_group.is_main,
            ) as bar:
                _loop(
                    trainer,
                    run,
                    bar,
                    report,
                    stop,
                    log=_tensorboard(run) if tensorboard and process_group.is_main else None,
                )
    if not (run / f"{BEST}.json").exists():
        raise UserError(
            "no validation loss was a finite number: "
            "lower --training.learning-rate-factor or lengthen --training.warmup-steps"
        )
    return Translator.load(run, device)[0]


def check_lengths(data: PreparedData, max_length: int) -> None:
    """Whether a model of this ``max_length`` can read all prepared pairs, with their eos.

    Raises:
        UserError: if not.
    """
    longest = max(int(side.lengths().max(initial=0)) for split in ("train", "valid") for side in data.tokens(split))
    if longest >= max_length:
        raise UserError(
            f"a sentence of the corpus has {longest} tokens, and this model reads {max_length - 1}: give "
            f"--model.max-length {longest + 1}, or leave such pairs out by --data.max-length {max_length - 1}"
        )


def _loop(
    trainer: Trainer,
    run: Path,
    bar: "tqdm[Any]",
    report: Callable[[dict[str, float]], None] | None,
    stop: Callable[[], bool],
    log: Callable[[dict[str, float]], None] | None,
) -> None:
    config, progress, process_group = trainer.config, trainer.progress, trainer.process_group
    before, started = progress.seconds, time.monotonic()
    while not trainer.is_done:
        with room_in_memory(progress):
            trainer.step()
        bar.update()
        progress.seconds = before + time.monotonic() - started
        last = progress.step == config.steps
        (stopped,) = process_group.all_reduce([stop()])
        if last or progress.step % config.validate_every == 0:
            with room_in_memory(progress):
                metrics = trainer.validate()
            last = trainer.is_done
            if process_group.is_main:
                append_metrics(run, metrics)
                if log is not None:
                    log(metrics)
                if progress.without_gain == 0:
                    save_checkpoint(run, BEST, trainer.model, {"metrics": metrics, "training": asdict(config)})
            if report is not None and process_group.is_main:
                report(metrics)
            bar.set_postfix_str(f"valid loss {metrics['valid_loss']:.3f}, BLEU {metrics['valid_bleu']:.1f}")
        if last or stopped or progress.step % config.checkpoint_every == 0:
            trainer.save(run)
        if stopped and not last:
            if process_group.is_main:
                print(f"stopped and saved after step {progress.step}: the same command goes on", file=sys.stderr)
            raise KeyboardInterrupt
    process_group.all_reduce([0])  # nobody leaves before the first has written all


def _keep_tokenizer(run: Path, model: bytes) -> None:
    """Lay the tokenizer beside the model; a run does not go on with another one."""
    path = run / "tokenizer.model"
    if path.exists() and path.read_bytes() != model:
        raise UserError(
            f"{run} was begun with another vocabulary: its text has changed. Name another folder with --run"
        )
    write_atomically(path, model)


def _tensorboard(run: Path) -> Callable[[dict[str, float]], None]:
    """What writes a row of metrics for TensorBoard."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError("TensorBoard is not installed: pip install tensorboard") from None
    writer = SummaryWriter(run / "tensorboard")

    def log(metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            if name != "step":
                writer.add_scalar(name, value, int(metrics["step"]))
        writer.flush()

    return log


def _begun(run: Path, new: Callable[[], Trainer]) -> Trainer:
    """A trainer that goes on from the last checkpoint; one that is damaged is named, and set aside."""
    trainer = new()
    for name in reversed(step_checkpoints(run)):
        damage = None
        try:
            trainer.restore(run, name)
        except DamagedError as error:
            damage = error
        (anywhere,) = trainer.process_group.all_reduce([damage is not None])
        if not anywhere:
            break
        if trainer.process_group.is_main:
            print(f"{damage or name + ' is damaged'}; trying the one before", file=sys.stderr)
            mark_damaged(run, name)
        trainer = new()
    if trainer.device.device.type == "cuda":
        trainer.fit_batch_to_memory()
    return trainer


@contextmanager
def room_in_memory(progress: Progress) -> Iterator[None]:
    """Say what helps when the device's memory is full."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise UserError(
            "the device's memory is full: try "
            f"--training.gradient-accumulation-steps {2 * progress.accumulate}, which halves the batches "
            f"and changes nothing else. {str(error).splitlines()[0][:100]}"
        ) from error


@contextmanager
def room_to_write(run: Path) -> Iterator[None]:
    """Say what is left when nothing can be written: checkpoints are renamed when complete, so the last one is whole."""
    try:
        yield
    except OSError as error:
        left = step_checkpoints(run)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        hint = "make room" if full else "see to it that it can be written, or name another folder with --run"
        then = f"then the same command goes on from {left[-1]}" if left else "nothing was saved yet"
        raise UserError(f"cannot write in {run}: {error.strerror}; {hint}; {then}") from error


@contextmanager
def stopping() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C and SIGTERM only ask to stop; what this gives tells whether they did."""
    asked: list[int] = []
    before = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, lambda number, _: asked.append(number))
    except ValueError:  # not in the main thread, where signals never come
        pass
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
