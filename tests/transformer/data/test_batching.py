import itertools
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from transformer.data import pocket
from transformer.data.batching import (
    MAX_PADDED_RATIO,
    Batch,
    Batches,
    Indices,
    Sequences,
    SequencesWriter,
    collate,
    pad,
    token_batches,
)
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.errors import UserError

Pairs = tuple[Sequences, Sequences]


def of_lengths(lengths: object) -> Sequences:
    """Sequences of the ids 4, 5, 6, ..., so that no two nearby tokens are equal."""
    ends = np.cumsum(np.asarray(lengths, dtype=np.int64))
    return Sequences((4 + np.arange(int(ends[-1]) if len(ends) else 0) % 1000).astype(np.uint16), ends)


@pytest.fixture
def pairs() -> Pairs:
    rng = np.random.default_rng(0)
    sources = rng.integers(1, 30, 300)
    return of_lengths(sources), of_lengths(np.maximum(1, sources + rng.integers(-3, 4, 300)))


LENGTHS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=60)


def both(lengths: list[tuple[int, int]]) -> Pairs:
    return of_lengths([s for s, _ in lengths]), of_lengths([t for _, t in lengths])


def real_tokens(targets: Sequences, batches: list[Indices]) -> Indices:
    """Number of target tokens in each batch, including eos."""
    lengths = targets.lengths() + 1
    return np.array([lengths[batch].sum() for batch in batches])


def padding(pairs: Pairs, batches: list[Indices]) -> float:
    """Share of padding among all source and target positions."""
    cells = sum(len(b) * (s.lengths()[b].max() + 1) for s in map(LengthsOnce, pairs) for b in batches)
    real = sum(len(s.ids) + len(s) for s in pairs)
    return 1 - real / float(cells)


class LengthsOnce:
    """Caches the lengths, so that a test with a million pairs computes them only once."""

    def __init__(self, sequences: Sequences) -> None:
        self.taken = sequences.lengths()

    def lengths(self) -> Indices:
        return self.taken


# The store


def write(folder: Path, *parts: list[list[int]], vocab_size: int = 100) -> None:
    """Write these parts, one after another, as sequences named x."""
    with SequencesWriter(folder, "x", vocab_size) as writer:
        for part in parts:
            writer.extend(part)


@pytest.mark.parametrize(("largest", "dtype"), [(65_535, np.uint16), (65_536, np.int32)])
def test_sequences_survive_the_disk(tmp_path: Path, largest: int, dtype: type) -> None:
    write(tmp_path, [[7, largest], []], [], [[5], [6, 7, 8]], vocab_size=largest + 1)
    loaded = Sequences.load(tmp_path, "x")
    assert [loaded[i].tolist() for i in range(len(loaded))] == [[7, largest], [], [5], [6, 7, 8]]
    assert loaded.lengths().tolist() == [2, 0, 1, 3]
    assert loaded.ids.dtype == dtype and loaded.ends.dtype == np.int64


def test_loading_does_not_read_the_ids(tmp_path: Path) -> None:
    write(tmp_path, [[7, 8], [5]])
    loaded = Sequences.load(tmp_path, "x")
    assert isinstance(loaded.ids.base, np.memmap) and isinstance(loaded.ends.base, np.memmap)


def test_empty_sequences_can_be_stored(tmp_path: Path) -> None:
    write(tmp_path)
    assert len(Sequences.load(tmp_path, "x")) == 0


def damage(kind: str, folder: Path) -> str:
    """Damage one file and return its name."""
    ids, ends = folder / "x.ids.npy", folder / "x.ends.npy"
    if kind == "missing":
        ends.unlink()
    elif kind == "cut off":
        ids.write_bytes(ids.read_bytes()[:-1])
    elif kind == "cut off in the header":
        ends.write_bytes(ends.read_bytes()[:50])
    elif kind == "empty":
        ids.write_bytes(b"")
    elif kind == "something else":
        ends.write_text("no array")
    elif kind == "of another store":
        np.save(ids, np.arange(4, 9, dtype=np.uint16))
    elif kind == "ids without ends":
        np.save(ends, np.array([], dtype=np.int64))
    elif kind == "ids of a wrong type":
        np.save(ids, np.arange(4, 10, dtype=np.float32))
    elif kind == "ends of a wrong type":
        np.save(ends, np.array([2, 6], dtype=np.int32))
    return ends.name if kind in ("missing", "cut off in the header", "something else") else ids.name


@pytest.mark.parametrize(
    "kind",
    [
        "missing",
        "cut off",
        "cut off in the header",
        "empty",
        "something else",
        "of another store",
        "ids without ends",
        "ids of a wrong type",
        "ends of a wrong type",
    ],
)
def test_damaged_sequences_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    write(tmp_path, [[4, 5], [6, 7, 8, 9]])
    name = damage(kind, tmp_path)
    with pytest.raises(UserError, match="prepare the data again") as error:
        Sequences.load(tmp_path, "x")
    assert str(tmp_path / name) in str(error.value)


@given(st.data())
def test_truncated_sequences_are_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("store")
    write(folder, [[4, 5], [6, 7, 8, 9]])
    path = folder / data.draw(st.sampled_from(["x.ids.npy", "x.ends.npy"]))
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(UserError, match=path.name):
        Sequences.load(folder, "x")


# A batch


def test_collate_shifts_the_target_by_one() -> None:
    batch = collate(Sequences.pack([[7], [7, 8]]), Sequences.pack([[5, 6], [9]]), [0, 1])
    assert batch.source.tolist() == [[7, EOS, PAD], [7, 8, EOS]]
    assert batch.decoder_input.tolist() == [[BOS, 5, 6], [BOS, 9, PAD]]
    assert batch.labels.tolist() == [[5, 6, EOS], [9, EOS, PAD]]
    assert batch.n_tokens == 5


def test_collate_keeps_the_order_of_the_indices() -> None:
    packed = Sequences.pack([[4], [5, 6], [], [7, 8, 9]])
    batch = collate(packed, packed, np.array([3, 0, 2]))
    assert batch.source.tolist() == [[7, 8, 9, EOS], [4, EOS, PAD, PAD], [EOS, PAD, PAD, PAD]]
    assert batch.decoder_input.tolist() == [[BOS, 7, 8, 9], [BOS, 4, PAD, PAD], [BOS, PAD, PAD, PAD]]


@given(LENGTHS, st.data())
def test_collate_equals_a_loop_over_the_rows(lengths: list[tuple[int, int]], data: st.DataObject) -> None:
    sources, targets = both(lengths)
    chosen = data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=8))
    batch = collate(sources, targets, chosen)
    by_loop = Batch(
        pad([[*sources[i].tolist(), EOS] for i in chosen]),
        pad([[BOS, *targets[i].tolist()] for i in chosen]),
        pad([[*targets[i].tolist(), EOS] for i in chosen]),
    )
    for fast, slow in zip(astuple(batch), astuple(by_loop), strict=True):
        assert fast.equal(slow)
    assert batch.n_tokens == by_loop.n_tokens


# All batches of an epoch


@given(LENGTHS, st.integers(1, 200), st.none() | st.integers(0, 9), st.integers(1, 5))
def test_every_pair_once_in_batches_within_the_budget(
    lengths: list[tuple[int, int]], budget: int, seed: int | None, world_size: int
) -> None:
    pairs = both(lengths)
    try:
        batches = token_batches(*pairs, budget, seed, world_size)
    except UserError:  # only if no batch can be halved
        assert len(lengths) % world_size
        return
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert len(batches) % world_size == 0
    for indices in batches:
        batch = collate(*pairs, indices)
        sides = max(batch.source.numel(), batch.labels.numel())
        assert len(indices) == 1 or (batch.n_tokens <= budget and sides <= MAX_PADDED_RATIO * budget)


@given(LENGTHS, st.integers(1, 200))
def test_no_batch_ends_before_it_is_full(lengths: list[tuple[int, int]], budget: int) -> None:
    pairs = both(lengths)
    for indices, following in itertools.pairwise(token_batches(*pairs, budget)):
        larger = collate(*pairs, [*indices, following[0]])
        assert larger.n_tokens > budget or max(larger.source.numel(), larger.labels.numel()) > MAX_PADDED_RATIO * budget


@pytest.mark.parametrize(("budget", "rows"), [(19, [1] * 3), (20, [2, 1]), (29, [2, 1]), (30, [3])])
def test_the_limit_of_a_padded_side_counts_eos_and_may_be_reached(budget: int, rows: list[int]) -> None:
    """With eos, each source has 15 tokens, and 20 target tokens per batch allow 30 positions."""
    pairs = of_lengths([14] * 3), of_lengths([1] * 3)
    assert [len(indices) for indices in token_batches(*pairs, budget)] == rows


@pytest.mark.parametrize(("budget", "rows"), [(9, [1] * 4), (10, [2, 2]), (14, [2, 2]), (15, [3, 1]), (20, [4])])
def test_the_budget_counts_eos_and_may_be_reached(budget: int, rows: list[int]) -> None:
    fours = of_lengths([4, 4, 4, 4])
    assert [len(batch) for batch in token_batches(fours, fours, budget)] == rows


def test_a_pair_over_budget_has_a_batch_of_its_own() -> None:
    long = of_lengths([50, 1, 1])
    assert [b.tolist() for b in token_batches(long, long, max_tokens=10)] == [[1, 2], [0]]


def test_neighbouring_pairs_have_similar_lengths_on_both_sides() -> None:
    """If source lengths ascended in every bucket, they would drop from 39 to 1 at each of the 9 bucket boundaries."""
    grid = np.array(list(itertools.product(range(1, 40), range(1, 40))))
    order = np.concatenate(token_batches(of_lengths(grid[:, 0]), of_lengths(grid[:, 1]), 100))
    assert np.abs(np.diff(grid[order, 0])).max() <= 1
    assert np.abs(np.diff(grid[order, 1])).max() <= 7


def test_different_numbers_of_sources_and_targets_are_refused() -> None:
    with pytest.raises(UserError, match="2 sources but 1 targets"):
        token_batches(of_lengths([1, 2]), of_lengths([1]), 10)


def translations(count: int) -> Pairs:
    """Lengths as in English and German subwords: 26 ± 13 tokens, with a length ratio of 1 ± 0.2."""
    rng = np.random.default_rng(1)
    sources = rng.gamma(4.2, 6.2, count).round()
    targets = (sources * np.exp(rng.normal(0.05, 0.22, count)) + rng.normal(0, 1, count)).round()
    return of_lengths(sources.clip(2, 150)), of_lengths(targets.clip(2, 150))


def pocket_pairs(repeat: int) -> Pairs:
    words = [(len(p.source.split()), len(p.target.split())) for p in pocket.pairs("train", 10_000)]
    return both(words * repeat)


@pytest.mark.parametrize(
    ("corpus", "size", "budget", "most_padding"),
    [
        (translations, 1_000_000, 25_000, 0.02),
        (pocket_pairs, 100, 25_000, 0.02),
        (translations, 30_000, 4_000, 0.08),
        (translations, 30_000, 1_500, 0.08),
        (pocket_pairs, 1, 250, 0.02),
    ],
    ids=["a million", "a million from pocket", "30,000 at 4,000", "30,000 at 1,500", "the pocket recipe"],
)
def test_little_padding_and_batches_of_similar_size(
    corpus: Callable[[int], Pairs], size: int, budget: int, most_padding: float
) -> None:
    pairs = corpus(size)
    for seed in (None, 1, 2):
        batches = token_batches(*pairs, budget, seed)
        assert padding(pairs, batches) <= most_padding
        sizes = real_tokens(pairs[1], batches) / budget
        assert sizes.max() <= 1
        assert (sizes > 0.9).mean() > 0.94
        assert sizes.std() / sizes.mean() < 0.1


# Epochs, ranks and resuming


@given(LENGTHS, st.integers(20, 200), st.integers(0, 9), st.integers(1, 4))
def test_ranks_share_an_epoch_in_equally_many_steps(
    lengths: list[tuple[int, int]], budget: int, seed: int, world_size: int
) -> None:
    assume(len(lengths) % world_size == 0)  # then halving always succeeds
    feeds = [Batches(*both(lengths), budget, seed, rank, world_size) for rank in range(world_size)]
    assert len({len(feed.plan) for feed in feeds}) == 1
    seen = np.concatenate([indices for feed in feeds for indices in feed.plan])
    assert sorted(seen.tolist()) == list(range(len(lengths)))


def test_few_batches_are_halved_to_divide_them_among_ranks(pairs: Pairs) -> None:
    alone, shared = token_batches(*pairs, 200, seed=1), token_batches(*pairs, 200, seed=1, divisible_by=8)
    assert len(alone) % 8 and len(shared) % 8 == 0 and len(shared) - len(alone) < 8
    whole = {tuple(batch) for batch in alone} & {tuple(batch) for batch in shared}
    assert len(alone) - len(whole) <= len(shared) - len(alone)


def test_too_few_pairs_for_the_ranks_is_an_error() -> None:
    with pytest.raises(UserError, match=r"only 2 sentence pairs.* multiple of 3 batches"):
        Batches(of_lengths([1, 1]), of_lengths([1, 1]), 10, seed=1, world_size=3)
    with pytest.raises(UserError, match="no sentence pairs"):
        Batches(of_lengths([]), of_lengths([]), 10, seed=1)


def stream(pairs: Pairs, count: int, seed: int = 1, **where: int) -> list[list[list[int]]]:
    batches = itertools.islice(Batches(*pairs, 400, seed, **where), count)
    return [b.labels.tolist() for b in batches]


@pytest.mark.parametrize("world_size", [1, 3])
def test_starting_at_a_batch_skips_the_earlier_ones(pairs: Pairs, world_size: int) -> None:
    whole = stream(pairs, 40, rank=world_size - 1, world_size=world_size)
    feed = Batches(*pairs, 400, 1, world_size - 1, world_size)
    for done in range(39):
        rest = stream(
            pairs, 40 - done, rank=world_size - 1, world_size=world_size, epoch=feed.epoch, batch_index=feed.batch_index
        )
        assert rest == whole[done:]
        next(feed)
    assert feed.epoch > 1  # the test covers several epochs


def test_epochs_differ_and_are_reproducible(pairs: Pairs) -> None:
    def rows(epoch: int, seed: int = 1) -> list[list[int]]:
        return [batch.tolist() for batch in Batches(*pairs, 400, seed, epoch=epoch).plan]

    assert rows(0) == rows(0) and rows(5) == rows(5)
    assert rows(0) != rows(1) != rows(2)
    assert rows(1, seed=1) != rows(0, seed=2)  # seed + 1 is not the same as epoch + 1


def test_epochs_follow_each_other_completely(pairs: Pairs) -> None:
    planned = [plan for e in range(3) for plan in Batches(*pairs, 400, 1, epoch=e).plan]
    expected = [collate(*pairs, indices).labels.tolist() for indices in planned]
    assert stream(pairs, len(planned)) == expected


def test_batches_are_not_ordered_by_length(pairs: Pairs) -> None:
    widths = [batch.labels.shape[1] for batch in itertools.islice(Batches(*pairs, 200, 1), 20)]
    assert widths != sorted(widths) and abs(np.diff(widths)).max() > 8


def test_pairs_of_equal_lengths_are_shuffled() -> None:
    equal = of_lengths([4] * 40)
    first, second = ({frozenset(b.tolist()) for b in Batches(equal, equal, 20, 1, epoch=e).plan} for e in (0, 1))
    assert not first & second


def test_batches_have_other_members_in_another_epoch() -> None:
    """Not only the order of batches changes but also their contents, even if few pairs have equal lengths."""
    pairs = translations(2_000)
    first, *others = ({frozenset(b.tolist()) for b in Batches(*pairs, 1_000, 1, epoch=e).plan} for e in range(17))
    again = [len(first & other) / len(first) for other in others]
    assert sum(again) / len(again) < 0.3 and sum(share < 0.1 for share in again) > len(again) / 2


def test_no_seed_is_no_shuffling(pairs: Pairs) -> None:
    first, again = (np.concatenate(token_batches(*pairs, 200)) for _ in range(2))
    assert first.tolist() == again.tolist()
    assert (np.diff(pairs[1].lengths()[first]) >= -6).all()


@given(LENGTHS, st.integers(1, 60), st.integers(0, 3))
def test_no_batch_of_any_epoch_is_larger_than_the_largest(
    lengths: list[tuple[int, int]], budget: int, epoch: int
) -> None:
    batches = Batches(*both(lengths), budget, 1, epoch=epoch)
    largest = batches.largest()
    assert largest.n_tokens == largest.source.numel() == largest.labels.numel(), "no padding"
    for batch in itertools.islice(batches, len(batches.plan)):
        assert max(batch.source.numel(), batch.labels.numel()) <= largest.source.numel()
