"""Byte-pair encoding (BPE) from scratch: subwords learned from a text (Sennrich et al. 2016, arXiv 1508.07909).

*Learning* starts with words split into characters, and repeatedly merges the most frequent pair of adjacent symbols
into a new symbol. *Segmenting* splits a word into characters and applies the same merges in the same order. A frequent
word thus becomes a single symbol; a rare word is split into symbols that it shares with other words.

The conventions are those of SentencePiece: on the same text, `Tokenizer.train` learns the same merges in the same
order.

- Each word starts with the character "▁". (The paper marks the end of each word instead.)
- Merges neither cross word boundaries nor join a letter with a non-letter: "table." is "▁table" and ".". (SentencePiece
  splits where the script changes, which is the same for Latin letters; digits and punctuation count as one script.)
- Ties between equally frequent pairs are broken by the length of the merged symbol, then by its code points.
- Overlapping occurrences of a pair are all counted: "aaa" contains "aa" twice. They are merged from left to right, into
  "aa" and "a".
- A symbol has at most 16 characters, including "▁".

There are a few differences. SentencePiece normalises the text (NFKC); here the caller does it. SentencePiece splits
words only at spaces; here any white space does. When no pair is left, SentencePiece continues with pairs that no longer
occur; here learning stops. Versions of SentencePiece before 0.2.2 considered only the most frequent pairs, so they
broke ties differently among thousands of equally rare pairs.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

WORD_START = "▁"
MAX_SYMBOL_LENGTH = 16  # characters

SymbolPair = tuple[str, str]
"""Two adjacent symbols."""


@dataclass(frozen=True)
class Merge:
    """A learned merge: the pair of symbols, its count when it was merged, and the number of earlier merges."""

    pair: SymbolPair
    count: int
    rank: int

    @property
    def symbol(self) -> str:
        """The merged symbol."""
        return "".join(self.pair)


def split_words(text: str) -> list[str]:
    """Split text at the boundaries that merges may not cross: ``"A cat."`` gives ``["▁A", "▁cat", "."]``.

    A "▁" in the text is treated as a space.
    """
    words = []
    for word in text.replace(WORD_START, " ").split():
        first, *others = ("".join(run) for _, run in groupby(word, str.isalpha))
        words += [WORD_START + first, *others]
    return words


def merge_pair(symbols: Sequence[str], pair: SymbolPair) -> list[str]:
    """Merge all occurrences of the pair in the symbols of a word, from left to right."""
    merged: list[str] = []
    for symbol in symbols:
        if merged and (merged[-1], symbol) == pair:
            merged[-1] += symbol
        else:
            merged.append(symbol)
    return merged


def learn(words: Iterable[str], n_merges: int) -> list[Merge]:
    """Learn the merges of a text (§3.2, algorithm 1, of Sennrich et al.).

    Args:
        words: all words of the text, from ``split_words``, including repetitions.
        n_merges: number of merges to learn. The vocabulary consists of all characters and of one symbol per merge.

    Returns:
        The merges, in the order in which they were learned. Their counts never increase, and no symbol occurs twice.
        There are fewer than ``n_merges`` if no pairs are left.

    Raises:
        ValueError: if ``n_merges`` is negative, or ``words`` is a single string.
    """
    if n_merges < 0:
        raise ValueError(f"n_merges must not be negative; got {n_merges}")
    if isinstance(words, str):
        raise ValueError("words must be a list of words, not a string: use split_words(text)")
    frequency = Counter(words)
    spelling = {word: list(word) for word in frequency}
    counts: Counter[SymbolPair] = Counter()
    words_with: defaultdict[SymbolPair, set[str]] = defaultdict(set)

    def count_pairs(word: str, sign: int) -> None:
        for pair in pairwise(spelling[word]):
            if len("".join(pair)) <= MAX_SYMBOL_LENGTH:
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
        for word in words_with.pop(best):  # the counts of other words do not change
            count_pairs(word, -1)
            spelling[word] = merge_pair(spelling[word], best)
            count_pairs(word, +1)
    return merges


def segment(word: str, ranks: Mapping[SymbolPair, int]) -> list[str]:
    """Split a word into symbols: repeatedly apply the merge that was learned first, until none applies.

    Args:
        word: a word from ``split_words``. Characters that did not occur in the training text remain single symbols.
        ranks: the rank of each merge, ``{merge.pair: merge.rank for merge in merges}``.
    """
    symbols = list(word)
    while mergeable := [pair for pair in pairwise(symbols) if pair in ranks]:
        symbols = merge_pair(symbols, min(mergeable, key=lambda pair: ranks[pair]))
    return symbols


def encode(text: str, ranks: Mapping[SymbolPair, int]) -> list[str]:
    """Split a text into symbols."""
    return [symbol for word in split_words(text) for symbol in segment(word, ranks)]


def decode(symbols: Iterable[str]) -> str:
    """Reconstruct the text from its symbols, with white space normalised to single spaces."""
    return "".join(symbols).replace(WORD_START, " ").removeprefix(" ")
