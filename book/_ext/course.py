"""Sphinx extension of this book: offline charts, links within the book, code on a phone, and edit buttons for .py."""

import html
import importlib
import inspect
import json
import re
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any, ClassVar

import altair as alt
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from transformer.plots.style import Picture, SourceCode

VENDOR = Path(__file__).parent.parent / "_vendor"
CODE = re.compile(r'(<div class="highlight-(?!myst-ansi)[^>]*><div class="highlight"><pre>)(.*?)(?=</pre>)', re.DOTALL)
"""Highlighted code, but not what a cell has printed."""
OUTPUT = re.compile(r'<div class="output (?=[^>]*highlight-myst-ansi)([^>]*>.*?<pre>)(.*?)(?=</pre>)', re.DOTALL)
"""What a cell has printed."""
IN_COLUMNS = re.compile(r"\S {2,}\S|tensor\(")
"""What shows that printed text is in columns, which must not be wrapped."""
START = re.compile(r"^( +)(<span[^>]*>)?(&[^;]+;|[^<])")
"""The start of an indented line of code: the spaces, perhaps the tag of the first token, and its first character."""
SIGN = re.compile(r'(<span class="o">-(?:(?:&gt;|=)</span>|</span>(?:<span[^>]*>[^<]+</span>|\w+)))')
"""A minus sign with what follows it immediately, and the operators -> and -=, which browsers would break in two."""
SPACES = re.compile(r"( +)(?![^<]*>)")
"""Spaces between the words of a line, but not those within a tag."""
BREAKS = re.compile(r'(?<=[(\[{]</span>)|(?=<span class="o">\.</span>)')
"""Where a long word can be broken: after a bracket, and before a dot."""
SHORT_LINE, LONG_WORD = 30, 20
"""Lines of code and words with at most this many characters are never wrapped or broken."""
RUN = "Run in Colab or Binder"
VERSIONS = {"vega": alt.VEGA_VERSION, "vega-lite": alt.VEGALITE_VERSION, "vega-embed": alt.VEGAEMBED_VERSION}


def add_charts(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """On a page with charts, load our copy of Vega, and define the variable that tells Altair so."""
    if "altair-viz-" not in (context.get("body") or ""):
        return
    for name, version in VERSIONS.items():
        file = f"vega/{name}@{version}.js"
        if not (VENDOR / file).exists():
            raise ExtensionError(f"Altair {alt.__version__} needs {name} {version}, but book/_vendor/{file} is missing")
        app.add_js_file(file)
    loaded = {f"{name.replace('-', '')}_version": version for name, version in VERSIONS.items()}
    app.add_js_file(None, body=f"var VEGA_DEBUG = {json.dumps(loaded)};")
    app.add_js_file("charts.js")


def add_excerpts(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Let the search show excerpts of what a reader sees on a page."""
    if page == "search":
        app.add_js_file("search.js")


def change_buttons(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Let a chapter's edit button open the .py file, and its Colab button the notebook with outputs.

    The button of the menu with Colab is called `RUN`; course.css shows this beside its icon.
    """
    if not page.startswith("chapters/"):
        return
    branch = app.config.html_theme_options["repository_branch"]
    for group in context["header_buttons"]:
        if group.get("label") == "launch-buttons":
            group["tooltip"] = RUN
        for button in group.get("buttons", []):
            if button.get("label") == "source-edit-button":
                button["url"] = button["url"].removesuffix(".ipynb") + ".py"
            elif button.get("text") == "Colab":
                button["url"] = button["url"].replace(f"/blob/{branch}/", "/blob/with-outputs/", 1)


def fix_bibliography_roles(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Make the entries of a bibliography list items: docutils gives them a role that ARIA has deprecated."""
    if "body" in context:
        context["body"] = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')


def indent_wrapped_lines(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Mark long lines of code: where they are wrapped, as on a phone, CSS indents the rest more than the line."""
    if "body" in context:
        context["body"] = CODE.sub(
            lambda match: match[1] + "\n".join(map(_mark_if_long, match[2].split("\n"))), context["body"]
        )


def wrap_sentences(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Let what a cell has printed wrap on a phone if it isn't in columns."""
    if "body" in context:
        context["body"] = OUTPUT.sub(
            lambda match: (
                match[0] if IN_COLUMNS.search(_text(match[2])) else match[0].replace("output", "output wrapped", 1)
            ),
            context["body"],
        )


def _mark_if_long(line: str) -> str:
    """Mark a line of code, in HTML, with its indentation and where it can be broken, if it is too long for a phone."""
    text = _text(line)
    if len(text) <= SHORT_LINE:
        return line
    code = text.lstrip(" ")
    if not code.startswith("#"):
        line = line.replace('<span class="c1">', '<span class="c1 code-comment">')  # a comment moves down as a whole
    line = START.sub(_keep_together, line)  # else a long name would leave the spaces before it alone on a line
    line = SIGN.sub(r'<span class="unbroken">\1</span>', line)
    words = SPACES.split(line)
    marked = "".join(BREAKS.sub("<wbr>", word) if len(_text(word)) > LONG_WORD else word for word in words)
    return f'<span class="code-line" style="--indent: {len(text) - len(code)}ch">{marked}</span>'


def _text(code: str) -> str:
    return html.unescape(re.sub("<[^>]*>", "", code))


def _keep_together(match: re.Match[str]) -> str:
    spaces, tag, first = match.groups(default="")
    end = "</span>" if tag else ""
    return f'<span class="unbroken">{spaces}{tag}{first}{end}</span>{tag}'


def link_within_the_book(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Turn links to the published book into links within this build: notebooks have absolute links, for Colab."""
    published = app.config.html_baseurl
    for link in doctree.findall(nodes.reference):
        target, _, anchor = link.get("refuri", "").removeprefix(published).partition(".html")
        if link.get("refuri", "").startswith(published) and target in app.env.found_docs:
            link["refuri"] = app.builder.get_relative_uri(page, target) + anchor
            link["internal"] = True


def label_folds(app: Sphinx, doctree: nodes.document) -> None:
    """Label each folded cell with its content: the setup, the imports, the code of the figure below it, other code."""
    for cell in doctree.findall(lambda node: isinstance(node, nodes.container) and "prompt_show" in node):
        if "tag_setup" in cell["classes"]:
            what = "the setup for Colab"
        elif any("<svg" in raw.astext() or "altair" in raw.astext() for raw in cell.findall(nodes.raw)):
            what = "the code for this figure"
        elif "tag_imports" in cell["classes"]:
            what = "the imports of this chapter"
        else:
            what = "the code"
        cell["prompt_show"], cell["prompt_hide"] = f"Show {what}", f"Hide {what}"
        for code in cell.findall(nodes.literal_block):
            code.rawsource = re.sub(r"^# @title .*\n", "", code.astext())  # what Colab shows of a folded cell
            code[:] = [nodes.Text(code.rawsource)]


def keep_punctuation(app: Sphinx, doctree: nodes.document) -> None:
    """Keep the punctuation after a formula in its line: browsers would break the line between the two."""
    for math in list(doctree.findall(nodes.math)):
        paragraph = math.parent
        index = paragraph.index(math)
        following = paragraph[index + 1] if index + 1 < len(paragraph) else None
        if isinstance(following, nodes.Text) and (match := re.match(r"[.,;:?!)]+", following)):
            # By their indices, because texts are found by what they say, which may occur twice in a paragraph.
            paragraph[index + 1] = nodes.Text(following[match.end() :])
            paragraph[index] = span = nodes.inline("", "", classes=["with-punctuation"])
            span += [math, nodes.Text(match[0])]


class PictureDirective(SphinxDirective):
    """``{picture} transformer.plots.MODULE.FUNCTION`` with ``:alt:``: the figure that the function returns."""

    required_arguments = 1
    option_spec: ClassVar = {"alt": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Return the nodes in place of the directive."""
        module, function = self.arguments[0].rsplit(".", 1)
        figure = getattr(importlib.import_module(module), function)()
        return [nodes.raw("", Picture(figure, self.options.get("alt", ""))._repr_html_(), format="html")]


class SourceDirective(SphinxDirective):
    """``{source}``: the code of functions and classes, a name such as ``transformer.masks.causal_mask`` per line."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the nodes in place of the directive."""
        found = [_find(name.strip()) for name in self.content]
        for item in found:
            self.env.note_dependency(str(inspect.getsourcefile(item)))
        code = repr(SourceCode(*found))
        return [nodes.literal_block(code, code, language="python")]


def _find(name: str) -> Any:
    """Return the function, class or method with a full name."""
    parts = name.split(".")
    for n in range(len(parts) - 1, 0, -1):
        with suppress(ModuleNotFoundError):
            return reduce(getattr, parts[n:], importlib.import_module(".".join(parts[:n])))
    raise ExtensionError(f"there is no {name}")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive and the event handlers with Sphinx."""
    app.add_directive("picture", PictureDirective)
    app.add_directive("source", SourceDirective)
    app.connect("doctree-resolved", link_within_the_book)
    app.connect("doctree-read", label_folds)
    app.connect("doctree-read", keep_punctuation)
    app.connect("html-page-context", add_charts)
    app.connect("html-page-context", add_excerpts)
    app.connect("html-page-context", fix_bibliography_roles)
    app.connect("html-page-context", indent_wrapped_lines)
    app.connect("html-page-context", wrap_sentences)
    app.connect("html-page-context", change_buttons, priority=900)  # after the theme has added its buttons
    return {"parallel_read_safe": True, "parallel_write_safe": True}
