"""Run notebooks as Colab would, in the Python that runs this: ``python book/colab.py [--course SOURCE] NOTEBOOK ...``.

Each notebook runs whole, from the first cell, which installs the course. The exit code is 1 if a cell fails, or if
afterwards a package that was there before has another version, or misses what it needs. Wants only what Colab has.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

IN_COLAB = "import google.colab"
"""What Colab's own kernel has done before a notebook's first cell."""


def pip(*words: str) -> str:
    """What pip prints, whatever its exit code."""
    return subprocess.run([sys.executable, "-m", "pip", *words], stdout=subprocess.PIPE, text=True).stdout


def versions() -> dict[str, str]:
    """Each installed package with its version."""
    return {one["name"]: one["version"] for one in json.loads(pip("list", "--format", "json"))}


def complaints() -> set[str]:
    """What ``pip check`` has to say; in Colab that is never nothing."""
    return set(pip("check").splitlines()) - {"No broken requirements found."}


def run(path: Path, course: str | None) -> str | None:
    """Run a notebook in an empty folder.

    Args:
        course: where its first cell shall take the course from, instead of the repository's address.

    Returns:
        The failing cell, and what it printed and raised; None if all went well.
    """
    notebook = nbformat.read(path, as_version=4)
    if course:
        setup = next(cell for cell in notebook.cells if cell.cell_type == "code")
        setup.source, found = re.subn(r'(?<= @ )git\+[^"]+', course, setup.source)
        if found != 1:
            raise ValueError(f"{path}: the first cell does not install the course")
    notebook.cells.insert(0, nbformat.v4.new_code_cell(IN_COLAB))
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=1800, kernel_name="python3", resources={"metadata": {"path": folder}})
        try:
            client.execute()
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            return str(error)
    return None


def main() -> int:
    """Run each notebook, and say what it broke."""
    parser = argparse.ArgumentParser(description="Run notebooks as Colab would, in the Python that runs this.")
    parser.add_argument("--course", help="what pip shall install instead of the repository's main branch")
    parser.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    args = parser.parse_args()
    before, known, failed = versions(), complaints(), 0
    for path in args.notebooks:
        start = time.monotonic()
        error, after = run(path, args.course), versions()
        moved = [f"{name} was {old}, is {after.get(name)}" for name, old in before.items() if after.get(name) != old]
        wrong = [*([error] if error else []), *moved, *sorted(complaints() - known)]
        print(
            f"{path.name}: {'FAILED' if wrong else 'ok'} ({time.monotonic() - start:.0f} s)",
            *wrong,
            sep="\n",
            flush=True,
        )
        failed += bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
