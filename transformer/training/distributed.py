"""Data-parallel training: one process per GPU, started by ``torchrun``. A single process needs none of it."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from transformer.device import Device
from transformer.errors import UserError


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


def is_main_process() -> bool:
    """Return whether this process is the one that prints; known even before `init_distributed`."""
    return os.environ.get("RANK", "0") == "0"


def get_world_size() -> int:
    """Return the number of processes that train together; known even before `init_distributed`."""
    return int(os.environ.get("WORLD_SIZE", "1"))


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
