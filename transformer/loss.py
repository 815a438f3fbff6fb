"""Label-smoothed cross-entropy, straight from logits (§5.4)."""

from torch import Tensor


def label_smoothed_cross_entropy(logits: Tensor, target: Tensor, smoothing: float = 0.1) -> Tensor:
    """Cross-entropy against 1 - ε on the right token plus ε spread evenly over the whole vocabulary.

    With logits z it is logsumexp(z) - (1 - ε)·z[target] - ε·mean(z); no target distribution is ever built.

    Args:
        logits: (tokens, vocab_size), float.
        target: the right token ids, (tokens,), int64. Leave padding out before calling.
        smoothing: ε, in [0, 1).

    Returns:
        The sum over tokens, a scalar: divide by the number of tokens, over all devices and accumulated batches, once.
    """
    right = logits.gather(-1, target[:, None])[:, 0]
    return (logits.logsumexp(-1) - (1 - smoothing) * right - smoothing * logits.mean(-1)).sum()
