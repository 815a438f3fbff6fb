"""Programs that consist of commands: arguments, help and exit codes."""

import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from tyro.conf import Positional

from transformer.command_line import Command, RecipeCommand, check_name, run_command
from transformer.errors import UserError


def greet(name: Positional[str], times: int = 1) -> None:
    """Greet somebody.

    Examples:
        program greet Ann

    Args:
        name: Whom to greet.
        times: How often.
    """
    print("\n".join([f"hello {name}"] * times))


def fail(how: Positional[str]) -> int:
    """Fail, one way or another."""
    if how == "mistake":
        raise UserError("that cannot be")
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "defect":
        raise ZeroDivisionError("division\nby zero \ud800")
    if how == "folder":
        open("/")  # noqa: SIM115
    if how == "connection":
        print("half done")
        raise ConnectionRefusedError(111, "Connection refused")
    if how == "memory":
        raise MemoryError
    if how == "gpu":
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    if how == "escape":
        raise UserError("\x1b[31mred\nand \ud800")
    return int(how)


@dataclass
class Oven:
    """How to bake."""

    max_heat: int = 200
    """Degrees."""


@dataclass
class BakeOptions:
    """The options of `program bake RECIPE`."""

    oven: Oven
    """The oven."""
    cups: int | None = None
    """Cups of flour."""


def bake(options: BakeOptions) -> None:
    """Bake something.

    Examples:
        program bake bread
    """
    if options.oven.max_heat > 250:
        raise UserError(f"oven.max_heat must be at most 250; got {options.oven.max_heat}")
    print(options.oven.max_heat, options.cups)


RECIPES = RecipeCommand(
    bake,
    {"bread": BakeOptions(Oven(230)), "cake": BakeOptions(Oven(180), 2)},
    {"bread": "For soup.", "cake": "For tea."},
)


def run(*args: str) -> int:
    commands: dict[str, Command] = {"greet": greet, "fail": fail, "bake": RECIPES}
    return run_command("program", "Does things.", commands, args)


def test_arguments_reach_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("greet", "Ann", "--times", "2") == 0
    assert capsys.readouterr().out == "hello Ann\nhello Ann\n"


@pytest.mark.parametrize(("how", "code"), [("0", 0), ("1", 1), ("mistake", 2), ("interrupt", 130)])
def test_exit_codes(how: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fail", how) == code
    assert capsys.readouterr().err == ("error: that cannot be\n" if how == "mistake" else "")


@pytest.mark.parametrize(
    ("how", "code", "message"),
    [
        ("folder", 2, "error: /: Is a directory"),
        ("memory", 2, "error: there is not enough memory for this"),
        ("gpu", 2, "error: there is not enough memory for this (CUDA out of memory. Tried to allocate 2.00 GiB)"),
        ("escape", 2, "error:  [31mred and  "),
        ("defect", 1, "error: unexpected ZeroDivisionError: division. This is a bug: please report"),
    ],
)
def test_every_error_is_one_line(
    how: str,
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run("fail", how) == code
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith(message) and printed.err.count("\n") == 1
    tracebacks = [path.read_text() for path in tmp_path.iterdir()]
    assert ["ZeroDivisionError" in text for text in tracebacks] == [True] * (how == "defect")


def test_an_error_without_a_file_is_not_blamed_on_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("fail", "connection") == 2
    assert capfd.readouterr() == ("half done\n", "error: Connection refused\n")


def program(*args: str, **changes: str) -> subprocess.Popen[str]:
    environment = {**os.environ, **changes}
    command = [sys.executable, "-m", "transformer.cli", *args]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")


def test_the_help_needs_neither_pytorch_nor_tyro() -> None:
    """So it appears within a fraction of a second of CPU time."""
    code = """
import sys
from transformer.cli import main
main(["--help"])
assert not {"torch", "numpy", "tyro", "sentencepiece"} & sys.modules.keys()
"""
    assert "usage: transformer COMMAND" in subprocess.check_output([sys.executable, "-c", code], encoding="utf-8")


@pytest.mark.parametrize(
    ("module", "program"), [("torch", "sys.argv[1:] = ['parameters']; from transformer.cli import main; main()"),
                            ("tyro", "sys.argv[1:] = ['status']; from exercises.__main__ import main; main()")],
)  # fmt: skip
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_the_imports_ends_the_process_at_once(module: str, program: str, number: int) -> None:
    """PyTorch turns an exception that comes while it is imported into another one."""
    code = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
class Importer:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            try:
                os.kill(os.getpid(), {int(number)})
            except BaseException as error:
                raise RuntimeError("the import failed") from error
sys.meta_path.insert(0, Importer())
{program}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "")


@pytest.mark.parametrize("changes", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {}])
def test_any_locale_prints_utf8(changes: dict[str, str]) -> None:
    with program("--help", **changes) as started:
        out, errors = started.communicate()
    assert "“Attention Is All You Need”" in out and errors == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_as_standard_output() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "transformer.cli", "--help"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "error: No space left on device\n")


@pytest.mark.parametrize(
    ("closing", "printed"),
    [(">&-", ("", "error: that cannot be\n")), ("2>&-", ("result\n", "")), (">&- 2>&-", ("", ""))],
)
def test_a_closed_stream_is_no_error(closing: str, printed: tuple[str, str]) -> None:
    code = """
import sys
from transformer.command_line import guard
from transformer.errors import UserError
from transformer.progress import progress_bar
def action():
    print("result")
    sys.stdout.flush()
    progress_bar("training", shown=False)
    raise UserError("that cannot be")
sys.exit(guard(action))
"""
    command = ["sh", "-c", f'exec "$0" -c "$1" {closing}', sys.executable, code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (2, *printed)


def test_a_closed_pipe_is_quiet() -> None:
    with program("--help") as started:
        assert started.stdout is not None and started.stderr is not None
        started.stdout.close()
        assert started.stderr.read() == "" and started.wait() == 141


def test_help_of_the_program_and_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    printed = capsys.readouterr().out
    assert (
        "\n  greet  Greet somebody.\n  fail   Fail, one way or another.\n" in printed and "program greet" not in printed
    )
    assert run() == 2
    with pytest.raises(SystemExit) as stopped:
        run("greet", "--help")
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert "\nExamples:\n    program greet Ann\n" in printed and "Whom to greet." in printed and "Args:" not in printed


def test_unknown_commands_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("gret") == 2
    assert capsys.readouterr().err == "error: there is no command 'gret'; did you mean greet?\n"
    assert run("greet", "Ann", "--loud") == 2
    assert capsys.readouterr().err == ("error: there is no option --loud; `program greet --help` lists the options\n")
    assert run("greet", "Ann", "--time=2") == 2
    assert capsys.readouterr().err == "error: there is no option --time; did you mean --times?\n"
    assert run("greet", "--", "--time") == 0
    assert capsys.readouterr().out == "hello --time\n"


def test_a_recipe_sets_the_defaults_of_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bake", "bread") == run("bake", "cake", "--oven.max-heat", "190") == 0
    assert capsys.readouterr().out == "230 None\n190 2\n"
    with pytest.raises(SystemExit) as stopped:
        run("bake", "cake", "--help")
    printed = capsys.readouterr().out
    assert stopped.value.code == 0 and "cake: For tea." in printed and "(default: 180)" in printed
    assert "--cups INT" in printed


def test_help_of_a_command_with_recipes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bake", "--help") == 0
    printed = capsys.readouterr().out
    assert "Examples:\n    program bake bread\n\nRecipes:\n  bread  For soup.\n  cake   For tea.\n" in printed
    assert run("bake") == run("bake", "--cups", "3", "cake") == 2
    assert capsys.readouterr().err == "error: `program bake` needs the name of a recipe: bread, cake\n" * 2
    assert run("bake", "brad") == 2
    assert capsys.readouterr().err == "error: there is no recipe 'brad'; did you mean bread?\n"


def test_errors_name_the_options_as_the_user_types_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bake", "bread", "--oven.max-heat", "300") == 2
    assert capsys.readouterr().err == "error: --oven.max-heat must be at most 250; got 300\n"
    assert run("bake", "bread", "--stove.max-heat", "300") == 2
    assert capsys.readouterr().err == "error: there is no option --stove.max-heat; did you mean --oven.max-heat?\n"


def test_a_name_unlike_all_others_lists_them() -> None:
    with pytest.raises(UserError, match="there is no fruit 'xyz'; choose from apple, pear"):
        check_name("xyz", ["apple", "pear"], "fruit")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("greet", "Ann", "--times", "1.5"), "--times: expected a whole number; got '1.5'"),
        (("greet", "Ann", "--times"), "--times needs a value"),
        (("greet",), "STR is missing"),
        (("greet", "Ann", "Bob"), "unexpected Bob"),
        (("bake", "bread", "--cups", "None"), "--cups: expected a whole number; got 'None'"),
        (("bake", "bread", "--cups", "x" * 5000), "--cups: expected a whole number; got 'xxx"),
    ],
)
def test_arguments_that_cannot_be_parsed_are_explained_in_one_line(
    args: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*args) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith(f"error: {message}") and printed.err.count("\n") == 1
    assert len(printed.err) < 300 and " --help` lists the options\n" in printed.err
