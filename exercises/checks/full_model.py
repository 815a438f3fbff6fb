"""Checks of 07 the whole model (§3.1, §3.4)."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from exercises.check import Topic, numbers
from transformer.config import ModelConfig
from transformer.model import Transformer

topic = Topic()
check, given = topic.check, topic.given

Encoder = Sequence[Callable[[Tensor], Tensor]]
Decoder = Sequence[Callable[[Tensor, Tensor], Tensor]]


# 1 --------------------------------------------------------------------------------------------------------------------


def plus_one(x: Tensor) -> Tensor:
    """one more"""
    return x + 1


def doubled(x: Tensor) -> Tensor:
    """twice as much"""
    return 2 * x


def plus_memory(y: Tensor, memory: Tensor) -> Tensor:
    """the mean of the memory added"""
    return y + memory.mean(1, keepdim=True)


def times_memory(y: Tensor, memory: Tensor) -> Tensor:
    """multiplied by the sum of the memory"""
    return y * memory.sum(1, keepdim=True)


@topic.exercise(
    {
        "source": torch.tensor([[[1.0], [2.0]]]),
        "target": torch.tensor([[[5.0]]]),
        "encoder": [plus_one, doubled],
        "decoder": [plus_memory, times_memory],
    },
    {
        "source": numbers(2, 3, 4),
        "target": numbers(2, 3, 4, seed=1),
        "encoder": [doubled, plus_one, doubled],
        "decoder": [times_memory, plus_memory, plus_memory],
    },
)
def stacks(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    """All of the encoder, and then the decoder."""
    return _decoded(target, [_encoded(source, encoder)] * len(decoder), decoder)


def _encoded(x: Tensor, encoder: Encoder) -> Tensor:
    for layer in encoder:
        x = layer(x)
    return x


def _decoded(y: Tensor, memories: Sequence[Tensor], decoder: Decoder) -> Tensor:
    for layer, memory in zip(decoder, memories, strict=True):
        y = layer(y, memory)
    return y


@stacks.mistake(
    "each decoder layer looks at the encoder layer beside it",
    "The memory of a decoder layer is for you what the encoder layer of the same number says. It is what the last "
    "one says, for all.",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    memories = [_encoded(source, encoder[: i + 1]) for i in range(len(decoder))]
    return _decoded(target, memories, decoder)


@stacks.mistake(
    "only the first decoder layer looks at the memory",
    "Behind the first one the decoder layers get something else for a memory. All of them look at the same.",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    y, memory = target, _encoded(source, encoder)
    for layer in decoder:
        y = memory = layer(y, memory)
    return y


@stacks.mistake(
    "the source for a memory",
    "The decoder looks at the source itself. The encoder is not used.",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    return _decoded(target, [source] * len(decoder), decoder)


@stacks.mistake(
    "each encoder layer reads the source",
    "Every encoder layer gets the source, and only the last one's answer counts. Each should read what the one "
    "before said.",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    return _decoded(target, [encoder[-1](source)] * len(decoder), decoder)


@stacks.mistake(
    "each decoder layer reads the target",
    "Every decoder layer gets the target as it was, and only the last one's answer counts. Each should read what "
    "the one before said.",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    return decoder[-1](target, _encoded(source, encoder))


@stacks.mistake(
    "the last encoder layer left out",
    "The memory is what the last but one encoder layer says.",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    return _decoded(target, [_encoded(source, encoder[:-1])] * len(decoder), decoder)


@stacks.mistake(
    "target and source swapped",
    "The target goes through the encoder, and the source through the decoder.",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    return stacks.reference(target, source, encoder, decoder)


@stacks.mistake(
    "the memory comes back",
    "You return the memory. What does the decoder say?",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    return _encoded(source, encoder)


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"states": torch.tensor([[[1.0, 2.0]]]), "embedding": torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]])},
    {"states": numbers(2, 3, 4), "embedding": numbers(7, 4, seed=1)},
    {"states": numbers(2, 3, 5), "embedding": numbers(5, 5, seed=1)},
)
def unembed(states: Tensor, embedding: Tensor) -> Tensor:
    """A dot product with every row."""
    return torch.einsum("bld,vd->blv", states, embedding)


@unembed.mistake(
    "multiplied by √d_model",
    "The factor belongs to the way in. On the way out the dot product is all (§3.4).",
)
def _(states: Tensor, embedding: Tensor) -> Tensor:
    return states @ embedding.T * math.sqrt(states.size(-1))


@unembed.mistake(
    "divided by √d_model",
    "That is attention's scale. Here the size of the embedding sees to it that scores are not too large.",
)
def _(states: Tensor, embedding: Tensor) -> Tensor:
    return states @ embedding.T / math.sqrt(states.size(-1))


@unembed.mistake(
    "probabilities",
    "These are probabilities already. The loss wants scores, and makes of them what it needs.",
)
def _(states: Tensor, embedding: Tensor) -> Tensor:
    return (states @ embedding.T).softmax(-1)


@unembed.mistake(
    "logarithms of probabilities",
    "These are normalised already. The loss wants scores, and does that itself.",
)
def _(states: Tensor, embedding: Tensor) -> Tensor:
    return (states @ embedding.T).log_softmax(-1)


@unembed.mistake(
    "angles only",
    "You divide by the lengths of the vectors. The length of a word's row counts: it makes a word more or less likely.",
)
def _(states: Tensor, embedding: Tensor) -> Tensor:
    return torch.cosine_similarity(states[..., None, :], embedding, dim=-1)


@unembed.mistake(
    "the last position only",
    "You score the last position. In training all of them are asked at once.",
)
def _(states: Tensor, embedding: Tensor) -> Tensor:
    return states[:, -1] @ embedding.T


@unembed.mistake(
    "columns in place of rows",
    "It is an error, or, where the matrix happens to be square, wrong: you take dot products with columns. A word "
    "is a row.",
)
def _(states: Tensor, embedding: Tensor) -> Tensor:
    return states @ embedding


# 3 --------------------------------------------------------------------------------------------------------------------


@topic.exercise({"n_in": 2, "n_out": 6}, {"n_in": 512, "n_out": 2048}, {"n_in": 100, "n_out": 100})
def xavier_deviation(n_in: int, n_out: int) -> float:
    """Glorot and Bengio's."""
    return math.sqrt(2 / (n_in + n_out))


@xavier_deviation.mistake(
    "the variance",
    "That is the variance. Its root is asked for.",
)
def _(n_in: int, n_out: int) -> float:
    return 2 / (n_in + n_out)


@xavier_deviation.mistake(
    "the bound of the uniform distribution",
    "That is how far a uniform distribution reaches that has this variance. Its deviation is smaller, by the root "
    "of three.",
)
def _(n_in: int, n_out: int) -> float:
    return math.sqrt(6 / (n_in + n_out))


@xavier_deviation.mistake(
    "inputs only",
    "You look at the way forward alone. What is summed over on the way back?",
)
def _(n_in: int, n_out: int) -> float:
    return math.sqrt(1 / n_in)


@xavier_deviation.mistake(
    "outputs only",
    "You look at the way back alone. What is summed over on the way forward?",
)
def _(n_in: int, n_out: int) -> float:
    return math.sqrt(1 / n_out)


@xavier_deviation.mistake(
    "twice over the inputs",
    "That is the rule for layers with a ReLU behind them, which loses half. Xavier's has both sides.",
)
def _(n_in: int, n_out: int) -> float:
    return math.sqrt(2 / n_in)


@xavier_deviation.mistake(
    "over the sum",
    "You divide one by the sum of the two numbers. Their mean is meant.",
)
def _(n_in: int, n_out: int) -> float:
    return math.sqrt(1 / (n_in + n_out))


@xavier_deviation.mistake(
    "upside down",
    "It grows with the number of inputs. The more are added, the smaller each has to be.",
)
def _(n_in: int, n_out: int) -> float:
    return math.sqrt((n_in + n_out) / 2)


# 4 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"d": 4, "f": 8, "n": 1, "v": 10}, {"d": 4, "f": 12, "n": 3, "v": 0}, {"d": 512, "f": 2048, "n": 6, "v": 37_000}
)
def count_parameters(d: int, f: int, n: int, v: int) -> int:
    """As the package's own model has them."""
    with torch.device("meta"):
        model = Transformer(ModelConfig(max(1, v), d, 2, f, n))
    return sum(p.numel() for p in model.parameters()) - (d if v == 0 else 0)


def _count(
    d: int, f: int, n: int, v: int, *, attentions: int = 3, norms: int = 5, biases: bool = True, matrices: int = 1
) -> int:
    attention = 4 * (d * d + biases * d)
    feed_forward = 2 * d * f + biases * (f + d)
    return n * (attentions * attention + 2 * feed_forward + norms * 2 * d) + matrices * v * d


@count_parameters.mistake(
    "no biases",
    "It is nearly right, and would be without biases: a linear layer has one for each output.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v, biases=False)


@count_parameters.mistake(
    "no norms",
    "It would be right without norms. Each has a factor and a shift for every feature.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v, norms=0)


@count_parameters.mistake(
    "four norms",
    "The decoder layer has three sublayers, and a norm for each of them. You count as many as in the encoder layer.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v, norms=4)


@count_parameters.mistake(
    "no cross-attention",
    "The decoder layer has one attention more than you count: that to the memory.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v, attentions=2)


@count_parameters.mistake(
    "three embeddings",
    "You count the matrix of the vocabulary three times. It is one matrix with three jobs.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v, matrices=3)


@count_parameters.mistake(
    "no embedding",
    "The layers are right. The matrix of the vocabulary is missing.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v, matrices=0)


@count_parameters.mistake(
    "one layer",
    "That is right for one layer on each side. There are n.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, 1, v)


@count_parameters.mistake(
    "the encoder only",
    "The decoder's layers are missing.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return n * (4 * (d * d + d) + 2 * d * f + f + d + 4 * d) + v * d


@count_parameters.mistake(
    "a norm with one number a feature",
    "A norm has two numbers for each feature, a factor and a shift. You count one.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v) - n * 5 * d


# 5 --------------------------------------------------------------------------------------------------------------------


@topic.exercise({"parameters": 10}, {"parameters": 63_082_496}, results=("training", "use"))
def memory(parameters: int) -> tuple[int, int]:
    """Weights, gradients and two means in four bytes each; weights in two."""
    return 16 * parameters, 2 * parameters


@memory.mistake(
    "weights only",
    "For training you count the weights. What else is there for each of them?",
)
def _(parameters: int) -> tuple[int, int]:
    return 4 * parameters, 2 * parameters


@memory.mistake(
    "no means",
    "For training you count weights and gradients. Adam keeps something as well.",
)
def _(parameters: int) -> tuple[int, int]:
    return 8 * parameters, 2 * parameters


@memory.mistake(
    "one mean",
    "Adam keeps two means for each parameter, of the gradient and of its square. You count one.",
)
def _(parameters: int) -> tuple[int, int]:
    return 12 * parameters, 2 * parameters


@memory.mistake(
    "use in float32",
    "Training is right. In use half precision will do.",
)
def _(parameters: int) -> tuple[int, int]:
    return 16 * parameters, 4 * parameters


@memory.mistake(
    "bits",
    "You count bits. A byte has eight of them.",
)
def _(parameters: int) -> tuple[int, int]:
    return 128 * parameters, 16 * parameters


@memory.mistake(
    "numbers, not bytes",
    "You count numbers. How many bytes has each?",
)
def _(parameters: int) -> tuple[int, int]:
    return 4 * parameters, parameters


@memory.mistake(
    "swapped",
    "The two are right and in the wrong order: training first.",
)
def _(parameters: int) -> tuple[int, int]:
    return 2 * parameters, 16 * parameters
