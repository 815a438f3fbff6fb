import gzip
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from transformer import corpora
from transformer.corpora import load_pairs
from transformer.errors import UserError

ENGLISH, GERMAN = "A dog.\nA\u2028cat.\nTwo\x85 birds.\n", "Ein Hund.\nEine\rKatze.\nZwei Vögel.\n"


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small corpus `mini` that the manifest knows, and an empty cache."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    sha256 = {}
    for side, text in (("en", ENGLISH), ("de", GERMAN)):
        data = gzip.compress(text.encode())
        (folder / f"train.{side}.gz").write_bytes(data)
        sha256[f"train.{side}.gz"] = hashlib.sha256(data).hexdigest()
    entry = {
        "home": "http://127.0.0.1:9",
        "sha256": sha256,
        "splits": {"train": {"en": "train.en.gz", "de": "train.de.gz"}},
    }
    monkeypatch.setitem(corpora.FETCHED, "mini", entry)
    monkeypatch.setenv("TRANSFORMER_DATA", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def address(mirror: Path) -> Iterator[str]:
    """The mirror, served over HTTP on loopback."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(mirror))  # type: ignore[arg-type]

        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


PAIRS = [("A dog.", "Ein Hund."), ("A\u2028cat.", "Eine\rKatze."), ("Two\x85 birds.", "Zwei Vögel.")]


def test_from_a_folder_then_from_the_cache(mirror: Path) -> None:
    assert load_pairs("mini", "train", mirror=str(mirror)) == PAIRS
    for file in mirror.iterdir():
        file.unlink()
    assert load_pairs("mini", "train") == PAIRS


def test_from_an_address_in_the_other_direction(address: str) -> None:
    assert load_pairs("mini", "train", "de-en", mirror=address) == [(t, s) for s, t in PAIRS]


def test_a_wrong_checksum_is_refused_and_the_cache_keeps_what_it_had(mirror: Path, tmp_path: Path) -> None:
    (mirror / "train.de.gz").write_bytes(gzip.compress(b"something else\n"))
    with pytest.raises(
        UserError, match=r"could not get train\.de\.gz: .*/mirror/train\.de\.gz \(not the right bytes\)"
    ):
        load_pairs("mini", "train", mirror=str(mirror))
    left = {f.name for f in (tmp_path / "cache/downloads/mini").iterdir()}
    assert left == {"train.en.gz", ".train.en.gz.lock", ".train.de.gz.lock"}


def test_a_file_missing_at_an_address_and_no_network_at_all(mirror: Path, address: str) -> None:
    (mirror / "train.de.gz").unlink()
    with pytest.raises(UserError, match=r"could not get .*train\.de\.gz .*404.*put it at .*--mirror"):
        load_pairs("mini", "train", mirror=address)
    (mirror / "train.en.gz").unlink()
    with pytest.raises(UserError, match=r"train\.de\.gz: .*/mirror/train\.de\.gz \(there is no such file\)"):
        load_pairs("mini", "train", mirror=str(mirror))


def test_offline_it_says_what_to_put_where(mirror: Path) -> None:
    with pytest.raises(
        UserError, match=r"http://127\.0\.0\.1:9/train\.en\.gz \(no connection: .*put it at .*mini/train\.en\.gz"
    ):
        load_pairs("mini", "train")


def test_sides_of_unequal_length_are_an_error(mirror: Path) -> None:
    data = gzip.compress(b"Nur eine Zeile\n")
    (mirror / "train.de.gz").write_bytes(data)
    corpora.FETCHED["mini"]["sha256"]["train.de.gz"] = hashlib.sha256(data).hexdigest()
    with pytest.raises(UserError, match="mini train: 3 English lines, but 1 German"):
        load_pairs("mini", "train", mirror=str(mirror))


def test_copy_has_no_string_in_two_splits() -> None:
    splits = {split: load_pairs("copy", split) for split in ("train", "valid", "test")}  # type: ignore[arg-type]
    lines = [source for pairs in splits.values() for source, target in pairs if source == target]
    assert len(lines) == len(set(lines)) == sum(len(pairs) for pairs in splits.values())
    assert load_pairs("copy", "test") == splits["test"]


def test_unknown_corpus_and_direction() -> None:
    with pytest.raises(UserError, match="no corpus 'wmt99'; there are copy, pocket, multi30k"):
        load_pairs("wmt99", "train")
    with pytest.raises(UserError, match="direction must be one of en-de, de-en"):
        load_pairs("copy", "train", "en-fr")  # type: ignore[arg-type]
