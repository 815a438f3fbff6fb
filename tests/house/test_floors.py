"""The package is a house: a module imports only from floors below its own."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "transformer"

FLOORS = [
    {"errors", "masks", "positions", "loss", "schedule", "provenance"},
    {"attention", "device", "data"},
    {"config"},
    {"layers"},
    {"model"},
    {"checkpoint", "decoding", "inspection"},
    {"translator"},
    {"evaluation"},
    {"training", "recipes"},
    {"plots", "bench", "models", "interactive"},
    {"cli"},
]
"""From the ground up. Modules on one floor do not know each other; those of a room, a subpackage, share its floor."""

MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    """The module's name, or that of the subpackage that it lies in."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def floor_of(module: str) -> int:
    (floor,) = (i for i, modules in enumerate(FLOORS) if module in modules)
    return floor


def imports(path: Path) -> set[str]:
    """The package's own modules that a file imports, at its top or anywhere inside."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "transformer":
            below = node.module.split(".")[1:]
            found |= {below[0]} if below else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("transformer.")}
    return found - {"__version__"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).with_suffix("").as_posix())
def test_a_module_imports_only_from_floors_below(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        assert imports(path) == {"models"}, "transformer.load is the one name at the top"
        return
    above = {module for module in imports(path) - {room} if floor_of(module) >= floor_of(room)}
    assert not above, f"{path.name} stands on floor {floor_of(room)} and imports {above}"


def test_every_module_has_a_floor_and_every_floor_its_modules() -> None:
    assert {room_of(path) for path in MODULES} - {"__init__"} == set().union(*FLOORS)
