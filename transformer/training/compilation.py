"""Compile a module with ``torch.compile``, in all processes or in none."""

import sys
import warnings
from collections.abc import Callable

import torch
from torch import nn

from transformer.training.distributed import DistributedContext


def compile_or_explain(module: nn.Module, run: Callable[[], object], context: DistributedContext) -> None:
    """Compile a module in place; if that fails, print why, and leave the module as it was.

    PyTorch compiles the forward pass when it is first used, and the backward pass likewise. Both are run here, before
    training: DistributedDataParallel does not survive a backward pass that fails in one of its processes.

    Args:
        module: the module to compile, by its method ``compile``.
        run: runs the forward and the backward pass of the module.
        context: all processes must call this; if compilation fails in one of them, none uses it.

    Raises:
        Exception: what ``run`` raises without compilation, because then compilation isn't the cause.
    """
    # By default, sizes that are equal in the first batch, such as the lengths of source and target, have to stay equal;
    # the first batch in which they differ would be compiled again.
    torch.fx.experimental._config.use_duck_shape = False
    module.compile(dynamic=True)
    reason = ""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")  # PyTorch's own
            run()
    except Exception as error:
        lines = [line for line in str(error).strip().splitlines() if line and not line.endswith("raised:")]
        reason = (lines or [type(error).__name__])[0][:200]
    (failures,) = context.all_reduce([bool(reason)])
    if not failures:
        return
    for part in module.modules():
        part._compiled_call_impl = None  # undoes nn.Module.compile
    if reason:  # only now, because the error holds the memory of the attempt
        run()
    if context.is_main:
        reason = reason or f"{failures:.0f} of {context.world_size} processes could not compile it"
        print(f"compilation failed, so training runs uncompiled, which is slower: {reason}", file=sys.stderr)
