"""The notebooks are what their sources say, and a learner's work is not overwritten."""

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from nbclient.exceptions import CellTimeoutError, DeadKernelError

from exercises import __main__ as command
from exercises.calls import call
from exercises.check import Exercise, Topic, TrainingExercise, WrongAnswerError
from exercises.make import execute, filled_answers, filled_notebooks, find_drift, make, make_exercise, read_solution
from exercises.notebooks import (
    PLACEHOLDER,
    ROOT,
    answer_key,
    check_key,
    notebook_text,
    read_notebook,
    solution_sources,
    topic_of,
)
from transformer.errors import UserError

pytestmark = pytest.mark.slow


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the notebooks and their sources."""
    for folder, pattern in (("solutions", "*.py"), ("solutions", "*.ipynb"), ("exercises", "*.ipynb")):
        (tmp_path / folder).mkdir(exist_ok=True)
        for path in (ROOT / folder).glob(pattern):
            shutil.copy(path, tmp_path / folder)
    return tmp_path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def topic(source: Path) -> Topic:
    found: Topic = importlib.import_module(f"exercises.checks.{topic_of(source)}").topic
    return found


def test_the_repositorys_notebooks_are_as_their_sources_say() -> None:
    assert list(find_drift()) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("exercises/02_attention.ipynb", "Any number of axes", "Any number of dogs", "02_attention.ipynb differs"),
        (
            "solutions/04_masking.ipynb",
            "(ids != pad_id)",
            "(ids == pad_id)",
            "04_masking.ipynb differs from",
        ),
        ("solutions/04_masking.py", "Six blanks", "6 blanks", "+ "),
        (
            "solutions/02_attention.ipynb",
            "✓ softmax",
            "✗ softmax",
            "was not executed successfully: see",
        ),
        (
            "exercises/02_attention.ipynb",
            PLACEHOLDER.replace('"', '\\"'),
            "return 1",
            "contains answers: attention_scores\nerror: there are answers in the course's own notebooks",
        ),
    ],
)
def test_drift_is_found(
    checkout: Path, file: str, old: str, new: str, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    change(checkout / file, old, new)
    before = {path: path.read_bytes() for path in checkout.rglob("*.*")}
    for function in (find_drift, filled_notebooks):
        monkeypatch.setattr(function, "__defaults__", (checkout,))
    assert command.main(["make", "--check"]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "run `python -m exercises make`" in error
    assert {path: path.read_bytes() for path in checkout.rglob("*.*")} == before


def test_missing_and_superfluous_notebooks_are_found(checkout: Path) -> None:
    (checkout / "exercises" / "02_attention.ipynb").rename(checkout / "exercises" / "03_other.ipynb")
    assert list(find_drift(checkout)) == [
        "exercises/02_attention.ipynb is missing",
        "exercises/03_other.ipynb has no source in solutions/",
    ]


def test_make_changes_nothing_the_second_time_and_overwrites_no_answers(checkout: Path) -> None:
    for source in solution_sources(checkout):
        if source.stem != "04_masking":  # one notebook is enough, and faster
            source.unlink()
    (checkout / "solutions" / "04_masking.ipynb").unlink()
    assert make(checkout) == [checkout / "solutions" / "04_masking.ipynb"]
    committed = (ROOT / "solutions" / "04_masking.ipynb").read_bytes()
    assert (checkout / "solutions" / "04_masking.ipynb").read_bytes() == committed

    exercise = checkout / "exercises" / "04_masking.ipynb"
    change(exercise, PLACEHOLDER.replace('"', '\\"'), "return (ids != pad_id)[:, None, None]")
    filled = exercise.read_bytes()
    assert filled_answers(exercise) == ["padding_mask"]
    change(exercise, "return (ids", f"# {PLACEHOLDER}".replace('"', '\\"') + '\\n",\n    "    return (ids')
    assert filled_answers(exercise) == ["padding_mask"], "as a comment, the line may stay"
    filled = exercise.read_bytes()
    with pytest.raises(UserError, match="contains answers: padding_mask\\. Nothing was written, because"):
        make(checkout)
    assert exercise.read_bytes() == filled


@pytest.mark.parametrize("error", [CellTimeoutError("A cell timed out\nwhile …"), DeadKernelError("Kernel died")])
def test_a_solution_that_hangs_or_crashes_is_one_clear_line(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("nbclient.NotebookClient.async_execute", fail)
    with pytest.raises(UserError, match=r"04_masking\.py cannot be executed: (A cell timed out|Kernel died)$"):
        execute(ROOT / "solutions" / "04_masking.py")


def test_a_source_that_does_not_fit_its_checks_is_named(checkout: Path) -> None:
    path = checkout / "solutions" / "04_masking.py"
    change(path, "# answer: causal_mask", "# answer: causal")
    with pytest.raises(
        UserError, match="does not match its checks: it has answers for padding_mask, causal, target_mask"
    ):
        read_solution(path)
    change(path, "# answer: causal", "# answer: causal_mask")
    change(path, "    ### END SOLUTION\n", "")
    with pytest.raises(UserError, match="the answer padding_mask must have one ### BEGIN SOLUTION"):
        read_solution(path)


@pytest.mark.parametrize("source", solution_sources(), ids=lambda path: path.stem)
def test_exercise_gives_nothing_away_and_its_cells_have_lasting_names(source: Path) -> None:
    notebook = read_solution(source)
    exercise = make_exercise(source)
    text = notebook_text(exercise)
    assert "SOLUTION" not in text
    assert text.count("raise NotImplementedError") == sum(1 for cell in exercise["cells"] if answer_key(cell))
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    assert all(cell["metadata"]["tags"] == ["answer"] for cell in notebook["cells"] if answer_key(cell))
    cells = [*notebook["cells"]]
    last = max(i for i, cell in enumerate(cells) if answer_key(cell))
    assert '"' not in ids[last]
    for cell in cells:
        if cell["cell_type"] == "markdown" and answer_key(cells[min(cells.index(cell) + 1, len(cells) - 1)]):
            assert "minutes" in cell["source"]
            assert "★" in cell["source"]
            assert "<summary>Hint</summary>" in cell["source"]
            assert "<summary>Help: <code>" in cell["source"]


def train_briefly(trial: TrainingExercise, answer: Any) -> str | None:
    """Call the answer with the first twenty entries of each list, and judge only whether it raises an exception."""
    inputs = {name: value[:20] if isinstance(value, list) else value for name, value in trial.make_inputs().items()}
    error = call(answer, inputs).error
    return None if error is None else str(error)


@pytest.mark.parametrize(
    "source",
    [  # weekly for the exercise with the longest trainings
        pytest.param(path, id=path.stem, marks=[pytest.mark.soak] if path.stem.startswith("19_") else [])
        for path in solution_sources()
    ],
)
def test_each_open_blank_fails_its_own_check_and_no_other(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody tampers with the checks here, and to make sure of it takes longer than the rest.
    monkeypatch.setattr(Exercise, "rejects_mistakes", lambda exercise: True)
    monkeypatch.setattr(TrainingExercise, "judge", train_briefly)
    notebook, exercise = read_solution(source), make_exercise(source)
    keys = [key for cell in notebook["cells"] if (key := answer_key(cell))]
    for still_open in keys:
        names: dict[str, Any] = {}
        failed, printed = {}, ""
        for filled, unfilled in zip(notebook["cells"], exercise["cells"], strict=True):
            tags = filled["metadata"].get("tags", [])
            if filled["cell_type"] != "code" or {"skip-execution", "nbval-skip"} & {*tags}:
                continue  # what follows from the answers, for the learner to look at
            cell = unfilled if answer_key(filled) == still_open else filled
            try:
                exec(compile(cell["source"], cell["id"], "exec"), names)
            except WrongAnswerError as error:
                failed[check_key(cell)] = str(error)
            printed += capsys.readouterr().out
        is_empty = topic(source).exercises[still_open].given_code is None
        line = "write your code in place of this line" if is_empty else "repair the code below, then delete this line"
        assert failed == {still_open: f"✗ {still_open}: not done yet: {line}"}
        passed = [line for line in printed.splitlines() if line.startswith("✓")]  # other cells print something, too
        assert passed == [f"✓ {key}" for key in keys if key != still_open]


def test_the_capstones_own_training_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for cell in read_solution(ROOT / "solutions" / "18_capstone.py")["cells"]:
        text = cell["source"]
        if cell["cell_type"] != "code" or answer_key(cell) or check_key(cell) or "grade_this_notebook" in text:
            continue
        for much, little in (("20_000", "100"), ("vocab_size=2000", "vocab_size=300"), ('test", 200', 'test", 9')):
            text = text.replace(much, little)
        text = text.replace("epochs = 6", "epochs = 2").replace("limit=60", "limit=5")
        exec(compile(text, cell["id"], "exec"), names)
    printed = capsys.readouterr().out
    assert len(names["losses"]) == 2 * len(names["epoch"]) == 8
    assert names["losses"][-1] < names["losses"][0]
    assert printed.count("expected") == 8
    assert "epoch 2: loss" in printed
    assert "BLEU = " in printed


def test_what_follows_the_graded_training_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(Exercise, "rejects_mistakes", lambda exercise: True)
    names: dict[str, Any] = {}
    for cell in read_solution(ROOT / "solutions" / "19_train_your_own.py")["cells"]:
        text = cell["source"]
        if cell["cell_type"] != "code" or check_key(cell) or "grade_this_notebook" in text:
            continue
        text = text.replace("given.train_translator(data.train,", "given.train_translator(data.train[:50],")
        exec(compile(text, cell["id"], "exec"), names)
    labels = [label.get_text() for label in names["axes"].get_yticklabels()]
    assert labels[-1] == "<eos>" and len(labels) == names["weights"].size(0)
    torch.testing.assert_close(names["weights"].sum(dim=1), torch.ones(len(labels)))


def test_the_json_written_is_jupyters_own() -> None:
    nbformat = pytest.importorskip("nbformat")
    for path in (*(ROOT / "exercises").glob("*.ipynb"), *(ROOT / "solutions").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        assert nbformat.writes(notebook).rstrip("\n") + "\n" == path.read_text("utf-8")
        assert notebook_text(read_notebook(path)) == path.read_text("utf-8")
        assert "version" not in json.dumps(notebook.metadata)
