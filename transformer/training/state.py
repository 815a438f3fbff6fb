"""The state of a training run: saved to a checkpoint, and restored from the last one that is intact."""

import math
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from transformer.checkpoint import (
    delete_checkpoint,
    load_checkpoint,
    mark_damaged,
    read_tensors,
    save_checkpoint,
    step_checkpoints,
    step_name,
    stopped_checkpoints,
    training_checkpoints,
)
from transformer.config import TrainingConfig
from transformer.errors import UserError
from transformer.files import InvalidFileError
from transformer.training.optimizer import load_optimizer_state, optimizer_state
from transformer.training.progress import Progress, is_finished
from transformer.training.run_folder import check_architecture, read_metrics
from transformer.training.trainer import Trainer


def save_state(trainer: Trainer, run: Path, stopped: bool = False) -> None:
    """Save a checkpoint to resume from, and delete those that are too old. All processes must call it.

    Args:
        stopped: save it because the run is being stopped: the next checkpoint that is due replaces it.
    """
    trainer.read_totals()
    progress, state = trainer.progress, _state(trainer)
    loss_sum, log_loss_sum = trainer.context.all_reduce([progress.loss_sum, progress.log_loss_sum])
    if not trainer.context.is_main:
        return
    metadata = {
        "progress": asdict(progress) | {"loss_sum": loss_sum, "log_loss_sum": log_loss_sum},
        "scaler": trainer.scaler.state_dict(),
    }
    name = step_name(progress.step, stopped)
    save_checkpoint(run, name, trainer.model, metadata, state)
    for old in stopped_checkpoints(run):
        if old != name:
            delete_checkpoint(run, old)
    delete_old_checkpoints(run, trainer.config)


def delete_old_checkpoints(run: Path, config: TrainingConfig) -> None:
    """Keep only the last ``config.keep_checkpoints``, and the state of the last two of them."""
    names = step_checkpoints(run)
    for old in names[: -config.keep_checkpoints]:
        delete_checkpoint(run, old)
    for old in names[-config.keep_checkpoints : -2]:
        delete_checkpoint(run, old, "state")


def restore_state(trainer: Trainer, run: Path, name: str) -> None:
    """Load a checkpoint. On the CPU, training continues exactly as if it had never stopped.

    The number of processes and ``config.gradient_accumulation_steps`` may have changed since: see
    `Trainer.change_batches`. The number of micro-batches per step never decreases, so memory use does not grow.

    Raises:
        InvalidFileError: if a part of it is missing or damaged.
        UserError: if it can't be read, or belongs to another model or version.
    """
    model, metadata = load_checkpoint(run, name)
    state = read_tensors(run, name, "state")
    check_architecture(model.config, trainer.model.config, f"the checkpoint {run / name}")
    trainer.model.load_state_dict(model.state_dict())
    try:
        load_optimizer_state(trainer.optimizers, state)
        n_expected = metadata["progress"]["step"] - (trainer.config.steps - trainer.config.average_steps)
        # If ``steps`` or ``average_steps`` has changed, the saved mean is that of other steps, and is dropped.
        if trainer.averaged is not None and int(state.get("averaged.n_averaged", 0)) == n_expected > 0:
            trainer.n_averaged = n_expected
            prefix = "averaged.weights."
            mean = {k.removeprefix(prefix): t for k, t in state.items() if k.startswith(prefix)}
            trainer.averaged.load_state_dict(mean, strict=False)
        if trainer.scaler.is_enabled() and metadata["scaler"]:  # empty if the last steps were not in fp16
            trainer.scaler.load_state_dict(metadata["scaler"])
        trainer.progress = Progress(**metadata["progress"])
        trainer.totals.skipped_steps.fill_(trainer.progress.skipped_steps)
        _restore_random_state(trainer, state)
    except KeyError as error:
        raise InvalidFileError(f"the checkpoint {run / name} lacks {error}") from error
    except torch.OutOfMemoryError as error:
        raise UserError("the device is out of memory before the first step") from error
    except (TypeError, ValueError, RuntimeError) as error:  # intact, but written by another version
        raise UserError(f"cannot resume from the checkpoint {run / name}: {error}") from error
    progress, world_size = trainer.progress, trainer.context.world_size
    batches_per_step = progress.world_size * progress.gradient_accumulation_steps
    batches = max(trainer.config.gradient_accumulation_steps, math.ceil(batches_per_step / world_size))
    if batches > trainer.config.gradient_accumulation_steps and trainer.context.is_main:
        print(
            f"using {batches} accumulation steps per process, so that micro-batches are no larger than before",
            file=sys.stderr,
        )
    trainer.change_batches(batches, state["epoch.pairs"].numpy() if "epoch.pairs" in state else None)
    if not trainer.context.is_main:
        progress.loss_sum = progress.log_loss_sum = 0.0  # the main process has the sums of all


def _restore_random_state(trainer: Trainer, state: dict[str, Tensor]) -> None:
    """Continue with this process's random numbers.

    If the checkpoint was saved by another number of processes, only the first process can; the others are seeded.

    Raises:
        KeyError: if the checkpoint has no random state.
    """
    rank, world_size = trainer.context.rank, trainer.context.world_size
    states = state["random.cpu"].reshape(-1, torch.get_rng_state().numel())
    if len(states) != world_size and rank:
        torch.manual_seed(trainer.config.seed + rank + trainer.progress.step)
        return
    torch.set_rng_state(states[rank].clone())  # PyTorch crashes on a view into a larger tensor
    if trainer.device.type == "cuda" and "random.cuda" in state:
        states = state["random.cuda"].reshape(-1, torch.cuda.get_rng_state().numel())
        torch.cuda.set_rng_state(states[rank].clone())


def _state(trainer: Trainer) -> dict[str, Tensor]:
    """Return all tensors that the next steps depend on, except the weights. All processes must call it."""
    state = {"random.cpu": trainer.context.all_gather(torch.get_rng_state())}
    if trainer.device.type == "cuda":
        state["random.cuda"] = trainer.context.all_gather(torch.cuda.get_rng_state())
    if trainer.batches.pairs is not None:
        state["epoch.pairs"] = torch.from_numpy(trainer.batches.pairs)
    state |= optimizer_state(trainer.optimizers)
    if trainer.averaged is not None and trainer.n_averaged:
        state["averaged.n_averaged"] = torch.tensor(trainer.n_averaged)
        state |= {f"averaged.weights.{name}": p for name, p in trainer.averaged.named_parameters()}
    return state


def start_or_resume(run: Path, config: TrainingConfig, new_trainer: Callable[[], Trainer]) -> Trainer:
    """Return a trainer in the state of the last checkpoint that is intact, or a new one if nothing has been saved.

    A finished run is never trained again, and one that has saved checkpoints never starts from the first step.

    Raises:
        UserError: if it can't be resumed, because the checkpoints are damaged or were deleted.
    """
    trainer = new_trainer()
    names, damaged = training_checkpoints(run), []
    rows = read_metrics(run)
    for name in reversed(names):
        damage = None
        try:
            restore_state(trainer, run, name)
        except InvalidFileError as error:
            damage = error
        (processes_with_damage,) = trainer.context.all_reduce([damage is not None])
        if not processes_with_damage:
            break
        damaged.append((name, str(damage or f"{name} is damaged")))
        if is_finished(rows, config):
            raise _cannot_resume(run, f"it is finished, but {damaged[0][1]}")
        trainer = new_trainer()
    else:
        if names:
            raise _cannot_resume(run, f"none of its checkpoints can be resumed from: {damaged[0][1]}")
        if rows and (rows[-1]["step"] > config.checkpoint_every or is_finished(rows, config)):
            raise _cannot_resume(run, f"it was trained for {rows[-1]['step']} steps, but its checkpoints are gone")
    for name, reason in damaged:
        if trainer.context.is_main:
            print(f"{reason}; trying the previous one", file=sys.stderr)
            mark_damaged(run, name)
    if trainer.device.type == "cuda":
        trainer.fit_batch_to_memory()
    return trainer


def _cannot_resume(run: Path, reason: str) -> UserError:
    return UserError(
        f"{run} cannot be resumed: {reason}. Nothing in it was changed. "
        "To train again from the start, choose another folder with --run, or delete this one"
    )
