"""The check of accessibility, with axe-core, detects barriers; on every page it is in `test_browser`."""

from tests.book.barriers import barriers

EXAMPLES = {
    "wide": ("image-alt", "img", "<img src='data:,'>"),
    "narrow": ("button-name", "button", "<button></button>"),
    "dark": ("color-contrast", "p", "<p style='color: gray; background: dimgray'>Hard to read.</p>"),
}


def test_a_barrier_is_detected(opened, look):
    rule, tag, body = EXAMPLES[look]
    text = f"<html lang='en'><title>A page</title><main><h1>A page</h1>{body}</main></html>"
    with opened(f"data:text/html,{text}", look) as (tab, _):
        (problem,) = barriers(tab, look)
        assert problem.startswith(f"{rule}: {tag}: ")
        assert len(problem) > len(f"{rule}: {tag}: ")


def test_the_search_finds_a_term(opened, address):
    with opened(f"{address}index.html") as (tab, _):
        for term, is_found in {"softmax": True, "zyzzyva": False}.items():
            tab.keyboard.press("Control+k")
            tab.keyboard.type(term)
            tab.keyboard.press("Enter")
            tab.wait_for_url(f"**/search.html?q={term}*")
            tab.wait_for_function(
                "document.querySelector('#search-results .search-summary')?.innerText.includes('match')"
            )
            hits = tab.evaluate("[...document.querySelectorAll('#search-results li a')].map(a => a.innerText)")
            assert ("2. Attention" in hits) is is_found, (term, hits)
            assert barriers(tab, "wide") == []
