"""The live translator in Firefox translates as PyTorch does, with all heads and without one."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.book.conftest import KNOWN, install
from tests.book.test_live import BOX, SENTENCE, translations

PUPPETEER = "puppeteer-core@25.16.0"
"""Playwright can control only its own build of Firefox."""


@pytest.fixture(scope="module")
def firefox() -> str:
    path = shutil.which("firefox-esr") or shutil.which("firefox")
    if path is None:
        pytest.skip("Firefox is not installed")
    return path


def test_the_translator_works_in_firefox(firefox: str, tmp_path_factory: pytest.TempPathFactory, address: str) -> None:
    script = Path(__file__).with_name("firefox.mjs")
    folder = install(PUPPETEER, tmp_path_factory)
    command = ["node", script, folder, firefox, f"{address}book/live.html", SENTENCE, BOX]
    process = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert process.returncode == 0, process.stderr[-3000:]
    results = json.loads(process.stdout)
    assert results["translations"] == translations()
    assert [line for line in results["errors"] if not any(known in line for known in KNOWN)] == []
    assert set(results["hosts"]) <= {"localhost", "none"}
