"""The benchmarks: each times our implementation and, in most cases, others on the same input.

Models and data are created only when an implementation is prepared, which happens in its own process.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tabulate import tabulate
from torch import Tensor

from transformer.attention import AttentionImplementation
from transformer.bench.baselines import (
    CTranslate2,
    HuggingFaceMarian,
    linear_cross_entropy,
    linear_kl_divergence,
    uncached_beam_search,
)
from transformer.bench.recipe import training
from transformer.bench.report import step_table, table
from transformer.bench.runner import WARM_UP_ROUNDS, Benchmark, BenchmarkOptions, Implementation, Workload, run
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.batching import pad
from transformer.data.prepare import DataConfig
from transformer.data.synthetic import random_pairs
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.decoding import beam_search, greedy_search
from transformer.device import InferencePrecision, choose_device
from transformer.files import check_writable, write_output
from transformer.loss import linear_label_smoothed_cross_entropy
from transformer.model import Transformer
from transformer.provenance import provenance, versions
from transformer.quantization import quantize_linear_layers
from transformer.recipes import RECIPES, Recipe

TRAINING_TOKENS = 4096
# Sizes, each with the one for `BenchmarkOptions.quick`.
TRAINING_VOCABULARY = 37_000, 200
DECODING_VOCABULARY = 10_000, 200
SENTENCES = 64, 4
NEW_TOKENS = 40, 8

LABEL_SMOOTHING = 0.1
LossFunction = Callable[[Tensor, Tensor, Tensor, float], Tensor]


def train(options: BenchmarkOptions) -> Benchmark:
    """Training steps of a small model with a vocabulary as large as that of WMT14."""
    model, settings = _config(options, options.size(*TRAINING_VOCABULARY)), TrainingConfig(batch_tokens=TRAINING_TOKENS)
    benchmark = training("train", Recipe("", DataConfig("copy"), model, settings), options)
    return replace(benchmark, implementations=benchmark.implementations[:2], facts={})  # its hours mean nothing


def loss(options: BenchmarkOptions) -> Benchmark:
    """The projection to the vocabulary with the label-smoothed loss, forward and backward."""
    tokens, d_model, vocab_size = options.size(4096, 128), options.size(512, 32), options.size(*TRAINING_VOCABULARY)
    functions: dict[str, LossFunction] = {
        "ours": linear_label_smoothed_cross_entropy,
        "F.linear, F.cross_entropy": linear_cross_entropy,
        "F.linear, F.kl_div with dense targets": linear_kl_divergence,
    }
    prepare = partial(_loss_step, options, tokens, d_model, vocab_size)
    return Benchmark(
        "loss",
        "vocabulary projection and label-smoothed loss, forward and backward; "
        f"{tokens:,} tokens, d_model {d_model}, vocabulary {vocab_size:,}",
        "tokens/s",
        [Implementation(name, partial(prepare, function), memory=True) for name, function in functions.items()],
    )


def search(name: str, beam_size: int, new_tokens: tuple[int, int], options: BenchmarkOptions) -> Benchmark:
    """Beam search for a batch of sentences, or greedy search if the beam size is 1."""
    tokens = options.size(*new_tokens)
    sentences, vocab_size = options.size(*SENTENCES), options.size(*DECODING_VOCABULARY)
    return Benchmark(
        name,
        f"beam size {beam_size}, {sentences} sentences of 25 ± 12 tokens at once, vocabulary {vocab_size:,}, "
        f"{tokens} tokens generated",
        "sentences/s",
        _searches(options, tokens, beam_size),
    )


def beam(options: BenchmarkOptions) -> Benchmark:
    """Beam search, also as many tutorials write it."""
    benchmark = search("beam", 4, NEW_TOKENS, options)
    few = options.size(4, 2)  # sentences per round, because it is slow
    tutorial = partial(
        _decoding, options, options.size(*NEW_TOKENS), uncached_beam_search, count=few, attention="explicit"
    )
    ours, *engines = benchmark.implementations
    uncached = Implementation("as in tutorials: no cache, one sentence at a time", tutorial)
    return replace(benchmark, implementations=[ours, uncached, *engines])


def int8(options: BenchmarkOptions) -> Benchmark:
    """Beam search on a CPU in int8 and in fp32."""
    implementations = []
    precisions: tuple[InferencePrecision, ...] = ("int8", "fp32")
    for precision in precisions:
        on_cpu = replace(options, device=choose_device("cpu", precision))
        benchmark = search("int8", 4, NEW_TOKENS, on_cpu)
        ours, _, ctranslate2 = benchmark.implementations
        implementations += [replace(one, name=f"{one.name}, {precision}") for one in (ours, ctranslate2)]
    return replace(benchmark, title=f"{benchmark.title}, on the CPU", implementations=implementations)


BENCHMARKS: dict[str, Callable[[BenchmarkOptions], Benchmark]] = {
    "train": train,
    "loss": loss,
    "beam": beam,
    "beam-long": partial(search, "beam-long", 4, (160, 24)),
    "beam-short": partial(search, "beam-short", 4, (20, 3)),
    "greedy": partial(search, "greedy", 1, NEW_TOKENS),
    "int8": int8,
}
"""All benchmarks by name."""


def run_benchmarks(
    names: Sequence[str], options: BenchmarkOptions, rounds: int, output: Path | None = None, progress: bool = True
) -> Iterator[str]:
    """Run benchmarks and yield text: first where and how they run, then the tables of each as soon as it is done.

    Args:
        names: benchmarks, or recipes whose training is measured.
        rounds: timed rounds of each implementation.
        output: a JSON file for the measurements, which is written after each benchmark.

    Raises:
        UserError: if the file cannot be written.
    """
    if output is not None:
        check_writable(output)  # now, not after minutes of measuring
    torch.set_num_threads(options.threads)
    header = {
        **provenance(options.device),
        "versions": versions("torch", "ctranslate2", "transformers"),
        "rounds": f"{rounds} interleaved rounds after {WARM_UP_ROUNDS} warm-up rounds; medians",
    }
    if options.quick:
        header["quick"] = "too small for comparisons"
    yield tabulate(header.items(), tablefmt="plain")
    records = []
    for name in names:
        benchmark = BENCHMARKS[name](options) if name in BENCHMARKS else training(name, RECIPES[name], options)
        rows = run(benchmark, options, rounds, progress)
        facts = {"name": name, "title": benchmark.title, "unit": benchmark.unit, **benchmark.facts}
        record: dict[str, Any] = {**facts, "implementations": [asdict(row) for row in rows]}
        yield f"{name}: {benchmark.title}\n\n{table(rows, benchmark.unit)}"
        if benchmark.facts and rows[0].speeds:  # not if our training failed
            yield step_table(record)
        records.append(record)
        if output is not None:
            write_output(output, (json.dumps(header | {"benchmarks": records}, indent=2) + "\n").encode())


def _loss_step(
    options: BenchmarkOptions, tokens: int, d_model: int, vocab_size: int, function: LossFunction
) -> Workload:
    torch.manual_seed(1)
    x = torch.randn(tokens, d_model, device=options.device.torch_device, requires_grad=True)
    weight = torch.randn(vocab_size, d_model, device=options.device.torch_device).mul_(d_model**-0.5).requires_grad_()
    labels = torch.randint(vocab_size, (tokens,), device=options.device.torch_device)

    def forward_and_backward(number: int) -> float:
        x.grad = weight.grad = None
        with options.device.autocast():
            loss_sum = function(x, weight, labels, LABEL_SMOOTHING)
        (loss_sum / tokens).backward()
        return tokens

    return forward_and_backward


def _searches(options: BenchmarkOptions, tokens: int, beam_size: int) -> list[Implementation]:
    """Our search, Hugging Face's and CTranslate2's; a beam size of 1 is greedy search."""
    ours = greedy_search if beam_size == 1 else partial(beam_search, beam_size=beam_size)
    marian, ctranslate2 = (partial(engine.search, beam_size=beam_size) for engine in (HuggingFaceMarian, CTranslate2))
    load_marian = partial(HuggingFaceMarian, device=options.device)
    load_ctranslate2 = partial(CTranslate2, device=options.device, threads=options.threads)
    quantize = quantize_linear_layers if options.device.int8 else None
    return [
        Implementation("ours", partial(_decoding, options, tokens, ours, quantize)),
        Implementation("Hugging Face Marian", partial(_decoding, options, tokens, marian, load_marian)),
        Implementation("CTranslate2", partial(_decoding, options, tokens, ctranslate2, load_ctranslate2)),
    ]


def _decoding(
    options: BenchmarkOptions,
    tokens: int,
    search: Callable[..., Sequence[object]],
    load_engine: Callable[[Transformer], Any] | None = None,
    count: int | None = None,
    attention: AttentionImplementation = "fused",
) -> Workload:
    """Search with a model, or an engine made from it: all sentences, or ``count`` different ones in each round."""
    model: Any = model_without_eos(options, attention)
    model = load_engine(model) if load_engine else model
    sentences, _ = random_pairs(options.size(*SENTENCES), options.size(*DECODING_VOCABULARY))
    source = pad([[*sentence, EOS] for sentence in sentences]).to(options.device.torch_device)
    count = count or len(source)

    def decode(number: int) -> float:
        with options.device.autocast():
            return len(search(model, source.roll(-number * count, 0)[:count], max_new_tokens=tokens))

    return decode


def _config(options: BenchmarkOptions, vocab_size: int, attention: AttentionImplementation = "fused") -> ModelConfig:
    return ModelConfig(
        vocab_size=vocab_size,
        d_model=options.size(256, 32),
        n_heads=options.size(8, 4),
        d_ff=options.size(1024, 64),
        n_layers=options.size(3, 2),
        attention=attention,
    )


@torch.no_grad()
def model_without_eos(options: BenchmarkOptions, attention: AttentionImplementation = "fused") -> Transformer:
    """Create a model that never ends a translation, so that all implementations generate the same number of tokens.

    The embeddings of pad, bos and eos are zero, and so are their logits. The best of many random logits are higher.
    """
    torch.manual_seed(1)  # the same weights in all processes
    config = _config(options, options.size(*DECODING_VOCABULARY), attention)
    model = Transformer(config).to(options.device.torch_device).eval()
    model.source_embedding.weight[[PAD, BOS, EOS]] = 0
    return model
