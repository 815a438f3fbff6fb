"""Checks of 11 training (§5.3, §6.1)."""

import math
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from exercises.bugs import Bug, add_bugs
from exercises.calls import Function, Guard, Inputs, call
from exercises.check import Topic
from exercises.restrictions import watch_calls
from exercises.tensors import numbers
from transformer import schedule

topic = Topic()
check, given = topic.check, topic.given


def _not_from(module: str, name: str, advice: str) -> Guard:
    """Forbid a module of PyTorch, which is called by this name in the message."""

    def find_forbidden(frame: FrameType, event: str, argument: Any) -> str | None:
        return name if event == "call" and frame.f_globals.get("__name__", "").startswith(module) else None

    return lambda inputs: watch_calls(find_forbidden, advice)


# 1 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"step": 4, "d_model": 16, "warmup_steps": 4},
    {"step": 1, "d_model": 16, "warmup_steps": 4},
    {"step": 100, "d_model": 16, "warmup_steps": 4},
    {"step": 2, "d_model": 64, "warmup_steps": 9},
    {"step": 6, "d_model": 16, "warmup_steps": 5},
    {"step": 1000, "d_model": 512, "warmup_steps": 4000},
    {"step": 100_000, "d_model": 512, "warmup_steps": 4000},
    insight="It peaks at the end of the warm-up, at 1 / √(d_model · warmup_steps): 0.0007 for the paper's base model.",
)
def learning_rate(step: int, d_model: int, warmup_steps: int) -> float:
    """The package's schedule."""
    return schedule.learning_rate(step, d_model, warmup_steps)


@learning_rate.mistake(
    "the maximum instead of the minimum",
    "You take the larger of the two expressions, so the learning rate starts very high. During warm-up, the smaller "
    "one applies.",
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * max(step**-0.5, step * warmup_steps**-1.5))


@learning_rate.mistake(
    "d_model left out", "The curve has the right shape, but its height should also depend on d_model."
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(min(step**-0.5, step * warmup_steps**-1.5))


@learning_rate.mistake(
    "it grows with d_model",
    "Your learning rate grows with d_model. Wider models take smaller steps: check the sign of the exponent.",
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**0.5 * min(step**-0.5, step * warmup_steps**-1.5))


@learning_rate.mistake(
    "an exponent without parentheses",
    "Python computes `x ** -1 / 2` as `(x ** -1) / 2`. Put the exponent in parentheses, or write -0.5 and -1.5.",
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-1 / 2 * min(step**-1 / 2, step * warmup_steps**-3 / 2))


@learning_rate.mistake(
    "the power of the product",
    "You raise the product of step and warmup_steps to a power. Only warmup_steps has the exponent -1.5.",
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * min(step**-0.5, (step * warmup_steps) ** -1.5))


@learning_rate.mistake("divided by d_model", "You divide by d_model. Divide by its square root.")
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-1 * min(step**-0.5, step * warmup_steps**-1.5))


@learning_rate.mistake(
    "the two expressions don't meet",
    "Your learning rate jumps at the end of the warm-up, where both expressions should be equal. Check the exponent "
    "of the warm-up.",
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-0.5))


@learning_rate.mistake(
    "a warm-up that rises to 1",
    "Your warm-up rises to 1 and is cut off by the other expression on the way. Check the exponent of the warm-up.",
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * min(step**-0.5, step / warmup_steps))


@learning_rate.mistake("no warm-up", "Your learning rate falls from the first step. The warm-up steps aren't used.")
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * step**-0.5)


@learning_rate.mistake("it never decays", "Your learning rate rises for ever. After the warm-up it should fall.")
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * step * warmup_steps**-1.5)


@learning_rate.mistake(
    "constant after the warm-up",
    "After the warm-up, your learning rate stays at its peak. It should fall with the inverse square root of the step.",
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * min(warmup_steps**-0.5, step * warmup_steps**-1.5))


@learning_rate.mistake(
    "steps counted from 0", "You are one step ahead, because you add 1 to the step. Steps are counted from 1 here."
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * min((step + 1) ** -0.5, (step + 1) * warmup_steps**-1.5))


@learning_rate.mistake(
    "one step behind",
    "You compute the learning rate of the step before. Steps are counted from 1 here: use `step` as it is.",
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * min((step - 1) ** -0.5, (step - 1) * warmup_steps**-1.5))


_AFTER_WARMUP = (
    "After the warm-up, you count the steps from its end. The formula has the number of the step itself, counted from "
    "the beginning of training: only then do both expressions meet at the end of the warm-up."
)


@learning_rate.mistake("the decay counted from the end of the warm-up", _AFTER_WARMUP)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    after = step - warmup_steps
    return float(d_model**-0.5 * (step * warmup_steps**-1.5 if after <= 0 else after**-0.5))


@learning_rate.mistake("the smaller one, with the decay counted from the end of the warm-up", _AFTER_WARMUP)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * min(max(1, step - warmup_steps) ** -0.5, step * warmup_steps**-1.5))


@learning_rate.mistake(
    "one step behind in the warm-up",
    "The decay is right, but your warm-up has `step - 1`, so the learning rate of the first step is 0. Steps are "
    "counted from 1 here: use `step` as it is.",
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * min(step**-0.5, (step - 1) * warmup_steps**-1.5))


@learning_rate.mistake(
    "one step ahead in the warm-up",
    "The decay is right, but your warm-up has `step + 1`. Steps are counted from 1 here: use `step` as it is.",
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * min(step**-0.5, (step + 1) * warmup_steps**-1.5))


@learning_rate.mistake("it decays too fast", "After the warm-up, you divide by the step. Divide by its square root.")
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * min(1 / step, step * warmup_steps**-1.5))


@learning_rate.mistake(
    "both expressions added",
    "You add the two expressions, so the learning rate is too high, most of all where they are equal. Take the smaller "
    "one.",
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * (step**-0.5 + step * warmup_steps**-1.5))


@learning_rate.mistake(
    "d_model in only one of the two",
    "Only the expression for the steps after the warm-up is divided by the square root of d_model. Both should be: "
    "mind the parentheses.",
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(min(d_model**-0.5 * step**-0.5, step * warmup_steps**-1.5))


@learning_rate.mistake(
    "an exponent rounded down",
    "You write an exponent with `//`, which rounds it down to a whole number: -3 // 2 is -2.",
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * min(step**-0.5, step * float(warmup_steps) ** -2))


@learning_rate.mistake(
    "it grows with the root of the step",
    "After the warm-up, your learning rate goes on growing. It should fall with the square root of the step: check the "
    "sign of its exponent.",
)
def _(step: int, d_model: int, warmup_steps: int) -> float:
    return float(d_model**-0.5 * min(step**0.5, step * warmup_steps**-1.5))


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
    "padding included",
    "You include the positions where padding is expected. The model would mainly learn to predict padding, which is "
    "easy.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return _surprise(logits, expected).mean()


@batch_loss.mistake(
    "divided by all positions",
    "Your sum leaves padding out, but you divide by all positions. The loss would depend on how much padding there is.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return (_surprise(logits, expected) * (expected != pad_id)).mean()


@batch_loss.mistake("not divided", "This is the sum over the real tokens. Divide it by how many there are.")
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return _surprise(logits, expected)[expected != pad_id].sum()


@batch_loss.mistake(
    "the mean of the sentences' means",
    "You average within each sentence and then over the sentences, so tokens of short sentences get a larger weight. "
    "Add up everything and divide once.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    real = expected != pad_id
    return ((_surprise(logits, expected) * real).sum(dim=1) / real.sum(dim=1)).mean()


@batch_loss.mistake(
    "divided by the number of sentences", "You divide by the number of sentences. Divide by the number of real tokens."
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return _surprise(logits, expected)[expected != pad_id].sum() / len(expected)


@batch_loss.mistake(
    "pad_id not used",
    "You assume that padding has the id 0. In another vocabulary it may have another id: use the last argument.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return _surprise(logits, expected)[expected != 0].mean()


@batch_loss.mistake(
    "the wrong sign", "Your loss is negative, and it falls as the model gets worse. A minus is missing."
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return -_surprise(logits, expected)[expected != pad_id].mean()


@batch_loss.mistake(
    "the logarithm of zero",
    "This works for small logits. With large ones a probability is rounded to 0, and its logarithm is infinite. "
    "`log_softmax` computes the logarithm of the softmax in one step, without this problem.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    p = logits.softmax(dim=-1).gather(-1, expected[..., None])[..., 0]
    return -p.log()[expected != pad_id].mean()


@batch_loss.mistake(
    "NaN for large logits",
    "This works for small logits. With large ones an exponential is infinite, or a probability is rounded to 0 and its "
    "logarithm is infinite, and infinity times 0 is NaN. `log_softmax` computes the logarithm of the softmax in one "
    "step, without this problem.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    p, real = logits.softmax(dim=-1).gather(-1, expected[..., None])[..., 0], expected != pad_id
    return -(p.log() * real).sum() / real.sum()


@batch_loss.mistake(
    "no logarithm",
    "You average probabilities. The loss is minus their logarithm, which penalises a confident wrong prediction "
    "heavily.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return -(-_surprise(logits, expected)).exp()[expected != pad_id].mean()


@batch_loss.mistake(
    "no softmax", "You use the logits as they are. They have to be turned into log-probabilities first."
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return -logits.gather(-1, expected[..., None])[..., 0][expected != pad_id].mean()


@batch_loss.mistake(
    "softmax over the positions",
    "You normalise over the positions of a sentence. At each position, the probabilities of the vocabulary should sum "
    "to one.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    log_probs = logits.log_softmax(dim=1).gather(-1, expected[..., None])[..., 0]
    return -log_probs[expected != pad_id].mean()


@batch_loss.mistake(
    "cross_entropy over the wrong axis",
    "PyTorch's cross_entropy expects the vocabulary in the second axis, but there you have the positions. (If a "
    "sentence is as long as the vocabulary, you don't even get an error.)",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return F.cross_entropy(logits, expected, ignore_index=pad_id)


@batch_loss.mistake(
    "softmax twice",
    "PyTorch's cross_entropy applies the softmax itself, and you pass it probabilities. Pass it the logits.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return _surprise(logits.softmax(dim=-1), expected)[expected != pad_id].mean()


@batch_loss.mistake("in bits", "You use the logarithm to base 2. Use the natural logarithm.")
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return _surprise(logits, expected)[expected != pad_id].mean() / math.log(2)


@batch_loss.mistake(
    "reshaped instead of transposed",
    "You give the logits the shape (batch, vocab_size, length) by a view. That doesn't move any number, so the "
    "logits of different positions get mixed. Swap the axes, or flatten batch and length.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    batch, length, vocab_size = logits.shape
    return F.cross_entropy(logits.reshape(batch, vocab_size, length), expected, ignore_index=pad_id)


@batch_loss.mistake(
    "labels shifted again",
    "You compare each position with the label of the next one. The labels are already shifted: position i predicts "
    "entry i of `expected`.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return batch_loss.reference(logits[:, :-1], expected[:, 1:], pad_id)


@batch_loss.mistake(
    "only the padding included",
    "You take the mean over the padding, the positions that should be left out.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return _surprise(logits, expected)[expected == pad_id].mean()


@batch_loss.mistake(
    "(batch, length, 1) times (batch, length)",
    "`gather` has kept an axis of length one, so that the product with a mask is broadcast to three axes. Remove it.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    real = expected != pad_id
    return (_surprise(logits, expected)[..., None] * real).sum() / real.sum()


@batch_loss.mistake(
    "the labels smoothed", "You smooth the labels. In this blank the whole probability belongs to the expected token."
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return F.cross_entropy(logits.mT, expected, ignore_index=pad_id, label_smoothing=0.1)


@batch_loss.mistake(
    "averaged over the vocabulary",
    "You average the log-probabilities of all tokens of the vocabulary. At each position, only that of the expected "
    "token counts.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return -logits.log_softmax(dim=-1)[expected != pad_id].mean()


@batch_loss.mistake(
    "the losses of all positions",
    "You return the losses of the positions, with 0 at padding. Return a single number: their mean over the real "
    "tokens.",
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return _surprise(logits, expected) * (expected != pad_id)


@batch_loss.mistake(
    "the losses of the real tokens", "You return the losses of all real tokens. Return a single number: their mean."
)
def _(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return _surprise(logits, expected)[expected != pad_id]


for _small in (1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12):

    @batch_loss.mistake(
        f"{_small:g} added before the logarithm",
        "You add a small number to the probabilities so that none of them is 0. Very unlikely tokens then cost too "
        "little. Compute the logarithm of the softmax in one step.",
    )
    def _(logits: Tensor, expected: Tensor, pad_id: int, small: float = _small) -> Tensor:
        p = logits.softmax(dim=-1).gather(-1, expected[..., None])[..., 0]
        return -(p + small).log()[expected != pad_id].mean()


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


_LARGE: Inputs = {
    "weight": numbers(13, 4, seed=10),
    "parts": [
        (numbers(9, 4, seed=11), torch.tensor([3, 12, 5, 7, 1, 0, 9, 2, 2])),
        (numbers(6, 4, seed=12), torch.tensor([4, 1, 0, 11, 8, 6])),
        (numbers(3, 4, seed=13), torch.tensor([10, 0, 3])),
    ],
    "pad_id": 0,
}
"""A table of logits tells by its number of rows to which part it belongs: to 9 or 8 real tokens, 6 or 5, 3 or 2."""


class _Logits(TorchFunctionMode):
    """Watch which tables as wide as the vocabulary exist at the same time, as variables or for `backward`.

    One part may still be there while the next one is computed, because a variable keeps its last value.
    """

    def __init__(self, weight: Tensor, parts: list[Part], pad_id: int) -> None:
        super().__init__()
        self._vocab_size, self._d_model = weight.shape
        self._part_of = {n: i for i, part in enumerate(parts) for n in (len(part[0]), _real(part, pad_id))}
        self._alive: list[tuple[weakref.ref[Any], int]] = []
        self.largest, self.most_parts = torch.Size(), 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and not result._is_view():
            self._note(result, result)
        return result

    def pack(self, tensor: Tensor) -> "_Saved":
        """Note a tensor that PyTorch keeps for `backward`, and return what it keeps in its place."""
        saved = _Saved(tensor)
        self._note(tensor, saved)
        return saved

    def _note(self, table: Tensor, owner: Any) -> None:
        if not table.is_floating_point() or self._vocab_size not in table.shape or self._d_model in table.shape:
            return
        n_rows = table.numel() // self._vocab_size
        if n_rows > max(self._part_of):
            self.largest = max(self.largest, table.shape, key=torch.Size.numel)
        if n_rows in self._part_of:
            self._alive = [entry for entry in self._alive if entry[0]() is not None]
            self._alive.append((weakref.ref(owner), self._part_of[n_rows]))
            self.most_parts = max(self.most_parts, len({part for _, part in self._alive}))


class _Saved:
    """A tensor that is kept for `backward`; it is released together with this object."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor.detach()  # with its graph, it would keep itself alive


def _holds_all_logits(answer: Function) -> str | None:
    """Return a message if an answer has the logits of all parts at once."""
    watch = _Logits(**_LARGE)

    @contextmanager
    def watched(inputs: Inputs) -> Iterator[None]:
        with watch, torch.autograd.graph.saved_tensors_hooks(watch.pack, lambda saved: saved.tensor):
            yield

    call(answer, _LARGE, watched)
    if watch.largest:
        how = f"makes a table of shape {tuple(watch.largest)}, with the logits of several parts in one"
    elif watch.most_parts == len(_LARGE["parts"]):
        how = (
            "still has the logits of all parts at the end: in a list, or because PyTorch keeps what a loss was "
            "computed from until you call backward"
        )
    else:
        return None
    return (
        f"the logits of all parts at once\nThe gradient is right, but your code {how}. A batch is split because all of "
        "this doesn't fit into memory: compute the loss of one part, call backward, and only then go on with the next "
        "one."
    )


@topic.exercise(
    {"weight": torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), "parts": _PARTS, "pad_id": 0},
    {"weight": numbers(6, 4, seed=6), "parts": _MORE, "pad_id": 5},
    {"weight": numbers(6, 4, seed=7), "parts": _MORE[:1], "pad_id": 5},
    {"weight": numbers(3, 1), "parts": [(numbers(2, 1, seed=1), torch.tensor([1, 2]))], "pad_id": 0},
    {
        "weight": numbers(6, 4, seed=8),
        "parts": [*_MORE[:2], (numbers(2, 4, seed=9), torch.tensor([5, 5]))],
        "pad_id": 5,
    },
    differentiable=False,
    look_closer=_holds_all_logits,
    insight="Training on several GPUs works in the same way: each computes one part, and the gradients are added up.",
)
def accumulated_gradient(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    """The gradient of the mean over all real tokens of all parts."""
    return _accumulated(weight, parts, pad_id)


def _gradient(weight: Tensor, part: Part, pad_id: int) -> Tensor:
    """Of the sum over the real tokens of a part: (p - q)ᵀ x."""
    states, expected = part
    error = (states @ weight.T).softmax(dim=-1) - F.one_hot(expected, len(weight))
    return error[expected != pad_id].T @ states[expected != pad_id]


def _mean_gradient(weight: Tensor, part: Part, pad_id: int) -> Tensor:
    """Of the mean over the real tokens of a part; 0 if there are none, as in PyTorch."""
    return _gradient(weight, part, pad_id) / max(1, _real(part, pad_id))


def _real(part: Part, pad_id: int) -> int:
    return int((part[1] != pad_id).sum())


def _accumulated(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    total = torch.stack([_gradient(weight, part, pad_id) for part in parts]).sum(dim=0)
    return total / sum(_real(part, pad_id) for part in parts)


@accumulated_gradient.mistake(
    "the mean of the parts' means",
    "You average each part and then the parts, so the tokens of a small part get a larger weight. The result should "
    "be the gradient of one large batch: divide by the tokens of all parts.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    return torch.stack([_mean_gradient(weight, part, pad_id) for part in parts]).mean(dim=0)


@accumulated_gradient.mistake(
    "the sum of the parts' means",
    "You divide each part by its own count and add the results, so the gradient grows with the number of parts. "
    "Divide by the tokens of all parts.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    return torch.stack([_mean_gradient(weight, part, pad_id) for part in parts]).sum(dim=0)


@accumulated_gradient.mistake(
    "not divided", "This is the gradient of the sum. Divide by the number of real tokens in all parts."
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    return torch.stack([_gradient(weight, part, pad_id) for part in parts]).sum(dim=0)


@accumulated_gradient.mistake(
    "divided by the number of parts",
    "You divide by the number of parts. Divide by the number of real tokens in all parts.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    return torch.stack([_gradient(weight, part, pad_id) for part in parts]).mean(dim=0)


@accumulated_gradient.mistake(
    "padding counted when dividing",
    "Padding contributes nothing to your sum, but you count it among the tokens that you divide by.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    total = torch.stack([_gradient(weight, part, pad_id) for part in parts]).sum(dim=0)
    return total / sum(len(expected) for _, expected in parts)


@accumulated_gradient.mistake(
    "divided twice",
    "Your gradient is too small: by default, cross_entropy already averages over the tokens of a part, and then you "
    "divide again.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    n = sum(_real(part, pad_id) for part in parts)
    return torch.stack([_mean_gradient(weight, part, pad_id) for part in parts]).sum(dim=0) / n


@accumulated_gradient.mistake(
    "padding in the sum, but not in the count",
    "You divide by the number of real tokens, but your sum includes the losses at padding.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    total = torch.stack([_gradient(weight, part, -1) for part in parts]).sum(dim=0)
    return total / sum(_real(part, pad_id) for part in parts)


@accumulated_gradient.mistake(
    "padding included", "Your loss includes the positions where padding is expected. Leave them out."
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    return _accumulated(weight, parts, -1)


@accumulated_gradient.mistake(
    "only the last part",
    "Your gradient is that of the last part. Each part's gradient should be added to the earlier ones: don't reset or "
    "overwrite it inside the loop.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    return _gradient(weight, parts[-1], pad_id) / sum(_real(part, pad_id) for part in parts)


@accumulated_gradient.mistake(
    "only the last part, divided by its own count",
    "This is the gradient of the last part alone. Add up the gradients of all parts, and divide by the tokens of all "
    "parts.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    return _mean_gradient(weight, parts[-1], pad_id)


@accumulated_gradient.mistake(
    "the sum divided by the last part's count",
    "The sum is right, but you divide it by the tokens of the last part. Divide by the tokens of all parts.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    total = torch.stack([_gradient(weight, part, pad_id) for part in parts]).sum(dim=0)
    return total / _real(parts[-1], pad_id)


@accumulated_gradient.mistake(
    "early parts counted repeatedly",
    "You call backward on a running total, so the gradient of an early part is added again for every later one: that "
    "of the first of two parts is counted twice. Call it on each part's own loss.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    shares = [_gradient(weight, part, pad_id) * (len(parts) - i) for i, part in enumerate(parts)]
    return torch.stack(shares).sum(dim=0) / sum(_real(part, pad_id) for part in parts)


for _title, _is_mean in (("averaged by itself", False), ("averaged by itself, and over the parts", True)):

    @accumulated_gradient.mistake(
        f"early parts counted repeatedly, each {_title}",
        "You call backward on a running total, so the gradient of an early part is added again for every later one: "
        "that of the first of two parts is counted twice. Call it on each part's own loss. And each loss should be "
        "divided by the real tokens of all parts, not by its own.",
    )
    def _(weight: Tensor, parts: list[Part], pad_id: int, is_mean: bool = _is_mean) -> Tensor:
        shares = [_mean_gradient(weight, part, pad_id) * (len(parts) - i) for i, part in enumerate(parts)]
        return torch.stack(shares).sum(dim=0) / (len(parts) if is_mean else 1)


@accumulated_gradient.mistake(
    "the wrong sign",
    "Your gradient has the wrong sign. Return what backward computes; the optimiser does the subtracting.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    return -_accumulated(weight, parts, pad_id)


@accumulated_gradient.mistake(
    "NaN for a part without real tokens",
    "A part may consist of padding only. Its mean is 0 / 0, and the NaN stays in the sum. Add sums, and divide once.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    counts = [_real(part, pad_id) for part in parts]
    means = [_gradient(weight, part, pad_id) / torch.tensor(count) for part, count in zip(parts, counts, strict=True)]
    return torch.stack([mean * count for mean, count in zip(means, counts, strict=True)]).sum(0) / sum(counts)


@accumulated_gradient.mistake(
    "divided by the tokens so far",
    "You divide each part by the number of real tokens that you have seen by then. All parts have to be divided "
    "by the same number: that of all their tokens.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    total, seen = torch.zeros_like(weight), 0
    for part in parts:
        seen += _real(part, pad_id)
        total = total + _gradient(weight, part, pad_id) / max(1, seen)
    return total


@accumulated_gradient.mistake(
    "only the first part",
    "Your gradient is that of the first part: you return inside the loop, before the others come.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    return _gradient(weight, parts[0], pad_id) / sum(_real(part, pad_id) for part in parts)


@accumulated_gradient.mistake(
    "only the first part, divided by its own count",
    "Your gradient is that of the first part: you return inside the loop, before the others come. And all parts should "
    "be divided by the tokens of all parts.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    return _mean_gradient(weight, parts[0], pad_id)


@accumulated_gradient.mistake(
    "the weight instead of its gradient",
    "You return the weight, which hasn't changed. PyTorch keeps the gradient beside it, in an attribute of its own.",
)
def _(weight: Tensor, parts: list[Part], pad_id: int) -> Tensor:
    return weight


# 4 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"gradients": [torch.tensor([3.0, 0.0]), torch.tensor([[4.0]])], "max_norm": 1.0},
    {"gradients": [torch.tensor([0.3, -0.2]), torch.tensor([[0.1]])], "max_norm": 1.0},
    {"gradients": [torch.zeros(2), torch.zeros(1, 2)], "max_norm": 1.0},
    {"gradients": [numbers(2, 3), 5 * numbers(4, seed=1), numbers(3, 2, 2, seed=2)], "max_norm": 2.5},
    {"gradients": [numbers(2, 2, seed=3), torch.tensor([0.1, 0.2])], "max_norm": 0.5},
    {"gradients": [torch.tensor([1.2, -1.0]), torch.tensor([1.5])], "max_norm": 2.5},
    differentiable=False,
    guard=_not_from(
        "torch.nn.utils.clip_grad",
        "PyTorch's clipping",
        "In this exercise you write it yourself: a norm, and a factor.",
    ),
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
    "each tensor clipped by itself",
    "You clip each tensor by its own norm, which changes the gradient's direction. All tensors together form one long "
    "vector with one norm.",
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return [_clipped([g], max_norm)[0] for g in gradients]


@clip_by_norm.mistake(
    "clipped value by value",
    "You clip each number at the limit, which changes the gradient's direction. It is the norm of the whole gradient "
    "that is limited.",
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return [g.clamp(-max_norm, max_norm) for g in gradients]


@clip_by_norm.mistake(
    "short gradients scaled up",
    "Your result always has the norm max_norm. A gradient that is short enough should stay as it is.",
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return [g * max_norm / torch.tensor(_norm(gradients)) for g in gradients]


@clip_by_norm.mistake(
    "zero divided by zero",
    "Your result always has the norm max_norm, and if all gradients are 0, you divide by 0. Clip only a gradient that "
    "is too long.",
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return [g * (max_norm / _norm(gradients)) for g in gradients]


@clip_by_norm.mistake(
    "short gradients scaled up, except zeros",
    "Your result always has the norm max_norm, unless all gradients are 0. A gradient that is short enough should stay "
    "as it is: the factor should never be above 1.",
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return [g * (max_norm / (_norm(gradients) + 1e-6)) for g in gradients]


@clip_by_norm.mistake("clipped to 1", "You scale long gradients to the norm 1. Scale them to max_norm.")
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    norm = _norm(gradients)
    return [g / norm if norm > max_norm else g for g in gradients]


@clip_by_norm.mistake(
    "norms added",
    "You add up the norms of the tensors. The norm of the whole gradient is the root of the sum of all squares.",
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return _clipped(gradients, max_norm, lambda gs: sum(float(g.norm()) for g in gs))


@clip_by_norm.mistake("no square root", "This is the sum of the squares. The norm is its square root.")
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return _clipped(gradients, max_norm, lambda gs: _norm(gs) ** 2)


@clip_by_norm.mistake(
    "absolute values instead of squares", "You add up absolute values. The norm is the root of the sum of the squares."
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return _clipped(gradients, max_norm, lambda gs: sum(float(g.abs().sum()) for g in gs))


@clip_by_norm.mistake(
    "the largest norm",
    "You take the largest norm of a single tensor. All tensors together form one long vector with one norm.",
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return _clipped(gradients, max_norm, lambda gs: max(float(g.norm()) for g in gs))


@clip_by_norm.mistake(
    "the factor is inverted", "Your factor is above 1 for a gradient that is too long. Take its reciprocal."
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    norm = _norm(gradients)
    return [g * (norm / max_norm) if norm > max_norm else g for g in gradients]


@clip_by_norm.mistake("nothing is clipped", "You return the gradients unchanged.")
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return gradients


@clip_by_norm.mistake(
    "the largest entry instead of the norm",
    "You compare the largest entry with `max_norm`. The norm is the root of the sum of all squares.",
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return _clipped(gradients, max_norm, lambda gradients: max(float(g.abs().max()) for g in gradients))


@clip_by_norm.mistake(
    "short gradients scaled, long ones left",
    "You scale the gradient if it is short, and leave it if it is long. It should be the other way round.",
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    length = _norm(gradients)
    return [g * (max_norm / length) if 0 < length < max_norm else g for g in gradients]


@clip_by_norm.mistake(
    "short gradients scaled, even to NaN",
    "You scale the gradient if it is short, and leave it if it is long. It should be the other way round, and then you "
    "never divide by a norm of 0.",
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    length = torch.tensor(_norm(gradients))
    return [g if length > max_norm else g * max_norm / length for g in gradients]


@clip_by_norm.mistake(
    "averaged instead of added",
    "You take the mean of the squares. The norm is the root of their sum, however many numbers there are.",
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return _clipped(gradients, max_norm, lambda gs: _norm(gs) / math.sqrt(sum(g.numel() for g in gs)))


@clip_by_norm.mistake(
    "the excess subtracted",
    "You subtract the excess of the norm from each number, which changes the gradient's direction. Multiply all "
    "numbers by one factor.",
)
def _(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return [g - max(0.0, _norm(gradients) - max_norm) for g in gradients]


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
    {
        "weight": numbers(1),
        "gradient": numbers(1, seed=1),
        "m": numbers(1, seed=2),
        "v": torch.ones(1),
        "step": 2,
        "rate": 0.1,
    },
    results=("weight", "m", "v"),
    keep=("v",),
    differentiable=False,
    guard=_not_from(
        "torch.optim", "one of PyTorch's optimisers", "In this exercise you write the step of Adam yourself."
    ),
    insight="In the first step, each weight moves by the learning rate, whether its gradient is large or small.",
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
    "m and v start at zero and are too small at first: at step 1, m by a factor of 10 and v by a factor of 50. The "
    "bias correction makes up for that.",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, corrects=(False, False))


@adam_step.mistake("only m is corrected", "You correct m for its start at zero. v starts at zero, too.")
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, corrects=(True, False))


@adam_step.mistake("only v is corrected", "You correct v for its start at zero. m starts at zero, too.")
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, corrects=(False, True))


@adam_step.mistake(
    "the corrected m and v returned",
    "The weight is right, but you return the corrected m and v. The next step needs them without the correction.",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    weight, m, v = _adam(weight, gradient, m, v, step, rate)
    return weight, m / (1 - _BETAS[0] ** step), v / (1 - _BETAS[1] ** step)


@adam_step.mistake("the betas swapped", "Your m changes slowly and your v quickly. Check which beta belongs to which.")
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, betas=(0.98, 0.9))


@adam_step.mistake(
    "another beta2", "Your second beta is 0.999, the default of most libraries. The paper uses another one (§5.3)."
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, betas=(0.9, 0.999))


@adam_step.mistake(
    "old and new weights swapped",
    "Your m and v consist mostly of the newest gradient. They are slow averages: nine tenths of m should be the old m.",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    m, v = 0.1 * m + 0.9 * gradient, 0.02 * v + 0.98 * gradient.square()
    m_hat, v_hat = m / (1 - 0.9**step), v / (1 - 0.98**step)
    return weight - rate * m_hat / (v_hat.sqrt() + _EPS), m, v


@adam_step.mistake(
    "the wrong sign", "m and v are right, but your step goes in the direction of the gradient, so the loss grows."
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, -rate)


@adam_step.mistake("no square root", "m and v are right, but you divide by v itself. Divide by its square root.")
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, divisor=lambda v: v + _EPS)


@adam_step.mistake(
    "epsilon under the root",
    "You add epsilon under the root, where it has a much larger effect on tiny gradients. Add it after the root.",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, divisor=lambda v: (v + _EPS).sqrt())


@adam_step.mistake(
    "another epsilon",
    "Your epsilon is 1e-8, the default of most libraries. It matters only for tiny gradients, but the paper uses "
    "another one (§5.3).",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, divisor=lambda v: v.sqrt() + 1e-8)


@adam_step.mistake(
    "epsilon left out",
    "You leave epsilon out, or add it after the division, where it does nothing: mind the parentheses. It matters for "
    "tiny gradients, and if a gradient has always been 0, you divide 0 by 0.",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, divisor=torch.sqrt)


@adam_step.mistake(
    "the gradient not squared", "Your v is an average of the gradient. It should be an average of its square."
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, power=1)


@adam_step.mistake(
    "steps counted from 0",
    "You correct as if it were one step earlier, and at the first step you divide by 0. Steps are counted from 1 here.",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    one = torch.tensor(1.0)
    m, v = 0.9 * m + 0.1 * gradient, 0.98 * v + 0.02 * gradient.square()
    m_hat, v_hat = m / (one - 0.9 ** (step - 1)), v / (one - 0.98 ** (step - 1))
    return weight - rate * m_hat / (v_hat.sqrt() + _EPS), m, v


@adam_step.mistake(
    "one step ahead", "You correct as if it were one step later. Steps are counted from 1 here, so don't add anything."
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    return _adam(weight, gradient, m, v, step, rate, at=1)


@adam_step.mistake(
    "the gradient instead of m", "m and v are right, but your step follows the newest gradient. It should follow m."
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    _, m, v = _adam(weight, gradient, m, v, step, rate)
    return weight - rate * gradient / ((v / (1 - 0.98**step)).sqrt() + _EPS), m, v


@adam_step.mistake(
    "the m of the step before",
    "m and v are right, but your step follows the old m, which lacks this step's gradient. Follow the new one.",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    _, new_m, new_v = _adam(weight, gradient, m, v, step, rate)
    return weight - rate * m / (1 - 0.9**step) / ((new_v / (1 - 0.98**step)).sqrt() + _EPS), new_m, new_v


@adam_step.mistake(
    "the m and v of the step before",
    "m and v are right, but your step is computed from the old ones, which lack this step's gradient. Use the new "
    "ones.",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    _, new_m, new_v = _adam(weight, gradient, m, v, step, rate)
    return weight - rate * m / (1 - 0.9**step) / ((v / (1 - 0.98**step)).sqrt() + _EPS), new_m, new_v


@adam_step.mistake(
    "m squared instead of the gradient", "Your v is an average of the square of m. It is the gradient that is squared."
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    m = 0.9 * m + 0.1 * gradient
    v = 0.98 * v + 0.02 * m.square()
    return weight - rate * m / (1 - 0.9**step) / ((v / (1 - 0.98**step)).sqrt() + _EPS), m, v


@adam_step.mistake(
    "multiplied by the correction",
    "You multiply m and v by the correction, which makes them even smaller. Divide by it.",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    _, m, v = _adam(weight, gradient, m, v, step, rate)
    return weight - rate * m * (1 - 0.9**step) / ((v * (1 - 0.98**step)).sqrt() + _EPS), m, v


@adam_step.mistake(
    "the correction of the first step at every step",
    "You divide by 1 - β at every step. The correction fades: β is raised to the power of the step.",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    _, m, v = _adam(weight, gradient, m, v, step, rate)
    return weight - rate * m / (1 - 0.9) / ((v / (1 - 0.98)).sqrt() + _EPS), m, v


@adam_step.mistake(
    "the whole of 1 - β to the power of the step",
    "In the correction you subtract first, and then raise 1 - β to the power of the step. Only β is raised to the "
    "power: mind the parentheses.",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    _, m, v = _adam(weight, gradient, m, v, step, rate)
    return weight - rate * m / (1 - 0.9) ** step / ((v / (1 - 0.98) ** step).sqrt() + _EPS), m, v


@adam_step.mistake(
    "the step as a factor",
    "In the correction you multiply β by the step. It is an exponent: β is raised to the power of the step.",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    _, m, v = _adam(weight, gradient, m, v, step, rate)
    return weight - rate * m / (1 - 0.9 * step) / ((v / (1 - 0.98 * step)).sqrt() + _EPS), m, v


@adam_step.mistake(
    "epsilon before the correction",
    "You add epsilon to the root of v before the correction. It is then too large in comparison with v, which matters "
    "for tiny gradients. Correct v first.",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    _, m, v = _adam(weight, gradient, m, v, step, rate)
    return weight - rate * (1 - 0.98**step) ** 0.5 / (1 - 0.9**step) * m / (v.sqrt() + _EPS), m, v


@adam_step.mistake(
    "the root of v divided by the whole correction",
    "You take the root of v first and divide by the correction afterwards. Correct v, and then take the root.",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    _, m, v = _adam(weight, gradient, m, v, step, rate)
    return weight - rate * m / (1 - 0.9**step) / (v.sqrt() / (1 - 0.98**step) + _EPS), m, v


@adam_step.mistake(
    "only the change",
    "m and v are right, but in place of the weight you return what has to be subtracted from it.",
)
def _(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Adam:
    new, m, v = _adam(torch.zeros_like(weight), gradient, m, v, step, rate)
    return -new, m, v


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
    differentiable=False,
    insight="Unlike an ensemble, the average is a single model: it takes no extra time or memory at inference.",
)
def average_checkpoints(checkpoints: list[Weights]) -> Weights:
    """The mean of each weight."""
    return {name: _stacked(checkpoints, name).mean(dim=0) for name in checkpoints[0]}


def _stacked(checkpoints: list[Weights], name: str) -> Tensor:
    return torch.stack([checkpoint[name] for checkpoint in checkpoints])


@average_checkpoints.mistake("not divided", "This is the sum. Divide it by the number of checkpoints.")
def _(checkpoints: list[Weights]) -> Weights:
    return {name: _stacked(checkpoints, name).sum(dim=0) for name in checkpoints[0]}


@average_checkpoints.mistake(
    "averaged pairwise",
    "You repeatedly average your result with the next checkpoint, so the last one gets half of the weight and the "
    "first almost none. All should count the same.",
)
def _(checkpoints: list[Weights]) -> Weights:
    mean = checkpoints[0]
    for checkpoint in checkpoints[1:]:
        mean = {name: (mean[name] + checkpoint[name]) / 2 for name in mean}
    return mean


@average_checkpoints.mistake("only the last checkpoint", "You return the weights of the last checkpoint.")
def _(checkpoints: list[Weights]) -> Weights:
    return checkpoints[-1]


@average_checkpoints.mistake("only the first checkpoint", "You return the weights of the first checkpoint.")
def _(checkpoints: list[Weights]) -> Weights:
    return checkpoints[0]


@average_checkpoints.mistake(
    "only the last checkpoint, divided",
    "You divide the last checkpoint by the number of checkpoints. Add up all of them first.",
)
def _(checkpoints: list[Weights]) -> Weights:
    return {name: weight / len(checkpoints) for name, weight in checkpoints[-1].items()}


@average_checkpoints.mistake(
    "divided by the number of weights",
    "You divide by the number of weights in a checkpoint. Divide by the number of checkpoints.",
)
def _(checkpoints: list[Weights]) -> Weights:
    return {name: _stacked(checkpoints, name).sum(dim=0) / len(checkpoints[0]) for name in checkpoints[0]}


@average_checkpoints.mistake(
    "the first counted twice",
    "The first checkpoint is in your sum twice: once as the starting value and once in the loop.",
)
def _(checkpoints: list[Weights]) -> Weights:
    return {
        name: (_stacked(checkpoints, name).sum(dim=0) + checkpoints[0][name]) / len(checkpoints)
        for name in checkpoints[0]
    }


@average_checkpoints.mistake(
    "averaged over whole tensors",
    "You average over all axes, so each tensor becomes a single number. Average over the checkpoints only.",
)
def _(checkpoints: list[Weights]) -> Weights:
    return {name: _stacked(checkpoints, name).mean() for name in checkpoints[0]}


@average_checkpoints.mistake("the median", "This is the median. The paper uses the mean.")
def _(checkpoints: list[Weights]) -> Weights:
    return {name: _stacked(checkpoints, name).median(dim=0).values for name in checkpoints[0]}


@average_checkpoints.mistake(
    "an exponential moving average",
    "You give newer checkpoints a larger weight, as in an exponential moving average. In the paper, all count the "
    "same.",
)
def _(checkpoints: list[Weights]) -> Weights:
    mean = checkpoints[0]
    for checkpoint in checkpoints[1:]:
        mean = {name: 0.9 * mean[name] + 0.1 * checkpoint[name] for name in mean}
    return mean


@average_checkpoints.mistake(
    "always divided by five",
    "You divide by 5. There may be more checkpoints, or fewer.",
)
def _(checkpoints: list[Weights]) -> Weights:
    return {name: _stacked(checkpoints, name).sum(0) / 5 for name in checkpoints[0]}


@average_checkpoints.mistake(
    "only the last five",
    "You average the last five checkpoints. Average all that you get.",
)
def _(checkpoints: list[Weights]) -> Weights:
    return average_checkpoints.reference(checkpoints[-5:])


@average_checkpoints.mistake(
    "joined instead of stacked",
    "You join the tensors end to end, so your mean also goes over their own first axis. Each should keep its shape: "
    "stack them along a new axis.",
)
def _(checkpoints: list[Weights]) -> Weights:
    return {name: torch.cat([checkpoint[name] for checkpoint in checkpoints]).mean(dim=0) for name in checkpoints[0]}


@average_checkpoints.mistake(
    "the first left out", "Your mean lacks the first checkpoint. All of them count, the first one as well."
)
def _(checkpoints: list[Weights]) -> Weights:
    return average_checkpoints.reference(checkpoints[1:] or checkpoints)


@average_checkpoints.mistake(
    "divided by one less", "The sum is right, but you divide by one less than the number of checkpoints."
)
def _(checkpoints: list[Weights]) -> Weights:
    return {name: _stacked(checkpoints, name).sum(dim=0) / (len(checkpoints) - 1) for name in checkpoints[0]}


# 7 --------------------------------------------------------------------------------------------------------------------

Examples = tuple[Tensor, Tensor]
"""States, (tokens, d_model), and the expected tokens, (tokens,), int64."""


class _Small(nn.Module):
    """A model whose dropout removes the same features in every step, so that nothing is random."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.inner = nn.Parameter(numbers(3, 6, seed=seed))
        self.output = nn.Parameter(numbers(6, 4, seed=seed + 1))
        self.dropout = nn.Identity()

    def forward(self, states: Tensor) -> Tensor:
        hidden = (states @ self.inner).tanh()
        kept = torch.tensor([2.0, 0.0, 2.0, 2.0, 0.0, 0.0])
        return (hidden * kept if self.dropout.training else hidden) @ self.output

    def __repr__(self) -> str:
        mode = "" if self.training else " in evaluation mode,"
        return f"a small model{mode} whose dropout removes the same features in every step"


def _examples(n_tokens: int, seed: int) -> Examples:
    return numbers(n_tokens, 3, seed=seed), (4 * numbers(n_tokens, seed=seed + 50)).long() % 4


def _epochs(*n_batches: int) -> list[list[Examples]]:
    return [[_examples(3 + i, 10 * epoch + i) for i in range(n)] for epoch, n in enumerate(n_batches)]


@topic.exercise(
    {"model": _Small(0), "epochs": _epochs(1), "validation": _examples(4, 90), "learning_rate": 0.5, "max_norm": 0.1},
    {"model": _Small(2), "epochs": _epochs(2), "validation": _examples(4, 91), "learning_rate": 0.2, "max_norm": 50.0},
    {
        "model": _Small(4),
        "epochs": _epochs(1, 1),
        "validation": _examples(4, 92),
        "learning_rate": 0.2,
        "max_norm": 50.0,
    },
    {
        "model": _Small(6),
        "epochs": _epochs(3, 2, 3),
        "validation": _examples(5, 93),
        "learning_rate": 0.5,
        "max_norm": 0.3,
    },
    {
        "model": _Small(8).eval(),
        "epochs": _epochs(1),
        "validation": _examples(4, 94),
        "learning_rate": 0.2,
        "max_norm": 50.0,
    },
    differentiable=False,
    insight="Such bugs are found by experiments whose result you know beforehand, not by watching the loss fall.",
)
def train_and_validate(
    model: nn.Module, epochs: list[list[Examples]], validation: Examples, learning_rate: float, max_norm: float
) -> list[float]:
    """The validation loss after each epoch of SGD."""
    optimizer = torch.optim.SGD(model.parameters(), learning_rate)
    losses = []
    for batches in epochs:
        model.train()
        for states, expected in batches:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(states), expected)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
        model.eval()
        with torch.no_grad():
            states, expected = validation
            losses.append(F.cross_entropy(model(states), expected).item())
    return losses


add_bugs(
    train_and_validate,
    Bug(
        "the later steps of an epoch are wrong",
        "Take a model without dropout and two batches. Train on them in a single epoch and, from the same weights, in "
        "two epochs of one batch each. The last loss should be the same. What is different at the second batch?",
        """    for states, expected in batches:
        optimizer.zero_grad()""",
        """    optimizer.zero_grad()
    for states, expected in batches:""",
    ),
    Bug(
        "the later epochs train differently from the first",
        "Put dropout with probability 1 in front of a linear layer and train for two epochs. In training, the layer's "
        "input is then always zero, so its weight can't learn anything. In which epoch does it change?",
        """for batches in epochs:
    model.train()""",
        """model.train()
for batches in epochs:""",
    ),
    Bug(
        "some steps are too long",
        "Train for a single step, with a learning rate of 1 and a small `max_norm`. How far should the weights move at "
        "most, all of them together, and how far do they move?",
        """loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)""",
        """nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        loss.backward()""",
    ),
)


def _train(
    model: nn.Module,
    epochs: list[list[Examples]],
    validation: Examples,
    learning_rate: float,
    max_norm: float,
    *,
    clears: str = "at every step",
    clips: bool = True,
    sets_mode_first: bool = True,
    validates_with_dropout: bool = False,
) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), learning_rate)
    losses = []
    for epoch, batches in enumerate(epochs):
        if sets_mode_first or epoch:
            model.train()
        for number, batch in enumerate(batches):
            if clears == "at every step" or (clears == "at every epoch" and number == 0):
                optimizer.zero_grad()
            if not clips:  # too early to have an effect, unless there are gradients of earlier steps
                nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            _loss(model, batch).backward()
            if clips:
                nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
        with torch.no_grad():
            losses.append(_loss(model.train(validates_with_dropout), validation).item())
    return losses


def _loss(model: nn.Module, examples: Examples) -> Tensor:
    states, expected = examples
    return F.cross_entropy(model(states), expected)


_WRONG_MODES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "the first epoch in another mode",
        "The model is put into training mode only after the first validation. In which mode is it before that, if it "
        "has just been evaluated when your function is called?",
        {"sets_mode_first": False},
    ),
    (
        "validated in training mode",
        "Dropout is still active while you compute the validation loss. It belongs to training only.",
        {"validates_with_dropout": True},
    ),
)
_WRONG_STEPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("", {}),
    (", and some steps are too long", {"clips": False}),
    (", and the later steps of an epoch are wrong", {"clears": "at every epoch"}),
    (", and the steps are wrong, too", {"clips": False, "clears": "at every epoch"}),
)
for _title, _hint, _mode in _WRONG_MODES:
    for _also, _steps in _WRONG_STEPS:
        train_and_validate.mistake(_title + _also, _hint)(partial(_train, **_mode, **_steps))


@train_and_validate.mistake(
    "the model never changes",
    "The loss is the same after every epoch. Is there a step, and do the weights have a gradient when it is taken?",
)
def _(
    model: nn.Module, epochs: list[list[Examples]], validation: Examples, learning_rate: float, max_norm: float
) -> list[float]:
    return [_loss(model.eval(), validation).item() for _ in epochs]


@train_and_validate.mistake(
    "only the first step is right",
    "Each later step still contains the gradients of all steps before it. What does `backward` do with a gradient that "
    "is already there?",
)
def _(
    model: nn.Module, epochs: list[list[Examples]], validation: Examples, learning_rate: float, max_norm: float
) -> list[float]:
    return _train(model, epochs, validation, learning_rate, max_norm, clears="never")
