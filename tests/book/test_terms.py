"""Links from the chapters to the glossary."""

import pytest
from lxml.html import HtmlElement

from book._ext.chapters import chapters
from book._ext.terms import LINK, find_term
from tests.book.test_pages import parse

TERMS = {"softmax": ("book/glossary", "term-softmax"), "logits": ("book/glossary", "term-logits")}


@pytest.mark.parametrize(
    ("text", "term"),
    [("softmax", "softmax"), ("Softmaxes", None), ("softmaxs", "softmax"), ("Logits", "logits"), ("s", None)],
)
def test_a_term_is_found_with_capitals_and_in_the_plural(text, term):
    assert find_term(text, TERMS) == term


def test_the_first_bold_term_of_a_chapter_leads_to_its_definition(html):
    n_links = 0
    for page in chapters():
        links: list[HtmlElement] = parse(html / f"{page}.html").find_class(LINK)
        n_links += len(links)
        assert all(link.get("href").startswith("../book/glossary.html#term-") for link in links)
        texts = [find_term(link.text_content(), {link.text_content().lower(): 0}) for link in links]
        assert len(set(texts)) == len(texts) > 2, page
        assert all([child.tag for child in link] == ["strong"] for link in links)
    assert n_links > 200
