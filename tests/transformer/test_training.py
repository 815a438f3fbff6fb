import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from transformer.batching import Batch, Batches, Sequences, collate
from transformer.config import TrainingConfig
from transformer.device import choose_device
from transformer.errors import UserError
from transformer.loss import label_smoothed_cross_entropy
from transformer.model import ModelConfig, Transformer
from transformer.preparation import DataConfig, PreparedData, prepare
from transformer.tokenizer import PAD
from transformer.trainer import loss_of
from transformer.training import train
from transformer.translation import Translator

SHAPE = ModelConfig(57, 32, 4, 64, 1, dropout=0.0, max_length=64)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_DATA", str(tmp_path_factory.mktemp("data")))
        return prepare(DataConfig("copy", train_pairs=500), 57)


def run(folder: Path, data: PreparedData, **settings: object) -> Translator:
    defaults = {"steps": 4, "batch_tokens": 300, "warmup_steps": 2, "validate_every": 2, "validate_sentences": 5}
    config = TrainingConfig(**{**defaults, **settings})  # type: ignore[arg-type]
    return train(folder, data, SHAPE, config, choose_device("cpu"), report=lambda _: None)


def weights(model: Transformer) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def one_batch() -> Batch:
    sources = Sequences.pack([[4, 5, 6, 7], [8, 9]])
    return collate(sources, sources, [0, 1])


def test_padding_has_no_part_in_the_loss() -> None:
    model, batch = Transformer(SHAPE).eval(), one_batch()
    wider = Batch(*(torch.nn.functional.pad(t, (0, 3)) for t in (batch.source, batch.decoder_input, batch.expected)))
    alone = [collate(*[Sequences.pack([ids])] * 2, [0]) for ids in ([4, 5, 6, 7], [8, 9])]
    expected = sum(loss_of(model, b, 0.1) for b in alone)
    torch.testing.assert_close(loss_of(model, batch, 0.1), expected)
    torch.testing.assert_close(loss_of(model, wider, 0.1), expected)


def test_the_loss_is_that_of_the_logits_at_real_positions() -> None:
    model, batch = Transformer(SHAPE).eval(), one_batch()
    real = batch.expected != PAD
    logits = model(batch.source, batch.decoder_input)[real]
    torch.testing.assert_close(
        loss_of(model, batch, 0.1), label_smoothed_cross_entropy(logits, batch.expected[real], 0.1)
    )


def test_one_batch_can_be_learned_by_heart() -> None:
    model, batch = Transformer(SHAPE), one_batch()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(150):
        loss = loss_of(model, batch, 0.0) / batch.n_tokens
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
    """Pairs of unequal number, so that a mean of means would differ."""
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
        run(tmp_path / name, data, steps=1, accumulate=len(batches), clip=0.0)
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-6, rtol=1e-4)


def test_the_end_is_the_mean_of_the_last_steps(
    tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []
    step = torch.optim.Adam.step

    def spy(self: torch.optim.Adam) -> None:
        step(self)
        seen.append(torch.cat([p.detach().flatten() for g in self.param_groups for p in g["params"]]))

    monkeypatch.setattr(torch.optim.Adam, "step", spy)
    model = run(tmp_path / "mean", data, steps=6, average_steps=3, validate_every=6).model
    torch.testing.assert_close(weights(model), torch.stack(seen[-3:]).mean(0))


def test_the_best_checkpoint_is_kept(tmp_path: Path, data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = iter([3.0, 1.0, 2.0])
    monkeypatch.setattr("transformer.trainer.validate", lambda *_: {"valid_loss": next(losses), "valid_bleu": 0.0})
    run(tmp_path / "run", data, steps=6)
    best = json.loads((tmp_path / "run" / "best.json").read_text())
    assert best["metrics"]["step"] == 4 and best["training"] == asdict(
        TrainingConfig(6, 300, warmup_steps=2, validate_every=2, validate_sentences=5)
    )
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["valid_loss"] for line in lines] == [3.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "wrong", [{"steps": 0}, {"accumulate": 0}, {"smoothing": 1.0}, {"average_steps": 5}, {"batch_tokens": -1}]
)
def test_impossible_settings_are_refused(wrong: dict[str, float]) -> None:
    (name,) = wrong
    with pytest.raises(UserError, match=re.escape(name)):
        TrainingConfig(**{"steps": 4, **wrong})  # type: ignore[arg-type]
