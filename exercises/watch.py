"""Grade a notebook again whenever it is saved."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from exercises.blanks import first_unsolved, read_all_blanks
from exercises.grade import Grade, grade_all, read_submission, record_grades
from exercises.notebooks import ROOT, check_not_installed, find_notebooks
from transformer.errors import UserError

INTERVAL = 0.5
"""Seconds between checks of the file."""

Stamp = tuple[int, int] | None
"""When a file was written, and its size; None while it doesn't exist, as in the middle of a save."""


def notebook_to_watch(topic: str | None, root: Path = ROOT) -> Path:
    """Return the path of a notebook; by default, the first one that isn't complete.

    Args:
        topic: a topic, its number, or the path of a notebook.
        root: the checkout of the course.

    Raises:
        UserError: if there is none, or more than one.
    """
    if topic:
        paths = find_notebooks([topic], root)
        if len(paths) > 1:
            raise UserError(f"{topic} contains {len(paths)} notebooks: name one of them")
        check_not_installed(paths, root)
        return paths[0]
    found = first_unsolved(read_all_blanks(root=root))
    if found is None:
        raise UserError("all notebooks are complete: name the one to watch")
    return found[0]


def watch(
    path: Path, seconds: int = 10, root: Path = ROOT, wait: Callable[[], None] = lambda: time.sleep(INTERVAL)
) -> Iterator[str]:
    """Grade a notebook now, and again whenever it is saved with other answers; yield lines to print, endlessly.

    The first time, the lines are the whole grade; later, only what has changed.

    Args:
        path: the notebook.
        seconds: time limit for each cell.
        root: the checkout of the course.
        wait: called between checks of the file.

    Raises:
        UserError: if the notebook cannot be graded at first. Later errors are only reported, and the next save counts.
    """
    stamp = _stamp(path)
    answers = read_submission(path, root).answers
    yield f"Watching {path}: save it to grade it again. Ctrl-C stops watching."
    grade = _grade(path, seconds, root)
    notes = record_grades([grade])
    yield str(grade)
    yield from notes
    for _ in _saves(path, stamp, wait):
        try:
            submission = read_submission(path, root)
            if submission.answers == answers:
                continue  # only the outputs are new
            yield "saved: grading …"
            previous, grade = grade, _grade(path, seconds, root)
            answers = submission.answers  # only now: if the grading fails, the next save counts
            notes = record_grades([grade])
            yield from changes(previous, grade)
            yield from notes
        except UserError as error:
            yield f"error: {error}"


def changes(before: Grade, after: Grade) -> Iterator[str]:
    """Yield the lines of the exercises whose messages have changed, and the points."""
    for key, message in after.messages.items():
        if key not in before.messages or before.messages[key] != message:
            yield from after.describe(key)
    yield f"  {after.points} of {len(after.messages)}"
    if before.points < after.points == len(after.messages):
        yield "All solved. `python -m exercises next` shows what comes next."


def _grade(path: Path, seconds: int, root: Path) -> Grade:
    (grade,) = grade_all([str(path)], seconds, root)
    if grade.failure:
        raise UserError(grade.failure)
    return grade


def _saves(path: Path, stamp: Stamp, wait: Callable[[], None]) -> Iterator[None]:
    """Yield whenever the file has been written since it had this stamp."""
    while True:
        if (now := _stamp(path)) not in (stamp, None):
            stamp = now
            yield
        wait()


def _stamp(path: Path) -> Stamp:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size
