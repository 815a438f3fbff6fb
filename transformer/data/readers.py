r"""Read sentence pairs line by line from the file formats that corpora use, with little memory even for large files.

A text is a plain or gzipped file, a column of a table, or a member of an archive, which is read without unpacking it.
Lines end only at "\n". Other line breaks (U+0085, U+2028, a lone "\r") occur inside sentences; splitting at them would
misalign the two sides of a corpus. A "\r" at the end of a line and a byte order mark at the start of a text, which come
from Windows, are removed. Nothing else is changed.
"""

import gzip
import html
import io
import os
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from transformer.errors import UserError, quote

BLOCK_SIZE = 1 << 16  # bytes; less than MAX_LINE_BYTES, so that only the first line of a block can be too long
MAX_LINE_BYTES = 1_000_000  # a line with this many bytes can't be a sentence

TAR, ZIP = (".tgz", ".tar.gz", ".tar"), (".zip",)
TAG = re.compile(r"<(/?seg|src)(?:\s[^>]*)?>", re.IGNORECASE)


SentencePair = tuple[str, str]
"""A sentence and its translation."""


class TextFile(NamedTuple):
    """The location of a text: a file, a column of a table, or a member of an archive."""

    path: Path
    selector: str = ""
    """The number of the column, or the name of the member; otherwise empty."""

    @classmethod
    def parse(cls, location: str, folder: Path = Path()) -> "TextFile":
        """Parse ``FILE``, ``FILE.tsv:COLUMN`` or ``ARCHIVE:MEMBER``, relative to a folder."""
        whole = folder / os.path.expanduser(location)
        if os.path.isfile(whole):  # its name may contain a colon
            return cls(whole)
        if location.rpartition(":")[2].isdecimal():  # a column; the file name may contain colons
            name, _, selector = location.rpartition(":")
        else:
            name, _, selector = location.partition(":")
        return cls(folder / os.path.expanduser(name), selector)

    def __str__(self) -> str:
        return f"{self.path}:{self.selector}" if self.selector else str(self.path)


def read_lines(path: Path, selector: str = "") -> Iterator[str]:
    """Yield the lines of a text.

    The file name determines how markup is handled. In ``.sgm``, ``.sgml`` and ``.xml`` files (test sets of WMT and
    IWSLT), the lines are the ``<seg>`` elements, with entities resolved and white space normalised to single spaces. In
    ``train.tags.*`` files (training talks of IWSLT), lines that start with "<" are skipped.

    Args:
        path: a text, plain or ``.gz``, or an archive: ``.tar``, ``.tar.gz``, ``.tgz`` or ``.zip``.
        selector: which member of an archive, or which column (counted from 1) of a file with tab-separated columns,
            such as a ``.tsv`` file. All columns of an empty line are empty.

    Raises:
        UserError: immediately if ``selector`` does not fit the file; during iteration if the text is missing or
            damaged, is not UTF-8, or has a line that is too long to be a sentence.
    """
    column = 0
    file, name = TextFile(path, selector), selector.rpartition("/")[2]
    if not _is_archive(path):
        file, name = TextFile(path), path.name.removesuffix(".gz")
        if selector or name.endswith(".tsv"):
            if not re.fullmatch("[1-9][0-9]{0,3}", selector):
                if not selector:
                    raise UserError(f"{path} is a table: say which column, as in {path}:1")
                raise UserError(
                    f"{path}:{selector}: {path} is not an archive, so what follows the colon must be the number of a "
                    "column, from 1 on"
                )
            column = int(selector)
    lines = _lines(_blocks(file), file)
    if name.lower().endswith((".sgm", ".sgml", ".xml")):
        lines = _segments(lines, file)
    if name.startswith("train.tags."):
        lines = (line for line in lines if not line.startswith("<"))
    return _cells(lines, column, file) if column else lines


def read_pairs(source: TextFile, target: TextFile) -> Iterator[SentencePair]:
    """Yield the lines of two texts in parallel.

    Raises:
        UserError: as for `read_lines`, and if the texts have different numbers of lines.
    """
    sides = read_lines(*source), read_lines(*target)
    for count, (s, t) in enumerate(zip_longest(*sides)):
        if s is None or t is None:
            longer = count + 1 + sum(1 for side in sides for _ in side)
            n_source, n_target = (count, longer) if s is None else (longer, count)
            raise UserError(
                f"{source} has {n_source:,} lines but {target} has {n_target:,}: line by line, one can't be the "
                "translation of the other"
            )
        yield s, t


def _lines(blocks: Iterator[bytes], file: TextFile) -> Iterator[str]:
    """Decode and split all complete lines of a block at once, which is several times as fast as one by one."""
    incomplete_line, lines_before, bytes_before = b"", 0, 0
    for block in chain(blocks, [b""]):  # the empty block marks the end: an incomplete line is then the last line
        first_newline = block.find(b"\n")
        if len(incomplete_line) + (len(block) if first_newline < 0 else first_newline) >= MAX_LINE_BYTES:
            raise UserError(
                f"{file}: line {lines_before + 1} has {MAX_LINE_BYTES:,} bytes or more: "
                "is this a text with one sentence per line?"
            )
        if block and first_newline < 0:
            incomplete_line += block
            continue
        end = block.rfind(b"\n") + 1
        chunk, incomplete_line = incomplete_line + block[:end], block[end:]
        try:
            text = chunk.decode("utf-8")
        except UnicodeDecodeError as error:
            line = lines_before + chunk.count(b"\n", 0, error.start) + 1
            raise UserError(
                f"{file}: line {line} is not UTF-8 (at byte {bytes_before + error.start}): convert the file to UTF-8"
            ) from None
        if bytes_before == 0:
            text = text.removeprefix("\ufeff")
        if "\r" in text:  # rare, and faster to search for than "\r\n"
            text = text.replace("\r\n", "\n")
        *lines, last = text.split("\n")
        if last:  # the last line of the text, without a newline
            lines.append(last.removesuffix("\r"))
        yield from lines
        lines_before += len(lines)
        bytes_before += len(chunk)


def _segments(lines: Iterator[str], file: TextFile) -> Iterator[str]:
    """Yield the text of each ``<seg …>…</seg>``. An XML parser would fail: some of WMT's files are not well-formed."""
    opened, text = 0, ""  # the line number of the open <seg>, or 0, and its text so far
    for number, line in enumerate(lines, 1):
        position = 0
        for tag in TAG.finditer(line):
            name = tag[1].lower()
            if name == "src":
                raise UserError(
                    f"{file}: <src> in line {number}: the file contains several languages; extract one as plain text"
                )
            if opened and name == "seg":
                raise _unclosed(file, opened)
            if opened:
                yield " ".join(html.unescape(text + line[position : tag.start()]).split())
            elif name == "/seg":
                raise UserError(f"{file}: </seg> in line {number} has no matching <seg>: correct the file")
            opened, text, position = 0 if opened else number, "", tag.end()
        if opened:
            text += line[position:] + "\n"
            if len(text) >= MAX_LINE_BYTES:
                break
    if opened:
        raise _unclosed(file, opened)


def _unclosed(file: TextFile, line: int) -> UserError:
    return UserError(f"{file}: the <seg> in line {line} is not closed: correct the file, or download it again")


def _cells(lines: Iterator[str], column: int, file: TextFile) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        cells = line.split("\t", column) if line else [""] * column
        if len(cells) < column:
            raise UserError(
                f"{file}: line {number} has no column {column}, only {len(cells)}: separate the columns with tabs"
            )
        yield cells[column - 1]


def _is_archive(path: Path) -> bool:
    return path.name.endswith(TAR + ZIP)


def _blocks(file: TextFile) -> Iterator[bytes]:
    """Yield the decompressed bytes of a text in non-empty blocks of at most ``BLOCK_SIZE``."""
    read = _file if not _is_archive(file.path) else _zip_member if file.path.name.endswith(ZIP) else _tar_member
    n_read = 0
    try:
        for block in read(*file):
            yield block
            n_read += len(block)
    except UserError:
        raise
    except Exception as error:  # the libraries raise many types of errors for damaged archives
        if isinstance(error, OSError) and error.filename:  # the file could not be opened
            raise UserError(f"cannot read {file}: {error.strerror}") from None
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"cannot read {file} after byte {n_read} of the text: {reason}. If it is damaged or truncated, download it "
            "again"
        ) from None


def _file(path: Path, _: str) -> Iterator[bytes]:
    with _open(path) as file:
        yield from _read_blocks(file.read)


def _tar_member(path: Path, name: str) -> Iterator[bytes]:
    with _open(path) as file, tarfile.open(fileobj=file, mode="r:") as archive:  # never seeks backwards
        member = next((m for m in archive if m.name == name), None)
        if member is not None:
            content = archive.extractfile(member) if member.isreg() else None
            if content is None:
                raise _not_a_file(path, name)
            yield from _read_blocks(content.read)
        file.seek(0, io.SEEK_END)  # reads gzip's checksum at the end, which raises an error if the data was wrong
        if member is None:
            raise _no_member(path, name, [m.name for m in archive.getmembers() if m.isreg()])


def _zip_member(path: Path, name: str) -> Iterator[bytes]:
    with zipfile.ZipFile(path) as archive:
        member = next((m for m in archive.infolist() if m.filename == name), None)
        if member is None:
            raise _no_member(path, name, [m.filename for m in archive.infolist() if not m.is_dir()])
        if member.is_dir() or stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
            raise _not_a_file(path, name)
        if member.flag_bits & 1:
            raise UserError(f"{quote(name)} in {path} is encrypted: unpack it, and give the path of the text")
        with archive.open(member) as content:
            yield from _read_blocks(content.read)


def _open(path: Path) -> gzip.GzipFile | io.BufferedReader:
    return gzip.open(path) if path.name.endswith((".gz", ".tgz")) else path.open("rb")


def _read_blocks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    return iter(lambda: read(BLOCK_SIZE), b"")


def _no_member(path: Path, name: str, names: list[str]) -> UserError:
    problem = (
        f"there is no {quote(name)} in {path}"
        if name
        else f"{path} is an archive: give the file to read as {path}:FILE"
    )
    similar = get_close_matches(name, names) or names[:5]
    examples = f"{len(names)} files, such as {', '.join(map(repr, similar))}" if names else "no files"
    return UserError(f"{problem}; it contains {examples}")


def _not_a_file(path: Path, name: str) -> UserError:
    return UserError(f"{quote(name)} in {path} is a folder, a link or a device, not a file")
