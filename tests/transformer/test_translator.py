"""Text in, text out: what the translator adds to the searches."""

import pytest
import torch

from transformer.config import PRESETS, ModelConfig
from transformer.data.tokenizer import EOS, Tokenizer
from transformer.decoding import beam_search
from transformer.device import Device, choose_device
from transformer.errors import UserError
from transformer.model import Transformer
from transformer.models import load_model
from transformer.training.memory import peak_memory
from transformer.translator import Translator, decoding_batch_size, decoding_bytes

SENTENCES = ["a b c", "d e f g a", "b"]


@pytest.fixture
def translator() -> Translator:
    tokenizer = Tokenizer.train(["a b c d e f g"] * 9, 12)
    model = Transformer(ModelConfig(12, 32, 4, 64, 1, max_length=16))
    model.unembedding.weight.data *= 4
    return Translator(model, tokenizer)


def test_results_are_in_the_order_of_the_sentences() -> None:
    """Batches are not: the longest sentences come first."""
    translator = load_model("pocket-small", "cpu")
    sentences = ["The dog sleeps.", "The old woman does not open the kitchen window.", "A cat sees the house."]
    alone = [translator.greedy_search([sentence])[0] for sentence in sentences]
    assert len(set(alone)) == 3
    assert translator.greedy_search(sentences) == alone
    assert translator.translate_test_set(sentences, beam_size=1, length_penalty=0.0).texts == alone


def test_a_batch_is_no_larger_than_its_longest_sentence_allows(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = []

    def record(model: Transformer, source: torch.Tensor, limit: int | None) -> list[list[int]]:
        shapes.append(source.shape)
        return [[] for _ in source]

    monkeypatch.setattr("transformer.translator.greedy_search", record)
    translator.greedy_search(["a"] * 1000 + ["a b c d e f"] * 100)
    assert sum(rows for rows, _ in shapes) == 1100 and len(shapes) < 4
    assert max(rows * length for rows, length in shapes) <= 4096


def test_only_sentences_that_are_too_long_are_truncated(translator: Translator) -> None:
    longest, too_long = "abcdefgabcdefg", "abcdefgabcdefga"
    assert [len(translator.tokenizer.encode(text)) for text in (longest, too_long)] == [15, 16]
    assert translator.translate_test_set([longest, too_long, ""]).truncated == 1


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
    for search in (translator.beam_search, translator.translate_test_set):
        with pytest.raises(UserError, match="beam_size must be at least 1; got 0"):
            search(SENTENCES, beam_size=0)


def test_what_is_not_a_list_of_sentences_is_refused(translator: Translator) -> None:
    for search in (translator.beam_search, translator.greedy_search, translator.translate_test_set):
        with pytest.raises(UserError, match="expected a list of sentences; got a string"):
            search("a b c")
    with pytest.raises(UserError, match="translate expects a string; got "):
        translator.translate(["a b c"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"beam_size": 10**12},
            "needs .* with beam_size 1000000000000, but only .* is free: use a smaller beam_size",
        ),
        ({"length_penalty": 1e308}, "length_penalty must be from 0 to 10; got 1e"),
        ({"length_penalty": float("nan")}, "length_penalty must be from 0 to 10; got nan"),
    ],
)
def test_sizes_that_cannot_be_are_refused(translator: Translator, settings: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        translator.beam_search(SENTENCES, **settings)
    assert translator.beam_search(SENTENCES, max_new_tokens=10**30) == translator.beam_search(SENTENCES)


def test_the_device_may_be_named(translator: Translator) -> None:
    assert Translator(translator.model, translator.tokenizer, "cpu").device.type == "cpu"


def test_a_sentence_that_is_not_a_string_is_refused(translator: Translator) -> None:
    for search in (translator.beam_search, translator.greedy_search, translator.translate_test_set):
        with pytest.raises(UserError, match="a sentence must be a string; got None"):
            search(["a", None])


def test_greedy_search_reports_a_model_that_outputs_nan(translator: Translator) -> None:
    translator.model.unembedding.weight.data[7] = torch.nan
    with pytest.raises(UserError, match="NaN"):
        translator.greedy_search(SENTENCES)


def test_a_batch_on_a_gpu_fits_into_half_of_its_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10 GB, 3 GB are taken by other programs, and 1 GB by tensors; PyTorch has reserved another 2 GB."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (4 * 10**9, 10**10))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 3 * 10**9)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 10**9)
    config, gpu = PRESETS["base"], Device(torch.device("cuda"))
    assert decoding_batch_size(config, choose_device("cpu"), source_length=10, beam_size=4) == 4096 // 40
    assert decoding_batch_size(config, gpu, source_length=10, beam_size=4) == 3 * 10**9 // decoding_bytes(config, 10, 4)
    assert decoding_batch_size(config, gpu, source_length=10**9, beam_size=4) == 1
    short, long = (decoding_batch_size(config, gpu, 10, 4, max_new_tokens=n) for n in (60, 500))
    assert short == decoding_batch_size(config, gpu, 10, 4)  # that allows 10 + 50 tokens
    assert long < short / 5


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
    assert translator.translate_test_set(SENTENCES, max_new_tokens=3).texts == [best.text for (best,) in limited]
    assert translator.greedy_search(SENTENCES, max_new_tokens=1) == [""] * 3
    for translate in (translator.greedy_search, translator.beam_search, translator.translate_test_set):
        with pytest.raises(UserError, match="max_new_tokens must be at least 1; got 0"):
            translate(SENTENCES, max_new_tokens=0)
        with pytest.raises(UserError, match="max_new_tokens must be a whole number; got '5'"):
            translate(SENTENCES, max_new_tokens="5")  # type: ignore[arg-type]


def test_one_sentence_is_translated_as_by_beam_search(translator: Translator) -> None:
    ((best,),) = translator.beam_search(["a b c"], 3, 1.0, max_new_tokens=5)
    assert translator.translate("a b c", 3, 1.0, 5) == best.text
    assert translator.translate("a b c") == translator.translate_test_set(["a b c"]).texts[0]
    with pytest.raises(UserError, match="the sentence is empty"):
        translator.translate(" ")


def test_a_lack_of_memory_is_explained(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(translator.model, "encode", fail)
    for translate in (translator.greedy_search, translator.beam_search, translator.translate_test_set):
        with pytest.raises(UserError, match=r"out of memory: try a smaller beam size or shorter sentences \(CUDA"):
            translate(SENTENCES)
