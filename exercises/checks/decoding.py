"""Checks of 12 beam search (§6.1)."""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from exercises.bugs import Bug, WrongRepair, add_bugs
from exercises.check import Topic
from exercises.compare import type_with_article
from exercises.errors import RefusedError
from exercises.tensors import is_tensor
from transformer import decoding

topic = Topic()
check, given = topic.check, topic.given

Model = Callable[[list[int]], Tensor]
"""Token ids so far, bos included → natural log-probabilities of the next one, (vocab_size,)."""
BatchModel = Callable[[Tensor, Tensor], Tensor]
"""Sources, (batch,), and the tokens so far, (batch, length), → log-probabilities of the next, (batch, vocab_size)."""
Hypothesis = tuple[float, list[int]]
"""Log-probability, and the token ids, bos and eos included."""

MAX_TOKENS = 500
"""No search of the checks has to get near this."""


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
    _check_length(len(tokens))


def _check_length(length: int) -> None:
    if length > MAX_TOKENS:
        raise RefusedError(
            f"it doesn't stop by itself\nYour search has passed {MAX_TOKENS} tokens to the model, and would go on for "
            "ever, because this model never generates eos. Which argument limits the length?"
        )


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
    {"model": OTHER_IDS, "bos": 0, "eos": 2, "limit": 3},
    insight="Each token needs another call of the model; training computes all positions in a single one.",
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
    "bos and eos not removed", "The tokens are right, but the result should not contain bos and eos."
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    tokens = [bos]
    while len(tokens) <= limit and (len(tokens) == 1 or tokens[-1] != eos):
        tokens.append(int(model(tokens).argmax()))
    return tokens


@greedy_search.mistake(
    "bos not removed",
    "The tokens are right, but the result still starts with bos. The model needs it, but it isn't part of the "
    "sentence.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    return [bos, *_greedy(model, bos, eos, limit)]


@greedy_search.mistake(
    "eos not removed",
    "The tokens are right, but the result still ends with eos: you append the token before you check whether it is "
    "eos.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    tokens: list[int] = []
    while len(tokens) < limit and (not tokens or tokens[-1] != eos):
        tokens.append(int(model([bos, *tokens]).argmax()))
    return tokens


@greedy_search.mistake(
    "one token too few at the limit",
    "This is right if the model stops by itself. At the limit you lose a token: either you stop a step too early (bos "
    "doesn't count), or you remove an eos that isn't there.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    found = _greedy(model, bos, eos, limit)
    return found if len(found) < limit else found[:-1]


@greedy_search.mistake(
    "one token too many at the limit",
    "This is right if the model stops by itself. At the limit you generate one token too many.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    return _greedy(model, bos, eos, limit + 1)


@greedy_search.mistake(
    "it doesn't stop at eos", "The model has generated eos, but you go on until the limit. The sentence ends at eos."
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    return _greedy(model, bos, -1, limit)


@greedy_search.mistake("eos skipped", "You leave eos out of the result but go on generating. The sentence ends at eos.")
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    tokens = [bos]
    for _ in range(limit):
        tokens.append(int(model(tokens).argmax()))
    return [token for token in tokens if token not in (bos, eos)]


@greedy_search.mistake(
    "the model gets only the last token",
    "You pass only the newest token to the model. The next token depends on the whole prefix.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    return _greedy(model, bos, eos, limit, reads=lambda tokens: tokens[-1:])


@greedy_search.mistake(
    "the model always gets bos alone",
    "You pass bos alone at every step, so the model always predicts a first token. Pass it the whole prefix.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    return _greedy(model, bos, eos, limit, reads=lambda tokens: tokens[:1])


@greedy_search.mistake(
    "the model doesn't get bos", "In training, the prefix always started with bos. You pass it without."
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    return _greedy(model, bos, eos, limit, reads=lambda tokens: tokens[1:])


@greedy_search.mistake(
    "the least probable token",
    "You take the smallest log-probability. Log-probabilities are negative, and the most probable token has the "
    "largest, the one closest to 0.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    return _greedy(model, bos, eos, limit, choose=lambda log_probs: int(log_probs.argmin()))


@greedy_search.mistake(
    "the largest log-probability itself",
    "You turn the largest log-probability into a whole number, and take that for the token. The token is its index.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    return _greedy(model, bos, eos, limit, choose=lambda log_probs: int(log_probs.max()))


@greedy_search.mistake("tokens that are tensors", "The tokens are right, but each is a tensor. Return plain numbers.")
def _(model: Model, bos: int, eos: int, limit: int) -> list[Tensor]:
    return [torch.tensor(token) for token in _greedy(model, bos, eos, limit)]


@greedy_search.mistake(
    "the id of bos removed everywhere",
    "You remove the id of bos wherever it occurs. It isn't in the result anyway, unless the model predicts it, "
    "and then it should stay.",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    return [token for token in _greedy(model, bos, eos, limit) if token != bos]


@greedy_search.mistake(
    "it stops at a repeated token",
    "You stop when a token occurs a second time. A sentence may contain a word twice: which two things end the search?",
)
def _(model: Model, bos: int, eos: int, limit: int) -> list[int]:
    tokens = [bos]
    while len(tokens) <= limit and (token := int(model(tokens).argmax())) not in (eos, *tokens):
        tokens.append(token)
    return tokens[1:]


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"length": 7, "length_penalty": 1.0},
    {"length": 1, "length_penalty": 0.6},
    {"length": 20, "length_penalty": 0.6},
    {"length": 9, "length_penalty": 0.0},
    {"length": 13, "length_penalty": 2.0},
    insight="Log-probabilities are negative, so dividing by a larger number raises the score of a long translation.",
)
def length_normalization(length: int, length_penalty: float) -> float:
    """The package's length normalisation."""
    return decoding.length_normalization(length, length_penalty)


@length_normalization.mistake(
    "the power before the division",
    "You raise only 5 + length to the power and divide by 6 afterwards. The whole fraction is raised to the power.",
)
def _(length: int, length_penalty: float) -> float:
    return float((5 + length) ** length_penalty / 6)


@length_normalization.mistake(
    "5 added after the division",
    "You divide the length by 6 and then add 5. Division comes before addition, so the numerator needs parentheses.",
)
def _(length: int, length_penalty: float) -> float:
    return float((5 + length / 6) ** length_penalty)


@length_normalization.mistake(
    "length_penalty as a factor", "You multiply by length_penalty. It is an exponent: with 0, the result should be 1."
)
def _(length: int, length_penalty: float) -> float:
    return (5 + length) / 6 * length_penalty


@length_normalization.mistake(
    "length_penalty not used", "Your result doesn't depend on length_penalty. It is the exponent."
)
def _(length: int, length_penalty: float) -> float:
    return (5 + length) / 6


@length_normalization.mistake(
    "the length itself",
    "You use the length itself instead of (5 + length) / 6. That is another common normalisation; the paper's is 1 for "
    "a single token and grows more slowly.",
)
def _(length: int, length_penalty: float) -> float:
    return float(length**length_penalty)


@length_normalization.mistake("5 is missing", "Your fraction is length / 6. Look again at the numerator.")
def _(length: int, length_penalty: float) -> float:
    return float((length / 6) ** length_penalty)


@length_normalization.mistake(
    "6 is missing",
    "For a single token, the result should be 1, whatever length_penalty is. Look again at the denominator.",
)
def _(length: int, length_penalty: float) -> float:
    return float((5 + length) ** length_penalty)


@length_normalization.mistake("off by one", "Your result is 1 for a length of 0. It should be 1 for a length of 1.")
def _(length: int, length_penalty: float) -> float:
    return float(((6 + length) / 6) ** length_penalty)


@length_normalization.mistake(
    "the reciprocal", "This is the reciprocal. Log-probabilities will be divided by what you return."
)
def _(length: int, length_penalty: float) -> float:
    return float(((5 + length) / 6) ** -length_penalty)


@length_normalization.mistake(
    "the logarithm", "You return the logarithm of the normalisation. Return the normalisation itself."
)
def _(length: int, length_penalty: float) -> float:
    return length_penalty * math.log((5 + length) / 6)


@length_normalization.mistake(
    "only the denominator raised",
    "Python raises to a power before it divides, so your exponent belongs to the 6 alone. Put the fraction in "
    "parentheses.",
)
def _(length: int, length_penalty: float) -> float:
    return (5 + length) / 6**length_penalty


@length_normalization.mistake(
    "rounded down",
    "You divide with `//`, so the fraction is rounded down before it is raised to the power.",
)
def _(length: int, length_penalty: float) -> float:
    return float(((5 + length) // 6) ** length_penalty)


@length_normalization.mistake(
    "the exponent is always 0.6",
    "You write 0.6 where `length_penalty` belongs.",
)
def _(length: int, length_penalty: float) -> float:
    return float(((5 + length) / 6) ** 0.6)


for _decimals in (2, 3, 4):

    @length_normalization.mistake(
        f"rounded to {_decimals} decimals",
        "You round the result. Hypotheses whose scores are close could then end up in the wrong order: return it as it "
        "is.",
    )
    def _(length: int, length_penalty: float, decimals: int = _decimals) -> float:
        return round(decoding.length_normalization(length, length_penalty), decimals)


@length_normalization.mistake(
    "only the 6 is raised to the power",
    "You raise only the 6 to the power, and add 5 to the quotient. The whole fraction, (5 + length) / 6, is raised to "
    "the power: mind the parentheses.",
)
def _(length: int, length_penalty: float) -> float:
    return 5 + length / 6**length_penalty


@length_normalization.mistake(
    "only the length raised to the power",
    "You raise only the length to the power, then divide, and add 5 last. The whole fraction, (5 + length) / 6, is "
    "raised to the power: mind the parentheses.",
)
def _(length: int, length_penalty: float) -> float:
    return 5 + length**length_penalty / 6


@length_normalization.mistake(
    "5 added after the power",
    "You add 5 last, after the division and the power. It belongs to the numerator, (5 + length) / 6: mind the "
    "parentheses.",
)
def _(length: int, length_penalty: float) -> float:
    return 5 + (length / 6) ** length_penalty


@length_normalization.mistake(
    "only the length in the numerator raised to the power",
    "You raise only the length to the power. The whole fraction, (5 + length) / 6, is raised to it: mind the "
    "parentheses.",
)
def _(length: int, length_penalty: float) -> float:
    return (5 + length**length_penalty) / 6


@length_normalization.mistake(
    "base and exponent swapped",
    "You raise length_penalty to the power of the fraction. It is the fraction that is raised to a power.",
)
def _(length: int, length_penalty: float) -> float:
    return float(length_penalty ** ((5 + length) / 6))


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
    {"scores": torch.tensor([-0.2, -0.9]), "log_probs": _random_log_probs(2, 30, seed=2), "count": 5},
    {"scores": torch.tensor([-0.5]), "log_probs": _random_log_probs(1, 6, seed=3), "count": 1},
    {"scores": torch.tensor([-200.0, -200.5]), "log_probs": _random_log_probs(2, 7, seed=4), "count": 3},
    results=("values", "parents", "tokens"),
    keep=("scores", "log_probs"),
    differentiable=False,
    insight="With one beam and a count of 1, this is a step of greedy search.",
)
def best_extensions(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best of all beginnings with all tokens."""
    values, places = (scores[:, None] + log_probs).flatten().topk(count)
    return values, places // log_probs.size(1), places % log_probs.size(1)


@best_extensions.mistake(
    "the beams' scores not used",
    "Your values contain only the newest token. The log-probability of a hypothesis is the sum over all its tokens: "
    "add the score of the beam that it extends.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    return _unravel(log_probs, count)


@best_extensions.mistake(
    "multiplied", "You multiply log-probabilities. Probabilities are multiplied; their logarithms are added."
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    return _unravel(scores[:, None] * log_probs, count)


@best_extensions.mistake(
    "by way of probabilities",
    "You multiply the probabilities and take the logarithm afterwards. The probability of a long hypothesis is so "
    "small that it becomes 0, and all of them are then equal. Add the log-probabilities.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    return _unravel((scores.exp()[:, None] * log_probs.exp()).log(), count)


@best_extensions.mistake(
    "the table transposed",
    "You flatten the table token by token, and take the index apart as if it went beam by beam. Leave the beams as "
    "rows.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    values, places = (scores + log_probs.T).flatten().topk(count)
    return values, places // log_probs.size(1), places % log_probs.size(1)


@best_extensions.mistake(
    "scores added to the wrong axis",
    "Each beam's score should be added to its own row, but a vector is broadcast along the last axis. Make it a "
    "column first.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    return _unravel(scores + log_probs, count)


@best_extensions.mistake(
    "probabilities added to log-probabilities", "You add a probability to a log-probability. Use logarithms for both."
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    return _unravel(scores[:, None] + log_probs.exp(), count)


@best_extensions.mistake(
    "one extension per beam",
    "You take the best token of each beam. All extensions compete: a good beam may have several of the best, and a "
    "bad one none.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    best, tokens = log_probs.max(dim=-1)
    values, parents = (scores + best).topk(min(count, len(scores)))
    return values, parents, tokens[parents]


@best_extensions.mistake(
    "one extension per beam, in the beams' order",
    "You take the best token of each beam. All extensions compete: a good beam may have several of the best, and a "
    "bad one none.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    best, tokens = log_probs.max(dim=-1)
    return scores + best, torch.arange(len(scores)), tokens


@best_extensions.mistake(
    "parents and tokens swapped",
    "The values are right, but you return the tokens as parents and the parents as tokens.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    values, parents, tokens = _unravel(scores[:, None] + log_probs, count)
    return values, tokens, parents


@best_extensions.mistake(
    "divided by the wrong row length",
    "The values are right, but you divide the flat index by the wrong number. A row of the table is as long as the "
    "vocabulary.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    values, places = (scores[:, None] + log_probs).flatten().topk(count)
    return values, places // len(scores), places % len(scores)


@best_extensions.mistake(
    "the flat index taken apart column by column",
    "The values are right, but you take the flat index apart as if the table were flattened column by column. It is "
    "flattened row by row: how long is a row, and which of the two is its number?",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    values, places = (scores[:, None] + log_probs).flatten().topk(count)
    return values, places % len(scores), places // len(scores)


@best_extensions.mistake(
    "parents not rounded down",
    "The values and tokens are right. A parent is the index of a beam, so the division has to round down.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    values, places = (scores[:, None] + log_probs).flatten().topk(count)
    return values, places / log_probs.size(1), places % log_probs.size(1)


@best_extensions.mistake(
    "flat indices instead of tokens",
    "The values and parents are right, but your tokens are indices into the flat table. A token is the position "
    "within its row.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    values, places = (scores[:, None] + log_probs).flatten().topk(count)
    return values, places // log_probs.size(1), places


@best_extensions.mistake(
    "the worst extensions",
    "You take the least probable extensions. The best log-probability is the largest, the one closest to 0.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    return _unravel(-(scores[:, None] + log_probs), count, sign=-1)


@best_extensions.mistake("best last", "The extensions are right, but in the wrong order. Return the best first.")
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    values, parents, tokens = _unravel(scores[:, None] + log_probs, count)
    return values.flip(0), parents.flip(0), tokens.flip(0)


@best_extensions.mistake(
    "two tokens of each beam",
    "Only the two best tokens of each beam compete. All of the best may come from one beam: let all tokens of all "
    "beams compete.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    total = scores[:, None] + log_probs
    best, tokens = total.topk(min(2, total.size(1)), dim=1)
    values, order = best.flatten().topk(min(count, best.numel()))
    return values, order // best.size(1), tokens.flatten()[order]


@best_extensions.mistake(
    "as many tokens of each beam as there are beams",
    "Of each beam, only as many tokens compete as there are beams. All of the best may come from one beam: let all "
    "tokens of all beams compete.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    total = scores[:, None] + log_probs
    best, tokens = total.topk(min(len(scores), total.size(1)), dim=1)
    values, order = best.flatten().topk(min(count, best.numel()))
    return values, order // best.size(1), tokens.flatten()[order]


_CHOSEN_TOO_EARLY = (
    "You choose the best by the log-probability of the newest token, and add the beams' scores afterwards. A likely "
    "token of a bad beam then wins over a good hypothesis: add the scores first, and then choose."
)


@best_extensions.mistake("chosen before the scores are added", _CHOSEN_TOO_EARLY)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    values, parents, tokens = _unravel(log_probs, count)
    return values + scores[parents], parents, tokens


@best_extensions.mistake("chosen before the scores are added, and sorted afterwards", _CHOSEN_TOO_EARLY)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    values, parents, tokens = _unravel(log_probs, count)
    values, order = (values + scores[parents]).sort(descending=True)
    return values, parents[order], tokens[order]


@best_extensions.mistake(
    "values without the beams' scores",
    "The parents and tokens are right, but your values contain only the log-probability of the newest token. Return "
    "those of the whole hypotheses, by which you have ranked them.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    _, parents, tokens = _unravel(scores[:, None] + log_probs, count)
    return log_probs[parents, tokens], parents, tokens


@best_extensions.mistake(
    "ranks instead of tokens",
    "The values and parents are right. But first you sort each beam's tokens, and then you return a token's place in "
    "that order. Look up which token is there.",
)
def _(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    ranked = (scores[:, None] + log_probs).sort(dim=1, descending=True).values
    return _unravel(ranked, count)


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
    {"tokens": [7, 0, 5, 0, 6, 0, 9, 8], "eos": 0, "beam_size": 4},
    results=("finished", "active"),
    insight="Each beam has one extension with eos, so at least beam_size of the candidates can stay active.",
)
def finished_and_active(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    """Which candidates end here, and which continue."""
    ends = [place for place, token in enumerate(tokens) if token == eos]
    return [place for place in ends if place < beam_size], _others(ends, tokens)[:beam_size]


def _others(ends: list[int], tokens: list[int]) -> list[int]:
    return [place for place in range(len(tokens)) if place not in ends]


@finished_and_active.mistake(
    "any eos finishes",
    "In your code an eos finishes its hypothesis however far down the list it is. It has to be among the first "
    "beam_size candidates: what counts is its rank, not how many have finished so far.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    ends = [place for place, token in enumerate(tokens) if token == eos]
    return ends, _others(ends, tokens)[:beam_size]


@finished_and_active.mistake(
    "an eos finishes until the beam is full",
    "You go on until beam_size candidates are active, and count each eos on the way. An eos finishes its hypothesis "
    "only if it is among the first beam_size candidates: what counts is its rank.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    ends = [place for place, token in enumerate(tokens) if token == eos]
    active = _others(ends, tokens)[:beam_size]
    return [place for place in ends if place < active[-1]], active


@finished_and_active.mistake(
    "only an eos further down finishes",
    "Your condition is the wrong way round: an eos finishes in your code if its rank is beam_size or more. It has to "
    "be among the first beam_size candidates.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    ends = [place for place, token in enumerate(tokens) if token == eos]
    return [place for place in ends if place >= beam_size], _others(ends, tokens)[:beam_size]


@finished_and_active.mistake(
    "one too many stays active", "In your code beam_size + 1 candidates stay active. Keep only the best beam_size."
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    ends = [place for place, token in enumerate(tokens) if token == eos]
    return [place for place in ends if place < beam_size], _others(ends, tokens)[: beam_size + 1]


@finished_and_active.mistake(
    "one too few stays active", "In your code only beam_size - 1 candidates stay active. Keep the best beam_size."
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    ends = [place for place, token in enumerate(tokens) if token == eos]
    return [place for place in ends if place < beam_size], _others(ends, tokens)[: beam_size - 1]


@finished_and_active.mistake(
    "both limits one too large",
    "Both of your limits are too large by one. Ranks count from 0, so the last that can finish is beam_size - 1, and "
    "only beam_size candidates stay active. Is there a `<=` in place of a `<`?",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    ends = [place for place, token in enumerate(tokens) if token == eos]
    return [place for place in ends if place <= beam_size], _others(ends, tokens)[: beam_size + 1]


@finished_and_active.mistake(
    "both limits one too small",
    "Both of your limits are too small by one. An eos with the index beam_size - 1 is still among the best beam_size, "
    "and beam_size candidates stay active.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    ends = [place for place, token in enumerate(tokens) if token == eos]
    return [place for place in ends if place < beam_size - 1], _others(ends, tokens)[: beam_size - 1]


@finished_and_active.mistake(
    "the beam shrinks",
    "For each hypothesis that finishes, you keep one prefix fewer. There are twice as many candidates as beams so that "
    "beam_size of them can stay active.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    best = range(beam_size)
    return [place for place in best if tokens[place] == eos], [place for place in best if tokens[place] != eos]


@finished_and_active.mistake(
    "too many stay active", "All of your unfinished candidates stay active. Keep only the best beam_size."
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    ends = [place for place, token in enumerate(tokens) if token == eos]
    return [place for place in ends if place < beam_size], _others(ends, tokens)


@finished_and_active.mistake(
    "an eos further down takes a beam's place",
    "An eos further down doesn't finish, but in your code it still takes the place of a candidate that could stay "
    "active. Skip it.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    ends = [place for place, token in enumerate(tokens) if token == eos and place < beam_size]
    return ends, _others(ends, tokens)[:beam_size]


@finished_and_active.mistake(
    "always the first candidates",
    "You always return the first indices, whatever the tokens are. Either finished candidates are among them, or you "
    "renumber the others and lose their original indices.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    return [place for place, token in enumerate(tokens[:beam_size]) if token == eos], list(range(beam_size))


@finished_and_active.mistake(
    "tokens instead of indices",
    "You return tokens. Return their indices, which are also those of the scores and parents.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    return [token for token in tokens[:beam_size] if token == eos], [token for token in tokens if token != eos][
        :beam_size
    ]


@finished_and_active.mistake(
    "the two results are swapped", "Both lists are right, but in the wrong order: return finished first, then active."
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    ends = [place for place, token in enumerate(tokens) if token == eos]
    return _others(ends, tokens)[:beam_size], [place for place in ends if place < beam_size]


@finished_and_active.mistake(
    "only the first candidate can finish",
    "Only your very first candidate can finish. Any of the first beam_size candidates can.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    ends = [place for place, token in enumerate(tokens) if token == eos]
    return [place for place in ends if place == 0], _others(ends, tokens)[:beam_size]


@finished_and_active.mistake(
    "off by one: one candidate too few can finish",
    "An eos with the index beam_size - 1 doesn't finish in your code. It is still among the best beam_size: it should.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    ends = [place for place, token in enumerate(tokens) if token == eos]
    return [place for place in ends if place < beam_size - 1], _others(ends, tokens)[:beam_size]


@finished_and_active.mistake(
    "one rank too many",
    "An eos at the rank `beam_size` finishes in your code. Ranks count from 0, so this one is just outside.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    _, active = finished_and_active.reference(tokens, eos, beam_size)
    return [place for place, token in enumerate(tokens) if token == eos and place <= beam_size], active


@finished_and_active.mistake(
    "the first index of equal tokens",
    "`index` finds the first index of a token, so tokens that occur twice get the same number. Use enumerate.",
)
def _(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    finished, active = finished_and_active.reference(tokens, eos, beam_size)
    return [tokens.index(tokens[i]) for i in finished], [tokens.index(tokens[i]) for i in active]


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
    {"hypotheses": [(-3.0, [1, 5, 0]), (-1.6, [1, *range(2, 14), 0])], "length_penalty": 1.0, "n": 2},
)
def n_best(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    """The best by their normalised score."""
    return _ranked(hypotheses, lambda value, length: value / decoding.length_normalization(length, length_penalty))[:n]


def _ranked(
    hypotheses: list[Hypothesis],
    score: Callable[[float, int], float],
    words: Callable[[list[int]], list[int]] = lambda tokens: tokens[1:-1],
) -> list[list[int]]:
    """Best first; the length of a hypothesis is that of its tokens without bos."""
    ranked = sorted(hypotheses, key=lambda h: -score(h[0], len(h[1]) - 1))
    return [words(tokens) for _, tokens in ranked]


@n_best.mistake(
    "no length penalty",
    "You rank by log-probability, which favours short hypotheses. Divide each by its length normalisation (blank 2) "
    "first.",
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: value)[:n]


@n_best.mistake(
    "worst first", "You return the worst first. Scores are negative, and the best is the largest, the one closest to 0."
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: -value / decoding.length_normalization(length, length_penalty))[:n]


@n_best.mistake("best last", "The hypotheses are right, but in the wrong order. Return the best first.")
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return n_best.reference(hypotheses, length_penalty, n)[::-1]


@n_best.mistake(
    "multiplied by the normalisation",
    "You multiply by the length normalisation, which makes the scores of long hypotheses even lower. Divide by it.",
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: value * decoding.length_normalization(length, length_penalty))[:n]


@n_best.mistake(
    "the normalisation subtracted", "You subtract the length normalisation. Divide the log-probability by it."
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: value - decoding.length_normalization(length, length_penalty))[:n]


@n_best.mistake(
    "the probability divided",
    "You turn the log-probability into a probability before you divide. Divide the log-probability itself.",
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(
        hypotheses, lambda value, length: math.exp(value) / decoding.length_normalization(length, length_penalty)
    )[:n]


@n_best.mistake("bos counted", "Your lengths are one too large. The model generates eos, but not bos.")
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: value / decoding.length_normalization(length + 1, length_penalty))[
        :n
    ]


@n_best.mistake(
    "eos not counted",
    "Your lengths are one too small. The model has to generate eos as well, and its log-probability is part of the "
    "sum.",
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: value / decoding.length_normalization(length - 1, length_penalty))[
        :n
    ]


@n_best.mistake(
    "ranked by length", "You rank by length alone. Rank by log-probability divided by the length normalisation."
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: length)[:n]


@n_best.mistake(
    "divided by the length",
    "You divide by the length itself, whatever length_penalty is. Divide by the length normalisation (blank 2).",
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: value / length)[:n]


@n_best.mistake(
    "divided by a power of the number of all tokens",
    "You divide by `len(tokens)` to the power of `length_penalty`. The paper's formula is the one of blank 2: use it, "
    "with the number of tokens that the model generated (bos isn't one of them).",
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: value / (length + 1) ** length_penalty)[:n]


@n_best.mistake("all hypotheses", "The order is right, but you return all hypotheses. Return the best n.")
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: value / decoding.length_normalization(length, length_penalty))


@n_best.mistake("bos and eos not removed", "The order is right, but the sentences should not contain bos and eos.")
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(
        hypotheses, lambda value, length: value / decoding.length_normalization(length, length_penalty), list
    )[:n]


@n_best.mistake(
    "bos and eos removed by their ids",
    "You assume certain ids for bos and eos. In another vocabulary they may be others: remove the first and the last "
    "token of each hypothesis.",
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    def words(tokens: list[int]) -> list[int]:
        return [token for token in tokens if token not in (0, 1)]

    return _ranked(
        hypotheses, lambda value, length: value / decoding.length_normalization(length, length_penalty), words
    )[:n]


@n_best.mistake("scores returned as well", "The order is right. Return only the tokens, without their scores.")
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[Hypothesis]:
    return sorted(
        hypotheses, key=lambda h: -h[0] / -decoding.length_normalization(len(h[1]) - 1, length_penalty), reverse=True
    )[:n]


@n_best.mistake(
    "eos not removed",
    "Your sentences end with eos. Return the words between bos and eos.",
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(
        hypotheses,
        lambda value, length: value / decoding.length_normalization(length, length_penalty),
        words=lambda tokens: tokens[1:],
    )[:n]


@n_best.mistake(
    "divided by a power of the length",
    "You divide by the length to the power of `length_penalty`. The paper's formula is the one of blank 2: use it.",
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return _ranked(hypotheses, lambda value, length: value / length**length_penalty)[:n]


@n_best.mistake(
    "cut before it is sorted",
    "You cut the list to n hypotheses before you sort it, so a good one further back is lost. Rank all of them first.",
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return n_best.reference(hypotheses[:n], length_penalty, n)


@n_best.mistake(
    "cut by log-probability before it is ranked by score",
    "You keep the n most probable hypotheses, and rank only these by their normalised scores. A long one with a good "
    "score may be lost by then. Rank all of them by their normalised scores, and cut last.",
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    return n_best.reference(sorted(hypotheses, key=lambda h: -h[0])[:n], length_penalty, n)


@n_best.mistake(
    "each sentence beside its score",
    "The order is right, and so are the sentences. Return only these, without the log-probabilities.",
)
def _(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[Hypothesis]:
    values = {tuple(tokens[1:-1]): value for value, tokens in hypotheses}
    return [(values[tuple(words)], words) for words in n_best.reference(hypotheses, length_penalty, n)]


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
    {"model": Dice(8, seed=43), "bos": 1, "eos": 0, "beam_size": 3, "length_penalty": 0.6, "steps": 4},
    {"model": Dice(7, seed=12), "bos": 1, "eos": 0, "beam_size": 2, "length_penalty": 2.0, "steps": 6},
    {"model": Dice(7, seed=34), "bos": 1, "eos": 0, "beam_size": 2, "length_penalty": 2.0, "steps": 6},
    {"model": Dice(5, seed=12), "bos": 1, "eos": 0, "beam_size": 2, "length_penalty": 2.0, "steps": 5},
    {"model": Dice(12, seed=30), "bos": 1, "eos": 0, "beam_size": 4, "length_penalty": 1.5, "steps": 7},
    {"model": Dice(7, seed=42), "bos": 1, "eos": 0, "beam_size": 3, "length_penalty": 2.0, "steps": 5},
    insight="It may still miss the most probable sentence: a prefix that has left the beam never comes back.",
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
    is_over: Callable[[list[Hypothesis], list[Hypothesis]], bool] = lambda finished, active: False,
    shrink: bool = False,
    penalty_of_steps: float = 0.0,
    reads: Callable[[list[int]], list[int]] = lambda tokens: tokens,
    last_counts: bool = False,
    unfinished_count: bool = False,
    only_last: bool = False,
    most: int | None = None,
    parent: Callable[[int], int] = lambda parent: parent,
    append: Callable[[list[int], int], list[int]] = lambda tokens, token: [*tokens, token],
    sort: Callable[[list[int], int, int], tuple[list[int], list[int]]] = finished_and_active.reference,
    keeps: int | None = None,
    first_score: float = 0.0,
    twice: bool = False,
) -> list[int]:
    """Beam search with a switch for each way to get it wrong."""
    active: list[Hypothesis] = [(first_score, [bos])] * begin
    finished: list[Hypothesis] = []
    for step in range(1, steps + 1):
        scores = memory * torch.tensor([score for score, _ in active])
        log_probs = torch.stack([model(reads(tokens)) for _, tokens in active])
        extensions = best_extensions.reference(scores, log_probs, width * beam_size)
        candidates = [
            (
                value / decoding.length_normalization(step, penalty_of_steps) + twice * active[p][0],
                append(active[parent(p)][1], token),
            )
            for value, p, token in zip(*(column.tolist() for column in extensions), strict=True)
        ]
        done, continuing = sort(extensions[2].tolist(), eos, beam_size)
        finished += [candidates[place] for place in done]
        active = [candidates[place] for place in continuing]
        if shrink:
            beam_size -= len(done)
        if not beam_size or is_over(finished, active):
            break
        if only_last:
            finished = [candidates[place] for place in done] or finished[:keeps]
    if last_counts:
        finished += [(score, [*tokens, eos]) for score, tokens in active]
    if unfinished_count:
        finished += active
    return n_best.reference(finished[:most], length_penalty, 1)[0]


@beam_search.mistake(
    "all beams are equal",
    "You start with several copies of bos. Equal beams stay equal, so you find what greedy search would find. Start "
    "with a single beam.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, begin=beam_size)


@beam_search.mistake(
    "greedy search", "This is the result of greedy search. More than one hypothesis should survive each step."
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _greedy(model, bos, eos, steps)


@beam_search.mistake(
    "the scores are reset",
    "You rank hypotheses by their newest token alone, because each step starts again with scores of 0. Carry the "
    "scores along.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, memory=0.0)


@beam_search.mistake(
    "it stops at the first finished hypothesis",
    "You stop as soon as one hypothesis has finished, or return the one that finished first. One that finishes later "
    "may be better.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, is_over=lambda finished, active: bool(finished))


@beam_search.mistake(
    "it stops when the best finished hypothesis is ahead",
    "You stop as soon as the best finished hypothesis is ahead of the best active one. It can still be overtaken: a "
    "log-probability falls with each token, but what happens to the number that it is divided by?",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    def best(hypotheses: list[Hypothesis]) -> float:
        return max(
            value / decoding.length_normalization(len(tokens) - 1, length_penalty) for value, tokens in hypotheses
        )

    def is_over(finished: list[Hypothesis], active: list[Hypothesis]) -> bool:
        return bool(finished) and best(finished) > best(active)

    return _search(model, bos, eos, beam_size, length_penalty, steps, is_over=is_over)


@beam_search.mistake(
    "the beam shrinks", "For each hypothesis that finishes, you keep one fewer. The beam should stay as wide as it was."
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, shrink=True)


@beam_search.mistake(
    "only the first finished hypotheses",
    "You stop collecting after beam_size finished hypotheses. One that finishes later may be better.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, most=beam_size)


@beam_search.mistake(
    "too few candidates",
    "You look at beam_size candidates only. If some of them finish, fewer than beam_size prefixes are left to "
    "continue. Look at the 2 · beam_size best.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, width=1)


@beam_search.mistake(
    "too few candidates, until none is left",
    "You look at beam_size candidates only. Each one that finishes makes the beam smaller, until no prefix is left. "
    "Look at the 2 · beam_size best.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(
        model, bos, eos, beam_size, length_penalty, steps, width=1, is_over=lambda finished, active: not active
    )


@beam_search.mistake(
    "no length penalty",
    "You return the most probable hypothesis. Finished hypotheses of different lengths are compared by their "
    "normalised scores.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, 0.0, steps)


for _title, _again in (("normalised at every step", False), ("normalised at every step and at the end", True)):

    @beam_search.mistake(
        _title,
        "You divide the scores at every step and carry the result along, so a hypothesis is divided again and again. "
        "Carry sums of log-probabilities: the prefixes of a step are all equally long. When do lengths differ?",
    )
    def _(
        model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int, again: bool = _again
    ) -> list[int]:
        penalty_at_the_end = length_penalty if again else 0.0
        return _search(model, bos, eos, beam_size, penalty_at_the_end, steps, penalty_of_steps=length_penalty)


@beam_search.mistake(
    "the wrong parent",
    "You append tokens to the wrong hypotheses: the first candidate need not extend the first beam. Use the parents.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, parent=lambda parent: 0)


@beam_search.mistake(
    "the model gets only the last token",
    "You pass only the newest token to the model. The next token depends on the whole prefix.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, reads=lambda tokens: tokens[-1:])


@beam_search.mistake(
    "unfinished hypotheses can win",
    "At the end you also rank hypotheses that haven't finished. They may stop in the middle of a sentence, and their "
    "scores lack the log-probability of eos.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, last_counts=True)


@beam_search.mistake("one step too few", "Your search ends one step too early. Count how often your loop runs.")
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps - 1)


@beam_search.mistake("bos and eos not removed", "The tokens are right, but the result should not contain bos and eos.")
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return [bos, *_search(model, bos, eos, beam_size, length_penalty, steps), eos]


@beam_search.mistake(
    "unfinished hypotheses compete",
    "At the end, your active hypotheses compete with the finished ones, and lose their last token, as if it were "
    "eos. Only finished ones count.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, unfinished_count=True)


@beam_search.mistake(
    "only the last finished hypotheses",
    "You forget what has finished in earlier steps. Collect all finished hypotheses.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, only_last=True)


@beam_search.mistake(
    "only what the last step has finished",
    "You forget what has finished in earlier steps, and if nothing finishes in the last one, nothing is left. Collect "
    "all finished hypotheses.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, only_last=True, keeps=0)


@beam_search.mistake(
    "one step too many",
    "Your search goes one step too far. Count how often your loop runs.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps + 1)


@beam_search.mistake(
    "it stops when enough hypotheses have finished",
    "You stop as soon as more than beam_size hypotheses have finished. One that finishes later may be better: take "
    "all the steps.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(
        model, bos, eos, beam_size, length_penalty, steps, is_over=lambda finished, active: len(finished) > beam_size
    )


@beam_search.mistake(
    "hypotheses that share a list",
    "`append` changes the list of the parent, which other hypotheses still need. Make a new list: `[*tokens, token]`.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    def append(tokens: list[int], token: int) -> list[int]:
        tokens.append(token)
        return tokens

    return _search(model, bos, eos, beam_size, length_penalty, steps, append=append)


@beam_search.mistake(
    "finished hypotheses go on",
    "You continue the best beam_size candidates, even those that end with eos. What comes after eos is no part of a "
    "sentence: continue only the active ones.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    def sort(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
        return finished_and_active.reference(tokens, eos, beam_size)[0], list(range(beam_size))

    return _search(model, bos, eos, beam_size, length_penalty, steps, sort=sort)


@beam_search.mistake(
    "finished hypotheses stay active",
    "You keep finished hypotheses among the active ones, and extend them. What comes after eos is no part of a "
    "sentence: continue only the active ones.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    def sort(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
        done, continuing = finished_and_active.reference(tokens, eos, beam_size)
        return done, done + continuing

    return _search(model, bos, eos, beam_size, length_penalty, steps, sort=sort)


@beam_search.mistake(
    "any eos finishes",
    "You count every candidate that ends with eos, however far down the list. Only the first beam_size candidates can "
    "finish.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    def sort(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
        ends = [place for place, token in enumerate(tokens) if token == eos]
        return ends, _others(ends, tokens)[:beam_size]

    return _search(model, bos, eos, beam_size, length_penalty, steps, sort=sort)


@beam_search.mistake(
    "a probability of 1 in place of its logarithm",
    "Your first prefix starts with a score of 1. Scores are log-probabilities: bos is certain, and what is the "
    "logarithm of 1?",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, first_score=1.0)


@beam_search.mistake(
    "scores added twice",
    "You add the parent's score to values that already contain it. `best_extensions` returns the log-probabilities of "
    "whole hypotheses.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _search(model, bos, eos, beam_size, length_penalty, steps, twice=True)


@beam_search.mistake(
    "it stops when the best candidate has finished",
    "You stop as soon as the best candidate of a step ends with eos. One that finishes later may be better: take all "
    "the steps.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    def is_over(finished: list[Hypothesis], active: list[Hypothesis]) -> bool:
        newest = [value for value, tokens in finished if len(tokens) == len(active[0][1])]
        return bool(newest) and max(newest) > active[0][0]

    return _search(model, bos, eos, beam_size, length_penalty, steps, is_over=is_over)


@beam_search.mistake(
    "tokens that are tensors", "The tokens are right, but each is a tensor. Keep plain numbers in the hypotheses."
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[Tensor]:
    return [torch.tensor(token) for token in _search(model, bos, eos, beam_size, length_penalty, steps)]


def _finished_in_beam(
    model: Model,
    bos: int,
    eos: int,
    beam_size: int,
    length_penalty: float,
    steps: int,
    pruned_by: float = 0.0,
    unfinished_count: bool = False,
) -> list[int]:
    """A search whose finished hypotheses keep their place among the beam_size best; `pruned_by` is an exponent."""

    def score(hypothesis: Hypothesis, exponent: float) -> float:
        value, tokens = hypothesis
        return value / decoding.length_normalization(len(tokens) - 1, exponent) if len(tokens) > 1 else 0.0

    beam: list[Hypothesis] = [(0.0, [bos])]
    for _ in range(steps):
        longer = [
            (value + log_p, [*tokens, token])
            for value, tokens in beam
            if tokens[-1] != eos
            for token, log_p in enumerate(model(tokens).tolist())
        ]
        kept = [hypothesis for hypothesis in beam if hypothesis[1][-1] == eos]
        beam = sorted([*kept, *longer], key=lambda h: -score(h, pruned_by))[:beam_size]
    finished = [hypothesis for hypothesis in beam if hypothesis[1][-1] == eos]
    best = max(beam if unfinished_count or not finished else finished, key=lambda h: score(h, length_penalty))
    return [token for token in best[1][1:] if token != eos]


_CROWDED = (
    "Your finished hypotheses keep a place in the beam and crowd out prefixes. Move them to a separate list, so that "
    "beam_size prefixes stay active."
)


@beam_search.mistake("finished hypotheses stay in the beam", _CROWDED)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _finished_in_beam(model, bos, eos, beam_size, length_penalty, steps)


@beam_search.mistake(
    "finished hypotheses stay in the beam, and unfinished ones can win",
    f"{_CROWDED} At the end, only the finished ones count.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _finished_in_beam(model, bos, eos, beam_size, length_penalty, steps, unfinished_count=True)


@beam_search.mistake(
    "finished hypotheses stay in the beam, which is cut by normalised score",
    f"{_CROWDED} All of these are equally long, so the sums of their log-probabilities can be compared.",
)
def _(model: Model, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    return _finished_in_beam(model, bos, eos, beam_size, length_penalty, steps, pruned_by=length_penalty)


# 7 --------------------------------------------------------------------------------------------------------------------


class Counting:
    """A decoder for batches: source n is translated with n tokens and eos, each with probability 0.5."""

    def __call__(self, sources: Tensor, tokens: Tensor) -> Tensor:
        """The log-probabilities of the next tokens; 0 is eos, 1 bos, 2 pad."""
        _check_batch(sources, tokens)
        position = tokens.size(1) - 1
        likely = torch.where(sources == position, 0, 3 + position % 3)
        probabilities = torch.full((len(sources), 6), 0.1)
        probabilities[torch.arange(len(sources)), likely] = 0.5
        return probabilities.log()

    def __repr__(self) -> str:
        return "toy_model"


class BatchOfDice:
    """A decoder for batches with an opinion of its own on every source and every prefix. 0 is pad, 1 bos, 2 eos."""

    def __init__(self, vocab_size: int, seed: int) -> None:
        self.vocab_size, self.seed = vocab_size, seed

    def __call__(self, sources: Tensor, tokens: Tensor) -> Tensor:
        """The log-probabilities of the next tokens."""
        _check_batch(sources, tokens)
        eos_and_words = torch.tensor([0, *range(2, self.vocab_size - 1)])
        rows = [
            Dice(self.vocab_size - 1, self.seed + source)(row)[eos_and_words]
            for source, row in zip(sources.tolist(), tokens.tolist(), strict=True)
        ]
        never = torch.full((len(rows), 2), -torch.inf)  # pad and bos
        return torch.cat([never, torch.stack(rows)], dim=1)

    def __repr__(self) -> str:
        return f"a toy with {self.vocab_size} tokens and random probabilities"


def _check_batch(sources: Tensor, tokens: Tensor) -> None:
    for name, value, axes in (("sources", sources, "(batch,)"), ("tokens", tokens, "(batch, length)")):
        if not is_tensor(value):
            raise TypeError(f"the model reads a tensor of {name}, {axes}; it got {type_with_article(value)}")
    if sources.dim() != 1 or tokens.dim() != 2 or len(sources) != len(tokens):
        raise ValueError(
            "the model reads sources, (batch,), and tokens, (batch, length); it got "
            f"{tuple(sources.shape)} and {tuple(tokens.shape)}"
        )
    _check_length(tokens.size(1))


toy_model = Counting()
"""The learner's own experiments use it as well."""
_DICE = BatchOfDice(9, seed=5)


@topic.exercise(
    {"model": toy_model, "sources": torch.tensor([3, 0, 1]), "bos": 1, "eos": 0, "pad": 2, "limit": 6},
    {"model": toy_model, "sources": torch.tensor([1, 4]), "bos": 1, "eos": 0, "pad": 2, "limit": 8},
    {"model": toy_model, "sources": torch.tensor([5, 99, 1]), "bos": 1, "eos": 0, "pad": 2, "limit": 7},
    {"model": _DICE, "sources": torch.tensor([3]), "bos": 1, "eos": 2, "pad": 0, "limit": 9},
    {"model": _DICE, "sources": torch.tensor([4, 1, 3, 0]), "bos": 1, "eos": 2, "pad": 0, "limit": 12},
    {"model": _DICE, "sources": torch.tensor([2, 4, 5]), "bos": 1, "eos": 2, "pad": 0, "limit": 4},
    {"model": _DICE, "sources": torch.tensor([7, 1, 0, 6, 5]), "bos": 1, "eos": 2, "pad": 0, "limit": 10},
    results=("tokens", "scores"),
    insight="A translation must not depend on its batch: compare it with the one that the sentence gets alone.",
)
def greedy_batch(model: BatchModel, sources: Tensor, bos: int, eos: int, pad: int, limit: int) -> tuple[Tensor, Tensor]:
    """Greedy search for a batch, with the log-probability of each translation."""
    tokens = torch.full((len(sources), 1), bos)
    scores = torch.zeros(len(sources))
    ended = torch.zeros(len(sources), dtype=torch.bool)
    while tokens.size(1) <= limit and not ended.all():
        log_probs = model(sources, tokens)  # (batch, vocab_size)
        values, newest = log_probs.max(dim=-1)  # (batch,) each
        scores = scores + values.masked_fill(ended, 0)
        newest = newest.masked_fill(ended, pad)
        tokens = torch.cat([tokens, newest[:, None]], dim=1)
        ended = ended | (newest == eos)
    return tokens[:, 1:], scores


add_bugs(
    greedy_batch,
    Bug(
        "sentences are cut off",
        "Translate the same sentences in another order. Each should keep its translation, whatever its place in the "
        "batch. Which sentences does your search wait for?",
        "not ended.all()",
        "tokens[0, -1] != eos",
    ),
    Bug(
        "sentences go on after eos",
        "Translate a sentence that ends at once together with a long one, and read its row from left to right. What "
        "does your code know about a sentence one step after its eos, and what two steps after it? (If you have "
        "changed that line: `|` binds more tightly than `==`.)",
        "ended | (newest == eos)",
        "newest == eos",
    ),
    Bug(
        "scores depend on the rest of the batch",
        "Translate a short sentence alone, then together with a longer one. Its score should stay the same. In which "
        "steps may the score of a sentence change?",
        "values.masked_fill(ended, 0)",
        "values",
        (
            WrongRepair(
                "the log-probability of eos is missing",
                "The model has generated eos like every other token, so its log-probability belongs to the score. In "
                "the step in which a sentence ends, had it ended before?",
                "values.masked_fill(ended | (newest == eos), 0)",
            ),
            WrongRepair(
                "only the steps after eos count",
                "Your mask is the wrong way round: the score changes only after a sentence has ended.",
                "values.masked_fill(~ended, 0)",
            ),
        ),
    ),
)


def _greedy_batch(
    model: BatchModel,
    sources: Tensor,
    bos: int,
    eos: int,
    pad: int,
    limit: int,
    is_over: Callable[[Tensor], Tensor] = lambda ended: ended.all(),
    ends: bool = True,
    fills_eos: bool = False,
    skips: Callable[[Tensor, Tensor], Tensor] = lambda before, now: before,
) -> tuple[Tensor, Tensor]:
    """Greedy search for a batch with a switch for each way to get the repair wrong.

    `skips` takes which sentences had ended before the step and which have now, and returns those whose log-probability
    doesn't count.
    """
    tokens = torch.full((len(sources), 1), bos)
    scores = torch.zeros(len(sources))
    ended = torch.zeros(len(sources), dtype=torch.bool)
    while tokens.size(1) <= limit and not is_over(ended):
        values, newest = model(sources, tokens).max(dim=-1)
        now = ended | (newest == eos) if ends else ended
        scores = scores + values.masked_fill(skips(ended, now), 0)
        tokens = torch.cat([tokens, newest.masked_fill(now if fills_eos else ended, pad)[:, None]], dim=1)
        ended = now
    return tokens[:, 1:], scores


@greedy_batch.mistake(
    "it stops as soon as one sentence has ended",
    "Your search cuts off all sentences that are longer than the shortest. When may it stop? (As long as it stops so "
    "early, nothing happens to sentences that have ended, so other bugs may be hidden.)",
)
def _(model: BatchModel, sources: Tensor, bos: int, eos: int, pad: int, limit: int) -> tuple[Tensor, Tensor]:
    return _greedy_batch(model, sources, bos, eos, pad, limit, is_over=lambda ended: ended.any())


@greedy_batch.mistake(
    "it waits only for the last sentence of the batch",
    "Translate the same sentences in another order. Now your search waits for the one in the last row, however long "
    "the others are. When may it stop?",
)
def _(model: BatchModel, sources: Tensor, bos: int, eos: int, pad: int, limit: int) -> tuple[Tensor, Tensor]:
    return _greedy_batch(model, sources, bos, eos, pad, limit, is_over=lambda ended: ended[-1])


@greedy_batch.mistake(
    "it goes on after the last sentence has ended",
    "All sentences have ended, but your search goes on to the limit, and adds only padding. How can it know that it is "
    "done? The newest token of a sentence that ended earlier isn't eos.",
)
def _(model: BatchModel, sources: Tensor, bos: int, eos: int, pad: int, limit: int) -> tuple[Tensor, Tensor]:
    return _greedy_batch(model, sources, bos, eos, pad, limit, is_over=lambda ended: ended.any() & False)


@greedy_batch.mistake(
    "no sentence ever ends",
    "Your search goes on to the limit, and there is no padding: no entry of `ended` ever becomes True. It should be "
    "True for a sentence that has just generated eos, and for one that had ended before.",
)
def _(model: BatchModel, sources: Tensor, bos: int, eos: int, pad: int, limit: int) -> tuple[Tensor, Tensor]:
    return _greedy_batch(model, sources, bos, eos, pad, limit, ends=False)


@greedy_batch.mistake(
    "only the log-probability of eos is left out",
    "You leave out the log-probability of eos, which belongs to the score, but add those of the steps after it.",
)
def _(model: BatchModel, sources: Tensor, bos: int, eos: int, pad: int, limit: int) -> tuple[Tensor, Tensor]:
    return _greedy_batch(model, sources, bos, eos, pad, limit, skips=lambda before, now: now & ~before)


@greedy_batch.mistake(
    "eos is replaced by padding",
    "A sentence counts as ended before its eos is stored, so eos is replaced by pad. Padding should begin one step "
    "later.",
)
def _(model: BatchModel, sources: Tensor, bos: int, eos: int, pad: int, limit: int) -> tuple[Tensor, Tensor]:
    return _greedy_batch(model, sources, bos, eos, pad, limit, fills_eos=True)


@greedy_batch.mistake(
    "eos is replaced by padding, and its log-probability is missing",
    "A sentence counts as ended before its eos is stored, so eos is replaced by pad, and doesn't count for the score. "
    "Padding should begin one step later.",
)
def _(model: BatchModel, sources: Tensor, bos: int, eos: int, pad: int, limit: int) -> tuple[Tensor, Tensor]:
    return _greedy_batch(model, sources, bos, eos, pad, limit, fills_eos=True, skips=lambda before, now: now)
