"""Muon updates the weight matrices of the layers, Adam everything else."""

import math
from typing import cast

import pytest
import torch
from torch import Tensor

from transformer.config import ModelConfig, OptimizerName
from transformer.device import choose_device
from transformer.model import Transformer
from transformer.training.optimizer import (
    Muon,
    build_optimizers,
    load_optimizer_state,
    optimizer_state,
    orthogonalize,
    step_if_finite,
)

CPU = choose_device("cpu")
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
    (adam,) = build_optimizers(model, "adam", CPU).values()
    assert [names[id(p)] for p in parameters_of(adam)] == list(names.values())

    both = build_optimizers(model, "muon", CPU)
    muon = [names[id(p)] for p in parameters_of(both["muon"])]
    matrices = ("query_key_value.weight", "output.weight", "inner.weight", "outer.weight")
    assert sorted(muon) == sorted(
        n for n in names.values() if n[:8] in ("encoder.", "decoder.") and n.endswith(matrices)
    )
    assert sorted([*muon, *(names[id(p)] for p in parameters_of(both["adam"]))]) == sorted(names.values())


def test_muon_is_pytorchs_on_each_of_the_stacked_matrices() -> None:
    model = model_with_gradients()
    weights = [model.decoder[1].cross_attention.query_key_value.weight, model.encoder[0].feed_forward.inner.weight]
    weights[0].grad[32:] *= 20  # type: ignore[index]
    parts, gradients = ([*t[0].chunk(3), t[1]] for t in ([w.detach() for w in weights], [w.grad for w in weights]))
    theirs = [torch.nn.Parameter(part.clone()) for part in parts]
    for part, gradient in zip(theirs, gradients, strict=True):
        part.grad = gradient.clone()
    before = [part.clone() for part in parts]
    ours = build_optimizers(model, "muon", CPU)["muon"]
    pytorchs = torch.optim.Muon(theirs, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    for optimizer in (ours, pytorchs):
        for group in optimizer.param_groups:
            group["lr"] = 0.1
    for _ in range(3):
        ours.step()
        pytorchs.step()
        for part, other, old in zip(parts, theirs, before, strict=True):
            step, expected = part - old, other.detach() - old
            assert (step - expected).norm() < 0.03 * expected.norm(), "theirs is in bfloat16"
            assert step.square().mean().sqrt() == pytest.approx(0.2 * 0.1, rel=0.3)  # the size that Adam's steps have
        before = [part.clone() for part in parts]
        with torch.no_grad():
            for other, part, gradient in zip(theirs, parts, gradients, strict=True):
                other.copy_(part)
                gradient.copy_(gradient.flip(0))  # with the same gradient again, the momentum would change nothing
                cast(Tensor, other.grad).copy_(gradient)


@pytest.mark.parametrize("gradient_norm", [None, 1.0, math.nan])
def test_stacked_matrices_take_the_same_steps(gradient_norm: float | None) -> None:
    """As on a GPU, where the weights of each shape are updated at once; one weight has no gradient."""
    single, stacked = model_with_gradients(), model_with_gradients()
    stacked.load_state_dict(single.state_dict())
    for one, other in zip(single.parameters(), stacked.parameters(), strict=True):
        other.grad = None if one.grad is None else one.grad.clone()
    single.encoder[0].feed_forward.inner.weight.grad = None
    stacked.encoder[0].feed_forward.inner.weight.grad = None
    before = [p.detach().clone() for p in single.parameters()]
    states = []
    for model, is_batched in ((single, False), (stacked, True)):
        muon = build_optimizers(model, "muon", CPU)["muon"]
        assert isinstance(muon, Muon) and not muon.batched
        muon.batched = is_batched
        for group in muon.param_groups:
            group["lr"] = 0.1
        for _ in range(2):
            if gradient_norm is None:
                muon.step()
            else:
                step_if_finite({"muon": muon}, torch.tensor(gradient_norm))
        states.append(optimizer_state({"muon": muon}))
    for one, other in zip(single.parameters(), stacked.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    assert all(map(torch.equal, before, single.parameters())) == (gradient_norm is math.nan)


def test_orthogonalised_matrices_have_singular_values_close_to_one() -> None:
    for shape in ((2, 30, 50), (2, 50, 30), (1, 40, 40)):
        matrices = torch.randn(shape)
        result = orthogonalize(matrices)
        assert result.shape == matrices.shape
        values = torch.linalg.svdvals(result)
        assert values.min() > 0.1 and values.quantile(0.1) > 0.6 and values.max() < 1.3
        # The singular vectors are the same, so the product of one with the transpose of the other is symmetric.
        product = result @ matrices.mT
        torch.testing.assert_close(product, product.mT, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("name", ["adam", "muon"])
def test_a_weight_without_a_gradient_is_left_alone(name: OptimizerName) -> None:
    model = model_with_gradients()
    weight = model.encoder[0].feed_forward.inner.weight
    weight.grad, before = None, weight.detach().clone()
    for optimizer in build_optimizers(model, name, CPU).values():
        optimizer.param_groups[-1]["lr"] = 0.1
        optimizer.step()
    assert torch.equal(weight, before)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["adam", "muon"])
def test_a_gradient_that_is_not_finite_changes_nothing(name: OptimizerName, bad: float) -> None:
    """Neither the weights nor the momentum, neither in the first step nor later."""
    model = model_with_gradients()
    optimizers = build_optimizers(model, name, CPU)
    for optimizer in optimizers.values():
        optimizer.param_groups[-1]["lr"] = 0.1
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]

    def step(factor: float) -> list[Tensor]:
        for p, gradient in zip(model.parameters(), gradients, strict=True):
            p.grad = gradient * factor
        step_if_finite(optimizers, torch.stack([p.grad.norm() for p in model.parameters()]).norm())  # type: ignore[union-attr]
        return [p.detach().clone() for p in model.parameters()]

    before = [p.detach().clone() for p in model.parameters()]
    assert all(map(torch.equal, step(bad), before))
    after = step(1.0)
    state = {key: tensor.clone() for key, tensor in optimizer_state(optimizers).items()}
    assert not all(map(torch.equal, after, before))
    assert all(map(torch.equal, step(bad), after))
    assert all(torch.equal(tensor, state[key]) for key, tensor in optimizer_state(optimizers).items())


@pytest.mark.parametrize("name", ["adam", "muon"])
def test_the_state_is_saved_under_the_names_of_the_optimizers(name: str) -> None:
    model = model_with_gradients()
    optimizers = build_optimizers(model, name, CPU)  # type: ignore[arg-type]
    for optimizer in optimizers.values():
        optimizer.step()
    state = optimizer_state(optimizers)
    assert {"adam.0.step", "adam.0.exp_avg", "adam.0.exp_avg_sq"} <= state.keys()
    assert ("muon.0.momentum_buffer" in state) == (name == "muon")
    fresh = build_optimizers(model, name, CPU)  # type: ignore[arg-type]
    load_optimizer_state(fresh, {"random.cpu": torch.zeros(1), **state})
    loaded = optimizer_state(fresh)
    assert loaded.keys() == state.keys() and all(torch.equal(loaded[key], state[key]) for key in state)
    other = build_optimizers(model, "muon" if name == "adam" else "adam", CPU)
    with pytest.raises(ValueError, match=f"it was trained with --training.optimizer {name}, not"):
        load_optimizer_state(other, state)


def test_muon_computes_in_bfloat16_where_the_run_does() -> None:
    model = model_with_gradients()
    for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float32)):
        muon = build_optimizers(model, "muon", choose_device("cpu", precision))["muon"]  # type: ignore[arg-type]
        muon.step()
        assert muon.defaults["dtype"] == dtype and all(torch.isfinite(p).all() for p in parameters_of(muon))
