"""Where a number comes from: what must stand beside it, so that others can get it again."""

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

PACKAGE = Path(__file__).parent


def provenance(device: object) -> dict[str, Any]:
    """When, with what command and code, and on what machine something is measured: as plain values, to write down.

    Args:
        device: where it runs, and in what precision.
    """
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "command": command(sys.argv),
        "commit": commit(),
        "machine": f"{processor()}, {os.cpu_count()} cores, {platform.system()}",
        "device": str(device),
        "threads": torch.get_num_threads(),
        "versions": versions("torch"),
    }


def command(argv: list[str]) -> str | None:
    """The course's command as one would type it, or None if something else runs.

    ``--mirror`` is left out: it changes nothing but where files are.
    """
    if Path(argv[0]).name != "transformer" and Path(argv[0]).parts[-2:] != ("transformer", "cli.py"):
        return None
    words = ["transformer"]
    for word in argv[1:]:
        if words[-1] == "--mirror":
            words.pop()
        elif not word.startswith("--mirror="):
            words.append(word)
    return shlex.join(words)


def commit() -> str:
    """The commit of this code, with a "+" if it was changed since; or the version, if it is not in its repository.

    Trained models are no code: whether there are others does not matter.
    """
    try:
        top = _git("rev-parse", "--show-toplevel")
        _git("ls-files", "--error-unmatch", "__init__.py")  # a package among others' files is not their code
        if Path(top) == PACKAGE.parent.resolve():
            return _git("rev-parse", "--short=10", "HEAD") + (
                "+" if _git("status", "--porcelain", "--", ".", ":(exclude)models/*/*") else ""
            )
    except (OSError, subprocess.SubprocessError):
        pass
    return f"version {version('transformer-course')}"


def versions(*packages: str) -> str:
    """The versions of Python and of these packages, those missing included."""
    return ", ".join([f"Python {platform.python_version()}", *(_version(package) for package in packages)])


def processor() -> str:
    """The CPU's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _git(*words: str) -> str:
    run = subprocess.run(["git", "-C", PACKAGE, *words], capture_output=True, text=True, timeout=10, check=True)
    return run.stdout.strip()


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"
