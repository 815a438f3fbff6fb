"""What learners write in the notebooks 11 to 17, and by which name their mistakes are called."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.exercises.test_checks import message


def said(name: str, answer: Any) -> list[str]:
    """The lines of the message, without the name of the blank."""
    return message(name, answer).removeprefix(f"✗ {name}: ").splitlines()


# 13 evaluation --------------------------------------------------------------------------------------------------------

Words = list[list[str]]


def ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def penalty(c: int, r: int) -> float:
    return 0.0 if c == 0 else min(1.0, math.exp(1 - r / c))


def bleu_with(precision: Callable[[int, int], float], mean: Callable[[list[float]], float]) -> Any:
    def answer(hypotheses: Words, references: Words) -> float:
        precisions = []
        for n in (1, 2, 3, 4):
            pairs = [(ngrams(h, n), ngrams(r, n)) for h, r in zip(hypotheses, references, strict=True)]
            precisions.append(precision(sum((h & r).total() for h, r in pairs), sum(h.total() for h, _ in pairs)))
        return 100 * penalty(sum(map(len, hypotheses)), sum(map(len, references))) * mean(precisions)

    return answer


def by_logarithms(precisions: list[float]) -> float:
    return math.exp(sum(map(math.log, precisions)) / 4)


def geometric(precisions: list[float]) -> float:
    return math.prod(precisions) ** 0.25


def penalty_with_other_sign(c: int, r: int) -> float:
    if c == 0:
        return 0.0
    return 1.0 if c >= r else math.exp(r / c - 1)


def matches_by_maximum(hypothesis: list[str], reference: list[str], n: int) -> tuple[int, int]:
    mine, there = ngrams(hypothesis, n), ngrams(reference, n)
    return sum(max(mine[gram], there[gram]) for gram in mine), sum(mine.values())


def matches_by_maximum_of_the_reference(hypothesis: list[str], reference: list[str], n: int) -> tuple[int, int]:
    mine, there = ngrams(hypothesis, n), ngrams(reference, n)
    return sum(max(mine[gram], there[gram]) for gram in there), sum(mine.values())


def chrf_of_words(skip: bool) -> Any:
    def answer(hypothesis: str, reference: str) -> float:
        h, r = hypothesis.split(), reference.split()
        found = []
        for n in range(1, 7):
            mine, there = ngrams(h, n), ngrams(r, n)
            matches = (mine & there).total()
            if (mine and there) or not skip:
                found.append((matches / max(1, mine.total()), matches / max(1, there.total())))
        p, r_ = (sum(column) / len(found) for column in zip(*found, strict=True))
        return 100 * 5 * p * r_ / (4 * p + r_) if p else 0.0

    return answer


@pytest.mark.parametrize(
    ("name", "answer", "title"),
    [
        ("corpus_bleu", bleu_with(lambda m, t: m / t if t else 0.0, lambda p: sum(p) / 4),
         "the arithmetic mean of the precisions"),
        ("corpus_bleu", bleu_with(lambda m, t: (m or 0.1) / max(t, 1), geometric),
         "smoothed: 0.1 in place of no matches"),
        ("corpus_bleu", bleu_with(lambda m, t: max(m, 1) / max(t, 1), geometric), "smoothed: 1 in place of no matches"),
        ("corpus_bleu", bleu_with(lambda m, t: max(m / max(t, 1), 1e-9), by_logarithms),
         "smoothed: 1e-09 in place of a precision of 0"),
        ("corpus_bleu", bleu_with(lambda m, t: m / max(t, 1) + 1e-10, by_logarithms),
         "smoothed: 1e-10 in place of a precision of 0"),
        ("brevity_penalty", penalty_with_other_sign, "the exponent has the wrong sign"),
        ("brevity_penalty", lambda c, r: math.exp(r / c - 1) if c else 0.0,
         "the exponent has the wrong sign, for all lengths"),
        ("brevity_penalty", lambda c, r: min(1.0, math.exp(r / c - 1)) if c else 0.0,
         "the exponent has the wrong sign, and the result is cut off at 1"),
        ("clipped_matches", matches_by_maximum, "the larger count, even for n-grams that don't match"),
        ("clipped_matches", matches_by_maximum_of_the_reference, "the larger count, for every n-gram of the reference"),
        ("chrf", chrf_of_words(skip=True), "words instead of characters"),
        ("chrf", chrf_of_words(skip=False), "words instead of characters, and always divided by six"),
    ],
)  # fmt: skip
def test_mistakes_in_scores(name: str, answer: Any, title: str) -> None:
    assert said(name, answer)[0] == title
