"""Experiments as data, and what runs them: ``python -m book.experiments list | run NAME | record NAME RUN ...``.

An experiment trains one recipe under several settings, each with several seeds, and puts every run to the test. What
was found goes to ``book/results/NAME.json``, a row a run, with all that is needed to get it again; the page of results
is made from these files. A run that is finished is not trained again, and one that is scored is not scored again, so
the same command always does just what is missing.
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

from transformer.checkpoint import read_json, read_settings, write_atomically
from transformer.config import CHOICES
from transformer.device import choose_device
from transformer.errors import UserError
from transformer.evaluation.evaluate import assess
from transformer.provenance import provenance
from transformer.recipes import RECIPES
from transformer.training.run_folder import RECIPE, differences, read_metrics, read_sessions
from transformer.translator import Translator

RESULTS = Path(__file__).parent / "results"
RUNS = Path("runs", "experiments")
SHORT = ["--training.steps", "3000", "--training.average-steps", "500", "--training.validate-every", "250"]
"""Half of ``pocket``'s steps: enough to tell good settings from bad ones."""
CAPTIONS = [
    *("--model.vocab-size", "4000", "--model.dropout", "0.15"),
    *("--training.steps", "2000", "--training.validate-every", "250", "--training.average-steps", "300"),
]
"""Where the search for ``multi30k``'s settings began: half of its vocabulary and dropout, a sixth of its steps."""


@dataclass(frozen=True)
class Experiment:
    """One question, and the runs that answer it."""

    question: str
    recipe: str
    variants: dict[str, list[str]]
    """Label → arguments of ``transformer train``. None: its runs are made by hand, and recorded."""
    seeds: tuple[int, ...] = (1, 2, 3)
    beams: tuple[int, ...] = (1, 4)
    """Each run is scored with these; 1 is greedy search."""


def _norm_and_warm_up() -> dict[str, list[str]]:
    """Both norms, with and without warm-up; without, the same highest rate, or the same rate after the warm-up.

    The highest rate is ``learning_rate_factor / √(d_model · warmup_steps)``.
    """
    usual = RECIPES["pocket"].training
    peak = usual.learning_rate_factor / usual.warmup_steps**0.5
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


EXPERIMENTS: dict[str, Experiment] = {
    "initialisation": Experiment(
        "Does it matter how the linear layers' weights are drawn?",
        "pocket",
        {name: [*SHORT, "--model.initialisation", name] for name in CHOICES["initialisation"]},
    ),
    "norm-warmup": Experiment(
        "What does the warm-up do for each place of the norm?",
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
        beams=(1, 2, 4, 8, 16),
    ),
    "heads": Experiment(
        "Into how many heads should the same width be divided?",
        "pocket",
        {value: [*SHORT, "--model.n-heads", value] for value in ("1", "2", "4", "8", "16")},
    ),
    "positions": Experiment(
        "How should the model be told the order of the words?",
        "pocket",
        {name: [*SHORT, "--model.positions", name] for name in CHOICES["positions"]},
    ),
    "captions": Experiment(
        "Which of the recipe's settings matter for real captions?",
        "multi30k",
        {
            "the beginning": CAPTIONS,
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
            "not averaged": [*CAPTIONS[:-1], "0"],
        },
        seeds=(1,),
    ),
    "multi30k": Experiment(
        "Which settings suit a small corpus of real sentences?",
        "multi30k",
        {},
    ),
    "wmt14-mini": Experiment(
        "What does the small model learn from a small part of WMT14?",
        "wmt14-mini",
        {},
    ),
}


def run(name: str, runs: Path = RUNS, output: Path = RESULTS) -> Iterator[str]:
    """Train and score what is missing of an experiment; the file is brought up to date after each run.

    All variants get their first seed before any gets its second. A training that begins and then ends in a `UserError`
    is a finding as well: it is written down with its message, and not tried again while its folder is there.

    Args:
        runs: the folder for its run folders.
        output: the folder of ``NAME.json``.

    Yields:
        A line for people about each run.

    Raises:
        UserError: if there is nothing to run, or a run cannot be begun.
    """
    experiment = EXPERIMENTS[name]
    if not experiment.variants:
        raise UserError(f"the runs of {name} are made by hand: python -m book.experiments record {name} RUN ...")
    _check(output)
    for seed in experiment.seeds:
        for label, arguments in experiment.variants.items():
            folder = runs / name / f"{re.sub(r'[^a-zA-Z0-9.]+', '-', label)}-{seed}"
            row = _row(output, name, label, seed)
            words = ["train", experiment.recipe, *arguments, "--training.seed", str(seed)]
            command = shlex.join(["transformer", *words])
            known = row and row["failed"] and folder.exists() and row["sessions"][-1]["command"] == command
            failed = row["failed"] if row and known else _train(words, folder, f"{name}, {label}")
            row = described(folder, name, label, row, failed)
            _keep(output, name, row)
            yield f"{name}: {_told(row)}"


def record(name: str, runs: list[Path], output: Path = RESULTS, mirror: str | None = None) -> Iterator[str]:
    """Write down runs that are there already; each is called by the name of its folder.

    A run that was stopped early is written down as that, and not scored.

    Args:
        runs: run folders, as ``transformer train`` leaves them.
        output: the folder of ``NAME.json``; what else is in the file stays.
        mirror: as in `sentence_pairs`, to read the test set from.

    Yields:
        A line for people about each run.

    Raises:
        UserError: if a folder is no run, or it was not written down how it was trained.
    """
    _check(output)
    for folder in runs:
        if not read_sessions(folder) or not read_metrics(folder):
            raise UserError(f"{folder} does not say how it was trained: it needs sessions.jsonl and metrics.jsonl")
        label, training, made = folder.resolve().name, read_settings(folder / RECIPE)["training"], _made(folder)
        early = made < training["steps"] and not training["patience"]
        failed = f"stopped after {made:.0f} of {training['steps']} steps" if early else None
        row = described(folder, name, label, _row(output, name, label, training["seed"]), failed, mirror)
        _keep(output, name, row)
        yield f"{name}: {_told(row)}"


def described(
    folder: Path,
    name: str,
    label: str,
    before: dict[str, Any] | None = None,
    failed: str | None = None,
    mirror: str | None = None,
) -> dict[str, Any]:
    """A run as a row of its experiment's file.

    Args:
        before: the row as it was; scores of the same weights are taken from there.
        failed: what a training that did not reach its end said; such a run is not scored.
    """
    experiment = EXPERIMENTS[name]
    recipe = read_settings(folder / RECIPE)
    recipe["data"]["corpus"] = nameless(recipe["data"]["corpus"])
    usual = json.loads(json.dumps(asdict(RECIPES[experiment.recipe])))
    curve = [{key: _rounded(value) for key, value in line.items()} for line in read_metrics(folder)]
    if curve and curve[-1]["valid_loss"] is None:
        failed = failed or "the validation loss is not a finite number"
    row: dict[str, Any] = {
        "label": label,
        "seed": recipe["training"]["seed"],
        "differs": list(differences(usual, recipe)),
        "failed": failed,
        "sessions": [{**one, "command": portable(one["command"])} for one in read_sessions(folder)],
        **{key: curve[-1][key] if curve else 0 for key in ("step", "target_tokens", "minutes")},
        "curve": curve,
    }
    if failed:
        return row
    translator, facts = Translator.load(folder)
    row["parameters"] = sum(p.numel() for p in translator.model.parameters())
    row["weights"] = facts["weights"]["sha256"]
    known = before["test_sets"] if before and before.get("weights") == row["weights"] else []
    row["test_sets"] = [
        next((one for one in known if one["beam"] == beam), None) or _scored(folder, beam, mirror)
        for beam in experiment.beams
    ]
    return row


def _scored(folder: Path, beam: int, mirror: str | None) -> dict[str, Any]:
    """The scores of a run's test set, as ``transformer evaluate`` makes them, and where they come from."""
    device = choose_device()
    for _ in assess([folder], device, beam=beam, mirror=mirror):
        pass
    report = read_json(folder / "test.scores.json")
    tested, settings = report["test_set"], report["settings"]
    return {
        "corpus": nameless(tested["corpus"]),
        "split": tested["split"],
        "direction": tested["direction"],
        "sentences": tested["sentences"],
        "beam": settings["beam"],
        "alpha": settings["alpha"],
        "seconds": report["seconds"],
        "provenance": {key: value for key, value in provenance(device).items() if key != "command"},
        "scores": report["scores"],
    }


def _train(words: list[str], folder: Path, called: str) -> str | None:
    """Run the ``transformer`` command; the message of a training that began and could not go on, or None."""
    before = len(read_sessions(folder))
    command = [sys.executable, "-m", "transformer.cli", *words, "--run", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        _, said = process.communicate()  # Ctrl-C reaches the command, too: it saves, and so goes on another time
    if process.returncode == 0:
        return None
    if process.returncode == 130:
        raise KeyboardInterrupt
    last = next(reversed(said.strip().splitlines()), "it said nothing")
    message = re.sub(r"(?<!\S)/\S*/", "", last.removeprefix("error: "))  # no folders of this machine
    if process.returncode == 2 and len(read_sessions(folder)) > before:
        return message
    raise UserError(f"{called}: {message}")


def portable(command: str | None) -> str | None:
    """A command without the folders of its machine: no ``--run`` or ``--mirror``, and a corpus by its file's name."""
    if command is None:
        return None
    words = iter([word for one in shlex.split(command) for word in (one.split("=", 1) if one[:2] == "--" else [one])])
    kept = []
    for word in words:
        if word in ("--run", "--mirror"):
            next(words, None)
        else:
            kept.append(word)
            if word == "--data.corpus":
                kept.append(nameless(next(words, "")))
    return shlex.join(kept)


def nameless(corpus: str) -> str:
    """A corpus without its folder; those that have a name keep it."""
    return ",".join(Path(part).name for part in corpus.split(","))


def _made(folder: Path) -> float:
    """The steps that a run has made and validated."""
    return read_metrics(folder)[-1]["step"]


def _rounded(value: float) -> float | None:
    """Five digits of it; None for what is not finite, which JSON cannot say."""
    if not math.isfinite(value):
        return None
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _told(row: dict[str, Any]) -> str:
    """A row in a line."""
    found = row["failed"] or ", ".join(
        f"{one['scores'][0]['name']} {one['scores'][0]['value']:.2f} with beam {one['beam']}"
        for one in row["test_sets"]
    )
    return f"{row['label']}, seed {row['seed']}: {found}"


def _row(output: Path, name: str, label: str, seed: int) -> dict[str, Any] | None:
    """A run's row in the experiment's file, if it is there."""
    path = output / f"{name}.json"
    rows = read_json(path)["rows"] if path.exists() else []
    return next((row for row in rows if (row["label"], row["seed"]) == (label, seed)), None)


def _keep(output: Path, name: str, row: dict[str, Any]) -> None:
    """Put a row into the experiment's file, in the place of the same run's; the experiment's order is the file's."""
    path, experiment = output / f"{name}.json", EXPERIMENTS[name]
    order = list(experiment.variants)
    rows = read_json(path)["rows"] if path.exists() else []
    this = (row["label"], row["seed"])
    places = [i for i, old in enumerate(rows) if (old["label"], old["seed"]) == this]
    if places:
        rows[places[0]] = row
    else:
        rows.append(row)
    if order:  # without, in the order in which they were recorded
        rows = [old for old in rows if old["label"] in order]
        rows.sort(key=lambda old: (order.index(old["label"]), old["seed"]))
    about = {"experiment": name, "question": experiment.question, "recipe": experiment.recipe, "log": not order}
    write_atomically(path, (json.dumps({**about, "rows": rows}, indent=1, ensure_ascii=False) + "\n").encode())


def _check(output: Path) -> None:
    if not output.is_dir():
        raise UserError(f"there is no folder {output} to write results to: make it first")


EXAMPLES = """\
For example:

    python -m book.experiments list
    python -m book.experiments run smoothing
    python -m book.experiments run heads positions --runs /big/disk/runs
    python -m book.experiments record multi30k runs/multi30k runs/multi30k-wide
"""


def main(arguments: list[str] | None = None) -> int:
    """List the experiments, run some, or record runs of one; a mistake ends in one line on stderr and exit code 2."""
    parser = argparse.ArgumentParser(
        prog="python -m book.experiments",
        description="Run the experiments of the page of results, and write down what they find.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list", help="what experiments there are")
    running = commands.add_parser("run", help="train and score what is missing of experiments")
    running.add_argument("names", nargs="+", choices=EXPERIMENTS, metavar="NAME", help=", ".join(EXPERIMENTS))
    running.add_argument("--runs", type=Path, default=RUNS, help="the folder for run folders (default: %(default)s)")
    recording = commands.add_parser("record", help="write down runs that are there already")
    recording.add_argument("name", choices=EXPERIMENTS, metavar="NAME", help="the experiment that they belong to")
    recording.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run folder; its name is the run's")
    recording.add_argument("--mirror", help="a folder or address that holds the corpus's files")
    for one in (running, recording):
        one.add_argument("--output", type=Path, default=RESULTS, help="the folder for NAME.json, if not book/results")
    args = parser.parse_args(arguments)
    try:
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
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
