"""What text there is to learn from: where it comes from, that it is the right one, and its sentence pairs.

``pocket`` and ``copy`` are made on the spot. Corpora that are fetched are described in ``corpora.json``: where each
file lives, its checksum, and which files make which split.
"""

import gzip
import hashlib
import json
import random
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from transformer import pocket
from transformer.errors import UserError
from transformer.fetching import RemoteFile, data_folder, fetch

Direction = Literal["en-de", "de-en"]
Split = pocket.Split
Pairs = list[tuple[str, str]]
"""Sentence pairs: (source, target)."""

GENERATED = ("copy", "pocket")
"""Corpora that need no download."""

FETCHED: dict[str, dict[str, Any]] = json.loads(files("transformer").joinpath("corpora.json").read_text("utf-8"))
"""Corpora that are fetched, by name: the contents of ``corpora.json``."""

GENERATED_SIZE: dict[Split, int] = {"train": 40_000, "valid": 1_000, "test": 1_000}


def fingerprint(corpus: str) -> str:
    """A digest of what the corpus is made of: the checksums of its files, or the grammar that generates it."""
    if corpus in FETCHED:
        parts = [json.dumps(FETCHED[corpus], sort_keys=True)]
    else:
        sources = ["corpora.py"] if corpus == "copy" else ["pocket.py", "pocket_grammar.py", "pocket_lexicon.tsv"]
        parts = [str(GENERATED_SIZE), *(files("transformer").joinpath(name).read_text("utf-8") for name in sources)]
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def load_pairs(corpus: str, split: Split, direction: Direction = "en-de", mirror: str | None = None) -> Pairs:
    """The sentence pairs of one split.

    Args:
        corpus: a name from ``GENERATED`` or ``FETCHED``.
        direction: which language is the source.
        mirror: a folder or address that holds the corpus's files, instead of their public home.

    Raises:
        UserError: if there is no such corpus, or a file of it cannot be had or is not the right one.
    """
    if direction not in get_args(Direction):
        raise UserError(f"the direction must be one of {', '.join(get_args(Direction))}; got {direction!r}")
    if corpus == "copy":
        return copy_pairs(split)
    if corpus == "pocket":
        pairs = [(pair.source, pair.target) for pair in pocket.pairs(split, GENERATED_SIZE[split])]
    elif corpus in FETCHED:
        english, german = (
            read_lines(fetch(_remote_file(corpus, split, side), data_folder() / "downloads" / corpus, mirror))
            for side in ("en", "de")
        )
        if len(english) != len(german):
            raise UserError(f"{corpus} {split}: {len(english)} English lines, but {len(german)} German ones")
        pairs = list(zip(english, german, strict=True))
    else:
        raise UserError(f"there is no corpus {corpus!r}; there are {', '.join([*GENERATED, *FETCHED])}")
    return pairs if direction == "en-de" else [(german, english) for english, german in pairs]


def copy_pairs(split: Split) -> Pairs:
    """Letters that translate to themselves: the smallest task that needs attention. No string is in two splits."""
    seen: set[str] = set()
    for name in get_args(Split):
        chance = random.Random(f"copy {name}")
        lines: list[str] = []
        while len(lines) < GENERATED_SIZE[name]:
            line = " ".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 12)))
            if line not in seen:
                seen.add(line)
                lines.append(line)
        if name == split:
            return [(line, line) for line in lines]
    raise UserError(f"there is no split {split!r}; there are {', '.join(get_args(Split))}")


def _remote_file(corpus: str, split: Split, side: str) -> RemoteFile:
    entry = FETCHED[corpus]
    name = entry["splits"][split][side]
    return RemoteFile(name, (f"{entry['home']}/{name}",), f"sha256:{entry['sha256'][name]}")


def read_lines(path: Path) -> list[str]:
    r"""The lines of a text file, plain or gzipped, split at "\n" only: other line breaks occur inside sentences.

    Raises:
        UserError: if the file is not UTF-8 text, saying where.
    """
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}: line {line} is not UTF-8 (at byte {error.start})") from None
    except (OSError, EOFError) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    return text.removesuffix("\n").split("\n") if text else []
