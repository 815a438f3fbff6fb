"""The training loop (§5): from a recipe to a trained model, on one device or many, through any crash."""

import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel
from tqdm import tqdm

from transformer.batching import Batch, Batches, collate, token_batches
from transformer.checkpoint import (
    BEST,
    forget,
    load_checkpoint,
    read_tensors,
    save_checkpoint,
    step_checkpoints,
    step_name,
    write_atomically,
)
from transformer.device import Device
from transformer.errors import UserError
from transformer.evaluation import bleu
from transformer.loss import linear_label_smoothed_cross_entropy
from transformer.model import ModelConfig, Transformer
from transformer.preparation import PreparedData
from transformer.processes import Processes, joined
from transformer.runs import add_metrics, keep_metrics, opened
from transformer.schedule import learning_rate
from transformer.tokenizer import PAD
from transformer.translation import Translator

PATIENCE_WITH_INFINITY = 30
"""So many steps in a row may be skipped because a gradient is not finite: fp16 needs a few to find its scale."""


@dataclass(frozen=True)
class TrainingConfig:
    """How a model learns. The defaults are the paper's (§5)."""

    steps: int = 100_000
    """Optimiser steps."""
    batch_tokens: int = 25_000
    """At most this many target tokens in a step, on all devices together; padding is not counted."""
    accumulate: int = 1
    """Batches that each process makes of its share of a step: more of them need less memory."""
    warmup_steps: int = 4000
    """Steps until the learning rate is highest."""
    rate_factor: float = 1.0
    """Multiplies the paper's learning rate; its code has 2, with 8,000 warm-up steps."""
    smoothing: float = 0.1
    """Label smoothing."""
    clip: float = 1.0
    """Largest norm of the gradient; 0 leaves it alone."""
    average_steps: int = 0
    """The final weights are the mean over so many last steps; 0: the last ones."""
    validate_every: int = 1000
    """Steps between validations, each with a checkpoint if it is the best so far."""
    validate_sentences: int = 200
    """Validation sentences that are translated for BLEU, greedily; the loss is taken on all."""
    patience: int = 0
    """Stop after so many validations in a row without a lower loss; 0: never."""
    checkpoint_every: int = 1000
    """Steps between checkpoints to go on from, and to average."""
    keep: int = 5
    """How many of those are kept: the last."""
    seed: int = 1
    """Seeds the weights, the dropout and the order of batches."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch_tokens", "accumulate", "warmup_steps", "validate_every", "validate_sentences"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1; got {getattr(self, name)}")
        if self.checkpoint_every < 1 or self.keep < 2:
            raise UserError(
                "checkpoint_every must be at least 1, and keep at least 2, in case the last checkpoint is damaged; "
                f"got {self.checkpoint_every} and {self.keep}"
            )
        if not 0 <= self.average_steps <= self.steps:
            raise UserError(f"average_steps must be from 0 to steps; got {self.average_steps}, steps={self.steps}")
        if not 0 <= self.smoothing < 1:
            raise UserError(f"smoothing must be at least 0 and less than 1; got {self.smoothing}")
        if self.clip < 0 or self.patience < 0:
            raise UserError(f"clip and patience must not be negative; got {self.clip} and {self.patience}")


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
    epoch: int = 0
    epoch_step: int = 0
    """Where the batches stand."""
    loss_sum: float = 0.0
    loss_tokens: int = 0
    """This process's loss since the last validation, and the target tokens of all processes."""


class Trainer:
    """A model in training: it makes steps, validates, and can be saved and restored between any two of them."""

    def __init__(
        self,
        model_config: ModelConfig,
        config: TrainingConfig,
        data: PreparedData,
        device: Device,
        processes: Processes,
        compiled: bool = False,
    ) -> None:
        torch.manual_seed(config.seed)
        self.config, self.data, self.device, self.processes = config, data, device, processes
        self.model = Transformer(model_config).to(device.device)
        torch.manual_seed(config.seed + processes.rank)  # the same weights in each process, but another dropout
        self.translator = Translator(self.model, data.tokenizer, device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
        self.scaler = device.scaler()
        self.averaged = AveragedModel(self.model) if config.average_steps else None
        self.progress = Progress()
        self.batches = self._batches()
        self.loss: nn.Module = SmoothedLoss(self.model, config.smoothing)
        if processes.count > 1:
            self.loss = DistributedDataParallel(self.loss)
        self.eager_loss = self.loss
        if compiled:
            self.loss = torch.compile(self.loss, dynamic=True)  # type: ignore[assignment]

    def _batches(self) -> Batches:
        """This process's batches, from where the run stands."""
        sources, targets = self.data.tokens("train")
        at, of, parts = self.processes.rank, self.processes.count, self.config.accumulate
        tokens = max(1, self.config.batch_tokens // (of * parts))
        return Batches(
            sources, targets, tokens, self.config.seed, at, of, parts, self.progress.epoch, self.progress.epoch_step
        )

    def step(self) -> None:
        """One step of the optimiser: forward, loss, backward, in one or more batches, and then Adam (§5.3)."""
        config, progress = self.config, self.progress
        progress.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(
                progress.step, self.model.config.d_model, config.warmup_steps, config.rate_factor
            )
        batches = [next(self.batches) for _ in range(config.accumulate)]
        # The loss is a mean over all target tokens of the step, whichever process has them.
        (total_tokens,) = self.processes.sum([sum(batch.n_tokens for batch in batches)])
        n_tokens = int(total_tokens)
        loss = torch.zeros((), device=self.device.device)
        for number, batch in enumerate(batches, 1):
            with self._gradients_shared(number == len(batches)), self.device.autocast():
                batch_loss = self._loss(batch.to(self.device.device))
                # Processes average their gradients: times their number, that is a sum.
                self.scaler.scale(batch_loss * (self.processes.count / n_tokens)).backward()
            loss += batch_loss.detach()
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), config.clip or math.inf)
        if torch.isfinite(norm):
            self.scaler.step(self.optimizer)
            progress.skipped = 0
        else:
            progress.skipped += 1
        self.scaler.update()
        self.optimizer.zero_grad()
        if self.averaged is not None and progress.step > config.steps - config.average_steps:
            self.averaged.update_parameters(self.model)
            if progress.step == config.steps:
                self.model.load_state_dict(self.averaged.module.state_dict())
        progress.target_tokens += n_tokens
        progress.loss_sum += float(loss)
        progress.loss_tokens += n_tokens
        if progress.skipped >= PATIENCE_WITH_INFINITY:
            raise UserError(
                f"the gradient was not finite in {progress.skipped} steps in a row, up to step {progress.step} (loss "
                f"{float(loss) / n_tokens:.4g} a token): lower --training.rate-factor, lengthen --training.warmup-steps"
                + (", or try --precision bf16 or fp32" if self.scaler.is_enabled() else "")
            )

    def _loss(self, batch: Batch) -> Tensor:
        """The batch's summed loss; a model that cannot be compiled runs as it is."""
        try:
            return cast(Tensor, self.loss(batch.source, batch.decoder_input, batch.expected))
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            if self.loss is self.eager_loss:
                raise
            print(f"not compiled, so slower: {str(error).strip().splitlines()[0][:200]}", file=sys.stderr)
            self.loss = self.eager_loss
            return self._loss(batch)

    def _gradients_shared(self, last: bool) -> Any:
        """Processes exchange their gradients once a step, after the last batch."""
        return nullcontext() if last or self.processes.count == 1 else self.loss.no_sync()  # type: ignore[operator]

    def validate(self) -> dict[str, float]:
        """What is written down of this moment. All processes must call it."""
        progress = self.progress
        (loss_sum,) = self.processes.sum([progress.loss_sum])
        metrics = {
            "step": progress.step,
            "minutes": round(progress.seconds / 60, 3),
            "target_tokens": progress.target_tokens,
            "train_loss": loss_sum / max(1, progress.loss_tokens),
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            **validate(self.translator, self.data, self.config),
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
        """Leave a checkpoint to go on from, and forget those that are too old."""
        self.progress.epoch, self.progress.epoch_step = self.batches.epoch, self.batches.step
        facts = {"progress": asdict(self.progress), "scaler": self.scaler.state_dict()}
        save_checkpoint(run, step_name(self.progress.step), self.model, facts, self._state())
        names = step_checkpoints(run)
        for name in names[: -self.config.keep]:
            forget(run, name)
        for name in names[-self.config.keep : -2]:
            forget(run, name, "state")

    def restore(self, run: Path, name: str) -> None:
        """Take over a checkpoint: on the CPU, the next steps are exactly as if nothing had happened in between.

        Raises:
            UserError: if it is damaged, or of another model.
        """
        model, described = load_checkpoint(run, name)
        state = read_tensors(run, name, "state")
        try:
            if model.config != self.model.config:
                raise UserError(f"the checkpoint {run / name} is of another model than the settings describe")
            self.model.load_state_dict(model.state_dict())
            adam = self.optimizer.state_dict()
            for key, tensor in state.items():
                part, _, rest = key.partition(".")
                if part == "adam":
                    number, _, what = rest.partition(".")
                    adam["state"].setdefault(int(number), {})[what] = tensor
            self.optimizer.load_state_dict(adam)
            if self.averaged is not None and "averaged.n_averaged" in state:
                averaged = {k.removeprefix("averaged."): t for k, t in state.items() if k.startswith("averaged.")}
                self.averaged.load_state_dict(averaged, strict=False)
            if self.scaler.is_enabled():
                self.scaler.load_state_dict(described["scaler"])
            self.progress = Progress(**described["progress"])
            self.batches = self._batches()
            torch.set_rng_state(state["random.cpu"])
            if self.device.device.type == "cuda":
                torch.cuda.set_rng_state(state["random.cuda"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise UserError(f"the checkpoint {run / name} cannot be gone on from: {error}") from error
        if self.processes.rank:
            torch.manual_seed(self.config.seed + self.processes.rank + self.progress.step)

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


class SmoothedLoss(nn.Module):
    """`loss_of` as a module, for those who wrap modules: several processes, and the compiler."""

    def __init__(self, model: Transformer, smoothing: float) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(self, source: Tensor, decoder_input: Tensor, expected: Tensor) -> Tensor:
        """A batch's summed loss, ()."""
        return loss_of(self.model, Batch(source, decoder_input, expected), self.smoothing)


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
) -> Translator:
    """Train a model in a run folder, or go on where a training in it was broken off.

    The folder gets ``recipe.json``, ``tokenizer.model``, ``metrics.jsonl`` (a line a validation), the best checkpoint,
    and the last ones. Started by ``torchrun``, several processes train one model. Ctrl-C and SIGTERM save and leave.

    Args:
        run: the run folder.
        recipe: the settings to write down beside the model, and to hold against those written down.
        report: is given each validation's metrics, and replaces the progress bar.
        compiled: compile the model: a minute or two at first, then quicker steps.
        force: go on even if the settings were others.

    Raises:
        UserError: if the folder is in use or holds something else, a gradient is never finite, or memory runs out.
        KeyboardInterrupt: after Ctrl-C or SIGTERM, when all is saved.
    """
    recipe = recipe or {"model": asdict(model_config), "training": asdict(config)}
    with joined(device) as processes:
        folder = opened(run, recipe, force) if processes.is_first else nullcontext()
        with folder, stopping() as stop:
            trainer = _begun(run, lambda: Trainer(model_config, config, data, device, processes, compiled))
            if processes.is_first:
                keep_metrics(run, trainer.progress.step)
                write_atomically(run / "tokenizer.model", data.tokenizer.model)
            with tqdm(
                initial=trainer.progress.step,
                total=config.steps,
                desc=f"training {run.name}",
                unit="step",
                dynamic_ncols=True,
                disable=report is not None or not processes.is_first,
            ) as bar:
                _loop(trainer, run, bar, report, stop)
    return Translator.load(run, device)[0]


def _loop(
    trainer: Trainer,
    run: Path,
    bar: "tqdm[Any]",
    report: Callable[[dict[str, float]], None] | None,
    stop: Callable[[], bool],
) -> None:
    config, progress, processes = trainer.config, trainer.progress, trainer.processes
    before, started = progress.seconds, time.monotonic()
    while not trainer.is_done:
        try:
            trainer.step()
        except torch.OutOfMemoryError as error:
            raise UserError(
                f"the device's memory is full: try --training.accumulate {2 * config.accumulate}, which halves the "
                f"batches and changes nothing else. {str(error).splitlines()[0][:100]}"
            ) from error
        bar.update()
        progress.seconds = before + time.monotonic() - started
        last = progress.step == config.steps
        (stopped,) = processes.sum([stop()])
        if last or progress.step % config.validate_every == 0:
            metrics = trainer.validate()
            last = trainer.is_done
            if processes.is_first:
                add_metrics(run, metrics)
                if progress.without_gain == 0:
                    save_checkpoint(run, BEST, trainer.model, {"metrics": metrics, "training": asdict(config)})
            if report is not None and processes.is_first:
                report(metrics)
            bar.set_postfix_str(f"valid loss {metrics['valid_loss']:.3f}, BLEU {metrics['valid_bleu']:.1f}")
        if processes.is_first and (last or stopped or progress.step % config.checkpoint_every == 0):
            trainer.save(run)
        if stopped and not last:
            raise KeyboardInterrupt
    processes.sum([])  # nobody leaves before the first has written all


def _begun(run: Path, new: Callable[[], Trainer]) -> Trainer:
    """A trainer that goes on from the last checkpoint; one that is damaged is named, and forgotten."""
    for name in reversed(step_checkpoints(run)):
        trainer = new()
        try:
            trainer.restore(run, name)
        except UserError as error:
            print(f"{error}; trying the one before", file=sys.stderr)
            if trainer.processes.is_first:
                forget(run, name)
        else:
            return trainer
    return new()


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


def loss_of(model: Transformer, batch: Batch, smoothing: float) -> torch.Tensor:
    """The smoothed loss summed over a batch's real target tokens; padding counts for nothing."""
    memory, memory_mask = model.encode(batch.source)
    states = model.decode(batch.decoder_input, memory, memory_mask).flatten(0, 1)
    return linear_label_smoothed_cross_entropy(
        states, model.unembedding.weight, batch.expected.flatten(), smoothing, pad_id=PAD
    )


@torch.no_grad()
def validate(translator: Translator, data: PreparedData, config: TrainingConfig) -> dict[str, float]:
    """Loss (nats a token, unsmoothed) over the validation set, and BLEU of greedy translations of its beginning."""
    model, device = translator.model, translator.device
    sources, targets = data.tokens("valid")
    was_training = model.training
    model.eval()
    loss, n_tokens = 0.0, 0
    for indices in token_batches(sources, targets, config.batch_tokens):
        batch = collate(sources, targets, indices).to(device.device)
        with device.autocast():
            loss += float(loss_of(model, batch, smoothing=0.0))
        n_tokens += batch.n_tokens
    model.train(was_training)
    texts = data.valid[: config.validate_sentences]
    hypotheses = translator.greedy([source for source, _ in texts])
    return {"valid_loss": loss / n_tokens, "valid_bleu": bleu(hypotheses, [target for _, target in texts]).bleu}
