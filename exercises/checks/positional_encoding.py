"""Checks of 05 positions (§3.4, §3.5)."""

import math

import torch
from torch import Tensor

from exercises.check import Topic, numbers
from transformer import positions

topic = Topic()
check, given = topic.check, topic.given


def _together(even: Tensor, odd: Tensor) -> Tensor:
    """Two halves as the even and the odd dimensions."""
    return torch.stack([even, odd], dim=-1).flatten(-2)


def _apart(x: Tensor) -> tuple[Tensor, Tensor]:
    """The even and the odd dimensions."""
    return x[..., 0::2], x[..., 1::2]


# 1 --------------------------------------------------------------------------------------------------------------------


@topic.exercise({"d_model": 4}, {"d_model": 2}, {"d_model": 6}, {"d_model": 16})
def frequencies(d_model: int) -> Tensor:
    """What a step of one position turns each pair by."""
    return positions.angles(2, d_model)[1].float()


@frequencies.mistake(
    "they grow", "The first turns by one radian, as it should, but the next ones turn faster. What does the minus do?"
)
def _(d_model: int) -> Tensor:
    return 10000.0 ** (torch.arange(0, d_model, 2) / d_model)


@frequencies.mistake(
    "half the exponent",
    "The frequencies fall half as fast as they should: in the exponent stands 2i, and i counts the pairs.",
)
def _(d_model: int) -> Tensor:
    return 10000.0 ** (-torch.arange(d_model // 2) / d_model)


@frequencies.mistake(
    "twice the exponent",
    "The frequencies fall twice as fast as they should. If your i already goes up by two, it need not be doubled "
    "again.",
)
def _(d_model: int) -> Tensor:
    return 10000.0 ** (-2 * torch.arange(0, d_model, 2) / d_model)


@frequencies.mistake(
    "one for every dimension",
    "There are as many as dimensions, and should be half as many: sine and cosine of a pair share theirs.",
)
def _(d_model: int) -> Tensor:
    return 10000.0 ** (-torch.arange(d_model) / d_model)


@frequencies.mistake(
    "every pair's twice",
    "Each is there twice. Sine and cosine of a pair do share one, but the pairing comes in the next exercise.",
)
def _(d_model: int) -> Tensor:
    return (10000.0 ** (-torch.arange(0, d_model, 2) / d_model)).repeat_interleave(2)


@frequencies.mistake(
    "the last is exactly 1/10000",
    "You divide by one pair less than there are, so that the last frequency reaches 1/10000. Some programs do; the "
    "paper's formula stops a step before.",
)
def _(d_model: int) -> Tensor:
    return 10000.0 ** -torch.linspace(0, 1, d_model // 2)


@frequencies.mistake(
    "e in place of 10000",
    "They fall from 1 to about 1/e. An exponential has the base e, unless you multiply the exponent by a logarithm.",
)
def _(d_model: int) -> Tensor:
    return torch.exp(-torch.arange(0, d_model, 2) / d_model)


@frequencies.mistake(
    "wavelengths",
    "These are the numbers of positions until a hand is round again. Asked is how far it turns in one.",
)
def _(d_model: int) -> Tensor:
    return 2 * math.pi * 10000.0 ** (torch.arange(0, d_model, 2) / d_model)


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"length": 3, "d_model": 4},
    {"length": 4, "d_model": 2},
    {"length": 5, "d_model": 6},
    {"length": 30, "d_model": 16},
)
def sinusoidal_encoding(length: int, d_model: int) -> Tensor:
    """The package's encoding."""
    return positions.sinusoidal_encoding(length, d_model)


@sinusoidal_encoding.mistake(
    "all sines, then all cosines",
    "The numbers are right, but all sines stand before all cosines. Here they take turns: a pair's two stand side "
    "by side.",
)
def _(length: int, d_model: int) -> Tensor:
    angle = positions.angles(length, d_model)
    return torch.cat([angle.sin(), angle.cos()], dim=-1).float()


@sinusoidal_encoding.mistake(
    "cosine before sine", "The two of each pair have changed places: at position 0 the first number should be 0, not 1."
)
def _(length: int, d_model: int) -> Tensor:
    angle = positions.angles(length, d_model)
    return _together(angle.cos(), angle.sin()).float()


@sinusoidal_encoding.mistake(
    "a frequency for every dimension",
    "The sines are right. The cosines have an angle of their own, a little slower; but a pair is one clock hand, "
    "and its two numbers belong to the same angle. Without that a shift is no rotation.",
)
def _(length: int, d_model: int) -> Tensor:
    angle = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(d_model) / d_model)
    return _together(angle[:, 0::2].sin(), angle[:, 1::2].cos())


@sinusoidal_encoding.mistake(
    "sines only", "Each pair is twice the same sine. A hand that points up or down is told apart by its cosine."
)
def _(length: int, d_model: int) -> Tensor:
    angle = positions.angles(length, d_model)
    return _together(angle.sin(), angle.sin()).float()


@sinusoidal_encoding.mistake(
    "positions from 1", "Your first row is that of position 1. Positions count from 0, where all hands stand still."
)
def _(length: int, d_model: int) -> Tensor:
    return positions.sinusoidal_encoding(length + 1, d_model)[1:]


@sinusoidal_encoding.mistake(
    "turned on its side", "Rows should be positions and columns dimensions: yours is the other way round."
)
def _(length: int, d_model: int) -> Tensor:
    return positions.sinusoidal_encoding(length, d_model).T


@sinusoidal_encoding.mistake(
    "angles in degrees", "Your hands turn too slowly by the factor of degrees to radians. PyTorch's sine takes radians."
)
def _(length: int, d_model: int) -> Tensor:
    angle = positions.angles(length, d_model).deg2rad()
    return _together(angle.sin(), angle.cos()).float()


@sinusoidal_encoding.mistake(
    "angles, not their sines", "These are the angles themselves. They grow without end; their sine and cosine do not."
)
def _(length: int, d_model: int) -> Tensor:
    angle = positions.angles(length, d_model)
    return _together(angle, angle).float()


# 3 --------------------------------------------------------------------------------------------------------------------


def _step(encoding: Tensor, k: int) -> Tensor:
    return k * frequencies.reference(encoding.size(-1))


@topic.exercise(
    {"encoding": positions.sinusoidal_encoding(2, 4), "k": 1},
    {"encoding": positions.sinusoidal_encoding(3, 6), "k": 2},
    {"encoding": positions.sinusoidal_encoding(9, 8)[5:], "k": -3},
    {"encoding": positions.sinusoidal_encoding(40, 4)[[30, 2, 11]], "k": 7},
)
def shift(encoding: Tensor, k: int) -> Tensor:
    """Each pair turned by its step."""
    sin, cos = _apart(encoding)
    b = _step(encoding, k)
    return _together(sin * b.cos() + cos * b.sin(), cos * b.cos() - sin * b.sin())


@shift.mistake(
    "backwards",
    "You arrive at the position k before. Either a sign is turned round, or sine and cosine are: the sine stands "
    "first in each pair.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    return shift.reference(encoding, -k)


@shift.mistake(
    "the old sine was overwritten",
    "The new sines are right, the new cosines are not: they are made of the new sines. Keep the old ones until both "
    "are done.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    sin, cos = _apart(encoding)
    b = _step(encoding, k)
    sin = sin * b.cos() + cos * b.sin()
    return _together(sin, cos * b.cos() - sin * b.sin())


@shift.mistake(
    "plus in place of minus",
    "The new sines are right. In the formula of the cosine stands a minus: without it the pair does not even keep "
    "its length.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    sin, cos = _apart(encoding)
    b = _step(encoding, k)
    return _together(sin * b.cos() + cos * b.sin(), cos * b.cos() + sin * b.sin())


@shift.mistake(
    "all hands turn alike",
    "Every pair is turned by k radians. That is right for the first; the others turn more slowly.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    sin, cos = _apart(encoding)
    return _together(sin * math.cos(k) + cos * math.sin(k), cos * math.cos(k) - sin * math.sin(k))


@shift.mistake(
    "one step, whatever k",
    "You shift by one position each time. How much does a hand turn in k steps of the same size?",
)
def _(encoding: Tensor, k: int) -> Tensor:
    return shift.reference(encoding, 1)


@shift.mistake(
    "rows moved",
    "You move the rows of the table, and those that fall out come in again on the other side. The rows may be any "
    "positions: each has to be turned, where it stands.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    return encoding.roll(-k, 0)


@shift.mistake(
    "the encoding of k added",
    "You add the vector of position k. Angles add up; their sines and cosines do not.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    b = _step(encoding, k)
    return encoding + _together(b.sin(), b.cos())


@shift.mistake(
    "made anew, from position 0",
    "These are the vectors of k, k + 1 and so on: right only if the first row was that of position 0. You are not "
    "told which positions they are, and need not be.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    angle = (torch.arange(len(encoding)) + k)[:, None] * frequencies.reference(encoding.size(-1))
    return _together(angle.sin(), angle.cos())


# 4 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"x": torch.tensor([[1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0]])},
    {"x": numbers(3, 6)},
    {"x": numbers(2, 2, 3, 4, seed=1)},
)
def rotate(x: Tensor) -> Tensor:
    """The package's rotation."""
    return positions.rotate(x, positions.rotary_table(x.size(-2), x.size(-1)))


@rotate.mistake(
    "the other way round",
    "You turn by the negative angle. Distances would still come out, but with the sign changed. Where does the "
    "minus belong?",
)
def _(x: Tensor) -> Tensor:
    return _turned(x, -_angles(x))


@rotate.mistake(
    "pairs half a vector apart",
    "You pair each dimension of the first half with one of the second. Some programs do, and it works as well, if "
    "all of a model does. Here the two of a pair are neighbours.",
)
def _(x: Tensor) -> Tensor:
    (a, b), angle = x.chunk(2, dim=-1), _angles(x)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1)


@rotate.mistake(
    "not joined pair by pair",
    "The numbers are right, but all first ones of the pairs stand before all second ones. Put them back where they "
    "came from.",
)
def _(x: Tensor) -> Tensor:
    return torch.cat(_apart(_turned(x, _angles(x))), dim=-1)


@rotate.mistake(
    "plus in place of minus",
    "Both sums have a plus. That is no rotation: the vectors change their lengths. Look at the first of the two "
    "formulas.",
)
def _(x: Tensor) -> Tensor:
    (even, odd), angle = _apart(x), _angles(x)
    return _together(even * angle.cos() + odd * angle.sin(), even * angle.sin() + odd * angle.cos())


@rotate.mistake(
    "the old value was overwritten",
    "The even dimensions are right, the odd ones are made of the new even ones. Keep the old ones until both are done.",
)
def _(x: Tensor) -> Tensor:
    (even, odd), angle = _apart(x), _angles(x)
    even = even * angle.cos() - odd * angle.sin()
    return _together(even, even * angle.sin() + odd * angle.cos())


@rotate.mistake(
    "positions from 1",
    "Everything is turned one step too far: position 0 should stay as it is. (Attention would not notice. The "
    "course's weights would.)",
)
def _(x: Tensor) -> Tensor:
    return _turned(x, _angles(x, first=1))


@rotate.mistake(
    "all pairs turn alike", "Every pair is turned by its position in radians. The later pairs should turn more slowly."
)
def _(x: Tensor) -> Tensor:
    return _turned(x, torch.arange(x.size(-2))[:, None].expand(-1, x.size(-1) // 2))


@rotate.mistake("added, not turned", "You add the sinusoids. Rotary positions add nothing: they turn what is there.")
def _(x: Tensor) -> Tensor:
    return x + positions.sinusoidal_encoding(x.size(-2), x.size(-1))


def _angles(x: Tensor, first: int = 0) -> Tensor:
    return torch.arange(first, first + x.size(-2))[:, None] * frequencies.reference(x.size(-1))


def _turned(x: Tensor, angle: Tensor) -> Tensor:
    even, odd = _apart(x)
    return _together(even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos())


# 5 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {
        "ids": torch.tensor([[2, 0]]),
        "table": torch.tensor([[1.0, 0, 0, 2], [0, 1, 0, 0], [0, 0, 3, 1]]),
        "encoding": torch.tensor([[0.0, 1, 0, 1], [0.5, 0.5, 0, 1], [1, 0, 0.5, 0.5]]),
    },
    {
        "ids": torch.tensor([[2, 0], [1, 1], [0, 2]]),
        "table": numbers(3, 9),
        "encoding": numbers(5, 9, seed=1),
    },
    {"ids": torch.tensor([[3, 1, 2, 0], [0, 0, 1, 3]]), "table": numbers(4, 6), "encoding": numbers(4, 6, seed=1)},
)
def embed(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    """Scaled embeddings plus positions."""
    return table[ids] * math.sqrt(table.size(1)) + encoding[: ids.size(1)]


@embed.mistake(
    "the factor is missing", "Words and places are added, but the words are too quiet. What does §3.4 multiply by?"
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] + encoding[: ids.size(1)]


@embed.mistake("the factor is on the sum", "The positions are too large by the factor: it belongs to the words alone.")
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return (table[ids] + encoding[: ids.size(1)]) * math.sqrt(table.size(1))


@embed.mistake(
    "the factor is on the positions", "The wrong one of the two is multiplied: the words are the quiet ones."
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] + encoding[: ids.size(1)] * math.sqrt(table.size(1))


@embed.mistake("times d_model", "The words are too loud. Of d_model, something has to be taken first.")
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] * table.size(1) + encoding[: ids.size(1)]


@embed.mistake(
    "divided", "You make the words quieter still. Attention divides by its root; here it is the other way round."
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] / math.sqrt(table.size(1)) + encoding[: ids.size(1)]


@embed.mistake(
    "scaled by the vocabulary",
    "You take the number of words in place of the width: look at which axis of the table is which.",
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] * math.sqrt(table.size(0)) + encoding[: ids.size(1)]


@embed.mistake(
    "position looked up by the word",
    "You look positions up by token ids. Where a word stands does not depend on which word it is.",
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] * math.sqrt(table.size(1)) + encoding[ids.clamp(max=len(encoding) - 1)]


@embed.mistake("positions left out", "The words are right, but nothing says where they stand.")
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] * math.sqrt(table.size(1))


@embed.mistake(
    "the last positions, not the first", "You take the end of the table of positions. A sentence begins at position 0."
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] * math.sqrt(table.size(1)) + encoding[-ids.size(1) :]


@embed.mistake(
    "a position for each sentence",
    "All words of a sentence get the same position: that of the sentence in the batch. Positions run along the "
    "second axis.",
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] * math.sqrt(table.size(1)) + encoding[: len(ids), None]
