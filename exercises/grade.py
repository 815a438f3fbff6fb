"""Grade filled notebooks by nbval.

The notebook that runs is the course's own, with only its answer cells replaced by the learner's: what she did to any
other cell does not count. It runs in a folder and a process of its own, within limits of time, output and memory,
and nothing of it is left running.
"""

import ast
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from exercises.notebooks import ROOT, Notebook, answer_key, check_key, read, skeletons, topic_of, write
from transformer.errors import UserError

MARK = "EXERCISES_GRADING"
"""An environment variable that every process of a grading run has, so that all of them can be found and ended."""


STARTUP = """\
import exercises.checks.{topic}  # takes seconds, with all of PyTorch, and counts for no cell
from exercises import limits

limits.start({seconds})
"""
"""What the kernel runs before the first cell."""


OUT_OF_BOUNDS = {
    "import": set("exercises builtins ctypes gc importlib inspect runpy".split()),
    "attribute": set("exercises mistakes reference judge _topic _getframe __globals__ __closure__ __self__".split()),
    "call": set("open eval exec globals setattr __import__ get_ipython".split()),
}
"""What no answer needs, and what a check could be got round with. The list is short: it is against temptation."""

REFUSAL = """\
from exercises.check import WrongAnswerError
raise WrongAnswerError("its cell was not run, because it uses {}\\n"
    "An answer has to do without files, without the checks and without Python's own insides.")
"""
"""What runs in place of such an answer."""


@dataclass(frozen=True)
class Submission:
    """A notebook to grade."""

    path: Path
    skeleton: Path
    """The course's notebook of the same exercises."""
    answers: dict[str, str]
    """Exercise → the source of its answer cell."""


@dataclass(frozen=True)
class Grade:
    """What became of a notebook."""

    path: Path
    exercise: str
    """The name of its solution, as in ``02_attention``; empty if it could not be graded."""
    messages: dict[str, str | None]
    """Exercise → None if it is right, else what to tell the learner."""
    failure: str = ""
    """Why it could not be graded."""

    @property
    def points(self) -> int:
        """How many exercises are right."""
        return sum(message is None for message in self.messages.values())

    def __str__(self) -> str:
        lines = [f"{self.exercise.replace('_', ' ')} · {self.path}"]
        for key, message in self.messages.items():
            first, *rest = (message or "").splitlines() or [""]
            lines.append(f"  ✗ {key}: {first}" if message else f"  ✓ {key}")
            for line in rest:
                parts = textwrap.wrap(line, 100) if len(line) > 100 else [line]
                lines += [f"      {part}".rstrip() for part in parts]
        return "\n".join([*lines, f"  {self.points} of {len(self.messages)}"])


def grade_all(names: Sequence[str], seconds: int = 10, root: Path = ROOT) -> list[Grade]:
    """Grade notebooks side by side.

    Args:
        names: topics, their numbers, paths of notebooks or of folders of them, or ``all``.
        seconds: how long one cell may run.
        root: the checkout of the course.

    Returns:
        A grade for each notebook; one that cannot be graded says why, and does not keep the others from it.

    Raises:
        UserError: if a name means no notebook.
    """
    if seconds < 1:
        raise UserError(f"--seconds must be at least 1; got {seconds}")
    run = uuid.uuid4().hex

    def one(path: Path, mark: str) -> Grade:
        try:
            return grade(submission(path, root), seconds, mark)
        except UserError as error:
            return Grade(path, "", {}, str(error))

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        try:
            paths = find(names, root)
            return list(pool.map(one, paths, (f"{run}-{i}-" for i in range(len(paths)))))
        finally:
            _end(run)


def find(names: Sequence[str], root: Path = ROOT) -> list[Path]:
    """The notebooks that these names mean, each once.

    Raises:
        UserError: if a name means none.
    """
    topics = {path.stem: root / "exercises" / path.name for path in skeletons(root)}
    found: list[Path] = []
    for name in names:
        if name == "all":
            found += topics.values()
        elif matches := [p for stem, p in topics.items() if name in (stem, stem[3:], stem[:2], stem[:2].lstrip("0"))]:
            found += matches
        elif Path(name).is_dir():
            inside = [path for path in sorted(Path(name).rglob("*.ipynb")) if ".ipynb_checkpoints" not in path.parts]
            if not inside:
                raise UserError(f"there is no notebook in the folder {name}")
            found += inside
        elif name.endswith(".ipynb") or os.sep in name or Path(name).exists():
            found.append(Path(name).expanduser())
        else:
            known = ", ".join(f"{stem[3:]} ({stem[:2]})" for stem in topics)
            raise UserError(f"there is no exercise {name!r}; there are {known}, and all")
    return list(dict.fromkeys(found))


def submission(path: Path, root: Path = ROOT) -> Submission:
    """Read a learner's answers.

    Raises:
        UserError: if the file is no notebook of the exercises, or an answer cell is missing or there twice.
    """
    cells = [(key, cell["source"]) for cell in read(path)["cells"] if (key := answer_key(cell))]
    answers = dict(cells)
    known = {path: _keys(read(path)) for path in skeletons(root)}
    skeleton, wanted = max(known.items(), key=lambda item: len(answers.keys() & set(item[1])))
    if not answers.keys() & set(wanted):
        raise UserError(f"{path} is none of the exercises: it has no cell that begins with `# answer: …`")
    if missing := [key for key in wanted if key not in answers]:
        raise UserError(
            f"{path}: no cell begins with `# answer: {missing[0]}`; put that line back on top of your answer"
        )
    if twice := [key for key in wanted if [k for k, _ in cells].count(key) > 1]:
        raise UserError(f"{path}: more than one cell begins with `# answer: {twice[0]}`; keep the one that counts")
    return Submission(path, skeleton, answers)


def grade(submission: Submission, seconds: int, mark: str) -> Grade:
    """Run one notebook and read what its checks say."""
    keys = _keys(assembled(submission))
    folder = Path(tempfile.mkdtemp(prefix="grading-"))
    try:
        records = _run(submission, folder, seconds, mark, at_most=150 + 2 * len(keys) * (seconds + 5))
    finally:
        _end(mark)
        shutil.rmtree(folder, ignore_errors=True)
    return Grade(submission.path, submission.skeleton.stem, {key: _message(key, records, seconds) for key in keys})


def refused(answer: str) -> str | None:
    """What an answer uses that reaches past its task: files, the checks, or Python's own insides."""
    try:
        tree = ast.parse(re.sub(r"^( *)[%!].*", r"\1pass", answer, flags=re.MULTILINE))
    except SyntaxError:  # which the learner is told when it runs
        return None
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                found = {name.name.split(".")[0] for name in names} & OUT_OF_BOUNDS["import"]
            case ast.ImportFrom(str(module)):
                found = {module.split(".")[0]} & OUT_OF_BOUNDS["import"]
            case ast.Attribute(_, name):
                found = {name} & OUT_OF_BOUNDS["attribute"]
            case ast.Call(ast.Name(name)):
                found = {name} & OUT_OF_BOUNDS["call"]
            case _:
                continue
        if found:
            return min(found)
    return None


def assembled(submission: Submission) -> Notebook:
    """The course's notebook with the learner's answers. Each check is imported anew: an answer may redefine it."""
    notebook = read(submission.skeleton)
    for cell in notebook["cells"]:
        if key := answer_key(cell):
            cell["source"] = submission.answers[key]
            if name := refused(cell["source"]):
                cell["source"] = f"# answer: {key}\n{REFUSAL.format(name)}"
        elif key := check_key(cell):
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": f"✓ {key}\n"}]
            cell["execution_count"] = 1  # nbval wants to see that it ran
            cell["source"] = f"from exercises.checks.{topic_of(submission.skeleton)} import check; {cell['source']}"
    return notebook


def _keys(notebook: Notebook) -> list[str]:
    return [key for cell in notebook["cells"] if (key := answer_key(cell))]


def _run(submission: Submission, folder: Path, seconds: int, mark: str, at_most: int) -> list[dict[str, Any]]:
    """What each cell came to, as exercises.report writes it; what had not been reported when time was up is missing."""
    (folder / "graded.ipynb").write_text(write(assembled(submission)), "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    startup = folder / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "limits.py").write_text(STARTUP.format(topic=topic_of(submission.skeleton), seconds=seconds), "utf-8")
    environment = {
        **os.environ,
        MARK: mark,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "IPYTHONDIR": str(folder / "ipython"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    plugins = ["-p", "exercises.report", "-p", "nbval.plugin", "-p", "no:cacheprovider"]
    nbval = ["--nbval-lax", "--nbval-current-env", "--nbval-kernel-startup-timeout=120"]
    nbval += [f"--nbval-cell-timeout={seconds + 5}"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", *plugins, *nbval, "graded.ipynb"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=at_most)
    report = folder / "report.jsonl"
    records = [json.loads(line) for line in report.read_text("utf-8").splitlines()] if report.exists() else []
    if not records:
        raise UserError(f"the notebook could not be run:\n{(folder / 'log').read_text('utf-8')[-2000:]}")
    for record in records:
        if not record["key"] and record["end"] not in ("passed", "skipped"):
            raise UserError(f"the notebook's own cells do not run here: {record['error']}: {record['message']}")
    return records


def _message(key: str, records: list[dict[str, Any]], seconds: int) -> str | None:
    of_key = {record["kind"]: record for record in records if record["key"] == key}
    for record in of_key.values():
        if record["end"] == "died":
            return "it ended the whole Python process, by an exit, a crash or too much memory"
        if record["end"] == "timed out":
            return f"it did not finish within {seconds} s: does a loop never end?"
    if "check" not in of_key:
        return "not graded, because an earlier answer stopped the notebook"
    check, answer = of_key["check"], of_key["answer"]
    if check["end"] == "passed":
        return None
    failed = answer if answer["end"] != "passed" else check
    name, value = failed["error"], str(failed["message"]).removeprefix("✗ ").removeprefix(f"{key}: ")
    if name in ("WrongAnswerError", "LimitReached"):
        message = value
    elif failed is check and name == "NameError" and f"'{key}'" in value:
        message = f"its cell defines no function of this name: def {key}(…)"
    elif failed is check and not name:
        message = "its check did not say what it should"
    else:
        message = f"its cell stopped with {name}: " + re.sub(r" \(\d+\.py, line (\d+)\)", r" (line \1)", value)
    if "NameError" in message:
        message += "\n(only answer cells are graded: what you make in another cell is not there)"
    return message


def _end(mark: str) -> None:
    """Kill every process whose mark begins with this one."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK, "").startswith(mark):
                process.kill()
