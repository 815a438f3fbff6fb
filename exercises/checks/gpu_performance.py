"""Checks of 16 making it fast on a GPU."""

import math
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from exercises.calls import Inputs
from exercises.check import RefusedError, Topic
from exercises.restrictions import BUILT_IN, forbid
from exercises.tensors import numbers
from transformer.attention import attention

topic = Topic()
check, given = topic.check, topic.given


# 1 --------------------------------------------------------------------------------------------------------------------

Limits = tuple[float, float, bool]
"""Intensity, seconds, and whether the product is compute-bound."""


@topic.exercise(
    {"n_tokens": 100, "n_in": 100, "n_out": 100, "flop_rate": 100.0, "byte_rate": 10.0},
    {"n_tokens": 1, "n_in": 20, "n_out": 30, "flop_rate": 100.0, "byte_rate": 10.0},
    {"n_tokens": 40, "n_in": 8, "n_out": 10, "flop_rate": 300.0, "byte_rate": 100.0},
    {"n_tokens": 16_384, "n_in": 512, "n_out": 1536, "flop_rate": 989e12, "byte_rate": 3350e9},
    {"n_tokens": 16_384, "n_in": 512, "n_out": 512, "flop_rate": 989e12, "byte_rate": 3350e9},
    {"n_tokens": 64, "n_in": 512, "n_out": 2048, "flop_rate": 312e12, "byte_rate": 2039e9},
    {"n_tokens": 1, "n_in": 1, "n_out": 1, "flop_rate": 100.0, "byte_rate": 10.0},
    results=("intensity", "seconds", "compute_bound"),
)
def roofline(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    """Three matrices of 16-bit numbers."""
    n_bytes = 2 * (n_tokens * n_in + n_in * n_out + n_tokens * n_out)
    return _limits(2 * n_tokens * n_in * n_out, n_bytes, flop_rate, byte_rate)


def _limits(flop: float, n_bytes: float, flop_rate: float, byte_rate: float) -> Limits:
    arithmetic, traffic = flop / flop_rate, n_bytes / byte_rate
    return flop / n_bytes, max(arithmetic, traffic), arithmetic > traffic


@roofline.mistake(
    "only the multiplications",
    "You count each multiplication but not the addition that follows it. Peaks in data sheets count both.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 2 * (n_tokens * n_in + n_in * n_out + n_tokens * n_out)
    return _limits(n_tokens * n_in * n_out, n_bytes, flop_rate, byte_rate)


@roofline.mistake("32-bit numbers", "You move 4 bytes for each number. With 16 bits it is 2.")
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 4 * (n_tokens * n_in + n_in * n_out + n_tokens * n_out)
    return _limits(2 * n_tokens * n_in * n_out, n_bytes, flop_rate, byte_rate)


@roofline.mistake(
    "numbers instead of bytes", "You count the numbers that are moved. Each of them has 16 bits, which are 2 bytes."
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = n_tokens * n_in + n_in * n_out + n_tokens * n_out
    return _limits(2 * n_tokens * n_in * n_out, n_bytes, flop_rate, byte_rate)


@roofline.mistake(
    "bits instead of bytes", "You count the bits that are moved. The bandwidth is in bytes: 16 bits are 2 bytes."
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bits = 16 * (n_tokens * n_in + n_in * n_out + n_tokens * n_out)
    return _limits(2 * n_tokens * n_in * n_out, n_bits, flop_rate, byte_rate)


@roofline.mistake(
    "two bytes for the first matrix only",
    "The 2 bytes apply to all three matrices. In Python, 2 * a + b + c doubles only a: put parentheses around the sum.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 2 * n_tokens * n_in + n_in * n_out + n_tokens * n_out
    return _limits(2 * n_tokens * n_in * n_out, n_bytes, flop_rate, byte_rate)


@roofline.mistake(
    "only the weight is read",
    "You count the bytes of the weight only. The input has to be read, too, and the result has to be written. With "
    "few tokens they are small, but with many they are most of the traffic.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    return _limits(2 * n_tokens * n_in * n_out, 2 * n_in * n_out, flop_rate, byte_rate)


@roofline.mistake(
    "the result isn't written", "You read both matrices, but the result has to be written to memory as well."
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    return _limits(2 * n_tokens * n_in * n_out, 2 * (n_tokens * n_in + n_in * n_out), flop_rate, byte_rate)


@roofline.mistake(
    "the weight isn't read",
    "You count the input and the result, but the weight has to be read from memory, too. With few tokens, it is nearly "
    "all of the traffic.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    return _limits(2 * n_tokens * n_in * n_out, 2 * (n_tokens * n_in + n_tokens * n_out), flop_rate, byte_rate)


@roofline.mistake(
    "the weight read for each token",
    "You read the weight again for each token. It is read once and used for all tokens: that is why large batches pay "
    "off.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 2 * n_tokens * (n_in + n_in * n_out + n_out)
    return _limits(2 * n_tokens * n_in * n_out, n_bytes, flop_rate, byte_rate)


@roofline.mistake(
    "both times added",
    "You add the time for the arithmetic to the time for the memory. Both happen at the same time, so the longer one "
    "decides.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    intensity, _, compute_bound = roofline.reference(n_tokens, n_in, n_out, flop_rate, byte_rate)
    flop = 2 * n_tokens * n_in * n_out
    return intensity, flop / flop_rate + flop / intensity / byte_rate, compute_bound


@roofline.mistake(
    "the shorter time",
    "You take the shorter one of the two times. The product isn't finished before both its arithmetic and its memory "
    "traffic are.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    intensity, _, compute_bound = roofline.reference(n_tokens, n_in, n_out, flop_rate, byte_rate)
    flop = 2 * n_tokens * n_in * n_out
    return intensity, min(flop / flop_rate, flop / intensity / byte_rate), compute_bound


@roofline.mistake("bytes per FLOP", "Your intensity is upside down: it is FLOP per byte.")
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    intensity, seconds, compute_bound = roofline.reference(n_tokens, n_in, n_out, flop_rate, byte_rate)
    return 1 / intensity, seconds, compute_bound


@roofline.mistake(
    "compute-bound and memory-bound swapped",
    "The first two results are right. A product is compute-bound if its arithmetic takes longer than its memory "
    "traffic, or if its intensity is above the chip's.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    intensity, seconds, compute_bound = roofline.reference(n_tokens, n_in, n_out, flop_rate, byte_rate)
    return intensity, seconds, not compute_bound


@roofline.mistake(
    "compute-bound from an intensity of 1 on",
    "The first two results are right. But an intensity above 1 isn't enough: compare it with the chip's own ratio, its "
    "FLOP per second divided by its bytes per second.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    intensity, seconds, _ = roofline.reference(n_tokens, n_in, n_out, flop_rate, byte_rate)
    return intensity, seconds, intensity > 1


@roofline.mistake(
    "one addition fewer",
    "You count n_in − 1 additions for each number of the result. The convention, and the text above, count as "
    "many additions as multiplications.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 2 * (n_tokens * n_in + n_in * n_out + n_tokens * n_out)
    return _limits(n_tokens * n_out * (2 * n_in - 1), n_bytes, flop_rate, byte_rate)


# 2 --------------------------------------------------------------------------------------------------------------------

Running = tuple[Tensor, Tensor]
"""The maximum of each row so far, and the sum of the exponentials relative to it."""


@topic.exercise(
    {
        "maximum": torch.tensor([3.0, 1.0]),
        "total": torch.tensor([1.5, 2.0]),
        "scores": torch.tensor([[2.0, 5.0, 4.0], [0.0, 0.5, -1.0]]),
    },
    {"maximum": torch.full((3,), -math.inf), "total": torch.zeros(3), "scores": numbers(3, 4)},
    {
        "maximum": torch.tensor([90.0, -70.0, 0.0, 100.0]),
        "total": torch.tensor([1.0, 2.5, 1.25, 3.0]),
        "scores": torch.tensor([[91.0, 89.0], [-72.0, -69.5], [-math.inf, 2.0], [-math.inf, -math.inf]]),
    },
    {"maximum": torch.tensor([0.5]), "total": torch.tensor([1.0]), "scores": torch.tensor([[2.0]])},
    results=("maximum", "total"),
    keep=("total",),
    differentiable=False,
)
def update_softmax(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    """The exponentials of all scores relative to the new maximum."""
    new_maximum = _raised(maximum, scores)
    return new_maximum, total * (maximum - new_maximum).exp() + _exponentials(scores, new_maximum)


def _raised(maximum: Tensor, scores: Tensor) -> Tensor:
    return torch.maximum(maximum, scores.amax(dim=-1))


def _exponentials(scores: Tensor, maximum: Tensor) -> Tensor:
    return (scores - maximum[:, None]).exp().sum(dim=-1)


@update_softmax.mistake(
    "the sum so far isn't corrected",
    "You add the new exponentials to a sum that is relative to the old maximum. Correct the old sum first.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, total + _exponentials(scores, new_maximum)


@update_softmax.mistake(
    "corrected the wrong way",
    "Your correction makes the old sum larger if the maximum rises. Relative to a larger maximum, exponentials are "
    "smaller.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, total * (new_maximum - maximum).exp() + _exponentials(scores, new_maximum)


@update_softmax.mistake(
    "new exponentials corrected as well",
    "You correct the sum of the old and the new exponentials. The new ones are relative to the new maximum already: "
    "correct only the old sum.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, (total + _exponentials(scores, new_maximum)) * (maximum - new_maximum).exp()


@update_softmax.mistake(
    "relative to the old maximum",
    "Your exponentials are relative to the old maximum, and overflow if a score is much larger. Find the new maximum "
    "first.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    return _raised(maximum, scores), total + _exponentials(scores, maximum)


@update_softmax.mistake(
    "relative to the block's own maximum",
    "Your new exponentials are relative to the maximum of their block, which is lower than that of the row if the row "
    "had a larger score before.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, total * (maximum - new_maximum).exp() + _exponentials(scores, scores.amax(dim=-1))


@update_softmax.mistake(
    "the maximum of the block only",
    "Your new maximum is that of the block. The row may have had a larger score before: take the larger one.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = scores.amax(dim=-1)
    return new_maximum, total * (maximum - new_maximum).exp() + _exponentials(scores, new_maximum)


@update_softmax.mistake(
    "one maximum for all rows",
    "You take the largest score of the whole block. Each row has a maximum of its own; in other rows, exponentials "
    "relative to a far larger maximum would all be 0.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = torch.maximum(maximum, scores.max())
    return new_maximum, total * (maximum - new_maximum).exp() + _exponentials(scores, new_maximum)


@update_softmax.mistake(
    "the old maximum returned",
    "Your sum is right, but you return the old maximum. The sum is relative to the new one: the next block needs it.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    return maximum, update_softmax.reference(maximum, total, scores)[1]


@update_softmax.mistake(
    "no maximum subtracted",
    "You add up the exponentials of the scores themselves, and those of large scores are infinite. Subtract the new "
    "maximum first.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    return _raised(maximum, scores), total + scores.exp().sum(dim=-1)


@update_softmax.mistake(
    "the block only",
    "Your maximum is right, but your sum contains only the new block. Add what was summed so far, corrected.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, _exponentials(scores, new_maximum)


@update_softmax.mistake(
    "the block relative to the old maximum",
    "The exponentials of the new block are relative to the old maximum. Everything has to be relative to the new one.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    base = torch.where(maximum.isinf(), new_maximum, maximum)
    return new_maximum, total * (maximum - new_maximum).exp() + _exponentials(scores, base)


@update_softmax.mistake(
    "NaN where a whole block is masked",
    "Right, except where all scores of a block are masked. You compute the exponentials relative to the block's own "
    "maximum, which is −∞ then, and −∞ − (−∞) is NaN. Make them relative to the new maximum of the row at once.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum, of_block = _raised(maximum, scores), scores.amax(dim=-1)
    added = (of_block - new_maximum).exp() * _exponentials(scores, of_block)
    return new_maximum, total * (maximum - new_maximum).exp() + added


@update_softmax.mistake(
    "exponentials of large numbers",
    "You compute exponentials of the scores and of the maximum themselves, which overflow. Only differences from "
    "the new maximum are harmless.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, (total * maximum.exp() + scores.exp().sum(-1)) / new_maximum.exp()


# 3 --------------------------------------------------------------------------------------------------------------------

MOST_TABLES = 12
"""More tables of a block's scores than any answer needs at once; the last inputs have more blocks."""
PRODUCTS = {"matmul", "__matmul__", "bmm", "mm", "einsum", "linear"}
"""Functions that compute scores; others may have a column for each block."""


class _RefuseManyScores(TorchFunctionMode):
    """Refuse scores of more keys than a block has: in one tensor, either way round, or in tensors kept one by one.

    The inputs have a d_k that is neither the number of queries nor that of keys.
    """

    def __init__(self, query: Tensor, key: Tensor, block: int) -> None:
        super().__init__()
        self._n_query, self._d_k = query.shape[-2:]
        self._block, self._n_blocks = block, math.ceil(key.size(-2) / block)
        self._kept: list[weakref.ref[Tensor]] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.is_floating_point() and not result._is_view():
            self._examine(result, getattr(function, "__name__", ""))
        return result

    def _examine(self, new: Tensor, made_by: str) -> None:
        sizes = list(new.shape[-2:])
        if self._d_k in sizes:
            return  # keys, values, or weighted sums of values
        if self._n_query in sizes:
            sizes.remove(self._n_query)
        widest = max(sizes, default=0)
        if widest > self._block and not (widest == self._n_blocks and made_by not in PRODUCTS):
            raise RefusedError(
                f"{TOO_MANY}\nYour code makes a table of shape {tuple(new.shape)}, with more keys than a block has. "
                f"{NEVER_ALL}\nIf you do cut the keys into blocks, check along which axis: theirs is the last but one. "
                "And check whether `block` is the size of your blocks, as it should be, or their number."
            )
        if (
            widest == self._block and self._n_blocks > MOST_TABLES and not new.requires_grad
        ):  # for a gradient, PyTorch keeps tables itself
            self._kept = [*(table for table in self._kept if table() is not None), weakref.ref(new)]
            if len(self._kept) > MOST_TABLES:
                raise RefusedError(f"{TOO_MANY}\nYour code keeps the scores of each block. {NEVER_ALL}")


TOO_MANY = "the scores of too many keys at once"
NEVER_ALL = (
    "For a long text they would fill the memory, and never having them all is the idea of FlashAttention: compute the "
    "scores of one block of keys, use them, and forget them."
)


@contextmanager
def _block_by_block(inputs: Inputs) -> Iterator[None]:
    with forbid(BUILT_IN)(inputs), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's warning about `.T` would quote a line of this file
        with _RefuseManyScores(inputs["query"], inputs["key"], inputs["block"]):
            yield


@topic.exercise(
    {
        "query": torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
        "key": torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [0.0, 0.0], [4.0, 2.0], [1.0, 3.0]]),
        "value": torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 2.0], [3.0, 1.0], [1.0, 4.0]]),
        "block": 4,
    },
    {"query": numbers(3, 4), "key": numbers(6, 4, seed=1), "value": numbers(6, 4, seed=2), "block": 2},
    {
        "query": 80 * numbers(2, 2, 3, 4, seed=3),
        "key": numbers(2, 2, 7, 4, seed=4),
        "value": numbers(2, 2, 7, 4, seed=5),
        "block": 3,
    },
    {
        "query": torch.tensor([[300.0, 0.0], [2.0, 100.0], [0.0, 250.0]]),
        "key": torch.tensor([[-1.0, -2.0], [-1.001, -2.0], [-2.0, -1.99], [-3.0, -4.0], [-1.0, -2.01], [-2.0, -3.0]]),
        "value": torch.tensor([[1.0, 2.0], [2.0, 4.0], [3.0, -1.0], [0.0, 2.0], [5.0, 1.0], [4.0, 3.0]]),
        "block": 4,
    },
    {"query": numbers(1, 1, 2, seed=6), "key": numbers(1, 6, 2, seed=7), "value": numbers(1, 6, 2, seed=8), "block": 2},
    {"query": numbers(1, 2, seed=9), "key": numbers(1, 2, seed=10), "value": numbers(1, 2, seed=11), "block": 1},
    {"query": numbers(3, 2), "key": numbers(80, 2, seed=1), "value": numbers(80, 2, seed=2), "block": 5},
    guard=_block_by_block,
)
def blockwise_attention(query: Tensor, key: Tensor, value: Tensor, block: int) -> Tensor:
    """The package's, with all scores at once."""
    return attention(query, key, value)[0]


def _flash(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    block: int,
    corrects: tuple[bool, bool] = (True, True),
    sign: int = 1,
    divisor: float | None = None,
    raises: bool = True,
    start: float = -math.inf,
    transpose: Callable[[Tensor], Tensor] = lambda k: k.mT,
) -> tuple[Tensor, Tensor]:
    """The weighted sum of values and the sum of the exponentials, with a switch for each way to get them wrong."""
    maximum = query.new_full((*query.shape[:-1], 1), start)
    total, weighted = torch.zeros_like(maximum), torch.zeros_like(query)
    for k, v in zip(key.split(block, dim=-2), value.split(block, dim=-2), strict=True):
        scores = query @ transpose(k) / (divisor or math.sqrt(query.size(-1)))
        of_block = scores.amax(dim=-1, keepdim=True)
        new_maximum = torch.maximum(maximum, of_block) if raises else of_block
        correction = (sign * (maximum - new_maximum)).exp()
        e = (scores - new_maximum).exp()
        total = (total * correction if corrects[0] else total) + e.sum(dim=-1, keepdim=True)
        weighted = (weighted * correction if corrects[1] else weighted) + e @ v
        maximum = new_maximum
    return weighted, total


@blockwise_attention.mistake(
    "a softmax for each block, added",
    "You apply a softmax within each block and add the results, so the weights of a query sum to the number of blocks. "
    "All blocks together should share one softmax.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int) -> Tensor:
    return torch.stack(_outputs_of_blocks(query, key, value, block)).sum(dim=0)


@blockwise_attention.mistake(
    "a softmax for each block, averaged",
    "You apply a softmax within each block and average the results, so each block gets the same weight. A block with "
    "large scores should get more.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int) -> Tensor:
    return torch.stack(_outputs_of_blocks(query, key, value, block)).mean(dim=0)


def _outputs_of_blocks(query: Tensor, key: Tensor, value: Tensor, block: int) -> list[Tensor]:
    blocks = zip(key.split(block, dim=-2), value.split(block, dim=-2), strict=True)
    return [attention(query, k, v)[0] for k, v in blocks]


@blockwise_attention.mistake(
    "nothing is corrected",
    "When a block raises the maximum, what you have summed so far is relative to the old one. Correct both the sum of "
    "the exponentials and the weighted sum.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int) -> Tensor:
    weighted, total = _flash(query, key, value, block, corrects=(False, False))
    return weighted / total


@blockwise_attention.mistake(
    "only the sum of the exponentials is corrected",
    "You correct the sum of the exponentials. The weighted sum of the values consists of the same exponentials, and "
    "needs the same correction.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int) -> Tensor:
    weighted, total = _flash(query, key, value, block, corrects=(True, False))
    return weighted / total


@blockwise_attention.mistake(
    "only the weighted sum is corrected",
    "You correct the weighted sum of the values. The sum of the exponentials, by which it is divided, needs the same "
    "correction.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int) -> Tensor:
    weighted, total = _flash(query, key, value, block, corrects=(False, True))
    return weighted / total


@blockwise_attention.mistake(
    "corrected the wrong way",
    "Your correction grows when the maximum rises, and even begins with infinity. Relative to a larger maximum, "
    "exponentials are smaller: swap the two maxima.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int) -> Tensor:
    weighted, total = _flash(query, key, value, block, sign=-1)
    return weighted / total


@blockwise_attention.mistake(
    "not divided at the end",
    "This is a sum with weights that don't sum to one. Divide it by the sum of the exponentials at the end.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int) -> Tensor:
    return _flash(query, key, value, block)[0]


@blockwise_attention.mistake(
    "the maximum isn't subtracted",
    "This works for small scores, but for large ones the exponentials are infinite. Subtract the maximum so far, and "
    "correct when it rises.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int) -> Tensor:
    e = (query @ key.mT / math.sqrt(query.size(-1))).exp()
    return e @ value / e.sum(dim=-1, keepdim=True)


@blockwise_attention.mistake(
    "the maximum of the block only",
    "You replace the maximum by that of the block, even if it was larger before. This works for small scores, but if "
    "the maximum falls by a lot, your correction is infinite. Take the larger one of the two.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int) -> Tensor:
    weighted, total = _flash(query, key, value, block, raises=False)
    return weighted / total


@blockwise_attention.mistake(
    "the maximum begins with 0",
    "Your maximum begins with 0 and stays there if all scores of a query are negative. If they are very negative, all "
    "exponentials are 0, and you divide by 0. Begin with minus infinity.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int) -> Tensor:
    weighted, total = _flash(query, key, value, block, start=0.0)
    return weighted / total


@blockwise_attention.mistake(
    "an incomplete block left out",
    "You leave out the keys of the last block if it is shorter than the others. The number of keys needn't be a "
    "multiple of the block size.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int) -> Tensor:
    whole = key.size(-2) // block * block
    return attention(query, key[..., :whole, :], value[..., :whole, :])[0]


@blockwise_attention.mistake(
    "only the last block",
    "Your result contains only the last block. Either you overwrite the sums, or you never keep the new maximum, and "
    "then the correction is 0.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int) -> Tensor:
    return _outputs_of_blocks(query, key, value, block)[-1]


@blockwise_attention.mistake(
    "all axes reversed",
    "You transpose the keys with `.T`, which reverses all axes. With several texts and heads, those would change "
    "places, too. Swap only the last two.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int) -> Tensor:
    weighted, total = _flash(query, key, value, block, transpose=lambda k: k.permute(*reversed(range(k.dim()))))
    return weighted / total


@blockwise_attention.mistake("the scores aren't scaled", "Your scores aren't divided by the root of d_k.")
def _(query: Tensor, key: Tensor, value: Tensor, block: int) -> Tensor:
    weighted, total = _flash(query, key, value, block, divisor=1)
    return weighted / total


@blockwise_attention.mistake("divided by d_k", "You divide the scores by d_k. Divide them by its root.")
def _(query: Tensor, key: Tensor, value: Tensor, block: int) -> Tensor:
    weighted, total = _flash(query, key, value, block, divisor=query.size(-1))
    return weighted / total


# 4 --------------------------------------------------------------------------------------------------------------------

GradientOf = Callable[[Tensor], Tensor]


def _pull_to_two(weight: Tensor) -> Tensor:
    """weight - 2, in bfloat16"""
    return _bfloat16(weight) - 2


def _wave(weight: Tensor) -> Tensor:
    """the sine of 3 * weight, in bfloat16"""
    return (3 * _bfloat16(weight)).sin()


def _bfloat16(weight: Tensor) -> Tensor:
    if weight.dtype != torch.bfloat16:
        name = str(weight.dtype).removeprefix("torch.")
        raise TypeError(f"both passes run in bfloat16, but the weight is in {name}")
    return weight


@topic.exercise(
    {"weight": torch.tensor([1.0]), "gradient_of": _pull_to_two, "learning_rate": 0.001, "steps": 100},
    {"weight": torch.tensor([0.3, -1.7]), "gradient_of": _pull_to_two, "learning_rate": 0.3, "steps": 1},
    {"weight": numbers(2, 3), "gradient_of": _wave, "learning_rate": 0.002, "steps": 60},
    {"weight": torch.tensor([1.0, 8.0, -0.5]), "gradient_of": _pull_to_two, "learning_rate": 0.01, "steps": 40},
    differentiable=False,
)
def mixed_precision(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    """Only the gradient in bfloat16."""
    for _ in range(steps):
        weight = weight - learning_rate * gradient_of(weight.bfloat16()).float()
    return weight


@mixed_precision.mistake(
    "the weight kept in bfloat16",
    "Your weight is a bfloat16 number between the steps, so small steps are rounded away. Keep it in float32, and make "
    "a bfloat16 copy for `gradient_of` only.",
)
def _(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    weight = weight.bfloat16()
    for _ in range(steps):
        weight = weight - learning_rate * gradient_of(weight)
    return weight.float()


@mixed_precision.mistake(
    "the weight rounded in every step",
    "You compute the step in float32, but subtract it from the bfloat16 copy. So the weight is rounded in every step, "
    "and small steps are lost. Subtract it from the float32 weight.",
)
def _(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    for _ in range(steps):
        copy = weight.bfloat16()
        weight = copy.float() - learning_rate * gradient_of(copy).float()
    return weight


@mixed_precision.mistake(
    "the copy made only once",
    "You make the bfloat16 copy before the loop, so all gradients belong to the weight at the start. Each step needs a "
    "copy of the weight as it is now.",
)
def _(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    copy = weight.bfloat16()
    for _ in range(steps):
        weight = weight - learning_rate * gradient_of(copy).float()
    return weight


@mixed_precision.mistake(
    "the step computed in bfloat16",
    "You multiply the learning rate by the gradient while that is in bfloat16, so each step is rounded to two or three "
    "digits. Convert the gradient first.",
)
def _(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    for _ in range(steps):
        weight = weight - learning_rate * gradient_of(weight.bfloat16())
    return weight


@mixed_precision.mistake(
    "rounded at the end",
    "Your steps are right, but at the end you round the weight to bfloat16. It stays in float32: the next steps start "
    "from it.",
)
def _(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    return mixed_precision.reference(weight, gradient_of, learning_rate, steps).bfloat16().float()


@mixed_precision.mistake("the wrong sign", "You add the step, so the loss grows. Subtract it.")
def _(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    return mixed_precision.reference(weight, gradient_of, -learning_rate, steps)


@mixed_precision.mistake("a single step", "You take one step. Repeat it: the last argument says how often.")
def _(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    return mixed_precision.reference(weight, gradient_of, learning_rate, 1)


@mixed_precision.mistake("one step too few", "You take one step too few.")
def _(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    return mixed_precision.reference(weight, gradient_of, learning_rate, steps - 1)


@mixed_precision.mistake("no learning rate", "You subtract the gradient itself. Multiply it by the learning rate.")
def _(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    return mixed_precision.reference(weight, gradient_of, 1.0, steps)


# 5 --------------------------------------------------------------------------------------------------------------------

Scaled = tuple[Tensor, float, int]
"""The weight, the scale, and the number of good steps."""


@topic.exercise(
    {
        "weight": torch.tensor([1.0, 2.0]),
        "gradient": torch.tensor([2001.0, -500.0]).half(),
        "learning_rate": 0.1,
        "scale": 1000.0,
        "good_steps": 3,
        "growth_interval": 2000,
    },
    {
        "weight": torch.tensor([1.0, 2.0, 3.0]),
        "gradient": torch.tensor([100.0, math.inf, -40.0]).half(),
        "learning_rate": 0.1,
        "scale": 1024.0,
        "good_steps": 5,
        "growth_interval": 2000,
    },
    {
        "weight": torch.tensor([1.0, 2.0, 3.0]),
        "gradient": torch.tensor([math.nan, 3.0, 70.0]).half(),
        "learning_rate": 0.1,
        "scale": 65_536.0,
        "good_steps": 7,
        "growth_interval": 2000,
    },
    {
        "weight": numbers(2, 3),
        "gradient": 3000 * numbers(2, 3, seed=1).half(),
        "learning_rate": 0.5,
        "scale": 3000.0,
        "good_steps": 4,
        "growth_interval": 5,
    },
    {
        "weight": torch.tensor([[1.0], [-2.0]]),
        "gradient": torch.tensor([[-math.inf], [8.0]]).half(),
        "learning_rate": 0.1,
        "scale": 16.0,
        "good_steps": 4,
        "growth_interval": 5,
    },
    {
        "weight": torch.tensor([0.5]),
        "gradient": torch.tensor([3.0]).half(),
        "learning_rate": 1.0,
        "scale": 8.0,
        "good_steps": 3,
        "growth_interval": 5,
    },
    {
        "weight": torch.tensor([0.5, -1.5]),
        "gradient": torch.tensor([40_000.0, 30_000.0]).half(),
        "learning_rate": 0.5,
        "scale": 32_768.0,
        "good_steps": 1,
        "growth_interval": 5,
    },
    {
        "weight": torch.tensor([1.0, -0.5]),
        "gradient": torch.tensor([math.inf, 2.0]).half(),
        "learning_rate": 0.5,
        "scale": 1.0,
        "good_steps": 2,
        "growth_interval": 5,
    },
    results=("weight", "scale", "good_steps"),
    differentiable=False,
)
def loss_scaling_step(
    weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good_steps: int, growth_interval: int
) -> Scaled:
    """As with PyTorch's GradScaler."""
    if not gradient.isfinite().all():
        return weight, scale / 2, 0
    return _good_step(weight, gradient.float() / scale, learning_rate, scale, good_steps, growth_interval)


def _good_step(
    weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good_steps: int, growth_interval: int
) -> Scaled:
    """A step with an unscaled gradient."""
    grows = good_steps + 1 == growth_interval
    return weight - learning_rate * gradient, 2 * scale if grows else scale, 0 if grows else good_steps + 1


def _overflows(gradient: Tensor) -> bool:
    return not bool(gradient.isfinite().all())


@loss_scaling_step.mistake(
    "not unscaled",
    "Your step is far too large: the gradient belongs to the loss times the scale. Divide it by the scale.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale / 2, 0
    return _good_step(weight, gradient.float(), learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "unscaled in float16",
    "You divide by the scale while the gradient is in float16. That rounds it, and the small numbers that the scale "
    "has saved become 0 again. Convert it to float32 first.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale / 2, 0
    return _good_step(weight, (gradient / scale).float(), learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "an overflow of the sum",
    "You look for infinite numbers in the sum of the gradient. A sum in float16 overflows by itself above 65,504, "
    "though each of its numbers is finite. Ask of each number whether it is finite.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if not gradient.sum().isfinite():
        return weight, scale / 2, 0
    return _good_step(weight, gradient.float() / scale, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "the step computed in float16",
    "You multiply by the learning rate while the gradient is in float16, which rounds it, and small numbers become 0. "
    "Convert it to float32 before you compute anything with it.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale / 2, 0
    return _good_step(weight, (learning_rate * gradient).float() / scale, 1.0, scale, good, interval)


@loss_scaling_step.mistake("the step added", "You add the step to the weight, so the loss grows. Subtract it.")
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    return loss_scaling_step.reference(weight, gradient, -learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "good steps skipped and bad ones taken",
    "Your condition is the wrong way round: you skip the good steps and take the bad ones.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if not _overflows(gradient):
        return weight, scale / 2, 0
    return _good_step(weight, gradient.float() / scale, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "no step when the scale grows",
    "In the step that doubles the scale, you return the old weight. That step is a good one, too: take it.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    new_weight, new, new_good = loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)
    return weight if new > scale else new_weight, new, new_good


@loss_scaling_step.mistake(
    "multiplied by the scale",
    "You multiply the gradient by the scale once more. It was multiplied before the backward pass: now divide.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale / 2, 0
    return _good_step(weight, gradient.float() * scale, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "the step is taken in spite of an overflow",
    "The scale is right, but you subtract a gradient that is infinite or NaN, and the weight is lost for ever. Leave "
    "it as it is.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    stepped = weight - learning_rate * gradient.float() / scale
    return stepped, *loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)[1:]


@loss_scaling_step.mistake(
    "only the overflowed numbers are skipped",
    "You set the infinite numbers to 0 and take the step with the others. Skip all of it: the gradient as a whole has "
    "lost its direction.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    stepped = weight - learning_rate * gradient.float().nan_to_num(0.0, 0.0, 0.0) / scale
    return stepped, *loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)[1:]


@loss_scaling_step.mistake(
    "NaN is overlooked",
    "You notice infinities but not NaN, which infinity minus infinity gives in the backward pass.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if gradient.isinf().any():
        return weight, scale / 2, 0
    return _good_step(weight, gradient.float() / scale, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "infinity is overlooked", "You notice NaN but not infinity, which is what float16 gives first when it overflows."
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if gradient.isnan().any():
        return weight, scale / 2, 0
    return _good_step(weight, gradient.float() / scale, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "an overflow only if all numbers are infinite",
    "You skip the step only if no number of the gradient is finite. A single one that isn't is enough.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if not gradient.isfinite().any():
        return weight, scale / 2, 0
    return _good_step(weight, gradient.float() / scale, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "the scale stays after an overflow",
    "You skip the step, but keep the scale, so the next gradient will overflow as well. Halve it.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale, 0
    return loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "the scale changes the wrong way",
    "You double the scale after an overflow, and halve it after many good steps. The gradient overflows if the scale "
    "is too large.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, 2 * scale, 0
    weight, new, good = loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)
    return weight, scale * scale / new, good


@loss_scaling_step.mistake(
    "halved by //",
    "You halve the scale by `//`, which rounds down. A scale of 1 becomes 0, and then every gradient is 0 or NaN.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale // 2, 0
    return loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "good steps not reset by an overflow",
    "After an overflow you go on counting good steps. They have to be good ones in a row, so begin again from 0.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale / 2, good
    return loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "good steps not reset when the scale grows",
    "When the scale doubles, you go on counting. Begin again from 0: the new scale has to prove itself first.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale / 2, 0
    new_weight, new, _ = loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)
    return new_weight, new, good + 1


@loss_scaling_step.mistake(
    "the scale doesn't grow in time",
    "There are growth_interval good steps in a row, and your scale stays as it is. Does it never grow, or one step too "
    "late? The step you have just taken counts, too.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    return loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval + 1)


@loss_scaling_step.mistake(
    "unscaled by the new scale",
    "You adapt the scale first, and then divide the gradient by the new one. The gradient was made with the old one.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    _, new, new_good = loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)
    if not _overflows(gradient):
        weight = weight - learning_rate * (gradient.float() / new)
    return weight, new, new_good


# 6 --------------------------------------------------------------------------------------------------------------------

Gradients = list[list[Tensor]]
Counts = list[list[int]]


@topic.exercise(
    {
        "gradients": [[torch.tensor([1.0, 0.0])], [torch.tensor([4.0, 8.0])]],
        "n_tokens": [[3], [1]],
    },
    {
        "gradients": [[torch.tensor([2.0]), torch.tensor([5.0])], [torch.tensor([-1.0]), torch.tensor([8.0])]],
        "n_tokens": [[4, 1], [2, 3]],
    },
    {
        "gradients": [[numbers(2, 3, seed=3 * i + j) for j in range(3)] for i in range(2)],
        "n_tokens": [[25, 17, 30], [11, 40, 8]],
    },
    {
        "gradients": [[numbers(2), torch.zeros(2)], [numbers(2, seed=1), numbers(2, seed=2)]],
        "n_tokens": [[7, 0], [5, 9]],
    },
    {"gradients": [[numbers(1, 2, seed=5)]], "n_tokens": [[6]]},
    {"gradients": [[numbers(2), numbers(2, seed=1)], [numbers(2, seed=2)]], "n_tokens": [[3, 8], [6]]},
    {"gradients": [[torch.zeros(2), torch.zeros(2)], [numbers(2), numbers(2, seed=1)]], "n_tokens": [[0, 0], [5, 3]]},
    differentiable=False,
)
def step_gradient(gradients: Gradients, n_tokens: Counts) -> Tensor:
    """Every token weighs the same."""
    return _weighted_sum(gradients, n_tokens) / sum(map(sum, n_tokens))


def _weighted_sum(gradients: Gradients, n_tokens: Counts) -> Tensor:
    pairs = zip(chain(*gradients), chain(*n_tokens), strict=True)
    return torch.stack([gradient * n for gradient, n in pairs]).sum(dim=0)


def _mean_of_gpu(gradients: list[Tensor], n_tokens: list[int]) -> Tensor:
    return _weighted_sum([gradients], [n_tokens]) / sum(n_tokens)


@step_gradient.mistake(
    "the mean of the means",
    "You average the gradients as if all batches had the same number of tokens, so each token of a small batch counts "
    "more than one of a large batch.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return torch.stack([*chain(*gradients)]).mean(dim=0)


@step_gradient.mistake(
    "the mean over the GPUs",
    "Each GPU's own mean is right, but then you average over the GPUs as if all had the same number of tokens. "
    "(DistributedDataParallel does that by itself, so the package multiplies by the number of GPUs and divides by all "
    "tokens.)",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return torch.stack([*map(_mean_of_gpu, gradients, n_tokens)]).mean(dim=0)


@step_gradient.mistake(
    "the sum over the GPUs",
    "Each GPU's own mean is right, but then you add the means, so the gradient grows with the number of GPUs.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return torch.stack([*map(_mean_of_gpu, gradients, n_tokens)]).sum(dim=0)


@step_gradient.mistake(
    "the plain mean within a GPU",
    "You weight the GPUs by their tokens, but within a GPU you average its batches as if all had the same number of "
    "tokens.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    means = [torch.stack(of_gpu).mean(dim=0) for of_gpu in gradients]
    return _mean_of_gpu(means, [*map(sum, n_tokens)])


@step_gradient.mistake(
    "added without weights",
    "You add gradients of means as if they were gradients of sums. A mean times its number of tokens is a sum.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return torch.stack([*chain(*gradients)]).sum(dim=0)


@step_gradient.mistake(
    "divided without weights",
    "You add the gradients as they are, and divide by the number of tokens. But each of them is a mean already: "
    "multiply it by its number of tokens first.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return torch.stack([*chain(*gradients)]).sum(dim=0) / sum(map(sum, n_tokens))


@step_gradient.mistake(
    "not divided", "This is the gradient of the sum over all tokens. Divide it by their number to get the mean."
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return _weighted_sum(gradients, n_tokens)


@step_gradient.mistake(
    "some batches left out",
    "The GPUs need not have the same number of batches, and zip over the GPUs stops at the shortest list. Go through "
    "each GPU's own batches.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    first = min(map(len, gradients))
    left = [of_gpu[:first] for of_gpu in n_tokens]
    return _weighted_sum([of_gpu[:first] for of_gpu in gradients], left) / max(1, sum(map(sum, left)))


@step_gradient.mistake(
    "divided by the number of batches", "You divide by the number of batches. Divide by the number of all tokens."
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return _weighted_sum(gradients, n_tokens) / len([*chain(*gradients)])


@step_gradient.mistake(
    "divided by the tokens of one GPU",
    "You divide by the tokens of the last GPU. Divide by the tokens of all GPUs together.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return _weighted_sum(gradients, n_tokens) / sum(n_tokens[-1])


@step_gradient.mistake(
    "only one GPU", "This is the gradient of the first GPU alone. The other GPUs have computed some of it, too."
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return _mean_of_gpu(gradients[0], n_tokens[0])


@step_gradient.mistake(
    "only the last batch of each GPU",
    "You use only the last batch of each GPU. The gradients of its batches add up: don't overwrite the earlier ones.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return step_gradient.reference([g[-1:] for g in gradients], [n[-1:] for n in n_tokens])


@step_gradient.mistake(
    "only the first batch of each GPU",
    "You use only the first batch of each GPU. Does your code return, or leave the loop, too early?",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    total = sum(n[0] for n in n_tokens)
    return _weighted_sum([g[:1] for g in gradients], [n[:1] for n in n_tokens]) / (total or math.nan)


@step_gradient.mistake(
    "NaN for a GPU without tokens",
    "A GPU may have no tokens at all in a step. You divide by its number of tokens. Add sums, and divide once at "
    "the end.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    counts = [torch.tensor(sum(tokens)) for tokens in n_tokens]
    means = [_weighted_sum([g], [n]) / count for g, n, count in zip(gradients, n_tokens, counts, strict=True)]
    return torch.stack([mean * count for mean, count in zip(means, counts, strict=True)]).sum(0) / sum(
        map(sum, n_tokens)
    )


@step_gradient.mistake(
    "divided by the number of GPUs as well",
    "You divide by the tokens of all GPUs, and then by the number of GPUs. The first is enough.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return step_gradient.reference(gradients, n_tokens) / len(gradients)
