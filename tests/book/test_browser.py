"""Every built page in Chromium, without network: wide, on a phone, in dark mode, on paper, and with the keyboard."""

from playwright.sync_api import TimeoutError

from book.browser import visit
from book.pdf import WIDTH
from tests.book.barriers import ANIMATIONS_FINISHED, barriers


def test_a_page_opens_without_errors_and_fits(shown):
    _, _, tab, errors = shown
    tab.evaluate("scrollTo(0, document.body.scrollHeight)")
    backgrounds = "[...document.querySelectorAll('[id^=altair-viz] svg')].map(s => getComputedStyle(s).backgroundColor)"
    assert set(tab.evaluate(backgrounds)) <= {"rgba(0, 0, 0, 0)"}, "a chart hides the background of the page"
    assert tab.query_selector("mjx-merror") is None, "a formula has an error"
    assert tab.evaluate("[...document.images].filter(image => !image.naturalWidth).map(image => image.src)") == []
    assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 1, (
        "the page scrolls horizontally"
    )
    assert errors == []


def test_no_code_is_cut_off_and_nothing_is_too_wide_for_the_smallest_phone(shown):
    _, look, tab, _ = shown
    if look == "wide":
        cut = "[...document.querySelectorAll('.cell_input pre')].filter(pre => pre.scrollWidth > pre.clientWidth + 1)"
        assert tab.evaluate(f"{cut}.map(pre => pre.innerText)") == []
    if look == "narrow":
        size = tab.viewport_size
        tab.set_viewport_size({"width": 320, "height": size["height"]})
        excess = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        tab.set_viewport_size(size)
        assert excess <= 1, "the page scrolls horizontally at 320 pixels"


def test_a_folded_cell_says_what_is_in_it(shown):
    page, look, tab, _ = shown
    if look == "wide":
        labels = tab.evaluate("[...document.querySelectorAll('details.hide .collapsed')].map(one => one.textContent)")
        assert all(label.startswith("Show the ") for label in labels)
        if page.startswith("chapters/"):
            assert labels[0] == "Show the setup for Colab" and "Show the code for this figure" in labels


def open_details(tab):
    tab.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true })")
    tab.evaluate(ANIMATIONS_FINISHED)


def test_a_page_has_no_barriers(shown):
    _, look, tab, _ = shown
    if look != "dark":
        open_details(tab)
        assert barriers(tab, "structure" if look == "wide" else look) == []


def test_colours_have_enough_contrast(shown):
    _, look, tab, _ = shown
    if look != "narrow":
        open_details(tab)
        assert barriers(tab, "colours") == []


def assert_none(tab, parts):
    """Check that a script returns no parts of the page, at the latest when charts are drawn anew."""
    try:
        tab.wait_for_function(f"{parts}.length === 0", timeout=5000)
    except TimeoutError:
        assert tab.evaluate(parts) == []


def test_nothing_is_cut_off_on_paper(shown):
    _, look, tab, _ = shown
    if look != "wide":
        return
    size = tab.viewport_size
    tab.set_viewport_size({"width": WIDTH, "height": 1000})
    tab.emulate_media(media="print")
    parts = f"""[...document.querySelectorAll("article :is(table, pre, img, svg)")]
        .filter(part => part.getBoundingClientRect().right > {WIDTH}).map(part => part.outerHTML.slice(0, 200))"""
    try:
        assert_none(tab, parts)
    finally:
        tab.emulate_media(media="screen")
        tab.set_viewport_size(size)


def tab_to(tab, selector):
    """Press the Tab key until an element that matches ``selector`` has the focus; check that every focus is visible."""
    for _ in range(300):
        tab.keyboard.press("Tab")
        element = tab.evaluate_handle("document.activeElement")
        is_visible = element.evaluate(
            "e => { const s = getComputedStyle(e);"
            " return s.opacity !== '0' && (s.outlineStyle !== 'none' || s.boxShadow !== 'none') }"
        )
        assert is_visible, f"the focus is not visible on {element.evaluate('e => e.outerHTML.slice(0, 200)')}"
        if element.evaluate("(e, selector) => e.matches(selector)", selector):
            return element
    raise AssertionError(f"Tab doesn't reach {selector}")


def test_the_keyboard_reaches_the_search_a_chart_and_an_answer(opened, address):
    with opened(f"{address}chapters/02_attention.html") as (tab, _):
        tab.add_style_tag(content="* { transition: none !important }")
        tab_to(tab, ".search-button__button")

        drawn = "document.querySelector('.vega-embed:has(.vega-bind) svg').outerHTML"
        slider, before = tab_to(tab, ".vega-bind input"), tab.evaluate(drawn)
        slider.press("ArrowRight")
        tab.wait_for_function(f"before => {drawn} !== before", arg=before)

        answer = tab_to(tab, "details:not(.hide) > summary")
        assert not answer.evaluate("e => e.parentElement.open")
        answer.press("Enter")
        assert answer.evaluate("e => e.parentElement.open")


def test_code_is_copied_by_a_button(opened, address):
    with opened(f"{address}chapters/02_attention.html") as (tab, _):
        tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
        cells = tab.query_selector_all("div.cell_input div.highlight:visible")
        assert cells and all(cell.query_selector("button.copybtn") for cell in cells)
        cells[0].hover()
        cells[0].query_selector("button.copybtn").click()
        copied = tab.evaluate("navigator.clipboard.readText()")
        assert copied.strip() == cells[0].query_selector("pre").inner_text().strip()


def test_the_contents_mark_the_section_that_is_being_read(opened, address):
    """After jumps in both directions, and after a click on a section that cannot be scrolled to the top."""
    marked = "[...document.querySelectorAll('#pst-page-toc-nav a.active')].map(link => link.hash.slice(1))"
    above = """
        [...document.querySelectorAll('article :is(h2, h3)')]
            .filter(heading => heading.getBoundingClientRect().top < innerHeight / 3).at(-1)?.closest('section').id
    """
    with opened(f"{address}chapters/02_attention.html") as (tab, _):
        height = tab.evaluate("document.documentElement.scrollHeight")
        down = range(3000, height, 3000)
        for y in (*down, *reversed(down)):
            tab.evaluate("y => scrollTo({top: y, behavior: 'instant'})", y)
            tab.wait_for_function(f"{marked}.join() === {above}")
        # On a slow machine, the theme's own mark comes late.
        tab.evaluate("document.querySelector('#pst-page-toc-nav a').classList.add('active')")
        tab.wait_for_function(f"{marked}.join() === {above}")
        last = tab.locator("#pst-page-toc-nav a").last
        last.click()
        tab.wait_for_function(f"link => {marked}.join() === link.hash.slice(1)", arg=last.element_handle())


def test_the_rest_of_a_wrapped_line_is_indented_more_than_the_line(opened, address):
    """Otherwise it would look like the next line of the program. What a reader selects is still the program."""
    measured = """
    [...document.querySelectorAll('.cell_input .code-line')].filter(line => line.offsetParent).map(line => {
      const boxes = node => {
        const range = document.createRange();
        range.selectNodeContents(node);
        return [...range.getClientRects()].filter(box => box.width);
      };
      const texts = document.createNodeIterator(line, NodeFilter.SHOW_TEXT);
      let first = texts.nextNode();
      while (!first.data.trim()) first = texts.nextNode();
      const [start] = boxes(first);
      const rest = boxes(line).filter(box => box.top >= start.bottom).map(box => box.left - start.left);
      return [line.textContent, Math.min(...rest, 999), start.top - boxes(line)[0].top];
    })"""
    select = "pre => { getSelection().selectAllChildren(pre); return getSelection().toString(); }"
    with opened(f"{address}chapters/06_layers.html", "narrow") as (tab, errors):
        lines = tab.evaluate(measured)
        blocks = tab.query_selector_all("div.cell_input div.highlight:visible pre")
        assert all(pre.evaluate(select).strip() == pre.text_content().strip() for pre in blocks)
        assert errors == []
    wrapped = {line: pixels for line, pixels, _ in lines if pixels < 999}
    assert len(wrapped) > 10 and any(line.startswith("        ") for line in wrapped)
    assert all(10 < pixels < 20 for pixels in wrapped.values()), wrapped  # two characters
    assert all(above < 1 for _, _, above in lines), "the spaces at the start of a line are alone on it"


def test_every_chart_fits_a_phone(shown):
    _, look, tab, _ = shown
    if look == "narrow":
        boxes = "[...document.querySelectorAll('.text_html:has(.vega-embed)')]"
        assert_none(tab, f"{boxes}.map(box => box.scrollWidth - box.clientWidth).filter(excess => excess > 1)")


def test_a_chart_is_as_wide_as_it_should_be_when_a_phone_is_turned(opened, address):
    width = "document.querySelector('[id^=altair-viz] svg').getBoundingClientRect().width"
    with opened(f"{address}chapters/17_wmt14.html") as (tab, errors):
        wide = tab.evaluate(width)
        for _ in range(2):
            tab.set_viewport_size({"width": 390, "height": 900})
            tab.wait_for_function(f"{width} < 390")
            tab.set_viewport_size({"width": 900, "height": 390})
            tab.wait_for_function(f"wide => Math.abs({width} - wide) <= 1", arg=wide)
        assert wide > 390 and errors == []
    with opened(f"{address}chapters/17_wmt14.html", "narrow") as (tab, errors):
        tab.wait_for_function(f"{width} < 390")
        assert errors == []


def test_two_panels_of_a_chart_are_side_by_side_where_the_window_is_wide(opened, address):
    width = "document.querySelector('[id^=altair-viz] svg').getBoundingClientRect().width"
    with opened(f"{address}chapters/03_multi_head_attention.html") as (tab, errors):
        tab.wait_for_selector("[id^=altair-viz] svg")
        assert tab.evaluate(width) > 450
        tab.set_viewport_size({"width": 390, "height": 900})
        tab.wait_for_function(f"{width} < 390")
        assert errors == []


def test_on_a_small_phone_panels_shrink_and_a_tap_shows_a_tooltip(browser, address):
    phone = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    with browser.new_context(**phone) as context:
        tab = context.new_page()
        visit(tab, f"{address}chapters/07_full_model.html")
        boxes = "[...document.querySelectorAll('.text_html:has(.vega-embed)')]"
        assert_none(tab, f"{boxes}.filter(box => box.scrollWidth > box.clientWidth + 1).map(box => box.id)")

        visit(tab, f"{address}chapters/06_layers.html")
        tab.locator(".vega-embed .mark-rect.role-mark path").nth(2).tap()
        tooltip = tab.locator("#vg-tooltip-element.visible")
        tooltip.wait_for()
        assert "deviation" in tooltip.inner_text()
        tab.locator("figcaption").first.tap()
        tooltip.wait_for(state="hidden")
