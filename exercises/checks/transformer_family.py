"""Checks of 15 the Transformer family: BERT, GPT, and public weights."""

import re
from collections.abc import Callable
from itertools import chain, combinations, takewhile
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from exercises.check import Topic
from exercises.errors import RefusedError
from exercises.tensors import numbers

topic = Topic()
check, given = topic.check, topic.given


# 1 --------------------------------------------------------------------------------------------------------------------

Masked = tuple[Tensor, Tensor]
"""The model's input, and where the loss is computed."""


@topic.exercise(
    {
        "ids": torch.tensor([[1, 9, 6, 7, 8, 5, 2]]),
        "choice": torch.tensor([[0.05, 0.10, 0.60, 0.02, 0.14, 0.30, 0.50]]),
        "kind": torch.tensor([[0.50, 0.40, 0.10, 0.85, 0.95, 0.83, 0.20]]),
        "other": torch.tensor([[4, 5, 8, 9, 6, 7, 4]]),
        "mask_id": 3,
    },
    {
        "ids": torch.tensor([[1, 7, 5, 4, 2], [1, 9, 2, 0, 0], [1, 3, 8, 6, 2]]),
        "choice": torch.tensor(
            [[0.01, 0.12, 0.90, 0.03, 0.40], [0.70, 0.11, 0.04, 0.09, 0.80], [0.20, 0.05, 0.02, 0.149, 0.01]]
        ),
        "kind": torch.tensor(
            [[0.30, 0.70, 0.90, 0.88, 0.10], [0.60, 0.97, 0.20, 0.82, 0.30], [0.81, 0.86, 0.79, 0.91, 0.10]]
        ),
        "other": torch.tensor([[5, 6, 7, 9, 4], [8, 4, 6, 5, 9], [6, 4, 7, 5, 8]]),
        "mask_id": 3,
    },
    {
        "ids": torch.tensor([[8, 5], [7, 9]]),
        "choice": torch.tensor([[0.10, 0.13], [0.05, 0.90]]),
        "kind": torch.tensor([[0.20, 0.89], [0.99, 0.50]]),
        "other": torch.tensor([[9, 7], [6, 8]]),
        "mask_id": 5,
    },
    {
        "ids": torch.tensor([[1, 8, 6, 9, 2]]),
        "choice": torch.tensor([[0.50, 0.15, 0.05, 0.60, 0.90]]),
        "kind": torch.tensor([[0.10, 0.30, 0.80, 0.80, 0.50]]),
        "other": torch.tensor([[7, 5, 4, 6, 9]]),
        "mask_id": 3,
    },
    {
        "ids": torch.tensor([[1, 7, 8, 6]]),
        "choice": torch.tensor([[0.50, 0.10, 0.12, 0.01]]),
        "kind": torch.tensor([[0.9, 0.9, 0.4, 0.85]], dtype=torch.float64),  # as a float32, 0.9 isn't the same number
        "other": torch.tensor([[4, 5, 9, 8]]),
        "mask_id": 3,
    },
    {
        "ids": torch.tensor([[7]]),
        "choice": torch.tensor([[0.10]]),
        "kind": torch.tensor([[0.40]]),
        "other": torch.tensor([[5]]),
        "mask_id": 3,
    },
    results=("masked", "chosen"),
    keep=("choice", "kind"),
)
def mask_tokens(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    """As in the chapter, with the random numbers given."""
    return _masked(ids, _chosen(ids, choice, mask_id), kind, other, mask_id)


def _chosen(ids: Tensor, choice: Tensor, mask_id: int) -> Tensor:
    return (choice < 0.15) & (ids > mask_id)


def _masked(ids: Tensor, chosen: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    masked = torch.where(chosen & (kind < 0.9), other, ids)
    return masked.masked_fill(chosen & (kind < 0.8), mask_id), chosen


@mask_tokens.mistake(
    "special tokens chosen as well",
    "You also choose special tokens such as <bos> and <pad>. Predicting them teaches the model nothing: choose words "
    "only.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    return _masked(ids, choice < 0.15, kind, other, mask_id)


@mask_tokens.mistake(
    "special tokens replaced",
    "The loss is computed in the right places, but your input hides special tokens such as <bos>, too. Replace only "
    "what is chosen.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    masked, _ = _masked(ids, choice < 0.15, kind, other, mask_id)
    return masked, _chosen(ids, choice, mask_id)


@mask_tokens.mistake(
    "[MASK] counted among the words",
    "You choose [MASK] as if it were a word. It is the last of the special tokens, which are never chosen.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    return _masked(ids, (choice < 0.15) & (ids >= mask_id), kind, other, mask_id)


@mask_tokens.mistake(
    "always [MASK]",
    "You replace every chosen token by [MASK]. One in ten should become a random token, and one in ten stay as it is: "
    "the numbers in `kind` decide.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    chosen = _chosen(ids, choice, mask_id)
    return ids.masked_fill(chosen, mask_id), chosen


@mask_tokens.mistake(
    "nothing stays as it is",
    "Every chosen token that doesn't become [MASK] becomes a random token in your result. From 0.9 on, it should stay "
    "as it is.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    chosen = _chosen(ids, choice, mask_id)
    return torch.where(chosen, other, ids).masked_fill(chosen & (kind < 0.8), mask_id), chosen


@mask_tokens.mistake(
    "[MASK] overwritten by random tokens",
    "First you put [MASK] in the right places, and then you overwrite it: your second condition, below 0.9, is also "
    "true for everything below 0.8.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    chosen = _chosen(ids, choice, mask_id)
    return torch.where(chosen & (kind < 0.9), other, ids), chosen


@mask_tokens.mistake(
    "no random tokens",
    "You never use `other`. A chosen token whose number in `kind` is from 0.8 to 0.9 becomes a random token.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    chosen = _chosen(ids, choice, mask_id)
    return ids.masked_fill(chosen & (kind < 0.8), mask_id), chosen


@mask_tokens.mistake(
    "tokens replaced that were not chosen",
    "You also replace tokens that were not chosen, so most of the sentence is hidden. Whatever happens to a token, it "
    "has to be chosen first.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    masked, _ = _masked(ids, ids > mask_id, kind, other, mask_id)
    return masked, _chosen(ids, choice, mask_id)


@mask_tokens.mistake(
    "the loss at [MASK] only",
    "Your input is right, but you compute the loss only where it has [MASK]. Chosen tokens count wherever they are: "
    "if they didn't, the model could neglect every position that isn't masked.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    chosen = _chosen(ids, choice, mask_id)
    return _masked(ids, chosen, kind, other, mask_id)[0], chosen & (kind < 0.8)


@mask_tokens.mistake(
    "the loss only where the input differs",
    "Your input is right, but you compute the loss only where it differs from the text. The chosen tokens that stay "
    "as they are count, too: they make the model look at words that are already right.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    masked, _ = _masked(ids, _chosen(ids, choice, mask_id), kind, other, mask_id)
    return masked, masked != ids


@mask_tokens.mistake(
    "the loss at all words",
    "Your input is right, but you compute the loss at every word. Most of them are visible in the input, so copying "
    "would be enough, and the loss would look far too good.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    return _masked(ids, _chosen(ids, choice, mask_id), kind, other, mask_id)[0], ids > mask_id


@mask_tokens.mistake(
    "85% chosen",
    "You choose the tokens whose number is above 0.15. That hides nearly everything, and leaves no context to predict "
    "it from.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    return _masked(ids, (choice >= 0.15) & (ids > mask_id), kind, other, mask_id)


@mask_tokens.mistake(
    "[MASK] and random tokens swapped",
    "Eight in ten chosen tokens become random ones in your result, and one in ten becomes [MASK]. It should be the "
    "other way round.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    chosen = _chosen(ids, choice, mask_id)
    masked = torch.where(chosen & (kind < 0.8), other, ids)
    return masked.masked_fill(chosen & (kind >= 0.8) & (kind < 0.9), mask_id), chosen


@mask_tokens.mistake(
    "random tokens where nothing was chosen",
    "You put random tokens wherever `kind` is in their range, even at positions that weren't chosen. Nothing changes "
    "there.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    masked, chosen = mask_tokens.reference(ids, choice, kind, other, mask_id)
    return torch.where((kind >= 0.8) & (kind < 0.9), other, masked), chosen


@mask_tokens.mistake(
    "[MASK] where nothing was chosen",
    "You put [MASK] wherever `kind` is below 0.8, even at positions that weren't chosen. Nothing changes there.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    chosen = _chosen(ids, choice, mask_id)
    masked = ids.masked_fill(kind < 0.8, mask_id)
    return torch.where(chosen & (kind >= 0.8) & (kind < 0.9), other, masked), chosen


@mask_tokens.mistake(
    "random and unchanged tokens swapped",
    "[MASK] is right, but then you put a random token where the token should stay, and leave the one that should "
    "become random. Which of the two begins at 0.9?",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    chosen = _chosen(ids, choice, mask_id)
    masked = torch.where(chosen & (kind >= 0.9), other, ids)
    return masked.masked_fill(chosen & (kind < 0.8), mask_id), chosen


@mask_tokens.mistake(
    "only [MASK] is never chosen",
    "You leave out only `mask_id` itself. All special tokens have ids up to it, and none of them is ever chosen.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    return _masked(ids, (choice < 0.15) & (ids != mask_id), kind, other, mask_id)


_EXACTLY = {
    0.15: "A number of `choice` that is exactly 0.15 isn't below 0.15: the token isn't chosen.",
    0.8: "A number of `kind` that is exactly 0.8 isn't below 0.8: the token becomes the random one.",
    0.9: "A number of `kind` that is exactly 0.9 isn't below 0.9: the token stays as it is.",
}

for _limits in chain.from_iterable(combinations(_EXACTLY, n) for n in (1, 2, 3)):
    _title = " and ".join([", ".join(map(str, _limits[:-1])), str(_limits[-1])]).removeprefix(" and ")

    @mask_tokens.mistake(f"exactly {_title} in the wrong range", " ".join(_EXACTLY[limit] for limit in _limits))
    def _(
        ids: Tensor,
        choice: Tensor,
        kind: Tensor,
        other: Tensor,
        mask_id: int,
        wrong: tuple[float, ...] = _limits,
    ) -> Masked:
        def is_below(x: Tensor, limit: float) -> Tensor:
            return x <= limit if limit in wrong else x < limit

        chosen = is_below(choice, 0.15) & (ids > mask_id)
        masked = torch.where(chosen & is_below(kind, 0.9), other, ids)
        return masked.masked_fill(chosen & is_below(kind, 0.8), mask_id), chosen


@mask_tokens.mistake(
    "all tokens replaced, chosen or not",
    "You also replace tokens that weren't chosen, even special ones. Whether a token becomes [MASK] or a random one, "
    "it has to be chosen: both conditions need that.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    masked, _ = _masked(ids, torch.ones_like(ids, dtype=torch.bool), kind, other, mask_id)
    return masked, _chosen(ids, choice, mask_id)


@mask_tokens.mistake(
    "exactly 0.8 in neither range",
    "A number that is exactly 0.8 falls between your two ranges, so the token stays as it is. It belongs to the second "
    "one.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    chosen = _chosen(ids, choice, mask_id)
    return torch.where(chosen & (kind == 0.8), ids, _masked(ids, chosen, kind, other, mask_id)[0]), chosen


@mask_tokens.mistake(
    "the loss wherever [MASK] is",
    "Your input is right, but you compute the loss wherever it has [MASK], even where the text had it before. Chosen "
    "tokens count, whatever they were replaced by.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    masked, _ = _masked(ids, _chosen(ids, choice, mask_id), kind, other, mask_id)
    return masked, masked == mask_id


@mask_tokens.mistake(
    "choice and kind swapped",
    "You choose tokens by `kind`, and replace them by `choice`. It is the numbers in `choice` that decide which tokens "
    "are chosen.",
)
def _(ids: Tensor, choice: Tensor, kind: Tensor, other: Tensor, mask_id: int) -> Masked:
    return mask_tokens.reference(ids, kind, choice, other, mask_id)


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"n_prefix": torch.tensor([2, 0]), "length": 4},
    {"n_prefix": torch.tensor([1, 4, 2]), "length": 4},
    {"n_prefix": torch.tensor([3]), "length": 5},
    {"n_prefix": torch.tensor([0, 1, 5, 6]), "length": 6},
    {"n_prefix": torch.tensor([0]), "length": 1},
)
def prefix_mask(n_prefix: Tensor, length: int) -> Tensor:
    """The causal mask, and all keys of the prefix."""
    causal, in_prefix = _causal_and_prefix(n_prefix, length)
    return (causal | in_prefix[:, None])[:, None]


def _causal_and_prefix(n_prefix: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """(length, length) and (batch, length)."""
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    return causal, torch.arange(length) < n_prefix[:, None]


@prefix_mask.mistake(
    "GPT's mask",
    "This is the causal mask: no query sees what comes later, not even within the prefix. Every query should see all "
    "of the prefix.",
)
def _(n_prefix: Tensor, length: int) -> Tensor:
    causal, in_prefix = _causal_and_prefix(n_prefix, length)
    return causal.expand(len(in_prefix), 1, length, length)


@prefix_mask.mistake(
    "BERT's mask",
    "Everything is allowed in your mask. After the prefix, the model could look up the next token instead of "
    "predicting it.",
)
def _(n_prefix: Tensor, length: int) -> Tensor:
    return torch.ones(len(n_prefix), 1, length, length, dtype=torch.bool)


@prefix_mask.mistake(
    "the prefix on the axis of the queries",
    "You let the queries of the prefix see everything, including what comes after it. It is the keys of the prefix "
    "that every query may see: the last axis.",
)
def _(n_prefix: Tensor, length: int) -> Tensor:
    causal, in_prefix = _causal_and_prefix(n_prefix, length)
    return (causal | in_prefix[:, :, None])[:, None]


@prefix_mask.mistake(
    "both conditions at once",
    "You allow a key only if it is in the prefix and not later than the query. One of the two is enough.",
)
def _(n_prefix: Tensor, length: int) -> Tensor:
    causal, in_prefix = _causal_and_prefix(n_prefix, length)
    return (causal & in_prefix[:, None])[:, None]


@prefix_mask.mistake(
    "the prefix only",
    "Every query sees the prefix and nothing else, as in cross-attention. What comes after the prefix should also see "
    "itself, and what was written before it.",
)
def _(n_prefix: Tensor, length: int) -> Tensor:
    _, in_prefix = _causal_and_prefix(n_prefix, length)
    return in_prefix[:, None, None].expand(-1, -1, length, -1)


@prefix_mask.mistake(
    "two separate texts",
    "What comes after the prefix doesn't see the prefix in your mask, so the model would write without having read "
    "anything.",
)
def _(n_prefix: Tensor, length: int) -> Tensor:
    causal, in_prefix = _causal_and_prefix(n_prefix, length)
    same_part = in_prefix[:, :, None] == in_prefix[:, None]
    return ((causal | in_prefix[:, None]) & same_part)[:, None]


@prefix_mask.mistake(
    "the prefix one token too long",
    "Your prefix has one token too many: positions are counted from 0, so a prefix of two tokens has the positions 0 "
    "and 1.",
)
def _(n_prefix: Tensor, length: int) -> Tensor:
    return prefix_mask.reference(n_prefix + 1, length)


@prefix_mask.mistake(
    "the prefix one token too short",
    "Your prefix has one token too few: positions are counted from 0, so a prefix of two tokens has the positions 0 "
    "and 1.",
)
def _(n_prefix: Tensor, length: int) -> Tensor:
    return prefix_mask.reference(n_prefix - 1, length)


@prefix_mask.mistake(
    "rows and columns swapped",
    "Your mask is transposed: queries after the prefix see what comes later, and not what was written before. Rows are "
    "queries, columns are keys.",
)
def _(n_prefix: Tensor, length: int) -> Tensor:
    return prefix_mask.reference(n_prefix, length).mT


@prefix_mask.mistake(
    "the causal part the wrong way round",
    "Keys of the prefix are right, but otherwise your queries see what comes later, and not what came before.",
)
def _(n_prefix: Tensor, length: int) -> Tensor:
    causal, in_prefix = _causal_and_prefix(n_prefix, length)
    return (causal.T | in_prefix[:, None])[:, None]


@prefix_mask.mistake(
    "no query sees itself",
    "After the prefix, your queries see only what is before them. A query may also attend to itself; otherwise the "
    "first token of a text without a prefix would see nothing at all.",
)
def _(n_prefix: Tensor, length: int) -> Tensor:
    causal, in_prefix = _causal_and_prefix(n_prefix, length)
    return (causal.tril(-1) | in_prefix[:, None])[:, None]


@prefix_mask.mistake("inverted", "True and False are swapped: in this course, True means that attending is allowed.")
def _(n_prefix: Tensor, length: int) -> Tensor:
    return ~prefix_mask.reference(n_prefix, length)


@prefix_mask.mistake(
    "the longest prefix for all",
    "You use the longest prefix for all texts. Each has its own.",
)
def _(n_prefix: Tensor, length: int) -> Tensor:
    return prefix_mask.reference(n_prefix.max().expand(len(n_prefix)), length)


@prefix_mask.mistake(
    "the first prefix for all",
    "You use the prefix of the first text for all texts. Each has its own.",
)
def _(n_prefix: Tensor, length: int) -> Tensor:
    return prefix_mask.reference(n_prefix[:1].expand(len(n_prefix)), length)


@prefix_mask.mistake(
    "everything but the prefix",
    "You allow the keys after the prefix and forbid those in it. A position belongs to the prefix if it is below the "
    "prefix's length.",
)
def _(n_prefix: Tensor, length: int) -> Tensor:
    position = torch.arange(length)
    return (position >= n_prefix[:, None])[:, None, None] | (position[:, None] >= position)


# 3 --------------------------------------------------------------------------------------------------------------------

_TEXTS = torch.tensor([[1, 4, 3, 2, 0, 0], [1, 5, 5, 3, 4, 2], [1, 3, 2, 0, 0, 0]])
_SMALL = torch.tensor([[[0.0, 0.0, 0.0, 1.0], [0.0, 1.0, 3.0, 0.0], [2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 1.0]]])


@topic.exercise(
    {"logits": _SMALL, "ids": torch.tensor([[1, 3, 2, 0]]), "pad_id": 0},
    {"logits": numbers(3, 6, 7), "ids": _TEXTS, "pad_id": 0},
    {"logits": 2 * numbers(2, 4, 6, seed=1), "ids": torch.tensor([[4, 0, 2, 5], [0, 3, 5, 5]]), "pad_id": 5},
    {"logits": 1000 * numbers(2, 5, 4, seed=2), "ids": torch.tensor([[1, 3, 3, 2, 0], [1, 3, 2, 0, 0]]), "pad_id": 0},
    {"logits": numbers(1, 2, 3, seed=3), "ids": torch.tensor([[1, 2]]), "pad_id": 0},
)
def causal_lm_loss(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    """The mean over all labels."""
    labels = ids[:, 1:]
    return _losses(logits[:, :-1], labels)[labels != pad_id].mean()


def _losses(logits: Tensor, labels: Tensor) -> Tensor:
    """-ln p of each label, (batch, length)."""
    return -logits.log_softmax(dim=-1).gather(-1, labels[..., None])[..., 0]


@causal_lm_loss.mistake(
    "not shifted",
    "You compare the logits with the token at the same position, which the model can see. It would learn to copy its "
    "input, and the loss would soon be 0. Compare them with the next token.",
)
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    return _losses(logits, ids)[ids != pad_id].mean()


@causal_lm_loss.mistake(
    "shifted the wrong way",
    "You compare the logits with the token before, which the model has already read. Compare them with the next one.",
)
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    labels = ids[:, :-1]
    return _losses(logits[:, 1:], labels)[labels != pad_id].mean()


@causal_lm_loss.mistake(
    "shifted in a circle",
    "You roll the texts round, so the label of the last position is the first token. The last position has no label.",
)
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    labels = ids.roll(-1, 1)
    return _losses(logits, labels)[labels != pad_id].mean()


@causal_lm_loss.mistake(
    "shifted across the texts",
    "You join the texts before you shift, so the label of a text's last position is the first token of the next text. "
    "Shift within each text, then join.",
)
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1)[:-1], ids.flatten()[1:], ignore_index=pad_id)


@causal_lm_loss.mistake(
    "positions and vocabulary mixed up",
    "You reshape the logits so that the vocabulary comes second. That keeps the numbers in their order, and mixes up "
    "positions and vocabulary. Swap the two axes instead.",
)
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    logits = logits[:, :-1]
    return F.cross_entropy(logits.reshape(logits.mT.shape), ids[:, 1:], ignore_index=pad_id)


@causal_lm_loss.mistake(
    "both cut at the same end",
    "You leave out the first position of both, the logits and the texts, so they still belong to the same positions. "
    "The logits lose their last position, the texts their first.",
)
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    return _losses(logits[:, 1:], ids[:, 1:])[ids[:, 1:] != pad_id].mean()


@causal_lm_loss.mistake(
    "padding included", "Your mean includes labels that are padding. The model shouldn't learn to predict padding."
)
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    return _losses(logits[:, :-1], ids[:, 1:]).mean()


@causal_lm_loss.mistake(
    "padding is looked for one position too early",
    "You select the positions whose input is real. What counts is the label: at the last token of a short text the "
    "input is real, but the label is padding.",
)
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    return _losses(logits[:, :-1], ids[:, 1:])[ids[:, :-1] != pad_id].mean()


@causal_lm_loss.mistake(
    "divided by all positions", "Your sum leaves padding out, but you divide by the number of all positions."
)
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    return (_losses(logits[:, :-1], ids[:, 1:]) * (ids[:, 1:] != pad_id)).mean()


@causal_lm_loss.mistake("not divided", "This is the sum over all labels. Divide it by how many there are.")
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    return _losses(logits[:, :-1], ids[:, 1:])[ids[:, 1:] != pad_id].sum()


@causal_lm_loss.mistake(
    "the mean of the texts' means",
    "You average within each text and then over the texts, so tokens of short texts get a larger weight. All labels "
    "of the batch should count the same.",
)
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    real = ids[:, 1:] != pad_id
    return ((_losses(logits[:, :-1], ids[:, 1:]) * real).sum(dim=1) / real.sum(dim=1)).mean()


@causal_lm_loss.mistake(
    "pad_id not used",
    "You assume that padding has the id 0. In another vocabulary it may have another id: use the last argument.",
)
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    return _losses(logits[:, :-1], ids[:, 1:])[ids[:, 1:] != 0].mean()


@causal_lm_loss.mistake(
    "the logarithm of zero",
    "This works for small logits. With large ones a probability is rounded to 0, and its logarithm is infinite. "
    "`log_softmax` computes the logarithm of the softmax in one step, without this problem.",
)
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    p = logits[:, :-1].softmax(dim=-1).gather(-1, ids[:, 1:, None])[..., 0]
    return -p.log()[ids[:, 1:] != pad_id].mean()


@causal_lm_loss.mistake(
    "NaN for large logits",
    "This works for small logits. With large ones an exponential is infinite, or a probability is rounded to 0 and its "
    "logarithm is infinite, and infinity times 0 is NaN. `log_softmax` computes the logarithm of the softmax in one "
    "step, without this problem.",
)
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    labels = ids[:, 1:]
    p, real = logits[:, :-1].softmax(dim=-1).gather(-1, labels[..., None])[..., 0], labels != pad_id
    return -(p.log() * real).sum() / real.sum()


@causal_lm_loss.mistake(
    "softmax twice",
    "PyTorch's cross_entropy applies the softmax itself, and you pass it probabilities. Pass it the logits.",
)
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    return causal_lm_loss.reference(logits.softmax(dim=-1), ids, pad_id)


@causal_lm_loss.mistake(
    "shifted by two",
    "You compare the logits with the token after the next one. Is something shifted twice?",
)
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    labels = ids[:, 2:]
    return _losses(logits[:, :-2], labels)[labels != pad_id].mean()


@causal_lm_loss.mistake(
    "a text left out instead of a position",
    "You shift along the axis of the batch, so each text is compared with the one below it. Axis 0 is the batch; "
    "positions are axis 1.",
)
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    return F.cross_entropy(logits[:-1].flatten(0, 1), ids[1:].flatten(), ignore_index=pad_id)


@causal_lm_loss.mistake(
    "normalised over the positions",
    "Your softmax goes along the positions of a text. At each position, the probabilities of all tokens of the "
    "vocabulary sum to one.",
)
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    labels = ids[:, 1:]
    log_p = logits[:, :-1].log_softmax(dim=1)
    return -log_p.gather(-1, labels[..., None])[..., 0][labels != pad_id].mean()


@causal_lm_loss.mistake(
    "the first tokens counted",
    "The sum is right, but you divide it by the number of all real tokens. The first token of a text is never a "
    "label, so it doesn't count.",
)
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    labels = ids[:, 1:]
    return _losses(logits[:, :-1], labels)[labels != pad_id].sum() / (ids != pad_id).sum()


@causal_lm_loss.mistake(
    "the perplexity", "You return the perplexity, the exponential of the loss. Return the loss: training minimises it."
)
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    return causal_lm_loss.reference(logits, ids, pad_id).exp()


@causal_lm_loss.mistake("the wrong sign", "Your loss is negative. The loss is minus the logarithm of a probability.")
def _(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    return -causal_lm_loss.reference(logits, ids, pad_id)


# 4 --------------------------------------------------------------------------------------------------------------------


def _real(*lengths: int) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


@topic.exercise(
    {
        "x": torch.tensor([[[1.0, 0.0], [0.0, 2.0], [5.0, 5.0]], [[1.0, 1.0], [3.0, 0.0], [2.0, -1.0]]]),
        "real": torch.tensor([[True, True, False], [True, True, True]]),
        "weight": torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
        "bias": torch.tensor([0.0, 1.0, 0.5]),
    },
    {
        "x": numbers(3, 5, 4),
        "real": _real(5, 2, 3),
        "weight": numbers(2, 4, seed=1),
        "bias": numbers(2, seed=2),
    },
    {
        "x": numbers(4, 3, 3, seed=3),
        "real": _real(1, 3, 2, 3),
        "weight": numbers(3, 3, seed=4),
        "bias": numbers(3, seed=5),
    },
    {
        "x": numbers(1, 1, 1, seed=6),
        "real": _real(1),
        "weight": numbers(1, 1, seed=7),
        "bias": numbers(1, seed=8),
    },
    insight="The first GPT was fine-tuned like this, with a linear layer on the last token of the text.",
)
def classify(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A linear layer on the last real token of each sentence."""
    last = real.sum(dim=1) - 1
    return F.linear(x[torch.arange(len(x)), last], weight, bias)


@classify.mistake(
    "the last position",
    "You take the last position of the batch, and in shorter sentences that is padding. Take the last real token of "
    "each sentence.",
)
def _(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(x[:, -1], weight, bias)


@classify.mistake(
    "BERT's first token",
    "You take the first token, as BERT does. In a GPT it has seen nothing but itself, so it is the same for every "
    "sentence that begins with it.",
)
def _(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(x[:, 0], weight, bias)


@classify.mistake(
    "one position too far",
    "A sentence of n tokens has the positions 0 to n - 1. You take position n: padding, or, in the longest sentence of "
    "the batch, nothing.",
)
def _(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(x[torch.arange(len(x)), real.sum(dim=1)], weight, bias)


@classify.mistake(
    "one position too early",
    "You take the token before the last one. A sentence of n tokens has the positions 0 to n - 1.",
)
def _(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(x[torch.arange(len(x)), real.sum(dim=1) - 2], weight, bias)


@classify.mistake(
    "padding counted instead of tokens",
    "You count the padding of each sentence. In `real`, True marks the real tokens: count those.",
)
def _(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(x[torch.arange(len(x)), (~real).sum(dim=1) - 1], weight, bias)


@classify.mistake(
    "the first padding",
    "You take the first position of padding, one position after the last real token. In a sentence without padding "
    "there is no such position, and you get the first one.",
)
def _(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(x[torch.arange(len(x)), real.int().argmin(dim=1)], weight, bias)


@classify.mistake(
    "the mean over all positions",
    "You average over all positions, padding included. Take the vector of the one token that has seen the whole "
    "sentence.",
)
def _(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(x.mean(dim=1), weight, bias)


@classify.mistake(
    "the mean over all tokens",
    "You average over the real tokens. That is a common choice for BERT, but in a GPT most tokens have seen only part "
    "of the sentence. Take the vector of the one that has seen all of it.",
)
def _(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    mean = (x * real[:, :, None]).sum(dim=1) / real.sum(dim=1, keepdim=True)
    return F.linear(mean, weight, bias)


@classify.mistake(
    "the same position in every sentence",
    "You take the same position from every sentence, the last token of the first one. Each sentence has its own "
    "length.",
)
def _(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(x[:, int(real[0].sum()) - 1], weight, bias)


@classify.mistake(
    "the positions of all sentences, from each of them",
    "The positions are right, but from each sentence you take those of all sentences. Take only its own: the first "
    "position from the first sentence, the second one from the second, and so on.",
)
def _(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(x[:, real.sum(dim=1) - 1], weight, bias)


@classify.mistake(
    "every position classified",
    "You return logits for every position. The sentence gets one label, so take one vector of each sentence.",
)
def _(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(x, weight, bias)


@classify.mistake("no bias", "Your logits lack the bias.")
def _(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return classify.reference(x, real, weight, torch.zeros_like(bias))


@classify.mistake(
    "probabilities",
    "You return probabilities. Return the logits: cross_entropy, with which the classifier is trained, applies the "
    "softmax itself.",
)
def _(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return classify.reference(x, real, weight, bias).softmax(dim=-1)


@classify.mistake(
    "the predicted class",
    "You return the class with the largest logit. Return the logits of all classes: training needs them.",
)
def _(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return classify.reference(x, real, weight, bias).argmax(dim=-1)


@classify.mistake(
    "the sum over all tokens",
    "You add up the vectors of all real tokens. In a GPT most of them have seen only part of the sentence: take the "
    "vector of the one that has seen all of it.",
)
def _(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear((x * real[..., None]).sum(dim=1), weight, bias)


@classify.mistake(
    "the maximum over all tokens",
    "You take the maximum over all real tokens. In a GPT most of them have seen only part of the sentence: take the "
    "vector of the one that has seen all of it.",
)
def _(x: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(x.masked_fill(~real[..., None], -torch.inf).amax(dim=1), weight, bias)


# 5 --------------------------------------------------------------------------------------------------------------------

LanguageModel = Callable[[list[str]], str]
Examples = list[tuple[str, str]]


MAX_TOKENS = 1000
"""No prompt of the checks gets near this."""


def _listed(tokens: Any) -> list[str]:
    if not isinstance(tokens, list | tuple):
        raise TypeError(f"next_token expects a list of tokens, and got a {type(tokens).__name__}")
    if len(tokens) > MAX_TOKENS:
        raise RefusedError(
            "it doesn't stop at max_new_tokens\nThis model never predicts a comma, so your loop would go on for ever. "
            "Stop after `max_new_tokens` as well."
        )
    return [*tokens]


def _by_analogy(tokens: list[str]) -> str:
    """a model that follows the example whose question ends most like the new one"""
    tokens = _listed(tokens)
    entries = [[side.strip() for side in entry.split(":")] for entry in " ".join(tokens).split(",")]
    if len(entries[-1]) != 2:
        return "?"
    question, written = entries[-1]
    examples = [(entry[0], entry[1]) for entry in entries[:-1] if len(entry) == 2]
    if not examples:
        return (question.split() or ["?"])[-1]  # without an example, it repeats the question for ever

    def likeness(example: tuple[str, str]) -> int:
        letters = zip(example[0].lower()[::-1], question.lower()[::-1], strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], letters))

    its_question, its_answer = max(reversed(examples), key=likeness)
    answer = re.sub(re.escape(its_question), lambda _: question, its_answer, flags=re.IGNORECASE).split()
    n_written = len(written.split())
    return answer[n_written] if n_written < len(answer) else ","


def _counts_tokens(tokens: list[str]) -> str:
    """a model that writes how many tokens it has read, # : ,5 1,000 and their number again, and then a comma"""
    tokens = _listed(tokens)
    colons = [i for i, token in enumerate(tokens) if token == ":" and tokens[i - 1 : i] != ["#"]]
    if not colons:
        raise ValueError("the prompt has no token ':'; a colon is a token of its own, with a space before it")
    written = len(tokens) - 1 - colons[-1]
    return [str(len(tokens)), "#", ":", ",5", "1,000", str(len(tokens)), ","][min(written, 6)]


@topic.exercise(
    {
        "next_token": _by_analogy,
        "examples": [("box", "boxes"), ("cat", "cats")],
        "question": "fox",
        "max_new_tokens": 5,
    },
    {
        "next_token": _by_analogy,
        "examples": [("dog", "the dog"), ("old cat", "the old cat")],
        "question": "black fox",
        "max_new_tokens": 9,
    },
    {
        "next_token": _by_analogy,
        "examples": [("dog", "the dog"), ("old cat", "the old cat")],
        "question": "black fox",
        "max_new_tokens": 2,
    },
    {"next_token": _by_analogy, "examples": [], "question": "dog", "max_new_tokens": 3},
    {
        "next_token": _by_analogy,
        "examples": [("hen", "hens"), ("cat", "the small cat")],
        "question": "dog",
        "max_new_tokens": 3,
    },
    {"next_token": _counts_tokens, "examples": [("a b", "c d e")], "question": "f g", "max_new_tokens": 9},
    {"next_token": _counts_tokens, "examples": [], "question": "f g", "max_new_tokens": 9},
)
def few_shot_answer(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    """Greedy, until the comma."""
    return " ".join(_continuation(next_token, _prompt(examples, question), max_new_tokens))


def _prompt(examples: Examples, question: str) -> list[str]:
    solved = "".join(f"{asked} : {answer} , " for asked, answer in examples)
    return f"{solved}{question} :".split()


def _continuation(next_token: LanguageModel, prompt: list[str], limit: int) -> list[str]:
    written: list[str] = []
    while len(written) < limit and (token := next_token(prompt + written)) != ",":
        written.append(token)
    return written


@few_shot_answer.mistake(
    "the examples left out",
    "Your prompt contains only the question, so the model can't know which task it is. The solved examples come before "
    "the question.",
)
def _(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    return few_shot_answer.reference(next_token, [], question, max_new_tokens)


@few_shot_answer.mistake(
    "only the last example", "Your prompt contains only the last of the examples. It should contain all of them."
)
def _(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    return few_shot_answer.reference(next_token, examples[-1:], question, max_new_tokens)


@few_shot_answer.mistake(
    "the examples in reverse order",
    "Your prompt has the examples in reverse order. The order matters to a language model: keep the given one.",
)
def _(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    return few_shot_answer.reference(next_token, examples[::-1], question, max_new_tokens)


@few_shot_answer.mistake(
    "no colon after the question",
    "Your prompt ends with the question itself. In the examples a colon follows each question, and the model expects "
    "it here as well before it answers.",
)
def _(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    return " ".join(_continuation(next_token, _prompt(examples, question)[:-1], max_new_tokens))


@few_shot_answer.mistake(
    "colons attached to the words",
    "Your prompt has tokens like `cat:`. Colons and commas are tokens of their own: put a space before each of them.",
)
def _(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    prompt = " ".join(_prompt(examples, question)).replace(" :", ":").replace(" ,", ",").split()
    return " ".join(_continuation(next_token, prompt, max_new_tokens))


@few_shot_answer.mistake(
    "an example doesn't end with a comma",
    "In your prompt, a comma is missing after an example, perhaps after the last one. The model takes everything up to "
    "a comma as one entry.",
)
def _(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    without = [token for token in _prompt(examples, question) if token != ","]
    return " ".join(_continuation(next_token, without, max_new_tokens))


@few_shot_answer.mistake(
    "the comma is part of the answer",
    "The stop token ends the answer and isn't part of it. Look at what the model predicts before you append it.",
)
def _(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    answer = _continuation(next_token, _prompt(examples, question), max_new_tokens)
    return " ".join([*answer, *[","] * (len(answer) < max_new_tokens)])


@few_shot_answer.mistake(
    "it doesn't stop at the comma",
    "Your answer goes on after the comma, where the model begins a new entry. Stop there.",
)
def _(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    tokens = _prompt(examples, question)
    written: list[str] = []
    for _ in range(max_new_tokens):
        written.append(next_token(tokens + written))
    return " ".join(written)


@few_shot_answer.mistake(
    "the prompt is part of the answer", "You return the prompt as well. Return only what the model has added to it."
)
def _(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    prompt = _prompt(examples, question)
    return " ".join(prompt + _continuation(next_token, prompt, max_new_tokens))


@few_shot_answer.mistake(
    "only the first token",
    "You return the first token that the model predicts. An answer may have several: append it, and call the model "
    "again.",
)
def _(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    return next_token(_prompt(examples, question))


@few_shot_answer.mistake(
    "the model doesn't see what it has written",
    "Your model reads the same prompt each time, so it predicts the same token again and again. Append each token to "
    "what it reads next.",
)
def _(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    return " ".join([next_token(_prompt(examples, question))] * max_new_tokens)


@few_shot_answer.mistake(
    "one token too many", "Your answer can have one token more than max_new_tokens. Check the limit of your loop."
)
def _(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    return few_shot_answer.reference(next_token, examples, question, max_new_tokens + 1)


@few_shot_answer.mistake(
    "the prompt counted as new tokens",
    "You count the tokens of the prompt, too, so you stop before the model has written anything, or soon after. "
    "max_new_tokens limits the answer only.",
)
def _(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    prompt = _prompt(examples, question)
    return " ".join(_continuation(next_token, prompt, max_new_tokens - len(prompt)))


@few_shot_answer.mistake("no spaces", "You join the tokens of the answer without spaces between them.")
def _(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    return "".join(_continuation(next_token, _prompt(examples, question), max_new_tokens))


@few_shot_answer.mistake(
    "sides not split into tokens",
    "You pass whole questions and answers as single tokens. A side may have several words: split the text at its "
    "spaces.",
)
def _(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    prompt = [token for asked, answer in examples for token in (asked, ":", answer, ",")] + [question, ":"]
    return " ".join(_continuation(next_token, prompt, max_new_tokens))


for _part, _whole in {
    "the new question": (False, False, True),
    "the questions of the examples": (True, False, False),
    "the answers of the examples": (False, True, False),
    "the sides of the examples": (True, True, False),
    "all questions": (True, False, True),
    "the answers and the new question": (False, True, True),
}.items():
    _one_token = "a single token" if _part == "the new question" else "single tokens"

    @few_shot_answer.mistake(
        f"{_part} not split into tokens",
        f"Your prompt has {_part} as {_one_token}. Questions and answers may have several words: split each of them at "
        "its spaces.",
    )
    def _(
        next_token: LanguageModel,
        examples: Examples,
        question: str,
        max_new_tokens: int,
        whole: tuple[bool, ...] = _whole,
    ) -> str:
        prompt: list[str] = []
        for asked, answer in examples:
            for side, is_whole, after in ((asked, whole[0], ":"), (answer, whole[1], ",")):
                prompt += [*([side] if is_whole else side.split()), after]
        prompt += [*([question] if whole[2] else question.split()), ":"]
        return " ".join(_continuation(next_token, prompt, max_new_tokens))


for _comma, _name in ((",", "every comma removed"), (" ,", "every comma after a space removed")):

    @few_shot_answer.mistake(
        _name,
        "You remove commas from the whole answer, even those within its tokens, such as `1,000` or `,5`. Only the stop "
        "token isn't part of the answer: look at what the model predicts before you append it.",
    )
    def _(
        next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int, comma: str = _comma
    ) -> str:
        return few_shot_answer.reference(next_token, examples, question, max_new_tokens).replace(comma, "").strip()


@few_shot_answer.mistake(
    "cut at the last colon",
    "You take what comes after the last colon. The answer itself may contain one: remember how long the prompt is.",
)
def _(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    prompt = _prompt(examples, question)
    whole = prompt + _continuation(next_token, prompt, max_new_tokens)
    return " ".join(whole).split(":")[-1].strip()


@few_shot_answer.mistake(
    "it stops at a comma within a token",
    "You stop at any token that contains a comma, such as `1,000`. The stop token is the comma alone.",
)
def _(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    written = _continuation(next_token, _prompt(examples, question), max_new_tokens)
    return " ".join(takewhile(lambda token: "," not in token, written))


@few_shot_answer.mistake(
    "an empty token at the end of the prompt",
    "Your prompt ends with an empty token. A text with a space at its end has an empty string there if you split it "
    "at single spaces.",
)
def _(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    return " ".join(_continuation(next_token, [*_prompt(examples, question), ""], max_new_tokens))


@few_shot_answer.mistake(
    "a comma before the question",
    "Without examples, your prompt begins with a comma. A comma comes after each example, and nowhere else.",
)
def _(next_token: LanguageModel, examples: Examples, question: str, max_new_tokens: int) -> str:
    prompt = _prompt(examples, question)
    return " ".join(_continuation(next_token, prompt if examples else [",", *prompt], max_new_tokens))


# 6 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"theirs": torch.arange(12.0).view(6, 2), "n_heads": 2},
    {"theirs": torch.arange(12.0), "n_heads": 2},
    {"theirs": numbers(18, 6), "n_heads": 3},
    {"theirs": numbers(12, 4, seed=1), "n_heads": 1},
    {"theirs": numbers(3, 1, seed=2), "n_heads": 1},
)
def reorder_query_key_value(theirs: Tensor, n_heads: int) -> Tensor:
    """Piece by piece: the query of each head, then the keys, then the values."""
    pieces = theirs.chunk(3 * n_heads)
    return torch.cat([pieces[3 * head + part] for part in range(3) for head in range(n_heads)])


@reorder_query_key_value.mistake(
    "nothing reordered",
    "You return the rows in their order. Splitting the matrix into three doesn't help: its first third doesn't contain "
    "the queries of all heads, but everything of the first heads.",
)
def _(theirs: Tensor, n_heads: int) -> Tensor:
    return theirs


@reorder_query_key_value.mistake(
    "our order turned into theirs",
    "You read the matrix as if it were in our order already, and put it into theirs. In theirs, the outermost of the "
    "three axes is the head, not the choice of query, key or value.",
)
def _(theirs: Tensor, n_heads: int) -> Tensor:
    return theirs.unflatten(0, (3, n_heads, -1)).transpose(0, 1).flatten(0, 2)


@reorder_query_key_value.mistake(
    "query, key and value alternate row by row",
    "You take every third row as a query. Within a head, all rows of its query come first, then all of its key, then "
    "all of its value.",
)
def _(theirs: Tensor, n_heads: int) -> Tensor:
    return torch.cat([theirs[part::3] for part in range(3)])


@reorder_query_key_value.mistake(
    "the heads alternate row by row",
    "Queries, keys and values are apart, but within each of them the heads alternate row by row. The rows of a head "
    "should stay together.",
)
def _(theirs: Tensor, n_heads: int) -> Tensor:
    by_head = theirs.unflatten(0, (n_heads, 3, -1))
    return by_head.movedim(0, 2).flatten(0, 2)


@reorder_query_key_value.mistake(
    "keys and values swapped", "Your values come before your keys. The order is query, key, value."
)
def _(theirs: Tensor, n_heads: int) -> Tensor:
    query, key, value = reorder_query_key_value.reference(theirs, n_heads).chunk(3)
    return torch.cat([query, value, key])


@reorder_query_key_value.mistake(
    "queries and keys swapped", "Your keys come before your queries. The order is query, key, value."
)
def _(theirs: Tensor, n_heads: int) -> Tensor:
    query, key, value = reorder_query_key_value.reference(theirs, n_heads).chunk(3)
    return torch.cat([key, query, value])


@reorder_query_key_value.mistake(
    "queries and values swapped", "Your values come first and your queries last. The order is query, key, value."
)
def _(theirs: Tensor, n_heads: int) -> Tensor:
    query, key, value = reorder_query_key_value.reference(theirs, n_heads).chunk(3)
    return torch.cat([value, key, query])


@reorder_query_key_value.mistake(
    "only the queries", "You return the queries of all heads. The keys and the values should follow."
)
def _(theirs: Tensor, n_heads: int) -> Tensor:
    return reorder_query_key_value.reference(theirs, n_heads).chunk(3)[0]


@reorder_query_key_value.mistake(
    "the heads in reverse order", "Your heads are in reverse order: the first one should stay the first."
)
def _(theirs: Tensor, n_heads: int) -> Tensor:
    return theirs.unflatten(0, (n_heads, 3, -1)).flip(0).transpose(0, 1).flatten(0, 2)


@reorder_query_key_value.mistake(
    "transposed",
    "The rows are in the right order, but you return the transpose. (GPT-2's matrices do need one, these don't: their "
    "rows are outputs, as in ours.)",
)
def _(theirs: Tensor, n_heads: int) -> Tensor:
    right = reorder_query_key_value.reference(theirs, n_heads)
    return right.mT if right.dim() == 2 else right


@reorder_query_key_value.mistake(
    "a head's rows taken apart",
    "You swap the axis of query, key and value with the rows inside a head. The rows of a head's query should stay "
    "together: which two axes are in the wrong order?",
)
def _(theirs: Tensor, n_heads: int) -> Tensor:
    return theirs.unflatten(0, (n_heads, 3, -1)).transpose(1, 2).flatten(0, 2)
