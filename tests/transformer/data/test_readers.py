import gzip
import io
import re
import stat
import tarfile
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from transformer.data import readers as reading
from transformer.data.readers import MAX_LINE_BYTES, TextFile, read_lines, read_pairs
from transformer.errors import UserError

Files = list[tuple[str, bytes]]
one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
"""For property tests, in which every example writes its own file."""


def tar(files: Files) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def tgz(files: Files) -> bytes:
    return gzip.compress(tar(files), 1)


def zipped(files: Files, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # duplicate names
        for name, data in files:
            archive.writestr(name, data)
    return out.getvalue()


ARCHIVES: dict[str, Callable[[Files], bytes]] = {"a.tar": tar, "a.tgz": tgz, "a.tar.gz": tgz, "a.zip": zipped}
KINDS = ["a", "a.txt", "a.gz", *ARCHIVES]


def pack(kind: str, data: bytes, member: str = "in/it") -> tuple[bytes, str]:
    """The bytes of a file of this kind, and the selector of its data."""
    if kind in ARCHIVES:
        return ARCHIVES[kind]([("before", b"x\n" * 999), (member, data), ("after", b"y\n" * 999)]), member
    return (gzip.compress(data, 1) if kind.endswith(".gz") else data), ""


class Folder:
    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.monkeypatch = path, monkeypatch

    def lines(
        self, data: bytes | str, name: str = "a.txt", inside: str = "", block: int = reading.BLOCK_SIZE
    ) -> list[str]:
        """Write a file, and read it in blocks of this size."""
        (self.path / name).write_bytes(data.encode() if isinstance(data, str) else data)
        self.monkeypatch.setattr(reading, "BLOCK_SIZE", block)
        return list(read_lines(self.path / name, inside))

    def fault(self, data: bytes | str, name: str = "a.txt", inside: str = "", block: int = reading.BLOCK_SIZE) -> str:
        """The error message, without the folder."""
        with pytest.raises(UserError) as raised:
            self.lines(data, name, inside, block)
        message = str(raised.value)
        assert "\n" not in message
        return message.replace(f"{self.path}/", "")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    return Folder(tmp_path, monkeypatch)


# Lines


@pytest.mark.parametrize("block", [1, 2, 3, reading.BLOCK_SIZE])
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("\n", [""]),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\n\n", ["a", ""]),
        ("\n\na", ["", "", "a"]),
        ("a\u2028b\x85c\x0b\x0c\x1c\x1e\u2029\rd\n", ["a\u2028b\x85c\x0b\x0c\x1c\x1e\u2029\rd"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("a\r\r\nb\r\r", ["a\r", "b\r"]),
        ("\ra\r", ["\ra"]),
        ("\r", [""]),
        ("\ufeffa\nb", ["a", "b"]),
        ("\ufeff", []),
        ("\ufeff\n", [""]),
        ("\ufeff\ufeffa\n\ufeffb", ["\ufeffa", "\ufeffb"]),
        ("a\x00b\n  c \t\n", ["a\x00b", "  c \t"]),
    ],
)
def test_where_lines_end(folder: Folder, text: str, lines: list[str], block: int) -> None:
    assert folder.lines(text, block=block) == lines


characters = st.sampled_from("aä€😀\r\u2028\x85\x00 <&\ufeff") | st.characters(codec="utf-8", exclude_characters="\n\t")
texts = st.text(characters, max_size=6).map(lambda text: text.strip("\r\ufeff"))  # tested separately
blocks = st.integers(1, 40)


@one_folder
@given(st.lists(texts), st.sampled_from(KINDS), blocks, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_lines_survive_writing_and_reading(
    folder: Folder, lines: list[str], kind: str, block: int, end: str, ended: bool, mark: bool
) -> None:
    text = "\ufeff" * mark + end.join(lines) + end * (ended or lines[-1:] == [""])
    data, inside = pack(kind, text.encode())
    assert folder.lines(data, kind, inside, block) == (lines or [""] * ended)


@one_folder
@given(st.lists(st.tuples(texts, texts)), st.sampled_from(["a.tsv", "a.tsv.gz", "a.txt.gz"]), blocks)
def test_columns_survive_writing_and_reading(
    folder: Folder, rows: list[tuple[str, str]], kind: str, block: int
) -> None:
    data, _ = pack(kind, "".join(f"{one}\t{two}\tCC-BY\n" for one, two in rows).encode())
    for column in (0, 1):
        assert folder.lines(data, kind, str(column + 1), block) == [row[column] for row in rows]


@one_folder
@given(
    st.lists(texts, min_size=1),
    st.sampled_from([b"\xff", b"\xc3", b"\xe2\x82", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80"]),
    st.sampled_from([b"", b"\n", b"a\n", b"\xc3\xa4"]),
    st.sampled_from(KINDS),
    blocks | st.just(reading.BLOCK_SIZE),
)
def test_bytes_that_are_not_utf8_are_named(
    folder: Folder, lines: list[str], bad: bytes, after: bytes, kind: str, block: int
) -> None:
    before = "\n".join(lines).encode()
    data, inside = pack(kind, before + bad + after)
    place = f"{kind}:{inside}" if inside else kind
    assert folder.fault(data, kind, inside, block) == (
        f"{place}: line {len(lines)} is not UTF-8 (at byte {len(before)}): convert the file to UTF-8"
    )


def test_latin1_far_into_a_text(folder: Folder) -> None:
    text = b"".join(b"line %d\n" % n for n in range(1, 30_000)) + "schön\n".encode("latin-1")
    assert "line 30000 is not UTF-8 (at byte 318886)" in folder.fault(text)
    assert text[318886:] == b"\xf6n\n"
    assert "line 1 is not UTF-8 (at byte 6)" in folder.fault(
        "\ufeffabc".encode() + b"\xff\n"
    )  # including the byte order mark


@pytest.mark.parametrize("block", [1000, 9901, reading.BLOCK_SIZE])  # 9901: one block begins with the end of the line
def test_a_line_too_long(folder: Folder, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for end in ("", "\n", "\nb\n"):
        assert folder.lines("a\n" + "x" * (MAX_LINE_BYTES - 1) + end, block=block)[1] == "x" * (MAX_LINE_BYTES - 1)
        assert folder.fault("a\n" + "x" * MAX_LINE_BYTES + end, block=block) == (
            "a.txt: line 2 has 1,000,000 bytes or more: is this a text with one sentence per line?"
        )


def peak_memory(path: Path, inside: str = "") -> tuple[int, int]:
    """Number of lines, and peak memory in bytes while reading them."""
    tracemalloc.start()
    try:
        count = sum(1 for _ in read_lines(path, inside))
        return count, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["a", "a.gz", "a.tgz", "a.zip"])
def test_memory_does_not_grow_with_the_file(folder: Folder, kind: str) -> None:
    text = ("two hundred bytes a line: äöü " + "." * 166 + "\n").encode() * 125_000
    data, inside = pack(kind, text)
    (folder.path / kind).write_bytes(data)
    count, peak = peak_memory(folder.path / kind, inside)
    assert count == 125_000 and len(text) == 25_000_000
    assert peak < 1_000_000


def test_an_overlong_line_is_not_read_completely(folder: Folder) -> None:
    (folder.path / "a.gz").write_bytes(gzip.compress(b"x" * 50_000_000, 1))
    tracemalloc.start()
    with pytest.raises(UserError, match="line 1 has"):
        next(read_lines(folder.path / "a.gz"))
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()


# Files and archives


@pytest.mark.parametrize("kind", ARCHIVES)
def test_the_members_of_an_archive(folder: Folder, kind: str) -> None:
    names = ["dev/test.de", "dev/test.en", "dev/other", "x", "y", "z"]
    archive = ARCHIVES[kind]([(name, name.encode()) for name in names] + [("x", b"again")])
    assert folder.lines(archive, kind, "dev/test.en") == ["dev/test.en"]
    assert folder.lines(archive, kind, "x") == ["x"]
    assert folder.fault(archive, kind, "test.en") == (
        f"there is no 'test.en' in {kind}; it contains 7 files, such as 'dev/test.en', 'dev/test.de'"
    )
    assert folder.fault(archive, kind) == (
        f"{kind} is an archive: give the file to read as {kind}:FILE; it contains 7 files, "
        "such as 'dev/test.de', 'dev/test.en', 'dev/other', 'x', 'y'"
    )
    assert folder.fault(ARCHIVES[kind]([]), kind, "x") == f"there is no 'x' in {kind}; it contains no files"


@pytest.mark.parametrize("kind", ARCHIVES)
def test_an_archive_is_never_unpacked(folder: Folder, kind: str) -> None:
    evil = ["../out", "/tmp/../out", "in/out"]
    archive = ARCHIVES[kind]([(name, b"text\n") for name in evil])
    (folder.path / "in").mkdir()
    inner = Folder(folder.path / "in", folder.monkeypatch)
    for name in evil:
        assert inner.lines(archive, kind, name) == ["text"]
    assert sorted(path.name for path in folder.path.rglob("*")) == sorted(["in", kind])


@pytest.mark.parametrize(
    "kind", [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE]
)
def test_non_files_in_a_tar(folder: Folder, kind: bytes) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("file"))
        info = tarfile.TarInfo("it")
        info.type, info.linkname = kind, "file"
        archive.addfile(info)
    assert folder.fault(out.getvalue(), "a.tgz", "it") == ("'it' in a.tgz is a folder, a link or a device, not a file")
    assert folder.fault(out.getvalue(), "a.tgz", "none").endswith("it contains 1 files, such as 'file'")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFDIR, stat.S_IFIFO])
def test_non_files_in_a_zip(folder: Folder, kind: int) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo("it")
        info.create_system, info.external_attr = 3, (kind | 0o644) << 16
        archive.writestr(info, "/etc/passwd")
        archive.writestr("folder/", "")
        info = zipfile.ZipInfo("file")
        info.create_system, info.external_attr = 3, (stat.S_IFREG | 0o644) << 16
        archive.writestr(info, "text")
    assert folder.lines(out.getvalue(), "a.zip", "file") == ["text"]
    for name in ("it", "folder/"):
        message = f"'{name}' in a.zip is a folder, a link or a device, not a file"
        assert folder.fault(out.getvalue(), "a.zip", name) == message
    assert folder.fault(out.getvalue(), "a.zip", "none").endswith("it contains 2 files, such as 'it', 'file'")


def test_gzip_is_never_rewound(folder: Folder) -> None:
    """Rewinding would decompress the file again from the start."""
    rewound: list[int] = []

    class Spy(gzip.GzipFile):
        def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
            if whence == io.SEEK_SET and offset < self.tell():
                rewound.append(offset)
            return super().seek(offset, whence)

    folder.monkeypatch.setattr(gzip, "GzipFile", Spy)
    data, inside = pack("a.tgz", b"line\n" * 30_000)
    assert len(folder.lines(data, "a.tgz", inside)) == 30_000
    assert not rewound


def test_selectors_that_do_not_fit_the_file(folder: Folder) -> None:
    for kind, inside in [("a.txt", "in/it"), ("a.gz", "0"), ("a.tsv", "x"), ("a", "-1"), ("a", "1.5"), ("a", "²")]:
        assert folder.fault(pack(kind, b"a\tb\n")[0], kind, inside) == (
            f"{kind}:{inside}: {kind} is not an archive, so what follows the colon must be the number of a column, "
            "from 1 on"
        )
    assert folder.fault("a\tb\n", "a.tsv") == "a.tsv is a table: say which column, as in a.tsv:1"
    assert folder.fault("a\tb\tc\na\tb\n", "a.tsv", "3") == (
        "a.tsv: line 2 has no column 3, only 2: separate the columns with tabs"
    )
    assert folder.lines("a\tb\tc\na\tb\n", "a.tsv", "2") == ["b", "b"]
    assert folder.lines("a\tb\n\n", "a.tsv", "2") == ["b", ""]


def test_files_that_cannot_be_opened(folder: Folder) -> None:
    for kind in KINDS:
        path = folder.path / "nowhere" / kind
        inside = "in/it" if kind in ARCHIVES else ""
        with pytest.raises(
            UserError, match=re.escape(f"cannot read {TextFile(path, inside)}: No such file or directory")
        ):
            list(read_lines(path, inside))
        path = folder.path / kind
        path.mkdir()
        with pytest.raises(UserError, match=re.escape(f"cannot read {TextFile(path, inside)}: Is a directory")):
            list(read_lines(path, inside))

    def forbidden(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "a path")

    folder.monkeypatch.setattr(Path, "open", forbidden)
    with pytest.raises(UserError, match=r"^cannot read file: Permission denied$"):
        list(read_lines(Path("file")))


# Damage

LONG = b"".join(b"%d bottles of beer\n" % n for n in range(50_000))


@pytest.mark.parametrize("kind", ["a.gz", *ARCHIVES])
def test_a_truncated_file_yields_its_complete_lines_and_reports_where_it_ends(folder: Folder, kind: str) -> None:
    if kind == "a.zip":
        data, inside = zipped([("in/it", LONG)]), "in/it"
        assert re.match(
            r"cannot read a\.zip:in/it after byte 0 .*not a zip file", folder.fault(data[:-30], kind, inside)
        )
        return
    whole, inside = pack(kind, LONG)
    (folder.path / kind).write_bytes(whole[: len(whole) // 2])
    got: list[str] = []
    with pytest.raises(UserError) as raised:
        got.extend(read_lines(folder.path / kind, inside))
    where = re.search(r"after byte (\d+) of the text: .*end.*download it again$", str(raised.value))
    assert where and got and LONG.decode().startswith("\n".join(got))
    assert 0 <= int(where[1]) - len("\n".join(got)) < 30


def flip(data: bytes, position: int, bit: int = 1) -> bytes:
    changed = bytearray(data)
    changed[position] ^= bit
    return bytes(changed)


@pytest.mark.parametrize("kind", ["a.gz", "a.tgz"])
def test_a_wrong_checksum_at_the_end(folder: Folder, kind: str) -> None:
    data, inside = pack(kind, LONG)
    assert "CRC check failed" in folder.fault(flip(data, -8), kind, inside)
    assert "Incorrect length" in folder.fault(flip(data, -4), kind, inside)
    assert "CRC check failed" in folder.fault(flip(data, -8), kind, inside + "?" if inside else "")
    assert "Not a gzipped file" in folder.fault(data + b"rubbish", kind, inside)
    assert folder.lines(data + bytes(512), kind, inside) == folder.lines(data, kind, inside)  # padding is harmless


def test_damage_in_a_zip(folder: Folder) -> None:
    stored = zipped([("a", LONG)], zipfile.ZIP_STORED)
    assert "Bad CRC-32 for file 'a'" in folder.fault(flip(stored, 5000), "a.zip", "a")
    locked = zipped([("a", b"text")])
    locked = flip(flip(locked, 6), locked.index(b"PK\1\2") + 8)  # the flag of encryption, in both headers
    assert folder.fault(locked, "a.zip", "a") == ("'a' in a.zip is encrypted: unpack it, and give the path of the text")


@pytest.mark.parametrize(
    ("kind", "reason"), [("a.gz", "Not a gzipped file"), ("a.tgz", "Not a gzipped file"), ("a.zip", "not a zip file")]
)
def test_a_file_of_another_type(folder: Folder, kind: str, reason: str) -> None:
    assert reason in folder.fault(b"<!doctype html>" * 99, kind, "x" * (kind != "a.gz"))
    assert "cannot read a.tar:x after byte 0" in folder.fault(b"<!doctype html>" * 99, "a.tar", "x")


def test_a_reader_may_stop_early(folder: Folder) -> None:
    for kind in KINDS:
        data, inside = pack(kind, LONG)
        (folder.path / kind).write_bytes(data)
        assert next(read_lines(folder.path / kind, inside)) == "0 bottles of beer"


# Markup

SGM = """<srcset setid="t" srclang="any">
<doc docid="a & b < c" genre="news"><hl>
<seg id="1">  Two  words&#32;</seg>
</hl><p>
<seg id="2">A &amp; B &lt;b&gt; &quot;q&quot; AT&T &#8364;&#10;x</seg><seg id="3"></seg>
<SEG>over
  three

lines</SEG> <segment>no</segment>
</p></doc>
"""
SEGS = ["Two words", 'A & B <b> "q" AT&T € x', "", "over three lines"]


@pytest.mark.parametrize("block", [1, 10, reading.BLOCK_SIZE])
@pytest.mark.parametrize("name", ["a.sgm", "a.sgml", "A.SGM", "a.xml", "a.sgm.gz"])
def test_segments(folder: Folder, name: str, block: int) -> None:
    for text in (SGM, SGM.replace("\n", "\r\n"), "\ufeff" + SGM):
        assert folder.lines(pack(name, text.encode())[0], name, block=block) == SEGS
        for kind in ARCHIVES:
            data, inside = pack(kind, text.encode(), "in/it.sgm")
            assert folder.lines(data, kind, inside, max(block, 10)) == SEGS
    assert folder.lines(SGM, "a.txt") == SGM.splitlines()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<seg>a</seg>\n<seg>b\nc\n", "the <seg> in line 2 is not closed: correct the file, or download it again"),
        ("<seg>a\n<seg>b</seg>\n", "the <seg> in line 1 is not closed: correct the file, or download it again"),
        (
            "<seg>a</seg>\n<seg>b" + "c\n" * 500_000,
            "the <seg> in line 2 is not closed: correct the file, or download it again",
        ),
        ("<SEG>a\n<SEG>b</SEG>\n", "the <seg> in line 1 is not closed: correct the file, or download it again"),
        ("<seg>a</seg>\n</seg>\n", "</seg> in line 2 has no matching <seg>: correct the file"),
        ("<seg\nid='1'>a</seg>\n", "</seg> in line 2 has no matching <seg>: correct the file"),
        (
            "<doc>\n<src lang='en'>\n<seg>a</seg></src><ref><seg>b</seg></ref>\n",
            "<src> in line 2: the file contains several languages; extract one as plain text",
        ),
    ],
)
def test_segments_that_are_not_whole(folder: Folder, text: str, message: str) -> None:
    assert folder.fault(text, "a.sgm") == f"a.sgm: {message}"


def test_text_between_segments_is_ignored(folder: Folder) -> None:
    assert folder.lines("<seg>a</seg>" + (" " * 999 + "\n") * 1100 + "<seg>b</seg>", "a.sgm") == ["a", "b"]


def test_segments_of_an_endless_file_are_not_kept(folder: Folder) -> None:
    (folder.path / "a.sgm").write_bytes(b"<seg>\n" + (b"<p>" * 30 + b"\n") * 200_000)
    tracemalloc.start()
    with pytest.raises(UserError, match="the <seg> in line 1 is not closed"):
        list(read_lines(folder.path / "a.sgm"))
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()


@one_folder
@given(st.lists(texts), blocks, st.sampled_from(["", "\n", "</p> <p>"]))
def test_segments_written_are_read(folder: Folder, lines: list[str], block: int, between: str) -> None:
    escaped = [line.replace("&", "&amp;").replace("<", "&lt;") for line in lines]
    text = between.join(f'<seg id="{n}">{line}</seg>' for n, line in enumerate(escaped))
    assert folder.lines(text, "a.sgm", block=block) == [" ".join(line.split()) for line in lines]


def test_the_talks_of_iwslt(folder: Folder) -> None:
    text = "<url>http</url>\n<title>T</title>\nOne & two < three.\n\n <not markup\n<keywords>k</keywords>\nThree.\n"
    lines = ["One & two < three.", "", " <not markup", "Three."]
    assert folder.lines(text, "train.tags.de-en.de") == lines
    assert (
        folder.lines(tgz([("de-en/train.tags.de-en.de", text.encode())]), "a.tgz", "de-en/train.tags.de-en.de") == lines
    )
    assert folder.lines(text, "train.de") == text.splitlines()
    assert folder.lines(tgz([("train.tags.d/train.de", text.encode())]), "a.tgz", "train.tags.d/train.de") == (
        text.splitlines()
    )


# Pairs


def test_pairs_in_step_from_different_places(folder: Folder) -> None:
    (folder.path / "en.tgz").write_bytes(tgz([("en", b"one\ntwo\n\n")]))
    (folder.path / "de.tsv").write_text("1\teins\n2\tzwei\n3\t\n", "utf-8")
    source, target = TextFile(folder.path / "en.tgz", "en"), TextFile(folder.path / "de.tsv", "2")
    assert list(read_pairs(source, target)) == [("one", "eins"), ("two", "zwei"), ("", "")]
    assert next(read_pairs(target, source)) == ("eins", "one")


@pytest.mark.parametrize(("n_source", "n_target"), [(3, 5), (5, 3), (0, 1), (1, 0), (1200, 1201), (7, 1201)])
def test_a_side_that_ends_early(folder: Folder, n_source: int, n_target: int) -> None:
    (folder.path / "a.de").write_text("x\n" * n_source, "utf-8")
    (folder.path / "a.zip").write_bytes(zipped([("a.en", b"y\n" * n_target)]))
    pairs = read_pairs(TextFile(folder.path / "a.de"), TextFile(folder.path / "a.zip", "a.en"))
    got: list[tuple[str, str]] = []
    with pytest.raises(UserError) as raised:
        got.extend(pairs)
    assert got == [("x", "y")] * min(n_source, n_target)
    assert str(raised.value).replace(f"{folder.path}/", "") == (
        f"a.de has {n_source:,} lines but a.zip:a.en has {n_target:,}: line by line, one can't be the "
        "translation of the other"
    )


# Anything at all


def lines_or_error(folder: Folder, data: bytes, kind: str, inside: str, block: int) -> None:
    try:
        result = folder.lines(data, kind, inside, block)
    except UserError as error:
        result = [str(error)]
    assert all("\n" not in line for line in result)


@one_folder
@given(st.binary(max_size=300), st.sampled_from(["a", "a.tsv", "a.sgm", "a.gz", "a.xml.gz", *ARCHIVES]), blocks)
@example(b"<seg>&#10;</seg>", "a.sgm", 1)
def test_any_bytes_give_lines_or_an_error(folder: Folder, data: bytes, kind: str, block: int) -> None:
    lines_or_error(folder, data, kind, "2" if kind == "a.tsv" else "in/it" if kind in ARCHIVES else "", block)


markup = st.lists(st.sampled_from(["<seg>", "</seg>", "<seg id='1'>", "\n", "a&lt;", "&#10;", "<", ">", "<src>", "\r"]))


@one_folder
@given(markup.map("".join), blocks)
def test_any_markup_gives_lines_or_an_error(folder: Folder, text: str, block: int) -> None:
    lines_or_error(folder, text.encode(), "a.sgm", "", block)


CONTENT = b"a line\nschlie\xc3\x9flich\n" * 20
SOUND = {kind: pack(kind, CONTENT) for kind in ["a.gz", *ARCHIVES]}


@settings(one_folder, max_examples=400)
@given(st.data(), st.sampled_from(list(SOUND)), st.sampled_from([500, reading.BLOCK_SIZE]))
def test_damaged_archives_give_lines_or_an_error(folder: Folder, data: st.DataObject, kind: str, block: int) -> None:
    sound, inside = SOUND[kind]
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(sound) - 1))
        change = data.draw(st.sampled_from(["flip", "set", "cut", "drop", "insert"]))
        if change == "flip":
            sound = flip(sound, position, 1 << data.draw(st.integers(0, 7)))
        elif change == "set":
            sound = sound[:position] + data.draw(st.sampled_from([b"\0", b"\xff"])) + sound[position + 1 :]
        elif change == "cut":
            sound = sound[: position + 1]
        elif change == "drop":
            sound = sound[:position] + sound[position + 1 :] or b"x"
        else:
            sound = sound[:position] + data.draw(st.binary(max_size=9)) + sound[position:]
    lines_or_error(folder, sound, kind, inside, block)


@pytest.mark.parametrize("kind", ["a.gz", "a.tgz"])
def test_no_flipped_bit_of_a_gzip_goes_unnoticed(folder: Folder, kind: str) -> None:
    """Except in the header, which has no checksum."""
    data, inside = SOUND[kind]
    for position in range(10, len(data)):
        try:
            lines = folder.lines(flip(data, position, 4), kind, inside)
        except UserError:
            continue
        assert lines == folder.lines(data, kind, inside), position
