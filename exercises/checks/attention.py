"""Checks of 02 attention (§3.2)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from exercises.check import Topic, numbers
from exercises.restrictions import SOFTMAX, forbid
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
    {"query": numbers(3, 16, dtype=torch.float64), "key": numbers(2, 16, seed=1, dtype=torch.float64)},
)
def attention_scores(query: Tensor, key: Tensor) -> Tensor:
    """How well each key fits each query."""
    return query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))


@attention_scores.mistake(
    "not scaled",
    "Every score is too large by the same factor, and the factor grows with d_k. Which part of the formula is left?",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(-2, -1)


@attention_scores.mistake(
    "scaled too much",
    "You divide by d_k. The sum of d_k products of independent numbers has variance d_k: what is its standard "
    "deviation?",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(-2, -1) / query.size(-1)


@attention_scores.mistake(
    "scaled by the wrong length",
    "You scale by the number of keys. How large a dot product gets depends on how many products it sums: count those.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(-2, -1) / math.sqrt(key.size(-2))


@attention_scores.mistake(
    "scaled the wrong way",
    "The scale makes your scores larger, and it is there to make them smaller.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(-2, -1) * math.sqrt(query.size(-1))


@attention_scores.mistake(
    "queries and keys swapped",
    "Your rows are keys and your columns are queries. Each row should belong to one query.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return key @ query.transpose(-2, -1) / math.sqrt(query.size(-1))


@attention_scores.mistake(
    "the first two axes of key are swapped",
    "This is right for one matrix, and not for a batch of them. Which two axes are swapped should not depend on "
    "how many others stand before them: count from the end.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(0, 1) / math.sqrt(query.size(-1))


@attention_scores.mistake(
    "all axes of key are turned round",
    "key.T is right for one matrix, and not for a batch of them. Only the last two axes should change places.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.permute(*reversed(range(key.dim()))) / math.sqrt(query.size(-1))


@attention_scores.mistake(
    "cosines instead of dot products",
    "You make every vector one unit long, so a long query scores no more than a short one. The paper keeps their "
    "lengths.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).transpose(-2, -1)


@attention_scores.mistake(
    "a softmax too early",
    "Your rows sum to one: these are the weights already. Here the scores themselves are wanted.",
)
def _(query: Tensor, key: Tensor) -> Tensor:
    return (query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))).softmax(dim=-1)


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"scores": torch.tensor([[0.0, 1.0, 2.0], [3.0, 3.0, 3.0]])},
    {"scores": torch.tensor([[1000.0, 1001.0, 1002.0], [-1000.0, -1000.0, -1001.0], [1000.0, 0.0, -1000.0]])},
    {"scores": numbers(2, 2, 3, 4)},
    {"scores": numbers(3, 5, dtype=torch.float64)},
    guard=forbid(SOFTMAX),
)
def softmax(scores: Tensor) -> Tensor:
    """Positive weights that sum to one in each row."""
    return scores.softmax(dim=-1)


@softmax.mistake(
    "overflow",
    "It is right for small scores, but e^1000 is more than a float can hold. A softmax does not change when the "
    "same number is added to every score of a row: which number makes the largest exponent harmless?",
)
def _(scores: Tensor) -> Tensor:
    return scores.exp() / scores.exp().sum(dim=-1, keepdim=True)


@softmax.mistake(
    "one maximum for all rows",
    "You subtract the largest score of the whole tensor. A row that lies far below it then has only zeros left to "
    "divide by. Each row needs its own.",
)
def _(scores: Tensor) -> Tensor:
    e = (scores - scores.max()).exp()
    return e / e.sum(dim=-1, keepdim=True)


@softmax.mistake(
    "over the wrong axis", "Your columns sum to one, and your rows should: a query spreads its weight over the keys."
)
def _(scores: Tensor) -> Tensor:
    return scores.softmax(dim=-2)


@softmax.mistake(
    "over everything at once",
    "All your numbers together sum to one. Each row should, alone: without dim, max and sum take the whole tensor.",
)
def _(scores: Tensor) -> Tensor:
    return scores.flatten().softmax(dim=0).view_as(scores)


@softmax.mistake(
    "each row's maximum, but the sum of all",
    "You take the maximum row by row, but divide by the sum over the whole tensor. Each row should sum to one.",
)
def _(scores: Tensor) -> Tensor:
    e = (scores - scores.max(dim=-1, keepdim=True).values).exp()
    return e / e.sum()


@softmax.mistake(
    "no exponential", "You divide scores by their sum. What about negative scores, which must become positive weights?"
)
def _(scores: Tensor) -> Tensor:
    return scores / scores.sum(dim=-1, keepdim=True)


@softmax.mistake(
    "not normalised", "Your numbers are positive and in the right proportion, but a row does not sum to one yet."
)
def _(scores: Tensor) -> Tensor:
    return (scores - scores.max(dim=-1, keepdim=True).values).exp()


@softmax.mistake("the logarithm of it", "These are logarithms of weights: all are negative. What undoes a logarithm?")
def _(scores: Tensor) -> Tensor:
    return scores.log_softmax(dim=-1)


@softmax.mistake(
    "the axis got lost",
    "Taking a sum or a maximum over the last axis drops it, and what is left does not line up with the rows any "
    "more. How can you keep it, with length one?",
)
def _(scores: Tensor) -> Tensor:
    e = (scores - scores.max(dim=-1, keepdim=True).values).exp()
    return e / e.sum(dim=-1)


# 3 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"query": SMALL_QUERY, "key": SMALL_KEY, "value": SMALL_VALUE},
    {"query": numbers(2, 3, 9), "key": numbers(2, 4, 9, seed=1), "value": numbers(2, 4, 5, seed=2)},
    {"query": numbers(2, 3, 4, 6), "key": numbers(2, 3, 4, 6, seed=1), "value": numbers(2, 3, 4, 6, seed=2)},
    {
        "query": numbers(3, 16, dtype=torch.float64),
        "key": numbers(2, 16, seed=1, dtype=torch.float64),
        "value": numbers(2, 3, seed=2, dtype=torch.float64),
    },
    results=("output", "weights"),
)
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """The package's attention."""
    return attention(query, key, value)


@scaled_dot_product_attention.mistake(
    "not scaled",
    "Your weights are sharper than they should be, the more so the larger d_k. Which part of the formula is left?",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = (query @ key.transpose(-2, -1)).softmax(dim=-1)
    return weights @ value, weights


@scaled_dot_product_attention.mistake(
    "scaled too much",
    "Your weights are flatter than they should be: you divide by d_k itself. How does the spread of a dot product "
    "grow with d_k?",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = (query @ key.transpose(-2, -1) / query.size(-1)).softmax(dim=-1)
    return weights @ value, weights


@scaled_dot_product_attention.mistake(
    "scaled after the softmax",
    "Your rows do not sum to one, because you scale the weights. What is scaled are the scores.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = (query @ key.transpose(-2, -1)).softmax(dim=-1) / math.sqrt(query.size(-1))
    return weights @ value, weights


@scaled_dot_product_attention.mistake(
    "softmax over the queries",
    "Your columns sum to one: the queries compete for a key. It should be the keys that compete for a query.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = (query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))).softmax(dim=-2)
    return weights @ value, weights


@scaled_dot_product_attention.mistake(
    "softmax over an axis counted from the front",
    "It is right for one matrix, but in a batch axis 1 holds something else than the keys. Count the axis from "
    "the end.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = (query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))).softmax(dim=1)
    return weights @ value, weights


@scaled_dot_product_attention.mistake(
    "no softmax", "You use the scores as weights. A query's weights should be positive and sum to one."
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    return weights @ value, weights


@scaled_dot_product_attention.mistake(
    "keys where values should be",
    "The weights are right, but you average the keys. Keys say where to look; what is taken from there is "
    "something else.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = attention(query, key, value)[1]
    return weights @ key, weights


@scaled_dot_product_attention.mistake(
    "the two results are swapped",
    "Both results are right, but they come in the other order: first the output, then the weights.",
)
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    output, weights = attention(query, key, value)
    return weights, output


# 4 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"x": torch.tensor([[[0.0, 1.0, 2.0, 10.0, 11.0, 12.0], [3.0, 4.0, 5.0, 13.0, 14.0, 15.0]]]), "n_heads": 2},
    {"x": numbers(2, 4, 12), "n_heads": 3},
    {"x": numbers(2, 3, 8, dtype=torch.float64), "n_heads": 8},
)
def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """Cut each vector into pieces, one a head."""
    return _cut(x, n_heads).transpose(1, 2)


@split_heads.mistake(
    "heads not moved forward",
    "The vectors are cut rightly, but the axes are still (batch, length, heads, d_head). The last two axes are "
    "the ones that attention works on.",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    return _cut(x, n_heads)


@split_heads.mistake(
    "positions and heads mixed up",
    "The shape is right, but a head got numbers that belong to other positions: reshape only renames the order in "
    "memory, it moves nothing. Cut the last axis first; then let two axes change places.",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    batch, length, d_model = x.shape
    return x.reshape(batch, n_heads, length, d_model // n_heads)


@split_heads.mistake(
    "every n-th number instead of a slice",
    "A head got every n-th number of a vector. It should get neighbours: the first head the first d_head numbers, "
    "and so on.",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    return _cut(x, x.size(-1) // n_heads).permute(0, 3, 1, 2)


@split_heads.mistake(
    "n_heads taken for the width of a head",
    "You cut pieces that are n_heads numbers wide. There should be n_heads pieces.",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    return _cut(x, x.size(-1) // n_heads).transpose(1, 2)


@split_heads.mistake(
    "the wrong axes change places",
    "Your result has the axes (batch, heads, d_head, length). Each position's numbers should stay together, in "
    "the last axis.",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    return _cut(x, n_heads).permute(0, 2, 3, 1)


@split_heads.mistake(
    "heads before the batch",
    "The pieces are right, but they are stacked along a new first axis. The batch stays in front.",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    return torch.stack(x.chunk(n_heads, dim=-1))


@split_heads.mistake(
    "heads folded into the batch",
    "The pieces are right, but batch and heads share one axis. Here they have one each.",
)
def _(x: Tensor, n_heads: int) -> Tensor:
    return _cut(x, n_heads).transpose(1, 2).flatten(0, 1)


def _cut(x: Tensor, pieces: int) -> Tensor:
    """(batch, length, d_model) → (batch, length, pieces, d_model / pieces)."""
    return x.reshape(*x.shape[:-1], pieces, -1)


# 5 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"heads": torch.tensor([[[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], [[10.0, 11.0, 12.0], [13.0, 14.0, 15.0]]]])},
    {"heads": numbers(2, 3, 4, 5)},
    {"heads": numbers(2, 8, 3, 2, dtype=torch.float64)},
)
def join_heads(heads: Tensor) -> Tensor:
    """Lay the heads side by side again."""
    return heads.transpose(1, 2).flatten(2)


@join_heads.mistake(
    "positions and heads mixed up",
    "The shape is right, but a position got numbers of other positions: in memory a head's positions lie side by "
    "side. Bring length and heads into the right order before you merge axes.",
)
def _(heads: Tensor) -> Tensor:
    batch, n_heads, length, d_head = heads.shape
    return heads.reshape(batch, length, n_heads * d_head)


@join_heads.mistake(
    "numbers of the heads interleaved",
    "A vector should be all of head 0, then all of head 1, and so on. Yours takes the first number of every head, "
    "then the second.",
)
def _(heads: Tensor) -> Tensor:
    return heads.permute(0, 2, 3, 1).flatten(2)


@join_heads.mistake(
    "heads behind each other in length",
    "You put the heads behind each other as if they were more positions. They should stand side by side in one vector.",
)
def _(heads: Tensor) -> Tensor:
    return heads.flatten(1, 2)


@join_heads.mistake(
    "heads still apart",
    "The order of the axes is right: (batch, length, heads, d_head). Now make one axis of the last two.",
)
def _(heads: Tensor) -> Tensor:
    return heads.transpose(1, 2)


@join_heads.mistake(
    "heads added up",
    "You add the heads. Nothing should be lost: their numbers go side by side, into a vector n_heads times as wide.",
)
def _(heads: Tensor) -> Tensor:
    return heads.sum(dim=1)


@join_heads.mistake(
    "heads averaged",
    "You average the heads. Nothing should be lost: their numbers go side by side, into a vector n_heads times as "
    "wide.",
)
def _(heads: Tensor) -> Tensor:
    return heads.mean(dim=1)


@join_heads.mistake(
    "view after transpose",
    "The idea is right, but after a transpose the numbers do not lie in memory in the order that view needs. "
    "PyTorch has two other ways to merge axes, which copy where they must.",
)
def _(heads: Tensor) -> Tensor:
    batch, n_heads, length, d_head = heads.shape
    return heads.transpose(1, 2).view(batch, length, n_heads * d_head)


# 6 --------------------------------------------------------------------------------------------------------------------


def _multi_head_inputs(n_query: int, n_key: int, d_model: int, n_heads: int, dtype: torch.dtype) -> dict[str, object]:
    names = ("w_query", "w_key", "w_value", "w_output")
    return {
        "x": numbers(2, n_query, d_model, dtype=dtype),
        "memory": numbers(2, n_key, d_model, seed=1, dtype=dtype),
        **{name: numbers(d_model, d_model, seed=i, dtype=dtype) for i, name in enumerate(names, start=2)},
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
    _multi_head_inputs(3, 5, 12, 3, torch.float32),
    _multi_head_inputs(4, 4, 8, 2, torch.float64),
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
    "This is one attention over all d_model numbers. Where are the n_heads of them, each in its own slice?",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return attention(x @ w_query, memory @ w_key, memory @ w_value)[0] @ w_output


@multi_head_attention.mistake(
    "no output projection",
    "The heads are right and rightly joined, but they have not met yet. Which matrix is not used?",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x @ w_query, memory @ w_key, memory @ w_value, n_heads)


@multi_head_attention.mistake(
    "memory not used",
    "Everything you compute comes from x. What is looked up, and what it is looked up by, belongs to the memory.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x @ w_query, x @ w_key, x @ w_value, n_heads) @ w_output


@multi_head_attention.mistake(
    "x and memory exchanged",
    "There is one output for each position of the memory. It is x that asks, and the memory that is asked.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(memory @ w_query, x @ w_key, x @ w_value, n_heads) @ w_output


@multi_head_attention.mistake(
    "key and value matrices exchanged",
    "Two of the matrices have each other's job. Which of them makes what a query is compared with?",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x @ w_query, memory @ w_value, memory @ w_key, n_heads) @ w_output


@multi_head_attention.mistake(
    "values not projected", "You average the memory itself. One of the matrices is for this, and is not used."
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x @ w_query, memory @ w_key, memory, n_heads) @ w_output


@multi_head_attention.mistake(
    "matrices transposed",
    "You multiply by the transposed matrices. nn.Linear keeps its weight that way; these are as in the paper, x W.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x @ w_query.T, memory @ w_key.T, memory @ w_value.T, n_heads) @ w_output.T


@multi_head_attention.mistake(
    "scaled twice", "attention scales the scores already. A second scale makes the weights too flat."
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    scale = 1 / math.sqrt(x.size(-1) // n_heads)
    return _multi_head(x @ w_query, memory @ w_key, memory @ w_value, n_heads, scale) @ w_output


@multi_head_attention.mistake(
    "scaled by the whole width",
    "Each head's dot product sums d_head products, not d_model: the scale goes with the narrower width.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x @ w_query, memory @ w_key, memory @ w_value, n_heads, 1 / math.sqrt(n_heads)) @ w_output


@multi_head_attention.mistake(
    "heads joined in the wrong order",
    "Each head is right, but joining them mixes up positions: length and heads have not changed places.",
)
def _(
    x: Tensor, memory: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, w_output: Tensor, n_heads: int
) -> Tensor:
    query, key, value = (_cut(t, n_heads).transpose(1, 2) for t in (x @ w_query, memory @ w_key, memory @ w_value))
    return attention(query, key, value)[0].reshape(x.shape) @ w_output
