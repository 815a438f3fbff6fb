"""Predictions are grouped by confidence, and the diagram shows each group's accuracy."""

import pytest
import torch

from transformer.plots.reliability import ConfidenceBins, confidence_bins, reliability_diagram


def test_each_bin_has_the_share_the_confidence_and_the_accuracy_of_its_predictions() -> None:
    confidence = torch.tensor([0.6, 0.7, 0.6, 0.1, 1.0, 0.5])
    correct = torch.tensor([True, False, True, False, True, False])
    bins = confidence_bins(confidence, correct, n_bins=2)  # below 0.5: 0.1 alone
    assert bins.fraction.tolist() == pytest.approx([1 / 6, 5 / 6])
    assert bins.confidence.tolist() == pytest.approx([0.1, 3.4 / 5])
    assert bins.accuracy.tolist() == pytest.approx([0, 3 / 5])


def test_an_empty_bin_has_zeros() -> None:
    bins = confidence_bins(torch.tensor([0.05, 0.95]), torch.tensor([True, True]), n_bins=3)
    assert [values[1].item() for values in bins] == [0, 0, 0]


def test_the_diagram_omits_empty_bins_and_draws_every_fraction() -> None:
    values = [[0.25, 0.0, 0.75], [0.2, 0.0, 0.9], [0.3, 0.0, 0.6]]
    figure = reliability_diagram(ConfidenceBins(*torch.tensor(values, dtype=torch.float64)), "a model")
    above, below = figure.axes
    assert above.get_title(loc="left") == "a model"
    (diagonal,) = above.lines
    gaps, points = above.collections
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0, 1]
    assert [segment[:, 1].tolist() for segment in gaps.get_segments()] == [[0.2, 0.3], [0.9, 0.6]]
    assert points.get_offsets().tolist() == [[0.2, 0.3], [0.9, 0.6]]
    assert [bar.get_height() for bar in below.patches] == [0.25, 0.0, 0.75]


def test_bins_with_few_predictions_are_pale() -> None:
    values = torch.tensor([[0.005, 0.995], [0.2, 0.9], [0.5, 0.6]])
    gaps, points = reliability_diagram(ConfidenceBins(*values), "a model").axes[0].collections
    for shown in (gaps.get_colors(), points.get_facecolors()):
        assert [alpha for *_, alpha in shown.tolist()] == [0.25, 1]
