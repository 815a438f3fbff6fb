"""Grades as files."""

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from exercises import __main__ as command
from exercises import grade as grading
from exercises.grade import Grade
from exercises.gradebook import as_csv, as_json, as_junit
from exercises.notebooks import find_notebooks
from transformer.errors import UserError

GRADES = [
    Grade(Path("a/ann.ipynb"), "04_masking", {"padding_mask": None, "causal_mask": "inverted\nTrue means <may>."}),
    Grade(Path("a/bob.ipynb"), "04_masking", {"padding_mask": None, "causal_mask": None}),
    Grade(Path("a/cleo.ipynb"), "", {}, "a/cleo.ipynb is not a notebook"),
]


def test_json_has_a_row_for_each_notebook() -> None:
    rows = json.loads(as_json(GRADES))["grades"]
    assert [(row["notebook"], row["exercise"], row["points"], row["of"]) for row in rows] == [
        ("a/ann.ipynb", "04_masking", 1, 2),
        ("a/bob.ipynb", "04_masking", 2, 2),
        ("a/cleo.ipynb", None, 0, 0),
    ]
    assert rows[0]["messages"] == GRADES[0].messages
    assert [row["failure"] for row in rows] == [None, None, "a/cleo.ipynb is not a notebook"]


def test_json_has_the_counts_of_mistakes() -> None:
    counts = {"04_masking": {"padding_mask": {}, "causal_mask": {"inverted": 1}}}
    assert json.loads(as_json(GRADES))["mistakes"] == counts


def test_csv_has_a_column_for_each_blank() -> None:
    other = Grade(Path("a/dan.ipynb"), "06_layers", {"dropout": "wrong, and in\ntwo lines", "pre_norm": None})
    rows = list(csv.DictReader(as_csv([*GRADES, other]).splitlines()))
    assert list(rows[0]) == [
        *["notebook", "exercise", "points", "of", "failure"],
        *["masking.padding_mask", "masking.causal_mask", "layers.dropout", "layers.pre_norm"],
    ]
    assert [list(row.values()) for row in rows] == [
        ["a/ann.ipynb", "04_masking", "1", "2", "", "1", "0", "", ""],
        ["a/bob.ipynb", "04_masking", "2", "2", "", "1", "1", "", ""],
        ["a/cleo.ipynb", "", "", "", "a/cleo.ipynb is not a notebook", "", "", "", ""],
        ["a/dan.ipynb", "06_layers", "1", "2", "", "", "", "0", "1"],
    ]


@pytest.mark.parametrize("start", list("=+-@"))
def test_no_name_of_a_file_is_a_formula(start: str) -> None:
    name = f'{start}HYPERLINK("x").ipynb'
    (row,) = csv.DictReader(as_csv([Grade(Path(name), "", {}, f"{name} is not a notebook")]).splitlines())
    assert (row["notebook"], row["failure"]) == (f"'{name}", f"'{name} is not a notebook")


def test_junit_has_a_case_for_each_exercise() -> None:
    suites = ElementTree.fromstring(as_junit(GRADES))
    counts = [[suite.get(name) for name in ("name", "tests", "failures", "errors")] for suite in suites]
    assert counts == [["a/ann.ipynb", "2", "1", "0"], ["a/bob.ipynb", "2", "0", "0"], ["a/cleo.ipynb", "1", "0", "1"]]
    (failure,) = suites.findall(".//failure")
    assert (failure.get("message"), failure.text) == ("inverted", "inverted\nTrue means <may>.")
    (error,) = suites.findall(".//error")
    assert error.get("message") == "a/cleo.ipynb is not a notebook"


def test_junit_is_valid_whatever_a_file_is_called() -> None:
    (suite,) = ElementTree.fromstring(as_junit([Grade(Path("a\x1b[31m\uffff.ipynb"), "", {}, "not a notebook")]))
    assert suite.get("name") == "a�[31m�.ipynb"


def test_a_folder_means_all_notebooks_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ".home" / "class"
    hidden = ("b/.ipynb_checkpoints/two-checkpoint.ipynb", "__MACOSX/._one.ipynb")
    for name in ("b/two.ipynb", "one.ipynb", "notes.txt", *hidden):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    found = [folder / "b" / "two.ipynb", folder / "one.ipynb"]
    monkeypatch.setenv("HOME", str(folder.parent))
    assert find_notebooks([str(folder)]) == find_notebooks(["~/class"]) == found
    monkeypatch.chdir(folder)
    with pytest.raises(UserError, match="there is no exercise ''"):
        find_notebooks([""])


@pytest.mark.parametrize("option", ["--csv", "--json", "--junit"])
def test_a_file_that_cannot_be_written_is_told_before_the_work(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(grading, "grade_all", lambda *_: pytest.fail("it was graded"))
    assert command.main(["grade", "all", option, str(tmp_path / "no" / "grades")]) == 2
    assert "there is no folder" in capsys.readouterr().err


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
    files = [tmp_path / name for name in ("grades.json", "grades.xml", "grades.csv")]
    json_file, xml_file, csv_file = map(str, files)
    assert command.main(["grade", "a", "--json", json_file, "--junit", xml_file, "--csv", csv_file]) == code
    assert [path.read_text("utf-8") for path in files] == [as_json(grades), as_junit(grades), as_csv(grades)]
    output = capsys.readouterr()
    assert output.err == ("error: a/cleo.ipynb is not a notebook\n" if code == 2 else "")


def test_grades_are_printed_even_if_they_cannot_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def grade_all(*_: object) -> list[Grade]:
        (tmp_path / "x.csv").mkdir()  # in the meantime
        return [Grade(Path("a.ipynb"), "02_attention", {"softmax": None})]

    monkeypatch.setattr(grading, "grade_all", grade_all)
    assert command.main(["grade", "02", "--csv", str(tmp_path / "x.csv"), "--json", str(tmp_path / "x.json")]) == 2
    printed = capsys.readouterr()
    assert "1 of 1" in printed.out and "Is a directory" in printed.err
    assert (tmp_path / "x.json").exists()
