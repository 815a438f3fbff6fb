import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer.positions import rotary_table, rotate, sinusoidal_encoding


def test_values_by_hand() -> None:
    encoding = sinusoidal_encoding(3, 4)
    assert encoding.shape == (3, 4) and encoding.dtype == torch.float32
    expected = [math.sin(2), math.cos(2), math.sin(2 / 100), math.cos(2 / 100)]
    torch.testing.assert_close(encoding[2], torch.tensor(expected))


@given(shift=st.integers(1, 500), pairs=st.integers(1, 32))
def test_a_shift_is_the_same_rotation_at_every_position(shift: int, pairs: int) -> None:
    d_model = 2 * pairs
    encoding = sinusoidal_encoding(shift + 60, d_model).double()
    angle = shift * 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    sin, cos = encoding[:60, 0::2], encoding[:60, 1::2]
    torch.testing.assert_close(sin * angle.cos() + cos * angle.sin(), encoding[shift:, 0::2], atol=1e-6, rtol=0)
    torch.testing.assert_close(cos * angle.cos() - sin * angle.sin(), encoding[shift:, 1::2], atol=1e-6, rtol=0)


def test_rotation_by_hand() -> None:
    rotation = rotary_table(3, 4)
    assert rotation.shape == (2, 3, 2) and rotation.dtype == torch.float32
    rotated = rotate(torch.tensor([[1.0, 0.0, 2.0, 3.0]] * 3), rotation)
    sin, cos = math.sin(0.02), math.cos(0.02)
    expected = [math.cos(2), math.sin(2), 2 * cos - 3 * sin, 2 * sin + 3 * cos]
    torch.testing.assert_close(rotated[2], torch.tensor(expected))


def test_rotation_keeps_the_dtype() -> None:
    for dtype in (torch.bfloat16, torch.float64):
        assert rotate(torch.ones(3, 4, dtype=dtype), rotary_table(3, 4)).dtype == dtype


@given(query=st.integers(0, 99), key=st.integers(0, 99), shift=st.integers(0, 100))
def test_products_of_rotated_vectors_depend_only_on_the_distance(query: int, key: int, shift: int) -> None:
    q, k = torch.randn(2, 1, 8, generator=torch.Generator().manual_seed(0))
    rotation = rotary_table(200, 8)

    def product(m: int, n: int) -> float:
        return float((rotate(q, rotation[:, m : m + 1]) * rotate(k, rotation[:, n : n + 1])).sum())

    assert product(query, key) == pytest.approx(product(query + shift, key + shift), abs=1e-4)


def test_odd_width_is_refused() -> None:
    with pytest.raises(ValueError, match=r"width must be even.*got 5"):
        sinusoidal_encoding(3, 5)
