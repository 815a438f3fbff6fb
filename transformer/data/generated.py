"""Corpora that a program generates: the strings of ``copy`` and ``reverse``, and the sentences of ``pocket``."""

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import islice
from typing import cast

from transformer.data import pocket
from transformer.data.manifest import Manifest
from transformer.data.readers import SentencePair

GENERATED_SIZE: dict[str, int] = {"train": 40_000, "valid": 1_000, "test": 1_000}
"""Number of pairs in each split of a generated corpus; pocket-200k has five times as many for training."""


@dataclass(frozen=True)
class GeneratedCorpus:
    """A corpus that is generated and needs no download."""

    name: str
    generate: Callable[[str], Iterable[SentencePair]]
    """Returns the pairs of a split."""
    source_files: tuple[str, ...]
    """The files of the package that determine the text."""
    languages: tuple[str, str] = ("en", "de")
    splits: tuple[str, ...] = tuple(GENERATED_SIZE)
    manifests: tuple[Manifest, ...] = ()

    def download(self, split: str, mirror: str | None = None) -> None:
        """Do nothing: there is nothing to download."""

    def pairs(self, split: str, mirror: str | None = None) -> Iterator[SentencePair]:
        """Yield the pairs of a split."""
        return iter(self.generate(split))

    def fingerprint(self) -> str:
        """A hash of everything that the text depends on."""
        texts = [files("transformer.data").joinpath(name).read_text("utf-8") for name in self.source_files]
        return hashlib.sha256("".join([str(GENERATED_SIZE), *texts]).encode()).hexdigest()


def random_strings(split: str) -> list[str]:
    """Return random letters, separated by spaces, for ``copy`` and ``reverse``. No string is in two splits."""
    seen: set[str] = set()
    lines: list[str] = []
    for name in GENERATED_SIZE:
        rng = random.Random(f"copy {name}")
        lines = []
        while len(lines) < GENERATED_SIZE[name]:
            line = " ".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 12)))
            if line not in seen:
                seen.add(line)
                lines.append(line)
        if name == split:
            break
    return lines


def copy_pairs(split: str) -> list[SentencePair]:
    """Return strings that are their own translation: the smallest task that needs attention."""
    return [(line, line) for line in random_strings(split)]


def reverse_pairs(split: str) -> list[SentencePair]:
    """Return strings whose translation is their reverse: every position must attend to a different one."""
    return [(line, line[::-1]) for line in random_strings(split)]


def pocket_pairs(split: str, train_factor: int = 1) -> Iterator[SentencePair]:
    """Yield English-German pairs from the grammar of `pocket`; ``train_factor`` multiplies the number for training."""
    count = GENERATED_SIZE[split] * (train_factor if split == "train" else 1)
    for pair in islice(pocket.generate(cast(pocket.Split, split)), count):
        yield pair.source, pair.target


POCKET_FILES = ("pocket/sampler.py", "pocket/grammar.py", "pocket/lexicon.tsv")

GENERATED: dict[str, GeneratedCorpus] = {
    corpus.name: corpus
    for corpus in (
        GeneratedCorpus("pocket", pocket_pairs, POCKET_FILES),
        GeneratedCorpus("pocket-200k", partial(pocket_pairs, train_factor=5), (*POCKET_FILES, "generated.py")),
        GeneratedCorpus("copy", copy_pairs, ("generated.py",)),
        GeneratedCorpus("reverse", reverse_pairs, ("generated.py",)),
    )
}
"""The generated corpora, by name."""
