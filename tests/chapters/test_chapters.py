"""What every chapter owes its reader. That its cells run and its page is whole, the build of the book shows."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import jupytext
import pytest

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("*.py"))
OTHERWISE = {"01_translation", "11_training", "12_decoding"}
"""Chapters that take another road than from a question by hand to the package."""
TEACHING = [path for path in CHAPTERS if path.stem not in OTHERWISE]
PARTS = [
    "The question", "By hand", "The picture", "The code", "What goes wrong in practice",
    "Questions", "Exercises", "Going further",
]  # fmt: skip


def cells(path: Path, kind: str, without: tuple[str, ...] = ("setup",)) -> list[str]:
    """The sources of a chapter's cells of one kind that bear none of these tags."""
    ours = (cell for cell in jupytext.read(path).cells if not set(without) & set(cell.metadata.get("tags", [])))
    return [cell.source for cell in ours if cell.cell_type == kind]


def prose(path: Path) -> str:
    """All of a chapter's text."""
    return "\n\n".join(cells(path, "markdown"))


def headings(path: Path) -> list[tuple[int, str]]:
    """(level, words) of each heading, code blocks left out."""
    text = re.sub(r"```.*?```", "", prose(path), flags=re.DOTALL)
    return [(len(marks), words) for marks, words in re.findall(r"^(#+) (.+)$", text, re.MULTILINE)]


def test_some_chapter_leads_to_every_exercise() -> None:
    text = "".join(map(prose, CHAPTERS))
    for path in (ROOT / "exercises").glob("*.ipynb"):
        assert f"/blob/main/exercises/{path.name}" in text
        assert f"python -m exercises grade {path.stem[3:]}\n" in text


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
class TestEveryChapter:
    def test_begins_with_what_it_gives_and_asks(self, path: Path) -> None:
        first = cells(path, "markdown")[0]
        for wanted in (r"^# \S", r"\*\*You will be able to\*\*", r"\*\*About \d+ minutes", r"[Bb]uilds on"):
            assert re.search(wanted, first, re.MULTILINE), f"the first cell lacks {wanted}"

    def test_headings_step_down_one_at_a_time(self, path: Path) -> None:
        levels = [level for level, _ in headings(path)]
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))

    def test_cites_the_paper_by_section(self, path: Path) -> None:
        assert re.search(r"§\d", prose(path))

    def test_the_code_that_is_read_comes_in_short_cells(self, path: Path) -> None:
        longest = max(cells(path, "code", without=("setup", "hide-input")), key=lambda source: source.count("\n"))
        assert longest.count("\n") < 16, longest

    def test_no_source_is_pasted_from_the_package(self, path: Path) -> None:
        ours = {
            ast.dump(node)
            for file in (ROOT / "transformer").rglob("*.py")
            for node in ast.walk(ast.parse(file.read_text("utf-8")))
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }
        pasted = [node.name for source in cells(path, "code") for node in ast.walk(ast.parse(source))
                  if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.dump(node) in ours]  # fmt: skip
        assert not pasted


@pytest.mark.parametrize("path", TEACHING, ids=lambda path: path.stem)
class TestTeachingChapter:
    def test_has_its_parts_in_order(self, path: Path) -> None:
        found = [words for level, words in headings(path) if level == 2 and words in PARTS]
        assert found == PARTS

    def test_has_pictures_and_something_to_play_with(self, path: Path) -> None:
        code = "\n".join(cells(path, "code"))
        assert code.count("Picture(") >= 3
        assert "description=" in code

    def test_alt_texts_say_something(self, path: Path) -> None:
        for source in cells(path, "code"):
            for call in ast.walk(ast.parse(source)):
                if isinstance(call, ast.Call):
                    words = [k.value for k in call.keywords if k.arg in ("alt", "description")]
                    if isinstance(call.func, ast.Name) and call.func.id == "Picture":
                        assert words, f"a picture without alt text: {ast.unparse(call)[:60]}"
                    for text in words:
                        assert len(ast.unparse(text)) > 40

    def test_every_answer_is_folded_and_explained(self, path: Path) -> None:
        answers = re.findall(r"<details><summary>(.+?)</summary>\n\n(.+?)\n\n</details>", prose(path), re.DOTALL)
        assert len(answers) == prose(path).count("<details>") >= 10
        assert all(len(why) > 40 for _, why in answers)
        choices = [why for letter, why in answers if re.match(r"[A-D]\. ", letter)]
        assert sum(why.startswith("**Right.**") for why in choices) == len(choices) / 4

    def test_leads_to_its_exercise(self, path: Path) -> None:
        topic = path.stem.split("_", 1)[1]
        if not (ROOT / "exercises" / f"{path.stem}.ipynb").exists():
            assert "exercises/" + path.stem not in prose(path)
            return
        assert f"/blob/main/exercises/{path.stem}.ipynb" in prose(path)
        assert f"python -m exercises grade {topic}" in prose(path)
