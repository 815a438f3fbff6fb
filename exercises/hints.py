"""Reveal the hint of a blank line by line.

A file in the user's data folder remembers how many lines have been shown. To start again, delete it.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from exercises.blanks import Blank, first_unsolved, notebook_title, read_all_blanks
from exercises.notebooks import ROOT
from transformer.command_line import check_name
from transformer.errors import UserError
from transformer.files import convert, parse_json, read_text, write_atomically


def shown_file() -> Path:
    """Return the path of the file with the number of lines shown of each hint."""
    return platformdirs.user_data_path("transformer-course") / "hints.json"


def find_blank(topic: str | None, name: str | None, root: Path = ROOT) -> tuple[Path, Blank]:
    """Find a blank; by default, the first one that isn't solved.

    Args:
        topic: a topic, its number, or the path of a notebook; the first notebook that isn't complete if None.
        name: the blank's name or number; the first one that isn't solved if None.
        root: the checkout of the course.

    Raises:
        UserError: if there is no such notebook or blank, or all are solved.
    """
    notebooks = read_all_blanks([topic] if topic else [], root)
    if name is None:
        if found := first_unsolved(notebooks):
            return found
        raise UserError("all blanks are solved: name the one whose hint you want to see")
    if len(notebooks) > 1:
        raise UserError(f"{topic} contains {len(notebooks)} notebooks: name one of them")
    ((path, blanks),) = notebooks.items()
    numbered = {str(number): blank for number, blank in enumerate(blanks, 1)}
    by_name = {blank.name: blank for blank in blanks}
    if name not in numbered:
        check_name(name, by_name, "blank")
    return path, (numbered | by_name)[name]


def reveal(path: Path, blank: Blank, file: Path) -> list[str]:
    """Return the lines of the hint that were shown before, and one more; all of them if that can't be remembered.

    Args:
        path: the notebook.
        blank: one of its blanks.
        file: remembers how many lines have been shown.
    """
    shown = _read(file)
    key = str(path.resolve())
    count = min(shown.get(key, {}).get(blank.name, 0) + 1, len(blank.hint))
    shown.setdefault(key, {})[blank.name] = count
    note = [f"To start again with all hints, delete {file}."] if count == len(blank.hint) > 0 else []
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, (json.dumps(shown, indent=1) + "\n").encode())
    except OSError as error:
        count = len(blank.hint)
        note = [f"(cannot remember what was shown: {error.strerror})"]
    heading = f"{notebook_title(path)} · {blank}"
    return [heading, *(f"  {line}" for line in blank.hint[:count]), _what_next(count, blank.hint), *note]


def _what_next(count: int, hint: Sequence[str]) -> str:
    if not hint:
        return "This blank has no hint."
    if count < len(hint):
        return f"Line {count} of {len(hint)}. Run the command again for the next one."
    return "That is the whole hint. Write what you can: the check explains what is wrong with it."


def _read(file: Path) -> dict[str, dict[str, int]]:
    """Return notebook → blank → number of lines; nothing if the file is missing, damaged or unreadable."""
    try:
        shown: dict[str, dict[str, int]]
        shown = convert(parse_json(read_text(file), str(file)), dict[str, dict[str, int]], str(file))
    except UserError:
        return {}
    return shown
