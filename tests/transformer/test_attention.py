import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from transformer.attention import AttentionImplementation, KeyValueCache, MultiHeadAttention, attention, fused_attention
from transformer.masks import causal_mask, padding_mask, target_mask
from transformer.positions import rotary_table


def by_loops(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Compute attention by its definition, with loops: (n_query, d_k), (n_key, d_k), (n_key, d_v), (n_query, n_key)."""
    out = torch.zeros(len(query), value.size(1))
    for i in range(len(query)):
        allowed = [j for j in range(len(key)) if mask[i, j]]
        scores = [sum(float(query[i, c] * key[j, c]) for c in range(query.size(1))) for j in allowed]
        exps = [math.exp(s / math.sqrt(query.size(1))) for s in scores]
        for j, e in zip(allowed, exps, strict=True):
            out[i] += e / sum(exps) * value[j]
    return out


def by_einsum(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Compute attention with einsum."""
    scores = torch.einsum("...qc,...kc->...qk", query, key) / math.sqrt(query.size(-1))
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num(0.0)
    return torch.einsum("...qk,...kc->...qc", weights, value)


IDS = torch.tensor([[5, 6, 7, 0, 0], [5, 6, 7, 8, 9], [5, 0, 0, 0, 0]])
"""Three sentences of five tokens, padded with 0."""

MASKS = {
    "none": torch.ones(1, 1, 5, 5, dtype=torch.bool),
    "causal": causal_mask(5),
    "padding": padding_mask(IDS, 0),
    "target": target_mask(IDS, 0),
    "beams": torch.eye(5, dtype=torch.bool).expand(3, 1, 5, 5),
    "an empty row": torch.tensor([1, 0, 1, 1, 1], dtype=torch.bool)[:, None].expand(1, 1, 5, 5),
    "one dimension": torch.tensor([1, 0, 1, 1, 0], dtype=torch.bool),
    "nothing at all": torch.zeros(1, 1, 5, 5, dtype=torch.bool),
}
"""Every mask that the model uses, one of a single dimension, and two in which some queries may attend to no key."""


def test_arguments_that_exclude_each_other_are_refused() -> None:
    layer, x = MultiHeadAttention(8, 2), torch.randn(3, 5, 8)
    cache = KeyValueCache(3, 5, 2, 4, 4, like=x)
    for other in ({"mask": causal_mask(5)}, {"cache": cache}, {"memory": x}):
        with pytest.raises(ValueError, match="is_causal=True is for self-attention, without a mask or a cache"):
            layer(x, **other, is_causal=True)
    with pytest.raises(ValueError, match="is_causal cannot be combined with a mask"):
        fused_attention(x, x, x, causal_mask(5), is_causal=True)
    with pytest.raises(ValueError, match="pass memory or a cache, not both"):
        layer(x, x, cache=cache)


Attention = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
IMPLEMENTATIONS: dict[str, Attention] = {
    "explicit": lambda q, k, v, m: attention(q, k, v, m)[0],
    "fused": fused_attention,
}


def run(implementation: Attention, inputs: Tensor, mask: Tensor) -> list[Tensor]:
    """Return the output and the gradients of query, key and value."""
    query, key, value = (t.clone().requires_grad_() for t in inputs)
    out = implementation(query, key, value, mask)
    (out.double() * torch.linspace(-1, 1, 8)).sum().backward()
    assert query.grad is not None and key.grad is not None and value.grad is not None
    return [out.detach(), query.grad, key.grad, value.grad]


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_loops_einsum_explicit_and_fused_attention_are_equal(mask: Tensor) -> None:
    inputs = torch.randn(3, 3, 2, 5, 8)  # q, k, v: (batch, heads, length, d_head)
    explicit, fused = (run(implementation, inputs, mask) for implementation in IMPLEMENTATIONS.values())
    for a, b in zip(explicit, fused, strict=True):
        assert a.isfinite().all() and b.isfinite().all()
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(explicit[0], by_einsum(*inputs, mask), atol=1e-5, rtol=1e-5)
    for sentence in range(3):
        m = mask.expand(3, 2, 5, 5)[sentence, 1]
        torch.testing.assert_close(explicit[0][sentence, 1], by_loops(*inputs[:, sentence, 1], m), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS.values(), ids=IMPLEMENTATIONS.keys())
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_bfloat16_attention_has_the_precision_of_bfloat16(mask: Tensor, implementation: Attention) -> None:
    """Compare with float64 on the same rounded inputs: errors of a few units in the last of 8 bits."""
    inputs = torch.randn(3, 3, 2, 5, 8).bfloat16()
    for rounded, exact in zip(
        run(implementation, inputs, mask), run(implementation, inputs.double(), mask), strict=True
    ):
        assert rounded.isfinite().all()
        assert (rounded.double() - exact).abs().max() <= 4 * 2**-8 * exact.abs().max().clamp(min=1)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS.values(), ids=IMPLEMENTATIONS.keys())
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_queries_without_any_allowed_key_have_zero_output_and_gradient(
    implementation: Attention, dtype: torch.dtype
) -> None:
    out, query_gradient, *others = run(implementation, torch.randn(3, 3, 2, 5, 8, dtype=dtype), MASKS["an empty row"])
    assert out[:, :, 1].eq(0).all() and query_gradient[:, :, 1].eq(0).all()
    assert all(gradient.isfinite().all() for gradient in others)


def test_both_forms_apply_dropout_to_the_weights() -> None:
    query, value = torch.randn(2, 1, 1, 4, 8), torch.ones(1, 1, 4, 8)
    for implementation in (
        lambda: attention(query[0], query[1], value, dropout=0.5)[0],
        lambda: fused_attention(query[0], query[1], value, dropout=0.5),
    ):
        sums = torch.stack([implementation() for _ in range(400)])
        assert sums.std() > 0.1
        assert float(sums.mean()) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("implementation", [attention, fused_attention])
def test_masks_that_are_not_bool_are_rejected(implementation: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match=r"mask must be bool.*got torch.float32"):
        implementation(*torch.randn(3, 5, 8), torch.zeros(5, 5))


def test_weights_sum_to_one_or_are_zero_if_no_key_is_allowed() -> None:
    out, weights = attention(*torch.randn(3, 5, 8), MASKS["an empty row"][0, 0])
    torch.testing.assert_close(weights.sum(-1), torch.tensor([1.0, 0, 1, 1, 1]))
    assert out[1].eq(0).all()


@pytest.mark.parametrize("implementation", ["fused", "explicit"])
@pytest.mark.parametrize("cross", [False, True])
def test_multi_head_equals_torch_with_gradients(cross: bool, implementation: AttentionImplementation) -> None:
    ours = MultiHeadAttention(16, 4, implementation=implementation)
    theirs = nn.MultiheadAttention(16, 4, batch_first=True)
    ours.query_key_value.bias.data.normal_()
    theirs.in_proj_weight.data.copy_(ours.query_key_value.weight)
    theirs.in_proj_bias.data.copy_(ours.query_key_value.bias)
    theirs.out_proj.load_state_dict(ours.output.state_dict())
    ids = torch.ones(2, 7 if cross else 5, dtype=torch.long)
    ids[1, 3:] = 0
    outputs, gradients = [], []
    inputs = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    for layer in (ours, theirs):
        x, memory = (t.clone().requires_grad_() for t in inputs)
        if isinstance(layer, MultiHeadAttention):
            out = layer(x, memory if cross else None, padding_mask(ids, pad_id=0))
        else:
            keys = memory if cross else x
            out, _ = layer(x, keys, keys, key_padding_mask=ids == 0)
        (out * torch.linspace(-1, 1, 16)).sum().backward()
        outputs.append(out)
        gradients.append([x.grad, memory.grad if cross else None])
    torch.testing.assert_close(*outputs, atol=1e-5, rtol=1e-5)
    for our_gradient, their_gradient in zip(*gradients, strict=True):
        torch.testing.assert_close(our_gradient, their_gradient, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.query_key_value.weight.grad, theirs.in_proj_weight.grad, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(ours.output.weight.grad, theirs.out_proj.weight.grad, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("rotation", [None, rotary_table(6, 4)], ids=["sinusoidal", "rotary"])
def test_attention_with_a_cache_equals_attention_over_the_whole_sequence(rotation: Tensor | None) -> None:
    layer, x = MultiHeadAttention(16, 4, rotation=rotation), torch.randn(2, 6, 16)
    cache = KeyValueCache(2, 1, 4, 6, 4, like=x)
    steps = [layer(x[:, i : i + 1], cache=cache) for i in range(6)]
    torch.testing.assert_close(torch.cat(steps, dim=1), layer(x, mask=causal_mask(6)))


def test_the_implementation_is_the_one_that_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both compute the same, so no result shows which one has run."""
    called = []
    monkeypatch.setattr("transformer.attention.fused_attention", lambda *args: called.append("fused") or args[0])
    monkeypatch.setattr("transformer.attention.attention", lambda *args: called.append("explicit") or args[:1])
    for implementation in ("fused", "explicit", "fused"):
        MultiHeadAttention(16, 4, implementation=implementation)(torch.randn(2, 5, 16))
    assert called == ["fused", "explicit", "fused"]
    with pytest.raises(ValueError, match='implementation must be "fused" or "explicit"; got \'flash\''):
        MultiHeadAttention(16, 4, implementation="flash")  # type: ignore[arg-type]


@pytest.mark.parametrize("implementation", ["fused", "explicit"])
def test_weights_are_dropped_in_training_only(implementation: AttentionImplementation) -> None:
    layer, x = MultiHeadAttention(16, 4, dropout=0.5, implementation=implementation), torch.randn(2, 5, 16)
    without = MultiHeadAttention(16, 4, implementation=implementation)
    without.load_state_dict(layer.state_dict())
    torch.testing.assert_close(layer.eval()(x), without(x))
    assert not torch.allclose(layer.train()(x), without(x), atol=1e-3)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 16])
def test_the_rows_of_a_mask_start_where_the_kernels_of_a_gpu_can_read_them(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    masks = []
    kernel = torch.nn.functional.scaled_dot_product_attention

    def record(*args: Tensor, attn_mask: Tensor, **options: Any) -> Tensor:
        masks.append(attn_mask)
        return kernel(*args, attn_mask=attn_mask, **options)

    monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", record)
    fused_attention(*torch.randn(3, 2, 4, length, 8), causal_mask(length))
    assert masks[0].shape == (1, 1, length, length) and masks[0].stride(-2) % 8 == 0


def test_rotary_attention_depends_only_on_distances() -> None:
    """Shifting all tokens by the same number of positions doesn't change the output."""
    layer, x = MultiHeadAttention(16, 4, rotation=rotary_table(9, 4)), torch.randn(1, 5, 16)
    late = torch.cat([torch.randn(1, 4, 16), x], dim=1)
    only_the_last_five = (torch.arange(9) >= 4).expand(9, 9)
    torch.testing.assert_close(layer(late, mask=only_the_last_five)[:, 4:], layer(x), atol=1e-5, rtol=1e-5)
    plain = MultiHeadAttention(16, 4)
    plain.load_state_dict(layer.state_dict())
    assert not torch.allclose(plain(x), layer(x), atol=1e-3)


@pytest.mark.parametrize(
    ("x", "memory", "message"),
    [
        (torch.zeros(2, 5, 15), None, r"x must be \(batch, length, d_model=16\); got \(2, 5, 15\)"),
        (torch.zeros(5, 16), None, r"x must be .* got \(5, 16\)"),
        (torch.zeros(2, 5, 16), torch.zeros(2, 7, 8), r"memory must be .* got \(2, 7, 8\)"),
    ],
)
def test_wrong_shapes_are_rejected(x: Tensor, memory: Tensor | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(16, 4)(x, memory)


def test_a_full_cache_and_one_of_another_batch_size_are_rejected() -> None:
    layer, x = MultiHeadAttention(16, 4), torch.randn(2, 1, 16)
    cache = KeyValueCache(2, 1, 4, 1, 4, like=x)
    with pytest.raises(ValueError, match=r"holds .* = \(2, 4, 1, 4\); got \(3, 4, 1, 4\)"):
        layer(torch.randn(3, 1, 16), cache=cache)
    layer(x, cache=cache)
    with pytest.raises(ValueError, match="the cache is full: it has room for 1 steps"):
        layer(x, cache=cache)


def test_d_model_must_be_a_multiple_of_n_heads() -> None:
    with pytest.raises(ValueError, match="d_model=10, n_heads=4"):
        MultiHeadAttention(10, 4)
