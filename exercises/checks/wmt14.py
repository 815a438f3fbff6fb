"""Checks of 17 training the full model on WMT14 (§5.1, §5.2, §6.1)."""

import math
import re
from collections.abc import Callable, Sequence
from itertools import chain, combinations, takewhile
from typing import Any

from exercises.check import Topic
from exercises.checks.two_mistakes import with_pairs

topic = Topic()
check, given = topic.check, topic.given

OVERHEAD = 1.5

Pairs = list[tuple[str, str]]
Checksums = dict[str, str]
"""Name of a file → the checksum of its content."""
Plan = list[list[int]]


# 1 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"d_model": 2, "d_ff": 3, "n_layers": 1, "vocab_size": 5, "n": 1, "m": 1},
    {"d_model": 4, "d_ff": 8, "n_layers": 2, "vocab_size": 10, "n": 3, "m": 2},
    {"d_model": 64, "d_ff": 256, "n_layers": 2, "vocab_size": 1000, "n": 7, "m": 5},
    {"d_model": 512, "d_ff": 2048, "n_layers": 6, "vocab_size": 37_000, "n": 25, "m": 30},
)
def training_flop(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    """The package's count; a test compares them."""
    return _flop(d_model, d_ff, n_layers, vocab_size, n, m)


def _flop(
    d: int,
    f: int,
    n_layers: int,
    vocab_size: int,
    n: int,
    m: int,
    *,
    per_weight: int = 6,
    at_source: Sequence[int] = (6, 2, 0),
    at_target: Sequence[int] = (6, 2, 1),
    scores: Callable[[int, int], int] = lambda n, m: 2 * (n * n + m * m + m * n),
) -> int:
    """``at_source`` and ``at_target``: matrices of d × d and of d × f in each layer, and of V × d in all."""

    def weights(squares: int, inner: int, tables: int) -> int:
        return n_layers * (squares * d * d + inner * d * f) + tables * vocab_size * d

    return per_weight * (n * weights(*at_source) + m * weights(*at_target) + n_layers * d * scores(n, m))


@training_flop.mistake(
    "only the forward pass",
    "You count 2 FLOP per weight and token, those of the forward pass. The backward pass needs twice as many again: "
    "the gradients of the inputs, and those of the weights.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, per_weight=2)


@training_flop.mistake(
    "multiplications only",
    "You count 3 FLOP per weight and token, one for each of three products. Each weight takes a multiplication and an "
    "addition.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, per_weight=3)


@training_flop.mistake(
    "weights instead of FLOP",
    "You count each weight once per token. In training, each of them takes several operations per token.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, per_weight=1)


@training_flop.mistake(
    "no output layer",
    "The logits are missing. The output layer has a row of d_model weights for each token of the vocabulary; in the "
    "base model, no other single layer takes as much work.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, at_target=(6, 2, 0))


@training_flop.mistake(
    "logits for the source, too",
    "You count the output layer for source tokens as well. Nothing is predicted there: only the decoder's positions "
    "get logits.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, at_source=(6, 2, 1))


@training_flop.mistake(
    "embedding counted as a product",
    "You count the embeddings of source and target as matrix products. Looking up a row takes no multiplication.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, at_source=(6, 2, 1), at_target=(6, 2, 2))


@training_flop.mistake(
    "keys and values of cross-attention from the target",
    "You count all four matrices of cross-attention for each target token. Its keys and values are computed from the "
    "encoder's output, so those two are applied to the source tokens.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, at_source=(4, 2, 0), at_target=(8, 2, 1))


@training_flop.mistake(
    "no cross-attention",
    "The matrices of cross-attention are missing: two are applied to the source tokens, two to the target tokens.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, at_source=(4, 2, 0), at_target=(4, 2, 1))


@training_flop.mistake(
    "half of the feed-forward network",
    "You count one matrix of the feed-forward network. It has two: from d_model to d_ff, and back.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, at_source=(6, 1, 0), at_target=(6, 1, 1))


@training_flop.mistake(
    "no feed-forward network in the decoder",
    "The decoder's feed-forward network is missing. Its layers have one of the same size as the encoder's.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, at_target=(6, 0, 1))


@training_flop.mistake(
    "three matrices instead of four",
    "You count three matrices for each kind of attention. The fourth computes the output from the joined heads.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, at_source=(5, 2, 0), at_target=(4, 2, 1))


@training_flop.mistake(
    "no weights for the decoder's self-attention",
    "The four matrices of the decoder's self-attention are missing. Each decoder layer has two kinds of attention.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, at_target=(2, 2, 1))


@training_flop.mistake(
    "all of cross-attention on both sides",
    "You count the four matrices of cross-attention for source tokens and for target tokens. Two of them are "
    "applied to the source tokens only, the other two to the target tokens only.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, at_source=(8, 2, 0), at_target=(8, 2, 1))


@training_flop.mistake(
    "n and m swapped",
    "You multiply the weights of the encoder by m and those of the decoder by n. The encoder reads the n source "
    "tokens, the decoder the m target tokens.",
)
def _(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    return _flop(d_model, d_ff, n_layers, vocab_size, m, n)


@training_flop.mistake(
    "d^2 for a square",
    "In Python, `^` isn't a power but an operation on bits. Write a square as `d * d` or `d**2`.",
)
def _(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    with_square = _flop(d_model, d_ff, n_layers, vocab_size, n, m)
    return with_square + 6 * (n + m) * n_layers * 6 * ((d_model ^ 2) - d_model * d_model)


@training_flop.mistake(
    "attention in one layer only",
    "You count the queries, keys and values that attention multiplies only once. Every layer does this work.",
)
def _(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    products = 2 * d_model * (n * n + m * m + m * n)
    return _flop(d_model, d_ff, n_layers, vocab_size, n, m, scores=lambda n, m: 0) + 6 * products


@training_flop.mistake(
    "attention of a single query",
    "You count the work of attention for one query. In each kind of attention, every query takes that much.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, scores=lambda n, m: 2 * (n + m + n))


@training_flop.mistake(
    "attention among all tokens",
    "You count attention as if source and target were one text in which everything attends to everything. There are "
    "three kinds: within the source, within the target, and from the target to the source.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, scores=lambda n, m: 2 * (n + m) ** 2)


@training_flop.mistake(
    "no scores and weighted sums",
    "You count the products with weights only. Attention also multiplies queries by keys, and the attention weights "
    "by values.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, scores=lambda n, m: 0)


@training_flop.mistake(
    "scores without weighted sums",
    "You count the comparisons of queries and keys. The weighted sums of the values take as much work again.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, scores=lambda n, m: n * n + m * m + m * n)


@training_flop.mistake(
    "no scores in cross-attention",
    "Two of the three kinds of attention are right. In cross-attention, each of m queries is compared with n keys.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, scores=lambda n, m: 2 * (n * n + m * m))


@training_flop.mistake(
    "half of the decoder's scores left out",
    "You leave out the scores that the decoder's mask hides. They are computed all the same, and hidden afterwards.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, scores=lambda n, m: 2 * n * n + m * m + 2 * m * n)


@training_flop.mistake(
    "only the decoder's visible scores",
    "In the decoder's self-attention you count only the scores that its mask leaves visible. All of them are "
    "computed, and some are hidden afterwards.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, scores=lambda n, m: 2 * n * n + m * (m + 1) + 2 * m * n)


@training_flop.mistake(
    "the output layer in every layer",
    "You count the output layer once for each decoder layer. There is only one, after the last of them.",
)
def _(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    return _flop(d_model, d_ff, n_layers, vocab_size, n, m, at_target=(6, 2, n_layers))


@training_flop.mistake(
    "the rule of thumb",
    "This is 6 × parameters × target tokens. It's a good estimate if both sides are equally long, but here you count "
    "exactly: the encoder's weights are applied to the source tokens, and attention takes work, too.",
)
def _(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    return _flop(d_model, d_ff, n_layers, vocab_size, m, m, scores=lambda n, m: 0)


@training_flop.mistake(
    "attention without the factor 6",
    "The products with weights are right, but you add the scores and weighted sums without the factor 6. They are "
    "made of multiplications and additions, and have a backward pass, like all others.",
)
def _(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    products = 2 * n_layers * d_model * (n * n + m * m + m * n)
    return _flop(d_model, d_ff, n_layers, vocab_size, n, m, scores=lambda n, m: 0) + products


@training_flop.mistake(
    "a single layer", "You count one encoder layer and one decoder layer. There are n_layers of each."
)
def _(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    return _flop(d_model, d_ff, 1, vocab_size, n, m)


@training_flop.mistake(
    "attention's scores counted for inference only",
    "You multiply the weights by 6, but the scores of attention by 2. They, too, cost twice as much in the "
    "backward pass as in the forward pass.",
)
def _(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    return _flop(d_model, d_ff, n_layers, vocab_size, n, m, scores=lambda n, m: 0) + 4 * n_layers * d_model * (
        n * n + m * m + m * n
    )


@training_flop.mistake(
    "d_ff taken for 4d",
    "You write 4 d_model where d_ff belongs.",
)
def _(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    return _flop(d_model, 4 * d_model, n_layers, vocab_size, n, m)


@training_flop.mistake(
    "cross-attention between source tokens",
    "In cross-attention each of the m target tokens attends to the n source tokens. You count n · n.",
)
def _(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    return _flop(d_model, d_ff, n_layers, vocab_size, n, m, scores=lambda n, m: 2 * (n * n + m * m + n * n))


@training_flop.mistake(
    "keys and values of cross-attention missing",
    "In cross-attention, you count queries and output, which are applied to the target tokens. Two matrices are "
    "missing: keys and values are computed from the encoder's output.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, at_source=(4, 2, 0))


@training_flop.mistake(
    "queries and output of cross-attention missing",
    "In cross-attention, you count keys and values, which are applied to the source tokens. Two matrices are missing: "
    "queries and output belong to the target tokens.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, at_target=(4, 2, 1))


@training_flop.mistake(
    "the output layer at a single position",
    "You count the output layer once for the whole sentence. Every one of the m target positions gets its own logits.",
)
def _(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    without = _flop(d_model, d_ff, n_layers, vocab_size, n, m, at_target=(6, 2, 0))
    return without + 6 * vocab_size * d_model


@training_flop.mistake(
    "logits without d_model",
    "You count one operation for each logit. A logit is the product of two vectors of d_model numbers.",
)
def _(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    without = _flop(d_model, d_ff, n_layers, vocab_size, n, m, at_target=(6, 2, 0))
    return without + 6 * m * vocab_size


@training_flop.mistake(
    "the output layer without the factor 6",
    "You multiply everything by 6, except the output layer. Its weights take a forward and a backward pass, too: look "
    "at the parentheses.",
)
def _(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    without = _flop(d_model, d_ff, n_layers, vocab_size, n, m, at_target=(6, 2, 0))
    return without + m * vocab_size * d_model


@training_flop.mistake(
    "the factor 6 for the source only",
    "You multiply only the first term by 6. All operations have a forward and a backward pass: put parentheses around "
    "the sum.",
)
def _(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    source = n_layers * (6 * d_model * d_model + 2 * d_model * d_ff)
    return _flop(d_model, d_ff, n_layers, vocab_size, n, m, per_weight=1) + 5 * n * source


@training_flop.mistake(
    "scores without d_model",
    "You count one operation for each pair of a query and a key. Comparing the two takes d_model of them, and so does "
    "the weighted sum.",
)
def _(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    pairs = 2 * n_layers * (n * n + m * m + m * n)
    return _flop(d_model, d_ff, n_layers, vocab_size, n, m, scores=lambda n, m: 0) + 6 * pairs


@training_flop.mistake(
    "half of the decoder's scores, rounded down",
    "You leave out the scores that the decoder's mask hides. They are computed all the same, and hidden afterwards. "
    "(Besides, you round down.)",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, scores=lambda n, m: 2 * (n * n + m * m // 2 + m * n))


@training_flop.mistake(
    "cross-attention between target tokens",
    "In cross-attention each of the m target tokens attends to the n source tokens. You count m · m.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, scores=lambda n, m: 2 * (n * n + 2 * m * m))


@training_flop.mistake(
    "twice as many layers",
    "You count twice as many layers as there are: n_layers is the number of encoder layers, and also that of decoder "
    "layers.",
)
def _(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    return _flop(d_model, d_ff, 2 * n_layers, vocab_size, n, m)


@training_flop.mistake(
    "only the backward pass",
    "You count 4 FLOP per weight and token, those of the backward pass. The forward pass needs 2 more.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, per_weight=4)


@training_flop.mistake(
    "each operation counted twice",
    "You count 12 FLOP per weight and token. The multiplication and the addition are both in the 6 already: 2 in the "
    "forward pass, 4 in the backward pass.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, per_weight=12)


@training_flop.mistake(
    "biases counted",
    "You count the biases of attention and of the feed-forward network. The text asks you to leave them out: they "
    "take almost no work.",
)
def _(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    biases = n_layers * (n + m) * (7 * d_model + d_ff)
    return _flop(d_model, d_ff, n_layers, vocab_size, n, m) + 6 * biases


@training_flop.mistake(
    "^ for the squares of n and m",
    "In Python, `^` isn't a power but an operation on bits. Write the square of n as `n * n`.",
)
def _(*sizes: int) -> int:
    return _flop(*sizes, scores=lambda n, m: 2 * (n ^ 2 + m ^ 2 + n * m))


@training_flop.mistake(
    "^ for all squares",
    "In Python, `^` isn't a power but an operation on bits. Write a square as `d * d`.",
)
def _(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    right = _flop(d_model, d_ff, n_layers, vocab_size, n, m, scores=lambda n, m: 2 * (n ^ 2 + m ^ 2 + n * m))
    return right + 6 * (n + m) * n_layers * 6 * ((d_model ^ 2) - d_model * d_model)


@training_flop.mistake(
    "^ for a square, without parentheses",
    "In Python, `^` isn't a power but an operation on bits, and what is to the right of it, even a sum, belongs to "
    "it. Write a square as `d * d`.",
)
def _(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    side = n_layers * ((6 * d_model) ^ (2 + 2 * d_model * d_ff))
    scores = 2 * n_layers * d_model * (n * n + m * m + m * n)
    return 6 * ((n + m) * side + scores + m * vocab_size * d_model)


_NONE = (0, 0, 0)
_SLIPS: dict[str, dict[str, Any]] = {
    "only the forward pass": {"per_weight": 2},
    "multiplications only": {"per_weight": 3},
    "no output layer": {"target": (0, 0, -1)},
    "logits for the source, too": {"source": (0, 0, 1)},
    "keys and values of cross-attention from the target": {"source": (-2, 0, 0), "target": (2, 0, 0)},
    "no cross-attention": {"source": (-2, 0, 0), "target": (-2, 0, 0)},
    "half of the feed-forward network": {"source": (0, -1, 0), "target": (0, -1, 0)},
    "three matrices instead of four": {"source": (-1, 0, 0), "target": (-2, 0, 0)},
    "no scores and weighted sums": {"scores": lambda n, m: 0},
    "scores without weighted sums": {"scores": lambda n, m: n * n + m * m + m * n},
    "no scores in cross-attention": {"scores": lambda n, m: 2 * (n * n + m * m)},
}
"""Ordinary mistakes: what each changes in the number of matrices, or puts in place of another argument of `_flop`."""
_NO_PAIRS = {
    ("keys and values of cross-attention from the target", "no cross-attention"),
    ("no output layer", "logits for the source, too"),  # the same as n and m swapped
}
_EITHER = [{"per_weight"}, {"scores"}]
"""Two mistakes that change the same one of these can't be made at once."""


def _flop_with(*titles: str) -> Callable[..., int]:
    """Return an answer with these mistakes."""
    slips = [_SLIPS[title] for title in titles]
    source, target = (
        [sum(column) for column in zip(right, *(slip.get(side, _NONE) for slip in slips), strict=True)]
        for side, right in (("source", (6, 2, 0)), ("target", (6, 2, 1)))
    )
    others = {key: slip[key] for slip in slips for key in ("per_weight", "scores") if key in slip}
    return lambda *sizes: _flop(*sizes, at_source=source, at_target=target, **others)


training_flop = with_pairs(
    topic,
    training_flop,
    {
        (a, b): _flop_with(a, b)
        for a, b in combinations(_SLIPS, 2)
        if not any(changed <= _SLIPS[a].keys() & _SLIPS[b].keys() for changed in _EITHER) and (a, b) not in _NO_PAIRS
    },
)


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"flop": 3.6e15, "teraflops": 10.0, "utilisation": 0.1, "gpus": 1, "watts": 100.0, "euros_per_gpu_hour": 0.5},
    {"flop": 7.2e17, "teraflops": 100.0, "utilisation": 0.2, "gpus": 4, "watts": 250.0, "euros_per_gpu_hour": 2.0},
    {"flop": 9e17, "teraflops": 312.0, "utilisation": 0.15, "gpus": 8, "watts": 400.0, "euros_per_gpu_hour": 1.25},
    results=("hours", "kwh", "euros"),
)
def run_costs(
    flop: float, teraflops: float, utilisation: float, gpus: int, watts: float, euros_per_gpu_hour: float
) -> tuple[float, float, float]:
    """Time, energy and rent."""
    gpu_hours = flop / (teraflops * 1e12 * utilisation * 3600)
    return gpu_hours / gpus, gpu_hours * watts * OVERHEAD / 1000, gpu_hours * euros_per_gpu_hour


@run_costs.mistake(
    "seconds instead of hours",
    "FLOP divided by FLOP per second are seconds. An hour has 3,600 of them.",
)
def _(*arguments: Any) -> tuple[float, ...]:
    return tuple(3600 * value for value in run_costs.reference(*arguments))


@run_costs.mistake(
    "minutes instead of hours",
    "Your times are in minutes: an hour has 3,600 seconds.",
)
def _(*arguments: Any) -> tuple[float, ...]:
    return tuple(60 * value for value in run_costs.reference(*arguments))


@run_costs.mistake(
    "teraflops taken for flops",
    "Your run takes far too long: the peak is in TFLOP/s. How many FLOP per second is one TFLOP/s?",
)
def _(*arguments: Any) -> tuple[float, ...]:
    return tuple(1e12 * value for value in run_costs.reference(*arguments))


@run_costs.mistake(
    "gigaflops",
    "All your results are 1,000 times too large: giga stands for 10^9, tera for 10^12.",
)
def _(*arguments: Any) -> tuple[float, ...]:
    return tuple(1000 * value for value in run_costs.reference(*arguments))


@run_costs.mistake(
    "full utilisation",
    "You assume that the GPUs reach their peak. They reach the share of it that is called utilisation.",
)
def _(
    flop: float, teraflops: float, utilisation: float, gpus: int, watts: float, euros_per_gpu_hour: float
) -> tuple[float, float, float]:
    return run_costs.reference(flop, teraflops, 1.0, gpus, watts, euros_per_gpu_hour)


@run_costs.mistake(
    "utilisation on the wrong side",
    "You multiply the time by the utilisation. A GPU that reaches less of its peak takes longer, not shorter.",
)
def _(
    flop: float, teraflops: float, utilisation: float, gpus: int, watts: float, euros_per_gpu_hour: float
) -> tuple[float, float, float]:
    return run_costs.reference(flop, teraflops, 1 / utilisation, gpus, watts, euros_per_gpu_hour)


@run_costs.mistake(
    "the denominator without parentheses",
    "In Python, a / b * c is (a / b) * c, so only the first factor of your denominator divides. Put parentheses "
    "around the product.",
)
def _(
    flop: float, teraflops: float, utilisation: float, gpus: int, watts: float, euros_per_gpu_hour: float
) -> tuple[float, float, float]:
    hours = flop / teraflops * 1e12 * utilisation * gpus / 3600
    return hours, hours * gpus * watts * OVERHEAD / 1000, hours * gpus * euros_per_gpu_hour


@run_costs.mistake(
    "the time of a single GPU",
    "Energy and price are right, but the GPUs share the work, so the run takes less time.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return hours * arguments[3], kwh, euros


@run_costs.mistake(
    "energy and price of a single GPU",
    "The hours are right, but you use the power and the price of one GPU. All of them run for this time.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return hours, kwh / arguments[3], euros / arguments[3]


@run_costs.mistake("energy of a single GPU", "Your energy is that of one GPU. All of them run for this time.")
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return hours, kwh / arguments[3], euros


@run_costs.mistake("price of a single GPU", "Your price is that of one GPU. You rent all of them for this time.")
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return hours, kwh, euros / arguments[3]


@run_costs.mistake("watt-hours", "Your energy is in watt-hours. A kilowatt-hour has 1,000 of them.")
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return hours, 1000 * kwh, euros


@run_costs.mistake(
    "energy from seconds",
    "Hours and rent are right, but you multiply the power by seconds. Kilowatt-hours are kilowatts times hours.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return hours, 3600 * kwh, euros


@run_costs.mistake(
    "the overhead in the rent",
    "You multiply the rent by OVERHEAD as well. It belongs to the energy only: you pay for the GPUs' time.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return hours, kwh, OVERHEAD * euros


@run_costs.mistake(
    "without the overhead",
    "You count the power of the GPUs only. Multiply it by OVERHEAD, for the rest of the machine and its cooling.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return hours, kwh / OVERHEAD, euros


@run_costs.mistake(
    "electricity added to the rent",
    "Hours and energy are right, but you add the price of the electricity. It is included in the rent.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return hours, kwh, euros + 0.3 * kwh


@run_costs.mistake(
    "the price of an hour",
    "Your price doesn't depend on the time. Multiply it by the hours of the run.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, _ = run_costs.reference(*arguments)
    return hours, kwh, arguments[3] * arguments[5]


@run_costs.mistake(
    "the work of one GPU for the time, of all for the rest",
    "All three results are too large by the number of GPUs. They share the work, so the denominator of the time "
    "contains their number, too.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return hours * arguments[3], kwh * arguments[3], euros * arguments[3]


@run_costs.mistake(
    "only the first result in seconds",
    "Your time is in seconds, but energy and rent are right. Return the hours.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return 3600 * hours, kwh, euros


@run_costs.mistake(
    "multiplied by 3,600",
    "You multiply the seconds by 3,600. An hour has that many, so there are fewer hours than seconds: divide.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return 3600**2 * hours, 3600**2 * kwh, 3600**2 * euros


@run_costs.mistake(
    "days instead of hours",
    "Your times are in days. Return hours: a day has 24 of them.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return hours / 24, kwh / 24, euros / 24


@run_costs.mistake(
    "petaflops",
    "All your results are 1,000 times too small: peta stands for 10^15, tera for 10^12.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return hours / 1000, kwh / 1000, euros / 1000


@run_costs.mistake(
    "joules instead of kilowatt-hours",
    "Your energy is in joules: watts times seconds. A kilowatt-hour is 1,000 watts times 3,600 seconds.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return hours, 3.6e6 * kwh, euros


@run_costs.mistake(
    "divided by the overhead",
    "You divide the energy by OVERHEAD. The rest of the machine needs power in addition, so the energy gets larger.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return hours, kwh / OVERHEAD**2, euros


@run_costs.mistake(
    "the overhead added to the watts",
    "You add OVERHEAD to the power of a GPU. It is a factor: the whole machine needs 1.5 times the power of its GPUs.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return hours, kwh * (arguments[4] + OVERHEAD) / (arguments[4] * OVERHEAD), euros


@run_costs.mistake(
    "the overhead in the time",
    "You multiply the time by OVERHEAD. The machine around the GPUs needs power, but it doesn't slow them down.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return OVERHEAD * hours, kwh, OVERHEAD * euros


@run_costs.mistake(
    "the overhead in all three",
    "You multiply the time by OVERHEAD, so that all three results contain it. It belongs to the energy only.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return OVERHEAD * hours, OVERHEAD * kwh, OVERHEAD * euros


@run_costs.mistake(
    "the energy multiplied by the price",
    "Time and energy are right, but you multiply the energy by the price. The price is for an hour of a GPU, so it is "
    "multiplied by GPU-hours.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, _ = run_costs.reference(*arguments)
    return hours, kwh, kwh * arguments[5]


@run_costs.mistake(
    "less energy at a low utilisation",
    "You multiply the energy by the utilisation. The time is longer because of it, but a GPU that you rent needs its "
    "power in every hour.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    return hours, kwh * arguments[2], euros


@run_costs.mistake(
    "hours rounded up",
    "You round the hours up. Nothing is rounded here: return the exact numbers.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    whole = math.ceil(hours)
    return whole, kwh * whole / hours, euros * whole / hours


@run_costs.mistake(
    "only the peak in the denominator",
    "You divide by the peak, and then you multiply by utilisation and GPUs. Put parentheses around the whole "
    "denominator.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    factor = (arguments[2] * arguments[3]) ** 2
    return hours * factor, kwh * factor, euros * factor


@run_costs.mistake(
    "the GPUs on the wrong side",
    "You multiply the time by the number of GPUs. Put it inside the parentheses of the denominator: more GPUs take "
    "less time.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    factor = arguments[3] ** 2
    return hours * factor, kwh * factor, euros * factor


@run_costs.mistake(
    "powers of 2 for tera",
    "You take tera for 2^40. In data sheets of GPUs it is 10^12.",
)
def _(*arguments: Any) -> tuple[float, float, float]:
    hours, kwh, euros = run_costs.reference(*arguments)
    factor = 1e12 / 2**40
    return hours * factor, kwh * factor, euros * factor


# 3 --------------------------------------------------------------------------------------------------------------------

NEWS = [("It is raining.", "Es regnet."), ("Yes, we can", "Ja, wir können das")]


@topic.exercise(
    {"pairs": [("It is raining.", "Es regnet."), ("It is late.", "Es ist spät.")], "test_pairs": NEWS},
    {
        "pairs": [("It rains.", "Es regnet."), ("It is raining.", "Regen fällt."), ("It snows.", "Es schneit.")],
        "test_pairs": NEWS,
    },
    {
        "pairs": [
            ("It is RAINING.", "So ist es."),
            ("It is  raining.", "So ist das."),
            ("So it is. ", "Es regnet. "),
            ("Is it raining.", "Es ist so."),
        ],
        "test_pairs": NEWS,
    },
    {
        "pairs": [("Yes, we", "Ja."), ("Oh yes, we can", "Oh ja, wir können"), ("It is raining", "Es  regnet nicht.")],
        "test_pairs": NEWS,
    },
    {
        "pairs": [("Es regnet.", "German for: it rains"), ("Late", "Spät"), ("Late", "Spät")],
        "test_pairs": [*NEWS, ("Now", "Late")],
    },
    {
        "pairs": [("It   is raining.", "Es schüttet."), ("It is\training.", "Es gießt."), ("I know", "So\nviel")],
        "test_pairs": [*NEWS, ("As much", "So viel")],
    },
    {
        "pairs": [("SO FAR", "Bisher"), ("yes, we can", "Ja, das geht")],
        "test_pairs": [("so far", "bis jetzt"), ("Yes, we can", "ja, wir können das")],
    },
    {"pairs": [("Yes, we can not", "Nein."), ("Yes, wecan", "Ja, wirkönnen das")], "test_pairs": NEWS},
    # So many that the order of a set, which is another one in each run, isn't this one.
    {"pairs": [(f"Page {number}", f"Seite {number}") for number in range(10)], "test_pairs": NEWS},
)
def without_test_sentences(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    """Neither side may be in the test set."""
    return _kept(pairs, test_pairs)


def _normal(text: str) -> str:
    return " ".join(text.lower().split())


def _kept(
    pairs: Pairs,
    test_pairs: Pairs,
    normal: Callable[[str], Any] = _normal,
    overlaps: Callable[[bool, bool], bool] = lambda source, target: source or target,
    normal_in_test: Callable[[str], Any] | None = None,
) -> Pairs:
    """The pairs that don't overlap, given whether their source and their target are in the test set."""
    of_test = normal_in_test or normal
    sources, targets = [[of_test(pair[side]) for pair in test_pairs] for side in (0, 1)]
    return [(s, t) for s, t in pairs if not overlaps(normal(s) in sources, normal(t) in targets)]


@without_test_sentences.mistake(
    "only whole pairs compared",
    "You drop a pair only if both of its sides are together in the test set. One side is enough: the same sentence "
    "may have another translation there.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    tested = [(_normal(source), _normal(target)) for source, target in test_pairs]
    return [(s, t) for s, t in pairs if (_normal(s), _normal(t)) not in tested]


@without_test_sentences.mistake(
    "only the sources compared",
    "You don't compare the targets. A model that has been trained to generate a sentence of the test set finds it too "
    "easily, whatever the source was.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return _kept(pairs, test_pairs, overlaps=lambda source, target: source)


@without_test_sentences.mistake(
    "only the targets compared", "You don't compare the sources. If one of them is in the test set, its pair should go."
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return _kept(pairs, test_pairs, overlaps=lambda source, target: target)


@without_test_sentences.mistake(
    "compared exactly",
    "You compare the strings as they are. A sentence of the test set that has other capital letters or other "
    "whitespace is still the same sentence.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return _kept(pairs, test_pairs, normal=lambda text: text)


@without_test_sentences.mistake(
    "upper and lower case distinguished",
    "You treat `RAINING` and `raining` as different words. Upper and lower case shouldn't matter.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return _kept(pairs, test_pairs, normal=str.split)


@without_test_sentences.mistake(
    "whitespace between words distinguished",
    "Two spaces instead of one hide a test sentence from your code. Compare the words, whatever is between them.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return _kept(pairs, test_pairs, normal=lambda text: text.lower().strip())


@without_test_sentences.mistake(
    "whitespace distinguished",
    "A space at the end, or two instead of one, hide a test sentence from your code. Compare the words, whatever is "
    "between them.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return _kept(pairs, test_pairs, normal=str.lower)


@without_test_sentences.mistake(
    "only two spaces count as one",
    "You replace two spaces by one. Three spaces are then two, and a tab is whitespace as well. Compare the words, "
    "whatever is between them.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return _kept(pairs, test_pairs, normal=lambda text: text.lower().strip().replace("  ", " "))


@without_test_sentences.mistake(
    "tabs and line breaks distinguished",
    "You handle spaces, but a tab or a line break is whitespace as well. Compare the words, whatever is between them.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return _kept(pairs, test_pairs, normal=lambda text: re.sub(" +", " ", text.lower().strip(" ")))


@without_test_sentences.mistake(
    "the test sentences as they are",
    "You convert only the training sentences into the form for comparing. Do the same with those of the test set.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return _kept(pairs, test_pairs, normal_in_test=str)


@without_test_sentences.mistake(
    "the training sentences as they are",
    "You convert only the test sentences into the form for comparing. Do the same with those of the training data, "
    "but return them unchanged.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return _kept(pairs, test_pairs, normal=str, normal_in_test=_normal)


@without_test_sentences.mistake(
    "compared without word order",
    "You compare the words of two sentences as sets, so `Is it raining.` is taken for `It is raining.` Their order "
    "matters.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return _kept(pairs, test_pairs, normal=lambda text: set(text.lower().split()))


@without_test_sentences.mistake(
    "punctuation ignored",
    "You compare the sentences without their punctuation. Here it belongs to the words: `raining` and `raining.` are "
    "different ones.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return _kept(pairs, test_pairs, normal=lambda text: re.findall(r"\w+", text.lower()))


@without_test_sentences.mistake(
    "sentences that contain a test sentence",
    "You also drop longer sentences, such as `Oh yes, we can` because of `Yes, we can`. Only a whole sentence counts.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    sources, targets = [[_normal(pair[side]) for pair in test_pairs] for side in (0, 1)]
    return [
        (s, t)
        for s, t in pairs
        if not any(a in _normal(s) or b in _normal(t) for a, b in zip(sources, targets, strict=True))
    ]


@without_test_sentences.mistake(
    "parts of sentences compared",
    "You drop a pair if its source or target is a part of a test sentence, such as `Yes, we` of `Yes, we can`. Only "
    "whole sentences count: `in` looks for a part if the right side is a string.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    sources, targets = ("\n".join(_normal(pair[side]) for pair in test_pairs) for side in (0, 1))
    return [(s, t) for s, t in pairs if _normal(s) not in sources and _normal(t) not in targets]


@without_test_sentences.mistake(
    "the two sides mixed",
    "You look for each sentence on both sides of the test set. A source that happens to be a *target* there gives "
    "nothing away: compare sources with sources, and targets with targets.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    tested = [_normal(side) for pair in test_pairs for side in pair]
    return [(s, t) for s, t in pairs if _normal(s) not in tested and _normal(t) not in tested]


@without_test_sentences.mistake(
    "the sentences are changed",
    "You drop the right pairs, but you return the others in the form in which you compared them. Return each pair "
    "exactly as it was.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return [(_normal(s), _normal(t)) for s, t in _kept(pairs, test_pairs)]


@without_test_sentences.mistake("the dropped pairs", "You return the pairs that should be dropped. Return the others.")
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return _kept(pairs, test_pairs, overlaps=lambda source, target: not (source or target))


@without_test_sentences.mistake(
    "removed during the loop",
    "You remove pairs from the list that your loop goes through. The next pair then moves to the free place, and the "
    "loop skips it. Make a new list of the pairs to keep.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    for pair in pairs:
        if not _kept([pair], test_pairs):
            pairs.remove(pair)
    return pairs


@without_test_sentences.mistake(
    "duplicates dropped",
    "You keep each pair only once. Another filter, which runs earlier, deals with duplicates; leave the rest of the "
    "training data as it is.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return list(dict.fromkeys(_kept(pairs, test_pairs)))


@without_test_sentences.mistake(
    "the pairs in a set",
    "You collect the pairs to keep in a set. It has no order, and contains each pair only once. Use a list for them.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return list(set(_kept(pairs, test_pairs)))


@without_test_sentences.mistake(
    "whitespace removed altogether",
    "You remove all whitespace, so `a way` equals `away`. Whitespace of any length is the same, but it isn't the "
    "same as none.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return _kept(pairs, test_pairs, lambda text: "".join(text.lower().split()))


@without_test_sentences.mistake(
    "sources compared with targets",
    "You look for the sources among the targets of the test set, and the other way round. Compare sources with "
    "sources, and targets with targets.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return _kept(pairs, [(target, source) for source, target in test_pairs])


@without_test_sentences.mistake(
    "a pair for each test pair that differs",
    "You add a pair each time that a test pair differs from it, so it appears as often as there are such test pairs. "
    "A pair may stay only if it differs from all of them: decide after the inner loop.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return [pair for pair in pairs for other in test_pairs if _kept([pair], [other])]


@without_test_sentences.mistake(
    "only the first test pair",
    "You compare with the first test pair only. Does your inner loop end with `break` or `return` in its first step?",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return _kept(pairs, test_pairs[:1]) if test_pairs else []


@without_test_sentences.mistake(
    "all pairs dropped",
    "You drop all pairs, as if all sentences were the same. Does your helper function return its result?",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return [] if test_pairs else list(pairs)


@without_test_sentences.mistake(
    "sentences that begin like a test sentence",
    "You also drop sentences that only begin like a test sentence. Compare whole sentences.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    def begins(text: str, side: int) -> bool:
        return any(_normal(text).startswith(_normal(pair[side])) for pair in test_pairs)

    return [(s, t) for s, t in pairs if not begins(s, 0) and not begins(t, 1)]


@without_test_sentences.mistake(
    "the pairs sorted",
    "You drop the right pairs, but you sort the others. Leave them in their order.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return sorted(_kept(pairs, test_pairs))


@without_test_sentences.mistake(
    "the test set without the training data",
    "You remove training sentences from the test set. It's the other way round: the test set stays as it is.",
)
def _(pairs: Pairs, test_pairs: Pairs) -> Pairs:
    return _kept(test_pairs, pairs)


# 4 --------------------------------------------------------------------------------------------------------------------

WRITTEN = {
    1000: {"weights-1000": "a3f0", "state-1000": "77c2"},
    2000: {"weights-2000": "09be", "state-2000": "d41d"},
    3000: {"weights-3000": "5e5e", "state-3000": "8b1a"},
}


def _on_disk(*missing: str, **damaged: str) -> Checksums:
    """All files, but for the missing ones; the checksums of damaged ones are others."""
    files = {name: checksum for needed in WRITTEN.values() for name, checksum in needed.items() if name not in missing}
    return files | {name.replace("_", "-"): checksum for name, checksum in damaged.items()}


@topic.exercise(
    {"checkpoints": WRITTEN, "on_disk": _on_disk("state-3000")},
    {"checkpoints": WRITTEN, "on_disk": _on_disk("weights-2000", weights_3000="ffff")},
    {"checkpoints": WRITTEN, "on_disk": _on_disk("weights-1000", state_3000="c0de")},
    {"checkpoints": dict(list(WRITTEN.items())[::-1]), "on_disk": _on_disk() | {"best": "1234"}},
    {
        "checkpoints": {9: {"a": "11", "b": "22", "c": "33"}, 10: {"d": "44"}, 100: {"e": "55", "f": "66", "g": "77"}},
        "on_disk": {"a": "11", "b": "22", "c": "33", "d": "44", "e": "55", "f": "00", "g": "77"},
    },
    {"checkpoints": WRITTEN, "on_disk": _on_disk("weights-1000", "state-2000", "state-3000", weights_3000="bad0")},
    {"checkpoints": {}, "on_disk": {"weights-1000": "a3f0"}},
    {"checkpoints": {0: {"weights-0": "a3f0"}}, "on_disk": {"weights-0": "a3f0"}},
    {"checkpoints": WRITTEN, "on_disk": _on_disk("weights-3000") | {"best": "5e5e"}},
    {"checkpoints": WRITTEN, "on_disk": _on_disk(weights_3000="8b1a", state_3000="5e5e")},
)
def newest_complete(checkpoints: dict[int, Checksums], on_disk: Checksums) -> int | None:
    """Every file must be there, with its checksum."""
    return max(_complete(checkpoints, on_disk), default=None)


def _complete(checkpoints: dict[int, Checksums], on_disk: Checksums) -> list[int]:
    return [step for step, files in checkpoints.items() if files.items() <= on_disk.items()]


@newest_complete.mistake(
    "the newest, complete or not",
    "You return the newest checkpoint without looking at its files. The process may have been killed while it wrote "
    "them.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> int | None:
    return max(checkpoints, default=None)


@newest_complete.mistake(
    "checksums not compared",
    "You make sure that the files are there, but not that they are undamaged. Compare their checksums, too.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> int | None:
    return max((step for step, files in checkpoints.items() if files.keys() <= on_disk.keys()), default=None)


@newest_complete.mistake(
    "a missing file stops the program",
    "Your code stops with an error at a file that isn't on the disk. That is what it should expect after a crash: "
    "such a checkpoint isn't complete.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> int | None:
    steps = (step for step, files in checkpoints.items() if all(on_disk[name] == files[name] for name in files))
    return max(steps, default=None)


@newest_complete.mistake(
    "no checkpoint stops the program",
    "Your code stops with an error if no checkpoint is complete. Return None then, so that the run can start from "
    "scratch.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> int | None:
    return max(_complete(checkpoints, on_disk))


@newest_complete.mistake(
    "0 instead of None", "0 would mean the checkpoint of step 0. If none is complete, return None."
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> int | None:
    return max(_complete(checkpoints, on_disk), default=0)


@newest_complete.mistake(
    "one good file is enough",
    "A checkpoint counts as complete in your code if any of its files is right. It needs all of them.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> int | None:
    return max((step for step, files in checkpoints.items() if files.items() & on_disk.items()), default=None)


@newest_complete.mistake(
    "nothing else may be on the disk",
    "You compare the files of a checkpoint with all files on the disk. Other files may be on the disk, too.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> int | None:
    return max((step for step, files in checkpoints.items() if files == on_disk), default=None)


@newest_complete.mistake(
    "the last file decides",
    "In your loop over the files of a checkpoint, each file overwrites what you found out about those before it, so "
    "the last one decides. All of them have to be right.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> int | None:
    last = {step: dict(list(files.items())[-1:]) for step, files in checkpoints.items()}
    return max(_complete(last, on_disk), default=None)


@newest_complete.mistake(
    "it stops at the first incomplete one",
    "Your loop ends at the first checkpoint that isn't complete. One of those after it may be: go on.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> int | None:
    complete = _complete(checkpoints, on_disk)
    return max(takewhile(complete.__contains__, checkpoints), default=None)


@newest_complete.mistake(
    "only the first file checked",
    "You look at the first file of each checkpoint only. Without the others, such as the state of Adam, the run can't "
    "go on as if nothing had happened.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> int | None:
    first = {step: dict(list(files.items())[:1]) for step, files in checkpoints.items()}
    return max(_complete(first, on_disk), default=None)


@newest_complete.mistake(
    "only the newest considered",
    "If the newest checkpoint isn't complete, you give up. An earlier one costs some steps, but not the whole run.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> int | None:
    newest = max(checkpoints, default=None)
    return newest if newest in _complete(checkpoints, on_disk) else None


@newest_complete.mistake(
    "the oldest complete one", "You return the oldest complete checkpoint. Resuming there repeats more than necessary."
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> int | None:
    return min(_complete(checkpoints, on_disk), default=None)


@newest_complete.mistake(
    "the last in the dict",
    "You return the last complete checkpoint in the order of the dict. The newest one is that with the largest step, "
    "and it may be anywhere.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> int | None:
    return next(iter(_complete(checkpoints, on_disk)[::-1]), None)


@newest_complete.mistake(
    "sorted as text",
    "You sort the steps as strings, and as a string 9 comes after 10. Compare them as numbers.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> int | None:
    return max(_complete(checkpoints, on_disk), key=str, default=None)


@newest_complete.mistake("all complete ones", "You return all complete checkpoints. Return the newest one only.")
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> list[int]:
    return sorted(_complete(checkpoints, on_disk))


@newest_complete.mistake(
    "step 0 taken for none",
    "A checkpoint of step 0 is a checkpoint. In Python 0 is as good as False: compare with None.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> int | None:
    return newest_complete.reference(checkpoints, on_disk) or None


@newest_complete.mistake(
    "a checksum of any file",
    "You only ask whether a checksum is on the disk. It has to be that of the file with this name.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> int | None:
    there = [*on_disk.values()]
    return max((step for step, files in checkpoints.items() if all(c in there for c in files.values())), default=None)


@newest_complete.mistake(
    "-1 instead of None",
    "Your result is -1 if no checkpoint is complete. Return None then.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> Any:
    return max(_complete(checkpoints, on_disk), default=-1)


@newest_complete.mistake(
    "minus infinity instead of None",
    "Your result is minus infinity if no checkpoint is complete. Return None then.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> Any:
    return max(_complete(checkpoints, on_disk), default=-math.inf)


@newest_complete.mistake(
    "False instead of None",
    "Your result is False if no checkpoint is complete. Return None then: in Python, False equals 0, and 0 is a step.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> Any:
    return max(_complete(checkpoints, on_disk), default=False)


@newest_complete.mistake(
    "a string instead of None",
    "Your result is a string if no checkpoint is complete. Return None, without quotation marks.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> Any:
    return max(_complete(checkpoints, on_disk), default="None")


@newest_complete.mistake(
    "a missing file counts as right",
    "A file that isn't on the disk counts as right in your code. A checkpoint needs all of its files.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> Any:
    def is_right(name: str, checksum: str) -> bool:
        return on_disk.get(name, checksum) == checksum

    steps = [step for step, files in checkpoints.items() if all(is_right(*file) for file in files.items())]
    return max(steps, default=None)


@newest_complete.mistake(
    "two right files are enough",
    "A checkpoint counts as complete in your code if two of its files are right. It may have more, or fewer: compare "
    "all that its record contains.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> Any:
    steps = [step for step, files in checkpoints.items() if len(files.items() & on_disk.items()) >= 2]
    return max(steps, default=None)


@newest_complete.mistake(
    "names and checksums compared separately",
    "You ask whether all names are on the disk, and whether all checksums are. Each checksum has to be that of the "
    "file with its name.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> Any:
    there = {*on_disk.values()}
    steps = [
        step for step, files in checkpoints.items() if files.keys() <= on_disk.keys() and {*files.values()} <= there
    ]
    return max(steps, default=None)


@newest_complete.mistake(
    "the first in the dict",
    "You return the first complete checkpoint in the order of the dict. The newest one is that with the largest step, "
    "and it may be anywhere.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> Any:
    return next(iter(_complete(checkpoints, on_disk)), None)


@newest_complete.mistake(
    "its files instead of its step",
    "You return the files of the checkpoint. Return its step.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> Any:
    return checkpoints.get(newest_complete.reference(checkpoints, on_disk))


@newest_complete.mistake(
    "the step as a string",
    "Your step is a string. Return the number.",
)
def _(checkpoints: dict[int, Checksums], on_disk: Checksums) -> Any:
    return max(map(str, _complete(checkpoints, on_disk)), default=None)


# 5 --------------------------------------------------------------------------------------------------------------------


def _plan(parts: int) -> Plan:
    """Parts of different sizes, with different numbers."""
    return [[3 * part, 3 * part + 1, 3 * part + 2][: 1 + part % 3] for part in range(parts)]


@topic.exercise(
    {"plan": _plan(4), "step": 1, "rank": 1, "world_size": 2, "accumulation": 1},
    {"plan": _plan(6), "step": 1, "rank": 0, "world_size": 1, "accumulation": 2},
    {"plan": _plan(16), "step": 1, "rank": 1, "world_size": 2, "accumulation": 2},
    {"plan": _plan(24), "step": 2, "rank": 3, "world_size": 4, "accumulation": 2},
    {"plan": _plan(12), "step": 0, "rank": 2, "world_size": 3, "accumulation": 2},
    {"plan": _plan(12), "step": 4, "rank": 2, "world_size": 3, "accumulation": 1},
)
def parts_left(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    """Every world_size-th part, less those of the steps that are done."""
    return plan[rank::world_size][step * accumulation :]


@parts_left.mistake(
    "from the beginning of the epoch",
    "You return all parts of this rank. Those of the first `step` steps are done: the model would see them twice in "
    "this epoch.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    return plan[rank::world_size]


@parts_left.mistake(
    "the parts of all ranks",
    "You return the parts of all ranks. Then each GPU does the work of all, and every sentence is used several times.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    return plan[step * world_size * accumulation :]


@parts_left.mistake(
    "gradient accumulation not counted",
    "You skip one part of this rank for each step. With gradient accumulation, it has used more than one in each.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    return plan[rank::world_size][step:]


@parts_left.mistake(
    "divided by the accumulation",
    "You divide the steps by `accumulation`. In a step, a rank uses that many parts, not one part in that many steps.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    return plan[rank::world_size][step // accumulation :]


@parts_left.mistake(
    "too many skipped",
    "You skip the parts that all ranks have used, but in the list of one rank. It has only its own share of them.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    return plan[rank::world_size][step * world_size * accumulation :]


@parts_left.mistake(
    "one part skipped for each step",
    "You skip one part of the plan for each step. In a step, every rank uses `accumulation` parts of its own.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    return plan[step:][rank::world_size]


@parts_left.mistake(
    "the other ranks' parts not skipped",
    "You skip only as many parts as one rank has used, but in the plan of all ranks. In each step, every rank uses "
    "some.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    return plan[step * accumulation :][rank::world_size]


@parts_left.mistake(
    "the plan cut into blocks",
    "You give each rank a block of consecutive parts. That uses every pair once, too, but then a step on four GPUs "
    "has other sentences than on one. Each rank takes every world_size-th part.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    share = len(plan) // world_size
    return plan[rank * share : (rank + 1) * share][step * accumulation :]


@parts_left.mistake(
    "ranks counted from 1", "You take the parts of the rank before. Ranks are counted from 0, and so are lists."
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    return plan[(rank - 1) % world_size :: world_size][step * accumulation :]


@parts_left.mistake(
    "a step repeated", "You begin one step too early. `step` steps are done, so step number `step` (from 0) is next."
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    return plan[rank::world_size][(step - 1) * accumulation :]


@parts_left.mistake(
    "a step skipped",
    "You begin one step too late, and nothing ever reports the sentences that were left out. `step` steps are done.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    return plan[rank::world_size][(step + 1) * accumulation :]


@parts_left.mistake("only the next step", "You return the parts of one step. Return all that are left in this epoch.")
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    return plan[rank::world_size][step * accumulation : (step + 1) * accumulation]


@parts_left.mistake("the parts that are done", "You return the parts that are done. Return those that are left.")
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    return plan[rank::world_size][: step * accumulation]


@parts_left.mistake(
    "neighbouring parts for each rank",
    "You give each rank `accumulation` neighbouring parts. The parts are dealt one by one, like cards.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    parts: Plan = []
    for start in range(step * world_size * accumulation, len(plan), world_size * accumulation):
        parts += plan[start + rank * accumulation :][:accumulation]
    return parts


@parts_left.mistake(
    "one part in each step",
    "You take a single part in each step. A rank processes `accumulation` parts in a step, and all of them are its "
    "own.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    return plan[rank :: world_size * accumulation][step:]


@parts_left.mistake(
    "added instead of multiplied",
    "You skip `step` + `accumulation` parts. In each of the steps, the rank has used `accumulation` parts: multiply.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    return plan[rank::world_size][step + accumulation :]


@parts_left.mistake(
    "one part too many skipped",
    "You skip one part too many. After as many parts as the rank has used, the next one is at exactly this index, "
    "because lists are counted from 0.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    return plan[rank::world_size][step * accumulation + 1 :]


@parts_left.mistake(
    "the parts of the next rank",
    "You take the parts of the rank after this one. Rank 0 begins with the part 0.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    return plan[rank + 1 :: world_size][step * accumulation :]


@parts_left.mistake(
    "the parts of the rank before, counted from the end",
    "You take the parts of the rank before, and for rank 0 you begin at the end of the plan. Ranks are counted from "
    "0, and so are lists.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    return plan[rank - 1 :: world_size][step * accumulation :]


@parts_left.mistake(
    "a part is missing at the end",
    "The last part is missing. A slice without an end goes on to the end of the list.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    return plan[rank::world_size][step * accumulation : -1]


@parts_left.mistake(
    "the sentences without their parts",
    "You return the indices of the sentences in a single list. Return the parts as they are: each is a list of its "
    "own.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Any:
    return [i for part in parts_left.reference(plan, step, rank, world_size, accumulation) for i in part]


@parts_left.mistake(
    "the numbers of the parts",
    "You return the numbers of the parts. Return the parts themselves.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Any:
    return [*range(len(plan))][rank::world_size][step * accumulation :]


@parts_left.mistake(
    "the parts of a step joined",
    "You join the parts of each step into a single one. They don't fit into memory together, which is why the "
    "gradient is accumulated: return each part by itself.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    left = parts_left.reference(plan, step, rank, world_size, accumulation)
    return [[*chain(*left[i : i + accumulation])] for i in range(0, len(left), accumulation)]


@parts_left.mistake(
    "the parts of each step in a list",
    "You put the parts of each step into a list of their own. Return a single list of parts.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Any:
    left = parts_left.reference(plan, step, rank, world_size, accumulation)
    return [left[i : i + accumulation] for i in range(0, len(left), accumulation)]


@parts_left.mistake(
    "skipped from the end",
    "You remove the parts that are done from the end of the list. They were the first ones.",
)
def _(plan: Plan, step: int, rank: int, world_size: int, accumulation: int) -> Plan:
    own = plan[rank::world_size]
    return own[: len(own) - step * accumulation]


# 6 --------------------------------------------------------------------------------------------------------------------

DEFAULT = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"

Settings = dict[str, tuple[str | None, str | None]]


@topic.exercise(
    {"signature": DEFAULT, "other": "nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:2.6.0"},
    {"signature": DEFAULT, "other": "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.4.0"},
    {"signature": "nrefs:1|case:mixed|eff:no|tok:intl|smooth:exp|version:2.0.0", "other": DEFAULT},
    {"signature": "tok:13a|smooth:exp|eff:no|case:mixed|nrefs:1|version:2.6.0", "other": DEFAULT},
    {"signature": "nrefs:2|case:mixed|eff:no|tok:spBLEU-1K|smooth:floor[0.10]|version:2.4.0", "other": DEFAULT},
    {"signature": DEFAULT, "other": "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0"},
    {"signature": "nrefs:var|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:2.6.0", "other": DEFAULT},
    {"signature": "version:2.6.0|" + DEFAULT.removesuffix("|version:2.6.0"), "other": DEFAULT.replace("exp", "none")},
    keep=("signature", "other"),
)
def different_settings(signature: str, other: str) -> Settings:
    """Name → both values, wherever they differ."""
    return _differing(_fields(signature), _fields(other))


def _fields(signature: str) -> dict[str, str]:
    return dict(field.split(":") for field in signature.split("|"))


def _differing(
    first: dict[str, str], second: dict[str, str], ignored: tuple[str, ...] = ("version",), equal: bool = False
) -> Settings:
    names = [name for name in first | second if name not in ignored]
    pairs = {name: (first.get(name), second.get(name)) for name in names}
    return {name: (a, b) for name, (a, b) in pairs.items() if (a == b) == equal}


@different_settings.mistake(
    "the version counted",
    "You report the version of sacreBLEU, which isn't a setting. It is in the signature so that a difference can be "
    "explained later, if there ever is one.",
)
def _(signature: str, other: str) -> Settings:
    return _differing(_fields(signature), _fields(other), ignored=())


@different_settings.mistake(
    "only settings of the first signature",
    "You go through the settings of the first signature. The other one may have settings that the first one lacks.",
)
def _(signature: str, other: str) -> Settings:
    first = _fields(signature)
    return {name: values for name, values in _differing(first, _fields(other)).items() if name in first}


@different_settings.mistake(
    "only settings of the second signature",
    "You go through the settings of the second signature. The first one may have settings that the second one lacks.",
)
def _(signature: str, other: str) -> Settings:
    second = _fields(other)
    return {name: values for name, values in _differing(_fields(signature), second).items() if name in second}


@different_settings.mistake(
    "only settings that both have",
    "You compare only the settings that both signatures have. If one of them lacks a setting, such as the tokenizer, "
    "the two scores aren't even of the same metric: report None for its value.",
)
def _(signature: str, other: str) -> Settings:
    found = _differing(_fields(signature), _fields(other))
    return {name: values for name, values in found.items() if None not in values}


@different_settings.mistake(
    "compared by position",
    "You compare the first field with the first, the second with the second, and so on. The same settings may come in "
    "another order: compare them by name.",
)
def _(signature: str, other: str) -> Settings:
    rows = zip(_fields(signature).items(), _fields(other).items(), strict=False)
    return {name: (a, b) for (name, a), (_, b) in rows if a != b and name != "version"}


@different_settings.mistake(
    "a missing setting stops the program",
    "Your code stops with an error if the second signature lacks a setting that the first one has. Its value is None.",
)
def _(signature: str, other: str) -> Settings:
    first, second = _fields(signature), _fields(other)
    return {name: (first[name], second[name]) for name in first if first[name] != second[name] and name != "version"}


@different_settings.mistake(
    "an empty string for what is missing", "If a signature lacks a setting, its value is None, not an empty string."
)
def _(signature: str, other: str) -> Any:
    found = _differing(_fields(signature), _fields(other))
    return {name: (a or "", b or "") for name, (a, b) in found.items()}


@different_settings.mistake(
    "the equal settings", "You return the settings that are the same. Return those that differ."
)
def _(signature: str, other: str) -> Settings:
    return _differing(_fields(signature), _fields(other), equal=True)


@different_settings.mistake(
    "the values swapped", "In each pair, the value of the second signature comes first. It's the other way round."
)
def _(signature: str, other: str) -> Settings:
    return _differing(_fields(other), _fields(signature))


@different_settings.mistake(
    "names without values",
    "You return the names of the settings. Add the two values, so that we can see what differs.",
)
def _(signature: str, other: str) -> list[str]:
    return list(_differing(_fields(signature), _fields(other)))


@different_settings.mistake(
    "yes or no",
    "You return whether the scores can be compared. Return what is different: if they can be, that's an empty dict.",
)
def _(signature: str, other: str) -> bool:
    return not _differing(_fields(signature), _fields(other))


@different_settings.mistake(
    "in lower case", "You change the values to lower case. Leave them as they are in the signature."
)
def _(signature: str, other: str) -> Settings:
    return _differing(_fields(signature.lower()), _fields(other.lower()))


@different_settings.mistake(
    "the last field left out",
    "You leave out the last field. The version may be anywhere: look for its name.",
)
def _(signature: str, other: str) -> Settings:
    first, second = (_fields(text.rpartition("|")[0]) for text in (signature, other))
    return _differing(first, second, ignored=())


@different_settings.mistake(
    "compared field by field",
    "You compare the first field with the first, the second with the second. They may be in another order: look "
    "the name up.",
)
def _(signature: str, other: str) -> Settings:
    result: Settings = {}
    for mine, theirs in zip(signature.split("|"), other.split("|"), strict=False):
        (name, a), (its_name, b) = mine.split(":"), theirs.split(":")
        if name != "version" and mine != theirs:
            result[name] = (a, b if name == its_name else None)
    return result


@different_settings.mistake(
    "all settings",
    "You return all settings. Return only those whose two values differ.",
)
def _(signature: str, other: str) -> Any:
    first, second = _fields(signature), _fields(other)
    return {name: (first.get(name), second.get(name)) for name in first | second if name != "version"}


@different_settings.mistake(
    "only the value of the second signature",
    "For each setting, you return a single value. Return a pair: that of the first signature, and that of the second.",
)
def _(signature: str, other: str) -> Any:
    first, second = _fields(signature), _fields(other)
    return {name: b for name, (_, b) in _differing(first, second).items()}


@different_settings.mistake(
    "the two values in a set",
    "You put the two values into a set, which has no order. Use a tuple or a list: the value of the first signature "
    "comes first.",
)
def _(signature: str, other: str) -> Any:
    first, second = _fields(signature), _fields(other)
    return {name: {*values} for name, values in _differing(first, second).items()}


@different_settings.mistake(
    "the string None",
    "If a signature lacks a setting, its value is None itself, without quotation marks.",
)
def _(signature: str, other: str) -> Any:
    first, second = _fields(signature), _fields(other)
    return {name: (str(a), str(b)) for name, (a, b) in _differing(first, second).items()}


@different_settings.mistake(
    "only the first difference",
    "You return only one of the settings that differ. Is your `return` inside the loop?",
)
def _(signature: str, other: str) -> Any:
    first, second = _fields(signature), _fields(other)
    return dict([*_differing(first, second).items()][:1])


@different_settings.mistake(
    "numbers instead of strings",
    "You turn some values into numbers. Leave them as they are in the signature.",
)
def _(signature: str, other: str) -> Any:
    first, second = _fields(signature), _fields(other)

    def value(text: str | None) -> Any:
        return int(text) if text is not None and text.isdigit() else text

    return {name: (value(a), value(b)) for name, (a, b) in _differing(first, second).items()}
