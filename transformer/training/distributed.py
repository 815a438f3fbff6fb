"""Several processes that train one model, a GPU each: what `torchrun` starts. Alone, all of this does nothing."""

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
class ProcessGroup:
    """This process among those that train together."""

    rank: int
    """Its number, from 0."""
    world_size: int
    """How many there are."""
    device: torch.device
    """Where its tensors are."""

    @property
    def is_main(self) -> bool:
        """Whether it is the one that writes and talks."""
        return self.rank == 0

    def all_reduce(self, numbers: Sequence[float]) -> list[float]:
        """Each number's sum over all processes. All must call this, and wait for the last."""
        if self.world_size == 1:
            return list(numbers)
        total = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return [float(number) for number in total]


def is_main_process() -> bool:
    """Whether this process is the one that talks, even before it has met the others."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def init_distributed(device: Device) -> Iterator[ProcessGroup]:
    """Meet the others that `torchrun` started, if it did, and leave them at the end.

    Raises:
        UserError: if another of them dies meanwhile.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield ProcessGroup(0, 1, device.device)
        return
    gpus = device.device.type == "cuda"
    if gpus:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if gpus else "gloo", timeout=timedelta(minutes=30))
    try:
        yield ProcessGroup(dist.get_rank(), count, device.device)
    except RuntimeError as error:
        if "gloo" in str(error).lower() or "nccl" in str(error).lower() or "Connection" in str(error):
            raise UserError(
                f"another of the {count} processes is gone ({str(error).splitlines()[0][:100]}); "
                "the same command goes on from the last checkpoint"
            ) from error
        raise
    finally:
        dist.destroy_process_group()
