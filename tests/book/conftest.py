"""Fixtures for the built book and a browser; without them tests are skipped with the reason."""

import shutil
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from book.browser import find_browser, launch, serve_book, visit
from transformer.cli import main

ROOT = Path(__file__).parents[2]
HTML = ROOT / "_build" / "html"
KNOWN = ("THEBE_JS_URL", "invalid theme mode")  # messages of the theme, on every page
LOOKS = {
    "wide": {"viewport": {"width": 1300, "height": 900}, "color_scheme": "light"},
    "narrow": {"viewport": {"width": 390, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1300, "height": 900}, "color_scheme": "dark"},
}
SAMPLE = {
    "index.html",
    "book/live.html",
    "book/faq.html",
    "chapters/02_attention.html",
    "chapters/09_data_and_batching.html",
}
"""Pages that are looked at in dark mode, on paper, on a narrow screen with axe-core, and for their colours, in every
run; between them they have all kinds of content. The others are looked at weekly."""
WEEKLY = {
    "test_a_page_has_no_barriers": ("dark", "narrow"),
    "test_colours_have_enough_contrast": ("dark", "wide"),
    "test_nothing_is_cut_off_on_paper": ("dark", "wide"),
}
"""Looks of the pages outside the sample that a test looks at weekly; for all other tests, it is the dark one."""
MODEL, SENTENCE, OTHER = "pocket-small", "Why does the dog not sleep?", "The old woman does not open the window."
OTHERS = {"genindex.html", "search.html", "404.html"}


def built_pages() -> list[str]:
    """Return the pages of the built book as relative paths."""
    pages = (path.relative_to(HTML) for path in HTML.rglob("*.html"))
    return sorted(page.as_posix() for page in pages if page.parts[0] != "_static" and page.name not in OTHERS)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that uses ``page`` for each page, ``look`` for each look, and ``shown`` for each page in each look."""
    pages = built_pages() or [pytest.param(None, id="none")]
    if "shown" in metafunc.fixturenames:
        weekly = WEEKLY.get(metafunc.function.__name__, ("dark",))
        shown = [
            pytest.param(
                (page, look),
                id=f"{page}-{look}",
                marks=[pytest.mark.soak] if look in weekly and page not in SAMPLE else [],
            )
            for page in built_pages()
            for look in LOOKS
        ]
        metafunc.parametrize("shown", shown or pages, indirect=True, scope="module")
    if "look" in metafunc.fixturenames:
        metafunc.parametrize("look", LOOKS)
    if "page" in metafunc.fixturenames:
        metafunc.parametrize("page", pages)


def install(package: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install a package of npm, such as "name@1.0.0", into a new folder, and return it; without npm, skip the test."""
    folder = tmp_path_factory.mktemp("npm")
    if shutil.which("npm") is None:
        pytest.skip("Node is not installed")
    command = ["npm", "install", "--silent", "--prefix", folder, package]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        pytest.skip(f"{package} can't be installed: {process.stderr}")
    return folder


@pytest.fixture(scope="session")
def html() -> Path:
    """Return the folder of the built book, if its build was complete."""
    if not (HTML / ".built").exists():
        pytest.skip("the book is not built: make book")
    return HTML


@pytest.fixture(scope="module")
def address(html):
    """Return the address at which the built book is served."""
    with serve_book() as address:
        yield address


@pytest.fixture(scope="session")
def chromium():
    """Skip the test if neither Chromium nor Chrome is installed."""
    if find_browser() is None:
        pytest.skip("neither Chromium nor Chrome is installed")


@pytest.fixture(scope="module")
def browser(chromium):
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def opened(browser):
    """Call it with an address and a look: a context with a tab that shows the page, and a list of errors."""

    @contextmanager
    def opened(url, look="wide"):
        errors = []
        origin = url if url.startswith("data:") else url[: url.index("/", len("http://")) + 1]

        def note(text):
            if not any(known in text for known in KNOWN):
                errors.append(text)

        def check_request(request):
            if not request.url.startswith((origin, "data:", "blob:")):
                note(f"external request: {request.url}")

        with browser.new_context(**LOOKS[look]) as context:
            tab = context.new_page()
            tab.on("request", check_request)
            tab.on("response", lambda r: note(f"{r.status}: {r.url}") if r.status >= 400 else None)
            tab.on("requestfailed", lambda r: note(f"failed: {r.url}"))
            tab.on("pageerror", lambda error: note(f"error: {error}"))
            tab.on("console", lambda message: note(f"console: {message.text}") if message.type == "error" else None)
            visit(tab, url)
            yield tab, errors

    return opened


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """Return the address of the page with a live translator that the command writes."""
    path = tmp_path_factory.mktemp("page") / "a page.html"
    main(["attention", MODEL, SENTENCE, OTHER, "--device", "cpu", "--output", str(path)])
    return path.as_uri()


@pytest.fixture
def alone(browser):
    """Call it with a look: returns a tab without network, and lists of its requests and of its errors."""
    contexts = []

    def alone(look="wide", **more):
        contexts.append(browser.new_context(offline=True, **LOOKS[look], **more))
        tab, requests, errors = contexts[-1].new_page(), [], []
        tab.on("request", lambda request: requests.append(request.url))
        tab.on("pageerror", lambda error: errors.append(f"{error}"))
        tab.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
        return tab, requests, errors

    yield alone
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def windows():
    """A stack that closes what was opened, and for each look a tab with its list of errors."""
    with ExitStack() as stack:
        yield stack, {}


@pytest.fixture(scope="module")
def shown(opened, address, windows, request):
    """A page, opened once for all tests that look at it: its name, the look, the tab and a list of errors.

    The pages are shown one after the other in the same tab, which takes a third less time than a new tab for each. For
    a phone, the pages outside the sample aren't opened once more: their window becomes narrow.
    """
    page, look = request.param
    stack, tabs = windows
    if look == "narrow" and page not in SAMPLE and "wide" in tabs and tabs["wide"][0].url == address + page:
        tab, errors = tabs["wide"]
        tab.set_viewport_size(LOOKS[look]["viewport"])
        tab.wait_for_timeout(400)  # the theme makes what scrolls focusable when the size hasn't changed for 300 ms
    elif look in tabs:
        tab, errors = tabs[look]
        tab.goto("about:blank")
        errors.clear()
        tab.set_viewport_size(LOOKS[look]["viewport"])
        visit(tab, address + page)
    else:
        tab, errors = tabs[look] = stack.enter_context(opened(address + page, look))
    return page, look, tab, errors
