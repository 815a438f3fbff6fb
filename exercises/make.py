"""Make two notebooks from each ``solutions/NN_topic.py``: the executed solution, and the exercise with blanks.

The code between the lines ``### BEGIN SOLUTION`` and ``### END SOLUTION`` is what the learner has to write. The id of a
cell depends only on its section, so a change in one exercise doesn't change the cells of the others.
"""

import asyncio
import copy
import difflib
import importlib
import json
import os
import re
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from exercises.check import Topic
from exercises.notebooks import (
    PLACEHOLDER,
    PLACEHOLDER_BEFORE_BUGS,
    ROOT,
    Notebook,
    answer_key,
    check_key,
    exercise_path,
    is_open,
    notebook_text,
    read_notebook,
    solution_sources,
    topic_of,
)
from transformer.errors import UserError

MAKE = "run `python -m exercises make` and commit the notebooks that it writes"
"""What to do if a notebook is out of date."""

ANSWERS = (
    "there are answers in the course's own notebooks. If you are doing the exercises, nothing is wrong: grade them "
    "with `python -m exercises grade NUMBER`; `make lint` and `python -m exercises make` are only for changing the "
    "course. If you are changing it, move these notebooks to another folder (the course's answers go into "
    "solutions/*.py), and run `python -m exercises make`: it makes new ones."
)
"""What to do if `filled_notebooks` finds any."""

FOLDED = {"cellView": "form", "jupyter": {"source_hidden": True}}
"""Metadata of a cell whose code is hidden at first, in Colab and in JupyterLab."""

BLANK = re.compile(r"^( *)### BEGIN SOLUTION\n.*?### END SOLUTION$", flags=re.MULTILINE | re.DOTALL)


def make(root: Path = ROOT) -> list[Path]:
    """Write every notebook that is out of date, and return their paths.

    Raises:
        UserError: if a source is malformed, or a file contains a learner's answers, which are never overwritten.
    """
    paths = solution_sources(root)
    exercises = {exercise_path(path): notebook_text(make_exercise(path)) for path in paths}
    if filled := filled_notebooks(root):
        raise UserError(f"{'; '.join(filled)}. Nothing was written, because {ANSWERS}")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        solutions = dict(zip((path.with_suffix(".ipynb") for path in paths), pool.map(execute, paths), strict=True))
    written = []
    for path, text in (exercises | solutions).items():
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8", newline="\n")
            written.append(path)
    return written


def find_drift(root: Path = ROOT) -> Iterator[str]:
    """Yield a description of each notebook that is out of date. Nothing is executed and no file is changed."""
    expected_paths = set()
    yield from filled_notebooks(root)
    for path in solution_sources(root):
        expected = read_solution(path)
        yield from _differences(root, exercise_path(path), make_exercise(path))
        yield from _differences(root, path.with_suffix(".ipynb"), expected)
        expected_paths |= {exercise_path(path), path.with_suffix(".ipynb")}
    for path in sorted({*root.glob("exercises/*.ipynb"), *root.glob("solutions/*.ipynb")} - expected_paths):
        yield f"{path.relative_to(root)} has no source in solutions/"


def read_solution(source: Path) -> Notebook:
    """Return the solution as a notebook without outputs.

    Raises:
        UserError: if its answers don't match the checks of its topic.
    """
    notebook: Notebook = jupytext.reads(source.read_text("utf-8"), fmt="py:percent")
    section, count, cells = "intro", 0, []
    for cell in notebook["cells"]:
        heading = re.match(r"## *(.*)", cell["source"]) if cell["cell_type"] == "markdown" else None
        if heading:
            section, count = re.sub(r"[^a-z0-9]+", "-", heading[1].lower()).strip("-")[:50], 0
        tags = {key: cell["metadata"][key] for key in ("tags",) if key in cell["metadata"]}
        folded = FOLDED if "setup" in cell["metadata"].get("tags", []) else {}
        cells.append({**cell, "id": f"{section}-{count}", "metadata": tags | folded})
        count += 1
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    _validate(source, notebook)
    return notebook


def make_exercise(source: Path) -> Notebook:
    """Return the exercise of a solution: instead of each answer, a line that raises NotImplementedError.

    If the learner is to repair given code, that code follows.

    Raises:
        UserError: if the answers of the solution don't match the checks of its topic.
    """
    notebook = read_solution(source)
    exercises = _topic(source).exercises
    for cell in notebook["cells"]:
        if key := answer_key(cell):
            code = exercises[key].given_code
            start = PLACEHOLDER if code is None else f"{PLACEHOLDER_BEFORE_BUGS}\n{code}"
            (blank,) = BLANK.finditer(cell["source"])
            cell["source"] = cell["source"].replace(blank[0], textwrap.indent(start, blank[1]))
    return notebook


def filled_notebooks(root: Path = ROOT) -> list[str]:
    """Return a line for each exercise notebook that contains answers."""
    found = {path: filled_answers(path) for path in map(exercise_path, solution_sources(root))}
    return [f"{path.relative_to(root)} contains answers: {', '.join(keys)}" for path, keys in found.items() if keys]


def filled_answers(path: Path) -> list[str]:
    """Return the names of the exercises that have been answered in a notebook, which need not exist."""
    if not path.exists():
        return []
    cells = read_notebook(path)["cells"]
    return [key for cell in cells if (key := answer_key(cell)) and not is_open(cell["source"])]


def execute(source: Path) -> str:
    """Execute a solution, and return the text of the notebook with its outputs.

    Raises:
        UserError: if a cell fails or takes too long, or the kernel dies.
    """
    notebook = read_solution(source)
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
        # Notebooks are executed in parallel: with one thread each, they don't wait for each other's.
        asyncio.run(client.async_execute(env=os.environ | {"OMP_NUM_THREADS": "1"}))
    except CellExecutionError as error:
        raise UserError(f"{source} cannot be executed: {error.ename}: {error.evalue}") from None
    except (CellTimeoutError, DeadKernelError) as error:
        raise UserError(f"{source} cannot be executed: {str(error).splitlines()[0]}") from None
    nbformat.validate(running)
    return notebook_text({**notebook, "cells": json.loads(nbformat.writes(running))["cells"]})


def _topic(source: Path) -> Topic:
    topic: Topic = importlib.import_module(f"exercises.checks.{topic_of(source)}").topic
    return topic


def _validate(source: Path, notebook: Notebook) -> None:
    topic = _topic(source)
    answers = {key: cell["source"] for cell in notebook["cells"] if (key := answer_key(cell))}
    checks = [key for cell in notebook["cells"] if (key := check_key(cell))]
    if not list(answers) == checks == list(topic.exercises):
        raise UserError(
            f"{source} does not match its checks: it has answers for {', '.join(answers)}; check cells for "
            f"{', '.join(checks)}; and exercises/checks defines {', '.join(topic.exercises)}"
        )
    for key, text in answers.items():
        if len(BLANK.findall(text)) != 1:
            raise UserError(f"{source}: the answer {key} must have one ### BEGIN SOLUTION and one ### END SOLUTION")


def _differences(root: Path, path: Path, expected: Notebook) -> Iterator[str]:
    """Describe how a notebook on disk differs from the expected one, which has no outputs."""
    name = path.relative_to(root)
    if not path.exists():
        yield f"{name} is missing"
        return
    actual = read_notebook(path)
    is_exercise = path.parent.name == "exercises"
    if is_exercise and filled_answers(path):
        return
    for cell in actual["cells"]:
        if cell["cell_type"] == "code":
            if is_exercise and cell["outputs"]:
                yield f"{name} has an output in the cell {cell['id']}"
            if (
                not is_exercise
                and "skip-execution" not in cell["metadata"].get("tags", [])
                and not _has_run(cell, path)
            ):
                yield f"{name} was not executed successfully: see the cell {cell['id']}"
            cell["outputs"], cell["execution_count"] = [], None
    lines = difflib.unified_diff(
        notebook_text(actual).splitlines(), notebook_text(expected).splitlines(), lineterm="", n=0
    )
    changes = [line for line in lines if line[:1] in "+-"][2:]
    if changes:
        excerpt = [f"    {line[:1]} {line[1:].strip()[:140]}" for line in changes[:4]]
        yield "\n".join([f"{name} differs from its source (- actual, + expected):", *excerpt])


def _has_run(cell: Notebook, path: Path) -> bool:
    key = check_key(cell)
    text = "".join("".join(output.get("text", "")) for output in cell["outputs"])
    return bool(cell["execution_count"]) and (key is None or text == f"{_topic(path).exercises[key].success}\n")
