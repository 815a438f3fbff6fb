"""Scaled dot-product attention and multi-head attention (§3.2).

Scaled dot-product attention has two implementations with equal results. ``attention`` is explicit: scores, mask,
softmax, weighted sum. ``fused_attention`` is a single call to PyTorch that usually doesn't store the weights; the
model uses it by default.
"""

import math
from typing import Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.masks import causal_mask
from transformer.positions import rotate

AttentionImplementation = Literal["fused", "explicit"]


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Compute scaled dot-product attention, softmax(QKᵀ / √d_k) V (§3.2.1).

    For each query the result is a weighted sum of the values. The weights come from the dot products of the query with
    the keys.

    Args:
        query: (..., n_query, d_k).
        key: (..., n_key, d_k).
        value: (..., n_key, d_v).
        mask: bool, broadcastable to (..., n_query, n_key); True = may attend.
        dropout: dropout probability for the weights; the paper has none.

    Returns:
        The outputs, (..., n_query, d_v), and the weights, (..., n_query, n_key). The weights of a query sum to one. If
        the mask excludes every key for a query, its weights and its output are zero.

    Raises:
        TypeError: if the mask is not bool.
    """
    d_k = query.size(-1)
    scores = query @ key.transpose(-2, -1) / math.sqrt(d_k)
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        check_mask(mask)
        # Not -inf: where every key is excluded, it would give 0/0 = NaN.
        # The lowest finite number doesn't.
        scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1) * mask
    return F.dropout(weights, dropout) @ value, weights


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
) -> Tensor:
    """Compute the outputs of ``attention`` with PyTorch's fused kernel, without returning the weights.

    The fused kernel never stores the weights. On a CPU, PyTorch uses it only for inputs of four dimensions with
    d_v = d_k and without dropout, and otherwise computes explicit matrix products. Arguments, shapes and errors are as
    for ``attention``. ``is_causal`` has the same effect as a `causal_mask`, but lets the kernel skip the scores of
    later positions. It can't be combined with ``mask`` (ValueError).
    """
    if mask is not None:
        check_mask(mask)
        if is_causal:
            raise ValueError("is_causal cannot be combined with a mask: add the causal mask to it")
        mask = _additive_mask(torch.atleast_2d(mask), query.dtype)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=is_causal)


def _additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what the kernels add to the scores: 0 where mask is True, and -inf elsewhere.

    Its row stride is a multiple of 8 elements, as the GPU kernels require. Otherwise PyTorch would pad a copy of the
    mask on every call, and torch.compile would specialise on the amount of padding.
    """
    length = mask.size(-1)
    mask = F.pad(mask, (0, 8 - length % 8))  # by 1 to 8, because torch.compile would specialise on 0
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, -math.inf)[..., :length]


def check_mask(mask: Tensor) -> None:
    """Accept only bool masks, in which True means may attend.

    Integer and additive float masks are rejected rather than guessed at.

    Raises:
        TypeError: if the mask is not bool.
    """
    if mask.dtype != torch.bool:
        raise TypeError(f"the mask must be bool, True = may attend; got {mask.dtype}")


class KeyValue(NamedTuple):
    """The keys and the values of some positions, each (batch, heads, n_key, d_head)."""

    key: Tensor
    value: Tensor


class KeyValueCache:
    """The keys and values of the target tokens so far, so that a decoding step computes them for new tokens only.

    Memory for ``max_length`` steps is allocated up front. In beam search, all beams of a sentence share one cache, and
    its entries never move when beams are reordered: a mask selects the entries that belong to each beam's own prefix
    (see `model.DecoderCache`).

    Args:
        sentences, beams, n_heads, max_length, d_head: the cache's dimensions.
        like: a tensor with the dtype and device that the cache should have.
    """

    def __init__(self, sentences: int, beams: int, n_heads: int, max_length: int, d_head: int, like: Tensor) -> None:
        self.key = like.new_empty(sentences, n_heads, max_length, beams, d_head)
        self.value = torch.empty_like(self.key)
        self.length = 0

    def append(self, new: KeyValue) -> KeyValue:
        """Append the keys and values of each beam's newest token.

        Args:
            new: each (sentences, heads, beams, d_head).

        Returns:
            All keys and values so far, each (sentences, heads, steps · beams, d_head).

        Raises:
            ValueError: if the cache is full, or ``new`` doesn't match its dimensions.
        """
        sentences, heads, steps, beams, d_head = self.key.shape
        if new.key.shape != (sentences, heads, beams, d_head):
            raise ValueError(
                f"the cache holds (sentences, heads, beams, d_head) = {(sentences, heads, beams, d_head)}; "
                f"got {tuple(new.key.shape)}"
            )
        if self.length == steps:
            raise ValueError(f"the cache is full: it has room for {steps} steps")
        step = slice(self.length, self.length + 1)  # a slice, because torch.compile recompiles for each integer index
        self.key[:, :, step] = new.key[:, :, None]
        self.value[:, :, step] = new.value[:, :, None]
        self.length += 1
        return KeyValue(
            self.key[:, :, : self.length].flatten(2, 3),
            self.value[:, :, : self.length].flatten(2, 3),
        )

    def select(self, sentences: Tensor) -> None:
        """Keep only the sentences with these indices, (kept,), int64, in this order."""
        self.key, self.value = self.key[sentences], self.value[sentences]


class MultiHeadAttention(nn.Module):
    """Multi-head attention: n_heads attentions in parallel, each with d_head = d_model / n_heads dimensions (§3.2.2).

    The matrices W_Q, W_K and W_V of all heads are stacked in one linear layer, in this order, so that self-attention
    needs a single matrix product for all of them; ``output`` is the paper's W_O.

    Args:
        dropout: dropout probability for the attention weights, in training.
        implementation: which implementation of attention to use.
        rotation: the table of `positions.rotary_table`, for self-attention with rotary positions; None: no rotation.

    Raises:
        ValueError: if d_model is not a multiple of n_heads, or the implementation is unknown.
    """

    rotation: Tensor | None

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        dropout: float = 0.0,
        implementation: AttentionImplementation = "fused",
        rotation: Tensor | None = None,
    ) -> None:
        super().__init__()
        if n_heads < 1 or d_model % n_heads:
            raise ValueError(f"d_model must be a multiple of n_heads; got d_model={d_model}, n_heads={n_heads}")
        if implementation not in get_args(AttentionImplementation):
            raise ValueError(f'implementation must be "fused" or "explicit"; got {implementation!r}')
        self.d_model, self.n_heads, self.dropout, self.implementation = d_model, n_heads, dropout, implementation
        self.query_key_value = nn.Linear(d_model, 3 * d_model)
        self.output = nn.Linear(d_model, d_model)
        self.register_buffer("rotation", rotation, persistent=False)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
        """Run the configured implementation of attention on queries, keys and values that are split into heads."""
        dropout = self.dropout if self.training else 0.0
        if self.implementation == "fused":
            return fused_attention(query, key, value, mask, dropout, is_causal)
        if is_causal:
            mask = causal_mask(query.size(-2), query.device)
        return attention(query, key, value, mask, dropout)[0]

    def split_heads(self, x: Tensor) -> Tensor:
        """Reshape (batch, length, d_model) to (batch, heads, length, d_head)."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def join_heads(self, heads: Tensor) -> Tensor:
        """Concatenate the heads: reshape (batch, heads, length, d_head) to (batch, length, d_model)."""
        return heads.transpose(1, 2).flatten(2)

    def project(self, x: Tensor, position: int | None = None) -> tuple[Tensor, KeyValue]:
        """Compute queries, keys and values for self-attention.

        Args:
            x: (batch, length, d_model).
            position: in decoding, the position shared by all vectors in x; None: 0 … length - 1.

        Returns:
            The queries, and the keys and values, each (batch, heads, length, d_head).
        """
        query, key, value = (self.split_heads(part) for part in self.query_key_value(x).chunk(3, dim=-1))
        if self.rotation is not None:
            first, end = (0, x.size(1)) if position is None else (position, position + 1)
            rotation = self.rotation[:, first:end]
            query, key = rotate(query, rotation), rotate(key, rotation)
        return query, KeyValue(key, value)

    def project_query(self, x: Tensor) -> Tensor:
        """Compute the queries for cross-attention: (batch, n_query, d_model) → (batch, heads, n_query, d_head)."""
        d = self.d_model
        weight, bias = self.query_key_value.weight[:d], self.query_key_value.bias[:d]
        return self.split_heads(F.linear(x, weight, bias))

    def project_memory(self, memory: Tensor) -> KeyValue:
        """Compute the keys and values for cross-attention, which are the same at every decoding step.

        Args:
            memory: the encoder's output, (batch, n_key, d_model).

        Returns:
            Each (batch, heads, n_key, d_head).
        """
        d = self.d_model
        weight, bias = self.query_key_value.weight[d:], self.query_key_value.bias[d:]
        key, value = F.linear(memory, weight, bias).chunk(2, dim=-1)
        return KeyValue(self.split_heads(key), self.split_heads(value))

    def forward(
        self,
        x: Tensor,
        memory: Tensor | KeyValue | None = None,
        mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Attend from x to memory, or to x itself.

        Args:
            x: the input for the queries, (batch, n_query, d_model).
            memory: the input for the keys and values, (batch, n_key, d_model), or the result of `project_memory`; None:
                self-attention.
            mask: bool, broadcastable to (batch, heads, n_query, n_key); True = may attend.
            cache: the keys and values of earlier decoding steps, for self-attention. Then x holds each beam's newest
                token, (sentences, beams, d_model), and its keys and values are appended to the cache.
            is_causal: use a `causal_mask`; only for self-attention without a mask or cache.

        Returns:
            (batch, n_query, d_model).

        Raises:
            ValueError: if the last dimension of x or memory is not d_model, the cache does not fit, or arguments
                are mutually exclusive.
            TypeError: if the mask is not bool.
        """
        for name, tensor in (("x", x), ("memory", memory)):
            if isinstance(tensor, Tensor) and (tensor.dim() != 3 or tensor.size(-1) != self.d_model):
                raise ValueError(f"{name} must be (batch, length, d_model={self.d_model}); got {tuple(tensor.shape)}")
        if memory is not None and cache is not None:
            raise ValueError("a cache is for self-attention: pass memory or a cache, not both")
        if is_causal and (memory is not None or mask is not None or cache is not None):
            raise ValueError("is_causal=True is for self-attention, without a mask or a cache")
        if memory is not None:
            query = self.project_query(x)
            if not isinstance(memory, KeyValue):
                memory = self.project_memory(memory)
            key, value = memory
        elif cache is not None:
            query, newest = self.project(x, position=cache.length)
            key, value = cache.append(newest)
        else:
            query, (key, value) = self.project(x)
        heads = self.attend(query, key, value, mask, is_causal)
        return self.output(self.join_heads(heads))
