import os
from collections.abc import Iterator

import pytest
import torch

from transformer.device import Device, choose_device, explain_out_of_memory
from transformer.errors import UserError

# PyTorch 2.9 warns when its setting for TF32 is first used.
pytestmark = pytest.mark.filterwarnings("ignore:Please use the new API settings to control TF32:UserWarning")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine that reports a GPU; nothing runs on it."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "NVIDIA T4")
    return monkeypatch


def test_the_cpu_runs_in_fp32_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    device = choose_device()
    assert (device.type, device.autocast_dtype) == ("cpu", None)
    assert str(device) == "cpu in fp32 (fastest available device, default precision)"
    assert not device.scaler().is_enabled()


@pytest.mark.parametrize(
    ("capability", "dtype", "text"),
    [
        ((9, 0), torch.bfloat16, "bf16 (fastest available"),
        ((8, 0), torch.bfloat16, "bf16 (fastest available"),
        ((7, 5), torch.float16, "fp16 (fastest available"),
    ],
)
def test_a_gpu_runs_in_the_precision_it_supports(
    gpu: pytest.MonkeyPatch, capability: tuple[int, int], dtype: torch.dtype, text: str
) -> None:
    gpu.setattr(torch.cuda, "get_device_capability", lambda *_: capability)
    device = choose_device()
    assert (device.type, device.autocast_dtype) == ("cuda", dtype) and text in str(device)


@pytest.fixture(autouse=True)
def settings_of_the_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What `choose_device` sets for the whole process is as before after each test."""
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    cuda, precision = torch.backends.cuda, torch.get_float32_matmul_precision()
    cudnn, flash = cuda.cudnn_sdp_enabled(), cuda.flash_sdp_enabled()
    yield
    cuda.enable_cudnn_sdp(cudnn)
    cuda.enable_flash_sdp(flash)
    torch.set_float32_matmul_precision(precision)


def test_fp32_uses_tf32_only_on_request(gpu: pytest.MonkeyPatch) -> None:
    gpu.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))
    for precision, setting in (("fp32", "highest"), ("tf32", "high"), ("bf16", "highest")):
        device = choose_device("cuda", precision)  # type: ignore[arg-type]
        assert torch.get_float32_matmul_precision() == setting and device.precision == precision
    assert choose_device("cuda", "tf32").autocast_dtype is None
    gpu.setattr(torch.cuda, "get_device_capability", lambda *_: (7, 5))
    for name in ("cuda", "cpu"):
        with pytest.raises(UserError, match="support TensorFloat-32; try precision fp32"):
            choose_device(name, "tf32")  # type: ignore[arg-type]


def test_a_gpu_gets_one_pool_of_memory_and_memory_efficient_attention(gpu: pytest.MonkeyPatch) -> None:
    gpu.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))
    choose_device("cpu")
    cuda = torch.backends.cuda
    assert cuda.cudnn_sdp_enabled() and cuda.flash_sdp_enabled() and "PYTORCH_ALLOC_CONF" not in os.environ
    choose_device()
    assert not cuda.cudnn_sdp_enabled() and not cuda.flash_sdp_enabled() and cuda.mem_efficient_sdp_enabled()
    assert os.environ["PYTORCH_ALLOC_CONF"] == os.environ["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"


def test_the_users_choice_of_memory_is_kept(gpu: pytest.MonkeyPatch) -> None:
    gpu.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))
    gpu.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128")
    choose_device()
    assert "PYTORCH_ALLOC_CONF" not in os.environ


def test_each_process_of_torchrun_chooses_its_gpu_before_it_uses_one(gpu: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    gpu.setattr(torch.cuda, "set_device", lambda number: called.append(f"set_device {number}"))
    gpu.setattr(torch.cuda, "get_device_capability", lambda *_: called.append("use") or (9, 0))
    gpu.setattr(torch.cuda, "device_count", lambda: 4)
    gpu.setenv("LOCAL_RANK", "3")
    choose_device()
    assert called == ["set_device 3", "use"]
    for rank in ("4", "-1", "x"):
        gpu.setenv("LOCAL_RANK", rank)
        with pytest.raises(UserError, match=f"LOCAL_RANK is '?{rank}'?, but this process sees 4 GPUs"):
            choose_device()
    assert called == ["set_device 3", "use"]


def test_both_can_be_requested(gpu: pytest.MonkeyPatch) -> None:
    gpu.setattr(torch.cuda, "get_device_capability", lambda *_: (7, 5))
    assert choose_device("cpu", "bf16").autocast_dtype == torch.bfloat16
    assert choose_device("cuda", "fp32").autocast_dtype is None
    with pytest.raises(UserError, match="does not support bfloat16; try precision fp16"):
        choose_device("cuda", "bf16")


def test_an_unavailable_device_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(UserError, match="no mps device"):
        choose_device("mps")


def test_fp16_scales_the_loss() -> None:
    assert Device(torch.device("cpu"), torch.float16).scaler().is_enabled()
    assert not Device(torch.device("cpu"), torch.bfloat16).scaler().is_enabled()


def test_synchronize_waits_for_the_device_it_is_called_on(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append("cuda"))
    monkeypatch.setattr(torch.mps, "synchronize", lambda: waited.append("mps"))
    for name in ("cpu", "cuda", "mps"):
        Device(torch.device(name)).synchronize()
    assert waited == ["cuda", "mps"]


def test_only_a_lack_of_memory_is_explained() -> None:
    for error in (
        RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 8 bytes.\nand more"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ):
        with pytest.raises(UserError) as caught, explain_out_of_memory("try less"):
            raise error
        reason = str(error).splitlines()[0]
        assert str(caught.value) == f"the device is out of memory: try less ({reason})"
    for message in ("shapes do not match", "CUDA error: an illegal memory access was encountered"):
        with pytest.raises(RuntimeError, match=message), explain_out_of_memory("try less"):
            raise RuntimeError(message)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UserError, match="there is no device 'gpu'; "):
        choose_device("gpu")
    with pytest.raises(UserError, match="there is no precision 'fp8'; "):
        choose_device("cpu", "fp8")
