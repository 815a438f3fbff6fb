"""Scaled dot-product attention in two forms that give the same numbers, and many heads of it (§3.2).

``attention`` is the form to read: scores, mask, softmax, weighted sum. ``fused_attention`` is the same in one call to
PyTorch, which never stores the weights and is what the model runs unless told otherwise.
"""

import math
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.positions import rotate

AttentionForm = Literal["fused", "explicit"]

FEW_QUERIES = 8
"""While decoding on a CPU, so many queries or fewer are answered by the readable form."""


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Look up values by how well their keys match a query: softmax(QKᵀ / √d_k) V (§3.2.1).

    Args:
        query: (..., n_query, d_k).
        key: (..., n_key, d_k).
        value: (..., n_key, d_v).
        mask: bool, broadcastable to (..., n_query, n_key); True = may attend.
        dropout: share of weights dropped before the sum; the paper drops none.

    Returns:
        The outputs, (..., n_query, d_v), and the weights, (..., n_query, n_key). Each row of weights sums to one; a row
        that may attend to nothing is all zeros, and so is its output.

    Raises:
        TypeError: if the mask is not bool.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (..., n_query, n_key)
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        check_mask(mask)
        # The lowest finite number, not -inf: a row with nothing to attend to would otherwise be 0/0.
        scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1) * mask
    return F.dropout(weights, dropout) @ value, weights


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> Tensor:
    """The outputs of ``attention`` by PyTorch's fused kernel: same arguments, same numbers, no weights kept."""
    if mask is not None:
        check_mask(mask)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)


def check_mask(mask: Tensor) -> None:
    """Refuse a mask of numbers: 0 and 1, or 0 and -inf, mean different things to different people."""
    if mask.dtype != torch.bool:
        raise TypeError(f"the mask must be bool, True = may attend; got {mask.dtype}")


class KeyValue(NamedTuple):
    """Keys and values of some positions, split into heads: each (batch, heads, n_key, d_head)."""

    key: Tensor
    value: Tensor


class KeyValueCache:
    """The keys and values of the target so far, so that a decoding step computes only those of its newest tokens.

    Each sentence has one entry for every step and every beam. An entry is written once and never moved, however the
    beams change places: a mask tells each beam which entries are its own past.
    """

    def __init__(self, sentences: int, beams: int, n_heads: int, max_length: int, d_head: int, like: Tensor) -> None:
        self.key = like.new_empty(sentences, n_heads, max_length, beams, d_head)
        self.value = torch.empty_like(self.key)
        self.length = 0

    def append(self, new: KeyValue) -> KeyValue:
        """Write the newest token's entries, (sentences, heads, beams, d_head); return all: n_key = steps · beams.

        Raises:
            ValueError: if the cache is full, or was made for other sentences or beams.
        """
        sentences, heads, steps, beams, d_head = self.key.shape
        if new.key.shape != (sentences, heads, beams, d_head):
            raise ValueError(
                f"the cache holds (sentences, heads, beams, d_head) = {(sentences, heads, beams, d_head)}; "
                f"got {tuple(new.key.shape)}"
            )
        if self.length == steps:
            raise ValueError(f"the cache holds {steps} steps, and all are used")
        here = slice(self.length, self.length + 1)
        self.key[:, :, here] = new.key[:, :, None]
        self.value[:, :, here] = new.value[:, :, None]
        self.length += 1
        used = slice(0, self.length)
        return KeyValue(self.key[:, :, used].flatten(2, 3), self.value[:, :, used].flatten(2, 3))

    def keep(self, sentences: Tensor) -> None:
        """Keep only these sentences, in this order: their rows, (kept,), int64."""
        self.key, self.value = self.key[sentences], self.value[sentences]


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each in its own slice of d_model / n_heads dimensions (§3.2.2).

    The matrices W_Q, W_K and W_V of all heads lie in one linear layer, in this order, so that self-attention needs a
    single matrix product for the three; ``output`` is the paper's W_O.

    Args:
        dropout: share of attention weights dropped in training.
        form: which of the two forms of attention runs.
        turn: ``positions.rotation``, where self-attention is to turn its queries and keys.
    """

    turn: Tensor | None

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        dropout: float = 0.0,
        form: AttentionForm = "fused",
        turn: Tensor | None = None,
    ) -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"d_model must be a multiple of n_heads; got d_model={d_model}, n_heads={n_heads}")
        self.d_model, self.n_heads, self.dropout, self.form = d_model, n_heads, dropout, form
        self.query_key_value = nn.Linear(d_model, 3 * d_model)
        self.output = nn.Linear(d_model, d_model)
        self.register_buffer("turn", turn, persistent=False)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, decoding: bool) -> Tensor:
        """The one place that chooses between the two forms of attention.

        For the few queries of a decoding step there are hardly any weights that the fused kernel could save storing,
        and on a CPU it is then the slower form.
        """
        dropout = self.dropout if self.training else 0.0
        few = decoding and query.device.type == "cpu" and query.size(-2) <= FEW_QUERIES
        if self.form == "explicit" or few:
            return attention(query, key, value, mask, dropout)[0]
        return fused_attention(query, key, value, mask, dropout)

    def split(self, x: Tensor) -> Tensor:
        """(batch, length, d_model) → (batch, heads, length, d_head)."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def join(self, heads: Tensor) -> Tensor:
        """(batch, heads, length, d_head) → (batch, length, d_model)."""
        return heads.transpose(1, 2).flatten(2)

    def project(self, x: Tensor, step: int | None = None) -> tuple[Tensor, KeyValue]:
        """Queries, and keys and values, of the same positions; all stand at position ``step``, if it is given.

        Args:
            x: (batch, length, d_model).

        Returns:
            Each (batch, heads, length, d_head).
        """
        query, key, value = (self.split(part) for part in self.query_key_value(x).chunk(3, dim=-1))
        if self.turn is not None:
            turn = self.turn[:, : x.size(1)] if step is None else self.turn[:, step : step + 1]
            query, key = rotate(query, turn), rotate(key, turn)
        return query, KeyValue(key, value)

    def project_query(self, x: Tensor) -> Tensor:
        """Only the queries of x, (batch, n_query, d_model): (batch, heads, n_query, d_head)."""
        d = self.d_model
        return self.split(F.linear(x, self.query_key_value.weight[:d], self.query_key_value.bias[:d]))

    def project_memory(self, memory: Tensor) -> KeyValue:
        """Only the keys and values of memory, (batch, n_key, d_model): what cross-attention looks things up in.

        Returns:
            Each (batch, heads, n_key, d_head).
        """
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
                attends to itself.
            mask: bool, broadcastable to (batch, heads, n_query, n_key); True = may attend.
            cache: the steps before, in self-attention while decoding. Then x holds the newest token of each beam,
                (batch, beams, d_model), and its keys and values are added to the cache.

        Returns:
            (batch, n_query, d_model).

        Raises:
            ValueError: if the last dimension of x or memory is not d_model, or the cache does not fit.
            TypeError: if the mask is not bool.
        """
        for name, given in (("x", x), ("memory", memory)):
            if isinstance(given, Tensor) and (given.dim() != 3 or given.size(-1) != self.d_model):
                raise ValueError(f"{name} must be (batch, length, d_model={self.d_model}); got {tuple(given.shape)}")
        decoding = cache is not None or isinstance(memory, KeyValue)
        if memory is not None:
            query = self.project_query(x)
            key, value = memory if isinstance(memory, KeyValue) else self.project_memory(memory)
        elif cache is not None:
            query, newest = self.project(x, step=cache.length)
            key, value = cache.append(newest)
        else:
            query, (key, value) = self.project(x)
        return self.output(self.join(self.attend(query, key, value, mask, decoding)))
