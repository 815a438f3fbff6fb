"""Generated files: each kind of drift is seen, named and mended, and checking changes nothing."""

import shutil
import subprocess
import sys
from pathlib import Path

import jupytext
import nbformat
import pytest

from book import sync

ROOT = Path(__file__).parents[2]
PARTS = ("_config.yml", "pyproject.toml", "environment.yml", "README.md", "CITATION.cff")


def run(root, *options):
    return sync.main(["--root", str(root), *options])


@pytest.fixture
def house(tmp_path):
    """A small copy of the repository, in step."""
    for part in PARTS:
        shutil.copy(ROOT / part, tmp_path)
    for folder in ("book/widgets", "chapters", "transformer/interactive"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("html", "masks", "parts", "theme"):
        shutil.copy(ROOT / "book" / "widgets" / f"{name}.mjs", tmp_path / "book" / "widgets")
    (tmp_path / "chapters" / "01_one.py").write_text(
        '# %% [markdown]\n# # One\n\n# %%\nprint("one")\n\n# %%\nprint("one")\n'
    )
    assert run(tmp_path) == 0
    assert run(tmp_path, "--check") == 0
    return tmp_path


def change(path, old, new):
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


@pytest.mark.parametrize(
    ("file", "old", "new", "named"),
    [
        ("chapters/01_one.py", 'print("one")', 'print("two")', "chapters/01_one.ipynb"),
        ("chapters/01_one.ipynb", "# One", "# Two", "chapters/01_one.ipynb"),
        ("chapters/01_one.py", "--quiet", "--verbose", "chapters/01_one.py"),
        ("environment.yml", "pip", "pop", "environment.yml"),
        ("pyproject.toml", '"tqdm', '"tqqdm', "environment.yml"),
        ("book/widgets/masks.mjs", ": -Infinity", ": -1e9", "transformer/interactive/bundles/masks.mjs"),
        ("book/widgets/theme.mjs", "CanvasText", "black", "transformer/interactive/bundles/masks.mjs"),
        (
            "transformer/interactive/bundles/masks.mjs",
            ": -Infinity",
            ": -1e9",
            "transformer/interactive/bundles/masks.mjs",
        ),
        ("_config.yml", "github.com/", "example.org/new/", "pyproject.toml"),
    ],
)
def test_drift_is_named_then_mended(house, capsys, file, old, new, named):
    if file == "_config.yml":
        change(house / file, "transformer-course/transformer-course", "somebody/else")
    else:
        change(house / file, old, new)
    before = {path: path.read_bytes() for path in house.rglob("*") if path.is_file()}
    assert run(house, "--check") == 1
    said = capsys.readouterr().err
    assert f"out of date: {named}, at line" in said
    assert "make notebooks" in said
    assert before == {path: path.read_bytes() for path in house.rglob("*") if path.is_file()}
    assert run(house) == 0
    assert run(house, "--check") == 0


def test_a_new_address_goes_everywhere(house):
    change(house / "_config.yml", "transformer-course/transformer-course", "somebody/else")
    assert run(house) == 0
    for name in ("pyproject.toml", "CITATION.cff", "chapters/01_one.py", "chapters/01_one.ipynb"):
        text = (house / name).read_text("utf-8")
        assert "https://github.com/somebody/else" in text, name
        assert "transformer-course/transformer-course" not in text, name
    assert "https://somebody.github.io/else" in (house / "CITATION.cff").read_text("utf-8")


def test_the_pair_says_the_same_and_the_notebook_has_no_outputs(house):
    script = jupytext.read(house / "chapters" / "01_one.py")
    pair = nbformat.read(house / "chapters" / "01_one.ipynb", as_version=4)
    assert [(cell.cell_type, cell.source) for cell in pair.cells] == [
        (cell.cell_type, cell.source) for cell in script.cells
    ]
    assert len({cell.id for cell in pair.cells}) == len(pair.cells)
    assert all(not cell.outputs and cell.execution_count is None for cell in pair.cells if cell.cell_type == "code")
    assert pair.metadata.kernelspec.name == "python3"


def test_ids_outlive_a_new_cell(house):
    before = [cell.id for cell in nbformat.read(house / "chapters" / "01_one.ipynb", as_version=4).cells]
    change(house / "chapters" / "01_one.py", "# # One\n", "# # One\n\n# %%\nnew = 1\n")
    assert run(house) == 0
    after = [cell.id for cell in nbformat.read(house / "chapters" / "01_one.ipynb", as_version=4).cells]
    assert len(after) == len(before) + 1
    assert set(before) < set(after)


def setup_cell(house):
    (cell,) = (
        cell
        for cell in nbformat.read(house / "chapters" / "01_one.ipynb", as_version=4).cells
        if "setup" in cell.metadata.get("tags", [])
    )
    return cell.source


def test_the_setup_cell_does_nothing_here(house, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: pytest.fail("it ran a command"))
    exec(setup_cell(house), {})


def test_the_setup_cell_keeps_colabs_torch_and_numpy(house, monkeypatch, tmp_path):
    commands = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "google.colab", sys)
    monkeypatch.setattr("importlib.metadata.version", lambda name: {"numpy": "2.0.2", "torch": "2.9.0+cu126"}[name])
    monkeypatch.setattr(subprocess, "run", lambda command, **options: commands.append([*map(str, command)]))
    exec(setup_cell(house), {})
    (command,) = commands
    address = "https://github.com/transformer-course/transformer-course"
    assert command[-1] == f"transformer-course[widgets] @ git+{address}@main"
    keep = command[command.index("--constraint") + 1]
    assert Path(keep).read_text() == "numpy==2.0.2\ntorch==2.9.0+cu126\n"
