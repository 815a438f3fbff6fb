"""Answers with two ordinary mistakes at once: each of the two is named, if the results are those of both together."""

from dataclasses import dataclass, field, fields

from exercises.calls import CallResult, Function, call
from exercises.check import Exercise, Mistake, Topic


@dataclass
class ExerciseWithPairs(Exercise):
    """An exercise that knows pairs of its mistakes.

    Pairs aren't among the mistakes: each has most of its results in common with others, so that an answer that
    resembles a single mistake would resemble many of them.
    """

    pairs: list[tuple[Mistake, Mistake, Function]] = field(default_factory=list)
    """Two mistakes, and a function that makes both."""

    def judge(self, answer: Function) -> str | None:
        """Return None if the answer is right, else a message for the learner: what is wrong, then a hint."""
        message = super().judge(answer)
        has_name = message is None or message.partition("\n")[0] in {mistake.title for mistake in self.mistakes}
        return message if has_name else self._match_pair(answer) or message

    def _match_pair(self, answer: Function) -> str | None:
        if not callable(answer):
            return None
        results = self._results(answer)
        for first, second, function in self.pairs:
            if all(map(CallResult.equals, results, self._results(function))):
                hints = f"First: {first.hint}\nSecond: {second.hint}"
                return f"two mistakes: {first.title}; {second.title}\n{hints}"
        return None

    def _results(self, function: Function) -> list[CallResult]:
        return [call(function, inputs, multiple_results=len(self.results) > 1) for inputs in self.inputs]


def with_pairs(topic: Topic, exercise: Exercise, pairs: dict[tuple[str, str], Function]) -> ExerciseWithPairs:
    """Put an exercise that knows these pairs of mistakes, given by their titles, in place of one that doesn't."""
    by_title = {mistake.title: mistake for mistake in exercise.mistakes}
    known = [(by_title[first], by_title[second], function) for (first, second), function in pairs.items()]
    values = {entry.name: getattr(exercise, entry.name) for entry in fields(exercise)}
    new = ExerciseWithPairs(**values, pairs=known)
    topic.exercises[exercise.name] = new
    return new
