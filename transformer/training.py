"""The training loop (§5)."""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
from tqdm import tqdm

from transformer.batching import Batch, Batches, Sequences, collate, token_batches
from transformer.checkpoint import save_checkpoint, write_atomically
from transformer.device import Device
from transformer.errors import UserError
from transformer.evaluation import bleu
from transformer.loss import linear_label_smoothed_cross_entropy
from transformer.model import ModelConfig, Transformer
from transformer.preparation import PreparedData
from transformer.schedule import learning_rate
from transformer.tokenizer import PAD
from transformer.translation import BEST, Translator


@dataclass(frozen=True)
class TrainingConfig:
    """How a model learns. The defaults are the paper's (§5)."""

    steps: int = 100_000
    """Optimiser steps."""
    batch_tokens: int = 25_000
    """At most this many target tokens in a batch, padding not counted."""
    accumulate: int = 1
    """Batches whose gradients are added up for one step."""
    warmup_steps: int = 4000
    """Steps until the learning rate is highest."""
    rate_factor: float = 1.0
    """Multiplies the paper's learning rate."""
    smoothing: float = 0.1
    """Label smoothing."""
    clip: float = 1.0
    """Largest norm of the gradient; 0 leaves it alone."""
    average_steps: int = 0
    """The final weights are the mean over so many last steps, much as §6.1 averages checkpoints; 0: the last ones."""
    validate_every: int = 1000
    """Steps between validations, each with a checkpoint if it is the best so far."""
    validate_sentences: int = 200
    """Validation sentences that are translated for BLEU, greedily; the loss is taken on all."""
    seed: int = 1
    """Seeds the weights, the dropout and the order of batches."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch_tokens", "accumulate", "warmup_steps", "validate_every", "validate_sentences"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1; got {getattr(self, name)}")
        if not 0 <= self.average_steps <= self.steps:
            raise UserError(f"average_steps must be from 0 to steps; got {self.average_steps}, steps={self.steps}")
        if not 0 <= self.smoothing < 1:
            raise UserError(f"smoothing must be at least 0 and less than 1; got {self.smoothing}")


def train(
    run: Path,
    data: PreparedData,
    model_config: ModelConfig,
    config: TrainingConfig,
    device: Device,
    recipe: dict[str, Any] | None = None,
    report: Callable[[dict[str, float]], None] | None = None,
) -> Translator:
    """Train a model and leave it in a new run folder.

    The folder gets ``recipe.json``, ``tokenizer.model``, ``metrics.jsonl`` (a line a validation), the best checkpoint.

    Args:
        run: the run folder; it must not exist, or be empty.
        recipe: the settings to write down beside the model.
        report: is given each validation's metrics, and replaces the progress bar.

    Raises:
        UserError: if the folder is in use, or the loss is no longer finite.
    """
    if run.exists() and (not run.is_dir() or any(run.iterdir())):
        raise UserError(f"{run} exists already: choose another folder with --run, or delete it")
    run.mkdir(parents=True, exist_ok=True)
    tokenizer = data.tokenizer
    write_atomically(run / "recipe.json", json.dumps(recipe or {}, indent=2).encode())
    write_atomically(run / "tokenizer.model", tokenizer.model)

    torch.manual_seed(config.seed)
    model = Transformer(model_config).to(device.device)
    translator = Translator(model, tokenizer, device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
    scaler = device.scaler()
    averaged = AveragedModel(model)
    batches = endless_batches(*data.tokens("train"), config)
    best_loss, started, tokens_seen = float("inf"), time.monotonic(), 0
    model.train()

    with tqdm(
        total=config.steps, desc=f"training {run.name}", unit="step", dynamic_ncols=True, disable=report is not None
    ) as bar:
        for step in range(1, config.steps + 1):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, model_config.d_model, config.warmup_steps, config.rate_factor)
            group_of_batches = list(itertools.islice(batches, config.accumulate))
            n_tokens = sum(batch.n_tokens for batch in group_of_batches)
            loss = 0.0
            for batch in group_of_batches:
                with device.autocast():
                    batch_loss = loss_of(model, batch.to(device.device), config.smoothing) / n_tokens
                scaler.scale(batch_loss).backward()
                loss += float(batch_loss.detach())
            if not loss < float("inf"):
                raise UserError(
                    f"the loss is {loss} at step {step}: lower --training.rate-factor or lengthen the warm-up"
                )
            if config.clip:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), config.clip)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            tokens_seen += n_tokens
            bar.update()

            if step > config.steps - config.average_steps:
                averaged.update_parameters(model)
                if step == config.steps:
                    model.load_state_dict(averaged.module.state_dict())
            if step % config.validate_every == 0 or step == config.steps:
                metrics: dict[str, float] = {
                    "step": step,
                    "minutes": round((time.monotonic() - started) / 60, 3),
                    "target_tokens": tokens_seen,
                    "train_loss": loss,
                    **validate(translator, data, config),
                }
                with (run / "metrics.jsonl").open("a", encoding="utf-8") as file:
                    file.write(json.dumps(metrics) + "\n")
                if report is not None:
                    report(metrics)
                bar.set_postfix_str(f"valid loss {metrics['valid_loss']:.3f}, BLEU {metrics['valid_bleu']:.1f}")
                if metrics["valid_loss"] <= best_loss:
                    best_loss = metrics["valid_loss"]
                    save_checkpoint(run, BEST, model, {"metrics": metrics, "training": asdict(config)})
    return Translator.load(run, device)[0]


def endless_batches(sources: Sequences, targets: Sequences, config: TrainingConfig) -> Iterator[Batch]:
    """All pairs once an epoch, reshuffled each time, for ever."""
    return Batches(sources, targets, config.batch_tokens, config.seed)


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
    return {"valid_loss": loss / n_tokens, "valid_bleu": bleu(hypotheses, [target for _, target in texts]).value}
