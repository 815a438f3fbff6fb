"""The structure of the chapters. That their cells run and their pages are complete is checked by building the book."""

import ast
import builtins
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import jupytext
import pytest

from transformer.plots.model_map import PARTS

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("*.py"))
OTHER_STRUCTURE = {"01_translation"}
"""The chapter that looks at the model only from the outside."""
STANDARD = [path for path in CHAPTERS if path.stem not in OTHER_STRUCTURE]
LAST_PARTS = ["What goes wrong in practice", "Questions", "Exercises", "Going further"]
"""The sections at the end of each chapter. The headings before them name its topics."""


@cache
def notebook(path: Path) -> Any:
    """Return a chapter as a notebook."""
    return jupytext.read(path)


def cells(path: Path, kind: str, without: tuple[str, ...] = ("setup",)) -> list[str]:
    """Return the sources of a chapter's cells of one kind that have none of these tags."""
    selected = (cell for cell in notebook(path).cells if not set(without) & set(cell.metadata.get("tags", [])))
    return [cell.source for cell in selected if cell.cell_type == kind]


@cache
def definitions_in_package() -> set[str]:
    """Return the syntax trees of all functions and classes of the package."""
    return {
        ast.dump(node)
        for file in (ROOT / "transformer").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


def imports(source: str) -> set[str]:
    """Return the names that code imports."""
    statements = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom))
    return {(alias.asname or alias.name).partition(".")[0] for statement in statements for alias in statement.names}


def prose(path: Path) -> str:
    """Return the text of a chapter."""
    return "\n\n".join(cells(path, "markdown"))


def headings(path: Path) -> list[tuple[int, str]]:
    """Return (level, text) of each heading; headings in code blocks don't count."""
    text = re.sub(r"```.*?```", "", prose(path), flags=re.DOTALL)
    return [(len(marks), title) for marks, title in re.findall(r"^(#+) (.+)$", text, re.MULTILINE)]


def test_chapters_about_parts_of_the_model_have_a_map_of_it() -> None:
    with_map = [path.stem[:2] for path in CHAPTERS if "model_map(" in path.read_text("utf-8")]
    assert with_map == ["02", "03", "04", "05", "06", "08", "10", "12"]


def test_every_exercise_is_linked_from_a_chapter() -> None:
    text = "".join(map(prose, CHAPTERS))
    for path in (ROOT / "exercises").glob("*.ipynb"):
        assert f"/blob/main/exercises/{path.name}" in text
        assert f"python -m exercises grade {path.stem[3:]}\n" in text


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
class TestEveryChapter:
    def test_starts_with_goals_time_and_prerequisites(self, path: Path) -> None:
        hook = cells(path, "markdown")[0]
        assert hook.startswith("# ") and hook.count("\n\n") == 1, (
            "a title and a paragraph, so that the figure comes soon"
        )
        introduction = prose(path).split("\n## ")[0]
        for pattern in (r"[Yy]ou (can|will be able to)", r"\*\*About \d+ minutes", r"builds on|assumes"):
            assert re.search(pattern, introduction), f"the text before the first heading has no {pattern}"

    def test_heading_levels_increase_by_one(self, path: Path) -> None:
        levels = [level for level, _ in headings(path)]
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))

    def test_every_figure_has_a_caption(self, path: Path) -> None:
        for source in cells(path, "code"):
            shown = ast.parse(source).body[-1:]
            match shown:
                case [ast.Expr(ast.Call(ast.Name("Picture" | "Row"), keywords=keywords))]:
                    assert "caption" in {keyword.arg for keyword in keywords}, source
                case [ast.Expr(ast.Call(ast.Name(name)))]:
                    assert not name.endswith(("_explorer", "_tree", "_grid", "_curves")), f"{name} needs Captioned(...)"

    def test_the_map_of_the_model_comes_after_the_first_figure_and_has_what_it_highlights(self, path: Path) -> None:
        texts = [cell.source for cell in notebook(path).cells]
        first_section = next(i for i, text in enumerate(texts) if text.startswith("## "))
        figures = [i for i, text in enumerate(texts) if "alt=" in text]
        for i, source in enumerate(texts):
            for parts in re.findall(r"^    model_map\((.*?)\)", source, re.MULTILINE | re.DOTALL):
                assert figures[0] < i < first_section
                assert set(ast.literal_eval(f"[{parts}]")) <= PARTS.keys()

    def test_cites_the_paper_by_section(self, path: Path) -> None:
        assert re.search(r"§\d", prose(path))

    def test_visible_code_cells_are_short(self, path: Path) -> None:
        visible = cells(path, "code", without=("setup", "hide-input", "hide-cell", "remove-cell"))
        longest = max(visible, key=lambda source: source.count("\n"))
        assert longest.count("\n") < 16, longest

    def test_visible_code_needs_only_visible_code_and_what_the_text_names(self, path: Path) -> None:
        """A reader who types the visible cells knows where each name comes from; the imports may be folded."""
        known, folded = set(dir(builtins)), {"setup", "hide-input", "hide-cell", "remove-cell", "remove-input"}
        for cell in notebook(path).cells:
            tags = set(cell.metadata.get("tags", []))
            if cell.cell_type == "markdown":
                known |= {name for code in re.findall(r"`([^`\n]+)`", cell.source) for name in re.findall(r"\w+", code)}
            if cell.cell_type != "code" or (folded & tags and "imports" not in tags):
                continue
            nodes = list(ast.walk(ast.parse(cell.source)))
            names = [node for node in nodes if isinstance(node, ast.Name)]
            known |= imports(cell.source) | {node.id for node in names if isinstance(node.ctx, ast.Store)}
            known |= {
                node.name
                for node in nodes
                if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler) and node.name
            }
            known |= {node.arg for node in nodes if isinstance(node, ast.arg)}
            missing = {node.id for node in names if isinstance(node.ctx, ast.Load)} - known
            assert not missing, f"{missing} in {cell.source}"

    def test_a_file_of_the_repository_is_only_read_where_it_exists(self, path: Path) -> None:
        """In Colab, the course is installed without ``book/``."""
        reading = [source for source in cells(path, "code") if '"../' in source]
        assert all(re.search(r"if .*\.exists\(\)", source) for source in reading)

    def test_no_code_is_pasted_from_the_package(self, path: Path) -> None:
        package = definitions_in_package()
        pasted = [node.name for source in cells(path, "code") for node in ast.walk(ast.parse(source))
                  if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.dump(node) in package]  # fmt: skip
        assert not pasted


@pytest.mark.parametrize("path", STANDARD, ids=lambda path: path.stem)
class TestStandardChapter:
    def test_ends_with_pitfalls_questions_exercises_and_further_reading(self, path: Path) -> None:
        """An optional section may come between them."""
        optional = set(re.findall(r"^## (.+)\n\n\*Optional", prose(path), re.MULTILINE))
        parts = [title for level, title in headings(path) if level == 2 and title not in optional]
        assert parts[-len(LAST_PARTS) :] == LAST_PARTS

    def test_has_figures_and_something_interactive(self, path: Path) -> None:
        code = "\n".join(cells(path, "code"))
        assert code.count("Picture(") >= 3
        widgets = 'data-widget="' in "\n".join(cells(path, "markdown"))
        assert widgets or "description=" in code  # of an Altair chart

    def test_alt_texts_are_meaningful(self, path: Path) -> None:
        for source in cells(path, "code"):
            for call in ast.walk(ast.parse(source)):
                if isinstance(call, ast.Call):
                    texts = [k.value for k in call.keywords if k.arg in ("alt", "description")]
                    if isinstance(call.func, ast.Name) and call.func.id == "Picture":
                        assert texts, f"a figure without alt text: {ast.unparse(call)[:60]}"
                    for text in texts:
                        assert len(ast.unparse(text)) > 40

    def test_every_answer_is_folded_and_explained(self, path: Path) -> None:
        answers = re.findall(r"<details><summary>(.+?)</summary>\n\n(.+?)\n\n</details>", prose(path), re.DOTALL)
        assert len(answers) == prose(path).count("<details>") >= 10
        assert all(len(why) > 40 for _, why in answers)
        choices = [why for letter, why in answers if re.match(r"[A-D]\. ", letter)]
        assert sum(why.startswith("**Right.**") for why in choices) == len(choices) / 4

    def test_links_to_its_exercise(self, path: Path) -> None:
        topic = path.stem.split("_", 1)[1]
        if not (ROOT / "exercises" / f"{path.stem}.ipynb").exists():
            assert "exercises/" + path.stem not in prose(path)
            return
        assert f"/blob/main/exercises/{path.stem}.ipynb" in prose(path)
        assert f"python -m exercises grade {topic}" in prose(path)
