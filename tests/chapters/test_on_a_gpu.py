"""Chapters that let a model run on the fastest device there is run on a device that is not the CPU, too."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOVES = re.compile(r'transformer\.load\((?!.*device="cpu")')
CHAPTERS = [path for path in sorted((ROOT / "chapters").glob("*.py")) if MOVES.search(path.read_text("utf-8"))]


def test_some_chapters_do() -> None:
    assert {path.stem[:2] for path in CHAPTERS} >= {"01", "10", "12", "14"}


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_runs_there_with_all_its_assertions(path: Path, tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "tests" / "pretend_gpu.py", path]
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "MPLBACKEND": "agg", "PYTHONPATH": paths}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
