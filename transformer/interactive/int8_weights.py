"""Weights as 8-bit integers, which make the model that a browser loads a quarter of the size.

Each row of a matrix has a scale, its largest absolute value divided by 127. The row is stored as the integers nearest
to the weights divided by the scale; this is symmetric per-channel quantization. Biases and the parameters of layer
normalisation are so few that they stay in float32.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from transformer.quantization import quantize_rows

SCALE = ".scale"
"""The suffix of the name of a matrix's scales."""


def quantize(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights by name, each matrix (rows, columns) as int8 and, under ``NAME.scale``, its scales (rows,)."""
    stored = {}
    for name, weight in weights.items():
        weight = weight.detach().to("cpu", torch.float32)
        if weight.dim() == 2:
            weight, scales = quantize_rows(weight)
            stored[name + SCALE] = scales[:, 0]
        stored[name] = weight
    return stored


def dequantize(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights that a browser computes with, in float32: each integer times the scale of its row."""
    return {
        name: stored[name + SCALE][:, None] * tensor if name + SCALE in stored else tensor
        for name, tensor in stored.items()
        if not name.endswith(SCALE)
    }
