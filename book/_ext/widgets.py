"""The directive ``{widget}``: a JavaScript module of book/widgets on a page, with static content until it runs."""

import html
import json
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from transformer.models import MODELS_FOLDER, load_model

WIDGETS = Path(__file__).parent.parent / "widgets"
SUFFIX = ".mjs"
"""Not .js: Jupyter Book would add every such file to every page, as a classic script."""

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
"""The models that the live translator offers, each with examples."""


def translator() -> tuple[dict[str, Any], str]:
    """Return the values of the live translator, with translations computed in this build, and its static content."""
    models, rows = [], []
    for name, model in MODELS.items():
        n_best = load_model(name, "cpu").beam_search(model["sentences"])
        pairs = [(sentence, best.text) for sentence, (best,) in zip(model["sentences"], n_best, strict=True)]
        size = sum(path.stat().st_size for path in model_paths(MODELS_FOLDER / name))
        models.append(model | {"name": name, "translations": [t for _, t in pairs], "megabytes": round(size / 1e6, 1)})
        for pair in pairs:
            texts = zip(model["languages"], pair, strict=True)
            cells = "".join(f'<td lang="{language}">{html.escape(text)}</td>' for language, text in texts)
            rows.append(f"<tr>{cells}</tr>")
    head = "<thead><tr><th>sentence</th><th>translation</th></tr></thead>"
    content = f'<table class="table">{head}<tbody>{"".join(rows)}</tbody></table>'
    note = "<p>Computed when this book was built. Open the book on a web server to translate any sentence here.</p>"
    return {"models": models}, content + note


CONTENT = {"translator": translator}
"""For each widget a function that returns its values, and the HTML that is shown until it runs."""


class WidgetDirective(SphinxDirective):
    """``{widget} NAME``: runs the module book/widgets/NAME.mjs when it is scrolled into view."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the nodes in place of the directive."""
        name = self.arguments[0]
        values, content = CONTENT[name]()
        data = html.escape(json.dumps(values, ensure_ascii=False))
        noscript = "<noscript><p>Turn on JavaScript to translate sentences of your own here.</p></noscript>"
        text = f'<div class="widget" data-widget="{name}" data-values="{data}">{content}{noscript}</div>'
        return [nodes.raw("", text, format="html")]


def model_paths(folder: Path) -> list[Path]:
    """Return the files of a model that a page loads."""
    return [folder / "best.json", folder / "tokenizer.model", *folder.glob("*.safetensors")]


def load_widgets(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Add the script that starts widgets to the pages that have one."""
    if "data-widget=" in (context.get("body") or ""):
        app.add_js_file(f"widgets/mount{SUFFIX}", type="module")


def copy_widgets(app: Sphinx, error: Exception | None) -> None:
    """Copy the JavaScript modules and the models into the built book."""
    if error or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    files = dict.fromkeys(WIDGETS.glob(f"*{SUFFIX}"), static / "widgets")
    for name in MODELS:
        shutil.rmtree(static / "models" / name, ignore_errors=True)  # weights of an earlier version have another name
        files |= dict.fromkeys(model_paths(MODELS_FOLDER / name), static / "models" / name)
    for path, folder in files.items():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive and the event handlers with Sphinx."""
    app.add_directive("widget", WidgetDirective)
    app.connect("html-page-context", load_widgets)
    app.connect("build-finished", copy_widgets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
