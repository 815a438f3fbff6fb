"""The curves of a run: the losses share a legend; BLEU has none, and a colour of its own."""

from pathlib import Path

import pytest

from transformer.plots import style
from transformer.plots.training_curves import compare_runs, training_curves

ROWS = [{"step": step, "train_loss": 3.0, "valid_loss": 2.0, "valid_bleu": 10.0} for step in (10, 20)]


def test_each_line_has_its_own_colour() -> None:
    spec = training_curves(ROWS, "point at a step").to_dict()
    assert spec["resolve"] == {"scale": {"color": "independent"}}, "otherwise both panels would share one legend"
    loss, score = (panel["layer"][0]["encoding"]["color"] for panel in spec["vconcat"])
    assert loss["scale"]["range"] == [style.KEY, style.QUERY] and loss["legend"] is not None
    assert score["scale"]["range"] == [style.VALUE] and score["legend"] is None


@pytest.mark.parametrize("name", ["$x^$", "a$b_{x", "_private", "a\udcffb", "$\\frac{$"])
def test_the_name_of_a_run_is_drawn_as_it_is(name: str, tmp_path: Path) -> None:
    keys = ("step", "minutes", "target_tokens", "train_loss", "learning_rate", "valid_loss", "valid_bleu")
    figure = compare_runs({name: [dict.fromkeys(keys, 1.0), dict.fromkeys(keys, 2.0)]}, "step")
    style.save(figure, tmp_path / "curves.svg")
    assert len(figure.axes[0].get_legend().get_texts()) == 1
