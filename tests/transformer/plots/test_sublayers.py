"""The figures of a layer: placement of the norm, residual stream, and runs with either placement."""

import torch

from tests.transformer.plots.panels import panels
from transformer.plots.decoder_layer import decoder_layer
from transformer.plots.norm_placement import norm_placement
from transformer.plots.residual_stream import residual_stream
from transformer.plots.run_comparison import run_comparison


def test_both_placements_have_the_same_parts_and_pre_norm_one_more_norm() -> None:
    texts = [text.get_text() for text in norm_placement().axes[0].texts]
    assert texts.count("attention") == texts.count("feed-forward") == 2
    assert texts.count("+") == 4 and texts.count("norm") == 2 + 2 + 1
    assert {"post-norm", "pre-norm"} <= set(texts)


def test_a_decoder_layer_has_three_sublayers_and_reads_the_memory_in_one() -> None:
    figure = decoder_layer()
    texts = [text.get_text() for text in figure.axes[0].texts]
    order = [text for text in texts if text in ("self-attention", "cross-attention", "feed-forward")]
    assert order == ["self-attention", "cross-attention", "feed-forward"]
    assert texts.count("+") == texts.count("norm") == 3
    assert {"memory", "queries", "keys", "values"} <= set(texts) and figure.get_figwidth() <= 5


def test_every_stage_has_the_statistics_of_every_word() -> None:
    vectors = torch.tensor([[[1.0, 3.0], [2.0, 2.0]], [[-1.0, -3.0], [4.0, 0.0]]])
    spec = residual_stream(vectors, ["start", "rotated"], ["dog", "cat"], "step through the parts", 1).to_dict()
    assert spec["description"] == "step through the parts" and all(part["width"] <= 300 for part in panels(spec))
    (rows,) = spec["datasets"].values()
    rotated = next(row for row in rows if row["stage"] == 1 and row["word"] == "dog")
    assert (rotated["deviation"], rotated["cosine"]) == (1, -1)
    assert spec["title"]["text"] == {"expr": "stage + ': ' + ['start', 'rotated'][stage]"}
    assert [row["cosine"] for row in rows if row["stage"] == 0] == [1, 1]
    (slider,) = (param for param in spec["params"] if "bind" in param)
    assert slider["value"] == slider["bind"]["max"] == 1


def test_the_comparison_has_a_line_for_each_run_and_buttons() -> None:
    runs = {
        (n, w, r): [3.0, 2.0, 1.0, 1.0, 1.0, 0.5] for n in ("post", "pre") for w in ("yes", "no") for r in (1.0, 2.0)
    }
    spec = run_comparison(runs, ("guessing", 2.5), 2.0, "select a learning rate").to_dict()
    rows = next(rows for rows in spec["datasets"].values() if len(rows) > 1)
    assert len(rows) == 8 * 2 and {row["loss"] for row in rows} == {1.6, 0.5}
    bound = {param["name"]: param for param in spec["params"] if "bind" in param}
    assert bound["rate"]["value"] == 2.0 and bound["rate"]["bind"]["options"] == [1.0, 2.0]
    assert bound["show"]["bind"]["options"] == ["both", "post", "pre"]
