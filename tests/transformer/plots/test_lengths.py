"""The picture of lengths, and pictures as files."""

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

from transformer.errors import UserError
from transformer.plots import lengths, style

SOURCE, TARGET = np.array([1, 2, 2, 3]), np.array([2, 4, 4, 1])


def cells(figure: Figure) -> np.ndarray:
    """The right panel's counts, [target, source]."""
    (image,) = figure.axes[1].images
    return np.ma.filled(image.get_array(), 0)


def steps(figure: Figure) -> list[StepPatch]:
    return [patch for patch in figure.axes[0].patches if isinstance(patch, StepPatch)]


def test_every_pair_is_in_its_cell() -> None:
    figure = lengths.lengths(SOURCE, TARGET, ("en", "de"))
    expected = np.zeros((4, 4), int)
    expected[1, 0], expected[3, 1], expected[0, 2] = 1, 2, 1
    assert (cells(figure) == expected).all()
    (image,) = figure.axes[1].images
    assert list(image.get_extent()) == [0.5, 4.5, 0.5, 4.5] and image.origin == "lower"
    assert image.norm.vmin == 0.5 and image.norm.vmax == 2


def test_the_steps_are_shares_of_sentences() -> None:
    source, target = steps(lengths.lengths(SOURCE, TARGET, ("en", "de")))
    for step, shares, name in ((source, [0.25, 0.5, 0.25, 0], "en"), (target, [0.25, 0.25, 0, 0.5], "de")):
        assert step.get_data().values.tolist() == shares and step.get_label() == name
        assert step.get_data().edges.tolist() == [0.5, 1.5, 2.5, 3.5, 4.5]
    assert source.get_linestyle() != target.get_linestyle()


def test_many_lengths_are_put_together() -> None:
    n = np.arange(1, 2 * lengths.CELLS + 2)  # one too many for pairs of lengths
    figure = lengths.lengths(n, n, ("en", "de"))
    counts = cells(figure)
    assert len(counts) == 41 and counts.sum() == 121 and (counts.diagonal() == [3] * 40 + [1]).all()
    (step, _) = steps(figure)
    assert step.get_data().edges[:2].tolist() == [0.5, 3.5]
    assert step.get_data().values.tolist() == pytest.approx([1 / 121] * 40 + [1 / 363])
    assert len(cells(lengths.lengths(n[:120], n[:120], ("en", "de")))) == 60
    assert len(cells(lengths.lengths(n[:60], n[:60], ("en", "de")))) == 60


def test_all_of_one_length() -> None:
    one = np.array([1, 1])
    assert cells(lengths.lengths(one, one, ("en", "de"))).tolist() == [[2]]


def test_the_ratio_draws_two_lines_and_no_ratio_none() -> None:
    panel = lengths.lengths(SOURCE, TARGET, ("en", "de"), max_ratio=2.5).axes[1]
    assert sorted(line.get_slope() for line in panel.lines) == [0.4, 2.5]  # type: ignore[attr-defined]
    assert all(line.get_xy1() == (0, 0) for line in panel.lines)  # type: ignore[attr-defined]
    assert [text.get_text() for text in panel.texts] == ["max_ratio=2.5"]
    panel = lengths.lengths(SOURCE, TARGET, ("en", "de")).axes[1]
    assert not panel.lines and not panel.texts


def test_it_says_what_is_shown() -> None:
    left, right = lengths.lengths(SOURCE, TARGET, ("en", "fr"), max_ratio=2).axes
    assert (left.get_title("left"), right.get_title("left")) == ("Share of sentences", "Pairs (lighter: more)")
    assert (left.get_xlabel(), right.get_xlabel(), right.get_ylabel()) == ("tokens", "tokens, en", "tokens, fr")
    legend = left.get_legend()
    assert legend is not None and [text.get_text() for text in legend.get_texts()] == ["en", "fr"]
    assert left.yaxis.get_major_formatter()(0.15) == "15%" and left.get_xlim() == (0, 4.5)
    assert right.get_xlim() == right.get_ylim() == (0.5, 4.5)
    assert right.get_facecolor() == mpl.colormaps[style.WEIGHTS](0.0)


def test_it_fits_a_page() -> None:
    figure = lengths.lengths(SOURCE, TARGET, ("en", "fr"))
    assert figure.get_figwidth() <= 5
    shown = style.Picture(figure, "lengths")._repr_html_()
    assert "currentColor" in shown and style.INK not in shown


# Files


@pytest.mark.parametrize(("name", "start"), [("x.png", b"\x89PNG"), ("x.svg", b"<?xml"), ("x.pdf", b"%PDF")])
def test_the_suffix_says_what_it_is(name: str, start: bytes, tmp_path: Path) -> None:
    style.save(lengths.lengths(SOURCE, TARGET, ("en", "de")), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_a_saved_picture_is_on_white(tmp_path: Path) -> None:
    style.save(lengths.lengths(SOURCE, TARGET, ("en", "de")), tmp_path / "x.svg")
    assert re.search(r"fill: #ffffff", (tmp_path / "x.svg").read_text())


@pytest.mark.parametrize("name", ["x.jpg", "x", "png", "x.png.txt"])
def test_no_picture(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"ends in \.png, \.svg or \.pdf; got '.*" + name):
        style.save(Figure(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_no_place_for_a_picture(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no folder .*none to save x\.png in: make it first"):
        style.save(Figure(), tmp_path / "none" / "x.png")
    (tmp_path / "x.png").mkdir()
    with pytest.raises(UserError, match=r"cannot write .*x\.png: Is a directory"):
        style.save(Figure(), tmp_path / "x.png")
    assert [path.name for path in tmp_path.iterdir()] == ["x.png"]


def test_an_older_picture_stays_until_the_new_one_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.png").write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("transformer.checkpoint.os.fsync", full)
    with pytest.raises(UserError, match=r"cannot write .*x\.png: No space left"):
        style.save(Figure(), tmp_path / "x.png")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]
