"""Other implementations of what the package does, for comparison.

Plain PyTorch: ``torch.nn.Transformer``, two forms of the label-smoothed loss, and beam search without a key/value
cache. Other packages: Hugging Face's Marian and CTranslate2. All models get our weights, so that tests can check that
they compute the same loss and generate the same tokens.
"""

import tempfile
import warnings
from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.data.tokenizer import BOS, EOS, PAD, UNK
from transformer.decoding import length_limits, length_normalization
from transformer.device import Device
from transformer.errors import UserError
from transformer.huggingface import RENAMES, rename, to_marian
from transformer.model import Transformer
from transformer.training.objective import ModelWithLoss
from transformer.training.optimizer import build_optimizers
from transformer.training.trainer import Trainer


def linear_cross_entropy(x: Tensor, weight: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
    """Project to the vocabulary and compute PyTorch's label-smoothed cross-entropy, summed.

    Args:
        x: (tokens, d_model).
        weight: (vocab_size, d_model).
        labels: (tokens,), int64.
        label_smoothing: from 0 (none) to 1 (labels don't matter).
    """
    return F.cross_entropy(F.linear(x, weight), labels, label_smoothing=label_smoothing, reduction="sum")


def linear_kl_divergence(x: Tensor, weight: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
    """Compute the same loss as a KL divergence from the smoothed labels, a dense matrix (tokens, vocab_size).

    It is smaller than the cross-entropy by the entropy of the smoothed labels, a constant; the gradients are equal. The
    arguments are those of `linear_cross_entropy`.
    """
    log_probs = F.linear(x, weight).log_softmax(-1)
    smoothed = torch.full_like(log_probs, label_smoothing / len(weight))
    smoothed.scatter_(1, labels[:, None], 1 - label_smoothing + label_smoothing / len(weight))
    return F.kl_div(log_probs, smoothed, reduction="sum")


@torch.inference_mode()
def uncached_beam_search(
    model: Transformer,
    source: Tensor,
    beam_size: int = 4,
    length_penalty: float = 0.6,
    max_new_tokens: int | None = None,
) -> list[list[int]]:
    """Beam search as many tutorials write it: one sentence at a time, and without a key/value cache.

    Every step runs the decoder on all prefixes from their start and computes the logits of all positions. The arguments
    are those of `beam_search`; the result is the token ids of the best hypotheses.
    """
    translations = []
    for row, limit in zip(source, length_limits(model, source, max_new_tokens).tolist(), strict=True):
        memory, memory_mask = model.encode(row[row != PAD][None])
        prefixes, scores = row.new_tensor([[BOS]]), torch.zeros(1, device=row.device)  # best first
        finished: list[tuple[float, list[int]]] = []
        for length in range(1, limit + 1):
            states = model.decode(prefixes, memory.expand(len(prefixes), -1, -1), memory_mask)
            log_probs = model.logits(states).log_softmax(-1)[:, -1]
            log_probs[:, [PAD, BOS]] = -torch.inf
            if length == limit:
                log_probs[:, torch.arange(log_probs.size(1), device=row.device) != EOS] = -torch.inf
            scores, indices = (scores[:, None] + log_probs).flatten().topk(2 * beam_size)
            tokens = (indices % log_probs.size(1))[:, None]
            prefixes = torch.cat([prefixes[indices // log_probs.size(1)], tokens], dim=1)
            ended = (prefixes[:, -1] == EOS) & scores.isfinite()
            for i in ended[:beam_size].nonzero()[:, 0].tolist():
                score = float(scores[i]) / length_normalization(length, length_penalty)
                finished.append((score, prefixes[i, 1:-1].tolist()))
            kept = (~ended).nonzero()[:beam_size, 0]
            prefixes, scores = prefixes[kept], scores[kept]
        translations.append(max(finished)[1])
    return translations


TORCH_RENAMES = RENAMES | {
    "(encoder|decoder)_norm": r"\1.norm",
    "cross_attention": "multihead_attn",
    "query_key_value.": "in_proj_",
    "feed_forward.inner": "linear1",
    "feed_forward.outer": "linear2",
    "residuals.0.norm": "norm1",
    "residuals.1.norm": "norm2",
    "residuals.2.norm": "norm3",
}


class TorchTransformer(Transformer):
    """Our model with the encoder and decoder of ``torch.nn.Transformer`` and with the same weights.

    It has dropout where the paper has it (§5.4). By default, PyTorch's also applies it to the attention weights and to
    the feed-forward's hidden values.

    Args:
        ours: the model to copy.

    Raises:
        UserError: if the model has rotary positions, which PyTorch's layers don't have.
    """

    def __init__(self, ours: Transformer) -> None:
        super().__init__(ours.config)
        c = ours.config
        if c.positions == "rotary":
            raise UserError("torch.nn.Transformer has no rotary positions")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "enable_nested_tensor")  # pre-norm layers don't have it
            layers = nn.Transformer(
                c.d_model,
                c.n_heads,
                c.n_layers,
                c.n_layers,
                c.d_ff,
                c.dropout,
                batch_first=True,
                norm_first=c.norm == "pre",
            )
        if c.norm == "post":  # PyTorch normalises the last layer's output again; the paper doesn't
            layers.encoder.norm = layers.decoder.norm = None
        self.encoder, self.decoder = layers.encoder, layers.decoder
        self.encoder_norm = self.decoder_norm = nn.Identity()
        self.load_state_dict({rename(name, TORCH_RENAMES): weight for name, weight in ours.state_dict().items()})
        for module in layers.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = 0.0  # after the ReLU

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """As in `Transformer`, but the mask is True at padding, (batch, source)."""
        mask = source == PAD
        return self.encoder(self.embed(source, self.source_embedding), src_key_padding_mask=mask), mask

    def decode(self, target: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
        """As in `Transformer` in training: the causal mask alone also hides the padding, which is at the end."""
        output: Tensor = self.decoder(
            self.embed(target, self.target_embedding),
            memory,
            tgt_mask=target.new_ones(target.size(1), target.size(1), dtype=torch.bool).triu(1),
            memory_key_padding_mask=memory_mask,
            tgt_is_causal=True,
        )
        return output


class ModelWithCrossEntropy(ModelWithLoss):
    """A model with ``F.cross_entropy`` on the logits of all positions, padding included.

    In mixed precision, autocast computes these in 16 bits too, as in any PyTorch model. `Transformer.logits` computes
    them in float32, which takes a GPU several times as long.
    """

    def forward(self, source: Tensor, decoder_input: Tensor, labels: Tensor) -> Tensor:
        """Compute the loss summed over a batch, a scalar."""
        states = self.model.decode(decoder_input, *self.model.encode(source))
        logits = F.linear(states, self.model.unembedding.weight).flatten(0, 1)
        return F.cross_entropy(
            logits, labels.flatten(), ignore_index=PAD, label_smoothing=self.label_smoothing, reduction="sum"
        )


def use_torch_transformer(trainer: Trainer) -> None:
    """Replace a new trainer's model and loss with PyTorch's."""
    trainer.model = TorchTransformer(trainer.model).to(trainer.device.torch_device)
    trainer.translator.model = trainer.model  # nothing refers to our model any more
    trainer.averaged = deepcopy(trainer.model) if trainer.averaged is not None else None
    trainer.optimizers = build_optimizers(trainer.model, trainer.config.optimizer, trainer.device)
    trainer.model_with_loss = ModelWithCrossEntropy(trainer.model, trainer.config.label_smoothing)


class HuggingFaceMarian:
    """Hugging Face's ``MarianMTModel``, with weights in the device's precision."""

    def __init__(self, ours: Transformer, device: Device) -> None:
        """Convert a model that `to_marian` accepts."""
        self.model = to_marian(ours).to(device.autocast_dtype or torch.float32)

    def search(self, source: Tensor, max_new_tokens: int, beam_size: int = 4) -> list[list[int]]:
        """Translate padded token ids, (batch, source), by beam search; a beam size of 1 is greedy search."""
        mask = (source != PAD).long()
        options = {"num_beams": beam_size, "do_sample": False, "max_length": 1 + max_new_tokens}  # bos is the first
        rows = [row[1:] for row in self.model.generate(source, attention_mask=mask, **options).tolist()]
        return [row[: row.index(EOS)] if EOS in row else row for row in rows]


class CTranslate2:
    """CTranslate2, an inference engine in C++; its own converter reads our weights from Hugging Face's Marian."""

    def __init__(self, ours: Transformer, device: Device, threads: int) -> None:
        """Convert a model that `to_marian` accepts, and load it."""
        import ctranslate2
        from ctranslate2.converters.transformers import BartLoader

        marian = to_marian(ours).cpu()
        marian.config.normalize_before = marian.config.normalize_embedding = False
        spec = BartLoader().get_model_spec(marian)
        special = {PAD: "<pad>", BOS: "<s>", EOS: "</s>", UNK: "<unk>"}
        self.names = [special.get(token, str(token)) for token in range(ours.config.vocab_size)]
        self.ids = {name: token for token, name in enumerate(self.names)}
        spec.register_source_vocabulary(self.names)
        spec.register_target_vocabulary(self.names)
        dtype = device.autocast_dtype or torch.float32
        with tempfile.TemporaryDirectory() as folder:
            spec.validate()
            spec.save(folder)
            self.translator = ctranslate2.Translator(
                folder,
                device="cuda" if device.type == "cuda" else "cpu",
                compute_type="int8" if device.int8 else str(dtype).removeprefix("torch."),
                inter_threads=1,
                intra_threads=threads,
            )

    def search(self, source: Tensor, max_new_tokens: int, beam_size: int = 4) -> list[list[int]]:
        """Translate padded token ids, (batch, source), by beam search; a beam size of 1 is greedy search."""
        sentences = [[self.names[token] for token in row if token != PAD] for row in source.tolist()]
        limits = {"max_decoding_length": max_new_tokens, "min_decoding_length": 0}
        results = self.translator.translate_batch(sentences, beam_size=beam_size, **limits)
        return [[self.ids[name] for name in result.hypotheses[0]] for result in results]
