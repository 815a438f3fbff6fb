"""The embedded corpus."""

from __future__ import annotations

import pytest

from transformer import pocket


def test_unknown_split() -> None:
    with pytest.raises(ValueError, match="unknown split"):
        pocket.pairs("dev", 1)  # type: ignore[arg-type]


def test_splits_are_disjoint_and_deterministic() -> None:
    train, valid, test = ({p.source for p in pocket.pairs(s, 1000)} for s in ("train", "valid", "test"))
    assert len(train) == len(valid) == len(test) == 1000
    assert not train & valid and not train & test and not valid & test
    assert pocket.pairs("test", 50) == pocket.pairs("test", 100)[:50]
