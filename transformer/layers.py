"""Feed-forward, residual connection with layer norm, and the encoder and decoder layer made of them (§3.1, §3.3)."""

from collections.abc import Callable

from torch import Tensor, nn

from transformer.attention import KeyValue, KeyValueCache, MultiHeadAttention
from transformer.config import ModelConfig, Norm


class FeedForward(nn.Module):
    """Two linear layers with a ReLU between them, applied to each position alone (§3.3).

    Args:
        dropout: share of the inner values dropped in training; the paper drops none.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.dropout = nn.Dropout(dropout)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, d_model) → the same shape."""
        return self.outer(self.dropout(self.inner(x).relu_()))


class Residual(nn.Module):
    """Add what a sublayer computes to what went in, and normalise.

    ``norm="post"`` is the paper: LayerNorm(x + Sublayer(x)) (§3.1). ``norm="pre"`` is what its code came to use:
    x + Sublayer(LayerNorm(x)), which trains with less care for the learning rate. Dropout acts on the sublayer's
    output (§5.4).
    """

    def __init__(self, d_model: int, dropout: float, norm: Norm) -> None:
        super().__init__()
        self.norm_first = norm == "pre"
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """(batch, length, d_model) → the same shape."""
        if self.norm_first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


def attention_of(config: ModelConfig, turn: Tensor | None = None) -> MultiHeadAttention:
    """Attention of the configured form; ``turn``: the rotation of its queries and keys, with rotary positions."""
    return MultiHeadAttention(config.d_model, config.n_heads, config.attention_dropout, config.attention, turn)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: ModelConfig, turn: Tensor | None = None) -> None:
        super().__init__()
        self.self_attention = attention_of(config, turn)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation_dropout)
        self.residuals = nn.ModuleList(Residual(config.d_model, config.dropout, config.norm) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x: (batch, source, d_model); mask: the source's padding mask. Returns the same shape as x."""
        x = self.residuals[0](x, lambda y: self.self_attention(y, mask=mask))
        return self.residuals[1](x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Self-attention that sees no future, cross-attention to the encoder's memory, then feed-forward."""

    def __init__(self, config: ModelConfig, turn: Tensor | None = None) -> None:
        super().__init__()
        self.self_attention = attention_of(config, turn)
        self.cross_attention = attention_of(config)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation_dropout)
        self.residuals = nn.ModuleList(Residual(config.d_model, config.dropout, config.norm) for _ in range(3))

    def forward(
        self,
        x: Tensor,
        memory: Tensor | KeyValue,
        target_mask: Tensor | None,
        memory_mask: Tensor,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Returns x's shape.

        Args:
            x: (batch, target, d_model).
            memory: (batch, source, d_model), or its keys and values.
            target_mask: bool, (batch, 1, target, target); None: everything may be seen.
            memory_mask: bool, (batch, 1, 1, source).
            cache: of the positions before, if x is the newest alone.
        """
        x = self.residuals[0](x, lambda y: self.self_attention(y, mask=target_mask, cache=cache))
        x = self.residuals[1](x, lambda y: self.cross_attention(y, memory, mask=memory_mask))
        return self.residuals[2](x, self.feed_forward)
