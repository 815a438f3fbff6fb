"""The directive ``{widget}``: a JavaScript module of book/widgets on a page, and what a page shows without it."""

import html
import json
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from transformer.models import FOLDER, load_model

WIDGETS = Path(__file__).parent.parent / "widgets"
SUFFIX = ".mjs"
"""Not .js: Jupyter Book would add each such file to every page, as a script that is no module."""

MODELS: dict[str, dict[str, Any]] = {
    "multi30k": {
        "title": "English to German: captions of pictures",
        "languages": ["en", "de"],
        "sentences": ["A little girl in a red dress is jumping into the water.", "Two dogs are playing in the snow."],
    },
    "multi30k-de-en": {
        "title": "German to English: captions of pictures",
        "languages": ["de", "en"],
        "sentences": ["Zwei Hunde spielen im Schnee.", "Eine Frau sitzt auf einer Bank im Park."],
    },
    "pocket-small": {
        "title": "English to German: the pocket corpus",
        "languages": ["en", "de"],
        "sentences": ["The old woman gives the child a red apple.", "Why does the dog not sleep?"],
    },
}
"""The models that the translator offers, each with examples."""


def translator() -> tuple[dict[str, Any], str]:
    """What the translator is told: the models, and examples with the translations that PyTorch found in this build."""
    models, rows = [], []
    for name, about in MODELS.items():
        found = load_model(name, "cpu").beam_search(about["sentences"])
        pairs = [(sentence, best.text) for sentence, (best,) in zip(about["sentences"], found, strict=True)]
        size = sum(path.stat().st_size for path in shown_files(FOLDER / name))
        models.append(about | {"name": name, "translations": [t for _, t in pairs], "megabytes": round(size / 1e6, 1)})
        for pair in pairs:
            told = zip(about["languages"], pair, strict=True)
            cells = "".join(f'<td lang="{language}">{html.escape(text)}</td>' for language, text in told)
            rows.append(f"<tr>{cells}</tr>")
    head = "<thead><tr><th>sentence</th><th>translation</th></tr></thead>"
    still = f'<table class="table">{head}<tbody>{"".join(rows)}</tbody></table>'
    return {
        "models": models
    }, f"{still}<p>Translated when this book was built. A page that is served translates more.</p>"


MADE = {"translator": translator}
"""For each widget: what makes its values, and the HTML that stands in its place until it runs."""


class WidgetDirective(SphinxDirective):
    """``{widget} NAME``: the module book/widgets/NAME.mjs, once it is scrolled into view."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Called by Sphinx where the directive stands."""
        name = self.arguments[0]
        values, still = MADE[name]()
        told = html.escape(json.dumps(values, ensure_ascii=False))
        without = "<noscript><p>Turn on JavaScript to translate sentences of your own here.</p></noscript>"
        text = f'<div class="widget" data-widget="{name}" data-values="{told}">{still}{without}</div>'
        return [nodes.raw("", text, format="html")]


def shown_files(folder: Path) -> list[Path]:
    """The files of a model that a page loads."""
    return [folder / "best.json", folder / "tokenizer.model", *folder.glob("*.safetensors")]


def load_widgets(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Only a page with a widget loads anything."""
    if "data-widget=" in (context.get("body") or ""):
        app.add_js_file(f"widgets/mount{SUFFIX}", type="module")


def copy_widgets(app: Sphinx, error: Exception | None) -> None:
    """The modules and the models that ship, as files of the book."""
    if error or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    files = dict.fromkeys(WIDGETS.glob(f"*{SUFFIX}"), static / "widgets")
    for name in MODELS:
        shutil.rmtree(static / "models" / name, ignore_errors=True)  # weights of an older model have another name
        files |= dict.fromkeys(shown_files(FOLDER / name), static / "models" / name)
    for path, folder in files.items():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("widget", WidgetDirective)
    app.connect("html-page-context", load_widgets)
    app.connect("build-finished", copy_widgets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
