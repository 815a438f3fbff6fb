"""Rivals that must be installed, with our weights in them: Hugging Face's Marian and CTranslate2.

Both are given weights, not only sizes, so that the tests can ask them for the same tokens as ours.
"""

import tempfile
from typing import Any, cast

import torch
from torch import Tensor, nn

from transformer.attention import MultiHeadAttention
from transformer.data.tokenizer import BOS, EOS, PAD, UNK
from transformer.device import Device
from transformer.layers import DecoderLayer, EncoderLayer
from transformer.model import Transformer
from transformer.positions import sinusoidal_encoding


class Marian:
    """``MarianMTModel`` of the transformers library."""

    def __init__(self, like: Transformer) -> None:
        """Take over a model's shape and weights; ``norm="post"``, sinusoidal positions, tied embeddings."""
        from transformers import MarianConfig, MarianMTModel

        config = like.config
        self.model: Any = MarianMTModel(
            MarianConfig(
                vocab_size=config.vocab_size,
                d_model=config.d_model,
                encoder_layers=config.n_layers,
                decoder_layers=config.n_layers,
                encoder_attention_heads=config.n_heads,
                decoder_attention_heads=config.n_heads,
                encoder_ffn_dim=config.d_ff,
                decoder_ffn_dim=config.d_ff,
                activation_function="relu",
                scale_embedding=True,
                max_position_embeddings=config.max_length,
                pad_token_id=PAD,
                bos_token_id=BOS,
                eos_token_id=EOS,
                decoder_start_token_id=BOS,
                forced_eos_token_id=None,
            )
        ).eval()
        state: dict[str, Tensor] = {"model.shared.weight": like.source_embedding.weight}
        for side, layers in (("encoder", like.encoder), ("decoder", like.decoder)):
            state[f"model.{side}.embed_positions.weight"] = sinusoidal_encoding(config.max_length, config.d_model)
            for number, layer in enumerate(layers):
                for name, tensor in _marian_layer(cast(EncoderLayer | DecoderLayer, layer)).items():
                    state[f"model.{side}.layers.{number}.{name}"] = tensor
        _, unexpected = self.model.load_state_dict(state, strict=False)
        assert not unexpected
        self.model.to(like.source_embedding.weight.device)

    def search(self, source: Tensor, tokens: int, beam: int = 4) -> list[list[int]]:
        """At most ``tokens`` tokens for each row of padded source ids; one beam is greedy search."""
        found: Tensor = self.model.generate(
            source,
            attention_mask=(source != PAD).long(),
            num_beams=beam,
            do_sample=False,
            max_new_tokens=tokens,
        )
        return [_until_eos(row[1:]) for row in found.tolist()]


def _marian_layer(layer: EncoderLayer | DecoderLayer) -> dict[str, Tensor]:
    parts: dict[str, nn.Module] = {"fc1": layer.feed_forward.inner, "fc2": layer.feed_forward.outer}
    attentions = {"self_attn": layer.self_attention}
    if isinstance(layer, DecoderLayer):
        attentions["encoder_attn"] = layer.cross_attention
    norms = [*(f"{name}_layer_norm" for name in attentions), "final_layer_norm"]
    for name, residual in zip(norms, layer.residuals, strict=True):
        parts[name] = cast(nn.Module, residual.norm)
    for name, attention in attentions.items():
        parts[f"{name}.out_proj"] = attention.output
    state = {f"{name}.{key}": tensor for name, part in parts.items() for key, tensor in part.state_dict().items()}
    for name, attention in attentions.items():
        for key, tensor in attention.query_key_value.state_dict().items():
            for projection, piece in zip("qkv", tensor.chunk(3), strict=True):
                state[f"{name}.{projection}_proj.{key}"] = piece
    return state


class CTranslate2:
    """CTranslate2, a C++ engine for the Transformer."""

    def __init__(self, like: Transformer, device: Device, threads: int) -> None:
        """Convert a model and load it; ``norm="post"``, sinusoidal positions, tied embeddings."""
        import ctranslate2

        config = like.config
        spec = ctranslate2.specs.TransformerSpec.from_config(config.n_layers, config.n_heads, pre_norm=False)
        weights = {name: tensor.detach().float().cpu() for name, tensor in like.state_dict().items()}
        embedding = weights["source_embedding.weight"].numpy()
        positions = sinusoidal_encoding(config.max_length, config.d_model).numpy()
        (spec.encoder.embeddings[0].weight, spec.decoder.embeddings.weight) = (embedding, embedding)
        spec.decoder.projection.weight = embedding
        for side, layers in ((spec.encoder, like.encoder), (spec.decoder, like.decoder)):
            side.scale_embeddings = True  # times √d_model
            side.position_encodings.encodings = positions
            for theirs, ours in zip(side.layer, layers, strict=True):
                _fill_layer(theirs, cast(EncoderLayer | DecoderLayer, ours))

        self.names = [str(token) for token in range(config.vocab_size)]
        for token, name in ((PAD, "<pad>"), (BOS, "<s>"), (EOS, "</s>"), (UNK, "<unk>")):
            self.names[token] = name
        self.ids = {name: token for token, name in enumerate(self.names)}
        spec.register_source_vocabulary(self.names)
        spec.register_target_vocabulary(self.names)
        spec.config.layer_norm_epsilon = nn.LayerNorm(1).eps
        with tempfile.TemporaryDirectory() as folder:
            spec.validate()
            spec.save(folder)
            self.translator = ctranslate2.Translator(
                folder,
                device="cuda" if device.device.type == "cuda" else "cpu",
                compute_type=str(device.autocast_dtype or torch.float32).removeprefix("torch."),
                inter_threads=1,
                intra_threads=threads,
            )

    def named(self, source: Tensor) -> list[list[str]]:
        """Rows of padded ids as the strings that CTranslate2 reads."""
        return [[self.names[token] for token in row if token != PAD] for row in source.tolist()]

    def search(self, source: list[list[str]], tokens: int, beam: int = 4) -> list[list[int]]:
        """At most ``tokens`` tokens for each sentence, all in one batch; one beam is greedy search."""
        results = self.translator.translate_batch(
            source, beam_size=beam, max_decoding_length=tokens, min_decoding_length=0
        )
        return [[self.ids[name] for name in result.hypotheses[0]] for result in results]


def _fill_layer(spec: Any, layer: EncoderLayer | DecoderLayer) -> None:
    sublayers = [spec.self_attention, spec.ffn]
    _fill_linear(spec.self_attention.linear[0], layer.self_attention.query_key_value)
    _fill_linear(spec.self_attention.linear[1], layer.self_attention.output)
    if isinstance(layer, DecoderLayer):
        sublayers.insert(1, spec.attention)
        _fill_cross_attention(spec.attention, layer.cross_attention)
    _fill_linear(spec.ffn.linear_0, layer.feed_forward.inner)
    _fill_linear(spec.ffn.linear_1, layer.feed_forward.outer)
    for sublayer, residual in zip(sublayers, layer.residuals, strict=True):
        norm = cast(nn.LayerNorm, residual.norm)
        sublayer.layer_norm.gamma, sublayer.layer_norm.beta = _array(norm.weight), _array(norm.bias)


def _fill_cross_attention(spec: Any, attention: MultiHeadAttention) -> None:
    """Queries have a linear layer of their own there, keys and values share one."""
    d, joined = attention.d_model, attention.query_key_value
    for linear, rows in ((spec.linear[0], slice(0, d)), (spec.linear[1], slice(d, None))):
        linear.weight, linear.bias = _array(joined.weight[rows]), _array(joined.bias[rows])
    _fill_linear(spec.linear[2], attention.output)


def _fill_linear(spec: Any, linear: nn.Linear) -> None:
    spec.weight, spec.bias = _array(linear.weight), _array(linear.bias)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().cpu().numpy()


def _until_eos(tokens: list[int]) -> list[int]:
    return tokens[: tokens.index(EOS)] if EOS in tokens else tokens
