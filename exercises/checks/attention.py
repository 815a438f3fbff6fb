"""Checks of 02 attention (§3.2)."""

import math
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from exercises.calls import Function, Inputs, call
from exercises.check import Topic
from exercises.restrictions import ATTENTION, SOFTMAX, built_in, forbid, watch_calls
from exercises.tensors import numbers
from transformer.attention import attention

topic = Topic()
check, given = topic.check, topic.given


SMALL_QUERY = torch.tensor([[2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 1.0]])
SMALL_KEY = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 4.0]])
SMALL_VALUE = torch.tensor([[10.0, 0.0], [0.0, 10.0], [5.0, 5.0]])


# 1 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"query": SMALL_QUERY, "key": SMALL_KEY},
    {"query": numbers(2, 3, 9), "key": numbers(2, 4, 9, seed=1)},
    {"query": numbers(2, 2, 3, 5), "key": numbers(2, 2, 4, 5, seed=1)},
    {"query": numbers(3, 16), "key": numbers(2, 16, seed=1)},
    {"query": numbers(1, 1, 4), "key": numbers(1, 1, 4, seed=1)},
    insight="Every query gets a score for every key, so in self-attention the number of scores is the length squared.",
)
def attention_scores(query: Tensor, key: Tensor) -> Tensor:
    """How well each key fits each query."""
    return query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))


@attention_scores.mistake(
    "not scaled",
    "The dot products are right, but they aren't divided by anything yet, so they grow with d_k. Compare your code "
    "with the formula: its denominator is missing.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(-2, -1)


@attention_scores.mistake(
    "scaled too much",
    "You divide by d_k itself. A dot product is a sum of d_k terms, so its variance grows with d_k; divide by the "
    "standard deviation, which grows more slowly.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(-2, -1) / query.size(-1)


@attention_scores.mistake(
    "divided by the root of the number of keys",
    "The scale should depend on how many products one dot product adds up. That is the width of the vectors, not the "
    "number of keys.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(-2, -1) / math.sqrt(key.size(-2))


@attention_scores.mistake(
    "multiplied, not divided, by the scale",
    "The scale makes your scores larger. It is there to keep the scores of wide vectors small, so that the softmax "
    "doesn't saturate.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(-2, -1) * math.sqrt(query.size(-1))


@attention_scores.mistake(
    "queries and keys swapped",
    "Your rows belong to keys and your columns to queries. Each row should hold the scores of one query, one for each "
    "key.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return key @ query.transpose(-2, -1) / math.sqrt(query.size(-1))


@attention_scores.mistake(
    "the first two axes of key are swapped",
    "This works for a single matrix, but in a batch the first two axes are no longer length and width. Swap the last "
    "two axes instead, counting from the end.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(0, 1) / math.sqrt(query.size(-1))


@attention_scores.mistake(
    "all axes of key are reversed",
    "This works for a single matrix, but in a batch it reverses the other axes as well. Only the last two should be "
    "swapped.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.permute(*reversed(range(key.dim()))) / math.sqrt(query.size(-1))


@attention_scores.mistake(
    "cosines instead of dot products",
    "You normalise every vector to length one, so a long query has no larger scores than a short one. The paper uses "
    "plain dot products.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).transpose(-2, -1)


@attention_scores.mistake(
    "a softmax is applied already",
    "Your rows sum to one, so these are attention weights. This blank asks for the scores; the softmax is the next "
    "one.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return (query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))).softmax(dim=-1)


@attention_scores.mistake(
    "reshaped instead of transposed",
    "You give the keys another shape, but that doesn't move any number: each column then mixes features of "
    "several keys. Swap the axes instead.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.reshape(*key.shape[:-2], key.size(-1), key.size(-2)) / math.sqrt(query.size(-1))


@attention_scores.mistake(
    "the root is rounded down",
    "Your scale is a whole number, because the root is rounded down. That is right only where d_k is a square number.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(-2, -1) / math.isqrt(query.size(-1))


@attention_scores.mistake(
    "axes counted from the front",
    "You swap axes 1 and 2. In a tensor with other axes before them, those are not the last two: count from the end.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(1, 2) / math.sqrt(query.size(-1))


@attention_scores.mistake(
    "divided by the root of the number of queries",
    "The scale should depend on how many products one dot product adds up. That is the width of the vectors, not the "
    "number of queries.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(-2, -1) / math.sqrt(query.size(-2))


@attention_scores.mistake(
    "divided by the root of the first axis's length",
    "You take the length of the first axis, which is also the `len` of a tensor. In a batch, it is the number of "
    "sentences. "
    "d_k is the width of the vectors, the length of the last axis.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(-2, -1) / math.sqrt(len(query))


@attention_scores.mistake(
    "half of d_k instead of its root",
    "You divide by d_k and then by 2. In Python, a power binds more tightly than a division, so the exponent needs "
    "parentheses.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(-2, -1) / query.size(-1) / 2


# 2 --------------------------------------------------------------------------------------------------------------------


def _find_added_number(answer: Function) -> str | None:
    """Return a message if the rows sum to a little less than one; float64 can tell this from rounding."""
    inputs = {"scores": torch.tensor([[0.0, -30.0, -40.0]], dtype=torch.float64)}
    weights = call(answer, inputs, forbid(SOFTMAX)).results[0]
    if not isinstance(weights, Tensor) or weights.dtype != torch.float64 or not 1e-7 < 1 - float(weights.sum()) < 1e-3:
        return None
    return (
        "rows that sum to a little less than one\n"
        "You add a small number to the sum, or to the exponentials. The largest "
        "exponential of each row is 1 once its maximum is subtracted, so the sum can't be 0. Leave that number out."
    )


@topic.exercise(
    {"scores": torch.tensor([[0.0, 1.0, 2.0], [3.0, 3.0, 3.0]])},
    {"scores": torch.tensor([[1000.0, 1001.0, 1002.0], [-1000.0, -1000.0, -1001.0], [1000.0, 0.0, -1000.0]])},
    {"scores": torch.tensor([[-1000.0, -1001.0, -999.0]])},
    {"scores": numbers(2, 2, 3, 4)},
    {"scores": numbers(3, 5)},
    {"scores": numbers(1, 1, 5)},
    guard=forbid(SOFTMAX),
    look_closer=_find_added_number,
    insight="If one score is far above the others, hardly any gradient flows back: that is why scores are scaled.",
)
def softmax(scores: Tensor) -> Tensor:
    """Positive weights that sum to one in each row."""
    return scores.softmax(dim=-1)


@softmax.mistake(
    "overflow",
    "This works for small scores, but e^1000 is larger than any float. Adding the same number to all scores of a row "
    "doesn't change its softmax: which number makes every exponent harmless?",
)
def _(scores: Tensor) -> Tensor:
    return scores.exp() / scores.exp().sum(dim=-1, keepdim=True)


@softmax.mistake(
    "one maximum for all rows",
    "You subtract the largest score of the whole tensor. In a row whose scores are all much smaller, every "
    "exponential then becomes 0. Take the maximum of each row.",
)
def _(scores: Tensor) -> Tensor:
    e = (scores - scores.max()).exp()
    return e / e.sum(dim=-1, keepdim=True)


@softmax.mistake(
    "the largest absolute value",
    "You subtract the largest absolute value. In a row of large negative scores, every exponential then becomes 0. "
    "Subtract the largest score.",
)
def _(scores: Tensor) -> Tensor:
    e = (scores - scores.abs().amax(dim=-1, keepdim=True)).exp()
    return e / e.sum(dim=-1, keepdim=True)


@softmax.mistake(
    "over the wrong axis",
    "Your columns sum to one, but the rows should: each query distributes its weight over the keys, which are on the "
    "last axis.",
)
def _(scores: Tensor) -> Tensor:
    return scores.softmax(dim=-2)


@softmax.mistake(
    "over an axis counted from the front",
    "This works for a single matrix, but in a batch axis 1 isn't the keys. Count the axis from the end, so that any "
    "number of axes may come before it.",
)
def _(scores: Tensor) -> Tensor:
    return scores.softmax(dim=1)


@softmax.mistake(
    "over the first axis",
    "You compute the softmax over the first axis, so the columns of a single matrix sum to one, and in a batch the "
    "numbers of different sentences do. Each row should sum to one: take the last axis.",
)
def _(scores: Tensor) -> Tensor:
    return scores.softmax(dim=0)


@softmax.mistake(
    "normalised over the whole tensor",
    "All your weights together sum to one, but each row should do so by itself. Without an axis, max and sum run over "
    "the whole tensor.",
)
def _(scores: Tensor) -> Tensor:
    return scores.flatten().softmax(dim=0).view_as(scores)


@softmax.mistake(
    "each row's maximum, but the sum of all rows",
    "The maximum is taken row by row, but you divide by the sum over the whole tensor. Each row needs a sum of its "
    "own.",
)
def _(scores: Tensor) -> Tensor:
    e = (scores - scores.max(dim=-1, keepdim=True).values).exp()
    return e / e.sum()


@softmax.mistake(
    "no exponential",
    "You divide the scores by their sum. That leaves negative scores negative, and weights must be positive: what "
    "does the formula do to each score first?",
)
def _(scores: Tensor) -> Tensor:
    return scores / scores.sum(dim=-1, keepdim=True)


@softmax.mistake(
    "the maximum subtracted, but no exponential",
    "You subtract the maximum of each row and divide by the sum, but you never take an exponential. It is what makes "
    "the weights positive.",
)
def _(scores: Tensor) -> Tensor:
    shifted = scores - scores.amax(dim=-1, keepdim=True)
    return shifted / shifted.sum(dim=-1, keepdim=True)


@softmax.mistake(
    "one maximum for all rows, and no exponential",
    "You subtract the largest score of the whole tensor and divide by the sum, but you never take an exponential. It "
    "is what makes the weights positive. And the maximum should be that of each row.",
)
def _(scores: Tensor) -> Tensor:
    shifted = scores - scores.max()
    return shifted / shifted.sum(dim=-1, keepdim=True)


@softmax.mistake(
    "not normalised", "Your numbers are positive and have the right ratios, but the rows don't sum to one yet."
)
def _(scores: Tensor) -> Tensor:
    return (scores - scores.max(dim=-1, keepdim=True).values).exp()


@softmax.mistake(
    "the logarithm of the softmax",
    "These are logarithms of weights: all of them are negative. The exercise asks for the weights themselves.",
)
def _(scores: Tensor) -> Tensor:
    return scores.log_softmax(dim=-1)


@softmax.mistake(
    "the reduced axis is lost",
    "A sum or maximum over the last axis removes that axis, and the result no longer broadcasts against the rows. "
    "Keep the axis, with length one.",
)
def _(scores: Tensor) -> Tensor:
    e = (scores - scores.max(dim=-1, keepdim=True).values).exp()
    return e / e.sum(dim=-1)


@softmax.mistake(
    "the mean subtracted",
    "You subtract the mean of each row. A score far above the mean still overflows. Subtract a number that no "
    "score exceeds.",
)
def _(scores: Tensor) -> Tensor:
    e = (scores - scores.mean(dim=-1, keepdim=True)).exp()
    return e / e.sum(dim=-1, keepdim=True)


@softmax.mistake(
    "large scores cut off",
    "You cut off large scores, so that those above the limit get equal weights. Nothing needs to be cut off: "
    "shift all scores of a row by the same number.",
)
def _(scores: Tensor) -> Tensor:
    e = scores.clamp(max=80).exp()
    return e / e.sum(dim=-1, keepdim=True)


@softmax.mistake(
    "a small number added to the sum",
    "The number that you add to the sum keeps your rows from summing to one exactly, and an overflow remains an "
    "overflow. The sum can't be 0 if the largest exponential of each row is 1.",
)
def _(scores: Tensor) -> Tensor:
    e = scores.exp()
    return e / (e.sum(dim=-1, keepdim=True) + 1e-9)


@softmax.mistake(
    "each row's maximum, but the sum of each column",
    "The maximum is taken row by row, but the sum column by column. Both belong to the keys, on the last axis.",
)
def _(scores: Tensor) -> Tensor:
    e = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return e / e.sum(dim=-2, keepdim=True)


@softmax.mistake(
    "the maximum subtracted in the numerator only",
    "You subtract the maximum from the scores in the numerator, but not from those in the denominator. It doesn't "
    "change the weights only if it is the same in both.",
)
def _(scores: Tensor) -> Tensor:
    return (scores - scores.amax(dim=-1, keepdim=True)).exp() / scores.exp().sum(dim=-1, keepdim=True)


@softmax.mistake(
    "divided by the maximum",
    "You divide the scores by their maximum, which changes their differences, and so the weights. Subtract it instead.",
)
def _(scores: Tensor) -> Tensor:
    e = (scores / scores.amax(dim=-1, keepdim=True)).exp()
    return e / e.sum(dim=-1, keepdim=True)


# 3 --------------------------------------------------------------------------------------------------------------------


def _not_ready_made(inputs: Inputs) -> AbstractContextManager[None]:
    """Forbid the package's ``attention``, which the notebook imports for the last blank, and PyTorch's."""

    def find_forbidden(frame: FrameType, event: str, function: Any) -> str | None:
        is_the_packages = frame.f_code is attention.__code__
        return "the package's `attention`" if is_the_packages else built_in(event, function, ATTENTION)

    return watch_calls(find_forbidden, "That is the very function that this blank is about: write it yourself.")


@topic.exercise(
    {"query": SMALL_QUERY, "key": SMALL_KEY, "value": SMALL_VALUE},
    {"query": numbers(2, 3, 9), "key": numbers(2, 4, 9, seed=1), "value": numbers(2, 4, 5, seed=2)},
    {"query": numbers(2, 3, 4, 6), "key": numbers(2, 3, 4, 6, seed=1), "value": numbers(2, 3, 4, 6, seed=2)},
    {"query": numbers(3, 16), "key": numbers(2, 16, seed=1), "value": numbers(2, 5, seed=2)},
    {"query": numbers(1, 1, 4), "key": numbers(1, 1, 4, seed=1), "value": numbers(1, 1, 3, seed=2)},
    results=("output", "weights"),
    guard=_not_ready_made,
    insight="This is the whole of attention: the rest of §3.2 adds only projections, heads and masks around it.",
)
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """The average of the values, weighted by the softmax of the scores."""
    weights = softmax.reference(attention_scores.reference(query, key))
    return weights @ value, weights


@scaled_dot_product_attention.mistake(
    "not scaled",
    "The scores aren't divided by anything, so the weights are too sharp, and more so for larger d_k. Look at the "
    "denominator in the formula.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = (query @ key.transpose(-2, -1)).softmax(dim=-1)
    return weights @ value, weights


@scaled_dot_product_attention.mistake(
    "scaled too much",
    "You divide the scores by d_k itself, so the weights are too uniform. Divide by the standard deviation of a dot "
    "product of d_k terms.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = (query @ key.transpose(-2, -1) / query.size(-1)).softmax(dim=-1)
    return weights @ value, weights


@scaled_dot_product_attention.mistake(
    "scaled after the softmax",
    "Your rows don't sum to one, because you scale the weights. Scale the scores, before the softmax.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = (query @ key.transpose(-2, -1)).softmax(dim=-1) / math.sqrt(query.size(-1))
    return weights @ value, weights


@scaled_dot_product_attention.mistake(
    "softmax over the queries",
    "Your columns sum to one, so the queries compete for each key. It should be the other way round: for each query, "
    "the weights of all keys sum to one.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = (query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))).softmax(dim=-2)
    return weights @ value, weights


@scaled_dot_product_attention.mistake(
    "softmax over an axis counted from the front",
    "This works for a single matrix, but in a batch axis 1 isn't the keys. Count the axis from the end, so that any "
    "number of axes may come before it.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = (query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))).softmax(dim=1)
    return weights @ value, weights


@scaled_dot_product_attention.mistake(
    "softmax over the first axis",
    "Your softmax is over the first axis, so in a batch the sentences compete with each other. For each query, the "
    "weights of all keys should sum to one: take the last axis.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = (query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))).softmax(dim=0)
    return weights @ value, weights


@scaled_dot_product_attention.mistake(
    "divided by the root of the first axis's length",
    "You take the length of the first axis, which is also the `len` of a tensor. In a batch, it is the number of "
    "sentences. "
    "d_k is the width of the queries and keys, the length of the last axis.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = (query @ key.transpose(-2, -1) / math.sqrt(len(query))).softmax(dim=-1)
    return weights @ value, weights


@scaled_dot_product_attention.mistake(
    "no softmax", "You use the scores as weights. A query's weights should be positive and sum to one."
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    return weights @ value, weights


@scaled_dot_product_attention.mistake(
    "keys averaged instead of values",
    "The weights are right, but you average the keys. Keys only decide how much weight a position gets; the output is "
    "made of values.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = attention(query, key, value)[1]
    return weights @ key, weights


@scaled_dot_product_attention.mistake(
    "the two results are swapped",
    "Both results are right, but in the wrong order: return the output first, then the weights.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    output, weights = attention(query, key, value)
    return weights, output


@scaled_dot_product_attention.mistake(
    "scaled by the width of the values",
    "You take d_k from the values. Their width may be another one: the dot products are those of queries and keys.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = (query @ key.transpose(-2, -1) / math.sqrt(value.size(-1))).softmax(dim=-1)
    return weights @ value, weights


@scaled_dot_product_attention.mistake(
    "scores returned instead of weights",
    "Your output is right, but you return the scores with it. Return the weights: the scores after the softmax.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    return scores.softmax(dim=-1) @ value, scores


@scaled_dot_product_attention.mistake(
    "divided by the root of the number of keys",
    "The scale should depend on the width of queries and keys. You take the number of keys.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = (query @ key.transpose(-2, -1) / math.sqrt(key.size(-2))).softmax(dim=-1)
    return weights @ value, weights


@scaled_dot_product_attention.mistake(
    "divided by the root of the number of queries",
    "The scale should depend on the width of queries and keys. You take the number of queries.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = (query @ key.transpose(-2, -1) / math.sqrt(query.size(-2))).softmax(dim=-1)
    return weights @ value, weights


@scaled_dot_product_attention.mistake(
    "values averaged with the scores",
    "Your weights are right, but you multiply the values by the scores. Multiply them by the weights.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    return scores @ value, scores.softmax(dim=-1)


@scaled_dot_product_attention.mistake(
    "two softmaxes",
    "You apply the softmax to weights that have gone through it already, so they become nearly equal. Once is enough.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = attention(query, key, value)[1].softmax(dim=-1)
    return weights @ value, weights


# 4 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"x": torch.tensor([[[0.0, 1.0, 2.0, 10.0, 11.0, 12.0], [3.0, 4.0, 5.0, 13.0, 14.0, 15.0]]]), "n_heads": 2},
    {"x": numbers(2, 4, 12), "n_heads": 3},
    {"x": numbers(2, 3, 8), "n_heads": 8},
    insight="No number has changed: the vectors are only arranged so that one call of attention serves all heads.",
)
def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """Cut each vector into pieces, one a head."""
    return _cut(x, n_heads).transpose(1, 2)


@split_heads.mistake(
    "the heads are not moved to the front",
    "The vectors are split correctly, but the axes are (batch, length, heads, d_head). Attention works on the last "
    "two axes, so the heads have to come before the length.",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    return _cut(x, n_heads)


@split_heads.mistake(
    "positions and heads mixed up",
    "The shape is right, but each head has numbers from other positions: a reshape never changes the order of the "
    "numbers. Split the last axis first, then swap two axes.",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    batch, length, d_model = x.shape
    return x.reshape(batch, n_heads, length, d_model // n_heads)


@split_heads.mistake(
    "reshaped after the transpose",
    "The shape is right, but after your transpose, a reshape reads the numbers feature by feature, so each vector of a "
    "head is filled with numbers from other positions. Split the last axis first, and swap two axes after that.",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    batch, length, d_model = x.shape
    return x.transpose(1, 2).reshape(batch, n_heads, length, d_model // n_heads)


@split_heads.mistake(
    "a batch of one",
    "Your first size is 1, which is right only for a batch with a single sentence. Take the batch size from x.",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    _, length, d_model = x.shape
    return x.reshape(1, length, n_heads, d_model // n_heads).transpose(1, 2)


@split_heads.mistake(
    "a batch of one with longer sentences",
    "Your first size is 1, so the sentences of a larger batch become a single long one. Take the batch size from x.",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    return x.reshape(1, -1, n_heads, x.size(-1) // n_heads).transpose(1, 2)


@split_heads.mistake(
    "a batch of one with wider heads",
    "Your first size is 1. In a larger batch, the size that you leave to PyTorch (-1) then makes up for it, and the "
    "heads become too wide. Take the batch size from x.",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    return x.reshape(1, x.size(1), n_heads, -1).transpose(1, 2)


@split_heads.mistake(
    "every n-th feature instead of a slice",
    "Each head takes every n-th feature. It should get neighbouring ones: head 0 the first d_head features, head 1 "
    "the next, and so on.",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    return _cut(x, x.size(-1) // n_heads).permute(0, 3, 1, 2)


@split_heads.mistake(
    "n_heads taken for the width of a head",
    "Your parts are n_heads features wide. There should be n_heads parts, so each is d_model / n_heads wide.",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    return _cut(x, x.size(-1) // n_heads).transpose(1, 2)


@split_heads.mistake(
    "the wrong two axes are swapped",
    "Your result has the axes (batch, heads, d_head, length). The features of one position should stay together, on "
    "the last axis.",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    return _cut(x, n_heads).permute(0, 2, 3, 1)


@split_heads.mistake(
    "heads before the batch",
    "The parts are right, but they are stacked along a new first axis. The batch has to stay in front: (batch, heads, "
    "length, d_head).",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    return torch.stack(x.chunk(n_heads, dim=-1))


@split_heads.mistake(
    "heads merged with the batch",
    "The parts are right, but batch and heads share one axis. They should be two: (batch, heads, length, d_head).",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    return _cut(x, n_heads).transpose(1, 2).flatten(0, 1)


@split_heads.mistake(
    "the positions split instead of the features",
    "You divide the positions among the heads. Each head should have all positions, and a part of each vector.",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    return torch.stack(x.chunk(n_heads, dim=1), dim=1)


@split_heads.mistake(
    "the slices overlap",
    "Your slices begin one feature further for each head, so they overlap. The second head begins where the first one "
    "ends.",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    d_head = x.size(-1) // n_heads
    return torch.stack([x[..., i : i + d_head] for i in range(n_heads)], dim=1)


def _cut(x: Tensor, pieces: int) -> Tensor:
    """(batch, length, d_model) → (batch, length, pieces, d_model / pieces)."""
    return x.reshape(*x.shape[:-1], pieces, -1)


# 5 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"heads": torch.tensor([[[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], [[10.0, 11.0, 12.0], [13.0, 14.0, 15.0]]]])},
    {"heads": numbers(2, 3, 4, 5)},
    {"heads": numbers(2, 8, 3, 2)},
    insight="So far the heads haven't exchanged anything: only the output matrix that follows combines them.",
)
def join_heads(heads: Tensor) -> Tensor:
    """Lay the heads side by side again."""
    return heads.transpose(1, 2).flatten(2)


@join_heads.mistake(
    "positions and heads mixed up",
    "The shape is right, but each position has numbers from other positions: in memory, a head's positions lie next "
    "to each other. Swap length and heads before you merge axes.",
)
def _(heads: Tensor) -> Tensor:
    batch, n_heads, length, d_head = heads.shape
    return heads.reshape(batch, length, n_heads * d_head)


@join_heads.mistake(
    "a batch of one",
    "Your first size is 1, which is right only for a batch with a single sentence. Take the batch size from heads.",
)
def _(heads: Tensor) -> Tensor:
    _, n_heads, length, d_head = heads.shape
    return heads.transpose(1, 2).reshape(1, length, n_heads * d_head)


@join_heads.mistake(
    "a batch of one with longer sentences",
    "Your first size is 1, so the sentences of a larger batch become a single long one. Take the batch size from "
    "heads.",
)
def _(heads: Tensor) -> Tensor:
    return heads.transpose(1, 2).reshape(1, -1, heads.size(1) * heads.size(3))


@join_heads.mistake(
    "a batch of one with wider vectors",
    "Your first size is 1. In a larger batch, the size that you leave to PyTorch (-1) then makes up for it, and the "
    "vectors become too wide. Take the batch size from heads.",
)
def _(heads: Tensor) -> Tensor:
    return heads.transpose(1, 2).reshape(1, heads.size(2), -1)


@join_heads.mistake(
    "features of the heads interleaved",
    "Your vectors have the first feature of every head, then the second, and so on. They should have all features of "
    "head 0, then all of head 1.",
)
def _(heads: Tensor) -> Tensor:
    return heads.permute(0, 2, 3, 1).flatten(2)


@join_heads.mistake(
    "heads joined along the length",
    "You append the heads as if they were further positions. They should be concatenated in each position's vector.",
)
def _(heads: Tensor) -> Tensor:
    return heads.flatten(1, 2)


@join_heads.mistake(
    "heads not merged yet",
    "The axes are in the right order, (batch, length, heads, d_head). Now merge the last two into one.",
)
def _(heads: Tensor) -> Tensor:
    return heads.transpose(1, 2)


@join_heads.mistake(
    "heads added",
    "You add the heads, and after that they can't be told apart. Concatenate them instead: the result is n_heads "
    "times as wide as a head.",
)
def _(heads: Tensor) -> Tensor:
    return heads.sum(dim=1)


@join_heads.mistake(
    "heads averaged",
    "You average the heads, and after that they can't be told apart. Concatenate them instead: the result is n_heads "
    "times as wide as a head.",
)
def _(heads: Tensor) -> Tensor:
    return heads.mean(dim=1)


@join_heads.mistake(
    "view after transpose",
    "The idea is right, but after a transpose the numbers aren't in the order in memory that view needs. Use a "
    "function that copies when it has to.",
)
def _(heads: Tensor) -> Tensor:
    batch, n_heads, length, d_head = heads.shape
    return heads.transpose(1, 2).view(batch, length, n_heads * d_head)


@join_heads.mistake(
    "heads in reverse order",
    "Each head is whole, but the last one comes first. Head 0 should come first.",
)
def _(heads: Tensor) -> Tensor:
    return torch.cat(heads.unbind(1)[::-1], dim=-1)


# 6 --------------------------------------------------------------------------------------------------------------------


def _multi_head_inputs(n_query: int, n_key: int, d_model: int, n_heads: int) -> dict[str, object]:
    names = ("w_query", "w_key", "w_value", "w_output")
    return {
        "x": numbers(2, n_query, d_model),
        "memory": numbers(2, n_key, d_model, seed=1),
        **{name: numbers(d_model, d_model, seed=i) for i, name in enumerate(names, start=2)},
        "n_heads": n_heads,
    }


_IDENTITY, _SWAP = torch.eye(4), torch.eye(4)[[1, 0, 3, 2]]


@topic.exercise(
    {
        "x": torch.tensor([[[2.0, 0.0, 0.0, 1.0]]]),
        "memory": torch.tensor([[[1.0, 0.0, 0.0, 2.0], [0.0, 1.0, 3.0, 0.0]]]),
        "w_query": _IDENTITY,
        "w_key": _IDENTITY,
        "w_value": _SWAP,
        "w_output": 10 * _IDENTITY,
        "n_heads": 2,
    },
    _multi_head_inputs(3, 5, 12, 3),
    _multi_head_inputs(4, 4, 8, 2),
    insight="All parameters of the layer are in these four matrices: attention itself has none.",
)
def multi_head_attention(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    """Project, split, attend, join, project."""
    return _multi_head(x @ w_query, memory @ w_key, memory @ w_value, n_heads) @ w_output


def _multi_head(query: Tensor, key: Tensor, value: Tensor, n_heads: int, scale: float = 1.0) -> Tensor:
    query, key, value = (_cut(t, n_heads).transpose(1, 2) for t in (query, key, value))
    return attention(query * scale, key, value)[0].transpose(1, 2).flatten(2)


@multi_head_attention.mistake(
    "one head only",
    "This is a single attention over all d_model features. Split queries, keys and values into n_heads heads before "
    "you call attention.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return attention(x @ w_query, memory @ w_key, memory @ w_value)[0] @ w_output


@multi_head_attention.mistake(
    "no output projection",
    "The heads are computed and joined correctly, but their outputs are never combined. One of the four matrices "
    "isn't used yet.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x @ w_query, memory @ w_key, memory @ w_value, n_heads)


@multi_head_attention.mistake(
    "memory not used", "You compute everything from x, which is self-attention. Keys and values come from the memory."
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x @ w_query, x @ w_key, x @ w_value, n_heads) @ w_output


@multi_head_attention.mistake(
    "x and memory swapped",
    "Your result has one output for each position of the memory. The queries should come from x, the keys and values "
    "from the memory.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(memory @ w_query, x @ w_key, x @ w_value, n_heads) @ w_output


@multi_head_attention.mistake(
    "key and value matrices swapped",
    "Either the keys are computed with w_value and the values with w_key, or attention gets them in the wrong order. "
    "The queries are compared with the keys, and the output is made of the values.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x @ w_query, memory @ w_value, memory @ w_key, n_heads) @ w_output


@multi_head_attention.mistake(
    "values not projected",
    "You average the memory itself. The values are the memory multiplied by a matrix of their own, which isn't used "
    "yet.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x @ w_query, memory @ w_key, memory, n_heads) @ w_output


@multi_head_attention.mistake(
    "matrices transposed",
    "You multiply by the transposed matrices. nn.Linear stores its weight that way, but these are the matrices of the "
    "paper: x W.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x @ w_query.T, memory @ w_key.T, memory @ w_value.T, n_heads) @ w_output.T


@multi_head_attention.mistake(
    "scaled twice", "The function attention already scales the scores. Your second scale makes the weights too uniform."
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    scale = 1 / math.sqrt(x.size(-1) // n_heads)
    return _multi_head(x @ w_query, memory @ w_key, memory @ w_value, n_heads, scale) @ w_output


@multi_head_attention.mistake(
    "scaled by the width of the model",
    "A head's dot product adds up d_head products, not d_model, so the scale depends on d_head. The function "
    "attention takes care of it.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x @ w_query, memory @ w_key, memory @ w_value, n_heads, 1 / math.sqrt(n_heads)) @ w_output


@multi_head_attention.mistake(
    "heads joined without swapping axes",
    "Each head is right, but joining them mixes up positions: swap the axes of heads and length before you merge.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    query, key, value = (_cut(t, n_heads).transpose(1, 2) for t in (x @ w_query, memory @ w_key, memory @ w_value))
    return attention(query, key, value)[0].reshape(x.shape) @ w_output


@multi_head_attention.mistake(
    "heads split without swapping axes",
    "You reshape to (batch, heads, length, d_head) at once. That mixes positions: split the last axis first, and then "
    "swap two axes. At the end, do the same in reverse.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    query, key, value = (
        t.reshape(len(t), n_heads, t.size(1), -1) for t in (x @ w_query, memory @ w_key, memory @ w_value)
    )
    return attention(query, key, value)[0].reshape(x.shape) @ w_output


@multi_head_attention.mistake(
    "values from x",
    "Your values come from x. Keys and values both come from the memory: it is the memory that is averaged.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x @ w_query, memory @ w_key, x @ w_value, n_heads) @ w_output


@multi_head_attention.mistake(
    "keys from x",
    "Your keys come from x. Keys and values both come from the memory.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x @ w_query, x @ w_key, memory @ w_value, n_heads) @ w_output


@multi_head_attention.mistake(
    "queries from the memory",
    "The queries come from the memory. Only keys and values do; the queries come from x.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(memory @ w_query, memory @ w_key, memory @ w_value, n_heads) @ w_output


@multi_head_attention.mistake(
    "query and key matrices swapped",
    "The queries are computed with w_key and the keys with w_query. Each matrix is named after what it computes.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x @ w_key, memory @ w_query, memory @ w_value, n_heads) @ w_output


@multi_head_attention.mistake(
    "n_heads taken for the width of a head",
    "Your heads are n_heads features wide. There should be n_heads of them.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x @ w_query, memory @ w_key, memory @ w_value, x.size(-1) // n_heads) @ w_output


@multi_head_attention.mistake(
    "the output matrix transposed",
    "Everything is right up to the joined heads, but you multiply them by the transposed output matrix. This is the "
    "matrix of the paper: nothing has to be transposed.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x @ w_query, memory @ w_key, memory @ w_value, n_heads) @ w_output.T


@multi_head_attention.mistake(
    "x added",
    "You add x to the output. The residual connection is not part of attention; the layer adds it later.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return x + _multi_head(x @ w_query, memory @ w_key, memory @ w_value, n_heads) @ w_output


@multi_head_attention.mistake(
    "the output matrix applied to the values",
    "You multiply by the output matrix before attention. Then every head already mixes the features of all heads: "
    "join the heads first.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x @ w_query, memory @ w_key, memory @ w_value @ w_output, n_heads)


@multi_head_attention.mistake(
    "the key matrix used for the values",
    "You project the values with `w_key`. They have a matrix of their own, `w_value`.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x @ w_query, memory @ w_key, memory @ w_key, n_heads) @ w_output
