"""Show a learner's progress in the terminal, and as a badge."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from exercises.blanks import Blank, first_unsolved, notebook_title, read_all_blanks, solved
from exercises.notebooks import ROOT


def status(names: Sequence[str] = (), root: Path = ROOT) -> Iterator[str]:
    """Yield one line for each notebook, a total, and the badge.

    ✓ is a right answer, ✗ is a wrong one, and · stands for the rest.

    Args:
        names: as in `read_all_blanks`.
        root: the checkout of the course.
    """
    notebooks = read_all_blanks(names, root)
    for path, blanks in notebooks.items():
        marks = " ".join(blank.mark for blank in blanks)
        yield f"{notebook_title(path):24} {marks:24} {solved(blanks)} of {len(blanks)}"
    every = [blank for blanks in notebooks.values() for blank in blanks]
    yield f"{'total':49} {solved(every)} of {len(every)}"
    yield f"badge: {badge(every)}"


def badge(blanks: Sequence[Blank], image: str = "progress.svg") -> str:
    """Return Markdown that shows the image with the learner's progress, or where it is missing, the text."""
    return f"![{badge_text(blanks)}]({image})"


def badge_text(blanks: Sequence[Blank]) -> str:
    """Return the text of the badge."""
    return f"Transformer course: {solved(blanks)} of {len(blanks)} exercises solved"


def next_exercise(names: Sequence[str] = (), root: Path = ROOT) -> tuple[Path | None, list[str]]:
    """Return the first notebook that isn't complete, and lines that name its next blank.

    Args:
        names: as in `read_all_blanks`.
        root: the checkout of the course.

    Returns:
        The notebook, or None if all are complete; and the lines.
    """
    notebooks = read_all_blanks(names, root)
    found = first_unsolved(notebooks)
    if found is None:
        return None, ["All exercises are solved. Well done!"]
    path, blank = found
    blanks = notebooks[path]
    return path, [f"{notebook_title(path)} · {path}", f"  {solved(blanks)} of {len(blanks)} solved; next: {blank}"]
