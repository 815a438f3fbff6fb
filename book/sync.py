"""Write the repository's generated files, exercises aside: ``python -m book.sync [--check]``.

| generated | from |
|---|---|
| ``chapters/*.ipynb`` | ``chapters/*.py`` |
| the setup cell in ``chapters/*.py`` and ``solutions/*.py`` | `SETUP`, and the address in ``_config.yml`` |
| the repository's address in the README, ``CITATION.cff``, ``pyproject.toml`` and other pages | ``_config.yml`` |
| ``transformer/interactive/widgets.mjs`` | ``book/widgets/*.mjs`` |

With ``--check`` no file is written: the files that are out of date are listed, and the exit code is 1.
"""

import argparse
import hashlib
import re
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import jupytext
import nbformat
import tomli
import yaml

from book.bundle import bundle, is_current
from transformer.errors import UserError

SETUP = """\
# %% tags=["setup", "hide-cell"]
# @title Setup: in Colab, run this cell first
# In Colab, this cell installs the course from the repository and branch that the
# notebook was opened from. Colab's torch and numpy are kept. Elsewhere it does nothing.
import sys

if "google.colab" in sys.modules:
    import os
    import re
    import subprocess
    from contextlib import suppress
    from importlib.metadata import version
    from urllib.parse import unquote
    from urllib.request import urlopen

    source = ""  # or choose: "git+https://github.com/OWNER/REPOSITORY@BRANCH"
    opened = "git+ADDRESS@BRANCH"
    with suppress(Exception):  # Colab's server has the notebook's GitHub address
        server = "http://{COLAB_JUPYTER_IP}:{KMP_TARGET_PORT}".format(**os.environ)
        sessions = urlopen(f"{server}/api/sessions", timeout=5).read().decode()
        page = r"github\\.com/([^/]+/[^/]+)/blob/(\\S+?)/\\w+/\\d\\d_"
        repository, branch = re.search(page, unquote(sessions)).groups()
        opened = f"git+https://github.com/{repository}@{branch}"
    source = source or opened
    print(f"Installing the course from {source}.")
    print("This takes a while. For a fork or branch, set `source` in this cell.")
    keep = [f"{name}=={version(name)}" for name in ("numpy", "torch")]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-color", *keep]
    pip += [f"transformer-course[colab] @ {source}"]
    process = subprocess.run(pip, capture_output=True, text=True)
    if process.returncode:
        message = "(?im)^ *((fatal|error): (?!subprocess).+)"
        error = re.search(message, process.stderr)
        reason = error[1] if error else process.stderr[-500:] or "pip failed"
        raise SystemExit(f"Cannot install the course from {source}: {reason}")
"""
READY = {
    "chapters": """\
    print("The course is installed. Now run all cells in order, folded ones too.")
    print("To keep your changes, choose File > Save a copy in Drive.")
    book = "PAGES"
    print(f"With all figures: {book}/chapters/NAME.html")
""",
    "solutions": """\
    print("The course is installed: go on with the next cell.")
""",
}
"""How the setup cell ends in the notebooks of each folder."""


FOLDED = {"hide-cell", "hide-input", "remove-cell", "remove-input"}
"""The tags of cells whose code the book folds or leaves out."""
WIDGET = re.compile(r'(^# <div class="widget" data-widget="(\w+)">$.*?^# </div>\n)(?:#\n)?', re.DOTALL | re.MULTILINE)
WIDGET_CELL = """\
\\1
# %% tags=["remove-cell", "skip-execution"]
from transformer.interactive import widget

widget("\\2")

# %% [markdown]
"""
"""In notebooks, this cell follows a widget of the book, and shows it."""
FIRST_FIGURE, FIGURE, IMPORTS = "The first figure, with its imports", "Figure", "Imports"
PACKAGE, CODE = "Code of the package", "Code"
INTERACTIVE = "Interactive figure"
CHECK = "Check of the text. If you have changed the code, it may fail: skip it"
"""The titles of folded cells in Colab."""


class Sync:
    """The generated files of the checkout at ``root``, and the text that each of them should have."""

    def __init__(self, root: Path) -> None:
        self.root = root
        repository = yaml.safe_load((root / "_config.yml").read_text("utf-8"))["repository"]
        self.address, self.branch = repository["url"].rstrip("/"), repository["branch"]
        self.project = tomli.loads((root / "pyproject.toml").read_text("utf-8"))["project"]

    def expected_files(self, run_esbuild: bool) -> Iterator[tuple[Path, str]]:
        """Yield each generated file with the text that it should have.

        Args:
            run_esbuild: bundle the widgets again if the bundle is out of date, which needs Node. Otherwise, an
                outdated bundle is yielded with an empty text.
        """
        pages = f"https://{pages_address(self.address)}"
        for path in sorted([*self.root.glob("chapters/*.py"), *self.root.glob("solutions/*.py")]):
            setup = SETUP.replace("ADDRESS@BRANCH", f"{self.address}@{self.branch}") + READY[path.parent.name]
            setup = setup.replace("PAGES", pages).replace("NAME", path.stem)
            text = with_setup(self.with_address(path), setup)
            yield path, text
            if path.parent.name == "chapters":
                yield path.with_suffix(".ipynb"), notebook(text, pages)
        for pattern in ("*.md", "*.cff", "LICENSE*", "book/*.md", "transformer/command_line.py"):
            for path in sorted(self.root.glob(pattern)):
                yield path, self.with_address(path)
        yield self.widgets(run_esbuild)
        project = self.root / "pyproject.toml"
        yield project, self.with_address(project)  # last: until it is written, it has the old address

    def widgets(self, run_esbuild: bool) -> tuple[Path, str]:
        """Return the path of the bundle of widgets, and its text."""
        modules, path = self.root / "book" / "widgets", self.root / "transformer" / "interactive" / "widgets.mjs"
        text = path.read_text("utf-8") if path.exists() else ""
        if is_current(modules, text):
            return path, text
        return path, bundle(modules) if run_esbuild else ""

    def with_address(self, path: Path) -> str:
        """Return a file's text with the repository's address in place of the old one, which is in pyproject.toml."""
        text = path.read_text("utf-8")
        old = self.project["urls"]["Repository"]
        for form in (repository_name, pages_address):
            text = text.replace(form(old), form(self.address))
        return text


def repository_name(address: str) -> str:
    """Return ``owner/name`` from a repository's address."""
    return "/".join(address.split("/")[-2:])


def pages_address(address: str) -> str:
    """Return the address, without ``https://``, where the repository's book is published."""
    owner, name = repository_name(address).split("/")
    return f"{owner}.github.io/{name}"


def with_setup(text: str, setup: str) -> str:
    """Return a percent script with ``setup`` as its first code cell; a setup cell that it had is removed."""
    cells = re.split(r"^(?=# %%)", text, flags=re.MULTILINE)
    cells = [cell for cell in cells if not re.match(r'# %%.*tags=.*"setup"', cell)]
    first = next((i for i, cell in enumerate(cells) if re.match(r"# %%(?! \[markdown\])", cell)), len(cells))
    parts = "".join(cells[:first]), setup, "".join(cells[first:])
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def notebook(script: str, pages: str) -> str:
    """Return the notebook of a percent script, without outputs, with cell ids that depend on the cells' text only.

    In Colab and JupyterLab, code that the book folds is also folded (under a title, which the book removes), a widget
    of the book is shown by a cell of its own, links to the book's other pages lead to ``pages``, the address of the
    published book, and Colab offers a GPU if the script's header has ``accelerator: GPU``.
    """
    result = jupytext.reads(WIDGET.sub(WIDGET_CELL, script), fmt="py:percent")
    metadata: dict[str, object] = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    if accelerator := result.metadata.get("accelerator"):
        metadata |= {"accelerator": accelerator, "colab": {"gpuType": "T4"}}
    result.metadata = nbformat.from_dict(metadata)
    result.nbformat, result.nbformat_minor = 4, 5
    count: dict[str, int] = {}
    previous_tags: list[str] = []  # of the last cell of code
    for cell in result.cells:
        tags = cell.metadata.get("tags", [])
        folded = {"jupyter": {"source_hidden": True}, "cellView": "form"} if FOLDED.intersection(tags) else {}
        cell.metadata = nbformat.from_dict(({"tags": tags} if tags else {}) | folded)
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"\]\(\.\./book/([\w/]+)\.md(#[^)\s]+)?\)", rf"]({pages}/book/\1.html\2)", cell.source)
        key = hashlib.sha256(cell.source.encode()).hexdigest()[:8]
        count[key] = count.get(key, 0) + 1
        cell.id = key if count[key] == 1 else f"{key}-{count[key]}"
        if folded and not cell.source.startswith("# @title "):
            title = fold_title(cell.source, tags, is_first="setup" in previous_tags)
            cell.source = f"# @title {title}\n{cell.source}"
        if cell.cell_type == "code":
            previous_tags = tags
    nbformat.validate(result)
    return nbformat.writes(result).rstrip("\n") + "\n"


def fold_title(source: str, tags: list[str], is_first: bool) -> str:
    """Return what Colab shows of a folded cell.

    Args:
        is_first: whether it is the first cell after the setup.
    """
    if source.startswith("from transformer.interactive import widget\n"):
        return INTERACTIVE
    if "remove-cell" in tags:
        return CHECK
    if "alt=" in source or "description=" in source:  # every figure has a text alternative
        return FIRST_FIGURE if is_first else FIGURE
    if "imports" in tags:
        return IMPORTS
    return PACKAGE if source.startswith("SourceCode(") else CODE


def main(arguments: list[str] | None = None) -> int:
    """Write every generated file that is out of date; with ``--check`` only list them. Return the exit code.

    If the widgets can't be bundled, the reason is printed on stderr, and the exit code is 2.
    """
    parser = argparse.ArgumentParser(
        prog="python -m book.sync", description="Write the generated files of this repository."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is out of date")
    parser.add_argument("--root", type=Path, default=Path(__file__).parent.parent, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    try:
        return write_files(args.root.resolve(), args.check)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def write_files(root: Path, check: bool) -> int:
    """Write every generated file that is out of date; with ``check`` only list them. Return the exit code.

    Raises:
        UserError: if the widgets can't be bundled.
    """
    stale = 0
    for path, text in Sync(root).expected_files(run_esbuild=not check):
        current = path.read_text("utf-8") if path.exists() else ""
        if current == text:
            continue
        stale += 1
        name = path.relative_to(root).as_posix()
        if check:
            pairs = zip_longest(current.splitlines(), text.splitlines())
            line = next((i for i, (old, new) in enumerate(pairs, 1) if old != new), None)
            print(f"out of date: {name}, at {f'line {line}' if line else 'the end of the file'}", file=sys.stderr)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8", newline="\n")
            print(f"wrote {name}")
    if check and stale:
        print("error: generated files are out of date: run `make notebooks` and commit them", file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
