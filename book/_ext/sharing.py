"""For search engines and shared links: descriptions, an image, canonical addresses, a site map and a 404 page."""

import html
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from matplotlib.figure import Figure
from sphinx.application import Sphinx
from sphinx.config import Config

from book._ext.chapters import chapters
from book.sync import Sync, pages_address
from transformer import __version__
from transformer.plots import style

ROOT = Path(__file__).parents[2]
CARD = "_static/card.png"
"""The image that is shown with a link to the book: 1200 × 630 pixels, as Open Graph recommends."""
LENGTH = 200
"""The longest description, in characters."""
LOST = """<section><h1>Page not found</h1>
<p>There is no page at this address. It may have moved: try the search, the contents on the left, or the
<a href="index.html">first page</a>.</p></section>"""
TRANSLATION = ("Where", "is", "the", "train", "station?"), ("Wo", "ist", "der", "Bahnhof?")
LINKS = ((0, 0, 1.0), (1, 1, 1.0), (2, 2, 0.9), (3, 3, 0.7), (4, 3, 0.8), (2, 3, 0.2), (1, 0, 0.2))
"""Lines on the card: the source word, the target word, the weight. They are drawn, not measured."""


def set_address(app: Sphinx, config: Config) -> None:
    """Derive the address of the published book from that of the repository, and show the version in the footer."""
    config.html_baseurl = f"https://{pages_address(Sync(ROOT).address)}/"
    config.html_theme_options["extra_footer"] += f" Version {__version__}."


def describe(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Add the description of a page, and what Open Graph and Twitter read."""
    base = app.config.html_baseurl
    if page == "404":  # it is shown at any address
        context["metatags"] = f'<base href="{base}"><meta name="robots" content="noindex">'
    if doctree is None:
        return
    if page == app.config.root_doc:
        context["pageurl"], context["docstitle"] = base, "a hands-on course in PyTorch"
    about = description(page, doctree)
    if page == app.config.root_doc:
        about = about.partition(". ")[0].rstrip(".") + "."  # the next sentence is about what is below it on the page
    site, text = html.escape(app.config.html_title), html.escape(about)
    tags = {
        "og:type": "website",
        "og:site_name": site,
        "og:title": html.escape(app.env.titles[page].astext()),
        "og:description": text,
        "og:url": context["pageurl"],
        "og:image": base + CARD,
        "og:image:width": "1200",
        "og:image:height": "630",
        "og:image:alt": f"{site}: lines lead from an English sentence to its German translation.",
        "twitter:card": "summary_large_image",
    }
    context["metatags"] += f'<meta name="description" content="{text}">' + "".join(
        f'<meta {"name" if name.startswith("twitter") else "property"}="{name}" content="{content}">'
        for name, content in tags.items()
    )


def description(page: str, doctree: nodes.document) -> str:
    """Return a sentence or two about a page: what book/chapters.yml says, or the start of its first paragraph."""
    if page in chapters():
        return str(chapters()[page]["summary"])
    paragraph = next((" ".join(node.astext().split()) for node in doctree.findall(nodes.paragraph)), "")
    return paragraph if len(paragraph) <= LENGTH else paragraph[:LENGTH].rsplit(" ", 1)[0] + " …"


def lost_page(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the page that is shown for an address that doesn't exist."""
    yield "404", {"title": "Page not found", "body": LOST}, "page.html"


def write_files(app: Sphinx, error: Exception | None) -> None:
    """Write the site map and the card."""
    if error or app.builder.format != "html":
        return
    base, out = app.config.html_baseurl, Path(app.outdir)
    pages = sorted({"" if page == app.config.root_doc else f"{page}.html" for page in app.env.found_docs})
    urls = "".join(f"<url><loc>{base}{page}</loc></url>\n" for page in pages)
    namespace = "http://www.sitemaps.org/schemas/sitemap/0.9"
    text = f'<?xml version="1.0" encoding="utf-8"?>\n<urlset xmlns="{namespace}">\n{urls}</urlset>\n'
    (out / "sitemap.xml").write_text(text, "utf-8")
    card().savefig(out / CARD, dpi=100, facecolor="white")


def card() -> Figure:
    """Draw the title of the book above a sentence and its translation, joined by lines of attention."""
    figure = Figure(figsize=(12, 6.3))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 12), ylim=(0, 6.3))
    axes.axis("off")
    axes.text(0.8, 5.2, "The Transformer", fontsize=58, fontweight="bold", va="center", color="#222832")
    axes.text(0.84, 4.3, "from attention to translation, in PyTorch", fontsize=30, va="center", color="#48566b")
    words = zip(TRANSLATION, (2.6, 0.8), (style.KEY, style.QUERY), strict=True)
    for sentence, y, colour in words:
        for i, word in enumerate(sentence):
            axes.text(1.6 + 2.2 * i, y, word, fontsize=28, ha="center", va="center", color="white",
                      bbox={"boxstyle": "round,pad=0.35", "facecolor": colour, "edgecolor": "none"})  # fmt: skip
    for source, target, weight in LINKS:
        xs = (1.6 + 2.2 * source, 1.6 + 2.2 * target)
        axes.plot(xs, (2.2, 1.2), color=style.VALUE, linewidth=12 * weight, alpha=0.3 + 0.7 * weight, zorder=0)
    return figure


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the event handlers with Sphinx."""
    app.connect("config-inited", set_address)
    app.connect("html-collect-pages", lost_page)
    app.connect("html-page-context", describe)
    app.connect("build-finished", write_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
