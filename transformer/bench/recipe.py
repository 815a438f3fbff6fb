"""Measures how fast this machine trains a recipe, and how much of the peak of matrix products a training step reaches.

FLOPs are the multiplications and additions of matrix products; the rest of a training step is small beside them.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from tabulate import tabulate

from transformer.bench import report
from transformer.bench.baselines import use_torch_transformer
from transformer.bench.benchmarks import random_data
from transformer.bench.runner import Benchmark, Implementation, Measurement, Setting, Work, run
from transformer.data.batching import Batches
from transformer.data.prepare import PreparedData, store_folder
from transformer.data.tokenizer import PAD
from transformer.errors import UserError
from transformer.inspection import count_flops
from transformer.model import Transformer
from transformer.recipes import Recipe
from transformer.training.distributed import DistributedContext
from transformer.training.trainer import Trainer

WARM_UP_STEPS = 5
"""Steps before the measured ones, for compilation, new memory and Adam's first state."""
CPU_FLOPS, QUICK_FLOPS = 5e11, 2e10
"""About how many FLOPs a step has at most: on a CPU, where that takes seconds, and with ``quick``."""
MATMULS = 5
"""Matrix products that are measured together."""


def measure_recipes(
    recipes: Mapping[str, Recipe],
    setting: Setting,
    steps: int,
    compiled: bool = False,
    baseline: bool = True,
    output: Path | None = None,
    progress: bool = True,
) -> Iterator[str]:
    """Measure how fast recipes train and yield what `report.present` does, two tables per recipe.

    Args:
        steps: number of measured steps.
        compiled: compile the model, and the baseline.
        baseline: measure ``torch.nn.Transformer`` too.

    Raises:
        UserError: if a number is out of range, training fails, or the file cannot be written.
    """
    if steps < 1:
        raise UserError(f"steps must be at least 1; got {steps}")
    records = (measure(*item, setting, steps, compiled, baseline, progress) for item in recipes.items())
    method = {"steps": f"{steps} interleaved steps after {WARM_UP_STEPS} warm-up steps; medians"}
    yield from report.present(setting, method, "recipes", ((record, tables(record)) for record in records), output)


def measure(
    name: str, recipe: Recipe, setting: Setting, steps: int, compiled: bool, baseline: bool, progress: bool
) -> dict[str, Any]:
    """Train a recipe for some steps and return a record for the JSON file. For the arguments see `measure_recipes`."""
    with torch.device("meta"):  # shapes without memory
        model = Transformer(recipe.model)
    parameters = sum(p.numel() for p in model.parameters())
    smaller = replace(recipe.training, batch_tokens=batch_tokens(recipe, parameters, setting))
    with TemporaryDirectory() as temporary:
        folder = store_folder(recipe.data, recipe.model.vocab_size)
        is_prepared = (folder / "store.json").exists()
        if not is_prepared:
            folder = Path(temporary)
            random_data(folder, recipe.model, setting.size(100_000, 5000))
        record: dict[str, Any] = {
            "recipe": name,
            "parameters": parameters,
            "steps": recipe.training.steps,
            "recipe_batch_tokens": recipe.training.batch_tokens,
            "batch_tokens": smaller.batch_tokens,
            "data": "prepared" if is_prepared else "random",
            "compiled": compiled,
            **mean_step(model, replace(recipe, training=smaller), folder, steps),
        }
        tokens = record["target_tokens"]
        train = partial(_training_step, replace(recipe, training=smaller), folder, setting, compiled, tokens)
        implementations = [Implementation("ours", partial(train, baseline=False), memory=True)]
        if baseline:
            implementations.append(Implementation("torch.nn.Transformer", partial(train, baseline=True), memory=True))
        peak = partial(_matrix_products, setting, tokens / record["flops"])
        implementations.append(Implementation("matrix products alone", peak))
        rows = run(Benchmark(name, "", "target tokens/s", implementations), setting, steps, progress)
    if rows[0].error:
        raise UserError(
            f"training {name} {rows[0].error}; if memory is short, use a smaller model, or smaller batches: "
            f"transformer train {name} --training.gradient-accumulation-steps 2"
        )
    return record | {"implementations": [asdict(row) for row in rows]}


def batch_tokens(recipe: Recipe, parameters: int, setting: Setting) -> int:
    """Return the target tokens of a measured step: the recipe's, or fewer if those would take minutes.

    A parameter costs about 6 FLOPs per token: a multiplication and an addition forward, and twice that backward.
    """
    on_cpu = setting.device.device.type == "cpu"
    flops = QUICK_FLOPS if setting.quick else CPU_FLOPS if on_cpu else float("inf")
    return int(max(1, min(recipe.training.batch_tokens, flops / (6 * parameters))))


def mean_step(model: Transformer, recipe: Recipe, folder: Path, steps: int) -> dict[str, float]:
    """Return the numbers of tokens and FLOPs of a training step, and the seconds that its batches take to load.

    Args:
        model: the recipe's, on the device "meta".
        folder: the prepared data.
        steps: how many of the first steps the means are over.
    """
    config = recipe.training
    parts = config.gradient_accumulation_steps
    tokens = PreparedData(folder).tokens("train")
    batches = Batches(*tokens, config.batch_tokens // parts, config.seed, gradient_accumulation_steps=parts)
    start = time.perf_counter()
    loaded = list(islice(batches, steps * parts))
    seconds = time.perf_counter() - start
    padded = [batch.source.numel() + batch.labels.numel() for batch in loaded]
    with count_flops(model) as counter:  # of two batches: the number per token is nearly the same in all
        for batch in loaded[:2]:
            batch = batch.to(torch.device("meta"))
            model(batch.source, batch.decoder_input).sum().backward()
    return {
        "target_tokens": sum(batch.n_tokens for batch in loaded) / steps,
        "source_tokens": sum(int((batch.source != PAD).sum()) for batch in loaded) / steps,
        "padded_tokens": sum(padded) / steps,
        "flops": counter.get_total_flops() * sum(padded) / sum(padded[:2]) / steps,
        "loading_seconds": seconds / steps,
    }


def _training_step(
    recipe: Recipe, folder: Path, setting: Setting, compiled: bool, target_tokens: float, baseline: bool
) -> Work:
    device = setting.device
    trainer: Trainer

    def step(number: int) -> float:
        nonlocal trainer
        if number > 0:
            trainer.step()
        else:  # only now, so that the memory of the model is measured too
            alone = DistributedContext(0, 1, device.device)
            trainer = Trainer(recipe.model, recipe.training, PreparedData(folder), device, alone, compiled)
            if baseline:
                use_torch_transformer(trainer, paper_dropout=True, compiled=compiled)
            elif device.device.type == "cuda":
                trainer.fit_batch_to_memory()
                torch.cuda.reset_peak_memory_stats()  # forget the batches that didn't fit
            for _ in range(WARM_UP_STEPS):
                trainer.step()
        return target_tokens

    return step


def _matrix_products(setting: Setting, tokens_per_flop: float) -> Work:
    """Multiply matrices so large that the device computes at its peak."""
    device = setting.device
    size = setting.size(1024 if device.device.type == "cpu" else 8192, 256)
    dtype = device.autocast_dtype or torch.float32
    left, right = (torch.randn(size, size, device=device.device, dtype=dtype) for _ in range(2))
    out = left @ right

    def multiply(number: int) -> float:
        for _ in range(MATMULS):
            torch.mm(left, right, out=out)
        return MATMULS * 2 * size**3 * tokens_per_flop

    return multiply


def tables(record: Mapping[str, Any]) -> str:
    """Format what `measure` returns: a comparison of the implementations, and what follows from it."""
    rows = [Measurement(**row) for row in record["implementations"]]
    ours, products = rows[0], rows[-1]
    real_tokens = record["target_tokens"] + record["source_tokens"]
    seconds = record["target_tokens"] / ours.speed
    hours = record["steps"] * seconds * record["recipe_batch_tokens"] / record["batch_tokens"] / 3600
    flops_per_token = record["flops"] / record["target_tokens"]
    peak = max(products.speeds)
    random = "25 ± 12 tokens on either side, because the recipe's own data isn't prepared"
    facts = [
        ("data", record["data"], random if record["data"] == "random" else "by transformer prepare"),
        ("compiled", "yes" if record["compiled"] else "no", ""),
        (
            "target tokens per step",
            f"{record['batch_tokens']:,}",
            f"at most; recipe: {record['recipe_batch_tokens']:,}",
        ),
        ("time per step", f"{report.number(seconds * 1e3)} ms", "forward, loss, backward, Adam"),
        ("all tokens/s", report.number(real_tokens / seconds), "source and target, without padding"),
        ("padding", f"{1 - real_tokens / record['padded_tokens']:.1%}", "of the tokens that the model processes"),
        ("data loading", f"{record['loading_seconds'] / seconds:.1%}", "of the time per step"),
        ("work per step", _flops(record["flops"]), "matrix products forward and backward, padding included"),
        ("work per second", f"{_flops(flops_per_token * ours.speed)}/s", "work per step over time per step"),
        ("measured peak", f"{_flops(flops_per_token * peak)}/s", "the fastest round of large matrix products"),
        ("share of the peak", f"{ours.speed / peak:.1%}", "work per second over measured peak"),
        ("whole training", _duration(hours), f"{record['steps']:,} steps of the recipe, without validation"),
    ]
    title = f"{record['recipe']}: {record['parameters']:,} parameters, {record['steps']:,} steps"
    header = ["measure", "value", "meaning"]
    listing = tabulate(facts, header, tablefmt="github", disable_numparse=True, colalign=("left", "right", "left"))
    return f"{title}\n\n{report.table(rows, 'target tokens/s')}\n\n{listing}"


def _flops(value: float) -> str:
    return f"{report.number(value / 1e12)} TFLOP" if value >= 1e12 else f"{report.number(value / 1e9)} GFLOP"


def _duration(hours: float) -> str:
    return f"{report.number(hours)} hours" if hours >= 1 else f"{report.number(60 * hours)} minutes"
