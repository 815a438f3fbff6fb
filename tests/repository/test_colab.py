"""A chapter in an environment like Colab's: it installs the course, runs, and leaves what was there as it was.

The environment is fresh, with an older numpy, pandas and matplotlib than the lock's. Its torch is this environment's,
under an older version's name: pip reads no more than the name, and another torch is gigabytes. Real ones have their run
each week, in Colab's own image (.github/workflows/weekly.yml).
"""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
CHAPTER = ROOT / "chapters" / "02_attention.ipynb"
TORCH = "2.6.0+cu124"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def call(*words):
    return subprocess.run(words, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def older(name):
    """The requirement of an earlier minor version than the one that is installed here."""
    major, minor = importlib.metadata.version(name).split(".")[:2]
    return f"{name}<{major}.{minor}"


def lend_torch(site):
    """Make this environment's torch importable from another, where pip takes it for an older one."""
    lent, packages = site.parent / "lent", Path(importlib.util.find_spec("torch").origin).parents[1]
    lent.mkdir()
    for name in ("torch", "torchgen", "functorch", "nvidia", "triton"):
        if (packages / name).exists():
            (lent / name).symlink_to(packages / name)
    (site / "lent.pth").write_text(f"{lent}\n")
    info = site / f"torch-{TORCH}.dist-info"
    info.mkdir()
    needs = [one for one in importlib.metadata.requires("torch") if ";" not in one]
    lines = ["Metadata-Version: 2.1", "Name: torch", f"Version: {TORCH}", *(f"Requires-Dist: {one}" for one in needs)]
    (info / "METADATA").write_text("\n".join([*lines, ""]))
    (info / "RECORD").touch()
    return needs


@pytest.fixture(scope="module")
def colab(tmp_path_factory):
    """The Python of a fresh environment like Colab's."""
    home = tmp_path_factory.mktemp("colab") / "env"
    call(sys.executable, "-m", "venv", home)
    python = home / "bin" / "python"
    (site,) = home.glob("lib/python*/site-packages")
    (site / "google" / "colab").mkdir(parents=True)
    (site / "google" / "colab" / "__init__.py").touch()
    there = [*map(older, ["numpy", "pandas", "matplotlib"]), "ipykernel", "nbclient", *lend_torch(site)]
    ended = call(python, "-m", "pip", "install", "--quiet", "--retries", "1", "--only-binary", ":all:", *there)
    if ended.returncode and "Retrying (" in ended.stdout:
        pytest.skip("no network: pip reaches no package")
    assert ended.returncode == 0, ended.stdout
    assert call(python, "-m", "pip", "check").returncode == 0
    yield python
    shutil.rmtree(home)


@pytest.fixture
def course(tmp_path):
    """A copy of what the course is built from."""
    for name in ("transformer", "exercises"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (ROOT / name for name in ("pyproject.toml", "README.md", "LICENSE", "LICENSE-TEXT")):
        shutil.copy(path, tmp_path)
    return tmp_path


def test_a_requirement_that_would_replace_torch_is_refused(colab, course):
    project = course / "pyproject.toml"
    here = importlib.metadata.version("torch").split("+")[0]
    pinned, found = re.subn(r'"torch>=[\d.]+"', f'"torch=={here}"', project.read_text("utf-8"))
    assert found == 1
    project.write_text(pinned, "utf-8")
    ended = call(colab, ROOT / "book" / "colab.py", "--course", course.as_uri(), CHAPTER)
    assert ended.returncode == 1
    assert "conflicting dependencies" in ended.stdout, ended.stdout
    assert " was " not in ended.stdout, "nothing is replaced before pip refuses"


def test_a_chapter_runs_and_changes_nothing_that_was_there(colab, course):
    ended = call(colab, ROOT / "book" / "colab.py", "--course", course.as_uri(), CHAPTER)
    assert ended.returncode == 0, ended.stdout
    assert f"{CHAPTER.name}: ok" in ended.stdout


def test_a_package_that_moves_is_named(colab, tmp_path):
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("%pip install --quiet --no-deps 'tornado<6.5'")]
    )
    nbformat.write(notebook, tmp_path / "moves.ipynb")
    ended = call(colab, ROOT / "book" / "colab.py", tmp_path / "moves.ipynb")
    assert ended.returncode == 1
    assert re.search(r"^tornado was 6\.\S+, is 6\.4", ended.stdout, re.MULTILINE), ended.stdout
