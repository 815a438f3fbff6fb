"""Several processes train as one does: the same steps, the same weights."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from transformer.checkpoint import step_checkpoints
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.prepare import DataConfig, prepare
from transformer.device import Device, choose_device
from transformer.errors import UserError
from transformer.training.distributed import DistributedContext, init_distributed, is_main_process
from transformer.training.trainer import Trainer

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent


def test_without_other_processes_the_rank_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setenv("RANK", "1")  # as some clusters set it
    assert is_main_process()


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "TRANSFORMER_DATA": str(folder / "data"), "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize(
    ("world_size", "accumulation_steps", "optimizer"),
    [(2, 2, "adam"), *(pytest.param(*case, marks=pytest.mark.soak) for case in ((2, 1, "muon"), (4, 1, "adam")))],
)
def test_n_processes_equal_one_with_n_times_the_accumulation_steps(
    world_size: int, accumulation_steps: int, optimizer: str, tmp_path: Path
) -> None:
    arguments = [tmp_path, str(world_size), str(accumulation_steps), optimizer]
    command = [sys.executable, HERE / "compare_processes.py", *arguments]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])  # PyTorch 2.9 prints lines of its own before it
    assert report["to_single"] < 1e-5 < report["to_larger"]
    assert report["to_fewer"] < 1e-5, "resumed in one process: the same steps"
    assert report["resumed"][0] == report["resumed"][1], "with dropout, bit for bit"
    for name in ("losses", "logged_losses", "saved_losses"):
        assert report[name][0] == pytest.approx(report[name][1], rel=1e-5)
    assert report["tokens"][0] == report["tokens"][1]
    more = report["more"]
    processes = (more["world_size"], more["gradient_accumulation_steps"])
    assert (more["step"], *processes) == (8, world_size, accumulation_steps)


def test_if_one_process_cannot_compile_none_does(tmp_path: Path) -> None:
    """They train on, and the steps are those of processes that don't compile."""
    command = [sys.executable, "-m", "tests.transformer.training.compile_on_one_rank", tmp_path]
    environ = environment(tmp_path)
    done = subprocess.run(command, env=environ, cwd=HERE.parents[2], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["same"]
    message = "compilation failed, so training runs uncompiled, which is slower: 1 of 2 processes could not compile it"
    assert done.stderr.count(message) == 1


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
    assert "another process has died" in errors and "resume from the last checkpoint" in errors
    assert step_checkpoints(run)


@pytest.fixture
def one_of_two(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A process that seems to be connected to another one; the list tells whether it has disconnected."""
    disconnected: list[str] = []
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda *_, **__: None)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: disconnected.append("yes"))
    return disconnected


def test_a_process_with_an_error_does_not_wait_for_the_others(one_of_two: list[str]) -> None:
    """With NCCL, disconnecting waits for all processes; these wait for the one with the error."""
    with pytest.raises(UserError, match="the disk is full"), init_distributed(choose_device("cpu")):
        raise UserError("the disk is full")
    assert one_of_two == []
    with pytest.raises(KeyboardInterrupt), init_distributed(choose_device("cpu")):
        raise KeyboardInterrupt
    assert one_of_two == ["yes"]
    with init_distributed(choose_device("cpu")):
        pass
    assert one_of_two == ["yes", "yes"]


def test_under_torchrun_an_error_ends_the_process_at_once(tmp_path: Path) -> None:
    """Not even what else is to be done at the exit is waited for."""
    code = "import atexit, time; atexit.register(time.sleep, 100); from transformer.cli import main; main()"
    command = [sys.executable, "-c", code, "translate", f"{tmp_path}/nothing", "Hello"]
    environment = os.environ | {"TORCHELASTIC_RUN_ID": "none"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90)
    assert ended.returncode == 2 and ended.stderr.startswith("error: ") and "nothing" in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_waits_for_the_others_can_be_stopped(number: int) -> None:
    """With a handler in Python it could not, because the wait is inside PyTorch; ``torchrun`` kills it after 30 s."""
    code = (
        "import signal\n"
        "from transformer.cli import exit_on_signals\n"
        "from transformer.device import choose_device\n"
        "from transformer.training.distributed import init_distributed\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a job in the background ignores it
        "exit_on_signals()\n"
        "with init_distributed(choose_device('cpu')): pass"
    )
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    keys = store.num_keys()
    variables = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": f"{store.port}"}
    with subprocess.Popen([sys.executable, "-c", code], env=os.environ | variables) as started:
        try:
            until = time.monotonic() + 60
            while store.num_keys() == keys and time.monotonic() < until:
                time.sleep(0.1)
            time.sleep(0.5)  # the key is that of a process that begins to wait
            started.send_signal(number)
            assert started.wait(10) == -number
        finally:
            started.kill()


def test_one_that_torchrun_stops_because_another_has_died_still_says_so(one_of_two: list[str]) -> None:
    """SIGTERM may come while the process is already ending by itself."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        with pytest.raises(UserError, match="another process has died"), init_distributed(choose_device("cpu")):
            raise RuntimeError("[gloo/transport/tcp/pair.cc] Connection closed by peer")
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.fixture
def alone_of_two(tmp_path: Path) -> Iterator[DistributedContext]:
    """A process that takes part in all communication of two, in a group of one."""
    torch.distributed.init_process_group("gloo", f"file://{tmp_path}/meet", rank=0, world_size=1)
    yield DistributedContext(0, 2)
    torch.distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore::UserWarning")  # of the profiler
def test_a_step_needs_one_small_all_reduce_and_that_of_the_gradient(
    alone_of_two: DistributedContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No buffer is broadcast, and what the processes tell each other goes from CPU to CPU."""
    monkeypatch.setenv("TRANSFORMER_DATA", str(tmp_path / "data"))
    data, config = prepare(DataConfig("copy", max_train_pairs=60), 57), TrainingConfig(batch_tokens=100)
    trainer = Trainer(ModelConfig(57, 8, 1, 8, 1, max_length=64), config, data, choose_device("cpu"), alone_of_two)
    for _ in range(2):  # DistributedDataParallel arranges the gradients anew after the first step
        trainer.step()
    told: list[torch.Tensor] = []
    all_reduce = torch.distributed.all_reduce
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda t: told.append(t) or all_reduce(t))
    with torch.profiler.profile() as profiler:
        for step in range(3):
            assert trainer.step(stop_requested=step == 2) == (step == 2)
    calls = {event.key: event.count for event in profiler.key_averages() if event.key.startswith("c10d::")}
    assert calls == {"c10d::allreduce_": 6} and len(told) == 3
    assert all(numbers.is_cpu and numbers.shape == (2,) for numbers in told)


def test_nccl_is_for_tensors_on_gpus_only(monkeypatch: pytest.MonkeyPatch) -> None:
    called: dict[str, object] = {}
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(
        torch.distributed, "init_process_group", lambda backend, **options: called.update(options, to=backend)
    )
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: called.update(ended=True))
    with init_distributed(Device(torch.device("cuda"))) as context:
        assert context == DistributedContext(1, 2)
    assert called["to"] == "cpu:gloo,cuda:nccl" and called["device_id"] == torch.device("cuda", 1) and called["ended"]


def test_a_single_process_needs_no_others() -> None:
    single = DistributedContext()
    assert single.is_main and single.all_reduce([2, 0.5]) == [2, 0.5]
