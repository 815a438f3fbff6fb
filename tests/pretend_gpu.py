"""A GPU that is none: a device called ``pretend``, where a forgotten ``.to(device)`` fails on machines without a GPU.

Its tensors are CPU tensors in a wrapper, and all is computed on the CPU, with the same numbers. What it has of a GPU is
what a GPU refuses: an operation that mixes its tensors with the CPU's, ``.numpy()``, a random generator of the CPU. It
is never faster, it has one precision, and it knows nothing of kernels, of streams, or of memory that is full.

    python -m tests.pretend_gpu chapters/12_decoding.py

runs a script as on a machine whose fastest device it is.
"""

import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

import transformer.device
import transformer.models
from transformer.device import Device

aten = torch.ops.aten
ACROSS = {aten.copy_, aten._to_copy}
"""These are there to bring numbers from one side to the other."""
INDEXED = {aten.index, aten.index_put, aten.index_put_}
"""A GPU's tensor takes indices that lie on the CPU, too; the CPU's takes no others."""
NO_NUMBERS = {aten.cat, aten.stack, aten.gather, aten.mm, aten.bmm, aten.addmm}
"""Other operations take a CPU tensor without dimensions for a plain number."""


class PretendTensor(torch.Tensor):
    """A tensor that says it lies on the pretend GPU; ``host`` holds its numbers."""

    host: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, host: torch.Tensor) -> "PretendTensor":
        """A wrapper that shares the memory of ``host``: what is a view of it stays one."""
        with torch.inference_mode(host.is_inference()):
            self = torch.Tensor._make_wrapper_subclass(
                cls, host.size(), host.stride(), host.storage_offset(), dtype=host.dtype, device=PRETEND.device
            )
        self.host = host
        return self

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Every operation on such tensors ends here, below autograd: check, unwrap, compute, wrap."""
        kwargs = kwargs or {}
        refuse_a_mixture(op, args, kwargs)
        wrapped = {id(t.host): t for t in tensors([*args, *kwargs.values()]) if isinstance(t, PretendTensor)}
        to_the_cpu = torch.device(kwargs.get("device") or PRETEND.device).type == "cpu"
        from_here = op.overloadpacket is aten.copy_ and not isinstance(args[0], PretendTensor)

        def wrap(result: torch.Tensor) -> torch.Tensor:
            return wrapped[id(result)] if id(result) in wrapped else PretendTensor(result)  # changed in place, or new

        if torch.Tag.inplace_view in op.tags:  # squeeze_ and the like: the wrapper takes the new shape, too
            with no_dispatch():
                op(*args, **kwargs)
        args, kwargs = changed(args, host_of), {name: changed(value, host_of) for name, value in kwargs.items()}
        results = op(*args, **{**kwargs, "device": torch.device("cpu")} if kwargs.get("device") else kwargs)
        if any(t.shape != t.host.shape for t in wrapped.values()):
            raise NotImplementedError(f"{op} gives a tensor another size, and the pretend GPU cannot follow")
        return results if to_the_cpu or from_here else changed(results, wrap)

    def numpy(self, *, force: bool = False) -> Any:
        if force:
            return self.host.numpy(force=True)
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."
        )

    def tolist(self) -> Any:
        return self.host.tolist()

    def __repr__(self, **_: Any) -> str:
        return f"{self.host!r}".removesuffix(")") + f", device='{self.device}')"

    def __format__(self, how: str) -> str:
        return format(self.item() if self.dim() == 0 else repr(self), how)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        copy: torch.Tensor = PretendTensor(self.host.clone())
        copy = torch.nn.Parameter(copy, self.requires_grad) if isinstance(self, torch.nn.Parameter) else copy
        return memo.setdefault(id(self), copy)


def host_of(tensor: torch.Tensor) -> torch.Tensor:
    """Where the numbers are."""
    return tensor.host if isinstance(tensor, PretendTensor) else tensor


def tensors(values: Any) -> Iterator[torch.Tensor]:
    """The tensors among some values, and in lists and tuples among them."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors(value)


def changed(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A value whose tensors, in lists and tuples too, are changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    return type(value)([changed(v, change) for v in value]) if isinstance(value, list | tuple) else value


@cache
def written_by(op: Any) -> set[str]:
    """The names of the arguments that an operation writes into."""
    return {a.name for a in op._schema.arguments if a.alias_info is not None and a.alias_info.is_write}


def refuse_a_mixture(op: Any, args: Any, kwargs: Any) -> None:
    """Raise what CUDA raises where an operation is given tensors of both sides that it cannot take together."""
    packet, schema = op.overloadpacket, op._schema.arguments
    given = {argument.name: value for argument, value in zip(schema, args, strict=False)} | kwargs
    generator = given.pop("generator", None)
    if generator is not None and generator.device.type == "cpu":
        raise RuntimeError("Expected a 'pretend' device type for generator but found 'cpu'")
    if packet in INDEXED:
        indices = given.pop("indices")
        if not isinstance(args[0], PretendTensor) and any(isinstance(i, PretendTensor) for i in indices):
            raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
    for name, value in given.items():
        for tensor in tensors([value]):
            is_strange = not isinstance(tensor, PretendTensor)
            is_number = is_strange and tensor.dim() == 0 and packet not in NO_NUMBERS and name not in written_by(op)
            if is_strange and not is_number and packet not in ACROSS:
                raise RuntimeError(
                    "Expected all tensors to be on the same device, "
                    f"but found at least two devices, pretend:0 and cpu! ({name} of {op})"
                )


class Backend:
    """What PyTorch asks a device's module for."""

    _is_in_bad_fork = staticmethod(lambda: False)
    is_initialized = is_available = staticmethod(lambda: True)
    current_device = staticmethod(lambda: 0)
    device_count = staticmethod(lambda: 1)
    manual_seed_all = staticmethod(lambda seed: None)  # its random numbers are the CPU's
    get_rng_state = staticmethod(lambda device=None: torch.get_rng_state())
    set_rng_state = staticmethod(lambda state, device=None: None)
    get_amp_supported_dtype = staticmethod(lambda: [torch.bfloat16, torch.float16])


def _made(op: Any) -> Any:
    """What makes a tensor out of nothing, on the pretend GPU."""

    def make(*args: Any, **kwargs: Any) -> torch.Tensor:
        refuse_a_mixture(op, args, kwargs)
        return PretendTensor(op(*args, **{**kwargs, "device": torch.device("cpu")}))

    return make


def _copy(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    host_of(target).copy_(host_of(source))
    return target


_setup_privateuseone_for_python_backend("pretend", Backend())
PRETEND = Device(torch.device("pretend", 0), reason="pretended")
# All other ways to make a tensor begin with one of these.
library = torch.library.Library("aten", "IMPL")
for made in (
    "empty.memory_format", "empty_strided", "arange", "arange.start", "arange.start_step", "eye", "eye.m", "randperm",
    "randperm.generator",
):  # fmt: skip
    packet, _, overload = made.partition(".")
    library.impl(made, _made(getattr(getattr(aten, packet), overload or "default")), "PrivateUse1")
library.impl("_copy_from", _copy, "PrivateUse1")


@contextmanager
def pretend_gpu() -> Iterator[Device]:
    """While the context is open, ``choose_device()`` gives the pretend GPU, and ``choose_device("cpu")`` the CPU."""
    choose = transformer.device.choose_device

    def chosen(name: Any = "auto", precision: Any = "auto") -> Device:
        return PRETEND if name == "auto" else choose(name, precision)

    # A module's parameters stay the same objects when they move, as they do on their way to a real GPU.
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with (
            patch.object(transformer.device, "choose_device", chosen),
            patch.object(transformer.models, "choose_device", chosen),
        ):
            yield PRETEND
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    with pretend_gpu():
        runpy.run_path(sys.argv[0], run_name="__main__")
