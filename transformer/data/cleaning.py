"""Leave out sentence pairs that teach nothing or something wrong, and report what was left out.

Text collected from the web and from archives holds pairs with an empty side, copies instead of translations, wrong
alignments (one side much longer than the other) and characters that a wrong encoding destroyed. Each filter finds one
of these. A pair is charged to the first filter that drops it, in the order of ``CleaningConfig``'s fields. The
sentences themselves are never changed.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any

from tabulate import tabulate

from transformer.errors import UserError

Pair = tuple[str, str]

BROKEN = re.compile("[\x00-\x08\x0a-\x0c\x0e-\x1f\x7f-\x9f\ufffd]")
r"""Control characters (Unicode's Cc) and U+FFFD, the replacement character: each is the trace of a wrong encoding.

U+0080 to U+009F are most often quotation marks and dashes of Windows-1252 that were read as Latin-1, U+FFFD stands
where an umlaut could not be read. Two controls may stay, tab and "\r": they are white space, and harmless.
"""

EXAMPLES = 3  # kept of each filter
LONGEST_EXAMPLE = 500  # characters of a side


@dataclass(frozen=True)
class CleaningConfig:
    """Which pairs to leave out. A token is here what stands between white space: nothing is learned yet.

    The defaults suit most text. For WMT14 the limits are commonly 3 to 150 tokens and a ratio of 2:
    ``CleaningConfig(min_tokens=3, max_tokens=150, max_ratio=2)``, and those three filters alone are
    ``dataclasses.replace(OFF, min_tokens=3, max_tokens=150, max_ratio=2)``.
    """

    drop_empty: bool = True
    """Leave out pairs with a side that is empty or white space only."""
    drop_control: bool = True
    """Leave out pairs with control characters (but tab and carriage return may stay) or the replacement character."""
    min_tokens: int = 0
    """Leave out pairs with fewer tokens than this on a side; 0: no limit."""
    max_tokens: int = 250
    """Leave out pairs with more tokens than this on a side; 0: no limit."""
    max_ratio: float = 3.0
    """Leave out pairs whose longer side has more than this many times the tokens of the shorter; 0: no limit."""
    drop_identical: bool = True
    """Leave out pairs whose sides are the same, white space aside."""
    drop_duplicates: bool = True
    """Leave out pairs that were kept before."""

    def __post_init__(self) -> None:
        if self.min_tokens < 0 or self.max_tokens < 0:
            raise UserError(
                f"min_tokens and max_tokens must not be negative; got {self.min_tokens} and {self.max_tokens}"
            )
        if 0 < self.max_tokens < self.min_tokens:
            raise UserError(f"no pair has min_tokens={self.min_tokens} and max_tokens={self.max_tokens} at once")
        if self.max_ratio != 0 and not 1 <= self.max_ratio < float("inf"):
            raise UserError(f"max_ratio must be 0 (no limit) or at least 1; got {self.max_ratio}")


OFF = CleaningConfig(False, False, 0, 0, 0.0, False, False)
"""No filter at all."""


@dataclass
class CleaningReport:
    """What became of the pairs so far. The filters are those that are switched on, by the names of their fields."""

    settings: dict[str, Any]
    """Each filter's setting."""
    seen: int = 0
    """Pairs read."""
    kept: int = 0
    """Pairs that no filter dropped."""
    dropped: dict[str, int] = field(default_factory=dict)
    """How many pairs each filter dropped."""
    examples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The first pairs that each filter dropped: ``line`` (the first pair has 1), ``source`` and ``target``."""

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON; ``CleaningReport(**that)`` is the report again."""
        return asdict(self)

    def table(self, width: int = 60) -> str:
        """A table to print. Each side of an example is cut to half of ``width``."""
        counts = {**self.dropped, "in all": self.seen - self.kept}
        rows = [
            [_row_name(name, self.settings.get(name)), count, _share(count, self.seen), self._example(name, width)]
            for name, count in counts.items()
        ]
        headers = ["filter", "dropped", "share", "example"]
        return tabulate(rows, headers, intfmt=",", colalign=("left", "right", "right", "left"), disable_numparse=[0, 3])

    def summary(self) -> str:
        """The same in one line, without examples."""
        filters = ", ".join(
            f"{_row_name(n, self.settings[n])}: {count:,}" for n, count in self.dropped.items() if count
        )
        return f"{self.kept:,} of {self.seen:,} pairs are kept" + (f"; dropped by {filters}" if filters else "")

    def require_pairs(self, what: str) -> None:
        """Complain if nothing is left.

        Raises:
            UserError: if so, with what each filter dropped; ``what`` names the text.
        """
        if self.kept == 0:
            raise UserError(f"nothing of {what} is left to learn from: {self.summary()}")

    def _example(self, name: str, width: int) -> str:
        if not self.examples.get(name):
            return ""
        first = self.examples[name][0]
        return f"line {first['line']}: {_cut(first['source'], width // 2)} | {_cut(first['target'], width // 2)}"


class Cleaner:
    """Filters pairs as they pass, and counts in ``report``. It may clean several texts one after another.

    Nothing is held back but 8 bytes of a hash for each kept pair, by which duplicates are known. They lie in a database
    of its own, which goes to disk when it outgrows its 64 MB of memory. Two different pairs have the same hash with a
    chance of one in a million among six million pairs: then one good pair is lost.
    """

    def __init__(self, config: CleaningConfig) -> None:
        self.config = config
        settings = {name: setting for name, setting in asdict(config).items() if setting}
        self.report = CleaningReport(settings, dropped=dict.fromkeys(settings, 0))
        self._seen = sqlite3.connect("", isolation_level=None)  # no name: temporary
        for setting in ("journal_mode=OFF", "synchronous=OFF", f"cache_size=-{64 << 10}"):
            self._seen.execute(f"PRAGMA {setting}")
        self._seen.execute("CREATE TABLE pairs (hash INTEGER PRIMARY KEY)")
        self._seen.execute("BEGIN")  # one transaction, never ended: nothing is to be kept

    def clean(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """The pairs that every filter lets through, in their order."""
        report = self.report
        for source, target in pairs:
            report.seen += 1
            fault = self._fault(source, target)
            if fault is None:
                report.kept += 1
                yield source, target
                continue
            report.dropped[fault] += 1
            examples = report.examples.setdefault(fault, [])
            if len(examples) < EXAMPLES:
                cut_source, cut_target = source[:LONGEST_EXAMPLE], target[:LONGEST_EXAMPLE]
                examples.append({"line": report.seen, "source": cut_source, "target": cut_target})

    def _fault(self, source: str, target: str) -> str | None:
        """The filter that drops the pair."""
        config = self.config
        source_tokens, target_tokens = source.split(), target.split()
        shorter, longer = sorted((len(source_tokens), len(target_tokens)))
        if config.drop_empty and shorter == 0:
            return "drop_empty"
        if config.drop_control and (BROKEN.search(source) or BROKEN.search(target)):
            return "drop_control"
        if shorter < config.min_tokens:
            return "min_tokens"
        if 0 < config.max_tokens < longer:
            return "max_tokens"
        if config.max_ratio and longer and (shorter == 0 or longer / shorter > config.max_ratio):
            return "max_ratio"
        if config.drop_identical and source_tokens == target_tokens:
            return "drop_identical"
        if config.drop_duplicates:
            digest = blake2b(f"{len(source)} {source}{target}".encode(), digest_size=8).digest()
            number = int.from_bytes(digest, "big", signed=True)
            if self._seen.execute("INSERT OR IGNORE INTO pairs VALUES (?)", (number,)).rowcount == 0:
                return "drop_duplicates"
        return None


def _row_name(name: str, setting: Any) -> str:
    return name if setting in (None, True) else f"{name}={setting:g}"


def _share(count: int, total: int) -> str:
    return f"{count / total:.2%}" if total else ""


def printable(text: str) -> str:
    """The text, what cannot be printed written as its code."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _cut(text: str, width: int) -> str:
    """The start of a text."""
    visible = printable(text.strip())
    return visible if len(visible) <= width else visible[: width - 1] + "…"
