"""Text to token ids and back, by SentencePiece's byte-pair encoding (§5.1)."""

import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece

from transformer.errors import UserError

PAD, BOS, EOS, UNK = 0, 1, 2, 3
"""The ids of the special tokens, the same in every vocabulary."""


class Tokenizer:
    """A trained SentencePiece model. Text is normalised (NFKC, single spaces) before it is split."""

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
    def train(cls, lines: Iterable[str], vocab_size: int) -> "Tokenizer":
        """Learn ``vocab_size`` pieces from text; the same lines give the same tokenizer.

        Raises:
            UserError: if the text is empty or does not yield that many pieces.
        """
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=model,
                model_type="bpe",
                vocab_size=vocab_size,
                character_coverage=1.0,
                normalization_rule_name="nfkc",
                max_sentence_length=1 << 20,
                num_threads=1,
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
        """Read a ``.model`` file."""
        try:
            return cls(path.read_bytes())
        except FileNotFoundError:
            raise UserError(f"there is no tokenizer at {path}") from None

    def __len__(self) -> int:
        return int(self.processor.get_piece_size())

    def encode(self, text: str) -> list[int]:
        """Ids of the text's pieces, without bos and eos."""
        return list(self.processor.encode(text, out_type=int))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids; special tokens leave nothing."""
        return str(self.processor.decode([int(i) for i in ids]))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces themselves, for showing; "▁" marks the start of a word."""
        return [str(self.processor.id_to_piece(int(i))) for i in ids]


def _what_training_said(message: str, vocab_size: int) -> str:
    too_large = re.search(r"value <= (\d+)", message)
    if too_large:
        return f"the text is too small for {vocab_size} pieces: choose a vocabulary of at most {too_large[1]}"
    too_small = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    if too_small:
        return (
            f"a vocabulary of {vocab_size} does not hold every character of the text: choose more than {too_small[1]}"
        )
    return f"no tokenizer could be trained on this text (is it empty?): {message.splitlines()[-1][:200]}"
