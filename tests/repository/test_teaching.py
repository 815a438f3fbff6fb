"""The planning table of the page for teachers agrees with the chapters and the exercises."""

import re
from pathlib import Path

from exercises.blanks import read_blanks

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "book" / "teaching.md").read_text("utf-8")


def numbers(cell: str) -> set[int]:
    """Return the numbers in a cell: those of ``1, 3–5`` are 1, 3, 4 and 5."""
    spans = re.findall(r"(\d+)(?:–(\d+))?", cell)
    return {number for first, last in spans for number in range(int(first), int(last or first) + 1)}


def test_the_planning_table_agrees_with_chapters_and_exercises() -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if re.search(r"\d\d_", line)]
    rows = [row for row in rows if len(row) == 5]
    names = [re.findall(r"\d\d_\w+", row[0])[0] for row in rows]
    assert names == sorted(path.stem for path in (ROOT / "exercises").glob("[0-9]*.ipynb"))
    for name, (title, builds_on, reading, exercises, _) in zip(names, rows, strict=True):
        blanks = read_blanks(ROOT / "exercises" / f"{name}.ipynb")
        assert int(exercises) == sum(blank.minutes for blank in blanks), name
        assert all(number < int(name[:2]) for number in numbers(builds_on)), name
        if not (chapter := ROOT / "chapters" / f"{name}.py").exists():
            continue
        text = chapter.read_text("utf-8")
        heading = re.search(r"^# # (.*)", text, re.MULTILINE)
        start = re.search(r"^#.*\*\*About (\d+) minutes.*", text, re.MULTILINE)
        assert heading and heading[1].startswith(title[1:].partition("]")[0].partition(" ")[2]), name
        assert start and int(reading) == int(start[1]), name
        needed = {int(number) for number in re.findall(r"\]\((\d\d)_\w+\.ipynb\)", start[0])}
        assert needed <= numbers(builds_on), name


def test_the_days_are_as_long_as_the_table_says() -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if re.search(r"\d\d_", line)]
    minutes = {re.findall(r"(\d\d)_\w+", row[0])[0]: [int(n or 0) for n in row[2:4]] for row in rows if len(row) == 5}
    days = ["02 03 04 05", "06 07 11", "12 18"]
    hours = [sum(sum(minutes[chapter]) for chapter in day.split()) / 60 for day in days]
    assert [round(2 * length) / 2 for length in hours] == [6.5, 5, 5]
    assert "about six and a half, five, and five hours" in PAGE


def test_the_last_row_has_the_totals() -> None:
    rows = [[cell.strip().replace(",", "") for cell in line.split("|")[1:-1]] for line in PAGE.splitlines()]
    rows = [row for row in rows if len(row) == 5]
    (total,) = (row for row in rows if row[0] == "**all**")
    for column in (2, 3):
        cells = [row[column] for row in rows if re.search(r"\d\d_", row[0])]
        assert int(total[column]) == sum(int(cell or 0) for cell in cells)
    assert total[4] == f"about {round((int(total[2]) + int(total[3])) / 60)} hours"
