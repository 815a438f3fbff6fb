"""What was measured on a GPU: training steps, attention, decoding, and training on real text."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from book._ext.results.speed import measurements
from book._ext.results.tables import ORIGIN, Part, folded, origin, read, table

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
        return []
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


GPU_TABLES: dict[str, tuple[str, Callable[[Sequence[Mapping[str, Any]]], str]]] = {
    "ladder": ("Training steps of the base model", ladder),
    "attention": ("Milliseconds forward and backward in one layer of the base model", attention_kernels),
    "decoding": ("Decoding with the base model, random weights and random sentences", decoding),
    "real-text": ("Training the base model on real text", real_text),
}
"""What is shown of a GPU, apart from the measurements of ``transformer bench``: a title, and what makes its table."""
