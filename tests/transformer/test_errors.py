"""A command that needs an extra which is not installed says so in one line."""

import subprocess
import sys

import pytest

from exercises.__main__ import main as exercises
from transformer.cli import main as transformer
from transformer.errors import UserError, require_extra


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
