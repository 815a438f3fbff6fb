"""The benchmarks: six pieces of work, each done by our implementation and by others from the same input.

Models and data are created only when an implementation is prepared, which happens in its own process.
"""

import atexit
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from transformer.attention import AttentionForm
from transformer.bench.baselines import (
    CTranslate2,
    Marian,
    linear_cross_entropy,
    linear_kl_divergence,
    uncached_beam_search,
    uncached_greedy_search,
    use_torch_transformer,
)
from transformer.bench.runner import Benchmark, Implementation, Setting, Work
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


def train(setting: Setting) -> Benchmark:
    """A training step: forward, label-smoothed loss, backward, Adam."""
    batch_tokens, vocab_size = setting.size(4096, 256), setting.size(37_000, 200)
    prepare = partial(_random_training, setting, batch_tokens, vocab_size, setting.size(2000, 100))
    models = {
        "ours": None,
        "torch.nn.Transformer, F.cross_entropy": partial(use_torch_transformer, paper_dropout=False),
        "the same, with the paper's dropout": partial(use_torch_transformer, paper_dropout=True),
    }
    return Benchmark(
        "train",
        f"one step of the trainer; vocabulary {vocab_size:,}, batches of {batch_tokens:,} target tokens",
        "target tokens/s",
        [Implementation(name, partial(prepare, change), memory=True) for name, change in models.items()],
    )


def loss(setting: Setting) -> Benchmark:
    """The projection to the vocabulary with the label-smoothed loss, forward and backward."""
    tokens, d_model, vocab_size = setting.size(4096, 128), setting.size(512, 32), setting.size(37_000, 200)
    functions: dict[str, Callable[[Tensor, Tensor, Tensor, float], Tensor]] = {
        "ours": linear_label_smoothed_cross_entropy,
        "F.linear, F.cross_entropy": linear_cross_entropy,
        "F.linear, F.kl_div with dense targets": linear_kl_divergence,
    }
    return Benchmark(
        "loss",
        "vocabulary projection and label-smoothed loss, forward and backward; "
        f"{tokens:,} tokens, d_model {d_model}, vocabulary {vocab_size:,}",
        "tokens/s",
        [
            Implementation(name, partial(_loss_step, setting, tokens, d_model, vocab_size, function), memory=True)
            for name, function in functions.items()
        ],
    )


def beam(setting: Setting) -> Benchmark:
    """Beam search for a batch of sentences."""
    tokens = setting.size(40, 8)
    return Benchmark(
        "beam",
        f"beam size 4, {_sentences(setting)}, {tokens} tokens generated",
        "sentences/s",
        [
            *_cached_and_uncached(setting, tokens, beam_search, uncached_beam_search, setting.size(4, 2)),
            Implementation("Hugging Face Marian, generate", partial(_decoding, setting, tokens, Marian.search, Marian)),
            Implementation("CTranslate2", _ctranslate2(setting, tokens)),
        ],
    )


def growth(setting: Setting) -> Benchmark:
    """How the time of beam search grows when translations are eight times as long."""
    lengths = setting.size(20, 3), setting.size(160, 24)
    ours = {f"ours, {tokens} tokens": partial(_decoding, setting, tokens, beam_search) for tokens in lengths}
    theirs = {f"CTranslate2, {tokens} tokens": _ctranslate2(setting, tokens) for tokens in lengths}
    return Benchmark(
        "growth",
        f"beam size 4, {_sentences(setting)}, {lengths[0]} and {lengths[1]} tokens generated",
        "sentences/s",
        [
            Implementation(name, prepare, next(iter(group)))
            for group in (ours, theirs)
            for name, prepare in group.items()
        ],
    )


def greedy(setting: Setting) -> Benchmark:
    """Greedy search for a batch of sentences."""
    tokens = setting.size(40, 8)
    searches = _cached_and_uncached(setting, tokens, greedy_search, uncached_greedy_search, setting.size(8, 2))
    return Benchmark("greedy", f"{_sentences(setting)}, {tokens} tokens generated", "sentences/s", searches)


def processes(setting: Setting) -> Benchmark:
    """Data-parallel training: one process per GPU, or two on a CPU with a thread each, against a single process."""
    count = torch.cuda.device_count() if setting.device.device.type == "cuda" else 2
    batch_tokens, vocab_size = setting.size(4096, 256), setting.size(37_000, 200)
    prepare = partial(
        _random_training, replace(setting, threads=1), batch_tokens, vocab_size, setting.size(100_000, 5000)
    )
    return Benchmark(
        "processes",
        f"one step of the trainer; vocabulary {vocab_size:,}, {batch_tokens:,} target tokens over all processes",
        "target tokens/s",
        [
            Implementation(f"ours, processes: {n}", prepare, f"ours, processes: {count}", processes=n)
            for n in dict.fromkeys([count, 1])
        ],
    )


BENCHMARKS: dict[str, Callable[[Setting], Benchmark]] = {
    benchmark.__name__: benchmark for benchmark in (train, loss, beam, growth, greedy, processes)
}
"""All benchmarks by name."""


def _random_training(
    setting: Setting, batch_tokens: int, vocab_size: int, pairs: int, change: Callable[[Trainer], None] | None = None
) -> Work:
    """Train on random data, alone or as one of several processes; ``change`` the trainer before."""
    torch.set_num_threads(setting.threads)
    stack = ExitStack()
    atexit.register(stack.close)
    context = stack.enter_context(init_distributed(setting.device))
    config = _config(setting, vocab_size)
    with TemporaryDirectory() as folder:  # the files stay open, their names aren't needed
        data = random_data(Path(folder), config, pairs)
        trainer = Trainer(config, TrainingConfig(batch_tokens=batch_tokens), data, setting.device, context)
    if change:
        change(trainer)

    def step(number: int) -> float:
        before = trainer.progress.target_tokens
        trainer.step()
        return trainer.progress.target_tokens - before  # of all processes

    return step


def _loss_step(
    setting: Setting,
    tokens: int,
    d_model: int,
    vocab_size: int,
    function: Callable[[Tensor, Tensor, Tensor, float], Tensor],
) -> Work:
    torch.manual_seed(1)
    x = torch.randn(tokens, d_model, device=setting.device.device, requires_grad=True)
    weight = torch.randn(vocab_size, d_model, device=setting.device.device).mul_(d_model**-0.5).requires_grad_()
    labels = torch.randint(vocab_size, (tokens,), device=setting.device.device)

    def forward_and_backward(number: int) -> float:
        x.grad = weight.grad = None
        with setting.device.autocast():
            loss_sum = function(x, weight, labels, LABEL_SMOOTHING)
        (loss_sum / tokens).backward()
        return tokens

    return forward_and_backward


def _cached_and_uncached(
    setting: Setting, tokens: int, cached: Callable[..., Any], uncached: Callable[..., Any], count: int
) -> list[Implementation]:
    """Our search, and two searches so slow that they decode only ``count`` sentences per round."""
    decode = partial(_decoding, setting, tokens)
    tutorial = partial(decode, partial(uncached, all_logits=True), count=count, attention="explicit")
    return [
        Implementation("ours", partial(decode, cached)),
        Implementation("no cache, one sentence at a time", partial(decode, uncached, count=count)),
        Implementation("the same as in tutorials: explicit attention, all logits", tutorial),
    ]


def _ctranslate2(setting: Setting, tokens: int) -> Callable[[], Work]:
    engine = partial(CTranslate2, device=setting.device, threads=setting.threads)
    return partial(_decoding, setting, tokens, CTranslate2.search, engine)


def _decoding(
    setting: Setting,
    tokens: int,
    search: Callable[..., Sequence[object]],
    engine: Callable[[Transformer], Any] | None = None,
    count: int | None = None,
    attention: AttentionForm = "fused",
) -> Work:
    """Search with a model, or an engine made from it, for all sentences, or for ``count`` others in each round."""
    model: Any = model_without_eos(setting, attention)
    model = engine(model) if engine else model
    sentences, _ = random_pairs(np.random.default_rng(1), setting.size(64, 4), 100, setting.size(10_000, 200))
    source = pad([[*sentence, EOS] for sentence in sentences]).to(setting.device.device)
    count = count or len(source)

    def decode(number: int) -> float:
        with setting.device.autocast():
            return len(search(model, source.roll(-number * count, 0)[:count], max_new_tokens=tokens))

    return decode


def _sentences(setting: Setting) -> str:
    return f"{setting.size(64, 4)} sentences of 25 ± 12 tokens at once, vocabulary {setting.size(10_000, 200):,}"


def _config(setting: Setting, vocab_size: int, attention: AttentionForm = "fused") -> ModelConfig:
    return ModelConfig(
        vocab_size=vocab_size,
        d_model=setting.size(256, 32),
        n_heads=setting.size(8, 4),
        d_ff=setting.size(1024, 64),
        n_layers=setting.size(3, 2),
        attention=attention,
    )


def _model(setting: Setting, vocab_size: int, attention: AttentionForm = "fused") -> Transformer:
    torch.manual_seed(1)  # the same weights in all processes
    return Transformer(_config(setting, vocab_size, attention)).to(setting.device.device)


@torch.no_grad()
def model_without_eos(setting: Setting, attention: AttentionForm = "fused") -> Transformer:
    """Create a model that never ends a translation, so that all implementations generate the same number of tokens.

    The embeddings of the special tokens are zero and so are their logits. The best of many random logits are higher.
    """
    model = _model(setting, setting.size(10_000, 200), attention).eval()
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
