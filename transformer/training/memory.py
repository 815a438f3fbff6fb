"""Estimate the memory that training needs, and measure what some work used."""

import os
from collections.abc import Callable
from itertools import accumulate

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


def peak_memory(work: Callable[[], object], device: Device) -> int:
    """Do some work and return the most bytes of tensors that it had allocated at once.

    Tensors from before don't count, and freeing them doesn't either. The result doesn't depend on what the process did
    before, because PyTorch's allocators report each allocation; the resident memory of the process would depend on it.
    """
    if device.device.type == "cuda":
        x = torch.randn(64, 64, device=device.device, requires_grad=True)
        (x @ x).sum().backward()  # allocates the workspaces of cuBLAS, which stay, so that they don't count
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return torch.cuda.max_memory_allocated() - before
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # otherwise the profiler announces its start and its end
    with torch.autograd.profiler.profile(profile_memory=True) as profiler:
        work()
    events = profiler.kineto_results.events()
    return max(accumulate((event.nbytes() for event in events if event.name() == "[memory]"), initial=0))
