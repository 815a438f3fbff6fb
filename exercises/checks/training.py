"""Checks of 11 training (§5.3, §6.1)."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from exercises.check import Topic, numbers
from transformer import schedule

topic = Topic()
check, given = topic.check, topic.given


# 1 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"step": 4, "d_model": 16, "warmup_steps": 4},
    {"step": 1, "d_model": 16, "warmup_steps": 4},
    {"step": 100, "d_model": 16, "warmup_steps": 4},
    {"step": 2, "d_model": 64, "warmup_steps": 9},
    {"step": 1000, "d_model": 512, "warmup_steps": 4000},
    {"step": 100_000, "d_model": 512, "warmup_steps": 4000},
)
def learning_rate(step: int, d_model: int, warmup_steps: int) -> float:
    """The package's schedule."""
    return schedule.learning_rate(step, d_model, warmup_steps)


@learning_rate.mistake(
    "the larger of the two",
    "You take the larger of the two expressions, so the rate begins very high. The two cross where the warm-up "
    "ends; which one should hold before?",
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * max(step**-0.5, step * warmup_steps**-1.5))


@learning_rate.mistake(
    "d_model left out", "The curve has the right form. How high it is depends on the model's width, too."
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(min(step**-0.5, step * warmup_steps**-1.5))


@learning_rate.mistake(
    "wide models learn faster",
    "Your rate grows with d_model. The wider a model, the smaller its steps: look at the sign of the exponent.",
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**0.5 * min(step**-0.5, step * warmup_steps**-1.5))


@learning_rate.mistake("divided by d_model", "You divide by d_model itself, and it should be its root.")
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-1 * min(step**-0.5, step * warmup_steps**-1.5))


@learning_rate.mistake(
    "the two lines do not meet",
    "At the end of the warm-up your rate jumps. There both expressions should be equal: step times which power of "
    "the warm-up gives the root below?",
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-0.5))


@learning_rate.mistake(
    "a warm-up to 1",
    "Your warm-up rises to 1 and the other expression cuts it off on the way. Which power of the warm-up stands "
    "in the formula?",
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * min(step**-0.5, step / warmup_steps))


@learning_rate.mistake("no warm-up", "Your rate falls from the first step on. Where are the warm-up's steps used?")
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * step**-0.5)


@learning_rate.mistake(
    "it never falls", "Your rate rises for ever. The warm-up ends at some step: what comes after it?"
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * step * warmup_steps**-1.5)


@learning_rate.mistake(
    "it stays where it is",
    "After the warm-up your rate stays at its highest. It should fall with the root of the step.",
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * min(warmup_steps**-0.5, step * warmup_steps**-1.5))


@learning_rate.mistake(
    "steps counted from 0", "You are one step ahead. Steps count from 1 here, so nothing has to be added."
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * min((step + 1) ** -0.5, (step + 1) * warmup_steps**-1.5))


@learning_rate.mistake("it falls too fast", "After the warm-up you divide by the step. It should be by its root.")
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * min(1 / step, step * warmup_steps**-1.5))


# 2 --------------------------------------------------------------------------------------------------------------------

_EXPECTED = torch.tensor([[3, 1, 2, 0], [2, 0, 0, 0]])
_SMALL = torch.tensor([[[0.0, 2.0, 1.0], [1.0, 0.0, 3.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]])


@topic.exercise(
    {"logits": _SMALL, "expected": torch.tensor([[1, 2, 0, 0]]), "pad_id": 0},
    {"logits": numbers(2, 4, 5), "expected": _EXPECTED, "pad_id": 0},
    {
        "logits": 3 * numbers(3, 4, 4, seed=1),
        "expected": torch.tensor([[0, 2, 3, 3], [2, 0, 1, 3], [1, 1, 1, 2]]),
        "pad_id": 3,
    },
    {"logits": 1000 * numbers(2, 4, 5, seed=2), "expected": _EXPECTED, "pad_id": 0},
)
def batch_loss(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    """The mean over all real tokens."""
    return _surprise(logits, expected)[expected != pad_id].mean()


def _surprise(logits: Tensor, expected: Tensor) -> Tensor:
    """-ln p of each expected token, (batch, length)."""
    return -logits.log_softmax(dim=-1).gather(-1, expected[..., None])[..., 0]


@batch_loss.mistake(
    "padding counted",
    "You ask the model to predict padding as well, and it will learn little else: padding is easily predicted.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return _surprise(logits, expected).mean()


@batch_loss.mistake(
    "divided by all places",
    "Padding adds nothing to your sum, but it is counted when you divide. So the more padding, the smaller the loss.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return (_surprise(logits, expected) * (expected != pad_id)).mean()


@batch_loss.mistake("not divided", "This is the sum over the real tokens. By how many is it to be divided?")
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return _surprise(logits, expected)[expected != pad_id].sum()


@batch_loss.mistake(
    "the mean of the sentences' means",
    "You average in each sentence, then over the sentences. So a token of a short sentence weighs more than one "
    "of a long one. Add up everything, and divide once.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    real = expected != pad_id
    return ((_surprise(logits, expected) * real).sum(dim=1) / real.sum(dim=1)).mean()


@batch_loss.mistake(
    "divided by the sentences", "You divide by the number of sentences. The loss is a mean over tokens."
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return _surprise(logits, expected)[expected != pad_id].sum() / len(expected)


@batch_loss.mistake(
    "pad id taken for granted",
    "It is right as long as padding happens to be 0. In another vocabulary it is another id: the last argument "
    "says which.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return _surprise(logits, expected)[expected != 0].mean()


@batch_loss.mistake("the sign", "Your loss is below zero, and falls as the model gets worse. A minus sign is missing.")
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return -_surprise(logits, expected)[expected != pad_id].mean()


@batch_loss.mistake(
    "the logarithm of a rounded probability",
    "It is right for small logits. With large ones a probability becomes 0 before you take its logarithm. There "
    "is a function that does both in one.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    p = logits.softmax(dim=-1).gather(-1, expected[..., None])[..., 0]
    return -p.log()[expected != pad_id].mean()


@batch_loss.mistake(
    "probabilities without a logarithm",
    "You average probabilities. Their logarithms make a wrong answer the dearer the surer the model was of it.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return -(-_surprise(logits, expected)).exp()[expected != pad_id].mean()


@batch_loss.mistake(
    "no softmax", "You take the logits as they are. What turns the logits of a place into log-probabilities?"
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return -logits.gather(-1, expected[..., None])[..., 0][expected != pad_id].mean()


@batch_loss.mistake(
    "softmax over the places",
    "With you the places of a sentence compete for a token. At each place it is the tokens of the vocabulary that "
    "compete.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    log_probs = logits.log_softmax(dim=1).gather(-1, expected[..., None])[..., 0]
    return -log_probs[expected != pad_id].mean()


@batch_loss.mistake(
    "cross_entropy over the wrong axis",
    "cross_entropy takes the second axis for the vocabulary, and here that is the place. It even runs if a "
    "sentence happens to be as long as the vocabulary. How can each place get a row of its own?",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return F.cross_entropy(logits, expected, ignore_index=pad_id)


@batch_loss.mistake(
    "softmax twice", "Cross-entropy takes the softmax itself. You give it what has been through one already."
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return _surprise(logits.softmax(dim=-1), expected)[expected != pad_id].mean()


@batch_loss.mistake("in bits", "Your logarithm has the base 2. Losses are written in nats, with the natural logarithm.")
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return _surprise(logits, expected)[expected != pad_id].mean() / math.log(2)


# 3 --------------------------------------------------------------------------------------------------------------------

Part = tuple[Tensor, Tensor]
"""States, (tokens, d_model), and the expected tokens, (tokens,)."""

_PARTS: list[Part] = [
    (torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]), torch.tensor([1, 2, 1])),
    (torch.tensor([[2.0, -1.0], [3.0, 3.0]]), torch.tensor([2, 0])),
]
_MORE: list[Part] = [
    (numbers(6, 4, seed=3), torch.tensor([1, 4, 2, 3, 1, 2])),
    (numbers(3, 4, seed=4), torch.tensor([2, 5, 5])),
    (numbers(5, 4, seed=5), torch.tensor([0, 4, 5, 5, 5])),
]


@topic.exercise(
    {"weight": torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), "parts": _PARTS, "pad_id": 0},
    {"weight": numbers(6, 4, seed=6), "parts": _MORE, "pad_id": 5},
    {"weight": numbers(6, 4, seed=7), "parts": _MORE[:1], "pad_id": 5},
)
def accumulated_gradient(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    """The gradient of the mean over all real tokens of all parts."""
    return _accumulated(weight, parts, pad_id)


def _gradient(weight: Tensor, part: Part, pad_id: int) -> Tensor:
    """Of the sum over the real tokens of a part: (p - q)ᵀ x."""
    states, expected = part
    error = (states @ weight.T).softmax(dim=-1) - F.one_hot(expected, len(weight))
    return error[expected != pad_id].T @ states[expected != pad_id]


def _real(part: Part, pad_id: int) -> int:
    return int((part[1] != pad_id).sum())


def _accumulated(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    total = torch.stack([_gradient(weight, part, pad_id) for part in parts]).sum(dim=0)
    return total / sum(_real(part, pad_id) for part in parts)


@accumulated_gradient.mistake(
    "the mean of the parts' means",
    "Each part is divided by its own count, and the parts are averaged. So the tokens of a small part weigh more. "
    "The result must be that of one large batch.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    return torch.stack([_gradient(weight, part, pad_id) / _real(part, pad_id) for part in parts]).mean(dim=0)


@accumulated_gradient.mistake(
    "the sum of the parts' means",
    "Each part is divided by its own count, and the parts are added up. With more parts the gradient grows, and "
    "small parts weigh too much.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    return torch.stack([_gradient(weight, part, pad_id) / _real(part, pad_id) for part in parts]).sum(dim=0)


@accumulated_gradient.mistake(
    "not divided", "This is the gradient of the sum. It should be that of the mean: by what is it divided, and when?"
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    return torch.stack([_gradient(weight, part, pad_id) for part in parts]).sum(dim=0)


@accumulated_gradient.mistake(
    "divided by the number of parts", "You divide the sum by how many parts there are. The mean is over tokens."
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    return torch.stack([_gradient(weight, part, pad_id) for part in parts]).mean(dim=0)


@accumulated_gradient.mistake(
    "padding counted when dividing",
    "Padding has no share in the sum, but it is counted among the tokens that you divide by.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    total = torch.stack([_gradient(weight, part, pad_id) for part in parts]).sum(dim=0)
    return total / sum(len(expected) for _, expected in parts)


@accumulated_gradient.mistake(
    "divided twice",
    "Your gradient is too small: each part's loss is a mean already, and you divide it once more. What does "
    "cross_entropy do with the losses of the tokens, unless it is told?",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    n = sum(_real(part, pad_id) for part in parts)
    return torch.stack([_gradient(weight, part, pad_id) / _real(part, pad_id) for part in parts]).sum(dim=0) / n


@accumulated_gradient.mistake(
    "padding learned, but not counted",
    "You divide by the real tokens, but what is added up still asks for padding, too.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    total = torch.stack([_gradient(weight, part, -1) for part in parts]).sum(dim=0)
    return total / sum(_real(part, pad_id) for part in parts)


@accumulated_gradient.mistake("padding learned", "Your loss asks for padding, too. It should count for nothing.")
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    return _accumulated(weight, parts, -1)


@accumulated_gradient.mistake(
    "only the last part",
    "What comes out is the last part's share alone. Are the gradients set back to zero, or written over, inside "
    "the loop?",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    return _gradient(weight, parts[-1], pad_id) / sum(_real(part, pad_id) for part in parts)


@accumulated_gradient.mistake(
    "only the last part, divided by its own count",
    "This is the gradient of the last part alone. Those of all parts should be added up before anything is divided.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    return _gradient(weight, parts[-1], pad_id) / _real(parts[-1], pad_id)


@accumulated_gradient.mistake(
    "the sum divided by the last part's count",
    "The sum is right. But you divide it by the count of the last part: the counts must be added up, too.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    total = torch.stack([_gradient(weight, part, pad_id) for part in parts]).sum(dim=0)
    return total / _real(parts[-1], pad_id)


@accumulated_gradient.mistake(
    "early parts counted again and again",
    "You go backward from a running total after every part, so the first part's gradient is added once for each "
    "of them.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    shares = [_gradient(weight, part, pad_id) * (len(parts) - i) for i, part in enumerate(parts)]
    return torch.stack(shares).sum(dim=0) / sum(_real(part, pad_id) for part in parts)


@accumulated_gradient.mistake(
    "the sign",
    "Your gradient points downhill. It should point uphill, as backward makes it; the optimiser goes against it.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    return -_accumulated(weight, parts, pad_id)


# 4 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"gradients": [torch.tensor([3.0, 0.0]), torch.tensor([[4.0]])], "max_norm": 1.0},
    {"gradients": [torch.tensor([0.3, -0.2]), torch.tensor([[0.1]])], "max_norm": 1.0},
    {"gradients": [torch.zeros(2), torch.zeros(1, 2)], "max_norm": 1.0},
    {"gradients": [numbers(2, 3), 5 * numbers(4, seed=1), numbers(3, 2, 2, seed=2)], "max_norm": 2.5},
    {"gradients": [numbers(2, 2, seed=3), torch.tensor([0.1, 0.2])], "max_norm": 0.5},
    {"gradients": [torch.tensor([1.2, -1.0]), torch.tensor([1.5])], "max_norm": 2.5},
)
def clip_by_norm(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    """Shorten what is too long."""
    return _clipped(gradients, max_norm)


def _norm(gradients: list[Tensor]) -> float:
    return math.sqrt(sum(float(g.square().sum()) for g in gradients))


def _clipped(gradients: list[Tensor], max_norm: float, norm: Callable[[list[Tensor]], float] = _norm) -> list[Tensor]:
    length = norm(gradients)
    return [g * (max_norm / length) if length > max_norm else g for g in gradients]


@clip_by_norm.mistake(
    "each tensor on its own",
    "You clip each tensor by its own norm, which turns the gradient into another direction. All of them together "
    "are one long vector, and have one norm.",
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return [_clipped([g], max_norm)[0] for g in gradients]


@clip_by_norm.mistake(
    "clipped number by number",
    "You cut each number off at the limit. Then the large ones become equal and the direction changes. It is the "
    "length of the whole that is limited.",
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return [g.clamp(-max_norm, max_norm) for g in gradients]


@clip_by_norm.mistake(
    "short ones made longer",
    "Yours always has the norm max_norm. A gradient that is short enough stays as it is; and one of zeros cannot "
    "be made longer.",
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return [g * max_norm / torch.tensor(_norm(gradients)) for g in gradients]


@clip_by_norm.mistake(
    "zeros divided by zero",
    "Yours always has the norm max_norm, and where all gradients are 0 it divides by 0. When is there anything to "
    "be clipped?",
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return [g * (max_norm / _norm(gradients)) for g in gradients]


@clip_by_norm.mistake("shortened to 1", "What is too long gets the norm 1 with you, whatever max_norm is.")
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    norm = _norm(gradients)
    return [g / norm if norm > max_norm else g for g in gradients]


@clip_by_norm.mistake(
    "the norms added up",
    "You add up the norms of the tensors. The norm of the whole is the root of the sum of squares.",
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return _clipped(gradients, max_norm, lambda gs: sum(float(g.norm()) for g in gs))


@clip_by_norm.mistake("the root forgotten", "This is the sum of the squares. A norm is its root.")
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return _clipped(gradients, max_norm, lambda gs: _norm(gs) ** 2)


@clip_by_norm.mistake(
    "absolute values in place of squares",
    "You add up absolute values. The norm here is the ordinary length, with squares and a root.",
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return _clipped(gradients, max_norm, lambda gs: sum(float(g.abs().sum()) for g in gs))


@clip_by_norm.mistake(
    "the largest norm of a tensor",
    "You take the largest of the tensors' norms. All of them together are one long vector.",
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return _clipped(gradients, max_norm, lambda gs: max(float(g.norm()) for g in gs))


@clip_by_norm.mistake("upside down", "Your factor is above 1 just where the gradient is too long.")
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    norm = _norm(gradients)
    return [g * (norm / max_norm) if norm > max_norm else g for g in gradients]


@clip_by_norm.mistake("nothing is clipped", "The gradients come back as they were.")
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return gradients


# 5 --------------------------------------------------------------------------------------------------------------------

_BETAS, _EPS = (0.9, 0.98), 1e-9


@topic.exercise(
    {
        "weight": torch.tensor([1.0, 2.0]),
        "gradient": torch.tensor([0.5, -3.0]),
        "m": torch.zeros(2),
        "v": torch.zeros(2),
        "step": 1,
        "rate": 0.1,
    },
    {
        "weight": torch.tensor([1.0, 2.0]),
        "gradient": torch.tensor([0.5, -3.0]),
        "m": torch.tensor([0.2, -0.1]),
        "v": torch.tensor([0.04, 0.5]),
        "step": 3,
        "rate": 0.1,
    },
    {
        "weight": torch.tensor([1.0, 1.0]),
        "gradient": torch.tensor([1e-7, 0.0]),
        "m": torch.zeros(2),
        "v": torch.zeros(2),
        "step": 1,
        "rate": 0.1,
    },
    {
        "weight": numbers(2, 3),
        "gradient": numbers(2, 3, seed=1),
        "m": 0.3 * numbers(2, 3, seed=2),
        "v": numbers(2, 3, seed=3).square(),
        "step": 20,
        "rate": 0.5,
    },
    results=("weight", "m", "v"),
)
def adam_step(
    weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float
) -> tuple[Tensor, Tensor, Tensor]:
    """One step of Adam with the paper's settings."""
    return _adam(weight, gradient, m, v, step, rate)


def _adam(
    weight: Tensor,
    gradient: Tensor,
    m: Tensor,
    v: Tensor,
    step: int,
    rate: float,
    betas: tuple[float, float] = _BETAS,
    corrects: tuple[bool, bool] = (True, True),
    at: int = 0,
    divisor: Callable[[Tensor], Tensor] = lambda v: v.sqrt() + _EPS,
    power: int = 2,
) -> tuple[Tensor, Tensor, Tensor]:
    """Adam with a switch for each way to get it wrong."""
    m = betas[0] * m + (1 - betas[0]) * gradient
    v = betas[1] * v + (1 - betas[1]) * gradient**power
    m_hat = m / (1 - betas[0] ** (step + at)) if corrects[0] else m
    v_hat = v / (1 - betas[1] ** (step + at)) if corrects[1] else v
    return weight - rate * m_hat / divisor(v_hat), m, v


Adam = tuple[Tensor, Tensor, Tensor]


@adam_step.mistake(
    "no bias correction",
    "m and v begin at zero and are too small in the first steps, m ten times, v fifty times at step 1. What makes "
    "up for it?",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, corrects=(False, False))


@adam_step.mistake("only m is corrected", "You correct m for its beginning at zero. v has begun there, too.")
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, corrects=(True, False))


@adam_step.mistake("only v is corrected", "You correct v for its beginning at zero. m has begun there, too.")
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, corrects=(False, True))


@adam_step.mistake(
    "the corrected m and v returned",
    "The weight is right. But the next step must go on from m and v as they are: return them without the correction.",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    weight, m, v = _adam(weight, gradient, m, v, step, rate)
    return weight, m / (1 - _BETAS[0] ** step), v / (1 - _BETAS[1] ** step)


@adam_step.mistake("the betas swapped", "With you m forgets slowly and v quickly. Which beta is the one for m?")
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, betas=(0.98, 0.9))


@adam_step.mistake(
    "another beta2", "Your second beta is 0.999, as in most libraries. The paper has another one (§5.3)."
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, betas=(0.9, 0.999))


@adam_step.mistake(
    "old and new weighed the wrong way round",
    "The gradient has most of the say in your m and v. They are slow averages: nine tenths of m are what it was.",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    m, v = 0.1 * m + 0.9 * gradient, 0.02 * v + 0.98 * gradient.square()
    m_hat, v_hat = m / (1 - 0.9**step), v / (1 - 0.98**step)
    return weight - rate * m_hat / (v_hat.sqrt() + _EPS), m, v


@adam_step.mistake(
    "uphill", "m and v are right. But the weight goes with the gradient, and the loss will grow: a sign."
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, -rate)


@adam_step.mistake(
    "the root forgotten", "m and v are right. But you divide by v itself, which has the gradient squared in it."
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, divisor=lambda v: v + _EPS)


@adam_step.mistake(
    "epsilon under the root",
    "It is right but for tiny gradients: epsilon is added under your root, where its own root counts, 30,000 "
    "times as much.",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, divisor=lambda v: (v + _EPS).sqrt())


@adam_step.mistake(
    "another epsilon",
    "It is right but for tiny gradients: your epsilon is 1e-8, as in most libraries. The paper has another one (§5.3).",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, divisor=lambda v: v.sqrt() + 1e-8)


@adam_step.mistake(
    "epsilon left out",
    "It is right but for tiny gradients. And where a gradient has always been 0, yours divides 0 by 0: what is "
    "epsilon for?",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, divisor=torch.sqrt)


@adam_step.mistake("the gradient not squared", "Your v averages the gradient. It should average its square.")
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, power=1)


@adam_step.mistake(
    "steps counted from 0",
    "You correct as if it were one step earlier, which at the first one divides by 0. Steps count from 1 here.",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    one = torch.tensor(1.0)
    m, v = 0.9 * m + 0.1 * gradient, 0.98 * v + 0.02 * gradient.square()
    m_hat, v_hat = m / (one - 0.9 ** (step - 1)), v / (one - 0.98 ** (step - 1))
    return weight - rate * m_hat / (v_hat.sqrt() + _EPS), m, v


@adam_step.mistake(
    "one step ahead", "You correct as if it were one step later. Steps count from 1 here, so nothing has to be added."
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, at=1)


@adam_step.mistake(
    "the gradient in place of m",
    "m and v are right. But the weight follows the newest gradient alone: what is m there for?",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    _, m, v = _adam(weight, gradient, m, v, step, rate)
    return weight - rate * gradient / ((v / (1 - 0.98**step)).sqrt() + _EPS), m, v


# 6 --------------------------------------------------------------------------------------------------------------------

Weights = dict[str, Tensor]


def _checkpoint(seed: int) -> Weights:
    return {"embedding": numbers(4, 3, seed=seed), "norm": numbers(3, seed=seed + 50)}


@topic.exercise(
    {
        "checkpoints": [
            {"w": torch.tensor([1.0, 6.0])},
            {"w": torch.tensor([3.0, 0.0])},
            {"w": torch.tensor([8.0, -3.0])},
        ]
    },
    {"checkpoints": [_checkpoint(seed) for seed in range(7)]},
    {"checkpoints": [_checkpoint(9)]},
)
def average_checkpoints(checkpoints: list[Weights]) -> Weights:
    """The mean of each weight."""
    return {name: _stacked(checkpoints, name).mean(dim=0) for name in checkpoints[0]}


def _stacked(checkpoints: list[Weights], name: str) -> Tensor:
    return torch.stack([checkpoint[name] for checkpoint in checkpoints])


@average_checkpoints.mistake("not divided", "This is the sum. By how many is it to be divided?")
def _(checkpoints: list[Weights]) -> Weights:
    return {name: _stacked(checkpoints, name).sum(dim=0) for name in checkpoints[0]}


@average_checkpoints.mistake(
    "two by two",
    "You take the mean of what you have and the next one, again and again. So the last checkpoint has half of the "
    "say, and the first almost none.",
)
def _(checkpoints: list[Weights]) -> Weights:
    mean = checkpoints[0]
    for checkpoint in checkpoints[1:]:
        mean = {name: (mean[name] + checkpoint[name]) / 2 for name in mean}
    return mean


@average_checkpoints.mistake("only the last", "These are the weights of the last checkpoint.")
def _(checkpoints: list[Weights]) -> Weights:
    return checkpoints[-1]


@average_checkpoints.mistake("only the first", "These are the weights of the first checkpoint.")
def _(checkpoints: list[Weights]) -> Weights:
    return checkpoints[0]


@average_checkpoints.mistake(
    "only the last, divided", "You divide the last checkpoint by how many there are. The others must be added to it."
)
def _(checkpoints: list[Weights]) -> Weights:
    return {name: weight / len(checkpoints) for name, weight in checkpoints[-1].items()}


@average_checkpoints.mistake(
    "divided by the number of weights",
    "You divide by how many weights a checkpoint has. It should be by how many checkpoints there are.",
)
def _(checkpoints: list[Weights]) -> Weights:
    return {name: _stacked(checkpoints, name).sum(dim=0) / len(checkpoints[0]) for name in checkpoints[0]}


@average_checkpoints.mistake(
    "the first counted twice", "The first checkpoint is in your sum twice: once to begin with, once in the loop."
)
def _(checkpoints: list[Weights]) -> Weights:
    return {
        name: (_stacked(checkpoints, name).sum(dim=0) + checkpoints[0][name]) / len(checkpoints)
        for name in checkpoints[0]
    }


@average_checkpoints.mistake(
    "one number for a whole tensor",
    "You average over everything, so each weight has become a single number. Only the checkpoints are averaged "
    "over: which axis is theirs?",
)
def _(checkpoints: list[Weights]) -> Weights:
    return {name: _stacked(checkpoints, name).mean() for name in checkpoints[0]}


@average_checkpoints.mistake(
    "the median", "This is the median. Every checkpoint should have its share in every weight."
)
def _(checkpoints: list[Weights]) -> Weights:
    return {name: _stacked(checkpoints, name).median(dim=0).values for name in checkpoints[0]}


@average_checkpoints.mistake(
    "the newer the more",
    "You let old checkpoints fade out. That is a good custom, too, but not the paper's: with it all count the same.",
)
def _(checkpoints: list[Weights]) -> Weights:
    mean = checkpoints[0]
    for checkpoint in checkpoints[1:]:
        mean = {name: 0.9 * mean[name] + 0.1 * checkpoint[name] for name in mean}
    return mean
