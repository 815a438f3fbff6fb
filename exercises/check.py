"""Checks of answers: a reference implementation, inputs, and named mistakes.

An answer is right if it gives the same results as the reference on every input. If it doesn't, its results are compared
with those of each named mistake. If they are equal, the learner is told which mistake it is. Otherwise the learner sees
the wrong numbers next to the expected ones, on the first input on which they differ; inputs therefore go from small to
large.
"""

import contextlib
import copy
import inspect
import io
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from exercises.compare import describe_difference, equal, equal_numbers, to_builtin, type_with_article
from exercises.formatting import format_inputs, format_shapes
from exercises.limits import MAX_PRINTED, LimitReached
from exercises.notebooks import NOT_DONE

Function = Callable[..., Any]
Inputs = Mapping[str, Any]
Guard = Callable[[], contextlib.AbstractContextManager[None]]
"""Makes a context in which answers are called; it may stop a call with a RefusedError."""

TAMPERED = (
    "the check can no longer tell right answers from wrong ones\n"
    "Something it depends on has been replaced: a function of PyTorch, of Python, or of the check itself. Restart the "
    "kernel and run the notebook without that change."
)


class WrongAnswerError(AssertionError):
    """Raised by a check that fails. A notebook shows only its message, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class RefusedError(Exception):
    """Raised when an answer calls something forbidden; the message is for the learner."""


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that learners actually give."""

    title: str
    hint: str
    """A sentence that helps without giving the answer away."""
    function: Function


@dataclass(frozen=True)
class CallResult:
    """The results of a call, or the exception that it raised, and what it printed."""

    results: tuple[Any, ...]
    error: BaseException | None
    printed: str

    def equals(self, other: "CallResult") -> bool:
        """Return whether both calls ended in the same way, up to rounding."""
        if self.error or other.error:
            return type(self.error) is type(other.error) and str(self.error) == str(other.error)
        return len(self.results) == len(other.results) and all(map(equal, self.results, other.results))

    def equals_in_numbers(self, other: "CallResult") -> bool:
        """Return whether both calls gave the same numbers, regardless of shapes and dtypes."""
        if self.error or other.error or len(self.results) != len(other.results):
            return False
        return all(map(equal_numbers, self.results, other.results))


@dataclass
class Exercise:
    """One blank to fill in."""

    name: str
    reference: Function
    inputs: Sequence[Inputs]
    """Inputs to try the answer on, smallest first: for each call, argument name → value in the signature's order."""
    results: tuple[str, ...]
    """The names of the values it returns."""
    mistakes: list[Mistake] = field(default_factory=list)
    guard: Guard = contextlib.nullcontext
    """Answers are called inside this context; the course's own functions are not."""

    def mistake(self, title: str, hint: str) -> Callable[[Function], Function]:
        """Return a decorator that registers a wrong answer with its title and hint."""

        def register(function: Function) -> Function:
            self.mistakes.append(Mistake(title, hint, function))
            return function

        return register

    def judge(self, answer: Function) -> str | None:
        """Return None if the answer is right, else a message for the learner: what is wrong, then a hint."""
        if not callable(answer):
            return f"{self.name} is {type_with_article(answer)}, and should be a function"
        difference = self._first_difference(answer)
        if difference is None:
            return None
        inputs, expected, actual = difference
        if isinstance(actual.error, NotImplementedError) and str(actual.error).startswith(NOT_DONE):
            return str(actual.error)
        if isinstance(actual.error, RefusedError):
            return str(actual.error)
        return self._match_mistake(answer) or self._describe_failure(answer, inputs, expected, actual)

    def is_right(self, answer: Function) -> bool:
        """Return whether the answer gives the reference's results on every input."""
        return self._first_difference(answer) is None

    def rejects_mistakes(self) -> bool:
        """Return whether the check still rejects the named mistakes: if not, something has been tampered with."""
        wrong = [mistake.function for mistake in self.mistakes]
        return not any(map(self.is_right, wrong)) and (not wrong or self.judge(wrong[0]) is not None)

    def _first_difference(self, answer: Function) -> tuple[Inputs, CallResult, CallResult] | None:
        """Return the first inputs on which the answer is wrong, the expected result and the actual one."""
        for inputs in self.inputs:
            expected, actual = self._call(self.reference, inputs), self._call(answer, inputs)
            if not actual.equals(expected):
                return inputs, expected, actual
        return None

    def _match_mistake(self, answer: Function) -> str | None:
        """Return title and hint of the named mistake that the answer makes, if it makes one."""
        actual, expected = self._call_on_all(answer), self._call_on_all(self.reference)
        for mistake, results in self._results_of_mistakes:
            if all(map(CallResult.equals, results, actual)):
                return f"{mistake.title}\n{mistake.hint}"
        for mistake, results in self._results_of_mistakes:  # the same mistake in another shape or dtype
            same_numbers = all(map(CallResult.equals_in_numbers, results, actual))
            if same_numbers and not all(map(CallResult.equals_in_numbers, results, expected)):
                wrong, right = next(pair for pair in zip(actual, expected, strict=True) if not CallResult.equals(*pair))
                also = describe_difference(self.results, wrong.results, right.results)[0]
                return f"{mistake.title}\n{mistake.hint}\nAlso, {also}."
        return None

    @cached_property
    def _results_of_mistakes(self) -> list[tuple[Mistake, list[CallResult]]]:
        """Each named mistake with what it gives on all inputs."""
        return [(mistake, self._call_on_all(mistake.function)) for mistake in self.mistakes]

    def _call_on_all(self, function: Function) -> list[CallResult]:
        return [self._call(function, inputs) for inputs in self.inputs]

    def _call(self, function: Function, inputs: Inputs) -> CallResult:
        functions_of_the_course = (self.reference, *(mistake.function for mistake in self.mistakes))
        is_trusted = any(function is trusted for trusted in functions_of_the_course)
        guard = contextlib.nullcontext if is_trusted else self.guard
        return call(function, inputs, guard, multiple_results=len(self.results) > 1)

    def _describe_failure(self, answer: Function, inputs: Inputs, expected: CallResult, actual: CallResult) -> str:
        if actual.error:
            lines = [_describe_error(answer, actual.error), "", "for", *format_shapes(inputs)]
        else:
            difference = describe_difference(self.results, actual.results, expected.results)
            lines = [*difference, "", "for", *format_inputs(inputs)]
        if actual.printed:
            lines += ["", "your code printed"] + ["  " + line for line in actual.printed[:2000].splitlines()[:10]]
        return "\n".join(lines)


class Topic:
    """All exercises of one notebook."""

    def __init__(self, guard: Guard = contextlib.nullcontext) -> None:
        self.guard = guard
        self.exercises: dict[str, Exercise] = {}
        self.given = Given(self)

    def exercise(
        self, *inputs: Inputs, results: tuple[str, ...] = ("result",), guard: Guard | None = None
    ) -> Callable[[Function], Exercise]:
        """Return a decorator that turns a reference implementation into an exercise of the same name."""

        def register(reference: Function) -> Exercise:
            exercise = Exercise(reference.__name__, reference, inputs, results, guard=guard or self.guard)
            self.exercises[exercise.name] = exercise
            return exercise

        return register

    def check(self, name: str, answer: Function) -> None:
        """Print ✓ and the name of the exercise if the answer is right.

        Raises:
            WrongAnswerError: if the answer is wrong; the message describes what is wrong.
            ValueError: if there is no such exercise.
        """
        if name not in self.exercises:
            raise ValueError(f"there is no exercise {name!r}; choose from {', '.join(self.exercises)}")
        self.given.answers.pop(name, None)
        exercise = self.exercises[name]
        message = exercise.judge(answer)
        if message is None and not exercise.rejects_mistakes():
            message = TAMPERED
        if message is not None:
            raise WrongAnswerError(f"✗ {name}: {message}")
        self.given.answers[name] = answer
        print(f"✓ {name}")


class Given:
    """The functions of earlier exercises to build on: the learner's own once it is right, the reference until then."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self.answers: dict[str, Function] = {}

    def __getattr__(self, name: str) -> Function:
        if name not in self._topic.exercises:
            raise AttributeError(f"there is no function {name!r}; choose from {', '.join(self._topic.exercises)}")
        return self.answers.get(name, self._topic.exercises[name].reference)


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return normally distributed random numbers for an input; they depend on nothing but the arguments."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def call(
    function: Function, inputs: Inputs, guard: Guard = contextlib.nullcontext, multiple_results: bool = False
) -> CallResult:
    """Call a function with copies of the inputs. Exceptions and exits are caught, but not keyboard interrupts.

    Args:
        function: the function to call.
        inputs: its arguments.
        guard: the context to call it in.
        multiple_results: whether a returned tuple is several results rather than one.
    """
    copies = copy.deepcopy(list(inputs.values()))
    value: Any = ()
    error: BaseException | None = None
    printed = _Printed()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            with guard():
                value = to_builtin(function(*copies))
        except (Exception, SystemExit) as e:
            error = e
    results = value if multiple_results and isinstance(value, tuple) else (value,)
    return CallResult(results, error, printed.getvalue())


class _Printed(io.StringIO):
    """Collects what an answer prints, up to a limit."""

    def write(self, text: str) -> int:
        if self.tell() + len(text) > MAX_PRINTED:
            raise LimitReached(f"it printed more than {MAX_PRINTED:,} characters: is there an endless loop?")
        return super().write(text)


def _describe_error(answer: Function, error: BaseException) -> str:
    """Return a line with the exception and, if it comes from the learner's own code, the line of that code."""
    text = f"it stopped with {type(error).__name__}: {error}"
    function = inspect.unwrap(answer)
    file = function.__code__.co_filename if hasattr(function, "__code__") else None
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if frames:
        text += f"\nin line {frames[-1].lineno} of its cell: {frames[-1].line}"
    return text
