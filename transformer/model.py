"""The whole model: embeddings, encoder, decoder, and the way back to the vocabulary (§3)."""

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from transformer.attention import KeyValue, KeyValueCache
from transformer.config import ModelConfig as ModelConfig
from transformer.data.tokenizer import PAD
from transformer.layers import DecoderLayer, EncoderLayer
from transformer.masks import padding_mask, target_mask
from transformer.positions import rotation, sinusoidal_encoding


@dataclass
class DecoderCache:
    """What decoding keeps between steps: for each layer the target's keys and values so far, and the memory's."""

    target: list[KeyValueCache]
    memory: list[KeyValue]
    memory_mask: Tensor
    """Bool, (sentences, 1, 1, source)."""
    past: Tensor
    """Which entries of the target's cache each beam looks at, (sentences, beams, steps, beams), bool. At first each
    beam's own; where the beams change places, this mask does too, and the keys and values stay where they are."""

    @property
    def length(self) -> int:
        """Target positions already decoded."""
        return self.target[0].length

    def follow(self, parents: Tensor) -> None:
        """Each beam goes on from the past of its parent, (sentences, beams), int64."""
        steps = self.past[:, :, : self.length]
        self.past[:, :, : self.length] = steps.gather(1, parents[:, :, None, None].expand_as(steps))

    def keep(self, sentences: Tensor) -> None:
        """Keep only these sentences, in this order."""
        for cache in self.target:
            cache.keep(sentences)
        self.memory = [KeyValue(m.key[sentences], m.value[sentences]) for m in self.memory]
        self.memory_mask, self.past = self.memory_mask[sentences], self.past[sentences]


class Transformer(nn.Module):
    """The encoder–decoder of the paper: source ids and target ids in, a score for every next token out."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.target_embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.unembedding = nn.Linear(config.d_model, config.vocab_size, bias=False)
        turn = rotation(config.max_length, config.d_model // config.n_heads) if config.positions == "rotary" else None
        self.encoder = nn.ModuleList(EncoderLayer(config, turn) for _ in range(config.n_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config, turn) for _ in range(config.n_layers))
        # With norm="pre" nothing has normalised the last layer's sum yet.
        last_norm = nn.LayerNorm if config.norm == "pre" else nn.Identity
        self.encoder_norm, self.decoder_norm = last_norm(config.d_model), last_norm(config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.positions: Tensor | None
        if config.positions == "learned":
            self.positions = nn.Parameter(torch.empty(config.max_length, config.d_model))
        else:
            table = sinusoidal_encoding(config.max_length, config.d_model) if turn is None else None
            self.register_buffer("positions", table, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Linear layers as configured, zero biases; embeddings of variance 1 / d_model, which times √d_model is 1."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                if self.config.initialisation == "xavier":
                    nn.init.xavier_uniform_(module.weight)
                else:
                    nn.init.normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for layer in (self.source_embedding, self.target_embedding, self.unembedding):
            nn.init.normal_(layer.weight, std=self.config.d_model**-0.5)
        if isinstance(self.positions, nn.Parameter):
            nn.init.normal_(self.positions, std=0.02)
        if self.config.tie_embeddings == "all":
            self.target_embedding.weight = self.source_embedding.weight
        if self.config.tie_embeddings in ("decoder", "all"):
            self.unembedding.weight = self.target_embedding.weight

    def embed(self, ids: Tensor, embedding: nn.Embedding, step: int | None = None) -> Tensor:
        """Token vectors times √d_model, plus their positions, or all that of ``step`` (§3.4, §3.5).

        Args:
            ids: (batch, length), integers.

        Returns:
            (batch, length, d_model).

        Raises:
            ValueError: if ids are of another shape or dtype, longer than ``max_length``, or outside the vocabulary.
        """
        self.check(ids)
        first, end = (0, ids.size(1)) if step is None else (step, step + 1)
        if end > self.config.max_length:
            raise ValueError(f"the model reads at most {self.config.max_length} tokens; got {end}")
        vectors = embedding(ids) * math.sqrt(self.config.d_model)
        if self.positions is not None:
            vectors = vectors + self.positions[first:end]
        return self.dropout(vectors)

    def check(self, ids: Tensor) -> None:
        """Refuse what are no token ids. Their range is looked at on the CPU only: a GPU would have to be waited for."""
        if ids.dim() != 2 or ids.is_floating_point():
            raise ValueError(f"ids must be integers, (batch, length); got {ids.dtype}, {tuple(ids.shape)}")
        if ids.is_cpu and ids.numel() and not torch.compiler.is_compiling():
            low, high = int(ids.min()), int(ids.max())
            if low < 0 or high >= self.config.vocab_size:
                raise ValueError(
                    f"ids must be from 0 to vocab_size - 1 = {self.config.vocab_size - 1}; got {low} to {high}"
                )

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Read the source.

        Args:
            source: token ids, (batch, source), int64; padding at the end.

        Returns:
            The memory, (batch, source, d_model), and its mask, (batch, 1, 1, source), bool.
        """
        x = self.embed(source, self.source_embedding)
        mask = padding_mask(source, PAD)
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
        x = self.embed(target, self.target_embedding)
        mask = target_mask(target, PAD)
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
        """An empty cache for decoding up to ``max_length`` positions of ``beams`` hypotheses for each sentence.

        Args:
            memory: (sentences, source, d_model).
            memory_mask: bool, (sentences, 1, 1, source).
        """
        heads, d_head = self.config.n_heads, self.config.d_model // self.config.n_heads
        layers = [cast(DecoderLayer, layer) for layer in self.decoder]
        # Each head's keys and values in one piece: every step reads them all.
        projected = [
            KeyValue(*(t.contiguous() for t in layer.cross_attention.project_memory(memory))) for layer in layers
        ]
        own = torch.eye(beams, dtype=torch.bool, device=memory.device)[:, None]
        return DecoderCache(
            target=[
                KeyValueCache(len(memory), beams, heads, max_length, d_head, like=layer.key) for layer in projected
            ],
            memory=projected,
            memory_mask=memory_mask,
            past=own.repeat(len(memory), 1, max_length, 1),
        )

    def decode_step(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """``decode`` for one more token of each hypothesis, those before being in the cache: same numbers, less work.

        Args:
            tokens: the newest token ids, (sentences, beams), int64.
            cache: is advanced by one position.

        Returns:
            (sentences, beams, vocab_size): scores of the next token.
        """
        # The beams of a sentence stand where positions stand otherwise: they look into one cache and one memory.
        x = self.embed(tokens, self.target_embedding, step=cache.length)
        past = cache.past[:, None, :, : cache.length + 1].flatten(3) if tokens.size(1) > 1 else None
        for layer, key_value, memory in zip(self.decoder, cache.target, cache.memory, strict=True):
            x = layer(x, memory, past, cache.memory_mask, key_value)
        return self.logits(self.decoder_norm(x))
