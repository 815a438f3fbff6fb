"""Feedback notebooks: the learner's own, with the message below each answer."""

import shutil
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest

from exercises import __main__ as command
from exercises import feedback as writing
from exercises import grade as grading
from exercises.feedback import add_feedback, check_folder, write_feedback
from exercises.grade import Grade
from exercises.notebooks import ROOT, answer_key, notebook_text, read_notebook
from tests.exercises.learner import NOTHING_HIDDEN, fill
from transformer.errors import UserError

MESSAGES = {"padding_mask": None, "causal_mask": "nothing hidden\nIt is ```all``` True,\n\n  yours\n  [<b>]"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "submissions" / "ann" / "masking.ipynb"
    path.parent.mkdir(parents=True)
    shutil.copy(ROOT / "exercises" / "04_masking.ipynb", path)
    fill(path, {"causal_mask": NOTHING_HIDDEN})
    return path


def test_each_message_is_below_its_answer(path: Path) -> None:
    before = path.read_bytes()
    folder = path.parents[2] / "feedback"
    assert write_feedback([Grade(path, "04_masking", MESSAGES)], folder) == []
    assert path.read_bytes() == before
    written = nbformat.read(folder / "masking.ipynb", as_version=4)
    nbformat.validate(written)
    cells = written["cells"]
    assert cells[0]["source"] == "**Feedback**\n\n```text\n1 of 2\n```"
    below = {answer_key(cell): after for cell, after in pairwise(cells) if answer_key(cell)}
    assert below["padding_mask"]["source"] == "**Feedback**\n\n```text\n✓ padding_mask\n```"
    assert below["causal_mask"]["source"].splitlines() == [
        *["**Feedback**", "", "````text", "✗ causal_mask: nothing hidden", "    It is ```all``` True,"],
        *["", "      yours", "      [<b>]", "````"],
    ]
    assert "feedback" not in below["target_mask"]["metadata"].get("tags", []), "it has no message"
    others = [cell for cell in cells if "feedback" not in cell["metadata"].get("tags", [])]
    assert others == nbformat.read(path, as_version=4)["cells"]


def test_feedback_on_feedback_replaces_it(path: Path) -> None:
    notebook = read_notebook(path)
    first = add_feedback(notebook, Grade(path, "04_masking", MESSAGES))
    assert len(first["cells"]) == len(notebook["cells"]) + 3
    assert add_feedback(first, Grade(path, "04_masking", MESSAGES)) == first


def test_each_keeps_its_place_and_a_faulty_one_costs_the_others_nothing(path: Path, tmp_path: Path) -> None:
    other = path.parents[1] / "bob" / "masking.ipynb"
    other.parent.mkdir()
    shutil.copy(path, other)
    faulty = path.with_name("faulty.ipynb")
    faulty.write_text('{"cells": [{"cell_type": "code", "source": "", "metadata": 3}]}')
    grades = [Grade(file, "04_masking", MESSAGES) for file in (faulty, path, other)]
    grades += [Grade(Path("/nowhere.ipynb"), "", {}, "there is no notebook /nowhere.ipynb")]
    (failure,) = write_feedback(grades, tmp_path / "feedback")
    assert failure.startswith(f"no feedback for {faulty}: ")
    written = sorted(file.relative_to(tmp_path / "feedback") for file in (tmp_path / "feedback").rglob("*.ipynb"))
    assert written == [Path("ann/masking.ipynb"), Path("bob/masking.ipynb")]


def test_nothing_is_written_outside_the_folder(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    shutil.copy(path, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    relative = Path("..") / path.relative_to(tmp_path)
    grades = [Grade(file, "04_masking", MESSAGES) for file in (relative, Path("masking.ipynb"))]
    assert write_feedback(grades, Path("feedback")) == []
    assert len(list(Path("feedback").rglob("*.ipynb"))) == 2


def test_notebooks_without_ids_and_odd_characters_are_no_obstacle(path: Path, tmp_path: Path) -> None:
    notebook = read_notebook(path)
    for cell in notebook["cells"]:
        del cell["id"]
    output = {"output_type": "stream", "name": "stdout", "text": "\ud83d"}
    notebook["cells"][-1]["outputs"] = [output]
    path.write_bytes(notebook_text({**notebook, "nbformat_minor": 4}).encode("utf-8", "surrogatepass"))
    path.write_text(path.read_bytes().decode("utf-8", "surrogatepass").replace("\ud83d", "\\ud83d"), "utf-8")
    assert write_feedback([Grade(path, "04_masking", MESSAGES)], tmp_path / "feedback") == []
    nbformat.validate(nbformat.read(tmp_path / "feedback" / "masking.ipynb", as_version=4))


def test_a_notebook_without_metadata_gets_feedback(path: Path, tmp_path: Path) -> None:
    path.write_text(notebook_text({"cells": read_notebook(path)["cells"]}), "utf-8")
    assert write_feedback([Grade(path, "04_masking", MESSAGES)], tmp_path / "feedback") == []
    nbformat.validate(nbformat.read(tmp_path / "feedback" / "masking.ipynb", as_version=4))


def test_no_file_is_overwritten_and_no_feedback_graded(path: Path, tmp_path: Path) -> None:
    submissions = path.parents[1]
    with pytest.raises(UserError, match="it is not an empty folder"):
        check_folder(submissions, [str(path)])
    with pytest.raises(UserError, match="it is not an empty folder"):
        check_folder(path, ["all"])
    with pytest.raises(UserError, match=r"the notebooks in .* are graded"):
        check_folder(submissions / "feedback", [str(submissions)])
    check_folder(tmp_path / "feedback", [str(submissions)])


@pytest.mark.parametrize("failures", [[], ["no feedback for masking.ipynb: KeyError: 'x'"]])
def test_the_command_writes_it(
    failures: list[str],
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    grades = [Grade(path, "04_masking", {"padding_mask": None})]
    folder = tmp_path / "feedback"
    monkeypatch.setattr(grading, "grade_all", lambda names, seconds: grades)
    monkeypatch.setattr(
        writing, "write_feedback", lambda *arguments: failures if arguments == (grades, folder) else None
    )
    assert command.main(["grade", str(path), "--feedback", str(folder)]) == (2 if failures else 0)
    assert capsys.readouterr().err == "".join(f"error: {failure}\n" for failure in failures)
    assert command.main(["grade", str(path), "--feedback", str(path.parent)]) == 2
    assert "it is not an empty folder" in capsys.readouterr().err
