"""The training speed of recipes: what is counted and calculated is right, and failures are reported."""

import gc
import json
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.transformer.bench.test_benchmarks import InProcess
from transformer.bench import recipe as module
from transformer.bench import runner
from transformer.bench.baselines import ModelWithCrossEntropy, TorchTransformer, use_torch_transformer
from transformer.bench.recipe import WARM_UP_STEPS, measure, measure_recipes, step_statistics, step_tokens, tables
from transformer.bench.runner import BenchmarkOptions
from transformer.cli import main
from transformer.config import ModelConfig, Norm, TrainingConfig
from transformer.data import batching
from transformer.data.batching import Batch
from transformer.data.prepare import DataConfig, PreparedData, prepare
from transformer.data.synthetic import random_data
from transformer.data.tokenizer import PAD
from transformer.device import Device, choose_device
from transformer.errors import UserError
from transformer.inspection import count_flops
from transformer.model import Transformer
from transformer.provenance import provenance
from transformer.recipes import RECIPES, Recipe
from transformer.training.distributed import DistributedContext
from transformer.training.objective import batch_loss
from transformer.training.trainer import Trainer

pytestmark = pytest.mark.slow

QUICK = BenchmarkOptions(choose_device("cpu"), threads=1, quick=True)
SHAPE = ModelConfig(60, d_model=32, n_heads=4, d_ff=96, n_layers=2, dropout=0.0, max_length=64)
TINY = Recipe("", DataConfig("copy"), SHAPE, TrainingConfig(steps=7200, batch_tokens=300))


@pytest.fixture(autouse=True)
def nothing_prepared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRANSFORMER_DATA", str(tmp_path / "data"))


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train in this process, which is faster and can be observed."""
    monkeypatch.setattr(runner, "Worker", InProcess)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of random data for the tiny recipe."""
    folder = tmp_path_factory.mktemp("data")
    random_data(folder, 2000, SHAPE.vocab_size, SHAPE.max_length - 4)
    return folder


def trainer_of(recipe: Recipe, folder: Path) -> Trainer:
    alone = DistributedContext()
    return Trainer(recipe.model, recipe.training, PreparedData(folder), QUICK.device, alone)


def record(**changes: object) -> dict[str, Any]:
    """A record of two steps with numbers that are easy to calculate with."""
    facts = {
        "recipe": "any",
        "parameters": 1234,
        "steps": 7200,
        "recipe_batch_tokens": 1000,
        "batch_tokens": 1000,
        "data": "random",
        "compiled": False,
        "target_tokens": 900.0,
        "source_tokens": 800.0,
        "padded_tokens": 2000.0,
        "flops": 1.8e9,
        "loading_seconds": 0.15,
        "implementations": [
            {"name": "ours", "speeds": [400.0, 800.0], "peak_memory": 3 * 2**20, "error": ""},
            {"name": "torch.nn.Transformer", "speeds": [200.0, 400.0], "peak_memory": 6 * 2**20},
            {"name": "matrix products alone", "speeds": [2000.0, 1600.0]},
        ],
    }
    return facts | changes


def rows_of(text: str) -> dict[str, list[str]]:
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    return {name: values for name, *values in cells}


def test_the_tables_show_what_was_measured() -> None:
    """The median speed is 600 target tokens per second, so a step takes 900 / 600 = 1.5 s."""
    text = tables(record())
    rows = rows_of(text)
    assert text.startswith("any: 1,234 parameters\n")
    assert rows["ours"] == ["600", "1.00 ×", "3 MiB", "1.00 ×"]
    assert rows["torch.nn.Transformer"] == ["300", "2.00 ×", "6 MiB", "2.00 ×"]
    assert rows["matrix products alone"] == ["1,800", "0.35 ×", "", ""]
    assert {name: values[0] for name, values in list(rows.items())[-9:]} == {
        "data": "random",
        "target tokens per step": "1,000",
        "time per step": "1,500 ms",
        "padding": "15.0%",
        "data loading": "10.0%",
        "work per second": "0.00120 TFLOP/s",
        "measured peak": "0.00400 TFLOP/s",
        "share of the peak": "30.0%",
        "whole training": "3.00 hours",
    }
    assert rows["whole training"][1] == "7,200 steps, without validation"
    assert rows["target tokens per step"][1] == "recipe: 1,000"


def test_matrix_products_that_failed_are_reported() -> None:
    failed = {"name": "matrix products alone", "error": "failed: its process died"}
    rows = rows_of(tables(record(implementations=[*record()["implementations"][:2], failed])))
    assert rows["matrix products alone"][0] == "failed: its process died"
    assert rows["work per second"][0] == "0.00120 TFLOP/s" and rows["whole training"][0] == "3.00 hours"
    assert "measured peak" not in rows and "share of the peak" not in rows


def test_the_hours_are_those_of_the_recipes_batches() -> None:
    text = tables(record(recipe_batch_tokens=6000, data="prepared", compiled=True))
    rows = rows_of(text)
    assert rows["whole training"][0] == "18.0 hours" and "recipe: 6,000" in rows["target tokens per step"][1]
    assert rows["data"] == ["prepared", "by transformer prepare"]
    assert text.startswith("any: 1,234 parameters, compiled\n")


def test_step_statistics_count_what_the_trainer_will_do(data: Path) -> None:
    recipe = replace(TINY, training=replace(TINY.training, gradient_accumulation_steps=2))
    with torch.device("meta"):
        counts = step_statistics(Transformer(SHAPE), recipe, data, 3)
    trainer = trainer_of(recipe, data)
    batches = [next(trainer.batches) for _ in range(6)]
    assert counts["target_tokens"] * 3 == sum(int((batch.labels != PAD).sum()) for batch in batches)
    assert counts["source_tokens"] * 3 == sum(int((batch.source != PAD).sum()) for batch in batches)
    assert counts["padded_tokens"] * 3 == sum(batch.source.numel() + batch.labels.numel() for batch in batches)
    assert 250 < counts["target_tokens"] <= 300
    with count_flops(trainer.model) as counter:
        for batch in batches:
            batch_loss(trainer.model, batch, 0.1).backward()
    assert counts["flops"] * 3 == pytest.approx(counter.get_total_flops(), rel=0.02)


def test_slow_loading_is_noticed(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    collate = batching.collate

    def slow(*args: object) -> Batch:
        time.sleep(0.2)
        return collate(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(batching, "collate", slow)
    with torch.device("meta"):
        model = Transformer(SHAPE)
    assert step_statistics(model, TINY, data, 2)["loading_seconds"] >= 0.2


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_baseline_takes_the_same_steps(norm: Norm, data: Path) -> None:
    """Without dropout: the same weights after two steps with the same batches, clipping and Adam."""
    training = replace(TINY.training, gradient_accumulation_steps=2, max_grad_norm=0.1)
    recipe = replace(TINY, model=replace(SHAPE, norm=norm), training=training)
    ours, theirs = trainer_of(recipe, data), trainer_of(recipe, data)
    replaced = weakref.ref(theirs.model)
    use_torch_transformer(theirs, paper_dropout=True)
    gc.collect()
    assert replaced() is None, "its memory would count as PyTorch's"
    before = ours.model.source_embedding.weight.clone()
    torch.testing.assert_close(theirs.model.source_embedding.weight, before)
    for _ in range(2):
        ours.step()
        theirs.step()
    assert theirs.log_row()["train_loss"] == pytest.approx(ours.log_row()["train_loss"])
    assert theirs.progress.target_tokens == ours.progress.target_tokens
    after = theirs.model.source_embedding.weight
    torch.testing.assert_close(after, ours.model.source_embedding.weight, atol=1e-7, rtol=1e-4)
    assert not torch.equal(after, before)


def test_the_baseline_has_the_same_optimizer_and_as_many_copies_of_the_weights(data: Path) -> None:
    training = replace(TINY.training, optimizer="muon", average_steps=10)
    trainer = trainer_of(replace(TINY, training=training), data)
    use_torch_transformer(trainer, paper_dropout=True)
    assert trainer.optimizers.keys() == {"adam", "muon"}
    assert isinstance(trainer.averaged, TorchTransformer) and trainer.averaged is not trainer.model
    trainer.step()


def test_ours_and_the_baseline_take_turns(in_process: None, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    step = Trainer.step

    def observed(self: Trainer) -> None:
        taken.append("theirs" if isinstance(self.model_with_loss, ModelWithCrossEntropy) else "ours")
        step(self)

    monkeypatch.setattr(Trainer, "step", observed)
    measured = measure("tiny", TINY, QUICK, steps=2, progress=False)
    assert taken == ["ours"] * WARM_UP_STEPS + ["theirs"] * WARM_UP_STEPS + ["ours", "theirs"] * 2
    names = ["ours", "torch.nn.Transformer", "matrix products alone"]
    assert [row["name"] for row in measured["implementations"]] == names
    assert all(len(row["speeds"]) == 2 for row in measured["implementations"])
    assert measured["data"] == "random"


def test_a_round_on_a_gpu_takes_several_steps(in_process: None, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.steps_per_round(Device(torch.device("cuda"))) == 5
    assert module.steps_per_round(QUICK.device) == 1
    monkeypatch.setattr(module, "steps_per_round", lambda device: 3)
    taken: list[Trainer] = []
    monkeypatch.setattr(Trainer, "step", lambda trainer: taken.append(trainer))
    take_steps = module._training_step(TINY, data, QUICK, compiled=False, target_tokens=10.5, baseline=False)
    assert [take_steps(number) for number in range(4)] == [3 * 10.5] * 4
    assert len(taken) == WARM_UP_STEPS + 2 * 3
    counted: list[int] = []
    monkeypatch.setattr(module, "step_statistics", lambda *args: counted.append(args[3]) or step_statistics(*args))
    measured = measure("tiny", TINY, QUICK, steps=4, progress=False)
    assert counted == [6], "what is recorded is the mean over the steps that are measured"
    assert {len(row["speeds"]) for row in measured["implementations"]} == {2}, "two rounds for four steps"
    header, *_ = measure_recipes({"tiny": TINY}, QUICK, steps=4, progress=False)
    assert "6 steps in interleaved rounds of 3 steps after 5 warm-up steps; medians" in header


def test_products_count_as_the_training_that_has_their_flops(in_process: None) -> None:
    """Each product of two 256 × 256 matrices has 2 · 256³ FLOPs."""
    assert module._matrix_products(QUICK, tokens_per_flop=0.5)(0) == module.MATMULS * 256**3


def test_the_recipes_own_data_is_used_where_it_is_prepared(in_process: None, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = replace(TINY, data=DataConfig("copy", max_train_pairs=200), model=replace(SHAPE, vocab_size=57))
    folders: list[Path] = []
    prepared = prepare(recipe.data, 57)
    monkeypatch.setattr(module, "step_statistics", lambda *args: folders.append(args[2]) or step_statistics(*args))
    measured = measure("copy", recipe, QUICK, steps=1, progress=False)
    assert measured["data"] == "prepared" and folders == [prepared.folder]


def test_random_data_has_sentences_of_the_usual_lengths(data: Path) -> None:
    sources, targets = PreparedData(data).tokens("train")
    source_lengths, target_lengths = sources.lengths(), targets.lengths()
    assert len(source_lengths) == len(target_lengths) == 2000
    assert abs(source_lengths.mean() - 25) < 1 and abs(source_lengths.std() - 12) < 1
    assert abs(source_lengths - target_lengths).max() == 3
    assert max(source_lengths.max(), target_lengths.max()) < SHAPE.max_length
    assert (sources.ids.min(), sources.ids.max()) == (targets.ids.min(), targets.ids.max()) == (4, 59)


@pytest.mark.parametrize(
    ("name", "device", "quick", "tokens"),
    [
        ("wmt14-base", "cuda", False, 25_000),
        ("wmt14-base", "cpu", False, 5e11 // (6 * 63_082_496)),
        ("wmt14-base", "cuda", True, 2e10 // (6 * 63_082_496)),
        ("copy", "cpu", False, 2000),
    ],
)
def test_a_step_takes_seconds(name: str, device: str, quick: bool, tokens: int) -> None:
    options = BenchmarkOptions(Device(torch.device(device)), 1, quick)
    parameters = {"wmt14-base": 63_082_496, "copy": 237_120}[name]
    assert step_tokens(RECIPES[name], parameters, options) == tokens
    assert step_tokens(RECIPES[name], 10**15, QUICK) == 1


def test_a_batch_that_would_take_minutes_is_made_smaller(in_process: None, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = sum(p.numel() for p in Transformer(SHAPE).parameters())
    monkeypatch.setattr(module, "QUICK_FLOPS", 6 * parameters * 120.5)
    measured = measure("tiny", TINY, QUICK, steps=2, progress=False)
    assert (measured["batch_tokens"], measured["recipe_batch_tokens"]) == (120, 300)
    assert 80 < measured["target_tokens"] <= 120


@pytest.fixture
def threads() -> Iterator[int]:
    """The number of threads, restored afterwards."""
    threads = torch.get_num_threads()
    yield threads
    torch.set_num_threads(threads)


def test_the_number_of_threads_is_set(threads: int) -> None:
    next(measure_recipes({"tiny": TINY}, replace(QUICK, threads=threads + 1), steps=1, progress=False))
    assert torch.get_num_threads() == threads + 1


def test_memory_that_runs_out_is_reported_with_what_to_change(
    in_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(self: Trainer) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(Trainer, "step", step)
    with pytest.raises(UserError, match=r"CUDA out of memory.* tiny --training.gradient-accumulation-steps 2"):
        measure("tiny", TINY, QUICK, steps=1, progress=False)


@pytest.mark.parametrize("after", [0, WARM_UP_STEPS + 1])
def test_a_baseline_out_of_memory_is_reported(in_process: None, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    calls: list[int] = []
    forward = ModelWithCrossEntropy.forward

    def limited(self: ModelWithCrossEntropy, *args: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) > after:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, *args)

    monkeypatch.setattr(ModelWithCrossEntropy, "forward", limited)
    measured = measure("tiny", TINY, QUICK, steps=3, progress=False)
    ours, theirs, _ = measured["implementations"]
    assert len(ours["speeds"]) == 3 and len(calls) == after + 1
    assert rows_of(tables(measured))["torch.nn.Transformer"] == ["failed: CUDA out of memory", "", "", ""]
    assert theirs["error"] == "failed: CUDA out of memory" and theirs["peak_memory"] is None


def test_the_command_measures_a_recipe(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = tmp_path / "speed.json"
    main(["bench", "copy", "--quick", "--device", "cpu", "--threads", "1", "--steps", "2", "--output", str(output)])
    printed, written = capsys.readouterr().out, json.loads(output.read_text())
    assert {*provenance("cpu"), "steps", "quick", "recipes"} == set(written)
    (measured,) = written["recipes"]
    assert (measured["recipe"], measured["parameters"], measured["steps"]) == ("copy", 237_120, 600)
    ours, theirs, products = measured["implementations"]
    assert len(ours["speeds"]) == len(theirs["speeds"]) == len(products["speeds"]) == 2
    assert ours["peak_memory"] > 16 * 237_120  # weights, gradients and Adam's two moments, in four bytes each
    assert theirs["peak_memory"] > 16 * 237_120 and products["peak_memory"] is None
    assert "copy: 237,120 parameters\n" in printed
    assert rows_of(printed)["target tokens per step"] == ["2,000", "recipe: 2,000"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("copy train", "give either benchmarks or recipes, not both"),
        ("wmt14-bas", "there is no benchmark or recipe 'wmt14-bas'; did you mean wmt14-base?"),
        ("copy --rounds 3", "--rounds is for benchmarks; use --steps for recipes"),
        ("train --steps 3", "--steps and --compile are for recipes; use --rounds for benchmarks"),
        ("--compile yes", "--steps and --compile are for recipes; use --rounds for benchmarks"),
        ("copy --steps 0", "--steps must be at least 1; got 0"),
        ("train --rounds 0", "--rounds must be at least 1; got 0"),
        ("copy --threads 0", "--threads must be at least 1; got 0"),
        (
            "copy --output no/such/x.json",
            "cannot write no/such/x.json: there is no folder no/such; create it, or choose",
        ),
        ("train --output no/such/x.json", "cannot write no/such/x.json: there is no folder no/such; create it, or"),
    ],
)
def test_mistakes(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", *words.split()])
    printed = capsys.readouterr()
    assert stopped.value.code == 2 and printed.out == "" and printed.err.startswith(f"error: {message}")
    assert len(printed.err.splitlines()) == 1


def test_a_file_that_cannot_be_written_is_reported_before_anything_is_measured(tmp_path: Path) -> None:
    texts = measure_recipes({"tiny": TINY}, QUICK, steps=1, output=tmp_path, progress=False)
    with pytest.raises(UserError, match=r"cannot write .*: it is a folder"):
        next(texts)


def test_a_disk_that_becomes_full_costs_no_result(
    in_process: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("transformer.bench.report.write_atomically", no_room)
    texts = measure_recipes({"tiny": TINY}, QUICK, steps=1, output=tmp_path / "x.json", progress=False)
    next(texts)  # where and how it is measured
    assert "target tokens/s" in next(texts)
    with pytest.raises(UserError, match=r"cannot write .*x\.json: No space left on device"):
        next(texts)
