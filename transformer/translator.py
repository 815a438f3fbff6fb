"""A trained model with its tokenizer: text in, text out."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from transformer.checkpoint import default_checkpoint, load_checkpoint
from transformer.data.batching import pad
from transformer.data.tokenizer import EOS, Tokenizer
from transformer.decoding import Hypothesis, beam_search, greedy_search
from transformer.device import Device, choose_device
from transformer.errors import UserError
from transformer.model import Transformer


@dataclass(frozen=True)
class Translation:
    """One hypothesis as text."""

    text: str
    hypothesis: Hypothesis


@dataclass(frozen=True)
class Translated:
    """A test set's translations: one for each sentence, whatever that is."""

    texts: list[str]
    empty: int
    """Sentences with nothing in them; their translations are empty, too."""
    cut: int
    """Sentences longer than the model reads; only as much of them was translated as it does."""


@contextmanager
def usable_search() -> Iterator[None]:
    """A setting of the search that is out of its range, or too large for the memory, is a user's mistake.

    Raises:
        UserError: for the one and the other.
    """
    try:
        yield
    except ValueError as error:
        raise UserError(str(error)) from error
    except RuntimeError as error:  # PyTorch's, and it has no class of its own for a CPU
        if "memory" not in str(error):
            raise
        raise UserError("memory is full: try a smaller beam, or shorter sentences") from error


class Translator:
    """Translates sentences in batches of similar length."""

    def __init__(self, model: Transformer, tokenizer: Tokenizer, device: Device | None = None) -> None:
        self.device = device or choose_device("cpu")
        self.model, self.tokenizer = model.to(self.device.device), tokenizer

    @classmethod
    def load(cls, run: Path, device: Device | None = None, checkpoint: str = "") -> tuple["Translator", dict[str, Any]]:
        """A model of a run folder, and what was written about it.

        Args:
            checkpoint: its name; without one, the `default_checkpoint`.

        Raises:
            UserError: if the folder is none, or its files are missing or damaged.
        """
        if not run.is_dir():
            raise UserError(f"there is no run folder {run}; `transformer train` makes one")
        checkpoint = checkpoint or default_checkpoint(run)
        model, described = load_checkpoint(run, checkpoint)
        tokenizer = Tokenizer.load(run / "tokenizer.model")
        if len(tokenizer) != model.config.vocab_size:
            raise UserError(
                f"{run}: its tokenizer has {len(tokenizer)} pieces, its model expects {model.config.vocab_size}"
            )
        return cls(model, tokenizer, device), described

    def encode(self, sentence: str) -> list[int]:
        """A sentence's ids as the model reads them: with eos at the end.

        Raises:
            UserError: if it is empty, or longer than the model allows.
        """
        ids = self.tokenizer.encode(sentence)
        if not ids:
            raise UserError("the sentence is empty: there is nothing to translate")
        if len(ids) + 1 > self.model.config.max_length:
            raise UserError(
                f"a sentence has {len(ids)} tokens; the model reads at most {self.model.config.max_length - 1}"
            )
        return [*ids, EOS]

    def greedy(self, sentences: Sequence[str], batch_tokens: int = 4096) -> list[str]:
        """Each sentence's translation by greedy search."""
        encoded = [self.encode(sentence) for sentence in sentences]
        found = self._in_batches(encoded, batch_tokens, lambda source: greedy_search(self.model, source))
        return [self.tokenizer.decode(ids) for ids in found]

    def beam(
        self,
        sentences: Sequence[str],
        beam: int = 4,
        alpha: float = 0.6,
        n_best: int = 1,
        batch_tokens: int = 1024,
    ) -> list[list[Translation]]:
        """Each sentence's ``n_best`` translations by beam search, best first."""
        encoded = [self.encode(sentence) for sentence in sentences]
        found = self._in_batches(
            encoded, batch_tokens, lambda source: beam_search(self.model, source, beam, alpha, n_best)
        )
        return [[Translation(self.tokenizer.decode(h.tokens), h) for h in hypotheses] for hypotheses in found]

    def test_set(
        self,
        sentences: Sequence[str],
        beam: int = 4,
        alpha: float = 0.6,
        batch_tokens: int = 1024,
        progress: bool = False,
    ) -> Translated:
        """Each sentence's best translation by beam search. No sentence ends it: not one empty, nor one too long."""
        encoded = [self.tokenizer.encode(sentence) for sentence in sentences]
        room = self.model.config.max_length - 1  # for all but eos
        full = [i for i, ids in enumerate(encoded) if ids]
        found = self._in_batches(
            [[*encoded[i][:room], EOS] for i in full],
            batch_tokens,
            lambda source: beam_search(self.model, source, beam, alpha),
            progress,
        )
        texts = [""] * len(encoded)
        for i, (best,) in zip(full, found, strict=True):
            texts[i] = self.tokenizer.decode(best.tokens)
        return Translated(texts, len(encoded) - len(full), sum(len(ids) > room for ids in encoded))

    def _in_batches(
        self,
        encoded: Sequence[list[int]],
        batch_tokens: int,
        search: Callable[[torch.Tensor], list[Any]],
        progress: bool = False,
    ) -> list[Any]:
        """Search in batches of at most ``batch_tokens`` source tokens, longest first; answers in the given order."""
        order = sorted(range(len(encoded)), key=lambda i: -len(encoded[i]))
        found: list[Any] = [None] * len(encoded)
        was_training = self.model.training
        self.model.eval()
        with tqdm(
            total=len(order), desc="translating", unit="sentence", disable=not progress, dynamic_ncols=True
        ) as bar:
            while order:
                size = max(1, batch_tokens // len(encoded[order[0]]))
                rows, order = order[:size], order[size:]
                with self.device.autocast():
                    answers = search(pad([encoded[i] for i in rows]).to(self.device.device))
                for row, answer in zip(rows, answers, strict=True):
                    found[row] = answer
                bar.update(len(rows))
        self.model.train(was_training)
        return found
