"""Links from the chapters to the glossary: the first bold occurrence of a term leads to its definition."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode

LINK = "glossary-term"
"""The class of these links, which course.css shows as bold text with dots below it."""


def link_terms(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Link the first bold occurrence of each term of the glossary in a chapter."""
    if not page.startswith("chapters/"):
        return
    terms = app.env.domaindata["std"]["terms"]
    linked = set()
    for bold in list(doctree.findall(nodes.strong)):
        term = find_term(bold.astext(), terms)
        if term is None or term in linked or is_within(bold, nodes.reference, nodes.title):
            continue
        linked.add(term)
        glossary, anchor = terms[term]
        link = make_refnode(app.builder, page, glossary, anchor, bold.deepcopy())
        link["classes"].append(LINK)
        bold.replace_self(link)


def find_term(text: str, terms: dict[str, Any]) -> str | None:
    """Return the term of the glossary that a text is, in lower case; the text may be its plural."""
    text = text.lower()
    return next((term for term in (text, text.removesuffix("s")) if term in terms), None)


def is_within(node: nodes.Element, *kinds: type[nodes.Element]) -> bool:
    """Return whether a node is within one of these kinds."""
    parent = node.parent
    while parent is not None and not isinstance(parent, kinds):
        parent = parent.parent
    return parent is not None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the event handler with Sphinx."""
    app.connect("doctree-resolved", link_terms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
