"""Checks of 16 making it fast on a GPU."""

import math
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, combinations
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from exercises.bugs import Bug, WrongRepair, add_bugs, name_mistake
from exercises.calls import Inputs
from exercises.check import Topic
from exercises.checks.two_mistakes import with_pairs
from exercises.errors import RefusedError
from exercises.restrictions import ATTENTION, forbid
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
    "You count the bytes of the weight only. The input has to be read, too, and the result has to be written. With few "
    "tokens they are small, but with many they are most of the traffic.",
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
    "You count n_in − 1 additions for each number of the result. The convention, and the text above, count as many "
    "additions as multiplications.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 2 * (n_tokens * n_in + n_in * n_out + n_tokens * n_out)
    return _limits(n_tokens * n_out * (2 * n_in - 1), n_bytes, flop_rate, byte_rate)


def _times(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> tuple[float, float]:
    """The time for the arithmetic, and that for the memory traffic."""
    n_bytes = 2 * (n_tokens * n_in + n_in * n_out + n_tokens * n_out)
    return 2 * n_tokens * n_in * n_out / flop_rate, n_bytes / byte_rate


@roofline.mistake(
    "the input isn't read",
    "You count the weight and the result, but the input has to be read from memory, too.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 2 * (n_in * n_out + n_tokens * n_out)
    return _limits(2 * n_tokens * n_in * n_out, n_bytes, flop_rate, byte_rate)


@roofline.mistake(
    "only the result is written",
    "You count the bytes of the result only. The input and the weight have to be read first.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 2 * n_tokens * n_out
    return _limits(2 * n_tokens * n_in * n_out, n_bytes, flop_rate, byte_rate)


@roofline.mistake(
    "only the input is read",
    "You count the bytes of the input only. The weight has to be read, too, and the result has to be written.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 2 * n_tokens * n_in
    return _limits(2 * n_tokens * n_in * n_out, n_bytes, flop_rate, byte_rate)


@roofline.mistake(
    "the result as wide as the input",
    "You count n_in numbers of the result for each token. The result has n_out of them.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 2 * (2 * n_tokens * n_in + n_in * n_out)
    return _limits(2 * n_tokens * n_in * n_out, n_bytes, flop_rate, byte_rate)


@roofline.mistake(
    "the result in 32 bits",
    "You count 4 bytes for each number of the result. It has 16 bits, too, and is written only once: nothing is read "
    "from it.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 2 * (n_tokens * n_in + n_in * n_out) + 4 * n_tokens * n_out
    return _limits(2 * n_tokens * n_in * n_out, n_bytes, flop_rate, byte_rate)


@roofline.mistake(
    "the input read for each result",
    "You read a token's input again for each of its n_out results. All three matrices are moved only once.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 2 * (n_tokens * n_in * n_out + n_in * n_out + n_tokens * n_out)
    return _limits(2 * n_tokens * n_in * n_out, n_bytes, flop_rate, byte_rate)


@roofline.mistake(
    "the three sizes multiplied",
    "You multiply all three sizes to count the numbers that are moved. That is the number of multiplications. A matrix "
    "has only two axes: its rows times its columns are its numbers.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 2 * n_tokens * n_in * n_out
    return _limits(2 * n_tokens * n_in * n_out, n_bytes, flop_rate, byte_rate)


@roofline.mistake(
    "the three sizes added",
    "You add the three sizes to count the numbers that are moved. A matrix contains as many numbers as its rows times "
    "its columns: add those of the three matrices.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 2 * (n_tokens + n_in + n_out)
    return _limits(2 * n_tokens * n_in * n_out, n_bytes, flop_rate, byte_rate)


@roofline.mistake(
    "a bias as well",
    "You move a bias, too. Here, the layer has only a weight.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 2 * (n_tokens * n_in + n_in * n_out + n_tokens * n_out + n_out)
    return _limits(2 * n_tokens * n_in * n_out, n_bytes, flop_rate, byte_rate)


@roofline.mistake(
    "the operations of a single token",
    "You count the operations of one token. Each of the n_tokens tokens takes as many.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 2 * (n_tokens * n_in + n_in * n_out + n_tokens * n_out)
    return _limits(2 * n_in * n_out, n_bytes, flop_rate, byte_rate)


@roofline.mistake(
    "one product for each result",
    "You count one multiplication and one addition for each number of the result. Each is a sum of n_in products.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 2 * (n_tokens * n_in + n_in * n_out + n_tokens * n_out)
    return _limits(2 * n_tokens * n_out, n_bytes, flop_rate, byte_rate)


@roofline.mistake(
    "the backward pass as well",
    "Your number of operations is three times too large: that is the forward and the backward pass. This is a single "
    "product.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 2 * (n_tokens * n_in + n_in * n_out + n_tokens * n_out)
    return _limits(6 * n_tokens * n_in * n_out, n_bytes, flop_rate, byte_rate)


@roofline.mistake(
    "one more addition",
    "You count an addition too many for each number of the result, as if there were a bias. Count n_in multiplications "
    "and n_in additions.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 2 * (n_tokens * n_in + n_in * n_out + n_tokens * n_out)
    return _limits((2 * n_in + 1) * n_tokens * n_out, n_bytes, flop_rate, byte_rate)


@roofline.mistake(
    "a single addition",
    "For each number of the result, you count n_in multiplications but only one addition. Each of the products is "
    "added.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    n_bytes = 2 * (n_tokens * n_in + n_in * n_out + n_tokens * n_out)
    return _limits((n_in + 1) * n_tokens * n_out, n_bytes, flop_rate, byte_rate)


@roofline.mistake(
    "only the time for the arithmetic",
    "Your time is always that of the arithmetic. If the memory traffic takes longer, the product has to wait for it.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    intensity = roofline.reference(n_tokens, n_in, n_out, flop_rate, byte_rate)[0]
    arithmetic, traffic = _times(n_tokens, n_in, n_out, flop_rate, byte_rate)
    return intensity, arithmetic, arithmetic > traffic


@roofline.mistake(
    "only the time for the memory",
    "Your time is always that of the memory traffic. If the arithmetic takes longer, the product has to wait for it.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    intensity = roofline.reference(n_tokens, n_in, n_out, flop_rate, byte_rate)[0]
    arithmetic, traffic = _times(n_tokens, n_in, n_out, flop_rate, byte_rate)
    return intensity, traffic, arithmetic > traffic


@roofline.mistake(
    "the average of both times",
    "You average the two times. Both happen at the same time, so the longer one decides.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    intensity = roofline.reference(n_tokens, n_in, n_out, flop_rate, byte_rate)[0]
    arithmetic, traffic = _times(n_tokens, n_in, n_out, flop_rate, byte_rate)
    return intensity, (arithmetic + traffic) / 2, arithmetic > traffic


@roofline.mistake(
    "always compute-bound",
    "Your third result is True for every product here. What do you compare? The arithmetic has to take longer than the "
    "memory traffic, or the intensity has to be above the chip's FLOP per second divided by its bytes per second, not "
    "the other way round.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    intensity, seconds, _ = roofline.reference(n_tokens, n_in, n_out, flop_rate, byte_rate)
    return intensity, seconds, True


@roofline.mistake(
    "never compute-bound",
    "Your third result is False for every product here. What do you compare? An intensity isn't comparable with a "
    "rate: the chip's own ratio is its FLOP per second divided by its bytes per second.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    intensity, seconds, _ = roofline.reference(n_tokens, n_in, n_out, flop_rate, byte_rate)
    return intensity, seconds, False


@roofline.mistake(
    "the intensity compared with the bandwidth",
    "The first two results are right. But you compare the intensity with the bandwidth alone, and those have different "
    "units: compare it with the chip's FLOP per second divided by its bytes per second.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    intensity, seconds, _ = roofline.reference(n_tokens, n_in, n_out, flop_rate, byte_rate)
    return intensity, seconds, intensity > byte_rate


@roofline.mistake(
    "the chip's ratio returned",
    "Your intensity depends on the chip only. That of a product is its own operations divided by its own bytes.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    _, seconds, bound = roofline.reference(n_tokens, n_in, n_out, flop_rate, byte_rate)
    return flop_rate / byte_rate, seconds, bound


@roofline.mistake(
    "the two times divided",
    "Your intensity is the time for the arithmetic divided by that for the memory. It doesn't depend on the chip: "
    "divide the operations by the bytes.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    _, seconds, bound = roofline.reference(n_tokens, n_in, n_out, flop_rate, byte_rate)
    arithmetic, traffic = _times(n_tokens, n_in, n_out, flop_rate, byte_rate)
    return arithmetic / traffic, seconds, bound


@roofline.mistake(
    "the two rates swapped",
    "You divide the operations by the bandwidth, and the bytes by the peak. Each goes with its own rate.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    intensity = roofline.reference(n_tokens, n_in, n_out, flop_rate, byte_rate)[0]
    return intensity, *roofline.reference(n_tokens, n_in, n_out, byte_rate, flop_rate)[1:]


@roofline.mistake(
    "multiplied by the rates",
    "You multiply by the rates. Work divided by work per second is a time.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    intensity = roofline.reference(n_tokens, n_in, n_out, flop_rate, byte_rate)[0]
    return intensity, *roofline.reference(n_tokens, n_in, n_out, 1 / flop_rate, 1 / byte_rate)[1:]


@roofline.mistake(
    "the times upside down",
    "You divide the rates by the work. Divide the work by the rate: more work takes longer.",
)
def _(n_tokens: int, n_in: int, n_out: int, flop_rate: float, byte_rate: float) -> Limits:
    arithmetic, traffic = (1 / time for time in _times(n_tokens, n_in, n_out, flop_rate, byte_rate))
    return (
        roofline.reference(n_tokens, n_in, n_out, flop_rate, byte_rate)[0],
        max(arithmetic, traffic),
        arithmetic > traffic,
    )


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
    "You compute exponentials of the scores and of the maximum themselves, which overflow. Only differences from the "
    "new maximum are harmless.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, (total * maximum.exp() + scores.exp().sum(-1)) / new_maximum.exp()


@update_softmax.mistake(
    "the new exponentials corrected instead",
    "You correct the new exponentials, which are relative to the new maximum already, and leave the old sum as it is. "
    "It is the old sum that needs the correction.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, total + _exponentials(scores, new_maximum) * (maximum - new_maximum).exp()


@update_softmax.mistake(
    "the scores without the maximum",
    "Your old sum is right. But the new exponentials are those of the scores themselves: subtract the new maximum "
    "first, because large scores overflow.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, total * (maximum - new_maximum).exp() + scores.exp().sum(dim=-1)


@update_softmax.mistake(
    "the maximum never changes",
    "You add the new exponentials relative to the old maximum, and return the old maximum. Where the block has a "
    "larger score, that becomes the new one.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    return maximum, total + _exponentials(scores, maximum)


@update_softmax.mistake(
    "summed over all rows",
    "You add up the exponentials of all rows. Each row has a sum of its own: sum along the last axis.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, total * (maximum - new_maximum).exp() + _exponentials(scores, new_maximum).sum()


@update_softmax.mistake(
    "averaged over the block",
    "You average the exponentials of the block. Add them up instead.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, total * (maximum - new_maximum).exp() + _exponentials(scores, new_maximum) / scores.size(-1)


@update_softmax.mistake(
    "only the largest exponential",
    "You add only the largest exponential of the block. All of them belong to the sum.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, total * (maximum - new_maximum).exp() + (scores.amax(dim=-1) - new_maximum).exp()


@update_softmax.mistake(
    "no exponentials of the scores",
    "You add up the differences between the scores and the maximum. Take their exponentials first.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, total * (maximum - new_maximum).exp() + (scores - new_maximum[:, None]).sum(dim=-1)


@update_softmax.mistake(
    "no exponential in the correction",
    "You multiply the old sum by the difference of the two maxima. The factor is the exponential of that difference.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, total * (maximum - new_maximum) + _exponentials(scores, new_maximum)


@update_softmax.mistake(
    "the correction added",
    "You add the correction to the old sum. It is a factor: multiply by it.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, total + (maximum - new_maximum).exp() + _exponentials(scores, new_maximum)


@update_softmax.mistake(
    "a softmax of the block",
    "You add a softmax of the block, and the weights of a softmax always sum to one. Add the sum of the exponentials, "
    "before it is divided by anything.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, total * (maximum - new_maximum).exp() + 1


@update_softmax.mistake(
    "the smaller maximum",
    "You take the smaller one of the two maxima. The new maximum is the larger one.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    smaller = torch.minimum(maximum, scores.amax(dim=-1))
    return smaller, total * (maximum - smaller).exp() + _exponentials(scores, smaller)


@update_softmax.mistake(
    "powers of 2",
    "You compute powers of 2. An exponential is a power of e.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, total * (maximum - new_maximum).exp2() + (scores - new_maximum[:, None]).exp2().sum(dim=-1)


@update_softmax.mistake(
    "the difference the wrong way round",
    "You subtract the scores from the maximum. Subtract the maximum from the scores: no exponential is larger than 1 "
    "then.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, total * (maximum - new_maximum).exp() + (new_maximum[:, None] - scores).exp().sum(dim=-1)


@update_softmax.mistake(
    "the place of the maximum",
    "You take the position of the largest score in the block. Take its value.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = torch.maximum(maximum, scores.argmax(dim=-1).float())
    return new_maximum, total * (maximum - new_maximum).exp() + _exponentials(scores, new_maximum)


@update_softmax.mistake(
    "the largest absolute value",
    "You take the maximum of the absolute values. Scores keep their signs: a very negative one is small.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = torch.maximum(maximum, scores.abs().amax(dim=-1))
    return new_maximum, total * (maximum - new_maximum).exp() + _exponentials(scores, new_maximum)


@update_softmax.mistake(
    "corrected by the maximum of the block",
    "You correct the old sum by the maximum of the block, which is lower than that of the row if the row had a larger "
    "score before. Use the new maximum of the row.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, total * (maximum - scores.amax(dim=-1)).exp() + _exponentials(scores, new_maximum)


@update_softmax.mistake(
    "the old sum as a single exponential",
    "You count everything before this block as if it were one score, the old maximum. The old sum may consist of many "
    "exponentials: multiply it by the correction.",
)
def _(maximum: Tensor, total: Tensor, scores: Tensor) -> Running:
    new_maximum = _raised(maximum, scores)
    return new_maximum, (maximum - new_maximum).exp() + _exponentials(scores, new_maximum)


# 3 --------------------------------------------------------------------------------------------------------------------

MOST_TABLES = 12
"""More tables of a block's scores than any answer needs at once; the last inputs have more blocks."""
PRODUCTS = {"matmul", "__matmul__", "bmm", "mm", "einsum", "linear"}
"""Functions that compute scores; others may have a column for each block, and one for the sink."""


class _RefuseManyScores(TorchFunctionMode):
    """Refuse scores of more keys than a block has: in one tensor, either way round, or in tensors kept one by one.

    A table may have one more column, for the sink.

    The inputs have a d_k that is neither the number of queries nor that of keys, and in some of them d_k + 1 isn't,
    either.
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
        if self._d_k in sizes or sizes[-1:] == [self._d_k + 1]:
            return  # keys, values, or weighted sums of values, maybe with a column of ones to sum the exponentials
        if self._n_query in sizes:
            sizes.remove(self._n_query)
        widest = max(sizes, default=0)
        if widest > self._block + 1 and not (
            widest in (self._n_blocks, self._n_blocks + 1) and made_by not in PRODUCTS
        ):
            raise RefusedError(
                f"{TOO_MANY}\nYour code makes a table of shape {tuple(new.shape)}, with more keys than a block has. "
                f"{NEVER_ALL}\nIf you do cut the keys into blocks, check along which axis: theirs is the last but one. "
                "And check whether `block` is the size of your blocks, as it should be, or their number. The queries "
                "stay together."
            )
        if (
            widest in (self._block, self._block + 1) and self._n_blocks > MOST_TABLES and not new.requires_grad
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
    with forbid(ATTENTION)(inputs), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's warning about `.T` would quote a line of this file
        with _RefuseManyScores(inputs["query"], inputs["key"], inputs["block"]):
            yield


@topic.exercise(
    {
        "query": torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
        "key": torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [0.0, 0.0], [4.0, 2.0], [1.0, 3.0]]),
        "value": torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 2.0], [3.0, 1.0], [1.0, 4.0]]),
        "block": 4,
        "sink": 1.0,
    },
    {"query": numbers(3, 4), "key": numbers(6, 4, seed=1), "value": numbers(6, 4, seed=2), "block": 1, "sink": -0.5},
    {
        "query": 80 * numbers(2, 2, 3, 4, seed=3),
        "key": numbers(2, 2, 7, 4, seed=4),
        "value": numbers(2, 2, 7, 4, seed=5),
        "block": 3,
        "sink": 30.0,
    },
    {
        "query": torch.tensor([[300.0, 0.0], [2.0, 100.0], [0.0, 250.0]]),
        "key": torch.tensor([[-1.0, -2.0], [-1.001, -2.0], [-2.0, -1.99], [-3.0, -4.0], [-1.0, -2.01], [-2.0, -3.0]]),
        "value": torch.tensor([[1.0, 2.0], [2.0, 4.0], [3.0, -1.0], [0.0, 2.0], [5.0, 1.0], [4.0, 3.0]]),
        "block": 4,
        "sink": -213.0,
    },
    {
        "query": numbers(1, 1, 2, seed=6),
        "key": numbers(1, 6, 2, seed=7),
        "value": numbers(1, 6, 2, seed=8),
        "block": 2,
        "sink": 0.3,
    },
    {
        "query": numbers(1, 2, seed=9),
        "key": numbers(1, 2, seed=10),
        "value": numbers(1, 2, seed=11),
        "block": 1,
        "sink": -1.5,
    },
    {"query": numbers(3, 6), "key": numbers(80, 6, seed=1), "value": numbers(80, 6, seed=2), "block": 5, "sink": 2.0},
    guard=_block_by_block,
    insight="FlashAttention does this in a single kernel, so the scores never leave the fast memory of the chip.",
)
def blockwise_attention(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    """With all scores at once."""
    return _attention(query, key, value, sink)


def _attention(query: Tensor, key: Tensor, value: Tensor, sink: float) -> Tensor:
    """The package's, with a key whose score is that of the sink, and whose value is zero."""
    scores = query @ key.mT / math.sqrt(query.size(-1))
    scores = torch.cat([torch.full_like(query[..., :1], sink), scores], dim=-1)
    return scores.softmax(dim=-1)[..., 1:] @ value


def _flash(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    block: int,
    sink: float,
    corrects: tuple[bool, bool] = (True, True),
    sign: int = 1,
    divisor: float | None = None,
    raises: bool = True,
    start: float | None = None,
    transpose: Callable[[Tensor], Tensor] = lambda k: k.mT,
) -> tuple[Tensor, Tensor]:
    """The weighted sum of values and the sum of the exponentials, with a switch for each way to get them wrong."""
    maximum, total, weighted = _start(query, sink)
    if start is not None:  # then the sink comes last
        maximum, total = torch.full_like(maximum, start), torch.zeros_like(total)
    for k, v in zip(key.split(block, dim=-2), value.split(block, dim=-2), strict=True):
        scores = query @ transpose(k) / (divisor or math.sqrt(query.size(-1)))
        of_block = scores.amax(dim=-1, keepdim=True)
        new_maximum = torch.maximum(maximum, of_block) if raises else of_block
        correction = (sign * (maximum - new_maximum)).exp()
        e = (scores - new_maximum).exp()
        total = (total * correction if corrects[0] else total) + e.sum(dim=-1, keepdim=True)
        weighted = (weighted * correction if corrects[1] else weighted) + e @ v
        maximum = new_maximum
    return weighted, total if start is None else total + (sink - maximum).exp()


@blockwise_attention.mistake(
    "the sink is left out",
    "This is attention without a sink: the weights of the keys sum to one. The sink takes part in the softmax as well, "
    "so it belongs to the sum of the exponentials. If you do count it: is it still there after the first correction?",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    return attention(query, key, value)[0]


@blockwise_attention.mistake(
    "a sink for each block",
    "You count the sink again in each block. There is one for the whole row of scores: count it once, before the first "
    "block or after the last one.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    maximum, total, weighted = _start(query, sink)
    total = torch.zeros_like(total)
    for scores, v in _blocks(query, key, value, block):
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        correction = (maximum - new_maximum).exp()
        e = (scores - new_maximum).exp()
        total = total * correction + e.sum(dim=-1, keepdim=True) + (sink - new_maximum).exp()
        weighted = weighted * correction + e @ v
        maximum = new_maximum
    return weighted / total


@blockwise_attention.mistake(
    "the sink's exponential isn't relative to the maximum",
    "You add the exponential of the sink itself. All other exponentials of the sum are relative to the maximum, and "
    "this one has to be as well.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    output, total = attention(query, key, value)[0], _sum_of_exponentials(query, key)
    return output * total / (total + torch.tensor(sink).exp())


@blockwise_attention.mistake(
    "1 in place of the sink's exponential",
    "You add 1 to the sum of the exponentials at the end. By then the sum is relative to the largest score, and so is "
    "the exponential of the sink. It would be 1 only if the sink were the maximum.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    output, total = attention(query, key, value)[0], _sum_of_exponentials(query, key)
    return output * total / (total + 1)


def _sum_of_exponentials(query: Tensor, key: Tensor) -> Tensor:
    """The sum relative to the largest score, without the sink."""
    scores = query @ key.mT / math.sqrt(query.size(-1))
    return (scores - scores.amax(dim=-1, keepdim=True)).exp().sum(dim=-1, keepdim=True)


@blockwise_attention.mistake(
    "the sink divided by the root of d_k",
    "You divide the sink by the root of d_k. Only dot products need that: the sink is a score as it is.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    return _attention(query, key, value, sink / math.sqrt(query.size(-1)))


@blockwise_attention.mistake(
    "a value for the sink",
    "Your weighted sum contains a value of ones for the sink. The sink has no value: it begins with zeros.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    sinks = torch.full_like(query[..., :1], sink)
    scores = torch.cat([sinks, query @ key.mT / math.sqrt(query.size(-1))], dim=-1)
    return scores.softmax(dim=-1) @ torch.cat([torch.ones_like(value[..., :1, :]), value], dim=-2)


@blockwise_attention.mistake(
    "the new maximum isn't kept",
    "At the end of each block, the new maximum has to become the old one. Yours stays what it was at the beginning.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    maximum, total, weighted = _start(query, sink)
    for scores, v in _blocks(query, key, value, block):
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        correction = (maximum - new_maximum).exp()
        e = (scores - new_maximum).exp()
        total = total * correction + e.sum(dim=-1, keepdim=True)
        weighted = weighted * correction + e @ v
    return weighted / total


@blockwise_attention.mistake(
    "a softmax for each block, added",
    "You apply a softmax within each block and add the results, so the weights of a query sum to the number of blocks. "
    "All blocks together should share one softmax, and the sink takes part in it.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    return torch.stack(_outputs_of_blocks(query, key, value, block)).sum(dim=0)


@blockwise_attention.mistake(
    "a softmax for each block, averaged",
    "You apply a softmax within each block and average the results, so each block gets the same weight. A block with "
    "large scores should get more.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    return torch.stack(_outputs_of_blocks(query, key, value, block)).mean(dim=0)


def _outputs_of_blocks(query: Tensor, key: Tensor, value: Tensor, block: int) -> list[Tensor]:
    """With a softmax for each, without the sink."""
    blocks = zip(key.split(block, dim=-2), value.split(block, dim=-2), strict=True)
    return [attention(query, k, v)[0] for k, v in blocks]


@blockwise_attention.mistake(
    "nothing is corrected",
    "When a block raises the maximum, what you have summed so far is relative to the old one. Correct both the sum of "
    "the exponentials and the weighted sum. If you do so: is the old maximum still there when you compute the "
    "correction?",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    weighted, total = _flash(query, key, value, block, sink, corrects=(False, False))
    return weighted / total


@blockwise_attention.mistake(
    "only the sum of the exponentials is corrected",
    "You correct the sum of the exponentials. The weighted sum of the values consists of the same exponentials, and "
    "needs the same correction.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    weighted, total = _flash(query, key, value, block, sink, corrects=(True, False))
    return weighted / total


@blockwise_attention.mistake(
    "only the weighted sum is corrected",
    "You correct the weighted sum of the values. The sum of the exponentials, by which it is divided, needs the same "
    "correction.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    weighted, total = _flash(query, key, value, block, sink, corrects=(False, True))
    return weighted / total


@blockwise_attention.mistake(
    "corrected the wrong way",
    "Your correction grows when the maximum rises. Relative to a larger maximum, exponentials are smaller: swap the "
    "two maxima.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    weighted, total = _flash(query, key, value, block, sink, sign=-1)
    return weighted / total


@blockwise_attention.mistake(
    "not divided at the end",
    "This is a sum with weights that don't sum to one. Divide it by the sum of the exponentials at the end.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    return _flash(query, key, value, block, sink)[0]


@blockwise_attention.mistake(
    "the maximum isn't subtracted",
    "This works for small scores, but for large ones the exponentials are infinite. Subtract the maximum so far, and "
    "correct when it rises.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    e = (query @ key.mT / math.sqrt(query.size(-1))).exp()
    return e @ value / (e.sum(dim=-1, keepdim=True) + math.exp(sink))


@blockwise_attention.mistake(
    "the maximum of the block only",
    "You replace the maximum by that of the block, even if it was larger before. This works for small scores, but if "
    "the maximum falls by a lot, your correction is infinite. Take the larger one of the two.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    weighted, total = _flash(query, key, value, block, sink, raises=False)
    return weighted / total


@blockwise_attention.mistake(
    "the maximum begins with 0",
    "Your maximum begins with 0, or another number that isn't small enough, and stays there if all scores of a query "
    "are smaller. If they are much smaller, all exponentials are 0, and you divide by 0. Begin with the sink.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    weighted, total = _flash(query, key, value, block, sink, start=0.0)
    return weighted / total


@blockwise_attention.mistake(
    "an incomplete block left out",
    "You leave out the keys of the last block if it is shorter than the others. The number of keys needn't be a "
    "multiple of the block size.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    whole = key.size(-2) // block * block
    return _attention(query, key[..., :whole, :], value[..., :whole, :], sink)


@blockwise_attention.mistake(
    "only the last block",
    "Your result contains only the last block. Do you overwrite both sums in each block?",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    return _outputs_of_blocks(query, key, value, block)[-1]


@blockwise_attention.mistake(
    "all axes reversed",
    "You transpose the keys with `.T`, which reverses all axes. With several texts and heads, those would change "
    "places, too. Swap only the last two.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    weighted, total = _flash(query, key, value, block, sink, transpose=lambda k: k.permute(*reversed(range(k.dim()))))
    return weighted / total


@blockwise_attention.mistake("the scores aren't scaled", "Your scores aren't divided by the root of d_k.")
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    weighted, total = _flash(query, key, value, block, sink, divisor=1)
    return weighted / total


@blockwise_attention.mistake("divided by d_k", "You divide the scores by d_k. Divide them by its root.")
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    weighted, total = _flash(query, key, value, block, sink, divisor=query.size(-1))
    return weighted / total


def _blocks(
    query: Tensor, key: Tensor, value: Tensor, block: int, step: int | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """The scores and the values of each block; blocks begin `step` keys apart."""
    for start in range(0, key.size(-2), step or block):
        k, v = key[..., start : start + block, :], value[..., start : start + block, :]
        yield query @ k.mT / math.sqrt(query.size(-1)), v


def _start(query: Tensor, sink: float) -> tuple[Tensor, Tensor, Tensor]:
    """The maximum, the sum of the exponentials and the weighted sum before the first block, when the sink is all."""
    maximum = torch.full_like(query[..., :1], sink)
    return maximum, torch.ones_like(maximum), torch.zeros_like(query)


@blockwise_attention.mistake(
    "divided by the number of keys",
    "You divide the weighted sum by the number of keys. Divide it by the sum of the exponentials.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    return _flash(query, key, value, block, sink)[0] / key.size(-2)


@blockwise_attention.mistake(
    "divided after each block",
    "You divide the weighted sum after each block, and go on adding to the quotient. Keep the sum as it is, and divide "
    "once at the end.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    maximum, total, weighted = _start(query, sink)
    for scores, v in _blocks(query, key, value, block):
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        correction = (maximum - new_maximum).exp()
        e = (scores - new_maximum).exp()
        total = total * correction + e.sum(dim=-1, keepdim=True)
        weighted = weighted * correction + e @ v
        weighted = weighted / total
        maximum = new_maximum
    return weighted


@blockwise_attention.mistake(
    "divided after each block and at the end",
    "You divide the weighted sum after each block, and once more at the end. Divide only at the end.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    maximum, total, weighted = _start(query, sink)
    for scores, v in _blocks(query, key, value, block):
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        correction = (maximum - new_maximum).exp()
        e = (scores - new_maximum).exp()
        total = total * correction + e.sum(dim=-1, keepdim=True)
        weighted = weighted * correction + e @ v
        weighted = weighted / total
        maximum = new_maximum
    return weighted / total


@blockwise_attention.mistake(
    "multiplied by the root of d_k",
    "You multiply the scores by the root of d_k. Divide them by it.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    weighted, total = _flash(query, key, value, block, sink, divisor=1 / math.sqrt(query.size(-1)))
    return weighted / total


@blockwise_attention.mistake(
    "the root of the block size",
    "You divide the scores by the root of the block size. Divide them by the root of d_k, the length of a query.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    weighted, total = _flash(query, key, value, block, sink, divisor=math.sqrt(block))
    return weighted / total


@blockwise_attention.mistake(
    "the root of the number of keys",
    "You divide the scores by the root of the number of keys. Divide them by the root of d_k, the length of a query.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    weighted, total = _flash(query, key, value, block, sink, divisor=math.sqrt(key.size(-2)))
    return weighted / total


@blockwise_attention.mistake(
    "the root of the number of queries",
    "You divide the scores by the root of the number of queries. Divide them by the root of d_k, the length of each "
    "query.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    weighted, total = _flash(query, key, value, block, sink, divisor=math.sqrt(query.size(-2)))
    return weighted / total


@blockwise_attention.mistake(
    "the maxima aren't scaled",
    "You divide by the root of d_k only inside the exponentials of a block. The correction then compares maxima that "
    "aren't scaled. Scale the scores before anything else.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    root = math.sqrt(query.size(-1))
    maximum, total, weighted = _start(query, sink)
    for scores, v in _blocks(query * root, key, value, block):
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        correction = (maximum - new_maximum).exp()
        e = ((scores - new_maximum) / root).exp()
        total = total * correction + e.sum(dim=-1, keepdim=True)
        weighted = weighted * correction + e @ v
        maximum = new_maximum
    return weighted / total


@blockwise_attention.mistake(
    "the exponentials averaged",
    "You average the exponentials of a block. The weighted sum has to be divided by their sum.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    maximum, total, weighted = _start(query, sink)
    for scores, v in _blocks(query, key, value, block):
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        correction = (maximum - new_maximum).exp()
        e = (scores - new_maximum).exp()
        total = total * correction + e.mean(dim=-1, keepdim=True)
        weighted = weighted * correction + e @ v
        maximum = new_maximum
    return weighted / total


@blockwise_attention.mistake(
    "one maximum for all queries",
    "You take the largest score of the whole block. Each query has a maximum of its own: relative to a far larger one, "
    "all its exponentials are 0, and 0 divided by 0 is NaN.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    maximum, total, weighted = _start(query, sink)
    for scores, v in _blocks(query, key, value, block):
        new_maximum = torch.maximum(maximum, scores.max())
        correction = (maximum - new_maximum).exp()
        e = (scores - new_maximum).exp()
        total = total * correction + e.sum(dim=-1, keepdim=True)
        weighted = weighted * correction + e @ v
        maximum = new_maximum
    return weighted / total


@blockwise_attention.mistake(
    "the first block left out",
    "Your result lacks the first block of keys. Where do you begin?",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    rest = key[..., block:, :], value[..., block:, :]
    weighted, total = _flash(query, *rest, block, sink) if rest[0].size(-2) else _start(query, sink)[:0:-1]
    return weighted / total


@blockwise_attention.mistake(
    "only the first block",
    "Your result contains only the first block of keys. Does your code return inside the loop?",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    return _attention(query, key[..., :block, :], value[..., :block, :], sink)


@blockwise_attention.mistake(
    "as many keys as queries",
    "Your blocks end where the queries end. There may be more keys than queries, so go through all keys.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    n = math.ceil(query.size(-2) / block) * block
    return _attention(query, key[..., :n, :], value[..., :n, :], sink)


@blockwise_attention.mistake(
    "the first axis taken for the keys",
    "Right if there are only two axes. With more, the first one belongs to the texts: the keys are along the last axis "
    "but one.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    n = math.ceil(key.size(0) / block) * block
    return _attention(query, key[..., :n, :], value[..., :n, :], sink)


@blockwise_attention.mistake(
    "both sums overwritten",
    "After each block your sums contain only that block. Add it to what you have summed so far, corrected.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    maximum, total, weighted = _start(query, sink)
    for scores, v in _blocks(query, key, value, block):
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        e = (scores - new_maximum).exp()
        total = e.sum(dim=-1, keepdim=True)
        weighted = e @ v
        maximum = new_maximum
    return weighted / total


@blockwise_attention.mistake(
    "the weighted sum overwritten",
    "Your weighted sum contains only the last block, while the sum of the exponentials contains all of them. Add each "
    "block to what you have so far, corrected.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    maximum, total, weighted = _start(query, sink)
    for scores, v in _blocks(query, key, value, block):
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        correction = (maximum - new_maximum).exp()
        e = (scores - new_maximum).exp()
        total = total * correction + e.sum(dim=-1, keepdim=True)
        weighted = e @ v
        maximum = new_maximum
    return weighted / total


@blockwise_attention.mistake(
    "blocks that overlap",
    "Your blocks begin one key apart and overlap, so most keys count several times. Each block begins where the one "
    "before it ends.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    maximum, total, weighted = _start(query, sink)
    for scores, v in _blocks(query, key, value, block, step=1):
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        correction = (maximum - new_maximum).exp()
        e = (scores - new_maximum).exp()
        total = total * correction + e.sum(dim=-1, keepdim=True)
        weighted = weighted * correction + e @ v
        maximum = new_maximum
    return weighted / total


@blockwise_attention.mistake(
    "the last block filled up with zeros",
    "You fill up the last block with keys of zeros. They have the score 0, and so they get a weight as if they were "
    "keys. Let the last block be shorter.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    rows = (0, 0, 0, -key.size(-2) % block)
    return _attention(query, nn.functional.pad(key, rows), nn.functional.pad(value, rows), sink)


@blockwise_attention.mistake(
    "powers of 2",
    "You compute powers of 2. An exponential is a power of e.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    return _attention(query * math.log(2), key, value, sink * math.log(2))


@blockwise_attention.mistake(
    "a softmax instead of the exponentials",
    "You take a softmax of the scores of a block, which makes every block weigh the same. Take exponentials relative "
    "to the maximum, and divide only at the end.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    maximum, total, weighted = _start(query, sink)
    for scores, v in _blocks(query, key, value, block):
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        correction = (maximum - new_maximum).exp()
        e = scores.softmax(dim=-1)
        total = total * correction + e.sum(dim=-1, keepdim=True)
        weighted = weighted * correction + e @ v
        maximum = new_maximum
    return weighted / total


@blockwise_attention.mistake(
    "a softmax in the weighted sum",
    "In the weighted sum you weight the values of a block by a softmax. Weight them by the same exponentials that you "
    "add up.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    maximum, total, weighted = _start(query, sink)
    for scores, v in _blocks(query, key, value, block):
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        correction = (maximum - new_maximum).exp()
        e = (scores - new_maximum).exp()
        total = total * correction + e.sum(dim=-1, keepdim=True)
        weighted = weighted * correction + scores.softmax(dim=-1) @ v
        maximum = new_maximum
    return weighted / total


@blockwise_attention.mistake(
    "weighted by the scores",
    "You weight the values by the scores themselves. Weight them by the exponentials.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    maximum, total, weighted = _start(query, sink)
    for scores, v in _blocks(query, key, value, block):
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        correction = (maximum - new_maximum).exp()
        e = (scores - new_maximum).exp()
        total = total * correction + e.sum(dim=-1, keepdim=True)
        weighted = weighted * correction + scores @ v
        maximum = new_maximum
    return weighted / total


@blockwise_attention.mistake(
    "the keys weighted instead of the values",
    "You sum up keys. The keys decide only the weights: sum up the values.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    return _attention(query, key, key, sink)


@blockwise_attention.mistake(
    "new exponentials corrected as well",
    "You correct the sums after adding the new block. Its exponentials are relative to the new maximum already: "
    "correct what you had before, and then add.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    maximum, total, weighted = _start(query, sink)
    for scores, v in _blocks(query, key, value, block):
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        correction = (maximum - new_maximum).exp()
        e = (scores - new_maximum).exp()
        total = (total + e.sum(dim=-1, keepdim=True)) * correction
        weighted = (weighted + e @ v) * correction
        maximum = new_maximum
    return weighted / total


@blockwise_attention.mistake(
    "the outputs of the blocks in a row",
    "You apply a softmax within each block, and put the results one below the other. A query has one output: all "
    "blocks together share one softmax, and their contributions are added.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    return torch.cat(_outputs_of_blocks(query, key, value, block), dim=-2)


@blockwise_attention.mistake(
    "the maximum begins with -100",
    "Your maximum begins with a negative number that isn't small enough. If all scores of a query are far below it, "
    "all exponentials are 0, and you divide by 0. Begin with the sink.",
)
def _(query: Tensor, key: Tensor, value: Tensor, block: int, sink: float) -> Tensor:
    weighted, total = _flash(query, key, value, block, sink, start=-100.0)
    return weighted / total


# 4 --------------------------------------------------------------------------------------------------------------------

GradientOf = Callable[[Tensor], Tensor]


def _pull_to_two(weight: Tensor) -> Tensor:
    """weight - 2, in bfloat16"""
    return _bfloat16(weight) - 2


def _wave(weight: Tensor) -> Tensor:
    """the sine of 3 * weight, in bfloat16"""
    return (3 * _bfloat16(weight)).sin()


def _small(weight: Tensor) -> Tensor:
    """the weight / 2 ** 24, in bfloat16"""
    return _bfloat16(weight) / 2**24


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
    {"weight": torch.tensor([1.5, -0.7]), "gradient_of": _small, "learning_rate": 20_000.0, "steps": 60},
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
    "All your gradients belong to the weight at the start. Is the bfloat16 copy made before the loop, or does the "
    "weight change only after it? Each step needs a copy of the weight as it is now.",
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


@mixed_precision.mistake(
    "the weight rounded after every step",
    "You compute each step in float32, but round the weight to bfloat16 afterwards, so small steps are lost. The "
    "weight stays in float32.",
)
def _(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    for _ in range(steps):
        weight = mixed_precision.reference(weight, gradient_of, learning_rate, 1).bfloat16().float()
    return weight


@mixed_precision.mistake(
    "one step too many",
    "You take one step too many.",
)
def _(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    return mixed_precision.reference(weight, gradient_of, learning_rate, steps + 1)


@mixed_precision.mistake(
    "divided by the learning rate",
    "You divide the gradient by the learning rate. Multiply it by the learning rate.",
)
def _(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    return mixed_precision.reference(weight, gradient_of, 1 / learning_rate, steps)


@mixed_precision.mistake(
    "the learning rate divided by the steps",
    "You divide the learning rate by the number of steps. Each step takes the whole learning rate.",
)
def _(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    return mixed_precision.reference(weight, gradient_of, learning_rate / steps, steps)


@mixed_precision.mistake(
    "the weight replaced by the step",
    "Your weight becomes the step itself. Subtract the step from the weight.",
)
def _(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    for _ in range(steps):
        weight = -learning_rate * gradient_of(weight.bfloat16()).float()
    return weight


@mixed_precision.mistake(
    "the learning rate in bfloat16",
    "Your learning rate is rounded to bfloat16, so each step is a little too long or too short. Everything but the two "
    "passes is computed in float32.",
)
def _(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    rounded = float(torch.tensor(learning_rate).bfloat16())
    return mixed_precision.reference(weight, gradient_of, rounded, steps)


@mixed_precision.mistake(
    "a copy that is one step old",
    "Your bfloat16 copy is always one step behind: you make it before you change the weight, and use it in the next "
    "step. Make it from the weight as it is now.",
)
def _(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    copy = weight.bfloat16()
    for _ in range(steps):
        gradient = gradient_of(copy).float()
        copy = weight.bfloat16()
        weight = weight - learning_rate * gradient
    return weight


@mixed_precision.mistake(
    "the copy trained on its own",
    "You subtract the step from the bfloat16 copy as well, where small steps are rounded away. Make a new copy of the "
    "float32 weight in each step.",
)
def _(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    copy = weight.bfloat16()
    for _ in range(steps):
        gradient = gradient_of(copy)
        weight, copy = weight - learning_rate * gradient.float(), copy - learning_rate * gradient
    return weight


@mixed_precision.mistake(
    "the gradient in float16",
    "You convert the gradient to float16 on the way. That has a smaller range than bfloat16: small gradients become 0, "
    "or lose most of their digits.",
)
def _(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    return mixed_precision.reference(weight, lambda copy: gradient_of(copy).half(), learning_rate, steps)


@mixed_precision.mistake(
    "the gradient returned",
    "You return the last gradient. Return the weight.",
)
def _(weight: Tensor, gradient_of: GradientOf, learning_rate: float, steps: int) -> Tensor:
    before = mixed_precision.reference(weight, gradient_of, learning_rate, steps - 1)
    return gradient_of(before.bfloat16())


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
        "gradient": torch.tensor([2.0, math.inf]).half(),
        "learning_rate": 0.5,
        "scale": 1.0,
        "good_steps": 2,
        "growth_interval": 5,
    },
    {
        "weight": torch.tensor([1.5, -2.0]),
        "gradient": torch.tensor([math.inf, math.inf]).half(),
        "learning_rate": 0.5,
        "scale": 64.0,
        "good_steps": 3,
        "growth_interval": 5,
    },
    {
        "weight": torch.tensor([0.25, 3.0]),
        "gradient": torch.tensor([math.inf, 7.0]).half(),
        "learning_rate": 0.1,
        "scale": 32.0,
        "good_steps": 1,
        "growth_interval": 5,
    },
    {
        "weight": torch.tensor([2.0, 0.5]),
        "gradient": torch.tensor([60_000.0, -50_000.0]).half(),
        "learning_rate": 0.5,
        "scale": 32_768.0,
        "good_steps": 2,
        "growth_interval": 5,
    },
    {
        "weight": torch.tensor([1.25, -0.75]),
        "gradient": torch.zeros(2).half(),
        "learning_rate": 0.5,
        "scale": 4.0,
        "good_steps": 2,
        "growth_interval": 5,
    },
    results=("weight", "scale", "good_steps"),
    differentiable=False,
    insight="With bfloat16 none of this is needed, because it has the range of float32, though fewer digits.",
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
    "though each of its numbers is finite. Check whether each number is finite.",
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


@loss_scaling_step.mistake(
    "step and gradient in float16",
    "Nothing converts your gradient to float32 before it is multiplied by the learning rate and divided by the scale, "
    "so the step is rounded to float16. Convert the gradient before you compute anything with it.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale / 2, 0
    return _good_step(weight, (learning_rate * gradient / scale).float(), 1.0, scale, good, interval)


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
    "You notice infinities but not NaN, which infinity minus infinity gives in the backward pass. NaN isn't equal to "
    "anything, not even to itself.",
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
    "You halve the scale with `//`, which rounds down. A scale of 1 becomes 0, and then every gradient is 0 or NaN.",
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


@loss_scaling_step.mistake(
    "an overflow of the norm",
    "You look for an infinite norm. A norm in float16 overflows by itself above 65,504, though each number of the "
    "gradient is finite. Check whether each number is finite.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if not gradient.float().norm().half().isfinite():
        return weight, scale / 2, 0
    return _good_step(weight, gradient.float() / scale, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "minus infinity is overlooked",
    "You notice infinity and NaN, but not minus infinity. Do you look at the largest number only, or compare only with "
    "plus infinity?",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if gradient.isposinf().any() or gradient.isnan().any():
        return weight, scale / 2, 0
    return _good_step(weight, gradient.float() / scale, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "plus infinity is overlooked",
    "You notice minus infinity and NaN, but not plus infinity. Do you look at the smallest number only?",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if not gradient.min().isfinite():
        return weight, scale / 2, 0
    return _good_step(weight, gradient.float() / scale, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "only plus infinity is noticed",
    "You notice plus infinity only. The gradient may also contain minus infinity or NaN, and NaN isn't equal to "
    "anything, not even to itself.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if gradient.isposinf().any():
        return weight, scale / 2, 0
    return _good_step(weight, gradient.float() / scale, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "only the first number is examined",
    "You look at the first number of the gradient only. Any of them may be infinite or NaN.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if not gradient.flatten()[0].isfinite():
        return weight, scale / 2, 0
    return _good_step(weight, gradient.float() / scale, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "only the last number is examined",
    "You look at the last number of the gradient only. Any of them may be infinite or NaN.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if not gradient.flatten()[-1].isfinite():
        return weight, scale / 2, 0
    return _good_step(weight, gradient.float() / scale, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "an overflow is never noticed",
    "You take the step whatever the gradient contains. What does your condition look at? No number is infinite and NaN "
    "at once, and the weight itself is still finite.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    return _good_step(weight, gradient.float() / scale, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "infinities replaced before the test",
    "You replace infinite numbers by large ones before you look for them, so that you no longer find them. Look first: "
    "an overflow means that the step is skipped.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    gradient = gradient.clamp(-65_504, 65_504)
    return loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "doubled after an overflow",
    "You double the scale after an overflow. The gradient overflows because the scale is too large: halve it.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, 2 * scale, 0
    return loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "good steps counted on after an overflow",
    "After an overflow you add the skipped step to the good ones. Begin again from 0.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale / 2, good + 1
    return loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "the skipped step counts as a good one",
    "After an overflow your number of good steps is 1. The step is skipped, so begin again from 0. Is it counted "
    "further below, too?",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale / 2, 1
    return loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "a good step after all",
    "After an overflow you halve the scale, but then go on as in a good step: you subtract the gradient, and count "
    "the step. Nothing more should happen after an overflow.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight - learning_rate * gradient.float() / (scale / 2), scale / 2, 1
    return loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "the count begins with 1 when the scale grows",
    "When the scale doubles, you begin to count from 1. Begin from 0: no step has been taken with the new scale yet.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale / 2, 0
    stepped, new, n = loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)
    return stepped, new, 1 if new > scale else n


@loss_scaling_step.mistake(
    "the count stays when the scale grows",
    "When the scale doubles, you leave the number of good steps as it was. Begin again from 0.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale / 2, 0
    stepped, new, n = loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)
    return stepped, new, good if new > scale else n


@loss_scaling_step.mistake(
    "halved when it should double",
    "After many good steps you halve the scale. Without an overflow it can be larger: double it.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale / 2, 0
    stepped, new, n = loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)
    return stepped, scale / 2 if new > scale else new, n


@loss_scaling_step.mistake(
    "good steps aren't counted",
    "After a good step, you return the number of good steps as it was. Add this one.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale / 2, 0
    stepped, new, _ = loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)
    return stepped, new, 0 if new > scale else good


@loss_scaling_step.mistake(
    "each good step resets the count",
    "After a good step, you begin to count from 0. Only an overflow does that, and a change of the scale: otherwise "
    "add one.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale / 2, 0
    stepped, new, _ = loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)
    return stepped, new, 0


@loss_scaling_step.mistake(
    "the scale grows a step too early",
    "Your scale doubles after one good step fewer than `growth_interval`. Do you add 1 for the present step twice?",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    return loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval - 1)


@loss_scaling_step.mistake(
    "the scale grows from the step before on",
    "Your scale doubles when one good step is still missing, not after `growth_interval` of them. Which number do you "
    "compare?",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    interval = min(interval, good + 1) if good + 2 >= interval else interval
    return loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "the scale grows in the wrong steps",
    "Your scale doubles in each step but the one in which it should: the condition, or its two results, are the wrong "
    "way round.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale / 2, 0
    stepped = loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)[0]
    return (stepped, scale, good + 1) if good + 1 == interval else (stepped, 2 * scale, 0)


@loss_scaling_step.mistake(
    "the scale doubles in each good step",
    "You double the scale after every good step. Wait until there are `growth_interval` of them in a row: until then, "
    "the scale stays as it is, and the number of good steps grows.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    return loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, good + 1)


@loss_scaling_step.mistake(
    "a gradient of zeros taken for an overflow",
    "You skip the step and halve the scale if all numbers of the gradient are 0. They are finite: this is a good step, "
    "and a smaller scale would make even more of them 0.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient) or not gradient.any():
        return weight, scale / 2, 0
    return loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "unscaled in bfloat16",
    "You convert the gradient to bfloat16, which has only two or three digits. Convert it to float32.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale / 2, 0
    return _good_step(weight, gradient.bfloat16() / scale, learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "divided by the learning rate",
    "You divide the gradient by the learning rate. Multiply it by the learning rate.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale / 2, 0
    return _good_step(weight, gradient.float() / scale, 1 / learning_rate, scale, good, interval)


@loss_scaling_step.mistake(
    "the weight in float16",
    "Your weight is in float16, where small steps are rounded away. It stays in float32.",
)
def _(weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int) -> Scaled:
    if _overflows(gradient):
        return weight, scale / 2, 0
    stepped, new, n = loss_scaling_step.reference(weight, gradient, learning_rate, scale, good, interval)
    return stepped.half(), new, n


_SLIPS_OF_A_STEP = {
    "NaN is overlooked": "test",
    "infinity is overlooked": "test",
    "not unscaled": "unscaling",
    "unscaled in float16": "unscaling",
    "multiplied by the scale": "unscaling",
    "the step added": "sign",
    "the step is taken in spite of an overflow": "step",
    "the scale stays after an overflow": "scale",
    "good steps not reset by an overflow": "count",
    "the scale doesn't grow in time": "growth",
    "good steps not reset when the scale grows": "growth",
    "no step when the scale grows": "growth",
}
"""Ordinary mistakes, and the part of the step that each is in; nobody makes two in the same part."""


def _step_with(*slips: str) -> Callable[..., Scaled]:
    """Return an answer with these mistakes."""

    def answer(
        weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int
    ) -> Scaled:
        overflows = not bool(gradient.isfinite().all())
        if "NaN is overlooked" in slips:
            overflows = bool(gradient.isinf().any())
        if "infinity is overlooked" in slips:
            overflows = bool(gradient.isnan().any())
        unscaled = gradient.float() / scale
        if "not unscaled" in slips:
            unscaled = gradient.float()
        if "unscaled in float16" in slips:
            unscaled = (gradient / scale).float()
        if "multiplied by the scale" in slips:
            unscaled = gradient.float() * scale
        stepped = weight - (-1 if "the step added" in slips else 1) * learning_rate * unscaled
        if overflows:
            return (
                stepped if "the step is taken in spite of an overflow" in slips else weight,
                scale if "the scale stays after an overflow" in slips else scale / 2,
                good if "good steps not reset by an overflow" in slips else 0,
            )
        if good + 1 == interval + ("the scale doesn't grow in time" in slips):
            return (
                weight if "no step when the scale grows" in slips else stepped,
                2 * scale,
                good + 1 if "good steps not reset when the scale grows" in slips else 0,
            )
        return stepped, scale, good + 1

    return answer


loss_scaling_step = with_pairs(
    topic,
    loss_scaling_step,
    {
        (a, b): _step_with(a, b)
        for a, b in combinations(_SLIPS_OF_A_STEP, 2)
        if _SLIPS_OF_A_STEP[a] != _SLIPS_OF_A_STEP[b]
    },
)


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
        "gradients": [[torch.zeros(2), numbers(2)], [numbers(2, seed=1), numbers(2, seed=2)]],
        "n_tokens": [[0, 7], [5, 9]],
    },
    {"gradients": [[numbers(1, 2, seed=5)]], "n_tokens": [[6]]},
    {"gradients": [[numbers(2), numbers(2, seed=1)], [numbers(2, seed=2)]], "n_tokens": [[3, 8], [6]]},
    {"gradients": [[torch.zeros(2), torch.zeros(2)], [numbers(2), numbers(2, seed=1)]], "n_tokens": [[0, 0], [5, 3]]},
    {
        "gradients": [[numbers(2)], [numbers(2, seed=1), numbers(2, seed=2)], [numbers(2, seed=3)]],
        "n_tokens": [[4], [2, 9], [7]],
    },
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
    "A GPU may have no tokens at all in a step. You divide by its number of tokens. Add sums, and divide once at the "
    "end.",
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


@step_gradient.mistake(
    "divided by the number of GPUs",
    "You divide by the number of GPUs. Divide by the number of all tokens.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return _weighted_sum(gradients, n_tokens) / len(gradients)


@step_gradient.mistake(
    "the mean of plain means",
    "You average the batches of each GPU, and then the GPUs, as if all had the same number of tokens. Multiply each "
    "gradient by its number of tokens first.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return torch.stack([torch.stack(of_gpu).mean(dim=0) for of_gpu in gradients]).mean(dim=0)


@step_gradient.mistake(
    "plain means added",
    "You average the batches of each GPU as if all had the same number of tokens, and add up the results. Multiply "
    "each gradient by its number of tokens, and divide once, by all tokens.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return torch.stack([torch.stack(of_gpu).mean(dim=0) for of_gpu in gradients]).sum(dim=0)


@step_gradient.mistake(
    "added within a GPU, averaged over the GPUs",
    "You add up the gradients of each GPU's batches, and average over the GPUs. That is what happens if `backward` is "
    "called for each batch and nothing takes care of the numbers of tokens. Each gradient is a mean: multiply it by "
    "its number of tokens first.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return torch.stack([torch.stack(of_gpu).sum(dim=0) for of_gpu in gradients]).mean(dim=0)


@step_gradient.mistake(
    "the plain sum within a GPU",
    "You weight the GPUs by their tokens, but within a GPU you add up its batches without weights. A mean times its "
    "number of tokens is a sum, and only sums may be added.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    sums = [torch.stack(of_gpu).sum(dim=0) for of_gpu in gradients]
    return _mean_of_gpu(sums, [*map(sum, n_tokens)])


@step_gradient.mistake(
    "GPUs weighted by their batches",
    "Each GPU's own mean is right, but then you weight the GPUs by their numbers of batches. Weight them by their "
    "tokens.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return _mean_of_gpu(_means_of_gpus(gradients, n_tokens), [*map(len, gradients)])


@step_gradient.mistake(
    "each divided by its tokens",
    "You divide each gradient by its number of tokens. It is a mean already: to get a sum, multiply.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    pairs = zip(chain(*gradients), chain(*n_tokens), strict=True)
    return torch.stack([gradient / max(1, n) for gradient, n in pairs]).sum(dim=0) / sum(map(sum, n_tokens))


@step_gradient.mistake(
    "divided by the number of batches as well",
    "You divide by the tokens of all GPUs, and then by the number of batches. The first is enough.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return step_gradient.reference(gradients, n_tokens) / len([*chain(*gradients)])


@step_gradient.mistake(
    "the sum begins anew for each GPU",
    "Your sum contains only the last GPU, but you divide it by the tokens of all. Do you set it to 0 inside the loop?",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return _weighted_sum(gradients[-1:], n_tokens[-1:]) / sum(map(sum, n_tokens))


@step_gradient.mistake(
    "only the last GPU",
    "This is the gradient of the last GPU alone. Do you begin anew inside the loop?",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return _mean_of_gpu(gradients[-1], n_tokens[-1])


@step_gradient.mistake("the first GPU left out", "The first GPU is missing. Where does your loop begin?")
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return _mean_of_listed(gradients[1:], n_tokens[1:])


def _mean_of_listed(gradients: Gradients, n_tokens: Counts) -> Tensor:
    """The mean as a loop computes it: without any batches, it divides 0 by 0."""
    total: Any = 0
    for gradient, n in zip(chain(*gradients), chain(*n_tokens), strict=True):
        total = total + n * gradient
    return total / sum(map(sum, n_tokens))


@step_gradient.mistake(
    "the last batch of each GPU left out",
    "The last batch of each GPU is missing, so a GPU with a single batch counts for nothing. Where does your loop end?",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return _mean_of_listed([g[:-1] for g in gradients], [n[:-1] for n in n_tokens])


@step_gradient.mistake(
    "the mean over the GPUs, idle ones included",
    "Each GPU's own mean is right, but then you average over the GPUs as if all had the same number of tokens, even "
    "one that has none. Weight each GPU by its tokens.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return torch.stack(_means_of_gpus(gradients, n_tokens)).mean(dim=0)


@step_gradient.mistake(
    "the sum of the GPUs' means",
    "Each GPU's own mean is right, but then you add the means, so the gradient grows with the number of GPUs that have "
    "tokens. Weight each GPU by its tokens, and divide by all of them.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return torch.stack(_means_of_gpus(gradients, n_tokens)).sum(dim=0)


def _means_of_gpus(gradients: Gradients, n_tokens: Counts) -> list[Tensor]:
    """Each GPU's own mean; zeros if it has no tokens."""
    return [_weighted_sum([g], [n]) / max(1, sum(n)) for g, n in zip(gradients, n_tokens, strict=True)]


@step_gradient.mistake(
    "the mean of the means, without empty batches",
    "You leave out batches without tokens, but you average the others as if all had the same number of tokens. "
    "Multiply each gradient by its number of tokens first.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    pairs = zip(chain(*gradients), chain(*n_tokens), strict=True)
    return torch.stack([gradient for gradient, n in pairs if n]).mean(dim=0)


@step_gradient.mistake(
    "each divided by its tokens, and nothing else",
    "You divide each gradient by its number of tokens, and add. It is a mean already: multiply by its number of "
    "tokens, add, and divide by all tokens.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    pairs = zip(chain(*gradients), chain(*n_tokens), strict=True)
    return torch.stack([gradient / max(1, n) for gradient, n in pairs]).sum(dim=0)


@step_gradient.mistake(
    "the first GPU's sum, divided by all tokens",
    "Your sum contains only the first GPU. Add the other GPUs to it.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return _weighted_sum(gradients[:1], n_tokens[:1]) / sum(map(sum, n_tokens))


@step_gradient.mistake(
    "divided by the tokens of the first GPU",
    "You divide by the tokens of the first GPU. Divide by the tokens of all GPUs together.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return _weighted_sum(gradients, n_tokens) / torch.tensor(sum(n_tokens[0]))


@step_gradient.mistake(
    "weighted by the tokens twice",
    "You multiply each gradient by the tokens of its batch, and the sum of each GPU by the GPU's tokens once more. The "
    "sums of the GPUs may be added as they are.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    sums = [_weighted_sum([g], [n]) for g, n in zip(gradients, n_tokens, strict=True)]
    return _mean_of_gpu(sums, [*map(sum, n_tokens)])


@step_gradient.mistake(
    "divided by the tokens of one batch",
    "You divide by the tokens of the last batch. Add up the tokens of all batches, and divide by their sum.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return _weighted_sum(gradients, n_tokens) / n_tokens[-1][-1]


@step_gradient.mistake(
    "only the last batch",
    "Your sum contains only the last batch. Add each batch to what you have so far.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return gradients[-1][-1] * n_tokens[-1][-1] / sum(map(sum, n_tokens))


@step_gradient.mistake(
    "only the first batch",
    "This is the gradient of the very first batch. Does your code return inside the loop?",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return gradients[0][0] * n_tokens[0][0] / torch.tensor(n_tokens[0][0])


@step_gradient.mistake(
    "the first gradient counted once more",
    "Your sum begins with the first gradient, which is then added like all others. Begin with zeros.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    total = gradients[0][0] + _weighted_sum(gradients, n_tokens)
    return total / sum(map(sum, n_tokens))


@step_gradient.mistake(
    "a batch without tokens ends the loop",
    "You leave the loop at a batch without tokens. The batches after it are lost: such a batch adds nothing, so it "
    "needs no special case.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    kept = [n.index(0) if 0 in n else len(n) for n in n_tokens]
    left = [n[:k] for n, k in zip(n_tokens, kept, strict=True)]
    total = torch.zeros_like(gradients[0][0])
    for of_gpu, counts in zip(gradients, left, strict=True):
        for gradient, n in zip(of_gpu, counts, strict=False):
            total += n * gradient
    return total / sum(map(sum, left))


@step_gradient.mistake(
    "one token too many",
    "You divide by one token too many. Begin to count with 0.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return _weighted_sum(gradients, n_tokens) / (1 + sum(map(sum, n_tokens)))


@step_gradient.mistake(
    "the tokens of each GPU's first batch",
    "You take the tokens of a GPU's first batch for all of its batches. Each batch has a number of its own.",
)
def _(gradients: Gradients, n_tokens: Counts) -> Tensor:
    return step_gradient.reference(gradients, [[n[0]] * len(n) for n in n_tokens])


# 7 --------------------------------------------------------------------------------------------------------------------

Examples = tuple[Tensor, Tensor]
"""States, (tokens, d_model), and the expected tokens, (tokens,), int64."""


class _LinearInFloat16Range(torch.autograd.Function):
    """A linear layer in which too large a gradient of the weight becomes infinite, as in float16; none is rounded."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(states)
        with torch.autocast("cpu", enabled=False):
            return states @ weight + bias

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, Tensor]:
        (states,) = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            of_weight = states.mT @ gradient
            of_weight = torch.where(of_weight.half().isinf(), of_weight * math.inf, of_weight)
            return None, of_weight, gradient.sum(dim=0)


class _Linear(nn.Module):
    """A model with the range of float16, but the precision of float32, so that all right answers agree."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(numbers(3, 4, seed=seed))
        self.bias = nn.Parameter(numbers(4, seed=seed + 1))

    def forward(self, states: Tensor) -> Any:
        return _LinearInFloat16Range.apply(states, self.weight, self.bias)  # type: ignore[no-untyped-call]

    def __repr__(self) -> str:
        return "a linear model whose weight has gradients that overflow beyond 65,504"


def _step(*sizes: int, seed: int) -> list[Examples]:
    """The batches of a step, with these numbers of tokens."""
    return [
        (numbers(size, 3, seed=seed + i), (4 * numbers(size, seed=seed + 50 + i)).long() % 4)
        for i, size in enumerate(sizes)
    ]


@topic.exercise(
    {  # batches of different sizes, no clipping, no scaling
        "model": _Linear(0),
        "steps": [_step(2, 5, seed=10), _step(4, 1, 2, seed=20)],
        "learning_rate": 0.5,
        "max_norm": 100.0,
        "scale": 1.0,
    },
    {  # clipping
        "model": _Linear(2),
        "steps": [_step(4, seed=30), _step(3, seed=40), _step(3, seed=45)],
        "learning_rate": 0.5,
        "max_norm": 0.05,
        "scale": 1024.0,
    },
    {  # every gradient of the weight overflows
        "model": _Linear(4),
        "steps": [_step(4, seed=50), _step(3, seed=60)],
        "learning_rate": 0.5,
        "max_norm": 100.0,
        "scale": 2.0**40,
    },
    {  # the first gradients overflow, the later ones don't
        "model": _Linear(6),
        "steps": [_step(4, 2, seed=70 + i) for i in range(7)],
        "learning_rate": 0.5,
        "max_norm": 0.2,
        "scale": 2.0**19,
    },
    differentiable=False,
    insight="Unscale before you clip, and let the scaler take the step: it skips one whose gradients overflowed.",
)
def train_with_loss_scaling(
    model: nn.Module, steps: list[list[Examples]], learning_rate: float, max_norm: float, scale: float
) -> list[float]:
    """SGD in mixed precision, with gradient accumulation, loss scaling and clipping; the loss of each step."""
    optimizer = torch.optim.SGD(model.parameters(), learning_rate)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    losses = []
    for batches in steps:
        optimizer.zero_grad()
        step_loss = 0.0
        n_tokens = sum(len(expected) for _, expected in batches)
        for states, expected in batches:
            with torch.autocast("cpu", torch.float16):
                loss = F.cross_entropy(model(states), expected, reduction="sum") / n_tokens
            scaler.scale(loss).backward()
            step_loss += loss.item()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
        losses.append(step_loss)
    return losses


def _batches(loss: str, weight_in_report: str = "") -> str:
    """The loop over the batches of a step, with another loss, which may be weighted differently in what is reported."""
    return f"""    n_tokens = sum(len(expected) for _, expected in batches)
    for states, expected in batches:
        with torch.autocast("cpu", torch.float16):
            loss = {loss}
        scaler.scale(loss).backward()
        step_loss += loss.item(){weight_in_report}"""


_SUM, _MEAN = 'F.cross_entropy(model(states), expected, reduction="sum")', "F.cross_entropy(model(states), expected)"
_WEIGHTED_ALIKE = f"{_MEAN} / len(batches)"
_CLIPPED = """scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)"""

add_bugs(
    train_with_loss_scaling,
    Bug(
        "unequal batches are weighted wrongly",
        "Train for two steps, each with the same five examples in a single batch. Then, from the same weights, train "
        "for two steps with these examples in two batches, of two and three. All losses should be the same. Are they?",
        _batches(f"{_SUM} / n_tokens"),
        _batches(_WEIGHTED_ALIKE).split("\n", 1)[1],
        (
            WrongRepair(
                "right losses, but wrong gradients",
                "The losses that you report are weighted by tokens, but the gradients still count each batch alike: "
                "they are those of the loss on which you call `backward`.",
                _batches(_WEIGHTED_ALIKE, " * len(batches) * len(expected) / n_tokens"),
            ),
            WrongRepair(
                "right gradients, but wrong losses",
                "Your steps are right, but the losses that you report aren't: they still count each batch alike.",
                _batches(f"{_SUM} / n_tokens", " * n_tokens / len(expected) / len(batches)"),
            ),
            WrongRepair(
                "the sum over all tokens",
                "Your loss is the sum over the tokens of a step, so it grows with their number. It should be their "
                "mean: divide each batch's sum by the tokens of all batches of the step.",
                _batches(_SUM),
            ),
            WrongRepair(
                "the batches' means added up",
                "You add up the mean losses of the batches. With two batches, the result is about twice as large as it "
                "should be. Divide each batch's sum by the tokens of all batches of the step.",
                _batches(_MEAN),
            ),
            WrongRepair(
                "divided by the number of batches",
                "You sum over the tokens, but divide by the number of batches. For the mean over the tokens, divide by "
                "the tokens of all batches of the step.",
                _batches(f"{_SUM} / len(batches)"),
            ),
            WrongRepair(
                "divided by tokens and by batches",
                "Your weights of the batches are right, but then you divide by the number of batches, too. With these "
                "weights, the sum over the batches is the mean already.",
                _batches(f"{_SUM} / n_tokens / len(batches)"),
            ),
        ),
    ),
    Bug(
        "the steps depend on the scale",
        "Train twice from the same weights with a small `max_norm`, once with a scale of 1 and once with 1,024. The "
        "losses should be the same, apart from rounding. Which line sees gradients that are still scaled?",
        _CLIPPED,
        """nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.unscale_(optimizer)""",
        (
            WrongRepair(
                "not clipped when the step is taken",
                "When the step is taken, the gradients haven't been clipped. Clip them before it, at the moment when "
                "they have their true size.",
                "scaler.unscale_(optimizer)",
            ),
            WrongRepair(
                "each number clipped on its own",
                "You clip each number of the gradients on its own. `max_norm` is the largest norm of all gradients "
                "together, so that the direction of the step stays the same.",
                """scaler.unscale_(optimizer)
    nn.utils.clip_grad_value_(model.parameters(), max_norm)""",
            ),
            WrongRepair(
                "each parameter clipped on its own",
                "You clip the gradient of each parameter on its own. `max_norm` is the largest norm of all of them "
                "together, so that the direction of the step stays the same.",
                """scaler.unscale_(optimizer)
    for parameter in model.parameters():
        nn.utils.clip_grad_norm_([parameter], max_norm)""",
            ),
        ),
    ),
    Bug(
        "an overflow ruins the weights",
        "Train for two steps on the same batch with an enormous scale, such as 2.0**40, so that the gradients become "
        "infinite. A step with such gradients should change no weight. What is the loss of the second step?",
        "scaler.step(optimizer)",
        "optimizer.step()",
        (
            WrongRepair(
                "two steps in one",
                "Each good step is taken twice, by the scaler and by the optimizer. One of the two checks whether the "
                "gradients have overflowed, so keep only that one.",
                """scaler.step(optimizer)
    optimizer.step()""",
            ),
        ),
    ),
)


name_mistake(
    train_with_loss_scaling,
    "clipped to the first scale",
    "You multiply `max_norm` by the scale of the first step, but after an overflow the scaler has another. Ask it for "
    "its scale, or clip when the gradients have their true size.",
    {_CLIPPED: "nn.utils.clip_grad_norm_(model.parameters(), max_norm * scale)"},
)
name_mistake(
    train_with_loss_scaling,
    "the sum is scaled, not the mean",
    "All three bugs are repaired. But you scale the sum of the losses and divide the gradients afterwards, so they "
    "overflow sooner than they need to, and more steps are skipped. Divide before `backward`.",
    {
        f"{_SUM} / n_tokens": _SUM,
        "step_loss += loss.item()": "step_loss += loss.item() / n_tokens",
        _CLIPPED: """scaler.unscale_(optimizer)
    for parameter in model.parameters():
        parameter.grad /= n_tokens
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)""",
    },
)
name_mistake(
    train_with_loss_scaling,
    "a part of the step is taken",
    "If some gradients overflow, you still take the step with the others. Skip all of it: without those gradients, the "
    "step has another direction.",
    {
        _CLIPPED: """scaler.unscale_(optimizer)
    for parameter in model.parameters():
        if not parameter.grad.isfinite().all():
            parameter.grad = None
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)""",
        "scaler.step(optimizer)": "optimizer.step()",
    },
)


@train_with_loss_scaling.mistake(
    "tensors instead of floats",
    "Your losses are right, but they are tensors, and the function returns floats: use `.item()`.",
)
def _(
    model: nn.Module, steps: list[list[Examples]], learning_rate: float, max_norm: float, scale: float
) -> list[Tensor]:
    losses = train_with_loss_scaling.reference(model, steps, learning_rate, max_norm, scale)
    return [torch.tensor(loss) for loss in losses]
