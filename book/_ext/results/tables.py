"""What every section is made of: results read from files, tables, boxes to unfold, and where numbers come from."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from transformer.plots.style import Picture, Row

MISSING = "*Not measured yet.*"
NUMBER = re.compile(r"\**[\d–][\d.,]*(\s±\s[\d.]+|\s×|%)?\**")
"""A cell of a table that is a number, or a dash instead of one."""
ORIGIN = ("date", "commit", "hardware and versions", "command")
Part = str | Picture | Row
"""A part of a section: Markdown, or figures."""


class NotMeasuredError(Exception):
    """A file with results doesn't exist yet."""


def read(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(path.read_text("utf-8"))


def read_results(root: Path, name: str) -> Any:
    """Return the content of ``book/results/NAME.json``.

    Raises:
        NotMeasuredError: if there is no such file.
    """
    path = root / "book" / "results" / f"{name}.json"
    if not path.exists():
        raise NotMeasuredError
    return read(path)


def table(header: Sequence[str], rows: Iterable[Sequence[object]], kind: str = "") -> str:
    """Return a Markdown table; numbers are not reformatted, and right-aligned except in the first column.

    Args:
        kind: the classes of the table in ``course.css``; with ``"long-end"`` the last column is wider.
    """
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    columns = list(zip(*cells, strict=True))[1:]
    align = ["left", *("right" if mostly_numbers(column) else "left" for column in columns)]
    text = tabulate(cells, header, tablefmt="pipe", disable_numparse=True, colalign=align if cells else None)
    return f":::{{table}}\n:class: {kind}\n\n{text}\n:::\n" if kind else f"{text}\n"


def mostly_numbers(cells: Sequence[str]) -> bool:
    """Return whether more than half of the cells that aren't empty are numbers."""
    filled = [cell for cell in cells if cell]
    return 2 * sum(bool(NUMBER.fullmatch(cell)) for cell in filled) > len(filled)


def folded(title: str, *texts: str) -> str:
    """Return Markdown in a dropdown with a title."""
    return "\n::::{dropdown} " + title + "\n" + "\n\n".join(texts) + "\n::::\n"


def hardware(facts: Mapping[str, Any]) -> str:
    """Return the machine, the device and the number of threads from a `provenance`.

    On a CPU, the note on why this device and precision were chosen is left out.
    """
    device = re.sub(r"^(cpu in \w+) \(.*\)$", r"\1", facts["device"])
    return f"{facts['machine']}; {device}; threads: {facts['threads']}"


def origin(facts: Mapping[str, Any]) -> list[str]:
    """Return the columns of `ORIGIN` from a `provenance`."""
    command = f"`{facts['command']}`" if facts.get("command") else ""
    return [facts["date"], f"`{facts['commit']}`", f"{hardware(facts)}; {facts['versions']}", command]
