"""Checks of answers: a reference implementation, inputs, and named mistakes.

An answer is right if it gives the same results as the reference on every input: on fixed ones, on fresh ones like them,
and once more on the first. If it doesn't, its results are compared with those of each named mistake. If they are equal,
the learner is told which mistake it is. Otherwise the learner sees the wrong numbers next to the expected ones, on the
first input on which they differ; inputs therefore go from small to large. If one mistake gives the same wrong results
on most inputs, and no other comes near, the learner is told that it looks like this one.

An answer with the right results must also have the right gradients, and must leave its inputs as they were.
"""

import contextlib
import inspect
import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from exercises.calls import CallResult, Function, Guard, Inputs, call, changed_inputs
from exercises.compare import describe_difference, equal_gradients, type_with_article
from exercises.formatting import format_inputs, format_shapes, tables_side_by_side
from exercises.fresh_inputs import fresh_inputs
from exercises.limits import LimitReached, limited
from exercises.notebooks import NOT_DONE

TAMPERED = (
    "the check can no longer tell right answers from wrong ones\n"
    "Something it depends on has been replaced: a function of PyTorch, of Python, or of the check itself. Restart the "
    "kernel and run the notebook without that change."
)

STALE = (
    "it returns the result of an earlier call\n"
    "The inputs had the same shapes then, but other contents. Does your code keep results in a cache or a global "
    "variable?"
)

NOT_REPEATABLE = (
    "it gives another result when it is called again\n"
    "For the same inputs, the first call gave the right result. Something is left over from earlier calls: look for "
    "global variables and for default arguments that your code changes."
)

NO_GRADIENT = (
    "Your result is right, but a model with this code could not learn through it. Something cuts the gradient off: "
    "look for `torch.no_grad()`, `detach()`, `.data`, `.item()`, `float()`, `tolist()`, `numpy()` and "
    "`torch.tensor(…)`, and compute with the tensors themselves."
)

WRONG_GRADIENT = (
    "Your result is right, but part of your code is treated as a constant, so a model would be trained with a wrong "
    "gradient. Look for `torch.no_grad()`, `detach()`, `.data` and `.item()`."
)

NAN_GRADIENT = (
    "Your result is right, but training would fail at the first step. Look for a root, a logarithm or a division of "
    "numbers that can be 0, or for infinities that you replace afterwards: replace them before."
)

NO_BACKWARD = (
    "Your result is right, but PyTorch can't compute its gradient. Use tensor operations only, and make new tensors "
    "rather than change those that earlier results depend on."
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
    keep: Collection[str] = ()
    """Inputs whose numbers can't be replaced by any others (see `fresh_inputs`)."""
    differentiable: bool = True
    """Whether gradients must flow from the results to the inputs; no, if nobody trains a model through it."""

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
            return self._find_changed_input(answer) or self._find_wrong_gradient(answer)
        number, actual = difference
        is_open = isinstance(actual.error, NotImplementedError) and str(actual.error).startswith(NOT_DONE)
        if is_open or isinstance(actual.error, RefusedError):
            return str(actual.error)
        if number == len(self._cases) - 1:
            return NOT_REPEATABLE
        has_tensors = any(isinstance(value, Tensor) for value in self._cases[number].values())
        if has_tensors and number >= len(self.inputs) and actual.equals(self._expected[number - len(self.inputs)]):
            return STALE
        failure = self._describe_failure(answer, number, actual)
        return self._match_mistake(answer) or self._resembling_mistake(answer) or failure

    def is_right(self, answer: Function) -> bool:
        """Return whether `judge` finds nothing wrong."""
        find_faults = (self._first_difference, self._find_changed_input, self._find_wrong_gradient)
        return all(find_fault(answer) is None for find_fault in find_faults)

    def rejects_mistakes(self) -> bool:
        """Return whether the check still rejects the named mistakes: if not, something has been tampered with."""
        wrong = [mistake.function for mistake in self.mistakes]
        return not any(map(self.is_right, wrong)) and (not wrong or self.judge(wrong[0]) is not None)

    @cached_property
    def _fresh(self) -> list[Inputs]:
        return [fresh_inputs(inputs, self.keep, seed) for seed, inputs in enumerate(self.inputs)]

    @cached_property
    def _cases(self) -> list[Inputs]:
        """All inputs: the fixed ones, fresh ones like each of them, and the first once more."""
        return [*self.inputs, *self._fresh, self.inputs[0]]

    @cached_property
    def _expected(self) -> list[CallResult]:
        return [self._call(self.reference, inputs) for inputs in self._cases]

    @cached_property
    def _expected_gradients(self) -> list[CallResult]:
        """The reference's results and gradients on the fresh inputs."""
        return [self._call(self.reference, inputs, with_gradients=True) for inputs in self._fresh]

    @cached_property
    def _results_of_mistakes(self) -> list[tuple[Mistake, list[CallResult]]]:
        """Each named mistake with what it gives on all inputs."""
        return [(mistake, self._call_on_all(mistake.function)) for mistake in self.mistakes]

    def _first_difference(self, answer: Function) -> tuple[int, CallResult] | None:
        """Return the number of the first inputs on which the answer is wrong, and what it did."""
        for number, inputs in enumerate(self._cases):
            actual = self._call(answer, inputs)
            if not actual.equals(self._expected[number]):
                return number, actual
        return None

    def _find_changed_input(self, answer: Function) -> str | None:
        """Return a message if the call of a right answer leaves other inputs behind than the reference does."""
        for number, inputs in enumerate(self.inputs):
            expected, actual = self._expected[number].inputs, self._call(answer, inputs).inputs
            for name in changed_inputs(expected, actual):
                return _describe_changed_input(name, is_meant_to_change=name in changed_inputs(inputs, expected))
        return None

    def _find_wrong_gradient(self, answer: Function) -> str | None:
        """Return a message if the gradients of a right answer aren't the reference's."""
        if not self.differentiable:
            return None
        for inputs, expected in zip(self._fresh, self._expected_gradients, strict=True):
            if any(gradient.any() for gradient in expected.gradients.values()):
                actual = self._call(answer, inputs, with_gradients=True)
                if message := _describe_gradients(answer, actual, expected):
                    return message
        return None

    def _match_mistake(self, answer: Function) -> str | None:
        """Return title and hint of the named mistake that the answer makes, if it makes one."""
        actual, expected = [self._call(answer, inputs) for inputs in self.inputs], self._expected[: len(self.inputs)]
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

    def _resembling_mistake(self, answer: Function) -> str | None:
        """Return title and hint of the only mistake that gives the same wrong results as the answer on most inputs.

        Inputs that both get right don't count. The message shows the first inputs on which the two differ.
        """
        actual = self._call_on_all(answer)
        wrong = [i for i, result in enumerate(actual) if not result.equals(self._expected[i])]
        agreements = [
            (sum(not actual[i].error and actual[i].equals(results[i]) for i in wrong), mistake, results)
            for mistake, results in self._results_of_mistakes
        ]
        ranked = sorted([*agreements, *[(0, None, [])] * 2], key=lambda row: -row[0])
        (most, mistake, results), (second, *_) = ranked[:2]
        either_wrong = [i for i, result in enumerate(results) if i in wrong or not result.equals(self._expected[i])]
        if mistake is None or 2 * most <= len(either_wrong) or 2 * second > most:
            return None
        differs = [i for i, result in enumerate(actual) if not result.equals(results[i])]
        number = next((i for i in differs if i in wrong), differs[0])
        lines = [f"this looks like a known mistake: {mistake.title}", mistake.hint]
        if number in wrong:
            lines += ["But there is something else as well:", self._describe_failure(answer, number, actual[number])]
        else:
            lines += ["Your result is right, though, for", *format_inputs(self._cases[number])]
        return "\n".join(lines)

    def _call_on_all(self, function: Function) -> list[CallResult]:
        return [self._call(function, inputs) for inputs in self._cases]

    def _call(self, function: Function, inputs: Inputs, with_gradients: bool = False) -> CallResult:
        functions_of_the_course = (self.reference, *(mistake.function for mistake in self.mistakes))
        is_trusted = any(function is trusted for trusted in functions_of_the_course)
        guard = contextlib.nullcontext if is_trusted else self.guard
        return call(function, inputs, guard, multiple_results=len(self.results) > 1, with_gradients=with_gradients)

    def _describe_failure(self, answer: Function, number: int, actual: CallResult) -> str:
        inputs, expected = self._cases[number], self._expected[number]
        heading = "for" if number < len(self.inputs) else "for these inputs (the tensors are slices of larger ones)"
        if actual.error:
            lines = [_describe_error(answer, actual.error), "", heading, *format_shapes(inputs)]
        else:
            difference = describe_difference(self.results, actual.results, expected.results)
            lines = [*difference, "", heading, *format_inputs(inputs)]
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
        self,
        *inputs: Inputs,
        results: tuple[str, ...] = ("result",),
        guard: Guard | None = None,
        keep: Collection[str] = (),
        differentiable: bool = True,
    ) -> Callable[[Function], Exercise]:
        """Return a decorator that turns a reference implementation into an exercise; see `Exercise`."""

        def register(reference: Function) -> Exercise:
            exercise = Exercise(
                reference.__name__,
                reference,
                inputs,
                results,
                guard=guard or self.guard,
                keep=keep,
                differentiable=differentiable,
            )
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
        self.given.in_check = name
        try:
            with limited():
                message = exercise.judge(answer)
                if message is None and not exercise.rejects_mistakes():
                    message = TAMPERED
        except LimitReached as limit:
            message = str(limit)
        finally:
            self.given.in_check = None
        if message is not None:
            raise WrongAnswerError(f"✗ {name}: {message}")
        self.given.answers[name] = answer
        print(f"✓ {name}")


class Given:
    """The functions of other exercises to build on: the learner's own once it is right, the reference until then."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self.answers: dict[str, Function] = {}
        self.in_check: str | None = None
        """The exercise that is being checked, which can't be built on itself."""

    def __getattr__(self, name: str) -> Function:
        if name not in self._topic.exercises:
            raise AttributeError(f"there is no function {name!r}; choose from {', '.join(self._topic.exercises)}")

        def function(*arguments: Any, **named: Any) -> Any:
            if name == self.in_check:
                raise RefusedError(
                    f"it calls itself\nYour code calls `given.{name}`, which is this very exercise. Only other "
                    "exercises can build on it."
                )
            return self.answers.get(name, self._topic.exercises[name].reference)(*arguments, **named)

        return function


def numbers(*shape: int, seed: int = 0) -> Tensor:
    """Return normally distributed random numbers for an input; they depend on nothing but the arguments."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).float()


def _describe_error(answer: Function, error: BaseException) -> str:
    """Return a line with the exception and, if it comes from the learner's own code, the line of that code."""
    text = f"it stopped with {type(error).__name__}: {error}"
    function = inspect.unwrap(answer)
    file = function.__code__.co_filename if hasattr(function, "__code__") else None
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if frames:
        text += f"\nin line {frames[-1].lineno} of its cell: {frames[-1].line}"
    return text


def _describe_changed_input(name: str, is_meant_to_change: bool) -> str:
    if is_meant_to_change:
        return (
            f"`{name}` is not what it should be after the call\n"
            "The result is right, but the call should leave other values behind. Is a step missing at the end, or is "
            "there one too many?"
        )
    return (
        f"it changes its input `{name}`\n"
        f"Your result is right, but after the call `{name}` is no longer what it was, and the rest of the program may "
        "still need it. Make something new instead: write `x = x + y` rather than `x += y`, don't assign to parts of "
        "an input, and don't call methods that change it, such as `append`, `pop` or those whose names end in `_`."
    )


def _describe_gradients(answer: Function, actual: CallResult, expected: CallResult) -> str | None:
    """Return a message if gradients are missing or wrong."""
    if actual.error:
        return f"no gradient can be computed\n{NO_BACKWARD}\n{_describe_error(answer, actual.error)}"
    scale = max(float(gradient.abs().max()) for gradient in expected.gradients.values() if gradient.numel())
    wrong = [
        name
        for name, gradient in expected.gradients.items()
        if not equal_gradients(actual.gradients[name], gradient, scale)
    ]
    if not wrong:
        return None
    if missing := [name for name in wrong if not actual.gradients[name].any()]:
        names = ", ".join(f"`{name}`" for name in missing[:3]) + (" and others" if len(missing) > 3 else "")
        return f"no gradient flows back to {names}\n{NO_GRADIENT}"
    name = wrong[0]
    yours, right = actual.gradients[name], expected.gradients[name]
    if yours.isnan().any() and not right.isnan().any():
        return f"the gradient of `{name}` contains NaN\n{NAN_GRADIENT}"
    return "\n".join([f"the gradient of `{name}` is wrong", WRONG_GRADIENT, *tables_side_by_side(yours, right)])
