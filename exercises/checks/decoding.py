"""Checks of 12 beam search (§6.1)."""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from exercises.check import Topic
from exercises.compare import type_with_article
from transformer import decoding

topic = Topic()
check, given = topic.check, topic.given

Model = Callable[[list[int]], Tensor]
"""Token ids so far, bos included → natural log-probabilities of the next one, (vocab_size,)."""
Hypothesis = tuple[float, list[int]]
"""Log-probability, and the token ids, bos and eos included."""


class Toy:
    """A decoder small enough to be written down: a few beginnings it knows; after any other its answer is the same."""

    def __init__(self, after: Mapping[tuple[int, ...], Sequence[float]], otherwise: Sequence[float]) -> None:
        self.after, self.otherwise = after, otherwise

    def __call__(self, tokens: list[int]) -> Tensor:
        """The log-probabilities of the next token."""
        _check(tokens)
        return torch.tensor(self.after.get(tuple(map(int, tokens)), self.otherwise)).log()

    def __repr__(self) -> str:
        known = [f"after {list(tokens)} {list(row)}" for tokens, row in self.after.items()]
        return "a toy; its probabilities:\n      " + "\n      ".join([*known, f"else {list(self.otherwise)}"])


class Dice:
    """A decoder with an opinion of its own after every beginning, drawn at random but always the same."""

    def __init__(self, vocab_size: int, seed: int) -> None:
        self.vocab_size, self.seed = vocab_size, seed

    def __call__(self, tokens: list[int]) -> Tensor:
        """The log-probabilities of the next token."""
        _check(tokens)
        seed = self.seed
        for token in tokens:
            seed = (31 * seed + int(token) + 1) % 1_000_003
        logits = torch.randn(self.vocab_size, generator=torch.Generator().manual_seed(seed))
        logits[0] += len(tokens) / 4  # the longer it talks, the sooner it says eos
        logits[1] = -torch.inf  # bos is never said
        return logits.log_softmax(dim=-1)

    def __repr__(self) -> str:
        return f"a toy with {self.vocab_size} tokens and random probabilities"


def _check(tokens: list[int]) -> None:
    if not isinstance(tokens, list):
        raise TypeError(f"the model reads a list of token ids; it got {type_with_article(tokens)}")


# Tokens: 0 eos, 1 bos, 2 the, 3 a, 4 dog, 5 cat
DOGS = Toy(
    {
        (1,): (0.0, 0.0, 0.5, 0.4, 0.1, 0.0),
        (1, 2): (0.1, 0.0, 0.0, 0.0, 0.5, 0.4),
        (1, 3): (0.0, 0.0, 0.0, 0.0, 0.9, 0.1),
    },
    otherwise=(0.9, 0.0, 0.0, 0.1, 0.0, 0.0),
)
TALKS_ON = Toy({(1,): (0.1, 0.0, 0.2, 0.7), (1, 3): (0.2, 0.0, 0.5, 0.3)}, otherwise=(0.1, 0.0, 0.3, 0.6))
ENDS_AT_ONCE = Toy(
    {(1,): (0.3, 0.0, 0.29, 0.28, 0.13), (1, 3): (0.95, 0.0, 0.02, 0.02, 0.01)}, otherwise=(0.1, 0.0, 0.4, 0.3, 0.2)
)
# Here bos has the id 5, and eos 2.
OTHER_IDS = Toy(
    {
        (5,): (0.1, 0.2, 0.1, 0.6, 0.0, 0.0),
        (5, 3): (0.2, 0.5, 0.1, 0.1, 0.1, 0.0),
        (5, 3, 1): (0.3, 0.1, 0.4, 0.1, 0.1, 0.0),
    },
    otherwise=(0.5, 0.1, 0.1, 0.1, 0.2, 0.0),
)


# 1 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"model": DOGS, "bos": 1, "eos": 0, "limit": 6},
    {"model": TALKS_ON, "bos": 1, "eos": 0, "limit": 4},
    {"model": OTHER_IDS, "bos": 5, "eos": 2, "limit": 8},
    {"model": Dice(7, seed=3), "bos": 1, "eos": 0, "limit": 12},
)
def greedy_search(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    """The most probable token, step by step."""
    return _greedy(model, bos, eos, limit)


def _greedy(
    model: Model,
    bos: int,
    eos: int,
    limit: int,
    reads: Callable[[list[int]], list[int]] = lambda tokens: tokens,
    choose: Callable[[Tensor], int] = lambda log_probs: int(log_probs.argmax()),
) -> list[int]:
    tokens: list[int] = []
    while len(tokens) < limit:
        token = choose(model(reads([bos, *tokens])))
        if token == eos:
            break
        tokens.append(token)
    return tokens


@greedy_search.mistake(
    "bos and eos are still there",
    "The sentence is right. It should come without the mark before it and the one behind.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    tokens = [bos]
    while len(tokens) <= limit and (len(tokens) == 1 or tokens[-1] != eos):
        tokens.append(int(model(tokens).argmax()))
    return tokens


@greedy_search.mistake(
    "bos is still there",
    "The sentence is right, but bos stands before it. The model needs bos to begin; the reader does not.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    return [bos, *_greedy(model, bos, eos, limit)]


@greedy_search.mistake(
    "eos is still there",
    "The sentence is right, but eos stands behind it. You put the token down before you look whether it is the end.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    tokens: list[int] = []
    while len(tokens) < limit and (not tokens or tokens[-1] != eos):
        tokens.append(int(model([bos, *tokens]).argmax()))
    return tokens


@greedy_search.mistake(
    "one token too few at the limit",
    "It is right where the model ends by itself. At the limit a word gets lost: either you stop a step too early "
    "(bos is no token of the sentence), or you take off an eos that is not there.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    found = _greedy(model, bos, eos, limit)
    return found if len(found) < limit else found[:-1]


@greedy_search.mistake(
    "one token too many at the limit",
    "It is right where the model ends by itself. Where it does not, you go one step beyond the limit.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    return _greedy(model, bos, eos, limit + 1)


@greedy_search.mistake(
    "it does not stop at eos",
    "The model has said eos, and you go on until the limit. What comes after the end of a sentence is no part of it.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    return _greedy(model, bos, -1, limit)


@greedy_search.mistake(
    "eos skipped, not obeyed", "You leave eos out of the sentence, and then go on as if it had not been said."
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    tokens = [bos]
    for _ in range(limit):
        tokens.append(int(model(tokens).argmax()))
    return [token for token in tokens if token not in (bos, eos)]


@greedy_search.mistake(
    "the model reads the last token only",
    "The next word depends on everything said so far, and you let the model read the newest token alone.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    return _greedy(model, bos, eos, limit, reads=lambda tokens: tokens[-1:])


@greedy_search.mistake(
    "the model always reads bos only",
    "Every step asks for the first word again: what was said has to be handed to the model.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    return _greedy(model, bos, eos, limit, reads=lambda tokens: tokens[:1])


@greedy_search.mistake(
    "bos is not read",
    "The model always saw bos in front when it was trained, and you let it read without.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    return _greedy(model, bos, eos, limit, reads=lambda tokens: tokens[1:])


@greedy_search.mistake(
    "the least probable token",
    "You take the smallest log-probability. They are all negative, and the most probable token has the one that is "
    "nearest to 0.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    return _greedy(model, bos, eos, limit, choose=lambda log_probs: int(log_probs.argmin()))


@greedy_search.mistake(
    "tokens that are tensors",
    "The sentence is right, but its tokens are tensors with one number in each, and should be plain numbers.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[Tensor]:
    return [torch.tensor(token) for token in _greedy(model, bos, eos, limit)]


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"length": 7, "length_penalty": 1.0},
    {"length": 1, "length_penalty": 0.6},
    {"length": 20, "length_penalty": 0.6},
    {"length": 9, "length_penalty": 0.0},
    {"length": 13, "length_penalty": 2.0},
)
def length_normalisation(length: int, length_penalty: float) -> float:
    """The package's length penalty."""
    return decoding.length_normalisation(length, length_penalty)


@length_normalisation.mistake(
    "the power before the division",
    "Your power is taken of 5 + length alone, and 6 divides afterwards. What is raised to the power is the fraction.",
)
def _(length: int, length_penalty: float) -> float:
    return float((5 + length) ** length_penalty / 6)


@length_normalisation.mistake(
    "5 added after the division",
    "Your 5 stands outside of the fraction. In Python / binds closer than +, so a numerator needs brackets.",
)
def _(length: int, length_penalty: float) -> float:
    return float((5 + length / 6) ** length_penalty)


@length_normalisation.mistake(
    "the penalty as a factor",
    "You multiply by length_penalty, and it is an exponent: with 0 the normalisation must do nothing.",
)
def _(length: int, length_penalty: float) -> float:
    return (5 + length) / 6 * length_penalty


@length_normalisation.mistake(
    "length_penalty not used", "Your result is the same for every length_penalty: where does it come in?"
)
def _(length: int, length_penalty: float) -> float:
    return (5 + length) / 6


@length_normalisation.mistake(
    "the bare length",
    "This is another penalty, one that knows the length alone. The paper's is gentler: for one token it is 1, and "
    "it grows more slowly.",
)
def _(length: int, length_penalty: float) -> float:
    return float(length**length_penalty)


@length_normalisation.mistake("5 forgotten", "Your fraction is length over 6. What is added to the length before?")
def _(length: int, length_penalty: float) -> float:
    return float((length / 6) ** length_penalty)


@length_normalisation.mistake(
    "6 forgotten", "For one token the result should be 1, whatever length_penalty is. Yours is not divided."
)
def _(length: int, length_penalty: float) -> float:
    return float((5 + length) ** length_penalty)


@length_normalisation.mistake(
    "off by one",
    "Your penalty is 1 for no token at all. It should be 1 for a single token.",
)
def _(length: int, length_penalty: float) -> float:
    return float(((6 + length) / 6) ** length_penalty)


@length_normalisation.mistake(
    "upside down", "This is one over the penalty. A log-probability is going to be divided by what you return."
)
def _(length: int, length_penalty: float) -> float:
    return float(((5 + length) / 6) ** -length_penalty)


@length_normalisation.mistake(
    "the logarithm of it",
    "You return length_penalty times a logarithm. What undoes a logarithm, or how does it go without one?",
)
def _(length: int, length_penalty: float) -> float:
    return length_penalty * math.log((5 + length) / 6)


# 3 --------------------------------------------------------------------------------------------------------------------


def _log(*rows: Sequence[float]) -> Tensor:
    return torch.tensor(rows).log()


def _random_log_probs(beams: int, vocab_size: int, seed: int) -> Tensor:
    numbers = torch.randn(beams, vocab_size, generator=torch.Generator().manual_seed(seed))
    return numbers.log_softmax(dim=-1)


@topic.exercise(
    {
        "scores": torch.tensor([-1.0, -2.0]),
        "log_probs": torch.tensor([[-5.0, -4.0, -0.5], [-6.0, -0.25, -3.0]]),
        "count": 2,
    },
    {
        "scores": torch.tensor([-1.0, -1.5, -4.0]),
        "log_probs": torch.tensor([[-0.5, -1.0, -3.0], [-2.0, -0.25, -1.75], [-0.75, -2.5, -1.5]]),
        "count": 4,
    },
    {
        "scores": torch.tensor([0.0, -torch.inf, -torch.inf]),
        "log_probs": _log([0.4, 0.1, 0.3, 0.2]).repeat(3, 1),
        "count": 3,
    },
    {"scores": torch.tensor([-3.0, -3.5, -4.0, -4.1]), "log_probs": _random_log_probs(4, 11, seed=5), "count": 8},
    {"scores": torch.tensor([-0.2, -0.9]).double(), "log_probs": _random_log_probs(2, 30, seed=2).double(), "count": 5},
    results=("values", "parents", "tokens"),
)
def best_extensions(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best of all beginnings with all tokens."""
    values, places = (scores[:, None] + log_probs).flatten().topk(count)
    return values, places // log_probs.size(1), places % log_probs.size(1)


@best_extensions.mistake(
    "the past is forgotten",
    "Your values are those of the newest tokens alone. A hypothesis is as probable as all of its tokens together: "
    "where is the score of what it goes on from?",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    return _unravel(log_probs, count)


@best_extensions.mistake(
    "multiplied",
    "You multiply logarithms. Probabilities are multiplied; what happens to their logarithms then?",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    return _unravel(scores[:, None] * log_probs, count)


@best_extensions.mistake(
    "scores added along the vocabulary",
    "Each beam's score should be added to all tokens of its own row. Yours goes to a column: a vector lines up with "
    "the last axis, unless you make it stand upright.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    return _unravel(scores + log_probs, count)


@best_extensions.mistake(
    "probabilities added to logarithms", "You add a probability to a log-probability. Both must be logarithms."
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    return _unravel(scores[:, None] + log_probs.exp(), count)


@best_extensions.mistake(
    "each beam goes on once",
    "You take the best token of each beam, so every beam has one heir. Beams compete: the best may have several and "
    "the worst none.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    best, tokens = log_probs.max(dim=-1)
    values, parents = (scores + best).topk(min(count, len(scores)))
    return values, parents, tokens[parents]


@best_extensions.mistake(
    "each beam goes on once, in the beams' order",
    "You take the best token of each beam, so every beam has one heir. Beams compete: the best may have several and "
    "the worst none.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    best, tokens = log_probs.max(dim=-1)
    return scores + best, torch.arange(len(scores)), tokens


@best_extensions.mistake(
    "parents and tokens swapped",
    "The values are right, and so are the two others, but they stand in each other's place.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    values, parents, tokens = _unravel(scores[:, None] + log_probs, count)
    return values, tokens, parents


@best_extensions.mistake(
    "rows of the wrong length",
    "The values are right. But a place in the flat list says how many whole rows lie before it, and a row is as long "
    "as the vocabulary, not as the beam.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    values, places = (scores[:, None] + log_probs).flatten().topk(count)
    return values, places // len(scores), places % len(scores)


@best_extensions.mistake(
    "parents are fractions",
    "The values and tokens are right. A parent is the number of a beam: a whole number, rounded down.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    values, places = (scores[:, None] + log_probs).flatten().topk(count)
    return values, places / log_probs.size(1), places % log_probs.size(1)


@best_extensions.mistake(
    "places in place of tokens",
    "The values and the parents are right. Your tokens are places in the flat list: how far into its row is each?",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    values, places = (scores[:, None] + log_probs).flatten().topk(count)
    return values, places // log_probs.size(1), places


@best_extensions.mistake(
    "the worst extensions",
    "These are the least probable ones. The best log-probability is the one nearest to 0.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    return _unravel(-(scores[:, None] + log_probs), count, sign=-1)


@best_extensions.mistake("best last", "The right ones in the wrong order: the best should come first.")
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    values, parents, tokens = _unravel(scores[:, None] + log_probs, count)
    return values.flip(0), parents.flip(0), tokens.flip(0)


def _unravel(table: Tensor, count: int, sign: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    values, places = table.flatten().topk(count)
    return sign * values, places // table.size(1), places % table.size(1)


# 4 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"tokens": [5, 0, 7, 0], "eos": 0, "beam_size": 2},
    {"tokens": [0, 4, 6, 5], "eos": 0, "beam_size": 2},
    {"tokens": [2, 8, 0, 2, 2, 9], "eos": 2, "beam_size": 3},
    {"tokens": [7, 0, 9, 0, 5, 6, 0, 8], "eos": 0, "beam_size": 4},
    {"tokens": [3, 4, 0, 5, 6, 7], "eos": 1, "beam_size": 3},
    results=("finished", "living"),
)
def finished_and_living(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    """Which candidates end here, and which go on."""
    ends = [place for place, token in enumerate(tokens) if token == eos]
    return [place for place in ends if place < beam_size], _others(ends, tokens)[:beam_size]


def _others(ends: list[int], tokens: list[int]) -> list[int]:
    return [place for place in range(len(tokens)) if place not in ends]


@finished_and_living.mistake(
    "it finishes too easily",
    "Every eos counts with you, even one far down the list. To be counted, it must be among as many of the best "
    "as there are beams.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    ends = [place for place, token in enumerate(tokens) if token == eos]
    return ends, _others(ends, tokens)[:beam_size]


@finished_and_living.mistake(
    "the beam shrinks",
    "For each hypothesis that ends you keep one less. The search should stay as wide as it was: that is why there "
    "are twice as many candidates as beams.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    best = range(beam_size)
    return [place for place in best if tokens[place] == eos], [place for place in best if tokens[place] != eos]


@finished_and_living.mistake(
    "too many live on",
    "All that have not ended live on with you. Only as many as there are beams should.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    ends = [place for place, token in enumerate(tokens) if token == eos]
    return [place for place in ends if place < beam_size], _others(ends, tokens)


@finished_and_living.mistake(
    "an eos below the beam ends the list",
    "You skip an eos among the best, but further down one still takes the place of a candidate that could live.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    ends = [place for place, token in enumerate(tokens) if token == eos and place < beam_size]
    return ends, _others(ends, tokens)[:beam_size]


@finished_and_living.mistake(
    "always the first places",
    "Your living stand in the first places, whatever the tokens are. Either those that have said eos are still "
    "among them, or you number them anew after the others are gone, and lose where they stood.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    return [place for place, token in enumerate(tokens[:beam_size]) if token == eos], list(range(beam_size))


@finished_and_living.mistake(
    "tokens in place of places",
    "You return the tokens themselves. Asked for is where they stand, so that scores and parents can be found "
    "there, too.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    return [token for token in tokens[:beam_size] if token == eos], [token for token in tokens if token != eos][
        :beam_size
    ]


@finished_and_living.mistake(
    "the two are swapped",
    "Both lists are right, but they come in the other order: first who has finished, then who lives.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    ends = [place for place, token in enumerate(tokens) if token == eos]
    return _others(ends, tokens)[:beam_size], [place for place in ends if place < beam_size]


@finished_and_living.mistake(
    "only the best may finish",
    "With you only the very first candidate can end. Each of the best may, as many as there are beams.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    ends = [place for place, token in enumerate(tokens) if token == eos]
    return [place for place in ends if place == 0], _others(ends, tokens)[:beam_size]


@finished_and_living.mistake(
    "off by one: one place too few may finish",
    "An eos at the last place that counts is lost. As many places count as there are beams.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    ends = [place for place, token in enumerate(tokens) if token == eos]
    return [place for place in ends if place < beam_size - 1], _others(ends, tokens)[:beam_size]


# 5 --------------------------------------------------------------------------------------------------------------------

SHORT_OR_LONG: list[Hypothesis] = [(-4.0, [1, 3, 4, 0]), (-4.8, [1, 3, 5, 6, 7, 8, 9, 4, 0]), (-4.5, [1, 2, 0])]
FAR_APART: list[Hypothesis] = [(-5.0, [1, *range(2, 10), 0]), (-5.5, [1, 4, 0]), (-30.0, [1, *range(2, 13), 0])]
CLOSE: list[Hypothesis] = [
    (-9.0, [1, *range(2, 9), 0]),
    (-8.0, [1, *range(3, 9), 0]),
    (-2.0, [1, 0]),
    (-5.0, [1, 4, 5, 0]),
]


@topic.exercise(
    {"hypotheses": SHORT_OR_LONG, "length_penalty": 0.6, "n": 1},
    {"hypotheses": SHORT_OR_LONG, "length_penalty": 0.0, "n": 2},
    {"hypotheses": SHORT_OR_LONG, "length_penalty": 1.0, "n": 3},
    {"hypotheses": CLOSE, "length_penalty": 1.0, "n": 4},
    {"hypotheses": FAR_APART, "length_penalty": 1.0, "n": 3},
    {"hypotheses": [(-3.0, [1, 5, 0]), (-3.3, [1, 6, 7, 0]), (-3.33, [1, 8, 9, 0])], "length_penalty": 0.72, "n": 3},
    {"hypotheses": [(-1.0, [5, 1, 0, 3, 2]), (-2.0, [5, 4, 2])], "length_penalty": 0.6, "n": 2},
)
def n_best(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    """The best by their normalised score."""
    return _ranked(hypotheses, lambda value, length: value / decoding.length_normalisation(length, length_penalty))[:n]


def _ranked(
    hypotheses: list[Hypothesis],
    score: Callable[[float, int], float],
    words: Callable[[list[int]], list[int]] = lambda tokens: tokens[1:-1],
) -> list[list[int]]:
    """Best first; the length of a hypothesis is that of its tokens without bos."""
    ranked = sorted(hypotheses, key=lambda h: -score(h[0], len(h[1]) - 1))
    return [words(tokens) for _, tokens in ranked]


@n_best.mistake(
    "lengths do not count",
    "You rank by log-probability alone, where the shorter has it easier. Each should be divided by its penalty first.",
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: value)[:n]


@n_best.mistake(
    "worst first",
    "A score is negative, and the best is the one nearest to 0, which is the largest. In which order does sorted go?",
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: -value / decoding.length_normalisation(length, length_penalty))[:n]


@n_best.mistake(
    "the best last",
    "The right ones in the wrong order: the best should come first.",
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return n_best.reference(hypotheses, length_penalty, n)[::-1]


@n_best.mistake(
    "multiplied by the penalty",
    "You multiply, which makes the long ones still more negative: the penalty is there to lift them.",
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: value * decoding.length_normalisation(length, length_penalty))[:n]


@n_best.mistake("the penalty subtracted", "You subtract the penalty. A score is the log-probability divided by it.")
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: value - decoding.length_normalisation(length, length_penalty))[:n]


@n_best.mistake("bos counted", "Your lengths are one too large. The model never had to say bos; it did say eos.")
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: value / decoding.length_normalisation(length + 1, length_penalty))[
        :n
    ]


@n_best.mistake(
    "eos not counted",
    "Your lengths are one too small. The model had to say eos as well, and the log-probability has its share in it.",
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: value / decoding.length_normalisation(length - 1, length_penalty))[
        :n
    ]


@n_best.mistake("the longest first", "You rank by length alone. Where is the log-probability?")
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: length)[:n]


@n_best.mistake(
    "the mean of all tokens",
    "You divide by the length itself, whatever length_penalty is. Which function normalises by the length?",
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: value / length)[:n]


@n_best.mistake("all of them", "The order is right, but n of them are wanted, not all.")
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: value / decoding.length_normalisation(length, length_penalty))


@n_best.mistake("bos and eos are still there", "The order is right. The sentences should come without bos and eos.")
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(
        hypotheses, lambda value, length: value / decoding.length_normalisation(length, length_penalty), list
    )[:n]


@n_best.mistake(
    "the ids of bos and eos taken for granted",
    "It is right as long as bos is 1 and eos is 0. Other vocabularies have other ids, and words with these: it is the "
    "first and the last token that should go.",
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    def words(tokens: list[int]) -> list[int]:
        return [token for token in tokens if token not in (0, 1)]

    return _ranked(
        hypotheses, lambda value, length: value / decoding.length_normalisation(length, length_penalty), words
    )[:n]


@n_best.mistake(
    "the scores come along", "The order is right. Only the token ids are wanted, without their log-probabilities."
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[Hypothesis]:
    return sorted(
        hypotheses, key=lambda h: -h[0] / -decoding.length_normalisation(len(h[1]) - 1, length_penalty), reverse=True
    )[:n]


# 6 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"model": DOGS, "bos": 1, "eos": 0, "beam_size": 2, "length_penalty": 0.0, "steps": 4},
    {"model": DOGS, "bos": 1, "eos": 0, "beam_size": 1, "length_penalty": 0.6, "steps": 5},
    {"model": ENDS_AT_ONCE, "bos": 1, "eos": 0, "beam_size": 2, "length_penalty": 2.0, "steps": 3},
    {"model": OTHER_IDS, "bos": 5, "eos": 2, "beam_size": 2, "length_penalty": 0.6, "steps": 4},
    {"model": Dice(6, seed=34), "bos": 1, "eos": 0, "beam_size": 2, "length_penalty": 0.6, "steps": 3},
    {"model": Dice(5, seed=36), "bos": 1, "eos": 0, "beam_size": 2, "length_penalty": 1.0, "steps": 5},
    {"model": Dice(7, seed=119), "bos": 1, "eos": 0, "beam_size": 3, "length_penalty": 1.0, "steps": 5},
    {"model": Dice(7, seed=7), "bos": 1, "eos": 0, "beam_size": 2, "length_penalty": 2.0, "steps": 6},
    {"model": Dice(8, seed=21), "bos": 1, "eos": 0, "beam_size": 3, "length_penalty": 0.6, "steps": 4},
    {"model": Dice(12, seed=30), "bos": 1, "eos": 0, "beam_size": 4, "length_penalty": 1.5, "steps": 7},
)
def beam_search(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    """The best finished hypothesis."""
    return _search(model, bos, eos, beam_size, length_penalty, steps)


def _search(
    model: Model,
    bos: int,
    eos: int,
    beam_size: int,
    length_penalty: float,
    steps: int,
    begin: int = 1,
    memory: float = 1.0,
    width: int = 2,
    stop_at_first: bool = False,
    shrink: bool = False,
    reads: Callable[[list[int]], list[int]] = lambda tokens: tokens,
    last_counts: bool = False,
    most: int | None = None,
    parent: Callable[[int], int] = lambda parent: parent,
) -> list[int]:
    """Beam search with a switch for each way to get it wrong."""
    living: list[Hypothesis] = [(0.0, [bos])] * begin
    finished: list[Hypothesis] = []
    for _ in range(steps):
        scores = memory * torch.tensor([score for score, _ in living])
        log_probs = torch.stack([model(reads(tokens)) for _, tokens in living])
        extensions = best_extensions.reference(scores, log_probs, width * beam_size)
        candidates = [
            (value, [*living[parent(p)][1], token])
            for value, p, token in zip(*(column.tolist() for column in extensions), strict=True)
        ]
        done, going_on = finished_and_living.reference([tokens[-1] for _, tokens in candidates], eos, beam_size)
        finished += [candidates[place] for place in done]
        living = [candidates[place] for place in going_on]
        if shrink:
            beam_size -= len(done)
        if not beam_size or stop_at_first and finished:
            break
    if last_counts:
        finished += [(score, [*tokens, eos]) for score, tokens in living]
    return n_best.reference(finished[:most], length_penalty, 1)[0]


@beam_search.mistake(
    "all beams are alike",
    "You begin with as many copies of bos as there are beams. They stay copies, and the search finds what greedy "
    "search would. How many beginnings are there at first?",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, begin=beam_size)


@beam_search.mistake(
    "greedy search",
    "This is what a single beam finds. Does more than one hypothesis survive a step with you?",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _greedy(model, bos, eos, steps)


@beam_search.mistake(
    "the past is forgotten",
    "Your hypotheses are ranked by their newest token alone: the next step begins with scores of 0 again.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, memory=0.0)


@beam_search.mistake(
    "it stops at the first that ends",
    "You stop as soon as a hypothesis is finished. One that is longer, or ends a step later, may be better.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, stop_at_first=True)


@beam_search.mistake(
    "the beam shrinks",
    "For each hypothesis that ends you keep one less. The search should stay as wide as it was.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, shrink=True)


@beam_search.mistake(
    "only the first few that finish",
    "You count as many finished hypotheses as there are beams, those that came first. One that finishes later may "
    "be better.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, most=beam_size)


@beam_search.mistake(
    "too few candidates",
    "You look at as many candidates as there are beams. If some of them end, fewer live on than there should: of "
    "how many must you know?",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, width=1)


@beam_search.mistake(
    "the length does not count",
    "You return the most probable one. Among finished hypotheses of different length it is the normalised score "
    "that decides.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, 0.0, steps)


@beam_search.mistake(
    "the wrong beginning",
    "The tokens are put behind the wrong beginnings: the first candidate need not come from the first beam. Which "
    "of the three results of a step says what it goes on from?",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, parent=lambda parent: 0)


@beam_search.mistake(
    "the model reads the last token only",
    "The next word depends on everything said so far, and you let the model read the newest token alone.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, reads=lambda tokens: tokens[-1:])


@beam_search.mistake(
    "what has not ended wins",
    "At the end you rank the living with the finished. A hypothesis that has not said eos has not paid for its "
    "end, and it may stop in the middle of a sentence.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, last_counts=True)


@beam_search.mistake("one step too few", "The search ends one step too early. How often does your loop run?")
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps - 1)


@beam_search.mistake("bos and eos are still there", "The sentence is right. It should come without bos and eos.")
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return [bos, *_search(model, bos, eos, beam_size, length_penalty, steps), eos]
