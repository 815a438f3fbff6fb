"""Check answers on a page of the book, where Python runs in the reader's browser, without PyTorch and without Jupyter.

`book/widgets/python_worker.mjs` calls this module. Like the kernel of a notebook, it keeps the variables of each topic.
"""

import contextlib
import io
import linecache
import traceback
from collections import defaultdict
from typing import Any

from exercises.check import WrongAnswerError

_variables: dict[str, dict[str, Any]] = defaultdict(dict)
"""For each topic, the variables that its setup and its answers have defined."""


def check_answer(topic: str, setup: str, name: str, code: str) -> tuple[bool, str]:
    """Run the setup, an answer and its check, as the cells of a notebook.

    Args:
        topic: the topic, such as ``subword_tokenization``.
        setup: the code of the cell that imports ``check``.
        name: the name of the exercise, which is that of the function to define.
        code: the code of the answer.

    Returns:
        Whether the answer is right, and the text that a notebook would show.
    """
    variables = _variables[topic]
    variables.pop(name, None)
    cells = {"setup": setup, name: code, "check": f'check("{name}", {name})'}
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            for cell, source in cells.items():
                _run(source, f"<{cell}>", variables)
        except WrongAnswerError as error:
            return False, f"{output.getvalue()}{error}"
        except (Exception, SystemExit) as error:
            return False, f"{output.getvalue()}{_traceback(error, f'<{name}>')}"
    return True, output.getvalue()


def _run(source: str, file: str, variables: dict[str, Any]) -> None:
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)  # for lines in messages
    exec(compile(source, file, "exec"), variables)


def _traceback(error: BaseException, file: str) -> str:
    """Return the traceback of an exception, from the first line of a file on."""
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename != file:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))
