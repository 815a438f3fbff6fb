"""The settings of the paper: Table 3, §5.1, §5.3 and §5.4."""

import pytest

from transformer.config import PRESETS, TrainingConfig
from transformer.recipes import RECIPES


@pytest.mark.parametrize(
    ("preset", "shape", "dropout"), [("base", (512, 8, 2048, 6), 0.1), ("big", (1024, 16, 4096, 6), 0.3)]
)
def test_the_models_are_the_papers(preset: str, shape: tuple[int, ...], dropout: float) -> None:
    config = PRESETS[preset]
    assert (config.d_model, config.n_heads, config.d_ff, config.n_layers) == shape
    assert (config.dropout, config.attention_dropout, config.activation_dropout) == (dropout, 0, 0)
    assert (config.norm, config.positions, config.tie_embeddings) == ("post", "sinusoidal", "all")


@pytest.mark.parametrize(
    ("training", "steps"),
    [
        (TrainingConfig(), 100_000),
        (RECIPES["wmt14-base"].training, 100_000),
        (RECIPES["wmt14-big"].training, 300_000),
    ],
    ids=["default", "base", "big"],
)
def test_the_training_is_the_papers(training: TrainingConfig, steps: int) -> None:
    """The paper doesn't clip gradients, and we do; its Adam is tested in training/test_loop.py."""
    assert (training.steps, training.warmup_steps, training.batch_tokens) == (steps, 4000, 25_000)
    assert (training.optimizer, training.learning_rate_factor, training.label_smoothing) == ("adam", 1.0, 0.1)
    assert training.max_grad_norm == 1.0


def test_the_recipes_of_wmt14_train_the_papers_models() -> None:
    for preset in ("base", "big"):
        assert RECIPES[f"wmt14-{preset}"].model == PRESETS[preset]
