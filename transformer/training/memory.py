"""Estimate the memory that training needs, measure what some work used, and explain what to do when it runs out."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import torch

from transformer.config import ModelConfig, TrainingConfig
from transformer.device import Device
from transformer.errors import UserError


def training_bytes(model: ModelConfig, training: TrainingConfig) -> int:
    """Return the memory that the parameters need in training, in bytes; activations come on top.

    For each parameter this is 16 bytes: the weight, its gradient and Adam's two moments, all in float32. Averaging
    (``average_steps``) adds a copy of the weights.
    """
    copies = 5 if training.average_steps else 4
    position_table = 0 if model.positions == "learned" else model.max_length * model.d_model
    return 4 * (copies * model.n_parameters + position_table)


def available_bytes(device: Device) -> int:
    """Return the free memory of a GPU, or else of the machine, in bytes."""
    if device.device.type == "cuda":
        return torch.cuda.mem_get_info(device.device)[0]
    return int(psutil.virtual_memory().available)


def check_memory(model: ModelConfig, training: TrainingConfig, device: Device) -> None:
    """Refuse a model that is too large to be trained in the available memory.

    Raises:
        UserError: if it doesn't fit; the message gives the needed and the available memory.
    """
    needed, available = training_bytes(model, training), available_bytes(device)
    if needed > available:
        place = "GPU" if device.device.type == "cuda" else "machine"
        raise UserError(
            f"this model has {model.n_parameters:,} parameters and needs about {needed / 1e9:,.1f} GB to train; "
            f"this {place} has {available / 1e9:,.1f} GB free: choose a smaller model"
        )


@contextmanager
def explain_out_of_memory(gradient_accumulation_steps: int) -> Iterator[None]:
    """Turn PyTorch's error into one that suggests a setting.

    Raises:
        UserError: if the device runs out of memory.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise UserError(
            f"the device is out of memory: try --training.gradient-accumulation-steps "
            f"{2 * gradient_accumulation_steps}, which halves the batches and changes nothing else. "
            f"{str(error).splitlines()[0][:100]}"
        ) from error


def peak_memory(work: Callable[[], object], device: Device) -> int:
    """Do some work and return the most bytes that it used at once, beyond what the process used before.

    For a CPU, the earlier peak can be reset only on Linux; on other systems it may be included.
    """
    x = torch.randn(64, 64, device=device.device, requires_grad=True)
    (x @ x).softmax(-1).sum().backward()  # PyTorch loads its libraries now, so that they don't count
    torch.optim.Adam([x], fused=True).step()
    if device.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return torch.cuda.max_memory_allocated() - before
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    resident: int = psutil.Process().memory_info().rss
    work()
    return _peak_resident_memory() - resident


def _peak_resident_memory() -> int:
    try:
        status = Path("/proc/self/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) * 1024
    except (OSError, StopIteration):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
