"""The first page: what a visitor sees without scrolling, and a card for each chapter."""

import re
from itertools import pairwise

import pytest

from book._ext.chapters import chapters, without_text
from exercises.check import WrongAnswerError
from exercises.checks.subword_tokenization import check
from tests.book.conftest import LOOKS, ROOT
from tests.book.test_pages import parse


def bottom(tab, selector):
    """Return where the last element that matches ends, in pixels from the top of the page."""
    box = tab.locator(selector).last.bounding_box()
    return box["y"] + box["height"]


def test_what_is_important_is_on_the_first_screen(opened, address, html):
    with opened(f"{address}index.html") as (tab, _):
        tab.set_viewport_size({"width": 1280, "height": 800})
        buttons = tab.locator(".buttons a").all_inner_texts()
        assert buttons == ["Start reading", "Explore the translator", "Open in Colab"]
        assert bottom(tab, ".buttons a") < 800
        assert bottom(tab, ".widget + ul li") < 800


def test_the_buttons_and_a_translation_are_on_the_first_screen_of_a_phone(opened, address, html):
    with opened(f"{address}index.html", "narrow") as (tab, _):
        tab.set_viewport_size({"width": LOOKS["narrow"]["viewport"]["width"], "height": 664})
        assert bottom(tab, ".buttons a") < bottom(tab, ".translator .translation") < 664
        rows = {button.bounding_box()["y"] for button in tab.locator(".examples button").all()}
        assert len(rows) == 1, "the examples aren't in one row"


def test_the_example_of_a_check_is_what_the_check_says():
    text = (ROOT / "index.md").read_text("utf-8")
    code = re.search(r"```python\n(.*?)\n```", text, re.DOTALL)[1]
    message = re.search(r"```{code-block} text\n:class: wrapped\n\n(.*?)\n```", text, re.DOTALL)[1]
    names = {"pairwise": pairwise}
    exec(code, names)
    with pytest.raises(WrongAnswerError) as error:
        check("count_pairs", names["count_pairs"])
    assert message == str(error.value)


def test_the_hours_are_the_sums_of_what_chapters_and_exercises_say():
    def minutes(folder, pattern, numbers):
        texts = [next((ROOT / folder).glob(f"{number:02d}_*.py")).read_text("utf-8") for number in numbers]
        return sum(int(found) for text in texts for found in re.findall(pattern, text))

    reading = minutes("chapters", r"\*\*About (\d+) minutes", range(1, 18))
    exercises = minutes("solutions", r"· (\d+) minutes", range(1, 18))
    projects = minutes("solutions", r"· (\d+) minutes", (18, 19))
    text = (ROOT / "index.md").read_text("utf-8")
    model, evening = (minutes("chapters", r"\*\*About (\d+) minutes", chosen) for chosen in (range(1, 8), (1, 2, 4)))
    assert round(model / 60) == 5 and "the whole model, take about five hours" in text
    assert evening < 2 * 60
    assert f"takes about {reading / 60:.0f} hours, code and figures included" in text
    assert f"take about {exercises / 60:.0f} hours more" in text and f"projects about {projects / 60:.0f}." in text


def test_each_chapter_has_a_card_with_a_thumbnail(html):
    cards = parse(html / "index.html").xpath("//ol[contains(@class, 'chapters')]/li")
    links = [card.find(".//a") for card in cards]
    assert [link.get("href") for link in links] == [f"{name}.html" for name in chapters()]
    titles = [link.text_content().strip() for link in links]
    assert [title.split(" · ")[0] for title in titles] == [str(number) for number in range(1, len(links) + 1)]
    for theme in ("light", "dark"):
        addresses = [card.xpath(f".//img[@class='only-{theme}']/@src") for card in cards]
        images = [(html / address).read_text("utf-8") for (address,) in addresses]
        assert all(image.count("<path") >= 5 for image in images)  # two bars and a legend; a blank one has none
        assert sum(map(len, images)) < 300_000


def test_thumbnails_are_drawn_in_the_colours_of_the_theme(opened, address):
    for look, theme in (("wide", "light"), ("dark", "dark")):
        with opened(f"{address}index.html", look) as (tab, _):
            images = tab.locator("ol.chapters img").locator("visible=true")
            assert images.count() == 17
            assert set(images.evaluate_all("all => all.map(image => image.className)")) == {f"only-{theme}"}
            style = images.first.evaluate(
                "image => [getComputedStyle(image).filter, getComputedStyle(image).backgroundColor]"
            )
            assert style == ["none", "rgba(0, 0, 0, 0)"]


def test_a_thumbnail_has_shapes_in_the_middle_but_no_text():
    legend = '<g class="legend"><path d="M 0 0 L 9 9" style="fill: red"/></g>'
    glyphs = '<g><defs><path id="DejaVuSans-37" d="M 0 0"/></defs><use xlink:href="#DejaVuSans-37"/></g>'
    namespaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    background = '<path d="M 0 0 L 90 0 L 90 60 z" style="fill: none"/>'
    shape = '<path d="M 41.2345 20 L 61.2345 -99" style="fill: none; stroke: red"/>'
    parts = f"<g>{background}{shape}{glyphs}{legend}</g>"
    svg = f'<svg {namespaces} viewBox="0 0 90 60" width="90pt" height="60pt">{parts}</svg>'
    assert without_text(svg) == (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="35.2 -6.0 32.0 32.0" width="32.0pt" height="32.0pt"><g>'
        '<path d="M 0 0 L 90 0 L 90 60 z" style="fill: none" />'
        '<path d="M 41.2 20 L 61.2 -99" style="fill: none; stroke: red" /></g></svg>'
    )
