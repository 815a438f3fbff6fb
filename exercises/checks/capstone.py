"""Checks of 18 the capstone: a whole translator, made of own parts only (§3, §5)."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch._dynamo  # an optimiser's first step would import it, which takes seconds and belongs to no answer
import torch.nn.functional as F
from torch import Tensor, nn

from exercises.calls import Function, call
from exercises.check import Topic
from exercises.restrictions import own_parts_only
from exercises.tensors import numbers
from transformer.data.tokenizer import BOS, EOS, PAD

topic = Topic(guard=own_parts_only)
check, given = topic.check, topic.given

Batch = tuple[Tensor, Tensor]
"""Source and target ids."""

# What a model holds ---------------------------------------------------------------------------------------------------


class Part(nn.Module):
    """Weights, and nothing that computes with them: that is the learner's."""

    note = ""

    def __repr__(self) -> str:
        return f"a part that holds {', '.join(name for name, _ in self.named_children())}{self.note}"


class Attention(Part):
    """The matrices W_Q, W_K, W_V and W_O of all heads (§3.2.2)."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.note = f"; n_heads = {n_heads}"
        self.query, self.key, self.value, self.output = (nn.Linear(d_model, d_model) for _ in range(4))


class EncoderLayer(Part):
    """An attention, the two linear layers of feed-forward, and a norm for each of the two."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int) -> None:
        super().__init__()
        self.attention = Attention(d_model, n_heads)
        self.inner, self.outer = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2))


class DecoderLayer(Part):
    """Two attentions, the two linear layers of feed-forward, and a norm for each of the three."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int) -> None:
        super().__init__()
        self.self_attention, self.cross_attention = Attention(d_model, n_heads), Attention(d_model, n_heads)
        self.inner, self.outer = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))


class Model(Part):
    """One matrix for all words, and the layers of both stacks, as they are before training."""

    def __init__(self, vocab_size: int, d_model: int, n_heads: int, d_ff: int, n_layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.encoder = nn.ModuleList(EncoderLayer(d_model, n_heads, d_ff) for _ in range(n_layers))
        self.decoder = nn.ModuleList(DecoderLayer(d_model, n_heads, d_ff) for _ in range(n_layers))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)


def _drawn(part: Any, seed: int = 0) -> Any:
    """The part with random numbers in all of its weights and biases, norms included: no two do the same."""
    for i, (name, parameter) in enumerate(part.named_parameters()):
        drawn = numbers(*parameter.shape, seed=1000 * seed + i)
        is_gain = "norms" in name and name.endswith("weight")
        parameter.data = 1 + drawn / 4 if is_gain else drawn / math.sqrt(parameter.shape[-1])
    return part.requires_grad_(False)


def _plain(part: Any) -> Any:
    """The part with linear layers that change nothing, so that a learner can follow its numbers."""
    for module in part.modules():
        if isinstance(module, nn.Linear):
            nn.init.eye_(module.weight)
            nn.init.zeros_(module.bias)
    part.note += "; its linear layers leave every vector as it is"
    return part.requires_grad_(False)


# 1 --------------------------------------------------------------------------------------------------------------------

_WORDS = torch.tensor([[1.0, 0, 0, 2], [0, 1, 0, 0], [0, 0, 3, 0]])


@topic.exercise(
    {"ids": torch.tensor([[1, 2, 1]]), "table": _WORDS},
    {"ids": torch.tensor([[0, 6, 2, 3], [3, 3, 1, 5]]), "table": numbers(7, 6)},
)
def embed_tokens(ids: Tensor, table: Tensor) -> Tensor:
    """A word's row times √d_model, plus its place's sines and cosines."""
    return _words(ids, table) + _places(ids.size(1), table.size(1))


def _words(ids: Tensor, table: Tensor) -> Tensor:
    return table[ids] * math.sqrt(table.size(1))


def _places(length: int, d: int, *, first: int = 0, exponent: float = 1.0, order: str = "beside") -> Tensor:
    frequency = 10000.0 ** (-exponent * torch.arange(0, d, 2) / d)
    angle = (first + torch.arange(length))[:, None] * frequency
    if order == "behind":
        return torch.cat([angle.sin(), angle.cos()], -1)
    pair = [angle.sin(), angle.cos()] if order == "beside" else [angle.cos(), angle.sin()]
    return torch.stack(pair, -1).flatten(1)


@embed_tokens.mistake(
    "embeddings not scaled",
    "Your embeddings are too small compared with the positions. §3.4 multiplies them by a factor first.",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table[ids] + _places(ids.size(1), table.size(1))


@embed_tokens.mistake("scaled by d_model", "You multiply the embeddings by d_model itself. Look up the factor in §3.4.")
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table[ids] * table.size(1) + _places(ids.size(1), table.size(1))


@embed_tokens.mistake(
    "embeddings divided",
    "You make the embeddings smaller. They start out small and should become about as large as the positions.",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table[ids] / math.sqrt(table.size(1)) + _places(ids.size(1), table.size(1))


@embed_tokens.mistake(
    "positions scaled as well", "You scale the positions as well. The factor is only for the embeddings."
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return (table[ids] + _places(ids.size(1), table.size(1))) * math.sqrt(table.size(1))


@embed_tokens.mistake("no positions", "The embeddings are right, but the positional encoding is missing.")
def _(ids: Tensor, table: Tensor) -> Tensor:
    return _words(ids, table)


@embed_tokens.mistake(
    "all sines, then all cosines",
    "Your sines all come before the cosines. In the paper, sine and cosine of the same angle are next to each other "
    "(§3.5).",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return _words(ids, table) + _places(ids.size(1), table.size(1), order="behind")


@embed_tokens.mistake("cosine before sine", "Sine and cosine are swapped. The sine has the even dimensions.")
def _(ids: Tensor, table: Tensor) -> Tensor:
    return _words(ids, table) + _places(ids.size(1), table.size(1), order="turned")


@embed_tokens.mistake("positions counted from 1", "You are one position ahead. The first word is at position 0.")
def _(ids: Tensor, table: Tensor) -> Tensor:
    return _words(ids, table) + _places(ids.size(1), table.size(1), first=1)


@embed_tokens.mistake(
    "half the exponent", "Your frequencies fall half as fast as they should: the exponent contains 2i (§3.5)."
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return _words(ids, table) + _places(ids.size(1), table.size(1), exponent=0.5)


@embed_tokens.mistake(
    "twice the exponent",
    "Your frequencies fall twice as fast as they should. If your i already counts in steps of two, don't double it "
    "again.",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return _words(ids, table) + _places(ids.size(1), table.size(1), exponent=2.0)


@embed_tokens.mistake(
    "a separate frequency for each dimension",
    "Your sine and the cosine next to it have different frequencies. They share one angle.",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    d = table.size(1)
    angle = torch.arange(ids.size(1))[:, None] * 10000.0 ** (-torch.arange(d) / d)
    return _words(ids, table) + torch.stack([angle[:, 0::2].sin(), angle[:, 1::2].cos()], -1).flatten(1)


@embed_tokens.mistake(
    "ids instead of positions",
    "You encode the token's id instead of its position, so equal tokens get equal vectors, wherever they are. At which "
    "position is the first token, whatever its id?",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return _words(ids, table) + _places(int(ids.max()) + 1, table.size(1))[ids]


# 2 --------------------------------------------------------------------------------------------------------------------

_CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()[None, None]
_PADDED = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool()[:, None, None]
_OPEN = torch.ones(1, 1, 1, 1, dtype=torch.bool)
_X = torch.tensor([[[1.0, 0.0, 2.0, 0.0], [0.0, 2.0, 0.0, 1.0]]])
_MEMORY = torch.tensor([[[3.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]]])


@topic.exercise(
    {"part": _plain(Attention(4, 1)), "x": _X, "memory": _MEMORY, "mask": _OPEN},
    {
        "part": _plain(Attention(4, 1)),
        "x": _X,
        "memory": _MEMORY,
        "mask": torch.tensor([[[[True, False], [True, True]]]]),
    },
    {"part": _drawn(Attention(12, 2)), "x": numbers(2, 3, 12), "memory": numbers(2, 5, 12, seed=1), "mask": _PADDED},
    {"part": _drawn(Attention(12, 3)), "x": numbers(2, 5, 12), "memory": numbers(2, 5, 12, seed=2), "mask": _CAUSAL},
    {  # the scores are large, and the hidden ones are the largest
        "part": _plain(Attention(4, 1)),
        "x": torch.tensor([[[24.0, 0.0, 8.0, 0.0], [0.0, 20.0, 0.0, 8.0]]]),
        "memory": torch.tensor([[[-24.0, 0.0, 0.0, 0.0], [-23.875, 0.0, 0.0, 0.25], [24.0, 20.0, 0.0, 0.0]]]),
        "mask": torch.tensor([[[[True, True, False], [False, True, False]]]]),
    },
)
def attend(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    """Several attentions side by side."""
    return _look_up(part, x, memory, mask)


def _split(x: Tensor, n_heads: int) -> Tensor:
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _join(heads: Tensor) -> Tensor:
    return heads.transpose(1, 2).flatten(2)


def _hidden(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -torch.inf).softmax(-1)


def _look_up(
    part: Attention,
    x: Tensor,
    memory: Tensor,
    mask: Tensor,
    *,
    project: Callable[[nn.Linear, Tensor], Tensor] = lambda layer, x: layer(x),
    scale: Callable[[Tensor], Tensor] = lambda scores: scores,
    weigh: Callable[[Tensor, Tensor], Tensor] = _hidden,
    split: Callable[[Tensor, int], Tensor] = _split,
    join: Callable[[Tensor], Tensor] = _join,
) -> Tensor:
    query, key, value = (
        split(project(layer, side), part.n_heads)
        for layer, side in ((part.query, x), (part.key, memory), (part.value, memory))
    )
    scores = scale(query @ key.mT / math.sqrt(query.size(-1)))
    return project(part.output, join(weigh(scores, mask) @ value))


@attend.mistake("not scaled", "Your scores aren't divided by anything, so the weights are too sharp (§3.2.1).")
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, scale=lambda s: s * math.sqrt(x.size(-1) // part.n_heads))


@attend.mistake("scaled by the width of the model", "You scale by d_model. A head's dot product has only d_head terms.")
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, scale=lambda s: s / math.sqrt(part.n_heads))


@attend.mistake("scaled without the root", "You divide by d_head itself. Divide by its square root.")
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, scale=lambda s: s / math.sqrt(x.size(-1) // part.n_heads))


@attend.mistake("no mask", "Every query attends to every key. Where the mask is False, the weight must be 0.")
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, _OPEN)


@attend.mistake("the mask inverted", 'You hide what may be attended to. True means "may attend".')
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, weigh=lambda s, m: s.masked_fill(m, -torch.inf).softmax(-1))


@attend.mistake(
    "masked with zero", "You set hidden scores to 0, but a score of 0 still gets weight. Use a score that gets none."
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, weigh=lambda s, m: s.masked_fill(~m, 0.0).softmax(-1))


for _title, _low in (
    ("masked with -1", -1.0),
    ("masked with -10", -10.0),
    ("a low number instead of minus infinity", -100.0),
):

    @attend.mistake(
        _title,
        "You give hidden keys a score that is low, but other scores may be even lower. Only minus infinity gets the "
        "weight 0 whatever the other scores are.",
    )
    def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor, low: float = _low) -> Tensor:
        return _look_up(part, x, memory, mask, weigh=lambda s, m: s.masked_fill(~m, low).softmax(-1))


for _title, _low in (("-1 added", -1.0), ("-10 added", -10.0), ("a low number added", -100.0)):

    @attend.mistake(
        _title,
        "You add a negative number to hidden scores. If a hidden score is large, it may still be above the others. "
        "Only minus infinity gets the weight 0 whatever the scores are.",
    )
    def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor, low: float = _low) -> Tensor:
        return _look_up(part, x, memory, mask, weigh=lambda s, m: (s + low * ~m).softmax(-1))


@attend.mistake(
    "minus infinity times 0",
    "You multiply minus infinity by the inverted mask and add the product. Infinity times 0 is NaN, so every visible "
    "score becomes NaN. Choose between the score and minus infinity instead.",
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, weigh=lambda s, m: (s - torch.inf * ~m).softmax(-1))


@attend.mistake(
    "masked after the softmax",
    "Hidden keys have weight 0, but the other weights don't sum to one. Mask the scores before the softmax.",
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, weigh=lambda s, m: s.softmax(-1) * m)


@attend.mistake("softmax over the queries", "Your columns sum to one. For each query, the weights of all keys should.")
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, weigh=lambda s, m: s.masked_fill(~m, -torch.inf).softmax(-2))


for _title, _low in (("softmax over the heads", -torch.inf), ("softmax over the heads, with a finite mask", -1e9)):

    @attend.mistake(
        _title,
        "Your weights sum to one over the heads, which are the second axis. For each query, those of all keys should.",
    )
    def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor, low: float = _low) -> Tensor:
        return _look_up(part, x, memory, mask, weigh=lambda s, m: s.masked_fill(~m, low).softmax(1))


@attend.mistake(
    "a single head",
    "You compute a single attention over all dimensions. Each head has its own scores and its own softmax.",
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, split=lambda t, n: _split(t, 1))


for _n in (2, 3, 4):

    @attend.mistake(
        f"always {_n} heads",
        f"You split into {_n} heads, whatever the layer is. Each layer knows its own number of heads.",
    )
    def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor, n: int = _n) -> Tensor:
        return _look_up(part, x, memory, mask, split=lambda t, _: _split(t, n))


@attend.mistake(
    "positions and heads mixed up",
    "The shape is right, but each head has numbers from other positions. Split the last axis first, then swap two "
    "axes.",
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, split=lambda t, n: t.reshape(len(t), n, t.size(1), -1))


@attend.mistake(
    "heads interleaved",
    "Each of your heads gets every n-th dimension, where n is the number of heads. A head is a block of neighbouring "
    "dimensions: split the last axis into n_heads times d_head, in this order.",
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    def split(x: Tensor, n_heads: int) -> Tensor:
        return x.unflatten(-1, (-1, n_heads)).permute(0, 3, 1, 2)

    return _look_up(part, x, memory, mask, split=split, join=lambda heads: heads.permute(0, 2, 3, 1).flatten(2))


@attend.mistake(
    "heads joined without swapping axes",
    "Everything is right except joining the heads, which mixes up positions. Swap heads and positions back before you "
    "merge.",
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, join=lambda h: h.reshape(x.shape))


@attend.mistake(
    "no output projection",
    "The heads are joined, but their outputs are never combined. One linear layer isn't used yet.",
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _join(_hidden(_scores(part, x, memory), mask) @ _split(part.value(memory), part.n_heads))


def _scores(part: Attention, x: Tensor, memory: Tensor) -> Tensor:
    query, key = _split(part.query(x), part.n_heads), _split(part.key(memory), part.n_heads)
    return query @ key.mT / math.sqrt(query.size(-1))


@attend.mistake(
    "the biases left out",
    "You multiply by the weights of the linear layers only. A linear layer consists of a weight and a bias: what "
    "applies both?",
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, project=lambda layer, side: F.linear(side, layer.weight))


@attend.mistake(
    "keys not projected",
    "Your queries are compared with the memory itself. The keys have a projection of their own.",
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, project=lambda layer, side: side if layer is part.key else layer(side))


@attend.mistake(
    "values not projected",
    "The weights are right, but you average the memory itself. The values have a projection of their own.",
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    weights = _hidden(_scores(part, x, memory), mask)
    return part.output(_join(weights @ _split(memory, part.n_heads)))


@attend.mistake(
    "keys averaged instead of values", "The weights are right, but you average the keys. Average the values."
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    weights = _hidden(_scores(part, x, memory), mask)
    return part.output(_join(weights @ _split(part.key(memory), part.n_heads)))


@attend.mistake("memory not used", "You compute everything from x. Keys and values come from the memory.")
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, x, mask)


@attend.mistake(
    "x and memory swapped",
    "Your queries come from the memory. They should come from x, and keys and values from the memory.",
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, memory, x, mask)


@attend.mistake(
    "heads split without swapping axes",
    "You reshape to (batch, heads, length, d_head) at once, and back in the same way. That mixes positions: split the "
    "last axis first, and then swap two axes. At the end, do the same in reverse.",
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    def split(x: Tensor, n_heads: int) -> Tensor:
        return x.reshape(len(x), n_heads, x.size(1), -1)

    return _look_up(part, x, memory, mask, split=split, join=lambda heads: heads.reshape(x.shape))


@attend.mistake(
    "keys and values swapped",
    "The layers `key` and `value` have changed places: you compare the queries with the values, and average the keys.",
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    three = (part.query(x), part.value(memory), part.key(memory))
    query, key, value = (_split(side, part.n_heads) for side in three)
    return part.output(_join(_hidden(query @ key.mT / math.sqrt(query.size(-1)), mask) @ value))


@attend.mistake("keys from x", "Your keys come from x. Keys and values come from the memory.")
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    weights = _hidden(_scores(part, x, x), mask)
    return part.output(_join(weights @ _split(part.value(memory), part.n_heads)))


@attend.mistake("values from x", "Your values come from x. Keys and values come from the memory.")
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    weights = _hidden(_scores(part, x, memory), mask)
    return part.output(_join(weights @ _split(part.value(x), part.n_heads)))


@attend.mistake(
    "divided after the softmax",
    "You divide the weights by the root of d_head, so they no longer sum to one. Divide the scores, before the "
    "softmax.",
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(
        part,
        x,
        memory,
        mask,
        scale=lambda s: s * math.sqrt(x.size(-1) // part.n_heads),
        weigh=lambda s, m: _hidden(s, m) / math.sqrt(x.size(-1) // part.n_heads),
    )


@attend.mistake(
    "no axis for the heads",
    "You never split the dimensions into heads, so your scores have no axis for them, and the mask doesn't fit. Each "
    "head has its own scores and its own softmax.",
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    query, key, value = part.query(x), part.key(memory), part.value(memory)
    return part.output(_hidden(query @ key.mT / math.sqrt(query.size(-1)), mask) @ value)


# 3 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"layer": _plain(EncoderLayer(4, 1, 4)), "x": numbers(1, 2, 4, seed=3), "mask": _OPEN},
    {"layer": _drawn(EncoderLayer(6, 2, 8)), "x": numbers(2, 5, 6), "mask": _PADDED},
)
def encoder_layer(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    """Attention and feed-forward, each added and normalised."""
    x = layer.norms[0](x + _look_up(layer.attention, x, x, mask))
    return layer.norms[1](x + _feed_forward(layer, x))


def _feed_forward(
    layer: EncoderLayer | DecoderLayer, x: Tensor, bend: Callable[[Tensor], Tensor] = torch.relu
) -> Tensor:
    return layer.outer(bend(layer.inner(x)))


@encoder_layer.mistake(
    "no residual connections", "The input of each sublayer should be added to its output, but you never add it."
)
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[0](_look_up(layer.attention, x, x, mask))
    return layer.norms[1](_feed_forward(layer, x))


@encoder_layer.mistake(
    "no residual around feed-forward",
    "The attention is right. In the second sublayer, the input isn't added to the output.",
)
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[0](x + _look_up(layer.attention, x, x, mask))
    return layer.norms[1](_feed_forward(layer, x))


@encoder_layer.mistake(
    "no residual around attention",
    "The feed-forward network is right. In the first sublayer, the input isn't added to the output.",
)
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[0](_look_up(layer.attention, x, x, mask))
    return layer.norms[1](x + _feed_forward(layer, x))


@encoder_layer.mistake(
    "pre-norm", "This is pre-norm, a good layer but not the paper's, which normalises after each addition (§3.1)."
)
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    y = layer.norms[0](x)
    x = x + _look_up(layer.attention, y, y, mask)
    return x + _feed_forward(layer, layer.norms[1](x))


@encoder_layer.mistake(
    "the sublayer's output normalised",
    "You normalise the sublayer's output and then add x. The paper normalises the sum.",
)
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = x + layer.norms[0](_look_up(layer.attention, x, x, mask))
    return x + layer.norms[1](_feed_forward(layer, x))


@encoder_layer.mistake("no norms", "Everything is right except that the layer norms are missing.")
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = x + _look_up(layer.attention, x, x, mask)
    return x + _feed_forward(layer, x)


@encoder_layer.mistake("one norm for both", "You use the first norm twice. Each sublayer has its own.")
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[0](x + _look_up(layer.attention, x, x, mask))
    return layer.norms[0](x + _feed_forward(layer, x))


@encoder_layer.mistake(
    "no ReLU", "There is no activation between the two linear layers, so together they are no more powerful than one."
)
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[0](x + _look_up(layer.attention, x, x, mask))
    return layer.norms[1](x + _feed_forward(layer, x, lambda h: h))


@encoder_layer.mistake("GELU instead of ReLU", "The activation is in the right place, but the paper uses ReLU (§3.3).")
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[0](x + _look_up(layer.attention, x, x, mask))
    return layer.norms[1](x + _feed_forward(layer, x, F.gelu))


@encoder_layer.mistake(
    "ReLU at the end", "You apply the ReLU after the second linear layer. It belongs between the two."
)
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[0](x + _look_up(layer.attention, x, x, mask))
    return layer.norms[1](x + layer.outer(layer.inner(x)).relu())


@encoder_layer.mistake(
    "ReLU at the beginning",
    "You apply the ReLU before the first linear layer, so nothing is between the two, and together they are no more "
    "powerful than one.",
)
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[0](x + _look_up(layer.attention, x, x, mask))
    return layer.norms[1](x + layer.outer(layer.inner(x.relu())))


@encoder_layer.mistake("feed-forward first", "Both sublayers are right, but self-attention comes first.")
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[1](x + _feed_forward(layer, x))
    return layer.norms[0](x + _look_up(layer.attention, x, x, mask))


@encoder_layer.mistake(
    "feed-forward reads the layer's input",
    "Your feed-forward network reads the input of the layer. It should read the output of the first sublayer.",
)
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    y = layer.norms[0](x + _look_up(layer.attention, x, x, mask))
    return layer.norms[1](y + _feed_forward(layer, x))


@encoder_layer.mistake(
    "the layer's input added to feed-forward",
    "After the feed-forward network you add the input of the layer. Add the input of the feed-forward network.",
)
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    y = layer.norms[0](x + _look_up(layer.attention, x, x, mask))
    return layer.norms[1](x + _feed_forward(layer, y))


@encoder_layer.mistake(
    "every key is hidden",
    'Did you invert the mask? True means "may attend", and `attend` expects the mask as it is. Where every key is '
    "hidden, the softmax divides 0 by 0.",
)
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[0](x + _look_up(layer.attention, x, x, ~mask))
    return layer.norms[1](x + _feed_forward(layer, x))


@encoder_layer.mistake(
    "the first norm missing", "You add the input to the attention's output, but you don't normalise this first sum."
)
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = x + _look_up(layer.attention, x, x, mask)
    return layer.norms[1](x + _feed_forward(layer, x))


@encoder_layer.mistake(
    "the last norm missing", "Everything is right up to the last sum. It should be normalised like the first one."
)
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[0](x + _look_up(layer.attention, x, x, mask))
    return x + _feed_forward(layer, x)


@encoder_layer.mistake(
    "norms swapped", "Your norms have changed places. The first belongs to self-attention, the second to feed-forward."
)
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[1](x + _look_up(layer.attention, x, x, mask))
    return layer.norms[0](x + _feed_forward(layer, x))


# 4 --------------------------------------------------------------------------------------------------------------------

_NONE_AHEAD = torch.ones(3, 3, dtype=torch.bool).tril()[None, None]


@topic.exercise(
    {
        "layer": _plain(DecoderLayer(4, 1, 4)),
        "x": numbers(1, 2, 4, seed=3),
        "memory": numbers(1, 2, 4, seed=4),
        "mask": _NONE_AHEAD[..., :2, :2],
        "memory_mask": torch.tensor([[[[True, False]]]]),
    },
    {
        "layer": _drawn(DecoderLayer(6, 2, 8)),
        "x": numbers(2, 3, 6),
        "memory": numbers(2, 5, 6, seed=1),
        "mask": _NONE_AHEAD,
        "memory_mask": _PADDED,
    },
)
def decoder_layer(layer: DecoderLayer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    """Attention to itself, attention to the memory, and feed-forward, each added and normalised."""
    return _decoder_layer(layer, x, memory, mask, memory_mask)


def _decoder_layer(
    layer: DecoderLayer,
    x: Tensor,
    memory: Tensor,
    mask: Tensor,
    memory_mask: Tensor,
    parts: str = "own memory words",
    norms: Sequence[int] = (0, 1, 2),
) -> Tensor:
    """The layer with the given parts, in the given order; each with the norm of the given number behind it."""
    came_in = x
    sublayers: dict[str, Callable[[Tensor], Tensor]] = {
        "own": lambda y: _look_up(layer.self_attention, y, y, mask),
        "memory": lambda y: _look_up(layer.cross_attention, y, memory, memory_mask),
        "words": lambda y: _feed_forward(layer, y),
        "own-open": lambda y: _look_up(layer.self_attention, y, y, _OPEN),
        "memory-open": lambda y: _look_up(layer.cross_attention, y, memory, _OPEN),
        "memory-self": lambda y: _look_up(layer.cross_attention, y, y, mask),
        "memory-same": lambda y: _look_up(layer.self_attention, y, memory, memory_mask),
        "memory-x": lambda y: _look_up(layer.cross_attention, came_in, memory, memory_mask),
        "memory-asks": lambda y: _look_up(layer.cross_attention, memory, y, memory_mask),
        "own-swapped": lambda y: _look_up(layer.self_attention, y, y, memory_mask),
        "memory-swapped": lambda y: _look_up(layer.cross_attention, y, memory, mask),
        "words-straight": lambda y: _feed_forward(layer, y, lambda h: h),
    }
    for part, norm in zip(parts.split(), norms, strict=True):
        x = layer.norms[norm](x + sublayers[part](x))
    return x


_Layer = DecoderLayer


@decoder_layer.mistake(
    "no cross-attention",
    "This is an encoder layer. Cross-attention to the memory belongs between self-attention and feed-forward.",
)
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own words", (0, 2))


@decoder_layer.mistake(
    "no self-attention", "The first sublayer is missing: the target's positions don't attend to each other."
)
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "memory words", (1, 2))


@decoder_layer.mistake("no feed-forward", "Both attention layers are right. The feed-forward network is missing.")
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own memory", (0, 1))


@decoder_layer.mistake(
    "cross-attention first", "All sublayers are right, but self-attention comes before cross-attention (§3.1)."
)
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "memory own words", (1, 0, 2))


@decoder_layer.mistake(
    "no mask in self-attention", "Your self-attention has no mask, so each position attends to the future as well."
)
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own-open memory words")


@decoder_layer.mistake(
    "no mask in cross-attention", "Your cross-attention has no mask, so it attends to the source's padding as well."
)
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own memory-open words")


@decoder_layer.mistake(
    "masks swapped",
    "Each attention uses the other's mask. Cross-attention reads the source, so it needs the source's mask.",
)
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own-swapped memory-swapped words")


@decoder_layer.mistake(
    "self-attention twice", "Your second attention attends to the target again. It should attend to the memory."
)
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own memory-self words")


@decoder_layer.mistake(
    "the same matrices for both attention layers",
    "You use the weights of self-attention for cross-attention. The layer has others for it.",
)
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own memory-same words")


@decoder_layer.mistake(
    "target and memory swapped",
    "Your queries come from the memory. They should come from the target, and keys and values from the memory.",
)
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own memory-asks words")


@decoder_layer.mistake(
    "cross-attention reads the layer's input",
    "The queries of your cross-attention come from the input of the layer. They should come from the output of the "
    "first sublayer.",
)
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own memory-x words")


@decoder_layer.mistake(
    "two norms for three sums", "You use one norm twice and another not at all. Each sublayer has its own."
)
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, norms=(0, 1, 1))


@decoder_layer.mistake(
    "the last norm missing",
    "Everything is right up to the last sum. Each of the three sums is normalised: which norm haven't you used?",
)
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    x = _decoder_layer(layer, x, memory, mask, memory_mask, "own memory", (0, 1))
    return x + _feed_forward(layer, x)


@decoder_layer.mistake("one norm for all", "You use the first norm three times. Each sublayer has its own.")
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, norms=(0, 0, 0))


@decoder_layer.mistake(
    "no ReLU", "There is no activation between the two linear layers, so together they are no more powerful than one."
)
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own memory words-straight")


@decoder_layer.mistake(
    "pre-norm", "This is pre-norm, a good layer but not the paper's, which normalises after each addition."
)
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    y = layer.norms[0](x)
    x = x + _look_up(layer.self_attention, y, y, mask)
    x = x + _look_up(layer.cross_attention, layer.norms[1](x), memory, memory_mask)
    return x + _feed_forward(layer, layer.norms[2](x))


@decoder_layer.mistake(
    "the last two norms swapped",
    "The norms 1 and 2 are swapped. Each sublayer has a norm of its own, in the order of the sublayers.",
)
def _(layer: DecoderLayer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, norms=(0, 2, 1))


@decoder_layer.mistake(
    "no residual connection around cross-attention",
    "What went into cross-attention isn't added to its output. Each of the three sublayers has a residual connection.",
)
def _(layer: DecoderLayer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    x = layer.norms[0](x + _look_up(layer.self_attention, x, x, mask))
    x = layer.norms[1](_look_up(layer.cross_attention, x, memory, memory_mask))
    return layer.norms[2](x + _feed_forward(layer, x))


@decoder_layer.mistake(
    "no residual connection around self-attention",
    "What went into self-attention isn't added to its output. Each of the three sublayers has a residual connection.",
)
def _(layer: DecoderLayer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    x = layer.norms[0](_look_up(layer.self_attention, x, x, mask))
    x = layer.norms[1](x + _look_up(layer.cross_attention, x, memory, memory_mask))
    return layer.norms[2](x + _feed_forward(layer, x))


@decoder_layer.mistake(
    "no residual connection around feed-forward",
    "What went into feed-forward isn't added to its output. Each of the three sublayers has a residual connection.",
)
def _(layer: DecoderLayer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    x = layer.norms[0](x + _look_up(layer.self_attention, x, x, mask))
    x = layer.norms[1](x + _look_up(layer.cross_attention, x, memory, memory_mask))
    return layer.norms[2](_feed_forward(layer, x))


@decoder_layer.mistake(
    "every key is hidden",
    'Did you invert the masks? True means "may attend", and `attend` expects them as they are. Where every key is '
    "hidden, the softmax divides 0 by 0.",
)
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, ~mask, ~memory_mask)


@decoder_layer.mistake(
    "no feed-forward before the last norm",
    "Both attention layers are right, and you use all three norms, but the feed-forward network is missing.",
)
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return layer.norms[2](_decoder_layer(layer, x, memory, mask, memory_mask, "own memory", (0, 1)))


# 5 --------------------------------------------------------------------------------------------------------------------


def _model(n_layers: int = 2, seed: int = 0) -> Model:
    return _drawn(Model(9, 6, 2, 8, n_layers), seed)


_SOURCE = torch.tensor([[5, 4, 8, 6, 2], [7, 5, 2, 0, 0]])
_TARGET = torch.tensor([[1, 6, 4, 4], [1, 8, 5, 7]])


@topic.exercise(
    {"model": _model(1), "source": torch.tensor([[5, 2]]), "target": torch.tensor([[1, 6]])},
    {"model": _model(), "source": _SOURCE, "target": _TARGET},
)
def next_token_logits(model: Model, source: Tensor, target: Tensor) -> Tensor:
    """Both stacks, and every word of the vocabulary for a next one."""
    return _next_word_scores(model, source, target)


def _no_future(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()[None, None]


def _next_word_scores(
    model: Model,
    source: Tensor,
    target: Tensor,
    *,
    encoder_mask: Tensor | None = None,
    memory_mask: Tensor | None = None,
    mask: Tensor | None = None,
    encoder: Any = None,
    decoder: Any = None,
    embed_target: Callable[[Tensor, Tensor], Tensor] = embed_tokens.reference,
) -> Tensor:
    real = (source != PAD)[:, None, None]
    x = embed_tokens.reference(source, model.embedding.weight)
    for layer in model.encoder if encoder is None else encoder:
        x = encoder_layer.reference(layer, x, real if encoder_mask is None else encoder_mask)
    y = embed_target(target, model.embedding.weight)
    layers: Any = model.decoder if decoder is None else decoder
    for layer in layers:
        y = _decoder_layer(
            layer,
            y,
            x,
            _no_future(target.size(1)) if mask is None else mask,
            real if memory_mask is None else memory_mask,
        )
    return y @ model.embedding.weight.T


@next_token_logits.mistake(
    "no causal mask", "Your decoder can attend to the very token that it should predict. It needs the causal mask."
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, mask=_OPEN)


@next_token_logits.mistake(
    "the wrong triangle", "Your causal mask shows the future and hides the past. Use the other triangle."
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, mask=_no_future(target.size(1)).mT)


@next_token_logits.mistake(
    "the diagonal of the mask is False",
    "A position can't attend to itself, so the first one can attend to nothing. The diagonal should be True.",
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, mask=torch.ones(target.size(1), target.size(1)).tril(-1).bool())


@next_token_logits.mistake("no padding mask", "Encoder and decoder attend to the source's padding. Both need its mask.")
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, encoder_mask=_OPEN, memory_mask=_OPEN)


@next_token_logits.mistake(
    "no padding mask in cross-attention", "The encoder hides the source's padding, but cross-attention doesn't."
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, memory_mask=_OPEN)


@next_token_logits.mistake(
    "no padding mask in the encoder", "Cross-attention hides the source's padding, but the encoder doesn't."
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, encoder_mask=_OPEN)


@next_token_logits.mistake(
    "the padding mask inverted",
    'Your padding mask hides the words of the source and shows its padding. True means "may attend".',
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    padding = (source == PAD)[:, None, None]
    return _next_word_scores(model, source, target, encoder_mask=padding, memory_mask=padding)


@next_token_logits.mistake(
    "a causal mask in the encoder",
    "Your encoder has a causal mask. It may look in both directions, because the whole source is known.",
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    mask = _no_future(source.size(1)) & (source != PAD)[:, None, None]
    return _next_word_scores(model, source, target, encoder_mask=mask)


@next_token_logits.mistake(
    "no encoder", "Your decoder attends to the source's embeddings. The memory is the output of the encoder."
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, encoder=[])


@next_token_logits.mistake(
    "each encoder layer reads the embeddings",
    "All your encoder layers read the embeddings, so only the last one has an effect. Each should read the output of "
    "the one before.",
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, encoder=model.encoder[-1:])


@next_token_logits.mistake(
    "the target's bare embeddings",
    "Your decoder reads the bare rows of the embedding matrix. What do you do to the rows of the source's tokens, but "
    "not to these?",
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, embed_target=lambda ids, table: table[ids])


@next_token_logits.mistake("only one layer", "You use only the first layer of each stack. Go through all of them.")
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, encoder=model.encoder[:1], decoder=model.decoder[:1])


@next_token_logits.mistake("source and target swapped", "Your encoder reads the target and your decoder the source.")
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, target, source)


@next_token_logits.mistake("probabilities", "These are probabilities. Return the logits; the loss applies the softmax.")
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target).softmax(-1)


@next_token_logits.mistake(
    "log-probabilities", "These are log-probabilities. Return the logits; the loss normalises them."
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target).log_softmax(-1)


@next_token_logits.mistake("logits scaled", "You scale the logits. The factor of §3.4 belongs to the input embeddings.")
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target) * math.sqrt(model.embedding.embedding_dim)


@next_token_logits.mistake(
    "the last position only",
    "You compute logits for the last position only. In training, every position predicts its next token.",
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target)[:, -1]


@next_token_logits.mistake(
    "vectors instead of logits",
    "You return the decoder's vectors. Multiply them by the embeddings of the vocabulary to get logits.",
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    scores = _next_word_scores(model, source, target)
    return torch.linalg.lstsq(model.embedding.weight.expand(len(scores), -1, -1), scores.mT).solution.mT


@next_token_logits.mistake(
    "each decoder layer reads the encoder layer with the same number",
    "Your decoder layers read the output of the encoder layer with the same number. All of them should read the "
    "output of the last one.",
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    real = (source != PAD)[:, None, None]
    memory, y = (embed_tokens.reference(ids, model.embedding.weight) for ids in (source, target))
    layers: Any = zip(model.encoder, model.decoder, strict=False)
    for below, layer in layers:
        memory = encoder_layer.reference(below, memory, real)
        y = _decoder_layer(layer, y, memory, _no_future(target.size(1)), real)
    return y @ model.embedding.weight.T


@next_token_logits.mistake(
    "the causal mask shows one token too many",
    "There is a causal mask, but it lets each position see one token too many: the very one that it should predict. "
    "Which diagonal is the last that is True?",
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    length = target.size(1)
    mask = torch.ones(length, length, dtype=torch.bool).tril(1)
    return _next_word_scores(model, source, target, mask=mask)


@next_token_logits.mistake(
    "the causal mask is as long as the batch",
    "Your causal mask has as many rows as the batch has sentences. It needs a row and a column for each position of "
    "the target: which axis of `target` is that?",
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, mask=_no_future(len(target)))


@next_token_logits.mistake(
    "causal mask and padding mask swapped",
    "Your decoder layers get the two masks in the wrong order: self-attention needs the causal mask, cross-attention "
    "that of the source's padding.",
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    real = (source != PAD)[:, None, None]
    return _next_word_scores(model, source, target, mask=real, memory_mask=_no_future(target.size(1)))


@next_token_logits.mistake(
    "only one encoder layer",
    "You use a single layer of the encoder. Go through all of them: is your `return` inside the loop?",
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, encoder=model.encoder[:1])


@next_token_logits.mistake(
    "it returns after one encoder layer",
    "You return what the first layer of the encoder computes, and the decoder is never reached: is your `return` "
    "inside the loop?",
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    real = (source != PAD)[:, None, None]
    return encoder_layer.reference(model.encoder[0], embed_tokens.reference(source, model.embedding.weight), real)


@next_token_logits.mistake(
    "only one decoder layer",
    "You use a single layer of the decoder. Go through all of them: is your `return` inside the loop?",
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, decoder=model.decoder[:1])


@next_token_logits.mistake(
    "only the last decoder layer",
    "All your decoder layers read the embeddings, so only the last one has an effect. Each should read the output of "
    "the one before.",
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, decoder=model.decoder[-1:])


# 6 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"model": _model(1), "source": torch.tensor([[5, 2]]), "target": torch.tensor([[1, 6, 2]]), "smoothing": 0.0},
    {"model": _model(1), "source": torch.tensor([[5, 2]]), "target": torch.tensor([[1, 6, 2]]), "smoothing": 0.1},
    {
        "model": _model(),
        "source": _SOURCE,
        "target": torch.tensor([[1, 6, 4, 4, 2], [1, 8, 2, 0, 0]]),
        "smoothing": 0.1,
    },
)
def translation_loss(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """How far the scores are from what should have been said."""
    losses, real = _losses(model, source, target, smoothing)
    return losses[real].mean()


def _losses(
    model: Model,
    source: Tensor,
    target: Tensor,
    smoothing: float,
    read: slice = slice(None, -1),
    expect: slice = slice(1, None),
) -> Batch:
    """The smoothed loss of every place, (batch, length), and which of them count."""
    log_p = _next_word_scores(model, source, target[:, read]).log_softmax(-1)
    expected = target[:, expect]
    right = -log_p.gather(-1, expected[..., None])[..., 0]
    return (1 - smoothing) * right - smoothing * log_p.mean(-1), expected != PAD


@translation_loss.mistake(
    "not shifted",
    "Input and labels are the same, so the decoder only has to copy. At each position, the label is the next token.",
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    losses, real = _losses(model, source, target, smoothing, slice(None), slice(None))
    return losses[real].mean()


@translation_loss.mistake(
    "not shifted, without the last token",
    "Input and labels are the same, so the decoder only has to copy. Leave out the last token of the input, and the "
    "first one of the labels.",
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    losses, real = _losses(model, source, target, smoothing, slice(None, -1), slice(None, -1))
    return losses[real].mean()


@translation_loss.mistake("shifted the wrong way", "Your label is the previous token. It should be the next one.")
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    losses, real = _losses(model, source, target, smoothing, slice(1, None), slice(None, -1))
    return losses[real].mean()


@translation_loss.mistake(
    "the last label missing", "The last token of the target is never a label, so the model doesn't learn when to stop."
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    losses, real = _losses(model, source, target, smoothing, slice(None, -2), slice(1, -1))
    return losses[real].mean()


for _title, _ignored in (("eos left out instead of padding", (EOS,)), ("eos left out as well", (EOS, PAD))):

    @translation_loss.mistake(
        _title,
        "You leave out the positions at which eos is expected, so the model doesn't learn when to stop. At which "
        "positions is there nothing to learn?",
    )
    def _(model: Model, source: Tensor, target: Tensor, smoothing: float, ignored: Sequence[int] = _ignored) -> Tensor:
        losses, _ = _losses(model, source, target, smoothing)
        return losses[~torch.isin(target[:, 1:], torch.tensor(ignored))].mean()


@translation_loss.mistake(
    "padding included", "You include the positions where padding is expected. They should not contribute to the loss."
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    return _losses(model, source, target, smoothing)[0].mean()


@translation_loss.mistake(
    "divided by all positions",
    "You leave padding out of the sum, but you divide by all positions. Divide by the number of real tokens.",
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    losses, real = _losses(model, source, target, smoothing)
    return (losses * real).mean()


@translation_loss.mistake(
    "a sum instead of a mean",
    "You return the sum, so longer batches have larger gradients. Divide by the number of real tokens.",
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    losses, real = _losses(model, source, target, smoothing)
    return losses[real].sum()


@translation_loss.mistake(
    "the mean of the sentences' means",
    "You average within each sentence and then over the sentences, so tokens of short sentences get a larger weight. "
    "Add up everything and divide once.",
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    losses, real = _losses(model, source, target, smoothing)
    return ((losses * real).sum(1) / real.sum(1)).mean()


@translation_loss.mistake("not smoothed", "This is the loss without label smoothing. The argument for it isn't used.")
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    losses, real = _losses(model, source, target, 0.0)
    return losses[real].mean()


@translation_loss.mistake(
    "shared among the other tokens only", "The right token gets no share of ε. Here all tokens share it."
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    size = model.embedding.num_embeddings
    losses, real = _losses(model, source, target, smoothing * size / (size - 1))
    return losses[real].mean()


@translation_loss.mistake(
    "ε comes on top",
    "Your probabilities sum to 1 + ε: all tokens share ε, but the right token still has all of its 1. Where should "
    "the ε that they share come from?",
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    right, real = _losses(model, source, target, 0.0)
    spread = _losses(model, source, target, 1.0)[0]
    return (right + smoothing * spread)[real].mean()


@translation_loss.mistake("every token gets all of ε", "Every token of the vocabulary gets ε. They have to share it.")
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    size = model.embedding.num_embeddings
    right, real = _losses(model, source, target, 0.0)
    spread = _losses(model, source, target, 1.0)[0]
    return ((1 - smoothing) * right + smoothing * size * spread)[real].mean()


@translation_loss.mistake(
    "softmax twice", "Cross-entropy applies the softmax itself, and you pass it probabilities. Pass it the logits."
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    p = _next_word_scores(model, source, target[:, :-1]).softmax(-1)
    return F.cross_entropy(p.mT, target[:, 1:], ignore_index=PAD, label_smoothing=smoothing)


@translation_loss.mistake(
    "softmax over the positions",
    "You normalise over the positions. The probabilities should sum to one over the vocabulary.",
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    log_p = _next_word_scores(model, source, target[:, :-1]).log_softmax(1)
    right = -log_p.gather(-1, target[:, 1:, None])[..., 0]
    return ((1 - smoothing) * right - smoothing * log_p.mean(-1))[target[:, 1:] != PAD].mean()


@translation_loss.mistake(
    "the labels as the input",
    "The decoder reads the labels, so each position already knows what it should predict. Its input begins with bos, "
    "one position earlier.",
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    losses, real = _losses(model, source, target, smoothing, read=slice(1, None))
    return losses[real].mean()


@translation_loss.mistake(
    "ε isn't used",
    "You write a number where ε belongs. It is the argument `smoothing`.",
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    losses, real = _losses(model, source, target, 0.1)
    return losses[real].mean()


@translation_loss.mistake(
    "the smoothing with the wrong sign",
    "The part of your loss that comes from ε has the wrong sign. Log-probabilities are negative, and both parts of the "
    "loss take minus them.",
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    right, real = _losses(model, source, target, 0.0)
    spread = _losses(model, source, target, 1.0)[0]
    return ((1 - smoothing) * right - smoothing * spread)[real].mean()


@translation_loss.mistake(
    "the logarithm is missing",
    "You average probabilities. The cross-entropy is made of their logarithms.",
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    p = _next_word_scores(model, source, target[:, :-1]).softmax(-1)
    right = -p.gather(-1, target[:, 1:, None])[..., 0]
    return ((1 - smoothing) * right - smoothing * p.mean(-1))[target[:, 1:] != PAD].mean()


@translation_loss.mistake(
    "the logits reshaped instead of transposed",
    "You bring the logits into the shape that `F.cross_entropy` expects by regrouping their numbers, which then "
    "belong to other tokens and positions. Swap the two axes instead.",
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    logits = _next_word_scores(model, source, target[:, :-1])
    return F.cross_entropy(
        logits.reshape(len(logits), -1, logits.size(1)), target[:, 1:], ignore_index=PAD, label_smoothing=smoothing
    )


# 7 --------------------------------------------------------------------------------------------------------------------


def squared_error(model: nn.Module, batch: Batch) -> Tensor:
    """the mean squared error of what the model makes of the batch's first half"""
    return (model(batch[0]) - batch[1]).square().mean()


def small_error(model: nn.Module, batch: Batch) -> Tensor:
    """a hundred-thousandth of the mean squared error"""
    return 1e-5 * squared_error(model, batch)


def _line(seed: int) -> nn.Linear:
    line = nn.Linear(2, 1)
    for i, parameter in enumerate(line.parameters()):
        parameter.data = numbers(*parameter.shape, seed=seed + i)
    return line


def _points(count: int, seed: int, size: float = 1.0) -> list[Batch]:
    return [(size * numbers(3, 2, seed=seed + i), numbers(3, 1, seed=seed + 100 + i)) for i in range(count)]


def _growing(count: int) -> list[Batch]:
    """Batches whose gradients are shorter than 1 at first, and then longer."""
    return [((0.1 + 0.12 * i) * x, y) for i, (x, y) in enumerate(_points(count, 40))]


@topic.exercise(
    {"model": _line(0), "batches": _points(3, 0), "loss_of": squared_error, "d_model": 4, "warmup_steps": 2},
    {"model": _line(7), "batches": _points(8, 20, 3), "loss_of": squared_error, "d_model": 16, "warmup_steps": 5},
    {"model": _line(0), "batches": _growing(10), "loss_of": squared_error, "d_model": 16, "warmup_steps": 4},
    {"model": _line(3), "batches": _points(6, 60), "loss_of": small_error, "d_model": 4, "warmup_steps": 2},
    {"model": _line(5), "batches": iter(_points(3, 80)), "loss_of": squared_error, "d_model": 4, "warmup_steps": 2},
)
def train_model(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_of: Callable[[nn.Module, Batch], Tensor],
    d_model: int,
    warmup_steps: int,
) -> list[float]:
    """Adam with the paper's settings and rate, and with clipped gradients."""
    return _train(model, batches, loss_of, d_model, warmup_steps)


def _adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, betas=(0.9, 0.98), eps=1e-9)


def _rate(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))


def _train(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_of: Callable[[nn.Module, Batch], Tensor],
    d_model: int,
    warmup_steps: int,
    *,
    optimizer_of: Callable[[Any], torch.optim.Optimizer] = _adam,
    rate: Callable[[int, int, int], float] = _rate,
    order: str = "forget backward clip step",
    renew: bool = False,
    again: bool = False,
) -> list[float]:
    """The loop with these settings; the words of ``order`` are what is done with each loss, one after the other."""
    optimizer, losses = optimizer_of(model.parameters()), []
    for step, batch in enumerate(batches, 1):
        if renew:
            optimizer = optimizer_of(model.parameters())
        loss = loss_of(model, batch)
        actions: dict[str, Callable[[], Any]] = {
            "forget": optimizer.zero_grad,
            "backward": loss.backward,
            "clip": lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0),
            "clip-each": lambda: [nn.utils.clip_grad_norm_([p], 1.0) for p in model.parameters()],
            "clip-values": lambda: nn.utils.clip_grad_value_(model.parameters(), 1.0),
            "step": optimizer.step,
        }
        for group in optimizer.param_groups:
            group["lr"] = rate(step, d_model, warmup_steps)
        for action in order.split():
            actions[action]()
        losses.append((loss_of(model, batch) if again else loss).item())
    return losses


@train_model.mistake(
    "gradients never reset", "You never reset the gradients, so each step uses the sum over all batches so far."
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, order="backward clip step")


@train_model.mistake(
    "nothing learned", "The weights don't change: either no step uses the gradients, or they are reset before the step."
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, order="backward clip forget step")


@train_model.mistake(
    "not clipped", "The gradients aren't clipped. Clip them to the norm 1, after backward and before the step."
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, order="forget backward step")


@train_model.mistake(
    "clipped value by value", "You clip each number, which changes the direction of the gradient. Clip its norm."
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, order="forget backward clip-values step")


@train_model.mistake(
    "Adam with default settings", "You use PyTorch's default settings of Adam. The paper uses others (§5.3)."
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, optimizer_of=torch.optim.Adam)


@train_model.mistake(
    "PyTorch's default ε", "Both betas are right, but ε is PyTorch's default, 1e-8. The paper uses 1e-9."
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, optimizer_of=lambda p: torch.optim.Adam(p, betas=(0.9, 0.98)))


@train_model.mistake(
    "PyTorch's default β₂", "ε is right, but β₂ is PyTorch's default, 0.999. Compare both betas with the paper's."
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, optimizer_of=lambda p: torch.optim.Adam(p, eps=1e-9))


@train_model.mistake(
    "AdamW instead of Adam", "Your weights shrink slightly at every step: AdamW adds weight decay. The paper uses Adam."
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, optimizer_of=lambda p: torch.optim.AdamW(p, betas=(0.9, 0.98), eps=1e-9))


@train_model.mistake("plain gradient descent", "Your step follows the gradient itself. Use Adam.")
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, optimizer_of=torch.optim.SGD)


@train_model.mistake(
    "a new Adam at each step",
    "You create a new optimiser at each step, so it loses its averages. Create it once, before the loop.",
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, renew=True)


@train_model.mistake(
    "the losses after the steps",
    "You compute each loss once more after its step, with the new weights. Return the losses from which the gradients "
    "came.",
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, again=True)


@train_model.mistake(
    "a constant learning rate", "Your learning rate stays at Adam's default, 0.001. Set it before each step."
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, rate=lambda *_: 0.001)


@train_model.mistake("one step ahead", "Your learning rate is one step ahead. The first step is number 1.")
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, rate=lambda step, *rest: _rate(step + 1, *rest))


@train_model.mistake(
    "one step behind",
    "Your learning rate is one step behind. Do you count the steps from 0, or set the rate after the step?",
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, rate=lambda step, *rest: _rate(step - 1, *rest) if step > 1 else 0.0)


@train_model.mistake(
    "the learning rate set too late",
    "You set the learning rate after the step, so each step uses that of the one before, and the first one Adam's "
    "default.",
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, rate=lambda step, *rest: _rate(step - 1, *rest) if step > 1 else 0.001)


@train_model.mistake("no warm-up", "Your learning rate falls from the first step. warmup_steps isn't used.")
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, rate=lambda step, d, w: d**-0.5 * step**-0.5)


@train_model.mistake("it never decays", "Your learning rate only rises. After the warm-up it should fall.")
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, rate=lambda step, d, w: d**-0.5 * step * w**-1.5)


@train_model.mistake(
    "the maximum instead of the minimum",
    "You take the larger of the two expressions. During warm-up, the smaller one applies.",
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, rate=lambda step, d, w: d**-0.5 * max(step**-0.5, step * w**-1.5))


@train_model.mistake(
    "d_model left out", "The schedule has the right shape, but its height should also depend on d_model."
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, rate=lambda step, d, w: _rate(step, 1, w))


@train_model.mistake(
    "d_model with the wrong sign in its exponent",
    "Your learning rate grows with d_model. A wider model gets a lower one: compare the exponents.",
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, rate=lambda step, d, w: d * _rate(step, d, w))


@train_model.mistake(
    "warmup_steps with the wrong exponent",
    "Your learning rate rises too fast. The two expressions are equal at the end of the warm-up, where step is "
    "warmup_steps: are yours?",
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, rate=lambda step, d, w: d**-0.5 * min(step**-0.5, step * w**-0.5))


@train_model.mistake(
    "each weight clipped by itself",
    "You clip the gradient of each weight on its own. The norm is that of all gradients together, so that their "
    "direction stays the same.",
)
def _(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_of: Callable[[nn.Module, Batch], Tensor],
    d_model: int,
    warmup_steps: int,
) -> list[float]:
    return _train(model, batches, loss_of, d_model, warmup_steps, order="forget backward clip-each step")


@train_model.mistake(
    "`loss_of` isn't used",
    "You compute a loss of your own. The loop should work for any loss: call `loss_of` with the model and the batch.",
)
def _(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_of: Callable[[nn.Module, Batch], Tensor],
    d_model: int,
    warmup_steps: int,
) -> list[float]:
    return _train(model, batches, squared_error, d_model, warmup_steps)


@train_model.mistake(
    "it ends after the first batch",
    "Your list has a single loss: the function returns after the first batch. Is your `return` inside the loop?",
)
def _(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_of: Callable[[nn.Module, Batch], Tensor],
    d_model: int,
    warmup_steps: int,
) -> list[float]:
    return _train(model, list(batches)[:1], loss_of, d_model, warmup_steps)


@train_model.mistake(
    "tensors instead of numbers",
    "Your losses are tensors, which also keep in memory everything that their gradients need. Record plain numbers: "
    "tensors have a method `item` for that.",
)
def _(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_of: Callable[[nn.Module, Batch], Tensor],
    d_model: int,
    warmup_steps: int,
) -> list[float]:
    return list(torch.tensor(_train(model, batches, loss_of, d_model, warmup_steps)))


_PRECEDENCE = "In Python, a power binds more tightly than a division, so the exponent needs parentheses."


@train_model.mistake("warmup_steps to the power -3, divided by 2", _PRECEDENCE)
def _(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_of: Callable[[nn.Module, Batch], Tensor],
    d_model: int,
    warmup_steps: int,
) -> list[float]:
    def rate(step: int, d: int, w: int) -> float:
        return float(d**-0.5 * min(step**-0.5, step * w**-3 / 2))

    return _train(model, batches, loss_of, d_model, warmup_steps, rate=rate)


@train_model.mistake("d_model to the power -1, divided by 2", _PRECEDENCE)
def _(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_of: Callable[[nn.Module, Batch], Tensor],
    d_model: int,
    warmup_steps: int,
) -> list[float]:
    def rate(step: int, d: int, w: int) -> float:
        return float(d**-1 / 2 * min(step**-0.5, step * w**-1.5))

    return _train(model, batches, loss_of, d_model, warmup_steps, rate=rate)


@train_model.mistake("all exponents divided at the end", _PRECEDENCE)
def _(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_of: Callable[[nn.Module, Batch], Tensor],
    d_model: int,
    warmup_steps: int,
) -> list[float]:
    def rate(step: int, d: int, w: int) -> float:
        return float(d**-1 / 2 * min(step**-1 / 2, step * w**-3 / 2))

    return _train(model, batches, loss_of, d_model, warmup_steps, rate=rate)


# 8 --------------------------------------------------------------------------------------------------------------------


def _talker() -> Model:
    """A model whose two sentences have more than one word, and of which one ends by itself."""
    model = _model(1, seed=29)
    layer: Any = model.decoder[0]
    layer.inner.weight *= 2
    layer.outer.weight *= 8
    layer.cross_attention.output.weight *= 3
    model.embedding.weight[BOS] *= 0.1
    model.embedding.weight[PAD] = -2 * model.embedding.weight[8]
    return model


def _find_needless_steps(answer: Function) -> str | None:
    """Return a message if the decoder goes on when both sentences have ended, one of them in step 1, the other in 3."""
    lengths: list[int] = []
    model: Any = _talker()
    model.decoder[0].self_attention.query.register_forward_hook(
        lambda _, inputs, __: lengths.append(inputs[0].size(-2))
    )
    call(answer, {"model": model, "source": torch.tensor([[7, 5, EOS], [6, 5, EOS]]), "limit": 8}, own_parts_only)
    if max(lengths, default=0) <= 3:
        return None
    return (
        "it goes on after the last sentence has ended\nYour translations are right, but your loop takes steps whose "
        "tokens are thrown away. Stop as soon as each sentence contains `EOS`, wherever that is: one sentence may have "
        "ended long before another."
    )


@topic.exercise(
    {"model": _talker(), "source": _SOURCE[1:, :3], "limit": 6},
    {"model": _talker(), "source": _SOURCE[:1], "limit": 3},
    {"model": _talker(), "source": torch.tensor([[6, 7, 4, 5]]), "limit": 5},
    {"model": _talker(), "source": torch.tensor([[6, 8, 7, 2]]), "limit": 3},
    {"model": _talker(), "source": torch.tensor([[5, 6, 8, 4]]), "limit": 2},
    {"model": _talker(), "source": _SOURCE, "limit": 6},
    look_closer=_find_needless_steps,
)
def translate(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    """The best next word, again and again."""
    return _greedy(model, source, limit)


def _greedy(
    model: Model,
    source: Tensor,
    limit: int,
    *,
    first: int = BOS,
    choose: Callable[[Tensor], Tensor] = lambda scores: scores[:, -1].argmax(-1),
    read: Callable[[Tensor], Tensor] = lambda target: target,
    until: Callable[[Tensor], bool] = lambda ended: bool(ended.all()),
    cut: Callable[[list[int]], list[int]] = lambda row: _cut(row, EOS),
) -> list[list[int]]:
    target = source.new_full((len(source), 1), first)
    while target.size(1) <= limit and not until((target == EOS).any(1)):
        newest = choose(_next_word_scores(model, source, read(target)))
        target = torch.cat([target, newest[:, None]], 1)
    return [cut(row) for row in target[:, 1:].tolist()]


def _cut(tokens: list[int], end: int) -> list[int]:
    return tokens[: tokens.index(end)] if end in tokens else tokens


@translate.mistake("it starts with eos", "Your target starts with eos. It should start with bos.")
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    target = source.new_full((len(source), 1), EOS)
    for _ in range(limit):
        newest = _next_word_scores(model, source, target)[:, -1].argmax(-1)
        target = torch.cat([target, newest[:, None]], 1)
    return [_cut(row, EOS) for row in target[:, 1:].tolist()]


@translate.mistake(
    "it starts with padding", "Your target starts with padding. It should start with bos, as in training."
)
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source, limit, first=PAD)


@translate.mistake(
    "tokens after eos kept", "A sentence ends at its first eos. What is generated after that doesn't belong to it."
)
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return [[token for token in row if token != EOS] for row in _tokens(model, source, limit)]


@translate.mistake("not cut at eos", "Your translations go on after eos. Remove it and everything after it.")
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source, limit, cut=lambda row: row)


@translate.mistake("eos not removed", "Your translations contain eos. Remove it and everything after it.")
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    rows = _tokens(model, source, limit)
    return [row[: row.index(EOS) + 1] if EOS in row else row for row in rows]


def _tokens(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    """What is said with nobody stopping at an end."""
    target = torch.full((len(source), 1), BOS)
    for _ in range(limit):
        newest = _next_word_scores(model, source, target)[:, -1].argmax(-1)
        target = torch.cat([target, newest[:, None]], 1)
    return target[:, 1:].tolist()


@translate.mistake(
    "bos not removed", "Your translations start with bos. The model reads it, but it isn't part of the translation."
)
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return [[BOS, *row] for row in _greedy(model, source, limit)]


@translate.mistake("all stop with the first", "You stop as soon as one sentence has ended. Go on until all have.")
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source, limit, until=lambda ended: bool(ended.any()))


@translate.mistake(
    "the first position's logits",
    "You always read the logits of the first position, and they never change. Read those of the last.",
)
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source, limit, choose=lambda scores: scores[:, 0].argmax(-1))


@translate.mistake("the least probable token", "You choose the token with the smallest logit. Choose the largest.")
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source, limit, choose=lambda scores: scores[:, -1].argmin(-1))


@translate.mistake(
    "the decoder gets only the newest token", "Your decoder gets only the newest token. It should get the whole prefix."
)
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source, limit, read=lambda target: target[:, -1:])


@translate.mistake("one token too many", "Your translations can be one token longer than the limit. bos doesn't count.")
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source, limit + 1)


@translate.mistake(
    "one token too few",
    "If the limit is reached, your translations have one token too few: either you stop a step too early (bos doesn't "
    "count), or you remove an eos that isn't there.",
)
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source, limit - 1)


@translate.mistake(
    "one translation for all",
    "All sentences get the translation of the first one. Return one for each sentence of the batch.",
)
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source, limit)[:1] * len(source)


@translate.mistake(
    "cut at the last eos",
    "The model may predict eos again in a sentence that has ended, while the others go on. Cut at its first eos.",
)
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(
        model, source, limit, cut=lambda row: row[: max((i for i, t in enumerate(row) if t == EOS), default=len(row))]
    )


@translate.mistake(
    "only eos removed",
    "You remove only eos itself. Cut each row at its first eos, and drop everything that is generated after it.",
)
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source, limit, cut=lambda row: [token for token in row if token != EOS])


@translate.mistake(
    "it starts with eos and stops there",
    "Your target starts with eos, so it looks finished after the first step. It should start with bos.",
)
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    newest = _next_word_scores(model, source, source.new_full((len(source), 1), EOS))[:, -1].argmax(-1)
    return [_cut([token], EOS)[:limit] for token in newest.tolist()]


@translate.mistake(
    "the last column of the source left out",
    "Your model doesn't read the last token of the source. The target is extended step by step; the source stays "
    "whole.",
)
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source[:, :-1], limit)


@translate.mistake(
    "as many steps as the source is long",
    "`limit` isn't used as the limit: your loop runs as often as the source has tokens. A translation may be shorter "
    "or longer than its source.",
)
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source, source.size(1))


@translate.mistake(
    "padding removed",
    "You leave out the padding that the model has predicted. Return all tokens up to the first eos, whatever they are.",
)
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return [[token for token in row if token != PAD] for row in _greedy(model, source, limit)]
