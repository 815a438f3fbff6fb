"""The curves of a run: the losses share a legend; BLEU has none, and a colour of its own."""

from transformer.plots import style
from transformer.plots.training_curves import training_curves

ROWS = [{"step": step, "train_loss": 3.0, "valid_loss": 2.0, "valid_bleu": 10.0} for step in (10, 20)]


def test_each_line_has_its_own_colour() -> None:
    spec = training_curves(ROWS, "point at a step").to_dict()
    assert spec["resolve"] == {"scale": {"color": "independent"}}, "otherwise both panels would share one legend"
    loss, score = (panel["layer"][0]["encoding"]["color"] for panel in spec["vconcat"])
    assert loss["scale"]["range"] == [style.KEY, style.QUERY] and loss["legend"] is not None
    assert score["scale"]["range"] == [style.VALUE] and score["legend"] is None
