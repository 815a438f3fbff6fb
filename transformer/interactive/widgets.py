"""The widgets of the book in a notebook, mainly the live translator for a model of your own.

They run the same JavaScript as the pages of the book, bundled into ``widgets.mjs``. A model is sent to the browser as
bytes, and from then on the browser computes by itself. In a notebook, widgets need anywidget (the extra ``widgets``).
"""

import copy
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors.torch

from transformer.errors import UserError, quote, require_extra, suggest
from transformer.interactive.int8_weights import dequantize, quantize
from transformer.translator import Translator

BUNDLE = Path(__file__).with_name("widgets.mjs")
TRANSLATOR = "translator"
"""The one widget that takes a model."""
WIDGETS = ("attention", "masks", "merges", "norm", "positions", "schedule", "smoothing")
"""The other widgets, which need no model."""
MODEL_NAME = "model"
"""The name that the JavaScript knows a notebook's or page's model by."""


def live_translator(translator: Translator, sentences: Sequence[str] = ()) -> Any:
    """Return the book's live translator for a model of your own: its translations, beam search and attention heads.

    Make it the last line of a notebook cell. The weights are sent as 8-bit integers (see `int8_weights`).

    Args:
        translator: from `transformer.load`, from a run folder, or built from a model and its tokenizer.
        sentences: examples to choose from; the first one is translated immediately.

    Raises:
        UserError: if anywidget is not installed, or the widget does not support this kind of model.
    """
    files = model_files(translator)
    sentences = [sentences] if isinstance(sentences, str) else sentences
    return _create_widget(TRANSLATOR, models=[describe_model(files, sentences)], files={MODEL_NAME: files})


def widget(name: str) -> Any:
    """Return one of the small interactive figures of the chapters, for example ``widget("attention")``.

    Raises:
        UserError: if there is no widget of this name, or anywidget is not installed.
    """
    if name not in WIDGETS:
        raise UserError(f"there is no widget {quote(name)}; {suggest(name, WIDGETS)}")
    return _create_widget(name)


def javascript(name: str) -> str:
    """Return a widget as the text of a JavaScript module with ``export default { render }``, which imports nothing."""
    return f"{bundle()}export default widgets.{name}.default;\n"


def bundle() -> str:
    """Return the text of the JavaScript module that has all widgets, as ``widgets.NAME.default.render``."""
    return BUNDLE.read_text("utf-8")


def model_files(translator: Translator) -> dict[str, bytes]:
    """Return a model in the form that the live translator reads: its config, its quantized weights and its tokenizer.

    Raises:
        UserError: if the live translator does not support this kind of model.
    """
    if not isinstance(translator, Translator):
        raise UserError("expected a Translator, which is a model with its tokenizer: Translator(model, tokenizer)")
    if translator.device.int8:
        raise UserError("the live translator rounds the weights itself: load the model with precision fp32, not int8")
    config = translator.model.config
    if config.positions == "rotary":
        raise UserError("the live translator does not support rotary positions")
    if config.d_model % 4 or config.d_ff % 4:
        raise UserError(
            "the live translator needs a d_model and a d_ff that are multiples of 4; "
            f"got d_model={config.d_model}, d_ff={config.d_ff}"
        )
    weights = safetensors.torch.save(quantize(dict(translator.model.named_parameters())))
    name = f"weights-{hashlib.sha256(weights).hexdigest()[:12]}.safetensors"  # no cache confuses it with older weights
    checkpoint = {"model": asdict(config), "weights": {"file": name}}
    return {
        "best.json": json.dumps(checkpoint).encode(),
        name: weights,
        "tokenizer.model": translator.tokenizer.model,
    }


def quantized(translator: Translator) -> Translator:
    """Return a copy of a translator that computes with the weights of `model_files`, as the browser does."""
    model = copy.deepcopy(translator.model)
    model.load_state_dict(dequantize(quantize(dict(model.named_parameters()))), strict=False)  # each shared weight once
    return Translator(model, translator.tokenizer, translator.device, translator.metadata)


def describe_model(
    files: dict[str, bytes],
    sentences: Sequence[str],
    translations: Sequence[str] = (),
    languages: Sequence[str] = ("", ""),
) -> dict[str, Any]:
    """Return what the live translator shows for a model: its size, examples, and their translations if known.

    Args:
        files: from `model_files`.
        languages: of the sentences and of the translations, as HTML names them: ``"en"``, ``"de"``.
    """
    return {
        "name": MODEL_NAME,
        "title": MODEL_NAME,
        "languages": list(languages),
        "sentences": list(sentences),
        "translations": list(translations),
        "megabytes": round(sum(map(len, files.values())) / 1e6, 1),
    }


def _create_widget(name: str, **values: Any) -> Any:
    """Return an anywidget that runs the JavaScript of this name, with these values as its traits."""
    require_extra("widgets", "anywidget")
    import anywidget
    from traitlets import Any as AnyValue

    traits = {key: AnyValue(value).tag(sync=True) for key, value in values.items()}
    namespace = {"__module__": __name__, "_esm": javascript(name), **traits}
    return type(name.capitalize(), (anywidget.AnyWidget,), namespace)()
