"""Training on a GPU: the steps of the CPU, without waiting, without more and more memory, and with all GPUs."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.fx.experimental import _config as shapes

from transformer.checkpoint import step_name
from transformer.config import ModelConfig, OptimizerName, TrainingConfig
from transformer.data.batching import Batches
from transformer.data.prefetch import Prefetcher
from transformer.data.prepare import PreparedData
from transformer.data.synthetic import random_data
from transformer.device import DeviceName, Precision, choose_device
from transformer.loss import CHUNKS
from transformer.model import Transformer
from transformer.training.distributed import DistributedContext
from transformer.training.memory import peak_memory
from transformer.training.objective import ModelWithLoss
from transformer.training.run_folder import read_metrics
from transformer.training.state import restore_state, save_state
from transformer.training.trainer import Trainer

pytestmark = pytest.mark.filterwarnings("default")  # another machine may warn of other things

CONFIG = TrainingConfig(steps=40, batch_tokens=400, warmup_steps=10, gradient_accumulation_steps=2)
PRECISIONS: list[Precision] = ["fp32", "bf16", "fp16"]


def trainer(
    name: DeviceName,
    shape: ModelConfig,
    data: PreparedData,
    precision: Precision = "fp32",
    config: TrainingConfig = CONFIG,
    compiled: bool = False,
) -> Trainer:
    return Trainer(shape, config, data, choose_device(name, precision), DistributedContext(), compiled)


def losses(training: Trainer, steps: int) -> list[float]:
    """The loss of each of the next steps."""
    rows = []
    for _ in range(steps):
        training.step()
        rows.append(training.log_row()["train_loss"])
    return rows


@pytest.mark.parametrize(("precision", "error"), [("fp32", 1e-4), ("bf16", 0.02), ("fp16", 0.01)])
@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_the_steps_are_those_of_the_cpu(
    optimizer: OptimizerName,
    precision: Precision,
    error: float,
    name: DeviceName,
    shape: ModelConfig,
    data: PreparedData,
) -> None:
    config = replace(CONFIG, optimizer=optimizer)
    here = losses(trainer("cpu", shape, data, "fp32", config), 8)
    there = trainer(name, shape, data, precision, config)
    there.scaler = torch.amp.GradScaler(there.device.type, 1024.0, enabled=precision == "fp16")  # skips no step
    assert losses(there, 8) == pytest.approx(here, rel=error)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_resumed_run_takes_the_same_steps(
    precision: Precision, name: DeviceName, shape: ModelConfig, data: PreparedData, tmp_path: Path
) -> None:
    """With the same dropout: the state of the GPU's random numbers is saved, too."""
    shape = replace(shape, dropout=0.3)
    first = trainer(name, shape, data, precision)
    losses(first, 4)
    save_state(first, tmp_path)
    expected = losses(first, 4)
    resumed = trainer(name, shape, data, precision)
    restore_state(resumed, tmp_path, step_name(4))
    assert losses(resumed, 4) == pytest.approx(expected, rel=1e-3)


@contextmanager
def no_waiting(name: DeviceName) -> Iterator[None]:
    """While the context is open, whatever makes the host wait for the GPU is an error."""
    if name == "cuda":
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        if name == "cuda":
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_steps_never_wait_for_the_gpu(
    optimizer: OptimizerName, precision: Precision, name: DeviceName, shape: ModelConfig, data: PreparedData
) -> None:
    config = replace(CONFIG, optimizer=optimizer, average_steps=38)
    training = trainer(name, replace(shape, dropout=0.1), data, precision, config)
    losses(training, 3)
    with no_waiting(name):
        for _ in range(5):
            training.step()
    assert training.log_row()["step"] == 8


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_after_some_steps_no_more_memory_is_taken(
    compiled: bool, name: DeviceName, shape: ModelConfig, data: PreparedData
) -> None:
    if compiled and name == "cpu":
        pytest.skip("a CPU's memory isn't measured here")
    training = trainer(name, shape, data, compiled=compiled)
    training.fit_batch_to_memory()
    losses(training, 10)
    allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()  # zero without a GPU
    losses(training, 20)
    assert torch.cuda.memory_reserved() <= reserved
    assert torch.cuda.memory_allocated() <= allocated * 1.01


def test_compiled_steps_need_no_more_memory(name: DeviceName, shape: ModelConfig, data: PreparedData) -> None:
    """Compiled code might not reuse the buffer for the logits, which are the largest tensors with this vocabulary."""
    peaks = []
    for compiled in (False, name == "cuda"):
        training = trainer(name, replace(shape, vocab_size=20_000), data, compiled=compiled)
        losses(training, 3)
        peaks.append(peak_memory(training.step, training.device))
    assert peaks[1] < 1.2 * peaks[0]


def test_prefetched_batches_are_pinned_for_a_gpu(name: DeviceName, data: PreparedData) -> None:
    device = choose_device(name).torch_device
    batches = Prefetcher(Batches(*data.tokens("train"), 300, 1), device)
    for batch in islice(batches, 3):
        assert batch.source.is_pinned() == batch.labels.is_pinned() == (name == "cuda")
        there = batch.to(device)
        assert there.source.device.type == name and torch.equal(there.labels.cpu(), batch.labels)


@pytest.mark.filterwarnings("ignore")
def test_batches_of_all_lengths_are_compiled_once(
    name: DeviceName, shape: ModelConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lengths of source and target are equal in some batches, and different in others."""
    monkeypatch.setattr("transformer.loss._chunk_rows", lambda n, device: n // CHUNKS + 1)  # as on a GPU
    torch._dynamo.reset()
    device, counter = choose_device(name), CompileCounterWithBackend("eager")
    training = ModelWithLoss(Transformer(shape).to(device.torch_device), 0.1)
    training.compile(dynamic=True, backend=counter)
    data = random_data(tmp_path, 3000, shape.vocab_size, shape.max_length - 4)
    for batch in islice(Batches(*data.tokens("train"), 1500, 1), 100):
        there = batch.to(device.torch_device)
        with device.autocast(), shapes.patch(use_duck_shape=False):
            result = training(there.source, there.decoder_input, there.labels)
        result.backward()
    assert counter.frame_count == 1


def test_the_small_batch_at_the_end_of_an_epoch_is_not_compiled_again(
    name: DeviceName, shape: ModelConfig, tmp_path: Path
) -> None:
    """Some optimisations of PyTorch are for tensors of at least 5 · 2²⁰ elements, which are 81,920 positions here."""
    if name == "cpu":
        pytest.skip("the compiler for CPUs has other limits")
    torch._dynamo.reset()
    data = random_data(tmp_path, 3500, shape.vocab_size, shape.max_length - 4)
    training = trainer(name, shape, data, "bf16", TrainingConfig(batch_tokens=80_000), compiled=True)
    sizes = [training.batches.collate(pairs).labels.numel() for pairs in training.batches.plan]
    assert max(sizes) > 81_920 > 60_000 > min(sizes)
    assert training.training_module._compiled_call_impl is not None, "it runs uncompiled"
    with torch._dynamo.config.patch(error_on_recompile=True):
        losses(training, len(sizes))


def test_without_a_compiler_training_goes_on_uncompiled(
    name: DeviceName,
    shape: ModelConfig,
    data: PreparedData,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no compiler")

    expected = losses(trainer(name, shape, data), 3)
    monkeypatch.setattr(torch, "compile", lambda module, dynamic: broken)
    assert losses(trainer(name, shape, data, compiled=True), 3) == pytest.approx(expected, rel=1e-4)
    assert "compilation failed, so training runs uncompiled, which is slower: no compiler" in capsys.readouterr().err


def test_the_settings_of_the_process(name: DeviceName) -> None:
    """They have an effect only if they are made before the GPU is used."""
    device = choose_device(name, "fp32")
    torch.zeros(1, device=device.torch_device)
    assert torch.get_float32_matmul_precision() == "highest"
    if name == "cuda":
        assert not torch.backends.cuda.cudnn_sdp_enabled() and not torch.backends.cuda.flash_sdp_enabled()
        assert torch.cuda.memory._snapshot()["allocator_settings"]["expandable_segments"]


def test_all_gpus_together_train_as_one_process_does(name: DeviceName, tmp_path: Path) -> None:
    """With NCCL between as many processes as there are GPUs, or with Gloo between two on a CPU."""
    processes = torch.cuda.device_count() if name == "cuda" else 2
    several = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    train = ["transformer.cli", "train", "copy", "--device", name, "--precision", "fp32", "--model.dropout", "0"]
    short = ["--training.steps", "8", "--training.validate-every", "4", "--training.validation-sentences", "4"]
    environment = {**os.environ, "TRANSFORMER_DATA": str(tmp_path / "data")}
    results = []
    for folder, command in (
        ("several", [*several, "-m", "--", *train]),
        ("one", [sys.executable, "-m", *train, "--training.gradient-accumulation-steps", str(processes)]),
    ):
        run = tmp_path / folder
        done = subprocess.run(
            [*command, *short, "--run", str(run)], env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
        results.append([row[key] for row in read_metrics(run) for key in ("train_loss", "valid_loss")])
    assert results[0] == pytest.approx(results[1], rel=1e-3)
