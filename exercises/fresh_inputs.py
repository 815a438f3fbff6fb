"""Draw fresh inputs like given ones, so that an answer can't be right on a few known inputs only."""

import random
from collections.abc import Collection, Mapping
from typing import Any

from exercises.tensors import FreshTensors, is_tensor

SHARE_OF_CAPITALS = 0.3


def fresh_inputs(
    inputs: Mapping[str, Any], keep: Collection[str], seed: int, non_negative: Collection[str] = ()
) -> dict[str, Any]:
    """Return inputs of the same kinds and sizes with different contents.

    Float tensors get new random numbers of the same magnitude. In other tensors, the entries of the first axis, such as
    the sentences of a batch, change places. No tensor is contiguous in memory if it has two axes or more. In texts,
    some letters become capitals. Everything else stays as it is.

    Args:
        inputs: argument name → value.
        keep: names of inputs whose contents mean something, such as probabilities or names of settings: texts stay as
            they are, and in tensors, only rows change places.
        seed: seed of the random numbers.
        non_negative: names of float tensors whose numbers are never negative, such as losses.
    """
    tensors = FreshTensors(seed)
    capitals = random.Random(seed)

    def fresh(value: Any, keep: bool = False) -> Any:
        if is_tensor(value):
            return tensors.draw(value, keep)
        match value:
            case str():
                return value if keep else _with_capitals(value, capitals)
            case dict():
                return {key if keep else _fresh_key(key, seed): fresh(entry, keep) for key, entry in value.items()}
            case list():
                return [fresh(entry, keep) for entry in value]
            case tuple():
                return tuple(fresh(entry, keep) for entry in value)
            case _:
                return value

    drawn = {name: fresh(value, name in keep) for name, value in inputs.items()}
    return drawn | {name: drawn[name].abs() for name in non_negative}


def _fresh_key(key: Any, seed: int) -> Any:
    """Return a dict's key with capitals; equal keys of several dicts stay equal."""
    if isinstance(key, tuple):
        return tuple(_fresh_key(entry, seed) for entry in key)
    return _with_capitals(key, random.Random(seed)) if isinstance(key, str) else key


def _with_capitals(text: str, generator: random.Random) -> str:
    return "".join(c.upper() if generator.random() < SHARE_OF_CAPITALS and len(c.upper()) == 1 else c for c in text)
