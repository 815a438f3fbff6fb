"""The manifest of a corpus: a JSON file that lists the texts of each split, and the files to download for them.

For example::

    {
      "languages": ["en", "de"],
      "base_urls": ["https://example.org/corpus"],
      "files": {"train.tgz": {"digest": "sha256:…", "size": 123456}},
      "splits": {
        "train": [{"en": "train.tgz:train.en", "de": "train.tgz:train.de"}],
        "valid": [{"en": "valid.tsv:1", "de": "valid.tsv:2"}]
      }
    }
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

from transformer.errors import UserError, quote
from transformer.files import convert

LINE = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+"

# Kinds of text: a pattern, and what it means, for messages.
Line = Annotated[str, LINE, "one line of text without control characters"]
Text = Annotated[str, r"[^\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]*", "text without tabs and other control characters"]
Url = Annotated[str, f"https?://{LINE}", "an address that begins with https:// or http://"]
FileName = Annotated[
    str,
    r"\w[\w+-]*(\.[\w+-]+)*",
    "the name of a file, with letters, digits, _, + and -, and single dots between them",
]
Digest = Annotated[
    str, "sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}", "sha256: and 64, or md5: and 32 lowercase hexadecimal digits"
]
SplitName = Annotated[str, "[a-z][a-z0-9_]*", "a name of lowercase letters, digits and _ that begins with a letter"]
Language = Annotated[str, "[a-z]{2,3}", "two or three lowercase letters, such as en"]

MAX_HOLD_OUT_EVERY = 10**6


@dataclass(frozen=True)
class ManifestFile:
    """A file to download."""

    digest: Digest
    """Checksum: ``sha256:`` or ``md5:``, then lowercase hexadecimal digits."""
    path: Line = ""
    """Path below the base URLs; by default, the name of the file."""
    size: int | None = None
    """Size in bytes, if known."""

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 0:
            raise UserError(f"size must not be negative; got {self.size}")


@dataclass(frozen=True)
class Manifest:
    """The validated contents of a manifest."""

    languages: tuple[Language, Language]
    """Codes of the two languages, two or three lowercase letters each."""
    splits: dict[SplitName, list[dict[Language, Line]]]
    """The texts of ``train`` and, optionally, of ``valid``, ``test`` and other splits.

    A split is a list of parts that are read one after another. A part maps each language to the location of its text:
    ``FILE``, ``ARCHIVE:MEMBER`` or ``FILE.tsv:COLUMN``.
    """
    files: dict[FileName, ManifestFile] = field(default_factory=dict)
    """The files to download, by name. Other files are looked up relative to the manifest's folder."""
    base_urls: list[Url] = field(default_factory=list)
    """Where to download the files, in order of preference."""
    hold_out_every: int | None = None
    """If there is no ``valid`` or ``test``, one training sentence in this many is held out for it.

    None: one in 20. If that is more than about 2,000, about 2,000 of them become the split and the others are left out
    of all splits: this way, a test sentence never becomes a training sentence when the corpus grows. To use a large
    corpus completely, set it to the number of sentences / 2,000.
    """
    description: Text = ""
    licence: Text = ""
    citation: Text = ""

    def __post_init__(self) -> None:
        if self.languages[0] == self.languages[1]:
            raise UserError(f"languages must be two different languages; got {self.languages[0]} twice")
        if "train" not in self.splits:
            raise UserError("splits: train is missing")
        for name, parts in self.splits.items():
            if not parts:
                raise UserError(f"splits: {name} must not be an empty list")
            for i, part in enumerate(parts):
                if set(part) != set(self.languages):
                    expected = " and ".join(self.languages)
                    raise UserError(f"splits: {name}[{i}] must have the texts of {expected}; got {quote(part)}")
        if self.files and not self.base_urls:
            raise UserError("files: there are files to download, but no base_urls to download them from")
        if self.hold_out_every is not None and not 3 <= self.hold_out_every <= MAX_HOLD_OUT_EVERY:
            raise UserError(f"hold_out_every must be from 3 to {MAX_HOLD_OUT_EVERY:,}; got {self.hold_out_every}")

    @classmethod
    def from_json(cls, value: Any, name: str) -> "Manifest":
        """Validate a parsed JSON value.

        Args:
            value: the result of ``json.loads``.
            name: what the manifest is called in error messages.

        Raises:
            UserError: if it is not a valid manifest; the message names the field.
        """
        return convert(value, cls, f"the manifest {name}")
