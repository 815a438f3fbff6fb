"""Save grades to files: CSV for spreadsheets, JSON for programs, JUnit XML for tools that read test results."""

import csv
import io
import json
from collections.abc import Sequence
from xml.etree import ElementTree

from exercises.grade import Grade, printable
from exercises.mistakes import count_mistakes


def as_json(grades: Sequence[Grade]) -> str:
    """Return a JSON object with ``grades``, one object for each notebook, and ``mistakes`` (see `count_mistakes`).

    In a grade, ``notebook`` is the path, and ``exercise`` the name of the course's notebook, such as ``02_attention``.
    ``messages`` contains, for each exercise in it, null if it is right and otherwise the message for the learner.
    ``failure`` is the reason why a notebook could not be graded, or null.
    """
    rows = [
        {
            "notebook": str(grade.path),
            "exercise": grade.notebook or None,
            "points": grade.points,
            "of": len(grade.messages),
            "messages": grade.messages,
            "failure": grade.failure or None,
        }
        for grade in grades
    ]
    return json.dumps({"grades": rows, "mistakes": count_mistakes(grades)}, indent=1, ensure_ascii=False) + "\n"


def as_csv(grades: Sequence[Grade]) -> str:
    """Return CSV with a row for each notebook: its path, its name, the points, and 1 or 0 for each exercise.

    The column of an exercise is named like ``masking.causal_mask``; it is empty for other notebooks.
    """
    rows = []
    for grade in grades:
        columns = {"notebook": _as_text(str(grade.path)), "exercise": grade.notebook}
        counts = {"points": grade.points, "of": len(grade.messages)} if grade.notebook else {}
        blanks = {f"{grade.notebook[3:]}.{key}": int(message is None) for key, message in grade.messages.items()}
        rows.append({**columns, **counts, "failure": _as_text(grade.failure), **blanks})
    fields = dict.fromkeys(["notebook", "exercise", "points", "of", "failure", *(key for row in rows for key in row)])
    text = io.StringIO()
    writer = csv.DictWriter(text, fields, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _as_text(value: str) -> str:
    """Escape a text that a spreadsheet would take for a formula: students choose the names of their files."""
    return f"'{value}" if value.startswith(("=", "+", "-", "@")) else value


def as_junit(grades: Sequence[Grade]) -> str:
    """Return JUnit XML: a test suite for each notebook and a test case for each exercise.

    A notebook that could not be graded has one test case with an error.
    """
    suites = ElementTree.Element("testsuites")
    for grade in grades:
        failed = len(grade.messages) - grade.points
        counts = {"tests": max(1, len(grade.messages)), "failures": failed, "errors": int(bool(grade.failure))}
        path = printable(str(grade.path))
        attributes = {"name": path} | {name: str(count) for name, count in counts.items()}
        suite = ElementTree.SubElement(suites, "testsuite", attributes)
        for name, message in grade.messages.items():
            case = ElementTree.SubElement(suite, "testcase", classname=grade.notebook, name=name)
            if message is not None:
                ElementTree.SubElement(case, "failure", message=message.partition("\n")[0]).text = message
        if grade.failure:
            case = ElementTree.SubElement(suite, "testcase", classname=path, name="notebook")
            ElementTree.SubElement(case, "error", message=grade.failure)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"
