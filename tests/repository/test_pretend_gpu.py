"""The simulated GPU computes what the CPU computes and rejects what a GPU rejects, so tests on it are meaningful."""

import copy
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.pretend_gpu import HOST_READS, pretend_gpu

Use = Callable[[Tensor, Tensor], object]


@pytest.fixture(autouse=True)
def device() -> Iterator[torch.device]:
    with pretend_gpu() as gpu:
        yield gpu.torch_device


MIXED: dict[str, Use] = {
    "elementwise": lambda gpu, cpu: gpu + cpu,
    "in the other order": lambda gpu, cpu: cpu + gpu,
    "in place": lambda gpu, cpu: gpu.mul_(cpu),
    "into a scalar": lambda gpu, cpu: cpu.sum().add_(gpu.sum()),
    "matrix product": lambda gpu, cpu: gpu @ cpu,
    "concatenated": lambda gpu, cpu: torch.cat([gpu, cpu]),
    "stacked scalars": lambda gpu, cpu: torch.stack([gpu.sum(), cpu.sum()]),
    "masked": lambda gpu, cpu: gpu.masked_fill(cpu > 0, 0.0),
    "gathered": lambda gpu, cpu: gpu.gather(1, cpu.long()),
    "embedded": lambda gpu, cpu: nn.Embedding(3, 2, device=gpu.device)(cpu.long()),
    "through a module": lambda gpu, cpu: nn.Linear(2, 2)(gpu),
    "attended": lambda gpu, cpu: nn.functional.scaled_dot_product_attention(gpu, gpu, gpu, attn_mask=cpu > 0),
    "written by index": lambda gpu, cpu: gpu.__setitem__(torch.tensor([0, 1]), cpu),
    "the loss": lambda gpu, cpu: nn.functional.cross_entropy(gpu, cpu[0].long()),
}


@pytest.mark.parametrize("use", MIXED.values(), ids=MIXED)
def test_no_operation_accepts_tensors_on_both_devices(use: Use, device: torch.device) -> None:
    use(torch.ones(2, 2), torch.ones(2, 2))
    with pytest.raises(RuntimeError, match="same device"):
        use(torch.ones(2, 2, device=device), torch.ones(2, 2))


REJECTED: dict[str, tuple[type[Exception], str, Use]] = {
    "numpy": (TypeError, r"Use Tensor\.cpu\(\)", lambda gpu, _: gpu.numpy()),
    "an array": (TypeError, r"Use Tensor\.cpu\(\)", lambda gpu, _: np.asarray(gpu)),
    "its index into a CPU tensor": (RuntimeError, "indices should be", lambda gpu, cpu: cpu[gpu.long()]),
    "a generator of the CPU": (
        RuntimeError,
        "generator",
        lambda gpu, _: gpu.multinomial(1, generator=torch.Generator()),
    ),
    "a new size": (
        NotImplementedError,
        "changes the size of a tensor",
        lambda gpu, _: torch.mm(gpu, gpu, out=gpu.new_empty(0)),
    ),
}


@pytest.mark.parametrize(("error", "message", "use"), REJECTED.values(), ids=REJECTED)
def test_it_rejects(error: type[Exception], message: str, use: Use, device: torch.device) -> None:
    with pytest.raises(error, match=message):
        use(torch.ones(2, 2, device=device), torch.ones(2, 2))


ALLOWED: dict[str, Use] = {
    "numbers": lambda gpu, _: gpu * 2 + torch.tensor(3.0),
    "indices of the CPU": lambda gpu, cpu: gpu[cpu[0].long()],
    "copied to the CPU": lambda gpu, cpu: gpu.cpu() + cpu,
    "copied into": lambda gpu, cpu: gpu.copy_(2 * cpu),
    "vectors": lambda gpu, cpu: nn.functional.linear(gpu[0], gpu),
    "another shape in place": lambda gpu, cpu: gpu.unsqueeze_(0),
    "a slice copied into": lambda gpu, cpu: gpu[0].copy_(cpu[0]),
}


@pytest.mark.parametrize("use", ALLOWED.values(), ids=ALLOWED)
def test_it_accepts_what_a_gpu_accepts(use: Use, device: torch.device) -> None:
    result = use(torch.ones(2, 2, device=device), torch.ones(2, 2))
    assert isinstance(result, Tensor) and torch.equal(result.cpu(), use(torch.ones(2, 2), torch.ones(2, 2)))  # type: ignore[arg-type]


CREATED: dict[str, Callable[..., Tensor]] = {
    "tensor": lambda **k: torch.tensor([[1.5, 2]], **k),
    "zeros": lambda **k: torch.zeros(2, 3, **k),
    "full": lambda **k: torch.full((2,), 7, **k),
    "arange": lambda **k: torch.arange(3, **k),
    "a long arange": lambda **k: torch.arange(2, 20, 3, **k),
    "eye": lambda **k: torch.eye(3, dtype=torch.bool, **k),
    "tril": lambda **k: torch.ones(3, 3, **k).tril(),
    "like": lambda **k: torch.full_like(torch.ones(2, **k), 3),
    "new": lambda **k: torch.ones(2, **k).new_full((3,), 4),
}


@pytest.mark.parametrize("make", CREATED.values(), ids=CREATED)
def test_tensors_are_created_on_it(make: Callable[..., Tensor], device: torch.device) -> None:
    tensor, on_cpu = make(device=device), make()
    assert tensor.device == device and len(tensor) == len(on_cpu) and torch.equal(tensor.cpu(), on_cpu)
    assert tensor.tolist() == on_cpu.tolist() and str(tensor) == f"{str(on_cpu)[:-1]}, device='pretend:0')"


def test_a_view_stays_a_view(device: torch.device) -> None:
    whole = torch.zeros(2, 3, device=device)
    whole[1, :2] += 1
    whole.t()[2] = torch.tensor([5.0, 6.0], device=device)
    assert whole.tolist() == [[0, 0, 5], [1, 1, 6]]


def test_gradients_flow_as_on_the_cpu_and_tied_weights_stay_tied(device: torch.device) -> None:
    def tied() -> nn.Sequential:
        torch.manual_seed(0)
        first, second = nn.Linear(3, 3), nn.Linear(3, 3)
        second.weight = first.weight
        return nn.Sequential(first, nn.Softmax(-1), nn.LayerNorm(3), second)

    here, there = tied(), tied()
    weight = there[0].weight
    there.to(device)
    assert there[0].weight is weight is there[3].weight and weight.device == device
    x = torch.randn(4, 3)
    for model, given in ((here, x), (there, x.to(device))):
        model(given).square().sum().backward()
    assert weight.grad is not None and weight.grad.device == device
    torch.testing.assert_close(weight.grad.cpu(), here[0].weight.grad)
    copied = copy.deepcopy(there)
    assert copied[0].weight is copied[3].weight is not weight and isinstance(copied[0].weight, nn.Parameter)


READS: dict[str, Callable[[Tensor], object]] = {
    "item": lambda gpu: gpu.sum().item(),
    "int": lambda gpu: int(gpu.sum()),
    "if": lambda gpu: bool((gpu > 0).all()),
    "tolist": lambda gpu: gpu.tolist(),
    "cpu": lambda gpu: gpu.cpu(),
    "copied": lambda gpu: torch.empty(2, 2).copy_(gpu),
    "nonzero": lambda gpu: gpu.nonzero(),
    "read by a mask": lambda gpu: gpu[gpu > 0],
    "written by a mask": lambda gpu: gpu.__setitem__(gpu > 0, 2 * gpu.flatten()),
}
NO_READS: dict[str, Callable[[Tensor], object]] = {
    "computed": lambda gpu: (gpu @ gpu).softmax(-1).sum(),
    "chosen": lambda gpu: torch.where(gpu > 0, gpu, gpu.masked_fill(gpu > 0, 0.0)),
    "indexed": lambda gpu: gpu[torch.tensor([1, 0], device=gpu.device)],
    "from the CPU": lambda gpu: gpu + torch.ones(2, 2).to(gpu.device),
}


@pytest.mark.parametrize("use", READS.values(), ids=READS)
def test_what_makes_the_host_wait_is_counted(use: Callable[[Tensor], object], device: torch.device) -> None:
    gpu = torch.ones(2, 2, device=device)
    HOST_READS.clear()
    use(gpu)
    assert HOST_READS


@pytest.mark.parametrize("use", NO_READS.values(), ids=NO_READS)
def test_what_does_not_make_the_host_wait_is_not_counted(use: Callable[[Tensor], object], device: torch.device) -> None:
    gpu = torch.ones(2, 2, device=device)
    HOST_READS.clear()
    use(gpu)
    assert not HOST_READS
