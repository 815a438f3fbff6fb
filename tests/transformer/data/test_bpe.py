from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.data import pocket
from transformer.data.bpe import (
    MAX_SYMBOL_LENGTH,
    Merge,
    SymbolPair,
    decode,
    encode,
    learn,
    merge_pair,
    segment,
    split_words,
)
from transformer.data.tokenizer import Tokenizer

PAPER = ["▁low"] * 5 + ["▁lower"] * 2 + ["▁newest"] * 6 + ["▁widest"] * 3
"""The words of the paper's algorithm 1."""

some = settings(derandomize=True)
texts = st.text() | st.text("ab") | st.text("abc é.1▁\t\n")
counted = st.lists(st.text("abc", min_size=1, max_size=9), max_size=30)


def ranks_of(merges: list[Merge]) -> dict[SymbolPair, int]:
    return {merge.pair: merge.rank for merge in merges}


def learn_by_recounting(words: list[str], n_merges: int) -> list[Merge]:
    """The algorithm of the paper, which counts all pairs again before each merge."""
    spelled, merges = [list(word) for word in words], list[Merge]()
    while len(merges) < n_merges:
        counts = Counter(p for symbols in spelled for p in pairwise(symbols) if len("".join(p)) <= MAX_SYMBOL_LENGTH)
        if not counts:
            break
        best = min(counts, key=lambda p: (-counts[p], len("".join(p)), "".join(p)))
        merges.append(Merge(best, counts[best], len(merges)))
        spelled = [merge_pair(symbols, best) for symbols in spelled]
    return merges


def test_the_papers_words_by_hand() -> None:
    merges = learn(PAPER, 10)
    assert [(*merge.pair, merge.count) for merge in merges] == [
        ("e", "s", 9),  # 6 newest, 3 widest; as often as s t, but es comes before st
        ("es", "t", 9),
        ("l", "o", 7),  # 5 low, 2 lower; before ow and ▁l. w e was 8, before est took the e of newest
        ("lo", "w", 7),
        ("▁", "low", 7),
        ("e", "w", 6),
        ("▁", "n", 6),  # two characters, before the three of n ew
        ("▁n", "ew", 6),
        ("▁new", "est", 6),
        ("i", "d", 3),
    ]
    assert [merge.rank for merge in merges] == list(range(10))
    assert [merge.symbol for merge in merges[:3]] == ["es", "est", "lo"]


def test_an_unseen_word_is_split_into_learned_symbols() -> None:
    ranks = ranks_of(learn(PAPER, 10))
    assert segment("▁lowest", ranks) == ["▁low", "est"]
    assert segment("▁newest", ranks) == ["▁newest"]
    assert segment("▁wider", ranks) == ["▁", "w", "id", "e", "r"]
    assert segment("▁löw", ranks) == ["▁", "l", "ö", "w"]
    assert segment("", ranks) == []


def test_the_earliest_merge_is_applied_first_not_the_leftmost() -> None:
    assert segment("abc", {("b", "c"): 0, ("a", "b"): 1}) == ["a", "bc"]
    assert segment("abab", {("a", "b"): 0, ("ab", "a"): 1}) == ["ab", "ab"]


def test_merging_a_pair_and_one_that_overlaps_itself() -> None:
    assert merge_pair(list("aaa"), ("a", "a")) == ["aa", "a"]
    assert merge_pair(list("aaaa"), ("a", "a")) == ["aa", "aa"]
    assert merge_pair(["ab", "c"], ("a", "bc")) == ["ab", "c"]
    assert learn(["aaa"], 2) == [Merge(("a", "a"), 2, 0), Merge(("aa", "a"), 1, 1)]


def test_text_is_cut_where_no_merge_may_cross() -> None:
    assert split_words(' "Don\'t" wait\t1.5 h.\n') == ['▁"', "Don", "'", "t", '"', "▁wait", "▁1.5", "▁h", "."]
    assert split_words("a▁b") == ["▁a", "▁b"]
    assert split_words(" \n") == []


def test_learning_ends_when_no_pair_is_left() -> None:
    assert learn(["▁ab"] * 2, 9) == [Merge(("a", "b"), 2, 0), Merge(("▁", "ab"), 2, 1)]
    assert learn([], 9) == []
    assert learn(PAPER, 0) == []
    assert [merge.symbol for merge in learn(["a" * 16 + "b", "a" * 16], 9)] == ["aa", "aaaa", "a" * 8, "a" * 16]


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="must not be negative; got -1"):
        learn(PAPER, -1)
    with pytest.raises(ValueError, match="use split_words"):
        learn("low lower", 1)


@some
@given(texts, texts, st.integers(0, 40))
def test_round_trip(learned: str, text: str, n_merges: int) -> None:
    symbols = encode(text, ranks_of(learn(split_words(learned), n_merges)))
    assert decode(symbols) == " ".join(text.replace("▁", " ").split())


@some
@given(counted, st.text("abcd"), st.integers(0, 20))
def test_only_learned_symbols_and_characters(words: list[str], word: str, n_merges: int) -> None:
    merges = learn(words, n_merges)
    symbols = segment(word, ranks_of(merges))
    assert "".join(symbols) == word
    assert set(symbols) <= {merge.symbol for merge in merges} | set(word)


@some
@given(counted, st.text("abc"))
def test_more_merges_never_give_more_symbols(words: list[str], word: str) -> None:
    merges = learn(words, 20)
    lengths = [len(segment(word, ranks_of(merges[:n]))) for n in range(len(merges) + 1)]
    assert lengths == sorted(lengths, reverse=True)


@some
@given(counted)
def test_counts_fall_and_no_symbol_is_made_twice(words: list[str]) -> None:
    merges = learn(words, 20)
    counts = [merge.count for merge in merges]
    assert counts == sorted(counts, reverse=True) and min(counts, default=1) > 0
    assert len({merge.symbol for merge in merges}) == len(merges)


@some
@given(counted, st.integers(0, 20))
def test_incremental_counts_equal_full_counts(words: list[str], n_merges: int) -> None:
    assert learn(words, n_merges) == learn_by_recounting(words, n_merges)


ODD = [
    *['The 1.250 "Donaudampfschifffahrt"-tickets (3,50 each) don\'t expire; 50% were sold: 625!'] * 4,
    *["Die Donaudampfschifffahrtsgesellschaft zählt 1.250, nicht 1.205: Straßenbahnhaltestellen ..."] * 3,
    *["aaaa aaa aa banana bananas; 3.5, 3.50, 3.505 ... ab-ab-ab ABAB AbAb"] * 2,
]
"""Digits, punctuation, words of more than 16 characters, and pairs that overlap."""


def pocket_texts() -> tuple[list[str], list[str]]:
    """Texts to learn from, and others."""
    train = [text for pair in pocket.pairs("train", 2000) for text in (pair.source, pair.target)]
    return train, [pair.target for pair in pocket.pairs("test", 300)]


@pytest.mark.parametrize(
    ("corpus", "n_merges"),
    [
        (pocket_texts, 1000),
        (pocket_texts, 4000),
        (lambda: (ODD, ["Bananenschifffahrt: 12.505 (ABab)!"]), 133),
    ],
    ids=["pocket 1000", "pocket 4000", "odd, all"],
)
def test_sentencepiece_makes_the_same_merges_in_the_same_order(
    corpus: Callable[[], tuple[list[str], list[str]]], n_merges: int
) -> None:
    """The package's tokenizer, with its usual settings: all merges and all pieces must be the same."""
    lines, unseen = corpus()
    words = [word for line in lines for word in split_words(line)]
    merges = learn(words, n_merges)
    assert len(merges) == n_merges

    characters = {*"".join(words)}
    tokenizer = Tokenizer.train(lines, 4 + n_merges + len(characters))
    pieces = tokenizer.pieces(range(4, len(tokenizer)))
    assert [merge.symbol for merge in merges] == pieces[:n_merges]
    assert characters == {*pieces[n_merges:]}

    ranks = ranks_of(merges)
    for text in {*lines, *unseen}:
        assert encode(text, ranks) == tokenizer.pieces(tokenizer.encode(text)), text
