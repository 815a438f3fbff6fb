"""A chapter in an environment like Colab's: it installs the course, runs, and doesn't change installed packages.

The environment is new and has an older numpy, pandas and matplotlib than requirements.lock. Its torch is that of this
environment, with an older version number in its metadata, which is all that pip reads: another torch would be gigabytes
to download. A weekly workflow runs all chapters in Colab's own image (.github/workflows/weekly.yml).
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

pytestmark = pytest.mark.soak  # pip installs the course into a new environment, twice

ROOT = Path(__file__).parents[2]
CHAPTER = ROOT / "chapters" / "02_attention.ipynb"
TORCH = "2.9.0+cu126"
CHANGED = r"^\S+ was \S+, is "
"""How book/colab.py reports a package whose version has changed."""
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def call(*command):
    return subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def older(name):
    """Return a requirement for an earlier minor version than the one installed here."""
    major, minor = importlib.metadata.version(name).split(".")[:2]
    return f"{name}<{major}.{minor}"


def link_torch(site):
    """Make this environment's torch importable in another environment, with the metadata of an older version."""
    links, packages = site.parent / "links", Path(importlib.util.find_spec("torch").origin).parents[1]
    links.mkdir()
    for name in ("torch", "torchgen", "functorch", "nvidia", "triton"):
        if (packages / name).exists():
            (links / name).symlink_to(packages / name)
    (site / "links.pth").write_text(f"{links}\n")
    info = site / f"torch-{TORCH}.dist-info"
    info.mkdir()
    requirements = [text for text in importlib.metadata.requires("torch") if ";" not in text]
    lines = [
        "Metadata-Version: 2.1",
        "Name: torch",
        f"Version: {TORCH}",
        *(f"Requires-Dist: {text}" for text in requirements),
    ]
    (info / "METADATA").write_text("\n".join([*lines, ""]))
    (info / "RECORD").touch()
    return requirements


@pytest.fixture(scope="module")
def colab(tmp_path_factory):
    """Return the path of Python in a new environment like Colab's."""
    home = tmp_path_factory.mktemp("colab") / "env"
    call(sys.executable, "-m", "venv", home)
    python = home / "bin" / "python"
    (site,) = home.glob("lib/python*/site-packages")
    (site / "google" / "colab").mkdir(parents=True)
    (site / "google" / "colab" / "__init__.py").touch()
    packages = [*map(older, ["numpy", "pandas", "matplotlib"]), "ipykernel", "nbclient", *link_torch(site)]
    process = call(python, "-m", "pip", "install", "--quiet", "--retries", "1", "--only-binary", ":all:", *packages)
    if process.returncode and "Retrying (" in process.stdout:
        pytest.skip("no network: pip can't download packages")
    assert process.returncode == 0, process.stdout
    assert call(python, "-m", "pip", "check").returncode == 0
    yield python
    shutil.rmtree(home)


@pytest.fixture
def course(tmp_path):
    """Copy the files that the course's package is built from."""
    for name in ("transformer", "exercises"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (ROOT / name for name in ("pyproject.toml", "README.md", "LICENSE", "LICENSE-TEXT")):
        shutil.copy(path, tmp_path)
    return tmp_path


def test_a_requirement_that_would_replace_torch_is_refused(colab, course):
    project = course / "pyproject.toml"
    here = importlib.metadata.version("torch").split("+")[0]
    pinned, count = re.subn(r'"torch>=[\d.]+"', f'"torch=={here}"', project.read_text("utf-8"))
    assert count == 1
    project.write_text(pinned, "utf-8")
    process = call(colab, ROOT / "book" / "colab.py", "--course", course.as_uri(), CHAPTER)
    assert process.returncode == 1
    assert "conflicting dependencies" in process.stdout, process.stdout
    assert not re.search(CHANGED, process.stdout, re.MULTILINE), "packages were replaced before pip refused"


def test_a_chapter_runs_and_changes_no_installed_package(colab, course):
    process = call(colab, ROOT / "book" / "colab.py", "--course", course.as_uri(), CHAPTER)
    assert process.returncode == 0, process.stdout
    assert f"{CHAPTER.name}: ok" in process.stdout


def test_a_changed_package_is_reported(colab, tmp_path):
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("%pip install --quiet --no-deps 'tornado<6.5'")]
    )
    nbformat.write(notebook, tmp_path / "changes.ipynb")
    process = call(colab, ROOT / "book" / "colab.py", tmp_path / "changes.ipynb")
    assert process.returncode == 1
    assert re.search(CHANGED + r"6\.4", process.stdout, re.MULTILINE), process.stdout
