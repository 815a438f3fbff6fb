"""Every built page in Chromium, with no network: wide, on a phone and dark; as it is drawn, and as axe-core sees it."""

import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
]
KNOWN = ("THEBE_JS_URL", "invalid theme mode")  # the theme's own lines, on every page
BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)


LOOKS = {
    "wide": {"viewport": {"width": 1300, "height": 900}, "color_scheme": "light"},
    "narrow": {"viewport": {"width": 390, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1300, "height": 900}, "color_scheme": "dark"},
}
AXE = {
    "wide": {},
    "narrow": {"rules": {"color-contrast": {"enabled": False}}},  # slow, and a narrow page has the wide one's colours
    "dark": {"runOnly": ["color-contrast"]},  # and the dark one its structure
}
BARRIERS = ("serious", "critical")


@pytest.fixture(scope="module")
def address(html):
    """Where ``make serve`` shows the book."""
    with subprocess.Popen(
        [sys.executable, "-m", "book.serve", "0"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as server:
        yield re.search(r"http://localhost:\d+/", server.stdout.readline()).group()
        server.terminate()


@pytest.fixture(scope="module")
def browser():
    program = next((path for path in map(shutil.which, BROWSERS) if path), None)
    if program is None:
        pytest.skip("no Chromium or Chrome on this machine")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=program, args=FLAGS, env={**os.environ, "TZ": "UTC"})
        yield browser
        browser.close()


@contextmanager
def opened(browser, url, look="wide"):
    """A tab that shows a page, its charts drawn and its formulas set; and what went wrong meanwhile."""
    context = browser.new_context(**LOOKS[look])
    tab, wrong = context.new_page(), []
    origin = re.match(r"\w+://[^/]*/", url).group()

    def note(text):
        if not any(known in text for known in KNOWN):
            wrong.append(text)

    tab.on("request", lambda r: note(f"left: {r.url}") if not r.url.startswith((origin, "data:", "blob:")) else None)
    tab.on("response", lambda r: note(f"{r.status}: {r.url}") if r.status >= 400 else None)
    tab.on("requestfailed", lambda r: note(f"failed: {r.url}"))
    tab.on("pageerror", lambda error: note(f"error: {error}"))
    tab.on("console", lambda message: note(f"console: {message.text}") if message.type == "error" else None)
    tab.goto(url, wait_until="networkidle")
    for chart in tab.query_selector_all("[id^=altair-viz]"):
        tab.wait_for_function("box => box.querySelector('svg, canvas')", arg=chart)
    tab.wait_for_function(
        "document.querySelectorAll('.math').length <= document.querySelectorAll('mjx-container').length"
    )
    yield tab, wrong
    context.close()


def barriers(tab, look):
    """What axe-core finds serious or critical on a page: the rule, where, and what it asks for."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(tab, options={"resultTypes": ["violations"], **AXE[look]}).response["violations"]
    return [
        f"{one['id']}: {' '.join(map(str, node['target']))}: {one['help']}"
        for one in found
        if one["impact"] in BARRIERS
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("look", LOOKS)
def test_a_page_opens_clean_draws_and_fits(browser, address, page, look):
    with opened(browser, address + page, look) as (tab, wrong):
        tab.evaluate("scrollTo(0, document.body.scrollHeight)")
        behind = "[...document.querySelectorAll('[id^=altair-viz] svg')].map(s => getComputedStyle(s).backgroundColor)"
        assert set(tab.evaluate(behind)) <= {"rgba(0, 0, 0, 0)"}, "a chart hides the page's own background"
        assert tab.query_selector("mjx-merror") is None, "a formula has an error"
        tab.wait_for_function("[...document.images].every(image => image.complete)")
        assert tab.evaluate("[...document.images].filter(image => !image.naturalWidth).map(image => image.src)") == []
        assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 1, (
            "it scrolls sideways"
        )
        assert wrong == []


@pytest.mark.parametrize("look", LOOKS)
def test_a_page_has_no_barriers(browser, address, page, look):
    with opened(browser, address + page, look) as (tab, _):
        tab.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true })")
        found = barriers(tab, look)
        assert not found, "\n".join([f"{page}, {look}:", *found])


@pytest.mark.parametrize(
    ("look", "rule", "body"),
    [
        ("wide", "image-alt", "<img src='data:,'>"),
        ("narrow", "button-name", "<button></button>"),
        ("dark", "color-contrast", "<p style='color: #777; background: #666'>Hardly to be read.</p>"),
    ],
)
def test_a_barrier_is_found_in_each_look(browser, look, rule, body):
    context = browser.new_context(**LOOKS[look])
    tab = context.new_page()
    tab.set_content(f"<html lang='en'><title>A page</title><main><h1>A page</h1>{body}</main></html>")
    (found,) = barriers(tab, look)
    context.close()
    tag = re.match(r"<(\w+)", body).group(1)
    assert re.fullmatch(rf"{rule}: {tag}: \S.+", found)


def tab_to(tab, selector):
    """Press the Tab key until what ``selector`` names has the focus; every stop on the way must show that it has it."""
    for _ in range(300):
        tab.keyboard.press("Tab")
        here = tab.evaluate_handle("document.activeElement")
        shown = here.evaluate(
            "e => { const s = getComputedStyle(e);"
            " return s.opacity !== '0' && (s.outlineStyle !== 'none' || s.boxShadow !== 'none') }"
        )
        assert shown, f"focus cannot be seen on {here.evaluate('e => e.outerHTML.slice(0, 200)')}"
        if here.evaluate("(e, selector) => e.matches(selector)", selector):
            return here
    raise AssertionError(f"Tab never reaches {selector}")


def test_the_keyboard_reaches_the_search_a_chart_and_an_answer(browser, address, html):
    with opened(browser, f"{address}chapters/02_attention.html") as (tab, _):
        tab.add_style_tag(content="* { transition: none !important }")
        tab_to(tab, ".search-button__button")

        drawn = "document.querySelector('.vega-embed:has(.vega-bind) svg').outerHTML"
        slider, before = tab_to(tab, ".vega-bind input"), tab.evaluate(drawn)
        slider.press("ArrowRight")
        tab.wait_for_function(f"before => {drawn} !== before", arg=before)

        answer = tab_to(tab, "details:not(.hide) > summary")
        assert not answer.evaluate("e => e.parentElement.open")
        answer.press("Enter")
        assert answer.evaluate("e => e.parentElement.open")


def test_the_search_finds_a_term(browser, address, html):
    with opened(browser, f"{address}book/intro.html") as (tab, _):
        for term, found in {"softmax": True, "zyzzyva": False}.items():
            tab.keyboard.press("Control+k")
            tab.keyboard.type(term)
            tab.keyboard.press("Enter")
            tab.wait_for_url(f"**/search.html?q={term}*")
            tab.wait_for_function(
                "document.querySelector('#search-results .search-summary')?.innerText.includes('match')"
            )
            hits = tab.evaluate("[...document.querySelectorAll('#search-results li a')].map(a => a.innerText)")
            assert ("Attention" in hits) is found, (term, hits)
            assert barriers(tab, "wide") == []


def test_code_is_copied_by_a_button(browser, address, html):
    with opened(browser, f"{address}chapters/02_attention.html") as (tab, _):
        tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
        cells = tab.query_selector_all("div.cell_input div.highlight:visible")
        assert cells and all(cell.query_selector("button.copybtn") for cell in cells)
        cells[0].hover()
        cells[0].query_selector("button.copybtn").click()
        copied = tab.evaluate("navigator.clipboard.readText()")
        assert copied.strip() == cells[0].query_selector("pre").inner_text().strip()
