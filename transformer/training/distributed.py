"""Data-parallel training: one process per GPU, started by ``torchrun``. A single process needs none of it."""

import os
import re
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from transformer.device import Device
from transformer.errors import UserError, quote


@dataclass(frozen=True)
class DistributedContext:
    """Which process this is among those that train one model together."""

    rank: int = 0
    """The number of this process, from 0."""
    world_size: int = 1
    """The number of processes."""

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.rank == 0

    def all_reduce(self, numbers: Sequence[float]) -> list[float]:
        """Return the sum of each number over all processes. All must call this; each waits for the last one.

        The numbers go from CPU to CPU, via Gloo, so no process has to wait for its GPU.
        """
        if self.world_size == 1:
            return list(numbers)
        total = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(total)
        return total.tolist()

    def all_gather(self, tensor: Tensor) -> Tensor:
        """Return the tensors of all processes, which have the same shape: (world_size, …). All must call this.

        The tensors are on the CPU, as in `all_reduce`.
        """
        if self.world_size == 1:
            return tensor[None]
        gathered = [torch.empty_like(tensor) for _ in range(self.world_size)]
        dist.all_gather(gathered, tensor)
        return torch.stack(gathered)


def is_main_process() -> bool:
    """Return whether this process is the one that prints; known even before `init_distributed`."""
    return get_world_size() == 1 or os.environ.get("RANK", "0") == "0"


def get_world_size() -> int:
    """Return the number of processes that train together; known even before `init_distributed`."""
    return _torchrun_variable("WORLD_SIZE", smallest=1)


def _torchrun_variable(name: str, smallest: int) -> int:
    """Return a variable that ``torchrun`` sets for its processes.

    Without ``torchrun`` it is ``smallest``, which is right for a single process.

    Raises:
        UserError: if it isn't a whole number of at least ``smallest``.
    """
    value = os.environ.get(name, f"{smallest}")
    if not re.fullmatch("[0-9]{1,9}", value) or int(value) < smallest:
        raise UserError(f"the environment variable {name} must be a number, as torchrun sets it; got {quote(value)}")
    return int(value)


@contextmanager
def init_distributed(device: Device) -> Iterator[DistributedContext]:
    """Connect to the other processes that ``torchrun`` has started, if any, and disconnect at the end.

    After an error, this process doesn't disconnect, since NCCL would wait for the others, which may never come.

    Raises:
        UserError: if ``torchrun``'s variables, such as RANK, are missing or invalid, if it has died, or if another
            process dies in the meantime.
    """
    world_size = get_world_size()
    if world_size == 1:
        yield DistributedContext()
        return
    if missing := [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]:
        raise UserError(
            f"WORLD_SIZE is {world_size}, but {', '.join(missing)} is not set: start several processes with torchrun"
        )
    if _torchrun_variable("RANK", smallest=0) >= world_size:
        raise UserError(f"RANK must be less than WORLD_SIZE, which is {world_size}; got {os.environ['RANK']}")
    _check_torchrun()
    timeout = timedelta(minutes=30)
    with _signals_end_process():
        if device.type == "cuda":
            gpu = torch.device("cuda", torch.cuda.current_device())
            dist.init_process_group("cpu:gloo,cuda:nccl", timeout=timeout, device_id=gpu)
        else:
            dist.init_process_group("gloo", timeout=timeout)
    try:
        yield DistributedContext(dist.get_rank(), world_size)
        dist.destroy_process_group()
    except KeyboardInterrupt:  # training was stopped, in all processes after the same step
        dist.destroy_process_group()
        raise
    except RuntimeError as error:
        message = str(error)
        if "gloo" in message.lower() or "nccl" in message.lower() or "Connection" in message:
            # Ignore torchrun's SIGTERM, so that this process ends with its own message.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            raise UserError(
                f"another process has died ({_without_source(message)}); "
                "run the same command again to resume from the last checkpoint"
            ) from error
        raise


@contextmanager
def _signals_end_process() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end this process at once while it waits for the others, with nothing to clean up.

    Python would run its handlers only after the wait. Without this, ``torchrun``, which stops all processes when one
    has failed, would kill the others only after its 30 seconds of patience.
    """
    handlers: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():  # only there can handlers be installed
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                handlers[number] = signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _without_source(message: str) -> str:
    """Return the first line of an error of gloo or NCCL, without the file of PyTorch's source that it comes from."""
    return re.sub(r"^\[/\S+\] ", "", message.splitlines()[0])[:100]


def _check_torchrun() -> None:
    """Check that ``torchrun``, through which the processes find each other, has not died while they were starting.

    PyTorch would wait for it as long as for other processes, which may still be preparing data.

    Raises:
        UserError: if it doesn't answer.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    try:
        socket.create_connection(address, timeout=60).close()
    except OSError as error:
        raise UserError(f"torchrun has died, or cannot be reached at {address[0]}:{address[1]} ({error})") from None
