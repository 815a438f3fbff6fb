"""The PDF: pages in order, numbered, with bookmarks and with unfolded answers."""

import re
from collections import Counter

import pytest
from pypdf import PdfReader
from pypdf.generic import IndirectObject

from book import pdf
from book.pdf import FRONT, toc, write

PAGES = ["index", "chapters/02_attention"]
N_FRONT = 2
"""Pages of the title and the contents: as many as in the whole book, which has more chapters."""


@pytest.fixture(scope="module")
def printed(html, chromium, tmp_path_factory):
    path = tmp_path_factory.mktemp("pdf") / "book.pdf"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pdf, "FRONT", FRONT.replace("h2 {{", "h2 {{ break-before: page;"))
        assert write(PAGES, path) == len(PdfReader(path).pages)
    return PdfReader(path)


def test_the_table_of_contents_is_read_in_order():
    parts = [{"chapters": [{"file": "b"}, {"file": "c"}]}, {"chapters": [{"file": "d"}]}]
    assert list(toc({"root": "a", "parts": parts})) == ["a", "b", "c", "d"]


def test_contents_and_bookmarks_lead_to_the_right_page(printed):
    starts = {
        mark.title: printed.get_destination_page_number(mark) for mark in printed.outline if not isinstance(mark, list)
    }
    front = "".join(page.extract_text() for page in printed.pages[:N_FRONT])
    for title, start in starts.items():
        assert re.search(rf"{title}\s+{start + 1}\b", front)
        text = " ".join(printed.pages[start].extract_text().split())
        assert title.split(". ")[-1] in text, "on paper, a chapter's title has no number"
    assert list(starts.values()) == sorted(set(starts.values()))
    (*_, sections) = printed.outline
    titles = [mark.title for mark in sections]
    assert "A soft lookup" in titles and "Exercises" in titles


def test_each_page_after_the_contents_has_its_number(printed):
    numbers = [page.extract_text().split()[0] for page in printed.pages[N_FRONT:]]
    assert numbers == [str(number) for number in range(N_FRONT + 1, len(printed.pages) + 1)]


def test_screen_readers_find_headings_and_descriptions_in_the_order_of_the_pages(printed):
    def walk(tag, parent):
        element = tag.get_object()
        assert element.raw_get("/P") == parent
        found.append((element["/S"], element.get("/Alt")))
        children = element.get("/K", [])
        for child in children if isinstance(children, list) else [element.raw_get("/K")]:
            if "/S" in (child.get_object() if isinstance(child, IndirectObject) else ()):
                walk(child, tag)

    found = []
    tree = printed.root_object["/StructTreeRoot"]
    for part in tree["/K"]:
        walk(part, tree.indirect_reference)
    assert Counter(role for role, _ in found)["/Document"] == 1 + len(PAGES)
    assert [role for role, _ in found].count("/H1") == 1 + len(PAGES)
    descriptions = [text or "" for role, text in found if role == "/Figure"]
    for start in ("The matrix X, 5 by 6, is multiplied", "Heat map of German by English tokens"):
        assert sum(text.startswith(start) for text in descriptions) == 1

    numbers = tree["/ParentTree"]["/Nums"]
    assert numbers[::2] == sorted(set(numbers[::2])), "each number is used once"
    tags = dict(zip(numbers[::2], numbers[1::2], strict=True))
    for page in printed.pages:
        of_page = [tag.get_object() for tag in tags[page["/StructParents"]].get_object()]
        assert any(tag and tag.raw_get("/Pg") == page.indirect_reference for tag in of_page)
        links = [link.get_object() for link in page.get("/Annots", [])]
        assert all(tags[link["/StructParent"]].get_object()["/S"] == "/Link" for link in links)


def test_answers_are_open_and_hidden_code_is_not_shown(printed):
    text = "".join(page.extract_text() for page in printed.pages)
    assert "Right." in text
    assert "google.colab" not in text and "Show the code" not in text
