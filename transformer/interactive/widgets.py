"""The book's widgets in a notebook: above all the live translator, on any model, the one you have just trained too.

They run the same JavaScript as the book's pages, each bundled into one file of ``bundles``. A model goes over as bytes,
and from then on the browser computes by itself. In a notebook they need anywidget, the extra ``widgets``.
"""

import difflib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from transformer.checkpoint import weights_as_bytes
from transformer.errors import UserError
from transformer.translator import Translator

BUNDLES = Path(__file__).parent / "bundles"
LIVE = "translator"
"""The widget that takes a model. All others need nothing."""
NAME = "model"
"""What the one model that is handed over is called there."""


def live(translator: Translator, sentences: Sequence[str] = ()) -> Any:
    """The live translator of the book, on a model of your own: its translations, the search, and every head.

    Show it as the last line of a notebook's cell. The weights are rounded to half precision for the way.

    Args:
        translator: from `transformer.load`, from a run folder, or made of a model and its tokenizer.
        sentences: examples to choose from; the first is translated at once.

    Raises:
        UserError: if anywidget is not installed, or the model is of a kind that the widget does not read.
    """
    files = model_files(translator)
    sentences = [sentences] if isinstance(sentences, str) else sentences
    return _in_notebook(LIVE, models=[offer(files, sentences)], files={NAME: files})


def widget(name: str) -> Any:
    """One of the small pictures that the chapters have in the book, for example ``widget("attention")``.

    Raises:
        UserError: if there is none of this name, or anywidget is not installed.
    """
    small = [path.stem for path in sorted(BUNDLES.glob("*.mjs")) if path.stem != LIVE]
    if name not in small:
        near = difflib.get_close_matches(name, small, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(small)}"
        raise UserError(f"there is no widget {name!r}; {hint}")
    return _in_notebook(name)


def bundle(name: str) -> str:
    """A widget's JavaScript: a module that needs no other, with ``export default { render }``."""
    return (BUNDLES / f"{name}.mjs").read_text("utf-8")


def model_files(translator: Translator) -> dict[str, bytes]:
    """A model as the live translator reads it: its shape, its weights in half precision, and its tokenizer.

    Raises:
        UserError: if it is of a kind that the widget does not read.
    """
    if not isinstance(translator, Translator):
        raise UserError("this wants a Translator, a model with its tokenizer: Translator(model, tokenizer) makes one")
    config, tokenizer = translator.model.config, translator.tokenizer
    if config.positions == "rotary":
        raise UserError("the live translator does not compute rotary positions")
    if config.d_model % 4 or config.d_ff % 4:
        raise UserError(f"the live translator wants multiples of 4; got d_model={config.d_model}, d_ff={config.d_ff}")
    if any(tokenizer.processor.is_byte(i) for i in range(len(tokenizer))):
        raise UserError("the live translator does not read a tokenizer that spells with bytes (byte_fallback)")
    described = {"model": asdict(config), "weights": {"file": "weights.safetensors"}}
    return {
        "best.json": json.dumps(described).encode(),
        "weights.safetensors": weights_as_bytes(translator.model, torch.float16),
        "tokenizer.model": tokenizer.model,
    }


def offer(
    files: dict[str, bytes],
    sentences: Sequence[str],
    translations: Sequence[str] = (),
    languages: Sequence[str] = ("", ""),
) -> dict[str, Any]:
    """What the live translator is told of a model: examples, and the first one's translation if it is known already."""
    return {
        "name": NAME,
        "title": NAME,
        "languages": list(languages),
        "sentences": list(sentences),
        "translations": list(translations),
        "megabytes": round(sum(map(len, files.values())) / 1e6, 1),
    }


def _in_notebook(name: str, **values: Any) -> Any:
    """A widget as notebooks show it."""
    try:
        import anywidget
        from traitlets import Any as Value
    except ImportError:
        raise UserError("a widget in a notebook needs anywidget: pip install anywidget") from None
    traits = {key: Value(value).tag(sync=True) for key, value in values.items()}
    kind = type(name.capitalize(), (anywidget.AnyWidget,), {"__module__": __name__, "_esm": bundle(name), **traits})
    return kind()
