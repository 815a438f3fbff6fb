"""Compile a module with ``torch.compile``, in all processes or in none."""

import sys
import warnings
from collections.abc import Callable

import torch
from torch import nn
from torch.fx.experimental import _config as fx_config

from transformer.training.distributed import DistributedContext

MAX_RATIO = 2.0
"""How much the norms of the compiled and the uncompiled gradient may differ; correct ones differ by rounding only."""


def compile_with_fallback(module: nn.Module, gradient_norm: Callable[[], float], context: DistributedContext) -> None:
    """Compile a module in place; if that fails in any process, print why, and leave it uncompiled in all.

    PyTorch compiles the forward and the backward pass when each is first used. Both are run here, before training:
    DistributedDataParallel does not survive a backward pass that fails in one of its processes. The norms of the
    gradients are compared, because PyTorch 2.11 compiled an earlier form of our loss to gradients of zero, without an
    error.

    Args:
        module: the module to compile, by its method ``compile``.
        gradient_norm: runs the forward and the backward pass of the module, and returns the norm of the gradient.
        context: all processes must call this; if compilation fails in one of them, none uses it.

    Raises:
        Exception: what ``gradient_norm`` raises without compilation.
    """
    expected, reason = gradient_norm(), ""
    # By default, sizes that are equal in the first batch, such as the lengths of source and target, have to stay equal;
    # the first batch in which they differ would cause a recompilation.
    fx_config.use_duck_shape = False
    torch._dynamo.config.specialize_float = True  # such as √d_model: otherwise, everything is traced twice
    torch._dynamo.config.optimize_ddp = False  # it would split the graph, and compilation would fail
    inductor = torch._inductor.config
    inductor.fallback_random = True  # dropout draws the same random numbers as in eager mode, and isn't slower
    if hasattr(inductor.triton, "mix_order_reduction"):  # in PyTorch 2.11, but not yet in 2.9
        # Newer versions combine two sums in the backward pass of a layer norm. For the base model on an H200, that took
        # twice as long. And whether they do depends on the size of the batch, so the first small one, with the last
        # few pairs of an epoch, would cause a recompilation.
        inductor.triton.mix_order_reduction = False
    module.compile(dynamic=True)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")  # PyTorch's own
            norm = gradient_norm()
        if not expected / MAX_RATIO <= norm <= expected * MAX_RATIO:
            reason = f"the gradient is wrong: its norm is {norm:.3g}, but {expected:.3g} uncompiled"
    except Exception as error:
        lines = [line for line in str(error).strip().splitlines() if line and not line.endswith("raised:")]
        reason = (lines or [type(error).__name__])[0][:200]
    (failures,) = context.all_reduce([bool(reason)])
    if not failures:
        return
    for part in module.modules():
        part._compiled_call_impl = None  # undoes nn.Module.compile
    if context.is_main:
        reason = reason or f"{failures:.0f} of {context.world_size} processes could not compile it"
        print(f"compilation failed, so training runs uncompiled, which is slower: {reason}", file=sys.stderr)
