"""``python -m exercises``: grade exercise notebooks, show a learner's progress, and make the notebooks."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, Positional, arg

from transformer.command_line import run_command
from transformer.errors import UserError, require_extra

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # takes seconds to import and isn't needed

OutputFile = Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")]


def grade(
    notebooks: Annotated[Positional[tuple[str, ...]], arg(metavar="NOTEBOOK [NOTEBOOK ...]", help_behavior_hint="")],
    json: OutputFile = None,
    junit: OutputFile = None,
    seconds: int = 10,
) -> int:
    """Grade filled-in notebooks.

    Only the cells that begin with `# answer:` count. The exit code is 0 if every answer is right, 1 if one is wrong,
    and 2 if a notebook could not be graded.

    Examples:
        python -m exercises grade attention              your exercises/02_attention.ipynb
        python -m exercises grade 02 04                  the same by number, several at once
        python -m exercises grade ~/Downloads/my_attention.ipynb
        python -m exercises grade all
        python -m exercises grade submissions --json grades.json --junit grades.xml     a whole class

    Args:
        notebooks: A topic, its number, the path of a notebook, a folder of notebooks, or all.
        json: Also write the grades to this file as JSON.
        junit: Also write the grades to this file as JUnit XML.
        seconds: Time limit for each cell, in seconds.
    """
    require_extra("exercises", "nbval", "pytest")
    from exercises.grade import grade_all
    from exercises.gradebook import as_json, as_junit, check_writable

    if not notebooks:
        raise UserError("name at least one notebook, or all")
    outputs = [(path, to_text) for path, to_text in ((json, as_json), (junit, as_junit)) if path]
    for path, _ in outputs:
        check_writable(path)
    grades = grade_all(notebooks, seconds)
    for path, to_text in outputs:
        path.write_text(to_text(grades), "utf-8")
    for result in grades:
        if result.failure:
            print(f"error: {result.failure}", file=sys.stderr)
        else:
            print(result)
    if len(grades) > 1:
        print(f"\ntotal: {sum(r.points for r in grades)} of {sum(len(r.messages) for r in grades)}")
    if any(result.failure for result in grades):
        return 2
    return 0 if all(result.points == len(result.messages) for result in grades) else 1


def status() -> None:
    """Show how many exercises you have solved, from the saved outputs of your notebooks.

    Nothing is run. ✓ means that the check passed, ✗ that it failed, and · that the exercise has not been done.

    Examples:
        python -m exercises status
    """
    from exercises.progress import status

    for line in status():
        print(line)


def update(
    notebooks: Annotated[Positional[tuple[Path, ...]], arg(metavar="NOTEBOOK [NOTEBOOK ...]", help_behavior_hint="")],
) -> None:
    """Copy your answers into the present version of the notebooks.

    The old notebook is kept as NAME.before.ipynb.

    Examples:
        python -m exercises update ~/mine/02_attention.ipynb
        python -m exercises update ~/mine/*.ipynb

    Args:
        notebooks: Filled-in notebooks of an earlier version of the course.
    """
    require_extra("book", "jupytext", "nbclient", "nbformat")
    from exercises.update import update

    if not notebooks:
        raise UserError("name at least one notebook")
    for path in notebooks:
        print(update(path))


def make(check: FlagCreatePairsOff[bool] = False) -> int:
    """Make the exercise and solution notebooks from solutions/*.py (for authors of the course).

    Examples:
        python -m exercises make
        python -m exercises make --check

    Args:
        check: Change nothing; exit with code 1 if a notebook is out of date.
    """
    require_extra("book", "jupytext", "nbclient", "nbformat")
    from exercises.make import find_drift, make

    if not check:
        for path in make():
            print(f"wrote {path}")
        return 0
    drift = list(find_drift())
    for line in drift:
        print(line, file=sys.stderr)
    if drift:
        print("error: run `python -m exercises make` and commit the notebooks that it writes", file=sys.stderr)
    return 1 if drift else 0


def main(args: Sequence[str] | None = None) -> int:
    """Run ``python -m exercises`` and return the exit code; see `run_command`."""
    commands: dict[str, Callable[..., int | None]] = {"grade": grade, "status": status, "update": update, "make": make}
    description = "Grade your answers to the exercises, and see your progress."
    return run_command("python -m exercises", description, commands, sys.argv[1:] if args is None else args)


if __name__ == "__main__":
    sys.exit(main())
