"""Answers that are checked on a page of the book: what a notebook would show."""

import importlib

import pytest

from exercises.make import make_exercise, read_solution
from exercises.notebooks import ROOT, answer_key
from exercises.page import check_answer

SETUP = "from itertools import pairwise\n\nfrom exercises.checks.subword_tokenization import check, given"


def check(code: str, name: str = "decode") -> tuple[bool, str]:
    return check_answer("subword_tokenization", SETUP, name, code)


@pytest.mark.parametrize("number", sorted(path.stem for path in (ROOT / "book" / "exercises").glob("*.md")))
def test_solutions_are_right_and_blanks_are_not(number: str) -> None:
    source = ROOT / "solutions" / f"{number}.py"
    solution = read_solution(source)
    setup = next(cell["source"] for cell in solution["cells"] if "from exercises.checks." in cell["source"])
    topic = importlib.import_module(f"exercises.checks.{number[3:]}").topic
    for cell, blank in zip(solution["cells"], make_exercise(source)["cells"], strict=True):
        if name := answer_key(cell):
            assert check_answer(number[3:], setup, name, cell["source"]) == (True, f"{topic.exercises[name].success}\n")
            is_right, text = check_answer(number[3:], setup, name, blank["source"])
            assert not is_right and text.startswith(f"✗ {name}: not done yet")


def test_a_mistake_gets_its_message() -> None:
    is_right, text = check("def decode(symbols):\n    return ' '.join(symbols)")
    assert not is_right and text.startswith("✗ decode: ")


def test_an_error_is_shown_with_the_line_of_the_answer() -> None:
    assert (
        "in line 2 of its cell: return symbols.missing" in check("def decode(symbols):\n    return symbols.missing")[1]
    )


def test_what_fails_before_the_check_is_shown_as_python_shows_it() -> None:
    assert check("def decode(symbols)\n    pass")[1].splitlines()[-1] == "SyntaxError: expected ':'"
    text = check("print('before')\n1 / 0")[1]
    assert text.startswith('before\nTraceback (most recent call last):\n  File "<decode>", line 2, in <module>\n')
    assert "exercises" not in text and text.endswith("ZeroDivisionError: division by zero\n")
    assert check("raise SystemExit(1)")[1].endswith("SystemExit: 1\n")


def test_an_earlier_answer_is_not_checked_in_place_of_a_missing_one() -> None:
    right = "def decode(symbols):\n    return ''.join(symbols).replace('▁', ' ').removeprefix(' ')"
    assert check(right)[0]
    assert check(right.replace("decode", "other")) == (False, "NameError: name 'decode' is not defined\n")


def test_helpers_stay_defined_as_in_a_notebook() -> None:
    check("def helper(symbols):\n    return ''.join(symbols).replace('▁', ' ')")
    assert check("def decode(symbols):\n    return helper(symbols).removeprefix(' ')")[0]
