"""Experiments: small ones are really run, fail, and are repeated; their result files are checked."""

import json
import re
import shlex
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest

from book import experiments
from book.experiments import EXPERIMENTS, Experiment, main, without_folders, without_paths
from transformer.config import CHOICES
from transformer.data.corpora import sentence_pairs
from transformer.errors import UserError
from transformer.evaluation import evaluate as assessment
from transformer.recipes import RECIPES
from transformer.schedule import learning_rate

ROOT = Path(__file__).parents[2]
TINY = shlex.split(
    "--model.d-model 16 --model.n-heads 2 --model.d-ff 16 --model.n-layers 1 --training.batch-tokens 200 "
    "--training.steps 40 --training.validate-every 20 --training.validation-sentences 2"
)
UNSTABLE = ["--training.learning-rate-factor", "1e38", "--training.warmup-steps", "1", "--training.max-grad-norm", "0"]

PROVENANCE = {
    "type": "object",
    "required": ["date", "commit", "machine", "device", "threads", "versions"],
    "properties": {
        "date": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d \d\d:\d\d UTC$"},
        "commit": {"type": "string", "minLength": 5},
        "machine": {"type": "string", "minLength": 5},
        "device": {"type": "string", "minLength": 3},
        "threads": {"type": "integer", "minimum": 1},
        "versions": {"type": "string", "pattern": "Python .*torch "},
    },
}
SCORE = {
    "type": "object",
    "required": ["name", "value", "signature", "explanation"],
    "properties": {"value": {"type": "number", "minimum": 0, "maximum": 100}, "signature": {"minLength": 5}},
}
TESTED = {
    "type": "object",
    "required": [
        "corpus",
        "split",
        "direction",
        "sentences",
        "beam_size",
        "length_penalty",
        "seconds",
        "provenance",
        "scores",
    ],
    "properties": {"provenance": PROVENANCE, "scores": {"type": "array", "items": SCORE, "minItems": 5}},
}
ROW = {
    "type": "object",
    "required": ["label", "seed", "differs", "failed", "sessions", "step", "target_tokens", "minutes", "curve"],
    "properties": {
        "sessions": {
            "type": "array",
            "minItems": 1,
            "items": {**PROVENANCE, "required": [*PROVENANCE["required"], "step", "command"]},
        },
        "test_sets": {"type": "array", "items": TESTED, "minItems": 1},
        "curve": {"type": "array", "items": {"required": ["step", "valid_loss", "valid_bleu", "train_loss"]}},
    },
    "if": {"properties": {"failed": {"type": "null"}}},
    "then": {"required": ["parameters", "weights", "test_sets"], "properties": {"curve": {"minItems": 1}}},
    "else": {"properties": {"failed": {"type": "string", "minLength": 5}}, "not": {"required": ["test_sets"]}},
}
EXPERIMENT = {
    "type": "object",
    "required": ["experiment", "question", "recipe", "log", "rows"],
    "properties": {"rows": {"type": "array", "items": ROW, "minItems": 1}},
}
BENCH = {**PROVENANCE, "required": [*PROVENANCE["required"], "rounds", "benchmarks"]}
PUBLISHED = {
    "required": ["systems"],
    "properties": {
        "systems": {
            "minItems": 1,
            "items": {
                "required": [
                    "system",
                    "test_set",
                    "score",
                    "to",
                    "measure",
                    "author",
                    "year",
                    "venue",
                    "key",
                    "compare",
                ]
            },
        }
    },
}


LANGUAGE_FILTER = {
    "type": "object",
    "required": ["provenance", "pairs", "checked", "labelled", "wrong", "thresholds", "recipe", "sides"],
    "properties": {
        "provenance": PROVENANCE,
        "thresholds": {
            "type": "array",
            "minItems": 2,
            "items": {"type": "object", "required": ["threshold", "dropped", "precision", "recall"]},
        },
        "recipe": {"type": "number", "minimum": 0, "maximum": 1},
        "sides": {"type": "object", "required": ["source", "target", "both"]},
    },
}


LIVE = {
    "type": "object",
    "required": ["models"],
    "properties": {
        "models": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["weights", "unlike", "bleu", "bleu_8_bit", "threshold", "guesses", "poor", "provenance"],
            },
        }
    },
}


BEAM_SIZES = {
    "type": "object",
    "required": ["model", "captions", "signature", "provenance", "empty_translation", "rows"],
    "properties": {
        "provenance": PROVENANCE,
        "empty_translation": {"required": ["log_probability", "beats_reference", "beats_greedy", "reference_length"]},
        "rows": {
            "type": "array",
            "minItems": 1,
            "items": {"required": ["beam", "alpha", "bleu", "length_ratio", "log_probability", "empty"]},
        },
    },
}


VOCABULARY_SIZES = {
    "type": "object",
    "required": ["provenance", "pairs", "different_words", "words_of_first_figure", "rows"],
    "properties": {
        "provenance": PROVENANCE,
        "rows": {
            "type": "array",
            "minItems": 1,
            "items": {"required": ["size", "fertility", "frequent", "rare", "unknown_words"]},
        },
    },
}


INT8 = {
    "type": "object",
    "required": ["provenance", "rows"],
    "properties": {
        "provenance": PROVENANCE,
        "rows": {
            "type": "array",
            "minItems": 1,
            "items": {"required": ["model", "split", "sentences", "fp32", "int8", "signature", "same"]},
        },
    },
}


EVERYDAY_SENTENCES = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "required": ["model", "weights", "provenance", "translations"],
        "properties": {
            "provenance": PROVENANCE,
            "translations": {
                "type": "object",
                "minProperties": 100,
                "maxProperties": 1000,
                "additionalProperties": {"type": "string", "minLength": 1},
            },
        },
    },
}


def schema_of(path: Path) -> dict[str, object]:
    if path.name == "published.json":
        return PUBLISHED
    if path.name == "language-filter.json":
        return LANGUAGE_FILTER
    if path.name == "live.json":
        return LIVE
    if path.name == "beam-sizes.json":
        return BEAM_SIZES
    if path.name == "vocabulary-sizes.json":
        return VOCABULARY_SIZES
    if path.name == "int8.json":
        return INT8
    if path.name == "everyday-sentences.json":
        return EVERYDAY_SENTENCES
    return BENCH if path.name.startswith(("bench-", "decoding-trials")) else EXPERIMENT


@pytest.mark.parametrize("path", sorted((ROOT / "book" / "results").glob("*.json")), ids=lambda path: path.stem)
def test_each_committed_file_has_provenance_and_no_paths(path: Path) -> None:
    text = path.read_text("utf-8")
    jsonschema.validate(json.loads(text), schema_of(path))
    assert not re.search(r'["\s=,][~.]*/\w', text), "the file contains a path"
    assert "--run" not in text and "--mirror" not in text


@pytest.fixture(scope="module")
def small() -> Experiment:
    return Experiment(
        "Stable or unstable?",
        "copy",
        {"small, stable": TINY, "unstable": [*TINY, *UNSTABLE]},
        seeds=(3,),
        beam_sizes=(1, 2),
    )


@pytest.fixture(scope="module")
def ran(small: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a small experiment; return a folder with its run folders in ``runs``, and ``tiny.json``."""
    folder = tmp_path_factory.mktemp("experiment")
    with pytest.MonkeyPatch.context() as patch:
        shorten_test_set(patch)
        patch.setitem(EXPERIMENTS, "tiny", small)
        lines = list(experiments.run("tiny", folder / "runs", folder))
    assert len(lines) == 2
    assert lines[0].startswith("tiny: small, stable, seed 3: BLEU ") and "with beam size 2" in lines[0]
    assert re.match(r"tiny: unstable, seed 3: the gradient was not finite in \d+ steps in a row", lines[1])
    return folder


def shorten_test_set(patch: pytest.MonkeyPatch) -> None:
    pairs = [pair for pair in sentence_pairs("copy", "test") if len(pair[0]) < 12][:8]
    patch.setattr(assessment, "sentence_pairs", lambda *_: iter(pairs))


def rows(folder: Path, name: str = "tiny") -> list[dict[str, object]]:
    return json.loads((folder / f"{name}.json").read_text("utf-8"))["rows"]


def test_a_row_has_everything_needed_to_reproduce_its_run(ran: Path) -> None:
    jsonschema.validate(json.loads((ran / "tiny.json").read_text("utf-8")), EXPERIMENT)
    stable, unstable = rows(ran)
    assert (stable["label"], stable["seed"], stable["step"], stable["failed"]) == ("small, stable", 3, 40, None)
    assert {"model.d_model: 64, now 16", "training.seed: 1, now 3", "training.steps: 600, now 40"} <= {
        *stable["differs"]
    }
    (session,) = stable["sessions"]
    assert session["command"] == shlex.join(["transformer", "train", "copy", *TINY, "--training.seed", "3"])
    assert [line["step"] for line in stable["curve"]] == [20, 40]
    assert [one["beam_size"] for one in stable["test_sets"]] == [1, 2]
    assert all(one["sentences"] == 8 and one["length_penalty"] == 0.6 for one in stable["test_sets"])
    kept = json.loads((ran / "runs" / "tiny" / "small-stable-3" / "test.scores.json").read_text())
    assert (
        stable["test_sets"][1]["scores"] == kept["scores"] and stable["weights"] == kept["model"]["weights"]["sha256"]
    )
    assert unstable["failed"].startswith("the gradient was not finite") and "test_sets" not in unstable


def test_results_contain_no_path_of_this_machine(ran: Path) -> None:
    text = (ran / "tiny.json").read_text("utf-8")
    assert str(ran) not in text and str(Path.home()) not in text and "--run " not in text


def test_a_second_run_does_only_what_is_missing(ran: Path, small: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_test_set(monkeypatch)
    monkeypatch.setitem(EXPERIMENTS, "tiny", small)
    before, trained, scored = (ran / "tiny.json").read_bytes(), [], []
    real_train, real_evaluate = experiments._train, experiments.evaluate_runs
    monkeypatch.setattr(experiments, "_train", lambda *args: trained.append(args) or real_train(*args))
    monkeypatch.setattr(
        experiments, "evaluate_runs", lambda *a, **k: scored.append(k["beam_size"]) or real_evaluate(*a, **k)
    )
    list(experiments.run("tiny", ran / "runs", ran))
    assert len(trained) == 1, (
        "the command is called for the finished run only, and does nothing; the failed one is not tried again"
    )
    assert scored == []
    assert (ran / "tiny.json").read_bytes() == before

    kept = json.loads(before)
    del kept["rows"][0]["test_sets"][0], kept["rows"][1]
    (ran / "tiny.json").write_text(json.dumps(kept))
    monkeypatch.setattr(experiments, "_train", lambda words, *_: "unstable again" if "1e38" in words else None)
    list(experiments.run("tiny", ran / "runs", ran))
    assert scored == [1], "only the missing score is computed"
    assert [row["label"] for row in rows(ran)] == ["small, stable", "unstable"]
    assert rows(ran)[1]["failed"] == "unstable again"
    (ran / "tiny.json").write_bytes(before)


def test_a_failed_run_is_tried_again_with_other_settings(
    ran: Path, small: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, trained = (ran / "tiny.json").read_bytes(), []
    variants = {"unstable": [*TINY, *UNSTABLE, "--training.warmup-steps", "2"]}
    monkeypatch.setitem(EXPERIMENTS, "tiny", replace(small, variants=variants))
    monkeypatch.setattr(experiments, "_train", lambda words, *_: trained.append(words) or "unstable again")
    list(experiments.run("tiny", ran / "runs", ran))
    assert len(trained) == 1 and rows(ran)[0]["failed"] == "unstable again"
    (ran / "tiny.json").write_bytes(before)


def test_a_variant_that_cannot_start_is_an_error(
    small: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Experiment("", "copy", {"bad": ["--model.n-heads", "3"]}, seeds=(1,))
    monkeypatch.setitem(EXPERIMENTS, "bad", bad)
    with pytest.raises(UserError, match=r"^bad, bad: --model.d-model must be a multiple of --model.n-heads"):
        list(experiments.run("bad", tmp_path / "runs", tmp_path))
    assert not (tmp_path / "bad.json").exists()


def test_existing_runs_are_recorded_with_the_names_of_their_folders(
    ran: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shorten_test_set(monkeypatch)
    stable, unstable = (str(ran / "runs" / "tiny" / name) for name in ("small-stable-3", "unstable-3"))
    assert main(["record", "multi30k", stable, "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("multi30k: small-stable-3, seed 3: BLEU ")
    first = (tmp_path / "multi30k.json").read_bytes()
    jsonschema.validate(json.loads(first), EXPERIMENT)
    (row,) = rows(tmp_path, "multi30k")
    assert "data.corpus: multi30k, now copy" in row["differs"]

    monkeypatch.setattr(experiments, "evaluate_runs", lambda *_, **__: pytest.fail("it was evaluated already"))
    assert main(["record", "multi30k", stable, "--output", str(tmp_path)]) == 0
    assert (tmp_path / "multi30k.json").read_bytes() == first
    assert main(["record", "multi30k", unstable, "--output", str(tmp_path)]) == 0
    assert [row["label"] for row in rows(tmp_path, "multi30k")] == ["small-stable-3", "unstable-3"]


def test_a_run_that_was_stopped_early_is_recorded_as_such(ran: Path, tmp_path: Path) -> None:
    stopped = tmp_path / "stopped"
    stopped.mkdir()
    for name in ("recipe.json", "sessions.jsonl", "metrics.jsonl"):
        (stopped / name).write_text((ran / "runs" / "tiny" / "small-stable-3" / name).read_text())
    metrics = (stopped / "metrics.jsonl").read_text().splitlines()
    (stopped / "metrics.jsonl").write_text(metrics[0] + "\n")
    list(experiments.record("multi30k", [stopped], tmp_path))
    (row,) = rows(tmp_path, "multi30k")
    assert row["failed"] == "stopped after 20 of 40 steps" and row["step"] == 20

    (stopped / "metrics.jsonl").write_text("\n".join(metrics).replace('"valid_loss": ', '"valid_loss": NaN, "was": '))
    list(experiments.record("multi30k", [stopped], tmp_path))
    (row,) = rows(tmp_path, "multi30k")
    assert row["failed"] == "the validation loss is not a finite number" and row["curve"][0]["valid_loss"] is None


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("transformer train pocket --run /a/b --training.seed 2", "transformer train pocket --training.seed 2"),
        ("transformer train pocket --run=/a/b", "transformer train pocket"),
        ("transformer train pocket --data.corpus /a/b.tsv", "transformer train pocket --data.corpus b.tsv"),
        ("transformer train pocket --data.corpus=/a/b.en,/a/b.de", "transformer train pocket --data.corpus b.en,b.de"),
        ("transformer train pocket --run", "transformer train pocket"),
        ("transformer train multi30k --mirror /a --run b", "transformer train multi30k"),
        (None, None),
    ],
)
def test_paths_are_removed_from_a_command(typed: str | None, kept: str | None) -> None:
    assert without_paths(typed) == kept


def test_folders_are_removed_from_a_corpus() -> None:
    assert [without_folders(corpus) for corpus in ("pocket", "/a/b.tsv", "a/b.en,/c/b.de")] == [
        "pocket",
        "b.tsv",
        "b.en,b.de",
    ]


def arguments_of(variant: list[str]) -> dict[str, str]:
    return dict(zip(variant[::2], variant[1::2], strict=True))


def test_the_learning_rates_with_and_without_warm_up_match_the_labels() -> None:
    recipe, rates = RECIPES["pocket"], {}
    for label, variant in EXPERIMENTS["norm-warmup"].variants.items():
        given = arguments_of(variant)
        warm_up = int(given.get("--training.warmup-steps", recipe.training.warmup_steps))
        factor = float(given.get("--training.learning-rate-factor", recipe.training.learning_rate_factor))
        rates[label] = [learning_rate(step, 128, warm_up, factor) for step in range(1, 1001)]
    for norm in CHOICES["norm"]:
        usual, same_peak, same_later = (
            rates[f"{norm}, {label}"] for label in ("with warm-up", "without, same peak", "without, same rate later")
        )
        assert max(same_peak) == same_peak[0] == pytest.approx(max(usual), rel=1e-5)
        assert same_later[500:] == pytest.approx(usual[500:]) and same_later[0] > 10 * max(usual)


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if EXPERIMENTS[name].variants])
def test_the_variants_of_an_experiment_differ_only_in_values(name: str) -> None:
    given = [arguments_of(variant) for variant in EXPERIMENTS[name].variants.values()]
    assert all(one != other for one, other in pairwise(given))
    assert EXPERIMENTS[name].question.endswith("?") and EXPERIMENTS[name].recipe in RECIPES
    if name not in ("norm-warmup", "beam-width", "captions"):
        assert all(one.keys() == other.keys() for one, other in pairwise(given))


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["run", "multi30k"], "error: the runs of multi30k are made by hand"),
        (["run", "heads", "--output", str(tmp_path / "none")], "error: the folder for the results"),
        (["record", "multi30k", str(tmp_path)], "has no record of a training run"),
        (
            ["record", "heads", str(tmp_path)],
            "error: heads trains its own runs: python -m book.experiments run heads",
        ),
    ):
        assert main(arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(EXPERIMENTS)
    assert "18 runs" in next(line for line in lines if line.startswith("norm-warmup"))


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "python -m book.experiments run smoothing" in capsys.readouterr().out
