"""Byte-pair encoding from scratch: words as pieces learned from a text (Sennrich et al. 2016, arXiv 1508.07909).

*Learning* starts from words spelled in characters. Again and again, the two symbols that are most often side by side
become one symbol. *Segmenting* spells any word in characters and repeats these merges in the order of learning. So a
frequent word ends as one symbol, and a rare one as pieces that other words have too.

Conventions are SentencePiece's: on the same text, `Tokenizer.train` makes the same merges in the same order.

- "▁" is put in front of each word, as its first character. (The paper marks a word's end instead.)
- No merge leaves a word or joins a letter to something else: "table." is "▁table" and ".". (SentencePiece cuts where
  the script changes, which for Latin letters is the same. Digits and punctuation have one script.)
- Among equally frequent pairs, the shorter symbol is made first, then the one that comes first by code points.
- A pair that overlaps itself counts each time, "aaa" holds "aa" twice; it is merged from left to right, "aa" "a".
- No symbol is longer than 16 characters, "▁" included.

What differs: SentencePiece normalises the text (NFKC), here the caller does. It cuts at spaces only, here all white
space cuts. When no pair is left, it goes on with pairs that no longer occur; here learning ends. Before version 0.2.2
it looked at the most frequent pairs only, and broke ties otherwise where thousands of rare pairs are equally frequent.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

MARK = "▁"  # the start of a word
LONGEST = 16  # characters of a symbol

Pair = tuple[str, str]


@dataclass(frozen=True)
class Merge:
    """One step of learning: the pair, how often it stood in the text, and how many merges came before it."""

    pair: Pair
    count: int
    rank: int

    @property
    def symbol(self) -> str:
        """What the pair becomes."""
        return "".join(self.pair)


def split_words(text: str) -> list[str]:
    """Cut text where no merge may cross: ``"A cat."`` gives ``["▁A", "▁cat", "."]``. A "▁" in the text is a space."""
    words = []
    for word in text.replace(MARK, " ").split():
        first, *others = ("".join(run) for _, run in groupby(word, str.isalpha))
        words += [MARK + first, *others]
    return words


def merge_pair(symbols: Sequence[str], pair: Pair) -> list[str]:
    """Join the pair wherever it stands in a word's symbols, from left to right."""
    merged: list[str] = []
    for symbol in symbols:
        if merged and (merged[-1], symbol) == pair:
            merged[-1] += symbol
        else:
            merged.append(symbol)
    return merged


def learn(words: Iterable[str], n_merges: int) -> list[Merge]:
    """Find the merges of a text (§3.2, algorithm 1).

    Args:
        words: the words of the text, from ``split_words``, each as often as it occurs.
        n_merges: how many merges to learn; the vocabulary is their symbols and all characters.

    Returns:
        The merges in their order: no count is higher than the one before, and no symbol is made twice. They are fewer
        than ``n_merges`` when no pair is left; without words there are none.

    Raises:
        ValueError: if ``n_merges`` is negative, or ``words`` is one string.
    """
    if n_merges < 0:
        raise ValueError(f"n_merges must not be negative; got {n_merges}")
    if isinstance(words, str):
        raise ValueError("words must be many words, not one text: use split_words(text)")
    frequency = Counter(words)
    spelling = {word: list(word) for word in frequency}
    counts: Counter[Pair] = Counter()
    words_with: defaultdict[Pair, set[str]] = defaultdict(set)

    def count_pairs(word: str, sign: int) -> None:
        for pair in pairwise(spelling[word]):
            if len("".join(pair)) <= LONGEST:
                counts[pair] += sign * frequency[word]
                words_with[pair].add(word)
                if counts[pair] == 0:
                    del counts[pair]

    for word in spelling:
        count_pairs(word, +1)
    merges: list[Merge] = []
    while counts and len(merges) < n_merges:
        highest = max(counts.values())
        ties = [pair for pair, count in counts.items() if count == highest]
        best = min(ties, key=lambda pair: (len("".join(pair)), "".join(pair)))
        merges.append(Merge(best, highest, len(merges)))
        for word in words_with.pop(best):  # nothing changes in the others
            count_pairs(word, -1)
            spelling[word] = merge_pair(spelling[word], best)
            count_pairs(word, +1)
    return merges


def segment(word: str, ranks: Mapping[Pair, int]) -> list[str]:
    """Split a word into symbols: of the neighbours that were learned as pairs, merge the earliest, until none is left.

    ``ranks`` is ``{merge.pair: merge.rank for merge in merges}``. A character that learning has not met stays as it is.
    """
    symbols = list(word)
    while known := [pair for pair in pairwise(symbols) if pair in ranks]:
        symbols = merge_pair(symbols, min(known, key=lambda pair: ranks[pair]))
    return symbols


def encode(text: str, ranks: Mapping[Pair, int]) -> list[str]:
    """The symbols of a text, word by word."""
    return [symbol for word in split_words(text) for symbol in segment(word, ranks)]


def decode(symbols: Iterable[str]) -> str:
    """The text that was encoded, with single spaces for its white space."""
    return "".join(symbols).replace(MARK, " ").removeprefix(" ")
