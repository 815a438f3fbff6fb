"""Who may look at whom. One convention everywhere: a mask is boolean, and **True means "may attend"**.

Every mask broadcasts to the shape of the attention scores, ``(batch, heads, query, key)``; ``&`` combines two of them.
"""

import torch
from torch import Tensor


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    """Hide padding: each position may be looked at if it holds a real token.

    Args:
        ids: token ids, (batch, length), int64.
        pad_id: the id that fills up short sentences.

    Returns:
        (batch, 1, 1, length), bool: the same row for every head and every query.
    """
    return (ids != pad_id)[:, None, None, :]


def causal_mask(length: int, device: torch.device | str | None = None) -> Tensor:
    """Hide the future: position i may look at positions 0 … i, itself included (§3.2.3).

    Returns:
        (1, 1, length, length), bool: a lower triangle, rows are queries, columns are keys.
    """
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]


def target_mask(ids: Tensor, pad_id: int) -> Tensor:
    """What the decoder's self-attention uses: real tokens only, and none from the future.

    Args:
        ids: target token ids, (batch, length), int64.

    Returns:
        (batch, 1, length, length), bool.
    """
    return padding_mask(ids, pad_id) & causal_mask(ids.size(1), ids.device)
