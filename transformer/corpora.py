"""What text there is to learn from: where it comes from, that it is the right one, and its sentence pairs.

``pocket`` and ``copy`` are made on the spot. Corpora that are fetched are described in ``corpora.json``: where each
file lives, its checksum, and which files make which split.
"""

import hashlib
import json
import logging
import os
import random
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

import platformdirs

from transformer import pocket
from transformer.errors import UserError
from transformer.reading import read_lines

Direction = Literal["en-de", "de-en"]
Split = pocket.Split
Pairs = list[tuple[str, str]]
"""Sentence pairs: (source, target)."""

GENERATED = ("copy", "pocket")
"""Corpora that need no download."""

FETCHED: dict[str, dict[str, Any]] = json.loads(files("transformer").joinpath("corpora.json").read_text("utf-8"))
"""Corpora that are fetched, by name: the contents of ``corpora.json``."""

GENERATED_SIZE: dict[Split, int] = {"train": 40_000, "valid": 1_000, "test": 1_000}


def data_folder() -> Path:
    """Where downloads and prepared data are kept: $TRANSFORMER_DATA, or the platform's cache folder."""
    return Path(os.environ.get("TRANSFORMER_DATA") or platformdirs.user_cache_path("transformer-course"))


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
            list(read_lines(fetch(corpus, FETCHED[corpus]["splits"][split][side], mirror))) for side in ("en", "de")
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


def fetch(corpus: str, name: str, mirror: str | None = None) -> Path:
    """A corpus's file on this machine: from the cache, or from its home or a mirror, and then verified.

    Raises:
        UserError: if it is nowhere, or its checksum is wrong; a file that was in the cache stays as it was.
    """
    import pooch  # here, because it warns when a notebook without widgets imports it

    entry = FETCHED[corpus]
    home = str(mirror or entry["home"]).rstrip("/")
    folder = data_folder() / "downloads" / corpus
    is_folder = "://" not in home
    if is_folder and not (folder / name).exists() and not (Path(home) / name).is_file():
        raise UserError(f"there is no file {name} in the mirror {home}")
    logging.getLogger("pooch").setLevel(logging.WARNING)
    try:
        path = pooch.retrieve(
            url=f"{home}/{name}",
            known_hash=entry["sha256"][name],
            fname=name,
            path=folder,
            downloader=_copy if is_folder else pooch.HTTPDownloader(progressbar=True, timeout=30),
        )
    except ValueError as error:
        if "hash" not in str(error):
            raise
        expected = entry["sha256"][name]
        raise UserError(f"{home}/{name} is not the file it should be: its sha256 is not {expected}") from error
    except OSError as error:  # requests' exceptions are OSErrors too
        reason = str(error).splitlines()[0][:200]
        raise UserError(
            f"could not get {home}/{name} ({reason}). Get it by hand and put it at {folder / name}, or name a --mirror"
        ) from error
    return Path(path)


def _copy(url: str, output_file: str, _pooch: object) -> None:
    """What pooch calls to "download" from a folder."""
    shutil.copyfile(url, output_file)
