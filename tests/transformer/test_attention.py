import math

import pytest
import torch
from torch import Tensor, nn

from transformer.attention import KeyValueCache, MultiHeadAttention, attention, fused_attention
from transformer.masks import causal_mask, padding_mask


def by_loops(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """The definition, one number at a time: (n_query, d_k), (n_key, d_k), (n_key, d_v), (n_query, n_key)."""
    out = torch.zeros(len(query), value.size(1))
    for i in range(len(query)):
        allowed = [j for j in range(len(key)) if mask[i, j]]
        scores = [sum(float(query[i, c] * key[j, c]) for c in range(query.size(1))) for j in allowed]
        exps = [math.exp(s / math.sqrt(query.size(1))) for s in scores]
        for j, e in zip(allowed, exps, strict=True):
            out[i] += e / sum(exps) * value[j]
    return out


MASKS = {
    "none": torch.ones(5, 5, dtype=torch.bool),
    "causal": causal_mask(5)[0, 0],
    "padding": torch.tensor([True, True, True, False, False]).expand(5, 5),
    "an empty row": torch.tensor([1, 0, 1, 1, 1], dtype=torch.bool)[:, None].expand(5, 5),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_readable_equals_loops_equals_fused_forward_and_backward(mask: Tensor) -> None:
    results = []
    inputs = torch.randn(3, 2, 3, 5, 8)  # q, k, v: (batch, heads, length, d_head)
    for form in (lambda q, k, v: attention(q, k, v, mask)[0], lambda q, k, v: fused_attention(q, k, v, mask)):
        query, key, value = (t.clone().requires_grad_() for t in inputs)
        out = form(query, key, value)
        (out * torch.linspace(-1, 1, 8)).sum().backward()
        results.append([out, query.grad, key.grad, value.grad])
    for readable, fused in zip(*results, strict=True):
        assert readable.isfinite().all()
        torch.testing.assert_close(readable, fused, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(results[0][0][1, 2], by_loops(*inputs[:, 1, 2], mask), atol=1e-5, rtol=1e-5)


def test_weights_sum_to_one_and_empty_rows_are_zero() -> None:
    out, weights = attention(*torch.randn(3, 5, 8), MASKS["an empty row"])
    torch.testing.assert_close(weights.sum(-1), torch.tensor([1.0, 0, 1, 1, 1]))
    assert out[1].eq(0).all()


@pytest.mark.parametrize("cross", [False, True])
def test_multi_head_equals_torch(cross: bool) -> None:
    ours, theirs = MultiHeadAttention(16, 4), nn.MultiheadAttention(16, 4, batch_first=True)
    theirs.in_proj_weight.data, theirs.in_proj_bias.data = (
        ours.query_key_value.weight.data,
        ours.query_key_value.bias.data,
    )
    theirs.out_proj.load_state_dict(ours.output.state_dict())
    ours.query_key_value.bias.data.normal_()
    x, memory = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    keys = memory if cross else x
    ids = torch.ones(2, keys.size(1), dtype=torch.long)
    ids[1, 3:] = 0
    mask = padding_mask(ids, pad_id=0)
    expected, _ = theirs(x, keys, keys, key_padding_mask=ids == 0)
    torch.testing.assert_close(ours(x, memory if cross else None, mask), expected, atol=1e-5, rtol=1e-5)


def test_projected_memory_may_be_shared_by_consecutive_rows() -> None:
    layer = MultiHeadAttention(16, 4)
    x, memory = torch.randn(6, 1, 16), torch.randn(2, 7, 16)  # three rows a sentence
    shared = layer(x, layer.project_memory(memory))
    torch.testing.assert_close(shared, layer(x, memory.repeat_interleave(3, dim=0)))


def test_cache_gives_the_same_as_all_at_once() -> None:
    layer, x = MultiHeadAttention(16, 4), torch.randn(2, 6, 16)
    cache = KeyValueCache(2, 4, 6, 4, like=x)
    steps = [layer(x[:, i : i + 1], cache=cache) for i in range(6)]
    torch.testing.assert_close(torch.cat(steps, dim=1), layer(x, mask=causal_mask(6)))


def test_a_full_cache_says_so() -> None:
    layer, x = MultiHeadAttention(16, 4), torch.randn(2, 3, 16)
    with pytest.raises(ValueError, match="holds 2 positions, 3 were needed"):
        layer(x, cache=KeyValueCache(2, 4, 2, 4, like=x))


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match="d_model=10, n_heads=4"):
        MultiHeadAttention(10, 4)
