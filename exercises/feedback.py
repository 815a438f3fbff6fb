"""Write feedback notebooks: copies of the learners' notebooks, with the grader's message below each answer.

Nothing is run.
"""

import os
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from exercises.grade import Grade
from exercises.notebooks import Notebook, answer_key, notebook_text, read_notebook
from transformer.errors import UserError

TAG = "feedback"
"""The tag of the cells that are added."""


def check_folder(folder: Path, names: Sequence[str]) -> None:
    """Refuse a folder for feedback in which files could be overwritten, or notebooks would be graded the next time.

    Args:
        folder: where feedback notebooks will be written; it need not exist.
        names: the notebooks and folders that are graded.

    Raises:
        UserError: if it isn't empty, or lies in a folder that is graded.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"cannot write feedback to {folder}: it is not an empty folder")
    for name in names:
        graded = Path(os.path.expanduser(name))
        if graded.is_dir() and folder.resolve().is_relative_to(graded.resolve()):
            raise UserError(f"cannot write feedback to {folder}: the notebooks in {name} are graded")


def write_feedback(grades: Sequence[Grade], folder: Path) -> list[str]:
    """Write a feedback notebook for each notebook that was graded, in the same subfolders.

    Returns:
        A line for each notebook for which this failed.
    """
    failures = []
    graded = [grade for grade in grades if not grade.failure]
    paths = [Path(os.path.abspath(grade.path)) for grade in graded]
    top = os.path.commonpath([path.parent for path in paths]) if paths else ""
    for grade, path in zip(graded, paths, strict=True):
        target = folder / path.relative_to(top)
        try:
            text = notebook_text(add_feedback(read_notebook(grade.path), grade))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode("utf-8", "replace"))
        except Exception as error:  # whatever is wrong with one notebook, the others get their feedback
            failures.append(f"no feedback for {grade.path}: {type(error).__name__}: {error}")
    return failures


def add_feedback(notebook: Notebook, grade: Grade) -> Notebook:
    """Return the notebook with the points at the top and a message below each answer; older feedback is removed."""
    cells = [cell for cell in notebook["cells"] if TAG not in cell.get("metadata", {}).get("tags", [])]
    has_ids = all("id" in cell for cell in cells)
    added = [_feedback_cell("points", f"{grade.points} of {len(grade.messages)}", has_ids)]
    for cell in cells:
        added.append(cell)
        if (key := answer_key(cell)) in grade.messages:
            added.append(_feedback_cell(str(key), textwrap.dedent("\n".join(grade.describe(str(key)))), has_ids))
    return {"metadata": {}, "nbformat": 4, "nbformat_minor": 5, **notebook, "cells": added}


def _feedback_cell(name: str, message: str, has_id: bool) -> dict[str, Any]:
    """Return a text cell that shows a message as it is, whatever characters it contains."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", message)), default=0))
    source = f"**Feedback**\n\n{fence}text\n{message}\n{fence}"
    cell = {"cell_type": "markdown", "metadata": {"tags": [TAG]}, "source": source}
    return {"id": f"{TAG}-{name}", **cell} if has_id else cell
