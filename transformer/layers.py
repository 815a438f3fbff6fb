"""The encoder layer and the decoder layer, and the parts they share: feed-forward and residual (§3.1, §3.3)."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from transformer.attention import KeyValue, KeyValueCache, MultiHeadAttention
from transformer.config import ModelConfig, Norm


class FeedForward(nn.Module):
    """The position-wise feed-forward network: two linear layers with a ReLU in between (§3.3).

    Args:
        dropout: dropout probability after the ReLU; the paper has none.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.dropout = nn.Dropout(dropout)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each position of x, (batch, length, d_model); return the same shape."""
        return self.outer(self.dropout(self.inner(x).relu()))


class Residual(nn.Module):
    """A residual connection around a sublayer, with layer normalisation (§3.1) and dropout (§5.4).

    ``norm="post"`` is the paper's LayerNorm(x + Dropout(Sublayer(x))). ``norm="pre"`` is x + Dropout(Sublayer(
    LayerNorm(x))), which Tensor2Tensor, the library of the paper's authors, later switched to; it is less
    sensitive to the learning rate. In a layer's state_dict, the norm is ``residuals.N.norm``. On a GPU, autocast
    computes a norm in float32, so the result of post-norm is cast back.
    """

    def __init__(self, d_model: int, dropout: float, norm: Norm) -> None:
        super().__init__()
        self.norm_first = norm == "pre"
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply the sublayer to x, (batch, length, d_model), within the residual connection; return the same shape."""
        if self.norm_first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x))).to(x.dtype)  # for mixed precision


def build_attention(config: ModelConfig, rotation: Tensor | None = None) -> MultiHeadAttention:
    """Build a `MultiHeadAttention` from the configuration; ``rotation`` is passed on to it."""
    return MultiHeadAttention(config.d_model, config.n_heads, config.attention_dropout, config.attention, rotation)


class ActivationCheckpointedLayer(nn.Module):
    """A layer that can save memory in training: it keeps only its input, and the backward pass runs it again.

    The gradients are the same, dropout included. Subclasses define ``forward`` as in any module.
    """

    activation_checkpointing = False
    """Whether the backward pass runs the layer again; no effect in eval mode."""

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Run the layer."""
        if self.activation_checkpointing and self.training:
            return checkpoint(super().__call__, *inputs, use_reentrant=False, **options)
        return super().__call__(*inputs, **options)


class EncoderLayer(ActivationCheckpointedLayer):
    """Self-attention, then the feed-forward network, each in a residual connection (§3.1).

    Args:
        rotation: the `positions.rotary_table`, if positions are rotary; otherwise None.
    """

    def __init__(self, config: ModelConfig, rotation: Tensor | None = None) -> None:
        super().__init__()
        self.self_attention = build_attention(config, rotation)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation_dropout)
        residuals = [Residual(config.d_model, config.dropout, config.norm) for _ in range(2)]
        self.residuals = nn.ModuleList(residuals)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Transform x, (batch, source, d_model), with the source's padding mask; return the same shape."""
        x = self.residuals[0](x, lambda y: self.self_attention(y, mask=mask))
        return self.residuals[1](x, self.feed_forward)


class DecoderLayer(ActivationCheckpointedLayer):
    """Causal self-attention, cross-attention to the encoder's output, then the feed-forward network (§3.1).

    Args:
        rotation: the `positions.rotary_table`, if positions are rotary; otherwise None. Cross-attention ignores it.
    """

    def __init__(self, config: ModelConfig, rotation: Tensor | None = None) -> None:
        super().__init__()
        self.self_attention = build_attention(config, rotation)
        self.cross_attention = build_attention(config)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation_dropout)
        residuals = [Residual(config.d_model, config.dropout, config.norm) for _ in range(3)]
        self.residuals = nn.ModuleList(residuals)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | KeyValue,
        target_mask: Tensor | None,
        memory_mask: Tensor,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Transform the target's representations.

        Args:
            x: (batch, target, d_model).
            memory: the encoder's output, (batch, source, d_model), or its keys and values for this layer.
            target_mask: bool, (batch, 1, target, target); None: each position attends to itself and to all before it.
                With a cache: which entries each beam attends to, (sentences, 1, beams, steps · beams); None: all.
            memory_mask: the source's padding mask, bool, (batch, 1, 1, source).
            cache: the keys and values of earlier positions, if x contains only the newest.

        Returns:
            A tensor of the same shape as x.
        """
        is_causal = target_mask is None and cache is None  # a cache has no later positions
        x = self.residuals[0](
            x,
            lambda y: self.self_attention(y, mask=target_mask, cache=cache, is_causal=is_causal),
        )
        x = self.residuals[1](x, lambda y: self.cross_attention(y, memory, mask=memory_mask))
        return self.residuals[2](x, self.feed_forward)
