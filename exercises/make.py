"""From ``solutions/NN_topic.py``, the one source, the executed solution and the exercise with its blanks.

Between the lines ``### BEGIN SOLUTION`` and ``### END SOLUTION`` stands what the learner has to find. Cell ids come
from the section a cell stands in, so that a change in one exercise leaves the cells of the others as they are.
"""

import asyncio
import copy
import difflib
import importlib
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from exercises.check import NOT_DONE, Topic
from exercises.notebooks import ROOT, Notebook, answer_key, check_key, read, sources, topic_of, write
from transformer.errors import UserError

BLANK = re.compile(r"^( *)### BEGIN SOLUTION\n.*?### END SOLUTION$", flags=re.MULTILINE | re.DOTALL)
OPEN = f'raise NotImplementedError("{NOT_DONE}: write your code in place of this line")'


def make(root: Path = ROOT) -> list[Path]:
    """Write every notebook that is not as its source says, and return their paths.

    Raises:
        UserError: if a source is not well-formed, or a file holds a learner's answers, which are not overwritten.
    """
    paths = sources(root)
    exercises = {exercise_path(path): write(blank(solution(path))) for path in paths}
    for path in exercises:
        if filled := answered(path):
            raise UserError(f"{path} holds answers ({', '.join(filled)}): move it away first, it would be overwritten")
    with ThreadPoolExecutor() as pool:
        solutions = dict(zip((path.with_suffix(".ipynb") for path in paths), pool.map(executed, paths), strict=True))
    written = []
    for path, text in (exercises | solutions).items():
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8", newline="\n")
            written.append(path)
    return written


def drift(root: Path = ROOT) -> Iterator[str]:
    """What is not as the sources say, each a line or a few; nothing is executed and no file changes."""
    made = set()
    for path in sources(root):
        wanted = solution(path)
        yield from _differences(root, exercise_path(path), blank(wanted))
        yield from _differences(root, path.with_suffix(".ipynb"), wanted)
        made |= {exercise_path(path), path.with_suffix(".ipynb")}
    for path in sorted({*root.glob("exercises/*.ipynb"), *root.glob("solutions/*.ipynb")} - made):
        yield f"{path.relative_to(root)} has no source in solutions/"


def exercise_path(source: Path) -> Path:
    """``solutions/02_attention.py`` → ``exercises/02_attention.ipynb``."""
    return source.parent.parent / "exercises" / f"{source.stem}.ipynb"


def solution(source: Path) -> Notebook:
    """The solution's notebook, without outputs.

    Raises:
        UserError: if its blanks and the checks of its topic do not fit together.
    """
    notebook: Notebook = jupytext.reads(source.read_text("utf-8"), fmt="py:percent")
    section, count, cells = "intro", 0, []
    for cell in notebook["cells"]:
        heading = re.match(r"## *(.*)", cell["source"]) if cell["cell_type"] == "markdown" else None
        if heading:
            section, count = re.sub(r"[^a-z0-9]+", "-", heading[1].lower()).strip("-")[:50], 0
        tags = {key: cell["metadata"][key] for key in ("tags",) if key in cell["metadata"]}
        cells.append({**cell, "id": f"{section}-{count}", "metadata": tags})
        count += 1
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    _validate(source, notebook)
    return notebook


def blank(notebook: Notebook) -> Notebook:
    """The exercise of a solution: its answers replaced by a line that says they are not done yet."""
    cells = [{**cell, "source": BLANK.sub(rf"\1{OPEN}", cell["source"])} for cell in notebook["cells"]]
    return {**notebook, "cells": cells}


def answered(path: Path) -> list[str]:
    """The exercises of an existing notebook whose answer is no longer the open blank."""
    if not path.exists():
        return []
    keys = {answer_key(cell): cell["source"] for cell in read(path)["cells"]}
    return [key for key, source in keys.items() if key and OPEN not in source]


def executed(source: Path) -> str:
    """The text of the solution's notebook with its outputs.

    Raises:
        UserError: if a cell fails.
    """
    notebook = solution(source)
    running = nbformat.from_dict(copy.deepcopy(notebook))
    client = NotebookClient(
        running,
        timeout=120,
        record_timing=False,
        coalesce_streams=True,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(source.parent)}},
    )
    try:
        asyncio.run(client.async_execute())
    except CellExecutionError as error:
        raise UserError(f"{source} does not run: {error.ename}: {error.evalue}") from None
    nbformat.validate(running)
    return write({**notebook, "cells": json.loads(nbformat.writes(running))["cells"]})


def _validate(source: Path, notebook: Notebook) -> None:
    topic: Topic = importlib.import_module(f"exercises.checks.{topic_of(source)}").topic
    answers = {key: cell["source"] for cell in notebook["cells"] if (key := answer_key(cell))}
    checks = [key for cell in notebook["cells"] if (key := check_key(cell))]
    if not list(answers) == checks == list(topic.exercises):
        raise UserError(
            f"{source} does not fit its checks: it answers {', '.join(answers)}; its check cells are for "
            f"{', '.join(checks)}; there are checks for {', '.join(topic.exercises)}"
        )
    for key, text in answers.items():
        if len(BLANK.findall(text)) != 1:
            raise UserError(f"{source}: the answer {key} needs one ### BEGIN SOLUTION and one ### END SOLUTION")


def _differences(root: Path, path: Path, wanted: Notebook) -> Iterator[str]:
    """Where a notebook on disk differs from the wanted one, which has no outputs."""
    name = path.relative_to(root)
    if not path.exists():
        yield f"{name} is missing"
        return
    now = read(path)
    is_exercise = path.parent.name == "exercises"
    if is_exercise and (filled := answered(path)):
        yield f"{name} holds answers: {', '.join(filled)}"
        return
    for cell in now["cells"]:
        if cell["cell_type"] == "code":
            if is_exercise and cell["outputs"]:
                yield f"{name} has an output at the cell {cell['id']}"
            if not is_exercise and "skip-execution" not in cell["metadata"].get("tags", []) and not _has_run(cell):
                yield f"{name} was not executed, or not with success, at the cell {cell['id']}"
            cell["outputs"], cell["execution_count"] = [], None
    lines = difflib.unified_diff(write(now).splitlines(), write(wanted).splitlines(), lineterm="", n=0)
    changes = [line for line in lines if line[:1] in "+-"][2:]
    if changes:
        shown = [f"    {line[:1]} {line[1:].strip()[:140]}" for line in changes[:4]]
        yield "\n".join([f"{name} differs from its source (- there, + wanted):", *shown])


def _has_run(cell: Notebook) -> bool:
    key = check_key(cell)
    text = "".join("".join(output.get("text", "")) for output in cell["outputs"])
    return bool(cell["execution_count"]) and (key is None or text == f"✓ {key}\n")
