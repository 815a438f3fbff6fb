"""Name the mistakes that the messages of checks describe, and count how many notebooks contain them."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from exercises.notebooks import NOT_DONE

if TYPE_CHECKING:
    from exercises.grade import Grade

MAX_BAR = 30
"""Length of the longest bar of the histogram."""

KINDS = {
    NOT_DONE: NOT_DONE,
    r"(it|its cell|your model) stopped with (\w+)": r"\1 stopped with \2",
    r".* has the shape \(": "the wrong shape",
    r".* has the dtype ": "the wrong dtype",
    r".* has wrong (numbers|entries), marked with": r"other wrong \1",
    r".* has \d+ entr(y|ies), but should have ": "the wrong number of entries",
    r".* is .*, but should be ": "another wrong result",
    r".* contains NaN$": "NaN",
    r"it returns None": "it returns None",
    r"it returns .* values?, but should return ": "the wrong number of values",
    r"no gradient flows back to ": "no gradient",
    r"the gradient of `.*` (is wrong|contains NaN)": r"the gradient \1",
    r"\d+ parameters get no gradient": "parameters get no gradient",
    r"the training loss .*, worse than guessing": "the validation loss is worse than guessing",
    r"the training loss .* stays near guessing": "the validation loss stays near guessing",
    r"the training loss ends at ": "the training loss is much larger than the validation loss",
    r"the training loss goes from ": "the training loss falls too little",
    r"BLEU .* on unseen sentences, and the goal is ": "BLEU below the goal",
    r"it changes its input ": "it changes its input",
    r"`.*` is not what it should be after the call": "an input is not what it should be after the call",
    r"its cell was not run, because it uses": "its cell was not run, because it uses something forbidden",
    r"it did not finish within ": "it did not finish in time",
    r"it printed more than ": "it printed too much",
    r"it ended the whole Python process": "it ended the whole Python process",
    r"its cell does not define the function": "its cell does not define the function",
}
"""Patterns of first lines that aren't the name of a mistake → the name under which such a message is counted."""


def mistake_name(message: str) -> str:
    """Return the name of the mistake, without what is specific to one answer, such as the numbers in it."""
    first = message.partition("\n")[0].removeprefix("this looks like a known mistake: ")
    for pattern, name in KINDS.items():
        if match := re.match(pattern, first):
            return match.expand(name)
    return first


def count_mistakes(grades: Sequence["Grade"]) -> dict[str, dict[str, Counter[str]]]:
    """Count the mistakes in each of the course's notebooks that was graded more than once.

    Returns:
        Name of the notebook → exercise → name of the mistake → number of notebooks, the most frequent mistake first.
    """
    notebooks = Counter(grade.notebook for grade in grades if grade.notebook)
    counts: dict[str, dict[str, Counter[str]]] = {}
    for grade in grades:
        if notebooks[grade.notebook] > 1:
            for key, message in grade.messages.items():
                names = counts.setdefault(grade.notebook, {}).setdefault(key, Counter())
                names.update([mistake_name(message)] if message is not None else [])
    return {
        notebook: {key: Counter(dict(names.most_common())) for key, names in exercises.items()}
        for notebook, exercises in counts.items()
    }


def histogram(grades: Sequence["Grade"]) -> Iterator[str]:
    """Yield lines that show how frequent each mistake is, as counted by `count_mistakes`."""
    for notebook, exercises in count_mistakes(grades).items():
        messages = [grade.messages for grade in grades if grade.notebook == notebook]
        longest = max((count for names in exercises.values() for count in names.values()), default=1)
        width = min(longest, MAX_BAR)
        yield f"\nmistakes in {notebook.replace('_', ' ')} ({len(messages)} notebooks)"
        for key, names in exercises.items():
            yield f"  {key}: {sum(answers[key] is None for answers in messages)} right"
            for name, count in names.items():
                bar = "█" * max(1, round(count * width / longest))
                yield f"  {count:5} {bar:{width}} {name}"
