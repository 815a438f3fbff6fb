"""Saving a figure to a file."""

import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from transformer.errors import UserError
from transformer.plots import style
from transformer.plots.curves import curves


@pytest.mark.parametrize(("name", "start"), [("x.png", b"\x89PNG"), ("x.svg", b"<?xml"), ("x.pdf", b"%PDF")])
def test_the_extension_selects_the_format(name: str, start: bytes, tmp_path: Path) -> None:
    style.save(curves([1, 2], {"a": [1, 2]}, "x", "y"), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_a_saved_figure_has_a_white_background(tmp_path: Path) -> None:
    style.save(curves([1, 2], {"a": [1, 2]}, "x", "y"), tmp_path / "x.svg")
    assert re.search(r"fill: #ffffff", (tmp_path / "x.svg").read_text())


@pytest.mark.parametrize("name", ["x.jpg", "x", "png", "x.png.txt"])
def test_other_extensions_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"must end in \.png, \.svg or \.pdf; got '.*" + name):
        style.save(Figure(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot write .*x\.png: there is no folder .*none"):
        style.save(Figure(), tmp_path / "none" / "x.png")
    (tmp_path / "x.png").mkdir()
    with pytest.raises(UserError, match=r"cannot write .*x\.png: it is a folder"):
        style.save(Figure(), tmp_path / "x.png")
    assert [path.name for path in tmp_path.iterdir()] == ["x.png"]


def test_an_existing_file_stays_until_the_new_one_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.png").write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("transformer.files.os.fsync", full)
    with pytest.raises(UserError, match=r"cannot write .*x\.png: No space left"):
        style.save(Figure(), tmp_path / "x.png")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]
