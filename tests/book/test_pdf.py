"""The PDF: pages in order, numbered, with bookmarks and with unfolded answers."""

import re

import pytest
from pypdf import PdfReader

from book.pdf import toc, write

PAGES = ["index", "chapters/02_attention"]


@pytest.fixture(scope="module")
def sheets(html, chromium, tmp_path_factory):
    path = tmp_path_factory.mktemp("pdf") / "book.pdf"
    assert write(PAGES, path) == len(PdfReader(path).pages)
    return PdfReader(path)


def test_the_table_of_contents_is_read_in_order():
    parts = [{"chapters": [{"file": "b"}, {"file": "c"}]}, {"chapters": [{"file": "d"}]}]
    assert list(toc({"root": "a", "parts": parts})) == ["a", "b", "c", "d"]


def test_contents_and_bookmarks_lead_to_the_right_sheet(sheets):
    starts = {
        mark.title: sheets.get_destination_page_number(mark) for mark in sheets.outline if not isinstance(mark, list)
    }
    front = sheets.pages[0].extract_text()
    for title, start in starts.items():
        assert re.search(rf"{title}\s+{start + 1}\b", front)
        text = " ".join(sheets.pages[start].extract_text().split())
        assert title.split(". ")[-1] in text, "on paper, a chapter's title has no number"
    assert list(starts.values()) == sorted(set(starts.values()))
    (*_, sections) = sheets.outline
    titles = [mark.title for mark in sections]
    assert "A soft lookup" in titles and "Exercises" in titles


def test_each_sheet_after_the_contents_has_its_number(sheets):
    numbers = [page.extract_text().split()[0] for page in sheets.pages[1:]]
    assert numbers == [str(number) for number in range(2, len(sheets.pages) + 1)]


def test_answers_are_open_and_hidden_code_is_not_shown(sheets):
    text = "".join(page.extract_text() for page in sheets.pages)
    assert "Right." in text
    assert "google.colab" not in text and "Show the code" not in text
