"""Pyodide is fetched by npm when the book is built, and the book can be built without it."""

import subprocess
from pathlib import Path

import pytest

from book import pyodide
from book._ext import blanks
from exercises.notebooks import ROOT, solution_sources, topic_of

PAGES = sorted((ROOT / "book" / "exercises").glob("*.md"))
SOURCES = [ROOT / "solutions" / f"{path.stem}.py" for path in PAGES]


def test_each_notebook_without_torch_has_a_page() -> None:
    without_torch = [path for path in solution_sources() if "import torch" not in path.read_text("utf-8")]
    assert without_torch == SOURCES
    contents = (ROOT / "book" / "_toc.yml").read_text("utf-8")
    for path in PAGES:
        assert blanks.PLACE in path.read_text("utf-8")
        assert f"- file: book/exercises/{path.stem}\n" in contents


def test_without_npm_the_message_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="npm is missing"):
        pyodide.fetch(tmp_path / "cache")


def test_without_network_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = subprocess.CompletedProcess([], 1)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(RuntimeError, match="can't download"):
        pyodide.fetch(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_another_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="has the wrong checksum"):
        pyodide.unpack(b"another package", tmp_path / "files")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("source", SOURCES, ids=topic_of)
def test_without_python_a_page_shows_the_exercises_only(source: Path, tmp_path: Path) -> None:
    (tmp_path / "python").write_bytes(bytes(3_000_000))
    with_python, without = blanks.page_text(source, tmp_path), blanks.page_text(source, None)
    assert "about 3 MB" in with_python and with_python.count('data-widget="exercise"') == 6
    assert "data-widget" not in without and "Try it here" not in without
    assert without.count("NotImplementedError") == 6 and without.count("<summary>Hint</summary>") == 6


def test_the_checks_are_carried_to_the_page_without_the_solutions() -> None:
    files = {path.relative_to(ROOT).as_posix() for path in blanks.files_of_checks(list(map(topic_of, SOURCES)))}
    assert {"exercises/page.py", "exercises/checks/evaluation.py", "transformer/data/bpe.py"} <= files
    assert not any(path.startswith("solutions/") for path in files)
