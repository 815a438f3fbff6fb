r"""Sentence pairs out of files as corpora ship them, line by line: however big a file is, little of it is in memory.

A text is a plain or gzipped file, a column of one, or a member of an archive, which is read and never unpacked. A line
ends at "\n" only: other line breaks (U+0085, U+2028, a lone "\r") occur inside sentences, and whoever splits at them
shifts one side of a corpus against the other. One "\r" at a line's end and a byte order mark at a text's beginning are
taken off: they come from Windows. Nothing else is changed.
"""

import gzip
import html
import io
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from transformer.errors import UserError

BLOCK = 1 << 16  # bytes read at once: fewer than LONGEST_LINE, so that only a block's first line can be too long
LONGEST_LINE = 1_000_000  # bytes: a line that has so many is no sentence

TAR, ZIP = (".tgz", ".tar.gz", ".tar"), (".zip",)
TAG = re.compile(r"<(/?seg|src)(?:\s[^>]*)?>", re.IGNORECASE)


class TextFile(NamedTuple):
    """Where a text is: the arguments of `read_lines`."""

    path: Path
    inside: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.inside}" if self.inside else str(self.path)


def read_lines(path: Path, inside: str = "") -> Iterator[str]:
    """The lines of a text, one at a time.

    Its name tells what markup there is. Of ``.sgm``, ``.sgml`` and ``.xml`` (test sets of WMT and IWSLT) the lines are
    the ``<seg>`` elements, with entities resolved and one space for any white space; of ``train.tags.*`` (IWSLT's
    talks) those that do not begin with "<".

    Args:
        path: a text, plain or ``.gz``, or an archive: ``.tar``, ``.tar.gz``, ``.tgz`` or ``.zip``.
        inside: the name of the archive's member; or, of a file that has columns with tabs between them (``.tsv``),
            the number of one, counted from 1.

    Raises:
        UserError: if ``inside`` does not suit the file, and, while reading, if something is missing or damaged, is not
            UTF-8, or has a line too long to be a sentence.
    """
    column = 0
    place, name = TextFile(path, inside), inside.rpartition("/")[2]
    if not _is_archive(path):
        place, name = TextFile(path), path.name.removesuffix(".gz")
        if inside or name.endswith(".tsv"):
            if not re.fullmatch("[1-9][0-9]{0,3}", inside):
                raise UserError(f"{path} is no archive: inside, name the number of a column, not {inside!r}")
            column = int(inside)
    lines = _lines(_blocks(place), place)
    if name.lower().endswith((".sgm", ".sgml", ".xml")):
        lines = _segments(lines, place)
    if name.startswith("train.tags."):
        lines = (line for line in lines if not line.startswith("<"))
    return _cells(lines, column, place) if column else lines


def read_pairs(source: TextFile, target: TextFile) -> Iterator[tuple[str, str]]:
    """The lines of two texts in step.

    Raises:
        UserError: as `read_lines`, and if one text ends before the other.
    """
    sides = read_lines(*source), read_lines(*target)
    for count, (s, t) in enumerate(zip_longest(*sides)):
        if s is None or t is None:
            longer = count + 1 + sum(1 for side in sides for _ in side)
            n_source, n_target = (count, longer) if s is None else (longer, count)
            raise UserError(
                f"{source} has {n_source:,} lines, but {target} has {n_target:,}: name two texts that belong together"
            )
        yield s, t


def _lines(blocks: Iterator[bytes], place: TextFile) -> Iterator[str]:
    """Decode and split, all whole lines of a block at once: that is several times as fast as one by one."""
    rest, lines_before, bytes_before = b"", 0, 0  # the beginning of a line, and what came before it
    for block in chain(blocks, [b""]):  # the empty one is the end: then the rest is a line too
        first = block.find(b"\n")
        if len(rest) + (len(block) if first < 0 else first) >= LONGEST_LINE:
            raise UserError(
                f"{place}: line {lines_before + 1} has {LONGEST_LINE:,} bytes or more: "
                "is it a text with a sentence a line?"
            )
        if block and first < 0:
            rest += block
            continue
        end = block.rfind(b"\n") + 1
        chunk, rest = rest + block[:end], block[end:]
        try:
            text = chunk.decode("utf-8")
        except UnicodeDecodeError as error:
            line = lines_before + chunk.count(b"\n", 0, error.start) + 1
            raise UserError(
                f"{place}: line {line} is not UTF-8 (at byte {bytes_before + error.start}): convert or mend the file"
            ) from None
        if bytes_before == 0:
            text = text.removeprefix("\ufeff")
        if "\r" in text:  # seldom, and faster to find than "\r\n"
            text = text.replace("\r\n", "\n")
        *lines, last = text.split("\n")
        if last:  # the last line of all, without a line end
            lines.append(last.removesuffix("\r"))
        yield from lines
        lines_before += len(lines)
        bytes_before += len(chunk)


def _segments(lines: Iterator[str], place: TextFile) -> Iterator[str]:
    """What stands between ``<seg …>`` and ``</seg>``. An XML parser would not do: WMT's files are not all clean."""
    begun, text = 0, ""  # the line in which a segment began, 0 if none is open, and its text so far
    for number, line in enumerate(lines, 1):
        position = 0
        for tag in TAG.finditer(line):
            name = tag[1].lower()
            if name == "src":
                raise UserError(
                    f"{place}: <src> in line {number}: it holds all languages at once, take one as plain text"
                )
            if begun and name == "seg":
                raise _unended(place, begun)
            if begun:
                yield " ".join(html.unescape(text + line[position : tag.start()]).split())
            elif name == "/seg":
                raise UserError(f"{place}: </seg> in line {number} has no <seg> before it: mend the file")
            begun, text, position = 0 if begun else number, "", tag.end()
        if begun:
            text += line[position:] + "\n"
            if len(text) >= LONGEST_LINE:
                break
    if begun:
        raise _unended(place, begun)


def _unended(place: TextFile, line: int) -> UserError:
    return UserError(f"{place}: the <seg> in line {line} does not end: mend the file, or get it again")


def _cells(lines: Iterator[str], column: int, place: TextFile) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        cells = line.split("\t", column)
        if len(cells) < column:
            raise UserError(f"{place}: line {number} has no column {column}; columns found: {len(cells)}")
        yield cells[column - 1]


def _is_archive(path: Path) -> bool:
    return path.name.endswith(TAR + ZIP)


def _blocks(place: TextFile) -> Iterator[bytes]:
    """The bytes of a text, decompressed, at most `BLOCK` at a time and never none."""
    read = _file if not _is_archive(place.path) else _zip_member if place.path.name.endswith(ZIP) else _tar_member
    done = 0
    try:
        for block in read(*place):
            yield block
            done += len(block)
    except UserError:
        raise
    except Exception as error:  # a damaged archive makes the libraries raise whatever they stumble over
        if isinstance(error, OSError) and error.filename:  # it could not be opened
            raise UserError(f"cannot read {place}: {error.strerror}") from None
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"cannot read {place} beyond byte {done} of the text: {reason}. If it is damaged or cut off, get it again"
        ) from None


def _file(path: Path, _: str) -> Iterator[bytes]:
    with _open(path) as file:
        yield from _pieces(file.read)


def _tar_member(path: Path, inside: str) -> Iterator[bytes]:
    with _open(path) as file, tarfile.open(fileobj=file, mode="r:") as archive:  # all reading goes forward
        member = next((m for m in archive if m.name == inside), None)
        if member is not None:
            content = archive.extractfile(member) if member.isreg() else None
            if content is None:
                raise _no_file(path, inside)
            yield from _pieces(content.read)
        file.seek(0, io.SEEK_END)  # there is gzip's checksum: if it is wrong, so is what was read
        if member is None:
            raise _no_member(path, inside, [m.name for m in archive.getmembers() if m.isreg()])


def _zip_member(path: Path, inside: str) -> Iterator[bytes]:
    with zipfile.ZipFile(path) as archive:
        member = next((m for m in archive.infolist() if m.filename == inside), None)
        if member is None:
            raise _no_member(path, inside, [m.filename for m in archive.infolist() if not m.is_dir()])
        if member.is_dir() or stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
            raise _no_file(path, inside)
        if member.flag_bits & 1:
            raise UserError(f"{inside!r} in {path} is encrypted: unpack it with its password, and name the text")
        with archive.open(member) as content:
            yield from _pieces(content.read)


def _open(path: Path) -> gzip.GzipFile | io.BufferedReader:
    return gzip.open(path) if path.name.endswith((".gz", ".tgz")) else path.open("rb")


def _pieces(read: Callable[[int], bytes]) -> Iterator[bytes]:
    return iter(lambda: read(BLOCK), b"")


def _no_member(path: Path, inside: str, names: list[str]) -> UserError:
    wrong = f"there is no {inside!r} in {path}" if inside else f"{path} is an archive: say what to read inside"
    near = get_close_matches(inside, names) or names[:5]
    return UserError(f"{wrong}; files: {len(names)}, such as {', '.join(map(repr, near)) or '-'}")


def _no_file(path: Path, inside: str) -> UserError:
    return UserError(f"{inside!r} in {path} is a folder, a link or a device: name a file")
