"""A pytest plugin for the grader: notes what each cell of the notebook came to, and holds the run to a memory limit."""

import json
import os
import resource
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from exercises.notebooks import answer_key, check_key

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # seconds to import, and nothing here needs it

MOST_MEMORY = 4 * 1024**3
"""Bytes of data that pytest may hold, and as many the kernel. Linux keeps to it; macOS has no such limit."""


def pytest_configure() -> None:
    """Set the memory limit; the kernel inherits it."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    most = MOST_MEMORY if hard == resource.RLIM_INFINITY else min(MOST_MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Generator[None, None, None]:
    """End the run as soon as the kernel is dead; nbval would wait for its answer until the time is up."""
    done = threading.Event()
    kernel = item.parent.kernel.km.provisioner.process

    def watch() -> None:
        while not done.wait(0.2):
            if kernel.poll() is not None:
                time.sleep(0.5)
                if not done.is_set():
                    _write(item, "died")
                    os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        done.set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Generator[None, Any, Any]:
    """Write a line for each cell; stop at the first that timed out, since the kernel is of no use then."""
    report = yield
    if call.when == "call":
        if item.parent.timed_out:
            _write(item, "timed out")
            item.session.shouldstop = "a cell timed out"
        else:
            _write(item, report.outcome)
    return report


def _write(item: Any, end: str) -> None:
    errors = [output for output in item.test_outputs or [] if output["output_type"] == "error"]
    record = {
        "key": answer_key(item.cell) or check_key(item.cell),
        "kind": "answer" if answer_key(item.cell) else "check",
        "end": end,
        "error": errors[0]["ename"] if errors else None,
        "message": errors[0]["evalue"] if errors else "",
    }
    with Path("report.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
