"""Tables of what was measured."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tabulate import tabulate

from transformer.bench.runner import Measurement


def table(rows: Sequence[Measurement], unit: str) -> str:
    """Format the measurements of a benchmark; times and memory are relative to the first implementation."""
    header = ["implementation", unit, "relative time", "peak memory", "relative memory"]
    if not any(row.peak_memory for row in rows):
        header = header[:3]
    cells = []
    for row in rows:
        cell = [row.name, row.error or number(row.speed), relative_time(rows[0], row)]
        if row.peak_memory:
            relative = f"{row.peak_memory / rows[0].peak_memory:.2f} ×" if rows[0].peak_memory else ""
            cell += [f"{row.peak_memory / 2**20:,.0f} MiB", relative]
        cells.append(cell + [""] * (len(header) - len(cell)))
    align = ["left", *(["right"] * (len(header) - 1))]
    return tabulate(cells, header, tablefmt="pipe", disable_numparse=True, colalign=align)


def step_table(record: Mapping[str, Any]) -> str:
    """Format what follows from the speed of training: its step, its share of the measured peak, and its hours.

    Args:
        record: a benchmark with its facts, as in the JSON file.
    """
    ours, *_, products = (Measurement(**row) for row in record["implementations"])
    real_tokens = record["target_tokens"] + record["source_tokens"]
    seconds = record["target_tokens"] / ours.speed
    hours = record["steps"] * seconds * record["recipe_batch_tokens"] / record["batch_tokens"] / 3600
    teraflops = record["flops"] / record["target_tokens"] / 1e12  # per token
    random = "25 ± 12 tokens on either side, because the recipe's own data isn't prepared"
    facts = [
        ("data", record["data"], random if record["data"] == "random" else "by transformer prepare"),
        ("target tokens per step", f"{record['batch_tokens']:,}", f"recipe: {record['recipe_batch_tokens']:,}"),
        ("time per step", f"{number(seconds * 1e3)} ms", "forward, loss, backward, optimiser"),
        ("padding", f"{1 - real_tokens / record['padded_tokens']:.1%}", "of the tokens that the model processes"),
        ("data loading", f"{record['loading_seconds'] / seconds:.1%}", "of the time per step"),
        ("work per second", f"{number(teraflops * ours.speed)} TFLOP/s", "matrix products, including padding"),
    ]
    if products.speeds:  # not if the matrix products failed
        peak = max(products.speeds)
        facts += [
            ("measured peak", f"{number(teraflops * peak)} TFLOP/s", "large matrix products, fastest round"),
            ("share of measured peak", f"{ours.speed / peak:.1%}", "work per second over measured peak"),
        ]
    facts.append(("whole training", f"{number(hours)} hours", f"{record['steps']:,} steps, without validation"))
    return tabulate(facts, ["measure", "value", "meaning"], tablefmt="pipe", colalign=("left", "right", "left"))


def relative_time(first: Measurement, other: Measurement) -> str:
    """Format the time of an implementation relative to that of the first: the median over the rounds.

    The machine's speed drifts, so they are compared round by round.
    """
    times = [before / own for before, own in zip(first.speeds, other.speeds, strict=False)]
    return f"{statistics.median(times):.2f} ×" if times else ""


def number(value: float) -> str:
    """Format with three significant digits, or more where the number is large."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}".rstrip(".")
