"""Checks of 04 masking (§3.2.3, §3.1)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from exercises.bugs import Bug, WrongRepair, add_bugs
from exercises.check import Topic
from exercises.relations import Finding, Wrong
from exercises.restrictions import ATTENTION, forbid
from exercises.tensors import is_tensor, numbers
from transformer import masks

topic = Topic()
check, given = topic.check, topic.given

IDS = torch.tensor([[5, 6, 0]])
TWO_SENTENCES = torch.tensor([[5, 6, 7, 8], [9, 4, 0, 0]])
OTHER_PAD = {"ids": torch.tensor([[0, 4, 3, 3], [7, 2, 5, 3], [6, 0, 6, 6]]), "pad_id": 3}


# 1 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"ids": IDS, "pad_id": 0},
    {"ids": TWO_SENTENCES, "pad_id": 0},
    OTHER_PAD,
    {"ids": torch.tensor([[0, 5, 6], [7, 0, 8]]), "pad_id": 0},
    insight="With this mask, a sentence's result doesn't depend on how much padding its batch needs.",
)
def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    """The package's padding mask."""
    return masks.padding_mask(ids, pad_id)


@padding_mask.mistake(
    "inverted",
    'Your mask is True at the padding. In this course True means "may attend", so it should be True at the real '
    "tokens.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return ~masks.padding_mask(ids, pad_id)


@padding_mask.mistake(
    "pad_id not used",
    "You assume that padding has the id 0. In another vocabulary it may have another id: use the second argument.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.padding_mask(ids, 0)


@padding_mask.mistake(
    "smaller ids hidden as well",
    "You hide every id up to pad_id. Only pad_id itself is padding; smaller ids are ordinary tokens.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return (ids > pad_id)[:, None, None, :]


@padding_mask.mistake(
    "queries instead of keys",
    "Your mask varies along the rows, so it says which positions may attend. It should say which ones may be attended "
    "to, and those are the columns.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return (ids != pad_id)[:, None, :, None]


@padding_mask.mistake(
    "queries hidden as well",
    "A padding token may attend to anything, because its output isn't used. Hiding its whole row only causes trouble "
    "for the softmax.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    real = ids != pad_id
    return (real[:, :, None] & real[:, None, :])[:, None]


@padding_mask.mistake(
    "axes missing",
    "The values are right, but the mask has to broadcast to scores of shape (batch, heads, query, key). Broadcasting "
    "aligns axes from the right, so your batch would line up with the queries.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return ids != pad_id


@padding_mask.mistake(
    "one axis missing",
    "The values are right, but the mask has to broadcast to scores of shape (batch, heads, query, key), and your "
    "batch would line up with the heads.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return (ids != pad_id)[:, None, :]


@padding_mask.mistake(
    "an additive mask",
    "This mask holds numbers that are added to the scores, which is another common convention. In this course a mask "
    'is boolean, and True means "may attend".',
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return torch.zeros(ids.shape).masked_fill(ids == pad_id, -torch.inf)[:, None, None, :]


@padding_mask.mistake(
    "everything after the first padding hidden",
    "You hide all that comes after the first padding. Padding can also be in front of a sentence: look at each "
    "token by itself.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return ((ids == pad_id).cumsum(1) == 0)[:, None, None]


@padding_mask.mistake(
    "padding taken to be at the end",
    "You count the real tokens and hide everything after that many positions. Padding can also be in front of a "
    "sentence: look at each token by itself.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    n_real = (ids != pad_id).sum(1, keepdim=True)
    return (torch.arange(ids.size(1)) < n_real)[:, None, None]


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"length": 3},
    {"length": 1},
    {"length": 5},
    {"length": 600},
    insight="This triangle is what distinguishes the self-attention of GPT from that of BERT.",
)
def causal_mask(length: int) -> Tensor:
    """The package's causal mask."""
    return masks.causal_mask(length)


@causal_mask.mistake(
    "only the future allowed",
    "Each position attends to itself and to later ones. It should attend to itself and to earlier ones: the other "
    "triangle.",
)
def _(length: int) -> Tensor:
    return masks.causal_mask(length).transpose(-2, -1)


@causal_mask.mistake(
    "inverted", 'Your mask is True exactly where a position must not attend. In this course True means "may attend".'
)
def _(length: int) -> Tensor:
    return ~masks.causal_mask(length)


@causal_mask.mistake(
    "off by one: a position can't attend to itself",
    "The diagonal is False, so the first position can attend to nothing. A position already knows its own token; what "
    "it predicts is the next one, so the diagonal should be True.",
)
def _(length: int) -> Tensor:
    return torch.ones(1, 1, length, length, dtype=torch.bool).tril(-1)


@causal_mask.mistake(
    "off by one: a position sees the next one",
    "Each position can also attend to the next one, and that is exactly the token it has to predict.",
)
def _(length: int) -> Tensor:
    return torch.ones(1, 1, length, length, dtype=torch.bool).tril(1)


@causal_mask.mistake("nothing hidden", "Your mask is True everywhere, so every position can attend to the future.")
def _(length: int) -> Tensor:
    return torch.ones(1, 1, length, length, dtype=torch.bool)


@causal_mask.mistake(
    "only the diagonal", "Each position can attend only to itself. It may attend to all earlier positions as well."
)
def _(length: int) -> Tensor:
    return torch.eye(length, dtype=torch.bool)[None, None]


@causal_mask.mistake(
    "an additive mask",
    "This mask holds numbers that are added to the scores, which is another common convention. In this course a mask "
    'is boolean, and True means "may attend".',
)
def _(length: int) -> Tensor:
    return torch.full((1, 1, length, length), -torch.inf).triu(1)


@causal_mask.mistake(
    "floats instead of booleans",
    "The triangle is right, but it contains floats. A mask is boolean, so that ~ and & work on it.",
)
def _(length: int) -> Tensor:
    return masks.causal_mask(length).float()


@causal_mask.mistake(
    "axes missing",
    "The triangle is right. To broadcast to scores of shape (batch, heads, query, key), it needs two axes of "
    "size 1 in front.",
)
def _(length: int) -> Tensor:
    return masks.causal_mask(length)[0, 0]


# 3 --------------------------------------------------------------------------------------------------------------------


@topic.exercise({"ids": IDS, "pad_id": 0}, {"ids": TWO_SENTENCES, "pad_id": 0}, OTHER_PAD)
def target_mask(ids: Tensor, pad_id: int) -> Tensor:
    """The package's target mask."""
    return masks.target_mask(ids, pad_id)


@target_mask.mistake(
    "padding only", "The padding is hidden, but every position can still attend to the future. Combine both masks."
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.padding_mask(ids, pad_id)


@target_mask.mistake(
    "padding only, expanded to all queries",
    "The padding is hidden, but every position can still attend to the future. Combine both masks.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.padding_mask(ids, pad_id).expand(-1, 1, ids.size(1), -1)


@target_mask.mistake("only the future hidden", "The future is hidden, but not the padding. Combine both masks.")
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.causal_mask(ids.size(1)).expand(ids.size(0), -1, -1, -1)


@target_mask.mistake(
    "only the future hidden, ids not used", "The future is hidden, but not the padding: you don't use the ids at all."
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.causal_mask(ids.size(1))


@target_mask.mistake(
    "or instead of and",
    "A position is visible if one of the two masks allows it. Both have to allow it. (Adding two boolean masks has "
    "the same effect.)",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.padding_mask(ids, pad_id) | masks.causal_mask(ids.size(1))


@target_mask.mistake(
    "inverted", 'Your mask is True where attention is forbidden. In this course True means "may attend".'
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return ~masks.target_mask(ids, pad_id)


@target_mask.mistake(
    "the wrong triangle",
    "The padding is hidden correctly, but the rest of each row shows the future. It should show the past.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.padding_mask(ids, pad_id) & masks.causal_mask(ids.size(1)).transpose(-2, -1)


@target_mask.mistake(
    "the causal mask inverted",
    "The padding is hidden correctly, but you invert the causal mask, so each position attends to the future only, not "
    "even to itself. The causal mask is already True where attention is allowed.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.padding_mask(ids, pad_id) & ~masks.causal_mask(ids.size(1))


@target_mask.mistake(
    "the rows of the padding are hidden",
    "In your mask the rows of the padding are all False, so its queries can't attend to anything. Only its columns "
    "have to be hidden: no query may attend to padding.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.padding_mask(ids, pad_id).transpose(-2, -1) & masks.causal_mask(ids.size(1))


@target_mask.mistake(
    "off by one: a position can't attend to itself", "The diagonal is False. A real token may attend to itself."
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.padding_mask(ids, pad_id) & masks.causal_mask(ids.size(1)).tril(-1)


@target_mask.mistake(
    "pad_id not used",
    "You assume that padding has the id 0. In another vocabulary it may have another id: use the second argument.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.target_mask(ids, 0)


@target_mask.mistake(
    "the diagonal is always visible",
    "You let every position see itself, even if it is padding. A padding key should be hidden from all queries.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.target_mask(ids, pad_id) | torch.eye(ids.size(1), dtype=torch.bool)


@target_mask.mistake(
    "a causal mask as large as the batch",
    "Your causal mask has the size of the batch. It needs the length of the sentences, the second axis of `ids`.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.padding_mask(ids, pad_id) & masks.causal_mask(ids.size(0))


@target_mask.mistake(
    "off by one: a position sees the next one",
    "The padding is hidden, but each position can also attend to the next one, and that is exactly the token it has "
    "to predict.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    next_one = torch.ones(1, 1, ids.size(1), ids.size(1), dtype=torch.bool).tril(1)
    return masks.padding_mask(ids, pad_id) & next_one


# 4 --------------------------------------------------------------------------------------------------------------------

_TRUE, _FALSE = True, False


@topic.exercise(
    {
        "scores": torch.tensor([[1.0, 2.0, 3.0], [2.0, 0.0, -1.0]]),
        "mask": torch.tensor([[_TRUE, _TRUE, _FALSE], [_TRUE, _FALSE, _TRUE]]),
    },
    {
        "scores": torch.tensor([[1.0, 2.0, 3.0], [2.0, 0.0, -1.0]]),
        "mask": torch.tensor([[_TRUE, _TRUE, _FALSE], [_FALSE, _FALSE, _FALSE]]),
    },
    {
        "scores": torch.linspace(-3, 3, 48).sin().mul(3).view(2, 2, 3, 4),
        "mask": torch.tensor([[_TRUE, _TRUE, _TRUE, _FALSE], [_FALSE, _FALSE, _FALSE, _FALSE]])[:, None, None, :],
    },
    {
        "scores": torch.tensor([[1.0, 2.0, 3.0], [2.0, 0.0, -1.0]], dtype=torch.float16),
        "mask": torch.tensor([[_TRUE, _TRUE, _FALSE], [_FALSE, _FALSE, _FALSE]]),
    },
    {
        "scores": torch.tensor([[-500.0, -501.0, 300.0], [200.0, 201.0, 300.0]]),
        "mask": torch.tensor([[_TRUE, _TRUE, _FALSE], [_TRUE, _TRUE, _FALSE]]),
    },
    {"scores": torch.tensor([[[1.0, 2.0, 3.0]]]), "mask": torch.tensor([[[_TRUE, _TRUE, _FALSE]]])},
    {
        "scores": torch.tensor([[-70_000.0, -70_001.0, 0.0]]),
        "mask": torch.tensor([[_TRUE, _TRUE, _FALSE]]),
    },
    insight="A key with weight 0 has no influence on the output of this query, and gets no gradient from it.",
)
def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over what may be seen; zeros where that is nothing."""
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1).masked_fill(~mask, 0.0)


@masked_softmax.mistake(
    "NaN in rows without a visible key",
    "If a row may attend to nothing, all its scores are minus infinity, and the softmax divides 0 by 0. The weights "
    "of such a row should be 0.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)


@masked_softmax.mistake(
    "rows without a visible key attend to everything",
    "If a row may attend to nothing, all its scores are equally low, so the softmax gives all keys the same weight. "
    "The weights of such a row should be 0.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)


@masked_softmax.mistake(
    "-1e9, and rows without a visible key attend to everything",
    "There are two mistakes. Half precision ends at 65,504, so -1e9 doesn't fit: use the lowest number of the scores' "
    "own dtype. And if a row may attend to nothing, its weights should be 0.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -1e9).softmax(dim=-1)


@masked_softmax.mistake(
    "-1e9 in half precision",
    "This works in float32, but half precision ends at 65,504. Use a number that is low enough and exists in every "
    "dtype: each dtype knows its own lowest.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -1e9).softmax(dim=-1).masked_fill(~mask, 0.0)


@masked_softmax.mistake(
    "mask inverted", 'Hidden keys get all the weight and visible ones none. True means "may attend".'
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(mask, torch.finfo(scores.dtype).min).softmax(dim=-1).masked_fill(mask, 0.0)


@masked_softmax.mistake(
    "masked after the softmax",
    "Hidden keys have weight 0, but the other weights of the row don't sum to one, because the hidden scores were "
    "part of the softmax's sum. The mask has to act before the softmax.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.softmax(dim=-1) * mask


@masked_softmax.mistake(
    "divided by a sum that can be 0",
    "You divide by the sum of the remaining weights. It is 0 if nothing is visible, or if a hidden score is much "
    "larger than the visible ones. The mask has to act before the softmax.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    weights = scores.softmax(dim=-1) * mask
    return weights / weights.sum(dim=-1, keepdim=True)


@masked_softmax.mistake(
    "exponentials of the scores themselves",
    "You divide by the sum of the visible exponentials. It is 0 if nothing is visible or if all visible scores are "
    "very low, and infinite if one of them is large. Apply the mask to the scores, and let PyTorch's softmax do the "
    "rest.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    weights = scores.exp() * mask
    return weights / weights.sum(dim=-1, keepdim=True)


@masked_softmax.mistake(
    "masked after the softmax and normalised again",
    "This fails if a hidden score is much larger than the visible ones: then the softmax gives them weights of 0, and "
    "there is nothing to normalise. The mask has to act before the softmax.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    weights = scores.softmax(dim=-1) * mask
    return (weights / weights.sum(dim=-1, keepdim=True)).nan_to_num()


@masked_softmax.mistake(
    "the low score isn't low enough",
    "Your number isn't below every possible score. If visible scores are even lower, the hidden keys get the weight. "
    "Use the lowest number of the scores' dtype.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -100.0).softmax(dim=-1).masked_fill(~mask, 0.0)


@masked_softmax.mistake(
    "the low score is not low enough for every input",
    "Your number isn't below every possible score. If visible scores are even lower, the hidden keys get the weight. "
    "Use the lowest number of the scores' dtype.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -10_000.0).softmax(dim=-1).masked_fill(~mask, 0.0)


@masked_softmax.mistake(
    "-1e4, and rows without a visible key attend to everything",
    "There are two mistakes. -1e4 isn't below every possible score: use the lowest number of the scores' own dtype. "
    "And if a row may attend to nothing, its weights should be 0.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -10_000.0).softmax(dim=-1)


@masked_softmax.mistake(
    "hidden scores set to zero",
    "A score of 0 isn't low: its exponential is 1, so hidden keys still get weight. How low must a score be for a "
    "weight of 0?",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return (scores * mask).softmax(dim=-1)


@masked_softmax.mistake(
    "mask added to the scores",
    "Adding the mask raises visible scores by 1 and hides nothing. Use the boolean mask to choose between the score "
    "and a very low number.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return (scores + mask).softmax(dim=-1)


@masked_softmax.mistake(
    "softmax over the queries", "Hidden keys have weight 0, but your columns sum to one. Each row should."
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-2)
    return weights.masked_fill(~mask, 0.0)


@masked_softmax.mistake("mask not used", "This is an ordinary softmax. Nothing is hidden, because the mask isn't used.")
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.softmax(dim=-1)


@masked_softmax.mistake(
    "normalised after the softmax",
    "You compute the softmax over all keys, set hidden weights to 0 and divide by the new sum. If a hidden score "
    "is much larger than all visible ones, the visible weights are 0 by then. Hide the scores first.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    weights = scores.softmax(dim=-1) * mask
    total = weights.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, weights / total.clamp(min=torch.finfo(scores.dtype).tiny), 0)


@masked_softmax.mistake(
    "a number that is 0 in half precision",
    "There are two mistakes. The small number that should keep the sum from being 0 is rounded to 0 in half precision, "
    "where 0/0 is NaN. And if a hidden score is much larger than all visible ones, the visible weights are 0 before "
    "you divide: hide the scores before the softmax.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    weights = scores.softmax(dim=-1) * mask
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-9)


@masked_softmax.mistake(
    "a number that half precision doesn't have",
    "In float32 this is right, but half precision rounds a number such as 1e-9 to 0, and turns one such as -1e9 into "
    "minus infinity. Where nothing is visible, your code then divides 0 by 0. Use the lowest number of the scores' own "
    "dtype: with finite scores, PyTorch's softmax never divides by 0.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~mask, lowest).softmax(dim=-1) * mask
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-9)


@masked_softmax.mistake(
    "softmax over an axis counted from the front",
    "This works for a single matrix, but in a batch axis 1 isn't the keys. Count the axis from the end.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=1)
    return weights.masked_fill(~mask, 0.0)


@masked_softmax.mistake(
    "hidden scores of zero in the sum",
    "You set hidden scores to 0, or nearly so. Their exponentials are 1 and are part of the sum, so the other weights "
    "are too small, although you remove the hidden ones in the end.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, 0.0).softmax(dim=-1).masked_fill(~mask, 0.0)


# 5 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"target": torch.tensor([[1, 5, 6, 2]])},
    {"target": torch.tensor([[1, 5, 6, 7, 2], [1, 8, 9, 2, 0]])},
    results=("decoder_input", "expected"),
)
def shift_target(target: Tensor) -> tuple[Tensor, Tensor]:
    """What the decoder reads, and what it should say."""
    return target[:, :-1], target[:, 1:]


@shift_target.mistake(
    "the two results are swapped",
    "Your decoder reads the labels and has to predict its input. The input is the one that starts with bos.",
)
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return target[:, 1:], target[:, :-1]


@shift_target.mistake(
    "not shifted",
    "Input and labels are the same, so the decoder only has to copy. At each position, the label should be the next "
    "token.",
)
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return target[:, :-1], target[:, :-1]


@shift_target.mistake(
    "not shifted, and without bos",
    "Input and labels are the same and start after bos, so the decoder only has to copy. The input should start with "
    "bos.",
)
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return target[:, 1:], target[:, 1:]


@shift_target.mistake(
    "both are the whole target",
    "Both results are the whole target. The last token is never an input, because nothing follows it, and the first "
    "is never a label.",
)
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return target, target


@shift_target.mistake("shifted by two", "Your labels are two tokens ahead of the input, so one token is skipped.")
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return target[:, :-2], target[:, 2:]


@shift_target.mistake(
    "rolled",
    "The shift is right, but rolling moves bos to the end, where it becomes a label. The model shouldn't learn to "
    "predict bos.",
)
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return target, target.roll(-1, dims=1)


@shift_target.mistake(
    "bos missing in the input",
    "The input should start with bos. Without it, the decoder has no position from which to predict the first word.",
)
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return target[:, 1:-1], target[:, 2:]


@shift_target.mistake(
    "shifted along the batch",
    "You leave out sentences instead of tokens. The first axis is the batch, the second the length.",
)
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return target[:-1], target[1:]


@shift_target.mistake(
    "bos and eos left out of both",
    "You cut off both ends both times. The decoder reads bos at the beginning, and at the end it should predict eos.",
)
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return target[:, 1:-1], target[:, 1:-1]


@shift_target.mistake(
    "rolled the wrong way",
    "You roll the target to the right, so each label is the token before. It should be the one after.",
)
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return target[:, :-1], target.roll(1, 1)[:, :-1]


@shift_target.mistake(
    "eos removed from the input",
    "You replace eos in the decoder's input. In shorter sentences it stays there: its label is padding, which "
    "doesn't count.",
)
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return torch.where(target == 2, 0, target)[:, :-1], target[:, 1:]


@shift_target.mistake(
    "padding replaced in the labels",
    "You replace the padding in the labels. Leave it as it is: the loss is told which id to ignore.",
)
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    labels = target[:, 1:]
    return target[:, :-1], torch.where(labels == 0, -100, labels)


@shift_target.mistake(
    "the whole target as input",
    "The decoder's input is one token too long: after the last token there is nothing left to predict.",
)
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return target, target[:, 1:]


# 6 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"ids": torch.tensor([[5, 6, 7]]), "embedding": numbers(8, 2), "pad_id": 0},
    {"ids": torch.tensor([[0, 5, 6, 7]]), "embedding": numbers(8, 2, seed=1), "pad_id": 0},
    {"ids": torch.tensor([[5, 6, 7, 8], [0, 0, 9, 4]]), "embedding": numbers(10, 4, seed=2), "pad_id": 0},
    {
        "ids": torch.tensor([[3, 3, 4, 5, 0], [1, 2, 0, 4, 3], [6, 7, 3, 0, 5]]),
        "embedding": numbers(8, 4, seed=3),
        "pad_id": 3,
    },
    {"ids": torch.tensor([[4]]), "embedding": numbers(6, 3, seed=4), "pad_id": 0},
    guard=forbid(ATTENTION, "There is something to repair here, so don't replace it: correct the code that is given."),
    insight="A leak lowers the training loss: it looks like progress until you test what each output depends on.",
)
def decoder_self_attention(ids: Tensor, embedding: Tensor, pad_id: int) -> Tensor:
    """Both masks, and attention with one head and without projections."""
    x = embedding[ids][:, None]  # (batch, 1 head, length, d_model)
    scores = x @ x.transpose(-2, -1) / x.size(-1) ** 0.5  # (batch, 1, length, length)
    real = (ids != pad_id)[:, None, None, :]
    length = ids.size(1)
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    mask = real & causal  # (batch, 1, length, length)
    scores = scores.masked_fill(~mask, -1e9)
    weights = scores.softmax(dim=-1) * mask  # all zero if there is nothing to attend to
    return (weights @ x)[:, 0]  # (batch, length, d_model)


add_bugs(
    decoder_self_attention,
    Bug(
        "the outputs aren't weighted averages",
        "Let `embedding` be `torch.ones(10, 4)`, and use a sentence without padding. Each output is a weighted average "
        "of equal vectors, so it should consist of ones. Which outputs are too small, and which keys got the weight "
        "that they lack?",
        "-1e9",
        "-1e-9",
    ),
    Bug(
        "outputs depend on the future",
        "Replace the last token of a sentence without padding by another one. No earlier output should change, but one "
        "does. Which one, and which cell of the mask lets its query see that token?",
        "tril()",
        "tril(diagonal=1)",
        (
            WrongRepair(
                "off by one: a position can't attend to itself",
                "A position can no longer attend to the next one, but not to itself either. Give the function a single "
                "token: its output should be its own vector.",
                "tril(diagonal=-1)",
            ),
            WrongRepair(
                "the wrong triangle",
                "Each position now attends to itself and to later ones. Replace the first token of a sentence by "
                "another one: all outputs should change.",
                "triu()",
            ),
        ),
    ),
    Bug(
        "outputs depend on padding",
        "Put two padding tokens in front of a sentence. The outputs of its words should stay the same, but they "
        "change. Print the mask of this sentence: which cells should be False, but aren't?",
        "[:, None, None, :]",
        "[:, None, :, None]",
        (
            WrongRepair(
                "the axis of the heads is missing in the mask",
                "The scores have the shape (batch, heads, query, key). Your mask has one axis less, so its sentences "
                "line up with the heads, and every sentence gets the mask of the first one. Batches of one sentence "
                "don't show this.",
                "[:, None]",
            ),
        ),
    ),
)


@decoder_self_attention.symptom
def _(wrong: Sequence[Wrong]) -> Finding | None:
    if not all(is_tensor(case.yours) and case.yours.shape == case.expected.shape for case in wrong):
        return None
    if any(case.yours.isnan().any() for case in wrong) and not any(case.yours.isnan().all() for case in wrong):
        return Finding(
            "NaN where a query has nothing to attend to",
            "Padding in front of a sentence has nothing to attend to, for example. If all scores of a row are minus "
            "infinity, or if you divide a row by the sum of its weights, then 0 is divided by 0. Use a low score that "
            "is finite.",
        )
    if any(_are_words_zero(case) for case in wrong):
        return Finding(
            "the outputs of some words are zero",
            "All the weights of these words are 0, but each word may attend at least to itself. Print the mask, the "
            "scores and the weights of a short sentence. Where does the weight get lost?",
        )
    return None


def _are_words_zero(case: Wrong) -> bool:
    """Return whether the output of a token that isn't padding consists of zeros."""
    are_words = case.inputs["ids"] != case.inputs["pad_id"]
    return bool((case.yours[are_words] == 0).all(dim=-1).any())


def _decoder_self_attention(ids: Tensor, embedding: Tensor, mask: Tensor) -> Tensor:
    """The outputs with another mask, of the shape (batch, heads, length, length)."""
    x = embedding[ids][:, None]
    scores = x @ x.transpose(-2, -1) / x.size(-1) ** 0.5
    return ((scores.masked_fill(~mask, -1e9).softmax(dim=-1) * mask) @ x)[:, 0]


@decoder_self_attention.mistake(
    "a query with nothing to attend to gets an average",
    "A padding token in front of a sentence has nothing to attend to. All its scores are equally low, so the softmax "
    "gives all keys the same weight. These weights should be 0, and the factor in the given code made them 0.",
)
def _(ids: Tensor, embedding: Tensor, pad_id: int) -> Tensor:
    x, hidden = embedding[ids], ~masks.target_mask(ids, pad_id)[:, 0]
    return (x @ x.mT / x.size(-1) ** 0.5).masked_fill(hidden, -1e9).softmax(dim=-1) @ x


@decoder_self_attention.mistake(
    "the mask acts only after the softmax",
    "Hidden keys get the weight 0, but their scores are part of the sum that the softmax divides by, so the other "
    "weights don't add up to 1. Hide the scores before the softmax.",
)
def _(ids: Tensor, embedding: Tensor, pad_id: int) -> Tensor:
    x, mask = embedding[ids], masks.target_mask(ids, pad_id)[:, 0]
    return ((x @ x.mT / x.size(-1) ** 0.5).softmax(dim=-1) * mask) @ x


@decoder_self_attention.mistake(
    "the queries of padding are hidden as well",
    "Padding is hidden as a key, and that is right, but its own queries can't attend to anything either. A mask "
    "shows which keys a query may attend to, and the outputs of padding aren't used anyway.",
)
def _(ids: Tensor, embedding: Tensor, pad_id: int) -> Tensor:
    queries = masks.padding_mask(ids, pad_id).transpose(-2, -1)
    return _decoder_self_attention(ids, embedding, masks.target_mask(ids, pad_id) & queries)
