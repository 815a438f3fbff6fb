"""``python -m exercises``: grade exercise notebooks, show a learner's progress, and make the notebooks."""

import sys
from collections.abc import Sequence

from transformer.cli import exit_on_signals, quiet_interrupts
from transformer.command_line import run_command

DESCRIPTION = "Do the exercises: find the next one, get hints, grade your answers, and see your progress."


def main(args: Sequence[str] | None = None) -> int:
    """Run ``python -m exercises`` and return the exit code; see `run_command`."""
    if args is None:
        args = sys.argv[1:]
        exit_on_signals()
    with quiet_interrupts():
        from exercises.commands import COMMANDS
    return run_command("python -m exercises", DESCRIPTION, COMMANDS, args)


if __name__ == "__main__":
    sys.exit(main())
