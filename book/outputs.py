"""Give the chapters' notebooks their outputs, for a branch that GitHub shows: ``python -m book.outputs FOLDER``.

The notebooks that the book's build has executed are written to FOLDER. GitHub doesn't show drawings within the HTML of
an output, so each becomes a PNG image, made by the browser. The main branch has no outputs: they would add megabytes to
the repository with every change of a chapter.
"""

import base64
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_output
from playwright.sync_api import sync_playwright

from book.browser import find_browser, launch

ROOT = Path(__file__).parents[1]
EXECUTED = ROOT / "_build" / "jupyter_execute" / "chapters"
DRAWING = re.compile(r'<svg role="img".*?</svg>', re.DOTALL)
CAPTION = re.compile(r"<figcaption[^>]*>(.*?)</figcaption>", re.DOTALL)

Draw = Callable[[str], bytes]
"""Makes a PNG image of the HTML of a drawing."""


def with_outputs(committed: NotebookNode, executed: NotebookNode, draw: Draw) -> NotebookNode:
    """Give a committed notebook the outputs of its execution: ``committed`` is changed, and returned.

    Raises:
        ValueError: if the executed notebook has other cells, because the book was built from another version of it, or
            no outputs, because it was not executed in the last build.
    """
    if [cell.source for cell in committed.cells] != [cell.source for cell in executed.cells]:
        raise ValueError("the book was built from another version of this notebook: run make book again")
    if not any(cell.get("outputs") for cell in executed.cells):
        raise ValueError("the build took its outputs from the cache: run make clean, then make book")
    for cell, other in zip(committed.cells, executed.cells, strict=True):
        if cell.cell_type == "code":
            cell.outputs = [new for output in other.outputs for new in _as_images(output, draw)]
            cell.execution_count = other.execution_count
    return committed


def _as_images(output: NotebookNode, draw: Draw) -> list[NotebookNode]:
    """Return an output as it is, or, if its HTML consists of drawings, an image for each of them, and the caption."""
    data: dict[str, Any] = output.get("data", {})
    html = data.get("text/html", "")
    drawings = DRAWING.findall(html)
    if not drawings or "<script" in html:
        return [output]
    images = [{"image/png": base64.b64encode(draw(drawing)).decode()} for drawing in drawings]
    captions = [{"text/markdown": f"*{caption}*"} for caption in CAPTION.findall(html)]
    return [new_output("display_data", data=data) for data in [*images, *captions]]


def main() -> int:
    """Write the notebooks. Return 1 and print the reason if that isn't possible; return 2 if no folder is given."""
    if len(sys.argv) != 2:
        print("usage: python -m book.outputs FOLDER", file=sys.stderr)
        return 2
    if not EXECUTED.is_dir() or find_browser() is None:
        missing = "the book isn't built: make book" if not EXECUTED.is_dir() else "this needs Chromium or Chrome"
        print(f"error: {missing}", file=sys.stderr)
        return 1
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        page = launch(playwright).new_page(device_scale_factor=2)

        def draw(drawing: str) -> bytes:
            page.set_content(drawing)
            return page.locator("svg").screenshot()

        for path in sorted((ROOT / "chapters").glob("*.ipynb")):
            try:
                executed = nbformat.read(EXECUTED / path.name, as_version=4)
                notebook = with_outputs(nbformat.read(path, as_version=4), executed, draw)
            except (OSError, ValueError) as error:
                print(f"error: {path.name}: {error}", file=sys.stderr)
                return 1
            nbformat.write(notebook, folder / path.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
