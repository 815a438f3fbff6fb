"""A model that is too large for the available memory is refused before anything is built."""

import itertools

import psutil
import pytest
import torch

from transformer.config import PRESETS, ModelConfig, TrainingConfig
from transformer.device import Device, choose_device
from transformer.errors import UserError
from transformer.model import Transformer
from transformer.training.distributed import DistributedContext
from transformer.training.memory import check_memory, peak_memory, training_bytes
from transformer.training.trainer import Trainer

CHOICES = itertools.product(["post", "pre"], ["sinusoidal", "learned", "rotary"], ["none", "decoder", "all"])
CONFIGS = [
    *PRESETS.values(),
    *(
        ModelConfig(101, 24, 3, 50, 2, norm=norm, positions=positions, tie_embeddings=tie, max_length=33)
        for norm, positions, tie in CHOICES
    ),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_parameters_are_counted_without_building_the_model(config: ModelConfig) -> None:
    with torch.device("meta"):
        model = Transformer(config)
    assert config.n_parameters == sum(parameter.numel() for parameter in model.parameters())


def test_training_needs_16_bytes_per_parameter_and_4_more_to_average() -> None:
    config = ModelConfig(positions="learned")
    assert training_bytes(config, TrainingConfig()) == 16 * config.n_parameters
    assert training_bytes(config, TrainingConfig(average_steps=1)) == 20 * config.n_parameters
    table = 4 * 512 * 512
    assert training_bytes(ModelConfig(), TrainingConfig()) == 16 * ModelConfig().n_parameters + table


@pytest.mark.parametrize(
    "settings", [{"n_layers": 10_000_000}, {"d_ff": 99_999_999_999}, {"max_length": 99_999_999_999}]
)
def test_a_model_that_is_too_large_is_refused_before_it_is_built(
    settings: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(_: ModelConfig) -> None:
        raise AssertionError("it was built")

    monkeypatch.setattr("transformer.training.trainer.Transformer", build)
    config, device = ModelConfig(**settings), choose_device("cpu")
    with pytest.raises(UserError, match=r"needs about [\d,.]+ GB to train; this machine has [\d,.]+ GB free"):
        Trainer(config, TrainingConfig(), None, device, DistributedContext())  # type: ignore[arg-type]


def test_the_free_memory_is_that_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    base, gpu = ModelConfig(), Device(torch.device("cuda"))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("memory", (), {"available": 10**9}))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (10**10, 10**11))
    check_memory(base, TrainingConfig(), gpu)
    with pytest.raises(UserError, match=r"63,082,496 parameters and needs about 1\.0 GB to train; .* has 1\.0 GB free"):
        check_memory(base, TrainingConfig(), choose_device("cpu"))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (10**8, 10**11))
    with pytest.raises(UserError, match=r"this GPU has 0\.1 GB free"):
        check_memory(base, TrainingConfig(), gpu)


def test_peak_memory_is_that_of_the_tensors_that_exist_at_once() -> None:
    """One of 4,000 bytes that is freed, then two of 6,000 and 1,000; one from before is freed, which doesn't count."""
    before = [torch.zeros(10**6)]

    def work() -> None:
        torch.zeros(1000)
        before.clear()
        first = torch.zeros(1500)
        first[:250].clone()

    assert peak_memory(work, choose_device("cpu")) == 7000
    assert peak_memory(work, choose_device("cpu")) == 7000
