"""Where a token stands. Attention alone sees a bag of words; this adds the order (§3.5)."""

import torch
from torch import Tensor


def sinusoidal_encoding(length: int, d_model: int) -> Tensor:
    """Sines and cosines of geometrically falling frequency, one pair for two dimensions (§3.5).

    ``encoding[pos, 2i] = sin(pos / 10000^(2i/d_model))`` and ``encoding[pos, 2i+1]`` is the cosine of the same angle.

    Returns:
        (length, d_model), float32.

    Raises:
        ValueError: if ``d_model`` is odd.
    """
    if d_model % 2:
        raise ValueError(f"d_model must be even, because sines and cosines come in pairs; got {d_model}")
    position = torch.arange(length, dtype=torch.float64)[:, None]
    frequency = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angle = position * frequency  # (length, d_model / 2)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).float()
