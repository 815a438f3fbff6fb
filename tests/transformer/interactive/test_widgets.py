"""The widgets in a notebook: the browser gets the model, and what is not supported is one clear message."""

import json
import sys
from dataclasses import replace

import pytest
import safetensors.torch
import torch

from transformer.config import ModelConfig
from transformer.data.tokenizer import Tokenizer
from transformer.errors import UserError
from transformer.interactive import live_translator, widget
from transformer.interactive.int8_weights import dequantize
from transformer.interactive.widgets import TRANSLATOR, javascript, model_files, quantized
from transformer.model import Transformer
from transformer.models import load_model
from transformer.translator import Translator

SMALL = ModelConfig(vocab_size=4000, d_model=32, n_heads=2, d_ff=64, n_layers=1)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_model("pocket-small", "cpu").tokenizer


def test_the_files_are_the_quantized_model(tokenizer: Tokenizer) -> None:
    translator = Translator(Transformer(SMALL).eval(), tokenizer)
    before = {name: p.clone() for name, p in translator.model.named_parameters()}
    files = model_files(translator)
    described = json.loads(files["best.json"])
    assert ModelConfig(**described["model"]) == SMALL
    weights = dequantize(safetensors.torch.load(files[described["weights"]["file"]]))
    rounded = dict(quantized(translator).model.named_parameters())
    assert weights.keys() == rounded.keys() == before.keys()
    assert all(torch.equal(weights[name], p) for name, p in rounded.items())
    assert all(torch.equal(before[name], p) for name, p in translator.model.named_parameters()), "the model has changed"
    assert not torch.equal(weights["source_embedding.weight"], before["source_embedding.weight"])
    assert files["tokenizer.model"] == tokenizer.model


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positions": "rotary"}, "does not support rotary positions"),
        ({"d_ff": 30}, "multiples of 4; got d_model=32, d_ff=30"),
        ({"d_model": 30}, "multiples of 4; got d_model=30, d_ff=64"),
    ],
)
def test_an_unsupported_model_is_refused(tokenizer: Tokenizer, change: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        live_translator(Translator(Transformer(replace(SMALL, **change)), tokenizer))


def test_a_model_without_its_tokenizer_is_refused() -> None:
    with pytest.raises(UserError, match=r"expected a Translator, .* Translator\(model, tokenizer\)"):
        live_translator(Transformer(SMALL))  # type: ignore[arg-type]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UserError, match="no widget 'mask'; did you mean masks"):
        widget("mask")
    with pytest.raises(UserError, match="no widget 'translator'; choose from attention, masks"):
        widget("translator")


def test_without_anywidget_the_message_says_how_to_install_it(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    for show in (lambda: widget("masks"), lambda: live_translator(Translator(Transformer(SMALL), tokenizer))):
        with pytest.raises(UserError, match=r"needs anywidget: pip install 'transformer-course\[widgets\]'"):
            show()


def test_the_browser_gets_the_javascript_and_the_bytes(tokenizer: Tokenizer) -> None:
    pytest.importorskip("anywidget")
    from ipywidgets.widgets.widget import _remove_buffers

    translator = Translator(Transformer(SMALL), tokenizer)
    shown = live_translator(translator, ["The dog sleeps.", "The cat sleeps."])
    state, paths, buffers = _remove_buffers(shown.get_state())
    files = model_files(translator)
    assert dict(zip((path[-1] for path in paths), map(bytes, buffers), strict=True)) == files
    assert all(path[:2] == ["files", "model"] for path in paths)
    (description,) = state["models"]
    assert description["sentences"] == ["The dog sleeps.", "The cat sleeps."]
    assert description["megabytes"] == round(sum(map(len, files.values())) / 1e6, 1)
    assert state["_esm"] == javascript(TRANSLATOR)
    (description,) = live_translator(translator, "The dog sleeps.").get_state()["models"]
    assert description["sentences"] == ["The dog sleeps."], "one sentence is no list of letters"
    assert widget("masks").get_state()["_esm"] == javascript("masks")
