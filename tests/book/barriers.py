"""Accessibility of a page in a browser: the problems that axe-core reports as serious or critical."""

from contextlib import contextmanager

from axe_playwright_python.sync_playwright import Axe

COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
STRUCTURE = {"rules": {rule: {"enabled": False} for rule in COLOURS["runOnly"]}}
WIDTH = {"runOnly": ["aria-hidden-focus", "button-name", "link-name", "scrollable-region-focusable", "target-size"]}
AXE = {
    "structure": (STRUCTURE,),
    "colours": (COLOURS,),
    "wide": (STRUCTURE, COLOURS),
    "narrow": (WIDTH,),
    "dark": (COLOURS,),
}
"""What is checked: a dark page has the structure of the wide one, and so has a narrow page, which has its colours, too;
but a narrow one has other menus, and more that scrolls."""
REPEATED_COLOURS = """() => {
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
    return [...repeated, ...document.querySelectorAll("article svg")];
}"""
"""The words of code and the cells of tables that look like another one on the page, and drawings.

A page has thousands of those words and cells, and axe-core needs milliseconds for the colours of each. It doesn't know
the colours of drawings.
"""
SHAPES_AND_WORDS = """
    () => [...document.querySelectorAll("article :is(svg[role=img] > :not(title), pre span:not(:has(*)))")]
"""
"""The shapes of images, which are hidden from screen readers, and the words of code."""
REMOVE = """parts => {
    const places = parts.map(part => [part, document.createComment("")]);
    places.forEach(([part, place]) => part.replaceWith(place));
    return () => places.reverse().forEach(([part, place]) => place.replaceWith(part));
}"""
ANIMATIONS_FINISHED = """Promise.all(document.getAnimations()
    .filter(one => one.effect.getComputedTiming().endTime < Infinity)
    .map(one => one.finished.catch(() => {})))"""
"""Waits for the end of animations, during which colours are different."""
BARRIERS = ("serious", "critical")


@contextmanager
def without(tab, parts):
    """Take parts of a page, which a script returns, out of the document for a while."""
    put_back = tab.evaluate_handle(f"() => ({REMOVE})(({parts})())")
    yield
    put_back.evaluate("putBack => putBack()")


def barriers(tab, what):
    """Return the serious and critical problems of a page: the rule, the element, and how to fix it."""
    problems, options = [], {"resultTypes": ["violations"], "preload": False}
    for rules in AXE[what]:
        with without(tab, REPEATED_COLOURS if rules is COLOURS else SHAPES_AND_WORDS):
            problems += Axe().run(tab, options={**options, **rules}).response["violations"]
    return [
        f"{problem['id']}: {' '.join(map(str, node['target']))}: {problem['help']}"
        for problem in problems
        if problem["impact"] in BARRIERS
        for node in problem["nodes"]
    ]
