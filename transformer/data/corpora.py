"""What text there is to learn from: where it comes from, that it is the right one, and its sentence pairs.

Corpora are data: ``corpora.json`` says of each which files it is fetched from, their checksums, and which of them make
which split. A corpus of your own is a manifest of the same form, or just its text. ``copy``, ``reverse`` and ``pocket``
are made on the spot.
"""

import hashlib
import json
import os
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any, cast

from transformer.data import pocket
from transformer.data.download import RemoteFile, data_folder, fetch
from transformer.data.readers import TextFile, read_pairs
from transformer.errors import UserError

Pair = tuple[str, str]
"""A sentence and its translation."""

GENERATED_SIZE: dict[str, int] = {"train": 40_000, "valid": 1_000, "test": 1_000}
"""Pairs of each split of a corpus that is made on the spot."""

HELD_OUT = 1_000
"""Pairs to hold out for ``valid``, and as many for ``test``, where a corpus names no such splits; at most one in 20."""


@dataclass(frozen=True)
class Manifest:
    """A corpus in files: what ``corpora.schema.json`` allows, with the folder of the files that are not fetched."""

    name: str
    described: dict[str, Any]
    folder: Path

    @classmethod
    def load(cls, path: Path) -> "Manifest":
        """Read a manifest of your own; what it does not list under ``files`` lies beside it.

        Raises:
            UserError: if it cannot be read, or is no manifest, saying where.
        """
        try:
            described = json.loads(path.read_text("utf-8-sig"))
            check(described, str(path))
        except OSError as error:
            raise UserError(f"cannot read the manifest {path}: {error.strerror}") from None
        except RecursionError:
            raise UserError(f"the manifest {path} has too many brackets inside one another") from None
        except ValueError as error:
            raise UserError(f"the manifest {path} is not JSON: {error}") from None
        return cls(path.stem, described, path.absolute().parent)

    @property
    def languages(self) -> tuple[str, str]:
        """The codes of its two languages."""
        first, second = self.described["languages"]
        return first, second

    @property
    def splits(self) -> list[str]:
        """Their names. ``valid`` and ``test`` are always there: held out of ``train``, if the manifest has none."""
        return list(dict.fromkeys(["train", "valid", "test", *self.described["splits"]]))

    def get(self, split: str, mirror: str | None = None) -> None:
        """Fetch the files of a split, so that it can be read without a network later."""
        for part in self.described["splits"].get(split, []):
            for text in part.values():
                self._place(text, mirror)

    def pairs(self, split: str, mirror: str | None = None) -> Iterator[Pair]:
        """The pairs of a split, in the order of ``languages``; of those held out, each is in one split only."""
        parts = self.described["splits"]
        missing = [name for name in ("valid", "test") if name not in parts]
        if split != "train" and split in parts or not missing:
            return self._read(parts[split], mirror)
        count = sum(1 for _ in self._read(parts["train"], mirror))
        every = max(20, count // HELD_OUT)

        def place(sentence: str) -> str:
            """One sentence, and whatever its translation, always goes to the same split."""
            number = int.from_bytes(hashlib.blake2b(sentence.encode(), digest_size=8).digest(), "big") % every
            return missing[number] if number < len(missing) else "train"

        return (pair for pair in self._read(parts["train"], mirror) if place(pair[0]) == split)

    def fingerprint(self) -> str:
        """A digest of all that its text depends on: the manifest, and the files that it gives no checksum of."""
        digest = hashlib.sha256(json.dumps(self.described, sort_keys=True).encode())
        places = [text for parts in self.described["splits"].values() for part in parts for text in part.values()]
        for path in dict.fromkeys(self._place(text, None).path for text in places if not self._remote(text)):
            digest.update(_digest(path))
        return digest.hexdigest()

    def _read(self, parts: list[dict[str, str]], mirror: str | None) -> Iterator[Pair]:
        for part in parts:
            source, target = (self._place(part[language], mirror) for language in self.languages)
            yield from read_pairs(source, target)

    def _remote(self, text: str) -> dict[str, Any] | None:
        return self.described.get("files", {}).get(text.partition(":")[0])

    def _place(self, text: str, mirror: str | None) -> TextFile:
        name, _, inside = text.partition(":")
        remote = self._remote(text)
        if remote is None:
            whole = self.folder / os.path.expanduser(text)
            if whole.is_file():  # a name with a colon in it
                return TextFile(whole)
            if text.rpartition(":")[2].isdecimal():  # a column; what is before may have colons
                name, _, inside = text.rpartition(":")
            return TextFile(self.folder / os.path.expanduser(name), inside)
        addresses = tuple(f"{home.rstrip('/')}/{remote.get('path', name)}" for home in self.described["homes"])
        file = RemoteFile(name, addresses, remote["digest"], remote.get("size"))
        return TextFile(fetch(file, data_folder() / "downloads" / self.name, mirror), inside)


@dataclass(frozen=True)
class Generated:
    """A corpus made on the spot."""

    name: str
    make: Callable[[str], Iterable[Pair]]
    """The pairs of a split."""
    sources: tuple[str, ...]
    """The package's files that its text depends on."""
    languages: tuple[str, str] = ("en", "de")
    splits: tuple[str, ...] = tuple(GENERATED_SIZE)

    def get(self, split: str, mirror: str | None = None) -> None:
        """There is nothing to fetch."""

    def pairs(self, split: str, mirror: str | None = None) -> Iterator[Pair]:
        """The pairs of a split."""
        return iter(self.make(split))

    def fingerprint(self) -> str:
        """A digest of all that its text depends on."""
        texts = [files("transformer.data").joinpath(name).read_text("utf-8") for name in self.sources]
        return hashlib.sha256("".join([str(GENERATED_SIZE), *texts]).encode()).hexdigest()


Corpus = Manifest | Generated


def find_corpus(name: str) -> Corpus:
    """A corpus by its name, or one of your own.

    Args:
        name: ``pocket``, ``pocket-200k``, ``copy``, ``reverse`` or a name in ``corpora.json``; or the path of a
            manifest (``.json``); or of a text: a table (English, a tab, German), or two files with a comma between
            them.

    Raises:
        UserError: if there is none of this name, or its manifest is none.
    """
    if name in GENERATED:
        return GENERATED[name]
    if name in built_in():
        return Manifest(name, built_in()[name], Path())
    if name.endswith(".json"):
        return Manifest.load(Path(os.path.expanduser(name)))
    if os.path.isfile(os.path.expanduser(name)):
        english, german = f"{name}:1", f"{name}:2"
    elif "," in name:
        english, german = name.split(",", 1)
    else:
        known = ", ".join([*GENERATED, *built_in()])
        raise UserError(
            f"there is no corpus {name!r}; there are {known}, and your own: MANIFEST.json, TABLE.tsv or TEXT.en,TEXT.de"
        )
    own = {"languages": ["en", "de"], "splits": {"train": [{"en": english, "de": german}]}}
    return Manifest("own", own, Path.cwd())


def sentence_pairs(corpus: str, split: str, direction: str = "en-de", mirror: str | None = None) -> Iterator[Pair]:
    """The sentence pairs of one split, (source, target), one at a time.

    Args:
        corpus: as in `find_corpus`.
        split: ``train``, ``valid``, ``test``, or another that the corpus has.
        direction: the source's language and the target's.
        mirror: a folder or address that holds the corpus's files, instead of their public home.

    Raises:
        UserError: at once, if there is no such corpus, split or direction; while reading, if a file cannot be had, is
            not the right one, or is not what it should be.
    """
    found = find_corpus(corpus)
    first, second = found.languages
    directions = [f"{first}-{second}", f"{second}-{first}"]
    if direction not in directions:
        raise UserError(f"the direction of {found.name} must be {' or '.join(directions)}; got {direction!r}")
    if split not in found.splits:
        raise UserError(f"{found.name} has no split {split!r}; it has {', '.join(found.splits)}")
    pairs = found.pairs(split, mirror)
    return pairs if direction == directions[0] else ((target, source) for source, target in pairs)


def strings(split: str) -> list[str]:
    """Letters with spaces between them, for `copy` and `reverse`. No string is in two splits."""
    seen: set[str] = set()
    lines: list[str] = []
    for name in GENERATED_SIZE:
        chance = random.Random(f"copy {name}")
        lines = []
        while len(lines) < GENERATED_SIZE[name]:
            line = " ".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 12)))
            if line not in seen:
                seen.add(line)
                lines.append(line)
        if name == split:
            break
    return lines


def copy_pairs(split: str) -> list[Pair]:
    """Letters that translate to themselves: the smallest task that needs attention."""
    return [(line, line) for line in strings(split)]


def reverse_pairs(split: str) -> list[Pair]:
    """Letters that translate to themselves backwards: a task in which every place looks at another place."""
    return [(line, line[::-1]) for line in strings(split)]


def pocket_pairs(split: str, times: int = 1) -> Iterator[Pair]:
    """English and German by the grammar of `pocket`; ``times`` as many pairs as usual to train on."""
    count = GENERATED_SIZE[split] * (times if split == "train" else 1)
    for pair in islice(pocket.endless(cast(pocket.Split, split)), count):
        yield pair.source, pair.target


POCKET_FILES = ("pocket/sampler.py", "pocket/grammar.py", "pocket/lexicon.tsv")

GENERATED: dict[str, Generated] = {
    corpus.name: corpus
    for corpus in (
        Generated("pocket", pocket_pairs, POCKET_FILES),
        Generated("pocket-200k", partial(pocket_pairs, times=5), (*POCKET_FILES, "corpora.py")),
        Generated("copy", copy_pairs, ("corpora.py",)),
        Generated("reverse", reverse_pairs, ("corpora.py",)),
    )
}
"""Corpora that need no download, by name."""


@cache
def built_in() -> dict[str, dict[str, Any]]:
    """Corpora that are fetched, by name: the contents of ``corpora.json``."""
    described: dict[str, dict[str, Any]] = json.loads(
        files("transformer.data").joinpath("corpora.json").read_text("utf-8")
    )
    return described


def check(described: Any, name: str) -> None:
    """Hold a manifest against ``corpora.schema.json``.

    Raises:
        UserError: if it does not fit, saying where and why; ``name`` is what it is called.
    """
    import jsonschema  # here, because it takes long to import

    schema = json.loads(files("transformer.data").joinpath("corpora.schema.json").read_text("utf-8"))
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(described))
    if error is not None:
        where = " ".join(error.json_path.split())  # a key may have line ends
        what = error.message if len(error.message) < 300 else f"{error.message[:100]} … {error.message[-180:]}"
        raise UserError(f"the manifest {name} has a mistake at {where}: {what}")
    languages = set(described["languages"])
    for split, parts in described["splits"].items():
        for part in parts:
            if set(part) != languages:
                raise UserError(f"the manifest {name}: each part of {split} must name a file for {sorted(languages)}")
    if described.get("files") and not described.get("homes"):
        raise UserError(f"the manifest {name} has files, but no homes to fetch them from")


def _digest(path: Path) -> bytes:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except (OSError, ValueError) as error:  # ValueError: of a name that no file can have
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from None
    return digest.digest()
