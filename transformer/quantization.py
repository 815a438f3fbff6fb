"""Dynamic quantization: linear layers that multiply 8-bit integers instead of floats, for inference on a CPU.

`quantize_linear_layers` rounds the weights once; the inputs are rounded in every call, hence "dynamic". This needs
neither training nor calibration, and CPUs with AVX512-VNNI instructions multiply such integers several times as fast as
float32 numbers.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.device import has_int8_instructions
from transformer.errors import UserError

LARGEST = 127
"""The largest integer; the smallest is -127, so that zero is in the middle (symmetric quantization)."""
LARGEST_WEIGHT = 63
"""The largest integer of a weight. It is smaller than `LARGEST` so that sums are exact even in float32, which is used
on CPUs without AVX512-VNNI: 2,096 products of at most 127 · 63 sum to less than 2²⁴, and float32 represents all
integers up to that."""

Model = TypeVar("Model", bound=nn.Module)


def quantize_rows(x: Tensor, largest: int = LARGEST) -> tuple[Tensor, Tensor]:
    """Round each row of a matrix to integers, in units of its largest absolute value / ``largest``.

    Args:
        x: (rows, columns), floating point.
        largest: the largest integer, at most 127.

    Returns:
        The integers, (rows, columns), int8, and the units, called scales, (rows, 1), in the dtype of ``x``. Integers
        times scales differ from ``x`` by at most half a scale.
    """
    scales = x.abs().amax(dim=1, keepdim=True) / largest
    nonzero = scales.clamp(min=torch.finfo(x.dtype).tiny)
    return (x / nonzero).round_().to(torch.int8), scales


@dataclass(frozen=True)
class Int8Weight:
    """The weight of a linear layer in int8. With it, ``torch.nn.functional.linear`` calls `int8_linear`."""

    integers: Tensor
    """(out, in), int8; on a CPU without instructions for int8, float32, which is faster there."""
    scales: Tensor
    """(out, 1), float32: integers times scales are nearly the original weights."""

    @classmethod
    def quantize(cls, weight: Tensor) -> "Int8Weight":
        """Round a weight, (out, in), and store it in the dtype that this CPU multiplies fastest."""
        integers, scales = quantize_rows(weight.float(), LARGEST_WEIGHT)
        return cls(integers if has_int8_instructions() else integers.float(), scales)

    def __getitem__(self, rows: slice) -> "Int8Weight":
        """Return the weight of some of the outputs."""
        return Int8Weight(self.integers[rows], self.scales[rows])

    def float(self) -> "Int8Weight":
        """Return the weight itself, because its products are in float32."""
        return self

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Sequence[type], args: Any, kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Called by PyTorch instead of any function that gets such a weight."""
        return int8_linear(*args, **(kwargs or {})) if function is F.linear else NotImplemented


def int8_linear(x: Tensor, weight: Int8Weight, bias: Tensor | None = None) -> Tensor:
    """Compute a linear layer, x Wᵀ + b, with rounded inputs and a product of integers.

    The product is exact, but in float32 only with up to 2,096 inputs (see `LARGEST_WEIGHT`); the big model's
    feed-forward network has 4,096.

    Args:
        x: (..., in), float32, on a CPU; each row is rounded with its own scale.
        weight: (out, in).
        bias: (out,); None: none.

    Returns:
        (..., out), float32.
    """
    integers, scales = quantize_rows(x.reshape(-1, x.size(-1)))
    if weight.integers.dtype == torch.int8:
        products = torch._int_mm(integers, weight.integers.t()).float()
    else:
        products = F.linear(integers.float(), weight.integers)
    y = products.mul_(weight.scales[:, 0])
    y = y.mul_(scales) if bias is None else torch.addcmul(bias, y, scales)
    return y.view(*x.shape[:-1], len(weight.scales))


def quantize_linear_layers(model: Model) -> Model:
    """Return a copy of a model on a CPU in which each linear layer has an `Int8Weight`.

    The copy is for inference only: these weights are not among its parameters. Embeddings are not changed.

    Raises:
        UserError: if the model is such a copy.
    """
    check_not_quantized(model)
    model = copy.deepcopy(model)
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            weight = layer.weight.detach()
            del layer.weight
            layer.weight = Int8Weight.quantize(weight)  # type: ignore[assignment]
    return model


def check_not_quantized(model: nn.Module) -> None:
    """Check that a model has all its weights, to save or convert them.

    Raises:
        UserError: if the model is the result of `quantize_linear_layers`.
    """
    if any(isinstance(layer, nn.Linear) and isinstance(layer.weight, Int8Weight) for layer in model.modules()):
        raise UserError("the weights of this model are rounded to int8: load it with precision fp32")
