"""Exercises without tensors are checked without PyTorch, in a browser for example, and with the same messages."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from exercises.check import Topic
from exercises.notebooks import solution_sources, topic_of

SOURCES = [path for path in solution_sources() if "import torch" not in path.read_text("utf-8")]

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # importing it fails
before = {*sys.modules}

import json
from importlib import import_module

topic = import_module(f"exercises.checks.{sys.argv[1]}").topic
messages = {
    name: [exercise.judge(answer) for answer in (exercise.reference, *(m.function for m in exercise.mistakes))]
    for name, exercise in topic.exercises.items()
}
others = {name.partition(".")[0] for name in sys.modules.keys() - before} - sys.stdlib_module_names
print(json.dumps([messages, sorted(others)]))
"""


def test_some_exercises_have_no_tensors() -> None:
    assert {"subword_tokenization", "evaluation"} <= set(map(topic_of, SOURCES))


@pytest.mark.parametrize("source", SOURCES, ids=topic_of)
def test_the_messages_are_the_same_and_need_no_other_package(source: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_TORCH, topic_of(source)]
    process = subprocess.run(command, stdout=subprocess.PIPE, check=True, encoding="utf-8")
    without_torch, imported = json.loads(process.stdout)
    topic: Topic = import_module(f"exercises.checks.{topic_of(source)}").topic
    for name, exercise in topic.exercises.items():
        answers = [exercise.reference, *(mistake.function for mistake in exercise.mistakes)]
        assert without_torch[name] == [exercise.judge(answer) for answer in answers]
        assert without_torch[name][0] is None and None not in without_torch[name][1:]
    assert imported == ["exercises", "transformer"]
