"""Time implementations of the same workload in interleaved rounds, each in a process of its own.

Interleaving spreads a slow moment of the machine over all implementations. Separate processes keep the threads, memory
and settings of one implementation from affecting the others.
"""

import signal
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import torch

from transformer.device import Device, configure_cuda
from transformer.errors import install_command
from transformer.progress import progress_bar
from transformer.training.memory import peak_memory

FORKSERVER = get_context("forkserver")  # its server imports PyTorch and torch._dynamo once for all
FORKSERVER.set_forkserver_preload(["transformer.bench.benchmarks", "torch._dynamo"])

WARM_UP_ROUNDS = 2
"""Rounds before the timed ones, in which peak memory is measured; from the second one on, Adam has its state."""
NOT_INSTALLED = f"not installed: {install_command('bench')}"

Result = TypeVar("Result")
Workload = Callable[[int], float]
"""Runs the round with this number, from 0, and returns how much it processed, in the benchmark's unit."""


@dataclass(frozen=True)
class BenchmarkOptions:
    """Where benchmarks run and how large they are."""

    device: Device
    threads: int
    compiled: bool = False
    """Compile the models that are trained."""
    quick: bool = False
    """Make everything so small that all benchmarks take seconds: to see that they work, not how fast anything is."""

    def size(self, full: int, quick: int) -> int:
        """Return one of the two sizes."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Implementation:
    """One way to process the workload of a benchmark."""

    name: str
    prepare: Callable[[], Workload]
    """A picklable function that imports and builds what the rounds need, untimed, in the new process."""
    memory: bool = False
    """Whether to report the peak memory too."""


@dataclass(frozen=True)
class Benchmark:
    """A workload and its implementations; the others are compared with the first."""

    name: str
    title: str
    """One line that describes the workload."""
    unit: str
    """What is counted per second."""
    implementations: list[Implementation]
    facts: dict[str, Any] = field(default_factory=dict)
    """What is known of a training step, for `report.step_table`."""


@dataclass
class Measurement:
    """The results of one implementation."""

    name: str
    speeds: list[float] = field(default_factory=list)
    """The speed in each round, in the benchmark's unit."""
    peak_memory: int | None = None
    """Bytes."""
    error: str = ""
    """Why nothing was measured."""

    @property
    def speed(self) -> float:
        """The median over the rounds; NaN if nothing was measured."""
        return statistics.median(self.speeds or [float("nan")])


def timed(device: Device, function: Callable[[], Result]) -> tuple[float, Result]:
    """Call a function; return the seconds until the device has finished what it queued, and the function's result."""
    device.synchronize()
    start = time.perf_counter()
    result = function()
    device.synchronize()
    return time.perf_counter() - start, result


def run(benchmark: Benchmark, options: BenchmarkOptions, rounds: int, progress: bool = True) -> list[Measurement]:
    """Run a benchmark with ``rounds`` timed rounds and return a measurement per implementation, in order.

    An implementation that fails doesn't stop the others.
    """
    rows = {implementation: Measurement(implementation.name) for implementation in benchmark.implementations}
    bar = progress_bar(benchmark.name, (rounds + 1) * len(rows), shown=progress, unit="round")
    workers: dict[Implementation, Worker] = {}
    with bar, ExitStack() as stack:
        for number in range(rounds + 1):  # in round 0 the processes start and warm up
            for implementation, row in rows.items():
                bar.set_postfix_str(implementation.name)
                try:
                    if number == 0:
                        worker = stack.enter_context(closing(Worker(implementation, options)))
                        workers[implementation] = worker
                        peak = int(worker.receive())
                        row.peak_memory = peak if implementation.memory else None
                    elif not row.error:
                        row.speeds.append(workers[implementation].run_round())
                except ModuleNotFoundError:
                    row.error = NOT_INSTALLED
                except Exception as error:
                    row.speeds, row.peak_memory = [], None
                    reason = str(error).strip() or type(error).__name__
                    row.error = f"failed: {reason.splitlines()[0][:80]}"
                bar.update()
    return list(rows.values())


class Worker:
    """An implementation in a process of its own.

    It sends the peak memory of the warm-up rounds in bytes as soon as it is ready for the timed ones.
    """

    def __init__(self, implementation: Implementation, options: BenchmarkOptions) -> None:
        self.connection, other_end = FORKSERVER.Pipe()
        arguments = (other_end, implementation.prepare, options)
        self.process = FORKSERVER.Process(target=_serve, args=arguments, daemon=True)
        self.process.start()
        other_end.close()  # so that the end of the process closes the connection

    def run_round(self) -> float:
        """Run a timed round and return the speed, in the benchmark's unit."""
        with suppress(ConnectionError):  # the process has died; `receive` will report it
            self.connection.send("run")
        return self.receive()

    def receive(self) -> float:
        """Return what the process sends: the peak memory, or the speed of a round.

        Raises:
            ModuleNotFoundError: if a package is not installed.
            RuntimeError: if the process dies, for example for lack of memory.
            Exception: whatever the workload raises.
        """
        try:
            reply = self.connection.recv()
        except (EOFError, ConnectionError) as error:
            raise RuntimeError("its process died") from error
        if isinstance(reply, Exception):
            raise reply
        return float(reply)

    def close(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.join()


def _serve(connection: Connection, prepare: Callable[[], Workload], options: BenchmarkOptions) -> None:
    """In the new process: prepare, warm up, then run a round each time that the benchmark asks for one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the benchmark, which then ends this process
    torch.set_num_threads(options.threads)
    if options.device.type == "cuda":
        configure_cuda(options.device.tf32)  # the settings of the benchmark's own process don't hold here
    try:
        workload = prepare()
        connection.send(peak_memory(lambda: [workload(number) for number in range(WARM_UP_ROUNDS)], options.device))
        for number in count(WARM_UP_ROUNDS):
            connection.recv()
            seconds, amount = timed(options.device, partial(workload, number))
            connection.send(amount / seconds)
    except EOFError:
        pass  # the benchmark is over
    except Exception as error:
        connection.send(error)
