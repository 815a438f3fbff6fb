"""The notebooks of the branch ``with-outputs``: figures as images, everything else as it was."""

import base64
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
    return list(with_outputs(notebook(), notebook(*outputs), draw).cells[1].outputs)


def draw(drawing: str) -> bytes:
    """Return the label of a drawing, which must be complete, in place of an image."""
    return ElementTree.fromstring(drawing).attrib["aria-label"].encode()


def image(label: str) -> dict[str, str]:
    return {"image/png": base64.b64encode(label.encode()).decode()}


def test_a_figure_becomes_an_image_with_its_caption_below() -> None:
    outputs = outputs_of(shown(picture('A line & a "point".', "It rises.")))
    assert [output.data for output in outputs] == [image('A line & a "point".'), {"text/markdown": "*It rises.*"}]


def test_each_figure_of_a_row_is_an_image() -> None:
    row = style.Row(picture("one"), picture("two"), caption="Both rise.")
    outputs = outputs_of(shown(row))
    assert [output.data for output in outputs] == [image("one"), image("two"), {"text/markdown": "*Both rise.*"}]


def test_other_outputs_stay() -> None:
    text = new_output("stream", name="stdout", text="2\n")
    chart = new_output("display_data", data={"text/html": "<div></div><script>draw()</script>"})
    assert outputs_of(text, chart) == [text, chart]


def test_a_notebook_that_has_changed_since_is_refused() -> None:
    changed = notebook()
    changed.cells[1].source = "1 + 2"
    with pytest.raises(ValueError, match="another version"):
        with_outputs(notebook(), changed, draw)


def test_a_notebook_that_was_not_executed_is_refused() -> None:
    with pytest.raises(ValueError, match="run make clean"):
        with_outputs(notebook(), notebook(), draw)
