"""Checks of 04 masking (§3.2.3, §3.1)."""

import torch
from torch import Tensor

from exercises.check import Topic
from transformer import masks

topic = Topic()
check, given = topic.check, topic.given

IDS = torch.tensor([[5, 6, 0]])
TWO_SENTENCES = torch.tensor([[5, 6, 7, 8], [9, 4, 0, 0]])
OTHER_PAD = {"ids": torch.tensor([[0, 4, 1, 1], [7, 0, 5, 1], [6, 6, 6, 6]]), "pad_id": 1}


# 1 --------------------------------------------------------------------------------------------------------------------


@topic.exercise({"ids": IDS, "pad_id": 0}, {"ids": TWO_SENTENCES, "pad_id": 0}, OTHER_PAD)
def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    """The package's padding mask."""
    return masks.padding_mask(ids, pad_id)


@padding_mask.mistake("inverted", "Your mask is True where padding is. Here True means: this may be looked at.")
def _(ids: Tensor, pad_id: int) -> Tensor:
    return ~masks.padding_mask(ids, pad_id)


@padding_mask.mistake(
    "pad id taken for granted",
    "It is right as long as padding happens to be 0. In another vocabulary it is another id: the second argument "
    "says which.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.padding_mask(ids, 0)


@padding_mask.mistake(
    "ids below the pad id hidden too",
    "You hide every id up to pad_id. Only one id is padding; the smaller ones are tokens like any other.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return (ids > pad_id)[:, None, None, :]


@padding_mask.mistake(
    "queries instead of keys",
    "Your mask varies along the rows, so it says which positions may look. It should say which may be looked at, "
    "and those are the columns.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return (ids != pad_id)[:, None, :, None]


@padding_mask.mistake(
    "queries hidden as well",
    "A padded position may look where it likes: nobody reads its output. A row of False only makes trouble in the "
    "softmax.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    real = ids != pad_id
    return (real[:, :, None] & real[:, None, :])[:, None]


@padding_mask.mistake(
    "axes missing",
    "The entries are right. But it must stand beside scores of shape (batch, heads, query, key), and broadcasting "
    "lines axes up from the end: yours would put the batch where the queries are.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return ids != pad_id


@padding_mask.mistake(
    "one axis missing",
    "The entries are right. But beside scores of shape (batch, heads, query, key) your batch would stand where "
    "the heads are.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return (ids != pad_id)[:, None, :]


@padding_mask.mistake(
    "numbers to add, not True and False",
    "This is a mask of another convention, whose numbers are added to the scores. Here a mask is boolean: True "
    "means may attend.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return torch.zeros(ids.shape).masked_fill(ids == pad_id, -torch.inf)[:, None, None, :]


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise({"length": 3}, {"length": 1}, {"length": 5})
def causal_mask(length: int) -> Tensor:
    """The package's causal mask."""
    return masks.causal_mask(length)


@causal_mask.mistake(
    "sees only the future",
    "Each of your rows allows itself and what comes later. It should be itself and what came before.",
)
def _(length: int) -> Tensor:
    return masks.causal_mask(length).transpose(-2, -1)


@causal_mask.mistake("inverted", "Your mask is True just where a position must not look. Here True means: may attend.")
def _(length: int) -> Tensor:
    return ~masks.causal_mask(length)


@causal_mask.mistake(
    "off by one: a position does not see itself",
    "The diagonal is False, so the first position sees nothing at all. The decoder reads the target shifted by "
    "one already, so a position may see itself.",
)
def _(length: int) -> Tensor:
    return torch.ones(1, 1, length, length, dtype=torch.bool).tril(-1)


@causal_mask.mistake(
    "off by one: a position sees the next one",
    "Each position sees one further than itself: that is the very token it has to guess.",
)
def _(length: int) -> Tensor:
    return torch.ones(1, 1, length, length, dtype=torch.bool).tril(1)


@causal_mask.mistake("nothing hidden", "All of it is True: every position sees the future.")
def _(length: int) -> Tensor:
    return torch.ones(1, 1, length, length, dtype=torch.bool)


@causal_mask.mistake("only itself", "Only the diagonal is True. A position may see what came before it as well.")
def _(length: int) -> Tensor:
    return torch.eye(length, dtype=torch.bool)[None, None]


@causal_mask.mistake(
    "numbers to add, not True and False",
    "This is a mask of another convention, whose numbers are added to the scores. Here a mask is boolean: True "
    "means may attend.",
)
def _(length: int) -> Tensor:
    return torch.full((1, 1, length, length), -torch.inf).triu(1)


@causal_mask.mistake(
    "ones and zeros, not True and False",
    "The triangle is right, but it holds floats. A mask is boolean here, so that ~ and & work on it.",
)
def _(length: int) -> Tensor:
    return masks.causal_mask(length).float()


@causal_mask.mistake(
    "axes missing",
    "The triangle is right. Give it the two axes in front that scores have, (batch, heads, query, key), each of "
    "length one.",
)
def _(length: int) -> Tensor:
    return masks.causal_mask(length)[0, 0]


# 3 --------------------------------------------------------------------------------------------------------------------


@topic.exercise({"ids": IDS, "pad_id": 0}, {"ids": TWO_SENTENCES, "pad_id": 0}, OTHER_PAD)
def target_mask(ids: Tensor, pad_id: int) -> Tensor:
    """The package's target mask."""
    return masks.target_mask(ids, pad_id)


@target_mask.mistake("padding only", "The padding is hidden, but every position still sees the future.")
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.padding_mask(ids, pad_id)


@target_mask.mistake(
    "padding only, for every query", "The padding is hidden, but every position still sees the future."
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.padding_mask(ids, pad_id).expand(-1, 1, ids.size(1), -1)


@target_mask.mistake("the future only", "The future is hidden, but padding can still be seen.")
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.causal_mask(ids.size(1)).expand(ids.size(0), -1, -1, -1)


@target_mask.mistake(
    "the future only, without the batch", "The future is hidden, but padding can still be seen: ids is not used."
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.causal_mask(ids.size(1))


@target_mask.mistake(
    "one of the two is enough",
    "A position is seen if one of the two masks allows it. When should it be seen? (Adding two boolean masks does "
    "this too.)",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.padding_mask(ids, pad_id) | masks.causal_mask(ids.size(1))


@target_mask.mistake("inverted", "Your mask is True where looking is forbidden. Here True means: may attend.")
def _(ids: Tensor, pad_id: int) -> Tensor:
    return ~masks.target_mask(ids, pad_id)


@target_mask.mistake(
    "the triangle is upside down",
    "The padding is hidden rightly. But the rest of each row is the future, where it should be the past.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.padding_mask(ids, pad_id) & masks.causal_mask(ids.size(1)).transpose(-2, -1)


@target_mask.mistake(
    "queries instead of keys",
    "Rows are empty where a padded position looks. It is the columns of padding that should be empty.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.padding_mask(ids, pad_id).transpose(-2, -1) & masks.causal_mask(ids.size(1))


@target_mask.mistake(
    "off by one: a position does not see itself",
    "The diagonal is False. A position may see itself, if it holds a token.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.padding_mask(ids, pad_id) & masks.causal_mask(ids.size(1)).tril(-1)


@target_mask.mistake(
    "pad id taken for granted",
    "It is right as long as padding happens to be 0. In another vocabulary it is another id: the second argument "
    "says which.",
)
def _(ids: Tensor, pad_id: int) -> Tensor:
    return masks.target_mask(ids, 0)


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
)
def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over what may be seen; zeros where that is nothing."""
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1).masked_fill(~mask, 0.0)


@masked_softmax.mistake(
    "NaN in empty rows",
    "It is right until a row may attend to nothing: then every score is -inf, and the softmax divides 0 by 0. "
    "Such a row should come out as zeros.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)


@masked_softmax.mistake(
    "empty rows attend to everything",
    "It is right until a row may attend to nothing: all its scores are equally low, and the softmax shares the "
    "weight out evenly. Such a row should come out as zeros.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)


@masked_softmax.mistake(
    "-1e9, and empty rows attend to everything",
    "Two things: half precision ends at 65504, so -1e9 is not in it: which number is low enough in every dtype? "
    "And a row that may attend to nothing should come out as zeros.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -1e9).softmax(dim=-1)


@masked_softmax.mistake(
    "-1e9 in half precision",
    "It is right in float32, but half precision ends at 65504. Which number is low enough in every dtype, and in it?",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -1e9).softmax(dim=-1).masked_fill(~mask, 0.0)


@masked_softmax.mistake(
    "mask inverted",
    "What should be hidden has all the weight, and what should be seen has none. True means: may attend.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(mask, torch.finfo(scores.dtype).min).softmax(dim=-1).masked_fill(mask, 0.0)


@masked_softmax.mistake(
    "masked after the softmax",
    "What is hidden has weight 0, but the rest of the row does not sum to one: it still shared with what is "
    "hidden. When must the mask act?",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.softmax(dim=-1) * mask


@masked_softmax.mistake(
    "masked after the softmax, and divided anew",
    "It is right until what is hidden scores far higher than what may be seen: then the softmax leaves nothing for the "
    "rest of the row, and nothing can be divided. When must the mask act?",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    weights = scores.softmax(dim=-1) * mask
    return (weights / weights.sum(dim=-1, keepdim=True)).nan_to_num()


@masked_softmax.mistake(
    "not low enough",
    "Your low number is not low beside every score: where what may be seen scores lower still, what is hidden takes "
    "the weight. Which number is the lowest of its dtype?",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -100.0).softmax(dim=-1).masked_fill(~mask, 0.0)


@masked_softmax.mistake(
    "hidden scores set to zero",
    "A score of 0 is no low score: e^0 is 1, so what is hidden still gets weight. How low must a score be to get none?",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return (scores * mask).softmax(dim=-1)


@masked_softmax.mistake(
    "mask added to the scores",
    "True counts as 1 here, so what may be seen scores one more, and nothing is hidden. A boolean mask chooses; "
    "it is not added.",
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return (scores + mask).softmax(dim=-1)


@masked_softmax.mistake(
    "softmax over the queries", "What is hidden has weight 0, but your columns sum to one, where the rows should."
)
def _(scores: Tensor, mask: Tensor) -> Tensor:
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-2)
    return weights.masked_fill(~mask, 0.0)


@masked_softmax.mistake("mask not used", "The scores go through a softmax, and nothing is hidden.")
def _(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.softmax(dim=-1)


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
    "the two are swapped",
    "You ask the decoder to say what it has just read, and let it read the answer. Which of the two starts with bos?",
)
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return target[:, 1:], target[:, :-1]


@shift_target.mistake(
    "not shifted",
    "Both are the same, so the decoder has to say the token it sees: copying would be enough. It has to say the "
    "next one.",
)
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return target[:, :-1], target[:, :-1]


@shift_target.mistake(
    "not shifted, and without bos",
    "Both are the same and start after bos: the decoder sees the token that it has to say.",
)
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return target[:, 1:], target[:, 1:]


@shift_target.mistake(
    "nothing left out",
    "Both are the whole target. The input has no use for the last token, and nobody has to say the first.",
)
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return target, target


@shift_target.mistake("shifted by two", "What you expect lies two tokens ahead: one is skipped.")
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return target[:, :-2], target[:, 2:]


@shift_target.mistake(
    "rolled round", "The shift is right, but bos comes round again at the end, where nobody should have to say it."
)
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return target, target.roll(-1, dims=1)


@shift_target.mistake(
    "bos and eos both cut off",
    "The input should still begin with bos: without it the decoder could not be asked for the first word.",
)
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return target[:, 1:-1], target[:, 2:]


@shift_target.mistake("shifted along the batch", "You leave out sentences, not tokens: the first axis is the batch.")
def _(target: Tensor) -> tuple[Tensor, Tensor]:
    return target[:-1], target[1:]
