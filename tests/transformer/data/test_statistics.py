import itertools
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.data import statistics as module
from transformer.data.batching import Indices, Sequences, SequencesWriter, collate, token_batches
from transformer.data.cleaning import CleaningReport
from transformer.data.prepare import DataConfig, PreparedData
from transformer.data.statistics import (
    BatchStatistics,
    Bucket,
    LengthStatistics,
    batch_statistics,
    corpus_statistics,
    draw_samples,
    length_histogram,
    used_pieces,
)
from transformer.data.tokenizer import PAD, Tokenizer
from transformer.errors import UserError

PAIRS = [("a b", "a b"), ("c", "c x c"), ("a b a", "b"), ("a y a b", "a a a a a a a a a a a z")]
TOKENIZER = Tokenizer.train(["a b c a b c", "x y z"], vocab_size=17)
"""Each letter is a piece at the start of a word; its piece for other positions doesn't occur in these texts."""


def store(folder: Path, report: CleaningReport) -> PreparedData:
    for split, pairs in (("train", PAIRS), ("valid", PAIRS[1:])):
        for side, texts in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
            with SequencesWriter(folder, f"{split}.{side}", len(TOKENIZER)) as writer:
                writer.extend([TOKENIZER.encode(text) for text in texts])
    (folder / "tokenizer.model").write_bytes(TOKENIZER.model)
    (folder / "cleaning.json").write_text(json.dumps(asdict(report)))
    return PreparedData(folder)


@pytest.fixture
def clean(tmp_path: Path) -> PreparedData:
    """The pairs, prepared without dropping any."""
    return store(tmp_path, CleaningReport({}, seen=4, kept=4))


def array(*numbers: int) -> Indices:
    return np.array(numbers, dtype=np.int64)


def of_lengths(lengths: Indices) -> Sequences:
    return Sequences(np.full(int(lengths.sum()), 7, dtype=np.uint16), np.cumsum(lengths))


# Numbers


def test_lengths_by_hand() -> None:
    assert LengthStatistics.of(array(4, 1, 2, 2)) == LengthStatistics(4, 9, 2.25, 2, 4, 4)
    assert LengthStatistics.of(array(3)) == LengthStatistics(1, 3, 3.0, 3, 3, 3)
    assert LengthStatistics.of(np.arange(1, 41)) == LengthStatistics(40, 820, 20.5, 20, 38, 40)


LENGTHS = st.lists(st.integers(1, 90) | st.integers(1, 10**6), min_size=1, max_size=60).map(lambda n: array(*n))


@given(LENGTHS, LENGTHS)
def test_every_sentence_is_in_its_bucket(source_lengths: Indices, target_lengths: Indices) -> None:
    buckets = length_histogram(source_lengths, target_lengths)
    assert len(buckets) <= module.N_BUCKETS + 1
    for name, lengths in (("source", source_lengths), ("target", target_lengths)):
        for bucket in buckets:
            last = float("inf") if bucket.last is None else bucket.last
            assert getattr(bucket, name) == ((bucket.first <= lengths) & (lengths <= last)).sum()
    assert buckets[0].first == 1 and all(a.last == b.first - 1 for a, b in itertools.pairwise(buckets))
    assert buckets[-1].source + buckets[-1].target > 0
    assert all(bucket.last is not None for bucket in buckets[:-1])


@pytest.mark.parametrize(
    ("longest", "width"), [(1, 1), (15, 1), (16, 2), (30, 2), (31, 5), (150, 10), (151, 20), (750, 50), (751, 100)]
)
def test_buckets_are_as_narrow_as_possible(longest: int, width: int) -> None:
    buckets = length_histogram(array(1), array(longest))
    assert len(buckets) == len(length_histogram(array(longest), array(1))) and buckets[0].last == width
    last = buckets[-1]
    assert last.last is not None and last.last - last.first + 1 == width and last.first <= longest <= last.last


def test_the_few_longest_share_a_bucket() -> None:
    source_lengths, target_lengths = np.full(1000, 15), np.full(1000, 3)
    source_lengths[:10], target_lengths[:10] = 40, 500  # 1 %
    assert length_histogram(source_lengths, target_lengths)[-2:] == [Bucket(15, 15, 990, 0), Bucket(16, None, 10, 10)]
    target_lengths[10] = 16
    assert length_histogram(source_lengths, target_lengths)[1] == Bucket(3, 4, 0, 989)


def test_batches_by_hand() -> None:
    source_lengths, target_lengths = array(2, 1, 3, 4, 1), array(2, 3, 1, 12, 1)
    made = batch_statistics(source_lengths, target_lengths, [array(3), array(1, 4), array(2, 0)])
    # with eos: sources 5 | 2 2 | 4 3, targets 13 | 4 2 | 2 3; positions 5 + 13, 4 + 8, 8 + 6, tokens 40
    # The last batch is the smallest, with 5 target tokens, but doesn't count.
    assert made == BatchStatistics(
        n_batches=3, median_pairs=2, median_tokens=6, min_tokens=6, padding=pytest.approx(1 - 40 / 44)
    )
    assert batch_statistics(source_lengths, target_lengths, [array(3)]) == BatchStatistics(1, 1, 13, 13, 0.0)


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=60), st.integers(1, 200))
def test_batches_are_what_collate_makes(lengths: list[tuple[int, int]], batch_tokens: int) -> None:
    source_lengths, target_lengths = (array(*side) for side in zip(*lengths, strict=True))
    sources, targets = of_lengths(source_lengths), of_lengths(target_lengths)
    plan = token_batches(sources, targets, batch_tokens)
    made = batch_statistics(source_lengths, target_lengths, plan)
    batches = [collate(sources, targets, indices) for indices in plan]
    sides = [side for batch in batches for side in (batch.source, batch.labels)]
    padding = sum(int((side == PAD).sum()) for side in sides) / sum(side.numel() for side in sides)
    tokens = [batch.n_tokens for batch in batches]
    assert made.padding == pytest.approx(padding) and made.n_batches == len(batches)
    assert (
        made.min_tokens == min(tokens[:-1] or tokens) and made.median_tokens == sorted(tokens)[(len(tokens) - 1) // 2]
    )
    assert made.median_pairs == sorted(map(len, plan))[(len(plan) - 1) // 2]


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_used_pieces(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", at_once)
    assert used_pieces(Sequences.pack([[4, 5], [], [5, 9, 0]]), 11).nonzero()[0].tolist() == [0, 4, 5, 9]
    assert used_pieces(Sequences.pack([]), 3).tolist() == [False] * 3


# Samples


def test_samples_are_pairs_with_their_pieces(clean: PreparedData) -> None:
    sides = clean.tokens("train")
    samples = draw_samples(*sides, TOKENIZER, count=99)
    assert [s.index for s in samples] == [0, 1, 2, 3]
    assert [(s.source, s.target) for s in samples] == PAIRS
    assert samples[1].source_pieces == ["▁c"] and samples[1].target_pieces == ["▁c", "▁x", "▁c"]
    assert draw_samples(*sides, TOKENIZER, count=0) == []
    with pytest.raises(UserError, match="samples must not be negative; got -1"):
        draw_samples(*sides, TOKENIZER, count=-1)


def test_samples_are_chosen_by_seed() -> None:
    many = Sequences.pack([[5]] * 1000)
    chosen = {seed: [s.index for s in draw_samples(many, many, TOKENIZER, 4, seed)] for seed in (0, 1, -1, 2)}
    assert chosen[0] == [s.index for s in draw_samples(many, many, TOKENIZER, 4)]
    assert chosen[0] != chosen[1] != chosen[2]
    for numbers in chosen.values():
        assert numbers == sorted(set(numbers)) and len(numbers) == 4
    assert max(itertools.chain(*chosen.values())) > 500  # from all of the corpus


# Text


def trimmed(text: str) -> str:
    """The text without trailing spaces."""
    return "\n".join(line.rstrip() for line in text.split("\n"))


def test_the_complete_output(clean: PreparedData) -> None:
    printed = corpus_statistics(clean, DataConfig("copy"), batch_tokens=7, samples=1)
    assert trimmed("\n\n".join(printed)) == PRINTED


# As a hand counts: the batches hold pairs 1 and 3, 2, and 4; of their 38 places two are padding.
PRINTED = """\
corpus       copy
description  synthetic, generated by a program
direction    en → de
splits       train, valid, test

Tokens, without bos and eos

             sentences    tokens    mean    median    95th percentile    longest
---------  -----------  --------  ------  --------  -----------------  ---------
train, en            4        10     2.5         2                  4          4
train, de            4        18     4.5         2                 12         12
valid, en            3         8     2.7         3                  4          4
valid, de            3        16     5.3         3                 12         12

The vocabulary has 17 subwords. 6 of them occur in train: 4 in the source,
5 in the target, 3 in both.

Training sentences by length

  tokens    en                                  de
--------  ----  ----------------------------  ----  ----------------------------
       1     1  ████████████████████████████     1  ████████████████████████████
       2     1  ████████████████████████████     1  ████████████████████████████
       3     1  ████████████████████████████     1  ████████████████████████████
       4     1  ████████████████████████████     0
       5     0                                   0
       6     0                                   0
       7     0                                   0
       8     0                                   0
       9     0                                   0
      10     0                                   0
      11     0                                   0
      12     0                                   1  ████████████████████████████

Batches of up to 7 target tokens, including eos

batches per epoch  3
pairs              1 in the median batch
target tokens      5 in the median batch, 4 in the smallest, not counting the last one
padding            5.3% of source and target

Training samples, normalised, with their subwords

pair 4
en  a y a b
    ▁a ▁y ▁a ▁b
de  a a a a a a a a a a a z
    ▁a ▁a ▁a ▁a ▁a ▁a ▁a ▁a ▁a ▁a ▁a ▁z"""


def test_samples_are_the_last_part_and_may_be_left_out(clean: PreparedData) -> None:
    parts = [list(corpus_statistics(clean, DataConfig("copy"), 7, samples, seed=1)) for samples in (0, 2)]
    assert parts[1][:-1] == parts[0] and parts[1][-1].count("pair ") == 2
    with pytest.raises(UserError, match="got -3"):
        next(corpus_statistics(clean, DataConfig("copy"), 7, samples=-3))


def test_dropped_pairs(tmp_path: Path) -> None:
    example = {"line": 4_500_000, "source": "s " * 200, "target": "t " * 200}
    few = {"settings": {"drop_duplicates": True}, "dropped": {"drop_duplicates": 3}}
    cleaned = CleaningReport(**few, seen=7, kept=4, examples={"drop_duplicates": [example]})
    *_, text, _, _, _, _ = list(corpus_statistics(store(tmp_path, cleaned), DataConfig("copy"), 7, samples=0))
    assert text.startswith("Pairs dropped from train\n\nfilter ") and "drop_duplicates          3   42.86%" in text
    assert "max_length" not in text and max(map(len, text.split("\n"))) <= module.WIDTH
    unfit = CleaningReport(**few, seen=1007, kept=1004)
    *_, text, _, _, _, _ = list(
        corpus_statistics(store(tmp_path, unfit), DataConfig("copy", max_length=12), 7, samples=0)
    )
    assert text.endswith("\n\nDropped for having no tokens, or more than 12 on a side: 1,000")
    alone = CleaningReport({}, seen=5, kept=5)
    *_, text, _, _, _, _ = list(corpus_statistics(store(tmp_path, alone), DataConfig("copy"), 7, samples=0))
    assert text == "Pairs dropped from train\n\nDropped for having no tokens, or more than 150 on a side: 1"
    twice = DataConfig("copy", bpe_dropout=0.1, segmentations=2)
    few_parts = list(corpus_statistics(store(tmp_path, CleaningReport({}, seen=2, kept=2)), twice, 7, samples=0))
    assert not any("dropped" in text for text in few_parts), "two pairs, stored twice each, are four"


def corpus_rows(clean: PreparedData, config: DataConfig) -> dict[str, str]:
    """The rows of the first section, by name."""
    rows: dict[str, str] = {}
    for line in next(corpus_statistics(clean, config, 7)).split("\n"):
        assert len(line) <= module.WIDTH
        name, text = line.split(maxsplit=1) if line[0] != " " else (list(rows)[-1], line.strip())
        rows[name] = f"{rows[name]} {text}" if name in rows else text
    return rows


def test_where_a_corpus_comes_from(clean: PreparedData) -> None:
    rows = corpus_rows(clean, DataConfig("multi30k", direction="de-en"))
    assert list(rows) == ["corpus", "description", "direction", "splits", "licence", "citation"]
    assert rows["corpus"] == "multi30k" and rows["direction"] == "de → en"
    assert rows["splits"] == "train, valid, test, test_2017, test_2018, test_mscoco"
    assert rows["description"].startswith("29,000 captions") and rows["licence"].startswith("Captions of Flickr30k")
    assert rows["citation"].endswith("Multi30K: Multilingual English-German Image Descriptions")


def test_pairs_in_no_split_are_reported(clean: PreparedData) -> None:
    for contents, described in (({"unused": 1234}, "1,234 pairs that were held out"), ({"unused": 0}, ""), ({}, "")):
        (clean.folder / "store.json").write_text(json.dumps(contents))  # the last as earlier versions wrote it
        assert module.unused_pairs(clean).startswith(described)
        assert corpus_rows(clean, DataConfig("copy")).get("unused", "") == module.unused_pairs(clean)


def test_missing_information_about_a_corpus_is_omitted(clean: PreparedData, tmp_path: Path) -> None:
    part = [{"en": "a.en", "fr": "a.fr"}]
    manifest = {"languages": ["en", "fr"], "licence": "free", "splits": {"train": part, "valid": part}}
    (tmp_path / "mine.json").write_text(json.dumps(manifest))
    rows = corpus_rows(clean, DataConfig(str(tmp_path / "mine.json"), "fr-en"))
    assert rows == {
        "corpus": "mine",
        "direction": "fr → en",
        "splits": "train, valid, test (held out of train)",
        "licence": "free",
    }


@pytest.mark.parametrize(
    ("share", "bar"),
    [(0, ""), (1e-9, "▏"), (3 / 224, "▍"), (8 / 224, "█"), (0.5, "█" * 14), (221 / 224, "█" * 27 + "▋"), (1, "█" * 28)],
)
def test_bars_are_exact_to_an_eighth(share: float, bar: str) -> None:
    assert module._bar(share) == bar


def test_the_most_have_the_longest_bar() -> None:
    table = module._histogram_table([Bucket(1, 5, 1000, 500), Bucket(6, None, 0, 250)], ("en", "de"))
    assert [line.split() for line in table.split("\n")[2:]] == [
        ["1–5", "1,000", "█" * 28, "500", "█" * 14],
        ["over", "5", "0", "250", "█" * 7],
    ]


@pytest.mark.parametrize(
    ("bucket", "name"),
    [(Bucket(3, 3, 0, 0), "3"), (Bucket(6, 10, 0, 0), "6–10"), (Bucket(151, None, 0, 0), "over 150")],
)
def test_buckets_have_names(bucket: Bucket, name: str) -> None:
    assert module._range(bucket) == name


def test_a_sample_fits_the_terminal_and_contains_no_control_codes() -> None:
    sample = module.Sample(1233, "red \x1b[31m " + "long " * 30, ["▁red", "\x1b"] * 30, "kurz", ["▁kurz"])
    text = module._sample_text(sample, ("en", "deu"))
    first, english, *more = text.split("\n")
    assert first == "pair 1,234" and english.startswith("en   red \\x1b[31m long long") and "\x1b" not in text
    assert more[-2:] == ["deu  kurz", "     ▁kurz"] and all(line.startswith("     ") for line in more[:-2])
    assert 90 < max(map(len, more)) <= module.WIDTH
