import pytest
import torch
from torch import nn

from transformer.attention import MultiHeadAttention
from transformer.layers import DecoderLayer, EncoderLayer, FeedForward, Norm
from transformer.masks import causal_mask


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    theirs.in_proj_weight.data.copy_(ours.query_key_value.weight)
    theirs.in_proj_bias.data.copy_(ours.query_key_value.bias)
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def copy_feed_forward(ours: FeedForward, theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> None:
    theirs.linear1.load_state_dict(ours.inner.state_dict())
    theirs.linear2.load_state_dict(ours.outer.state_dict())


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_encoder_layer_equals_torch(norm: Norm) -> None:
    ours = EncoderLayer(16, 4, 32, 0.0, norm)
    theirs = nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True, norm_first=norm == "pre")
    copy_attention(ours.self_attention, theirs.self_attn)
    copy_feed_forward(ours.feed_forward, theirs)
    x = torch.randn(2, 5, 16)
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    expected = theirs(x, src_key_padding_mask=~real)
    torch.testing.assert_close(ours(x, real[:, None, None]), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_decoder_layer_equals_torch(norm: Norm) -> None:
    ours = DecoderLayer(16, 4, 32, 0.0, norm)
    theirs = nn.TransformerDecoderLayer(16, 4, 32, 0.0, batch_first=True, norm_first=norm == "pre")
    copy_attention(ours.self_attention, theirs.self_attn)
    copy_attention(ours.cross_attention, theirs.multihead_attn)
    copy_feed_forward(ours.feed_forward, theirs)
    x, memory = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    real = torch.tensor([[True] * 7, [True] * 3 + [False] * 4])
    expected = theirs(x, memory, tgt_mask=~causal_mask(5)[0, 0], memory_key_padding_mask=~real)
    result = ours(x, memory, causal_mask(5), real[:, None, None])
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=1e-5)
