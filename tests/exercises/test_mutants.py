"""Solutions with one change are wrong answers, and the checks have to notice."""

from pathlib import Path

import pytest

from exercises.notebooks import solution_sources
from tests.exercises.mutants import mutants, some, survivors

TEN = 10
EQUIVALENT_SECONDS = 30
"""The CPU time for an equivalent mutant: it ends by itself, and must not be rejected because the machine is slow."""

LAST_OF_TWO = "the tensor has two axes, so that 1 and -1 mean the same one"
LAST_OF_ONE = "the axis has length one, so that 0 and -1 mean the same entry"
FIRST_EPOCH = "the first epoch is better than infinity, and replaces what was there before"
STYLE = "colors and styles are up to the learner"
ANY_SEQUENCE = "what is read from it in order is the same, and it is not returned"

EQUIVALENT = {
    (
        "target_mask",
        "return given.padding_mask(pad_id, ids) & given.causal_mask(ids.size(1))",
    ): "the mask is pad_id != ids, and a comparison by != may be turned round",
    (
        "decoder_self_attention",
        "scores = x @ x.transpose(2, -1) / x.size(-1) ** 0.5",
    ): "the tensor has four axes, so that 2 and -2 mean the same one",
    ("decoder_self_attention", "scores = scores.masked_fill(~mask, -1000000001.0)"): "its exponential is 0 as well",
    ("decoder_self_attention", "scores = scores.masked_fill(~mask, -999999999.0)"): "its exponential is 0 as well",
    ("decoder_self_attention", "return (weights @ x)[:, -1]"): LAST_OF_ONE,
    (
        "frequencies",
        "return 9999.0 ** (-torch.arange(0, d_model, 2) / d_model)",
    ): "no frequency moves by more than 4e-6, which the check takes for rounding",
    (
        "frequencies",
        "return 10001.0 ** (-torch.arange(0, d_model, 2) / d_model)",
    ): "no frequency moves by more than 4e-6, which the check takes for rounding",
    (
        "self_attention",
        "scores = query @ key.transpose(2, -1) / d_head ** 0.5",
    ): "the keys have four axes, so that 2 and -2 mean the same one",
    ("shift", "b = k * given.frequencies(encoding.size(1))"): LAST_OF_TWO,
    ("learn", "words, counts = ([word for word in text], list(text.values()))"): ANY_SEQUENCE,
    ("learn", "words, counts = ([list(word) for word in text], text.values())"): ANY_SEQUENCE,
    ("cross_entropy", "return logits.logsumexp(dim=-1) - logits.gather(-1, target[:, None])[:, -1]"): LAST_OF_ONE,
    ("cross_entropy", "return logits.logsumexp(dim=1) - logits.gather(-1, target[:, None])[:, 0]"): LAST_OF_TWO,
    ("cross_entropy", "return logits.logsumexp(dim=-1) - logits.gather(1, target[:, None])[:, 0]"): LAST_OF_TWO,
    ("smoothed_loss", "return -(q * logits.log_softmax(dim=-1)).sum(dim=1)"): LAST_OF_TWO,
    ("smoothed_loss", "return -(q * logits.log_softmax(dim=1)).sum(dim=-1)"): LAST_OF_TWO,
    ("gradient", "return logits.softmax(dim=1) - q"): LAST_OF_TWO,
    ("batch_loss", "losses = -log_probs.gather(-1, expected[:, :, None])[:, :, -1]"): LAST_OF_ONE,
    (
        "batch_loss",
        "losses = -log_probs.gather(-1, expected[:, :, None])",
    ): "the axis of length one stays, and the mean over it and the tokens is the mean over the tokens",
    (
        "clip_by_norm",
        "norm = sum((gradient.square().sum() for gradient in gradients)) ** 0.5",
    ): "the norm is a tensor of no axes, which multiplies and compares as its number does",
    ("clip_by_norm", "if norm < max_norm:"): "where both are equal, the factor is one",
    ("average_checkpoints", "names = checkpoints[0]"): "a dict gives its keys when it is read in order",
    ("average_checkpoints", "names = checkpoints[-1].keys()"): "checkpoints of one model have the same names",
    ("beam_search", "return given.n_best(finished, length_penalty, 1)[-1]"): "of one hypothesis the last is the first",
    ("beam_search", "return given.n_best(finished, length_penalty, 2)[0]"): "the best of the best two is the best",
    ("greedy_batch", "values, newest = log_probs.max(dim=1)"): LAST_OF_TWO,
    ("brevity_penalty", "return math.exp(1 - r / c) if c <= r else 1.0"): "where both are equal, exp(0) is one",
    ("corpus_bleu", "for n in (2, 1, 3, 4):"): "the order of a product's factors does not matter",
    (
        "chrf",
        "hypothesis_characters, reference_characters = (hypothesis.replace(' ', ''), list(reference.replace(' ', '')))",
    ): ANY_SEQUENCE,
    (
        "chrf",
        "hypothesis_characters, reference_characters = (list(hypothesis.replace(' ', '')), reference.replace(' ', ''))",
    ): ANY_SEQUENCE,
    (
        "roofline",
        "return (flop / n_bytes, max(arithmetic, traffic), arithmetic >= traffic)",
    ): "when both take equally long, it is neither compute-bound nor memory-bound",
    ("update_softmax", "new_maximum = torch.maximum(maximum, scores.amax(dim=1))"): LAST_OF_TWO,
    ("update_softmax", "return (new_maximum, total * correction + exponentials.sum(dim=1))"): LAST_OF_TWO,
    (
        "mask_tokens",
        "masked = torch.where(chosen & (kind <= 0.8), mask_id, ids)",
    ): "where the number is exactly 0.8, the next line puts the random token",
    ("validation_loss", "total, count = (0, 0.0)"): "a sum has the same value as an int and as a float",
    ("fit", "best, best_epoch, best_weights = (math.inf, -1, None)"): FIRST_EPOCH,
    ("fit", "best, best_epoch, best_weights = (math.inf, 1, None)"): FIRST_EPOCH,
    (
        "bleu_score",
        "references += [decode([i for i in row if i not in (BOS, PAD, EOS)]) for row in target.tolist()]",
    ): "the order of what is left out does not matter",
    (
        "bleu_score",
        "references += [decode([i for i in row if i not in (PAD, BOS, EOS)]) for row in target]",
    ): "a row of a tensor gives its numbers one by one, as a list does",
    (
        "Transformer",
        "self.unembedding = nn.Linear(config.vocab_size, d, bias=False)",
    ): "the embedding's weight, which replaces its own, decides the shape",
    ("plot_attention", "axes.imshow(weights, vmin=0, vmax=1)"): "matplotlib makes an array of a tensor by itself",
    ("plot_losses", "axes.axvline(validation.index(min(validation)) + 1, linestyle=':')"): STYLE,
    ("plot_losses", "axes.axvline(validation.index(min(validation)) + 1, color='gray')"): STYLE,
}
"""Changes that survive, and why each is the same function still."""


@pytest.mark.parametrize("source", solution_sources(), ids=lambda source: source.stem)
def test_no_mutant_survives_that_is_not_explained(source: Path) -> None:
    of = mutants(source)
    tried = some(of, TEN, without=EQUIVALENT)
    assert len(tried) == TEN
    assert {mutant.blank for mutant in tried} == set(of), "they are spread over all blanks"
    left = [f"{mutant.blank}: {mutant.operator}\n{mutant.diff}" for mutant in survivors(source, tried)]
    assert not left, "give the check an input on which these differ from the solution:\n" + "\n".join(left)


def test_what_is_explained_exists_and_survives() -> None:
    alive = set()
    for source in solution_sources():
        explained = [m for blank in mutants(source).values() for m in blank if (m.blank, m.change) in EQUIVALENT]
        alive |= {(mutant.blank, mutant.change) for mutant in survivors(source, explained, EQUIVALENT_SECONDS)}
    assert set(EQUIVALENT) - alive == set()
