"""Look inside a model: count its parameters and operations, record its attention weights, ablate heads."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import torch
from tabulate import tabulate
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from transformer.attention import KeyValue, MultiHeadAttention, attention
from transformer.errors import quote
from transformer.masks import causal_mask
from transformer.model import Transformer

PARTS = {
    "self_attention": "self-attention",
    "cross_attention": "cross-attention",
    "feed_forward": "feed-forward",
    "residuals": "layer norms",
}


def parameter_counts(model: Transformer) -> dict[str, int]:
    """Return the number of parameters of each part of a model; a tied matrix counts once."""
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
    """Format `parameter_counts` as a table, with each part's share and the total."""
    counts = parameter_counts(model)
    total = sum(counts.values())
    rows = [[part, count, f"{count / total:.1%}"] for part, count in [*counts.items(), ("total", total)]]
    return tabulate(rows, headers=["part", "parameters", "share"], intfmt=",", colalign=("left", "right", "right"))


def word_indices(pieces: Sequence[str], words: Sequence[str]) -> list[int]:
    """Return the index of the word that each piece belongs to; for a piece that spans several words, the first one's.

    Args:
        pieces: as the tokenizer returns them, with ``▁`` where a word begins.
        words: the words of the same sentence; a punctuation mark may be a word of its own.

    Raises:
        ValueError: if the pieces don't spell the words.
    """
    spelled = [piece.replace("▁", "") for piece in pieces]
    if "".join(spelled) != "".join(words):
        raise ValueError(f"the pieces spell {quote(''.join(spelled))}, the words {quote(''.join(words))}")
    word_of_letter = [index for index, word in enumerate(words) for _ in word]
    starts = accumulate(map(len, spelled), initial=0)
    return [word_of_letter[min(start, len(word_of_letter) - 1)] for start, _ in zip(starts, spelled, strict=False)]


@contextmanager
def record_attention(model: Transformer) -> Iterator[dict[str, Tensor]]:
    """Record the attention weights of every attention layer that runs while the context is open.

    The model itself still uses its fused attention: hooks compute the weights separately, by the explicit
    implementation, from the same inputs.

    Yields:
        A dictionary that each call of a layer fills, replacing its weights from an earlier call. The key is the layer's
        name in the model, for example ``"decoder.1.cross_attention"``; the weights are (batch, heads, query, key).

    Raises:
        ValueError: when the model decodes with a cache: run ``model.decode`` on the whole target instead.
    """
    weights: dict[str, Tensor] = {}

    def recorder(name: str) -> Any:
        def record(layer: MultiHeadAttention, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            given = dict(zip(("x", "memory", "mask", "cache", "is_causal"), args, strict=False)) | kwargs
            x, memory = given["x"], given.get("memory")
            if given.get("cache") is not None or isinstance(memory, KeyValue):
                raise ValueError("weights cannot be recorded while decoding with a cache; run model.decode instead")
            with torch.no_grad():
                query, (key, value) = layer.project(x)
                if memory is not None:
                    key, value = layer.project_memory(memory)
                mask = causal_mask(x.size(1), x.device) if given.get("is_causal") else given.get("mask")
                weights[name] = attention(query, key, value, mask)[1]

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
    """Ablate attention heads while the context is open: their outputs are replaced by zeros.

    The zeros are what the layer's output projection W_O gets from these heads (§3.2.2); its bias, which belongs to no
    head, still applies. Contexts can be nested: then the heads of all of them are ablated.

    Args:
        heads: for each layer, by its name in the model such as ``"decoder.1.cross_attention"``, the indices of its
            heads to ablate.

    Raises:
        ValueError: if there is no such attention layer, or no such head.
    """
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, MultiHeadAttention)}

    def head_mask(name: str, ablated: Iterable[int]) -> Tensor:
        """Return False for the outputs of the ablated heads, True for all others: (d_model,), bool."""
        if name not in layers:
            raise ValueError(f"there is no attention layer {quote(name)}; there are {', '.join(layers)}")
        layer = layers[name]
        shape, device = (layer.n_heads, layer.d_model // layer.n_heads), layer.output.bias.device
        mask = torch.ones(shape, dtype=torch.bool, device=device)  # bool, so that products keep the outputs' dtype
        for head in ablated:
            if not 0 <= head < layer.n_heads:
                raise ValueError(f"{name} has the heads 0 to {layer.n_heads - 1}; got {head}")
            mask[head] = False
        return mask.flatten()

    def multiply_input(mask: Tensor) -> Callable[[nn.Module, tuple[Tensor]], tuple[Tensor]]:
        return lambda _, args: (args[0] * mask,)

    masks = {name: head_mask(name, ablated) for name, ablated in heads.items()}
    hooks = [layers[name].output.register_forward_pre_hook(multiply_input(mask)) for name, mask in masks.items()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def count_flops(model: Transformer) -> Iterator[FlopCounterMode]:
    """Count the floating-point operations of all matrix products that run while the context is open.

    A product of an (n, k) and a (k, m) matrix has 2nkm operations: a multiplication and an addition per term. The
    model uses explicit attention meanwhile, because fused kernels are counted only on some devices.

    Yields:
        PyTorch's counter; ``get_total_flops()`` returns the count so far.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, MultiHeadAttention)]
    implementations = [layer.implementation for layer in layers]
    # PyTorch has no formula for the in-place ``addmm_``, with which our loss updates the output embedding's gradient.
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: _addmm_flops})
    for layer in layers:
        layer.implementation = "explicit"
    try:
        with counter:
            yield counter
    finally:
        for layer, implementation in zip(layers, implementations, strict=True):
            layer.implementation = implementation


def _addmm_flops(added: torch.Size, left: torch.Size, right: torch.Size, *_: Any, **__: Any) -> int:
    return 2 * left[0] * left[1] * right[1]
