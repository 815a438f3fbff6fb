"""A widget and all that it imports as one file, for where there is no server: a notebook, or a page that stands alone.

The modules of ``book/widgets`` keep to a few forms of what JavaScript allows: ``import { a, b } from "./NAME.mjs";`` on
its own, and ``export`` before a function, a class or a const. So each can become a function that returns what others
import from it, with every comment where it was, and no bundler has to be installed.
"""

import re
from collections.abc import Iterator
from pathlib import Path

IMPORT = re.compile(r'^import \{ (\w+(?:, \w+)*) \} from "\./(\w+)\.mjs";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const)\b)", re.MULTILINE)
OTHER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
"""An import or export of another form."""
DEFAULT = "\nexport default { render };\n"
"""What makes a module a widget."""


def widgets(folder: Path) -> list[str]:
    """The names of the modules that are widgets; the others are there to be imported."""
    return sorted(path.stem for path in folder.glob("*.mjs") if DEFAULT in path.read_text("utf-8"))


def bundle(folder: Path, name: str) -> str:
    """The module ``name`` with all that it imports, as the text of one module that exports the same.

    Raises:
        ValueError: if a module has an import or an export of a form that is not read here.
    """
    texts = {module: (folder / f"{module}.mjs").read_text("utf-8") for module in _in_order(folder, name)}
    wanted: dict[str, set[str]] = {module: set() for module in texts}
    for text in texts.values():
        for names, module in IMPORT.findall(text):
            wanted[module] |= set(names.split(", "))
    parts = [f"// Made by `make notebooks` from {name}.mjs in book/widgets and what it imports: change it there.\n"]
    for module, text in texts.items():
        linked = IMPORT.sub(r"const { \1 } = $\2;", text)
        inner = EXPORT.sub("", linked)
        if other := OTHER.search(inner.replace(DEFAULT, "\n") if module == name else inner):
            raise ValueError(f"{module}.mjs: the bundle cannot be made with a line like {other[0]!r}")
        taken = ", ".join(sorted(wanted[module]))
        within = f"const ${module} = (() => {{\n{inner}\nreturn {{ {taken} }};\n}})();\n"
        parts.append(linked if module == name else within)
    return "\n".join(parts)


def _in_order(folder: Path, name: str) -> list[str]:
    """A module's name, after those of all modules that it needs."""

    def visit(module: str) -> Iterator[str]:
        for _, other in IMPORT.findall((folder / f"{module}.mjs").read_text("utf-8")):
            yield from visit(other)
        yield module

    return list(dict.fromkeys(visit(name)))
