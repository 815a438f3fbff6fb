"""Accessibility of a page in a browser: the problems that axe-core reports as serious or critical."""

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


def barriers(tab, look):
    """Return the serious and critical problems of a page: the rule, the element, and how to fix it."""
    violations = Axe().run(tab, options={"resultTypes": ["violations"], **AXE[look]}).response["violations"]
    return [
        f"{violation['id']}: {' '.join(map(str, node['target']))}: {violation['help']}"
        for violation in violations
        if violation["impact"] in BARRIERS
        for node in violation["nodes"]
    ]
