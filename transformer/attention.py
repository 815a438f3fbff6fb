"""Scaled dot-product attention in two forms that give the same numbers, and many heads of it (§3.2).

``attention`` is the form to read: scores, mask, softmax, weighted sum. ``fused_attention`` is the same in one call to
PyTorch, which never stores the weights and is what the model runs.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Look up values by how well their keys match a query: softmax(QKᵀ / √d_k) V (§3.2.1).

    Args:
        query: (..., n_query, d_k).
        key: (..., n_key, d_k).
        value: (..., n_key, d_v).
        mask: bool, broadcastable to (..., n_query, n_key); True = may attend.

    Returns:
        The outputs, (..., n_query, d_v), and the weights, (..., n_query, n_key). Each row of weights sums to one; a row
        that may attend to nothing is all zeros, and so is its output.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (..., n_query, n_key)
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        # The lowest finite number, not -inf: a row with nothing to attend to would otherwise be 0/0.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1).masked_fill(~mask, 0.0)
    return weights @ value, weights


def fused_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """The outputs of ``attention`` by PyTorch's fused kernel: same arguments, same numbers, no weights kept."""
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


class KeyValue(NamedTuple):
    """Keys and values of some positions, split into heads: each (batch, heads, n_key, d_head)."""

    key: Tensor
    value: Tensor


class KeyValueCache:
    """The keys and values of the target so far, so that a decoding step computes only those of its newest token."""

    def __init__(self, batch: int, n_heads: int, max_length: int, d_head: int, like: Tensor) -> None:
        self.key = like.new_empty(batch, n_heads, max_length, d_head)
        self.value = torch.empty_like(self.key)
        self.length = 0

    def append(self, new: KeyValue) -> KeyValue:
        """Write new positions behind the old ones and return all of them."""
        end = self.length + new.key.size(2)
        if end > self.key.size(2):
            raise ValueError(f"the cache holds {self.key.size(2)} positions, {end} were needed")
        self.key[:, :, self.length : end] = new.key
        self.value[:, :, self.length : end] = new.value
        self.length = end
        return KeyValue(self.key[:, :, :end], self.value[:, :, :end])

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order; a row may be taken more than once."""
        if len(rows) == self.key.size(0):
            used = slice(0, self.length)
            self.key[:, :, used] = self.key[:, :, used].index_select(0, rows)
            self.value[:, :, used] = self.value[:, :, used].index_select(0, rows)
        else:
            self.key = self.key.index_select(0, rows)
            self.value = self.value.index_select(0, rows)


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each in its own slice of d_model / n_heads dimensions (§3.2.2).

    The matrices W_Q, W_K and W_V of all heads lie in one linear layer, in this order, so that self-attention needs a
    single matrix product for the three; ``output`` is the paper's W_O.
    """

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"d_model must be a multiple of n_heads; got d_model={d_model}, n_heads={n_heads}")
        self.d_model, self.n_heads = d_model, n_heads
        self.query_key_value = nn.Linear(d_model, 3 * d_model)
        self.output = nn.Linear(d_model, d_model)

    def split(self, x: Tensor) -> Tensor:
        """(batch, length, d_model) → (batch, heads, length, d_head)."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def join(self, heads: Tensor) -> Tensor:
        """(batch, heads, length, d_head) → (batch, length, d_model)."""
        return heads.transpose(1, 2).flatten(2)

    def project(self, x: Tensor) -> tuple[Tensor, KeyValue]:
        """Queries, and keys and values, of the same positions (self-attention)."""
        query, key, value = self.query_key_value(x).chunk(3, dim=-1)
        return self.split(query), KeyValue(self.split(key), self.split(value))

    def project_query(self, x: Tensor) -> Tensor:
        """Only the queries of x, (batch, heads, n_query, d_head)."""
        d = self.d_model
        return self.split(F.linear(x, self.query_key_value.weight[:d], self.query_key_value.bias[:d]))

    def project_memory(self, memory: Tensor) -> KeyValue:
        """Only the keys and values of memory: what cross-attention looks things up in."""
        d = self.d_model
        key, value = F.linear(memory, self.query_key_value.weight[d:], self.query_key_value.bias[d:]).chunk(2, dim=-1)
        return KeyValue(self.split(key), self.split(value))

    def forward(
        self,
        x: Tensor,
        memory: Tensor | KeyValue | None = None,
        mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Attend from x to memory, or to x itself.

        Args:
            x: where the queries come from, (batch, n_query, d_model).
            memory: where keys and values come from, (batch, n_key, d_model), or those already projected. Without it, x
                attends to itself. Projected ones may have fewer rows than x: then consecutive rows of x share one (the
                beams of a sentence share its memory).
            mask: bool, broadcastable to (batch, heads, n_query, n_key); True = may attend.
            cache: earlier positions of x, in self-attention; those of x are added to it.

        Returns:
            (batch, n_query, d_model).
        """
        if memory is None:
            query, key_value = self.project(x)
            if cache is not None:
                key_value = cache.append(key_value)
        else:
            key_value = memory if isinstance(memory, KeyValue) else self.project_memory(memory)
            # Rows that share a memory become its query positions, so that nothing is copied.
            query = self.project_query(x.reshape(key_value.key.size(0), -1, self.d_model))
        heads = fused_attention(query, key_value.key, key_value.value, mask)
        return self.output(self.join(heads)).reshape(x.shape)
