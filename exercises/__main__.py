"""``python -m exercises``: make the notebooks from their solutions, and grade filled ones."""

import argparse
import sys

from transformer.errors import UserError

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # seconds to import, and nothing here needs it

EXAMPLES = """\
examples:
  python -m exercises grade attention              your exercises/02_attention.ipynb
  python -m exercises grade 02 04                  the same by number, several at once
  python -m exercises grade ~/Downloads/my_attention.ipynb
  python -m exercises grade all

The exit code is 0 if everything is right, 1 if not, 2 if it could not be graded.
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
    grade.add_argument("notebooks", nargs="+", metavar="NOTEBOOK", help="a topic, its number, a path, or all")
    grade.add_argument(
        "--seconds", type=int, default=10, metavar="N", help="how long one cell may run (default: %(default)s)"
    )
    args = parser.parse_args(arguments)
    try:
        if args.command == "make":
            return _check() if args.check else _make()
        return _grade(args.notebooks, args.seconds)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _make() -> int:
    from exercises.make import make

    for path in make():
        print(f"wrote {path}")
    return 0


def _check() -> int:
    from exercises.make import drift

    found = list(drift())
    for line in found:
        print(line, file=sys.stderr)
    if found:
        print("error: run `python -m exercises make` and commit what it writes", file=sys.stderr)
    return 1 if found else 0


def _grade(names: list[str], seconds: int) -> int:
    from exercises.grade import grade_all

    grades = grade_all(names, seconds)
    for grade in grades:
        print(grade)
    if len(grades) > 1:
        print(f"\ntogether {sum(g.points for g in grades)} of {sum(len(g.messages) for g in grades)}")
    return 0 if all(grade.points == len(grade.messages) for grade in grades) else 1


if __name__ == "__main__":
    sys.exit(main())
