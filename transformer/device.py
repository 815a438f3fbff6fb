"""Choose where a model runs, and in which precision."""

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal, get_args

import psutil  # type: ignore[import-untyped]
import torch
import torch.nn.functional as F
from torch import Tensor

from transformer.errors import UserError, quote, suggest

DeviceName = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["auto", "fp32", "tf32", "bf16", "fp16"]
InferencePrecision = Literal[Precision, "int8"]

DTYPES = {"fp32": None, "tf32": None, "bf16": torch.bfloat16, "fp16": torch.float16}

OUT_OF_MEMORY = (
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "MPS backend out of memory",
)
"""Messages of out-of-memory errors that aren't a ``torch.OutOfMemoryError``: CPU (Linux, Windows), CUDA, MPS."""


@dataclass(frozen=True)
class Device:
    """A device and the precision of the computations on it."""

    torch_device: torch.device
    autocast_dtype: torch.dtype | None = None
    """The dtype of matrix products; None: no autocast, so their inputs are in fp32."""
    tf32: bool = False
    """Whether a GPU rounds the inputs of matrix products to TensorFloat-32, which keeps 10 bits of the mantissa."""
    int8: bool = False
    """Whether linear layers multiply 8-bit integers, see `transformer.quantization`; for translation on a CPU."""
    reason: str = "as requested"
    """Why the device and the precision were chosen."""

    @property
    def type(self) -> str:
        """``"cpu"``, ``"cuda"`` or ``"mps"``."""
        return self.torch_device.type

    def autocast(self) -> AbstractContextManager[object]:
        """Return a context in which the model runs in this precision."""
        return nullcontext() if self.autocast_dtype is None else torch.autocast(self.type, self.autocast_dtype)

    def scaler(self) -> torch.amp.GradScaler:
        """Return a GradScaler, enabled only for fp16, where it keeps small gradients from underflowing."""
        return torch.amp.GradScaler(self.type, enabled=self.autocast_dtype == torch.float16)

    def synchronize(self) -> None:
        """Wait until the device has finished the work queued on it. A GPU runs asynchronously; the CPU doesn't."""
        if self.type == "cuda":
            torch.cuda.synchronize()
        elif self.type == "mps":
            torch.mps.synchronize()

    @property
    def precision(self) -> str:
        """The name of the precision: fp32, tf32, bf16, fp16 or int8."""
        if self.int8:
            return "int8"
        return "tf32" if self.tf32 else next(name for name, dtype in DTYPES.items() if dtype == self.autocast_dtype)

    def __str__(self) -> str:
        name = torch.cuda.get_device_name(self.torch_device) if self.type == "cuda" else self.type
        return f"{name} in {self.precision} ({self.reason})"


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which mixed precision is off; the device "meta" has no autocast."""
    # Compiled code runs on real devices only, and some versions of torch.compile can't trace `is_autocast_available`.
    if not torch.compiler.is_compiling() and not torch.amp.is_autocast_available(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def activation_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype in which the model stores what it computes from x: autocast's if enabled, otherwise x's."""
    device = x.device.type
    if device == "meta" or x.dtype == torch.float64 or not torch.is_autocast_enabled(device):
        return x.dtype
    return torch.get_autocast_dtype(device)


def linear_in_float32(x: Tensor, weight: Tensor) -> Tensor:
    """Compute x Wᵀ with sums and results in float32, even if x is in 16 bits; call it without autocast.

    A GPU multiplies 16-bit numbers several times as fast as float32, and accumulates the products in float32. With
    CUDA, PyTorch can return these sums without rounding them, but that kernel has no backward pass. So it is used
    where no gradient is needed, with W rounded to the dtype of x. Otherwise both are converted to float32.

    Args:
        x: (..., d_in), any floating dtype.
        weight: W, (d_out, d_in).

    Returns:
        (..., d_out), float32.
    """
    has_kernel = x.is_cuda and torch.version.cuda  # is_cuda is True on AMD GPUs as well
    if has_kernel and x.dtype.itemsize == 2 and not torch.is_grad_enabled():
        result = torch.mm(x.flatten(0, -2), weight.to(x.dtype).T, out_dtype=torch.float32)
        return result.view(*x.shape[:-1], len(weight))
    return F.linear(x.float(), weight.float())


def has_int8_instructions() -> bool:
    """Return whether PyTorch can multiply 8-bit integers with the CPU's AVX512-VNNI instructions.

    Many x86 CPUs have had them since about 2020. On other CPUs, PyTorch's product of integers is much slower than that
    of float32.
    """
    return bool(torch.cpu._is_vnni_supported())


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether an error of PyTorch means that the device has run out of memory."""
    return isinstance(error, torch.OutOfMemoryError) or any(text in str(error) for text in OUT_OF_MEMORY)


def available_bytes(device: Device) -> int:
    """Return the free memory of a GPU, or else of the machine, in bytes."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device.torch_device)
        return free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()  # PyTorch keeps what it has freed
    return int(psutil.virtual_memory().available)


def readable_bytes(size: int) -> str:
    """Format a number of bytes, such as "1.5 GB" or "20 MB"."""
    if size < 5e5:
        return "under 1 MB"
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


@contextmanager
def explain_out_of_memory(hint: str) -> Iterator[None]:
    """Turn PyTorch's out-of-memory error into one that says what to do; other errors pass through.

    Args:
        hint: what to try, for the message.

    Raises:
        UserError: if the device runs out of memory.
    """
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        reason = str(error).splitlines()[0][:100]
        raise UserError(f"the device is out of memory: {hint} ({reason})") from error


def choose_device(name: DeviceName = "auto", precision: InferencePrecision = "auto") -> Device:
    """Choose the fastest available device and the fastest precision that trains stably on it, or check the given ones.

    A GPU that supports bfloat16 (NVIDIA Ampere and later) uses it; an older one uses float16, which needs loss scaling.
    MPS and the CPU use float32. TensorFloat-32 and int8 are used only on request. Under ``torchrun`` each process uses
    the GPU of its local rank. Choosing a GPU also changes settings of the whole process: see `configure_cuda`.

    Raises:
        UserError: if the device is not available or does not support the precision.
    """
    choices = (("device", name, get_args(DeviceName)), ("precision", precision, get_args(InferencePrecision)))
    for kind, value, known in choices:
        if value not in known:
            raise UserError(f"there is no {kind} {quote(value)}; {suggest(str(value), known)}")
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    chosen = next(n for n, is_available in available.items() if is_available) if name == "auto" else name
    if not available[chosen]:
        raise UserError(f"this machine has no {chosen} device that PyTorch can use; try device cpu")
    if precision == "int8" and chosen != "cpu":
        raise UserError("int8 is for the CPU; choose device cpu, or another precision")
    if chosen == "cuda":
        configure_cuda(tf32=precision == "tf32")
    has_bf16 = chosen != "cuda" or torch.cuda.get_device_capability() >= (8, 0)
    if precision == "bf16" and not has_bf16:
        raise UserError("this GPU does not support bfloat16; try precision fp16")
    if precision == "tf32" and not (chosen == "cuda" and has_bf16):
        raise UserError("only GPUs that support bfloat16 support TensorFloat-32; try precision fp32")
    device_reason = "fastest available device" if name == "auto" else "device as requested"
    precision_reason = "precision as requested"
    if precision == "auto":
        precision = "fp32" if chosen != "cuda" else "bf16" if has_bf16 else "fp16"
        precision_reason = {
            "fp32": "default precision",
            "bf16": "which supports bfloat16",
            "fp16": "which doesn't support bfloat16",
        }[precision]
    if precision == "int8" and not has_int8_instructions():
        precision_reason += "; not faster than fp32, because this CPU has no AVX512-VNNI instructions"
    reason = f"{device_reason}, {precision_reason}"
    return Device(torch.device(chosen), DTYPES.get(precision), precision == "tf32", precision == "int8", reason)


def configure_cuda(tf32: bool) -> None:
    """Set PyTorch's options for the whole process; call this before anything uses a GPU.

    Raises:
        UserError: if ``torchrun`` has started more processes than there are GPUs.
    """
    if not os.environ.keys() & {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}:
        # Memory allocated for one batch size can be reused for others. The name depends on PyTorch's version.
        os.environ["PYTORCH_ALLOC_CONF"] = os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    if "LOCAL_RANK" in os.environ:  # torchrun has started this process
        rank, n_gpus = os.environ["LOCAL_RANK"], torch.cuda.device_count()
        if not re.fullmatch("[0-9]{1,9}", rank) or int(rank) >= n_gpus:
            raise UserError(
                f"the environment variable LOCAL_RANK is {quote(rank)}, but this process sees {n_gpus} GPUs: start at "
                "most as many processes as there are GPUs, with torchrun --nproc-per-node"
            )
        torch.cuda.set_device(int(rank))
    # Of PyTorch's fast implementations of attention, only the memory-efficient one stays on. FlashAttention, PyTorch's
    # first choice, is slower for sentences of usual length, and cuDNN's takes a tenth of a second for every new shape:
    # see book/results/gpu/attention.json.
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
