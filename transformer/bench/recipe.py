"""How fast this machine trains a recipe's model, and what share of its peak in matrix products it reaches.

FLOPs are the multiplications and additions of matrix products; the rest of a training step has far fewer.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from transformer.bench.baselines import use_torch_transformer
from transformer.bench.runner import Benchmark, BenchmarkOptions, Implementation, Workload, timed
from transformer.data.batching import Batches
from transformer.data.prepare import PreparedData, prepared_folder
from transformer.data.synthetic import MAX_LENGTH, random_data
from transformer.data.tokenizer import PAD
from transformer.device import Device
from transformer.inspection import count_flops
from transformer.model import Transformer
from transformer.recipes import Recipe
from transformer.training.distributed import DistributedContext
from transformer.training.trainer import Trainer

STEPS = 5
"""Training steps in a round. The benchmark waits for a GPU only after each round; training never does."""
AVERAGED_STEPS = 30
"""Steps over which the tokens of a step are averaged: a few batches are far smaller than the others."""
CPU_FLOPS, QUICK_FLOPS = 5e11, 2e10
"""Batches are made smaller until a step needs at most about this many FLOPs: on a CPU, and with ``quick``."""
MATMULS = 5
"""Matrix products in a round."""
RANDOM_PAIRS = 30_000, 3000
"""Sentence pairs in the random data, also with ``quick``."""


def training(name: str, recipe: Recipe, options: BenchmarkOptions) -> Benchmark:
    """Training steps of a recipe: forward, label-smoothed loss, backward, Adam.

    The baseline is ``torch.nn.Transformer`` with the same settings. On a GPU, our batches are split until they fit into
    its memory, as in `transformer train`; the baseline's are not. The benchmark's facts are the recipe's sizes and what
    `step_facts` returns.
    """
    tokens = step_tokens(recipe, options)
    smaller = replace(recipe, training=replace(recipe.training, batch_tokens=tokens))
    step = step_facts(smaller, options)
    facts = {
        "parameters": recipe.model.n_parameters,
        "steps": recipe.training.steps,
        "recipe_batch_tokens": recipe.training.batch_tokens,
        "batch_tokens": tokens,
        "data": "prepared" if _prepared(recipe).exists() else "random",
        "compiled": options.compiled,
        **step,
    }
    train = partial(_training_steps, smaller, options)
    return Benchmark(
        name,
        f"training steps, {recipe.model.n_parameters:,} parameters{', compiled' if options.compiled else ''}",
        "target tokens/s",
        [
            Implementation("ours", train, memory=True),
            Implementation("torch.nn.Transformer", partial(train, change=use_torch_transformer), memory=True),
            Implementation(
                "matrix products alone", partial(_matrix_products, options, step["target_tokens"] / step["flops"])
            ),
        ],
        facts,
    )


def step_tokens(recipe: Recipe, options: BenchmarkOptions) -> int:
    """Return the target tokens of a measured step: the recipe's, or fewer if those would take minutes.

    A parameter costs about 6 FLOPs per token: a multiplication and an addition forward, and twice that backward.
    """
    on_cpu = options.device.type == "cpu"
    flops = QUICK_FLOPS if options.quick else CPU_FLOPS if on_cpu else float("inf")
    return int(max(1, min(recipe.training.batch_tokens, flops / (6 * recipe.model.n_parameters))))


def step_facts(recipe: Recipe, options: BenchmarkOptions) -> dict[str, float]:
    """Return the tokens, the FLOPs and the loading time of one step, each as the mean over `AVERAGED_STEPS`.

    Returns:
        ``target_tokens`` and ``source_tokens``, without padding; ``padded_tokens``, both with padding; ``flops``,
        forward and backward; and ``loading_seconds``, for making the batches.
    """
    config = recipe.training
    parts = config.gradient_accumulation_steps
    with _training_data(recipe, options) as data:
        sides = data.tokens("train")
    batches = Batches(*sides, config.batch_tokens // parts, config.seed, gradient_accumulation_steps=parts)
    seconds, loaded = timed(Device(torch.device("cpu")), lambda: list(islice(batches, AVERAGED_STEPS * parts)))
    positions = [batch.source.numel() + batch.labels.numel() for batch in loaded]
    with torch.device("meta"):  # shapes without memory
        model = Transformer(recipe.model)
    with count_flops(model) as counter:  # of every fifth batch: the number per token is nearly the same in all
        for batch in loaded[::5]:
            batch = batch.to(torch.device("meta"))
            model(batch.source, batch.decoder_input).sum().backward()
    return {
        "target_tokens": sum(batch.n_tokens for batch in loaded) / AVERAGED_STEPS,
        "source_tokens": sum(int((batch.source != PAD).sum()) for batch in loaded) / AVERAGED_STEPS,
        "padded_tokens": sum(positions) / AVERAGED_STEPS,
        "flops": counter.get_total_flops() * sum(positions) / sum(positions[::5]) / AVERAGED_STEPS,
        "loading_seconds": seconds / AVERAGED_STEPS,
    }


def _prepared(recipe: Recipe) -> Path:
    """The last file that `transformer prepare` writes for a recipe."""
    return prepared_folder(recipe.data, recipe.model.vocab_size) / "store.json"


@contextmanager
def _training_data(recipe: Recipe, options: BenchmarkOptions) -> Iterator[PreparedData]:
    """The recipe's data if it is prepared, or else random data, whose open files can still be read after this."""
    if (marker := _prepared(recipe)).exists():
        yield PreparedData(marker.parent)
        return
    with TemporaryDirectory() as folder:
        max_length = min(MAX_LENGTH, recipe.model.max_length - 4)
        yield random_data(Path(folder), options.size(*RANDOM_PAIRS), recipe.model.vocab_size, max_length)


def _training_steps(
    recipe: Recipe, options: BenchmarkOptions, change: Callable[[Trainer], None] | None = None
) -> Workload:
    """Train; first call ``change`` with the trainer, or split our batches until they fit into a GPU's memory."""
    trainer: Trainer

    def take_steps(number: int) -> float:
        nonlocal trainer
        if number == 0:  # only now, so that the memory of the model is measured too
            settings = options.device, DistributedContext(), options.compiled
            on_gpu = options.device.type == "cuda"
            with _training_data(recipe, options) as data:
                trainer = Trainer(recipe.model, recipe.training, data, *settings)
                if change:
                    change(trainer)
                elif on_gpu:
                    trainer.fit_batch_to_memory()
            if options.compiled and trainer.training_module._compiled_call_impl is None:
                raise RuntimeError("it could not be compiled")
            if on_gpu:  # forget the batches that didn't fit, and the uncompiled pass before the compilation
                torch.cuda.reset_peak_memory_stats()
        before = trainer.progress.target_tokens
        for _ in range(STEPS):
            trainer.step()
        return trainer.progress.target_tokens - before

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
