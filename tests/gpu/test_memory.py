"""The memory of a training step is the predicted one."""

from pathlib import Path
from typing import Any

import pytest

from tests.transformer.training.test_memory import BASE, SMALL, measured_memory
from transformer.config import TrainingConfig
from transformer.device import DeviceName, Precision, choose_device
from transformer.training.memory import BatchShape, estimate_memory


@pytest.mark.parametrize(
    ("precision", "settings"),
    [
        ("fp32", {}),
        ("bf16", {}),
        ("bf16", {"activation_checkpointing": True}),
        ("bf16", {"gradient_accumulation_steps": 2, "optimizer": "muon", "average_steps": 2}),
    ],
)
def test_the_budget_is_within_10_percent_of_the_measured_memory(
    name: DeviceName, precision: Precision, settings: dict[str, Any], tmp_path: Path
) -> None:
    model, pairs = (BASE, 200) if name == "cuda" else (SMALL, 50)
    training, device, batch = (
        TrainingConfig(steps=2, **settings),
        choose_device(name, precision),
        BatchShape(pairs, 32, 32),
    )
    measured = measured_memory(tmp_path, model, training, batch, device)
    assert estimate_memory(model, training, device, batch).total == pytest.approx(measured, rel=0.1)
