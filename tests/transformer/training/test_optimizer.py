"""Muon updates the weight matrices of the layers, Adam everything else."""

import pytest
import torch

from transformer.model import ModelConfig, Transformer
from transformer.training.optimizer import Muon, build_optimizers, load_optimizer_state, optimizer_state

SHAPE = ModelConfig(40, 16, 2, 24, 2, dropout=0.0, positions="learned", max_length=12)


def model_with_gradients() -> Transformer:
    model = Transformer(SHAPE)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    return model


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def test_each_parameter_has_one_optimizer() -> None:
    model = Transformer(SHAPE)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    (adam,) = build_optimizers(model, "adam").values()
    assert [names[id(p)] for p in parameters_of(adam)] == list(names.values())

    both = build_optimizers(model, "muon")
    muon = [names[id(p)] for p in parameters_of(both["muon"])]
    matrices = ("query_key_value.weight", "output.weight", "inner.weight", "outer.weight")
    assert sorted(muon) == sorted(
        n for n in names.values() if n[:8] in ("encoder.", "decoder.") and n.endswith(matrices)
    )
    assert sorted([*muon, *(names[id(p)] for p in parameters_of(both["adam"]))]) == sorted(names.values())


def test_stacked_matrices_are_orthogonalised_separately() -> None:
    model = model_with_gradients()
    weight = model.decoder[1].cross_attention.query_key_value.weight
    weight.grad[32:] *= 20  # type: ignore[index]
    parts = [torch.nn.Parameter(part.clone()) for part in weight.detach().chunk(3)]
    for part, gradient in zip(parts, weight.grad.chunk(3), strict=True):  # type: ignore[union-attr]
        part.grad = gradient.clone()
    before = weight.detach().clone()
    ours = build_optimizers(model, "muon")["muon"]
    plain = torch.optim.Muon(parts, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    for optimizer in (ours, plain):
        for group in optimizer.param_groups:
            group["lr"] = 0.1
        optimizer.step()
        optimizer.step()
    torch.testing.assert_close(weight.detach(), torch.cat([part.detach() for part in parts]), rtol=0, atol=0)
    for change in (weight.detach() - before).chunk(3):
        # Two orthogonal steps whose root mean square is 0.2 times the rate, the usual one of Adam.
        assert change.square().mean().sqrt() == pytest.approx(2 * 0.2 * 0.1, rel=0.3)


def test_found_inf_forbids_a_step() -> None:
    model = model_with_gradients()
    weight = model.encoder[0].feed_forward.inner.weight
    muon = build_optimizers(model, "muon")["muon"]
    assert isinstance(muon, Muon)
    muon.param_groups[1]["lr"] = 0.1
    before = weight.detach().clone()
    muon.found_inf = torch.ones(())
    muon.step()
    assert torch.equal(weight, before) and not muon.state
    muon.found_inf = torch.zeros(())
    muon.step()
    assert not torch.equal(weight, before)


@pytest.mark.parametrize("name", ["adam", "muon"])
def test_the_state_is_saved_under_the_names_of_the_optimizers(name: str) -> None:
    """A checkpoint of an Adam run has the same names as in earlier versions."""
    model = model_with_gradients()
    optimizers = build_optimizers(model, name)  # type: ignore[arg-type]
    for optimizer in optimizers.values():
        optimizer.step()
    state = optimizer_state(optimizers)
    assert {"adam.0.step", "adam.0.exp_avg", "adam.0.exp_avg_sq"} <= state.keys()
    assert ("muon.0.momentum_buffer" in state) == (name == "muon")
    fresh = build_optimizers(model, name)  # type: ignore[arg-type]
    load_optimizer_state(fresh, {"random.cpu": torch.zeros(1), **state})
    loaded = optimizer_state(fresh)
    assert loaded.keys() == state.keys() and all(torch.equal(loaded[key], state[key]) for key in state)
    other = build_optimizers(model, "muon" if name == "adam" else "adam")
    with pytest.raises(ValueError, match=f"it was trained with --training.optimizer {name}, not"):
        load_optimizer_state(other, state)
