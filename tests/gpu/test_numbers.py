"""Every way to compute something gives the same numbers as float64 on the CPU, up to the precision of the dtype."""

import copy
import shutil
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import transformer
from transformer.attention import attention, fused_attention
from transformer.config import ModelConfig, Norm
from transformer.data.batching import Batch, Batches
from transformer.data.prepare import PreparedData
from transformer.device import DeviceName, Precision, choose_device, linear_in_float32
from transformer.masks import causal_mask, padding_mask
from transformer.model import Transformer
from transformer.training.objective import ModelWithLoss

pytestmark = pytest.mark.filterwarnings("default")  # another machine may warn of other things

BACKENDS = {
    "chosen by PyTorch": None,
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
}
ERRORS = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""How far an output may be from float64, relative to the largest; TF32 would exceed the first."""
PRECISIONS: list[tuple[Precision, float]] = [("fp32", 1e-4), ("bf16", 0.05), ("fp16", 0.01)]
"""And how far a gradient of the model, by its norm."""


def distance(result: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the largest number."""
    return float((result.cpu().double() - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("dtype", ERRORS, ids=str)
@pytest.mark.parametrize("mask", ["none", "padding", "causal", "is_causal"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_attention(backend: str, mask: str, dtype: torch.dtype, name: DeviceName) -> None:
    """Output and gradients of fused attention, with each of PyTorch's implementations."""
    device = choose_device(name, "fp32").torch_device
    ids = (torch.arange(40) < torch.tensor([40, 23, 7])[:, None]).long()
    masks = {"none": None, "padding": padding_mask(ids, 0), "causal": causal_mask(40), "is_causal": causal_mask(40)}
    exact = torch.randn(3, 3, 4, 40, 16, dtype=torch.float64).to(dtype).double().requires_grad_()
    upstream = torch.randn(3, 4, 40, 16, dtype=torch.float64)
    expected = attention(*exact, masks[mask])[0]  # type: ignore[misc]
    expected.backward(upstream)
    given = exact.detach().to(device, dtype).requires_grad_()
    tensor = None if mask == "is_causal" or masks[mask] is None else masks[mask].to(device)  # type: ignore[union-attr]
    chosen = BACKENDS[backend]
    try:
        with nullcontext() if chosen is None else sdpa_kernel(chosen):
            result = fused_attention(*given, tensor, is_causal=mask == "is_causal")  # type: ignore[misc]
            result.backward(upstream.to(device, dtype))
    except RuntimeError as error:
        if chosen is None or "kernel" not in str(error):
            raise
        pytest.skip(f"it doesn't support this: {str(error).splitlines()[0]}")
    assert exact.grad is not None and given.grad is not None
    assert distance(result.detach(), expected.detach()) < ERRORS[dtype]
    assert distance(given.grad, exact.grad) < 3 * ERRORS[dtype]


def one_batch(data: PreparedData) -> Batch:
    return next(Batches(*data.tokens("train"), 300, 1))


def gradient(loss: ModelWithLoss) -> Tensor:
    return torch.cat([p.grad.double().cpu().flatten() for p in loss.model.parameters() if p.grad is not None])


@pytest.mark.parametrize(("precision", "error"), PRECISIONS)
@pytest.mark.parametrize("variant", ["fused", "explicit", "pre-norm", "rotary", "compiled"])
def test_the_loss_and_its_gradient(
    variant: str,
    precision: Precision,
    error: float,
    name: DeviceName,
    shape: ModelConfig,
    data: PreparedData,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the whole model in each precision, compiled or not."""
    changes: dict[str, dict[str, object]] = {
        "explicit": {"attention": "explicit"}, "pre-norm": {"norm": "pre"}, "rotary": {"positions": "rotary"}
    }  # fmt: skip
    device, batch = choose_device(name, precision), one_batch(data)
    exact = ModelWithLoss(Transformer(replace(shape, **changes.get(variant, {}))), 0.1)  # type: ignore[arg-type]
    loss = copy.deepcopy(exact).to(device.torch_device)
    expected = exact.double()(batch.source, batch.decoder_input, batch.labels)
    expected.backward()
    if variant == "compiled":
        if name == "cpu" and (precision != "fp32" or shutil.which("g++") is None):
            pytest.skip("on a CPU once is enough, and it needs a C++ compiler")
        # Some versions of PyTorch reuse a graph that was compiled for another precision.
        monkeypatch.setattr("torch._functorch.config.enable_autograd_cache", False)
        loss.compile(dynamic=True)
    there = batch.to(device.torch_device)
    with device.autocast():
        result = loss(there.source, there.decoder_input, there.labels)
    result.backward()
    assert float(result.detach()) == pytest.approx(float(expected.detach()), rel=error)
    assert (gradient(loss) - gradient(exact)).norm() < error * gradient(exact).norm()


@pytest.mark.parametrize("with_gradients", [False, True])
@pytest.mark.parametrize("dtype", ERRORS, ids=str)
def test_logits_are_not_rounded(dtype: torch.dtype, with_gradients: bool, name: DeviceName) -> None:
    """Their inputs can be in 16 bits, but the sums are not."""
    device = choose_device(name, "fp32").torch_device
    states, weight = (torch.randn(*size, dtype=torch.float64).to(dtype) for size in ((3, 5, 64), (1000, 64)))
    with torch.set_grad_enabled(with_gradients):
        logits = linear_in_float32(states.to(device), weight.detach().float().to(device).requires_grad_())
    assert logits.dtype == torch.float32 and logits.requires_grad == with_gradients
    assert distance(logits.detach(), states.double() @ weight.double().T) < ERRORS[torch.float32]


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_layers_store_their_output_in_16_bits_if_the_precision_is_mixed(
    precision: Precision, norm: Norm, name: DeviceName, shape: ModelConfig, data: PreparedData
) -> None:
    device = choose_device(name, precision)
    batch, model = one_batch(data).to(device.torch_device), Transformer(replace(shape, norm=norm))
    model.to(device.torch_device)
    dtypes = set()
    for layer in (*model.encoder, *model.decoder):
        layer.register_forward_hook(lambda layer, inputs, output: dtypes.update((inputs[0].dtype, output.dtype)))
    with device.autocast():
        assert model(batch.source, batch.decoder_input).dtype == torch.float32
        dtypes.add(model.encode(batch.source)[0].dtype)
    assert dtypes == {device.autocast_dtype or torch.float32}


@pytest.mark.parametrize(("precision", "error"), PRECISIONS)
def test_more_padding_changes_nothing(
    precision: Precision, error: float, name: DeviceName, shape: ModelConfig, data: PreparedData
) -> None:
    device = choose_device(name, precision)
    batch = one_batch(data).to(device.torch_device)
    loss = ModelWithLoss(Transformer(shape).to(device.torch_device), 0.1)
    wider = [torch.nn.functional.pad(t, (0, 8)) for t in (batch.source, batch.decoder_input, batch.labels)]
    with device.autocast():
        narrow, wide = loss(batch.source, batch.decoder_input, batch.labels), loss(*wider)
    assert float(wide.detach()) == pytest.approx(float(narrow.detach()), rel=error)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_translations(beam_size: int, name: DeviceName) -> None:
    """A trained model translates as on the CPU."""
    sentences = ["the dog sleeps.", "a cat sees the house.", "the old woman reads a book.", "two children play."]
    cpu, other = (transformer.load("pocket-small", each, "fp32") for each in ("cpu", name))
    assert other.greedy_search(sentences) == cpu.greedy_search(sentences)
    here, there = (
        [hypothesis.text for found in t.beam_search(sentences, beam_size=beam_size) for hypothesis in found]
        for t in (cpu, other)
    )
    assert there == here
