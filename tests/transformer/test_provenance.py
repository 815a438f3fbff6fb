"""Provenance: the recorded command, code and machine are the real ones."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import transformer.provenance
from transformer.provenance import command, commit, processor, provenance, versions

ENVIRONMENT = {
    **os.environ,
    **{f"GIT_{who}_{what}": "nobody" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(folder: Path, *words: str) -> str:
    run = subprocess.run(["git", *words], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return run.stdout.strip()


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["/home/her/.venv/bin/transformer", "train", "pocket"], "transformer train pocket"),
        (
            ["/home/her/transformer/cli.py", "bench", "--output", "my file.json"],
            "transformer bench --output 'my file.json'",
        ),
        (["transformer", "train", "multi30k", "--mirror", "/data", "--run", "r"], "transformer train multi30k --run r"),
        (["transformer", "train", "multi30k", "--mirror=/data"], "transformer train multi30k"),
        (["/usr/lib/ipykernel_launcher.py", "-f", "connection.json"], None),
        (["/home/her/other/cli.py"], None),
    ],
)
def test_the_command_is_as_one_would_type_it(argv: list[str], expected: str | None) -> None:
    assert command(argv) == expected


@pytest.mark.parametrize(("processes", "options"), [(8, ""), (16, "--nnodes 2 ")])
def test_under_torchrun_the_command_says_how_many_processes(
    processes: int, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"TORCHELASTIC_RUN_ID": "none", "LOCAL_WORLD_SIZE": "8", "WORLD_SIZE": str(processes)}.items():
        monkeypatch.setenv(name, value)
    expected = f"torchrun {options}--nproc-per-node 8 -m -- transformer.cli train pocket"
    assert command(["/course/transformer/cli.py", "train", "pocket", "--mirror", "x"]) == expected


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a package that stands in for ours."""
    package = tmp_path / "transformer"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.setattr(transformer.provenance, "PACKAGE", package)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "a commit")
    return tmp_path


def test_the_commit_is_the_one_checked_out(repository: Path) -> None:
    assert git(repository, "rev-parse", "HEAD").startswith(commit()) and len(commit()) == 10


def test_a_change_in_the_package_shows_and_one_outside_does_not(repository: Path) -> None:
    clean = commit()
    (repository / "notes.txt").write_text("mine")
    assert commit() == clean
    (repository / "transformer" / "models" / "new").mkdir(parents=True)
    (repository / "transformer" / "models" / "new" / "best.json").write_text("{}")
    assert commit() == clean
    (repository / "transformer" / "__init__.py").write_text("changed = True")
    assert commit() == clean + "+"


def test_a_package_inside_another_repository_has_a_version(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = repository / ".venv" / "transformer"
    shutil.copytree(repository / "transformer", installed)
    monkeypatch.setattr(transformer.provenance, "PACKAGE", installed)
    assert commit() == f"version {transformer.__version__}"
    git(repository, "add", "-f", ".")  # even if somebody keeps it there
    assert commit() == f"version {transformer.__version__}"


def test_without_git_there_is_a_version(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository))
    assert commit() == f"version {transformer.__version__}"


def test_all_of_it_can_be_saved_as_json() -> None:
    record = provenance("a device")
    assert json.loads(json.dumps(record)) == record
    assert record["device"] == "a device" and f"{os.cpu_count()} cores" in record["machine"]
    assert record["versions"].startswith(f"Python {sys.version.split()[0]}, torch ")


def test_a_cpu_is_named_without_trademark_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda _: "processor : 0\nmodel name : Intel(R) Xeon(R) CPU E5\n")
    assert processor().startswith("Intel Xeon CPU E5 with ")


def test_a_missing_package_is_named() -> None:
    assert versions("no-such-thing").endswith(", no no-such-thing")


def test_a_gpu_is_described_with_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(name="NVIDIA H200", total_memory=140 * 2**30, major=9, minor=0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: properties)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert provenance("any")["gpu"].startswith("2 × NVIDIA H200, 140 GiB, driver ")
