"""The benchmarks: each times our implementation and, in most cases, others on the same input.

Models and data are created only when an implementation is prepared, which happens in its own process.
"""

import atexit
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from transformer.attention import AttentionImplementation
from transformer.bench import report
from transformer.bench.baselines import (
    CTranslate2,
    HuggingFaceMarian,
    linear_cross_entropy,
    linear_kl_divergence,
    uncached_beam_search,
    use_torch_transformer,
)
from transformer.bench.runner import WARM_UP_ROUNDS, Benchmark, BenchmarkOptions, Implementation, Workload, run
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.batching import pad
from transformer.data.synthetic import random_data, random_pairs
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.decoding import beam_search, greedy_search
from transformer.device import InferencePrecision, choose_device
from transformer.loss import linear_label_smoothed_cross_entropy
from transformer.model import Transformer
from transformer.quantization import quantize_linear_layers
from transformer.training.distributed import init_distributed
from transformer.training.trainer import Trainer

# Sizes, each with the one for `BenchmarkOptions.quick`.
TRAINING_TOKENS = 4096, 256
TRAINING_VOCABULARY = 37_000, 200
DECODING_VOCABULARY = 10_000, 200
SENTENCES = 64, 4
NEW_TOKENS = 40, 8

LABEL_SMOOTHING = 0.1
LossFunction = Callable[[Tensor, Tensor, Tensor, float], Tensor]


def train(options: BenchmarkOptions) -> Benchmark:
    """A training step: forward, label-smoothed loss, backward, Adam."""
    prepare = partial(_training_step, options, options.size(2000, 100))
    models = {
        "ours": None,
        "torch.nn.Transformer, F.cross_entropy": partial(use_torch_transformer, paper_dropout=False),
        "the same, with the paper's dropout": partial(use_torch_transformer, paper_dropout=True),
    }
    return Benchmark(
        "train",
        f"one step of the trainer; {_training_sizes(options)}",
        "target tokens/s",
        [Implementation(name, partial(prepare, change), memory=True) for name, change in models.items()],
    )


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


def beam(options: BenchmarkOptions) -> Benchmark:
    """Beam search for a batch of sentences."""
    tokens = options.size(*NEW_TOKENS)
    few = options.size(4, 2)  # sentences per round, because it is slow
    tutorial = partial(_decoding, options, tokens, uncached_beam_search, count=few, attention="explicit")
    ours, *engines = _searches(options, tokens, beam_size=4)
    return Benchmark(
        "beam",
        f"beam size 4, {_decoding_sizes(options)}, {tokens} tokens generated",
        "sentences/s",
        [ours, Implementation("as in tutorials: no cache, one sentence at a time", tutorial), *engines],
    )


def beam_long(options: BenchmarkOptions) -> Benchmark:
    """Beam search for long translations."""
    return _beam_of_length("beam-long", options, options.size(160, 24))


def beam_short(options: BenchmarkOptions) -> Benchmark:
    """Beam search for translations that are an eighth as long."""
    return _beam_of_length("beam-short", options, options.size(20, 3))


def _beam_of_length(name: str, options: BenchmarkOptions, tokens: int) -> Benchmark:
    ours, _, ctranslate2 = _searches(options, tokens, beam_size=4)
    title = f"beam size 4, {_decoding_sizes(options)}, {tokens} tokens generated"
    return Benchmark(name, title, "sentences/s", [ours, ctranslate2])


def greedy(options: BenchmarkOptions) -> Benchmark:
    """Greedy search for a batch of sentences."""
    tokens = options.size(*NEW_TOKENS)
    title = f"{_decoding_sizes(options)}, {tokens} tokens generated"
    return Benchmark("greedy", title, "sentences/s", _searches(options, tokens, beam_size=1))


def int8(options: BenchmarkOptions) -> Benchmark:
    """Beam search on a CPU in int8 and in fp32."""
    tokens = options.size(*NEW_TOKENS)
    precisions: tuple[InferencePrecision, ...] = ("int8", "fp32")
    implementations = []
    for precision in precisions:
        on_cpu = replace(options, device=choose_device("cpu", precision))
        ours, _, ctranslate2 = _searches(on_cpu, tokens, beam_size=4)
        implementations += [replace(one, name=f"{one.name}, {precision}") for one in (ours, ctranslate2)]
    title = f"beam size 4, {_decoding_sizes(options)}, {tokens} tokens generated, on the CPU"
    return Benchmark("int8", title, "sentences/s", implementations)


def processes(options: BenchmarkOptions) -> Benchmark:
    """Data-parallel training: one process per GPU, or two on a CPU, compared with one; each has one thread."""
    count = torch.cuda.device_count() if options.device.type == "cuda" else 2
    prepare = partial(_training_step, replace(options, threads=1), options.size(100_000, 5000))
    alone = "; with a single GPU there is nothing to compare" if count == 1 else ""
    return Benchmark(
        "processes",
        f"one step of the trainer; {_training_sizes(options)}, over all processes, each with one thread{alone}",
        "target tokens/s",
        [Implementation(f"ours, processes: {n}", prepare, processes=n) for n in dict.fromkeys([count, 1])],
    )


BENCHMARKS: dict[str, Callable[[BenchmarkOptions], Benchmark]] = {
    "train": train,
    "loss": loss,
    "beam": beam,
    "beam-long": beam_long,
    "beam-short": beam_short,
    "greedy": greedy,
    "int8": int8,
    "processes": processes,
}
"""All benchmarks by name."""


def run_benchmarks(
    names: Sequence[str], options: BenchmarkOptions, rounds: int, output: Path | None = None, progress: bool = True
) -> Iterator[str]:
    """Run benchmarks with ``rounds`` timed rounds and yield what `report.present` does, a table per benchmark."""

    def results() -> Iterator[tuple[dict[str, Any], str]]:
        for name in names:
            benchmark = BENCHMARKS[name](options)
            rows = run(benchmark, options, rounds, progress)
            facts = {"name": name, "title": benchmark.title, "unit": benchmark.unit}
            record: dict[str, Any] = {**facts, "implementations": [asdict(row) for row in rows]}
            yield record, f"{name}: {benchmark.title}\n\n{report.table(rows, benchmark.unit)}"

    method = {"rounds": f"{rounds} interleaved rounds after {WARM_UP_ROUNDS} warm-up rounds; medians"}
    return report.present(options, method, "benchmarks", results(), output)


def _training_sizes(options: BenchmarkOptions) -> str:
    tokens, vocab_size = options.size(*TRAINING_TOKENS), options.size(*TRAINING_VOCABULARY)
    return f"vocabulary {vocab_size:,}, {tokens:,} target tokens"


def _training_step(options: BenchmarkOptions, pairs: int, change: Callable[[Trainer], None] | None = None) -> Workload:
    """Train on random data, alone or as one of several processes; first call ``change`` with the trainer."""
    torch.set_num_threads(options.threads)
    stack = ExitStack()
    atexit.register(stack.close)
    context = stack.enter_context(init_distributed(options.device))
    config = _config(options, options.size(*TRAINING_VOCABULARY))
    with TemporaryDirectory() as folder:  # the files stay open; their names aren't needed
        data = random_data(Path(folder), pairs, config.vocab_size)
        training = TrainingConfig(batch_tokens=options.size(*TRAINING_TOKENS))
        trainer = Trainer(config, training, data, options.device, context)
    if change:
        change(trainer)

    def step(number: int) -> float:
        before = trainer.progress.target_tokens
        trainer.step()
        return trainer.progress.target_tokens - before  # of all processes

    return step


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


def _decoding_sizes(options: BenchmarkOptions) -> str:
    sentences, vocab_size = options.size(*SENTENCES), options.size(*DECODING_VOCABULARY)
    return f"{sentences} sentences of 25 ± 12 tokens at once, vocabulary {vocab_size:,}"


def _searches(options: BenchmarkOptions, tokens: int, beam_size: int) -> list[Implementation]:
    """Our search, Hugging Face's and CTranslate2's; a beam size of 1 is greedy search."""
    ours = greedy_search if beam_size == 1 else partial(beam_search, beam_size=beam_size)
    marian, ctranslate2 = (partial(engine.search, beam_size=beam_size) for engine in (HuggingFaceMarian, CTranslate2))
    load_ctranslate2 = partial(CTranslate2, device=options.device, threads=options.threads)
    quantize = quantize_linear_layers if options.device.int8 else None
    return [
        Implementation("ours", partial(_decoding, options, tokens, ours, quantize)),
        Implementation("Hugging Face Marian", partial(_decoding, options, tokens, marian, HuggingFaceMarian)),
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
