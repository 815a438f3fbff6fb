"""Text in, text out: what the translator adds to the searches."""

import pytest
import torch

from transformer.data.tokenizer import Tokenizer
from transformer.errors import UserError
from transformer.model import ModelConfig, Transformer
from transformer.translator import Translator, search_errors_as_user_errors

SENTENCES = ["a b c", "d e f g a", "b"]


@pytest.fixture
def translator() -> Translator:
    tokenizer = Tokenizer.train(["a b c d e f g"] * 9, 12)
    model = Transformer(ModelConfig(12, 32, 4, 64, 1, max_length=16))
    model.unembedding.weight.data *= 4
    return Translator(model, tokenizer)


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_of_the_model_is_the_same_afterwards(translator: Translator, training: bool) -> None:
    translator.model.train(training)
    translator.greedy_search(SENTENCES)
    assert translator.model.training is training
    with pytest.raises(ValueError, match="beam_size"):
        translator.beam_search(SENTENCES, beam_size=0)
    assert translator.model.training is training, "after an exception too"


def test_max_new_tokens_limits_every_translation(translator: Translator) -> None:
    longest = max(translator.beam_search(SENTENCES), key=lambda best: len(best[0].hypothesis.tokens))
    assert len(longest[0].hypothesis.tokens) > 2
    limited = translator.beam_search(SENTENCES, max_new_tokens=3)
    assert all(len(best.hypothesis.tokens) <= 2 for (best,) in limited)
    assert translator.translate_all(SENTENCES, max_new_tokens=3).texts == [best.text for (best,) in limited]
    assert translator.greedy_search(SENTENCES, max_new_tokens=1) == [""] * 3
    for translate in (translator.greedy_search, translator.beam_search, translator.translate_all):
        with pytest.raises(ValueError, match="max_new_tokens must be at least 1; got 0"):
            translate(SENTENCES, max_new_tokens=0)


def test_only_errors_that_a_user_can_correct_become_user_errors() -> None:
    for error in (
        ValueError("beam_size must be at least 1"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."),
        torch.OutOfMemoryError("CUDA out of memory"),
    ):
        with pytest.raises(UserError), search_errors_as_user_errors():
            raise error
    for message in ("shapes do not match", "CUDA error: an illegal memory access was encountered"):
        with pytest.raises(RuntimeError, match=message), search_errors_as_user_errors():
            raise RuntimeError(message)
