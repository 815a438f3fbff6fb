"""Present measurements: where they were made, a table for each, and all of them in a JSON file."""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tabulate import tabulate

from transformer.bench.runner import BenchmarkOptions, Measurement
from transformer.errors import UserError
from transformer.files import check_writable, write_atomically
from transformer.provenance import provenance, versions


def present(
    options: BenchmarkOptions,
    method: Mapping[str, str],
    key: str,
    results: Iterator[tuple[dict[str, Any], str]],
    output: Path | None,
) -> Iterator[str]:
    """Yield text: first where and how something is measured, then each result as soon as it is ready.

    Args:
        method: how it is measured, by its key in the JSON file.
        key: the key of the results in the JSON file.
        results: for each, a record for the JSON file and a text.
        output: the JSON file, which is written after each result.

    Raises:
        UserError: if the file cannot be written.
    """
    if output is not None:
        check_writable(output)  # now, not after minutes of measuring
    torch.set_num_threads(options.threads)
    header = {**provenance(options.device), "versions": versions("torch", "ctranslate2", "transformers"), **method}
    if options.quick:
        header["quick"] = "too small for comparisons"
    yield tabulate(header.items(), tablefmt="plain")
    records = []
    for record, text in results:
        yield text
        records.append(record)
        if output is not None:
            try:
                write_atomically(output, (json.dumps(header | {key: records}, indent=2) + "\n").encode())
            except OSError as error:
                raise UserError(f"cannot write {output}: {error.strerror}") from error


def table(rows: Sequence[Measurement], unit: str) -> str:
    """Format the measurements of a benchmark; times and memory are relative to the first implementation."""
    header = ["implementation", unit, "relative time", "peak memory", "relative memory"]
    if not any(row.peak_memory for row in rows):
        header = header[:3]
    cells = []
    for row in rows:
        cell = [row.name, row.error or number(row.speed), relative_time(rows[0], row)]
        if row.peak_memory:
            relative = row.peak_memory / (rows[0].peak_memory or float("nan"))
            cell += [f"{row.peak_memory / 2**20:,.0f} MiB", f"{relative:.2f} ×"]
        cells.append(cell + [""] * (len(header) - len(cell)))
    align = ["left", *(["right"] * (len(header) - 1))]
    return tabulate(cells, header, tablefmt="pipe", disable_numparse=True, colalign=align)


def relative_time(first: Measurement, other: Measurement) -> str:
    """Format the time of an implementation relative to that of the first: the median over the rounds.

    The machine's speed drifts, so they are compared round by round.
    """
    times = [before / own for before, own in zip(first.speeds, other.speeds, strict=False)]
    return f"{statistics.median(times):.2f} ×" if times else ""


def number(value: float) -> str:
    """Format with three significant digits, or more where the number is large."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}".rstrip(".")
