"""Corpus → cleaning → tokenizer → token store: done once, kept on disk, found again by what shaped it."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from transformer.batching import Sequences
from transformer.cleaning import OFF, Cleaner, CleaningConfig, Report
from transformer.corpora import Direction, Pairs, Split, fingerprint, load_pairs
from transformer.errors import UserError
from transformer.fetching import data_folder
from transformer.tokenizer import Tokenizer

FORMAT = 3
"""Version of the store's layout; another one is another store."""


@dataclass(frozen=True)
class DataConfig:
    """Which text a model learns from."""

    corpus: str = "pocket"
    """Name of the corpus: pocket, copy or multi30k."""
    direction: Direction = "en-de"
    """Source and target language."""
    train_pairs: int | None = None
    """Use only the first so many training pairs."""
    max_length: int = 150
    """Training pairs with more tokens than this on a side are left out; tokens of the learned vocabulary."""
    cleaning: CleaningConfig = OFF
    """Training pairs that are left out before anything is learned."""

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
    """A folder with a trained tokenizer, the tokens of each split, and the texts of validation and test."""

    folder: Path

    @property
    def tokenizer(self) -> Tokenizer:
        """The vocabulary, shared by both languages."""
        return Tokenizer.load(self.folder / "tokenizer.model")

    def tokens(self, split: Split) -> tuple[Sequences, Sequences]:
        """Sources and targets of a split, without bos and eos."""
        return Sequences.load(self.folder, f"{split}.source"), Sequences.load(self.folder, f"{split}.target")

    @property
    def cleaning(self) -> Report:
        """What cleaning did to the training pairs."""
        return Report(**json.loads((self.folder / "cleaning.json").read_text("utf-8")))

    def texts(self, split: Split) -> Pairs:
        """The sentence pairs of ``valid`` or ``test``, as they were written."""
        return [(s, t) for s, t in json.loads((self.folder / f"{split}.json").read_text("utf-8"))]


def store_folder(data: DataConfig, vocab_size: int) -> Path:
    """Where these settings' store lies, or would lie: a change in any of them, or in the corpus, is another folder."""
    key = json.dumps([FORMAT, asdict(data), vocab_size, fingerprint(data.corpus)], sort_keys=True)
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    return data_folder() / "prepared" / f"{data.corpus}-{data.direction}-{vocab_size}-{digest}"


def prepare(
    data: DataConfig, vocab_size: int, mirror: str | None = None, say: Callable[[str], None] = lambda _: None
) -> PreparedData:
    """Fetch, clean, tokenise and store a corpus, or find it done. What is half done leaves nothing behind.

    Args:
        data: which text.
        vocab_size: pieces of the vocabulary.
        mirror: a folder or address with the corpus's files.
        say: is told in a line what is going on.

    Raises:
        UserError: if the text cannot be had, nothing of it is left, or it does not carry such a vocabulary.
    """
    folder = store_folder(data, vocab_size)
    if (folder / "store.json").exists():
        return PreparedData(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".unfinished-"))
    try:
        _fill(work, data, vocab_size, mirror, say)
        try:
            os.replace(work, folder)
        except OSError:  # another process was quicker: its store is as good
            if not (folder / "store.json").exists():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return PreparedData(folder)


def _fill(folder: Path, data: DataConfig, vocab_size: int, mirror: str | None, say: Callable[[str], None]) -> None:
    counts = {}
    splits: dict[Split, Pairs] = {s: load_pairs(data.corpus, s, data.direction, mirror) for s in get_args(Split)}
    cleaner = Cleaner(data.cleaning)
    splits["train"] = list(cleaner.clean(splits["train"][: data.train_pairs]))
    cleaner.report.require_pairs(f"{data.corpus} train")
    cleaning = json.dumps(cleaner.report.as_dict(), ensure_ascii=False, indent=2)
    (folder / "cleaning.json").write_text(cleaning, "utf-8")
    say(f"{data.corpus}: learning {vocab_size} subwords from {len(splits['train'])} sentence pairs")
    tokenizer = Tokenizer.train((side for pair in splits["train"] for side in pair), vocab_size)
    (folder / "tokenizer.model").write_bytes(tokenizer.model)
    for split, pairs in splits.items():
        say(f"{data.corpus}: tokenising {split}, {len(pairs)} pairs")
        tokens = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]
        tokens = [(s, t) for s, t in tokens if s and t and max(len(s), len(t)) <= data.max_length]
        if not tokens:
            raise UserError(f"no {split} pair of {data.corpus} has 1 to {data.max_length} tokens a side")
        counts[split] = len(tokens)
        Sequences.pack([s for s, _ in tokens]).save(folder, f"{split}.source")
        Sequences.pack([t for _, t in tokens]).save(folder, f"{split}.target")
        if split != "train":
            (folder / f"{split}.json").write_text(json.dumps(pairs, ensure_ascii=False), "utf-8")
    described = {"format": FORMAT, "data": asdict(data), "vocab_size": vocab_size, "pairs": counts}
    (folder / "store.json").write_text(json.dumps(described, indent=2), "utf-8")
