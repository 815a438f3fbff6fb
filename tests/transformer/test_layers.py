"""Our layers and our model give the outputs and gradients of PyTorch's, with the same weights."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from transformer.attention import MultiHeadAttention
from transformer.config import ModelConfig, Norm
from transformer.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
from transformer.masks import causal_mask
from transformer.model import Transformer
from transformer.positions import sinusoidal_encoding

Theirs = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
SHAPE = ModelConfig(vocab_size=40, d_model=16, n_heads=4, d_ff=32, n_layers=2, dropout=0.0, max_length=20)
REAL = torch.tensor([[True] * 7, [True] * 3 + [False] * 4])
"""Which of seven positions hold a token, in two sentences."""


def test_layers_take_keyword_arguments() -> None:
    x, mask = torch.randn(2, 5, 16), torch.ones(2, 1, 1, 5, dtype=torch.bool)
    for checkpointing in (False, True):
        layer = EncoderLayer(SHAPE)
        layer.activation_checkpointing = checkpointing
        assert torch.equal(layer(x, mask=mask), layer(x, mask))


def config(norm: Norm) -> ModelConfig:
    return ModelConfig(**{**vars(SHAPE), "norm": norm})


def counterpart(ours: EncoderLayer | DecoderLayer, norm: Norm) -> Theirs:
    """Return PyTorch's layer with the weights of ours."""
    layer = nn.TransformerEncoderLayer if isinstance(ours, EncoderLayer) else nn.TransformerDecoderLayer
    theirs = layer(16, 4, 32, 0.0, batch_first=True, norm_first=norm == "pre")
    copy_layer(ours, theirs)
    return theirs


def copy_layer(ours: EncoderLayer | DecoderLayer, theirs: Theirs) -> None:
    copy_attention(ours.self_attention, theirs.self_attn)
    if isinstance(ours, DecoderLayer) and isinstance(theirs, nn.TransformerDecoderLayer):
        copy_attention(ours.cross_attention, theirs.multihead_attn)
    theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
    for i, residual in enumerate(ours.residuals, start=1):
        residual.norm.weight.data.normal_()  # so that a norm in the wrong place changes the result
        theirs.get_submodule(f"norm{i}").load_state_dict(residual.norm.state_dict())


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    ours.query_key_value.bias.data.normal_()
    theirs.in_proj_weight.data.copy_(ours.query_key_value.weight)
    theirs.in_proj_bias.data.copy_(ours.query_key_value.bias)
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def assert_equal(ours: Callable[..., Tensor], theirs: Callable[..., Tensor], *inputs: Tensor) -> None:
    """Compare the outputs, and the gradients of all inputs."""
    results = []
    for function in (ours, theirs):
        leaves = [t.clone().requires_grad_() for t in inputs]
        out = function(*leaves)
        (out * torch.randn(out.shape, generator=torch.Generator().manual_seed(1))).sum().backward()
        results.append([out, *(leaf.grad for leaf in leaves)])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_encoder_layer_equals_torch(norm: Norm) -> None:
    ours = EncoderLayer(config(norm))
    theirs = counterpart(ours, norm)
    assert_equal(
        lambda x: ours(x, REAL[:, None, None]), lambda x: theirs(x, src_key_padding_mask=~REAL), torch.randn(2, 7, 16)
    )
    torch.testing.assert_close(ours.feed_forward.inner.weight.grad, theirs.linear1.weight.grad, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_decoder_layer_equals_torch(norm: Norm) -> None:
    ours = DecoderLayer(config(norm))
    theirs = counterpart(ours, norm)
    future = ~causal_mask(5)[0, 0]
    assert_equal(
        lambda x, memory: ours(x, memory, causal_mask(5), REAL[:, None, None]),
        lambda x, memory: theirs(x, memory, tgt_mask=future, memory_key_padding_mask=~REAL),
        torch.randn(2, 5, 16),
        torch.randn(2, 7, 16),
    )
    torch.testing.assert_close(ours.feed_forward.outer.weight.grad, theirs.linear2.weight.grad, atol=1e-4, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_whole_model_equals_torch(norm: Norm) -> None:
    """nn.Transformer always ends encoder and decoder with a layer norm; ours does so only with norm="pre"."""
    ours = Transformer(config(norm))
    theirs = nn.Transformer(16, 4, 2, 2, 32, 0.0, batch_first=True, norm_first=norm == "pre")
    for our_layer, their_layer in zip(
        [*ours.encoder, *ours.decoder], [*theirs.encoder.layers, *theirs.decoder.layers], strict=True
    ):
        copy_layer(our_layer, their_layer)
    if norm == "post":
        theirs.encoder.norm = theirs.decoder.norm = None
    source, target = torch.randint(4, 40, (2, 7)).where(REAL, 0), torch.randint(4, 40, (2, 5))
    states = [
        ours.decode(target, *ours.encode(source)),
        theirs(
            ours.embed(source, ours.source_embedding),
            ours.embed(target, ours.target_embedding),
            tgt_mask=~causal_mask(5)[0, 0],
            src_key_padding_mask=~REAL,
            memory_key_padding_mask=~REAL,
        ),
    ]
    torch.testing.assert_close(*states, atol=1e-5, rtol=1e-5)
    gradients = []
    for state in states:
        ours.zero_grad()
        (ours.logits(state) * torch.linspace(-1, 1, 40)).sum().backward(retain_graph=True)
        assert ours.source_embedding.weight.grad is not None
        gradients.append(ours.source_embedding.weight.grad.clone())
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)


def test_post_norm_normalises_the_output_and_pre_norm_does_not() -> None:
    x, everyone = torch.randn(2, 7, 16), REAL[:, None, None]
    post, pre = (EncoderLayer(config(norm))(x, everyone) for norm in ("post", "pre"))
    torch.testing.assert_close(post.mean(-1), torch.zeros(2, 7), atol=1e-5, rtol=0)
    assert pre.mean(-1).abs().max() > 0.01


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("where", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_dropout_setting_has_an_effect_in_training(where: str, norm: Norm) -> None:
    x, everyone = torch.randn(2, 7, 16), REAL[:, None, None]
    shape = ModelConfig(**{**vars(config(norm)), where: 0.5})
    encoder, decoder = EncoderLayer(shape), DecoderLayer(shape)
    for layer, arguments in ((encoder, (x, everyone)), (decoder, (x, x, everyone, everyone))):
        assert not torch.equal(layer(*arguments), layer(*arguments))
        layer.eval()
        assert torch.equal(layer(*arguments), layer(*arguments))


def test_dropout_applies_to_the_output_of_the_sublayer() -> None:
    """Before it is added to x, and before the layer norm (§5.4); with a probability of ½, what is kept is doubled."""
    x = torch.randn(2, 50, 16)
    residual = Residual(16, 0.5, "post")
    residual.norm = nn.Identity()  # type: ignore[assignment]
    added = residual(x, torch.ones_like) - x
    assert set(added.round(decimals=4).unique().tolist()) == {0.0, 2.0}


def test_activation_dropout_applies_after_the_relu() -> None:
    x = torch.randn(2, 50, 16)
    feed_forward = FeedForward(16, 32, 0.5)
    feed_forward.outer = nn.Identity()  # type: ignore[assignment]
    activations, dropped = feed_forward.inner(x).relu(), feed_forward(x)
    active = activations > 0
    assert set((dropped[active] / activations[active]).round(decimals=4).unique().tolist()) == {0.0, 2.0}


def test_attention_dropout_applies_to_both_attentions() -> None:
    layer = DecoderLayer(replace(SHAPE, attention_dropout=0.5))
    assert layer.self_attention.dropout == layer.cross_attention.dropout == 0.5


def test_dropout_applies_to_the_embeddings() -> None:
    model, ids = Transformer(ModelConfig(**{**vars(SHAPE), "dropout": 0.5})), torch.randint(4, 40, (2, 7))
    table = model.source_embedding
    assert not torch.equal(model.embed(ids, table), model.embed(ids, table))
    model.eval()
    assert torch.equal(model.embed(ids, table), model.embed(ids, table))
    positions = model.embed(ids, table) - table(ids) * 16**0.5
    torch.testing.assert_close(positions[0], positions[1])
    torch.testing.assert_close(positions[0], sinusoidal_encoding(7, 16))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_activation_checkpointing_changes_no_gradient(norm: Norm, source: Tensor) -> None:
    """Dropout, too, is the same when a layer is run again in the backward pass, which happens in training only."""
    model = Transformer(replace(config(norm), dropout=0.3, attention_dropout=0.1, activation_dropout=0.2))
    runs: list[nn.Module] = []
    for layer in (*model.encoder, *model.decoder):
        layer.self_attention.register_forward_hook(lambda module, *_: runs.append(module))  # type: ignore[union-attr]
        assert layer.activation_checkpointing is False, "it is slower, so it is off by default"
    gradients, counts = [], []
    for checkpointing in (False, True):
        for layer in (*model.encoder, *model.decoder):
            layer.activation_checkpointing = checkpointing  # type: ignore[assignment]
        torch.manual_seed(1)
        model.zero_grad()
        runs.clear()
        model(source, source).logsumexp(-1).sum().backward()
        gradients.append([p.grad for p in model.parameters()])
        counts.append(len(runs))
    assert all(a is not None and b is not None and torch.equal(a, b) for a, b in zip(*gradients, strict=True))
    assert counts == [4, 8]
    runs.clear()
    model.eval()(source, source).sum().backward()
    assert len(runs) == 4
