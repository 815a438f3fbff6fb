"""Label-smoothed cross-entropy (§5.4), in two forms with equal results (under autocast, up to rounding of the logits).

``label_smoothed_cross_entropy`` is the explicit form: it takes logits. ``linear_label_smoothed_cross_entropy`` is the
one for training: it computes the logits itself, a chunk of rows at a time, because all of them at once,
(tokens, vocab_size), would be by far the largest tensor of a training step.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_ROWS = 384
"""Rows of logits per chunk on a CPU, where larger chunks are not faster."""
CHUNKS = 8
"""At most this many chunks on a GPU: each is then a large matrix product, and compiled code stays short."""


def label_smoothed_cross_entropy(
    logits: Tensor, target: Tensor, smoothing: float = 0.1, pad_id: int | None = None
) -> Tensor:
    """Compute the cross-entropy with a smoothed target distribution q, as ``torch.nn.functional.cross_entropy`` does.

    q has 1 - ε on the correct token, and spreads the rest, ε, evenly over the whole vocabulary, the correct token and
    padding included. For logits z the loss of a token is -Σ q·log p = logsumexp(z) - Σ q·z, and its gradient with
    respect to z is p - q. In Tensor2Tensor, the library of the paper's authors, only the other V - 1 tokens share ε:
    that is the same with a smoothing of ε · V / (V - 1). The Kullback-Leibler divergence KL(q ‖ p), which tutorials
    often use, is this loss minus the entropy of q, a constant, so its gradient is the same.

    Args:
        logits: z, (tokens, vocab_size), float, finite. Sums are computed in float32, or in float64 for float64 logits.
        target: the correct token ids, (tokens,), int64.
        smoothing: ε, in [0, 1).
        pad_id: positions with this target are ignored. None: no position is ignored.

    Returns:
        The sum over tokens, a scalar. The caller divides by the number of tokens, summed over all devices and
        accumulated micro-batches.

    Raises:
        ValueError: if the shapes don't match, the target isn't int64, an argument is out of range, or an id is outside
            the vocabulary. The ids are checked on a CPU only, because on a GPU that would force a host–device
            synchronisation.
    """
    is_real = _not_padding(logits, logits.size(-1), target, smoothing, pad_id)
    z = logits.to(_sum_dtype(logits))
    correct_logit = z.gather(-1, target[:, None])[:, 0]
    expected_logit = (1 - smoothing) * correct_logit + smoothing * z.mean(-1)  # Σ q·z, (tokens,)
    return ((z.logsumexp(-1) - expected_logit) * is_real).sum()


def linear_label_smoothed_cross_entropy(
    x: Tensor,
    weight: Tensor,
    target: Tensor,
    smoothing: float = 0.1,
    pad_id: int | None = None,
) -> Tensor:
    """Compute ``label_smoothed_cross_entropy(x @ weight.T, …)`` without ever storing all logits.

    Other libraries call this a fused, or chunked, linear cross-entropy.
    The gradient with respect to the logits of a row, p - q, needs no other row. So the forward pass also computes the
    gradients of x and weight, chunk by chunk, and the backward pass only scales them. Double backward is not supported.
    Under autocast the matrix products run in the autocast dtype; the softmax and all sums stay in float32, or in
    float64 for float64 inputs.

    Args:
        x: the decoder's output, (tokens, d_model), float.
        weight: the weight of the output layer, `Transformer.unembedding`, (vocab_size, d_model), float.
        target, smoothing, pad_id: as for `label_smoothed_cross_entropy`.

    Returns:
        The sum over tokens, a scalar.

    Raises:
        ValueError: as for `label_smoothed_cross_entropy`.
    """
    if x.dim() != 2 or weight.dim() != 2 or x.size(1) != weight.size(1):
        shapes = f"{tuple(x.shape)} and {tuple(weight.shape)}"
        raise ValueError(f"x must be (tokens, d_model) and weight (vocab_size, d_model); got {shapes}")
    is_real = _not_padding(x, weight.size(0), target, smoothing, pad_id)
    device = x.device.type
    if torch.is_autocast_enabled(device) and x.dtype != torch.float64:
        x = x.to(torch.get_autocast_dtype(device))
    if not torch.is_grad_enabled():
        x, weight = x.detach(), weight.detach()
    with torch.autocast(device, enabled=False):
        return _LinearCrossEntropy.apply(x, weight, target, smoothing, is_real)  # type: ignore[no-untyped-call]


class _LinearCrossEntropy(torch.autograd.Function):
    """Computes the gradients during the forward pass; the backward pass only scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        target: Tensor,
        smoothing: float,
        is_real: Tensor,
    ) -> Tensor:
        rows = _chunk_rows(len(x), x.device.type)
        x_needed, weight_needed, *_ = ctx.needs_input_grad
        x_gradient = torch.empty_like(x)
        weight_gradient = torch.zeros_like(weight, dtype=_sum_dtype(x)) if weight_needed else None
        weight, loss = weight.to(x.dtype), x.new_zeros((), dtype=_sum_dtype(x))
        # Reused for all chunks, because allocating that much is slow on a CPU.
        buffer = weight.new_empty(min(rows, len(x)), len(weight)) if x.device.type == "cpu" else None
        tensors = (x, x_gradient, target[:, None], is_real[:, None])
        for part, part_gradient, correct, real in zip(*(t.split(rows) for t in tensors), strict=True):
            logits = None if buffer is None else buffer[: len(part)]
            part_loss, of_x = _chunk_loss(part, weight, correct, real, smoothing, x_needed, weight_gradient, logits)
            loss = loss + part_loss  # not +=, which PyTorch 2.11 compiled to gradients of zero
            if of_x is not None:
                part_gradient.copy_(of_x)
        ctx.save_for_backward(x_gradient if x_needed else None, weight_gradient)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        x_gradient, weight_gradient = (None if g is None else g * grad_output for g in ctx.saved_tensors)
        return x_gradient, weight_gradient, None, None, None


def _chunk_loss(
    x: Tensor,
    weight: Tensor,
    target: Tensor,
    is_real: Tensor,
    smoothing: float,
    x_needed: bool,
    weight_gradient: Tensor | None,
    buffer: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Compute the summed loss of a chunk of rows, a scalar, and its gradient with respect to x if that is needed.

    Args:
        x: (rows, d_model).
        weight: (vocab_size, d_model), of the same dtype.
        target, is_real: (rows, 1).
        smoothing: ε.
        x_needed: whether the gradient of x is needed.
        weight_gradient: accumulates the gradient with respect to weight; None if it isn't needed.
        buffer: memory for the logits, (rows, vocab_size), of the same dtype.
    """
    z = torch.mm(x, weight.T, out=buffer).to(_sum_dtype(x))  # (rows, vocab_size)
    expected_logit = (1 - smoothing) * z.gather(1, target) + smoothing * z.mean(1, keepdim=True)  # Σ q·z, (rows, 1)
    highest = z.amax(1, keepdim=True)  # subtracted so that exp cannot overflow
    p = z.sub_(highest).exp_()
    total = p.sum(1, keepdim=True)
    loss = ((highest + total.log() - expected_logit) * is_real).sum()
    if not x_needed and weight_gradient is None:
        return loss, None
    p.div_(total).sub_(smoothing / len(weight))
    correct_gradient = p.gather(1, target) - (1 - smoothing)
    # Written last, so that compiled code computes everything before it in a single pass over the logits.
    z_gradient = p.to(x.dtype).scatter_(1, target, correct_gradient.to(x.dtype))  # p - q
    if weight_gradient is not None and weight_gradient.dtype == x.dtype:
        weight_gradient.addmm_(z_gradient.T, x * is_real)
    elif weight_gradient is not None:
        weight_gradient += z_gradient.T @ (x * is_real)
    return loss, (z_gradient @ weight) * is_real if x_needed else None


def _chunk_rows(n: int, device: str) -> int:
    """Return how many of n rows of logits go into one chunk."""
    return CHUNK_ROWS if device == "cpu" else n // CHUNKS + 1


def _sum_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype of the softmax and of all sums: float32, or float64 for float64 inputs."""
    return torch.promote_types(x.dtype, torch.float32)


def _not_padding(x: Tensor, vocab_size: int, target: Tensor, smoothing: float, pad_id: int | None) -> Tensor:
    """Check the arguments of a loss, and return which positions are not padding, (tokens,), bool.

    Args:
        x: the logits or the decoder's output, one row for each token.
    """
    if x.dim() != 2:
        raise ValueError(
            f"logits must be (tokens, vocab_size); got {tuple(x.shape)}: flatten batch and length, also of the target"
        )
    if target.shape != (len(x),) or target.dtype != torch.int64:
        raise ValueError(
            f"target must be int64, with one id for each row of {tuple(x.shape)}; "
            f"got {target.dtype}, {tuple(target.shape)}"
        )
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing must be at least 0 and less than 1; got {smoothing}")
    if pad_id is not None and not 0 <= pad_id < vocab_size:
        raise ValueError(f"pad_id must be a token id from 0 to {vocab_size - 1}, or None; got {pad_id}")
    if target.device.type == "cpu" and not torch.compiler.is_compiling():
        outside = target[(target < 0) | (target >= vocab_size)]
        if len(outside):
            raise ValueError(f"target must hold token ids from 0 to {vocab_size - 1}; got {int(outside[0])}")
    return target != (-1 if pad_id is None else pad_id)
