"""Layers of the package: a module imports only from the layers below its own, and there are no import cycles."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "transformer"

LAYERS = [
    {"errors", "progress", "masks", "positions", "loss", "schedule", "provenance"},
    {"files"},
    {"attention", "device", "data", "command_line"},
    {"config", "quantization"},
    {"layers"},
    {"model"},
    {"checkpoint", "decoding", "huggingface", "inspection"},
    {"translator"},
    {"evaluation"},
    {"training", "recipes"},
    {"plots", "bench", "models", "interactive"},
    {"commands"},
    {"cli"},
]
"""From the bottom to the top. Parts of one layer don't import each other; a subpackage is one part."""

MODULES = sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    """The name of a top-level module, or of the subpackage that a module belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def layer_of(part: str) -> int:
    (layer,) = (i for i, parts in enumerate(LAYERS) if part in parts)
    return layer


def imported_names(nodes: Iterator[ast.AST]) -> Iterator[str]:
    """The dotted names inside the package that some import statements refer to."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            assert not node.level, "imports in this package are absolute"
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name for name in names if name and name.startswith("transformer."))


def imported_parts(path: Path) -> set[str]:
    """The parts of the package that a file imports, at the top of the file or inside a function."""
    names = imported_names(ast.walk(ast.parse(path.read_text("utf-8"))))
    return {name.split(".")[1] for name in names} - {"__version__"}


def executed_on_import(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when a module is imported: not the bodies of functions, not what is for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from executed_on_import(child)


def import_graph(package: Path) -> dict[str, set[str]]:
    """Each module of a package with the modules of the package that it imports while it is imported itself."""
    files = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        files[".".join(part for part in parts if part != "__init__")] = path
    trees = {name: ast.parse(path.read_text("utf-8")) for name, path in files.items()}
    return {name: {*imported_names(executed_on_import(tree))} & files.keys() - {name} for name, tree in trees.items()}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).with_suffix("").as_posix())
def test_a_module_imports_only_from_layers_below(path: Path) -> None:
    part = part_of(path)
    if part == "__init__":
        assert imported_parts(path) == {"models"}, "transformer.load is the only name at the top"
        return
    wrong = {other for other in imported_parts(path) - {part} if layer_of(other) >= layer_of(part)}
    assert not wrong, f"{path.name} belongs to layer {layer_of(part)} and imports {wrong}"


def test_every_part_has_a_layer() -> None:
    assert {part_of(path) for path in MODULES} - {"__init__"} == set().union(*LAYERS)


def test_there_are_no_import_cycles() -> None:
    graph = import_graph(PACKAGE)
    assert "transformer.attention" in graph["transformer.layers"]
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize(
    ("statement", "is_a_cycle"),
    [
        ("from transformer.inner.first import x", True),
        ("from transformer.inner import first", True),
        ("import transformer.inner.first", True),
        ("try:\n    import transformer.inner.first\nexcept ImportError:\n    pass", True),
        ("class C:\n    from transformer.inner.first import x", True),
        ("def late():\n    from transformer.inner.first import x", False),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import transformer.inner.first", False),
    ],
)
def test_a_cycle_inside_a_subpackage_is_detected(tmp_path: Path, statement: str, is_a_cycle: bool) -> None:
    package = tmp_path / "transformer"
    (package / "inner").mkdir(parents=True)
    for name, text in {
        "first": "import transformer.inner.second",
        "second": "from transformer.inner.third import x",
    }.items():
        (package / "inner" / f"{name}.py").write_text(text)
    (package / "inner" / "third.py").write_text(statement)
    sorter = TopologicalSorter(import_graph(package))
    if is_a_cycle:
        with pytest.raises(CycleError):
            sorter.prepare()
    else:
        sorter.prepare()
