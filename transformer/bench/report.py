"""Presents measurements: where they were made, a table for each, and all of them in a JSON file."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tabulate import tabulate

from transformer.bench.benchmarks import BENCHMARKS
from transformer.bench.runner import WARM_UP_ROUNDS, Measurement, Setting, run
from transformer.checkpoint import write_atomically
from transformer.errors import UserError
from transformer.provenance import provenance, versions


def run_benchmarks(
    names: Sequence[str], setting: Setting, rounds: int, output: Path | None = None, progress: bool = True
) -> Iterator[str]:
    """Run benchmarks with that many timed rounds and yield what `present` does, a table per benchmark."""

    def results() -> Iterator[tuple[dict[str, Any], str]]:
        for name in names:
            benchmark = BENCHMARKS[name](setting)
            rows = run(benchmark, setting, rounds, progress)
            facts = {"name": name, "title": benchmark.title, "unit": benchmark.unit}
            record: dict[str, Any] = {**facts, "implementations": [asdict(row) for row in rows]}
            yield record, f"{name}: {benchmark.title}\n\n{table(rows, benchmark.unit)}"

    if rounds < 1:
        raise UserError(f"rounds must be at least 1; got {rounds}")
    method = {"rounds": f"{rounds} interleaved rounds after {WARM_UP_ROUNDS} warm-up rounds; medians"}
    yield from present(setting, method, "benchmarks", results(), output)


def present(
    setting: Setting,
    method: Mapping[str, str],
    key: str,
    results: Iterable[tuple[dict[str, Any], str]],
    output: Path | None,
) -> Iterator[str]:
    """Yield text: first where and how something is measured, then each result as soon as it is there.

    Args:
        method: how it is measured, by its key in the JSON file.
        key: the key of the results in the JSON file.
        results: for each a record for the JSON file and a text.
        output: the JSON file, which is written after each result.

    Raises:
        UserError: if a number is out of range, or the file cannot be written.
    """
    if setting.threads < 1:
        raise UserError(f"threads must be at least 1; got {setting.threads}")
    if output is not None and not output.parent.is_dir():  # now, not after minutes of measuring
        raise UserError(f"cannot write {output}: there is no folder {output.parent}; create it, or choose another file")
    torch.set_num_threads(setting.threads)
    header = {**provenance(setting.device), "versions": versions("torch", "ctranslate2", "transformers"), **method}
    if setting.quick:
        header["quick"] = "too small for comparisons"
    yield tabulate(header.items(), tablefmt="plain")
    records = []
    for record, text in results:
        records.append(record)
        if output is not None:
            try:
                write_atomically(output, (json.dumps(header | {key: records}, indent=2) + "\n").encode())
            except OSError as error:
                raise UserError(f"cannot write {output}: {error.strerror}") from error
        yield text


def table(rows: Sequence[Measurement], unit: str) -> str:
    """Format the measurements of a benchmark; times and memory are relative to each implementation's reference."""
    by_name = {row.name: row for row in rows}
    header = ["implementation", unit, "relative time"]
    if any(row.peak_memory for row in rows):
        header += ["peak memory", "relative memory"]
    cells = []
    for row in rows:
        reference = by_name[row.reference]
        memory = row.peak_memory / (reference.peak_memory or float("nan")) if row.peak_memory else float("nan")
        line = [row.name, row.error or number(row.speed), _times(row.relative_time(reference))]
        line += [f"{row.peak_memory / 2**20:,.0f} MiB" if row.peak_memory else "", _times(memory)]
        cells.append(line[: len(header)])
    align = ["left", *(["right"] * (len(header) - 1))]
    return tabulate(cells, header, tablefmt="github", disable_numparse=True, colalign=align)


def number(value: float) -> str:
    """Format with three significant digits, or more where the number is large."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _times(ratio: float) -> str:
    return "" if ratio != ratio else f"{ratio:.2f} ×"
