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


@pytest.mark.parametrize("look", ["wide", "narrow", "dark"])
def test_a_page_opens_clean_draws_and_fits(browser, address, page, look):
    context = browser.new_context(
        viewport={"width": 390 if look == "narrow" else 1300, "height": 900},
        color_scheme="dark" if look == "dark" else "light",
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

    for chart in tab.query_selector_all("[id^=altair-viz]"):
        tab.wait_for_function("box => box.querySelector('svg, canvas')", arg=chart)
    behind = "[...document.querySelectorAll('[id^=altair-viz] svg')].map(s => getComputedStyle(s).backgroundColor)"
    assert set(tab.evaluate(behind)) <= {"rgba(0, 0, 0, 0)"}, "a chart hides the page's own background"

    all_set = "document.querySelectorAll('.math').length <= document.querySelectorAll('mjx-container').length"
    tab.wait_for_function(all_set)
    assert tab.query_selector("mjx-merror") is None, "a formula has an error"

    tab.wait_for_function("[...document.images].every(image => image.complete)")
    assert tab.evaluate("[...document.images].filter(image => !image.naturalWidth).map(image => image.src)") == []
    assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 1, (
        "it scrolls sideways"
    )
    assert wrong == []
    context.close()
