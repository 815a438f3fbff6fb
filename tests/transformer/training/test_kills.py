"""Several processes are as safe as one: whichever of them are killed, none stays behind, and no work is lost."""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

import filelock
import psutil
import pytest

from tests.transformer.training.kill_repeatedly import results
from transformer.training.run_folder import LOG, read_sessions

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="recognises processes by their environment"),
]

ROOT = Path(__file__).parents[3]
VICTIMS = ("a worker", "torchrun", "all workers")
FREE_SECONDS = 10
"""How soon after a kill the run folder can be used again: a promise of the course."""
HANG_SECONDS = 1200
"""Give up waiting; in vain, PyTorch itself waits for half an hour."""
N_PAIRS = 3000
STEPS_PER_SESSION = 15
OPTIONS = f"""
--device cpu --data.max-train-pairs {N_PAIRS}
--model.d-model 32 --model.n-heads 4 --model.d-ff 64 --model.n-layers 1 --model.dropout 0.3
--training.batch-tokens 300 --training.log-every 1 --training.checkpoint-every 4
--training.validate-every 20 --training.validation-sentences 2 --training.average-steps 10
"""


class Session:
    """A training under torchrun, which ends by itself or is killed."""

    def __init__(self, run: Path, world_size: int, steps: int, pairs: Path | None = None) -> None:
        self.run, self.first_step = run, last_step(run)
        self.mark = f"{run}-{time.monotonic_ns()}"  # in the environment of all its processes
        command = [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world_size}", "-m"),
            *("--", "tests.transformer.training.record_pairs" if pairs else "transformer.cli"),
            *("train", "copy", "--run", f"{run}", "--training.steps", f"{steps}", *OPTIONS.split()),
        ]
        changes = {"TRANSFORMER_DATA": f"{run.parent / 'data'}", "OMP_NUM_THREADS": "1", "PAIRS": f"{pairs}"}
        environment = {**os.environ, **changes, "KILL_MARK": self.mark}
        with (run.parent / "output.txt").open("w") as output:
            self.torchrun = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)

    def processes(self) -> list[psutil.Process]:
        """Return the processes of this session that are alive."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("KILL_MARK") == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def wait_for_step(self, step: int, seconds: float = HANG_SECONDS) -> None:
        """Wait until the run has taken a step, but no longer than this session runs, and at most some seconds."""
        until = time.monotonic() + seconds
        while last_step(self.run) < step and self.torchrun.poll() is None and time.monotonic() < until:
            time.sleep(0.01)

    def kill(self, victim: str, rng: random.Random) -> None:
        """Kill processes with SIGKILL, and check that the run folder becomes free, and that the others end."""
        workers = [process for process in self.processes() if process.pid != self.torchrun.pid]
        victims = {"torchrun": [], "a worker": rng.sample(workers, min(1, len(workers))), "all workers": workers}[
            victim
        ]
        for process in victims or [self.torchrun]:  # of which there may be nothing else yet
            process.kill()
        killed = time.monotonic()
        self.run.mkdir(exist_ok=True)
        with filelock.FileLock(self.run / ".lock", timeout=FREE_SECONDS):
            free = time.monotonic() - killed
        self.torchrun.wait(HANG_SECONDS)
        psutil.wait_procs(self.processes(), HANG_SECONDS)
        gone = time.monotonic() - killed
        step = last_step(self.run)
        print(f"killed {victim} at step {step} of {len(workers)} workers: free in {free:.2f} s, ended in {gone:.1f} s")
        assert not self.processes(), f"left after {victim} was killed"


def last_step(run: Path) -> int:
    """Return the last step in the log."""
    *rows, _ = (run / LOG).read_text().split("\n") if (run / LOG).exists() else [""]
    return json.loads(rows[-1])["step"] if rows else 0


@contextmanager
def start(run: Path, world_size: int, steps: int, pairs: Path | None = None) -> Iterator[Session]:
    """Start a session; leave none of its processes behind even if the test fails."""
    session = Session(run, world_size, steps, pairs)
    try:
        yield session
    finally:
        for process in session.processes():
            process.kill()
        session.torchrun.wait(HANG_SECONDS)


def train_to_the_end(run: Path, world_size: int, steps: int, pairs: Path | None = None) -> None:
    with start(run, world_size, steps, pairs) as session:
        assert session.torchrun.wait(HANG_SECONDS) == 0, (run.parent / "output.txt").read_text()[-2000:]


@pytest.mark.soak
@pytest.mark.parametrize(("world_size", "kills"), [(2, 20), (4, 20)])
def test_a_run_killed_at_random_moments_ends_as_one_that_was_not(world_size: int, kills: int, tmp_path: Path) -> None:
    """Weekly. In every run, `test_resume` does this with one process, and `test_distributed` kills one of two."""
    rng = random.Random(world_size)
    steps = 2 * STEPS_PER_SESSION * (kills + 1)  # until its processes are found and killed, a session goes on
    started = time.monotonic()
    with start(tmp_path / "undisturbed", world_size, steps) as session:
        session.wait_for_step(1)
        start_seconds = time.monotonic() - started
        assert session.torchrun.wait(HANG_SECONDS) == 0
    run = tmp_path / "killed"
    for number, victim in enumerate(islice(cycle(VICTIMS), kills)):
        with start(run, world_size, steps) as session:
            if number % 4 == 3:  # while it starts
                session.wait_for_step(session.first_step + 1, seconds=rng.uniform(0, start_seconds))
            else:
                session.wait_for_step(session.first_step + rng.randint(1, STEPS_PER_SESSION))
                time.sleep(rng.uniform(0, 0.1))  # anywhere in a step, or while it saves a checkpoint
            session.kill(victim, rng)
            assert last_step(run) < steps, "it was trained to its end nevertheless"
    train_to_the_end(run, world_size, steps)
    assert results(run) == results(tmp_path / "undisturbed")


def test_workers_whose_torchrun_is_killed_while_they_start_end(tmp_path: Path) -> None:
    """Even if Python itself has hardly started, so that they never get to know torchrun."""
    with start(tmp_path / "run", 2, steps=1000) as session:
        while len(session.processes()) < 3:
            time.sleep(0.01)
        session.kill("torchrun", random.Random(0))


@pytest.mark.soak
def test_killed_and_resumed_by_other_numbers_of_processes_each_pair_is_used_once(tmp_path: Path) -> None:
    rng, run, steps = random.Random(0), tmp_path / "run", 300
    world_sizes = [2, 4, 3, 1, 2]
    for number, (world_size, victim) in enumerate(zip(world_sizes[:-1], cycle(VICTIMS), strict=False)):
        with start(run, world_size, steps, tmp_path / f"pairs-{number}") as session:
            session.wait_for_step(session.first_step + rng.randint(5, STEPS_PER_SESSION))
            session.kill(victim, rng)
    train_to_the_end(run, world_sizes[-1], steps, tmp_path / f"pairs-{len(world_sizes) - 1}")
    first_steps = [session["step"] for session in read_sessions(run)]
    used: dict[int, Counter[int]] = {}
    for number, last in enumerate([*first_steps[1:], steps]):
        for path in tmp_path.glob(f"pairs-{number}-*"):
            for row in map(json.loads, path.read_text().splitlines()):
                if row["step"] <= last:  # later steps were lost, and repeated by the next session
                    used.setdefault(row["epoch"], Counter()).update(row["pairs"])
    n_epochs = max(used)
    assert n_epochs > 0 and len(set(first_steps)) == len(world_sizes)
    for epoch in range(n_epochs):
        assert used[epoch] == Counter(range(N_PAIRS)), f"epoch {epoch}"
