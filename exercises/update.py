"""Copy a learner's answers into a new version of the course."""

import re
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from exercises.make import make_exercise
from exercises.notebooks import (
    ROOT,
    Cell,
    Notebook,
    answer_key,
    check_answers_are_unique,
    check_key,
    find_original,
    is_open,
    notebook_text,
    read_notebook,
    solution_sources,
)
from exercises.record import delete_record
from transformer.errors import UserError
from transformer.files import read_bytes, write_atomically

COURSE_CELL_ID = re.compile(r"[a-z0-9-]+-\d{1,2}")
"""The ids of the course's cells look like this; those that Jupyter and Colab give to new cells don't."""


def update(path: Path, root: Path = ROOT) -> str:
    """Replace a filled-in notebook with its current version, keeping the learner's answers and the cells they added.

    The old notebook is kept as ``NAME.ipynb.bak``. Answers to exercises that no longer exist are appended as text.

    Returns:
        One line that describes what was copied, and what wasn't.

    Raises:
        UserError: if the file is not an exercise notebook, an answer cell occurs twice, or ``NAME.ipynb.bak`` already
            exists.
    """
    old = read_notebook(path)
    check_answers_are_unique(old, path)
    answers = {key: cell["source"] for cell in old["cells"] if (key := answer_key(cell))}
    exercises = {source: make_exercise(source) for source in solution_sources(root)}
    keys = {source: {key for cell in new["cells"] if (key := answer_key(cell))} for source, new in exercises.items()}
    source = find_original(path, answers, keys)
    new = exercises[source]
    course_texts = {_without_docstring(cell["source"]) for cell in new["cells"]}
    left_out = [cell for cell in old["cells"] if _without_docstring(cell["source"]) not in course_texts]
    unfinished = [cell for cell in left_out if answer_key(cell) and is_open(cell["source"])]
    nameless = [cell for cell in left_out if not (_cell_id(cell) or answer_key(cell) or check_key(cell))]
    copied = [key for key, text in answers.items() if key in keys[source] and not is_open(text)]
    for cell in new["cells"]:
        if (key := answer_key(cell)) in copied:
            cell["source"] = answers[str(key)]
    added = _insert_cells(new, _added_cells(old))
    removed = [text for key, text in answers.items() if key not in keys[source] and not is_open(text)]
    new["cells"] += map(_text_cell, removed)
    text = notebook_text(new)
    backup = path.with_name(f"{path.name}.bak")
    summary = f"{path}: copied {_count(len(copied), 'answer')} and {_count(added, 'cell')} of your own"
    if removed:
        summary += f"; appended {_count(len(removed), 'answer')} to exercises that no longer exist"
    if unfinished:
        summary += f"; not copied, but kept in {backup.name}: {_count(len(unfinished), 'unfinished answer')}"
    if nameless:
        summary += f"; not copied, but kept in {backup.name}: {_count(len(nameless), 'cell')} without an id"
    if backup.exists():
        raise UserError(f"{backup} already exists and would be overwritten: move it away first")
    try:
        write_atomically(backup, read_bytes(path))
        write_atomically(path, text.encode())
    except OSError as error:
        backup.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {error.strerror}; it is unchanged") from None
    with suppress(OSError):
        delete_record(path)  # the new version may ask for something else
    return summary


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _without_docstring(source: str) -> str:
    """Return a text without what may differ between versions of a blank: its docstring, and space at the end."""
    return re.sub(r'""".*?"""', "", source, flags=re.DOTALL).strip()


def _cell_id(cell: Cell) -> str:
    """Return the id of a cell; Colab keeps it in the metadata."""
    return str(cell.get("id") or cell.get("metadata", {}).get("id", ""))


def _added_cells(notebook: Notebook) -> dict[str, list[Cell]]:
    """Return the learner's own cells by the id of the course's cell that they follow; "" for those at the top."""
    added: dict[str, list[Cell]] = {}
    previous = ""
    for cell in notebook["cells"]:
        name = _cell_id(cell)
        if COURSE_CELL_ID.fullmatch(name):
            previous = name
        elif name and not answer_key(cell) and not check_key(cell):
            added.setdefault(previous, []).append({**cell, "id": name})
    return added


def _insert_cells(notebook: Notebook, added: dict[str, list[Cell]]) -> int:
    """Insert cells after those that they followed, or at the end if these no longer exist; return their number."""
    ids = {cell["id"] for cell in notebook["cells"]}
    orphans = [cell for previous, cells in added.items() if previous and previous not in ids for cell in cells]
    cells = [*added.get("", [])]
    for cell in notebook["cells"]:
        cells += [cell, *added.get(cell["id"], [])]
    notebook["cells"] = [*cells, *orphans]
    return sum(map(len, added.values()))


def _text_cell(answer: str) -> Cell:
    """Return an answer as a text cell, with an id that the next update takes for one of the learner's own cells."""
    name = f"earlier-answer-{uuid4().hex[:8]}"
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": f"```python\n{answer}\n```"}
