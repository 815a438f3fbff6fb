"""Run a program that consists of commands, such as ``transformer`` and ``python -m exercises``."""

import inspect
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from typing import Any

import tyro

from transformer.errors import UserError, suggest


@dataclass(frozen=True)
class RecipeCommand:
    """A command whose first argument is the name of a recipe, which sets the defaults of the options."""

    function: Callable[[Any], Any]
    """Called with the options, a dataclass."""
    defaults: Mapping[str, Any]
    """Recipe → its options."""
    descriptions: Mapping[str, str]
    """Recipe → what it is for, in a sentence."""


Command = Callable[..., Any] | RecipeCommand
"""A function, whose parameters become the options of the command and whose docstring its help; or one with recipes."""


def run_command(program: str, description: str, commands: Mapping[str, Command], args: Sequence[str]) -> int:
    """Parse the arguments of a command, run it, and return the exit code of the program.

    Args:
        program: how the program is called, for its help.
        description: what the program does, in a sentence.
        commands: the commands by name.
        args: the arguments: the name of a command, then its own arguments.

    Returns:
        What the command returns (0 for None), 2 after a `UserError`, which is printed to stderr in one line, 130 after
        an interrupt, and 141 if the reader of a pipe has closed it.

    Raises:
        SystemExit: with code 0 after ``COMMAND --help``, and with code 2 if tyro cannot parse the arguments.
    """
    options: list[str] = []
    try:
        if not args or args[0] in ("-h", "--help"):
            print(_help(program, description, commands))
            return 0 if args else 2
        name, *args = args
        check_name(name, commands, "command")
        command, program = commands[name], f"{program} {name}"
        if not isinstance(command, RecipeCommand):
            options = list(inspect.signature(command).parameters)
            _check_options(args, options, program)
            return _parse(command, program, _description(command), args) or 0
        if args and args[0] in ("-h", "--help"):
            print(_help_with_recipes(program, command))
            return 0
        if not args or args[0].startswith("-"):
            raise UserError(f"`{program}` needs the name of a recipe: {', '.join(command.defaults)}")
        recipe, *args = args
        check_name(recipe, command.defaults, "recipe")
        default, program = command.defaults[recipe], f"{program} {recipe}"
        options = list(_names(default))
        _check_options(args, options, program)
        description = f"{_summary(command.function)}\n\n{recipe}: {command.descriptions[recipe]}"
        return command.function(_parse(type(default), program, description, args, default)) or 0
    except UserError as error:
        print(f"error: {_with_flags(str(error), options)}", file=sys.stderr)
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


def _parse(target: Callable[..., Any], program: str, description: str, args: Sequence[str], default: Any = None) -> Any:
    """Call a function, or create a dataclass, with the arguments that a user typed."""
    default = tyro.MISSING if default is None else default
    config = (tyro.conf.DisallowNone,)
    return tyro.cli(target, prog=program, description=description, args=args, default=default, config=config)


def _names(options: Any, prefix: str = "") -> Iterator[str]:
    """Yield the names of the fields of a dataclass, nested ones with dots: ``training.max_grad_norm``."""
    for field in fields(options):
        value = getattr(options, field.name)
        if is_dataclass(value):
            yield from _names(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")


def _check_options(args: Sequence[str], options: Sequence[str], program: str) -> None:
    """Refuse an unknown option, and suggest those whose names, apart from their sections, are the most similar.

    Raises:
        UserError: if an option is unknown.
    """
    flags = {_flag(option): _flag(option).lstrip("-").rpartition(".")[2] for option in options}
    for arg in args:
        typed = _flag(arg[2:].partition("=")[0])
        if arg == "--":
            break
        if not arg.startswith("--") or typed == "--help" or re.sub(r"(^--|\.)no-", r"\1", typed) in flags:
            continue
        similar = get_close_matches(typed.lstrip("-").rpartition(".")[2], flags.values(), n=1)
        candidates = [flag for flag, name in flags.items() if name in similar]
        hint = f"did you mean {' or '.join(candidates)}?" if similar else f"`{program} --help` lists the options"
        raise UserError(f"there is no option {typed}; {hint}")


def _with_flags(message: str, options: Sequence[str]) -> str:
    """Write the options that a message names as the user types them: ``beam_size`` as ``--beam-size``."""
    for option in sorted(options, key=len, reverse=True):
        if "_" in option or "." in option:  # and not a plain word such as "run"
            message = re.sub(rf"(?<![\w./-]){re.escape(option)}(?![\w/]|\.\w)", _flag(option), message)
    return message


def _description(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "").partition("\n\nArgs:")[0]


def _summary(function: Callable[..., Any]) -> str:
    return _description(function).partition("\n")[0]


def _columns() -> int:
    return min(shutil.get_terminal_size().columns, 120)


def _table(rows: Mapping[str, str]) -> list[str]:
    """Return lines that list names, each with its description, which is wrapped to the width of the terminal."""
    indent = max(map(len, rows)) + 4
    lines = []
    for name, text in rows.items():
        first, *rest = textwrap.wrap(text, max(40, _columns() - indent))
        lines += [f"  {name}".ljust(indent) + first, *(" " * indent + line for line in rest)]
    return lines


def _help(program: str, description: str, commands: Mapping[str, Command]) -> str:
    """Return the help of the whole program: one entry for each command, with the first line of its docstring."""
    summaries = {
        name: _summary(command.function if isinstance(command, RecipeCommand) else command)
        for name, command in commands.items()
    }
    lines = [f"usage: {program} COMMAND [OPTIONS]", "", description, "", "Commands:", *_table(summaries)]
    return "\n".join([*lines, "", f"`{program} COMMAND --help` lists the options of a command and shows examples."])


def _help_with_recipes(program: str, command: RecipeCommand) -> str:
    """Return the help of a command with recipes: its docstring and the recipes."""
    text, _, examples = _description(command.function).partition("\n\nExamples:")
    paragraphs = [textwrap.fill(paragraph, _columns()) for paragraph in text.split("\n\n")]
    lines = [f"usage: {program} RECIPE [OPTIONS]", "", "\n\n".join(paragraphs), "", f"Examples:{examples}", ""]
    lines += ["Recipes:", *_table(command.descriptions), ""]
    return "\n".join([*lines, f"`{program} RECIPE --help` lists the options and their defaults."])
