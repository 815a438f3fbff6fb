"""Grade filled-in notebooks with nbval.

The notebook that runs is the course's own, with only its answer cells replaced by the learner's: changes to other cells
don't count. It runs in its own folder and process, with limits on time, output and memory and with restrictions on what
it may do, and all its processes are ended afterwards. Its results arrive through a socket to which it has no access.
"""

import ast
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from exercises.limits import PATIENCE, TRAINING_TOPICS, did_not_finish
from exercises.notebooks import (
    NOT_DONE,
    ROOT,
    Notebook,
    answer_key,
    check_answers_are_unique,
    check_key,
    check_not_installed,
    course_notebooks,
    find_notebooks,
    find_original,
    notebook_text,
    read_notebook,
    topic_of,
)
from exercises.record import State, Verdict, record_file, state_of, write_record
from transformer.errors import UserError

RUN_ID = "EXERCISES_GRADING"
"""An environment variable with the id of a grading run, by which all its processes can be found and ended."""

RESULTS = "EXERCISES_RESULTS"
"""An environment variable with the file descriptor to which pytest writes the results; no kernel inherits it."""

STARTUP = """\
import exercises.checks.{topic}  # takes seconds, because it imports PyTorch, and must not count towards a cell's time
from pathlib import Path

from exercises import audit, limits, tensors

tensors.compute_first_gradient()
exercises.checks.{topic}.topic.show_insights = False  # what a check prints is compared with ✓ alone
limits.start({seconds})
audit.start(Path({folder!r}))
"""
"""Code that the kernel runs before the first cell."""

FORBIDDEN = {
    "import": set("exercises builtins ctypes gc importlib inspect runpy".split()),
    "attribute": set("exercises _topic _getframe __globals__ __closure__ __self__".split()),
    "call": set("open eval exec globals setattr __import__ get_ipython".split()),
}
"""Names that no answer needs and that could be used to evade a check. The list prevents temptation, not attacks."""

NOT_STARTED = "Kernel died before replying to kernel_info"
"""Jupyter chooses free ports for a kernel; if another process takes one before it starts, the kernel ends at once."""
NOT_GRADED = "not graded, because an earlier answer stopped the notebook"
"""The message for an answer about which nothing is known."""

REFUSAL = """\
from exercises.check import WrongAnswerError
raise WrongAnswerError("its cell was not run, because it uses {}\\n"
    "An answer must not use files, the checks, or the internals of Python.")
"""
"""Code that runs in place of an answer that uses a forbidden name."""


@dataclass(frozen=True)
class Submission:
    """A learner's notebook to grade."""

    path: Path
    course_notebook: Path
    """The course's notebook with the same exercises, into which the answers are inserted."""
    answers: dict[str, str]
    """Exercise → the source of its answer cell."""
    states: dict[str, State]
    """Exercise → what the notebook contains for it."""


@dataclass(frozen=True)
class Grade:
    """The result of grading a notebook."""

    path: Path
    notebook: str
    """Name of the exercise notebook, such as ``02_attention``; empty if the notebook could not be graded."""
    messages: dict[str, str | None]
    """Exercise → None if the answer is right, else a message for the learner."""
    failure: str = ""
    """Why the notebook could not be graded."""
    states: Mapping[str, State] = field(default_factory=dict, compare=False, repr=False)
    """Exercise → what the notebook contained for it."""

    @property
    def points(self) -> int:
        """Number of right answers."""
        return sum(message is None for message in self.messages.values())

    def describe(self, key: str) -> list[str]:
        """Return the lines for one exercise: its mark, its name and the message."""
        message = self.messages[key]
        first, *rest = (message or "").splitlines() or [""]
        mark = "✓" if message is None else "·" if first.startswith(NOT_DONE) else "✗"
        lines = [f"  {mark} {key}: {first}" if message else f"  {mark} {key}"]
        for line in rest:
            is_table = "  " in line.strip()
            parts = textwrap.wrap(line, 100) if len(line) > 100 and not is_table else [line]
            lines += [f"      {part}".rstrip() for part in parts]
        return lines

    def __str__(self) -> str:
        lines = [line for key in self.messages for line in self.describe(key)]
        title = f"{self.notebook.replace('_', ' ')} · {printable(str(self.path))}"
        return "\n".join([title, *lines, f"  {self.points} of {len(self.messages)}"])


def grade_all(names: Sequence[str], seconds: int = 10, root: Path = ROOT) -> list[Grade]:
    """Grade notebooks in parallel.

    Args:
        names: topics, their numbers, paths of notebooks or of folders with notebooks, or ``all``.
        seconds: limit of each cell's computing time; topics that train a model get more (`limits.TRAINING_TOPICS`).
        root: the checkout of the course.

    Returns:
        A grade for each notebook. A notebook that cannot be graded does not affect the others: its ``failure`` is set.

    Raises:
        UserError: if there is no notebook for a name, it is the package's own, or the limit is less than a second.
    """
    if seconds < 1:
        raise UserError(f"--seconds must be at least 1; got {seconds}")
    prefix = uuid.uuid4().hex

    def grade_one(path: Path, run_id: str) -> Grade:
        try:
            return grade(read_submission(path, root), seconds, run_id)
        except UserError as error:
            return Grade(path, "", {}, printable(str(error)))
        except Exception as error:  # whatever is wrong with one file, the others are graded
            failure = f"{path} could not be graded: {type(error).__name__}: {error}"
            return Grade(path, "", {}, printable(failure))

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        try:
            paths = find_notebooks(names, root)
            check_not_installed(paths, root)
            return list(pool.map(grade_one, paths, (f"{prefix}-{i}-" for i in range(len(paths)))))
        finally:
            _kill_processes(prefix)


def record_grades(grades: Sequence[Grade]) -> list[str]:
    """Remember which answers are right (see `exercises.record`), and return a note if that fails."""
    for result in grades:
        verdicts = {
            key: Verdict(result.states[key], message)
            for key, message in result.messages.items()
            if key in result.states and not (message or "").startswith((NOT_DONE, NOT_GRADED))
        }
        try:
            if verdicts:
                write_record(result.path, verdicts)
        except OSError as error:
            folder = record_file(result.path).parent
            return [f"note: `status` and `next` won't count this: cannot write to {folder}: {error.strerror}"]
    return []


def read_submission(path: Path, root: Path = ROOT) -> Submission:
    """Read a learner's answers.

    Raises:
        UserError: if the file is not an exercise notebook, or an answer cell is missing or occurs twice.
    """
    notebook = read_notebook(path)
    cells = {key: cell for cell in notebook["cells"] if (key := answer_key(cell))}
    checks = {key: cell for cell in notebook["cells"] if (key := check_key(cell))}
    answers = {key: cell["source"] for key, cell in cells.items()}
    known = {path: _keys(read_notebook(path)) for path in course_notebooks(root)}
    course_notebook = find_original(path, answers, known)
    if missing := [key for key in known[course_notebook] if key not in answers]:
        raise UserError(
            f"{path}: no cell begins with `# answer: {missing[0]}`; put that line back at the top of your answer"
        )
    check_answers_are_unique(notebook, path)
    states = {key: state_of(cell, checks.get(key)) for key, cell in cells.items()}
    return Submission(path, course_notebook, answers, states)


def grade(submission: Submission, seconds: int, run_id: str) -> Grade:
    """Run one notebook and collect the results of its checks."""
    keys = _keys(assemble(submission))
    seconds = max(seconds, TRAINING_TOPICS.get(topic_of(submission.course_notebook), 0))
    folder = Path(tempfile.mkdtemp(prefix="grading-"))
    try:
        records = _run(submission, folder, seconds, run_id, timeout=150 + 2 * len(keys) * (PATIENCE * seconds + 5))
    finally:
        _kill_processes(run_id)
        shutil.rmtree(folder, ignore_errors=True)
    messages = {key: _message(key, records, seconds) for key in keys}
    return Grade(submission.path, submission.course_notebook.stem, messages, states=submission.states)


def forbidden_name(answer: str) -> str | None:
    """Return a forbidden name that an answer uses (see `FORBIDDEN`), or why it cannot be parsed, or None."""
    calls = FORBIDDEN["call"]
    try:
        tree = _parse(answer) or _parse(re.sub(r"^( *)[%!].*", r"\1pass", answer, flags=re.MULTILINE))
        if tree is None:  # perhaps IPython's own syntax inside a line, such as `x = !ls`
            from IPython.core.inputtransformer2 import TransformerManager

            text = re.sub(r"^%%.*", "pass", answer, flags=re.MULTILINE)
            tree = ast.parse(TransformerManager().transform_cell(text))  # type: ignore[no-untyped-call]
            calls = calls - {"get_ipython"}
    except (RecursionError, MemoryError):
        return "too many nested expressions"
    except (SyntaxError, ValueError):  # reported when the cell runs
        return None
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                used = {name.name.split(".")[0] for name in names} & FORBIDDEN["import"]
            case ast.ImportFrom(str(module)):
                used = {module.split(".")[0]} & FORBIDDEN["import"]
            case ast.Attribute(_, name):
                used = {name} & FORBIDDEN["attribute"]
            case ast.Call(ast.Name(name)):
                used = {name} & calls
            case _:
                continue
        if used:
            return min(used)
    return None


def without_cell_magics(answer: str) -> str:
    """Turn the cell magics above an answer, such as `%%timeit`, into comments: some keep it from being defined."""
    heading = re.match(r"(?:[ \t]*(?:(?:#|%%).*)?\n)*", answer)
    end = heading.end() if heading else 0
    return re.sub(r"^([ \t]*)%%", r"\1# %%", answer[:end], flags=re.MULTILINE) + answer[end:]


def _parse(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def assemble(submission: Submission) -> Notebook:
    """Insert the answers into the course's notebook. Each check is imported again, in case an answer redefines it."""
    notebook = read_notebook(submission.course_notebook)
    for cell in notebook["cells"]:
        if key := answer_key(cell):
            cell["source"] = without_cell_magics(submission.answers[key])
            if name := forbidden_name(cell["source"]):
                cell["source"] = f"# answer: {key}\n{REFUSAL.format(name)}"
        elif key := check_key(cell):
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": f"✓ {key}\n"}]
            cell["execution_count"] = 1  # nbval only checks the outputs of cells that have run
            cell["source"] = (
                f"from exercises.checks.{topic_of(submission.course_notebook)} import check; {cell['source']}"
            )
    return notebook


def _keys(notebook: Notebook) -> list[str]:
    return [key for cell in notebook["cells"] if (key := answer_key(cell))]


def _run(
    submission: Submission, folder: Path, seconds: int, run_id: str, timeout: int, attempts: int = 3
) -> list[dict[str, Any]]:
    """Run the notebook and return the result of each cell, as `exercises.pytest_plugin` reported it in time."""
    (folder / "graded.ipynb").write_text(notebook_text(assemble(submission)), "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    startup = folder / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True, exist_ok=True)
    (startup / "limits.py").write_text(
        STARTUP.format(topic=topic_of(submission.course_notebook), seconds=seconds, folder=str(folder)), "utf-8"
    )
    environment = {
        **os.environ,
        RUN_ID: run_id,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "IPYTHONDIR": str(folder / "ipython"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    plugins = ["-p", "exercises.pytest_plugin", "-p", "nbval.plugin", "-p", "no:cacheprovider"]
    nbval = ["--nbval-lax", "--nbval-current-env", "--nbval-kernel-startup-timeout=120"]
    nbval += [f"--nbval-cell-timeout={PATIENCE * seconds + 5}"]
    ours, theirs = socket.socketpair()
    environment[RESULTS] = str(theirs.fileno())
    with (
        ours,
        ours.makefile(encoding="utf-8") as lines,
        (folder / "log").open("w") as log,
        ThreadPoolExecutor() as pool,
    ):
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", *plugins, *nbval, "graded.ipynb"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        records_read = pool.submit(lambda: [json.loads(line) for line in lines])
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=timeout)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        records = records_read.result()
    if not records:
        text = (folder / "log").read_text("utf-8")
        if NOT_STARTED in text and attempts > 1:
            return _run(submission, folder, seconds, run_id, timeout, attempts - 1)
        raise UserError(f"the notebook could not be run; the end of the log:\n{text[-2000:]}")
    for record in records:
        if not record["key"] and record["outcome"] not in ("passed", "skipped"):
            raise UserError(f"one of the course's own cells fails here: {record['error']}: {record['message']}")
    return records


def _message(key: str, records: list[dict[str, Any]], seconds: int) -> str | None:
    by_kind = {record["kind"]: record for record in records if record["key"] == key}
    for record in by_kind.values():
        if record["outcome"] == "died":
            return "it ended the whole Python process: by an exit, by a crash, or by using too much memory"
        if record["outcome"] == "timed out":
            return did_not_finish(seconds)
    if "check" not in by_kind:
        return NOT_GRADED
    check, answer = by_kind["check"], by_kind["answer"]
    if check["outcome"] == "passed":
        return None
    failed = answer if answer["outcome"] != "passed" else check
    name, value = failed["error"], str(failed["message"]).removeprefix("✗ ").removeprefix(f"{key}: ")
    if name in ("WrongAnswerError", "LimitReached"):
        message = value
    elif failed is check and name == "NameError" and f"'{key}'" in value:
        message = f"its cell does not define the function: def {key}(…)"
    elif failed is check and not name:
        message = "its check did not print the expected line"
    else:
        message = f"its cell stopped with {name}: " + re.sub(r" \(\d+\.py, line (\d+)\)", r" (line \1)", value)
    if "NameError" in message:
        message += (
            "\n(Only answer cells are graded: variables, functions and imports from your other cells do not exist "
            "here. Put imports into the answer cell.)"
        )
    return printable(message)


def printable(text: str) -> str:
    """Return a text without control characters, which a terminal would obey and XML can't contain."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]", "\N{REPLACEMENT CHARACTER}", text)


def _kill_processes(prefix: str) -> None:
    """Kill every process of the runs whose ids begin with this prefix."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(RUN_ID, "").startswith(prefix):
                process.kill()
