"""The translator in Firefox, too: a sentence is translated as by PyTorch, with all heads and without one."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.book.conftest import KNOWN
from transformer.inspection import ablate_heads
from transformer.models import load_model

PUPPETEER = "puppeteer-core@25.16.0"
SENTENCE = "A black dog runs across the beach."


@pytest.fixture(scope="module")
def firefox() -> str:
    found = shutil.which("firefox-esr") or shutil.which("firefox")
    if found is None:
        pytest.skip("no Firefox on this machine")
    return found


@pytest.fixture(scope="module")
def puppeteer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which Puppeteer is installed."""
    folder = tmp_path_factory.mktemp("puppeteer")
    if shutil.which("npm") is None:
        pytest.skip("no Node on this machine, and Playwright drives a Firefox of its own only")
    ended = subprocess.run(
        ["npm", "install", "--silent", "--prefix", folder, PUPPETEER], capture_output=True, text=True
    )
    if ended.returncode:
        pytest.skip(f"{PUPPETEER} cannot be had: {ended.stderr}")
    return folder


def test_the_translator_works_in_firefox(firefox: str, puppeteer: Path, address: str) -> None:
    script = Path(__file__).with_name("firefox.mjs")
    box = "decoder.2.cross_attention, head 1 is on"
    command = ["node", script, puppeteer, firefox, f"{address}book/live.html", SENTENCE, box]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr[-3000:]
    seen = json.loads(ended.stdout)
    translator = load_model("multi30k", "cpu")
    ((whole,),) = translator.beam_search([SENTENCE])
    with ablate_heads(translator.model, {"decoder.2.cross_attention": [0]}):
        ((without,),) = translator.beam_search([SENTENCE])
    expected = [[one.text, f"{one.hypothesis.score:.3f}"] for one in (whole, without)]
    assert seen["found"] == expected and expected[0] != expected[1]
    assert [line for line in seen["wrong"] if not any(known in line for known in KNOWN)] == []
    assert set(seen["hosts"]) <= {"localhost", "none"}
