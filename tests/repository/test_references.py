"""The page of references: every paper that a chapter or page links to is on it, once."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIBLIOGRAPHY = (ROOT / "book" / "references.bib").read_text("utf-8")
LISTED = re.findall(r"^ *(?:url|doi) += \{(.+?)/?\},$", BIBLIOGRAPHY, re.MULTILINE)
PAGES = [*sorted((ROOT / "chapters").glob("*.py")), *sorted((ROOT / "book").glob("*.md")), ROOT / "index.md"]
SITES = ["arxiv.org", "aclanthology.org", "openreview.net", "doi.org", "dl.acm.org", "proceedings.mlr.press"]
SITES += ["cdn.openai.com", "transformer-circuits.pub"]
PAPER = re.compile(rf"\((https?://(?:www\.)?(?:{'|'.join(map(re.escape, SITES))})/[^)\s]+?)/?\)")
"""A link in Markdown to a paper."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_linked_paper_is_in_the_references(page: Path) -> None:
    linked = {address.removeprefix("https://doi.org/") for address in PAPER.findall(page.read_text("utf-8"))}
    assert linked <= set(LISTED)


def test_links_to_papers_are_found() -> None:
    text = (
        "[a](https://arxiv.org/abs/1706.03762), [b](https://aclanthology.org/P16-1162/), [c](https://doi.org/10.1/2.3)"
    )
    assert PAPER.findall(text) == [
        "https://arxiv.org/abs/1706.03762", "https://aclanthology.org/P16-1162", "https://doi.org/10.1/2.3"
    ]  # fmt: skip


def test_no_paper_is_listed_twice() -> None:
    keys, titles = (
        re.findall(pattern, BIBLIOGRAPHY, re.MULTILINE) for pattern in (r"^@\w+\{(\w+),", r"^ *title += (.+)$")
    )
    assert len(set(LISTED)) == len(LISTED) and len(set(keys)) == len(keys) and len(set(titles)) == len(titles)
