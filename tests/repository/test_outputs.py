"""The notebooks of the branch ``with-outputs``: figures as outputs of their own, everything else as it was."""

from xml.etree import ElementTree

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from book.outputs import with_outputs
from transformer.plots import style
from transformer.plots.curves import curves


def picture(alt: str, caption: str = "") -> style.Picture:
    return style.Picture(curves([1, 2], {"a": [1, 2]}, "x", "y"), alt, caption)


def shown(item: object) -> NotebookNode:
    html = item._repr_html_()  # type: ignore[attr-defined]
    return new_output("execute_result", data={"text/html": html, "text/plain": repr(item)}, execution_count=1)


def notebook(*outputs: NotebookNode) -> NotebookNode:
    return new_notebook(cells=[new_markdown_cell("# Title"), new_code_cell("1 + 1", outputs=list(outputs))])


def outputs_of(*outputs: NotebookNode) -> list[NotebookNode]:
    return list(with_outputs(notebook(), notebook(*outputs)).cells[1].outputs)


def test_a_figure_becomes_an_output_that_github_shows() -> None:
    drawing, caption = outputs_of(shown(picture('A line & a "point".', "It rises.")))
    root = ElementTree.fromstring(drawing.data["image/svg+xml"])
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and root.attrib["aria-label"] == 'A line & a "point".'
    assert "background: white" in root.attrib["style"]
    assert caption.data == {"text/markdown": "*It rises.*"}


def test_each_figure_of_a_row_is_an_output() -> None:
    drawings = outputs_of(shown(style.Row(picture("one"), picture("two"))))
    labels = [ElementTree.fromstring(drawing.data["image/svg+xml"]).attrib["aria-label"] for drawing in drawings]
    assert labels == ["one", "two"]


def test_other_outputs_stay() -> None:
    text = new_output("stream", name="stdout", text="2\n")
    chart = new_output("display_data", data={"text/html": "<div></div><script>draw()</script>"})
    assert outputs_of(text, chart) == [text, chart]


def test_a_notebook_that_has_changed_since_is_refused() -> None:
    changed = notebook()
    changed.cells[1].source = "1 + 2"
    with pytest.raises(ValueError, match="another version"):
        with_outputs(notebook(), changed)
