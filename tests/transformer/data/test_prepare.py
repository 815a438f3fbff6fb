"""Prepare a small corpus, with faults injected at every step."""

import dataclasses
import errno
import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from transformer.data import prepare as prepare_module
from transformer.data import readers as reading
from transformer.data.batching import SequencesWriter
from transformer.data.cleaning import NO_CLEANING, Cleaner, CleaningConfig
from transformer.data.corpora import sentence_pairs
from transformer.data.prepare import DataConfig, PreparedData, prepare, prepared_folder
from transformer.data.tokenizer import UNK, Tokenizer, sample_lines
from transformer.errors import UserError

ROOT = Path(__file__).parents[3]
SIZE = 40
"""Vocabulary size: enough for the letters of the corpus."""
DATA = DataConfig("own.json")
PAIRS = 300


def write_corpus(count: int = PAIRS, seed: int = 0) -> None:
    """Write ``own.json`` and its tables: ``count`` training pairs, and 20 for validation and test."""
    rng = random.Random(seed)

    def side() -> str:
        return " ".join("".join(rng.choices("abcdefgh", k=rng.randint(1, 4))) for _ in range(rng.randint(1, 8)))

    for split, size in (("train", count), ("valid", 20)):
        Path(f"{split}.tsv").write_text("".join(f"{side()}\t{side()}\n" for _ in range(size)), "utf-8")
    splits = {split: [{"en": f"{split}.tsv:1", "de": f"{split}.tsv:2"}] for split in ("train", "valid")}
    Path("own.json").write_text(json.dumps({"languages": ["en", "de"], "splits": {**splits, "test": splits["valid"]}}))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder; the test's working directory is next to it and contains a corpus."""
    monkeypatch.setenv("TRANSFORMER_DATA", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write_corpus()
    return tmp_path / "cache/prepared"


def contents(folder: Path) -> dict[str, bytes]:
    """The contents of a folder and its subfolders, without lock files."""
    files = [path for path in folder.rglob("*") if not path.name.endswith(".lock")]
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in files}


def ids(data: PreparedData, split: str) -> list[tuple[list[int], list[int]]]:
    sources, targets = data.tokens(split)
    assert len(sources) == len(targets)
    return [(sources[i].tolist(), targets[i].tolist()) for i in range(len(sources))]


def config(**changes: Any) -> DataConfig:
    return dataclasses.replace(DATA, **changes)


# What a store holds


@pytest.mark.parametrize("chunk", [1, 7, 300, 10_000])
@pytest.mark.parametrize("direction", ["en-de", "de-en"])
def test_stored_tokens_are_those_of_the_cleaned_text_in_order(
    chunk: int, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare_module, "CHUNK", chunk)
    cleaning = CleaningConfig(min_words=2)
    data = prepare(config(direction=direction, cleaning=cleaning), SIZE)
    encode = data.tokenizer.encode
    train, valid = (list(sentence_pairs("own.json", split, direction)) for split in ("train", "valid"))
    clean = list(Cleaner(cleaning).clean(train))
    assert 100 < len(clean) < PAIRS
    assert ids(data, "train") == [(encode(s), encode(t)) for s, t in clean]
    assert ids(data, "valid") == [(encode(s), encode(t)) for s, t in valid]
    assert data.valid == valid
    report = data.cleaning
    assert (report.seen, report.kept) == (PAIRS, len(clean)) and report.dropped["min_words"] > 0
    described = json.loads((data.folder / "store.json").read_text())
    assert described["pairs"] == {"train": len(clean), "valid": 20} and described["vocab_size"] == SIZE
    assert DataConfig.from_dict(described["data"]) == config(direction=direction, cleaning=cleaning)


@pytest.mark.parametrize("direction", ["en-de", "de-en"])
def test_sentences_in_another_language_are_dropped(direction: str) -> None:
    german, dutch = "Das Hotel liegt nahe am Strand.", "Het hotel ligt dicht bij het strand."
    Path("train.tsv").write_text("".join(f"The hotel is close to the beach.\t{line}\n" for line in (german, dutch)))
    cleaning = dataclasses.replace(NO_CLEANING, min_language_probability=0.01)
    data = prepare(config(direction=direction, cleaning=cleaning), SIZE)
    assert (data.cleaning.kept, data.cleaning.dropped) == (1, {"min_language_probability": 1})
    (example,) = data.cleaning.examples["min_language_probability"]
    assert dutch in (example["source"], example["target"])


def test_an_unknown_language_is_reported_before_anything_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("own.json").write_text(Path("own.json").read_text().replace('"de"', '"tlh"'))
    monkeypatch.setattr(prepare_module, "sentence_pairs", lambda *_: pytest.fail("it was read"))
    unknown = config(direction="en-tlh", cleaning=dataclasses.replace(NO_CLEANING, min_language_probability=0.01))
    with pytest.raises(UserError, match="cannot identify the language 'tlh'"):
        prepare(unknown, SIZE)


def test_files_of_a_prepared_folder() -> None:
    data = prepare(DATA, SIZE)
    tokens = {
        f"{split}.{side}.{part}.npy"
        for split in ("train", "valid")
        for side in ("source", "target")
        for part in ("ids", "ends")
    }
    others = {"tokenizer.model", "cleaning.json", "store.json", "valid.source.txt", "valid.target.txt"}
    assert set(contents(data.folder)) == tokens | others
    assert len(data.tokenizer) == SIZE


def test_the_vocabulary_is_learned_from_the_cleaned_text_of_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(prepare_module, "sample_lines", lambda lines: seen.extend(lines) or seen)
    cleaning = CleaningConfig(min_words=3)
    data = prepare(config(cleaning=cleaning, max_train_pairs=200), SIZE)
    pairs = list(sentence_pairs("own.json", "train"))[:200]
    clean = list(Cleaner(cleaning).clean(pairs))
    assert seen == [side for pair in clean for side in pair]
    assert data.tokenizer.model == Tokenizer.train(seen, SIZE).model


def test_the_sample_is_bounded_and_all_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare_module, "sample_lines", partial(sample_lines, count=50))
    trained: list[list[str]] = []
    train = Tokenizer.train
    monkeypatch.setattr(Tokenizer, "train", lambda lines, *rest: trained.append(lines) or train(lines, *rest))
    data = prepare(DATA, SIZE)
    assert [len(lines) for lines in trained] == [50]
    assert len(ids(data, "train")) == PAIRS


def test_only_the_first_training_pairs() -> None:
    whole, part = prepare(DATA, SIZE), prepare(config(max_train_pairs=250), SIZE)
    assert len(ids(whole, "train")) == PAIRS and len(ids(part, "train")) == 250
    assert part.cleaning.seen == 250
    assert whole.valid == part.valid
    firsts = list(sentence_pairs("own.json", "train"))[:250]
    assert ids(part, "train") == [(part.tokenizer.encode(s), part.tokenizer.encode(t)) for s, t in firsts]
    assert len(ids(prepare(config(max_train_pairs=999), SIZE), "train")) == PAIRS


def test_long_pairs_are_left_out_of_the_tokens() -> None:
    whole, short = prepare(DATA, SIZE), prepare(config(max_length=9), SIZE)
    assert whole.tokenizer.model == short.tokenizer.model
    for split in ("train", "valid"):
        fit = [(s, t) for s, t in ids(whole, split) if len(s) <= 9 and len(t) <= 9]
        assert ids(short, split) == fit and 0 < len(fit) < len(ids(whole, split))
        assert max(len(side) for pair in fit for side in pair) == 9
    assert short.valid == whole.valid and len(whole.valid) == 20


def test_bpe_dropout_stores_several_segmentations_of_each_training_pair() -> None:
    whole = prepare(DATA, SIZE)
    dropped = prepare(config(bpe_dropout=0.3, segmentations=4), SIZE)
    assert dropped.tokenizer.model == whole.tokenizer.model and ids(dropped, "valid") == ids(whole, "valid")
    decode = whole.tokenizer.decode
    stored = [(decode(s), decode(t)) for s, t in ids(dropped, "train")]
    assert stored == [(decode(s), decode(t)) for s, t in ids(whole, "train")] * 4
    ways: dict[tuple[str, str], set[str]] = {}
    for pair, (s, t) in zip(stored, ids(dropped, "train"), strict=True):
        ways.setdefault(pair, set()).add(f"{s} {t}")
    assert sum(len(each) > 1 for each in ways.values()) > 0.9 * len(ways)


def test_an_empty_side_has_no_tokens_but_stays_in_the_text() -> None:
    for name, line in (("train.tsv", "abc\t \n\tabc\n"), ("valid.tsv", " \t\n")):
        with Path(name).open("a") as file:
            file.write(line)
    data = prepare(DATA, SIZE)
    assert len(ids(data, "train")) == PAIRS and len(ids(data, "valid")) == 20
    assert data.valid[20:] == [(" ", "")]
    assert data.cleaning.kept == PAIRS + 2


def test_bytes_for_characters_that_the_vocabulary_does_not_have() -> None:
    Path("valid.tsv").write_text("ab 猫\tab\n", "utf-8")
    without, with_bytes = prepare(DATA, SIZE), prepare(config(byte_fallback=True), SIZE + 256)
    assert UNK in ids(without, "valid")[0][0] and UNK not in ids(with_bytes, "valid")[0][0]
    assert with_bytes.tokenizer.decode(ids(with_bytes, "valid")[0][0]) == "ab 猫"


BYTES = Tokenizer.train(["ab ba"], 263, byte_fallback=True)
SIDES = st.text(st.sampled_from("ab \r\x85\u2028\x0b\x1c\ufeff猫\0'\""), max_size=6)


@given(st.lists(st.tuples(SIDES, SIDES), min_size=1, max_size=12), st.integers(1, 5))
@example([("\ufeffa", "a\r"), ("a\x85b", "\ufeff\ufeffb")], 1)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_strange_characters_shift_nothing(pairs: list[tuple[str, str]], chunk: int) -> None:
    """Unicode line separators and byte order marks inside sentences survive a round trip through a file."""
    for split in ("train", "valid"):
        with Path(f"{split}.tsv").open("w", encoding="utf-8", newline="\n") as file:
            file.write("a\tb\n" + "".join(f"{s}\t{t}\n" for s, t in pairs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare_module, "CHUNK", chunk)
        patch.setattr(Tokenizer, "train", lambda *_: BYTES)
        data = prepare(DATA, 263)
    read = list(sentence_pairs("own.json", "valid"))
    encoded = [(BYTES.encode(s), BYTES.encode(t)) for s, t in read]
    assert ids(data, "train") == ids(data, "valid") == [(s, t) for s, t in encoded if s and t]
    assert data.valid == [(s.removesuffix("\r"), t.removesuffix("\r")) for s, t in read]


def test_progress_bars_on_stderr_only_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    prepare(DATA, SIZE)
    assert capsys.readouterr() == ("", "")
    prepare(DATA, SIZE + 1, progress=True)
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = [f"own, {split}: {work}" for work in ("reading", "tokenising") for split in ("train", "valid")]
    assert printed.err.splitlines() == lines


# Memory


def peak(count: int) -> int:
    write_corpus(count)
    tracemalloc.start()
    try:
        prepare(DATA, SIZE)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare_module, "CHUNK", 100)
    monkeypatch.setattr(reading, "BLOCK_SIZE", 1 << 12)
    monkeypatch.setattr(prepare_module, "sample_lines", partial(sample_lines, count=100))
    prepare(DATA, SIZE)  # so that what is loaded only once doesn't count
    assert peak(6000) < 1.2 * peak(1500)


# Prepared once


def test_prepared_data_is_reused_even_on_a_read_only_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    data = prepare(DATA, SIZE)

    def read_only(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("filelock.FileLock.acquire", read_only)
    monkeypatch.setattr(os, "mkdir", read_only)
    assert prepare(DATA, SIZE) == data
    with pytest.raises(UserError, match=r"^cannot store the prepared data in .*: Read-only file system"):
        prepare(DATA, SIZE + 1)


def test_three_threads_at_once_prepare_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    trained, train = [], Tokenizer.train

    def slowly(*args: Any) -> Tokenizer:
        trained.append(args)
        time.sleep(0.3)
        return train(*args)

    monkeypatch.setattr(Tokenizer, "train", slowly)
    done: list[PreparedData] = []
    threads = [threading.Thread(target=lambda: done.append(prepare(DATA, SIZE))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 3 and len(set(done)) == 1 and len(trained) == 1


OTHER_SETTINGS: dict[str, Any] = {
    "corpus": "other.json",
    "direction": "de-en",
    "max_train_pairs": 299,
    "max_length": 149,
    "byte_fallback": True,
    "bpe_dropout": 0.1,
    "segmentations": 2,
    "augmentation": 0.5,
    "cleaning": CleaningConfig(),
}
OTHER_CLEANING = {
    "drop_empty": True,
    "drop_control_characters": True,
    "min_words": 1,
    "max_words": 100,
    "max_ratio": 2.0,
    "drop_identical": True,
    "min_language_probability": 0.01,
    "drop_duplicates": True,
}


def other(name: str, value: Any) -> DataConfig:
    """The configuration with one setting changed (several segmentations need dropout)."""
    return config(**{"bpe_dropout": 0.2, name: value} if name == "segmentations" else {name: value})


def test_every_setting_has_its_own_folder() -> None:
    assert {field.name for field in dataclasses.fields(DataConfig)} == set(OTHER_SETTINGS)
    assert {field.name for field in dataclasses.fields(CleaningConfig)} == set(OTHER_CLEANING)
    Path("other.json").write_text(Path("own.json").read_text().replace("train.tsv:2", "train.tsv:1"))
    changes = [DATA, *(other(name, value) for name, value in OTHER_SETTINGS.items())]
    changes += [config(cleaning=dataclasses.replace(NO_CLEANING, **{n: value})) for n, value in OTHER_CLEANING.items()]
    folders = [prepared_folder(change, SIZE) for change in changes] + [prepared_folder(DATA, SIZE + 1)]
    digests = [folder.name.rpartition("-")[2] for folder in folders]
    assert len(set(digests)) == len(digests) and all(len(digest) == 12 for digest in digests)
    assert folders[0].name == f"own-en-de-{SIZE}-{digests[0]}"
    assert [prepared_folder(change, SIZE) for change in changes] == folders[:-1]


def test_other_versions_have_their_own_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    old = prepare(DATA, SIZE)
    before = contents(old.folder)
    folders = {old.folder}
    with monkeypatch.context() as patch:
        patch.setattr(prepare_module, "FORMAT", prepare_module.FORMAT + 1)
        new = prepare(DATA, SIZE)
        assert json.loads((new.folder / "store.json").read_text())["format"] == prepare_module.FORMAT
        folders.add(new.folder)
    with monkeypatch.context() as patch:
        patch.setattr(sentencepiece, "__version__", "9.9")
        folders.add(prepared_folder(DATA, SIZE))
    assert len(folders) == 3
    identified = config(cleaning=dataclasses.replace(NO_CLEANING, min_language_probability=0.01))
    folders.add(prepared_folder(identified, SIZE))
    with monkeypatch.context() as patch:
        patch.setattr(prepare_module, "version", lambda name: f"{name} 9.9")
        folders.add(prepared_folder(identified, SIZE))
    assert len(folders) == 5
    assert prepared_folder(DATA, SIZE) == old.folder and contents(old.folder) == before


def test_changing_the_text_in_place_changes_the_folder() -> None:
    first = prepare(DATA, SIZE)
    for split in ("train", "valid"):
        text = Path(f"{split}.tsv").read_text()
        Path(f"{split}.tsv").write_text("a" + text)
        second = prepare(DATA, SIZE)
        assert second.folder != first.folder
        assert second.valid == list(sentence_pairs("own.json", "valid"))
        Path(f"{split}.tsv").write_text(text)
        assert prepare(DATA, SIZE) == first


def test_changing_a_checksum_in_the_manifest_changes_the_folder() -> None:
    manifest = json.loads(Path("own.json").read_text()) | {"base_urls": ["https://a"]}
    folders = set()
    for digit in "01":
        manifest["files"] = {"train.tsv": {"digest": "md5:" + digit * 32}}
        Path("own.json").write_text(json.dumps(manifest))
        folders.add(prepared_folder(DATA, SIZE))
    assert len(folders) == 2


# Broken preparations


def at_call(number: int, of: Callable[..., Any], fault: BaseException) -> Callable[..., Any]:
    """Wrap a function so that its n-th call fails."""
    calls = 0

    def failing(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            raise fault
        return of(*args, **kwargs)

    return failing


def fails_inside(of: Callable[..., Iterator[Any]], fault: BaseException) -> Callable[..., Iterator[Any]]:
    """Wrap a generator function so that it fails after three items."""

    def failing(*args: Any, **kwargs: Any) -> Iterator[Any]:
        items = of(*args, **kwargs)
        for _ in range(3):
            yield next(items)
        raise fault

    return failing


PLANTED: dict[str, tuple[Any, str, Callable[[Any, BaseException], Any]]] = {
    "reading": (prepare_module, "sentence_pairs", fails_inside),
    "cleaning": (Cleaner, "clean", fails_inside),
    "sampling": (prepare_module, "sample_lines", partial(at_call, 1)),
    "training the tokenizer": (Tokenizer, "train", partial(at_call, 1)),
    "making a writer": (SequencesWriter, "__init__", partial(at_call, 4)),
    "reading again": (prepare_module, "read_pairs", fails_inside),
    "encoding": (Tokenizer, "encode_all", partial(at_call, 4)),
    "writing": (SequencesWriter, "extend", partial(at_call, 3)),
    "closing": (SequencesWriter, "__exit__", partial(at_call, 2)),
    "deleting the text": (Path, "unlink", partial(at_call, 1)),
    "writing down": (Path, "write_text", partial(at_call, 2)),
    "naming": (os, "replace", partial(at_call, 1)),
}
FAULTS: dict[str, tuple[BaseException, type[BaseException], str]] = {
    "full disk": (
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        UserError,
        r"^cannot store the prepared data in .*: No space left on device\. Free some disk space, or set",
    ),
    "bug": (RuntimeError("a bug"), RuntimeError, "^a bug$"),
    "interrupt": (KeyboardInterrupt(), KeyboardInterrupt, "^$"),
}


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("step", PLANTED)
def test_a_failed_preparation_leaves_no_files(
    step: str, kind: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare_module, "CHUNK", 100)
    other = prepare(config(max_train_pairs=200), SIZE)
    before = contents(cache)
    fault, raised, message = FAULTS[kind]
    owner, name, plant = PLANTED[step]
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, plant(getattr(owner, name), fault))
        with pytest.raises(raised, match=message):
            prepare(DATA, SIZE)
    assert contents(cache) == before
    assert ids(other, "train")
    assert len(ids(prepare(DATA, SIZE), "train")) == PAIRS


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "Disk quota exceeded. Free some disk space, or set"),
        (OSError("odd"), "odd. Set"),
    ],
)
def test_disk_errors_while_cleaning(fault: Exception, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cleaner, "clean", fails_inside(Cleaner.clean, fault))
    with pytest.raises(UserError, match=f"^cannot store the prepared data in .*: {message} .TRANSFORMER_DATA"):
        prepare(DATA, SIZE)


@pytest.mark.parametrize("size", [100, 1000, 2500, 3500, 6000])
def test_a_real_limit_on_file_sizes(size: int, cache: Path) -> None:
    """The operating system limits file sizes, so writing fails whenever a buffer is flushed."""
    other = prepare(config(max_train_pairs=200), SIZE)
    before = contents(cache)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        with pytest.raises(UserError, match=r"^cannot store the prepared data in .*: File too large\. Set"):
            prepare(DATA, SIZE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert contents(cache) == before and ids(other, "train")


def test_a_killed_preparation_does_not_block_others(cache: Path) -> None:
    script = """
import sys, time
from pathlib import Path
from transformer.data import prepare as prepare_module
from transformer.data.batching import SequencesWriter
from transformer.data.prepare import DataConfig, prepare

def hang(self, sequences):
    extend(self, sequences)
    Path("inside").touch()
    time.sleep(600)

extend, SequencesWriter.extend = SequencesWriter.extend, hang
prepare(DataConfig("own.json"), int(sys.argv[1]))
"""
    other = prepare(config(max_train_pairs=200), SIZE)
    before = contents(cache)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", script, str(SIZE)], env=environment) as killed:
        try:
            while not Path("inside").exists():
                assert killed.poll() is None
                time.sleep(0.01)
            folder = prepared_folder(DATA, SIZE)
            assert (cache / f".{folder.name}.unfinished").is_dir() and not folder.exists()
            done: list[PreparedData] = []
            waiting = threading.Thread(target=lambda: done.append(prepare(DATA, SIZE)))
            waiting.start()
            waiting.join(0.3)
            assert waiting.is_alive()  # it waits for the other process
        finally:
            killed.send_signal(signal.SIGKILL)
    waiting.join(30)
    assert [data.folder for data in done] == [folder] and len(ids(done[0], "train")) == PAIRS
    after = contents(cache)
    assert {name: after[name] for name in before} == before
    assert {Path(name).parts[0] for name in after} == {folder.name, other.folder.name}


def test_an_incomplete_folder_is_replaced() -> None:
    data = prepare(DATA, SIZE)
    before = contents(data.folder)
    (data.folder / "store.json").unlink()
    (data.folder / "valid.source.ids.npy").write_bytes(b"")
    prepare(DATA, SIZE)
    assert contents(data.folder) == before


def test_a_damaged_folder_is_reported() -> None:
    data = prepare(DATA, SIZE)
    for text in ("", "{", "{}", "[]", '{"settings": {}, "colour": 1}'):
        (data.folder / "cleaning.json").write_text(text)
        with pytest.raises(UserError, match=r"cleaning.json.*: delete its folder and prepare"):
            _ = data.cleaning
    for path in data.folder.iterdir():
        path.unlink()
    for read in ("cleaning", "valid", "tokenizer"):
        with pytest.raises(UserError, match=str(data.folder)):
            getattr(data, read)
    with pytest.raises(UserError, match="missing or damaged"):
        data.tokens("valid")


# Mistakes


def test_the_cache_folder_is_a_file(cache: Path) -> None:
    cache.parent.write_text("mine")
    with pytest.raises(
        UserError,
        match=f"^cannot store the prepared data in {cache}: Not a directory. Set .TRANSFORMER_DATA to a folder that",
    ):
        prepare(DATA, SIZE)
    assert cache.parent.read_text() == "mine"


def test_a_corpus_name_too_long_for_a_folder() -> None:
    name = "x" * 240 + ".json"
    Path(name).write_bytes(Path("own.json").read_bytes())
    with pytest.raises(UserError, match=r"^cannot store the prepared data in .*: File name too long"):
        prepare(DataConfig(name), SIZE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"ab\tba\nab\t\xff\n", r"train\.tsv: line 2 is not UTF-8 \(at byte 9\)"),
        (b"ab\tba\nab ba\n", r"train\.tsv: line 2 has no column 2"),
        (b"ab\t" + b"a" * 1_000_000, r"train\.tsv: line 1 has 1,000,000 bytes or more"),
        (b"", "^own train has no sentence pairs to train on: it is empty$"),
        (b"\t\n" * 9, "^cannot train a tokenizer on this text"),
        (b"ab\tba\n", "^the text is too small for a vocabulary of 40: choose a model.vocab_size of at most"),
        (
            "".join(chr(0x4E00 + i) for i in range(50)).encode() + b"\ta\n",
            "is too small for all characters of the text",
        ),
    ],
)
def test_a_text_that_cannot_be_used(text: bytes, message: str, cache: Path) -> None:
    Path("train.tsv").write_bytes(text)
    with pytest.raises(UserError, match=message):
        prepare(DATA, SIZE)
    assert contents(cache) == {}


def test_everything_filtered_away(cache: Path) -> None:
    with pytest.raises(
        UserError, match=r"^own train has no sentence pairs to train on: kept 0 of 300 pairs.* min_words=9: 300$"
    ):
        prepare(config(cleaning=dataclasses.replace(NO_CLEANING, min_words=9)), SIZE)
    long = "a b c d e f g h"
    Path("valid.tsv").write_text(f"{long}\t{long}\n")
    with pytest.raises(UserError, match=r"^none of the 1 valid pairs of own has 1 to 7 tokens on each side$"):
        prepare(config(max_length=7), SIZE)
    Path("train.tsv").write_text(f"{long}\t{long}\n" * 1200)
    with pytest.raises(UserError, match=r"^none of the 1,200 train pairs of own has 1 to 1 tokens on each side$"):
        prepare(config(max_length=1), 14)
    assert contents(cache) == {}


def test_no_pair_is_left_for_validation(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tokenizer, "train", lambda *_: pytest.fail("it was trained"))
    Path("small.tsv").write_text("ab\tba\n" * 5)
    Path("valid.tsv").write_text("")
    for corpus, name in (("small.tsv", "small"), ("own.json", "own")):
        with pytest.raises(UserError, match=f"^{name} has no pairs for validation: 1 source sentence in 20 is held"):
            prepare(config(corpus=corpus), SIZE)
    assert contents(cache) == {}


def test_an_unknown_direction_or_corpus_leaves_no_files(cache: Path) -> None:
    with pytest.raises(UserError, match=r"^the direction of own must be en-de or de-en; got 'en-fr'$"):
        prepare(config(direction="en-fr"), SIZE)
    with pytest.raises(UserError, match=r"^there is no corpus 'none'"):
        prepare(config(corpus="none"), SIZE)
    assert contents(cache) == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"direction": "../../en-de"},
            r"^data.direction must be two languages joined by a hyphen, such as en-de; got '\.\./\.\./en-de'$",
        ),
        (
            {"direction": "en-de\n"},
            r"^data.direction must be two languages joined by a hyphen, such as en-de; got 'en-de\\n'$",
        ),
        ({"direction": "ende"}, "^data.direction must be two languages"),
        ({"max_train_pairs": 0}, "^data.max_train_pairs must be at least 1; got 0$"),
        ({"max_length": 0}, "^data.max_length must be at least 1; got 0$"),
        ({"bpe_dropout": 1.0}, r"^data.bpe_dropout must be at least 0 and less than 1; got 1\.0$"),
        ({"bpe_dropout": -0.1}, "^data.bpe_dropout must be at least 0"),
        ({"segmentations": 0}, "^data.segmentations must be at least 1"),
        ({"segmentations": 2}, "because all of them would be identical; got 2$"),
    ],
)
def test_settings_out_of_range(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        config(**change)
    assert config(max_train_pairs=1, max_length=1).max_train_pairs == 1


def test_settings_survive_json() -> None:
    for change in (DATA, config(cleaning=CleaningConfig(max_ratio=2), byte_fallback=True, max_train_pairs=5)):
        assert DataConfig.from_dict(json.loads(json.dumps(dataclasses.asdict(change)))) == change
    before_cleaning = {"corpus": "own.json", "direction": "en-de", "max_train_pairs": 7, "max_length": 150}
    assert DataConfig.from_dict(before_cleaning) == config(max_train_pairs=7)


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({}, "data: there is no corpus"),
        (
            {"corpus": "copy", "colour": "red"},
            r"data: 'colour' is unknown; is the file from another version of this package\? This one knows corpus, ",
        ),
        ({"corpus": "copy", "direction": None}, "data: direction must be a string; got None"),
        (
            {"corpus": "copy", "max_train_pairs": "many"},
            "data: max_train_pairs must be a whole number or null; got 'many'",
        ),
        ({"corpus": "copy", "max_length": 0}, "must be at least 1"),
        ({"corpus": "copy", "cleaning": {"min_colour": 1}}, "data: cleaning: 'min_colour' is unknown"),
        (
            {"corpus": "copy", "cleaning": {"min_words": "many"}},
            "data: cleaning: min_words must be a whole number; got 'many'",
        ),
        ({"corpus": "copy", "cleaning": None}, "data: cleaning must be a JSON object; got None"),
        ({"corpus": "copy", "cleaning": {"max_ratio": 0.5}}, "max_ratio must be 0"),
    ],
)
def test_settings_of_another_version_are_refused(described: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        DataConfig.from_dict(described)
