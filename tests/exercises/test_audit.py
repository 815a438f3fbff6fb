"""What answers can't do while they are graded, in a process of its own, since the restrictions stay until its end."""

import subprocess
import sys
from pathlib import Path

import pytest

from exercises.notebooks import ROOT

PROGRAM = """
import os, sys
from pathlib import Path
from exercises import audit
outside = Path(sys.argv[1])
audit.start(Path.cwd())
try:
    exec(sys.argv[2])
except PermissionError as error:
    print(error)
"""


def run(code: str, folder: Path) -> str:
    """Run code in ``folder/own`` and return what was refused; beside its files are others in ``outside``."""
    for name in ("own/folder", "outside/folder"):
        (folder / name).mkdir(parents=True)
    for name in ("own/file", "outside/file"):
        (folder / name).write_text(name)
    command = [sys.executable, "-c", PROGRAM, str(folder / "outside"), code]
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    return subprocess.run(
        command, cwd=folder / "own", env=environment, stdout=subprocess.PIPE, check=True
    ).stdout.decode()


@pytest.mark.parametrize(
    "change",
    [
        "os.chmod(outside / 'file', 0o600)",
        "os.chown(outside / 'file', os.getuid(), os.getgid())",
        "os.link('file', outside / 'new')",
        "os.mkdir(outside / 'new')",
        "os.remove(outside / 'file')",
        "os.rename('file', outside / 'file')",
        "os.rename(outside / 'file', 'new')",
        "os.rmdir(outside / 'folder')",
        "os.symlink('file', outside / 'new')",
        "os.truncate(outside / 'file', 0)",
        "os.utime(outside / 'file', (0, 0))",
        "open(outside / 'file', 'w')",
    ],
)
def test_files_are_changed_in_the_own_folder_only(change: str, tmp_path: Path) -> None:
    assert run(change, tmp_path / "outside") == "an answer can't change files while it is graded\n"
    assert run(change.replace("outside / ", ""), tmp_path / "inside") == ""


def test_a_folder_whose_name_begins_like_that_of_the_own_one_is_another(tmp_path: Path) -> None:
    (tmp_path / "own-too").mkdir()
    assert run("open('../own-too/new', 'w')", tmp_path) == "an answer can't change files while it is graded\n"
