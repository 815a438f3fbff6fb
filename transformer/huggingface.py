"""Load a translation model from the Hugging Face Hub into our own classes, or convert one of ours to Hugging Face's.

Hugging Face's class is ``MarianMTModel``, the architecture of the opus-mt models. Marian (Junczys-Dowmunt et al. 2018,
arXiv 1804.00344) is the paper's model with four differences: SiLU instead of ReLU, all sines of a position before all
cosines, a bias for the logits, and other ids for the special tokens.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from torch import Tensor

from transformer.config import ModelConfig
from transformer.data.tokenizer import BOS, EOS, PAD, UNK
from transformer.errors import UserError, quote, shorten
from transformer.files import convert, parse_json, read_bytes, read_text
from transformer.layers import FeedForward
from transformer.model import Transformer
from transformer.positions import angles
from transformer.quantization import check_not_quantized

RENAMES = {
    r"^(encoder|decoder)\.(\d+)": r"\1.layers.\2",
    "self_attention": "self_attn",
    r"output\.": "out_proj.",
}
"""Patterns in the names of our weights → their replacements, which PyTorch and Hugging Face have in common."""
MARIAN_RENAMES = RENAMES | {
    "(source|target)_embedding": "shared",
    "cross_attention": "encoder_attn",
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "residuals.0.norm": "self_attn_layer_norm",
    "(encoder.*)residuals.1.norm": r"\1final_layer_norm",
    "residuals.1.norm": "encoder_attn_layer_norm",
    "residuals.2.norm": "final_layer_norm",
    "^(?!unembedding)": "model.",
    "unembedding": "lm_head",
}
"""The same for `MarianMTModel`, which has separate matrices for queries, keys and values."""
INTEGER_FIELDS = (
    "vocab_size",
    "d_model",
    "encoder_attention_heads",
    "encoder_ffn_dim",
    "encoder_layers",
    "max_position_embeddings",
    "pad_token_id",
    "eos_token_id",
    "decoder_start_token_id",
)
"""The fields of a configuration that are used; some others are checked, because `MarianTransformer` assumes them."""


def rename(name: str, patterns: Mapping[str, str]) -> str:
    """Return the name that one of our weights has in another library; the patterns are replaced one after another."""
    for pattern, replacement in patterns.items():
        name = re.sub(pattern, replacement, name)
    return name


class SiluFeedForward(FeedForward):
    """The position-wise feed-forward network with SiLU, x · sigmoid(x), instead of ReLU."""

    def forward(self, x: Tensor) -> Tensor:
        """Transform each position of x, (batch, length, d_model); return the same shape."""
        return self.outer(self.dropout(F.silu(self.inner(x))))


class MarianTransformer(Transformer):
    """Our model with Marian's differences, for translation only: the training loss has no bias for the logits.

    It uses our token ids: Marian's vocabulary is reordered, and bos is added. Marian has no bos, because its decoder
    starts with pad; our bos has the embedding of that pad.

    Args:
        marian_ids: for each of our ids, that of the same token in Marian's vocabulary, (vocab_size,), int64.
    """

    marian_ids: Tensor
    logits_bias: Tensor

    def __init__(self, config: ModelConfig, marian_ids: Tensor) -> None:
        super().__init__(config)
        for layer in [*self.encoder, *self.decoder]:
            layer.feed_forward = SiluFeedForward(config.d_model, config.d_ff)
        angle = angles(config.max_length, config.d_model)
        self.register_buffer("positions", torch.cat([angle.sin(), angle.cos()], dim=1).float(), persistent=False)
        self.register_buffer("marian_ids", marian_ids)
        self.register_buffer("logits_bias", torch.zeros(config.vocab_size))

    def logits(self, x: Tensor) -> Tensor:
        """As in `Transformer`, plus the bias."""
        return super().logits(x) + self.logits_bias

    def from_marian_ids(self, ids: Tensor) -> Tensor:
        """Convert ids of Marian's tokenizer to ours, int64, any shape."""
        ours = torch.empty_like(self.marian_ids[1:])
        order = torch.arange(len(self.marian_ids), device=ours.device)
        known = order != BOS  # all but bos, which Marian doesn't have
        ours[self.marian_ids[known]] = order[known]
        return ours[ids]


def load_marian(folder: Path | str) -> MarianTransformer:
    """Load a Marian model, such as Helsinki-NLP/opus-mt-en-de, from a local copy of its files.

    Args:
        folder: contains ``config.json`` and ``model.safetensors`` or ``pytorch_model.bin``.

    Returns:
        The model in eval mode. Its logits are those of ``transformers.MarianMTModel``, for the same tokens.

    Raises:
        UserError: if a file is missing, or this is not a Marian model with shared embeddings like opus-mt's.
    """
    folder = Path(folder)
    marian_config = _read_config(folder / "config.json")
    weights = _read_weights(folder)
    pad, eos, unk = marian_config["pad_token_id"], marian_config["eos_token_id"], 1  # <unk>, which config.json lacks
    special = {PAD: pad, BOS: marian_config["decoder_start_token_id"], EOS: eos, UNK: unk}
    config = ModelConfig(
        vocab_size=marian_config["vocab_size"] + 1,  # plus our bos; Marian begins with pad instead
        d_model=marian_config["d_model"],
        n_heads=marian_config["encoder_attention_heads"],
        d_ff=marian_config["encoder_ffn_dim"],
        n_layers=marian_config["encoder_layers"],
        dropout=0.0,
        max_length=marian_config["max_position_embeddings"],
    )
    mismatch = f"the weights in {folder} are not those of the model in its config.json"
    if sum(weight.numel() for weight in weights.values()) < config.n_parameters / 2:  # before memory is allocated
        raise UserError(mismatch)
    ordinary = [i for i in range(marian_config["vocab_size"]) if i not in (pad, eos, unk)]
    marian_ids = torch.tensor([special[i] for i in range(len(special))] + ordinary)
    try:
        return _with_weights(config, marian_ids, weights)
    except (KeyError, IndexError, RuntimeError) as error:
        raise UserError(f"{mismatch}: {shorten(' '.join(str(error).split()))}") from error


def to_marian(model: Transformer) -> Any:
    """Convert a model to Hugging Face's ``MarianMTModel``, for example to share it, or to use it with their library.

    Args:
        model: one with post-norm layers, sinusoidal positions and shared embeddings, as in the paper and in Marian.

    Returns:
        The same model in eval mode, on the same device. For the same ids it computes the same logits.

    Raises:
        ImportError: if ``transformers`` is not installed.
        UserError: if the model differs from that, is a `MarianTransformer`, or has int8 weights.
    """
    from transformers import MarianConfig, MarianMTModel

    if isinstance(model, MarianTransformer):
        raise UserError("this model was loaded from a Marian model; use that one instead")
    check_not_quantized(model)
    config = model.config
    for name, value in {"norm": "post", "positions": "sinusoidal", "tie_embeddings": "all"}.items():
        if getattr(config, name) != value:
            raise UserError(f"a Marian model has {name} {value!r}; this one has {getattr(config, name)!r}")
    marian: Any = MarianMTModel(
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
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            activation_dropout=config.activation_dropout,
            max_position_embeddings=config.max_length,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
        )
    )
    # Their positions have all sines before all cosines, so all vectors of width d_model get this order.
    order = torch.cat([torch.arange(0, config.d_model, 2), torch.arange(1, config.d_model, 2)])
    weights: dict[str, Tensor] = {}
    for name, weight in model.state_dict().items():
        their_name = rename(name, MARIAN_RENAMES)
        if re.search("embedding|inner.weight|query_key_value.weight", name):  # reads such vectors
            weight = weight[:, order]
        elif re.search("norm|outer|output", name):  # writes them
            weight = weight[order]
        if "query_key_value" in name:
            for letter, part in zip("qkv", weight.chunk(3), strict=True):
                weights[their_name.replace("query_key_value", f"{letter}_proj")] = part
        else:
            weights[their_name] = weight
    _, unexpected = marian.load_state_dict(weights, strict=False)
    assert not unexpected
    marian.generation_config.max_length = config.max_length
    return marian.to(model.source_embedding.weight.device).eval()


def _with_weights(config: ModelConfig, marian_ids: Tensor, weights: dict[str, Tensor]) -> MarianTransformer:
    """Return a model with these weights, which have Hugging Face's names."""
    model = MarianTransformer(config, marian_ids)
    weights["lm_head.weight"] = weights["model.shared.weight"]
    ours = {"marian_ids": marian_ids, "logits_bias": weights["final_logits_bias"][0, marian_ids]}
    for name in model.state_dict().keys() - ours.keys():
        their_name = rename(name, MARIAN_RENAMES)
        if "query_key_value" in name:
            parts = [weights[their_name.replace("query_key_value", f"{letter}_proj")] for letter in "qkv"]
            ours[name] = torch.cat(parts)
        else:
            ours[name] = weights[their_name]
        if "embedding" in name:
            ours[name] = ours[name][marian_ids]
    model.load_state_dict(ours)
    return model.eval()


def _read_config(path: Path) -> dict[str, Any]:
    """Read a configuration, and check that it is one that `MarianTransformer` implements.

    Raises:
        UserError: if it isn't, or can't be read.
    """
    config: dict[str, Any]
    config = convert(parse_json(read_text(path, "the model's configuration"), str(path)), dict[str, Any], str(path))
    required = {
        "model_type": "marian",
        "activation_function": "swish",
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "decoder_layers": config.get("encoder_layers"),
        "decoder_attention_heads": config.get("encoder_attention_heads"),
        "decoder_ffn_dim": config.get("encoder_ffn_dim"),
    }
    for name, value in required.items():
        default = True if "embeddings" in name else None  # many files lack these two
        if config.get(name, default) != value:
            raise UserError(f"this model can't be loaded: its {name} is {quote(config.get(name))}, not {quote(value)}")
    for name in INTEGER_FIELDS:
        convert(config.get(name), int, f"{path}: {name}")
    return config


def _read_weights(folder: Path) -> dict[str, Tensor]:
    """Read a model's weights, under Hugging Face's names.

    Raises:
        UserError: if the folder has none, or they are damaged.
    """
    if (folder / "model.safetensors").exists():
        path = folder / "model.safetensors"
        try:
            return safetensors.torch.load(read_bytes(path))
        except SafetensorError as error:
            raise UserError(f"cannot use the weights {path}: {error}") from error
    if (folder / "pytorch_model.bin").exists():
        path = folder / "pytorch_model.bin"
        try:
            weights = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # for damaged files, the unpickler raises errors of many types
            reason = shorten(" ".join(str(error).split())) or type(error).__name__
            raise UserError(f"cannot use the weights {path}: {reason}") from error
        if not isinstance(weights, dict) or not all(isinstance(weight, Tensor) for weight in weights.values()):
            raise UserError(f"cannot use the weights {path}: it doesn't hold a dictionary of tensors")
        return weights
    raise UserError(f"there are no weights in {folder}: neither model.safetensors nor pytorch_model.bin")
