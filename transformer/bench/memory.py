"""How much memory a process needs at its peak: on a GPU what PyTorch allocated, on the CPU its resident memory."""

import contextlib
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import torch

from transformer.device import Device


def wake(device: Device) -> None:
    """Make PyTorch load its mathematics and its optimisers, which is nobody's work."""
    x = torch.randn(64, 64, device=device.device, requires_grad=True)
    (x @ x).softmax(-1).sum().backward()
    torch.optim.Adam([x], fused=True).step()


def used(device: Device) -> int:
    """Bytes in use now."""
    return torch.cuda.memory_allocated() if device.device.type == "cuda" else psutil.Process().memory_info().rss


def peak(device: Device) -> int:
    """The most bytes in use at once since `forget_peak`."""
    return torch.cuda.max_memory_allocated() if device.device.type == "cuda" else _peak_resident()


def forget_peak(device: Device) -> None:
    """Set the peak back to what is in use now. Of resident memory only Linux can; elsewhere an older peak may count."""
    if device.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_resident() -> int:
    """The most memory that this process had resident at once, in bytes."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) * 1024
    except (OSError, StopIteration):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
