"""Open the built book in Chromium or Chrome, for its tests and for its PDF."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, Playwright

from book.serve import create_server

PROGRAMS = (
    "chromium-headless-shell",  # Chromium without its windows, which opens a page in about half the time
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


def find_browser() -> str | None:
    """Return the path of Chromium or Chrome, or None if neither is installed."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


def launch(playwright: Playwright) -> Browser:
    """Start Chromium or Chrome."""
    return playwright.chromium.launch(executable_path=find_browser(), args=FLAGS, env={**os.environ, "TZ": "UTC"})


@contextmanager
def serve_book() -> Iterator[str]:
    """Serve the built book while the context is open; yields its address."""
    with create_server(0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()


def visit(tab: Page, address: str) -> None:
    """Open a page and wait until its charts are drawn, its formulas typeset and its images loaded."""
    tab.goto(address, wait_until="networkidle")
    tab.wait_for_function(
        "[...document.querySelectorAll('[id^=altair-viz]')].every(box => box.querySelector('svg, canvas'))"
        "&& document.querySelectorAll('.math').length <= document.querySelectorAll('mjx-container').length"
        "&& [...document.images].every(image => image.complete)"
    )
