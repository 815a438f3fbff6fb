"""Checks of 13 evaluation (§6.1, Table 2)."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, combinations
from typing import Any

import torch
from torch import Tensor

from exercises.check import Topic

topic = Topic()
check, given = topic.check, topic.given

MILK = "the dog left the milk because it was sour".split()
STUTTER = "the dog left the milk the milk sour".split()
SHORT = "the dog left the milk".split()
OTHER = "a black dog drank the milk at night".split()
NIGHT = "at night the black dog drank the milk".split()
SLEEPS = "and then it went to sleep on the warm stones by the old gate".split()


# 1 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"words": ["no", "no", "yes"], "n": 1},
    {"words": ["no", "no", "yes"], "n": 2},
    {"words": "row row row your boat row row".split(), "n": 2},
    {"words": STUTTER, "n": 3},
    {"words": ["too", "short"], "n": 4},
)
def ngram_counts(words: list[str], n: int) -> dict[tuple[str, ...], int]:
    """How often each n-gram occurs."""
    return dict(_ngrams(words, n))


def _ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


@ngram_counts.mistake(
    "off by one: the last n-gram is missing",
    "You stop one place too early. How many n-grams have three words for n = 1, and for n = 3?",
)
def _(words: list[str], n: int) -> Any:
    return _ngrams(words[:-1], n)


@ngram_counts.mistake(
    "pieces at the end that are too short",
    "You begin an n-gram at every word, and the last ones run over the end: a slice that has not enough words is "
    "just shorter.",
)
def _(words: list[str], n: int) -> Any:
    return Counter(tuple(words[i : i + n]) for i in range(len(words)))


@ngram_counts.mistake(
    "n-grams that do not overlap",
    "You go on by n words each time. The next n-gram begins one word later, and shares all but one of its words.",
)
def _(words: list[str], n: int) -> Any:
    return Counter(tuple(words[i : i + n]) for i in range(0, len(words) - n + 1, n))


@ngram_counts.mistake(
    "each n-gram counted once",
    "You note which n-grams there are, but not how often. One that comes twice has the count 2.",
)
def _(words: list[str], n: int) -> Any:
    return dict.fromkeys(_ngrams(words, n), 1)


@ngram_counts.mistake(
    "single words whatever n is", "These are the counts of single words, for every n. Where does n come in?"
)
def _(words: list[str], n: int) -> Any:
    return _ngrams(words, 1)


@ngram_counts.mistake(
    "keys that are strings",
    "The counts are right, but each key is one string, with the words joined. A key should be a tuple of words.",
)
def _(words: list[str], n: int) -> Any:
    return {" ".join(key): count for key, count in _ngrams(words, n).items()}


@ngram_counts.mistake(
    "all lengths up to n",
    "You count the n-grams of all lengths up to n together. Here only those of length n are wanted.",
)
def _(words: list[str], n: int) -> Any:
    return Counter(chain.from_iterable(_ngrams(words, k).elements() for k in range(1, n + 1)))


@ngram_counts.mistake(
    "pieces of letters",
    "You cut a string into letters. An n-gram here is a run of whole words, as they stand in the list.",
)
def _(words: list[str], n: int) -> Any:
    return _ngrams(" ".join(words), n)


@ngram_counts.mistake(
    "words that are not neighbours",
    "You take any words of the sentence together. The words of an n-gram stand side by side.",
)
def _(words: list[str], n: int) -> Any:
    return Counter(combinations(words, n))


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"hypothesis": ["the", "the", "the"], "reference": ["the", "dog"], "n": 1},
    {"hypothesis": STUTTER, "reference": MILK, "n": 1},
    {"hypothesis": STUTTER, "reference": MILK, "n": 2},
    {"hypothesis": "b a b".split(), "reference": "b b c b a".split(), "n": 1},
    {"hypothesis": ["too", "short"], "reference": MILK, "n": 4},
    {"hypothesis": MILK, "reference": ["sour"], "n": 2},
    results=("matches", "total"),
)
def clipped_matches(hypothesis: list[str], reference: list[str], n: int) -> tuple[int, int]:
    """How many n-grams of the hypothesis are right, and how many it has."""
    return _matches(hypothesis, reference, n), _ngrams(hypothesis, n).total()


def _matches(hypothesis: Sequence[str], reference: Sequence[str], n: int) -> int:
    return (_ngrams(hypothesis, n) & _ngrams(reference, n)).total()


@clipped_matches.mistake(
    "not clipped",
    "Each n-gram of the hypothesis that the reference has counts with you, however often. An n-gram of the "
    "reference may be used only once.",
)
def _(hypothesis: list[str], reference: list[str], n: int) -> tuple[int, int]:
    there, total = _ngrams(reference, n), _ngrams(hypothesis, n).total()
    return sum(count for key, count in _ngrams(hypothesis, n).items() if key in there), total


@clipped_matches.mistake(
    "seen from the reference",
    "You count how many n-grams of the reference are found in the hypothesis. It is the hypothesis that is "
    "judged: what it says too often must not count.",
)
def _(hypothesis: list[str], reference: list[str], n: int) -> tuple[int, int]:
    there, total = _ngrams(hypothesis, n), _ngrams(hypothesis, n).total()
    return sum(count for key, count in _ngrams(reference, n).items() if key in there), total


@clipped_matches.mistake(
    "divided by the reference",
    "The matches are right. Your total is that of the reference; precision asks what share of the hypothesis is right.",
)
def _(hypothesis: list[str], reference: list[str], n: int) -> tuple[int, int]:
    return _matches(hypothesis, reference, n), _ngrams(reference, n).total()


@clipped_matches.mistake(
    "each n-gram counted once",
    "You compare which n-grams there are, and forget how often. One that both have twice counts twice.",
)
def _(hypothesis: list[str], reference: list[str], n: int) -> tuple[int, int]:
    return len(set(_ngrams(hypothesis, n)) & set(_ngrams(reference, n))), _ngrams(hypothesis, n).total()


@clipped_matches.mistake(
    "different n-grams counted in both",
    "You compare which n-grams there are, and forget how often, in the matches and in the total.",
)
def _(hypothesis: list[str], reference: list[str], n: int) -> tuple[int, int]:
    return len(set(_ngrams(hypothesis, n)) & set(_ngrams(reference, n))), len(_ngrams(hypothesis, n))


@clipped_matches.mistake(
    "the larger of the two counts",
    "Where both have an n-gram you take the larger count. Whoever has more cannot have more of it matched than "
    "the other can give.",
)
def _(hypothesis: list[str], reference: list[str], n: int) -> tuple[int, int]:
    mine, there = _ngrams(hypothesis, n), _ngrams(reference, n)
    return sum(max(mine[key], there[key]) for key in mine if key in there), mine.total()


@clipped_matches.mistake(
    "a negative total",
    "A hypothesis of fewer than n words has no n-grams: 0 of them, and not a negative number.",
)
def _(hypothesis: list[str], reference: list[str], n: int) -> tuple[int, int]:
    return _matches(hypothesis, reference, n), len(hypothesis) - n + 1


@clipped_matches.mistake(
    "words counted in the total",
    "Your total is the number of words. A sentence has fewer n-grams than words, once n is more than 1.",
)
def _(hypothesis: list[str], reference: list[str], n: int) -> tuple[int, int]:
    return _matches(hypothesis, reference, n), len(hypothesis)


@clipped_matches.mistake(
    "same place or nothing",
    "You compare the n-grams place by place. An n-gram counts wherever the reference has it.",
)
def _(hypothesis: list[str], reference: list[str], n: int) -> tuple[int, int]:
    sides = [[tuple(s[i : i + n]) for i in range(len(s) - n + 1)] for s in (hypothesis, reference)]
    return sum(a == b for a, b in zip(*sides, strict=False)), len(sides[0])


@clipped_matches.mistake(
    "the two are swapped",
    "Both numbers are right, but they come in the other order: first the matches, then the total.",
)
def _(hypothesis: list[str], reference: list[str], n: int) -> tuple[int, int]:
    return _ngrams(hypothesis, n).total(), _matches(hypothesis, reference, n)


# 3 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"c": 8, "r": 16},
    {"c": 9, "r": 9},
    {"c": 12, "r": 9},
    {"c": 9, "r": 10},
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
    "the fraction upside down",
    "At half the length you charge too little: with your fraction the exponent never gets below -1, even for a "
    "single word.",
)
def _(c: int, r: int) -> float:
    return math.exp(min(0.0, c / r - 1))


@brevity_penalty.mistake(
    "the fraction upside down, and too long is punished",
    "Your exponent is 1 - c/r, so it is the long ones that pay. Which of the two lengths belongs above?",
)
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: math.exp(min(0.0, 1 - c / r)))


@brevity_penalty.mistake(
    "a reward for length",
    "It is right as long as the hypothesis is too short. If it is too long, yours is above 1, and the longer the "
    "better.",
)
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: math.exp(1 - r / c))


@brevity_penalty.mistake(
    "too long punished as well",
    "You punish what is too long, too. Its superfluous words have paid already: they find no match, and the "
    "precisions fall.",
)
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: math.exp(-abs(1 - r / c)))


@brevity_penalty.mistake(
    "the condition turned round",
    "The formula is right, but you use it where the hypothesis is the longer one, and let the short ones go free.",
)
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: math.exp(1 - r / c) if c > r else 1.0)


@brevity_penalty.mistake(
    "the ratio of the lengths",
    "This is the ratio itself. The penalty is an exponential; at half the length it is below 0.5.",
)
def _(c: int, r: int) -> float:
    return min(1.0, c / r)


@brevity_penalty.mistake(
    "the exponential is missing",
    "You return the exponent. It is 0 where there is nothing to punish; what should come out there?",
)
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: min(0.0, 1 - r / c))


@brevity_penalty.mistake(
    "1 forgotten in the exponent", "For equal lengths your exponent is not 0, so you jump from about a third to 1."
)
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: 1.0 if c >= r else math.exp(-r / c))


@brevity_penalty.mistake(
    "an empty hypothesis goes free",
    "Nobody may say nothing and pay nothing: for c = 0 the penalty should be its worst value. The formula tends "
    "towards it.",
)
def _(c: int, r: int) -> float:
    return _brevity(c, r) if c else 1.0


@brevity_penalty.mistake(
    "an empty hypothesis divides by zero",
    "It is right but for an empty hypothesis. What does the formula tend to as c gets smaller and smaller?",
)
def _(c: int, r: int) -> float:
    return 1.0 if c > r else math.exp(1 - r / c)


@brevity_penalty.mistake("a power of ten", "Your base is 10. The base of the exponential here is e.")
def _(c: int, r: int) -> float:
    return _unless_empty(c, lambda: float(10 ** min(0.0, 1 - r / c)))


# 4 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"hypotheses": [STUTTER], "references": [MILK]},
    {"hypotheses": [MILK, SHORT], "references": [MILK, MILK]},
    {"hypotheses": [OTHER, STUTTER, SLEEPS[:9]], "references": [NIGHT, MILK, SLEEPS]},
    {"hypotheses": [[*NIGHT, "and", "night"], MILK[:4]], "references": [NIGHT, MILK]},
    {"hypotheses": [["the", "milk"], SLEEPS], "references": [["the", "milk"], SLEEPS[2:]]},
    {"hypotheses": [["sour"]], "references": [MILK]},
    {"hypotheses": [MILK[:5], MILK[5:]], "references": [MILK[5:], MILK]},
)
def corpus_bleu(hypotheses: list[list[str]], references: list[list[str]]) -> float:
    """BLEU of a test set."""
    return _bleu(hypotheses, references)


Words = list[list[str]]
Mean = Callable[[list[float]], float]


def _geometric(precisions: list[float]) -> float:
    return math.prod(precisions) ** (1 / len(precisions))


def _bleu(
    hypotheses: Words,
    references: Words,
    mean: Mean = _geometric,
    brevity: Callable[[int, int], float] = _brevity,
    longest: int = 4,
    smooth: int = 0,
) -> float:
    pairs = list(zip(hypotheses, references, strict=True))
    precisions = []
    for n in range(1, longest + 1):
        right = sum(_matches(h, r, n) for h, r in pairs) + smooth
        total = sum(max(0, len(h) - n + 1) for h in hypotheses) + smooth
        if not right or not total:
            return 0.0
        precisions.append(right / total)
    return 100 * brevity(sum(map(len, hypotheses)), sum(map(len, references))) * mean(precisions)


@corpus_bleu.mistake(
    "the mean of the sentences' BLEUs",
    "You compute a BLEU for each sentence and average. The BLEU of a test set is computed once: what is added up "
    "over the sentences before?",
)
def _(hypotheses: Words, references: Words) -> float:
    return sum(_bleu([h], [r]) for h, r in zip(hypotheses, references, strict=True)) / len(hypotheses)


@corpus_bleu.mistake(
    "the mean of the sentences' precisions",
    "You divide sentence by sentence and average the precisions. So a sentence of three words has as much say as "
    "one of thirty: add up first, then divide.",
)
def _(hypotheses: Words, references: Words) -> float:
    pairs = list(zip(hypotheses, references, strict=True))
    precisions = [sum(_matches(h, r, n) / max(1, len(h) - n + 1) for h, r in pairs) / len(pairs) for n in range(1, 5)]
    return 100 * _brevity(sum(map(len, hypotheses)), sum(map(len, references))) * _geometric(precisions)


@corpus_bleu.mistake(
    "the ordinary mean of the precisions",
    "You add the four precisions and divide by four. In BLEU they are multiplied: if one of them is 0, all is.",
)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references, mean=lambda precisions: sum(precisions) / 4)


@corpus_bleu.mistake(
    "the root is missing",
    "You multiply the four precisions and leave it at that. Of four equal ones the mean should be what each of "
    "them is.",
)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references, mean=math.prod)


@corpus_bleu.mistake(
    "a quarter of the product",
    "You divide the product by 4. In Python ** binds closer than /, so a fraction in an exponent needs brackets.",
)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references, mean=lambda precisions: math.prod(precisions) / 4)


@corpus_bleu.mistake(
    "seen from the references",
    "Your totals are those of the references, so you ask what share of them is found. Precision is a share of the "
    "hypotheses.",
)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(references, hypotheses, brevity=lambda c, r: _brevity(r, c))


@corpus_bleu.mistake(
    "two kinds of logarithm",
    "You take logarithms of one base and undo them with the exponential of another. The two must belong together.",
)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references, mean=lambda precisions: math.exp(sum(map(math.log10, precisions)) / 4))


@corpus_bleu.mistake(
    "no brevity penalty", "The precisions are right. But whoever says only what he is sure of pays nothing with you."
)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references, brevity=lambda c, r: 1.0)


@corpus_bleu.mistake(
    "the brevity penalty's lengths swapped",
    "The precisions are right. But you punish what is longer than the reference: which length comes first?",
)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references, brevity=lambda c, r: _brevity(r, c))


@corpus_bleu.mistake(
    "the mean of the sentences' brevity penalties",
    "The precisions are right. But you compute a brevity penalty for each sentence. There is one for the test "
    "set, of all words together: a short sentence here may make up for a long one there.",
)
def _(hypotheses: Words, references: Words) -> float:
    each = [_brevity(len(h), len(r)) for h, r in zip(hypotheses, references, strict=True)]
    return _bleu(hypotheses, references, brevity=lambda c, r: sum(each) / len(each))


@corpus_bleu.mistake("from 0 to 1", "BLEU is written from 0 to 100.")
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references) / 100


@corpus_bleu.mistake("n up to 3 only", "You use three precisions. A loop over range(1, 4) ends before 4.")
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references, longest=3, mean=lambda precisions: math.prod(precisions) ** (1 / 4))


@corpus_bleu.mistake(
    "the test set taken for one long sentence",
    "You join all sentences into one. So n-grams run across their ends, and a hypothesis finds matches in the "
    "reference of another.",
)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu([list(chain(*hypotheses))], [list(chain(*references))])


@corpus_bleu.mistake(
    "clipped only once for all",
    "You add up the n-grams of all sentences and clip then. So a word that is wrong in one sentence is matched by "
    "the reference of another: clip in each sentence, then add up.",
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
    "You add one to the counts so that none is zero. That is a custom for single sentences; here a precision of 0 "
    "makes BLEU 0.",
)
def _(hypotheses: Words, references: Words) -> float:
    return _bleu(hypotheses, references, smooth=1)


# 5 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"hypothesis": "Museumsbank", "reference": "Museumsbänke"},
    {"hypothesis": "an old dog", "reference": "a very old dog"},
    {"hypothesis": "Der Hund mag die die Milch.", "reference": "der Hund trank Milch."},
    {"hypothesis": "ja", "reference": "jau"},
    {"hypothesis": "jau", "reference": "ja"},
    {"hypothesis": "nein", "reference": "ja"},
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


@chrf.mistake("spaces counted", "You count pieces with spaces in them. chrF drops all spaces first.")
def _(hypothesis: str, reference: str) -> float:
    return _chrf(hypothesis, reference, drop="\n")


@chrf.mistake(
    "precision and recall alike", "With you precision and recall weigh the same. What is beta, and what is it squared?"
)
def _(hypothesis: str, reference: str) -> float:
    return _chrf(hypothesis, reference, factor=1.0)


@chrf.mistake("beta not squared", "The formula has the square of beta, and you have beta itself.")
def _(hypothesis: str, reference: str) -> float:
    return _chrf(hypothesis, reference, factor=2.0)


@chrf.mistake(
    "precision and recall swapped",
    "With you it is precision that counts more. Or have you divided by the wrong sentence? Recall is a share of "
    "the reference.",
)
def _(hypothesis: str, reference: str) -> float:
    return _chrf(reference, hypothesis)


@chrf.mistake(
    "an F for each n",
    "You compute F for each n and average those. Precisions and recalls are averaged first, and F comes last.",
)
def _(hypothesis: str, reference: str) -> float:
    shares = _shares(hypothesis.replace(" ", ""), reference.replace(" ", ""))
    return 100 * sum(_f(p, r, 4.0) for p, r in shares) / len(shares)


@chrf.mistake(
    "always divided by six",
    "It is right for texts of six characters and more. A shorter one has no pieces of six, and what does not "
    "exist is left out of the mean.",
)
def _(hypothesis: str, reference: str) -> float:
    return _chrf(hypothesis, reference, longest=6)


@chrf.mistake(
    "a length that only the hypothesis has",
    "It is right until the reference is the shorter text, of less than six characters: an n of which it has no piece "
    "counts for you as a recall of 0. Leave such an n out, on both sides.",
)
def _(hypothesis: str, reference: str) -> float:
    return _chrf(hypothesis, reference, longest=len(hypothesis.replace(" ", "")))


@chrf.mistake(
    "a length that only the reference has",
    "It is right until the hypothesis is the shorter text, of less than six characters: an n of which it has no piece "
    "counts for you as a precision of 0. Leave such an n out, on both sides.",
)
def _(hypothesis: str, reference: str) -> float:
    return _chrf(hypothesis, reference, longest=len(reference.replace(" ", "")))


@chrf.mistake(
    "not clipped", "A piece of the reference may be used only once, as in BLEU: your matches are not clipped."
)
def _(hypothesis: str, reference: str) -> float:
    return _chrf(hypothesis, reference, clip=False)


@chrf.mistake("capitals do not count", "You make everything lower case. To chrF a capital is another letter.")
def _(hypothesis: str, reference: str) -> float:
    return _chrf(hypothesis.lower(), reference.lower())


@chrf.mistake(
    "geometric means", "Your means are those of BLEU, with products and roots. chrF takes the ordinary mean over n."
)
def _(hypothesis: str, reference: str) -> float:
    shares = _shares(hypothesis.replace(" ", ""), reference.replace(" ", ""))
    precision, recall = (_geometric(list(column)) for column in zip(*shares, strict=True))
    return 100 * _f(precision, recall, 4.0)


@chrf.mistake("n up to 5 only", "You leave out the pieces of six. A loop over range(1, 6) ends before 6.")
def _(hypothesis: str, reference: str) -> float:
    shares = _shares(hypothesis.replace(" ", ""), reference.replace(" ", ""))[:5]
    precision, recall = (sum(column) / len(shares) for column in zip(*shares, strict=True))
    return 100 * _f(precision, recall, 4.0)


@chrf.mistake(
    "pieces of six only", "You use the pieces of the greatest length only. All lengths from 1 to 6 have their say."
)
def _(hypothesis: str, reference: str) -> float:
    return 100 * _f(*_shares(hypothesis.replace(" ", ""), reference.replace(" ", ""))[-1], 4.0)


@chrf.mistake("from 0 to 1", "chrF is written from 0 to 100.")
def _(hypothesis: str, reference: str) -> float:
    return _chrf(hypothesis, reference) / 100


@chrf.mistake(
    "nothing matched divides by zero",
    "It is right until nothing matches at all: then precision and recall are 0, and F divides 0 by 0. What should "
    "it be?",
)
def _(hypothesis: str, reference: str) -> float:
    shares = _shares(hypothesis.replace(" ", ""), reference.replace(" ", ""))
    precision, recall = (sum(column) / len(shares) for column in zip(*shares, strict=True))
    return 100 * 5 * precision * recall / (4 * precision + recall)


# 6 --------------------------------------------------------------------------------------------------------------------


def _counts(sentences: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    total = torch.randint(2, 30, (sentences,), generator=generator)
    right = (total * (0.4 + 0.5 * torch.rand(sentences, generator=generator))).long()
    return torch.stack([right, total], dim=1)


def _draws(draws: int, sentences: int, seed: int) -> Tensor:
    return torch.randint(0, sentences, (draws, sentences), generator=torch.Generator().manual_seed(seed))


@topic.exercise(
    {
        "first": torch.tensor([[3, 10], [1, 2], [4, 4]]),
        "second": torch.tensor([[5, 10], [0, 2], [4, 4]]),
        "draws": torch.tensor([[0, 1, 2], [1, 1, 2], [2, 2, 2], [0, 0, 1]]),
    },
    {"first": _counts(12, 1), "second": _counts(12, 2), "draws": _draws(50, 12, 3)},
    {"first": _counts(30, 4), "second": _counts(30, 5), "draws": _draws(200, 30, 6)},
    {"first": _counts(30, 4), "second": _counts(30, 4), "draws": _draws(20, 30, 8)},
)
def share_of_wins(first: Tensor, second: Tensor, draws: Tensor) -> float:
    """In which share of the draws the second is better."""
    return float((_precision(second, draws) > _precision(first, draws)).double().mean())


def _precision(counts: Tensor, draws: Tensor) -> Tensor:
    """(draws,)"""
    right, total = counts[draws].sum(dim=1).unbind(-1)
    return right.double() / total


@share_of_wins.mistake(
    "the mean of the sentences",
    "You divide in each sentence and average. The precision of a draw is like that of a test set: add up, then divide.",
)
def _(first: Tensor, second: Tensor, draws: Tensor) -> float:
    one, other = ((c[:, 0].double() / c[:, 1])[draws].mean(dim=1) for c in (first, second))
    return float((other > one).double().mean())


@share_of_wins.mistake(
    "the first one's wins", "You count the draws that the first system wins. Asked for are those of the second."
)
def _(first: Tensor, second: Tensor, draws: Tensor) -> float:
    return float((_precision(second, draws) < _precision(first, draws)).double().mean())


@share_of_wins.mistake("ties counted as wins", "A draw in which both are equal is no win. Two equal systems never win.")
def _(first: Tensor, second: Tensor, draws: Tensor) -> float:
    return float((_precision(second, draws) >= _precision(first, draws)).double().mean())


@share_of_wins.mistake(
    "ties counted half", "A draw in which both are equal counts half a win with you, and should count none."
)
def _(first: Tensor, second: Tensor, draws: Tensor) -> float:
    one, other = (_precision(c, draws) for c in (first, second))
    return float(((other > one).double() + 0.5 * (other == one).double()).mean())


@share_of_wins.mistake("a number, not a share", "You return how many draws are won. Of how many? The share is wanted.")
def _(first: Tensor, second: Tensor, draws: Tensor) -> float:
    return float((_precision(second, draws) > _precision(first, draws)).sum())


@share_of_wins.mistake(
    "other draws for the second",
    "The two are scored on different draws, so the luck of the draw is part of the difference. Paired means: the "
    "same sentences for both.",
)
def _(first: Tensor, second: Tensor, draws: Tensor) -> float:
    return float((_precision(second, draws.roll(1, dims=0)) > _precision(first, draws)).double().mean())


@share_of_wins.mistake(
    "repetitions dropped",
    "A sentence that was drawn twice counts once with you. Without repetitions most draws would be about the "
    "whole test set.",
)
def _(first: Tensor, second: Tensor, draws: Tensor) -> float:
    wins = [bool(_precision(second, d.unique()[None]) > _precision(first, d.unique()[None])) for d in draws]
    return sum(wins) / len(wins)


@share_of_wins.mistake(
    "matches alone", "You compare how many are right, and not what share of all. The totals of the two may differ."
)
def _(first: Tensor, second: Tensor, draws: Tensor) -> float:
    one, other = (c[draws].sum(dim=1)[:, 0] for c in (first, second))
    return float((other > one).double().mean())


@share_of_wins.mistake(
    "summed over the draws",
    "You add up over the draws, so what is left is one number for each place in a draw. Add up within each draw: "
    "which axis is that?",
)
def _(first: Tensor, second: Tensor, draws: Tensor) -> float:
    one, other = (c[draws].sum(dim=0) for c in (first, second))
    return float((other[:, 0] / other[:, 1] > one[:, 0] / one[:, 1]).double().mean())


@share_of_wins.mistake(
    "sentences compared, not draws",
    "You ask which system is better in each drawn sentence. The question is who is better in the draw as a whole.",
)
def _(first: Tensor, second: Tensor, draws: Tensor) -> float:
    one, other = ((c[:, 0] / c[:, 1])[draws] for c in (first, second))
    return float((other > one).double().mean())


@share_of_wins.mistake(
    "the draws not used",
    "This says who is better on the test set itself, yes or no. What if it had been other sentences?",
)
def _(first: Tensor, second: Tensor, draws: Tensor) -> float:
    one, other = (c[:, 0].sum() / c[:, 1].sum() for c in (first, second))
    return float(other > one)
