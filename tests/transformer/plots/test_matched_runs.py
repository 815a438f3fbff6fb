"""The figure of matching runs shows the matches that BLEU counts."""

from transformer.plots.matched_runs import LONGEST, longest_matches, matched_runs

REFERENCE = "the dog left the milk because it was sour".split()


def test_each_word_has_the_longest_matching_ngram_around_it() -> None:
    assert longest_matches("a dog left the milk".split(), REFERENCE) == [0, 4, 4, 4, 4]
    assert longest_matches("the sour milk was left".split(), REFERENCE) == [1, 1, 1, 1, 1]
    assert longest_matches("sour it was".split(), REFERENCE) == [1, 2, 2]


def test_a_run_of_more_than_four_words_counts_as_four_because_bleu_stops_there() -> None:
    assert longest_matches(REFERENCE, REFERENCE) == [4] * len(REFERENCE)


def test_words_that_occur_too_often_do_not_match() -> None:
    assert longest_matches("sour sour".split(), REFERENCE) == [1, 0]


def test_as_many_blocks_are_filled_as_the_match_is_long() -> None:
    figure = matched_runs({"A": "The sour, sour milk left.", "B": "It was cold."}, "It was the milk, left.")
    (axes,) = figure.axes
    filled = [bool(block.get_fill() and block.get_facecolor()[3]) for block in axes.patches]
    heights = [sum(filled[i : i + LONGEST]) for i in range(0, len(filled), LONGEST)]
    assert heights == [0, 0, 0, 1, 2, 2, 2, 0], "milk; left and its period, drawn as one; It was"
    texts = [text.get_text() for text in axes.texts]
    assert texts[:3] == ["ref.", "It was the milk, left.", "A"] and "sour," in texts
