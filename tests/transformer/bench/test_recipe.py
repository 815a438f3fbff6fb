"""The training speed of recipes: what is counted and calculated is right, and failures are reported."""

import gc
import json
import time
import weakref
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.transformer.bench.test_benchmarks import InProcess
from transformer.bench import recipe as module
from transformer.bench import runner
from transformer.bench.baselines import ModelWithCrossEntropy, TorchTransformer, use_torch_transformer
from transformer.bench.benchmarks import run_benchmarks
from transformer.bench.recipe import AVERAGED_STEPS, STEPS, step_facts, step_tokens, training
from transformer.bench.report import step_table
from transformer.bench.runner import WARM_UP_ROUNDS, BenchmarkOptions, Measurement, run
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


@pytest.fixture
def random_training_data(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured trains on the random data of the other fixture."""
    monkeypatch.setattr(module, "_training_data", lambda *_: nullcontext(PreparedData(data)))


def trainer_of(recipe: Recipe, folder: Path) -> Trainer:
    alone = DistributedContext()
    return Trainer(recipe.model, recipe.training, PreparedData(folder), QUICK.device, alone)


def record(**changes: object) -> dict[str, Any]:
    """A record of two rounds with numbers that are easy to calculate with."""
    facts = {
        "name": "any",
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


def measured(recipe: Recipe = TINY, options: BenchmarkOptions = QUICK, rounds: int = 1) -> dict[str, Any]:
    """The facts about a recipe's training, and its measurements by the name of the implementation."""
    benchmark = training("tiny", recipe, options)
    return {**benchmark.facts, **{row.name: row for row in run(benchmark, options, rounds, progress=False)}}


def test_the_table_shows_what_was_measured() -> None:
    """The median speed is 600 target tokens per second, so a step takes 900 / 600 = 1.5 s."""
    rows = rows_of(step_table(record()))
    assert {name: values[0] for name, values in rows.items() if name != "measure"} == {
        "data": "random",
        "target tokens per step": "1,000",
        "time per step": "1,500 ms",
        "padding": "15.0%",
        "data loading": "10.0%",
        "work per second": "0.00120 TFLOP/s",
        "measured peak": "0.00400 TFLOP/s",
        "share of measured peak": "30.0%",
        "whole training": "3.00 hours",
    }
    assert rows["whole training"][1] == "7,200 steps, without validation"
    assert rows["target tokens per step"][1] == "recipe: 1,000"


def test_without_matrix_products_there_is_no_peak() -> None:
    failed = {"name": "matrix products alone", "error": "failed: its process died"}
    rows = rows_of(step_table(record(implementations=[*record()["implementations"][:2], failed])))
    assert rows["work per second"][0] == "0.00120 TFLOP/s" and rows["whole training"][0] == "3.00 hours"
    assert "measured peak" not in rows and "share of measured peak" not in rows


def test_the_hours_are_those_of_the_recipes_batches() -> None:
    rows = rows_of(step_table(record(recipe_batch_tokens=6000, data="prepared")))
    assert rows["whole training"][0] == "18.0 hours" and "recipe: 6,000" in rows["target tokens per step"][1]
    assert rows["data"] == ["prepared", "by transformer prepare"]


def test_step_facts_count_what_the_trainer_will_do(random_training_data: None, data: Path) -> None:
    recipe = replace(TINY, training=replace(TINY.training, gradient_accumulation_steps=2))
    counts = step_facts(recipe, QUICK)
    trainer = trainer_of(recipe, data)
    batches = [next(trainer.batches) for _ in range(2 * AVERAGED_STEPS)]
    sums = {key: count * AVERAGED_STEPS for key, count in counts.items()}
    assert sums["target_tokens"] == pytest.approx(sum(int((batch.labels != PAD).sum()) for batch in batches))
    assert sums["source_tokens"] == pytest.approx(sum(int((batch.source != PAD).sum()) for batch in batches))
    assert sums["padded_tokens"] == pytest.approx(sum(b.source.numel() + b.labels.numel() for b in batches))
    assert 250 < counts["target_tokens"] <= 300
    with count_flops(trainer.model) as counter:
        for batch in batches:
            batch_loss(trainer.model, batch, 0.1).backward()
    assert sums["flops"] == pytest.approx(counter.get_total_flops(), rel=0.02)


def test_slow_loading_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    collate = batching.collate

    def slow(*args: object) -> Batch:
        time.sleep(0.02)
        return collate(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(batching, "collate", slow)
    assert step_facts(TINY, QUICK)["loading_seconds"] >= 0.02


def test_the_mean_of_a_step_is_not_that_of_a_few_batches() -> None:
    """One of the first five steps of the base model is less than half as large as the others."""
    base = RECIPES["wmt14-base"]
    tokens = step_facts(base, BenchmarkOptions(choose_device("cpu"), threads=1))["target_tokens"]
    assert tokens > 0.95 * base.training.batch_tokens


def test_a_model_that_could_not_be_compiled_is_not_measured_as_compiled(
    in_process: None, random_training_data: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformer.training.trainer.compile_with_fallback", lambda *_: None)
    rows = measured(options=replace(QUICK, compiled=True))
    for name in ("ours", "torch.nn.Transformer"):
        assert (rows[name].speeds, rows[name].error) == ([], "failed: it could not be compiled")


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_baseline_takes_the_same_steps(norm: Norm, data: Path) -> None:
    """Without dropout: the same weights after two steps with the same batches, clipping and Adam."""
    training = replace(TINY.training, gradient_accumulation_steps=2, max_grad_norm=0.1)
    recipe = replace(TINY, model=replace(SHAPE, norm=norm), training=training)
    ours, theirs = trainer_of(recipe, data), trainer_of(recipe, data)
    replaced = weakref.ref(theirs.model)
    use_torch_transformer(theirs)
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
    use_torch_transformer(trainer)
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
    found = measured(rounds=2)
    warm_up = WARM_UP_ROUNDS * STEPS
    assert taken == ["ours"] * warm_up + ["theirs"] * warm_up + (["ours"] * STEPS + ["theirs"] * STEPS) * 2
    for name in ("ours", "torch.nn.Transformer", "matrix products alone"):
        assert len(found[name].speeds) == 2
    assert found["data"] == "random"


def test_a_round_counts_the_target_tokens_of_its_steps(random_training_data: None, data: Path) -> None:
    steps = module._training_steps(TINY, QUICK)
    batches = trainer_of(TINY, data).batches
    for number in range(3):
        assert steps(number) == sum(next(batches).n_tokens for _ in range(STEPS))


def test_batches_of_random_data_can_be_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU where the first try runs out of memory."""
    fits = iter([False, True])
    monkeypatch.setattr(Trainer, "_fits", lambda *_: next(fits))
    trainers: list[Trainer] = []

    def split(trainer: Trainer) -> None:
        trainers.append(trainer)
        trainer.fit_batch_to_memory()

    assert module._training_steps(TINY, QUICK, change=split)(0) > 0
    assert trainers[0].progress.gradient_accumulation_steps == 2


def test_products_count_as_the_training_that_has_their_flops() -> None:
    """Each product of two 256 × 256 matrices has 2 · 256³ FLOPs."""
    assert module._matrix_products(QUICK, tokens_per_flop=0.5)(0) == module.MATMULS * 256**3


def test_the_recipes_own_data_is_used_where_it_is_prepared(in_process: None) -> None:
    recipe = replace(TINY, data=DataConfig("copy", max_train_pairs=200), model=replace(SHAPE, vocab_size=57))
    lengths = prepare(recipe.data, 57).tokens("train")[1].lengths()
    found = measured(recipe)
    assert found["data"] == "prepared" and found["ours"].speeds
    assert found["target_tokens"] <= 300 < lengths.sum(), "an epoch has several steps"
    with module._training_data(recipe, QUICK) as data:
        assert len(data.tokens("train")[0]) == 200


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
    options = BenchmarkOptions(Device(torch.device(device)), 1, quick=quick)
    assert step_tokens(RECIPES[name], options) == tokens


def test_a_batch_that_would_take_minutes_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = sum(p.numel() for p in Transformer(SHAPE).parameters())
    monkeypatch.setattr(module, "QUICK_FLOPS", 6 * parameters * 120.5)
    facts = training("tiny", TINY, QUICK).facts
    assert (facts["batch_tokens"], facts["recipe_batch_tokens"]) == (120, 300)
    assert 80 < facts["target_tokens"] <= 120
    monkeypatch.setattr(module, "QUICK_FLOPS", 1)
    assert step_tokens(TINY, QUICK) == 1


@pytest.fixture
def threads() -> Iterator[int]:
    """The number of threads, restored afterwards."""
    threads = torch.get_num_threads()
    yield threads
    torch.set_num_threads(threads)


def test_the_number_of_threads_is_set(threads: int) -> None:
    next(run_benchmarks(["copy"], replace(QUICK, threads=threads + 1), rounds=1, progress=False))
    assert torch.get_num_threads() == threads + 1


def test_memory_that_runs_out_is_reported(in_process: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def step(self: Trainer) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(Trainer, "step", step)
    _, *texts = run_benchmarks(["copy"], QUICK, rounds=1, progress=False)
    (text,) = texts  # nothing follows from a speed that wasn't measured
    assert rows_of(text)["ours"][0] == "failed: CUDA out of memory. Tried to allocate 20.00 GiB"


@pytest.mark.parametrize("after", [0, WARM_UP_ROUNDS * STEPS + 1])
def test_a_baseline_out_of_memory_is_reported(in_process: None, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    calls: list[int] = []
    forward = ModelWithCrossEntropy.forward

    def limited(self: ModelWithCrossEntropy, *args: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) > after:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, *args)

    monkeypatch.setattr(ModelWithCrossEntropy, "forward", limited)
    found = measured(rounds=3)
    assert len(found["ours"].speeds) == 3 and len(calls) == after + 1
    assert found["torch.nn.Transformer"] == Measurement("torch.nn.Transformer", error="failed: CUDA out of memory")


def test_the_command_measures_a_recipe_and_a_benchmark(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = tmp_path / "speed.json"
    words = ["copy", "train", "--quick", "--device", "cpu", "--threads", "1", "--rounds", "2"]
    main(["bench", *words, "--output", str(output)])
    printed, written = capsys.readouterr().out, json.loads(output.read_text())
    assert {*provenance("cpu"), "rounds", "quick", "benchmarks"} == set(written)
    copy, train = written["benchmarks"]
    assert (copy["name"], copy["parameters"], copy["steps"], copy["compiled"]) == ("copy", 237_120, 600, False)
    ours, theirs, products = copy["implementations"]
    assert len(ours["speeds"]) == len(theirs["speeds"]) == len(products["speeds"]) == 2
    assert ours["peak_memory"] > 16 * 237_120  # weights, gradients and Adam's two moments, in four bytes each
    assert theirs["peak_memory"] > 16 * 237_120 and products["peak_memory"] is None
    assert "copy: training steps, 237,120 parameters\n" in printed
    assert rows_of(printed)["target tokens per step"] == ["2,000", "recipe: 2,000"]
    assert train["name"] == "train" and len(train["implementations"]) == 2
    assert printed.count("whole training") == 1, "the small model of the benchmark is no recipe"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("wmt14-bas", "there is no benchmark or recipe 'wmt14-bas'; did you mean wmt14-base?"),
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
    texts = run_benchmarks(["copy"], QUICK, rounds=1, output=tmp_path, progress=False)
    with pytest.raises(UserError, match=r"cannot write .*: it is a folder"):
        next(texts)


def test_a_disk_that_becomes_full_costs_no_result(
    in_process: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("transformer.files.write_atomically", no_room)
    texts = run_benchmarks(["copy"], QUICK, rounds=1, output=tmp_path / "x.json", progress=False)
    next(texts)  # where and how it is measured
    assert "target tokens/s" in next(texts) and "whole training" in next(texts)
    with pytest.raises(UserError, match=r"cannot write .*x\.json: No space left on device"):
        next(texts)
