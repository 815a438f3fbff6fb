"""Lighter pages: without scripts and styles that a page doesn't use, and without icons that no page uses."""

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

NEEDED_BY = {
    "sphinx-thebe|THEBE_JS_URL": None,  # runs code on a server, which the book doesn't offer
    "sphinx-design": "sd-",
    "design-tabs": "sd-tab-set",
    "exercise.css": "exercise",
    "proof.css": "proof",
    "toggle": 'toggle|admonition [^"]*dropdown',
    "mathjax": 'math[ "]',
    "clipboard|copybutton": "highlight",
    "mystnb": "cell",
}
"""What the name or the text of a script or stylesheet contains → the classes that need it, or None if no page does."""

ICON = re.compile(r'"?([\w-]+)"?:\[\d+,\d+,\[([^\]]*)\],"[0-9a-f]+",(?:"[^"]*"|\[[^\]]*\])\],?')
"""The name, the other names and the shape of an icon in Font Awesome's script."""
QUOTED = re.compile('"([^"]*)"')


def drop_unused(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Remove scripts and styles from a page that it doesn't need."""
    body = context.get("body") or ""

    def is_needed(asset: Any) -> bool:
        text = f"{asset.filename} {asset.attributes.get('body', '')}"
        needs = [classes for part, classes in NEEDED_BY.items() if re.search(part, text, re.IGNORECASE)]
        return all(classes and re.search(rf'class="([^"]* )?({classes})', body) for classes in needs)

    for kind in ("script_files", "css_files"):
        context[kind] = [asset for asset in context[kind] if is_needed(asset)]


def drop_icons(app: Sphinx, error: Exception | None) -> None:
    """Keep only those icons in Font Awesome's script whose names occur in a page or in another script of the theme."""
    if error or app.builder.format != "html":
        return
    out = Path(app.outdir)
    (script,) = out.glob("_static/scripts/fontawesome.js")
    others = [*out.rglob("*.html"), *(path for path in script.parent.glob("*.js") if path != script)]
    used = {name for path in others for name in re.findall(r"\bfa-([a-z0-9-]+)", path.read_text("utf-8"))}
    text = script.read_text("utf-8")
    script.write_text(
        ICON.sub(lambda icon: icon[0] if used & {icon[1], *QUOTED.findall(icon[2])} else "", text), "utf-8"
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the event handlers with Sphinx."""
    app.connect("html-page-context", drop_unused, priority=950)  # after other extensions have added theirs
    app.connect("build-finished", drop_icons)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
