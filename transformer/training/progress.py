"""How far a training run has come."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from transformer.config import TrainingConfig


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
