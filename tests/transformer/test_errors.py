"""Messages are short, and a command that needs an extra which is not installed says so in one line."""

import functools
import subprocess
import sys
from pathlib import Path

import pytest

from exercises.__main__ import main as exercises
from transformer import load
from transformer.cli import main as transformer
from transformer.errors import MAX_QUOTED, MAX_WORD, UserError, quote, require_extra, shorten, shorten_words


@pytest.fixture
def block(monkeypatch: pytest.MonkeyPatch):
    """Return a function that makes a module look as if it were not installed."""

    def block(name: str) -> None:
        loaded = [
            module for module in sys.modules if module == name or module.startswith((f"{name}.", "transformer.plots"))
        ]
        for module in loaded:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delattr("transformer.plots", raising=False)

    return block


def test_missing_modules_are_listed_with_their_extra(block) -> None:
    require_extra("plots", "json", "altair")
    block("altair")
    block("pandas")
    with pytest.raises(UserError, match=r"^this needs altair, pandas: pip install 'transformer-course\[plots\]'$"):
        require_extra("plots", "json", "altair", "pandas")


@pytest.mark.parametrize("arguments", [["curves", "runs/any"], ["data", "copy", "--figure", "x.png"]])
def test_figures_need_the_extra_plots(arguments: list[str], block, capsys: pytest.CaptureFixture[str]) -> None:
    block("seaborn")
    with pytest.raises(SystemExit, match="2"):
        transformer(arguments)
    assert capsys.readouterr().err == "error: this needs seaborn: pip install 'transformer-course[plots]'\n"


@pytest.mark.parametrize(
    ("arguments", "module", "extra"),
    [
        (["grade", "attention"], "nbval", "exercises"),
        (["make"], "jupytext", "book"),
        (["make", "--check"], "nbclient", "book"),
    ],
)
def test_exercises_need_their_extras(
    arguments: list[str], module: str, extra: str, block, capsys: pytest.CaptureFixture[str]
) -> None:
    block(module)
    assert exercises(arguments) == 2
    assert capsys.readouterr().err == f"error: this needs {module}: pip install 'transformer-course[{extra}]'\n"


def test_everything_but_the_figures_can_be_imported_without_any_extra() -> None:
    program = """
import importlib, pkgutil, sys
extras = "altair anywidget IPython jupytext matplotlib nbclient nbformat nbval pandas seaborn tensorboard yaml"
sys.modules.update(dict.fromkeys(extras.split()))
import transformer
for module in pkgutil.walk_packages(transformer.__path__, "transformer.", onerror=lambda name: None):
    if not module.name.startswith("transformer.plots"):
        importlib.import_module(module.name)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


class _Broken:
    def __repr__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "value",
    [
        [f"This is sentence number {i}." for i in range(100)],
        "x" * 10_000,
        b"x" * 10_000,
        10**400,
        10**10_000,
        {"a" * 1000: ["b" * 1000] * 1000},
        functools.reduce(lambda inner, _: [inner], range(100_000), None),
        range(10**9),
        "a\nb\x1b[31m",
        _Broken(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_quoted_value_is_one_short_line(value: object) -> None:
    text = quote(value)
    assert 0 < len(text) <= 100 and text.isprintable()


def test_short_values_are_quoted_as_python_writes_them() -> None:
    for value in ("en-de", "it's", 5, 0.5, None, ["a", 1], {"a": (1, 2)}, Path("a b")):
        assert quote(value) == repr(value)


def test_a_message_has_no_endless_word() -> None:
    path = "/".join(["folder"] * 20)
    assert str(UserError(f"there is no file {path}")) == f"there is no file {path}"
    assert len(str(UserError(f"there is no file {'x' * 5000}, nor {'y' * 5000}"))) < 300


def test_a_list_where_a_text_is_expected_is_not_printed_whole() -> None:
    with pytest.raises(UserError, match=r"^translate expects a string; got ") as caught:
        load("pocket-small", "cpu").translate([f"This is sentence number {i}." for i in range(100)])  # type: ignore[arg-type]
    assert len(str(caught.value)) < 200


def test_only_what_is_longer_than_the_limit_is_shortened() -> None:
    """What remains is not longer than the limit, and words and paths that fit can be copied from the message."""
    fits = "a" * (MAX_QUOTED - 1) + "z"
    assert shorten(fits) == fits
    assert shorten("b" + fits) == f"b{'a' * (MAX_QUOTED - 21)} … {'a' * 16}z"
    word = "a" * (MAX_WORD - 1) + "z"
    assert shorten_words(f"{word} {word}") == f"{word} {word}"
    assert shorten_words(f"{word}z {word}") == f"{'a' * 80}…{'a' * 38}zz {word}"
