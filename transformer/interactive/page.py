"""One page with a model in it: the live translator as a single file, which opens without a server or the network."""

import base64
import html
import json
from collections.abc import Sequence
from pathlib import Path
from string import Template

from transformer.errors import UserError
from transformer.interactive.widgets import LIVE, bundle, model_files, offer
from transformer.translator import Translator

LARGEST = 300
"""Megabytes of model that a browser still takes out of a page."""

PAGE = Path(__file__).with_name("page.html")


def page(translator: Translator, title: str, sentences: Sequence[str], languages: Sequence[str] = ("", "")) -> str:
    """The page's HTML. Its examples are the sentences, with the translations that PyTorch finds now.

    Args:
        title: the model's name, for people.
        sentences: one at least.
        languages: of the sentences and of the translations, as HTML names them: ``"en"``, ``"de"``.

    Raises:
        UserError: if there is no sentence, or the model is too large, or of a kind that the page does not read.
    """
    if not sentences:
        raise UserError("name a sentence to begin with")
    files = model_files(translator)
    size = sum(map(len, files.values())) / 1e6
    if size > LARGEST:
        raise UserError(f"the model has {size:.0f} MB, and a browser takes at most {LARGEST} MB out of a page")
    translations = [best.text for (best,) in translator.beam(sentences)]
    told = json.dumps({"models": [offer(files, sentences, translations, languages)]}, ensure_ascii=False)
    return Template(PAGE.read_text("utf-8")).substitute(
        title=html.escape(title),
        rows="".join(_row(pair, languages) for pair in zip(sentences, translations, strict=True)),
        told=told.replace("<", "\\u003c"),
        files="\n".join(_file(name, data) for name, data in files.items()),
        bundle=bundle(LIVE),
    )


def _row(pair: tuple[str, str], languages: Sequence[str]) -> str:
    """A sentence and its translation, as a row of the table that stands there until the translator runs."""
    cells = (f'<td lang="{name}">{html.escape(text)}</td>' for name, text in zip(languages, pair, strict=True))
    return f"<tr>{''.join(cells)}</tr>"


def _file(name: str, data: bytes) -> str:
    """A file as an element that a browser does not run; its content is base64."""
    text = base64.b64encode(data).decode()
    return f'<script type="text/plain" data-file="{name}" data-length="{len(data)}">{text}</script>'
