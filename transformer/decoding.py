"""From probabilities to a sentence: greedy, sampled, and beam search; batched, with a key/value cache (§6.1)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.errors import UserError
from transformer.model import Transformer

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


@dataclass(frozen=True)
class Candidate:
    """One way to go on that beam search weighed: a branch of its tree."""

    sentence: int
    """Row of the source."""
    length: int
    """Tokens of the hypothesis with this one; the first has 1."""
    parent: int
    """The beam it goes on from: the ``beam`` of a kept candidate one token shorter (0 for the first)."""
    token: int
    log_probability: float
    """Of all tokens so far, natural logarithm."""
    score: float
    """The log-probability divided by the length penalty."""
    fate: Literal["kept", "finished", "dropped"]
    beam: int | None
    """The beam that it becomes, if it is kept."""


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^α: a log-probability is divided by it, so that long translations have no disadvantage."""
    return float(((5 + length) / 6) ** alpha)


def length_limits(model: Transformer, source: Tensor) -> Tensor:
    """For each sentence how many tokens its translation may have, eos included: (batch,), int64."""
    lengths = (source != PAD).sum(-1)
    return (lengths + EXTRA_LENGTH).clamp(max=model.config.max_length)


def greedy_search(model: Transformer, source: Tensor) -> list[list[int]]:
    """Take the most probable token at every step.

    Args:
        model: in eval mode.
        source: token ids, (batch, source), int64; padding at the end.

    Returns:
        For each sentence its token ids, without bos and eos.
    """
    return _one_token_at_a_time(model, source, lambda logits: logits.argmax(-1))


def sample(
    model: Transformer,
    source: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> list[list[int]]:
    """Draw every token at random, by its probability.

    Args:
        model: in eval mode.
        source: token ids, (batch, source), int64; padding at the end.
        temperature: divides the logits: below 1 the probable become more so, towards 0 it is greedy search.
        top_k: draw from the so many most probable tokens only.
        top_p: draw only from the most probable tokens that together have this probability; 1 is all.
        generator: where the randomness comes from, on the model's device.

    Returns:
        For each sentence its token ids, without bos and eos.

    Raises:
        ValueError: if an argument is out of its range.
    """
    if temperature <= 0:
        raise ValueError(f"temperature must be greater than 0; got {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1; got {top_k}")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p must be greater than 0 and at most 1; got {top_p}")

    def draw(logits: Tensor) -> Tensor:
        ordered, tokens = (logits.float() / temperature).sort(dim=-1, descending=True)
        probabilities = ordered[:, :top_k].softmax(-1)
        if top_p < 1:  # sums of nearly all are rounded to 1: "all" must not be asked of them
            before = probabilities.cumsum(-1) - probabilities  # of all tokens that are more probable
            probabilities = probabilities.masked_fill(before >= top_p, 0.0)
        places = probabilities.multinomial(1, generator=generator)
        return tokens.gather(1, places)[:, 0]

    return _one_token_at_a_time(model, source, draw)


@torch.inference_mode()
def _one_token_at_a_time(model: Transformer, source: Tensor, choose: Callable[[Tensor], Tensor]) -> list[list[int]]:
    """Let ``choose`` pick each row's next token from its logits, (sentences, vocab_size), until all have ended."""
    if not len(source):
        return []
    memory, memory_mask = model.encode(source)
    limits = length_limits(model, source)
    cache = model.start_cache(memory, memory_mask, int(limits.max()))
    found: list[list[int]] = [[] for _ in source]
    sentences = torch.arange(len(source), device=source.device)  # those not done yet
    tokens = torch.full_like(sentences, BOS)
    while len(sentences):
        ends_here = limits[sentences] == cache.length + 1
        tokens = choose(_allowed(model.decode_step(tokens[:, None], cache)[:, 0], ends_here))
        for sentence, token in zip(sentences.tolist(), tokens.tolist(), strict=True):
            if token != EOS:
                found[sentence].append(token)
        going_on = (tokens != EOS).nonzero()[:, 0]
        if len(going_on) < len(sentences):
            sentences, tokens = sentences[going_on], tokens[going_on]
            cache.keep(going_on)
    return found


def check_search(beam: int, alpha: float, n_best: int = 1) -> None:
    """Whether `beam_search` takes these.

    Raises:
        ValueError: if not.
    """
    if beam < 1:
        raise ValueError(f"beam must be at least 1; got {beam}")
    if not 1 <= n_best <= beam:
        raise ValueError(f"n_best must be from 1 to beam; got n_best={n_best}, beam={beam}")
    if not 0 <= alpha < math.inf:
        raise ValueError(f"alpha must not be negative, and finite; got {alpha}")


@torch.inference_mode()
def beam_search(
    model: Transformer,
    source: Tensor,
    beam: int = 4,
    alpha: float = 0.6,
    n_best: int = 1,
    trace: list[Candidate] | None = None,
) -> list[list[Hypothesis]]:
    """Keep the ``beam`` best beginnings at every step, and return the best finished translations.

    An eos among the ``beam`` best candidates finishes its hypothesis; the best others live on. A sentence is done when
    no living hypothesis could still get among the ``n_best``, however it went on: stopping early costs nothing.

    Args:
        model: in eval mode.
        source: token ids, (batch, source), int64; padding at the end.
        beam: beginnings kept for each sentence.
        alpha: strength of the length penalty; 0 ranks by log-probability alone.
        n_best: hypotheses wanted for each sentence, at most ``beam``.
        trace: a list that is given every candidate weighed, for a picture of the search.

    Returns:
        For each sentence its ``n_best`` hypotheses, best first.

    Raises:
        ValueError: if an argument is out of its range.
        UserError: if the model's scores are not numbers.
    """
    check_search(beam, alpha, n_best)
    if not len(source):
        return []
    memory, memory_mask = model.encode(source)
    limits = length_limits(model, source)
    cache = model.start_cache(memory, memory_mask, int(limits.max()), beams=beam)
    finished: list[list[Hypothesis]] = [[] for _ in source]
    sentences = torch.arange(len(source), device=source.device)  # those not done yet
    prefixes = source.new_full((len(source), beam, 1), BOS)  # (sentences, beam, length)
    scores = memory.new_full((len(source), beam), -torch.inf, dtype=torch.float32)
    scores[:, 0] = 0.0  # at first there is one beginning, not `beam` equal ones

    for length in range(1, int(limits.max()) + 1):
        logits = model.decode_step(prefixes[:, :, -1], cache).float()
        best, best_tokens = _best_tokens(logits, 2 * beam, limits[sentences] == length)
        # The best 2 · beam of all are among the best 2 · beam of each beginning, and at most half of them end.
        candidates = (scores[:, :, None] + best).flatten(1)  # (sentences, beam · 2 · beam)
        values, places = candidates.topk(min(2 * beam, candidates.size(1)))
        parents, tokens = places // best.size(-1), best_tokens.flatten(1).gather(1, places)

        is_end = (tokens == EOS) & values.isfinite()
        for row, column in is_end[:, :beam].nonzero().tolist():
            log_probability = float(values[row, column])
            ids = prefixes[row, parents[row, column], 1:].tolist()
            score = log_probability / length_penalty(length, alpha)
            finished[int(sentences[row])].append(Hypothesis(ids, log_probability, score))

        # The best `beam` that go on: a stable sort moves the ended ones behind them and keeps their order.
        living = (tokens == EOS).to(torch.int8).argsort(dim=-1, stable=True)[:, :beam]
        scores = values.gather(1, living).masked_fill((tokens == EOS).gather(1, living), -torch.inf)
        if trace is not None:
            trace.extend(_traced(sentences, length, alpha, parents, tokens, values, living, beam))
        parents, tokens = parents.gather(1, living), tokens.gather(1, living)
        prefixes = prefixes.gather(1, parents[:, :, None].expand_as(prefixes))
        prefixes = torch.cat([prefixes, tokens[:, :, None]], dim=-1)

        best_living = scores.max(dim=-1).values.tolist()
        going_on = [
            row
            for row, (sentence, best) in enumerate(zip(sentences.tolist(), best_living, strict=True))
            if not _is_done(finished[sentence], best, int(limits[sentence]), alpha, n_best)
        ]
        if not going_on:
            break
        cache.follow(parents)
        if len(going_on) < len(sentences):
            keep = torch.tensor(going_on, device=source.device)
            sentences, prefixes, scores = sentences[keep], prefixes[keep], scores[keep]
            cache.keep(keep)
    if not all(finished):  # each of them ends at its limit, if not before
        raise UserError("the model's scores are not numbers (NaN): a weight is broken, or half precision overflows")
    return [sorted(found, key=lambda h: -h.score)[:n_best] for found in finished]


def _traced(
    sentences: Tensor,
    length: int,
    alpha: float,
    parents: Tensor,
    tokens: Tensor,
    values: Tensor,
    living: Tensor,
    beam: int,
) -> list[Candidate]:
    """What one step of the search weighed, best first; all tensors are (sentences, candidates)."""
    found = []
    for row, column in values.isfinite().nonzero().tolist():
        token, value = int(tokens[row, column]), float(values[row, column])
        becomes = living[row].tolist().index(column) if column in living[row] and token != EOS else None
        ended = token == EOS and column < beam
        found.append(
            Candidate(
                sentence=int(sentences[row]),
                length=length,
                parent=int(parents[row, column]),
                token=token,
                log_probability=value,
                score=value / length_penalty(length, alpha),
                fate="finished" if ended else "dropped" if becomes is None else "kept",
                beam=becomes,
            )
        )
    return found


def _best_tokens(logits: Tensor, count: int, ends_here: Tensor) -> tuple[Tensor, Tensor]:
    """The most probable next tokens; never pad or bos, and nothing but eos where a limit is reached.

    Args:
        logits: (sentences, beams, vocab_size), float32; overwritten.
        ends_here: sentences at their limit, (sentences,), bool.

    Returns:
        Log-probabilities, best first, and ids, both (sentences, beams, count or a little more).
    """
    best, tokens = _topk(logits, min(count + 2, logits.size(-1)))
    end, top = logits[..., EOS].clone(), best[..., :1]
    # The log-softmax of these few alone, worked out in the logits' own memory: a second block of their size costs more.
    log_total = top + logits.sub_(top).exp_().sum(-1, keepdim=True).log()
    best -= log_total
    best.masked_fill_((tokens == PAD) | (tokens == BOS), -torch.inf)
    best[ends_here], tokens[ends_here] = -torch.inf, EOS
    best[ends_here, :, 0] = (end - log_total[..., 0])[ends_here]
    return best, tokens


def _topk(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """``logits.topk(count)``, sooner found on a CPU: first the columns, of eight tokens each, then the tokens in them.

    The ``count`` best tokens stand in the ``count`` columns of the highest maxima.
    """
    if logits.size(-1) % 8 or logits.size(-1) < 8 * count:
        return logits.topk(count)
    table = logits.unflatten(-1, (8, -1))  # (..., rows, columns)
    columns = table.amax(-2).topk(count).indices
    rows = torch.arange(8, device=logits.device) * table.size(-1)  # where each begins
    tokens = (columns[..., None] + rows).flatten(-2)  # (..., count · 8)
    best, places = logits.gather(-1, tokens).topk(count)
    return best, tokens.gather(-1, places)


def _allowed(logits: Tensor, ends_here: Tensor) -> Tensor:
    """Logits, (sentences, vocab_size), that never take pad or bos, and nothing but eos where a limit is reached."""
    logits[:, [PAD, BOS]] = -torch.inf
    others = torch.arange(logits.size(-1), device=logits.device) != EOS
    return logits.masked_fill_(ends_here[:, None] & others, -torch.inf)


def _is_done(finished: list[Hypothesis], best_living: float, limit: int, alpha: float, n_best: int) -> bool:
    """Whether running on cannot change a sentence's ``n_best``: log-probabilities only fall, penalties only grow."""
    if best_living == -torch.inf:
        return True
    if len(finished) < n_best:
        return False
    worst_wanted = sorted(h.score for h in finished)[-n_best]
    return best_living / length_penalty(limit, alpha) <= worst_wanted
