"""Checks of 01 translating a sentence (§3.1, §3.4, §4)."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from exercises.check import Topic
from exercises.checks import decoding
from exercises.restrictions import SOFTMAX, forbid
from transformer.data.tokenizer import BOS, EOS, PAD, UNK

topic = Topic()
check, given = topic.check, topic.given

N_SPECIAL = 4

NextToken = Callable[[list[int]], Tensor]
"""Token ids so far → the probability of each token as the next one, (vocab_size,)."""


# 1 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"sentences": ["the dog sees the cat"], "size": 9},
    {"sentences": ["so a dog and a cat", "a cat  runs"], "size": 7},
    {"sentences": ["we zip and we zap", "we zip"], "size": 6},
    {"sentences": ["Two men sit.", "two men stand", "Two dogs run", "A man runs. "], "size": 12},
    {"sentences": ["we know that we know", "yes we do"], "size": 50},
    {"sentences": ["nothing fits"], "size": 4},
    {"sentences": ["one two three four five six seven eight nine ten"], "size": 6},
)
def build_vocabulary(sentences: list[str], size: int) -> dict[str, int]:
    """The most frequent words first, and those of the same frequency in order."""
    return _numbered(_ranked(_counts(sentences)), size)


def _counts(sentences: list[str], words_of: Callable[[str], Iterable[str]] = str.split) -> Counter[str]:
    return Counter(word for sentence in sentences for word in words_of(sentence))


def _ranked(counts: Counter[str]) -> list[str]:
    return sorted(counts, key=lambda word: (-counts[word], word))


def _numbered(words: list[str], size: int) -> dict[str, int]:
    return {word: i for i, word in enumerate(words[: size - N_SPECIAL], start=N_SPECIAL)}


@build_vocabulary.mistake(
    "the size without the special tokens",
    "Your vocabulary has four words too many. `size` includes the special tokens, so there is room for fewer words.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    return _numbered(_ranked(_counts(sentences)), size + N_SPECIAL)


@build_vocabulary.mistake(
    "all words, whatever the size",
    "You keep every word of the text. The vocabulary has at most `size` entries, the four special tokens included.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    counts = _counts(sentences)
    return _numbered(_ranked(counts), N_SPECIAL + len(counts))


@build_vocabulary.mistake(
    "ids from 0",
    "You number the words from 0, but the ids 0 to 3 belong to the special tokens. Your first word would be taken for "
    "padding.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    return {word: i - N_SPECIAL for word, i in build_vocabulary.reference(sentences, size).items()}


@build_vocabulary.mistake(
    "the special tokens as well",
    "Your dict contains the special tokens, too. They have their ids already: return only the words. (Otherwise a text "
    "could contain the word `<eos>`, and end a sentence in the middle.)",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    special = {token: i for i, token in enumerate(("<pad>", "<bos>", "<eos>", "<unk>"))}
    return special | build_vocabulary.reference(sentences, size)


@build_vocabulary.mistake(
    "ties in the order of the text",
    "Words with the same frequency stay in the order in which they occur. So the ids would change if the sentences "
    "were shuffled. Sort these words as strings. (`Counter.most_common` and `sorted` with the count alone don't.)",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    counts = _counts(sentences)
    return _numbered(sorted(counts, key=lambda word: -counts[word]), size)


@build_vocabulary.mistake(
    "ties from z to a",
    "Words with the same frequency are in reverse order. Did you sort in descending order? That reverses the words "
    "along with the counts. Sort by minus the count instead.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    counts = _counts(sentences)
    return _numbered(sorted(counts, key=lambda word: (counts[word], word))[::-1], size)


@build_vocabulary.mistake(
    "the rarest words first",
    "You number the words from the rarest to the most frequent, so if there isn't room for all, the frequent ones are "
    "left out.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    counts = _counts(sentences)
    return _numbered(sorted(counts, key=lambda word: (counts[word], word)), size)


@build_vocabulary.mistake(
    "sorted by the alphabet only",
    "You sort the words as strings, whatever their frequency. Their frequency comes first; the strings only decide "
    "between words with the same frequency.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    return _numbered(sorted(_counts(sentences)), size)


@build_vocabulary.mistake(
    "the order of the text",
    "You number the words in the order in which they first occur. Count them, and give the smallest ids to the most "
    "frequent ones.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    return _numbered(list(_counts(sentences)), size)


@build_vocabulary.mistake(
    "each word counted once per sentence",
    "A word that occurs twice in a sentence counts once in your code. Count all its occurrences.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    return _numbered(_ranked(_counts(sentences, lambda sentence: set(sentence.split()))), size)


@build_vocabulary.mistake(
    "characters counted instead of words",
    "You go through the characters of each sentence. Split it into words first.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    return _numbered(_ranked(_counts(sentences, list)), size)


@build_vocabulary.mistake(
    "split at every space",
    "You split at every single space, so two spaces in a row, or one at the end, create an empty word. Whitespace of "
    "any length separates two words.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    return _numbered(_ranked(_counts(sentences, lambda sentence: sentence.split(" "))), size)


@build_vocabulary.mistake(
    "in lower case",
    "You change the words to lower case. Here `Two` and `two` are different words, each with an id of its own.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    return build_vocabulary.reference([sentence.lower() for sentence in sentences], size)


@build_vocabulary.mistake(
    "from ids to words",
    "Your dict maps ids to words. It is used for encoding, so it should map each word to its id.",
)
def _(sentences: list[str], size: int) -> dict[int, str]:
    return {i: word for word, i in build_vocabulary.reference(sentences, size).items()}


@build_vocabulary.mistake(
    "counts instead of ids", "The values are the words' frequencies. Return their ids: N_SPECIAL, N_SPECIAL + 1, …"
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    counts = _counts(sentences)
    return {word: counts[word] for word in build_vocabulary.reference(sentences, size)}


@build_vocabulary.mistake(
    "cut off before sorting",
    "You take the most frequent words first and sort them afterwards. If words with the same frequency are on "
    "both sides of the limit, chance decides which of them get in. Sort all the words, and cut the list then.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    chosen = _counts(sentences).most_common(size - N_SPECIAL)
    return _numbered(sorted(dict(chosen), key=lambda word: (-dict(chosen)[word], word)), size)


@build_vocabulary.mistake(
    "cut off in the order of the alphabet",
    "You keep the words that come first in the alphabet, and sort only these by frequency. A frequent word late in the "
    "alphabet is lost like that: sort all words by frequency first, and cut the list then.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    counts = _counts(sentences)
    chosen = sorted(counts)[: size - N_SPECIAL]
    return _numbered(sorted(chosen, key=lambda word: (-counts[word], word)), size)


@build_vocabulary.mistake(
    "parts of words counted",
    "You look for each word in the text as a string. So `a` is also found inside `cat`, and counted there. Split the "
    "sentences into words, and count those that are equal.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    text = " ".join(sentences)
    return _numbered(_ranked(Counter({word: text.count(word) for word in text.split()})), size)


@build_vocabulary.mistake(
    "one word too many where there is no room",
    "Where `size` leaves no room for words, your vocabulary still has one. Ask whether there is room before you "
    "add a word, not afterwards.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    return _numbered(_ranked(_counts(sentences)), max(size, N_SPECIAL + 1))


@build_vocabulary.mistake(
    "the sentences joined without a space",
    "You join the sentences directly, so the last word of one and the first word of the next become a single word. Put "
    "a space between them, or split each sentence by itself.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    return build_vocabulary.reference(["".join(sentences)], size)


@build_vocabulary.mistake(
    "whole sentences counted",
    "You count whole sentences. Split each of them into words, and count those.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    return _numbered(_ranked(Counter(sentences)), size)


@build_vocabulary.mistake(
    "only the first sentence",
    "You count the words of the first sentence only. Go through all sentences, and add up their counts.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    return build_vocabulary.reference(sentences[:1], size)


@build_vocabulary.mistake(
    "only the last sentence",
    "Only the words of the last sentence are counted. Do you begin with new counts for each sentence? Begin once, "
    "before the loop.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    return build_vocabulary.reference(sentences[-1:], size)


@build_vocabulary.mistake(
    "only the first word",
    "Your vocabulary has a single word. Is your `return` inside the loop?",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    return build_vocabulary.reference(sentences, min(size, N_SPECIAL + 1))


@build_vocabulary.mistake(
    "punctuation cut off",
    "You separate the punctuation from the words. Leave the words as whitespace separates them: `sit.` with its full "
    "stop is a word.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    return _numbered(_ranked(_counts(sentences, lambda sentence: [w.strip(".,!?") for w in sentence.split()])), size)


@build_vocabulary.mistake(
    "punctuation as words of its own",
    "You count a full stop as a word of its own. Only whitespace separates two words, so `sit.` with its full stop is "
    "a single one.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    return _numbered(_ranked(_counts(sentences, lambda sentence: re.findall(r"\w+|[^\w\s]", sentence))), size)


@build_vocabulary.mistake(
    "ties sorted without capitals",
    "Among words with the same frequency you ignore capital letters. Sort the words as they are: Python puts capital "
    "letters before lowercase ones.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    counts = _counts(sentences)
    return _numbered(sorted(counts, key=lambda word: (-counts[word], word.lower())), size)


@build_vocabulary.mistake(
    "ties sorted by the length of the words",
    "Among words with the same frequency, the shorter ones come first in your code. Sort them as strings.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    counts = _counts(sentences)
    return _numbered(sorted(counts, key=lambda word: (-counts[word], len(word), word)), size)


@build_vocabulary.mistake(
    "ids from 1",
    "You number the words from 1, but the ids 0 to 3 belong to the special tokens: N_SPECIAL is the first free id.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    return {word: i + 1 - N_SPECIAL for word, i in build_vocabulary.reference(sentences, size).items()}


@build_vocabulary.mistake(
    "one word too many",
    "Your vocabulary has one word more than fits. The first word has the id 4, so the last of `size` entries has the "
    "id `size` - 1.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    return build_vocabulary.reference(sentences, size + 1)


@build_vocabulary.mistake(
    "one word too few",
    "There is room for another word in your vocabulary. It may have `size` entries, the four special tokens included.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    return build_vocabulary.reference(sentences, max(size - 1, N_SPECIAL))


@build_vocabulary.mistake(
    "words that occur once left out",
    "You leave out words that occur only once. They belong to the vocabulary as long as there is room for them.",
)
def _(sentences: list[str], size: int) -> dict[str, int]:
    counts = _counts(sentences)
    return _numbered([word for word in _ranked(counts) if counts[word] > 1], size)


@build_vocabulary.mistake(
    "strings instead of ids",
    "Your ids are strings, such as '4'. An id is a whole number: the model uses it as an index.",
)
def _(sentences: list[str], size: int) -> Any:
    return {word: str(i) for word, i in build_vocabulary.reference(sentences, size).items()}


@build_vocabulary.mistake(
    "pairs of word and count as keys",
    "Each key of your dict is a pair of a word and its count. The key should be the word alone.",
)
def _(sentences: list[str], size: int) -> Any:
    counts = _counts(sentences)
    return {(word, counts[word]): i for word, i in build_vocabulary.reference(sentences, size).items()}


# 2 --------------------------------------------------------------------------------------------------------------------

ANIMALS = {"a": 4, "dog": 5, "runs": 6, "the": 7, "cat": 8, "dog.": 9}


@topic.exercise(
    {"sentence": "a dog runs", "vocabulary": ANIMALS},
    {"sentence": "the fox runs", "vocabulary": ANIMALS},
    {"sentence": "A cat  sees the dog. ", "vocabulary": ANIMALS},
    {"sentence": "the cat, a dog!", "vocabulary": ANIMALS},
    {"sentence": "", "vocabulary": ANIMALS},
    {"sentence": "the dog and the cat and a dog", "vocabulary": ANIMALS},
    {"sentence": "a dog runs", "vocabulary": {"runs": 6, "dog": 4, "a": 5}},
)
def encode_sentence(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    """An id for each word, and EOS."""
    return [*_ids(sentence.split(), vocabulary), EOS]


def _ids(words: Iterable[str], vocabulary: dict[str, int], unknown: int = UNK) -> list[int]:
    return [vocabulary.get(word, unknown) for word in words]


@encode_sentence.mistake(
    "EOS is missing",
    "The words are right, but the sentence doesn't end with EOS, so the model can't know that it has read all of it.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return _ids(sentence.split(), vocabulary)


@encode_sentence.mistake(
    "begins with BOS",
    "You put BOS in front. Only the decoder's prefix begins with it; this sentence just ends with EOS.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [BOS, *_ids(sentence.split(), vocabulary), EOS]


@encode_sentence.mistake(
    "begins with EOS", "You put EOS in front. It stands for the end of the sentence, and goes there."
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [EOS, *_ids(sentence.split(), vocabulary)]


@encode_sentence.mistake(
    "unknown words stop the program",
    "Your code stops with an error at a word that isn't in the vocabulary. Such a word should become UNK.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [*(vocabulary[word] for word in sentence.split()), EOS]


@encode_sentence.mistake(
    "unknown words dropped",
    "You leave out words that aren't in the vocabulary. Then the model doesn't even know that there was a word. Each "
    "of them should become UNK.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [*(vocabulary[word] for word in sentence.split() if word in vocabulary), EOS]


@encode_sentence.mistake(
    "unknown words as padding",
    "An unknown word becomes 0 in your code. That is the id of `<pad>`, and the model would ignore it. Use UNK.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [*_ids(sentence.split(), vocabulary, unknown=PAD), EOS]


@encode_sentence.mistake(
    "in lower case",
    "You change the words to lower case before you look them up. Leave them as they are: `A` isn't in a vocabulary "
    "that only has `a`.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [*_ids(sentence.lower().split(), vocabulary), EOS]


@encode_sentence.mistake(
    "punctuation removed",
    "You remove the punctuation from the words. Leave them as they are: `dog.` with its full stop is another word than "
    "`dog`.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [*_ids((word.strip(".,!") for word in sentence.split()), vocabulary), EOS]


@encode_sentence.mistake(
    "characters instead of words", "You look up each character of the sentence. Split it into words first."
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [*_ids(sentence, vocabulary), EOS]


@encode_sentence.mistake(
    "split at every space",
    "You split at every single space, so two spaces in a row create an empty word, which becomes UNK. Whitespace of "
    "any length separates two words.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [*_ids(sentence.split(" "), vocabulary), EOS]


@encode_sentence.mistake(
    "nothing for an empty sentence",
    "An empty sentence becomes an empty list in your code. It has no words, but it ends like any other.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [*_ids(sentence.split(), vocabulary), EOS] if sentence.split() else []


@encode_sentence.mistake(
    "None for unknown words",
    "An unknown word becomes None in your code: that is what `get` returns if it finds nothing and you name nothing "
    "else. Use UNK.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [*(vocabulary.get(word) for word in sentence.split()), EOS]  # type: ignore[list-item]


@encode_sentence.mistake(
    "a text for unknown words",
    'An unknown word becomes the text "<unk>" in your code. The model reads numbers: use its id, UNK.',
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [*(vocabulary.get(word, "<unk>") for word in sentence.split()), EOS]  # type: ignore[list-item]


@encode_sentence.mistake(
    "UNK in quotes",
    "An unknown word becomes the text 'UNK'. Without the quotes, UNK is a variable of this notebook, and its value is "
    "the id.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> Any:
    return [*(vocabulary.get(word, "UNK") for word in sentence.split()), EOS]


@encode_sentence.mistake(
    "EOS in quotes",
    "Your list ends with the text 'EOS'. Without the quotes, EOS is a variable of this notebook, and its value is the "
    "id.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> Any:
    return [*_ids(sentence.split(), vocabulary), "EOS"]


@encode_sentence.mistake(
    "the special token looked up as a word",
    "Your list ends with UNK. Did you add a word such as `<eos>` to the sentence? The vocabulary doesn't contain the "
    "special tokens, so it becomes UNK like any unknown word. Add the id EOS to the list instead.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return _ids([*sentence.split(), "<eos>"], vocabulary)


@encode_sentence.mistake(
    "the special token attached to the last word",
    "You append `<eos>` to the text, and the last word becomes an unknown one, such as `runs<eos>`. Leave the text as "
    "it is, and add the id EOS to the list.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return _ids(f"{sentence}<eos>".split(), vocabulary)


@encode_sentence.mistake(
    "the position in the dict instead of the id",
    "You take the position of the word in the dict for its id. The dict may be in any order: the id is the value that "
    "it has for the word.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    places = {word: i for i, word in enumerate(vocabulary, start=N_SPECIAL)}
    return [*_ids(sentence.split(), places), EOS]


@encode_sentence.mistake(
    "each word only once",
    "A word that occurs twice in the sentence appears only once in your result. Each of its occurrences becomes an id.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [*_ids(dict.fromkeys(sentence.split()), vocabulary), EOS]


@encode_sentence.mistake(
    "in the order of the vocabulary",
    "You go through the vocabulary, and keep the words that occur in the sentence. Go through the sentence instead: "
    "its words have an order, may occur twice, and may be unknown.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [*(i for word, i in vocabulary.items() if word in sentence.split()), EOS]


@encode_sentence.mistake(
    "EOS for unknown words",
    "An unknown word becomes EOS in your code, as if the sentence ended there. Use UNK.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [*_ids(sentence.split(), vocabulary, unknown=EOS), EOS]


@encode_sentence.mistake(
    "UNK and EOS swapped",
    "Unknown words become EOS in your code, and the sentence ends with UNK. It's the other way round.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [*_ids(sentence.split(), vocabulary, unknown=EOS), UNK]


@encode_sentence.mistake("BOS for unknown words", "An unknown word becomes 1 in your code, the id of `<bos>`. Use UNK.")
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [*_ids(sentence.split(), vocabulary, unknown=BOS), EOS]


@encode_sentence.mistake("ends with BOS", "Your sentence ends with BOS, which stands for a beginning. Append EOS.")
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [*_ids(sentence.split(), vocabulary), BOS]


@encode_sentence.mistake("EOS twice", "Your sentence ends with two EOS. A single one is enough.")
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [*_ids(sentence.split(), vocabulary), EOS, EOS]


@encode_sentence.mistake(
    "EOS after each word",
    "You append EOS after each word. It ends the sentence: append it once, after the loop.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [i for word in sentence.split() for i in (vocabulary.get(word, UNK), EOS)]


@encode_sentence.mistake(
    "only the first word",
    "You return after the first word. Does the `return` belong after the loop?",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int] | None:
    words = sentence.split()
    return [*_ids(words[:1], vocabulary), EOS] if words else None


@encode_sentence.mistake(
    "the end cut off at an unknown word",
    "Your sentence ends at the first unknown word. It becomes UNK, and the words after it follow.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [*(vocabulary[word] for word in takewhile(vocabulary.__contains__, sentence.split())), EOS]


@encode_sentence.mistake(
    "the word itself if it is unknown",
    "An unknown word stays a string in your list. The model reads numbers: use the id UNK.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> Any:
    return [*(vocabulary.get(word, word) for word in sentence.split()), EOS]


@encode_sentence.mistake(
    "a string instead of EOS", 'Your list ends with the string "<eos>". The model reads numbers: use its id, EOS.'
)
def _(sentence: str, vocabulary: dict[str, int]) -> Any:
    return [*_ids(sentence.split(), vocabulary), "<eos>"]


@encode_sentence.mistake(
    "a list in the list",
    "The ids of the words are a list inside your list. Put them and EOS into the same list.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> Any:
    return [_ids(sentence.split(), vocabulary), EOS]


@encode_sentence.mistake(
    "full stops cut off",
    "You remove the full stop from a word. Leave the words as they are: `dog.` with its full stop is another word than "
    "`dog`.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [*_ids((word.rstrip(".") for word in sentence.split()), vocabulary), EOS]


@encode_sentence.mistake(
    "UNK in place of the whole sentence",
    "A single unknown word makes your whole sentence UNK. Decide for each word by itself.",
)
def _(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    words = sentence.split()
    return [*_ids(words, vocabulary), EOS] if all(word in vocabulary for word in words) else [UNK, EOS]


# 3 --------------------------------------------------------------------------------------------------------------------


def _table(vocab_size: int, d_model: int) -> Tensor:
    """Rows that can be told apart at a glance: row 2 is 20, 21, 22, …"""
    return 10.0 * torch.arange(vocab_size)[:, None] + torch.arange(d_model)


@topic.exercise(
    {"ids": torch.tensor([[2, 0, 3]]), "table": _table(4, 4)},
    {"ids": torch.tensor([[4, 1, 5, 2], [3, 3, 2, 0]]), "table": _table(6, 2)},
    {"ids": torch.tensor([[5], [6], [1]]), "table": _table(7, 1)},
    {"ids": torch.tensor([[1, 2], [0, 1]]), "table": _table(5, 3)},
)
def look_up(ids: Tensor, table: Tensor) -> Tensor:
    """PyTorch's own."""
    return F.embedding(ids, table)


@look_up.mistake(
    "columns instead of rows",
    "You select columns of the table. Each token has a row: the first axis has as many entries as the vocabulary.",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table.T[ids]


@look_up.mistake("rows counted from 1", "You use the row before the right one. Ids count from 0, and so do rows.")
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table[ids - 1]


@look_up.mistake(
    "positions instead of ids",
    "You take the first rows of the table in order, whatever the tokens are. Which row it is depends on the id.",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table[: ids.size(1)].expand(len(ids), -1, -1)


@look_up.mistake(
    "only the first sentence", "You return the embeddings of a single sentence. Do it for all sentences of the batch."
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table[ids[0]]


@look_up.mistake(
    "the sentences run together",
    "The embeddings are right, but they are one long list. Keep the sentences apart: (batch, length, d_model).",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table[ids.reshape(-1)]


@look_up.mistake(
    "one vector for each sentence",
    "You average over the tokens of each sentence. Every token keeps a vector of its own; that is what "
    "distinguishes attention from the first neural translation models, which had one vector for the whole sentence.",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table[ids].mean(1)


@look_up.mistake(
    "one-hot vectors",
    "These vectors have as many entries as the vocabulary, a single one of which is 1. Their product with the table "
    "would be the embeddings, but looking up a row is much faster.",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return F.one_hot(ids, len(table)).to(table.dtype)


@look_up.mistake(
    "scaled by the root of d_model",
    "You multiply by the root of d_model, as the paper does (§3.4). A later chapter explains why. Here, return the "
    "rows as they are.",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table[ids] * math.sqrt(table.size(1))


@look_up.mistake(
    "zeros for the id 0",
    "You replace the embeddings of the token 0 by zeros. It may be padding, but that is for the masks to handle: here, "
    "every id selects its row.",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table[ids] * (ids != 0)[..., None]


@look_up.mistake(
    "only as many rows as the ids need",
    "Your code works only if the last row of the table is among those that you look up. How many ids are there: as "
    "many as the largest one in this batch needs, or as many as the table has rows?",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return F.one_hot(ids).to(table.dtype) @ table


@look_up.mistake(
    "gather along the rows",
    "`gather` takes one number for each id: the one in the id's row, and in the column where the id itself is. You "
    "need whole rows. Use the ids as an index.",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table.gather(0, ids)


@look_up.mistake(
    "gather along the columns",
    "`gather` takes one number for each id, and here it takes the ids for columns. You need whole rows. Use the ids as "
    "an index.",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table.gather(1, ids)


@look_up.mistake(
    "length and batch swapped",
    "Your first axis is the position, and your second the sentence: (length, batch, d_model).",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table[ids.T]


@look_up.mistake(
    "only the last sentence",
    "You return the embeddings of the last sentence only. Does each sentence of your loop overwrite those before?",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table[ids[-1]]


@look_up.mistake(
    "the tokens of a sentence added up",
    "You add up the embeddings of each sentence. Every token keeps a vector of its own.",
)
def _(ids: Tensor, table: Tensor) -> Tensor:
    return table[ids].sum(1)


# 4 --------------------------------------------------------------------------------------------------------------------


def _with_ties_in_order(answer: Any, logits: Tensor, n: int) -> Any:
    """The results, with equally probable tokens sorted by id: their order is up to the learner."""
    result = answer(logits, n)
    match result:
        case (Tensor() as first, Tensor() as second) if first.shape == second.shape == (n,):
            values, ids = (first, second) if first.is_floating_point() else (second, first)
            rises = (values.detach().diff().abs() > 1e-6).long()
            group = F.pad(rises.cumsum(0), (1, 0)).tolist()
            order = sorted(range(n), key=lambda i: (group[i], int(ids[i])))
            return first[order], second[order]
        case _:
            return result


@topic.exercise(
    {"logits": torch.tensor([0.0, 2.0, -1.0, 1.0]), "n": 2},
    {"logits": torch.tensor([1.5, -3.0, 0.5, -0.5, 2.5]), "n": 1},
    {"logits": torch.tensor([-2.0, -1.0, -4.0]), "n": 3},
    {"logits": torch.linspace(-2, 3, 40).mul(3).cos().mul(4), "n": 6},
    {"logits": torch.tensor([1.0, 3.0, 1.0, 0.0, 1.0]), "n": 4},
    results=("probabilities", "ids"),
    guard=forbid(SOFTMAX),
    observe=_with_ties_in_order,
)
def most_probable(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """PyTorch's softmax."""
    return _largest(logits.softmax(-1), n)


def _largest(values: Tensor, n: int) -> tuple[Tensor, Tensor]:
    best = values.sort(descending=True)
    return best.values[:n], best.indices[:n]


@most_probable.mistake(
    "normalised over the chosen tokens only",
    "Your n probabilities add up to one, as if the other tokens were impossible. Divide by the sum over the whole "
    "vocabulary, and choose afterwards.",
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    best, ids = _largest(logits, n)
    return best.softmax(-1), ids


@most_probable.mistake(
    "logits instead of probabilities",
    "The ids are right, but you return the logits. Turn them into probabilities first.",
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return _largest(logits, n)


@most_probable.mistake(
    "the exponential is missing",
    "You divide the logits by their sum. Logits can be negative, and so can your probabilities. Take the exponential "
    "of each logit first.",
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return _largest(logits / logits.sum(), n)


@most_probable.mistake(
    "not divided by the sum", "These are exponentials, and they add up to more than one. Divide by their sum."
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return _largest(logits.exp(), n)


@most_probable.mistake(
    "a sigmoid instead of the softmax",
    "You turn each logit into a number between 0 and 1 by itself, so together they don't add up to one. A token's "
    "probability depends on all logits.",
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return _largest(logits.sigmoid(), n)


@most_probable.mistake(
    "powers of 2",
    "Your probabilities are too close to each other: you take powers of 2 instead of powers of e.",
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return _largest((math.log(2) * logits).softmax(-1), n)


@most_probable.mistake(
    "divided by the largest",
    "Your most probable token always has the probability 1. Divide by the sum of the exponentials, not by the largest.",
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return _largest((logits - logits.max()).exp(), n)


@most_probable.mistake(
    "logarithms of probabilities",
    "You return the logarithms of the probabilities, which are never positive. Return the probabilities themselves.",
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return _largest(logits.log_softmax(-1), n)


@most_probable.mistake(
    "the least probable", "You return the n least probable tokens. A large logit means a probable token."
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    best = logits.softmax(-1).sort()
    return best.values[:n], best.indices[:n]


@most_probable.mistake(
    "in the order of the ids",
    "These are the right tokens, but sorted by their ids. The most probable one comes first.",
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    ids = most_probable.reference(logits, n)[1].sort().values
    return logits.softmax(-1)[ids], ids


@most_probable.mistake(
    "the first n tokens", "You take the first n tokens of the vocabulary. Look for the largest probabilities."
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return logits.softmax(-1)[:n], torch.arange(n)


@most_probable.mistake("all tokens", "You return the whole vocabulary in the right order. Return only the first n.")
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return _largest(logits.softmax(-1), len(logits))


@most_probable.mistake(
    "the two results swapped", "You return the ids first and the probabilities second. It's the other way round."
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return most_probable.reference(logits, n)[::-1]


@most_probable.mistake(
    "equally probable tokens lost",
    "Where several tokens have the same probability, you cross out all of them as soon as one is chosen. Cross "
    "out a single one.",
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    p = logits.softmax(-1)
    values: list[Tensor] = []
    ids: list[int] = []
    for _ in range(n):
        best = p.max()
        values.append(best)
        ids.append(int((p == best).nonzero()[0]))
        p = torch.where(p == best, 0, p)
    return torch.stack(values), torch.tensor(ids)


@most_probable.mistake(
    "the exponential of exponentials",
    "In the sum you take the exponential of numbers that are exponentials already. Did you call `exp_`? It changes "
    "`logits` in place, so all that follows computes with other logits.",
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    e = logits.exp()
    return _largest(e / e.exp().sum(), n)


@most_probable.mistake(
    "divided by the sum of the logits",
    "You divide the exponentials by the sum of the logits. Divide by the sum of the exponentials, so that all "
    "probabilities together are 1.",
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return _largest(logits.exp() / logits.sum(), n)


@most_probable.mistake(
    "the same token several times",
    "Where several tokens have the same probability, you return the first of them several times. Do you look up where "
    "a probability is in the list? That always finds the first place.",
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    p = logits.softmax(-1)
    best = p.sort(descending=True).values[:n]
    return best, torch.stack([(p == x).nonzero()[0, 0] for x in best])


@most_probable.mistake(
    "powers of 10", "Your probabilities are too far apart: you take powers of 10 instead of powers of e."
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return _largest((math.log(10) * logits).softmax(-1), n)


@most_probable.mistake(
    "sigmoids divided by their sum",
    "Your probabilities add up to one, but they are too close to each other: you take the sigmoid of each logit. Take "
    "its exponential.",
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return _largest(logits.sigmoid() / logits.sigmoid().sum(), n)


@most_probable.mistake(
    "the right ids, but the first probabilities",
    "Your ids are right, but the probabilities are those of the first n tokens. Each one should belong to the id "
    "beside it.",
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    p = logits.softmax(-1)
    return p[:n], _largest(p, n)[1]


@most_probable.mistake(
    "the first probabilities, and the ids of the least probable",
    "Your probabilities are those of the first n tokens, and your ids those of the n least probable ones: without "
    "further arguments, PyTorch sorts in ascending order. Sort in descending order, and take each probability at the "
    "id beside it.",
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    p = logits.softmax(-1)
    return p[:n], p.argsort()[:n]


@most_probable.mistake(
    "ranks instead of ids",
    "Your probabilities are right, but your ids are 0, 1, 2, …: these are the places in the sorted list. Return the "
    "places that the tokens have in the vocabulary.",
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return _largest(logits.softmax(-1), n)[0], torch.arange(n)


@most_probable.mistake(
    "only the most probable token", "You return a single token, whatever n is. Return the n most probable ones."
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    p = logits.softmax(-1)
    return p.max(), p.argmax()


@most_probable.mistake(
    "the least probable of them first",
    "These are the right tokens, but in ascending order. The most probable one comes first.",
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    values, ids = _largest(logits.softmax(-1), n)
    return values.flip(0), ids.flip(0)


@most_probable.mistake(
    "the exponential of the sum",
    "You divide by the exponential of the sum of all logits. Take the exponential of each logit first, and then the "
    "sum.",
)
def _(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return _largest(logits.exp() / logits.sum().exp(), n)


# 5 --------------------------------------------------------------------------------------------------------------------


class Toy(decoding.Toy):
    """A decoder small enough to be written down, which returns probabilities."""

    def __call__(self, tokens: list[int]) -> Tensor:
        """Return the probability of each token as the next one."""
        return super().__call__(tokens).exp()


# Tokens: 0 pad, 1 bos, 2 eos, 3 ein, 4 Hund, 5 zwei, 6 Hunde
DOGS = Toy(
    {
        (1,): (0.0, 0.0, 0.1, 0.5, 0.1, 0.3, 0.0),
        (1, 3): (0.0, 0.0, 0.1, 0.0, 0.8, 0.0, 0.1),
        (1, 5): (0.0, 0.0, 0.1, 0.0, 0.2, 0.0, 0.7),
    },
    otherwise=(0.0, 0.0, 0.6, 0.2, 0.1, 0.1, 0.0),
)
TALKS_ON = Toy({(1,): (0.1, 0.0, 0.2, 0.7), (1, 3): (0.5, 0.0, 0.2, 0.3)}, otherwise=(0.1, 0.0, 0.3, 0.6))
# Here bos has the id 3, and eos 0.
OTHER_IDS = Toy({(3,): (0.1, 0.2, 0.6, 0.1), (3, 2): (0.2, 0.6, 0.1, 0.1)}, otherwise=(0.5, 0.1, 0.2, 0.2))


@topic.exercise(
    {"next_token_probabilities": DOGS, "prefix": [1], "eos": 2, "max_new_tokens": 6},
    {"next_token_probabilities": DOGS, "prefix": [1, 5], "eos": 2, "max_new_tokens": 6},
    {"next_token_probabilities": TALKS_ON, "prefix": [1], "eos": 2, "max_new_tokens": 4},
    {"next_token_probabilities": OTHER_IDS, "prefix": [3], "eos": 0, "max_new_tokens": 3},
    {"next_token_probabilities": TALKS_ON, "prefix": [1, 3, 3, 0, 3], "eos": 2, "max_new_tokens": 2},
    {"next_token_probabilities": DOGS, "prefix": [1, 5], "eos": 2, "max_new_tokens": 0},
    {"next_token_probabilities": TALKS_ON, "prefix": [1, 2], "eos": 2, "max_new_tokens": 3},
    insight="Every text that a language model writes comes from such a loop, one token at a time.",
)
def continue_prefix(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    """The most probable token, step by step."""
    return _continued(next_token_probabilities, prefix, eos, max_new_tokens)


def _continued(
    model: NextToken,
    prefix: list[int],
    eos: int,
    max_new_tokens: int,
    reads: Callable[[list[int]], list[int]] = lambda tokens: tokens,
    choose: Callable[[Tensor], Any] = lambda probabilities: int(probabilities.argmax()),
) -> list[int]:
    tokens = list(prefix)
    while len(tokens) < len(prefix) + max_new_tokens:
        tokens.append(choose(model(reads(tokens))))
        if tokens[-1] == eos:
            break
    return tokens


@continue_prefix.mistake(
    "without eos",
    "You stop before you append eos. The result should contain it, so that you can see whether the sentence is "
    "finished or was cut off.",
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    tokens = _continued(next_token_probabilities, prefix, eos, max_new_tokens)
    return tokens[:-1] if tokens[-1] == eos else tokens


@continue_prefix.mistake(
    "the largest probability itself",
    "Whatever the model predicts, you append the token 0. Do you turn the largest probability into a whole number? "
    "That is 0, because a probability is less than 1. The token is its index.",
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return _continued(next_token_probabilities, prefix, eos, max_new_tokens, choose=lambda p: int(p.max()))


@continue_prefix.mistake(
    "without the prefix", "You return the new tokens only. The result begins with the prefix, bos included."
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return _continued(next_token_probabilities, prefix, eos, max_new_tokens)[len(prefix) :]


@continue_prefix.mistake(
    "without bos", "You leave out bos. Here the result begins with the prefix as it was, and bos is a part of it."
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return _continued(next_token_probabilities, prefix, eos, max_new_tokens)[1:]


@continue_prefix.mistake(
    "reads only the last token",
    "You call the model with the last token alone. It predicts the next one from all tokens so far.",
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return _continued(next_token_probabilities, prefix, eos, max_new_tokens, reads=lambda tokens: tokens[-1:])


@continue_prefix.mistake(
    "always reads the same prefix",
    "You call the model with the prefix that you were given, at every step. What it predicted has to become part of "
    "what it reads next.",
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return _continued(next_token_probabilities, prefix, eos, max_new_tokens, reads=lambda tokens: prefix)


@continue_prefix.mistake(
    "begins with bos, whatever the prefix",
    "You start with bos alone and ignore the rest of the prefix. The model should continue all of it.",
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return _continued(next_token_probabilities, prefix[:1], eos, max_new_tokens)


@continue_prefix.mistake(
    "the limit includes the prefix",
    "You stop when the whole list has max_new_tokens entries. Only the new tokens count, not those of the prefix.",
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return _continued(next_token_probabilities, prefix, eos, max_new_tokens - len(prefix))


@continue_prefix.mistake("one token too few", "You append at most max_new_tokens - 1 tokens, one less than you may.")
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return _continued(next_token_probabilities, prefix, eos, max_new_tokens - 1)


@continue_prefix.mistake("one token too many", "You append one token more than max_new_tokens.")
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return _continued(next_token_probabilities, prefix, eos, max_new_tokens + 1)


@continue_prefix.mistake(
    "doesn't stop at eos",
    "You always append max_new_tokens tokens. Once the model has predicted eos, the sentence is finished.",
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return _continued(next_token_probabilities, prefix, -1, max_new_tokens)


@continue_prefix.mistake(
    "the id of eos is always 2",
    "You stop at the token 2, or at a constant of the notebook. In this function, the id of eos is an argument.",
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return _continued(next_token_probabilities, prefix, EOS, max_new_tokens)


@continue_prefix.mistake(
    "the least probable token", "You choose the token with the smallest probability. Choose the one with the largest."
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return _continued(
        next_token_probabilities, prefix, eos, max_new_tokens, choose=lambda probabilities: int(probabilities.argmin())
    )


@continue_prefix.mistake(
    "tensors instead of plain numbers",
    "The tokens are right, but those that you append are tensors with a single number. Convert each to a plain int.",
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return _continued(
        next_token_probabilities, prefix, eos, max_new_tokens, choose=lambda probabilities: probabilities.argmax()
    )


@continue_prefix.mistake(
    "probabilities instead of ids",
    "You append the largest probability. Append its index: that is the id of the token.",
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return _continued(
        next_token_probabilities, prefix, eos, max_new_tokens, choose=lambda probabilities: float(probabilities.max())
    )


@continue_prefix.mistake(
    "only one step",
    "You append a single token. Repeat that until the model predicts eos, or until there are max_new_tokens new ones.",
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return _continued(next_token_probabilities, prefix, eos, 1)


@continue_prefix.mistake(
    "one token even if none is allowed",
    "With `max_new_tokens` = 0 your code still appends a token. Ask whether another one is allowed before you "
    "predict it.",
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return _continued(next_token_probabilities, prefix, eos, max(1, max_new_tokens))


@continue_prefix.mistake(
    "stops at an eos of the prefix",
    "Where the prefix already contains eos, you don't continue it. Only an eos that the model predicts ends the "
    "sentence.",
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return prefix if eos in prefix else _continued(next_token_probabilities, prefix, eos, max_new_tokens)


@continue_prefix.mistake(
    "eos added at the limit",
    "When the limit is reached, you append eos, although the model hasn't predicted it. The sentence is simply "
    "not finished then.",
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    tokens = _continued(next_token_probabilities, prefix, eos, max_new_tokens)
    return tokens if tokens[-1] == eos else [*tokens, eos]


@continue_prefix.mistake(
    "nothing appended",
    "You return the prefix as it was. Append each token that the model predicts to the list that you return.",
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return list(prefix)


@continue_prefix.mistake(
    "stops after a token if the prefix contains eos",
    "Where the prefix contains eos, your search ends after a single step. Do you look for eos in the whole list? Only "
    "the token that the model has just predicted counts.",
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    limit = min(1, max_new_tokens) if eos in prefix else max_new_tokens
    return _continued(next_token_probabilities, prefix, eos, limit)


@continue_prefix.mistake(
    "reads only the new tokens",
    "You call the model with the new tokens only. It should read the prefix, too: that is what it continues.",
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    n = len(prefix)
    return _continued(next_token_probabilities, prefix, eos, max_new_tokens, reads=lambda tokens: tokens[n:])


@continue_prefix.mistake(
    "bos twice",
    "You put BOS in front of the prefix. The prefix begins with it already, and its id isn't 1 in every test.",
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return _continued(next_token_probabilities, [BOS, *prefix], eos, max_new_tokens)


@continue_prefix.mistake(
    "always begins with 1",
    "You start with the id 1 alone. Start with the prefix that you are given: it may be longer, and in some tests bos "
    "has another id.",
)
def _(next_token_probabilities: NextToken, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
    return _continued(next_token_probabilities, [BOS], eos, max_new_tokens)


# 6 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"distance": 5, "k": 3},
    {"distance": 1, "k": 3},
    {"distance": 10, "k": 5},
    {"distance": 7, "k": 5},
    {"distance": 2, "k": 9},
    {"distance": 40, "k": 7},
    results=("recurrent", "convolutional", "attention"),
    insight="Short paths are one of the three reasons for self-attention that the paper gives in §4.",
)
def path_lengths(distance: int, k: int) -> tuple[int, int, int]:
    """The second number rounded up."""
    return distance, -(-distance // (k // 2)), 1


@path_lengths.mistake(
    "words counted instead of steps",
    "You count the words along the way, the first one included. From a word to its neighbour it is one step.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance + 1, math.ceil(distance / (k // 2)), 1


@path_lengths.mistake(
    "only the words in between",
    "You count the words between the two. The information has to reach the second word as well: neighbours are one "
    "step apart, not none.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance - 1, math.ceil(distance / (k // 2)), 1


@path_lengths.mistake(
    "every convolution as narrow as can be",
    "Your number of layers doesn't depend on k. A layer of width 3 reaches one word further on either "
    "side, and a wider layer reaches further.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance, distance, 1


@path_lengths.mistake(
    "a layer reaches k words far",
    "You divide by the whole width, like the paper's n/k (§4), which leaves out constant factors. But a word is in the "
    "middle of its k positions, so it sees fewer than k on the side where the other word is.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance, math.ceil(distance / k), 1


@path_lengths.mistake(
    "both sides counted",
    "A layer does see k - 1 neighbours, but half of them are on the wrong side. Information from the other word comes "
    "from one side only.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance, math.ceil(distance / (k - 1)), 1


@path_lengths.mistake(
    "half a word on either side",
    "You divide by k/2, which is 1.5 for k = 3. But a layer of width 3 sees exactly one word on either side, and one "
    "of width 5 two.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance, math.ceil(distance / (k / 2)), 1


@path_lengths.mistake(
    "the logarithm",
    "The logarithm is for convolutions with gaps between their inputs, which the paper mentions too. Here, each layer "
    "adds the same number of words.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance, math.ceil(math.log(distance, k)), 1


@path_lengths.mistake(
    "rounded down",
    "You round the number of layers down, so the last layer doesn't quite reach the other word. Round it up.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance, distance // (k // 2), 1


@path_lengths.mistake(
    "not rounded", "You return a fraction of a layer. A layer is there or it isn't: round the number up."
)
def _(distance: int, k: int) -> tuple[int, float, int]:
    return distance, distance / (k // 2), 1


@path_lengths.mistake(
    "one layer too many",
    "You count one convolutional layer too many. With k = 3, a single layer is enough to see the word next to you.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance, math.ceil(distance / (k // 2)) + 1, 1


@path_lengths.mistake(
    "with gaps",
    "The logarithm in Table 1 is for dilated convolutions, which leave gaps between the positions that they combine. "
    "These have none.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance, max(1, math.ceil(math.log(distance, k))), 1


@path_lengths.mistake(
    "attention as slow as a recurrent layer",
    "In self-attention, the path doesn't grow with the distance: each word attends to every other one directly.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance, math.ceil(distance / (k // 2)), distance


@path_lengths.mistake(
    "no step for attention", "Even attention needs a step to get the information: one layer, whatever the distance."
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance, math.ceil(distance / (k // 2)), 0


@path_lengths.mistake(
    "the other way round", "The numbers are right, but in reverse order: recurrent first, attention last."
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return path_lengths.reference(distance, k)[::-1]


@path_lengths.mistake(
    "rounded to the nearest number",
    "You round the number of layers to the nearest whole number. A part of a layer needs a whole one: round up.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance, max(1, round(distance / (k // 2))), 1


@path_lengths.mistake(
    "the word itself counted",
    "You divide by half the width, rounded up. That counts the word in the middle as well, but a layer gets no further "
    "by seeing its own position.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance, math.ceil(distance / math.ceil(k / 2)), 1


@path_lengths.mistake(
    "rounded up, but still a float",
    "The numbers are right, but your number of layers is a float, such as 4.0. NumPy's and PyTorch's functions that "
    "round return floats; convert it to an int.",
)
def _(distance: int, k: int) -> tuple[int, float, int]:
    return distance, float(math.ceil(distance / (k // 2))), 1


@path_lengths.mistake(
    "one layer more than the number rounded down",
    "You round down and add one. That is too much where the division leaves no remainder: then the last layer reaches "
    "exactly as far as it has to.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance, distance // (k // 2) + 1, 1


@path_lengths.mistake(
    "rounded down, but at least one layer",
    "You round the number of layers down, and only correct 0 to 1. The last layer then doesn't quite reach the other "
    "word: round it up.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance, max(1, distance // (k // 2)), 1


@path_lengths.mistake(
    "rounded to the nearest number, even if that is 0",
    "You round the number of layers to the nearest whole number. A part of a layer needs a whole one: round up.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance, round(distance / (k // 2)), 1


@path_lengths.mistake(
    "a layer reaches k words far, rounded down",
    "You divide by the whole width, like the paper's n/k (§4), which leaves out constant factors, and you round down. "
    "A word is in the middle of its k positions: how many does it see on the side of the other word? And is half a "
    "layer enough?",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance, distance // k, 1


@path_lengths.mistake(
    "the paper's n/k",
    "n/k (§4) leaves out constant factors, and gives the order of magnitude only. Draw two words and the layers "
    "between them: how far does each layer reach on one side, and how many layers does it take?",
)
def _(distance: int, k: int) -> tuple[int, float, int]:
    return distance, distance / k, 1


@path_lengths.mistake(
    "divided by k and by 2",
    "You divide the distance by k, and the result by 2. Python goes from left to right: put parentheses around the "
    "half of k. And a part of a layer needs a whole one.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance, distance // k // 2, 1


@path_lengths.mistake(
    "divided by twice the width",
    "You divide the distance by k, and the result by 2. Python goes from left to right: put parentheses around the "
    "half of k.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance, math.ceil(distance / k / 2), 1


@path_lengths.mistake(
    "words counted instead of steps, twice",
    "You count the words along the way, the first one included, both for recurrent and for convolutional layers. From "
    "a word to its neighbour it is one step.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance + 1, math.ceil((distance + 1) / (k // 2)), 1


@path_lengths.mistake(
    "only the words in between, twice",
    "You count the words between the two, both for recurrent and for convolutional layers. The information has to "
    "reach the second word as well.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return distance - 1, math.ceil((distance - 1) / (k // 2)), 1


@path_lengths.mistake(
    "the first two swapped",
    "Your first two numbers are swapped. The order is: recurrent, convolutional, self-attention.",
)
def _(distance: int, k: int) -> tuple[int, int, int]:
    return math.ceil(distance / (k // 2)), distance, 1
