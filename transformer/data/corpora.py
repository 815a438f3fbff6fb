"""Corpora of sentence pairs by name: where they come from, how they are downloaded and verified, and how they are read.

Most corpora are described by a `Manifest`: those of ``corpora.json``, and your own. Your own text may also be given
without a manifest. The `generated` corpora need no files; ``everyday`` combines three others.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

from transformer.data.download import RemoteFile, data_folder, fetch
from transformer.data.generated import GENERATED, GeneratedCorpus
from transformer.data.manifest import Manifest
from transformer.data.readers import SentencePair, TextFile, read_lines, read_pairs
from transformer.errors import UserError, quote
from transformer.files import file_hash, parse_json, read_text

HOLD_OUT_EVERY = 20
"""If a corpus lacks ``valid`` or ``test``, one sentence in this many is held out of ``train`` for it."""
MAX_HELD_OUT = 2_000
"""Approximate upper limit on the number of sentences in such a split, unless ``hold_out_every`` is set.

Sentences held out beyond that are in no split: nearly a tenth of a large corpus."""

OWN_TEXT = "TABLE.tsv (English, a tab, German), TEXT.en,TEXT.de or MANIFEST.json"
"""The forms of your own text, for messages."""
LANGUAGE_CODE = re.compile(r"(?:^|[./:])(?!gz)([a-z]{2})(?:\.txt)?(?:\.gz)?\Z")
"""The language code at the end of a file name."""


@dataclass(frozen=True)
class FileCorpus:
    """A corpus that is read from files, as described by a manifest."""

    name: str
    manifest: Manifest
    folder: Path
    """The folder of the files that are not downloaded."""

    @classmethod
    def load(cls, path: Path) -> "FileCorpus":
        """Read a manifest of your own. Files that it does not list under ``files`` are looked up in its folder.

        Raises:
            UserError: if it cannot be read or is not a valid manifest.
        """
        manifest = Manifest.from_json(parse_json(read_text(path, "the manifest"), f"the manifest {path}"), str(path))
        return cls(path.stem, manifest, path.absolute().parent)

    @property
    def languages(self) -> tuple[str, str]:
        """The codes of the two languages."""
        return self.manifest.languages

    @property
    def manifests(self) -> list[Manifest]:
        """The manifest, with the description, the licence and the citation of the corpus."""
        return [self.manifest]

    @property
    def splits(self) -> list[str]:
        """The names of the splits. If the manifest has no ``valid`` or ``test``, they are held out of ``train``."""
        return list(dict.fromkeys(["train", "valid", "test", *self.manifest.splits]))

    def download(self, split: str, mirror: str | None = None) -> None:
        """Download the files of a split, so that it can be read without a network later."""
        for part in self.manifest.splits.get(split, self.manifest.splits["train"]):
            for location in part.values():
                self._text_file(location, mirror)

    def pairs(self, split: str, mirror: str | None = None, source: int = 0) -> Iterator[SentencePair]:
        """Yield the pairs of a split, in the order of ``languages``.

        Args:
            split: the name of the split.
            mirror: as in `sentence_pairs`.
            source: which of the two languages is the source. If splits are held out of ``train``, no source sentence
                is in two of them.
        """
        splits = self.manifest.splits
        if split != "train" and split in splits or not self._missing:
            return self._read(splits[split], mirror)
        split_of = self._choose_splits(mirror)
        return (pair for pair in self._read(splits["train"], mirror) if split_of(pair[source]) == split)

    def n_unused(self, mirror: str | None = None, source: int = 0) -> int:
        """Return the number of pairs in no split, because more than `MAX_HELD_OUT` would be held out for one.

        The arguments are those of `pairs`.
        """
        if self.manifest.hold_out_every or not self._missing:
            return 0
        split_of = self._choose_splits(mirror)
        return sum(split_of(pair[source]) is None for pair in self._read(self.manifest.splits["train"], mirror))

    @property
    def _missing(self) -> list[str]:
        """The splits that are held out of ``train``, because the manifest has none of their name."""
        return [name for name in ("valid", "test") if name not in self.manifest.splits]

    def _choose_splits(self, mirror: str | None) -> Callable[[str], str | None]:
        """Return a function that divides ``train``: it returns the split of a source sentence."""
        missing = self._missing
        every = self.manifest.hold_out_every or HOLD_OUT_EVERY
        n_pairs = sum(1 for _ in self._read(self.manifest.splits["train"], mirror))
        # A held-out sentence is kept if its hash modulo n_pairs is below this, so that about MAX_HELD_OUT stay.
        kept_below = n_pairs if self.manifest.hold_out_every else MAX_HELD_OUT * every

        def split_of(sentence: str) -> str | None:
            """Return the split of a source sentence with all its translations; None: it is in no split.

            Whether it is held out of ``train`` depends only on its hash, so no training sentence moves to a
            held-out split when the corpus grows. If more than `MAX_HELD_OUT` sentences would be held out for a split,
            about that many of them are chosen by their hash, and the others are discarded: a smaller version of the
            corpus may have had them in its test set, and a larger one may have them in it again.
            """
            digest = int.from_bytes(hashlib.blake2b(sentence.encode(), digest_size=8).digest(), "big")
            rest, bucket = divmod(digest, every)
            if bucket >= len(missing):
                return "train"
            return missing[bucket] if rest % n_pairs < kept_below else None

        return split_of

    def fingerprint(self) -> str:
        """A hash of everything that the text depends on: the manifest, and all files without a checksum in it.

        It doesn't depend on where the files are downloaded from, nor on the corpus's description and licence.

        Raises:
            UserError: if one of these files cannot be read.
        """
        manifest = self.manifest
        facts = {
            "languages": manifest.languages,
            "splits": manifest.splits,
            "files": {name: file.digest for name, file in manifest.files.items()},
            "hold_out_every": manifest.hold_out_every if self._missing else None,
        }
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
        parts = [part for parts in manifest.splits.values() for part in parts]
        locations = [location for part in parts for location in part.values() if not self._is_remote(location)]
        local = [self._text_file(location, None).path for location in locations]
        for path in dict.fromkeys(local):
            digest.update(_file_digest(path))
        return digest.hexdigest()

    def _read(self, parts: list[dict[str, str]], mirror: str | None) -> Iterator[SentencePair]:
        for part in parts:
            source, target = (self._text_file(part[language], mirror) for language in self.languages)
            yield from read_pairs(source, target)

    def _is_remote(self, location: str) -> bool:
        return location.partition(":")[0] in self.manifest.files

    def _text_file(self, location: str, mirror: str | None) -> TextFile:
        """Return the file of a text by its location in the manifest; download it first if necessary."""
        name, _, selector = location.partition(":")
        if self._is_remote(location):
            file = self.manifest.files[name]
            urls = tuple(f"{base.rstrip('/')}/{file.path or name}" for base in self.manifest.base_urls)
            remote = RemoteFile(name, urls, file.digest, file.size)
            return TextFile(fetch(remote, data_folder() / "downloads" / self.name, mirror), selector)
        return TextFile.parse(location, self.folder)


@dataclass(frozen=True)
class CombinedCorpus:
    """Several corpora that are used as one.

    Training pairs are left out if either of their sentences also occurs in ``valid`` or ``test`` of any of the corpora,
    so that no test sentence was seen in training. Sentences that differ only in capitals and punctuation count as
    equal. Of identical training pairs only the first is kept, before ``repeats`` is applied.
    """

    name: str
    parts: tuple[FileCorpus, ...]
    """The corpora, all with the same languages."""
    repeats: tuple[int, ...]
    """How many times ``train`` contains each of them, to give small ones more weight."""

    @property
    def languages(self) -> tuple[str, str]:
        """The codes of the two languages."""
        return self.parts[0].languages

    @property
    def manifests(self) -> list[Manifest]:
        """The manifests of the parts."""
        return [part.manifest for part in self.parts]

    @property
    def splits(self) -> list[str]:
        """The names of the splits: those of all parts together, and the test set of each part."""
        return ["train", "valid", "test", *(f"test_{part.name}" for part in self.parts)]

    def download(self, split: str, mirror: str | None = None) -> None:
        """Download what is needed to read a split; for ``train``, this includes ``valid`` and ``test``."""
        needed = ("train", "valid", "test") if split == "train" else (split.partition("_")[0],)
        for part in self._parts_of(split):
            for name in needed:
                part.download(name, mirror)

    def pairs(self, split: str, mirror: str | None = None) -> Iterator[SentencePair]:
        """Yield the pairs of a split, one part after another."""
        if split != "train":
            return self._concatenated(split, mirror)
        held_out = chain(self._concatenated("valid", mirror), self._concatenated("test", mirror))
        keys = {matching_key(sentence) for pair in held_out for sentence in pair}
        return self._training_pairs(keys, mirror)

    def fingerprint(self) -> str:
        """A hash of everything that the text depends on."""
        return hashlib.sha256(
            "".join([*(part.fingerprint() for part in self.parts), str(self.repeats)]).encode()
        ).hexdigest()

    def _training_pairs(self, held_out: set[str], mirror: str | None) -> Iterator[SentencePair]:
        """Yield all distinct pairs without a held-out sentence, each as often as its part is repeated."""
        seen: set[SentencePair] = set()
        for part, times in zip(self.parts, self.repeats, strict=True):
            pairs = [pair for pair in part.pairs("train", mirror) if held_out.isdisjoint(map(matching_key, pair))]
            new = [pair for pair in dict.fromkeys(pairs) if pair not in seen]
            seen.update(new)
            yield from new * times

    def _parts_of(self, split: str) -> list[FileCorpus]:
        return [part for part in self.parts if split in ("train", "valid", "test", f"test_{part.name}")]

    def _concatenated(self, split: str, mirror: str | None) -> Iterator[SentencePair]:
        return chain.from_iterable(part.pairs(split.partition("_")[0], mirror) for part in self._parts_of(split))


def matching_key(sentence: str) -> str:
    """Return the words of a sentence without capitals and punctuation, to find sentences that occur twice."""
    return re.sub(r"[\W_]+", " ", sentence.casefold()).strip()


Corpus = FileCorpus | GeneratedCorpus | CombinedCorpus


def is_built_in(name: str) -> bool:
    """Return whether a corpus comes with the course, so that its text never changes, and is not the user's own."""
    return name in GENERATED or name in COMBINED or name in corpus_manifests()


def absolute_name(name: str) -> str:
    """Return the name of a corpus so that it means the same in every folder: with absolute paths, if it has paths."""
    if is_built_in(name):
        return name
    is_file = os.path.isfile(os.path.expanduser(name))
    parts = [name] if is_file or "," not in name else two_files(name)
    if not (is_file or len(parts) == 2 or os.sep in name or name.endswith((".json", ".tsv", ".gz"))):
        return name  # a misspelt name, which `find_corpus` explains
    return ",".join(os.path.abspath(os.path.expanduser(part)) for part in parts)


def two_files(name: str) -> tuple[str, str]:
    """Split the name of a corpus of two files at the comma between them; their own names may also have commas.

    Raises:
        UserError: if these are not two names.
    """
    splits = [(name[:i], name[i + 1 :]) for i, character in enumerate(name) if character == ","]
    stripped = [(first.strip(), second.strip()) for first, second in splits]
    for pair in splits + stripped:
        if all(os.path.isfile(TextFile.parse(file).path) for file in pair):
            return pair
    middle = stripped[len(stripped) // 2]  # both names have the same number of commas, such as those of their folder
    if len(stripped) % 2 == 0 or not all(middle):
        raise UserError(f"{quote(name)} does not name two files: your own text must be {OWN_TEXT}")
    return middle


def languages_of(first: str, second: str) -> tuple[str, str]:
    """Return the languages of two files: the codes that their names end in, or else English and German.

    Raises:
        UserError: if the names contradict each other or this order, or if it is the same file twice.
    """
    source, target = (match and match[1] for match in map(LANGUAGE_CODE.search, (first, second)))
    if source and target and source != target:
        return source, target
    if source in (None, "en") and target in (None, "de") and TextFile.parse(first) != TextFile.parse(second):
        return "en", "de"
    raise UserError(
        f"the languages of {first} and {second} are unclear: give two different files, both named by language, as in "
        "TEXT.en,TEXT.de"
    )


def own_corpus_sha256(name: str) -> str | None:
    """Return a hash of your own text, to detect whether it has changed; None for a built-in corpus.

    Raises:
        UserError: if there is no such corpus, or its files cannot be read.
    """
    return None if is_built_in(name) else find_corpus(name).fingerprint()


def find_corpus(name: str) -> Corpus:
    """Look up a corpus by name, or open your own.

    Args:
        name: one of

            - ``pocket``, ``pocket-200k``, ``copy``, ``reverse``, ``everyday`` or a name in ``corpora.json``;
            - the path of a manifest (``.json``);
            - the path of a table with a sentence pair per line: English, a tab, German;
            - the paths of two files, separated by a comma, that are named by language, as in ``news.en,news.fr``;
              if their names don't end in such codes, they are English and German. They are not opened here, so they
              need not exist yet.

    Raises:
        UserError: if there is no such corpus, its manifest is not valid, or the languages of two files are unclear.
    """
    if name in GENERATED:
        return GENERATED[name]
    if name in COMBINED:
        parts, repeats = zip(*COMBINED[name].items(), strict=True)
        return CombinedCorpus(name, tuple(map(_file_corpus, parts)), repeats)
    if name in corpus_manifests():
        return _file_corpus(name)
    if name.endswith(".json"):
        return FileCorpus.load(Path(os.path.expanduser(name)))
    languages = ("en", "de")
    path = Path(os.path.expanduser(name))
    if os.path.isfile(path):
        if not name.endswith((".tsv", ".tsv.gz")) and "\t" not in next(read_lines(path), "\t"):
            raise UserError(f"there is no tab in line 1 of {name}: your own text must be {OWN_TEXT}")
        first, second = f"{name}:1", f"{name}:2"
    elif "," in name:
        first, second = two_files(name)
        languages = languages_of(first, second)
    elif os.sep in name and os.path.isdir(path):
        raise UserError(f"{name} is a folder: your own text must be {OWN_TEXT}")
    elif name.endswith((".tsv", ".gz")) or os.sep in name:
        raise UserError(f"cannot read {name}: no such file")
    else:
        known = ", ".join([*GENERATED, *corpus_manifests(), *COMBINED])
        raise UserError(f"there is no corpus {quote(name)}; choose one of {known}, or your own text: {OWN_TEXT}")
    manifest = Manifest(languages, {"train": [{languages[0]: first, languages[1]: second}]})
    return FileCorpus(Path(first.removesuffix(":1")).stem, manifest, Path.cwd())


def sentence_pairs(
    name: str, split: str, direction: str = "en-de", mirror: str | None = None
) -> Iterator[SentencePair]:
    """Yield the sentence pairs of a split, (source, target).

    Args:
        name: the name or path of a corpus, as in `find_corpus`.
        split: ``train``, ``valid``, ``test``, or another split of the corpus.
        direction: the language of the source, a hyphen, and the language of the target.
        mirror: a folder or URL that contains the files of the corpus, used instead of the corpus's own URLs.

    Raises:
        UserError: immediately if there is no such corpus, split or direction; during iteration if a file cannot be
            downloaded or read.
    """
    check_direction(name, direction)
    corpus = find_corpus(name)
    if split not in corpus.splits:
        raise UserError(f"{corpus.name} has no split {quote(split)}; its splits are {', '.join(corpus.splits)}")
    source = corpus.languages.index(direction.partition("-")[0])
    pairs = corpus.pairs(split, mirror, source) if isinstance(corpus, FileCorpus) else corpus.pairs(split, mirror)
    return pairs if source == 0 else ((target, source) for source, target in pairs)


def count_unused_pairs(name: str, direction: str = "en-de", mirror: str | None = None) -> int:
    """Return how many pairs of a corpus are in no split: see `MAX_HELD_OUT`. The arguments are as in `sentence_pairs`.

    Raises:
        UserError: if there is no such corpus or direction, or a file cannot be downloaded or read.
    """
    check_direction(name, direction)
    corpus = find_corpus(name)
    source = corpus.languages.index(direction.partition("-")[0])
    return corpus.n_unused(mirror, source) if isinstance(corpus, FileCorpus) else 0


def check_direction(name: str, direction: str) -> None:
    """Check that a corpus can be translated in this direction.

    Raises:
        UserError: if there is no such corpus, or it has other languages.
    """
    corpus = find_corpus(name)
    first, second = corpus.languages
    directions = [f"{first}-{second}", f"{second}-{first}"]
    if direction not in directions:
        if is_built_in(name) or name.endswith(".json"):
            hint = ""
        elif os.path.isfile(os.path.expanduser(name)):
            hint = "; for other languages, write a MANIFEST.json"
        else:
            hint = "; set data.direction, or name the files by language, as in TEXT.en,TEXT.fr"
        problem = f"the direction of {corpus.name} must be {' or '.join(directions)}; got {quote(direction)}"
        raise UserError(problem + hint)


COMBINED: dict[str, dict[str, int]] = {"everyday": {"tatoeba": 1, "multi30k": 1, "phrasebook": 3}}
"""The combined corpora, by name, and how often each of their parts is in the training data."""


@cache
def corpus_manifests() -> dict[str, dict[str, Any]]:
    """Return the manifests of the corpora that consist of files, by name: the contents of ``corpora.json``."""
    manifests: dict[str, dict[str, Any]] = json.loads(
        files("transformer.data").joinpath("corpora.json").read_text("utf-8")
    )
    return manifests


def _file_corpus(name: str) -> FileCorpus:
    return FileCorpus(name, Manifest.from_json(corpus_manifests()[name], name), Path(__file__).parent)


def _file_digest(path: Path) -> bytes:
    if os.path.exists(path) and not os.path.isfile(path):
        raise UserError(f"cannot read {path}: it is not a file, but a corpus is read several times")
    try:
        return bytes.fromhex(file_hash(path))
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from None
