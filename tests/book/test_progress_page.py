"""The page with a learner's progress, in a browser."""

import shutil
from pathlib import Path

import pytest

from exercises.blanks import read_all_blanks
from exercises.progress_page import write_page
from tests.book.barriers import barriers
from tests.exercises.learner import run_checks

ROOT = Path(__file__).parents[2]
LONG = "the result has wrong numbers, marked with *\n\n" + 3 * f"  [{12 * ' 0.123456*'}]    [{12 * ' 0.123456 '}]\n"


@pytest.fixture(scope="module")
def page_with_mistakes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learner")
    for path in (ROOT / "exercises").glob("0*.ipynb"):
        shutil.copy(path, folder)
    messages = {"padding_mask": None, "causal_mask": LONG, "target_mask": f"it stopped with ValueError: {'x' * 300}"}
    run_checks(folder / "04_masking.ipynb", messages)
    write_page(read_all_blanks([str(folder)]), folder / "progress.html")
    return (folder / "progress.html").as_uri()


def test_it_has_no_barriers_and_requests_nothing(alone, page_with_mistakes, look):
    tab, requests, errors = alone(look)
    tab.goto(page_with_mistakes)
    assert barriers(tab, look) == []
    assert requests == [page_with_mistakes] and errors == []
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
    assert dark == (look == "dark")


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_only_tables_are_wider_than_the_window(alone, page_with_mistakes, width):
    tab, _, _ = alone()
    tab.set_viewport_size({"width": width, "height": 900})
    tab.goto(page_with_mistakes)
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert tab.evaluate("(table => table.scrollWidth > table.clientWidth)(document.querySelector('pre'))")
