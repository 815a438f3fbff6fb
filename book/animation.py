"""Make the animation of the live translator that the README shows: ``python -m book.animation``.

A browser types a sentence, word by word, into the built book, switches an attention head off, and switches it on again.
The animation lasts about as long as it takes to read. A frame is taken when a translation is ready, so the animation
looks the same whatever the speed of the machine.
"""

import io
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, ViewportSize, sync_playwright

from book.browser import find_browser, launch, serve_book, visit

PATH = Path(__file__).parent / "images" / "live.webp"
SENTENCE = "I'm happy because the sun is shining."
HEAD = "Cross-attention, layer 3, head 4 is on"
SIZE = ViewportSize(width=760, height=560)
STYLE = """
.bd-sidebar-primary, .bd-sidebar-secondary, .bd-header-article, #pst-back-to-top { display: none !important; }
.bd-article > section > :not(.widget) { display: none !important; }
.bd-article { padding: 0 !important; }
.translator { margin: 0; }
.translator .translation { position: sticky; top: 0; z-index: 1; padding: .5rem 0; background: var(--surface); }
"""
"""Only the translator is shown, and its translation stays in view."""


class Film:
    """The frames that a tab showed, each with its duration in milliseconds."""

    def __init__(self, tab: Page) -> None:
        self.tab = tab
        self.frames: list[Image.Image] = []
        self.durations: list[int] = []

    def take(self, milliseconds: int) -> None:
        """Add what the tab shows now."""
        self.frames.append(Image.open(io.BytesIO(self.tab.screenshot())).convert("RGB"))
        self.durations.append(milliseconds)

    def wait_and_take(self, milliseconds: int) -> None:
        """Wait for the translation, then add what the tab shows."""
        status = "document.querySelector('.translator [role=status]').textContent"
        self.tab.wait_for_function(f"{status}.includes('in your browser')", timeout=60_000)
        self.take(milliseconds)

    def change(self, act: str, milliseconds: int) -> None:
        """Run JavaScript that changes something, and add the new translation."""
        self.tab.evaluate("document.querySelector('.translator [role=status]').textContent = ''")
        self.tab.evaluate(act)
        self.wait_and_take(milliseconds)

    def save(self, path: Path) -> None:
        """Write the frames as an animated WebP, which repeats."""
        first, *others = self.frames
        first.save(path, save_all=True, append_images=others, duration=self.durations, loop=0, quality=60, method=6)


def record(tab: Page) -> Film:
    """Play the scene in a tab that shows the live translator."""
    film = Film(tab)
    box = f"document.querySelector('[aria-label=\"{HEAD}\"]')"
    tab.add_style_tag(content=STYLE)
    tab.wait_for_selector(".translator")
    words = SENTENCE.split()
    for count in range(1, len(words) + 1):
        field = "document.querySelector('.translator textarea')"
        act = f"{field}.value = {' '.join(words[:count])!r}; {field}.dispatchEvent(new Event('input'))"
        film.change(act, 500)
    film.take(2500)
    tab.evaluate(f"{box}.closest('fieldset').scrollIntoView({{ block: 'center' }})")
    film.take(2000)
    film.change(f"{box}.click()", 4000)
    film.change(f"{box}.click()", 2500)
    return film


def main() -> int:
    """Write the animation and print its path; return the exit code."""
    if find_browser() is None:
        print("error: the animation needs Chromium or Chrome: install one of them", file=sys.stderr)
        return 1
    with serve_book() as address, sync_playwright() as playwright:
        browser = launch(playwright)
        tab = browser.new_page(viewport=SIZE, color_scheme="light")
        visit(tab, f"{address}book/live.html")
        record(tab).save(PATH)
        browser.close()
    print(f"Wrote {PATH} ({PATH.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
