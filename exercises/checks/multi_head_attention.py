"""Checks of 03 many heads (§3.2.2, §3.2.3)."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from exercises.bugs import Bug, WrongRepair, add_bugs
from exercises.check import Topic
from exercises.checks import attention as earlier
from exercises.restrictions import ATTENTION, forbid
from exercises.tensors import numbers
from transformer.attention import MultiHeadAttention, attention

topic = Topic()
check, given = topic.check, topic.given

split_heads, join_heads = earlier.split_heads.reference, earlier.join_heads.reference
"""Blanks of the notebook before; this one builds on them."""


# 1 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {
        "x": torch.tensor([[[1.0, 2.0], [0.0, 1.0]]]),
        "weight": torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [0.0, 3.0], [1.0, -1.0]]),
        "bias": torch.tensor([10.0, 20.0, 30.0, 40.0, 50.0, 60.0]),
    },
    {"x": numbers(2, 3, 4), "weight": numbers(12, 4, seed=1), "bias": numbers(12, seed=2)},
    {
        "x": numbers(3, 5, 6),
        "weight": numbers(18, 6, seed=1),
        "bias": numbers(18, seed=2),
    },
    results=("query", "key", "value"),
    insight="The numbers are those of three products, but one large product keeps a GPU busier than three small ones.",
)
def query_key_value(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One product, cut in three."""
    query, key, value = F.linear(x, weight, bias).chunk(3, dim=-1)
    return query, key, value


@query_key_value.mistake(
    "the matrix not transposed",
    "You multiply by the thirds of the matrix as they are, but PyTorch stores the weight of a linear layer as "
    "(outputs, inputs): the product is with its transpose. The thirds are square, so no error told you.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return tuple(x @ w + b for w, b in zip(weight.chunk(3), bias.chunk(3), strict=True))


@query_key_value.mistake(
    "no bias",
    "The product is right and split correctly, but a linear layer also adds a bias, and yours isn't used yet.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return query_key_value.reference(x, weight, 0 * bias)


@query_key_value.mistake(
    "the same bias for all three",
    "The queries are right, but you add their bias to the keys and values as well. Each of the three has its own "
    "third of the bias.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return query_key_value.reference(x, weight, bias[: x.size(-1)].repeat(3))


@query_key_value.mistake(
    "the matrix reshaped instead of transposed",
    "The matrix now has the shape you need, but a reshape keeps the numbers in reading order, so they end up in the "
    "wrong rows. A transpose turns rows into columns.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return query_key_value.reference(x, weight.reshape(x.size(-1), -1).T, bias)


@query_key_value.mistake(
    "every third feature",
    "You take every third feature for the queries. The three results are next to each other: first all queries, then "
    "all keys, then all values.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return F.linear(x, weight, bias).unflatten(-1, (-1, 3)).unbind(-1)


@query_key_value.mistake(
    "cut in reading order",
    "You cut the result in reading order, so your queries also contain keys and values of the first positions. Split "
    "the last axis.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return F.linear(x, weight, bias).reshape(3, *x.shape).unbind(0)


@query_key_value.mistake(
    "the sentence split instead of the features",
    "You split the positions into three parts. Every position has all three results, side by side in the last axis.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return F.linear(x, weight, bias).chunk(3, dim=1)


@query_key_value.mistake(
    "the positions split in three",
    "You split the positions into three parts, and where there are fewer than three, Python stops. Every position "
    "has all three results, side by side in the last axis.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    query, key, value = F.linear(x, weight, bias).chunk(3, dim=1)
    return query, key, value


@query_key_value.mistake(
    "the batch split in three",
    "You split the batch into three parts: without an axis, that is the first one. The three results are side by "
    "side in the last axis.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    query, key, value = F.linear(x, weight, bias).chunk(3)
    return query, key, value


@query_key_value.mistake(
    "keys and queries swapped",
    "You return the keys as queries and the queries as keys. Their order is that of the layer's name: query, key, "
    "value.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    query, key, value = query_key_value.reference(x, weight, bias)
    return key, query, value


@query_key_value.mistake(
    "keys and values swapped", "The queries are right, but you return the values as keys and the keys as values."
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    query, key, value = query_key_value.reference(x, weight, bias)
    return query, value, key


@query_key_value.mistake("in reverse order", "You return values, keys and queries. The layer has the queries first.")
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return query_key_value.reference(x, weight, bias)[::-1]


@query_key_value.mistake(
    "the queries three times",
    "All three of your results are the queries. They come from the same input, but each through its own third of the "
    "matrix.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return (query_key_value.reference(x, weight, bias)[0],) * 3


@query_key_value.mistake(
    "the parts overlap by one",
    "Your parts don't begin where the one before ends. The first d numbers are the query, the next d the key, and "
    "the last d the value.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y, d = F.linear(x, weight, bias), x.size(-1)
    return y[..., :d], y[..., d - 1 : 2 * d - 1], y[..., 2 * d :]


@query_key_value.mistake(
    "the bias added twice",
    "You add the bias once more: the linear layer has added it already.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return query_key_value.reference(x, weight, 2 * bias)


@query_key_value.mistake(
    "a bias for the queries only",
    "The queries are right, but keys and values have no bias yet. Each of the three has its own third of it.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return query_key_value.reference(x, weight, torch.where(torch.arange(len(bias)) < x.size(-1), bias, 0))


@query_key_value.mistake(
    "cut in reading order within each sentence",
    "You cut each sentence's result in reading order, so your queries also contain keys and values of the first "
    "positions. Split the last axis.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    batch, length, d_model = x.shape
    return F.linear(x, weight, bias).reshape(batch, 3, length, d_model).unbind(1)


@query_key_value.mistake(
    "the keys as values",
    "Queries and keys are right, but you return the keys once more as values. The values are the last third.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    query, key, _ = query_key_value.reference(x, weight, bias)
    return query, key, key


# 2 --------------------------------------------------------------------------------------------------------------------


def _layer_inputs(batch: int, n_query: int, n_key: int, d: int, n_heads: int, real: list[int]) -> dict[str, Any]:
    """A layer of random weights; ``real`` are the lengths of the sentences in the memory."""
    return {
        "x": numbers(batch, n_query, d),
        "memory": numbers(batch, n_key, d, seed=1),
        "real": torch.arange(n_key) < torch.tensor(real)[:, None],
        "weight": numbers(3 * d, d, seed=2),
        "bias": numbers(3 * d, seed=3),
        "w_output": numbers(d, d, seed=4),
        "b_output": numbers(d, seed=5),
        "n_heads": n_heads,
    }


@topic.exercise(
    {
        "x": torch.tensor([[[1.0, 0.0]]]),
        "memory": torch.tensor([[[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]]),
        "real": torch.tensor([[True, True, False]]),
        "weight": torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 10.0], [10.0, 0.0]]),
        "bias": torch.tensor([0.0, 1.0, 0.0, 0.0, 20.0, 50.0]),
        "w_output": torch.tensor([[1.0, 0.0], [1.0, 1.0]]),
        "b_output": torch.tensor([100.0, 200.0]),
        "n_heads": 2,
    },
    _layer_inputs(2, 3, 5, 4, 2, [3, 5]),  # as many sentences as heads: a mask on the wrong axis is no error
    _layer_inputs(3, 4, 4, 12, 4, [4, 2, 3]),  # as many queries as keys: nor is the wrong sentence,
    _layer_inputs(2, 2, 5, 4, 2, [3, 5])
    | {"real": torch.tensor([[False, True, True, False, True], [True, True, False, True, True]])},
    insight="This is the only place where the decoder reads the source sentence.",
)
def cross_attention(
    x: Tensor,
    memory: Tensor,
    real: Tensor,
    weight: Tensor,
    bias: Tensor,
    w_output: Tensor,
    b_output: Tensor,
    n_heads: int,
) -> Tensor:
    """The package's layer with these weights."""
    with torch.device("meta"):
        layer = MultiHeadAttention(x.size(-1), n_heads)
    weights = {
        "query_key_value.weight": weight,
        "query_key_value.bias": bias,
        "output.weight": w_output,
        "output.bias": b_output,
    }
    result: Tensor = torch.func.functional_call(layer, weights, (x, memory, real[:, None, None, :]))
    return result


def _heads(
    x: Tensor, memory: Tensor, mask: Tensor | None, weight: Tensor, bias: Tensor, n_heads: int, order: str = "qkv"
) -> Tensor:
    """What the heads found, (batch, heads, n_query, d_head); ``order``: what the three parts of the matrix are for."""
    parts = {letter: part for letter, *part in zip(order, weight.chunk(3), bias.chunk(3), strict=True)}
    query, key, value = (
        split_heads(F.linear(t, *parts[letter]), n_heads) for letter, t in (("q", x), ("k", memory), ("v", memory))
    )
    return attention(query, key, value, mask)[0]


def _cross(x: Tensor, memory: Tensor, mask: Tensor | None, *layer: Any, order: str = "qkv") -> Tensor:
    """A layer with any mask, which the explicit form of attention may find wrong."""
    weight, bias, w_output, b_output, n_heads = layer
    return F.linear(join_heads(_heads(x, memory, mask, weight, bias, n_heads, order)), w_output, b_output)


def _stretched(real: Tensor) -> Tensor:
    return real[:, None, None, :]


@cross_attention.mistake(
    "padding not hidden",
    "Without padding this would be right. The argument that tells real tokens from padding isn't used yet.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    return _cross(x, memory, None, *layer)


@cross_attention.mistake(
    "the mask inverted",
    'Your queries attend to the padding and to nothing else. In this course True means "may attend"; PyTorch\'s '
    "module uses the opposite convention.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    return _cross(x, memory, _stretched(~real), *layer)


@cross_attention.mistake(
    "the mask lacks an axis",
    "Broadcasting aligns axes from the right, so your mask's sentences line up with the heads. If there happen "
    "to be as many sentences as heads, you don't even get an error. The scores have four axes.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    return _cross(x, memory, real[:, None, :], *layer)


@cross_attention.mistake(
    "the mask varies along the queries",
    "Your mask varies along the rows of the scores, so it says which queries may attend. It should say which positions "
    "of the memory may be attended to, and those are the columns.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    return _cross(x, memory, real[:, None, :, None], *layer)


@cross_attention.mistake(
    "values zeroed, weights not masked",
    "Padding contributes only zeros, but it still takes its share of the weights, so the weights of the real tokens "
    "don't sum to one. Hide it before the softmax.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, w_output, b_output, n_heads = layer
    query, _, _ = (split_heads(t, n_heads) for t in query_key_value.reference(x, weight, bias))
    _, key, value = (split_heads(t, n_heads) for t in query_key_value.reference(memory, weight, bias))
    heads, _ = attention(query, key, value * real[:, None, :, None])
    return F.linear(join_heads(heads), w_output, b_output)


@cross_attention.mistake(
    "padding vectors set to zero",
    "You set the vectors of the padding to zero. A zero vector still gets a score and therefore a weight; use the "
    "mask in attention.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    return _cross(x, memory * real[..., None], None, *layer)


@cross_attention.mistake(
    "memory not used",
    "You compute queries, keys and values from x, which is self-attention. In cross-attention, keys and values come "
    "from the memory.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    return _cross(x, x, _stretched(real), *layer)


@cross_attention.mistake(
    "x and memory swapped",
    "Your result has one output for each position of the memory. The queries should come from x.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    return _cross(memory, x, _stretched(real), *layer)


@cross_attention.mistake(
    "keys from x",
    "The values come from the memory, but the keys come from x. A key and its value always belong to the same token.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, w_output, b_output, n_heads = layer
    query, key, _ = (split_heads(t, n_heads) for t in query_key_value.reference(x, weight, bias))
    _, _, value = (split_heads(t, n_heads) for t in query_key_value.reference(memory, weight, bias))
    heads, _ = attention(query, key, value, _stretched(real))
    return F.linear(join_heads(heads), w_output, b_output)


@cross_attention.mistake(
    "keys and values swapped",
    "Your queries are compared with the values, and the output is made of the keys. The layer stacks queries, keys "
    "and values in this order: the keys are the second third.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    return _cross(x, memory, _stretched(real), *layer, order="qvk")


@cross_attention.mistake(
    "the matrices of queries and keys swapped",
    "You compute the queries with the second third of the matrix and the keys with the first. The first third belongs "
    "to the queries.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    return _cross(x, memory, _stretched(real), *layer, order="kqv")


@cross_attention.mistake(
    "no bias in the projections",
    "You leave out the biases of queries, keys and values. (The bias of the keys would not be missed: it adds the "
    "same number to all scores of a query.)",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, *rest = layer
    return _cross(x, memory, _stretched(real), weight, 0 * bias, *rest)


@cross_attention.mistake(
    "no output projection",
    "The heads are computed and joined correctly, but their outputs are never combined: the output matrix isn't used "
    "yet.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, _, _, n_heads = layer
    return join_heads(_heads(x, memory, _stretched(real), weight, bias, n_heads))


@cross_attention.mistake(
    "no bias in the output projection",
    "Everything is right except for a constant vector that should be added at every position: the output projection "
    "has a bias, too.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    *rest, b_output, n_heads = layer
    return _cross(x, memory, _stretched(real), *rest, 0 * b_output, n_heads)


@cross_attention.mistake(
    "the output matrix not transposed",
    "Everything is right up to the joined heads. The output matrix is stored like the first one, (out, in), so it has "
    "to be transposed as well.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, w_output, b_output, n_heads = layer
    return _cross(x, memory, _stretched(real), weight, bias, w_output.T, b_output, n_heads)


@cross_attention.mistake(
    "not split into heads",
    "Queries, keys and values go into attention without being split. Only your mask has an axis for the heads.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, w_output, b_output, _ = layer
    query, _, _ = query_key_value.reference(x, weight, bias)
    _, key, value = query_key_value.reference(memory, weight, bias)
    return F.linear(join_heads(attention(query, key, value, _stretched(real))[0]), w_output, b_output)


@cross_attention.mistake(
    "one head only",
    "This is a single attention over all d_model features. Split queries, keys and values into heads first.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    *rest, _ = layer
    return _cross(x, memory, _stretched(real), *rest, 1)


@cross_attention.mistake(
    "heads joined without swapping axes",
    "Each head is right, but joining them mixes up positions: length and heads have to be swapped before you merge.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, w_output, b_output, n_heads = layer
    heads = _heads(x, memory, _stretched(real), weight, bias, n_heads)
    return F.linear(heads.reshape(x.shape), w_output, b_output)


@cross_attention.mistake(
    "the mask of the first sentence",
    "You hide the padding of the first sentence in all of them. Each sentence has padding of its own.",
)
def _(
    x: Tensor,
    memory: Tensor,
    real: Tensor,
    weight: Tensor,
    bias: Tensor,
    w_output: Tensor,
    b_output: Tensor,
    n_heads: int,
) -> Tensor:
    return _cross(x, memory, _stretched(real[:1]), weight, bias, w_output, b_output, n_heads)


@cross_attention.mistake(
    "padding taken to be at the end",
    "You assume that the padding is at the end: you count the real tokens and hide everything after that many "
    "positions. Use `real`, which marks the real tokens, wherever they are.",
)
def _(
    x: Tensor,
    memory: Tensor,
    real: Tensor,
    weight: Tensor,
    bias: Tensor,
    w_output: Tensor,
    b_output: Tensor,
    n_heads: int,
) -> Tensor:
    at_end = torch.arange(real.size(1)) < real.sum(1, keepdim=True)
    return _cross(x, memory, _stretched(at_end), weight, bias, w_output, b_output, n_heads)


@cross_attention.mistake(
    "the matrices not transposed",
    "You multiply by the thirds of the matrix as they are, but they are stored like the weight of a linear layer, "
    "(out, in): the product is with the transpose.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, *rest = layer
    turned = torch.cat([part.T for part in weight.chunk(3)])
    return _cross(x, memory, _stretched(real), turned, *rest)


@cross_attention.mistake(
    "the same bias for all three",
    "You add the bias of the queries to keys and values as well. Each has its own third of the bias.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, *rest = layer
    return _cross(x, memory, _stretched(real), weight, bias[: x.size(-1)].repeat(3), *rest)


@cross_attention.mistake(
    "no bias for the values",
    "Your values have no bias. It is the last third of the bias.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, *rest = layer
    short = torch.where(torch.arange(len(bias)) < 2 * x.size(-1), bias, 0)
    return _cross(x, memory, _stretched(real), weight, short, *rest)


@cross_attention.mistake(
    "no bias for the queries",
    "Your queries have no bias. It is the first third of the bias.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, *rest = layer
    short = torch.where(torch.arange(len(bias)) < x.size(-1), 0, bias)
    return _cross(x, memory, _stretched(real), weight, short, *rest)


@cross_attention.mistake(
    "scaled by the width of the model",
    "You divide the scores by the root of d_model. A head's dot product adds up d_head products only, so the scale "
    "depends on d_head. The function `attention` takes care of it.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, *rest = layer
    scale = torch.where(torch.arange(len(bias)) < x.size(-1), 1 / math.sqrt(layer[-1]), 1)
    return _cross(x, memory, _stretched(real), weight * scale[:, None], bias * scale, *rest)


@cross_attention.mistake(
    "x added",
    "You add x to the output. The residual connection is not part of attention; the layer adds it later.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    return x + _cross(x, memory, _stretched(real), *layer)


@cross_attention.mistake(
    "values from x",
    "The keys come from the memory, but the values come from x. A key and its value always belong to the same token.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, w_output, b_output, n_heads = layer
    query, _, value = (split_heads(t, n_heads) for t in query_key_value.reference(x, weight, bias))
    _, key, _ = (split_heads(t, n_heads) for t in query_key_value.reference(memory, weight, bias))
    heads, _ = attention(query, key, value, _stretched(real))
    return F.linear(join_heads(heads), w_output, b_output)


@cross_attention.mistake(
    "hidden scores set to zero",
    "You multiply the scores by the mask. A score of 0 isn't low, so the padding still gets weight: pass the mask to "
    "`attention`, or use a very low score.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, w_output, b_output, n_heads = layer
    query, _, _ = (split_heads(t, n_heads) for t in query_key_value.reference(x, weight, bias))
    _, key, value = (split_heads(t, n_heads) for t in query_key_value.reference(memory, weight, bias))
    weights = (query @ key.mT / math.sqrt(query.size(-1)) * _stretched(real)).softmax(-1)
    return F.linear(join_heads(weights @ value), w_output, b_output)


@cross_attention.mistake(
    "not scaled",
    "The scores aren't divided by anything, so the weights are too sharp. The function `attention` scales them.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, *rest = layer
    root = math.sqrt(x.size(-1) // layer[-1])
    scale = torch.where(torch.arange(len(bias)) < x.size(-1), root, 1)
    return _cross(x, memory, _stretched(real), weight * scale[:, None], bias * scale, *rest)


# 3 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {
        "heads": torch.tensor([[[[1.0, 2.0]], [[3.0, 0.0]]]]),
        "w_output": torch.tensor([[1.0, 0, 0, 2], [0, 1, 0, 3], [1, 1, 0, 0], [0, 0, 10, 0]]),
    },
    {"heads": numbers(2, 3, 5, 4), "w_output": numbers(12, 12, seed=1)},
    {"heads": numbers(2, 4, 4, 4), "w_output": numbers(16, 16, seed=1)},
)
def head_contributions(heads: Tensor, w_output: Tensor) -> Tensor:
    """Each head through its own columns."""
    return torch.einsum("bhqd,ohd->bhqo", heads, w_output.unflatten(1, (heads.size(1), -1)))


def _joined_output(heads: Tensor, w_output: Tensor) -> Tensor:
    return join_heads(heads) @ w_output.T


@head_contributions.mistake(
    "rows instead of columns",
    "You split the matrix by rows. That would be right for the paper's W^O; this one is stored transposed, (out, in), "
    "so a head's part consists of columns.",
)
def _(heads: Tensor, w_output: Tensor) -> Tensor:
    return heads @ w_output.unflatten(0, (heads.size(1), -1))


@head_contributions.mistake(
    "the matrix reshaped",
    "A reshape keeps the numbers in reading order, so your parts mix the columns of several heads. Split the columns: "
    "(d_model, heads, d_head), and then swap axes.",
)
def _(heads: Tensor, w_output: Tensor) -> Tensor:
    return heads @ w_output.reshape(heads.size(1), w_output.size(0), -1).mT


@head_contributions.mistake(
    "every n-th column",
    "You give each head every n-th column. In the concatenated vector a head's features are next to each other, and "
    "so are its columns.",
)
def _(heads: Tensor, w_output: Tensor) -> Tensor:
    return heads @ w_output.unflatten(1, (-1, heads.size(1))).permute(2, 1, 0)


@head_contributions.mistake(
    "the first head's part for all heads",
    "The first head is right, but you multiply the others by the first head's columns. Each head has its own.",
)
def _(heads: Tensor, w_output: Tensor) -> Tensor:
    return heads @ w_output[:, : heads.size(-1)].T


@head_contributions.mistake(
    "added already", "This is the sum, the output of the whole layer. Return its terms, one for each head."
)
def _(heads: Tensor, w_output: Tensor) -> Tensor:
    return _joined_output(heads, w_output)


@head_contributions.mistake(
    "the result split instead of the matrix",
    "You multiply first and split the result. By then every number is a mixture of all heads, so the split has to "
    "come before the product.",
)
def _(heads: Tensor, w_output: Tensor) -> Tensor:
    return split_heads(_joined_output(heads, w_output), heads.size(1))


@head_contributions.mistake(
    "equal shares of the sum",
    "Your terms add up to the right sum, but they are all the same. Each head's term depends only on that head's own "
    "output.",
)
def _(heads: Tensor, w_output: Tensor) -> Tensor:
    n_heads = heads.size(1)
    return (_joined_output(heads, w_output) / n_heads)[:, None].expand(-1, n_heads, -1, -1)


@head_contributions.mistake(
    "the layer without each head",
    "You return what is left of the layer without the head. Return what that head itself adds.",
)
def _(heads: Tensor, w_output: Tensor) -> Tensor:
    return _joined_output(heads, w_output)[:, None] - head_contributions.reference(heads, w_output)


@head_contributions.mistake(
    "positions before heads",
    "The numbers are right, but the axes should be (batch, heads, n_query, d_model), with the heads before the "
    "positions.",
)
def _(heads: Tensor, w_output: Tensor) -> Tensor:
    return head_contributions.reference(heads, w_output).transpose(1, 2)


@head_contributions.mistake(
    "running sums",
    "You add each head to those before it. Each entry should be the contribution of a single head.",
)
def _(heads: Tensor, w_output: Tensor) -> Tensor:
    return head_contributions.reference(heads, w_output).cumsum(1)


@head_contributions.mistake(
    "the columns overlap",
    "Your slices of the matrix begin one column further for each head, so they overlap. A head's columns begin where "
    "those of the head before end.",
)
def _(heads: Tensor, w_output: Tensor) -> Tensor:
    d_head = heads.size(-1)
    return torch.stack([heads[:, i] @ w_output[:, i : i + d_head].T for i in range(heads.size(1))], dim=1)


# 4 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"n_query": 3, "n_key": 5, "d_model": 8, "n_heads": 2},
    {"n_query": 2, "n_key": 7, "d_model": 6, "n_heads": 1},
    {"n_query": 25, "n_key": 30, "d_model": 512, "n_heads": 8},
    results=("parameters", "multiplications", "exponentials"),
)
def layer_cost(n_query: int, n_key: int, d_model: int, n_heads: int) -> tuple[int, int, int]:
    """By the formula; a test counts what the package's own layer does."""
    return _cost(n_query, n_key, d_model, n_heads)


def _cost(
    n_query: int,
    n_key: int,
    d: int,
    n_heads: int,
    *,
    matrices: int = 4,
    from_x: int = 2,
    from_memory: int = 2,
    tables: int = 2,
    width: float = 1.0,
) -> tuple[int, int, int]:
    """Of a layer in which the vectors of x and of the memory go through so many matrices.

    ``tables``: 2 for scores and blends; ``width``: all heads together, in units of d.
    """
    projections = (from_x * n_query + from_memory * n_key) * d * d
    pairs = n_query * n_key
    return matrices * (d * d + d), projections + int(tables * pairs * d * width), n_heads * pairs


@layer_cost.mistake(
    "no biases",
    "Products and exponentials are right. Each of the four linear layers has a bias besides its matrix, and these are "
    "parameters, too.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    _, *rest = _cost(n_query, n_key, d_model, n_heads)
    return 4 * d_model**2, *rest


@layer_cost.mistake(
    "three matrices",
    "You count the matrices of queries, keys and values. The output projection is missing, in the parameters and in "
    "the products.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    return _cost(n_query, n_key, d_model, n_heads, matrices=3, from_x=1)


@layer_cost.mistake(
    "heads as wide as the model",
    "The projections are right, but each of your heads has d_model features. A head has only its share of them.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    return _cost(n_query, n_key, d_model, n_heads, width=n_heads)


@layer_cost.mistake(
    "scores of a single head",
    "The projections are right, but you count the scores and weighted sums of a single head. There are n_heads of "
    "them.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    return _cost(n_query, n_key, d_model, n_heads, width=1 / n_heads)


@layer_cost.mistake(
    "everything multiplied by the heads",
    "You multiply the cost of a full-width layer by the number of heads. With more heads, each of them becomes "
    "narrower.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    return tuple(n_heads * n for n in _cost(n_query, n_key, d_model, 1))


@layer_cost.mistake(
    "no weighted sums",
    "You count the scores, but not what the weights are used for: the weighted sum of the values is a matrix product "
    "as well.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    return _cost(n_query, n_key, d_model, n_heads, tables=1)


@layer_cost.mistake(
    "no projections", "Scores and weighted sums are right. The products with the four matrices are missing."
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    return _cost(n_query, n_key, d_model, n_heads, from_x=0, from_memory=0)


@layer_cost.mistake(
    "the products of the output projection left out",
    "The parameters are right. In the multiplications, the output projection is missing: it is applied to the n_query "
    "outputs.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    return _cost(n_query, n_key, d_model, n_heads, from_x=1)


@layer_cost.mistake(
    "self-attention counted",
    "This would be right for self-attention. In cross-attention, two of the matrices are applied to n_query positions "
    "and the other two to n_key positions.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    return _cost(n_query, n_key, d_model, n_heads, from_x=4, from_memory=0)


@layer_cost.mistake(
    "all three projections for both inputs",
    "You apply all three projections to both inputs. x needs only queries, and the memory only keys and values.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    return _cost(n_query, n_key, d_model, n_heads, from_x=4, from_memory=3)


@layer_cost.mistake(
    "additions counted as well",
    "Your number is twice as large, because you count each addition, too. That is a common convention (FLOPs), but "
    "here only multiplications count.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    parameters, products, exponentials = _cost(n_query, n_key, d_model, n_heads)
    return parameters, 2 * products, exponentials


@layer_cost.mistake(
    "one softmax for all heads",
    "Parameters and multiplications are right. But each head has weights of its own, so it needs exponentials "
    "of its own.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    parameters, products, _ = _cost(n_query, n_key, d_model, n_heads)
    return parameters, products, n_query * n_key


@layer_cost.mistake(
    "the output projection counted for the keys",
    "The output projection is applied to what each query has collected, so once for each query. Only keys and "
    "values are computed from the memory.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> tuple[int, int, int]:
    return _cost(n_query, n_key, d_model, n_heads, from_x=1, from_memory=3)


@layer_cost.mistake(
    "biases counted as multiplications",
    "A bias is added, not multiplied: it is a parameter, but adds nothing to the multiplications.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    parameters, products, exponentials = _cost(n_query, n_key, d_model, n_heads)
    return parameters, products + 2 * (n_query + n_key) * d_model, exponentials


@layer_cost.mistake(
    "an exponential for each feature",
    "Parameters and multiplications are right. The softmax is applied to the scores: there is one for each pair of a "
    "query and a key, in each head.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    parameters, products, _ = _cost(n_query, n_key, d_model, n_heads)
    return parameters, products, n_query * n_key * d_model


@layer_cost.mistake(
    "one number as bias",
    "The bias of a linear layer is a vector: one number for each of its d_model outputs.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    _, products, exponentials = _cost(n_query, n_key, d_model, n_heads)
    return 4 * (d_model**2 + 1), products, exponentials


@layer_cost.mistake(
    "the bias of one layer only",
    "You count a single bias vector. Each of the four linear layers has one of its own.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    _, products, exponentials = _cost(n_query, n_key, d_model, n_heads)
    return 4 * d_model**2 + d_model, products, exponentials


@layer_cost.mistake(
    "d^2 for a square",
    "`^` is no power in Python: it compares the bits of two integers. A power is written with two asterisks.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    projections = 2 * (d_model ^ 2 * (n_query + n_key)) + 2 * n_query * n_key * d_model
    return 4 * ((d_model ^ 2) + d_model), projections, n_heads * n_query * n_key


@layer_cost.mistake(
    "all four projections for both inputs",
    "You apply all four matrices to both inputs. Two of them are applied to n_query positions, and the other two to "
    "n_key.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    return _cost(n_query, n_key, d_model, n_heads, from_x=4, from_memory=4)


@layer_cost.mistake(
    "matrices of full width for each head",
    "Your heads have query, key and value matrices of full width. All heads share one layer for each of the three, "
    "and each takes its slice of the result.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    _, products, exponentials = _cost(n_query, n_key, d_model, n_heads)
    return (3 * n_heads + 1) * (d_model**2 + d_model), products, exponentials


# 5 --------------------------------------------------------------------------------------------------------------------


def _grouped_inputs(heads: int, groups: int, seed: int) -> dict[str, Tensor]:
    return {
        "query": numbers(2, heads, 3, 4, seed=seed),
        "key": numbers(2, groups, 5, 4, seed=seed + 1),
        "value": numbers(2, groups, 5, 4, seed=seed + 2),
    }


@topic.exercise(
    {
        "query": torch.tensor([[[[0.0]], [[1.0]], [[0.0]], [[-1.0]]]]),
        "key": torch.tensor([[[[0.0], [2.0]], [[2.0], [0.0]]]]),
        "value": torch.tensor([[[[1.0], [2.0]], [[30.0], [40.0]]]]),
    },
    _grouped_inputs(6, 2, 0),
    _grouped_inputs(4, 1, 3),
    _grouped_inputs(6, 3, 6),
    _grouped_inputs(3, 3, 9),
    guard=forbid(
        ATTENTION,
        "It can share the keys and values by itself, and that is what you write here. Use `attention` from the cell at "
        "the top.",
    ),
    insight="With a single group, the KV cache shrinks by a factor equal to the number of heads.",
)
def grouped_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Each group's keys and values once more for each head of the group."""
    return attention(query, _each(query, key), _each(query, value))[0]


def _each(query: Tensor, x: Tensor) -> Tensor:
    """0, 0, 1, 1, …"""
    return x.repeat_interleave(query.size(1) // x.size(1), dim=1)


def _in_turn(query: Tensor, x: Tensor) -> Tensor:
    """0, 1, 0, 1, …"""
    return x.repeat(1, query.size(1) // x.size(1), 1, 1)


@grouped_attention.mistake(
    "groups assigned in turn",
    "You assign the groups in turn: 0, 1, 0, 1. Heads of the same group should be neighbours: 0, 0, 1, 1. (A model "
    "trained your way works just as well, but one that was trained with neighbours does not work with your code.)",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention(query, _in_turn(query, key), _in_turn(query, value))[0]


@grouped_attention.mistake(
    "keys and values swapped",
    "Your queries are compared with the values, and the output is made of the keys.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention(query, _each(query, value), _each(query, key))[0]


@grouped_attention.mistake(
    "different groups for keys and values",
    "The weights are right, but you use them on the values of another group. Repeat the values in the same order as "
    "the keys.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention(query, _each(query, key), _in_turn(query, value))[0]


@grouped_attention.mistake(
    "the first group for all heads",
    "All of your heads use the keys and values of group 0. Each should use those of its own group.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention(query, key[:, :1], value[:, :1])[0]


@grouped_attention.mistake(
    "groups averaged", "You average the groups. Each head should use the keys and values of one group, unchanged."
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention(query, key.mean(1, keepdim=True), value.mean(1, keepdim=True))[0]


@grouped_attention.mistake(
    "groups joined along the length",
    "Each of your heads sees the keys of all groups, as if they were further positions. It should see only those of "
    "its own group.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention(query, key.flatten(1, 2)[:, None], value.flatten(1, 2)[:, None])[0]


@grouped_attention.mistake(
    "queries averaged",
    "You average the queries that share keys, so there is only one output per group. The heads share keys and values, "
    "but each keeps its own queries.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention(query.unflatten(1, (key.size(1), -1)).mean(2), key, value)[0]


@grouped_attention.mistake(
    "one query head per group",
    "You keep one query head of each group and drop the others. Every query head should have an output.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention(query[:, :: query.size(1) // key.size(1)], key, value)[0]


@grouped_attention.mistake(
    "heads returned in another order",
    "Each head's output is right, but the order has changed: the first head of every group comes first. Return the "
    "heads in the order of the queries.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    grouped = query.unflatten(1, (key.size(1), -1))
    return attention(grouped, key[:, :, None], value[:, :, None])[0].transpose(1, 2).flatten(1, 2)


@grouped_attention.mistake(
    "scaled twice", "The function attention already scales the scores. Your second scale makes the weights too uniform."
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention(query / math.sqrt(query.size(-1)), _each(query, key), _each(query, value))[0]


@grouped_attention.mistake(
    "queries averaged in each group",
    "You average the queries of a group, so all its heads give the same result. Only keys and values are shared. "
    "Each head keeps its own queries.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    share = query.size(1) // key.size(1)
    grouped = query.unflatten(1, (key.size(1), share)).mean(2)
    return attention(grouped, key, value)[0].repeat_interleave(share, dim=1)


# 6 --------------------------------------------------------------------------------------------------------------------


def _repair_inputs(length: int, d_model: int, n_heads: int, seed: int) -> dict[str, Any]:
    matrices = ("w_query", "w_key", "w_value", "w_output")
    weights = {name: numbers(d_model, d_model, seed=seed + i) for i, name in enumerate(matrices, 1)}
    return {"x": numbers(2, length, d_model, seed=seed), **weights, "n_heads": n_heads}


@topic.exercise(
    _repair_inputs(2, 4, 2, 0),
    _repair_inputs(5, 6, 1, 5),
    _repair_inputs(6, 12, 3, 10),
    _repair_inputs(1, 8, 4, 15),
    guard=forbid(ATTENTION, "There is something to repair here, so don't replace it: correct the code that is given."),
    insight="None of these bugs raises an error: what reveals them is an input whose result you know.",
)
def self_attention(
    x: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    """Multi-head self-attention, step by step."""
    batch, length, d_model = x.shape
    d_head = d_model // n_heads
    query, key, value = (
        F.linear(x, weight).view(batch, length, n_heads, d_head).transpose(1, 2) for weight in (w_query, w_key, w_value)
    )
    scores = query @ key.transpose(-2, -1) / d_head**0.5
    weights = scores.softmax(dim=-1)
    heads = weights @ value  # (batch, n_heads, length, d_head)
    return F.linear(heads.transpose(1, 2).reshape(batch, length, d_model), w_output)


add_bugs(
    self_attention,
    Bug(
        "the outputs aren't weighted averages",
        "With a single head, let all values be the same vector: the first feature of each position is 1, and `w_value` "
        "reads nothing else. Whatever the weights are, the average of equal vectors should be that vector. What do "
        "your weights add up to?",
        "dim=-1",
        "dim=-2",
        (
            WrongRepair(
                "weights over the heads",
                "For each query and each key, your weights of all heads add up to 1. The heads don't share anything: "
                "in each of them, the weights of a query over the keys should add up to 1.",
                "dim=1",
            ),
        ),
    ),
    Bug(
        "the heads mix up positions",
        "With several heads, swap two positions of `x`. Their outputs should be swapped as well, and the others should "
        "stay the same. Look at an x whose entries are 0, 1, 2, …: which of them does the first head get?",
        ".view(batch, length, n_heads, d_head).transpose(1, 2)",
        ".view(batch, n_heads, length, d_head)",
        (
            WrongRepair(
                "each position attends to itself only",
                "The features are split correctly, but the axis of the positions comes before that of the heads. So "
                "the scores compare the heads of one position with each other. Print the shape of the scores.",
                ".view(batch, length, n_heads, d_head)",
            ),
        ),
    ),
    Bug(
        "the weights are too uniform",
        "Compare one head with two that do the same: join x with itself along the last axis, and put two copies of "
        "each matrix on the diagonal (`torch.block_diag`). The result should be that of the single head, twice. How "
        "many terms does the dot product of a query and a key have?",
        "/ d_head**0.5",
        "/ d_model**0.5",
        (
            WrongRepair(
                "scaled too much",
                "You divide by the number of terms itself. The variance of a sum grows with the number of its terms, "
                "and the standard deviation more slowly.",
                "/ d_head",
            ),
            WrongRepair(
                "not scaled",
                "The scores aren't divided by anything. Without scaling, they grow with the width of a head.",
                "",
            ),
        ),
    ),
)
