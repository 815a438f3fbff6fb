"""Show a learner's progress."""

from collections.abc import Iterator
from pathlib import Path

from exercises.notebooks import (
    PLACEHOLDER,
    ROOT,
    Cell,
    answer_key,
    check_key,
    exercise_path,
    read_notebook,
    solution_sources,
)


def status(root: Path = ROOT) -> Iterator[str]:
    """Yield one line for each notebook, and a total: ✓ for a check that passed, ✗ for one that failed, · for the rest.

    Nothing is run: the marks come from the outputs with which the notebooks were saved.
    """
    solved = count = 0
    for source in solution_sources(root):
        marks = _marks(exercise_path(source))
        solved, count = solved + marks.count("✓"), count + len(marks)
        name = source.stem.replace("_", " ")
        yield f"{name:24} {' '.join(marks):24} {marks.count('✓')} of {len(marks)}"
    yield f"{'total':49} {solved} of {count}"


def _marks(path: Path) -> list[str]:
    """Return the mark of each exercise in a notebook."""
    cells = read_notebook(path)["cells"]
    blanks = {key for cell in cells if (key := answer_key(cell)) and PLACEHOLDER in cell["source"]}
    return [_mark(key, cell, blanks) for cell in cells if (key := check_key(cell))]


def _mark(key: str, check: Cell, blanks: set[str]) -> str:
    printed = "".join("".join(output.get("text", "")) for output in check["outputs"])
    return "✓" if printed == f"✓ {key}\n" else "·" if key in blanks or not check["outputs"] else "✗"
