"""Generate translations: greedy search, sampling and beam search, batched and with a key/value cache (§6.1)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from numbers import Integral, Real
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.errors import UserError, quote
from transformer.model import Transformer

EXTRA_LENGTH = 50
"""By default a translation has at most this many more tokens than its source (§6.1)."""

MAX_LENGTH_PENALTY = 10
"""The largest ``length_penalty``. Common values are below 2; far larger ones would overflow for long translations."""
MIN_TEMPERATURE = 1e-6
"""At this temperature, sampling already equals greedy search; at far lower ones, the divided logits would overflow."""
NAN_MESSAGE = (
    "the model outputs NaN. With fp16, numbers may have overflowed: try precision bf16 or fp32. Otherwise, a weight "
    "of the model is NaN or infinite"
)


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation."""

    tokens: list[int]
    """Token ids, without bos and eos."""
    log_probability: float
    """Sum over all tokens and the eos, natural logarithm."""
    score: float
    """The log-probability divided by `length_normalization`; beam search ranks by it."""


@dataclass(frozen=True)
class Candidate:
    """A prefix extended by one token, as beam search considered it: an edge of the search tree."""

    sentence: int
    """Row of the source."""
    length: int
    """Number of tokens generated, this one included; 1 for the first."""
    parent: int
    """Which beam is extended: the ``beam`` of a kept candidate one token shorter (0 for the first token)."""
    token: int
    log_probability: float
    """Sum over all tokens so far, natural logarithm."""
    score: float
    """The log-probability divided by `length_normalization`."""
    fate: Literal["kept", "finished", "dropped"]
    """What becomes of it: a beam, a finished translation, or nothing."""
    beam: int | None
    """The beam that this candidate becomes, if it is kept."""


def length_normalization(length: int, length_penalty: float) -> float:
    """Return ((5 + length) / 6)^length_penalty, the divisor of a log-probability (§6.1, following Wu et al. 2016).

    Every token makes a log-probability lower. The division compensates for that, so that long translations can compete.

    Args:
        length: number of tokens, eos included.
        length_penalty: the exponent α; 0 turns the normalisation off.
    """
    return float(((5 + length) / 6) ** length_penalty)


def length_limits(model: Transformer, source: Tensor, max_new_tokens: int | None = None) -> Tensor:
    """Return how many tokens each translation may have, eos included.

    Args:
        source: token ids, (batch, source), int64.
        max_new_tokens: the limit; None: the source's length + 50 (§6.1). The model's ``max_length`` limits both.

    Returns:
        (batch,), int64.

    Raises:
        UserError: if ``max_new_tokens`` is less than 1.
    """
    check_max_new_tokens(max_new_tokens)
    max_length = model.config.max_length
    if max_new_tokens is None:
        return ((source != PAD).sum(-1) + EXTRA_LENGTH).clamp(max=max_length)
    return source.new_full((len(source),), min(max_new_tokens, max_length))


def check_max_new_tokens(max_new_tokens: int | None) -> None:
    """Raise a `UserError` if ``max_new_tokens`` is not a whole number, or is less than 1."""
    if max_new_tokens is not None and _check_number(max_new_tokens, "max_new_tokens") < 1:
        raise UserError(f"max_new_tokens must be at least 1; got {max_new_tokens}")


def _check_number(value: float, name: str, whole: bool = True) -> float:
    """Reject anything but a number, before it causes an error that doesn't name the argument."""
    is_number = isinstance(value, Integral if whole else Real)
    if not is_number or isinstance(value, bool):
        raise UserError(f"{name} must be a {'whole number' if whole else 'number'}; got {quote(value)}")
    return value


def greedy_search(model: Transformer, source: Tensor, max_new_tokens: int | None = None) -> list[list[int]]:
    """Generate translations by taking the most probable token at every step.

    Args:
        model: a model in eval mode.
        source: token ids, (batch, source), int64; padding at the end.
        max_new_tokens: maximum number of tokens to generate per sentence, including eos, which is forced at the
            limit. None: the source's length + 50.

    Returns:
        For each sentence its token ids, without bos and eos.

    Raises:
        UserError: if ``max_new_tokens`` is less than 1, or the model outputs NaN.
    """
    # On a CPU, PyTorch's max is about three times as fast as its argmax.
    return _generate(model, source, lambda logits: logits.max(-1).indices, max_new_tokens)


def sample(
    model: Transformer,
    source: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
    max_new_tokens: int | None = None,
) -> list[list[int]]:
    """Generate translations by drawing every token at random from the model's distribution.

    Args:
        model: a model in eval mode.
        source: token ids, (batch, source), int64; padding at the end.
        temperature: divides the logits: below 1 it sharpens the distribution, and towards 0 it becomes greedy search.
        top_k: draw only from this many most probable tokens; None: from all.
        top_p: draw only from the smallest set of most probable tokens whose probabilities sum to at least this (nucleus
            sampling); 1: from all.
        generator: the random number generator, on the model's device; None: PyTorch's default.
        max_new_tokens: maximum number of tokens to generate per sentence, including eos, which is forced at the
            limit. None: the source's length + 50.

    Returns:
        For each sentence its token ids, without bos and eos.

    Raises:
        UserError: if an argument is out of range, or the model outputs NaN.
    """
    if not MIN_TEMPERATURE <= _check_number(temperature, "temperature", whole=False) < inf:
        raise UserError(f"temperature must be finite and at least {MIN_TEMPERATURE:g}; got {temperature}")
    if top_k is not None and _check_number(top_k, "top_k") < 1:
        raise UserError(f"top_k must be at least 1; got {top_k}")
    if not 0 < _check_number(top_p, "top_p", whole=False) <= 1:
        raise UserError(f"top_p must be greater than 0 and at most 1; got {top_p}")

    def draw(logits: Tensor) -> Tensor:
        sorted_logits, sorted_tokens = (logits / temperature).sort(dim=-1, descending=True)
        probabilities = sorted_logits[:, :top_k].softmax(-1)
        if top_p < 1:  # with 1, rounding errors in the sum would drop the least probable tokens
            sum_before = probabilities.cumsum(-1) - probabilities  # of all tokens that are more probable
            probabilities = probabilities.masked_fill(sum_before >= top_p, 0.0)
        # The Gumbel-max trick in its exponential form: with e exponentially distributed, p / e is largest at each token
        # with probability p. torch.multinomial does the same, but waits for the GPU to check the probabilities.
        exponentials = torch.empty_like(probabilities).exponential_(generator=generator)
        drawn = (probabilities / exponentials).argmax(-1, keepdim=True)
        return sorted_tokens.gather(1, drawn)[:, 0]

    return _generate(model, source, draw, max_new_tokens)


@torch.inference_mode()
def _generate(
    model: Transformer, source: Tensor, choose: Callable[[Tensor], Tensor], max_new_tokens: int | None
) -> list[list[int]]:
    """Generate one token after another until every sentence has ended.

    Args:
        choose: picks each row's next token from its logits, (sentences, vocab_size) → (sentences,).
    """
    limits = length_limits(model, source, max_new_tokens)
    if not len(source):
        return []
    memory, memory_mask = model.encode(source)
    cache = model.start_cache(memory, memory_mask, int(limits.max()))
    translations: list[list[int]] = [[] for _ in source]
    sentences = list(range(len(source)))  # rows of the source that have not ended
    tokens = source.new_full((len(source),), BOS)
    while sentences:
        at_limit = limits == cache.length + 1
        logits = model.decode_step(tokens[:, None], cache)[:, 0]
        is_nan = logits.amax(-1).isnan()
        logits[:, PAD] = logits[:, BOS] = -torch.inf  # never generated
        tokens = choose(logits).masked_fill(at_limit, EOS).where(~is_nan, -1)
        del logits  # the next step's logits can use the same memory
        chosen = tokens.tolist()  # the only read from the device in a step
        if -1 in chosen:
            raise UserError(NAN_MESSAGE)
        for sentence, token in zip(sentences, chosen, strict=True):
            if token != EOS:
                translations[sentence].append(token)
        active_rows = [row for row, token in enumerate(chosen) if token != EOS]
        if len(active_rows) < len(sentences):
            sentences = [sentences[row] for row in active_rows]
            rows = torch.tensor(active_rows, dtype=torch.int64, device=source.device)
            tokens, limits = tokens[rows], limits[rows]
            cache.select(rows)
    return translations


def check_search(beam_size: int, length_penalty: float, n_best: int = 1, max_new_tokens: int | None = None) -> None:
    """Check the arguments of `beam_search` that do not depend on the model, to report an error before it is loaded.

    Raises:
        UserError: if one is out of range.
    """
    if _check_number(beam_size, "beam_size") < 1:
        raise UserError(f"beam_size must be at least 1; got {beam_size}")
    if not 1 <= _check_number(n_best, "n_best") <= beam_size:
        raise UserError(f"n_best must be from 1 to beam_size; got n_best={n_best}, beam_size={beam_size}")
    if not 0 <= _check_number(length_penalty, "length_penalty", whole=False) <= MAX_LENGTH_PENALTY:
        raise UserError(f"length_penalty must be from 0 to {MAX_LENGTH_PENALTY}; got {length_penalty}")
    check_max_new_tokens(max_new_tokens)


@torch.inference_mode()
def beam_search(
    model: Transformer,
    source: Tensor,
    beam_size: int = 4,
    length_penalty: float = 0.6,
    n_best: int = 1,
    trace: list[Candidate] | None = None,
    max_new_tokens: int | None = None,
) -> list[list[Hypothesis]]:
    """Keep the ``beam_size`` most probable prefixes at every step, and return the best finished translations.

    Among the candidates for the next step, an eos that ranks among the ``beam_size`` best finishes its hypothesis, and
    the best candidates that are not an eos become the next prefixes. The search of a sentence stops when no prefix,
    however it continues, can still be among its ``n_best`` best hypotheses: stopping early never changes the result.

    Args:
        model: a model in eval mode.
        source: token ids, (batch, source), int64; padding at the end.
        beam_size: number of prefixes kept for each sentence.
        length_penalty: exponent of the length normalisation; 0 ranks by log-probability alone.
        n_best: number of hypotheses to return for each sentence, at most ``beam_size``.
        trace: a list to which the best candidates of each step, at most 2 · beam_size, are appended, to inspect or
            draw the search.
        max_new_tokens: maximum number of tokens to generate per sentence, including eos, which is forced at the
            limit. None: the source's length + 50.

    Returns:
        For each sentence its ``n_best`` hypotheses, best first; fewer if fewer were finished before the limit.

    Raises:
        UserError: if an argument is out of range, or the model outputs NaN.
    """
    check_search(beam_size, length_penalty, n_best)
    limits = length_limits(model, source, max_new_tokens)
    if not len(source):
        return []
    memory, memory_mask = model.encode(source)
    end = int(limits.max())
    cache = model.start_cache(memory, memory_mask, end, beams=beam_size)
    tokens = source.new_full((len(source), beam_size), BOS)  # the newest of each prefix
    log_probabilities = memory.new_full((len(source), beam_size), -torch.inf, dtype=torch.float32)
    log_probabilities[:, 0] = 0.0  # all prefixes are equal at first, so only one of them may be extended

    # The device computes the candidates of each step; which of them continue is decided on the host, by NumPy.
    sentence_limits = limits.tolist()
    sentences = np.arange(len(source))  # rows of the source whose search has not stopped
    prefixes = np.full((len(source), beam_size, 1), BOS)  # (sentences, beams, length)
    finished: list[list[Hypothesis]] = [[] for _ in source]

    for length in range(1, end + 1):
        logits = model.decode_step(tokens, cache)
        # Each prefix has one eos, so beam_size of the 2 · beam_size best candidates are certain to continue. These are
        # among the 2 · beam_size best of each prefix.
        next_log_probs, next_tokens = _best_tokens(logits, 2 * beam_size, limits == length)
        del logits  # the next step's logits can use the same memory
        totals = log_probabilities[:, :, None] + next_log_probs  # (sentences, beams, candidates)
        best, indices = totals.flatten(1).topk(2 * beam_size)
        step = _Step.read(best, indices // next_log_probs.size(-1), next_tokens.flatten(1).gather(1, indices))

        if np.isnan(step.log_probabilities).any():
            raise UserError(NAN_MESSAGE)
        for row, column in zip(*step.finished(beam_size).nonzero(), strict=True):
            log_probability = float(step.log_probabilities[row, column])
            ids = prefixes[row, step.parents[row, column], 1:].tolist()
            score = log_probability / length_normalization(length, length_penalty)
            finished[sentences[row]].append(Hypothesis(ids, log_probability, score))
        if trace is not None:
            trace.extend(_candidates(sentences, length, length_penalty, step, beam_size))
        step = step.kept(beam_size)
        prefixes = np.take_along_axis(prefixes, step.parents[:, :, None], axis=1)
        prefixes = np.concatenate([prefixes, step.tokens[:, :, None]], axis=2)

        best_alive = step.log_probabilities.max(axis=-1).tolist()
        active_rows = [
            row
            for row, sentence in enumerate(sentences)
            if not _is_done(finished[sentence], best_alive[row], sentence_limits[sentence], length_penalty, n_best)
        ]
        if not active_rows:
            break
        arrays = (step.tokens, step.log_probabilities, step.parents)
        tokens, log_probabilities, parents = (torch.from_numpy(array).to(source.device) for array in arrays)
        cache.reorder(parents)
        if len(active_rows) < len(sentences):
            sentences, prefixes = sentences[active_rows], prefixes[active_rows]
            rows = torch.tensor(active_rows, device=source.device)
            tokens, log_probabilities, limits = tokens[rows], log_probabilities[rows], limits[rows]
            cache.select(rows)
    return [sorted(hypotheses, key=lambda h: -h.score)[:n_best] for hypotheses in finished]


@dataclass(frozen=True)
class _Step:
    """The candidates of one step of beam search, best first: arrays on the host, (sentences, candidates)."""

    log_probabilities: NDArray[np.float32]
    """Summed over the prefix and the new token."""
    parents: NDArray[np.int64]
    """Which beam each candidate extends."""
    tokens: NDArray[np.int64]

    @classmethod
    def read(cls, log_probabilities: Tensor, parents: Tensor, tokens: Tensor) -> "_Step":
        """Copy a step from the device, all at once, because each copy waits for the device."""
        arrays = torch.stack([log_probabilities, parents.float(), tokens.float()]).cpu()  # ids < 2²⁴ stay exact
        log_probabilities, parents, tokens = arrays
        return cls(log_probabilities.numpy(), parents.long().numpy(), tokens.long().numpy())

    def finished(self, beam_size: int) -> NDArray[np.bool_]:
        """Return which candidates finish their hypothesis: an eos among the ``beam_size`` best."""
        finished = (self.tokens == EOS) & np.isfinite(self.log_probabilities)
        finished[:, beam_size:] = False
        return finished

    def kept_columns(self, beam_size: int) -> NDArray[np.int64]:
        """Return the columns of the best candidates that are not an eos; if there are too few, those of eos follow."""
        return np.argsort(self.tokens == EOS, axis=1, kind="stable")[:, :beam_size]  # moves each eos to the end

    def kept(self, beam_size: int) -> "_Step":
        """Return the candidates that become the next prefixes, with log-probability -inf where there are too few."""
        columns = self.kept_columns(beam_size)
        tokens = np.take_along_axis(self.tokens, columns, axis=1)
        log_probabilities = np.take_along_axis(self.log_probabilities, columns, axis=1)
        log_probabilities[tokens == EOS] = -np.inf
        return _Step(log_probabilities, np.take_along_axis(self.parents, columns, axis=1), tokens)


def _candidates(
    sentences: NDArray[np.int64], length: int, length_penalty: float, step: _Step, beam_size: int
) -> Iterator[Candidate]:
    """Describe all candidates of one step for the trace, best first."""
    finished, kept_columns = step.finished(beam_size), step.kept_columns(beam_size)
    for row, sentence in enumerate(sentences):
        beams = {int(column): beam for beam, column in enumerate(kept_columns[row]) if step.tokens[row, column] != EOS}
        for column in np.isfinite(step.log_probabilities[row]).nonzero()[0]:
            beam = beams.get(int(column))
            log_probability = float(step.log_probabilities[row, column])
            yield Candidate(
                sentence=int(sentence),
                length=length,
                parent=int(step.parents[row, column]),
                token=int(step.tokens[row, column]),
                log_probability=log_probability,
                score=log_probability / length_normalization(length, length_penalty),
                fate="finished" if finished[row, column] else "dropped" if beam is None else "kept",
                beam=beam,
            )


def _best_tokens(logits: Tensor, count: int, at_limit: Tensor) -> tuple[Tensor, Tensor]:
    """Return the most probable next tokens; never pad or bos, and only eos where the limit is reached.

    Args:
        logits: (sentences, beams, vocab_size), float32; may be overwritten.
        at_limit: whether a sentence has reached its limit, (sentences,), bool.

    Returns:
        Log-probabilities and token ids, both (sentences, beams, count + 2), or fewer if the vocabulary is small. They
        are the ``count`` best, best first, and two more, because pad and bos may be among them. Those two keep
        their places, with -inf.
    """
    # In place on a CPU, because allocating a second tensor of this size takes longer than the log-softmax itself.
    log_probs = torch.log_softmax(logits, -1, out=logits if logits.is_cpu else None)
    best, tokens = _topk_by_columns(log_probs, min(count + 2, log_probs.size(-1)))
    best.masked_fill_((tokens == PAD) | (tokens == BOS), -torch.inf)
    only_eos = torch.full_like(best, -torch.inf)
    only_eos[..., 0] = log_probs[..., EOS]
    at_limit = at_limit[:, None, None]
    return torch.where(at_limit, only_eos, best), tokens.masked_fill(at_limit, EOS)


def _topk_by_columns(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Like ``logits.topk(count)``, but about three times as fast on a CPU; the order of equal logits may differ.

    With the logits arranged as a table of 8 rows, the best tokens can only be in the columns with the highest maxima.
    """
    if logits.size(-1) % 8 or logits.size(-1) < 8 * count:
        return logits.topk(count)
    table = logits.unflatten(-1, (8, -1))  # (..., rows, columns)
    columns = table.amax(-2).topk(count).indices
    row_starts = torch.arange(8, device=logits.device) * table.size(-1)
    tokens = (columns[..., None] + row_starts).flatten(-2)  # (..., count · 8)
    values, indices = logits.gather(-1, tokens).topk(count)
    return values, tokens.gather(-1, indices)


def _is_done(finished: list[Hypothesis], best_alive: float, limit: int, length_penalty: float, n_best: int) -> bool:
    """Return whether no prefix of a sentence can still be among its ``n_best`` best hypotheses.

    A log-probability only falls with further tokens, and the length normalisation is largest at the limit. So
    ``best_alive``, divided by that, is the best score that any prefix can still reach.
    """
    if best_alive == -torch.inf:
        return True
    if len(finished) < n_best:
        return False
    worst_of_n_best = sorted(h.score for h in finished)[-n_best]
    return best_alive / length_normalization(limit, length_penalty) <= worst_of_n_best
