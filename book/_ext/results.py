"""The directive ``{results}``: tables and figures for the pages with results, generated from result files only.

The modules ``experiments``, ``language_filter``, ``live_models``, ``everyday``, ``decoding_trials``, ``quantization``
and ``gpu_run`` of ``book`` and ``transformer bench --output`` write these files to ``book/results``, and pretrained
models have their own. Where a file is missing, the page shows "Not measured yet".
"""

import json
import math
import re
import statistics
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, StrMethodFormatter
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from tabulate import tabulate

from book.everyday import HUNDREDS, RIGHT, count_right, read_judgements, read_sentences
from transformer.bench import report
from transformer.bench.runner import Measurement
from transformer.files import read_rows
from transformer.plots import style
from transformer.plots.curves import curves
from transformer.plots.strip_plot import strip_plot
from transformer.plots.style import Picture, Row
from transformer.recipes import RECIPES

ROOT = Path(__file__).parents[2]
MISSING = "*Not measured yet.*"
SCORES_BOX = "All scores, how they are computed, and where they come from"
DETAILS = "How the scores are computed, and where they come from"
LOWEST_MEANINGFUL_BLEU = 2.0
"""Where no BLEU is higher, figures compare the validation losses."""
NUMBER = re.compile(r"\**[\d–][\d.,]*(\s±\s[\d.]+|\s×|%)?\**")
"""A cell of a table that is a number, or a dash instead of one."""
GROUPS = {"post": "post-norm", "pre": "pre-norm"}
"""What the figures of learning curves call the labels before the comma."""
COMPARED = {"train": "training", "loss": "loss", "beam": "beam search", "greedy": "greedy search"}
"""The benchmarks in the figure of speeds, and what they are called there."""
SAME_DROPOUT = "the same, with the paper's dropout"
"""The baseline of the training benchmark that does the same work as ours."""
UNFAIR = "torch.nn.Transformer, logits in float32"
"""A baseline of the first measurements on a GPU, which computed its logits in another precision than ours."""
SCORES = ("BLEU", "BLEU lc", "BLEU paper", "chrF2", "METEOR")
"""The scores that tables show, if they were computed; all signatures are listed below the tables."""

SPEEDRUN_GOAL, SPEEDRUN_SEEDS = 33.0, 3
"""The BLEU that an entry to the speedrun must reach, as the mean of at least so many seeds."""
SYNTHETIC = "synthetic sentences"
TEST_SETS = {
    ("everyday", "test_tatoeba"): "short sentences",
    ("everyday", "test_multi30k"): "captions",
    ("multi30k", "test"): "captions",
    ("pocket-200k", "test"): SYNTHETIC,
}
"""What the test sets of the pretrained models consist of; the bars of synthetic ones are grey."""

Part = str | Picture | Row
"""A part of a section: Markdown, or figures."""


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over several seeds."""

    mean: float
    deviation: float | None
    """The sample standard deviation; None for a single value."""
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Compute them from one or more values.

        Raises:
            ValueError: if there is no value.
        """
        if not values:
            raise ValueError("there is no value to take the mean of")
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))

    def text(self, digits: int = 1) -> str:
        """Return "mean ± deviation"."""
        return f"{self.mean:.{digits}f}" + (
            "" if self.deviation is None else f"\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{self.deviation:.{digits}f}"
        )


def section(name: str, root: Path = ROOT) -> list[Part]:
    """Return a section of the pages with results, by one of the names below or that of an experiment.

    Args:
        root: the repository whose result files are shown.
    """
    sections: dict[str, Callable[[Path], list[Part]]] = {
        "highlights": highlights,
        "summary": summary,
        "quality": quality,
        "speed": speed,
        "decoding-trials": decoding_trials,
        "int8": int8,
        "gpu-training": partial(gpu, what="training"),
        "gpu-ladder": partial(gpu, what="ladder"),
        "gpu-attention": partial(gpu, what="attention"),
        "gpu-decoding": partial(gpu, what="decoding"),
        "gpu-real-text": partial(gpu, what="real-text"),
        "published": published,
        "language-filter": language_filter,
        "live": live_models,
        "everyday-sentences": everyday_sentences,
        "speedrun-records": speedrun_records,
    }
    return sections.get(name, partial(experiment, name=name))(root)


def highlights(root: Path) -> list[Part]:
    """Return a table of the main figures, each with a link to its section. Those without a file are left out."""
    folder, lines = root / "book" / "results", []
    if (path := folder / "multi30k.json").exists():
        seeds = [score(row["test_sets"][-1], "BLEU") for row in seed_groups(read(path)["rows"])["multi30k"]]
        what = f"[Captions](#results-captions), English to German: recipe `multi30k`, mean of {len(seeds)} seeds"
        lines.append([what, f"{statistics.fmean(seeds):.1f} BLEU"])
    if (path := folder / "everyday-sentences.json").exists():
        sentences = read_sentences(HUNDREDS[-1], root / "book" / "everyday_sentences.tsv")
        translations = read(path)[-1]["translations"]
        judgements = read_judgements(root / "book" / "everyday_judgements.tsv")
        right = count_right({one: translations[one] for one in sentences}, judgements)
        what = (
            "[Everyday sentences](#results-everyday) translated correctly, English to German, "
            "in the judgement of a language model"
        )
        lines.append([what, f"{right} of {len(sentences)}"])
    measured = [
        speed_ratios("train", [Measurement(**row) for row in benchmark["implementations"]])
        for path in folder.glob("bench-*.json")
        for benchmark in read(path)["benchmarks"]
        if benchmark["name"] == "train"
    ]
    name = f"train: {SAME_DROPOUT}"
    if ratios := [statistics.median(found[name]) for found in measured if name in found]:
        what = (
            "[Training speed](#results-speed) relative to `torch.nn.Transformer` with the same dropout and a large "
            "vocabulary, on one thread,"
        )
        speeds = " and ".join(f"{ratio:.1f}" for ratio in sorted(ratios))
        lines.append([f"{what} for {len(ratios)} kinds of CPU", f"{speeds} ×"])
    if (path := folder / "gpu" / "ladder.json").exists():
        facts = read(path)
        tokens = facts["results"][-1]["target_tokens_per_second"]
        what = f"[Training steps](#results-gpu) of the paper's base model on one {gpu_name(facts)}"
        lines.append([what, f"{tokens:,.0f} target tokens/s"])
    return [table(["what", "measured"], lines)] if lines else [MISSING]


def summary(root: Path) -> list[Part]:
    """Return a figure with the BLEU of each pretrained model on each of its test sets, with the widest beam.

    Bars that can be compared are next to each other.
    """
    groups: dict[str, dict[str, float]] = {}
    for name, (_, results) in pretrained_models(root).items():
        for test in results["test_sets"]:  # from the narrowest to the widest beam
            kind = TEST_SETS.get((test["corpus"], test["split"]), test["split"])
            groups.setdefault(f"{kind}, {arrow(test)}", {})[name] = score(test, "BLEU")
    if not groups:
        return [MISSING]
    values = {f"{test_set}: {name}": bleu for test_set, models in groups.items() for name, bleu in models.items()}
    described = "; ".join(f"{label}, {value:.1f}" for label, value in values.items())
    return [Picture(bars(values), f"BLEU of the pretrained models. {described}.")]


def bars(values: Mapping[str, float]) -> Figure:
    """Draw a horizontal bar for each value, with its label above it and the value at its end; grey if synthetic."""
    with style.in_style():
        figure, axes = style.new_figure(4.4, 0.6 + 0.5 * len(values))  # narrow enough for a phone
        colours = [style.PLAIN if SYNTHETIC in label else style.QUERY for label in values]
        drawn = axes.barh(range(len(values)), list(values.values()), height=0.4, color=colours)
        axes.bar_label(drawn, fmt="%.1f", padding=4)
        for y, label in enumerate(values):
            axes.text(0, y - 0.27, label, va="bottom")
        axes.set_ylim(len(values) - 0.6, -0.8)  # the first is at the top
        axes.spines[:].set_visible(False)
        axes.tick_params(left=False, labelleft=False, bottom=False, labelbottom=False)
        axes.set_title("BLEU with beam search", loc="left")
    return figure


def quality(root: Path) -> list[Part]:
    """Return the scores of the pretrained models, their provenance, and how the models were trained."""
    models = pretrained_models(root)
    if not models:
        return [MISSING]
    tests = [test for _, results in models.values() for test in results["test_sets"]]
    columns, rows, sources, training = common_scores(tests), [], [], []
    for name, (folder, results) in models.items():
        for test in results["test_sets"]:
            test_set = f"`{test['corpus']}` {test['split']}, {test['sentences']:,} sentences, {test['direction']}"
            values = [f"{score(test, column):.1f}" for column in columns]
            rows.append([f"`{name}`", test_set, test["beam_size"], *values])
        sources.append([f"`{name}`", *origin(results["provenance"])])
        training += [[f"`{name}`", *cells] for cells in session_cells(folder)]
    header = ["model", "test set", "beam size", *columns]
    computed = signatures(
        "models", [(f"`{name}`", t) for name, (_, found) in models.items() for t in found["test_sets"]]
    )
    origins = table(["model", *ORIGIN], sources, kind="long-end")
    parts: list[Part] = [folded(SCORES_BOX, table(header, rows), computed, "Evaluation:", origins)]
    if training:
        header = ["model", "steps", "total minutes", *ORIGIN]
        parts += [folded("How they were trained", table(header, training, kind="long-end"))]
    return parts


def session_cells(run: Path) -> Iterator[list[str]]:
    """Yield the cells of each session of a run: its steps, the minutes of all sessions (once), and its origin."""
    sessions, metrics = (read_rows(run / f"{name}.jsonl", row_type=dict[str, Any]) for name in ("sessions", "metrics"))
    ends = [*(session["step"] for session in sessions[1:]), metrics[-1]["step"] if metrics else None]
    for number, (session, end) in enumerate(zip(sessions, ends, strict=True)):
        steps = f"{session['step']:,} to {end:,}" if end is not None else f"from {session['step']:,}"
        minutes = f"{metrics[-1]['minutes']:.0f}" if metrics and number == 0 else ""
        yield [steps, minutes, *origin(session)]


def experiment(root: Path, name: str) -> list[Part]:
    """Return an experiment: its figures, and a folded table of its scores with where they come from."""
    path = root / "book" / "results" / f"{name}.json"
    if not path.exists():
        return [MISSING]
    results = read(path)
    rows = results["rows"]
    finished = [row for row in rows if not row["failed"]]
    tests = [test for row in finished for test in row["test_sets"]]
    labels = list(dict.fromkeys(row["label"] for row in rows))
    if results["log"]:
        parts, scores = compare_runs(rows), run_table(rows)
    elif len(labels) == 1 and tests:
        parts, scores = compare_beam_sizes(tests)
    else:
        parts, scores = compare_settings(labels, rows)
    computed = signatures("runs", [(row["label"], test) for row in finished for test in row["test_sets"]])
    runs = table(["run", "seed", *ORIGIN], session_rows(rows), kind="long-end")
    file = f"All results, with the learning curves: {{download}}`{path.name} <results/{path.name}>`."
    return [*parts, folded(SCORES_BOX, scores, computed, "The runs:", runs, file)]


def seed_groups(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the finished runs, those that differ only in their seeds together, under their common name."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if not row["failed"]:
            groups.setdefault((without_seed(row), *settings_of(row)), []).append(row)
    return {without_seed(group[0]) if len(group) > 1 else group[0]["label"]: group for group in groups.values()}


def without_seed(row: Mapping[str, Any]) -> str:
    """Return a run's label without its seed: ``multi30k`` for ``multi30k-2`` and for ``multi30k-seed-2``."""
    return re.sub(rf"(-seed)?-{row['seed']}$", "", row["label"])


def settings_of(row: Mapping[str, Any]) -> list[str]:
    """Return what a run changed, but not its seed."""
    return [setting for setting in row["differs"] if not setting.startswith("training.seed:")]


def compare_runs(rows: list[dict[str, Any]]) -> list[Part]:
    """Return a figure for each direction, with a row for all runs that differ only in their seeds."""
    directions: dict[str, dict[str, list[float]]] = {}
    for name, group in seed_groups(rows).items():
        tests = [row["test_sets"][-1] for row in group]
        what = f"{arrow(tests[0])}, beam {tests[0]['beam_size']}"
        directions.setdefault(what, {})[name] = [score(test, "BLEU") for test in tests]
    parts: list[Part] = []
    for what, values in directions.items():
        if len(values) > 1:
            title = f"BLEU on the test set, {what}"
            parts.append(Picture(strip_plot(values, title), f"{title}. {describe(values)}"))
        else:
            (name, bleu), *_ = values.items()
            parts.append(f"BLEU of the run `{name}` on the test set ({what}): **{Spread.of(bleu).text()}**.")
    return parts


def run_table(rows: list[dict[str, Any]]) -> str:
    """Return two tables of an experiment without variants: the scores, with means over seeds; what each run changed."""
    scores, changes = [], []
    for row in rows:
        bleu = [""] * 3 if row["failed"] else [f"{value:.1f}" for value in three_scores(row)]
        scores.append([row["label"], *bleu, f"{row['minutes']:.0f}"])
        changed = "; ".join(map(change, row["differs"])) or "nothing"
        changed += f". **{row['failed']}**" if row["failed"] else ""
        parameters = "" if row["failed"] else f"{row['parameters']:,}"
        changes.append([row["label"], changed, f"{row['step']:,}", parameters])
    for name, group in seed_groups(rows).items():
        if len(group) > 1:
            spreads = [Spread.of(column).text() for column in zip(*map(three_scores, group), strict=True)]
            scores.append([f"{name}, mean of {len(group)} seeds", *spreads, ""])
    names = [""] * 3
    if beam_sizes := beam_sizes_of(rows):
        names = [f"{name}, beam {beam_sizes[i]}" for name, i in (("BLEU", 0), ("BLEU", -1), ("BLEU lc", -1))]
    what_changed = table(["run", "changed settings", "steps", "parameters"], changes)
    return f"{table(['run', *names, 'minutes'], scores)}\n\n{what_changed}"


def three_scores(row: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return a run's BLEU with the narrowest and the widest beam, and the latter in lower case."""
    first, last = row["test_sets"][0], row["test_sets"][-1]
    return score(first, "BLEU"), score(last, "BLEU"), score(last, "BLEU lc")


def change(difference: str) -> str:
    """Shorten the description of a difference from the recipe."""
    if fine_tuned := re.match(r"initial_model: None, now \{'name': '(.+?)'", difference):
        return f"starts from the weights of `{fine_tuned[1]}`"
    return re.sub(r"^\w+\.(.+): (.+), now (.+)$", r"\1 \2 → \3", difference)


def compare_beam_sizes(tests: list[dict[str, Any]]) -> tuple[list[Part], str]:
    """Return a figure and a table of the scores of the same models with each beam size."""
    by_size: dict[int, list[dict[str, Any]]] = {}
    for test in tests:
        by_size.setdefault(test["beam_size"], []).append(test)
    columns = common_scores(tests)
    values = {str(beam_size): [score(test, "BLEU") for test in group] for beam_size, group in by_size.items()}
    rows = []
    for beam_size, group in by_size.items():
        spreads = [Spread.of([score(test, name) for test in group]).text() for name in columns]
        rows.append([beam_size, *spreads, Spread.of([test["seconds"] for test in group]).text(), len(group)])
    picture = Picture(
        strip_plot(values, "BLEU on the test set, by beam size"), f"BLEU by beam size. {describe(values)}"
    )
    return [picture], table(["beam size", *columns, "seconds", "seeds"], rows)


def compare_settings(labels: list[str], rows: list[dict[str, Any]]) -> tuple[list[Part], str]:
    """Return a figure and a table of the scores of each setting, with means over its seeds; and what failed."""
    cells, bleu, losses, beam_sizes = [], {}, {}, beam_sizes_of(rows)
    for label in labels:
        group = [row for row in rows if row["label"] == label]
        done = [row for row in group if not row["failed"]]
        columns = [[score(row["test_sets"][i], "BLEU") for row in done] for i in range(len(beam_sizes))]
        columns.append([score(row["test_sets"][-1], "BLEU lc") for row in done])
        line = [label, *(Spread.of(column).text() if column else "" for column in columns)]
        last_losses = [row["curve"][-1]["valid_loss"] for row in done]
        line.append(Spread.of(last_losses).text(3) if done else "")
        failed = len(group) - len(done)
        line += [
            f"{done[0]['parameters']:,}" if done else "",
            f"{len(done)}" + (f", {failed} failed" if failed else ""),
        ]
        cells.append(line)
        if done:
            bleu[label] = [score(row["test_sets"][-1], "BLEU") for row in done]
            losses[label] = last_losses
    last = f"beam {beam_sizes[-1]}" if beam_sizes else "beam"
    header = [
        "setting",
        *(f"BLEU, beam {beam_size}" for beam_size in beam_sizes),
        f"BLEU lc, {last}",
        "validation loss",
    ]
    parts: list[Part] = []
    if bleu and max(map(max, bleu.values())) < LOWEST_MEANINGFUL_BLEU:
        parts.append(
            Picture(strip_plot(losses, "validation loss"), f"Validation loss by setting. {describe(losses, 3)}")
        )
    elif bleu:
        parts.append(Picture(strip_plot(bleu, f"BLEU on the test set, {last}"), f"BLEU by setting. {describe(bleu)}"))
    failures = dict.fromkeys(f"{row['label']}: {row['failed']}" for row in rows if row["failed"])
    return [*parts, *(f"- {failure}" for failure in failures)], table([*header, "parameters", "seeds"], cells)


def speedrun_records(root: Path) -> list[Part]:
    """Return a table of the entries that keep the rules of the speedrun, in the order in which they were recorded.

    An entry is the finished runs ``NAME-1``, ``NAME-2``, ``NAME-3`` and so on, one for each seed.
    """
    path = root / "book" / "results" / "captions-speedrun.json"
    if not path.exists():
        return [MISSING]
    entries: dict[str, list[dict[str, Any]]] = {}
    for row in read(path)["rows"]:
        if row["label"].endswith(f"-{row['seed']}") and not row["failed"]:
            entries.setdefault(without_seed(row), []).append(row)
    cells = []
    for name, runs in entries.items():
        sessions = [session for row in runs for session in row["sessions"]]
        bleu, minutes = Spread.of([three_scores(row)[1] for row in runs]), Spread.of([row["minutes"] for row in runs])
        if (
            sorted(row["seed"] for row in runs) == [*range(1, bleu.n + 1)]
            and bleu.n >= SPEEDRUN_SEEDS
            and bleu.mean >= SPEEDRUN_GOAL
            and all(session["threads"] <= 2 and session["device"].startswith("cpu") for session in sessions)
        ):
            origins = (sessions[0]["machine"], sessions[0]["date"][:10], f"`{sessions[0]['commit']}`")
            cells.append([name, minutes.text(), bleu.text(), bleu.n, *origins])
    return [table(["entry", "minutes", "BLEU, beam 4", "seeds", "hardware", "date", "commit"], cells)]


def learning_curves(rows: list[dict[str, Any]]) -> Row:
    """Plot the validation loss over the steps, as means over the seeds; one figure per label before the comma.

    A line ends with the shortest of its runs. The figures have the same y axis.
    """
    groups: dict[str, dict[str, list[list[dict[str, float]]]]] = {}
    for row in rows:
        finite = [point for point in row["curve"] if point["valid_loss"] is not None]
        if finite:
            group, _, line = row["label"].partition(", ")
            groups.setdefault(GROUPS.get(group, group), {}).setdefault(line or group, []).append(finite)
    figures = []
    for group, lines in groups.items():
        steps = [point["step"] for point in max((c for runs in lines.values() for c in runs), key=len)]
        means, ends = {}, []
        for line, runs in lines.items():
            values = [statistics.fmean(point["valid_loss"] for point in points) for points in zip(*runs, strict=False)]
            ends.append(f"{line} ends at {values[-1]:.2f}")
            means[line] = values + [math.nan] * (len(steps) - len(values))
        alt = "; ".join(ends)
        figure = curves(steps, means, "step", f"{group}: validation loss")
        figures.append(Picture(figure, f"Validation loss over the steps, {group}. {alt}."))
    axes = [picture.figure.axes[0] for picture in figures]
    top = max(ax.get_ylim()[1] for ax in axes)
    for ax in axes:
        ax.set_ylim(top=top)
    return Row(*figures)


def same_loss(rows: list[dict[str, Any]]) -> str:
    """Return a table of the steps and minutes after which each setting reached the same validation loss.

    It is the lowest loss that all runs reach; between two validations the steps and minutes are interpolated.
    """
    finished = [row for row in rows if not row["failed"]]
    loss = max(min(point["valid_loss"] for point in row["curve"]) for row in finished)
    reached: dict[str, list[tuple[float, float]]] = {}
    for row in finished:
        reached.setdefault(row["label"], []).append(first_below(row["curve"], loss))
    cells = []
    for label, runs in reached.items():
        steps, minutes = (Spread.of(values) for values in zip(*runs, strict=True))
        cells.append([label, steps.text(0), minutes.text(2), len(runs)])
    return table(["setting", f"steps to a validation loss of {loss:.3f}", "minutes", "seeds"], cells)


def first_below(curve: list[dict[str, float]], loss: float) -> tuple[float, float]:
    """Return the step and the minutes at which a learning curve first reaches a loss.

    Raises:
        ValueError: if it doesn't.
    """
    for before, after in pairwise([curve[0], *curve]):
        if after["valid_loss"] <= loss:
            fall = before["valid_loss"] - after["valid_loss"]
            share = (before["valid_loss"] - loss) / fall if fall else 1.0
            step, minutes = (before[key] + share * (after[key] - before[key]) for key in ("step", "minutes"))
            return step, minutes
    raise ValueError(f"the validation loss doesn't reach {loss}")


def speed(root: Path) -> list[Part]:
    """Return figures of our speed relative to other implementations, and the tables of ``transformer bench``."""
    pictures: list[Part] = []
    tables: list[Part] = []
    for path in sorted((root / "book" / "results").glob("bench-*.json")):
        facts = read(path)
        found = [f"{facts['machine']}; {facts['device']}; threads: {facts['threads']}. Measured: {facts['rounds']}."]
        found += benchmark_tables(facts)
        ratios: dict[str, list[float]] = {}
        for benchmark in facts["benchmarks"]:
            if benchmark["name"] in COMPARED:
                rows = [Measurement(**row) for row in benchmark["implementations"]]
                ratios |= speed_ratios(COMPARED[benchmark["name"]], rows)
        found.append(table(ORIGIN, [origin(facts)], kind="long-end"))
        cpu, threads = facts["machine"].split(",")[0], facts["threads"]
        trained = [
            f"`{record['name']}`{', an earlier version' if earlier_version(record) else ''}"
            f"{', compiled' if record['compiled'] else ''}"
            for record in facts["benchmarks"]
            if "compiled" in record
        ]
        names = [f"`{benchmark['name']}`" for benchmark in facts["benchmarks"] if "compiled" not in benchmark]
        title = f"Training {', '.join(trained)}" if trained else "Against other implementations"
        if names and not ratios:
            title += f", {', '.join(names)}"
        tables.append(folded(f"{title}: {cpu}, {threads} thread{'s' if threads > 1 else ''}", *found))
        if ratios:
            alt = f"Our speed divided by that of other implementations, {cpu}, median over the rounds: "
            medians = "; ".join(f"{label}: {statistics.median(values):.2f}" for label, values in ratios.items())
            pictures.append(Picture(speed_plot(ratios, cpu), f"{alt}{medians}."))
    return [*pictures, *tables] or [MISSING]


def earlier_version(record: Mapping[str, Any]) -> str:
    """Return a note if a recipe's model had a different size when it was measured, else ""."""
    today = RECIPES[record["name"]].model.n_parameters
    if record["parameters"] == today:
        return ""
    return (
        f"\n\nThis measured an earlier version of `{record['name']}`, with {record['parameters']:,} parameters. "
        f"The current one has {today:,} and hasn't been measured yet."
    )


def benchmark_tables(facts: Mapping[str, Any]) -> list[str]:
    """Return the tables of each benchmark of a file."""
    return [
        f"**{benchmark['name']}:** {benchmark['title']}\n\n{measurements(benchmark)}"
        + (earlier_version(benchmark) if "compiled" in benchmark else "")
        for benchmark in facts["benchmarks"]
    ]


def measurements(benchmark: Mapping[str, Any]) -> str:
    """Return the table of a benchmark and, if it measured the training of a recipe, what follows from it.

    The rows of an implementation that did other work than ours are left out.
    """
    rows = [Measurement(**row) for row in benchmark["implementations"] if row["name"] != UNFAIR]
    shown = report.table(rows, benchmark["unit"])
    return f"{shown}\n\n{report.step_table(benchmark)}" if "compiled" in benchmark else shown


def decoding_trials(root: Path) -> list[Part]:
    """Return what was tried to make decoding on a CPU faster: a table for each part of a step, and for the search."""
    prefix = "decoding-trials-"
    paths = sorted((root / "book" / "results").glob(f"{prefix}*.json"))
    if not paths:
        return [MISSING]
    found = {path.stem.removeprefix(prefix).upper(): read(path) for path in paths}
    parts: list[Part] = []
    for benchmarks in zip(*(facts["benchmarks"] for facts in found.values()), strict=True):
        measured = [[Measurement(**row) for row in benchmark["implementations"]] for benchmark in benchmarks]
        header = ("implementation", *(f"relative time, {cpu}" for cpu in found))
        firsts = [rows[0] for rows in measured]
        rows = [
            [same[0].name, *map(report.relative_time, firsts, same)]  # the same implementation on all CPUs
            for same in zip(*measured, strict=True)
        ]
        parts.append(f"**{benchmarks[0]['name']}:** {benchmarks[0]['title']}\n\n{table(header, rows)}")
    for cpu, facts in found.items():
        method = f"Measured: {facts['rounds']}."
        origins = table(ORIGIN, [origin(facts)], kind="long-end")
        parts.append(
            folded(f"The speeds with {cpu}, and where they come from", method, *benchmark_tables(facts), origins)
        )
    return parts


def int8(root: Path) -> list[Part]:
    """Return a table of translations in fp32 and in int8: their BLEU and their time."""
    path = root / "book" / "results" / "int8.json"
    if not path.exists():
        return [MISSING]
    facts = read(path)
    header = ("model", "test set", "sentences", "BLEU in fp32", "BLEU in int8", "same translations", "relative time")
    rows = [
        [
            f"`{row['model']}`",
            row["split"],
            f"{row['sentences']:,}",
            f"{row['fp32']['bleu']:.2f}",
            f"{row['int8']['bleu']:.2f}",
            f"{row['same'] / row['sentences']:.0%}",
            f"{row['int8']['seconds'] / row['fp32']['seconds']:.2f} ×",
        ]
        for row in facts["rows"]
    ]
    signature = f"`{facts['rows'][0]['signature']}`"
    scores = table(["score", "signature"], [["BLEU", signature]], kind="long-end")
    origins = table(ORIGIN, [origin(facts["provenance"])], kind="long-end")
    return [table(header, rows), folded(DETAILS, scores, origins)]


KERNELS = {
    "EFFICIENT_ATTENTION": "memory-efficient",
    "FLASH_ATTENTION": "FlashAttention",
    "MATH": "explicit",
    "CUDNN_ATTENTION": "cuDNN",
}
"""PyTorch's implementations of attention, and what they are called on the page."""
MASKS = {"none": "none", "padding": "padding", "is_causal": "causal"}


def gpu(root: Path, what: str) -> list[Part]:
    """Return what was measured on a GPU: ``training``, ``ladder``, ``attention``, ``decoding`` or ``real-text``."""
    folder = root / "book" / "results" / "gpu"
    found = {path.stem: read(path) for path in sorted(folder.glob("*.json")) if not path.stem.endswith(".failed")}
    parts: list[Part] = []
    if what == "training":  # what `transformer bench` has measured
        shown = [facts for facts in found.values() if isinstance(facts["results"], dict)]
        for facts in shown:
            for one in facts["results"]["benchmarks"]:
                how = f"{one['title']}, on one {gpu_name(facts)}"
                parts.append(f"**{one['name']}:** {how}\n\n{measurements(one)}")
    else:
        title, describe_results = GPU_TABLES[what]
        shown = [found[what]] if what in found else []
        for facts in shown:
            parts.append(f"{title}, on one {gpu_name(facts)}:\n\n{describe_results(facts['results'])}")
    if not shown:
        return [MISSING]
    origins = [origin({**facts, "device": facts["gpu"]}) for facts in shown]
    return [*parts, folded("Where these numbers come from", table(ORIGIN, origins, kind="long-end"))]


def gpu_name(facts: Mapping[str, Any]) -> str:
    """Return the name of the GPU without its number, memory and versions."""
    return str(facts["gpu"]).split(",")[0].removeprefix("1 × ")


def ladder(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of the training steps with one change after another."""
    lines = [
        [r["step"], f"{r['milliseconds_per_step']:.1f}", f"{r['target_tokens_per_second']:,.0f}",
         f"{r['peak_memory'] / 1e9:.1f}"]
        for r in rows
    ]  # fmt: skip
    return table(["training step", "mean, ms", "target tokens/s", "peak memory, GB"], lines)


def real_text(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of the validation losses of training runs, and their final BLEU."""
    names = {"fp32": "float32", "bf16": "bfloat16"}
    header = [f"{run['optimizer'].capitalize()}, {names[run['residual_stream']]}" for run in runs]
    losses = [{v["step"]: v["valid_loss"] for v in run["validations"]} for run in runs]
    rows = [[f"validation loss, step {step:,}", *(f"{loss[step]:.2f}" for loss in losses)] for step in losses[0]]
    for test_set, scores in zip(
        runs[0]["test_sets"], zip(*(run["test_sets"] for run in runs), strict=True), strict=True
    ):
        rows.append([f"BLEU, {test_set['name']}", *(f"{s['scores'][0]['value']:.1f}" for s in scores)])
    return table(["", *header], rows)


def attention_kernels(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of the milliseconds that attention takes with each implementation.

    For cuDNN, the last column has the time for shapes that it hasn't seen before.
    """
    cases: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        case = f"{row['sentences']:,} × {row['length']}", MASKS[row["mask"]]
        cases.setdefault(case, {})[row["kernel"]] = row
    lines = []
    for case, found in cases.items():
        times = [found[kernel].get("milliseconds") for kernel in KERNELS]
        new = found["CUDNN_ATTENTION"].get("milliseconds_of_new_shapes")
        cells = [f"{time:.2f}" if time else "not supported" for time in times]
        lines.append([*case, *cells, f"{new:,.0f}" if new else ""])
    return table(["sentences × tokens", "mask", *KERNELS.values(), "cuDNN, new shape"], lines)


def decoding(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of the time that each implementation needs to translate the same sentences."""
    header = ("implementation", "search", "sentences", "first batch", "new tokens each", "seconds", "sentences/s")
    lines = [
        (r["implementation"], r["search"], f"{r['sentences']:,}", f"{r['first_batch']:,}", r["new_tokens"],
         f"{r['seconds']:.2f}", f"{r['sentences_per_second']:,.0f}")
        for r in rows if "seconds" in r
    ]  # fmt: skip
    return table(header, lines)


GPU_TABLES: dict[str, tuple[str, Callable[[Sequence[Mapping[str, Any]]], str]]] = {
    "ladder": ("Training steps of the base model", ladder),
    "attention": ("Milliseconds forward and backward in one layer of the base model", attention_kernels),
    "decoding": ("Decoding with the base model, random weights and random sentences", decoding),
    "real-text": ("Training the base model on real text", real_text),
}
"""What is shown of a GPU, apart from the measurements of ``transformer bench``: a title, and what makes its table."""


def speed_ratios(what: str, rows: Sequence[Measurement]) -> dict[str, list[float]]:
    """Return our speed divided by that of each other implementation, round by round; the first row is ours."""
    ours, *others = rows
    return {
        f"{what}: {other.name.replace(': ', ', ')}": [
            own / its for own, its in zip(ours.speeds, other.speeds, strict=False)
        ]
        for other in others
        if other.speeds
    }


def speed_plot(ratios: Mapping[str, Sequence[float]], title: str) -> Figure:
    """Draw a dot for each round on a logarithmic axis, and a line where both implementations are equally fast."""
    wrapped = {textwrap.fill(label, 30): values for label, values in ratios.items()}
    figure = strip_plot(wrapped, "our speed divided by theirs; bar: the median", "median")
    (axes,) = figure.axes
    with style.in_style():
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xticks([tick for tick in (0.5, 1, 2, 5, 10, 20, 50) if tick < 2 * max(map(max, ratios.values()))])
        axes.axvline(1, color=style.INK, linewidth=1, linestyle=":")
        axes.set_xlim(left=min(0.45, 0.9 * min(map(min, ratios.values()))))
        axes.set_title(title, loc="left")
        figure.set_figheight(0.9 + 0.6 * len(ratios))
    return figure


def published(root: Path) -> list[Part]:
    """Return published scores of other systems, next to those of pretrained models on the same test set."""
    path = root / "book" / "results" / "published.json"
    if not path.exists():
        return [MISSING]
    models, rows = pretrained_models(root), []
    for system in read(path)["systems"]:
        source = ", ".join(str(system[key]) for key in ("author", "year", "venue") if system[key])
        value = str(system["score"]) if system["to"] is None else f"{system['score']} to {system['to']}"
        ours, compare = [], system["compare"]
        for name, (_, results) in models.items() if compare else ():
            for test in results["test_sets"]:
                if all(test[key] == compare[key] for key in ("corpus", "split", "direction")):
                    bleu = f"{score(test, compare['score']):.1f}"
                    ours.append(f"{bleu} (`{name}`, {compare['score']}, beam {test['beam_size']})")
        cited = f"{source} {{cite}}`{system['key']}`" if system["key"] else source
        measured = "; ".join(ours) or "not measured yet"
        rows.append([system["system"], system["test_set"], value, system["measure"], measured, cited])
    return [folded("All systems", table(["system", "test set", "score", "measure", "ours", "source"], rows))]


def language_filter(root: Path) -> list[Part]:
    """Return what the language filter drops with each threshold, its precision and its recall."""
    path = root / "book" / "results" / "language-filter.json"
    if not path.exists():
        return [MISSING]
    results = read(path)
    rows = []
    for row in results["thresholds"]:
        cells = [row["threshold"], row["dropped"], *(f"{row[name]:.1%}" for name in ("precision", "recall"))]
        rows.append([f"**{cell}**" if row["threshold"] == results["recipe"] else cell for cell in cells])
    sides = results["sides"]
    summary = (
        f"Of {results['pairs']:,} pairs, the other filters keep {results['checked']:,}; {results['labelled']} of these "
        f"were labelled, and {results['wrong']} of the labelled ones have a side in the wrong language. Among the "
        f"pairs that the recipes drop, with the threshold {results['recipe']}, the filter suspected the source in "
        f"{sides['source']}, the target in {sides['target']} and both in {sides['both']}."
    )
    origins = folded("Where these numbers come from", table(ORIGIN, [origin(results["provenance"])], kind="long-end"))
    return [table(["threshold", "dropped", "precision", "recall"], rows), summary + "\n" + origins]


def live_models(root: Path) -> list[Part]:
    """Return what 8-bit weights cost the live translator's models, and when the page reports that they are guessing."""
    path = root / "book" / "results" / "live.json"
    if not path.exists():
        return [MISSING]
    models = read(path)["models"]
    measured = {
        "sentences": [f"{model['sentences']:,}" for model in models.values()],
        "BLEU": [f"{model['bleu']:.2f}" for model in models.values()],
        "BLEU, 8 bits": [f"{model['bleu_8_bit']:.2f}" for model in models.values()],
        "threshold": [f"{model['threshold']:.2f}" for model in models.values()],
        "guesses: own text": [f"{model['guesses']['own']:.0%}" for model in models.values()],
        "guesses: other text": [f"{model['guesses']['unlike']:.0%}" for model in models.values()],
        "poor: below": [f"{model['poor']['below']:.0%}" for model in models.values()],
        "poor: above": [f"{model['poor']['above']:.0%}" for model in models.values()],
        "other text is": [f"`{model['unlike']}`" for model in models.values()],
    }
    unique = dict.fromkeys(model["signature"] for model in models.values())
    scores = table(["score", "signature"], [["BLEU", f"`{signature}`"] for signature in unique], kind="long-end")
    origins = table(
        ["model", *ORIGIN],
        [[f"`{name}`", *origin(model["provenance"])] for name, model in models.items()],
        kind="long-end",
    )
    return [
        table(["", *(f"`{name}`" for name in models)], [[what, *values] for what, values in measured.items()]),
        folded(DETAILS, scores, origins),
    ]


def everyday_sentences(root: Path) -> list[Part]:
    """Return how many of the everyday sentences each model got right, and the translations of the last one."""
    path = root / "book" / "results" / "everyday-sentences.json"
    if not path.exists():
        return [MISSING]
    versions = read(path)
    sentences_path = root / "book" / "everyday_sentences.tsv"
    topics = read_sentences(path=sentences_path)
    hundreds = {name: read_sentences(name, sentences_path) for name in HUNDREDS}
    judgements = read_judgements(root / "book" / "everyday_judgements.tsv")
    rows, origins = [], []
    for number, version in enumerate(versions, 1):
        name = f"`{version['model']}`, version {number}"
        counts = []
        for sentences in hundreds.values():
            tried = {one: version["translations"][one] for one in sentences if one in version["translations"]}
            counts.append(str(count_right(tried, judgements)) if tried else "\N{EN DASH}")
        rows.append([name, *counts])
        origins.append([name, f"`{version['weights'][:12]}`", *origin(version["provenance"])])
    last = [
        [topics[pair[0]], *pair, judgements.get(pair, "not judged yet")]
        for pair in versions[-1]["translations"].items()
    ]
    return [
        table(["right, of a hundred", *hundreds], rows),
        second_opinion(judgements, read_judgements(root / "book" / "everyday_second_judgements.tsv"), versions[-1]),
        folded(
            "The sentences and the last model's translations",
            table(["topic", "English", "German", "judgement"], last, kind="stacked judgements"),
        ),
        folded("Where these translations come from", table(["model", "weights", *ORIGIN], origins, kind="long-end")),
    ]


def second_opinion(
    first: Mapping[tuple[str, ...], str], second: Mapping[tuple[str, ...], str], version: Mapping[str, Any]
) -> str:
    """Return a sentence on how far two judges agree, and how many translations of a version each found right."""
    agreed = sum((first[pair] == RIGHT) == (verdict == RIGHT) for pair, verdict in second.items())
    twice = {pair[0]: pair[1] for pair in version["translations"].items() if pair in second}
    return (
        f"\nThe second judge agreed with the first on {agreed} of {len(second)} different translations. "
        f"Of the {len(twice)} by the last version, the second found {count_right(twice, second)} right, and the first "
        f"{count_right(twice, first)}.\n"
    )


ORIGIN = ("date", "commit", "hardware and versions", "command")


def origin(facts: Mapping[str, Any]) -> list[str]:
    """Return the columns of `ORIGIN` from a `provenance`."""
    hardware = f"{facts['machine']}; {facts['device']}; threads: {facts['threads']}"
    command = f"`{facts['command']}`" if facts.get("command") else ""
    return [facts["date"], f"`{facts['commit']}`", f"{hardware}; {facts['versions']}", command]


def session_rows(rows: list[dict[str, Any]]) -> list[list[Any]]:
    """Return a row for each time that a run was started or resumed."""
    return [[row["label"], row["seed"], *origin(session)] for row in rows for session in row["sessions"]]


def signatures(whose: str, tests: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """Return a table of how the scores were computed: each signature once, and which models or runs it belongs to.

    Args:
        whose: the title of the column of models or runs.
        tests: the name of a model or run, and one of its test sets.
    """
    found: dict[str, dict[str, dict[str, None]]] = {}
    for name, test in tests:
        for result in test["scores"]:
            found.setdefault(result["name"], {}).setdefault(result["signature"], {})[name] = None
    rows = [
        [title, "all" if len(by_signature) == 1 else ", ".join(names), f"`{signature}`"]
        for title, by_signature in found.items()
        for signature, names in by_signature.items()
    ]
    return table(["score", whose, "signature"], rows, kind="long-end")


def arrow(test: Mapping[str, Any]) -> str:
    """Return the direction of a test set as "en → de"."""
    return str(test["direction"]).replace("-", " → ")


def score(test: Mapping[str, Any], name: str) -> float:
    """Return one of a test set's scores."""
    return float(next(result["value"] for result in test["scores"] if result["name"] == name))


def common_scores(tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of those `SCORES` that all test sets have."""
    return [name for name in SCORES if all(name in (result["name"] for result in test["scores"]) for test in tests)]


def beam_sizes_of(rows: list[dict[str, Any]]) -> list[int]:
    """Return the beam sizes with which the runs of an experiment were evaluated."""
    return next(([test["beam_size"] for test in row["test_sets"]] for row in rows if not row["failed"]), [])


def describe(values: Mapping[str, Sequence[float]], digits: int = 1) -> str:
    """Return the text alternative of a strip plot."""
    return "; ".join(f"{label}: {Spread.of(measured).text(digits)}" for label, measured in values.items()) + "."


def pretrained_models(root: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Return the pretrained models that have been evaluated: name → folder and scores."""
    files = sorted((root / "transformer" / "models").glob("*/scores.json"))
    return {path.parent.name: (path.parent, read(path)) for path in files}


def table(header: Sequence[str], rows: Iterable[Sequence[object]], kind: str = "") -> str:
    """Return a Markdown table; numbers are not reformatted, and right-aligned except in the first column.

    Args:
        kind: the classes of the table in ``course.css``; with ``"long-end"`` the last column is wider.
    """
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    columns = list(zip(*cells, strict=True))[1:]
    align = ["left", *("right" if mostly_numbers(column) else "left" for column in columns)]
    text = tabulate(cells, header, tablefmt="pipe", disable_numparse=True, colalign=align if cells else None)
    return f":::{{table}}\n:class: {kind}\n\n{text}\n:::\n" if kind else f"{text}\n"


def mostly_numbers(cells: Sequence[str]) -> bool:
    """Return whether more than half of the cells that aren't empty are numbers."""
    filled = [cell for cell in cells if cell]
    return 2 * sum(bool(NUMBER.fullmatch(cell)) for cell in filled) > len(filled)


def folded(title: str, *texts: str) -> str:
    """Return Markdown in a dropdown with a title."""
    return "\n::::{dropdown} " + title + "\n" + "\n\n".join(texts) + "\n::::\n"


def read(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(path.read_text("utf-8"))


class ResultsDirective(SphinxDirective):
    """``{results} NAME``: a section of the results page.

    With ``:curves:`` it shows an experiment's learning curves instead; with ``:same-loss:``, how soon its settings
    reach the same validation loss.
    """

    required_arguments = 1
    option_spec: ClassVar = {"curves": lambda _: True, "same-loss": lambda _: True}

    def run(self) -> list[nodes.Node]:
        """Return the nodes in place of the directive."""
        self.env.note_reread()  # result files may have been added or changed
        name = self.arguments[0]
        parts = section(name)
        for option, function in (("curves", learning_curves), ("same-loss", same_loss)):
            if option in self.options:
                path = ROOT / "book" / "results" / f"{name}.json"
                parts = [function(read(path)["rows"])] if path.exists() else []
        result: list[nodes.Node] = []
        for part in parts:
            if isinstance(part, str):
                container = nodes.Element()
                self.state.nested_parse(StringList(part.splitlines(), self.env.docname), self.content_offset, container)
                result += container.children
            else:
                result.append(
                    nodes.raw(
                        "", f'<div style="margin: 1rem 0; text-align: center">{part._repr_html_()}</div>', format="html"
                    )
                )
        return result


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive with Sphinx."""
    app.add_directive("results", ResultsDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
