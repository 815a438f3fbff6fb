"""Checks of answers: a reference implementation, inputs, and named mistakes.

An answer is right if it gives the same results as the reference on every input: on fixed ones, on fresh ones like them,
and once more on the first. If it doesn't, its results are compared with those of each named mistake. If they are equal,
the learner is told which mistake it is. Otherwise the learner sees the wrong numbers next to the expected ones, on the
first input on which they differ; inputs therefore go from small to large. If one mistake gives the same wrong results
on most inputs, and no other comes near, the learner is told that it looks like this one. For any other mistake, the
learner is told what can be found out: which arguments aren't used, how the wrong results are related to the right
ones, and which of the blank's special cases (see `exercises.special_cases`) covers the inputs for which they are wrong.
A mistake that many different answers make is recognised by its results: see `Exercise.symptom`.

An answer with the right results must also have the right gradients, and must leave its inputs as they were.

An answer need not be a function of the inputs: if it's a class, or draws into a figure, `Exercise.observe` defines its
results. And an answer that trains a model is called only once: see `TrainingExercise`.
"""

import contextlib
import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any
from unittest import mock

from exercises.calls import CallResult, Function, Guard, Inputs, call, changed_inputs
from exercises.compare import describe_difference, equal, same_kind, type_with_article
from exercises.errors import RefusedError, explain
from exercises.formatting import format_inputs, format_shapes, format_value
from exercises.fresh_inputs import fresh_inputs
from exercises.help import find_help
from exercises.limits import MAX_SECONDS, LimitReached, limited
from exercises.messages import (
    CONSTANT,
    NOT_REPEATABLE,
    RANDOM,
    STALE,
    TAMPERED,
    TRACKED_INPUT,
    describe_changed_input,
    describe_error,
    describe_gradients,
    describe_special_case,
    describe_unused,
    describe_without_effect,
    without_paths,
)
from exercises.notebooks import NOT_DONE
from exercises.relations import ENDS_WRONG, Finding, Wrong, find_nan, find_relation
from exercises.special_cases import what_is_special
from exercises.tensors import is_module, is_tensor, seeded
from exercises.unused import global_names, read_arguments, unused_arguments
from transformer.errors import quote


class WrongAnswerError(AssertionError):
    """Raised by a check that fails. A notebook shows only its message, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that learners actually give."""

    title: str
    hint: str
    """A sentence that helps without giving the answer away."""
    function: Function


Test = tuple[Inputs, CallResult, CallResult]
"""Inputs, what an answer does with them, and what it should do."""

Symptom = Callable[[Sequence[Wrong]], Finding | None]
"""Takes the wrong results, each a tuple if there are several; returns what is wrong, if it recognises it."""


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
    symptoms: list[Symptom] = field(default_factory=list)
    """Recognise mistakes that many different answers make, so that no function stands for all of them."""
    guard: Guard = contextlib.nullcontext
    """Answers are called inside this context; the course's own functions are not."""
    keep: Collection[str] = ()
    """Inputs whose contents can't be replaced (see `fresh_inputs`)."""
    non_negative: Collection[str] = ()
    """Inputs that are never negative, such as losses."""
    differentiable: bool = True
    """Whether gradients must flow from the results to the inputs; False if no model is trained through it."""
    observe: Function | None = None
    """Takes the answer and the inputs, uses the answer, and returns the results that are compared; None: the answer is
    a function of the inputs."""
    seconds: float = MAX_SECONDS
    """Computing time that the check may take."""
    look_closer: Callable[[Function], str | None] = field(default=lambda answer: None)
    """Takes an answer with the right results; returns a message if it computes them in a way that it shouldn't."""
    insight: str = ""
    """A sentence that is shown after ✓: what the learner has just built, or why it matters."""
    given_code: str | None = None
    """The code that the learner repairs (see `exercises.bugs`); None if the blank is empty at first."""

    @property
    def success(self) -> str:
        """What the check of a right answer prints."""
        return "\n".join(filter(None, [f"✓ {self.name}", self.insight]))

    def mistake(self, title: str, hint: str) -> Callable[[Function], Function]:
        """Return a decorator that registers a wrong answer with its title and hint."""

        def register(function: Function) -> Function:
            self.mistakes.append(Mistake(title, hint, function))
            return function

        return register

    def symptom(self, find: Symptom) -> Symptom:
        """Register, as a decorator, a function that recognises a mistake by its wrong results."""
        self.symptoms.append(find)
        return find

    def judge(self, answer: Function) -> str | None:
        """Return None if the answer is right, else a message for the learner: what is wrong, then a hint."""
        if message := self._describe_if_no_function(answer):
            return message
        difference = self._first_difference(answer)
        if difference is None:
            return self._find_hidden_fault(answer)
        number, actual = difference
        if message := _message_for_learner(actual.error):
            return message
        if number == len(self._cases) - 1:
            return NOT_REPEATABLE
        has_tensors = any(map(is_tensor, self._cases[number].values()))
        if has_tensors and number >= len(self.inputs) and actual.equals(self._expected[number - len(self.inputs)]):
            return STALE
        return (
            self._match_mistake(answer)
            or self._find_symptom(answer)
            or self._resembling_mistake(answer)
            or self._explain(answer, number, actual)
        )

    def is_right(self, answer: Function) -> bool:
        """Return whether `judge` finds nothing wrong."""
        return self._first_difference(answer) is None and self._find_hidden_fault(answer) is None

    def rejects_mistakes(self) -> bool:
        """Return whether the check still rejects the named mistakes: if not, something has been tampered with."""
        wrong = [mistake.function for mistake in self.mistakes]
        return not any(map(self.is_right, wrong)) and (not wrong or self.judge(wrong[0]) is not None)

    def _describe_if_no_function(self, answer: object) -> str | None:
        return None if callable(answer) else f"{self.name} is {type_with_article(answer)}, but should be a function"

    @cached_property
    def _fresh(self) -> list[Inputs]:
        return [fresh_inputs(inputs, self.keep, seed, self.non_negative) for seed, inputs in enumerate(self.inputs)]

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

    def _find_hidden_fault(self, answer: Function) -> str | None:
        """Return a message if something other than the results of an answer is wrong."""
        return self._find_changed_input(answer) or self._find_wrong_gradient(answer) or self.look_closer(answer)

    def _find_changed_input(self, answer: Function) -> str | None:
        """Return a message if the call of a right answer leaves other inputs behind than the reference does."""
        for number, inputs in enumerate(self.inputs):
            expected, actual = self._expected[number].inputs, self._call(answer, inputs).inputs
            for name in changed_inputs(expected, actual):
                is_meant = name in changed_inputs(inputs, expected)
                is_function = callable(inputs[name]) and not is_module(inputs[name])
                if is_tensor(actual[name]) and equal(actual[name], expected[name]) and actual[name].requires_grad:
                    return TRACKED_INPUT.format(name=name)
                return describe_changed_input(name, is_meant, is_function)
        return None

    def _find_wrong_gradient(self, answer: Function) -> str | None:
        """Return a message if the gradients of a right answer aren't the reference's."""
        if not self.differentiable:
            return None
        for inputs, expected in zip(self._fresh, self._expected_gradients, strict=True):
            has_gradient = any(gradient.any() for gradient in expected.gradients.values())
            if has_gradient or expected.requires_grad:
                actual = self._call(answer, inputs, with_gradients=True)
                if has_gradient and (message := describe_gradients(answer, actual, expected)):
                    return message
                if expected.requires_grad and not (actual.requires_grad or actual.error):
                    return "\n".join([CONSTANT, "", "on this input:", *format_inputs(inputs)])
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
                has_table = also.endswith("*")  # it refers to a table, which isn't shown here
                return f"{mistake.title}\n{mistake.hint}" + ("" if has_table else f"\nAlso, {also}.")
        return None

    def _find_symptom(self, answer: Function) -> str | None:
        """Return what the first symptom says that recognises all wrong results."""
        if not self.symptoms:
            return None
        tests = zip(self._cases, self._call_on_all(answer), self._expected, strict=True)
        wrong = [(inputs, actual, expected) for inputs, actual, expected in tests if not actual.equals(expected)]
        if not wrong or any(actual.error or len(actual.results) != len(self.results) for _, actual, _ in wrong):
            return None
        several = len(self.results) > 1
        cases = [
            Wrong(inputs, *((x.results if several else x.results[0]) for x in (actual, expected)))
            for inputs, actual, expected in wrong
        ]
        return next((str(found) for find in self.symptoms if (found := find(cases))), None)

    def _resembling_mistake(self, answer: Function) -> str | None:
        """Return title and hint of the only mistake that gives the same wrong results as the answer on most inputs.

        It must give the same on the first inputs on which the answer is wrong. Inputs that both get right don't count.
        If the answer is right on inputs on which the mistake isn't, the message shows the first of them.
        """
        if self.given_code is not None:
            return None  # combinations of bugs resemble each other
        actual = self._call_on_all(answer)
        if all(value is None for result in actual for value in result.results):
            return None  # it has no return statement
        wrong = [i for i, result in enumerate(actual) if not result.equals(self._expected[i])]
        if not wrong:
            return None  # it gives another result each time
        agreements = [
            (sum(not actual[i].error and actual[i].equals(results[i]) for i in wrong), mistake, results)
            for mistake, results in self._results_of_mistakes
            if actual[wrong[0]].equals(results[wrong[0]])
        ]
        nobody: tuple[int, Mistake | None, list[CallResult]] = (0, None, [])  # so that there are at least two rows
        ranked = sorted([*agreements, nobody, nobody], key=lambda row: -row[0])
        (most, mistake, results), (second, *_) = ranked[:2]
        either_wrong = [i for i, result in enumerate(results) if i in wrong or not result.equals(self._expected[i])]
        if mistake is None or 2 * most <= len(either_wrong) or 2 * second > most:
            return None
        lines = [f"this looks like a known mistake: {mistake.title}", mistake.hint]
        differs = [i for i, result in enumerate(actual) if not result.equals(results[i])]
        if differs and not any(i in wrong for i in differs):
            lines += ["Your result is right, though, on this input:", *format_inputs(self._cases[differs[0]])]
        return "\n".join(lines)

    def _explain(self, answer: Function, number: int, first: CallResult) -> str:
        """Return what can be found out about a mistake that has no name, with the first inputs on which it shows."""
        actual = self._call_on_all(answer)[:-1]
        actual[number] = first  # an answer may give another result each time
        tests = list(zip(self._cases, actual, self._expected, strict=False))
        wrong = [test for test in tests if not test[1].equals(test[2])]
        failure = self._describe_failure(answer, number, actual[number])
        only_form = first.equals_in_numbers(self._expected[number])
        found = [] if only_form else self._find_causes(answer, tests, wrong)
        text = [finding.text for finding in found]
        if error := actual[number].error:
            what = describe_error(answer, error)
            return "\n".join([what, *filter(None, [self._explain_error(error)]), *text]) + failure.removeprefix(what)
        return "\n".join([found[0].title, *text, "", failure]) if found else failure

    def _explain_error(self, error: BaseException) -> str | None:
        """Return what usually causes an exception: in this blank, according to the notebook's Help, or anywhere."""
        topic = self.reference.__module__.rpartition(".")[2]
        return find_help(topic, self.name, error) or explain(error)

    def _find_causes(self, answer: Function, tests: Sequence[Test], wrong: Sequence[Test]) -> list[Finding]:
        """Return what can be found out about a mistake.

        Random results, and arguments that the code never reads, explain everything else, so they are reported alone.
        Otherwise, these are the special case and the relation that cover all wrong results. If there is neither, it
        is where NaN comes from, or which arguments make no difference. Whether arguments are used isn't examined if the
        answer isn't a function of them (see `observe`), if the wrong results are all the same or of another kind, or
        if a list only begins or ends at the wrong place.
        """
        run_reference, run_answer = partial(self._call, self.reference), partial(self._call, answer)
        inputs_of_tests = [inputs for inputs, *_ in tests]
        if self._is_random(answer, wrong[0][0]):
            return [RANDOM]
        is_constant = len(wrong) > 2 and all(actual.equals(wrong[0][1]) for _, actual, _ in wrong)
        same_kinds = all(actual.same_kind(expected) for _, actual, expected in wrong)
        relation = self._find_relation(wrong)
        ends_wrong = relation is not None and relation.title in ENDS_WRONG
        can_ignore = self.observe is None and same_kinds and not is_constant and not ends_wrong
        unused = unused_arguments(run_reference, run_answer, inputs_of_tests) if can_ignore else []
        read = read_arguments(answer, [*inputs_of_tests[0]])
        if not_read := [name for name in unused if read is None or name not in read]:
            return [describe_unused(not_read, is_certain=read is not None)]
        of_wrong, of_right = (
            [inputs for inputs, a, b in tests if a.equals(b) == is_right] for is_right in (False, True)
        )
        special = what_is_special(self.name, of_wrong, of_right) if 2 * len(of_right) >= len(tests) else None
        stops = any(actual.error for _, actual, _ in wrong)
        is_alone = relation is None and not stops
        found = [describe_special_case(special, len(of_right), len(tests), is_alone)] if special else []
        if not found and relation is None:
            relation = self._explain_nan(*wrong[0])
        if unused and not found and relation is None and not stops:
            return [describe_without_effect(unused)]
        return [*found, *([relation] if relation else [])]

    def _explain_nan(self, inputs: Inputs, actual: CallResult, expected: CallResult) -> Finding | None:
        """Return where the NaN in the wrong result that is shown comes from, if there is one."""
        if actual.error or expected.error or len(actual.results) != len(expected.results):
            return None
        cases = [Wrong(inputs, a, b) for a, b in zip(actual.results, expected.results, strict=True)]
        return next((found for case in cases if (found := find_nan([case]))), None)

    def _is_random(self, answer: Function, inputs: Inputs) -> bool:
        """Return whether a result depends on the state of the random number generators, and on nothing else."""
        results = []
        for seed in (0, 0, 1):
            with seeded(seed):
                results.append(self._call(answer, inputs))
        return results[0].equals(results[1]) and not results[0].equals(results[2])

    def _find_relation(self, wrong: Sequence[Test]) -> Finding | None:
        """Return how the wrong results are related to the right ones."""
        if any(a.error or b.error or len(a.results) != len(b.results) for _, a, b in wrong):
            return None
        _, *orders = itertools.permutations(range(len(self.results)))  # the first is the right one
        for order in orders:
            if all(all(equal(a.results[i], b.results[j]) for i, j in enumerate(order)) for _, a, b in wrong):
                return Finding("the results are in the wrong order", f"They should be: {', '.join(self.results)}.")
        pairs = [list(zip(a.results, b.results, strict=True)) for _, a, b in wrong]
        places = [i for i in range(len(self.results)) if not all(equal(*row[i]) for row in pairs)]
        in_places: list[Finding] = []
        for i in places:
            if not all(same_kind(*row[i]) for row in pairs):
                break  # a message about the others would distract from this one
            cases = [Wrong(inputs, *row[i]) for (inputs, *_), row in zip(wrong, pairs, strict=True)]
            if found := find_relation([case for case in cases if not equal(case.yours, case.expected)]):
                if len(self.results) == 1:
                    return found
                name = _name_of_result(self.results[i])
                where = f"Only {name} is wrong. " if len(places) == 1 else f"In {name}: "
                in_places.append(Finding(found.title, where + found.text))
        if in_places:
            return Finding(in_places[0].title, "\n".join(finding.text for finding in in_places))
        if len(places) == 1 < len(self.results):
            name = _name_of_result(self.results[places[0]])
            return Finding("one of the results is wrong", f"Only {name} is wrong; everything else is right.")
        return None

    def _call_on_all(self, function: Function) -> list[CallResult]:
        return [self._call(function, inputs) for inputs in self._cases]

    def _call(self, function: Function, inputs: Inputs, with_gradients: bool = False) -> CallResult:
        functions_of_the_course = (self.reference, *(mistake.function for mistake in self.mistakes))
        is_trusted = any(function is trusted for trusted in functions_of_the_course)
        guard = contextlib.nullcontext if is_trusted else self.guard
        function = partial(self.observe, function) if self.observe else function
        return call(function, inputs, guard, multiple_results=len(self.results) > 1, with_gradients=with_gradients)

    def _describe_failure(self, answer: Function, number: int, actual: CallResult) -> str:
        inputs, expected = self._cases[number], self._expected[number]
        are_slices = number >= len(self.inputs) and any(map(is_tensor, inputs.values()))
        heading = "on this input" + (" (the tensors are slices of larger ones):" if are_slices else ":")
        if actual.error:
            lines = [describe_error(answer, actual.error), "", heading, *format_shapes(inputs)]
        else:
            difference = describe_difference(self.results, actual.results, expected.results)
            may_be_none = len(self.results) == 1 and any(case.results[0] is None for case in self._expected)
            if may_be_none and actual.results[0] is None:
                difference = [f"it returns None, but should return {format_value(expected.results[0])}"]
            lines = [*difference, "", heading, *format_inputs(inputs)]
        if actual.printed:
            printed = without_paths(actual.printed[:2000]).splitlines()
            lines += ["", "your code printed"] + ["  " + line for line in printed[:10]]
        return "\n".join(lines)


def _name_of_result(name: str) -> str:
    """Return a variable's name as code, and a description, such as "the loss", as it is."""
    return f"`{name}`" if name.isidentifier() else name


@dataclass
class TrainingExercise(Exercise):
    """A blank whose answer trains a model. It is called once, and its result is examined rather than compared."""

    make_inputs: Callable[[], Inputs] = dict
    """Makes the inputs; they are too large to be made before they are needed."""
    examine: Callable[[Any], str | None] = field(default=lambda result: None)
    """Returns None if the result is right, else a message for the learner, as `judge` does."""

    def judge(self, answer: Function) -> str | None:
        """Return None if the answer is right, else a message for the learner: what is wrong, then a hint."""
        if message := self._describe_if_no_function(answer):
            return message
        result = call(answer, self.make_inputs(), self.guard)
        if result.error:
            if message := _message_for_learner(result.error):
                return message
            return "\n".join(filter(None, [describe_error(answer, result.error), self._explain_error(result.error)]))
        try:
            return self.examine(result.results[0])
        except Exception as error:
            return (
                f"your model stopped with {type(error).__name__}: {(str(error).splitlines() or [''])[0]}\n"
                "It was given sentences that weren't in training. Can it also read and write longer ones?"
            )

    def is_right(self, answer: Function) -> bool:
        """Return whether `judge` finds nothing wrong."""
        return self.judge(answer) is None

    def rejects_mistakes(self) -> bool:
        """Return whether the check still rejects a result that is no model; training with mistakes takes too long."""
        return self.examine(None) is not None


class Topic:
    """All exercises of one notebook."""

    def __init__(self, guard: Guard = contextlib.nullcontext) -> None:
        self.guard = guard
        self.show_insights = True
        self.exercises: dict[str, Exercise] = {}
        self.given = Given(self)

    def exercise(
        self,
        *inputs: Inputs,
        results: tuple[str, ...] = ("result",),
        guard: Guard | None = None,
        keep: Collection[str] = (),
        non_negative: Collection[str] = (),
        differentiable: bool = True,
        observe: Function | None = None,
        look_closer: Callable[[Function], str | None] = lambda answer: None,
        insight: str = "",
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
                non_negative=non_negative,
                differentiable=differentiable,
                observe=observe,
                look_closer=look_closer,
                insight=insight,
            )
            self.exercises[exercise.name] = exercise
            return exercise

        return register

    def training_exercise(
        self,
        make_inputs: Callable[[], Inputs],
        examine: Callable[[Any], str | None],
        seconds: float,
        guard: Guard = contextlib.nullcontext,
    ) -> Callable[[Function], TrainingExercise]:
        """Return a decorator that turns a reference implementation into a `TrainingExercise`."""

        def register(reference: Function) -> TrainingExercise:
            name = reference.__name__
            exercise = TrainingExercise(
                name,
                reference,
                (),
                ("result",),
                seconds=seconds,
                guard=guard,
                make_inputs=make_inputs,
                examine=examine,
            )
            self.exercises[name] = exercise
            return exercise

        return register

    def check(self, name: str, answer: Function) -> None:
        """Print ✓ and the name of the exercise if the answer is right, and its insight if there is one.

        Raises:
            WrongAnswerError: if the answer is wrong; the message describes what is wrong.
            ValueError: if there is no such exercise.
        """
        if name not in self.exercises:
            raise ValueError(f"there is no exercise {quote(name)}; choose from {', '.join(self.exercises)}")
        self.given.answers.pop(name, None)
        exercise = self.exercises[name]
        self.given.in_check = name
        try:
            with limited(exercise.seconds):
                message = exercise.judge(answer)
                if message is None and not exercise.rejects_mistakes():
                    message = TAMPERED
                elif message is not None:
                    message = self._find_wrong_part(exercise, answer) or message
        except LimitReached as limit:
            message = str(limit)
        finally:
            self.given.in_check = None
        if message is not None:
            raise WrongAnswerError(f"✗ {name}: {message}")
        self.given.answers[name] = answer
        print(exercise.success if self.show_insights else f"✓ {name}")

    def _find_wrong_part(self, exercise: Exercise, answer: Function) -> str | None:
        """Return a message if an answer is wrong only because it calls the learner's wrong answer to another blank."""
        variables, code = getattr(answer, "__globals__", {}), getattr(answer, "__code__", None)
        called = [name for name in global_names(code) if name in self.exercises and name in variables]
        if isinstance(exercise, TrainingExercise) or not called:
            return None
        with mock.patch.dict(variables, {name: getattr(self.given, name) for name in called}):
            if not exercise.is_right(answer):
                return None
        wrong = (name for name in called if not self.exercises[name].is_right(variables[name]))
        name = next(wrong, called[0])
        return (
            f"this blank is right, but it calls one that isn't\nIt calls your own `{name}`, where something is still "
            f"wrong. Check that first, or call `given.{name}` here, which is right."
        )


class Given:
    """The functions of other exercises to build on: the learner's own once it is right, the reference until then."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self.answers: dict[str, Function] = {}
        self.in_check: str | None = None
        """The exercise that is being checked, which can't be built on itself."""

    def __getattr__(self, name: str) -> Function:
        if name not in self._topic.exercises:
            raise AttributeError(f"there is no function {quote(name)}; choose from {', '.join(self._topic.exercises)}")

        def function(*arguments: Any, **named: Any) -> Any:
            if name == self.in_check:
                raise RefusedError(
                    f"it calls itself\nYour code calls `given.{name}`, the result of this very blank. Only "
                    "other blanks can build on it."
                )
            return self.answers.get(name, self._topic.exercises[name].reference)(*arguments, **named)

        function.__module__, function.__qualname__ = "given", name  # this is what an error calls it
        return function


def _message_for_learner(error: BaseException | None) -> str | None:
    """Return the message of an exception that is shown as it is: of an open blank, or of something forbidden."""
    is_open = isinstance(error, NotImplementedError) and str(error).startswith(NOT_DONE)
    return str(error) if is_open or isinstance(error, RefusedError) else None
