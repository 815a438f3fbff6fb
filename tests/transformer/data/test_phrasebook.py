"""The phrase book is clean text, and gives none of the first hundred everyday sentences away."""

from difflib import SequenceMatcher

from book._ext.widgets import MODELS
from book.everyday import read_sentences
from transformer.data.corpora import matching_key, sentence_pairs

PAIRS = [pair for split in ("train", "valid", "test") for pair in sentence_pairs("phrasebook", split)]


def test_it_is_large_and_clean() -> None:
    assert 42_000 < len(PAIRS) == len({tuple(map(matching_key, pair)) for pair in PAIRS})
    for pair in PAIRS:
        for text in pair:
            assert text == " ".join(text.split()) and text.isprintable()
            assert not set(text) & set("‘’„“”"), text
        assert (pair[0][-1] in ".!?") is (pair[1][-1] in ".!?"), pair


def test_no_phrase_is_like_one_of_the_first_hundred_sentences() -> None:
    """Not even with a few other words: at most three quarters of the words are the same, in the same order."""
    hundred = [matching_key(sentence).split() for sentence in read_sentences("first")]
    for english, _ in PAIRS:
        words = matching_key(english).split()
        for sentence in hundred:
            if 2 * sum(word in sentence for word in words) >= 0.75 * (len(words) + len(sentence)):  # else impossible
                common = SequenceMatcher(None, words, sentence, autojunk=False)
                assert common.ratio() < 0.75, (english, " ".join(sentence))


def test_no_example_of_the_live_translator_is_a_phrase() -> None:
    phrases = {matching_key(text) for pair in PAIRS for text in pair}
    examples = [sentence for name in ("everyday", "everyday-de-en") for sentence in MODELS[name]["sentences"]]
    assert len(examples) == 8 and not [one for one in examples if matching_key(one) in phrases]
