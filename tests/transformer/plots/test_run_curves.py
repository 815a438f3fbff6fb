"""A run's curves: the losses share a legend, and BLEU, which has none, takes no colour of theirs."""

from transformer.plots import style
from transformer.plots.training import run_curves

ROWS = [{"step": step, "train_loss": 3.0, "valid_loss": 2.0, "valid_bleu": 10.0} for step in (10, 20)]


def test_each_line_has_the_colour_that_it_was_given() -> None:
    spec = run_curves(ROWS, "point at a step").to_dict()
    assert spec["resolve"] == {"scale": {"color": "independent"}}, "else both panels' names would share one list"
    loss, score = (panel["layer"][0]["encoding"]["color"] for panel in spec["vconcat"])
    assert loss["scale"]["range"] == [style.KEY, style.QUERY] and loss["legend"] is not None
    assert score["scale"]["range"] == [style.VALUE] and score["legend"] is None
