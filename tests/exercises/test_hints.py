"""Hints come line by line."""

import os
from pathlib import Path

import platformdirs
import pytest

from exercises import __main__ as command
from exercises.blanks import read_blanks
from exercises.hints import find_blank, reveal
from tests.exercises.learner import copy_of_course, run_checks
from transformer.errors import UserError


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return copy_of_course(tmp_path, "02_attention", "04_masking")


def test_each_call_shows_one_more_line_until_all_are_shown(course: Path, tmp_path: Path) -> None:
    path, blank = find_blank("masking", "causal_mask", course)
    assert len(blank.hint) == 3
    calls = [reveal(path, blank, tmp_path / "data" / "hints.json") for _ in range(4)]
    assert calls[0] == [
        "04 masking · 2 · Causal mask  ★☆☆ 5 minutes",
        "  rows are queries, columns are keys",
        "Line 1 of 3. Run the command again for the next one.",
    ]
    for count, lines in zip((1, 2, 3, 3), calls, strict=True):
        assert lines[1 : count + 1] == [f"  {line}" for line in blank.hint[:count]]
    assert [len(lines) for lines in calls] == [3, 4, 6, 6]
    assert calls[2][-2].startswith("That is the whole hint.")
    assert calls[2] == calls[3]
    file = tmp_path / "data" / "hints.json"
    assert calls[2][-1] == f"To start again with all hints, delete {file}."
    file.unlink()
    assert reveal(path, blank, file) == calls[0]


def test_each_blank_has_lines_of_its_own(course: Path, tmp_path: Path) -> None:
    file = tmp_path / "hints.json"
    for name, count in (("causal_mask", 1), ("padding_mask", 1), ("causal_mask", 2)):
        assert len(reveal(*find_blank("4", name, course), file)) == count + 2
    other = copy_of_course_elsewhere(course)
    assert len(reveal(other, read_blanks(other)[1], file)) == 3, "another copy begins anew"


def copy_of_course_elsewhere(course: Path) -> Path:
    path = course / "mine.ipynb"
    path.write_bytes((course / "exercises" / "04_masking.ipynb").read_bytes())
    return path


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 3}', '{"a": {"b": null}}', "\ufeff"])
def test_a_damaged_file_is_begun_anew(text: str, course: Path, tmp_path: Path) -> None:
    file = tmp_path / "hints.json"
    file.write_text(text)
    assert [len(reveal(*find_blank("4", "2", course), file)) for _ in range(2)] == [3, 4]


def test_the_default_is_the_first_blank_that_is_not_solved(course: Path) -> None:
    masking = course / "exercises" / "04_masking.ipynb"
    run_checks(masking, {"padding_mask": None, "causal_mask": "wrong"})
    assert find_blank("masking", None, course)[1].name == "causal_mask"
    assert find_blank(None, None, course)[1].name == "attention_scores"
    assert find_blank("masking", "1", course)[1].name == "padding_mask", "by number, even if it is solved"
    run_checks(masking, dict.fromkeys(blank.name for blank in read_blanks(masking)))
    with pytest.raises(UserError, match="all blanks are solved: name the one"):
        find_blank("masking", None, course)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["maskin"], "there is no exercise 'maskin'; did you mean masking?"),
        (["masking", "causal"], "there is no blank 'causal'; did you mean causal_mask?"),
        (["masking", "0"], "there is no blank '0'; choose from padding_mask, "),
        (["all", "1"], "notebooks: name one of them"),
        (["nowhere.ipynb"], "the notebook nowhere.ipynb is missing"),
    ],
)
def test_usage_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["hint", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1
    assert message in error


def test_lines_are_remembered_in_the_users_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(platformdirs, "user_data_path", lambda name: tmp_path / name)
    assert command.main(["hint", "masking", "causal_mask"]) == 0
    assert "Line 1 of 3" in capsys.readouterr().out
    assert (tmp_path / "transformer-course" / "hints.json").is_file()


def test_a_file_that_is_nested_deeply_does_not_stop_the_hint(course: Path, tmp_path: Path) -> None:
    file, found = tmp_path / "hints.json", find_blank("4", "2", course)
    file.write_text("[" * 200_000)
    assert len(reveal(*found, file)) == 3


def test_if_nothing_can_be_remembered_the_whole_hint_is_shown(course: Path, tmp_path: Path) -> None:
    path, blank = find_blank("4", "2", course)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    for place, reason in (("pipe", "it is not a file"), ("file/hints.json", "File exists")):
        lines = reveal(path, blank, tmp_path / place)
        assert lines[1:-2] == [f"  {line}" for line in blank.hint]
        assert lines[-1] == f"(cannot remember what was shown: {reason})"
