"""Run a program that consists of commands, such as ``transformer`` and ``python -m exercises``."""

import inspect
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tyro

from transformer.errors import UserError, suggest


def run_command(
    program: str,
    description: str,
    commands: Mapping[str, Callable[..., Any]],
    args: Sequence[str],
    check: Callable[[Sequence[str]], None] = lambda args: None,
) -> int:
    """Parse the arguments of a command, run it, and return the exit code of the program.

    Args:
        program: how the program is called, for its help.
        description: what the program does, in a sentence.
        commands: name → function. Its parameters become the options of the command, its docstring the help.
        args: the arguments: the name of a command, then its own arguments.
        check: called with the arguments first; it may raise a `UserError`.

    Returns:
        What the command returns (0 for None), 2 after a `UserError`, which is printed to stderr in one line, 130 after
        an interrupt, and 141 if the reader of a pipe has closed it.

    Raises:
        SystemExit: with code 0 after ``COMMAND --help``, and with code 2 if tyro cannot parse the arguments.
    """
    try:
        if not args or args[0] in ("-h", "--help"):
            print(_help(program, description, commands))
            return 0 if args else 2
        check_name(args[0], commands, "command")
        check(args)
        command = commands[args[0]]
        text, _, _ = (inspect.getdoc(command) or "").partition("\n\nArgs:")
        return tyro.cli(command, prog=f"{program} {args[0]}", description=text, args=args[1:]) or 0
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, such as head or less, has exited
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that flushing at exit cannot fail again
        return 141


def check_name(name: str, known: Iterable[str], kind: str) -> None:
    """Refuse a name that is not among the known ones, and suggest a similar one.

    Raises:
        UserError: if the name is unknown.
    """
    if name not in (names := list(known)):
        raise UserError(f"there is no {kind} {name!r}; {suggest(name, names)}")


def _help(program: str, description: str, commands: Mapping[str, Callable[..., Any]]) -> str:
    """Return the help of the whole program: one entry for each command, with the first line of its docstring."""
    columns = min(shutil.get_terminal_size().columns, 120)
    indent = max(map(len, commands)) + 4
    lines = [f"usage: {program} COMMAND [OPTIONS]", "", description, "", "Commands:"]
    for name, function in commands.items():
        summary = (inspect.getdoc(function) or "").partition("\n")[0]
        first, *rest = textwrap.wrap(summary, max(40, columns - indent))
        lines += [f"  {name}".ljust(indent) + first, *(" " * indent + line for line in rest)]
    return "\n".join([*lines, "", f"`{program} COMMAND --help` lists the options of a command and shows examples."])
