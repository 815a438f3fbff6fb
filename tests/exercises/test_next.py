"""``next`` names the next notebook and opens it."""

import os
import sys
import webbrowser
from pathlib import Path

import pytest

from exercises import __main__ as command
from exercises import open_notebook as opening
from exercises.blanks import read_blanks
from exercises.progress import next_exercise
from tests.exercises.learner import copy_of_course, run_checks

serverapp = pytest.importorskip("jupyter_server.serverapp")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return copy_of_course(tmp_path, "04_masking") / "exercises" / "04_masking.ipynb"


def test_it_names_the_next_blank(path: Path) -> None:
    run_checks(path, {"padding_mask": None})
    assert next_exercise([str(path)]) == (
        path,
        [f"04 masking · {path}", "  1 of 6 solved; next: 2 · Causal mask  ★☆☆ 5 minutes"],
    )
    run_checks(path, dict.fromkeys(blank.name for blank in read_blanks(path)))
    assert next_exercise([str(path)]) == (None, ["All exercises are solved. Well done!"])


def test_it_only_prints_if_told_so(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[Path] = []
    monkeypatch.setattr(opening, "open_notebook", opened.append)
    assert command.main(["next", str(path), "--no-open"]) == 0
    assert opened == []
    assert command.main(["next", str(path)]) == 0
    assert opened == [path]
    assert capsys.readouterr().out.count("next: 1 · Padding mask") == 2


def test_it_opens_in_the_server_whose_folder_has_the_notebook(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = path.parent.with_name("my notes")
    folder.mkdir()
    servers = [
        {"url": "http://localhost:8888/", "token": "", "root_dir": str(folder)},
        {"url": "http://localhost:8889/", "token": "a b", "root_dir": str(path.parent.parent)},
    ]
    opened: list[str] = []
    monkeypatch.setattr(serverapp, "list_running_servers", lambda: iter(servers))
    monkeypatch.setattr(webbrowser, "open", opened.append)
    opening.open_notebook(path)
    inside = path.rename(folder / "04 masking.ipynb")
    opening.open_notebook(inside)
    assert opened == [
        "http://localhost:8889/lab/tree/exercises/04_masking.ipynb?token=a%20b",
        "http://localhost:8888/lab/tree/04%20masking.ipynb",
    ]


def test_without_a_server_it_becomes_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(serverapp, "list_running_servers", lambda: iter([]))
    monkeypatch.setattr(os, "execv", lambda program, arguments: commands.append(arguments))
    opening.open_notebook(path)
    assert commands == [[sys.executable, "-m", "jupyterlab", str(path)]]


def test_without_jupyterlab_it_says_so(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(opening, "find_spec", lambda name: None)
    assert command.main(["next", str(path)]) == 2
    output = capsys.readouterr()
    assert "next: 1 · Padding mask" in output.out
    assert output.err.startswith("error: JupyterLab isn't installed: open ")
