"""Prepare a corpus for training: clean it, train a tokenizer, tokenise it, and cache the result on disk.

The text is streamed, so memory use depends little on the size of the corpus. The name of a cache folder contains a hash
of all settings that affect its contents.
"""

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import sentencepiece

from transformer.data.augmentation import augment
from transformer.data.batching import Sequences, SequencesWriter
from transformer.data.cleaning import NO_CLEANING, Cleaner, CleaningConfig, CleaningReport
from transformer.data.corpora import HOLD_OUT_EVERY, check_direction, count_unused_pairs, find_corpus, sentence_pairs
from transformer.data.download import data_folder, lock_file
from transformer.data.readers import SentencePair, TextFile, read_pairs
from transformer.data.tokenizer import Tokenizer, sample_lines
from transformer.errors import UserError, quote
from transformer.files import InvalidFileError, check_fields, convert, read_json
from transformer.progress import progress_bar

FORMAT = 5
"""Version of the folder's layout and of the code that affects its contents; part of the hash."""

CHUNK = 10_000
"""Number of pairs to tokenise at a time."""


@dataclass(frozen=True)
class DataConfig:
    """The corpus and how it is prepared."""

    corpus: str = "pocket"
    """One of pocket, pocket-200k, copy, reverse, multi30k, tatoeba, everyday, phrasebook, iwslt17, wmt14, wmt14-mini;
    or your own text, in UTF-8, plain or gzipped:
    - TABLE.tsv: English, a tab and German on each line, without a header.
    - TEXT.en,TEXT.de: one sentence per line. For other languages, set data.direction as well.
    - MANIFEST.json: a list of the texts of each split, in any two languages.
    If there are no separate texts for valid and test, 1 sentence in 20 is held out for each of them.
    Each keeps about 2,000 at most; others that were held out are unused, unless a manifest sets hold_out_every."""
    direction: str = "en-de"
    """Source and target language."""
    max_train_pairs: int | None = None
    """Number of training pairs to use, from the beginning of the corpus; by default, all of them."""
    max_length: int = 150
    """Drop training and validation pairs with more subword tokens than this on either side.
    The longest sentence that the model can read is set by model.max-length."""
    byte_fallback: bool = False
    """Represent characters outside the vocabulary as UTF-8 bytes, which take up 256 entries of it."""
    bpe_dropout: float = 0.0
    """Probability of skipping a BPE merge in training text when it is prepared, to vary segmentations; 0.1 is usual."""
    segmentations: int = 1
    """With BPE dropout: number of segmentations of each training pair to store; an epoch contains all of them."""
    augmentation: float = 0.0
    """Probability of each random change to an English-German training pair: names, numbers, spelling and so on."""
    cleaning: CleaningConfig = NO_CLEANING
    """Which training pairs to drop before the tokenizer is trained."""

    def __post_init__(self) -> None:
        check_fields(self, "data")
        if not re.fullmatch("[a-z]{2,3}-[a-z]{2,3}", self.direction):
            raise UserError(
                f"data.direction must be two languages joined by a hyphen, such as en-de; got {quote(self.direction)}"
            )
        if self.languages[0] == self.languages[1]:
            raise UserError(f"data.direction must be two different languages, such as en-de; got {self.direction}")
        for name in ("max_length", "max_train_pairs"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise UserError(f"data.{name} must be at least 1; got {value}")
        if not 0 <= self.augmentation <= 1:
            raise UserError(f"data.augmentation must be between 0 and 1; got {self.augmentation}")
        if self.augmentation and set(self.languages) != {"en", "de"}:
            raise UserError(f"data.augmentation is for English and German only; data.direction is {self.direction}")
        if not 0 <= self.bpe_dropout < 1:
            raise UserError(f"data.bpe_dropout must be at least 0 and less than 1; got {self.bpe_dropout}")
        if self.segmentations < 1 or self.segmentations > 1 and not self.bpe_dropout:
            raise UserError(
                "data.segmentations must be at least 1, and exactly 1 without data.bpe_dropout, because all of them "
                f"would be identical; got {self.segmentations}"
            )

    @property
    def languages(self) -> tuple[str, str]:
        """The codes of the source and the target language."""
        source, _, target = self.direction.partition("-")
        return source, target

    @classmethod
    def from_dict(cls, saved: dict[str, Any], where: str = "data") -> "DataConfig":
        """Restore the settings from a dictionary, as ``dataclasses.asdict`` returns it.

        A dictionary without ``cleaning`` means `NO_CLEANING`.

        Args:
            saved: the dictionary.
            where: the file that it is from, for messages.

        Raises:
            InvalidFileError: if these are not valid settings of this version of the course.
        """
        if "corpus" not in saved:
            raise InvalidFileError(f"{where}: there is no corpus")
        return convert(saved, cls, where)


@dataclass(frozen=True)
class PreparedData:
    """A cache folder with a tokenizer, the token ids of ``train`` and ``valid``, and the text of ``valid``."""

    folder: Path

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer; its vocabulary is shared by both languages."""
        with _prepare_again():
            return Tokenizer.load(self.folder / "tokenizer.model")

    def tokens(self, split: str) -> tuple[Sequences, Sequences]:
        """Ids of the sources and targets of ``train`` or ``valid``, without bos and eos."""
        return Sequences.load(self.folder, f"{split}.source"), Sequences.load(self.folder, f"{split}.target")

    @property
    def cleaning(self) -> CleaningReport:
        """How many training pairs each cleaning filter dropped."""
        path = self.folder / "cleaning.json"
        with _prepare_again():
            return convert(read_json(path), CleaningReport, str(path))

    @property
    def n_unused(self) -> int:
        """Number of pairs in no split (see `count_unused_pairs`); 0 if an earlier version prepared the data."""
        path = self.folder / "store.json"
        return convert(read_json(path).get("unused", 0), int, f"{path}: unused") if path.exists() else 0

    @property
    def valid(self) -> list[SentencePair]:
        """The sentence pairs of ``valid``, as text."""
        with _prepare_again():
            return list(read_pairs(*_text_files(self.folder, "valid")))


@contextmanager
def _prepare_again() -> Iterator[None]:
    """Add to the error about a prepared file that is missing or damaged what to do."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{error}: delete its folder and prepare the data again") from None


def prepared_folder(data: DataConfig, vocab_size: int, tokenizer: Tokenizer | None = None) -> Path:
    """Return the folder for data prepared with these settings; its name changes with any that affects the data."""
    corpus = find_corpus(data.corpus)
    settings = asdict(data) | {"corpus": corpus.fingerprint()}
    versions = [sentencepiece.__version__]
    if data.cleaning.min_language_probability:
        versions.append(version("py3langid"))
    key = [FORMAT, settings, vocab_size, *versions]
    if tokenizer is not None:
        key.append(hashlib.sha256(tokenizer.model).hexdigest())
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]
    return data_folder() / "prepared" / f"{corpus.name}-{data.direction}-{vocab_size}-{digest}"


def prepare(
    data: DataConfig,
    vocab_size: int,
    mirror: str | None = None,
    progress: bool = False,
    tokenizer: Tokenizer | None = None,
) -> PreparedData:
    """Download, clean, tokenise and store a corpus, unless the result is already cached.

    If this fails or is interrupted, no partial result is left. If several processes call it at once, one of them
    prepares the data and the others wait for it.

    Args:
        data: the corpus and its settings.
        vocab_size: number of subwords in the vocabulary.
        mirror: a folder or URL that contains the files of the corpus.
        progress: whether to show progress bars.
        tokenizer: use this one, of ``vocab_size`` subwords, as fine-tuning does; None: train one on the text.

    Raises:
        UserError: if the text cannot be downloaded, read or stored, if all pairs are dropped, or if the text is too
            small for the vocabulary.
    """
    folder = prepared_folder(data, vocab_size, tokenizer)
    work = folder.with_name(f".{folder.name}.unfinished")
    try:
        if (folder / "store.json").exists():
            return PreparedData(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with lock_file(folder.with_name(f".{folder.name}.lock"), "another process is preparing this data"):
            if not (folder / "store.json").exists():
                shutil.rmtree(work, ignore_errors=True)  # left by a process that was killed
                work.mkdir()
                try:
                    _fill(work, data, vocab_size, mirror, progress, tokenizer)
                    shutil.rmtree(folder, ignore_errors=True)  # remains of a folder that was only partly deleted
                    os.replace(work, folder)
                finally:
                    shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise UserError(
            f"cannot store the prepared data in {folder.parent}: {error.strerror or error}. "
            f"{'Free some disk space, or set' if full else 'Set'} $TRANSFORMER_DATA to a folder that you can write to"
        ) from error
    return PreparedData(folder)


def _fill(
    folder: Path,
    data: DataConfig,
    vocab_size: int,
    mirror: str | None,
    progress: bool,
    tokenizer: Tokenizer | None,
) -> None:
    """Clean the text, write it to the folder and sample it for the tokenizer; then read it again and tokenise it."""
    corpus = find_corpus(data.corpus)
    check_direction(data.corpus, data.direction)
    cleaner = Cleaner(data.cleaning, data.languages)
    for split in ("train", "valid", "test"):  # the test set as well, so that evaluation needs no network
        corpus.download(split, mirror)
    name = corpus.name
    counts = {"train": 0, "valid": 0}

    def clean_pairs(split: str) -> Iterator[SentencePair]:
        pairs = sentence_pairs(data.corpus, split, data.direction, mirror)
        if split != "train":
            return pairs
        pairs = islice(pairs, data.max_train_pairs)
        return cleaner.clean(_augmented(pairs, data) if data.augmentation else pairs)

    def write_sentences(split: str) -> Iterator[str]:
        """Write the pairs to text files, and yield both sentences of each."""
        source, target = (file.path.open("w", encoding="utf-8", newline="\n") for file in _text_files(folder, split))
        with source, target, progress_bar(f"{name}, {split}: reading", shown=progress, unit=" pairs") as bar:
            for pair in clean_pairs(split):
                source.write(pair[0] + "\n")
                target.write(pair[1] + "\n")
                bar.update()
                yield from pair

    sample = sample_lines(write_sentences("train"))
    cleaner.report.require_pairs(f"{name} train")
    if sum(1 for _ in write_sentences("valid")) == 0:
        raise UserError(
            f"{name} has no pairs for validation: 1 source sentence in {HOLD_OUT_EVERY} is held out for it, unless a "
            f"manifest sets hold_out_every. Add pairs (there are {cleaner.report.kept:,} for training), or describe "
            "the corpus in a MANIFEST.json with a split `valid`"
        )
    if tokenizer is None:
        tokenizer = Tokenizer.train(sample, vocab_size, data.byte_fallback)
    (folder / "tokenizer.model").write_bytes(tokenizer.model)
    del sample
    for split in counts:
        n_read = 0
        dropout, segmentations = (data.bpe_dropout, data.segmentations) if split == "train" else (0.0, 1)
        with (
            SequencesWriter(folder, f"{split}.source", len(tokenizer)) as sources,
            SequencesWriter(folder, f"{split}.target", len(tokenizer)) as targets,
            progress_bar(f"{name}, {split}: tokenising", shown=progress, unit=" pairs") as bar,
        ):
            for chunk in _chunks(read_pairs(*_text_files(folder, split)), CHUNK):
                for _ in range(segmentations):
                    source_ids, target_ids = (tokenizer.encode_all(side, dropout) for side in zip(*chunk, strict=True))
                    kept = [
                        (s, t)
                        for s, t in zip(source_ids, target_ids, strict=True)
                        if s and t and max(len(s), len(t)) <= data.max_length
                    ]
                    sources.extend([s for s, _ in kept])
                    targets.extend([t for _, t in kept])
                    counts[split] += len(kept)
                n_read += len(chunk)
                bar.update(len(chunk))
        if not counts[split]:
            raise UserError(
                f"none of the {n_read:,} {split} pairs of {name} has 1 to {data.max_length} tokens on each side"
            )
    for file in _text_files(folder, "train"):
        file.path.unlink()
    report = json.dumps(asdict(cleaner.report), ensure_ascii=False, indent=2)
    (folder / "cleaning.json").write_text(report, "utf-8")
    contents = {"format": FORMAT, "data": asdict(data), "vocab_size": vocab_size, "pairs": counts}
    contents["unused"] = count_unused_pairs(data.corpus, data.direction, mirror)
    (folder / "store.json").write_text(json.dumps(contents, indent=2), "utf-8")


def _augmented(pairs: Iterable[SentencePair], data: DataConfig) -> Iterator[SentencePair]:
    """Change each pair at random, but in the same way every time (see `augment`)."""
    random = Random(0)
    from_english = data.languages[0] == "en"
    for source, target in pairs:
        if from_english:
            yield augment(source, target, "en", data.augmentation, random)
        else:
            english, german = augment(target, source, "de", data.augmentation, random)
            yield german, english


def _text_files(folder: Path, split: str) -> tuple[TextFile, TextFile]:
    """The files for the text of a split, source and target."""
    return TextFile(folder / f"{split}.source.txt"), TextFile(folder / f"{split}.target.txt")


def _chunks(pairs: Iterable[SentencePair], size: int) -> Iterator[list[SentencePair]]:
    iterator = iter(pairs)
    while chunk := list(islice(iterator, size)):
        yield chunk
