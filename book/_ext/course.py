"""What this book asks of Sphinx beyond Jupyter Book: charts without a network, edit buttons that open the .py half."""

import importlib
import json
from pathlib import Path
from typing import Any, ClassVar

import altair as alt
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from transformer.plots.style import Picture

VENDOR = Path(__file__).parent.parent / "_vendor"
VERSIONS = {"vega": alt.VEGA_VERSION, "vega-lite": alt.VEGALITE_VERSION, "vega-embed": alt.VEGAEMBED_VERSION}


def add_charts(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Load our copy of Vega on a page with charts, and tell Altair's output that it is there."""
    if "altair-viz-" not in (context.get("body") or ""):
        return
    for name, version in VERSIONS.items():
        file = f"vega/{name}@{version}.js"
        if not (VENDOR / file).exists():
            raise ExtensionError(
                f"Altair {alt.__version__} draws with {name} {version}, and book/_vendor/{file} is missing"
            )
        app.add_js_file(file)
    there = {f"{name.replace('-', '')}_version": version for name, version in VERSIONS.items()}
    app.add_js_file(None, body=f"var VEGA_DEBUG = {json.dumps(there)};")
    app.add_js_file("charts.js")


def edit_the_source(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """A chapter is edited in its .py half; the .ipynb is made from it."""
    if not page.startswith("chapters/"):
        return
    for group in context["header_buttons"]:
        for button in group.get("buttons", []):
            if button.get("label") == "source-edit-button":
                button["url"] = button["url"].removesuffix(".ipynb") + ".py"


def list_the_references(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """An entry of a bibliography is an item of its list: docutils gives it a role that ARIA has dropped."""
    if "body" in context:
        context["body"] = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')


class PictureDirective(SphinxDirective):
    """``{picture} transformer.plots.MODULE.FUNCTION`` with ``:alt:``: what the function draws, on the page."""

    required_arguments = 1
    option_spec: ClassVar = {"alt": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Called by Sphinx where the directive stands."""
        module, function = self.arguments[0].rsplit(".", 1)
        figure = getattr(importlib.import_module(module), function)()
        return [nodes.raw("", Picture(figure, self.options.get("alt", ""))._repr_html_(), format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("picture", PictureDirective)
    app.connect("html-page-context", add_charts)
    app.connect("html-page-context", list_the_references)
    app.connect("html-page-context", edit_the_source, priority=900)  # after the theme has made its buttons
    return {"parallel_read_safe": True, "parallel_write_safe": True}
