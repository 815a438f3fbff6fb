"""Evaluation of untrained models from start to end: the files written, the text printed, and the errors."""

import gzip
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from transformer.checkpoint import save_checkpoint
from transformer.cli import main
from transformer.config import ModelConfig
from transformer.data.corpora import own_corpus_sha256, sentence_pairs
from transformer.data.tokenizer import Tokenizer
from transformer.evaluation import evaluate
from transformer.evaluation.evaluate import evaluate_test_set
from transformer.evaluation.metrics import paired_bootstrap, score_translations
from transformer.model import Transformer
from transformer.translator import Translator

SOURCES = ["a b c", "", "d e f g", "h i " * 20, "\x85"]
REFERENCES = ["a b c", "", "d e f\rg", "h i", "x"]
SCORES = ["BLEU", "BLEU lc", "BLEU intl", "BLEU intl lc", "chrF2", "METEOR", "BLEU paper"]


def make_run(folder: Path, seed: int, **data: str) -> Path:
    """A run folder, with a model whose translations are long enough to differ from another's."""
    folder.mkdir()
    torch.manual_seed(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    tokenizer = Tokenizer.train([" ".join(letters), " ".join(letters[::-1])] * 3, 34)
    (folder / "tokenizer.model").write_bytes(tokenizer.model)
    shape = ModelConfig(vocab_size=len(tokenizer), d_model=32, n_heads=4, d_ff=32, n_layers=1, max_length=12)
    save_checkpoint(folder, "best", Transformer(shape), {"metrics": {"step": 7}})
    (folder / "recipe.json").write_text(json.dumps({"data": {"corpus": "copy", "direction": "en-de", **data}}))
    return folder


def write(path: Path, lines: list[str]) -> str:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return str(path)


def fails(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        main(["evaluate", "--device", "cpu", *args])
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert stopped.value.code == 2 and printed.out == "" and line.startswith("error: ")
    return line


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "one", 1)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return make_run(tmp_path / "two", 2)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    source, reference = write(tmp_path / "own.en", SOURCES), write(tmp_path / "own.de", REFERENCES)
    return ["--source", source, "--reference", reference]


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").removesuffix("\n").split("\n")


def test_everything_is_kept_and_the_sacrebleu_command_agrees(
    run: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["evaluate", str(run), *files, "--device", "cpu", "--beam-size", "3", "--length-penalty", "0.5"])
    printed = capsys.readouterr().out
    report = json.loads((run / "own.scores.json").read_text())
    hypotheses, references = run / "own.hypotheses.txt", run / "own.references.txt"
    assert lines(references) == ["a b c", "", "d e f g", "h i", "x"]
    translations = lines(hypotheses)
    assert (
        len(translations) == 5 and translations[1] == translations[4] == "" and all(translations[i] for i in (0, 2, 3))
    )

    assert report["test_set"] == {
        "split": "own",
        "direction": "en-de",
        "files": [files[1], files[3]],
        "sentences": 5,
        "empty": 2,
        "truncated": 1,
    }
    assert report["settings"].pop("device").startswith("cpu in fp32")
    assert report["settings"] == {"beam_size": 3, "length_penalty": 0.5, "max_new_tokens": None, "precision": "fp32"}
    assert report["model"]["metrics"] == {"step": 7} and len(report["model"]["weights"]["sha256"]) == 64
    assert {"sacrebleu", "sacremoses", "nltk", "torch", "python", "transformer-course"} <= report["versions"].keys()
    assert 0 < report["seconds"] < 60 and "compared_with" not in report
    assert [score["name"] for score in report["scores"]] == SCORES

    heading = "your test set own: 5 sentences, en-de, beam size 3, length penalty 0.5, on cpu in fp32 ("
    assert printed.startswith(heading)
    assert "empty source sentences, translated as empty lines: 2\n" in printed
    assert "source sentences truncated to the model's limit of 11 tokens: 1\n" in printed
    for score in report["scores"]:
        assert (
            f" {score['value']:.2f} " in printed and score["signature"] in printed and score["explanation"] in printed
        )

    command = [sys.executable, "-m", "sacrebleu", str(references), "-i", str(hypotheses), "-f", "text", "-w", "12"]
    output = subprocess.run([*command, "-m", "bleu", "chrf"], capture_output=True, text=True, check=True).stdout
    assert [line.split()[:3] for line in output.splitlines()] == [
        [f"{s['name']}|{s['signature']}", "=", f"{s['value']:.12f}"] for s in (report["scores"][0], report["scores"][4])
    ]


def test_the_columns_of_a_table_as_test_set(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write(tmp_path / "own.tsv", ["a b c\tc b a", "d\te"])
    main(["evaluate", str(run), "--source", f"{table}:1", "--reference", f"{table}:2", "--device", "cpu"])
    assert capsys.readouterr().out.startswith("your test set own: 2 sentences")
    assert lines(run / "own.references.txt") == ["c b a", "e"] and len(lines(run / "own.hypotheses.txt")) == 2
    assert "own.tsv is a table: say which column, as in " in fails(
        capsys, str(run), "--source", table, "--reference", table
    )


def test_a_split_and_its_settings_in_place_of_files(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [pair for pair in sentence_pairs("copy", "valid") if len(pair[0]) < 10][:20]
    requests = []

    def few(*args: object) -> list[tuple[str, str]]:
        requests.append(args)
        return pairs

    monkeypatch.setattr(evaluate, "sentence_pairs", few)
    main(["evaluate", str(run), "--split", "valid", "--mirror", "there", "--device", "cpu"])
    assert requests == [("copy", "valid", "en-de", "there")]
    printed = capsys.readouterr().out
    assert printed.startswith("copy valid: 20 sentences, en-de, beam size 4, length penalty 0.6, on cpu in fp32 (")
    assert "\nweights: the checkpoint with the lowest validation loss, step 7\n\nmetric " in printed
    report = json.loads((run / "valid.scores.json").read_text())
    assert report["test_set"]["corpus"] == "copy" and report["test_set"]["split"] == "valid"
    beam = Translator.load(run).beam_search([source for source, _ in pairs])
    assert lines(run / "valid.hypotheses.txt") == [best.text for (best,) in beam]
    expected = score_translations([best.text for (best,) in beam], [target for _, target in pairs], "de")
    assert [s["value"] for s in report["scores"]] == [s.value for s in expected]


def test_the_language_is_the_targets(tmp_path: Path, files: list[str]) -> None:
    back = make_run(tmp_path / "back", 1, direction="de-en")
    main(["evaluate", str(back), *files, "--device", "cpu"])
    (score,) = (s for s in json.loads((back / "own.scores.json").read_text())["scores"] if s["name"] == "METEOR")
    assert "stem:porter" in score["signature"]


def test_runs_are_compared_with_the_first(
    run: Path, other: Path, tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    third = make_run(tmp_path / "three", 1)  # as the first
    main(["evaluate", str(run), str(other), str(third), *files, "--device", "cpu"])
    printed = capsys.readouterr().out
    assert f"1: {run}\n" in printed and f"2: {other}\n" in printed and f"3: {third}\n" in printed
    first, second, last = (lines(folder / "own.hypotheses.txt") for folder in (run, other, third))
    assert first == last != second
    reports = [json.loads((folder / "own.scores.json").read_text()) for folder in (run, other, third)]
    assert "compared_with" not in reports[0]
    assert reports[1]["compared_with"]["run"] == str(run)
    expected = paired_bootstrap(first, second, lines(run / "own.references.txt"))
    results = reports[1]["compared_with"]["results"]
    assert [(r["metric"], r["first"], r["second"], r["p_value"]) for r in results] == [
        (c.metric, c.first, c.second, c.p_value) for c in expected
    ]
    assert [r["p_value"] for r in reports[2]["compared_with"]["results"]] == [1, 1]
    for row in ("BLEU 2 - 1", "chrF2 2 - 1", "BLEU 3 - 1 +0.00 1.000", "chrF2 3 - 1 +0.00 1.000"):
        assert any(" ".join(line.split()).startswith(row) for line in printed.splitlines())


def test_what_the_split_is_called_for_gzipped_files_columns_and_members_of_archives(run: Path, tmp_path: Path) -> None:
    source, reference = tmp_path / "news.2014.en.gz", tmp_path / "other.de"
    source.write_bytes(gzip.compress(b"a b\nc d\n"))
    write(reference, ["a b", "c d"])
    main(["evaluate", str(run), "--source", str(source), "--reference", str(reference), "--device", "cpu"])
    assert len(lines(run / "news.2014.hypotheses.txt")) == 2
    table = tmp_path / "own.tsv.gz"
    table.write_bytes(gzip.compress(b"a b\tb a\nc\td\n"))
    main(["evaluate", str(run), "--source", f"{table}:1", "--reference", f"{table}:2", "--device", "cpu"])
    assert len(lines(run / "own.hypotheses.txt")) == 2
    archive = tmp_path / "news.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("news.en", "a b\n")
        file.writestr("news.de", "b a\n")
    members = ["--source", f"{archive}:news.en", "--reference", f"{archive}:news.de"]
    main(["evaluate", str(run), *members, "--device", "cpu"])
    assert len(lines(run / "news.hypotheses.txt")) == 1


def test_split_names_your_own_test_set(run: Path, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["evaluate", str(run), *files, "--split", "my captions", "--device", "cpu"])
    assert capsys.readouterr().out.startswith("your test set my captions: 5 sentences")
    assert sorted(path.name for path in run.glob("*.*.*")) == [
        "my captions.hypotheses.txt",
        "my captions.references.txt",
        "my captions.scores.json",
    ]
    assert json.loads((run / "my captions.scores.json").read_text())["test_set"]["split"] == "my captions"


@pytest.mark.parametrize("name", ["", ".", "..", "../own", "a/b", "a\\b", "/tmp/own", ".hidden"])
def test_a_name_that_leaves_the_folder_is_refused(
    name: str, run: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"a test set cannot be named {name!r}" in fails(capsys, str(run), *files, "--split", name)
    assert not list(run.parent.rglob("*.scores.json"))


def test_a_name_that_belongs_to_a_split_of_the_corpus_is_refused(
    run: Path, tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    message = fails(capsys, str(run), *files, "--split", "test")
    assert message == "error: test is a split of copy: give your own test set another name with --split NAME"
    source = write(tmp_path / "valid.en", SOURCES)
    assert "valid is a split of copy" in fails(capsys, str(run), "--source", source, *files[2:])
    assert not list(run.glob("*.scores.json"))
    unknown = make_run(tmp_path / "unknown", 1, corpus="not-here.json")  # the corpus has been moved away
    main(["evaluate", str(unknown), *files, "--split", "test", "--device", "cpu"])
    assert (unknown / "test.scores.json").exists()


def test_a_second_evaluation_takes_the_place_of_the_first(
    run: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    note = f"note: this replaces earlier results in {run}: own.hypotheses.txt, own.references.txt, own.scores.json; "
    for beam in (1, 2):
        main(["evaluate", str(run), *files, "--device", "cpu", "--beam-size", str(beam)])
        assert json.loads((run / "own.scores.json").read_text())["settings"]["beam_size"] == beam
        assert (note in capsys.readouterr().out) == (beam == 2)
    assert len(list(run.glob("own.*"))) == 3 and not list(run.glob(".*"))


def test_an_interrupted_evaluation_leaves_the_earlier_results(
    run: Path, tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    main(["evaluate", str(run), *files, "--device", "cpu"])
    earlier = {path: path.read_bytes() for path in run.glob("own.*")}
    other = write(tmp_path / "own.txt", ["d e"])
    monkeypatch.setattr(evaluate, "evaluate_test_set", interrupt)
    with pytest.raises(SystemExit, match="130"):
        main(["evaluate", str(run), "--source", other, "--reference", other, "--device", "cpu"])
    assert len(earlier) == 3 and all(path.read_bytes() == content for path, content in earlier.items())


def test_the_same_model_twice_is_refused(
    run: Path, other: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (other.parent / "link").symlink_to(run)
    for again in (run, other.parent / "link"):
        assert "the same model is given twice" in fails(capsys, str(run), str(other), str(again), *files)
    assert not list(run.glob("own.*"))


def test_bad_files_end_in_one_line(
    run: Path, tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    source, reference = files[1], files[3]

    def error(source: str, reference: str) -> str:
        return fails(capsys, str(run), "--source", source, "--reference", reference)

    assert "has 5 lines but" in error(source, write(tmp_path / "more", [*REFERENCES, "y"]))
    assert "empty has no lines" in error(write(tmp_path / "empty", []), write(tmp_path / "nothing", []))
    (tmp_path / "latin").write_bytes("a\nTür\n".encode("latin-1"))
    assert "latin: line 2 is not UTF-8 (at byte 3)" in error(source, str(tmp_path / "latin"))
    assert "none: No such file" in error(str(tmp_path / "none"), reference)
    assert "--source must be a text file; " in error(str(tmp_path), reference)
    for half in (files[:2], files[2:]):
        assert "pass both --source and --reference, or neither" in fails(capsys, str(run), *half)
    assert not list(run.glob("*.txt")) and not list(run.glob("*.scores.json"))


def test_bad_runs_end_in_one_line_before_anything_is_translated(
    run: Path, other: Path, tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no run folder" in fails(capsys, str(run), str(tmp_path / "none"), *files)
    back = make_run(tmp_path / "back", 1, direction="de-en")
    for own in (files, []):
        message = fails(capsys, str(run), str(back), *own)
        assert message == f"error: {run} translates en-de, but {back} de-en: evaluate them separately"
    reverse = make_run(tmp_path / "reverse", 1, corpus="reverse")
    assert fails(capsys, str(run), str(reverse)) == (
        f"error: {run} and {reverse} were trained on different corpora, copy and reverse: evaluate them "
        "separately, or both on your own test set with --source and --reference"
    )
    assert f"{run} and pocket-small were trained on different corpora, copy and pocket" in fails(
        capsys, str(run), "pocket-small"
    )
    (other / "recipe.json").unlink()
    assert f"{other} is not a run folder: it has no recipe.json" in fails(capsys, str(run), str(other), *files)
    assert "no split 'tset'" in fails(capsys, str(run), "--split", "tset")
    assert not list(run.glob("*.txt"))
    main(["evaluate", str(run), str(reverse), *files, "--device", "cpu"])  # on one's own files it can be done
    assert "2 - 1" in capsys.readouterr().out


def test_a_corpus_without_a_pair_in_the_split(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "sentence_pairs", lambda *_: iter([]))
    assert "the split test of copy is empty" in fails(capsys, str(run))


def test_settings_out_of_range_and_a_folder_that_cannot_be_written(
    run: Path, files: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("transformer.files.write_atomically", no_room)
    with pytest.raises(SystemExit):
        main(["evaluate", str(run), *files, "--device", "cpu"])
    assert "own.references.txt: No space left on device" in capsys.readouterr().err.splitlines()[-1]
    with pytest.raises(SystemExit):
        main(["evaluate", str(run), *files, "--device", "cpu", "--beam-size", "0"])
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err == "error: --beam-size must be at least 1; got 0\n"


def test_a_disk_that_becomes_full_costs_no_scores(
    run: Path, files: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(path: Path, data: bytes) -> None:
        if "references" not in path.name:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("transformer.files.write_atomically", no_room)
    with pytest.raises(SystemExit):
        main(["evaluate", str(run), *files, "--device", "cpu"])
    printed = capsys.readouterr()
    assert "chrF2" in printed.out and "METEOR" in printed.out
    assert "own.hypotheses.txt: No space left on device" in printed.err


def test_a_corpus_that_has_changed_since_training_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "table.tsv"
    table.write_text("".join(f"a b {i}\tc d {i}\n" for i in range(60)))
    run = make_run(tmp_path / "one", 1, corpus=str(table))
    recipe = json.loads((run / "recipe.json").read_text()) | {"text_sha256": own_corpus_sha256(str(table))}
    (run / "recipe.json").write_text(json.dumps(recipe))
    monkeypatch.chdir(tmp_path)
    main(["evaluate", "one", "--device", "cpu", "--beam-size", "1"])
    assert "has changed" not in capsys.readouterr().out
    table.write_text(table.read_text() + "one\tmore\n")
    main(["evaluate", "one", "--device", "cpu", "--beam-size", "1"])
    note = f"note: {table} has changed since one was trained, so the test set may also have changed\n"
    assert note in capsys.readouterr().out


def test_a_run_is_evaluated_without_its_training_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for split in ("train", "test"):
        (tmp_path / f"{split}.tsv").write_text("".join(f"a b {i}\tc d {i}\n" for i in range(60)))
    locations = {split: [{"en": f"{split}.tsv:1", "de": f"{split}.tsv:2"}] for split in ("train", "test")}
    manifest = tmp_path / "mine.json"
    manifest.write_text(json.dumps({"languages": ["en", "de"], "splits": locations | {"valid": locations["test"]}}))
    run = make_run(tmp_path / "one", 1, corpus=str(manifest))
    recipe = json.loads((run / "recipe.json").read_text()) | {"text_sha256": own_corpus_sha256(str(manifest))}
    (run / "recipe.json").write_text(json.dumps(recipe))
    (tmp_path / "train.tsv").unlink()
    monkeypatch.chdir(tmp_path)
    main(["evaluate", "one", "--device", "cpu", "--beam-size", "1"])
    printed = capsys.readouterr().out
    assert f"note: cannot tell whether {manifest} has changed since one was trained: cannot read" in printed
    assert "chrF2" in printed


def test_sources_without_references_are_refused_before_they_are_translated(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Translator, "translate_test_set", lambda *_: pytest.fail("translated"))
    translator = Translator.load(run)
    with pytest.raises(ValueError, match=r"one reference per source, .* got 2 sources and 1 references"):
        evaluate_test_set(translator, ["a", "b"], ["a"], "en-de")


def test_no_run_at_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert "give at least one model" in fails(capsys)


def test_translate_still_refuses_what_a_test_set_may_hold(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    translator = Translator.load(run)
    result = translator.translate_test_set(["", "a b c", "a " * 12, "a " * 11])
    assert result.texts[0] == "" and (result.empty, result.truncated) == (1, 1)
    assert result.texts[1:] == [best.text for (best,) in translator.beam_search(["a b c", "a " * 11, "a " * 11])]
    assert translator.translate_test_set([]).texts == translator.translate_test_set([" "]).texts[1:] == []
    for text, message in (("", "is empty"), ("a " * 12, "has 12 tokens; the model reads at most 11")):
        with pytest.raises(SystemExit):
            main(["translate", str(run), text])
        assert message in capsys.readouterr().err
