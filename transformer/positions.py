"""Positional encodings (§3.5).

Without them, attention ignores the order of the tokens, except for what a causal mask reveals.

The paper adds a vector to each embedding: ``sinusoidal_encoding``, or a learned embedding (Table 3, row E). Rotary
positions (RoPE; Su et al. 2021, arXiv 2104.09864) came later: ``rotate`` rotates the queries and keys instead.
"""

import torch
from torch import Tensor


def angles(length: int, width: int) -> Tensor:
    """Return the angle pos / 10000^(2i/width) for each position and each pair of dimensions.

    Returns:
        (length, width / 2), float64.

    Raises:
        ValueError: if ``width`` is odd.
    """
    if width % 2:
        raise ValueError(f"the width must be even, because sines and cosines come in pairs; got {width}")
    even = torch.arange(0, width, 2, dtype=torch.float64)
    frequency = 10000.0 ** (-even / width)
    position = torch.arange(length, dtype=torch.float64)
    return position[:, None] * frequency


def sinusoidal_encoding(length: int, d_model: int) -> Tensor:
    """Return the paper's positional encoding: sines and cosines of geometrically decreasing frequency (§3.5).

    ``encoding[pos, 2i] = sin(pos / 10000^(2i/d_model))``, and ``encoding[pos, 2i+1]`` is the cosine of the same angle.

    Returns:
        (length, d_model), float32.

    Raises:
        ValueError: if ``d_model`` is odd.
    """
    angle = angles(length, d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).float()


def rotary_table(length: int, d_head: int) -> Tensor:
    """Return the cosines and sines of all angles that `rotate` needs.

    Returns:
        (2, length, d_head / 2), float32.

    Raises:
        ValueError: if ``d_head`` is odd.
    """
    angle = angles(length, d_head)
    return torch.stack([angle.cos(), angle.sin()]).float()


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate each pair of dimensions (2i, 2i+1) by the angle of its position.

    The dot product of a query at position m and a key at position n, both rotated, depends on their contents and on
    m - n only.

    Args:
        x: queries or keys, (..., length, d_head).
        rotation: the part of `rotary_table` for these positions, (2, length, d_head / 2); a length of 1 broadcasts.

    Returns:
        A tensor of the same shape and dtype as x.
    """
    cos, sin = rotation.to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    rotated = [even * cos - odd * sin, even * sin + odd * cos]
    return torch.stack(rotated, dim=-1).flatten(-2)
