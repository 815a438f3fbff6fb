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
