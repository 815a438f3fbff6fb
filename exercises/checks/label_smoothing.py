"""Checks of 10 label smoothing (§5.4)."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from exercises.bugs import Bug, WrongRepair, add_bugs
from exercises.check import Topic
from exercises.relations import Finding, Wrong
from exercises.restrictions import AUTOGRAD, CROSS_ENTROPY, forbid
from exercises.tensors import is_tensor
from transformer.loss import label_smoothed_cross_entropy

topic = Topic()
check, given = topic.check, topic.given

NO_READY_MADE_LOSS = forbid(CROSS_ENTROPY, modules=("torch.distributions",))
"""What PyTorch has for the loss of a token; a logarithm of a softmax is allowed."""

SMALL = torch.tensor([[2.0, 0.0, 1.0, -1.0], [0.0, 0.0, 3.0, 0.0]])
LARGE = torch.tensor([[1000.0, 0.0, 998.0], [-5.0, -1000.0, -4.0]])
WIDE = torch.linspace(-3, 3, 35).mul(2).sin().mul(3).view(5, 7)
TARGETS = torch.tensor([6, 0, 3, 3, 1])


# 1 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"logits": SMALL, "target": torch.tensor([0, 1])},
    {"logits": WIDE, "target": TARGETS},
    {"logits": LARGE, "target": torch.tensor([2, 1])},
    {"logits": SMALL[:1], "target": torch.tensor([2])},
    guard=NO_READY_MADE_LOSS,
    insight="The exponential of its mean over many tokens is the perplexity that papers report.",
)
def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """The package's loss without smoothing, token by token."""
    return _by_token(logits, target, 0.0)


@cross_entropy.mistake(
    "overflow",
    "This works for small logits, but e^1000 is infinite. Subtract the largest logit first, or use PyTorch's stable "
    "function for the logarithm of a sum of exponentials.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return logits.exp().sum(-1).log() - _chosen(logits, target)


@cross_entropy.mistake(
    "the logarithm of zero",
    "This works for small logits, but the softmax rounds a very low probability to 0, and the logarithm of 0 is "
    "infinite. Compute the logarithm of the softmax in one step.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return -_chosen(logits.softmax(-1).log(), target)


@cross_entropy.mistake(
    "the maximum not added back",
    "You subtract the largest logit before the exponential, but then it has to be subtracted from the chosen logit, "
    "too (or added to the logarithm again).",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return (logits - logits.amax(-1, keepdim=True)).exp().sum(-1).log() - _chosen(logits, target)


@cross_entropy.mistake(
    "the wrong sign",
    "Your losses are negative, so training would make the model worse. The loss is minus the logarithm of the "
    "probability.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return _chosen(logits.log_softmax(-1), target)


@cross_entropy.mistake(
    "one minus the probability", "You return 1 minus the probability. The loss is minus its logarithm."
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return 1 - _chosen(logits.softmax(-1), target)


@cross_entropy.mistake("averaged", "The losses are right, but you return their mean. Return the loss of each token.")
def _(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits, target)


@cross_entropy.mistake("summed", "The losses are right, but you return their sum. Return the loss of each token.")
def _(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits, target, reduction="sum")


@cross_entropy.mistake(
    "softmax over the tokens",
    "You normalise over the tokens of the batch. The probabilities should sum to one over the vocabulary, the last "
    "axis.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return -_chosen(logits.log_softmax(0), target)


@cross_entropy.mistake(
    "the target's logit left out", "This is only the logarithm of the sum. Subtract the logit of the target."
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return logits.logsumexp(-1)


@cross_entropy.mistake(
    "in bits",
    "All your losses are too large by the same factor, because you use the logarithm to base 2. Use the natural "
    "logarithm.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return _by_token(logits, target, 0.0) / math.log(2)


@cross_entropy.mistake(
    "one maximum for all rows",
    "You subtract the largest logit of all rows. In a row whose logits are all much smaller, every exponential "
    "then becomes 0. Take the maximum of each row.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    largest = logits.max()
    return (logits - largest).exp().sum(1).log() + largest - logits.gather(1, target[:, None])[:, 0]


@cross_entropy.mistake(
    "normalised over the tokens",
    "You normalise over the tokens. Each token has a distribution over the vocabulary, which is on the last axis.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return (logits.logsumexp(0, keepdim=True) - logits.gather(1, target[:, None])).mean(1)


@cross_entropy.mistake(
    "every target for every row",
    "You take the logits of all targets from every row. Take only that of its own target from each row.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return -logits.log_softmax(-1)[:, target]


@cross_entropy.mistake(
    "(n,) minus (n, 1)",
    "A tensor of shape (n,) minus one of shape (n, 1) is broadcast to (n, n). Remove the axis that `gather` has kept.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return logits.logsumexp(-1) - logits.gather(-1, target[:, None])


@cross_entropy.mistake(
    "the probability itself",
    "You return the probability of the target. The loss is minus its logarithm.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return _chosen(logits.softmax(-1), target)


@cross_entropy.mistake(
    "(n, 1) minus (n,)",
    "A tensor of shape (n, 1) minus one of shape (n,) is broadcast to (n, n). Remove the axis that the sum has kept.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return logits.logsumexp(-1, keepdim=True) - _chosen(logits, target)


@cross_entropy.mistake(
    "the logits of all targets from each row",
    "Your index takes the logits of all targets from every row. Take one logit from each row: the row's number belongs "
    "in the index, too.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return logits.logsumexp(-1) - logits[:, target]


@cross_entropy.mistake(
    "all axes of length one removed",
    "If there is a single token, `squeeze` without an argument also removes the axis of the tokens. Tell it which axis "
    "to remove.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return -logits.log_softmax(-1).gather(1, target[:, None]).squeeze()


@cross_entropy.mistake(
    "softmax twice",
    "You apply the softmax to probabilities. Take the logarithm of the first softmax, in one step.",
)
def _(logits: Tensor, target: Tensor) -> Tensor:
    return -_chosen(logits.softmax(-1).log_softmax(-1), target)


for _small in (1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12):

    @cross_entropy.mistake(
        f"probabilities kept at {_small:g} or more",
        "You add a small number to the probabilities, or replace smaller ones by it, so that none of them is 0. Very "
        "unlikely tokens then cost too little. Compute the logarithm of the softmax in one step.",
    )
    def _(logits: Tensor, target: Tensor, small: float = _small) -> Tensor:
        return -(_chosen(logits.softmax(-1), target) + small).log()


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"target": torch.tensor([1]), "vocab_size": 4, "smoothing": 0.2},
    {"target": torch.tensor([2, 0, 2]), "vocab_size": 5, "smoothing": 0.1},
    {"target": torch.tensor([0, 2]), "vocab_size": 3, "smoothing": 0.0},
    insight="With the paper's ε of 0.1 and its vocabulary of 37,000 tokens, each wrong token gets less than 0.000003.",
)
def smoothed_target(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    """A little for everyone."""
    return F.one_hot(target, vocab_size) * (1 - smoothing) + smoothing / vocab_size


@smoothed_target.mistake(
    "shared among the other tokens only",
    "You share ε among the V - 1 wrong tokens. That is another common convention; here all V tokens get a share, "
    "including the right one.",
)
def _(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    one = F.one_hot(target, vocab_size)
    return one * (1 - smoothing) + (1 - one) * smoothing / (vocab_size - 1)


@smoothed_target.mistake(
    "shared among all but the target and padding",
    "You share ε among V - 2 tokens, leaving out the target and padding. Many tutorials do that; here all V tokens "
    "get a share.",
)
def _(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    one = F.one_hot(target, vocab_size)
    return one * (1 - smoothing) + (1 - one) * smoothing / (vocab_size - 2)


@smoothed_target.mistake(
    "the right token gets no share", "Your rows sum to 1 - ε/V. The right token gets 1 - ε and also its share of ε."
)
def _(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    one = F.one_hot(target, vocab_size)
    return one * (1 - smoothing) + (1 - one) * smoothing / vocab_size


@smoothed_target.mistake(
    "nothing taken from the right token",
    "Your rows sum to 1 + ε. What the other tokens get has to be taken from the right one.",
)
def _(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    return F.one_hot(target, vocab_size) + smoothing / vocab_size


@smoothed_target.mistake(
    "every token gets all of ε",
    "Each of your tokens gets ε, so the rows sum to 1 - ε + Vε. The tokens have to share it.",
)
def _(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    return F.one_hot(target, vocab_size) * (1 - smoothing) + smoothing


@smoothed_target.mistake(
    "not smoothed", "This is the one-hot target: 1 for the right token and 0 elsewhere. ε isn't used."
)
def _(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    return F.one_hot(target, vocab_size).float()


@smoothed_target.mistake(
    "ε and 1 - ε swapped", "Your right token gets ε, and all tokens share the rest. It should be the other way round."
)
def _(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    return F.one_hot(target, vocab_size) * smoothing + (1 - smoothing) / vocab_size


@smoothed_target.mistake(
    "the targets of all rows in each row",
    "You raise the columns of all targets in every row. Each row has a target of its own: the row's number "
    "belongs in the index, too.",
)
def _(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    q = torch.full((len(target), vocab_size), smoothing / vocab_size)
    q[:, target] += 1 - smoothing
    return q


@smoothed_target.mistake(
    "ε isn't used",
    "You write a number where ε belongs. It is the argument `smoothing`.",
)
def _(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    return F.one_hot(target, vocab_size) * 0.9 + 0.1 / vocab_size


@smoothed_target.mistake(
    "the vocabulary as large as the largest target",
    "You take the size of the vocabulary from the targets. It may have tokens that don't occur: use `vocab_size`.",
)
def _(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    hot = F.one_hot(target)
    return hot * (1 - smoothing) + smoothing / hot.size(1)


@smoothed_target.mistake(
    "divided by the number of tokens",
    "You divide ε by the number of tokens in the batch. It is shared among the tokens of the vocabulary.",
)
def _(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    return F.one_hot(target, vocab_size) * (1 - smoothing) + smoothing / len(target)


@smoothed_target.mistake(
    "as many classes as the largest target",
    "Without a second argument, `one_hot` takes the number of classes from the largest target. Pass the size of the "
    "vocabulary.",
)
def _(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    return F.one_hot(target) * (1 - smoothing) + smoothing / vocab_size


@smoothed_target.symptom
def _(wrong: Sequence[Wrong]) -> Finding | None:
    if not all(is_tensor(case.yours) and case.yours.shape == case.expected.shape for case in wrong):
        return None
    if not all(case.yours.isfinite().all() for case in wrong):
        return None
    sums = [case.yours.double().sum(1) for case in wrong]
    told = ""
    if not any(s.allclose(torch.ones_like(s), atol=1e-4) for s in sums):
        told = _sum_of_rows(wrong[0].inputs["vocab_size"], wrong[0].inputs["smoothing"], sums[0])
    if all(_is_lowest_at(case.yours, case.inputs["target"]) for case in wrong):
        return Finding(
            "the right token gets the least",
            "In your rows, the right token gets less than the others: are ε and 1 - ε swapped?" + told,
        )
    return Finding("rows that don't sum to one", "A distribution has to sum to one." + told) if told else None


def _sum_of_rows(vocab_size: int, smoothing: float, sums: Tensor) -> str:
    each = (
        f"each of your rows sums to {sums[0]:.4g}"
        if sums.allclose(sums[0])
        else f"your first row sums to {sums[0]:.4g}"
    )
    return f" With a vocabulary of {vocab_size} tokens and ε = {smoothing:g}, {each}."


def _is_lowest_at(rows: Tensor, target: Tensor) -> bool:
    others = rows.scatter(1, target[:, None], torch.inf).amin(1)
    return bool((_chosen(rows, target) < others).all())


# 3 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"logits": SMALL, "target": torch.tensor([0, 1]), "smoothing": 0.2},
    {"logits": WIDE, "target": TARGETS, "smoothing": 0.1},
    {"logits": LARGE, "target": torch.tensor([2, 0]), "smoothing": 0.1},
    {"logits": SMALL[:1], "target": torch.tensor([2]), "smoothing": 0.1},
    guard=NO_READY_MADE_LOSS,
    insight="Unlike the loss with hard targets, it can't reach 0: its minimum is the entropy of the smoothed target.",
)
def smoothed_loss(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """The package's loss, token by token."""
    return _by_token(logits, target, smoothing)


@smoothed_loss.mistake(
    "infinite or NaN",
    "This works for small logits, but with large ones a probability becomes 0, and its logarithm is infinite. Compute "
    "the logarithm of the softmax in one step.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    q = smoothed_target.reference(target, logits.size(1), smoothing)
    return -(q * logits.softmax(-1).log()).sum(-1)


@smoothed_loss.mistake(
    "log-softmax over the tokens",
    "Your log-softmax goes over the tokens of the batch. It should go over the vocabulary, the last axis.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    q = smoothed_target.reference(target, logits.size(1), smoothing)
    return -(q * logits.log_softmax(0)).sum(-1)


@smoothed_loss.mistake(
    "the entropy of q subtracted",
    "This is the KL divergence, which is 0 if p equals q. It has the same gradient, but the cross-entropy is larger "
    "by the entropy of q.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    q = smoothed_target.reference(target, logits.size(1), smoothing)
    return F.kl_div(logits.log_softmax(-1), q, reduction="none").sum(-1)


@smoothed_loss.mistake("the wrong sign", "Your losses are negative. There is a minus in front of the sum.")
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    return -_by_token(logits, target, smoothing)


@smoothed_loss.mistake("not smoothed", "This is the loss with one-hot targets. Use the smoothed ones.")
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    return _by_token(logits, target, 0.0)


@smoothed_loss.mistake(
    "shared among the other tokens only",
    "The right token gets no share of ε. Here all V tokens share it, as in the blank before.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    one = F.one_hot(target, logits.size(1))
    q = one * (1 - smoothing) + (1 - one) * smoothing / (logits.size(1) - 1)
    return -(q * logits.log_softmax(-1)).sum(-1)


@smoothed_loss.mistake(
    "the mean over the vocabulary",
    "You take the mean over the vocabulary instead of the sum, so every loss is too small by the factor V.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    return _by_token(logits, target, smoothing) / logits.size(1)


@smoothed_loss.mistake(
    "probabilities instead of their logarithms", "You multiply q by p. Multiply it by the logarithm of p."
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    return -(smoothed_target.reference(target, logits.size(1), smoothing) * logits.softmax(-1)).sum(-1)


@smoothed_loss.mistake(
    "logits instead of log-probabilities",
    "You multiply q by the logits. They have to be normalised first: subtract the logarithm of the sum of their "
    "exponentials.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    return -(smoothed_target.reference(target, logits.size(1), smoothing) * logits).sum(-1)


@smoothed_loss.mistake("averaged", "The losses are right, but you return their mean. Return the loss of each token.")
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    return _by_token(logits, target, smoothing).mean()


@smoothed_loss.mistake(
    "every token gets all of ε",
    "You multiply the sum of all log-probabilities by ε. The tokens share ε: each gets ε divided by the number of "
    "tokens.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    log_p = logits.log_softmax(1)
    return -(1 - smoothing) * log_p.gather(1, target[:, None])[:, 0] - smoothing * log_p.sum(1)


for _small in (1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12):

    @smoothed_loss.mistake(
        f"probabilities kept at {_small:g} or more",
        "You add a small number to the probabilities, or replace smaller ones by it, so that none of them is 0. Very "
        "unlikely tokens then cost too little. Compute the logarithm of the softmax in one step.",
    )
    def _(logits: Tensor, target: Tensor, smoothing: float, small: float = _small) -> Tensor:
        q = smoothed_target.reference(target, logits.size(1), smoothing)
        return -(q * (logits.softmax(-1) + small).log()).sum(-1)


@smoothed_loss.mistake(
    "p and q swapped",
    "You multiply p by the logarithm of q. It should be the other way round: q contains the weights, and the "
    "logarithm is that of the model's probabilities.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    return -(logits.softmax(-1) * smoothed_target.reference(target, logits.size(1), smoothing).log()).sum(-1)


@smoothed_loss.mistake(
    "softmax twice",
    "You apply the softmax to probabilities. Take the logarithm of the first softmax, in one step.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    return _by_token(logits.softmax(-1), target, smoothing)


@smoothed_loss.mistake(
    "nothing taken from the right token",
    "You add the share of all tokens, but the right one keeps its full weight. It should give ε away: 1 - ε is left.",
)
def _(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    log_p = logits.log_softmax(1)
    return -_chosen(log_p, target) - smoothing * log_p.mean(1)


# 4 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"logits": torch.tensor([[2.0, 0.0, 1.0]]), "q": torch.tensor([[0.9, 0.05, 0.05]])},
    {"logits": SMALL, "q": torch.tensor([[0.0, 0.0, 1.0, 0.0], [0.1, 0.1, 0.7, 0.1]])},
    {"logits": LARGE / 10, "q": torch.tensor([[0.0, 1.0, 0.0], [0.2, 0.2, 0.6]])},
    guard=forbid(
        AUTOGRAD,
        "That is what `backward`, `torch.autograd.grad` and `torch.func.grad` do. Here you work out the derivative by "
        "hand: the result is a formula in `logits` and `q`.",
    ),
    keep=("q",),
    differentiable=False,
    insight="Predicted minus target probability: every gradient in the model starts from this difference.",
)
def gradient(logits: Tensor, q: Tensor) -> Tensor:
    """By autograd."""
    with torch.enable_grad():
        z = logits.clone().requires_grad_()
        (grad,) = torch.autograd.grad(F.cross_entropy(z, q, reduction="sum"), z)
    return grad


@gradient.mistake(
    "the wrong sign",
    "This is the negative gradient, the direction in which the loss falls. Check which of the two terms is subtracted.",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    return q - logits.softmax(-1)


@gradient.mistake(
    "logits instead of probabilities",
    "You subtract q from the logits. Look again at the derivative of the logarithm of the sum.",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    return logits - q


@gradient.mistake(
    "the derivative with respect to p",
    "This is the derivative with respect to the probabilities. Go on to the logits: most of it cancels.",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    return -q / logits.softmax(-1)


@gradient.mistake(
    "only the softmax",
    "This is the derivative of the first term. The second one, which contains q, has a derivative as well.",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    return logits.softmax(-1)


@gradient.mistake(
    "divided by the number of tokens",
    "This is the gradient of the mean over the tokens. Return the gradient of each token's own loss.",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    return (logits.softmax(-1) - q) / len(logits)


@gradient.mistake(
    "softmax over the tokens",
    "You normalise over the tokens of the batch. The probabilities should sum to one over the vocabulary, the last "
    "axis.",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    return logits.softmax(0) - q


@gradient.mistake(
    "overflow",
    "This works for small logits. For large ones the exponential is infinite, and infinity divided by infinity is NaN.",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    return logits.exp() / logits.exp().sum(-1, keepdim=True) - q


@gradient.mistake(
    "log-probabilities",
    "You subtract q from the logarithms of the probabilities. Take the probabilities.",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    return logits.log_softmax(1) - q


@gradient.mistake(
    "hard targets",
    "You turn q into zeros and a one. It is smoothed: subtract it as it is.",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    return logits.softmax(1) - F.one_hot(q.argmax(1), q.size(1))


@gradient.mistake(
    "the inner derivative left out",
    "The derivative of a logarithm is one divided by its argument, but that is not all: the argument depends on z, "
    "too. Multiply by its derivative.",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    return 1 / logits.exp().sum(-1, keepdim=True) - q


@gradient.mistake(
    "the second sum not differentiated",
    "You subtract q times z, a term of the second sum itself. What is its derivative with respect to z?",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    return logits.softmax(-1) - q * logits


@gradient.mistake(
    "the derivative of the softmax",
    "p (1 - p) is the derivative of a probability. The first term isn't a probability but the logarithm of a sum, and "
    "its derivative is simpler.",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    p = logits.softmax(-1)
    return p * (1 - p) - q


@gradient.mistake(
    "sigmoid instead of softmax",
    "You take the sigmoid of each logit by itself. The derivative of the logarithm of the sum depends on all logits of "
    "the row: it is the probability of the token.",
)
def _(logits: Tensor, q: Tensor) -> Tensor:
    return logits.sigmoid() - q


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
    {"losses": torch.tensor([[0.0, 2.0], [4.0, 9.0]]), "target": torch.tensor([[5, 6], [7, 0]]), "pad_id": 0},
    non_negative=("losses",),
)
def mean_loss(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    """Every real token weighs the same."""
    real = target != pad_id
    return (losses * real).sum() / real.sum().clamp(min=1)


@mean_loss.mistake(
    "padding included",
    "You take the mean over all positions. Positions with padding should not contribute to the loss.",
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    return losses.mean()


@mean_loss.mistake(
    "divided by all positions", "You leave padding out of the sum, but you still divide by the number of all positions."
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    return (losses * (target != pad_id)).mean()


@mean_loss.mistake(
    "the mean of the sentences' means",
    "You average within each sentence first and then over the sentences. That gives tokens of short sentences a "
    "larger weight than those of long ones.",
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    real = target != pad_id
    return ((losses * real).sum(1) / real.sum(1).clamp(min=1)).mean()


@mean_loss.mistake(
    "divided by the number of sentences",
    "The sum is right, but you divide it by the number of sentences. Divide by the number of real tokens.",
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    return (losses * (target != pad_id)).sum() / len(losses)


@mean_loss.mistake(
    "divided by one more",
    "You add 1 to the number of real tokens, so every mean is too small. Only a number of 0 needs care.",
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    real = target != pad_id
    return (losses * real).sum() / (real.sum() + 1)


@mean_loss.mistake("not divided", "The sum is right. Divide it by the number of real tokens.")
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    return (losses * (target != pad_id)).sum()


@mean_loss.mistake("only padding included", "You average the losses of the padding, the ones that should be left out.")
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    real = target == pad_id
    return (losses * real).sum() / real.sum().clamp(min=1)


@mean_loss.mistake(
    "zero divided by zero", "If a batch has no real token, you divide 0 by 0. The loss should then be 0."
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    real = target != pad_id
    return (losses * real).sum() / real.sum()


@mean_loss.mistake(
    "a plain 0 for a batch without real tokens",
    "If a batch has no real token, you return 0, a Python number. Return a tensor that is computed from `losses` in "
    "this case, too: `backward` stops with an error if the loss is a number, or a tensor that depends on nothing.",
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor | int:
    real = target != pad_id
    return (losses * real).sum() / real.sum() if real.any() else 0


@mean_loss.mistake(
    "pad_id not used",
    "You assume that padding has the id 0. In another vocabulary it may have another id: use the argument.",
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    real = target != 0
    return (losses * real).sum() / real.sum().clamp(min=1)


@mean_loss.mistake(
    "losses of 0 taken for padding",
    "You count the losses that aren't 0. A token that the model is certain of has the loss 0, but still counts: the "
    "target shows what is padding.",
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    losses = losses * (target != pad_id)
    return losses.sum() / (losses != 0).sum().clamp(min=1)


@mean_loss.mistake(
    "a loss for each sentence",
    "You return the mean loss of each sentence. Return a single number: the mean over all real tokens of the batch.",
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    real = target != pad_id
    return (losses * real).sum(1) / real.sum(1).clamp(min=1)


@mean_loss.mistake(
    "losses of 0 left out, padding included",
    "You average the losses that aren't 0. Padding has a loss here as well, and a token that the model is certain of "
    "has the loss 0: the target shows what is padding.",
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    return losses.sum() / (losses != 0).sum().clamp(min=1)


@mean_loss.mistake(
    "only larger ids counted",
    "You count the ids above `pad_id`. All other ids are real, smaller ones included.",
)
def _(losses: Tensor, target: Tensor, pad_id: int) -> Tensor:
    real = target > pad_id
    return (losses * real).sum() / real.sum().clamp(min=1)


# 6 --------------------------------------------------------------------------------------------------------------------

BATCH = WIDE.view(1, 5, 7)


@topic.exercise(
    {"logits": BATCH, "target": TARGETS[None], "pad_id": 5, "smoothing": 0.0},
    {"logits": BATCH.view(5, 1, 7)[:2], "target": TARGETS[:2, None], "pad_id": 5, "smoothing": 0.1},
    {
        "logits": torch.linspace(0, 9, 48).sin().mul(4).view(2, 4, 6),
        "target": torch.tensor([[3, 1, 0, 0], [4, 5, 2, 1]]),
        "pad_id": 0,
        "smoothing": 0.1,
    },
    {
        "logits": torch.linspace(1, 8, 45).cos().mul(3).view(3, 3, 5),
        "target": torch.tensor([[2, 4, 3], [0, 2, 2], [1, 4, 2]]),
        "pad_id": 2,
        "smoothing": 0.2,
    },
    {"logits": LARGE[None], "target": torch.tensor([[2, 1]]), "pad_id": 0, "smoothing": 0.0},
    insight="A classifier that knows nothing has the loss ln V, so a first loss far from it is a sign of a bug.",
)
def loss_from_logits(logits: Tensor, target: Tensor, pad_id: int, smoothing: float) -> Tensor:
    """PyTorch's loss at every position, averaged over the real tokens."""
    scores = logits.transpose(1, 2)  # (batch, vocab_size, length)
    losses = F.cross_entropy(scores, target, reduction="none", label_smoothing=smoothing)  # (batch, length)
    real = target != pad_id  # (batch, length)
    return (losses * real).sum() / real.sum()


add_bugs(
    loss_from_logits,
    Bug(
        "a certain prediction has too high a loss",
        "Take one sentence of one token, without smoothing. Let the correct token have the logit 100 and all others 0. "
        "The model is certain and right, so the loss should be 0. What does `F.cross_entropy` expect as its first "
        "argument, and what does it get?",
        "F.cross_entropy(scores,",
        "F.cross_entropy(scores.softmax(dim=1),",
        (
            WrongRepair(
                "the logarithm of zero",
                "The logarithm makes the second softmax harmless, but very low probabilities are rounded to 0, and the "
                "logarithm of 0 is infinite. Use the logits themselves.",
                "F.cross_entropy(scores.softmax(dim=1).log(),",
            ),
            WrongRepair(
                "a softmax over the positions",
                "`F.cross_entropy` expects logits and computes the softmax over the vocabulary itself. Another softmax "
                "before it is one too many, whatever its axis is.",
                "F.cross_entropy(scores.softmax(dim=2),",
            ),
        ),
    ),
    Bug(
        "the loss depends on the order of the positions",
        "Take a sentence without padding, and reverse its positions in the logits and in the target, with `flip(1)`. "
        "The loss is a mean over the same tokens, so it should stay the same, but it changes. Print "
        "`scores[0, :, 0]`: does it contain the logits of the first position?",
        "logits.transpose(1, 2)",
        "logits.reshape(len(logits), -1, logits.size(1))",
    ),
    Bug(
        "the loss depends on the amount of padding",
        "Let all logits be 0. The model then gives every token the probability 1/V, so the mean loss should be ln V. "
        "Compute it for a sentence with and without padding. What do you divide by?",
        "(losses * real).sum() / real.sum()",
        "(losses * real).mean()",
        (
            WrongRepair(
                "divided by the number of sentences",
                "The sum is right, but you divide it by the number of sentences. Divide by the number of real tokens.",
                "(losses * real).sum() / len(losses)",
            ),
            WrongRepair(
                "padding included",
                "You take the mean over all positions, including padding. Only real tokens count, in the sum and in "
                "the number that you divide by.",
                "losses.mean()",
            ),
            WrongRepair(
                "the mean of the sentences' means",
                "You average within each sentence first, and then over the sentences. That gives tokens of short "
                "sentences a larger weight than those of long ones.",
                "((losses * real).sum(dim=1) / real.sum(dim=1)).mean()",
            ),
            WrongRepair(
                "not divided",
                "You add up the losses of the real tokens, and that is right. Divide the sum by their number.",
                "(losses * real).sum()",
            ),
        ),
    ),
)


@loss_from_logits.mistake("no smoothing", "The smoothing is missing: the given code had it, so leave it in.")
def _(logits: Tensor, target: Tensor, pad_id: int, smoothing: float) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=pad_id)


def _chosen(table: Tensor, target: Tensor) -> Tensor:
    """Each row's entry at its target."""
    return table.gather(-1, target[:, None])[:, 0]


def _by_token(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    rows = zip(logits.split(1), target.split(1), strict=True)
    return torch.stack([label_smoothed_cross_entropy(z, t, smoothing) for z, t in rows])
