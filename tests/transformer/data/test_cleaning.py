import json
import sys
import unicodedata
from dataclasses import asdict, fields, replace
from itertools import chain, count, islice, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.data.cleaning import (
    CONTROL_CHARACTERS,
    MAX_EXAMPLE_LENGTH,
    N_EXAMPLES,
    NO_CLEANING,
    Cleaner,
    CleaningConfig,
    CleaningReport,
)
from transformer.errors import UserError

Pairs = list[tuple[str, str]]
STRICT = CleaningConfig(min_words=3, max_words=150, max_ratio=2)
ALL = replace(STRICT, min_language_probability=0.01)
HOTEL = ("The hotel is close to the beach.", "Das Hotel liegt nahe am Strand.")
DUTCH = "Het hotel ligt dicht bij het strand."


def charge(config: CleaningConfig, *pairs: tuple[str, str]) -> dict[str, int]:
    """How many of these pairs each filter dropped, without filters that dropped none."""
    cleaner = Cleaner(config)
    assert len(list(cleaner.clean(pairs))) == cleaner.report.kept
    return {name: dropped for name, dropped in cleaner.report.dropped.items() if dropped}


def words(n: int, word: str = "w") -> str:
    return " ".join([word] * n)


@pytest.mark.parametrize(
    ("change", "dropped", "kept"),
    [
        ({"drop_empty": True}, ("", "b"), ("a", "b")),
        ({"drop_empty": True}, ("a", " \t\u2028\x85 "), ("a", " . ")),
        ({"drop_control_characters": True}, ("a", "Br\ufffdcke"), ("a", "Brücke")),
        ({"drop_control_characters": True}, ("\x92", "b"), ("\t", "b\r")),
        ({"drop_control_characters": True}, ("a\nb", "b"), ("a\u2028b", "b\u00ad\u200b")),
        ({"drop_control_characters": True}, ("a\x7f", "b"), ("a\xa0", "b~")),
        ({"drop_control_characters": True}, ("a", "\x00b"), ("a", " b")),
        ({"drop_control_characters": True}, ("a", "b\x9f"), ("a", "b\ufffc")),
        ({"min_words": 3}, (words(2), words(3)), (words(3), words(3))),
        ({"min_words": 3}, (words(3), words(2)), (words(3), words(4))),
        ({"min_words": 1}, ("", "b"), ("a", "b")),
        ({"max_words": 150}, (words(151), words(3)), (words(150), words(150))),
        ({"max_words": 150}, (words(3), words(151)), (words(1), words(150))),
        ({"max_ratio": 2}, (words(5), words(2)), (words(4), words(2))),
        ({"max_ratio": 2}, (words(2), words(5)), (words(2), words(4))),
        ({"max_ratio": 2}, ("", "b"), ("", "")),
        ({"max_ratio": 1.16}, (words(30), words(25)), (words(29), words(25))),  # 1.16 * 25 < 29 in floats
        ({"max_ratio": 1}, (words(2), words(1)), (words(2), words(2))),
        ({"drop_identical": True}, ("a b", "a b"), ("a b", "A b")),
        ({"drop_identical": True}, ("a b", " a  b"), ("a b", "ab")),
        ({"min_language_probability": 0.01}, (HOTEL[0], DUTCH), HOTEL),
        ({"min_language_probability": 0.01}, (DUTCH, HOTEL[1]), HOTEL),
        ({"min_language_probability": 0.01}, (HOTEL[0], HOTEL[0]), HOTEL),
        ({"min_language_probability": 0.01}, HOTEL[::-1], HOTEL),
        ({"min_language_probability": 0.5}, (HOTEL[0], DUTCH), HOTEL),
    ],
)
def test_each_filter_alone(change: dict[str, object], dropped: tuple[str, str], kept: tuple[str, str]) -> None:
    config = replace(NO_CLEANING, **change)  # type: ignore[arg-type]
    assert charge(config, dropped) == {next(iter(change)): 1}
    assert charge(config, kept) == {}
    assert charge(NO_CLEANING, dropped, kept) == {}


def test_only_the_same_pair_is_a_duplicate() -> None:
    config = replace(NO_CLEANING, drop_duplicates=True)
    different = [("a", "b"), ("b", "a"), ("a", "c"), ("c", "b"), ("ab", ""), ("", "ab"), ("a ", "b"), ("1a", "b")]
    assert charge(config, *different) == {}
    assert charge(config, *different, *different, ("a", "b")) == {"drop_duplicates": 9}


def test_many_different_pairs_are_no_duplicates() -> None:
    assert charge(replace(NO_CLEANING, drop_duplicates=True), *((f"{n}", "") for n in range(20_000))) == {}


def test_pairs_come_out_unchanged_and_in_order() -> None:
    pairs = [("  two spaces  ", "zwei\u2028Leerzeichen \r"), ("b b b", "c c c"), ("", "x"), ("a a a", "d d d")]
    assert list(Cleaner(STRICT).clean(pairs)) == pairs[1::2]
    assert list(Cleaner(CleaningConfig()).clean(pairs)) == [*pairs[:2], pairs[3]]


@pytest.mark.parametrize(
    ("pair", "first", "then"),
    [
        (("", "\x92"), "drop_empty", "drop_control_characters"),
        (("\x92", words(2)), "drop_control_characters", "min_words"),
        ((words(2), words(7)), "min_words", "max_words"),
        ((words(3), words(7)), "max_words", "max_ratio"),
        ((words(7), words(7)), "max_words", "drop_identical"),
        ((words(3), words(6)), "max_ratio", "drop_duplicates"),
        ((words(3), words(3)), "drop_identical", "drop_duplicates"),
    ],
)
def test_a_pair_is_counted_under_the_first_filter(pair: tuple[str, str], first: str, then: str) -> None:
    config = CleaningConfig(min_words=3, max_words=6, max_ratio=1.5)
    assert charge(config, pair, pair) == {first: 2}
    without_first = replace(config, **{first: type(getattr(config, first))(0)})  # type: ignore[arg-type]
    assert charge(without_first, pair, pair) == {then: 1 if then == "drop_duplicates" else 2}


def test_languages_are_identified_after_copies_and_before_duplicates() -> None:
    for pair, dropped in (
        ((DUTCH, DUTCH), {"drop_identical": 2}),
        ((HOTEL[0], DUTCH), {"min_language_probability": 2}),
        (HOTEL, {"drop_duplicates": 1}),
    ):
        assert charge(ALL, pair, pair) == dropped


def test_each_side_has_its_language() -> None:
    config = replace(NO_CLEANING, min_language_probability=0.01)
    pairs = [HOTEL, HOTEL[::-1], (HOTEL[0], DUTCH)]
    for languages, kept in ((("en", "de"), HOTEL), (("de", "en"), HOTEL[::-1]), (("en", "nl"), (HOTEL[0], DUTCH))):
        assert list(Cleaner(config, languages).clean(pairs)) == [kept]


def test_an_unknown_language_is_an_error_only_if_languages_are_identified() -> None:
    Cleaner(STRICT, ("en", "klingon"))
    with pytest.raises(UserError, match="cannot identify the language 'klingon': use its ISO 639 code, or turn the"):
        Cleaner(ALL, ("en", "klingon"))


def test_filters_are_in_the_order_of_the_fields() -> None:
    names = [f.name for f in fields(CleaningConfig)]
    assert list(Cleaner(ALL).report.dropped) == list(Cleaner(ALL).report.settings) == names


def test_control_characters_are_those_of_unicode() -> None:
    codes = [chr(n) for n in chain(range(0xD800), range(0xE000, sys.maxunicode + 1))]
    dropped = [c for c in codes if CONTROL_CHARACTERS.search(c)]
    assert dropped == [c for c in codes if unicodedata.category(c) == "Cc" and c not in "\t\r" or c == "\ufffd"]


def test_a_dropped_pair_does_not_make_a_duplicate() -> None:
    assert charge(CleaningConfig(), ("a", "a"), ("a", "a")) == {"drop_identical": 2}


def test_endless_text_streams() -> None:
    endless = ((f"number {n}", f"Nummer {n}") if n % 2 else ("", "leer") for n in count(1))
    cleaner = Cleaner(CleaningConfig())
    assert list(islice(cleaner.clean(endless), 3)) == [(f"number {n}", f"Nummer {n}") for n in (1, 3, 5)]
    assert (cleaner.report.seen, cleaner.report.kept, cleaner.report.dropped["drop_empty"]) == (5, 3, 2)


def test_the_report_holds_the_first_examples_with_their_lines_and_stays_small() -> None:
    cleaner = Cleaner(STRICT)
    empty = repeat(("x" * 1_000_000, ""), 50)
    list(cleaner.clean(chain([("one fine day", "ein schöner Tag")], empty, [("a b", "c d")])))
    list(cleaner.clean([("one fine day", "ein schöner Tag")]))  # a second text: duplicates and line numbers continue
    report = cleaner.report
    assert (report.seen, report.kept) == (53, 1)
    assert [example["line"] for example in report.examples["drop_empty"]] == [2, 3, 4][:N_EXAMPLES]
    assert report.examples["min_words"] == [{"line": 52, "source": "a b", "target": "c d"}]
    assert report.examples["drop_duplicates"][0]["line"] == 53
    assert len(report.examples["drop_empty"][0]["source"]) == MAX_EXAMPLE_LENGTH
    assert CleaningReport(**json.loads(json.dumps(asdict(report)))) == report


def test_the_table() -> None:
    cleaner = Cleaner(replace(NO_CLEANING, drop_control_characters=True, min_words=3, max_ratio=1.5))
    many = [("a b c", "d e f")] * 4990
    list(cleaner.clean([*many, ("so \x92 it is", "1\ufffd"), ("7", "8"), *[(words(40), words(61))] * 8]))
    lines = cleaner.report.table(width=20).splitlines()
    assert [line.split() for line in lines[2:]] == [
        "drop_control_characters 1 0.02% pair 4991: so \\x92 i… | 1\ufffd".split(),
        "min_words=3 1 0.02% pair 4992: 7 | 8".split(),
        "max_ratio=1.5 8 0.16% pair 4993: w w w w w… | w w w w w…".split(),
        "total 10 0.20%".split(),
    ]
    assert Cleaner(NO_CLEANING).report.table().splitlines()[-1].split() == ["total", "0"]


def test_a_limit_of_one_is_shown() -> None:
    cleaner = Cleaner(replace(NO_CLEANING, min_words=1, max_ratio=1, drop_identical=True))
    assert not list(cleaner.clean([("", "a"), ("a b", "c"), ("a", "a")]))
    assert cleaner.report.summary() == "kept 0 of 3 pairs; dropped by min_words=1: 1, max_ratio=1: 1, drop_identical: 1"


def test_nothing_left_is_an_error_with_the_numbers_in_one_line() -> None:
    cleaner = Cleaner(STRICT)
    list(cleaner.clean([("", "")] * 1200 + [("a", "b")]))
    with pytest.raises(UserError) as raised:
        cleaner.report.require_pairs("mini train")
    assert str(raised.value) == (
        "mini train has no sentence pairs to train on: kept 0 of 1,201 pairs; "
        "dropped by drop_empty: 1,200, min_words=3: 1"
    )
    with pytest.raises(UserError, match=r"it is empty$"):
        CleaningReport({}).require_pairs("nothing")
    list(cleaner.clean([("a b c", "d e f")]))
    cleaner.report.require_pairs("mini train")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"min_words": -1}, "min_words must not be negative; got -1"),
        ({"max_words": -1}, "max_words must not be negative; got -1"),
        ({"min_words": 9, "max_words": 8}, "min_words must not be greater than data.cleaning.max_words; got 9 and 8"),
        ({"max_ratio": 0.5}, "max_ratio must be 0 .* or at least 1; got 0.5"),
        ({"max_ratio": float("nan")}, "got nan"),
        ({"max_ratio": float("inf")}, "got inf"),
        ({"min_language_probability": -0.1}, "must be at least 0 and less than 1; got -0.1"),
        ({"min_language_probability": 1}, "must be at least 0 and less than 1; got 1"),
        ({"min_language_probability": float("nan")}, "got nan"),
    ],
)
def test_impossible_settings(setting: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        CleaningConfig(**setting)  # type: ignore[arg-type]
    CleaningConfig(min_words=8, max_words=8, max_ratio=1)
    CleaningConfig(min_words=8, max_words=0, max_ratio=0)


sentences = st.lists(st.sampled_from(["a", "the", "ist", "ä", "\x92", "\ufffd", "\t", "\x85"]), max_size=5).map(
    " ".join
)
texts = st.lists(st.tuples(sentences | st.text(max_size=8), sentences), max_size=25)
configs = st.builds(
    CleaningConfig,
    min_words=st.integers(0, 3),
    max_words=st.sampled_from([0, 3, 4]),
    max_ratio=st.sampled_from([0, 1, 1.5, 2]),
    drop_empty=st.booleans(),
    drop_control_characters=st.booleans(),
    drop_identical=st.booleans(),
    min_language_probability=st.sampled_from([0, 0.01]),
    drop_duplicates=st.booleans(),
)


@given(texts, configs)
def test_numbers_add_up_and_what_is_kept_is_clean(pairs: Pairs, config: CleaningConfig) -> None:
    cleaner = Cleaner(config)
    kept = list(cleaner.clean(pairs))
    report = cleaner.report
    assert report.seen == len(pairs) and report.kept == len(kept)
    assert report.seen == report.kept + sum(report.dropped.values())
    assert all(pairs[e["line"] - 1] == (e["source"], e["target"]) for es in report.examples.values() for e in es)
    assert {name: min(n, N_EXAMPLES) for name, n in report.dropped.items() if n} == {
        name: len(examples) for name, examples in report.examples.items()
    }
    assert charge(config, *kept) == {}
    for name, setting in asdict(config).items():
        alone = replace(NO_CLEANING, **{name: setting})
        assert charge(alone, *kept) == {}
        if not setting:
            assert name not in report.dropped
    unique = iter(pairs)
    assert all(pair in unique for pair in kept)  # a subsequence of the input


@given(st.tuples(sentences | st.text(max_size=8), sentences), configs)
def test_a_pair_is_dropped_if_some_filter_alone_drops_it(pair: tuple[str, str], config: CleaningConfig) -> None:
    alone = [charge(replace(NO_CLEANING, **{name: setting}), pair) for name, setting in asdict(config).items()]
    assert bool(charge(config, pair)) == any(alone)
