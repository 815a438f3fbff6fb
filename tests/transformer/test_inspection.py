import copy

import pytest
import torch
from torch import Tensor

from transformer.attention import MultiHeadAttention
from transformer.config import ModelConfig, Norm
from transformer.data.batching import Batch
from transformer.decoding import greedy_search
from transformer.device import Precision, choose_device
from transformer.inspection import ablate_heads, count_flops, record_attention, word_indices
from transformer.masks import padding_mask, target_mask
from transformer.model import Transformer
from transformer.quantization import quantize_linear_layers
from transformer.training.objective import batch_loss


def test_recording_covers_every_layer_and_does_not_change_the_output(tiny: Transformer, source: Tensor) -> None:
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


def test_in_training_the_weights_of_later_positions_are_zero(source: Tensor) -> None:
    """The decoder's self-attention is given no mask then: it is causal."""
    model = Transformer(ModelConfig(40, 32, 4, 64, 1, dropout=0.0)).train()
    with record_attention(model) as weights:
        model(source, source)
    assert weights["decoder.0.self_attention"].triu(1).eq(0).all()


def test_recorded_weights_explain_the_output(tiny: Transformer, source: Tensor) -> None:
    """Weights times values, concatenated and projected, equal the output of the fused form."""
    layer = tiny.encoder[0].self_attention
    x, mask = torch.randn(6, 9, 32), padding_mask(source, 0)
    output = layer(x, mask=mask)
    with record_attention(tiny) as weights:
        layer(x, mask=mask)
    value = layer.project(x)[1].value
    mixed = layer.output(layer.join_heads(weights["encoder.0.self_attention"] @ value))
    torch.testing.assert_close(mixed, output, atol=1e-5, rtol=1e-5)


def test_positional_arguments_are_recorded_like_keywords(tiny: Transformer, source: Tensor) -> None:
    layer, x, mask = tiny.encoder[0].self_attention, torch.randn(6, 9, 32), padding_mask(source, 0)
    recorded = []
    for args, kwargs in (((x, None, mask), {}), ((), {"x": x, "mask": mask})):
        with record_attention(tiny) as weights:
            layer(*args, **kwargs)
        recorded.append(weights["encoder.0.self_attention"])
    assert torch.equal(*recorded)
    assert recorded[0].masked_select(~mask.expand_as(recorded[0])).eq(0).all()


def test_recording_ends_with_the_context_and_rejects_a_cache(tiny: Transformer, source: Tensor) -> None:
    with record_attention(tiny) as weights:
        pass
    tiny.encode(source)
    assert weights == {}
    with pytest.raises(ValueError, match=r"model\.decode"), record_attention(tiny):
        greedy_search(tiny, source)
    greedy_search(tiny, source)


def test_pieces_belong_to_the_words_that_they_spell() -> None:
    assert word_indices(["▁The", "▁spring", "▁hat", "s", "."], ["The", "spring", "hats", "."]) == [0, 1, 2, 2, 3]
    assert word_indices(["▁", "Ä", "pfel"], ["Äpfel"]) == [0, 0, 0]
    assert word_indices(["▁a", "▁"], ["a"]) == [0, 0]
    assert word_indices([], []) == []
    with pytest.raises(ValueError, match="'Thehat', the words 'Thecat'"):
        word_indices(["▁The", "▁hat"], ["The", "cat"])


@pytest.mark.parametrize("off", [{"encoder.0.self_attention": [2]}, {"decoder.1.cross_attention": [0, 3]}], ids=str)
def test_ablating_a_head_equals_zeroing_its_columns_of_the_output_projection(
    tiny: Transformer, source: Tensor, off: dict[str, list[int]]
) -> None:
    target = torch.randint(4, 40, (6, 7))
    before = tiny(source, target)
    with ablate_heads(tiny, off):
        without = tiny(source, target)
    assert not torch.allclose(before, without)
    assert torch.equal(before, tiny(source, target)), "afterwards it is no longer ablated"
    changed = copy.deepcopy(tiny)
    for name, heads in off.items():
        for head in heads:
            changed.get_submodule(name).output.weight.data[:, 8 * head : 8 * head + 8] = 0
    torch.testing.assert_close(without, changed(source, target))


def test_a_layer_with_all_heads_ablated_returns_its_bias(tiny: Transformer) -> None:
    layer = tiny.encoder[0].self_attention
    torch.nn.init.normal_(layer.output.bias)
    with ablate_heads(tiny, {"encoder.0.self_attention": range(4)}):
        output = layer(torch.randn(2, 5, 32))
    torch.testing.assert_close(output, layer.output.bias.expand(2, 5, -1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_heads_of_a_model_in_another_dtype_are_ablated(dtype: torch.dtype, tiny: Transformer) -> None:
    layer = tiny.to(dtype).encoder[0].self_attention
    inputs: list[Tensor] = []
    layer.output.register_forward_hook(lambda module, args, output: inputs.append(args[0]))
    with ablate_heads(tiny, {"encoder.0.self_attention": [1]}):
        layer(torch.randn(2, 5, 32, dtype=dtype))
    heads = inputs[0].unflatten(-1, (4, 8))
    assert heads.dtype == dtype and heads[..., 1, :].eq(0).all() and heads[..., [0, 2, 3], :].all()


def test_heads_of_a_quantized_model_are_ablated(tiny: Transformer) -> None:
    quantized = quantize_linear_layers(tiny)
    layer = quantized.encoder[0].self_attention
    torch.nn.init.normal_(layer.output.bias)
    with ablate_heads(quantized, {"encoder.0.self_attention": range(4)}):
        output = layer(torch.randn(2, 5, 32))
    torch.testing.assert_close(output, layer.output.bias.expand(2, 5, -1))


def test_heads_stay_ablated_in_nested_contexts_and_with_a_cache(tiny: Transformer, source: Tensor) -> None:
    target = torch.randint(4, 40, (6, 7))
    first, second = (
        {"decoder.0.self_attention": [1]},
        {"decoder.0.self_attention": [3], "decoder.1.self_attention": [0]},
    )
    with ablate_heads(tiny, first), ablate_heads(tiny, second):
        nested, searched = tiny(source, target), greedy_search(tiny, source)
    with ablate_heads(tiny, {"decoder.0.self_attention": [1, 3], "decoder.1.self_attention": [0]}):
        torch.testing.assert_close(nested, tiny(source, target))
        assert searched == greedy_search(tiny, source)


@pytest.mark.parametrize(
    "off", [{"encoder.7.self_attention": [0]}, {"encoder.0": [0]}, {"encoder.0.self_attention": [4]}]
)
def test_unknown_heads_are_rejected(tiny: Transformer, off: dict[str, list[int]]) -> None:
    hooked = [len(module._forward_pre_hooks) for module in tiny.modules()]
    with pytest.raises(ValueError, match=r"there are encoder\.0\.self|has the heads 0 to 3"), ablate_heads(tiny, off):
        pass
    assert [len(module._forward_pre_hooks) for module in tiny.modules()] == hooked


def flops_by_formula(config: ModelConfig, batch: Batch) -> int:
    """Forward and backward: the product of (n, k) and (k, m) is 2nkm, and has two products like it backward."""
    d, ff, layers = config.d_model, config.d_ff, config.n_layers
    rows, s = batch.source.shape
    t = batch.labels.size(1)
    encoder = rows * s * (4 * d * d + 2 * d * ff)  # query, key, value, output; feed-forward
    decoder = rows * t * (4 * d * d + 2 * d * d + 2 * d * ff) + rows * s * 2 * d * d  # the memory's keys and values
    attention = rows * (s * s + t * t + t * s) * 2 * d  # scores, weighted sum; all heads together are d wide
    return 3 * 2 * (layers * (encoder + decoder + attention) + rows * t * d * config.vocab_size)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_counted_flops_equal_the_formula(norm: Norm, precision: Precision) -> None:
    config = ModelConfig(60, d_model=32, n_heads=4, d_ff=96, n_layers=2, norm=norm)
    model = Transformer(config)
    batch = Batch(*(torch.randint(4, 60, (3, length)) for length in (9, 7, 7)))
    with count_flops(model) as counter, choose_device("cpu", precision).autocast():
        batch_loss(model, batch, 0.1).backward()
    assert counter.get_total_flops() == flops_by_formula(config, batch)
    assert {layer.implementation for layer in model.modules() if isinstance(layer, MultiHeadAttention)} == {"fused"}


def test_after_an_exception_the_fused_attention_is_back(tiny: Transformer) -> None:
    with pytest.raises(ZeroDivisionError), count_flops(tiny):
        raise ZeroDivisionError
    assert {layer.implementation for layer in tiny.modules() if isinstance(layer, MultiHeadAttention)} == {"fused"}


def test_flops_are_about_six_per_parameter_and_token() -> None:
    """In the paper's base model each token uses each parameter once, and attention's own products are few."""
    config, batch = ModelConfig(), Batch(*(torch.ones(40, 25, dtype=torch.long) for _ in range(3)))
    assert flops_by_formula(config, batch) == pytest.approx(6 * 63_082_496 * 40 * 25, rel=0.03)
