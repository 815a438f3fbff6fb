"""Every built page, opened in Chromium with no network: wide, on a phone, and dark."""

import os
import re
import shutil
import subprocess
import sys
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


@pytest.fixture(params=["wide", "narrow", "dark"])
def visit(request, browser, address, page):
    """The open page, and what went wrong while it opened."""
    context = browser.new_context(
        viewport={"width": 390 if request.param == "narrow" else 1300, "height": 900},
        color_scheme="dark" if request.param == "dark" else "light",
    )
    tab, wrong = context.new_page(), []

    def note(text):
        if not any(known in text for known in KNOWN):
            wrong.append(text)

    tab.on("request", lambda r: note(f"left: {r.url}") if not r.url.startswith((address, "data:", "blob:")) else None)
    tab.on("response", lambda r: note(f"{r.status}: {r.url}") if r.status >= 400 else None)
    tab.on("requestfailed", lambda r: note(f"failed: {r.url}"))
    tab.on("pageerror", lambda error: note(f"error: {error}"))
    tab.on("console", lambda message: note(f"console: {message.text}") if message.type == "error" else None)
    tab.goto(address + page, wait_until="networkidle")
    tab.evaluate("scrollTo(0, document.body.scrollHeight)")
    tab.wait_for_timeout(300)
    yield tab, wrong
    context.close()


def test_the_page_opens_clean_and_fits(visit):
    tab, wrong = visit
    assert wrong == []
    assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 1
    assert tab.evaluate("[...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)") == []


def test_charts_are_drawn_in_the_colours_of_the_page(visit):
    tab, _ = visit
    charts = tab.query_selector_all("[id^=altair-viz]")
    for chart in charts:
        tab.wait_for_function("box => box.querySelector('svg, canvas')", arg=chart)
    behind = "[...document.querySelectorAll('[id^=altair-viz] svg')].map(s => getComputedStyle(s).backgroundColor)"
    assert set(tab.evaluate(behind)) <= {"rgba(0, 0, 0, 0)"}


def test_formulas_are_set(visit):
    tab, _ = visit
    tab.wait_for_function(
        "document.querySelectorAll('.math').length <= document.querySelectorAll('mjx-container').length"
    )
    assert tab.query_selector("mjx-merror") is None
