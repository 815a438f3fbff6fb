"""A small part of `tests.fuzz`, and whether it finds planted faults. A weekly workflow runs 100,000 inputs."""

import os
import shutil
from pathlib import Path

import pytest

from tests import fuzz


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is damaged, made once for all tests, since a training and an export take seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_DATA", str(tmp_path_factory.mktemp("data")))
        fuzz.make_files(folder := tmp_path_factory.mktemp("files"))
    return folder


@pytest.fixture(autouse=True)
def copies(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSFORMER_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(fuzz, "make_files", lambda folder: shutil.copytree(files, folder, dirs_exist_ok=True))


def test_damaged_files_and_odd_command_lines_are_refused_clearly() -> None:
    assert fuzz.fuzz(150, seed=1) == {}


def test_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(folder: Path) -> None:
        os._exit(3)

    def fail(folder: Path) -> None:
        raise KeyError("train_loss")

    monkeypatch.setattr(fuzz, "READERS", {"model/best.json": fail, "corpus.tsv": crash})
    messages = list(fuzz.fuzz(20, seed=1).values())
    assert any("model/best.json" in message and "KeyError: 'train_loss'" in message for message in messages)
    assert "the process ended with exit code 3" in messages


def test_an_input_can_be_repeated(files: Path) -> None:
    first = [fuzz.make_input(files, seed=2, number=n)[0] for n in range(30)]
    assert first == [fuzz.make_input(files, seed=2, number=n)[0] for n in range(30)]
    assert len(set(first)) > 10
