"""The trainer (§5): takes steps, and saves and restores its state, on one device or several."""

import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from transformer.checkpoint import (
    START_AGAIN,
    delete_checkpoint,
    load_checkpoint,
    read_tensors,
    save_checkpoint,
    step_checkpoints,
    step_name,
    stopped_checkpoints,
)
from transformer.config import DROPOUTS, ModelConfig, TrainingConfig
from transformer.data.batching import Batch, Batches, Indices
from transformer.data.prefetch import Prefetcher
from transformer.data.prepare import PreparedData
from transformer.device import Device, is_out_of_memory
from transformer.errors import UserError
from transformer.files import InvalidFileError
from transformer.layers import ActivationCheckpointedLayer
from transformer.model import Transformer
from transformer.schedule import learning_rate
from transformer.training.compilation import compile_with_fallback
from transformer.training.distributed import DistributedContext
from transformer.training.memory import check_memory
from transformer.training.objective import ModelWithLoss
from transformer.training.optimizer import build_optimizers, load_optimizer_state, optimizer_state, step_if_finite
from transformer.training.run_folder import differences
from transformer.training.totals import DeviceTotals
from transformer.training.validation import validate
from transformer.translator import Translator

MAX_SKIPPED_STEPS = 30
"""Training stops after this many steps in a row without a finite gradient. With fp16 a few are skipped at the start,
until the loss scale is low enough. The device counts them, and the count is read for each row of the log, each
validation and each checkpoint. A series that ends between two readings goes unnoticed."""


@dataclass
class Progress:
    """How far a run has come: everything that is needed to resume it, except tensors."""

    step: int = 0
    """Optimiser steps taken so far."""
    target_tokens: int = 0
    seconds: float = 0.0
    best_loss: float = math.inf
    """Lowest validation loss so far."""
    validations_since_best: int = 0
    skipped_steps: int = 0
    """Steps in a row that were skipped because the gradient was not finite, as last read from the device."""
    world_size: int = 1
    """Number of processes."""
    gradient_accumulation_steps: int = 1
    """Micro-batches that each process uses in a step; together they have up to ``batch_tokens`` target tokens."""
    epoch: int = 0
    batch_index: int = 0
    """Micro-batches of this epoch that each process has used: ``gradient_accumulation_steps`` in each step."""
    loss_sum: float = 0.0
    """Loss since the last validation, summed over this process's target tokens (in a checkpoint: all processes')."""
    loss_tokens: int = 0
    """Target tokens of all processes since the last validation."""
    log_loss_sum: float = 0.0
    """As ``loss_sum``, but since the last row of the log."""
    log_loss_tokens: int = 0

    def add_validation(self, loss: float) -> None:
        """Take a validation loss into account, for patience."""
        self.validations_since_best += 1
        if loss < self.best_loss:
            self.best_loss, self.validations_since_best = loss, 0

    def is_done(self, config: TrainingConfig) -> bool:
        """Return whether all steps are taken or patience has run out."""
        return self.step >= config.steps or 0 < config.patience <= self.validations_since_best


def is_finished(metrics: Sequence[Mapping[str, float]], config: TrainingConfig) -> bool:
    """Return whether a run with these metrics has taken all steps, or its patience has run out."""
    progress = Progress()
    for row in metrics:
        progress.step = int(row["step"])
        progress.add_validation(row["valid_loss"])
    return bool(metrics) and progress.is_done(config)


class Trainer:
    """Trains a model: takes steps, validates, and can be saved and restored between any two steps."""

    def __init__(
        self,
        model_config: ModelConfig,
        config: TrainingConfig,
        data: PreparedData,
        device: Device,
        context: DistributedContext,
        compiled: bool = False,
        initial_model: Transformer | None = None,
    ) -> None:
        if device.int8:
            raise UserError("int8 is for translation: train in another precision")
        check_memory(model_config, config, device, context.world_size)
        torch.manual_seed(config.seed)
        self.config, self.data, self.device, self.context = config, data, device, context
        self.model = Transformer(model_config)
        if initial_model is not None:
            _check_architecture(initial_model.config, model_config, "the initial model")
            self.model.load_state_dict(initial_model.state_dict())
        self.model.to(device.torch_device)
        for layer in (*self.model.encoder, *self.model.decoder):
            cast(ActivationCheckpointedLayer, layer).activation_checkpointing = config.activation_checkpointing
        torch.manual_seed(config.seed + context.rank)  # the weights are the same on all ranks; dropout is not
        self.translator = Translator(self.model, data.tokenizer, device)
        self.optimizers = build_optimizers(self.model, config.optimizer, device)
        self.scaler = device.scaler()
        self.averaged = deepcopy(self.model) if config.average_steps else None
        self.n_averaged = 0
        self.progress = Progress(
            world_size=context.world_size, gradient_accumulation_steps=config.gradient_accumulation_steps
        )
        self._start_batches(self._make_batches(context.rank, context.world_size, config.gradient_accumulation_steps))
        self.totals = DeviceTotals(device.torch_device)
        self.model_with_loss: nn.Module = ModelWithLoss(self.model, config.label_smoothing)
        self.compiled = compiled

    @cached_property
    def training_module(self) -> nn.Module:
        """`model_with_loss` as the steps use it, compiled and distributed if configured; the first step creates it."""
        module, batch = self.model_with_loss, self.batches.collate(self.batches.plan[0])
        if self.compiled:
            compile_with_fallback(module, lambda: float(self._dry_run(module, batch)), self.context)
        if self.context.world_size > 1:
            module = DistributedDataParallel(module, gradient_as_bucket_view=True)
            module.broadcast_buffers = False  # they are constant tables, equal in all processes
            # After the first backward pass, DDP rearranges its buckets, which changes the order in which it sums
            # gradients. A resumed run has to sum them in the same order as one that was never interrupted.
            self._dry_run(module, batch)
        return module

    def _dry_run(self, module: nn.Module, batch: Batch) -> Tensor:
        """Run a forward and a backward pass that leaves no gradient and doesn't change the random numbers.

        Returns:
            The norm of the gradient of the summed loss, a scalar.
        """
        batch = batch.to(self.device.torch_device)
        try:
            with torch.random.fork_rng(devices=[batch.source.device] if batch.source.is_cuda else []):
                with self.device.autocast():
                    result = module(batch.source, batch.decoder_input, batch.labels)
                result.backward()
            return nn.utils.get_total_norm(p.grad for p in self.model.parameters() if p.grad is not None)
        finally:
            self.model.zero_grad()

    def _make_batches(
        self, rank: int, world_size: int, gradient_accumulation_steps: int, pairs: Indices | None = None
    ) -> Batches:
        """Return the micro-batches of one of ``world_size`` processes, starting at the position in ``progress``."""
        return Batches(
            *self.data.tokens("train"),
            max(1, self.config.batch_tokens // (world_size * gradient_accumulation_steps)),
            self.config.seed,
            rank,
            world_size,
            gradient_accumulation_steps,
            self.progress.epoch,
            self.progress.batch_index,
            pairs,
        )

    @property
    def batches(self) -> Batches:
        """The micro-batches of this process, at the position that the last step reached."""
        return self.prefetcher.position

    def _start_batches(self, batches: Batches) -> None:
        """Use these batches from the next step on."""
        self.prefetcher = Prefetcher(batches, self.device.torch_device)

    def _change_batches(self, gradient_accumulation_steps: int, pairs: Indices | None) -> None:
        """Continue with a different number of processes, or of micro-batches per process and step.

        Each pair of the current epoch is still used exactly once. If the total number of micro-batches per step, over
        all processes, is unchanged, they stay the same and are only redistributed. Otherwise the pairs that are left in
        the epoch are divided into new ones.

        Args:
            pairs: the indices of the pairs in the current epoch, as in `Batches`.

        Raises:
            UserError: if too few pairs are left.
        """
        progress, context = self.progress, self.context
        before = progress.world_size * progress.gradient_accumulation_steps
        after = context.world_size * gradient_accumulation_steps
        if before == after:
            progress.batch_index = progress.batch_index * progress.world_size // context.world_size
        elif progress.batch_index:
            plan = self._make_batches(0, 1, before, pairs).plan
            unused = plan[progress.batch_index * progress.world_size :]
            progress.batch_index = 0
            if unused:
                pairs = np.sort(np.concatenate(unused))
            else:  # the epoch was just over
                pairs = None
                progress.epoch += 1
        try:
            self._start_batches(
                self._make_batches(context.rank, context.world_size, gradient_accumulation_steps, pairs)
            )
        except UserError as error:
            if pairs is None:
                raise
            raise UserError(
                f"the {len(pairs)} sentence pairs left in epoch {progress.epoch} cannot be divided into steps of "
                f"{after} micro-batches: resume with {progress.world_size} processes and "
                f"--training.gradient-accumulation-steps {progress.gradient_accumulation_steps} until the next epoch"
            ) from error
        progress.world_size = context.world_size
        progress.gradient_accumulation_steps = gradient_accumulation_steps

    def fit_batch_to_memory(self) -> None:
        """Halve the micro-batches, and double their number per step, until the largest fits into the device's memory.

        Raises:
            UserError: if no micro-batches of 100 tokens or more fit.
        """
        while True:
            (out_of_memory,) = self.context.all_reduce([not self._fits(self.batches.largest())])
            if not out_of_memory:
                return
            parts = 2 * self.progress.gradient_accumulation_steps
            if self.config.batch_tokens < 100 * parts * self.context.world_size:
                tokens = self.batches.max_tokens
                raise UserError(f"not even micro-batches of {tokens} tokens fit into memory: use a smaller model")
            self._change_batches(parts, self.batches.pairs)
            if self.context.is_main:
                print(
                    "the batch of a step doesn't fit into memory: each process now splits its share into "
                    f"{parts} micro-batches",
                    file=sys.stderr,
                )

    def _fits(self, batch: Batch) -> bool:
        """Return whether memory suffices for a forward and backward pass; all of it is freed afterwards."""
        try:
            # A step also holds the gradients of its earlier micro-batches, or DDP's, and Adam's two moments, which Adam
            # allocates at its first step.
            copies = int(self.progress.gradient_accumulation_steps > 1 or self.context.world_size > 1)
            copies += 0 if self.optimizers["adam"].state else 2
            held = [torch.empty_like(p) for p in self.model.parameters() for _ in range(copies)]
            self._dry_run(self.model_with_loss, batch)
            del held
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            return False
        return True

    def step(self, stop_requested: bool = False) -> bool:
        """Take one step (§5.3): forward and backward for each batch, then clip the gradient and update the weights.

        There is no host–device synchronisation here, so that the host can run ahead of the GPU: see `DeviceTotals`.

        Args:
            stop_requested: whether this process has been asked to stop.

        Returns:
            Whether any process has been asked to stop.
        """
        config, progress = self.config, self.progress
        progress.step += 1
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(
                    progress.step, self.model.config.d_model, config.warmup_steps, config.learning_rate_factor
                )
        micro_batches = [next(self.prefetcher) for _ in range(progress.gradient_accumulation_steps)]
        progress.epoch, progress.batch_index = self.batches.epoch, self.batches.batch_index
        # The loss is the mean over the target tokens of the whole step, in all micro-batches of all processes.
        total_tokens, stop = self.context.all_reduce([sum(batch.n_tokens for batch in micro_batches), stop_requested])
        n_tokens = int(total_tokens)
        loss = self._backward(micro_batches, n_tokens)
        for optimizer in self.optimizers.values():
            self.scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), config.max_grad_norm or math.inf)
        step_if_finite(self.optimizers, norm)
        self.scaler.update()
        self.model.zero_grad()
        progress.target_tokens += n_tokens
        self.totals.add(loss, n_tokens, norm.isfinite())
        self._average()
        return stop > 0

    def _backward(self, micro_batches: list[Batch], n_tokens: int) -> Tensor:
        """Accumulate the gradients of the mean loss over ``n_tokens``; return the summed loss, a scalar."""
        total = torch.zeros((), device=self.device.torch_device)
        for batch in micro_batches:
            is_last = batch is micro_batches[-1]
            batch = batch.to(self.device.torch_device)
            with self._gradient_sync(is_last):
                with self.device.autocast():
                    loss = self.training_module(batch.source, batch.decoder_input, batch.labels)
                # DistributedDataParallel averages the gradients over the processes; world_size turns that into a sum.
                self.scaler.scale(loss * (self.context.world_size / n_tokens)).backward()
            total += loss.detach()
        return total

    def _gradient_sync(self, is_last: bool) -> Any:
        """Return a context in which processes exchange gradients only after the last batch of a step."""
        return nullcontext() if is_last or self.context.world_size == 1 else self.training_module.no_sync()  # type: ignore[operator]

    def _average(self) -> None:
        """Add the weights to their mean over the last ``average_steps`` steps; at the end, the model gets this mean."""
        step, steps = self.progress.step, self.config.steps
        if self.averaged is not None and step > steps - self.config.average_steps:
            self.n_averaged += 1
            with torch.no_grad():
                for mean, weight in zip(self.averaged.parameters(), self.model.parameters(), strict=True):
                    mean.lerp_(weight, 1 / self.n_averaged)
            if step == steps:
                self.model.load_state_dict(self.averaged.state_dict())

    def log_row(self) -> dict[str, float]:
        """Return the step, the learning rate and the mean training loss (nats per token) since the last call.

        All processes must call it. The loss is the mean over all processes.
        """
        self._read_totals()
        progress = self.progress
        (loss_sum,) = self.context.all_reduce([progress.log_loss_sum])
        row = {
            "step": progress.step,
            "train_loss": loss_sum / progress.log_loss_tokens if progress.log_loss_tokens else math.nan,
            "learning_rate": self.optimizers["adam"].param_groups[0]["lr"],
        }
        progress.log_loss_sum, progress.log_loss_tokens = 0.0, 0
        return row

    def _read_totals(self) -> None:
        """Add what was summed on the device to ``progress``; this is where the host waits for the device.

        Raises:
            UserError: if too many steps in a row were skipped.
        """
        progress = self.progress
        loss, tokens, progress.skipped_steps = self.totals.read()
        progress.loss_sum += loss
        progress.log_loss_sum += loss
        progress.loss_tokens += tokens
        progress.log_loss_tokens += tokens
        if progress.skipped_steps >= MAX_SKIPPED_STEPS:
            raise UserError(
                f"the gradient was not finite in {progress.skipped_steps} steps in a row, up to step {progress.step}: "
                + START_AGAIN
                + (", or with --precision bf16 or fp32" if self.scaler.is_enabled() else "")
            )

    def validate(self) -> dict[str, float]:
        """Return the metrics of the current step. All processes must call it."""
        self._read_totals()
        progress = self.progress
        (loss_sum,) = self.context.all_reduce([progress.loss_sum])
        config = replace(self.config, batch_tokens=self.batches.max_tokens)  # a micro-batch, which fits into memory
        results = validate(self.translator, self.data, config, self.context)
        metrics = {
            "step": progress.step,
            "minutes": round(progress.seconds / 60, 3),
            "target_tokens": progress.target_tokens,
            "train_loss": loss_sum / progress.loss_tokens if progress.loss_tokens else math.nan,
            "learning_rate": self.optimizers["adam"].param_groups[0]["lr"],
            **results,
        }
        progress.loss_sum, progress.loss_tokens = 0.0, 0
        progress.add_validation(metrics["valid_loss"])
        return metrics

    @property
    def is_done(self) -> bool:
        """Whether all steps are taken or patience has run out."""
        return self.progress.is_done(self.config)

    @property
    def is_epoch_end(self) -> bool:
        """Whether the last step used the last batches of an epoch."""
        return self.batches.batch_index == len(self.batches.plan)

    def save(self, run: Path, stopped: bool = False) -> None:
        """Save a checkpoint to resume from, and delete those that are too old. All processes must call it.

        Args:
            stopped: save it because the run is being stopped: the next checkpoint that is due replaces it.
        """
        self._read_totals()
        progress, state = self.progress, self._state()
        loss_sum, log_loss_sum = self.context.all_reduce([progress.loss_sum, progress.log_loss_sum])
        if not self.context.is_main:
            return
        metadata = {
            "progress": asdict(progress) | {"loss_sum": loss_sum, "log_loss_sum": log_loss_sum},
            "scaler": self.scaler.state_dict(),
        }
        name = step_name(progress.step, stopped)
        save_checkpoint(run, name, self.model, metadata, state)
        for old in stopped_checkpoints(run):
            if old != name:
                delete_checkpoint(run, old)
        self.delete_old_checkpoints(run)

    def delete_old_checkpoints(self, run: Path) -> None:
        """Keep only the last ``config.keep_checkpoints``, and the state of the last two of them."""
        names = step_checkpoints(run)
        for old in names[: -self.config.keep_checkpoints]:
            delete_checkpoint(run, old)
        for old in names[-self.config.keep_checkpoints : -2]:
            delete_checkpoint(run, old, "state")

    def restore(self, run: Path, name: str) -> None:
        """Load a checkpoint. On the CPU, training continues exactly as if it had never stopped.

        The number of processes and ``config.gradient_accumulation_steps`` may have changed since: see
        `_change_batches`. The number of micro-batches per step never decreases, so memory use does not grow.

        Raises:
            InvalidFileError: if a part of it is missing or damaged.
            UserError: if it can't be read, or belongs to another model or version.
        """
        model, metadata = load_checkpoint(run, name)
        state = read_tensors(run, name, "state")
        _check_architecture(model.config, self.model.config, f"the checkpoint {run / name}")
        self.model.load_state_dict(model.state_dict())
        try:
            load_optimizer_state(self.optimizers, state)
            n_expected = metadata["progress"]["step"] - (self.config.steps - self.config.average_steps)
            # If ``steps`` or ``average_steps`` has changed, the saved mean is that of other steps, and is dropped.
            if self.averaged is not None and int(state.get("averaged.n_averaged", 0)) == n_expected > 0:
                self.n_averaged = n_expected
                prefix = "averaged.weights."
                mean = {k.removeprefix(prefix): t for k, t in state.items() if k.startswith(prefix)}
                self.averaged.load_state_dict(mean, strict=False)
            if self.scaler.is_enabled() and metadata["scaler"]:  # empty if the last steps were not in fp16
                self.scaler.load_state_dict(metadata["scaler"])
            self.progress = Progress(**metadata["progress"])
            self.totals.skipped_steps.fill_(self.progress.skipped_steps)
            self._restore_random_state(state)
        except KeyError as error:
            raise InvalidFileError(f"the checkpoint {run / name} lacks {error}") from error
        except torch.OutOfMemoryError as error:
            raise UserError("the device is out of memory before the first step") from error
        except (TypeError, ValueError, RuntimeError) as error:  # intact, but written by another version
            raise UserError(f"cannot resume from the checkpoint {run / name}: {error}") from error
        progress, world_size = self.progress, self.context.world_size
        batches_per_step = progress.world_size * progress.gradient_accumulation_steps
        batches = max(self.config.gradient_accumulation_steps, math.ceil(batches_per_step / world_size))
        if batches > self.config.gradient_accumulation_steps and self.context.is_main:
            print(
                f"using {batches} accumulation steps per process, so that micro-batches are no larger than before",
                file=sys.stderr,
            )
        self._change_batches(batches, state["epoch.pairs"].numpy() if "epoch.pairs" in state else None)
        if not self.context.is_main:
            progress.loss_sum = progress.log_loss_sum = 0.0  # the main process has the sums of all

    def _restore_random_state(self, state: dict[str, Tensor]) -> None:
        """Continue with this process's random numbers.

        If the checkpoint was saved by another number of processes, only the first process can; the others are seeded.

        Raises:
            KeyError: if the checkpoint has no random state.
        """
        rank, world_size = self.context.rank, self.context.world_size
        states = state["random.cpu"].reshape(-1, torch.get_rng_state().numel())
        if len(states) != world_size and rank:
            torch.manual_seed(self.config.seed + rank + self.progress.step)
            return
        torch.set_rng_state(states[rank].clone())  # PyTorch crashes on a view into a larger tensor
        if self.device.type == "cuda" and "random.cuda" in state:
            states = state["random.cuda"].reshape(-1, torch.cuda.get_rng_state().numel())
            torch.cuda.set_rng_state(states[rank].clone())

    def _state(self) -> dict[str, Tensor]:
        """Return all tensors that the next steps depend on, except the weights. All processes must call it."""
        state = {"random.cpu": self.context.all_gather(torch.get_rng_state())}
        if self.device.type == "cuda":
            state["random.cuda"] = self.context.all_gather(torch.cuda.get_rng_state())
        if self.batches.pairs is not None:
            state["epoch.pairs"] = torch.from_numpy(self.batches.pairs)
        state |= optimizer_state(self.optimizers)
        if self.averaged is not None and self.n_averaged:
            state["averaged.n_averaged"] = torch.tensor(self.n_averaged)
            state |= {f"averaged.weights.{name}": p for name, p in self.averaged.named_parameters()}
        return state


def _check_architecture(saved: ModelConfig, current: ModelConfig, whose: str) -> None:
    """Check that saved weights compute the same in a model with the current settings.

    Raises:
        UserError: if not; the message lists the settings that differ.
    """
    before, now = asdict(saved), asdict(current)
    changes = list(differences(before, now | {key: before[key] for key in (*DROPOUTS, "attention")}, "model"))
    if changes:
        raise UserError(f"{whose} has another architecture: {'; '.join(changes)}")
