"""After ✓, some checks say what the learner has just built, or why it matters."""

import json
import re
from pathlib import Path

import pytest

from exercises.blanks import read_blanks
from exercises.check import Exercise, Topic
from exercises.grade import grade_all
from exercises.notebooks import ROOT
from tests.exercises.learner import RIGHT, copy_of_course, fill, run_checks
from tests.exercises.test_checks import TOPICS

WITH_INSIGHT = [exercise for topic in TOPICS.values() for exercise in topic.exercises.values() if exercise.insight]


@pytest.mark.parametrize("exercise", WITH_INSIGHT, ids=lambda exercise: exercise.name)
def test_an_insight_is_one_sentence(exercise: Exercise) -> None:
    assert re.fullmatch(r"[A-Z].{30,}[A-Za-z0-9π]\.", exercise.insight) and len(exercise.insight) < 110
    assert not re.search(r"[.!?] [A-Z]|!|—", exercise.insight)
    assert not re.search(r"\b(well done|great|congratulations|correct)\b", exercise.insight, re.IGNORECASE)


def test_no_insight_is_given_twice() -> None:
    insights = [exercise.insight for exercise in WITH_INSIGHT]
    assert len(set(insights)) == len(insights) > 30


def test_it_is_shown_after_a_right_answer_only(capsys: pytest.CaptureFixture[str]) -> None:
    topic = Topic()

    @topic.exercise({"x": 1}, {"x": 2}, insight="Adding one counts.", differentiable=False)
    def successor(x: int) -> int:
        return x + 1

    topic.check("successor", lambda x: x + 1)
    assert capsys.readouterr().out == "✓ successor\nAdding one counts.\n"
    with pytest.raises(AssertionError) as raised:
        topic.check("successor", lambda x: x)
    assert "counts" not in str(raised.value) + capsys.readouterr().out


def test_a_check_with_an_insight_counts_as_solved(tmp_path: Path) -> None:
    path = copy_of_course(tmp_path, "04_masking") / "exercises" / "04_masking.ipynb"
    run_checks(path, {"padding_mask": None})
    insight = TOPICS["masking"].exercises["padding_mask"].success
    text = path.read_text("utf-8")
    shown = json.dumps(f"{insight}\n", ensure_ascii=False)
    path.write_text(text.replace(json.dumps("✓ padding_mask\n", ensure_ascii=False), shown), "utf-8")
    assert path.read_text("utf-8") != text
    assert [blank.mark for blank in read_blanks(path)] == ["✓", *"·····"]


@pytest.mark.slow
def test_the_grader_is_not_confused_by_it(tmp_path: Path) -> None:
    path = copy_of_course(tmp_path, "04_masking") / "exercises" / "04_masking.ipynb"
    fill(path, RIGHT)
    assert TOPICS["masking"].exercises["padding_mask"].insight
    (grade,) = grade_all([str(path)], root=ROOT)
    assert grade.messages["padding_mask"] is None and grade.messages["causal_mask"] is None
