"""The full model: embeddings, encoder, decoder and output layer (§3)."""

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from transformer.attention import KeyValue, KeyValueCache
from transformer.config import ModelConfig
from transformer.data.tokenizer import PAD
from transformer.device import activation_dtype, linear_in_float32, without_autocast
from transformer.layers import DecoderLayer, EncoderLayer
from transformer.masks import padding_mask, target_mask
from transformer.positions import rotary_table, sinusoidal_encoding


@dataclass
class DecoderCache:
    """The KV cache of the decoder: keys and values that decoding steps reuse, and the masks for them."""

    self_attention: list[KeyValueCache]
    """For each layer, the keys and values of the target tokens so far, for self-attention."""
    cross_attention: list[KeyValue]
    """For each layer, the keys and values of the encoder's output, for cross-attention."""
    memory_mask: Tensor
    """The source's padding mask, bool, (sentences, 1, 1, source)."""
    prefix_mask: Tensor
    """Which entries of the target's cache belong to each beam's prefix: bool, (sentences, beams, steps, beams).

    ``prefix_mask[s, b, t, c]`` is True if beam b attends to the entry that beam c wrote at step t. Reordering the beams
    changes this mask instead of copying keys and values."""

    @property
    def length(self) -> int:
        """Number of target positions decoded so far."""
        return self.self_attention[0].length

    def reorder(self, parents: Tensor) -> None:
        """Let each beam continue the prefix of its parent: ``parents`` are beam indices, (sentences, beams), int64."""
        steps = self.prefix_mask[:, :, : self.length]
        self.prefix_mask[:, :, : self.length] = steps.gather(1, parents[:, :, None, None].expand_as(steps))

    def select(self, sentences: Tensor) -> None:
        """Keep only the sentences with these indices, (kept,), int64, in this order."""
        for cache in self.self_attention:
            cache.select(sentences)
        self.cross_attention = [KeyValue(m.key[sentences], m.value[sentences]) for m in self.cross_attention]
        self.memory_mask, self.prefix_mask = self.memory_mask[sentences], self.prefix_mask[sentences]


class Transformer(nn.Module):
    """The paper's encoder–decoder: source and target token ids in, logits of every next token out."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.target_embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.unembedding = nn.Linear(config.d_model, config.vocab_size, bias=False)
        d_head = config.d_model // config.n_heads
        rotation = rotary_table(config.max_length, d_head) if config.positions == "rotary" else None
        self.encoder = nn.ModuleList(EncoderLayer(config, rotation) for _ in range(config.n_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config, rotation) for _ in range(config.n_layers))
        # With norm="pre" the output of the last layer is not normalised yet.
        final_norm = nn.LayerNorm if config.norm == "pre" else nn.Identity
        self.encoder_norm, self.decoder_norm = final_norm(config.d_model), final_norm(config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.positions: Tensor | None
        if config.positions == "learned":
            self.positions = nn.Parameter(torch.empty(config.max_length, config.d_model))
        else:
            table = sinusoidal_encoding(config.max_length, config.d_model) if rotation is None else None
            self.register_buffer("positions", table, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the linear layers and embeddings, and tie the embeddings as configured.

        Linear layers get the configured initialisation and zero biases. Xavier treats the stacked matrix of queries,
        keys and values as one, as ``torch.nn.MultiheadAttention`` does. Embeddings get standard deviation 1 / √d_model,
        so that it is 1 after `embed` has multiplied them by √d_model.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear):
                if self.config.initialization == "xavier":
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

    def embed(self, ids: Tensor, embedding: nn.Embedding, position: int | None = None) -> Tensor:
        """Embed tokens: their vectors times √d_model, plus the positional encoding, with dropout (§3.4, §3.5, §5.4).

        Args:
            ids: token ids, (batch, length), int64 or int32.
            position: in decoding with a cache, the position that all of ``ids`` share: they are the newest tokens of
                all beams, (sentences, beams). None: column t of ``ids`` is position t.

        Returns:
            (batch, length, d_model); 16-bit in mixed precision, like the output of every layer.

        Raises:
            ValueError: if ids have the wrong shape or dtype, are longer than ``max_length``, or, on a CPU,
                outside the vocabulary.
        """
        self._check_ids(ids)
        first, end = (0, ids.size(1)) if position is None else (position, position + 1)
        if end > self.config.max_length:
            raise ValueError(f"the model reads at most {self.config.max_length} tokens; got {end}")
        vectors = embedding(ids) * math.sqrt(self.config.d_model)
        if self.positions is not None:
            vectors = vectors + self.positions[first:end]
        return self.dropout(vectors.to(activation_dtype(vectors)))

    def _check_ids(self, ids: Tensor) -> None:
        """Check the shape, dtype and range of token ids.

        The range is checked on a CPU only, because on a GPU the check would force a host–device synchronisation.

        Raises:
            ValueError: if any of them is wrong.
        """
        if ids.dim() != 2 or ids.dtype not in (torch.int64, torch.int32):
            raise ValueError(f"ids must be int64 or int32, (batch, length); got {ids.dtype}, {tuple(ids.shape)}")
        if ids.is_cpu and ids.numel() and not torch.compiler.is_compiling():
            low, high = int(ids.min()), int(ids.max())
            if low < 0 or high >= self.config.vocab_size:
                raise ValueError(
                    f"ids must be from 0 to vocab_size - 1 = {self.config.vocab_size - 1}; got {low} to {high}"
                )

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Run the encoder.

        Args:
            source: token ids, (batch, source), int64; padding at the end.

        Returns:
            The encoder's output, called memory, (batch, source, d_model), and its padding mask, bool,
            (batch, 1, 1, source).

        Raises:
            ValueError: if the source ids are invalid: see `embed`.
        """
        x = self.embed(source, self.source_embedding)
        mask = padding_mask(source, PAD)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x).to(x.dtype), mask  # on a GPU, autocast computes a norm in float32

    def decode(self, target: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
        """Run the decoder, without its output layer.

        Args:
            target: token ids, (batch, target), int64, starting with bos; padding at the end.
            memory: the encoder's output, (batch, source, d_model).
            memory_mask: bool, (batch, 1, 1, source).

        Returns:
            (batch, target, d_model): at each position the representation from which the next token is predicted.

        Raises:
            ValueError: if the target ids are invalid (see `embed`), or if a real token follows padding in training
                (checked on a CPU only).
        """
        if self.training:
            _check_padding(target)
        x = self.embed(target, self.target_embedding)
        # In training, None selects the plain causal mask, which is faster and sufficient: all
        # padding is at the end, so it already hides padding from every real token, and the loss
        # ignores the outputs at padding, the only ones that differ.
        mask = None if self.training else target_mask(target, PAD)
        for layer in self.decoder:
            x = layer(x, memory, mask, memory_mask)
        return self.decoder_norm(x).to(x.dtype)  # as in `encode`

    def logits(self, x: Tensor) -> Tensor:
        """Apply the output layer: (..., d_model) → logits of the next token, (..., vocab_size), float32.

        They are float32 even in mixed precision: with bfloat16's 8 significant bits, different logits would be
        rounded to the same number, and decoding couldn't rank them. Training doesn't call this: `transformer.loss`
        computes the logits chunk by chunk.
        """
        with without_autocast(x.device):
            return linear_in_float32(x, self.unembedding.weight)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Predict every next token of the target, all positions at once (teacher forcing).

        Args:
            source: token ids, (batch, source), int64; padding at the end.
            target: token ids, (batch, target), int64: bos and the reference translation, without its eos.

        Returns:
            Logits, (batch, target, vocab_size): ``[b, t]`` predicts the token after ``target[b, : t + 1]``.

        Raises:
            ValueError: if source and target have different batch sizes, or hold invalid ids: see `embed`.
        """
        if source.size(0) != target.size(0):
            raise ValueError(f"source and target must have the same batch size; got {len(source)} and {len(target)}")
        memory, memory_mask = self.encode(source)
        return self.logits(self.decode(target, memory, memory_mask))

    def start_cache(self, memory: Tensor, memory_mask: Tensor, max_length: int, beams: int = 1) -> DecoderCache:
        """Create the cache for decoding up to ``max_length`` positions of ``beams`` hypotheses for each sentence.

        Args:
            memory: the encoder's output, (sentences, source, d_model).
            memory_mask: bool, (sentences, 1, 1, source).
            max_length: the number of positions to make room for.
            beams: the number of hypotheses for each sentence.
        """
        heads, d_head = self.config.n_heads, self.config.d_model // self.config.n_heads
        layers = [cast(DecoderLayer, layer) for layer in self.decoder]
        # Contiguous for each head, because every step reads all of them.
        projected = [
            KeyValue(*(t.contiguous() for t in layer.cross_attention.project_memory(memory))) for layer in layers
        ]
        own_entries = torch.eye(beams, dtype=torch.bool, device=memory.device)[:, None]
        return DecoderCache(
            self_attention=[
                KeyValueCache(len(memory), beams, heads, max_length, d_head, like=key_value.key)
                for key_value in projected
            ],
            cross_attention=projected,
            memory_mask=memory_mask,
            prefix_mask=own_entries.repeat(len(memory), 1, max_length, 1),
        )

    def decode_step(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """Run the decoder on one new token of each hypothesis, and return the logits for the next one.

        The keys and values of all earlier tokens are read from the cache, and those of the new tokens are appended.

        Args:
            tokens: the new token ids, (sentences, beams), int64; bos in the first step.
            cache: the result of `start_cache`, with the tokens of all earlier steps.

        Returns:
            (sentences, beams, vocab_size), float32: the same as the `logits` at the last position after `decode` on
            the whole target so far.
        """
        # x has beams where `decode` has positions, so that all beams of a sentence share one cache and one memory.
        x = self.embed(tokens, self.target_embedding, position=cache.length)
        # A single beam attends to all entries, because they are all its own.
        mask = cache.prefix_mask[:, None, :, : cache.length + 1].flatten(3) if tokens.size(1) > 1 else None
        for layer, self_cache, memory in zip(self.decoder, cache.self_attention, cache.cross_attention, strict=True):
            x = layer(x, memory, mask, cache.memory_mask, self_cache)
        return self.logits(self.decoder_norm(x).to(x.dtype))  # as in `encode`


def _check_padding(target: Tensor) -> None:
    """Check, on a CPU only, that no token follows padding: in training, the mask wouldn't hide the padding from it."""
    if target.is_cpu and not torch.compiler.is_compiling():
        is_padding = target == PAD
        if (is_padding[:, :-1] & ~is_padding[:, 1:]).any():
            raise ValueError("in training, all padding of a target must be at its end")
