"""What is measured: six contests, each with our contender and its rivals, on one work.

Every contender of a contest has the same weights and gets the same input. Nothing heavy happens before a contender is
prepared, so that one alone can be set up in a process of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from transformer import decoding
from transformer.attention import AttentionForm
from transformer.bench.engines import CTranslate2, Marian
from transformer.bench.rivals import (
    TorchTransformer,
    linear_cross_entropy,
    linear_dense_kl,
    uncached_beam,
    uncached_greedy,
)
from transformer.data.batching import Batch, Sequences, SequencesWriter, collate, pad, token_batches
from transformer.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from transformer.decoding import beam_search, greedy_search
from transformer.device import Device
from transformer.errors import UserError
from transformer.layers import DecoderLayer
from transformer.loss import linear_label_smoothed_cross_entropy
from transformer.model import ModelConfig, Transformer
from transformer.training.trainer import batch_loss

SMOOTHING = 0.1
BEAM = 4

TIDY = "no cache, one sentence at a time"
"""Our own layers, without what makes decoding fast."""
TUTORIAL = "the same as tutorials write it"
"""With the explicit form of attention, and the logits of all positions at every step."""


@dataclass(frozen=True)
class Setting:
    """Where and at what size the contests run."""

    device: Device
    threads: int
    quick: bool = False
    """Everything so small that all contests take seconds: to see that they work, not how fast anything is."""

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise UserError(f"threads must be at least 1; got {self.threads}")

    def size(self, full: int, quick: int) -> int:
        """One of the two."""
        return quick if self.quick else full


Work = Callable[[int], float]
"""Do the work of the round with this number, to its end, and say how much it was, in the contest's unit."""


@dataclass(frozen=True)
class Contender:
    """One way to do a contest's work."""

    name: str
    prepare: Callable[[], Work]
    """Import and build what is needed; not timed. Raises ImportError if it is not installed."""
    against: str = ""
    """Whom it is compared with; the contest's first contender where nothing is said."""


@dataclass(frozen=True)
class Contest:
    """One work and those who do it; the first contender is ours."""

    name: str
    title: str
    """What is done, in a line."""
    unit: str
    """What is counted per second."""
    contenders: list[Contender]
    memory: bool = False
    """Whether peak memory is measured too."""

    def contender(self, name: str) -> Contender:
        """The one of this name."""
        return next(contender for contender in self.contenders if contender.name == name)


def train(setting: Setting) -> Contest:
    """One optimiser step: forward, smoothed loss, backward, Adam."""
    budget, vocab_size = setting.size(4096, 256), setting.size(37_000, 200)
    device = setting.device.device

    def batches() -> list[Batch]:
        rng = np.random.default_rng(1)
        lengths = random_lengths(rng, setting.size(2000, 40), setting.size(100, 20))
        sources = Sequences.pack(random_sentences(rng, lengths, vocab_size))
        # A translation is about as long as its source.
        targets = Sequences.pack(
            random_sentences(rng, (lengths + rng.integers(-3, 4, len(lengths))).clip(2), vocab_size)
        )
        grouped = token_batches(sources, targets, budget, seed=1)
        made = [collate(sources, targets, indices).to(device) for indices in grouped]
        return [batch for batch in made if batch.n_tokens > 0.9 * budget]  # all but the remainder

    def steps(model: nn.Module, loss: Callable[[Batch], Tensor]) -> Work:
        todo = batches()
        model.train()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

        def step(number: int) -> float:
            batch = todo[number % len(todo)]
            with setting.device.autocast():
                mean = loss(batch) / batch.n_tokens
            mean.backward()
            optimizer.step()
            optimizer.zero_grad()
            return batch.n_tokens

        return _waited(setting, step)

    def ours() -> Work:
        model = new_model(setting, vocab_size)
        return steps(model, lambda batch: batch_loss(model, batch, SMOOTHING))

    def torch_transformer(everywhere: bool) -> Work:
        model = TorchTransformer(new_model(setting, vocab_size), everywhere).to(device)
        return steps(model, lambda batch: model.loss(batch, SMOOTHING))

    return Contest(
        "train",
        f"forward, smoothed loss, backward, Adam; vocabulary {vocab_size:,}, batches of {budget:,} target tokens",
        "target tokens/s",
        [
            Contender("ours", ours),
            Contender("torch.nn.Transformer, F.cross_entropy", lambda: torch_transformer(everywhere=True)),
            Contender("the same, dropout only as in the paper", lambda: torch_transformer(everywhere=False)),
        ],
        memory=True,
    )


def loss(setting: Setting) -> Contest:
    """The projection to the vocabulary with the smoothed loss, forward and backward."""
    tokens, d_model, vocab_size = setting.size(4096, 128), setting.size(512, 32), setting.size(37_000, 200)

    def contender(function: Callable[[Tensor, Tensor, Tensor, float], Tensor]) -> Work:
        torch.manual_seed(1)
        x = torch.randn(tokens, d_model, device=setting.device.device, requires_grad=True)
        weight = torch.randn(vocab_size, d_model, device=setting.device.device).mul_(d_model**-0.5).requires_grad_()
        target = torch.randint(vocab_size, (tokens,), device=setting.device.device)

        def forward_and_backward(number: int) -> float:
            x.grad = weight.grad = None
            with setting.device.autocast():
                total = function(x, weight, target, SMOOTHING)
            (total / tokens).backward()
            return tokens

        return _waited(setting, forward_and_backward)

    return Contest(
        "loss",
        f"vocabulary projection and smoothed loss, forward and backward; {tokens:,} tokens, d {d_model}, "
        f"vocabulary {vocab_size:,}",
        "tokens/s",
        [
            Contender("ours", lambda: contender(linear_label_smoothed_cross_entropy)),
            Contender("F.linear, F.cross_entropy", lambda: contender(linear_cross_entropy)),
            Contender("dense target distribution, F.kl_div", lambda: contender(linear_dense_kl)),
        ],
        memory=True,
    )


def beam(setting: Setting) -> Contest:
    """Beam search of one batch of sentences."""
    tokens = setting.size(40, 8)
    return Contest(
        "beam",
        f"beam {BEAM}, {_described(setting)}, {tokens} tokens decoded",
        "sentences/s",
        [
            Contender("ours", lambda: _our_beam(setting, tokens)),
            Contender(TIDY, lambda: _uncached_beam(setting, tokens, tidy=True)),
            Contender(TUTORIAL, lambda: _uncached_beam(setting, tokens, tidy=False)),
            Contender("Hugging Face Marian, generate", lambda: _marian(setting, tokens)),
            Contender("CTranslate2", lambda: _ctranslate2(setting, tokens)),
        ],
    )


def growth(setting: Setting) -> Contest:
    """How beam search's time grows when translations are eight times as long."""
    short, long = setting.size(20, 3), setting.size(160, 24)
    return Contest(
        "growth",
        f"beam {BEAM}, {_described(setting)}, {short} and {long} tokens decoded",
        "sentences/s",
        [
            Contender(f"{name}, {tokens} tokens", partial(search, setting, tokens), against=f"{name}, {short} tokens")
            for name, search in (("ours", _our_beam), ("CTranslate2", _ctranslate2))
            for tokens in (short, long)
        ],
    )


def greedy(setting: Setting) -> Contest:
    """Greedy search of one batch of sentences."""
    tokens = setting.size(40, 8)
    return Contest(
        "greedy",
        f"{_described(setting)}, {tokens} tokens decoded",
        "sentences/s",
        [
            Contender("ours", lambda: _our_greedy(setting, tokens)),
            Contender(TIDY, lambda: _uncached_greedy(setting, tokens, tidy=True)),
            Contender(TUTORIAL, lambda: _uncached_greedy(setting, tokens, tidy=False)),
        ],
    )


def processes(setting: Setting) -> Contest:
    """An optimiser step shared by several processes: one for each GPU, or two on a CPU, of one thread each."""
    count = torch.cuda.device_count() if setting.device.device.type == "cuda" else 2
    budget, vocab_size = setting.size(4096, 256), setting.size(37_000, 200)

    def together(count: int) -> Work:
        from transformer.bench.together import together  # which needs this module

        return together(setting, count, config_of(setting, vocab_size), budget)

    return Contest(
        "processes",
        f"one step of the trainer; vocabulary {vocab_size:,}, {budget:,} target tokens in all",
        "target tokens/s",
        [Contender(f"ours, processes: {number}", partial(together, number)) for number in dict.fromkeys([count, 1])],
    )


CONTESTS: dict[str, Callable[[Setting], Contest]] = {
    contest.__name__: contest for contest in (train, loss, beam, growth, greedy, processes)
}
"""All of them by name."""


def new_model(setting: Setting, vocab_size: int, attention: AttentionForm = "fused") -> Transformer:
    """The model of every contest, with the same random weights each time."""
    torch.manual_seed(1)
    return Transformer(config_of(setting, vocab_size, attention)).to(setting.device.device)


def config_of(setting: Setting, vocab_size: int, attention: AttentionForm = "fused") -> ModelConfig:
    """Its shape."""
    return ModelConfig(
        vocab_size=vocab_size,
        d_model=setting.size(256, 32),
        n_heads=setting.size(8, 4),
        d_ff=setting.size(1024, 64),
        n_layers=setting.size(3, 2),
        attention=attention,
    )


def endless_model(setting: Setting, attention: AttentionForm = "fused") -> Transformer:
    """A model that never wants to end a translation, so that all contenders' are as long as ``exactly`` says."""
    model = new_model(setting, setting.size(10_000, 200), attention).eval()
    never(model, [PAD, BOS, EOS])
    return model


@contextmanager
def exactly(tokens: int) -> Iterator[None]:
    """While this lasts, our searches end each translation after so many tokens, eos included, whatever its source."""
    usual = decoding.length_limits
    decoding.length_limits = lambda model, source, _=None: source.new_full((len(source),), tokens)  # type: ignore[assignment]
    try:
        yield
    finally:
        decoding.length_limits = usual


@torch.no_grad()
def never(model: Transformer, tokens: list[int]) -> None:
    """Change a model with tied embeddings so that these tokens have a score of -10, too low ever to be taken.

    What the last layer norm gives out sums to zero until it has a bias, here the same in all dimensions. To that bias
    embeddings that sum to zero are blind, and such are all but these tokens' own.
    """
    share = model.config.d_model**-0.5
    cast(nn.LayerNorm, cast(DecoderLayer, model.decoder[-1]).residuals[-1].norm).bias.fill_(10 * share)
    embedding = model.source_embedding.weight
    embedding -= embedding.mean(-1, keepdim=True)
    embedding[tokens] = -share


def _our_beam(setting: Setting, tokens: int) -> Work:
    model, source = endless_model(setting), _source(setting)
    return _decoding(setting, tokens, lambda number: beam_search(model, source, BEAM))


def _uncached_beam(setting: Setting, tokens: int, tidy: bool) -> Work:
    model = endless_model(setting, "fused" if tidy else "explicit")
    source, count = _source(setting), setting.size(4, 2)
    return _decoding(
        setting, tokens, lambda number: uncached_beam(model, _turn(source, number, count), BEAM, tidy=tidy)
    )


def _marian(setting: Setting, tokens: int) -> Work:
    model, source = Marian(endless_model(setting)), _source(setting)
    return _decoding(setting, tokens, lambda number: model.search(source, tokens, BEAM))


def _ctranslate2(setting: Setting, tokens: int) -> Work:
    model = CTranslate2(endless_model(setting), setting.device, setting.threads)
    source = model.named(_source(setting))
    return _decoding(setting, tokens, lambda number: model.search(source, tokens, BEAM))


def _our_greedy(setting: Setting, tokens: int) -> Work:
    model, source = endless_model(setting), _source(setting)
    return _decoding(setting, tokens, lambda number: greedy_search(model, source))


def _uncached_greedy(setting: Setting, tokens: int, tidy: bool) -> Work:
    model = endless_model(setting, "fused" if tidy else "explicit")
    source, count = _source(setting), setting.size(8, 2)
    return _decoding(setting, tokens, lambda number: uncached_greedy(model, _turn(source, number, count), tidy=tidy))


def _decoding(setting: Setting, tokens: int, search: Callable[[int], Sequence[object]]) -> Work:
    """A search as the work of a round: it counts the sentences that the search returns."""

    def work(number: int) -> float:
        with exactly(tokens), setting.device.autocast():
            return len(search(number))

    return _waited(setting, work)


def _described(setting: Setting) -> str:
    count, vocab_size = setting.size(64, 4), setting.size(10_000, 200)
    return f"{count} sentences of 25 ± 12 tokens at once, vocabulary {vocab_size:,}"


def _source(setting: Setting) -> Tensor:
    """What is translated, padded, each with its eos."""
    rng = np.random.default_rng(1)
    sentences = random_sentences(rng, random_lengths(rng, setting.size(64, 4), 100), setting.size(10_000, 200))
    return pad([[*sentence, EOS] for sentence in sentences]).to(setting.device.device)


def random_lengths(rng: np.random.Generator, count: int, longest: int) -> NDArray[np.int64]:
    """25 ± 12 tokens, as far as ``longest`` allows."""
    return rng.normal(25, 12, count).round().clip(3, longest).astype(np.int64)


def random_sentences(rng: np.random.Generator, lengths: NDArray[np.int64], vocab_size: int) -> list[list[int]]:
    """Random words, none of them special."""
    return [rng.integers(UNK + 1, vocab_size, length).tolist() for length in lengths]


def random_data(folder: Path, vocab_size: int, longest: int, setting: Setting) -> None:
    """Random sentences in a folder, as a trainer wants its data prepared."""
    rng = np.random.default_rng(1)
    with (
        SequencesWriter(folder, "train.source", vocab_size) as sources,
        SequencesWriter(folder, "train.target", vocab_size) as targets,
    ):
        for _ in range(setting.size(20, 1)):
            lengths = random_lengths(rng, 5000, longest)
            sources.extend(random_sentences(rng, lengths, vocab_size))
            # A translation is about as long as its source.
            targets.extend(random_sentences(rng, (lengths + rng.integers(-3, 4, len(lengths))).clip(2), vocab_size))
    (folder / "tokenizer.model").write_bytes(Tokenizer.train(["a b"], 7).model)  # a trainer has one; nothing is text


def _turn(source: Tensor, number: int, count: int) -> Tensor:
    """Some of the sentences, other ones each round: the slow need not do all."""
    return source.roll(-number * count, 0)[:count]


def _waited(setting: Setting, work: Work) -> Work:
    """Work is done when the device has done it."""

    def waited(number: int) -> float:
        amount = work(number)
        wait_for(setting.device)
        return amount

    return waited


def wait_for(device: Device) -> None:
    """Return when the device has done all that it was told to do."""
    if device.device.type == "cuda":
        torch.cuda.synchronize()
    elif device.device.type == "mps":
        torch.mps.synchronize()
