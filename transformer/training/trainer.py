"""The trainer (§5): takes training steps and validates, on one device or several."""

import math
import sys
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from transformer.checkpoint import START_AGAIN
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.batching import Batch, Batches, Indices
from transformer.data.prefetch import Prefetcher
from transformer.data.prepare import PreparedData
from transformer.device import Device, is_out_of_memory
from transformer.errors import UserError
from transformer.layers import ActivationCheckpointedLayer
from transformer.model import Transformer
from transformer.schedule import learning_rate
from transformer.training.compilation import compile_with_fallback
from transformer.training.distributed import DistributedContext
from transformer.training.memory import check_memory
from transformer.training.objective import ModelWithLoss
from transformer.training.optimizer import build_optimizers, step_if_finite
from transformer.training.progress import Progress
from transformer.training.run_folder import check_architecture
from transformer.training.totals import DeviceTotals
from transformer.training.validation import validate
from transformer.translator import Translator

MAX_SKIPPED_STEPS = 30
"""Training stops after this many steps in a row without a finite gradient. With fp16 a few are skipped at the start,
until the loss scale is low enough. The device counts them, and the count is read for each row of the log, each
validation and each checkpoint. A series that ends between two readings goes unnoticed."""


class Trainer:
    """Trains a model: takes steps and validates. Between any two steps, `save_state` can save it."""

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
            check_architecture(initial_model.config, model_config, "the initial model")
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

    def change_batches(self, gradient_accumulation_steps: int, pairs: Indices | None) -> None:
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
            self.change_batches(parts, self.batches.pairs)
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
        self.read_totals()
        progress = self.progress
        (loss_sum,) = self.context.all_reduce([progress.log_loss_sum])
        row = {
            "step": progress.step,
            "train_loss": loss_sum / progress.log_loss_tokens if progress.log_loss_tokens else math.nan,
            "learning_rate": self.optimizers["adam"].param_groups[0]["lr"],
        }
        progress.log_loss_sum, progress.log_loss_tokens = 0.0, 0
        return row

    def read_totals(self) -> None:
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
        self.read_totals()
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
