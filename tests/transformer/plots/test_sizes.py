"""The figures of the architecture, of the scale of each layer, and of the number of parameters."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from transformer.config import PRESETS, ModelConfig, Tying
from transformer.inspection import parameter_counts
from transformer.model import Transformer
from transformer.plots import style
from transformer.plots.architecture import architecture
from transformer.plots.parameter_explorer import FORMULAS, parameter_explorer
from transformer.plots.parameter_squares import parameter_squares
from transformer.plots.scale_by_layer import scale_by_layer


def test_the_architecture_shows_the_sizes() -> None:
    texts = [text.get_text() for text in architecture(PRESETS["big"]).axes[0].texts]
    assert texts.count("embedding E × √1024") == 2 and texts.count("linear, weights E") == 1
    assert "6 × decoder" in texts and "memory (source, 1024)" in texts and "logits (target, 37,000)" in texts


def test_only_the_papers_architecture_is_drawn() -> None:
    for other in ({"norm": "pre"}, {"positions": "rotary"}, {"tie_embeddings": "none"}):
        with pytest.raises(ValueError, match="the figure shows the paper's model"):
            architecture(ModelConfig(**other))


def test_the_architecture_has_a_dot_for_each_dropout() -> None:
    axes = architecture(ModelConfig()).axes[0]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert len(dots) == 2 + 2 + 3 + 1, "after both sums and every sublayer; and one in the legend"


def test_layers_of_two_stacks_are_two_lines_with_one_name() -> None:
    (axes,) = scale_by_layer({"good": [1, 1, 2, 2], "bad": [1, 10, 1e-5, 1e-9]}, "Gradient", split=2).axes
    assert axes.get_yscale() == "log"
    assert [len(line.get_xdata()) for line in axes.lines[:4]] == [2, 2, 2, 2]
    legend = axes.get_legend()
    assert legend is not None and [text.get_text() for text in legend.get_texts()] == ["good", "bad"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "1", "2"]


def test_layers_of_one_stack_are_one_line() -> None:
    (axes,) = scale_by_layer({"variance": [1, 0.5, 0.25]}, "Variance").axes
    assert len(axes.lines) == 1 and axes.get_xlabel() == "layer"


def test_two_figures_can_have_the_same_scale() -> None:
    (axes,) = scale_by_layer({"variance": [1, 0.5]}, "Variance", limits=(0.1, 10)).axes
    assert axes.get_ylim() == (0.1, 10) and list(axes.get_xticks()) == [1, 2]


@pytest.mark.parametrize(("tie", "matrices"), [("all", 1), ("decoder", 2), ("none", 3)])
@pytest.mark.parametrize("name", ["small", "base", "big"])
def test_the_formulas_count_the_parameters_of_the_model(name: str, tie: Tying, matrices: int) -> None:
    config = replace(PRESETS[name], tie_embeddings=tie)
    sizes = {"d": config.d_model, "f": config.d_ff, "n": config.n_layers, "v": config.vocab_size, "t": matrices}
    with torch.device("meta"):
        counts = parameter_counts(Transformer(config))
    assert {part: eval(formula, {}, sizes) for part, formula in FORMULAS.items()} == counts


def test_the_sizes_follow_the_sliders_by_the_formulas() -> None:
    spec = parameter_explorer({"base": {"embeddings": 31_600_000}}, "drag the sliders to see").to_dict()
    base = ModelConfig()
    sizes = {"d": base.d_model, "f": base.d_ff, "n": base.n_layers, "v": base.vocab_size, "t": 1}
    assert {p["name"]: p["value"] for p in spec["params"] if "bind" in p} == sizes
    (bars,) = (layer for layer in spec["vconcat"][1]["layer"] if layer["mark"]["type"] == "bar")
    steps = " ".join(str(step.get("calculate")) for step in bars["transform"])
    assert all(f"({formula})" in steps for formula in FORMULAS.values())
    assert "base 31.6" in str(spec["vconcat"][0]["transform"])


def test_the_squares_have_the_area_of_the_weight_matrices() -> None:
    config = ModelConfig()
    (axes,) = parameter_squares(config).axes
    area = Counter[str]()
    for square in axes.patches:
        assert isinstance(square, Rectangle)
        area[to_hex(square.get_facecolor(), keep_alpha=True)] += round(square.get_width() + 0.12, 2)
    attentions = 3 * config.n_layers
    assert [area[colour.lower() + "ff"] for colour in (style.QUERY, style.KEY, style.VALUE, style.OUTPUT)] == [
        attentions
    ] * 4
    assert area["#00000000"] == 2 * config.n_layers * 8
    assert area[style.INK + "ff"] == pytest.approx(37_000 / 512, abs=0.01)
    assert area.total() * 512**2 == pytest.approx(config.n_parameters, rel=0.002)
