"""The Makefile: its help, and its error message without a suitable Python."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def make(folder, *words):
    return subprocess.run(["make", *words], cwd=folder, capture_output=True, text=True)


def test_help_lists_each_target():
    targets = re.search(r"^\.PHONY: (.*)", (ROOT / "Makefile").read_text(), re.M)[1].split()
    listed = re.findall(r"^  ([a-z-]+) ", make(ROOT).stdout, re.M)
    assert sorted(["help", *listed]) == sorted(targets)


@pytest.mark.parametrize("python", ["/nowhere/python3", "/bin/false"])
def test_an_unsuitable_python_is_one_clear_line(tmp_path, python):
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-torch.txt"):
        shutil.copy(ROOT / name, tmp_path)
    process = make(tmp_path, "book", f"PYTHON={python}")
    assert process.returncode != 0
    assert process.stderr.startswith("error: this needs Python 3.10 to 3.14")
    assert "make book PYTHON=" in process.stderr.splitlines()[0]
    assert not (tmp_path / ".venv").exists()


def test_get_started_quotes_what_is_printed():
    text = (ROOT / "book" / "start.md").read_text("utf-8")
    makefile = (ROOT / "Makefile").read_text("utf-8").replace("$(VENV)", ".venv")
    for message in ("Setting up .venv", "Everything is installed in .venv"):
        assert f"*{message}*" in text and message in makefile
    assert "*The course is installed*" in text
    assert "The course is installed" in (ROOT / "chapters" / "01_translation.py").read_text("utf-8")
    on_gpus = [
        path.name[:2] for path in (ROOT / "chapters").glob("*.py") if "accelerator: GPU" in path.read_text("utf-8")
    ]
    assert "Chapters {}, {} and {} ask Colab for a GPU".format(*sorted(on_gpus)) in text
