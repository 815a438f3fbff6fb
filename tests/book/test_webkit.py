"""The book in WebKit, the engine of Safari: pages, the live translator, and an exercise that runs Python."""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from exercises.page import check_answer
from tests.book.conftest import SAMPLE, built_pages, install
from tests.book.test_exercises import NAME, PAGE, RIGHT, SETUP, WRONG
from tests.book.test_live import BOX, SENTENCE, translations

SELENIUM = "selenium-webdriver@4.46.0"
"""Playwright can control only its own build of WebKit, which isn't in any package registry."""


@contextmanager
def running(command: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program while the context is open."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.terminate()


def wait_for_server(port: int) -> None:
    """Wait until a program accepts connections at a port of this machine."""
    for attempt in range(100):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.1 + attempt / 100)
    raise AssertionError(f"nothing listens on port {port}")


@pytest.fixture(scope="module")
def webkit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """Return a function that runs a task of ``webkit.mjs`` in WebKitGTK, on a screen that nobody sees."""
    for program, package in (("WebKitWebDriver", "webkit2gtk-driver"), ("Xvfb", "xvfb")):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (Debian's package {package})")
    folder = install(SELENIUM, tmp_path_factory)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def run(task: str, *arguments: str) -> Any:
        command = ["node", Path(__file__).with_name("webkit.mjs"), folder, str(port), task, *arguments]
        process = subprocess.run(command, capture_output=True, text=True, timeout=900)
        assert process.returncode == 0, process.stderr[-3000:]
        return json.loads(process.stdout)

    with running(["Xvfb", "-displayfd", "1", "-screen", "0", "1400x1000x24"], stdout=subprocess.PIPE) as screen:
        assert screen.stdout is not None
        display = f":{screen.stdout.readline().decode().strip()}"
        with running(["WebKitWebDriver", f"--port={port}"], env={**os.environ, "DISPLAY": display}):
            wait_for_server(port)
            yield run


@pytest.mark.parametrize(
    "pages",
    [
        pytest.param(sorted(SAMPLE), id="sample"),
        pytest.param(sorted({*built_pages()} - SAMPLE), id="others", marks=pytest.mark.soak),
    ],
)
def test_pages_open_in_webkit(webkit, address, pages):
    assert webkit("pages", address, *pages) == {}


def test_the_translator_works_in_webkit(webkit, address):
    assert webkit("translator", f"{address}book/live.html", SENTENCE, BOX) == translations()


def test_an_answer_is_checked_in_webkit(webkit, address, html):
    if not (html / "_static" / "pyodide").exists():
        pytest.skip("the book was built without Pyodide: npm could not download it")
    said = webkit("exercise", address + PAGE, WRONG, RIGHT)
    assert said == [check_answer("", SETUP, NAME, code)[1].strip() for code in (WRONG, RIGHT)]
