"""Look at the data before you train on it: how much there is, how long it is, how it is batched, and its pieces.

Everything but the samples is computed from lengths and ids as they lie in the store, in seconds for millions of pairs.
"""

import itertools
import random
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from transformer.data.batching import Indices, Sequences, token_batches
from transformer.data.cleaning import printable
from transformer.data.corpora import Manifest, find_corpus
from transformer.data.prepare import DataConfig, PreparedData
from transformer.data.tokenizer import Tokenizer
from transformer.errors import UserError

WIDTH = 100
"""Columns of a terminal that all of it fits in, as far as words are not longer."""
BUCKETS = 15
"""Rows of a histogram, without the one for the few longest."""
BAR = 28
"""Columns of its longest bar."""
AT_ONCE = 1 << 20
"""Ids that are counted at once, so that a large store is never in memory whole."""


@dataclass(frozen=True)
class Lengths:
    """How long one side's sentences are, in tokens without bos and eos."""

    sentences: int
    tokens: int
    mean: float
    median: int
    """At least half of the sentences have no more tokens than this."""
    most: int
    """At least 95 % of the sentences have no more tokens than this."""
    longest: int

    @classmethod
    def of(cls, lengths: Indices) -> "Lengths":
        """Count them: (sentences,), of at least one."""
        median, most = _quantile(lengths, 0.5), _quantile(lengths, 0.95)
        return cls(len(lengths), int(lengths.sum()), float(lengths.mean()), median, most, int(lengths.max()))


@dataclass(frozen=True)
class Bucket:
    """How many sentences of each side have ``first`` to ``last`` tokens; without ``last``, ``first`` or more."""

    first: int
    last: int | None
    source: int
    target: int


@dataclass(frozen=True)
class Batching:
    """What an epoch's batches are like."""

    batches: int
    pairs: int
    """Of the median batch."""
    tokens: int
    """Target tokens of the median batch, eos included, padding not."""
    fewest: int
    """The same of the smallest batch but the last."""
    padding: float
    """The share of all places in them, source and target, that no token stands at."""


@dataclass(frozen=True)
class Sample:
    """One pair of the corpus."""

    number: int
    """Its place, from 0."""
    source: str
    source_pieces: list[str]
    target: str
    target_pieces: list[str]


def histogram(n_source: Indices, n_target: Indices) -> list[Bucket]:
    """Sort both sides' lengths, each at least 1, into the same buckets.

    All are equally wide, the narrowest of 1, 2, 5, 10, 20, 50, … tokens of which `BUCKETS` hold 99 % of each side; if
    some sentences are longer than that, they have one more bucket together.
    """
    longest = max(int(n_source.max()), int(n_target.max()))
    covered = max(_quantile(side, 0.99) for side in (n_source, n_target))
    width = next(w for tens in itertools.count() for w in np.array([1, 2, 5]) * 10**tens if w * BUCKETS >= covered)
    rows = min(-(-longest // width), BUCKETS + 1)
    counts = [np.bincount(np.minimum((side - 1) // width, BUCKETS), minlength=rows) for side in (n_source, n_target)]
    return [
        Bucket(int(i * width + 1), int((i + 1) * width) if i < BUCKETS else None, int(source), int(target))
        for i, (source, target) in enumerate(zip(*counts, strict=True))
    ]


def batching(n_source: Indices, n_target: Indices, batches: Sequence[Indices]) -> Batching:
    """What batches are like, as `collate` would make them.

    Args:
        n_source: tokens of each source, (pairs,), without eos.
        n_target: tokens of each target.
        batches: as `token_batches` makes them.
    """
    order, sizes = np.concatenate(batches), np.array([len(batch) for batch in batches])
    starts = np.cumsum(sizes) - sizes
    sides = [side[order] + 1 for side in (n_source, n_target)]  # with eos
    places = sum(int((np.maximum.reduceat(side, starts) * sizes).sum()) for side in sides)
    tokens = np.add.reduceat(sides[1], starts)
    return Batching(
        batches=len(batches),
        pairs=_quantile(sizes, 0.5),
        tokens=_quantile(tokens, 0.5),
        fewest=int((tokens[:-1] if len(tokens) > 1 else tokens).min()),
        padding=1 - sum(int(side.sum()) for side in sides) / places,
    )


def _quantile(values: Indices, share: float) -> int:
    """The least of the values than which at least this share of them are not greater."""
    return int(np.quantile(values, share, method="inverted_cdf"))


def used_pieces(sequences: Sequences, vocab_size: int) -> NDArray[np.bool_]:
    """Which pieces of the vocabulary occur, (vocab_size,)."""
    used = np.zeros(vocab_size, dtype=np.bool_)
    for start in range(0, len(sequences.ids), AT_ONCE):
        used[sequences.ids[start : start + AT_ONCE]] = True
    return used


def choose_samples(
    sources: Sequences, targets: Sequences, tokenizer: Tokenizer, count: int, seed: int = 0
) -> list[Sample]:
    """Pairs from anywhere in the corpus, in its order; the same seed chooses the same.

    Args:
        count: how many; all, if there are no more.
        seed: another one chooses others.

    Raises:
        UserError: if ``count`` is negative.
    """
    if count < 0:
        raise UserError(f"the number of samples must not be negative; got {count}")
    chosen = sorted(random.Random(seed).sample(range(len(sources)), min(count, len(sources))))

    def both(ids: Sequence[int]) -> tuple[str, list[str]]:
        return tokenizer.decode(ids), tokenizer.pieces(ids)

    return [Sample(i, *both(sources[i].tolist()), *both(targets[i].tolist())) for i in chosen]


def corpus_statistics(
    data: PreparedData, config: DataConfig, batch_tokens: int, samples: int = 3, seed: int = 0
) -> Iterator[str]:
    """Everything there is to see, part by part, as text to print.

    Args:
        data: made with ``config``.
        config: which text it is.
        batch_tokens: as in training.
        samples: how many pairs to show.
        seed: chooses them.

    Raises:
        UserError: if the store is damaged, or ``samples`` negative.
    """
    tokenizer, (sources, targets) = data.tokenizer, data.tokens("train")
    shown = choose_samples(sources, targets, tokenizer, samples, seed)
    n_source, n_target = sources.lengths(), targets.lengths()
    names = config.direction.split("-")
    yield _corpus_table(config)
    if dropped := _dropped_text(data, config, len(sources)):
        yield f"What was left out of train\n\n{dropped}"
    yield f"Tokens, without bos and eos\n\n{_lengths_table(data, names)}"
    source_used, target_used = (used_pieces(side, len(tokenizer)) for side in (sources, targets))
    yield _pieces_text(source_used, target_used)
    yield f"Sentences of train by their tokens\n\n{_histogram_table(histogram(n_source, n_target), names)}"
    made = batching(n_source, n_target, token_batches(sources, targets, batch_tokens))
    yield f"Batches of at most {batch_tokens:,} target tokens, eos included\n\n{_batching_table(made)}"
    if shown:
        yield "Samples of train, normalised, and their pieces\n\n" + "\n\n".join(_sample_text(s, names) for s in shown)


def _corpus_table(config: DataConfig) -> str:
    corpus = find_corpus(config.corpus)
    told, held_out = {"description": "made on the spot"}, set()
    if isinstance(corpus, Manifest):
        told, held_out = corpus.described, set(corpus.splits) - set(corpus.described["splits"])
    rows = {
        "corpus": corpus.name,
        "description": told.get("description"),
        "direction": config.direction.replace("-", " → "),
        "splits": ", ".join(f"{s} (held out of train)" if s in held_out else s for s in corpus.splits),
        "licence": told.get("licence"),
        "citation": told.get("citation"),
    }
    described = [(name, text) for name, text in rows.items() if text]
    return tabulate(described, tablefmt="plain", maxcolwidths=[None, WIDTH - 13])


def _dropped_text(data: PreparedData, config: DataConfig, pairs: int) -> str:
    report = data.cleaning
    parts = [report.table(width=44)] if report.kept < report.seen else []
    if unfit := report.kept * config.segmentations - pairs:
        parts.append(f"then {unfit:,} more: no token on a side, or more than max_length={config.max_length}")
    return "\n\n".join(parts)


def _lengths_table(data: PreparedData, names: Sequence[str]) -> str:
    rows = [
        [f"{split}, {name}", *astuple(Lengths.of(side.lengths()))]
        for split in ("train", "valid")
        for name, side in zip(names, data.tokens(split), strict=True)
    ]
    headers = ["", "sentences", "tokens", "mean", "median", "95% up to", "longest"]
    return tabulate(rows, headers, intfmt=",", floatfmt=".1f")


def _pieces_text(source: NDArray[np.bool_], target: NDArray[np.bool_]) -> str:
    return (
        f"The vocabulary has {len(source):,} pieces; train uses {(source | target).sum():,} of them: "
        f"{source.sum():,} in the source,\n{target.sum():,} in the target, {(source & target).sum():,} in both."
    )


def _histogram_table(buckets: Sequence[Bucket], names: Sequence[str]) -> str:
    highest = max(max(b.source, b.target) for b in buckets)
    rows = [[_range(b), b.source, _bar(b.source / highest), b.target, _bar(b.target / highest)] for b in buckets]
    headers = ["tokens", names[0], "", names[1], ""]
    return tabulate(rows, headers, intfmt=",", colalign=("right", "right", "left", "right", "left"))


def _range(bucket: Bucket) -> str:
    if bucket.last is None:
        return f"over {bucket.first - 1}"
    return f"{bucket.first}" if bucket.first == bucket.last else f"{bucket.first}–{bucket.last}"


def _bar(share: float) -> str:
    """A bar of so much of `BAR` columns, to an eighth of a column; the smallest is still seen."""
    eighths = max(round(share * BAR * 8), 1) if share else 0
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _batching_table(made: Batching) -> str:
    rows = [
        ["batches an epoch", f"{made.batches:,}"],
        ["pairs", f"{made.pairs:,} in the median batch"],
        ["target tokens", f"{made.tokens:,} in the median batch, {made.fewest:,} in the smallest but the last"],
        ["padding", f"{made.padding:.1%} of source and target"],
    ]
    return tabulate(rows, tablefmt="plain")


def _sample_text(sample: Sample, names: Sequence[str]) -> str:
    sides = ((sample.source, sample.source_pieces), (sample.target, sample.target_pieces))
    indent = " " * (max(map(len, names)) + 2)
    lines = [f"pair {sample.number + 1:,}"]
    for name, (text, pieces) in zip(names, sides, strict=True):
        for start, words in ((name.ljust(len(indent)), text), (indent, " ".join(pieces))):
            lines.append(textwrap.fill(printable(words), WIDTH, initial_indent=start, subsequent_indent=indent))
    return "\n".join(lines)
