"""The baselines compute what the package computes: the same loss, and the same translations token for token."""

import io
import logging
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from transformer.attention import MultiHeadAttention
from transformer.bench.baselines import (
    CTranslate2,
    HuggingFaceMarian,
    ModelWithCrossEntropy,
    TorchTransformer,
    linear_cross_entropy,
    linear_kl_divergence,
    uncached_beam_search,
)
from transformer.bench.benchmarks import model_without_eos
from transformer.bench.runner import BenchmarkOptions
from transformer.config import ModelConfig, Norm
from transformer.data.batching import Sequences, collate, pad
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.decoding import beam_search, greedy_search
from transformer.device import choose_device
from transformer.errors import UserError
from transformer.loss import linear_label_smoothed_cross_entropy
from transformer.model import Transformer
from transformer.training.objective import ModelWithLoss, batch_loss

pytestmark = pytest.mark.slow

MAX_NEW_TOKENS = 40


@torch.no_grad()
def lively_model(config: ModelConfig) -> Transformer:
    """A model whose translations depend on the source, because its weights are large, and that end now and then.

    The bias of the last layer norm and the embedding of eos, the only one with a mean other than zero, raise the logit
    of eos by 1. Those of pad and bos are low.
    """
    torch.manual_seed(0)
    model = Transformer(config).eval()
    for layer in [*model.encoder, *model.decoder]:
        layer.feed_forward.outer.weight *= 4
    for attention in model.modules():
        if isinstance(attention, MultiHeadAttention):
            attention.query_key_value.weight[: 2 * config.d_model] *= 4  # queries and keys: attention that chooses
    share = config.d_model**-0.5
    model.decoder[-1].residuals[-1].norm.bias.fill_(10 * share)
    embedding = model.source_embedding.weight
    embedding -= embedding.mean(-1, keepdim=True)
    embedding[[PAD, BOS]] = -share
    embedding[EOS] += 0.1 * share
    return model


@pytest.fixture(scope="module")
def lively() -> Transformer:
    """Half as large as the model of the benchmarks."""
    return lively_model(ModelConfig(300, d_model=128, d_ff=512, n_layers=3, max_length=80))


@pytest.fixture(scope="module")
def sentences() -> Tensor:
    """16 sentences of 25 ± 12 tokens."""
    rng = np.random.default_rng(0)
    lengths = rng.normal(25, 12, 16).round().clip(3, 60).astype(int)
    return pad([[*rng.integers(4, 300, length).tolist(), EOS] for length in lengths])


@pytest.fixture(scope="module")
def translations(lively: Transformer, sentences: Tensor) -> list[list[int]]:
    """Our greedy translations, most of which differ and some of which end before they must."""
    translations = greedy_search(lively, sentences, MAX_NEW_TOKENS)
    assert len({tuple(tokens) for tokens in translations}) > 10
    assert 0 < sum(len(tokens) < MAX_NEW_TOKENS - 1 for tokens in translations) < len(translations)
    return translations


@pytest.mark.parametrize("beam_size", [1, 2, 4, 8])
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 2.0])
def test_uncached_beam_search_equals_ours(beam_size: int, length_penalty: float) -> None:
    model = lively_model(ModelConfig(60, d_model=32, n_heads=4, d_ff=64, n_layers=2, max_length=30))
    source = torch.randint(4, 60, (12, 6))
    best = [best.tokens for (best,) in beam_search(model, source, beam_size, length_penalty)]
    assert uncached_beam_search(model, source, beam_size, length_penalty) == best


def test_uncached_beam_search_equals_ours_with_longer_sentences(lively: Transformer, sentences: Tensor) -> None:
    best = [best.tokens for (best,) in beam_search(lively, sentences[:4], max_new_tokens=MAX_NEW_TOKENS)]
    assert uncached_beam_search(lively, sentences[:4], max_new_tokens=MAX_NEW_TOKENS) == best


def equal(generated: list[list[int]], translations: list[list[int]]) -> bool:
    """Our search generates an eos as the last token that it may, where the engines generate another token."""
    return [tokens[: MAX_NEW_TOKENS - 1] for tokens in generated] == translations


def test_marian_generates_the_same_and_warns_of_nothing(
    lively: Transformer, sentences: Tensor, translations: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", reason="pip install 'transformer-course[bench]'")
    log = io.StringIO()
    monkeypatch.setattr(logging.getLogger("transformers"), "handlers", [logging.StreamHandler(log)])
    assert equal(
        HuggingFaceMarian(lively, choose_device("cpu")).search(sentences, MAX_NEW_TOKENS, beam_size=1), translations
    )
    assert log.getvalue() == ""


def test_ctranslate2_generates_the_same(lively: Transformer, sentences: Tensor, translations: list[list[int]]) -> None:
    pytest.importorskip("ctranslate2", reason="pip install 'transformer-course[bench]'")
    engine = CTranslate2(lively, choose_device("cpu"), threads=1)
    assert equal(engine.search(sentences, MAX_NEW_TOKENS, beam_size=1), translations)


def test_no_translation_of_the_model_without_eos_ends_early() -> None:
    model, source = (
        model_without_eos(BenchmarkOptions(choose_device("cpu"), 1, quick=True)),
        torch.randint(4, 200, (4, 6)),
    )
    greedy = greedy_search(model, source, 9)
    beam = [best.tokens for (best,) in beam_search(model, source, max_new_tokens=9)]
    assert uncached_beam_search(model, source, max_new_tokens=9) == beam
    assert {len(tokens) for tokens in greedy + beam} == {8}


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_torch_transformer_has_our_loss_and_gradients(norm: Norm) -> None:
    ours = Transformer(ModelConfig(50, d_model=32, n_heads=4, d_ff=64, n_layers=2, dropout=0.0, norm=norm))
    for last in (ours.encoder_norm, ours.decoder_norm):
        for parameter in last.parameters():  # other than those of every new layer norm
            torch.nn.init.normal_(parameter)
    theirs = TorchTransformer(ours)
    pairs = [[torch.randint(4, 50, (n,)).tolist() for n in lengths] for lengths in ([7, 3, 9], [5, 8, 2])]
    batch = collate(*(Sequences.pack(side) for side in pairs), indices=[0, 1, 2])
    our_loss = batch_loss(ours, batch, 0.1)
    their_loss = ModelWithCrossEntropy(theirs, 0.1)(batch.source, batch.decoder_input, batch.labels)
    torch.testing.assert_close(their_loss, our_loss)
    our_loss.backward()
    their_loss.backward()
    torch.testing.assert_close(theirs.source_embedding.weight.grad, ours.source_embedding.weight.grad)
    assert sum(p.numel() for p in theirs.parameters()) == sum(p.numel() for p in ours.parameters())


class MatrixProducts(TorchDispatchMode):
    """Record the dtypes of all matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: list[torch.dtype] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> object:
        if function in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default):
            self.dtypes += [one.dtype for one in args if isinstance(one, Tensor)]
        return function(*args, **(kwargs or {}))


def test_mixed_precision_is_the_same_for_both() -> None:
    """Forward and backward, all matrix products of either have 16 bits: the large one with the vocabulary, too."""
    ours = Transformer(ModelConfig(50, d_model=32, n_heads=4, d_ff=64, n_layers=2))
    source, target, labels = (torch.randint(4, 50, (3, length)) for length in (7, 8, 8))
    for model in (ModelWithLoss(ours, 0.1), ModelWithCrossEntropy(TorchTransformer(ours), 0.1)):
        with MatrixProducts() as products:
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(source, target, labels)
            loss.backward()
        assert len(products.dtypes) > 50 and set(products.dtypes) == {torch.bfloat16}


def test_torch_transformer_refuses_rotary_positions() -> None:
    model = Transformer(ModelConfig(50, d_model=32, n_heads=4, d_ff=64, n_layers=1, positions="rotary"))
    with pytest.raises(UserError, match="no rotary positions"):
        TorchTransformer(model)


def test_torch_transformer_has_dropout_where_ours_has_it() -> None:
    """In two layers on each side, after their two and three sublayers, and after both embeddings."""
    model = Transformer(ModelConfig(50, d_model=32, n_heads=4, d_ff=64, n_layers=2))

    def count(module: torch.nn.Module) -> int:
        dropouts = [m for m in module.modules() if isinstance(m, torch.nn.Dropout) and m.p > 0]
        attention = [m for m in module.modules() if isinstance(m, torch.nn.MultiheadAttention) and m.dropout > 0]
        return len(dropouts) + len(attention)

    assert count(model) == count(TorchTransformer(model)) == 2 * 2 + 2 * 3 + 1


def test_losses_equal_ours_up_to_a_constant() -> None:
    tokens, vocab_size, smoothing = 30, 50, 0.1
    weight, labels = torch.randn(vocab_size, 16), torch.randint(vocab_size, (tokens,))
    x = torch.randn(tokens, 16, requires_grad=True)
    wrong, right = smoothing / vocab_size, 1 - smoothing + smoothing / vocab_size
    entropy = -tokens * (right * np.log(right) + (vocab_size - 1) * wrong * np.log(wrong))
    ours = linear_label_smoothed_cross_entropy(x, weight, labels, smoothing)
    (gradient,) = torch.autograd.grad(ours, x)
    for baseline, constant in ((linear_cross_entropy, 0.0), (linear_kl_divergence, entropy)):
        loss = baseline(x, weight, labels, smoothing)
        torch.testing.assert_close(loss + constant, ours)
        torch.testing.assert_close(torch.autograd.grad(loss, x)[0], gradient)
