"""Deny answers access to the solutions, other files, processes and the network while they are graded.

Python reports such operations to audit hooks before they happen, and a hook can't be removed (PEP 578). This stops
whatever is written in Python. It doesn't stop machine code, so it isn't a sandbox.
"""

import os
import sys
from pathlib import Path
from typing import Any

from exercises.notebooks import ROOT

HIDDEN = [ROOT / "solutions", ROOT / "exercises" / "checks"]
"""Folders that contain right answers."""

FORBIDDEN = {
    "start other processes": "os.exec os.fork os.forkpty os.posix_spawn os.spawn os.system pty.spawn subprocess.Popen",
    "end processes": "os.kill os.killpg signal.pthread_kill",
    "use the network": "socket.bind socket.connect socket.getaddrinfo socket.sendto",
}
"""What answers can't do, and the names of the audit events that Python reports for it."""

CHANGING = "os.chmod os.chown os.link os.mkdir os.remove os.rename os.rmdir os.symlink os.truncate os.utime".split()
"""Events of operations that change files; the first argument is a path."""

WITH_TARGET = {"os.link", "os.rename", "os.symlink"}
"""Those whose second argument is also a path."""

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def start(folder: Path) -> None:
    """Apply the restrictions to this process, until it ends.

    Args:
        folder: the only folder in which files can be written.
    """
    reasons = {event: what for what, events in FORBIDDEN.items() for event in events.split()}
    own, hidden = os.path.realpath(folder), [os.path.realpath(path) for path in HIDDEN]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in reasons:
            raise PermissionError(f"an answer can't {reasons[event]} while it is graded")
        if event != "open" and event not in CHANGING:
            return
        changes = event != "open" or bool(arguments[2] & WRITING)
        for path in arguments[: 2 if event in WITH_TARGET else 1]:
            if not isinstance(path, str | bytes | os.PathLike):
                continue
            real = os.path.realpath(os.fsdecode(path))
            if any(_is_inside(real, place) for place in hidden):
                raise PermissionError("an answer can't read the solutions while it is graded")
            if changes and not _is_inside(real, own) and real != os.devnull:
                raise PermissionError("an answer can't change files while it is graded")

    sys.addaudithook(hook)


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)
