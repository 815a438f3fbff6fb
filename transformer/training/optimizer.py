"""The optimisers: Adam (§5.3), or, beyond the paper, Muon for the layers' weight matrices and Adam for the rest."""

import math
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor

from transformer.attention import MultiHeadAttention
from transformer.config import OptimizerName
from transformer.device import Device
from transformer.model import Transformer


class Muon(torch.optim.Optimizer):
    """Muon: the momentum of a weight matrix is made orthogonal, so that a step changes all its directions equally.

    The results are those of ``torch.optim.Muon`` with ``adjust_lr_fn="match_rms_adamw"`` and no weight decay: the root
    mean square of each step is about 0.2 times the learning rate, or a little less. Adam's steps have about that size,
    so the paper's learning rate suits both. PyTorch's version always computes in bfloat16, which on most CPUs takes
    far longer than the rest of the training step.

    ``query_key_value`` stacks W_Q, W_K and W_V, which are three separate linear maps, so Muon treats them as three
    matrices. If the stack were made orthogonal as a whole, W_V would get nearly all of the step, because at the
    start of training its gradient is about twenty times as large as those of W_Q and W_K. A parameter group's entry
    ``"parts"`` is the number of matrices in each of its weights.

    As with Adam's fused kernel, nothing changes if ``found_inf``, a scalar on the device, is positive.

    Args:
        groups: parameter groups of weight matrices.
        dtype: dtype of the matrix products that make the momentum orthogonal.
        batched: compute with all weights of one shape at once, in batched matrix products. Otherwise a GPU would wait
            for the host, which launches each small kernel separately; on a CPU, batches are slower.
    """

    found_inf: Tensor | None = None

    def __init__(
        self,
        groups: list[dict[str, Any]],
        dtype: torch.dtype = torch.float32,
        batched: bool = False,
    ) -> None:
        super().__init__(groups, {"lr": 0.0, "momentum": 0.95, "parts": 1, "dtype": dtype})
        self.batched = batched

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take a step, unless ``found_inf`` forbids it."""
        for group in self.param_groups:
            batches: dict[object, list[Tensor]] = {}
            for weight in group["params"]:
                if weight.grad is not None:
                    batches.setdefault(weight.shape if self.batched else weight, []).append(weight)
            for weights in batches.values():
                self._step(weights, group)

    def _step(self, weights: list[Tensor], group: Mapping[str, Any]) -> None:
        """Take a step for weights of equal shapes."""
        momentum = group["momentum"]
        buffers = [self._momentum_buffer(weight) for weight in weights]
        means, gradients = torch.stack(buffers), torch.stack([cast(Tensor, weight.grad) for weight in weights])
        skip = None if self.found_inf is None else self.found_inf > 0
        if skip is not None:
            gradients = torch.where(skip, means, gradients)  # which leaves the momentum as it is
        means.lerp_(gradients, 1 - momentum)
        torch._foreach_copy_(buffers, list(means))
        ahead = gradients.lerp(means, momentum)  # Nesterov's form of the momentum, which looks a step ahead
        matrices = ahead.unflatten(1, (group["parts"], -1)).flatten(0, 1)
        directions = orthogonalize(matrices.to(group["dtype"])).to(ahead.dtype)
        if skip is not None:
            directions.masked_fill_(skip, 0)
        size = 0.2 * math.sqrt(max(directions.shape[1:]))
        torch._foreach_sub_(weights, list(directions.view_as(ahead)), alpha=size * group["lr"])

    def _momentum_buffer(self, weight: Tensor) -> Tensor:
        """Return the momentum of a weight, which is zero before its first step."""
        state = self.state[weight]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        return cast(Tensor, state["momentum_buffer"])


def orthogonalize(matrices: Tensor) -> Tensor:
    """Bring the singular values of matrices, (n, rows, columns), close to one: most to between 0.7 and 1.2.

    Values that are tiny relative to the norm of their matrix stay smaller. An odd polynomial of a matrix changes only
    its singular values. This one, of degree 5 and applied five times, was chosen to raise small ones quickly
    (Newton–Schulz iteration). It needs only matrix products.
    """
    is_tall = matrices.size(1) > matrices.size(2)
    x = matrices.mT if is_tall else matrices  # so that x xᵀ is the smaller of the two products
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)  # no singular value is larger than this norm
    for _ in range(5):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=-4.7750, alpha=2.0315)  # -4.7750 gram + 2.0315 gram²
        x = torch.baddbmm(x, polynomial, x, beta=3.4445)  # 3.4445 x + polynomial x
    return x.mT if is_tall else x


def build_optimizers(model: Transformer, name: OptimizerName, device: Device) -> dict[str, torch.optim.Optimizer]:
    """Return the optimisers that together update each parameter of a model, by name; the caller sets the learning rate.

    Muon gets the weight matrices of the encoder and decoder layers. Embeddings, whose rows are looked up, are
    not linear maps between activations; they stay with Adam, and so do the output layer, biases and norms.
    """
    muon: list[dict[str, Any]] = []
    if name == "muon":
        query_key_value = [m.query_key_value.weight for m in model.modules() if isinstance(m, MultiHeadAttention)]
        matrices = [p for layers in (model.encoder, model.decoder) for p in layers.parameters() if p.dim() == 2]
        single = [p for p in matrices if not any(p is weight for weight in query_key_value)]
        muon = [{"params": query_key_value, "parts": 3}, {"params": single, "parts": 1}]
    taken = {id(p) for group in muon for p in group["params"]}
    rest = [p for p in model.parameters() if id(p) not in taken]
    optimizers: dict[str, torch.optim.Optimizer] = {
        "adam": torch.optim.Adam(rest, lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
    }
    if muon:
        has_bf16 = device.autocast_dtype == torch.bfloat16
        dtype = torch.bfloat16 if has_bf16 else torch.float32
        optimizers["muon"] = Muon(muon, dtype=dtype, batched=device.type == "cuda")
    return optimizers


def step_if_finite(optimizers: Mapping[str, torch.optim.Optimizer], gradient_norm: Tensor) -> None:
    """Let the optimisers take a step if the norm of the whole gradient, a scalar, is finite; otherwise nothing changes.

    The device decides, because the host would have to wait for the norm. For this, fused optimisers have an
    attribute ``found_inf``, which `torch.amp.GradScaler` also uses.
    """
    found_inf = 1 - gradient_norm.isfinite().float()
    for optimizer in optimizers.values():
        optimizer.found_inf = found_inf  # type: ignore[attr-defined]
        optimizer.step()


def optimizer_state(optimizers: Mapping[str, torch.optim.Optimizer]) -> dict[str, Tensor]:
    """Return the tensors of the optimisers, such as ``adam.3.exp_avg`` for Adam's parameter 3."""
    return {
        f"{name}.{number}.{key}": tensor
        for name, optimizer in optimizers.items()
        for number, tensors in optimizer.state_dict()["state"].items()
        for key, tensor in tensors.items()
    }


def load_optimizer_state(optimizers: Mapping[str, torch.optim.Optimizer], saved: Mapping[str, Tensor]) -> None:
    """Load the tensors of `optimizer_state`; ``saved`` may also contain others.

    Raises:
        ValueError: if they belong to a different choice of optimiser.
    """
    states: dict[str, dict[int, dict[str, Tensor]]] = {}
    for path, tensor in saved.items():
        name, _, rest = path.partition(".")
        if name in ("adam", "muon"):
            number, key = rest.split(".")
            states.setdefault(name, {}).setdefault(int(number), {})[key] = tensor
    if states and states.keys() != optimizers.keys():
        before, now = ("muon" if "muon" in names else "adam" for names in (states, optimizers))
        raise ValueError(f"it was trained with --training.optimizer {before}, not {now}")
    for name, optimizer in optimizers.items():
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": states.get(name, {}), "param_groups": groups})
