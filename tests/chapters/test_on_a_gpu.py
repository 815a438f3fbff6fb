"""Chapters that run a model on the fastest available device also run on a device other than the CPU."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
USES_FASTEST_DEVICE = re.compile(r'transformer\.load\((?!.*device="cpu")')
CHAPTERS = [
    path for path in sorted((ROOT / "chapters").glob("*.py")) if USES_FASTEST_DEVICE.search(path.read_text("utf-8"))
]


def test_these_chapters_are_included() -> None:
    assert {path.stem for path in CHAPTERS} >= {"10_label_smoothing", "12_decoding", "14_attention_heads"}


@pytest.mark.soak  # `tests.transformer.test_on_a_gpu` checks in every run what they call
@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_runs_there_with_all_its_assertions(path: Path, tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "tests" / "pretend_gpu.py", path]
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "MPLBACKEND": "agg", "PYTHONPATH": paths}
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr[-3000:]
