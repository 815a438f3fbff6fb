"""What the grader finds counts as progress."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from exercises import __main__ as command
from exercises import grade as grading
from exercises import watch as watching
from exercises.blanks import read_blanks
from exercises.current_notebook import grade_this_notebook
from exercises.grade import NOT_GRADED, Grade, read_submission, record_grades
from exercises.notebooks import NOT_DONE, ROOT, check_key, notebook_text, read_notebook
from exercises.progress import next_exercise, status
from exercises.record import record_file
from exercises.update import update
from tests.exercises.learner import NOTHING_HIDDEN, RIGHT, copy_of_course, fill, run_checks


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return copy_of_course(tmp_path, "04_masking", "06_layers") / "exercises" / "04_masking.ipynb"


def marks(path: Path) -> str:
    return "".join(blank.mark for blank in read_blanks(path))


def record(path: Path, messages: dict[str, str | None]) -> None:
    """Grade a notebook with these results."""
    states = read_submission(path).states
    assert record_grades([Grade(path, "04_masking", messages, states=states)]) == []


@pytest.mark.slow
def test_what_grade_found_is_counted(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(path, {**RIGHT, "target_mask": NOTHING_HIDDEN.replace("causal_mask", "target_mask")})
    before = path.read_bytes()
    assert command.main(["grade", str(path)]) == 1
    assert capsys.readouterr().out.endswith("  2 of 6\n"), "nothing is left to explain"
    assert path.read_bytes() == before, "an editor may have it open"
    assert marks(path) == "✓✓✗···"
    assert next(status([str(path)])).endswith("2 of 6")
    assert "next: 3 · " in next_exercise([str(path)])[1][1]
    assert command.main(["status", str(path)]) == command.main(["next", str(path), "--no-open"]) == 0
    printed = capsys.readouterr().out
    assert "✓ ✓ ✗ · · ·" in printed and "2 of 6 solved; next: 3 · " in printed
    fill(path, {"causal_mask": NOTHING_HIDDEN})
    assert command.main(["grade", str(path)]) == 1
    assert marks(path) == "✓✗✗···", "it passed before"
    assert read_blanks(path)[1].message.startswith("nothing hidden\n")


def test_a_grade_is_for_the_answer_that_was_graded(path: Path) -> None:
    fill(path, RIGHT)
    record(path, {"padding_mask": None, "causal_mask": "inverted"})
    assert marks(path) == "✓✗····"
    fill(path, {"padding_mask": NOTHING_HIDDEN, "causal_mask": NOTHING_HIDDEN})
    assert marks(path) == "······"
    fill(path, {"padding_mask": RIGHT["padding_mask"] + "\n\n"})
    assert marks(path) == "✓·····", "the same answer again"


def test_the_later_one_of_check_and_grade_counts(path: Path) -> None:
    run_checks(path, {"padding_mask": None, "causal_mask": "inverted"})
    record(path, {"padding_mask": "wrong", "causal_mask": None})
    assert marks(path) == "✗✓····"
    notebook = read_notebook(path)
    for cell in notebook["cells"]:
        if check_key(cell) == "padding_mask":
            cell["execution_count"] = 7  # with the same output as before
    path.write_text(notebook_text(notebook), "utf-8")
    run_checks(path, {"causal_mask": "nothing hidden"})
    assert marks(path) == "✓✗····"
    assert read_blanks(path)[1].message == "nothing hidden"


def test_clearing_the_outputs_or_a_check_takes_no_grade_away(path: Path) -> None:
    run_checks(path, {"padding_mask": "wrong"})
    record(path, {"padding_mask": None})
    notebook = read_notebook(path)
    for cell in notebook["cells"]:
        if check_key(cell):
            cell["outputs"], cell["execution_count"] = [], None
    path.write_text(notebook_text(notebook), "utf-8")
    assert marks(path) == "✓·····"
    notebook["cells"] = [cell for cell in notebook["cells"] if not check_key(cell)]
    path.write_text(notebook_text(notebook), "utf-8")
    assert marks(path) == "✓·····"


def test_what_was_not_judged_keeps_its_mark(path: Path) -> None:
    fill(path, RIGHT)
    record(path, {"padding_mask": None, "causal_mask": None})
    record(path, {"padding_mask": NOT_GRADED, "causal_mask": f"{NOT_DONE}: write", "target_mask": f"{NOT_DONE}: write"})
    assert marks(path) == "✓✓····"


def test_notebooks_have_records_of_their_own(path: Path) -> None:
    fill(path, RIGHT)
    copy = path.with_name("copy.ipynb")
    copy.write_bytes(path.read_bytes())
    record(path, {"padding_mask": None})
    record(copy, {"causal_mask": None})
    assert (marks(path), marks(copy)) == ("✓·····", "·✓····")


def test_untouched_notebooks_and_failures_leave_no_record(path: Path) -> None:
    record(path, dict.fromkeys(read_submission(path).answers, f"{NOT_DONE}: write"))
    record_grades([Grade(path, "", {}, "it is not a notebook")])
    assert not record_file(path).exists()


def test_an_update_asks_for_a_new_grade(path: Path) -> None:
    fill(path, RIGHT)
    record(path, {"padding_mask": None})
    update(path)
    assert marks(path) == "······", "what is asked for may have changed"


def test_a_damaged_record_is_none(path: Path) -> None:
    fill(path, RIGHT)
    record(path, {"padding_mask": None})
    record_file(path).write_text('{"padding_mask": 1}')
    assert marks(path) == "······"
    record(path, {"causal_mask": None})
    assert marks(path) == "·✓····"


def test_grades_that_cannot_be_remembered_are_printed_all_the_same(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    fill(path, RIGHT)
    graded = Grade(path, "04_masking", {"padding_mask": None}, states=read_submission(path).states)
    monkeypatch.setattr(grading, "grade_all", lambda names, seconds: [graded])
    assert command.main(["grade", str(path)]) == 0
    printed = capsys.readouterr()
    assert printed.out.endswith("  1 of 1\n")
    folder = record_file(path).parent
    assert printed.err == f"note: `status` and `next` won't count this: cannot write to {folder}: Not a directory\n"


def test_watch_and_the_last_cell_of_a_notebook_record_too(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def grade_all(names: list[str], seconds: int, root: Path = ROOT) -> list[Grade]:
        submission = read_submission(Path(names[0]))
        messages = {
            key: None if "def" in text and "raise" not in text else NOT_DONE for key, text in submission.answers.items()
        }
        return [Grade(submission.path, "04_masking", messages, states=submission.states)]

    fill(path, {"padding_mask": RIGHT["padding_mask"]})
    monkeypatch.setattr(watching, "grade_all", grade_all)
    lines = watching.watch(path, wait=lambda: fill(path, RIGHT))
    assert "1 of 6" in (next(lines), next(lines))[1]
    assert marks(path) == "✓·····"
    assert (next(lines), next(lines)) == ("saved: grading …", "  ✓ causal_mask")
    assert marks(path) == "✓✓····"
    fill(path, {"target_mask": "def target_mask(): ..."})
    monkeypatch.setattr("exercises.current_notebook.grade_all", grade_all)
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))
    grade_this_notebook()
    assert marks(path) == "✓✓✓···"


def test_what_colab_sends_leaves_no_record(
    path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    colab: Any = types.ModuleType("google.colab")
    colab._message = types.SimpleNamespace(blocking_request=lambda *_, **__: {"ipynb": read_notebook(path)})
    monkeypatch.setitem(sys.modules, "google", types.ModuleType("google"))
    monkeypatch.setitem(sys.modules, "google.colab", colab)

    def grade_all(names: list[str], seconds: int) -> list[Grade]:
        states = read_submission(Path(names[0])).states
        return [Grade(Path(names[0]), "04_masking", {"padding_mask": None}, states=states)]

    monkeypatch.setattr("exercises.current_notebook.grade_all", grade_all)
    before = set(data_folder.rglob("*"))
    grade_this_notebook()
    assert set(data_folder.rglob("*")) == before
    assert capsys.readouterr().out.startswith("04 masking · this notebook\n")
