import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.config import PRESETS, Initialization, ModelConfig, Norm, Positions, Tying
from transformer.data.tokenizer import BOS, PAD
from transformer.errors import UserError
from transformer.inspection import parameter_counts
from transformer.model import Transformer
from transformer.positions import sinusoidal_encoding


@pytest.mark.parametrize(("preset", "total"), [("base", 63_082_496), ("big", 214_245_376)])
def test_number_of_parameters_of_the_paper(preset: str, total: int) -> None:
    """63 and 214 million with 37,000 tokens; Table 3 has 65 and 213, with a vocabulary of about that size."""
    config = PRESETS[preset]
    with torch.device("meta"):
        counts = parameter_counts(Transformer(config))
    d, ff = config.d_model, config.d_ff
    attention, feed_forward, norm = 4 * (d * d + d), d * ff + ff + ff * d + d, 2 * d
    assert counts == {
        "embeddings": 37_000 * d,
        "encoder self-attention": 6 * attention,
        "encoder feed-forward": 6 * feed_forward,
        "encoder layer norms": 6 * 2 * norm,
        "decoder self-attention": 6 * attention,
        "decoder cross-attention": 6 * attention,
        "decoder feed-forward": 6 * feed_forward,
        "decoder layer norms": 6 * 3 * norm,
    }
    assert sum(counts.values()) == total


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_every_parameter_is_counted_once(positions: Positions, norm: Norm) -> None:
    model = Transformer(ModelConfig(40, 32, 4, 64, 2, norm=norm, positions=positions))
    assert sum(parameter_counts(model).values()) == sum(p.numel() for p in model.parameters())


def test_forward_shape(tiny: Transformer, source: Tensor) -> None:
    assert tiny(source, torch.randint(4, 40, (6, 7))).shape == (6, 7, 40)
    with pytest.raises(ValueError, match="must have the same batch size; got 6 and 1"):
        tiny(source, torch.randint(4, 40, (1, 7)))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_decoding_step_by_step_equals_all_at_once(norm: Norm, positions: Positions, source: Tensor) -> None:
    model = Transformer(ModelConfig(40, 32, 4, 64, 2, norm=norm, positions=positions)).eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:  # biases and norms, which otherwise all equal 0 and 1
            nn.init.normal_(parameter)
    target = torch.randint(4, 40, (6, 8))
    memory, mask = model.encode(source)
    cache = model.start_cache(memory, mask, max_length=8)
    steps = torch.cat([model.decode_step(target[:, t : t + 1], cache) for t in range(8)], dim=1)
    torch.testing.assert_close(steps, model(source, target), atol=1e-4, rtol=1e-4)


def test_explicit_and_fused_attention_give_the_same_outputs(source: Tensor) -> None:
    target, results = torch.randint(4, 40, (6, 8)), []
    for form in ("explicit", "fused"):
        torch.manual_seed(0)
        model = Transformer(ModelConfig(40, 32, 4, 64, 2, dropout=0.0, attention=form))
        logits = model(source, target)
        logits.logsumexp(-1).sum().backward()
        results.append([logits, *(p.grad for p in model.parameters())])
    for explicit, fused in zip(*results, strict=True):
        torch.testing.assert_close(explicit, fused, atol=1e-4, rtol=1e-4)


def test_reordered_beams_continue_the_prefixes_of_their_parents(source: Tensor) -> None:
    """Three beams that are reordered at every step give the same logits as three separate sentences."""
    model = Transformer(ModelConfig(40, 32, 4, 64, 2, dropout=0.0, positions="rotary")).eval()
    memory, mask = model.encode(source)
    cache, texts = model.start_cache(memory, mask, max_length=8, beams=3), torch.empty(6, 3, 0, dtype=torch.long)
    for _ in range(8):
        tokens, parents = torch.randint(4, 40, (6, 3)), torch.randint(0, 3, (6, 3))
        texts = torch.cat([texts, tokens[:, :, None]], dim=2)
        logits = model.decode_step(tokens, cache)
        for beam in range(3):
            alone = model(source, texts[:, beam])[:, -1]
            torch.testing.assert_close(logits[:, beam], alone, atol=1e-4, rtol=1e-4)
        texts = texts.gather(1, parents[:, :, None].expand_as(texts))
        cache.reorder(parents)


def test_the_decoder_uses_the_target_embedding() -> None:
    model = Transformer(ModelConfig(40, 32, 4, 64, 1, tie_embeddings="none")).eval()
    source, target = torch.randint(4, 40, (2, 5)), torch.randint(4, 40, (2, 4))
    memory, mask = model.encode(source)

    def read() -> tuple[torch.Tensor, torch.Tensor]:
        with torch.inference_mode():
            cache = model.start_cache(memory, mask, max_length=4)
            return model.decode(target, memory, mask), model.decode_step(target[:, :1], cache)

    before = read()
    model.source_embedding.weight.data.normal_()
    assert all(map(torch.equal, before, read()))
    model.target_embedding.weight.data.normal_()
    assert not any(map(torch.equal, before, read()))


@pytest.mark.parametrize(("tie", "matrices"), [("none", 3), ("decoder", 2), ("all", 1)])
def test_tied_embeddings_share_one_matrix(tie: Tying, matrices: int) -> None:
    model = Transformer(ModelConfig(40, 32, 4, 64, 1, tie_embeddings=tie))
    weights = {id(m.weight) for m in (model.source_embedding, model.target_embedding, model.unembedding)}
    assert len(weights) == matrices
    assert parameter_counts(model)["embeddings"] == matrices * 40 * 32
    assert (model.unembedding.weight is model.target_embedding.weight) == (tie != "none")


@pytest.mark.parametrize("initialization", ["xavier", "normal"])
def test_initialization(initialization: Initialization) -> None:
    model = Transformer(ModelConfig(1000, 128, 4, 512, 1, initialization=initialization))
    inner = model.encoder[0].feed_forward.inner
    deviation = (2 / (128 + 512)) ** 0.5 if initialization == "xavier" else 0.02
    assert float(inner.weight.detach().std()) == pytest.approx(deviation, rel=0.02)
    embedded = model.source_embedding.weight.detach() * 128**0.5
    assert float(embedded.std()) == pytest.approx(1.0, abs=0.02)
    biases = {name: value for name, value in model.named_parameters() if name.endswith("bias")}
    assert len(biases) == 15 and not any(bias.any() for bias in biases.values())


def test_initialization_of_embeddings_and_learned_positions() -> None:
    model = Transformer(ModelConfig(1000, 128, 4, 512, 1, positions="learned", tie_embeddings="none"))
    for matrix in (model.source_embedding, model.target_embedding, model.unembedding):
        assert float(matrix.weight.detach().std()) == pytest.approx(128**-0.5, rel=0.02)
    assert isinstance(model.positions, Tensor)
    assert float(model.positions.detach().std()) == pytest.approx(0.02, rel=0.05)


def test_an_embedding_is_scaled_before_its_position_is_added() -> None:
    model = Transformer(ModelConfig(40, 16, 4, 64, 1)).eval()
    embedded = model.embed(torch.tensor([[5, 6, 7]]), model.source_embedding)[0]
    torch.testing.assert_close(embedded, 4 * model.source_embedding.weight[5:8] + sinusoidal_encoding(3, 16))


def test_in_training_embeddings_have_the_dropout_of_the_sublayers() -> None:
    model = Transformer(ModelConfig(40, 64, 4, 64, 1, dropout=0.25))
    ids = torch.full((50, 20), 7)
    trained = model.embed(ids, model.source_embedding)
    exact = model.eval().embed(ids, model.source_embedding)
    dropped = trained == 0
    assert float(dropped.float().mean()) == pytest.approx(0.25, abs=0.01)
    torch.testing.assert_close(trained[~dropped], exact[~dropped] / 0.75)


def test_after_pre_norm_layers_encoder_and_decoder_each_have_a_last_norm(source: Tensor) -> None:
    model = Transformer(ModelConfig(40, 32, 4, 64, 2, norm="pre")).eval()
    last: list[Tensor] = []
    for norm, layer in ((model.encoder_norm, model.encoder[-1]), (model.decoder_norm, model.decoder[-1])):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
        layer.register_forward_hook(lambda layer, inputs, output: last.append(output))
    memory, mask = model.encode(source)
    output = model.decode(source, memory, mask)
    torch.testing.assert_close(memory, model.encoder_norm(last[0]))
    torch.testing.assert_close(output, model.decoder_norm(last[1]))


def test_max_length_holds_for_every_positional_encoding() -> None:
    for positions in ("sinusoidal", "learned", "rotary"):
        model = Transformer(ModelConfig(40, 32, 4, 64, 1, max_length=5, positions=positions))
        model.encode(torch.full((1, 5), 7))
        with pytest.raises(ValueError, match="at most 5 tokens; got 6"):
            model.encode(torch.full((1, 6), 7))


@pytest.mark.parametrize(("positions", "is_added"), [("sinusoidal", True), ("learned", True), ("rotary", False)])
def test_rotary_positions_are_not_added_to_the_embeddings(positions: Positions, is_added: bool) -> None:
    model = Transformer(ModelConfig(40, 32, 4, 64, 1, positions=positions)).eval()
    first, second = model.embed(torch.tensor([[5, 5]]), model.source_embedding)[0]
    assert torch.equal(first, second) != is_added


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_the_encoder_depends_on_the_order_of_tokens(positions: Positions) -> None:
    model = Transformer(ModelConfig(40, 32, 4, 64, 1, positions=positions)).eval()
    memory, _ = model.encode(torch.tensor([[5, 6, 7]]))
    turned, _ = model.encode(torch.tensor([[7, 6, 5]]))
    assert not torch.allclose(turned, memory.flip(1), atol=1e-3)


def test_in_training_padding_before_a_token_is_rejected(tiny: Transformer) -> None:
    """There, the decoder's mask is only causal, so the token would attend to the padding."""
    source, target = torch.tensor([[4, 5]] * 2), torch.tensor([[BOS, PAD, 5], [BOS, 5, PAD]])
    tiny.eval()(source, target)
    tiny.train()(source[1:], target[1:])
    with pytest.raises(ValueError, match="all padding of a target must be at its end"):
        tiny(source, target)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"d_model": 30, "n_heads": 4}, "model.d_model must be a multiple of model.n_heads; got 30 and 4"),
        ({"dropout": 1.0}, "dropout"),
        ({"norm": "both"}, "norm must be one of post, pre; got 'both'"),
        ({"attention_dropout": -0.1}, "attention_dropout must be at least 0"),
        ({"d_model": 12, "n_heads": 4, "positions": "rotary"}, "d_model / model.n_heads must be even; got 3"),
        ({"n_layers": 0}, "n_layers must be at least 1"),
    ],
)
def test_settings_out_of_range_are_rejected(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ModelConfig(**wrong)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (torch.tensor([[3, 40]]), r"ids must be from 0 to vocab_size - 1 = 39; got 3 to 40"),
        (torch.tensor([[-1, 4]]), r"got -1 to 4"),
        (torch.tensor([4, 5]), r"ids must be int64 or int32, \(batch, length\); got torch.int64, \(2,\)"),
        (torch.tensor([[True]]), r"ids must be int64 or int32, \(batch, length\); got torch.bool, \(1, 1\)"),
        (torch.tensor([[4.0]]), r"got torch.float32"),
    ],
)
def test_invalid_token_ids_are_rejected(tiny: Transformer, ids: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tiny.encode(ids)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_representations_stay_in_16_bits_although_a_gpu_computes_norms_in_float32(
    norm: Norm, source: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nn.LayerNorm, "forward", lambda self, x: F.layer_norm(x.float(), x.shape[-1:]))
    model = Transformer(ModelConfig(vocab_size=40, d_model=32, n_heads=4, d_ff=64, n_layers=2, norm=norm))
    dtypes = set()
    for layer in (*model.encoder, *model.decoder):
        layer.register_forward_hook(lambda layer, inputs, output: dtypes.update((inputs[0].dtype, output.dtype)))
    with torch.autocast("cpu", torch.bfloat16):
        assert nn.LayerNorm(32)(torch.zeros(1, 32)).dtype == torch.float32
        memory, mask = model.encode(source)
        dtypes |= {memory.dtype, model.decode(source, memory, mask).dtype}
    assert dtypes == {torch.bfloat16}


def test_logits_are_float32_in_every_precision(tiny: Transformer, source: Tensor) -> None:
    memory, mask = tiny.encode(source)
    states = tiny.decode(source, memory, mask)
    expected = tiny.logits(states)
    with torch.autocast("cpu", torch.bfloat16):
        logits = tiny.logits(states)
        assert logits.dtype == torch.float32
    assert torch.equal(logits, expected)
    assert tiny.to("meta").logits(states.to("meta")).shape == expected.shape
