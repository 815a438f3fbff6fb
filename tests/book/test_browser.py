"""Every built page in Chromium, with no network: wide, on a phone and dark; as it is drawn, and as axe-core sees it."""

import re
from contextlib import contextmanager

import pytest

from book.browser import visit
from book.pdf import WIDTH

KNOWN = ("THEBE_JS_URL", "invalid theme mode")  # the theme's own lines, on every page
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
    visit(tab, url)
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
        assert tab.evaluate("[...document.images].filter(image => !image.naturalWidth).map(image => image.src)") == []
        assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 1, (
            "it scrolls sideways"
        )
        assert wrong == []


def test_nothing_is_cut_off_on_paper(browser, address, page):
    tab = browser.new_page(viewport={"width": WIDTH, "height": 1000})
    tab.emulate_media(media="print")
    visit(tab, address + page)
    cut = tab.evaluate(
        "[...document.querySelectorAll('article :is(table, pre, img, svg)')]"
        f".filter(part => part.getBoundingClientRect().right > {WIDTH}).map(part => part.outerHTML.slice(0, 200))"
    )
    tab.close()
    assert cut == []


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
