"""The directive ``{answers}``: the solutions of an exercise notebook, each in a dropdown."""

import re
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from exercises.make import read_solution
from exercises.notebooks import ROOT, answer_key

MARKS = re.compile(r"^# answer: .*\n|^ *### (?:BEGIN|END) SOLUTION\n?", flags=re.MULTILINE)
"""Lines in a solution that are for the tools, not for the reader."""


def folded_answers(source: Path) -> str:
    """Return a notebook's solutions as Markdown, each in a dropdown with its heading in the notebook."""
    text, heading = "", ""
    for cell in read_solution(source)["cells"]:
        match = re.match(r"## *(.*)", cell["source"])
        if cell["cell_type"] == "markdown" and match:
            heading = match[1]
        if key := answer_key(cell):
            code = MARKS.sub("", cell["source"]).strip()
            text += f":::{{dropdown}} {heading} · `{key}`\n```python\n{code}\n```\n:::\n\n"
    return text


class AnswersDirective(SphinxDirective):
    """``{answers} NN_topic``: the solutions of ``solutions/NN_topic.py``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the nodes in place of the directive."""
        source = ROOT / "solutions" / f"{self.arguments[0]}.py"
        self.env.note_dependency(str(source))
        container = nodes.Element()
        lines = StringList(folded_answers(source).splitlines(), self.env.docname)
        self.state.nested_parse(lines, self.content_offset, container)
        return container.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive with Sphinx."""
    app.add_directive("answers", AnswersDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
