"""A Marian model in our classes computes what `transformers` computes with the same files, and the other way round."""

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from transformer.config import ModelConfig
from transformer.data.tokenizer import BOS, EOS, PAD, UNK
from transformer.decoding import greedy_search
from transformer.errors import UserError
from transformer.huggingface import MARIAN_RENAMES, MarianTransformer, load_marian, rename, to_marian
from transformer.model import Transformer

VOCAB_SIZE = 61
CONFIG: dict[str, Any] = {
    "model_type": "marian",
    "vocab_size": VOCAB_SIZE,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "activation_function": "swish",
    "scale_embedding": True,
    "max_position_embeddings": 40,
    "pad_token_id": VOCAB_SIZE - 1,
    "eos_token_id": 0,
    "decoder_start_token_id": VOCAB_SIZE - 1,
}
"""The settings of the opus-mt models, in small: eos, unk, the words, pad."""


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A model with large random weights and biases, and the folder that `transformers` saved it in."""
    transformers = pytest.importorskip("transformers", reason="pip install 'transformer-course[bench]'")
    torch.manual_seed(0)
    model = transformers.MarianMTModel(transformers.MarianConfig(**CONFIG)).eval()
    for name, weight in model.named_parameters():
        if "embed_positions" not in name:
            torch.nn.init.normal_(weight, std=0.2)
    model.final_logits_bias.normal_()
    folder = tmp_path_factory.mktemp("marian")
    model.save_pretrained(folder)
    return model, folder


def test_logits_are_equal(marian: tuple[Any, Path]) -> None:
    theirs, folder = marian
    ours = load_marian(folder)
    source = torch.randint(2, VOCAB_SIZE - 1, (3, 9))
    source[:, -1] = CONFIG["eos_token_id"]
    source[1, 5:] = torch.tensor([0, *[CONFIG["pad_token_id"]] * 3])
    target = torch.randint(2, VOCAB_SIZE - 1, (3, 7))
    target[:, 0] = CONFIG["decoder_start_token_id"]
    with torch.no_grad():
        mask = (source != CONFIG["pad_token_id"]).long()
        expected = theirs(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits
        decoder_input = ours.from_marian_ids(target)
        decoder_input[:, 0] = BOS
        actual = ours(ours.from_marian_ids(source), decoder_input)
    assert expected.std() > 0.5
    torch.testing.assert_close(actual, expected[..., ours.marian_ids], atol=1e-4, rtol=1e-4)


def test_greedy_translations_are_equal(marian: tuple[Any, Path]) -> None:
    theirs, folder = marian
    ours = load_marian(folder)
    source = torch.randint(2, VOCAB_SIZE - 1, (5, 8))
    pad = CONFIG["pad_token_id"]
    generated = theirs.generate(source, num_beams=1, do_sample=False, max_new_tokens=12, bad_words_ids=[[pad]])
    for tokens, expected in zip(greedy_search(ours, ours.from_marian_ids(source), 12), generated, strict=True):
        assert len(tokens) > 1
        assert ours.marian_ids[tokens].tolist() == expected[1 : len(tokens) + 1].tolist()


def test_an_older_file_of_weights_is_read(marian: tuple[Any, Path], tmp_path: Path) -> None:
    theirs, folder = marian
    torch.save(theirs.state_dict(), tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text((folder / "config.json").read_text("utf-8"), "utf-8")
    first, second = load_marian(folder), load_marian(tmp_path)
    for name, weight in first.state_dict().items():
        assert torch.equal(weight, second.state_dict()[name])


def test_special_tokens_have_our_ids(marian: tuple[Any, Path]) -> None:
    ours = load_marian(marian[1])
    theirs = torch.tensor([CONFIG["pad_token_id"], CONFIG["eos_token_id"], 1])
    assert ours.from_marian_ids(theirs).tolist() == [PAD, EOS, UNK]
    assert sorted(ours.from_marian_ids(torch.arange(VOCAB_SIZE)).tolist()) == [PAD, *range(EOS, VOCAB_SIZE + 1)]


def test_our_model_converted_to_theirs_computes_the_same_logits(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="pip install 'transformer-course[bench]'")
    torch.manual_seed(0)
    config = ModelConfig(VOCAB_SIZE, 32, 4, 64, 2, 0.3, attention_dropout=0.2, activation_dropout=0.1, max_length=40)
    ours = Transformer(config).eval()
    with torch.no_grad():
        for weight in ours.parameters():
            weight.normal_(std=0.5)
    source, target = torch.randint(4, VOCAB_SIZE, (3, 9)), torch.randint(4, VOCAB_SIZE, (3, 7))
    source[1, 6:], target[:, 0] = PAD, BOS
    to_marian(ours).save_pretrained(tmp_path)
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path)
    with torch.no_grad():
        mask = (source != PAD).long()
        actual = theirs(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits
        expected = ours(source, target)
    dropouts = (theirs.config.dropout, theirs.config.attention_dropout, theirs.config.activation_dropout)
    assert dropouts == (0.3, 0.2, 0.1)
    assert theirs.generation_config.max_length == 40
    assert expected.std() > 0.5
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"norm": "pre"}, "a Marian model has norm 'post'; this one has 'pre'"),
        ({"positions": "rotary"}, "a Marian model has positions 'sinusoidal'; this one has 'rotary'"),
        ({"tie_embeddings": "decoder"}, "a Marian model has tie_embeddings 'all'; this one has 'decoder'"),
    ],
)
def test_a_model_that_marian_cannot_be_is_refused(setting: dict[str, Any], message: str) -> None:
    pytest.importorskip("transformers", reason="pip install 'transformer-course[bench]'")
    with pytest.raises(UserError, match=message):
        to_marian(Transformer(ModelConfig(VOCAB_SIZE, 32, 4, 64, 2, **setting)))


def test_a_model_that_was_loaded_from_a_marian_model_is_not_converted_back(marian: tuple[Any, Path]) -> None:
    with pytest.raises(UserError, match="loaded from a Marian model"):
        to_marian(load_marian(marian[1]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "bart"}, "its model_type is 'bart', not 'marian'"),
        ({"activation_function": "relu"}, "its activation_function is 'relu'"),
        ({"scale_embedding": False}, "its scale_embedding is False, not True"),
        ({"share_encoder_decoder_embeddings": False}, "its share_encoder_decoder_embeddings is False, not True"),
        ({"tie_word_embeddings": False}, "its tie_word_embeddings is False, not True"),
        ({"decoder_layers": 1}, "its decoder_layers is 1, not 2"),
        ({}, "there are no weights in"),
    ],
)
def test_other_models_are_rejected(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | change), "utf-8")
    with pytest.raises(UserError, match=message):
        load_marian(tmp_path)


def test_a_folder_without_a_model_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"the model's configuration .* is missing"):
        load_marian(tmp_path)


@pytest.fixture
def ours_with_their_names(tmp_path: Path) -> Path:
    """The folder of a model with random weights, which needs no `transformers`."""
    config = ModelConfig(VOCAB_SIZE + 1, 32, 4, 64, 2, dropout=0.0, max_length=40)
    model = MarianTransformer(config, torch.arange(VOCAB_SIZE + 1) % VOCAB_SIZE)
    weights = {"final_logits_bias": torch.randn(1, VOCAB_SIZE)}
    for name, weight in model.state_dict().items():
        parts = dict(zip("qkv", weight.chunk(3), strict=True)) if "query_key_value" in name else {"": weight}
        for letter, part in parts.items():
            their_name = rename(name, MARIAN_RENAMES).replace("query_key_value", f"{letter}_proj")
            weights[their_name] = part[:VOCAB_SIZE].clone() if "embedding" in name else part.clone()
    safetensors.torch.save_file(weights, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def test_a_damaged_file_of_weights_is_refused(ours_with_their_names: Path) -> None:
    weights = ours_with_their_names / "model.safetensors"
    file = ours_with_their_names / "pytorch_model.bin"
    torch.save(safetensors.torch.load_file(weights), file)
    weights.unlink()
    assert load_marian(str(ours_with_their_names)).config.n_layers == 2
    not_weights = []
    for content in ([1, 2], {"epoch": 3}):
        torch.save(content, file)
        not_weights.append(file.read_bytes())
    torch.save(safetensors.torch.load(safetensors.torch.save({"x": torch.ones(999)})), file)
    for data in (*not_weights, file.read_bytes()[:-1000], b"", b"x", b"no weights"):
        file.write_bytes(data)
        with pytest.raises(UserError, match=r"cannot use the weights .*pytorch_model\.bin: ."):
            load_marian(ours_with_their_names)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": "many"}, "vocab_size must be a whole number; got 'many'"),
        ({"encoder_layers": None, "decoder_layers": None}, "encoder_layers must be a whole number; got None"),
        ({"encoder_ffn_dim": 10**10, "decoder_ffn_dim": 10**10}, "are not those of the model in its config.json"),
        ({"encoder_layers": 3, "decoder_layers": 3}, "are not those of the model in its config.json"),
    ],
)
def test_a_configuration_that_does_not_fit_the_weights_is_refused_before_memory_is_allocated(
    ours_with_their_names: Path, change: dict[str, Any], message: str
) -> None:
    assert load_marian(ours_with_their_names).config.n_layers == 2
    (ours_with_their_names / "config.json").write_text(json.dumps(CONFIG | change))
    with pytest.raises(UserError, match=message):
        load_marian(ours_with_their_names)


def test_damaged_weights_are_refused(ours_with_their_names: Path) -> None:
    path = ours_with_their_names / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match="cannot use the weights"):
        load_marian(ours_with_their_names)
