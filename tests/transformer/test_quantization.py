"""Linear layers in int8: exact products of rounded numbers, on every CPU, and translations that stay nearly as good."""

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import transformer
from transformer import quantization
from transformer.checkpoint import save_checkpoint
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.prepare import PreparedData
from transformer.device import choose_device
from transformer.errors import UserError
from transformer.huggingface import to_marian
from transformer.interactive.widgets import model_files
from transformer.model import Transformer
from transformer.quantization import (
    LARGEST,
    LARGEST_WEIGHT,
    Int8Weight,
    int8_linear,
    quantize_linear_layers,
    quantize_rows,
)
from transformer.training.distributed import DistributedContext
from transformer.training.trainer import Trainer
from transformer.translator import Translator

CAPTIONS = Path(__file__).parent / "captions.tsv"


def test_a_small_example() -> None:
    integers, scales = quantize_rows(torch.tensor([[1.0, -0.5, 0.26], [0.0, 0.0, 0.0], [-8.0, 2.0, 4.0]]), largest=4)
    assert integers.tolist() == [[4, -2, 1], [0, 0, 0], [-4, 1, 2]] and integers.dtype == torch.int8
    assert scales.tolist() == [[0.25], [0.0], [2.0]]


@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 40), st.sampled_from([63, 127]))
def test_no_number_is_off_by_more_than_half_a_scale(seed: int, rows: int, columns: int, largest: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, columns, generator=generator) * 10 ** torch.randn(rows, 1, generator=generator)
    integers, scales = quantize_rows(x, largest)
    assert int(integers.abs().max()) <= largest
    assert bool(((integers * scales - x).abs() <= 0.501 * scales).all())


@pytest.fixture(params=[True, False], ids=["VNNI", "no VNNI"])
def with_vnni(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Compute as on a CPU with and without instructions for products of int8."""
    monkeypatch.setattr(quantization, "has_int8_instructions", lambda: request.param)
    return bool(request.param)


def exact(x: Tensor, weight: Int8Weight) -> Tensor:
    """What `int8_linear` has to compute without a bias, in int64 and float64."""
    integers, scales = quantize_rows(x.flatten(0, -2))
    products = (integers.long() @ weight.integers.long().T).double()
    return (products * scales.double() * weight.scales.double().T).view(*x.shape[:-1], len(weight.integers))


@pytest.mark.parametrize("shape", [(1, 64), (3, 5, 32), (2, 1, 100), (0, 5, 32)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_a_linear_layer_multiplies_integers_exactly(shape: tuple[int, ...], has_bias: bool, with_vnni: bool) -> None:
    torch.manual_seed(0)
    x, bias = torch.randn(shape), torch.randn(24) if has_bias else None
    weight = Int8Weight.quantize(torch.randn(24, shape[-1]))
    assert weight.integers.dtype == (torch.int8 if with_vnni else torch.float32)
    expected = exact(x, weight) + (0 if bias is None else bias)
    torch.testing.assert_close(int8_linear(x, weight, bias).double(), expected, atol=1e-5, rtol=1e-5)
    y = torch.nn.functional.linear(x, weight, bias)  # type: ignore[arg-type]
    torch.testing.assert_close(y.double(), expected, atol=1e-5, rtol=1e-5)


def test_some_rows_of_a_weight_are_those_outputs() -> None:
    torch.manual_seed(0)
    x, bias = torch.randn(4, 16), torch.randn(12)
    weight = Int8Weight(*quantize_rows(torch.randn(12, 16), LARGEST_WEIGHT))
    whole = int8_linear(x, weight, bias)
    for rows in (slice(None, 4), slice(4, None)):
        torch.testing.assert_close(int8_linear(x, weight[rows], bias[rows]), whole[:, rows])


def test_without_vnni_the_product_is_not_rounded_either() -> None:
    """The largest sums that float32 represents exactly: 2,096 products of the largest numbers."""
    weight = torch.full((3, 2096), LARGEST_WEIGHT)
    weight[0, 0] -= 1
    x = torch.ones(2, 2096)
    results = [int8_linear(x, Int8Weight(weight.to(dtype), torch.ones(3, 1))) for dtype in (torch.int8, torch.float32)]
    torch.testing.assert_close(results[0], results[1], atol=0, rtol=0)
    assert results[0][0, 1] - results[0][0, 0] == 1
    assert LARGEST * LARGEST_WEIGHT * 2096 < 2**24 < LARGEST * LARGEST_WEIGHT * 2097


LARGEST_PRODUCTS = """
import torch
from transformer.quantization import LARGEST, LARGEST_WEIGHT, Int8Weight, int8_linear
for sign in (1, -1):
    integers = torch.full((40, 512), sign * LARGEST_WEIGHT, dtype=torch.int8)
    y = int8_linear(torch.ones(64, 512), Int8Weight(integers, torch.full((40, 1), 1 / LARGEST_WEIGHT)))
    assert torch.allclose(y, torch.full((64, 40), sign * 512.0)), y
"""


@pytest.mark.parametrize("instructions", ["DEFAULT", "AVX512_CORE", "AVX2", "SSE41"])
def test_the_largest_products_do_not_overflow_without_newer_instructions(instructions: str) -> None:
    if instructions != "DEFAULT" and platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("these are instructions of x86 CPUs")
    limit = {"ONEDNN_MAX_CPU_ISA": instructions}  # of oneDNN, with which PyTorch multiplies integers
    done = subprocess.run(
        [sys.executable, "-c", LARGEST_PRODUCTS], env=os.environ | limit, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_not_a_number_is_not_hidden() -> None:
    weight = Int8Weight(*quantize_rows(torch.ones(3, 4), LARGEST_WEIGHT))
    for wrong in (torch.nan, torch.inf):
        y = int8_linear(torch.tensor([[1.0, wrong, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]), weight)
        assert bool(y[0].isnan().all()) and torch.allclose(y[1], torch.full((3,), 4.0))


def test_nothing_but_a_linear_layer_computes_with_such_a_weight() -> None:
    weight: Any = Int8Weight(*quantize_rows(torch.ones(3, 4)))
    with pytest.raises(TypeError, match="Int8Weight"):
        torch.relu(weight)


@pytest.mark.parametrize("settings", [{}, {"tie_embeddings": "none", "norm": "post", "positions": "rotary"}])
def test_every_linear_layer_of_a_copy_is_in_int8(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    config = ModelConfig(vocab_size=50, d_model=32, n_heads=4, d_ff=64, n_layers=2, **settings)
    model = Transformer(config).eval()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    copy = quantize_linear_layers(model)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert torch.equal(copy.source_embedding.weight, model.source_embedding.weight)

    shapes: list[tuple[int, ...]] = []

    def counted(x: Tensor, weight: Int8Weight, bias: Tensor | None = None) -> Tensor:
        shapes.append(tuple(weight.integers.shape))
        return int8_linear(x, weight, bias)

    monkeypatch.setattr(quantization, "int8_linear", counted)
    source, target = torch.randint(4, 50, (2, 3, 7))
    with torch.inference_mode():
        logits, expected = copy(source, target), model(source, target)
    assert 0 < (logits - expected).abs().max() < 0.1 * expected.std()
    self_attention, feed_forward = [(96, 32), (32, 32)], [(64, 32), (32, 64)]
    cross_attention = [(32, 32), (64, 32), (32, 32)]  # queries; keys and values; output
    decoder_layer = [*self_attention, *cross_attention, *feed_forward]
    assert shapes == [*(self_attention + feed_forward) * 2, *decoder_layer * 2, (50, 32)]


def test_nearly_all_translations_stay_the_same() -> None:
    captions = [line.split("\t")[0] for line in CAPTIONS.read_text("utf-8").splitlines()]
    texts = []
    for precision in ("fp32", "int8"):
        translator = transformer.load("multi30k", "cpu", precision)
        assert translator.device.precision == precision and str(translator.device).startswith(f"cpu in {precision}")
        texts.append(translator.translate_test_set(captions).texts)
    same = sum(a == b for a, b in zip(*texts, strict=True))
    assert 0.9 * len(captions) <= same, "the results page has the BLEU of whole test sets"


def test_a_translator_leaves_the_model_that_it_is_given_in_float() -> None:
    translator = transformer.load("pocket-small", "cpu", "fp32")
    quantized = Translator(translator.model, translator.tokenizer, choose_device("cpu", "int8"))
    assert quantized.model is not translator.model
    assert isinstance(quantized.model.unembedding.weight, Int8Weight)
    assert isinstance(translator.model.unembedding.weight, Tensor)


def test_int8_is_for_translation_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    translator, device = transformer.load("pocket-small", "cpu", "int8"), choose_device("cpu", "int8")
    with pytest.raises(UserError, match="int8 is for translation: train in another precision"):
        Trainer(translator.model.config, TrainingConfig(), PreparedData(Path()), device, DistributedContext())
    with pytest.raises(UserError, match="load the model with precision fp32, not int8"):
        model_files(translator)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(UserError, match="int8 is for the CPU; choose device cpu"):
        choose_device("auto", "int8")
    assert choose_device("cpu", "int8").precision == "int8"


def test_a_quantized_model_is_neither_saved_nor_converted(tiny: Transformer, tmp_path: Path) -> None:
    """Its linear layers' weights are not among its parameters, so the result would lack them."""
    quantized = quantize_linear_layers(tiny)
    with pytest.raises(UserError, match="rounded to int8: load it with precision fp32"):
        save_checkpoint(tmp_path, "best", quantized, {})
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match="rounded to int8"):
        quantize_linear_layers(quantized)
    pytest.importorskip("transformers", reason="pip install 'transformer-course[bench]'")
    with pytest.raises(UserError, match="rounded to int8"):
        to_marian(quantized)


@pytest.mark.parametrize("has_vnni", [True, False])
def test_the_device_says_if_int8_is_not_faster(has_vnni: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformer.device.has_int8_instructions", lambda: has_vnni)
    assert (
        "not faster than fp32, because this CPU has no AVX512-VNNI" in choose_device("cpu", "int8").reason
    ) != has_vnni
    assert "VNNI" not in choose_device("cpu", "fp32").reason
