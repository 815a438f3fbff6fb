"""Blanks in which the learner repairs given code: the check names one of the bugs that are left."""

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exercises.calls import Function
from exercises.check import Exercise


@dataclass(frozen=True)
class WrongRepair:
    """What learners write in place of a bug, though it isn't right either."""

    title: str
    hint: str
    wrong: str
    """The code in place of the right code."""


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
    repairs: tuple[WrongRepair, ...] = ()


State = Bug | WrongRepair | None
"""A bug that is left, a wrong repair of it, or None if it is repaired."""


def add_bugs(exercise: Exercise, *bugs: Bug) -> None:
    """Let the blank begin with its reference, but with these bugs, and name those that an answer still has.

    Raises:
        ValueError: if the right code of a bug doesn't occur in the reference exactly once.
    """
    body = _body(exercise.reference)
    for bug in bugs:
        if body.count(bug.right) != 1:
            raise ValueError(f"{bug.right!r} occurs {body.count(bug.right)} times in {exercise.name}; it must be once")
    exercise.given_code = _replace(body, {bug.right: bug.wrong for bug in bugs})
    for states in itertools.product(*([bug, None, *bug.repairs] for bug in bugs)):
        wrong = {bug.right: state.wrong for bug, state in zip(bugs, states, strict=True) if state}
        if wrong:
            name_mistake(exercise, *_describe(states), wrong)


def name_mistake(exercise: Exercise, title: str, hint: str, code: Mapping[str, str]) -> None:
    """Name the mistake that replacing parts of the reference's body makes.

    Args:
        code: right code, which occurs in the body once, → wrong code.
    """
    exercise.mistake(title, hint)(_compile(exercise.reference, _replace(_body(exercise.reference), code)))


def _describe(states: Sequence[State]) -> tuple[str, str]:
    """Return the title and the hint of an answer in which the bugs are in these states."""
    left = [state for state in states if isinstance(state, Bug)]
    if repair := next((state for state in states if isinstance(state, WrongRepair)), None):
        others = f" ({len(left)} other {'bug' if len(left) == 1 else 'bugs'} left)" if left else ""
        return repair.title + others, repair.hint
    if len(left) == len(states):
        return (
            f"all {len(left)} bugs left",
            "Your code gives the same results as before. If you have changed a line, the change has no effect: look at "
            "it again. The hint suggests experiments that reveal the bugs.",
        )
    return f"{len(left)} of {len(states)} bugs left: {left[0].symptom}", left[0].experiment


def _body(function: Function) -> str:
    """Return the source of a function's body, without its docstring and without indentation."""
    source = textwrap.dedent(inspect.getsource(function))
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.FunctionDef)
    first = definition.body[1 if ast.get_docstring(definition) else 0]
    return textwrap.dedent("\n".join(source.splitlines()[first.lineno - 1 :]))


def _replace(body: str, code: Mapping[str, str]) -> str:
    """Replace all of these parts at once, so that nothing is replaced twice."""
    return re.sub("|".join(map(re.escape, code)), lambda match: code[match[0]], body)


def _compile(reference: Function, body: str) -> Function:
    """Return a function with the parameters of the reference and this body."""
    parameters = ", ".join(inspect.signature(reference).parameters)
    names = dict(inspect.unwrap(reference).__globals__)
    exec(f"def function({parameters}):\n{textwrap.indent(body, '    ')}", names)
    function: Function = names["function"]
    return function
