import itertools

import pytest
import torch
from torch import Tensor

from transformer.decoding import beam_search, greedy_search, length_penalty
from transformer.model import ModelConfig, Transformer
from transformer.tokenizer import BOS, EOS, PAD


def log_probability(model: Transformer, source: Tensor, tokens: list[int]) -> float:
    """Of a whole hypothesis with its eos, without cache or search."""
    log_probs = model(source, torch.tensor([[BOS, *tokens]])).log_softmax(-1)
    return float(log_probs[0, range(len(tokens) + 1), [*tokens, EOS]].detach().sum())


def uncached_greedy(model: Transformer, source: Tensor, limit: int) -> list[int]:
    tokens: list[int] = []
    while len(tokens) < limit - 1:
        logits = model(source, torch.tensor([[BOS, *tokens]]))[0, -1]
        logits[[PAD, BOS]] = -torch.inf
        best = int(logits.argmax())
        if best == EOS:
            break
        tokens.append(best)
    return tokens


def test_greedy_equals_greedy_without_cache_or_batch(tiny: Transformer, source: Tensor) -> None:
    found = greedy_search(tiny, source)
    for row, tokens in zip(source, found, strict=True):
        sentence = row[row != PAD][None]
        assert tokens == uncached_greedy(tiny, sentence, limit=sentence.size(1) + 50)


def test_beam_of_one_is_greedy(tiny: Transformer, source: Tensor) -> None:
    assert [h[0].tokens for h in beam_search(tiny, source, beam=1)] == greedy_search(tiny, source)


def test_batched_equals_one_by_one(tiny: Transformer, source: Tensor) -> None:
    together = beam_search(tiny, source, beam=4, n_best=4)
    for row, hypotheses in zip(source, together, strict=True):
        (alone,) = beam_search(tiny, row[row != PAD][None], beam=4, n_best=4)
        assert [h.tokens for h in hypotheses] == [h.tokens for h in alone]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in alone], rel=1e-4)


def test_scores_are_those_of_the_model(tiny: Transformer, source: Tensor) -> None:
    for h in beam_search(tiny, source[:1], beam=3, n_best=3, alpha=0.6)[0]:
        expected = log_probability(tiny, source[:1], h.tokens)
        assert h.log_probability == pytest.approx(expected, rel=1e-3)
        assert h.score == pytest.approx(expected / length_penalty(len(h.tokens) + 1, 0.6), rel=1e-3)


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_beam_that_covers_everything_finds_the_best_of_all(alpha: float) -> None:
    for seed in range(5):
        torch.manual_seed(seed)
        model = Transformer(ModelConfig(vocab_size=6, d_model=16, n_heads=2, d_ff=32, n_layers=1, max_length=4)).eval()
        model.unembedding.weight.data *= 4
        source = torch.tensor([[4, 5]])
        letters = [i for i in range(6) if i not in (PAD, BOS, EOS)]
        every = [list(t) for n in range(4) for t in itertools.product(letters, repeat=n)]  # with eos at most 4 tokens
        scored = {tuple(t): log_probability(model, source, t) / length_penalty(len(t) + 1, alpha) for t in every}
        best = max(scored, key=lambda t: scored[t])
        found = beam_search(model, source, beam=len(every), alpha=alpha)[0][0]
        assert tuple(found.tokens) == best
        assert found.score == pytest.approx(scored[best], rel=1e-4)


def test_length_penalty_by_hand() -> None:
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(7, 1.0) == 2.0


def test_arguments_are_checked(tiny: Transformer, source: Tensor) -> None:
    with pytest.raises(ValueError, match="n_best=3, beam=2"):
        beam_search(tiny, source, beam=2, n_best=3)
    with pytest.raises(ValueError, match="alpha must not be negative"):
        beam_search(tiny, source, alpha=-1.0)
