"""Find, read and write the notebooks of the exercises, and recognise their cells.

Notebooks are read as plain JSON, because importing nbformat takes seconds.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformer.command_line import check_name
from transformer.errors import UserError
from transformer.files import read_bytes

Notebook = dict[str, Any]
Cell = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent
"""The folder of the course: the repository, or where the package is installed."""

MAX_BYTES = 100 * 10**6
"""Larger files are not read."""

NOT_DONE = "not done yet"
"""The beginning of the message of an open blank."""

PLACEHOLDER = f'raise NotImplementedError("{NOT_DONE}: write your code in place of this line")'
"""The line in an exercise that the learner replaces with an answer."""

PLACEHOLDER_BEFORE_BUGS = f'raise NotImplementedError("{NOT_DONE}: repair the code below, then delete this line")'
"""The first line in an exercise that begins with code to repair."""


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
    """Return the notebooks into which answers are inserted for grading: one for each topic, in order.

    In a clone of the repository these are the solutions. Where the package was installed without them, as in Colab,
    these are the exercises that were installed with it, which learners don't edit.
    """
    return sorted((root / "solutions").glob("[0-9][0-9]_*.ipynb")) or sorted(
        (root / "exercises").glob("[0-9][0-9]_*.ipynb")
    )


def find_notebooks(names: Sequence[str], root: Path = ROOT) -> list[Path]:
    """Return the paths of the notebooks with these names, each once.

    Args:
        names: as in `grade_all`.
        root: the checkout of the course.

    Raises:
        UserError: if there is no notebook for a name.
    """
    topics = {path.stem: root / "exercises" / path.name for path in course_notebooks(root)}
    paths: list[Path] = []
    for name in names:
        path = Path(os.path.expanduser(name))
        if name == "all":
            paths += topics.values()
        elif matches := [p for stem, p in topics.items() if name in (stem, stem[3:], stem[:2], stem[:2].lstrip("0"))]:
            paths += matches
        elif name and path.is_dir():
            inside = [file for file in sorted(path.rglob("*.ipynb")) if not _is_hidden(file.relative_to(path))]
            if not inside:
                raise UserError(f"there is no notebook in the folder {name}")
            paths += inside
        elif name and (name.endswith(".ipynb") or os.sep in name or path.exists()):
            paths.append(path)
        else:
            check_name(name, [*(stem[3:] for stem in topics), "all"], "exercise")
    return list(dict.fromkeys(paths))


def check_not_installed(paths: Sequence[Path], root: Path = ROOT) -> None:
    """Refuse the empty exercises that were installed with the package: learners work on other files.

    Raises:
        UserError: if the package was installed without its repository, and one of the notebooks is in its folder.
    """
    installed = [path for path in paths if path.parent == root / "exercises"]
    if installed and not (root / "solutions").is_dir():
        raise UserError(
            f"{installed[0]} is the empty notebook that was installed with the course: name your own copy. "
            "In Colab, run the last cell of your notebook instead"
        )


def _is_hidden(path: Path) -> bool:
    """Return whether a file is hidden, such as Jupyter's checkpoints and what macOS adds to archives."""
    return any(part.startswith(".") for part in path.parts)


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
    match = re.search(r"""\bcheck\((["'])(\w+)\1, *\2\)[;\s]*(#.*)?$""", cell["source"])
    return match[2] if match and cell["cell_type"] == "code" else None


def is_open(answer: str) -> bool:
    """Return whether the line to replace or to delete is still in an answer; as a comment, it doesn't count."""
    lines = "|".join(map(re.escape, (PLACEHOLDER, PLACEHOLDER_BEFORE_BUGS)))
    return re.search(rf"^ *({lines})", answer, flags=re.MULTILINE) is not None


def check_answers_are_unique(notebook: Notebook, path: Path) -> None:
    """Refuse a notebook with several answer cells of one exercise.

    Raises:
        UserError: if there are several.
    """
    for key, count in Counter(filter(None, map(answer_key, notebook["cells"]))).items():
        if count > 1:
            raise UserError(f"{path}: more than one cell begins with `# answer: {key}`; keep only one of them")


def find_original(path: Path, answers: Collection[str], exercises: Mapping[Path, Collection[str]]) -> Path:
    """Return the notebook of the course that has the most exercises in common with a learner's.

    Args:
        path: the learner's notebook.
        answers: the names of its answers.
        exercises: notebook of the course → the names of its exercises.

    Raises:
        UserError: if they have none in common.
    """
    common = {original: len({*answers} & {*names}) for original, names in exercises.items()}
    original = max(common, key=lambda original: common[original])
    if not common[original]:
        raise UserError(f"{path} is not an exercise notebook: it has no cell that begins with `# answer: …`")
    return original


def read_notebook(path: Path) -> Notebook:
    """Read a notebook, and join the source of every cell, and the text of every output, into one string.

    Halves of surrogate pairs, which no file can contain, become question marks.

    Raises:
        UserError: if the file is missing, unreadable or not a notebook.
    """
    data = read_bytes(path, f"the notebook {path}", MAX_BYTES)
    try:
        notebook: Notebook = json.loads(data.decode("utf-8-sig"))
        for cell in notebook["cells"]:
            source = "".join(cell["source"]).replace("\r\n", "\n")
            cell["source"] = source.encode("utf-8", "replace").decode()
            cell["cell_type"]
            if "outputs" in cell:
                cell["outputs"] = _outputs(cell["outputs"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        problem = "is not a notebook, or is incomplete: save it again, or download it again"
        raise UserError(f"{path} {problem if path.suffix == '.ipynb' else 'is not a notebook'}") from None
    return notebook


def _outputs(outputs: Any) -> list[dict[str, Any]]:
    """Return the outputs of a cell with the text of each as one string, without any that Jupyter wouldn't write."""
    kept = [output for output in outputs if isinstance(output, dict)] if isinstance(outputs, list) else []
    for output in kept:
        text = output.get("text", "")
        lines = text if isinstance(text, list) else [text]
        if "text" in output:
            output["text"] = "".join(line for line in lines if isinstance(line, str))
    return kept


def notebook_text(notebook: Notebook) -> str:
    """Return the notebook as JSON text, formatted as Jupyter saves it."""
    cells = []
    for cell in notebook["cells"]:
        cell = _with_lines(cell, "source")
        if "outputs" in cell:
            cell["outputs"] = [_with_lines(output, "text") for output in cell["outputs"]]
        cells.append(cell)
    return json.dumps({**notebook, "cells": cells}, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _with_lines(values: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a copy in which a text, if it is there, is a list of lines, as in Jupyter's files."""
    return {**values, name: "".join(values[name]).splitlines(keepends=True)} if name in values else dict(values)
