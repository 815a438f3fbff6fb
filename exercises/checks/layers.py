"""Checks of 06 layers (§3.1, §3.3, §5.4)."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from exercises.check import Topic, numbers
from exercises.restrictions import LAYER_NORM, forbid

topic = Topic()
check, given = topic.check, topic.given

Layer = Callable[[Tensor], Tensor]


# 1 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {
        "x": torch.tensor([[[1.0, 2.0]]]),
        "w_1": torch.tensor([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]]),
        "b_1": torch.tensor([0.0, 0.0, -3.0]),
        "w_2": torch.tensor([[1.0, 2.0], [1.0, 1.0], [1.0, 0.0]]),
        "b_2": torch.tensor([-5.0, 1.0]),
    },
    {
        "x": numbers(2, 3, 4),
        "w_1": numbers(4, 8, seed=1),
        "b_1": numbers(8, seed=2),
        "w_2": numbers(8, 4, seed=3),
        "b_2": numbers(4, seed=4),
    },
)
def feed_forward(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    """By PyTorch's linear layers."""
    return F.linear(F.relu(F.linear(x, w_1.T, b_1)), w_2.T, b_2)


@feed_forward.mistake(
    "no ReLU",
    "Nothing happens between the two matrices, so the two are no better than one. What does the formula do with "
    "what is negative?",
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return (x @ w_1 + b_1) @ w_2 + b_2


@feed_forward.mistake(
    "ReLU at the end as well",
    "What comes out has no negative numbers. It is added to the residual, which must be able to go down as well as up.",
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return ((x @ w_1 + b_1).relu() @ w_2 + b_2).relu()


@feed_forward.mistake(
    "ReLU at the end only",
    "The ReLU stands in the wrong place: it belongs between the two matrices.",
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return ((x @ w_1 + b_1) @ w_2 + b_2).relu()


@feed_forward.mistake(
    "ReLU before the first bias",
    "The bias comes too late: it belongs to the sum that is compared with 0.",
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return ((x @ w_1).relu() + b_1) @ w_2 + b_2


@feed_forward.mistake(
    "the first bias left out",
    "It would be right if the first bias were 0.",
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return (x @ w_1).relu() @ w_2 + b_2


@feed_forward.mistake(
    "the second bias left out",
    "It would be right if the second bias were 0.",
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return (x @ w_1 + b_1).relu() @ w_2


@feed_forward.mistake(
    "x added",
    "You add x at the end. The residual comes around this network, later; it is no part of it.",
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return x + (x @ w_1 + b_1).relu() @ w_2 + b_2


@feed_forward.mistake(
    "another nonlinearity",
    "What is negative is not quite cut off: that is GELU, which came later. The paper has the plain maximum with 0.",
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return F.gelu(x @ w_1 + b_1) @ w_2 + b_2


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {
        "x": torch.tensor([[1.0, 2.0, 3.0, 6.0], [0.0, 0.0, 0.2, 0.2]]),
        "gain": torch.ones(4),
        "bias": torch.zeros(4),
        "eps": 0.01,
    },
    {"x": numbers(2, 3, 6), "gain": numbers(6, seed=1), "bias": numbers(6, seed=2), "eps": 1e-5},
    {"x": torch.full((2, 4), 3.0), "gain": torch.ones(4), "bias": torch.tensor([0.0, 1.0, 2.0, 3.0]), "eps": 1e-5},
    guard=forbid(LAYER_NORM),
)
def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    """By PyTorch's."""
    return F.layer_norm(x, x.shape[-1:], gain, bias, eps)


def _norm(x: Tensor, dim: int | tuple[int, ...] = -1, correction: int = 0) -> tuple[Tensor, Tensor]:
    """(x - mean, variance)."""
    return x - x.mean(dim, keepdim=True), x.var(dim, correction=correction, keepdim=True)


@layer_norm.mistake(
    "divided by one less",
    "Your variance is a little too large: it is divided by d_model - 1, as statisticians do who estimate from a "
    "sample. Here the vector is all there is.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x, correction=1)
    return centred / (variance + eps).sqrt() * gain + bias


@layer_norm.mistake(
    "divided by one less, and ε outside the root",
    "Two things: the variance is divided by d_model - 1, and ε is added after the root. PyTorch's `std` by itself "
    "does the first.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x, correction=1)
    return centred / (variance.sqrt() + eps) * gain + bias


@layer_norm.mistake(
    "ε outside the root",
    "You add ε to the standard deviation. In the formula it stands beside the variance, under the root.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x)
    return centred / (variance.sqrt() + eps) * gain + bias


@layer_norm.mistake(
    "ε left out",
    "It is nearly right, until all numbers of a vector are equal: then you divide 0 by 0. What is ε for?",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x)
    return centred / variance.sqrt() * gain + bias


@layer_norm.mistake(
    "the mean left in",
    "You divide by the standard deviation, and leave the mean where it was: each vector should come out centred.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return x / (_norm(x)[1] + eps).sqrt() * gain + bias


@layer_norm.mistake(
    "the mean square",
    "You take the mean of the squares of x itself. The variance is that of the squares of x - μ.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return _norm(x)[0] / (x.square().mean(-1, keepdim=True) + eps).sqrt() * gain + bias


@layer_norm.mistake(
    "divided by the variance",
    "You divide by the variance. What is measured in the same unit as x is its root.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x)
    return centred / (variance + eps) * gain + bias


@layer_norm.mistake(
    "over the places",
    "You normalise each dimension over the places of the sentence. Then a word depends on its neighbours, and on "
    "padding. Each vector is normalised by itself.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x, -2)
    return centred / (variance + eps).sqrt() * gain + bias


@layer_norm.mistake(
    "over everything",
    "There is one mean and one variance for the whole tensor. Each vector should have its own.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x, tuple(range(x.dim())))
    return centred / (variance + eps).sqrt() * gain + bias


@layer_norm.mistake(
    "gain and bias left out",
    "It is right as long as all factors are 1 and all shifts 0: use gain and bias.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x)
    return centred / (variance + eps).sqrt()


@layer_norm.mistake(
    "shifted, then scaled",
    "The shift is scaled, too: you add bias before you multiply by gain. The other way round.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x)
    return (centred / (variance + eps).sqrt() + bias) * gain


# 3 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"x": torch.tensor([3.0, 6.0, -3.0]), "rate": 0.25, "draw": torch.tensor([0.1, 0.6, 0.25]), "training": True},
    {"x": torch.tensor([3.0, 6.0, -3.0]), "rate": 0.25, "draw": torch.tensor([0.1, 0.6, 0.25]), "training": False},
    {"x": numbers(3, 4), "rate": 0.4, "draw": numbers(3, 4, seed=1).sigmoid(), "training": True},
    {"x": numbers(3, 4), "rate": 0.0, "draw": numbers(3, 4, seed=1).sigmoid(), "training": True},
)
def dropout(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    """What is not drawn below the rate, stretched."""
    return torch.where(draw < rate, 0, x / (1 - rate)) if training else x


@dropout.mistake(
    "not stretched",
    "What stays is as it was, so the sum gets smaller in training than it is in use. How much larger must the rest "
    "be to make up?",
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x * (draw >= rate) if training else x


@dropout.mistake(
    "shrunk in use",
    "You leave training as it is and multiply in use. That was the first form of dropout; here use must cost "
    "nothing, so the stretching happens in training.",
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x * (draw >= rate) if training else x * (1 - rate)


@dropout.mistake(
    "stretched by the rate",
    "You divide by the share that is dropped. It is the share that stays which has to make up.",
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x * (draw >= rate) / rate if training else x


@dropout.mistake(
    "stretched by the product",
    "You multiply what stays by 1 - rate: it gets smaller, where it should get larger.",
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x * (draw >= rate) * (1 - rate) if training else x


@dropout.mistake(
    "the wrong ones dropped",
    "You keep what should be dropped, and drop what should be kept.",
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x * (draw < rate) / (1 - rate) if training else x


@dropout.mistake(
    "in use as well",
    "It drops out of training, too. Then the model would translate the same sentence in another way each time.",
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x * (draw >= rate) / (1 - rate)


@dropout.mistake(
    "the edge belongs to the others",
    "An entry whose number is just the rate is dropped. It should be below it.",
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x * (draw > rate) / (1 - rate) if training else x


@dropout.mistake(
    "nothing dropped",
    "In training nothing is dropped either: x comes out as it went in.",
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x


# 4 and 5 --------------------------------------------------------------------------------------------------------------


def turned(x: Tensor) -> Tensor:
    """each vector turned round, and doubled"""
    return 2 * x.flip(-1)


def squared(x: Tensor) -> Tensor:
    """the square of each number, plus one"""
    return x.square() + 1


def norm(x: Tensor) -> Tensor:
    """layer norm without gain and bias"""
    return F.layer_norm(x, x.shape[-1:])


RESIDUALS = (
    {"x": torch.tensor([[[1.0, 2.0, 6.0]]]), "sublayer": turned, "norm": norm},
    {"x": numbers(2, 3, 4), "sublayer": squared, "norm": norm},
)


@topic.exercise(*RESIDUALS)
def post_norm(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    """The paper's order."""
    return norm(x + sublayer(x))


@topic.exercise(*RESIDUALS)
def pre_norm(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    """The order of its code."""
    return x + sublayer(norm(x))


@post_norm.mistake(
    "pre-norm",
    "That is the other order, of the next exercise. Here the sum is normalised, and nothing else.",
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return x + sublayer(norm(x))


@pre_norm.mistake(
    "post-norm",
    "That is the paper's order, of the exercise before. Here x reaches the sum as it came, and the sum is left alone.",
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return norm(x + sublayer(x))


@post_norm.mistake(
    "no norm",
    "You add, and do not normalise.",
)
@pre_norm.mistake(
    "no norm",
    "You add, and do not normalise what the sublayer reads.",
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return x + sublayer(x)


@post_norm.mistake(
    "no residual",
    "The sublayer's output is normalised, but x has not been added to it.",
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return norm(sublayer(x))


@pre_norm.mistake(
    "no residual",
    "The sublayer reads what it should, but x has not been added to what it makes.",
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return sublayer(norm(x))


@post_norm.mistake(
    "the sublayer's output normalised",
    "You normalise what the sublayer makes, and then add x. The sum should be normalised.",
)
@pre_norm.mistake(
    "the sublayer's output normalised",
    "You normalise what the sublayer makes. It should be normalised what it reads.",
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return x + norm(sublayer(x))


@post_norm.mistake(
    "normalised before and after",
    "The sublayer should read x as it is: one norm is enough here, at the end.",
)
@pre_norm.mistake(
    "normalised before and after",
    "The sum is normalised as well. In this order nothing touches it.",
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return norm(x + sublayer(norm(x)))


@post_norm.mistake(
    "the sublayer left out",
    "You normalise x and leave the sublayer out: what it makes of x belongs into the sum.",
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return norm(x)


@pre_norm.mistake(
    "the normalised x added",
    "You add the normalised x. The point of this order is that x itself goes on untouched.",
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return norm(x) + sublayer(norm(x))
