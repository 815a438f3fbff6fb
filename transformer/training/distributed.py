"""Data-parallel training: one process per GPU, started by ``torchrun``. A single process needs none of it."""

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from transformer.device import Device
from transformer.errors import UserError

PARENT_CHECK_SECONDS = 1.0
"""How often a process checks whether its parent is still alive."""
STOP_SECONDS = 5.0
"""How long it may take to save and stop when its parent is dead."""


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

        The numbers go from CPU to CPU, by Gloo, so no process has to wait for its GPU.
        """
        if self.world_size == 1:
            return list(numbers)
        total = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(total)
        return total.tolist()

    def all_gather(self, tensor: Tensor) -> Tensor:
        """Return the tensors of all processes, which have the same shape: (world_size, …). All must call this.

        The tensors are on the CPU, as those of `all_reduce`.
        """
        if self.world_size == 1:
            return tensor[None]
        gathered = [torch.empty_like(tensor) for _ in range(self.world_size)]
        dist.all_gather(gathered, tensor)
        return torch.stack(gathered)


def is_main_process() -> bool:
    """Return whether this process is the one that prints; known even before `init_distributed`."""
    return os.environ.get("RANK", "0") == "0"


def get_world_size() -> int:
    """Return the number of processes that train together; known even before `init_distributed`."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def stop_with_parent() -> None:
    """Stop this process if the one that started it, such as ``torchrun``, dies without being able to stop it.

    The process gets SIGTERM, as from ``torchrun``, so that it saves a checkpoint; if that takes too long, it exits.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(STOP_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def init_distributed(device: Device) -> Iterator[DistributedContext]:
    """Connect to the other processes that ``torchrun`` has started, if any, and disconnect at the end.

    Raises:
        UserError: if another process dies in the meantime.
    """
    world_size = get_world_size()
    if world_size == 1:
        yield DistributedContext()
        return
    timeout = timedelta(minutes=30)
    if device.type == "cuda":
        gpu = torch.device("cuda", torch.cuda.current_device())
        dist.init_process_group("cpu:gloo,cuda:nccl", timeout=timeout, device_id=gpu)
    else:
        dist.init_process_group("gloo", timeout=timeout)
    try:
        yield DistributedContext(dist.get_rank(), world_size)
    except RuntimeError as error:
        message = str(error)
        if "gloo" in message.lower() or "nccl" in message.lower() or "Connection" in message:
            raise UserError(
                f"another of the {world_size} processes has died ({message.splitlines()[0][:100]}); "
                "run the same command again to resume from the last checkpoint"
            ) from error
        raise
    finally:
        dist.destroy_process_group()
