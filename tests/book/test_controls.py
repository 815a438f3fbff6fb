"""What a reader presses on a chapter: the button that opens it in Colab or Binder, and folded code."""

from book._ext.course import RUN

PAGE = "chapters/02_attention.html"


def test_the_button_that_runs_a_chapter_says_so(opened, address, look):
    label = "Run" if look == "narrow" else RUN
    with opened(f"{address}{PAGE}", look) as (tab, _):
        button = tab.get_by_role("button", name=RUN, exact=True)
        shown = button.evaluate("button => getComputedStyle(button, '::after').content")
        assert shown.strip('"') == label and RUN.startswith(label)
        assert button.evaluate("button => getComputedStyle(button, '::after').display") == "block"
        box, width = button.bounding_box(), tab.viewport_size["width"]
        assert box["width"] > 60 and 0 < box["x"] < box["x"] + box["width"] < width
        button.click()
        assert tab.get_by_role("link", name="Colab").is_visible()


def test_folded_code_is_a_small_button_but_large_enough_for_a_finger(opened, address, look):
    with opened(f"{address}{PAGE}", look) as (tab, _):
        summary = tab.locator("details.hide > summary").locator("visible=true").first
        box = summary.bounding_box()
        assert box["width"] < 300 and box["height"] >= (32 if look == "narrow" else 24)
        title = summary.locator("p").locator("visible=true")
        weight, size = title.evaluate("p => [getComputedStyle(p).fontWeight, parseFloat(getComputedStyle(p).fontSize)]")
        assert weight == "400" and 12 <= size < 14
        summary.click()
        assert tab.locator("details.hide[open] .cell_input").is_visible()
