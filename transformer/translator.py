"""A trained model with its tokenizer: text in, text out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from transformer.checkpoint import default_checkpoint, load_checkpoint, step_checkpoints
from transformer.config import ModelConfig
from transformer.data.batching import pad
from transformer.data.sentences import split_sentences
from transformer.data.tokenizer import EOS, Tokenizer
from transformer.decoding import (
    EXTRA_LENGTH,
    Hypothesis,
    beam_search,
    check_max_new_tokens,
    check_search,
    greedy_search,
)
from transformer.device import Device, DeviceName, available_bytes, choose_device, explain_out_of_memory, readable_bytes
from transformer.errors import UserError, quote, shorten
from transformer.files import InvalidFileError
from transformer.model import Transformer
from transformer.progress import progress_bar
from transformer.quantization import quantize_linear_layers

Result = TypeVar("Result")
"""What a search returns for one sentence."""


@dataclass(frozen=True)
class Translation:
    """A hypothesis as text."""

    text: str
    hypothesis: Hypothesis


@dataclass(frozen=True)
class TranslatedTestSet:
    """The result of `Translator.translate_test_set`."""

    texts: list[str]
    """One translation for each sentence, in the given order."""
    empty: int
    """Number of sentences without any token; their translations are also empty."""
    truncated: int
    """Number of sentences that were truncated because they were longer than the model's ``max_length``."""


def decoding_bytes(config: ModelConfig, source_length: int, beam_size: int, max_new_tokens: int | None = None) -> int:
    """Estimate how much memory beam search needs for each sentence of a batch, in bytes.

    The estimate counts the keys and values of all layers, for the source once and for the target in every beam, and
    the logits of a step. Both count twice, because the cache is copied when finished sentences leave the batch, and
    the logits when they become log-probabilities. The prefix mask and one layer's attention scores are added. They grow
    with beam_size², because each beam attends over the cache entries of all beams of its sentence.

    Args:
        source_length: tokens of the longest source sentence.
        max_new_tokens: as in `decoding.beam_search`.
    """
    target = min(max_new_tokens or source_length + EXTRA_LENGTH, config.max_length)
    key_value = 2 * config.n_layers * config.d_model * (source_length + beam_size * target)
    logits = beam_size * config.vocab_size
    scores = beam_size * beam_size * target * (2 + 4 * config.n_heads)
    return 4 * 2 * (key_value + logits) + scores


def decoding_batch_size(
    config: ModelConfig, device: Device, source_length: int, beam_size: int, max_new_tokens: int | None = None
) -> int:
    """Return how many sentences to translate at once.

    On a GPU: as many as fit into half of its free memory, because hundreds of sentences take hardly more time than
    one. On other devices: about 4,096 / beam_size tokens.

    Args:
        source_length: tokens of the longest source sentence.
        max_new_tokens: as in `decoding.beam_search`.
    """
    if device.type != "cuda":
        return max(1, 4096 // (beam_size * source_length))
    return max(1, available_bytes(device) // 2 // decoding_bytes(config, source_length, beam_size, max_new_tokens))


def _check_list(sentences: Sequence[str]) -> Sequence[str]:
    """Check that this is a list of sentences, not a single string, whose letters would be taken for sentences."""
    if isinstance(sentences, str):
        raise UserError("expected a list of sentences; got a string: use translate, or put it in a list")
    if not isinstance(sentences, Iterable):
        raise UserError(f"expected a list of sentences; got {quote(sentences)}")
    return [_check_string(sentence) for sentence in sentences]


def _check_string(sentence: str) -> str:
    """Reject a sentence that is not a string."""
    if not isinstance(sentence, str):
        raise UserError(f"a sentence must be a string; got {quote(sentence)}")
    return sentence


class Translator:
    """Translates sentences in batches of similar length.

    Args:
        model: moved to the device; a translation leaves its mode (training or eval) unchanged. In int8, a
            quantized copy of it is used (see `quantize_linear_layers`).
        tokenizer: the one that the model was trained with.
        device: where to run the model: a name such as ``"cuda"``, for which `choose_device` also chooses the precision,
            or a `Device`; None: the CPU, in float32.
        metadata: the content of the checkpoint's JSON file, if the model was loaded from one.
    """

    def __init__(
        self,
        model: Transformer,
        tokenizer: Tokenizer,
        device: Device | DeviceName | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self.device = device if isinstance(device, Device) else choose_device(device or "cpu")
        model = model.to(self.device.torch_device)
        self.model = quantize_linear_layers(model) if self.device.int8 else model
        self.tokenizer, self.metadata = tokenizer, metadata or {}

    @classmethod
    def load(cls, run: Path | str, device: Device | DeviceName | None = None, checkpoint: str = "") -> "Translator":
        """Load a model from a run folder.

        Args:
            device: where to run the model, as in `Translator`; None: the CPU, in float32.
            checkpoint: the checkpoint's name; by default, see `default_checkpoint`.

        Raises:
            UserError: if this is not a run folder, or files are missing or damaged.
        """
        run = Path(run)
        if not run.is_dir():
            raise UserError(f"there is no run folder {run}; `transformer train` makes one")
        checkpoint = checkpoint or default_checkpoint(run)
        try:
            model, metadata = load_checkpoint(run, checkpoint)
        except InvalidFileError as error:
            if len(step_checkpoints(run)) < 2:
                raise
            raise InvalidFileError(
                f"{error}; `transformer average {run}` averages the checkpoints that are left"
            ) from error
        if not (run / "tokenizer.model").exists():
            raise UserError(
                f"{run} has no tokenizer.model: copy it into the folder again; if this is your own run, the same "
                "`transformer train` command writes it, even if training is finished"
            )
        tokenizer = Tokenizer.load(run / "tokenizer.model")
        if len(tokenizer) != model.config.vocab_size:
            raise UserError(
                f"{run}: its tokenizer has {len(tokenizer)} pieces, but its model expects {model.config.vocab_size}"
            )
        return cls(model, tokenizer, device, metadata)

    def encode(self, sentence: str) -> list[int]:
        """Return a sentence's token ids, with eos at the end, as the model expects them.

        Raises:
            UserError: if the sentence is empty, or longer than the model's ``max_length``.
        """
        ids = self.tokenizer.encode(_check_string(sentence))
        if not ids:
            raise UserError("the sentence is empty: there is nothing to translate")
        if len(ids) + 1 > self.model.config.max_length:
            raise UserError(
                f"the sentence {quote(shorten(sentence, 50))} has {len(ids)} tokens; the model reads at most "
                f"{self.model.config.max_length - 1}: split it into shorter sentences"
            )
        return [*ids, EOS]

    def translate(
        self, text: str, beam_size: int = 4, length_penalty: float = 0.6, max_new_tokens: int | None = None
    ) -> str:
        """Translate a text by beam search, sentence by sentence (see `split_sentences`).

        Args:
            beam_size, length_penalty: as in `decoding.beam_search`; the defaults are the paper's (§6.1).
            max_new_tokens: as in `decoding.beam_search`.

        Raises:
            UserError: if the text is empty or a sentence too long, an argument is out of range, memory runs out, or the
                model outputs NaN.
        """
        if not isinstance(text, str):
            raise UserError(f"translate expects a string; got {quote(text)}. For a list, use beam_search")
        sentences = split_sentences(text) or [text]
        translations = self.beam_search(sentences, beam_size, length_penalty, max_new_tokens=max_new_tokens)
        return " ".join(best.text for (best,) in translations)

    def greedy_search(self, sentences: Sequence[str], max_new_tokens: int | None = None) -> list[str]:
        """Translate sentences by greedy search.

        Args:
            max_new_tokens: as in `decoding.greedy_search`.

        Returns:
            One translation for each sentence.

        Raises:
            UserError: if a sentence is empty or too long, ``max_new_tokens`` is less than 1, memory runs out, or the
                model outputs NaN.
        """
        check_max_new_tokens(max_new_tokens)
        encoded = [self.encode(sentence) for sentence in _check_list(sentences)]
        translations = self._in_batches(
            encoded, 1, max_new_tokens, lambda source: greedy_search(self.model, source, max_new_tokens)
        )
        return [self.tokenizer.decode(ids) for ids in translations]

    def beam_search(
        self,
        sentences: Sequence[str],
        beam_size: int = 4,
        length_penalty: float = 0.6,
        n_best: int = 1,
        max_new_tokens: int | None = None,
    ) -> list[list[Translation]]:
        """Translate sentences by beam search.

        Args:
            beam_size, length_penalty, n_best, max_new_tokens: as in `decoding.beam_search`.

        Returns:
            For each sentence its ``n_best`` translations, best first; fewer if fewer were finished before the limit.

        Raises:
            UserError: if a sentence is empty or too long, an argument is out of range, memory runs out, or the
                model outputs NaN.
        """
        check_search(beam_size, length_penalty, n_best, max_new_tokens)
        encoded = [self.encode(sentence) for sentence in _check_list(sentences)]
        n_best_lists = self._in_batches(
            encoded,
            beam_size,
            max_new_tokens,
            lambda source: beam_search(
                self.model, source, beam_size, length_penalty, n_best, max_new_tokens=max_new_tokens
            ),
        )
        return [[Translation(self.tokenizer.decode(h.tokens), h) for h in hypotheses] for hypotheses in n_best_lists]

    def translate_test_set(
        self,
        sentences: Sequence[str],
        beam_size: int = 4,
        length_penalty: float = 0.6,
        max_new_tokens: int | None = None,
        progress: bool = False,
    ) -> TranslatedTestSet:
        """Translate sentences by beam search; empty ones stay empty, and those that are too long are truncated.

        Args:
            beam_size, length_penalty, max_new_tokens: as in `decoding.beam_search`.
            progress: show a progress bar.

        Raises:
            UserError: if an argument is out of range, memory runs out, or the model outputs NaN.
        """
        check_search(beam_size, length_penalty, max_new_tokens=max_new_tokens)
        encoded = [self.tokenizer.encode(sentence) for sentence in _check_list(sentences)]
        max_tokens = self.model.config.max_length - 1  # eos is the last
        not_empty = [i for i, ids in enumerate(encoded) if ids]
        hypotheses = self._in_batches(
            [[*encoded[i][:max_tokens], EOS] for i in not_empty],
            beam_size,
            max_new_tokens,
            lambda source: beam_search(self.model, source, beam_size, length_penalty, max_new_tokens=max_new_tokens),
            progress,
        )
        texts = [""] * len(encoded)
        for i, (best,) in zip(not_empty, hypotheses, strict=True):
            texts[i] = self.tokenizer.decode(best.tokens)
        return TranslatedTestSet(
            texts, empty=len(encoded) - len(not_empty), truncated=sum(len(ids) > max_tokens for ids in encoded)
        )

    def _in_batches(
        self,
        encoded: Sequence[list[int]],
        beam_size: int,
        max_new_tokens: int | None,
        search: Callable[[Tensor], list[Result]],
        progress: bool = False,
    ) -> list[Result]:
        """Search in batches of similar length, longest first; return the results in the order of the sentences.

        Args:
            search: finds the translations of a padded batch of sources, (batch, source).
        """
        order = sorted(range(len(encoded)), key=lambda i: -len(encoded[i]))
        config, longest = self.model.config, max(map(len, encoded), default=0)
        needed = decoding_bytes(config, longest, beam_size, max_new_tokens) if order else 0
        if needed > (available := available_bytes(self.device)):
            smaller = "a smaller beam_size, or shorter sentences" if beam_size > 1 else "shorter sentences"
            raise UserError(
                f"the longest sentence needs {readable_bytes(needed)} with beam_size {beam_size}, but "
                f"only {readable_bytes(available)} is free: use {smaller}"
            )
        results: dict[int, Result] = {}
        was_training = self.model.training
        self.model.eval()
        try:
            with (
                explain_out_of_memory("try a smaller beam size or shorter sentences"),
                progress_bar("translating", len(order), shown=progress, unit="sentence") as bar,
            ):
                while order:
                    size = decoding_batch_size(config, self.device, len(encoded[order[0]]), beam_size, max_new_tokens)
                    rows, order = order[:size], order[size:]
                    source = pad([encoded[i] for i in rows]).to(self.device.torch_device)
                    with self.device.autocast():
                        results.update(zip(rows, search(source), strict=True))
                    bar.update(len(rows))
        finally:
            self.model.train(was_training)
        return [results[i] for i in range(len(encoded))]
