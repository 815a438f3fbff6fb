"""The live translator in Firefox translates as PyTorch does, with all heads and without one."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.book.conftest import KNOWN
from tests.book.test_live import MODEL, SENTENCE, as_shown
from transformer.inspection import ablate_heads
from transformer.interactive.widgets import quantized
from transformer.models import load_model

PUPPETEER = "puppeteer-core@25.16.0"


@pytest.fixture(scope="module")
def firefox() -> str:
    path = shutil.which("firefox-esr") or shutil.which("firefox")
    if path is None:
        pytest.skip("Firefox is not installed")
    return path


@pytest.fixture(scope="module")
def puppeteer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install Puppeteer, and return the folder."""
    folder = tmp_path_factory.mktemp("puppeteer")
    if shutil.which("npm") is None:
        pytest.skip("Node is not installed, and Playwright can only use its own Firefox")
    process = subprocess.run(
        ["npm", "install", "--silent", "--prefix", folder, PUPPETEER], capture_output=True, text=True
    )
    if process.returncode:
        pytest.skip(f"{PUPPETEER} can't be installed: {process.stderr}")
    return folder


def test_the_translator_works_in_firefox(firefox: str, puppeteer: Path, address: str) -> None:
    script = Path(__file__).with_name("firefox.mjs")
    box = "Cross-attention, layer 3, head 1 is on"
    command = ["node", script, puppeteer, firefox, f"{address}book/live.html", SENTENCE, box]
    process = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert process.returncode == 0, process.stderr[-3000:]
    results = json.loads(process.stdout)
    translator = quantized(load_model(MODEL, "cpu"))
    ((complete,),) = translator.beam_search([SENTENCE])
    with ablate_heads(translator.model, {"decoder.2.cross_attention": [0]}):
        ((ablated,),) = translator.beam_search([SENTENCE])
    expected = [list(one) for one in as_shown((complete, ablated))]
    assert results["translations"] == expected and expected[0] != expected[1]
    assert [line for line in results["errors"] if not any(known in line for known in KNOWN)] == []
    assert set(results["hosts"]) <= {"localhost", "none"}
