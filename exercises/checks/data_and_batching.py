"""Checks of 09 data and batches (§3.1, §5.1)."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from zlib import crc32

import torch
from torch import Tensor

from exercises.bugs import Bug, WrongRepair, add_bugs
from exercises.check import Topic
from exercises.compare import equal
from exercises.errors import RefusedError
from exercises.relations import Finding, Wrong
from exercises.tensors import is_tensor
from transformer.data.batching import Sequences, collate
from transformer.data.cleaning import Cleaner, CleaningConfig
from transformer.data.readers import SentencePair
from transformer.data.tokenizer import BOS, EOS, PAD

topic = Topic()
check, given = topic.check, topic.given

Rows = list[list[int]]
Order = Callable[[int], list[int]]


# 1 --------------------------------------------------------------------------------------------------------------------


def _refuse_lists(clean: Callable[[list[SentencePair], int, float], list[SentencePair]]) -> str | None:
    """Return a message if a right answer turns the pairs, which are kept unchanged, into lists."""
    if all(isinstance(pair, tuple) for pair in clean([("Good day", "Guten Tag")], 9, 9.0)):
        return None
    return (
        "a list instead of a tuple\nThe right pairs are kept, but each of them is a list. Keep it as it was, a tuple."
    )


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
            ("We will have to wait for now", "Wir müssen eben warten"),
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
    look_closer=_refuse_lists,
)
def clean_pairs(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    """What the package's filters let through, that for control characters left out."""
    config = CleaningConfig(drop_control_characters=False, max_words=max_words, max_ratio=max_ratio)
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
    "whitespace counted as a sentence",
    "Your code stops with an error at a side that contains only whitespace: it isn't empty as a string, but it has no "
    "words. Rule 1 applies to it.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, _longer_than(max_words), _uneven_by(max_ratio), empty=lambda side: side == ""))


@clean_pairs.mistake(
    "split at every space",
    "You split at every single space, so two spaces in a row create an empty word. Whitespace of any length separates "
    "two words.",
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
    "an empty side counted as one word",
    'You split at every single space, and `"".split(" ")` is `[""]`, a list with one empty word. `split()` '
    "without an argument splits at whitespace of any length.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(
        _kept(
            pairs,
            _longer_than(max_words),
            _uneven_by(max_ratio),
            size=lambda side: len(side.split(" ")),
            empty=lambda side: False,
            equal=lambda s, t: s.split(" ") == t.split(" "),
        )
    )


@clean_pairs.mistake("characters counted instead of words", "You count characters. Both limits are in words.")
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, _longer_than(max_words), _uneven_by(max_ratio), size=len))


@clean_pairs.mistake(
    "sides of exactly max_words dropped", "You drop a side of exactly max_words words. Only longer ones should go."
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, _longer_than(max_words - 1), _uneven_by(max_ratio)))


@clean_pairs.mistake(
    "only the source length is limited",
    "You drop a pair if its source is too long, but not if its target is. The limit holds for both sides.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, lambda a, b: a > max_words, _uneven_by(max_ratio)))


@clean_pairs.mistake(
    "pairs dropped only if both sides are too long",
    "You keep a pair if only one of its sides is too long. One long side is enough to drop it.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, lambda a, b: min(a, b) > max_words, _uneven_by(max_ratio)))


@clean_pairs.mistake(
    "pairs of exactly max_ratio dropped",
    "You drop a pair whose ratio is exactly max_ratio. Only larger ratios should go.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, _longer_than(max_words), lambda a, b: max(a, b) / min(a, b) >= max_ratio))


@clean_pairs.mistake(
    "only long sources checked",
    "You drop a pair if the source is much longer than the target, but not the other way round. Compare the longer "
    "side with the shorter one.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, _longer_than(max_words), lambda a, b: a / b > max_ratio))


@clean_pairs.mistake(
    "only long targets checked",
    "You drop a pair if the target is much longer than the source, but not the other way round. Compare the longer "
    "side with the shorter one.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, _longer_than(max_words), lambda a, b: b / a > max_ratio))


@clean_pairs.mistake(
    "integer division in the ratio",
    "Your division rounds down, so five words against two count as a ratio of 2. Keep the fraction.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, _longer_than(max_words), lambda a, b: max(a, b) // min(a, b) > max_ratio))


@clean_pairs.mistake(
    "copies kept",
    "You keep pairs whose two sides have the same words. They teach a model to copy instead of translating.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, _longer_than(max_words), _uneven_by(max_ratio), equal=lambda s, t: False))


@clean_pairs.mistake(
    "copies with different whitespace kept",
    "You keep a copy if its whitespace differs. Rule 4 compares words, not strings.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, _longer_than(max_words), _uneven_by(max_ratio), equal=lambda s, t: s == t))


@clean_pairs.mistake(
    "copies compared without case",
    "You drop a pair whose sides differ only in capital letters. Rule 4 asks for the same words, and case counts.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    faults = _longer_than(max_words), _uneven_by(max_ratio)
    return _once(_kept(pairs, *faults, equal=lambda s, t: _equal(s.lower(), t.lower())))


@clean_pairs.mistake(
    "copies compared without word order",
    "You drop a pair whose sides have the same words in a different order. Rule 4 asks for the same order.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    faults = _longer_than(max_words), _uneven_by(max_ratio)
    return _once(_kept(pairs, *faults, equal=lambda s, t: sorted(s.split()) == sorted(t.split())))


@clean_pairs.mistake(
    "the sentences are changed",
    "You keep the right pairs, but you change their whitespace. Return each pair exactly as it was.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return [(" ".join(s.split()), " ".join(t.split())) for s, t in clean_pairs.reference(pairs, max_words, max_ratio)]


@clean_pairs.mistake("duplicates kept", "You keep a pair that was already kept before.")
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _kept(pairs, _longer_than(max_words), _uneven_by(max_ratio))


@clean_pairs.mistake(
    "only adjacent duplicates dropped",
    "You compare each pair only with the one before it. A duplicate may come much later, so remember all pairs that "
    "you kept.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    kept = _kept(pairs, _longer_than(max_words), _uneven_by(max_ratio), equal=lambda s, t: False)
    kept = [pair for i, pair in enumerate(kept) if i == 0 or pair != kept[i - 1]]
    return [(s, t) for s, t in kept if s.split() != t.split()]


@clean_pairs.mistake(
    "the first of the duplicates dropped as well", "If a pair occurs twice, you drop both. Keep the first."
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    kept = _kept(pairs, _longer_than(max_words), _uneven_by(max_ratio))
    return [pair for pair in kept if Counter(kept)[pair] == 1]


@clean_pairs.mistake(
    "duplicates compared by words",
    "You treat two pairs as duplicates if their words are the same. Rule 5 compares the strings, whitespace included.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    first: dict[str, SentencePair] = {}
    for source, target in clean_pairs.reference(pairs, max_words, max_ratio):
        first.setdefault(f"{source.split()} {target.split()}", (source, target))
    return list(first.values())


@clean_pairs.mistake(
    "repeated sources dropped",
    "If a sentence has two different translations, you keep only the first. Rule 5 drops a pair only if both of its "
    "sides are repeated.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    first: dict[str, SentencePair] = {}
    for pair in clean_pairs.reference(pairs, max_words, max_ratio):
        first.setdefault(pair[0], pair)
    return list(first.values())


@clean_pairs.mistake(
    "repeated sentences dropped",
    "You drop a pair if either of its sides occurred before. Rule 5 drops a pair only if both sides together are "
    "repeated.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    seen: set[str] = set()
    kept = []
    for pair in clean_pairs.reference(pairs, max_words, max_ratio):
        if not seen & set(pair):
            seen |= set(pair)
            kept.append(pair)
    return kept


@clean_pairs.symptom
def _(wrong: Sequence[Wrong]) -> Finding | None:
    if not all(isinstance(case.yours, list | tuple) for case in wrong):
        return None
    if all(Counter(map(repr, case.yours)) == Counter(map(repr, case.expected)) for case in wrong):
        return Finding(
            "the pairs in another order",
            "You keep the right pairs, but not in their original order. If you get rid of duplicates with a set: a set "
            "has no order. Use it only to look up what was kept before, and collect the pairs in a list.",
        )
    return None


@clean_pairs.mistake("the dropped pairs", "You return the pairs that should be dropped. Return the others.")
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    dropped = list(pairs)
    for pair in clean_pairs.reference(pairs, max_words, max_ratio):
        dropped.remove(pair)
    return dropped


@clean_pairs.mistake(
    "the difference instead of the ratio",
    "You subtract the numbers of words and compare the difference with max_ratio. A ratio is how many times as many "
    "words the longer side has.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    return _once(_kept(pairs, _longer_than(max_words), lambda a, b: abs(a - b) > max_ratio))


@clean_pairs.mistake(
    "lists of words returned",
    "You keep the right pairs, but return the words of each side as a list. Return each sentence exactly as it was.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[tuple[list[str], list[str]]]:
    words: list[tuple[list[str], list[str]]] = []
    for source, target in clean_pairs.reference(pairs, max_words, max_ratio):
        if (source.split(), target.split()) not in words:
            words.append((source.split(), target.split()))
    return words


@clean_pairs.mistake(
    "pairs removed from the list of the loop",
    "You remove pairs from the list that your loop runs through, so the pair after each of them is skipped. Collect "
    "the pairs that you keep in a new list.",
)
def _(pairs: list[SentencePair], max_words: int, max_ratio: float) -> list[SentencePair]:
    rest = list(pairs)
    for pair in rest:
        if not clean_pairs.reference([pair], max_words, max_ratio):
            rest.remove(pair)
    return _once(rest)


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"sources": [[5, 6]], "targets": [[7, 8, 9]]},
    {"sources": [[5], [6, 7, 8]], "targets": [[9, 4], [5]]},
    {"sources": [[4, 5, 6, 7], [8], [9, 9]], "targets": [[5, 4], [6, 7, 8, 9, 4], [7]]},
    results=("source", "decoder_input", "labels"),
    insight="Giving the decoder the true target, shifted by one position, is called teacher forcing.",
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
    "The decoder's input equals its labels, so it only has to copy. Its loss would look wonderful, and it would learn "
    "nothing.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return _padded(_ended(sources)), _padded(_ended(targets)), _padded(_ended(targets))


@training_batch.mistake(
    "the first label is missing",
    "Your labels start with the second word. After BOS, the decoder has to predict the first one.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return _padded(_ended(sources)), _padded(_begun(targets)), _padded(_ended([row[1:] for row in targets]))


@training_batch.mistake(
    "no BOS", "Your decoder input has no BOS. Without it, there is no position from which to predict the first word."
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return _padded(_ended(sources)), _padded(targets), _padded(_ended(targets))


@training_batch.mistake(
    "no EOS in the source", "Your source has no EOS. Each of its rows should end with one, before the padding."
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return _padded(sources), _padded(_begun(targets)), _padded(_ended(targets))


@training_batch.mistake("no EOS in the labels", "Your labels have no EOS, so the model can't learn when to stop.")
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    decoder_input = _padded(_begun(targets))
    return _padded(_ended(sources)), decoder_input, _padded(targets, decoder_input.size(1))


@training_batch.mistake(
    "labels one token too short",
    "Your target rows are only as long as the sentence. A target of six words has seven labels: the seventh is EOS.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return _padded(_ended(sources)), _padded(_begun([row[:-1] for row in targets])), _padded(targets)


@training_batch.mistake(
    "decoder input one token too long",
    "Your decoder input contains EOS, so it is longer than the labels. Nothing has to be predicted after EOS.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return _padded(_ended(sources)), _padded(_begun(_ended(targets))), _padded(_ended(targets))


@training_batch.mistake(
    "padded with EOS", "You pad with EOS. These tokens would count in the loss as labels; padding doesn't."
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    rows = _ended(sources), _begun(targets), _ended(targets)
    source, decoder_input, labels = (_padded(r, fill=EOS) for r in rows)
    return source, decoder_input, labels


@training_batch.mistake("BOS in the source", "Your source starts with BOS. Only the decoder's input does.")
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return _padded(_begun(_ended(sources))), _padded(_begun(targets)), _padded(_ended(targets))


@training_batch.mistake(
    "EOS in the decoder input of short sentences",
    "You cut off the last column. Only in the longest rows is that EOS. In shorter ones it is padding, and their EOS "
    "stays in the decoder's input. Add BOS and EOS to each row before you pad it.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    both = _padded(_begun(_ended(targets)))
    return _padded(_ended(sources)), both[:, :-1], both[:, 1:]


@training_batch.mistake(
    "BOS and EOS in both",
    "Both of your target tensors have BOS, the sentence and EOS. Each should have only one of the two, so that the "
    "labels are one position ahead of the input.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    both = _padded(_begun(_ended(targets)))
    return _padded(_ended(sources)), both, both


@training_batch.mistake(
    "padding on the left", "You pad on the left, which moves the words to other positions. Pad at the end."
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    rows = _ended(sources), _begun(targets), _ended(targets)
    source, decoder_input, labels = (_padded(r, in_front=True) for r in rows)
    return source, decoder_input, labels


@training_batch.mistake(
    "EOS after the padding",
    "You pad first and add EOS afterwards. EOS comes directly after the last word, and padding after that.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    source, labels = ([[*row, EOS] for row in _padded(rows).tolist()] for rows in (sources, targets))
    return torch.tensor(source), _padded(_begun(targets)), torch.tensor(labels)


@training_batch.mistake(
    "source and target padded to the same width",
    "You pad source and target to the same width. Each tensor is as wide as its own longest row.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    width = max(map(len, _ended([*sources, *targets])))
    return _padded(_ended(sources), width), _padded(_begun(targets), width), _padded(_ended(targets), width)


@training_batch.mistake(
    "rows cut to the shortest",
    "You cut every row to the length of the shortest one. No token may be lost: pad the shorter rows instead.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    def cut(rows: Rows) -> Tensor:
        return torch.tensor([row[: min(map(len, rows))] for row in rows])

    return cut(_ended(sources)), cut(_begun(targets)), cut(_ended(targets))


@training_batch.mistake(
    "decoder input and labels swapped", "You return the labels as the decoder's input and the input as labels."
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    source, decoder_input, labels = training_batch.reference(sources, targets)
    return source, labels, decoder_input


@training_batch.mistake(
    "another padding for the labels",
    "You pad the labels with -100, PyTorch's default for what is ignored. This course pads with PAD everywhere, and "
    "the loss ignores that id.",
)
def _(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return _padded(_ended(sources)), _padded(_begun(targets)), _padded(_ended(targets), fill=-100)


Reading = tuple[str, str, Callable[[Rows], Rows]]
"""A wrong way to fill a tensor: its name, a sentence for the learner, and its rows, made from the sentences."""

LABELS: list[Reading] = [
    (
        "no EOS in the labels",
        "Your labels have no EOS, so the model can't learn when to stop.",
        lambda rows: rows,
    ),
    (
        "the decoder input copied into the labels",
        "Your labels are the same as the decoder's input, so the model only has to copy. A label is the token that "
        "comes after the input at the same position.",
        lambda rows: _begun(rows),
    ),
    (
        "BOS in the labels",
        "Your labels begin with BOS. The model never has to predict it: the first label is the first word.",
        lambda rows: _begun(_ended(rows)),
    ),
    (
        "the first label is missing",
        "Your labels start with the second word. After BOS, the decoder has to predict the first one.",
        lambda rows: _ended([row[1:] for row in rows]),
    ),
]
DECODER_INPUT: list[Reading] = [
    (
        "no BOS in the decoder input",
        "Your decoder input has no BOS. Without it, there is no position from which to predict the first word.",
        lambda rows: rows,
    ),
    (
        "the labels copied into the decoder input",
        "Your decoder input is the same as the labels, so the model only has to copy. It should begin with BOS and "
        "have no EOS.",
        lambda rows: _ended(rows),
    ),
    (
        "EOS in the decoder input",
        "Your decoder input ends with EOS. It shouldn't: nothing has to be predicted after EOS.",
        lambda rows: _begun(_ended(rows)),
    ),
    (
        "the last word missing in the decoder input",
        "The last word is missing in your decoder input. The model needs it to predict EOS.",
        lambda rows: _begun([row[:-1] for row in rows]),
    ),
]
SOURCE: list[Reading] = [
    (
        "no EOS in the source",
        "Your source has no EOS. Each of its rows should end with one, before the padding.",
        lambda rows: rows,
    ),
    (
        "BOS in the source",
        "Your source starts with BOS. Only the decoder's input does.",
        lambda rows: _begun(_ended(rows)),
    ),
    (
        "BOS instead of EOS in the source",
        "Your source starts with BOS and has no EOS. It should be the other way round.",
        lambda rows: _begun(rows),
    ),
]


def _misread(name: str, readings: list[Reading], cases: Sequence[tuple[Tensor, Rows, Tensor]]) -> Finding | None:
    """Recognise a tensor whose rows have the wrong tokens, however wide it is.

    Args:
        name: what the tensor is called.
        readings: wrong ways to fill it.
        cases: wrong tensors, the sentences, and the right tensors.
    """
    if not all(is_tensor(yours) and yours.dim() == 2 and len(yours) == len(rows) for yours, rows, _ in cases):
        return None
    found = [(_stripped(yours), rows, _stripped(right)) for yours, rows, right in cases]
    for title, hint, read in readings:
        if all(yours == read(rows) for yours, rows, right in found):
            return Finding(title, hint)
    if all(yours == right for yours, _, right in found):
        return Finding(
            f"too much padding in the {name}",
            f"In the {name}, the tokens are right, but each row is too long. The tensor should be as wide as its own "
            "longest row.",
        )
    if all([[i for i in row if i != PAD] for row in yours] == right for yours, _, right in found):
        if all(row[0] != PAD and row[-1] == EOS for yours, *_ in found for row in yours):
            return Finding(
                f"EOS after the padding in the {name}",
                f"In the {name}, you pad first and add EOS afterwards. EOS comes directly after the last word, and "
                "padding after that.",
            )
        return Finding(
            f"padding in front of the tokens of the {name}",
            f"In the {name} there is padding before the end of a row. Add BOS or EOS to each row first, and then pad "
            "it at its end.",
        )
    return None


def _stripped(tensor: Tensor) -> Rows:
    """Return the rows without the padding at their ends."""
    rows = tensor.tolist()
    for row in rows:
        while row and row[-1] == PAD:
            row.pop()
    return rows


@training_batch.symptom
def _(wrong: Sequence[Wrong]) -> Finding | None:
    places = (("source", "sources", SOURCE), ("decoder input", "targets", DECODER_INPUT), ("labels", "targets", LABELS))
    found = []
    for place, (name, rows, readings) in enumerate(places):
        cases = [
            (case.yours[place], case.inputs[rows], case.expected[place])
            for case in wrong
            if not equal(case.yours[place], case.expected[place])
        ]
        finding = _misread(name, readings, cases) if cases else None
        if cases and finding is None:
            return None  # a message about the others would distract from this one
        found += [finding] if finding else []
    titles, texts = (list(dict.fromkeys(parts)) for parts in zip(*((f.title, f.text) for f in found), strict=True))
    return Finding(", and ".join(titles), "\n".join(texts))


# 3 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"lengths": [2, 4, 3], "batches": [[0, 1], [2]]},
    {"lengths": [5, 5], "batches": [[1, 0]]},
    {"lengths": [7, 1, 3, 3, 8, 2], "batches": [[1, 5], [0], [4, 2, 3]]},
    {"lengths": [6, 1, 2, 9, 4], "batches": [[0, 1], [3, 4], [2]]},
)
def padding_share(lengths: list[int], batches: Rows) -> float:
    """One less the share of tokens."""
    return 1 - sum(lengths) / _cells(lengths, batches)


def _cells(lengths: list[int], batches: Rows) -> int:
    return sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)


@padding_share.mistake("the share of real tokens", "This is the fraction of positions that are not padding.")
def _(lengths: list[int], batches: Rows) -> float:
    return sum(lengths) / _cells(lengths, batches)


@padding_share.mistake(
    "a number instead of a share", "This is the number of padding positions. Divide it by the number of all positions."
)
def _(lengths: list[int], batches: Rows) -> float:
    return _cells(lengths, batches) - sum(lengths)


@padding_share.mistake(
    "divided by the tokens",
    "You divide the padding by the number of real tokens. Divide by all positions, padding included.",
)
def _(lengths: list[int], batches: Rows) -> float:
    return _cells(lengths, batches) / sum(lengths) - 1


@padding_share.mistake(
    "the mean of the batches' shares",
    "You average the shares of the batches, so a small batch counts as much as a large one. Add up the positions of "
    "all batches first.",
)
def _(lengths: list[int], batches: Rows) -> float:
    shares = [1 - sum(lengths[i] for i in batch) / _cells(lengths, [batch]) for batch in batches]
    return sum(shares) / len(shares)


@padding_share.mistake(
    "one width for all batches",
    "You make every batch as wide as the longest sentence of all. Each batch is as wide as its own longest sentence.",
)
def _(lengths: list[int], batches: Rows) -> float:
    return 1 - sum(lengths) / (len(lengths) * max(lengths))


@padding_share.mistake(
    "indices taken for lengths",
    "A batch contains indices of sentences, and you use them as if they were lengths. Look the lengths up.",
)
def _(lengths: list[int], batches: Rows) -> float:
    cells = sum(len(batch) * max(batch) for batch in batches)
    return 1 - sum(lengths) / cells


@padding_share.mistake("one row per batch", "You count a single row for each batch. It has as many rows as sentences.")
def _(lengths: list[int], batches: Rows) -> float:
    return 1 - sum(lengths) / sum(max(lengths[i] for i in batch) for batch in batches)


@padding_share.mistake("a percentage", "You return a percentage. A share of one half is 0.5.")
def _(lengths: list[int], batches: Rows) -> float:
    return 100 * padding_share.reference(lengths, batches)


@padding_share.mistake(
    "the last sentence taken for the longest",
    "You take the last sentence of a batch for its longest. A batch needn't be sorted: look for the longest.",
)
def _(lengths: list[int], batches: Rows) -> float:
    return 1 - sum(lengths) / sum(len(batch) * lengths[batch[-1]] for batch in batches)


@padding_share.mistake(
    "the first sentence taken for the longest",
    "You take the first sentence of a batch for its longest. A batch needn't be sorted: look for the longest.",
)
def _(lengths: list[int], batches: Rows) -> float:
    return 1 - sum(lengths) / sum(len(batch) * lengths[batch[0]] for batch in batches)


@padding_share.mistake(
    "sentences taken in order",
    "You take the sentences in the order of the corpus. A batch consists of those whose numbers are in its list.",
)
def _(lengths: list[int], batches: Rows) -> float:
    rest = iter(lengths)
    return 1 - sum(lengths) / sum(len(batch) * max(next(rest) for _ in batch) for batch in batches)


@padding_share.mistake(
    "only the first batch",
    "This is the share of padding in the first batch. Go through all of them: is your `return` inside the loop?",
)
def _(lengths: list[int], batches: Rows) -> float:
    return 1 - sum(lengths[i] for i in batches[0]) / _cells(lengths, batches[:1])


@padding_share.mistake(
    "the share rounded down", "You divide with `//`, so every share becomes 0. `/` keeps the fraction."
)
def _(lengths: list[int], batches: Rows) -> float:
    return (_cells(lengths, batches) - sum(lengths)) // _cells(lengths, batches)


@padding_share.mistake(
    "only the tokens divided",
    "A division comes before a subtraction, so you divide only the number of tokens. Put the difference in "
    "parentheses.",
)
def _(lengths: list[int], batches: Rows) -> float:
    cells = _cells(lengths, batches)
    return cells - sum(lengths) / cells


@padding_share.mistake(
    "only the last batch",
    "This is the share of padding in the last batch. Each batch should add to the totals, rather than replace them.",
)
def _(lengths: list[int], batches: Rows) -> float:
    return 1 - sum(lengths[i] for i in batches[-1]) / _cells(lengths, batches[-1:])


LOOK_UP = (
    "You take a slice of the lengths, from one index of a batch to another. The indices of a batch needn't be in "
    "order, nor follow each other: look up each of them."
)


@padding_share.mistake("a slice from the first index of a batch to its last", LOOK_UP)
def _(lengths: list[int], batches: Rows) -> float:
    cells = sum(len(batch) * max(lengths[batch[0] : batch[-1] + 1]) for batch in batches)
    return 1 - sum(lengths) / cells


@padding_share.mistake("a slice from the smallest index of a batch to its largest", LOOK_UP)
def _(lengths: list[int], batches: Rows) -> float:
    cells = sum(len(batch) * max(lengths[min(batch) : max(batch) + 1]) for batch in batches)
    return 1 - sum(lengths) / cells


@padding_share.mistake(
    "places in the batch taken for indices",
    "In every batch you look up the first lengths of the list. The indices of its sentences are the numbers in the "
    "batch, not their places in it.",
)
def _(lengths: list[int], batches: Rows) -> float:
    cells = sum(len(batch) * max(lengths[: len(batch)]) for batch in batches)
    return 1 - sum(lengths) / cells


# 4 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"lengths": [3, 1, 3], "budget": 8},
    {"lengths": [2, 2, 2, 2], "budget": 4},
    {"lengths": [9, 7], "budget": 6},
    {"lengths": [5, 2, 4, 2, 9], "budget": 8},
    {"lengths": random.Random(0).choices(range(2, 31), k=40), "budget": 60},
    insight="The paper's batches are limited by tokens, too: about 25,000 on each side.",
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
    "padding not counted",
    "You add up the lengths. But the tensor includes padding: every row is as wide as the longest one.",
)
def _(lengths: list[int], budget: int) -> Rows:
    return _cut(lengths, lambda batch, i: sum(lengths[j] for j in [*batch, i]) > budget)


@batches_by_tokens.mistake(
    "the budget counts sentences",
    "You limit the number of sentences in a batch. The budget is in positions: rows times the longest length.",
)
def _(lengths: list[int], budget: int) -> Rows:
    return _cut(lengths, lambda batch, i: len(batch) + 1 > budget)


@batches_by_tokens.mistake(
    "batches of exactly the budget not allowed",
    "You close a batch that would have exactly `budget` positions. At most `budget` includes that case.",
)
def _(lengths: list[int], budget: int) -> Rows:
    return _cut(lengths, lambda batch, i: (len(batch) + 1) * lengths[i] >= budget)


@batches_by_tokens.mistake(
    "the width without the next sentence",
    "You compute the width before the next sentence is added. That sentence is the longest so far, so it makes every "
    "row wider.",
)
def _(lengths: list[int], budget: int) -> Rows:
    return _cut(lengths, lambda batch, i: (len(batch) + 1) * lengths[batch[-1]] > budget)


@batches_by_tokens.mistake(
    "the rows without the next sentence",
    "You count the rows before the next sentence is added. With it, there is one row more.",
)
def _(lengths: list[int], budget: int) -> Rows:
    return _cut(lengths, lambda batch, i: len(batch) * lengths[i] > budget)


@batches_by_tokens.mistake(
    "closed only when over the budget",
    "You close a batch after it has reached the budget, and then it may already exceed it. Check before you add a "
    "sentence.",
)
def _(lengths: list[int], budget: int) -> Rows:
    return _cut(lengths, lambda batch, i: len(batch) * lengths[batch[-1]] >= budget)


@batches_by_tokens.mistake(
    "not sorted",
    "You take the sentences in their original order. Sort them by length first; otherwise most of a batch is padding.",
)
def _(lengths: list[int], budget: int) -> Rows:
    def full(batch: list[int], i: int) -> bool:
        return (len(batch) + 1) * max(lengths[j] for j in [*batch, i]) > budget

    return _cut(lengths, full, range(len(lengths)))


@batches_by_tokens.mistake("longest first", "You start with the longest sentences. Sort from short to long.")
def _(lengths: list[int], budget: int) -> Rows:
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    return _cut(lengths, lambda batch, i: (len(batch) + 1) * lengths[batch[0]] > budget, order)


@batches_by_tokens.mistake(
    "indices into the sorted list", "Your indices refer to the sorted list. Return indices into `lengths`."
)
def _(lengths: list[int], budget: int) -> Rows:
    return batches_by_tokens.reference(sorted(lengths), budget)


@batches_by_tokens.mistake(
    "lengths instead of indices",
    "The batches are right, but they contain lengths. Return the indices of the sentences.",
)
def _(lengths: list[int], budget: int) -> Rows:
    return [[lengths[i] for i in batch] for batch in batches_by_tokens.reference(lengths, budget)]


@batches_by_tokens.mistake(
    "the last batch is missing", "When the loop ends, one batch is still open, and you don't add it to the result."
)
def _(lengths: list[int], budget: int) -> Rows:
    return batches_by_tokens.reference(lengths, budget)[:-1]


@batches_by_tokens.mistake(
    "one list for all batches",
    "You empty the list that you have just added to the result, and fill it again, so all your batches are the same "
    "list. Start a new one: `batch = []`.",
)
def _(lengths: list[int], budget: int) -> Rows:
    batches = batches_by_tokens.reference(lengths, budget)
    return batches[-1:] * len(batches)


@batches_by_tokens.mistake(
    "sentences over the budget dropped",
    "You drop sentences that are longer than the budget. Each of them should be a batch of its own.",
)
def _(lengths: list[int], budget: int) -> Rows:
    batches = batches_by_tokens.reference(lengths, budget)
    return [batch for batch in batches if lengths[batch[0]] <= budget]


@batches_by_tokens.mistake(
    "an empty batch",
    "If the very first sentence is too long, you close an empty batch. Close a batch only if it contains something.",
)
def _(lengths: list[int], budget: int) -> Rows:
    return [[]] * (min(lengths) > budget) + batches_by_tokens.reference(lengths, budget)


@batches_by_tokens.mistake(
    "a sentence lost between batches",
    "The sentence that no longer fits is in no batch at all. It should be the first one of the next batch.",
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


@batches_by_tokens.mistake(
    "ties in reverse order",
    "Sentences of the same length come in reverse order. Did you sort from long to short, and reverse the list? That "
    "reverses the ties as well.",
)
def _(lengths: list[int], budget: int) -> Rows:
    reverse = batches_by_tokens.reference(lengths[::-1], budget)
    return [[len(lengths) - 1 - i for i in batch] for batch in reverse]


@batches_by_tokens.mistake(
    "closed one sentence too late",
    "You add a sentence first, and close the batch when it is over the budget already. Check before you add it.",
)
def _(lengths: list[int], budget: int) -> Rows:
    return _cut(lengths, lambda batch, i: len(batch) * lengths[batch[-1]] > budget)


@batches_by_tokens.mistake(
    "every batch as wide as the longest sentence of all",
    "You count rows as long as the longest sentence of all. The rows of a batch are as long as its own longest "
    "sentence.",
)
def _(lengths: list[int], budget: int) -> Rows:
    return _cut(lengths, lambda batch, i: (len(batch) + 1) * max(lengths) > budget)


@batches_by_tokens.mistake(
    "one index for all sentences of a length",
    "You sort the lengths and look up where each of them is. `index` always finds the first place, so sentences of the "
    "same length all get its index. Sort indices instead.",
)
def _(lengths: list[int], budget: int) -> Rows:
    return [[lengths.index(lengths[i]) for i in batch] for batch in batches_by_tokens.reference(lengths, budget)]


@batches_by_tokens.mistake(
    "the first sentence of a batch twice",
    "You start a new batch with the sentence, and then append the same sentence again.",
)
def _(lengths: list[int], budget: int) -> Rows:
    batches: Rows = [[]]
    for i in _by_length(lengths):
        if batches[-1] and (len(batches[-1]) + 1) * lengths[i] > budget:
            batches.append([i])
        batches[-1].append(i)
    return batches


@batches_by_tokens.mistake(
    "sentences over the budget skipped",
    "You skip sentences that are longer than the budget. Each of them should be a batch of its own.",
)
def _(lengths: list[int], budget: int) -> Rows:
    batches = batches_by_tokens.reference(lengths, budget)
    return [batch for batch in batches if lengths[batch[0]] <= budget] or [[]]


# 5 --------------------------------------------------------------------------------------------------------------------


def _bounded(epoch: int) -> None:
    """Ends a loop that reads on for ever."""
    if epoch >= 100:
        raise RefusedError(
            "it doesn't stop by itself\nYour code has asked for a hundred epochs and still doesn't have enough "
            "batches. In a new epoch, do you begin at its first batch again?"
        )


def three_batches(epoch: int) -> list[int]:
    """[2, 0, 1] in epoch 0, [1, 2, 0] in epoch 1, [0, 1, 2] in later ones"""
    _bounded(epoch)
    return [[2, 0, 1], [1, 2, 0]][epoch] if epoch < 2 else [0, 1, 2]


def four_or_two(epoch: int) -> list[int]:
    """[3, 1, 0, 2] in even epochs, [1, 0] in odd ones"""
    _bounded(epoch)
    return [1, 0] if epoch % 2 else [3, 1, 0, 2]


def five_batches(epoch: int) -> list[int]:
    """0 to 4 in a circle, beginning with the number of the epoch"""
    _bounded(epoch)
    return [(epoch + i) % 5 for i in range(5)]


class Kept:
    """An order that makes its lists once and keeps them."""

    def __init__(self, lists: Rows) -> None:
        self.lists = lists

    def __call__(self, epoch: int) -> list[int]:
        """The list itself, not a copy."""
        _bounded(epoch)
        return self.lists[epoch % len(self.lists)]

    def __repr__(self) -> str:
        return f"a function: {' and '.join(map(str, self.lists))} in turn; it keeps these lists"


@topic.exercise(
    {"order": three_batches, "epoch": 0, "step": 1, "count": 2},
    {"order": three_batches, "epoch": 1, "step": 0, "count": 2},
    {"order": three_batches, "epoch": 0, "step": 2, "count": 3},
    {"order": three_batches, "epoch": 1, "step": 3, "count": 2},
    {"order": five_batches, "epoch": 2, "step": 2, "count": 3},
    {"order": four_or_two, "epoch": 4, "step": 1, "count": 10},
    {"order": Kept([[2, 0, 1], [1, 2, 0]]), "epoch": 0, "step": 1, "count": 4},
)
def read_on(order: Order, epoch: int, step: int, count: int) -> list[int]:
    """Epoch after epoch, the first from the step on."""
    batches = order(epoch)[step:]
    while len(batches) < count:
        epoch += 1
        batches += order(epoch)
    return batches[:count]


@read_on.mistake(
    "the epoch read from its start",
    "You start the epoch again, so the batches before the interruption are read twice. Skip those that were already "
    "read.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    return read_on.reference(order, epoch, 0, count)


@read_on.mistake(
    "always the order of epoch 0", "You always use the order of epoch 0. Start in the epoch that you are given."
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    return read_on.reference(order, 0, step, count)


@read_on.mistake(
    "one batch skipped",
    "You start one batch too late. `step` batches have been used, so `step` is the index of the next one.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    return read_on.reference(order, epoch, step, count + 1)[1:]


@read_on.mistake(
    "one batch read twice",
    "You start one batch too early. `step` batches have been used, so `step` is the index of the next one.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    return read_on.reference(order, epoch, max(0, step - 1), count)


@read_on.mistake(
    "stopped at the end of the epoch", "You stop at the end of the epoch. Training goes on with the next one."
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    return order(epoch)[step : step + count]


@read_on.mistake("only one more epoch", "You go on for one more epoch, but no further. There may be several.")
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    return (order(epoch) + order(epoch + 1))[step : step + count]


@read_on.mistake("the same order in every epoch", "After an epoch you repeat its order. Each epoch has its own.")
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    plan = order(epoch)
    return [plan[i % len(plan)] for i in range(step, step + count)]


@read_on.mistake(
    "every epoch started at the given step",
    "You start the later epochs at the given step, too. Only the first of them starts there.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    batches: list[int] = []
    while len(batches) < count:
        batches += order(epoch)[step:]
        epoch += 1
    return batches[:count]


@read_on.mistake(
    "the next epoch again and again",
    "You append the batches of one and the same epoch again and again: `epoch + 1` doesn't change `epoch`. Move on to "
    "the next epoch each time.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    batches = order(epoch)[step:]
    while len(batches) < count:
        batches = [*batches, *order(epoch + 1)]
    return batches[:count]


@read_on.mistake(
    "one batch too few per epoch",
    "You lose one batch whenever an epoch ends: moving on to the next epoch shouldn't count as taking a batch.",
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


@read_on.mistake("the last batch of each epoch skipped", "You go on to the next epoch while one batch is still left.")
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    batches = order(epoch)[step:-1]
    while len(batches) < count:
        epoch += 1
        batches += order(epoch)[:-1]
    return batches[:count]


@read_on.mistake(
    "a checkpoint at the end of an epoch",
    "Your code fails if all batches of the epoch have already been read, as in a checkpoint that is written at its "
    "end. Check whether the epoch is over before you read, not after.",
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
    "the same number of batches in every epoch",
    "You assume that every epoch has as many batches as the first. With shuffled data, some may have more or fewer.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    length = len(order(epoch))
    return [order(epoch + i // length)[i % length] for i in range(step, step + count)]


@read_on.mistake(
    "three batches in every epoch",
    "You assume that every epoch has three batches. That is so only in the first tests: count those that `order` "
    "returns for each epoch.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    return [order(epoch + i // 3)[i % 3] for i in range(step, step + count)]


@read_on.mistake(
    "the step never moves on",
    "You return the same batch again and again, because `step` stays the same. After a batch has been read, the next "
    "one is at `step` + 1.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    if step == len(order(epoch)):
        epoch, step = epoch + 1, 0
    return [order(epoch)[step]] * count


ONE_TOO_EARLY = (
    "You start one batch too early. `step` batches have been used, so `step` is the index of the next one. (And if it "
    "is 0, the index -1 is that of the last batch.)"
)


@read_on.mistake("a slice that starts one batch too early", ONE_TOO_EARLY)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    batches = order(epoch)[step - 1 :]
    while len(batches) < count:
        epoch += 1
        batches += order(epoch)
    return batches[:count]


@read_on.mistake("an index that starts one batch too early", ONE_TOO_EARLY)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    return (
        [*order(epoch)[-1:], *read_on.reference(order, epoch, 0, count)][:count]
        if step == 0
        else (read_on.reference(order, epoch, step - 1, count))
    )


@read_on.mistake(
    "read past the end of an epoch",
    "You ask for a batch after the last one, because the step keeps counting. In a new epoch it starts again at 0.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    batches = []
    for _ in range(count):
        if step >= len(order(epoch)):
            epoch += 1
        batches.append(order(epoch)[step])
        step += 1
    return batches


@read_on.mistake(
    "the epoch cut off at the index count",
    "You cut the epoch off at the index `count`. That many batches are wanted from `step` on, not from the beginning.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    batches = order(epoch)[step:count]
    while len(batches) < count:
        epoch += 1
        batches += order(epoch)
    return batches[:count]


@read_on.mistake(
    "the batches before the step",
    "You take the batches that have been used: `step` of them, from the beginning. Take those that are left.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    batches = order(epoch)[:step]
    while len(batches) < count:
        epoch += 1
        batches += order(epoch)
    return batches[:count]


@read_on.mistake(
    "whole epochs", "You append whole epochs until there are enough batches, and return all of them. Cut off the rest."
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    batches = order(epoch)[step:]
    while len(batches) < count:
        epoch += 1
        batches += order(epoch)
    return batches


@read_on.mistake(
    "each epoch in the order of the numbers",
    "You count the batches from 0 up. `order` returns the order in which they come.",
)
def _(order: Order, epoch: int, step: int, count: int) -> list[int]:
    return read_on.reference(lambda e: list(range(len(order(e)))), epoch, step, count)


# 6 --------------------------------------------------------------------------------------------------------------------

_THANKS = ["Thank you.\n", "Thank you.\n", "Thank you.\n", "Stop!\n", "No.\n"]
_DANKE = ["Danke.\n", "Vielen Dank.\n", "Danke schön.\n", "Halt!\n", "Nein.\n"]
ENGLISH = ["Good morning!\n", "\n", *_THANKS, "See you!\n"]
"""A file for the learner's own experiments."""
GERMAN = [line.replace("\n", "\r\n") for line in ("Guten Morgen!\n", "Hallo!\n", *_DANKE, "Bis bald!\n")]
"""Its translation, with the line breaks of Windows."""


@topic.exercise(
    {"source_lines": ENGLISH, "target_lines": GERMAN, "every": 2},
    {"source_lines": _THANKS, "target_lines": _DANKE, "every": 2},
    {"source_lines": ["Yes.\n", "\n", "No.\n"], "target_lines": ["Ja.\n", "Doch.\n", "Nein.\n"], "every": 2},
    {"source_lines": ["Yes.\n", "No.\n", "Stop!\n"], "target_lines": ["Ja.\n", "\n", "Halt!\n"], "every": 2},
    {"source_lines": ["\n", "Yes.\n"], "target_lines": ["\n", "Ja.\n"], "every": 1},
    {"source_lines": ["Yes.\r\n", " No.\n"], "target_lines": ["\tJa. \r\n", "Nein."], "every": 2},
    {"source_lines": ["Yes.\n", "No.\n"], "target_lines": ["Ja.\n", "\r\n"], "every": 3},
    {
        "source_lines": ["I sing.\n", "You sing.\n", "You sing.\n", "We sing.\n", "They sing.\n", "I sing.\n"],
        "target_lines": [
            "Ich singe.\n",
            "Du singst.\n",
            "Ihr singt.\n",
            "Wir singen.\n",
            "Sie singen.\n",
            "Ich singe.\n",
        ],
        "every": 2,
    },
    results=("train", "valid"),
    insight="Split by a hash of the source: then no source sentence is in both sets, even when the corpus grows.",
)
def split_corpus(
    source_lines: list[str], target_lines: list[str], every: int
) -> tuple[list[SentencePair], list[SentencePair]]:
    """Training and validation data from the lines of two files."""
    sources = [line.strip() for line in source_lines]
    targets = [line.strip() for line in target_lines]
    pairs = [(s, t) for s, t in zip(sources, targets, strict=True) if s and t]
    is_valid = [crc32(s.encode()) % every == 0 for s, t in pairs]
    train = [pair for pair, held_out in zip(pairs, is_valid, strict=True) if not held_out]
    valid = [pair for pair, held_out in zip(pairs, is_valid, strict=True) if held_out]
    return train, valid


add_bugs(
    split_corpus,
    Bug(
        "after an empty line, the pairs are wrong",
        "Put an empty line into one of the two files. Is every sentence after it still next to its own translation? A "
        "line may only be removed together with the line of the same number in the other file.",
        "[(s, t) for s, t in zip(sources, targets, strict=True) if s and t]",
        "list(zip(filter(None, sources), filter(None, targets)))",
        (
            WrongRepair(
                "pairs with an empty side are kept",
                "The sentences are next to their translations now, but a pair in which one side is empty is useless, "
                "too. Keep a pair only if both sides have text.",
                "list(zip(sources, targets))",
            ),
            WrongRepair(
                "pairs with one empty side are kept",
                "You drop a pair only if both of its sides are empty. One empty side makes it useless, too.",
                "[(s, t) for s, t in zip(sources, targets) if s or t]",
            ),
            WrongRepair(
                "pairs with an empty target are kept",
                "You drop a pair if its source is empty. An empty target makes it useless, too.",
                "[(s, t) for s, t in zip(sources, targets) if s]",
            ),
            WrongRepair(
                "pairs with an empty source are kept",
                "You drop a pair if its target is empty. An empty source makes it useless, too.",
                "[(s, t) for s, t in zip(sources, targets) if t]",
            ),
        ),
    ),
    Bug(
        "whitespace stays at the end of a sentence",
        "Look at the `repr` of a sentence from a file with the line breaks of Windows, and at a line that looks empty "
        "in such a file.",
        "targets = [line.strip()",
        'targets = [line.rstrip("\\n")',
        (
            WrongRepair(
                "spaces stay at the ends of a sentence",
                "The line breaks are gone, but other whitespace isn't: spaces and tabs at either end of a sentence.",
                'targets = [line.rstrip("\\r\\n")',
            ),
            WrongRepair(
                "whitespace stays at the start of a sentence",
                "The end of each sentence is clean, but spaces and tabs can also be at its start.",
                "targets = [line.rstrip()",
            ),
        ),
    ),
    Bug(
        "some sentences are in both sets",
        "Give it a sentence with several translations. Which source sentences are in the training data and in the "
        "validation data? What does the hash depend on?",
        "crc32(s.encode())",
        "crc32((s + t).encode())",
        (
            WrongRepair(
                "the split depends on the target",
                "Equal targets are in the same set now, but it is the sources that must not be in both sets.",
                "crc32(t.encode())",
            ),
        ),
    ),
)


@split_corpus.mistake(
    "the two sets are swapped", "You return the validation data first. The training data comes first."
)
def _(source_lines: list[str], target_lines: list[str], every: int) -> tuple[list[SentencePair], list[SentencePair]]:
    train, valid = split_corpus.reference(source_lines, target_lines, every)
    return valid, train


@split_corpus.mistake(
    "repeated pairs are dropped",
    "You drop a pair that has occurred before. Whether that is a good idea is another question: here, every pair with "
    "two sides belongs to one of the sets.",
)
def _(source_lines: list[str], target_lines: list[str], every: int) -> tuple[list[SentencePair], list[SentencePair]]:
    train, valid = split_corpus.reference(source_lines, target_lines, every)
    return list(dict.fromkeys(train)), list(dict.fromkeys(valid))


@split_corpus.mistake(
    "every n-th pair is held out",
    "You choose the validation data by the place of a pair in the corpus. A sentence with several translations then "
    "gets into both sets, and if a pair is added at the start, all others may change sets.",
)
def _(source_lines: list[str], target_lines: list[str], every: int) -> tuple[list[SentencePair], list[SentencePair]]:
    train, valid = split_corpus.reference(source_lines, target_lines, 1)
    pairs = train + valid
    return [pair for i, pair in enumerate(pairs) if i % every], pairs[::every]


@split_corpus.mistake(
    "validation sentences removed from the training data",
    "No source sentence is in both sets any more, but you took some out of the training data afterwards, so they are "
    "in neither. A hash that depends on the source alone needs no repair.",
)
def _(source_lines: list[str], target_lines: list[str], every: int) -> tuple[list[SentencePair], list[SentencePair]]:
    pairs = split_corpus.reference(source_lines, target_lines, 1)[1]
    valid = [(s, t) for s, t in pairs if crc32((s + t).encode()) % every == 0]
    held_out = {s for s, _ in valid}
    return [(s, t) for s, t in pairs if s not in held_out], valid
