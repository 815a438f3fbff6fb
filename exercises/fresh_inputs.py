"""Draw fresh inputs like given ones, so that an answer can't be right on a few known inputs only."""

import random
from collections.abc import Collection, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

SHARE_OF_CAPITALS = 0.3


def fresh_inputs(inputs: Mapping[str, Any], keep: Collection[str], seed: int) -> dict[str, Any]:
    """Return inputs of the same kinds and sizes with other contents.

    Float tensors get new random numbers of the same magnitude. In other tensors, the entries of the first axis change
    places, such as the sentences of a batch. No tensor is contiguous in memory if it has two axes or more. In texts,
    some letters become capitals. All else stays as it is.

    Args:
        inputs: argument name → value.
        keep: names of inputs whose numbers mean something, such as probabilities; only their rows change places.
        seed: seed of the random numbers.
    """
    generator = torch.Generator().manual_seed(seed)
    capitals = random.Random(seed)

    def fresh(value: Any, keep: bool = False) -> Any:
        match value:
            case Tensor():
                if value.is_floating_point() and not keep:
                    return _slice_of_larger(_redrawn(value, generator))
                return _slice_of_larger(value.roll(1, -2 if keep and value.dim() > 1 else 0))
            case str():
                return _with_capitals(value, capitals)
            case dict():
                return {_fresh_key(key, seed): fresh(entry, keep) for key, entry in value.items()}
            case list():
                return [fresh(entry, keep) for entry in value]
            case tuple():
                return tuple(fresh(entry, keep) for entry in value)
            case _:
                return value

    return {name: fresh(value, name in keep) for name, value in inputs.items()}


def _redrawn(x: Tensor, generator: torch.Generator) -> Tensor:
    """Return normally distributed numbers of the same root mean square; infinities stay where they are."""
    finite = x[x.isfinite()].double()
    scale = finite.square().mean().sqrt() if len(finite) else torch.tensor(0.0)
    drawn = scale * torch.randn(x.shape, generator=generator, dtype=torch.float64)
    return torch.where(x.isfinite(), drawn.to(x.dtype), x)


def _slice_of_larger(x: Tensor) -> Tensor:
    return F.pad(x, (0, 2))[..., :-2] if x.dim() > 1 else x


def _fresh_key(key: Any, seed: int) -> Any:
    """Return a dict's key with capitals; equal keys of several dicts stay equal."""
    if isinstance(key, tuple):
        return tuple(_fresh_key(entry, seed) for entry in key)
    return _with_capitals(key, random.Random(seed)) if isinstance(key, str) else key


def _with_capitals(text: str, generator: random.Random) -> str:
    return "".join(c.upper() if generator.random() < SHARE_OF_CAPITALS and len(c.upper()) == 1 else c for c in text)
