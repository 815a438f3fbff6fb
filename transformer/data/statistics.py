"""Statistics of a prepared corpus: sentence lengths, batches, vocabulary use and sample pairs.

Everything except the samples is computed from the stored lengths and ids, in seconds even for millions of pairs.
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
from transformer.data.corpora import MAX_HELD_OUT, FileCorpus, find_corpus
from transformer.data.prepare import DataConfig, PreparedData
from transformer.data.tokenizer import Tokenizer
from transformer.errors import UserError

WIDTH = 100
"""Columns of the output, unless a single word is longer."""
N_BUCKETS = 15
"""Rows of a histogram, not counting the row for the longest sentences."""
BAR_WIDTH = 28
"""Columns of the longest bar of a histogram."""
CHUNK = 1 << 20
"""Number of ids to count at a time, to keep memory use low."""


@dataclass(frozen=True)
class LengthStatistics:
    """Sentence lengths of one language, in tokens without bos and eos."""

    n_sentences: int
    n_tokens: int
    mean: float
    median: int
    percentile_95: int
    maximum: int

    @classmethod
    def of(cls, lengths: Indices) -> "LengthStatistics":
        """Compute the statistics of ``lengths``, (n_sentences,), with at least one sentence."""
        median, percentile_95 = _quantile(lengths, 0.5), _quantile(lengths, 0.95)
        return cls(len(lengths), int(lengths.sum()), float(lengths.mean()), median, percentile_95, int(lengths.max()))


@dataclass(frozen=True)
class Bucket:
    """Number of sentences with ``first`` to ``last`` tokens; ``last=None``: ``first`` or more tokens."""

    first: int
    last: int | None
    source: int
    target: int


@dataclass(frozen=True)
class BatchStatistics:
    """Sizes of the batches of an epoch."""

    n_batches: int
    median_pairs: int
    """Pairs in the median batch."""
    median_tokens: int
    """Target tokens in the median batch, including eos but not padding."""
    min_tokens: int
    """The same for the smallest batch, not counting the last one."""
    padding: float
    """Share of padding among all source and target positions."""


@dataclass(frozen=True)
class Sample:
    """A pair of the corpus, as text and as subwords."""

    index: int
    source: str
    source_pieces: list[str]
    target: str
    target_pieces: list[str]


def length_histogram(source_lengths: Indices, target_lengths: Indices) -> list[Bucket]:
    """Count source and target sentences by length, in the same buckets.

    All buckets have the same width: the smallest of 1, 2, 5, 10, 20, 50, … tokens for which `N_BUCKETS` buckets cover
    99 % of the sentences on each side. Longer sentences share one further bucket.

    Args:
        source_lengths, target_lengths: number of tokens on each side of the pairs, (n_pairs,) each, at least 1.
    """
    longest = max(int(source_lengths.max()), int(target_lengths.max()))
    to_cover = max(_quantile(side, 0.99) for side in (source_lengths, target_lengths))
    widths = (int(w) for power in itertools.count() for w in np.array([1, 2, 5]) * 10**power)
    width = next(w for w in widths if w * N_BUCKETS >= to_cover)
    n_rows = min(-(-longest // width), N_BUCKETS + 1)
    counts = [
        np.bincount(np.minimum((side - 1) // width, N_BUCKETS), minlength=n_rows)
        for side in (source_lengths, target_lengths)
    ]
    return [
        Bucket(i * width + 1, (i + 1) * width if i < N_BUCKETS else None, int(source), int(target))
        for i, (source, target) in enumerate(zip(*counts, strict=True))
    ]


def batch_statistics(source_lengths: Indices, target_lengths: Indices, batches: Sequence[Indices]) -> BatchStatistics:
    """Compute the sizes of batches as `collate` would build them.

    Args:
        source_lengths, target_lengths: number of tokens on each side of the pairs, (n_pairs,) each, without eos.
        batches: the pairs of each batch, from `token_batches`.
    """
    order, sizes = np.concatenate(batches), np.array([len(batch) for batch in batches])
    starts = np.cumsum(sizes) - sizes
    sides = [side[order] + 1 for side in (source_lengths, target_lengths)]  # with eos
    n_positions = sum(int((np.maximum.reduceat(side, starts) * sizes).sum()) for side in sides)
    tokens = np.add.reduceat(sides[1], starts)
    return BatchStatistics(
        n_batches=len(batches),
        median_pairs=_quantile(sizes, 0.5),
        median_tokens=_quantile(tokens, 0.5),
        min_tokens=int((tokens[:-1] if len(tokens) > 1 else tokens).min()),
        padding=1 - sum(int(side.sum()) for side in sides) / n_positions,
    )


def _quantile(values: Indices, q: float) -> int:
    """The smallest of the values that is at least as large as a share ``q`` of them."""
    return int(np.quantile(values, q, method="inverted_cdf"))


def used_pieces(sequences: Sequences, vocab_size: int) -> NDArray[np.bool_]:
    """Return which pieces of the vocabulary occur, (vocab_size,), bool."""
    used = np.zeros(vocab_size, dtype=np.bool_)
    for start in range(0, len(sequences.ids), CHUNK):
        used[sequences.ids[start : start + CHUNK]] = True
    return used


def draw_samples(
    sources: Sequences, targets: Sequences, tokenizer: Tokenizer, count: int, seed: int = 0
) -> list[Sample]:
    """Draw random pairs, and return them in corpus order.

    Args:
        sources: source ids.
        targets: target ids.
        tokenizer: decodes the ids.
        count: number of pairs; if the corpus has fewer, all of them are returned.
        seed: seed of the random number generator.

    Raises:
        UserError: if ``count`` is negative.
    """
    if count < 0:
        raise UserError(f"the number of samples must not be negative; got {count}")
    indices = sorted(random.Random(seed).sample(range(len(sources)), min(count, len(sources))))

    def text_and_pieces(ids: Sequence[int]) -> tuple[str, list[str]]:
        return tokenizer.decode(ids), tokenizer.pieces(ids)

    return [Sample(i, *text_and_pieces(sources[i].tolist()), *text_and_pieces(targets[i].tolist())) for i in indices]


def corpus_statistics(
    data: PreparedData, config: DataConfig, batch_tokens: int, samples: int = 3, seed: int = 0
) -> Iterator[str]:
    """Yield all statistics as sections of text to print.

    Args:
        data: the data, prepared with ``config``.
        config: the corpus and its settings.
        batch_tokens: batch size in target tokens. Training with gradient accumulation, or on several devices, splits
            each batch into smaller ones.
        samples: number of sample pairs.
        seed: seed for drawing the samples.

    Raises:
        UserError: if the prepared data is damaged, or ``samples`` is negative.
    """
    tokenizer, (sources, targets) = data.tokenizer, data.tokens("train")
    drawn = draw_samples(sources, targets, tokenizer, samples, seed)
    source_lengths, target_lengths = sources.lengths(), targets.lengths()
    languages = config.languages
    yield _corpus_table(data, config)
    if dropped := dropped_pairs(data, config):
        yield f"Pairs dropped from train\n\n{dropped}"
    yield f"Tokens, without bos and eos\n\n{_lengths_table(data, languages)}"
    source_used, target_used = (used_pieces(side, len(tokenizer)) for side in (sources, targets))
    yield _vocabulary_text(source_used, target_used)
    histogram = length_histogram(source_lengths, target_lengths)
    yield f"Training sentences by length\n\n{_histogram_table(histogram, languages)}"
    statistics = batch_statistics(source_lengths, target_lengths, token_batches(sources, targets, batch_tokens))
    yield f"Batches of up to {batch_tokens:,} target tokens, including eos\n\n{_batches_table(statistics)}"
    if drawn:
        yield "Training samples, normalised, with their subwords\n\n" + "\n\n".join(
            _sample_text(sample, languages) for sample in drawn
        )


SYNTHETIC = "synthetic, generated by a program"
"""The description of a corpus without a manifest."""


def _corpus_table(data: PreparedData, config: DataConfig) -> str:
    corpus = find_corpus(config.corpus)
    held_out = set(corpus.splits) - set(corpus.manifest.splits) if isinstance(corpus, FileCorpus) else set()
    manifests = corpus.manifests
    rows = {
        "corpus": corpus.name,
        "description": "; ".join(m.description for m in manifests) if manifests else SYNTHETIC,
        "direction": config.direction.replace("-", " → "),
        "splits": ", ".join(f"{s} (held out of train)" if s in held_out else s for s in corpus.splits),
        "unused": unused_pairs(data),
        "licence": "; ".join(m.licence for m in manifests if m.licence),
        "citation": "; ".join(m.citation for m in manifests if m.citation),
    }
    known = [(name, text) for name, text in rows.items() if text]
    return tabulate(known, tablefmt="plain", maxcolwidths=[None, WIDTH - 13])


def unused_pairs(data: PreparedData) -> str:
    """Describe how many pairs are in no split and why; "" if there are none."""
    reason = f"held out of train, beyond the roughly {MAX_HELD_OUT:,} sentences that a split keeps"
    return f"{data.n_unused:,} pairs that were {reason}" if data.n_unused else ""


def dropped_pairs(data: PreparedData, config: DataConfig) -> str:
    """Describe how many training pairs were dropped and why, with examples; "" if there are none."""
    report = data.cleaning
    sections = [report.table(width=44)] if report.kept < report.seen else []
    if n_dropped := report.kept * config.segmentations - len(data.tokens("train")[0]):
        sections.append(f"Dropped for having no tokens, or more than {config.max_length} on a side: {n_dropped:,}")
    return "\n\n".join(sections)


def _lengths_table(data: PreparedData, languages: Sequence[str]) -> str:
    rows = [
        [f"{split}, {language}", *astuple(LengthStatistics.of(side.lengths()))]
        for split in ("train", "valid")
        for language, side in zip(languages, data.tokens(split), strict=True)
    ]
    headers = ["", "sentences", "tokens", "mean", "median", "95th percentile", "longest"]
    return tabulate(rows, headers, intfmt=",", floatfmt=".1f")


def _vocabulary_text(source: NDArray[np.bool_], target: NDArray[np.bool_]) -> str:
    return (
        f"The vocabulary has {len(source):,} subwords. {(source | target).sum():,} of them occur in train: "
        f"{source.sum():,} in the source,\n{target.sum():,} in the target, {(source & target).sum():,} in both."
    )


def _histogram_table(buckets: Sequence[Bucket], languages: Sequence[str]) -> str:
    highest = max(max(b.source, b.target) for b in buckets)
    rows = [[_range(b), b.source, _bar(b.source / highest), b.target, _bar(b.target / highest)] for b in buckets]
    headers = ["tokens", languages[0], "", languages[1], ""]
    alignment = ("right", "right", "left", "right", "left")
    return tabulate(rows, headers, intfmt=",", colalign=alignment, disable_numparse=[0, 2, 4])


def _range(bucket: Bucket) -> str:
    if bucket.last is None:
        return f"over {bucket.first - 1}"
    return f"{bucket.first}" if bucket.first == bucket.last else f"{bucket.first}–{bucket.last}"


def _bar(share: float) -> str:
    """A bar of ``share * BAR_WIDTH`` columns, rounded to an eighth of a column, but never to none."""
    eighths = max(round(share * BAR_WIDTH * 8), 1) if share else 0
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _batches_table(statistics: BatchStatistics) -> str:
    median, minimum = f"{statistics.median_tokens:,}", f"{statistics.min_tokens:,}"
    rows = [
        ["batches per epoch", f"{statistics.n_batches:,}"],
        ["pairs", f"{statistics.median_pairs:,} in the median batch"],
        ["target tokens", f"{median} in the median batch, {minimum} in the smallest, not counting the last one"],
        ["padding", f"{statistics.padding:.1%} of source and target"],
    ]
    return tabulate(rows, tablefmt="plain")


def _sample_text(sample: Sample, languages: Sequence[str]) -> str:
    sides = ((sample.source, sample.source_pieces), (sample.target, sample.target_pieces))
    indent = " " * (max(map(len, languages)) + 2)
    lines = [f"pair {sample.index + 1:,}"]
    for language, (text, pieces) in zip(languages, sides, strict=True):
        for start, words in ((language.ljust(len(indent)), text), (indent, " ".join(pieces))):
            lines.append(textwrap.fill(printable(words), WIDTH, initial_indent=start, subsequent_indent=indent))
    return "\n".join(lines)
