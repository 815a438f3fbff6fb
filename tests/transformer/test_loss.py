import math
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from transformer.loss import CHUNKS, _chunk_rows, label_smoothed_cross_entropy, linear_label_smoothed_cross_entropy

PAD, VOCAB = 0, 37
CXX = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
Loss = Callable[..., Tensor]


def explicit(x: Tensor, weight: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return label_smoothed_cross_entropy(x @ weight.T, *args, **kwargs)


forms = pytest.mark.parametrize("loss", [explicit, linear_label_smoothed_cross_entropy])


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use chunks of ten rows: the 44 rows of ``example`` are four chunks and a shorter one."""
    monkeypatch.setattr("transformer.loss.CHUNK_ROWS", 10)


def example(dtype: torch.dtype = torch.float32, rows: int = 44) -> tuple[Tensor, Tensor, Tensor]:
    """Return decoder outputs, weights and targets; the last rows are padding, and one in the middle."""
    x, weight = torch.randn(rows, 16, dtype=dtype), torch.randn(VOCAB, 16, dtype=dtype)
    target = torch.randint(1, VOCAB, (rows,))
    target[7] = target[-3:] = PAD
    return x.requires_grad_(), weight.requires_grad_(), target


def with_gradients(loss: Tensor, *inputs: Tensor, upstream: float = 0.25) -> list[Tensor]:
    return [loss.detach(), *torch.autograd.grad(loss * upstream, inputs)]


def smoothed(target: Tensor, smoothing: float) -> Tensor:
    """Return q in full, row by row, as the docstring defines it."""
    q = torch.zeros(len(target), VOCAB, dtype=torch.float64)
    for row, right in zip(q, target.tolist(), strict=True):
        row += smoothing / VOCAB
        row[right] += 1 - smoothing
    return q


@forms
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("pad_id", [None, PAD])
def test_equals_torch_with_gradients(loss: Loss, smoothing: float, pad_id: int | None) -> None:
    x, weight, target = example()
    ignored = -100 if pad_id is None else pad_id
    theirs = F.cross_entropy(
        F.linear(x, weight), target, label_smoothing=smoothing, ignore_index=ignored, reduction="sum"
    )
    ours = loss(x, weight, target, smoothing, pad_id=pad_id)
    for a, b in zip(with_gradients(ours, x, weight), with_gradients(theirs, x, weight), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@forms
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_equals_cross_entropy_with_q_in_full(loss: Loss, smoothing: float) -> None:
    x, weight, target = example(torch.float64)
    q = smoothed(target, smoothing)
    torch.testing.assert_close(q.sum(1)[target != PAD], torch.ones(40, dtype=torch.float64))
    expected = -(q * (x @ weight.T).log_softmax(-1))[target != PAD].sum()
    ours = loss(x, weight, target, smoothing, PAD)
    for a, b in zip(with_gradients(ours, x, weight), with_gradients(expected, x, weight), strict=True):
        torch.testing.assert_close(a, b)


@forms
def test_kl_divergence_differs_by_the_entropy_of_q_and_has_the_same_gradient(loss: Loss) -> None:
    x, weight, target = example(torch.float64)
    real = target != PAD
    ours = loss(x, weight, target, 0.1, PAD)
    kl = torch.nn.KLDivLoss(reduction="sum")((x @ weight.T).log_softmax(-1)[real], smoothed(target[real], 0.1))
    entropy = -(0.9 + 0.1 / VOCAB) * math.log(0.9 + 0.1 / VOCAB) - (VOCAB - 1) * 0.1 / VOCAB * math.log(0.1 / VOCAB)
    assert (ours - kl).item() == pytest.approx(int(real.sum()) * entropy)
    for a, b in zip(with_gradients(ours, x, weight)[1:], with_gradients(kl, x, weight)[1:], strict=True):
        torch.testing.assert_close(a, b)


@forms
def test_by_default_the_smoothing_is_the_papers_and_no_position_is_ignored(loss: Loss) -> None:
    x, weight, target = example()
    default, *others = (loss(x, weight, target, *settings) for settings in [(), (0.1, None), (0.0, None), (0.1, PAD)])
    assert [bool(default == other) for other in others] == [True, False, False]


def test_a_larger_smoothing_gives_tensor2tensors_convention() -> None:
    """There, each of the other V - 1 tokens gets ε / (V - 1), and the correct one nothing but 1 - ε."""
    x, weight, target = example(torch.float64)
    q = torch.full((len(target), VOCAB), 0.1 / (VOCAB - 1), dtype=torch.float64).scatter_(1, target[:, None], 0.9)
    expected = -(q * (x @ weight.T).log_softmax(-1)).sum()
    ours = label_smoothed_cross_entropy(x @ weight.T, target, 0.1 * VOCAB / (VOCAB - 1))
    torch.testing.assert_close(ours, expected)


def test_by_hand() -> None:
    # Two equal logits: each token has probability 1/2, so the smoothing makes no difference.
    loss = label_smoothed_cross_entropy(torch.zeros(1, 2), torch.tensor([0]), smoothing=0.2)
    assert float(loss) == pytest.approx(0.693147, abs=1e-6)


def test_overconfidence_is_penalised_only_with_smoothing() -> None:
    logits, target = torch.tensor([[60.0, 0.0]]), torch.tensor([0])
    assert float(label_smoothed_cross_entropy(logits, target, 0.0)) == pytest.approx(0.0)
    assert float(label_smoothed_cross_entropy(logits, target, 0.1)) == pytest.approx(0.05 * 60)


def test_gradients_equal_numerical_derivatives() -> None:
    x, weight, target = example(torch.float64, rows=23)
    assert torch.autograd.gradcheck(
        lambda x, weight: linear_label_smoothed_cross_entropy(x, weight, target, 0.1, PAD), (x, weight)
    )


def test_second_derivatives_raise_an_error() -> None:
    x, weight, target = example()
    squared = linear_label_smoothed_cross_entropy(x, weight, target) ** 2
    (gradient,) = torch.autograd.grad(squared, x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@forms
def test_large_logits_and_an_empty_batch(loss: Loss) -> None:
    x, weight, target = example()
    assert all(t.isfinite().all() for t in with_gradients(loss(x * 1000, weight, target), x, weight))
    nothing = with_gradients(loss(x[:0], weight, target[:0]), x, weight)
    assert all((t == 0).all() for t in nothing)


class Watch(TorchDispatchMode):
    """Counts operations, and records the largest tensor and the results in half precision."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: Counter[str] = Counter()
        self.largest = 0
        self.in_half: set[str] = set()

    @property
    def products(self) -> int:
        return self.calls["mm"] + self.calls["addmm_"]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        self.calls[name] += 1
        if isinstance(out, Tensor):
            self.largest = max(self.largest, out.numel())
            if out.dtype in (torch.bfloat16, torch.float16):
                self.in_half.add(name)
        return out


HALVES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])


@HALVES
def test_autocast_has_the_precision_of_its_dtype(dtype: torch.dtype) -> None:
    x, weight, target = example(rows=700)
    exact = with_gradients(explicit(x.double(), weight.double(), target, 0.1, PAD), x, weight)
    with torch.autocast("cpu", dtype), Watch() as watch:
        loss = linear_label_smoothed_cross_entropy(x, weight, target, 0.1, PAD)
    assert "mm" in watch.in_half and not watch.in_half & {"mv", "sub_", "exp_", "sum", "add_", "log", "div_"}
    assert loss.dtype == torch.float32
    for ours, right in zip(with_gradients(loss, x, weight), exact, strict=True):
        assert (ours - right).norm() < torch.finfo(dtype).eps * right.norm()


@HALVES
@forms
def test_half_precision_inputs_are_summed_in_float32(loss: Loss, dtype: torch.dtype) -> None:
    x, weight, target = (t.to(dtype) if t.is_floating_point() else t for t in example(rows=700))
    ours = loss(x, weight, target, 0.1, PAD)
    assert ours.dtype == torch.float32
    logits = (x @ weight.T).float()
    torch.testing.assert_close(ours, label_smoothed_cross_entropy(logits, target, 0.1, PAD))
    gradients = with_gradients(ours, x, weight)[1:]
    assert [g.dtype for g in gradients] == [x.dtype, weight.dtype]
    exact = with_gradients(explicit(x.double(), weight.double(), target, 0.1, PAD), x, weight)[1:]
    if loss is not explicit:  # whose logits are rounded, and so are p and the gradients
        for gradient, right in zip(gradients, exact, strict=True):
            assert (gradient - right).norm() < torch.finfo(dtype).eps * right.norm()


@HALVES
def test_the_gradient_of_a_confident_prediction_is_not_rounded_away(dtype: torch.dtype) -> None:
    """Near 1, numbers of 16 bits are too far apart to subtract 1 from a probability."""
    x, weight, target = torch.ones(1, 1, requires_grad=True), torch.tensor([[6.0], [0.0]]), torch.tensor([0])
    with torch.autocast("cpu", dtype):
        (gradient,) = torch.autograd.grad(linear_label_smoothed_cross_entropy(x, weight, target, 0.0), x)
    assert float(gradient) == pytest.approx(-6 / (1 + math.exp(6)), rel=torch.finfo(dtype).eps)


def test_autocast_leaves_double_precision_alone() -> None:
    x, weight, target = example(torch.float64)
    plain = with_gradients(linear_label_smoothed_cross_entropy(x, weight, target), x, weight)
    with torch.autocast("cpu", torch.bfloat16):
        loss = linear_label_smoothed_cross_entropy(x, weight, target)
    torch.testing.assert_close(with_gradients(loss, x, weight), plain, rtol=0, atol=0)


@pytest.mark.parametrize(("x_wanted", "weight_wanted"), [(True, True), (True, False), (False, True), (False, False)])
def test_only_the_required_gradients_are_computed(x_wanted: bool, weight_wanted: bool) -> None:
    x, weight, target = example()
    x, weight = x.detach().requires_grad_(x_wanted), weight.detach().requires_grad_(weight_wanted)
    with Watch() as watch:
        loss = linear_label_smoothed_cross_entropy(x, weight, target)
    assert watch.products == 5 * (1 + x_wanted + weight_wanted)
    assert loss.requires_grad == (x_wanted or weight_wanted)
    if loss.requires_grad:
        loss.backward()
    assert (x.grad is not None, weight.grad is not None) == (x_wanted, weight_wanted)


def test_without_gradients_a_chunk_needs_one_matrix_product() -> None:
    x, weight, target = example()
    with torch.no_grad(), Watch() as watch:
        loss = linear_label_smoothed_cross_entropy(x, weight, target)
    assert watch.products == watch.calls["exp_"] == 5 and not watch.calls["div_"] and not loss.requires_grad


def test_the_full_logits_are_never_stored() -> None:
    x, weight, target = example(rows=1000)
    with Watch() as watch:
        linear_label_smoothed_cross_entropy(x, weight, target).backward()
    assert watch.largest <= x.numel() < len(x) * VOCAB


def test_on_a_gpu_few_rows_are_in_chunks_too() -> None:
    assert [len(torch.empty(n).split(_chunk_rows(n, "cuda"))) for n in (1, 7, 8, 9)] == [1, 7, 4, 5]
    assert max(len(torch.empty(n).split(_chunk_rows(n, "cuda"))) for n in range(100)) == CHUNKS


compiles = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile uses what PyTorch deprecates


@compiles
@pytest.mark.slow
@pytest.mark.skipif(shutil.which(CXX) is None, reason=f"torch.compile needs the C++ compiler {CXX}, which is not here")
@pytest.mark.parametrize(
    ("autocast", "backend"),
    [(False, "aot_eager"), (True, "inductor"), pytest.param(False, "inductor", marks=pytest.mark.soak)],
)
def test_compiles_as_one_graph(autocast: bool, backend: str) -> None:
    x, weight, target = example(rows=13)
    compiled = torch.compile(linear_label_smoothed_cross_entropy, fullgraph=True, backend=backend)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        ours, eager = (
            with_gradients(f(x, weight, target, 0.1, PAD), x, weight)
            for f in (compiled, linear_label_smoothed_cross_entropy)
        )
    for a, b in zip(ours, eager, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2 if autocast else 1e-5, atol=1e-2 if autocast else 1e-5)


@compiles
def test_another_batch_size_with_as_many_chunks_needs_no_recompilation() -> None:
    x, weight, target = example()
    compiled = torch.compile(linear_label_smoothed_cross_entropy, fullgraph=True, dynamic=True, backend="aot_eager")
    compiled(x, weight, target)
    some, target = x.detach()[:42].requires_grad_(), target[:42]
    with torch.compiler.set_stance("fail_on_recompile"):
        ours = with_gradients(compiled(some, weight, target), some, weight)
    eager = with_gradients(linear_label_smoothed_cross_entropy(some, weight, target), some, weight)
    torch.testing.assert_close(ours, eager)


@forms
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"smoothing": 1.0}, "smoothing must be at least 0 and less than 1; got 1.0"),
        ({"smoothing": -0.1}, "smoothing must be at least 0 and less than 1; got -0.1"),
        ({"pad_id": 37}, "pad_id must be a token id from 0 to 36, or None; got 37"),
        ({"target": torch.full((44,), 37)}, "target must hold token ids from 0 to 36; got 37"),
        ({"target": torch.full((44,), -1)}, "target must hold token ids from 0 to 36; got -1"),
        ({"target": torch.zeros(43, dtype=torch.int64)}, "target must be int64, with one id for each row of (44, "),
        ({"target": torch.zeros(44)}, "got torch.float32, (44,)"),
    ],
)
def test_wrong_arguments_are_rejected(loss: Loss, settings: dict[str, Any], message: str) -> None:
    x, weight, target = example()
    with pytest.raises(ValueError, match=re.escape(message)):
        loss(x, weight, **{"target": target, **settings})


def test_wrong_shapes_are_rejected() -> None:
    x, weight, target = example()
    with pytest.raises(ValueError, match=re.escape("got (44, 15) and (37, 16)")):
        linear_label_smoothed_cross_entropy(x[:, :15], weight, target)
    with pytest.raises(ValueError, match=re.escape("got (4, 11, 16) and (37, 16)")):
        linear_label_smoothed_cross_entropy(x.view(4, 11, 16), weight, target)
    with pytest.raises(ValueError, match=re.escape("logits must be (tokens, vocab_size); got (4, 11, 37): flatten")):
        label_smoothed_cross_entropy(torch.zeros(4, 11, VOCAB), target.view(4, 11))
