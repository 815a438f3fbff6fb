"""The built book and a browser, or a skipped test that says what there should be."""

from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from book.browser import launch, program, served

ROOT = Path(__file__).parents[2]
HTML = ROOT / "_build" / "html"
OTHERS = {"genindex.html", "search.html", "prf-prf.html"}


def built_pages() -> list[str]:
    """The pages of the built book, as paths in it."""
    pages = (path.relative_to(HTML) for path in HTML.rglob("*.html"))
    return sorted(page.as_posix() for page in pages if page.parts[0] != "_static" and page.name not in OTHERS)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for ``page`` runs for each page."""
    if "page" in metafunc.fixturenames:
        metafunc.parametrize("page", built_pages() or [pytest.param(None, id="none")])


@pytest.fixture(scope="session")
def html() -> Path:
    """The folder of a complete, built book."""
    if not (HTML / ".built").exists():
        pytest.skip("the book is not built: make book")
    return HTML


@pytest.fixture(scope="module")
def address(html):
    """Where the built book can be opened."""
    with served() as address:
        yield address


@pytest.fixture(scope="session")
def chromium():
    """Whether there is a browser, or a skipped test that says so."""
    if program() is None:
        pytest.skip("no Chromium or Chrome on this machine")


@pytest.fixture(scope="module")
def browser(chromium):
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()
