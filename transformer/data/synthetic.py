"""Random sentence pairs of typical lengths, for measurements of speed and memory: the text doesn't matter there."""

from pathlib import Path

import numpy as np

from transformer.data.batching import SequencesWriter
from transformer.data.prepare import PreparedData
from transformer.data.tokenizer import UNK, Tokenizer

MAX_LENGTH = 100
"""The longest source; a target may be three tokens longer."""


def random_pairs(count: int, vocab_size: int, max_length: int = MAX_LENGTH) -> tuple[list[list[int]], list[list[int]]]:
    """Draw sentence pairs of random tokens, none of them special: sources of 25 ± 12, targets about as long.

    Args:
        count: number of pairs.
        vocab_size: number of tokens in the vocabulary.
        max_length: tokens of the longest source.

    Returns:
        The sources and the targets, without bos and eos.
    """
    rng = np.random.default_rng(1)
    lengths = rng.normal(25, 12, count).round().clip(3, max_length).astype(int)
    target_lengths = (lengths + rng.integers(-3, 4, count)).clip(2)
    sources = [rng.integers(UNK + 1, vocab_size, n).tolist() for n in lengths]
    return sources, [rng.integers(UNK + 1, vocab_size, n).tolist() for n in target_lengths]


def random_data(folder: Path, count: int, vocab_size: int, max_length: int = MAX_LENGTH) -> PreparedData:
    """Store random training pairs in a folder, like the prepared data of a corpus; arguments as in `random_pairs`."""
    pairs = random_pairs(count, vocab_size, max_length)
    for side, sentences in zip(("source", "target"), pairs, strict=True):
        with SequencesWriter(folder, f"train.{side}", vocab_size) as writer:
            writer.extend(sentences)
    (folder / "tokenizer.model").write_bytes(Tokenizer.train(["a b"], 7).model)  # a trainer needs one
    return PreparedData(folder)
