"""Rivals in plain PyTorch, as tutorials and tidy users write them: no cache, no batch, all logits at once.

Each does the same as the package's own, token for token and to the last digits of a loss; the tests hold them to it.
"""

import math
import warnings
from collections.abc import Iterable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer import decoding
from transformer.attention import MultiHeadAttention
from transformer.data.batching import Batch
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.layers import DecoderLayer, EncoderLayer
from transformer.model import Transformer
from transformer.positions import sinusoidal_encoding


@torch.inference_mode()
def uncached_greedy(model: Transformer, source: Tensor, tidy: bool = True) -> list[list[int]]:
    """Greedy search of one sentence at a time; each step sends the whole target so far through the decoder.

    Args:
        model: in eval mode.
        source: token ids, (batch, source), int64; padding at the end.
        tidy: project only the newest position to the vocabulary. False: all of them, of which one is used.

    Returns:
        For each sentence its token ids, without bos and eos.
    """
    found = []
    for row, limit in zip(source, decoding.length_limits(model, source).tolist(), strict=True):
        memory, memory_mask = model.encode(row[row != PAD][None])
        target = [BOS]
        while len(target) < limit:
            states = model.decode(row.new_tensor([target]), memory, memory_mask)
            scores = model.logits(states[0, -1:] if tidy else states[0])[-1]
            scores[[PAD, BOS]] = -torch.inf
            token = int(scores.argmax())
            if token == EOS:
                break
            target.append(token)
        found.append(target[1:])
    return found


@torch.inference_mode()
def uncached_beam(
    model: Transformer, source: Tensor, beam: int = 4, alpha: float = 0.6, tidy: bool = True
) -> list[list[int]]:
    """Beam search of one sentence at a time; each step sends all its hypotheses through the decoder from their start.

    Args:
        model: in eval mode.
        source: token ids, (batch, source), int64; padding at the end.
        beam: hypotheses kept.
        alpha: strength of the length penalty.
        tidy: project only the newest position to the vocabulary. False: all of them, of which one is used.

    Returns:
        For each sentence the token ids of its best hypothesis, without bos and eos.
    """
    found = []
    for row, limit in zip(source, decoding.length_limits(model, source).tolist(), strict=True):
        memory, memory_mask = model.encode(row[row != PAD][None])
        living = [(0.0, [BOS])]
        finished: list[tuple[float, list[int]]] = []
        for length in range(1, limit + 1):
            target = row.new_tensor([tokens for _, tokens in living])
            states = model.decode(target, memory.expand(len(living), -1, -1), memory_mask)
            log_probs = model.logits(states[:, -1:] if tidy else states).float().log_softmax(-1)[:, -1]
            log_probs[:, [PAD, BOS]] = -torch.inf
            if length == limit:
                log_probs[:, [token for token in range(log_probs.size(-1)) if token != EOS]] = -torch.inf
            values, tokens = log_probs.topk(min(2 * beam, log_probs.size(-1)))
            candidates = [
                (score + value, [*prefix, token])
                for (score, prefix), *best in zip(living, values.tolist(), tokens.tolist(), strict=True)
                for value, token in zip(*best, strict=True)
                if value > -math.inf
            ]
            candidates = sorted(candidates, reverse=True)[: 2 * beam]
            for score, prefix in candidates[:beam]:
                if prefix[-1] == EOS:
                    finished.append((score / decoding.length_normalisation(length, alpha), prefix[1:-1]))
            living = [candidate for candidate in candidates if candidate[1][-1] != EOS][:beam]
            if (
                not living
                or finished
                and living[0][0] / decoding.length_normalisation(limit, alpha) <= max(finished)[0]
            ):
                break  # none that lives can still become the best
        found.append(max(finished)[1])
    return found


class TorchTransformer(nn.Module):
    """``torch.nn.Transformer`` with tied embeddings, its loss taken on the logits of all positions."""

    def __init__(self, like: Transformer, everywhere: bool = True) -> None:
        """Take over a model's shape and weights.

        Args:
            like: of any shape, with sinusoidal positions and one matrix for all embeddings.
            everywhere: PyTorch's way, which drops attention weights and the feed-forward's inner values too. False:
                only what the paper drops (§5.4).
        """
        super().__init__()
        self.config = config = like.config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "enable_nested_tensor")  # pre-norm has no such shortcut
            self.transformer = nn.Transformer(
                config.d_model,
                config.n_heads,
                config.n_layers,
                config.n_layers,
                config.d_ff,
                config.dropout,
                batch_first=True,
                norm_first=config.norm == "pre",
            )
        if config.norm == "pre":
            self.transformer.encoder.norm.load_state_dict(like.encoder_norm.state_dict())
            self.transformer.decoder.norm.load_state_dict(like.decoder_norm.state_dict())
        else:  # PyTorch normalises the last layer's output once more, which the paper does not
            self.transformer.encoder.norm = self.transformer.decoder.norm = None
        self.dropout = nn.Dropout(config.dropout)
        self.positions: Tensor
        self.register_buffer("positions", sinusoidal_encoding(config.max_length, config.d_model), persistent=False)

        pairs = zip(like.encoder, self.transformer.encoder.layers, strict=True)
        for ours, theirs in cast(Iterable[tuple[EncoderLayer, Any]], pairs):
            _copy_attention(ours.self_attention, theirs.self_attn)
            _copy_rest(ours, theirs)
        pairs = zip(like.decoder, self.transformer.decoder.layers, strict=True)
        for ours_, theirs in cast(Iterable[tuple[DecoderLayer, Any]], pairs):
            _copy_attention(ours_.self_attention, theirs.self_attn)
            _copy_attention(ours_.cross_attention, theirs.multihead_attn)
            _copy_rest(ours_, theirs)
        self.embedding.load_state_dict(like.source_embedding.state_dict())
        if not everywhere:
            for module in self.modules():
                if isinstance(module, nn.MultiheadAttention):
                    module.dropout = 0.0
                elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                    module.dropout.p = 0.0  # the feed-forward's inner one

    def embed(self, ids: Tensor) -> Tensor:
        """(batch, length) → (batch, length, d_model)."""
        vectors = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(vectors + self.positions[: ids.size(1)])

    def loss(self, batch: Batch, smoothing: float) -> Tensor:
        """The smoothed loss summed over the target's real tokens."""
        length = batch.decoder_input.size(1)
        source_padding, target_padding = batch.source == PAD, batch.decoder_input == PAD
        states = self.transformer(
            self.embed(batch.source),
            self.embed(batch.decoder_input),
            tgt_mask=torch.ones(length, length, dtype=torch.bool, device=batch.source.device).triu(1),
            src_key_padding_mask=source_padding,
            tgt_key_padding_mask=target_padding,
            memory_key_padding_mask=source_padding,
            tgt_is_causal=True,
        )
        logits = F.linear(states, self.embedding.weight)
        return F.cross_entropy(
            logits.flatten(0, 1),
            batch.labels.flatten(),
            ignore_index=PAD,
            label_smoothing=smoothing,
            reduction="sum",
        )


def _copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    inner = ours.query_key_value.state_dict()
    state = {"in_proj_weight": inner["weight"], "in_proj_bias": inner["bias"]}
    theirs.load_state_dict(state | {f"out_proj.{name}": t for name, t in ours.output.state_dict().items()})


def _copy_rest(ours: EncoderLayer | DecoderLayer, theirs: Any) -> None:
    theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
    for number, residual in enumerate(ours.residuals, 1):
        getattr(theirs, f"norm{number}").load_state_dict(cast(nn.Module, residual.norm).state_dict())


def linear_cross_entropy(x: Tensor, weight: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """Projection to the vocabulary and PyTorch's smoothed cross-entropy, summed.

    Args:
        x: (tokens, d_model).
        weight: (vocab_size, d_model).
        target: (tokens,), int64.
        smoothing: ε.
    """
    return F.cross_entropy(F.linear(x, weight), target, label_smoothing=smoothing, reduction="sum")


def linear_dense_kl(x: Tensor, weight: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """The same as a divergence from a target distribution that is written out, vocabulary times tokens large.

    It is smaller than the cross-entropy by the entropy of that distribution, a constant; the gradients are the same.
    """
    log_probs = F.linear(x, weight).log_softmax(-1)
    wanted = torch.full_like(log_probs, smoothing / len(weight))
    wanted.scatter_(1, target[:, None], 1 - smoothing + smoothing / len(weight))
    return F.kl_div(log_probs, wanted, reduction="sum")
