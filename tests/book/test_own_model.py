"""The translator on a model of one's own: on a page that stands alone, and in a notebook, where it is one file."""

import base64

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.book.conftest import LOOKS
from tests.book.test_barriers import BARRIERS
from tests.book.test_live import TOLD, TRANSLATION, change, done, expected, found
from tests.book.test_widgets import PICTURES
from transformer.cli import main
from transformer.inspection import ablate_heads
from transformer.interactive.widgets import describe_model, javascript, model_files
from transformer.models import load_model

MODEL, SENTENCE, OTHER = "pocket-small", "Why does the dog not sleep?", "The old woman does not open the window."
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
"""What anywidget does, with a stand-in for the kernel's side of the model."""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What the command writes, as an address."""
    path = tmp_path_factory.mktemp("page") / "a page.html"
    main(["attention", MODEL, SENTENCE, OTHER, "--device", "cpu", "--output", str(path)])
    return path.as_uri()


@pytest.fixture
def alone(browser):
    """To be called with a look: a tab without any network, and what it asked for and complained of."""
    contexts = []

    def alone(look="wide", **more):
        contexts.append(browser.new_context(offline=True, **LOOKS[look], **more))
        tab, asked, wrong = contexts[-1].new_page(), [], []
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("pageerror", lambda error: wrong.append(f"{error}"))
        tab.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
        return tab, asked, wrong

    yield alone
    for context in contexts:
        context.close()


def without(sentence):
    """PyTorch's best, with the heads off."""
    translator = load_model(MODEL, "cpu")
    with ablate_heads(translator.model, OFF):
        (best,) = translator.beam_search([sentence], n_best=4)
    return [(one.text, f"{one.hypothesis.score:.3f}") for one in best]


def use(tab):
    """Translate the first sentence and another one, with all heads and without some, as PyTorch does."""
    done(tab)
    assert found(tab) == expected(SENTENCE, model=MODEL)
    change(tab, lambda: tab.fill(".translator input[type=text]", OTHER))
    assert found(tab) == expected(OTHER, model=MODEL)
    tab.locator("[data-kind=encoder_self] summary").click()
    for layer, heads in OFF.items():
        for head in heads:
            change(tab, lambda box=f"{layer}, head {head + 1} is on": tab.get_by_label(box, exact=True).uncheck())
    assert found(tab) == without(OTHER) != expected(OTHER, model=MODEL)
    assert tab.inner_text(TRANSLATION) == without(OTHER)[0][0]


def test_the_page_translates_as_pytorch_does_and_asks_for_nothing(alone, written):
    tab, asked, wrong = alone()
    tab.goto(written)
    use(tab)
    assert asked == [written] and wrong == []


def test_the_page_puts_up_no_barrier(alone, written, look):
    tab, _, wrong = alone(look)
    tab.goto(written)
    done(tab)
    tab.get_by_text("The search step by step, as a table").click()
    tab.locator("[data-head='map decoder.1.cross_attention, head 1']").click()
    violations = Axe().run(tab, options={"resultTypes": ["violations"], "preload": False}).response["violations"]
    bad = [(one["id"], node["html"][:200]) for one in violations for node in one["nodes"] if one["impact"] in BARRIERS]
    assert bad == [] and wrong == []
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    dark = tab.evaluate("getComputedStyle(document.querySelector('.translator')).color") == "rgb(255, 255, 255)"
    assert dark == (look == "dark")


def test_without_javascript_the_translation_stands_there(alone, written):
    tab, asked, _ = alone(java_script_enabled=False)
    tab.goto(written)
    assert expected(SENTENCE, model=MODEL)[0][0] in tab.inner_text("#live table")
    assert "Turn on JavaScript" in tab.inner_text("#live")
    assert asked == [written]


def test_the_search_is_told_in_words_too(alone, written):
    tab, _, _ = alone()
    tab.goto(written)
    done(tab)
    fold = tab.locator("summary", has_text="The search step by step, as a table")
    fold.focus()
    fold.press("Enter")
    tab.locator(".translator .steps").wait_for()
    rows = tab.locator(".translator .steps tbody tr:not(:has(th[scope=rowgroup]))").all_inner_texts()
    assert len(rows) == tab.locator(".translator svg circle").count() > 30
    steps = tab.locator(".translator .steps tbody").all_inner_texts()
    assert all(text.startswith(f"Step {i}\n") for i, text in enumerate(steps, 1))
    ways = ["on the best path" in text for text in steps]
    assert ways == sorted(ways, reverse=True) and sum(ways) == tab.locator(".translator svg .best-path").count() > 5
    last = next(row for row in reversed(rows) if "on the best path" in row)
    best, score = found(tab)[0]
    assert last.split("\t") == [f"{best}<eos>", last.split("\t")[1], score, "finished, on the best path"]
    change(tab, lambda: tab.fill(".translator input[type=text]", OTHER))  # an open fold follows
    assert expected(OTHER, model=MODEL)[0][0] in tab.inner_text(".translator .steps")


def test_in_a_notebook_one_file_and_bytes_are_enough(alone):
    tab, asked, wrong = alone()
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
    use(tab)
    assert tab.locator(".translator select").count() == 0, "there is one model: nothing to choose"
    style = "getComputedStyle(document.querySelector('.translator'))"
    colours = tab.evaluate(f"[{style}.color, {style}.backgroundColor]")
    assert colours == ["rgb(255, 255, 255)", "rgb(33, 33, 33)"], "not the notebook's"
    assert all(url.startswith("blob:") for url in asked) and wrong == []


def test_in_a_notebook_no_sentence_is_needed(alone):
    tab, _, wrong = alone()
    files = model_files(load_model(MODEL, "cpu"))
    coded = {name: base64.b64encode(data).decode() for name, data in files.items()}
    tab.evaluate(
        MOUNT, {"esm": javascript("translator"), "models": [describe_model(files, [])], "files": coded, "theme": ""}
    )
    done(tab, "Type a sentence")
    assert tab.inner_text(".translator .examples") == ""
    change(tab, lambda: tab.fill(".translator input[type=text]", OTHER))
    assert found(tab) == expected(OTHER, model=MODEL)
    tab.locator(TOLD).wait_for()
    assert wrong == []


@pytest.mark.parametrize("name", PICTURES)
def test_a_small_picture_in_a_notebook(alone, name):
    tab, asked, wrong = alone()
    tab.evaluate(MOUNT, {"esm": javascript(name), "theme": DARK})
    control = tab.locator(".small-widget :is(input, button, circle[tabindex])").first
    control.focus()
    spared = "data-lm-suppress-shortcuts"  # JupyterLab leaves keys to an element with this
    assert (control.get_attribute(spared) is None) == control.evaluate("one => one.matches('[type=text]')")
    assert tab.evaluate("getComputedStyle(document.querySelector('.small-widget')).color") == "rgb(255, 255, 255)"
    assert all(url.startswith("blob:") for url in asked) and wrong == []
