"""Run notebooks as Colab would, with the Python that runs this: ``python book/colab.py [--course SOURCE] NOTEBOOK...``.

Each notebook is executed completely, including its first cell, which installs the course. The exit code is 1 if a cell
fails, or if a package that was already installed ends up with a different version or a missing dependency. This script
imports only what Colab has.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

IN_COLAB = "import google.colab"
"""Colab's kernel has imported this before a notebook's first cell runs."""


def pip(*arguments: str) -> str:
    """Return what pip prints, regardless of its exit code."""
    return subprocess.run([sys.executable, "-m", "pip", *arguments], stdout=subprocess.PIPE, text=True).stdout


def installed_versions() -> dict[str, str]:
    """Return the version of each installed package."""
    return {package["name"]: package["version"] for package in json.loads(pip("list", "--format", "json"))}


def broken_requirements() -> set[str]:
    """Return the lines of ``pip check``; Colab itself always has some."""
    return set(pip("check").splitlines()) - {"No broken requirements found."}


def run(path: Path, course: str | None) -> str | None:
    """Run a notebook in an empty folder.

    Args:
        course: what the setup cell installs in place of the repository; None leaves the cell as it is.

    Returns:
        The failing cell with its output and its error, or None if all cells succeeded.

    Raises:
        ValueError: if a course is given, and the first cell doesn't install one.
    """
    notebook = nbformat.read(path, as_version=4)
    if course:
        setup = next(cell for cell in notebook.cells if cell.cell_type == "code")
        if 'source = ""' not in setup.source:
            raise ValueError(f"{path}: the first cell does not install the course")
        setup.source = setup.source.replace('source = ""', f"source = {course!r}", 1)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(IN_COLAB))
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=1800, kernel_name="python3", resources={"metadata": {"path": folder}})
        try:
            client.execute()
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            return str(error)
    return None


def main() -> int:
    """Run each notebook, print what went wrong, and return the exit code."""
    parser = argparse.ArgumentParser(description="Run notebooks as Colab would, with the Python that runs this script.")
    parser.add_argument("--course", help="what pip installs in place of the course's repository")
    parser.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    args = parser.parse_args()
    before, broken_before, failures = installed_versions(), broken_requirements(), 0
    for path in args.notebooks:
        start = time.monotonic()
        error, after = run(path, args.course), installed_versions()
        changed = [f"{name} was {old}, is {after.get(name)}" for name, old in before.items() if after.get(name) != old]
        problems = [*([error] if error else []), *changed, *sorted(broken_requirements() - broken_before)]
        status = f"{'FAILED' if problems else 'ok'} ({time.monotonic() - start:.0f} s)"
        print(f"{path.name}: {status}", *problems, sep="\n", flush=True)
        failures += bool(problems)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
