"""The figures of label smoothing: the chart computes the loss of the package, and fits a phone."""

import math
from typing import Any

import pytest
import torch

from tests.transformer.plots.panels import panels
from transformer.loss import label_smoothed_cross_entropy
from transformer.plots import label_smoothing


def derived(epsilon: float, power: int) -> dict[str, Any]:
    """Return the quantities that the chart derives from its sliders, by its formulas."""
    names: dict[str, Any] = {"epsilon": epsilon, "power": power}
    for name, formula in label_smoothing.FORMULAS.items():
        names[name] = eval(formula, {"log": math.log, "pow": pow, "max": max}, names)
    return names


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("power", [1, 5, 12])
def test_the_chart_computes_the_loss_of_the_package(epsilon: float, power: int) -> None:
    quantities = derived(epsilon, power)
    for p in (0.01, 0.5, 0.96):
        logits = torch.full((1, 2**power), math.log((1 - p) / (2**power - 1)), dtype=torch.float64)
        logits[0, 1] = math.log(p)
        loss = label_smoothed_cross_entropy(logits, torch.tensor([1]), epsilon).item()
        assert eval(label_smoothing.LOSS, {"log": math.log}, {**quantities, "p": p}) == pytest.approx(loss)
        assert quantities["min_loss"] <= loss + 1e-9


@pytest.mark.parametrize("power", [1, 5, 12])
def test_the_loss_is_lowest_at_the_best_gap_between_the_logits(power: int) -> None:
    quantities = derived(0.1, power)
    logits = torch.zeros(1, 2**power, dtype=torch.float64)
    logits[0, 1] = quantities["best_gap"]
    loss = label_smoothed_cross_entropy(logits, torch.tensor([1]), 0.1).item()
    assert loss == pytest.approx(quantities["min_loss"])
    assert logits.softmax(dim=1)[0, 1].item() == pytest.approx(quantities["q_correct"])


def test_the_explorer_follows_the_page_and_fits_a_phone() -> None:
    spec = label_smoothing.label_smoothing_explorer("two sliders").to_dict()
    assert spec["description"] == "two sliders"
    assert spec["usermeta"]["embedOptions"]["renderer"] == "svg" and spec["config"]["background"] == "transparent"
    assert [param["name"] for param in spec["params"]] == ["epsilon", "power", *label_smoothing.FORMULAS]
    assert [param["value"] for param in spec["params"] if "bind" in param] == [0.1, 10]
    assert all(part["width"] <= 300 for part in panels(spec))
