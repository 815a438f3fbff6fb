"""Text in, text out: what the translator adds to the searches."""

import pytest
import torch

from transformer.config import PRESETS
from transformer.data.tokenizer import EOS, Tokenizer
from transformer.decoding import beam_search
from transformer.device import Device, choose_device
from transformer.errors import UserError
from transformer.model import ModelConfig, Transformer
from transformer.training.memory import peak_memory
from transformer.translator import Translator, batch_size, decoding_bytes, search_errors_as_user_errors

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
    translator.model.unembedding.weight.data[7] = torch.nan
    with pytest.raises(UserError, match="NaN"):
        translator.beam_search(SENTENCES)
    assert translator.model.training is training, "after an exception too"


def test_wrong_arguments_of_a_search_are_rejected(translator: Translator) -> None:
    for search in (translator.beam_search, translator.translate_all):
        with pytest.raises(ValueError, match="beam_size must be at least 1; got 0"):
            search(SENTENCES, beam_size=0)


def test_a_batch_on_a_gpu_fits_into_half_of_its_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10 GB, 3 GB are taken by other programs, and 1 GB by tensors; PyTorch has reserved another 2 GB."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (4 * 10**9, 10**10))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 3 * 10**9)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 10**9)
    config, gpu = PRESETS["base"], Device(torch.device("cuda"))
    assert batch_size(config, choose_device("cpu"), longest=10, beam_size=4) == 4096 // 40
    assert batch_size(config, gpu, longest=10, beam_size=4) == 3 * 10**9 // decoding_bytes(config, 10, 4)
    assert batch_size(config, gpu, longest=10**9, beam_size=4) == 1


@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_memory_of_a_search_is_not_underestimated(beam_size: int) -> None:
    """Longest possible translations; the real need is at least a third of the estimate, so that memory isn't wasted."""
    model = Transformer(ModelConfig(8000, 128, 4, 256, 3, max_length=256)).eval()
    model.unembedding.weight.data[EOS] = 0  # never the best of 8,000 random logits
    source = torch.randint(4, 8000, (32, 40))
    used = peak_memory(lambda: beam_search(model, source, beam_size), choose_device("cpu"))
    assert decoding_bytes(model.config, 40, beam_size) / 3 < used / 32 < decoding_bytes(model.config, 40, beam_size)


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
