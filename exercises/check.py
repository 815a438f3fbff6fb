"""What a check is: a reference, a few inputs, and wrong answers that have names.

An answer is right if it gives the reference's results on every input. If it does not, its results are compared with
those of every named wrong answer: where they are the same, the learner reads which mistake it is; else she sees her
numbers beside the expected ones, on the first input that shows a difference. So the inputs go from small to large.
"""

import contextlib
import copy
import inspect
import io
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from exercises.compare import differences, kind, plain, same, same_numbers
from exercises.limits import MOST_PRINTED, LimitReached
from exercises.show import shapes, show

Function = Callable[..., Any]
Inputs = Mapping[str, Any]
Around = Callable[[], contextlib.AbstractContextManager[None]]
"""What calls run within: it may watch them, and refuse one by a RefusedError."""

NOT_DONE = "not done yet"
"""What the text of an open blank begins with."""


TAMPERED = (
    "the check takes wrong answers for right ones\n"
    "Something that it is built on was replaced, in PyTorch, in Python or in the check itself: restart the kernel, and "
    "leave what others made as it is."
)


class WrongAnswerError(AssertionError):
    """A check that failed. In a notebook it shows its message alone, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class RefusedError(Exception):
    """What an answer must not do, whatever it comes to; the message is for the learner."""


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that people really write."""

    title: str
    hint: str
    """A sentence that leads on, without giving the answer away."""
    function: Function


@dataclass(frozen=True)
class Outcome:
    """What a call came to: results, or the exception that it ended with, and what it printed."""

    results: tuple[Any, ...]
    error: BaseException | None
    printed: str

    def same(self, other: "Outcome") -> bool:
        """Whether both ended alike; rounding aside."""
        if self.error or other.error:
            return type(self.error) is type(other.error) and str(self.error) == str(other.error)
        return len(self.results) == len(other.results) and all(map(same, self.results, other.results))

    def alike(self, other: "Outcome") -> bool:
        """Whether both gave the same numbers, whatever their axes and dtypes."""
        if self.error or other.error or len(self.results) != len(other.results):
            return False
        return all(map(same_numbers, self.results, other.results))


@dataclass
class Exercise:
    """One blank."""

    name: str
    reference: Function
    inputs: Sequence[Inputs]
    """What the answer is tried on, smallest first: for each call argument name → value, in the signature's order."""
    results: tuple[str, ...]
    """The names of what it returns."""
    mistakes: list[Mistake] = field(default_factory=list)
    around: Around = contextlib.nullcontext
    """Answers run within it; what the course itself wrote may call anything."""

    def mistake(self, title: str, hint: str) -> Callable[[Function], Function]:
        """A decorator that gives a wrong answer its name and its hint."""

        def register(function: Function) -> Function:
            self.mistakes.append(Mistake(title, hint, function))
            return function

        return register

    def judge(self, answer: Function) -> str | None:
        """None if the answer is right, else what to tell the learner: a line that names the mistake, then a hint."""
        if not callable(answer):
            return f"{self.name} is {kind(answer)}, and should be a function"
        difference = self._first_difference(answer)
        if difference is None:
            return None
        inputs, expected, theirs = difference
        if isinstance(theirs.error, NotImplementedError) and str(theirs.error).startswith(NOT_DONE):
            return str(theirs.error)
        if isinstance(theirs.error, RefusedError):
            return str(theirs.error)
        return self._named(answer) or self._explained(answer, inputs, expected, theirs)

    def is_right(self, answer: Function) -> bool:
        """Whether the answer does what the reference does, on every input."""
        return self._first_difference(answer) is None

    def tells_wrong_from_right(self) -> bool:
        """Whether the check still rejects what is known to be wrong: scales are tried out before they are trusted."""
        wrong = [mistake.function for mistake in self.mistakes]
        return not any(map(self.is_right, wrong)) and (not wrong or self.judge(wrong[0]) is not None)

    def _first_difference(self, answer: Function) -> tuple[Inputs, Outcome, Outcome] | None:
        """The first inputs on which the answer is wrong, with what was expected and what came."""
        for inputs in self.inputs:
            expected, theirs = self._call(self.reference, inputs), self._call(answer, inputs)
            if not theirs.same(expected):
                return inputs, expected, theirs
        return None

    def _named(self, answer: Function) -> str | None:
        theirs, right = self._outcomes(answer), self._outcomes(self.reference)
        wrong = [(mistake, self._outcomes(mistake.function)) for mistake in self.mistakes]
        for mistake, outcomes in wrong:
            if all(map(Outcome.same, outcomes, theirs)):
                return f"{mistake.title}\n{mistake.hint}"
        for mistake, outcomes in wrong:  # the same mistake, and axes or a dtype that are not as they should be either
            if all(map(Outcome.alike, outcomes, theirs)) and not all(map(Outcome.alike, outcomes, right)):
                mine, expected = next(pair for pair in zip(theirs, right, strict=True) if not Outcome.same(*pair))
                also = differences(self.results, mine.results, expected.results)[0]
                return f"{mistake.title}\n{mistake.hint}\nAnd {also}."
        return None

    def _outcomes(self, function: Function) -> list[Outcome]:
        return [self._call(function, inputs) for inputs in self.inputs]

    def _call(self, function: Function, inputs: Inputs) -> Outcome:
        own = any(function is one for one in (self.reference, *(mistake.function for mistake in self.mistakes)))
        around = contextlib.nullcontext if own else self.around
        return call(function, inputs, around, several=len(self.results) > 1)

    def _explained(self, answer: Function, inputs: Inputs, expected: Outcome, theirs: Outcome) -> str:
        if theirs.error:
            lines = [_error(answer, theirs.error), "", "for", *shapes(inputs)]
        else:
            lines = [*differences(self.results, theirs.results, expected.results), "", "for", *show(inputs)]
        if theirs.printed:
            lines += ["", "your code printed"] + ["  " + line for line in theirs.printed[:2000].splitlines()[:10]]
        return "\n".join(lines)


class Topic:
    """All exercises of one notebook."""

    def __init__(self, around: Around = contextlib.nullcontext) -> None:
        self.around = around
        self.exercises: dict[str, Exercise] = {}
        self.given = Given(self)

    def exercise(
        self, *inputs: Inputs, results: tuple[str, ...] = ("result",), around: Around | None = None
    ) -> Callable[[Function], Exercise]:
        """A decorator that makes a blank of its reference, of the same name."""

        def register(reference: Function) -> Exercise:
            exercise = Exercise(reference.__name__, reference, inputs, results, around=around or self.around)
            self.exercises[exercise.name] = exercise
            return exercise

        return register

    def check(self, name: str, answer: Function) -> None:
        """Print ✓ and the name if the answer is right.

        Raises:
            WrongAnswerError: if it is not; the message says what is wrong.
            ValueError: if there is no such exercise.
        """
        if name not in self.exercises:
            raise ValueError(f"there is no exercise {name!r}; there are {', '.join(self.exercises)}")
        self.given.answers.pop(name, None)
        exercise = self.exercises[name]
        message = exercise.judge(answer)
        if message is None and not exercise.tells_wrong_from_right():
            message = TAMPERED
        if message is not None:
            raise WrongAnswerError(f"✗ {name}: {message}")
        self.given.answers[name] = answer
        print(f"✓ {name}")


class Given:
    """What earlier exercises made, to build on: the learner's function once it is right, the course's until then."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self.answers: dict[str, Function] = {}

    def __getattr__(self, name: str) -> Function:
        if name not in self._topic.exercises:
            raise AttributeError(f"nothing is given by the name {name!r}; there are {', '.join(self._topic.exercises)}")
        return self.answers.get(name, self._topic.exercises[name].reference)


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Normal random numbers for an input; the same ones every time, whatever else is drawn."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def call(function: Function, inputs: Inputs, around: Around = contextlib.nullcontext, several: bool = False) -> Outcome:
    """Call it with copies of the inputs. Exceptions and exits are caught; an interrupt goes through.

    Args:
        several: a tuple that it returns is several results, not one.
    """
    copies = copy.deepcopy(list(inputs.values()))
    value: Any = ()
    error: BaseException | None = None
    printed = _Printed()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            with around():
                value = plain(function(*copies))
        except (Exception, SystemExit) as e:
            error = e
    results = value if several and isinstance(value, tuple) else (value,)
    return Outcome(results, error, printed.getvalue())


class _Printed(io.StringIO):
    """Takes what an answer prints, up to a limit."""

    def write(self, text: str) -> int:
        if self.tell() + len(text) > MOST_PRINTED:
            raise LimitReached(f"it printed more than {MOST_PRINTED:,} characters: does a loop never end?")
        return super().write(text)


def _error(answer: Function, error: BaseException) -> str:
    """The exception in a line, and the line of the learner's own code that it comes from."""
    text = f"it stopped with {type(error).__name__}: {error}"
    file = inspect.unwrap(answer).__code__.co_filename if hasattr(inspect.unwrap(answer), "__code__") else None
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if own:
        text += f"\nin line {own[-1].lineno} of its cell: {own[-1].line}"
    return text
