"""The exercises of a notebook on a page, where the reader's browser checks the answers: the pages in book/exercises.

That needs Pyodide. If it can't be fetched, such a page shows the exercises and links to the notebook.
"""

import html
import json
import re
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

from book import pyodide
from exercises.limits import MAX_SECONDS, did_not_finish
from exercises.make import make_exercise
from exercises.notebooks import ROOT, answer_key, topic_of

PAGES = "book/exercises/"
"""Where these pages are; each has the name of its notebook."""

PLACE = "% exercises\n"
"""The comment in a page that is replaced by the exercises."""

CODE = "course.zip"
"""What a page loads of the course: the checks, and the modules that they import."""

HOW = """\
Press *Try it here*, write your code in place of the line `raise NotImplementedError(…)`, and press *Check*. Python then
runs in your browser, which has to load about {megabytes:.0f} MB the first time. What you write stays in your browser,
which keeps it for your next visit.
"""
NOT_HERE = """\
This build of the book can't run Python in your browser. Read the exercises here, and solve them in the notebook.
"""

FILES_OF_CHECKS = """
import sys
sys.modules["torch"] = None  # importing it fails, as in a browser
from importlib import import_module
for name in sys.argv[1:]:
    import_module(name)
own = [name for name in sys.modules if name.partition(".")[0] in ("exercises", "transformer")]
print(*(sys.modules[name].__file__ for name in own), sep="\\n")
"""
"""A program that imports modules, and prints the files of the course that were loaded."""

logger = logging.getLogger(__name__)


@cache
def pyodide_folder() -> Path | None:
    """Return the folder with Pyodide's files, or None if they can't be fetched."""
    try:
        return pyodide.fetch(ROOT / "_build" / "npm")
    except RuntimeError as error:
        logger.info(f"{error}. The pages in book/exercises will show exercises, but can't check answers.")
        return None


def insert_blanks(app: Sphinx, page: str, source: list[str]) -> None:
    """Insert the exercises of a notebook into the page of its name."""
    if page.startswith(PAGES):
        text = page_text(ROOT / "solutions" / f"{Path(page).name}.py", pyodide_folder())
        source[0] = source[0].replace(PLACE, text)


def page_text(source: Path, files: Path | None) -> str:
    """Return the exercises of a notebook as Markdown.

    Args:
        source: the file in ``solutions/``.
        files: the folder with Pyodide's files, or None if there are none.
    """
    if files is None:
        text = NOT_HERE
    else:
        text = HOW.format(megabytes=sum(path.stat().st_size for path in files.iterdir()) / 1e6)
    setup = described = ""
    for cell in make_exercise(source)["cells"]:
        if cell["cell_type"] == "markdown":
            described = cell["source"]
        elif "from exercises.checks." in cell["source"]:
            setup = cell["source"]
        elif name := answer_key(cell):
            code = re.sub(r"^# answer: .*\n", "", cell["source"])
            block = f"```python\n{code}\n```"
            if files:
                values = {
                    "topic": topic_of(source),
                    "name": name,
                    "setup": setup,
                    "code": code,
                    "seconds": MAX_SECONDS,
                    "stopped": f"✗ {name}: {did_not_finish(MAX_SECONDS)}",
                }
                block = as_widget(block, values)
            text += f"\n{described}\n\n{block}\n"
    return text


def as_widget(content: str, values: dict[str, Any]) -> str:
    """Return Markdown with what the widget ``exercise`` shows until it runs."""
    start = f'<div class="widget" data-widget="exercise" data-values="{html.escape(json.dumps(values))}">'
    end = "<noscript><p>Turn on JavaScript to solve this exercise here.</p></noscript></div>"
    return f"````{{raw}} html\n{start}\n````\n\n{content}\n\n````{{raw}} html\n{end}\n````"


def exercise_pages(env: BuildEnvironment) -> list[str]:
    """Return the names of the pages with exercises."""
    return sorted(page for page in env.found_docs if page.startswith(PAGES))


def always_read(app: Sphinx, env: BuildEnvironment, *_: set[str]) -> list[str]:
    """Return the pages with exercises, which depend on other files and on whether Pyodide could be fetched."""
    return exercise_pages(env)


def copy_python(app: Sphinx, error: Exception | None) -> None:
    """Copy Pyodide and the checks into the built book."""
    topics = [topic_of(Path(page)) for page in exercise_pages(app.env)]
    if error or app.builder.format != "html" or not topics or not (files := pyodide_folder()):
        return
    target = Path(app.outdir) / "_static" / "pyodide"
    shutil.copytree(files, target, dirs_exist_ok=True)
    with zipfile.ZipFile(target / CODE, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files_of_checks(topics):
            archive.write(path, path.relative_to(ROOT))


def files_of_checks(topics: list[str]) -> list[Path]:
    """Return the files of the course that are needed to check the answers of some topics, without PyTorch."""
    modules = ["exercises.page", *(f"exercises.checks.{topic}" for topic in topics)]
    command = [sys.executable, "-c", FILES_OF_CHECKS, *modules]
    process = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, encoding="utf-8")
    return sorted(map(Path, process.stdout.splitlines()))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the event handlers with Sphinx."""
    app.connect("env-get-outdated", always_read)
    app.connect("source-read", insert_blanks)
    app.connect("build-finished", copy_python)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
