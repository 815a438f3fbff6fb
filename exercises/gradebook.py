"""Save grades to files: JSON for programs of your own, JUnit XML for tools that read test results."""

import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from exercises.grade import Grade
from transformer.errors import UserError


def as_json(grades: Sequence[Grade]) -> str:
    """Return a JSON list with one object for each notebook.

    ``messages`` contains, for each exercise, null if it is right and otherwise the message for the learner. ``failure``
    is the reason why a notebook could not be graded, or null.
    """
    rows = [
        {
            "notebook": str(grade.path),
            "exercise": grade.exercise or None,
            "points": grade.points,
            "of": len(grade.messages),
            "messages": grade.messages,
            "failure": grade.failure or None,
        }
        for grade in grades
    ]
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def as_junit(grades: Sequence[Grade]) -> str:
    """Return JUnit XML: a test suite for each notebook and a test case for each exercise.

    A notebook that could not be graded has one test case with an error.
    """
    suites = ElementTree.Element("testsuites")
    for grade in grades:
        failed = len(grade.messages) - grade.points
        counts = {"tests": max(1, len(grade.messages)), "failures": failed, "errors": int(bool(grade.failure))}
        attributes = {"name": str(grade.path)} | {name: str(count) for name, count in counts.items()}
        suite = ElementTree.SubElement(suites, "testsuite", attributes)
        for name, message in grade.messages.items():
            case = ElementTree.SubElement(suite, "testcase", classname=grade.exercise, name=name)
            if message is not None:
                ElementTree.SubElement(case, "failure", message=message.partition("\n")[0]).text = message
        if grade.failure:
            case = ElementTree.SubElement(suite, "testcase", classname=str(grade.path), name="notebook")
            ElementTree.SubElement(case, "error", message=grade.failure)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def check_writable(path: Path) -> None:
    """Refuse an output file that cannot be written, before time is spent on grading.

    Raises:
        UserError: if it is a folder, or its folder does not exist.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise UserError(f"cannot write {path}: " + ("it is a folder" if path.is_dir() else "its folder does not exist"))
