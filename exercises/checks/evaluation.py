"""Checks of 13 evaluation (§6.1, Table 2)."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, combinations
from random import Random
from typing import Any

from exercises.check import Topic
from exercises.restrictions import no_library

topic = Topic(
    guard=no_library(
        "sacrebleu",
        "nltk",
        "transformer.evaluation",
        advice="In this exercise you write the metrics yourself, to see what their numbers mean.",
    )
)
check, given = topic.check, topic.given

MILK = "the dog left the milk because it was sour".split()
STUTTER = "the dog left the milk the milk sour".split()
SHORT = "the dog left the milk".split()
OTHER = "a black dog drank the milk at night".split()
NIGHT = "at night the black dog drank the milk".split()
SLEEPS = "and then it went to sleep on the warm stones by the old gate".split()


# 1 --------------------------------------------------------------------------------------------------------------------

Words = list[list[str]]


@topic.exercise(
    {"sentences": [["no", "no", "yes"]], "n": 1},
    {"sentences": [["no", "no", "yes"], ["yes", "no"]], "n": 2},
    {"sentences": ["row row row your boat row row".split(), "row row your boat".split()], "n": 2},
    {"sentences": [["yes"], STUTTER, SHORT], "n": 3},
    {"sentences": [["too", "short"], ["not", "long"]], "n": 4},
)
def ngram_counts(sentences: Words, n: int) -> dict[tuple[str, ...], int]:
    """How often each n-gram occurs."""
    return dict(_all_counts(sentences, n))


def _ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _all_counts(sentences: Sequence[Sequence[str]], n: int) -> Counter[tuple[str, ...]]:
    return sum((_ngrams(words, n) for words in sentences), Counter())


@ngram_counts.mistake(
    "n-grams across the end of a sentence",
    "You put the sentences one after the other. The last word of a sentence and the first of the next one are not "
    "neighbours: cut each sentence into n-grams on its own.",
)
def _(sentences: Words, n: int) -> Any:
    return _ngrams([*chain(*sentences)], n)


@ngram_counts.mistake(
    "only the first sentence",
    "You count the n-grams of the first sentence. Does your code return inside the loop over the sentences?",
)
def _(sentences: Words, n: int) -> Any:
    return _ngrams(sentences[0], n)


@ngram_counts.mistake(
    "only the last sentence",
    "You count the n-grams of the last sentence. Does your loop over the sentences begin a new dict each time?",
)
def _(sentences: Words, n: int) -> Any:
    return _ngrams(sentences[-1], n)


@ngram_counts.mistake(
    "one dict for each sentence",
    "You return a list with the counts of each sentence. Add them up in a single dict.",
)
def _(sentences: Words, n: int) -> Any:
    return [_ngrams(words, n) for words in sentences]


@ngram_counts.mistake(
    "the number of sentences counted",
    "You count in how many sentences each n-gram occurs. One that occurs twice in a sentence counts twice.",
)
def _(sentences: Words, n: int) -> Any:
    return Counter(chain.from_iterable({*_ngrams(words, n)} for words in sentences))


@ngram_counts.mistake(
    "the largest count of a sentence",
    "For each n-gram you take the sentence that has it most often. Add up the counts of all sentences.",
)
def _(sentences: Words, n: int) -> Any:
    return _largest(sentences, n)


def _largest(sentences: Sequence[Sequence[str]], n: int) -> Counter[tuple[str, ...]]:
    """For each n-gram, how often it occurs in the sentence that has it most often."""
    found: Counter[tuple[str, ...]] = Counter()
    for words in sentences:
        found |= _ngrams(words, n)
    return found


@ngram_counts.mistake(
    "off by one: the last n-gram is missing",
    "Your loop ends one position too early. Three words have three 1-grams and one 3-gram.",
)
def _(sentences: Words, n: int) -> Any:
    return _all_counts([words[:-1] for words in sentences], n)


@ngram_counts.mistake(
    "n-grams at the end that are too short",
    "You start an n-gram at every word, but near the end there aren't n words left, and the slice is silently shorter.",
)
def _(sentences: Words, n: int) -> Any:
    return Counter(tuple(words[i : i + n]) for words in sentences for i in range(len(words)))


@ngram_counts.mistake("n-grams that don't overlap", "You move on by n words. The next n-gram starts one word later.")
def _(sentences: Words, n: int) -> Any:
    return Counter(tuple(words[i : i + n]) for words in sentences for i in range(0, len(words) - n + 1, n))


@ngram_counts.mistake(
    "each n-gram counted once",
    "You record which n-grams occur, but not how often. One that occurs twice has the count 2.",
)
def _(sentences: Words, n: int) -> Any:
    return dict.fromkeys(_all_counts(sentences, n), 1)


@ngram_counts.mistake("single words, whatever n is", "You count single words for every n. An n-gram has n words.")
def _(sentences: Words, n: int) -> Any:
    return _all_counts(sentences, 1)


@ngram_counts.mistake(
    "keys that are strings", "The counts are right, but your keys are strings. A key should be a tuple of words."
)
def _(sentences: Words, n: int) -> Any:
    return {" ".join(key): count for key, count in _all_counts(sentences, n).items()}


@ngram_counts.mistake(
    "all lengths up to n", "You count n-grams of all lengths up to n. Only those of length n are asked for."
)
def _(sentences: Words, n: int) -> Any:
    return Counter(chain.from_iterable(_all_counts(sentences, k).elements() for k in range(1, n + 1)))


@ngram_counts.mistake(
    "characters instead of words",
    "You join the words and cut the string into characters. An n-gram is a run of words from the list.",
)
def _(sentences: Words, n: int) -> Any:
    return _all_counts([" ".join(words) for words in sentences], n)


@ngram_counts.mistake(
    "words that aren't neighbours",
    "You combine any n words of a sentence. The words of an n-gram are next to each other.",
)
def _(sentences: Words, n: int) -> Any:
    return Counter(chain.from_iterable(combinations(words, n) for words in sentences))


@ngram_counts.mistake(
    "a sentence that is too short",
    "A sentence with fewer than n words has no n-gram. Your code still counts one, which is too short.",
)
def _(sentences: Words, n: int) -> Any:
    return Counter(tuple(words[i : i + n]) for words in sentences for i in range(max(1, len(words) - n + 1)))


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"hypothesis": ["the", "the", "the"], "references": [["the", "dog"]], "n": 1},
    {"hypothesis": ["the"] * 4, "references": [["the", "dog"], ["the", "the"]], "n": 1},
    {"hypothesis": SHORT, "references": [SHORT[:2], SHORT[2:]], "n": 2},
    {"hypothesis": STUTTER, "references": [OTHER, MILK], "n": 1},
    {"hypothesis": STUTTER, "references": [MILK, SHORT, OTHER], "n": 2},
    {"hypothesis": "b a b".split(), "references": ["b b c b a".split(), "a a".split()], "n": 1},
    {"hypothesis": ["too", "short"], "references": [MILK], "n": 4},
    {"hypothesis": MILK, "references": [["sour"], NIGHT], "n": 2},
    results=("matches", "total"),
)
def clipped_matches(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    """How many n-grams of the hypothesis are right, and how many it has."""
    return (_ngrams(hypothesis, n) & _largest(references, n)).total(), _ngrams(hypothesis, n).total()


def _matches(hypothesis: Sequence[str], reference: Sequence[str], n: int) -> int:
    return (_ngrams(hypothesis, n) & _ngrams(reference, n)).total()


@clipped_matches.mistake(
    "the counts of the references added",
    "You add up the counts of all references. The more references there are, the more often a word could be repeated. "
    "For each n-gram, only the reference that has it most often counts.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    return (_ngrams(hypothesis, n) & _all_counts(references, n)).total(), _ngrams(hypothesis, n).total()


@clipped_matches.mistake(
    "only the first reference",
    "You use the first reference only. An n-gram that another reference contains is right as well.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    return _matches(hypothesis, references[0], n), _ngrams(hypothesis, n).total()


@clipped_matches.mistake(
    "only the last reference",
    "You use the last reference only. Does your loop over the references overwrite what it found before?",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    return _matches(hypothesis, references[-1], n), _ngrams(hypothesis, n).total()


@clipped_matches.mistake(
    "only the best reference",
    "You take the reference with the most matches. One n-gram may be in one reference, and the next in another: "
    "combine the references n-gram by n-gram.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    return max(_matches(hypothesis, words, n) for words in references), _ngrams(hypothesis, n).total()


@clipped_matches.mistake(
    "the matches with each reference added",
    "You match the hypothesis with each reference and add up the matches, so one n-gram of the hypothesis can count "
    "several times. Combine the references first, and match once.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    return sum(_matches(hypothesis, words, n) for words in references), _ngrams(hypothesis, n).total()


@clipped_matches.mistake(
    "only what all references contain",
    "You combine the references with their smallest counts, so an n-gram is right only if all of them contain it. One "
    "is enough: take the largest count.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    first, *others = (_ngrams(words, n) for words in references)
    for other in others:
        first &= other
    return (_ngrams(hypothesis, n) & first).total(), _ngrams(hypothesis, n).total()


@clipped_matches.mistake(
    "the references joined into one text",
    "You put the references one after the other. That adds up their counts, and makes n-grams of the end of one and "
    "the beginning of the next. Count the n-grams of each reference on its own.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    return _matches(hypothesis, [*chain(*references)], n), _ngrams(hypothesis, n).total()


@clipped_matches.mistake(
    "a sentence where a list of sentences should be",
    "You call `ngram_counts` with the words of a sentence. It takes a list of sentences, so it takes each word for a "
    "sentence, and cuts it into characters. Put the sentence into a list.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    mine, there = _all_counts(hypothesis, n), Counter[tuple[str, ...]]()
    for reference in references:
        there |= _all_counts(reference, n)
    return (mine & there).total(), mine.total()


@clipped_matches.mistake(
    "the hypothesis cut into characters",
    "You pass `hypothesis` to `ngram_counts`, which takes a list of sentences: it takes each word for a sentence, and "
    "cuts it into characters, so hardly anything matches. `references` is a list of sentences, but each reference "
    "should be counted on its own.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    return (_all_counts(hypothesis, n) & _all_counts(references, n)).total(), max(len(hypothesis) - n + 1, 0)


@clipped_matches.mistake(
    "not clipped",
    "You count an n-gram of the hypothesis as often as it occurs there. Each n-gram of a reference may be used only "
    "once.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    there, total = _largest(references, n), _ngrams(hypothesis, n).total()
    return sum(count for key, count in _ngrams(hypothesis, n).items() if key in there), total


@clipped_matches.mistake(
    "counted from the references",
    "You count how many n-grams of the references are in the hypothesis. Precision judges the hypothesis: what it "
    "repeats too often must not count.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    there, total = _ngrams(hypothesis, n), _ngrams(hypothesis, n).total()
    return sum(count for key, count in _largest(references, n).items() if key in there), total


@clipped_matches.mistake(
    "the total of the references",
    "The matches are right, but your total counts the n-grams of the references. Count those of the hypothesis.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    return (_ngrams(hypothesis, n) & _largest(references, n)).total(), _largest(references, n).total()


@clipped_matches.mistake(
    "repeated n-grams counted once",
    "You compare which n-grams occur, but not how often. One that occurs twice in the hypothesis and in a reference "
    "counts twice.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    return len({*_ngrams(hypothesis, n)} & {*_largest(references, n)}), _ngrams(hypothesis, n).total()


@clipped_matches.mistake(
    "only distinct n-grams counted",
    "You compare which n-grams occur, but not how often, in the matches and in the total.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    return len({*_ngrams(hypothesis, n)} & {*_largest(references, n)}), len(_ngrams(hypothesis, n))


@clipped_matches.mistake(
    "only distinct n-grams in the total",
    "The matches are right, but your total is the number of different n-grams. One that occurs twice counts twice.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    return (_ngrams(hypothesis, n) & _largest(references, n)).total(), len(_ngrams(hypothesis, n))


@clipped_matches.mistake(
    "the larger count instead of the smaller",
    "For a common n-gram you take the larger of the hypothesis's count and the references'. It can't be used more "
    "often than a reference contains it, so take the smaller.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    mine, there = _ngrams(hypothesis, n), _largest(references, n)
    return sum(max(mine[key], there[key]) for key in mine if key in there), mine.total()


@clipped_matches.mistake(
    "the larger count, even for n-grams that don't match",
    "For each n-gram of the hypothesis you take the larger of its count and the references', so all of them are right, "
    "even those that no reference contains. Take the smaller.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    mine, there = _ngrams(hypothesis, n), _largest(references, n)
    return sum(max(count, there[key]) for key, count in mine.items()), mine.total()


@clipped_matches.mistake(
    "the larger count, for every n-gram of the references",
    "For each n-gram of the references you take the larger of the two counts, even if the hypothesis doesn't contain "
    "it. Take the smaller, which is then 0.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    mine, there = _ngrams(hypothesis, n), _largest(references, n)
    return sum(max(mine[key], count) for key, count in there.items()), mine.total()


@clipped_matches.mistake(
    "a negative total",
    "A hypothesis of fewer than n words has no n-grams. Your total then becomes negative and should be 0.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    return (_ngrams(hypothesis, n) & _largest(references, n)).total(), len(hypothesis) - n + 1


@clipped_matches.mistake(
    "words counted in the total",
    "Your total is the number of words. For n above 1, a sentence has fewer n-grams than words.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    return (_ngrams(hypothesis, n) & _largest(references, n)).total(), len(hypothesis)


@clipped_matches.mistake(
    "n-grams compared position by position",
    "You compare the n-grams position by position. An n-gram counts wherever it is in a reference.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    mine, *others = ([tuple(s[i : i + n]) for i in range(len(s) - n + 1)] for s in (hypothesis, *references))
    return sum(any(other[i : i + 1] == [key] for other in others) for i, key in enumerate(mine)), len(mine)


@clipped_matches.mistake(
    "the two results are swapped",
    "Both numbers are right, but in the wrong order: return the matches first, then the total.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    return _ngrams(hypothesis, n).total(), (_ngrams(hypothesis, n) & _largest(references, n)).total()


@clipped_matches.mistake(
    "the n-grams of both sides together",
    "You combine the hypothesis with the references by `|`, which takes the larger counts, and those of n-grams that "
    "only one side has. A match is in both.",
)
def _(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    return (_ngrams(hypothesis, n) | _largest(references, n)).total(), _ngrams(hypothesis, n).total()


# 3 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"c": 8, "r": 16},
    {"c": 9, "r": 9},
    {"c": 12, "r": 9},
    {"c": 9, "r": 10},
    {"c": 4, "r": 6},
    {"c": 0, "r": 7},
)
def brevity_penalty(c: int, r: int) -> float:
    """What too few words cost."""
    return _brevity(c, r)


def _brevity(c: int, r: int) -> float:
    return 0.0 if c == 0 else math.exp(min(0.0, 1 - r / c))


def _unless_empty(c: int, penalty: Callable[[], float]) -> float:
    return penalty() if c else 0.0


@brevity_penalty.mistake(
    "the fraction inverted",
    "Your penalty for short hypotheses is too mild: your exponent never falls below -1. Check which length is the "
    "numerator.",
)
def _(c: int, r: int) -> float:
    return math.exp(min(0.0, c / r - 1))


@brevity_penalty.mistake(
    "the fraction inverted, and long hypotheses penalised",
    "Your exponent is 1 - c/r, so long hypotheses are penalised. Check which length is the numerator.",
)
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: math.exp(min(0.0, 1 - c / r)))


@brevity_penalty.mistake(
    "long hypotheses rewarded",
    "For a hypothesis that is longer than the reference, your result is above 1. It should be exactly 1.",
)
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: math.exp(1 - r / c))


@brevity_penalty.mistake(
    "long hypotheses penalised as well",
    "You penalise long hypotheses, too. Their precision already suffers, because the additional words don't match.",
)
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: math.exp(-abs(1 - r / c)))


@brevity_penalty.mistake(
    "the condition inverted",
    "The formula is right, but you apply it to long hypotheses, and short ones aren't penalised.",
)
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: math.exp(1 - r / c) if c > r else 1.0)


_SIGN = (
    "Your exponent is r/c - 1, so a hypothesis that is too short gets more than 1. It should get less: the exponent "
    "has the wrong sign."
)


@brevity_penalty.mistake("the exponent has the wrong sign", _SIGN)
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: math.exp(r / c - 1) if c < r else 1.0)


@brevity_penalty.mistake("the exponent has the wrong sign, for all lengths", _SIGN)
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: math.exp(r / c - 1))


@brevity_penalty.mistake(
    "the exponent has the wrong sign, and the result is cut off at 1",
    "Your exponent is r/c - 1, which has the wrong sign. Its exponential is above 1 where the hypothesis is too short, "
    "and you cut it off at 1, so nothing is penalised there.",
)
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: min(1.0, math.exp(r / c - 1)))


@brevity_penalty.mistake("the ratio of the lengths", "This is the ratio c/r. The penalty is an exponential of 1 - r/c.")
def _(c: int, r: int) -> float:
    return min(1.0, c / r)


@brevity_penalty.mistake(
    "the exponential is missing", "You return the exponent. For equal lengths the result should be 1, not 0."
)
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: min(0.0, 1 - r / c))


@brevity_penalty.mistake(
    "1 missing in the exponent",
    "For equal lengths your exponent isn't 0, so the penalty jumps from about a third to 1.",
)
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: 1.0 if c >= r else math.exp(-r / c))


@brevity_penalty.mistake(
    "an empty hypothesis isn't penalised",
    "For an empty hypothesis you return 1. It should get 0, the limit of the formula as c goes to 0.",
)
def _(c: int, r: int) -> float:
    return _brevity(c, r) if c else 1.0


@brevity_penalty.mistake(
    "an empty hypothesis divides by zero",
    "This is right except for an empty hypothesis, where you divide by 0. It should get 0, the limit of the formula "
    "as c goes to 0.",
)
def _(c: int, r: int) -> float:
    return 1.0 if c > r else math.exp(1 - r / c)


@brevity_penalty.mistake(
    "1 divided by the length, too",
    "You divide 1 - r by c. Only r is divided by c: mind the parentheses.",
)
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: 1.0 if c >= r else math.exp((1 - r) / c))


@brevity_penalty.mistake(
    "only 1 in the exponent",
    "`e ** 1 - r / c` is (e ** 1) - r / c. The whole of 1 - r/c is the exponent: it needs parentheses.",
)
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: 1.0 if c >= r else math.e - r / c)


@brevity_penalty.mistake("base 10", "You use base 10. The base of the exponential is e.")
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: float(10 ** min(0.0, 1 - r / c)))


@brevity_penalty.mistake(
    "the fraction upside down",
    "You divide c by r. Then a shorter hypothesis gets a larger result, not a smaller one.",
)
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: math.exp(1 - c / r) if c < r else 1.0)


@brevity_penalty.mistake(
    "the fraction rounded down",
    "You divide with `//`, so the fraction is rounded down.",
)
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: math.exp(1 - r // c) if c < r else 1.0)


# 4 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"hypotheses": [STUTTER], "references": [MILK]},
    {"hypotheses": [MILK, SHORT], "references": [MILK, MILK]},
    {"hypotheses": [OTHER, STUTTER, SLEEPS[:9]], "references": [NIGHT, MILK, SLEEPS]},
    {"hypotheses": [[*NIGHT, "and", "night"], MILK[:4]], "references": [NIGHT, MILK]},
    {"hypotheses": [["the", "milk"], SLEEPS], "references": [["the", "milk"], SLEEPS[2:]]},
    {"hypotheses": [["sour"]], "references": [MILK]},
    {"hypotheses": ["the dog drank the milk".split()], "references": [SHORT]},
    {"hypotheses": [MILK[:5], MILK[5:]], "references": [MILK[5:], MILK]},
)
def corpus_bleu(hypotheses: list[list[str]], references: list[list[str]]) -> float:
    """BLEU of a test set."""
    return _bleu(hypotheses, references)


Mean = Callable[[list[float]], float]


def _geometric(precisions: list[float]) -> float:
    return math.prod(precisions) ** (1 / len(precisions))


def _bleu(
    hypotheses: Words,
    references: Words,
    mean: Mean = _geometric,
    brevity: Callable[[int, int], float] = _brevity,
    shortest: int = 1,
    longest: int = 4,
    smooth: float = 0,
) -> float:
    pairs = list(zip(hypotheses, references, strict=True))
    precisions = []
    for n in range(shortest, longest + 1):
        right = sum(_matches(h, r, n) for h, r in pairs) + smooth
        total = sum(max(0, len(h) - n + 1) for h in hypotheses) + smooth
        if not right or not total:
            return 0.0
        precisions.append(right / total)
    return 100 * brevity(sum(map(len, hypotheses)), sum(map(len, references))) * mean(precisions)


def _bleu_of(
    hypotheses: Words, references: Words, precision: Callable[[int, int], float], mean: Mean = _geometric
) -> float:
    """BLEU with another precision, made of the matches and the total of each n; either can be 0."""
    pairs = list(zip(hypotheses, references, strict=True))
    precisions = []
    for n in range(1, 5):
        right = sum(_matches(h, r, n) for h, r in pairs)
        precisions.append(precision(right, sum(_ngrams(h, n).total() for h in hypotheses)))
    return 100 * _brevity(sum(map(len, hypotheses)), sum(map(len, references))) * mean(precisions)


@corpus_bleu.mistake(
    "the mean of the sentences' BLEU",
    "You compute BLEU for each sentence and average. Add up matches, totals and lengths over the whole test set "
    "first, and compute BLEU once.",
)
def _(hypotheses: Words, references: Words) -> float:
    return sum(_bleu([h], [r]) for h, r in zip(hypotheses, references, strict=True)) / len(hypotheses)


@corpus_bleu.mistake(
    "the mean of the sentences' precisions",
    "You average the precisions of the sentences, so a sentence of three words counts as much as one of thirty. Add "
    "up matches and totals first, then divide.",
)
def _(hypotheses: Words, references: Words) -> float:
    pairs = list(zip(hypotheses, references, strict=True))
    precisions = [sum(_matches(h, r, n) / max(1, len(h) - n + 1) for h, r in pairs) / len(pairs) for n in range(1, 5)]
    return 100 * _brevity(sum(map(len, hypotheses)), sum(map(len, references))) * _geometric(precisions)


_ARITHMETIC = (
    "You take the arithmetic mean of the four precisions. BLEU takes the geometric mean, which is 0 if one of them is "
    "0."
)


@corpus_bleu.mistake("the arithmetic mean of the precisions", _ARITHMETIC)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu_of(hypotheses, references, lambda right, total: right / max(1, total), lambda p: sum(p) / 4)


@corpus_bleu.mistake("the arithmetic mean, unless a precision is 0", _ARITHMETIC)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references, mean=lambda precisions: sum(precisions) / 4)


@corpus_bleu.mistake("the root is missing", "You multiply the four precisions but don't take the fourth root.")
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references, mean=math.prod)


@corpus_bleu.mistake(
    "a quarter of the product",
    "You divide the product by 4. In Python, a power binds more tightly than a division, so the exponent needs "
    "parentheses.",
)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references, mean=lambda precisions: math.prod(precisions) / 4)


@corpus_bleu.mistake(
    "divided by the references",
    "Your totals count the n-grams of the references, so you compute recall. BLEU uses precision, a fraction of the "
    "hypotheses' n-grams.",
)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(references, hypotheses, brevity=lambda c, r: _brevity(r, c))


@corpus_bleu.mistake(
    "two different bases", "You take logarithms to one base and an exponential to another. Use the same base for both."
)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references, mean=lambda precisions: math.exp(sum(map(math.log10, precisions)) / 4))


@corpus_bleu.mistake(
    "the brevity penalty has no effect",
    "The precisions are right, but the brevity penalty is missing, or it is always 1. It depends on the number of "
    "words on each side.",
)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references, brevity=lambda c, r: 1.0)


@corpus_bleu.mistake(
    "the brevity penalty's lengths swapped",
    "The precisions are right, but your brevity penalty is applied to long hypotheses. Check the order of the two "
    "lengths.",
)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references, brevity=lambda c, r: _brevity(r, c))


@corpus_bleu.mistake(
    "the mean of the sentences' brevity penalties",
    "The precisions are right, but you compute a brevity penalty for each sentence. There is only one, from the total "
    "lengths of the test set.",
)
def _(hypotheses: Words, references: Words) -> float:
    each = [_brevity(len(h), len(r)) for h, r in zip(hypotheses, references, strict=True)]
    return _bleu(hypotheses, references, brevity=lambda c, r: sum(each) / len(each))


@corpus_bleu.mistake("from 0 to 1", "Your BLEU is between 0 and 1. It is reported from 0 to 100.")
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references) / 100


@corpus_bleu.mistake("n up to 3 only", "You use only three precisions. A range excludes its end.")
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references, longest=3, mean=lambda precisions: math.prod(precisions) ** (1 / 4))


@corpus_bleu.mistake(
    "n from 0 to 3",
    "Your n runs from 0 to 3, because a range begins with 0. BLEU counts n-grams of the lengths 1 to 4.",
)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references, shortest=0, longest=3)


@corpus_bleu.mistake(
    "only the last sentence",
    "Your precisions are those of the last sentence, because each sentence overwrites the counts of the one before. "
    "Add up the matches and the totals.",
)
def _(hypotheses: Words, references: Words) -> float:
    penalty = _brevity(sum(map(len, hypotheses)), sum(map(len, references)))
    return _bleu(hypotheses[-1:], references[-1:], brevity=lambda c, r: penalty)


@corpus_bleu.mistake(
    "the test set joined into one sentence",
    "You join all sentences into one, so n-grams run across sentence ends, and a hypothesis can match another "
    "sentence's reference.",
)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu([list(chain(*hypotheses))], [list(chain(*references))])


@corpus_bleu.mistake(
    "clipped over the whole test set",
    "You add up the n-grams of all sentences before you clip, so a wrong word can match another sentence's reference. "
    "Clip within each sentence, then add up.",
)
def _(hypotheses: Words, references: Words) -> float:
    precisions = []
    for n in range(1, 5):
        mine, there = (Counter(chain(*(_ngrams(s, n).elements() for s in side))) for side in (hypotheses, references))
        if not (mine & there):
            return 0.0
        precisions.append((mine & there).total() / mine.total())
    return 100 * _brevity(sum(map(len, hypotheses)), sum(map(len, references))) * _geometric(precisions)


@corpus_bleu.mistake(
    "smoothed",
    "You add 1 to the counts so that none of them is zero. That is common for single sentences; here a precision of 0 "
    "makes BLEU 0.",
)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references, smooth=1)


@corpus_bleu.mistake(
    "smoothed with a tiny number",
    "You add a tiny number to the counts so that you can divide and take logarithms. But then BLEU isn't 0 where a "
    "precision is 0 or there is nothing to divide by.",
)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references, smooth=1e-9)


for _matches_instead in (0.1, 0.5, 1.0):

    @corpus_bleu.mistake(
        f"smoothed: {_matches_instead:g} in place of no matches",
        f"Where no n-gram of some length matches, you put {_matches_instead:g} in place of the 0. That is smoothing, "
        "which is common for single sentences. This blank has none: a precision of 0 makes BLEU 0.",
    )
    def _(hypotheses: Words, references: Words, least: float = _matches_instead) -> float:
        return _bleu_of(hypotheses, references, lambda right, total: (right or least) / max(1, total))


for _precision_instead in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12, 1e-15, 1e-16):

    @corpus_bleu.mistake(
        f"smoothed: {_precision_instead:g} in place of a precision of 0",
        "You replace a precision of 0 by a small number, perhaps because 0 has no logarithm. That is smoothing, and "
        "this blank has none: a precision of 0 makes BLEU exactly 0.",
    )
    def _(hypotheses: Words, references: Words, least: float = _precision_instead) -> float:
        return _bleu_of(hypotheses, references, lambda right, total: max(right / max(1, total), least))


@corpus_bleu.mistake(
    "a precision of zero skipped",
    "If a precision is 0, you skip it, which is the same as a precision of 1. It makes the whole score 0.",
)
def _(hypotheses: Words, references: Words) -> float:
    product, pairs = 1.0, list(zip(hypotheses, references, strict=True))
    for n in range(1, 5):
        if right := sum(_matches(h, r, n) for h, r in pairs):
            product *= right / sum(_ngrams(h, n).total() for h in hypotheses)
    return 100 * _brevity(sum(map(len, hypotheses)), sum(map(len, references))) * product ** (1 / 4)


@corpus_bleu.mistake(
    "missing n-grams left out",
    "If no sentence has an n-gram of some length, you leave this length out. Then there is nothing to divide by, "
    "and BLEU is 0.",
)
def _(hypotheses: list[list[str]], references: list[list[str]]) -> float:
    longest = max(n for n in range(1, 5) if n == 1 or any(len(h) >= n for h in hypotheses))
    return _bleu(hypotheses, references, longest=longest)


@corpus_bleu.mistake(
    "the counts not reset",
    "Your matches and totals go on growing from one n to the next, so each precision contains the shorter n-grams as "
    "well. Begin with 0 for each n.",
)
def _(hypotheses: Words, references: Words) -> float:
    right, total, precisions = 0, 0, []
    for n in range(1, 5):
        right += sum(_matches(h, r, n) for h, r in zip(hypotheses, references, strict=True))
        total += sum(_ngrams(h, n).total() for h in hypotheses)
        precisions.append(right / total)
    return 100 * _brevity(sum(map(len, hypotheses)), sum(map(len, references))) * _geometric(precisions)


@corpus_bleu.mistake(
    "the last sentence's brevity penalty",
    "The precisions are right, but your brevity penalty compares the lengths of the last sentence. It is computed from "
    "all words of the test set.",
)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references, brevity=lambda c, r: _brevity(len(hypotheses[-1]), len(references[-1])))


@corpus_bleu.mistake(
    "smoothed above single words",
    "From the 2-grams on, you add 1 to the counts so that none of them is zero. That is common for single sentences; "
    "here a precision of 0 makes BLEU 0.",
)
def _(hypotheses: Words, references: Words) -> float:
    pairs = list(zip(hypotheses, references, strict=True))
    precisions = [
        (sum(_matches(h, r, n) for h, r in pairs) + (n > 1))
        / (sum(_ngrams(h, n).total() for h in hypotheses) + (n > 1))
        for n in range(1, 5)
    ]
    return 100 * _brevity(sum(map(len, hypotheses)), sum(map(len, references))) * _geometric(precisions)


@corpus_bleu.mistake(
    "a reference where the list of references should be",
    "Your result is 0 for every test set. `clipped_matches` takes a list of references. Here each sentence has one, so "
    "it is a list with a single entry.",
)
def _(hypotheses: Words, references: Words) -> float:
    return 0.0


# 5 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"hypothesis": "Museumsbank", "reference": "Museumsbänke"},
    {"hypothesis": "an old dog", "reference": "a very old dog"},
    {"hypothesis": "Der Hund mag die die Milch.", "reference": "der Hund trank Milch."},
    {"hypothesis": "ja", "reference": "jau"},
    {"hypothesis": "jau", "reference": "ja"},
    {"hypothesis": "nein", "reference": "ja"},
    {"hypothesis": "Hunde", "reference": "Hündin"},
)
def chrf(hypothesis: str, reference: str) -> float:
    """The overlap of pieces of characters."""
    return _chrf(hypothesis, reference)


def _f(precision: float, recall: float, factor: float) -> float:
    below = factor * precision + recall
    return (1 + factor) * precision * recall / below if below else 0.0


def _shares(h: Sequence[str], r: Sequence[str], clip: bool = True) -> list[tuple[float, float]]:
    """Precision and recall, for each n of which both have n-grams."""
    found = []
    for n in range(1, min(6, len(h), len(r)) + 1):
        mine, there = _ngrams(h, n), _ngrams(r, n)
        right = (mine & there).total() if clip else sum(count for key, count in mine.items() if key in there)
        found.append((right / mine.total(), right / there.total()))
    return found


def _chrf(
    hypothesis: str, reference: str, factor: float = 4.0, drop: str = " ", clip: bool = True, longest: int = 0
) -> float:
    """An n up to ``longest``, and to 6, counts as 0 where the two do not both have n-grams."""
    shares = _shares(hypothesis.replace(drop, ""), reference.replace(drop, ""), clip)
    lengths = max(len(shares), min(6, longest))
    precision, recall = (sum(column) / lengths for column in zip(*shares, strict=True))
    return 100 * _f(precision, recall, factor)


@chrf.mistake("spaces not removed", "Your n-grams contain spaces. chrF removes all spaces first.")
def _(hypothesis: str, reference: str) -> float:
    return _chrf(hypothesis, reference, drop="\n")


@chrf.mistake(
    "precision and recall weighted equally", "You weight precision and recall equally. With β = 2, recall counts more."
)
def _(hypothesis: str, reference: str) -> float:
    return _chrf(hypothesis, reference, factor=1.0)


@chrf.mistake(
    "the n-grams of all lengths in one fraction",
    "You add the n-grams of all lengths before you divide, so short ones count more, because there are more of them. "
    "Compute precision and recall for each n, and average over n.",
)
def _(hypothesis: str, reference: str) -> float:
    h, r = hypothesis.replace(" ", ""), reference.replace(" ", "")
    both = [(_ngrams(h, n), _ngrams(r, n)) for n in range(1, min(6, len(h), len(r)) + 1)]
    right = sum((mine & there).total() for mine, there in both)
    precision, recall = (right / sum(pair[side].total() for pair in both) for side in (0, 1))
    return 100 * _f(precision, recall, 4.0)


@chrf.mistake(
    "n-grams within words only",
    "You form the n-grams of each word by itself. chrF removes the spaces, so an n-gram may begin in one word and end "
    "in the next.",
)
def _(hypothesis: str, reference: str) -> float:
    found = []
    for n in range(1, 7):
        mine, there = (sum((_ngrams(word, n) for word in text.split()), Counter()) for text in (hypothesis, reference))
        if mine and there:
            right = (mine & there).total()
            found.append((right / mine.total(), right / there.total()))
    precision, recall = (sum(column) / len(found) for column in zip(*found, strict=True))
    return 100 * _f(precision, recall, 4.0)


_OF_WORDS = (
    "Your n-grams are made of words. Those of chrF are made of characters: remove the spaces, and take the text "
    "character by character."
)


@chrf.mistake("words instead of characters", _OF_WORDS)
def _(hypothesis: str, reference: str) -> float:
    return _chrf_of_words(hypothesis, reference, always_six=False)


@chrf.mistake("words instead of characters, and always divided by six", _OF_WORDS)
def _(hypothesis: str, reference: str) -> float:
    return _chrf_of_words(hypothesis, reference, always_six=True)


def _chrf_of_words(hypothesis: str, reference: str, always_six: bool) -> float:
    shares = _shares(hypothesis.split(), reference.split())
    precision, recall = (sum(column) / (6 if always_six else len(shares)) for column in zip(*shares, strict=True))
    return 100 * _f(precision, recall, 4.0)


@chrf.mistake("beta not squared", "You use beta where the formula has its square.")
def _(hypothesis: str, reference: str) -> float:
    return _chrf(hypothesis, reference, factor=2.0)


@chrf.mistake(
    "precision and recall swapped",
    "You give precision the larger weight, or you divide by the wrong sentence. Recall is a fraction of the "
    "reference's n-grams.",
)
def _(hypothesis: str, reference: str) -> float:
    return _chrf(reference, hypothesis)


@chrf.mistake(
    "an F-score for each n",
    "You compute an F-score for each n and average those. Average the precisions and the recalls first, and compute F "
    "once.",
)
def _(hypothesis: str, reference: str) -> float:
    shares = _shares(hypothesis.replace(" ", ""), reference.replace(" ", ""))
    return 100 * sum(_f(p, r, 4.0) for p, r in shares) / len(shares)


@chrf.mistake(
    "always divided by six",
    "You always divide by 6. A text of fewer than six characters has no 6-grams, and such n are left out of the means.",
)
def _(hypothesis: str, reference: str) -> float:
    return _chrf(hypothesis, reference, longest=6)


@chrf.mistake(
    "recall 0 if the reference is too short",
    "If the reference has no n-grams of some length, you count a recall of 0. Leave such n out of both means.",
)
def _(hypothesis: str, reference: str) -> float:
    return _chrf(hypothesis, reference, longest=len(hypothesis.replace(" ", "")))


@chrf.mistake(
    "precision 0 if the hypothesis is too short",
    "If the hypothesis has no n-grams of some length, you count a precision of 0. Leave such n out of both means.",
)
def _(hypothesis: str, reference: str) -> float:
    return _chrf(hypothesis, reference, longest=len(reference.replace(" ", "")))


@chrf.mistake(
    "left out of one mean only",
    "You decide for each mean separately: you leave n out of P if the hypothesis is too short, and out of R if the "
    "reference is. If one of the two is too short, leave it out of both.",
)
def _(hypothesis: str, reference: str) -> float:
    h, r = hypothesis.replace(" ", ""), reference.replace(" ", "")
    precision, recall = (sum(column) for column in zip(*_shares(h, r), strict=True))
    return 100 * _f(precision / min(6, len(h)), recall / min(6, len(r)), 4.0)


@chrf.mistake(
    "n without matches skipped",
    "You skip each n without matches, so only the lengths that went well count. The precision and recall of such an n "
    "are 0, and belong in the means.",
)
def _(hypothesis: str, reference: str) -> float:
    shares = [pair for pair in _shares(hypothesis.replace(" ", ""), reference.replace(" ", "")) if pair[0]]
    if not shares:
        return 0.0
    precision, recall = (sum(column) / len(shares) for column in zip(*shares, strict=True))
    return 100 * _f(precision, recall, 4.0)


@chrf.mistake(
    "not clipped", "Your matches aren't clipped. As in BLEU, each n-gram of the reference may be used only once."
)
def _(hypothesis: str, reference: str) -> float:
    return _chrf(hypothesis, reference, clip=False)


@chrf.mistake("converted to lower case", "You convert the texts to lower case. chrF distinguishes capital letters.")
def _(hypothesis: str, reference: str) -> float:
    return _chrf(hypothesis.lower(), reference.lower())


@chrf.mistake("geometric means", "You take geometric means over n, as in BLEU. chrF takes arithmetic means.")
def _(hypothesis: str, reference: str) -> float:
    shares = _shares(hypothesis.replace(" ", ""), reference.replace(" ", ""))
    precision, recall = (_geometric(list(column)) for column in zip(*shares, strict=True))
    return 100 * _f(precision, recall, 4.0)


@chrf.mistake("n up to 5 only", "You leave out the 6-grams. A range excludes its end.")
def _(hypothesis: str, reference: str) -> float:
    shares = _shares(hypothesis.replace(" ", ""), reference.replace(" ", ""))[:5]
    precision, recall = (sum(column) / len(shares) for column in zip(*shares, strict=True))
    return 100 * _f(precision, recall, 4.0)


@chrf.mistake("6-grams only", "You use only n = 6. All n from 1 to 6 count.")
def _(hypothesis: str, reference: str) -> float:
    return 100 * _f(*_shares(hypothesis.replace(" ", ""), reference.replace(" ", ""))[-1], 4.0)


@chrf.mistake("from 0 to 1", "Your chrF is between 0 and 1. It is reported from 0 to 100.")
def _(hypothesis: str, reference: str) -> float:
    return _chrf(hypothesis, reference) / 100


@chrf.mistake(
    "zero divided by zero",
    "If nothing matches, precision and recall are both 0, and you divide 0 by 0. chrF should then be 0.",
)
def _(hypothesis: str, reference: str) -> float:
    shares = _shares(hypothesis.replace(" ", ""), reference.replace(" ", ""))
    precision, recall = (sum(column) / len(shares) for column in zip(*shares, strict=True))
    return 100 * 5 * precision * recall / (4 * precision + recall)


@chrf.mistake(
    "β isn't squared",
    "Your denominator contains β. The formula has β², both times.",
)
def _(hypothesis: str, reference: str) -> float:
    shares = _shares(hypothesis.replace(" ", ""), reference.replace(" ", ""))
    precision, recall = (sum(column) / len(shares) for column in zip(*shares, strict=True))
    return 100 * 5 * precision * recall / (2 * precision + recall) if precision else 0.0


@chrf.mistake(
    "n-grams that only one of the two has",
    "You leave out a length only where the hypothesis is too short for it. Leave it out where either of the two is.",
)
def _(hypothesis: str, reference: str) -> float:
    h, r = hypothesis.replace(" ", ""), reference.replace(" ", "")
    shares = _shares(h, r)
    precision = sum(share for share, _ in shares) / min(6, len(h))
    recall = sum(share for _, share in shares) / len(shares)
    return 100 * _f(precision, recall, 4.0)


@chrf.mistake(
    "a reference where the list of references should be",
    "`clipped_matches` takes a list of references. You pass the characters of one reference, so each character counts "
    "as a reference of its own.",
)
def _(hypothesis: str, reference: str) -> float:
    h, r = (text.replace(" ", "") for text in (hypothesis, reference))
    matches = [(_ngrams(h, n) & _largest(r, n)).total() for n in range(1, min(6, len(h), len(r)) + 1)]
    p, r_ = (sum(m / (len(s) - n) for n, m in enumerate(matches)) / len(matches) for s in (h, r))
    return 100 * 5 * p * r_ / (4 * p + r_) if p else 0.0


# 6 --------------------------------------------------------------------------------------------------------------------


Counts = list[tuple[int, int]]
Draws = list[list[int]]


def _counts(sentences: int, seed: int) -> Counts:
    generator = Random(seed)
    totals = [generator.randint(2, 29) for _ in range(sentences)]
    return [(int(total * generator.uniform(0.4, 0.9)), total) for total in totals]


def _draws(draws: int, sentences: int, seed: int) -> Draws:
    generator = Random(seed)
    return [generator.choices(range(sentences), k=sentences) for _ in range(draws)]


@topic.exercise(
    {
        "first": [(3, 10), (1, 2), (4, 4)],
        "second": [(5, 10), (0, 2), (4, 4)],
        "draws": [[0, 1, 2], [1, 1, 2], [2, 2, 2], [1, 0, 1]],
    },
    {"first": _counts(12, 1), "second": _counts(12, 2), "draws": _draws(50, 12, 3)},
    {"first": _counts(30, 4), "second": _counts(30, 5), "draws": _draws(200, 30, 6)},
    {"first": _counts(30, 4), "second": _counts(30, 4), "draws": _draws(20, 30, 8)},
    insight="If the second system wins at least 95% of the draws, papers call its gain significant at p < 0.05.",
)
def share_of_wins(first: Counts, second: Counts, draws: Draws) -> float:
    """In which share of the draws the second is better."""
    return sum(after > before for before, after in _scores(first, second, draws)) / len(draws)


def _precision(counts: Counts) -> float:
    matches, totals = zip(*counts, strict=True)
    return sum(matches) / sum(totals)


def _scores(first: Counts, second: Counts, draws: Draws) -> list[tuple[float, float]]:
    """The precisions of both systems on each draw."""
    return [(_precision([first[i] for i in draw]), _precision([second[i] for i in draw])) for draw in draws]


@share_of_wins.mistake(
    "the mean of the sentences' precisions",
    "You average the precisions of the sentences. As for a test set, add up matches and totals within each draw, then "
    "divide.",
)
def _(first: Counts, second: Counts, draws: Draws) -> float:
    one, other = ([matches / total for matches, total in counts] for counts in (first, second))
    return sum(sum(other[i] for i in draw) > sum(one[i] for i in draw) for draw in draws) / len(draws)


@share_of_wins.mistake(
    "wins of the first system", "You count how often the first system wins. Count the second one's wins."
)
def _(first: Counts, second: Counts, draws: Draws) -> float:
    return share_of_wins.reference(second, first, draws)


@share_of_wins.mistake(
    "ties counted as wins", "You count a tie as a win. Two equal systems never win against each other."
)
def _(first: Counts, second: Counts, draws: Draws) -> float:
    return 1 - share_of_wins.reference(second, first, draws)


@share_of_wins.mistake("ties counted as half a win", "You count a tie as half a win. It counts as none.")
def _(first: Counts, second: Counts, draws: Draws) -> float:
    return (share_of_wins.reference(first, second, draws) + 1 - share_of_wins.reference(second, first, draws)) / 2


@share_of_wins.mistake(
    "a number instead of a share", "You return how many draws are won. Divide by the number of draws."
)
def _(first: Counts, second: Counts, draws: Draws) -> float:
    return share_of_wins.reference(first, second, draws) * len(draws)


@share_of_wins.mistake(
    "different draws for the two systems",
    "You score the two systems on different draws, so the luck of the draw becomes part of the difference. Use the "
    'same sentences for both; that is what "paired" means.',
)
def _(first: Counts, second: Counts, draws: Draws) -> float:
    others = [draws[-1], *draws[:-1]]
    pairs = zip(_scores(first, second, draws), _scores(first, second, others), strict=True)
    return sum(after > before for (before, _), (_, after) in pairs) / len(draws)


@share_of_wins.mistake(
    "repetitions dropped", "If a sentence is drawn twice, you count it once. It should count as often as it was drawn."
)
def _(first: Counts, second: Counts, draws: Draws) -> float:
    return share_of_wins.reference(first, second, [sorted(set(draw)) for draw in draws])


@share_of_wins.mistake(
    "matches compared instead of precisions",
    "You compare the numbers of matches. The totals of the two systems may differ, so compare precisions.",
)
def _(first: Counts, second: Counts, draws: Draws) -> float:
    return sum(sum(second[i][0] for i in draw) > sum(first[i][0] for i in draw) for draw in draws) / len(draws)


@share_of_wins.mistake(
    "all draws added up", "You add up over all draws, and compare once. Score each draw on its own, and count the wins."
)
def _(first: Counts, second: Counts, draws: Draws) -> float:
    return share_of_wins.reference(first, second, [list(chain.from_iterable(draws))])


@share_of_wins.mistake(
    "the sums not reset",
    "Your sums go on growing from draw to draw. Begin each draw with sums of 0.",
)
def _(first: Counts, second: Counts, draws: Draws) -> float:
    def scores(counts: Counts) -> list[float]:
        matches, totals = ([*accumulate(sum(counts[i][side] for i in draw) for draw in draws)] for side in (0, 1))
        return [m / t for m, t in zip(matches, totals, strict=True)]

    return sum(after > before for before, after in zip(scores(first), scores(second), strict=True)) / len(draws)


@share_of_wins.mistake(
    "sentences compared instead of draws",
    "You compare the systems on each drawn sentence. Compare their scores on each draw as a whole.",
)
def _(first: Counts, second: Counts, draws: Draws) -> float:
    return share_of_wins.reference(first, second, [[i] for i in chain.from_iterable(draws)])


@share_of_wins.mistake(
    "the draws not used", "You compare the systems on the test set itself. Compare them on each draw."
)
def _(first: Counts, second: Counts, draws: Draws) -> float:
    return share_of_wins.reference(first, second, [list(range(len(first)))])


@share_of_wins.mistake(
    "ties left out",
    "You leave draws out in which both are equally good. Divide by the number of all draws.",
)
def _(first: Counts, second: Counts, draws: Draws) -> float:
    scores = [pair for pair in _scores(first, second, draws) if pair[0] != pair[1]]
    return sum(after > before for before, after in scores) / len(scores) if scores else 0.0


@share_of_wins.mistake(
    "it ends after the first draw",
    "Only the first draw counts: the function returns before it comes to the others. Is your `return` inside the loop?",
)
def _(first: Counts, second: Counts, draws: Draws) -> float:
    return share_of_wins.reference(first, second, draws[:1]) / len(draws)


@share_of_wins.mistake(
    "indices counted from 1",
    "You take the sentence before the one that was drawn. The indices of a draw count from 0, as those of a list do.",
)
def _(first: Counts, second: Counts, draws: Draws) -> float:
    return share_of_wins.reference(first, second, [[i - 1 for i in draw] for draw in draws])
