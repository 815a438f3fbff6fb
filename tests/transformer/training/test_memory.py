"""The memory of training is predicted, and what does not fit is refused before anything is built."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from transformer.config import PRESETS, ModelConfig, TrainingConfig
from transformer.data.batching import SequencesWriter
from transformer.data.prepare import PreparedData
from transformer.data.tokenizer import Tokenizer
from transformer.device import Device, Precision, choose_device
from transformer.errors import UserError
from transformer.model import Transformer
from transformer.recipes import RECIPES
from transformer.training.distributed import DistributedContext
from transformer.training.memory import BatchShape, check_memory, estimate_memory, full_batch, peak_memory
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
    config, cpu = ModelConfig(positions="learned"), choose_device("cpu")
    parameters, matrices = config.n_parameters, 6 * (3 * 4 * 512 * 512 + 2 * 2 * 512 * 2048)

    def fixed(model: ModelConfig, **settings: Any) -> int:
        budget = estimate_memory(model, TrainingConfig(**settings), cpu, BatchShape(1, 1, 1))
        return budget.weights + budget.gradients + budget.optimizer + budget.averaging

    assert fixed(config) == 16 * parameters
    assert fixed(config, average_steps=1) == 20 * parameters
    assert fixed(config, optimizer="muon") == 16 * parameters - 4 * matrices
    assert fixed(ModelConfig()) == 16 * ModelConfig().n_parameters + 4 * 512 * 512, "with the table of sinusoids"


SMALL = ModelConfig(vocab_size=4000, d_model=128, n_heads=4, d_ff=512, n_layers=3, max_length=128)
MIDDLE = ModelConfig(vocab_size=8000, d_model=256, n_heads=4, d_ff=1024, n_layers=4, max_length=128)
BASE = ModelConfig(max_length=128)
MANY_PAIRS, LONG_PAIRS, FEW_PAIRS = BatchShape(60, 24, 25), BatchShape(15, 96, 100), BatchShape(2, 24, 25)
SOME_PAIRS = BatchShape(20, 24, 25)  # for bfloat16, which many CPUs emulate


def measured_memory(
    folder: Path, model: ModelConfig, training: TrainingConfig, batch: BatchShape, device: Device
) -> int:
    """Train a new model for two steps, in batches of exactly this size without padding; return the peak in bytes."""
    random = np.random.default_rng(1)
    n_pairs = 2 * batch.pairs * training.gradient_accumulation_steps
    for side, length in (("source", batch.source), ("target", batch.target)):
        with SequencesWriter(folder, f"train.{side}", model.vocab_size) as writer:
            writer.extend(random.integers(4, model.vocab_size, (n_pairs, length - 1)).tolist())
    (folder / "tokenizer.model").write_bytes(Tokenizer.train(["a b"], 7).model)
    tokens = batch.pairs * batch.target * training.gradient_accumulation_steps

    def train() -> None:
        config = replace(training, batch_tokens=tokens)
        trainer = Trainer(model, config, PreparedData(folder), device, DistributedContext())
        assert {len(rows) for rows in trainer.batches.plan} == {batch.pairs}
        trainer.step()
        trainer.step()

    return peak_memory(train, device)


@pytest.mark.parametrize(
    ("model", "settings", "batch", "precision"),
    [
        (SMALL, {}, MANY_PAIRS, "fp32"),
        (SMALL, {}, LONG_PAIRS, "fp32"),
        (SMALL, {}, FEW_PAIRS, "fp32"),
        (replace(SMALL, norm="pre"), {}, MANY_PAIRS, "fp32"),
        (replace(SMALL, dropout=0.0), {}, MANY_PAIRS, "fp32"),
        (replace(SMALL, activation_dropout=0.1), {}, MANY_PAIRS, "fp32"),
        (replace(SMALL, attention_dropout=0.1), {}, MANY_PAIRS, "fp32"),
        (replace(SMALL, attention="explicit"), {}, LONG_PAIRS, "fp32"),
        (replace(SMALL, attention="explicit", attention_dropout=0.1), {}, LONG_PAIRS, "fp32"),
        (replace(SMALL, positions="rotary"), {}, MANY_PAIRS, "fp32"),
        (replace(SMALL, tie_embeddings="none"), {}, MANY_PAIRS, "fp32"),
        (SMALL, {"activation_checkpointing": True}, MANY_PAIRS, "fp32"),
        (SMALL, {"activation_checkpointing": True}, SOME_PAIRS, "bf16"),
        (SMALL, {"gradient_accumulation_steps": 2}, MANY_PAIRS, "fp32"),
        (SMALL, {"average_steps": 2}, MANY_PAIRS, "fp32"),
        (SMALL, {"optimizer": "muon"}, MANY_PAIRS, "fp32"),
        (SMALL, {}, SOME_PAIRS, "bf16"),
        # The larger models differ in nothing but size:
        pytest.param(MIDDLE, {}, MANY_PAIRS, "fp32", marks=pytest.mark.soak),
        pytest.param(BASE, {}, FEW_PAIRS, "fp32", marks=pytest.mark.soak),
        # half a minute to many minutes each on a processor that emulates bfloat16:
        pytest.param(replace(SMALL, attention="explicit"), {}, LONG_PAIRS, "bf16", marks=pytest.mark.soak),
        pytest.param(MIDDLE, {"activation_checkpointing": True}, MANY_PAIRS, "bf16", marks=pytest.mark.soak),
        pytest.param(BASE, {"gradient_accumulation_steps": 2}, MANY_PAIRS, "bf16", marks=pytest.mark.soak),
    ],
)
def test_the_budget_is_within_10_percent_of_the_measured_memory(
    model: ModelConfig, settings: dict[str, Any], batch: BatchShape, precision: Precision, tmp_path: Path
) -> None:
    training, device = TrainingConfig(steps=2, **settings), choose_device("cpu", precision)
    measured = measured_memory(tmp_path, model, training, batch, device)
    assert estimate_memory(model, training, device, batch).total == pytest.approx(measured, rel=0.1)


def test_several_processes_have_the_gradients_from_the_start() -> None:
    """DDP keeps the gradients in buffers, as gradient accumulation does."""
    model, gpu, batch = PRESETS["base"], Device(torch.device("cuda"), torch.bfloat16), BatchShape(400, 30, 30)
    alone, accumulating = TrainingConfig(), TrainingConfig(gradient_accumulation_steps=2)
    two = estimate_memory(model, alone, gpu, batch, world_size=2)
    assert two == estimate_memory(model, accumulating, gpu, batch)
    assert two.total - estimate_memory(model, alone, gpu, batch).total == 4 * model.n_parameters
    assert full_batch(alone, world_size=2) == full_batch(accumulating) == BatchShape(625, 30, 30)


@pytest.mark.parametrize(("recipe", "gigabytes", "steps"), [("wmt14-base", 8, 2), ("wmt14-big", 16, 2)])
def test_the_settings_with_which_the_wmt14_recipes_fit_into_small_gpus(recipe: str, gigabytes: int, steps: int) -> None:
    """With half a gigabyte for the CUDA context, and a twentieth more for fragmentation. Chapter 17 says so."""
    model, training = RECIPES[recipe].model, RECIPES[recipe].training
    for dtype in (torch.bfloat16, torch.float16):
        gpu = Device(torch.device("cuda"), dtype)
        split = replace(training, gradient_accumulation_steps=steps)
        checkpointing = replace(training, activation_checkpointing=True)
        needed, *enough = (
            estimate_memory(model, config, gpu, full_batch(config)).total for config in (training, split, checkpointing)
        )
        assert needed > gigabytes * 1e9, "otherwise no setting would be necessary"
        assert all(1.05 * total + 0.5e9 < gigabytes * 1e9 for total in enough)


@pytest.mark.parametrize(
    "settings", [{"n_layers": 10_000_000}, {"d_ff": 99_999_999_999}, {"vocab_size": 99_999_999_999}]
)
def test_a_model_that_is_too_large_is_refused_before_it_is_built(
    settings: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(_: ModelConfig) -> None:
        raise AssertionError("it was built")

    monkeypatch.setattr("transformer.training.trainer.Transformer", build)
    config, device = ModelConfig(**settings), choose_device("cpu")
    with pytest.raises(UserError, match=r"needs about [\d,.]+ GB .* to train; this machine has [\d,.]+ GB free"):
        Trainer(config, TrainingConfig(), None, device, DistributedContext())  # type: ignore[arg-type]


def test_the_free_memory_is_that_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    base, gpu = ModelConfig(), Device(torch.device("cuda"))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("memory", (), {"available": 3 * 10**9}))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (3 * 10**9, 10**11))
    check_memory(base, TrainingConfig(), gpu)  # the trainer will split the batches
    check_memory(base, TrainingConfig(gradient_accumulation_steps=16), choose_device("cpu"))
    message = (
        r"63,082,496 parameters and needs about 17\.\d GB \(weights 253 MB, optimiser 505 MB, activations and "
        r"gradients 1\d\.\d GB\) to train; this machine has 3\.0 GB free: "
        r"--training\.gradient-accumulation-steps 16 would need 2\.\d GB"
    )
    with pytest.raises(UserError, match=message):
        check_memory(base, TrainingConfig(), choose_device("cpu"))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (10**8, 10**11))
    with pytest.raises(
        UserError, match=r"this GPU has 100 MB free: choose a smaller model, or a smaller --training.batch-tokens"
    ):
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
