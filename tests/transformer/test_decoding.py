import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from transformer.config import ModelConfig
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.decoding import (
    Candidate,
    Hypothesis,
    _best_tokens,
    _is_done,
    _topk_by_columns,
    beam_search,
    greedy_search,
    length_limits,
    length_normalization,
    sample,
)
from transformer.errors import UserError
from transformer.model import DecoderCache, Transformer


def log_probability(model: Transformer, source: Tensor, tokens: list[int]) -> float:
    """Return the log-probability of a hypothesis with its eos, computed without a cache."""
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


@torch.inference_mode()
def uncached_beam_search(
    model: Transformer, source: Tensor, beam_size: int, length_penalty: float, limit: int
) -> list[tuple[float, list[int]]]:
    """Return the scores and tokens of all finished hypotheses, best first, without stopping early."""
    prefixes: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[tuple[float, list[int]]] = []
    for length in range(1, limit + 1):
        candidates: list[tuple[float, list[int]]] = []
        for log_probability, tokens in prefixes:
            log_probs = model(source, torch.tensor([[BOS, *tokens]]))[0, -1].log_softmax(-1).tolist()
            possible = [EOS] if length == limit else set(range(len(log_probs))) - {PAD, BOS}
            candidates += [(log_probability + log_probs[token], [*tokens, token]) for token in possible]
        candidates.sort(reverse=True)
        for log_probability, tokens in candidates[:beam_size]:
            if tokens[-1] == EOS:
                finished.append((log_probability / length_normalization(length, length_penalty), tokens[:-1]))
        prefixes = [candidate for candidate in candidates if candidate[1][-1] != EOS][:beam_size]
    return sorted(finished, reverse=True)


def test_greedy_equals_greedy_without_cache_or_batch(tiny: Transformer, source: Tensor) -> None:
    translations = greedy_search(tiny, source)
    for row, tokens in zip(source, translations, strict=True):
        sentence = row[row != PAD][None]
        assert tokens == uncached_greedy(tiny, sentence, limit=sentence.size(1) + 50)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_beam_search_equals_one_without_cache_or_batch(
    length_penalty: float, tiny: Transformer, source: Tensor
) -> None:
    for seed in range(2):
        torch.manual_seed(seed)
        tiny.reset_parameters()
        tiny.unembedding.weight.data *= 2
        together = beam_search(tiny, source, beam_size=3, length_penalty=length_penalty, n_best=3, max_new_tokens=6)
        for row, hypotheses in zip(source, together, strict=True):
            expected = uncached_beam_search(tiny, row[row != PAD][None], 3, length_penalty, limit=6)[:3]
            assert [h.tokens for h in hypotheses] == [tokens for _, tokens in expected]
            assert [h.score for h in hypotheses] == pytest.approx([score for score, _ in expected], rel=1e-4)


def test_beam_of_one_is_greedy(tiny: Transformer, source: Tensor) -> None:
    assert [h[0].tokens for h in beam_search(tiny, source, beam_size=1)] == greedy_search(tiny, source)


def test_by_default_the_search_has_the_papers_settings(tiny: Transformer, source: Tensor) -> None:
    default, paper = beam_search(tiny, source), beam_search(tiny, source, beam_size=4, length_penalty=0.6)
    assert default == paper
    for other in ({"beam_size": 5}, {"length_penalty": 0.9}):
        assert beam_search(tiny, source, **other) != default  # otherwise the comparison would show nothing


def test_batched_equals_one_by_one(tiny: Transformer, source: Tensor) -> None:
    together = beam_search(tiny, source, beam_size=4, n_best=4)
    for row, hypotheses in zip(source, together, strict=True):
        (alone,) = beam_search(tiny, row[row != PAD][None], beam_size=4, n_best=4)
        assert [h.tokens for h in hypotheses] == [h.tokens for h in alone]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in alone], rel=1e-4)


def test_scores_equal_the_log_probabilities_of_the_model(tiny: Transformer, source: Tensor) -> None:
    for h in beam_search(tiny, source[:1], beam_size=3, n_best=3, length_penalty=0.6)[0]:
        expected = log_probability(tiny, source[:1], h.tokens)
        assert h.log_probability == pytest.approx(expected, rel=1e-3)
        assert h.score == pytest.approx(expected / length_normalization(len(h.tokens) + 1, 0.6), rel=1e-3)


@pytest.mark.parametrize("length_penalty", [0.0, 0.6])
def test_a_beam_as_wide_as_the_search_space_finds_the_best_translation(length_penalty: float) -> None:
    for seed in range(5):
        torch.manual_seed(seed)
        model = Transformer(ModelConfig(vocab_size=6, d_model=16, n_heads=2, d_ff=32, n_layers=1, max_length=4)).eval()
        model.unembedding.weight.data *= 4
        source = torch.tensor([[4, 5]])
        letters = [i for i in range(6) if i not in (PAD, BOS, EOS)]
        every = [list(t) for n in range(4) for t in itertools.product(letters, repeat=n)]  # with eos at most 4 tokens
        scored = {
            tuple(t): log_probability(model, source, t) / length_normalization(len(t) + 1, length_penalty)
            for t in every
        }
        best = max(scored, key=lambda t: scored[t])
        best_found = beam_search(model, source, beam_size=len(every), length_penalty=length_penalty)[0][0]
        assert tuple(best_found.tokens) == best
        assert best_found.score == pytest.approx(scored[best], rel=1e-4)


@pytest.mark.parametrize("vocab_size", [3, 80, 96, 1000, 10_001])
def test_topk_by_columns_equals_topk(vocab_size: int) -> None:
    torch.manual_seed(1)
    logits = torch.randn(3, 2, vocab_size)
    logits[0, 0, :: max(1, vocab_size // 8)] += 10  # the best all in one column, from the first row to the last
    logits[1, 1, -10:] += torch.arange(min(10, vocab_size)) + 10.0  # and side by side, at the end
    values, tokens = _topk_by_columns(logits, min(10, vocab_size))
    expected = logits.topk(min(10, vocab_size))
    assert torch.equal(values, expected.values) and torch.equal(tokens, expected.indices)


@pytest.mark.parametrize("vocab_size", [5, 96, 10_000])
def test_best_tokens_equal_the_best_of_all_log_probabilities(vocab_size: int) -> None:
    torch.manual_seed(1)
    logits = torch.randn(3, 2, vocab_size) * 5
    log_probs = logits.double().log_softmax(-1)
    log_probs[..., [PAD, BOS]] = -torch.inf
    log_probs[1] = log_probs[1].where(torch.arange(vocab_size) == EOS, -torch.inf)  # at its limit
    values, tokens = _best_tokens(logits, 3, torch.tensor([False, True, False]))
    values, columns = values.topk(3)  # pad and bos may be among them, with -inf
    expected = log_probs.topk(3)
    torch.testing.assert_close(values.double(), expected.values, atol=1e-5, rtol=1e-5)
    possible = values.isfinite()
    assert torch.equal(tokens.gather(-1, columns)[possible], expected.indices[possible])


def test_length_normalization_by_hand() -> None:
    assert length_normalization(1, 0.6) == 1.0
    assert length_normalization(7, 1.0) == 2.0


def test_arguments_out_of_range_are_rejected(tiny: Transformer, source: Tensor) -> None:
    with pytest.raises(UserError, match="n_best=3, beam_size=2"):
        beam_search(tiny, source, beam_size=2, n_best=3)
    with pytest.raises(UserError, match="beam_size must be at least 1; got 0"):
        beam_search(tiny, source, beam_size=0)
    with pytest.raises(UserError, match=r"beam_size must be a whole number; got 2\.5"):
        beam_search(tiny, source, beam_size=2.5)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"beam_size must be a whole number; got tensor\(\[2\]\)"):
        beam_search(tiny, source, beam_size=torch.tensor([2]))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="beam_size must be a whole number; got True"):
        beam_search(tiny, source, beam_size=True)
    for length_penalty in (-1.0, float("nan"), float("inf")):
        with pytest.raises(UserError, match="length_penalty must be from 0 to 10"):
            beam_search(tiny, source, length_penalty=length_penalty)


SEARCHES: dict[str, Callable[[Transformer, Tensor, int | None], list[list[int]]]] = {
    "greedy": greedy_search,
    "sampling": lambda model, source, n: sample(model, source, top_k=1, max_new_tokens=n),
    "beam": lambda model, source, n: [h.tokens for (h,) in beam_search(model, source, max_new_tokens=n)],
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_max_new_tokens_counts_the_eos(
    tiny: Transformer, source: Tensor, search: Callable[[Transformer, Tensor, int | None], list[list[int]]]
) -> None:
    unlimited, limited = search(tiny, source, None), search(tiny, source, 4)
    assert max(len(tokens) for tokens in unlimited) > 3
    assert max(len(tokens) for tokens in limited) == 3
    assert search(tiny, source, 1) == [[] for _ in source]
    longest = tiny.config.max_length
    assert search(tiny, source, 10 * longest) == search(tiny, source, longest)
    for n in (0, -1):
        with pytest.raises(UserError, match=f"max_new_tokens must be at least 1; got {n}"):
            search(tiny, source, n)


def test_length_limits(tiny: Transformer, source: Tensor) -> None:
    assert length_limits(tiny, source).tolist() == [59, 57, 55, 59, 53, 51]
    assert length_limits(tiny, source, 7).tolist() == [7] * 6
    assert length_limits(tiny, source, 1000).tolist() == [tiny.config.max_length] * 6


def test_an_empty_batch_has_no_translations(tiny: Transformer, source: Tensor) -> None:
    assert greedy_search(tiny, source[:0]) == beam_search(tiny, source[:0]) == []


def test_nan_raises_an_error(tiny: Transformer, source: Tensor) -> None:
    tiny.unembedding.weight.data[7] = torch.nan
    for search in (beam_search, greedy_search, sample):
        with pytest.raises(UserError, match="the model outputs NaN"):
            search(tiny, source)


def test_nan_after_a_translation_has_finished_raises_an_error(
    tiny: Transformer, source: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = tiny.decode_step

    def turn_nan(tokens: Tensor, cache: DecoderCache) -> Tensor:
        logits = step(tokens, cache)
        logits[..., EOS] = logits.amax(-1) + 1  # finishes a hypothesis of each sentence in the first step
        return logits if cache.length == 1 else logits * torch.nan

    monkeypatch.setattr(tiny, "decode_step", turn_nan)
    with pytest.raises(UserError, match="the model outputs NaN"):
        beam_search(tiny, source, n_best=4)


def test_the_trace_contains_the_whole_search_tree(tiny: Transformer, source: Tensor) -> None:
    trace: list[Candidate] = []
    n_best = beam_search(tiny, source, beam_size=3, n_best=3, trace=trace)
    assert n_best == beam_search(tiny, source, beam_size=3, n_best=3)
    kept = {(c.sentence, c.length, c.beam): c for c in trace if c.fate == "kept"}

    def tokens(c: Candidate) -> list[int]:
        return [*(tokens(kept[c.sentence, c.length - 1, c.parent]) if c.length > 1 else []), c.token]

    for sentence, hypotheses in enumerate(n_best):
        candidates = [c for c in trace if c.sentence == sentence]
        finished = {tuple(tokens(c)): c for c in candidates if c.fate == "finished"}
        for h in hypotheses:
            end = finished[(*h.tokens, EOS)]
            assert (end.log_probability, end.score) == (h.log_probability, h.score)
        for length in {c.length for c in candidates}:
            step = [c for c in candidates if c.length == length]
            assert sum(c.fate == "kept" for c in step) <= 3 and len(step) <= 6
            worst_kept = min((c.log_probability for c in step if c.fate == "kept"), default=-float("inf"))
            assert all(c.log_probability <= worst_kept for c in step if c.fate == "dropped" and c.token != EOS)
            assert {c.parent for c in step} <= {c.beam for c in candidates if c.length == length - 1} or length == 1


@pytest.mark.parametrize("n_best", [1, 3])
def test_stopping_early_does_not_change_the_result(
    n_best: int, tiny: Transformer, source: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(5):
        torch.manual_seed(seed)
        tiny.reset_parameters()
        tiny.unembedding.weight.data *= 2
        early = beam_search(tiny, source, beam_size=3, length_penalty=1.0, n_best=n_best)
        with monkeypatch.context() as patch:
            # Continue as long as any prefix is left.
            patch.setattr("transformer.decoding._is_done", lambda finished, best, *_: best == -float("inf"))
            late = beam_search(tiny, source, beam_size=3, length_penalty=1.0, n_best=n_best)
        assert [h.score for hs in early for h in hs] == pytest.approx([h.score for hs in late for h in hs])


@pytest.mark.parametrize(("n_best", "best_alive", "done"), [(1, -4.0, True), (3, -5.0, False), (3, -7.0, True)])
def test_a_search_is_done_when_no_prefix_can_reach_the_n_best(n_best: int, best_alive: float, done: bool) -> None:
    """At a limit of 7 tokens and a length penalty of 1, the log-probability of a prefix is divided by at most 2."""
    finished = [Hypothesis([], score, score) for score in (-2.0, -1.0, -3.0)]
    assert _is_done(finished, best_alive, 7, 1.0, n_best) is done
    assert not _is_done(finished[: n_best - 1], best_alive, 7, 1.0, n_best)


def test_sampling_from_a_single_token_equals_greedy_search(tiny: Transformer, source: Tensor) -> None:
    expected = greedy_search(tiny, source)
    assert sample(tiny, source, top_k=1) == expected
    assert sample(tiny, source, top_p=1e-9) == expected
    assert sample(tiny, source, temperature=1e-4) == expected


def test_samples_follow_the_probabilities(tiny: Transformer) -> None:
    """Compare the first tokens of 4,000 samples with the softmax, truncated by top-k, top-p or both."""
    sentence = torch.tensor([[5, 6, 7]])
    logits = tiny(sentence, torch.tensor([[BOS]]))[0, 0].detach()
    logits[[PAD, BOS]] = -torch.inf
    for temperature, top_k, top_p in [(1.0, None, 1.0), (2.0, 5, 1.0), (2.0, None, 0.7), (2.0, 5, 0.7)]:
        p, order = (logits / temperature).softmax(-1).sort(descending=True)
        p = p[:top_k] / p[:top_k].sum()
        enough = int((p.cumsum(0) < top_p - 1e-6).sum()) + 1
        expected = torch.zeros(40)
        expected[order[:enough]] = p[:enough] / p[:enough].sum()
        generator = torch.Generator().manual_seed(0)
        rows = sample(tiny, sentence.expand(4000, 3), temperature, top_k, top_p, generator, max_new_tokens=2)
        counts = torch.bincount(torch.tensor([row[0] if row else EOS for row in rows]), minlength=40)
        assert counts[expected == 0].sum() == 0
        assert (counts / 4000 - expected).abs().max() < 0.03


def test_samples_depend_on_nothing_but_the_generator(tiny: Transformer, source: Tensor) -> None:
    first, same, other = (sample(tiny, source, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert first == same != other


def test_top_p_of_one_keeps_every_token(tiny: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the least probable: in float32 the cumulative sum reaches 1 before the last token."""
    drawn: list[Tensor] = []
    empty_like = torch.empty_like  # which is called for the random numbers that a token is drawn with
    monkeypatch.setattr(torch, "empty_like", lambda p: drawn.append(p) or empty_like(p))
    for top_p in (1.0, 1 - 1e-7):
        sample(tiny, torch.tensor([[5, 6, EOS]]), temperature=0.25, top_p=top_p)
    whole, *_, cut = (p for p in drawn if p.dim() == 2)
    assert (whole > 0).sum() == whole.size(-1) - 2, "all but pad and bos, which are never drawn"
    assert (cut > 0).sum() < (whole > 0).sum()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": 0.0}, "temperature must be finite and at least 1e-06; got 0.0"),
        ({"temperature": float("inf")}, "temperature must be finite and at least 1e-06; got inf"),
        ({"top_k": 0}, "top_k must be at least 1; got 0"),
        ({"top_p": 0.0}, "top_p must be greater than 0 and at most 1; got 0.0"),
        ({"top_p": 1.1}, "top_p must be greater than 0 and at most 1; got 1.1"),
    ],
)
def test_sampling_settings_out_of_range_are_rejected(
    tiny: Transformer, source: Tensor, wrong: dict[str, float], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        sample(tiny, source, **wrong)
