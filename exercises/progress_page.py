"""Show a learner's progress as one HTML file, which needs neither a server nor the network, and as a badge."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from exercises.blanks import Blank, first_unsolved, notebook_title, solved
from exercises.mistakes import mistake_name
from exercises.progress import badge, badge_text
from transformer.files import write_atomically


def write_page(notebooks: Mapping[Path, Sequence[Blank]], path: Path) -> Path:
    """Write the page, and beside it the badge as an image.

    Args:
        notebooks: the blanks of each notebook.
        path: the HTML file.

    Returns:
        The path of the image.
    """
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("exercises"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {"paragraphs": paragraphs, "with_code": with_code}
    blanks = [blank for every in notebooks.values() for blank in every]
    found = first_unsolved(notebooks)
    image = path.with_suffix(".svg")
    values = {
        "notebooks": [(notebook_title(notebook), every) for notebook, every in notebooks.items()],
        "solved": solved(blanks),
        "total": len(blanks),
        "next": found and (notebook_title(found[0]), found[1]),
        "mistakes": _mistakes(blanks),
        "badge": badge(blanks, image.name),
        "badge_text": badge_text(blanks),
        "badge_file": image.name,
    }
    for file, template in ((path, "progress.html"), (image, "progress.svg")):
        write_atomically(file, templates.get_template(template).render(values).encode("utf-8", "replace"))
    return image


def paragraphs(message: str) -> Iterator[tuple[bool, str]]:
    """Divide the message of a check into its sentences and its tables, which are indented; True marks a table."""
    for is_table, lines in groupby(message.splitlines(), lambda line: line.startswith("  ") if line else None):
        if is_table:
            yield True, "\n".join(lines)
        elif is_table is not None:
            yield from ((False, line) for line in lines)


def with_code(text: str) -> Markup:
    """Return a sentence as HTML, with what is between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _mistakes(blanks: Sequence[Blank]) -> dict[str, list[str]]:
    """Return the name of each mistake with the blanks that it was made in; the most frequent ones first."""
    found: dict[str, list[str]] = {}
    for blank in blanks:
        if blank.mark == "✗":
            found.setdefault(mistake_name(blank.message), []).append(blank.name)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))
