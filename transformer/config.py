"""A model's shape and how it learns: every choice in one place, and the paper's own (§5, §6.2)."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from transformer.attention import AttentionForm
from transformer.errors import UserError

Norm = Literal["post", "pre"]
Positions = Literal["sinusoidal", "learned", "rotary"]
Tying = Literal["none", "two", "three"]
Initialisation = Literal["xavier", "normal"]


@dataclass(frozen=True)
class ModelConfig:
    """The model's shape. The defaults are the paper's base model (§6.2, Table 3).

    Raises:
        UserError: if a value is out of its range.
    """

    vocab_size: int = 37_000
    """Number of token ids, shared by source and target."""
    d_model: int = 512
    """Width of every position's vector."""
    n_heads: int = 8
    """Attention heads; each is d_model / n_heads wide."""
    d_ff: int = 2048
    """Width of the feed-forward's inner layer."""
    n_layers: int = 6
    """Encoder layers, and as many decoder layers."""
    dropout: float = 0.1
    """Share of values dropped from each sublayer's output and from the embeddings, in training (§5.4)."""
    attention_dropout: float = 0.0
    """Share of attention weights dropped; the paper has none, its code 0.1."""
    inner_dropout: float = 0.0
    """Share of the feed-forward's inner values dropped; the paper has none, its code 0.1."""
    norm: Norm = "post"
    """Layer norm after the residual addition (the paper) or before the sublayer (its code)."""
    positions: Positions = "sinusoidal"
    """How order is told: the paper's sinusoids, a learned table in their place, or rotated queries and keys."""
    tie: Tying = "three"
    """Matrices that are one: source, target and output vocabulary (§3.4), target and output only, or none."""
    initialisation: Initialisation = "xavier"
    """Of the linear layers: Xavier's uniform, or a normal of deviation 0.02."""
    attention: AttentionForm = "fused"
    """The form of attention that runs; both give the same numbers."""
    max_length: int = 512
    """Longest sentence in tokens, on either side."""
    pad_id: int = 0
    """The id that fills up short sentences."""

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "n_heads", "d_ff", "n_layers", "max_length"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1; got {getattr(self, name)}")
        if self.d_model % self.n_heads:
            raise UserError(
                f"d_model must be a multiple of n_heads; got d_model={self.d_model}, n_heads={self.n_heads}"
            )
        if self.positions == "rotary" and self.d_model // self.n_heads % 2:
            raise UserError(
                f"rotary positions turn pairs: d_model / n_heads must be even; got {self.d_model // self.n_heads}"
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise UserError(
                f"sinusoidal positions are pairs of sine and cosine: d_model must be even; got {self.d_model}"
            )
        for name in ("dropout", "attention_dropout", "inner_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 0 and less than 1; got {getattr(self, name)}")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise UserError(f"{name} must be one of {', '.join(choices)}; got {getattr(self, name)!r}")


CHOICES: dict[str, tuple[str, ...]] = {
    "norm": get_args(Norm),
    "positions": get_args(Positions),
    "tie": get_args(Tying),
    "initialisation": get_args(Initialisation),
    "attention": get_args(AttentionForm),
}

PRESETS: dict[str, ModelConfig] = {
    "small": ModelConfig(vocab_size=10_000, d_model=256, n_heads=4, d_ff=1024, n_layers=3),
    "base": ModelConfig(),
    "big": ModelConfig(d_model=1024, n_heads=16, d_ff=4096, dropout=0.3),
}
"""``base`` and ``big`` are Table 3's models for English-German; ``small`` is for a laptop."""


@dataclass(frozen=True)
class TrainingConfig:
    """How a model learns. The defaults are the paper's (§5), but for ``clip``, of which it says nothing."""

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
    """The final weights are the mean over so many last steps, unless patience ends the run before; 0: the last ones."""
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
        if not 0 < self.rate_factor < math.inf:
            raise UserError(f"rate_factor must be greater than 0, and finite; got {self.rate_factor}")
        for name in ("clip", "patience", "seed"):
            if not getattr(self, name) >= 0:
                raise UserError(f"{name} must not be negative; got {getattr(self, name)}")
