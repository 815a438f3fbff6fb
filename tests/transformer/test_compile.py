"""torch.compile captures the model in one graph, for training and for the cached decoding step."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounter, CompileCounterWithBackend
from torch.fx.experimental import _config as shapes
from torch.nn.parallel import DistributedDataParallel

from transformer import loss
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.batching import Batches, Sequences
from transformer.data.prepare import DataConfig, prepare
from transformer.device import choose_device
from transformer.model import Transformer
from transformer.training.compilation import compile_with_fallback
from transformer.training.distributed import DistributedContext
from transformer.training.objective import ModelWithLoss
from transformer.training.trainer import Trainer

pytestmark = pytest.mark.slow

SHAPE = ModelConfig(40, 32, 4, 64, 1, dropout=0.0, max_length=64)
needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None and shutil.which("clang++") is None, reason="torch.compile needs a C++ compiler"
)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    with shapes.patch(use_duck_shape=False):  # as `compile_with_fallback` sets it
        yield


@needs_compiler
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("checkpointing", "backend"),
    [
        (False, "aot_eager"),
        (True, "aot_eager"),
        # the C++ compiler takes a minute each
        pytest.param(False, "inductor", marks=pytest.mark.soak),
        pytest.param(True, "inductor", marks=pytest.mark.soak),
    ],
)
def test_training_compiles_to_the_same_gradients(checkpointing: bool, backend: str) -> None:
    model = Transformer(SHAPE)
    for layer in (*model.encoder, *model.decoder):
        layer.activation_checkpointing = checkpointing  # type: ignore[assignment]
    source, target = torch.randint(4, 40, (3, 9)), torch.randint(4, 40, (3, 7))
    gradients = []
    for forward in (model, torch.compile(model, fullgraph=True, backend=backend)):
        model.zero_grad()
        forward(source, target).logsumexp(-1).sum().backward()
        gradients.append(model.encoder[0].self_attention.query_key_value.weight.grad.clone())
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)


@needs_compiler
@pytest.mark.filterwarnings("ignore")
def test_compiled_dropout_draws_the_same_random_numbers() -> None:
    module, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5)), torch.ones(3, 8)
    results: list[Tensor] = []

    def run() -> float:
        torch.manual_seed(0)
        results.append(module(x).detach())
        return 1.0

    compile_with_fallback(module, run, DistributedContext())
    assert module._compiled_call_impl is not None
    torch.testing.assert_close(*results)


@needs_compiler
@pytest.mark.filterwarnings("ignore")
def test_the_cached_step_compiles_to_the_same_scores() -> None:
    model = Transformer(SHAPE).eval()
    source, tokens = torch.randint(4, 40, (3, 9)), torch.randint(4, 40, (3, 2, 6))
    results = []
    with torch.inference_mode():
        memory, mask = model.encode(source)
        for step in (model.decode_step, torch.compile(model.decode_step, fullgraph=True)):
            cache = model.start_cache(memory, mask, max_length=8, beams=2)
            results.append([step(tokens[:, :, t], cache) for t in range(6)])
    for plain, compiled in zip(*results, strict=True):
        torch.testing.assert_close(plain, compiled, atol=1e-4, rtol=1e-4)


@pytest.mark.filterwarnings("ignore")  # torch.compile uses functions that PyTorch deprecates
def test_training_on_a_gpu_is_compiled_once_and_not_for_every_batch_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Including the loss. The number of its chunks is fixed on a GPU, and grows with the batch on a CPU.

    In the first batch, source and target have the same length, in the others not.
    """
    original = loss._chunk_rows
    monkeypatch.setattr(loss, "_chunk_rows", lambda n, device: original(n, "cuda"))
    counter = CompileCounterWithBackend("eager")
    training = ModelWithLoss(Transformer(replace(SHAPE, n_layers=3)), 0.1)
    training.compile(dynamic=True, fullgraph=True, backend=counter)
    for rows, source, target in [(30, 9, 9), (40, 12, 14), (50, 7, 6), (90, 20, 25), (16, 15, 13), (300, 31, 9)]:
        batch = (torch.randint(4, 40, (rows, length)) for length in (source, target, target))
        training(*batch).backward()
    assert counter.frame_count == 1


@pytest.mark.filterwarnings("ignore")
def test_batches_of_all_lengths_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU, fused attention copies a mask whose rows aren't aligned, and compiled code is specialised to that.

    Here, a function that does the same takes its place.
    """
    fused = torch.nn.functional.scaled_dot_product_attention

    def as_on_a_gpu(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, **options: Any) -> Tensor:
        if attn_mask is not None and attn_mask.stride(-2) % 8:
            attn_mask = attn_mask.clone()
        return fused(query, key, value, attn_mask=attn_mask, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", as_on_a_gpu)
    original = loss._chunk_rows
    monkeypatch.setattr(loss, "_chunk_rows", lambda n, device: original(n, "cuda"))
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 60, 3000)
    sides = [Sequences.pack([[4] * n for n in (lengths + rng.integers(0, 3, 3000)).tolist()]) for _ in range(2)]
    counter = CompileCounterWithBackend("eager")
    training = ModelWithLoss(Transformer(SHAPE), 0.1)
    training.compile(dynamic=True, fullgraph=True, backend=counter)
    multiples = set()
    for batch in islice(Batches(*sides, 500, 1), 100):
        training(batch.source, batch.decoder_input, batch.labels)
        multiples.add(batch.source.size(1) % 8 == 0)
    assert counter.frame_count == 1 and multiples == {True, False}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_several_processes_train_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients exceed one bucket of DistributedDataParallel, and no graph must be split for that."""
    monkeypatch.setenv("TRANSFORMER_DATA", str(tmp_path / "data"))
    data = prepare(DataConfig("copy", max_train_pairs=60), 57)
    original, counter = torch.compile, CompileCounterWithBackend("aot_eager")
    monkeypatch.setattr(torch, "compile", lambda module, dynamic: original(module, dynamic=dynamic, backend=counter))
    torch.distributed.init_process_group("gloo", f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        shape = ModelConfig(57, 128, 4, 1024, 1, dropout=0.0, max_length=64)
        two = DistributedContext(0, 2)
        training = Trainer(shape, TrainingConfig(batch_tokens=200), data, choose_device("cpu"), two, compiled=True)
        assert sum(p.numel() for p in training.model.parameters()) * 4 > 2**20
        for _ in range(3):
            training.step()
    finally:
        torch.distributed.destroy_process_group()
    assert isinstance(training.training_module, DistributedDataParallel)
    assert training.training_module.module._compiled_call_impl is not None, "it runs uncompiled"
    assert counter.frame_count == 1


def test_other_lengths_recompile_a_bounded_number_of_times() -> None:
    model, counter = Transformer(SHAPE), CompileCounter()
    forward = torch.compile(model, fullgraph=True, backend=counter)
    for rows, length in [(3, 9), (4, 12), (5, 7), (2, 20), (6, 15), (7, 31), (3, 5)]:
        forward(torch.randint(4, 40, (rows, length)), torch.randint(4, 40, (rows, length + 2)))
    assert counter.frame_count <= 3

    torch._dynamo.reset()
    model.eval()
    counter = CompileCounter()
    step = torch.compile(model.decode_step, fullgraph=True, backend=counter)
    with torch.inference_mode():
        cache = model.start_cache(*model.encode(torch.randint(4, 40, (3, 9))), max_length=64, beams=2)
        for _ in range(60):
            step(torch.randint(4, 40, (3, 2)), cache)
    assert counter.frame_count <= 4


def test_an_exported_model_accepts_every_batch_size_and_length() -> None:
    model, any_shape = Transformer(SHAPE).eval(), {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
    example = torch.randint(4, 40, (4, 3)), torch.randint(4, 40, (4, 6))
    exported = torch.export.export(model, example, dynamic_shapes=(any_shape, any_shape)).module()
    source, target = torch.randint(4, 40, (3, 11)), torch.randint(4, 40, (3, 8))
    source[1, 5:] = target[2, 3:] = 0
    torch.testing.assert_close(exported(source, target), model(source, target), atol=1e-5, rtol=1e-5)
