"""Measure vocabularies of different sizes on real text: ``python -m book.vocabulary_sizes``.

Each vocabulary is learned from both languages of Multi30k's training text. Its fertility is measured on the test set
``test``. The result is written to ``book/results/vocabulary-sizes.json``; chapter 8 shows a copy of it.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from book.scripts import RESULTS, guarded, write_result
from transformer.data.bpe import split_words
from transformer.data.corpora import sentence_pairs
from transformer.data.tokenizer import Tokenizer
from transformer.provenance import provenance

RESULT = RESULTS / "vocabulary-sizes.json"
SIZES = (500, 1000, 2000, 4000, 8000, 16000, 32000)
N_SPECIAL = 4
WORDS = ("▁Das", "▁Handschuhfach", "▁klemmt", ".")
"""The words of the first figure of chapter 8."""


def measure(pairs: Sequence[tuple[str, str]], test: Sequence[tuple[str, str]], size: int) -> dict[str, Any]:
    """Learn a vocabulary of ``size`` tokens from sentence pairs.

    Returns:
        The fertility on each side of the test pairs; the fractions of tokens that occur at least 100 times and fewer
        than 10 times in the training text; and the fraction of the test's words that a vocabulary of the ``size`` most
        frequent words doesn't contain.
    """
    lines = [sentence for pair in pairs for sentence in pair]
    tokenizer = Tokenizer.train(lines, size)
    uses = Counter(i for ids in tokenizer.encode_all(lines) for i in ids)
    counts = [uses[i] for i in range(N_SPECIAL, size)]
    frequent_words = {word for word, _ in count_words(lines).most_common(size)}
    test_words = [count_words([pair[side] for pair in test]) for side in (0, 1)]
    fertility = [
        sum(map(len, tokenizer.encode_all([pair[side] for pair in test]))) / test_words[side].total() for side in (0, 1)
    ]
    words = test_words[0] + test_words[1]
    unknown = sum(n for word, n in words.items() if word not in frequent_words)
    return {
        "size": size,
        "fertility": [round(value, 5) for value in fertility],
        "frequent": round(sum(n >= 100 for n in counts) / len(counts), 4),
        "rare": round(sum(n < 10 for n in counts) / len(counts), 4),
        "unknown_words": round(unknown / words.total(), 4),
    }


def count_words(lines: Sequence[str]) -> Counter[str]:
    """Return how often each word occurs in a text."""
    return Counter(word for line in lines for word in split_words(line))


@guarded
def main(arguments: list[str] | None = None) -> None:
    """Measure all sizes and write the result."""
    parser = argparse.ArgumentParser(
        prog="python -m book.vocabulary_sizes",
        description="Measure vocabularies of different sizes on real text.",
    )
    parser.add_argument("--mirror", help="a folder or address with the files of the corpus")
    options = parser.parse_args(arguments)
    train, test = (list(sentence_pairs("multi30k", split, mirror=options.mirror)) for split in ("train", "test"))
    pairs = [(pair[0], pair[1]) for pair in train]
    rows = [measure(pairs, [(pair[0], pair[1]) for pair in test], size) for size in SIZES]
    words = count_words([sentence for pair in pairs for sentence in pair])
    result = {
        "provenance": provenance("cpu"),
        "pairs": len(pairs),
        "different_words": len(words),
        "words_of_first_figure": {word: words[word] for word in WORDS},
        "rows": rows,
    }
    write_result(RESULT, result)
    print(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    sys.exit(main())
