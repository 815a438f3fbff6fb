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

import re
from dataclasses import dataclass, field
from typing import Any

from transformer.errors import UserError, quote, shorten

DIGEST = "sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}"
LINE = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+"
URL = f"https?://{LINE}"
FILE_NAME = r"\w[\w+-]*(\.[\w+-]+)*"
TEXT = r"[^\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]*"
SPLIT_NAME = "[a-z][a-z0-9_]*"
LANGUAGE = "[a-z]{2,3}"
IN_WORDS = {
    DIGEST: "sha256: and 64, or md5: and 32 lowercase hexadecimal digits",
    LINE: "one line of text without control characters",
    URL: "an address that begins with https:// or http://",
    FILE_NAME: "the name of a file, with letters, digits, _, + and -, and single dots between them",
    TEXT: "text without tabs and other control characters",
    SPLIT_NAME: "a name of lowercase letters, digits and _ that begins with a letter",
    LANGUAGE: "two or three lowercase letters, such as en",
}
"""The patterns in words, for messages."""
MAX_SIZE = 10**15
MAX_HOLD_OUT_EVERY = 10**6


@dataclass(frozen=True)
class ManifestFile:
    """A file to download."""

    digest: str
    """Checksum: ``sha256:`` or ``md5:``, then lowercase hexadecimal digits."""
    path: str | None = None
    """Path below the base URLs; None: the name of the file."""
    size: int | None = None
    """Size in bytes, if known."""


@dataclass(frozen=True)
class Manifest:
    """The validated contents of a manifest."""

    languages: tuple[str, str]
    """Codes of the two languages, two or three lowercase letters each."""
    splits: dict[str, list[dict[str, str]]]
    """The texts of ``train`` and, optionally, of ``valid``, ``test`` and other splits.

    A split is a list of parts that are read one after another. A part maps each language to the location of its text:
    ``FILE``, ``ARCHIVE:MEMBER`` or ``FILE.tsv:COLUMN``.
    """
    files: dict[str, ManifestFile] = field(default_factory=dict)
    """The files to download, by name. Other files are looked up relative to the manifest's folder."""
    base_urls: list[str] = field(default_factory=list)
    """Where to download the files, in order of preference."""
    hold_out_every: int | None = None
    """If there is no ``valid`` or ``test``, one training sentence in this many is held out for it.

    None: one in 20. If that is more than about 2,000, about 2,000 of them become the split and the others are left out
    of all splits: this way, a test sentence never becomes a training sentence when the corpus grows. To use a large
    corpus completely, set it to the number of sentences / 2,000.
    """
    description: str | None = None
    licence: str | None = None
    citation: str | None = None

    @classmethod
    def from_json(cls, value: Any, name: str) -> "Manifest":
        """Validate a parsed JSON value.

        Args:
            value: the result of ``json.loads``.
            name: what the manifest is called in error messages.

        Raises:
            UserError: if it is not a valid manifest; the message names the field.
        """
        try:
            return _manifest(value)
        except _FieldError as error:
            raise UserError(f"the manifest {name} has a mistake at {error}") from None


class _FieldError(Exception):
    """The value of a field, such as ``splits.train[0].en``, is wrong."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{shorten(path) or 'the top level'}: {problem}")


def _manifest(value: Any) -> Manifest:
    texts = ("description", "licence", "citation")
    members = _object(value, "", ("languages", "splits"), ("files", "base_urls", "hold_out_every", *texts))
    languages = _languages(members["languages"])
    splits = _object(members["splits"], "splits", ("train",), None, SPLIT_NAME)
    files = _object(members.get("files", {}), "files", (), None, FILE_NAME)
    base_urls = [_string(url, path, URL) for path, url in _list(members.get("base_urls", []), "base_urls")]
    if files and not base_urls:
        raise _FieldError("files", "there are files to download, but no base_urls to download them from")
    held_out = members.get("hold_out_every")
    if held_out is not None and (type(held_out) is not int or not 3 <= held_out <= MAX_HOLD_OUT_EVERY):
        expected = f"expected a whole number from 3 to {MAX_HOLD_OUT_EVERY:,}"
        raise _FieldError("hold_out_every", f"{expected}; got {quote(held_out)}")
    return Manifest(
        languages=languages,
        splits={name: _split(parts, f"splits.{name}", languages) for name, parts in splits.items()},
        files={name: _file(file, f"files.{name}") for name, file in files.items()},
        base_urls=base_urls,
        hold_out_every=held_out,
        **{name: _string(members[name], name, TEXT) for name in texts if name in members},
    )


def _languages(value: Any) -> tuple[str, str]:
    codes = [_string(code, path, LANGUAGE) for path, code in _list(value, "languages")]
    if len(codes) != 2 or codes[0] == codes[1]:
        raise _FieldError("languages", f"expected two different languages; got {quote(codes)}")
    return codes[0], codes[1]


def _split(value: Any, path: str, languages: tuple[str, str]) -> list[dict[str, str]]:
    parts = _list(value, path)
    if not parts:
        raise _FieldError(path, "the list is empty")
    return [
        {language: _string(location, f"{part_path}.{language}") for language, location in part.items()}
        for part_path, part in ((p, _object(v, p, languages)) for p, v in parts)
    ]


def _file(value: Any, path: str) -> ManifestFile:
    members = _object(value, path, ("digest",), ("path", "size"))
    digest = _string(members["digest"], f"{path}.digest", DIGEST)
    size = members.get("size")
    if "size" in members and not (type(size) is int and 0 <= size <= MAX_SIZE):
        raise _FieldError(f"{path}.size", f"expected a number of bytes; got {quote(size)}")
    return ManifestFile(digest, _string(members["path"], f"{path}.path") if "path" in members else None, size)


def _object(
    value: Any, path: str, required: tuple[str, ...], optional: tuple[str, ...] | None = (), pattern: str = LINE
) -> dict[str, Any]:
    """Check an object with these members; ``optional=None`` allows any further ones whose names match the pattern."""
    if not isinstance(value, dict):
        raise _FieldError(path, f"expected an object; got {quote(value)}")
    for name in required:
        if name not in value:
            raise _FieldError(path, f"{quote(name)} is missing")
    for name in value:
        if optional is not None and name not in (*required, *optional):
            expected = ", ".join([*required, *optional])
            raise _FieldError(path, f"unknown name {quote(name)}; expected {expected}")
        if not re.fullmatch(pattern, name):
            raise _FieldError(path, f"expected {IN_WORDS[pattern]}; got {quote(name)}")
    return value


def _list(value: Any, path: str) -> list[tuple[str, Any]]:
    """Check a list, and return the path and the value of each item."""
    if not isinstance(value, list):
        raise _FieldError(path, f"expected a list; got {quote(value)}")
    return [(f"{path}[{i}]", item) for i, item in enumerate(value)]


def _string(value: Any, path: str, pattern: str = LINE) -> str:
    """Check a string, which must match one of the patterns in `IN_WORDS`."""
    if not isinstance(value, str):
        raise _FieldError(path, f"expected a string; got {quote(value)}")
    if not re.fullmatch(pattern, value):
        raise _FieldError(path, f"expected {IN_WORDS[pattern]}; got {quote(value)}")
    return value
