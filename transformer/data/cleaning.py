"""Filter out sentence pairs that are useless or harmful for training, and report what was dropped.

Text that was collected from the web or from archives contains pairs with an empty side, copies in place of
translations, misaligned sentences (one side much longer than the other) and characters that were destroyed by a wrong
encoding. Some sentences are in a different language from the rest. Each filter detects one of these defects. Filters
run in the order of the fields of ``CleaningConfig``, and a pair is counted under the first one that drops it. The
remaining sentences are not changed.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from tabulate import tabulate

from transformer.data.language import check_languages, language_probability
from transformer.data.readers import SentencePair
from transformer.errors import UserError
from transformer.files import check_fields

CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0a-\x0c\x0e-\x1f\x7f-\x9f\ufffd]")
r"""Control characters (Unicode category Cc) and U+FFFD, the replacement character: signs of a wrong encoding.

U+0080 to U+009F are usually quotation marks and dashes of Windows-1252 that were decoded as Latin-1; U+FFFD replaces a
character that could not be decoded. Tab and "\r" are allowed: they are harmless white space.
"""

N_EXAMPLES = 3  # kept for each filter
MAX_EXAMPLE_LENGTH = 500  # characters per side


@dataclass(frozen=True)
class CleaningConfig:
    """Which pairs to drop. A word is any text between white space: there is no vocabulary yet.

    The defaults suit most text. For WMT14, common limits are 3 to 150 words and a ratio of 2:
    ``CleaningConfig(min_words=3, max_words=150, max_ratio=2.0)``. To use only these three filters, start from
    `NO_CLEANING`: ``dataclasses.replace(NO_CLEANING, min_words=3, max_words=150, max_ratio=2.0)``.
    """

    drop_empty: bool = True
    """Drop pairs with a side that is empty or only white space."""
    drop_control_characters: bool = True
    """Drop pairs that contain control characters (except tab and carriage return) or the replacement character."""
    min_words: int = 0
    """Drop pairs with fewer words than this on either side; 0: no limit."""
    max_words: int = 250
    """Drop pairs with more words than this on either side; 0: no limit."""
    max_ratio: float = 3.0
    """Drop pairs whose sides differ in number of words by more than this factor; 0: no limit."""
    drop_identical: bool = True
    """Drop pairs whose two sides are the same, apart from white space."""
    min_language_probability: float = 0.0
    """Drop pairs with a side whose estimated probability of being in its language is less than this; 0: no limit."""
    drop_duplicates: bool = True
    """Drop pairs that occurred before."""

    def __post_init__(self) -> None:
        check_fields(self, "data.cleaning")
        for name in ("min_words", "max_words"):
            if getattr(self, name) < 0:
                raise UserError(f"data.cleaning.{name} must not be negative; got {getattr(self, name)}")
        if 0 < self.max_words < self.min_words:
            raise UserError(
                "data.cleaning.min_words must not be greater than data.cleaning.max_words; "
                f"got {self.min_words} and {self.max_words}"
            )
        if self.max_ratio != 0 and not 1 <= self.max_ratio < float("inf"):
            raise UserError(f"data.cleaning.max_ratio must be 0 (no limit) or at least 1; got {self.max_ratio}")
        if not 0 <= self.min_language_probability < 1:
            raise UserError(
                "data.cleaning.min_language_probability must be at least 0 and less than 1; "
                f"got {self.min_language_probability}"
            )


NO_CLEANING = CleaningConfig(
    drop_empty=False,
    drop_control_characters=False,
    min_words=0,
    max_words=0,
    max_ratio=0.0,
    drop_identical=False,
    min_language_probability=0.0,
    drop_duplicates=False,
)
"""All filters are off."""


@dataclass
class CleaningReport:
    """How many pairs were read, kept and dropped. Filters that are off are not listed."""

    settings: dict[str, Any]
    """The setting of each filter that is on, by the name of its field in `CleaningConfig`."""
    seen: int = 0
    """Number of pairs read."""
    kept: int = 0
    """Number of pairs that no filter dropped."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Number of pairs that each filter dropped."""
    examples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The first pairs that each filter dropped: ``source``, ``target``, and ``line``, which counts the pairs read."""

    def table(self, width: int = 60) -> str:
        """Format the report as a table, with an example pair for each filter, each side cut to ``width / 2``."""
        counts = {**self.dropped, "total": self.seen - self.kept}
        rows = [
            [_row_name(name, self.settings.get(name)), count, _percentage(count, self.seen), self._example(name, width)]
            for name, count in counts.items()
        ]
        headers = ["filter", "dropped", "share", "example"]
        return tabulate(rows, headers, intfmt=",", colalign=("left", "right", "right", "left"), disable_numparse=[0, 3])

    def summary(self) -> str:
        """Format the report as one line, without examples."""
        filters = ", ".join(
            f"{_row_name(n, self.settings[n])}: {count:,}" for n, count in self.dropped.items() if count
        )
        return f"kept {self.kept:,} of {self.seen:,} pairs" + (f"; dropped by {filters}" if filters else "")

    def require_pairs(self, name: str) -> None:
        """Check that some pairs are left.

        Args:
            name: what the text is called in the error message.

        Raises:
            UserError: if no pair was kept; the message lists how many pairs each filter dropped.
        """
        if self.kept == 0:
            raise UserError(
                f"{name} has no sentence pairs to train on: {self.summary() if self.seen else 'it is empty'}"
            )

    def _example(self, name: str, width: int) -> str:
        if not self.examples.get(name):
            return ""
        first = self.examples[name][0]
        return f"pair {first['line']}: {_cut(first['source'], width // 2)} | {_cut(first['target'], width // 2)}"


class Cleaner:
    """Filter a stream of pairs, and count in ``report`` what was dropped. It may clean several texts in sequence.

    Duplicates are recognised by a 64-bit hash of each pair kept so far; 4.5 million hashes take 0.35 GB of memory
    (measured with CPython 3.11). Among six million different pairs, the probability that any two have the same hash, so
    that one of them is dropped by mistake, is one in a million.

    Args:
        config: which pairs to drop.
        languages: the codes of the source language and the target language.

    Raises:
        UserError: if languages are to be identified and one of the two is unknown.
    """

    def __init__(self, config: CleaningConfig, languages: tuple[str, str] = ("en", "de")) -> None:
        if config.min_language_probability:
            check_languages(languages)
        self.config = config
        self.languages = languages
        settings = {name: setting for name, setting in asdict(config).items() if setting}
        self.report = CleaningReport(settings, dropped=dict.fromkeys(settings, 0))
        self._hashes: set[int] = set()

    def clean(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """Yield the pairs that pass all filters, in the original order."""
        report = self.report
        for source, target in pairs:
            report.seen += 1
            dropped_by = self._first_filter(source, target)
            if dropped_by is None:
                report.kept += 1
                yield source, target
                continue
            report.dropped[dropped_by] += 1
            examples = report.examples.setdefault(dropped_by, [])
            if len(examples) < N_EXAMPLES:
                cut_source, cut_target = source[:MAX_EXAMPLE_LENGTH], target[:MAX_EXAMPLE_LENGTH]
                examples.append({"line": report.seen, "source": cut_source, "target": cut_target})

    def _first_filter(self, source: str, target: str) -> str | None:
        """The name of the first filter that drops the pair, or None."""
        config = self.config
        source_words, target_words = source.split(), target.split()
        shorter, longer = sorted((len(source_words), len(target_words)))
        if config.drop_empty and shorter == 0:
            return "drop_empty"
        if config.drop_control_characters and (CONTROL_CHARACTERS.search(source) or CONTROL_CHARACTERS.search(target)):
            return "drop_control_characters"
        if shorter < config.min_words:
            return "min_words"
        if 0 < config.max_words < longer:
            return "max_words"
        if config.max_ratio and longer and (shorter == 0 or longer / shorter > config.max_ratio):
            return "max_ratio"
        if config.drop_identical and source_words == target_words:
            return "drop_identical"
        if config.min_language_probability:
            probabilities = map(language_probability, (source, target), self.languages)
            if any(probability < config.min_language_probability for probability in probabilities):
                return "min_language_probability"
        if config.drop_duplicates:
            pair_hash = hash((source, target))
            if pair_hash in self._hashes:
                return "drop_duplicates"
            self._hashes.add(pair_hash)
        return None


def _row_name(name: str, setting: Any) -> str:
    return name if setting is None or setting is True else f"{name}={setting:g}"


def _percentage(count: int, total: int) -> str:
    return f"{count / total:.2%}" if total else ""


def printable(text: str) -> str:
    """Replace unprintable characters with their escape codes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _cut(text: str, width: int) -> str:
    visible = printable(text.strip())
    return visible if len(visible) <= width else visible[: width - 1] + "…"
