"""``watch`` grades a notebook whenever its answers have changed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from exercises import __main__ as command
from exercises import watch as watching
from exercises.blanks import read_blanks
from exercises.grade import Grade, read_submission
from exercises.notebooks import ROOT
from exercises.watch import changes, notebook_to_watch, watch
from tests.exercises.learner import NOTHING_HIDDEN, RIGHT, copy_of_course, fill, run_checks
from transformer.errors import UserError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return copy_of_course(tmp_path, "04_masking") / "exercises" / "04_masking.ipynb"


class LogoutError(Exception):
    """The learner has gone."""


def session(path: Path, *edits: Callable[[], object]) -> list[str]:
    """What is printed while a learner does one thing after the other, with two looks at the file after each."""
    steps = [step for edit in edits for step in (edit, lambda: None)]
    lines: list[str] = []

    def wait() -> None:
        if not steps:
            raise LogoutError
        steps.pop(0)()

    with suppress(LogoutError):
        for line in watch(path, wait=wait):
            lines += [line]
    return lines


@pytest.fixture
def quick_grades(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grade at once; the message of an answer is its last word. The paths that were graded."""
    graded: list[str] = []

    def grade_all(names: list[str], seconds: int, root: Path) -> list[Grade]:
        graded.extend(names)
        answers = read_submission(Path(names[0])).answers
        messages = {
            key: None if ("tril" in text or "None" in text) and "raise" not in text else text.split()[-1]
            for key, text in answers.items()
        }
        return [Grade(Path(names[0]), "04_masking", messages)]

    monkeypatch.setattr(watching, "grade_all", grade_all)
    return graded


def test_what_changed_is_shown(path: Path, quick_grades: list[str]) -> None:
    lines = session(
        path, lambda: fill(path, {"padding_mask": RIGHT["padding_mask"]}), lambda: fill(path, {"padding_mask": "worse"})
    )
    assert lines[0] == f"Watching {path}: save it to grade it again. Ctrl-C stops watching."
    assert lines[1].endswith("  0 of 6"), "first the whole grade"
    assert lines[2:] == [
        "saved: grading …",
        "  ✓ padding_mask",
        "  1 of 6",
        "saved: grading …",
        "  ✗ padding_mask: worse",
        "  0 of 6",
    ]


def test_a_save_without_new_answers_is_not_graded(path: Path, quick_grades: list[str]) -> None:
    fill(path, RIGHT)
    session(path, path.touch, lambda: run_checks(path, {}), lambda: os.utime(path, ns=(1, 1)))
    assert len(quick_grades) == 1


def test_the_answers_to_compare_with_are_those_of_the_last_grading(path: Path, quick_grades: list[str]) -> None:
    blank = path.read_text("utf-8")
    session(path, lambda: fill(path, RIGHT), path.touch)
    assert len(quick_grades) == 2
    fill(path, RIGHT)
    session(path, lambda: path.write_text(blank, "utf-8"), lambda: fill(path, RIGHT))
    assert len(quick_grades) == 2 + 3


def test_a_save_during_the_grading_counts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graded: list[str] = []

    def grade_all(names: list[str], seconds: int, root: Path) -> list[Grade]:
        graded.append(read_submission(path).answers["causal_mask"])
        fill(path, {"causal_mask": "pass  # once more"})
        return [Grade(path, "04_masking", {"causal_mask": "wrong"})]

    monkeypatch.setattr(watching, "grade_all", grade_all)
    session(path)
    assert len(graded) == 2 and graded[1].endswith("once more")


def test_after_a_failed_grading_the_next_save_is_graded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def grade_all(names: list[str], seconds: int, root: Path) -> list[Grade]:
        nonlocal calls
        calls += 1
        if calls == 2:
            return [Grade(path, "04_masking", {}, failure="the kernel died")]
        return [Grade(path, "04_masking", {"causal_mask": "wrong"})]

    monkeypatch.setattr(watching, "grade_all", grade_all)
    lines = session(path, lambda: fill(path, RIGHT), lambda: os.utime(path, ns=(1, 1)))
    assert lines[3:5] == ["error: the kernel died", "saved: grading …"]


def test_a_file_that_is_gone_or_damaged_for_a_while_is_waited_for(path: Path, quick_grades: list[str]) -> None:
    whole = path.read_text("utf-8")
    lines = session(
        path,
        path.unlink,
        lambda: path.write_text(whole[:1000], "utf-8"),
        lambda: path.write_text(whole, "utf-8"),
        lambda: fill(path, {"padding_mask": RIGHT["padding_mask"]}),
    )
    assert lines[2:] == [
        f"error: {path} is not a notebook, or is incomplete: save it again, or download it again",
        "saved: grading …",
        "  ✓ padding_mask",
        "  1 of 6",
    ]


def test_the_last_one_solved_is_celebrated() -> None:
    before, after = (Grade(Path("a"), "04_masking", {"x": message}) for message in ("wrong", None))
    assert list(changes(before, after))[-1].startswith("All solved.")
    assert list(changes(after, after)) == ["  1 of 1"]


def test_it_grades_as_grade_does(path: Path) -> None:
    fill(path, {**RIGHT, "causal_mask": NOTHING_HIDDEN})
    whole = session(path)[1]
    assert "\n  ✓ padding_mask\n  ✗ causal_mask: nothing hidden\n" in whole
    assert whole.endswith("\n  1 of 6")


def test_ctrl_c_ends_it_quietly(path: Path, request: pytest.FixtureRequest) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored here, as in the background
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    process = subprocess.Popen(
        [sys.executable, "-m", "exercises", "watch", str(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline().startswith("Watching ")
    process.send_signal(signal.SIGINT)  # in the middle of the first grading
    _, error = process.communicate()
    assert (process.returncode, error) == (130, "")


def test_the_default_is_the_first_notebook_that_is_not_complete(tmp_path: Path) -> None:
    course = copy_of_course(tmp_path / "course", "04_masking")
    path = course / "exercises" / "04_masking.ipynb"
    assert notebook_to_watch(None, course) == path
    run_checks(path, dict.fromkeys(blank.name for blank in read_blanks(path)))
    with pytest.raises(UserError, match="all notebooks are complete: name the one to watch"):
        notebook_to_watch(None, course)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["maskin"], "there is no exercise 'maskin'; did you mean masking?"),
        (["all"], "notebooks: name one of them"),
        (["nowhere.ipynb"], "the notebook nowhere.ipynb is missing"),
        (["masking", "--seconds", "0"], "--seconds must be at least 1; got 0"),
    ],
)
def test_usage_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["watch", *arguments]) == 2
    printed = capsys.readouterr()
    error = printed.err
    assert printed.out == "" and error.startswith("error: ") and error.count("\n") == 1
    assert message in error
