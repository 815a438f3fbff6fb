"""Files from earlier versions, in which some settings have other names, are still understood."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from transformer.checkpoint import InvalidFileError, load_checkpoint, read_settings, save_checkpoint
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.cleaning import CleaningConfig
from transformer.data.prepare import DataConfig
from transformer.data.tokenizer import Tokenizer
from transformer.model import Transformer
from transformer.training.run_folder import differences, open_run_folder
from transformer.translator import Translator

MODEL = {
    "vocab_size": 12, "d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 1, "dropout": 0.1, "attention_dropout": 0.0,
    "inner_dropout": 0.2, "norm": "pre", "positions": "learned", "tie": "two", "initialisation": "normal",
    "attention": "readable", "max_length": 64, "pad_id": 0,
}  # fmt: skip
TRAINING = {
    "steps": 20, "batch_tokens": 300, "accumulate": 2, "warmup_steps": 5, "rate_factor": 0.5, "smoothing": 0.2,
    "clip": 0.3, "average_steps": 4, "validate_every": 10, "validate_sentences": 7, "patience": 1,
    "checkpoint_every": 6, "keep": 3, "seed": 9,
}  # fmt: skip
"""The ``model`` and ``training`` sections under old names."""

NEW_MODEL = ModelConfig(
    12, 32, 4, 64, 1, activation_dropout=0.2, norm="pre", positions="learned", tie_embeddings="decoder",
    initialization="normal", attention="explicit", max_length=64,
)  # fmt: skip
NEW_TRAINING = TrainingConfig(
    steps=20, batch_tokens=300, gradient_accumulation_steps=2, warmup_steps=5, learning_rate_factor=0.5,
    label_smoothing=0.2, max_grad_norm=0.3, average_steps=4, validate_every=10, validation_sentences=7, patience=1,
    checkpoint_every=6, keep_checkpoints=3, seed=9,
)  # fmt: skip
"""The same settings under their present names."""


def test_the_recipe_of_an_old_run_equals_the_same_settings_under_new_names(tmp_path: Path) -> None:
    data = {"corpus": "copy", "max_train_pairs": 7, "augmentation": 0.0}
    cleaning = asdict(CleaningConfig(min_words=2, max_words=50))
    recipe = {"description": "an old run", "data": {**data, "cleaning": cleaning}}
    old_cleaning = {**asdict(CleaningConfig()), "min_tokens": 2, "max_tokens": 50}
    del old_cleaning["min_words"], old_cleaning["max_words"], old_cleaning["min_language_probability"]
    old_data = {"corpus": "copy", "train_pairs": 7, "cleaning": old_cleaning}
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps({**recipe, "data": old_data, "model": MODEL, "training": TRAINING}))
    now = json.loads(json.dumps({**recipe, "model": asdict(NEW_MODEL), "training": asdict(NEW_TRAINING)}))
    assert list(differences(read_settings(path), now)) == []
    assert DataConfig.from_dict(read_settings(path)["data"]).cleaning.max_words == 50
    with open_run_folder(tmp_path, now):
        pass  # it may be resumed


def test_a_setting_that_is_newer_than_the_file_has_its_default(tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps({"training": {"steps": 20, "keep": 3}}))
    assert read_settings(path) == {"training": asdict(TrainingConfig(steps=20, keep_checkpoints=3))}


def test_settings_under_new_names_stay_as_they_are(tmp_path: Path) -> None:
    written = {"model": asdict(NEW_MODEL), "training": asdict(NEW_TRAINING), "step": 3}
    path = tmp_path / "best.json"
    path.write_text(json.dumps(written))
    assert read_settings(path) == written


def put_old_settings(folder: Path, **changes: object) -> None:
    """Put the old sections into the JSON file of the checkpoint ``best``."""
    path = folder / "best.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model": {**MODEL, **changes}, "training": TRAINING}))


def test_an_old_checkpoint_loads_and_translates_the_same(tmp_path: Path) -> None:
    sentences = ["a b c", "d e f g"]
    tokenizer = Tokenizer.train(["a b c d e f g"] * 9, 12)
    (tmp_path / "tokenizer.model").write_bytes(tokenizer.model)
    save_checkpoint(tmp_path, "best", Transformer(NEW_MODEL), {"training": asdict(NEW_TRAINING)})
    before = Translator.load(tmp_path)
    assert before.metadata["training"] == asdict(NEW_TRAINING)

    put_old_settings(tmp_path)
    after = Translator.load(tmp_path)
    assert after.model.config == NEW_MODEL and after.metadata["training"] == asdict(NEW_TRAINING)
    assert after.beam_search(sentences, n_best=2) == before.beam_search(sentences, n_best=2)
    ids = torch.tensor([[4, 5, 2]])
    assert torch.equal(after.model(ids, ids), before.model(ids, ids))


def test_an_old_model_with_another_padding_id_is_refused(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, "best", Transformer(NEW_MODEL), {})
    put_old_settings(tmp_path, pad_id=5)
    with pytest.raises(InvalidFileError, match="pad_id"):
        load_checkpoint(tmp_path, "best")
