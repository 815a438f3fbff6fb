import copy
import io
import itertools
import json
import math
import re
import shutil
import weakref
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from tqdm import tqdm

from tests.transformer.training.compile_on_one_rank import fail_in_backward
from transformer.attention import AttentionImplementation
from transformer.checkpoint import step_checkpoints
from transformer.config import ModelConfig, Positions, TrainingConfig
from transformer.data.batching import Batch, Batches, Sequences, collate
from transformer.data.corpora import sentence_pairs
from transformer.data.prepare import DataConfig, PreparedData, prepare
from transformer.data.tokenizer import EOS, PAD
from transformer.device import Precision, choose_device
from transformer.errors import UserError
from transformer.loss import label_smoothed_cross_entropy
from transformer.model import Transformer
from transformer.training.compilation import compile_with_fallback
from transformer.training.display import BAR_FORMAT, Display
from transformer.training.distributed import DistributedContext
from transformer.training.loop import train
from transformer.training.objective import ModelWithLoss, batch_loss
from transformer.training.optimizer import optimizer_state
from transformer.training.progress import is_finished
from transformer.training.run_folder import read_log, read_metrics
from transformer.training.state import restore_state, save_state
from transformer.training.trainer import Trainer
from transformer.training.validation import validate
from transformer.translator import Translator

SHAPE = ModelConfig(57, 32, 4, 64, 1, dropout=0.0, max_length=64)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_DATA", str(tmp_path_factory.mktemp("data")))
        return prepare(DataConfig("copy", max_train_pairs=500), 57)


def run(folder: Path, data: PreparedData, force: bool = False, **settings: object) -> Translator:
    defaults = {"steps": 4, "batch_tokens": 300, "warmup_steps": 2, "validate_every": 2, "validation_sentences": 5}
    config = TrainingConfig(**{**defaults, **settings})  # type: ignore[arg-type]
    return train(folder, data, SHAPE, config, choose_device("cpu"), on_validation=lambda _: None, force=force)


def weights(model: Transformer) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def one_batch() -> Batch:
    sources = Sequences.pack([[4, 5, 6, 7], [8, 9]])
    return collate(sources, sources, [0, 1])


def test_padding_does_not_change_the_loss() -> None:
    model, batch = Transformer(SHAPE).eval(), one_batch()
    wider = Batch(*(torch.nn.functional.pad(t, (0, 3)) for t in (batch.source, batch.decoder_input, batch.labels)))
    alone = [collate(*[Sequences.pack([ids])] * 2, [0]) for ids in ([4, 5, 6, 7], [8, 9])]
    expected = sum(batch_loss(model, b, 0.1) for b in alone)
    torch.testing.assert_close(batch_loss(model, batch, 0.1), expected)
    torch.testing.assert_close(batch_loss(model, wider, 0.1), expected)


def test_the_loss_is_that_of_the_logits_at_real_positions() -> None:
    model, batch = Transformer(SHAPE).eval(), one_batch()
    real = batch.labels != PAD
    logits = model(batch.source, batch.decoder_input)[real]
    torch.testing.assert_close(
        batch_loss(model, batch, 0.1), label_smoothed_cross_entropy(logits, batch.labels[real], 0.1)
    )


@pytest.mark.parametrize("attention", ["fused", "explicit"])
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_in_training_a_causal_mask_alone_is_enough(attention: AttentionImplementation, positions: Positions) -> None:
    """Without the padding mask, only the outputs at padding differ: the loss and all gradients are the same."""
    model = Transformer(replace(SHAPE, n_layers=2, attention=attention, positions=positions))
    sides = [Sequences.pack([list(range(4, 4 + n)) for n in lengths]) for lengths in ([5, 9, 2], [7, 3, 1])]
    batch = collate(sides[0], sides[1], range(3))
    outputs, losses, gradients = [], [], []
    for mode in (model.train(), copy.deepcopy(model).eval()):  # dropout is 0 in both
        memory, mask = mode.encode(batch.source)
        outputs.append(mode.decode(batch.decoder_input, memory, mask))
        losses.append(batch_loss(mode, batch, 0.1))
        losses[-1].backward()
        gradients.append([p.grad for p in mode.parameters()])
    real = batch.labels != PAD
    torch.testing.assert_close(outputs[0][real], outputs[1][real])
    assert not torch.allclose(outputs[0][~real], outputs[1][~real], atol=1e-2), "or both have the same mask"
    torch.testing.assert_close(losses[0], losses[1])
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-5, rtol=1e-4)


def test_one_batch_can_be_memorised() -> None:
    model, batch = Transformer(SHAPE), one_batch()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(150):
        loss = batch_loss(model, batch, 0.0) / batch.n_tokens
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert loss.item() < 0.05


def test_the_same_seed_gives_the_same_model_and_another_another(tmp_path: Path, data: PreparedData) -> None:
    first, again, other = (run(tmp_path / n, data, seed=s).model for n, s in (("a", 1), ("b", 1), ("c", 2)))
    assert torch.equal(weights(first), weights(again))
    assert not torch.equal(weights(first), weights(other))


def test_accumulated_batches_have_the_gradient_of_one_large_batch(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batches have different sizes, so a mean of means would differ."""
    sources, targets = data.tokens("train")
    parts = [collate(sources, targets, range(8)), collate(sources, targets, [8, 9])]
    whole = [collate(sources, targets, range(10))]
    gradients: list[torch.Tensor] = []

    def spy(self: torch.optim.Adam) -> None:
        gradients.append(torch.cat([p.grad.flatten() for g in self.param_groups for p in g["params"]]))

    monkeypatch.setattr(torch.optim.Adam, "step", spy)
    for name, batches in (("parts", parts), ("whole", whole)):
        left = list(batches)
        monkeypatch.setattr(Batches, "__next__", lambda _, left=left: left.pop(0))
        run(tmp_path / name, data, steps=1, gradient_accumulation_steps=len(batches), max_grad_norm=0.0)
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-6, rtol=1e-4)


def after_each_step(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """Return a list to which each later step adds its weights."""
    seen: list[torch.Tensor] = []
    step = torch.optim.Adam.step

    def spy(self: torch.optim.Adam) -> None:
        step(self)
        seen.append(torch.cat([p.detach().flatten() for g in self.param_groups for p in g["params"]]))

    monkeypatch.setattr(torch.optim.Adam, "step", spy)
    return seen


def test_the_end_is_the_mean_of_the_last_steps(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = after_each_step(monkeypatch)
    model = run(tmp_path / "mean", data, steps=6, average_steps=3, validate_every=6).model
    torch.testing.assert_close(weights(model), torch.stack(seen[-3:]).mean(0))


@pytest.mark.parametrize("steps", [8, 5])  # in the second case only one of the last two steps comes after the mean
def test_a_run_with_more_steps_ends_with_the_mean_of_its_own_last_steps(
    steps: int, tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path / "run", data, steps=4, average_steps=2)
    seen = after_each_step(monkeypatch)
    model = run(tmp_path / "run", data, force=True, steps=steps, average_steps=2).model
    torch.testing.assert_close(weights(model), torch.stack(seen[-2:]).mean(0))


def test_the_best_checkpoint_is_kept(tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = iter([3.0, 1.0, 2.0])
    monkeypatch.setattr(
        "transformer.training.trainer.validate", lambda *_: {"valid_loss": next(losses), "valid_bleu": 0.0}
    )
    run(tmp_path / "run", data, steps=6)
    best = json.loads((tmp_path / "run" / "best.json").read_text())
    assert best["metrics"]["step"] == 4 and best["training"] == asdict(
        TrainingConfig(6, 300, warmup_steps=2, validate_every=2, validation_sentences=5)
    )
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["valid_loss"] for line in lines] == [3.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"gradient_accumulation_steps": 0},
        {"log_every": 0},
        {"label_smoothing": 1.0},
        {"average_steps": 5},
        {"batch_tokens": -1},
        {"seed": -1},
        {"max_grad_norm": float("nan")},
        {"learning_rate_factor": 0.0},
        {"learning_rate_factor": -1.0},
        {"learning_rate_factor": float("nan")},
        {"learning_rate_factor": float("inf")},
        {"optimizer": "sgd"},
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, object]) -> None:
    (name,) = wrong
    with pytest.raises(UserError, match=re.escape(name)):
        TrainingConfig(**{"steps": 4, **wrong})  # type: ignore[arg-type]


class Full:
    """Makes the loss run out of memory with batches above a size."""

    def __init__(self, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.limit, self.tried, original = limit, [], ModelWithLoss.forward

        def limited(
            module: ModelWithLoss, source: torch.Tensor, decoder_input: torch.Tensor, labels: torch.Tensor
        ) -> torch.Tensor:
            self.tried.append(labels.numel())
            if labels.numel() > self.limit:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")
            return original(module, source, decoder_input, labels)

        monkeypatch.setattr(ModelWithLoss, "forward", limited)


def trainer(data: PreparedData, precision: Precision = "fp32", **settings: object) -> Trainer:
    config = TrainingConfig(**{"steps": 4, "batch_tokens": 1000, "warmup_steps": 2, **settings})  # type: ignore[arg-type]
    return Trainer(SHAPE, config, data, choose_device("cpu", precision), DistributedContext())


def test_batches_are_split_until_they_fit_into_memory(
    data: PreparedData, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, cramped = trainer(data), trainer(data)
    full = Full(400, monkeypatch)
    cramped.fit_batch_to_memory()
    assert cramped.progress.gradient_accumulation_steps == 4
    assert max(full.tried) > 400 > full.tried[-1]
    assert "each process now splits its share into 4 micro-batches" in capsys.readouterr().err
    full.tried.clear()
    tokens = []
    for _ in range(4):
        cramped.step()
        tokens.append(cramped.progress.target_tokens)
    assert max(full.tried) <= 400 and len(full.tried) == 16
    full.limit = 10_000
    for _ in range(4):
        plain.step()
    assert 0.8 < cramped.progress.target_tokens / plain.progress.target_tokens < 1.2


def test_a_resumed_run_splits_its_batches_too(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine with less memory: it resumes at the same position, in smaller batches."""
    before = trainer(data)
    for _ in range(2):
        before.step()
    save_state(before, tmp_path)
    after = trainer(data)
    restore_state(after, tmp_path, "step-0000002")
    random = torch.get_rng_state()
    Full(400, monkeypatch)
    after.fit_batch_to_memory()
    assert after.progress.gradient_accumulation_steps == 4
    used = np.concatenate(before.batches.plan[: before.batches.batch_index])
    remaining = np.concatenate(after.batches.plan)
    assert sorted([*used, *remaining]) == list(range(len(data.tokens("train")[0]))), "each pair of the epoch once"
    assert torch.equal(torch.get_rng_state(), random) and all(p.grad is None for p in after.model.parameters())


@pytest.mark.parametrize(("accumulation", "copies"), [(1, 2), (2, 3)])
def test_whether_a_batch_fits_is_tried_with_all_that_a_step_holds(
    accumulation: int, copies: int, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adam's two moments, and from the second batch of a step on its gradients; all of it is free afterwards."""
    training = trainer(data, gradient_accumulation_steps=accumulation)
    held: list[weakref.ref[torch.Tensor]] = []
    seen = []
    monkeypatch.setattr(torch, "empty_like", lambda p: held.append(weakref.ref(copy := p.detach().clone())) or copy)
    monkeypatch.setattr(training, "_dry_run", lambda *_: seen.append(sum(one() is not None for one in held)))
    training.fit_batch_to_memory()
    assert seen == [copies * len(list(training.model.parameters()))]
    assert all(one() is None for one in held)


def test_an_initial_model_of_another_architecture_is_refused(data: PreparedData) -> None:
    other = Transformer(replace(SHAPE, n_layers=2))
    with pytest.raises(UserError, match=r"^the initial model has another architecture: model.n_layers: 2, now 1$"):
        Trainer(SHAPE, TrainingConfig(), data, choose_device("cpu"), DistributedContext(), initial_model=other)
    same_shapes = Transformer(replace(SHAPE, n_heads=2 * SHAPE.n_heads))  # its weights fit, but mean something else
    with pytest.raises(UserError, match=r"model\.n_heads"):
        Trainer(SHAPE, TrainingConfig(), data, choose_device("cpu"), DistributedContext(), initial_model=same_shapes)


@pytest.mark.parametrize(
    ("losses", "finished"),
    [
        ([3.0, 2.0, 2.5], False),
        ([3.0, 2.0, 2.0], False),
        ([2.0, 2.0, 2.0], True),
        ([math.nan, 2, 3, 3.1], True),
        ([math.inf, math.inf], True),
    ],
)
def test_patience_is_judged_by_the_metrics_as_by_the_trainer(losses: list[float], finished: bool) -> None:
    rows = [{"step": step, "valid_loss": loss} for step, loss in enumerate(losses)]
    assert is_finished(rows, TrainingConfig(patience=2)) is finished


def test_a_model_that_never_fits_is_refused(data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    Full(10, monkeypatch)
    with pytest.raises(UserError, match=r"not even micro-batches of \d+ tokens fit"):
        trainer(data).fit_batch_to_memory()


def test_running_out_of_memory_later_suggests_a_setting(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    Full(10, monkeypatch)
    with pytest.raises(UserError, match=r"the device is out of memory: try --training\.gradient-accumulation-steps 6"):
        run(tmp_path / "run", data, gradient_accumulation_steps=3)


class Poisoned:
    """Makes the loss NaN at some steps."""

    def __init__(self, steps: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
        original = ModelWithLoss.forward

        def forward(self: ModelWithLoss, *batch: torch.Tensor) -> torch.Tensor:
            self.step = getattr(self, "step", 0) + 1
            return original(self, *batch) * (float("nan") if self.step in steps else 1.0)

        monkeypatch.setattr(ModelWithLoss, "forward", forward)


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_step_whose_gradient_is_not_finite_is_skipped(
    precision: Precision, optimizer: str, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = trainer(data, precision, optimizer=optimizer)
    Poisoned({2}, monkeypatch)
    training.step()
    before = weights(training.model).clone()
    moments = {name: tensor.clone() for name, tensor in optimizer_state(training.optimizers).items()}
    training.step()
    assert torch.equal(weights(training.model), before) and training.totals.skipped_steps == 1
    assert all(torch.equal(moments[name], tensor) for name, tensor in optimizer_state(training.optimizers).items())
    training.step()
    assert not torch.equal(weights(training.model), before) and training.totals.skipped_steps == 0
    assert torch.isfinite(weights(training.model)).all()


def test_a_resumed_run_continues_to_count_skipped_steps(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = trainer(data), trainer(data)
    Poisoned({1, 2}, monkeypatch)
    for _ in range(2):
        before.step()
    save_state(before, tmp_path)
    restore_state(after, tmp_path, "step-0000002")
    assert after.totals.skipped_steps == after.progress.skipped_steps == 2
    after.step()
    assert after.totals.skipped_steps == 3


def test_a_resumed_run_continues_with_its_loss_scale(tmp_path: Path, data: PreparedData) -> None:
    before, after = trainer(data, "fp16"), trainer(data, "fp16")
    before.scaler = torch.amp.GradScaler("cpu", 1024.0)
    save_state(before, tmp_path)
    restore_state(after, tmp_path, "step-0000000")
    assert after.scaler.get_scale() == 1024


def test_the_weights_are_the_same_on_all_ranks_and_the_random_numbers_are_not(data: PreparedData) -> None:
    config, device = TrainingConfig(steps=4, batch_tokens=1000), choose_device("cpu")
    first = Trainer(SHAPE, config, data, device, DistributedContext(0, 2))
    seed = torch.initial_seed()
    second = Trainer(SHAPE, config, data, device, DistributedContext(1, 2))
    assert torch.equal(weights(first.model), weights(second.model)) and torch.initial_seed() != seed


def test_a_skipped_step_does_not_enter_the_training_loss(data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    training = trainer(data, batch_tokens=200)
    Poisoned({2}, monkeypatch)
    tokens, before = [], 0
    for _ in range(3):
        training.step()
        tokens.append(training.progress.target_tokens - before)
        before = training.progress.target_tokens
    row = training.log_row()
    assert math.isfinite(row["train_loss"]) and training.progress.loss_tokens == tokens[0] + tokens[2]


def test_a_step_is_the_papers_adam_with_a_clipped_gradient(data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    """§5.3; the learning rate is exactly that of the step."""
    training = trainer(data, max_grad_norm=0.01, learning_rate_factor=1.7)
    seen: list[tuple[float, dict[str, object]]] = []
    original = torch.optim.Adam.step

    def spy(self: torch.optim.Adam) -> None:
        (group,) = self.param_groups
        norm = torch.cat([p.grad.flatten() for p in group["params"]]).norm()
        seen.append((float(norm), {key: group[key] for key in ("betas", "eps", "lr", "weight_decay")}))
        original(self)

    monkeypatch.setattr(torch.optim.Adam, "step", spy)
    training.step()
    training.step()
    for step, (norm, group) in enumerate(seen, 1):
        assert norm == pytest.approx(0.01, rel=1e-3)
        rate = 1.7 * 32**-0.5 * min(step**-0.5, step * 2**-1.5)
        assert group == {"betas": (0.9, 0.98), "eps": 1e-9, "lr": pytest.approx(rate), "weight_decay": 0}


def test_the_training_loss_is_that_of_all_tokens_since_the_last_validation(
    data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = trainer(data, batch_tokens=200)
    sums: list[tuple[float, int]] = []
    original = ModelWithLoss.forward

    def seen(module: ModelWithLoss, *batch: torch.Tensor) -> torch.Tensor:
        loss = original(module, *batch)
        sums.append((float(loss.detach()), Batch(*batch).n_tokens))
        return loss

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(ModelWithLoss, "forward", seen)
            for _ in range(3):
                training.step()
        expected = sum(loss for loss, _ in sums) / sum(n for _, n in sums)
        assert len({n for _, n in sums}) > 1, "batches of unequal size, or a mean of means would pass"
        assert training.validate()["train_loss"] == pytest.approx(expected, rel=1e-5)
        sums.clear()


@pytest.fixture(scope="module")
def reversed_data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    """Pairs whose two sides differ."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_DATA", str(tmp_path_factory.mktemp("reversed")))
        return prepare(DataConfig("reverse", max_train_pairs=60), 57)


def as_text(data: PreparedData, batch: Batch) -> set[tuple[str, str]]:
    """Decode a batch into pairs of sentences."""
    decode = data.tokenizer.decode
    return {
        (decode([t for t in s if t not in (PAD, EOS)]), decode([t for t in e if t not in (PAD, EOS)]))
        for s, e in zip(batch.source.tolist(), batch.labels.tolist(), strict=True)
    }


def test_sources_are_read_and_targets_are_learned(reversed_data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    training = trainer(reversed_data)
    assert as_text(reversed_data, next(training.batches)) <= set(sentence_pairs("reverse", "train", "en-de"))
    seen: list[Batch] = []
    monkeypatch.setattr(
        "transformer.training.validation.batch_loss", lambda _, batch, **__: seen.append(batch) or torch.zeros(())
    )
    monkeypatch.setattr(
        Translator, "greedy_search", lambda _, sentences: [dict(reversed_data.valid)[s] for s in sentences]
    )
    assert training.validate()["valid_bleu"] == pytest.approx(100)
    assert set.union(*(as_text(reversed_data, batch) for batch in seen)) == set(reversed_data.valid)


def test_the_validation_loss_is_the_cross_entropy_without_smoothing_or_dropout(reversed_data: PreparedData) -> None:
    torch.manual_seed(0)
    model = Transformer(replace(SHAPE, dropout=0.5)).train()
    translator = Translator(model, reversed_data.tokenizer)
    config = TrainingConfig(batch_tokens=300, validation_sentences=2, label_smoothing=0.3)
    valid_loss = validate(translator, reversed_data, config)["valid_loss"]
    assert model.training
    model.eval()
    sides = reversed_data.tokens("valid")
    loss, count = 0.0, 0
    for i in range(len(sides[0])):
        one = collate(*sides, [i])
        logits = model(one.source, one.decoder_input)[0].detach()
        loss += float(torch.nn.functional.cross_entropy(logits, one.labels[0], reduction="sum"))
        count += one.n_tokens
    assert valid_loss == pytest.approx(loss / count, rel=1e-5)


def test_processes_share_the_validation_and_get_the_same_loss(
    reversed_data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process sums the loss of its own batches, and all get the loss over all batches."""
    translator = Translator(Transformer(SHAPE), reversed_data.tokenizer)
    config = TrainingConfig(batch_tokens=100, validation_sentences=1)
    alone = validate(translator, reversed_data, config)
    parts: list[list[float]] = []
    monkeypatch.setattr(DistributedContext, "all_reduce", lambda _, numbers: parts.append(list(numbers)) or [4.0, 2.0])
    for rank in range(3):
        assert validate(translator, reversed_data, config, DistributedContext(rank, 3))["valid_loss"] == 2
    loss, tokens = map(sum, zip(*parts, strict=True))
    assert tokens == (reversed_data.tokens("valid")[1].lengths() + 1).sum()
    assert alone["valid_loss"] == pytest.approx(loss / tokens)
    assert all(0 < n < tokens for _, n in parts)


def test_validation_takes_no_larger_batches_than_training_does(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    cramped = trainer(data, batch_tokens=1000, gradient_accumulation_steps=4)
    full = Full(400, monkeypatch)
    cramped.validate()
    assert full.tried and max(full.tried) <= 400
    full.limit = 10
    monkeypatch.setattr(Trainer, "step", lambda self, _: setattr(self.progress, "step", self.progress.step + 1))
    with pytest.raises(UserError, match=r"the device is out of memory: try --training\.gradient-accumulation-steps 2"):
        run(tmp_path / "run", data)


def test_a_failed_start_leaves_the_folder_free_for_other_settings(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "__init__", lambda *_: (_ for _ in ()).throw(UserError("not like this")))
        with pytest.raises(UserError, match="not like this"):
            run(tmp_path / "run", data, seed=1)
    run(tmp_path / "run", data, seed=2)
    assert json.loads((tmp_path / "run" / "recipe.json").read_text())["training"]["seed"] == 2


def test_a_run_without_a_finite_loss_is_explained(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "transformer.training.trainer.validate", lambda *_: {"valid_loss": float("nan"), "valid_bleu": 0.0}
    )
    with pytest.raises(UserError, match="no validation loss was a finite number, so there is no model: start again in"):
        train(tmp_path / "run", data, SHAPE, TrainingConfig(steps=1, batch_tokens=300), choose_device("cpu"))
    assert "the validation loss is not a finite number; if this persists, start again in" in capsys.readouterr().err


def test_too_many_skipped_steps_in_a_row_end_the_run_with_a_diagnosis(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are counted on the device, and found at the next row of the log."""
    Poisoned(set(range(3, 100)), monkeypatch)
    with pytest.raises(UserError, match=r"in 38 steps in a row, up to step 40: start again in another folder"):
        run(tmp_path / "run", data, steps=100, validate_every=100, log_every=10)


def test_a_model_that_cannot_be_compiled_runs_uncompiled(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no C++ compiler\nwas found")

    monkeypatch.setattr(torch, "compile", lambda module, dynamic: broken)
    config = TrainingConfig(steps=4, batch_tokens=300, warmup_steps=2, validate_every=2, validation_sentences=5)
    compiled = train(
        tmp_path / "a", data, SHAPE, config, choose_device("cpu"), on_validation=lambda _: None, compiled=True
    )
    assert (
        capsys.readouterr().err == "compilation failed, so training runs uncompiled, which is slower: no C++ compiler\n"
    )
    assert torch.equal(weights(compiled.model), weights(run(tmp_path / "b", data).model))


def test_a_backward_pass_that_cannot_be_compiled_runs_uncompiled(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch, "compile", lambda module, dynamic: fail_in_backward(module))
    config = TrainingConfig(steps=4, batch_tokens=300, warmup_steps=2, validate_every=2, validation_sentences=5)
    compiled = train(
        tmp_path / "a", data, SHAPE, config, choose_device("cpu"), on_validation=lambda _: None, compiled=True
    )
    assert capsys.readouterr().err == "compilation failed, so training runs uncompiled, which is slower: no kernel\n"
    assert torch.equal(weights(compiled.model), weights(run(tmp_path / "b", data).model))


def test_an_error_that_is_not_the_compilers_is_not_called_a_failed_compilation(
    data: PreparedData, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a failed assertion on a GPU, everything fails, compiled or not."""

    def failed(*_: object) -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr("transformer.training.objective.ModelWithLoss.forward", failed)
    monkeypatch.setattr(torch, "compile", lambda module, dynamic: module)
    training = trainer(data)
    training.compiled = True
    with pytest.raises(RuntimeError, match="device-side assert"):
        training.step()
    assert capsys.readouterr().err == ""


def test_the_memory_of_a_failed_compilation_is_free_when_training_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    attempts: list[weakref.ref[torch.Tensor]] = []

    def run() -> float:
        tensor = torch.zeros(3)
        attempts.append(weakref.ref(tensor))
        if len(attempts) == 2:
            raise torch.OutOfMemoryError("\nCUDA out of memory")
        return 1.0

    monkeypatch.setattr(torch, "compile", lambda module, dynamic: module)
    compile_with_fallback(torch.nn.Identity(), run, DistributedContext())
    assert len(attempts) == 2 and all(one() is None for one in attempts)
    assert capsys.readouterr().err.endswith("slower: CUDA out of memory\n")


@pytest.mark.parametrize(
    ("compiled", "is_right"), [(3.1, True), (2.0, True), (0.0, False), (math.nan, False), (9, False)]
)
def test_a_wrong_compiled_gradient_is_noticed(
    compiled: float, is_right: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """PyTorch 2.11 compiled an earlier version of the loss to code whose gradients were zero."""
    norms, module = iter([3.0, compiled]), torch.nn.Identity()
    monkeypatch.setattr(torch, "compile", lambda module, dynamic: module)
    compile_with_fallback(module, lambda: next(norms), DistributedContext())
    assert (module._compiled_call_impl is not None) == is_right
    shown = capsys.readouterr().err
    assert ("" if is_right else f"slower: the gradient is wrong: its norm is {compiled:.3g}, but 3 uncompiled") in shown
    assert (shown == "") == is_right


def test_a_loss_of_infinity_is_not_the_best(data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    training = trainer(data)
    monkeypatch.setattr("transformer.training.trainer.validate", lambda *_: {"valid_loss": math.inf})
    for _ in range(2):
        training.validate()
    assert training.progress.validations_since_best == 2


def test_compilation_fails_for_all_processes_if_it_fails_in_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Two(DistributedContext):
        def all_reduce(self, numbers: Sequence[float]) -> list[float]:
            return [n + 1 for n in numbers]

    monkeypatch.setattr(torch, "compile", lambda module, dynamic: module)
    module = torch.nn.Identity()
    compile_with_fallback(module, lambda: 1.0, Two(0, 2))
    assert module._compiled_call_impl is None
    assert "which is slower: 1 of 2 processes could not compile it" in capsys.readouterr().err


def test_an_error_after_the_first_compiled_step_is_not_called_a_failed_compilation(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    has_started: list[int] = []

    def fails_later(module: torch.nn.Module, dynamic: bool) -> object:
        def forward(*inputs: object, **options: object) -> object:
            if has_started:
                raise RuntimeError("device-side assert triggered")
            return module(*inputs, **options)

        return forward

    def compile_and_start(*arguments: Any) -> None:
        compile_with_fallback(*arguments)
        has_started.append(1)

    monkeypatch.setattr(torch, "compile", fails_later)
    monkeypatch.setattr("transformer.training.trainer.compile_with_fallback", compile_and_start)
    config = TrainingConfig(steps=4, batch_tokens=300, warmup_steps=2, validate_every=4, validation_sentences=5)
    with pytest.raises(RuntimeError, match="device-side assert"):
        train(tmp_path / "run", data, SHAPE, config, choose_device("cpu"), on_validation=lambda _: None, compiled=True)
    assert "compilation failed" not in capsys.readouterr().err


def test_a_sentence_that_is_too_long_is_refused_before_the_first_step(tmp_path: Path, data: PreparedData) -> None:
    longest = max(side.lengths().max() for split in ("train", "valid") for side in data.tokens(split))
    config = TrainingConfig(steps=1, batch_tokens=300)
    short = replace(SHAPE, max_length=int(longest))
    message = rf"has {longest} tokens, .*--model.max-length {longest + 1}, or .*--data.max-length {longest - 1}"
    with pytest.raises(UserError, match=message):
        train(tmp_path / "run", data, short, config, choose_device("cpu"), on_validation=lambda _: None)
    assert not (tmp_path / "run").exists()
    train(tmp_path / "run", data, replace(short, max_length=int(longest) + 1), config, choose_device("cpu"))


def test_validation_leaves_out_empty_and_long_sentences(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = run(tmp_path / "original", data)
    pairs = data.valid
    odd = [("", "nothing"), (" ", ""), (" ".join(["a"] * 100), "too long"), *pairs]
    expected = [validate(original, data, TrainingConfig(validation_sentences=n)) for n in (5, 4)]
    monkeypatch.setattr(PreparedData, "valid", odd)
    assert [validate(original, data, TrainingConfig(validation_sentences=n)) for n in (5, 4)] == expected
    assert expected[0]["valid_loss"] > 0


def test_validation_translates_sentences_up_to_the_longest_that_fits(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = run(tmp_path / "run", data)
    limit = translator.model.config.max_length
    fits, too_long = (" ".join(["a"] * n) for n in (limit - 1, limit))
    assert [len(translator.tokenizer.encode(sentence)) for sentence in (fits, too_long)] == [limit - 1, limit]
    monkeypatch.setattr(PreparedData, "valid", [(too_long, "a"), (fits, "a")])
    translated: list[str] = []

    def greedy_search(sentences: Sequence[str]) -> list[str]:
        translated.extend(sentences)
        return ["a"] * len(sentences)

    monkeypatch.setattr(translator, "greedy_search", greedy_search)
    validate(translator, data, TrainingConfig())
    assert translated == [fits]


def test_tensorboard_gets_the_metrics_and_the_log(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a run that takes its third step again, because it is interrupted before it has saved it."""
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    config = TrainingConfig(
        steps=4, batch_tokens=300, warmup_steps=2, log_every=1, validate_every=2, validation_sentences=5,
        checkpoint_every=2,
    )  # fmt: skip
    rows: list[dict[str, float]] = []

    def start() -> None:
        train(tmp_path / "a", data, SHAPE, config, choose_device("cpu"), on_validation=rows.append, tensorboard=True)

    with monkeypatch.context() as patch:
        display = Display.log
        patch.setattr(Display, "log", lambda self, row: display(self, row) if row["step"] < 4 else 1 / 0)
        with pytest.raises(ZeroDivisionError):
            start()
    start()
    events = reader.EventAccumulator(str(tmp_path / "a" / "tensorboard"))
    events.Reload()
    for name, expected in (("valid_loss", rows), ("valid_bleu", rows), ("train_loss", read_log(tmp_path / "a"))):
        written = events.Scalars(name)
        assert [event.step for event in written] == [row["step"] for row in expected]
        assert [event.value for event in written] == pytest.approx([row[name] for row in expected])


def test_the_log_has_the_mean_loss_since_the_row_before(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also across a validation, whose own training loss is the mean since the validation before."""
    batches: list[tuple[float, int]] = []
    original = Trainer._backward

    def spy(self: Trainer, step_batches: list[Batch], n_tokens: int) -> torch.Tensor:
        loss = original(self, step_batches, n_tokens)
        batches.append((float(loss), n_tokens))
        return loss

    monkeypatch.setattr(Trainer, "_backward", spy)
    run(tmp_path / "run", data, steps=7, log_every=3, validate_every=4)

    def mean(first: int, last: int) -> float:
        losses, tokens = zip(*batches[first - 1 : last], strict=True)
        return sum(losses) / sum(tokens)

    log = read_log(tmp_path / "run")
    keys = {"step", "train_loss", "learning_rate", "tokens_per_second", "minutes"}
    assert [set(row) for row in log] == [keys, keys] and [row["step"] for row in log] == [3, 6]
    assert [row["train_loss"] for row in log] == pytest.approx([mean(1, 3), mean(4, 6)])
    assert all(row["tokens_per_second"] > 0 for row in log)
    assert [row["train_loss"] for row in read_metrics(tmp_path / "run")] == pytest.approx([mean(1, 4), mean(5, 7)])


def test_the_loss_is_read_from_the_device_only_for_the_log(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading it makes a GPU wait."""
    steps: list[int] = []
    original = Trainer.read_totals
    monkeypatch.setattr(Trainer, "read_totals", lambda self: steps.append(self.progress.step) or original(self))
    run(tmp_path / "run", data, steps=8, log_every=3, validate_every=8)
    assert sorted(set(steps)) == [3, 6, 8]


DISPLAYED = TrainingConfig(
    steps=4, batch_tokens=300, warmup_steps=2, log_every=2, validate_every=4, validation_sentences=5
)


def test_without_a_terminal_there_is_one_line_per_row(
    tmp_path: Path, data: PreparedData, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path / "run", data, SHAPE, DISPLAYED, choose_device("cpu"))
    started, memory, first, second, validation = capsys.readouterr().err.splitlines()
    assert started.startswith("training on cpu in fp32")
    size = r"(\d+|under 1) MB"
    sizes = rf"\d+ MB \(weights {size}, optimiser {size}, activations and gradients {size}\)"
    assert re.fullmatch(rf"memory per device: about {sizes}", memory)
    for line, step in ((first, 2), (second, 4)):
        pattern = rf"step {step}/4  loss \d\.\d{{3}}  lr \d\.\de-0\d  [\d,]+ tokens/s  ETA \d\d:\d\d"
        assert re.fullmatch(pattern, line), line
    assert second.endswith("ETA 00:00")
    assert re.fullmatch(r"step 4/4  validation loss \d\.\d{3} \(not smoothed\)  BLEU \d+\.\d", validation), validation


def test_in_a_terminal_there_is_a_bar(
    tmp_path: Path, data: PreparedData, terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", terminal)
    train(tmp_path / "run", data, SHAPE, DISPLAYED, choose_device("cpu"))
    text = terminal.getvalue()
    assert re.search(r"\rrun: 4/4, loss \d\.\d{3}, lr \d\.\de-0\d, [\d,]+ tokens/s, 00:00 left", text)
    assert re.search(r"\rstep 4/4  validation loss \d\.\d{3} \(not smoothed\)  BLEU \d+\.\d\n", text)
    assert "tokens/s  left" not in text


def test_the_bar_of_a_long_run_fits_into_80_columns() -> None:
    row = "loss 3.912, lr 4.0e-04, 21,345 tokens/s"
    shown = tqdm.format_meter(
        12_345, 100_000, 4 * 3600, ncols=80, prefix="wmt14-base", postfix=row, rate=0.86, bar_format=BAR_FORMAT
    )
    assert shown.startswith(f"wmt14-base: 12345/100000, {row}, 28:18:") and len(shown) <= 80


def test_the_message_after_an_interruption_is_below_the_bar(
    tmp_path: Path, data: PreparedData, terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(Trainer, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", data, SHAPE, DISPLAYED, choose_device("cpu"))
    *_, last, nothing = terminal.getvalue().split("\n")
    assert last == "stopped after step 0, before the first checkpoint: the same command starts from the beginning"
    assert nothing == ""


def test_data_without_its_validation_text_is_noticed_before_the_first_step(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    incomplete = PreparedData(Path(shutil.copytree(data.folder, tmp_path / "copy")))
    (incomplete.folder / "valid.target.txt").unlink()
    with pytest.raises(UserError, match=r"valid\.target\.txt.*: delete its folder and prepare the data again"):
        run(tmp_path / "run", incomplete)
    assert not (tmp_path / "run").exists()


def test_a_run_that_has_taken_more_steps_is_not_changed(tmp_path: Path, data: PreparedData) -> None:
    run(tmp_path / "run", data, steps=4)
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(UserError, match=r"has already taken 4 steps, more than --training\.steps 3"):
        run(tmp_path / "run", data, force=True, steps=3)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_resuming_with_fewer_checkpoints_to_keep_deletes_the_others_at_once(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path / "run", data, steps=5, checkpoint_every=1)
    kept: list[list[str]] = []
    step = Trainer.step

    def observed(self: Trainer, stop: bool = False) -> bool:
        kept.append(step_checkpoints(tmp_path / "run"))
        return step(self, stop)

    monkeypatch.setattr(Trainer, "step", observed)
    run(tmp_path / "run", data, force=True, steps=6, checkpoint_every=1, keep_checkpoints=2)
    assert kept == [["step-0000004", "step-0000005"]]


def test_the_remaining_time_of_a_resumed_run_is_estimated_from_its_own_steps(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([1000.0, 1060.0])
    monkeypatch.setattr("transformer.training.display.time", SimpleNamespace(monotonic=lambda: next(clock)))
    display = Display("training run", step=40, steps=100)
    display.log({"step": 50, "train_loss": 1.0, "learning_rate": 1e-3, "tokens_per_second": 1.0})
    assert capsys.readouterr().err.endswith("  ETA 05:00\n")


def test_times_and_speeds_across_a_resume(tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reading of the clock is a second later than the one before, so each step takes a second."""
    monkeypatch.setattr("transformer.training.trainer.validate", lambda *_: {"valid_loss": 1.0, "valid_bleu": 0.0})
    clock = itertools.count(1000.0)
    monkeypatch.setattr("transformer.training.loop.time", SimpleNamespace(monotonic=lambda: next(clock)))
    for steps in (4, 8):
        run(tmp_path / "run", data, force=True, steps=steps, log_every=2)
    log, metrics = read_log(tmp_path / "run"), read_metrics(tmp_path / "run")
    tokens = [0.0, *(row["target_tokens"] for row in metrics)]
    speeds = [(after - before) / 2 for before, after in itertools.pairwise(tokens)]
    assert [row["tokens_per_second"] for row in log] == speeds and len(set(speeds)) > 1
    for rows in (log, metrics):
        minutes = [row["minutes"] for row in rows]
        assert len(minutes) == 4 and minutes == sorted(set(minutes))


def test_a_report_replaces_what_is_shown(
    tmp_path: Path, data: PreparedData, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path / "run", data, SHAPE, DISPLAYED, choose_device("cpu"), on_validation=lambda _: None)
    assert capsys.readouterr().err == ""


def test_validation_leaves_the_mode_of_the_model_even_when_it_fails(
    reversed_data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = Translator(Transformer(SHAPE).train(), reversed_data.tokenizer)
    Full(0, monkeypatch)
    with pytest.raises(torch.OutOfMemoryError):
        validate(translator, reversed_data, TrainingConfig(batch_tokens=300))
    assert translator.model.training
