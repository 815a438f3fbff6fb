"""Checks of 03 many heads (§3.2.2, §3.2.3)."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from exercises.check import Topic, numbers
from exercises.checks import attention as earlier
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
        "x": numbers(3, 5, 6, dtype=torch.float64),
        "weight": numbers(18, 6, seed=1, dtype=torch.float64),
        "bias": numbers(18, seed=2, dtype=torch.float64),
    },
    results=("query", "key", "value"),
)
def query_key_value(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One product, cut in three."""
    query, key, value = F.linear(x, weight, bias).chunk(3, dim=-1)
    return query, key, value


@query_key_value.mistake(
    "no bias",
    "The product is right and rightly cut. A linear layer has something to add, which you do not use.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return query_key_value.reference(x, weight, 0 * bias)


@query_key_value.mistake(
    "one bias for all three",
    "The queries are right. Keys and values get the queries' bias; there is one for each of the three.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return query_key_value.reference(x, weight, bias[: x.size(-1)].repeat(3))


@query_key_value.mistake(
    "reshaped, not turned",
    "The shape of the matrix fits now, but its numbers have lost their places: a reshape reads them row by row into "
    "other rows. To turn a matrix, rows must become columns.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return query_key_value.reference(x, weight.reshape(x.size(-1), -1).T, bias)


@query_key_value.mistake(
    "every third number",
    "You take every third number for the queries. The three lie one behind the other: all of the queries, all of the "
    "keys, all of the values.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return F.linear(x, weight, bias).unflatten(-1, (-1, 3)).unbind(-1)


@query_key_value.mistake(
    "the sentence cut in three",
    "It is the words that you cut into three parts. Each word has all three: which axis holds a word's own numbers?",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return F.linear(x, weight, bias).chunk(3, dim=1)


@query_key_value.mistake(
    "keys before queries", "Queries and keys have changed places. Which stands first in the name of the layer?"
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    query, key, value = query_key_value.reference(x, weight, bias)
    return key, query, value


@query_key_value.mistake("values before keys", "The queries are right. Keys and values have changed places.")
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    query, key, value = query_key_value.reference(x, weight, bias)
    return query, value, key


@query_key_value.mistake(
    "from the last to the first", "All three are there, values first. The matrix begins with the queries' rows."
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return query_key_value.reference(x, weight, bias)[::-1]


@query_key_value.mistake(
    "the queries three times",
    "All three are the queries. They come from the same words, but each through rows of the matrix that are its own.",
)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
    return (query_key_value.reference(x, weight, bias)[0],) * 3


# 2 --------------------------------------------------------------------------------------------------------------------


def _layer_inputs(
    batch: int, n_query: int, n_key: int, d: int, n_heads: int, real: list[int], dtype: torch.dtype = torch.float32
) -> dict[str, Any]:
    """A layer of random weights; ``real`` are the lengths of the sentences in the memory."""
    return {
        "x": numbers(batch, n_query, d, dtype=dtype),
        "memory": numbers(batch, n_key, d, seed=1, dtype=dtype),
        "real": torch.arange(n_key) < torch.tensor(real)[:, None],
        "weight": numbers(3 * d, d, seed=2, dtype=dtype),
        "bias": numbers(3 * d, seed=3, dtype=dtype),
        "w_output": numbers(d, d, seed=4, dtype=dtype),
        "b_output": numbers(d, seed=5, dtype=dtype),
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
    _layer_inputs(3, 4, 4, 12, 4, [4, 2, 3], torch.float64),  # as many queries as keys: nor is the wrong sentence
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
    layer.load_state_dict(
        {
            "query_key_value.weight": weight,
            "query_key_value.bias": bias,
            "output.weight": w_output,
            "output.bias": b_output,
        },
        assign=True,
    )
    with torch.no_grad():
        result: Tensor = layer(x, memory, real[:, None, None, :])
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
    "Without padding it would be right. One of the arguments is not used: it says which words of the memory are none.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    return _cross(x, memory, None, *layer)


@cross_attention.mistake(
    "the mask upside down",
    "You look at the padding and at nothing else. In this course True means: may be looked at. (In PyTorch's module "
    "it is the other way round.)",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    return _cross(x, memory, _stretched(~real), *layer)


@cross_attention.mistake(
    "the mask's sentences taken for heads",
    "Axes line up from the right. Yours puts the sentences where the heads are, which is an error, or, with as many "
    "sentences as heads, silently wrong. How many axes have the scores?",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    return _cross(x, memory, real[:, None, :], *layer)


@cross_attention.mistake(
    "values hidden, weights not",
    "Padding brings back zeros, but it still takes its share of the weights, and the words get less than all. Hide it "
    "before the softmax.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, w_output, b_output, n_heads = layer
    query, _, _ = (split_heads(t, n_heads) for t in query_key_value.reference(x, weight, bias))
    _, key, value = (split_heads(t, n_heads) for t in query_key_value.reference(memory, weight, bias))
    heads, _ = attention(query, key, value * real[:, None, :, None])
    return F.linear(join_heads(heads), w_output, b_output)


@cross_attention.mistake(
    "padding set to zero",
    "You make the padding's vectors zero. A zero has a score as well, and gets a weight. Hide it where scores become "
    "weights.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    return _cross(x, memory * real[..., None], None, *layer)


@cross_attention.mistake(
    "memory not used",
    "Queries, keys and values all come from x: that is self-attention. Who is asked here?",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    return _cross(x, x, _stretched(real), *layer)


@cross_attention.mistake(
    "x and memory exchanged",
    "The memory asks and x is asked. There should be one answer for each position of x.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    return _cross(memory, x, _stretched(real), *layer)


@cross_attention.mistake(
    "keys from x",
    "The values are the memory's, the keys are not. What a query is compared with and what it brings back belong to "
    "the same word.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, w_output, b_output, n_heads = layer
    query, key, _ = (split_heads(t, n_heads) for t in query_key_value.reference(x, weight, bias))
    _, _, value = (split_heads(t, n_heads) for t in query_key_value.reference(memory, weight, bias))
    heads, _ = attention(query, key, value, _stretched(real))
    return F.linear(join_heads(heads), w_output, b_output)


@cross_attention.mistake(
    "keys and values exchanged",
    "You compare with the values and bring back the keys. Which of the two lies in the middle of the matrix?",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    return _cross(x, memory, _stretched(real), *layer, order="qvk")


@cross_attention.mistake(
    "queries and keys exchanged",
    "The queries are made by the keys' rows of the matrix, and the keys by the queries'. The first third belongs to "
    "those who ask.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    return _cross(x, memory, _stretched(real), *layer, order="kqv")


@cross_attention.mistake(
    "no biases before the heads",
    "Queries and values lack their biases. (The keys' bias would not be missed: it moves all scores of a row alike.)",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, *rest = layer
    return _cross(x, memory, _stretched(real), weight, 0 * bias, *rest)


@cross_attention.mistake(
    "no output projection",
    "The heads are right and rightly joined. They have not met yet: what is the last thing that a layer does?",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, _, _, n_heads = layer
    return join_heads(_heads(x, memory, _stretched(real), weight, bias, n_heads))


@cross_attention.mistake("no bias at the end", "All is right but for a shift, which is the same for every position.")
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    *rest, b_output, n_heads = layer
    return _cross(x, memory, _stretched(real), *rest, 0 * b_output, n_heads)


@cross_attention.mistake(
    "the last matrix not turned",
    "Up to the joined heads all is right. The last matrix is kept as the first one is: it has to be turned.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, w_output, b_output, n_heads = layer
    return _cross(x, memory, _stretched(real), weight, bias, w_output.T, b_output, n_heads)


@cross_attention.mistake(
    "not split into heads",
    "Queries, keys and values go into attention as they come from the matrix. What has axes for heads there is the "
    "mask alone.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, w_output, b_output, _ = layer
    query, _, _ = query_key_value.reference(x, weight, bias)
    _, key, value = query_key_value.reference(memory, weight, bias)
    return F.linear(join_heads(attention(query, key, value, _stretched(real))[0]), w_output, b_output)


@cross_attention.mistake(
    "one head only", "This is one attention over the whole width. Where does each head get a slice of its own?"
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    *rest, _ = layer
    return _cross(x, memory, _stretched(real), *rest, 1)


@cross_attention.mistake(
    "heads joined without changing axes",
    "Each head is right. Joining them, you mix up positions: heads still stand before the length.",
)
def _(x: Tensor, memory: Tensor, real: Tensor, *layer: Any) -> Tensor:
    weight, bias, w_output, b_output, n_heads = layer
    heads = _heads(x, memory, _stretched(real), weight, bias, n_heads)
    return F.linear(heads.reshape(x.shape), w_output, b_output)


# 3 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {
        "heads": torch.tensor([[[[1.0, 2.0]], [[3.0, 0.0]]]]),
        "w_output": torch.tensor([[1.0, 0, 0, 2], [0, 1, 0, 3], [1, 1, 0, 0], [0, 0, 10, 0]]),
    },
    {"heads": numbers(2, 3, 5, 4), "w_output": numbers(12, 12, seed=1)},
    {"heads": numbers(2, 4, 4, 4, dtype=torch.float64), "w_output": numbers(16, 16, seed=1, dtype=torch.float64)},
)
def head_answers(heads: Tensor, w_output: Tensor) -> Tensor:
    """Each head through its own columns."""
    return torch.einsum("bhqd,ohd->bhqo", heads, w_output.unflatten(1, (heads.size(1), -1)))


def _joined_answer(heads: Tensor, w_output: Tensor) -> Tensor:
    return join_heads(heads) @ w_output.T


@head_answers.mistake(
    "rows in place of columns",
    "You cut the matrix by its rows. That is right for the paper's, which stands on the other side; this one is kept "
    "turned, as nn.Linear has it.",
)
def _(heads: Tensor, w_output: Tensor) -> Tensor:
    return heads @ w_output.unflatten(0, (heads.size(1), -1))


@head_answers.mistake(
    "every n-th column",
    "A head's columns lie beside each other, as its numbers do in the joined vector. You take every n-th.",
)
def _(heads: Tensor, w_output: Tensor) -> Tensor:
    return heads @ w_output.unflatten(1, (-1, heads.size(1))).permute(2, 1, 0)


@head_answers.mistake(
    "the first head's part for all",
    "The first head is right. The others go through its part of the matrix, and have one of their own.",
)
def _(heads: Tensor, w_output: Tensor) -> Tensor:
    return heads @ w_output[:, : heads.size(-1)].T


@head_answers.mistake(
    "added up already",
    "That is what the whole layer says. Asked are the terms of this sum, one for each head.",
)
def _(heads: Tensor, w_output: Tensor) -> Tensor:
    return _joined_answer(heads, w_output)


@head_answers.mistake(
    "what comes out is cut",
    "You project the joined vector and cut the result in pieces. In each piece all heads are mixed already: the cut "
    "has to be made before the product.",
)
def _(heads: Tensor, w_output: Tensor) -> Tensor:
    return split_heads(_joined_answer(heads, w_output), heads.size(1))


@head_answers.mistake(
    "equal shares of the sum",
    "Your terms do add up to the layer, but they are all alike. Heads say different things.",
)
def _(heads: Tensor, w_output: Tensor) -> Tensor:
    n_heads = heads.size(1)
    return (_joined_answer(heads, w_output) / n_heads)[:, None].expand(-1, n_heads, -1, -1)


@head_answers.mistake(
    "the layer without the head",
    "For each head you say what the layer comes to without it. What does the head say that is missing there?",
)
def _(heads: Tensor, w_output: Tensor) -> Tensor:
    return _joined_answer(heads, w_output)[:, None] - head_answers.reference(heads, w_output)


@head_answers.mistake(
    "heads behind positions",
    "The numbers are right. The heads should stand before the positions, as they do in what you are given.",
)
def _(heads: Tensor, w_output: Tensor) -> Tensor:
    return head_answers.reference(heads, w_output).transpose(1, 2)


# 4 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"n_query": 2, "n_key": 3, "d_model": 4, "n_heads": 2},
    {"n_query": 2, "n_key": 3, "d_model": 4, "n_heads": 1},
    {"n_query": 25, "n_key": 30, "d_model": 512, "n_heads": 8},
    results=("parameters", "products", "exponentials"),
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
    "no biases", "Products and exponentials are right. A linear layer learns a little more than its matrix."
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    _, *rest = _cost(n_query, n_key, d_model, n_heads)
    return 4 * d_model**2, *rest


@layer_cost.mistake(
    "three matrices", "Queries, keys and values are counted. One matrix is missing, among parameters and products."
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    return _cost(n_query, n_key, d_model, n_heads, matrices=3, from_x=1)


@layer_cost.mistake(
    "heads as wide as the model",
    "The matrices are right. For you each head sums over the whole width: how many numbers has it really?",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    return _cost(n_query, n_key, d_model, n_heads, width=n_heads)


@layer_cost.mistake(
    "one head's scores",
    "The matrices are right, and so are the scores and blends of one head. There are more heads than one.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    return _cost(n_query, n_key, d_model, n_heads, width=1 / n_heads)


@layer_cost.mistake(
    "all of it for each head",
    "You multiply everything by the number of heads. It is right for a single one. If there are more, what happens to "
    "the width of each?",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    return tuple(n_heads * n for n in _cost(n_query, n_key, d_model, 1))


@layer_cost.mistake(
    "scores without blends",
    "Scores are counted, and what the weights are then used for is not: the sum of the values is a product as well.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    return _cost(n_query, n_key, d_model, n_heads, tables=1)


@layer_cost.mistake(
    "no projections", "Scores and blends are counted. The words go through matrices before that, and once after it."
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    return _cost(n_query, n_key, d_model, n_heads, from_x=0, from_memory=0)


@layer_cost.mistake(
    "all from one sentence",
    "It would be right for self-attention. Here some matrices are met by those who ask, and others by those who are "
    "asked, who may be more or fewer.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    return _cost(n_query, n_key, d_model, n_heads, from_x=4, from_memory=0)


@layer_cost.mistake(
    "queries, keys and values for both",
    "You send both sentences through the whole fused matrix. Those who ask need no keys, and those who are asked no "
    "queries.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    return _cost(n_query, n_key, d_model, n_heads, from_x=4, from_memory=3)


@layer_cost.mistake(
    "additions as well",
    "Twice as many: you count an addition with each multiplication. Many do (they call it FLOPs); asked are the "
    "multiplications.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    parameters, products, exponentials = _cost(n_query, n_key, d_model, n_heads)
    return parameters, 2 * products, exponentials


@layer_cost.mistake(
    "one softmax for all heads",
    "Parameters and products are right. Each head has weights of its own, and so a softmax of its own.",
)
def _(n_query: int, n_key: int, d_model: int, n_heads: int) -> Any:
    parameters, products, _ = _cost(n_query, n_key, d_model, n_heads)
    return parameters, products, n_query * n_key


# 5 --------------------------------------------------------------------------------------------------------------------


def _grouped_inputs(heads: int, groups: int, seed: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    return {
        "query": numbers(2, heads, 3, 4, seed=seed, dtype=dtype),
        "key": numbers(2, groups, 5, 4, seed=seed + 1, dtype=dtype),
        "value": numbers(2, groups, 5, 4, seed=seed + 2, dtype=dtype),
    }


@topic.exercise(
    {
        "query": torch.tensor([[[[0.0]], [[1.0]], [[0.0]], [[-1.0]]]]),
        "key": torch.tensor([[[[0.0], [2.0]], [[2.0], [0.0]]]]),
        "value": torch.tensor([[[[1.0], [2.0]], [[30.0], [40.0]]]]),
    },
    _grouped_inputs(6, 2, 0),
    _grouped_inputs(4, 1, 3),
    _grouped_inputs(6, 3, 6, torch.float64),
    _grouped_inputs(3, 3, 9),
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
    "dealt out in turn",
    "You deal the groups out in turn, 0, 1, 0, 1. The heads of a group are neighbours. (A model trained your way does "
    "as well; one loaded into it does not.)",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention(query, _in_turn(query, key), _in_turn(query, value))[0]


@grouped_attention.mistake(
    "keys and values not dealt out alike",
    "The weights are right, and are then used on another group's values: keys and values must be dealt out alike.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention(query, _each(query, key), _in_turn(query, value))[0]


@grouped_attention.mistake(
    "the first group for all",
    "Every head looks things up in the first group. That is right where there is no other.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention(query, key[:, :1], value[:, :1])[0]


@grouped_attention.mistake(
    "groups averaged",
    "You make one group of all by their mean. Each head has one group to look things up in, as it is.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention(query, key.mean(1, keepdim=True), value.mean(1, keepdim=True))[0]


@grouped_attention.mistake(
    "groups behind each other",
    "Every head sees the keys of all groups, one behind the other, as if the sentence were longer. It should see its "
    "own group's alone.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention(query, key.flatten(1, 2)[:, None], value.flatten(1, 2)[:, None])[0]


@grouped_attention.mistake(
    "queries averaged",
    "There is one answer for each group: you average the queries that share keys. They share what they are compared "
    "with, and each keeps its own question.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention(query.unflatten(1, (key.size(1), -1)).mean(2), key, value)[0]


@grouped_attention.mistake(
    "one query head a group",
    "You keep one query head of each group and leave out the others. All of them are to be answered.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention(query[:, :: query.size(1) // key.size(1)], key, value)[0]


@grouped_attention.mistake(
    "heads come back in another order",
    "Each head's answer is right, but the heads have changed places: first the first head of every group, then the "
    "second. They should come back as they went in.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    grouped = query.unflatten(1, (key.size(1), -1))
    return attention(grouped, key[:, :, None], value[:, :, None])[0].transpose(1, 2).flatten(1, 2)


@grouped_attention.mistake(
    "scaled twice", "attention scales the scores already. A second scale makes the weights too flat."
)
def _(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention(query / math.sqrt(query.size(-1)), _each(query, key), _each(query, value))[0]
