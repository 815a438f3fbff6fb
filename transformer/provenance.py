"""Provenance: what has to be recorded with a measurement so that others can reproduce it."""

import os
import platform
import shlex
import subprocess
import sys
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from transformer import __version__

PACKAGE = Path(__file__).parent


def provenance(device: object) -> dict[str, Any]:
    """Return the date, command, commit, machine, device, threads, versions and GPU of a measurement, ready for JSON.

    Args:
        device: an object whose ``str()`` describes the device and the precision.
    """
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "command": command(sys.argv),
        "commit": commit(),
        "machine": f"{processor()}, {os.cpu_count()} cores, {platform.system()}",
        "device": str(device),
        "threads": torch.get_num_threads(),
        "versions": versions("torch"),
        **({"gpu": gpu()} if torch.cuda.is_available() else {}),
    }


def command(argv: list[str]) -> str | None:
    """Return the command as the user would type it, or None if the program is not ``transformer``.

    ``--mirror`` is left out, because only the source of the downloads depends on it; so are the addresses by which
    several machines find each other.
    """
    if Path(argv[0]).name != "transformer" and Path(argv[0]).parts[-2:] != ("transformer", "cli.py"):
        return None
    words = ["transformer"]
    if "TORCHELASTIC_RUN_ID" in os.environ:  # set by torchrun
        local_world_size, world_size = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
        machines = [] if world_size == local_world_size else ["--nnodes", str(world_size // local_world_size)]
        words = ["torchrun", *machines, "--nproc-per-node", str(local_world_size), "-m", "--", "transformer.cli"]
    for word in argv[1:]:
        if words[-1] == "--mirror":
            words.pop()
        elif not word.startswith("--mirror="):
            words.append(word)
    return shlex.join(words)


def commit() -> str:
    """Return the package's commit, with a "+" if its files have changed since; outside its repository, the version.

    Trained models in ``transformer/models`` don't count as changes.
    """
    try:
        top = _git("rev-parse", "--show-toplevel")
        _git("ls-files", "--error-unmatch", "__init__.py")  # fails if installed inside another repository
        if Path(top) == PACKAGE.parent.resolve():
            return _git("rev-parse", "--short=10", "HEAD") + (
                "+" if _git("status", "--porcelain", "--", ".", ":(exclude)models/*/*") else ""
            )
    except (OSError, subprocess.SubprocessError):
        pass
    return f"version {__version__}"


def versions(*packages: str) -> str:
    """Return the versions of Python and of these packages, as in "Python 3.12.1, torch 2.7.0, no triton"."""
    return ", ".join([f"Python {platform.python_version()}", *(_version(package) for package in packages)])


def processor() -> str:
    """Return the name of the CPU, as far as the system reports it, and the vector instructions that PyTorch uses."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    name = name.replace("(R)", "").replace("(TM)", "")
    return f"{name} with {torch.backends.cpu.get_cpu_capability()}"


def gpu() -> str:
    """Return the number of GPUs, their name and memory, and the versions of the driver, CUDA and cuDNN."""
    properties = torch.cuda.get_device_properties(0)
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        driver = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        driver = "unknown"
    return (
        f"{torch.cuda.device_count()} × {properties.name}, {properties.total_memory / 2**30:.0f} GiB, driver {driver}, "
        f"CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"
    )


def _git(*arguments: str) -> str:
    run = subprocess.run(["git", "-C", PACKAGE, *arguments], capture_output=True, text=True, timeout=10, check=True)
    return run.stdout.strip()


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"
