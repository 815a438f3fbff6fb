"""The data of book/chapters.yml: the chapters' cards on the first page, and their entries in the index.

The book's search lists index entries first, so a search for a term finds the chapter that explains it.
"""

import html
import pickle
import re
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import yaml
from docutils import nodes
from sphinx import addnodes
from sphinx.application import ENV_PICKLE_FILENAME, Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

FILE = Path(__file__).parent.parent / "chapters.yml"
SVG = "http://www.w3.org/2000/svg"
LINK = "{http://www.w3.org/1999/xlink}href"
MARGIN = 6
"""The margin around the shapes of a thumbnail, in points."""

INK = {"light": "black", "dark": "#ced6dd"}
"""The colour of text and lines in a thumbnail, which is a separate image and can't follow the page's theme."""


@cache
def chapters() -> dict[str, dict[str, Any]]:
    """Return the data of each chapter, by the name of its page."""
    return {f"chapters/{name}": facts for name, facts in yaml.safe_load(FILE.read_text("utf-8")).items()}


class IndexTerms(SphinxTransform):
    """Gives a chapter the index entries of its terms."""

    default_priority = 800  # before Sphinx collects the entries of a page

    def apply(self, **_: Any) -> None:
        """Insert the entries below the title."""
        facts = chapters().get(self.env.docname)
        section = next(iter(self.document.findall(nodes.section)), None)
        if facts is None or section is None:
            return
        self.env.note_dependency(str(FILE))
        kinds = {term: "see" if "; " in term else "single" for term in facts["terms"]}
        entries = [(kind, term, section["ids"][0], "main", None) for term, kind in kinds.items()]
        section.insert(1, addnodes.index(entries=entries))


class ChapterCards(SphinxDirective):
    """``{chapters} FIRST LAST``: the cards of the chapters with these numbers, on the root page of the book."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        """Return a placeholder, which is replaced when the chapters have been read and have titles."""
        self.env.note_dependency(str(FILE))
        self.env.note_reread()
        return [nodes.raw("", "", format="html", chapters=range(int(self.arguments[0]), int(self.arguments[1]) + 1))]


def fill_cards(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Replace the placeholders of a page with a list of cards."""
    for placeholder in doctree.findall(lambda node: isinstance(node, nodes.raw) and "chapters" in node):
        names = list(chapters())
        cards = [card(app.env, names[number - 1], number) for number in placeholder["chapters"]]
        text = f'<ol class="chapters" start="{placeholder["chapters"].start}">{"".join(cards)}</ol>'
        placeholder.children = [nodes.Text(text)]


def card(env: BuildEnvironment, page: str, number: int) -> str:
    """Return the card of a chapter as a list item: a thumbnail for each theme, the title with a link, a sentence."""
    title, _, _ = env.titles[page].astext().partition(":")
    summary = html.escape(chapters()[page]["summary"])
    images = "".join(
        f'<img class="only-{theme}" src="_static/thumbnails/{number:02d}-{theme}.svg" alt="" width="240" height="150">'
        for theme in INK
    )
    return f'<li>{images}<a href="{page}.html">{number} · {html.escape(title)}</a><p>{summary}</p></li>'


def write_thumbnails(app: Sphinx, error: Exception | None) -> None:
    """Write a thumbnail for each chapter: one of its figures without its text, which would be too small to read."""
    if error or app.builder.format != "html":
        return
    folder = Path(app.outdir) / "_static" / "thumbnails"
    folder.mkdir(parents=True, exist_ok=True)
    for number, (page, facts) in enumerate(chapters().items(), 1):
        found = figures(app.env.get_doctree(page))
        figure = found[min(facts["figure"], len(found)) - 1]
        thumbnail = without_text(figure)
        for theme, ink in INK.items():
            (folder / f"{number:02d}-{theme}.svg").write_text(thumbnail.replace("currentColor", ink), "utf-8")


def figures(doctree: nodes.document) -> list[str]:
    """Return the figures of a page that are SVG images."""
    text = "".join(node.astext() for node in doctree.findall(nodes.raw))
    return [svg for svg in re.findall("<svg.*?</svg>", text, re.DOTALL) if 'role="img"' in svg]


def without_text(svg: str) -> str:
    """Return an SVG image of matplotlib, made smaller: without its text, legends, and long numbers."""
    ElementTree.register_namespace("", SVG)
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for group in list(parent):
            is_text = any(use.get(LINK, "").startswith("#DejaVu") for use in group.findall(f"{{{SVG}}}use"))
            if is_text or group.get("class") == "legend":
                parent.remove(group)
    crop(root)
    return re.sub(r"\s+", " ", re.sub(r"(\d\.\d)\d+", r"\1", ElementTree.tostring(root, "unicode")))


def path_points(shape: ElementTree.Element) -> list[tuple[float, float]]:
    """Return the points of a path by matplotlib, in which each pair of numbers is a point."""
    numbers = [float(number) for number in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", shape.get("d", ""))]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def crop(root: ElementTree.Element) -> None:
    """Crop a drawing to its shapes, which are off-centre once its text has been removed."""
    defined = {part for defs in root.iter(f"{{{SVG}}}defs") for part in defs.iter()}
    by_address = {f"#{part.get('id')}": path_points(part) for part in defined}
    points: list[tuple[float, float]] = []
    for shape in set(root.iter()) - defined:
        style = shape.get("style", "")
        if shape.tag == f"{{{SVG}}}use":
            x, y = float(shape.get("x", 0)), float(shape.get("y", 0))
            points += [(x + dx, y + dy) for dx, dy in by_address.get(shape.get(LINK, ""), [])]
        elif "stroke:" in style or "fill: none" not in style:
            points += path_points(shape)
    left, top, width, height = map(float, root.get("viewBox", "").split())
    xs = [min(max(x, left), left + width) for x, _ in points]
    ys = [min(max(y, top), top + height) for _, y in points]
    left, top = min(xs) - MARGIN, min(ys) - MARGIN
    width, height = max(xs) + MARGIN - left, max(ys) + MARGIN - top
    root.attrib |= {"viewBox": f"{left} {top} {width} {height}", "width": f"{width}pt", "height": f"{height}pt"}


def save_index_entries(app: Sphinx, error: Exception | None) -> None:
    """Save Sphinx's environment again, now that it has the index entries of the search.

    Sphinx saves it before collecting them, so the search would lose them in the next build that rereads few pages.
    What Sphinx cached while writing the pages isn't saved: the next build would show an old list of contents.
    """
    if not error:
        vars(app.env).pop("master_doctree", None)
        with (Path(app.doctreedir) / ENV_PICKLE_FILENAME).open("wb") as file:
            pickle.dump(app.env, file, pickle.HIGHEST_PROTOCOL)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform, the directive and the event handlers with Sphinx."""
    app.add_transform(IndexTerms)
    app.add_directive("chapters", ChapterCards)
    app.connect("doctree-resolved", fill_cards)
    app.connect("build-finished", write_thumbnails)
    app.connect("build-finished", save_index_entries)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
