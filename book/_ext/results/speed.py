"""Speed on a CPU: what ``transformer bench`` measured, and what was tried to make decoding faster, int8 included."""

import statistics
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from book._ext.results.scores import DETAILS
from book._ext.results.tables import ORIGIN, Part, folded, hardware, origin, read, read_results, table
from transformer.bench import report
from transformer.bench.runner import Measurement
from transformer.plots import style
from transformer.plots.strip_plot import strip_plot
from transformer.plots.style import Picture
from transformer.recipes import RECIPES

COMPARED = {"train": "training", "loss": "loss", "beam": "beam search", "greedy": "greedy search"}
"""The benchmarks in the figure of speeds, and what they are called there."""
UNFAIR = "torch.nn.Transformer, logits in float32"
"""A baseline of the first measurements on a GPU, which computed its logits in another precision than ours."""


def speed(root: Path) -> list[Part]:
    """Return figures of our speed relative to other implementations, and the tables of ``transformer bench``."""
    pictures: list[Part] = []
    tables: list[Part] = []
    for path in sorted((root / "book" / "results").glob("bench-*.json")):
        facts = read(path)
        found = [f"{hardware(facts)}. Measured: {facts['rounds']}."]
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
    return [*pictures, *tables]


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


def earlier_version(record: Mapping[str, Any]) -> str:
    """Return a note if a recipe's model had a different size when it was measured, else ""."""
    today = RECIPES[record["name"]].model.n_parameters
    if record["parameters"] == today:
        return ""
    return (
        f"\n\nThis measured an earlier version of `{record['name']}`, with {record['parameters']:,} parameters. "
        f"The current one has {today:,} and hasn't been measured yet."
    )


def decoding_trials(root: Path) -> list[Part]:
    """Return what was tried to make decoding on a CPU faster: a table for each part of a step, and for the search."""
    prefix = "decoding-trials-"
    paths = sorted((root / "book" / "results").glob(f"{prefix}*.json"))
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
    facts = read_results(root, "int8")
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
