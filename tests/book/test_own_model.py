"""The live translator with a model of your own: on a page that is a single file, and in a notebook."""

import base64

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.book.barriers import BARRIERS
from tests.book.conftest import MODEL, OTHER, SENTENCE
from tests.book.test_live import STATUS, TRANSLATION, as_shown, change, expected, head_box, n_best, wait_for_status
from tests.book.test_widgets import SMALL_WIDGETS
from transformer.inspection import ablate_heads
from transformer.interactive.widgets import describe_model, javascript, model_files, quantized
from transformer.models import load_model

OFF = {"decoder.0.cross_attention": [0, 1, 2, 3], "encoder.1.self_attention": [3]}
DARK = "--jp-layout-color0: #111; --jp-layout-color1: #212121; --jp-content-font-color1: #fff"
MOUNT = """async ({ esm, models, files, theme }) => {
    document.documentElement.style = theme;
    document.body.innerHTML = "<div id=el></div>";
    const view = (text) => {  // as a notebook hands bytes over: a view of a part of a buffer
        const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
        const longer = new Uint8Array(bytes.length + 5);
        longer.set(bytes, 5);
        return new DataView(longer.buffer, 5);
    };
    const views = Object.fromEntries(Object.entries(files ?? {}).map(([name, text]) => [name, view(text)]));
    const values = { models, files: { model: views } };
    const address = URL.createObjectURL(new Blob([esm], { type: "text/javascript" }));
    const { default: widget } = await import(address);
    URL.revokeObjectURL(address);
    await widget.render({ model: { get: (name) => values[name] }, el: document.getElementById("el") });
}"""
"""Does what anywidget does, with a stand-in for the kernel's side of the model."""


def expected_ablated(sentence):
    """Return PyTorch's translations and scores with the heads ablated."""
    translator = quantized(load_model(MODEL, "cpu"))
    with ablate_heads(translator.model, OFF):
        (best,) = translator.beam_search([sentence], n_best=4)
    return as_shown(best)


def check_translations(tab):
    """Compare with PyTorch: the first sentence and another one, with all heads and without some."""
    wait_for_status(tab)
    assert n_best(tab) == expected(SENTENCE, model=MODEL)
    change(tab, lambda: tab.fill(".translator textarea", OTHER))
    assert n_best(tab) == expected(OTHER, model=MODEL)
    tab.locator("[data-kind=encoder_self] summary").click()
    for layer, heads in OFF.items():
        for head in heads:
            change(tab, head_box(tab, layer, head).uncheck)
    assert n_best(tab) == expected_ablated(OTHER) != expected(OTHER, model=MODEL)
    assert tab.inner_text(TRANSLATION) == expected_ablated(OTHER)[0][0]


def test_the_page_translates_as_pytorch_does_and_requests_nothing(alone, written):
    tab, requests, errors = alone()
    tab.goto(written)
    check_translations(tab)
    assert requests == [written] and errors == []


def test_the_page_has_no_barriers(alone, written, look):
    tab, _, errors = alone(look)
    tab.goto(written)
    wait_for_status(tab)
    tab.get_by_text("The search step by step, as a table").click()
    tab.locator("[data-head='map decoder.1.cross_attention, head 1']").click()
    violations = Axe().run(tab, options={"resultTypes": ["violations"], "preload": False}).response["violations"]
    barriers = [(v["id"], node["html"][:200]) for v in violations for node in v["nodes"] if v["impact"] in BARRIERS]
    assert barriers == [] and errors == []
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    dark = tab.evaluate("getComputedStyle(document.querySelector('.translator')).color") == "rgb(255, 255, 255)"
    assert dark == (look == "dark")


def test_without_javascript_the_page_shows_the_translation(alone, written):
    tab, requests, _ = alone(java_script_enabled=False)
    tab.goto(written)
    assert expected(SENTENCE, model=MODEL)[0][0] in tab.inner_text("#live table")
    assert "Turn on JavaScript" in tab.inner_text("#live")
    assert requests == [written]


def test_the_search_is_also_a_table(alone, written):
    tab, _, _ = alone()
    tab.goto(written)
    wait_for_status(tab)
    summary = tab.locator("summary", has_text="The search step by step, as a table")
    summary.focus()
    summary.press("Enter")
    tab.locator(".translator .steps").wait_for()
    rows = tab.locator(".translator .steps tbody tr:not(:has(th[scope=rowgroup]))").all_inner_texts()
    assert len(rows) == tab.locator(".translator svg circle").count() > 30
    steps = tab.locator(".translator .steps tbody").all_inner_texts()
    assert all(text.startswith(f"Step {i}\n") for i, text in enumerate(steps, 1))
    on_path = ["on the best path" in text for text in steps]
    assert (
        on_path == sorted(on_path, reverse=True)
        and sum(on_path) == tab.locator(".translator svg .best-path").count() > 5
    )
    last = next(row for row in reversed(rows) if "on the best path" in row)
    best, score = n_best(tab)[0]
    assert last.split("\t") == [f"{best}<eos>", last.split("\t")[1], score, "finished, on the best path"]
    change(tab, lambda: tab.fill(".translator textarea", OTHER))  # the open table is updated
    assert expected(OTHER, model=MODEL)[0][0] in tab.inner_text(".translator .steps")


def test_in_a_notebook_the_javascript_and_the_bytes_are_enough(alone):
    tab, requests, errors = alone()
    files = model_files(load_model(MODEL, "cpu"))
    tab.evaluate(
        MOUNT,
        {
            "esm": javascript("translator"),
            "models": [describe_model(files, [SENTENCE, OTHER])],
            "files": {name: base64.b64encode(data).decode() for name, data in files.items()},
            "theme": DARK,
        },
    )
    check_translations(tab)
    assert tab.get_by_label("Model", exact=True).count() == 0, "there is only one model to choose from"
    style = "getComputedStyle(document.querySelector('.translator'))"
    colours = tab.evaluate(f"[{style}.color, {style}.backgroundColor]")
    assert colours == ["rgb(255, 255, 255)", "rgb(33, 33, 33)"], "these are not the colours of the notebook"
    assert all(url.startswith("blob:") for url in requests) and errors == []


def test_in_a_notebook_no_sentence_is_needed(alone):
    tab, _, errors = alone()
    files = model_files(load_model(MODEL, "cpu"))
    coded = {name: base64.b64encode(data).decode() for name, data in files.items()}
    tab.evaluate(
        MOUNT, {"esm": javascript("translator"), "models": [describe_model(files, [])], "files": coded, "theme": ""}
    )
    wait_for_status(tab, "Type a sentence")
    assert tab.inner_text(".translator .examples") == ""
    change(tab, lambda: tab.fill(".translator textarea", OTHER))
    assert n_best(tab) == expected(OTHER, model=MODEL)
    tab.locator(STATUS).wait_for()
    assert errors == []


@pytest.mark.parametrize("name", SMALL_WIDGETS)
def test_a_small_widget_in_a_notebook(alone, name):
    tab, requests, errors = alone()
    tab.evaluate(MOUNT, {"esm": javascript(name), "theme": DARK})
    control = tab.locator(".small-widget :is(input, textarea, button, circle[tabindex])").first
    control.focus()
    opt_out = "data-lm-suppress-shortcuts"  # JupyterLab doesn't handle the keys of an element with this
    assert (control.get_attribute(opt_out) is None) == control.evaluate("control => control.matches('textarea')")
    assert tab.evaluate("getComputedStyle(document.querySelector('.small-widget')).color") == "rgb(255, 255, 255)"
    assert all(url.startswith("blob:") for url in requests) and errors == []
