"""Named settings: a corpus, a model and a way to train it, known to work together."""

from dataclasses import dataclass

from tyro.conf import Suppress

from transformer.model import ModelConfig
from transformer.preparation import DataConfig
from transformer.training import TrainingConfig


@dataclass(frozen=True)
class Recipe:
    """Everything that shapes a run."""

    description: Suppress[str]
    """What to expect of it."""
    data: DataConfig
    """What it learns from."""
    model: ModelConfig
    """What it is."""
    training: TrainingConfig
    """How it learns."""


RECIPES: dict[str, Recipe] = {
    "copy": Recipe(
        "The translation is the source itself: the smallest proof that all is wired up.",
        DataConfig("copy"),
        ModelConfig(vocab_size=57, d_model=64, n_heads=4, d_ff=256, n_layers=2, max_length=128),
        TrainingConfig(steps=600, batch_tokens=2000, warmup_steps=200, validate_every=100),
    ),
    "pocket": Recipe(
        "The embedded English-German corpus, in three minutes on two cores.",
        DataConfig("pocket"),
        ModelConfig(
            vocab_size=4000, d_model=128, n_heads=4, d_ff=256, n_layers=2, dropout=0.0, norm="pre", max_length=128
        ),
        TrainingConfig(
            steps=6000,
            batch_tokens=250,
            warmup_steps=400,
            rate_factor=0.6,
            smoothing=0.05,
            average_steps=1000,
            validate_every=1000,
        ),
    ),
    "multi30k": Recipe(
        "29,000 captions of photographs, English and German, in a quarter of an hour on two cores.",
        DataConfig("multi30k"),
        ModelConfig(vocab_size=4000, d_model=128, n_heads=4, d_ff=512, n_layers=3, max_length=256),
        TrainingConfig(
            steps=4000, batch_tokens=1500, warmup_steps=600, rate_factor=1.5, average_steps=400, validate_every=500
        ),
    ),
}
