"""One step of training after another (§5): the loss, its gradient, Adam, on one device or many."""

import math
import sys
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from transformer.checkpoint import (
    DamagedError,
    delete_checkpoint,
    load_checkpoint,
    read_tensors,
    save_checkpoint,
    step_checkpoints,
    step_name,
)
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.batching import Batch, Batches, collate, token_batches
from transformer.data.prepare import PreparedData
from transformer.data.tokenizer import PAD
from transformer.device import Device
from transformer.errors import UserError
from transformer.evaluation.metrics import bleu
from transformer.loss import linear_label_smoothed_cross_entropy
from transformer.model import Transformer
from transformer.schedule import learning_rate
from transformer.training.distributed import ProcessGroup
from transformer.translator import Translator

MAX_SKIPPED_STEPS = 30
"""So many steps in a row may be skipped because a gradient is not finite: fp16 needs a few to find its scale."""


@dataclass
class Progress:
    """How far a run is, besides what tensors hold."""

    step: int = 0
    target_tokens: int = 0
    seconds: float = 0.0
    best_loss: float = math.inf
    without_gain: int = 0
    """Validations since the best one."""
    skipped: int = 0
    """Steps in a row whose gradient was not finite."""
    accumulate: int = 1
    """Batches of each process in a step."""
    epoch: int = 0
    epoch_step: int = 0
    """Where the batches stand."""
    loss_sum: float = 0.0
    loss_tokens: int = 0
    """Loss since the last validation, this process's share of it (in a checkpoint: all processes'), and the target
    tokens of all."""


class Trainer:
    """A model in training: it makes steps, validates, and can be saved and restored between any two of them."""

    def __init__(
        self,
        model_config: ModelConfig,
        config: TrainingConfig,
        data: PreparedData,
        device: Device,
        process_group: ProcessGroup,
        compiled: bool = False,
    ) -> None:
        torch.manual_seed(config.seed)
        self.config, self.data, self.device, self.process_group = config, data, device, process_group
        self.model = Transformer(model_config).to(device.device)
        torch.manual_seed(config.seed + process_group.rank)  # the same weights in each process, but another dropout
        self.translator = Translator(self.model, data.tokenizer, device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
        self.scaler = device.scaler()
        self.averaged = AveragedModel(self.model) if config.average_steps else None
        self.progress = Progress(accumulate=config.gradient_accumulation_steps)
        self.batches = self._batches()
        self.loss: nn.Module = ModelWithLoss(self.model, config.label_smoothing)
        if process_group.world_size > 1:
            self.loss = DistributedDataParallel(self.loss)
        self.eager_loss = self.loss
        if compiled:
            torch._dynamo.config.optimize_ddp = False  # else it cuts the graph, and falls back
            self.loss = torch.compile(self.loss, dynamic=True)  # type: ignore[assignment]

    def _batches(self) -> Batches:
        """This process's batches, from where the run stands."""
        sources, targets = self.data.tokens("train")
        at, of, parts = self.process_group.rank, self.process_group.world_size, self.progress.accumulate
        tokens = max(1, self.config.batch_tokens // (of * parts))
        return Batches(
            sources, targets, tokens, self.config.seed, at, of, parts, self.progress.epoch, self.progress.epoch_step
        )

    def fit_batch_to_memory(self) -> None:
        """Halve the batches, and take twice as many a step, until the largest one fits into the device's memory.

        Raises:
            UserError: if not even small ones do.
        """
        while True:
            sources, targets = self.batches.sources, self.batches.targets
            n_source, n_target = sources.lengths(), targets.lengths()
            largest = max(self.batches.plan, key=lambda rows: len(rows) * (n_source[rows].max() + n_target[rows].max()))
            fits = self._fits(collate(sources, targets, largest).to(self.device.device))
            self.optimizer.zero_grad()
            (full_somewhere,) = self.process_group.all_reduce([not fits])
            if not full_somewhere:
                return
            self._accumulate(2 * self.progress.accumulate)
            if self.config.batch_tokens < 100 * self.progress.accumulate * self.process_group.world_size:
                raise UserError("not even batches of 100 tokens fit into the device's memory: choose a smaller model")
            if self.process_group.is_main:
                print(f"memory is full: {self.progress.accumulate} batches a step, and smaller ones", file=sys.stderr)

    def _accumulate(self, parts: int) -> None:
        """Go on from the same place of the epoch in so many smaller batches a step; a run has never fewer than before.

        Its pairs are dealt anew for that, so a few of this epoch come twice or not at all.
        """
        self.progress.epoch_step = self.progress.epoch_step * parts // self.progress.accumulate
        self.progress.accumulate = parts
        self.batches = self._batches()

    def _fits(self, batch: Batch) -> bool:
        """Whether there is room for a batch, forward and backward. What it takes is free again afterwards."""
        try:
            to_come = [] if self.optimizer.state else [p for p in self.model.parameters() for _ in range(2)]
            moments = [torch.empty_like(p) for p in to_come]  # Adam's
            gpus = [batch.source.device] if batch.source.is_cuda else []
            with torch.random.fork_rng(devices=gpus):
                with self.device.autocast():
                    loss = batch_loss(self.model, batch, self.config.label_smoothing)
                loss.backward()
            del moments
        except torch.OutOfMemoryError:
            return False
        return True

    def step(self) -> None:
        """One step of the optimiser: forward, loss, backward, in one or more batches, and then Adam (§5.3)."""
        config, progress = self.config, self.progress
        progress.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(
                progress.step, self.model.config.d_model, config.warmup_steps, config.learning_rate_factor
            )
        batches = [next(self.batches) for _ in range(progress.accumulate)]
        # The loss is a mean over all target tokens of the step, whichever process has them.
        (total_tokens,) = self.process_group.all_reduce([sum(batch.n_tokens for batch in batches)])
        n_tokens = int(total_tokens)
        try:
            loss = self._gradients(batches, n_tokens)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            if self.loss is self.eager_loss:
                raise
            said = [line for line in str(error).strip().splitlines() if not line.endswith("raised:")]
            print(f"not compiled, so slower: {(said or [type(error).__name__])[0][:200]}", file=sys.stderr)
            self.loss = self.eager_loss
            self.optimizer.zero_grad()
            loss = self._gradients(batches, n_tokens)
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), config.max_grad_norm or math.inf)
        progress.target_tokens += n_tokens
        if torch.isfinite(norm):
            self.scaler.step(self.optimizer)
            progress.skipped = 0
            progress.loss_sum += float(loss)
            progress.loss_tokens += n_tokens
        else:
            self._skip(float(loss) * self.process_group.world_size / n_tokens)
        self.scaler.update()
        self.optimizer.zero_grad()
        self._average()

    def _skip(self, loss: float) -> None:
        """Count a step that is not made, because its gradient is not finite; too many in a row are the end."""
        self.progress.skipped += 1
        if self.progress.skipped >= MAX_SKIPPED_STEPS:
            raise UserError(
                f"the gradient was not finite in {self.progress.skipped} steps in a row, up to step "
                f"{self.progress.step} (loss {loss:.4g} a token): lower --training.learning-rate-factor, lengthen "
                f"--training.warmup-steps" + (", or try --precision bf16 or fp32" if self.scaler.is_enabled() else "")
            )

    def _average(self) -> None:
        """Take part of the mean of the last steps, and at the end, become it."""
        step, steps = self.progress.step, self.config.steps
        if self.averaged is not None and step > steps - self.config.average_steps:
            if step == steps - self.config.average_steps + 1:
                self.averaged.n_averaged.zero_()  # in a run that had ended before and was prolonged
            self.averaged.update_parameters(self.model)
            if step == steps:
                self.model.load_state_dict(self.averaged.module.state_dict())

    def _gradients(self, batches: list[Batch], n_tokens: int) -> Tensor:
        """Add up the gradients of the mean over ``n_tokens``; the batches' summed loss, ()."""
        loss = torch.zeros((), device=self.device.device)
        for number, batch in enumerate(batches, 1):
            batch = batch.to(self.device.device)
            with self._gradients_shared(number == len(batches)):
                with self.device.autocast():
                    loss_sum = self.loss(batch.source, batch.decoder_input, batch.labels)
                # Processes average their gradients: times their number, that is a sum.
                self.scaler.scale(loss_sum * (self.process_group.world_size / n_tokens)).backward()
            loss += loss_sum.detach()
        return loss

    def _gradients_shared(self, last: bool) -> Any:
        """Processes exchange their gradients once a step, after the last batch."""
        return nullcontext() if last or self.process_group.world_size == 1 else self.loss.no_sync()  # type: ignore[operator]

    def validate(self) -> dict[str, float]:
        """What is written down of this moment. All processes must call it."""
        progress = self.progress
        (loss_sum,) = self.process_group.all_reduce([progress.loss_sum])
        metrics = {
            "step": progress.step,
            "minutes": round(progress.seconds / 60, 3),
            "target_tokens": progress.target_tokens,
            "train_loss": loss_sum / max(1, progress.loss_tokens),
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            **validate(
                self.translator,
                self.data,
                replace(self.config, batch_tokens=self.batches.batch_tokens),  # these are known to fit into memory
                self.process_group,
            ),
        }
        progress.loss_sum, progress.loss_tokens = 0.0, 0
        progress.without_gain += 1
        if metrics["valid_loss"] <= progress.best_loss:
            progress.best_loss, progress.without_gain = metrics["valid_loss"], 0
        return metrics

    @property
    def is_done(self) -> bool:
        """Whether all steps are made, or the patience is at its end."""
        out_of_patience = 0 < self.config.patience <= self.progress.without_gain
        return self.progress.step >= self.config.steps or out_of_patience

    def save(self, run: Path) -> None:
        """Leave a checkpoint to go on from, and forget those that are too old. All processes must call it."""
        self.progress.epoch, self.progress.epoch_step = self.batches.epoch, self.batches.step
        (loss_sum,) = self.process_group.all_reduce([self.progress.loss_sum])
        if not self.process_group.is_main:
            return
        progress = asdict(self.progress) | {"loss_sum": loss_sum}
        facts = {"progress": progress, "scaler": self.scaler.state_dict()}
        save_checkpoint(run, step_name(self.progress.step), self.model, facts, self._state())
        names = step_checkpoints(run)
        for name in names[: -self.config.keep_checkpoints]:
            delete_checkpoint(run, name)
        for name in names[-self.config.keep_checkpoints : -2]:
            delete_checkpoint(run, name, "state")

    def restore(self, run: Path, name: str) -> None:
        """Take over a checkpoint: on the CPU, in one process, the next steps are exactly as if nothing had happened.

        Raises:
            DamagedError: if something of it is missing or not what was written.
            UserError: if it cannot be read, or is of another model or version.
        """
        model, described = load_checkpoint(run, name)
        state = read_tensors(run, name, "state")
        if model.config != self.model.config:
            raise UserError(f"the checkpoint {run / name} is of another model than the settings describe")
        self.model.load_state_dict(model.state_dict())
        try:
            groups = self.optimizer.state_dict()["param_groups"]
            self.optimizer.load_state_dict({"state": _moments(state), "param_groups": groups})
            averaged = {k.removeprefix("averaged."): t for k, t in state.items() if k.startswith("averaged.")}
            if self.averaged is not None and averaged:
                self.averaged.load_state_dict(averaged, strict=False)
            if self.scaler.is_enabled() and described["scaler"]:  # it is empty after steps in another precision
                self.scaler.load_state_dict(described["scaler"])
            self.progress = Progress(**described["progress"])
            torch.set_rng_state(state["random.cpu"])
            if self.device.device.type == "cuda" and "random.cuda" in state:
                torch.cuda.set_rng_state(state["random.cuda"])
        except KeyError as error:
            raise DamagedError(f"the checkpoint {run / name} lacks {error}") from error
        except torch.OutOfMemoryError as error:
            raise UserError("the device's memory is full already, before the first step") from error
        except (TypeError, ValueError, RuntimeError) as error:  # whole, but not what this version writes
            raise UserError(f"the checkpoint {run / name} cannot be gone on from: {error}") from error
        self._accumulate(max(self.config.gradient_accumulation_steps, self.progress.accumulate))
        if not self.process_group.is_main:
            self.progress.loss_sum = 0.0  # the first has it all
            torch.manual_seed(self.config.seed + self.process_group.rank + self.progress.step)

    def _state(self) -> dict[str, Tensor]:
        """All tensors but the weights that the next steps depend on."""
        state = {"random.cpu": torch.get_rng_state()}
        if self.device.device.type == "cuda":
            state["random.cuda"] = torch.cuda.get_rng_state()
        for number, moments in self.optimizer.state_dict()["state"].items():
            state |= {f"adam.{number}.{what}": tensor for what, tensor in moments.items()}
        if self.averaged is not None and self.averaged.n_averaged:
            state["averaged.n_averaged"] = self.averaged.n_averaged
            state |= {f"averaged.module.{name}": p for name, p in self.averaged.module.named_parameters()}
        return state


def _moments(tensors: dict[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    """Adam's moments and step counts by the numbers of the parameters, from `Trainer._state`."""
    moments: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        kind, _, rest = key.partition(".")
        if kind == "adam":
            number, what = rest.split(".")
            moments.setdefault(int(number), {})[what] = tensor
    return moments


class ModelWithLoss(nn.Module):
    """`batch_loss` as a module, for those who wrap modules: several processes, and the compiler."""

    def __init__(self, model: Transformer, smoothing: float) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(self, source: Tensor, decoder_input: Tensor, expected: Tensor) -> Tensor:
        """A batch's summed loss, ()."""
        return batch_loss(self.model, Batch(source, decoder_input, expected), self.smoothing)


def batch_loss(model: Transformer, batch: Batch, smoothing: float) -> torch.Tensor:
    """The smoothed loss summed over a batch's real target tokens; padding counts for nothing."""
    memory, memory_mask = model.encode(batch.source)
    states = model.decode(batch.decoder_input, memory, memory_mask).flatten(0, 1)
    return linear_label_smoothed_cross_entropy(
        states, model.unembedding.weight, batch.labels.flatten(), smoothing, pad_id=PAD
    )


@torch.no_grad()
def validate(
    translator: Translator, data: PreparedData, config: TrainingConfig, process_group: ProcessGroup | None = None
) -> dict[str, float]:
    """Loss (nats a token, unsmoothed) over the validation set, and BLEU of greedy translations of its beginning.

    Sentences that are empty, or longer than the model reads, are in neither. The loss is over the tokens as prepared,
    so it leaves out what ``data.max_length`` does.

    Args:
        process_group: those that share the work of the loss, and all call this; each gets the same numbers.
    """
    model, device = translator.model, translator.device
    process_group = process_group or ProcessGroup(0, 1, device.device)
    sources, targets = data.tokens("valid")
    was_training = model.training
    model.eval()
    loss, n_tokens = 0.0, 0
    for indices in token_batches(sources, targets, config.batch_tokens)[process_group.rank :: process_group.world_size]:
        batch = collate(sources, targets, indices).to(device.device)
        with device.autocast():
            loss += float(batch_loss(model, batch, smoothing=0.0))
        n_tokens += batch.n_tokens
    loss, all_tokens = process_group.all_reduce([loss, n_tokens])
    model.train(was_training)
    encode, limit = translator.tokenizer.encode, model.config.max_length
    readable = (pair for pair in data.valid if 0 < len(encode(pair[0])) < limit)
    texts = list(islice(readable, config.validation_sentences))
    hypotheses = translator.greedy_search([source for source, _ in texts])
    return {"valid_loss": loss / all_tokens, "valid_bleu": bleu(hypotheses, [target for _, target in texts]).value}
