"""The phrase book is clean text, and gives none of the first hundred everyday sentences away."""

from collections import Counter, defaultdict
from difflib import SequenceMatcher
from functools import cache

from book._ext.widgets import MODELS
from book.everyday import read_sentences
from transformer.data.corpora import matching_key, sentence_pairs


@cache
def all_pairs() -> list[tuple[str, str]]:
    return [pair for split in ("train", "valid", "test") for pair in sentence_pairs("phrasebook", split)]


def test_it_is_large_and_clean() -> None:
    pairs = all_pairs()
    assert 42_000 < len(pairs) == len({tuple(map(matching_key, pair)) for pair in pairs})
    for pair in pairs:
        for text in pair:
            assert text == " ".join(text.split()) and text.isprintable()
            assert not set(text) & set("‘’„“”"), text
        assert (pair[0][-1] in ".!?") is (pair[1][-1] in ".!?"), pair


def test_no_phrase_is_like_one_of_the_first_hundred_sentences() -> None:
    """Not even with a few other words: at most three quarters of the words are the same, in the same order."""
    hundred = [matching_key(sentence).split() for sentence in read_sentences("first")]
    containing = defaultdict[str, list[int]](list)  # word → the numbers of the sentences with it
    for number, sentence in enumerate(hundred):
        for word in set(sentence):
            containing[word].append(number)
    for english, _ in all_pairs():
        words = matching_key(english).split()
        n_shared = Counter(number for word in words for number in containing.get(word, ()))
        for number, n in n_shared.items():
            sentence = hundred[number]
            if 2 * n >= 0.75 * (len(words) + len(sentence)):  # else impossible
                common = SequenceMatcher(None, words, sentence, autojunk=False)
                assert common.ratio() < 0.75, (english, " ".join(sentence))


def test_no_example_of_the_live_translator_is_a_phrase() -> None:
    phrases = {matching_key(text) for pair in all_pairs() for text in pair}
    examples = [sentence for name in ("everyday", "everyday-de-en") for sentence in MODELS[name]["sentences"]]
    assert len(examples) == 8 and not [one for one in examples if matching_key(one) in phrases]
