"""A notebook grades itself: in Colab by what Colab hands over, elsewhere by its file."""

import json
import shutil
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from exercises.current_notebook import grade_this_notebook
from exercises.grade import grade_all
from exercises.notebooks import ROOT, answer_key, course_notebooks, notebook_text, read_notebook
from exercises.watch import notebook_to_watch
from transformer.errors import UserError

TERMINAL = "grade it in a terminal: python -m exercises grade FILE\n"


@pytest.fixture
def filled() -> str:
    """The text of a notebook with one right answer and one wrong one."""
    answers = {
        "padding_mask": "def padding_mask(ids, pad_id):\n    return (ids != pad_id)[:, None, None]",
        "causal_mask": "def causal_mask(n):\n    return torch.ones(1, 1, n, n, dtype=torch.bool)",
    }
    notebook = read_notebook(ROOT / "exercises" / "04_masking.ipynb")
    for cell in notebook["cells"]:
        if (key := answer_key(cell)) in answers:
            cell["source"] = f"# answer: {key}\n{answers[str(key)]}"
    return notebook_text(notebook)


def in_colab(monkeypatch: pytest.MonkeyPatch, answer: Any) -> list[str]:
    """A stand-in for Colab, whose front end answers this; what it was requests."""
    requests: list[str] = []

    def blocking_request(name: str, request: str = "", timeout_sec: float = 5) -> Any:
        requests.append(name)
        return answer

    colab = types.ModuleType("google.colab")
    colab._message = types.SimpleNamespace(blocking_request=blocking_request)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "google", types.ModuleType("google"))
    monkeypatch.setitem(sys.modules, "google.colab", colab)
    return requests


def test_in_colab_what_is_on_the_screen_counts(
    filled: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = in_colab(monkeypatch, {"ipynb": json.loads(filled)})
    grade_this_notebook()
    printed = capsys.readouterr().out
    assert requests == ["get_ipynb"]
    assert printed.startswith("04 masking · this notebook\n  ✓ padding_mask\n  ✗ causal_mask: nothing hidden\n")
    assert printed.endswith("  1 of 6\n")


def test_colab_may_hand_over_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    in_colab(monkeypatch, None)
    grade_this_notebook()
    assert capsys.readouterr().out == "error: Colab did not send the notebook: run this cell again\n"


def test_what_is_wrong_with_the_notebook_is_told_without_a_temporary_path(
    filled: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_colab(monkeypatch, {"ipynb": json.loads(filled.replace("# answer: causal_mask", "# mine"))})
    grade_this_notebook()
    assert capsys.readouterr().out.startswith("error: this notebook: no cell begins with `# answer: causal_mask`; ")


def test_in_jupyter_the_saved_file_counts(
    filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.ipynb"
    file.write_text(filled, "utf-8")
    monkeypatch.setenv("JPY_SESSION_NAME", str(file))
    grade_this_notebook()
    printed = capsys.readouterr().out
    assert printed.startswith(f"04 masking · {file}\n") and printed.endswith("  1 of 6\n")


def test_elsewhere_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    grade_this_notebook()
    monkeypatch.setenv("JPY_SESSION_NAME", "/nowhere/at-all.ipynb")
    grade_this_notebook()
    assert capsys.readouterr().out.splitlines(keepends=True) == [
        f"error: cannot tell which file this notebook is: {TERMINAL}",
        "error: cannot find /nowhere/at-all.ipynb: if you have renamed the notebook, restart its kernel; or "
        f"{TERMINAL}",
    ]


def test_an_installed_course_grades_without_solutions(tmp_path: Path, filled: str) -> None:
    """As a wheel has it: the exercises, and nothing beside them."""
    (tmp_path / "exercises").mkdir()
    for path in (ROOT / "exercises").glob("*.ipynb"):
        shutil.copy(path, tmp_path / "exercises")
    assert [path.name for path in course_notebooks(tmp_path)] == [path.name for path in course_notebooks()]
    mine = tmp_path / "mine.ipynb"
    mine.write_text(filled, "utf-8")
    (installed,), (cloned,) = grade_all([str(mine)], root=tmp_path), grade_all([str(mine)])
    assert installed == cloned and installed.points == 1


@pytest.mark.parametrize("name", ["attention", "all"])
def test_the_empty_notebooks_of_an_installed_course_are_not_graded(tmp_path: Path, name: str) -> None:
    """In Colab, `python -m exercises grade attention` would find them, and tell the learner that nothing is done."""
    (tmp_path / "exercises").mkdir()
    shutil.copy(ROOT / "exercises" / "02_attention.ipynb", tmp_path / "exercises")
    with pytest.raises(UserError, match="In Colab, run the last cell of your notebook instead"):
        grade_all([name], root=tmp_path)
    with pytest.raises(UserError, match="is the empty notebook that was installed"):
        notebook_to_watch("attention", root=tmp_path)
