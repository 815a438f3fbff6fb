import math

import pytest
import torch

from transformer.positions import sinusoidal_encoding


def test_values_by_hand() -> None:
    encoding = sinusoidal_encoding(3, 4)
    assert encoding.shape == (3, 4) and encoding.dtype == torch.float32
    expected = [math.sin(2), math.cos(2), math.sin(2 / 100), math.cos(2 / 100)]
    torch.testing.assert_close(encoding[2], torch.tensor(expected))


def test_a_shift_is_the_same_rotation_at_every_position() -> None:
    encoding, shift = sinusoidal_encoding(60, 8).double(), 7
    frequency = 10000.0 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    sin, cos = encoding[:-shift, 0::2], encoding[:-shift, 1::2]
    turned_sin = sin * (shift * frequency).cos() + cos * (shift * frequency).sin()
    torch.testing.assert_close(turned_sin, encoding[shift:, 0::2], atol=1e-6, rtol=0)


def test_odd_width_is_refused() -> None:
    with pytest.raises(ValueError, match=r"d_model must be even.*got 5"):
        sinusoidal_encoding(3, 5)
