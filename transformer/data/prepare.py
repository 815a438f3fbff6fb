"""Corpus → cleaning → tokenizer → token store: done once, kept on disk, found again by what shaped it.

The text passes through as a stream, so that a corpus of any size is prepared in the same memory.
"""

import hashlib
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import filelock
import sentencepiece
from tqdm import tqdm

from transformer.data.batching import Sequences, SequencesWriter
from transformer.data.cleaning import OFF, Cleaner, CleaningConfig, CleaningReport
from transformer.data.corpora import Pair, find_corpus, sentence_pairs
from transformer.data.download import data_folder
from transformer.data.readers import TextFile, read_pairs
from transformer.data.tokenizer import Tokenizer, sample_lines
from transformer.errors import UserError

FORMAT = 4
"""Version of the store's layout and of what shapes it; another one is another store."""

CHUNK = 10_000
"""Pairs that are tokenised at once."""

BAR: dict[str, Any] = {"unit": " pairs", "unit_scale": True, "dynamic_ncols": True}


@dataclass(frozen=True)
class DataConfig:
    """Which text a model learns from."""

    corpus: str = "pocket"
    """pocket, pocket-200k, copy, reverse, multi30k, iwslt17, wmt14 or wmt14-mini; or your own: MANIFEST.json,
    TABLE.tsv or TEXT.en,TEXT.de."""
    direction: str = "en-de"
    """The source's language and the target's."""
    max_train_pairs: int | None = None
    """Use only the first so many training pairs."""
    max_length: int = 150
    """Pairs with more tokens than this on a side are left out of the training and of the validation loss; tokens of the
    learned vocabulary."""
    byte_fallback: bool = False
    """Spell characters that the vocabulary does not have in bytes, which take 256 of its pieces."""
    bpe_dropout: float = 0.0
    """Share of BPE's merges left out at random in training text, so that words split in many ways; 0.1 is common.
    What is drawn is stored; preparing it elsewhere draws anew."""
    segmentations: int = 1
    """With bpe_dropout: each training pair is stored so many times, split anew; an epoch is all of them."""
    cleaning: CleaningConfig = OFF
    """Training pairs that are left out before anything is learned."""

    def __post_init__(self) -> None:
        if not re.fullmatch("[a-z]+-[a-z]+", self.direction):
            raise UserError(f"a direction is two languages, such as en-de; got {self.direction!r}")
        if self.max_length < 1 or self.max_train_pairs is not None and self.max_train_pairs < 1:
            raise UserError(
                f"max_length and max_train_pairs must be at least 1; got {self.max_length} and {self.max_train_pairs}"
            )
        if not 0 <= self.bpe_dropout < 1:
            raise UserError(f"bpe_dropout must be at least 0 and less than 1; got {self.bpe_dropout}")
        if self.segmentations < 1 or self.segmentations > 1 and not self.bpe_dropout:
            raise UserError(
                "segmentations must be at least 1, and 1 without bpe_dropout, because all would be the same; "
                f"got {self.segmentations}"
            )

    @classmethod
    def from_dict(cls, described: dict[str, Any]) -> "DataConfig":
        """The settings that ``dataclasses.asdict`` made a dictionary of; without ``cleaning``, nothing is cleaned.

        Raises:
            UserError: if they are not settings of this version of the course.
        """
        try:
            if "corpus" not in described:
                raise UserError("the data settings name no corpus")
            cleaning = CleaningConfig(**described["cleaning"]) if "cleaning" in described else OFF
            return cls(**{**described, "cleaning": cleaning})
        except TypeError as error:
            raise UserError(f"the data settings are of another version of the course: {error}") from None


@dataclass(frozen=True)
class PreparedData:
    """A folder with a trained tokenizer, the tokens of ``train`` and ``valid``, and the text of ``valid``."""

    folder: Path

    @property
    def tokenizer(self) -> Tokenizer:
        """The vocabulary, shared by both languages."""
        return Tokenizer.load(self.folder / "tokenizer.model")

    def tokens(self, split: str) -> tuple[Sequences, Sequences]:
        """Sources and targets of ``train`` or ``valid``, without bos and eos."""
        return Sequences.load(self.folder, f"{split}.source"), Sequences.load(self.folder, f"{split}.target")

    @property
    def cleaning(self) -> CleaningReport:
        """What cleaning did to the training pairs."""
        path = self.folder / "cleaning.json"
        try:
            return CleaningReport(**json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise UserError(f"{path} is missing or damaged: delete its folder and prepare it again") from error

    @property
    def valid(self) -> list[Pair]:
        """The sentence pairs of ``valid``, as they were written."""
        return list(read_pairs(*_text(self.folder, "valid")))


def store_folder(data: DataConfig, vocab_size: int) -> Path:
    """Where these settings' store lies, or would lie: a change in anything that shapes it is another folder."""
    corpus = find_corpus(data.corpus)
    key = [FORMAT, asdict(data) | {"corpus": corpus.fingerprint()}, vocab_size, sentencepiece.__version__]
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]
    return data_folder() / "prepared" / f"{corpus.name}-{data.direction}-{vocab_size}-{digest}"


def prepare(data: DataConfig, vocab_size: int, mirror: str | None = None, progress: bool = False) -> PreparedData:
    """Fetch, clean, tokenise and store a corpus, or find it done. What is half done leaves nothing behind.

    Of several processes one prepares, and the others wait for it.

    Args:
        data: which text.
        vocab_size: pieces of the vocabulary.
        mirror: a folder or address with the corpus's files.
        progress: show bars.

    Raises:
        UserError: if the text cannot be had, nothing of it is left, it does not carry such a vocabulary, or it cannot
            be stored.
    """
    folder = store_folder(data, vocab_size)
    work = folder.with_name(f".{folder.name}.unfinished")
    try:
        if (folder / "store.json").exists():
            return PreparedData(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder.with_name(f".{folder.name}.lock")):
            if not (folder / "store.json").exists():
                shutil.rmtree(work, ignore_errors=True)  # of a process that was killed
                work.mkdir()
                try:
                    _fill(work, data, vocab_size, mirror, progress)
                    shutil.rmtree(folder, ignore_errors=True)  # what is left of a store that was not wholly deleted
                    os.replace(work, folder)
                finally:
                    shutil.rmtree(work, ignore_errors=True)
    except (OSError, sqlite3.Error) as error:  # sqlite3: the cleaner's hashes go to disk too
        raise UserError(
            f"cannot store the prepared data in {folder.parent}: {getattr(error, 'strerror', None) or error}. "
            "Make room, or name another folder in TRANSFORMER_DATA"
        ) from error
    return PreparedData(folder)


def _fill(folder: Path, data: DataConfig, vocab_size: int, mirror: str | None, progress: bool) -> None:
    """First the text is cleaned, written down and sampled; then it is read again and tokenised."""
    corpus = find_corpus(data.corpus)
    for split in ("train", "valid", "test"):  # the test set too: it is wanted when the network may be gone
        corpus.get(split, mirror)
    name = corpus.name
    cleaner = Cleaner(data.cleaning)
    counts = {"train": 0, "valid": 0}

    def pairs(split: str) -> Iterator[Pair]:
        read = sentence_pairs(data.corpus, split, data.direction, mirror)
        return cleaner.clean(islice(read, data.max_train_pairs)) if split == "train" else read

    def written(split: str) -> Iterator[str]:
        """Both sides of each pair, which is written down on the way."""
        source, target = (place.path.open("w", encoding="utf-8", newline="\n") for place in _text(folder, split))
        with source, target:
            for pair in tqdm(pairs(split), f"{name}, {split}", disable=not progress, **BAR):
                source.write(pair[0] + "\n")
                target.write(pair[1] + "\n")
                yield from pair

    sample = sample_lines(written("train"))
    cleaner.report.require_pairs(f"{name} train")
    for _ in written("valid"):
        pass
    tokenizer = Tokenizer.train(sample, vocab_size, data.byte_fallback)
    (folder / "tokenizer.model").write_bytes(tokenizer.model)
    del sample
    for split in counts:
        read = 0
        dropout, segmentations = (data.bpe_dropout, data.segmentations) if split == "train" else (0.0, 1)
        with (
            SequencesWriter(folder, f"{split}.source", len(tokenizer)) as sources,
            SequencesWriter(folder, f"{split}.target", len(tokenizer)) as targets,
            tqdm(desc=f"{name}, {split}, tokens", disable=not progress, **BAR) as bar,
        ):
            for chunk in _chunks(read_pairs(*_text(folder, split)), CHUNK):
                for _ in range(segmentations):
                    source_ids, target_ids = (tokenizer.encode_all(side, dropout) for side in zip(*chunk, strict=True))
                    fit = [
                        (s, t)
                        for s, t in zip(source_ids, target_ids, strict=True)
                        if s and t and max(len(s), len(t)) <= data.max_length
                    ]
                    sources.extend([s for s, _ in fit])
                    targets.extend([t for _, t in fit])
                    counts[split] += len(fit)
                read += len(chunk)
                bar.update(len(chunk))
        if not counts[split]:
            raise UserError(f"none of the {read:,} {split} pairs of {name} has 1 to {data.max_length} tokens a side")
    for place in _text(folder, "train"):
        place.path.unlink()
    report = json.dumps(cleaner.report.as_dict(), ensure_ascii=False, indent=2)
    (folder / "cleaning.json").write_text(report, "utf-8")
    described = {"format": FORMAT, "data": asdict(data), "vocab_size": vocab_size, "pairs": counts}
    (folder / "store.json").write_text(json.dumps(described, indent=2), "utf-8")


def _text(folder: Path, split: str) -> tuple[TextFile, TextFile]:
    """Where the text of a split is written, the source's and the target's."""
    return TextFile(folder / f"{split}.source.txt"), TextFile(folder / f"{split}.target.txt")


def _chunks(pairs: Iterable[Pair], size: int) -> Iterator[list[Pair]]:
    remaining = iter(pairs)
    while chunk := list(islice(remaining, size)):
        yield chunk
