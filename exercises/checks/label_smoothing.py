"""Checks of 10 label smoothing (§5.4)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from exercises.check import Topic
from exercises.restrictions import AUTOGRAD, forbid
from transformer.loss import label_smoothed_cross_entropy

topic = Topic()
check, given = topic.check, topic.given

SMALL = torch.tensor([[2.0, 0.0, 1.0, -1.0], [0.0, 0.0, 3.0, 0.0]])
LARGE = torch.tensor([[1000.0, 0.0, 998.0], [-5.0, -1000.0, -4.0]])
WIDE = torch.linspace(-3, 3, 35).mul(2).sin().mul(3).view(5, 7)
TARGETS = torch.tensor([6, 0, 3, 3, 1])


# 1 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"logits": SMALL, "target": torch.tensor([0, 1])},
    {"logits": WIDE, "target": TARGETS},
    {"logits": LARGE, "target": torch.tensor([2, 1])},
)
def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """The package's loss without smoothing, token by token."""
    return _by_token(logits, target, 0.0)


@cross_entropy.mistake(
    "too large for the exponential",
    "It is right for small scores. At a score of a thousand the exponential is infinite: take something off all "
    "scores first, or let PyTorch do it.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return logits.exp().sum(-1).log() - _chosen(logits, target)


@cross_entropy.mistake(
    "the logarithm of a softmax that is zero",
    "It is right for small scores. A very low probability becomes 0 in the softmax, and the logarithm of 0 is "
    "infinite. Never take the two apart.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return -_chosen(logits.softmax(-1).log(), target)


@cross_entropy.mistake(
    "the sign is wrong",
    "Your losses are negative: the better the model, the lower they get, without end.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return _chosen(logits.log_softmax(-1), target)


@cross_entropy.mistake(
    "one minus the probability",
    "You take what is missing to one. The loss is the logarithm of the probability, with a minus.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return 1 - _chosen(logits.softmax(-1), target)


@cross_entropy.mistake(
    "averaged",
    "The numbers are right, and you took their mean. Asked is the loss of each token.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits, target)


@cross_entropy.mistake(
    "added up",
    "The numbers are right, and you took their sum. Asked is the loss of each token.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits, target, reduction="sum")


@cross_entropy.mistake(
    "softmax over the tokens",
    "You normalise down the columns, over the tokens of the batch. It is the vocabulary that sums to one.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return -_chosen(logits.log_softmax(0), target)


@cross_entropy.mistake(
    "the score left out",
    "That is the logarithm of the sum alone: what has the target's own score to do with it?",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return logits.logsumexp(-1)


@cross_entropy.mistake(
    "in bits",
    "Your losses are too large by the same factor: you count in bits. The natural logarithm is meant.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return _by_token(logits, target, 0.0) / math.log(2)


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"target": torch.tensor([1]), "vocab_size": 4, "smoothing": 0.2},
    {"target": torch.tensor([2, 0, 2]), "vocab_size": 5, "smoothing": 0.1},
    {"target": torch.tensor([0, 2]), "vocab_size": 3, "smoothing": 0.0},
)
def smoothed_target(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    """A little for everyone."""
    return F.one_hot(target, vocab_size) * (1 - smoothing) + smoothing / vocab_size


@smoothed_target.mistake(
    "shared among the others only",
    "That is the other convention: the right token gets none of ε back, and V - 1 others share it. Here all V do.",
)
def _(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    one = F.one_hot(target, vocab_size)
    return one * (1 - smoothing) + (1 - one) * smoothing / (vocab_size - 1)


@smoothed_target.mistake(
    "shared among all but the right one and padding",
    "That is the other convention, of many tutorials: V - 2 tokens share ε. Here all V do, the right one and "
    "padding too.",
)
def _(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    one = F.one_hot(target, vocab_size)
    return one * (1 - smoothing) + (1 - one) * smoothing / (vocab_size - 2)


@smoothed_target.mistake(
    "the right token gets no share",
    "The row does not sum to one: the right token should have its share of ε on top of what it keeps.",
)
def _(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    one = F.one_hot(target, vocab_size)
    return one * (1 - smoothing) + (1 - one) * smoothing / vocab_size


@smoothed_target.mistake(
    "nothing taken away",
    "The row sums to more than one: what the others get must be taken from the right token.",
)
def _(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    return F.one_hot(target, vocab_size) + smoothing / vocab_size


@smoothed_target.mistake(
    "everybody gets the whole of it",
    "Every token gets ε, and the row sums to more than one. They have to share it.",
)
def _(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    return F.one_hot(target, vocab_size) * (1 - smoothing) + smoothing


@smoothed_target.mistake(
    "not smoothed",
    "That is the plain target: one at the right token, nothing elsewhere.",
)
def _(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    return F.one_hot(target, vocab_size).float()


@smoothed_target.mistake(
    "ε and 1 - ε have changed places",
    "The right token gets ε and the others share the rest: it is meant the other way round.",
)
def _(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    return F.one_hot(target, vocab_size) * smoothing + (1 - smoothing) / vocab_size


# 3 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"logits": SMALL, "target": torch.tensor([0, 1]), "smoothing": 0.2},
    {"logits": WIDE, "target": TARGETS, "smoothing": 0.1},
    {"logits": LARGE, "target": torch.tensor([2, 0]), "smoothing": 0.1},
)
def smoothed_loss(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """The package's loss, token by token."""
    return _by_token(logits, target, smoothing)


@smoothed_loss.mistake(
    "infinite, or not a number",
    "It is right for small scores. With large ones a probability becomes 0, and its logarithm is infinite: let the "
    "logarithm and the softmax be one function.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    q = smoothed_target.reference(target, logits.size(1), smoothing)
    return -(q * logits.softmax(-1).log()).sum(-1)


@smoothed_loss.mistake(
    "a small number against the logarithm of zero",
    "You add something to the probabilities so that none is 0. Every loss is a little wrong, and with large scores "
    "much. The logarithm of a softmax can be had exactly.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    q = smoothed_target.reference(target, logits.size(1), smoothing)
    return -(q * (logits.softmax(-1) + 1e-9).log()).sum(-1)


@smoothed_loss.mistake(
    "the entropy of q taken off",
    "That is the divergence of p from q, which is 0 when the two agree. It has the same gradient; the cross-entropy "
    "is larger by the entropy of q.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    q = smoothed_target.reference(target, logits.size(1), smoothing)
    return F.kl_div(logits.log_softmax(-1), q, reduction="none").sum(-1)


@smoothed_loss.mistake(
    "the sign is wrong",
    "Your losses are negative: there is a minus before the sum.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    return -_by_token(logits, target, smoothing)


@smoothed_loss.mistake(
    "not smoothed",
    "That is the loss against the plain target: smoothing is not used.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    return _by_token(logits, target, 0.0)


@smoothed_loss.mistake(
    "shared among the others only",
    "You give nothing of ε to the right token. Here all V share it, as in the exercise before.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    one = F.one_hot(target, logits.size(1))
    q = one * (1 - smoothing) + (1 - one) * smoothing / (logits.size(1) - 1)
    return -(q * logits.log_softmax(-1)).sum(-1)


@smoothed_loss.mistake(
    "the mean over the vocabulary",
    "You take the mean where the sum should be: every loss is too small by the same factor, V.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    return _by_token(logits, target, smoothing) / logits.size(1)


@smoothed_loss.mistake(
    "the probabilities in place of their logarithm",
    "You multiply q with p itself. The loss is made of logarithms.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    return -(smoothed_target.reference(target, logits.size(1), smoothing) * logits.softmax(-1)).sum(-1)


@smoothed_loss.mistake(
    "the scores in place of their logarithm",
    "You multiply q with the scores as they are. They have to be normalised: what is missing is the logarithm of a "
    "sum.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    return -(smoothed_target.reference(target, logits.size(1), smoothing) * logits).sum(-1)


@smoothed_loss.mistake(
    "averaged",
    "The numbers are right, and you took their mean. Asked is the loss of each token.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    return _by_token(logits, target, smoothing).mean()


# 4 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"logits": torch.tensor([[2.0, 0.0, 1.0]]), "q": torch.tensor([[0.9, 0.05, 0.05]])},
    {"logits": SMALL, "q": torch.tensor([[0.0, 0.0, 1.0, 0.0], [0.1, 0.1, 0.7, 0.1]])},
    {"logits": LARGE, "q": torch.tensor([[0.0, 1.0, 0.0], [0.2, 0.2, 0.6]])},
    guard=forbid(AUTOGRAD),
)
def gradient(logits: Tensor, q: Tensor) -> Tensor:
    """By autograd."""
    with torch.enable_grad():
        z = logits.clone().requires_grad_()
        (grad,) = torch.autograd.grad(F.cross_entropy(z, q, reduction="sum"), z)
    return grad


@gradient.mistake(
    "the sign is wrong",
    "That is the direction in which the loss falls. The gradient points to where it rises: which of the two is "
    "taken off?",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    return q - logits.softmax(-1)


@gradient.mistake(
    "the scores in place of probabilities",
    "You take q off the scores. What is the derivative of the logarithm of the sum?",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    return logits - q


@gradient.mistake(
    "the derivative of -q ln p in p",
    "That is how the loss changes with the *probability*. Go one step further, to the scores: much cancels on the way.",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    return -q / logits.softmax(-1)


@gradient.mistake(
    "only the softmax",
    "That is the derivative of the first term. The second one, with q, has a derivative as well.",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    return logits.softmax(-1)


@gradient.mistake(
    "divided by the number of tokens",
    "That is the gradient of the mean over the tokens. Asked is that of each token's own loss.",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    return (logits.softmax(-1) - q) / len(logits)


@gradient.mistake(
    "softmax over the tokens",
    "You normalise down the columns, over the tokens of the batch. It is the vocabulary that sums to one.",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    return logits.softmax(0) - q


@gradient.mistake(
    "too large for the exponential",
    "It is right for small scores. At a score of a thousand the exponential is infinite, and infinity over infinity "
    "is no number.",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    return logits.exp() / logits.exp().sum(-1, keepdim=True) - q


# 5 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"losses": torch.tensor([[1.0, 2.0], [4.0, 9.0]]), "target": torch.tensor([[5, 6], [7, 0]]), "pad_id": 0},
    {
        "losses": torch.tensor([[1.0, 2.0, 3.0, 9.0], [4.0, 9.0, 9.0, 9.0], [2.0, 9.0, 9.0, 9.0]]),
        "target": torch.tensor([[5, 6, 7, 0], [8, 0, 0, 0], [4, 0, 0, 0]]),
        "pad_id": 0,
    },
    {"losses": torch.tensor([[1.0, 2.0], [4.0, 9.0]]), "target": torch.tensor([[0, 6], [7, 3]]), "pad_id": 3},
    {"losses": torch.tensor([[3.0, 2.0]]), "target": torch.tensor([[0, 7]]), "pad_id": 0},
    {"losses": torch.tensor([[1.0, 2.0]]), "target": torch.tensor([[0, 0]]), "pad_id": 0},
)
def mean_loss(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    """Every real token weighs the same."""
    real = target != pad_id
    return (losses * real).sum() / real.sum().clamp(min=1)


@mean_loss.mistake(
    "padding counts",
    "That is the mean over all places. Nobody has to say padding.",
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    return losses.mean()


@mean_loss.mistake(
    "divided by all places",
    "Padding is left out of the sum, but not of the number that it is divided by.",
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    return (losses * (target != pad_id)).mean()


@mean_loss.mistake(
    "the mean of the sentences' means",
    "You take each sentence's mean, and then the mean of those. A word of a short sentence then weighs more than "
    "one of a long sentence.",
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    real = target != pad_id
    return ((losses * real).sum(1) / real.sum(1).clamp(min=1)).mean()


@mean_loss.mistake(
    "divided by the number of sentences",
    "The sum is right. Divide it by the tokens that are in it, not by the sentences.",
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    return (losses * (target != pad_id)).sum() / len(losses)


@mean_loss.mistake(
    "not divided",
    "The sum is right. The mean of how many is asked for?",
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    return (losses * (target != pad_id)).sum()


@mean_loss.mistake(
    "only padding counts",
    "You take the places that you should leave out.",
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    real = target == pad_id
    return (losses * real).sum() / real.sum().clamp(min=1)


@mean_loss.mistake(
    "nothing divided by nothing",
    "It is right until a batch has no real token: then you divide zero by zero.",
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    real = target != pad_id
    return (losses * real).sum() / real.sum()


@mean_loss.mistake(
    "pad id taken for granted",
    "It is right as long as padding happens to be 0. In another vocabulary it is another id: an argument says which.",
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    real = target != 0
    return (losses * real).sum() / real.sum().clamp(min=1)


def _chosen(table: Tensor, target: Tensor) -> Tensor:
    """Each row's entry at its target."""
    return table.gather(-1, target[:, None])[:, 0]


def _by_token(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    rows = zip(logits.split(1), target.split(1), strict=True)
    return torch.stack([label_smoothed_cross_entropy(z, t, smoothing) for z, t in rows])
