"""Measure how fast this machine trains a recipe's model, and what share of its peak in matrix products it reaches.

FLOPs are the multiplications and additions of matrix products; the rest of a training step has far fewer.
"""

import math
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
from transformer.bench.runner import Benchmark, BenchmarkOptions, Implementation, Measurement, Workload, run, timed
from transformer.data.batching import Batches
from transformer.data.prepare import PreparedData, prepared_folder
from transformer.data.synthetic import MAX_LENGTH, random_data
from transformer.data.tokenizer import PAD
from transformer.device import Device
from transformer.errors import UserError
from transformer.inspection import count_flops
from transformer.model import Transformer
from transformer.recipes import Recipe
from transformer.training.distributed import DistributedContext
from transformer.training.trainer import Trainer

WARM_UP_STEPS = 5
"""Steps before the measured ones, for compilation, memory allocation and Adam's initial state."""
GPU_STEPS = 5
"""Steps in a measured round on a GPU. The benchmark waits for the GPU after each round, which training never does."""
CPU_FLOPS, QUICK_FLOPS = 5e11, 2e10
"""Batches are made smaller until a step needs at most about this many FLOPs: on a CPU, and with ``quick``."""
MATMULS = 5
"""Matrix products that are measured together."""


def measure_recipes(
    recipes: Mapping[str, Recipe],
    options: BenchmarkOptions,
    steps: int,
    compiled: bool = False,
    output: Path | None = None,
    progress: bool = True,
) -> Iterator[str]:
    """Measure recipes as `measure` does and yield what `report.present` does, two tables per recipe."""
    steps = whole_rounds(steps, options.device)
    records = (measure(*item, options, steps, compiled, progress) for item in recipes.items())
    per_round = steps_per_round(options.device)
    rounds = "single steps" if per_round == 1 else f"rounds of {per_round} steps"
    method = {"steps": f"{steps} steps in interleaved {rounds} after {WARM_UP_STEPS} warm-up steps; medians"}
    return report.present(options, method, "recipes", ((record, tables(record)) for record in records), output)


def measure(
    name: str, recipe: Recipe, options: BenchmarkOptions, steps: int, compiled: bool = False, progress: bool = True
) -> dict[str, Any]:
    """Train a recipe's model, and ``torch.nn.Transformer`` with the same settings; return a record for the JSON file.

    Args:
        steps: number of measured steps; rounded up to whole rounds.
        compiled: compile both models.

    Returns:
        The recipe's name and sizes, what `step_statistics` returns, and the `Measurement` of each implementation. On a
        GPU, our batches are split until they fit into its memory, as in `transformer train`; the baseline's are not.

    Raises:
        UserError: if training fails.
    """
    steps = whole_rounds(steps, options.device)
    with torch.device("meta"):  # shapes without memory
        model = Transformer(recipe.model)
    parameters = sum(p.numel() for p in model.parameters())
    smaller = replace(recipe, training=replace(recipe.training, batch_tokens=step_tokens(recipe, parameters, options)))
    with TemporaryDirectory() as temporary:
        folder = prepared_folder(recipe.data, recipe.model.vocab_size)
        is_prepared = (folder / "store.json").exists()
        if not is_prepared:
            folder = Path(temporary)
            count, max_length = options.size(100_000, 5000), min(MAX_LENGTH, recipe.model.max_length - 4)
            random_data(folder, count, recipe.model.vocab_size, max_length)
        record: dict[str, Any] = {
            "recipe": name,
            "parameters": parameters,
            "steps": recipe.training.steps,
            "recipe_batch_tokens": recipe.training.batch_tokens,
            "batch_tokens": smaller.training.batch_tokens,
            "data": "prepared" if is_prepared else "random",
            "compiled": compiled,
            **step_statistics(model, smaller, folder, steps),
        }
        tokens = record["target_tokens"]
        train = partial(_training_step, smaller, folder, options, compiled, tokens)
        implementations = [
            Implementation("ours", partial(train, baseline=False), memory=True),
            Implementation("torch.nn.Transformer", partial(train, baseline=True), memory=True),
            Implementation("matrix products alone", partial(_matrix_products, options, tokens / record["flops"])),
        ]
        rounds = steps // steps_per_round(options.device)
        rows = run(Benchmark(name, "", "target tokens/s", implementations), options, rounds, progress)
    if rows[0].error:
        raise UserError(
            f"training {name} {rows[0].error}; if memory is short, use a smaller model, or smaller batches: "
            f"transformer train {name} --training.gradient-accumulation-steps 2"
        )
    return record | {"implementations": [asdict(row) for row in rows]}


def steps_per_round(device: Device) -> int:
    """Return how many steps are measured together."""
    return GPU_STEPS if device.type == "cuda" else 1


def whole_rounds(steps: int, device: Device) -> int:
    """Round a number of steps up to whole rounds."""
    per_round = steps_per_round(device)
    return math.ceil(steps / per_round) * per_round


def step_tokens(recipe: Recipe, parameters: int, options: BenchmarkOptions) -> int:
    """Return the target tokens of a measured step: the recipe's, or fewer if those would take minutes.

    A parameter costs about 6 FLOPs per token: a multiplication and an addition forward, and twice that backward.
    """
    on_cpu = options.device.type == "cpu"
    flops = QUICK_FLOPS if options.quick else CPU_FLOPS if on_cpu else float("inf")
    return int(max(1, min(recipe.training.batch_tokens, flops / (6 * parameters))))


def step_statistics(model: Transformer, recipe: Recipe, folder: Path, steps: int) -> dict[str, float]:
    """Return the tokens, the FLOPs and the loading time of one step, each as the mean over the first steps.

    Args:
        model: the recipe's, on the device "meta".
        folder: the prepared data.
        steps: number of steps.

    Returns:
        ``target_tokens`` and ``source_tokens``, without padding; ``padded_tokens``, both with padding; ``flops``,
        forward and backward; and ``loading_seconds``, for making the batches.
    """
    config = recipe.training
    parts = config.gradient_accumulation_steps
    tokens = PreparedData(folder).tokens("train")
    batches = Batches(
        *tokens,
        config.batch_tokens // parts,
        config.seed,
        gradient_accumulation_steps=parts,
    )
    seconds, loaded = timed(Device(torch.device("cpu")), lambda: list(islice(batches, steps * parts)))
    positions = [batch.source.numel() + batch.labels.numel() for batch in loaded]
    with count_flops(model) as counter:  # of two batches: the number per token is nearly the same in all
        for batch in loaded[:2]:
            batch = batch.to(torch.device("meta"))
            model(batch.source, batch.decoder_input).sum().backward()
    return {
        "target_tokens": sum(batch.n_tokens for batch in loaded) / steps,
        "source_tokens": sum(int((batch.source != PAD).sum()) for batch in loaded) / steps,
        "padded_tokens": sum(positions) / steps,
        "flops": counter.get_total_flops() * sum(positions) / sum(positions[:2]) / steps,
        "loading_seconds": seconds / steps,
    }


def _training_step(
    recipe: Recipe, folder: Path, options: BenchmarkOptions, compiled: bool, target_tokens: float, baseline: bool
) -> Workload:
    device = options.device
    steps = steps_per_round(device)
    trainer: Trainer

    def take_steps(number: int) -> float:
        nonlocal trainer
        if number > 0:
            for _ in range(steps):
                trainer.step()
        else:  # only now, so that the memory of the model is measured too
            alone = DistributedContext()
            trainer = Trainer(recipe.model, recipe.training, PreparedData(folder), device, alone, compiled)
            if baseline:
                use_torch_transformer(trainer, paper_dropout=True)
            elif device.type == "cuda":
                trainer.fit_batch_to_memory()
                torch.cuda.reset_peak_memory_stats()  # forget the batches that didn't fit
            for _ in range(WARM_UP_STEPS - steps):  # the runner's second warm-up round takes the others
                trainer.step()
        return steps * target_tokens

    return take_steps


def _matrix_products(options: BenchmarkOptions, tokens_per_flop: float) -> Workload:
    """Multiply matrices so large that the device computes at its peak.

    The workload returns how many target tokens would need that many FLOPs in training.
    """
    device = options.device
    size = options.size(1024 if device.type == "cpu" else 8192, 256)
    dtype = device.autocast_dtype or torch.float32
    left, right = (torch.randn(size, size, device=device.torch_device, dtype=dtype) for _ in range(2))
    out = left @ right

    def multiply(number: int) -> float:
        for _ in range(MATMULS):
            torch.mm(left, right, out=out)
        return MATMULS * 2 * size**3 * tokens_per_flop

    return multiply


def tables(record: Mapping[str, Any]) -> str:
    """Format what `measure` returns: a comparison of the implementations, and what follows from it."""
    rows = [Measurement(**row) for row in record["implementations"]]
    speed = rows[0].speed
    real_tokens = record["target_tokens"] + record["source_tokens"]
    seconds = record["target_tokens"] / speed
    hours = record["steps"] * seconds * record["recipe_batch_tokens"] / record["batch_tokens"] / 3600
    teraflops = record["flops"] / record["target_tokens"] / 1e12  # per token
    random = "25 ± 12 tokens on either side, because the recipe's own data isn't prepared"
    facts = [
        ("data", record["data"], random if record["data"] == "random" else "by transformer prepare"),
        ("target tokens per step", f"{record['batch_tokens']:,}", f"recipe: {record['recipe_batch_tokens']:,}"),
        ("time per step", f"{report.number(seconds * 1e3)} ms", "forward, loss, backward, optimiser"),
        ("padding", f"{1 - real_tokens / record['padded_tokens']:.1%}", "of the tokens that the model processes"),
        ("data loading", f"{record['loading_seconds'] / seconds:.1%}", "of the time per step"),
        ("work per second", f"{report.number(teraflops * speed)} TFLOP/s", "matrix products, including padding"),
    ]
    if rows[-1].speeds:  # not if the matrix products failed
        peak = max(rows[-1].speeds)
        facts += [
            ("measured peak", f"{report.number(teraflops * peak)} TFLOP/s", "large matrix products, fastest round"),
            (
                "share of the peak",
                f"{speed / peak:.1%}",
                "work per second over measured peak (the MFU, with padding counted)",
            ),
        ]
    facts.append(("whole training", f"{report.number(hours)} hours", f"{record['steps']:,} steps, without validation"))
    listing = tabulate(facts, ["measure", "value", "meaning"], tablefmt="pipe", colalign=("left", "right", "left"))
    title = f"{record['recipe']}: {record['parameters']:,} parameters{', compiled' if record['compiled'] else ''}"
    return f"{title}\n\n{report.table(rows, 'target tokens/s')}\n\n{listing}"
