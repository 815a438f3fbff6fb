"""The figures of n-grams show the counts of sacreBLEU."""

import pytest

from transformer.plots import ngram_matches as plots

REFERENCE = "the dog left the milk because it was sour"
SLOTS = [["the dog left"], ["the milk", "the milk the milk"], ["sour", ""]]


def test_a_word_is_clipped_when_it_occurs_more_often_than_in_the_reference() -> None:
    ngrams = plots.classify_ngrams("the the the cat".split(), "the dog the".split())
    assert [gram.verdict for gram in ngrams if gram.n == 1] == ["match", "match", "clipped", "no match"]
    assert [gram.words for gram in ngrams if gram.n == 3] == ["the the the", "the the cat"]


@pytest.mark.parametrize("hypothesis", ["the dog left the milk the milk sour", "the the", "a cat", REFERENCE])
def test_the_matches_are_those_that_sacrebleu_counts(hypothesis: str) -> None:
    ngrams = plots.classify_ngrams(hypothesis.split(), REFERENCE.split())
    score = plots._bleu(hypothesis, REFERENCE)
    for n, count, total in zip(plots.ORDERS, score.counts, score.totals, strict=True):
        here = [gram for gram in ngrams if gram.n == n]
        assert (sum(gram.verdict == "match" for gram in here), len(here)) == (count, total)


def test_matches_are_drawn_and_counted() -> None:
    figure = plots.ngram_matches("the dog left the milk the milk sour".split(), REFERENCE.split())
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert [text for text in texts if " of " in text] == ["6 of 8", "4 of 7", "3 of 6", "2 of 5"]
    assert len(figure.axes[0].patches) == 8 + 7 + 6 + 5
    assert texts.count("!") == 3, "the third the, the second milk, the second pair of both"


def test_a_hypothesis_is_built_from_its_parts() -> None:
    spec = plots.bleu_explorer(SLOTS, [0, 1, 0], REFERENCE, "build a sentence").to_dict()
    datasets = list(spec["datasets"].values())
    (words,) = (rows for rows in datasets if "word" in rows[0])
    (components,) = (rows for rows in datasets if "component" in rows[0])
    assert {row["v"] for row in words} == {"000", "001", "010", "011"}
    assert " ".join(row["word"] for row in words if row["v"] == "001") == "the dog left the milk"
    assert [row["label"] for row in components if row["v"] == "010"] == [
        "6 of 8", "4 of 7", "3 of 6", "2 of 5", "0.88", "0.48",
    ]  # fmt: skip
    assert [param["value"] for param in spec["params"] if "bind" in param] == [0, 1, 0]


def test_the_builder_follows_the_page_and_fits_a_phone() -> None:
    spec = plots.bleu_explorer(SLOTS, [0, 0, 0], REFERENCE, "build a sentence").to_dict()
    assert spec["description"] == "build a sentence"
    assert spec["usermeta"]["embedOptions"]["renderer"] == "svg" and spec["config"]["background"] == "transparent"
    assert all(part["width"] <= 250 for part in spec["vconcat"]), "a phone leaves 358 px, of which the labels take 100"
