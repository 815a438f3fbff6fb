"""From probabilities to a sentence: greedy and beam search, batched, with a key/value cache (§6.1)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from transformer.model import Transformer
from transformer.tokenizer import BOS, EOS, PAD

EXTRA_LENGTH = 50
"""A translation may have this many tokens more than its source (§6.1)."""


@dataclass(frozen=True)
class Hypothesis:
    """One finished translation."""

    tokens: list[int]
    """Token ids, without bos and eos."""
    log_probability: float
    """Sum over the tokens and the eos, natural logarithm."""
    score: float
    """What beam search ranks by: the log-probability divided by the length penalty."""


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^α: a log-probability is divided by it, so that long translations have no disadvantage."""
    return float(((5 + length) / 6) ** alpha)


def length_limits(model: Transformer, source: Tensor) -> Tensor:
    """For each sentence how many tokens its translation may have, eos included: (batch,), int64."""
    lengths = (source != model.config.pad_id).sum(-1)
    return (lengths + EXTRA_LENGTH).clamp(max=model.config.max_length)


@torch.inference_mode()
def greedy_search(model: Transformer, source: Tensor) -> list[list[int]]:
    """Take the most probable token at every step.

    Args:
        model: in eval mode.
        source: token ids, (batch, source), int64; padding at the end.

    Returns:
        For each sentence its token ids, without bos and eos.
    """
    memory, memory_mask = model.encode(source)
    limits = length_limits(model, source)
    cache = model.start_cache(memory, memory_mask, int(limits.max()))
    tokens = source.new_full((len(source),), BOS)
    running = torch.ones_like(tokens, dtype=torch.bool)
    steps: list[Tensor] = []
    while running.any():
        logits = _allowed(model.decode_step(tokens, cache), ends_here=limits == len(steps) + 1)
        tokens = logits.argmax(-1)
        running = running & (tokens != EOS)
        steps.append(tokens.where(running, EOS))
    rows: list[list[int]] = torch.stack(steps, dim=1).tolist()
    return [row[: row.index(EOS)] for row in rows]


@torch.inference_mode()
def beam_search(
    model: Transformer, source: Tensor, beam: int = 4, alpha: float = 0.6, n_best: int = 1
) -> list[list[Hypothesis]]:
    """Keep the ``beam`` best beginnings at every step, and return the best finished translations.

    An eos among the ``beam`` best candidates finishes its hypothesis; the best others live on. A sentence is done when
    ``beam`` hypotheses have finished, or when no living one could still get among the ``n_best``, however it went on.

    Args:
        model: in eval mode.
        source: token ids, (batch, source), int64; padding at the end.
        beam: beginnings kept for each sentence.
        alpha: strength of the length penalty; 0 ranks by log-probability alone.
        n_best: hypotheses wanted for each sentence, at most ``beam``.

    Returns:
        For each sentence its ``n_best`` hypotheses, best first.

    Raises:
        ValueError: if an argument is out of its range.
    """
    if not 1 <= n_best <= beam:
        raise ValueError(f"n_best must be from 1 to beam; got n_best={n_best}, beam={beam}")
    if alpha < 0:
        raise ValueError(f"alpha must not be negative; got {alpha}")
    memory, memory_mask = model.encode(source)
    limits = length_limits(model, source)
    cache = model.start_cache(memory, memory_mask, int(limits.max()), beams=beam)
    finished: list[list[Hypothesis]] = [[] for _ in source]
    sentences = torch.arange(len(source), device=source.device)  # those not done yet
    prefixes = source.new_full((len(source), beam, 1), BOS)  # (sentences, beam, length)
    scores = memory.new_full((len(source), beam), -torch.inf, dtype=torch.float32)
    scores[:, 0] = 0.0  # at first there is one beginning, not `beam` equal ones

    for length in range(1, int(limits.max()) + 1):
        logits = model.decode_step(prefixes[:, :, -1].flatten(), cache)
        ends_here = (limits[sentences] == length).repeat_interleave(beam)
        log_probs = _allowed(logits.float().log_softmax(-1), ends_here).unflatten(0, (-1, beam))
        candidates = (scores[:, :, None] + log_probs).flatten(1)  # (sentences, beam · vocab_size)
        values, places = candidates.topk(min(2 * beam, candidates.size(1)))
        parents, tokens = places // log_probs.size(-1), places % log_probs.size(-1)

        is_end = (tokens == EOS) & values.isfinite()
        for row, column in is_end[:, :beam].nonzero().tolist():
            log_probability = float(values[row, column])
            ids = prefixes[row, parents[row, column], 1:].tolist()
            score = log_probability / length_penalty(length, alpha)
            finished[int(sentences[row])].append(Hypothesis(ids, log_probability, score))

        # The best `beam` that go on: a stable sort moves the ended ones behind them and keeps their order.
        living = (tokens == EOS).to(torch.int8).argsort(dim=-1, stable=True)[:, :beam]
        scores = values.gather(1, living).masked_fill((tokens == EOS).gather(1, living), -torch.inf)
        parents, tokens = parents.gather(1, living), tokens.gather(1, living)
        prefixes = prefixes.gather(1, parents[:, :, None].expand_as(prefixes))
        prefixes = torch.cat([prefixes, tokens[:, :, None]], dim=-1)

        best_living = scores.max(dim=-1).values.tolist()
        going_on = [
            row
            for row, (sentence, best) in enumerate(zip(sentences.tolist(), best_living, strict=True))
            if not _is_done(finished[sentence], best, int(limits[sentence]), beam, alpha, n_best)
        ]
        if not going_on:
            break
        rows = torch.arange(len(sentences), device=source.device)[:, None] * beam + parents
        if len(going_on) < len(sentences):
            keep = torch.tensor(going_on, device=source.device)
            sentences, prefixes, scores = sentences[keep], prefixes[keep], scores[keep]
            cache.select(rows[keep].flatten(), keep)
        else:
            cache.select(rows.flatten())
    return [sorted(found, key=lambda h: -h.score)[:n_best] for found in finished]


def _allowed(scores: Tensor, ends_here: Tensor) -> Tensor:
    """Never pad or bos; nothing but eos for rows (bool) that reached their limit. (rows, vocab_size) in and out."""
    scores[:, [PAD, BOS]] = -torch.inf
    if ends_here.any():
        others = torch.arange(scores.size(-1), device=scores.device) != EOS
        scores = scores.masked_fill(ends_here[:, None] & others, -torch.inf)
    return scores


def _is_done(finished: list[Hypothesis], best_living: float, limit: int, beam: int, alpha: float, n_best: int) -> bool:
    """Whether running on cannot change a sentence's ``n_best``: log-probabilities only fall, penalties only grow."""
    if len(finished) >= beam or best_living == -torch.inf:
        return True
    if len(finished) < n_best:
        return False
    worst_wanted = sorted(h.score for h in finished)[-n_best]
    return best_living / length_penalty(limit, alpha) <= worst_wanted
