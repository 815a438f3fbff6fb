"""Punctuation after a formula stays in the formula's line, and all other text stays as it is."""

from docutils import nodes
from docutils.utils import new_document

from book._ext.course import keep_punctuation


def test_only_the_punctuation_after_the_formula_is_moved() -> None:
    document = new_document("a page")
    parts = [
        nodes.emphasis("", "cat"),
        nodes.Text(". For "),  # the same text as after the formula
        nodes.math("", "w > 1"),
        nodes.Text(". For "),
        nodes.math("", "x"),
    ]
    document += nodes.paragraph("", "", *parts)
    keep_punctuation(None, document)  # type: ignore[arg-type]
    assert document.astext() == "cat. For w > 1. For x"
    assert [span.astext() for span in document.findall(nodes.inline)] == ["w > 1."]
