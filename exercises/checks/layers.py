"""Checks of 06 layers (§3.1, §3.3, §5.4)."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from exercises.bugs import Bug, WrongRepair, add_bugs
from exercises.check import Topic
from exercises.relations import Finding, Wrong
from exercises.restrictions import LAYER_NORM, forbid
from exercises.tensors import numbers

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
    insight="It works on each position alone: only attention moves information from one position to another.",
)
def feed_forward(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    """By PyTorch's linear layers."""
    return F.linear(F.relu(F.linear(x, w_1.T, b_1)), w_2.T, b_2)


@feed_forward.mistake(
    "no ReLU",
    "There is no ReLU between the two matrices, so together they are no more powerful than a single one. Look at the "
    "max in the formula.",
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return (x @ w_1 + b_1) @ w_2 + b_2


@feed_forward.mistake(
    "ReLU at the end as well",
    "You apply a second ReLU to the output, so nothing negative can come out. The output is added to the residual "
    "stream and has to be able to lower its values, too.",
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return ((x @ w_1 + b_1).relu() @ w_2 + b_2).relu()


@feed_forward.mistake("ReLU at the end only", "The ReLU is in the wrong place. It belongs between the two matrices.")
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return ((x @ w_1 + b_1) @ w_2 + b_2).relu()


@feed_forward.mistake(
    "ReLU before the first bias",
    "You add the first bias after the ReLU. It belongs inside the max: the ReLU is applied to x W_1 + b_1.",
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return ((x @ w_1).relu() + b_1) @ w_2 + b_2


@feed_forward.mistake("the first bias left out", "The first bias isn't used: the result is right only where it is 0.")
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return (x @ w_1).relu() @ w_2 + b_2


@feed_forward.mistake("the second bias left out", "The second bias isn't used: the result is right only where it is 0.")
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return (x @ w_1 + b_1).relu() @ w_2


@feed_forward.mistake(
    "both biases left out", "No bias is used. Each of the two matrix products is followed by the addition of its bias."
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return (x @ w_1).relu() @ w_2


@feed_forward.mistake(
    "weights in the shape that PyTorch's linear layer stores",
    "PyTorch's linear function expects a weight of shape (out, in), as its linear layers store it. Here the first "
    "weight is (d_model, d_ff), which is (in, out): transpose it, or multiply x by it yourself.",
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return F.linear(F.linear(x, w_1, b_1).relu(), w_2, b_2)


@feed_forward.mistake(
    "x added", "You add x to the output. The residual connection is not part of this network; the layer adds it later."
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return x + (x @ w_1 + b_1).relu() @ w_2 + b_2


@feed_forward.mistake(
    "a different activation",
    "Your activation doesn't cut off negative values completely. That is GELU, which many later models use; the paper "
    "uses ReLU.",
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return F.gelu(x @ w_1 + b_1) @ w_2 + b_2


@feed_forward.mistake(
    "cut off at 1 as well",
    "Your activation never exceeds 1. ReLU only replaces negative numbers by 0, and leaves all others as they are.",
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return (x @ w_1 + b_1).clamp(0, 1) @ w_2 + b_2


@feed_forward.mistake(
    "the negative values are kept",
    "You keep the negative values and set the positive ones to zero. A ReLU does the opposite.",
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return (x @ w_1 + b_1).clamp(max=0) @ w_2 + b_2


@feed_forward.mistake(
    "ReLU on the input",
    "You apply the ReLU to x. It belongs between the two matrices.",
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return (x.relu() @ w_1 + b_1) @ w_2 + b_2


@feed_forward.mistake(
    "a second ReLU on the input",
    "You apply a ReLU to x as well. The only one is between the two matrices.",
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return (x.relu() @ w_1 + b_1).relu() @ w_2 + b_2


@feed_forward.mistake(
    "SiLU instead of ReLU",
    "Your activation doesn't cut off negative values completely. That is SiLU, also called Swish, which many later "
    "models use; the paper uses ReLU.",
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return F.silu(x @ w_1 + b_1) @ w_2 + b_2


@feed_forward.mistake(
    "a sigmoid instead of ReLU",
    "Your activation lies between 0 and 1. ReLU only replaces negative numbers by 0, and leaves all others as they "
    "are.",
)
def _(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return (x @ w_1 + b_1).sigmoid() @ w_2 + b_2


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
    {"x": numbers(1, 1, 3), "gain": numbers(3, seed=1), "bias": numbers(3, seed=2), "eps": 1e-5},
    {
        "x": torch.tensor([[3000.0, 3001.0, 3003.0, 3007.0, 3002.0]]),
        "gain": torch.ones(5),
        "bias": torch.zeros(5),
        "eps": 1e-5,
    },
    guard=forbid(LAYER_NORM),
    insight="Unlike batch normalisation, it gives a sentence the same result whatever else is in the batch.",
)
def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    """By PyTorch's."""
    return F.layer_norm(x, x.shape[-1:], gain, bias, eps)


def _norm(x: Tensor, dim: int | tuple[int, ...] = -1, correction: int = 0) -> tuple[Tensor, Tensor]:
    """(x - mean, variance)."""
    return x - x.mean(dim, keepdim=True), x.var(dim, correction=correction, keepdim=True)


@layer_norm.mistake(
    "divided by d_model - 1",
    "Your variance is slightly too large, because it is divided by d_model - 1, PyTorch's default. Layer norm divides "
    "by d_model.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x, correction=1)
    return centred / (variance + eps).sqrt() * gain + bias


@layer_norm.mistake(
    "divided by d_model - 1, and ε outside the root",
    "There are two mistakes: the variance is divided by d_model - 1, PyTorch's default, and ε is added after the root.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x, correction=1)
    return centred / (variance.sqrt() + eps) * gain + bias


@layer_norm.mistake(
    "ε outside the root",
    "You add ε to the standard deviation. In the formula it is added to the variance, under the root.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x)
    return centred / (variance.sqrt() + eps) * gain + bias


@layer_norm.mistake(
    "ε left out",
    "This is nearly right, but if all numbers of a vector are equal, you divide 0 by 0. That is what ε is for.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x)
    return centred / variance.sqrt() * gain + bias


@layer_norm.mistake(
    "ε as a lower bound",
    "You use ε only as a lower bound, so it makes no difference unless the numbers are nearly equal. In the formula it "
    "is added to the variance, under the root.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x)
    return centred / variance.sqrt().clamp(min=eps) * gain + bias


@layer_norm.mistake(
    "divided by d_model - 1, and ε as a lower bound",
    "There are two mistakes: the variance is divided by d_model - 1, PyTorch's default, and ε is only a lower bound. "
    "In the formula it is added to the variance, under the root.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x, correction=1)
    return centred / variance.sqrt().clamp(min=eps) * gain + bias


@layer_norm.symptom
def _(wrong: Sequence[Wrong]) -> Finding | None:
    if all(case.inputs["x"].dim() == 3 and case.inputs["x"].size(1) > 1 for case in wrong):
        return Finding(
            "right for a matrix only",
            "Your result is right for a matrix. With three axes it isn't: does a mean or a variance of yours also run "
            "over the positions or the batch? Each vector should be normalised by itself.",
        )
    return None


@layer_norm.mistake(
    "the mean is not subtracted",
    "You divide by the standard deviation, but the mean is still there. Subtract it first.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return x / (_norm(x)[1] + eps).sqrt() * gain + bias


@layer_norm.mistake(
    "the mean square instead of the variance",
    "You take the mean of the squares of x. The variance is the mean of the squares of x - μ.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return _norm(x)[0] / (x.square().mean(-1, keepdim=True) + eps).sqrt() * gain + bias


@layer_norm.mistake(
    "the sum of the squares",
    "You divide by the root of the sum of the squares of x - μ. The variance is their mean.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, _ = _norm(x)
    return centred / (centred.square().sum(-1, keepdim=True) + eps).sqrt() * gain + bias


@layer_norm.mistake(
    "the variance as a difference of squares",
    "In exact arithmetic the mean of x² minus μ² is the variance, but in float32 you subtract two large numbers that "
    "are nearly equal, and most of the digits are lost. Subtract μ first, and then take the mean of the squares.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = x.square().mean(-1, keepdim=True) - mean.square()
    return (x - mean) / (variance + eps).sqrt() * gain + bias


@layer_norm.mistake(
    "divided by the variance", "You divide by the variance. Divide by its square root, the standard deviation."
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x)
    return centred / (variance + eps) * gain + bias


@layer_norm.mistake(
    "over the positions",
    "You normalise each dimension over the positions of the sentence, so each word depends on its neighbours and on "
    "padding. Normalise each vector by itself, over its features.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x, -2)
    return centred / (variance + eps).sqrt() * gain + bias


@layer_norm.mistake(
    "over the first axis",
    "You normalise over the first axis, so what happens to a vector depends on the other sentences of the batch. "
    "Normalise each vector by itself, over its features, which are on the last axis.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x, 0)
    return centred / (variance + eps).sqrt() * gain + bias


@layer_norm.mistake(
    "over all axes but the first",
    "Your result is right for a matrix. With three axes, though, your mean and variance also run over the positions of "
    "the sentence, so each position depends on all others. Normalise over the last axis alone.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x, tuple(range(1, x.dim())))
    return centred / (variance + eps).sqrt() * gain + bias


@layer_norm.mistake(
    "over the positions and the features",
    "You use one mean and one variance for all vectors of a sentence, so each position depends on all others. Each "
    "vector should have its own: normalise over the last axis alone.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x, (-2, -1))
    return centred / (variance + eps).sqrt() * gain + bias


@layer_norm.mistake(
    "over an axis counted from the front",
    "Axis 1 is the last one only in a matrix. Count the axis from the end, so that any number of axes may come before "
    "it.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x, 1)
    return centred / (variance + eps).sqrt() * gain + bias


@layer_norm.mistake(
    "over the whole tensor", "You use one mean and one variance for the whole tensor. Each vector should have its own."
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x, tuple(range(x.dim())))
    return centred / (variance + eps).sqrt() * gain + bias


@layer_norm.mistake(
    "gain and bias left out", "You don't use gain and bias, so the result is right only if they are 1 and 0."
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x)
    return centred / (variance + eps).sqrt()


@layer_norm.mistake(
    "shifted before scaled",
    "You add the bias before you multiply by the gain, so the bias is scaled as well. Multiply first.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x)
    return (centred / (variance + eps).sqrt() + bias) * gain


@layer_norm.mistake(
    "another ε",
    "You write a number where ε belongs. It is an argument, and it matters where the variance is small.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], gain, bias, 1e-5)


@layer_norm.mistake(
    "RMSNorm",
    "You divide by the root of the mean square and subtract nothing. That is RMSNorm, which many later models use; "
    "layer norm also subtracts the mean.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * gain + bias


@layer_norm.mistake(
    "multiplied by the standard deviation",
    "You multiply by the standard deviation. Divide by it.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x)
    return centred * (variance + eps).sqrt() * gain + bias


@layer_norm.mistake(
    "only the mean is divided",
    "A division comes before a subtraction, so you divide only the mean by the standard deviation. The difference "
    "needs parentheses.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return x - x.mean(-1, keepdim=True) / (_norm(x)[1] + eps).sqrt() * gain + bias


@layer_norm.mistake(
    "gain and bias swapped",
    "You multiply by the bias and add the gain. It's the other way round.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred, variance = _norm(x)
    return centred / (variance + eps).sqrt() * bias + gain


@layer_norm.mistake(
    "one mean and one corrected variance for the whole tensor",
    "There are two mistakes: you use one mean and one variance for the whole tensor, and the variance is divided by "
    "the number of elements minus 1. Each vector should have its own.",
)
def _(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return (x - x.mean()) / (x.var() + eps).sqrt() * gain + bias


# 3 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"x": torch.tensor([3.0, 6.0, -3.0]), "rate": 0.25, "draw": torch.tensor([0.1, 0.6, 0.25]), "training": True},
    {"x": torch.tensor([3.0, 6.0, -3.0]), "rate": 0.25, "draw": torch.tensor([0.1, 0.6, 0.25]), "training": False},
    {"x": numbers(3, 4), "rate": 0.4, "draw": numbers(3, 4, seed=1).sigmoid(), "training": True},
    {"x": numbers(3, 4), "rate": 0.0, "draw": numbers(3, 4, seed=1).sigmoid(), "training": True},
    {"x": numbers(1, 3), "rate": 0.5, "draw": numbers(1, 3, seed=1).sigmoid(), "training": True},
    guard=forbid(
        {"dropout", "native_dropout", "bernoulli"}, "It draws random numbers of its own: use those in `draw`."
    ),
    keep=("draw",),
)
def dropout(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    """What is not drawn below the rate, stretched."""
    return torch.where(draw < rate, 0, x / (1 - rate)) if training else x


@dropout.mistake(
    "the kept values are not scaled",
    "You keep the remaining values as they are, so the expected value is smaller in training than at inference. Scale "
    "up the values that are kept, so that the expected value stays the same.",
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x * (draw >= rate) if training else x


@dropout.mistake(
    "scaled at inference",
    "You scale at inference and leave training as it is. The first version of dropout did that; today the scaling is "
    "done in training, so that inference needs no extra work.",
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x * (draw >= rate) if training else x * (1 - rate)


@dropout.mistake(
    "divided by the rate", "You divide by the fraction that is dropped. Divide by the fraction that is kept."
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x * (draw >= rate) / rate if training else x


@dropout.mistake(
    "multiplied by the fraction kept",
    "You multiply the kept values by 1 - rate, which makes them smaller. They have to become larger.",
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x * (draw >= rate) * (1 - rate) if training else x


@dropout.mistake(
    "the wrong values dropped",
    "You drop the values that should be kept and keep those that should be dropped. Look at which side of the rate is "
    "dropped.",
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x * (draw < rate) / (1 - rate) if training else x


@dropout.mistake(
    "dropout at inference",
    "You drop values at inference, too. Then the model would give a different translation of the same sentence every "
    "time.",
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x * (draw >= rate) / (1 - rate)


@dropout.mistake(
    "a draw equal to the rate is dropped",
    "You drop a value whose random number is exactly the rate. Only numbers below the rate are dropped.",
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x * (draw > rate) / (1 - rate) if training else x


@dropout.mistake(
    "nothing dropped", "You return x unchanged in training, too. Use the random numbers to decide which values to drop."
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x


@dropout.mistake(
    "training and inference swapped",
    "You drop values at inference and leave them alone in training. It's the other way round.",
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return dropout.reference(x, rate, draw, not training)


@dropout.mistake(
    "training and inference swapped, and not scaled",
    "There are two mistakes: you drop values at inference and leave them alone in training, and you don't scale up the "
    "values that are kept.",
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x if training else x * (draw >= rate)


@dropout.mistake(
    "scaled by the share that was kept",
    "You divide by the share of numbers that happened to be kept. Divide by the probability of being kept, which "
    "doesn't depend on the draw.",
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    keep = (draw >= rate).to(x.dtype)
    return x * keep / keep.mean().clamp(min=1e-6) if training else x


@dropout.mistake(
    "compared with 1 - rate",
    "You keep a value if its number is at least 1 - rate. It is dropped only if its number is below the rate.",
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x * (draw >= 1 - rate) / (1 - rate) if training else x


@dropout.mistake(
    "kept below 1 - rate",
    "You keep a value if its number is below 1 - rate. As many are kept, but here a value is dropped if its number is "
    "below the rate.",
)
def _(x: Tensor, rate: float, draw: Tensor, training: bool) -> Tensor:
    return x * (draw < 1 - rate) / (1 - rate) if training else x


# 4 and 5 --------------------------------------------------------------------------------------------------------------


def backwards(x: Tensor) -> Tensor:
    """each vector reversed, and doubled"""
    return 2 * x.flip(-1)


def squared(x: Tensor) -> Tensor:
    """the square of each number, plus one"""
    return x.square() + 1


def norm(x: Tensor) -> Tensor:
    """layer norm with a gain that rises from 1 to 2"""
    return F.layer_norm(x, x.shape[-1:]) * torch.linspace(1, 2, x.size(-1))


def unchanged(x: Tensor) -> Tensor:
    """what it gets, itself"""
    return x


RESIDUALS = (
    {"x": torch.tensor([[[1.0, 2.0, 6.0]]]), "sublayer": backwards, "norm": norm},
    {"x": numbers(2, 3, 4), "sublayer": squared, "norm": norm},
    {"x": numbers(2, 2, 4, seed=1), "sublayer": unchanged, "norm": unchanged},
)


@topic.exercise(
    *RESIDUALS,
    insight="On their way to the first layer, gradients pass every norm: one reason why post-norm needs a warm-up.",
)
def post_norm(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    """The paper's order."""
    return norm(x + sublayer(x))


@topic.exercise(
    *RESIDUALS, insight="The x that goes through the model and is only ever added to is called the residual stream."
)
def pre_norm(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    """The order of its code."""
    return x + sublayer(norm(x))


@post_norm.mistake(
    "both parts normalised",
    "You normalise x and the sublayer's output separately, and add them. In post-norm, the sum is normalised, once.",
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return norm(x) + norm(sublayer(x))


@post_norm.mistake(
    "only x normalised",
    "You normalise x and add the sublayer's output to it. In post-norm, the sum is normalised.",
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return norm(x) + sublayer(x)


@post_norm.mistake(
    "pre-norm",
    "This is pre-norm, the next blank: you normalise the sublayer's input. In post-norm, the sum is normalised.",
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return x + sublayer(norm(x))


@pre_norm.mistake(
    "post-norm",
    "This is post-norm, the blank before: you normalise the sum. In pre-norm, only the sublayer's input is normalised.",
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return norm(x + sublayer(x))


@post_norm.mistake("no norm", "You add x and the sublayer's output, but the sum isn't normalised.")
@pre_norm.mistake("no norm", "You add x and the sublayer's output, but the sublayer's input isn't normalised.")
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return x + sublayer(x)


@post_norm.mistake("no residual", "You normalise the sublayer's output, but x is not added to it.")
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return norm(sublayer(x))


@pre_norm.mistake(
    "no residual", "The sublayer reads a normalised input, as it should, but x is not added to its output."
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return sublayer(norm(x))


@post_norm.mistake(
    "the sublayer's output normalised",
    "You normalise the sublayer's output and then add x. Add first, then normalise the sum.",
)
@pre_norm.mistake(
    "the sublayer's output normalised", "You normalise the sublayer's output. In pre-norm, its input is normalised."
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return x + norm(sublayer(x))


@post_norm.mistake(
    "normalised before and after",
    "You normalise the sublayer's input as well. In post-norm, the sublayer reads x as it is.",
)
@pre_norm.mistake(
    "normalised before and after", "You normalise the sum as well. In pre-norm, nothing but addition changes x."
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return norm(x + sublayer(norm(x)))


@post_norm.mistake(
    "the sublayer left out", "You normalise x alone. The sublayer is never called; its output should be added to x."
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return norm(x)


@post_norm.mistake(
    "normalised twice",
    "You normalise the sum, and then the result once more. Once is enough.",
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return norm(norm(x + sublayer(x)))


@post_norm.mistake(
    "x normalised first",
    "You normalise x, add the sublayer's output, and normalise again. In post-norm, x itself is added.",
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return norm(norm(x) + sublayer(x))


@post_norm.mistake(
    "x added once more",
    "You add x to the normalised sum. In post-norm, x is added before the norm, and the norm comes last.",
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return x + norm(x + sublayer(x))


@pre_norm.mistake(
    "the sublayer left out",
    "You add x and the normalised x. The sublayer is never called.",
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return x + norm(x)


@pre_norm.mistake(
    "the normalised x added as well",
    "You add x, the normalised x and the sublayer's output. The normalised x is only what the sublayer reads.",
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return x + norm(x) + sublayer(norm(x))


@pre_norm.mistake(
    "the sublayer's output normalised as well",
    "You normalise both the sublayer's input and its output. In pre-norm, only the input is normalised.",
)
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return x + norm(sublayer(norm(x)))


@pre_norm.mistake("normalised twice", "You normalise the sublayer's input, and then once more. Once is enough.")
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return x + sublayer(norm(norm(x)))


@pre_norm.mistake("the normalised x added", "You add the normalised x. Add x itself, so that it goes on unchanged.")
def _(x: Tensor, sublayer: Layer, norm: Layer) -> Tensor:
    return norm(x) + sublayer(norm(x))


# 6 --------------------------------------------------------------------------------------------------------------------

EncoderLayer = tuple[Layer, Layer, Layer, Layer]
"""The first norm, attention, the second norm, the feed-forward network."""


def mean(x: Tensor) -> Tensor:
    """the mean of all positions, at each position"""
    return x.mean(dim=-2, keepdim=True).expand_as(x)


def halved(x: Tensor) -> Tensor:
    """half of each number"""
    return x / 2


@topic.exercise(
    {"x": torch.tensor([[[1.0, 2.0, 6.0]]]), "layers": [(halved, backwards, norm, squared)], "final_norm": unchanged},
    {
        "x": numbers(1, 2, 3),
        "layers": [(halved, backwards, norm, squared), (norm, mean, halved, backwards)],
        "final_norm": halved,
    },
    {
        "x": numbers(2, 3, 4, seed=1),
        "layers": [(norm, mean, halved, squared), (halved, mean, norm, backwards), (norm, backwards, halved, squared)],
        "final_norm": norm,
    },
    {"x": numbers(2, 2, 4, seed=2), "layers": [], "final_norm": norm},
    insight="A parameter on which the output doesn't depend is a bug: PyTorch gives it no gradient, and no warning.",
)
def encoder(x: Tensor, layers: Sequence[EncoderLayer], final_norm: Layer) -> Tensor:
    """Pre-norm layers, one after the other."""
    output = x
    for norm_1, attention, norm_2, feed_forward in layers:
        normed = norm_1(output)
        output = output + attention(normed)
        normed = norm_2(output)
        output = output + feed_forward(normed)
    return final_norm(output)


add_bugs(
    encoder,
    Bug(
        "x isn't passed on unchanged",
        "Let attention and the feed-forward network return 0 everywhere, the norms double what they get, and the final "
        "norm change nothing. Then the result should be x. What is added to attention's output in your code?",
        "output + attention(normed)",
        "normed + attention(normed)",
        (
            WrongRepair(
                "only the last layer counts",
                "You add to x, and x is the input of the whole stack. So each layer throws away what the layers before "
                "it have added.",
                "x + attention(normed)",
            ),
        ),
    ),
    Bug(
        "two layers differ from one layer applied twice",
        "Call the function with the first of two layers, and its result with the second, each time with a final norm "
        "that changes nothing. Both layers in a single call should give the same. What does your second layer read?",
        "norm_1(output)",
        "norm_1(x)",
    ),
    Bug(
        "one of the functions has no effect",
        "With a single layer, replace its four functions one at a time by another function. Each time, the result "
        "should change. When doesn't it?",
        "norm_2(output)",
        "norm_1(output)",
        (
            WrongRepair(
                "the feed-forward network doesn't see what attention has added",
                "It gets the vectors that attention got, only normalised once more. It should read the sum that "
                "attention has just added to.",
                "norm_2(normed)",
            ),
            WrongRepair(
                "the feed-forward network reads x",
                "It reads the input of the whole stack, so it sees nothing of what attention and the layers before it "
                "have added.",
                "norm_2(x)",
            ),
        ),
    ),
)


@encoder.mistake(
    "no final norm",
    "The layers are right, but the final norm is gone. With pre-norm, nothing inside a layer normalises the sum.",
)
def _(x: Tensor, layers: Sequence[EncoderLayer], final_norm: Layer) -> Tensor:
    for norm_1, attention, norm_2, feed_forward in layers:
        x = x + attention(norm_1(x))
        x = x + feed_forward(norm_2(x))
    return x


@encoder.mistake(
    "post-norm",
    "You normalise the sums. These layers are pre-norm: only what a sublayer reads is normalised.",
)
def _(x: Tensor, layers: Sequence[EncoderLayer], final_norm: Layer) -> Tensor:
    for norm_1, attention, norm_2, feed_forward in layers:
        x = norm_1(x + attention(x))
        x = norm_2(x + feed_forward(x))
    return final_norm(x)


@encoder.mistake(
    "the feed-forward network adds to the normalised x",
    "The first residual connection is right. In the second one, you add the normalised vectors.",
)
def _(x: Tensor, layers: Sequence[EncoderLayer], final_norm: Layer) -> Tensor:
    for norm_1, attention, norm_2, feed_forward in layers:
        x = x + attention(norm_1(x))
        x = norm_2(x) + feed_forward(norm_2(x))
    return final_norm(x)
