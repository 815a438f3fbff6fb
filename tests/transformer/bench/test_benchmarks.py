"""Benchmarks run each implementation in a process of its own, in turn, and report what was measured and what failed."""

import json
import multiprocessing
import os
import re
from dataclasses import replace
from functools import partial
from itertools import count, islice
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
import torch

from transformer.bench import runner
from transformer.bench.benchmarks import BENCHMARKS
from transformer.bench.report import table
from transformer.bench.runner import (
    NOT_INSTALLED,
    WARM_UP_ROUNDS,
    Benchmark,
    BenchmarkOptions,
    Implementation,
    Measurement,
    Worker,
    Workload,
    run,
)
from transformer.cli import main
from transformer.device import Device, choose_device
from transformer.errors import UserError
from transformer.provenance import provenance

pytestmark = pytest.mark.slow

QUICK = BenchmarkOptions(choose_device("cpu"), threads=1, quick=True)


@pytest.fixture
def without_ctranslate2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """CTranslate2 cannot be imported in any process, even where it is installed."""
    (tmp_path / "ctranslate2.py").write_text("raise ModuleNotFoundError")
    monkeypatch.syspath_prepend(tmp_path)


def test_the_command_measures_everything(
    without_ctranslate2: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    output = tmp_path / "bench.json"
    main(["bench", "--quick", "--rounds", "1", "--device", "cpu", "--threads", "1", "--output", str(output)])
    printed, written = capsys.readouterr().out, json.loads(output.read_text())
    assert {*provenance("cpu"), "rounds", "quick", "benchmarks"} == set(written)
    assert [benchmark["name"] for benchmark in written["benchmarks"]] == list(BENCHMARKS)
    for record in written["benchmarks"]:
        benchmark = BENCHMARKS[record["name"]](QUICK)
        rows = [Measurement(**row) for row in record["implementations"]]
        assert record["title"] == benchmark.title and record["title"] in printed
        assert [row.name for row in rows] == [one.name for one in benchmark.implementations]
        for row, implementation in zip(rows, benchmark.implementations, strict=True):
            assert f"| {row.name} " in printed
            if row.error:  # only packages of the extra may be missing
                assert row.error == NOT_INSTALLED and re.search("Marian|CTranslate2", row.name)
            else:
                assert len(row.speeds) == 1 and row.speed > 0
            assert (row.peak_memory or 0) >= 0 and (row.peak_memory is not None) == implementation.memory
        if record["name"] in ("beam", "beam-long", "beam-short"):
            missing = next(line for line in printed.splitlines() if line.startswith("| CTranslate2"))
            assert NOT_INSTALLED in missing


@pytest.mark.parametrize(
    ("error", "told"),
    [(ModuleNotFoundError("no x"), NOT_INSTALLED), (ImportError("x has no name y"), "failed: x has no name y")],
)
def test_only_a_package_that_is_not_there_is_not_installed(
    error: Exception, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare() -> Workload:
        raise error

    monkeypatch.setattr(runner, "Worker", InProcess)
    (row,) = run(Benchmark("a", "", "", [Implementation("x", prepare)]), QUICK, rounds=1, progress=False)
    assert row.error == told


@pytest.mark.parametrize("name", ["beam", "beam-long", "beam-short", "greedy", "int8"])
def test_translations_of_one_length_are_compared(name: str) -> None:
    assert len({one.prepare.args[1] for one in BENCHMARKS[name](QUICK).implementations}) == 1  # type: ignore[attr-defined]


def prepare_facts(path: Path) -> Workload:
    def work(number: int) -> float:
        path.write_text(f"{os.getpid()} {torch.get_num_threads()}")
        return 1.0

    return work


def prepare_death() -> Workload:
    return lambda number: os._exit(1)


def test_a_worker_is_a_process_of_its_own(tmp_path: Path) -> None:
    options = replace(QUICK, threads=torch.get_num_threads() + 1)
    worker = Worker(Implementation("ours", partial(prepare_facts, tmp_path / "facts")), options)
    assert worker.receive() >= 0 and worker.run_round() > 0
    pid, threads = map(int, (tmp_path / "facts").read_text().split())
    assert pid != os.getpid() and psutil.pid_exists(pid) and threads == options.threads
    worker.close()
    assert not psutil.pid_exists(pid)


def test_a_worker_configures_its_gpu_before_it_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of the benchmark's own process, such as TensorFloat-32, don't hold in another one."""
    done: list[object] = []
    monkeypatch.setattr(runner, "configure_cuda", lambda tf32: done.append(tf32))
    ours, theirs = multiprocessing.Pipe()
    device = Device(torch.device("cuda"), tf32=True)

    def prepare() -> Workload:
        done.append("prepared")
        raise RuntimeError("no GPU here")

    runner._serve(theirs, prepare, BenchmarkOptions(device, torch.get_num_threads()))
    assert done == [True, "prepared"] and str(ours.recv()) == "no GPU here"


def test_a_process_that_dies_is_reported_and_the_others_continue(tmp_path: Path) -> None:
    implementations = [
        Implementation("ours", partial(prepare_facts, tmp_path / "facts")),
        Implementation("theirs", prepare_death),
    ]
    ours, theirs = run(Benchmark("any", "", "", implementations), QUICK, rounds=2, progress=False)
    assert len(ours.speeds) == 2 and not ours.error
    assert theirs == Measurement("theirs", error="failed: its process died")


def allocate(size: int) -> Workload:
    """A workload that uses twice its size in bytes, of which one half was there before."""
    before = torch.zeros(size, dtype=torch.uint8)
    return lambda number: len(before.clone())


def test_peak_memory_is_that_of_the_workload() -> None:
    size = 50 * 2**20
    implementation = Implementation("ours", partial(allocate, size), memory=True)
    (row,) = run(Benchmark("any", "", "", [implementation]), QUICK, rounds=1, progress=False)
    assert row.peak_memory == size


class InProcess:
    """Replaces a worker: the implementation works in this process."""

    def __init__(self, implementation: Implementation, options: BenchmarkOptions) -> None:
        self.workload = implementation.prepare()
        self.numbers = count()

    def receive(self) -> float:
        for number in islice(self.numbers, WARM_UP_ROUNDS):
            self.workload(number)
        return 2**20

    def run_round(self) -> float:
        return self.workload(next(self.numbers))

    def close(self) -> None:
        pass


def test_rounds_are_interleaved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "Worker", InProcess)
    done: list[tuple[str, int]] = []

    def implementation(name: str) -> Implementation:
        return Implementation(name, lambda: lambda number: done.append((name, number)) or 1.0)

    names = ("ours", "theirs")
    run(Benchmark("any", "", "", [implementation(name) for name in names]), QUICK, rounds=2, progress=False)
    assert done[:4] == [(name, number) for name in names for number in range(WARM_UP_ROUNDS)]
    assert done[4:] == [(name, number + WARM_UP_ROUNDS) for number in range(2) for name in names]


def test_a_failure_is_reported_and_the_others_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "Worker", InProcess)

    def prepare(failing: int) -> Workload:
        def work(number: int) -> float:
            if number == failing:
                raise torch.OutOfMemoryError("CUDA out of memory\nand more")
            return 1.0

        if failing < 0:
            work(failing)
        return work

    failing = {"ours": 9, "in a timed round": 3, "in a warm-up round": 0, "prepared": -1}
    implementations = [Implementation(name, partial(prepare, number)) for name, number in failing.items()]
    rows = run(Benchmark("any", "", "", implementations), QUICK, rounds=2, progress=False)
    assert len(rows[0].speeds) == 2
    for row in rows[1:]:
        assert row == Measurement(row.name, error="failed: CUDA out of memory")
        assert f"| {row.error}" in table(rows, "")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("fp16 is not supported"), "fp16 is not supported"),
        (UserError("no"), "no"),
        (RuntimeError(""), "RuntimeError"),
    ],
)
def test_any_error_is_reported_and_the_others_continue(
    error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "Worker", InProcess)

    def fail() -> Workload:
        raise error

    implementations = [Implementation("theirs", fail), Implementation("ours", lambda: lambda number: 1.0)]
    theirs, ours = run(Benchmark("any", "", "", implementations), QUICK, rounds=1, progress=False)
    assert theirs == Measurement("theirs", error=f"failed: {reason}") and len(ours.speeds) == 1


def test_the_table_compares_with_the_first_implementation() -> None:
    rows = [
        Measurement("ours", [100.0, 200.0, 400.0], 3 * 2**20),
        Measurement("theirs", [50.0, 200.0, 100.0], 9 * 2**20),
        Measurement("without memory", [25.0, 50.0, 25.0]),
        Measurement("missing", error=NOT_INSTALLED),
    ]
    lines = table(rows, "tokens/s").splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert cells[0] == ["implementation", "tokens/s", "relative time", "peak memory", "relative memory"]
    assert cells[2:] == [
        ["ours", "200", "1.00 ×", "3 MiB", "1.00 ×"],
        ["theirs", "100", "2.00 ×", "9 MiB", "3.00 ×"],
        ["without memory", "25.0", "4.00 ×", "", ""],
        ["missing", NOT_INSTALLED, "", "", ""],
    ]
    *_, theirs = table([Measurement("ours", error="failed: x"), rows[1]], "tokens/s").splitlines()
    assert [cell.strip() for cell in theirs.split("|")[1:-1]] == ["theirs", "100", "", "9 MiB", ""]
