"""How the book is found and shared: descriptions, addresses, the site map, and what the search ranks first."""

import pickle
import struct
from xml.etree import ElementTree

from lxml.html import HtmlElement

from book._ext.chapters import chapters
from book.sync import Sync, pages_address
from tests.book.conftest import ROOT
from tests.book.test_pages import parse

HOME = f"https://{pages_address(Sync(ROOT).address)}/"
TERMS = {
    "encoder decoder": "01_translation",
    "seq2seq": "01_translation",
    "self-attention": "02_attention",
    "softmax": "02_attention",
    "multi-head attention": "03_multi_head_attention",
    "causal mask": "04_masking",
    "teacher forcing": "04_masking",
    "positional encoding": "05_positional_encoding",
    "rope": "05_positional_encoding",
    "layer norm": "06_layers",
    "residual stream": "06_layers",
    "weight tying": "07_full_model",
    "byte pair": "08_subword_tokenization",
    "tokenizer": "08_subword_tokenization",
    "padding": "09_data_and_batching",
    "label smoothing": "10_label_smoothing",
    "learning rate": "11_training",
    "gradient accumulation": "11_training",
    "inference": "12_decoding",
    "beam search": "12_decoding",
    "kv cache": "12_decoding",
    "bleu": "13_evaluation",
    "fine-tuning": "15_transformer_family",
    "mixed precision": "16_gpu_performance",
    "newstest2014": "17_wmt14",
}


def content(page: HtmlElement, name: str) -> str:
    (value,) = page.xpath("//meta[@name=$name or @property=$name]/@content", name=name)
    return value


def test_a_page_has_one_address_a_description_and_a_picture(html, page):
    parsed, address = parse(html / page), HOME + ("" if page == "index.html" else page)
    assert parsed.xpath("//link[@rel='canonical']/@href") == [address]
    assert content(parsed, "og:url") == address
    assert 20 < len(content(parsed, "description")) <= 202
    assert content(parsed, "og:description") == content(parsed, "description")
    assert content(parsed, "og:title") in parsed.find(".//h1").text_content()
    picture = (html / content(parsed, "og:image").removeprefix(HOME)).read_bytes()
    assert struct.unpack(">II", picture[16:24]) == (1200, 630)


def test_a_page_says_its_version_and_date(html, page):
    footer = parse(html / page).find_class("bd-footer-content")[0].text_content()
    assert "Version 0." in footer and "Last updated on" in footer


def test_descriptions_differ(html):
    texts = [content(parse(html / f"{name}.html"), "description") for name in chapters()]
    assert len(set(texts)) == len(texts) == 17


def test_the_site_map_has_every_page(html):
    addresses = {loc.text for loc in ElementTree.parse(html / "sitemap.xml").iter() if loc.tag.endswith("loc")}
    found = [*html.glob("index.html"), *html.glob("book/**/*.html"), *html.glob("chapters/*.html")]
    pages = {path.relative_to(html).as_posix() for path in found}
    assert addresses == {HOME + page.replace("index.html", "") for page in pages}


def test_the_page_for_a_missing_address_works_at_any_depth(html):
    lost = parse(html / "404.html")
    assert lost.find(".//base").get("href") == HOME and content(lost, "robots") == "noindex"
    assert lost.xpath("//article//a/@href")[0] == "index.html"


def test_the_search_ranks_the_right_chapter_first(opened, address):
    with opened(f"{address}search.html") as (tab, _):
        ranked = tab.evaluate(
            """queries => queries.map(query => {
                const results = Search._performSearch(...Search._parseQuery(query));
                return results.reverse().map(([page]) => page);
            })""",
            list(TERMS),
        )
    wrong = {
        term: found[:3] for term, found in zip(TERMS, ranked, strict=True) if found[:1] != [f"chapters/{TERMS[term]}"]
    }
    assert wrong == {}


def test_installing_is_found(opened, address):
    with opened(f"{address}search.html") as (tab, _):
        for query in ("install", "installation", "setup", "get started"):
            ranked = tab.evaluate("query => Search._performSearch(...Search._parseQuery(query))", query)
            assert ranked[-1][0] == "book/start", query


def test_excerpts_are_from_the_text_that_a_reader_sees(opened, address):
    with opened(f"{address}search.html?q=softmax") as (tab, _):
        tab.wait_for_function("document.querySelector('.search-summary')?.innerText.includes('found')")
        tab.wait_for_load_state("networkidle")
        found = tab.locator("#search-results li").all_inner_texts()
        assert len(found) > 10
        (definition,) = (text for text in found if text.startswith("Glossary") and "\nsoftmax: " in text)
        assert "exponentials, divided by their sum" in definition
        for word in ("Suggest edit", "Repository", "Show the code", "import torch"):
            assert not any(word in text for text in found), word


def test_the_next_build_still_has_the_index_entries(html):
    environment = pickle.loads((html.parent / ".doctrees" / "environment.pickle").read_bytes())
    assert set(chapters()) <= set(environment._search_index_index_entries)
    assert "master_doctree" not in vars(environment), "the next build would show an old list of contents"


def test_a_page_without_charts_and_formulas_is_light(opened, address):
    with opened(f"{address}book/faq.html") as (tab, errors):
        sizes = tab.evaluate("performance.getEntriesByType('resource').map(entry => entry.decodedBodySize)")
        assert len(sizes) < 24 and sum(sizes) < 1_000_000
        icons = tab.eval_on_selector_all("svg[data-icon]", "all => all.map(icon => icon.dataset.icon)")
        assert {"magnifying-glass", "github", "arrow-up"} <= set(icons)
        assert tab.locator("[data-fa-i2svg='missing'], .fa-missing").count() == 0
        assert errors == []
