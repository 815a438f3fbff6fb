"""Fixtures that several tests of the package share."""

import io

import pytest
import torch
from torch import Tensor

from transformer.config import ModelConfig
from transformer.model import Transformer


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Seed the random numbers of every test."""
    torch.manual_seed(0)


@pytest.fixture
def tiny() -> Transformer:
    """A small model in eval mode, with logits sharp enough that searches differ."""
    model = Transformer(ModelConfig(vocab_size=40, d_model=32, n_heads=4, d_ff=64, n_layers=2, max_length=80)).eval()
    model.unembedding.weight.data *= 4
    return model


class Terminal(io.StringIO):
    """A text stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal() -> io.StringIO:
    """A terminal, which a test can put in the place of stderr."""
    return Terminal()


@pytest.fixture
def source() -> Tensor:
    """Six source sentences of different lengths, padded with 0: (6, 9)."""
    ids = torch.randint(4, 40, (6, 9))
    for row, length in enumerate([9, 7, 5, 9, 3, 1]):
        ids[row, length:] = 0
    return ids
