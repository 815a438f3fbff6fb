"""A learner's progress: shown by ``status``, and carried over into a new version by ``update``."""

import json
from pathlib import Path

import pytest

from exercises.blanks import read_blanks
from exercises.notebooks import PLACEHOLDER, ROOT, Notebook, answer_key, notebook_text, read_notebook
from exercises.progress import status
from exercises.update import update
from tests.exercises.learner import copy_of_course, fill, run_checks
from transformer.errors import UserError

ANSWER = "# answer: causal_mask\ndef causal_mask(length):\n    return 'mine'"


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """An exercise notebook with one answer, a cell of the learner's own behind it, and one at the top."""
    notebook = read_notebook(ROOT / "exercises" / "04_masking.ipynb")
    cells = []
    for cell in notebook["cells"]:
        if answer_key(cell) == "causal_mask":
            cell["source"] = ANSWER
        cells.append(cell)
        if answer_key(cell) == "causal_mask":
            cells.append(own("0f3a9c1d", "my own try"))
    path = tmp_path / "04_masking.ipynb"
    path.write_text(notebook_text({**notebook, "cells": [own("b7e1", "my name"), *cells]}), "utf-8")
    return path


def own(name: str, text: str) -> Notebook:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": text}


def answers(path: Path) -> dict[str, str]:
    return {key: cell["source"] for cell in read_notebook(path)["cells"] if (key := answer_key(cell))}


def test_an_update_within_one_edition_changes_nothing(filled: Path) -> None:
    before = filled.read_text("utf-8")
    assert update(filled).endswith("04_masking.ipynb: copied 1 answer and 2 cells of your own")
    assert filled.read_text("utf-8") == before
    backup = filled.with_name(f"{filled.name}.bak")
    assert backup.read_text("utf-8") == before
    assert list(filled.parent.glob("*.ipynb")) == [filled], "the backup is not taken for another notebook"


def test_answers_get_into_the_text_of_the_new_version(filled: Path) -> None:
    """The notebook of another version: other text, a cell that is no more, a blank that had another place."""
    notebook = read_notebook(filled)
    cells = notebook["cells"]
    for cell in cells:
        if cell["cell_type"] == "markdown" and not cell["source"].startswith("my"):
            cell["source"] = "old text"
    gone = {"cell_type": "markdown", "id": "8-a-lesson-no-more-0", "metadata": {}, "source": "gone"}
    extra = own("77aa", "behind what is gone")
    filled.write_text(notebook_text({**notebook, "cells": [*cells[::-1], gone, extra]}), "utf-8")
    update(filled)
    expected = read_notebook(ROOT / "exercises" / "04_masking.ipynb")["cells"]
    now = read_notebook(filled)["cells"]
    ours = [cell for cell in now if cell["id"] in {cell["id"] for cell in expected}]
    assert [cell["id"] for cell in ours] == [cell["id"] for cell in expected]
    assert [c["source"] for c in ours if answer_key(c) is None] == [
        c["source"] for c in expected if answer_key(c) is None
    ]
    assert answers(filled)["causal_mask"] == ANSWER
    assert "not done yet" in answers(filled)["target_mask"]
    texts = [cell["source"] for cell in now]
    assert {"my name", "my own try", "behind what is gone"} <= set(texts)
    assert "old text" not in texts and "gone" not in texts


def test_an_answer_without_its_blank_is_kept_as_text(filled: Path) -> None:
    notebook = read_notebook(filled)
    cell = {"cell_type": "code", "id": "9-retired-1", "metadata": {}, "outputs": [], "execution_count": None}
    notebook["cells"].append({**cell, "source": "# answer: retired\ndef retired(): return 42"})
    filled.write_text(notebook_text(notebook), "utf-8")
    assert update(filled).endswith("; appended 1 answer to exercises that no longer exist")
    last = read_notebook(filled)["cells"][-1]
    assert last["cell_type"] == "markdown" and "return 42" in last["source"]
    filled.with_name(f"{filled.name}.bak").unlink()
    assert update(filled).endswith("copied 1 answer and 3 cells of your own")
    assert read_notebook(filled)["cells"][-1] == last


def test_an_answer_below_the_placeholder_as_a_comment_is_copied(filled: Path) -> None:
    answer = f"def causal_mask(length):\n    # {PLACEHOLDER}\n    return 'mine'"
    fill(filled, {"causal_mask": answer, "target_mask": f"def target_mask(ids):\n    mask = 1\n    {PLACEHOLDER}"})
    assert update(filled).endswith("; not copied, but kept in 04_masking.ipynb.bak: 1 unfinished answer")
    assert answers(filled)["causal_mask"].endswith(answer)
    assert "mask = 1" not in answers(filled)["target_mask"]


def test_a_blank_whose_description_has_changed_is_not_unfinished(filled: Path) -> None:
    notebook = read_notebook(filled)
    for cell in notebook["cells"]:
        if answer_key(cell) == "target_mask":
            cell["source"] = cell["source"].replace('    """', '    """Old.', 1)
    filled.write_text(notebook_text(notebook), "utf-8")
    assert update(filled).endswith("copied 1 answer and 2 cells of your own")


def test_an_answer_cell_that_occurs_twice_is_refused(filled: Path) -> None:
    notebook = read_notebook(filled)
    notebook["cells"] += [cell for cell in notebook["cells"] if answer_key(cell) == "causal_mask"]
    filled.write_text(notebook_text(notebook), "utf-8")
    with pytest.raises(UserError, match="more than one cell begins with `# answer: causal_mask`"):
        update(filled)


def test_cells_of_colab_are_copied_and_those_without_an_id_are_counted(filled: Path) -> None:
    notebook = read_notebook(filled)
    for cell in notebook["cells"]:
        cell["metadata"]["id"] = cell.pop("id")
    notebook["cells"].append({"cell_type": "markdown", "metadata": {}, "source": "nameless"})
    filled.write_text(notebook_text({**notebook, "nbformat_minor": 0}), "utf-8")
    summary = update(filled)
    assert "copied 1 answer and 2 cells of your own" in summary
    assert summary.endswith("; not copied, but kept in 04_masking.ipynb.bak: 1 cell without an id")
    cells = {cell["id"]: cell["source"] for cell in read_notebook(filled)["cells"]}
    assert cells["0f3a9c1d"] == "my own try"


def test_lines_may_end_as_on_windows(filled: Path) -> None:
    filled.write_text(filled.read_text("utf-8").replace("\\n", "\\r\\n"), "utf-8")
    assert update(filled).endswith("copied 1 answer and 2 cells of your own")
    assert answers(filled)["causal_mask"] == ANSWER


def test_nothing_is_overwritten(filled: Path) -> None:
    update(filled)
    first = filled.with_name(f"{filled.name}.bak").read_bytes()
    filled.write_text(filled.read_text("utf-8").replace("mine", "changed"), "utf-8")
    changed = filled.read_bytes()
    with pytest.raises(UserError, match=r"ipynb\.bak already exists"):
        update(filled)
    assert filled.read_bytes() == changed
    assert filled.with_name(f"{filled.name}.bak").read_bytes() == first


def test_what_is_no_exercise_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.ipynb"
    path.write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    with pytest.raises(UserError, match="is not an exercise notebook"):
        update(path)


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return copy_of_course(tmp_path, "04_masking")


def test_status_tells_right_from_wrong_from_open(course: Path) -> None:
    assert list(status(root=course))[-2].split() == ["total", "0", "of", "6"]
    path = course / "exercises" / "04_masking.ipynb"
    run_checks(path, {"padding_mask": None, "causal_mask": "inverted", "masked_softmax": "too large"})
    fill(path, {"target_mask": "done"})
    assert [line.split() for line in status(root=course)] == [
        ["04", "masking", "✓", "✗", "·", "✗", "·", "·", "1", "of", "6"],
        ["total", "1", "of", "6"],
        ["badge:", *"![Transformer course: 1 of 6 exercises solved](progress.svg)".split()],
    ]
    assert list(status([str(path)], course)) == list(status(root=course))


@pytest.mark.parametrize(
    "outputs", [5, None, "x", {}, [5], [None], ["x"], [[]], [{"text": 5}], [{"text": [1]}], [{"text": {"a": 1}}]]
)
def test_outputs_that_jupyter_would_not_write_are_left_out(outputs: object, course: Path) -> None:
    path = course / "exercises" / "04_masking.ipynb"
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        cell["outputs"] = outputs
    path.write_text(json.dumps(notebook))
    assert [blank.mark for blank in read_blanks(path)] == ["·"] * len(read_blanks(path))


def test_a_number_of_minutes_that_cannot_be_is_left_out(course: Path) -> None:
    path = course / "exercises" / "04_masking.ipynb"
    path.write_text(path.read_text().replace(" minutes", "0" * 5000 + " minutes"))
    assert {blank.minutes for blank in read_blanks(path)} == {0}


def test_an_update_that_cannot_be_written_changes_nothing(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, calls = filled.read_bytes(), []

    def fails_the_second_time(path: Path, data: bytes) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise OSError(28, "No space left on device", str(path))
        path.write_bytes(data)

    monkeypatch.setattr("exercises.update.write_atomically", fails_the_second_time)
    with pytest.raises(UserError, match="No space left on device; it is unchanged"):
        update(filled)
    assert filled.read_bytes() == before and not calls[0].exists()
