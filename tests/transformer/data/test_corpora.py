import copy
import gzip
import hashlib
import io
import json
import os
import re
import tarfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from transformer.data import corpora
from transformer.data.corpora import (
    MAX_HELD_OUT,
    CombinedCorpus,
    FileCorpus,
    absolute_name,
    corpus_manifests,
    count_unused_pairs,
    find_corpus,
    sentence_pairs,
)
from transformer.data.download import RemoteFile, data_folder
from transformer.data.generated import GENERATED, GENERATED_SIZE
from transformer.data.manifest import Manifest, ManifestFile
from transformer.data.readers import SentencePair
from transformer.errors import UserError

one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
MD5 = "md5:" + "0" * 32


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the test, with an empty cache."""
    monkeypatch.setenv("TRANSFORMER_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pairs_of(corpus: str | Path, split: str = "train", direction: str = "en-de", mirror: Path | None = None) -> Any:
    return list(sentence_pairs(str(corpus), split, direction, mirror and str(mirror)))


def swapped(pairs: list[SentencePair]) -> list[SentencePair]:
    return [(target, source) for source, target in pairs]


def corpus_of(name: str, manifest: dict[str, Any]) -> FileCorpus:
    return FileCorpus(name, Manifest.from_json(manifest, name), Path.cwd())


def write(path: Path, data: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def tgz(members: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


# The corpora that are built in


OFFICIAL = """
0374e52a56ddc7b7e6eb7c7758d6f6915d49dbafdd32693979365022754076bd 3998026 deu.txt.gz
0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7 657632379 training-parallel-europarl-v7.tgz
c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5 918311367 training-parallel-commoncrawl.tgz
cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485 80418416 training-parallel-nc-v9.tgz
cda0f85309e8ea4c9c2bc142cd795fb2771a5939ed5b4527b525dae05fa0c145 - dev.tgz
a8cd784e006feb32ac6f3d9ec7eb389a - test-full.tgz
d8a32cfc002a4f12b17429cfa78050e6 - iwslt17-en-de.tgz
b68e7097b179491f6c466ef41ad72b9b - iwslt17-test-en-de.tgz
e3f5b2a075a2da1a395c8b60bf1e9be1 - iwslt17-test-de-en.tgz
9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8 - test_2016_flickr.de.gz
611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9 - test_2016_flickr.en.gz
a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee - test_2017_flickr.de.gz
76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074 - test_2017_flickr.en.gz
799e4854c25d601cb6cb6be29eabe5667734c61ace2f495e03e429031a0bc338 - test_2017_mscoco.de.gz
aab300bfb4427697987e02cd0aacd44bfe8aa50456231b6474c08038bbed2b58 - test_2017_mscoco.en.gz
ddd0130c7d97482dc5197a02141dae8dd79f20f03586c480d675c09a32daf608 - test_2018_flickr.de.gz
ef4f4844037d4c5dea75c9a8ed5fd78905967a26f67c255e230cc9780032654d - test_2018_flickr.en.gz
726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6 - train.de.gz
d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f - train.en.gz
f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a - val.de.gz
14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28 - val.en.gz
"""
"""Checksum, size in bytes and name of every file to download, measured on the real files."""


def test_the_files_of_built_in_corpora_are_the_official_ones() -> None:
    listed = {
        (file["digest"].partition(":")[2], str(file.get("size", "-")), name)
        for described in corpus_manifests().values()
        for name, file in described.get("files", {}).items()
    }
    assert listed == {tuple(line.split()) for line in OFFICIAL.split("\n") if line}


@pytest.mark.parametrize("name", corpus_manifests())
def test_a_built_in_manifest_is_valid_and_lists_all_files_that_it_reads(name: str) -> None:
    described = corpus_manifests()[name]
    Manifest.from_json(described, name)
    read = {
        text.partition(":")[0] for parts in described["splits"].values() for part in parts for text in part.values()
    }
    assert described["licence"] and described["citation"]
    if name == "phrasebook":  # it comes with the package
        return
    assert read == set(described["files"])
    assert len(described["base_urls"]) >= (1 if name == "tatoeba" else 2), "a host may die"


@pytest.mark.parametrize(
    ("name", "splits"),
    [
        ("multi30k", "train valid test test_2017 test_2018 test_mscoco"),
        ("iwslt17", "train valid test test_2015"),
        ("wmt14", "train valid test"),
        ("wmt14-mini", "train valid test"),
        ("tatoeba", "train valid test"),
        ("everyday", "train valid test test_tatoeba test_multi30k test_phrasebook"),
        ("phrasebook", "train valid test"),
        ("pocket", "train valid test"),
        ("copy", "train valid test"),
        ("reverse", "train valid test"),
    ],
)
def test_splits(name: str, splits: str) -> None:
    assert list(find_corpus(name).splits) == splits.split()
    with pytest.raises(UserError, match=f"^{name} has no split 'dev'; its splits are {', '.join(splits.split())}$"):
        sentence_pairs(name, "dev")


@pytest.mark.parametrize(
    ("corpus", "split", "addresses"),
    [
        ("wmt14", "train", ["https://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz"]),
        ("wmt14", "test", ["https://www.statmt.org/wmt14/test-full.tgz"]),
        (
            "multi30k",
            "valid",
            [
                "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a"
                "/data/task1/raw/val.en.gz"
            ],
        ),
        (
            "iwslt17",
            "test",
            ["https://raw.githubusercontent.com/hlt-mt/WIT3/master/archive/2017-01-ted-test/texts/en/de/en-de.tgz"],
        ),
    ],
)
def test_where_a_file_is_fetched_from(
    corpus: str, split: str, addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[tuple[RemoteFile, Path, str | None]] = []

    def fetch(*args: Any) -> Path:
        fetched.append(args)
        raise UserError("that is enough")

    monkeypatch.setattr(corpora, "fetch", fetch)
    with pytest.raises(UserError, match="enough"):
        pairs_of(corpus, split, mirror=Path("there"))
    ((file, kept, mirror),) = fetched
    assert list(file.urls[:1]) == addresses
    assert len(file.urls) == len(corpus_manifests()[corpus]["base_urls"])
    described = corpus_manifests()[corpus]["files"][file.name]
    assert (file.digest, file.size) == (described["digest"], described.get("size"))
    assert (kept, mirror) == (data_folder() / "downloads" / corpus, "there")


def sgm(kind: str, *lines: str) -> str:
    segments = "".join(f'<seg id="{i}">{line}</seg>\n' for i, line in enumerate(lines, 1))
    return f'<{kind} setid="x" srclang="any">\n<doc docid="d">\n<p>\n{segments}</p>\n</doc>\n</{kind}>\n'


def xml(*lines: str) -> str:
    segments = "".join(f'<seg id="{i}"> {line} </seg>\n' for i, line in enumerate(lines, 1))
    return f'<?xml version="1.0"?>\n<mteval>\n<doc docid="1">\n<title>T</title>\n{segments}</doc></mteval>'


TATOEBA_VALID, TATOEBA_TEST = [258, 263], [13, 130]
"""Which of the sentences ``0!`` to ``39!`` are held out by their hash."""

SMALL: dict[str, dict[str, bytes]] = {
    "multi30k": {
        f"{split}.{side}.gz": gzip.compress(f"{split} {side}.\nA\u2028{side}.\n\x85 {side}\n".encode())
        for split in "train val test_2016_flickr test_2017_flickr test_2018_flickr test_2017_mscoco".split()
        for side in ("en", "de")
    },
    "wmt14": {
        "training-parallel-europarl-v7.tgz": tgz(
            {
                "training/europarl-v7.cs-en.en": "Not this.\n",
                "training/europarl-v7.de-en.de": "Wiederaufnahme\n\nDanke.\n",
                "training/europarl-v7.de-en.en": "Resumption\n\nThank you.\n",
            }
        ),
        "training-parallel-commoncrawl.tgz": tgz({"commoncrawl.de-en.de": "Netz\n", "commoncrawl.de-en.en": "Web\r\n"}),
        "training-parallel-nc-v9.tgz": tgz(
            {"training/news-commentary-v9.de-en.de": "Gold?\n", "training/news-commentary-v9.de-en.en": "Gold\u2028?\n"}
        ),
        "dev.tgz": tgz({"dev/newstest2013.de": "Eine Republik\n", "dev/newstest2013.en": "A Republic\n"}),
        "test-full.tgz": tgz(
            {
                "test-full/newstest2014-deen-src.de.sgm": sgm("srcset", "Nicht", "dies"),
                "test-full/newstest2014-deen-src.en.sgm": sgm("srcset", "Gutach &amp; rest", "Two  sets"),
                "test-full/newstest2014-deen-ref.de.sgm": sgm("refset", "Gutach &amp; Rest", "Zwei Anlagen"),
            }
        ),
    },
    "iwslt17": {
        "iwslt17-en-de.tgz": tgz(
            {
                "en-de/train.tags.en-de.en": "<url>http://a</url>\n<title>T</title>\nThank you.\nI <3 it.\n</doc>\n",
                "en-de/train.tags.en-de.de": "<url>http://b</url>\n<title>U</title>\nDanke.\nToll.\n</doc>\n",
                "en-de/IWSLT17.TED.dev2010.en-de.en.xml": xml("Last year &quot;I&quot;"),
                "en-de/IWSLT17.TED.dev2010.en-de.de.xml": xml("Letztes Jahr"),
                "en-de/IWSLT17.TED.tst2015.en-de.en.xml": xml("Fifteen"),
                "en-de/IWSLT17.TED.tst2015.en-de.de.xml": xml("Fünfzehn"),
            }
        ),
        "iwslt17-test-en-de.tgz": tgz({"en-de/IWSLT17.TED.tst2017.en-de.en.xml": xml("Seventeen", "more")}),
        "iwslt17-test-de-en.tgz": tgz({"de-en/IWSLT17.TED.tst2017.de-en.de.xml": xml("Siebzehn", "mehr")}),
    },
    "tatoeba": {"deu.txt.gz": gzip.compress("".join(f"{i}!\t{i}, ja\n" for i in range(300)).encode())},
}
"""Miniature versions of the built-in corpora, with the official file names, archive members and markup."""

EXPECTED: dict[str, dict[str, list[SentencePair]]] = {
    "multi30k": {
        split: [(f"{file} en.", f"{file} de."), ("A\u2028en.", "A\u2028de."), ("\x85 en", "\x85 de")]
        for split, file in {
            "train": "train",
            "valid": "val",
            "test": "test_2016_flickr",
            "test_2017": "test_2017_flickr",
            "test_2018": "test_2018_flickr",
            "test_mscoco": "test_2017_mscoco",
        }.items()
    },
    "wmt14": {
        "train": [
            ("Resumption", "Wiederaufnahme"),
            ("", ""),
            ("Thank you.", "Danke."),
            ("Web", "Netz"),
            ("Gold\u2028?", "Gold?"),
        ],
        "valid": [("A Republic", "Eine Republik")],
        "test": [("Gutach & rest", "Gutach & Rest"), ("Two sets", "Zwei Anlagen")],
    },
    "iwslt17": {
        "train": [("Thank you.", "Danke."), ("I <3 it.", "Toll.")],
        "valid": [('Last year "I"', "Letztes Jahr")],
        "test": [("Seventeen", "Siebzehn"), ("more", "mehr")],
        "test_2015": [("Fifteen", "Fünfzehn")],
    },
    "tatoeba": {
        "train": [(f"{i}!", f"{i}, ja") for i in range(300) if i not in TATOEBA_VALID + TATOEBA_TEST],
        "valid": [(f"{i}!", f"{i}, ja") for i in TATOEBA_VALID],
        "test": [(f"{i}!", f"{i}, ja") for i in TATOEBA_TEST],
    },
}


@pytest.fixture
def small(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror of the miniature corpora. Their manifests are the real ones with other checksums."""
    manifests = copy.deepcopy(corpus_manifests())
    for name, contents in SMALL.items():
        for file, data in contents.items():
            write(folder / "mirror" / file, data)
            manifests[name]["files"][file]["digest"] = sha256(data)
            manifests[name]["files"][file].pop("size", None)
    monkeypatch.setattr(corpora, "corpus_manifests", lambda: manifests)
    return folder / "mirror"


@pytest.mark.parametrize("corpus", SMALL)
def test_a_built_in_corpus_from_a_mirror_then_from_the_cache(corpus: str, small: Path) -> None:
    for split, pairs in EXPECTED[corpus].items():
        assert pairs_of(corpus, split, mirror=small) == pairs
        if corpus != "tatoeba":  # its splits are held out by the source
            assert pairs_of(corpus, split, "de-en", small) == swapped(pairs)
    small.rename("gone")
    assert {split: pairs_of(corpus, split) for split in find_corpus(corpus).splits} == EXPECTED[corpus]
    kept = {path.name for path in (data_folder() / "downloads" / corpus).iterdir() if not path.name.startswith(".")}
    assert kept == set(SMALL[corpus])


def test_a_wrong_file_is_refused_by_name(small: Path) -> None:
    (small / "train.de.gz").write_bytes(gzip.compress(b"something else\n"))
    with pytest.raises(UserError, match=r"cannot use .*train\.de\.gz \(wrong checksum\)"):
        pairs_of("multi30k", mirror=small)


# Generated corpora


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_corpus_has_its_sizes_and_no_source_in_two_splits(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for split, size in {"train": 500, "valid": 20, "test": 30}.items():
        monkeypatch.setitem(GENERATED_SIZE, split, size)
    splits = {split: pairs_of(name, split) for split in GENERATED_SIZE}
    times = 5 if name == "pocket-200k" else 1
    assert {split: len(pairs) for split, pairs in splits.items()} == {**GENERATED_SIZE, "train": 500 * times}
    sources = [{source for source, _ in pairs} for pairs in splits.values()]
    assert len(set().union(*sources)) == sum(len(side) for side in sources)
    assert pairs_of(name, "test", "de-en") == swapped(splits["test"])


def test_pocket_200k_starts_with_pocket_and_has_the_same_test_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GENERATED_SIZE, "train", 50)
    assert pairs_of("pocket-200k", "train")[:50] == pairs_of("pocket", "train")
    assert pairs_of("pocket-200k", "test") == pairs_of("pocket", "test")
    assert find_corpus("pocket-200k").fingerprint() != find_corpus("pocket").fingerprint()


def test_no_string_is_in_two_splits_of_copy() -> None:
    lines = [source for split in GENERATED_SIZE for source, _ in pairs_of("copy", split)]
    assert len(set(lines)) == len(lines) == 42_000


def test_copy_and_reverse() -> None:
    for name, step in (("copy", 1), ("reverse", -1)):
        pairs = pairs_of(name, "valid")
        assert all(target == source[::step] for source, target in pairs)
        assert len({source for source, _ in pairs}) == 1000
        assert all(re.fullmatch("[a-z]( [a-z]){2,11}", source) for source, _ in pairs)
        assert {source.count(" ") for source, _ in pairs} == set(range(2, 12))


# Own corpora


def test_a_table_and_two_files_and_an_archive(folder: Path) -> None:
    pairs = [(f"E{i}", f"D{i}") for i in range(100)]
    english, german = ("".join(f"{side}\n" for side in sides) for sides in zip(*pairs, strict=True))
    write(folder / "a b.tsv", "".join(f"{e}\t{d}\tmore\n" for e, d in pairs))
    write(folder / "x.en", english)
    write(folder / "x.de.gz", gzip.compress(german.encode()))
    write(folder / "home/x.tgz", tgz({"in/en": english, "in/de": german}))
    write(folder / "sub/with, comma.tsv", (folder / "a b.tsv").read_bytes())
    write(folder / "at 12:30.tsv", (folder / "a b.tsv").read_bytes())
    write(folder / "a:x.en", english)
    names = [
        "a b.tsv",
        str(folder / "a b.tsv"),
        "at 12:30.tsv",
        "a:x.en,x.de.gz",
        "x.en,x.de.gz",
        f"{folder}/x.en,./x.de.gz",
        "sub/with, comma.tsv",
    ]
    for name in [*names, "~/x.tgz:in/en,~/x.tgz:in/de"]:
        corpus = find_corpus(name)
        assert corpus.languages == ("en", "de") and corpus.splits == ["train", "valid", "test"]
        read = {split: pairs_of(name, split) for split in corpus.splits}
        assert sorted(chain.from_iterable(read.values())) == sorted(pairs)
        backwards = [pair for split in corpus.splits for pair in pairs_of(name, split, "de-en")]
        assert sorted(swapped(backwards)) == sorted(pairs)


def test_names_of_files_and_folders_may_have_commas(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "a,b/t.en", "".join(f"a{i}\n" for i in range(100)))
    write(folder / "a,b/t,1.de", "".join(f"b{i}\n" for i in range(100)))
    monkeypatch.chdir(folder / "a,b")
    name = absolute_name("t.en,t,1.de")
    assert name == f"{folder}/a,b/t.en,{folder}/a,b/t,1.de"
    assert set(pairs_of(name)) < {(f"a{i}", f"b{i}") for i in range(100)}
    with pytest.raises(UserError, match=f"^cannot read {folder}/a,b/none.en: No such file"):
        pairs_of(absolute_name("none.en,none.de"))


@pytest.mark.parametrize(
    ("name", "languages"),
    [
        ("my.de,my.en", ("de", "en")),
        ("my.en.gz,my.fr.txt.gz", ("en", "fr")),
        ("c.tgz:de-en/train.de,c.tgz:de-en/train.en.txt", ("de", "en")),
        ("c.tgz:in/de,en", ("de", "en")),
        ("english.txt,german.gz", ("en", "de")),
        ("english.gz,german.gz", ("en", "de")),
        ("train.de-en,x.de", ("en", "de")),
        ("t.tsv:2,t.tsv:1", ("en", "de")),
    ],
)
def test_two_files_are_in_the_languages_of_their_names_and_need_not_exist(
    name: str, languages: tuple[str, str]
) -> None:
    assert find_corpus(name).languages == find_corpus(name.replace(",", ", ")).languages == languages


def test_the_order_of_two_files_named_by_language_does_not_matter(folder: Path) -> None:
    for side in ("en", "de"):
        write(folder / f"x.{side}", "".join(f"{side} {i}\n" for i in range(100)))
    for direction in ("en-de", "de-en"):
        for split in ("train", "valid", "test"):
            assert pairs_of("x.de,x.en", split, direction) == pairs_of("x.en, x.de", split, direction)
    assert absolute_name("x.en, x.de") == f"{folder}/x.en,{folder}/x.de"


def test_a_manifest_with_remote_and_local_files(folder: Path) -> None:
    archive = tgz({"in/fr": "un\ndeux\n", "in/en": "one\ntwo\n"})
    described = {
        "description": "A corpus\nof my own",
        "languages": ["fr", "en"],
        "base_urls": ["http://127.0.0.1:9/"],
        "files": {"a+b_1.tgz": {"digest": sha256(archive), "path": "x/y.tgz", "size": len(archive)}},
        "splits": {
            "train": [
                {"fr": "a+b_1.tgz:in/fr", "en": "a+b_1.tgz:in/en"},
                {"fr": "sub/t.tsv:2", "en": "sub/t.tsv:1"},
                {"en": "~/three.en", "fr": str(folder / "elsewhere/three.fr")},
            ],
            "valid": [{"fr": "../up.fr", "en": "up.en"}],
            "test": [{"fr": "up.en", "en": "up.en"}],
            "other_2": [{"fr": "up.en", "en": "../up.fr"}],
        },
    }
    write(folder / "mine/corpus.json", b"\xef\xbb\xbf" + json.dumps(described).encode())
    write(folder / "mine/sub/t.tsv", "three\ttrois\n")
    write(folder / "mine/up.en", "up\n")
    write(folder / "up.fr", "haut\n")
    write(folder / "home/three.en", "four\n")
    write(folder / "elsewhere/three.fr", "quatre\n")
    write(folder / "mirror/a+b_1.tgz", archive)
    for name in ("mine/corpus.json", f"{folder}/mine/../mine/corpus.json"):
        train = pairs_of(name, "train", "fr-en", folder / "mirror")
        assert train == [("un", "one"), ("deux", "two"), ("trois", "three"), ("quatre", "four")]
        assert pairs_of(name, "train", "en-fr") == swapped(train)
        assert pairs_of(name, "valid", "fr-en") == [("haut", "up")]
        assert pairs_of(name, "other_2", "fr-en") == [("up", "haut")]
        assert find_corpus(name).splits == ["train", "valid", "test", "other_2"]
        with pytest.raises(UserError, match=r"^the direction of corpus must be fr-en or en-fr; got 'en-de'$"):
            sentence_pairs(name, "train")
    assert (data_folder() / "downloads/corpus/a+b_1.tgz").is_file()


def test_paths_are_relative_to_the_base_urls(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described = {
        "languages": ["en", "de"],
        "base_urls": ["https://a/b/", "https://c"],
        "files": {"x": {"digest": MD5, "path": "p/q"}, "y": {"digest": MD5, "size": 7}},
        "splits": {"train": [{"en": "x", "de": "y"}], "valid": [{"en": "y", "de": "y"}]},
    }
    fetched: list[RemoteFile] = []
    monkeypatch.setattr(corpora, "fetch", lambda file, *_: fetched.append(file) or write(folder / "one", "1\n"))
    assert list(corpus_of("m", described).pairs("valid")) == [("1", "1")]
    list(corpus_of("m", described).pairs("train"))
    assert {file.name: (file.urls, file.size) for file in fetched} == {
        "x": (("https://a/b/p/q", "https://c/p/q"), None),
        "y": (("https://a/b/y", "https://c/y"), 7),
    }


def test_files_are_read_lazily(folder: Path) -> None:
    described = {
        "languages": ["en", "de"],
        "splits": {name: [{"en": name, "de": name}] for name in ("train", "valid", "test")},
    }
    write(folder / "m.json", json.dumps(described))
    write(folder / "valid", "1\n" * 1000 + "\xff" * 100)
    pairs = sentence_pairs("m.json", "valid")
    assert next(pairs) == ("1", "1")
    with pytest.raises(UserError, match=r"cannot read .*/train: No such file"):
        pairs_of("m.json")


# Sentences held out


def own(*parts: list[SentencePair], **splits: list[SentencePair]) -> FileCorpus:
    """A corpus in tables, with these parts of ``train``."""
    named = {f"train{i}": pairs for i, pairs in enumerate(parts)} | splits
    for name, pairs in named.items():
        write(Path(f"{name}.tsv"), "".join(f"{s}\t{t}\n" for s, t in pairs))
    tables = {name: [{"en": f"{name}.tsv:1", "de": f"{name}.tsv:2"}] for name in named}
    train = [table for name in tables if name.startswith("train") for table in tables[name]]
    return corpus_of(
        "own", {"languages": ["en", "de"], "splits": {"train": train} | {name: tables[name] for name in splits}}
    )


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=200), st.integers(0, 200))
@example([(i, i) for i in range(60)] * 2, 60)
@settings(one_folder, max_examples=30)
def test_all_pairs_of_a_source_sentence_are_in_one_split_and_none_is_lost(
    numbers: list[tuple[int, int]], cut: int
) -> None:
    pairs = [(f"sentence {s}", f"Satz {t}") for s, t in numbers]
    corpus = own(pairs[:cut], pairs[cut:])
    splits = {split: list(corpus.pairs(split)) for split in corpus.splits}
    assert Counter(chain.from_iterable(splits.values())) == Counter(pairs)
    sources = [{source for source, _ in split} for split in splits.values()]
    assert len(set().union(*sources)) == sum(len(side) for side in sources)
    for split in splits.values():  # in the original order
        remaining = iter(pairs)
        assert all(pair in remaining for pair in split)


@pytest.mark.parametrize(("count", "share"), [(15_000, 1 / 20), (42_000, 1 / 21), (60_000, 1 / 30)])
def test_how_much_is_held_out(count: int, share: float) -> None:
    corpus = own([(str(i), "x") for i in range(count)])
    for split in ("valid", "test"):
        held_out = sum(1 for _ in corpus.pairs(split))
        assert abs(held_out - count * share) < 4 * (count * share) ** 0.5
        assert held_out < 1.15 * MAX_HELD_OUT


@pytest.mark.parametrize("direction", ["en-de", "de-en"])
def test_the_pairs_in_no_split_are_counted(direction: str) -> None:
    write(Path("large.tsv"), "".join(f"{i}\t{i // 2}\n" for i in range(60_000)))
    used = sum(len(pairs_of("large.tsv", split, direction)) for split in ("train", "valid", "test"))
    assert count_unused_pairs("large.tsv", direction) == 60_000 - used > 1500
    assert own([(str(i), "x") for i in range(30_000)]).n_unused() == 0
    assert count_unused_pairs("copy", direction) == 0


def test_no_source_sentence_is_in_two_splits_in_the_other_direction() -> None:
    """Each German sentence has two English translations."""
    write(Path("both.tsv"), "".join(f"{i}\t{i // 2}\n" for i in range(4000)))
    for direction in ("en-de", "de-en"):
        splits = [pairs_of("both.tsv", split, direction) for split in ("train", "valid", "test")]
        sources = [{source for source, _ in split} for split in splits]
        assert len(set().union(*sources)) == sum(map(len, sources))
        assert sum(map(len, splits)) == 4000 and all(sources)


def test_only_what_is_missing_is_held_out() -> None:
    pairs, valid = [(str(i), "x") for i in range(2000)], [("v", "w"), ("0", "x")]
    both, only_test = own(pairs), own(pairs, valid=valid)
    assert list(only_test.pairs("valid")) == valid
    assert set(only_test.pairs("train")) | set(only_test.pairs("test")) == set(pairs)
    assert not set(only_test.pairs("train")) & set(only_test.pairs("test"))
    assert 50 < sum(1 for _ in only_test.pairs("test")) < 150
    assert sum(1 for _ in both.pairs("train")) < sum(1 for _ in only_test.pairs("train")) < 2000
    everything = own(pairs, valid=valid, test=[("t", "u")], extra=[("e", "f")])
    assert list(everything.pairs("train")) == pairs
    assert list(everything.pairs("test")) == [("t", "u")] and list(everything.pairs("extra")) == [("e", "f")]
    only_valid = own(pairs, test=[("t", "u")], extra=[("e", "f")])
    assert list(only_valid.pairs("extra")) == [("e", "f")] and list(only_valid.pairs("test")) == [("t", "u")]
    assert only_valid.splits == ["train", "valid", "test", "extra"]


@pytest.mark.parametrize(("before", "after"), [(1000, 39_000), (20_999, 21_000), (39_999, 42_000), (5000, 60_000)])
def test_no_sentence_moves_between_train_and_test_while_a_corpus_grows(before: int, after: int) -> None:
    splits = []
    for count in (before, after):
        corpus = own([(str(i), f"{count}") for i in range(count)])
        splits.append({split: {s for s, _ in corpus.pairs(split)} for split in corpus.splits})
    assert splits[0]["train"] <= splits[1]["train"]
    for split in ("valid", "test"):
        assert not splits[1][split] & splits[0]["train"] and not splits[1]["train"] & splits[0][split]


def test_a_manifest_sets_the_share_that_is_held_out() -> None:
    write(Path("t.tsv"), "".join(f"{i}\tx\n" for i in range(50_000)))
    described = {"languages": ["en", "de"], "splits": {"train": [{"en": "t.tsv:1", "de": "t.tsv:2"}]}}
    sizes = {}
    for one_in in (10, 84, 2250):
        corpus = corpus_of("m", described | {"hold_out_every": one_in})
        sizes[one_in] = [sum(1 for _ in corpus.pairs(split)) for split in corpus.splits]
        assert sum(sizes[one_in]) == 50_000 and corpus.n_unused() == 0
    assert 4700 < sizes[10][2] < 5300 and 500 < sizes[84][2] < 700


# Combined corpora


def test_no_held_out_sentence_is_in_the_train_split_of_a_combined_corpus() -> None:
    """Not even with other capitals or punctuation, another translation, or held out of the other part only."""
    captions = own(
        [("A cat?", "Kater"), ("Kitty", "DIE KATZE!"), ("A dog sleeps.", "Er schläft.")],
        valid=[("a cat", "die Katze")],
        test=[("Snow-white", "nichts")],
    )
    write(
        Path("sentences.tsv"),
        "A dog\tHund\nsnow WHITE!\tschneeweiß\nA cat sleeps\tx\nA dog\tHund\nA dog sleeps.\tEr schläft.\n",
    )
    write(Path("held_out.tsv"), "Thanks.\tDanke.\n")
    locations = {part: [{"en": f"{part}.tsv:1", "de": f"{part}.tsv:2"}] for part in ("sentences", "held_out")}
    splits = {"train": locations["sentences"], "valid": locations["held_out"], "test": locations["held_out"]}
    sentences = corpus_of("sentences", {"languages": ["en", "de"], "splits": splits})
    combined = CombinedCorpus("both", (captions, sentences), (1, 2))
    twice = [("A dog", "Hund"), ("A cat sleeps", "x")]
    assert list(combined.pairs("train")) == [("A dog sleeps.", "Er schläft."), *twice, *twice]
    assert list(combined.pairs("valid")) == [("a cat", "die Katze"), ("Thanks.", "Danke.")]
    assert list(combined.pairs("test")) == [("Snow-white", "nichts"), ("Thanks.", "Danke.")]
    assert list(combined.pairs("test_own")) == [("Snow-white", "nichts")]
    assert list(combined.pairs("test_sentences")) == [("Thanks.", "Danke.")]
    assert combined.splits == ["train", "valid", "test", "test_own", "test_sentences"]
    assert combined.fingerprint() != CombinedCorpus("both", (sentences, captions), (2, 1)).fingerprint()
    assert combined.fingerprint() != CombinedCorpus("both", (captions, sentences), (1, 1)).fingerprint()


def test_the_corpus_everyday_from_a_mirror(small: Path) -> None:
    captions, sentences = EXPECTED["multi30k"], EXPECTED["tatoeba"]
    held_out = {"A\u2028en.", "\x85 en"}  # each split of the miniature captions has these two
    find_corpus("everyday").download("train", str(small))
    small.rename("gone")
    expected = [pair for pair in sentences["train"] + captions["train"] if pair[0] not in held_out]
    phrases = {split: pairs_of("phrasebook", split) for split in ("train", "test")}
    train = pairs_of("everyday", "train", "de-en")
    assert train[: len(expected)] == swapped(expected)
    repeated = swapped(train[len(expected) :])
    assert repeated == repeated[: len(repeated) // 3] * 3 and set(repeated) <= set(phrases["train"])
    assert len(repeated) > 2.9 * len(phrases["train"])  # but for sentences that are held out elsewhere
    assert pairs_of("everyday", "test_tatoeba") == sentences["test"]
    assert pairs_of("everyday", "test") == sentences["test"] + captions["test"] + phrases["test"]


# Fingerprints


def test_the_fingerprint_changes_with_the_text_and_the_manifest(folder: Path) -> None:
    pairs = [("a", "b"), ("c", "d")]
    corpus = own(pairs, valid=[("e", "f")])
    fingerprints = {corpus.fingerprint()}
    assert own(pairs, valid=[("e", "f")]).fingerprint() in fingerprints
    fingerprints.add(own(pairs, valid=[("e", "g")]).fingerprint())
    fingerprints.add(own([("a", "b"), ("c", "D")], valid=[("e", "f")]).fingerprint())
    fingerprints.add(own(pairs[:1], pairs[1:], valid=[("e", "f")]).fingerprint())
    assert len(fingerprints) == 4
    splits = copy.deepcopy(corpus.manifest.splits)
    splits["train"][0]["de"] = "train0.tsv:1"
    changed = replace(corpus, manifest=replace(corpus.manifest, splits=splits))
    assert changed.fingerprint() not in fingerprints
    described = replace(corpus.manifest, licence="CC0", description="a b", citation="c", base_urls=["https://a"])
    assert replace(corpus, manifest=described).fingerprint() == corpus.fingerprint()


def test_the_fingerprint_does_not_depend_on_where_files_are_downloaded_from(folder: Path) -> None:
    digest = "sha256:" + "0" * 64
    parts = [{"en": "a.tsv:1", "de": "a.tsv:2"}]
    manifest = Manifest(("en", "de"), {"train": parts}, {"a.tsv": ManifestFile(digest)}, ["https://a"])
    moved = replace(manifest, files={"a.tsv": ManifestFile(digest, "v2/a.tsv", 123)}, base_urls=["https://b"])
    other = replace(manifest, files={"a.tsv": ManifestFile("sha256:" + "1" * 64)})
    first, second, third = (FileCorpus("m", one, folder).fingerprint() for one in (manifest, moved, other))
    assert first == second != third


def test_the_fingerprint_of_fetched_files_is_their_checksum_and_needs_no_file() -> None:
    digests = set()
    for digest in (MD5, "md5:" + "1" * 32):
        described = {
            "languages": ["en", "de"],
            "base_urls": ["https://a"],
            "files": {"x": {"digest": digest}},
            "splits": {"train": [{"en": "x:en", "de": "x:de"}]},
        }
        digests.add(corpus_of("m", described).fingerprint())
    assert len(digests) == 2
    assert not data_folder().exists()


def test_the_fingerprint_of_your_own_text_stays_so_that_old_runs_resume(folder: Path) -> None:
    write(folder / "x.en", "a\n")
    write(folder / "x.de", "b\n")
    write(folder / "x.tsv", "a\tb\n")
    fingerprints = [find_corpus(name).fingerprint()[:12] for name in ("x.en,x.de", "x.tsv")]
    assert fingerprints == ["cb901590e4c1", "127282a6b9cb"]


def test_the_fingerprint_of_a_generated_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({find_corpus(name).fingerprint() for name in ("pocket", "copy")}) == 2
    before = find_corpus("copy").fingerprint()
    monkeypatch.setitem(GENERATED_SIZE, "train", 7)
    assert find_corpus("copy").fingerprint() != before


# Mistakes


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "wmt99",
            "there is no corpus 'wmt99'; choose one of pocket, pocket-200k, copy, reverse, multi30k, tatoeba, ",
        ),
        ("", "there is no corpus ''"),
        ("none.tsv", "cannot read none.tsv: no such file$"),
        ("none.tsv.gz", "cannot read none.tsv.gz: no such file$"),
        ("none/talks.txt", "cannot read none/talks.txt: no such file$"),
        ("./folder.json/..", r"./folder.json/.. is a folder: your own text must be TABLE.tsv \("),
        ("x" * 300, "there is no corpus 'xxx"),
        (".", r"there is no corpus '\.'"),
        ("none.json", "the manifest none.json is missing"),
        ("~no-such-user/none.json", "the manifest ~no-such-user/none.json is missing"),
        ("folder.json", "cannot read the manifest .*folder.json: it is not a file"),
        ("latin.json", "the manifest .*latin.json is not UTF-8: 'utf-8' codec"),
        ("empty.json", "the manifest .*empty.json is not JSON: Expecting value"),
        ("deep.json", "the manifest .*deep.json is nested too deeply"),
    ],
)
def test_an_unknown_or_invalid_corpus(name: str, message: str, folder: Path) -> None:
    (folder / "folder.json").mkdir()
    write(folder / "latin.json", '{"licence": "für"}'.encode("latin-1"))
    write(folder / "empty.json", "")
    write(folder / "deep.json", '{"splits": {"train": ' + "[" * 5000 + "]" * 5000 + "}}")
    with pytest.raises(UserError, match=f"^{message}"):
        find_corpus(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.en,none.de", "none.de: No such file"),
        ("a.en,a\0b", "embedded null byte"),
        ("~no-such-user/a,a.de", "~no-such-user/a: No such file"),
    ],
)
def test_a_missing_text(name: str, message: str, folder: Path) -> None:
    write(folder / "a.en", "a\n")
    with pytest.raises(UserError, match=rf"^cannot read .*{message}"):
        find_corpus(name).fingerprint()
    with pytest.raises(UserError, match=r"^cannot read .*"):
        pairs_of(name)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("a.en", "there is no tab in line 1 of a.en"),
        ("a.en,", "'a.en,' does not name two files"),
        (", a.de", "', a.de' does not name two files"),
        ("a.en,b.de,c.en", "'a.en,b.de,c.en' does not name two files"),
    ],
)
def test_what_your_own_text_must_be(name: str, problem: str, folder: Path) -> None:
    write(folder / "a.en", "a\n")
    expected = "your own text must be TABLE.tsv (English, a tab, German), TEXT.en,TEXT.de or MANIFEST.json"
    with pytest.raises(UserError, match=f"^{re.escape(f'{problem}: {expected}')}$"):
        find_corpus(name)


@pytest.mark.parametrize(
    "name", ["a.en,b.en.gz", "a.de,b.de", "t.tsv:1,./t.tsv:1", "a,a", "a.de,b", "a,b.en", "a.fr,b"]
)
def test_two_files_in_unclear_languages(name: str) -> None:
    first, second = name.split(",")
    message = f"the languages of {first} and {second} are unclear: give two different files, both named by language"
    with pytest.raises(UserError, match=f"^{re.escape(message)}, as in TEXT.en,TEXT.de$"):
        find_corpus(name)


def test_messages_name_your_own_corpus_by_its_file(folder: Path) -> None:
    write(folder / "talks.tsv", "a\tb\n")
    by_name = "set data.direction, or name the files by language, as in TEXT.en,TEXT.fr"
    for corpus, name, remedy in (
        ("talks.tsv", "talks", "for other languages, write a MANIFEST.json"),
        ("news.en,news.de", "news", by_name),
        ("talks.tsv:1,talks.tsv:2", "talks", by_name),
    ):
        assert find_corpus(corpus).name == name
        message = f"the direction of {name} must be en-de or de-en; got 'en-fr'; {remedy}"
        with pytest.raises(UserError, match=f"^{message}$"):
            sentence_pairs(corpus, "train", "en-fr")


def test_direction_and_split_are_checked_before_any_download() -> None:
    with pytest.raises(UserError, match=r"^the direction of wmt14 must be en-de or de-en; got 'en-fr'$"):
        sentence_pairs("wmt14", "train", "en-fr")
    with pytest.raises(UserError, match=r"^multi30k has no split 'test_2016'; its splits are train, valid"):
        sentence_pairs("multi30k", "test_2016")


def test_different_numbers_of_lines_are_refused(folder: Path) -> None:
    write(folder / "a.en", "1\n2\n3\n")
    write(folder / "a.de", "1\n2\n")
    with pytest.raises(UserError, match=r"a\.en has 3 lines but .*a\.de has 2"):
        pairs_of("a.en,a.de")


VALID: dict[str, Any] = {
    "description": "d",
    "licence": "l",
    "citation": "c",
    "languages": ["en", "de"],
    "base_urls": ["https://a/b"],
    "files": {"x.tgz": {"path": "p", "digest": MD5, "size": 5}},
    "splits": {"train": [{"en": "x.tgz:e", "de": "x.tgz:d"}], "valid": [{"en": "a.tsv:1", "de": "../b"}]},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """`VALID` with another value at a path such as ``splits/train/0``."""
    manifest = copy.deepcopy(VALID)
    *above, last = [int(key) if key.isdigit() else key.replace("|", "/") for key in path.split("/")]
    inside: Any = manifest
    for key in above:
        inside = inside[key]
    inside[last] = value
    return manifest


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "colour",
            1,
            r"m.json: 'colour' is unknown; is the file from another .*\? This one knows languages, .*, citation$",
        ),
        ("languages", ["en"], r": languages must be a list of 2 values; got \['en'\]"),
        ("languages", ["en", "en"], ": languages must be two different languages; got en twice"),
        ("languages", ["en", "de", "fr"], ": languages must be a list of 2 values; got"),
        ("languages", ["EN", "de"], r": languages\[0\] must be two or three lowercase letters, such as en; got 'EN'"),
        ("languages", ["en\n", "de"], r": languages\[0\] must be"),
        ("languages", ["en", "fr"], r": splits: train\[0\] must have the texts of en and fr; got \{'de': "),
        ("languages", "en", ": languages must be a list of 2 values; got 'en'"),
        ("base_urls", ["ftp://a"], r": base_urls\[0\] must be an address that begins with https://.*; got 'ftp://a'"),
        ("base_urls", [], ": files: .* no base_urls"),
        ("base_urls", "https://a", ": base_urls must be a list; got 'https://a'"),
        ("hold_out_every", 2, ": hold_out_every must be from 3 to 1,000,000; got 2"),
        ("hold_out_every", 10**7, ": hold_out_every must be from 3 to 1,000,000; got 10000000"),
        ("hold_out_every", 5.0, ": hold_out_every must be a whole number or null; got 5.0"),
        ("hold_out_every", True, ": hold_out_every must be a whole number or null; got True"),
        ("splits", {}, ": splits: train is missing"),
        ("splits/train", [], ": splits: train must not be an empty list"),
        ("splits/train", {"en": "a", "de": "b"}, r": splits: train must be a list; got \{"),
        ("splits/train/0", {"en": "a"}, r": splits: train\[0\] must have the texts of en and de; got \{'en': 'a'\}"),
        ("splits/train/0", "a", r": splits: train\[0\] must be a JSON object; got 'a'"),
        ("splits/valid/0/fr", "b", r": splits: valid\[0\] must have the texts of en and de; got \{.*'fr': 'b'\}"),
        ("splits/valid/0/en", "", r": splits: valid\[0\]: en must be one line of text .*; got ''"),
        ("splits/valid/0/en", 5, r": splits: valid\[0\]: en must be one line of text .*; got 5"),
        ("splits/valid/0/en", "a\0b", r": en must be .*; got 'a\\x00b'"),
        ("splits/valid/0/en", "\ud800", r": en must be .*; got '\\ud800'"),
        ("splits/valid/0/e\nn", "a\n", r": splits: valid\[0\]: a key must be .*; got 'e\\nn'"),
        ("splits/..|a", [{"en": "a", "de": "b"}], r": splits: a key must be .*; got '\.\./a'"),
        ("splits/a\n", [{"en": "a", "de": "b"}], r": splits: a key must be .*; got 'a\\n'"),
        ("files/..|x", {"digest": MD5}, r": files: a key must be the name of a file, .*; got '\.\./x'"),
        ("files/y", {}, r": files: y: digest is missing"),
        ("files/y", {"digest": "sha1:" + "0" * 40}, r": files: y: digest must be .*; got 'sha1:0+'"),
        ("files/y", {"digest": "md5:" + "0" * 31}, r": files: y: digest must be .*; got '"),
        ("files/y", {"digest": "0" * 64}, r": files: y: digest must be .*; got '0+'"),
        ("files/y", {"digest": ""}, r": files: y: digest must be .*; got ''"),
        ("files/y", {"digest": MD5 + "0"}, r": files: y: digest must be sha256: and 64, or md5: and 32 .*; got '"),
        ("files/y", {"digest": MD5.upper()}, r": files: y: digest must be .*; got '"),
        ("files/x.tgz/path", 1, r": files: x\.tgz: path must be one line of text .*; got 1"),
        ("files/x.tgz/path", None, r": files: x\.tgz: path must be one line of text .*; got None"),
        ("files/x.tgz/size", -1, r": files: x\.tgz: size must not be negative; got -1"),
        ("files/x.tgz/size", 10**400, r": files: x\.tgz: size must be a whole number or null; got 10+"),
        ("files/x.tgz/size", "5", r": files: x\.tgz: size must be a whole number or null; got '5'"),
        ("files/x.tgz/size", True, r": files: x\.tgz: size must be a whole number or null; got True"),
        ("files/x.tgz/sha", "5", r": files: x\.tgz: 'sha' is unknown; .* knows digest, path, size$"),
        ("files", [], r": files must be a JSON object; got \[\]"),
        ("licence", None, ": licence must be text without .*; got None"),
        ("licence", "a\tb", r": licence must be text without tabs and other control characters; got 'a\\tb'"),
        ("description" * 50, "d", "m.json: 'desc.*\\.\\.\\..*ption' is unknown; "),
    ],
)
def test_a_manifest_with_a_mistake(path: str, value: Any, message: str, folder: Path) -> None:
    write(folder / "m.json", json.dumps(changed(path, value)))
    with pytest.raises(UserError, match=r"^the manifest .*/m\.json") as error:
        find_corpus(str(folder / "m.json"))
    assert re.search(message, str(error.value)), str(error.value)
    assert str(error.value).isprintable() and len(str(error.value)) < 500 + len(str(folder))


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a/b", "/etc/passwd", "../a", "a..b", "a\\b", "a\0b", ".hidden", "a.", "C:a", "a b", "a\n", "-/"],
)
def test_a_file_outside_the_cache_folder_is_refused(name: str) -> None:
    message = f"the manifest m: files: a key must be the name of a file, with letters, .*; got {re.escape(repr(name))}"
    with pytest.raises(UserError, match=f"^{message}$"):
        corpus_of("m", VALID | {"files": {name: {"digest": MD5}}})


@given(st.text(alphabet="ab-+_./\\\0 ~\n", max_size=6))
@settings(one_folder)
def test_a_file_name_that_is_accepted_stays_in_the_folder(name: str) -> None:
    with suppress(UserError):
        corpus_of("m", VALID | {"files": {name: {"digest": MD5}}})
        assert (Path("/folder") / name).resolve() == Path("/folder") / name and not name.startswith(".")
        assert "\\" not in name and ".." not in name


@pytest.mark.parametrize("name", ["training-parallel-nc-v9.tgz", "train.de.gz", "test_2016_flickr.en.gz", "a", "c++.1"])
def test_names_of_real_files_are_accepted(name: str) -> None:
    assert list(corpus_of("m", VALID | {"files": {name: {"digest": MD5}}}).manifest.files) == [name]


NAMES = st.sampled_from(
    ["en", "de", "train", "valid", "files", "digest", "size", "languages", "splits", "base_urls", "a\n"]
)
PATHS = st.sampled_from(["../x", "/x", "a:b", "a\nb", "a\0", "\ud800", "~x", ".", "..", "x.tgz:1", "\\x", "a" * 300])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text() | NAMES | PATHS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | NAMES | PATHS, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A valid manifest with up to three random changes, insertions and deletions."""
    manifest = copy.deepcopy(VALID)
    for _ in range(draw(st.integers(0, 3))):
        inside: Any = manifest
        while True:
            keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(inside[key], (dict, list)) and draw(st.booleans()):
                inside = inside[key]
                continue
            what = draw(st.sampled_from(["exchange", "add", "take away"]))
            if what == "take away":
                del inside[key]
            elif what == "add" and isinstance(inside, dict):
                inside[draw(NAMES | PATHS)] = draw(st.sampled_from([inside[key], 1, {}, [], "a"]))
            else:
                inside[key] = draw(PATHS | NAMES | JSON)
            break
    return manifest


def or_error(use: Callable[[], object]) -> object:
    """Call a function; return its result or the one-line message of its UserError."""
    try:
        return use()
    except UserError as error:
        line = str(error)
    assert "\n" not in line
    return line


@given(mutated() | JSON)
@settings(one_folder, max_examples=80)
@example(VALID)
@example(VALID | {"splits": {"train": [{"en": "a" * 300, "de": "b"}]}})  # longer than a file name may be
def test_any_json_is_a_valid_manifest_or_a_user_error(described: Any) -> None:
    path = write(Path("fuzz.json"), json.dumps(described))
    corpus = or_error(lambda: FileCorpus.load(path))
    if not isinstance(corpus, FileCorpus):
        return
    first, second = corpus.languages
    assert {"train", "valid", "test"} <= set(corpus.splits)
    or_error(corpus.fingerprint)
    for split in corpus.splits:
        or_error(lambda split=split: pairs_of(path, split, f"{first}-{second}"))
    assert {entry.name for entry in os.scandir(".")} <= {"fuzz.json", "cache"}


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,0e-tru \\u', max_size=60).map(str.encode))
@settings(one_folder, max_examples=60)
@example(b"{}")
def test_any_bytes_are_a_manifest_or_a_user_error(data: bytes) -> None:
    with pytest.raises(UserError, match=r"^the manifest fuzz\.json[ :]"):
        FileCorpus.load(write(Path("fuzz.json"), data))
