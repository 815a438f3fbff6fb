"""Checks of 19 train your own: a Transformer made of modules, its loader, training, evaluation and plots (§3, §5)."""

import copy
import math
import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple, SupportsFloat
from unittest import mock

import numpy as np
import torch
import torch._dynamo  # an optimiser's first step would import it, which takes seconds and belongs to no answer
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from sacrebleu import corpus_bleu, corpus_chrf
from torch import Tensor, nn

from exercises.check import Topic
from exercises.compare import type_with_article
from exercises.errors import RefusedError
from exercises.relations import Finding, Wrong
from exercises.tensors import numbers
from transformer.attention import MultiHeadAttention
from transformer.config import ModelConfig
from transformer.data import pocket
from transformer.data.batching import pad
from transformer.data.tokenizer import BOS, EOS, PAD, Tokenizer
from transformer.layers import EncoderLayer, FeedForward, Residual
from transformer.masks import padding_mask, target_mask
from transformer.models import load_model
from transformer.positions import sinusoidal_encoding

topic = Topic()
check, given = topic.check, topic.given

Pair = tuple[list[int], list[int]]
"""The token ids of a source, with eos at its end, and of its target, from bos to eos."""

Batch = tuple[Tensor, Tensor]
"""Sources and targets, each (batch, length), int64."""

# What the notebook uses -----------------------------------------------------------------------------------------------


class PocketData(NamedTuple):
    """Short sentences of the pocket corpus. No sentence is in two of the lists."""

    train: list[Pair]
    validation: list[Pair]
    test: list[Pair]
    tokenizer: Tokenizer


HELD_OUT = 150
"""Number of pairs in the validation data, and in the test data."""


@cache
def pocket_data() -> PocketData:
    """Generate the data of this notebook: sentences of up to six words, all of them frequent."""
    short = [pair for pair in pocket.pairs("train", 20_000) if len(pair.source_words) <= 6]
    counts = Counter(word for pair in short for word in pair.source_words)
    texts = list({p.source: p.target for p in short if min(counts[word] for word in p.source_words) >= 20}.items())
    random.Random(0).shuffle(texts)
    tokenizer = Tokenizer.train([line for pair in texts for line in pair], vocab_size=600)
    pairs = [([*tokenizer.encode(source), EOS], [BOS, *tokenizer.encode(target), EOS]) for source, target in texts]
    validation, test, train = pairs[:HELD_OUT], pairs[HELD_OUT : 2 * HELD_OUT], pairs[2 * HELD_OUT :]
    return PocketData(train, validation, test, tokenizer)


def shipped_weights(name: str) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Load a pretrained model, and give its weights the names that they have in this notebook's `Transformer`."""
    model = load_model(name, device="cpu", precision="fp32").model
    weights = {}
    for key, weight in model.state_dict().items():
        if key.startswith("decoder."):
            key = key.replace(".residuals.", ".norms.").replace(".norm.", ".")
        if not key.startswith("target_embedding."):  # it is tied to the source's
            weights[key.replace("source_embedding.", "embedding.")] = weight
    return model.config, weights


def translate(model: nn.Module, source: Tensor, limit: int = 40) -> list[list[int]]:
    """Translate sentences by greedy search, as in the capstone.

    Args:
        source: token ids, (batch, length), int64.
        limit: the largest number of tokens in a translation.

    Returns:
        The token ids of each translation, without bos and eos.
    """
    target = source.new_full((len(source), 1), BOS)
    with torch.inference_mode():
        for _ in range(limit):
            best = model(source, target)[:, -1].argmax(dim=-1)
            target = torch.cat([target, best[:, None]], dim=1)
            if bool((target == EOS).any(dim=1).all()):
                break
    return [row[: row.index(EOS)] if EOS in row else row for row in target[:, 1:].tolist()]


# What the checks look at ----------------------------------------------------------------------------------------------


def _named(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters by name, in alphabetical order; one that has two names is listed once, with the first."""
    names = sorted(model.named_parameters(remove_duplicate=False), reverse=True)
    first = {id(parameter): name for name, parameter in names}
    return {name: parameter for name, parameter in reversed(names) if first[id(parameter)] == name}


def _shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in _named(model).items()}


def _fill(model: nn.Module) -> None:
    """Give each parameter numbers that depend on its name only."""
    for name, parameter in _named(model).items():
        drawn = numbers(*parameter.shape, seed=zlib.crc32(name.encode()))
        parameter.data = 1 + drawn / 4 if "norm" in name else drawn / math.sqrt(parameter.shape[-1])


@contextmanager
def _visible_dropout() -> Iterator[None]:
    """Let dropout multiply by fixed numbers, so that it can be seen in the result where it was applied."""

    def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        return input * (1 + p * torch.arange(input.size(-1)).cos()) if training else input

    def torch_dropout(input: Tensor, p: float, train: bool) -> Tensor:
        return dropout(input, p, train)

    with mock.patch.object(F, "dropout", dropout), mock.patch.object(torch, "dropout", torch_dropout):
        yield


TOO_MANY = {
    "unembedding.weight": "embeddings not tied\nYour output layer has a matrix of its own. It should be the very "
    "parameter of the embedding, not a copy with the same numbers, which would drift apart in training (§3.4).",
    "unembedding.bias": "the output layer has a bias\nYour output layer has a bias. The paper's is the transposed "
    "embedding matrix and nothing else.",
    "positions": "the positional encoding is a parameter\nYour positional encoding is a parameter, so training would "
    "change it. The paper's is fixed: it should move to the GPU with the model, but not be trained.",
}
"""Name of a parameter that a model shouldn't have → what to say about it."""


def _find_wrong_parts(model: nn.Module, expected: nn.Module) -> str | None:
    """Return title and hint of what is wrong with the parts that ``__init__`` creates, whatever ``forward`` does."""
    if type(model).forward is nn.Module.forward:
        return (
            "`forward` is missing\nEither there is none, or it is indented too far, so that it became a function "
            "inside `__init__`."
        )
    parts = {name: part for name, part in expected.named_children() if any(True for _ in part.parameters())}
    for name, part in parts.items():
        if message := _find_wrong_part(name, getattr(model, name, None), part, model):
            return message
    for a, b in combinations(parts, 2):
        if getattr(model, a) is getattr(model, b) and b == "unembedding":
            return (
                "the embedding is also the output layer\nAn embedding looks up rows, and the output layer multiplies "
                "by all of them. Make a linear layer, and let only its weight be that of the embedding."
            )
        if getattr(model, a) is getattr(model, b):
            return (
                f"`{a}` and `{b}` are one and the same module\nSo they share one set of weights. Make a module for "
                "each of the two names."
            )
    return _find_wrong_parameters(_shapes(model), _shapes(expected))


def _find_wrong_part(name: str, yours: Any, expected: nn.Module, model: nn.Module) -> str | None:
    if isinstance(yours, list | tuple):
        return (
            f"`{name}` is a plain list\nPyTorch doesn't look for modules inside a Python list, so those in `{name}` "
            "have no registered parameters: the optimiser won't train them, they aren't saved, and they don't move to "
            "a GPU. There is a list that PyTorch does look into."
        )
    if yours is None:
        others = ", ".join(f"`{part}`" for part, _ in model.named_children())
        return f"there is no `{name}`\nYour module has these parts: {others}. Use the names of the table."
    if not isinstance(yours, nn.Module):
        return (
            f"`{name}` is {type_with_article(yours)}\nIt should be a module, or several in a list of PyTorch's: only "
            "then does PyTorch find its parameters."
        )
    if isinstance(expected, nn.ModuleList) and not isinstance(yours, nn.ModuleList | nn.Sequential | nn.ModuleDict):
        return (
            f"`{name}` is a single module\nThe table asks for several, even where a configuration has one layer only. "
            "Put them into a list that PyTorch looks into."
        )
    if isinstance(expected, nn.ModuleList) and isinstance(yours, nn.ModuleList | nn.Sequential):
        if len(yours) != len(expected):
            return f"`{name}` has {_count(len(yours))}, but should have {len(expected)}\nThe table says how many."
        if len({*map(id, yours)}) < len(expected):
            return (
                f"the same module several times\nThe entries of `{name}` are one and the same module, so there is only "
                "one set of weights. Multiplying a list repeats references: make a new module for each entry."
            )
    if isinstance(expected, nn.ModuleList) and {*map(_has_memory, expected)} != {*map(_has_memory, yours.children())}:
        return f"`{name}` has layers of the other kind\nThe encoder has encoder layers, the decoder has decoder layers."
    if isinstance(yours, FeedForward) and _shapes(yours)["inner.weight"] == _shapes(expected)["inner.weight"][::-1]:
        return (
            "the two sizes of FeedForward are swapped\nIt takes the width of the model first: see the table of parts."
        )
    if not any(True for _ in yours.parameters()):
        return (
            f"`{name}` has no weights\nIt should be a layer norm, which learns a gain and a bias: leave its setting "
            "`elementwise_affine` at the default."
        )
    return None


def _has_memory(layer: nn.Module) -> bool:
    return hasattr(layer, "cross_attention")


def _count(entries: int) -> str:
    return "1 entry" if entries == 1 else f"{entries} entries"


def _find_wrong_parameters(yours: dict[str, tuple[int, ...]], expected: dict[str, tuple[int, ...]]) -> str | None:
    """Compare the names and shapes of all parameters."""
    too_many = [name for name in yours if name not in expected]
    if known := [TOO_MANY[name] for name in too_many if name in TOO_MANY]:
        return known[0]
    found = [f"`{name}` is missing" for name in expected if name not in yours]
    found += [f"`{name}` shouldn't be there" for name in too_many]
    found += [
        f"`{name}` has the shape {shape}, but should have {expected[name]}"
        for name, shape in yours.items()
        if name in expected and shape != expected[name]
    ]
    if not found:
        return None
    more = f"; and {len(found) - 4} more" if len(found) > 4 else ""
    return f"the parameters aren't those of the table\nCompare the names and the sizes: {'; '.join(found[:4])}{more}."


def _find_idle_part(model: nn.Module) -> str | None:
    """Name a part that gets no gradient while others do."""
    own = {name: [*part.parameters(recurse=False)] for name, part in model.named_modules()}
    is_idle = {
        name: not any(p.grad is not None and p.grad.any() for p in parameters)
        for name, parameters in own.items()
        if parameters
    }
    if not any(is_idle.values()) or all(is_idle.values()):
        return None
    name = next(name for name, idle in is_idle.items() if idle)
    return (
        f"`{name}` gets no gradient\nEither `forward` doesn't use it, or something cuts off its gradient. Use every "
        "part that `__init__` creates, and don't make new ones in `forward`."
    )


def _observe_module(
    answer: Callable[[ModelConfig], nn.Module],
    reference: Callable[[ModelConfig], nn.Module],
    config: ModelConfig,
    inputs: Sequence[Tensor],
    prepare: Callable[[nn.Module], object] = _fill,
) -> tuple[Any, ...]:
    """Both outputs, and which parameters get a gradient.

    Raises:
        RefusedError: if the module's parts aren't the reference's, or one of them isn't used.
    """
    if isinstance(answer, nn.Module):
        raise RefusedError(
            "it is a module, but should be a class\nYour cell makes a module of the class. Leave that out."
        )
    torch.manual_seed(0)
    model = answer(config)
    if not isinstance(model, nn.Module):
        raise RefusedError(f"it isn't a module\nYour code makes {type_with_article(model)}. Inherit from `nn.Module`.")
    if message := _find_wrong_parts(model, reference(config)):
        raise RefusedError(message)
    prepare(model)
    with _visible_dropout():
        evaluated = model.eval()(*inputs)
        trained = model.train()(*inputs)
    reached: list[str] = []
    if isinstance(trained, Tensor) and trained.requires_grad:
        trained.square().sum().backward()
        if message := _find_idle_part(model):
            raise RefusedError(message)
        reached = [name for name, p in _named(model).items() if p.grad is not None and p.grad.any()]
    evaluated, trained = (x.detach() if isinstance(x, Tensor) else x for x in (evaluated, trained))
    return evaluated, trained, reached


_OF_MODULE = (
    "the output in evaluation mode",
    "the output in training mode (here, dropout multiplies by fixed numbers)",
    "the list of parameters that get a gradient",
)

# 1 --------------------------------------------------------------------------------------------------------------------


class DecoderLayer(nn.Module):
    """The solution: pre-norm, with dropout on the output of each sublayer."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.n_heads)
        self.cross_attention = MultiHeadAttention(config.d_model, config.n_heads)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.norms = nn.ModuleList(nn.LayerNorm(config.d_model) for _ in range(3))
        self.dropout = nn.Dropout(config.dropout)

    def residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a sublayer within its residual connection."""
        return x + self.dropout(sublayer(norm(x)))

    def forward(self, x: Tensor, memory: Tensor, own: Tensor, memory_mask: Tensor) -> Tensor:
        """Apply the three sublayers; ``own`` is the mask of self-attention."""
        x = self.residual(x, self.norms[0], lambda y: self.self_attention(y, mask=own))
        x = self.residual(x, self.norms[1], lambda y: self.cross_attention(y, memory, mask=memory_mask))
        return self.residual(x, self.norms[2], self.feed_forward)


def _observe_layer(answer: Any, config: ModelConfig, *inputs: Tensor) -> tuple[Any, ...]:
    return _observe_module(answer, DecoderLayer, config, inputs)


class _Config(ModelConfig):
    """Shows only the settings that the notebook names."""

    def __repr__(self) -> str:
        names = ("vocab_size", "d_model", "n_heads", "d_ff", "n_layers", "dropout", "max_length")
        return f"ModelConfig({', '.join(f'{name}={getattr(self, name)}' for name in names)})"


_SMALL = _Config(vocab_size=11, d_model=4, n_heads=2, d_ff=6, n_layers=1, dropout=0.5, norm="pre", max_length=8)
_WIDER = _Config(vocab_size=13, d_model=8, n_heads=2, d_ff=12, n_layers=2, dropout=0.2, norm="pre", max_length=10)
_CAUSAL = torch.ones(3, 3, dtype=torch.bool).tril()[None, None]
_REAL = torch.tensor([[1, 1, 1], [1, 1, 0]]).bool()[:, None, None]

decoder_layer = topic.exercise(
    {
        "config": _SMALL,
        "x": numbers(2, 3, 4),
        "memory": numbers(2, 3, 4, seed=1),
        "target_mask": _CAUSAL,
        "memory_mask": _REAL,
    },
    {
        "config": _WIDER,
        "x": numbers(2, 3, 8, seed=2),
        "memory": numbers(2, 3, 8, seed=3),
        "target_mask": _CAUSAL,
        "memory_mask": _REAL,
    },
    results=_OF_MODULE,
    observe=_observe_layer,
)(DecoderLayer)


@decoder_layer.mistake(
    "post-norm",
    "You normalise the sum, as in the paper. Here the norm comes before the sublayer (pre-norm), and the residual "
    "connection goes around both.",
)
class _PostNorm(DecoderLayer):
    def residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return norm(x + self.dropout(sublayer(x)))


@decoder_layer.mistake(
    "keys and values not normalised",
    "In your self-attention only the queries come from the normalised x. Keys and values should, too: the sublayer "
    "reads nothing but norm(x).",
)
class _KeysNotNormalised(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, own: Tensor, memory_mask: Tensor) -> Tensor:
        y = x
        x = self.residual(x, self.norms[0], lambda z: self.self_attention(z, y, mask=own))
        x = self.residual(x, self.norms[1], lambda z: self.cross_attention(z, memory, mask=memory_mask))
        return self.residual(x, self.norms[2], self.feed_forward)


@decoder_layer.mistake(
    "no dropout", "In evaluation mode your layer is right, but in training nothing is dropped. Use config.dropout."
)
class _NoDropout(DecoderLayer):
    def residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return x + sublayer(norm(x))


@decoder_layer.mistake(
    "dropout on the sum",
    "You drop entries of the sum, so the residual connection loses them for all later layers. §5.4 drops entries of "
    "the sublayer's output, before it is added.",
)
class _DropoutOnSum(DecoderLayer):
    def residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return self.dropout(x + sublayer(norm(x)))


@decoder_layer.mistake(
    "dropout on the sublayer's input",
    "You drop entries of what the sublayer reads. Let it read everything, and drop entries of its output.",
)
class _DropoutOnInput(DecoderLayer):
    def residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return x + sublayer(self.dropout(norm(x)))


@decoder_layer.mistake(
    "dropout in evaluation mode as well",
    "Your layer drops entries even after model.eval(), so every translation would be partly random. `F.dropout` "
    "drops in evaluation mode, too, unless you pass `training=self.training`; a module for dropout switches off by "
    "itself.",
)
class _DropoutAlways(DecoderLayer):
    def residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return x + F.dropout(sublayer(norm(x)), self.dropout.p)


@decoder_layer.mistake(
    "always half of the entries dropped",
    "You call `F.dropout` with the tensor alone. It then drops half of the entries, in evaluation mode as well. Use "
    "the module with the probability of the configuration, which switches off by itself.",
)
class _DropoutAlwaysHalf(DecoderLayer):
    def residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return x + F.dropout(sublayer(norm(x)))


@decoder_layer.mistake(
    "dropout after the feed-forward network only",
    "You apply dropout to the output of the feed-forward network only. It belongs on the output of every sublayer "
    "(§5.4).",
)
class _DropoutOnce(DecoderLayer):
    def residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        y = sublayer(norm(x))
        return x + (self.dropout(y) if sublayer is self.feed_forward else y)


@decoder_layer.mistake(
    "no residual connection", "Each sublayer replaces its input. Its output should be added to the input."
)
class _NoResidual(DecoderLayer):
    def residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return self.dropout(sublayer(norm(x)))


@decoder_layer.mistake(
    "the normalised input is added",
    "You add the sublayer's output to the normalised x. The residual connection should carry x itself, unchanged, "
    "from the first layer to the last.",
)
class _NormalisedResidual(DecoderLayer):
    def residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        y = norm(x)
        return y + self.dropout(sublayer(y))


for _title, _number in (("self-attention", 0), ("cross-attention", 1), ("the feed-forward network", 2)):

    @decoder_layer.mistake(
        f"the normalised x added to {_title}",
        f"Around {_title}, x is replaced by the normalised x, which is then read and added. Only the sublayer reads "
        "the normalised x; its output is added to x itself.",
    )
    class _NormalisedOnce(DecoderLayer):
        number = _number

        def residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
            y = norm(x)
            return (y if norm is self.norms[self.number] else x) + self.dropout(sublayer(y))


@decoder_layer.mistake(
    "memory not used",
    "Your cross-attention attends to the target again, so no word of the source ever reaches the decoder. Keys and "
    "values come from the memory.",
)
class _NoMemory(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, own: Tensor, memory_mask: Tensor) -> Tensor:
        x = self.residual(x, self.norms[0], lambda y: self.self_attention(y, mask=own))
        x = self.residual(x, self.norms[1], lambda y: self.cross_attention(y, y, mask=memory_mask))
        return self.residual(x, self.norms[2], self.feed_forward)


@decoder_layer.mistake(
    "no causal mask",
    "Your self-attention sees the tokens that it should predict. In training the loss would fall beautifully, and the "
    "translations would be nonsense.",
)
class _NoCausalMask(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, own: Tensor, memory_mask: Tensor) -> Tensor:
        return super().forward(x, memory, torch.ones_like(own), memory_mask)


@decoder_layer.mistake(
    "the source's padding attended to", "Your cross-attention attends to padding. It needs the memory's mask."
)
class _NoMemoryMask(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, own: Tensor, memory_mask: Tensor) -> Tensor:
        return super().forward(x, memory, own, torch.ones_like(memory_mask))


@decoder_layer.mistake(
    "masks swapped",
    "Each attention uses the other's mask. Cross-attention reads the source, so it needs the source's mask.",
)
class _SwappedMasks(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, own: Tensor, memory_mask: Tensor) -> Tensor:
        return super().forward(x, memory, memory_mask, own)


@decoder_layer.mistake(
    "cross-attention first", "You attend to the memory before the target. Self-attention is the first sublayer (§3.1)."
)
class _CrossFirst(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, own: Tensor, memory_mask: Tensor) -> Tensor:
        x = self.residual(x, self.norms[0], lambda y: self.cross_attention(y, memory, mask=memory_mask))
        x = self.residual(x, self.norms[1], lambda y: self.self_attention(y, mask=own))
        return self.residual(x, self.norms[2], self.feed_forward)


@decoder_layer.mistake(
    "no dropout on feed-forward",
    "You apply dropout to the outputs of both attention layers, but not to that of the feed-forward network. In §5.4, "
    "the output of every sublayer gets it.",
)
class _NoFeedForwardDropout(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, own: Tensor, memory_mask: Tensor) -> Tensor:
        x = self.residual(x, self.norms[0], lambda y: self.self_attention(y, mask=own))
        x = self.residual(x, self.norms[1], lambda y: self.cross_attention(y, memory, mask=memory_mask))
        return x + self.feed_forward(self.norms[2](x))


@decoder_layer.mistake(
    "always the same probability of dropout",
    "You write a number where the probability of the configuration belongs.",
)
class _FixedDropout(DecoderLayer):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout(0.1)


@decoder_layer.mistake(
    "the memory normalised",
    "You normalise the memory as well. The encoder ends with a norm of its own: only x is normalised here.",
)
class _NormalisedMemory(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, own: Tensor, memory_mask: Tensor) -> Tensor:
        return super().forward(x, self.norms[1](memory), own, memory_mask)


@decoder_layer.mistake(
    "computed without gradients",
    "Your layer's output is right, but no gradient reaches any of its parameters, so training would never change "
    "them. Something in `forward` cuts it off: look for `no_grad`, `detach` and `.data`.",
)
class _NoGradients(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, own: Tensor, memory_mask: Tensor) -> Tensor:
        return super().forward(x, memory, own, memory_mask).detach()


@decoder_layer.mistake(
    "the output normalised instead of the input",
    "You normalise what the sublayer returns. Pre-norm means that it reads the normalised x, and that its output is "
    "added as it is.",
)
class _OutputNormalised(DecoderLayer):
    def residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return x + self.dropout(norm(sublayer(x)))


@decoder_layer.mistake(
    "the norms in another order",
    "Self-attention has the second of your norms, and cross-attention the first. They have weights of their own, so "
    "their order matters as soon as weights are loaded.",
)
class _NormsSwapped(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, own: Tensor, memory_mask: Tensor) -> Tensor:
        x = self.residual(x, self.norms[1], lambda y: self.self_attention(y, mask=own))
        x = self.residual(x, self.norms[0], lambda y: self.cross_attention(y, memory, mask=memory_mask))
        return self.residual(x, self.norms[2], self.feed_forward)


@decoder_layer.mistake(
    "no dropout on self-attention",
    "You drop entries of the other outputs, but not of that of self-attention. §5.4 drops the output of each sublayer.",
)
class _NoSelfDropout(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, own: Tensor, memory_mask: Tensor) -> Tensor:
        x = x + self.self_attention(self.norms[0](x), mask=own)
        x = self.residual(x, self.norms[1], lambda y: self.cross_attention(y, memory, mask=memory_mask))
        return self.residual(x, self.norms[2], self.feed_forward)


@decoder_layer.mistake(
    "no dropout on cross-attention",
    "You drop entries of the other outputs, but not of that of cross-attention. §5.4 drops the output of each "
    "sublayer.",
)
class _NoCrossDropout(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, own: Tensor, memory_mask: Tensor) -> Tensor:
        x = self.residual(x, self.norms[0], lambda y: self.self_attention(y, mask=own))
        x = x + self.cross_attention(self.norms[1](x), memory, mask=memory_mask)
        return self.residual(x, self.norms[2], self.feed_forward)


@decoder_layer.mistake(
    "no residual connection around self-attention",
    "The output of your self-attention replaces x. It should be added to x, like that of the other sublayers.",
)
class _NoSelfResidual(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, own: Tensor, memory_mask: Tensor) -> Tensor:
        x = self.dropout(self.self_attention(self.norms[0](x), mask=own))
        x = self.residual(x, self.norms[1], lambda y: self.cross_attention(y, memory, mask=memory_mask))
        return self.residual(x, self.norms[2], self.feed_forward)


@decoder_layer.mistake(
    "no residual connection around cross-attention",
    "The output of your cross-attention replaces x. It should be added to x, like that of the other sublayers.",
)
class _NoCrossResidual(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, own: Tensor, memory_mask: Tensor) -> Tensor:
        x = self.residual(x, self.norms[0], lambda y: self.self_attention(y, mask=own))
        x = self.dropout(self.cross_attention(self.norms[1](x), memory, mask=memory_mask))
        return self.residual(x, self.norms[2], self.feed_forward)


@decoder_layer.mistake(
    "no residual connection around feed-forward",
    "The output of your feed-forward network replaces x. It should be added to x, like that of the other sublayers.",
)
class _NoFeedForwardResidual(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, own: Tensor, memory_mask: Tensor) -> Tensor:
        x = self.residual(x, self.norms[0], lambda y: self.self_attention(y, mask=own))
        x = self.residual(x, self.norms[1], lambda y: self.cross_attention(y, memory, mask=memory_mask))
        return self.dropout(self.feed_forward(self.norms[2](x)))


@decoder_layer.mistake(
    "the causal mask inverted",
    "You pass the opposite of the target's mask to self-attention, so each position sees only what it shouldn't see. "
    "In the masks of this course, True means that a position may be attended to.",
)
class _InvertedMask(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, own: Tensor, memory_mask: Tensor) -> Tensor:
        return super().forward(x, memory, ~own, memory_mask)


@decoder_layer.mistake(
    "queries from the memory",
    "In your cross-attention, the queries come from the memory, and keys and values from x. Each position of the "
    "target attends to the memory: the queries come from x.",
)
class _QueriesFromMemory(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, own: Tensor, memory_mask: Tensor) -> Tensor:
        x = self.residual(x, self.norms[0], lambda y: self.self_attention(y, mask=own))
        x = self.residual(x, self.norms[1], lambda y: self.cross_attention(memory, y, mask=memory_mask))
        return self.residual(x, self.norms[2], self.feed_forward)


@decoder_layer.mistake(
    "the share that is kept as the probability of dropout",
    "You drop as much as should be kept. `nn.Dropout` takes the probability that an entry is dropped.",
)
class _KeptShare(DecoderLayer):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout(1 - config.dropout)


@decoder_layer.mistake(
    "PyTorch's default probability of dropout",
    "You create dropout without a probability, so PyTorch takes 0.5. Pass the one of the configuration.",
)
class _DefaultDropout(DecoderLayer):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout()


# 2 --------------------------------------------------------------------------------------------------------------------


class Transformer(nn.Module):
    """The solution."""

    positions: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d = config.d_model
        self.embedding = nn.Embedding(config.vocab_size, d)
        nn.init.normal_(self.embedding.weight, std=d**-0.5)
        self.register_buffer("positions", sinusoidal_encoding(config.max_length, d), persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_layers))
        self.decoder = nn.ModuleList(given.DecoderLayer(config) for _ in range(config.n_layers))
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.unembedding = nn.Linear(d, config.vocab_size, bias=False)
        self.unembedding.weight = self.embedding.weight

    def embed(self, ids: Tensor) -> Tensor:
        """Embed tokens, source or target."""
        x = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(x + self.positions[: ids.size(1)])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the logits of each next token."""
        memory, memory_mask = self.embed(source), padding_mask(source, PAD)
        for layer in self.encoder:
            memory = layer(memory, memory_mask)
        memory, x = self.encoder_norm(memory), self.embed(target)
        for layer in self.decoder:
            x = layer(x, memory, target_mask(target, PAD), memory_mask)
        return self.unembedding(self.decoder_norm(x))


_SHIPPED = "pocket-small"


@cache
def _shipped() -> tuple[ModelConfig, dict[str, Tensor]]:
    return shipped_weights(_SHIPPED)


def _observe_transformer(answer: Any, config: ModelConfig, *inputs: Tensor) -> tuple[Any, ...]:
    """What is observed of every module; then the buffers, what is saved, and the size of the first embeddings."""
    is_shipped = config.d_model == 128  # the model that this configuration belongs to
    fill = (lambda model: model.load_state_dict(_shipped()[1], strict=False)) if is_shipped else _fill
    of_module = _observe_module(answer, Transformer, config, inputs, fill)
    torch.manual_seed(0)
    model = answer(config)
    buffers: dict[str, Any] = {}
    scale, saved = 1.0, []  # that of few numbers is uncertain, and isn't looked at
    if isinstance(model, nn.Module):
        buffers = {name: tuple(buffer.shape) for name, buffer in model.named_buffers()}
        saved = [name for name in model.state_dict() if name in buffers]
        if isinstance(table := getattr(model, "embedding", None), nn.Embedding) and table.weight.numel() > 10_000:
            scale = float(f"{float(table.weight.detach().std()) * math.sqrt(config.d_model):.2g}")
    return (*of_module, buffers, saved, scale)


_SOURCE = torch.tensor([[5, 6, 7, EOS], [8, 9, EOS, PAD]])
_TARGET = torch.tensor([[BOS, 7, 6, 5], [BOS, 9, 8, PAD]])

transformer = topic.exercise(
    {"config": _SMALL, "source": _SOURCE, "target": _TARGET},
    {"config": _WIDER, "source": _SOURCE, "target": _TARGET},
    {
        "config": _Config(4000, 128, 4, 256, 2, dropout=0.0, norm="pre", max_length=128),
        "source": torch.tensor([[95, 432, 60, 11, EOS]]),
        "target": torch.tensor([[BOS, 97, 51]]),
    },
    results=(
        *_OF_MODULE,
        "the list of buffers",
        "the list of buffers that are saved",
        "the first embeddings' standard deviation, times √d_model and rounded,",
    ),
    observe=_observe_transformer,
)(Transformer)


@transformer.mistake(
    "the positional encoding is a plain tensor",
    "Your positional encoding is an ordinary attribute, which stays on the CPU when the model moves to a GPU. "
    "Register it, so that PyTorch knows about it.",
)
class _PlainPositions(Transformer):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        del self.positions
        self.positions = sinusoidal_encoding(config.max_length, config.d_model)


@transformer.mistake(
    "the positional encoding is saved",
    "Your buffer is part of the state dict, so the shipped weights, which don't contain it, can't be loaded strictly. "
    "It can be computed at any time: an argument keeps it out of the saved weights.",
)
class _SavedPositions(Transformer):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        del self.positions
        self.register_buffer("positions", sinusoidal_encoding(config.max_length, config.d_model))


@transformer.mistake(
    "embeddings as PyTorch initialises them",
    "Your first embeddings have the standard deviation 1, and then they are multiplied by √d_model: they drown the "
    "positions, and the first logits are huge. Give them 1 / √d_model.",
)
class _LargeEmbeddings(Transformer):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        nn.init.normal_(self.embedding.weight)


@transformer.mistake(
    "the output layer's initialisation kept",
    "You tie the matrices, but the numbers are those of a linear layer, so your first embeddings are too small. Set "
    "the standard deviation of the shared matrix.",
)
class _LinearInitialisation(Transformer):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        nn.init.kaiming_uniform_(self.embedding.weight, a=math.sqrt(5))


@transformer.mistake(
    "embeddings without dropout",
    "In training, your embeddings get no dropout. §5.4 applies it to the sums of embeddings and positions, too, "
    "with the probability of the configuration.",
)
class _NoEmbeddingDropout(Transformer):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout(0.0)


@transformer.mistake(
    "the standard deviation 1 / d_model",
    "Your standard deviation is 1 / d_model. Divide by the root of d_model.",
)
class _TooSmall(Transformer):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        nn.init.normal_(self.embedding.weight, std=1 / config.d_model)


@transformer.mistake(
    "the standard deviation √d_model",
    "Your standard deviation is the root of d_model itself. The embeddings are multiplied by it later: give them the "
    "reciprocal.",
)
class _RootAsDeviation(Transformer):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        nn.init.normal_(self.embedding.weight, std=math.sqrt(config.d_model))


@transformer.mistake(
    "the standard deviation d_model",
    "Your standard deviation is d_model. Give the embeddings 1 / √d_model.",
)
class _WidthAsDeviation(Transformer):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        nn.init.normal_(self.embedding.weight, std=config.d_model)


@transformer.mistake(
    "the standard deviation 0.02",
    "0.02 is GPT-2's standard deviation. Here it depends on d_model: 1 / √d_model.",
)
class _FixedDeviation(Transformer):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        nn.init.normal_(self.embedding.weight, std=0.02)


@transformer.mistake(
    "Xavier's initialisation",
    "You use Xavier's initialisation, which depends on the size of the vocabulary, too, and is too small for an "
    "embedding. Give it the standard deviation 1 / √d_model.",
)
class _Xavier(Transformer):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        nn.init.xavier_uniform_(self.embedding.weight)


@transformer.mistake(
    "embeddings dropped in evaluation mode as well",
    "Your model drops entries of the embeddings even after model.eval(). `F.dropout` drops in evaluation mode, too, "
    "unless you pass `training=self.training`; a module for dropout switches off by itself.",
)
class _EmbeddingsAlwaysDropped(Transformer):
    def embed(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return F.dropout(x + self.positions[: ids.size(1)], self.dropout.p)


@transformer.mistake(
    "embeddings with another dropout",
    "Your dropout has a fixed probability. Use that of the configuration.",
)
class _FixedEmbeddingDropout(Transformer):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout(0.1)


@transformer.mistake(
    "embeddings with PyTorch's default dropout",
    "You create dropout without a probability, so PyTorch takes 0.5. Use that of the configuration.",
)
class _DefaultEmbeddingDropout(Transformer):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout()


@transformer.mistake(
    "as many positions as tokens in the vocabulary",
    "Your positional encoding has as many rows as the vocabulary. It needs one for each position: `max_length` of "
    "them.",
)
class _PositionsForTokens(Transformer):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        del self.positions
        self.register_buffer("positions", sinusoidal_encoding(config.vocab_size, config.d_model), persistent=False)


# 3 --------------------------------------------------------------------------------------------------------------------


def _pairs(*lengths: tuple[int, int]) -> list[Pair]:
    """Pairs with these numbers of tokens, all different."""
    return [([4 + i] * (s - 1) + [EOS], [BOS] + [4 + i] * (t - 2) + [EOS]) for i, (s, t) in enumerate(lengths)]


def _order_of(batches: Any) -> Any:
    """The first source of each batch, in order."""
    return [_as_lists(source[:1]) for source, _ in batches]


def _find_wrong_batch(batches: Sequence[Any]) -> str | None:
    """Return title and hint of what is wrong with the form of a batch."""
    if len(batches) == 2 and all(isinstance(side, list) and len(side) != 2 for side in batches):
        return (
            "two lists instead of one\nYou return the sources of all batches, and the targets of all batches. Return a "
            "single list, with a pair of sources and targets for each batch."
        )
    for batch in batches:
        if isinstance(batch, list | tuple) and not batch:
            return (
                "an empty batch\nOne of your batches contains no pairs. Where does your code begin a new batch, and "
                "can the open one be empty then? Think of a pair that is too long even by itself."
            )
        if not isinstance(batch, list | tuple) or len(batch) != 2:
            what = f"{len(batch)} entries" if isinstance(batch, list | tuple) else type_with_article(batch)
            return f"a batch isn't a pair\nEach batch should be a pair of sources and targets. One of yours is {what}."
        for side in batch:
            if not isinstance(side, Tensor):
                return (
                    f"a batch isn't made of tensors\nSources and targets should be tensors, and yours are "
                    f"{type(side).__name__}s. Pad the sentences, so that all of them are equally long."
                )
    return None


def _observe_batches(answer: Any, pairs: list[Pair], max_tokens: int) -> tuple[Any, ...] | None:
    """The batches sorted, so that their random order doesn't matter; then what the order depends on, and the dtypes."""
    random.seed(0)
    torch.manual_seed(0)
    batches = answer(pairs, max_tokens, 0)
    if batches is None:
        return None
    if not isinstance(batches, list | tuple):
        return batches, None, None, None
    if message := _find_wrong_batch(batches):
        raise RefusedError(message)
    contents = sorted([list(map(_as_lists, batch)) for batch in batches], key=str)
    random.seed(1)
    torch.manual_seed(1)
    is_repeatable = _order_of(answer(pairs, max_tokens, 0)) == _order_of(batches)
    if len({str(_order_of(answer(pairs, max_tokens, seed))) for seed in range(6)}) > 1:
        order = "another one for another seed"
    elif not all(isinstance(side, Tensor) for batch in batches for side in batch):
        order = "the same for every seed"
    else:
        widths = [max(side.size(1) for side in batch) for batch in batches]
        order = "always from short to long" if widths == sorted(widths) else "the same for every seed"
    dtypes = {str(side.dtype).removeprefix("torch.") for batch in batches for side in batch if isinstance(side, Tensor)}
    return contents, is_repeatable, order, sorted(dtypes)


def _as_lists(x: Any) -> Any:
    return x.tolist() if isinstance(x, Tensor) else type_with_article(x)


@topic.exercise(
    {"pairs": _pairs((2, 3), (4, 4), (2, 3), (2, 3), (6, 5), (7, 4), (8, 8)), "max_tokens": 8},
    {"pairs": _pairs((5, 4), (3, 6), (2, 3), (4, 4), (3, 3), (6, 5), (2, 4), (5, 3), (3, 4)), "max_tokens": 12},
    {"pairs": _pairs(*((2 + i % 5, 3 + i % 3) for i in range(14))), "max_tokens": 18},
    {"pairs": _pairs((9, 8), (8, 8), (9, 10), (11, 9)), "max_tokens": 6},
    {
        "pairs": [
            ([9, EOS], [BOS, 9, EOS]),
            ([8, EOS], [BOS, 8, EOS]),
            ([7, EOS], [BOS, 7, EOS]),
            ([6, EOS], [BOS, 6, EOS]),
        ],
        "max_tokens": 6,
    },
    results=(
        "the list of batches (sorted here)",
        "that the same seed gives the same order",
        "the order",
        "the list of dtypes",
    ),
    differentiable=False,
    observe=_observe_batches,
)
def token_batches(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    """The solution."""
    return _make_batches(pairs, max_tokens, seed)


def _longer(pair: Pair) -> int:
    return max(map(len, pair))


def _fits(rows: list[Pair], max_tokens: int) -> bool:
    return len(rows) * _longer(rows[-1]) <= max_tokens  # the newest is the longest, if they are sorted


def _padded(rows: list[Pair]) -> Batch:
    sources, targets = zip(*rows, strict=True)
    return pad(sources), pad(targets)


def _shuffled(rows: list[Any], seed: int) -> list[Any]:
    return random.Random(seed).sample(rows, len(rows))


def _shuffled_in_place(rows: list[Any], seed: int) -> list[Any]:
    rows = list(rows)
    random.Random(seed).shuffle(rows)
    return rows


def _make_batches(
    pairs: list[Pair],
    max_tokens: int,
    seed: int,
    *,
    key: Callable[[Pair], Any] = _longer,
    fits: Callable[[list[Pair], int], bool] = _fits,
    shuffle: Callable[[list[Any], int], list[Any]] = _shuffled,
    padded: Callable[[list[Pair]], Batch] = _padded,
) -> list[Batch]:
    groups: list[list[Pair]] = [[]]
    for pair in sorted(pairs, key=key):
        if groups[-1] and not fits([*groups[-1], pair], max_tokens):
            groups.append([])
        groups[-1].append(pair)
    return [padded(group) for group in shuffle(groups, seed)]


@token_batches.mistake(
    "not sorted",
    "Your batches mix short and long sentences, so most of what the model computes is padding. Sort by length before "
    "you fill the batches.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(pairs, max_tokens, seed, key=lambda pair: 0)


@token_batches.mistake(
    "sorted by the source only", "You sort by the source. A long target makes the batch just as wide: look at both."
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(pairs, max_tokens, seed, key=lambda pair: len(pair[0]))


@token_batches.mistake(
    "sorted by the sum of both lengths",
    "You sort by the sum of the two lengths. The longer side decides how wide the batch is: sort by that.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(pairs, max_tokens, seed, key=lambda pair: len(pair[0]) + len(pair[1]))


@token_batches.mistake(
    "longest first", "You sort in descending order. That works as well, but the text asks for the shortest first."
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(pairs, max_tokens, seed, key=lambda pair: -_longer(pair))


@token_batches.mistake(
    "padding not counted",
    "Your batches exceed the budget, because you add up the sentences' own lengths. In a batch every row is as long "
    "as the longest, and the padding takes as much memory as the rest.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(pairs, max_tokens, seed, fits=lambda rows, most: sum(map(_longer, rows)) <= most)


@token_batches.mistake(
    "sentences counted instead of tokens",
    "You limit the number of sentences, so a batch of long sentences is far larger than one of short ones. What does "
    "max_tokens count?",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(pairs, max_tokens, seed, fits=lambda rows, most: len(rows) <= most)


@token_batches.mistake(
    "the sources only are counted", "Your targets exceed the budget: count the longer side of each pair."
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(
        pairs, max_tokens, seed, fits=lambda rows, most: len(rows) * max(len(s) for s, _ in rows) <= most
    )


@token_batches.mistake(
    "both sides counted together",
    "You count source and target together, so your batches are about half as large as they could be. The budget is "
    "for the longer side.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(
        pairs, max_tokens, seed, fits=lambda rows, most: len(rows) * max(len(s) + len(t) for s, t in rows) <= most
    )


@token_batches.mistake(
    "one sentence too few",
    "You close a batch when it is exactly full. A batch may reach the budget, but must not exceed it.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(pairs, max_tokens, seed, fits=lambda rows, most: len(rows) * _longer(rows[-1]) < most)


@token_batches.mistake(
    "one sentence too many",
    "You notice that a batch is full only when it already exceeds the budget. Look before you add the sentence.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(pairs, max_tokens, seed, fits=lambda rows, most: len(rows) == 1 or _fits(rows[:-1], most))


@token_batches.mistake(
    "the last batch is missing",
    "The sentences of the last batch are lost: when the loop ends, a batch is still open, and here it holds the "
    "longest sentences.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(pairs, max_tokens, seed, shuffle=lambda groups, seed: _shuffled(groups[:-1], seed))


@token_batches.mistake(
    "the order is always the same",
    "Every epoch goes from short to long sentences, so each one ends with many steps on long sentences only. Shuffle "
    "the finished batches.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(pairs, max_tokens, seed, shuffle=lambda groups, seed: groups)


@token_batches.mistake(
    "the seed isn't used",
    "Two calls with the same seed give different orders, so nobody could repeat your experiment. Draw from a "
    "generator that is seeded with the argument.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(pairs, max_tokens, seed, shuffle=lambda groups, seed: random.sample(groups, len(groups)))


@token_batches.mistake(
    "every epoch has the same order",
    "Your batches are shuffled, but every seed gives the same order. Use the argument rather than a fixed number.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(pairs, max_tokens, 0)


@token_batches.mistake(
    "padded to one length for all",
    "You pad every batch to the longest sentence of the data, so sorting gains nothing. Pad each batch to its own "
    "longest sentence.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    longest = [max(len(pair[side]) for pair in pairs) for side in (0, 1)]

    def padded(rows: list[Pair]) -> Batch:
        source, target = _padded(rows)
        return F.pad(source, (0, longest[0] - source.size(1))), F.pad(target, (0, longest[1] - target.size(1)))

    return _make_batches(pairs, max_tokens, seed, padded=padded)


@token_batches.mistake(
    "ties sorted by content",
    "Among pairs of the same length you sort by their tokens. Sort by length alone, and leave pairs of the same "
    "length in their order: `sorted` with a key does that.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(pairs, max_tokens, seed, key=lambda pair: (_longer(pair), pair))


@token_batches.mistake(
    "only the source looked at",
    "You sort and count by the source alone. A long target makes the batch just as wide: look at the longer side "
    "of each pair.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(
        pairs,
        max_tokens,
        seed,
        key=lambda pair: len(pair[0]),
        fits=lambda rows, most: len(rows) * max(len(s) for s, _ in rows) <= most,
    )


@token_batches.mistake(
    "the new pair isn't counted",
    "You compare the batch as it is with the budget, and then add a pair to it. Ask whether it fits with the new pair.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(
        pairs, max_tokens, seed, fits=lambda rows, most: (len(rows) - 1) * max(map(_longer, rows)) < most
    )


@token_batches.mistake(
    "padded at the front",
    "Your padding comes before the tokens. It belongs at the end, so that every sentence begins at position 0.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    def padded(rows: list[Pair]) -> Batch:
        source, target = (pad([ids[::-1] for ids in side]).flip(1) for side in zip(*rows, strict=True))
        return source, target

    return _make_batches(pairs, max_tokens, seed, padded=padded)


@token_batches.mistake(
    "the batch on the second axis",
    "Your tensors are (length, batch), with each sentence in a column. They should be (batch, length): the function "
    "that pads has an argument for it.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    def padded(rows: list[Pair]) -> Batch:
        source, target = _padded(rows)
        return source.T, target.T

    return _make_batches(pairs, max_tokens, seed, padded=padded)


@token_batches.mistake(
    "int32",
    "The batches are right, but their ids are int32. `F.cross_entropy` takes only int64 as labels.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return [(source.int(), target.int()) for source, target in _make_batches(pairs, max_tokens, seed)]


@token_batches.mistake(
    "both sides padded to one width",
    "You pad sources and targets to a common width. Each side is padded to its own longest sentence.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    def padded(rows: list[Pair]) -> Batch:
        both = pad([side for column in zip(*rows, strict=True) for side in column])
        return both[: len(rows)], both[len(rows) :]

    return _make_batches(pairs, max_tokens, seed, padded=padded)


@token_batches.mistake(
    "sentences shuffled instead of batches",
    "You shuffle the pairs before you fill the batches, and so mix short and long ones. Sort the pairs, and shuffle "
    "the finished batches.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(_shuffled_in_place(pairs, seed), max_tokens, seed, key=lambda pair: 0)


@token_batches.mistake(
    "pairs of the same length shuffled",
    "You shuffle the pairs before you sort them, so pairs of the same length are in another order. Shuffle only the "
    "finished batches.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(_shuffled_in_place(pairs, seed), max_tokens, seed)


@token_batches.mistake(
    "only the target looked at",
    "You sort and count by the target alone. A long source makes the batch just as wide: look at the longer side of "
    "each pair.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(
        pairs,
        max_tokens,
        seed,
        key=lambda pair: len(pair[1]),
        fits=lambda rows, most: len(rows) * max(len(t) for _, t in rows) <= most,
    )


@token_batches.mistake(
    "ties sorted by the shorter side",
    "Among pairs whose longer sides are equally long, you sort by the shorter one. Leave them in their order.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return _make_batches(pairs, max_tokens, seed, key=lambda pair: (_longer(pair), min(map(len, pair))))


@token_batches.mistake(
    "the longest sentence without the new pair",
    "You multiply by the longest sentence of the batch as it is. The new pair is longer, and all rows are padded to "
    "it.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    def fits(rows: list[Pair], most: int) -> bool:
        return len(rows) == 1 or len(rows) * _longer(rows[-2]) <= most

    return _make_batches(pairs, max_tokens, seed, fits=fits)


@token_batches.mistake(
    "pairs that are too long left out",
    "You leave out pairs that are longer than the budget. Each of them gets a batch of its own.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    short = [pair for pair in pairs if _longer(pair) <= max_tokens]
    return _make_batches(short, max_tokens, seed) if short else []


@token_batches.mistake(
    "one number of sentences for all batches",
    "You divide the budget by the longest sentence of all, so batches of short sentences are too small. Decide for "
    "each batch how many pairs fit.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    most = max(1, max_tokens // max(map(_longer, pairs)))
    return _make_batches(pairs, max_tokens, seed, fits=lambda rows, _: len(rows) <= most)


@token_batches.mistake(
    "special tokens added again",
    "You add bos and eos to the targets. They are in the data already.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    def padded(rows: list[Pair]) -> Batch:
        return _padded([(source, [BOS, *target, EOS]) for source, target in rows])

    return _make_batches(pairs, max_tokens, seed, padded=padded)


@token_batches.mistake(
    "padded with eos",
    "You pad with EOS. Masks and losses leave out PAD, and take these tokens for real ones.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    def padded(rows: list[Pair]) -> Batch:
        source, target = _padded(rows)
        return source.masked_fill(source == PAD, EOS), target.masked_fill(target == PAD, EOS)

    return _make_batches(pairs, max_tokens, seed, padded=padded)


for _title, _id in (("padded with bos", BOS), ("padded with -1", -1), ("padded with -100", -100)):

    @token_batches.mistake(
        _title,
        f"You pad with {_id}. Masks and losses leave out PAD, and nothing else.",
    )
    def _(pairs: list[Pair], max_tokens: int, seed: int, padding: int = _id) -> list[Batch]:
        def padded(rows: list[Pair]) -> Batch:
            source, target = _padded(rows)
            return source.masked_fill(source == PAD, padding), target.masked_fill(target == PAD, padding)

        return _make_batches(pairs, max_tokens, seed, padded=padded)


@token_batches.mistake(
    "floats instead of ids",
    "The numbers are right, but they are floats. `torch.Tensor(…)` makes floats of everything; `torch.tensor(…)` "
    "keeps whole numbers.",
)
def _(pairs: list[Pair], max_tokens: int, seed: int) -> list[Batch]:
    return [(source.float(), target.float()) for source, target in _make_batches(pairs, max_tokens, seed)]


# 4 --------------------------------------------------------------------------------------------------------------------


class _Bigrams(nn.Module):
    """A model that reads the last token and the source's first; in training mode, it is disturbed."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.table = nn.Parameter(numbers(9, 9, seed=seed))
        self.part = nn.Identity()
        self.gradients: list[bool] = []

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        self.gradients.append(torch.is_grad_enabled())
        logits = self.table[target] + self.table[source[:, :1]].flip(-1)
        return logits * 0.5 if self.part.training else logits

    def __repr__(self) -> str:
        return "a model whose logits are other numbers in training mode"


def _observe_validation(answer: Any, model: _Bigrams, batches: list[Batch], training: bool) -> tuple[Any, ...] | None:
    model.train(training)
    loss = answer(model, batches)
    return None if loss is None else (loss, model.training, model.part.training, any(model.gradients))


_BATCHES: list[Batch] = [
    (torch.tensor([[5, 6], [7, 8]]), torch.tensor([[BOS, 5, 6, EOS], [BOS, 8, EOS, PAD]])),
    (torch.tensor([[4, 6], [6, 5]]), torch.tensor([[BOS, EOS, PAD, PAD, PAD], [BOS, 4, EOS, PAD, PAD]])),
    (torch.tensor([[8, 4]]), torch.tensor([[BOS, 7, 4, 4, 5, 8, EOS]])),
]


@topic.exercise(
    {"model": _Bigrams(0), "batches": _BATCHES[:1], "training": True},
    {"model": _Bigrams(1), "batches": _BATCHES, "training": True},
    {"model": _Bigrams(2), "batches": _BATCHES[1:], "training": False},
    results=(
        "the loss",
        "that the model is in training mode afterwards",
        "that its parts are in training mode afterwards",
        "that gradients were recorded",
    ),
    differentiable=False,
    observe=_observe_validation,
)
def validation_loss(model: nn.Module, batches: list[Batch]) -> float:
    """The solution."""
    return _validate(model, batches)


def _token_losses(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    """Of each position, zero at padding."""
    return F.cross_entropy(model(source, target[:, :-1]).mT, target[:, 1:], ignore_index=PAD, reduction="none")


def _n_labels(target: Tensor) -> int:
    return int((target[:, 1:] != PAD).sum())


def _validate(
    model: nn.Module,
    batches: list[Batch],
    *,
    losses_of: Callable[..., Tensor] = _token_losses,
    count: Callable[[Tensor], int] = _n_labels,
    switch: bool = True,
    restore: bool = True,
    grad: bool = False,
) -> float:
    was_training = model.training
    if switch:
        model.eval()
    with torch.set_grad_enabled(grad):
        total = sum(losses_of(model, *batch).sum().item() for batch in batches)
    if restore:
        model.train(was_training)
    return total / sum(count(target) for _, target in batches)


@validation_loss.mistake(
    "evaluation mode forgotten",
    "You validate in training mode, with dropout. The validation loss would be too high, and different each time. (To "
    "set `model.training` isn't enough: that doesn't reach the model's parts, such as its dropout.)",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    return _validate(model, batches, switch=False)


@validation_loss.mistake(
    "left in evaluation mode",
    "Your loss is right, but afterwards the model is still in evaluation mode: from the second epoch on, it would be "
    "trained without dropout. Leave it in the mode in which you found it.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    return _validate(model, batches, restore=False)


@validation_loss.mistake(
    "always back to training mode",
    "You end in training mode, even if the model was in evaluation mode before. Remember the mode, and restore it.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    loss = _validate(model, batches)
    model.train()
    return loss


@validation_loss.mistake(
    "only the model's own flag restored",
    "You restore only the model's own flag, `model.training`. Its parts, such as its dropout, have flags of their "
    "own, and are still in evaluation mode: call `model.train(mode)`, which sets all of them.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    was_training = model.training
    loss = _validate(model, batches, restore=False)
    model.training = was_training
    return loss


@validation_loss.mistake(
    "gradients recorded",
    "Your loss is right, but PyTorch records everything for a backward pass that never comes. That takes several "
    "times the memory; turn it off.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    return _validate(model, batches, grad=True)


@validation_loss.mistake(
    "the mean of the batches' means",
    "You average over the batches, so a token of a small batch gets a larger weight. Add up the losses of all tokens, "
    "and divide once.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    return sum(_validate(model, [batch]) * (not torch.is_grad_enabled() or 1) for batch in batches) / len(batches)


@validation_loss.mistake(
    "the mean of the batches' means, and always back to training mode",
    "There are two mistakes. You average over the batches, so a token of a small batch gets a larger weight: add up "
    "the losses of all tokens, and divide once. And you end in training mode, even if the model was in evaluation mode "
    "before.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    loss = sum(_validate(model, [batch]) for batch in batches) / len(batches)
    model.train()
    return loss


@validation_loss.mistake(
    "padding counted as tokens",
    "Your sum is right, but you divide by all positions. Divide by the number of labels that aren't padding.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    return _validate(model, batches, count=lambda target: target[:, 1:].numel())


@validation_loss.mistake(
    "padding in the loss", "Your loss includes the positions where the label is padding. Leave them out."
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    def losses_of(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(model(source, target[:, :-1]).mT, target[:, 1:], reduction="none")

    return _validate(model, batches, losses_of=losses_of, count=lambda target: target[:, 1:].numel())


def _validate_not_shifted(model: nn.Module, batches: list[Batch]) -> float:
    def losses_of(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(model(source, target).mT, target, ignore_index=PAD, reduction="none")

    return _validate(model, batches, losses_of=losses_of, count=lambda target: int((target != PAD).sum()))


for _title, _part in (
    ("labels not shifted", slice(None)),
    ("labels not shifted, without the last token", slice(None, -1)),
    ("labels not shifted, without the first token", slice(1, None)),
):

    @validation_loss.mistake(
        _title,
        "You compare the logits with the very tokens that the decoder has read. Each position should predict the next "
        "one.",
    )
    def _(model: nn.Module, batches: list[Batch], part: slice = _part) -> float:
        return _validate_not_shifted(model, [(source, target[:, part]) for source, target in batches])

    @validation_loss.mistake(
        f"{_title}, and the mean of the batches' means",
        "You compare the logits with the very tokens that the decoder has read: which token should each position "
        "predict? You also average over the batches, so a token of a small batch gets a larger weight.",
    )
    def _(model: nn.Module, batches: list[Batch], part: slice = _part) -> float:
        losses = [_validate_not_shifted(model, [(source, target[:, part])]) for source, target in batches]
        return sum(losses) / len(losses)


@validation_loss.mistake(
    "bos counted", "You count bos among the tokens. It is read, but never predicted, so it has no loss."
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    return _validate(model, batches, count=lambda target: int((target != PAD).sum()))


@validation_loss.mistake("not divided", "This is the sum over all tokens. Divide it by their number.")
def _(model: nn.Module, batches: list[Batch]) -> float:
    return _validate(model, batches, count=lambda target: 1) * len(batches)


@validation_loss.mistake("only the last batch", "This is the loss of the last batch. Take all of them.")
def _(model: nn.Module, batches: list[Batch]) -> float:
    return _validate(model, batches[-1:])


@validation_loss.mistake(
    "the sum of the batches' means",
    "You add up the means of the batches. Add up the losses of all tokens, and divide by their number.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    return sum(_validate(model, [batch]) for batch in batches)


@validation_loss.mistake(
    "means weighted by the number of sentences",
    "You weight each batch's mean by its number of sentences. Sentences are of different lengths: what counts is the "
    "number of labels.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    losses = [(_validate(model, [batch]), len(batch[0])) for batch in batches]
    return sum(loss * count for loss, count in losses) / sum(count for _, count in losses)


@validation_loss.mistake(
    "divided by the number of sentences",
    "You divide by the number of sentences. Divide by the number of labels that aren't padding.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    return _validate(model, batches, count=len)


@validation_loss.mistake(
    "divided by the number of batches",
    "You add up the losses of all tokens, and divide by the number of batches. Divide by the number of labels that "
    "aren't padding.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    return _validate(model, batches, count=lambda target: 1)


@validation_loss.mistake(
    "padding in the sum only",
    "You divide by the right number, but your sum includes the positions where the label is padding. Leave them out "
    "there, too.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    def losses_of(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(model(source, target[:, :-1]).mT, target[:, 1:], reduction="none")

    return _validate(model, batches, losses_of=losses_of)


@validation_loss.mistake(
    "the tokens that are read counted",
    "You count the tokens that the decoder reads, bos among them. Count the labels that aren't padding.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    return _validate(model, batches, count=lambda target: int((target[:, :-1] != PAD).sum()))


@validation_loss.mistake(
    "the sources' tokens counted",
    "You divide by the number of source tokens. Only labels have a loss: count those that aren't padding.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    n_sources = sum(int((source != PAD).sum()) for source, _ in batches)
    return _validate(model, batches) * sum(_n_labels(target) for _, target in batches) / n_sources


@validation_loss.mistake(
    "eos left out",
    "You leave out eos as well as padding. The model has to predict the end, so eos is a label like any other.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    def losses_of(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
        return _token_losses(model, source, target) * (target[:, 1:] != EOS)

    return _validate(model, batches, losses_of=losses_of, count=lambda t: int((t[:, 1:] > EOS).sum()))


@validation_loss.mistake(
    "eos left out instead of padding",
    "You leave out eos, and count padding. It's the padding that has no loss.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    def losses_of(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
        logits = model(source, target[:, :-1]).mT
        return F.cross_entropy(logits, target[:, 1:], ignore_index=EOS, reduction="none")

    return _validate(model, batches, losses_of=losses_of, count=lambda target: int((target[:, 1:] != EOS).sum()))


@validation_loss.mistake(
    "shifted the wrong way",
    "You compare the logits with the token before. Each position predicts the one after it.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    def losses_of(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
        logits = model(source, target)[:, 1:].mT
        return F.cross_entropy(logits, target[:, :-1], ignore_index=PAD, reduction="none")

    return _validate(model, batches, losses_of=losses_of, count=lambda target: int((target[:, :-1] != PAD).sum()))


@validation_loss.mistake(
    "divided twice",
    "You divide each batch's loss by its number of labels, and the total once more. Add up sums, and divide once.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    total = sum(_validate(model, [batch]) for batch in batches)
    return total / sum(_n_labels(target) for _, target in batches)


@validation_loss.mistake(
    "a softmax too many",
    "You apply a softmax to the logits. The function for the cross-entropy does that itself: give it the logits.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    def losses_of(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
        probabilities = model(source, target[:, :-1]).softmax(-1).mT
        return F.cross_entropy(probabilities, target[:, 1:], ignore_index=PAD, reduction="none")

    return _validate(model, batches, losses_of=losses_of)


@validation_loss.mistake(
    "logits taken for log-probabilities",
    "The function that you call expects log-probabilities, and you give it logits. Take the one for the cross-entropy.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    def losses_of(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
        logits = model(source, target[:, :-1]).mT
        return F.nll_loss(logits, target[:, 1:], ignore_index=PAD, reduction="none")

    return _validate(model, batches, losses_of=losses_of)


@validation_loss.mistake(
    "label smoothing in the validation loss",
    "You smooth the labels. That is for training: the validation loss is the plain cross-entropy, which can be "
    "compared between models.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    def losses_of(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
        logits, labels = model(source, target[:, :-1]).mT, target[:, 1:]
        return F.cross_entropy(logits, labels, ignore_index=PAD, reduction="none", label_smoothing=0.1)

    return _validate(model, batches, losses_of=losses_of)


@validation_loss.mistake(
    "label smoothing, and the mean of the batches' means",
    "You smooth the labels: that is for training, and the validation loss is the plain cross-entropy. You also average "
    "over the batches, so a token of a small batch gets a larger weight.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    def loss_of(source: Tensor, target: Tensor) -> float:
        logits, labels = model(source, target[:, :-1]).mT, target[:, 1:]
        return F.cross_entropy(logits, labels, ignore_index=PAD, label_smoothing=0.1).item()

    was_training = model.training
    model.eval()
    with torch.no_grad():
        losses = [loss_of(*batch) for batch in batches]
    model.train(was_training)
    return sum(losses) / len(losses)


@validation_loss.mistake(
    "axes reshaped instead of swapped",
    "You bring the logits into the right shape, but their numbers into wrong places: a reshape keeps their order in "
    "memory. Swap the two axes.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    def losses_of(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
        logits = model(source, target[:, :-1])
        logits = logits.reshape(logits.size(0), logits.size(2), logits.size(1))
        return F.cross_entropy(logits, target[:, 1:], ignore_index=PAD, reduction="none")

    return _validate(model, batches, losses_of=losses_of)


@validation_loss.mistake(
    "only the first batch",
    "This is the loss of the first batch. Is your `return` inside the loop?",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    return _validate(model, batches[:1])


@validation_loss.mistake(
    "evaluation mode for the first batch only",
    "You switch back inside the loop, so only the first batch is evaluated in evaluation mode. Switch back after the "
    "loop.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    losses = [_validate(model, [batch], switch=i == 0) for i, batch in enumerate(batches)]
    counts = [_n_labels(target) for _, target in batches]
    return sum(loss * count for loss, count in zip(losses, counts, strict=True)) / sum(counts)


@validation_loss.mistake(
    "the loss in bits",
    "Your loss is in bits. Leave it as the cross-entropy gives it, in nats.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    return _validate(model, batches) / math.log(2)


@validation_loss.mistake(
    "the perplexity",
    "This is the exponential of the loss, the perplexity. Return the loss itself.",
)
def _(model: nn.Module, batches: list[Batch]) -> float:
    return math.exp(_validate(model, batches))


# 5 --------------------------------------------------------------------------------------------------------------------


def _line(seed: int) -> nn.Linear:
    line = nn.Linear(2, 1)
    for i, parameter in enumerate(line.parameters()):
        parameter.data = numbers(*parameter.shape, seed=seed + i)
    return line


def _points(count: int, seed: int, size: float = 1.0) -> list[Batch]:
    return [(size * numbers(3, 2, seed=seed + i), numbers(3, 1, seed=seed + 100 + i)) for i in range(count)]


class Loader:
    """The batches of an epoch: an iterable, as a learner's function is promised, and no list."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._batches)


def _observe_fit(
    answer: Any, model: nn.Module, batches: list[Batch], validation: list[float], max_epochs: int, patience: int
) -> tuple[Any, ...] | None:
    """Train a straight line; the validation losses are given, whatever was learned."""
    epochs: list[int] = []
    modes: list[bool] = []
    steps_before: list[int] = []
    coming = iter(validation)

    def epoch_batches(epoch: int) -> Loader:
        epochs.append(epoch)
        return Loader(batches)

    def loss_of(model: nn.Module, batch: Batch) -> Tensor:
        modes.append(model.training)
        return (model(batch[0]) - batch[1]).square().mean()

    def validate(model: nn.Module) -> float:
        model.eval()  # and a careless one leaves it there
        steps_before.append(len(modes))
        for loss in coming:
            return loss
        raise RefusedError(
            "validated too often\nYour code validates more often than there are epochs. Once for each epoch is enough: "
            "keep the number in a variable if you need it twice."
        )

    for function in (epoch_batches, loss_of, validate):
        function.__qualname__ = function.__name__  # this is what an error calls it
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.5)
    losses = answer(model, optimizer, epoch_batches, loss_of, validate, max_epochs, patience)
    if losses is None:
        return None
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    return losses, epochs, all(modes), steps_before, weights


@topic.exercise(
    {
        "model": _line(0),
        "batches": _points(2, 0),
        "validation": [3.0, 2.0, 2.5, 2.75, 2.2, 2.1],
        "max_epochs": 4,
        "patience": 4,
    },
    {
        "model": _line(1),
        "batches": _points(3, 10, 3.0),
        "validation": [3.0, 1.0, 2.0, 1.5, 1.75, 0.5, 0.75, 0.75, 0.8],
        "max_epochs": 9,
        "patience": 2,
    },
    {
        "model": _line(2),
        "batches": _points(2, 20),
        "validation": [2.0, 1.5, 1.5, 1.5, 1.5, 1.0, 0.5],
        "max_epochs": 7,
        "patience": 3,
    },
    {
        "model": _line(3),
        "batches": _points(4, 30, 0.3),
        "validation": [4.0, 3.0, 2.0],
        "max_epochs": 3,
        "patience": 1,
    },
    {
        "model": _line(4),
        "batches": _points(2, 40),
        "validation": [2.0, 3.0, 2.5, 1.0, 1.5],
        "max_epochs": 5,
        "patience": 2,
    },
    {
        "model": _line(5),
        "batches": _points(2, 50),
        "validation": [3.0, 3.5, 2.0, 2.5, 1.0, 1.5, 0.5, 0.75],
        "max_epochs": 8,
        "patience": 2,
    },
    results=(
        "the pair of lists of losses",
        "the list of epochs",
        "that every step was in training mode",
        "the list of steps before each validation",
        "the model afterwards",
    ),
    differentiable=False,
    observe=_observe_fit,
)
def fit(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    epoch_batches: Callable[[int], Iterable[Batch]],
    loss_of: Callable[[nn.Module, Batch], Tensor],
    validate: Callable[[nn.Module], float],
    max_epochs: int,
    patience: int,
) -> tuple[list[float], list[float]]:
    """The solution."""
    return _fit(model, optimizer, epoch_batches, loss_of, validate, max_epochs, patience)


def _normalise(model: nn.Module) -> None:
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
    for gradient in gradients:
        gradient /= norm


def _copied(model: nn.Module) -> Any:
    return copy.deepcopy(model.state_dict())


def _fit(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    epoch_batches: Callable[[int], Iterable[Batch]],
    loss_of: Callable[[nn.Module, Batch], Tensor],
    validate: Callable[[nn.Module], float],
    max_epochs: int,
    patience: int,
    *,
    order: str = "forget backward clip step",
    train_mode: str = "each epoch",
    keep: Callable[[nn.Module], Any] = _copied,
    better: Callable[[list[float]], bool] = lambda losses: losses[-1] < min([math.inf, *losses[:-1]]),
    is_over: Callable[[int, int], bool] = lambda waited, patience: waited >= patience,
    mean: Callable[[list[float]], float] = lambda losses: sum(losses) / len(losses),
    first: int = 0,
    in_all: bool = False,
    validate_first: bool = False,
    by_training: bool = False,
    in_all_losses: bool = False,
    stop_at: int | None = None,
) -> tuple[list[float], list[float]]:
    """The loop with these settings; the words of ``order`` are what is done with each loss, one after the other."""
    history: tuple[list[float], list[float]] = ([], [])
    best, waited = keep(model), 0
    losses: list[float] = []
    if train_mode == "once":
        model.train()
    for epoch in range(first, first + max_epochs):
        if validate_first:
            history[1].append(validate(model))
        if train_mode == "each epoch":
            model.train()
        losses = losses if in_all_losses else []
        for batch in epoch_batches(epoch):
            loss = loss_of(model, batch)
            actions: dict[str, Callable[[], Any]] = {
                "forget": optimizer.zero_grad,
                "backward": loss.backward,
                "clip": lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0),
                "clip-each": lambda: [nn.utils.clip_grad_norm_([p], 1.0) for p in model.parameters()],
                "normalise": lambda: _normalise(model),
                "clip-values": lambda: nn.utils.clip_grad_value_(model.parameters(), 1.0),
                "step": optimizer.step,
            }
            for action in order.split():
                actions[action]()
            losses.append(loss.item())
        history[0].append(mean(losses))
        if not validate_first:
            history[1].append(validate(model))
        if better(history[0 if by_training else 1]):
            best, waited = keep(model), waited if in_all else 0
        else:
            waited += 1
            if is_over(waited, patience) or epoch == stop_at:
                break
    model.load_state_dict(best)
    return history


@fit.mistake(
    "the last weights instead of the best",
    "You stop at the right time, but afterwards the model has its last weights. Either you never load the best ones, "
    "or you kept them without a copy: the tensors in a state dict are the model's own, and later steps change them.",
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs, keep=lambda model: model.state_dict())


@fit.mistake(
    "not in training mode",
    "After the first validation, your model is trained in evaluation mode, so without dropout: validation has switched "
    "to it. Switch back to training mode in every epoch.",
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs, train_mode="once")


@fit.mistake(
    "patience not used", "You stop as soon as the validation loss isn't lower. Wait as many epochs as patience says."
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs, is_over=lambda waited, _: waited >= 1)


@fit.mistake(
    "it never stops early",
    "You always train for max_epochs. Stop when too many epochs in a row brought no new minimum.",
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs, is_over=lambda waited, patience: False)


@fit.mistake(
    "one epoch too patient", "You wait one epoch too long: stop when patience epochs in a row brought no new minimum."
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs, is_over=lambda waited, patience: waited > patience)


@fit.mistake(
    "one epoch too impatient",
    "You stop one epoch too early: wait until patience epochs in a row brought no new minimum.",
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs, is_over=lambda waited, patience: waited >= patience - 1)


@fit.mistake(
    "compared with the epoch before",
    "You compare with the epoch before. After a bad epoch, a slightly better one isn't the best: compare with the "
    "lowest loss so far.",
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs, better=lambda losses: len(losses) == 1 or losses[-1] < losses[-2])


@fit.mistake(
    "an equal loss counts as better",
    "You count a validation loss that only equals the minimum as progress, so a model that has stopped learning is "
    "never stopped. It has to be lower.",
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs, better=lambda losses: losses[-1] <= min(losses))


@fit.mistake("the worst epoch is kept", "You keep the epoch with the highest validation loss. Lower is better.")
def _(*inputs: Any) -> Any:
    return _fit(*inputs, better=lambda losses: losses[-1] > max([-math.inf, *losses[:-1]]))


@fit.mistake(
    "gradients never reset", "You never reset the gradients, so each step uses the sum over all batches so far."
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs, order="backward clip step")


@fit.mistake(
    "nothing learned", "The weights don't change: either no step uses the gradients, or they are reset before the step."
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs, order="backward clip forget step")


@fit.mistake(
    "not clipped", "The gradients aren't clipped. Clip them to the norm 1, after backward and before the step."
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs, order="forget backward step")


@fit.mistake(
    "the training loss of the last batch",
    "Your training loss is that of the epoch's last batch, which is mostly noise. Return the mean over the epoch.",
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs, mean=lambda losses: losses[-1])


@fit.mistake(
    "the training loss not divided", "Your training loss is the sum over the epoch. Divide by the number of batches."
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs, mean=sum)


@fit.mistake(
    "validated before training",
    "You validate at the beginning of each epoch, so every validation loss belongs to the weights of the epoch "
    "before. Train first, and validate what has been trained.",
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs, validate_first=True)


@fit.mistake(
    "the lowest training loss kept",
    "You keep the epoch with the lowest training loss, and stop when that one no longer falls. The validation loss "
    "decides about both: it shows what the model can do with sentences that it hasn't seen.",
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs, by_training=True)


@fit.mistake(
    "the training losses of all epochs averaged",
    "Your training loss is the mean over all epochs so far, because the list of the batches' losses goes on growing. "
    "Begin a new one in each epoch.",
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs, in_all_losses=True)


@fit.mistake("epochs counted from 1", "You ask for the batches of the epochs 1, 2, …. Count from 0.")
def _(*inputs: Any) -> Any:
    return _fit(*inputs, first=1)


@fit.mistake(
    "batches made only once",
    "You ask for batches once, before the first epoch, so all epochs train on the same batches in the same order. "
    "Each epoch has batches of its own: when should you ask for them?",
)
def _(model: nn.Module, optimizer: torch.optim.Optimizer, epoch_batches: Any, *rest: Any) -> Any:
    batches = epoch_batches(0)
    return _fit(model, optimizer, lambda epoch: batches, *rest)


@fit.mistake(
    "always the batches of the same epoch",
    "You ask for the batches of the same epoch again and again, so their order never changes. Which epoch is it?",
)
def _(model: nn.Module, optimizer: torch.optim.Optimizer, epoch_batches: Any, *rest: Any) -> Any:
    return _fit(model, optimizer, lambda epoch: epoch_batches(0), *rest)


@fit.mistake(
    "patience for all bad epochs together",
    "You count all epochs without improvement since training began. Only those since the last improvement count: "
    "start again at 0 after each.",
)
def _(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    epoch_batches: Callable[[int], Iterable[Batch]],
    loss_of: Callable[[nn.Module, Batch], Tensor],
    validate: Callable[[nn.Module], float],
    max_epochs: int,
    patience: int,
) -> tuple[list[float], list[float]]:
    return _fit(model, optimizer, epoch_batches, loss_of, validate, max_epochs, patience, in_all=True)


@fit.mistake(
    "values clipped instead of the norm",
    "You clip each value of the gradient, which changes its direction. Clip the norm of the whole gradient.",
)
def _(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    epoch_batches: Callable[[int], Iterable[Batch]],
    loss_of: Callable[[nn.Module, Batch], Tensor],
    validate: Callable[[nn.Module], float],
    max_epochs: int,
    patience: int,
) -> tuple[list[float], list[float]]:
    return _fit(
        model,
        optimizer,
        epoch_batches,
        loss_of,
        validate,
        max_epochs,
        patience,
        order="forget backward clip-values step",
    )


@fit.mistake(
    "gradients reset once per epoch",
    "You reset the gradients at the beginning of each epoch only, so they add up over its batches. Reset them for "
    "each batch.",
)
def _(*inputs: Any) -> Any:
    model, optimizer, epoch_batches, *rest = inputs

    def batches_of(epoch: int) -> Any:
        optimizer.zero_grad()
        return epoch_batches(epoch)

    return _fit(model, optimizer, batches_of, *rest, order="backward clip step")


@fit.mistake(
    "each parameter clipped by itself",
    "You clip the gradient of each parameter by itself, which changes the direction of the whole. Clip the norm of "
    "all of them together.",
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs, order="forget backward clip-each step")


@fit.mistake(
    "always scaled to the norm 1",
    "You scale every gradient to the norm 1. Clipping leaves a smaller gradient as it is.",
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs, order="forget backward normalise step")


@fit.mistake(
    "losses as tensors",
    "Your training losses are tensors. Record numbers: a tensor keeps the whole computation of its loss in memory.",
)
def _(*inputs: Any) -> Any:
    train, validation = _fit(*inputs)
    return [torch.tensor(loss) for loss in train], validation


@fit.mistake(
    "the losses of all batches",
    "You return a training loss for each batch. Return one for each epoch: the mean of its batches.",
)
def _(*inputs: Any) -> Any:
    losses: list[float] = []

    def mean(of_epoch: list[float]) -> float:
        losses.extend(of_epoch)
        return sum(of_epoch) / len(of_epoch)

    return losses, _fit(*inputs, mean=mean)[1]


@fit.mistake(
    "divided by the number of epochs",
    "You divide the sum of an epoch's losses by the number of epochs. Divide by the number of its batches.",
)
def _(*inputs: Any) -> Any:
    max_epochs = inputs[-2]
    return _fit(*inputs, mean=lambda losses: sum(losses) / max_epochs)


@fit.mistake(
    "validation losses first",
    "You return the validation losses first. The training losses come first.",
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs)[::-1]


@fit.mistake(
    "patience counted from the start",
    "You stop when the number of the epoch reaches patience. Count the epochs since the best one.",
)
def _(*inputs: Any) -> Any:
    return _fit(*inputs, is_over=lambda waited, _: False, stop_at=inputs[-1])


@fit.mistake(
    "one epoch too many",
    "You train for one epoch more than max_epochs.",
)
def _(*inputs: Any) -> Any:
    *first, max_epochs, patience = inputs
    return _fit(*[*first, max_epochs + 1, patience])


@fit.mistake(
    "one epoch too few",
    "You train for one epoch fewer than max_epochs, and your epochs count from 1. Count from 0.",
)
def _(*inputs: Any) -> Any:
    *first, max_epochs, patience = inputs
    return _fit(*[*first, max_epochs - 1, patience], first=1)


@fit.mistake(
    "the last epoch left out",
    "You train for one epoch fewer than max_epochs.",
)
def _(*inputs: Any) -> Any:
    *first, max_epochs, patience = inputs
    return _fit(*[*first, max_epochs - 1, patience])


@fit.mistake(
    "batches asked for twice",
    "You ask for the batches of each epoch twice. A loader may compute something each time, or draw other batches: "
    "keep what it returns.",
)
def _(*inputs: Any) -> Any:
    model, optimizer, epoch_batches, *rest = inputs
    return _fit(model, optimizer, lambda epoch: (epoch_batches(epoch), epoch_batches(epoch))[1], *rest)


@fit.mistake(
    "validated once more at the end",
    "You validate once more after training. The validation losses of all epochs are known already.",
)
def _(*inputs: Any) -> Any:
    losses = _fit(*inputs)
    inputs[4](inputs[0])
    return losses


# 6 --------------------------------------------------------------------------------------------------------------------

_WORDS = [
    "<pad>",
    "<bos>",
    "<eos>",
    "<unk>",
    *"the a dog cat house sees likes small old big is not The dog's old.".split(),
]


def _text(ids: list[int]) -> str:
    """the words of these ids, special tokens included"""
    return " ".join(_WORDS[i] for i in ids)


def _text_of_pieces(ids: list[int]) -> str:
    """the words of these ids, special tokens included; "cat" and "house" in a row are one word"""
    return _text(ids).replace("cat house", "cathouse")


def _copy_source(model: nn.Module, source: Tensor) -> list[list[int]]:
    """the source's tokens, but never "small"; in training mode, backwards"""
    small = _WORDS.index("small")
    rows = [[i for i in row if i not in (PAD, BOS, EOS, small)] for row in source.tolist()]
    return [row[::-1] for row in rows] if model.training else rows


def _sentences(*texts: tuple[str, str]) -> Batch:
    sources = [[*map(_WORDS.index, source.split()), EOS] for source, _ in texts]
    targets = [[BOS, *map(_WORDS.index, target.split()), EOS] for _, target in texts]
    return pad(sources), pad(targets)


_FIRST = _sentences(
    ("the small dog sees a house", "the small dog sees a house"), ("a cat is not old", "a cat is not a big old dog")
)
_SECOND = _sentences(("the old house is big is not small", "the house is big"))
_THIRD = _sentences(("a big dog likes the small cat", "the big dog likes a cat"), ("the cat is old", "the cat sees"))
_COMPOUND = _sentences(
    ("the old cat house is big", "the old cat house is not big"),
    ("a dog likes the cat house", "a dog sees a cat house"),
)
_WRITTEN = _sentences(
    ("The dog's house is old.", "the dog's house is not old"), ("The cat is old", "The big cat is old.")
)


class _Switch(nn.Module):
    """A model that only knows whether it is in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def __repr__(self) -> str:
        return "a model"


@topic.exercise(
    {"model": _Switch(), "batches": [_FIRST], "translate": _copy_source, "decode": _text},
    {"model": _Switch(), "batches": [_FIRST, _SECOND, _THIRD], "translate": _copy_source, "decode": _text},
    {"model": _Switch(), "batches": [_THIRD, _FIRST], "translate": _copy_source, "decode": _text},
    {"model": _Switch(), "batches": [_WRITTEN], "translate": _copy_source, "decode": _text},
    {"model": _Switch(), "batches": [_COMPOUND], "translate": _copy_source, "decode": _text_of_pieces},
    differentiable=False,
)
def bleu_score(
    model: nn.Module,
    batches: list[Batch],
    translate: Callable[[nn.Module, Tensor], list[list[int]]],
    decode: Callable[[list[int]], str],
) -> float:
    """The solution."""
    return _bleu(*_texts(model, batches, translate, decode))


def _bleu(hypotheses: list[str], references: list[str], **settings: Any) -> float:
    return corpus_bleu(hypotheses, [references], **settings).score


def _texts(
    model: nn.Module, batches: list[Batch], translate: Any, decode: Any, *, special: tuple[int, ...] = (PAD, BOS, EOS)
) -> tuple[list[str], list[str]]:
    """All translations and all references; of those, the special tokens are removed."""
    model.eval()
    hypotheses = [decode(ids) for source, _ in batches for ids in translate(model, source)]
    references = [decode([i for i in row if i not in special]) for _, target in batches for row in target.tolist()]
    return hypotheses, references


@bleu_score.mistake(
    "the mean of the batches' scores",
    "You average the BLEU of the batches. BLEU isn't a mean: collect all translations, and call corpus_bleu once.",
)
def _(model: nn.Module, batches: list[Batch], *functions: Any) -> float:
    return sum(_bleu(*_texts(model, [batch], *functions)) for batch in batches) / len(batches)


@bleu_score.mistake(
    "the mean of the sentences' scores",
    "You average the BLEU of single sentences, where a 4-gram rarely matches. Collect all translations, and score "
    "them once.",
)
def _(*inputs: Any) -> float:
    scores = [_bleu([h], [r]) for h, r in zip(*_texts(*inputs), strict=True)]
    return sum(scores) / len(scores)


@bleu_score.mistake(
    "translations and references swapped",
    "You score the references against the translations. BLEU isn't symmetric: it punishes translations that are too "
    "short.",
)
def _(*inputs: Any) -> float:
    hypotheses, references = _texts(*inputs)
    return _bleu(references, hypotheses)


@bleu_score.mistake(
    "one reference list for each sentence",
    "sacrebleu expects lists the other way round: one list for each set of references, and in it one reference for "
    "each sentence. You have one set.",
)
def _(*inputs: Any) -> float:
    hypotheses, references = _texts(*inputs)
    return corpus_bleu(hypotheses, [[reference] for reference in references]).score


@bleu_score.mistake(
    "the list of references isn't in a list",
    "You pass the references as a plain list. sacrebleu expects a list of sets of references, so it takes each of "
    "your sentences for a set, and its characters for references. Put your list into another one.",
)
def _(*inputs: Any) -> float:
    hypotheses, references = _texts(*inputs)
    return corpus_bleu(hypotheses, references).score


@bleu_score.mistake(
    "special tokens in the references",
    "Your references contain special tokens, which no translation has. Remove bos, eos and padding before you decode.",
)
def _(*inputs: Any) -> float:
    return _bleu(*_texts(*inputs, special=()))


@bleu_score.mistake(
    "eos in the references",
    "Your references contain one special token each, bos or eos, and the translations don't. Remove both.",
)
def _(*inputs: Any) -> float:
    return _bleu(*_texts(*inputs, special=(PAD, BOS)))


@bleu_score.mistake(
    "padding in the references",
    "Your references contain padding, a word for each entry. Remove it before you decode.",
)
def _(*inputs: Any) -> float:
    return _bleu(*_texts(*inputs, special=(BOS, EOS)))


@bleu_score.mistake(
    "translated in training mode", "The model translates with dropout. Switch to evaluation mode before you translate."
)
def _(model: nn.Module, batches: list[Batch], translate: Any, decode: Any) -> float:
    def careless(model: nn.Module, source: Tensor) -> Any:
        return translate(model.train(), source)

    return _bleu(*_texts(model, batches, careless, decode))


@bleu_score.mistake("as a fraction", "Your score is between 0 and 1. BLEU is reported between 0 and 100.")
def _(*inputs: Any) -> float:
    return _bleu(*_texts(*inputs)) / 100


@bleu_score.mistake(
    "compared with the sources",
    "Your references are the sources, so the score is high when the model copies what it has read. What should a "
    "translation be compared with?",
)
def _(model: nn.Module, batches: list[Batch], *functions: Any) -> float:
    return _bleu(*_texts(model, [(source, source) for source, _ in batches], *functions))


@bleu_score.mistake(
    "the targets translated",
    "Your model translates the targets, and they are translations already. What should it read?",
)
def _(model: nn.Module, batches: list[Batch], *functions: Any) -> float:
    return _bleu(*_texts(model, [(target, target) for _, target in batches], *functions))


@bleu_score.mistake(
    "capitals ignored",
    "In your score, capital and small letters are the same. sacrebleu distinguishes them by default, and only scores "
    "with the same settings can be compared.",
)
def _(*inputs: Any) -> float:
    return _bleu(*_texts(*inputs), lowercase=True)


@bleu_score.mistake(
    "not tokenized",
    "You turn off sacrebleu's tokenization, so a word followed by a full stop is another word. Only scores with the "
    "same settings can be compared: keep the defaults.",
)
def _(*inputs: Any) -> float:
    return _bleu(*_texts(*inputs), tokenize="none")


@bleu_score.mistake("only the last batch", "You score the last batch only. Collect the sentences of all batches.")
def _(model: nn.Module, batches: list[Batch], *functions: Any) -> float:
    return _bleu(*_texts(model, batches[-1:], *functions))


@bleu_score.mistake(
    "bos and eos in the references",
    "You remove only the padding from the references. bos and eos are no words: remove them, too.",
)
def _(
    model: nn.Module,
    batches: list[Batch],
    translate: Callable[[nn.Module, Tensor], list[list[int]]],
    decode: Callable[[list[int]], str],
) -> float:
    return _bleu(*_texts(model, batches, translate, decode, special=(PAD,)))


@bleu_score.mistake(
    "ids instead of words",
    "You score strings of ids. BLEU compares words, and an id may be a part of one: decode first.",
)
def _(*inputs: Any) -> float:
    model, batches, translate, _ = inputs
    return _bleu(*_texts(model, batches, translate, lambda ids: " ".join(map(str, ids))))


@bleu_score.mistake(
    "only the first batch",
    "You score the first batch only. Is your `return` inside the loop?",
)
def _(*inputs: Any) -> float:
    model, batches, *functions = inputs
    return _bleu(*_texts(model, batches[:1], *functions))


@bleu_score.mistake(
    "all sentences as a single one",
    "You join all translations into one text, and all references. Then words of different sentences form n-grams: "
    "keep the sentences apart.",
)
def _(*inputs: Any) -> float:
    return _bleu(*([" ".join(texts)] for texts in _texts(*inputs)))


@bleu_score.mistake(
    "chrF instead of BLEU",
    "This is chrF, which compares characters. BLEU compares words.",
)
def _(*inputs: Any) -> float:
    hypotheses, references = _texts(*inputs)
    return corpus_chrf(hypotheses, [references]).score


@bleu_score.mistake(
    "the precision of single words",
    "This is the precision of single words, one of the numbers that BLEU is made of. The object has the score itself, "
    "too.",
)
def _(*inputs: Any) -> float:
    hypotheses, references = _texts(*inputs)
    return corpus_bleu(hypotheses, [references]).precisions[0]


@bleu_score.mistake(
    "translations and references sorted",
    "You sort translations and references, so they are no longer beside each other. Leave both in the order of the "
    "batches.",
)
def _(*inputs: Any) -> float:
    hypotheses, references = _texts(*inputs)
    return _bleu(sorted(hypotheses), sorted(references))


@bleu_score.mistake(
    "bos removed, eos and padding left",
    "You remove the first token of each reference, bos. Remove eos and the padding after it, too.",
)
def _(*inputs: Any) -> float:
    return _bleu(*_texts(*inputs, special=(BOS,)))


# 7 --------------------------------------------------------------------------------------------------------------------


def _observe_losses(answer: Any, train: list[float], validation: list[float]) -> tuple[Any, ...]:
    """What a figure contains, whichever functions drew it."""
    axes = Figure().subplots()
    answer(axes, train, validation)
    legend = axes.get_legend()
    lines: list[tuple[str, Any, Any]] = [(_name(line, legend), *line.get_data()) for line in axes.get_lines()]
    vertical = [float(x[0]) for _, x, _ in lines if _is_vertical(x)]
    for collection in axes.collections:  # what `vlines` draws
        ends = [np.asarray(path.vertices) for path in collection.get_paths()]
        vertical += [float(points[0, 0]) for points in ends if len(points) == 2]
    curves = {label: [_numbers(x), _numbers(y)] for label, x, y in lines if not _is_vertical(x)}
    texts = [text.get_text() for text in legend.get_texts()] if legend else []
    labels = [_keyword(axes.get_xlabel(), "epoch"), _keyword(axes.get_ylabel(), "loss")]
    names = {label: _keyword(label, "training", "validation") for label in curves}
    named = {names[label]: curve for label, curve in curves.items()}
    return named, labels, sorted(names[text] for text in texts if text in names), vertical


def _name(line: Line2D, legend: Legend | None) -> str:
    """The line's label; if it has none, what the legend calls a line of its colour and style."""
    label = str(line.get_label())
    if legend and label.startswith("_"):
        look = line.get_color(), line.get_linestyle()
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=False):
            if isinstance(handle, Line2D) and (handle.get_color(), handle.get_linestyle()) == look:
                return text.get_text()
    return label


def _is_vertical(x: Any) -> bool:
    return len(x) == 2 and bool(x[0] == x[1])


def _numbers(values: Any) -> list[float]:
    return [float(value) for value in values]


def _keyword(label: str, *words: str) -> str:
    """The first of the words that the label contains, capital letters aside; else the label."""
    return next((word for word in words if word in label.lower()), label)


@topic.exercise(
    {"train": [3.0, 2.0, 1.0], "validation": [3.5, 2.5, 2.75]},
    {"train": [5.0, 3.0, 2.0, 1.5, 1.0, 1.25], "validation": [4.0, 3.25, 2.5, 2.25, 2.5, 3.0]},
    {"train": [2.0, 1.0, 0.5, 0.25], "validation": [2.5, 2.0, 1.5, 1.25]},
    {"train": [2.0, 1.0, 0.5, 0.25], "validation": [2.5, 1.5, 1.5, 2.0]},
    {"train": [2.0, 2.5, 1.0, 0.5], "validation": [2.25, 1.5, 2.75, 2.0]},
    results=(
        "the dict of curves (label, x and y)",
        "the list of axis labels",
        "the legend",
        "the list of vertical lines",
    ),
    differentiable=False,
    observe=_observe_losses,
)
def plot_losses(axes: Axes, train: list[float], validation: list[float]) -> None:
    """The solution."""
    _draw_losses(axes, train, validation)


def _draw_losses(
    axes: Axes,
    train: list[float],
    validation: list[float],
    *,
    first: int = 1,
    labels: Sequence[str] = ("training", "validation"),
    axis_labels: Sequence[str] = ("epoch", "loss"),
    legend: bool = True,
    best: Callable[[list[float], list[float]], float] = lambda train, validation: validation.index(min(validation)),
    marked: bool = True,
) -> None:
    epochs = range(first, first + len(train))
    axes.plot(epochs, train, label=labels[0])
    axes.plot(epochs, validation, label=labels[1])
    if marked:
        axes.axvline(best(train, validation) + first, linestyle=":")
    axes.set(xlabel=axis_labels[0], ylabel=axis_labels[1])
    if legend:
        axes.legend()


@plot_losses.mistake(
    "epochs counted from 0", "Your x-axis starts at epoch 0. Readers count from 1; pass matplotlib the x values, too."
)
def _(*inputs: Any) -> None:
    _draw_losses(*inputs, first=0)


@plot_losses.symptom
def _(wrong: Sequence[Wrong]) -> Finding | None:
    if not all(len(case.yours[0]) == 2 and {*case.yours[0]} != {"training", "validation"} for case in wrong):
        return None
    return Finding(
        "the curves have other labels",
        "Label your curves `training` and `validation`, with the argument `label=` of `plot`. The check finds them by "
        "these words.",
    )


@plot_losses.mistake("no legend", "Your curves have labels, but no one can see them: the legend is missing.")
def _(*inputs: Any) -> None:
    _draw_losses(*inputs, legend=False)


@plot_losses.mistake(
    "labels swapped", "Your labels are swapped: the curve that you call training shows the validation loss."
)
def _(*inputs: Any) -> None:
    _draw_losses(*inputs, labels=("validation", "training"))


@plot_losses.mistake(
    "axes without labels", "Your axes have no labels. A reader can't know whether x counts epochs, steps or hours."
)
def _(*inputs: Any) -> None:
    _draw_losses(*inputs, axis_labels=("", ""))


@plot_losses.mistake("axis labels swapped", "The labels of your axes are swapped: x is the epoch, and y the loss.")
def _(*inputs: Any) -> None:
    _draw_losses(*inputs, axis_labels=("loss", "epoch"))


@plot_losses.mistake(
    "the best epoch isn't marked", "The vertical line that shows which epoch's weights are kept is missing."
)
def _(*inputs: Any) -> None:
    _draw_losses(*inputs, marked=False)


@plot_losses.mistake(
    "the best training loss is marked",
    "Your line marks the lowest training loss, which is nearly always the last. The weights are kept where the "
    "validation loss is lowest.",
)
def _(*inputs: Any) -> None:
    _draw_losses(*inputs, best=lambda train, validation: train.index(min(train)))


@plot_losses.mistake(
    "the line is one epoch too early",
    "Your curves count from 1, but the vertical line uses an index, which counts from 0. It marks the epoch before.",
)
def _(*inputs: Any) -> None:
    _draw_losses(*inputs, best=lambda train, validation: validation.index(min(validation)) - 1)


@plot_losses.mistake("the last epoch is marked", "Your line marks the last epoch, not the one with the lowest loss.")
def _(*inputs: Any) -> None:
    _draw_losses(*inputs, best=lambda train, validation: len(validation) - 1)


@plot_losses.mistake(
    "the last of several lowest losses is marked",
    "If several epochs have the same lowest loss, your line marks the last of them. Training keeps the weights of the "
    "first: an equal loss is no improvement.",
)
def _(*inputs: Any) -> None:
    _draw_losses(*inputs, best=lambda _, losses: max(i for i, loss in enumerate(losses) if loss == min(losses)))


@plot_losses.mistake(
    "curves counted from 0, but not the line",
    "Your line is in the right place, but your curves start at epoch 0: pass matplotlib the x values, too.",
)
def _(*inputs: Any) -> None:
    _draw_losses(*inputs, first=0, best=lambda _, losses: losses.index(min(losses)) + 1)


@plot_losses.mistake(
    "drawn into another figure",
    "Nothing is in the axes that you got. Functions of pyplot draw into its current figure: call the methods of "
    "`axes`.",
)
def _(axes: Axes, train: list[float], validation: list[float]) -> None:
    _draw_losses(Figure().subplots(), train, validation)


@plot_losses.mistake(
    "a horizontal line",
    "Your line is horizontal. The best epoch is a place on the x-axis: mark it with a vertical line.",
)
def _(axes: Axes, train: list[float], validation: list[float]) -> None:
    _draw_losses(axes, train, validation, marked=False)
    axes.axhline(min(validation))


@plot_losses.mistake(
    "the line at the loss instead of the epoch",
    "Your line is at the lowest loss itself. Which epoch does it belong to?",
)
def _(*inputs: Any) -> None:
    axes, train, validation = inputs
    _draw_losses(axes, train, validation, best=lambda _, losses: min(losses) - 1)


@plot_losses.mistake(
    "the highest validation loss is marked",
    "Your line marks the highest validation loss. Mark the lowest.",
)
def _(*inputs: Any) -> None:
    _draw_losses(*inputs, best=lambda _, losses: losses.index(max(losses)))


@plot_losses.mistake(
    "the highest training loss is marked",
    "Your line marks the highest training loss. Mark the lowest validation loss.",
)
def _(*inputs: Any) -> None:
    _draw_losses(*inputs, best=lambda train, _: train.index(max(train)))


@plot_losses.mistake(
    "the first epoch is marked",
    "Your line always marks the first epoch. Mark the one with the lowest validation loss.",
)
def _(*inputs: Any) -> None:
    _draw_losses(*inputs, best=lambda train, validation: 0)


@plot_losses.mistake(
    "the line is one epoch too late",
    "Your line marks the epoch after the best one. An index counts from 0 and your epochs from 1: add 1 only once.",
)
def _(*inputs: Any) -> None:
    _draw_losses(*inputs, best=lambda train, validation: validation.index(min(validation)) + 1)


@plot_losses.mistake(
    "a horizontal line at the number of the epoch",
    "Your line is horizontal. The epoch is on the x-axis: mark it with a vertical line.",
)
def _(*inputs: Any) -> None:
    axes, train, validation = inputs
    _draw_losses(axes, train, validation, marked=False)
    axes.axhline(validation.index(min(validation)) + 1)


@plot_losses.mistake(
    "the x-axis without a label",
    "Your x-axis has no label. (`axes.xlabel = …` sets none: call the method that does.)",
)
def _(*inputs: Any) -> None:
    _draw_losses(*inputs, axis_labels=("", "loss"))


@plot_losses.mistake(
    "the y-axis without a label",
    "Your y-axis has no label. (`axes.ylabel = …` sets none: call the method that does.)",
)
def _(*inputs: Any) -> None:
    _draw_losses(*inputs, axis_labels=("epoch", ""))


@plot_losses.mistake(
    "only the training loss drawn",
    "The curve of the validation loss is missing.",
)
def _(*inputs: Any) -> None:
    axes, train, validation = inputs
    _draw_losses(axes, train, validation)
    axes.get_lines()[1].remove()
    axes.legend()


@plot_losses.mistake(
    "x and y swapped",
    "In a plot, the first argument is x. The epochs are on the x-axis.",
)
def _(*inputs: Any) -> None:
    axes, train, validation = inputs
    _draw_losses(axes, train, validation)
    for line in axes.get_lines()[:2]:
        line.set_data(*line.get_data()[::-1])


# 8 --------------------------------------------------------------------------------------------------------------------


def _observe_attention(answer: Any, weights: Tensor, source: list[str], target: list[str]) -> tuple[Any, ...]:
    axes = Figure().subplots()
    answer(axes, weights, source, target)
    if not axes.images and axes.collections:
        raise RefusedError(
            "no image in the axes\nYour code draws the weights in another way, such as with `pcolormesh`, `contourf` "
            "or seaborn's `heatmap`. This exercise asks for the method `imshow` of the axes. In an image, the first "
            "row is at the top, and the tick 0 is in the middle of its cell. In a mesh, the first row is at the "
            "bottom, and the tick 0 is at the edge of its cell, so the labels would need other places."
        )
    if not axes.images:
        raise RefusedError(
            "no image in the axes\nUse the method `imshow` of the axes that you get. The functions of pyplot draw into "
            "a figure of their own, and other methods, such as `plot`, draw no image."
        )
    image = axes.images[-1]  # it covers those that were drawn before
    array = torch.tensor(np.asarray(image.get_array()).tolist())
    columns = _tick_texts(axes.get_xticks(), axes.get_xticklabels(), len(source))
    rows = _tick_texts(axes.get_yticks(), axes.get_yticklabels(), len(target))
    return array, columns, rows, axes.yaxis_inverted(), _numbers(image.get_clim())


def _tick_texts(positions: Any, labels: Any, count: int) -> list[str]:
    """The text at each of the positions 0, 1, …; empty where there is none."""
    found = {float(position): label.get_text() for position, label in zip(positions, labels, strict=False)}
    return [found.get(float(i), "") for i in range(count)]


@topic.exercise(
    {
        "weights": torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]),
        "source": ["the", "dog", "sleeps"],
        "target": ["der", "Hund"],
    },
    {"weights": numbers(4, 4).softmax(-1), "source": list("abcd"), "target": list("wxyz")},
    {"weights": numbers(3, 5, seed=1).softmax(-1), "source": list("abcde"), "target": list("xyz")},
    results=(
        "the image",
        "the list of labels of the columns",
        "the list of labels of the rows",
        "that the first row is at the top",
        "the colour scale",
    ),
    keep=("weights",),
    differentiable=False,
    observe=_observe_attention,
)
def plot_attention(axes: Axes, weights: Tensor, source: list[str], target: list[str]) -> None:
    """The solution."""
    _draw_attention(axes, weights, source, target)


def _draw_attention(
    axes: Axes,
    weights: Tensor,
    columns: list[str],
    rows: list[str],
    *,
    origin: Any = "upper",
    scale: tuple[float | None, float | None] = (0.0, 1.0),
    first: int = 0,
) -> None:
    axes.imshow(weights.tolist(), vmin=scale[0], vmax=scale[1], origin=origin)
    axes.set_xticks(range(first, first + len(columns)), columns)
    axes.set_yticks(range(first, first + len(rows)), rows)


@plot_attention.mistake(
    "transposed",
    "Your heat map is transposed. Each row is a query, that is a token of the target, and its weights sum to one.",
)
def _(axes: Axes, weights: Tensor, source: list[str], target: list[str]) -> None:
    _draw_attention(axes, weights.T, target, source)


@plot_attention.mistake(
    "image transposed, but not the labels",
    "Your image is transposed, and the labels aren't: they now belong to other cells. Rows are queries.",
)
def _(axes: Axes, weights: Tensor, source: list[str], target: list[str]) -> None:
    _draw_attention(axes, weights.T, source, target)


@plot_attention.mistake(
    "labels swapped", "Your labels are on the wrong axes: columns are keys, which are the source's tokens."
)
def _(axes: Axes, weights: Tensor, source: list[str], target: list[str]) -> None:
    _draw_attention(axes, weights, target, source)


@plot_attention.mistake(
    "no labels", "Without its tokens, a heat map shows nothing. Give each row and each column its token."
)
def _(axes: Axes, weights: Tensor, source: list[str], target: list[str]) -> None:
    axes.imshow(weights.tolist(), vmin=0.0, vmax=1.0)


@plot_attention.mistake(
    "labels without positions",
    "You set the labels but not the positions of the ticks, so matplotlib puts them wherever it has placed ticks. Set "
    "both at once.",
)
def _(axes: Axes, weights: Tensor, source: list[str], target: list[str]) -> None:
    axes.imshow(weights.tolist(), vmin=0.0, vmax=1.0)
    axes.set_xticklabels(source)
    axes.set_yticklabels(target)


@plot_attention.mistake(
    "ticks counted from 1",
    "You count the ticks from 1, so each label is one row or column too far. In an image, the first row and the first "
    "column are at 0.",
)
def _(axes: Axes, weights: Tensor, source: list[str], target: list[str]) -> None:
    _draw_attention(axes, weights, source, target, first=1)


@plot_attention.mistake(
    "the first row at the bottom",
    "Your first row is at the bottom, so the translation reads upwards. Images in matplotlib can start at either end.",
)
def _(axes: Axes, weights: Tensor, source: list[str], target: list[str]) -> None:
    _draw_attention(axes, weights, source, target, origin="lower")


@plot_attention.mistake(
    "each image has its own scale",
    "You let matplotlib choose the scale, so the largest weight always gets the brightest colour, be it 0.9 or 0.09. "
    "Fix the scale from 0 to 1, so that heat maps can be compared.",
)
def _(axes: Axes, weights: Tensor, source: list[str], target: list[str]) -> None:
    _draw_attention(axes, weights, source, target, scale=(None, None))


@plot_attention.mistake(
    "rows scaled to their largest weight",
    "You divide each row by its largest weight. Then every row looks sharp, even one that attends to everything alike.",
)
def _(axes: Axes, weights: Tensor, source: list[str], target: list[str]) -> None:
    _draw_attention(axes, weights / weights.amax(-1, keepdim=True), source, target)


@plot_attention.mistake(
    "the colour scale begins at the smallest weight",
    "Only the upper end of your colour scale is fixed. The lower end should be 0 in every figure.",
)
def _(axes: Axes, weights: Tensor, source: list[str], target: list[str]) -> None:
    _draw_attention(axes, weights, source, target, scale=(None, 1.0))


@plot_attention.mistake(
    "the colour scale ends at the largest weight",
    "Only the lower end of your colour scale is fixed. The upper end should be 1 in every figure.",
)
def _(axes: Axes, weights: Tensor, source: list[str], target: list[str]) -> None:
    _draw_attention(axes, weights, source, target, scale=(0.0, None))


@plot_attention.mistake(
    "the colour scale upside down",
    "Your colour scale goes from 1 to 0. The lowest value comes first.",
)
def _(axes: Axes, weights: Tensor, source: list[str], target: list[str]) -> None:
    _draw_attention(axes, weights, source, target, scale=(1.0, 0.0))


@plot_attention.mistake(
    "the columns without labels",
    "The columns have no labels. Each belongs to a token of the source. (`set_xlabel` names the whole axis.)",
)
def _(axes: Axes, weights: Tensor, source: list[str], target: list[str]) -> None:
    axes.imshow(weights.tolist(), vmin=0.0, vmax=1.0)
    axes.set_yticks(range(len(target)), target)


@plot_attention.mistake(
    "the rows without labels",
    "The rows have no labels. Each belongs to a token of the target. (`set_ylabel` names the whole axis.)",
)
def _(axes: Axes, weights: Tensor, source: list[str], target: list[str]) -> None:
    axes.imshow(weights.tolist(), vmin=0.0, vmax=1.0)
    axes.set_xticks(range(len(source)), source)


@plot_attention.mistake(
    "the labels of the rows in reverse",
    "Your rows are labelled from the last token to the first. In an image, row 0 is at the top.",
)
def _(axes: Axes, weights: Tensor, source: list[str], target: list[str]) -> None:
    _draw_attention(axes, weights, source, target[::-1])


@plot_attention.mistake(
    "the rows in reverse",
    "You turn the weights upside down, and the labels with them. Row 0 is at the top of an image already.",
)
def _(axes: Axes, weights: Tensor, source: list[str], target: list[str]) -> None:
    _draw_attention(axes, weights.flip(0), source, target[::-1])


@plot_attention.mistake(
    "a softmax too many",
    "You apply a softmax to the weights. They come from one already: each row adds up to 1.",
)
def _(axes: Axes, weights: Tensor, source: list[str], target: list[str]) -> None:
    _draw_attention(axes, weights.softmax(-1), source, target)


# 9 --------------------------------------------------------------------------------------------------------------------

BLEU_GOAL = 40
"""What the trained model must reach on sentences that it has never seen."""

TRAINING_SECONDS = 120
"""Computing time for the training and its evaluation."""


def _draw_data() -> dict[str, Any]:
    torch.manual_seed(0)
    data = pocket_data()
    return {"train": data.train, "validation": data.validation, "vocab_size": len(data.tokenizer)}


_TRAINED_IN_EVALUATION_MODE = (
    "trained in evaluation mode\nWhenever gradients were recorded, your model was in evaluation mode, so nothing was "
    "dropped in training. `given.fit` switches to training mode in each epoch: does your function for the loss switch "
    "back?"
)

_VALIDATED_IN_TRAINING_MODE = (
    "validated in training mode\nYour model drops entries while you validate, so the validation loss is too high, and "
    "the best epoch is partly a matter of chance. `given.validation_loss` switches to evaluation mode, and back."
)


@contextmanager
def _watched_modes(inputs: Any) -> Iterator[None]:
    """Refuse training without dropout, and validation with it; neither leaves a certain trace in the model."""
    seen: set[tuple[bool, bool]] = set()

    def look(module: nn.Module, _: Any) -> None:
        if isinstance(module, nn.Dropout) and module.p > 0:
            seen.add((torch.is_grad_enabled(), module.training))

    handle = nn.modules.module.register_module_forward_pre_hook(look)
    try:
        yield
    finally:
        handle.remove()
    if (True, False) in seen and (True, True) not in seen:
        raise RefusedError(_TRAINED_IN_EVALUATION_MODE)
    if (False, True) in seen and not {(False, False), (True, False)} & seen:
        raise RefusedError(_VALIDATED_IN_TRAINING_MODE)


def _find_post_norm(model: nn.Module) -> str | None:
    """Encoder layers that normalise after each sublayer, unlike the decoder layers."""
    if all(part.norm_first for part in model.modules() if isinstance(part, Residual)):
        return None
    return (
        '`norm="pre"` is missing\nYour encoder layers normalise each sum, as in the paper, and your decoder layers '
        'each input. In the `ModelConfig`, `norm="pre"` makes the package\'s layers pre-norm, too.'
    )


def _find_other_losses(model: nn.Module, train: list[float], validation: list[float]) -> str | None:
    """Lists that are swapped, validation losses that aren't those of the validation set, or training on other data."""
    data = pocket_data()
    unseen, seen, test = (
        _validate(model, _make_batches(pairs, 1000, 0)) for pairs in (data.validation, data.train, data.test)
    )
    best = min(validation, default=math.nan)
    for name, loss, other in (("validation", unseen, test), ("test", test, unseen)):
        if loss < other / 2:
            return (
                f"trained on the {name} pairs\nOn them your model has a loss of {loss:.2f}, and {other:.2f} on other "
                "sentences that it shouldn't know either. What it has been trained on can't show how well it "
                "translates: train on `train` alone."
            )
    if math.isclose(min(train, default=math.nan), unseen, rel_tol=1e-3) and not math.isclose(
        best, unseen, rel_tol=1e-3
    ):
        return (
            "training and validation losses are swapped\nThe lowest of your training losses is the loss on the "
            "validation set. Return the model, then the training losses, then the validation losses."
        )
    if math.isclose(best, seen, rel_tol=1e-3) and not math.isclose(best, unseen, rel_tol=1e-3):
        return (
            "validated on the training data\nYour lowest validation loss is the loss on the training data. It would "
            "never show that the model memorises them: validate on the validation set."
        )
    if math.isclose(best, test, rel_tol=1e-3) and not math.isclose(best, unseen, rel_tol=1e-3):
        return (
            "validated on the test pairs\nYour lowest validation loss is the loss on them. The test set is for the "
            "end, when nothing is chosen any more: validate on `validation`."
        )
    if best < unseen / 2:
        return (
            f"you report a validation loss of {best:.2f}, and it is {unseen:.2f}\nThe second number is the loss of the "
            "next token. The model probably copies the token that it has just read: in your losses, are the labels "
            "shifted by one position?"
        )
    return None


def _describe_returned(result: Any) -> str:
    if not isinstance(result, tuple | list):
        return f"Your function returns {type_with_article(result)} only."
    if len(result) == 3:
        return f"The first of your three values is {type_with_article(result[0])}. It should be the trained model."
    return (
        f"Your function returns {len(result)}. What `given.fit` returns is a pair: its two lists should follow the "
        "model one after the other, and not as a pair."
    )


def _examine_run(result: Any) -> str | None:
    """Look for what the curves and the trained model give away, the clearest signs first."""
    if not (isinstance(result, tuple | list) and len(result) == 3 and isinstance(result[0], nn.Module)):
        said = "it should return three values: the model, the training losses and the validation losses"
        return said if result is None else f"{said}\n{_describe_returned(result)}"
    model, train, validation = result
    if not all(
        isinstance(losses, list | tuple) and all(isinstance(loss, SupportsFloat) for loss in losses)
        for losses in (train, validation)
    ):
        return "the losses aren't two lists of numbers\nReturn the two lists that `given.fit` returns, after the model."
    model.eval()
    data = pocket_data()
    if not all(math.isfinite(loss) for loss in (*train, *validation)):
        return (
            "the losses are no longer numbers\nThe training diverged: lower the learning rate, and check that "
            "`given.fit` does the steps, since it clips the gradients."
        )
    guessing = math.log(len(data.tokenizer))
    source, target = next(iter(_make_batches(data.test, 400, 0)))
    return (
        _find_post_norm(model)
        or _find_chance(model, source, target)
        or (_judge_curves(train, validation, guessing) if _has_diverged(train, guessing) else None)
        or _find_blindness(model, source, target)
        or _find_leak(model, source, target)
        or _find_frozen(model, source, target)
        or _find_other_losses(model, train, validation)
        or _find_padding(model, source, target)
        or _judge_curves(train, validation, guessing)
        or _judge_translations(model, validation)
    )


def _are_same(a: Tensor, b: Tensor) -> bool:
    """Whether two results differ by no more than rounding."""
    return bool((a - b).abs().max() <= 1e-5 * a.abs().max())


def _find_chance(model: nn.Module, source: Tensor, target: Tensor) -> str | None:
    """A model with dropout in evaluation mode."""
    with torch.no_grad():
        if _are_same(model(source, target), model(source, target)):
            return None
    return (
        "the same input gives another result each time\nEven in evaluation mode your model drops entries. PyTorch "
        "switches dropout off in all modules that it knows: is one of yours hidden in a Python list?"
    )


def _find_leak(model: nn.Module, source: Tensor, target: Tensor) -> str | None:
    """Positions that see later tokens, or padding."""
    with torch.no_grad():
        logits = model(source, target)
        changed = target.clone()
        changed[:, -1] = EOS + 2
        if not _are_same(logits[:, :-1], model(source, changed)[:, :-1]):
            return (
                "the decoder sees later tokens\nYour training loss looks excellent because each position reads the "
                "token that it should predict. At inference there is nothing to read. Use a causal mask."
            )
        if not _are_same(logits, model(F.pad(source, (0, 3), value=PAD), target)):
            return (
                "padding changes the result\nThe same sentence gets other logits when its batch is wider, so a "
                "translation depends on its neighbours in the batch. Padding of the source has to be masked."
            )
    return None


def _find_blindness(model: nn.Module, source: Tensor, target: Tensor) -> str | None:
    """A model that ignores the source, or the order of its words."""
    with torch.no_grad():
        logits = model(source, target)
        if _are_same(logits, model(source.roll(1, 0), target)):
            return (
                "the model doesn't read the source\nWith another source its logits stay the same. It has learned which "
                "German words follow each other, and translates nothing: look at the cross-attention."
            )
        row = source[:1, : int((source[0] != PAD).sum())]
        if _are_same(logits[:1], model(row.flip(1), target[:1])):
            return (
                "the order of the source's words doesn't matter\nRead backwards, a sentence gets the same logits: the "
                "encoder has no positional encoding, so to it a sentence is a bag of words."
            )
    return None


def _find_frozen(model: nn.Module, source: Tensor, target: Tensor) -> str | None:
    """Parameters that no gradient reaches, and an output matrix of its own."""
    table = getattr(model, "embedding", None), getattr(model, "unembedding", None)
    if all(isinstance(layer, nn.Module) for layer in table) and table[0].weight is not table[1].weight:  # type: ignore[union-attr]
        return (
            "the embeddings aren't tied\nInput and output started with the same numbers, perhaps, but they are two "
            "parameters, and training has driven them apart. Assign the parameter itself."
        )
    model.zero_grad()
    with torch.enable_grad():
        F.cross_entropy(model(source, target[:, :-1]).mT, target[:, 1:], ignore_index=PAD).backward()
    stuck = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    model.zero_grad()
    if stuck:
        return (
            f"{len(stuck)} parameters get no gradient, such as `{stuck[0]}`\nThey still have the numbers that they had "
            "at first. Something between them and the loss cuts the gradient off: look for `detach()`, "
            "`no_grad()` and `requires_grad_(False)`."
        )
    return None


def _find_padding(model: nn.Module, source: Tensor, target: Tensor) -> str | None:
    """A model that has learned to predict padding: the first is the only one that it can't copy from its input."""
    with torch.no_grad():
        after_eos = model(source, target).argmax(-1)[target == EOS]
    if (after_eos == PAD).float().mean() < 0.5:
        return None
    return (
        "after eos the model predicts padding\nIt has learned that because padding counts as a label in your loss. The "
        "loss then looks better than the translations are: leave those positions out."
    )


def _has_diverged(train: list[float], guessing: float) -> bool:
    """Whether it learned nothing; then it may also look as if it ignored the source, or the order of its words."""
    return len(train) > 1 and train[-1] > max(guessing, 0.5 * train[0])


def _judge_curves(train: list[float], validation: list[float], guessing: float) -> str | None:
    if not train or len(train) != len(validation):
        return f"{len(train)} training losses and {len(validation)} validation losses\nReturn what `given.fit` returns."
    if min(validation) > guessing and train[-1] < guessing / 2:
        return (
            f"the training loss falls to {train[-1]:.2f}, and the validation loss is {validation[-1]:.2f}, worse than "
            f"guessing ({guessing:.2f})\nThe model learns something, but not what it is validated on. It probably "
            "copies the token that it has just read: in your loss, are the labels shifted by one position?"
        )
    if min(validation) < guessing and train[-1] > 3 * guessing:
        return (
            f"the training loss ends at {train[-1]:.1f}, and the validation loss at {validation[-1]:.2f}\nThey should "
            "be of similar size. Is your training loss the sum over the tokens of a batch? It should be their mean."
        )
    if min(validation) > 0.8 * guessing and train[-1] < 0.7 * guessing:
        return (
            f"the training loss falls to {train[-1]:.2f}, but the validation loss stays near guessing "
            f"({guessing:.2f})\nThe model memorises its training pairs. Does your loss take the source and the "
            "target in the right order, and do you train on all pairs?"
        )
    # in a single long epoch, the mean loss is low, too
    if _has_diverged(train, guessing) or train[-1] > max(0.7 * train[0], 0.5 * guessing):
        epochs = "1 epoch" if len(train) == 1 else f"{len(train)} epochs"
        return (
            f"the training loss goes from {train[0]:.2f} to {train[-1]:.2f} in {epochs}\nThat is far too little for "
            "these short sentences. Does it train for too few epochs? Is the learning rate too low or too high? Does "
            "the optimiser have the parameters of the model that you train?"
        )
    return None


def _judge_translations(model: nn.Module, validation: list[float]) -> str | None:
    """Translate sentences that the learner's code has never had."""
    data = pocket_data()
    score = bleu_score.reference(model, _make_batches(data.test, 2000, 0), translate, data.tokenizer.decode)
    if score >= BLEU_GOAL:
        return None
    if validation[-1] == min(validation):
        advice = "The validation loss was still falling at the end: train for more epochs."
    else:
        advice = (
            "The validation loss has passed its minimum, so more epochs won't help. Do you train on all pairs? If so, "
            "change the size of the model, the dropout or the learning rate."
        )
    return f"BLEU {score:.1f} on unseen sentences, and the goal is {BLEU_GOAL}\n{advice}"


@topic.training_exercise(_draw_data, _examine_run, TRAINING_SECONDS, _watched_modes)
def train_translator(
    train: list[Pair], validation: list[Pair], vocab_size: int
) -> tuple[nn.Module, list[float], list[float]]:
    """The solution."""
    return _train_translator(train, validation, vocab_size)


def _loss_of(model: nn.Module, batch: Batch) -> Tensor:
    source, target = batch
    return F.cross_entropy(model(source, target[:, :-1]).mT, target[:, 1:], ignore_index=PAD)


def _train_translator(
    train: list[Pair],
    validation: list[Pair],
    vocab_size: int,
    *,
    build: Callable[[ModelConfig], nn.Module] = Transformer,
    loss_of: Callable[[nn.Module, Batch], Tensor] = _loss_of,
    rate: float = 5e-3,
    max_epochs: int = 14,
    **settings: Any,
) -> tuple[nn.Module, list[float], list[float]]:
    config = ModelConfig(vocab_size, 64, 4, 128, 1, dropout=0.1, norm="pre", max_length=64)
    model = build(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    held_out = _make_batches(validation, 1000, 0)
    losses = _fit(
        model,
        optimizer,
        lambda epoch: _make_batches(train, 1000, epoch),
        loss_of,
        lambda model: _validate(model, held_out),
        max_epochs,
        3,
        **settings,
    )
    return model, *losses
