"""Read the blanks of exercise notebooks: what each one asks for, its hint, and whether the learner has solved it.

Nothing is run: the learner's progress is read from the saved outputs of the notebooks, and from what the grader found.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from exercises.notebooks import (
    ROOT,
    Cell,
    answer_key,
    check_key,
    find_notebooks,
    is_open,
    read_notebook,
    solution_sources,
)
from exercises.record import Verdict, read_record
from transformer.errors import UserError

Mark = Literal["✓", "✗", "·"]
"""✓ for a right answer, ✗ for a wrong one, · for an exercise that has not been done or not been checked."""

HINT = re.compile(r"<summary>Hint</summary>(.*?)</details>", flags=re.DOTALL)


@dataclass(frozen=True)
class Blank:
    """One exercise of a notebook."""

    name: str
    """The name of the function to write, such as ``softmax``."""
    title: str
    """Its heading, such as ``2 · Softmax``."""
    stars: str
    """How difficult it is, from ★☆☆ to ★★★."""
    minutes: int
    """How long it takes."""
    hint: tuple[str, ...]
    """The lines of its hint, each a step further."""
    mark: Mark
    message: str = ""
    """The last message of the check, if it failed."""

    def __str__(self) -> str:
        return f"{self.title}  {self.stars} {self.minutes} minutes"


def read_blanks(path: Path) -> list[Blank]:
    """Read the blanks of a notebook; none if it isn't an exercise notebook.

    Raises:
        UserError: if the file cannot be read.
    """
    cells = read_notebook(path)["cells"]
    checks = {key: cell for cell in cells if (key := check_key(cell))}
    record = read_record(path)
    text, blanks = "", []
    for cell in cells:
        if cell["cell_type"] == "markdown" and cell["source"].startswith("## "):
            text = cell["source"]
        if key := answer_key(cell):
            blanks.append(_read_blank(key, text, cell, checks.get(key), record.get(key)))
    return blanks


def read_all_blanks(names: Sequence[str] = (), root: Path = ROOT) -> dict[Path, list[Blank]]:
    """Return the blanks of every exercise notebook among these notebooks, by path.

    Args:
        names: as in `find_notebooks`; all notebooks of the course if empty.
        root: the checkout of the course.

    Raises:
        UserError: if there is no exercise notebook with these names, or one cannot be read.
    """
    if not names:
        solution_sources(root)  # outside a clone, nobody works on the notebooks that were installed
    found = {path: blanks for path in find_notebooks(names or ["all"], root) if (blanks := read_blanks(path))}
    if not found:
        raise UserError(f"no exercise notebook in {', '.join(names)}: none has a cell that begins with `# answer: …`")
    return found


def first_unsolved(notebooks: Mapping[Path, Sequence[Blank]]) -> tuple[Path, Blank] | None:
    """Return the first blank that isn't solved, with the path of its notebook; None if all are solved."""
    return next(((path, blank) for path, blanks in notebooks.items() for blank in blanks if blank.mark != "✓"), None)


def solved(blanks: Sequence[Blank]) -> int:
    """Return how many of the blanks are solved."""
    return sum(blank.mark == "✓" for blank in blanks)


def notebook_title(path: Path) -> str:
    """Return the title of a notebook: ``02_attention.ipynb`` → ``02 attention``."""
    return path.stem.replace("_", " ")


def _read_blank(name: str, text: str, answer: Cell, check: Cell | None, verdict: Verdict | None) -> Blank:
    title = re.match(r"## *(.*)", text)
    effort = re.search(r"^([★☆]+) · (\d{1,4}) minutes", text, flags=re.MULTILINE)
    hint = HINT.search(text)
    lines = [line for line in (hint[1] if hint else "").splitlines() if line.strip() and not line.startswith("```")]
    mark, message = _result(name, answer, check, verdict)
    return Blank(
        name,
        title[1] if title else name,
        effort[1] if effort else "",
        int(effort[2]) if effort else 0,
        tuple(lines),
        mark,
        message,
    )


def _result(name: str, answer: Cell, check: Cell | None, verdict: Verdict | None) -> tuple[Mark, str]:
    """Return the mark of a blank, and the message if its check failed: in the notebook or, if later, in the grader."""
    outputs = check.get("outputs", []) if check else []
    if is_open(answer["source"]):
        return "·", ""
    if verdict and verdict.holds(answer, check):
        return ("✓", "") if verdict.message is None else ("✗", verdict.message)
    if not outputs:
        return "·", ""
    if "".join(output.get("text", "") for output in outputs).startswith(f"✓ {name}\n"):
        return "✓", ""
    error = next((output for output in outputs if output.get("output_type") == "error"), None)
    if error is None:
        return "✗", "its check did not print the expected line"
    value = str(error.get("evalue", "")).removeprefix(f"✗ {name}: ")
    return "✗", value if error.get("ename") == "WrongAnswerError" else f"{error.get('ename')}: {value}"
