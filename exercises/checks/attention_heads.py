"""Checks of 14 looking inside (§3.2.2, §4)."""

import math
from collections.abc import Callable, Sequence
from itertools import chain

import torch
from torch import Tensor

from exercises.check import Topic, numbers

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
        "weights": torch.tensor([[[[0.5, 0.3, 0.2], [0.6, 0.2, 0.2], [0.1, 0.7, 0.2]]]]),
        "real": torch.tensor([[True, True, True]]),
    },
    {"weights": _weights(2, 3, 4, 4, lengths=[2, 4]), "real": _real(2, 4)},
    {"weights": _weights(4, 2, 6, 6, lengths=[6, 3, 2, 5], seed=1), "real": _real(6, 3, 2, 5)},
)
def one_back(weights: Tensor, real: Tensor) -> Tensor:
    """All queries that are asked count alike."""
    return _mean(weights.diagonal(-1, -2, -1), real[:, 1:])


def _mean(found: Tensor, asked: Tensor) -> Tensor:
    """(batch, heads, query), (batch, query) → (heads,)."""
    return (found * asked[:, None]).sum((0, 2)) / asked.sum()


@one_back.mistake(
    "the first word is asked as well",
    "Your sums are right, and you divide by too many: the first word has nobody before it, and is not asked.",
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    return (weights.diagonal(-1, -2, -1) * real[:, None, 1:]).sum((0, 2)) / real.sum()


@one_back.mistake(
    "before the first word comes the last",
    "You ask the first row about place -1, and in Python that is the last place. It raises no error, and it is "
    "nobody's neighbour.",
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    place = torch.arange(real.size(1))
    return _mean(weights[:, :, place, place - 1], real)


@one_back.mistake(
    "one on",
    "You look on the other side of the diagonal: a row is who looks, a column who is looked at.",
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    return _mean(weights.diagonal(1, -2, -1), real[:, 1:])


@one_back.mistake("its own place", "That is how much each word looks at itself.")
def _(weights: Tensor, real: Tensor) -> Tensor:
    return _mean(weights.diagonal(0, -2, -1), real)


@one_back.mistake(
    "padding is asked",
    "The rows of the padding count in your mean. They hold weights like all others, and nobody needs them.",
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    return weights.diagonal(-1, -2, -1).mean((0, 2))


@one_back.mistake(
    "padding is in the sum",
    "You divide by the right number, and the sum holds more: the weights of padding's rows are in it.",
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    return weights.diagonal(-1, -2, -1).sum((0, 2)) / real[:, 1:].sum()


@one_back.mistake(
    "padding is in the count",
    "The padding is left out of your sum, and still you divide by the number of all rows.",
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    return (weights.diagonal(-1, -2, -1) * real[:, None, 1:]).mean((0, 2))


@one_back.mistake(
    "the mask is one row off",
    "Of each short sentence you ask one row too many, the first of the padding. Which rows does your diagonal begin "
    "and end with?",
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    return _mean(weights.diagonal(-1, -2, -1), real[:, :-1])


@one_back.mistake(
    "a mean of means",
    "You take the mean of each sentence, and then the mean of these. A word of a short sentence counts more that way; "
    "here all words count alike.",
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    return _by_sentence(weights, real).mean(0)


@one_back.mistake(
    "a number for each sentence",
    "There is one number for each sentence and head. One sentence says little: asked is one for each head.",
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    return _by_sentence(weights, real)


@one_back.mistake("all heads in one", "It is one number for all heads together. Which of them was it?")
def _(weights: Tensor, real: Tensor) -> Tensor:
    return one_back.reference(weights, real).mean()


@one_back.mistake(
    "how often, not how much",
    "You count how often the word before has the largest weight. Asked is how large its weight is on average.",
)
def _(weights: Tensor, real: Tensor) -> Tensor:
    largest = weights[:, :, 1:].argmax(-1) == torch.arange(real.size(1) - 1)
    return _mean(largest.float(), real[:, 1:])


@one_back.mistake("a sum", "That is the sum. It grows with the number of sentences; the mean does not.")
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
)
def row_entropy(weights: Tensor) -> Tensor:
    """PyTorch's, which knows about zeros, in bits."""
    return torch.special.entr(weights).sum(-1) / math.log(2)


def _entropy(weights: Tensor, logarithm: Callable[[Tensor], Tensor] = torch.log2) -> Tensor:
    """With the logarithm of a tiny number in place of that of zero."""
    return -(weights * logarithm(weights.clamp(min=1e-30))).sum(-1)


@row_entropy.mistake(
    "zero times minus infinity",
    "The logarithm of 0 is minus infinity, and 0 times that is NaN for a computer. A key without weight adds nothing: "
    "see to it before you take the logarithm, or before you add up.",
)
def _(weights: Tensor) -> Tensor:
    return -(weights * weights.log2()).sum(-1)


@row_entropy.mistake(
    "a row with a zero counts as sharp",
    "You do away with NaN after adding up. By then the rest of the row is lost as well.",
)
def _(weights: Tensor) -> Tensor:
    return (-(weights * weights.log2()).sum(-1)).nan_to_num()


@row_entropy.mistake("nats", "These are nats, of the natural logarithm. A coin should have 1.")
def _(weights: Tensor) -> Tensor:
    return _entropy(weights, torch.log)


@row_entropy.mistake("decimal digits", "You take the decimal logarithm. Bits have another base.")
def _(weights: Tensor) -> Tensor:
    return _entropy(weights, torch.log10)


@row_entropy.mistake(
    "negative", "The logarithm of a share is below zero, and entropy is not: something turns the sign round."
)
def _(weights: Tensor) -> Tensor:
    return -_entropy(weights)


@row_entropy.mistake(
    "down the columns",
    "You add up over the queries. A row is what sums to one, and what is sharp or not.",
)
def _(weights: Tensor) -> Tensor:
    return _entropy(weights.mT)


@row_entropy.mistake(
    "divided by the number of keys",
    "You take a mean over the keys. Each is in the formula with its weight already, so it is a sum.",
)
def _(weights: Tensor) -> Tensor:
    return _entropy(weights) / weights.size(-1)


@row_entropy.mistake(
    "a share of the most",
    "You divide by the entropy of an even row. The chapter does that at the end, to compare sentences of different "
    "lengths; here it is bits.",
)
def _(weights: Tensor) -> Tensor:
    return _entropy(weights) / math.log2(weights.size(-1))


@row_entropy.mistake(
    "weights taken for scores",
    "You send the weights through a softmax once more, perhaps without knowing: a function that asks for logits does. "
    "They are shares already.",
)
def _(weights: Tensor) -> Tensor:
    return _entropy(weights.softmax(-1))


@row_entropy.mistake(
    "one is added in the logarithm",
    "With one added the logarithm of 0 is harmless, and all others are wrong.",
)
def _(weights: Tensor) -> Tensor:
    return -(weights * (1 + weights).log2()).sum(-1)


@row_entropy.mistake(
    "the number of keys",
    "You have gone a step too far: that is how many keys a row that is spread evenly would have to be as sharp.",
)
def _(weights: Tensor) -> Tensor:
    return 2 ** _entropy(weights)


@row_entropy.mistake("one number for all rows", "You mix all rows. Each has an entropy of its own.")
def _(weights: Tensor) -> Tensor:
    return _entropy(weights).mean()


@row_entropy.mistake(
    "logarithms without weights",
    "You add up the logarithms alone. Entropy is a mean: what is each of them multiplied by?",
)
def _(weights: Tensor) -> Tensor:
    return -weights.log2().sum(-1)


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
        "source_word": [0, 1, 1, 2, 3, 3, 3, 4],
    },
    results=("words", "links"),
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


def _by(target: Callable[..., Tensor], source: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Links]]:
    """An answer that joins target pieces in one way and source pieces in another."""

    def answer(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
        rows = weights[: len(target_word), : len(source_word)]
        words = _joined(_joined(rows, target_word, target).T, source_word, source).T
        return words, _links(words)

    return answer


@word_links.mistake(
    "the row that reads the word",
    "You take each piece's row where the decoder reads it, one too low. It is written one row earlier, while its "
    "predecessor is read; look again at which row reads bos.",
)
def _(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    words = _to_words(weights, target_word, source_word, first=1)
    return words, _links(words)


word_links.mistake(
    "source pieces averaged",
    "You average over the pieces of a source word. A row is one budget, and what went to two parts of a word went to "
    "that word.",
)(_by(torch.mean, torch.mean))

word_links.mistake(
    "target pieces added",
    "You add up the rows of a target word. Each piece has a budget of its own, and a word of three would have three.",
)(_by(torch.sum, torch.sum))

word_links.mistake(
    "pieces swapped",
    "Both sides are joined, each in the way of the other. On which side do the pieces share one budget?",
)(_by(torch.sum, torch.mean))

word_links.mistake(
    "the largest of the source pieces",
    "Of a source word's pieces you keep the one with most. What went to the others went to the same word.",
)(_by(torch.mean, _largest))

word_links.mistake(
    "the largest of the target pieces",
    "Of a target word's rows you keep the largest number in each column. That is a budget of more than one.",
)(_by(_largest, torch.sum))

word_links.mistake(
    "the first target piece speaks for all",
    "Of a target word you ask the first piece alone.",
)(_by(_first, torch.sum))

word_links.mistake(
    "the first source piece stands for all",
    "Of a source word you count the first piece alone.",
)(_by(torch.mean, _first))


@word_links.mistake(
    "eos is a word",
    "The table has a column too many: that of eos, the last one. It is no word, and nobody should be linked to it.",
)
def _(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    words = _to_words(weights, target_word, [*source_word, source_word[-1] + 1])
    return words, _links(words)


@word_links.mistake(
    "made to sum to one again",
    "Without eos a row sums to less than one, and you stretch it. That makes a piece that rested on eos as loud as one "
    "that looked at words.",
)
def _(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    kept = weights[:, : len(source_word)]
    words = _to_words(kept / kept.sum(-1, keepdim=True), target_word, source_word)
    return words, _links(words)


@word_links.mistake(
    "words made to sum to one",
    "You stretch the rows of words until they sum to one. What is missing there was on eos, and should stay missing.",
)
def _(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    words, links = word_links.reference(weights, target_word, source_word)
    return words / words.sum(-1, keepdim=True), links


@word_links.mistake("links turned round", "The words are right. In each link the source word should stand first.")
def _(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    words, links = word_links.reference(weights, target_word, source_word)
    return words, [(j, i) for i, j in links]


@word_links.mistake(
    "a link for each source word",
    "The words are right. You look for the largest of each column; asked is a link for each target word.",
)
def _(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    words, _ = word_links.reference(weights, target_word, source_word)
    return words, list(enumerate(words.argmax(0).tolist()))


@word_links.mistake(
    "the largest of each column",
    "The words are right. You go along the wrong axis: each row, not each column, has one largest number to find.",
)
def _(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    words, _ = word_links.reference(weights, target_word, source_word)
    return words, _links(words.T)


@word_links.mistake(
    "the last of equals",
    "The words are right. Where two source words have the same weight, the first of them should have the link.",
)
def _(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    words, _ = word_links.reference(weights, target_word, source_word)
    return words, [(words.size(1) - 1 - i, j) for i, j in _links(words.flip(1))]


@word_links.mistake(
    "links of the largest piece",
    "The words are right, but you pick the largest piece and then ask which word it is of. Two smaller pieces may "
    "make a larger word.",
)
def _(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, Links]:
    words, _ = word_links.reference(weights, target_word, source_word)
    pieces = _joined(weights[: len(target_word), : len(source_word)], target_word, torch.mean)
    return words, [(source_word[i], j) for i, j in _links(pieces)]


@word_links.mistake("turned on its side", "The table should have a row for each target word: yours lies on its side.")
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
    "sure links are not possible",
    "The formula's P holds the sure links as well: what is sure is possible. The list has only the others.",
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    _, a_p, a, s, _ = _counts(found, sure, possible)
    return 1 - a_p / (a + s)


@alignment_error_rate.mistake(
    "possible links left out",
    "You mark as if the sure links were all. One that can be argued should not count against an aligner.",
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    a_s, _, a, s, _ = _counts(found, sure, possible)
    return _aer(a_s, a_s, a, s, s)


@alignment_error_rate.mistake(
    "all possible links are wanted",
    "You divide by the number of possible links. Nobody has to find them all: only what is sure is missed.",
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    a_s, a_p, a, _, p = _counts(found, sure, possible)
    return 1 - (a_s + a_p) / (a + p)


@alignment_error_rate.mistake(
    "possible links taken for sure",
    "You treat both kinds alike. They are right if they are found, and not wrong if they are not.",
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    _, a_p, a, _, p = _counts(found, sure, possible)
    return _aer(a_p, a_p, a, p, p)


@alignment_error_rate.mistake(
    "the share that is right", "More is better with your number. An error rate is what is left of one."
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    return 1 - alignment_error_rate.reference(found, sure, possible)


@alignment_error_rate.mistake(
    "a mean of the sentences",
    "You mark each sentence and take the mean. A link of a short sentence counts more that way; here sizes are added "
    "up over all sentences first.",
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    rates = [_aer(*_counts([a], [s], [p])) for a, s, p in zip(found, sure, possible, strict=True)]
    return sum(rates) / len(rates)


@alignment_error_rate.mistake(
    "the first sentence only",
    "You mark the first sentence and stop. Does a return stand inside your loop?",
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    return _aer(*_counts(found[:1], sure[:1], possible[:1]))


@alignment_error_rate.mistake(
    "sentences thrown together",
    "You put the links of all sentences into one set. The first word of one sentence is not that of another, though "
    "their numbers are the same.",
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    return _aer(*_counts(*([[*chain(*side)]] for side in (found, sure, possible))))


@alignment_error_rate.mistake(
    "precision alone",
    "You ask which of the links found are wrong. Which of the sure ones were missed?",
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    _, a_p, a, _, _ = _counts(found, sure, possible)
    return 1 - a_p / a


@alignment_error_rate.mistake(
    "recall alone",
    "You ask which of the sure links were missed. Which of the links found are wrong?",
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    a_s, _, _, s, _ = _counts(found, sure, possible)
    return 1 - a_s / s


@alignment_error_rate.mistake(
    "over the union",
    "You divide by the size of a union. The formula adds two sizes, and what is in both sets counts in both.",
)
def _(found: list[Links], sure: list[Links], possible: list[Links]) -> float:
    a_s, a_p, a, s, _ = _counts(found, sure, possible)
    return 1 - (a_s + a_p) / (a + s - a_s)


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


@heads_off.mistake("only these heads are on", "You silence all heads but those that should be silent.")
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return heads_off.reference(heads, _others(heads, off), w_output, bias)


@heads_off.mistake(
    "sentences in place of heads",
    "You silence whole sentences of the batch. The first axis is the batch; which one is the heads?",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    heads[off] = 0
    return _joined_heads(heads) @ w_output + bias


@heads_off.mistake(
    "positions in place of heads",
    "You silence positions, for all heads. Mind the order of the axes, before and after joining.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    heads[:, :, off] = 0
    return _joined_heads(heads) @ w_output + bias


@heads_off.mistake(
    "a dimension of each head",
    "In every head you silence a dimension or two. A head that is off has none left, and the others have all.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    heads[..., off] = 0
    return _joined_heads(heads) @ w_output + bias


@heads_off.mistake(
    "one dimension, not a head",
    "After joining, a head is d_head dimensions wide. You silence one of them.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    joined = _joined_heads(heads)
    joined[..., off] = 0
    return joined @ w_output + bias


@heads_off.mistake("counted from 1", "You silence the head before the one that is named. Heads count from 0 here.")
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return heads_off.reference(heads, [h - 1 for h in off], w_output, bias)


@heads_off.mistake(
    "the others speak louder",
    "You make up for the missing heads, as dropout does. It is their absence that we want to see.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return heads_off.reference(heads * heads.size(1) / len(_others(heads, off)), off, w_output, bias)


@heads_off.mistake(
    "the bias is off",
    "The heads are off, and the bias with them. It belongs to no head, so it stays.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return heads_off.reference(heads, off, w_output, 0 * bias)


@heads_off.mistake(
    "the bias once for each head",
    "You add the bias with every head that is on. It is added once.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return heads_off.reference(heads, off, w_output, bias * len(_others(heads, off)))


@heads_off.mistake(
    "columns of the matrix in place of rows",
    "You clear columns of the matrix: part of the output is gone, whichever head it came from. Which of its sides "
    "meets the heads?",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    width = heads.size(-1)
    for h in off:
        w_output[:, h * width : (h + 1) * width] = 0
    return _joined_heads(heads) @ w_output + bias


@heads_off.mistake(
    "joined without changing places",
    "The right heads are off, but the joining is wrong: you lay heads and positions together as they come. First "
    "heads and positions have to change places.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    heads = _silenced(heads, off)
    return heads.reshape(heads.size(0), heads.size(2), -1) @ w_output + bias


@heads_off.mistake(
    "heads interleaved",
    "The right heads are off, but the joining is wrong: you put the first dimensions of all heads together, then the "
    "second ones. A head's dimensions stay side by side.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return _silenced(heads, off).permute(0, 2, 3, 1).flatten(2) @ w_output + bias


@heads_off.mistake(
    "the matrix turned",
    "All would be right with a matrix on its side. As in the paper, vectors stand on the left of it, and its rows meet "
    "them.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return heads_off.reference(heads, off, w_output.T, bias)


@heads_off.mistake(
    "the head's mean in its place",
    "You put the head's mean in place of its output. That is a way, too, and asks another question; here a head that "
    "is off adds nothing.",
)
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    heads[:, off] = heads.mean((0, 2), keepdim=True)[:, off]
    return _joined_heads(heads) @ w_output + bias


@heads_off.mistake("nothing is off", "All heads are on. Does what you clear ever meet the matrix?")
def _(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    return heads_off.reference(heads, [], w_output, bias)
