"""``python -m exercises``: make the notebooks from their solutions, grade filled ones, tell how far a learner is."""

import argparse
import os
import sys
from pathlib import Path

from transformer.errors import UserError, require_extra

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # seconds to import, and nothing here needs it

EXAMPLES = """\
examples:
  python -m exercises grade attention              your exercises/02_attention.ipynb
  python -m exercises grade 02 04                  the same by number, several at once
  python -m exercises grade ~/Downloads/my_attention.ipynb
  python -m exercises grade all
  python -m exercises grade submissions --json grades.json --junit grades.xml     a class

The exit code is 0 if everything is right, 1 if not, 2 if something could not be graded.
"""

UPDATE_EXAMPLES = """\
examples:
  python -m exercises update ~/mine/02_attention.ipynb
  python -m exercises update ~/mine/*.ipynb

The notebook as it was stays beside it, as NAME.before.ipynb.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m exercises", description="Make and grade the course's exercises.")
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("make", help="make the notebooks from solutions/*.py")
    make.add_argument("--check", action="store_true", help="change nothing; exit 1 if a notebook is stale")
    grade = commands.add_parser(
        "grade",
        help="grade filled notebooks",
        description="Grade filled notebooks: only the cells that begin with `# answer:` count.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    grade.add_argument(
        "notebooks", nargs="+", metavar="NOTEBOOK", help="a topic, its number, a path, a folder of notebooks, or all"
    )
    grade.add_argument("--json", type=Path, metavar="FILE", help="write the grades there as JSON as well")
    grade.add_argument("--junit", type=Path, metavar="FILE", help="write the grades there as JUnit's XML as well")
    grade.add_argument(
        "--seconds", type=int, default=10, metavar="N", help="how long one cell may run (default: %(default)s)"
    )
    commands.add_parser("status", help="how far you are, by what the checks in your notebooks last said")
    update = commands.add_parser(
        "update",
        help="carry your answers over into the notebooks of this edition of the course",
        epilog=UPDATE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    update.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK", help="a filled notebook of any edition")
    args = parser.parse_args(arguments)
    try:
        if args.command == "make":
            return _check() if args.check else _make()
        if args.command == "status":
            return _status()
        if args.command == "update":
            return _update(args.notebooks)
        return _grade(args.notebooks, args.seconds, args.json, args.junit)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read along, head or less, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _make() -> int:
    require_extra("book", "jupytext", "nbclient", "nbformat")
    from exercises.make import make

    for path in make():
        print(f"wrote {path}")
    return 0


def _check() -> int:
    require_extra("book", "jupytext", "nbclient", "nbformat")
    from exercises.make import drift

    found = list(drift())
    for line in found:
        print(line, file=sys.stderr)
    if found:
        print("error: run `python -m exercises make` and commit what it writes", file=sys.stderr)
    return 1 if found else 0


def _grade(names: list[str], seconds: int, json: Path | None, junit: Path | None) -> int:
    require_extra("exercises", "nbval", "pytest")
    from exercises.grade import grade_all
    from exercises.gradebook import as_json, as_junit, check_writable

    wanted = [(path, text) for path, text in ((json, as_json), (junit, as_junit)) if path]
    for path, _ in wanted:
        check_writable(path)
    grades = grade_all(names, seconds)
    for path, text in wanted:
        path.write_text(text(grades), "utf-8")
    for grade in grades:
        if grade.failure:
            print(f"error: {grade.failure}", file=sys.stderr)
        else:
            print(grade)
    if len(grades) > 1:
        print(f"\ntogether {sum(g.points for g in grades)} of {sum(len(g.messages) for g in grades)}")
    if any(grade.failure for grade in grades):
        return 2
    return 0 if all(grade.points == len(grade.messages) for grade in grades) else 1


def _status() -> int:
    from exercises.progress import status

    for line in status():
        print(line)
    return 0


def _update(paths: list[Path]) -> int:
    from exercises.progress import update

    for path in paths:
        print(update(path))
    return 0


if __name__ == "__main__":
    sys.exit(main())
