"""The built book in a browser: what its tests and its PDF have in common."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, Playwright

from book.serve import server

PROGRAMS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
]


def program() -> str | None:
    """The path of this machine's Chromium or Chrome, if it has one."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


def launch(playwright: Playwright) -> Browser:
    """Start this machine's Chromium or Chrome."""
    return playwright.chromium.launch(executable_path=program(), args=FLAGS, env={**os.environ, "TZ": "UTC"})


@contextmanager
def served() -> Iterator[str]:
    """The address at which the built book can be opened, meanwhile."""
    with server(0) as one:
        threading.Thread(target=one.serve_forever, daemon=True).start()
        yield f"http://localhost:{one.server_port}/"
        one.shutdown()


def visit(tab: Page, address: str) -> None:
    """Open a page, and wait until its charts are drawn, its formulas set and its images there."""
    tab.goto(address, wait_until="networkidle")
    tab.wait_for_function(
        "[...document.querySelectorAll('[id^=altair-viz]')].every(box => box.querySelector('svg, canvas'))"
        "&& document.querySelectorAll('.math').length <= document.querySelectorAll('mjx-container').length"
        "&& [...document.images].every(image => image.complete)"
    )
