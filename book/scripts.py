"""What the scripts that measure something for the book share: how they end, and how they write their results."""

import functools
import json
from collections.abc import Callable
from pathlib import Path

from transformer.command_line import guard
from transformer.files import write_atomically

RESULTS = Path(__file__).parent / "results"


def write_result(path: Path, result: object) -> None:
    """Write a result as JSON, in the form in which results are committed."""
    write_atomically(path, (json.dumps(result, indent=1, ensure_ascii=False) + "\n").encode())


def guarded(main: Callable[[list[str] | None], None]) -> Callable[..., int]:
    """Let the main function of a script return the exit code, and print an error as one line (see `guard`)."""

    @functools.wraps(main)
    def run(arguments: list[str] | None = None) -> int:
        return guard(lambda: main(arguments))

    return run
