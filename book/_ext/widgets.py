"""The directive ``{widget}``: a JavaScript module of book/widgets on a page, with static content until it runs."""

import html
import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from book.everyday import HUNDREDS, RESULT, confidence_interval, count_right, read_judgements, read_sentences
from transformer.files import read_json
from transformer.interactive.widgets import model_files, quantized
from transformer.models import load_model

BOOK = Path(__file__).parent.parent
WIDGETS, RESULTS = BOOK / "widgets", BOOK / "results"
SUFFIX = ".mjs"
"""Not .js: Jupyter Book would add every such file to every page, as a classic script."""

MODELS: dict[str, dict[str, Any]] = {
    "everyday": {
        "title": "English to German: everyday sentences",
        "languages": ["en", "de"],
        "trainedOn": "165,000 everyday sentences, 29,000 captions and a phrase book by an LLM",
        "sentences": [
            "How do I get to the museum from here?",
            "Mum says dinner will be ready in twenty minutes.",
            "The central bank raised its key interest rate.",
            "can you help me carry this sofa upstairs",
        ],
    },
    "everyday-de-en": {
        "title": "German to English: everyday sentences",
        "languages": ["de", "en"],
        "trainedOn": "165,000 everyday sentences, 29,000 captions and a phrase book by an LLM",
        "sentences": [
            "Möchtest du heute Abend mit uns essen?",
            "Wann fährt der Zug ab? Ich will nicht zu spät kommen.",
            "Ich habe gestern meinen Regenschirm im Bus vergessen.",
            "wann macht die bibliothek heute zu",
        ],
    },
    "multi30k": {
        "title": "English to German: captions of photographs",
        "languages": ["en", "de"],
        "trainedOn": "29,000 captions of photographs",
        "sentences": [
            "An old man feeds the pigeons in front of a church.",
            "Two dogs are playing in the snow.",
            "A woman is reading a book on a bench in the park.",
            "A street musician plays the violin while people walk past.",
        ],
    },
    "multi30k-de-en": {
        "title": "German to English: captions of photographs",
        "languages": ["de", "en"],
        "trainedOn": "29,000 captions of photographs",
        "sentences": ["Zwei Hunde spielen im Schnee.", "Eine Frau sitzt auf einer Bank im Park."],
    },
    "pocket-small": {
        "title": "English to German: the pocket corpus",
        "languages": ["en", "de"],
        "trainedOn": "200,000 sentences from a small grammar",
        "sentences": ["The old woman gives the child a red apple.", "Why does the dog not sleep?"],
    },
}
"""The models that the live translator offers, each with what it was trained on, and with examples.

The first example of each is one whose translation the beam size and single heads change. None is in the training data.
The third of the first model is from the news, which it doesn't know: it translates it badly, and says that it guesses.
"""

FEW = 3
"""The number of examples that fit on one line of the first page."""


LIVE = read_json(RESULTS / "live.json")["models"]
"""What `book.live_models` measured for each model."""


def everyday_score(name: str) -> str:
    """Return a sentence on how many everyday sentences a model got right; "" if it wasn't tried.

    It counts the last hundred, which influenced no training, and gives the confidence interval of so small a sample.
    """
    versions = json.loads(RESULT.read_text("utf-8"))
    tried = [version["translations"] for version in versions if version["model"] == name]
    if not tried:
        return ""
    fair = read_sentences(HUNDREDS[-1])
    n_right = count_right({sentence: tried[-1][sentence] for sentence in fair}, read_judgements())
    low, high = (round(len(fair) * bound) for bound in confidence_interval(n_right, len(fair)))
    return (
        f" It got {n_right} of {len(fair)} unseen everyday sentences right, judged by an LLM "
        f"(95% interval: {low} to {high})."
    )


def reverse_model(name: str) -> str | None:
    """Return the model that translates in the other direction, preferably one that was trained on the same text."""
    model = MODELS[name]
    others = [one for one, other in MODELS.items() if other["languages"] == model["languages"][::-1]]
    return max(others, key=lambda one: MODELS[one]["trainedOn"] == model["trainedOn"], default=None)


@cache
def browser_model(name: str) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the files of a model that a page loads, and what it shows of the model before that."""
    loaded, model = load_model(name, "cpu"), MODELS[name]
    files = model_files(loaded)
    rounded = quantized(loaded)  # what the browser will compute with
    return files, model | {
        "name": name,
        "translations": [rounded.translate(sentence) for sentence in model["sentences"]],
        "megabytes": round(sum(map(len, files.values())) / 1e6, 1),
        "about": f"A Transformer with {loaded.model.config.n_parameters / 1e6:.1f} million parameters. "
        f"The course's own code trained it on {model['trainedOn']}.{everyday_score(name)}",
        "threshold": LIVE[name]["threshold"],
        "reverse": reverse_model(name),
    }


def translator(folded: bool) -> tuple[dict[str, Any], str]:
    """Return the values of the live translator, with translations computed in this build, and its static content.

    Args:
        folded: show only the first model, with `FEW` examples, and fold away its search and its heads.
    """
    models = [browser_model(name)[1] for name in list(MODELS)[: 1 if folded else None]]
    if folded:
        models = [model | {key: model[key][:FEW] for key in ("sentences", "translations")} for model in models]
    rows = []
    for model in models:
        for pair in zip(model["sentences"], model["translations"], strict=True):
            texts = zip(model["languages"], pair, strict=True)
            cells = "".join(f'<td lang="{language}">{html.escape(text)}</td>' for language, text in texts)
            rows.append(f"<tr>{cells}</tr>")
    head = "<thead><tr><th>sentence</th><th>translation</th></tr></thead>"
    content = f'<table class="table">{head}<tbody>{"".join(rows)}</tbody></table>'
    note = (
        "<p>The translation of the sentence about the central bank is nonsense, because the model was trained on "
        "everyday sentences, not on news. With JavaScript, and with the book on a web server, you can translate any "
        "sentence here.</p>"
    )
    return {"models": models, "folded": folded, "shared": not folded}, content + note


CONTENT = {"translator": translator}
"""For each widget a function of ``folded`` that returns its values, and the HTML that is shown until it runs."""


class WidgetDirective(SphinxDirective):
    """``{widget} NAME``: runs the module book/widgets/NAME.mjs when it is scrolled into view.

    The option ``:folded:`` folds details away.
    """

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"folded": directives.flag}

    def run(self) -> list[nodes.Node]:
        """Return the nodes in place of the directive."""
        name = self.arguments[0]
        if name not in CONTENT:
            raise self.error(f"there is no widget {name!r} with content; choose from {', '.join(CONTENT)}")
        values, content = CONTENT[name]("folded" in self.options)
        data = html.escape(json.dumps(values, ensure_ascii=False))
        text = f'<div class="widget" data-widget="{name}" data-values="{data}">{content}</div>'
        return [nodes.raw("", text, format="html")]


def load_widgets(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Add the script that starts widgets to the pages that have one."""
    if "data-widget=" in (context.get("body") or ""):
        app.add_js_file(f"widgets/mount{SUFFIX}", type="module")


def copy_widgets(app: Sphinx, error: Exception | None) -> None:
    """Copy the JavaScript modules and the models into the built book."""
    if error or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    (static / "widgets").mkdir(parents=True, exist_ok=True)
    for path in WIDGETS.glob(f"*{SUFFIX}"):
        shutil.copy(path, static / "widgets")
    for name in MODELS:
        folder = static / "models" / name
        shutil.rmtree(folder, ignore_errors=True)  # weights of an earlier version have another name
        folder.mkdir(parents=True)
        for file, data in browser_model(name)[0].items():
            (folder / file).write_bytes(data)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive and the event handlers with Sphinx."""
    app.add_directive("widget", WidgetDirective)
    app.connect("html-page-context", load_widgets)
    app.connect("build-finished", copy_widgets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
