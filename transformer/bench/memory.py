"""Peak memory of one contender, in a process that has done nothing else.

On a GPU it is what PyTorch allocated. On the CPU it is how far the process's resident memory grew over what it was when
the contender was ready to start.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import torch

from transformer.bench.contests import CONTESTS, Contender, Contest, Setting
from transformer.device import Device, DeviceName, choose_device

ROUNDS = 2
"""Adam has its state only from the second step on."""


def peak_memory(contest: Contest, contender: Contender, setting: Setting) -> int:
    """Bytes that a contender needs at its peak, over the state before its work.

    Raises:
        RuntimeError: if its process ends badly; it is killed, for example, where memory is short.
    """
    question = [contest.name, contender.name, setting.device.device.type, setting.threads, setting.quick]
    answer = subprocess.run(
        [sys.executable, "-m", "transformer.bench.memory", json.dumps(question)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
    )
    if answer.returncode:
        raise RuntimeError(f"{contender.name}: its process ended with {answer.returncode}\n{answer.stderr}".rstrip())
    return int(answer.stdout.splitlines()[-1])


def _measure(contest: str, contender: str, device: DeviceName, threads: int, quick: bool) -> int:
    torch.set_num_threads(threads)
    setting = Setting(choose_device(device), threads, quick)
    work = CONTESTS[contest](setting).contender(contender).prepare()
    wake(setting.device)
    forget_peak(setting.device)
    before = used(setting.device)
    for number in range(ROUNDS):
        work(number)
    return peak(setting.device) - before


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


if __name__ == "__main__":
    print(_measure(*json.loads(sys.argv[1])))
