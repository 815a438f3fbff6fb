"""How far a learner is, and how her answers get into the next edition of the course."""

import re
from collections.abc import Iterator
from pathlib import Path

from exercises.make import OPEN, blank, exercise_path, solution
from exercises.notebooks import ROOT, Cell, Notebook, answer_key, check_key, read, sources, write
from transformer.errors import UserError

OURS = re.compile(r"[a-z0-9-]+-\d{1,2}")
"""What the id of a cell looks like that the course made; Jupyter's and Colab's own do not."""


def status(root: Path = ROOT) -> Iterator[str]:
    """A line for each notebook, and one for all: ✓ the check said so, ✗ it said something else, · not done yet.

    Nothing is run: it is read from the outputs that the notebooks were saved with.
    """
    right = count = 0
    for source in sources(root):
        marks = _marks(exercise_path(source))
        right, count = right + marks.count("✓"), count + len(marks)
        name = source.stem.replace("_", " ")
        yield f"{name:24} {' '.join(marks):24} {marks.count('✓')} of {len(marks)}"
    yield f"{'together':49} {right} of {count}"


def update(path: Path, root: Path = ROOT) -> str:
    """Write a filled notebook anew, with the text of this edition, the learner's answers and the cells that she added.

    What it was stays beside it as ``NAME.before.ipynb``. An answer to a blank that is no more comes last in the
    notebook, as text.

    Returns:
        What was done, in a line.

    Raises:
        UserError: if the file is no exercise, or there is an earlier ``NAME.before.ipynb``.
    """
    old = read(path)
    answers = {key: cell["source"] for cell in old["cells"] if (key := answer_key(cell))}
    editions = {source: blank(solution(source)) for source in sources(root)}
    keys = {source: {answer_key(cell) for cell in new["cells"]} - {None} for source, new in editions.items()}
    source = max(keys, key=lambda source: len(keys[source] & answers.keys()))
    if not keys[source] & answers.keys():
        raise UserError(f"{path} is none of the exercises: it has no cell that begins with `# answer: …`")
    new = editions[source]
    kept = [key for key, text in answers.items() if key in keys[source] and OPEN not in text]
    for cell in new["cells"]:
        if (key := answer_key(cell)) in kept:
            cell["source"] = answers[str(key)]
    added = _put_in(new, _added(old))
    gone = [text for key, text in answers.items() if key not in keys[source] and OPEN not in text]
    new["cells"] += [_note(number, text) for number, text in enumerate(gone)]
    text = write(new)
    told = f"{path}: {len(kept)} answers and {added} cells of your own carried over"
    if gone:
        told += f"; {len(gone)} of a blank that is no more, at its end"
    before = path.with_suffix(".before.ipynb")
    if before.exists():
        raise UserError(f"{before} is there already: move it away first, or what it holds would be lost")
    before.write_bytes(path.read_bytes())
    path.write_text(text, "utf-8", newline="\n")
    return told


def _marks(path: Path) -> list[str]:
    """A mark for each blank of a notebook."""
    cells = read(path)["cells"]
    opened = {key for cell in cells if (key := answer_key(cell)) and OPEN in cell["source"]}
    return [_mark(key, cell, opened) for cell in cells if (key := check_key(cell))]


def _mark(key: str, check: Cell, opened: set[str]) -> str:
    said = "".join("".join(output.get("text", "")) for output in check["outputs"])
    return "✓" if said == f"✓ {key}\n" else "·" if key in opened or not check["outputs"] else "✗"


def _added(notebook: Notebook) -> dict[str, list[Cell]]:
    """The learner's own cells, by the id of the course's cell that they stand behind; "" for the first ones."""
    found: dict[str, list[Cell]] = {}
    last = ""
    for cell in notebook["cells"]:
        name = cell.get("id", "")
        if OURS.fullmatch(name):
            last = name
        elif name and not answer_key(cell) and not check_key(cell):
            found.setdefault(last, []).append(cell)
    return found


def _put_in(notebook: Notebook, added: dict[str, list[Cell]]) -> int:
    """Put cells behind those that they stood behind, or last if that one is gone; how many there were."""
    ids = {cell["id"] for cell in notebook["cells"]}
    lost = [cell for last, cells in added.items() if last and last not in ids for cell in cells]
    placed = [*added.get("", [])]
    for cell in notebook["cells"]:
        placed += [cell, *added.get(cell["id"], [])]
    notebook["cells"] = [*placed, *lost]
    return sum(map(len, added.values()))


def _note(number: int, text: str) -> Cell:
    """An answer as a text cell."""
    return {"cell_type": "markdown", "id": f"earlier-{number}", "metadata": {}, "source": f"```python\n{text}\n```"}
