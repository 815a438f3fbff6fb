"""Grades as files: JSON for a program of your own, JUnit's XML for what reads the results of tests."""

import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from exercises.grade import Grade
from transformer.errors import UserError


def as_json(grades: Sequence[Grade]) -> str:
    """A list with an object for each notebook.

    Its ``messages`` give for each exercise null if it is right, else what the learner was told; ``failure`` says why a
    notebook could not be graded, and is null if it was.
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
    """A suite for each notebook, a case for each exercise; one that could not be graded is a case in error."""
    suites = ElementTree.Element("testsuites")
    for grade in grades:
        failed = len(grade.messages) - grade.points
        counts = {"tests": max(1, len(grade.messages)), "failures": failed, "errors": int(bool(grade.failure))}
        about = {"name": str(grade.path)} | {name: str(count) for name, count in counts.items()}
        suite = ElementTree.SubElement(suites, "testsuite", about)
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
    """Refuse a file that could not be written, before the work is done that it is to hold.

    Raises:
        UserError: if its folder does not exist, or it is a folder itself.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise UserError(f"cannot write {path}: " + ("it is a folder" if path.is_dir() else "its folder does not exist"))
