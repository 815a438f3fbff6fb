"""The figures of the architecture, of the scale of each layer, and of the number of parameters."""

from transformer.config import PRESETS, ModelConfig
from transformer.plots.architecture import architecture
from transformer.plots.parameter_explorer import parameter_explorer
from transformer.plots.scale_by_layer import scale_by_layer

FORMULAS = {"embeddings": "t * v * d", "encoder feed-forward": "n * (2 * d * f + f + d)", "decoder norms": "n * 6 * d"}


def test_the_architecture_shows_the_sizes() -> None:
    texts = [text.get_text() for text in architecture(PRESETS["big"]).axes[0].texts]
    assert texts.count("embedding E × √1024") == 2 and texts.count("linear, weights E") == 1
    assert "6 × decoder" in texts and "memory (source, 1024)" in texts and "logits (target, 37,000)" in texts


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


def test_the_sizes_follow_the_sliders_by_the_given_formulas() -> None:
    sizes = {"d": 512, "f": 2048, "n": 6, "v": 37_000, "t": 1}
    base = {part: eval(formula, {}, sizes) for part, formula in FORMULAS.items()}
    spec = parameter_explorer(FORMULAS, {"base": base}, "drag the sliders to see").to_dict()
    assert {p["name"]: p["value"] for p in spec["params"] if "bind" in p} == sizes
    (bars,) = (layer for layer in spec["vconcat"][1]["layer"] if layer["mark"]["type"] == "bar")
    steps = " ".join(str(step.get("calculate")) for step in bars["transform"])
    assert all(f"({formula})" in steps for formula in FORMULAS.values())
    assert "base 31.6" in str(spec["vconcat"][0]["transform"])
