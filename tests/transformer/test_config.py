"""Settings that were added after a file had been written get their defaults."""

import json
from dataclasses import asdict
from pathlib import Path

from transformer.checkpoint import read_settings
from transformer.config import ModelConfig, TrainingConfig


def test_a_setting_that_is_newer_than_the_file_has_its_default(tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps({"training": {"steps": 20, "keep_checkpoints": 3}, "model": {"norm": "pre"}}))
    assert read_settings(path) == {
        "training": asdict(TrainingConfig(steps=20, keep_checkpoints=3)),
        "model": asdict(ModelConfig(norm="pre")),
    }


def test_a_file_with_all_settings_stays_as_it_is(tmp_path: Path) -> None:
    written = {"model": asdict(ModelConfig()), "training": asdict(TrainingConfig()), "step": 3}
    path = tmp_path / "best.json"
    path.write_text(json.dumps(written))
    assert read_settings(path) == written
