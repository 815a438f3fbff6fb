"""Blanks that train: what a faulty training leaves behind is recognised, and a right one reaches the goal."""

import dataclasses
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from exercises import limits
from exercises.check import TrainingExercise
from exercises.checks import train_your_own as checks
from exercises.notebooks import NOT_DONE
from tests.exercises.test_checks import TRIALS
from transformer.config import ModelConfig
from transformer.data.tokenizer import PAD
from transformer.masks import padding_mask, target_mask


class Changed(checks.Transformer):
    """The solution's model, in which single steps of the computation can be replaced."""

    def own_mask(self, target: Tensor) -> Tensor:
        return target_mask(target, PAD)

    def memory_mask(self, source: Tensor) -> Tensor:
        return padding_mask(source, PAD)

    def to_decoder(self, memory: Tensor) -> Tensor:
        return memory

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, mask = self.embed(source), self.memory_mask(source)
        for layer in self.encoder:
            memory = layer(memory, mask)
        memory, x = self.to_decoder(self.encoder_norm(memory)), self.embed(target)
        for layer in self.decoder:
            x = layer(x, memory, self.own_mask(target), mask)
        return self.unembedding(self.decoder_norm(x))


class NoCausalMask(Changed):
    def own_mask(self, target: Tensor) -> Tensor:
        return padding_mask(target, PAD)


class NoPaddingMask(Changed):
    def memory_mask(self, source: Tensor) -> Tensor:
        return torch.ones_like(padding_mask(source, PAD))


class NoSource(Changed):
    def to_decoder(self, memory: Tensor) -> Tensor:
        return torch.ones_like(memory)


class Detached(Changed):
    def to_decoder(self, memory: Tensor) -> Tensor:
        return memory.detach()


class PlainLists(checks.Transformer):
    def __init__(self, config: Any) -> None:
        super().__init__(config)
        layers = list(self.decoder)
        del self.decoder
        self.decoder = layers  # type: ignore[assignment]


class LargeEmbeddings(checks.Transformer):
    """Not as good, but nothing is missing."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        nn.init.normal_(self.embedding.weight)


class NoPositions(checks.Transformer):
    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.positions.zero_()


class Untied(checks.Transformer):
    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.unembedding = nn.Linear(config.d_model, config.vocab_size, bias=False)


def not_shifted(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    source, target = batch
    return F.cross_entropy(model(source, target).mT, target, ignore_index=PAD)


def with_padding(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    source, target = batch
    return F.cross_entropy(model(source, target[:, :-1]).mT, target[:, 1:])


def judged(max_epochs: int, count: int | None = None, **faults: Any) -> str:
    """The first line of the message for a training with these faults on so many pairs."""
    torch.manual_seed(0)
    data = checks.pocket_data()
    result = checks._train_translator(
        data.train[:count], data.validation[:20], len(data.tokenizer), max_epochs=max_epochs, **faults
    )
    return str(checks._examine_run(result)).splitlines()[0]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (NoCausalMask, "the decoder sees later tokens"),
        (NoPaddingMask, "padding changes the result"),
        (NoSource, "the model doesn't read the source"),
        (NoPositions, "the order of the source's words doesn't matter"),
        (PlainLists, "the same input gives another result each time"),
        (Untied, "the embeddings aren't tied"),
        (Detached, "14 parameters get no gradient, such as `encoder.0.self_attention.query_key_value.weight`"),
    ],
)
def test_a_faulty_model_is_recognised(model: Any, said: str) -> None:
    assert judged(1, count=100, build=model) == said


@pytest.mark.soak
def test_a_faulty_training_is_recognised() -> None:
    said = judged(8, count=300, loss_of=not_shifted)
    assert said.startswith("the training loss falls to 0.") and "worse than guessing (6.40)" in said
    assert judged(2, count=100, rate=1e-7).startswith("the training loss goes from ")
    assert judged(4, count=300, rate=0.5).startswith("the training loss goes from ")
    assert judged(2, count=100, rate=1e30) == "the losses are no longer numbers"
    assert judged(4, count=300, loss_of=with_padding) == "after eos the model predicts padding"
    assert judged(4).startswith("BLEU ")
    assert judged(4, build=LargeEmbeddings).startswith("BLEU ")


def summed(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    source, target = batch
    return F.cross_entropy(model(source, target[:, :-1]).mT, target[:, 1:], ignore_index=PAD, reduction="sum")


def swapped(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return checks._loss_of(model, (batch[1], batch[0]))


class PostNorm(checks.Transformer):
    """The encoder layers that `norm="post"`, the default, makes."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.encoder = nn.ModuleList(
            checks.EncoderLayer(dataclasses.replace(config, norm="post")) for _ in self.encoder
        )


def test_the_norm_that_is_asked_for_is_checked() -> None:
    assert judged(1, count=100, build=PostNorm) == '`norm="pre"` is missing'


def in_evaluation_mode(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return checks._loss_of(model.eval(), batch)


def always_in_training_mode(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return checks._loss_of(model.train(), batch)


def test_the_wrong_mode_is_recognised_in_training_and_in_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    (trial,) = TRIALS

    def said(**settings: Any) -> str:
        def answer(train: Any, validation: Any, vocab_size: int) -> Any:
            return checks._train_translator(train[:50], validation[:10], vocab_size, max_epochs=1, **settings)

        return str(trial.judge(answer)).splitlines()[0]

    assert said(loss_of=in_evaluation_mode) == "trained in evaluation mode"
    for right in (checks._loss_of, always_in_training_mode):
        assert said(loss_of=right).startswith("the training loss goes from ")
    validate = checks._validate
    monkeypatch.setattr(checks, "_validate", lambda model, batches: validate(model, batches, switch=False))
    assert said() == "validated in training mode"


def test_another_loss_is_recognised() -> None:
    assert judged(8, count=300, loss_of=summed).startswith("the training loss ends at ")
    assert "stays near guessing" in judged(14, count=300, loss_of=swapped)


@pytest.mark.soak
def test_training_or_validating_on_other_pairs_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    data = checks.pocket_data()

    def said(result: Any) -> str:
        return str(checks._examine_run(result)).splitlines()[0]

    torch.manual_seed(0)
    train = data.train + data.validation
    model, losses, _ = checks._train_translator(train, data.validation, len(data.tokenizer), max_epochs=14)
    assert said((model, losses, losses)) == "trained on the validation pairs"
    with monkeypatch.context() as changed:
        other = checks.PocketData(data.train, data.test, data.validation, data.tokenizer)
        changed.setattr(checks, "pocket_data", lambda: other)
        assert said((model, losses, losses)) == "trained on the test pairs"
    result = checks._train_translator(data.train[:300], data.test, len(data.tokenizer), max_epochs=4)
    assert said(result) == "validated on the test pairs"


def test_reported_losses_that_are_no_numbers_or_not_those_of_the_next_token_are_recognised() -> None:
    torch.manual_seed(0)
    config = ModelConfig(len(checks.pocket_data().tokenizer), 8, 2, 8, 1, norm="pre", max_length=64)
    model = checks.Transformer(config)
    for losses in ((1.5, 1.2), (None, None), ([2.0, 1.0], [None, None])):
        assert str(checks._examine_run((model, *losses))).startswith("the losses aren't two lists of numbers\n")
    said = str(checks._examine_run((model, [6.0, 0.1], [5.0, 0.05])))
    assert said.startswith("you report a validation loss of 0.05, and it is 6.") and "labels shifted" in said


def test_a_loss_that_hardly_falls_may_need_more_epochs() -> None:
    for train in ([5.7, 4.4], [18.0, 12.3]):
        assert "train for too few epochs?" in str(checks._judge_curves(train, [4.7, 4.2], guessing=6.4))


@pytest.mark.slow
def test_the_solution_reaches_the_goal_in_a_fraction_of_the_time() -> None:
    for trial in TRIALS:
        with limits.limited(trial.seconds / 2):
            assert trial.judge(trial.reference) is None


def test_a_trial_that_raises_or_returns_no_model_is_explained() -> None:
    def open_blank(**_: Any) -> None:
        raise NotImplementedError(f"{NOT_DONE}: write")

    for trial in TRIALS:
        assert isinstance(trial, TrainingExercise) and trial.rejects_mistakes()
        assert trial.judge(lambda *_: None) == (
            "it should return three values: the model, the training losses and the validation losses"
        )
        said = str(trial.judge(lambda *_: 1 / 0))
        assert said.startswith("it stopped with ZeroDivisionError") and "divide by can be 0" in said
        model = nn.Linear(1, 1)
        for result, told in (
            (model, "returns a Linear only"),
            (([1.0], [1.0], model), "The first of your three values is a list"),
            ((model, ([1.0], [1.0])), "returns 2. What `given.fit` returns is a pair"),
        ):
            assert told in str(trial.judge(lambda *_, result=result: result))
        assert str(trial.judge(lambda *_: open_blank())) == f"{NOT_DONE}: write"
        assert trial.judge(3) == f"{trial.name} is an int, but should be a function"  # type: ignore[arg-type]


def test_the_grader_gives_a_training_more_time_than_its_check_may_take() -> None:
    assert limits.TRAINING_TOPICS["train_your_own"] > max(trial.seconds for trial in TRIALS)
