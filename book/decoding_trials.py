"""Measure what could make decoding on a CPU faster, and by how much: ``python -m book.decoding_trials``.

The benchmarks have the sizes of ``transformer bench beam``: 64 sentences with 4 beams each. In each, the first
implementation is what the package does. Packed and quantized weights need functions of PyTorch that are not public;
they are only measured here, and nothing else uses them. The result is written to ``book/results``, into a file for
each kind of CPU (see `result_path`), and the page "Speed and memory" shows them side by side.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from book.scripts import RESULTS, guarded, write_result
from transformer.attention import fused_attention
from transformer.bench.benchmarks import model_without_eos
from transformer.bench.report import table
from transformer.bench.runner import WARM_UP_ROUNDS, Benchmark, BenchmarkOptions, Implementation, Workload, run
from transformer.data.batching import pad
from transformer.data.synthetic import random_pairs
from transformer.data.tokenizer import EOS
from transformer.decoding import _topk_by_columns, beam_search
from transformer.device import choose_device
from transformer.provenance import provenance

SENTENCES, BEAMS, HEADS, D_HEAD, KEYS = 64, 4, 8, 32, 80
TOKENS = SENTENCES * BEAMS
LAYERS = {"feed-forward": (256, 1024), "projection": (256, 10_000)}
"""Two linear layers of a step: inputs and outputs."""

Product = Callable[[Tensor, Tensor, Tensor], Callable[[], Tensor]]
"""Prepares a linear layer from its input, weight and bias, and returns the function to time."""


def as_it_is(x: Tensor, weight: Tensor, bias: Tensor) -> Callable[[], Tensor]:
    """What `torch.nn.Linear` does."""
    return lambda: F.linear(x, weight, bias)


def transposed(x: Tensor, weight: Tensor, bias: Tensor) -> Callable[[], Tensor]:
    """The transpose of the weight, contiguous in memory, as the product reads it."""
    other = weight.t().contiguous()
    return lambda: torch.addmm(bias, x, other)


def packed(x: Tensor, weight: Tensor, bias: Tensor) -> Callable[[], Tensor]:
    """The weight in the layout that oneDNN, the library behind PyTorch's compiler on a CPU, chooses for it."""
    ops = torch.ops.mkldnn
    other = ops._reorder_linear_weight(weight, len(x))
    return lambda: ops._linear_pointwise(x, other, bias, "none", [], "")


def bfloat16(x: Tensor, weight: Tensor, bias: Tensor) -> Callable[[], Tensor]:
    """Input and weight in bfloat16."""
    other, other_bias = weight.bfloat16(), bias.bfloat16()
    return lambda: F.linear(x.bfloat16(), other, other_bias).float()


def int8(x: Tensor, weight: Tensor, bias: Tensor) -> Callable[[], Tensor]:
    """Weights of 8 bits with a scale per row, and inputs of 7 bits: with 8, AVX2 and AVX-512 without VNNI overflow."""
    scales = weight.abs().amax(1) / 127
    rounded = (weight / scales[:, None]).round().to(torch.int8)
    other = torch.ops.onednn.qlinear_prepack(rounded, None)
    zeros = torch.zeros(len(weight), dtype=torch.int64)

    def product() -> Tensor:
        scale = float(x.abs().amax()) / 63
        integers = (x / scale).round_().add_(64).to(torch.uint8)
        result: Tensor = torch.ops.onednn.qlinear_pointwise(
            integers, scale, 64, other, scales, zeros, bias, 1.0, 0, torch.float32, "none", [], ""
        )
        return result

    return product


PRODUCTS: dict[str, Product] = {
    "as in the package: float32": as_it_is,
    "weight transposed": transposed,
    "weight packed by oneDNN": packed,
    "bfloat16": bfloat16,
    "int8 (oneDNN)": int8,
}


def products(layer: str) -> Benchmark:
    """A linear layer of one decoding step."""
    d_in, d_out = LAYERS[layer]
    title = f"a linear layer with {d_in:,} inputs and {d_out:,} outputs, {TOKENS} tokens"
    prepare = {name: partial(_product, make, d_in, d_out) for name, make in PRODUCTS.items()}
    return _benchmark(layer, title, "products/s", prepare)


def attention() -> Benchmark:
    """The beams of each sentence attend to the entries of the cache."""
    title = f"attention of {BEAMS} beams of {SENTENCES} sentences to {KEYS} cache entries, {HEADS} heads"
    forms = {"as in the package: fused": _fused, "two batched products and a softmax": _batched_products}
    return _benchmark("attention", title, "calls/s", {name: partial(_attention, form) for name, form in forms.items()})


def best_tokens() -> Benchmark:
    """From the logits to the best tokens and their log-probabilities."""
    functions = {
        "as in the package: log-softmax in place, top k by columns": _in_place,
        "log-softmax, torch.topk": _log_softmax_and_topk,
        "top k by columns, then minus logsumexp": _topk_and_logsumexp,
    }
    title = f"the 10 best of {LAYERS['projection'][1]:,} tokens, {TOKENS} prefixes"
    prepare = {name: partial(_best, function) for name, function in functions.items()}
    return _benchmark("best tokens", title, "calls/s", prepare)


def search(options: BenchmarkOptions) -> Benchmark:
    """The whole search."""
    settings = {"as in the package": None, "torch.compile": {}, "torch.compile with freezing": {"freezing": True}}
    prepare = {name: partial(_search, options, how) for name, how in settings.items()}
    tokens = options.size(40, 8)
    return _benchmark(
        "beam search", f"{SENTENCES} sentences, beam size {BEAMS}, {tokens} tokens", "sentences/s", prepare
    )


def _benchmark(name: str, title: str, unit: str, prepare: Mapping[str, Callable[[], Workload]]) -> Benchmark:
    return Benchmark(name, title, unit, [Implementation(label, function) for label, function in prepare.items()])


def _repeat(function: Callable[[], object], times: int = 20) -> Workload:
    @torch.inference_mode()
    def workload(number: int) -> float:
        for _ in range(times):
            function()
        return times

    return workload


def _product(make: Product, d_in: int, d_out: int) -> Workload:
    return _repeat(make(*_layer(d_in, d_out)))


def _layer(d_in: int, d_out: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(TOKENS, d_in), torch.randn(d_out, d_in) * d_in**-0.5, torch.randn(d_out)


def _attention(form: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Workload:
    return _repeat(partial(form, *_cache()))


def _cache() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    query = torch.randn(SENTENCES, HEADS, BEAMS, D_HEAD)
    key, value = torch.randn(2, SENTENCES, HEADS, KEYS, D_HEAD)
    mask = torch.arange(KEYS) % BEAMS == torch.arange(BEAMS)[:, None]
    return query, key, value, mask.expand(SENTENCES, 1, BEAMS, KEYS)


def _fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return fused_attention(query, key, value, mask)


def _batched_products(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    scores = (query @ key.transpose(2, 3)).mul_(D_HEAD**-0.5).masked_fill_(~mask, -torch.inf)
    return torch.softmax(scores, -1) @ value


def _best(function: Callable[[Tensor], Tensor]) -> Workload:
    torch.manual_seed(1)
    logits = torch.randn(TOKENS, LAYERS["projection"][1])
    return _repeat(partial(function, logits))


def _in_place(logits: Tensor) -> Tensor:
    return _topk_by_columns(torch.log_softmax(logits, -1, out=logits), 10)[0]


def _log_softmax_and_topk(logits: Tensor) -> Tensor:
    return logits.log_softmax(-1).topk(10)[0]


def _topk_and_logsumexp(logits: Tensor) -> Tensor:
    return _topk_by_columns(logits, 10)[0] - logits.logsumexp(-1, keepdim=True)


def _search(options: BenchmarkOptions, settings: dict[str, Any] | None) -> Workload:
    model = model_without_eos(options)
    if settings is not None:
        model.decode_step = torch.compile(model.decode_step, dynamic=True, options=settings)  # type: ignore[method-assign]
    sentences, _ = random_pairs(SENTENCES, model.config.vocab_size)
    source = pad([[*sentence, EOS] for sentence in sentences])
    return lambda number: len(beam_search(model, source, BEAMS, max_new_tokens=options.size(40, 8)))


def result_path() -> Path:
    """Return the path of the result file for this CPU, named after the vector instructions that PyTorch uses on it."""
    return RESULTS / f"decoding-trials-{torch.backends.cpu.get_cpu_capability().lower()}.json"


def measure(options: BenchmarkOptions, rounds: int) -> list[dict[str, object]]:
    """Run all benchmarks, print a table for each, and return them in the form of ``transformer bench``."""
    records: list[dict[str, object]] = []
    for benchmark in (*map(products, LAYERS), attention(), best_tokens(), search(options)):
        rows = run(benchmark, options, rounds)
        print(f"{benchmark.name}: {benchmark.title}\n\n{table(rows, benchmark.unit)}\n", flush=True)
        facts = {"name": benchmark.name, "title": benchmark.title, "unit": benchmark.unit}
        records.append({**facts, "implementations": [asdict(row) for row in rows]})
    return records


@guarded
def main(arguments: list[str] | None = None) -> None:
    """Measure everything on one thread, and write the result."""
    parser = argparse.ArgumentParser(
        prog="python -m book.decoding_trials", description="Measure what could make decoding on a CPU faster."
    )
    parser.add_argument("--rounds", type=int, default=7, help="timed rounds of each implementation (default: 7)")
    rounds = parser.parse_args(arguments).rounds
    options = BenchmarkOptions(choose_device("cpu", "fp32"), threads=1)
    torch.set_num_threads(options.threads)
    method = {"rounds": f"{rounds} interleaved rounds after {WARM_UP_ROUNDS} warm-up rounds; medians"}
    result = {**provenance(options.device), **method, "benchmarks": measure(options, rounds)}
    write_result(result_path(), result)


if __name__ == "__main__":
    sys.exit(main())
