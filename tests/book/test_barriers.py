"""Accessibility of every built page: axe-core reports no problem that is serious or critical."""

from axe_playwright_python.sync_playwright import Axe

AXE = {
    "wide": {},
    "narrow": {"rules": {"color-contrast": {"enabled": False}}},  # slow, and the colours are those of the wide page
    "dark": {"runOnly": ["color-contrast"]},  # the structure is that of the wide page
}
ANIMATIONS_FINISHED = """Promise.all(document.getAnimations()
    .filter(one => one.effect.getComputedTiming().endTime < Infinity)
    .map(one => one.finished.catch(() => {})))"""
"""Waits for the end of animations, during which colours are different."""
BARRIERS = ("serious", "critical")
EXAMPLES = {
    "wide": ("image-alt", "img", "<img src='data:,'>"),
    "narrow": ("button-name", "button", "<button></button>"),
    "dark": ("color-contrast", "p", "<p style='color: gray; background: dimgray'>Hard to read.</p>"),
}


def barriers(tab, look):
    """Return the serious and critical problems of a page: the rule, the element, and how to fix it."""
    violations = Axe().run(tab, options={"resultTypes": ["violations"], **AXE[look]}).response["violations"]
    return [
        f"{violation['id']}: {' '.join(map(str, node['target']))}: {violation['help']}"
        for violation in violations
        if violation["impact"] in BARRIERS
        for node in violation["nodes"]
    ]


def test_a_page_has_no_barriers(opened, address, page, look):
    with opened(address + page, look) as (tab, _):
        tab.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true })")
        tab.evaluate(ANIMATIONS_FINISHED)
        problems = barriers(tab, look)
        assert not problems, "\n".join([f"{page}, {look}:", *problems])


def test_a_barrier_is_detected(opened, look):
    rule, tag, body = EXAMPLES[look]
    text = f"<html lang='en'><title>A page</title><main><h1>A page</h1>{body}</main></html>"
    with opened(f"data:text/html,{text}", look) as (tab, _):
        (problem,) = barriers(tab, look)
        assert problem.startswith(f"{rule}: {tag}: ")
        assert len(problem) > len(f"{rule}: {tag}: ")


def test_the_search_finds_a_term(opened, address):
    with opened(f"{address}book/intro.html") as (tab, _):
        for term, is_found in {"softmax": True, "zyzzyva": False}.items():
            tab.keyboard.press("Control+k")
            tab.keyboard.type(term)
            tab.keyboard.press("Enter")
            tab.wait_for_url(f"**/search.html?q={term}*")
            tab.wait_for_function(
                "document.querySelector('#search-results .search-summary')?.innerText.includes('match')"
            )
            hits = tab.evaluate("[...document.querySelectorAll('#search-results li a')].map(a => a.innerText)")
            assert ("Attention" in hits) is is_found, (term, hits)
            assert barriers(tab, "wide") == []
