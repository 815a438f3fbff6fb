import pytest
import torch
from torch import Tensor

from transformer.attention import MultiHeadAttention
from transformer.decoding import greedy_search
from transformer.inspection import record_attention
from transformer.masks import padding_mask, target_mask
from transformer.model import Transformer


def test_every_layer_is_recorded_and_nothing_else_changes(tiny: Transformer, source: Tensor) -> None:
    target = torch.randint(4, 40, (6, 7))
    before = tiny(source, target)
    with record_attention(tiny) as weights:
        during = tiny(source, target)
    assert torch.equal(before, during)
    layers = [name for name, module in tiny.named_modules() if isinstance(module, MultiHeadAttention)]
    assert list(weights) == layers
    assert weights["encoder.0.self_attention"].shape == (6, 4, 9, 9)
    assert weights["decoder.1.cross_attention"].shape == (6, 4, 7, 9)
    for name, w in weights.items():
        mask = target_mask(target, 0) if "decoder" in name and "self" in name else padding_mask(source, 0)
        torch.testing.assert_close(w.sum(-1), torch.ones_like(w[..., 0]))
        assert w.masked_select(~mask.expand_as(w)).eq(0).all()


def test_recorded_weights_explain_the_output(tiny: Transformer, source: Tensor) -> None:
    """Weights times values, joined and projected, are what the fused form returned."""
    layer = tiny.encoder[0].self_attention
    x, mask = torch.randn(6, 9, 32), padding_mask(source, 0)
    output = layer(x, mask=mask)
    with record_attention(tiny) as weights:
        layer(x, mask=mask)
    value = layer.project(x)[1].value
    mixed = layer.output(layer.join(weights["encoder.0.self_attention"] @ value))
    torch.testing.assert_close(mixed, output, atol=1e-5, rtol=1e-5)


def test_nothing_is_recorded_afterwards_and_a_cache_is_refused(tiny: Transformer, source: Tensor) -> None:
    with record_attention(tiny) as weights:
        pass
    tiny.encode(source)
    assert weights == {}
    with pytest.raises(ValueError, match=r"model\.decode"), record_attention(tiny):
        greedy_search(tiny, source)
    greedy_search(tiny, source)
