"""What the benchmark says: where it ran, a table for each contest, and all of it as JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tabulate import tabulate

from transformer.bench.contests import CONTESTS, Contest, Setting
from transformer.bench.race import Row, race
from transformer.checkpoint import write_atomically
from transformer.errors import UserError
from transformer.provenance import provenance, versions

PACKAGES = ["torch", "ctranslate2", "transformers"]


def bench(
    names: Sequence[str], setting: Setting, rounds: int, output: Path | None = None, progress: bool = True
) -> Iterator[str]:
    """Run contests and tell of each as soon as it is over.

    Args:
        names: of contests.
        rounds: how often each contender is timed.
        output: a JSON file for the same.

    Yields:
        Text: first where and how it runs, then a table a contest.

    Raises:
        UserError: if a number is out of its range, or the file cannot be written.
    """
    if rounds < 1:
        raise UserError(f"rounds must be at least 1; got {rounds}")
    check_output(output)
    torch.set_num_threads(setting.threads)
    told = about(setting) | {
        "rounds": f"{rounds}, contenders in turn, after one that is not counted; medians"
        + ("; QUICK: sizes too small to compare" if setting.quick else "")
    }
    yield tabulate(told.items(), tablefmt="plain")
    found = []
    for name in names:
        contest = CONTESTS[name](setting)
        rows = race(contest, setting, rounds, progress)
        kept = {"name": name, "title": contest.title, "unit": contest.unit}
        found.append({**kept, "contenders": [asdict(row) for row in rows]})
        keep(output, {**told, "contests": found})
        yield f"{name}: {contest.title}\n\n{table(contest, rows)}"


def check_output(output: Path | None) -> None:
    """Refuse a file that cannot be written, before minutes are spent on what it is to hold."""
    if output is not None and not output.parent.is_dir():
        raise UserError(f"cannot write {output}: there is no folder {output.parent}; make it, or name another file")


def keep(output: Path | None, found: dict[str, Any]) -> None:
    """Write what was found as JSON, if a file is named."""
    if output is not None:
        try:
            write_atomically(output, (json.dumps(found, indent=2) + "\n").encode())
        except OSError as error:
            raise UserError(f"cannot write {output}: {error.strerror}") from error


def about(setting: Setting) -> dict[str, Any]:
    """What a reader must know to compare the numbers with others."""
    return provenance(setting.device) | {"threads": setting.threads, "versions": versions(*PACKAGES)}


def table(contest: Contest, rows: Sequence[Row]) -> str:
    """A contest's rows for people."""
    compared = "ours is faster by" if contest.name != "growth" else "takes longer by"
    header = ["contender", contest.unit, compared]
    if contest.memory:
        header += ["peak memory", "ours needs"]
    cells = []
    for row in rows:
        line = [row.name, row.missing or number(row.speed), _times(row.speed_ratio)]
        if contest.memory:
            failed = "" if row.missing else "failed"
            line += [f"{row.peak_memory / 2**20:,.0f} MiB" if row.peak_memory else failed, _times(row.memory_ratio)]
        cells.append(line)
    align = ["left", *(["right"] * (len(header) - 1))]
    return tabulate(cells, header, tablefmt="github", disable_numparse=True, colalign=align)


def number(value: float | None) -> str:
    """Three digits or more of it; nothing for None."""
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f} ×"
