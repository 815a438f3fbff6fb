"""Checks of 05 positions (§3.4, §3.5)."""

import math

import torch
from torch import Tensor

from exercises.check import Topic
from exercises.tensors import numbers
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


@topic.exercise(
    {"d_model": 4},
    {"d_model": 2},
    {"d_model": 6},
    {"d_model": 16},
    insight="The fastest hand completes a turn in 2π positions, and the slowest one in almost 10000 · 2π.",
)
def frequencies(d_model: int) -> Tensor:
    """What a step of one position turns each pair by."""
    return positions.angles(2, d_model)[1].float()


@frequencies.mistake(
    "the frequencies grow",
    "The first hand is right, but the next ones turn faster and faster. They should turn more slowly: check the sign "
    "of the exponent.",
)
def _(d_model: int) -> Tensor:
    return 10000.0 ** (torch.arange(0, d_model, 2) / d_model)


@frequencies.mistake(
    "half the exponent",
    "Your frequencies fall half as fast as they should. The exponent contains 2i, where i counts the pairs.",
)
def _(d_model: int) -> Tensor:
    return 10000.0 ** (-torch.arange(d_model // 2) / d_model)


@frequencies.mistake(
    "twice the exponent",
    "Your frequencies fall twice as fast as they should. If your i already counts in steps of two, don't double it "
    "again.",
)
def _(d_model: int) -> Tensor:
    return 10000.0 ** (-2 * torch.arange(0, d_model, 2) / d_model)


@frequencies.mistake(
    "one for each dimension",
    "You return one frequency per dimension. There is one per pair, because sine and cosine share it.",
)
def _(d_model: int) -> Tensor:
    return 10000.0 ** (-torch.arange(d_model) / d_model)


@frequencies.mistake(
    "twice as many as there are pairs",
    "You return one number for each dimension. There is one for each pair: let your i end at d_model / 2 - 1.",
)
def _(d_model: int) -> Tensor:
    return 10000.0 ** (-2 * torch.arange(d_model) / d_model)


@frequencies.mistake(
    "each frequency twice",
    "You return each frequency twice. Sine and cosine do share it, but they are only paired in the next blank.",
)
def _(d_model: int) -> Tensor:
    return (10000.0 ** (-torch.arange(0, d_model, 2) / d_model)).repeat_interleave(2)


@frequencies.mistake(
    "the last is exactly 1/10000",
    "You divide by the number of pairs minus one, so that the last frequency is exactly 1/10000. Some libraries do "
    "that, but the paper's formula divides by d_model and stops a step earlier.",
)
def _(d_model: int) -> Tensor:
    return 10000.0 ** -torch.linspace(0, 1, d_model // 2)


@frequencies.mistake(
    "base e instead of 10000",
    "Your frequencies fall from 1 to about 1/e. An exponential has the base e unless you multiply the exponent by the "
    "logarithm of another base.",
)
def _(d_model: int) -> Tensor:
    return torch.exp(-torch.arange(0, d_model, 2) / d_model)


@frequencies.mistake(
    "wavelengths instead of frequencies",
    "These are wavelengths: how many positions a hand needs for a full turn. Return how far it turns in one step.",
)
def _(d_model: int) -> Tensor:
    return 2 * math.pi * 10000.0 ** (torch.arange(0, d_model, 2) / d_model)


@frequencies.mistake(
    "counted from 1",
    "Your pairs are counted from 1. The first pair has i = 0, and so the frequency 1.",
)
def _(d_model: int) -> Tensor:
    return 10000.0 ** (-torch.arange(2, d_model + 2, 2) / d_model)


@frequencies.mistake(
    "the exponent rounded down",
    "You divide with `//`, so nearly all your exponents are the same. They are fractions.",
)
def _(d_model: int) -> Tensor:
    return 10000.0 ** (-torch.arange(0, d_model, 2) // d_model).float()


@frequencies.mistake(
    "the exponent rounded down to 0",
    "You divide with `//`, which rounds down, so all your exponents are 0 and all frequencies 1. The exponents are "
    "fractions: use `/`.",
)
def _(d_model: int) -> Tensor:
    return 10000.0 ** -(torch.arange(0, d_model, 2) // d_model)


@frequencies.mistake(
    "divided by d_model outside the exponent",
    "You divide the power by d_model. The division belongs in the exponent: put parentheses around the whole exponent.",
)
def _(d_model: int) -> Tensor:
    return 10000.0 ** (-2 * torch.arange(d_model // 2)) / d_model


@frequencies.mistake(
    "the power before the division",
    "You divide, or multiply, after taking the power. In Python, a power binds more tightly than both, so the whole "
    "exponent needs parentheses.",
)
def _(d_model: int) -> Tensor:
    return 10000.0**-2 * torch.arange(d_model // 2) / d_model


@frequencies.mistake(
    "a fixed width",
    "Your exponent has a fixed number in the denominator. It should be d_model, whatever that is.",
)
def _(d_model: int) -> Tensor:
    return 10000.0 ** (-torch.arange(0, d_model, 2) / 512)


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"length": 3, "d_model": 4},
    {"length": 4, "d_model": 2},
    {"length": 5, "d_model": 6},
    {"length": 30, "d_model": 16},
    {"length": 1, "d_model": 4},
    insight="Nothing here is learned, so there is a vector even for positions beyond the longest sentence in training.",
)
def sinusoidal_encoding(length: int, d_model: int) -> Tensor:
    """The package's encoding."""
    return positions.sinusoidal_encoding(length, d_model)


@sinusoidal_encoding.mistake(
    "all sines, then all cosines",
    "The numbers are right, but all sines come before all cosines. They should alternate: sine and cosine of the same "
    "pair next to each other.",
)
def _(length: int, d_model: int) -> Tensor:
    angle = positions.angles(length, d_model)
    return torch.cat([angle.sin(), angle.cos()], dim=-1).float()


@sinusoidal_encoding.mistake(
    "cosine before sine",
    "Sine and cosine are swapped in each pair. At position 0 the first number should be 0 and the second 1.",
)
def _(length: int, d_model: int) -> Tensor:
    angle = positions.angles(length, d_model)
    return _together(angle.cos(), angle.sin()).float()


@sinusoidal_encoding.mistake(
    "a separate frequency for each dimension",
    "The sines are right, but each cosine has a slightly lower frequency than its sine. Both are coordinates of the "
    "same hand, so they need the same angle; otherwise a shift is not a rotation.",
)
def _(length: int, d_model: int) -> Tensor:
    angle = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(d_model) / d_model)
    return _together(angle[:, 0::2].sin(), angle[:, 1::2].cos())


@sinusoidal_encoding.mistake(
    "an exponent for each dimension",
    "Your exponent contains the number of the dimension. The formula's i counts the pairs: dimensions 2i and 2i + 1 "
    "share it.",
)
def _(length: int, d_model: int) -> Tensor:
    angle = torch.arange(length)[:, None] * 10000.0 ** (-2 * torch.arange(d_model) / d_model)
    return _together(angle[:, 0::2].sin(), angle[:, 1::2].cos())


@sinusoidal_encoding.mistake(
    "divided by the frequency",
    "You divide positions by frequencies, so later hands turn faster. They should turn more slowly: multiply.",
)
def _(length: int, d_model: int) -> Tensor:
    angle = torch.arange(length)[:, None] / frequencies.reference(d_model)
    return _together(angle.sin(), angle.cos())


@sinusoidal_encoding.mistake(
    "sines only",
    "Each pair has the same sine twice. The second number should be the cosine, which distinguishes the two angles "
    "that have the same sine.",
)
def _(length: int, d_model: int) -> Tensor:
    angle = positions.angles(length, d_model)
    return _together(angle.sin(), angle.sin()).float()


@sinusoidal_encoding.mistake(
    "positions from 1", "Your first row belongs to position 1. Positions start at 0, where every sine is 0."
)
def _(length: int, d_model: int) -> Tensor:
    return positions.sinusoidal_encoding(length + 1, d_model)[1:]


@sinusoidal_encoding.mistake(
    "transposed", "Your rows are dimensions and your columns are positions. It should be the other way round."
)
def _(length: int, d_model: int) -> Tensor:
    return positions.sinusoidal_encoding(length, d_model).T


@sinusoidal_encoding.mistake(
    "angles converted to degrees",
    "Your angles are off by the factor between degrees and radians. PyTorch's sine expects radians, and the formula "
    "gives radians.",
)
def _(length: int, d_model: int) -> Tensor:
    angle = positions.angles(length, d_model).deg2rad()
    return _together(angle.sin(), angle.cos()).float()


@sinusoidal_encoding.mistake(
    "an extra 2π",
    "You multiply the angle by 2π. The frequencies are angles already, in radians for each step: position times "
    "frequency is the angle.",
)
def _(length: int, d_model: int) -> Tensor:
    angle = torch.arange(length)[:, None] * frequencies.reference(d_model) * 2 * math.pi
    return _together(angle.sin(), angle.cos())


@sinusoidal_encoding.mistake(
    "angles instead of sines and cosines",
    "These are the angles themselves, which grow without limit. Return their sines and cosines.",
)
def _(length: int, d_model: int) -> Tensor:
    angle = positions.angles(length, d_model)
    return _together(angle, angle).float()


@sinusoidal_encoding.mistake(
    "the exponent twice as large",
    "The factor 2 of the exponent 2i / d_model is in your code twice: if i already counts 0, 2, 4, …, don't "
    "double it again.",
)
def _(length: int, d_model: int) -> Tensor:
    angle = torch.arange(length)[:, None] * frequencies.reference(d_model) ** 2
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


@sinusoidal_encoding.mistake(
    "sines and cosines stacked on the wrong axis",
    "The right sines and cosines are there, but in the wrong rows: stack them on a new last axis, so that each "
    "sine has its cosine next to it, before you merge the axes.",
)
def _(length: int, d_model: int) -> Tensor:
    angle = torch.arange(length)[:, None] * frequencies.reference(d_model)
    return torch.stack([angle.sin(), angle.cos()]).reshape(length, d_model)


# 3 --------------------------------------------------------------------------------------------------------------------


def _step(encoding: Tensor, k: int) -> Tensor:
    return k * frequencies.reference(encoding.size(-1))


@topic.exercise(
    {"encoding": positions.sinusoidal_encoding(2, 4), "k": 1},
    {"encoding": positions.sinusoidal_encoding(3, 6), "k": 2},
    {"encoding": positions.sinusoidal_encoding(9, 8)[5:], "k": -3},
    {"encoding": positions.sinusoidal_encoding(40, 4)[[30, 2, 11]], "k": 7},
    {"encoding": positions.sinusoidal_encoding(6, 4)[5:], "k": -2},
    {"encoding": numbers(4, 6), "k": 2},  # not encodings: only a linear map finds what becomes of them
    keep=("encoding",),
    differentiable=False,
    insight="Queries and keys are linear maps of their input, so a head can learn to attend a fixed distance back.",
)
def shift(encoding: Tensor, k: int) -> Tensor:
    """Each pair turned by its step."""
    sin, cos = _apart(encoding)
    b = _step(encoding, k)
    return _together(sin * b.cos() + cos * b.sin(), cos * b.cos() - sin * b.sin())


@shift.mistake(
    "shifted backwards",
    "You compute the vectors k positions earlier. Either a sign is wrong, or you took sines for cosines: the sine "
    "comes first in each pair.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    return shift.reference(encoding, -k)


@shift.mistake(
    "the old sines were overwritten",
    "The new sines are right, but you compute the cosines from the new sines. Both formulas need the old values.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    sin, cos = _apart(encoding)
    b = _step(encoding, k)
    sin = sin * b.cos() + cos * b.sin()
    return _together(sin, cos * b.cos() - sin * b.sin())


@shift.mistake(
    "plus instead of minus",
    "The new sines are right, but the formula for the cosine has a minus. With a plus, the vector's length changes, "
    "so it's no rotation.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    sin, cos = _apart(encoding)
    b = _step(encoding, k)
    return _together(sin * b.cos() + cos * b.sin(), cos * b.cos() + sin * b.sin())


@shift.mistake(
    "all hands turn by the same angle",
    "You rotate every pair by k radians. That is right only for the first one; each pair turns by k times its own "
    "frequency.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    sin, cos = _apart(encoding)
    return _together(sin * math.cos(k) + cos * math.sin(k), cos * math.cos(k) - sin * math.sin(k))


@shift.mistake("one step, whatever k is", "You always shift by one position. In k steps, a hand turns k times as far.")
def _(encoding: Tensor, k: int) -> Tensor:
    return shift.reference(encoding, 1)


@shift.mistake(
    "rows of the table moved",
    "You move rows of the table, and those at the end reappear at the start. The rows may belong to any positions, so "
    "compute new vectors from the old ones.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    return encoding.roll(-k, 0)


@shift.mistake(
    "the encoding of k added",
    "You add the vector of position k. It is the angles that add up, not their sines and cosines.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    b = _step(encoding, k)
    return encoding + _together(b.sin(), b.cos())


@shift.mistake(
    "computed anew from position 0",
    "You return the vectors of positions k, k + 1 and so on. That is right only if the first row belongs to position "
    "0. You aren't told the positions, and you don't need them: rotate what you are given.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    angle = (torch.arange(len(encoding)) + k)[:, None] * frequencies.reference(encoding.size(-1))
    return _together(angle.sin(), angle.cos())


@shift.mistake(
    "negative shifts do nothing",
    "A negative k moves the positions back. In your code nothing happens then, as in a loop over range(k).",
)
def _(encoding: Tensor, k: int) -> Tensor:
    return shift.reference(encoding, max(k, 0))


@shift.mistake(
    "the halves taken for the pairs",
    "You take the first half for the sines and the second for the cosines. Here sines and cosines alternate.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    (sin, cos), b = encoding.chunk(2, dim=-1), _step(encoding, k)
    return torch.cat([sin * b.cos() + cos * b.sin(), cos * b.cos() - sin * b.sin()], dim=-1)


@shift.mistake(
    "cosines taken for sines",
    "You take the first number of each pair for the cosine. The sine comes first.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    (cos, sin), b = _apart(encoding), _step(encoding, k)
    return _together(sin * b.cos() + cos * b.sin(), cos * b.cos() - sin * b.sin())


@shift.mistake(
    "the angles computed from the encodings",
    "You compute each angle from its sine and cosine, and take the sine and cosine of a larger one. That is right for "
    "encodings, but it isn't a linear map: the length of each pair is lost. The two formulas need no angle, only its "
    "sine and cosine.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    angle = torch.atan2(*_apart(encoding)) + _step(encoding, k)
    return _together(angle.sin(), angle.cos())


@shift.mistake(
    "not interleaved again",
    "The numbers are right, but all new sines come before all new cosines. Put the sine and the cosine of each pair "
    "next to each other again.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    return torch.cat(_apart(shift.reference(encoding, k)), dim=-1)


@shift.mistake(
    "the halves taken for the pairs, but interleaved at the end",
    "You take the first half for the sines and the second for the cosines. Here sines and cosines alternate, in what "
    "you are given as well as in your result.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    (sin, cos), b = encoding.chunk(2, dim=-1), _step(encoding, k)
    return _together(sin * b.cos() + cos * b.sin(), cos * b.cos() - sin * b.sin())


@shift.mistake(
    "a slice of a new table",
    "You compute a new table and return its rows from k on. That is right only if the first row of `encoding` belongs "
    "to position 0, and k isn't negative. You aren't told the positions, and you don't need them: rotate what you are "
    "given.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    angle = torch.arange(len(encoding) + k)[:, None] * frequencies.reference(encoding.size(-1))
    return _together(angle.sin(), angle.cos())[k:]


@shift.mistake(
    "the row number added",
    "You also rotate each vector by the number of its row. The rows may belong to any positions, and all of them move "
    "by k.",
)
def _(encoding: Tensor, k: int) -> Tensor:
    (sin, cos), b = (
        _apart(encoding),
        (torch.arange(len(encoding)) + k)[:, None] * frequencies.reference(encoding.size(-1)),
    )
    return _together(sin * b.cos() + cos * b.sin(), cos * b.cos() - sin * b.sin())


# 4 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"x": torch.tensor([[1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]])},
    {"x": numbers(4, 6)},
    {"x": numbers(2, 4, 3, 8, seed=1)},
    {"x": numbers(1, 3, 2, seed=2)},
    insight="Most of today's open language models, Llama among them, encode positions this way.",
)
def rotate(x: Tensor) -> Tensor:
    """The package's rotation."""
    return positions.rotate(x, positions.rotary_table(x.size(-2), x.size(-1)))


@rotate.mistake(
    "rotated the other way",
    "You rotate by the negative angle, so all offsets have the wrong sign. Check which of the two formulas "
    "has the minus.",
)
def _(x: Tensor) -> Tensor:
    return _turned(x, -_angles(x))


@rotate.mistake(
    "dimensions paired across the halves",
    "You pair each dimension of the first half with one of the second. Some libraries do that, and it works if the "
    "whole model does it. Here neighbouring dimensions form a pair.",
)
def _(x: Tensor) -> Tensor:
    (a, b), angle = x.chunk(2, dim=-1), _angles(x)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1)


@rotate.mistake(
    "pairs not interleaved",
    "The numbers are right, but the first numbers of all pairs come before the second ones. Put the two numbers of "
    "each pair next to each other again.",
)
def _(x: Tensor) -> Tensor:
    return torch.cat(_apart(_turned(x, _angles(x))), dim=-1)


@rotate.mistake(
    "plus instead of minus",
    "Both of your formulas have a plus. Then the vectors change their lengths, so it's no rotation. Look at the first "
    "formula again.",
)
def _(x: Tensor) -> Tensor:
    (even, odd), angle = _apart(x), _angles(x)
    return _together(even * angle.cos() + odd * angle.sin(), even * angle.sin() + odd * angle.cos())


@rotate.mistake(
    "the old values were overwritten",
    "The even dimensions are right, but you compute the odd ones from the new even ones. Both formulas need the old "
    "values.",
)
def _(x: Tensor) -> Tensor:
    (even, odd), angle = _apart(x), _angles(x)
    even = even * angle.cos() - odd * angle.sin()
    return _together(even, even * angle.sin() + odd * angle.cos())


@rotate.mistake(
    "positions from 1",
    "You rotate everything by one step too much: position 0 should stay as it is. (The scores within one sequence "
    "wouldn't change, but they would with keys that were cached from position 0.)",
)
def _(x: Tensor) -> Tensor:
    return _turned(x, _angles(x, first=1))


@rotate.mistake(
    "all pairs rotate by the same angle",
    "You rotate every pair by its position in radians. Each pair has its own frequency, and later pairs turn more "
    "slowly.",
)
def _(x: Tensor) -> Tensor:
    return _turned(x, torch.arange(x.size(-2))[:, None].expand(-1, x.size(-1) // 2))


@rotate.mistake(
    "added instead of rotated",
    "You add the sinusoidal encoding. Rotary positions add nothing: they rotate each pair of dimensions.",
)
def _(x: Tensor) -> Tensor:
    return x + positions.sinusoidal_encoding(x.size(-2), x.size(-1))


def _angles(x: Tensor, first: int = 0) -> Tensor:
    return torch.arange(first, first + x.size(-2))[:, None] * frequencies.reference(x.size(-1))


def _turned(x: Tensor, angle: Tensor) -> Tensor:
    even, odd = _apart(x)
    return _together(even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos())


@rotate.mistake(
    "half of d_head as the width",
    "You pass half of d_head to `frequencies`. It takes d_head itself: it returns one frequency for each pair, so it "
    "halves the width on its own.",
)
def _(x: Tensor) -> Tensor:
    return _turned(x, torch.arange(x.size(-2))[:, None] * frequencies.reference(x.size(-1) // 2))


@rotate.mistake(
    "positions and frequencies multiplied entry by entry",
    "You multiply the vector of positions by the vector of frequencies as they are. Each position needs an angle for "
    "each frequency: give the positions a second axis of length one.",
)
def _(x: Tensor) -> Tensor:
    return _turned(x, torch.arange(x.size(-2)) * frequencies.reference(x.size(-1)))


@rotate.mistake(
    "the length taken from the first axis",
    "You take the length of the first axis, or `len(x)`, for the number of positions. With batch and heads in front, "
    "the positions are on the second-to-last axis: count from the end.",
)
def _(x: Tensor) -> Tensor:
    return _turned(x, torch.arange(len(x))[:, None] * frequencies.reference(x.size(-1)))


@rotate.mistake(
    "the length taken from axis 1",
    "You take the length of axis 1 for the number of positions. That is right only for three axes. The positions are "
    "on the second-to-last axis, however many come before it: count from the end.",
)
def _(x: Tensor) -> Tensor:
    return _turned(x, torch.arange(x.size(1))[:, None] * frequencies.reference(x.size(-1)))


@rotate.mistake(
    "the same angle at every position",
    "You rotate every position by the frequencies themselves, which is right for position 1 only. Multiply each "
    "frequency by the position first.",
)
def _(x: Tensor) -> Tensor:
    table = positions.rotary_table(2, x.size(-1))[1:]
    return positions.rotate(x, table.expand(x.size(-2), *table.shape[1:]))


@rotate.mistake(
    "x and y swapped",
    "You take the odd dimensions for x and the even ones for y. It's the other way round: the even ones come first.",
)
def _(x: Tensor) -> Tensor:
    return _turned(_together(*reversed(_apart(x))), _angles(x))


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
    {"ids": torch.tensor([[3, 1, 2, 0], [0, 0, 1, 3]]), "table": numbers(5, 6), "encoding": numbers(4, 6, seed=1)},
    insight="From here on, token and position are a single vector: the layers see only the sum.",
)
def embed(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    """Scaled embeddings plus positions."""
    return table[ids] * math.sqrt(table.size(1)) + encoding[: ids.size(1)]


@embed.mistake(
    "embeddings not scaled",
    "You add embeddings and positions, but the embeddings are too small compared with the positions. §3.4 multiplies "
    "them by a factor first.",
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] + encoding[: ids.size(1)]


@embed.mistake(
    "the sum is scaled", "You scale the sum, so the positions are too large. Only the embeddings should be scaled."
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return (table[ids] + encoding[: ids.size(1)]) * math.sqrt(table.size(1))


@embed.mistake("the positions are scaled", "You scale the positions. It is the embeddings that are too small.")
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] + encoding[: ids.size(1)] * math.sqrt(table.size(1))


@embed.mistake(
    "scaled by d_model",
    "You multiply the embeddings by d_model itself, which makes them too large. The factor is its root.",
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] * table.size(1) + encoding[: ids.size(1)]


@embed.mistake(
    "divided instead of multiplied",
    "You divide the embeddings, which makes them even smaller. Attention divides its scores, but embeddings are "
    "multiplied.",
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] / math.sqrt(table.size(1)) + encoding[: ids.size(1)]


@embed.mistake(
    "scaled by the vocabulary's size",
    "Your factor comes from the number of tokens in the vocabulary. It should come from the width of the table, its "
    "second axis.",
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] * math.sqrt(table.size(0)) + encoding[: ids.size(1)]


@embed.mistake(
    "positions looked up by token id",
    "You use the token ids to look up position vectors. A position vector depends only on where the token is in the "
    "sentence.",
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] * math.sqrt(table.size(1)) + encoding[ids.clamp(max=len(encoding) - 1)]


@embed.mistake(
    "no positions",
    "The embeddings are right, but nothing tells the model where each token is: add the positional encoding.",
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] * math.sqrt(table.size(1))


@embed.mistake(
    "the last positions instead of the first",
    "You take the last rows of the positional encoding. A sentence starts at position 0.",
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] * math.sqrt(table.size(1)) + encoding[-ids.size(1) :]


@embed.mistake(
    "positions from 1", "You begin with the second row of the positional encoding. A sentence starts at position 0."
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] * math.sqrt(table.size(1)) + encoding[1 : ids.size(1) + 1]


@embed.mistake(
    "one position for each sentence",
    "All tokens of a sentence get the same position vector, which depends on the sentence's index in the batch. "
    "Positions run along the second axis.",
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] * math.sqrt(table.size(1)) + encoding[: len(ids), None]


@embed.mistake(
    "positions by the size of the batch",
    "You take as many positions as there are sentences. There is one for each token of a sentence.",
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] * math.sqrt(table.size(1)) + encoding[: len(ids)]


@embed.mistake(
    "half of d_model instead of its root",
    "You multiply by half of d_model. In Python, a power binds more tightly than a division, so the exponent needs "
    "parentheses.",
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] * table.size(1) / 2 + encoding[: ids.size(1)]


@embed.mistake(
    "scaled by the length",
    "Your factor comes from the length of the sentences. It should come from the width of the table, its second axis.",
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] * math.sqrt(ids.size(1)) + encoding[: ids.size(1)]


@embed.mistake(
    "the root is rounded down",
    "You round the root of d_model down. That is right only where d_model is a square number.",
)
def _(ids: Tensor, table: Tensor, encoding: Tensor) -> Tensor:
    return table[ids] * math.isqrt(table.size(1)) + encoding[: ids.size(1)]
