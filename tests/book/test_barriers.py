"""Every built page as axe-core sees it: what it finds serious or critical is a barrier to a reader, and fails."""

from axe_playwright_python.sync_playwright import Axe

AXE = {
    "wide": {},
    "narrow": {"rules": {"color-contrast": {"enabled": False}}},  # slow, and a narrow page has the wide one's colours
    "dark": {"runOnly": ["color-contrast"]},  # and the dark one its structure
}
STILL = """Promise.all(document.getAnimations()
    .filter(one => one.effect.getComputedTiming().endTime < Infinity)
    .map(one => one.finished.catch(() => {})))"""
"""Waits for what fades in: half-way its colours are not those that are read."""
BARRIERS = ("serious", "critical")
FAULTS = {
    "wide": ("image-alt", "img", "<img src='data:,'>"),
    "narrow": ("button-name", "button", "<button></button>"),
    "dark": ("color-contrast", "p", "<p style='color: gray; background: dimgray'>Hardly to be read.</p>"),
}


def barriers(tab, look):
    """What axe-core finds serious or critical on a page: the rule, where, and what it asks for."""
    found = Axe().run(tab, options={"resultTypes": ["violations"], **AXE[look]}).response["violations"]
    return [
        f"{one['id']}: {' '.join(map(str, node['target']))}: {one['help']}"
        for one in found
        if one["impact"] in BARRIERS
        for node in one["nodes"]
    ]


def test_a_page_has_no_barriers(opened, address, page, look):
    with opened(address + page, look) as (tab, _):
        tab.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true })")
        tab.evaluate(STILL)
        found = barriers(tab, look)
        assert not found, "\n".join([f"{page}, {look}:", *found])


def test_a_barrier_is_found(opened, look):
    rule, tag, body = FAULTS[look]
    text = f"<html lang='en'><title>A page</title><main><h1>A page</h1>{body}</main></html>"
    with opened(f"data:text/html,{text}", look) as (tab, _):
        (found,) = barriers(tab, look)
        assert found.startswith(f"{rule}: {tag}: ")
        assert len(found) > len(f"{rule}: {tag}: ")


def test_the_search_finds_a_term(opened, address):
    with opened(f"{address}book/intro.html") as (tab, _):
        for term, found in {"softmax": True, "zyzzyva": False}.items():
            tab.keyboard.press("Control+k")
            tab.keyboard.type(term)
            tab.keyboard.press("Enter")
            tab.wait_for_url(f"**/search.html?q={term}*")
            tab.wait_for_function(
                "document.querySelector('#search-results .search-summary')?.innerText.includes('match')"
            )
            hits = tab.evaluate("[...document.querySelectorAll('#search-results li a')].map(a => a.innerText)")
            assert ("Attention" in hits) is found, (term, hits)
            assert barriers(tab, "wide") == []
