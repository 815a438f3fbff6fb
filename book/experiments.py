"""Run the experiments of the book: ``python -m book.experiments list | run NAME | record NAME RUN ...``.

An experiment trains one recipe with several settings, each with several seeds, and evaluates every run on its test set.
The results are written to ``book/results/NAME.json``, one row for each run, with everything needed to reproduce it; the
page "Experiments" of the book is made from these files. A finished run is not trained again and an evaluated one is not
evaluated again, so the same command does only what is missing.
"""

import argparse
import json
import math
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from book.scripts import RESULTS, guarded, write_result
from transformer.checkpoint import read_settings
from transformer.config import CHOICES
from transformer.device import choose_device
from transformer.errors import UserError
from transformer.evaluation.evaluate import evaluate_runs
from transformer.files import read_json
from transformer.provenance import provenance
from transformer.recipes import RECIPES
from transformer.training.run_folder import RECIPE, differences, read_metrics, read_sessions
from transformer.translator import Translator

RUNS = Path("runs", "experiments")
SHORT = "--training.steps 3000 --training.average-steps 500 --training.validate-every 250".split()
"""Half of the steps of ``pocket``: enough to distinguish good settings from bad ones."""
CAPTIONS = (
    "--model.vocab-size 4000 --model.dropout 0.15 "
    "--training.steps 2000 --training.validate-every 250 --training.average-steps 300"
).split()
"""The baseline of the ``multi30k`` experiments: half of its vocabulary and dropout, a sixth of its steps."""
OPTIMIZERS = [
    *("--model.vocab-size", "4000", "--model.d-model", "64", "--model.d-ff", "256", "--model.n-layers", "2"),
    *("--training.batch-tokens", "500", "--training.steps", "600", "--training.warmup-steps", "150"),
    *("--training.learning-rate-factor", "1", "--training.average-steps", "0"),
    *("--training.validate-every", "50", "--training.validation-sentences", "20"),
]
"""A small model and a small budget, to compare optimisers."""


@dataclass(frozen=True)
class Experiment:
    """A question, and the runs that answer it."""

    question: str
    recipe: str
    variants: dict[str, list[str]]
    """Label → arguments of ``transformer train``. If empty, runs are made by hand and recorded."""
    seeds: tuple[int, ...] = (1, 2, 3)
    beam_sizes: tuple[int, ...] = (1, 4)
    """The beam sizes with which each run is evaluated; 1 is greedy search."""


def _norm_and_warm_up() -> dict[str, list[str]]:
    """Return variants for both norms, with and without warm-up.

    Without warm-up, either the peak of the learning rate is the same, or the rate after the warm-up is. The peak
    is ``learning_rate_factor / √(d_model · warmup_steps)``.
    """
    training = RECIPES["pocket"].training
    peak = training.learning_rate_factor / training.warmup_steps**0.5
    warm_ups = {
        "with warm-up": [],
        "without, same peak": ["--training.warmup-steps", "1", "--training.learning-rate-factor", f"{peak:.6g}"],
        "without, same rate later": ["--training.warmup-steps", "1"],
    }
    return {
        f"{norm}, {label}": [*SHORT, "--model.norm", norm, *arguments]
        for norm in CHOICES["norm"]
        for label, arguments in warm_ups.items()
    }


PAPER_LAYOUT = [
    *CAPTIONS,
    *("--model.norm", "post", "--model.n-layers", "6", "--training.learning-rate-factor", "1"),
]
"""Six post-norm layers on either side, and the learning rates of the paper's formula (§5.3)."""

EXPERIMENTS: dict[str, Experiment] = {
    "initialisation": Experiment(
        "Does it matter how the weights of the linear layers are initialised?",
        "pocket",
        {name: [*SHORT, "--model.initialization", name] for name in CHOICES["initialization"]},
    ),
    "norm-warmup": Experiment(
        "What does the warm-up do with post-norm and with pre-norm?",
        "pocket",
        _norm_and_warm_up(),
    ),
    "smoothing": Experiment(
        "How much label smoothing is good?",
        "pocket",
        {value: [*SHORT, "--training.label-smoothing", value] for value in ("0", "0.05", "0.1", "0.2")},
    ),
    "beam-width": Experiment(
        "How many hypotheses should the search keep?",
        "pocket",
        {"pocket": SHORT},
        beam_sizes=(1, 2, 4, 8, 16),
    ),
    "heads": Experiment(
        "Into how many heads should the same width be divided?",
        "pocket",
        {value: [*SHORT, "--model.n-heads", value] for value in ("1", "2", "4", "8", "16")},
    ),
    "positions": Experiment(
        "How should the model represent the order of the words?",
        "pocket",
        {name: [*SHORT, "--model.positions", name] for name in CHOICES["positions"]},
    ),
    "captions": Experiment(
        "Which of the recipe's settings matter for real captions?",
        "multi30k",
        {
            "baseline": CAPTIONS,
            "vocabulary 2,000": [*CAPTIONS, "--model.vocab-size", "2000"],
            "vocabulary 8,000": [*CAPTIONS, "--model.vocab-size", "8000"],
            "BPE dropout 0.1": [*CAPTIONS, "--data.bpe-dropout", "0.1", "--data.segmentations", "5"],
            "dropout 0.05": [*CAPTIONS, "--model.dropout", "0.05"],
            "dropout 0.3": [*CAPTIONS, "--model.dropout", "0.3"],
            "2 layers": [*CAPTIONS, "--model.n-layers", "2"],
            "6 layers": [*CAPTIONS, "--model.n-layers", "6"],
            "d_model 64": [*CAPTIONS, "--model.d-model", "64", "--model.d-ff", "256"],
            "d_model 256": [*CAPTIONS, "--model.d-model", "256", "--model.d-ff", "1024"],
            "post-norm": [*CAPTIONS, "--model.norm", "post"],
            "rotary positions": [*CAPTIONS, "--model.positions", "rotary"],
            "no smoothing": [*CAPTIONS, "--training.label-smoothing", "0"],
            "not averaged": [*CAPTIONS, "--training.average-steps", "0"],
        },
        seeds=(1,),
    ),
    "paper-layout": Experiment(
        "Does a small model with six post-norm layers and the paper's schedule learn, also with a short warm-up?",
        "multi30k",
        {
            **{
                f"{steps} warm-up steps": [*PAPER_LAYOUT, "--training.warmup-steps", steps] for steps in ("1000", "125")
            },
            "125 warm-up steps, same peak": [
                *(*PAPER_LAYOUT, "--training.warmup-steps", "125"),
                *("--training.learning-rate-factor", f"{(125 / 1000) ** 0.5:.6g}"),
            ],
        },
        seeds=(1,),
    ),
    "paper-warmup": Experiment(
        "Does this model translate if the warm-up is as long as in the paper, and with a quarter of it?",
        "multi30k",
        {
            f"{steps} warm-up steps": [
                *(*PAPER_LAYOUT, "--training.warmup-steps", steps, "--training.steps", "8000"),
                *("--training.validate-every", "500", "--training.average-steps", "1000"),
            ]
            for steps in ("4000", "1000")
        },
        seeds=(1, 2),
    ),
    "optimizer-rates": Experiment(
        "Which learning rate suits Adam, and which Muon?",
        "multi30k",
        {
            f"{label}, factor {factor}": [
                *OPTIMIZERS,
                *("--model.dropout", "0.15", "--training.optimizer", name),
                *("--training.learning-rate-factor", factor),
            ]
            for factor in ("0.5", "1", "2")
            for label, name in (("Adam", "adam"), ("Muon", "muon"))
        },
        seeds=(1,),
        beam_sizes=(1,),
    ),
    "optimizer": Experiment(
        "Does Muon reach the same validation loss sooner than Adam?",
        "multi30k",
        {
            label: [*OPTIMIZERS, "--model.dropout", "0.15", "--training.optimizer", name]
            for label, name in (("Adam", "adam"), ("Muon", "muon"))
        },
        beam_sizes=(1,),
    ),
    "optimizer-wmt14-mini": Experiment(
        "Does Muon beat Adam on a small part of WMT14, too?",
        "wmt14-mini",
        {label: [*OPTIMIZERS, "--training.optimizer", name] for label, name in (("Adam", "adam"), ("Muon", "muon"))},
        beam_sizes=(1,),
    ),
    "multi30k": Experiment(
        "Which settings suit a small corpus of real sentences?",
        "multi30k",
        {},
    ),
    "captions-speedrun": Experiment(
        "How good a translator of captions can be trained in seven minutes on two cores?",
        "multi30k-speedrun",
        {},
    ),
    "wmt14-mini": Experiment(
        "What does the small model learn from a small part of WMT14?",
        "wmt14-mini",
        {},
    ),
}


def run(name: str, runs: Path = RUNS, output: Path = RESULTS) -> Iterator[str]:
    """Train and evaluate the missing runs of an experiment; the results file is updated after each run.

    All variants are trained with the first seed, then all with the second. A training run that starts and ends with a
    `UserError` is also a result: its message is recorded, and it is not tried again while its run folder exists.

    Args:
        runs: the folder for the run folders.
        output: the folder of ``NAME.json``.

    Yields:
        A readable line about each run.

    Raises:
        UserError: if the experiment has no variants, or training can't start.
    """
    experiment = EXPERIMENTS[name]
    if not experiment.variants:
        raise UserError(
            f"the runs of {name} are made by hand; record them: python -m book.experiments record {name} RUN ..."
        )
    _check_folder(output)
    for seed in experiment.seeds:
        for label, settings in experiment.variants.items():
            folder = runs / name / f"{re.sub(r'[^a-zA-Z0-9.]+', '-', label)}-{seed}"
            row = _read_row(output, name, label, seed)
            arguments = ["train", experiment.recipe, *settings, "--training.seed", str(seed)]
            command = shlex.join(["transformer", *arguments])
            has_failed = row and row["failed"] and folder.exists() and row["sessions"][-1]["command"] == command
            failed = row["failed"] if row and has_failed else _train(arguments, folder, f"{name}, {label}")
            row = describe_run(folder, name, label, row, failed)
            _write_row(output, name, row)
            yield f"{name}: {_summary(row)}"


def record(name: str, runs: list[Path], output: Path = RESULTS, mirror: str | None = None) -> Iterator[str]:
    """Record existing runs; the name of a run's folder becomes its label.

    A run that was stopped early is recorded as such and not evaluated.

    Args:
        runs: run folders of ``transformer train``.
        output: the folder of ``NAME.json``; other rows of the file stay.
        mirror: where to read the test set from, as in `sentence_pairs`.

    Yields:
        A readable line about each run.

    Raises:
        UserError: if the experiment has variants, a folder is not a run, or it has no record of its training.
    """
    if EXPERIMENTS[name].variants:
        raise UserError(f"{name} trains its own runs: python -m book.experiments run {name}")
    _check_folder(output)
    for folder in runs:
        if not read_sessions(folder) or not read_metrics(folder):
            raise UserError(f"{folder} has no record of a training run: it needs sessions.jsonl and metrics.jsonl")
        label, training = folder.resolve().name, read_settings(folder / RECIPE)["training"]
        steps = read_metrics(folder)[-1]["step"]
        stopped_early = steps < training["steps"] and not training["patience"]
        failed = f"stopped after {steps:.0f} of {training['steps']} steps" if stopped_early else None
        row = describe_run(folder, name, label, _read_row(output, name, label, training["seed"]), failed, mirror)
        _write_row(output, name, row)
        yield f"{name}: {_summary(row)}"


def describe_run(
    folder: Path,
    name: str,
    label: str,
    before: dict[str, Any] | None = None,
    failed: str | None = None,
    mirror: str | None = None,
) -> dict[str, Any]:
    """Return the row of a run in its experiment's results file.

    Args:
        before: the existing row of the run; if the weights are the same, its scores are reused.
        failed: the message of a run that did not finish; such a run is not evaluated.
    """
    experiment = EXPERIMENTS[name]
    recipe = read_settings(folder / RECIPE)
    recipe["data"]["corpus"] = without_folders(recipe["data"]["corpus"])
    defaults = json.loads(json.dumps(asdict(RECIPES[experiment.recipe])))
    curve = [{key: _rounded(value) for key, value in line.items()} for line in read_metrics(folder)]
    if curve and curve[-1]["valid_loss"] is None:
        failed = failed or "the validation loss is not a finite number"
    row: dict[str, Any] = {
        "label": label,
        "seed": recipe["training"]["seed"],
        "differs": list(differences(defaults, recipe)),
        "failed": failed,
        "sessions": [{**session, "command": without_paths(session["command"])} for session in read_sessions(folder)],
        **{key: curve[-1][key] if curve else 0 for key in ("step", "target_tokens", "minutes")},
        "curve": curve,
    }
    if failed:
        return row
    translator = Translator.load(folder)
    row["parameters"] = sum(p.numel() for p in translator.model.parameters())
    row["weights"] = translator.metadata["weights"]["sha256"]
    reusable = before["test_sets"] if before and before.get("weights") == row["weights"] else []
    row["test_sets"] = [
        next((test for test in reusable if test["beam_size"] == size), None) or _evaluate(folder, size, mirror)
        for size in experiment.beam_sizes
    ]
    return row


def _evaluate(folder: Path, beam_size: int, mirror: str | None) -> dict[str, Any]:
    """Evaluate a run on its test set as ``transformer evaluate`` does; return the scores and their provenance."""
    device = choose_device()
    for _ in evaluate_runs([folder], device, beam_size=beam_size, mirror=mirror):
        pass
    report = read_json(folder / "test.scores.json")
    test_set, settings = report["test_set"], report["settings"]
    return {
        "corpus": without_folders(test_set["corpus"]),
        "split": test_set["split"],
        "direction": test_set["direction"],
        "sentences": test_set["sentences"],
        "beam_size": settings["beam_size"],
        "length_penalty": settings["length_penalty"],
        "seconds": report["seconds"],
        "provenance": {key: value for key, value in provenance(device).items() if key != "command"},
        "scores": report["scores"],
    }


def _train(arguments: list[str], folder: Path, title: str) -> str | None:
    """Run a ``transformer`` command; return the message if training started and then failed, else None.

    Raises:
        UserError: if the training didn't start.
    """
    sessions_before = len(read_sessions(folder))
    command = [sys.executable, "-m", "transformer.cli", *arguments, "--run", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        # Ctrl-C also reaches the command, which then saves a checkpoint to resume from.
        _, stderr = process.communicate()
    if process.returncode == 0:
        return None
    if process.returncode == 130:
        raise KeyboardInterrupt
    last_line = next(reversed(stderr.strip().splitlines()), "it failed without a message")
    message = re.sub(r"(?<!\S)/\S*/", "", last_line.removeprefix("error: "))  # without the folders of this machine
    if process.returncode == 2 and len(read_sessions(folder)) > sessions_before:
        return message
    raise UserError(f"{title}: {message}")


def without_paths(command: str | None) -> str | None:
    """Return a command without paths: ``--run`` and ``--mirror`` are removed, and so is the folder of a corpus."""
    if command is None:
        return None
    words = iter(
        [part for word in shlex.split(command) for part in (word.split("=", 1) if word[:2] == "--" else [word])]
    )
    result = []
    for word in words:
        if word in ("--run", "--mirror"):
            next(words, None)
        else:
            result.append(word)
            if word == "--data.corpus":
                result.append(without_folders(next(words, "")))
    return shlex.join(result)


def without_folders(corpus: str) -> str:
    """Return the files of a corpus without their folders; the name of a known corpus stays as it is."""
    return ",".join(Path(part).name for part in corpus.split(","))


def _rounded(value: float) -> float | None:
    """Round to five digits; None for values that are not finite, which JSON can't represent."""
    if not math.isfinite(value):
        return None
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _summary(row: dict[str, Any]) -> str:
    """Describe a row in a line."""
    result = row["failed"] or ", ".join(
        f"{test['scores'][0]['name']} {test['scores'][0]['value']:.2f} with beam size {test['beam_size']}"
        for test in row["test_sets"]
    )
    return f"{row['label']}, seed {row['seed']}: {result}"


def _read_row(output: Path, name: str, label: str, seed: int) -> dict[str, Any] | None:
    """Return the row of a run from the experiment's results file, or None."""
    path = output / f"{name}.json"
    rows = read_json(path)["rows"] if path.exists() else []
    return next((row for row in rows if (row["label"], row["seed"]) == (label, seed)), None)


def _write_row(output: Path, name: str, row: dict[str, Any]) -> None:
    """Write a row into the experiment's results file in place of the same run's; sort the rows like the variants."""
    path, experiment = output / f"{name}.json", EXPERIMENTS[name]
    order = list(experiment.variants)
    rows = read_json(path)["rows"] if path.exists() else []
    key = (row["label"], row["seed"])
    indices = [i for i, old in enumerate(rows) if (old["label"], old["seed"]) == key]
    if indices:
        rows[indices[0]] = row
    else:
        rows.append(row)
    if order:  # otherwise in the order in which they were recorded
        rows = [old for old in rows if old["label"] in order]
        rows.sort(key=lambda old: (order.index(old["label"]), old["seed"]))
    header = {"experiment": name, "question": experiment.question, "recipe": experiment.recipe, "log": not order}
    write_result(path, {**header, "rows": rows})


def _check_folder(output: Path) -> None:
    if not output.is_dir():
        raise UserError(f"the folder for the results, {output}, does not exist: create it first")


EXAMPLES = """\
For example:

    python -m book.experiments list
    python -m book.experiments run smoothing
    python -m book.experiments run heads positions --runs /big/disk/runs
    python -m book.experiments record multi30k runs/multi30k runs/multi30k-wide
"""


@guarded
def main(arguments: list[str] | None = None) -> None:
    """List the experiments, run some, or record runs."""
    parser = argparse.ArgumentParser(
        prog="python -m book.experiments",
        description="Run the experiments of the book and record their results.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list", help="list the experiments")
    running = commands.add_parser("run", help="train and evaluate the missing runs of experiments")
    running.add_argument("names", nargs="+", choices=EXPERIMENTS, metavar="NAME", help=", ".join(EXPERIMENTS))
    running.add_argument("--runs", type=Path, default=RUNS, help="the folder for run folders (default: %(default)s)")
    recording = commands.add_parser("record", help="record runs that already exist")
    recording.add_argument("name", choices=EXPERIMENTS, metavar="NAME", help="the experiment that they belong to")
    recording.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run folder; its name becomes the label")
    recording.add_argument("--mirror", help="a folder or address with the files of the corpus")
    for command in (running, recording):
        command.add_argument(
            "--output", type=Path, default=RESULTS, help="the folder for NAME.json (default: book/results)"
        )
    args = parser.parse_args(arguments)
    if args.command == "list":
        for name, experiment in EXPERIMENTS.items():
            count = len(experiment.variants) * len(experiment.seeds)
            print(f"{name:16} {experiment.question} {f'{count} runs' if count else 'Recorded by hand'}.")
    elif args.command == "run":
        for name in args.names:
            for line in run(name, args.runs, args.output):
                print(line, flush=True)
    else:
        for line in record(args.name, args.runs, args.output, args.mirror):
            print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
