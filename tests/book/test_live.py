"""The live translator on its page gives PyTorch's translations, for any input, with and without some heads."""

from functools import cache
from itertools import product

import pytest
import torch

from book._ext.widgets import MODELS, reverse_model
from transformer.data.sentences import split_sentences
from transformer.data.tokenizer import BOS, EOS
from transformer.inspection import ablate_heads, record_attention
from transformer.interactive.widgets import quantized
from transformer.models import load_model

MODEL = next(iter(MODELS))
"""The model that the page starts with."""
SENTENCE = "A black dog runs across the beach."
BOX = "Cross-attention, layer 3, head 1 is on"
"""The label of a checkbox."""
TEXT = "Mr. Smith is here. Where is the station? I love you."
OFF = {"decoder.2.cross_attention": [0, 3]}
STATUS, TRANSLATION, BEST, NOTES = (
    f".translator {part}" for part in ("[role=status]", ".translation", ".best tbody", ".notes")
)


@pytest.fixture(scope="module")
def light_page(opened, address, html):
    """A page without a translator, to import modules into."""
    with opened(f"{address}book/faq.html") as (tab, _):
        yield tab


@pytest.fixture
def live(opened, address, html):
    """Open the page in the wide look, wait for the first translation; yield the tab and a list of errors."""
    with opened(f"{address}book/live.html") as (tab, errors):
        tab.locator(".widget").scroll_into_view_if_needed()
        wait_for_status(tab)
        yield tab, errors


def wait_for_status(tab, text="in your browser"):
    tab.wait_for_function(
        "([status, text]) => document.querySelector(status)?.textContent.includes(text)",
        arg=[STATUS, text],
        timeout=60_000,
    )


def change(tab, act):
    """Do something, and wait for the new translation."""
    tab.evaluate("status => { document.querySelector(status).textContent = '' }", STATUS)
    act()
    wait_for_status(tab)


def n_best(tab):
    """Return the translations and scores from the n-best table."""
    rows = tab.locator(f"{BEST} tr").all()
    cells = [[cell.inner_text() for cell in row.locator("td").all()] for row in rows]
    return [(row[1], row[3]) for row in cells]


def head_box(tab, layer, head):
    """Return the checkbox of a head, which is counted from 0 as in Python."""
    return tab.locator(f"[data-head='box {layer}, head {head + 1}']")


@cache
def expected(sentence, alpha=0.6, beam=4, model=MODEL):
    """Return PyTorch's translations and scores."""
    (best,) = quantized(load_model(model, "cpu")).beam_search([sentence], beam, alpha, beam)
    return as_shown(best)


def as_shown(translations):
    """Return texts and scores as the n-best table shows them."""
    return [(one.text, f"{one.hypothesis.score:.3f}".replace("-", "−")) for one in translations]


def translations():
    """Return PyTorch's translation of `SENTENCE` and its score, with all heads and without that of `BOX`."""
    translator = quantized(load_model(MODEL, "cpu"))
    ((complete,),) = translator.beam_search([SENTENCE])
    with ablate_heads(translator.model, {"decoder.2.cross_attention": [0]}):
        ((ablated,),) = translator.beam_search([SENTENCE])
    with_all, without_one = ([*one] for one in as_shown((complete, ablated)))
    assert with_all != without_one
    return [with_all, without_one]


def test_a_sentence_is_translated_as_by_pytorch_with_heads_on_and_off(live):
    tab, errors = live
    change(tab, lambda: tab.fill(".translator textarea", SENTENCE))
    assert tab.inner_text(TRANSLATION) == expected(SENTENCE)[0][0]
    with_all = n_best(tab)
    assert with_all == expected(SENTENCE)

    for layer, heads in OFF.items():
        for head in heads:
            change(tab, head_box(tab, layer, head).uncheck)
    translator = quantized(load_model(MODEL, "cpu"))
    with ablate_heads(translator.model, OFF):
        (best,) = translator.beam_search([SENTENCE], n_best=4)
    assert n_best(tab) == as_shown(best) != with_all
    assert "2 heads are off" in tab.inner_text(STATUS)

    change(tab, lambda: tab.get_by_text("Switch all heads on").click())
    assert n_best(tab) == with_all
    assert errors == []


def test_the_sliders_set_beam_size_and_length_penalty(live):
    tab, _ = live
    change(tab, lambda: tab.get_by_label("Beam size", exact=True).fill("2"))
    change(tab, lambda: tab.get_by_label("Length penalty", exact=True).fill("0"))
    assert "Beam size: 2" in tab.inner_text(".settings") and "Length penalty: 0.0" in tab.inner_text(".settings")
    sentence = tab.input_value(".translator textarea")
    assert n_best(tab) == expected(sentence, alpha=0.0, beam=2)
    assert tab.locator(".translator svg .best-path").count() > 5


UNUSUAL_INPUT = {
    "A dog. " * 1500: "in your browser",
    "x" * 10_000: "in your browser",
    "🙂 👩‍👩‍👧‍👦 A dog 🙂": "in your browser",
    "\u202eمرحبا\u0301 \u0000": "nothing left to translate",
    "   ": "Type a sentence",
}
"""Texts, and what the status says of each: long, a single word, emoji, from right to left, and blank."""


def test_unusual_input_is_handled(live):
    tab, errors = live
    for text, status in UNUSUAL_INPUT.items():
        tab.fill(".translator textarea", text)
        wait_for_status(tab, status)
        change(tab, lambda: tab.fill(".translator textarea", SENTENCE))
        assert tab.inner_text(TRANSLATION) == expected(SENTENCE)[0][0]
        assert errors == []


@pytest.mark.parametrize(
    ("text", "translated", "notes"),
    [
        ("🙂 I like tea 👩‍👩‍👧‍👦🙂!", "I like tea!", ["so they are left out: 🙂 👩‍👩‍👧‍👦"]),
        ("I→love*you", "I love you", ["so they are left out: → *"]),
        ("Where is Škoda?\u0000", "Where is Skoda?", ["so they are left out: U+0000", "so they lose their accents: Š"]),
        ("The café is closed.", "The café is closed.", []),
    ],
    ids=["emoji", "between letters", "accents", "known"],
)
def test_characters_that_the_model_does_not_know_are_named_and_left_out(live, text, translated, notes):
    tab, errors = live
    change(tab, lambda: tab.fill(".translator textarea", text))
    assert tab.inner_text(TRANSLATION) == quantized(load_model(MODEL, "cpu")).translate(translated)
    shown = tab.locator(f"{NOTES} p").all_inner_texts()
    assert len(shown) == len(notes) and all(map(str.endswith, shown, notes))
    assert errors == []


def test_a_text_in_the_other_language_is_noticed_and_the_other_model_offered(live):
    tab, errors = live
    german, english = "Wo ist der Bahnhof?", "Where is the station?"
    change(tab, lambda: tab.fill(".translator textarea", german))
    assert "This looks like German, but the model translates from English." in tab.inner_text(NOTES)
    assert tab.inner_text(".translator .unsure.result") == "", "there is more than one warning"
    change(tab, lambda: tab.get_by_role("button", name="Translate from German to English").press("Enter"))
    assert tab.input_value(".translator textarea") == german and tab.inner_text(NOTES) == ""
    assert tab.inner_text(TRANSLATION) == expected(german, model="everyday-de-en")[0][0]
    assert tab.locator(".translator textarea").evaluate("field => field === document.activeElement")
    change(tab, lambda: tab.fill(".translator textarea", english))
    assert "This looks like English" in tab.inner_text(NOTES)
    change(tab, lambda: tab.get_by_role("button", name="Translate from English to German").click())
    assert tab.inner_text(TRANSLATION) == expected(english)[0][0]
    assert errors == []


def test_the_first_page_offers_the_other_model_by_a_link(opened, address, html):
    with opened(f"{address}index.html") as (tab, errors):
        wait_for_status(tab)
        change(tab, lambda: tab.fill(".translator textarea", "Ich liebe dich."))
        change(tab, lambda: tab.press(".translator textarea", "Enter"))
        tab.get_by_role("link", name="Translate from German to English").click()
        tab.wait_for_url("**/book/live.html*")
        wait_for_status(tab)
        assert tab.input_value(".translator textarea") == "Ich liebe dich."
        assert tab.inner_text(TRANSLATION) == expected("Ich liebe dich.", model="everyday-de-en")[0][0]
        assert errors == []


def test_each_model_knows_one_of_the_other_direction():
    reverse = {name: reverse_model(name) for name in MODELS}
    assert reverse.pop("pocket-small") == "everyday-de-en"
    assert all(reverse[other] == name for name, other in reverse.items())


def test_no_example_looks_like_the_other_language(light_page):
    for model in MODELS.values():
        for text in [*model["sentences"], "wo", "mit", "hello"]:
            for language in (model["languages"], model["languages"][::-1]):
                is_own = text in model["sentences"] and language == model["languages"]
                looks = light_page.evaluate(
                    "async args => (await import('/_static/widgets/remarks.mjs')).looksLike(...args)", [text, *language]
                )
                assert not looks or is_own or text == "hello" and language[0] == "en"


LONG = [f"The {number} dogs run across the beach." for number in ("two", "three", "four", "five", "six", "seven")]
"""Sentences, of which five have fewer than 200 characters together, and six more."""


@pytest.mark.parametrize(
    ("text", "translated", "end"),
    [
        (" ".join(LONG), " ".join(LONG[:5]), "… run across the beach."),
        ("  ".join(LONG[:5]) + " " * 99, " ".join(LONG[:5]), None),
        ("and a dog " * 30, "and a dog " * 20, "… dog and a dog"),
        ("x" * 201, "x" * 200, None),
        ("🙂" * 300, "🙂" * 200, None),
    ],
    ids=["sentences", "white space", "words", "characters", "emoji"],
)
def test_a_long_text_is_cut_where_a_sentence_or_a_word_ends_and_the_page_says_so(live, text, translated, end):
    tab, errors = live
    shorten = "async text => (await import('/_static/widgets/sentences.mjs')).shorten(text, 200)"
    assert tab.evaluate(shorten, text).split() == translated.split()
    if end:
        change(tab, lambda: tab.fill(".translator textarea", text))
        remark = "This text is longer than 200 characters, so only its beginning is translated, up to “"
        assert tab.inner_text(NOTES) == f"{remark}{end}”"
        assert tab.inner_text(TRANSLATION) == quantized(load_model(MODEL, "cpu")).translate(translated)
        field, note = (tab.locator(part).bounding_box() for part in (".translator textarea", NOTES))
        assert 0 <= note["y"] - field["y"] - field["height"] < 30, "the note is not right below the text"
        described = tab.get_attribute(".translator textarea", "aria-describedby")
        assert described and tab.get_attribute(NOTES, "id") == described
        change(tab, lambda: tab.fill(".translator textarea", SENTENCE))
        assert tab.inner_text(NOTES) == ""
    assert errors == []


def test_a_long_word_is_cut_and_the_page_says_so(live):
    tab, _ = live
    change(tab, lambda: tab.fill(".translator textarea", "x" * 10_000))
    assert "Only the first 64 tokens of a sentence are translated." in tab.inner_text(NOTES)


def test_the_previous_translation_is_dimmed_while_the_next_one_is_computed(live):
    tab, errors = live
    change(tab, lambda: tab.fill(".translator textarea", SENTENCE))
    look = f"""() => {{
        const shown = document.querySelector("{TRANSLATION}");
        const stages = document.querySelector(".stages");
        return [getComputedStyle(shown).opacity, getComputedStyle(stages).opacity, shown.getAttribute("aria-busy")];
    }}"""
    tab.wait_for_function(f"({look})().join() === '1,1,false'")
    while_typing = tab.evaluate(
        f"""async () => {{
            const sentence = document.querySelector(".translator textarea");
            for (const letter of "I like music.") {{  // too fast for a translation
                sentence.value += letter;
                sentence.dispatchEvent(new Event("input", {{ bubbles: true }}));
                await new Promise(resume => setTimeout(resume, 60));
            }}
            return ({look})();
        }}"""
    )
    assert while_typing == ["0.4", "0.4", "true"]
    assert tab.inner_text(TRANSLATION) == expected(SENTENCE)[0][0]
    tab.wait_for_function(f"({look})().join() === '1,1,false'")
    assert tab.inner_text(TRANSLATION) == quantized(load_model(MODEL, "cpu")).translate(f"{SENTENCE}I like music.")
    assert errors == []


def test_several_sentences_are_translated_one_by_one_and_each_can_be_looked_at(live):
    tab, errors = live
    change(tab, lambda: tab.fill(".translator textarea", TEXT))
    assert tab.inner_text(TRANSLATION) == quantized(load_model(MODEL, "cpu")).translate(TEXT)
    sentences = tab.get_by_label("Sentence to inspect")
    assert sentences.locator("option").all_inner_texts() == split_sentences(TEXT) and sentences.input_value() == "0"
    assert n_best(tab) == expected("Mr. Smith is here.")
    change(tab, lambda: sentences.select_option("I love you."))
    assert n_best(tab) == expected("I love you.")
    change(tab, lambda: tab.fill(".translator textarea", SENTENCE))
    assert not sentences.is_visible() and n_best(tab) == expected(SENTENCE)
    assert errors == []


def test_a_head_can_be_enlarged_read_and_switched_off_with_the_keyboard(live):
    tab, _ = live
    tab.locator("[data-head='map decoder.2.cross_attention, head 1']").press("Enter")
    tab.locator(".translator .large tbody tr").nth(1).focus()
    assert " → " in tab.inner_text(".translator .large .status[aria-live]")
    tab.emulate_media(forced_colors="active")
    colours = ".translator .large td[style]", "cells => cells.map(cell => getComputedStyle(cell).backgroundColor)"
    assert len(set(tab.eval_on_selector_all(*colours))) > 9, "Windows's high contrast hides the weights"
    tab.emulate_media(forced_colors="none")
    box = "[data-head='box decoder.2.cross_attention, head 1']"
    change(tab, lambda: tab.locator(box).press("Space"))
    assert not tab.locator(box).is_checked()
    assert tab.evaluate("box => document.activeElement.matches(box)", box), "the focus was lost"


def test_a_row_of_the_decoder_is_the_token_that_is_predicted(live):
    """As in the figures of the chapters."""
    tab, _ = live
    change(tab, lambda: tab.fill(".translator textarea", SENTENCE))
    translator = quantized(load_model(MODEL, "cpu"))
    ((best, *_),) = translator.beam_search([SENTENCE], n_best=4)
    source, target = torch.tensor([[*translator.tokenizer.encode(SENTENCE), EOS]]), [BOS, *best.hypothesis.tokens]
    with torch.no_grad(), record_attention(translator.model) as recorded:
        translator.model(source, torch.tensor([target]))
    pieces = [
        [piece.removeprefix("▁") for piece in translator.tokenizer.pieces(ids)]
        for ids in (source[0].tolist(), target, [*target[1:], EOS])
    ]
    reads, is_read, predicted = pieces
    for name, rows, columns in (
        ("encoder.0.self_attention", reads, reads),
        ("decoder.0.self_attention", predicted, is_read),
        ("decoder.2.cross_attention", predicted, reads),
    ):
        kind = "cross_attention" if "cross" in name else f"{name.partition('.')[0]}_self"
        tab.eval_on_selector(f"[data-kind={kind}]", "fold => { fold.open = true }")
        tab.locator(f"[data-head='map {name}, head 2']").press("Enter")
        shown = tab.locator(".translator .enlarged")
        assert shown.locator("th[scope=row]").all_inner_texts() == rows
        assert shown.locator("th[scope=col]").all_inner_texts() == columns
        assert ("that is being predicted" in shown.inner_text()) == (rows is predicted)
        shown.locator("tbody tr").nth(3).focus()
        weights = recorded[name][0, 1, 3]
        reading = f"{rows[3]} → {columns[weights.argmax()]}: {weights.max():.3f}"
        assert shown.locator(".status[aria-live]").inner_text() == reading
        shown.locator("summary").click()
        assert f'{{"{name}": [1]}}' in shown.inner_text()


def test_another_model_comes_with_its_own_examples(live):
    tab, errors = live
    change(tab, lambda: tab.select_option(".translator select", label="German to English: captions of photographs"))
    sentence = tab.input_value(".translator textarea")
    assert tab.inner_text(TRANSLATION) == expected(sentence, model="multi30k-de-en")[0][0]
    about = tab.inner_text(".translator .about")
    assert "29,000 captions" in about and "got" not in about, "only the other models were tried"
    change(tab, lambda: tab.fill(".translator textarea", f"🙂 {sentence}"))
    assert tab.inner_text(NOTES).endswith("left out: 🙂")
    assert errors == []


def test_a_chosen_head_that_another_model_lacks_is_replaced(live):
    tab, errors = live
    layers = tab.locator(".stages > .stage", has=tab.locator("summary", has_text="Encoder layers"))
    layers.locator("summary").first.click()
    layers.locator(".stage summary").first.click()
    layers.get_by_label("head 6").first.check()
    label = "English to German: captions of photographs"  # a model with four heads
    change(tab, lambda: tab.select_option(".translator select", label=label))
    assert layers.get_by_label("head 4").first.is_checked() and layers.get_by_label("head 6").count() == 0
    assert errors == []


def test_a_translation_that_was_cut_off_is_reported(live):
    """A pocket model repeats itself when it reads another language."""
    tab, errors = live
    change(tab, lambda: tab.select_option(".translator select", label="English to German: the pocket corpus"))
    sentence = "ha " * 20
    change(tab, lambda: tab.fill(".translator textarea", sentence))
    ((best, *_),) = quantized(load_model("pocket-small", "cpu")).beam_search([sentence], 4, 0.6, 4)
    limit = min(len(quantized(load_model("pocket-small", "cpu")).encode(sentence)) + 50, 256)
    is_cut_off = len(best.hypothesis.tokens) + 1 == limit
    assert ("cut off at the search's maximum length" in tab.inner_text(STATUS)) == is_cut_off
    assert errors == []


def test_the_page_says_when_the_model_is_guessing(live):
    tab, _ = live
    change(tab, lambda: tab.fill(".translator textarea", "I love you."))
    assert tab.inner_text(".translator .unsure") == ""
    change(tab, lambda: tab.fill(".translator textarea", "I love you. Bond yields outpaced fiscal stimuli."))
    unsure = tab.inner_text(".translator .unsure")
    assert "The model is guessing at “Bond yields outpaced fiscal stimuli.”" in unsure
    assert f"trained only on {MODELS[MODEL]['trainedOn']}." in unsure


def test_the_first_page_translates_and_unfolds_how(opened, address, html):
    with opened(f"{address}index.html") as (tab, errors):
        wait_for_status(tab)
        assert tab.locator(TRANSLATION).bounding_box()["y"] < 500, "the translation is not on the first screen"
        assert not tab.locator(BEST).is_visible()
        example = tab.locator(".translator .examples button").nth(1)
        change(tab, example.click)
        assert tab.inner_text(TRANSLATION) == expected(example.inner_text())[0][0]
        tab.get_by_text("See how it did that").click()
        assert n_best(tab) == expected(example.inner_text())
        assert errors == []


def test_the_sentence_of_the_first_page_goes_along_to_the_translators_own(opened, address, html):
    with opened(f"{address}index.html") as (tab, errors):
        wait_for_status(tab)
        tab.fill(".translator textarea", SENTENCE)
        tab.get_by_role("link", name="Explore the translator").click()  # without waiting for the translation
        tab.wait_for_url("**/book/live.html*")
        wait_for_status(tab)
        assert tab.input_value(".translator textarea") == SENTENCE
        assert tab.inner_text(TRANSLATION) == expected(SENTENCE)[0][0]
        assert errors == []


def test_enter_translates_and_a_pasted_line_break_is_a_space(live):
    tab, errors = live
    field = tab.locator(".translator textarea")
    field.fill(SENTENCE)
    change(tab, lambda: field.press("Enter"))
    assert field.input_value() == SENTENCE
    change(tab, lambda: field.fill(SENTENCE.replace(" ", "\n", 1)))
    assert tab.inner_text(TRANSLATION) == expected(SENTENCE)[0][0]
    assert errors == []


def test_a_long_sentence_is_visible_as_a_whole(live):
    tab, _ = live
    height = "field => field.clientHeight"
    field = tab.locator(".translator textarea")
    one_line = field.evaluate(height)
    change(tab, lambda: field.fill(" ".join([SENTENCE] * 5)))
    assert field.evaluate(height) > 1.5 * one_line
    assert field.evaluate("field => field.scrollHeight - field.clientHeight") <= 1


def test_heads_are_in_rows_of_the_same_length_and_the_tree_fits_a_phone(opened, address, html):
    rows = """fold => [...fold.querySelectorAll(".layer")].map(layer => {
        const tops = [...layer.querySelectorAll(".head")].map(head => head.getBoundingClientRect().top);
        return [...new Set(tops)].map(top => tops.filter(other => other === top).length);
    })"""
    fits = "tree => tree.scrollWidth <= tree.clientWidth && tree.scrollHeight <= tree.clientHeight"
    sideways = "scroll it sideways"
    for look, expected_rows in (("wide", [6]), ("narrow", [3, 3])):
        with opened(f"{address}book/live.html", look) as (tab, errors):
            wait_for_status(tab)
            assert tab.eval_on_selector("[data-kind=cross_attention]", rows) == [expected_rows] * 3
            assert tab.eval_on_selector(".translator .tree", fits)
            assert not tab.get_by_text(sideways).is_visible()
            assert "continues until there are as many finished translations as the beam size" in tab.inner_text(".how")
            change(tab, lambda tab=tab: tab.get_by_label("Beam size", exact=True).fill("8"))
            assert tab.get_by_text(sideways).is_visible() == (not tab.eval_on_selector(".translator .tree", fits))
            assert errors == []
    heat_map = "await import('/_static/widgets/heatmap.mjs')"
    per_row = f"async () => {{ const {{ perRow }} = {heat_map}; return [1, 2, 4, 6, 7, 8, 12].map(n => perRow(n, 4)) }}"
    with opened(f"{address}book/live.html") as (tab, _):
        assert tab.evaluate(per_row) == [1, 2, 4, 3, 4, 4, 4]


def test_without_javascript_there_are_examples(browser, address, html):
    with browser.new_context(java_script_enabled=False) as context:
        tab = context.new_page()
        tab.goto(f"{address}book/live.html")
        assert expected("Two dogs are playing in the snow.", model="multi30k")[0][0] in tab.inner_text(".widget table")
        assert "With JavaScript" in tab.inner_text(".widget")


def test_a_model_that_fails_to_load_is_reported_and_loaded_again(browser, address, html):
    with browser.new_context() as context:
        tab = context.new_page()
        tab.route("**/*.safetensors", lambda route: route.abort())
        tab.goto(f"{address}book/live.html")
        failed = "could not be loaded (Failed to fetch). Press Enter in the sentence to try again."
        wait_for_status(tab, f"{failed} The translation shown was computed in advance.")
        first = tab.input_value(".translator textarea")
        assert tab.inner_text(TRANSLATION) == expected(first)[0][0]
        tab.get_by_label("Beam size", exact=True).fill("1")  # the one computed in advance is another one
        tab.wait_for_function("([one]) => document.querySelector(one).textContent === ''", arg=[TRANSLATION])
        wait_for_status(tab, failed)
        tab.unroute("**/*.safetensors")
        change(tab, lambda: tab.press(".translator textarea", "Enter"))
        assert tab.inner_text(TRANSLATION) == expected(first, beam=1)[0][0]


def test_a_link_carries_the_sentence_the_model_and_the_settings(live, opened, address):
    tab, _ = live
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    change(tab, lambda: tab.select_option(".translator select", label="English to German: captions of photographs"))
    change(tab, lambda: tab.fill(".translator textarea", "Two dogs & a cat? #1"))
    change(tab, lambda: tab.get_by_label("Beam size", exact=True).fill("2"))
    change(tab, lambda: tab.get_by_label("Cross-attention, layer 3, head 4 is on", exact=True).uncheck())
    tab.get_by_role("button", name="Copy link").click()
    wait_for_status(tab, "The link is on your clipboard.")
    link = tab.evaluate("navigator.clipboard.readText()")
    assert "?" not in link, "the sentence would be sent to the server"
    with opened(link) as (other, errors):
        wait_for_status(other, "1 head is off")
        assert other.input_value(".translator textarea") == "Two dogs & a cat? #1"
        assert "Beam size: 2" in other.inner_text(".settings")
        assert n_best(other) == n_best(tab)
        assert errors == []


def test_a_link_can_be_opened_in_the_page_that_is_open(live):
    tab, errors = live
    change(tab, lambda: tab.evaluate("location.hash = '#s=Two+dogs.&model=multi30k&beam=2&penalty=0.6'"))
    assert tab.input_value(".translator textarea") == "Two dogs."
    assert tab.inner_text(TRANSLATION) == expected("Two dogs.", beam=2, model="multi30k")[0][0]
    change(tab, lambda: tab.evaluate(f"location.hash = '#s=Two+cats.&model={MODEL}'"))
    assert tab.inner_text(TRANSLATION) == expected("Two cats.", beam=2)[0][0]
    tab.evaluate("location.hash = '#things-to-try'")
    assert tab.input_value(".translator textarea") == "Two cats."
    change(tab, lambda: tab.fill(".translator textarea", "Two birds."))
    tab.evaluate("new Promise(resume => { addEventListener('hashchange', resume, { once: true }); history.back() })")
    assert tab.input_value(".translator textarea") == "Two birds."
    assert errors == []


def test_what_a_link_carries_is_checked(live):
    tab, errors = live
    link = "#s=Two+cats.&beam=2&off=decoder.0.cross_attention.99+foo.1+constructor.1&model="
    change(tab, lambda: tab.evaluate(f"location.hash = '{link}{MODEL}'"))
    assert tab.inner_text(TRANSLATION) == expected("Two cats.", beam=2)[0][0]
    assert " off" not in tab.inner_text(STATUS)
    change(tab, lambda: tab.evaluate(f"location.hash = '{link}nonsense'"))
    assert "The link is for a model that this page doesn't have." in tab.inner_text(STATUS)
    assert errors == []


def test_an_unfinished_translation_is_not_copied_as_an_image(live):
    tab, _ = live
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.evaluate(
        """() => {
            const sentence = document.querySelector(".translator textarea");
            sentence.value = "Another sentence.";
            sentence.dispatchEvent(new Event("input", { bubbles: true }));
            [...document.querySelectorAll(".translator button")].find((b) => b.textContent === "Copy as image").click();
        }"""
    )
    wait_for_status(tab, "There is no translation to copy yet.")
    wait_for_status(tab)
    assert tab.inner_text(TRANSLATION) == expected("Another sentence.")[0][0]


def test_the_translation_is_copied_as_an_image(live):
    tab, errors = live
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.evaluate("void (navigator.clipboard.write = async () => { throw new Error('Permission denied.') })")
    tab.get_by_role("button", name="Copy as image").click()
    wait_for_status(tab, "didn't allow copying")
    assert tab.inner_text(STATUS).endswith(": Permission denied.")
    tab.evaluate("void delete navigator.clipboard.write")
    change(tab, lambda: tab.fill(".translator textarea", f"{'I like tea and cake and many other things, ' * 4}too."))
    tab.evaluate(
        """() => {
            const { fillText } = CanvasRenderingContext2D.prototype;
            window.room = [];
            CanvasRenderingContext2D.prototype.fillText = function (text, x, y, room) {
                window.room.push(room - this.measureText(text).width);
                fillText.call(this, text, x, y, room);
            };
        }"""
    )
    tab.get_by_role("button", name="Copy as image").click()
    wait_for_status(tab, "The image is on your clipboard.")
    assert tab.evaluate("Math.min(...window.room)") >= 0, "a text is compressed"
    colours = tab.evaluate(
        """async () => {
            const [item] = await navigator.clipboard.read();
            const image = await createImageBitmap(await item.getType("image/png"));
            const canvas = new OffscreenCanvas(image.width, image.height);
            canvas.getContext("2d").drawImage(image, 0, 0);
            const data = canvas.getContext("2d").getImageData(0, 0, image.width, image.height).data;
            return [image.width, new Set(new Uint32Array(data.buffer)).size];
        }"""
    )
    assert colours[0] == 1200 and colours[1] > 100
    assert errors == []


@pytest.mark.parametrize("name", ["everyday", "everyday-de-en", "multi30k"])
def test_the_first_example_changes_with_the_beam_size(name):
    first = MODELS[name]["sentences"][0]
    assert expected(first, beam=1, model=name)[0][0] != expected(first, model=name)[0][0]


def test_what_the_page_says_of_its_examples():
    first, second, news, _ = MODELS[MODEL]["sentences"]
    assert expected(first)[0][0] == "Wie komme ich von hier zum Museum?"
    assert expected(first, beam=1)[0][0] == "Wie komme ich vom Museum von hier zum Museum?"
    assert expected(second)[0][0] == "Mama sagt, das Abendessen sei in zwanzig Minuten fertig."
    assert expected(second, alpha=2)[0][0] == "Mama sagt, dass das Abendessen in zwanzig Minuten fertig sein wird."
    assert expected(news)[0][0] == "Die Centralbank hob seinen Schlüssel zum Zigarren."
    start = "Aufmerksamkeit ist alles, was"
    best, second, _, fourth = (text for text, _ in expected("Attention is all you need."))
    assert [best, second, fourth] == [f"{start} {end}" for end in ("du brauchst.", "Sie brauchen.", "ihr braucht.")]
    translator = quantized(load_model(MODEL, "cpu"))
    unchanged = 0
    for layer in ("encoder.{}.self_attention", "decoder.{}.self_attention", "decoder.{}.cross_attention"):
        for name, head in product(map(layer.format, range(3)), range(6)):
            with ablate_heads(translator.model, {name: [head]}):
                ((best,),) = translator.beam_search([first])
            unchanged += best.text == expected(first)[0][0]
            if (name, head) == ("decoder.2.cross_attention", 2):
                assert best.text == "Wie komme ich vom Museum aus ins Museum?"
    assert 34 < unchanged < 54


def test_the_links_of_things_to_try_set_up_the_translator(live):
    tab, errors = live
    examples = MODELS[MODEL]["sentences"]
    links = tab.locator("#things-to-try a[href^='#s=']")
    shown = {}
    for link in links.all():
        change(tab, link.click)
        shown[link.inner_text()] = (
            tab.input_value(".translator textarea"), tab.inner_text(TRANSLATION), tab.inner_text(STATUS)
        )  # fmt: skip
        assert tab.evaluate("document.querySelector('.translator').getBoundingClientRect().top") < 200
    assert {sentence for sentence, *_ in shown.values()} == {*examples, "Attention is all you need."}
    assert shown["Set the beam size to 1"][1] == expected(examples[0], beam=1)[0][0]
    assert shown["back to 4"][1] == expected(examples[0])[0][0]
    assert shown["Set the length penalty to 2"][1] == expected(examples[1], alpha=2)[0][0]
    ablated = shown["Ablate head 3 in layer 3 of the cross-attention"]
    assert ablated[1] == "Wie komme ich vom Museum aus ins Museum?" and "1 head is off" in ablated[2]
    assert errors == []


def test_at_the_example_from_the_news_the_page_says_that_the_model_guesses(live):
    """It is also on the first page, so that visitors see what the model doesn't know."""
    tab, errors = live
    change(tab, tab.get_by_role("button", name=MODELS[MODEL]["sentences"][2]).click)
    assert "The model is guessing: its tokens have an average probability" in tab.inner_text(".translator")
    assert errors == []
