"""Label-smoothed cross-entropy, straight from logits, with the gradient written out (§5.4)."""

from typing import Any

import torch
from torch import Tensor


def label_smoothed_cross_entropy(logits: Tensor, target: Tensor, smoothing: float = 0.1) -> Tensor:
    """Cross-entropy against q: 1 - ε on the right token, plus ε spread evenly over the whole vocabulary.

    With logits z it is logsumexp(z) - (1 - ε)·z[target] - ε·mean(z); no target distribution is ever built.

    Args:
        logits: (tokens, vocab_size), float.
        target: the right token ids, (tokens,), int64. Leave padding out before calling.
        smoothing: ε, in [0, 1).

    Returns:
        The sum over tokens, a scalar: divide by the number of tokens, over all devices and accumulated batches, once.
    """
    loss: Tensor = _SmoothedCrossEntropy.apply(logits, target, smoothing)  # type: ignore[no-untyped-call]
    return loss


class _SmoothedCrossEntropy(torch.autograd.Function):
    """The gradient of cross-entropy is p - q: what the model believes minus what it should."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
        total = logits.logsumexp(-1)
        ctx.save_for_backward(logits, total, target)
        ctx.smoothing = smoothing
        right = logits.gather(-1, target[:, None])[:, 0]
        return (total - (1 - smoothing) * right - smoothing * logits.mean(-1)).sum()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        logits, total, target = ctx.saved_tensors
        gradient = (logits - total[:, None]).exp_()  # p
        gradient -= ctx.smoothing / logits.size(-1)  # minus q
        gradient[torch.arange(len(target), device=target.device), target] -= 1 - ctx.smoothing
        return gradient.mul_(upstream[0]), None, None
