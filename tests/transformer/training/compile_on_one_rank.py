"""Train in two processes of which one cannot compile, and in two that don't try; run by test_distributed.

``python -m tests.transformer.training.compile_on_one_rank FOLDER`` prints whether the weights are the same, as JSON,
and on stderr what the processes print.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from tests.transformer.training.compare_processes import SHAPE, TRAINING, prepare_data, run, run_distributed
from transformer.training import loop, trainer

CONFIG = replace(TRAINING, steps=3, validate_every=3)


class BackwardFails(torch.autograd.Function):
    """Computes nothing, and fails in the backward pass, as compiled code may."""

    @staticmethod
    def forward(ctx: object, loss: torch.Tensor) -> torch.Tensor:
        return loss.clone()

    @staticmethod
    def backward(ctx: object, *upstream: torch.Tensor) -> None:
        raise RuntimeError("no kernel\nfor this GPU")


def fail_in_backward(module: nn.Module) -> Callable[..., object]:
    """Return the module's function, with a backward pass that fails if the module returns a tensor."""

    def forward(*inputs: object, **options: object) -> object:
        result = module(*inputs, **options)
        return BackwardFails.apply(result) if isinstance(result, torch.Tensor) else result

    return forward


def compile_unless_rank_1(module: nn.Module, dynamic: bool) -> object:
    """Stand in for torch.compile: rank 0 succeeds, and rank 1 fails in the backward pass."""
    return fail_in_backward(module) if os.environ.get("RANK") == "1" else module


def main(folder: Path) -> None:
    prepare_data()
    run_distributed(folder / "eager", CONFIG, 2)
    original = trainer.Trainer.__init__
    torch.compile = compile_unless_rank_1  # type: ignore[assignment]
    loop.Trainer.__init__ = lambda self, *args: original(self, *args[:5], True)  # type: ignore[method-assign]
    run_distributed(folder / "compiled", CONFIG, 2)
    loop.Trainer.__init__ = original  # type: ignore[method-assign]
    eager, compiled = (run(folder / name, CONFIG) for name in ("eager", "compiled"))  # are finished: this loads them
    assert eager.config == SHAPE
    same = all(map(torch.equal, eager.parameters(), compiled.parameters()))
    print(json.dumps({"same": same}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
