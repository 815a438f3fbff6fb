"""8-bit weights: nearly the same numbers, in a quarter of the space."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer.interactive.int8_weights import dequantize, quantize
from transformer.quantization import LARGEST


def test_a_small_example() -> None:
    stored = quantize(
        {"a.weight": torch.tensor([[2.54, -1.27, 0.013], [0.0, 0.0, 0.0]]), "a.bias": torch.tensor([0.1])}
    )
    assert stored["a.weight"].tolist() == [[127, -64, 1], [0, 0, 0]]  # -63.5 is rounded to the even -64
    assert torch.allclose(stored["a.weight.scale"], torch.tensor([0.02, 0.0]))
    assert stored["a.weight"].dtype is torch.int8 and stored["a.weight.scale"].dtype is torch.float32
    weights = dequantize(stored)
    assert torch.allclose(weights["a.weight"], torch.tensor([[2.54, -1.28, 0.02], [0.0, 0.0, 0.0]]))
    assert weights.keys() == {"a.weight", "a.bias"} and torch.equal(weights["a.bias"], torch.tensor([0.1]))


@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 40))
def test_each_weight_is_within_half_a_step_of_its_row(seed: int, rows: int, columns: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(rows, columns, generator=generator) * 10 ** torch.randn(rows, 1, generator=generator)
    stored = quantize({"w": weight})
    error = (dequantize(stored)["w"] - weight).abs()
    assert bool((error <= 0.501 * weight.abs().amax(1, keepdim=True) / LARGEST).all())
    again = quantize(dequantize(stored))
    assert torch.equal(again["w"], stored["w"]), "what is already rounded stays as it is"


def test_half_precision_weights_become_float32() -> None:
    weights = dequantize(
        quantize({"w": torch.ones(2, 2, dtype=torch.float16), "b": torch.ones(2, dtype=torch.float16)})
    )
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
