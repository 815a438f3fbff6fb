"""Measures peak memory: what PyTorch allocates on a GPU, the resident memory of the process on a CPU."""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import torch

from transformer.device import Device


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
    with contextlib.suppress(OSError):
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
