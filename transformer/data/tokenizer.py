"""Convert text to token ids and back with SentencePiece's byte-pair encoding (§5.1)."""

import heapq
import io
import random
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece

from transformer.errors import UserError, quote
from transformer.files import read_bytes

PAD, BOS, EOS, UNK = 0, 1, 2, 3
"""Ids of the special tokens for padding, beginning and end of sentence, and unknown characters; always the same."""

SAMPLE_LINES, SAMPLE_CHARACTERS = 500_000, 100_000_000
"""Limits of the sample that a tokenizer is trained on. For 37,000 pieces, a sample of this size takes 5 seconds and 0.5
GB of memory; with twice as many lines, encoded text would become shorter by less than 0.1 %.
"""

MAX_LINE_LENGTH = 10_000
"""Lines of the sample are cut after this many characters, so that no single line fills it."""


def sample_lines(
    lines: Iterable[str], count: int = SAMPLE_LINES, seed: int = 0, characters: int = SAMPLE_CHARACTERS
) -> list[str]:
    """Draw a random sample of lines to train a tokenizer on, from a stream of any length.

    The sample is a prefix of a random permutation of the lines: its first ``count`` lines, or fewer if they would
    have more than ``characters`` characters in total. So every line is equally likely to be drawn, unless the
    characters limit the sample: then long lines are slightly less likely. The same lines and seed give the same
    sample. Only the sample itself is kept in memory.

    Returns:
        The sample, in the original order of the lines. Lines are cut to ``MAX_LINE_LENGTH`` characters.

    Raises:
        UserError: if ``count`` is not positive.
    """
    if count < 1:
        raise UserError(f"a sample needs at least 1 line; got {count}")
    rng = random.Random(seed)
    sample: list[tuple[float, int, str]] = []  # a heap with the largest key on top
    size, limit = 0, 1.0
    for index, line in enumerate(lines):
        key = rng.random()  # lines sorted by their keys are the random permutation
        if key >= limit:
            continue
        cut_line = line[:MAX_LINE_LENGTH]
        heapq.heappush(sample, (-key, index, cut_line))
        size += len(cut_line)
        while len(sample) > count or size > characters:
            negative_key, _, removed = heapq.heappop(sample)
            size -= len(removed)
            limit = -negative_key
    return [line for _, line in sorted((index, line) for _, index, line in sample)]


class Tokenizer:
    """A trained SentencePiece model. Text is normalised first (see `normalize`)."""

    def __init__(self, model: bytes) -> None:
        """Load a serialised SentencePiece model.

        Raises:
            UserError: if these bytes are not a SentencePiece model, or the special tokens have other ids.
        """
        self.model = model
        self.processor = sentencepiece.SentencePieceProcessor()
        try:
            self.processor.LoadFromSerializedProto(model)
        except RuntimeError as error:
            raise UserError("the tokenizer is not a SentencePiece model, or it is damaged") from error
        p = self.processor
        if (p.pad_id(), p.bos_id(), p.eos_id(), p.unk_id()) != (PAD, BOS, EOS, UNK):
            raise UserError(f"the tokenizer's pad, bos, eos and unk must have the ids {PAD}, {BOS}, {EOS}, {UNK}")

    @classmethod
    def train(cls, lines: Iterable[str], vocab_size: int, byte_fallback: bool = False) -> "Tokenizer":
        """Learn a vocabulary from text. The text is held in memory, so use `sample_lines` for a large corpus.

        The result is deterministic: the same lines give the same model, byte for byte. Only one core is used.

        Args:
            lines: the text, in lines of any length.
            vocab_size: number of pieces in the vocabulary, including special tokens and bytes.
            byte_fallback: use 256 pieces for the 256 bytes, and encode characters that are not in the vocabulary as
                UTF-8 bytes. Otherwise each run of such characters becomes ``UNK``.

        Raises:
            UserError: if the text is empty or too small for this many pieces, or has more distinct characters.
        """
        text = [_normalize(line) for line in lines]  # a list, because SentencePiece hides errors of an iterator
        max_vocab_size = 1 << 24  # beyond it, SentencePiece's error does not contain the maximum for this text
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(text),
                model_writer=model,
                model_type="bpe",
                vocab_size=min(max(vocab_size, UNK + 1), max_vocab_size),
                byte_fallback=byte_fallback,
                character_coverage=1.0,
                normalization_rule_name="nfkc",
                max_sentence_length=1 << 30,  # bytes; longer lines are skipped
                num_threads=1,  # recorded in the model
                pad_id=PAD,
                bos_id=BOS,
                eos_id=EOS,
                unk_id=UNK,
                bos_piece="<bos>",
                eos_piece="<eos>",
                minloglevel=2,
            )
        except RuntimeError as error:
            raise UserError(_training_error(str(error), vocab_size)) from error
        return cls(model.getvalue())

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Load a ``.model`` file.

        Raises:
            UserError: if it does not exist, cannot be read, or is not a tokenizer with the course's special tokens.
        """
        data = read_bytes(path, f"the tokenizer {path}")
        try:
            return cls(data)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error

    def __len__(self) -> int:
        return int(self.processor.get_piece_size())

    def normalize(self, text: str) -> str:
        """Normalise text as `encode` does. If the vocabulary has all its characters, this is ``decode(encode(text))``.

        The text is converted to Unicode NFKC; each run of white space and "▁" becomes one space, and leading and
        trailing ones are removed. All other characters are kept, including invisible ones and names like "<pad>".

        Python performs this normalisation. The model file also contains SentencePiece's own "nfkc" rule, so other
        programs that load it give nearly the same result; they differ for tabs, newlines and rare orders of combining
        accents. SentencePiece also normalises characters that are too new for this version of Python.

        Raises:
            UserError: if the text is not valid Unicode.
        """
        return str(self.processor.normalize(_normalize(text))).removeprefix("▁").replace("▁", " ")

    def encode(self, text: str) -> list[int]:
        """Convert text to the ids of its pieces, without bos and eos.

        Raises:
            UserError: if the text is not valid Unicode.
        """
        return list(self.processor.encode(_normalize(text), out_type=int))

    def encode_all(self, texts: Iterable[str], dropout: float = 0.0) -> list[list[int]]:
        """Encode many texts, on all cores. All ids are held in memory, so encode a large corpus in chunks.

        With BPE dropout (Provilkov et al. 2020), merges are skipped at random, so that the same word is segmented in
        different ways. This is a regulariser: it helps a model to learn what parts of words mean. SentencePiece's
        random numbers cannot be seeded, so the result is not reproducible.

        Args:
            texts: the texts to encode.
            dropout: probability of skipping a merge, less than 1. SentencePiece skips a merge for good, whereas in
                Provilkov et al. it may still happen later. So the same value splits words more than in their paper.

        Raises:
            UserError: if a text is not valid Unicode.
        """
        normalized = [_normalize(text) for text in texts]
        ids = self.processor.encode(
            normalized, out_type=int, num_threads=-1, enable_sampling=dropout > 0, alpha=dropout or None
        )
        return list(ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Convert ids to text: without special tokens, but with " ⁇ " for ``UNK`` and U+FFFD for invalid bytes."""
        return str(self.processor.decode([int(i) for i in ids]))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces with these ids as strings, in which "▁" marks the start of a word."""
        return [str(self.processor.id_to_piece(int(i))) for i in ids]


def _normalize(text: str) -> str:
    """Apply NFKC, and replace each run of white space and "▁" (SentencePiece's symbol for a space) with one space."""
    if not isinstance(text, str):
        raise UserError(f"expected a string; got {quote(text)}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code, context = ord(text[error.start]), ascii(text[max(0, error.start - 20) : error.start + 20])
        raise UserError(
            f"U+{code:04X} in {context} is not a valid character: the text is not UTF-8 or was decoded wrongly"
        ) from None
    return " ".join(unicodedata.normalize("NFKC", text).replace("▁", " ").split())


def _training_error(message: str, vocab_size: int) -> str:
    too_large = re.search(r"value <= (\d+)", message)
    if too_large:
        return (
            f"the text is too small for a vocabulary of {vocab_size}: "
            f"choose a model.vocab_size of at most {too_large[1]}"
        )
    too_small = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    if too_small:
        return (
            f"a vocabulary of {vocab_size} is too small for all characters of the text: "
            f"choose a model.vocab_size of at least {too_small[1]}"
        )
    return f"cannot train a tokenizer on this text (is it empty?): {message.splitlines()[-1][:200]}"
