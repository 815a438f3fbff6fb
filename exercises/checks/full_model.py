"""Checks of 07 the whole model (§3.1, §3.4)."""

import math
from collections.abc import Callable, Sequence
from itertools import product

import torch
import torch._dynamo  # making a model on the device meta would import it, which takes seconds and belongs to no answer
from torch import Tensor

from exercises.check import Topic
from exercises.tensors import numbers
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
    {
        "source": numbers(1, 2, 3),
        "target": numbers(1, 3, 3, seed=1),
        "encoder": [plus_one],
        "decoder": [plus_memory, times_memory, plus_memory],
    },
    insight="At inference, the encoder runs once for each sentence, and the decoder once for each new token.",
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
    "each decoder layer gets the encoder layer of the same number",
    "You give each decoder layer the output of the encoder layer with the same number. All of them get the same "
    "memory, the output of the last encoder layer.",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    memories = [_encoded(source, encoder[: i + 1]) for i in range(len(decoder))]
    return _decoded(target, memories, decoder)


@stacks.mistake(
    "only the first decoder layer gets the memory",
    "The first decoder layer gets the memory, but the later ones get something else. All of them attend to the same "
    "memory.",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    y, memory = target, _encoded(source, encoder)
    for layer in decoder:
        y = memory = layer(y, memory)
    return y


@stacks.mistake(
    "the source used as the memory",
    "Your decoder attends to the source itself, and the encoder isn't used. The memory is the output of the last "
    "encoder layer.",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    return _decoded(target, [source] * len(decoder), decoder)


@stacks.mistake(
    "every encoder layer reads the source",
    "Each of your encoder layers gets the source, so only the last one has any effect. Each layer should get the "
    "output of the one before.",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    return _decoded(target, [encoder[-1](source)] * len(decoder), decoder)


@stacks.mistake(
    "every decoder layer reads the target",
    "Each of your decoder layers gets the original target, so only the last one has any effect. Each layer should get "
    "the output of the one before.",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    return decoder[-1](target, _encoded(source, encoder))


@stacks.mistake(
    "only the last layer of each stack",
    "Each of your layers gets the source or the target itself, so only the last one of each stack has any effect. Each "
    "layer should get the output of the one before.",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    return decoder[-1](target, encoder[-1](source))


@stacks.mistake(
    "the last encoder layer left out",
    "Your memory is the output of the last encoder layer but one. Does your loop run over all layers?",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    return _decoded(target, [_encoded(source, encoder[:-1])] * len(decoder), decoder)


@stacks.mistake(
    "source and target swapped", "You send the target through the encoder and the source through the decoder."
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    return stacks.reference(target, source, encoder, decoder)


@stacks.mistake("the memory is returned", "You return the memory. Return the decoder's output.")
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    return _encoded(source, encoder)


@stacks.mistake(
    "as many decoder layers as encoder layers",
    "You run through the decoder as often as the encoder has layers. The two stacks may differ in depth: each has a "
    "list of its own.",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    return _decoded(target, [_encoded(source, encoder)] * len(encoder), decoder[: len(encoder)])


@stacks.mistake(
    "the memory overwritten in the decoder",
    "Each decoder layer reads the target again, and its output becomes the memory. It should be the other way "
    "round: the memory stays, and each layer goes on with the output of the one before.",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    memory = _encoded(source, encoder)
    for layer in decoder:
        memory = layer(target, memory)
    return memory


@stacks.mistake(
    "it ends after the first decoder layer",
    "You return the output of the first decoder layer. Is your `return` inside the loop?",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    return decoder[0](target, _encoded(source, encoder))


@stacks.mistake(
    "it ends after the first encoder layer",
    "You return the output of the first encoder layer. Is your `return` inside the loop? The result is the decoder's.",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    return encoder[0](source)


@stacks.mistake(
    "both stacks in a single loop",
    "You run through both lists at once, so a decoder layer reads the memory before the encoder has finished, and the "
    "loop ends with the shorter list. Run the whole encoder first, and then the decoder.",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    memory, y = source, target
    for encode, decode in zip(encoder, decoder, strict=False):
        memory = encode(memory)
        y = decode(y, memory)
    return y


@stacks.mistake(
    "the two arguments of a decoder layer swapped",
    "You give each decoder layer the memory as its first argument. The first argument is what the layer transforms: "
    "the target, and later the output of the layer before. The memory comes second.",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    y, memory = target, _encoded(source, encoder)
    for layer in decoder:
        y = layer(memory, y)
    return y


@stacks.mistake(
    "residual connections around the layers",
    "You add the input of each layer to its output. The residual connections are inside the layers already.",
)
def _(source: Tensor, target: Tensor, encoder: Encoder, decoder: Decoder) -> Tensor:
    memory, y = source, target
    for encode in encoder:
        memory = memory + encode(memory)
    for decode in decoder:
        y = y + decode(y, memory)
    return y


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"states": torch.tensor([[[1.0, 2.0]]]), "embedding": torch.tensor([[1.0, 2.0], [0.0, 3.0], [2.0, -2.0]])},
    {"states": numbers(2, 3, 4), "embedding": numbers(7, 4, seed=1)},
    {"states": numbers(2, 3, 5), "embedding": numbers(5, 5, seed=1)},
    insight="With tied weights, one matrix is both the first and the last layer, and gets gradients from both ends.",
)
def unembed(states: Tensor, embedding: Tensor) -> Tensor:
    """A dot product with every row."""
    return torch.einsum("bld,vd->blv", states, embedding)


@unembed.mistake(
    "multiplied by √d_model",
    "You multiply by √d_model. That factor belongs to the input embeddings; the logits are plain dot products (§3.4).",
)
def _(states: Tensor, embedding: Tensor) -> Tensor:
    return states @ embedding.T * math.sqrt(states.size(-1))


@unembed.mistake("divided by √d_model", "You divide by √d_model, as in attention. The logits are plain dot products.")
def _(states: Tensor, embedding: Tensor) -> Tensor:
    return states @ embedding.T / math.sqrt(states.size(-1))


@unembed.mistake("probabilities", "These are probabilities. The loss expects logits and applies the softmax itself.")
def _(states: Tensor, embedding: Tensor) -> Tensor:
    return (states @ embedding.T).softmax(-1)


@unembed.mistake(
    "log-probabilities", "These are log-probabilities. The loss expects logits and normalises them itself."
)
def _(states: Tensor, embedding: Tensor) -> Tensor:
    return (states @ embedding.T).log_softmax(-1)


@unembed.mistake(
    "cosines instead of dot products",
    "You divide by the lengths of the vectors. The length of a word's row matters: it can make a word more or less "
    "likely in general.",
)
def _(states: Tensor, embedding: Tensor) -> Tensor:
    return torch.cosine_similarity(states[..., None, :], embedding, dim=-1)


@unembed.mistake(
    "rows of length one",
    "You divide each row of the matrix by its length first. The length of a word's row matters: it can make a word "
    "more or less likely in general.",
)
def _(states: Tensor, embedding: Tensor) -> Tensor:
    return states @ (embedding / embedding.norm(dim=-1, keepdim=True)).T


@unembed.mistake(
    "the last position only",
    "You compute logits for the last position only. In training, every position predicts its next token.",
)
def _(states: Tensor, embedding: Tensor) -> Tensor:
    return states[:, -1] @ embedding.T


@unembed.mistake(
    "columns instead of rows",
    "You take dot products with the columns of the matrix, which fits only if it happens to be square. A word's "
    "vector is a row.",
)
def _(states: Tensor, embedding: Tensor) -> Tensor:
    return states @ embedding


@unembed.mistake(
    "reshaped instead of transposed",
    "You give the matrix another shape, but that doesn't move any number, so the embeddings are torn apart. Swap "
    "its axes.",
)
def _(states: Tensor, embedding: Tensor) -> Tensor:
    return states @ embedding.reshape(embedding.shape[::-1])


@unembed.mistake(
    "the most probable token",
    "You return the id of the most probable token at each position. Return the logits of all tokens.",
)
def _(states: Tensor, embedding: Tensor) -> Tensor:
    return (states @ embedding.T).argmax(-1)


# 3 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"n_in": 2, "n_out": 6},
    {"n_in": 512, "n_out": 2048},
    {"n_in": 100, "n_out": 100},
    {"n_in": 3, "n_out": 4},
    {"n_in": 9, "n_out": 5},
    insight="For a d × d matrix it is 1 / √d, so a layer's outputs are about as large as its inputs.",
)
def xavier_deviation(n_in: int, n_out: int) -> float:
    """Glorot and Bengio's."""
    return math.sqrt(2 / (n_in + n_out))


@xavier_deviation.mistake(
    "the variance instead of the standard deviation", "This is the variance. The standard deviation is its square root."
)
def _(n_in: int, n_out: int) -> float:
    return 2 / (n_in + n_out)


@xavier_deviation.mistake(
    "the bound of the uniform distribution",
    "This is the bound of a uniform distribution with the right variance. Its standard deviation is smaller, by a "
    "factor of √3.",
)
def _(n_in: int, n_out: int) -> float:
    return math.sqrt(6 / (n_in + n_out))


@xavier_deviation.mistake(
    "inputs only",
    "You use only the number of inputs, which keeps the variance constant in the forward pass. Xavier's rule takes "
    "the backward pass into account as well, where the sum runs over the outputs.",
)
def _(n_in: int, n_out: int) -> float:
    return math.sqrt(1 / n_in)


@xavier_deviation.mistake(
    "outputs only",
    "You use only the number of outputs, which keeps the variance of the gradient constant. Xavier's rule takes the "
    "forward pass into account as well, where the sum runs over the inputs.",
)
def _(n_in: int, n_out: int) -> float:
    return math.sqrt(1 / n_out)


@xavier_deviation.mistake(
    "2 divided by the number of inputs",
    "This is He's (Kaiming's) rule, which makes up for a ReLU after the layer. Xavier's rule uses inputs and outputs.",
)
def _(n_in: int, n_out: int) -> float:
    return math.sqrt(2 / n_in)


@xavier_deviation.mistake(
    "divided by the sum, not the mean",
    "You divide 1 by the sum of the two numbers. Xavier's rule divides by their mean.",
)
def _(n_in: int, n_out: int) -> float:
    return math.sqrt(1 / (n_in + n_out))


@xavier_deviation.mistake(
    "the reciprocal",
    "Your standard deviation grows with the number of inputs. The more terms a sum has, the smaller each of them has "
    "to be.",
)
def _(n_in: int, n_out: int) -> float:
    return math.sqrt((n_in + n_out) / 2)


@xavier_deviation.mistake(
    "the mean rounded down",
    "You divide with `//`, so the mean of an odd sum is rounded down. It needn't be a whole number.",
)
def _(n_in: int, n_out: int) -> float:
    return 1 / math.sqrt((n_in + n_out) // 2)


@xavier_deviation.mistake(
    "the mean of two variances",
    "You compute a variance for n_in and another for n_out, and average them. The variance is 1 divided by the "
    "mean of both numbers.",
)
def _(n_in: int, n_out: int) -> float:
    return math.sqrt((1 / n_in + 1 / n_out) / 2)


@xavier_deviation.mistake(
    "the mean of two deviations",
    "You compute a standard deviation for n_in and another for n_out, and average them. The variance is 1 divided by "
    "the mean of both numbers.",
)
def _(n_in: int, n_out: int) -> float:
    return (1 / math.sqrt(n_in) + 1 / math.sqrt(n_out)) / 2


@xavier_deviation.mistake(
    "only one of the two numbers halved",
    "A division comes before an addition, so you halve only one of the two numbers. Put their sum in parentheses.",
)
def _(n_in: int, n_out: int) -> float:
    return 1 / math.sqrt(n_in + n_out / 2)


@xavier_deviation.mistake(
    "rounded down to 0",
    "Your result is 0 because something rounds it down: look for `//` and `int`. `/` keeps the fraction.",
)
def _(n_in: int, n_out: int) -> float:
    return math.sqrt(2 // (n_in + n_out))


@xavier_deviation.mistake(
    "half of the variance",
    "A power comes before a division: `x ** 1 / 2` is half of `x`. Put the exponent in parentheses.",
)
def _(n_in: int, n_out: int) -> float:
    return 1 / (n_in + n_out)


# 4 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"d": 4, "f": 10, "n": 1, "v": 10},
    {"d": 6, "f": 20, "n": 3, "v": 0},
    {"d": 8, "f": 20, "n": 2, "v": 10},
    {"d": 512, "f": 2048, "n": 6, "v": 37_000},
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
    "no biases", "You count the matrices only. Every linear layer also has a bias for each of its outputs."
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v, biases=False)


@count_parameters.mistake(
    "no biases in attention",
    "Your attention has no biases. In our model, each of its four projections has a bias of d numbers.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v) - 3 * 4 * d * n


@count_parameters.mistake(
    "three projections in attention",
    "You count three projections in an attention layer: for the queries, the keys and the values. The fourth is W^O, "
    "which is applied to the concatenated heads.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v) - 3 * (d * d + d) * n


@count_parameters.mistake(
    "both biases of the feed-forward network of size f",
    "The second layer of the feed-forward network has d outputs, so its bias has d numbers, not f.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v) + 2 * (f - d) * n


@count_parameters.mistake("no norms", "The layer norms are missing. Each has a gain and a bias for every feature.")
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v, norms=0)


@count_parameters.mistake(
    "a decoder norm or a bias of the feed-forward networks missing",
    "Your result is too small by 2d for each of the n pairs of layers. Either you count two norms for a decoder layer, "
    "which has three, one for each sublayer. Or you leave out the bias of the second layer of both feed-forward "
    "networks, which has d numbers.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v, norms=4)


@count_parameters.mistake(
    "a norm or a bias of the feed-forward networks too many",
    "Your result is too large by 2d for each of the n pairs of layers. Either you count a norm too many: an encoder "
    "layer has two, a decoder layer three, one for each sublayer. Or you count the bias of the second layer of both "
    "feed-forward networks twice.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v, norms=6)


@count_parameters.mistake(
    "no cross-attention", "A decoder layer has two attention layers: self-attention and cross-attention. You count one."
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v, attentions=2)


@count_parameters.mistake(
    "decoder layers like encoder layers",
    "You count the same for a decoder layer as for an encoder layer. It also has cross-attention and a third norm.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v, attentions=2, norms=4)


@count_parameters.mistake(
    "three embedding matrices",
    "You count the embedding matrix three times. Source, target and output share a single matrix.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v, matrices=3)


@count_parameters.mistake(
    "the embedding matrix counted once per layer",
    "You multiply the embedding matrix by n as well. There is only one, outside the layers.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v, matrices=n)


@count_parameters.mistake(
    "no embedding matrix", "The layers are right. The embedding matrix of the vocabulary is missing."
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v, matrices=0)


@count_parameters.mistake(
    "only one layer each", "You count one encoder layer and one decoder layer. There are n of each."
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, 1, v)


@count_parameters.mistake("the encoder only", "You count the encoder layers. The decoder layers are missing.")
def _(d: int, f: int, n: int, v: int) -> int:
    return n * (4 * (d * d + d) + 2 * d * f + f + d + 4 * d) + v * d


@count_parameters.mistake(
    "one parameter per feature in a norm",
    "You count one parameter per feature in each norm. A layer norm has two: a gain and a bias.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v) - n * 5 * d


@count_parameters.mistake(
    "the output matrix counted again",
    "You count the matrix of the output layer. It is the embedding matrix, which you have counted already.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v) + v * d


@count_parameters.mistake(
    "a bias in the output layer",
    "You count a bias for the output layer. It is the transposed embedding matrix and nothing else.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v) + v


@count_parameters.mistake(
    "final norms as in pre-norm",
    "You count a norm at the end of each stack. Only pre-norm models have one; in the paper, each layer ends with "
    "its norm.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v) + 4 * d


@count_parameters.mistake(
    "both biases of feed-forward of the same width",
    "The first layer of the feed-forward network has f outputs, so its bias has f numbers. Only the bias of the second "
    "layer has d.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v) + 2 * n * (d - f)


@count_parameters.mistake(
    "d_ff taken for 4d",
    "You write 4d where f belongs. The paper has f = 4d, but f is an argument.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, 4 * d, n, v)


@count_parameters.mistake(
    "no norm after the feed-forward networks",
    "You count one norm for an encoder layer and two for a decoder layer. The feed-forward network is a sublayer, too, "
    "and has a norm of its own.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v, norms=3)


@count_parameters.mistake(
    "no biases in the feed-forward networks",
    "Your feed-forward networks have no biases. The first of their two layers has a bias of f numbers, the second one "
    "of d numbers.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v) - 2 * n * (f + d)


@count_parameters.mistake(
    "a single bias in each attention layer",
    "You count one bias of d numbers for an attention layer. Each of its four linear layers has one: is a pair of "
    "parentheses missing?",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v) - 3 * 3 * d * n


@count_parameters.mistake(
    "only the encoder layers multiplied by n",
    "You count n encoder layers, but a single decoder layer. Is a pair of parentheses missing?",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return (n - 1) * (_count(d, f, 1, 0, attentions=1, norms=2) - 2 * d * f - f - d) + _count(d, f, 1, v)


@count_parameters.mistake(
    "a bitwise operation in place of a power",
    "You write `^`, which isn't a power in Python but an operation on bits. A power is written `**`.",
)
def _(d: int, f: int, n: int, v: int) -> int:
    return _count(d, f, n, v) + 3 * 4 * n * ((d ^ (2 + d)) - (d * d + d))


# 5 --------------------------------------------------------------------------------------------------------------------


@topic.exercise({"parameters": 10}, {"parameters": 63_082_496}, results=("training", "inference"))
def memory(parameters: int) -> tuple[int, int]:
    """Weights, gradients and two means in four bytes each; weights in two."""
    return 16 * parameters, 2 * parameters


TRAINING = {
    4: (
        "no gradients and no optimiser state",
        "For training you count the weights alone. Each of them also has a gradient, and Adam keeps two moving "
        "averages for it.",
    ),
    8: (
        "8 bytes per parameter in training",
        "For training you count 8 bytes per parameter. It needs four numbers of 4 bytes: the parameter, its gradient, "
        "and Adam's two moving averages.",
    ),
    12: (
        "three numbers per parameter instead of four",
        "For training you count 12 bytes per parameter. It needs four numbers of 4 bytes: the parameter, its gradient, "
        "and Adam's two moving averages. Which one is missing?",
    ),
}
INFERENCE = {
    1: (
        "one byte per parameter at inference",
        "For inference you count one byte per parameter. In half precision, a number has 16 bits.",
    ),
    4: ("inference in float32", "For inference you count 4 bytes per parameter. Half precision is enough there."),
    8: (
        "gradients and optimiser state at inference",
        "For inference you count gradients and moving averages, too. Only the parameters themselves are needed there.",
    ),
    16: (
        "as much at inference as in training",
        "For inference you count as much as training needs. Inference needs the parameters alone, and each of them has "
        "16 bits: how many bytes is that?",
    ),
}
"""Bytes per parameter → what is wrong with counting so many."""

for _bytes, (_title, _hint) in TRAINING.items():

    @memory.mistake(_title, _hint)
    def _(parameters: int, n: int = _bytes) -> tuple[int, int]:
        return n * parameters, 2 * parameters


for _bytes, (_title, _hint) in INFERENCE.items():

    @memory.mistake(_title, _hint)
    def _(parameters: int, n: int = _bytes) -> tuple[int, int]:
        return 16 * parameters, n * parameters


for _in_training, _at_inference in product(TRAINING, INFERENCE):
    if (_in_training, _at_inference) != (4, 1):  # numbers instead of bytes
        _titles, _hints = zip(TRAINING[_in_training], INFERENCE[_at_inference], strict=True)

        @memory.mistake(", and ".join(_titles), "There are two mistakes.\n" + "\n".join(_hints))
        def _(parameters: int, n: int = _in_training, m: int = _at_inference) -> tuple[int, int]:
            return n * parameters, m * parameters


for _unit, _size in (("gigabytes", 10**9), ("gibibytes", 2**30), ("megabytes", 10**6), ("mebibytes", 2**20)):

    @memory.mistake(f"{_unit} instead of bytes", f"You return {_unit}. The results should be whole numbers of bytes.")
    def _(parameters: int, size: int = _size) -> tuple[float, float]:
        return 16 * parameters / size, 2 * parameters / size


@memory.mistake("bits instead of bytes", "You count bits. A byte has eight of them.")
def _(parameters: int) -> tuple[int, int]:
    return 128 * parameters, 16 * parameters


@memory.mistake(
    "numbers instead of bytes", "You count how many numbers are stored. Multiply by the bytes that each of them takes."
)
def _(parameters: int) -> tuple[int, int]:
    return 4 * parameters, parameters


@memory.mistake("the two results are swapped", "Both results are right, but in the wrong order: return training first.")
def _(parameters: int) -> tuple[int, int]:
    return 2 * parameters, 16 * parameters
