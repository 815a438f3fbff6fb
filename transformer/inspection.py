"""Look inside a running model: record the attention weights of every head, without touching the forward code."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from transformer.attention import KeyValue, MultiHeadAttention, attention
from transformer.model import Transformer


@contextmanager
def record_attention(model: Transformer) -> Iterator[dict[str, Tensor]]:
    """While the context is open, each call of an attention layer leaves its weights in the yielded dictionary.

    The model runs its fused attention as always; the weights are computed beside it by the readable form, from the same
    inputs. A later call of a layer replaces the earlier one. Keyed by the layer's name in the model, for example
    ``"decoder.1.cross_attention"``; each is (batch, heads, query, key).

    Raises:
        ValueError: on a call that decodes with a cache: run ``model.decode`` on the whole target instead.
    """
    weights: dict[str, Tensor] = {}

    def recorder(name: str) -> Any:
        def record(layer: MultiHeadAttention, args: tuple[Tensor, ...], named: dict[str, Any]) -> None:
            x, memory = args[0], args[1] if len(args) > 1 else named.get("memory")
            if named.get("cache") is not None or isinstance(memory, KeyValue):
                raise ValueError("weights cannot be recorded while decoding with a cache; run model.decode instead")
            with torch.no_grad():
                query, (key, value) = layer.project(x)
                if memory is not None:
                    key, value = layer.project_memory(memory)
                weights[name] = attention(query, key, value, named.get("mask"))[1]

        return record

    hooks = [
        layer.register_forward_pre_hook(recorder(name), with_kwargs=True)
        for name, layer in model.named_modules()
        if isinstance(layer, MultiHeadAttention)
    ]
    try:
        yield weights
    finally:
        for hook in hooks:
            hook.remove()
