"""Grades as files: they contain every message in full."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from exercises import __main__ as command
from exercises import grade as grading
from exercises.grade import Grade, find_notebooks
from exercises.gradebook import as_json, as_junit

GRADES = [
    Grade(Path("a/ann.ipynb"), "04_masking", {"padding_mask": None, "causal_mask": "inverted\nTrue means <may>."}),
    Grade(Path("a/bob.ipynb"), "04_masking", {"padding_mask": None, "causal_mask": None}),
    Grade(Path("a/cleo.ipynb"), "", {}, "a/cleo.ipynb is not a notebook"),
]


def test_json_has_a_row_for_each_notebook() -> None:
    rows = json.loads(as_json(GRADES))
    assert [(row["notebook"], row["exercise"], row["points"], row["of"]) for row in rows] == [
        ("a/ann.ipynb", "04_masking", 1, 2),
        ("a/bob.ipynb", "04_masking", 2, 2),
        ("a/cleo.ipynb", None, 0, 0),
    ]
    assert rows[0]["messages"] == GRADES[0].messages
    assert [row["failure"] for row in rows] == [None, None, "a/cleo.ipynb is not a notebook"]


def test_junit_has_a_case_for_each_exercise() -> None:
    suites = ElementTree.fromstring(as_junit(GRADES))
    counts = [[suite.get(name) for name in ("name", "tests", "failures", "errors")] for suite in suites]
    assert counts == [["a/ann.ipynb", "2", "1", "0"], ["a/bob.ipynb", "2", "0", "0"], ["a/cleo.ipynb", "1", "0", "1"]]
    (failure,) = suites.findall(".//failure")
    assert (failure.get("message"), failure.text) == ("inverted", "inverted\nTrue means <may>.")
    (error,) = suites.findall(".//error")
    assert error.get("message") == "a/cleo.ipynb is not a notebook"


def test_a_folder_means_all_notebooks_in_it(tmp_path: Path) -> None:
    for name in ("b/two.ipynb", "one.ipynb", "b/.ipynb_checkpoints/two-checkpoint.ipynb", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert find_notebooks([str(tmp_path)]) == [tmp_path / "b" / "two.ipynb", tmp_path / "one.ipynb"]


@pytest.mark.parametrize(
    ("grades", "code"), [(GRADES, 2), (GRADES[:2], 1), (GRADES[1:2], 0)], ids=["failure", "wrong", "right"]
)
def test_a_class_is_graded_to_its_end(
    grades: list[Grade],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(grading, "grade_all", lambda names, seconds: grades)
    files = tmp_path / "grades.json", tmp_path / "grades.xml"
    assert command.main(["grade", "a", "--json", str(files[0]), "--junit", str(files[1])]) == code
    assert [path.read_text("utf-8") for path in files] == [as_json(grades), as_junit(grades)]
    output = capsys.readouterr()
    assert output.err == ("error: a/cleo.ipynb is not a notebook\n" if code == 2 else "")


def test_a_file_that_cannot_be_written_is_told_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(grading, "grade_all", lambda *_: pytest.fail("it was graded"))
    assert command.main(["grade", "all", "--json", str(tmp_path / "no" / "grades.json")]) == 2
    assert "its folder does not exist" in capsys.readouterr().err
