"""The whole model: embeddings, encoder, decoder, and the way back to the vocabulary (§3)."""

import math
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from transformer.attention import KeyValue, KeyValueCache
from transformer.errors import UserError
from transformer.layers import DecoderLayer, EncoderLayer, Norm
from transformer.masks import padding_mask, target_mask
from transformer.positions import sinusoidal_encoding


@dataclass(frozen=True)
class ModelConfig:
    """The model's shape. The defaults are the paper's base model (§6.2, Table 3)."""

    vocab_size: int = 37_000
    """Number of token ids, shared by source and target."""
    d_model: int = 512
    """Width of every position's vector."""
    n_heads: int = 8
    """Attention heads; each is d_model / n_heads wide."""
    d_ff: int = 2048
    """Width of the feed-forward's inner layer."""
    n_layers: int = 6
    """Encoder layers, and as many decoder layers."""
    dropout: float = 0.1
    """Share of values dropped from each sublayer's output and from the embeddings, in training."""
    norm: Norm = "post"
    """Layer norm after the residual addition (the paper) or before the sublayer."""
    tie_embeddings: bool = True
    """One matrix for source, target and output vocabulary (§3.4)."""
    max_length: int = 512
    """Longest sentence in tokens, on either side."""
    pad_id: int = 0
    """The id that fills up short sentences."""

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "n_heads", "d_ff", "n_layers", "max_length"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1; got {getattr(self, name)}")
        if self.d_model % self.n_heads:
            raise UserError(
                f"d_model must be a multiple of n_heads; got d_model={self.d_model}, n_heads={self.n_heads}"
            )
        if not 0 <= self.dropout < 1:
            raise UserError(f"dropout must be at least 0 and less than 1; got {self.dropout}")
        if self.norm not in ("post", "pre"):
            raise UserError(f'norm must be "post" or "pre"; got {self.norm!r}')


@dataclass
class DecoderCache:
    """What decoding keeps between steps: for each layer the target's keys and values so far, and the memory's."""

    target: list[KeyValueCache]
    memory: list[KeyValue]
    memory_mask: Tensor

    @property
    def length(self) -> int:
        """Target positions already decoded."""
        return self.target[0].length

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Keep these target rows in this order, and, if given, only these sentences of the memory."""
        for cache in self.target:
            cache.select(rows)
        if sentences is not None:
            self.memory = [KeyValue(m.key[sentences], m.value[sentences]) for m in self.memory]
            self.memory_mask = self.memory_mask[sentences]


class Transformer(nn.Module):
    """The encoder–decoder of the paper: source ids and target ids in, a score for every next token out."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.target_embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.unembedding = nn.Linear(config.d_model, config.vocab_size, bias=False)
        layer = (config.d_model, config.n_heads, config.d_ff, config.dropout, config.norm)
        self.encoder = nn.ModuleList(EncoderLayer(*layer) for _ in range(config.n_layers))
        self.decoder = nn.ModuleList(DecoderLayer(*layer) for _ in range(config.n_layers))
        # With norm="pre" nothing has normalised the last layer's sum yet.
        last_norm = nn.LayerNorm if config.norm == "pre" else nn.Identity
        self.encoder_norm, self.decoder_norm = last_norm(config.d_model), last_norm(config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.positions: Tensor
        self.register_buffer("positions", sinusoidal_encoding(config.max_length, config.d_model), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform matrices, zero biases; embeddings of variance 1 / d_model, which times √d_model is 1."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for layer in (self.source_embedding, self.target_embedding, self.unembedding):
            nn.init.normal_(layer.weight, std=self.config.d_model**-0.5)
        if self.config.tie_embeddings:
            self.target_embedding.weight = self.source_embedding.weight
            self.unembedding.weight = self.source_embedding.weight

    def embed(self, ids: Tensor, embedding: nn.Embedding, start: int = 0) -> Tensor:
        """Token vectors times √d_model, plus positions start, start + 1, … (§3.4, §3.5): (batch, length, d_model)."""
        end = start + ids.size(1)
        if end > self.config.max_length:
            raise ValueError(f"the model reads at most {self.config.max_length} tokens; got {end}")
        vectors = embedding(ids) * math.sqrt(self.config.d_model)
        return self.dropout(vectors + self.positions[start:end])

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Read the source.

        Args:
            source: token ids, (batch, source), int64; padding at the end.

        Returns:
            The memory, (batch, source, d_model), and its mask, (batch, 1, 1, source), bool.
        """
        mask = padding_mask(source, self.config.pad_id)
        x = self.embed(source, self.source_embedding)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x), mask

    def decode(self, target: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
        """Read the target so far and look at the memory.

        Args:
            target: token ids, (batch, target), int64; it starts with bos, and padding stands at the end.
            memory: (batch, source, d_model).
            memory_mask: bool, (batch, 1, 1, source).

        Returns:
            (batch, target, d_model): at each position what the model knows of the token that comes next.
        """
        mask = target_mask(target, self.config.pad_id)
        x = self.embed(target, self.target_embedding)
        for layer in self.decoder:
            x = layer(x, memory, mask, memory_mask)
        return self.decoder_norm(x)

    def logits(self, x: Tensor) -> Tensor:
        """(..., d_model) → a score for each token of the vocabulary, (..., vocab_size)."""
        return self.unembedding(x)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Score every next token of the target, all positions at once (teacher forcing).

        Args:
            source: token ids, (batch, source), int64.
            target: token ids, (batch, target), int64: bos and the true translation, without its eos.

        Returns:
            (batch, target, vocab_size): ``[b, t]`` scores the token after ``target[b, : t + 1]``.
        """
        memory, memory_mask = self.encode(source)
        return self.logits(self.decode(target, memory, memory_mask))

    def start_cache(self, memory: Tensor, memory_mask: Tensor, max_length: int, beams: int = 1) -> DecoderCache:
        """An empty cache for decoding up to ``max_length`` positions, with ``beams`` target rows for each sentence."""
        heads, d_head = self.config.n_heads, self.config.d_model // self.config.n_heads
        rows = memory.size(0) * beams
        return DecoderCache(
            target=[KeyValueCache(rows, heads, max_length, d_head, like=memory) for _ in self.decoder],
            memory=[cast(DecoderLayer, layer).cross_attention.project_memory(memory) for layer in self.decoder],
            memory_mask=memory_mask,
        )

    def decode_step(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """``decode`` for one more token a row, with all earlier ones in the cache; same numbers, less work.

        Args:
            tokens: the newest token ids, (rows,), int64.
            cache: is advanced by one position.

        Returns:
            (rows, vocab_size): scores of the next token.
        """
        x = self.embed(tokens[:, None], self.target_embedding, start=cache.length)
        for layer, key_value, memory in zip(self.decoder, cache.target, cache.memory, strict=True):
            x = layer(x, memory, None, cache.memory_mask, key_value)
        return self.logits(self.decoder_norm(x[:, 0]))
