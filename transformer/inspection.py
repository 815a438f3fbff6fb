"""Look inside a model: count its parameters, record every head's attention weights while it runs, turn heads off."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from tabulate import tabulate
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from transformer.attention import KeyValue, MultiHeadAttention, attention
from transformer.model import Transformer

PARTS = {
    "self_attention": "self-attention",
    "cross_attention": "cross-attention",
    "feed_forward": "feed-forward",
    "residuals": "layer norms",
}


def parameter_counts(model: Transformer) -> dict[str, int]:
    """How many parameters each part of a model has; a tied matrix counts once."""
    counts: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        side, _, layer_name = name.partition(".")
        if side.endswith("embedding"):
            part = "embeddings"
        elif side in ("encoder", "decoder"):
            part = f"{side} {PARTS[layer_name.split('.')[1]]}"
        else:  # positions, encoder_norm, decoder_norm
            part = "learned positions" if side == "positions" else f"{side.removesuffix('_norm')} layer norms"
        counts[part] = counts.get(part, 0) + parameter.numel()
    return counts


def parameter_table(model: Transformer) -> str:
    """The counts as a table to print, with each part's share and the total."""
    counts = parameter_counts(model)
    total = sum(counts.values())
    rows = [[part, count, f"{count / total:.1%}"] for part, count in [*counts.items(), ("in all", total)]]
    return tabulate(rows, headers=["part", "parameters", "share"], intfmt=",", colalign=("left", "right", "right"))


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


@contextmanager
def ablate_heads(model: Transformer, heads: Mapping[str, Iterable[int]]) -> Iterator[None]:
    """While the context is open, these heads add nothing: their part of what the output projection reads is zero.

    It is as if their columns of that projection's weight were zero (§3.2.2); the bias stays, as it belongs to no head.
    Contexts may be nested, and the heads of all of them are off.

    Args:
        heads: a layer's name in the model, for example ``"decoder.1.cross_attention"`` → heads of it, counted from 0.

    Raises:
        ValueError: if there is no such attention layer, or no such head.
    """

    def silencer(name: str, off: Iterable[int]) -> tuple[nn.Linear, Any]:
        layer = layers.get(name)
        if layer is None:
            raise ValueError(f"there is no attention layer {name!r}; there are {', '.join(layers)}")
        keep = layer.output.weight.new_ones(layer.n_heads, layer.d_model // layer.n_heads)
        for head in off:
            if not 0 <= head < layer.n_heads:
                raise ValueError(f"{name} has the heads 0 to {layer.n_heads - 1}; got {head}")
            keep[head] = 0
        return layer.output, lambda _, args: (args[0] * keep.flatten(),)

    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, MultiHeadAttention)}
    silencers = [silencer(name, off) for name, off in heads.items()]
    hooks = [output.register_forward_pre_hook(silence) for output, silence in silencers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def count_flops(model: Transformer) -> Iterator[FlopCounterMode]:
    """Count the floating-point operations of all matrix products that run while the context is open.

    A product of an (n, k) and a (k, m) matrix has 2nkm operations: a multiplication and an addition per term. The
    model computes attention in its explicit form meanwhile, because fused kernels are counted on some devices only.

    Yields:
        PyTorch's counter; ``get_total_flops()`` returns the count so far.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, MultiHeadAttention)]
    forms = [layer.form for layer in layers]
    # The counter lacks the product that our loss adds to the gradient of the output embedding.
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: _addmm_flops})
    for layer in layers:
        layer.form = "explicit"
    try:
        with counter:
            yield counter
    finally:
        for layer, form in zip(layers, forms, strict=True):
            layer.form = form


def _addmm_flops(added: torch.Size, left: torch.Size, right: torch.Size, *_: Any, **__: Any) -> int:
    return 2 * left[0] * left[1] * right[1]
