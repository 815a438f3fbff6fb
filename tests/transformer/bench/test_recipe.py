"""How fast a recipe trains: what is counted is right, what is slow is noticed, and the table tells of both."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from transformer.bench import recipe as module
from transformer.bench.contests import Setting
from transformer.bench.recipe import (
    COUNTED,
    NOT_MEASURED,
    RIVAL_FULL,
    WARM_UP,
    Measured,
    Round,
    TorchLoss,
    batch_tokens,
    bench_recipes,
    flop_a_cell,
    load,
    measure,
    product,
    table,
    torch_trainer,
)
from transformer.cli import main
from transformer.config import ModelConfig, TrainingConfig
from transformer.data import batching
from transformer.data.batching import Batch
from transformer.data.prepare import DataConfig, PreparedData, prepare
from transformer.data.tokenizer import PAD
from transformer.device import Device, choose_device
from transformer.errors import UserError
from transformer.model import Transformer
from transformer.provenance import provenance
from transformer.recipes import RECIPES, Recipe
from transformer.training.distributed import ProcessGroup
from transformer.training.trainer import Trainer

QUICK = Setting(choose_device("cpu"), threads=1, quick=True)
SHAPE = ModelConfig(60, d_model=32, n_heads=4, d_ff=96, n_layers=2, dropout=0.0, max_length=64)
TINY = Recipe("", DataConfig("copy"), SHAPE, TrainingConfig(steps=7200, batch_tokens=300))


@pytest.fixture(autouse=True)
def nothing_prepared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRANSFORMER_DATA", str(tmp_path / "data"))


def trainer_of(folder: Path, recipe: Recipe = TINY, device: Device = QUICK.device) -> Trainer:
    folder.mkdir(exist_ok=True)
    data, _ = module._data(recipe, folder, QUICK)
    return Trainer(recipe.model, recipe.training, data, device, ProcessGroup(0, 1, device.device))


def by_hand(config: ModelConfig, batch: Batch) -> int:
    """FLOP forward and backward: a product of (n, k) and (k, m) is 2nkm, and has two like it backward."""
    d, ff, n = config.d_model, config.d_ff, config.n_layers
    rows, s = batch.source.shape
    t = batch.labels.size(1)
    encoder = rows * s * (4 * d * d + 2 * d * ff)  # query, key, value, output; feed-forward
    decoder = rows * t * (4 * d * d + 2 * d * d + 2 * d * ff) + rows * s * 2 * d * d  # the memory's keys and values
    attention = rows * (s * s + t * t + t * s) * 2 * d  # scores, weighted sum; all heads together are d wide
    return 3 * 2 * (n * (encoder + decoder + attention) + rows * t * d * config.vocab_size)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_flop_are_those_of_the_formula(norm: str, precision: str, tmp_path: Path) -> None:
    recipe = replace(TINY, model=replace(SHAPE, norm=norm))
    trainer = trainer_of(tmp_path / "store", recipe, choose_device("cpu", precision))  # type: ignore[arg-type]
    counted = flop_a_cell(trainer)
    batches = [next(trainer.batches) for _ in range(COUNTED)]  # the counter took copies
    cells = sum(batch.source.numel() + batch.labels.numel() for batch in batches)
    assert counted * cells == pytest.approx(sum(by_hand(recipe.model, batch) for batch in batches), rel=1e-9)
    assert all(p.grad is None for p in trainer.model.parameters())
    assert {layer.form for layer in trainer.model.modules() if hasattr(layer, "form")} == {"fused"}


def test_flop_are_about_six_a_parameter_and_token() -> None:
    """In the paper's base model: each parameter is used once a token, attention's own products are few."""
    config, batch = ModelConfig(), Batch(*(torch.ones(40, 25, dtype=torch.long) for _ in range(3)))
    assert by_hand(config, batch) == pytest.approx(6 * 63_082_496 * 40 * 25, rel=0.03)


def measured(**changes: object) -> Measured:
    """Two rounds with numbers to calculate with."""
    rounds = [
        Round(900, 1000, 2000, loader_seconds=0.1, seconds=1.0, rival_seconds=2.0, product_flops=8e6),
        Round(800, 900, 2000, loader_seconds=0.6, seconds=2.0, rival_seconds=2.0, product_flops=1e7),
    ]
    facts = {
        "recipe": "any",
        "parameters": 1234,
        "steps": 7200,
        "full_batch_tokens": 1000,
        "batch_tokens": 1000,
        "accumulate": 1,
        "compiled": False,
        "data": "random: of no meaning",
        "flop_a_cell": 1500.0,
        "product": "the best of 10 products",
        "peak_memory": 3 * 2**20,
        "rounds": rounds,
    }
    return Measured(**{**facts, **changes})  # type: ignore[arg-type]


def test_figures() -> None:
    assert measured().figures() == pytest.approx(
        {
            "milliseconds_a_step": 1500,
            "target_tokens_per_second": (900 + 400) / 2,
            "tokens_per_second": (1900 + 850) / 2,
            "padding_share": 1 - 3600 / 4000,
            "flop_a_step": 3e6,
            "flops": (3e6 + 1.5e6) / 2,
            "peak_flops": 1e7,
            "peak_share": 0.225,
            "loader_share": (0.1 + 0.3) / 2,
            "hours": 7200 * 1.5 / 3600,
            "rival_ratio": 1.5,
        }
    )


def test_hours_of_smaller_batches_come_from_tokens_a_second() -> None:
    assert measured(full_batch_tokens=6500).figures()["hours"] == pytest.approx(7200 * (6500 / 650) / 3600)


def rows_of(text: str) -> dict[str, tuple[str, str]]:
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    return {what: (here, which) for what, here, which in cells}


def test_the_table_says_what_was_measured() -> None:
    rows = rows_of(table(measured()))
    assert {what: here for what, (here, _) in rows.items()} == {
        "what": "here",
        "data": "random",
        "target tokens in a step": "1,000",
        "batches in a step": "1",
        "compiled": "no",
        "a step": "1,500 ms",
        "target tokens/s": "650",
        "all tokens/s": "1,375",
        "padding": "10.0%",
        "work in a step": "0.003 GFLOP",
        "work done": "0.00225 GFLOP/s",
        "the device's peak": "0.01 GFLOP/s",
        "share of the peak": "22.5%",
        "peak memory": "3 MiB",
        "loader": "20.0%",
        "the recipe here": "3 hours",
        "torch.nn.Transformer": "1.50 ×",
    }
    assert rows["the device's peak"][1] == "the best of 10 products" and rows["data"][1] == "of no meaning"
    assert rows["the recipe here"][1] == "7,200 steps, validation not counted"
    assert rows["target tokens in a step"][1] == "at most; the recipe's"
    assert rows_of(table(measured(steps=1440)))["the recipe here"][0] == "36 minutes"
    assert module._flop(1e12) == "1 TFLOP" and module._flop(9.8e14) == "980 TFLOP"


def test_the_table_says_what_was_not_measured() -> None:
    rounds = [replace(this, rival_seconds=None) for this in measured().rounds]
    rows = rows_of(
        table(
            measured(rounds=rounds, peak_memory=None, rival_missing=RIVAL_FULL, full_batch_tokens=25_000, compiled=True)
        )
    )
    assert rows["peak memory"][0] == NOT_MEASURED and rows["torch.nn.Transformer"] == (NOT_MEASURED, RIVAL_FULL)
    assert "of the recipe's 25,000" in rows["target tokens in a step"][1]
    assert "from target tokens/s" in rows["the recipe here"][1] and "more for" in rows["peak memory"][1]
    assert rows["compiled"][0] == "yes"


def test_a_slow_loader_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = batching.collate
    quick = measure("tiny", TINY, QUICK, steps=2, rival=False, progress=False).figures()

    def slow(*args: object) -> Batch:
        time.sleep(0.2)
        return usual(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(batching, "collate", slow)
    figures = measure("tiny", TINY, QUICK, steps=2, rival=False, progress=False).figures()
    assert quick["loader_share"] < 0.3 and figures["loader_share"] > 0.5
    assert figures["milliseconds_a_step"] > 200


def test_load_looks_ahead_at_what_the_next_steps_will_take(tmp_path: Path) -> None:
    recipe = replace(TINY, training=replace(TINY.training, gradient_accumulation_steps=2))
    trainer = trainer_of(tmp_path / "store", recipe)
    trainer.step()
    rounds = load(trainer, 3)
    for this in rounds:
        batches = [next(trainer.batches) for _ in range(2)]
        assert this.target_tokens == sum(int((b.labels != PAD).sum()) for b in batches)
        assert this.source_tokens == sum(int((b.source != PAD).sum()) for b in batches)
        assert this.cells == sum(b.source.numel() + b.decoder_input.numel() for b in batches)
        assert 250 < this.target_tokens <= 300 and this.loader_seconds > 0


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_rival_takes_the_same_steps(norm: str, tmp_path: Path) -> None:
    """Without dropout: the same weights after two steps of the same batches, clipping and Adam."""
    recipe = replace(
        TINY,
        model=replace(SHAPE, norm=norm),
        training=replace(TINY.training, gradient_accumulation_steps=2, max_grad_norm=0.1),
    )
    ours = trainer_of(tmp_path / "store", recipe)
    theirs = torch_trainer(ours, compiled=False)
    before = ours.model.source_embedding.weight.clone()
    for _ in range(2):
        theirs.step()
    torch.testing.assert_close(ours.model.source_embedding.weight, before)
    for _ in range(2):
        ours.step()
    assert theirs.progress.loss_sum == pytest.approx(ours.progress.loss_sum)
    assert theirs.progress.target_tokens == ours.progress.target_tokens
    after = theirs.model.embedding.weight  # type: ignore[attr-defined]
    torch.testing.assert_close(after, ours.model.source_embedding.weight, atol=1e-7, rtol=1e-4)
    assert not torch.equal(after, before)


def test_batches_that_were_halved_are_told_and_are_the_rivals_too(tmp_path: Path) -> None:
    """On a GPU whose memory is small, `Trainer.fit_batch_to_memory` has changed how many batches a step has."""
    ours = trainer_of(tmp_path / "store")
    ours.progress.accumulate = 4
    assert torch_trainer(ours, False).progress.accumulate == 4
    recipe = replace(TINY, training=replace(TINY.training, gradient_accumulation_steps=2))
    assert measure("tiny", recipe, QUICK, steps=1, rival=False, progress=False).accumulate == 2


def test_the_rival_drops_what_ours_drops(tmp_path: Path) -> None:
    ours = trainer_of(tmp_path / "store", replace(TINY, model=replace(SHAPE, dropout=0.1)))
    dropped = [m for m in torch_trainer(ours, False).model.modules() if isinstance(m, torch.nn.Dropout) and m.p > 0]
    assert len(dropped) == sum(isinstance(m, torch.nn.Dropout) and m.p > 0 for m in ours.model.modules())


def test_ours_and_the_rival_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    took: list[str] = []
    usual = Trainer.step

    def step(self: Trainer) -> None:
        took.append("theirs" if isinstance(self.eager_loss, TorchLoss) else "ours")
        usual(self)

    monkeypatch.setattr(Trainer, "step", step)
    found = measure("tiny", TINY, QUICK, steps=2, progress=False)
    assert took == ["ours"] * WARM_UP + ["theirs"] * WARM_UP + ["ours", "theirs"] * 2
    assert all(this.rival_seconds and this.product_flops > 1e6 for this in found.rounds)
    assert found.product == "the best product of two 256 × 256 matrices in float32"
    assert not found.compiled and not found.rival_compiled and found.data.startswith("random: ")


def test_a_product_is_two_flop_a_term(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([3.0, 0.5, 2.0, 1.0, 4.0])
    monkeypatch.setattr(module, "_timed", lambda *_: next(seconds))
    assert product(QUICK)[0]() == 2 * 256**3 / 0.5


def test_the_recipes_own_data_is_taken_where_it_is_prepared(tmp_path: Path) -> None:
    recipe = replace(TINY, data=DataConfig("copy", max_train_pairs=200), model=replace(SHAPE, vocab_size=57))
    prepared = prepare(recipe.data, 57)
    found = measure("copy", recipe, QUICK, steps=1, rival=False, progress=False)
    assert found.data == f"the recipe's: prepared in {prepared.folder.name}"


def test_random_data_is_like_the_recipes(tmp_path: Path) -> None:
    module._data(TINY, tmp_path, QUICK)
    sources, targets = PreparedData(tmp_path).tokens("train")
    n_source, n_target = sources.lengths(), targets.lengths()
    assert len(n_source) == len(n_target) == 5000
    assert abs(n_source.mean() - 25) < 1 and abs(n_source.std() - 12) < 1
    assert abs(n_source - n_target).max() == 3 and max(n_source.max(), n_target.max()) < SHAPE.max_length
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
    setting = Setting(Device(torch.device(device)), 1, quick)
    parameters = {"wmt14-base": 63_082_496, "copy": 237_120}[name]
    assert batch_tokens(RECIPES[name], parameters, setting) == tokens
    assert batch_tokens(RECIPES[name], 10**15, QUICK) == 1


def test_a_batch_that_would_take_minutes_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = sum(p.numel() for p in Transformer(SHAPE).parameters())
    monkeypatch.setattr(module, "QUICK_WORK", 6 * parameters * 120.5)
    found = measure("tiny", TINY, QUICK, steps=2, rival=False, progress=False)
    assert (found.batch_tokens, found.full_batch_tokens) == (120, 300)
    assert all(80 < this.target_tokens <= 120 for this in found.rounds)


def test_as_many_threads_as_told() -> None:
    usual = torch.get_num_threads()
    try:
        next(bench_recipes({"tiny": TINY}, replace(QUICK, threads=usual + 1), steps=1, progress=False))
        assert torch.get_num_threads() == usual + 1
    finally:
        torch.set_num_threads(usual)


def test_peak_memory_is_at_least_weights_gradients_and_moments() -> None:
    recipe = replace(TINY, model=ModelConfig(40_000, d_model=64, n_heads=4, d_ff=96, n_layers=1))
    found = measure("wide", recipe, QUICK, steps=1, rival=False, progress=False)
    assert found.parameters > 40_000 * 64
    assert found.peak_memory is not None
    assert 16 * found.parameters < found.peak_memory < 16 * found.parameters + 200 * 2**20


FULL = "CUDA out of memory. Tried to allocate 20.00 GiB"


def test_memory_that_runs_out_says_what_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (torch.OutOfMemoryError(FULL), RuntimeError("DefaultCPUAllocator: not enough memory: you tried")):

        def step(self: Trainer, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(Trainer, "step", step)
        with pytest.raises(
            UserError,
            match=r"memory is full: .*train tiny --training.gradient-accumulation-steps 2, .*(Cuda|CUDA|enough)",
        ):
            measure("tiny", TINY, QUICK, steps=1, progress=False)
    monkeypatch.setattr(Trainer, "step", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        measure("tiny", TINY, QUICK, steps=1, progress=False)


@pytest.mark.parametrize("after", [0, WARM_UP + 1])
def test_a_rival_that_finds_no_room_costs_ours_nothing(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    usual, calls = TorchLoss.forward, []

    def forward(self: TorchLoss, *args: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) > after:
            raise torch.OutOfMemoryError(FULL)
        return usual(self, *args)

    monkeypatch.setattr(TorchLoss, "forward", forward)
    found = measure("tiny", TINY, QUICK, steps=3, progress=False)
    assert found.rival_missing == RIVAL_FULL and len(calls) == after + 1
    assert all(this.seconds > 0 for this in found.rounds)
    assert (rows_of(table(found))["torch.nn.Transformer"] == (NOT_MEASURED, RIVAL_FULL)) == (after == 0)


def test_the_command_measures_a_recipe(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = tmp_path / "speed.json"
    main(["bench", "copy", "--quick", "--device", "cpu", "--threads", "1", "--steps", "2", "--output", str(output)])
    told, kept = capsys.readouterr().out, json.loads(output.read_text())
    assert {*provenance("cpu"), "steps", "recipes"} == set(kept)
    (found,) = kept["recipes"]
    assert found["recipe"] == "copy" and found["parameters"] == 237_120 and found["steps"] == 600
    assert len(found["rounds"]) == 2 and found["figures"]["hours"] > 0 and found["figures"]["rival_ratio"] > 0
    assert "copy: 237,120 parameters, 600 steps" in told and "QUICK" in told and "in turn with the rival" in told
    assert rows_of(told)["target tokens in a step"] == ("2,000", "at most; the recipe's")


def test_without_a_rival_nothing_is_said_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    main(["bench", "copy", "--quick", "--device", "cpu", "--steps", "1", "--no-rival"])
    told = capsys.readouterr().out
    assert "torch.nn.Transformer" not in told and "rival" not in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("copy train", "contests and recipes are measured apart: name either contests or recipes"),
        ("wmt14-bas", "there is no contest or recipe 'wmt14-bas'; did you mean wmt14-base?"),
        ("copy --rounds 3", "--rounds is for contests; for recipes say --steps"),
        ("train --steps 3", "--steps, --compile and --no-rival are for recipes; for contests there is --rounds"),
        ("train --no-rival", "--steps, --compile and --no-rival are for recipes; for contests there is --rounds"),
        ("--compile yes", "--steps, --compile and --no-rival are for recipes; for contests there is --rounds"),
        ("copy --steps 0", "steps must be at least 1; got 0"),
        ("copy --threads 0", "threads must be at least 1; got 0"),
        ("copy --output no/such/x.json", "cannot write no/such/x.json: there is no folder no/such; make it, or name"),
        ("train --output no/such/x.json", "cannot write no/such/x.json: there is no folder no/such; make it, or name"),
    ],
)
def test_mistakes(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", *words.split()])
    printed = capsys.readouterr()
    assert stopped.value.code == 2 and printed.out == "" and printed.err.startswith(f"error: {message}")
    assert len(printed.err.splitlines()) == 1


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    told = bench_recipes({"tiny": TINY}, QUICK, steps=1, rival=False, output=tmp_path, progress=False)
    next(told)
    with pytest.raises(UserError, match="cannot write"):
        next(told)
