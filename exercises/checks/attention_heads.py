"""Checks of 14 looking inside (§3.2.2, §4)."""

import math
from collections.abc import Callable, Sequence
from itertools import chain

import torch
from torch import Tensor

from exercises.check import Topic
from exercises.tensors import numbers

topic = Topic()
check, given = topic.check, topic.given

Links = list[tuple[int, int]]


def _weights(*shape: int, lengths: Sequence[int], seed: int = 0) -> Tensor:
    """Random weights (batch, heads, query, key), none of them on padding; padding has a row like everybody."""
    real = torch.arange(shape[-1]) < torch.tensor(lengths)[:, None]
    return (2 * numbers(*shape, seed=seed)).masked_fill(~real[:, None, None], -math.inf).softmax(dim=-1)


def _real(*lengths: int) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


# 1 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {
        "weights": torch.tensor(
            [[[[0.5, 0.3, 0.2], [0.6, 0.2, 0.2], [0.1, 0.7, 0.2]], [[0.2, 0.2, 0.6], [0.3, 0.4, 0.3], [0.4, 0.1, 0.5]]]]
        ),
        "real": torch.tensor([[True, True, True]]),
    },
    {"weights": _weights(2, 3, 4, 4, lengths=[2, 4]), "real": _real(2, 4)},
    {"weights": _weights(4, 2, 6, 6, lengths=[6, 3, 2, 5], seed=1), "real": _real(6, 3, 2, 5)},
    {"weights": _weights(2, 1, 3, 3, lengths=[3, 2], seed=2), "real": _real(3, 2)},
    keep=("weights",),
    differentiable=False,
)
def one_back(weights: Tensor, real: Tensor) -> Tensor:
    """All queries that are asked count alike."""
    return _mean(weights.diagonal(-1, -2, -1), real[:, 1:])


def _mean(found: Tensor, asked: Tensor) -> Tensor:
    """(batch, heads, query), (batch, query) → (heads,)."""
    return (found * asked[:, None]).sum((0, 2)) / asked.sum()


@one_back.mistake(
    "the first token counted as well",
    "The sums are right, but you divide by too many queries. The first token has no token before it, so it doesn't "
    "count.",
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    return (weights.diagonal(-1, -2, -1) * real[:, None, 1:]).sum((0, 2)) / real.sum()


@one_back.mistake(
    "index -1 for the first token",
    "For the first token you read position -1, which is the last one in Python. The first token doesn't count.",
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    place = torch.arange(real.size(1))
    return _mean(weights[:, :, place, place - 1], real)


@one_back.mistake(
    "one position ahead",
    "You read the diagonal on the other side, which is the weight on the next token. Rows are queries and columns are "
    "keys.",
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    return _mean(weights.diagonal(1, -2, -1), real[:, 1:])


@one_back.mistake("its own position", "You measure how much each token attends to itself.")
def _(weights: Tensor, real: Tensor) -> Tensor:
    return _mean(weights.diagonal(0, -2, -1), real)


@one_back.mistake(
    "queries of padding counted",
    "Your mean includes the queries of padding. They have weights like any other, but nothing uses them.",
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    return weights.diagonal(-1, -2, -1).mean((0, 2))


@one_back.mistake(
    "queries of padding in the sum", "You divide by the right number, but your sum includes the queries of padding."
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    return weights.diagonal(-1, -2, -1).sum((0, 2)) / real[:, 1:].sum()


@one_back.mistake(
    "queries of padding in the count", "Your sum leaves padding out, but you divide by the number of all rows."
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    return (weights.diagonal(-1, -2, -1) * real[:, None, 1:]).mean((0, 2))


@one_back.mistake(
    "the mask is off by one row",
    "You include one row too many of each short sentence, the first of its padding. The diagonal starts with the "
    "second query, so the mask has to start there, too.",
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    return _mean(weights.diagonal(-1, -2, -1), real[:, :-1])


@one_back.mistake(
    "the mean of the sentences' means",
    "You average each sentence and then the results, so words of short sentences get a larger weight. All queries "
    "should count the same.",
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    return _by_sentence(weights, real).mean(0)


@one_back.mistake(
    "one number for each sentence",
    "You return a number for each sentence and head. Take the mean over all sentences together.",
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    return _by_sentence(weights, real)


@one_back.mistake("one number for all heads", "You return a single number. Return one for each head.")
def _(weights: Tensor, real: Tensor) -> Tensor:
    return one_back.reference(weights, real).mean()


@one_back.mistake(
    "how often instead of how much",
    "You count how often the previous token has the largest weight. Return the mean of its weight.",
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    largest = weights[:, :, 1:].argmax(-1) == torch.arange(real.size(1) - 1)
    return _mean(largest.float(), real[:, 1:])


@one_back.mistake(
    "a sum instead of a mean", "You return a sum, which grows with the number of sentences. Return the mean."
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    return one_back.reference(weights, real) * real[:, 1:].sum()


def _by_sentence(weights: Tensor, real: Tensor) -> Tensor:
    asked = real[:, None, 1:]
    return (weights.diagonal(-1, -2, -1) * asked).sum(-1) / asked.sum(-1)


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"weights": torch.tensor([[0.5, 0.5], [0.25, 0.75]])},
    {"weights": torch.tensor([[0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])},
    {"weights": torch.tensor([[1 - 2**-12, 2**-13, 2**-14, 2**-15, 2**-15]])},
    {"weights": _weights(2, 3, 4, 5, lengths=[3, 5]) * torch.tensor([1.0, 1.0, 1.0, 0.0])[:, None]},
    keep=("weights",),
    differentiable=False,
)
def row_entropy(weights: Tensor) -> Tensor:
    """PyTorch's, which knows about zeros, in bits."""
    return torch.special.entr(weights).sum(-1) / math.log(2)


def _entropy(weights: Tensor, logarithm: Callable[[Tensor], Tensor] = torch.log2) -> Tensor:
    """With the logarithm of a tiny number in place of that of zero."""
    return -(weights * logarithm(weights.clamp(min=1e-30))).sum(-1)


@row_entropy.mistake(
    "zero times minus infinity",
    "The logarithm of 0 is minus infinity, and 0 times that is NaN. A key without weight should contribute 0, so "
    "avoid taking the logarithm of 0.",
)
def _(weights: Tensor) -> Tensor:
    return -(weights * weights.log2()).sum(-1)


@row_entropy.mistake(
    "NaN replaced after the sum",
    "You replace NaN after adding up, and by then the whole row is lost. Deal with zeros before you add up.",
)
def _(weights: Tensor) -> Tensor:
    return (-(weights * weights.log2()).sum(-1)).nan_to_num()


@row_entropy.mistake("nats instead of bits", "You use the natural logarithm. Bits use base 2.")
def _(weights: Tensor) -> Tensor:
    return _entropy(weights, torch.log)


@row_entropy.mistake("base 10 instead of 2", "You use the logarithm to base 10. Bits use base 2.")
def _(weights: Tensor) -> Tensor:
    return _entropy(weights, torch.log10)


@row_entropy.mistake(
    "the wrong sign",
    "Your entropy is negative. The logarithm of a weight is at most 0, so there is a minus in front of the sum.",
)
def _(weights: Tensor) -> Tensor:
    return -_entropy(weights)


@row_entropy.mistake(
    "summed over the queries",
    "You add up over the queries. Each row is a distribution over the keys, so add up over the last axis.",
)
def _(weights: Tensor) -> Tensor:
    return _entropy(weights.mT)


@row_entropy.mistake(
    "a mean instead of a sum", "You average over the keys. Each key already counts with its weight, so take the sum."
)
def _(weights: Tensor) -> Tensor:
    return _entropy(weights) / weights.size(-1)


@row_entropy.mistake(
    "a fraction of the maximum",
    "You divide by the entropy of a uniform row. That gives a fraction between 0 and 1, which is useful for comparing "
    "sentences of different lengths. Here the result should be in bits.",
)
def _(weights: Tensor) -> Tensor:
    return _entropy(weights) / math.log2(weights.size(-1))


@row_entropy.mistake(
    "weights treated as logits",
    "You apply a softmax to the weights, perhaps by calling a function that expects logits. The weights are "
    "probabilities already.",
)
def _(weights: Tensor) -> Tensor:
    return _entropy(weights.softmax(-1))


@row_entropy.mistake(
    "1 added in the logarithm", "You add 1 in the logarithm. That avoids the logarithm of 0, but it changes all others."
)
def _(weights: Tensor) -> Tensor:
    return -(weights * (1 + weights).log2()).sum(-1)


@row_entropy.mistake(
    "perplexity instead of entropy",
    "You return 2 to the power of the entropy, the effective number of keys. Return the entropy.",
)
def _(weights: Tensor) -> Tensor:
    return 2 ** _entropy(weights)


@row_entropy.mistake("one number for all rows", "You add up over all rows. Each row has an entropy of its own.")
def _(weights: Tensor) -> Tensor:
    return _entropy(weights).mean()


@row_entropy.mistake(
    "logarithms without weights", "You add up the logarithms alone. Each of them is multiplied by its weight."
)
def _(weights: Tensor) -> Tensor:
    return -weights.log2().sum(-1)


@row_entropy.mistake(
    "small weights cut off",
    "You raise small weights to some limit before you take the logarithm. Only 0 is a problem, so the limit has "
    "to be far below any real weight.",
)
def _(weights: Tensor) -> Tensor:
    return _entropy(weights, lambda x: x.clamp(min=0.01).log2())


@row_entropy.mistake(
    "rows normalised again",
    "You divide each row by its sum. The rows of weights sum to one already, and where a query can attend to "
    "nothing, all are 0: 0 / 0 is NaN.",
)
def _(weights: Tensor) -> Tensor:
    return _entropy(weights / weights.sum(-1, keepdim=True))


_OF_ZEROS = (
    "PyTorch's `Categorical` takes probabilities only, and a row of zeros doesn't sum to one. Padding may have such "
    "rows, and their entropy is 0. Compute the sum yourself."
)


@row_entropy.mistake("rows of zeros aren't probabilities", _OF_ZEROS)
def _(weights: Tensor) -> Tensor:
    return torch.distributions.Categorical(probs=weights, validate_args=True).entropy() / math.log(2)


@row_entropy.mistake("rows of zeros aren't probabilities, and nats aren't bits", f"{_OF_ZEROS} Mind the unit, too.")
def _(weights: Tensor) -> Tensor:
    return torch.distributions.Categorical(probs=weights, validate_args=True).entropy()


# 3 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {
        "weights": torch.tensor([[0.7, 0.2, 0.1], [0.3, 0.5, 0.2], [0.1, 0.1, 0.8]]),
        "target_word": [0, 1],
        "source_word": [0, 1],
    },
    {
        "weights": torch.tensor(
            [
                [0.1, 0.3, 0.4, 0.1, 0.1],
                [0.6, 0.1, 0.1, 0.1, 0.1],
                [0.125, 0.25, 0.125, 0.375, 0.125],
                [0.2, 0.1, 0.1, 0.1, 0.5],
            ]
        ),
        "target_word": [0, 0, 1],
        "source_word": [0, 1, 1, 2],
    },
    {
        "weights": (2 * numbers(8, 9, seed=3)).softmax(-1),
        "target_word": [0, 0, 0, 1, 2, 2, 3],
        "source_word": [0, 0, 1, 2, 2, 2, 3, 3],
    },
    {
        "weights": (2 * numbers(7, 8, seed=5)).softmax(-1),
        "target_word": [0, 1, 1, 2, 2, 2],
        "source_word": [0, 0, 1, 1, 1, 2, 3],
    },
    {"weights": torch.tensor([[0.7, 0.3], [0.4, 0.6]]), "target_word": [0], "source_word": [0]},
    results=("words", "links"),
    keep=("weights",),
    differentiable=False,
)
def word_links(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    """Sums over source pieces, means over target pieces, and of each row the first largest."""
    words = _to_words(weights, target_word, source_word)
    return words, _links(words)


def _to_words(weights: Tensor, target_word: list[int], source_word: list[int], first: int = 0) -> Tensor:
    """The table of words; ``first`` is the row of the first piece."""
    rows = weights[first : first + len(target_word), : len(source_word)]
    return _joined(_joined(rows, target_word, torch.mean).T, source_word, torch.sum).T


def _joined(rows: Tensor, word: list[int], how: Callable[..., Tensor]) -> Tensor:
    """One row for each word, made of the rows of its pieces."""
    return torch.stack([how(rows[torch.tensor(word) == i], dim=0) for i in range(word[-1] + 1)])


def _links(words: Tensor) -> Links:
    return [(i, j) for j, i in enumerate(words.argmax(-1).tolist())]


def _largest(rows: Tensor, dim: int) -> Tensor:
    return rows.amax(dim)


def _first(rows: Tensor, dim: int) -> Tensor:
    return rows.select(dim, 0)


def _last(rows: Tensor, dim: int) -> Tensor:
    return rows.select(dim, -1)


def _by(target: Callable[..., Tensor], source: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Links]]:
    """An answer that joins target pieces in one way and source pieces in another."""

    def answer(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
        rows = weights[: len(target_word), : len(source_word)]
        words = _joined(_joined(rows, target_word, target).T, source_word, source).T
        return words, _links(words)

    return answer


@word_links.mistake(
    "the row that reads the piece",
    "You take the row in which the decoder reads a piece. It is predicted one row earlier: the first piece in the row "
    "of bos.",
)
def _(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    words = _to_words(weights, target_word, source_word, first=1)
    return words, _links(words)


word_links.mistake(
    "source pieces averaged",
    "You average the weights of a source word's pieces. All of them were spent on the same word, so add them.",
)(_by(torch.mean, torch.mean))

word_links.mistake(
    "target pieces added",
    "You add up the rows of a target word's pieces. Each row sums to one, so a word of three pieces would have a total "
    "of three. Average them.",
)(_by(torch.sum, torch.sum))

word_links.mistake(
    "sum and mean swapped",
    "You add the rows of target pieces and average the columns of source pieces. It should be the other way round: the "
    "weights of a row are shared among the source pieces.",
)(_by(torch.sum, torch.mean))

word_links.mistake(
    "the largest of the source pieces",
    "Of a source word's pieces you keep only the largest weight. The others belong to the same word, so add them.",
)(_by(torch.mean, _largest))

word_links.mistake(
    "the largest of the target pieces",
    "Of a target word's rows you keep the largest weight in each column, so the result sums to more than one. Average "
    "the rows.",
)(_by(_largest, torch.sum))

word_links.mistake(
    "only the first piece of a target word",
    "You use only the first piece of each target word. Average the rows of all its pieces.",
)(_by(_first, torch.sum))

word_links.mistake(
    "only the first piece of a source word",
    "You use only the first piece of each source word. Add the weights of all its pieces.",
)(_by(torch.mean, _first))

word_links.mistake(
    "only the last piece of a source word",
    "You use only the last piece of each source word. Is the weight overwritten by that of the next piece? Add the "
    "weights of all its pieces.",
)(_by(torch.mean, _last))

word_links.mistake(
    "only the last piece of a target word",
    "You use only the last piece of each target word. Is its row overwritten by that of the next piece? Average the "
    "rows of all its pieces.",
)(_by(_last, torch.sum))

_HOW: dict[Callable[..., Tensor], str] = {
    torch.sum: "added",
    torch.mean: "averaged",
    _largest: "reduced to the largest",
    _first: "reduced to the first",
}
_HOW[_last] = "reduced to the last"

for _target, _source in ((a, b) for a in (torch.sum, _largest, _first, _last) for b in _HOW if b is not torch.sum):
    if (_target, _source) != (torch.sum, torch.mean):  # this one has a text of its own
        word_links.mistake(
            f"target pieces {_HOW[_target]}, and source pieces {_HOW[_source]}",
            "Neither the pieces of a source word nor those of a target word are combined as they should be. How do you "
            "combine a source word's pieces? Their weights belong to one word, so add them. And a target word has "
            "several rows, each with a sum of one: average them.",
        )(_by(_target, _source))


@word_links.mistake(
    "eos counted as a word", "Your `words` has a column for the source's eos. It isn't a word, so leave its column out."
)
def _(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    words = _to_words(weights, target_word, [*source_word, source_word[-1] + 1])
    return words, _links(words)


@word_links.mistake(
    "rows normalised again",
    "Without eos, the rows sum to less than one, and you normalise them again. That overrates pieces that attended "
    "mostly to eos.",
)
def _(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    kept = weights[:, : len(source_word)]
    words = _to_words(kept / kept.sum(-1, keepdim=True), target_word, source_word)
    return words, _links(words)


@word_links.mistake(
    "words normalised again",
    "You normalise the rows of the words. What is missing there went to eos, and should stay missing.",
)
def _(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    words, links = word_links.reference(weights, target_word, source_word)
    return words / words.sum(-1, keepdim=True), links


@word_links.mistake("links reversed", "`words` is right. In each link, the source word comes first.")
def _(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    words, links = word_links.reference(weights, target_word, source_word)
    return words, [(j, i) for i, j in links]


@word_links.mistake(
    "a link for each source word",
    "`words` is right, but you look for the largest weight in each column. Return one link for each target word.",
)
def _(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    words, _ = word_links.reference(weights, target_word, source_word)
    return words, list(enumerate(words.argmax(0).tolist()))


@word_links.mistake(
    "the largest of each column",
    "`words` is right, but you look for the largest weight along the wrong axis. Each row has one.",
)
def _(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    words, _ = word_links.reference(weights, target_word, source_word)
    return words, _links(words.T)


@word_links.mistake(
    "the last of equal weights", "`words` is right. If two source words have the same weight, link the first of them."
)
def _(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    words, _ = word_links.reference(weights, target_word, source_word)
    return words, [(words.size(1) - 1 - i, j) for i, j in _links(words.flip(1))]


@word_links.mistake(
    "linked to the word of the largest piece",
    "`words` is right, but you look for the largest piece and return its word. A word of two smaller pieces may "
    "have more weight in all: use the words' weights.",
)
def _(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    words, _ = word_links.reference(weights, target_word, source_word)
    pieces = _joined(weights[: len(target_word), : len(source_word)], target_word, torch.mean)
    return words, [(source_word[i], j) for i, j in _links(pieces)]


@word_links.mistake("transposed", "Your `words` is transposed. It should have one row for each target word.")
def _(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    words, links = word_links.reference(weights, target_word, source_word)
    return words.T, links


# 4 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"found": [[(0, 0), (1, 1), (1, 2)]], "sure": [[(0, 0), (2, 1)]], "possible": [[]]},
    {"found": [[(0, 0), (1, 1), (1, 2)]], "sure": [[(0, 0), (2, 1)]], "possible": [[(1, 1), (0, 1)]]},
    {
        "found": [[(0, 0), (1, 1), (1, 2)], [], [(0, 0), (2, 1), (3, 2), (1, 3)]],
        "sure": [[(0, 0), (2, 1)], [(0, 0), (1, 1)], [(0, 0), (3, 2)]],
        "possible": [[(1, 1), (2, 2)], [], [(2, 1), (2, 2), (1, 2)]],
    },
    {
        "found": [[(0, 0), (1, 1)], [(0, 1), (1, 0), (2, 2)]],
        "sure": [[(0, 0)], [(0, 1), (2, 2)]],
        "possible": [[(1, 0)], [(1, 1)]],
    },
)
def alignment_error_rate(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    """Och and Ney's, over a test set."""
    return _aer(*_counts(found, sure, possible))


def _counts(found: list[Links], sure: list[Links], possible: list[Links]) -> tuple[int, int, int, int, int]:
    """Sizes, summed over sentences: A ∩ S, A ∩ P, A, S, P."""
    sizes = [0] * 5
    for links, s, p in zip(map(set, found), map(set, sure), map(set, possible), strict=True):
        either = s | p
        for i, size in enumerate(map(len, (links & s, links & either, links, s, either))):
            sizes[i] += size
    return (*sizes,)  # type: ignore[return-value]


def _aer(a_s: int, a_p: int, a: int, s: int, p: int) -> float:
    return 1 - (a_s + a_p) / (a + s)


@alignment_error_rate.mistake(
    "sure links not in P",
    "In the formula, P includes the sure links, but the list `possible` doesn't. Combine the two.",
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    _, a_p, a, s, _ = _counts(found, sure, possible)
    return 1 - a_p / (a + s)


@alignment_error_rate.mistake(
    "possible links left out", "You count a possible link as an error. It should not count against the aligner."
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    a_s, _, a, s, _ = _counts(found, sure, possible)
    return _aer(a_s, a_s, a, s, s)


@alignment_error_rate.mistake(
    "divided by the possible links", "You divide by the number of possible links. Only sure links have to be found."
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    a_s, a_p, a, _, p = _counts(found, sure, possible)
    return 1 - (a_s + a_p) / (a + p)


@alignment_error_rate.mistake(
    "possible links treated as sure",
    "You treat both kinds alike. A possible link is right if it is found, but it doesn't have to be.",
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    _, a_p, a, _, p = _counts(found, sure, possible)
    return _aer(a_p, a_p, a, p, p)


@alignment_error_rate.mistake(
    "only the last sentence counted",
    "Your result is that of the last sentence: its numbers overwrite those of the others. Add them up over all "
    "sentences.",
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    return alignment_error_rate.reference(found[-1:], sure[-1:], possible[-1:])


@alignment_error_rate.mistake(
    "not subtracted from 1", "Your number grows as the alignment improves. The error rate is 1 minus that."
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    return 1 - alignment_error_rate.reference(found, sure, possible)


@alignment_error_rate.mistake(
    "the mean of the sentences",
    "You compute a rate for each sentence and average these. Add up the sizes over all sentences first, then divide.",
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    rates = [_aer(*_counts([a], [s], [p])) for a, s, p in zip(found, sure, possible, strict=True)]
    return sum(rates) / len(rates)


@alignment_error_rate.mistake(
    "only the first sentence", "You return after the first sentence. Is the return inside the loop?"
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    return _aer(*_counts(found[:1], sure[:1], possible[:1]))


@alignment_error_rate.mistake(
    "all sentences in one set",
    "You put the links of all sentences into one set. The same pair of numbers means different words in different "
    "sentences.",
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    return _aer(*_counts(*([[*chain(*side)]] for side in (found, sure, possible))))


@alignment_error_rate.mistake(
    "only precision",
    "You measure which of the links found are wrong. Sure links that were missed should count as well.",
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    _, a_p, a, _, _ = _counts(found, sure, possible)
    return 1 - a_p / a


@alignment_error_rate.mistake(
    "only recall", "You measure which sure links were missed. Wrong links that were found should count as well."
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    a_s, _, _, s, _ = _counts(found, sure, possible)
    return 1 - a_s / s


@alignment_error_rate.mistake(
    "divided by the union",
    "You divide by the size of a union. The formula adds the two sizes, so a link in both sets counts twice.",
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    a_s, a_p, a, s, _ = _counts(found, sure, possible)
    return 1 - (a_s + a_p) / (a + s - a_s)


@alignment_error_rate.mistake(
    "sentences without links skipped",
    "You skip sentences in which no link was found. Their sure links are missed, and have to count.",
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    kept = [i for i, links in enumerate(found) if links]
    return alignment_error_rate.reference(*([column[i] for i in kept] for column in (found, sure, possible)))


# 5 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {
        "heads": torch.tensor([[[[1.0]], [[2.0]]]]),
        "off": [0],
        "w_output": torch.tensor([[1.0, 0.0], [3.0, 4.0]]),
        "bias": torch.tensor([10.0, 20.0]),
    },
    {"heads": numbers(2, 3, 2, 2), "off": [1], "w_output": numbers(6, 6, seed=1), "bias": numbers(6, seed=2)},
    {"heads": numbers(5, 4, 6, 4), "off": [0, 3], "w_output": numbers(16, 16, seed=1), "bias": numbers(16, seed=2)},
    {"heads": numbers(1, 2, 3, 2), "off": [], "w_output": numbers(4, 4, seed=1), "bias": numbers(4, seed=2)},
    {"heads": numbers(2, 2, 3, 3), "off": [1], "w_output": numbers(6, 6, seed=1), "bias": numbers(6, seed=2)},
    differentiable=False,
)
def heads_off(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    """As if their rows of W_O were zero."""
    return _joined_heads(_silenced(heads, off)) @ w_output + bias


def _silenced(heads: Tensor, off: list[int]) -> Tensor:
    heads = heads.clone()
    heads[:, off] = 0
    return heads


def _joined_heads(heads: Tensor) -> Tensor:
    return heads.transpose(1, 2).flatten(2)


def _others(heads: Tensor, off: list[int]) -> list[int]:
    return [h for h in range(heads.size(1)) if h not in off]


@heads_off.mistake(
    "only the given heads are kept", "You ablate all heads except the given ones. Ablate the given ones."
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return heads_off.reference(heads, _others(heads, off), w_output, bias)


@heads_off.mistake(
    "sentences instead of heads", "You set whole sentences to zero. The first axis is the batch, the second the heads."
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    heads[off] = 0
    return _joined_heads(heads) @ w_output + bias


@heads_off.mistake(
    "positions instead of heads",
    "You set positions to zero, for all heads. Check the order of the axes before and after joining.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    heads[:, :, off] = 0
    return _joined_heads(heads) @ w_output + bias


@heads_off.mistake(
    "one dimension of every head",
    "You set some dimensions of every head to zero. Set all dimensions of the given heads to zero.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    heads[..., off] = 0
    return _joined_heads(heads) @ w_output + bias


@heads_off.mistake(
    "a single dimension instead of a head",
    "After joining, a head is d_head dimensions wide. You set only one of them to zero.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    joined = _joined_heads(heads)
    joined[..., off] = 0
    return joined @ w_output + bias


@heads_off.mistake("heads counted from 1", "You ablate the head before the given one. Heads are counted from 0.")
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return heads_off.reference(heads, [h - 1 for h in off], w_output, bias)


@heads_off.mistake(
    "the other heads scaled up", "You scale up the other heads, as in dropout. They should stay as they are."
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return heads_off.reference(heads * heads.size(1) / len(_others(heads, off)), off, w_output, bias)


@heads_off.mistake("the bias left out", "The heads are right, but the bias is missing. It belongs to no head.")
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return heads_off.reference(heads, off, w_output, 0 * bias)


@heads_off.mistake("the bias added for each head", "You add the bias once for every head. It is added once in all.")
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return heads_off.reference(heads, off, w_output, bias * len(_others(heads, off)))


@heads_off.mistake(
    "columns instead of rows of the matrix",
    "You set columns of the matrix to zero, which removes a part of every head's output. A head's "
    "numbers are multiplied by rows of the matrix: set those to zero.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    width = heads.size(-1)
    for h in off:
        w_output[:, h * width : (h + 1) * width] = 0
    return _joined_heads(heads) @ w_output + bias


@heads_off.mistake(
    "the head removed instead of set to zero",
    "You leave the heads out, so too few dimensions are left for the matrix, which has rows for all heads. Keep each "
    "head in its place, and set it to zero.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return _joined_heads(heads[:, _others(heads, off)]) @ w_output + bias


@heads_off.mistake(
    "the first rows of the matrix for the heads that are left",
    "You leave the heads out and cut the matrix to its first rows. The heads that are left are then "
    "multiplied by rows that belong to other heads. Keep each head in its place, and set it to zero.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    left = _joined_heads(heads[:, _others(heads, off)])
    return left @ w_output[: left.size(-1)] + bias


_WRONG_ROWS = (
    "You set the wrong rows of the matrix to zero. Each head has as many rows as it has dimensions, d_head, and they "
    "are next to each other: first all rows of head 0, then all of head 1."
)


def _without_rows(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor, rows: Callable[..., slice]) -> Tensor:
    """The answer, with these rows of W_O set to zero; ``rows`` takes a head, the number of heads, and d_head."""
    for head in off:
        w_output[rows(head, heads.size(1), heads.size(-1))] = 0
    return _joined_heads(heads) @ w_output + bias


@heads_off.mistake("rows of the matrix that begin at the head's number", _WRONG_ROWS)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return _without_rows(heads, off, w_output, bias, lambda head, n, width: slice(head, head + width))


@heads_off.mistake("rows of the matrix that alternate between the heads", _WRONG_ROWS)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return _without_rows(heads, off, w_output, bias, lambda head, n, width: slice(head, None, n))


@heads_off.mistake("as many rows of the matrix as there are heads", _WRONG_ROWS)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return _without_rows(heads, off, w_output, bias, lambda head, n, width: slice(head * n, (head + 1) * n))


@heads_off.mistake(
    "the bias scaled by the share of the heads",
    "You scale the bias by the share of the heads that are left. It belongs to no head, so it stays as it is.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return heads_off.reference(heads, off, w_output, bias * len(_others(heads, off)) / heads.size(1))


@heads_off.mistake(
    "a part of the bias set to zero",
    "You set a part of the bias to zero. It belongs to no head, so it stays as it is.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    for head in off:
        bias[head * heads.size(-1) : (head + 1) * heads.size(-1)] = 0
    return heads_off.reference(heads, off, w_output, bias)


@heads_off.mistake(
    "the output scaled up",
    "You scale up the output, as in dropout. The other heads and the bias should stay as they are.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return heads_off.reference(heads, off, w_output, bias) * heads.size(1) / len(_others(heads, off))


@heads_off.mistake(
    "joined without swapping axes",
    "The right heads are ablated, but joining mixes up heads and positions. Swap the two axes before you merge.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    heads = _silenced(heads, off)
    return heads.reshape(heads.size(0), heads.size(2), -1) @ w_output + bias


@heads_off.mistake(
    "dimensions of the heads interleaved",
    "The right heads are ablated, but you interleave their dimensions. All dimensions of head 0 come first, then "
    "those of head 1.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return _silenced(heads, off).permute(0, 2, 3, 1).flatten(2) @ w_output + bias


@heads_off.mistake(
    "the matrix transposed",
    "You multiply by the transposed matrix. As in the paper, vectors are rows, and the matrix is on their right.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return heads_off.reference(heads, off, w_output.T, bias)


@heads_off.mistake(
    "the head replaced by its mean",
    "You replace the head's output by its mean. That is another common kind of ablation; here the output becomes zero.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    heads[:, off] = heads.mean((0, 2), keepdim=True)[:, off]
    return _joined_heads(heads) @ w_output + bias


@heads_off.mistake(
    "nothing is ablated",
    "All heads still contribute. Is the tensor that you set to zero the one that you multiply by the matrix?",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return heads_off.reference(heads, [], w_output, bias)


@heads_off.mistake(
    "the output set to zero",
    "You set entries of the output to 0. W_O mixes all heads, so no entry of the output belongs to a single one. "
    "Set the head itself to 0, before the product.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    output, width = _joined_heads(heads) @ w_output + bias, heads.size(-1)
    for h in off:
        output[..., h * width : (h + 1) * width] = 0
    return output
