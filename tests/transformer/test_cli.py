"""The command ``transformer`` as a user types it, on one small run that is trained once."""

import dataclasses
import gzip
import inspect
import io
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import docstring_parser
import pytest
import torch

from transformer import __version__
from transformer.bench.benchmarks import BENCHMARKS
from transformer.checkpoint import average_checkpoints
from transformer.cli import SUMMARIES, main
from transformer.command_line import RecipeCommand
from transformer.commands import COMMANDS, Compile, DataOptions, TrainOptions, bench, should_compile
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.cleaning import CleaningConfig
from transformer.data.generated import GENERATED_SIZE
from transformer.data.prepare import DataConfig
from transformer.data.tokenizer import EOS, PAD
from transformer.decoding import Hypothesis, beam_search
from transformer.device import Device, choose_device
from transformer.models import find_model
from transformer.models.export import export
from transformer.provenance import versions
from transformer.recipes import RECIPES
from transformer.training.run_folder import METRICS_KEYS
from transformer.translator import Translator

pytestmark = pytest.mark.slow

RECIPE_COMMANDS = [name for name, command in COMMANDS.items() if isinstance(command, RecipeCommand)]

SMALL = (
    "--data.max-train-pairs 3000 --training.steps 60 --training.validate-every 30 --training.warmup-steps 20 "
    "--training.batch-tokens 500 --training.learning-rate-factor 0.5".split()
)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="module")
def environment(workplace: Path) -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_DATA", str(workplace / "data"))
        for split, size in {"train": 4000, "valid": 100, "test": 100}.items():
            patch.setitem(GENERATED_SIZE, split, size)
        yield patch


@pytest.fixture(scope="module")
def trained(workplace: Path, environment: pytest.MonkeyPatch) -> tuple[Path, list[Path]]:
    """The folder of a small run, and the files that training left in it; later tests add others."""
    folder = workplace / "runs" / "copy"
    main(["train", "copy", "--device", "cpu", "--run", str(folder), *SMALL])
    return folder, list(folder.iterdir())


@pytest.fixture(scope="module")
def run(trained: tuple[Path, list[Path]]) -> Path:
    return trained[0]


def fails(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """Run a command that must fail in one line, and return the line."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        main(list(args))
    printed = capsys.readouterr()
    lines = [line for line in printed.err.splitlines() if line.startswith("error: ")]
    assert stopped.value.code == 2 and printed.out == "" and len(lines) == 1
    assert "Traceback" not in printed.err
    return lines[0]


def test_a_run_folder_holds_model_tokenizer_recipe_and_metrics(trained: tuple[Path, list[Path]]) -> None:
    run, files = trained
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [m["step"] for m in metrics] == [30, 60]
    assert metrics[1]["valid_loss"] < metrics[0]["valid_loss"]
    assert json.loads((run / "recipe.json").read_text())["training"]["steps"] == 60
    names = sorted(re.sub(r"-[0-9a-f]{12}\.", ".", path.name) for path in files)
    last = "step-0000060"
    assert names == [
        *[
            ".lock",
            "best-weights.safetensors",
            "best.json",
            "log.jsonl",
            "metrics.jsonl",
            "recipe.json",
            "sessions.jsonl",
        ],
        *[f"{last}-state.safetensors", f"{last}-weights.safetensors", f"{last}.json", "tokenizer.model"],
    ]


def test_translate_prints_a_line_a_sentence(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["translate", str(run), "a b c", "d e f g"])
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_name_of_a_file_instead_of_its_text_is_noticed(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a b").write_text("c d e\n")
    main(["translate", str(run), "a b"])
    printed = capsys.readouterr()
    assert printed.out.count("\n") == 1
    note = "note: a b is translated as a sentence; to translate the lines of the file, use < 'a b'\n"
    assert printed.err == note
    main(["translate", str(run), "a b", "a b"])
    main(["translate", str(run), "c d"])
    assert capsys.readouterr().err == ""


def test_several_sentences_in_one_argument_are_translated_one_by_one(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    encode = Translator.encode
    monkeypatch.setattr(Translator, "encode", lambda self, text: seen.append(text) or encode(self, text))
    main(["translate", str(run), "Who is Mr. B? I am.", "a b c"])
    assert seen[-3:] == ["Who is Mr. B?", "I am.", "a b c"]
    assert len(capsys.readouterr().out.splitlines()) == 2
    main(["translate", str(run), "Who is Mr. B? I am.", "--n-best", "2"])
    assert seen[-1] == "Who is Mr. B? I am."


def test_n_best_come_with_falling_scores(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["translate", str(run), "a b c", "--n-best", "3"])
    scores = [float(line.split("\t")[0]) for line in capsys.readouterr().out.splitlines()]
    assert len(scores) == 3 and scores == sorted(scores, reverse=True)


def test_lines_of_standard_input(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("a b c\nd e f\n"))
    main(["translate", str(run)])
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_an_empty_line_of_standard_input_stays_one(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def echo(model: object, source: torch.Tensor, *_: object, **__: object) -> list[list[Hypothesis]]:
        return [[Hypothesis([t for t in row if t not in (PAD, EOS)], -1.0, -1.0)] for row in source.tolist()]

    monkeypatch.setattr("transformer.translator.beam_search", echo)
    monkeypatch.setattr("sys.stdin", io.StringIO("\na b c\n  \nd e f g\n\n"))
    main(["translate", str(run)])
    assert capsys.readouterr().out == "\na b c\n\nd e f g\n\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("\na b c\n\n"))
    main(["translate", str(run), "--n-best", "2"])
    assert capsys.readouterr().out == "1\t\t\n2\t-1.000\ta b c\n3\t\t\n", "every line has the same columns"
    monkeypatch.setattr("sys.stdin", io.StringIO("a b c\n\n" + "a " * 500 + "\nd e\n"))
    with pytest.raises(SystemExit, match="2"):
        main(["translate", str(run)])
    printed = capsys.readouterr()
    assert printed.out == "a b c\n\n\nd e\n", "one line that is too long doesn't refuse the others"
    assert printed.err.startswith("line 3: the sentence ")
    assert printed.err.endswith("error: 1 of 4 lines could not be translated and are empty in the output\n")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    main(["translate", str(run)])
    assert capsys.readouterr().out == ""
    with pytest.raises(SystemExit, match="2"):
        main(["translate", str(run), "a b c", "", "a " * 500, "d e"])
    printed = capsys.readouterr()
    assert printed.out == "a b c\n\n\nd e\n", "an argument is treated like a line"
    assert printed.err.startswith("argument 2: the sentence is empty")
    assert printed.err.endswith("error: 2 of 4 arguments could not be translated and are empty in the output\n")
    monkeypatch.setattr("sys.stdin", None)
    assert "nothing to translate: pass a sentence" in fails(capsys, "translate", str(run))


@pytest.mark.parametrize(
    "invalid",
    ["ein Café\n".encode("latin-1"), "a b\n".encode("utf-16-le"), gzip.compress(b"a b\n", mtime=0)],
    ids=["latin-1", "utf-16", "gzip"],
)
@pytest.mark.parametrize(("encoding", "errors"), [("utf-8", "strict"), ("ascii", "surrogateescape")])
def test_the_lines_before_one_that_is_not_utf8_are_translated(
    invalid: bytes,
    encoding: str,
    errors: str,
    run: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = "error: line {} of standard input is not UTF-8 text, so translation stops before it: convert the"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(invalid), encoding, errors))
    assert fails(capsys, "translate", str(run)).startswith(message.format(1))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a b c\n\nd e\n" + invalid), encoding, errors))
    with pytest.raises(SystemExit, match="2"):
        main(["translate", str(run)])
    printed = capsys.readouterr()
    assert printed.out.count("\n") == 3 and printed.err.startswith(message.format(4))


def test_standard_input_is_translated_while_it_arrives(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = []

    class Pipe(io.StringIO):
        def readline(self, size: int | None = -1) -> str:  # type: ignore[override]
            printed.append(capsys.readouterr().out)
            return super().readline(size)

    monkeypatch.setattr("transformer.commands.LINES_AT_ONCE", 2)
    monkeypatch.setattr("sys.stdin", Pipe("a\nb\nc\n"))
    main(["translate", str(run), "--beam-size", "1"])
    assert [text.count("\n") for text in printed] == [0, 0, 2, 0]
    assert capsys.readouterr().out.count("\n") == 1


def test_the_searchs_settings_reach_the_search(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def spy(model: object, source: torch.Tensor, *settings: object, **named: object) -> list[list[Hypothesis]]:
        arguments = inspect.signature(beam_search).bind(model, source, *settings, **named)
        arguments.apply_defaults()
        names = ("beam_size", "length_penalty", "n_best", "max_new_tokens")
        seen.append(tuple(arguments.arguments[name] for name in names))
        return [[Hypothesis([], -1.0, -1.0)] * seen[-1][2] for _ in source]

    monkeypatch.setattr("transformer.translator.beam_search", spy)
    search = "--beam-size 5 --length-penalty 0 --n-best 2 --max-new-tokens 7".split()
    main(["translate", str(run), "a b c", *search])
    main(["translate", str(run), "a b c"])
    text = tmp_path / "text"
    text.write_text("a b c\n")
    files = ["--source", str(text), "--reference", str(text)]
    main(["evaluate", str(run), *files, *"--beam-size 3 --length-penalty 0.5 --max-new-tokens 9".split()])
    assert seen == [(5, 0.0, 2, 7), (4, 0.6, 1, None), (3, 0.5, 1, 9)]
    assert "beam size 3, length penalty 0.5, at most 9 tokens, on cpu" in capsys.readouterr().out
    assert json.loads((run / "text.scores.json").read_text())["settings"]["max_new_tokens"] == 9


def test_evaluate_prints_bleu_with_its_signature(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["evaluate", str(run), "--beam-size", "1"])
    out = capsys.readouterr().out
    assert "BLEU " in out and "tok:13a" in out
    assert "\nweights: the checkpoint with the lowest validation loss, step 60\n" in out
    assert f"\nsaved in {run}: test.hypotheses.txt, test.references.txt, test.scores.json\n" in out
    assert len((run / "test.hypotheses.txt").read_text().splitlines()) == GENERATED_SIZE["test"]


def test_a_run_from_before_cleaning_is_evaluated_and_one_from_the_future_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    shutil.copytree(run, other)
    recipe = json.loads((run / "recipe.json").read_text())
    del recipe["data"]["cleaning"]
    (other / "recipe.json").write_text(json.dumps(recipe))
    main(["evaluate", str(other), "--beam-size", "1"])
    assert "BLEU " in capsys.readouterr().out
    for data, message in (({**recipe["data"], "colour": "red"}, "another version of this package"), ({}, "no corpus")):
        (other / "recipe.json").write_text(json.dumps({**recipe, "data": data}))
        assert message in fails(capsys, "evaluate", str(other))
    (other / "recipe.json").write_text("{}")
    assert "no corpus" in fails(capsys, "evaluate", str(other))


def test_prepare_prints_what_cleaning_dropped(environment: object, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["prepare", "copy", "--data.max-train-pairs", "300"]
    main(small)
    assert capsys.readouterr().out.startswith("prepared in ")
    for _ in range(2):  # also when it is prepared already
        main([*small, "--data.cleaning.min-words", "5"])
        out = capsys.readouterr().out
        assert "min_words=5" in out and "pair " in out and "prepared in " in out
    assert "drop_identical: 300" in fails(capsys, *small, "--data.cleaning.drop-identical")
    assert "--data.cleaning.max-ratio must be 0" in fails(capsys, *small, "--data.cleaning.max-ratio", "0.5")


def test_prepare_prints_how_many_pairs_are_in_no_split(
    environment: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("transformer.data.corpora.MAX_HELD_OUT", 10)
    corpus = tmp_path / "large.tsv"
    corpus.write_text("".join(f"a b c {i}\td e f {i}\n" for i in range(1000)))
    for _ in range(2):  # also when it is prepared already
        main(["prepare", "copy", "--model.vocab-size", "30", "--data.corpus", str(corpus)])
        assert re.search(r"^unused: \d\d pairs that were held out of train", capsys.readouterr().out, re.MULTILINE)


def test_another_split_is_evaluated_and_an_unknown_one_refused(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(GENERATED_SIZE, "valid", 5)
    main(["evaluate", str(run), "--beam-size", "1", "--split", "valid"])
    assert "copy valid: 5 sentences, en-de" in capsys.readouterr().out
    assert len((run / "valid.hypotheses.txt").read_text().splitlines()) == 5
    message = fails(capsys, "evaluate", str(run), "--split", "test_2018")
    assert message == "error: copy has no split 'test_2018'; its splits are train, valid, test"


OWN = "prepare copy --model.vocab-size 20 --data.corpus".split()
"""The first words of a command that prepares a corpus of one's own."""


def test_your_own_corpus(
    environment: object, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"a{'b' * (i % 7)} {'ab' * (i % 3)}c" for i in range(200)]
    Path("x.tsv").write_text("".join(f"{line}\t{line}\n" for line in lines))
    for name in ("x.en", "x.de"):
        Path(name).write_text("".join(f"{line}\n" for line in lines))
    Path("x.json").write_text('{"languages": ["fr", "en"], "splits": {"train": [{"fr": "x.tsv:1", "en": "x.en"}]}}')
    for corpus in ("x.tsv", "x.en,x.de", "x.json"):
        main([*OWN, corpus, *(["--data.direction", "en-fr"] if corpus == "x.json" else [])])
        (line,) = capsys.readouterr().out.splitlines()
        store = Path(line.removeprefix("prepared in "))
        absolute = ",".join(str(Path.cwd() / name) for name in corpus.split(","))  # the same in every folder
        assert json.loads((store / "store.json").read_text())["data"]["corpus"] == absolute
    assert fails(capsys, *OWN, "x.json") == "error: the direction of x must be fr-en or en-fr; got 'en-de'"


def test_pairs_that_are_dropped_are_counted(
    environment: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"a{'b' * (i % 7)} {'ab' * (i % 3)}c" for i in range(200)]
    text = tmp_path / "x.tsv"
    text.write_text("".join(f"{line}\t{line}\n" for line in [*lines, "a" * 300]) + "\n")
    own = ["--data.corpus", str(text), "--model.vocab-size", "20", "--data.max-length", "16"]
    main(["prepare", "copy", *own])
    assert "Dropped for having no tokens, or more than 16 on a side: 2\n" in capsys.readouterr().out
    main(["train", "copy", "--device", "cpu", "--run", str(tmp_path / "run"), *SMALL, *own, "--training.steps", "1"])
    assert re.search(
        r"^2 of 1\d\d training pairs were dropped; `transformer data` shows why$", capsys.readouterr().err, re.M
    )


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ("none.json", "none.json is missing"),
        ("folder.json", "folder.json: it is not a file"),
        ("text.json", "text.json is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("wrong.json", "wrong.json: languages is missing"),
        ("bad.tsv", "bad.tsv: line 2 is not UTF-8 (at byte 6): convert the file to UTF-8"),
        ("one,short", "/short: line 1 has 1,000,000 bytes or more: is this a text with one sentence per line?"),
        ("two,one", "/two has 2 lines but"),
        ("empty,blank", "empty train has no sentence pairs to train on: it is empty"),
        ("none,one", "/none: No such file or directory"),
        ("one,two,none", "error: 'one,two,none' does not name two files: your own text must be TABLE.tsv"),
    ],
)
def test_your_own_corpus_with_a_mistake(
    corpus: str,
    message: str,
    environment: object,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.json").mkdir()
    texts = {"text.json": b"text", "wrong.json": b"{}", "bad.tsv": b"a\tb\na\t\xff\n", "short": b"a" * 1_000_000}
    for name, text in {**texts, "two": b"a\nb\n", "one": b"a\n", "empty": b"", "blank": b""}.items():
        Path(name).write_bytes(text)
    assert message in fails(capsys, *OWN, corpus)


def test_a_cache_that_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSFORMER_DATA", str(tmp_path / "file"))
    (tmp_path / "file").write_text("mine")
    assert f"cannot store the prepared data in {tmp_path}/file/prepared: " in fails(capsys, "prepare", "copy")
    assert (tmp_path / "file").read_text() == "mine"


def test_data_shows_what_there_is_to_learn_from(environment: object, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["data", "copy", "--data.max-train-pairs", "300"]
    main([*small, "--samples", "2", "--training.batch-tokens", "500"])
    out = capsys.readouterr().out
    headings = [
        "corpus ",
        "Tokens",
        "The vocabulary",
        "Training sentences",
        "Batches of up to 500 target",
        "Training samples",
        "pair ",
    ]
    places = [f"\n{out}".index(f"\n{heading}") for heading in headings]
    assert places == sorted(places)
    assert out.count("\npair ") == 2
    main([*small, "--samples", "2", "--training.batch-tokens", "500", "--seed", "1"])
    other = capsys.readouterr().out
    assert other != out and other.split("Training samples")[0] == out.split("Training samples")[0]
    main([*small, "--data.cleaning.min-words", "5"])
    assert "Pairs dropped from train\n\nfilter" in capsys.readouterr().out
    assert "no recipe 'copi'; did you mean copy?" in fails(capsys, "data", "copi")


def test_data_saves_a_figure(environment: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["data", "copy", "--data.max-train-pairs", "300", "--figure"]
    main([*small, str(tmp_path / "x.png")])
    assert capsys.readouterr().out.endswith(f"saved {tmp_path / 'x.png'}\n")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_shown_is_refused_before_anything_is_prepared(
    environment: object, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformer.commands.prepare_data", lambda *_, **__: pytest.fail("prepared"))
    assert "must end in .png, .svg or .pdf; got 'x.jpg'" in fails(capsys, "data", "copy", "--figure", "x.jpg")
    assert fails(capsys, "data", "copy", "--samples", "-1") == "error: --samples must not be negative; got -1"
    missing = str(tmp_path / "none" / "x.png")
    assert f"there is no folder {tmp_path / 'none'}" in fails(capsys, "data", "copy", "--figure", missing)


def test_a_reader_that_leaves_early_is_no_error(environment: object, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as nobody:
        monkeypatch.setattr("sys.stdout", nobody)
        with pytest.raises(SystemExit) as stopped:
            main(["data", "copy", "--data.max-train-pairs", "300"])
        assert stopped.value.code == 141


def test_changed_settings_reach_the_run(workplace: Path, environment: pytest.MonkeyPatch) -> None:
    folder = workplace / "runs" / "tiny"
    changes = ["--model.d-model", "32", "--training.steps", "2", "--data.max-train-pairs", "3000"]
    main(["train", "copy", "--device", "cpu", "--run", str(folder), *changes])
    assert Translator.load(folder).model.config.d_model == 32


def test_the_options_of_train_reach_the_training(
    environment: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr("transformer.commands.require_extra", lambda *_: None)
    monkeypatch.setattr(
        "transformer.commands.train_model", lambda *arguments, **options: seen.update(options, device=arguments[4])
    )
    options = ["--precision", "bf16", "--compile", "yes", "--tensorboard", "--force", "--data.max-train-pairs", "300"]
    main(["train", "copy", "--device", "cpu", "--run", str(tmp_path / "run"), *options])
    assert seen["device"].precision == "bf16"
    assert seen["compiled"] is seen["tensorboard"] is seen["force"] is True


def test_an_initial_model_of_another_direction_is_noticed(
    environment: object, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformer.commands.train_model", lambda *_, **__: None)
    fine_tune = [
        "train",
        "pocket",
        "--run",
        str(tmp_path / "run"),
        "--device",
        "cpu",
        "--initial-model",
        "pocket-small",
        "--data.max-train-pairs",
        "300",
    ]
    main(fine_tune)
    assert "note:" not in capsys.readouterr().err
    main([*fine_tune, "--data.direction", "de-en"])
    note = "note: the initial model pocket-small was trained on en-de, and this run trains it on de-en\n"
    assert note in capsys.readouterr().err


@pytest.mark.parametrize(
    ("choice", "on_cpu", "on_gpu"), [("auto", False, True), ("yes", True, True), ("no", False, False)]
)
def test_auto_compiles_on_a_cuda_gpu_only(choice: Compile, on_cpu: bool, on_gpu: bool) -> None:
    devices = [Device(torch.device(name)) for name in ("cpu", "cuda")]
    assert [should_compile(choice, device) for device in devices] == [on_cpu, on_gpu]


def test_the_options_of_export_reach_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[object, ...]] = []
    monkeypatch.setattr("transformer.commands.export_model", lambda *arguments: seen.append(arguments) or [])
    options = ["--splits", "test", "valid", "--mirror", "there"]
    main(["export", str(tmp_path), str(tmp_path / "model"), "--device", "cpu", *options])
    assert seen[0][3:] == (("test", "valid"), "there")


def test_an_export_by_the_name_of_a_pretrained_model_is_noticed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformer.commands.export_model", lambda *_: [])
    main(["export", str(tmp_path), "everyday", "--device", "cpu"])
    note = "note: `transformer translate everyday` uses the pretrained model of that name; for this one, use ./everyday"
    assert capsys.readouterr().err == f"{note}\n"
    main(["export", str(tmp_path), str(tmp_path / "everyday"), "--device", "cpu"])
    assert capsys.readouterr().err == ""


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        with suppress(SystemExit):
            main([command, "--help"])
        assert f"transformer {command}" in capsys.readouterr().out.split("Examples:", 1)[1]


@pytest.mark.parametrize("args", [*([name] for name in COMMANDS), *([name, "pocket"] for name in RECIPE_COMMANDS), []])
def test_the_help_fits_a_narrow_terminal(
    args: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    with suppress(SystemExit):
        main([*args, "--help"])
    text, _, rest = capsys.readouterr().out.partition("Examples:")
    _, _, tables = rest.partition("\n\n")  # examples aren't wrapped, so that they can be copied
    assert max(map(len, (text + tables).splitlines())) <= 60 and "``" not in text + tables


@pytest.mark.parametrize(
    "options", [DataConfig, CleaningConfig, ModelConfig, TrainingConfig, DataOptions, TrainOptions]
)
def test_the_help_of_an_option_has_no_line_break_within_a_sentence(options: type) -> None:
    for option in docstring_parser.parse_from_object(options).params:
        assert all(line.endswith((".", ":", ";")) for line in (option.description or "").split("\n")), option.arg_name


def test_help_as_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    main(["help"])
    assert capsys.readouterr().out.startswith("usage: transformer COMMAND")


def test_the_help_of_bench_says_what_each_benchmark_measures() -> None:
    section = inspect.getdoc(bench).partition("Benchmarks:\n")[2].partition("\n\n")[0]
    assert [line.partition(":")[0].strip() for line in section.splitlines()] == list(BENCHMARKS)


def test_the_overview_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    printed = capsys.readouterr().out
    assert all(f"\n  {command} " in printed for command in COMMANDS)
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 2 and capsys.readouterr().out == printed
    assert "there is no command 'evluate'; did you mean evaluate?" in fails(capsys, "evluate")


def test_the_version_comes_with_what_a_bug_report_needs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformer.provenance.commit", lambda: "0123abcd")
    main(["--version"])
    first, *others = capsys.readouterr().out.splitlines()
    assert first == f"transformer-course {__version__}" and others[0] == "commit: 0123abcd"
    assert others[1] == f"versions: {versions('torch')}" and others[2].startswith("machine: ")
    monkeypatch.setattr("transformer.provenance.commit", lambda: f"version {__version__}")
    main(["--version"])
    assert capsys.readouterr().out.splitlines() == [first, *others[1:]]
    main(["--help"])
    assert "`transformer --version` prints" in capsys.readouterr().out


def test_the_summaries_are_those_of_the_commands() -> None:
    functions = {name: getattr(command, "function", command) for name, command in COMMANDS.items()}
    assert {name: inspect.getdoc(function).partition("\n")[0] for name, function in functions.items()} == SUMMARIES


def test_unknown_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no recipe 'pockt'; did you mean pocket?" in fails(capsys, "train", "pockt")
    named = "did you mean wmt14-mini or wmt14-base or wmt14-big?"
    assert f"no recipe 'wmt14'; {named}" in fails(capsys, "train", "wmt14")
    assert "choose from copy, reverse, pocket, multi30k, everyday, iwslt17" in fails(capsys, "prepare", "wmt99")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("--model.n-heads=3", "--model.d-model must be a multiple of --model.n-heads; got 64 and 3"),
        ("--training.steps=0", "--training.steps must be at least 1; got 0"),
        ("--training.average-steps=601", "--training.average-steps is 601, more than --training.steps, which is 600"),
        ("--data.cleaning.min-words=-1", "--data.cleaning.min-words must not be negative; got -1"),
        ("--training.dropout=0.1", "there is no option --training.dropout; did you mean --model.dropout?"),
        ("--max-length=9", "there is no option --max-length; did you mean --data.max-length or --model.max-length?"),
    ],
)
def test_a_wrong_setting_is_named_as_the_user_types_it(
    setting: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fails(capsys, "train", "copy", setting).startswith(f"error: {message}")


def test_a_model_that_does_not_fit_into_memory_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSFORMER_DATA", str(tmp_path / "data"))
    huge = ["--model.n-layers", "10000000", "--run", str(tmp_path / "run"), "--data.max-train-pairs", "300"]
    message = fails(capsys, "train", "copy", "--device", "cpu", *huge)
    assert re.search(r"needs about [\d,.]+ GB .* to train; this machine has [\d,.]+ GB free", message)


def test_recipes_are_described_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "pocket", "--help"])
    text = capsys.readouterr().out
    assert RECIPES["pocket"].description[:40] in text and "--description" not in text and "--explicit" not in text


def test_mistakes_that_are_explained_before_any_work(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fails(capsys, "train", str(run)) == (
        f"error: {run} is a folder, not a recipe; use `transformer train RECIPE --run {run}`"
    )
    assert "--device must be one of 'auto', 'cpu', 'cuda', 'mps'; got 'tpu'; " in fails(
        capsys, "translate", str(run), "a", "--device", "tpu"
    )
    folder = str(tmp_path)
    assert f"--source must be a text file; {folder} is a folder" in fails(
        capsys, "evaluate", str(run), "--source", folder, "--reference", folder
    )
    assert "--output must be a .json file; got x.txt" in fails(capsys, "bench", "train", "--output", "x.txt")
    assert "must be two different languages, such as en-de; got de-de" in fails(
        capsys, "prepare", "copy", "--data.direction", "de-de"
    )
    with suppress(SystemExit):
        main(["prepare", "pocket", "--data.direction", "en-fr"])
    assert capsys.readouterr().err.startswith("error: the direction of pocket must be en-de or de-en; got 'en-fr'")


def test_what_to_do_about_a_damaged_run(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "tokenizer.model").unlink()
    assert "the same `transformer train` command writes it" in fails(capsys, "translate", str(copy), "a")
    (copy / "step-0000030.json").write_text("{")
    assert "name the checkpoints to average: `transformer average" in fails(capsys, "average", str(copy))
    (copy / "best.json").write_text("{")
    assert f"`transformer average {copy}` averages the checkpoints that are left" in fails(
        capsys, "translate", str(copy), "a"
    )
    (copy / "recipe.json").write_text("{")
    assert ": copy the file into the folder again, or choose another folder with --run" in fails(
        capsys, "train", "copy", "--run", str(copy)
    )


def test_unknown_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "there is no run folder" in fails(capsys, "translate", str(tmp_path / "none"), "a")
    assert "copy is a recipe, not a model: `transformer train copy` trains it into runs/copy" in fails(
        capsys, "translate", "copy", "a"
    )
    assert "is not a run folder: it has no best.json" in fails(capsys, "evaluate", str(tmp_path))


def test_a_finished_run_is_left_alone_and_other_settings_are_refused(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def contents() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in run.iterdir()}

    before = contents()
    main(["train", "copy", "--device", "cpu", "--run", str(run), *SMALL])
    printed = capsys.readouterr()
    assert printed.out == f"the model is in {run}\n" and contents() == before
    assert f"{run} is finished, after 60 of 60 steps; to train for longer, raise --training.steps" in printed.err
    assert "training on" not in printed.err and f"next: transformer evaluate {run}\n" in printed.err
    other = ["--run", str(run), *SMALL, "--training.label-smoothing", "0.3"]
    message = fails(capsys, "train", "copy", "--device", "cpu", *other)
    assert (
        "was started with other settings (--training.label-smoothing: 0.1, now 0.3)" in message and "--force" in message
    )
    assert contents() == before


def test_fine_tuning_starts_from_another_model_with_its_architecture_and_tokenizer(
    environment: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, tuned = tmp_path / "initial", tmp_path / "tuned"
    small = [*SMALL, "--training.steps", "10"]
    main(["train", "copy", "--device", "cpu", "--run", str(run), *small, "--model.d-model", "32"])
    # other data, another architecture and an almost vanishing learning rate: the model must stay what it was
    args = ["train", "reverse", "--device", "cpu", *small, "--training.learning-rate-factor", "1e-9"]
    args += ["--model.dropout", "0.3", "--model.n-layers", "2", "--run", str(tuned)]
    main([*args, "--initial-model", str(run)])
    before, after = Translator.load(run), Translator.load(tuned)
    assert after.model.config == dataclasses.replace(before.model.config, dropout=0.3)
    assert after.tokenizer.model == before.tokenizer.model
    for name, weight in before.model.state_dict().items():
        torch.testing.assert_close(after.model.state_dict()[name], weight, rtol=0, atol=1e-6)
    sha256 = before.metadata["weights"]["sha256"]
    recipe = json.loads((tuned / "recipe.json").read_text())
    assert recipe["initial_model"] == {"name": str(run), "sha256": sha256}
    list(export(tuned, tmp_path / "exported", choose_device("cpu")))
    assert (
        f"started from the weights of `{run.name}` (SHA-256 `{sha256}`)" in (tmp_path / "exported/CARD.md").read_text()
    )
    main([*args, "--initial-model", f"{run.parent}/./{run.name}"])  # the same model, spelt differently
    assert "was started with other settings (--initial-model: " in fails(capsys, *args)  # they are random weights now
    assert "no run folder nowhere" in fails(capsys, *args, "--initial-model", "nowhere")
    for typed in (["--model.d-model", "64"], ["--model.d_model=64"]):  # also where it is the recipe's own value
        message = fails(capsys, *args, *typed, "--initial-model", str(run))
        assert f"initial model {run}, whose --model.d-model is 32: leave out --model.d-model 64" in message


def test_an_interrupted_fine_tuning_resumes_with_its_own_weights(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fine_tune(folder: str, steps: str, *more: str) -> dict[str, torch.Tensor]:
        args = ["train", "reverse", "--device", "cpu", "--initial-model", str(run), *SMALL, *more]
        main([*args, "--training.steps", steps, "--run", str(tmp_path / folder)])
        return Translator.load(tmp_path / folder, checkpoint=f"step-{int(steps):07}").model.state_dict()

    whole = fine_tune("whole", "20")
    fine_tune("resumed", "10")
    resumed = fine_tune("resumed", "20", "--force")
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_what_cannot_be_trained_is_refused_before_the_data_is_prepared(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformer.commands.prepare_data", lambda *_, **__: pytest.fail("prepared"))
    (tmp_path / "thesis.txt").write_text("three years of work")
    train = ["train", "copy", "--device", "cpu", *SMALL, "--run"]
    assert "is neither a run folder nor empty" in fails(capsys, *train, str(tmp_path))
    message = fails(capsys, *train, str(run), "--model.norm", "pre")
    assert "was started with other settings" in message and "--force" not in message  # it couldn't help
    huge = [str(tmp_path / "new"), "--model.n-layers", "10000000"]
    assert " GB free" in fails(capsys, *train, *huge)
    assert not (tmp_path / "new").exists()
    message = fails(capsys, *train, str(tmp_path / "thesis.txt" / "run"))
    assert f"cannot write to {tmp_path / 'thesis.txt' / 'run'}: Not a directory; " in message


def test_a_run_without_a_model_yet(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copyfile(run / "recipe.json", tmp_path / "recipe.json")
    for command in (["translate", str(tmp_path), "a"], ["evaluate", str(tmp_path)]):
        message = fails(capsys, *command)
        assert message.startswith(f"error: {tmp_path} has no model yet: training saves it at its first validation")
    (tmp_path / "metrics.jsonl").write_text(json.dumps(dict.fromkeys(METRICS_KEYS, math.nan)) + "\n")
    for command in (["translate", str(tmp_path), "a"], ["evaluate", str(tmp_path)]):
        message = fails(capsys, *command)
        assert message.startswith(f"error: {tmp_path} has no model, because its training diverged and no ")


def test_prepare_says_what_to_do_next(environment: object, capsys: pytest.CaptureFixture[str]) -> None:
    main(["prepare", "copy", "--data.max-train-pairs", "300", "--mirror", "a folder"])
    printed = capsys.readouterr()
    assert "next: transformer train copy --data.max-train-pairs 300 --mirror 'a folder'\n" in printed.err


def test_empty_and_too_long_sentences(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "the sentence is empty" in fails(capsys, "translate", str(run), "  ")
    assert "the model reads at most 127" in fails(capsys, "translate", str(run), "a " * 500)


def test_attention_saves_a_page(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    main(["attention", str(run), "a b c", "--output", str(page), "--device", "cpu"])
    size = len(page.read_bytes()) / 1e6
    assert capsys.readouterr().out == f"saved {page} ({size:.1f} MB): open it in a browser\n"
    text = page.read_text("utf-8")
    assert '<td lang="en">a b c</td>' in text and "<title>copy, live</title>" in text


def test_a_page_that_cannot_be_made(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = ["--output", str(tmp_path / "page.html")]
    assert "there is no run folder" in fails(capsys, "attention", str(tmp_path / "none"), "a", *to)
    assert "did you mean pocket-small?" in fails(capsys, "attention", "pocket-smal", "a", *to)
    assert "the sentence is empty" in fails(capsys, "attention", str(run), " ", *to)
    assert "at least one example sentence" in fails(capsys, "attention", str(run), *to)
    assert "must end in .html; got 'page.pdf'" in fails(capsys, "attention", str(run), "a", "--output", "page.pdf")
    nowhere = str(tmp_path / "nowhere" / "page.html")
    assert "create it, or choose another file" in fails(capsys, "attention", str(run), "a", "--output", nowhere)
    (tmp_path / "folder.html").mkdir()
    assert "cannot write" in fails(capsys, "attention", str(run), "a", "--output", str(tmp_path / "folder.html"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.html"]


def test_impossible_search_settings(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--n-best" in fails(capsys, "translate", str(run), "a b", "--beam-size", "2", "--n-best", "3")
    assert "--beam-size must be at least 1; got 0" in fails(capsys, "translate", str(run), "a b", "--beam-size", "0")
    assert "--length-penalty must be from 0 to 10" in fails(capsys, "evaluate", str(run), "--length-penalty", "nan")


@pytest.mark.parametrize("command", [["translate", "multi30k", "a"], ["evaluate", "multi30k"]])
@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--beam-size", "0", "--beam-size must be at least 1; got 0"),
        ("--length-penalty", "-1", "--length-penalty must be from 0 to 10; got -1.0"),
        ("--max-new-tokens", "0", "--max-new-tokens must be at least 1; got 0"),
    ],
)
def test_search_settings_are_checked_before_a_model_is_loaded(
    command: list[str],
    flag: str,
    value: str,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Translator, "load", lambda *_: pytest.fail("the model was loaded"))
    with pytest.raises(SystemExit):
        main([*command, flag, value])
    assert capsys.readouterr().err == f"error: {message}\n"


@pytest.mark.parametrize("command", ["translate", "evaluate", "attention", "export"])
def test_the_precision_reaches_the_model(
    command: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dtypes = []
    autocast = Device.autocast

    def spy(device: Device) -> AbstractContextManager[object]:
        dtypes.append(device.autocast_dtype)
        return autocast(device)

    monkeypatch.setattr(Device, "autocast", spy)
    monkeypatch.setitem(GENERATED_SIZE, "test", 5)
    rest = {"translate": ["a b"], "attention": ["a b", "--output", str(tmp_path / "x.html")]}
    rest |= {"evaluate": [], "export": [str(tmp_path / "model")]}
    main([command, str(run), *rest[command], "--device", "cpu", "--precision", "bf16"])
    assert dtypes and set(dtypes) == {torch.bfloat16}
    if command == "evaluate":
        assert json.loads((run / "test.scores.json").read_text())["settings"]["precision"] == "bf16"
    if command == "export":
        scores = json.loads((tmp_path / "model" / "scores.json").read_text())
        assert [test_set["precision"] for test_set in scores["test_sets"]] == ["bf16", "bf16"]
        assert "(cpu in bf16)" in (tmp_path / "model" / "CARD.md").read_text()


def test_n_best_of_several_sentences_is_numbered(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["translate", str(run), "a b", "c d e", "--n-best", "2", "--device", "cpu"])
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [number for number, _, _ in lines] == ["1", "1", "2", "2"]
    scores = [float(score) for _, score, _ in lines]
    assert scores[0] >= scores[1] and scores[2] >= scores[3]
    main(["translate", str(run), "a b", "c d e", "--beam-size", "4", "--device", "cpu"])
    assert capsys.readouterr().out.splitlines() == [lines[0][2], lines[2][2]]


def test_a_search_that_memory_has_no_room_for(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 530000000000 bytes")

    monkeypatch.setattr("transformer.translator.beam_search", full)
    assert "out of memory: try a smaller beam size or shorter sentences" in fails(capsys, "translate", str(run), "a b")


def test_a_broken_checkpoint(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(run, broken)
    (weights,) = broken.glob("best-*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-10])
    assert "is damaged" in fails(capsys, "translate", str(broken), "a b c")
    (broken / "tokenizer.model").write_bytes(b"?")
    weights.write_bytes(next(run.glob("best-*.safetensors")).read_bytes())
    assert "tokenizer is not a SentencePiece model" in fails(capsys, "translate", str(broken), "a b c")


def test_a_loss_that_is_not_finite_stops_the_run(
    workplace: Path, environment: object, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(workplace / "runs" / "nan")
    wild = [*SMALL, "--training.learning-rate-factor", "1e30"]
    message = fails(capsys, "train", "copy", "--device", "cpu", "--run", folder, *wild)
    assert re.search(r"the gradient was not finite in \d\d steps in a row", message)
    assert "--training.learning-rate-factor" in message


def test_parameters_of_a_model_and_of_a_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    main(["parameters", "base"])
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["part", "parameters", "share"]
    assert table[-1].split() == ["total", "63,082,496", "100.0%"]
    main(["parameters", "pocket"])
    assert "1,175,040" in capsys.readouterr().out
    assert "no preset or recipe 'bas'; did you mean base?" in fails(capsys, "parameters", "bas")


def test_curves_of_runs_and_what_cannot_be_plotted(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / run.name  # another folder of the same name is another line
    shutil.copytree(run, other)
    figure = tmp_path / "x.svg"
    main(["curves", str(run), str(other), "--output", str(figure), "--x-axis", "minutes"])
    assert capsys.readouterr().out == f"saved {figure}\n"
    text = figure.read_text()
    assert str(run) in text and str(other) in text and "<!-- minutes -->" in text
    assert "must end in .png, .svg or .pdf" in fails(capsys, "curves", str(run), "--output", "x.jpg")
    assert "is not a run folder: it has no metrics" in fails(capsys, "curves", str(tmp_path), "--output", str(figure))
    metrics = tmp_path / "metrics.jsonl"
    row = dict.fromkeys(METRICS_KEYS, 1.0) | {"valid_loss": float("nan")}
    for text, message in (  # somebody else's, or damaged
        ('{"epoch": 1, "loss": 2.0}\n', "line 1: step is missing"),
        (f'{json.dumps(row)}\n{{"step": "one"}}\n', "line 2: step must be a number; got 'one'"),
        ("5\n", "line 1 must be a JSON object; got 5"),
        ('{"a":' * 100_000 + "\n", "is nested too deeply"),
        ("", "is not a run folder: it has no metrics"),
        (json.dumps(row), "there is nothing to plot in"),
    ):
        metrics.write_text(text)
        assert message in fails(capsys, "curves", str(tmp_path), "--output", str(figure))
    metrics.unlink()
    (tmp_path / "recipe.json").write_text("{}")
    assert f"{tmp_path} has no metrics yet" in fails(capsys, "curves", str(tmp_path), "--output", str(figure))
    os.mkfifo(metrics)
    assert "it is not a file" in fails(capsys, "curves", str(tmp_path), "--output", str(figure))
    assert "multi30k is a pretrained model, not a run folder" in fails(capsys, "curves", "multi30k")
    assert "one to four run folders; got 5" in fails(capsys, "curves", *[str(run)] * 5)


def test_average_names_what_it_averaged(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    message = "error: averaging needs at least two checkpoints; got "
    assert fails(capsys, "average", str(copy)).startswith(f"{message}step-0000060: ")
    assert "is not a run folder: it has no recipe.json" in fails(capsys, "average", str(tmp_path))
    assert "average the run that it was exported from" in fails(capsys, "average", str(find_model("pocket-small")))
    assert "--last must be at least 2; got 1" in fails(capsys, "average", str(copy), "--last", "1")
    assert "has no checkpoint step-7; it has step-0000060" in fails(capsys, "average", str(copy), "step-7")
    for names in (["step-0000060"], ["step-0000060"] * 2):
        assert fails(capsys, "average", str(copy), *names) == f"{message}step-0000060: name another one"
    shutil.copyfile(copy / "step-0000060.json", copy / "step-0000030.json")
    with monkeypatch.context() as patch:

        def training_deletes_one(folder: Path, names: list[str]) -> None:
            (folder / "step-0000010.json").unlink()
            average_checkpoints(folder, names)

        patch.setattr("transformer.commands.average_checkpoints", training_deletes_one)
        shutil.copyfile(copy / "step-0000060.json", copy / "step-0000010.json")
        assert "training has just deleted one of these checkpoints" in fails(capsys, "average", str(copy))
    main(["average", str(copy)])
    printed = capsys.readouterr()
    assert printed.out == "averaged 2 checkpoints: step-0000030, step-0000060\n"
    assert f"{copy} has only these, fewer than 5: --training.checkpoint-every sets" in printed.err
    assert f"now use the averaged weights\nnext: transformer evaluate {copy}\n" in printed.err
    text = str(tmp_path / "text")
    Path(text).write_text("a b c\n")
    main(["evaluate", str(copy), "--source", text, "--reference", text])
    out = capsys.readouterr().out
    assert "\nweights: the average of step-0000030, step-0000060\n" in out
    main(["average", str(copy), "step-0000030", "step-0000060", "--last", "1"])  # which names make irrelevant
    assert capsys.readouterr().out == "averaged 2 checkpoints: step-0000030, step-0000060\n"
    recipe = json.loads((copy / "recipe.json").read_text())
    for steps in (60, 90):  # only at its end does a run average over its last steps
        recipe["training"] |= {"average_steps": 7, "steps": steps}
        (copy / "recipe.json").write_text(json.dumps(recipe))
        main(["average", str(copy)])
        assert ("already an average, of the last 7 steps" in capsys.readouterr().err) == (steps == 60)
    assert "there is no run folder" in fails(capsys, "average", str(tmp_path / "none"))
    assert "multi30k is a pretrained model, not a run folder" in fails(capsys, "average", "multi30k")


def test_an_export_into_the_folder_where_one_stands(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "given").mkdir()
    monkeypatch.chdir(tmp_path / "given")
    main(["export", str(run.resolve()), ".", "--device", "cpu"])
    assert (tmp_path / "given" / "CARD.md").read_text("utf-8").startswith("# given")
    assert "multi30k is a pretrained model, not a run folder" in fails(capsys, "export", "multi30k", "other")


def test_a_line_of_standard_input_that_never_ends_is_refused(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformer.commands.MAX_LINE_LENGTH", 1000)
    monkeypatch.setattr("sys.stdin", io.StringIO("a b\n" + "\0" * 5000))
    with pytest.raises(SystemExit, match="2"):
        main(["translate", str(run)])
    printed = capsys.readouterr()
    assert printed.out.count("\n") == 1 and "line 2 of standard input has more than 1,000 characters" in printed.err


def test_a_beam_whose_masks_do_not_fit_into_memory_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = fails(capsys, "translate", str(run), "a b", "--beam-size", "300000")
    assert re.match(r"error: the longest sentence needs [\d,.]+ GB with --beam-size 300000, but ", message)


@pytest.mark.parametrize("missing", ["data", "model", "training"])
def test_a_run_whose_recipe_lacks_a_part_is_not_exported(
    missing: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, tmp_path / "run")
    recipe = json.loads((run / "recipe.json").read_text())
    del recipe[missing]
    (tmp_path / "run" / "recipe.json").write_text(json.dumps(recipe))
    message = fails(capsys, "export", str(tmp_path / "run"), str(tmp_path / "model"))
    assert message.endswith(f"recipe.json: {missing} is missing")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"WORLD_SIZE": "x"}, "the environment variable WORLD_SIZE must be a number, as torchrun sets it; got 'x'"),
        ({"WORLD_SIZE": "0"}, "the environment variable WORLD_SIZE must be a number, as torchrun sets it; got '0'"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is 2, but RANK, MASTER_ADDR, MASTER_PORT is not set"),
    ],
)
def test_an_environment_that_torchrun_does_not_make_is_explained(
    changes: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch, environment: object, tmp_path: Path,
    capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    assert message in fails(capsys, "train", "copy", "--run", str(tmp_path / "new"), "--device", "cpu")


def test_a_run_folder_that_is_a_link_to_itself_is_refused(
    environment: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link").symlink_to("link")
    assert "link" in fails(capsys, "train", "copy", "--run", str(tmp_path / "link"), "--device", "cpu")


def test_a_run_whose_metrics_are_incomplete_or_a_device_is_not_exported(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, tmp_path / "run")
    best = json.loads((run / "best.json").read_text())
    (tmp_path / "run" / "best.json").write_text(json.dumps(best | {"metrics": {"step": 1}}))
    export = ("export", str(tmp_path / "run"), str(tmp_path / "model"))
    assert "have no minutes" in fails(capsys, *export)
    (tmp_path / "run" / "best.json").write_text(json.dumps(best))
    (tmp_path / "run" / "metrics.jsonl").unlink()
    (tmp_path / "run" / "metrics.jsonl").symlink_to("/dev/zero")
    assert "metrics.jsonl: it is not a file" in fails(capsys, *export)
    assert not (tmp_path / "model").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_folder_whose_name_cannot_be_encoded_is_shown_and_exported(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = "model\udcff"
    main(["export", str(run), folder])
    main(["attention", folder, "a b"])
    assert "model?" in (tmp_path / folder / "CARD.md").read_text() and "model?" in Path("attention.html").read_text()
