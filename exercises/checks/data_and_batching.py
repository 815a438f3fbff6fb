"""Checks of 09 data and batches (§3.1, §5.1)."""

import random
from collections import Counter
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from exercises.check import Topic
from transformer.data.batching import Sequences, collate
from transformer.data.cleaning import Cleaner, CleaningConfig
from transformer.data.readers import SentencePair
from transformer.data.tokenizer import BOS, EOS, PAD

topic = Topic()
check, given = topic.check, topic.given

Rows = list[list[int]]
Order = Callable[[int], list[int]]


# 1 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"pairs": [("Good day", "Guten Tag"), ("Good day", "")], "max_words": 5, "max_ratio": 2.0},
    {"pairs": [(" ", "Ja"), ("Yes", "Ja")], "max_words": 5, "max_ratio": 2.0},
    {
        "pairs": [
            ("It is late", "Es ist spät"),
            ("It is very late", "Es ist spät"),
            ("It rains", "Es regnet sehr oft"),
        ],
        "max_words": 3,
        "max_ratio": 2.0,
    },
    {
        "pairs": [
            ("No", "Überhaupt nicht"),
            ("Stop", "Halt sofort an"),
            ("Will you please come in", "Herein bitte"),
            ("The vote is now over", "Beendet"),
        ],
        "max_words": 9,
        "max_ratio": 2.0,
    },
    {
        "pairs": [
            ("Page 3", "Page 3"),
            ("Page 4", " Page  4"),
            (" So be it ", "So  sei es"),
            ("Help", "HELP"),
            ("Kim Min", "Min Kim"),
        ],
        "max_words": 9,
        "max_ratio": 3.0,
    },
    {
        "pairs": [
            ("Hello", "Hallo"),
            ("Hello", "Hallo"),
            ("Good day", "Guten Tag"),
            ("Hello", "Hallo"),
            ("Hello", "Servus"),
            ("Hi", "Hallo"),
            ("Good  day", "Guten Tag"),
        ],
        "max_words": 9,
        "max_ratio": 3.0,
    },
)
def clean_pairs(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    """What the package's filters let through, that for control characters left out."""
    config = CleaningConfig(drop_control=False, max_words=max_words, max_ratio=max_ratio)
    return list(Cleaner(config).clean(pairs))


def _n_words(side: str) -> int:
    return len(side.split())


def _has_nothing(side: str) -> bool:
    return not side.split()


def _equal(source: str, target: str) -> bool:
    return source.split() == target.split()


def _kept(
    pairs: list[SentencePair],
    long: Callable[[int, int], bool],
    uneven: Callable[[int, int], bool],
    *,
    size: Callable[[str], int] = _n_words,
    empty: Callable[[str], bool] = _has_nothing,
    equal: Callable[[str, str], bool] = _equal,
) -> list[SentencePair]:
    """Pairs without a fault, duplicates and all; the sizes of the two sides go to ``long`` and ``uneven``."""
    kept = []
    for source, target in pairs:
        sizes = size(source), size(target)
        if not (empty(source) or empty(target) or long(*sizes) or uneven(*sizes) or equal(source, target)):
            kept.append((source, target))
    return kept


def _once(pairs: list[SentencePair]) -> list[SentencePair]:
    return list(dict.fromkeys(pairs))


def _longer_than(limit: int) -> Callable[[int, int], bool]:
    return lambda a, b: max(a, b) > limit


def _uneven_by(ratio: float) -> Callable[[int, int], bool]:
    return lambda a, b: max(a, b) / min(a, b) > ratio


@clean_pairs.mistake(
    "white space passes for a sentence",
    "It stops at a side that holds a blank and no word, and so has the length 0. Is it as empty as the other ones?",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, _longer_than(max_words), _uneven_by(max_ratio), empty=lambda side: side == ""))


@clean_pairs.mistake(
    "cut at every blank",
    "Two blanks in a row make one word more for you, an empty one, and a side of white space has words too. White "
    "space of any length is one border.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(
        _kept(
            pairs,
            _longer_than(max_words),
            _uneven_by(max_ratio),
            size=lambda side: len(side.split(" ")) if side else 0,
            empty=lambda side: side == "",
            equal=lambda s, t: s.split(" ") == t.split(" "),
        )
    )


@clean_pairs.mistake(
    "characters counted",
    "You measure in characters. Both limits are meant for words: what stands between white space.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, _longer_than(max_words), _uneven_by(max_ratio), size=len))


@clean_pairs.mistake(
    "the longest that is allowed is dropped",
    "A side of exactly max_words is lost. The rule is for those that have more.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, _longer_than(max_words - 1), _uneven_by(max_ratio)))


@clean_pairs.mistake(
    "only the source is measured",
    "A source that is too long is dropped, a target that is too long stays. The rule is for either side.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, lambda a, b: a > max_words, _uneven_by(max_ratio)))


@clean_pairs.mistake(
    "both sides must be too long",
    "A pair with one side that is too long stays. One is enough to fill the memory.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, lambda a, b: min(a, b) > max_words, _uneven_by(max_ratio)))


@clean_pairs.mistake(
    "the largest ratio that is allowed is dropped",
    "A pair with exactly max_ratio is lost. The rule is for those that have more.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, _longer_than(max_words), lambda a, b: max(a, b) / min(a, b) >= max_ratio))


@clean_pairs.mistake(
    "the ratio has one direction",
    "A source that is much longer than its target is dropped, a target that is much longer than its source stays. "
    "A sentence can be missing on either side.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, _longer_than(max_words), lambda a, b: a / b > max_ratio))


@clean_pairs.mistake(
    "the ratio has the other direction",
    "A target that is much longer than its source is dropped, a source that is much longer than its target stays. "
    "A sentence can be missing on either side.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, _longer_than(max_words), lambda a, b: b / a > max_ratio))


@clean_pairs.mistake(
    "a ratio in whole numbers",
    "Five words to two pass for twice as many. Your division forgets what is behind the point.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, _longer_than(max_words), lambda a, b: max(a, b) // min(a, b) > max_ratio))


@clean_pairs.mistake(
    "copies stay",
    "Pairs whose two sides are the same stay. A model learns fast from them not to translate.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, _longer_than(max_words), _uneven_by(max_ratio), equal=lambda s, t: False))


@clean_pairs.mistake(
    "a blank more hides a copy",
    "Two sides with the same words stay where their white space differs. What the rule compares is the words.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, _longer_than(max_words), _uneven_by(max_ratio), equal=lambda s, t: s == t))


@clean_pairs.mistake(
    "capitals do not count",
    "You lose a pair whose sides are the same but for capitals. Here they are different words, as to a tokenizer.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    faults = _longer_than(max_words), _uneven_by(max_ratio)
    return _once(_kept(pairs, *faults, equal=lambda s, t: _equal(s.lower(), t.lower())))


@clean_pairs.mistake(
    "the order of the words does not count",
    "You lose a pair whose sides have the same words in another order. That is no copy.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    faults = _longer_than(max_words), _uneven_by(max_ratio)
    return _once(_kept(pairs, *faults, equal=lambda s, t: sorted(s.split()) == sorted(t.split())))


@clean_pairs.mistake(
    "the sentences come back changed",
    "The right pairs stay, but you have tidied their white space. A filter takes or leaves; it does not edit.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return [(" ".join(s.split()), " ".join(t.split())) for s, t in clean_pairs.reference(pairs, max_words, max_ratio)]


@clean_pairs.mistake(
    "duplicates stay",
    "A pair that was kept before is kept again.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _kept(pairs, _longer_than(max_words), _uneven_by(max_ratio))


@clean_pairs.mistake(
    "duplicates stay unless they are neighbours",
    "You compare a pair with the one before it. The same pair may have come a million lines earlier.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    kept = _kept(pairs, _longer_than(max_words), _uneven_by(max_ratio), equal=lambda s, t: False)
    kept = [pair for i, pair in enumerate(kept) if i == 0 or pair != kept[i - 1]]
    return [(s, t) for s, t in kept if s.split() != t.split()]


@clean_pairs.mistake(
    "every copy of a duplicate is dropped",
    "Where a pair comes twice, you drop it twice. The first time it was as good as any.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    kept = _kept(pairs, _longer_than(max_words), _uneven_by(max_ratio))
    return [pair for pair in kept if Counter(kept)[pair] == 1]


@clean_pairs.mistake(
    "the same words taken for the same pair",
    "For you two pairs are the same as soon as their words are. Here the strings themselves have to be equal.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    first: dict[str, SentencePair] = {}
    for source, target in clean_pairs.reference(pairs, max_words, max_ratio):
        first.setdefault(f"{source.split()} {target.split()}", (source, target))
    return list(first.values())


@clean_pairs.mistake(
    "a source may not come again",
    "A sentence that has two translations keeps only its first. Both are true; what may not come again is the pair.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    first: dict[str, SentencePair] = {}
    for pair in clean_pairs.reference(pairs, max_words, max_ratio):
        first.setdefault(pair[0], pair)
    return list(first.values())


@clean_pairs.mistake(
    "no sentence may come again",
    "A pair is lost when either of its sentences came before. What may not come again is the two together.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    seen: set[str] = set()
    kept = []
    for pair in clean_pairs.reference(pairs, max_words, max_ratio):
        if not seen & set(pair):
            seen |= set(pair)
            kept.append(pair)
    return kept


@clean_pairs.mistake("the dropped ones", "These are the pairs to be left out. The others are asked for.")
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    dropped = list(pairs)
    for pair in clean_pairs.reference(pairs, max_words, max_ratio):
        dropped.remove(pair)
    return dropped


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"sources": [[5, 6]], "targets": [[7, 8, 9]]},
    {"sources": [[5], [6, 7, 8]], "targets": [[9, 4], [5]]},
    {"sources": [[4, 5, 6, 7], [8], [9, 9]], "targets": [[5, 4], [6, 7, 8, 9, 4], [7]]},
    results=("source", "decoder_input", "labels"),
)
def training_batch(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """The package's batch."""
    batch = collate(Sequences.pack(sources), Sequences.pack(targets), range(len(sources)))
    return batch.source, batch.decoder_input, batch.labels


def _padded(rows: Rows, width: int = 0, in_front: bool = False, fill: int = PAD) -> Tensor:
    """Rows filled up, to the longest or further."""
    width = max(width, *map(len, rows))
    filled = [[fill] * (width - len(row)) + row if in_front else row + [fill] * (width - len(row)) for row in rows]
    return torch.tensor(filled)


def _ended(rows: Rows) -> Rows:
    return [[*row, EOS] for row in rows]


def _begun(rows: Rows) -> Rows:
    return [[BOS, *row] for row in rows]


@training_batch.mistake(
    "not shifted",
    "The decoder reads just what it should say. It would learn to copy, and its loss would look wonderful.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return _padded(_ended(sources)), _padded(_ended(targets)), _padded(_ended(targets))


@training_batch.mistake(
    "the first word is not asked for",
    "What the decoder should say begins with the second word, though it has read no more than bos. Who asks for the "
    "first?",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return _padded(_ended(sources)), _padded(_begun(targets)), _padded(_ended([row[1:] for row in targets]))


@training_batch.mistake(
    "nothing to begin with",
    "The decoder reads the target and no bos. What has it read when it is asked for the first word?",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return _padded(_ended(sources)), _padded(targets), _padded(_ended(targets))


@training_batch.mistake(
    "the source does not end",
    "The targets are right. The source needs its eos as well: the encoder is used to it.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return _padded(sources), _padded(_begun(targets)), _padded(_ended(targets))


@training_batch.mistake(
    "the target does not end",
    "Nobody is asked for eos, so the model cannot learn to stop.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    decoder_input = _padded(_begun(targets))
    return _padded(_ended(sources)), decoder_input, _padded(targets, decoder_input.size(1))


@training_batch.mistake(
    "a question too few",
    "Your target rows are as long as the sentence. Six words pose seven questions: the seventh is what comes behind "
    "the last word.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return _padded(_ended(sources)), _padded(_begun([row[:-1] for row in targets])), _padded(targets)


@training_batch.mistake(
    "a question too many",
    "The decoder reads eos as well, so its rows are longer than what it should say. Behind eos nothing is asked.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return _padded(_ended(sources)), _padded(_begun(_ended(targets))), _padded(_ended(targets))


@training_batch.mistake(
    "filled up with eos",
    "You fill up with eos. Each of them would count in the loss as something to be said; padding does not.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    rows = _ended(sources), _begun(targets), _ended(targets)
    source, decoder_input, labels = (_padded(r, fill=EOS) for r in rows)
    return source, decoder_input, labels


@training_batch.mistake(
    "bos in front of the source",
    "The source begins with bos. Only the decoder needs it, which has to read something before the first word.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return _padded(_begun(_ended(sources))), _padded(_begun(targets)), _padded(_ended(targets))


@training_batch.mistake(
    "the decoder reads the end of short sentences",
    "You cut the last column off. In the longest row that is eos, in shorter ones padding, and their eos stays in "
    "what the decoder reads. Nothing is asked behind it, so no loss would tell you; but it is not what the card says.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    both = _padded(_begun(_ended(targets)))
    return _padded(_ended(sources)), both[:, :-1], both[:, 1:]


@training_batch.mistake(
    "the whole row, twice",
    "Both target rows hold bos, the sentence and eos. That is one token too many in each, and nothing is shifted.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    both = _padded(_begun(_ended(targets)))
    return _padded(_ended(sources)), both, both


@training_batch.mistake(
    "padding in front",
    "The padding stands in front, so words stand at other positions than in a batch by themselves. Put it at the end.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    rows = _ended(sources), _begun(targets), _ended(targets)
    source, decoder_input, labels = (_padded(r, in_front=True) for r in rows)
    return source, decoder_input, labels


@training_batch.mistake(
    "eos behind the padding",
    "You fill up first and put eos behind. It belongs right behind the last word: what follows it is padding.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    source, labels = ([[*row, EOS] for row in _padded(rows).tolist()] for rows in (sources, targets))
    return torch.tensor(source), _padded(_begun(targets)), torch.tensor(labels)


@training_batch.mistake(
    "one width for all",
    "Source and target are padded to the same width. They are two rectangles, each as wide as its own longest row.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    width = max(map(len, _ended([*sources, *targets])))
    return _padded(_ended(sources), width), _padded(_begun(targets), width), _padded(_ended(targets), width)


@training_batch.mistake(
    "cut to the shortest",
    "Every row is cut to the shortest of its batch. None of their words may be lost.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    def cut(rows: Rows) -> Tensor:
        return torch.tensor([row[: min(map(len, rows))] for row in rows])

    return cut(_ended(sources)), cut(_begun(targets)), cut(_ended(targets))


@training_batch.mistake(
    "swapped",
    "What the decoder reads and what it should say have changed places.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    source, decoder_input, labels = training_batch.reference(sources, targets)
    return source, labels, decoder_input


# 3 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"lengths": [2, 4, 3], "batches": [[0, 1], [2]]},
    {"lengths": [5, 5], "batches": [[1, 0]]},
    {"lengths": [7, 1, 3, 3, 8, 2], "batches": [[1, 5], [4, 2, 3], [0]]},
)
def padding_share(lengths: list[int], batches: Rows) -> float:
    """One less the share of tokens."""
    return 1 - sum(lengths) / _cells(lengths, batches)


def _cells(lengths: list[int], batches: Rows) -> int:
    return sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)


@padding_share.mistake("the share of tokens", "That is how much is not padding.")
def _(lengths: list[int], batches: Rows) -> float:
    return sum(lengths) / _cells(lengths, batches)


@padding_share.mistake("a count", "That is how many cells are padding. How many are there in all?")
def _(lengths: list[int], batches: Rows) -> float:
    return _cells(lengths, batches) - sum(lengths)


@padding_share.mistake(
    "for each token",
    "You divide the padding by the tokens. A share is a share of the whole: of all cells, empty or not.",
)
def _(lengths: list[int], batches: Rows) -> float:
    return _cells(lengths, batches) / sum(lengths) - 1


@padding_share.mistake(
    "a mean of shares",
    "You take the mean of the batches' shares. A batch with few cells then counts as much as one with many.",
)
def _(lengths: list[int], batches: Rows) -> float:
    shares = [1 - sum(lengths[i] for i in batch) / _cells(lengths, [batch]) for batch in batches]
    return sum(shares) / len(shares)


@padding_share.mistake(
    "one width for all batches",
    "Every batch is as wide for you as the longest sentence of all. Each has a longest sentence of its own.",
)
def _(lengths: list[int], batches: Rows) -> float:
    return 1 - sum(lengths) / (len(lengths) * max(lengths))


@padding_share.mistake(
    "numbers of sentences for lengths",
    "A batch holds the numbers of its sentences. You take the largest of them for the longest sentence.",
)
def _(lengths: list[int], batches: Rows) -> float:
    cells = sum(len(batch) * max(batch) for batch in batches)
    return 1 - sum(lengths) / cells


@padding_share.mistake(
    "one row a batch",
    "For each batch you count the cells of one row. It has as many rows as sentences.",
)
def _(lengths: list[int], batches: Rows) -> float:
    return 1 - sum(lengths) / sum(max(lengths[i] for i in batch) for batch in batches)


@padding_share.mistake("per cent", "That is in per cent. A share of one half is 0.5.")
def _(lengths: list[int], batches: Rows) -> float:
    return 100 * padding_share.reference(lengths, batches)


# 4 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"lengths": [3, 1, 3], "budget": 8},
    {"lengths": [2, 2, 2, 2], "budget": 4},
    {"lengths": [9, 7], "budget": 6},
    {"lengths": [5, 2, 4, 2, 9], "budget": 8},
    {"lengths": random.Random(0).choices(range(2, 31), k=40), "budget": 60},
)
def batches_by_tokens(lengths: list[int], budget: int) -> Rows:
    """Shortest first, as many as fit."""
    return _cut(lengths, lambda batch, i: (len(batch) + 1) * lengths[i] > budget)


def _by_length(lengths: list[int]) -> list[int]:
    return sorted(range(len(lengths)), key=lengths.__getitem__)


def _cut(lengths: list[int], full: Callable[[list[int], int], bool], order: Sequence[int] | None = None) -> Rows:
    """Cut the order, by length or another, before each sentence for which the batch so far is full."""
    first, *others = _by_length(lengths) if order is None else order
    batches = [[first]]
    for i in others:
        if full(batches[-1], i):
            batches.append([i])
        else:
            batches[-1].append(i)
    return batches


@batches_by_tokens.mistake(
    "padding is free",
    "You add up the lengths. The rectangle has more cells than that: it is as wide in every row as in its longest.",
)
def _(lengths: list[int], budget: int) -> Rows:
    return _cut(lengths, lambda batch, i: sum(lengths[j] for j in [*batch, i]) > budget)


@batches_by_tokens.mistake(
    "a budget of sentences",
    "Your batches have so many sentences. The budget is one of cells: rows times width.",
)
def _(lengths: list[int], budget: int) -> Rows:
    return _cut(lengths, lambda batch, i: len(batch) + 1 > budget)


@batches_by_tokens.mistake(
    "never quite full",
    "A batch that has exactly the budget is one too large for you. At most means that it may.",
)
def _(lengths: list[int], budget: int) -> Rows:
    return _cut(lengths, lambda batch, i: (len(batch) + 1) * lengths[i] >= budget)


@batches_by_tokens.mistake(
    "the newcomer's length is not looked at",
    "You measure the width before the next sentence is in. It is the longest so far, and makes all rows wider.",
)
def _(lengths: list[int], budget: int) -> Rows:
    return _cut(lengths, lambda batch, i: (len(batch) + 1) * lengths[batch[-1]] > budget)


@batches_by_tokens.mistake(
    "the newcomer's row is not counted",
    "You count the rows before the next sentence is in. With it there is one more.",
)
def _(lengths: list[int], budget: int) -> Rows:
    return _cut(lengths, lambda batch, i: len(batch) * lengths[i] > budget)


@batches_by_tokens.mistake(
    "over the budget by one",
    "You close a batch once it has reached the budget, and by then it may have passed it. Ask before you put a "
    "sentence in.",
)
def _(lengths: list[int], budget: int) -> Rows:
    return _cut(lengths, lambda batch, i: len(batch) * lengths[batch[-1]] >= budget)


@batches_by_tokens.mistake(
    "as they come",
    "You take the sentences in the order in which they come. Sort them first, or most of a batch will be padding.",
)
def _(lengths: list[int], budget: int) -> Rows:
    def full(batch: list[int], i: int) -> bool:
        return (len(batch) + 1) * max(lengths[j] for j in [*batch, i]) > budget

    return _cut(lengths, full, range(len(lengths)))


@batches_by_tokens.mistake(
    "longest first",
    "You begin with the longest. The budget holds, but begin with the shortest here, or the two cannot be compared.",
)
def _(lengths: list[int], budget: int) -> Rows:
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    return _cut(lengths, lambda batch, i: (len(batch) + 1) * lengths[batch[0]] > budget, order)


@batches_by_tokens.mistake(
    "places in the sorted list",
    "Your numbers say where a sentence stands after sorting. Asked is which one it was: its place in lengths.",
)
def _(lengths: list[int], budget: int) -> Rows:
    return batches_by_tokens.reference(sorted(lengths), budget)


@batches_by_tokens.mistake(
    "lengths, not numbers",
    "The batches are right, but hold the lengths of the sentences. Which ones are they?",
)
def _(lengths: list[int], budget: int) -> Rows:
    return [[lengths[i] for i in batch] for batch in batches_by_tokens.reference(lengths, budget)]


@batches_by_tokens.mistake("the last batch is missing", "When the sentences are out, a batch is still in your hands.")
def _(lengths: list[int], budget: int) -> Rows:
    return batches_by_tokens.reference(lengths, budget)[:-1]


@batches_by_tokens.mistake(
    "too long, so left out",
    "Sentences longer than the budget are gone. Each of them should have a batch of its own.",
)
def _(lengths: list[int], budget: int) -> Rows:
    batches = batches_by_tokens.reference(lengths, budget)
    return [batch for batch in batches if lengths[batch[0]] <= budget]


@batches_by_tokens.mistake(
    "an empty batch",
    "You close a batch that holds nothing yet, where the very first sentence is too long.",
)
def _(lengths: list[int], budget: int) -> Rows:
    return [[]] * (min(lengths) > budget) + batches_by_tokens.reference(lengths, budget)


@batches_by_tokens.mistake(
    "one is lost at each border",
    "The sentence that no longer fits is in no batch at all. It should be the first of the next one.",
)
def _(lengths: list[int], budget: int) -> Rows:
    batches: Rows = []
    batch: list[int] = []
    for i in _by_length(lengths):
        if batch and (len(batch) + 1) * lengths[i] > budget:
            batches.append(batch)
            batch = []
        else:
            batch.append(i)
    return [*batches, batch]


# 5 --------------------------------------------------------------------------------------------------------------------


def _bounded(epoch: int) -> None:
    """Ends a loop that reads on for ever."""
    if epoch >= 100:
        raise ValueError(f"epoch {epoch} was not needed: does a loop never end?")


def three_batches(epoch: int) -> list[int]:
    """[2, 0, 1] in epoch 0, [1, 2, 0] in epoch 1, [0, 1, 2] in later ones"""
    _bounded(epoch)
    return [[2, 0, 1], [1, 2, 0]][epoch] if epoch < 2 else [0, 1, 2]


def four_or_two(epoch: int) -> list[int]:
    """[3, 1, 0, 2] in even epochs, [1, 0] in odd ones"""
    _bounded(epoch)
    return [1, 0] if epoch % 2 else [3, 1, 0, 2]


@topic.exercise(
    {"order": three_batches, "epoch": 0, "step": 1, "count": 2},
    {"order": three_batches, "epoch": 1, "step": 0, "count": 2},
    {"order": three_batches, "epoch": 0, "step": 2, "count": 3},
    {"order": three_batches, "epoch": 1, "step": 3, "count": 2},
    {"order": four_or_two, "epoch": 4, "step": 1, "count": 10},
)
def read_on(order: Order, epoch: int, step: int, count: int) -> list[int]:
    """Epoch after epoch, the first from the step on."""
    batches = order(epoch)[step:]
    while len(batches) < count:
        epoch += 1
        batches += order(epoch)
    return batches[:count]


@read_on.mistake(
    "the epoch from its start",
    "You begin the epoch again. What was read before the interruption would be read twice.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    return read_on.reference(order, epoch, 0, count)


@read_on.mistake(
    "the first epoch each time",
    "You go on in the order of epoch 0, whatever the position says.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    return read_on.reference(order, 0, step, count)


@read_on.mistake(
    "one skipped",
    "You begin one batch too late. The position is that of the next batch, not of the last one.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    return read_on.reference(order, epoch, step, count + 1)[1:]


@read_on.mistake(
    "one read twice",
    "You begin one batch too early. The position is that of the next batch, not of the last one.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    return read_on.reference(order, epoch, max(0, step - 1), count)


@read_on.mistake(
    "the end of an epoch is the end",
    "You stop where the epoch stops. Training goes on with the next one.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    return order(epoch)[step : step + count]


@read_on.mistake(
    "one more epoch, and no further",
    "You get over one border. There may be several on the way.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    return (order(epoch) + order(epoch + 1))[step : step + count]


@read_on.mistake(
    "the same order again",
    "When an epoch is over, you read it again in the same order. Each epoch has an order of its own.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    plan = order(epoch)
    return [plan[i % len(plan)] for i in range(step, step + count)]


@read_on.mistake(
    "every epoch from the same step",
    "The next epochs, too, begin at the step that you were given. It belongs to the first of them.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    batches: list[int] = []
    while len(batches) < count:
        batches += order(epoch)[step:]
        epoch += 1
    return batches[:count]


@read_on.mistake(
    "a batch is missing for each border",
    "Each new epoch costs you one of the count. To turn the page is not to read.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    batches = []
    for _ in range(count):
        if step == len(order(epoch)):
            epoch, step = epoch + 1, 0
            continue
        batches.append(order(epoch)[step])
        step += 1
    return batches


@read_on.mistake(
    "the last batch of an epoch is not read",
    "You turn to the next epoch while one batch is left.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    batches = order(epoch)[step:-1]
    while len(batches) < count:
        epoch += 1
        batches += order(epoch)[:-1]
    return batches[:count]


@read_on.mistake(
    "a position at the very end",
    "It stops where the position stands behind the last batch of its epoch. That is what a checkpoint holds that was "
    "written just then. When should you look whether the epoch is over: after you have read, or before?",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    batches = []
    for _ in range(count):
        batches.append(order(epoch)[step])
        step += 1
        if step == len(order(epoch)):
            epoch, step = epoch + 1, 0
    return batches


@read_on.mistake(
    "all epochs equally long",
    "You count on as many batches in every epoch as in the first. Where lengths are shuffled before they are sorted, "
    "an epoch may have some more or less.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    length = len(order(epoch))
    return [order(epoch + i // length)[i % length] for i in range(step, step + count)]


@read_on.mistake(
    "past the end of an epoch",
    "You ask an epoch for a batch behind its last one: your step counts on and on. Where does a reader stand when a "
    "new epoch begins?",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    batches = []
    for _ in range(count):
        if step >= len(order(epoch)):
            epoch += 1
        batches.append(order(epoch)[step])
        step += 1
    return batches
