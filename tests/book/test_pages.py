"""The HTML of every built page: its buttons and links work, and it loads nothing from other sites."""

from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from lxml import html as lxml_html

ROOT = Path(__file__).parents[2]
REPOSITORY = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))["repository"]
SLUG = "/".join(REPOSITORY["url"].split("/")[-2:])


@cache
def parse(path: Path) -> lxml_html.HtmlElement:
    return lxml_html.document_fromstring(
        path.read_bytes(), parser=lxml_html.HTMLParser(encoding="utf-8", huge_tree=True)
    )


@cache
def ids(path: Path) -> set[str]:
    return set(parse(path).xpath("//@id"))


def links(path: Path) -> list[str]:
    return parse(path).xpath("//a/@href")


def test_heading_levels_increase_by_one(html, page):
    heads = parse(html / page).xpath(
        "//article//*[self::h1 or self::h2 or self::h3 or self::h4 or self::h5 or self::h6]"
    )
    levels = [int(head.tag[1]) for head in heads]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels)), levels


def test_the_titles_of_folded_cells_in_colab_are_not_shown(html, page):
    assert "# @title" not in parse(html / page).text_content()


def test_no_token_is_taken_for_a_tag(html, page):
    """Outside code, Markdown passes <eos> on as HTML, and browsers show nothing."""
    assert parse(html / page).xpath("//bos | //eos | //pad | //unk") == []


def test_nothing_is_loaded_from_other_sites(html, page):
    tags = parse(html / page).xpath("//*[self::script or self::img or self::iframe or self::source or self::link]")
    loaded = [tag.get("src") or (tag.get("href") if tag.get("rel") != "canonical" else None) for tag in tags]
    assert [url for url in loaded if url and url.startswith(("http:", "https:", "//"))] == []


def test_each_image_but_thumbnails_has_an_alt_text_and_exists(html, page):
    for image in parse(html / page).iter("img"):
        if next(image.iterancestors("article"), None) is not None:
            alt = image.get("alt", "")
            is_thumbnail = image.get("src").startswith("_static/thumbnails/")  # decorative, beside a title
            assert alt.strip() if not is_thumbnail else alt == "", f"wrong alt text: {image.attrib}"
            assert not alt.endswith((".png", ".svg")), f"a file name is not an alt text: {image}"
        if not image.get("src").startswith("data:"):
            assert (html / page).parent.joinpath(image.get("src")).exists(), image.get("src")


def test_internal_links_resolve(html, page):
    for href in links(html / page):
        url = urlsplit(href)
        if url.scheme or url.netloc:
            continue
        target = (html / page).parent.joinpath(unquote(url.path)) if url.path else html / page
        assert target.exists(), href
        carries_a_sentence = url.fragment.startswith("s=")  # for the live translator
        if url.fragment and target.suffix == ".html" and not carries_a_sentence:
            assert unquote(url.fragment) in ids(target), href


def test_links_to_the_published_book_stay_in_this_build(html, page):
    owner, name = SLUG.split("/")
    published = f"https://{owner}.github.io/{name}/"
    targets = parse(html / page).xpath("//article//a/@href")
    only_published = f"{published}book.pdf"  # printed after the build
    assert [href for href in targets if href.startswith(published) and href != only_published] == []


def test_links_into_the_repository_resolve(html, page):
    for href in links(html / page):
        for kind in ("blob", "tree", "edit"):
            start = f"{REPOSITORY['url']}/{kind}/"
            if href.startswith(start):
                branch, _, path = urlsplit(href.removeprefix(start)).path.partition("/")
                assert branch == REPOSITORY["branch"], href
                assert (ROOT / unquote(path)).exists(), href


@pytest.mark.parametrize(
    "start",
    [
        f"https://colab.research.google.com/github/{SLUG}/blob/with-outputs/",
        f"https://mybinder.org/v2/gh/{SLUG}/{REPOSITORY['branch']}?urlpath=lab/tree/",
    ],
    ids=["colab", "binder"],
)
def test_a_chapter_launches_its_own_notebook(html, page, start):
    targets = [href.removeprefix(start) for href in links(html / page) if href.startswith(start)]
    if page is None or not page.startswith("chapters/"):
        pytest.skip("only chapters have launch buttons")
    own = page.removesuffix(".html") + ".ipynb"
    assert own in targets
    assert all((ROOT / target).exists() for target in targets)


def test_the_edit_button_of_a_chapter_opens_its_script(html, page):
    if page is None or not page.startswith("chapters/"):
        pytest.skip("only chapters are generated from scripts")
    assert f"{REPOSITORY['url']}/edit/{REPOSITORY['branch']}/{page.removesuffix('.html')}.py" in links(html / page)


def test_a_chapter_is_downloaded_as_its_notebook(html, page):
    if page is None or not page.startswith("chapters/"):
        pytest.skip("only chapters are notebooks")
    (button,) = parse(html / page).find_class("btn-download-source-button")
    assert (html / page).parent.joinpath(button.get("href")).read_bytes() == (
        ROOT / page.replace(".html", ".ipynb")
    ).read_bytes()
