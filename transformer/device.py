"""The one place that decides where a model runs and in which precision."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch

from transformer.errors import UserError

DeviceName = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["auto", "fp32", "bf16", "fp16"]

DTYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Device:
    """A device and its precision."""

    device: torch.device
    autocast_dtype: torch.dtype | None = None
    """Matrix products run in this type; None: everything in fp32."""
    reason: str = "as asked for"
    """Why it was chosen."""

    def autocast(self) -> AbstractContextManager[object]:
        """A context in which the model runs in this device's precision."""
        return nullcontext() if self.autocast_dtype is None else torch.autocast(self.device.type, self.autocast_dtype)

    def scaler(self) -> torch.amp.GradScaler:
        """What keeps small gradients from vanishing in fp16, by scaling the loss; elsewhere it does nothing."""
        return torch.amp.GradScaler(self.device.type, enabled=self.autocast_dtype == torch.float16)

    def synchronize(self) -> None:
        """Wait until the device has finished the work queued on it. A GPU runs asynchronously, the CPU doesn't."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        elif self.device.type == "mps":
            torch.mps.synchronize()

    def __str__(self) -> str:
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else self.device.type
        precision = next(name for name, dtype in DTYPES.items() if dtype == self.autocast_dtype)
        return f"{name} in {precision} ({self.reason})"


def choose_device(name: DeviceName = "auto", precision: Precision = "auto") -> Device:
    """The fastest device at hand and the fastest precision that trains safely on it, or those asked for.

    A GPU runs bfloat16 if it computes in it (NVIDIA Ampere and later), or else float16, which needs a scaled loss; MPS
    and the CPU run float32.

    Raises:
        UserError: if what is asked for is not there.
    """
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    chosen = next(n for n, is_there in there.items() if is_there) if name == "auto" else name
    if not there[chosen]:
        raise UserError(f"this machine has no {chosen} device that PyTorch can use; try --device cpu")
    has_bf16 = chosen != "cuda" or torch.cuda.get_device_capability() >= (8, 0)
    if precision == "bf16" and not has_bf16:
        raise UserError("this GPU does not compute in bfloat16; try --precision fp16")
    why_device = "the fastest device here" if name == "auto" else "the device asked for"
    if precision == "auto":
        precision = "fp32" if chosen != "cuda" else "bf16" if has_bf16 else "fp16"
        why_precision = {
            "fp32": "the safe precision there",
            "bf16": "which computes in bfloat16",
            "fp16": "too old for bfloat16",
        }[precision]
    else:
        why_precision = "the precision asked for"
    return Device(torch.device(chosen), DTYPES[precision], f"{why_device}; {why_precision}")
