"""Exercises on a page: Python runs in the browser, only when it is asked for, and says what it says elsewhere."""

import pytest

from exercises.limits import MAX_SECONDS, did_not_finish
from exercises.page import check_answer
from tests.book.barriers import barriers

PAGE, NAME = "book/exercises/08_subword_tokenization.html", "count_pairs"
SETUP = "from itertools import pairwise\n\nfrom exercises.checks.subword_tokenization import check, given"
RIGHT = """\
def count_pairs(words, counts):
    found = {}
    for symbols, count in zip(words, counts, strict=True):
        for pair in pairwise(symbols):
            found[pair] = found.get(pair, 0) + count
    return found
"""
WRONG = RIGHT.replace("+ count\n", "+ 1\n")
RAISES = RIGHT.replace("found = {}", "found = {}[words[0][0]]")
KEYBOARD_REACHES_WHAT_SCROLLS = """() => [...document.querySelectorAll("pre")].every(
    pre => pre.tabIndex === 0 || pre.scrollWidth <= pre.clientWidth
)"""
ENDLESS = "def count_pairs(words, counts):\n    while True:\n        pass\n"
SECONDS = 120
"""Loading Python takes seconds, and more on a busy computer."""


class Exercise:
    """The first exercise on a page."""

    def __init__(self, tab):
        self.tab = tab
        self.widget = tab.locator("[data-widget=exercise]").first
        self.editor = tab.get_by_label(f"Your answer: {NAME}")
        self.result = tab.get_by_label(f"Result of the check: {NAME}")

    def open(self):
        self.widget.scroll_into_view_if_needed()
        self.widget.get_by_role("button", name="Try it here").click()
        return self

    def check(self, code):
        self.editor.fill(code)
        self.widget.get_by_role("button", name="Check", exact=True).click()
        self.widget.locator("pre.right, pre.wrong").wait_for(timeout=1000 * SECONDS)
        return self.text()

    def text(self):
        """What the last check said."""
        return self.result.inner_text().strip()


@pytest.fixture
def with_python(html):
    if not (html / "_static" / "pyodide").exists():
        pytest.skip("the book was built without Pyodide: npm could not download it")


def test_an_answer_is_checked_in_the_browser(opened, address, with_python):
    with opened(address + PAGE) as (tab, errors):
        requests = []
        tab.on("request", lambda request: requests.append(request.url))
        exercise = Exercise(tab)
        exercise.widget.scroll_into_view_if_needed()
        exercise.widget.get_by_role("button", name="Try it here").wait_for()
        assert not any("pyodide" in url for url in requests), "Python is loaded before it is asked for"

        exercise.open()
        exercise.editor.press("Shift+Enter")
        exercise.editor.press("x")
        assert exercise.text() == "Loading Python …", "one can type while it loads, and still sees that it does"
        for code in (WRONG, RAISES, RIGHT):
            assert exercise.check(code) == check_answer("", SETUP, NAME, code)[1].strip()
        assert exercise.text() == f"✓ {NAME}"
        assert any(url.endswith(".wasm") for url in requests), "the requests of the worker are seen"

        assert exercise.check(ENDLESS) == f"✗ {NAME}: {did_not_finish(MAX_SECONDS)}"
        assert exercise.check(RIGHT) == f"✓ {NAME}"
        assert errors == []

        requests.clear()
        tab.reload()
        exercise.widget.scroll_into_view_if_needed()
        assert exercise.editor.input_value() == RIGHT and exercise.text() == f"✓ {NAME}"
        exercise.widget.get_by_role("button", name="Start again").click()
        assert "not done yet" in exercise.editor.input_value() and exercise.text() == ""
        tab.reload()
        exercise.widget.get_by_role("button", name="Try it here").wait_for()
        assert not any("pyodide" in url for url in requests), "Python is loaded before it is asked for"


@pytest.fixture
def offline(browser, address, with_python):
    """An exercise whose Python can't be loaded."""
    with browser.new_context() as context:
        tab = context.new_page()
        tab.route("**/pyodide/**", lambda route: route.abort())
        tab.goto(address + PAGE)
        yield Exercise(tab).open()


def test_the_editor_indents_and_lets_the_keyboard_leave(offline):
    editor, tab = offline.editor, offline.tab
    assert editor.evaluate("element => element === document.activeElement")
    editor.fill("")
    for key in ("f", "o", "r", ":", "Enter", "x", "Enter", "Shift+Tab", "y", "Tab", "z"):
        editor.press(key)
    assert editor.input_value() == "for:\n    x\ny   z"
    tab.keyboard.press("ControlOrMeta+a")
    tab.keyboard.press("Tab")
    assert editor.input_value() == "    for:\n        x\n    y   z"
    tab.keyboard.press("ControlOrMeta+z")
    assert editor.input_value() == "for:\n    x\ny   z"
    editor.evaluate("element => element.setSelectionRange(0, 5)")  # the first line with its line break
    tab.keyboard.press("Tab")
    assert editor.input_value() == "    for:\n    x\ny   z"
    editor.evaluate("element => element.setSelectionRange(2, 2)")
    tab.keyboard.press("Shift+Tab")
    assert editor.input_value() == "for:\n    x\ny   z"
    assert editor.evaluate("element => [element.selectionStart, element.selectionEnd]") == [0, 0]
    tab.keyboard.press("Escape")
    tab.keyboard.press("Tab")
    assert editor.evaluate("element => element !== document.activeElement")


def test_if_python_cannot_be_loaded_the_page_says_so(offline):
    offline.editor.press("Shift+Enter")
    offline.widget.locator("pre.wrong").wait_for()
    assert offline.text().startswith("Python can't be used here: ")
    assert offline.widget.get_by_role("button", name="Check", exact=True).is_enabled()

    offline.tab.unroute("**/pyodide/**")
    for file, reason in {"course.zip": "course.zip: 404\n", "pyodide.asm.wasm": "Failed to"}.items():
        offline.tab.route(f"**/{file}", lambda route: route.fulfill(status=404))
        offline.editor.press("Shift+Enter")
        offline.widget.locator("pre.wrong").wait_for(timeout=1000 * SECONDS)
        assert offline.text().startswith(f"Python can't be used here: {reason}")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_open_exercise_fits_and_has_no_barriers(offline, theme):
    tab = offline.tab
    tab.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
    tab.set_viewport_size({"width": 390, "height": 900})
    tab.wait_for_function(KEYBOARD_REACHES_WHAT_SCROLLS)  # soon after a resize, by the theme's script
    offline.editor.press("Shift+Enter")
    offline.widget.locator("pre.wrong").wait_for()
    assert barriers(tab, "wide") == []
    assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 1


def test_on_a_phone_an_open_exercise_shows_the_beginning_of_its_lines(opened, address, with_python):
    with opened(address + PAGE, "narrow") as (tab, _):
        editor = Exercise(tab).open().editor
        assert editor.evaluate("one => [one.scrollWidth > one.clientWidth, one.scrollLeft]") == [True, 0]
