"""Attention masks (§3.2.3). A mask is boolean, and **True means "may attend"**, as in PyTorch's fused attention.

In the masks of `torch.nn.MultiheadAttention` and `torch.nn.Transformer`, True means the opposite.

Every mask broadcasts to the shape of the attention scores, (batch, heads, query, key). Combine two of them with ``&``.
"""

import torch
from torch import Tensor


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    """Return a mask that excludes padding from the keys.

    Args:
        ids: token ids, (batch, length), int64.
        pad_id: the id of the padding token.

    Returns:
        (batch, 1, 1, length), bool: True for real tokens; the same row for every head and every query.
    """
    return (ids != pad_id)[:, None, None, :]


def causal_mask(length: int, device: torch.device | str | None = None) -> Tensor:
    """Return a mask that lets position i attend to positions 0 … i only, so that it cannot see the future (§3.2.3).

    Returns:
        (1, 1, length, length), bool: a lower triangle; rows are queries, columns are keys.
    """
    square = torch.ones(length, length, dtype=torch.bool, device=device)
    return square.tril()[None, None]


def target_mask(ids: Tensor, pad_id: int) -> Tensor:
    """Return the mask of the decoder's self-attention: causal, and without padding among the keys.

    Args:
        ids: target token ids, (batch, length), int64.
        pad_id: the id of the padding token.

    Returns:
        (batch, 1, length, length), bool.
    """
    return padding_mask(ids, pad_id) & causal_mask(ids.size(1), ids.device)
