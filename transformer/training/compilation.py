"""Compile a module with ``torch.compile``, in all processes or in none."""

import sys
from collections.abc import Callable

import torch
from torch import nn

from transformer.training.distributed import DistributedContext


def compile_or_explain(module: nn.Module, run: Callable[[nn.Module], object], context: DistributedContext) -> nn.Module:
    """Return the compiled module, or print why compilation fails and return the module itself.

    PyTorch compiles the forward pass when it is first used, and the backward pass likewise. Both are run here, before
    training: DistributedDataParallel does not survive a backward pass that fails in one of its processes.

    Args:
        module: the module to compile.
        run: runs the forward and the backward pass of the module that it is given.
        context: all processes must call this; if compilation fails in one of them, none uses it.

    Raises:
        Exception: what ``run`` raises for the module itself, because then compilation isn't the cause.
    """
    torch._dynamo.config.optimize_ddp = False  # it would split the graph, and compilation would fail
    compiled: nn.Module = torch.compile(module, dynamic=True)  # type: ignore[assignment]
    reason = ""
    try:
        run(compiled)
    except Exception as error:
        lines = [line for line in str(error).strip().splitlines() if line and not line.endswith("raised:")]
        reason = (lines or [type(error).__name__])[0][:200]
    if reason:  # only now, because the error holds the memory of the attempt
        run(module)
    (failures,) = context.all_reduce([bool(reason)])
    if not failures:
        return compiled
    if context.is_main:
        reason = reason or f"{failures:.0f} of {context.world_size} processes could not compile it"
        print(f"compilation failed, so training runs uncompiled, which is slower: {reason}", file=sys.stderr)
    return module
