"""The small widgets of the chapters: each is drawn, works with the keyboard, fits on a phone, and has no barriers."""

from unittest.mock import Mock

import pytest
from axe_playwright_python.sync_playwright import Axe
from docutils.parsers.rst import DirectiveError

from book._ext.widgets import WidgetDirective
from tests.book.barriers import BARRIERS

SMALL_WIDGETS = {
    "attention": ("02_attention", "circle[aria-label^=query]", "ArrowRight", "Attention of the query (1.3, 0.6)"),
    "masks": ("04_masking", "label:last-child input", "Space", "5 of 5 rows sum to less than one"),
    "positions": ("05_positional_encoding", "input[aria-label=position]", "ArrowRight", "Orange: position 6"),
    "norm": ("06_layers", "input[type=checkbox]", "Space", "Pre-norm, x + sublayer(norm(x))"),
    "merges": ("08_subword_tokenization", "button:nth-of-type(2)", "Enter", "1 of 10 merges. The last one made ea."),
    "smoothing": (
        "10_label_smoothing",
        "input[aria-label^=probability]",
        "End",
        "a gradient step lowers the model's probability",
    ),
    "schedule": ("11_training", "input[aria-label=d_model]", "ArrowLeft", "1.41 times as high"),
}
"""For each widget: its chapter, a control, a key, and a text that is shown after the key has been pressed."""


REMOVE_THE_REST = """widget => {
    for (let part = widget; part !== document.body; part = part.parentElement)
        for (const other of [...part.parentElement.children]) if (other !== part) other.remove();
}"""


def barriers(tab, widget, **only):
    """Remove the rest of the page, which saves seconds; return axe-core's serious and critical problems in a widget."""
    widget.evaluate(REMOVE_THE_REST)
    options = {"resultTypes": ["violations"], "preload": False, **only}
    violations = Axe().run(tab, context=".small-widget", options=options).response["violations"]
    return [(v["id"], node["html"][:200]) for v in violations if v["impact"] in BARRIERS for node in v["nodes"]]


@pytest.mark.parametrize("name", SMALL_WIDGETS)
def test_a_widget_works_and_fits(opened, address, html, name):
    chapter, control, key, text = SMALL_WIDGETS[name]
    with opened(f"{address}chapters/{chapter}.html") as (tab, errors):
        tab.locator(f"[data-widget={name}]").scroll_into_view_if_needed()
        widget = tab.locator(f"[data-widget={name}] .small-widget")
        widget.wait_for()
        assert text not in widget.inner_text()
        widget.locator(control).first.press(key)
        assert text in widget.inner_text()
        assert widget.locator(control).first.evaluate("element => element === document.activeElement"), (
            "the focus was lost"
        )
        size = tab.viewport_size
        tab.set_viewport_size({"width": 390, "height": 900})
        assert widget.evaluate("e => e.getBoundingClientRect().right <= 390 && e.scrollWidth <= e.clientWidth")
        tab.set_viewport_size(size)
        assert errors == []

        assert barriers(tab, widget) == [] and widget.locator("th:empty").count() == 0
        tab.evaluate("document.documentElement.dataset.theme = 'dark'")
        assert barriers(tab, widget, runOnly=["color-contrast"]) == []
        tab.emulate_media(forced_colors="active")
        colours = "bars => bars.map(bar => [getComputedStyle(bar).backgroundColor, bar.style.backgroundColor])"
        bars = widget.locator("span[style*='background: #']").evaluate_all(colours)
        assert all(shown == meant for shown, meant in bars), "Windows's high contrast hides the bars"


MOUNT = """async names => {
    for (const name of names) {
        const el = document.body.appendChild(document.createElement("div"));
        el.id = name;
        (await import(`/_static/widgets/${name}.mjs`)).default.render({ el });
    }
}"""


@pytest.fixture(scope="module")
def light(opened, address, html):
    """A page without widgets."""
    with opened(f"{address}book/faq.html") as (tab, _):
        yield tab


def test_controls_end_where_there_is_nothing_more(light):
    light.evaluate(MOUNT, ["merges", "positions"])
    merges, positions = light.locator("#merges"), light.locator("#positions")
    disabled = "buttons => buttons.map(button => button.getAttribute('aria-disabled') === 'true')"
    assert merges.locator("button").evaluate_all(disabled) == [True, False, False, True]
    merges.get_by_role("button", name="To the end").click()
    assert merges.locator("button").evaluate_all(disabled) == [False, True, True, False]
    assert merges.locator("table").count() == 1, "at the end there are no pairs"
    positions.get_by_label("distance k").fill("-5")
    assert "Blue: position 5. Orange: position 0, the first one." in positions.inner_text()
    assert "−" in positions.inner_text()
    assert [text for text in ("-", "−0.00", "360.0") if text in positions.inner_text()] == []


def test_copies_of_the_widgets_do_not_share_names(light):
    """In a notebook, each widget has its own copy of the modules; radio buttons of the same name exclude each other."""
    names = light.evaluate(
        """async () => {
            const name = ({ radios }) => radios("", [["one"]], 0).querySelector("input").name;
            return Promise.all([1, 1, 2].map(async copy => name(await import(`/_static/widgets/parts.mjs?${copy}`))));
        }"""
    )
    assert len(set(names)) == 3


def test_an_unknown_widget_is_an_error():
    with pytest.raises(DirectiveError) as error:
        WidgetDirective("widget", ["translater"], {}, [], 1, 0, "", Mock(), Mock()).run()
    assert error.value.msg == "there is no widget 'translater' with content; choose from translator"


def test_a_widget_that_loads_late_keeps_the_focus(browser, address, html):
    with browser.new_context() as context:
        tab, held = context.new_page(), []
        tab.route("**/widgets/attention.mjs", lambda route: held.append(route))
        with tab.expect_request("**/widgets/attention.mjs"):
            tab.goto(f"{address}chapters/02_attention.html", wait_until="domcontentloaded")
            tab.locator("[data-widget=attention]").scroll_into_view_if_needed()
        tab.evaluate("document.querySelector('[data-widget=attention] table').setAttribute('tabindex', 0)")
        tab.locator("[data-widget=attention] table").focus()
        held.pop().continue_()
        tab.locator("[data-widget=attention] .small-widget").wait_for()
        assert tab.evaluate("document.activeElement.matches('[data-widget=attention] .small-widget input')")


def test_without_javascript_the_page_shows_the_initial_state(browser, address, html):
    with browser.new_context(java_script_enabled=False) as context:
        tab = context.new_page()
        for name, (chapter, *_) in SMALL_WIDGETS.items():
            tab.goto(f"{address}chapters/{chapter}.html", wait_until="domcontentloaded")
            content = tab.locator(f"[data-widget={name}]")
            assert "Its initial state" in content.inner_text() and content.locator("table").count() == 1
