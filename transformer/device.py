"""The one place that decides where a model runs and in which precision."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch

from transformer.errors import UserError

DeviceName = Literal["auto", "cpu", "cuda", "mps"]


@dataclass(frozen=True)
class Device:
    """A device and its precision."""

    device: torch.device
    autocast_dtype: torch.dtype | None
    """Matrix products run in this type; None: everything in fp32."""

    def autocast(self) -> AbstractContextManager[object]:
        """A context in which the model runs in this device's precision."""
        return nullcontext() if self.autocast_dtype is None else torch.autocast(self.device.type, self.autocast_dtype)

    def __str__(self) -> str:
        precision = "fp32" if self.autocast_dtype is None else str(self.autocast_dtype).removeprefix("torch.")
        name = torch.cuda.get_device_name() if self.device.type == "cuda" else self.device.type
        return f"{name}, {precision}"


def choose_device(name: DeviceName = "auto") -> Device:
    """The fastest device at hand, or the one asked for; bfloat16 where a GPU has it.

    Raises:
        UserError: if the one asked for is not there.
    """
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    chosen = next(n for n, is_there in there.items() if is_there) if name == "auto" else name
    if not there[chosen]:
        raise UserError(f"this machine has no {chosen} device that PyTorch can use; try --device cpu")
    bf16 = chosen == "cuda" and torch.cuda.is_bf16_supported()
    return Device(torch.device(chosen), torch.bfloat16 if bf16 else None)
