"""The small pictures of the chapters: each draws, answers the keyboard, fits a phone, and puts up no barrier."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.book.test_barriers import BARRIERS

PICTURES = {
    "attention": ("02_attention", "circle[aria-label^=query]", "ArrowRight", "Attention of the query (1.3, 0.6)"),
    "masks": ("04_masking", "label:last-child input", "Space", "5 of 5 rows sum to less than one"),
    "positions": ("05_positional_encoding", "input[aria-label=position]", "ArrowRight", "Orange: position 6"),
    "norm": ("06_layers", "input[type=checkbox]", "Space", "Pre-norm, x + sublayer(norm(x))"),
    "merges": ("08_subword_tokenization", "button:nth-of-type(2)", "Enter", "1 of 10 merges. The last one made ea."),
    "smoothing": ("10_label_smoothing", "input[aria-label^=probability]", "End", "a gradient step lowers it"),
    "schedule": ("11_training", "input[aria-label=d_model]", "ArrowLeft", "1.41 times as high"),
}
"""For each: its chapter, a control, a key, and what is said when the key has been pressed."""


def barriers(tab, **only):
    """What axe-core finds serious or critical in the pictures of a page."""
    options = {"resultTypes": ["violations"], "preload": False, **only}
    found = Axe().run(tab, context=".small-widget", options=options).response["violations"]
    return [(one["id"], node["html"][:200]) for one in found if one["impact"] in BARRIERS for node in one["nodes"]]


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_draws_answers_and_fits(opened, address, html, name):
    chapter, control, key, says = PICTURES[name]
    with opened(f"{address}chapters/{chapter}.html") as (tab, wrong):
        tab.locator(f"[data-widget={name}]").scroll_into_view_if_needed()
        picture = tab.locator(f"[data-widget={name}] .small-widget")
        picture.wait_for()
        assert says not in picture.inner_text()
        picture.locator(control).first.press(key)
        assert says in picture.inner_text()
        assert picture.locator(control).first.evaluate("one => one === document.activeElement"), "the focus was lost"
        assert wrong == []
        assert barriers(tab) == []

        tab.evaluate("document.documentElement.dataset.theme = 'dark'")
        assert barriers(tab, runOnly=["color-contrast"]) == []
        tab.set_viewport_size({"width": 390, "height": 900})
        assert picture.evaluate("one => one.getBoundingClientRect().right <= 390 && one.scrollWidth <= one.clientWidth")
        assert wrong == []


def test_a_picture_that_arrives_late_takes_over_the_focus(browser, address, html):
    with browser.new_context() as context:
        tab, held = context.new_page(), []
        tab.route("**/widgets/attention.mjs", lambda route: held.append(route))
        with tab.expect_request("**/widgets/attention.mjs"):
            tab.goto(f"{address}chapters/02_attention.html", wait_until="domcontentloaded")
            tab.locator("[data-widget=attention]").scroll_into_view_if_needed()
        tab.evaluate("document.querySelector('[data-widget=attention] table').setAttribute('tabindex', 0)")
        tab.locator("[data-widget=attention] table").focus()
        held.pop().continue_()
        tab.locator("[data-widget=attention] .small-widget").wait_for()
        assert tab.evaluate("document.activeElement.matches('[data-widget=attention] .small-widget input')")


def test_without_javascript_its_beginning_stands_there(browser, address, html):
    with browser.new_context(java_script_enabled=False) as context:
        tab = context.new_page()
        for name, (chapter, *_) in PICTURES.items():
            tab.goto(f"{address}chapters/{chapter}.html", wait_until="domcontentloaded")
            still = tab.locator(f"[data-widget={name}]")
            assert "This is how it begins" in still.inner_text() and still.locator("table").count() == 1
