"""The stages of the live translator: they show PyTorch's numbers, work with the keyboard, and have no barriers."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.book.barriers import BARRIERS
from tests.book.conftest import MODEL, OTHER, ROOT, SENTENCE
from tests.book.test_live import wait_for_status
from tests.widgets.test_parity import forward_results
from transformer.data.tokenizer import BOS, EOS
from transformer.interactive.widgets import quantized
from transformer.models import load_model

SOURCE_POSITION, TARGET_POSITION = 2, 2
"""The positions whose numbers are tab at first."""
OPEN_ALL = """() => {
    const stages = [...document.querySelectorAll(".stage")];
    stages.forEach((stage) => { stage.open = true; });
    return stages.every((stage) => stage.querySelector(".unfolded *")) && document.querySelector(".stage .stage");
}"""
"""Unfolds all stages; true once they have been drawn."""
TOLERANCE = 0.006
"""Numbers are shown with two decimals."""


@pytest.fixture(scope="module")
def expected():
    """Return what PyTorch computes for the sentence, the ids of the sentence and of its translation, and all pieces."""
    translator = quantized(load_model(MODEL, "cpu"))
    source = [*translator.tokenizer.encode(SENTENCE), EOS]
    ((best,),) = translator.beam_search([SENTENCE])
    target = [BOS, *best.hypothesis.tokens]
    results = forward_results(translator.model, source, target, {})
    pieces = [translator.tokenizer.processor.id_to_piece(i).removeprefix("▁") for i in range(len(translator.tokenizer))]
    return results, source, target, pieces


@pytest.fixture
def tab(alone, written):
    """Open the page, wait for the translation and unfold all stages; yield the tab."""
    tab, _, errors = alone()
    tab.goto(written)
    wait_for_status(tab)
    tab.wait_for_function(OPEN_ALL)
    yield tab
    assert errors == []


def stage(tab, title):
    return tab.locator(".stages > .stage", has=tab.locator("summary", has_text=title))


def numbers(text):
    """Read numbers that are separated by white space; the last one may be followed by "…"."""
    return [float(one.replace("−", "-")) for one in text.replace("…", "").split()]


def strips(part):
    """Return the first numbers of each strip, by its name; the last one of a name counts."""
    return {
        one.locator("span").first.inner_text(): numbers(one.locator(".numbers").inner_text())
        for one in part.locator(".strip").all()
    }


def rows(table):
    return [[cell.inner_text() for cell in row.locator("th, td").all()] for row in table.locator("tbody tr").all()]


def assert_shown(values, expected):
    assert values == pytest.approx(expected[: len(values)].tolist(), abs=TOLERANCE)


def test_vectors_are_those_of_pytorch(tab, expected):
    results, *_ = expected
    embeddings = strips(stage(tab, "Embeddings and positions"))
    assert_shown(embeddings["sum"], results["outputs.source"][SOURCE_POSITION])
    assert_shown(strips(stage(tab, "The target so far"))["sum"], results["outputs.target"][TARGET_POSITION])
    for side, position, attentions in (
        ("encoder", SOURCE_POSITION, ["self-attention"]),
        ("decoder", TARGET_POSITION, ["masked self-attention", "cross-attention"]),
    ):
        layers = stage(tab, f"{side.capitalize()} layers").locator(".stage").all()
        assert len(layers) == load_model(MODEL, "cpu").model.config.n_layers
        for i, layer in enumerate(layers):
            vectors = strips(layer)
            for attention in attentions:
                name = attention.removeprefix("masked ").replace("-", "_")
                update = results[f"outputs.{side}.{i}.{name}"][position]
                assert_shown(vectors[f"update: {attention} output"], update)
            feed_forward = results[f"outputs.{side}.{i}.feed_forward"][position]
            assert_shown(vectors["update: feed-forward network output"], feed_forward)
            assert_shown(vectors["x + update"], results[f"outputs.{side}.{i}.residuals.{len(attentions)}"][position])
            inner = results[f"outputs.{side}.{i}.feed_forward.inner"][position].relu()
            assert_shown(vectors["hidden units, after the ReLU"], inner)
            assert f"; {int((inner > 0).sum())} of the {len(inner)} hidden units" in layer.inner_text()
    assert_shown(
        strips(stage(tab, "Logits"))["the decoder's last vector"], results["outputs.decoder_norm"][TARGET_POSITION]
    )


def test_a_head_shows_its_weights_and_scores(tab, expected):
    results, source, _, pieces = expected
    layer = stage(tab, "Decoder layers").locator(".stage").last
    name, head = f"decoder.{load_model(MODEL, 'cpu').model.config.n_layers - 1}.cross_attention", 1
    group = layer.locator(".radios").last
    group.locator("input").first.focus()
    tab.keyboard.press("ArrowRight")
    assert group.get_by_label(f"head {head + 1}").evaluate("one => one === document.activeElement && one.checked")
    weights = results[f"weights.{name}"][head][TARGET_POSITION]
    query, keys = results[f"outputs.{name}.query"][TARGET_POSITION], results[f"outputs.{name}.key"]
    d_head = len(query) // results[f"weights.{name}"].size(0)
    part = slice(head * d_head, (head + 1) * d_head)
    scores = keys[:, part] @ query[part] / d_head**0.5
    for i, (token, _, score, weight, _) in enumerate(rows(layer.locator("table").last)):
        assert token == pieces[source[i]]
        assert numbers(score) == pytest.approx([scores[i].item()], abs=TOLERANCE)
        assert numbers(weight) == pytest.approx([weights[i].item()], abs=TOLERANCE)


@pytest.mark.parametrize("temperature", ["1", "0.5", "2"])
def test_logits_and_probabilities_are_those_of_pytorch(tab, expected, temperature):
    results, _, _, pieces = expected
    logits = results["logits"][TARGET_POSITION]
    tab.get_by_label("Temperature").fill(temperature)
    probabilities = (logits / float(temperature)).softmax(dim=0)
    best = logits.topk(8).indices
    for title, values, unit in (("Logits", logits, ""), ("Softmax", 100 * probabilities, "%")):
        table = rows(stage(tab, title).locator("table"))
        assert [row[0] for row in table] == [pieces[i] for i in best]
        for row, i in zip(table, best, strict=True):
            assert numbers(row[1].removesuffix(unit)) == pytest.approx([values[i].item()], abs=TOLERANCE)
    others = 100 * (1 - probabilities[best].sum().item())
    shown_others = stage(tab, "Softmax").get_by_text("All other tokens together").inner_text()
    assert numbers(shown_others.split(":")[1].removesuffix("%")) == pytest.approx([others], abs=TOLERANCE)


def test_every_step_is_reached_with_the_keyboard(tab, expected):
    results, _, target, pieces = expected
    tab.locator(".target-tokens :checked").focus()
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowLeft")
    next_token = tab.get_by_role("button", name="Predict the next token")
    next_token.focus()
    for position, token in enumerate([*target[1:], EOS]):
        assert pieces[token] == stage(tab, "The chosen token").locator(".shape").inner_text()
        text = stage(tab, "The chosen token").locator("p[aria-live]").inner_text()
        assert text.startswith(f"The translation continues with {pieces[token]}, ")
        probability = 100 * results["logits"][position].softmax(dim=0)[token].item()
        assert numbers(re.search(r"[\d.]+(?= %)", text)[0]) == pytest.approx([probability], abs=TOLERANCE)
        assert len(rows(stage(tab, "Decoder layers").locator("table").first)) == position + 1
        assert tab.inner_text(".target-tokens label:has(:checked)") == pieces[token]
        tab.keyboard.press("Enter")
    assert tab.get_by_role("button", name="Predict the next token").evaluate("one => one === document.activeElement")


def test_a_strip_shows_any_number_with_the_arrow_keys(tab, expected):
    results, *_ = expected
    strip = stage(tab, "Embeddings and positions").get_by_label("sum", exact=True)
    strip.focus()
    for _ in range(9):
        tab.keyboard.press("ArrowRight")
    text = strip.get_attribute("aria-valuetext")
    assert text.startswith("dimension 10 of ")
    value = results["outputs.source"][SOURCE_POSITION][9].item()
    assert numbers(text.split(":")[1]) == pytest.approx([value], abs=TOLERANCE)
    assert text in stage(tab, "Embeddings and positions").inner_text()


def test_another_sentence_keeps_the_stages_open(tab):
    tab.fill(".translator textarea", OTHER)
    tab.wait_for_function("() => document.querySelector('.stage .tokens').innerText.includes('window')")
    assert stage(tab, "Encoder layers").locator(".stage[open] .strip").count() > 10


def test_stages_have_no_barriers_and_fit(alone, written, look):
    tab, _, errors = alone(look)
    tab.goto(written)
    wait_for_status(tab)
    tab.wait_for_function(OPEN_ALL)
    violations = Axe().run(tab, options={"resultTypes": ["violations"], "preload": False}).response["violations"]
    assert [(v["id"], node["html"][:200]) for v in violations for node in v["nodes"] if v["impact"] in BARRIERS] == []
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert errors == []


def test_the_linked_chapters_exist():
    linked = re.findall(
        r'^  "(\d\d_\w+)": ', (ROOT / "book" / "widgets" / "stages.mjs").read_text("utf-8"), re.MULTILINE
    )
    assert linked and all((ROOT / "chapters" / f"{name}.py").exists() for name in linked)
