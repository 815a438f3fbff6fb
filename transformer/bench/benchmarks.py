"""The benchmarks: six pieces of work, each done by our implementation and by others from the same input.

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

import numpy as np
import torch
from torch import Tensor

from transformer.attention import AttentionForm
from transformer.bench import report
from transformer.bench.baselines import (
    CTranslate2,
    HuggingFaceMarian,
    linear_cross_entropy,
    linear_kl_divergence,
    uncached_beam_search,
    use_torch_transformer,
)
from transformer.bench.runner import WARM_UP_ROUNDS, Benchmark, BenchmarkOptions, Implementation, Work, run
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.batching import SequencesWriter, pad
from transformer.data.prepare import PreparedData
from transformer.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from transformer.decoding import beam_search, greedy_search
from transformer.loss import linear_label_smoothed_cross_entropy
from transformer.model import Transformer
from transformer.training.distributed import init_distributed
from transformer.training.trainer import Trainer

LABEL_SMOOTHING = 0.1
LossFunction = Callable[[Tensor, Tensor, Tensor, float], Tensor]


def train(options: BenchmarkOptions) -> Benchmark:
    """A training step: forward, label-smoothed loss, backward, Adam."""
    prepare = partial(_random_training, options, options.size(2000, 100))
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
    tokens, d_model, vocab_size = options.size(4096, 128), options.size(512, 32), options.size(37_000, 200)
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
    tokens = options.size(40, 8)
    few = options.size(4, 2)  # sentences per round, because it is slow
    tutorial = partial(_decoding, options, tokens, uncached_beam_search, count=few, attention="explicit")
    return Benchmark(
        "beam",
        f"beam size 4, {_sentences(options)}, {tokens} tokens generated",
        "sentences/s",
        [
            Implementation("ours", partial(_decoding, options, tokens, beam_search)),
            Implementation("as in tutorials: no cache, one sentence at a time", tutorial),
            *_engines(options, tokens, beam_size=4),
        ],
    )


def growth(options: BenchmarkOptions) -> Benchmark:
    """How the time of beam search grows when translations are eight times as long."""
    lengths = options.size(160, 24), options.size(20, 3)
    return Benchmark(
        "growth",
        f"beam size 4, {_sentences(options)}, {lengths[0]} and {lengths[1]} tokens generated",
        "sentences/s",
        [
            replace(implementation, name=f"{implementation.name}, {tokens} tokens")
            for tokens in lengths
            for implementation in (
                Implementation("ours", partial(_decoding, options, tokens, beam_search)),
                _engines(options, tokens, beam_size=4)[1],
            )
        ],
    )


def greedy(options: BenchmarkOptions) -> Benchmark:
    """Greedy search for a batch of sentences."""
    tokens = options.size(40, 8)
    ours = Implementation("ours", partial(_decoding, options, tokens, greedy_search))
    title = f"{_sentences(options)}, {tokens} tokens generated"
    return Benchmark("greedy", title, "sentences/s", [ours, *_engines(options, tokens, beam_size=1)])


def processes(options: BenchmarkOptions) -> Benchmark:
    """Data-parallel training: one process per GPU, or two on a CPU with a thread each, against a single process."""
    count = torch.cuda.device_count() if options.device.type == "cuda" else 2
    prepare = partial(_random_training, replace(options, threads=1), options.size(100_000, 5000))
    return Benchmark(
        "processes",
        f"one step of the trainer; {_training_sizes(options)}, over all processes",
        "target tokens/s",
        [Implementation(f"ours, processes: {n}", prepare, processes=n) for n in dict.fromkeys([count, 1])],
    )


BENCHMARKS: dict[str, Callable[[BenchmarkOptions], Benchmark]] = {
    benchmark.__name__: benchmark for benchmark in (train, loss, beam, growth, greedy, processes)
}
"""All benchmarks by name."""


def run_benchmarks(
    names: Sequence[str], options: BenchmarkOptions, rounds: int, output: Path | None = None, progress: bool = True
) -> Iterator[str]:
    """Run benchmarks with that many timed rounds and yield what `report.present` does, a table per benchmark."""

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
    return f"vocabulary {options.size(37_000, 200):,}, {options.size(4096, 256):,} target tokens"


def _random_training(options: BenchmarkOptions, pairs: int, change: Callable[[Trainer], None] | None = None) -> Work:
    """Train on random data, alone or as one of several processes; ``change`` the trainer before."""
    torch.set_num_threads(options.threads)
    stack = ExitStack()
    atexit.register(stack.close)
    context = stack.enter_context(init_distributed(options.device))
    config = _config(options, options.size(37_000, 200))
    with TemporaryDirectory() as folder:  # the files stay open, their names aren't needed
        data = random_data(Path(folder), config, pairs)
        training = TrainingConfig(batch_tokens=options.size(4096, 256))
        trainer = Trainer(config, training, data, options.device, context)
    if change:
        change(trainer)

    def step(number: int) -> float:
        before = trainer.progress.target_tokens
        trainer.step()
        return trainer.progress.target_tokens - before  # of all processes

    return step


def _loss_step(options: BenchmarkOptions, tokens: int, d_model: int, vocab_size: int, function: LossFunction) -> Work:
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


def _engines(options: BenchmarkOptions, tokens: int, beam_size: int) -> list[Implementation]:
    """The inference engines to compare with."""
    marian = partial(HuggingFaceMarian.search, beam_size=beam_size)
    ctranslate2 = partial(CTranslate2.search, beam_size=beam_size)
    load_ctranslate2 = partial(CTranslate2, device=options.device, threads=options.threads)
    return [
        Implementation("Hugging Face Marian", partial(_decoding, options, tokens, marian, HuggingFaceMarian)),
        Implementation("CTranslate2", partial(_decoding, options, tokens, ctranslate2, load_ctranslate2)),
    ]


def _decoding(
    options: BenchmarkOptions,
    tokens: int,
    search: Callable[..., Sequence[object]],
    engine: Callable[[Transformer], Any] | None = None,
    count: int | None = None,
    attention: AttentionForm = "fused",
) -> Work:
    """Search with a model, or an engine made from it, for all sentences, or for ``count`` others in each round."""
    model: Any = model_without_eos(options, attention)
    model = engine(model) if engine else model
    sentences, _ = random_pairs(np.random.default_rng(1), options.size(64, 4), 100, options.size(10_000, 200))
    source = pad([[*sentence, EOS] for sentence in sentences]).to(options.device.torch_device)
    count = count or len(source)

    def decode(number: int) -> float:
        with options.device.autocast():
            return len(search(model, source.roll(-number * count, 0)[:count], max_new_tokens=tokens))

    return decode


def _sentences(options: BenchmarkOptions) -> str:
    return f"{options.size(64, 4)} sentences of 25 ± 12 tokens at once, vocabulary {options.size(10_000, 200):,}"


def _config(options: BenchmarkOptions, vocab_size: int, attention: AttentionForm = "fused") -> ModelConfig:
    return ModelConfig(
        vocab_size=vocab_size,
        d_model=options.size(256, 32),
        n_heads=options.size(8, 4),
        d_ff=options.size(1024, 64),
        n_layers=options.size(3, 2),
        attention=attention,
    )


@torch.no_grad()
def model_without_eos(options: BenchmarkOptions, attention: AttentionForm = "fused") -> Transformer:
    """Create a model that never ends a translation, so that all implementations generate the same number of tokens.

    The embeddings of the special tokens are zero and so are their logits. The best of many random logits are higher.
    """
    torch.manual_seed(1)  # the same weights in all processes
    model = Transformer(_config(options, options.size(10_000, 200), attention)).to(options.device.torch_device).eval()
    model.source_embedding.weight[[PAD, BOS, EOS]] = 0
    return model


def random_pairs(
    rng: np.random.Generator, count: int, longest: int, vocab_size: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Draw sentence pairs of random tokens, none of them special: sources of 25 ± 12, targets about as long."""
    lengths = rng.normal(25, 12, count).round().clip(3, longest).astype(int)
    target_lengths = (lengths + rng.integers(-3, 4, count)).clip(2)
    sources = [rng.integers(UNK + 1, vocab_size, n).tolist() for n in lengths]
    return sources, [rng.integers(UNK + 1, vocab_size, n).tolist() for n in target_lengths]


def random_data(folder: Path, config: ModelConfig, count: int) -> PreparedData:
    """Store random sentence pairs in a folder, like the prepared data of a corpus."""
    pairs = random_pairs(np.random.default_rng(1), count, min(100, config.max_length - 4), config.vocab_size)
    for side, sentences in zip(("source", "target"), pairs, strict=True):
        with SequencesWriter(folder, f"train.{side}", config.vocab_size) as writer:
            writer.extend(sentences)
    (folder / "tokenizer.model").write_bytes(Tokenizer.train(["a b"], 7).model)  # a trainer needs one
    return PreparedData(folder)
