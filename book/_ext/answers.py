"""The directive ``{answers}``: an exercise notebook's solutions on a page, each folded until it is wanted."""

import re
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from exercises.make import solution
from exercises.notebooks import ROOT, answer_key

MARKS = re.compile(r"^# answer: .*\n|^ *### (?:BEGIN|END) SOLUTION\n?", flags=re.MULTILINE)
"""What stands in a solution for the tools, and not for its reader."""


def folded_answers(source: Path) -> str:
    """A notebook's solutions in Markdown, a fold for each, under the heading that it has in the notebook."""
    text, heading = "", ""
    for cell in solution(source)["cells"]:
        found = re.match(r"## *(.*)", cell["source"])
        if cell["cell_type"] == "markdown" and found:
            heading = found[1]
        if key := answer_key(cell):
            code = MARKS.sub("", cell["source"]).strip()
            text += f":::{{dropdown}} {heading}: `{key}`\n```python\n{code}\n```\n:::\n\n"
    return text


class AnswersDirective(SphinxDirective):
    """``{answers} NN_topic``: the solutions of ``solutions/NN_topic.py``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Called by Sphinx where the directive stands."""
        source = ROOT / "solutions" / f"{self.arguments[0]}.py"
        self.env.note_dependency(str(source))
        box = nodes.Element()
        lines = StringList(folded_answers(source).splitlines(), self.env.docname)
        self.state.nested_parse(lines, self.content_offset, box)
        return box.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("answers", AnswersDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
