"""Print the built book as one PDF: ``python -m book.pdf``, or ``make pdf``.

A browser prints every page, in the order of the table of contents and with the print rules of ``course.css``. A front
page with the contents comes first, and headings become bookmarks.
"""

import html
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from playwright.sync_api import Page, sync_playwright
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, BooleanObject, DictionaryObject, NameObject, NumberObject, TextStringObject

from book.browser import find_browser, launch, serve_book, visit
from book.sync import Sync, pages_address

ROOT = Path(__file__).parent.parent
WIDTH = 720
"""Width of the viewport in pixels: about the text width of an A4 page, so that charts fit on it."""
LINKS = """([page, home]) => {
    for (const a of document.querySelectorAll('a[href]')) {
        if (a.origin !== location.origin) continue;
        if (a.pathname === location.pathname && a.hash) a.href = `#${page}-${a.hash.slice(1)}`;
        else a.href = a.href.replace(location.origin, home);
    }
    for (const target of document.querySelectorAll('article [id]:not(svg *)')) target.id = `${page}-${target.id}`;
}"""
"""Gives ids that are unique in the whole PDF; links to other pages of the book lead to the published ones."""
HEADINGS = """heads => heads.map(head => {
    head.querySelector('.headerlink').remove();
    return [head.closest('section').id, head.textContent];
})"""
FRONT = """<!DOCTYPE html><html lang="en"><title>{title}</title><style>
@page {{ margin: 2cm; }}
body {{ font: 12pt sans-serif; }} h1 {{ margin: 5cm 0 0.5cm; }} h2 {{ margin-top: 2cm; }}
td {{ padding: 0.1cm 0; }} td:last-child {{ text-align: right; width: 100%; }} td {{ white-space: nowrap; }}
</style><h1>{title}</h1><p>{author}</p><h2>Contents</h2><table>{rows}</table></html>"""


def toc(contents: dict[str, Any]) -> Iterator[str]:
    """Yield the pages of a table of contents, in order."""
    yield contents["root"]
    for part in contents["parts"]:
        yield from (chapter["file"] for chapter in part["chapters"])


def print_front(tab: Page, titles: Sequence[str], starts: Sequence[int]) -> PdfReader:
    """Print the title of the book and its contents: the titles of the chapters, and the pages on which they start."""
    settings = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    lines = zip(titles, starts, strict=True)
    rows = "".join(f"<tr><td>{html.escape(title)}</td><td>{start}</td></tr>" for title, start in lines)
    tab.set_content(FRONT.format(**{key: html.escape(settings[key]) for key in ("title", "author")}, rows=rows))
    return print_tab(tab, 1)


def print_tab(tab: Page, first: int) -> PdfReader:
    """Print what a tab shows; its pages are numbered from ``first``."""
    tab.add_style_tag(content=f"html {{ counter-reset: page {first - 1}; }}")
    return PdfReader(io.BytesIO(tab.pdf(format="A4", print_background=True, prefer_css_page_size=True, tagged=True)))


class Tags:
    """The tags of a PDF that is put together from parts: headings, lists, tables and alt texts, for screen readers.

    pypdf joins the pages of the parts, but not their trees of tags.
    """

    def __init__(self, book: PdfWriter) -> None:
        self.book = book
        self.parts, self.numbers, self.next = ArrayObject(), ArrayObject(), 0
        self.tree = DictionaryObject({NameObject("/Type"): NameObject("/StructTreeRoot")})
        self.tree[NameObject("/K")] = self.parts
        self.tree[NameObject("/ParentTree")] = DictionaryObject({NameObject("/Nums"): self.numbers})
        self.reference = book._add_object(self.tree)
        book.root_object[NameObject("/StructTreeRoot")] = self.reference
        book.root_object[NameObject("/MarkInfo")] = DictionaryObject({NameObject("/Marked"): BooleanObject(True)})
        book.root_object[NameObject("/Lang")] = TextStringObject("en")

    def add(self, part: PdfReader, start: int) -> None:
        """Add the tags of a part whose pages are in the book from index ``start`` on."""
        tree: Any = part.root_object.raw_get("/StructTreeRoot").clone(self.book).get_object()
        tree["/K"][NameObject("/P")] = self.reference
        self.parts.insert(len(self.parts) if start else 0, tree.raw_get("/K"))
        keys, tags = tree["/ParentTree"]["/Nums"][::2], tree["/ParentTree"]["/Nums"][1::2]
        for key, tag in zip(keys, tags, strict=True):
            self.numbers += [NumberObject(self.next + key), tag]
        for i, printed in enumerate(part.pages):
            key, page = printed.raw_get("/StructParents"), self.book.pages[start + i]
            page[NameObject("/StructParents")] = NumberObject(self.next + key)
            for link in page.get("/Annots", []):
                link.get_object()[NameObject("/StructParent")] = NumberObject(self.next + link["/StructParent"])
        self.next += tree["/ParentTreeNextKey"]


def write(names: list[str], path: Path) -> int:
    """Print chapters of the built book as one PDF.

    Args:
        names: the chapters, as in the table of contents.

    Returns:
        The number of pages.
    """
    settings = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    home = f"https://{pages_address(Sync(ROOT).address)}"
    book = PdfWriter()
    titles: list[str] = []
    starts: list[int] = []
    tags = Tags(book)
    with serve_book() as address, sync_playwright() as playwright:
        browser = launch(playwright)
        tab = browser.new_page(viewport={"width": WIDTH, "height": 1000}, color_scheme="light")
        tab.emulate_media(media="print")
        n_front = len(print_front(tab, names, range(len(names))).pages)  # a line for each chapter, whatever its title
        for name in names:
            visit(tab, f"{address}{name}.html")
            tab.evaluate(LINKS, [name.replace("/", "-"), home])
            start = len(book.pages)
            first = n_front + start + 1
            part = print_tab(tab, first)
            title, *sections = tab.eval_on_selector_all("article h1, article h2", HEADINGS)
            book.append(part, import_outline=False)
            tags.add(part, start)
            chapter = book.add_outline_item(title=title[1], page_number=start)
            for section_id, text in sections:
                page = part.get_destination_page_number(part.named_destinations[f"/{section_id}"])
                book.add_outline_item(title=text, page_number=start + (page or 0), parent=chapter)
            titles.append(title[1])
            starts.append(first)
        front = print_front(tab, titles, starts)
        book.merge(0, front, import_outline=False)
        tags.add(front, 0)
        browser.close()
    book.add_metadata({"/Title": settings["title"], "/Author": settings["author"]})
    book.write(path)
    return len(book.pages)


def main() -> int:
    """Write the whole book to ``_build/book.pdf`` and print the path; return the exit code."""
    if find_browser() is None:
        print("error: printing a PDF needs Chromium or Chrome: install one of them", file=sys.stderr)
        return 1
    path = ROOT / "_build" / "book.pdf"
    count = write(list(toc(yaml.safe_load((ROOT / "book" / "_toc.yml").read_text("utf-8")))), path)
    print(f"Wrote the book, {count} pages: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
