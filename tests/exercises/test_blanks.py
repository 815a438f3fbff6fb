"""What a notebook tells of its blanks, read without running it."""

from pathlib import Path

import pytest

from exercises.blanks import first_unsolved, read_all_blanks, read_blanks
from exercises.notebooks import (
    PLACEHOLDER,
    PLACEHOLDER_BEFORE_BUGS,
    ROOT,
    check_key,
    is_open,
    notebook_text,
    read_notebook,
)
from tests.exercises.learner import copy_of_course, fill, run_checks
from transformer.errors import UserError


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return copy_of_course(tmp_path, "02_attention", "04_masking")


def test_a_blank_has_what_its_text_says() -> None:
    blank = read_blanks(ROOT / "exercises" / "10_label_smoothing.ipynb")[1]
    assert (blank.name, blank.title, blank.mark) == ("smoothed_target", "2 · The smoothed target", "·")
    assert str(blank) == "2 · The smoothed target  ★☆☆ 5 minutes"
    assert blank.hint == (
        "a tensor with ε / V everywhere        (tokens, vocab_size)",
        "add 1 - ε at the correct token",
    )


@pytest.mark.parametrize("path", sorted((ROOT / "exercises").glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_blank_has_a_title_an_effort_and_a_hint(path: Path) -> None:
    for number, blank in enumerate(read_blanks(path), 1):
        assert blank.title.startswith(f"{number} · ")
        assert len(blank.stars) == 3 and blank.minutes > 0
        assert blank.hint
        assert not any("```" in line or "<" + "details" in line for line in blank.hint)


def test_a_paragraph_below_the_code_of_a_hint_is_its_last_line() -> None:
    blanks = {blank.name: blank for blank in read_blanks(ROOT / "exercises" / "09_data_and_batching.ipynb")}
    assert blanks["clean_pairs"].hint[-1].startswith("If you divide in the third rule")
    assert blanks["clean_pairs"].hint[1].startswith("    split"), "indented as in the notebook"


def test_the_last_message_is_that_of_the_check(course: Path) -> None:
    path = course / "exercises" / "04_masking.ipynb"
    run_checks(path, {"padding_mask": None, "causal_mask": "nothing hidden\nIt is all True."})
    fill(path, {"target_mask": "pass"})
    blanks = {blank.name: blank for blank in read_blanks(path)}
    assert [blank.mark for blank in blanks.values()] == ["✓", "✗", "·", "·", "·", "·"]
    assert blanks["causal_mask"].message == "nothing hidden\nIt is all True."
    assert blanks["padding_mask"].message == ""


def test_other_errors_and_outputs_are_told_too(course: Path) -> None:
    path = course / "exercises" / "04_masking.ipynb"
    run_checks(path, {"padding_mask": "", "causal_mask": None})
    notebook = read_notebook(path)
    for cell in notebook["cells"]:
        if check_key(cell) == "padding_mask":
            cell["outputs"][0] |= {"ename": "NameError", "evalue": "name 'check' is not defined"}
        if check_key(cell) == "causal_mask":
            cell["outputs"][0]["text"] = "something else"
    path.write_text(notebook_text(notebook), "utf-8")
    first, second, *_ = read_blanks(path)
    assert (first.mark, first.message) == ("✗", "NameError: name 'check' is not defined")
    assert (second.mark, second.message) == ("✗", "its check did not print the expected line")


def test_an_answer_that_keeps_the_placeholder_as_a_comment_is_not_open(course: Path) -> None:
    path = course / "exercises" / "04_masking.ipynb"
    run_checks(path, {"padding_mask": "inverted", "causal_mask": "inverted"})
    fill(path, {"padding_mask": f"    # {PLACEHOLDER}\n    return 1", "causal_mask": f"    x = 1\n    {PLACEHOLDER}"})
    assert [blank.mark for blank in read_blanks(path)][:2] == ["✗", "·"]
    run_checks(path, {"padding_mask": None, "causal_mask": None})
    fill(path, {"causal_mask": f"    {PLACEHOLDER}"})
    assert [blank.mark for blank in read_blanks(path)][:2] == ["✓", "·"], "the second blank is open again"
    for line in (PLACEHOLDER, PLACEHOLDER_BEFORE_BUGS):
        assert is_open(line) and is_open(f"    {line}\n    return 1") and not is_open(f"return 1  # {line}")


@pytest.mark.parametrize(
    ("source", "key"),
    [
        ('check("softmax", softmax)', "softmax"),
        ("check('softmax', softmax);\n", "softmax"),
        ("x = 1\ncheck('softmax',softmax)  # solved", "softmax"),
        ('check("softmax", softmax)\n\n', "softmax"),
        ('check("softmax", other)', None),
        ('check("softmax", softmax) + 1', None),
    ],
)
def test_checks_are_recognised_however_they_are_written(source: str, key: str | None) -> None:
    assert check_key({"cell_type": "code", "source": source}) == key


def test_the_first_unsolved_blank_is_in_the_first_notebook_that_is_not_complete(course: Path) -> None:
    path, blank = first_unsolved(read_all_blanks(root=course)) or pytest.fail("none found")
    assert (path.stem, blank.name) == ("02_attention", "attention_scores")
    run_checks(path, dict.fromkeys([blank.name for blank in read_blanks(path)]))
    run_checks(course / "exercises" / "04_masking.ipynb", {"padding_mask": None, "causal_mask": "wrong"})
    path, blank = first_unsolved(read_all_blanks(root=course)) or pytest.fail("none found")
    assert (path.stem, blank.name) == ("04_masking", "causal_mask"), "a wrong one isn't solved"
    run_checks(path, dict.fromkeys([blank.name for blank in read_blanks(path)]))
    assert first_unsolved(read_all_blanks(root=course)) is None


def test_names_may_be_of_a_folder_with_other_notebooks_in_it(course: Path) -> None:
    other = course / "exercises" / "notes.ipynb"
    other.write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    found = read_all_blanks([str(course / "exercises")], course)
    assert [path.stem for path in found] == ["02_attention", "04_masking"]
    with pytest.raises(UserError, match=r"no exercise notebook in .*notes\.ipynb: none has a cell"):
        read_all_blanks([str(other)], course)


def test_installed_notebooks_are_not_the_learners(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="run this in a clone of the course"):
        read_all_blanks(root=tmp_path)
