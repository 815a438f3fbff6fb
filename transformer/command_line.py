"""Run a program that consists of commands, such as ``transformer`` and ``python -m exercises``."""

import contextlib
import functools
import inspect
import io
import itertools
import os
import re
import shutil
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from typing import Any

from transformer.errors import UserError, quote, shorten, shorten_words, suggest


@dataclass(frozen=True)
class RecipeCommand:
    """A command whose first argument is the name of a recipe, which sets the defaults of the options."""

    function: Callable[[Any], Any]
    """Called with the options, a dataclass, whose ``explicit_options`` are those that the user typed."""
    defaults: Mapping[str, Any]
    """Recipe → its options."""
    descriptions: Mapping[str, str]
    """Recipe → what it is for, in a sentence."""


Command = Callable[..., Any] | RecipeCommand
"""Either a function, whose parameters are the options and whose docstring is the help, or a `RecipeCommand`."""


TYRO_MESSAGES = {
    r"^Error parsing (\S+): ": r"\1: ",
    r"no type matching .* Got errors: - .*?: ": "",
    r"^invalid choice (.*) for argument '(\S+)'\. Expected one of \((.*?),?\).*": r"\2 must be one of \3; got \1",
    r"invalid literal for int\(\) with base 10:": "expected a whole number; got",
    "could not convert string to float:": "expected a number; got",
    r"^Missing from .*?: (\S+) .*": r"\1 is missing",
    r"^Missing value for argument '(\S+)'.*": r"\1 needs a value",
    "^Unrecognized options:": "unexpected",
    r"\.$": "",
}
"""Patterns in tyro's messages → plainer words."""

ISSUES = "https://github.com/transformer-course/transformer-course/issues"


def run_command(program: str, description: str, commands: Mapping[str, Command], args: Sequence[str]) -> int:
    """Parse the arguments of a command, run it, and return the exit code of the program.

    Args:
        program: the program's name, for its help.
        description: what the program does, in a sentence.
        commands: the commands by name.
        args: the arguments: the name of a command, then its own arguments.

    Returns:
        What the command returns (0 for None), or a code of `guard`.

    Raises:
        SystemExit: with code 0 after ``COMMAND --help``.
    """
    options: list[str] = []
    return guard(lambda: _run(program, description, commands, args, options), options)


def guard(action: Callable[[], int | None], options: Sequence[str] = ()) -> int:
    """Run a program so that any failure ends with a clear message instead of a traceback.

    A user error, a file that can't be read or written, and a lack of memory are explained in one line. For any
    other error, which is a bug, the message asks for a report and names a file with the traceback.

    Args:
        action: the program.
        options: names of options, which messages show as the user types them.

    Returns:
        What the action returns (0 for None); 2 after an error that is explained, 1 after any other, 130 after Ctrl-C,
        and 141 if the reader of a pipe, such as ``head``, has exited.
    """
    _open_missing_streams()
    _use_utf8()
    try:
        code = action() or 0
        sys.stdout.flush()  # here, so that an error is explained
        return code
    except UserError as error:
        return _fail(_with_flags(str(error), options), 2)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _discard_output()
        return 141
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:  # such as a full disk: what is still buffered can't be written
            _discard_output()
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", 2)
    except MemoryError:
        return _fail("there is not enough memory for this", 2)
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0][:200]
        if "out of memory" in reason.lower():  # such as PyTorch's, on a device that other programs also use
            return _fail(f"there is not enough memory for this ({reason})", 2)
        return _fail(
            f"unexpected {type(error).__name__}: {reason}. This is a bug: please report it at "
            f"{ISSUES}, with {_save_traceback()}",
            1,
        )


def _fail(message: str, code: int) -> int:
    """Print a message to stderr on one line, without control characters, and return the code."""
    line = "".join(character if character.isprintable() else " " for character in shorten_words(message))
    with suppress(OSError):  # stderr may also be full or closed
        print(f"error: {line}", file=sys.stderr, flush=True)
    return code


def _open_missing_streams() -> None:
    """Discard what is printed to a stream that was closed before the program started, as by ``>&-`` in a shell."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _use_utf8() -> None:
    """Read and print UTF-8 in any locale; print what it can't encode, such as odd file names, with escapes."""
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.encoding.lower() != "utf-8":
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _discard_output() -> None:
    """Discard what is still buffered for stdout, so that flushing it at exit cannot fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _save_traceback() -> str:
    """Write the current exception's traceback to a file, and return where; if that fails, return the traceback."""
    text = traceback.format_exc()
    try:
        with tempfile.NamedTemporaryFile(prefix="transformer-error-", suffix=".txt", delete=False) as file:
            file.write(text.encode(errors="backslashreplace"))  # odd file names can't be encoded
    except OSError:
        return text
    return file.name


def _run(
    program: str, description: str, commands: Mapping[str, Command], args: Sequence[str], options: list[str]
) -> int:
    """Parse the arguments and run the command; add the names of its options to ``options``."""
    if not args or args[0] in ("-h", "--help", "help"):
        summaries = {
            name: _summary(command.function if isinstance(command, RecipeCommand) else command)
            for name, command in commands.items()
        }
        print(overview(program, description, summaries))
        return 0 if args else 2
    name, *args = args
    check_name(name, commands, "command")
    command, program = commands[name], f"{program} {name}"
    if not isinstance(command, RecipeCommand):
        options += inspect.signature(command).parameters
        _check_options(args, options, program)
        # tyro calls what it is given; the command itself must run outside of tyro's error handling.
        bind_arguments = functools.wraps(command)(lambda *args, **kwargs: functools.partial(command, *args, **kwargs))
        return _parse(bind_arguments, program, _description(command), args)() or 0
    if args and args[0] in ("-h", "--help"):
        print(_help_with_recipes(program, command))
        return 0
    if not args or args[0].startswith("-"):
        raise UserError(f"`{program}` needs the name of a recipe: {', '.join(command.defaults)}")
    recipe, *args = args
    has_run = "run" in _names(next(iter(command.defaults.values())))
    if has_run and recipe not in command.defaults and os.path.isdir(recipe):
        raise UserError(f"{recipe} is a folder, not a recipe; use `{program} RECIPE --run {recipe}`")
    check_name(recipe, command.defaults, "recipe")
    default, program = command.defaults[recipe], f"{program} {recipe}"
    options += _names(default)
    explicit_options = _check_options(args, options, program)
    description = f"{_summary(command.function)}\n\n{recipe}: {command.descriptions[recipe]}"
    parsed = _parse(type(default), program, description, args, default)
    parsed.explicit_options = explicit_options
    return command.function(parsed) or 0


def check_name(name: str, known: Iterable[str], kind: str) -> None:
    """Reject an unknown name, and suggest a similar one.

    Raises:
        UserError: if the name is unknown.
    """
    if name not in (names := list(known)):
        raise UserError(f"there is no {kind} {quote(name)}; {suggest(name, names)}")


def _parse(target: Callable[..., Any], program: str, description: str, args: Sequence[str], default: Any = None) -> Any:
    """Call a function, or create a dataclass, with the arguments that a user typed.

    Raises:
        UserError: if they cannot be parsed.
    """
    import tyro  # imported late, because the overview of the commands doesn't need it

    default = tyro.MISSING if default is None else default
    config = (tyro.conf.DisallowNone,)
    printed, errors = _Captured(), _Captured()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
            return tyro.cli(target, prog=program, description="", args=args, default=default, config=config)
    except SystemExit as end:
        if end.code in (None, 0):  # the help
            usage, _, options = printed.getvalue().partition("\n")
            usage = re.sub(r"\x1b\[[\d;]*m", "", usage)  # colours, which would be counted as characters
            print(wrap(usage), "", wrap(description), options, sep="\n", end="")
            raise
        raise UserError(f"{_in_one_line(errors.getvalue())}; `{program} --help` lists the options") from None


class _Captured(io.StringIO):
    """Captures what a function would print to standard output, with colours if that is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return sys.__stdout__ is not None and sys.__stdout__.isatty()


def wrap(text: str) -> str:
    """Wrap paragraphs, and each indented line of a list, to the terminal's width; leave examples intact for copying."""
    wrapped = []
    for paragraph in text.split("\n\n"):
        title, *items = paragraph.split("\n    ")
        if title != "Examples:":
            paragraph = textwrap.fill(title, _columns(), break_on_hyphens=False)
            for item in items:
                paragraph += "\n" + textwrap.fill(
                    item, _columns(), initial_indent="    ", subsequent_indent="        ", break_on_hyphens=False
                )
        wrapped.append(paragraph)
    return "\n\n".join(wrapped)


def _in_one_line(box: str) -> str:
    """Return the error message in the box that tyro prints, without the frame, the title and the help."""
    lines = [line.strip("│ ") for line in box.splitlines()[1:]]
    text = " ".join(itertools.takewhile(lambda line: not line.startswith(("─", "╰")), lines))
    for pattern, replacement in TYRO_MESSAGES.items():
        text = re.sub(pattern, replacement, text)
    return shorten(text, 200)


def _names(options: Any, prefix: str = "") -> Iterator[str]:
    """Yield the names of the fields of a dataclass, nested ones with dots: ``training.max_grad_norm``."""
    for field in fields(options):
        if not field.init:
            continue
        value = getattr(options, field.name)
        if is_dataclass(value):
            yield from _names(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")


def _check_options(args: Sequence[str], options: Sequence[str], program: str) -> list[str]:
    """Return the options that were given. For an unknown one, suggest the most similar, whatever its section.

    Raises:
        UserError: if an option is unknown.
    """
    known = {_flag(option): option for option in options}
    flags = {flag: flag.lstrip("-").rpartition(".")[2] for flag in known}
    found = []
    for arg in args:
        typed = _flag(arg[2:].partition("=")[0])
        if arg == "--":
            break
        if not arg.startswith("--") or typed == "--help":
            continue
        if option := known.get(re.sub(r"(^--|\.)no-", r"\1", typed)):
            found.append(option)
            continue
        similar = get_close_matches(typed.lstrip("-").rpartition(".")[2], flags.values(), n=1)
        candidates = [flag for flag, name in flags.items() if name in similar]
        hint = f"did you mean {' or '.join(candidates)}?" if similar else f"`{program} --help` lists the options"
        raise UserError(f"there is no option {typed}; {hint}")
    return found


def _with_flags(message: str, options: Sequence[str]) -> str:
    """Replace option names in a message with what the user types: ``beam_size`` with ``--beam-size``."""
    for option in sorted(options, key=len, reverse=True):
        if "_" in option or "." in option:  # not a plain word such as "run"
            message = re.sub(rf"(?<![\w./-]){re.escape(option)}(?![\w/]|\.\w)", _flag(option), message)
    return message


def _description(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "").partition("\n\nArgs:")[0]


def _summary(function: Callable[..., Any]) -> str:
    return _description(function).partition("\n")[0]


def _columns() -> int:
    return min(shutil.get_terminal_size().columns, 120)


def _table(rows: Mapping[str, str]) -> list[str]:
    """Return lines that list names with their descriptions, wrapped to the width of the terminal."""
    indent = max(map(len, rows)) + 4
    lines = []
    for name, text in rows.items():
        first, *rest = textwrap.wrap(text, max(30, _columns() - indent))
        lines += [f"  {name}".ljust(indent) + first, *(" " * indent + line for line in rest)]
    return lines


def overview(program: str, description: str, summaries: Mapping[str, str]) -> str:
    """Return the help of the whole program: one entry for each command, with its summary."""
    lines = [f"usage: {program} COMMAND [OPTIONS]", "", wrap(description), "", "Commands:", *_table(summaries), ""]
    return "\n".join([*lines, wrap(f"`{program} COMMAND --help` lists the options of a command and shows examples.")])


def _help_with_recipes(program: str, command: RecipeCommand) -> str:
    """Return the help of a command with recipes: its docstring and the recipes."""
    lines = [f"usage: {program} RECIPE [OPTIONS]", "", wrap(_description(command.function)), ""]
    lines += ["Recipes:", *_table(command.descriptions), ""]
    return "\n".join([*lines, wrap(f"`{program} RECIPE --help` lists the options and their defaults.")])
