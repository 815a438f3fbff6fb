"""A simulated GPU: a device called ``pretend`` on which a forgotten ``.to(device)`` fails on machines without a GPU.

Its tensors wrap CPU tensors, and everything is computed on the CPU, with the same numbers. It rejects what a GPU
rejects: operations that mix its tensors with CPU tensors, ``.numpy()``, and a random generator of the CPU. It isn't
faster, has a single precision, and simulates neither kernels nor streams nor a limit of memory.

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
"""These copy tensors between devices."""
SIZED_BY_DATA = {aten.nonzero, aten.unique_dim, aten._unique2, aten.masked_select}
"""The host needs their results' data to know their shapes."""
INDEXED = {aten.index, aten.index_put, aten.index_put_}
"""A GPU tensor can also be indexed by CPU tensors; a CPU tensor only by CPU tensors."""
NO_SCALARS = {aten.cat, aten.stack, aten.gather, aten.mm, aten.bmm, aten.addmm}
"""Other operations treat a zero-dimensional CPU tensor as a number."""


class PretendTensor(torch.Tensor):
    """A tensor that reports the pretend GPU as its device; ``host`` has its data."""

    host: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, host: torch.Tensor) -> "PretendTensor":
        """Return a wrapper that shares the memory of ``host``, so that views stay views."""
        with torch.inference_mode(host.is_inference()):
            self = torch.Tensor._make_wrapper_subclass(
                cls, host.size(), host.stride(), host.storage_offset(), dtype=host.dtype, device=PRETEND.torch_device
            )
        self.host = host
        return self

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Check, unwrap, compute and wrap; every operation on such tensors gets here, below autograd."""
        kwargs = kwargs or {}
        reject_mixed_devices(op, args, kwargs)
        wrapped = {id(t.host): t for t in tensors([*args, *kwargs.values()]) if isinstance(t, PretendTensor)}
        to_the_cpu = torch.device(kwargs.get("device") or PRETEND.torch_device).type == "cpu"
        from_here = op.overloadpacket is aten.copy_ and not isinstance(args[0], PretendTensor)
        if to_the_cpu or from_here or makes_host_wait(op, args):
            HOST_READS.append(str(op))

        def wrap(result: torch.Tensor) -> torch.Tensor:
            return (
                wrapped[id(result)] if id(result) in wrapped else PretendTensor(result)
            )  # changed in place, or a new tensor

        if torch.Tag.inplace_view in op.tags:  # such as squeeze_: the wrapper gets the new shape, too
            with no_dispatch():
                op(*args, **kwargs)
        args, kwargs = map_tensors(args, host_of), {name: map_tensors(value, host_of) for name, value in kwargs.items()}
        results = op(*args, **{**kwargs, "device": torch.device("cpu")} if kwargs.get("device") else kwargs)
        if any(t.shape != t.host.shape for t in wrapped.values()):
            raise NotImplementedError(f"{op} changes the size of a tensor, which the pretend GPU does not support")
        return results if to_the_cpu or from_here else map_tensors(results, wrap)

    def numpy(self, *, force: bool = False) -> Any:
        if force:
            return self.host.numpy(force=True)
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."
        )

    def tolist(self) -> Any:
        HOST_READS.append("tolist")
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
    """Return the CPU tensor with the data of a tensor."""
    return tensor.host if isinstance(tensor, PretendTensor) else tensor


def tensors(values: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors among some values, also those inside lists and tuples."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors(value)


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Apply a function to the tensors in a value, also inside lists and tuples."""
    if isinstance(value, torch.Tensor):
        return change(value)
    return type(value)([map_tensors(v, change) for v in value]) if isinstance(value, list | tuple) else value


HOST_READS: list[str] = []
"""The operations so far for which the host had to wait until the device had caught up."""


def makes_host_wait(op: Any, args: Any) -> bool:
    """Return whether an operation gives a number to the host, or has a result whose shape depends on the data."""
    packet = op.overloadpacket
    by_mask = packet in INDEXED and any(i.dtype in (torch.bool, torch.uint8) for i in tensors(args[1]))
    return by_mask or packet is aten._local_scalar_dense or packet in SIZED_BY_DATA


@cache
def written_by(op: Any) -> set[str]:
    """Return the names of the arguments that an operation writes to."""
    return {a.name for a in op._schema.arguments if a.alias_info is not None and a.alias_info.is_write}


def reject_mixed_devices(op: Any, args: Any, kwargs: Any) -> None:
    """Raise the error that CUDA raises if the arguments of an operation are on different devices."""
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
            is_on_cpu = not isinstance(tensor, PretendTensor)
            is_scalar = is_on_cpu and tensor.dim() == 0 and packet not in NO_SCALARS and name not in written_by(op)
            if is_on_cpu and not is_scalar and packet not in ACROSS:
                raise RuntimeError(
                    "Expected all tensors to be on the same device, "
                    f"but found at least two devices, pretend:0 and cpu! ({name} of {op})"
                )


class Backend:
    """The functions that PyTorch expects in the module of a device."""

    _is_in_bad_fork = staticmethod(lambda: False)
    is_initialized = is_available = staticmethod(lambda: True)
    current_device = staticmethod(lambda: 0)
    device_count = staticmethod(lambda: 1)
    manual_seed_all = staticmethod(lambda seed: None)  # it uses the CPU's random numbers
    get_rng_state = staticmethod(lambda device=None: torch.get_rng_state())
    set_rng_state = staticmethod(lambda state, device=None: None)
    get_amp_supported_dtype = staticmethod(lambda: [torch.bfloat16, torch.float16])


def _creating(op: Any) -> Any:
    """Return an operation that creates a tensor on the pretend GPU."""

    def create(*args: Any, **kwargs: Any) -> torch.Tensor:
        reject_mixed_devices(op, args, kwargs)
        return PretendTensor(op(*args, **{**kwargs, "device": torch.device("cpu")}))

    return create


def _copy(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    host_of(target).copy_(host_of(source))
    return target


_setup_privateuseone_for_python_backend("pretend", Backend())
PRETEND = Device(torch.device("pretend", 0), reason="pretended")
# All other operations that create tensors call one of these.
library = torch.library.Library("aten", "IMPL")
for name in (
    "empty.memory_format", "empty_strided", "arange", "arange.start", "arange.start_step", "eye", "eye.m", "randperm",
    "randperm.generator",
):  # fmt: skip
    packet, _, overload = name.partition(".")
    library.impl(name, _creating(getattr(getattr(aten, packet), overload or "default")), "PrivateUse1")
library.impl("_copy_from", _copy, "PrivateUse1")


@contextmanager
def pretend_gpu() -> Iterator[Device]:
    """While the context is open, ``choose_device()`` returns the pretend GPU and ``choose_device("cpu")`` the CPU."""
    choose = transformer.device.choose_device

    def choose_pretend(name: Any = "auto", precision: Any = "auto") -> Device:
        return PRETEND if name == "auto" else choose(name, precision)

    # The parameters of a module stay the same objects when the module is moved, as with a real GPU.
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with (
            patch.object(transformer.device, "choose_device", choose_pretend),
            patch.object(transformer.models, "choose_device", choose_pretend),
        ):
            yield PRETEND
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    with pretend_gpu():
        runpy.run_path(sys.argv[0], run_name="__main__")
