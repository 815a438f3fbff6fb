"""Programs that consist of commands: arguments, help and exit codes."""

import pytest
from tyro.conf import Positional

from transformer.command_line import check_name, run_command
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
    return int(how)


def run(*args: str) -> int:
    return run_command("program", "Does things.", {"greet": greet, "fail": fail}, args)


def test_arguments_reach_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("greet", "Ann", "--times", "2") == 0
    assert capsys.readouterr().out == "hello Ann\nhello Ann\n"


@pytest.mark.parametrize(("how", "code"), [("0", 0), ("1", 1), ("mistake", 2), ("interrupt", 130)])
def test_exit_codes(how: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fail", how) == code
    assert capsys.readouterr().err == ("error: that cannot be\n" if how == "mistake" else "")


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
    with pytest.raises(SystemExit) as stopped:
        run("greet", "Ann", "--loud")
    assert stopped.value.code == 2 and "--loud" in capsys.readouterr().err


def test_a_name_unlike_all_others_lists_them() -> None:
    with pytest.raises(UserError, match="there is no fruit 'xyz'; choose from apple, pear"):
        check_name("xyz", ["apple", "pear"], "fruit")
