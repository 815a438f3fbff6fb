"""The built book, or a skipped test that says how to build it."""

from pathlib import Path

import pytest

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
