"""Accessibility of a page in a browser: the problems that axe-core reports as serious or critical."""

from contextlib import contextmanager

from axe_playwright_python.sync_playwright import Axe

COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
STRUCTURE = {"rules": {rule: {"enabled": False} for rule in COLOURS["runOnly"]}}
AXE = {"wide": (STRUCTURE, COLOURS), "narrow": (STRUCTURE,), "dark": (COLOURS,)}
"""What is checked: a narrow page has the colours of the wide one, and a dark page its structure."""
HIDE_REPEATED = """() => {
    const seen = new Set();
    const background = one => {
        const colour = getComputedStyle(one).backgroundColor;
        return colour !== "rgba(0, 0, 0, 0)" || !one.parentElement ? colour : background(one.parentElement);
    };
    const faded = one => one ? getComputedStyle(one).opacity * faded(one.parentElement) : 1;
    const repeated = [...document.querySelectorAll("article :is(pre span, td, td *):not(:has(*))")].filter(one => {
        const {color, fontSize, fontWeight} = getComputedStyle(one);
        const look = [color, background(one), faded(one), fontSize, fontWeight].join();
        return seen.has(look) || !seen.add(look);
    });
    const drawings = document.querySelectorAll("article svg");
    const hidden = [...repeated, ...drawings].map(one => [one.style, one.style.display]);
    hidden.forEach(([style]) => { style.display = "none" });
    return () => hidden.forEach(([style, display]) => { style.display = display });
}"""
ANIMATIONS_FINISHED = """Promise.all(document.getAnimations()
    .filter(one => one.effect.getComputedTiming().endTime < Infinity)
    .map(one => one.finished.catch(() => {})))"""
"""Waits for the end of animations, during which colours are different."""
BARRIERS = ("serious", "critical")


@contextmanager
def without_repeated_colours(tab):
    """Hide the words of code and the cells of tables that look like another one on the page, and drawings.

    A page has thousands of those words and cells, and axe-core needs milliseconds for the colours of each. It doesn't
    know the colours of drawings.
    """
    show = tab.evaluate_handle(HIDE_REPEATED)
    yield
    show.evaluate("show => show()")


def barriers(tab, look):
    """Return the serious and critical problems of a page: the rule, the element, and how to fix it."""
    problems = []
    for rules in AXE[look]:
        options = {"resultTypes": ["violations"], **rules}
        if rules is COLOURS:
            with without_repeated_colours(tab):
                problems += Axe().run(tab, options=options).response["violations"]
        else:
            problems += Axe().run(tab, options=options).response["violations"]
    return [
        f"{problem['id']}: {' '.join(map(str, node['target']))}: {problem['help']}"
        for problem in problems
        if problem["impact"] in BARRIERS
        for node in problem["nodes"]
    ]
