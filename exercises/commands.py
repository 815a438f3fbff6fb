"""The commands of ``python -m exercises``: grade notebooks, show a learner's progress, and make the notebooks."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, Positional, arg

from transformer.errors import UserError, require_extra

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # takes seconds to import and isn't needed

Notebooks = Annotated[Positional[tuple[str, ...]], arg(metavar="[NOTEBOOK ...]", help_behavior_hint="")]
OutputFile = Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")]


def grade(
    notebooks: Annotated[Positional[tuple[str, ...]], arg(metavar="NOTEBOOK [NOTEBOOK ...]", help_behavior_hint="")],
    csv: OutputFile = None,
    json: OutputFile = None,
    junit: OutputFile = None,
    feedback: Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="")] = None,
    seconds: int = 10,
) -> int:
    """Grade filled-in notebooks.

    Only the cells that begin with `# answer:` are graded. `status`, `next` and `progress` count the right answers as
    solved. If there are several notebooks of an exercise, a histogram shows their mistakes. The exit code is 0 if every
    answer is right, 1 if one is wrong, and 2 if a notebook could not be graded.

    Examples:
        python -m exercises grade attention              your exercises/02_attention.ipynb
        python -m exercises grade 02 04                  the same by number, several at once
        python -m exercises grade ~/Downloads/my_attention.ipynb
        python -m exercises grade all
        python -m exercises grade submissions --csv grades.csv --feedback feedback      a whole class

    Args:
        notebooks: A topic, its number, the path of a notebook, a folder of notebooks, or all.
        csv: Also write the points to this file, as a table for spreadsheets.
        json: Also write the grades, and the numbers of the histogram, to this file as JSON.
        junit: Also write the grades to this file as JUnit XML.
        feedback: Also write a copy of each notebook, with the messages below its answers, to this new folder.
        seconds: Time limit for each cell, in seconds; for train_your_own, at least 180.
    """
    require_extra("exercises", "nbval", "pytest")
    from exercises.feedback import check_folder, write_feedback
    from exercises.grade import grade_all, record_grades
    from exercises.gradebook import as_csv, as_json, as_junit
    from exercises.mistakes import histogram
    from transformer.files import check_writable

    if not notebooks:
        raise UserError("name at least one notebook, or all")
    outputs = [(path, to_text) for path, to_text in ((csv, as_csv), (json, as_json), (junit, as_junit)) if path]
    for path, _ in outputs:
        check_writable(path)
    if feedback:
        check_folder(feedback, notebooks)
    grades = grade_all(notebooks, seconds)
    for result in grades:
        if result.failure:
            print(f"error: {result.failure}", file=sys.stderr)
        else:
            print(result)
    for line in histogram(grades):
        print(line)
    if len(grades) > 1:
        print(f"\ntotal: {sum(r.points for r in grades)} of {sum(len(r.messages) for r in grades)}")
    for note in record_grades(grades):
        print(note, file=sys.stderr)
    failures = write_feedback(grades, feedback) if feedback else []
    for path, to_text in outputs:  # now that nothing is lost if this fails
        try:
            path.write_text(to_text(grades), "utf-8", "replace")
        except OSError as error:
            failures.append(f"cannot write {path}: {error.strerror}")
    for failure in failures:
        print(f"error: {failure}", file=sys.stderr)
    if failures or any(result.failure for result in grades):
        return 2
    return 0 if all(result.points == len(result.messages) for result in grades) else 1


def next_notebook(notebooks: Notebooks = (), open: bool = True) -> None:
    """Open the next unfinished notebook in JupyterLab, and name its next blank.

    Examples:
        python -m exercises next
        python -m exercises next --no-open       only print which one it is
        python -m exercises next ~/mine          of the notebooks in this folder

    Args:
        notebooks: Topics, their numbers, paths of notebooks, or folders; all exercises if left out.
        open: Open it, in a running Jupyter server or else in a new one.
    """
    from exercises.open_notebook import open_notebook
    from exercises.progress import next_exercise

    path, lines = next_exercise(notebooks)
    print("\n".join(lines))
    if path and open:
        open_notebook(path)


def hint(
    topic: Annotated[Positional[str | None], arg(metavar="[TOPIC]", help_behavior_hint="")] = None,
    blank: Annotated[Positional[str | None], arg(metavar="[BLANK]", help_behavior_hint="")] = None,
) -> None:
    """Show one more line of a blank's hint each time you call it.

    Examples:
        python -m exercises hint                       the first blank that you have not solved
        python -m exercises hint attention             the first one of this notebook
        python -m exercises hint attention softmax
        python -m exercises hint 02 2                  the same by number

    Args:
        topic: A topic, its number, or the path of a notebook.
        blank: The name or number of a blank.
    """
    from exercises.hints import find_blank, reveal, shown_file

    print("\n".join(reveal(*find_blank(topic, blank), shown_file())))


def watch(
    topic: Annotated[Positional[str | None], arg(metavar="[TOPIC]", help_behavior_hint="")] = None, seconds: int = 10
) -> None:
    """Grade a notebook whenever you save it, and show what has changed.

    It is graded exactly as by `python -m exercises grade`. Ctrl-C stops watching.

    Examples:
        python -m exercises watch                      the first notebook that is not complete
        python -m exercises watch attention
        python -m exercises watch ~/mine/02_attention.ipynb

    Args:
        topic: A topic, its number, or the path of a notebook.
        seconds: Time limit for each cell, in seconds; for train_your_own, at least 180.
    """
    require_extra("exercises", "nbval", "pytest")
    from exercises.watch import notebook_to_watch, watch

    if seconds < 1:
        raise UserError(f"--seconds must be at least 1; got {seconds}")
    for line in watch(notebook_to_watch(topic), seconds):
        print(line, flush=True)


def status(notebooks: Notebooks = ()) -> None:
    """Show how many exercises you have solved, in your notebooks as they were last saved, or by `grade`.

    Nothing is run. ✓ means that the check passed, ✗ that it failed, and · that the exercise has not been done or not
    been checked. The last line is Markdown for your own README; `python -m exercises progress` writes its image.

    Examples:
        python -m exercises status
        python -m exercises status ~/mine        of the notebooks in this folder

    Args:
        notebooks: Topics, their numbers, paths of notebooks, or folders; all exercises if left out.
    """
    from exercises.progress import status

    for line in status(notebooks):
        print(line)


def progress(notebooks: Notebooks = (), output: Annotated[Path, arg(metavar="FILE")] = Path("progress.html")) -> None:
    """Write a page that shows which blanks are solved and the checks' last messages, and a badge.

    Nothing is run. The page is a single file, which opens in any browser without the network.

    Examples:
        python -m exercises progress
        python -m exercises progress ~/mine --output ~/mine/progress.html

    Args:
        notebooks: Topics, their numbers, paths of notebooks, or folders; all exercises if left out.
        output: The page, an HTML file; the badge is an SVG image with the same name.
    """
    require_extra("exercises", "jinja2")
    from exercises.blanks import read_all_blanks
    from exercises.progress_page import write_page
    from transformer.files import check_writable

    if output.suffix != ".html":
        raise UserError(f"--output must be an HTML file; got {output}")
    check_writable(output)
    image = write_page(read_all_blanks(notebooks), output)
    print(f"wrote {output} and {image}")


def update(
    notebooks: Annotated[Positional[tuple[Path, ...]], arg(metavar="NOTEBOOK [NOTEBOOK ...]", help_behavior_hint="")],
) -> None:
    """Copy your answers into the current version of the notebooks.

    The old notebook is kept as NAME.ipynb.bak.

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
    from exercises.make import ANSWERS, MAKE, filled_notebooks, find_drift, make

    if not check:
        for path in make():
            print(f"wrote {path}")
        return 0
    drift = list(find_drift())
    for line in drift:
        print(line, file=sys.stderr)
    if drift:
        print(f"error: {ANSWERS if filled_notebooks() else MAKE}", file=sys.stderr)
    return 1 if drift else 0


COMMANDS: dict[str, Callable[..., int | None]] = {
    "next": next_notebook,
    "hint": hint,
    "watch": watch,
    "grade": grade,
    "status": status,
    "progress": progress,
    "update": update,
    "make": make,
}
