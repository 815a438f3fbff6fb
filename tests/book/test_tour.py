"""The guided tour of the live translator: its steps, the keyboard, the head that it switches off."""

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe

from tests.book.barriers import BARRIERS
from tests.book.conftest import MODEL, SENTENCE
from tests.book.test_live import STATUS, TRANSLATION, expected, wait_for_status
from transformer.data.tokenizer import BOS, EOS
from transformer.inspection import ablate_heads
from transformer.models import load_model

TARGETS = ["form", ".stage", ".stage", ".stage", "details", "details", "details"]
"""What each step is placed before."""
NOT_ABOVE = """target => {
    const previous = window.previous ?? target;
    window.previous = target;
    return previous === target || Boolean(previous.compareDocumentPosition(target) & Node.DOCUMENT_POSITION_FOLLOWING);
}"""
"""Whether a step's target is not above that of the step before."""


def open_page(tab, written):
    tab.goto(written)
    wait_for_status(tab)


def wait_for_step(tab, number):
    """Wait until a step has been shown with its text."""
    tab.wait_for_function(
        """number => {
            const [title, text] = document.querySelectorAll(".tour p");
            return title?.textContent.startsWith(`Step ${number} of 7`) && !text.textContent.startsWith("Just");
        }""",
        arg=number,
    )


def has_focus(tab, name):
    return tab.get_by_role("button", name=name, exact=True).evaluate("button => button === document.activeElement")


def go_to_step(tab, number):
    tab.get_by_role("button", name="Take the tour").press("Enter")
    for step in range(1, number):
        wait_for_step(tab, step)
        tab.keyboard.press("Enter")
    wait_for_step(tab, number)


def most_important_head():
    """Return the head of cross-attention without which PyTorch's translation of the sentence is least probable."""
    translator = load_model(MODEL, "cpu")
    model, source = translator.model, torch.tensor([[*translator.tokenizer.encode(SENTENCE), EOS]])
    ((best,),) = translator.beam_search([SENTENCE])
    tokens = best.hypothesis.tokens

    def log_probability(name, head):
        with torch.inference_mode(), ablate_heads(model, {name: [head]}):
            # The encoder has no cross-attention, so ablation leaves its output as it is.
            log_probabilities = model(source, torch.tensor([[BOS, *tokens]]))[0].log_softmax(dim=-1)
        return sum(log_probabilities[i, token].item() for i, token in enumerate([*tokens, EOS]))

    config = model.config
    heads = [(f"decoder.{i}.cross_attention", head) for i in range(config.n_layers) for head in range(config.n_heads)]
    return min(heads, key=lambda one: log_probability(*one))


def test_the_tour_goes_from_part_to_part_with_the_keyboard(alone, written):
    tab, _, errors = alone()
    open_page(tab, written)
    tab.get_by_role("button", name="Take the tour").press("Enter")
    for number, target in enumerate(TARGETS, 1):
        wait_for_step(tab, number)
        assert has_focus(tab, "Next" if number < len(TARGETS) else "Finish")
        assert tab.locator(".tour + .tour-target").evaluate("(e, target) => e.matches(target)", target)
        assert tab.locator(".tour-target").count() == 1
        text = tab.locator(".tour p").nth(1)
        assert tab.locator(".tour").get_attribute("aria-describedby") == (text.get_attribute("id") or "missing")
        assert tab.locator(".tour-target :is(label, summary + *)").first.is_visible()
        assert len(text.inner_text()) < 400 and text.inner_text().count(".") >= 2
        assert tab.locator(".tour-target").evaluate(NOT_ABOVE), "the tour goes up the page"
        tab.keyboard.press("Enter")
    assert tab.locator(".tour, .tour-target").count() == 0
    assert has_focus(tab, "Take the tour")
    assert errors == []


def test_back_returns_to_the_previous_step(alone, written):
    tab, _, _ = alone()
    open_page(tab, written)
    go_to_step(tab, 2)
    tab.get_by_role("button", name="Back").click()
    wait_for_step(tab, 1)
    assert tab.get_by_role("button", name="Back").is_disabled()


@pytest.mark.parametrize("leave", ["Escape", "Finish", "Back", "Close"])
def test_the_most_important_head_is_switched_off_and_on_again(alone, written, leave):
    tab, _, errors = alone()
    open_page(tab, written)
    go_to_step(tab, 7)
    name, head = most_important_head()
    assert f"head {head + 1} in layer {int(name.split('.')[1]) + 1} matters most" in tab.locator(".tour").inner_text()
    assert "1 head is off" in tab.inner_text(STATUS)
    with ablate_heads((translator := load_model(MODEL, "cpu")).model, {name: [head]}):
        ((best,),) = translator.beam_search([SENTENCE])
    assert tab.inner_text(TRANSLATION) == best.text
    before = expected(SENTENCE, model=MODEL)[0][0]
    shown = "The translation stays the same" if best.text == before else f"Before: “{before}” Now: “{best.text}”"
    assert shown in tab.locator(".tour").inner_text()
    assert "To test another sentence, go back, type it, and return to this step." in tab.locator(".tour").inner_text()

    tab.evaluate("status => { document.querySelector(status).textContent = '' }", STATUS)
    if leave == "Escape":
        tab.keyboard.press("Escape")
    else:
        tab.get_by_role("button", name=leave, exact=True).click()
    wait_for_status(tab)
    assert "off" not in tab.inner_text(STATUS)
    assert tab.inner_text(TRANSLATION) == before
    assert tab.locator(".translator .head.off").count() == 0
    assert has_focus(tab, "Next" if leave == "Back" else "Take the tour")
    assert errors == []


def test_the_heads_that_a_reader_switches_off_stay_off(alone, written):
    tab, _, errors = alone()
    open_page(tab, written)
    boxes = tab.locator("[data-kind=cross_attention] input")
    boxes.nth(0).uncheck()
    wait_for_status(tab, "1 head is off")
    go_to_step(tab, 7)
    wait_for_status(tab, "2 heads are off")
    tab.locator("[data-kind=cross_attention] input:checked").last.uncheck()
    wait_for_status(tab, "3 heads are off")
    tab.get_by_role("button", name="Close").click()
    wait_for_status(tab, "2 heads are off")
    off = boxes.evaluate_all("all => all.map((box, i) => [box, i]).filter(([box]) => !box.checked).map(([, i]) => i)")
    assert len(off) == 2 and off[0] == 0
    assert errors == []


def test_leaving_a_step_while_it_computes_switches_no_head_off(alone, written):
    tab, _, errors = alone()
    open_page(tab, written)
    go_to_step(tab, 6)
    tab.keyboard.press("Enter")
    tab.evaluate(
        """() => {
            const [back, next] = document.querySelectorAll(".tour button");
            back.click();
            next.click();
        }"""
    )
    wait_for_step(tab, 7)
    wait_for_status(tab, "1 head is off")
    tab.get_by_role("button", name="Back", exact=True).click()
    wait_for_step(tab, 6)
    tab.wait_for_function("status => !document.querySelector(status).textContent.includes('off')", arg=STATUS)
    wait_for_status(tab)
    assert "off" not in tab.inner_text(STATUS) and tab.locator(".translator .head.off").count() == 0
    assert errors == []


def test_the_link_in_the_text_starts_the_tour(opened, address, html):
    with opened(f"{address}book/live.html") as (tab, errors):
        link = tab.get_by_role("link", name="take the tour")
        wait_for_status(tab)
        for _ in range(2):  # also a second time
            link.press("Enter")
            wait_for_step(tab, 1)
            tab.keyboard.press("Escape")
            assert tab.locator(".tour").count() == 0
        assert errors == []


def test_a_link_from_another_page_starts_the_tour(opened, address, html):
    with opened(f"{address}book/live.html#tour") as (tab, errors):
        wait_for_step(tab, 1)
        assert errors == []


def test_the_first_page_unfolds_only_the_beginning_and_offers_the_tour(opened, address, html):
    with opened(f"{address}index.html") as (tab, errors):
        wait_for_status(tab)
        start = tab.get_by_role("button", name="Take the tour")
        assert not start.is_visible()
        tab.get_by_text("See how it did that").press("Enter")
        assert tab.locator(".how > details[open] > summary").all_inner_texts() == [
            "Every stage of the computation",
            "The best translations",
        ]
        assert tab.locator(".stage[open]").count() == 1 and tab.locator(".stage .tokens").is_visible()
        start.press("Enter")
        for step in range(1, len(TARGETS) + 1):
            wait_for_step(tab, step)
            tab.keyboard.press("Enter")
        assert has_focus(tab, "Take the tour") and errors == []


@pytest.mark.parametrize(("preference", "behavior"), [("reduce", "instant"), ("no-preference", "smooth")])
def test_scrolling_respects_the_preference_for_less_motion(alone, written, preference, behavior):
    tab, _, _ = alone(reduced_motion=preference)
    open_page(tab, written)
    tab.evaluate("Element.prototype.scrollIntoView = function (options) { window.scrolled = options }")
    go_to_step(tab, 1)
    assert tab.evaluate("window.scrolled") == {"block": "start", "behavior": behavior}


def test_the_tour_has_no_barriers_and_fits(alone, written, look):
    tab, _, errors = alone(look)
    open_page(tab, written)
    go_to_step(tab, 2)
    violations = Axe().run(tab, options={"resultTypes": ["violations"], "preload": False}).response["violations"]
    assert [(v["id"], node["html"][:200]) for v in violations for node in v["nodes"] if v["impact"] in BARRIERS] == []
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert errors == []
