"""Blanks in which the learner repairs given code: each combination of its bugs is a mistake that the check names."""

import ast
import inspect
import itertools
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from exercises.calls import Function
from exercises.check import Exercise


@dataclass(frozen=True)
class Bug:
    """A change of the reference that runs without an error, but gives wrong results."""

    symptom: str
    """What is wrong with the results, in a few words."""
    experiment: str
    """What to try in order to find the bug, without naming the cause."""
    right: str
    """A part of the reference's source that occurs in it once."""
    wrong: str
    """What the given code has in its place."""


def add_bugs(exercise: Exercise, *bugs: Bug) -> None:
    """Let the blank begin with its reference, but with these bugs, and name those that an answer still has.

    Raises:
        ValueError: if the right code of a bug doesn't occur in the reference exactly once.
    """
    body = _body(exercise.reference)
    for bug in bugs:
        if body.count(bug.right) != 1:
            raise ValueError(f"{bug.right!r} occurs {body.count(bug.right)} times in {exercise.name}; it must be once")
    exercise.given_code = _with_bugs(body, bugs)
    for count in range(len(bugs), 0, -1):
        for left in itertools.combinations(bugs, count):
            title, hint = _describe(left, len(bugs))
            exercise.mistake(title, hint)(_compile(exercise.reference, _with_bugs(body, left)))


def _describe(left: Sequence[Bug], total: int) -> tuple[str, str]:
    """Return the title and the hint of an answer that still has these bugs."""
    if len(left) == total:
        return (
            f"all {total} bugs left",
            "Your code gives the same results as before. Look for inputs for which you know the result without "
            "computing it, and compare. The hint suggests some.",
        )
    return f"{len(left)} of {total} bugs left: {'; '.join(bug.symptom for bug in left)}", left[0].experiment


def _body(function: Function) -> str:
    """Return the source of a function's body, without its docstring and without indentation."""
    source = textwrap.dedent(inspect.getsource(function))
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.FunctionDef)
    first = definition.body[1 if ast.get_docstring(definition) else 0]
    return textwrap.dedent("\n".join(source.splitlines()[first.lineno - 1 :]))


def _with_bugs(body: str, bugs: Sequence[Bug]) -> str:
    for bug in bugs:
        body = body.replace(bug.right, bug.wrong)
    return body


def _compile(reference: Function, body: str) -> Function:
    """Return a function with the parameters of the reference and this body."""
    parameters = ", ".join(inspect.signature(reference).parameters)
    names = dict(inspect.unwrap(reference).__globals__)
    exec(f"def function({parameters}):\n{textwrap.indent(body, '    ')}", names)
    function: Function = names["function"]
    return function
