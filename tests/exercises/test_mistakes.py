"""Mistakes are counted by name."""

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from exercises.check import Exercise
from exercises.checks import attention, decoding, masking
from exercises.checks.train_your_own import _judge_curves
from exercises.grade import Grade
from exercises.mistakes import MAX_BAR, count_mistakes, histogram, mistake_name
from exercises.notebooks import NOT_DONE, solution_sources, topic_of

CLASS = [
    Grade(Path("ann.ipynb"), "04_masking", {"padding_mask": None, "causal_mask": "inverted\nTrue means <may>."}),
    Grade(Path("bob.ipynb"), "04_masking", {"padding_mask": None, "causal_mask": "off by one\nThe diagonal."}),
    Grade(Path("cleo.ipynb"), "04_masking", {"padding_mask": NOT_DONE, "causal_mask": "off by one\nThe diagonal."}),
    Grade(Path("dan.ipynb"), "06_layers", {"dropout": "not scaled"}),
    Grade(Path("eve.ipynb"), "", {}, "eve.ipynb is not a notebook"),
    Grade(Path("fred.ipynb"), "", {}, "fred.ipynb is not a notebook"),
]


def cut(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return attention.topic.exercises["attention_scores"].reference(q, k).detach()


FORBIDDEN = "its cell was not run, because it uses something forbidden"
SCORES = attention.topic.exercises["attention_scores"]
CAUSAL = masking.topic.exercises["causal_mask"]


@pytest.mark.parametrize(
    ("exercise", "answer", "name"),
    [
        (SCORES, lambda q, k: SCORES.reference(q, k).sin(), "other wrong numbers"),
        (SCORES, lambda q, k: SCORES.reference(q, k)[None], "the wrong shape"),
        (SCORES, lambda q, k: SCORES.reference(q, k).double(), "the wrong dtype"),
        (SCORES, lambda q, k: SCORES.reference(q, k) + 1, "too large by one"),
        (SCORES, lambda q, k: SCORES.reference(q, k) * torch.nan, "NaN, where there should be numbers"),
        (SCORES, lambda q, k: None, "it returns None"),
        (SCORES, lambda q, k: (q, k), "the wrong number of values"),
        (SCORES, lambda q, k: "scores", "another wrong result"),
        (SCORES, lambda q, k: 1 / 0, "it stopped with ZeroDivisionError"),
        (SCORES, lambda q, k: cut(q, k), "no gradient"),
        (SCORES, lambda q, k: SCORES.reference(q.detach(), k) + q.sum() - q.sum().detach(), "the gradient is wrong"),
        (SCORES, lambda q, k: SCORES.reference(q, k) + 0 * q.zero_().sum(), "it changes its input"),
        (SCORES, 3, "another wrong result"),
        (CAUSAL, lambda n: CAUSAL.mistakes[0].function(n), CAUSAL.mistakes[0].title),
        (decoding.topic.exercises["greedy_search"], lambda *_: list(range(50)), "the wrong number of entries"),
    ],
)
def test_what_is_particular_to_an_answer_is_left_out(
    exercise: Exercise, answer: Callable[..., object], name: str
) -> None:
    message = exercise.judge(answer)
    assert message is not None
    assert mistake_name(message) == name


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("not done yet: write your code in place of this line", "not done yet"),
        ("its cell stopped with SyntaxError: '(' was never closed (line 3)", "its cell stopped with SyntaxError"),
        ("this looks like a known mistake: inverted\nTrue means", "inverted"),
        ("it did not finish within 10 s: is there an endless loop?", "it did not finish in time"),
        ("its cell was not run, because it uses open\nAn answer", FORBIDDEN),
        ("not graded, because an earlier answer stopped the notebook",) * 2,
    ],
)
def test_messages_of_the_grader_have_names_too(message: str, name: str) -> None:
    assert mistake_name(message) == name


@pytest.mark.parametrize(
    ("train", "validation", "name"),
    [
        ([5.0, 1.0], [7.0, 8.0], "the validation loss is worse than guessing"),
        ([90.0, 70.0], [5.0, 4.0], "the training loss is much larger than the validation loss"),
        ([5.0, 2.0], [5.5, 5.6], "the validation loss stays near guessing"),
        ([5.0, 4.9], [4.0, 3.5], "the training loss falls too little"),
    ],
)
def test_a_training_that_fails_has_a_name_without_its_losses(
    train: list[float], validation: list[float], name: str
) -> None:
    message = _judge_curves(train, validation, 6.0)
    assert message is not None and mistake_name(message) == name


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("BLEU 31.4 on unseen sentences, and the goal is 40\nTrain for more epochs.", "BLEU below the goal"),
        ("12 parameters get no gradient, such as `norm.weight`\nThey still", "parameters get no gradient"),
        (
            "your model stopped with IndexError: index out of range\nIt was",
            "your model stopped with IndexError",
        ),
    ],
)
def test_a_model_that_fails_has_a_name_without_its_numbers(message: str, name: str) -> None:
    assert mistake_name(message) == name


@pytest.mark.parametrize("topic", list(map(topic_of, solution_sources())))
def test_a_named_mistake_keeps_its_name(topic: str) -> None:
    for exercise in importlib.import_module(f"exercises.checks.{topic}").topic.exercises.values():
        titles = [mistake.title for mistake in exercise.mistakes]
        assert [mistake_name(f"{title}\nhint") for title in titles] == titles


def test_exercises_with_several_notebooks_are_counted_and_the_most_frequent_comes_first() -> None:
    counts = count_mistakes(CLASS)
    assert counts == {"04_masking": {"padding_mask": {NOT_DONE: 1}, "causal_mask": {"off by one": 2, "inverted": 1}}}
    assert list(counts["04_masking"]["causal_mask"]) == ["off by one", "inverted"]


def test_a_histogram_shows_them() -> None:
    assert "\n".join(histogram(CLASS)).splitlines() == [
        "",
        "mistakes in 04 masking (3 notebooks)",
        "  padding_mask: 2 right",
        "      1 █  not done yet",
        "  causal_mask: 0 right",
        "      2 ██ off by one",
        "      1 █  inverted",
    ]
    assert list(histogram(CLASS[:1] + CLASS[3:])) == [], "a learner's own notebooks, one of each"
    assert len(list(histogram([CLASS[1]] * 2))) == 4


def test_long_bars_are_scaled() -> None:
    lines = list(histogram([CLASS[0]] + 299 * [CLASS[1]]))
    assert [line.count("█") for line in lines[-2:]] == [MAX_BAR, 1]
