"""Long lines of code that a phone wraps: where they can't be broken."""

import re

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from book._ext.course import indent_wrapped_lines


def test_an_arrow_or_a_minus_sign_is_never_separated_from_what_belongs_to_it() -> None:
    code = (
        "def difference(source: Tensor, target: Tensor) -> Tensor:\n"
        "    the_sum_of_all_differences -= source - -1 * target\n"
        "    y -= 1\n"
    )
    html = highlight(code, PythonLexer(), HtmlFormatter())
    context = {"body": f'<div class="highlight-python">{html}</div>'}
    indent_wrapped_lines(None, "", "", context, None)  # type: ignore[arg-type]
    unbroken = re.findall(
        r'<span class="unbroken">(<span class="o">.*?</span>(?:<[^>]*>1</span>)?)</span>', context["body"]
    )
    assert [re.sub("<[^>]*>", "", part) for part in unbroken] == ["-&gt;", "-=", "-1"]
    assert re.sub("<[^>]*>", "", context["body"]) == re.sub("<[^>]*>", "", html)
