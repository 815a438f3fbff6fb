"""The optimisers: Adam (§5.3), or, beyond the paper, Muon for the layers' weight matrices and Adam for the rest."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from transformer.attention import MultiHeadAttention
from transformer.config import OptimizerName
from transformer.model import Transformer


class Muon(torch.optim.Muon):
    """Muon: the momentum of a weight matrix is made orthogonal, so that a step changes all its directions equally.

    ``query_key_value`` stacks W_Q, W_K and W_V, which are three linear maps with the same input, so Muon treats them as
    three matrices. If the stack were made orthogonal as a whole, W_V would get nearly all of the step, because at the
    start of training its gradient is about twenty times as large as those of W_Q and W_K. A parameter group's entry
    ``"parts"`` is the number of matrices in each of its weights.

    As Adam's fused kernel does, it leaves the weights as they are if ``found_inf`` is set to a positive number. Here
    this needs one host–device synchronisation per step, because Muon's steps are separate kernels.
    """

    _step_supports_amp_scaling = True  # GradScaler sets found_inf instead of reading it on the host
    found_inf: Tensor | None = None

    def step(self, closure: Any = None) -> Any:
        """Take a step, unless ``found_inf`` forbids it."""
        if self.found_inf is not None and self.found_inf > 0:
            return None
        return super().step(closure)  # type: ignore[no-untyped-call]

    def _init_group(self, group: Any, weights: Any, gradients: Any, momenta: Any) -> bool:
        has_complex = super()._init_group(group, weights, gradients, momenta)
        for tensors in (weights, gradients, momenta):
            tensors[:] = [part for tensor in tensors for part in tensor.chunk(group["parts"])]
        return has_complex


def build_optimizers(model: Transformer, name: OptimizerName) -> dict[str, torch.optim.Optimizer]:
    """Return the optimisers that together update each parameter of a model, by their names; the caller sets their rate.

    Muon gets the weight matrices of the encoder and decoder layers. Embeddings, whose rows are looked up, are
    not linear maps between activations; they stay with Adam, and so do the output layer, biases and norms.
    """
    muon: list[dict[str, Any]] = []
    if name == "muon":
        stacked = [m.query_key_value.weight for m in model.modules() if isinstance(m, MultiHeadAttention)]
        matrices = [p for layers in (model.encoder, model.decoder) for p in layers.parameters() if p.dim() == 2]
        single = [p for p in matrices if not any(p is weight for weight in stacked)]
        muon = [{"params": stacked, "parts": 3}, {"params": single, "parts": 1}]
    taken = {id(p) for group in muon for p in group["params"]}
    rest = [p for p in model.parameters() if id(p) not in taken]
    optimizers: dict[str, torch.optim.Optimizer] = {
        "adam": torch.optim.Adam(rest, lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
    }
    if muon:
        # Scales orthogonal steps to the size that Adam's usually have, so that the paper's learning rate suits both.
        optimizers["muon"] = Muon(muon, lr=0.0, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    return optimizers


def optimizer_state(optimizers: Mapping[str, torch.optim.Optimizer]) -> dict[str, Tensor]:
    """Return the tensors of the optimisers, such as ``adam.3.exp_avg``, of parameter 3 of Adam."""
    return {
        f"{name}.{number}.{key}": tensor
        for name, optimizer in optimizers.items()
        for number, tensors in optimizer.state_dict()["state"].items()
        for key, tensor in tensors.items()
    }


def load_optimizer_state(optimizers: Mapping[str, torch.optim.Optimizer], saved: Mapping[str, Tensor]) -> None:
    """Load the tensors of `optimizer_state`; ``saved`` may contain others, too.

    Raises:
        ValueError: if they are those of another choice of optimiser.
    """
    states: dict[str, dict[int, dict[str, Tensor]]] = {}
    for path, tensor in saved.items():
        name, _, rest = path.partition(".")
        if name in ("adam", "muon"):
            number, key = rest.split(".")
            states.setdefault(name, {}).setdefault(int(number), {})[key] = tensor
    if states and states.keys() != optimizers.keys():
        before, now = (max(names) for names in (states, optimizers))  # Adam alone, or Muon with it
        raise ValueError(f"it was trained with --training.optimizer {before}, not {now}")
    for name, optimizer in optimizers.items():
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": states.get(name, {}), "param_groups": groups})
