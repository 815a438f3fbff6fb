"""A pytest plugin for the grader: records the result of each cell of a notebook, and limits the memory."""

import json
import os
import resource
import sys
import threading
import time
from collections.abc import Generator
from typing import Any

import pytest

from exercises.limits import MAX_MEMORY
from exercises.notebooks import answer_key, check_key

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # takes seconds to import and isn't needed

_results = os.fdopen(int(os.environ.pop("EXERCISES_RESULTS")), "w", encoding="utf-8")
"""The results go to the grader through this file. The kernel doesn't inherit it."""


def pytest_configure() -> None:
    """Set the memory limit, which the kernel inherits; Linux enforces it, macOS doesn't."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    limit = MAX_MEMORY if hard == resource.RLIM_INFINITY else min(MAX_MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Generator[None, None, None]:
    """End the run as soon as the kernel dies; nbval would wait for its answer until the time limit."""
    done = threading.Event()
    kernel = item.parent.kernel.km.provisioner.process

    def watch() -> None:
        while not done.wait(0.2):
            if kernel.poll() is not None:
                time.sleep(0.5)
                if not done.is_set():
                    _append_record(item, "died")
                    os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        done.set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Generator[None, Any, Any]:
    """Record the result of each cell; stop at the first one that timed out, because the kernel is then unusable."""
    report = yield
    if call.when == "call":
        if item.parent.timed_out:
            _append_record(item, "timed out")
            item.session.shouldstop = "a cell timed out"
        else:
            _append_record(item, report.outcome)
    return report


def _append_record(item: Any, outcome: str) -> None:
    errors = [output for output in item.test_outputs or [] if output["output_type"] == "error"]
    record = {
        "key": answer_key(item.cell) or check_key(item.cell),
        "kind": "answer" if answer_key(item.cell) else "check",
        "outcome": outcome,
        "error": errors[0]["ename"] if errors else None,
        "message": errors[0]["evalue"] if errors else "",
    }
    _results.write(json.dumps(record) + "\n")
    _results.flush()
