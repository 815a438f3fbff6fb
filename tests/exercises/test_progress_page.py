"""The page that shows a learner's progress, and its badge."""

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from exercises import __main__ as command
from exercises.blanks import read_all_blanks
from exercises.progress import status
from exercises.progress_page import paragraphs, with_code, write_page
from tests.exercises.learner import copy_of_course, run_checks

TABLE = "the result has wrong numbers, marked with *\n\n  yours     expected\n  [ 1.0*]   [ 2.0]\n\nfor\n  x = <b>"


class Reader(HTMLParser):
    """Collects the text of each element, and all attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.attributes: dict[str, list[str]] = {}
        self.feed(re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL))

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(data.strip())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value or "")


@pytest.fixture
def course(tmp_path: Path) -> Path:
    course = copy_of_course(tmp_path, "04_masking", "06_layers")
    run_checks(
        course / "exercises" / "04_masking.ipynb",
        {"padding_mask": None, "causal_mask": "inverted\nTrue means <b>may</b>.", "target_mask": TABLE},
    )
    run_checks(course / "exercises" / "06_layers.ipynb", {"dropout": "inverted\nKeep the others."})
    return course


@pytest.fixture
def page(course: Path) -> str:
    write_page(read_all_blanks(root=course), course / "mine.html")
    return (course / "mine.html").read_text("utf-8")


def test_it_shows_what_is_solved_wrong_and_open(page: str) -> None:
    texts = Reader(page).texts
    assert texts.count("solved") == 1 and texts.count("wrong") == 3 and texts.count("open") == 8
    assert "My exercises: 1 of 12 solved" in texts
    first = texts.index("04 masking", texts.index("04 masking") + 1)
    assert texts[first + 1] == "1 of 6 solved, about 45 minutes left"
    assert texts[first + 2 : first + 6] == ["✓", "solved", "1 · Padding mask", "★☆☆"]


def test_it_names_the_next_blank(page: str) -> None:
    texts = Reader(page).texts
    assert texts[texts.index("Next:") + 1 :][:2] == ["04 masking", ", 2 · Causal mask, 5 minutes."]


def test_it_shows_messages_as_they_are(page: str) -> None:
    texts = Reader(page).texts
    assert "True means <b>may</b>." in texts, "escaped"
    assert "yours     expected\n  [ 1.0*]   [ 2.0]" in texts
    assert "x = <b>" in texts


def test_it_counts_mistakes_by_name_the_most_frequent_first(page: str) -> None:
    texts = Reader(page).texts
    assert texts[texts.index("Mistakes in these answers") + 1 :][:6] == [
        *["mistake", "blanks"],
        *["inverted", "causal_mask, dropout"],
        *["other wrong numbers", "target_mask"],
    ]


def test_it_needs_no_network(page: str) -> None:
    attributes = Reader(page).attributes
    assert attributes["href"] == ["data:,"] and "src" not in attributes and "url(" not in page
    assert "default-src 'none'" in page and "<script" not in page


def test_the_badge_is_an_image_with_the_same_text_as_its_markdown(course: Path, page: str) -> None:
    image = ElementTree.fromstring((course / "mine.svg").read_text("utf-8"))
    label = "Transformer course: 1 of 12 exercises solved"
    assert image.get("aria-label") == label
    assert f"![{label}](mine.svg)" in Reader(page).texts
    assert list(status(root=course))[-1] == f"badge: ![{label}](progress.svg)"
    bar = next(part for part in image if part.get("height") == "4")
    assert bar.get("width") == "10.8", "a twelfth of 130"


@pytest.mark.parametrize(("solved", "text"), [([], "about 70 minutes left"), (["all"], "Well done!")])
def test_at_the_beginning_and_at_the_end(solved: list[str], text: str, tmp_path: Path) -> None:
    course = copy_of_course(tmp_path, "04_masking")
    path = course / "exercises" / "04_masking.ipynb"
    names = [blank.name for blank in read_all_blanks(root=course)[path]]
    minutes = sum(blank.minutes for blank in read_all_blanks(root=course)[path])
    run_checks(path, dict.fromkeys(names if solved else []))
    write_page(read_all_blanks(root=course), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert text.replace("70", str(minutes)) in page
    assert "Mistakes" not in page
    assert ('height="4"' in page) == bool(solved), "no bar at the beginning"


def test_sentences_and_tables_of_a_message_are_told_apart() -> None:
    assert list(paragraphs(TABLE)) == [
        (False, "the result has wrong numbers, marked with *"),
        (True, "  yours     expected\n  [ 1.0*]   [ 2.0]"),
        (False, "for"),
        (True, "  x = <b>"),
    ]


def test_code_in_a_sentence_is_shown_as_code() -> None:
    assert with_code("look for `x < y` & ``") == "look for <code>x &lt; y</code> &amp; ``"


def test_the_command_writes_both_files(course: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "my page.html"
    assert command.main(["progress", str(course / "exercises"), "--output", str(output)]) == 0
    assert capsys.readouterr().out == f"wrote {output} and {output.with_suffix('.svg')}\n"
    assert output.is_file() and output.with_suffix(".svg").is_file()


@pytest.mark.parametrize(
    ("output", "message"),
    [("page.svg", "--output must be an HTML file; got page.svg"), ("no/page.html", "there is no folder no")],
)
def test_usage_errors(output: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["progress", "--output", output]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1 and message in error


def test_every_command_has_help_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["--help"])
    commands = re.findall(r"^  (\w+) ", capsys.readouterr().out, re.MULTILINE)
    assert {"next", "hint", "watch", "grade", "status", "progress", "update", "make"} == set(commands)
    for name in commands:
        with pytest.raises(SystemExit) as end:
            command.main([name, "--help"])
        assert end.value.code == 0
        assert f"Examples:\n    python -m exercises {name}" in capsys.readouterr().out
