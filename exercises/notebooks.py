"""Where the notebooks are, how they are read, and how their cells are told apart.

A notebook is read as the JSON that it is: importing nbformat takes seconds, and the grader would wait for them.
"""

import json
import re
from pathlib import Path
from typing import Any

from transformer.errors import UserError

Notebook = dict[str, Any]
Cell = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent
"""The checkout of the course."""


def sources(root: Path = ROOT) -> list[Path]:
    """Every ``solutions/NN_topic.py``, in order.

    Raises:
        UserError: if there are none, because the package was installed without its repository.
    """
    found = sorted((root / "solutions").glob("[0-9][0-9]_*.py"))
    if not found:
        raise UserError(f"there are no solutions in {root / 'solutions'}: run this in a clone of the course")
    return found


def skeletons(root: Path = ROOT) -> list[Path]:
    """The notebook of every topic, into which answers are put to be graded, in order.

    In a clone these are the solutions. Where the package was installed without them, as in Colab, they are the
    exercises that came with it, which nobody works in there.
    """
    return sorted((root / "solutions").glob("[0-9][0-9]_*.ipynb")) or sorted(
        (root / "exercises").glob("[0-9][0-9]_*.ipynb")
    )


def topic_of(path: Path) -> str:
    """``02_attention.py`` → ``attention``."""
    return path.stem[3:]


def answer_key(cell: Cell) -> str | None:
    """Which exercise this cell answers, from the line that says so: Colab may drop tags, but it keeps the source."""
    found = re.search(r"^# answer: *(\w+) *$", cell["source"], flags=re.MULTILINE)
    return found[1] if found and cell["cell_type"] == "code" else None


def check_key(cell: Cell) -> str | None:
    """Which exercise this cell checks."""
    found = re.search(r'\bcheck\("(\w+)", \1\)$', cell["source"])
    return found[1] if found and cell["cell_type"] == "code" else None


def read(path: Path) -> Notebook:
    """Read a notebook; the source of every cell becomes one string.

    Raises:
        UserError: if there is none, or it is not a notebook.
    """
    try:
        notebook: Notebook = json.loads(path.read_text("utf-8"))
        for cell in notebook["cells"]:
            cell["source"] = "".join(cell["source"])
            cell["cell_type"]
    except FileNotFoundError:
        raise UserError(f"there is no notebook {path}") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError):
        raise UserError(f"{path} is not a notebook") from None
    return notebook


def write(notebook: Notebook) -> str:
    """The notebook's text, as Jupyter would save it."""
    cells = [{**cell, "source": "".join(cell["source"]).splitlines(keepends=True)} for cell in notebook["cells"]]
    return json.dumps({**notebook, "cells": cells}, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
