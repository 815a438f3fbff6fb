"""Recipes: named combinations of a corpus, a model and training hyperparameters that work well together."""

from dataclasses import dataclass, replace

from transformer.config import PRESETS, ModelConfig, TrainingConfig
from transformer.data.cleaning import CleaningConfig
from transformer.data.prepare import DataConfig


@dataclass(frozen=True)
class Recipe:
    """A corpus, a model and the hyperparameters of its training."""

    description: str
    """What to expect from it, for ``--help``."""
    data: DataConfig
    """The corpus and how it is prepared."""
    model: ModelConfig
    """The architecture."""
    training: TrainingConfig
    """The hyperparameters."""


WMT14_CLEANING = CleaningConfig(min_words=3, max_words=150, max_ratio=2.0, min_language_probability=0.01)

RECIPES: dict[str, Recipe] = {
    "copy": Recipe(
        "The target equals the source: the quickest check that everything works.",
        DataConfig("copy"),
        ModelConfig(vocab_size=57, d_model=64, n_heads=4, d_ff=256, n_layers=2, max_length=128),
        TrainingConfig(steps=600, batch_tokens=2000, warmup_steps=200, validate_every=100),
    ),
    "reverse": Recipe(
        "The target is the source in reverse order, so every position has to attend to a different one.",
        DataConfig("reverse"),
        ModelConfig(vocab_size=57, d_model=64, n_heads=4, d_ff=256, n_layers=2, max_length=128),
        TrainingConfig(steps=1500, batch_tokens=2000, warmup_steps=200, validate_every=250),
    ),
    "pocket": Recipe(
        "Synthetic English-German sentences, generated from a small grammar; three minutes on two cores.",
        DataConfig("pocket"),
        ModelConfig(
            vocab_size=4000, d_model=128, n_heads=4, d_ff=256, n_layers=2, dropout=0.0, norm="pre", max_length=128
        ),
        TrainingConfig(
            steps=6000,
            batch_tokens=250,
            warmup_steps=400,
            learning_rate_factor=0.6,
            label_smoothing=0.05,
            average_steps=1000,
            validate_every=1000,
        ),
    ),
    "multi30k": Recipe(
        "29,000 image captions, English to German; the book's chapters use this model.",
        DataConfig("multi30k"),
        ModelConfig(
            vocab_size=8000, d_model=128, n_heads=4, d_ff=512, n_layers=4, dropout=0.3, norm="pre", max_length=256
        ),
        TrainingConfig(
            steps=12_000,
            batch_tokens=1500,
            warmup_steps=1000,
            learning_rate_factor=1.5,
            average_steps=1000,
            validate_every=500,
        ),
    ),
    "everyday": Recipe(
        "165,000 everyday sentences, 29,000 captions and a phrase book, English to German; the book's live translator.",
        DataConfig("everyday", byte_fallback=True, augmentation=0.5),
        ModelConfig(vocab_size=8000, d_model=192, n_heads=6, d_ff=768, n_layers=3, norm="pre", max_length=256),
        TrainingConfig(
            steps=11_000,
            batch_tokens=2000,
            optimizer="muon",
            warmup_steps=1000,
            average_steps=2000,
            validate_every=500,
        ),
    ),
    "iwslt17": Recipe(
        "206,000 sentences from TED talks, English to German, for one GPU.",
        DataConfig("iwslt17", cleaning=CleaningConfig()),
        ModelConfig(vocab_size=10_000, d_model=512, n_heads=4, d_ff=1024, n_layers=6, dropout=0.3, norm="pre"),
        TrainingConfig(steps=40_000, batch_tokens=4096, warmup_steps=4000, validate_every=2000),
    ),
    "wmt14-mini": Recipe(
        "A small model on a small part of WMT14: the whole workflow of wmt14-base in minutes, but not its quality.",
        DataConfig("wmt14-mini", cleaning=WMT14_CLEANING),
        ModelConfig(vocab_size=8000, d_model=128, n_heads=4, d_ff=512, n_layers=3, norm="pre"),
        TrainingConfig(
            steps=1000,
            batch_tokens=1500,
            warmup_steps=300,
            validate_every=250,
            checkpoint_every=100,
        ),
    ),
    "wmt14-base": Recipe(
        "The paper's base model on the paper's corpus: 4.5 million sentence pairs, 100,000 steps (§5).",
        DataConfig("wmt14", cleaning=WMT14_CLEANING),
        PRESETS["base"],
        TrainingConfig(steps=100_000, batch_tokens=25_000, warmup_steps=4000, validate_every=2000),
    ),
    "wmt14-big": Recipe(
        "The paper's big model on the corpus of wmt14-base: 300,000 steps (§5).",
        DataConfig("wmt14", cleaning=WMT14_CLEANING),
        PRESETS["big"],
        TrainingConfig(steps=300_000, batch_tokens=25_000, warmup_steps=4000, validate_every=2000, keep_checkpoints=20),
    ),
}

_captions, _everyday, _pocket = RECIPES["multi30k"], RECIPES["everyday"], RECIPES["pocket"]
RECIPES |= {
    "multi30k-de-en": replace(
        _captions,
        description="29,000 image captions, German to English.",
        data=replace(_captions.data, direction="de-en"),
    ),
    "multi30k-speedrun": replace(
        _captions,
        description="The captions of multi30k for a quick result: a smaller model, Muon, seven minutes on two cores.",
        model=replace(_captions.model, vocab_size=4000, n_layers=3, dropout=0.0),
        training=replace(
            _captions.training,
            steps=1200,
            optimizer="muon",
            warmup_steps=150,
            learning_rate_factor=1.0,
            average_steps=400,
            validate_every=400,
        ),
    ),
    "everyday-de-en": replace(
        _everyday,
        description="Like everyday, but German to English, in 5,000 steps.",
        data=replace(_everyday.data, direction="de-en"),
        training=replace(_everyday.training, steps=5000, average_steps=1000),
    ),
    "pocket-small": replace(
        _pocket,
        description="The same model as in pocket, trained on five times the text for 48,000 steps: almost no mistakes.",
        data=DataConfig("pocket-200k"),
        training=replace(_pocket.training, steps=48_000, average_steps=8000),
    ),
    "pocket-large": replace(
        _pocket,
        description="Like pocket-small, with more layers and heads to inspect; 30,000 steps.",
        data=DataConfig("pocket-200k"),
        model=replace(_pocket.model, d_model=192, n_heads=6, d_ff=512, n_layers=3),
        training=replace(_pocket.training, steps=30_000, average_steps=5000),
    ),
}
"""Variants of the recipes above."""
