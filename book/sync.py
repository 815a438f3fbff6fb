"""What this repository makes from something else in it, exercises apart: ``python -m book.sync [--check]``.

| made | from |
|---|---|
| ``chapters/*.ipynb`` | ``chapters/*.py`` |
| the setup cell in ``chapters/*.py`` and ``solutions/*.py`` | the repository's address in ``_config.yml`` |
| that address in the README, ``CITATION.cff``, ``pyproject.toml`` and other pages | ``_config.yml`` |
| ``environment.yml`` | the dependencies in ``pyproject.toml`` |
| ``transformer/interactive/bundles/*.mjs`` | ``book/widgets/*.mjs`` |

With ``--check`` no file changes: each one that is out of date is named, and the exit code is 1.
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

from book.bundle import bundles, is_current, widgets

SETUP = """\
# %% tags=["setup", "hide-cell"]
# In Colab this installs the course and leaves Colab's own torch and numpy as they
# are. Anywhere else it does nothing.
import sys

if "google.colab" in sys.modules:
    import pathlib
    import subprocess
    from importlib.metadata import version

    course = "transformer-course[widgets] @ git+ADDRESS@BRANCH"
    keep = pathlib.Path("keep.txt")
    keep.write_text(f"numpy=={version('numpy')}\\ntorch=={version('torch')}\\n")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--constraint", keep]
    subprocess.run([*pip, course], check=True)
"""

ENVIRONMENT = """\
# For conda and Binder. Made from pyproject.toml by `make notebooks`: change the list there.
# torch is conda-forge's CPU build, so that nothing brings CUDA in; `pip` then finds it installed.
name: transformer-course
channels: [conda-forge]
dependencies:
  - python=3.12
  - pip
  - pytorch-cpu{torch}
  - pip:
{pip}
      - -e .
"""


class Sync:
    """What the generated files of the checkout at ``root`` should contain."""

    def __init__(self, root: Path) -> None:
        self.root = root
        repository = yaml.safe_load((root / "_config.yml").read_text("utf-8"))["repository"]
        self.address, self.branch = repository["url"].rstrip("/"), repository["branch"]
        self.project = tomli.loads((root / "pyproject.toml").read_text("utf-8"))["project"]

    def wanted(self, make_bundles: bool) -> Iterator[tuple[Path, str]]:
        """Each generated file with the text that it should have."""
        setup = SETUP.replace("ADDRESS", self.address).replace("BRANCH", self.branch)
        for path in sorted([*self.root.glob("chapters/*.py"), *self.root.glob("solutions/*.py")]):
            text = with_setup(self.addressed(path), setup)
            yield path, text
            if path.parent.name == "chapters":
                yield path.with_suffix(".ipynb"), notebook(text)
        for pattern in ("*.md", "*.cff", "*.toml", "LICENSE*", "book/*.md"):
            for path in sorted(self.root.glob(pattern)):
                yield path, self.addressed(path)
        yield self.root / "environment.yml", self.environment()
        yield from self.bundles(make_bundles)

    def bundles(self, make: bool) -> Iterator[tuple[Path, str]]:
        """The widgets as one file each. If one is out of date, all are made; or, as that takes Node, only named."""
        modules, folder = self.root / "book" / "widgets", self.root / "transformer" / "interactive" / "bundles"
        paths = {name: folder / f"{name}.mjs" for name in widgets(modules)}
        now = {name: path.read_text("utf-8") for name, path in paths.items() if path.exists()}
        current = {name: text for name, text in now.items() if is_current(modules, text)}
        wanted = bundles(modules, list(paths)) if make and current.keys() < paths.keys() else current
        for name, path in paths.items():
            yield path, wanted.get(name, "")

    def addressed(self, path: Path) -> str:
        """The file's text, with the address that it was made for (pyproject.toml remembers it) brought up to date."""
        text = path.read_text("utf-8")
        old = self.project["urls"]["Repository"]
        for form in (slug, pages):
            text = text.replace(form(old), form(self.address))
        return text

    def environment(self) -> str:
        """The text of environment.yml."""
        extras = self.project["optional-dependencies"]
        everything = sorted([*self.project["dependencies"], *extras["book"], *extras["dev"], *extras["widgets"]])
        (torch,) = (one.removeprefix("torch") for one in everything if re.match(r"torch\b", one))
        pip = "\n".join(f"      - {one}" for one in everything if not re.match(r"torch\b", one))
        return ENVIRONMENT.format(torch=torch, pip=pip)


def slug(address: str) -> str:
    """``owner/name`` of a repository's address."""
    return "/".join(address.split("/")[-2:])


def pages(address: str) -> str:
    """Where the repository's built book is published."""
    owner, name = slug(address).split("/")
    return f"{owner}.github.io/{name}"


def with_setup(text: str, setup: str) -> str:
    """A percent script with ``setup`` as its first code cell, in place of the setup cell that it had."""
    cells = re.split(r"^(?=# %%)", text, flags=re.MULTILINE)
    cells = [cell for cell in cells if not re.match(r'# %%.*tags=.*"setup"', cell)]
    first = next((i for i, cell in enumerate(cells) if re.match(r"# %%(?! \[markdown\])", cell)), len(cells))
    parts = "".join(cells[:first]), setup, "".join(cells[first:])
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def notebook(script: str) -> str:
    """The .ipynb half of a percent script: no outputs, and ids that depend only on what the cells say."""
    book = jupytext.reads(script, fmt="py:percent")
    book.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    book.nbformat, book.nbformat_minor = 4, 5
    seen: dict[str, int] = {}
    for cell in book.cells:
        cell.metadata = nbformat.from_dict({"tags": cell.metadata["tags"]} if "tags" in cell.metadata else {})
        key = hashlib.sha256(cell.source.encode()).hexdigest()[:8]
        seen[key] = seen.get(key, 0) + 1
        cell.id = key if seen[key] == 1 else f"{key}-{seen[key]}"
    nbformat.validate(book)
    return nbformat.writes(book).rstrip("\n") + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Bring every generated file up to date, or with ``--check`` name those that are not."""
    parser = argparse.ArgumentParser(prog="python -m book.sync", description="Make this repository's generated files.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a file is out of date")
    parser.add_argument("--root", type=Path, default=Path(__file__).parent.parent, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    root = args.root.resolve()
    stale = 0
    for path, text in Sync(root).wanted(make_bundles=not args.check):
        now = path.read_text("utf-8") if path.exists() else ""
        if now == text:
            continue
        stale += 1
        name = path.relative_to(root).as_posix()
        if args.check:
            pairs = zip_longest(now.splitlines(), text.splitlines())
            line = next((i for i, (is_, should) in enumerate(pairs, 1) if is_ != should), "the end")
            print(f"out of date: {name}, at line {line}", file=sys.stderr)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8", newline="\n")
            print(f"wrote {name}")
    if args.check and stale:
        print("error: what is out of date is made from other files: run `make notebooks` and commit", file=sys.stderr)
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
