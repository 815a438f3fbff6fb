"""The live translator as a single HTML file with a model in it, which opens without a server or the network.

Whatever comes from a model's files or from the user is escaped. In addition, the page's content security policy names
the hash of its one script, so that browsers run nothing else: no other script, and no event handler in an attribute.
"""

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from pathlib import Path
from string import Template

from transformer.errors import UserError
from transformer.interactive.widgets import bundle, describe_model, model_files, quantized
from transformer.translator import Translator

MAX_MEGABYTES = 150
"""The largest model that browsers can load from inside a page."""

TEMPLATE = Path(__file__).with_name("page.html")
SCRIPT = Path(__file__).with_name("page.mjs")


def translator_page(
    translator: Translator, title: str, sentences: Sequence[str], languages: Sequence[str] = ("", "")
) -> str:
    """Return the HTML of a page with the live translator, a model and some examples.

    Args:
        title: the display name of the model.
        sentences: the examples, at least one. Their translations are computed now and shown while the model loads.
        languages: of the sentences and of the translations, as HTML names them: ``"en"``, ``"de"``.

    Raises:
        UserError: if there is no sentence, or one that is empty or too long, the model is too large, or the page does
            not support this kind of model.
    """
    if not sentences:
        raise UserError("give at least one example sentence")
    files = model_files(translator)
    megabytes = sum(map(len, files.values())) / 1e6
    if megabytes > MAX_MEGABYTES:
        raise UserError(
            f"the model is {megabytes:.0f} MB; a browser can load at most {MAX_MEGABYTES} MB from within a page"
        )
    translations = [best.text for (best,) in quantized(translator).beam_search(sentences)]
    values = json.dumps({"models": [describe_model(files, sentences, translations, languages)]}, ensure_ascii=False)
    script = bundle() + SCRIPT.read_text("utf-8")
    return Template(TEMPLATE.read_text("utf-8")).substitute(
        title=html.escape(title),
        rows="".join(_row(pair, languages) for pair in zip(sentences, translations, strict=True)),
        values=values.replace("<", "\\u003c"),
        files="\n".join(_data(name, data) for name, data in files.items()),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        script=script,
    )


def _row(pair: tuple[str, str], languages: Sequence[str]) -> str:
    """Return a table row with a sentence and its translation, which is shown until the live translator runs."""
    cells = (
        f'<td lang="{html.escape(language)}">{html.escape(text)}</td>'
        for language, text in zip(languages, pair, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"


def _data(name: str, data: bytes) -> str:
    """Return a file as a script element that browsers don't execute; its text is base64."""
    text = base64.b64encode(data).decode()
    return f'<script type="text/plain" data-file="{name}" data-length="{len(data)}">{text}</script>'
