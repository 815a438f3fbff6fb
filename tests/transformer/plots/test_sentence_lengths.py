"""The figure of sentence lengths shows the histograms of both sides and of their pairs."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from transformer.plots import style
from transformer.plots.sentence_lengths import MAX_BINS, sentence_lengths

SOURCE, TARGET = np.array([1, 2, 2, 3]), np.array([2, 4, 4, 1])


def mesh(figure: Figure) -> QuadMesh:
    """Return the two-dimensional histogram."""
    (collection,) = figure.axes[1].collections
    assert isinstance(collection, QuadMesh)
    return collection


def counts(figure: Figure) -> np.ndarray:
    """Return the number of pairs in each bin, [target, source]."""
    return np.ma.filled(mesh(figure).get_array(), 0)


def histograms(figure: Figure) -> list[tuple[list[float], list[float]]]:
    """Return the edges and the heights of the histograms."""
    return [(list(line.get_xdata()), list(line.get_ydata())[:-1]) for line in figure.axes[0].lines]


def test_every_pair_is_in_its_bin() -> None:
    figure = sentence_lengths(SOURCE, TARGET, ("en", "de"))
    expected = np.zeros((4, 4), int)
    expected[1, 0], expected[3, 1], expected[0, 2] = 1, 2, 1
    assert (counts(figure) == expected).all()
    for axis in (0, 1):
        edges = mesh(figure).get_coordinates()[..., axis]
        assert (edges.min(), edges.max()) == (0.5, 4.5)
    assert mesh(figure).norm.vmin == 0.5 and mesh(figure).norm.vmax == 2


def test_the_histograms_are_fractions_of_sentences() -> None:
    figure = sentence_lengths(SOURCE, TARGET, ("en", "de"))
    edges = [0.5, 1.5, 2.5, 3.5, 4.5]
    assert histograms(figure) == [(edges, [0.25, 0.5, 0.25, 0]), (edges, [0.25, 0.25, 0, 0.5])]
    source, target = figure.axes[0].lines
    assert (source.get_label(), target.get_label()) == ("en", "de")
    assert source.get_linestyle() != target.get_linestyle()


def test_many_lengths_share_bins() -> None:
    n = np.arange(1, 2 * MAX_BINS + 2)  # one too many for bins of two lengths
    figure = sentence_lengths(n, n, ("en", "de"))
    table = counts(figure)
    assert len(table) == 41 and table.sum() == 121 and (table.diagonal() == [3] * 40 + [1]).all()
    edges, heights = histograms(figure)[0]
    assert edges[:2] == [0.5, 3.5] and heights == pytest.approx([3 / 121] * 40 + [1 / 121])
    assert len(counts(sentence_lengths(n[:120], n[:120], ("en", "de")))) == 60
    assert len(counts(sentence_lengths(n[:60], n[:60], ("en", "de")))) == 60


def test_all_of_one_length() -> None:
    one = np.array([1, 1])
    assert counts(sentence_lengths(one, one, ("en", "de"))).tolist() == [[2]]


def test_the_ratio_draws_two_lines_and_no_ratio_none() -> None:
    panel = sentence_lengths(SOURCE, TARGET, ("en", "de"), max_ratio=2.5).axes[1]
    assert sorted(line.get_slope() for line in panel.lines) == [0.4, 2.5]  # type: ignore[attr-defined]
    assert all(line.get_xy1() == (0, 0) for line in panel.lines)  # type: ignore[attr-defined]
    assert [text.get_text() for text in panel.texts] == ["max_ratio=2.5"]
    panel = sentence_lengths(SOURCE, TARGET, ("en", "de")).axes[1]
    assert not panel.lines and not panel.texts


def test_its_labels() -> None:
    left, right = sentence_lengths(SOURCE, TARGET, ("en", "fr"), max_ratio=2).axes
    assert (left.get_title("left"), right.get_title("left")) == ("Fraction of sentences", "Pairs (brighter: more)")
    assert (left.get_xlabel(), right.get_xlabel(), right.get_ylabel()) == ("tokens", "tokens, en", "tokens, fr")
    legend = left.get_legend()
    assert legend is not None and [text.get_text() for text in legend.get_texts()] == ["en", "fr"]
    assert left.yaxis.get_major_formatter()(0.15) == "15%" and left.get_xlim() == (0, 4.5)
    assert right.get_xlim() == right.get_ylim() == (0.5, 4.5)
    assert right.get_facecolor() == mpl.colormaps[style.WEIGHTS](0.0)


def test_it_fits_a_page() -> None:
    figure = sentence_lengths(SOURCE, TARGET, ("en", "fr"))
    assert figure.get_figwidth() <= 5
    svg = style.Picture(figure, "lengths")._repr_html_()
    assert "currentColor" in svg and style.INK not in svg
