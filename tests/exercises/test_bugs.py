"""Blanks in which the learner repairs given code."""

import pytest

from exercises.bugs import Bug, WrongRepair, add_bugs
from exercises.check import Exercise, Topic

from .test_checks import ALL

REPAIRED = [exercise for exercise in ALL if exercise.given_code is not None]
LENGTH = Bug("the length is wrong", "Add an entry.", "len(x)", "len(x) - 1")
SUM = Bug("the sum is wrong", "Use negative numbers.", "sum(x)", "sum(map(abs, x))")


def make_exercise() -> Exercise:
    @Topic().exercise({"x": [1.0, -2.0, 5.0]}, {"x": [2.0, -1.0]})
    def mean(x: list[float]) -> float:
        """The arithmetic mean."""
        total = sum(x)  # a comment stays
        return total / len(x)

    return mean


def test_the_given_code_is_the_reference_with_all_bugs() -> None:
    exercise = make_exercise()
    add_bugs(exercise, LENGTH, SUM)
    assert exercise.given_code == "total = sum(map(abs, x))  # a comment stays\nreturn total / len(x) - 1"


def test_every_combination_of_bugs_is_named() -> None:
    exercise = make_exercise()
    add_bugs(exercise, LENGTH, SUM)
    assert [mistake.title for mistake in exercise.mistakes] == [
        "all 2 bugs left",
        "1 of 2 bugs left: the length is wrong",
        "1 of 2 bugs left: the sum is wrong",
    ]
    assert exercise.judge(lambda x: sum(x) / len(x) - 1) == "1 of 2 bugs left: the length is wrong\nAdd an entry."
    assert exercise.judge(lambda x: sum(map(abs, x)) / len(x)) == (
        "1 of 2 bugs left: the sum is wrong\nUse negative numbers."
    )
    assert str(exercise.judge(lambda x: sum(map(abs, x)) / len(x) - 1)).startswith("all 2 bugs left\n")
    assert exercise.judge(lambda x: sum(x) / len(x)) is None


def test_a_wrong_repair_is_named_with_the_number_of_other_bugs() -> None:
    exercise = make_exercise()
    squares = WrongRepair("a sum of squares", "Nothing should be squared.", "sum(n * n for n in x)")
    add_bugs(exercise, LENGTH, Bug(SUM.symptom, SUM.experiment, SUM.right, SUM.wrong, (squares,)))
    assert exercise.judge(lambda x: sum(n * n for n in x) / len(x)) == "a sum of squares\nNothing should be squared."
    assert exercise.judge(lambda x: sum(n * n for n in x) / len(x) - 1) == (
        "a sum of squares (1 other bug left)\nNothing should be squared."
    )


def test_bugs_may_contain_the_right_code_of_others() -> None:
    exercise = make_exercise()
    add_bugs(exercise, Bug("", "", "sum(x)", "len(x)"), Bug("", "", "len(x)", "sum(x)"))
    assert exercise.given_code == "total = len(x)  # a comment stays\nreturn total / sum(x)"


@pytest.mark.parametrize("right", ["max(x)", "x"])
def test_code_that_is_missing_or_ambiguous_is_an_error(right: str) -> None:
    with pytest.raises(ValueError, match="it must be once"):
        add_bugs(make_exercise(), Bug("", "", right, ""))


@pytest.mark.parametrize("exercise", REPAIRED, ids=lambda exercise: exercise.name)
def test_given_code_runs_without_an_error(exercise: Exercise) -> None:
    given = exercise.mistakes[0].function
    for inputs in exercise.inputs:
        result = exercise._call(given, inputs)
        assert result.error is None, "bugs that raise an error are too easy to find"
