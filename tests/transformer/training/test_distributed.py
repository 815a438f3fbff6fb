"""Several processes train as one does: the same steps, the same weights."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from transformer.checkpoint import step_checkpoints
from transformer.training.distributed import DistributedContext

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "TRANSFORMER_DATA": str(folder / "data"), "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize(("world_size", "optimizer"), [(2, "adam"), (4, "adam"), (2, "muon")])
def test_n_processes_equal_one_with_n_accumulation_steps(world_size: int, optimizer: str, tmp_path: Path) -> None:
    command = [sys.executable, HERE / "compare_processes.py", tmp_path, str(world_size), optimizer]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["to_single"] < 1e-5 < report["to_larger"]
    assert report["to_fewer"] < 1e-5, "resumed in one process: the same steps"
    for name in ("losses", "logged_losses", "saved_losses"):
        assert report[name][0] == pytest.approx(report[name][1], rel=1e-5)
    assert report["tokens"][0] == report["tokens"][1]
    more = report["more"]
    assert (more["step"], more["world_size"], more["gradient_accumulation_steps"]) == (8, world_size, 1)


def test_under_torchrun_one_that_dies_ends_the_run_and_the_checkpoint_stays(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train = ["transformer.cli", "train", "copy", "--run", run, "--training.steps", "100000", "--device", "cpu"]
    often = ["--training.checkpoint-every", "2", "--training.validate-every", "100000"]
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--standalone",
        "-m",
        "--",
        *train,
        *often,
    ]
    with subprocess.Popen(
        command, env=environment(tmp_path), stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as started:
        try:
            until = time.monotonic() + 120
            while len(step_checkpoints(run)) < 2 and time.monotonic() < until and started.poll() is None:
                time.sleep(0.1)
            children = subprocess.run(["pgrep", "-P", f"{started.pid}"], capture_output=True, text=True).stdout.split()
            os.kill(int(children[-1]), signal.SIGKILL)
            _, errors = started.communicate(timeout=60)
        finally:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)
    assert started.returncode != 0
    assert "another of the 2 processes has died" in errors and "resume from the last checkpoint" in errors
    assert step_checkpoints(run)


def test_a_single_process_needs_no_others() -> None:
    single = DistributedContext(0, 1, torch.device("cpu"))
    assert single.is_main and single.all_reduce([2, 0.5]) == [2, 0.5]
