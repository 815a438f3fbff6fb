"""The settings of a model and of its training, with the paper's values as defaults (§5, §6.2)."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from transformer.attention import AttentionImplementation
from transformer.errors import UserError
from transformer.files import check_fields

Norm = Literal["post", "pre"]
Positions = Literal["sinusoidal", "learned", "rotary"]
Tying = Literal["none", "decoder", "all"]
Initialization = Literal["xavier", "normal"]
OptimizerName = Literal["adam", "muon"]

MAX_LENGTH = 100_000
"""The largest ``max_length``: the tables of positions grow with it, and no sentence has that many tokens."""
MAX_SEED = 2**32 - 1
"""The largest random seed; PyTorch and NumPy accept it even after a rank or a step has been added."""


@dataclass(frozen=True)
class ModelConfig:
    """The architecture of a model. The defaults are the paper's base model (§6.2, Table 3).

    Raises:
        UserError: if a value is out of range.
    """

    vocab_size: int = 37_000
    """Number of tokens in the vocabulary, which source and target share."""
    d_model: int = 512
    """Width of the embeddings and of every layer's output."""
    n_heads: int = 8
    """Number of attention heads; each has d_model / n_heads dimensions."""
    d_ff: int = 2048
    """Width of the feed-forward network's hidden layer."""
    n_layers: int = 6
    """Number of encoder layers, and also of decoder layers."""
    dropout: float = 0.1
    """Dropout probability for the embeddings and for the output of each sublayer (§5.4 of the paper)."""
    attention_dropout: float = 0.0
    """Dropout probability for attention weights. Not in the paper; 0.1 in its authors' later code."""
    activation_dropout: float = 0.0
    """Dropout probability after the feed-forward's ReLU. Not in the paper; 0.1 in its authors' later code."""
    norm: Norm = "post"
    """Layer normalisation: post, after the residual addition, as in the paper; or pre, before the sublayer."""
    positions: Positions = "sinusoidal"
    """Positional encoding: the paper's sinusoids, a learned embedding, or rotary (queries and keys are rotated)."""
    tie_embeddings: Tying = "all"
    """Which embedding matrices are shared: all (source, target and output, §3.4), decoder (target, output), or none."""
    initialization: Initialization = "xavier"
    """How linear layers are initialised: Xavier uniform, or normal with standard deviation 0.02."""
    attention: AttentionImplementation = "fused"
    """Implementation of attention: PyTorch's fused kernel, or explicit matrix products, equal up to rounding."""
    max_length: int = 512
    """Maximum number of tokens, including eos, in any sentence that the model reads or writes.
    To drop longer training and validation pairs, use data.max-length, which doesn't count eos."""

    def __post_init__(self) -> None:
        check_fields(self, "model")
        for name in ("vocab_size", "d_model", "n_heads", "d_ff", "n_layers", "max_length"):
            if getattr(self, name) < 1:
                raise UserError(f"model.{name} must be at least 1; got {getattr(self, name)}")
        if self.max_length > MAX_LENGTH:
            raise UserError(f"model.max_length must be at most {MAX_LENGTH:,}; got {self.max_length}")
        if self.d_model % self.n_heads:
            raise UserError(f"model.d_model must be a multiple of model.n_heads; got {self.d_model} and {self.n_heads}")
        d_head = self.d_model // self.n_heads
        if self.positions == "rotary" and d_head % 2:
            raise UserError(f"rotary positions rotate pairs: model.d_model / model.n_heads must be even; got {d_head}")
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise UserError(
                f"sinusoidal positions are pairs of sine and cosine: model.d_model must be even; got {self.d_model}"
            )
        for name in DROPOUTS:
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"model.{name} must be at least 0 and less than 1; got {getattr(self, name)}")

    @property
    def n_parameters(self) -> int:
        """The number of parameters of the model, without building it."""
        d_model, norm = self.d_model, 2 * self.d_model  # a layer norm's weight and bias
        attention = 4 * (d_model + 1) * d_model  # projections of query, key, value and output, each with a bias
        feed_forward = (d_model + 1) * self.d_ff + (self.d_ff + 1) * d_model
        encoder_layer = attention + feed_forward + 2 * norm
        decoder_layer = 2 * attention + feed_forward + 3 * norm
        matrices = {"all": 1, "decoder": 2, "none": 3}[self.tie_embeddings]
        embeddings = matrices * self.vocab_size + (self.max_length if self.positions == "learned" else 0)
        final_norms = 2 * norm if self.norm == "pre" else 0
        return embeddings * d_model + self.n_layers * (encoder_layer + decoder_layer) + final_norms


CHOICES: dict[str, tuple[str, ...]] = {
    "norm": get_args(Norm),
    "positions": get_args(Positions),
    "tie_embeddings": get_args(Tying),
    "initialization": get_args(Initialization),
    "attention": get_args(AttentionImplementation),
}
"""The allowed values of each model setting that is a choice."""

DROPOUTS = ("dropout", "attention_dropout", "activation_dropout")
"""The dropout probabilities among a model's settings."""

PRESETS: dict[str, ModelConfig] = {
    "small": ModelConfig(vocab_size=10_000, d_model=256, n_heads=4, d_ff=1024, n_layers=3),
    "base": ModelConfig(),
    "big": ModelConfig(d_model=1024, n_heads=16, d_ff=4096, dropout=0.3),
}
"""``base`` and ``big`` are Table 3's models for English-German; ``small`` trains on a laptop."""


@dataclass(frozen=True)
class TrainingConfig:
    """The training hyperparameters. The defaults are the paper's (§5), with two exceptions.

    The gradients are clipped, and the last checkpoints aren't averaged; ``transformer average`` does that afterwards.

    Raises:
        UserError: if a value is out of range.
    """

    steps: int = 100_000
    """Number of optimiser steps."""
    batch_tokens: int = 25_000
    """Maximum number of target tokens in the batch of a step, over all devices, not counting padding."""
    gradient_accumulation_steps: int = 1
    """Split each batch into this many micro-batches, to save memory. Unlike in Hugging Face, the batch doesn't grow."""
    activation_checkpointing: bool = False
    """Keep only each layer's input for the backward pass and recompute the rest there: less memory, but slower."""
    optimizer: OptimizerName = "adam"
    """Adam (§5.3 of the paper), or muon (not in the paper): Muon for the layers' weight matrices, Adam for the rest."""
    warmup_steps: int = 4000
    """Steps until the learning rate reaches its peak."""
    learning_rate_factor: float = 1.0
    """Multiplies the paper's learning rate; Tensor2Tensor uses 2, with 8,000 warm-up steps."""
    label_smoothing: float = 0.1
    """Probability mass that is spread over the whole vocabulary (§5.4 of the paper)."""
    max_grad_norm: float = 1.0
    """Clip gradients to this norm; 0 turns clipping off."""
    average_steps: int = 0
    """At the end, average the weights over this many final steps, unless patience ends the run early; 0: don't.
    The paper (§6.1) averages its last checkpoints instead: see transformer average."""
    log_every: int = 50
    """Steps between rows of the training log: loss, learning rate and tokens per second."""
    validate_every: int = 1000
    """Steps between validations; each saves a checkpoint if its loss is the lowest so far."""
    validation_sentences: int = 200
    """Number of validation sentences to translate by greedy search for BLEU; the loss uses the whole set."""
    patience: int = 0
    """Stop after this many validations in a row without a lower loss; 0: never."""
    checkpoint_every: int = 1000
    """Steps between checkpoints, which a run resumes from and which can be averaged."""
    checkpoint_each_epoch: bool = False
    """Also save a checkpoint at the end of each epoch."""
    keep_checkpoints: int = 5
    """How many checkpoints to keep besides the best one; older ones are deleted."""
    seed: int = 1
    """Random seed for the initial weights, the dropout and the order of the batches."""

    def __post_init__(self) -> None:
        check_fields(self, "training")
        for name in (
            "steps",
            "batch_tokens",
            "gradient_accumulation_steps",
            "warmup_steps",
            "log_every",
            "validate_every",
            "validation_sentences",
            "checkpoint_every",
        ):
            if getattr(self, name) < 1:
                raise UserError(f"training.{name} must be at least 1; got {getattr(self, name)}")
        if self.keep_checkpoints < 2:
            raise UserError(
                "training.keep_checkpoints must be at least 2, in case the last one is damaged; "
                f"got {self.keep_checkpoints}"
            )
        if self.average_steps > self.steps:
            raise UserError(
                f"training.average_steps is {self.average_steps}, more than training.steps, which is {self.steps}: "
                "choose at most that many, or 0 to train without averaging"
            )
        if not 0 <= self.label_smoothing < 1:
            raise UserError(f"training.label_smoothing must be at least 0 and less than 1; got {self.label_smoothing}")
        if not 0 < self.learning_rate_factor < math.inf:
            raise UserError(
                f"training.learning_rate_factor must be positive and finite; got {self.learning_rate_factor}"
            )
        for name in ("average_steps", "max_grad_norm", "patience", "seed"):
            if not getattr(self, name) >= 0:
                raise UserError(f"training.{name} must not be negative; got {getattr(self, name)}")
        if self.seed > MAX_SEED:
            raise UserError(f"training.seed must be at most {MAX_SEED:,}; got {self.seed}")


def with_defaults(saved: dict[str, Any]) -> dict[str, Any]:
    """Return settings from a file with the defaults of those that were added later.

    Args:
        saved: the content of a ``recipe.json`` or of a checkpoint's JSON file.

    Returns:
        The same content; its sections ``model`` and ``training``, where it has them, have all settings.
    """
    defaults = {"model": asdict(ModelConfig()), "training": asdict(TrainingConfig())}
    sections = {
        name: settings | saved[name] for name, settings in defaults.items() if isinstance(saved.get(name), dict)
    }
    return saved | sections
