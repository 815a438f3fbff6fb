"""Label-smoothed cross-entropy (§5.4): the form to read, and the form that training runs. Both give the same numbers.

The second one makes the logits itself, some rows at a time, because all of them, (tokens, vocab_size), would be the
largest tensor of a training step by far.
"""

from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Spread = Literal["all", "others"]
CHUNK_ROWS = 384
"""Rows of logits in memory at a time on a CPU, where more gain nothing."""
CHUNKS = 8
"""A GPU takes about an eighth of the rows at a time: large products, and compiled code is the same for all."""


def label_smoothed_cross_entropy(
    logits: Tensor, target: Tensor, smoothing: float = 0.1, spread: Spread = "all", pad_id: int | None = None
) -> Tensor:
    """Cross-entropy against q, which puts 1 - ε on the right token and spreads ε over the vocabulary.

    For logits z it is -Σ q·log p = logsumexp(z) - Σ q·z, and its gradient in z is p - q: what the model believes minus
    what it should. Tutorials often take the Kullback-Leibler divergence of p from q with ``spread="others"``. That is
    this loss less the entropy of q, -Σ q·log q a token, which no weight can change: the gradient is the same.

    Args:
        logits: z, (tokens, vocab_size), float; the sums are in fp32, or in fp64 for fp64.
        target: the right token ids, (tokens,), int64.
        smoothing: ε, in [0, 1).
        spread: who shares ε. ``"all"``: all V tokens, the right one and padding too, ε / V each, as in PyTorch. The
            paper's code leaves the right one out, ε / (V - 1) each: the same as ε · V / (V - 1) here. ``"others"``: all
            but the right one and padding, ε / (V - 2) each. This loss is larger than that of ``"all"`` by ε · (the mean
            of all logits - the mean of those others).
        pad_id: positions with this target count for nothing; ``"others"`` needs it. None: every position counts.

    Returns:
        The sum over tokens, a scalar: divide by the number of tokens, over all devices and accumulated batches, once.

    Raises:
        ValueError: if an argument does not fit, or an id is outside the vocabulary (looked for on the CPU only, and not
            while compiling: it would make a GPU wait).
    """
    counts, flat, extra = _targets(logits, logits.size(-1), target, smoothing, spread, pad_id)
    z = logits.to(flat.dtype)
    expected = (z * flat).sum(-1) + extra * z.gather(-1, target[:, None])[:, 0]  # Σ q·z, (tokens,)
    return ((z.logsumexp(-1) - expected) * counts).sum()


def linear_label_smoothed_cross_entropy(
    x: Tensor, weight: Tensor, target: Tensor, smoothing: float = 0.1, spread: Spread = "all", pad_id: int | None = None
) -> Tensor:
    """``label_smoothed_cross_entropy(x @ weight.T, …)``, without ever holding all logits: see ``CHUNK_ROWS``.

    A row's p - q is known as soon as its logits are. So each chunk goes forward and backward at once and is forgotten;
    what stays are the gradients of x and weight. They are made only if wanted, and cannot be differentiated again.
    Under autocast the matrix products are in its type; the softmax and all sums stay in fp32, or in fp64 for fp64.

    Args:
        x: the decoder's states, (tokens, d_model), float.
        weight: the unembedding, (vocab_size, d_model), float.
        target, smoothing, spread, pad_id: as above, and so are the result and the errors.
    """
    if x.dim() != 2 or weight.dim() != 2 or x.size(1) != weight.size(1):
        shapes = f"{tuple(x.shape)} and {tuple(weight.shape)}"
        raise ValueError(f"x must be (tokens, d_model) and weight (vocab_size, d_model); got {shapes}")
    q = _targets(x, weight.size(0), target, smoothing, spread, pad_id)
    device = x.device.type
    if torch.is_autocast_enabled(device) and x.dtype != torch.float64:
        x = x.to(torch.get_autocast_dtype(device))
    if not torch.is_grad_enabled():
        x, weight = x.detach(), weight.detach()
    with torch.autocast(device, enabled=False):
        return _LinearCrossEntropy.apply(x, weight, target, *q)  # type: ignore[no-untyped-call]


class _LinearCrossEntropy(torch.autograd.Function):
    """The forward pass makes the gradients too; the backward pass only scales them."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, target: Tensor, counts: Tensor, flat: Tensor, extra: float
    ) -> Tensor:
        rows = _rows(len(x), x.device.type)
        x_needed, weight_needed, *_ = ctx.needs_input_grad
        x_gradient = torch.empty_like(x)
        weight_gradient = torch.zeros_like(weight, dtype=flat.dtype) if weight_needed else None
        weight, loss = weight.to(x.dtype), flat.new_zeros(())
        buffer = weight.new_empty(min(rows, len(x)), len(weight))  # one for all chunks: new memory is slow
        tensors = (x, x_gradient, target[:, None], counts[:, None])
        for states, states_gradient, right, count in zip(*(t.split(rows) for t in tensors), strict=True):
            z = torch.mm(states, weight.T, out=buffer[: len(states)]).to(flat.dtype)  # (rows, vocab_size)
            expected = (z @ flat)[:, None] + extra * z.gather(1, right)
            highest = z.amax(1, keepdim=True)  # taken off first, so that no exponential is too large
            p = z.sub_(highest).exp_()
            total = p.sum(1, keepdim=True)
            loss += ((highest + total.log() - expected) * count).sum()
            if x_needed or weight_needed:
                p.div_(total).sub_(flat).scatter_add_(1, right, torch.full_like(total, -extra))
                error = p.to(x.dtype)  # p - q
            if x_needed:
                states_gradient.copy_((error @ weight) * count)
            if weight_gradient is not None and weight_gradient.dtype == x.dtype:
                weight_gradient.addmm_(error.T, states * count)
            elif weight_gradient is not None:
                weight_gradient += error.T @ (states * count)
        ctx.save_for_backward(x_gradient if x_needed else None, weight_gradient)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        x_gradient, weight_gradient = (None if g is None else g * upstream for g in ctx.saved_tensors)
        return x_gradient, weight_gradient, None, None, None, None


def _rows(n: int, device: str) -> int:
    """How many of n rows of logits are in memory at a time."""
    return CHUNK_ROWS if device == "cpu" else n // CHUNKS + 1


def _targets(
    like: Tensor, V: int, target: Tensor, smoothing: float, spread: Spread, pad_id: int | None
) -> tuple[Tensor, Tensor, float]:
    """Check; return who counts, (tokens,), and q: every token's share, (V,), and what the right one has on top."""
    shape, others = tuple(target.shape), spread == "others"
    if like.dim() != 2 or shape != (len(like),) or target.dtype != torch.int64:
        raise ValueError(f"target must be int64, one a row of {tuple(like.shape)}; got {target.dtype}, {shape}")
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing must be at least 0 and less than 1; got {smoothing}")
    if pad_id is not None and not 0 <= pad_id < V:
        raise ValueError(f"pad_id must be a token id from 0 to {V - 1}, or None; got {pad_id}")
    if spread not in ("all", "others") or others and (pad_id is None or V < 3):
        raise ValueError(f'spread must be "all", or "others" with a pad_id and 3 tokens or more; got {spread!r}')
    if target.device.type == "cpu" and not torch.compiler.is_compiling():
        outside = target[(target < 0) | (target >= V)]
        if len(outside):
            raise ValueError(f"target must hold token ids from 0 to {V - 1}; got {int(outside[0])}")
    share = smoothing / (V - 2 if others else V)
    flat = like.new_full((V,), share, dtype=torch.promote_types(like.dtype, torch.float32))
    if others:
        flat[pad_id] = 0
    return target != (-1 if pad_id is None else pad_id), flat, 1 - smoothing - (share if others else 0)
