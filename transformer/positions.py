"""Where a token stands. Attention alone sees a bag of words; this adds the order (§3.5).

The paper adds a vector to each embedding: ``sinusoidal_encoding``, or a learned table of the same shape (Table 3, row
E). ``rotate`` came later (Su et al. 2021, arXiv 2104.09864): it turns queries and keys instead, and adds nothing.
"""

import torch
from torch import Tensor


def angles(length: int, width: int) -> Tensor:
    """The angle pos / 10000^(2i/width) of each position and each pair of dimensions, (length, width / 2), float64.

    Raises:
        ValueError: if ``width`` is odd.
    """
    if width % 2:
        raise ValueError(f"the width must be even, because sines and cosines come in pairs; got {width}")
    frequency = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.arange(length, dtype=torch.float64)[:, None] * frequency


def sinusoidal_encoding(length: int, d_model: int) -> Tensor:
    """Sines and cosines of geometrically falling frequency, one pair for two dimensions (§3.5).

    ``encoding[pos, 2i] = sin(pos / 10000^(2i/d_model))`` and ``encoding[pos, 2i+1]`` is the cosine of the same angle.

    Returns:
        (length, d_model), float32.

    Raises:
        ValueError: if ``d_model`` is odd.
    """
    angle = angles(length, d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).float()


def rotation(length: int, d_head: int) -> Tensor:
    """The cosines and sines that ``rotate`` turns by: (2, length, d_head / 2), float32."""
    angle = angles(length, d_head)
    return torch.stack([angle.cos(), angle.sin()]).float()


def rotate(x: Tensor, turn: Tensor) -> Tensor:
    """Turn each pair of dimensions (2i, 2i+1) by its position's angle.

    The dot product of a query turned by position m and a key turned by n depends on them and on m - n only.

    Args:
        x: queries or keys, (..., length, d_head).
        turn: a slice of ``rotation`` for these positions, (2, length, d_head / 2); a length of 1 serves all positions.

    Returns:
        The shape and dtype of x.
    """
    cos, sin = turn.to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)
