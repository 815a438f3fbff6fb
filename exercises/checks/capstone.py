"""Checks of 18 the capstone: a whole translator, made of own parts only (§3, §5)."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch._dynamo  # an optimiser's first step would import it, which takes seconds and belongs to no answer
import torch.nn.functional as F
from torch import Tensor, nn

from exercises.check import Topic, numbers
from exercises.restrictions import own_parts_only
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
    part.note = "; its linear layers leave every vector as it is"
    return part.requires_grad_(False)


# 1 --------------------------------------------------------------------------------------------------------------------

_WORDS = torch.tensor([[1.0, 0, 0, 2], [0, 1, 0, 0], [0, 0, 3, 0]])


@topic.exercise(
    {"ids": torch.tensor([[1, 2, 1]]), "table": _WORDS},
    {"ids": torch.tensor([[0, 6, 2, 3], [3, 3, 1, 5]]), "table": numbers(7, 6)},
)
def words_and_places(ids: Tensor, table: Tensor) -> Tensor:
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


@words_and_places.mistake("not scaled", "Beside the places your words are too small: a factor belongs to them (§3.4).")
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table[ids] + _places(ids.size(1), table.size(1))


@words_and_places.mistake("scaled without the root", "The factor is not the width itself. Look at §3.4 once more.")
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table[ids] * table.size(1) + _places(ids.size(1), table.size(1))


@words_and_places.mistake(
    "scaled the wrong way", "You make the words smaller. They begin small, and are to become about as large as places."
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table[ids] / math.sqrt(table.size(1)) + _places(ids.size(1), table.size(1))


@words_and_places.mistake("the places scaled too", "The factor is for the words alone; the places have their size.")
def _(ids: Tensor, table: Tensor) -> Tensor:
    return (table[ids] + _places(ids.size(1), table.size(1))) * math.sqrt(table.size(1))


@words_and_places.mistake("no places", "The words are right, but nothing says where they stand.")
def _(ids: Tensor, table: Tensor) -> Tensor:
    return _words(ids, table)


@words_and_places.mistake(
    "all sines, then all cosines", "In the paper the sine and the cosine of one angle stand beside each other (§3.5)."
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return _words(ids, table) + _places(ids.size(1), table.size(1), order="behind")


@words_and_places.mistake("cosine first", "Sine and cosine have changed places: which has the even dimensions?")
def _(ids: Tensor, table: Tensor) -> Tensor:
    return _words(ids, table) + _places(ids.size(1), table.size(1), order="turned")


@words_and_places.mistake("places counted from 1", "You are one place ahead: the first word stands at place 0.")
def _(ids: Tensor, table: Tensor) -> Tensor:
    return _words(ids, table) + _places(ids.size(1), table.size(1), first=1)


@words_and_places.mistake(
    "hands that slow down too little", "Your exponent grows half as fast as the paper's. It has 2i in it (§3.5)."
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return _words(ids, table) + _places(ids.size(1), table.size(1), exponent=0.5)


@words_and_places.mistake("2i taken twice", "Your exponent grows twice as fast as the paper's: count what i runs over.")
def _(ids: Tensor, table: Tensor) -> Tensor:
    return _words(ids, table) + _places(ids.size(1), table.size(1), exponent=2.0)


@words_and_places.mistake(
    "a speed for each dimension",
    "Your sine and the cosine beside it turn at different speeds. A pair shares one angle.",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    d = table.size(1)
    angle = torch.arange(ids.size(1))[:, None] * 10000.0 ** (-torch.arange(d) / d)
    return _words(ids, table) + torch.stack([angle[:, 0::2].sin(), angle[:, 1::2].cos()], -1).flatten(1)


# 2 --------------------------------------------------------------------------------------------------------------------

_CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()[None, None]
_PADDED = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool()[:, None, None]
_OPEN = torch.ones(1, 1, 1, 1, dtype=torch.bool)


@topic.exercise(
    {
        "part": _plain(Attention(2, 1)),
        "x": torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]),
        "memory": torch.tensor([[[3.0, 0.0], [0.0, 1.0]]]),
        "mask": _OPEN,
    },
    {
        "part": _plain(Attention(2, 1)),
        "x": torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]),
        "memory": torch.tensor([[[3.0, 0.0], [0.0, 1.0]]]),
        "mask": torch.tensor([[[[True, False], [True, True]]]]),
    },
    {"part": _drawn(Attention(6, 2)), "x": numbers(2, 3, 6), "memory": numbers(2, 5, 6, seed=1), "mask": _PADDED},
    {"part": _drawn(Attention(6, 3)), "x": numbers(2, 5, 6), "memory": numbers(2, 5, 6, seed=2), "mask": _CAUSAL},
)
def look_up(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
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
    scale: Callable[[Tensor], Tensor] = lambda scores: scores,
    weigh: Callable[[Tensor, Tensor], Tensor] = _hidden,
    split: Callable[[Tensor, int], Tensor] = _split,
    join: Callable[[Tensor], Tensor] = _join,
) -> Tensor:
    query, key, value = (
        split(layer(side), part.n_heads) for layer, side in ((part.query, x), (part.key, memory), (part.value, memory))
    )
    scores = scale(query @ key.mT / math.sqrt(query.size(-1)))
    return part.output(join(weigh(scores, mask) @ value))


@look_up.mistake("not scaled", "Your scores are too large, and the softmax too sure. A root is missing (§3.2.1).")
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, scale=lambda s: s * math.sqrt(x.size(-1) // part.n_heads))


@look_up.mistake(
    "scaled by the whole width", "Each head's scores are sums over its own dimensions only: how many has a head?"
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, scale=lambda s: s / math.sqrt(part.n_heads))


@look_up.mistake("scaled without the root", "You divide by a head's width itself, and that is too much.")
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, scale=lambda s: s / math.sqrt(x.size(-1) // part.n_heads))


@look_up.mistake("the mask left out", "Everybody looks at everything. What is False in the mask must get no weight.")
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, _OPEN)


@look_up.mistake("the mask turned round", "You hide what may be looked at. True means: may look.")
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, weigh=lambda s, m: s.masked_fill(m, -torch.inf).softmax(-1))


@look_up.mistake(
    "masked with zero", "A score of zero is a score like any other, and gets its weight. Which number gets none?"
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, weigh=lambda s, m: s.masked_fill(~m, 0.0).softmax(-1))


@look_up.mistake(
    "masked too late", "What is hidden has no weight, but the rest no longer adds up to one. Hide before you share out."
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, weigh=lambda s, m: s.softmax(-1) * m)


@look_up.mistake(
    "shared out over the queries", "Each word that asks shares out a weight of one, over those that it looks at."
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, weigh=lambda s, m: s.masked_fill(~m, -torch.inf).softmax(-2))


@look_up.mistake(
    "one large head", "You take all dimensions as one head. The scores of each head are its own, and so is its softmax."
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, split=lambda t, n: _split(t, 1))


@look_up.mistake(
    "heads cut across words",
    "The axes are right and the numbers in them are not: a head got dimensions of several words. First cut the last "
    "axis in two, then let two axes change places.",
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, split=lambda t, n: t.reshape(len(t), n, t.size(1), -1))


@look_up.mistake(
    "heads joined across words",
    "Up to the joining all is right. A word's heads have to stand behind each other, and yours are of several words.",
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, memory, mask, join=lambda h: h.reshape(x.shape))


@look_up.mistake("no output matrix", "The heads stand beside each other, and nothing mixes them: one layer is unused.")
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _join(_hidden(_scores(part, x, memory), mask) @ _split(part.value(memory), part.n_heads))


def _scores(part: Attention, x: Tensor, memory: Tensor) -> Tensor:
    query, key = _split(part.query(x), part.n_heads), _split(part.key(memory), part.n_heads)
    return query @ key.mT / math.sqrt(query.size(-1))


@look_up.mistake("values as they are", "Weights are right. What they add up goes through a matrix of its own first.")
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    weights = _hidden(_scores(part, x, memory), mask)
    return part.output(_join(weights @ _split(memory, part.n_heads)))


@look_up.mistake("keys for values", "What is added up are your keys. There is a third matrix.")
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    weights = _hidden(_scores(part, x, memory), mask)
    return part.output(_join(weights @ _split(part.key(memory), part.n_heads)))


@look_up.mistake(
    "the memory not asked",
    "All three come from x. Keys and values belong to what is looked at, and that is the memory.",
)
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, x, x, mask)


@look_up.mistake("x and memory swapped", "The memory asks and x answers. It is the other way round.")
def _(part: Attention, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    return _look_up(part, memory, x, mask)


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


@encoder_layer.mistake("no residuals", "What goes in is lost: it should be added to what comes out, both times.")
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[0](_look_up(layer.attention, x, x, mask))
    return layer.norms[1](_feed_forward(layer, x))


@encoder_layer.mistake(
    "no residual around feed-forward", "The first half is right. In the second one nothing is added."
)
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[0](x + _look_up(layer.attention, x, x, mask))
    return layer.norms[1](_feed_forward(layer, x))


@encoder_layer.mistake("no residual around attention", "The second half is right. In the first one nothing is added.")
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[0](_look_up(layer.attention, x, x, mask))
    return layer.norms[1](x + _feed_forward(layer, x))


@encoder_layer.mistake(
    "pre-norm", "That is a good layer, but not this one: the paper's norm comes behind the sum (§3.1)."
)
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    y = layer.norms[0](x)
    x = x + _look_up(layer.attention, y, y, mask)
    return x + _feed_forward(layer, layer.norms[1](x))


@encoder_layer.mistake("normed, then added", "You normalise what is added. The paper normalises the sum.")
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = x + layer.norms[0](_look_up(layer.attention, x, x, mask))
    return x + layer.norms[1](_feed_forward(layer, x))


@encoder_layer.mistake("no norms", "All is there but the norms.")
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = x + _look_up(layer.attention, x, x, mask)
    return x + _feed_forward(layer, x)


@encoder_layer.mistake("one norm for both", "You use the first norm twice. Each of the two sums has its own.")
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[0](x + _look_up(layer.attention, x, x, mask))
    return layer.norms[0](x + _feed_forward(layer, x))


@encoder_layer.mistake(
    "nothing between the two linear layers", "Two linear layers in a row are one. Something has to bend between them."
)
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[0](x + _look_up(layer.attention, x, x, mask))
    return layer.norms[1](x + _feed_forward(layer, x, lambda h: h))


@encoder_layer.mistake("GELU", "It bends in the right place. The paper's way of bending is simpler (§3.3).")
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[0](x + _look_up(layer.attention, x, x, mask))
    return layer.norms[1](x + _feed_forward(layer, x, F.gelu))


@encoder_layer.mistake("bent at the end", "You bend behind the second linear layer. It belongs between the two.")
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[0](x + _look_up(layer.attention, x, x, mask))
    return layer.norms[1](x + layer.outer(layer.inner(x)).relu())


@encoder_layer.mistake("feed-forward first", "Both halves are right. Which of them comes first?")
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    x = layer.norms[1](x + _feed_forward(layer, x))
    return layer.norms[0](x + _look_up(layer.attention, x, x, mask))


@encoder_layer.mistake(
    "feed-forward reads the layer's input",
    "Feed-forward gets what came into the layer. It should get the first half's end.",
)
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    y = layer.norms[0](x + _look_up(layer.attention, x, x, mask))
    return layer.norms[1](y + _feed_forward(layer, x))


@encoder_layer.mistake(
    "the layer's input added twice",
    "To feed-forward you add what came into the layer. Add what came into feed-forward.",
)
def _(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    y = layer.norms[0](x + _look_up(layer.attention, x, x, mask))
    return layer.norms[1](x + _feed_forward(layer, y))


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


@decoder_layer.mistake("the memory not asked", "That is an encoder layer. Between its two parts the source is asked.")
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own words", (0, 2))


@decoder_layer.mistake("no self-attention", "The target's words do not see each other: the first part is missing.")
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "memory words", (1, 2))


@decoder_layer.mistake("no feed-forward", "Both attentions are right. What comes behind them in every layer?")
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own memory", (0, 1))


@decoder_layer.mistake("the memory first", "All parts are right. Which of the two attentions comes first (§3.1)?")
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "memory own words", (1, 0, 2))


@decoder_layer.mistake("the future seen", "Self-attention hides nothing here. It has a mask of its own.")
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own-open memory words")


@decoder_layer.mistake("the source's padding seen", "The memory is asked without its mask, padding included.")
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own memory-open words")


@decoder_layer.mistake("masks swapped", "Each attention has the other's mask. Which of them belongs to the source?")
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own-swapped memory-swapped words")


@decoder_layer.mistake(
    "self-attention twice", "Your second attention looks at the target again. What is the memory there for?"
)
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own memory-self words")


@decoder_layer.mistake(
    "the same matrices for both attentions", "You ask the memory with self-attention's matrices. The layer has others."
)
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own memory-same words")


@decoder_layer.mistake("the memory asks", "Who asks whom? The target has the questions, and the source the answers.")
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own memory-asks words")


@decoder_layer.mistake(
    "asked by what came in", "The memory is asked by the layer's input. It should be asked by what the first part made."
)
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own memory-x words")


@decoder_layer.mistake("two norms for three sums", "One norm is used twice and one not at all. Each sum has its own.")
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, norms=(0, 1, 1))


@decoder_layer.mistake("one norm for all", "You use the first norm three times. Each sum has its own.")
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, norms=(0, 0, 0))


@decoder_layer.mistake("nothing between the two linear layers", "Two linear layers in a row are one. What bends them?")
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    return _decoder_layer(layer, x, memory, mask, memory_mask, "own memory words-straight")


@decoder_layer.mistake("pre-norm", "A good layer, but not this one: the paper's norm comes behind each sum.")
def _(layer: _Layer, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    y = layer.norms[0](x)
    x = x + _look_up(layer.self_attention, y, y, mask)
    x = x + _look_up(layer.cross_attention, layer.norms[1](x), memory, memory_mask)
    return x + _feed_forward(layer, layer.norms[2](x))


# 5 --------------------------------------------------------------------------------------------------------------------


def _model(n_layers: int = 2, seed: int = 0) -> Model:
    return _drawn(Model(9, 6, 2, 8, n_layers), seed)


_SOURCE = torch.tensor([[5, 4, 8, 6, 2], [7, 5, 2, 0, 0]])
_TARGET = torch.tensor([[1, 6, 4, 4], [1, 8, 5, 7]])


@topic.exercise(
    {"model": _model(1), "source": torch.tensor([[5, 2]]), "target": torch.tensor([[1, 6]])},
    {"model": _model(), "source": _SOURCE, "target": _TARGET},
)
def next_word_scores(model: Model, source: Tensor, target: Tensor) -> Tensor:
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
) -> Tensor:
    real = (source != PAD)[:, None, None]
    x = words_and_places.reference(source, model.embedding.weight)
    for layer in model.encoder if encoder is None else encoder:
        x = encoder_layer.reference(layer, x, real if encoder_mask is None else encoder_mask)
    y = words_and_places.reference(target, model.embedding.weight)
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


@next_word_scores.mistake(
    "the future seen", "The decoder may look at the very word that it is to foretell. Which mask keeps it from that?"
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, mask=_OPEN)


@next_word_scores.mistake("the past hidden", "Your triangle is turned round: each word sees what comes, not what was.")
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, mask=_no_future(target.size(1)).mT)


@next_word_scores.mistake(
    "a word does not see itself", "Your triangle leaves out its own diagonal, so the first word may look at nothing."
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, mask=torch.ones(target.size(1), target.size(1)).tril(-1).bool())


@next_word_scores.mistake("padding seen", "Both stacks look at the source's padding as if it were words.")
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, encoder_mask=_OPEN, memory_mask=_OPEN)


@next_word_scores.mistake("padding seen by the decoder", "The encoder does not look at padding, but the decoder does.")
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, memory_mask=_OPEN)


@next_word_scores.mistake("padding seen by the encoder", "The decoder does not look at padding, but the encoder does.")
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, encoder_mask=_OPEN)


@next_word_scores.mistake(
    "an encoder that sees no future", "The encoder may look both ways: the whole source is there from the start."
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    mask = _no_future(source.size(1)) & (source != PAD)[:, None, None]
    return _next_word_scores(model, source, target, encoder_mask=mask)


@next_word_scores.mistake("no encoder", "The decoder looks at the source's words as they are: the encoder is not used.")
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, encoder=[])


@next_word_scores.mistake("one layer", "Only the first layer of each stack is used. There may be more.")
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target, encoder=model.encoder[:1], decoder=model.decoder[:1])


@next_word_scores.mistake("source and target swapped", "You translate the wrong way: the target goes into the encoder.")
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, target, source)


@next_word_scores.mistake("probabilities", "These are probabilities already. Scores are asked for: the loss goes on.")
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target).softmax(-1)


@next_word_scores.mistake("log-probabilities", "These are normalised already. Scores are asked for: the loss goes on.")
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target).log_softmax(-1)


@next_word_scores.mistake("scaled on the way out", "The factor belongs to the way in. On the way out there is none.")
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target) * math.sqrt(model.embedding.embedding_dim)


@next_word_scores.mistake("the last place only", "You score the end of the target. All places are asked at once.")
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return _next_word_scores(model, source, target)[:, -1]


@next_word_scores.mistake(
    "vectors, not scores", "These are the decoder's vectors. How well does each word fit to them?"
)
def _(model: Model, source: Tensor, target: Tensor) -> Tensor:
    scores = _next_word_scores(model, source, target)
    return torch.linalg.lstsq(model.embedding.weight.expand(len(scores), -1, -1), scores.mT).solution.mT


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
    "nothing shifted", "At each place you ask for the word that stands there, and the decoder has just read it."
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    losses, real = _losses(model, source, target, smoothing, slice(None), slice(None))
    return losses[real].mean()


@translation_loss.mistake("shifted the wrong way", "You ask for the word before. The next one is wanted.")
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    losses, real = _losses(model, source, target, smoothing, slice(1, None), slice(None, -1))
    return losses[real].mean()


@translation_loss.mistake(
    "the end never asked for", "Nobody asks your model for the last token, so it never learns to end."
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    losses, real = _losses(model, source, target, smoothing, slice(None, -2), slice(1, -1))
    return losses[real].mean()


@translation_loss.mistake(
    "padding counted", "Padding is expected of the model as if it were a word. It does not count."
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    return _losses(model, source, target, smoothing)[0].mean()


@translation_loss.mistake(
    "divided by all places", "Padding adds nothing to your sum, but is counted where you divide by the places."
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    losses, real = _losses(model, source, target, smoothing)
    return (losses * real).mean()


@translation_loss.mistake("a sum", "You add up. With a sum, long batches would make larger steps than short ones.")
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    losses, real = _losses(model, source, target, smoothing)
    return losses[real].sum()


@translation_loss.mistake(
    "a mean of means", "You take the mean of each sentence first, so a word of a short one counts for more."
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    losses, real = _losses(model, source, target, smoothing)
    return ((losses * real).sum(1) / real.sum(1)).mean()


@translation_loss.mistake("not smoothed", "It would be right without smoothing. Where does the argument come in?")
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    losses, real = _losses(model, source, target, 0.0)
    return losses[real].mean()


@translation_loss.mistake(
    "smoothed over the others only",
    "You leave the right word out where the share is spread. Here it gets its part too.",
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    size = model.embedding.num_embeddings
    losses, real = _losses(model, source, target, smoothing * size / (size - 1))
    return losses[real].mean()


@translation_loss.mistake(
    "a whole share for each word", "Every word of the vocabulary gets all of the share. They divide it among them."
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    size = model.embedding.num_embeddings
    right, real = _losses(model, source, target, 0.0)
    spread = _losses(model, source, target, 1.0)[0]
    return ((1 - smoothing) * right + smoothing * size * spread)[real].mean()


@translation_loss.mistake(
    "two softmaxes", "You take the softmax of what is a probability already. Scores go into the cross-entropy."
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    p = _next_word_scores(model, source, target[:, :-1]).softmax(-1)
    return F.cross_entropy(p.mT, target[:, 1:], ignore_index=PAD, label_smoothing=smoothing)


@translation_loss.mistake(
    "a softmax over places", "The words of the vocabulary share a probability of one, not the places."
)
def _(model: Model, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    log_p = _next_word_scores(model, source, target[:, :-1]).log_softmax(1)
    right = -log_p.gather(-1, target[:, 1:, None])[..., 0]
    return ((1 - smoothing) * right - smoothing * log_p.mean(-1))[target[:, 1:] != PAD].mean()


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
            "clip-values": lambda: nn.utils.clip_grad_value_(model.parameters(), 1.0),
            "step": optimizer.step,
        }
        for group in optimizer.param_groups:
            group["lr"] = rate(step, d_model, warmup_steps)
        for action in order.split():
            actions[action]()
        losses.append(loss.item())
    return losses


@train_model.mistake(
    "gradients never forgotten", "Each step goes by the gradients of all batches so far: they add up until set back."
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, order="backward clip step")


@train_model.mistake(
    "nothing learned",
    "The model stays as it is: its gradients are used by nobody, or set back before anybody has used them.",
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, order="backward clip forget step")


@train_model.mistake("not clipped", "Your steps go by gradients of any length. Shorten them to 1, and before the step.")
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, order="forget backward step")


@train_model.mistake(
    "clipped number by number", "Each number is cut on its own, which turns the gradient. Its length counts."
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, order="forget backward clip-values step")


@train_model.mistake("Adam as it comes", "The paper does not use PyTorch's settings of Adam (§5.3).")
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, optimizer_of=torch.optim.Adam)


@train_model.mistake(
    "PyTorch's own ε", "Both betas are the paper's, and ε is PyTorch's: 1e-8, where the paper has 1e-9."
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, optimizer_of=lambda p: torch.optim.Adam(p, betas=(0.9, 0.98)))


@train_model.mistake("AdamW", "Your weights shrink a little at every step: that is another optimiser, a later one.")
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, optimizer_of=lambda p: torch.optim.AdamW(p, betas=(0.9, 0.98), eps=1e-9))


@train_model.mistake("no Adam", "You step down the gradient itself. Adam divides by how large it usually is.")
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, optimizer_of=torch.optim.SGD)


@train_model.mistake(
    "a new Adam each time", "Adam forgets its averages at each step. One of it is enough for all steps."
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, renew=True)


@train_model.mistake("a constant rate", "Your rate stays Adam's own, 0.001. It has to be set before each step.")
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, rate=lambda *_: 0.001)


@train_model.mistake("steps counted one too high", "Your rate is one step ahead: the first step is number 1.")
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, rate=lambda step, *rest: _rate(step + 1, *rest))


@train_model.mistake(
    "the rate of the step before", "The first step has no rate, and each other one that of the step before it."
)
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, rate=lambda step, *rest: _rate(step - 1, *rest) if step > 1 else 0.0)


@train_model.mistake("no warm-up", "Your rate falls from the first step on. What is warmup_steps for?")
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, rate=lambda step, d, w: d**-0.5 * step**-0.5)


@train_model.mistake("it never falls", "Your rate only climbs. After the warm-up it falls again.")
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, rate=lambda step, d, w: d**-0.5 * step * w**-1.5)


@train_model.mistake("the larger of the two", "You take the larger of the two expressions. Which holds in the warm-up?")
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, rate=lambda step, d, w: d**-0.5 * max(step**-0.5, step * w**-1.5))


@train_model.mistake("d_model left out", "The rate has the right form. How high it is depends on the width too.")
def _(*inputs: Any) -> list[float]:
    return _train(*inputs, rate=lambda step, d, w: _rate(step, 1, w))


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


@topic.exercise(
    {"model": _talker(), "source": _SOURCE[1:, :3], "limit": 6},
    {"model": _talker(), "source": _SOURCE[:1], "limit": 3},
    {"model": _talker(), "source": torch.tensor([[6, 7, 4, 5]]), "limit": 5},
    {"model": _talker(), "source": _SOURCE, "limit": 6},
)
def greedy_translations(model: Model, source: Tensor, limit: int) -> list[list[int]]:
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
) -> list[list[int]]:
    target = source.new_full((len(source), 1), first)
    while target.size(1) <= limit and not until((target == EOS).any(1)):
        newest = choose(_next_word_scores(model, source, read(target)))
        target = torch.cat([target, newest[:, None]], 1)
    return [_cut(row, EOS) for row in target[:, 1:].tolist()]


def _cut(tokens: list[int], end: int) -> list[int]:
    return tokens[: tokens.index(end)] if end in tokens else tokens


@greedy_translations.mistake("begins with the end", "Your target begins with the token that ends one. What begins one?")
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    target = source.new_full((len(source), 1), EOS)
    for _ in range(limit):
        newest = _next_word_scores(model, source, target)[:, -1].argmax(-1)
        target = torch.cat([target, newest[:, None]], 1)
    return [_cut(row, EOS) for row in target[:, 1:].tolist()]


@greedy_translations.mistake(
    "begins with padding", "Your target begins with padding. In training it began with another."
)
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source, limit, first=PAD)


@greedy_translations.mistake(
    "goes on behind the end",
    "A sentence is over at its first end token. What your search appends to it later is no part.",
)
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return [[token for token in row if token != EOS] for row in _tokens(model, source, limit)]


@greedy_translations.mistake("the end left in", "The end token is no word: cut it off, with what comes behind it.")
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


@greedy_translations.mistake(
    "the beginning left in", "The token that every target begins with was not said by the model."
)
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return [[BOS, *row] for row in _greedy(model, source, limit)]


@greedy_translations.mistake("all end with the first", "You stop as soon as one sentence has ended. The others go on.")
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source, limit, until=lambda ended: bool(ended.any()))


@greedy_translations.mistake("the first place asked", "You read the scores of the first place, which stay the same.")
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source, limit, choose=lambda scores: scores[:, 0].argmax(-1))


@greedy_translations.mistake("the worst word", "You take the word that fits least.")
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source, limit, choose=lambda scores: scores[:, -1].argmin(-1))


@greedy_translations.mistake(
    "only the newest word read",
    "The decoder gets nothing but the newest word. It should read all that was said so far.",
)
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source, limit, read=lambda target: target[:, -1:])


@greedy_translations.mistake(
    "one word too many", "Your translations may be one longer than the limit: what begins them is none."
)
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source, limit + 1)


@greedy_translations.mistake("one word too few", "You count what begins a translation as one of its words.")
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source, limit - 1)


@greedy_translations.mistake(
    "one sentence for all", "All sentences get the first one's translation. A batch has several."
)
def _(model: Model, source: Tensor, limit: int) -> list[list[int]]:
    return _greedy(model, source, limit)[:1] * len(source)
