"""Text to token ids and back, by SentencePiece's byte-pair encoding (§5.1)."""

import heapq
import io
import random
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece

from transformer.errors import UserError

PAD, BOS, EOS, UNK = 0, 1, 2, 3
"""The ids of the special tokens, the same in every vocabulary."""

SAMPLE_LINES, SAMPLE_CHARACTERS = 500_000, 100_000_000
"""How much text is enough to learn a vocabulary from: 37,000 pieces of so many lines take 5 seconds and half a
gigabyte, and twice as many lines would make encoded text shorter by less than a thousandth.
"""

LONGEST_LINE = 10_000
"""Characters that a sample takes of a line, so that no single one fills it."""


def sample_lines(
    lines: Iterable[str], count: int = SAMPLE_LINES, seed: int = 0, characters: int = SAMPLE_CHARACTERS
) -> list[str]:
    """Choose lines to train a tokenizer on. Of any number of lines, it holds no more than it returns.

    Think of all lines in a random order. The first ``count`` of them are taken, or fewer: the last before they have
    more than ``characters`` characters. So each line has the same chance; the same lines and seed are the same sample.

    Returns:
        The chosen lines, in the order they came in; of those longer than ``LONGEST_LINE``, the start.

    Raises:
        UserError: if ``count`` is not positive.
    """
    if count < 1:
        raise UserError(f"a sample has at least 1 line; got {count}")
    rng = random.Random(seed)
    sample: list[tuple[float, int, str]] = []  # a heap: the last in the random order is on top
    size, end = 0, 1.0
    for number, line in enumerate(lines):
        place = rng.random()  # in the random order
        if place >= end:
            continue
        start = line[:LONGEST_LINE]
        heapq.heappush(sample, (-place, number, start))
        size += len(start)
        while len(sample) > count or size > characters:
            last, _, gone = heapq.heappop(sample)
            size -= len(gone)
            end = -last  # nothing behind it comes in any more
    return [line for _, line in sorted((number, line) for _, number, line in sample)]


class Tokenizer:
    """A trained SentencePiece model. Text is normalised before it is split, see `normalize`."""

    def __init__(self, model: bytes) -> None:
        """Make it from a serialised SentencePiece model.

        Raises:
            UserError: if the bytes are none, or its special ids are not the course's.
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
        """Learn a vocabulary from text, which is held in memory: give it a sample of a large corpus (`sample_lines`).

        The same lines make the same model, to the byte, on any number of cores: only one is used.

        Args:
            lines: the text. They may have any length.
            vocab_size: pieces of the vocabulary, special ones and bytes included.
            byte_fallback: spend 256 pieces on the bytes, and spell with them the characters that the text does not
                have. Otherwise each run of such characters becomes ``UNK``.

        Raises:
            UserError: if the text is empty, does not yield that many pieces, or needs more for its characters.
        """
        text = [_tidied(line) for line in lines]  # SentencePiece would hide what goes wrong in an iterator
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(text),
                model_writer=model,
                model_type="bpe",
                vocab_size=min(max(vocab_size, UNK + 1), 1 << 24),  # beyond, it does not say what is possible
                byte_fallback=byte_fallback,
                character_coverage=1.0,
                normalization_rule_name="nfkc",
                max_sentence_length=1 << 30,  # bytes; it skips longer ones
                num_threads=1,  # the model records it
                pad_id=PAD,
                bos_id=BOS,
                eos_id=EOS,
                unk_id=UNK,
                bos_piece="<bos>",
                eos_piece="<eos>",
                minloglevel=2,
            )
        except RuntimeError as error:
            raise UserError(_what_training_said(str(error), vocab_size)) from error
        return cls(model.getvalue())

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read a ``.model`` file.

        Raises:
            UserError: if there is none, or it cannot be used.
        """
        try:
            return cls(path.read_bytes())
        except FileNotFoundError:
            raise UserError(f"there is no tokenizer at {path}") from None
        except OSError as error:
            raise UserError(f"cannot read the tokenizer {path}: {error.strerror}") from None
        except UserError as error:
            raise UserError(f"{path}: {error}") from error

    def __len__(self) -> int:
        return int(self.processor.get_piece_size())

    def normalize(self, text: str) -> str:
        """The text as the tokenizer sees it: ``decode(encode(text))``, if the vocabulary has all of its characters.

        That is Unicode's NFKC, in which each run of white space and "▁" is one space, and none is at the ends. All
        other characters stay, invisible ones too; so do names like "<pad>".

        Python does this, and exactly. The model's own rule is SentencePiece's "nfkc", so that its file does nearly
        the same in other programs: it leaves tabs, line ends and rare orders of accents. It also normalises the
        characters that are newer than this Python.

        Raises:
            UserError: if the text is not valid Unicode.
        """
        return str(self.processor.normalize(_tidied(text))).removeprefix("▁").replace("▁", " ")

    def encode(self, text: str) -> list[int]:
        """Ids of the text's pieces, without bos and eos.

        Raises:
            UserError: if the text is not valid Unicode.
        """
        return list(self.processor.encode(_tidied(text), out_type=int))

    def encode_all(self, texts: Iterable[str], dropout: float = 0.0) -> list[list[int]]:
        """`encode` for many texts, on all cores. Give it a large corpus in parts: all ids are held at once.

        With BPE dropout (Provilkov et al. 2020), merges are left out at random, so that a word splits now so, now so:
        from that, a model learns what the parts of words mean. SentencePiece draws anew each time, and no seed makes it
        draw the same in another process.

        Args:
            dropout: how likely two neighbours are not merged, less than 1. SentencePiece decides this once, the paper
                anew at each step: with the same number, the paper's rule splits less.

        Raises:
            UserError: if a text is not valid Unicode.
        """
        tidied = [_tidied(text) for text in texts]
        split = self.processor.encode(
            tidied, out_type=int, num_threads=-1, enable_sampling=dropout > 0, alpha=dropout or None
        )
        return list(split)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids. Special tokens leave nothing, but ``UNK`` " ⁇ ", and bytes of no character U+FFFD."""
        return str(self.processor.decode([int(i) for i in ids]))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces themselves, for showing; "▁" marks the start of a word."""
        return [str(self.processor.id_to_piece(int(i))) for i in ids]


def _tidied(text: str) -> str:
    """NFKC, and single spaces for white space and for "▁", which is SentencePiece's own mark of a space."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code, around = ord(text[error.start]), ascii(text[max(0, error.start - 20) : error.start + 20])
        raise UserError(
            f"U+{code:04X} in {around} is no character: the text was not UTF-8, or read as something else"
        ) from None
    return " ".join(unicodedata.normalize("NFKC", text).replace("▁", " ").split())


def _what_training_said(message: str, vocab_size: int) -> str:
    too_large = re.search(r"value <= (\d+)", message)
    if too_large:
        return f"the text is too small for {vocab_size} pieces: choose a vocabulary of at most {too_large[1]}"
    too_small = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    if too_small:
        return f"a vocabulary of {vocab_size} does not hold every character of the text: choose at least {too_small[1]}"
    return f"no tokenizer could be trained on this text (is it empty?): {message.splitlines()[-1][:200]}"
