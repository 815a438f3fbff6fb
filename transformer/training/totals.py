"""Sums over training steps that stay on the device until they are needed."""

import torch
from torch import Tensor


class DeviceTotals:
    """The loss and its number of tokens, summed on the device, and how many steps in a row were skipped.

    A GPU works through what the host has queued for it. To read a number from it, the host has to wait until the GPU
    has caught up, and then the GPU has to wait until the host has queued more. So a training step reads nothing, and
    these sums are read when a row is logged, a validation starts or a checkpoint is saved.
    """

    def __init__(self, device: torch.device) -> None:
        dtype = torch.float32 if device.type == "mps" else torch.float64  # MPS has no float64
        self.loss, self.tokens, self.skipped_steps = torch.zeros(3, dtype=dtype, device=device).unbind()

    def add(self, loss: Tensor, n_tokens: int, is_finite: Tensor) -> None:
        """Add a step.

        Args:
            loss: the loss of the step, summed over this process's target tokens; a scalar.
            n_tokens: the number of target tokens of the step, in all processes.
            is_finite: a bool scalar: whether the gradient is finite. If not, the step was skipped, and is only counted.
        """
        self.loss += loss.where(is_finite, 0)
        self.tokens += n_tokens * is_finite
        self.skipped_steps.add_(1).mul_(~is_finite)

    def read(self) -> tuple[float, int, int]:
        """Return the loss and the tokens since the last call, and how many steps in a row were skipped up to now."""
        loss, tokens, skipped_steps = torch.stack([self.loss, self.tokens, self.skipped_steps]).tolist()
        self.loss.zero_()
        self.tokens.zero_()
        return loss, int(tokens), int(skipped_steps)
