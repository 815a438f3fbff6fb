"""The figure of a layer of 2017 and a layer of today."""

from transformer.plots.modern_layer import LAYERS, modern_layer


def test_each_layer_has_two_sublayers_and_two_norms_of_its_kind() -> None:
    figure = modern_layer()
    texts = [text.get_text() for text in figure.axes[0].texts]
    for name, (_, norm, parts) in LAYERS.items():
        assert texts.count(name) == 1 and texts.count(norm) == 2
        assert all(texts.count(part) == 1 for part in parts)
    assert texts.count("+") == 4 and "norm" not in texts
    assert figure.get_figwidth() <= 5
