"""The solutions page has all solutions, as a learner would write them."""

import re
from pathlib import Path

import pytest

from book._ext.answers import folded_answers
from exercises.make import read_solution
from exercises.notebooks import ROOT, answer_key, solution_sources

PAGE = (ROOT / "book" / "solutions.md").read_text("utf-8")


def test_the_page_has_every_notebook_in_order() -> None:
    assert re.findall(r"^```{answers} (\w+)$", PAGE, re.MULTILINE) == [source.stem for source in solution_sources()]


@pytest.mark.parametrize("source", solution_sources(), ids=lambda s: s.stem)
def test_every_solution_is_in_a_dropdown_and_is_code_only(source: Path) -> None:
    text = folded_answers(source)
    keys = [key for cell in read_solution(source)["cells"] if (key := answer_key(cell))]
    assert re.findall(r"^:::\{dropdown\} \d · .+ · `(\w+)`$", text, re.MULTILINE) == keys
    assert "SOLUTION" not in text and "# answer:" not in text
    for code in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        compile(code, source.stem, "exec")
