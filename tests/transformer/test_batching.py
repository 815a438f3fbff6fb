import numpy as np
import pytest

from transformer.batching import Sequences, collate, token_batches
from transformer.tokenizer import BOS, EOS, PAD


@pytest.fixture
def pairs() -> tuple[Sequences, Sequences]:
    rng = np.random.default_rng(0)
    sources = [[4] * n for n in rng.integers(1, 30, 300)]
    targets = [[5] * max(1, len(s) + d) for s, d in zip(sources, rng.integers(-3, 4, 300), strict=True)]
    return Sequences.pack(sources), Sequences.pack(targets)


def test_sequences_survive_the_disk(tmp_path, pairs) -> None:  # type: ignore[no-untyped-def]
    pairs[0].save(tmp_path, "x")
    loaded = Sequences.load(tmp_path, "x")
    assert len(loaded) == 300
    assert all(loaded[i].tolist() == pairs[0][i].tolist() for i in range(300))


def test_collate_shifts_the_target_by_one() -> None:
    batch = collate(Sequences.pack([[7], [7, 8]]), Sequences.pack([[5, 6], [9]]), [0, 1])
    assert batch.source.tolist() == [[7, EOS, PAD], [7, 8, EOS]]
    assert batch.decoder_input.tolist() == [[BOS, 5, 6], [BOS, 9, PAD]]
    assert batch.expected.tolist() == [[5, 6, EOS], [9, EOS, PAD]]
    assert batch.n_tokens == 5


def test_every_pair_once_and_no_batch_over_budget(pairs: tuple[Sequences, Sequences]) -> None:
    batches = token_batches(*pairs, batch_tokens=200, seed=3)
    assert sorted(np.concatenate(batches).tolist()) == list(range(300))
    for indices in batches:
        batch = collate(*pairs, indices)
        assert batch.source.numel() <= 200 and batch.expected.numel() <= 200


def test_a_seed_is_an_order(pairs: tuple[Sequences, Sequences]) -> None:
    def order(seed: int | None) -> list[int]:
        return np.concatenate(token_batches(*pairs, 200, seed)).tolist()  # type: ignore[no-any-return]

    assert order(1) == order(1) != order(2)
    lengths = pairs[1].lengths()[order(None)]
    assert (np.diff(lengths) >= 0).all()


def test_little_is_padding(pairs: tuple[Sequences, Sequences]) -> None:
    batches = [collate(*pairs, indices) for indices in token_batches(*pairs, 400)]
    cells = sum(b.expected.numel() for b in batches)
    assert sum(b.n_tokens for b in batches) / cells > 0.9


def test_a_pair_over_budget_has_a_batch_of_its_own() -> None:
    long = Sequences.pack([[4] * 50, [4], [4]])
    assert [b.tolist() for b in token_batches(long, long, batch_tokens=10)] == [[1, 2], [0]]
