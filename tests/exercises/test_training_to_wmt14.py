"""What learners write in the notebooks 11 to 17, and by which name their mistakes are called."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from exercises.bugs import _body, _compile
from exercises.checks import gpu_performance as gpu
from exercises.checks import wmt14
from exercises.checks.two_mistakes import ExerciseWithPairs
from tests.exercises.test_checks import TOPICS, message


def said(name: str, answer: Any) -> list[str]:
    """The lines of the message, without the name of the blank."""
    return message(name, answer).removeprefix(f"✗ {name}: ").splitlines()


# 11 training ----------------------------------------------------------------------------------------------------------

Parts = list[tuple[Tensor, Tensor]]


def sum_of_losses(states: Tensor, weight: Tensor, expected: Tensor, pad_id: int) -> Tensor:
    return F.cross_entropy(states @ weight.T, expected, ignore_index=pad_id, reduction="sum")


def n_real(parts: Parts, pad_id: int) -> int:
    return sum(int((expected != pad_id).sum()) for _, expected in parts)


def gradient_at_once(weight: Tensor, parts: Parts, pad_id: int) -> Tensor:
    states, expected = (torch.cat(column) for column in zip(*parts, strict=True))
    weight = weight.detach().requires_grad_()
    return torch.autograd.grad(F.cross_entropy(states @ weight.T, expected, ignore_index=pad_id), weight)[0]


def gradient_at_once_by_hand(weight: Tensor, parts: Parts, pad_id: int) -> Tensor:
    states, expected = (torch.cat(column) for column in zip(*parts, strict=True))
    real = expected != pad_id
    error = (states @ weight.T).softmax(-1) - F.one_hot(expected, len(weight))
    return error[real].T @ states[real] / real.sum()


def one_backward_for_all(weight: Tensor, parts: Parts, pad_id: int) -> Tensor | None:
    weight = weight.detach().requires_grad_()
    total = sum(sum_of_losses(states, weight, expected, pad_id) for states, expected in parts)
    (total / n_real(parts, pad_id)).backward()
    return weight.grad


def all_logits_in_a_list(weight: Tensor, parts: Parts, pad_id: int) -> Tensor:
    errors = [(s @ weight.T).softmax(-1) - F.one_hot(y, len(weight)) for s, y in parts]
    kept = [(y != pad_id)[:, None] for _, y in parts]
    products = [(e * real).T @ s for e, real, (s, _) in zip(errors, kept, parts, strict=True)]
    return torch.stack(products).sum(0) / n_real(parts, pad_id)


@pytest.mark.parametrize(
    ("answer", "how"),
    [
        (gradient_at_once, "makes a table of shape (18, 13), with the logits of several parts in one."),
        (gradient_at_once_by_hand, "makes a table of shape (18, 13), with the logits of several parts in one."),
        (one_backward_for_all, "still has the logits of all parts at the end: in a list, or because PyTorch keeps"),
        (all_logits_in_a_list, "still has the logits of all parts at the end: in a list, or because PyTorch keeps"),
    ],
)
def test_parts_are_processed_one_after_the_other(answer: Any, how: str) -> None:
    lines = said("accumulated_gradient", answer)
    assert lines[0] == "the logits of all parts at once"
    assert lines[1].startswith(f"The gradient is right, but your code {how}")


def one_by_one(weight: Tensor, parts: Parts, pad_id: int) -> Tensor | None:
    weight = weight.detach().requires_grad_()
    for states, expected in parts:
        logits = states @ weight.T
        log_probs = logits.log_softmax(-1)
        loss = F.nll_loss(log_probs, expected, ignore_index=pad_id, reduction="sum") / n_real(parts, pad_id)
        loss.backward(retain_graph=True)
    return weight.grad


def gradients_in_a_list(weight: Tensor, parts: Parts, pad_id: int) -> Tensor:
    weight = weight.detach().requires_grad_()
    found = [torch.autograd.grad(sum_of_losses(states, weight, y, pad_id), weight)[0] for states, y in parts]
    return torch.stack(found).sum(0) / n_real(parts, pad_id)


def by_real_tokens(weight: Tensor, parts: Parts, pad_id: int) -> Tensor:
    total = torch.zeros_like(weight)
    for states, expected in parts:
        real = expected != pad_id
        states, expected = states[real], expected[real]
        logits = states @ weight.T
        e = (logits - logits.amax(-1, keepdim=True)).exp()
        p = e / e.sum(-1, keepdim=True)
        p[torch.arange(len(p)), expected] -= 1
        total += p.T @ states
    return total / n_real(parts, pad_id)


@pytest.mark.parametrize("answer", [one_by_one, gradients_in_a_list, by_real_tokens])
def test_variables_may_keep_the_last_part(answer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    TOPICS["training"].check("accumulated_gradient", answer)
    TOPICS["training"].given.answers.clear()
    assert capsys.readouterr().out.startswith("✓ accumulated_gradient\n")


def clip_by_torch(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    parameters = [nn.Parameter(torch.zeros_like(gradient)) for gradient in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    nn.utils.clip_grad_norm_(parameters, max_norm)
    return [parameter.grad for parameter in parameters]  # type: ignore[misc]


def adam_by_torch(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Any:
    parameter = nn.Parameter(weight.clone())
    parameter.grad = gradient.clone()
    optimizer = torch.optim.Adam([parameter], lr=rate, betas=(0.9, 0.98), eps=1e-9)
    optimizer.state[parameter] = {"step": torch.tensor(step - 1.0), "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
    optimizer.step()
    state = optimizer.state[parameter]
    return parameter.detach(), state["exp_avg"], state["exp_avg_sq"]


def test_pytorchs_clipping_and_adam_are_refused() -> None:
    assert said("clip_by_norm", clip_by_torch) == [
        "a ready-made function",
        "Your code calls PyTorch's clipping. In this exercise you write it yourself: a norm, and a factor.",
    ]
    assert said("adam_step", adam_by_torch) == [
        "a ready-made function",
        "Your code calls one of PyTorch's optimisers. In this exercise you write the step of Adam yourself.",
    ]


def running_total(mean: bool, share: Callable[[Parts, int], float]) -> Any:
    def answer(weight: Tensor, parts: Parts, pad_id: int) -> Tensor | None:
        weight = weight.detach().requires_grad_()
        total: Any = 0
        for states, y in parts:
            how = "mean" if mean else "sum"
            loss = F.cross_entropy(states @ weight.T, y, ignore_index=pad_id, reduction=how)
            total = total + loss / share(parts, pad_id)
            total.backward(retain_graph=True)
        return weight.grad

    return answer


def scaled_always(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    return [gradient * (max_norm / (norm + 1e-6)) for gradient in gradients]


def adam_with_powers(weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, step: int, rate: float) -> Any:
    m, v = 0.9 * m + 0.1 * gradient, 0.98 * v + 0.02 * gradient**2
    m_hat, v_hat = m / (1 - 0.9) ** step, v / (1 - 0.98) ** step
    return weight - rate * m_hat / (v_hat.sqrt() + 1e-9), m, v


def rate_of_two_pieces(step: int, d_model: int, warmup_steps: int) -> float:
    if step <= warmup_steps:
        return d_model**-0.5 * step * warmup_steps**-1.5
    return d_model**-0.5 * (step - warmup_steps) ** -0.5


def loss_with(log_p: Callable[[Tensor, Tensor], Tensor]) -> Any:
    """``log_p`` takes logits and labels, and returns their log-probabilities; padding is multiplied by 0."""

    def answer(logits: Tensor, expected: Tensor, pad_id: int) -> Tensor:
        real = expected != pad_id
        return -(log_p(logits, expected) * real).sum() / real.sum()

    return answer


def shifted_loss(loss: Any) -> Any:
    return lambda logits, ids, pad_id: loss(logits[:, :-1], ids[:, 1:], pad_id)


def by_softmax(logits: Tensor, labels: Tensor) -> Tensor:
    return logits.softmax(-1).log().gather(-1, labels[..., None])[..., 0]


def by_exponentials(logits: Tensor, labels: Tensor) -> Tensor:
    e = logits.exp()
    return (e / e.sum(-1, keepdim=True)).log().gather(-1, labels[..., None])[..., 0]


@pytest.mark.parametrize(
    ("name", "answer", "title"),
    [
        ("learning_rate", rate_of_two_pieces, "the decay counted from the end of the warm-up"),
        ("learning_rate", lambda n, d, w: d**-0.5 * min(max(n - w, 1) ** -0.5, n * w**-1.5),
         "the smaller one, with the decay counted from the end of the warm-up"),
        ("learning_rate", lambda n, d, w: d**-0.5 * min(n**-0.5, (n - 1) * w**-1.5),
         "one step behind in the warm-up"),
        ("learning_rate", lambda n, d, w: d**-0.5 * min(n**-0.5, (n + 1) * w**-1.5), "one step ahead in the warm-up"),
        ("batch_loss", loss_with(by_softmax), "NaN for large logits"),
        ("batch_loss", loss_with(by_exponentials), "NaN for large logits"),
        ("causal_lm_loss", shifted_loss(loss_with(by_softmax)), "NaN for large logits"),
        ("causal_lm_loss", shifted_loss(loss_with(by_exponentials)), "NaN for large logits"),
        ("accumulated_gradient", running_total(False, n_real), "early parts counted repeatedly"),
        ("accumulated_gradient", running_total(True, lambda *_: 1),
         "early parts counted repeatedly, each averaged by itself"),
        ("accumulated_gradient", running_total(True, lambda parts, _: len(parts)),
         "early parts counted repeatedly, each averaged by itself, and over the parts"),
        ("clip_by_norm", scaled_always, "short gradients scaled up, except zeros"),
        ("adam_step", adam_with_powers, "the whole of 1 - β to the power of the step"),
    ],
)  # fmt: skip
def test_mistakes_in_training(name: str, answer: Any, title: str) -> None:
    assert said(name, answer)[0] == title


@pytest.mark.parametrize("name", ["batch_loss", "causal_lm_loss"])
def test_the_logarithm_of_a_softmax_is_told_by_its_name(name: str) -> None:
    for mistake in TOPICS["training" if name == "batch_loss" else "transformer_family"].exercises[name].mistakes:
        if mistake.title in ("the logarithm of zero", "NaN for large logits"):
            assert "`log_softmax`" in mistake.hint


CLEAR, STEP = "        optimizer.zero_grad()\n", "        optimizer.step()"
CLIP = "        nn.utils.clip_grad_norm_(model.parameters(), max_norm)"
TRAIN, APPEND = "    model.train()\n", "        losses.append(F.cross_entropy(model(states), expected).item())"


@pytest.mark.parametrize(
    ("moved", "to", "title"),
    [
        (CLEAR, CLEAR + STEP, "the model never changes"),
        (CLEAR, "", "only the first step is right"),
        (CLIP, "", "1 of 3 bugs left: some steps are too long"),
        (CLIP, f"{STEP}\n{CLIP}", "1 of 3 bugs left: some steps are too long"),
        (TRAIN, f"{APPEND}\n{TRAIN}", "the first epoch in another mode"),
        ("    model.eval()\n", "", "validated in training mode"),
        (CLEAR, f"{STEP}\n{CLEAR}", "✓"),
    ],
)
def test_wrong_repairs_of_a_training_loop_are_told(moved: str, to: str, title: str) -> None:
    exercise = TOPICS["training"].exercises["train_and_validate"]
    body = _body(exercise.reference).replace(moved, "")
    place = next((line for line in (STEP, APPEND) if line in to), None)
    body = body.replace(place, to) if place else body
    judged = exercise.judge(_compile(exercise.reference, body))
    assert (judged or "✓").splitlines()[0] == title


# 12 decoding ----------------------------------------------------------------------------------------------------------

Hypothesis = tuple[float, list[int]]


def normalised(hypothesis: Hypothesis, alpha: float) -> float:
    return hypothesis[0] / ((5 + len(hypothesis[1]) - 1) / 6) ** alpha


def finished_in_beam(cut_by_score: bool, all_can_win: bool) -> Any:
    def answer(model: Any, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
        beams: list[Hypothesis] = [(0.0, [bos])]
        for _ in range(steps):
            candidates = []
            for score, tokens in beams:
                if tokens[-1] == eos:
                    candidates.append((score, tokens))
                    continue
                for token, log_p in enumerate(model(tokens).tolist()):
                    candidates.append((score + log_p, [*tokens, token]))
            alpha = length_penalty if cut_by_score else 0.0
            beams = sorted(candidates, key=lambda c: normalised(c, alpha), reverse=True)[:beam_size]
        ended = beams if all_can_win else [beam for beam in beams if beam[1][-1] == eos]
        tokens = max(ended, key=lambda c: normalised(c, length_penalty))[1]
        return tokens[1:-1] if tokens[-1] == eos else tokens[1:]

    return answer


def one_step_short(model: Any, bos: int, eos: int, beam_size: int, length_penalty: float, steps: int) -> list[int]:
    active: list[Hypothesis] = [(0.0, [bos])]
    finished: list[Hypothesis] = []
    for _ in range(steps - 1):
        candidates = [
            (score + log_p, [*tokens, token])
            for score, tokens in active
            for token, log_p in enumerate(model(tokens).tolist())
        ]
        candidates = sorted(candidates, reverse=True)[: 2 * beam_size]
        finished += [c for c in candidates[:beam_size] if c[1][-1] == eos]
        active = [c for c in candidates if c[1][-1] != eos][:beam_size]
    return max(finished, key=lambda c: normalised(c, length_penalty))[1][1:-1]


def repaired(
    is_over: Callable[[Tensor, int], Any] = lambda tokens, eos: (tokens == eos).any(1).all(),
    early: bool = False,
) -> Any:
    """The search of the blank with bugs to find; ``early``: a sentence counts as ended in the step of its eos."""

    def answer(model: Any, sources: Tensor, bos: int, eos: int, pad: int, limit: int) -> tuple[Tensor, Tensor]:
        tokens, scores = torch.full((len(sources), 1), bos), torch.zeros(len(sources))
        ended = torch.zeros(len(sources), dtype=torch.bool)
        while tokens.size(1) <= limit and not is_over(tokens, eos):
            values, newest = model(sources, tokens).max(-1)
            newest = newest.masked_fill(ended, pad)
            after = ended | (newest == eos)
            scores = scores + values.masked_fill(after if early else ended, 0)
            tokens, ended = torch.cat([tokens, newest[:, None]], 1), after
        return tokens[:, 1:], scores

    return answer


def sorted_out(finishes: Callable[[int, int, int], bool], limit: Callable[[int], int]) -> Any:
    """``finishes`` takes the rank of an eos, the number of those before it, and the beam size."""

    def answer(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
        finished: list[int] = []
        active: list[int] = []
        for index, token in enumerate(tokens):
            if token == eos:
                finished += [index] if finishes(index, len(finished), beam_size) else []
            elif len(active) < limit(beam_size):
                active.append(index)
        return finished, active

    return answer


def until_the_beam_is_full(tokens: list[int], eos: int, beam_size: int) -> tuple[list[int], list[int]]:
    finished: list[int] = []
    active: list[int] = []
    for index, token in enumerate(tokens):
        (finished if token == eos else active).append(index)
        if len(active) == beam_size:
            break
    return finished, active


def best_of_the_most_probable(hypotheses: list[Hypothesis], length_penalty: float, n: int) -> list[list[int]]:
    most_probable = sorted(hypotheses, reverse=True)[:n]
    ranked = sorted(most_probable, key=lambda h: normalised(h, length_penalty), reverse=True)
    return [tokens[1:-1] for _, tokens in ranked]


def best_tokens_first(sort: bool) -> Any:
    def answer(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
        values, indices = log_probs.flatten().topk(count)
        parents, tokens = indices // log_probs.size(1), indices % log_probs.size(1)
        values = values + scores[parents]
        order = values.argsort(descending=True) if sort else torch.arange(count)
        return values[order], parents[order], tokens[order]

    return answer


def best_tokens_of_each_beam(scores: Tensor, log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    values, tokens = log_probs.topk(min(len(scores), log_probs.size(1)))
    parents = torch.arange(len(scores))[:, None].expand_as(tokens)
    values, order = (scores[:, None] + values).flatten().topk(min(count, values.numel()))
    return values, parents.flatten()[order], tokens.flatten()[order]


@pytest.mark.parametrize(
    ("name", "answer", "title"),
    [
        ("beam_search", finished_in_beam(False, False), "finished hypotheses stay in the beam"),
        ("beam_search", finished_in_beam(False, True),
         "finished hypotheses stay in the beam, and unfinished ones can win"),
        ("beam_search", finished_in_beam(True, False),
         "finished hypotheses stay in the beam, which is cut by normalised score"),
        ("beam_search", one_step_short, "one step too few"),
        ("greedy_batch", repaired(is_over=lambda tokens, eos: (tokens[:, -1] == eos).any()),
         "it stops as soon as one sentence has ended"),
        ("greedy_batch", repaired(is_over=lambda tokens, eos: tokens[-1, -1] == eos),
         "it waits only for the last sentence of the batch"),
        ("greedy_batch", repaired(is_over=lambda tokens, eos: False), "it goes on after the last sentence has ended"),
        ("greedy_batch", repaired(is_over=lambda tokens, eos: tokens[0, -1] == eos),
         "1 of 3 bugs left: sentences are cut off"),
        ("greedy_batch", repaired(early=True), "the log-probability of eos is missing"),
        ("finished_and_active", sorted_out(lambda i, _, k: i < k, lambda k: k + 1), "one too many stays active"),
        ("finished_and_active", sorted_out(lambda i, _, k: i < k, lambda k: k - 1), "one too few stays active"),
        ("finished_and_active", sorted_out(lambda i, _, k: i <= k, lambda k: k + 1), "both limits one too large"),
        ("finished_and_active", sorted_out(lambda i, _, k: i < k - 1, lambda k: k - 1), "both limits one too small"),
        ("finished_and_active", sorted_out(lambda i, _, k: i >= k, lambda k: k),
         "only an eos further down finishes"),
        ("finished_and_active", sorted_out(lambda _, n, k: n < k, lambda k: k), "any eos finishes"),
        ("finished_and_active", until_the_beam_is_full, "an eos finishes until the beam is full"),
        ("n_best", best_of_the_most_probable, "cut by log-probability before it is ranked by score"),
        ("length_normalization", lambda n, a: 5 + n**a / 6, "only the length raised to the power"),
        ("length_normalization", lambda n, a: 5 + (n / 6) ** a, "5 added after the power"),
        ("length_normalization", lambda n, a: (5 + n**a) / 6, "only the length in the numerator raised to the power"),
        ("best_extensions", best_tokens_first(sort=False), "chosen before the scores are added"),
        ("best_extensions", best_tokens_first(sort=True),
         "chosen before the scores are added, and sorted afterwards"),
        ("best_extensions", best_tokens_of_each_beam, "as many tokens of each beam as there are beams"),
    ],
)  # fmt: skip
def test_mistakes_in_searches(name: str, answer: Any, title: str) -> None:
    assert said(name, answer)[0] == title


def test_the_rank_of_an_eos_decides_and_not_how_many_there_were() -> None:
    assert "its rank, not how many" in said("finished_and_active", sorted_out(lambda _, n, k: n < k, lambda k: k))[1]


# 13 evaluation --------------------------------------------------------------------------------------------------------

Words = list[list[str]]


def ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def penalty(c: int, r: int) -> float:
    return 0.0 if c == 0 else min(1.0, math.exp(1 - r / c))


def bleu_with(precision: Callable[[int, int], float], mean: Callable[[list[float]], float]) -> Any:
    def answer(hypotheses: Words, references: Words) -> float:
        precisions = []
        for n in (1, 2, 3, 4):
            pairs = [(ngrams(h, n), ngrams(r, n)) for h, r in zip(hypotheses, references, strict=True)]
            precisions.append(precision(sum((h & r).total() for h, r in pairs), sum(h.total() for h, _ in pairs)))
        return 100 * penalty(sum(map(len, hypotheses)), sum(map(len, references))) * mean(precisions)

    return answer


def by_logarithms(precisions: list[float]) -> float:
    return math.exp(sum(map(math.log, precisions)) / 4)


def geometric(precisions: list[float]) -> float:
    return math.prod(precisions) ** 0.25


def penalty_with_other_sign(c: int, r: int) -> float:
    if c == 0:
        return 0.0
    return 1.0 if c >= r else math.exp(r / c - 1)


def largest(references: Words, n: int) -> Counter[tuple[str, ...]]:
    counts = [ngrams(reference, n) for reference in references]
    return Counter({gram: max(count[gram] for count in counts) for gram in set().union(*counts)})


def matches_by_maximum(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    mine, there = ngrams(hypothesis, n), largest(references, n)
    return sum(max(mine[gram], there[gram]) for gram in mine), sum(mine.values())


def matches_by_maximum_of_the_references(hypothesis: list[str], references: Words, n: int) -> tuple[int, int]:
    mine, there = ngrams(hypothesis, n), largest(references, n)
    return sum(max(mine[gram], there[gram]) for gram in there), sum(mine.values())


def matches_of_the_chapter(hypothesis: list[str], reference: list[str], n: int) -> tuple[int, int]:
    count = TOPICS["evaluation"].given.ngram_counts
    matched = Counter(count(hypothesis, n)) & Counter(count(reference, n))
    return matched.total(), max(len(hypothesis) - n + 1, 0)


def chrf_of_words(skip: bool) -> Any:
    def answer(hypothesis: str, reference: str) -> float:
        h, r = hypothesis.split(), reference.split()
        found = []
        for n in range(1, 7):
            mine, there = ngrams(h, n), ngrams(r, n)
            matches = (mine & there).total()
            if (mine and there) or not skip:
                found.append((matches / max(1, mine.total()), matches / max(1, there.total())))
        p, r_ = (sum(column) / len(found) for column in zip(*found, strict=True))
        return 100 * 5 * p * r_ / (4 * p + r_) if p else 0.0

    return answer


@pytest.mark.parametrize(
    ("name", "answer", "title"),
    [
        ("corpus_bleu", bleu_with(lambda m, t: m / t if t else 0.0, lambda p: sum(p) / 4),
         "the arithmetic mean of the precisions"),
        ("corpus_bleu", bleu_with(lambda m, t: (m or 0.1) / max(t, 1), geometric),
         "smoothed: 0.1 in place of no matches"),
        ("corpus_bleu", bleu_with(lambda m, t: max(m, 1) / max(t, 1), geometric), "smoothed: 1 in place of no matches"),
        ("corpus_bleu", bleu_with(lambda m, t: max(m / max(t, 1), 1e-9), by_logarithms),
         "smoothed: 1e-09 in place of a precision of 0"),
        ("corpus_bleu", bleu_with(lambda m, t: m / max(t, 1) + 1e-10, by_logarithms),
         "smoothed: 1e-10 in place of a precision of 0"),
        ("brevity_penalty", penalty_with_other_sign, "the exponent has the wrong sign"),
        ("brevity_penalty", lambda c, r: math.exp(r / c - 1) if c else 0.0,
         "the exponent has the wrong sign, for all lengths"),
        ("brevity_penalty", lambda c, r: min(1.0, math.exp(r / c - 1)) if c else 0.0,
         "the exponent has the wrong sign, and the result is cut off at 1"),
        ("clipped_matches", matches_by_maximum, "the larger count, even for n-grams that don't match"),
        ("clipped_matches", matches_by_maximum_of_the_references,
         "the larger count, for every n-gram of the references"),
        ("clipped_matches", matches_of_the_chapter, "the hypothesis cut into characters"),
        ("corpus_bleu", lambda hypotheses, references: 100 * float(all(
            sum(TOPICS["evaluation"].given.clipped_matches(h, r, n)[0]
                for h, r in zip(hypotheses, references, strict=True)) for n in (1, 2, 3, 4))),
         "a reference where the list of references should be"),
        ("ngram_counts", lambda sentences, n: ngrams([word for words in sentences for word in words], n),
         "n-grams across the end of a sentence"),
        ("clipped_matches", lambda h, references, n: ((ngrams(h, n) & ngrams(references[0], n)).total(),
                                                      ngrams(h, n).total()), "only the first reference"),
        ("clipped_matches", lambda h, references, n: (
            (ngrams(h, n) & sum((ngrams(words, n) for words in references), Counter())).total(), ngrams(h, n).total()
        ), "the counts of the references added"),
        ("chrf", chrf_of_words(skip=True), "words instead of characters"),
        ("chrf", chrf_of_words(skip=False), "words instead of characters, and always divided by six"),
    ],
)  # fmt: skip
def test_mistakes_in_scores(name: str, answer: Any, title: str) -> None:
    assert said(name, answer)[0] == title


# 14 attention heads ---------------------------------------------------------------------------------------------------


def links_with(of_target: Callable[..., Tensor], of_source: Callable[..., Tensor]) -> Any:
    def answer(weights: Tensor, target_word: list[int], source_word: list[int]) -> tuple[Tensor, list[tuple[int, int]]]:
        weights = weights[: len(target_word), : len(source_word)]
        target, source = torch.tensor(target_word), torch.tensor(source_word)
        rows = torch.stack([of_target(weights[target == j], 0) for j in range(max(target_word) + 1)])
        words = torch.stack([of_source(rows[:, source == i], 1) for i in range(max(source_word) + 1)], 1)
        return words, [(int(i), j) for j, i in enumerate(words.argmax(1))]

    return answer


def last(x: Tensor, dim: int) -> Tensor:
    return x.select(dim, -1)


def without_heads(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    on = [h for h in range(heads.size(1)) if h not in off]
    return heads[:, on].transpose(1, 2).flatten(2) @ w_output + bias


def without_heads_and_rows(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
    on = [h for h in range(heads.size(1)) if h not in off]
    left = heads[:, on].transpose(1, 2).flatten(2)
    return left @ w_output[: left.size(-1)] + bias


def rows_off(rows: Callable[[int, int, int], slice]) -> Any:
    def answer(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
        w_output = w_output.clone()
        for h in off:
            w_output[rows(h, heads.size(1), heads.size(3))] = 0
        return heads.transpose(1, 2).flatten(2) @ w_output + bias

    return answer


def off_with(after: Callable[..., Tensor]) -> Any:
    """``after`` takes the product without the bias, the bias, the heads, and those that are off."""

    def answer(heads: Tensor, off: list[int], w_output: Tensor, bias: Tensor) -> Tensor:
        kept = heads.clone()
        kept[:, off] = 0
        return after(kept.transpose(1, 2).flatten(2) @ w_output, bias, heads, off)

    return answer


def bias_off(product: Tensor, bias: Tensor, heads: Tensor, off: list[int]) -> Tensor:
    return (
        product
        + torch.stack([bias.view(heads.size(1), -1)[h] * (h not in off) for h in range(heads.size(1))]).flatten()
    )


@pytest.mark.parametrize(
    ("name", "answer", "title"),
    [
        ("word_links", links_with(torch.amax, torch.amax),
         "target pieces reduced to the largest, and source pieces reduced to the largest"),
        ("word_links", links_with(torch.sum, torch.amax),
         "target pieces added, and source pieces reduced to the largest"),
        ("word_links", links_with(torch.amax, torch.mean),
         "target pieces reduced to the largest, and source pieces averaged"),
        ("word_links", links_with(last, last),
         "target pieces reduced to the last, and source pieces reduced to the last"),
        ("word_links", links_with(torch.mean, last), "only the last piece of a source word"),
        ("word_links", links_with(last, torch.sum), "only the last piece of a target word"),
        ("heads_off", without_heads, "the head removed instead of set to zero"),
        ("heads_off", without_heads_and_rows, "the first rows of the matrix for the heads that are left"),
        ("heads_off", rows_off(lambda h, n, d: slice(h, h + d)), "rows of the matrix that begin at the head's number"),
        ("heads_off", rows_off(lambda h, n, d: slice(h, None, n)),
         "rows of the matrix that alternate between the heads"),
        ("heads_off", rows_off(lambda h, n, d: slice(h * n, h * n + n)),
         "as many rows of the matrix as there are heads"),
        ("heads_off", off_with(lambda x, bias, heads, off: x + bias * (1 - len(off) / heads.size(1))),
         "the bias scaled by the share of the heads"),
        ("heads_off", off_with(bias_off), "a part of the bias set to zero"),
        ("heads_off", off_with(lambda x, bias, heads, off: (x + bias) / (1 - len(off) / heads.size(1))),
         "the output scaled up"),
        ("row_entropy", lambda w: torch.distributions.Categorical(w, validate_args=True).entropy() / math.log(2),
         "rows of zeros aren't probabilities"),
        ("row_entropy", lambda w: torch.distributions.Categorical(w, validate_args=True).entropy(),
         "rows of zeros aren't probabilities, and nats aren't bits"),
    ],
)  # fmt: skip
def test_mistakes_about_heads(name: str, answer: Any, title: str) -> None:
    assert said(name, answer)[0] == title


def test_an_error_is_recognised_whatever_the_print_options() -> None:
    def strict(weights: Tensor) -> Tensor:
        return torch.distributions.Categorical(weights, validate_args=True).entropy() / math.log(2)

    before = said("row_entropy", strict)
    torch.set_printoptions(precision=1)
    try:
        assert said("row_entropy", strict) == before
    finally:
        torch.set_printoptions(profile="default")
    assert before[0] == "rows of zeros aren't probabilities"


def test_pieces_of_words_are_not_only_in_the_middle() -> None:
    def rounded_where_there_are_pieces(weights: Tensor, target_word: list[int], source_word: list[int]) -> Any:
        words, links = links_with(torch.mean, torch.sum)(weights, target_word, source_word)
        several = torch.tensor([source_word.count(i) > 1 for i in range(words.size(1))])
        return torch.where(several, words.sin(), words), links

    text = said("word_links", rounded_where_there_are_pieces)
    assert not any("every second" in line or "first, third" in line for line in text)


# 15 transformer family ------------------------------------------------------------------------------------------------


def masked_with(up_to_15: bool, up_to_8: bool, up_to_9: bool, only_chosen: bool = True) -> Any:
    def answer(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> tuple[Tensor, Tensor]:
        chosen = (choice <= 0.15 if up_to_15 else choice < 0.15) & (ids > mask_id)
        is_mask = kind <= 0.8 if up_to_8 else kind < 0.8
        is_random = ~is_mask & (kind <= 0.9 if up_to_9 else kind < 0.9)
        of = chosen if only_chosen else torch.ones_like(chosen)
        return torch.where(of & is_mask, mask_id, torch.where(of & is_random, other, ids)), chosen

    return answer


Examples = list[tuple[str, str]]


def prompted_with(asked: Any, answered: Any, question: Any) -> Any:
    """Each takes a text, and returns its tokens."""

    def answer(next_token: Any, examples: Examples, new: str, max_new_tokens: int) -> str:
        prompt = [token for q, a in examples for token in (*asked(q), ":", *answered(a), ",")] + [*question(new), ":"]
        written: list[str] = []
        while len(written) < max_new_tokens and (token := next_token(prompt + written)) != ",":
            written.append(token)
        return " ".join(written)

    return answer


def whole(text: str) -> list[str]:
    return [text]


def comma_replaced(comma: str) -> Any:
    def answer(next_token: Any, examples: Examples, question: str, max_new_tokens: int) -> str:
        prompt = "".join(f"{q} : {a} , " for q, a in examples) + f"{question} :"
        written: list[str] = []
        while len(written) < max_new_tokens and "," not in written:
            written.append(next_token(prompt.split() + written))
        return " ".join(written).replace(comma, "").strip()

    return answer


def classified_by_slices(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x[:, real.sum(1) - 1] @ weight.T + bias


@pytest.mark.parametrize(
    ("name", "answer", "title"),
    [
        ("mask_tokens", masked_with(True, False, False), "exactly 0.15 in the wrong range"),
        ("mask_tokens", masked_with(False, True, False), "exactly 0.8 in the wrong range"),
        ("mask_tokens", masked_with(True, False, True), "exactly 0.15 and 0.9 in the wrong range"),
        ("mask_tokens", masked_with(False, True, True), "exactly 0.8 and 0.9 in the wrong range"),
        ("mask_tokens", masked_with(False, False, False, only_chosen=False), "all tokens replaced, chosen or not"),
        ("few_shot_answer", prompted_with(str.split, str.split, whole), "the new question not split into tokens"),
        ("few_shot_answer", prompted_with(whole, str.split, str.split),
         "the questions of the examples not split into tokens"),
        ("few_shot_answer", prompted_with(str.split, whole, str.split),
         "the answers of the examples not split into tokens"),
        ("few_shot_answer", prompted_with(whole, whole, str.split),
         "the sides of the examples not split into tokens"),
        ("few_shot_answer", comma_replaced(","), "every comma removed"),
        ("few_shot_answer", comma_replaced(" ,"), "every comma after a space removed"),
        ("classify", classified_by_slices, "the positions of all sentences, from each of them"),
    ],
)  # fmt: skip
def test_mistakes_in_the_family(name: str, answer: Any, title: str) -> None:
    assert said(name, answer)[0] == title


def test_the_first_sentences_to_classify_are_two() -> None:
    assert len(TOPICS["transformer_family"].exercises["classify"].inputs[0]["x"]) == 2


# 16 and 17: two mistakes at once --------------------------------------------------------------------------------------

PAIRS = [
    (exercise, *pair)
    for topic in ("gpu_performance", "wmt14")
    for exercise in TOPICS[topic].exercises.values()
    if isinstance(exercise, ExerciseWithPairs)
    for pair in exercise.pairs
]


def test_each_pair_of_mistakes_is_named_by_both() -> None:
    assert {exercise.name for exercise, *_ in PAIRS} == {"loss_scaling_step", "training_flop"}
    for exercise, first, second, answer in PAIRS:
        assert str(exercise.judge(answer)).splitlines() == [
            f"two mistakes: {first.title}; {second.title}",
            f"First: {first.hint}",
            f"Second: {second.hint}",
        ]


@pytest.mark.parametrize(
    ("name", "slips"), [("training_flop", wmt14._SLIPS), ("loss_scaling_step", gpu._SLIPS_OF_A_STEP)]
)
def test_each_of_the_two_mistakes_is_the_one_of_that_name(name: str, slips: dict[str, Any]) -> None:
    answer_with: Callable[[str], Any] = wmt14._flop_with if name == "training_flop" else gpu._step_with
    assert [said(name, answer_with(slip))[0] for slip in slips] == list(slips)


def flop_without_logits_or_backward(d_model: int, d_ff: int, n_layers: int, vocab_size: int, n: int, m: int) -> int:
    layer = 6 * d_model**2 + 2 * d_model * d_ff
    attention = 2 * d_model * (n * n + m * m + n * m)
    return 2 * n_layers * ((n + m) * layer + attention)


def scaled_without_division_or_reset(
    weight: Tensor, gradient: Tensor, learning_rate: float, scale: float, good: int, interval: int
) -> tuple[Tensor, float, int]:
    if not gradient.isfinite().all():
        return weight, scale / 2, good
    weight = weight - learning_rate * gradient.float()
    return (weight, scale * 2, 0) if good + 1 == interval else (weight, scale, good + 1)


def test_learners_make_two_mistakes_at_once() -> None:
    first, *hints = said("training_flop", flop_without_logits_or_backward)
    assert first == "two mistakes: only the forward pass; no output layer"
    assert [hint.split()[0] for hint in hints] == ["First:", "Second:"]
    first, *_ = said("loss_scaling_step", scaled_without_division_or_reset)
    assert first == "two mistakes: not unscaled; good steps not reset by an overflow"


def test_a_test_set_is_not_empty(capsys: pytest.CaptureFixture[str]) -> None:
    def by_columns(pairs: Any, test_pairs: Any) -> Any:
        sources, targets = (
            {" ".join(text.lower().split()) for text in column} for column in zip(*test_pairs, strict=True)
        )
        return [
            (source, target)
            for source, target in pairs
            if " ".join(source.lower().split()) not in sources and " ".join(target.lower().split()) not in targets
        ]

    TOPICS["wmt14"].check("without_test_sentences", by_columns)
    TOPICS["wmt14"].given.answers.clear()
    assert capsys.readouterr().out == "✓ without_test_sentences\n"
