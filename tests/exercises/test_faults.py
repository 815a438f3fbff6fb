"""Faults that every check must notice: they leave the results of most calls right."""

import contextlib
import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from exercises.calls import call
from exercises.check import Exercise, Topic
from exercises.compare import equal
from exercises.fresh_inputs import fresh_inputs
from exercises.messages import NO_GRADIENT, NOT_REPEATABLE, STALE
from tests.exercises.test_checks import EXERCISES

FUNCTIONS = [exercise for exercise in EXERCISES if exercise.observe is None]
"""Exercises whose answers are called with their inputs, and nothing else."""


def judged(exercise: Exercise, answer: Callable[..., Any]) -> str:
    """The message for an answer that may use everything, since it calls the reference."""
    return str(replace(exercise, guard=contextlib.nullcontext).judge(answer))


def contents(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with this change in all its tensors and texts."""
    match value:
        case Tensor() | str():
            return change(value)
        case Mapping():
            return {contents(key, change): contents(entry, change) for key, entry in value.items()}
        case list() | tuple():
            return type(value)(contents(entry, change) for entry in value)
        case _:
            return value


def detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def gradients(exercise: Exercise) -> set[str]:
    """The inputs that a gradient flows back to, such as ``x`` and ``part.query.weight``."""
    if not exercise.differentiable:
        return set()
    calls = [call(exercise.reference, inputs, with_gradients=True) for inputs in exercise.inputs]
    return {name for done in calls for name, gradient in done.gradients.items() if gradient.any()}


def some_with(exist: Callable[[Exercise], Any]) -> Any:
    return pytest.mark.parametrize("exercise", [e for e in FUNCTIONS if exist(e)], ids=lambda e: e.name)


def tensors(exercise: Exercise) -> list[str]:
    return [name for name, value in exercise.inputs[0].items() if isinstance(value, Tensor)]


TRAINED_THROUGH = set(
    "look_up attention_scores softmax scaled_dot_product_attention split_heads join_heads multi_head_attention "
    "query_key_value cross_attention head_contributions grouped_attention self_attention masked_softmax rotate embed "
    "decoder_self_attention feed_forward layer_norm dropout post_norm pre_norm encoder stacks unembed cross_entropy "
    "smoothed_loss mean_loss loss_from_logits batch_loss reorder_query_key_value causal_lm_loss classify embed_tokens "
    "blockwise_attention attend encoder_layer decoder_layer next_token_logits translation_loss".split()
)


def test_whatever_is_trained_through_is_compared_by_its_gradients() -> None:
    assert {exercise.name for exercise in FUNCTIONS if gradients(exercise)} == TRAINED_THROUGH


def trained_through(exercise: Exercise) -> bool:
    return exercise.name in TRAINED_THROUGH


@some_with(trained_through)
def test_a_result_without_a_gradient_is_refused(exercise: Exercise) -> None:
    def frozen(*arguments: Any) -> Any:
        with torch.no_grad():
            return exercise.reference(*arguments)

    for answer in (frozen, lambda *arguments: contents(exercise.reference(*arguments), detached)):
        said = judged(exercise, answer).splitlines()
        assert said[0].startswith("no gradient flows back to `")
        assert said[1] == NO_GRADIENT


@some_with(trained_through)
def test_an_input_without_a_gradient_is_named(exercise: Exercise) -> None:
    for name in sorted(gradients(exercise) & set(tensors(exercise))):
        position = list(exercise.inputs[0]).index(name)

        def answer(*arguments: Any, position: int = position) -> Any:
            cut = [a.detach() if i == position else a for i, a in enumerate(arguments)]
            return exercise.reference(*cut)

        assert judged(exercise, answer).startswith(f"no gradient flows back to `{name}`\n")


def detached_statistics(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    mean, variance = x.mean(-1, keepdim=True).detach(), x.var(-1, correction=0, keepdim=True).detach()
    return (x - mean) / (variance + eps).sqrt() * gain + bias


def half_frozen(part: Any, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    def heads(x: Tensor) -> Tensor:
        return x.unflatten(-1, (part.n_heads, -1)).transpose(1, 2)

    with torch.no_grad():
        query, key, value = heads(part.query(x)), heads(part.key(memory)), heads(part.value(memory))
    scores = (query @ key.mT / query.size(-1) ** 0.5).masked_fill(~mask, -torch.inf)
    return part.output((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


def root_of_zero(x: Tensor) -> Tensor:
    return (x * (x > 0)).sqrt()


def changed_on_the_way(x: Tensor) -> Tensor:
    y = x.sigmoid()
    z = y * y
    y += 1
    return z


def test_a_wrong_gradient_is_shown_and_its_cause_is_told() -> None:
    exercises = {exercise.name: exercise for exercise in EXERCISES}
    said = judged(exercises["layer_norm"], detached_statistics)
    assert said.startswith("the gradient of `x` is wrong\nYour result is right, but part of your code is treated as a")
    assert "yours" in said and "expected" in said and "*" in said
    said = judged(exercises["attend"], half_frozen)
    assert said.startswith("no gradient flows back to `part.query.weight`, `part.query.bias`, ")

    topic = Topic()
    rooted = topic.exercise({"x": torch.tensor([-1.0, 4.0, -2.0, 3.0])})(lambda x: (x.clamp(min=0) + 1e-20).sqrt())
    assert judged(rooted, root_of_zero).startswith("the gradient of `x` contains NaN\n")
    squared = topic.exercise({"x": torch.tensor([1.0, 2.0])})(lambda x: x.sigmoid().square())
    said = judged(squared, changed_on_the_way)
    assert said.startswith("no gradient can be computed\n") and "modified by an inplace operation" in said


def change(value: Any) -> bool:
    """Change a value in place, and return whether it has contents that can be changed."""
    match value:
        case nn.Module():
            return change(next(value.parameters()).data)
        case Tensor():
            value.copy_(~value if value.dtype == torch.bool else value + 1)
            return value.numel() > 0
        case list() if value and isinstance(value[0], list | dict | Tensor):
            return change(value[0])
        case list() | dict():
            was_empty = not value
            value.clear()
            return not was_empty
        case _:
            return False


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=lambda e: e.name)
def test_a_changed_input_is_named(exercise: Exercise) -> None:
    for position, (name, value) in enumerate(exercise.inputs[0].items()):
        is_earlier_one = any(value is other for other in list(exercise.inputs[0].values())[:position])
        if is_earlier_one or not change(copy.deepcopy(value)):
            continue

        def answer(*arguments: Any, position: int = position) -> Any:
            result = copy.deepcopy(exercise.reference(*arguments))
            change(arguments[position])
            return result

        if name == "model" and exercise.name in ("train_model", "train_and_validate", "train_with_loss_scaling"):
            assert judged(exercise, answer).startswith("`model` is not what it should be after the call\n")
        else:
            assert judged(exercise, answer).startswith(f"it changes its input `{name}`\nYour result is right, but ")


SAME_SHAPES = set("masked_softmax batch_loss accumulated_gradient adam_step mean_loss translation_loss".split())
"""Two of their fixed inputs have the same shape, so that a remembered result is wrong before fresh inputs are drawn."""


@some_with(tensors)
def test_a_result_remembered_by_shape_is_refused(exercise: Exercise) -> None:
    remembered: dict[str, Any] = {}

    def answer(*arguments: Any) -> Any:
        key = str(contents(arguments, lambda a: a.shape if isinstance(a, Tensor) else a))
        if key not in remembered:
            remembered[key] = exercise.reference(*arguments)
        return remembered[key]

    said = judged(exercise, answer)
    if exercise.name in SAME_SHAPES:
        assert said != "None"
    else:
        assert said == STALE


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=lambda e: e.name)
def test_what_is_left_over_from_earlier_calls_is_noticed(exercise: Exercise) -> None:
    calls = 0

    def answer(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return exercise.reference(*arguments) if calls <= 2 * len(exercise.inputs) else None

    assert judged(exercise, answer) == NOT_REPEATABLE


def has_axes(exercise: Exercise) -> bool:
    results = call(exercise.reference, exercise.inputs[-1]).results
    return any(isinstance(value, Tensor) and value.dim() > 0 for value in results)


@some_with(has_axes)
def test_sizes_of_one_are_tried(exercise: Exercise) -> None:
    assert judged(exercise, lambda *arguments: contents(exercise.reference(*arguments), Tensor.squeeze)) != "None"


def texts(exercise: Exercise) -> bool:
    found: list[str] = []
    contents(dict(exercise.inputs[0]), lambda value: found.append(value) or value if isinstance(value, str) else value)
    return bool(set(found) - set(exercise.inputs[0]))


@some_with(texts)
def test_an_answer_that_changes_letters_is_refused(exercise: Exercise) -> None:
    for change in (str.lower, str.upper):
        answer = lambda *arguments, change=change: exercise.reference(*contents(arguments, change))  # noqa: E731
        assert judged(exercise, answer) not in ("None", STALE)


def test_fresh_inputs_are_like_the_given_ones() -> None:
    inputs = {
        "x": torch.tensor([[300.0, -400.0], [-torch.inf, 0.0]]),
        "kept": torch.tensor([[0.1, 0.9], [0.5, 0.5]]),
        "ids": torch.tensor([[1, 2], [3, 4], [5, 0]]),
        "texts": [("straße", 3), {"abcd": "▁dog"}, {"abcd": ""}],
        "settings": {"tokenizer": ["intl"]},
        "n": 4,
    }
    before = copy.deepcopy(inputs)
    fresh: Any = fresh_inputs(inputs, keep=("kept", "settings"), seed=0)
    assert equal(inputs, before)
    assert fresh["settings"] == before["settings"]
    assert fresh["x"].shape == (2, 2) and fresh["x"][1, 0] == -torch.inf and not fresh["x"].is_contiguous()
    assert 20 < fresh["x"][0].abs().max() < 2000
    assert fresh["kept"].tolist() == before["kept"].flip(0).tolist()  # type: ignore[attr-defined]
    assert fresh["ids"].tolist() == [[5, 0], [1, 2], [3, 4]]
    (word, count), entry, other = fresh["texts"]
    assert word != "straße" and word.lower() == "straße" and count == fresh["n"] - 1 == 3
    assert str(entry).lower() == "{'abcd': '▁dog'}" and entry.keys() == other.keys() != {"abcd"}
    assert equal(fresh, fresh_inputs(inputs, keep=("kept", "settings"), seed=0))
    assert not equal(fresh, fresh_inputs(inputs, keep=("kept", "settings"), seed=1))
