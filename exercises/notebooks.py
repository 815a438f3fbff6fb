"""Find, read and write the notebooks of the exercises, and recognise their cells.

Notebooks are read as plain JSON, because importing nbformat takes seconds.
"""

import json
import re
from pathlib import Path
from typing import Any

from transformer.errors import UserError

Notebook = dict[str, Any]
Cell = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent
"""The folder of the course: the repository, or where the package is installed."""

MAX_BYTES = 100 * 10**6
"""Larger files are not read."""

NOT_DONE = "not done yet"
"""The beginning of the message of an open blank."""

PLACEHOLDER = f'raise NotImplementedError("{NOT_DONE}: write your code in place of this line")'
"""The line in an exercise that the learner replaces by an answer."""


def solution_sources(root: Path = ROOT) -> list[Path]:
    """Return the path of every ``solutions/NN_topic.py``, in order.

    Raises:
        UserError: if there are none, because the package was installed without its repository.
    """
    paths = sorted((root / "solutions").glob("[0-9][0-9]_*.py"))
    if not paths:
        raise UserError(f"there are no solutions in {root / 'solutions'}: run this in a clone of the course")
    return paths


def course_notebooks(root: Path = ROOT) -> list[Path]:
    """Return the notebook of every topic into which answers are inserted for grading, in order.

    In a clone of the repository these are the solutions. Where the package was installed without them, as in Colab,
    these are the exercises that were installed with it, which learners don't edit.
    """
    return sorted((root / "solutions").glob("[0-9][0-9]_*.ipynb")) or sorted(
        (root / "exercises").glob("[0-9][0-9]_*.ipynb")
    )


def exercise_path(source: Path) -> Path:
    """Return the path of the exercise: ``solutions/02_attention.py`` → ``exercises/02_attention.ipynb``."""
    return source.parent.parent / "exercises" / f"{source.stem}.ipynb"


def topic_of(path: Path) -> str:
    """Return the topic: ``02_attention.py`` → ``attention``."""
    return path.stem[3:]


def answer_key(cell: Cell) -> str | None:
    """Return which exercise a cell answers, from its ``# answer:`` line: Colab may drop tags but keeps the source."""
    match = re.search(r"^# answer: *(\w+) *$", cell["source"], flags=re.MULTILINE)
    return match[1] if match and cell["cell_type"] == "code" else None


def check_key(cell: Cell) -> str | None:
    """Return which exercise a cell checks."""
    match = re.search(r'\bcheck\("(\w+)", \1\)$', cell["source"])
    return match[1] if match and cell["cell_type"] == "code" else None


def read_notebook(path: Path) -> Notebook:
    """Read a notebook, and join the source of every cell to one string.

    Halves of surrogate pairs, which no file can contain, become question marks.

    Raises:
        UserError: if the file is missing, unreadable or not a notebook.
    """
    try:
        if path.exists() and not path.is_file():
            raise UserError(f"{path} is not a file")
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"{path} is larger than {MAX_BYTES // 10**6} MB: clear its outputs and save it again")
        notebook: Notebook = json.loads(path.read_text("utf-8-sig"))
        for cell in notebook["cells"]:
            cell["source"] = "".join(cell["source"]).encode("utf-8", "replace").decode()
            cell["cell_type"]
    except FileNotFoundError:
        raise UserError(f"there is no notebook {path}") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise UserError(f"{path} is not a notebook") from None
    return notebook


def notebook_text(notebook: Notebook) -> str:
    """Return the notebook as JSON text, formatted as Jupyter saves it."""
    cells = [{**cell, "source": "".join(cell["source"]).splitlines(keepends=True)} for cell in notebook["cells"]]
    return json.dumps({**notebook, "cells": cells}, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
