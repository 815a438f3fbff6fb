"""Every part of the package on a device that is not the CPU: nothing is left behind on the other side.

The device is pretended (`tests/pretend_gpu.py`), and its numbers are the CPU's: what comes out has to agree.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import transformer
from tests.pretend_gpu import HOST_READS, pretend_gpu
from transformer.config import ModelConfig, OptimizerName, TrainingConfig
from transformer.data.prepare import DataConfig, PreparedData, prepare
from transformer.decoding import Candidate, beam_search, greedy_search, sample
from transformer.device import Device, choose_device
from transformer.evaluation.evaluate import evaluate_test_set
from transformer.inspection import ablate_heads, record_attention
from transformer.loss import label_smoothed_cross_entropy, linear_label_smoothed_cross_entropy
from transformer.model import Transformer
from transformer.training.distributed import DistributedContext
from transformer.training.loop import train
from transformer.training.trainer import Trainer

pytestmark = pytest.mark.slow

SHAPE = ModelConfig(40, 32, 4, 64, 2, dropout=0.0, max_length=16)
SHAPES = {
    "the paper's": SHAPE,
    "norm first, learned positions": replace(SHAPE, norm="pre", positions="learned"),
    "rotary, explicit": replace(SHAPE, positions="rotary", attention="explicit"),
}
CPU = choose_device("cpu")


@pytest.fixture(autouse=True)
def gpu() -> Iterator[Device]:
    with pretend_gpu() as device:
        yield device


def on_both(shape: ModelConfig, gpu: Device, what: Callable[[Transformer, torch.device], Any]) -> tuple[Any, Any]:
    """What comes out on the CPU, and on the GPU with the same weights."""
    model = Transformer(shape).eval()
    model.unembedding.weight.data *= 4  # logits sharp enough that searches differ
    moved = Transformer(shape).eval()
    moved.load_state_dict(model.state_dict())
    results = []
    for each, device in ((model, CPU.torch_device), (moved.to(gpu.torch_device), gpu.torch_device)):
        torch.manual_seed(1)
        results.append(what(each, device))
    return results[0], results[1]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_model_learns_there(shape: ModelConfig, gpu: Device, source: torch.Tensor) -> None:
    def gradients(model: Transformer, device: torch.device) -> list[torch.Tensor]:
        target = torch.randint(4, 40, (6, 7))
        logits = model(source.to(device), target.to(device)).flatten(0, 1)
        loss = label_smoothed_cross_entropy(logits, target.to(device).flatten(), pad_id=0)
        states = torch.randn(42, 32).to(device).requires_grad_()
        same = linear_label_smoothed_cross_entropy(
            states, model.unembedding.weight, target.to(device).flatten(), pad_id=0
        )
        (loss + same).backward()
        assert all(p.grad is not None and p.grad.device == device for p in model.parameters())
        return [loss.detach().cpu(), same.detach().cpu(), *(p.grad.cpu() for p in model.parameters())]  # type: ignore[union-attr]

    torch.testing.assert_close(*on_both(shape, gpu, gradients), atol=1e-4, rtol=1e-4)


def traced_beam(model: Transformer, ids: torch.Tensor) -> Any:
    trace: list[Candidate] = []
    found = beam_search(model, ids, beam_size=3, n_best=2, trace=trace)
    kept = [(c.sentence, c.length, c.token, c.fate, c.beam) for c in trace]
    return [[h.tokens for h in hypotheses] for hypotheses in found], kept


SEARCHES: dict[str, Callable[[Transformer, torch.Tensor], Any]] = {
    "greedy": greedy_search,
    "beam": traced_beam,
    "sampling": lambda model, ids: sample(model, ids, temperature=0.7, top_k=9, top_p=0.9),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_decoding_finds_the_same(
    search: Callable[[Transformer, torch.Tensor], Any], shape: ModelConfig, gpu: Device, source: torch.Tensor
) -> None:
    here, there = on_both(shape, gpu, lambda model, device: search(model, source.to(device)))
    assert here == there


@pytest.mark.parametrize("search", [greedy_search, beam_search, sample])
@pytest.mark.parametrize("sentences", [1, 24])
def test_a_search_reads_from_the_gpu_once_per_step(search: Callable[..., Any], sentences: int, gpu: Device) -> None:
    """Each read makes the host wait for the GPU. Two more, before the first, count the steps."""
    steps = 12
    torch.manual_seed(0)
    model = Transformer(replace(SHAPE, max_length=steps)).eval().to(gpu.torch_device)
    HOST_READS.clear()
    search(model, torch.randint(4, 40, (sentences, 6)).to(gpu.torch_device), max_new_tokens=steps)
    assert 1 <= len(HOST_READS) <= steps + 2, HOST_READS


def test_attention_is_recorded_and_heads_are_ablated(gpu: Device, source: torch.Tensor) -> None:
    def recorded(model: Transformer, device: torch.device) -> list[torch.Tensor]:
        with record_attention(model) as weights, ablate_heads(model, {"decoder.1.cross_attention": [0, 3]}):
            logits = model(source.to(device), source.to(device))
        assert all(w.device == device for w in weights.values())
        return [logits.detach().cpu(), *(w.cpu() for w in weights.values())]

    torch.testing.assert_close(*on_both(SHAPE, gpu, recorded), atol=1e-5, rtol=1e-4)


def test_a_shipped_model_is_loaded_there_and_translates_as_on_the_cpu(gpu: Device) -> None:
    sentences = ["the old dog sleeps in the garden", "a cat", ""]
    there, here = transformer.load("pocket-small"), transformer.load("pocket-small", device="cpu")
    assert there.device == gpu and there.model.unembedding.weight.device == gpu.torch_device
    assert there.greedy_search(sentences[:2]) == here.greedy_search(sentences[:2])
    assert there.translate_test_set(sentences) == here.translate_test_set(sentences)
    best, same = ([h.text for h in t.beam_search(sentences[:1], n_best=4)[0]] for t in (there, here))
    assert best == same


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_DATA", str(tmp_path_factory.mktemp("data")))
        return prepare(DataConfig("copy", max_train_pairs=500), 57)


def test_a_run_there_trains_and_resumes_as_on_the_cpu(tmp_path: Path, gpu: Device, data: PreparedData) -> None:
    shape = replace(SHAPE, vocab_size=57, dropout=0.1, max_length=64)
    whole = TrainingConfig(6, 600, validate_every=3, validation_sentences=4, checkpoint_every=3, average_steps=2)
    half = replace(whole, steps=3, average_steps=0)
    seen: dict[str, list[float]] = {"here": [], "there": []}
    for name, device in (("here", CPU), ("there", gpu)):
        for config in (half, whole):
            translator = train(
                tmp_path / name, data, shape, config, device, force=True,
                on_validation=lambda metrics, name=name: seen[name].append(metrics["valid_loss"]),
            )  # fmt: skip
        assert translator.device == device
    assert len(seen["there"]) == 2 and seen["there"] == pytest.approx(seen["here"], abs=1e-4)


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_training_steps_read_nothing_from_the_gpu(optimizer: OptimizerName, gpu: Device, data: PreparedData) -> None:
    """Neither for the loss, nor to find out whether the gradient is finite, nor to average the weights."""
    shape = replace(SHAPE, vocab_size=57, dropout=0.1, max_length=64)
    config = TrainingConfig(20, 300, gradient_accumulation_steps=2, average_steps=15, optimizer=optimizer)
    trainer = Trainer(shape, config, data, gpu, DistributedContext())
    HOST_READS.clear()
    for _ in range(10):
        trainer.step()
    assert not HOST_READS
    trainer.log_row()
    assert len(HOST_READS) == 1


def test_a_test_set_is_evaluated_there_as_on_the_cpu(gpu: Device) -> None:
    english, german = ["the dog sleeps.", "a cat sees the house."], ["der Hund schläft.", "eine Katze sieht das Haus."]
    results = [
        evaluate_test_set(transformer.load("pocket-small", name), english, german, "en-de", progress=False)
        for name in ("auto", "cpu")
    ]
    assert results[0].translations == results[1].translations and results[0].scores == results[1].scores
